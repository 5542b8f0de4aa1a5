//! Snag's binary format `.snag`: what recording and benchmarks use.
//!
//! Guarantees: every byte is covered by a checksum; names come before the events that use them, so that a trace can be
//! read from a pipe; each block of events decodes on its own given the names; an index lets a reader seek; a file that
//! is cut off is read up to its last whole block, with a warning. Whatever the input, a block makes the reader allocate
//! at most some 256 MiB, and no input makes it panic.
//!
//! ```text
//! file   = header block* [index] end
//! header = magic (8 bytes)  version u32  crc32 of these 12 bytes
//! block  = kind u8  compression u8  0u16  payload-length u32  plain-length u32  events u32
//!          crc32 of the payload  crc32 of these 20 bytes  payload
//! ```
//!
//! All numbers are little endian. The payloads are described in `docs/formats.md`, and written and read by the
//! submodules `columns` and `recorded` (events) and `entries` (names, declarations, comments, index, end).

mod blocks;
mod columns;
mod contended;
mod entries;
mod extra;
mod file;
mod numbers;
mod packing;
mod read;
mod recorded;
mod recording;
mod write;

pub use blocks::repaired;
pub use contended::{Contended, Late, Numbers, Touched};
pub use extra::{Extra, read_extras};
pub use file::SnagFile;
pub use read::SnagReader;
pub use recorded::{AccessOf, Batch, Noted, RecordedEvent, Spot, SpotId};
pub use recording::RecordingWriter;
pub use write::SnagWriter;

use packing::Packing;

/// The first bytes of a file. As with PNG, the line ends in it do not survive a transfer as text.
pub const MAGIC: [u8; 8] = *b"SNAG\r\n\x1a\n";

/// The version this code writes. It reads version 1, too, which has neither recorded events nor zstd, and version 2, but for recorded
/// events, which were written in another way, and version 3, which has neither fences nor failed attempts.
pub const VERSION: u32 = 4;

/// The oldest version that is read.
const OLDEST_VERSION: u32 = 1;

/// Length of the file header.
const FILE_HEADER: usize = 16;

/// Length of a block's header.
const BLOCK_HEADER: usize = 24;

/// Most events in a block.
pub const BLOCK_EVENTS: usize = 1 << 16;

/// Most recorded events in a block. Guessing starts anew in each, so that larger ones are smaller and sooner done.
pub const RECORDED_EVENTS: usize = 1 << 18;

/// Longest payload, as stored and as decompressed.
const LONGEST_PAYLOAD: usize = 64 << 20;

/// What a block holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    /// New names, variables, reach sets and declarations.
    Names = 1,
    /// Events.
    Events = 2,
    /// Comment lines of a text.
    Comments = 3,
    /// Where the blocks are; only before the end.
    Index = 4,
    /// Something that prediction does not need: what recording knows beside the events. Passed over by readers of events.
    Extra = 6,
    /// Events as a program was recorded: by address.
    Recorded = 7,
    /// Which recorded events other threads can interfere with: see [`contended`]. Passed over by readers of all events.
    Contended = 8,
    /// Number of events, layout, where the index is. Always [`END_LENGTH`] long, so that it can be found from behind.
    End = 5,
}

/// Payload of the end block.
const END_LENGTH: usize = 24;

impl Kind {
    fn from_code(code: u8) -> Option<Kind> {
        [
            Kind::Names,
            Kind::Events,
            Kind::Comments,
            Kind::Index,
            Kind::End,
            Kind::Extra,
            Kind::Recorded,
            Kind::Contended,
        ]
        .into_iter()
        .find(|k| *k as u8 == code)
    }

    fn has_events(self) -> bool {
        matches!(self, Kind::Events | Kind::Recorded)
    }
}

/// The head of a block, without checksums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct BlockHeader {
    kind: Kind,
    /// How the payload is compressed.
    packing: Packing,
    /// Length of the payload as stored.
    stored: usize,
    /// Its length when decompressed.
    plain: usize,
    /// Events in it; 0 unless it is a block of events.
    events: usize,
    /// CRC-32 of the payload as stored.
    crc: u32,
}

impl BlockHeader {
    fn encode(&self) -> [u8; BLOCK_HEADER] {
        let mut bytes = [0; BLOCK_HEADER];
        bytes[0] = self.kind as u8;
        bytes[1] = self.packing as u8;
        for (at, field) in [(4, self.stored as u32), (8, self.plain as u32), (12, self.events as u32), (16, self.crc)] {
            bytes[at..at + 4].copy_from_slice(&field.to_le_bytes());
        }
        let crc = crc32fast::hash(&bytes[..20]);
        bytes[20..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; BLOCK_HEADER]) -> Result<BlockHeader, String> {
        let field = |at: usize| u32_at(bytes, at);
        if crc32fast::hash(&bytes[..20]) != field(20) {
            return Err("the checksum of the block's header is wrong: the file is damaged".to_owned());
        }
        let Some(kind) = Kind::from_code(bytes[0]) else { return Err(format!("unknown kind of block {}", bytes[0])) };
        let packing =
            Packing::from_code(bytes[1]).ok_or_else(|| format!("unknown compression {} of a block", bytes[1]))?;
        if bytes[2..4] != [0, 0] {
            return Err("bytes of the block's header that must be zero are not".to_owned());
        }
        let header = BlockHeader {
            kind,
            packing,
            stored: field(4) as usize,
            plain: field(8) as usize,
            events: field(12) as usize,
            crc: field(16),
        };
        header.check_lengths()?;
        Ok(header)
    }

    fn check_lengths(&self) -> Result<(), String> {
        if self.stored > LONGEST_PAYLOAD || self.plain > LONGEST_PAYLOAD {
            return Err(format!("the block is longer than {LONGEST_PAYLOAD} bytes"));
        }
        if !self.packing.can_hold(self.stored, self.plain) {
            return Err(format!("a block of {} bytes cannot hold {}", self.stored, self.plain));
        }
        match self.kind {
            kind if kind.has_events() => {
                let most = if kind == Kind::Recorded { RECORDED_EVENTS } else { BLOCK_EVENTS };
                match self.events {
                    events if (1..=most).contains(&events) => Ok(()),
                    events => Err(format!("a block of {events} events: expected 1 to {most}")),
                }
            }
            _ if self.events != 0 => Err("a block without events claims to have some".to_owned()),
            Kind::End if self.packing != Packing::Plain || self.plain != END_LENGTH => {
                Err(format!("the end block is not {END_LENGTH} plain bytes"))
            }
            _ => Ok(()),
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Numbers of either sign as numbers that are small if they are near zero: 0, -1, 1, -2, … become 0, 1, 2, 3, …
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(code: u64) -> i64 {
    (code >> 1) as i64 ^ -((code & 1) as i64)
}

/// Where a block is and what it holds: an entry of the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    kind: Kind,
    /// Byte at which the block starts.
    offset: u64,
    /// Events in it.
    events: u64,
}
