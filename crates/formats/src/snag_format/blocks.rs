//! The blocks of a `.snag` file, written one after the other.

use super::packing::{Packer, Packing};
use super::{BLOCK_HEADER, BlockHeader, Entry, FILE_HEADER, Kind, LONGEST_PAYLOAD, MAGIC, VERSION, entries, u32_at};
use crate::error::{Error, Position, Result};
use snag_model::tables::Layout;
use std::io::Write;

/// Writes payloads as blocks: compresses them, adds checksums, keeps the index.
pub(super) struct Blocks<W> {
    out: W,
    packer: Packer,
    /// Bytes written.
    offset: u64,
    /// Events written.
    count: u64,
    entries: Vec<Entry>,
}

impl<W: Write> Blocks<W> {
    pub(super) fn new(out: W, packing: Packing) -> Blocks<W> {
        Blocks { out, packer: Packer::new(packing), offset: 0, count: 0, entries: Vec::new() }
    }

    /// Events written so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    fn header(&mut self) -> Result<()> {
        if self.offset > 0 {
            return Ok(());
        }
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&crc32fast::hash(&header).to_le_bytes());
        self.offset = FILE_HEADER as u64;
        self.out.write_all(&header).map_err(cannot_write)
    }

    /// Writes a block, after the header of the file if it is the first.
    pub(super) fn write(&mut self, kind: Kind, events: usize, payload: &[u8]) -> Result<()> {
        self.write_parts(kind, events, payload, &[])
    }

    /// The same for a payload of several parts, of which the ends are given: each is like those in the same place of others.
    pub(super) fn write_parts(&mut self, kind: Kind, events: usize, payload: &[u8], parts: &[usize]) -> Result<()> {
        self.header()?;
        if payload.len() > LONGEST_PAYLOAD {
            let message = format!("cannot be written: a block would be longer than {LONGEST_PAYLOAD} bytes");
            return Err(Error::new(Position::Event(self.count), message));
        }
        let (packing, stored) = match kind {
            Kind::End => (Packing::Plain, payload),
            _ => self.packer.pack(payload, parts),
        };
        let header = BlockHeader {
            kind,
            packing,
            stored: stored.len(),
            plain: payload.len(),
            events,
            crc: crc32fast::hash(stored),
        };
        self.out.write_all(&header.encode()).map_err(cannot_write)?;
        self.out.write_all(stored).map_err(cannot_write)?;
        if !matches!(kind, Kind::Index | Kind::End) {
            self.entries.push(Entry { kind, offset: self.offset, events: events as u64 });
        }
        self.offset += (BLOCK_HEADER + stored.len()) as u64;
        self.count += events as u64;
        Ok(())
    }

    pub(super) fn into_inner(self) -> W {
        self.out
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(cannot_write)
    }

    /// Writes the index and the end, and hands out the writer.
    pub(super) fn finish(mut self, layout: Layout) -> Result<W> {
        self.header()?;
        let index = self.offset;
        self.write(Kind::Index, 0, &entries::index(&self.entries))?;
        let end = entries::End { events: self.count, index, layout };
        self.write(Kind::End, 0, &end.encode())?;
        self.flush()?;
        Ok(self.out)
    }
}

fn cannot_write(error: std::io::Error) -> Error {
    Error::new(Position::Whole, format!("cannot write: {error}"))
}

/// The bytes of a `.snag` file with all checksums made right, as far as its blocks can be followed. For tests that damage
/// files and want to get past the checksums.
pub fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() < FILE_HEADER {
        return bytes;
    }
    let crc = crc32fast::hash(&bytes[..12]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    let mut at = FILE_HEADER;
    while bytes.len() - at >= BLOCK_HEADER {
        let stored = u32_at(&bytes, at + 4) as usize;
        let body = at + BLOCK_HEADER;
        let end = body.saturating_add(stored).min(bytes.len());
        let crc = crc32fast::hash(&bytes[body..end]);
        bytes[at + 16..at + 20].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[at..at + 20]);
        bytes[at + 20..body].copy_from_slice(&crc.to_le_bytes());
        at = end;
    }
    bytes
}
