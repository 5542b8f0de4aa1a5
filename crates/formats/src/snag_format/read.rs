//! Reading `.snag` as a stream.
//!
//! A block is read and its checksum compared as a whole. Recorded events are then handed out in pieces, while they are decoded.

use super::entries::{self, End, Known};
use super::packing::Packing;
use super::recorded::Decoder;
use super::{BLOCK_HEADER, BlockHeader, Entry, FILE_HEADER, Kind, MAGIC, OLDEST_VERSION, VERSION, columns, u32_at};
use crate::error::{Error, Position, Result};
use crate::reader::BlockReader;
use snag_model::events::Events;
use snag_model::tables::Tables;
use std::io::{ErrorKind, Read, Seek};

/// So many recorded events are handed out at once, if nothing else is said: few enough to stay in the processor's cache.
const PIECE: usize = 1 << 13;

/// Reads `.snag` from any stream.
pub struct SnagReader<R> {
    pub(super) input: R,
    /// Byte of the input at which the next block starts; 0 before the file header was read.
    pub(super) offset: u64,
    /// What the file says it is.
    version: u32,
    /// Events read or passed over.
    pub(super) count: u64,
    /// Blocks that start before this byte have told their names and comments.
    pub(super) told: u64,
    /// What was read, to be compared with the index; `None` if blocks were passed over.
    pub(super) seen: Option<Vec<Entry>>,
    /// Where the index stands, once it was read.
    index: Option<u64>,
    ended: bool,
    known: Known,
    stored: Buffer,
    plain: Vec<u8>,
    /// The block of recorded events that is being read, of which the payload is in `stored` or `plain`.
    open: Option<(BlockHeader, Decoder)>,
    /// How many of them are read at once.
    piece: usize,
    warnings: Vec<String>,
    /// Whether it was said that the recording is cut off.
    warned: bool,
}

/// A buffer that keeps its length, so that it is cleared once and not for every block.
#[derive(Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
}

/// The input ended before a block did.
pub(super) struct CutOff;

impl Buffer {
    /// The next `length` bytes of the input, or as many as there are. Memory grows only as bytes arrive.
    fn fill(&mut self, input: &mut impl Read, length: usize) -> std::io::Result<&[u8]> {
        let mut filled = 0;
        while filled < length {
            if filled == self.bytes.len() {
                self.bytes.resize(length.min((2 * filled).max(1 << 16)), 0);
            }
            let end = length.min(self.bytes.len());
            match input.read(&mut self.bytes[filled..end]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(&self.bytes[..filled])
    }
}

/// Reads the payload of the block at `offset`, checks it and, if it is wanted, decompresses it.
fn payload<'b>(
    input: &mut impl Read,
    (header, unpack): (&BlockHeader, bool),
    offset: u64,
    stored: &'b mut Buffer,
    plain: &'b mut Vec<u8>,
) -> Result<std::result::Result<&'b [u8], CutOff>> {
    let error = |message: String| Err(Error::new(Position::Offset(offset), message));
    let stored = match stored.fill(input, header.stored) {
        Ok(stored) => stored,
        Err(e) => return error(format!("cannot read on: {e}")),
    };
    if stored.len() < header.stored {
        return Ok(Err(CutOff));
    }
    if crc32fast::hash(stored) != header.crc {
        return error("the checksum of the block is wrong: the file is damaged".to_owned());
    }
    if header.packing == Packing::Plain {
        return Ok(Ok(stored));
    }
    if !unpack {
        return Ok(Ok(&[]));
    }
    if plain.len() < header.plain {
        plain.resize(header.plain, 0);
    }
    let plain = &mut plain[..header.plain];
    match header.packing.unpack(stored, plain) {
        Ok(()) => Ok(Ok(plain)),
        Err(message) => error(message),
    }
}

impl<R: Read> SnagReader<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> SnagReader<R> {
        SnagReader {
            input,
            offset: 0,
            version: VERSION,
            count: 0,
            told: 0,
            seen: Some(Vec::new()),
            index: None,
            ended: false,
            known: Known::default(),
            stored: Buffer::default(),
            plain: Vec::new(),
            open: None,
            piece: PIECE,
            warnings: Vec::new(),
            warned: false,
        }
    }

    /// Hands out blocks of events as they are stored.
    pub(super) fn by_whole_blocks(self) -> SnagReader<R> {
        SnagReader { piece: usize::MAX, ..self }
    }

    /// Some of the events of a recording will be read, in another way.
    pub(super) fn partly(mut self) -> Result<SnagReader<R>> {
        self.seen = None;
        self.read_file_header()?;
        self.known.events_are_recorded(true).or_else(|message| Self::error(self.offset, message))?;
        Ok(self)
    }

    /// An error in the block at `offset`.
    pub(super) fn error<T>(offset: u64, message: impl Into<String>) -> Result<T> {
        Err(Error::new(Position::Offset(offset), message))
    }

    fn unreadable(offset: u64, error: std::io::Error) -> Error {
        Error::new(Position::Offset(offset), format!("cannot read on: {error}"))
    }

    /// Reads and checks the first bytes of the file.
    pub(super) fn read_file_header(&mut self) -> Result<()> {
        let bytes = self.stored.fill(&mut self.input, FILE_HEADER).map_err(|e| Self::unreadable(0, e))?;
        if bytes.is_empty() {
            return Err(Error::new(Position::Whole, "the input is empty; a trace has at least one event"));
        }
        if !bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())]) {
            let mangled = bytes.starts_with(b"SNAG\n") || bytes.starts_with(b"SNAG\r\r");
            return Self::error(
                0,
                match mangled {
                    true => "the first bytes are those of a .snag file that was transferred as if it were text",
                    false => "the first bytes are not those of a .snag file",
                },
            );
        }
        if bytes.len() < FILE_HEADER {
            return Self::error(0, "the recording is cut off inside the file header; nothing can be read");
        }
        if crc32fast::hash(&bytes[..12]) != u32_at(bytes, 12) {
            return Self::error(0, "the checksum of the file header is wrong: the file is damaged");
        }
        let version = u32_at(bytes, 8);
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            let known = format!("versions {OLDEST_VERSION} to {VERSION}");
            return Self::error(
                0,
                format!("version {version} of .snag is not known to this snag, which reads {known}"),
            );
        }
        self.offset = FILE_HEADER as u64;
        self.version = version;
        Ok(())
    }

    /// The header of the next block; `None` at the end of the input.
    pub(super) fn read_header(&mut self) -> Result<std::result::Result<BlockHeader, CutOff>> {
        let offset = self.offset;
        let bytes = self.stored.fill(&mut self.input, BLOCK_HEADER).map_err(|e| Self::unreadable(offset, e))?;
        let Ok(bytes) = bytes.try_into() else { return Ok(Err(CutOff)) };
        let header = BlockHeader::decode(bytes).or_else(|message| Self::error(offset, message))?;
        match (self.version, header.kind, header.packing) {
            (1, Kind::Recorded, _) | (1, _, Packing::Zstd) => {
                return Self::error(offset, "a block that files of version 1 do not have");
            }
            (2, Kind::Recorded, _) => {
                let message =
                    "recorded by an earlier snag, whose recordings (version 2) are not read any more: record again";
                return Self::error(offset, message);
            }
            _ => {}
        }
        Ok(Ok(header))
    }

    /// The payload of the block whose header was just read.
    pub(super) fn read_payload(&mut self, header: &BlockHeader) -> Result<std::result::Result<&[u8], CutOff>> {
        payload(&mut self.input, (header, true), self.offset, &mut self.stored, &mut self.plain)
    }

    /// Goes behind the payload of the block whose header was just read, without reading it.
    pub(super) fn skip_payload(&mut self, header: &BlockHeader) -> Result<()>
    where
        R: Seek,
    {
        let offset = self.offset;
        self.input.seek_relative(header.stored as i64).map_err(|e| Self::unreadable(offset, e))
    }

    /// Notes that the next block has been read or passed over.
    pub(super) fn pass(&mut self, header: &BlockHeader) {
        // The index does not list itself, nor what follows it.
        if let (Some(seen), false) = (&mut self.seen, matches!(header.kind, Kind::Index | Kind::End)) {
            seen.push(Entry { kind: header.kind, offset: self.offset, events: header.events as u64 });
        }
        self.offset += (BLOCK_HEADER + header.stored) as u64;
        self.told = self.told.max(self.offset);
        self.count += header.events as u64;
    }

    /// Reads the payload of a block and does what it says.
    pub(super) fn read_body(
        &mut self,
        header: &BlockHeader,
        tables: &mut Tables,
        events: &mut Events,
    ) -> Result<std::result::Result<(), CutOff>> {
        let (offset, count, told) = (self.offset, self.count, self.told > self.offset);
        if self.index.is_some() && header.kind != Kind::End {
            return Self::error(offset, "a block after the index that is not the end");
        }
        // Nobody needs what is in these blocks here.
        let wanted = (header, !matches!(header.kind, Kind::Extra | Kind::Contended));
        let payload = match payload(&mut self.input, wanted, offset, &mut self.stored, &mut self.plain)? {
            Ok(payload) => payload,
            Err(cut_off) => return Ok(Err(cut_off)),
        };
        let wrong = |message: String| Error::new(Position::Offset(offset), message);
        match header.kind {
            Kind::Names | Kind::Comments if told => {}
            Kind::Names => {
                self.known.read_names(payload, tables).map_err(wrong)?;
                tables.check_room(count, 0).map_err(wrong)?;
            }
            Kind::Comments => {
                entries::read_comments(payload, count, tables).map_err(wrong)?;
                tables.check_room(count, 0).map_err(wrong)?;
            }
            Kind::Events => {
                self.known.events_are_recorded(false).map_err(wrong)?;
                let from = events.len();
                columns::decode(payload, header.events, events).map_err(wrong)?;
                self.known.find_sets(events, from, tables);
                self.known.events_read(tables);
            }
            Kind::Recorded => {
                self.known.events_are_recorded(true).map_err(wrong)?;
                let decoder = Decoder::new(payload, header.events).map_err(wrong)?;
                self.open = Some((*header, decoder));
                return self.read_piece(tables, events).map(Ok);
            }
            Kind::Extra | Kind::Contended => {}
            Kind::Index => {
                // Without what was seen, as many as have room before it.
                let most = self.seen.as_ref().map_or(offset as usize / BLOCK_HEADER, Vec::len);
                let index = entries::read_index(payload, most).map_err(wrong)?;
                self.check_index(&index)?;
                self.index = Some(offset);
            }
            Kind::End => {
                let end = End::decode(payload).map_err(wrong)?;
                self.check_end(&end, tables)?;
            }
        }
        self.pass(header);
        Ok(Ok(()))
    }

    /// Reads on in a block of recorded events.
    fn read_piece(&mut self, tables: &mut Tables, events: &mut Events) -> Result<()> {
        let Some((header, mut decoder)) = self.open.take() else { return Ok(()) };
        let payload = match header.packing {
            Packing::Plain => &self.stored.bytes[..header.stored],
            _ => &self.plain[..header.plain],
        };
        let from = events.len();
        if let Err(message) = decoder.read(payload, self.piece, tables, events) {
            self.ended = true;
            return Self::error(self.offset, message);
        }
        self.known.find_sets(events, from, tables);
        if decoder.left() > 0 {
            self.open = Some((header, decoder));
            return Ok(());
        }
        self.known.events_read(tables);
        self.pass(&header);
        Ok(())
    }

    /// Gives events that were read in another way the sets that their methods mean.
    pub(super) fn find_sets(&self, events: &mut Events, from: usize, tables: &Tables) {
        self.known.find_sets(events, from, tables);
    }

    /// Prepares for reading from another block on.
    pub(super) fn restart_at_blocks(&mut self) {
        self.open = None;
        self.seen = None;
        self.index = None;
        self.ended = false;
    }

    fn check_index(&self, index: &[Entry]) -> Result<()> {
        match &self.seen {
            Some(seen) if seen != index => Self::error(self.offset, "the index does not agree with the blocks"),
            _ => Ok(()),
        }
    }

    fn check_end(&mut self, end: &End, tables: &mut Tables) -> Result<()> {
        if end.events != self.count {
            return Self::error(self.offset, format!("the file holds {} events instead of {}", self.count, end.events));
        }
        if end.events == 0 {
            return Self::error(self.offset, "there is no event; a trace has at least one event");
        }
        if self.seen.is_some() && end.index != self.index.unwrap_or(0) {
            return Self::error(self.offset, "the end block gives a wrong place for the index");
        }
        if tables.comments.last().is_some_and(|c| c.0 > end.events) {
            return Self::error(self.offset, "there is a comment beyond the last event");
        }
        tables.layout = end.layout;
        Ok(())
    }

    /// Nothing may follow the end block.
    fn check_nothing_follows(&mut self) -> Result<()> {
        let offset = self.offset;
        let more = self.stored.fill(&mut self.input, 1).map_err(|e| Self::unreadable(offset, e))?;
        if more.is_empty() { Ok(()) } else { Self::error(offset, "there is something after the end of the recording") }
    }

    fn cut_off(&mut self, tables: &mut Tables) -> Result<()> {
        let (count, offset) = (self.count, self.offset);
        if count == 0 {
            return Self::error(offset, "the recording is cut off before its first whole block of events");
        }
        while tables.comments.last().is_some_and(|c| c.0 > count) {
            tables.comments.pop();
        }
        if std::mem::replace(&mut self.warned, true) {
            return Ok(());
        }
        self.warnings.push(format!(
            "the recording is cut off after event {} (byte {offset}): what was recorded later is lost, as when the \
             program is killed or the disk is full",
            count - 1
        ));
        Ok(())
    }
}

impl<R: Read + Send> BlockReader for SnagReader<R> {
    fn read_block(&mut self, tables: &mut Tables, events: &mut Events) -> Result<bool> {
        let before = events.len();
        let more = self.read_some(tables, events);
        if more.is_err() {
            // What a damaged block seems to say is not to be relied on. Pieces of it that were handed out before were whole.
            events.truncate(before);
        }
        more
    }

    fn position_of(&self, event: usize) -> Position {
        Position::Event(event as u64)
    }

    fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    fn is_cut_off(&self) -> bool {
        self.warned
    }
}

impl<R: Read + Send> SnagReader<R> {
    /// Blocks up to one with events, or some of its events.
    fn read_some(&mut self, tables: &mut Tables, events: &mut Events) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.open.is_some() {
            return self.read_piece(tables, events).map(|()| true);
        }
        if self.offset == 0 {
            self.read_file_header()?;
        }
        loop {
            let body = match self.read_header()? {
                Ok(header) => self.read_body(&header, tables, events)?.map(|()| header.kind),
                Err(cut_off) => Err(cut_off),
            };
            match body {
                Ok(kind) if kind.has_events() => return Ok(true),
                Ok(Kind::End) => {
                    self.ended = true;
                    self.check_nothing_follows()?;
                    return Ok(false);
                }
                Ok(_) => {}
                Err(CutOff) => {
                    self.ended = true;
                    self.cut_off(tables)?;
                    return Ok(false);
                }
            }
        }
    }
}
