//! Writing `.snag`.

use super::entries::{self, End, Written};
use super::{
    BLOCK_EVENTS, BLOCK_HEADER, BlockHeader, Entry, FILE_HEADER, Kind, LONGEST_PAYLOAD, MAGIC, VERSION, columns, u32_at,
};
use crate::error::{Error, Position, Result};
use crate::events::Events;
use crate::tables::Tables;
use std::io::Write;
use std::ops::Range;

/// Writes `.snag`.
pub struct SnagWriter<W> {
    out: W,
    /// Whether blocks are compressed where that pays.
    compress: bool,
    /// Bytes written.
    offset: u64,
    /// Events written.
    count: u64,
    /// Events that do not fill a block yet.
    pending: Events,
    tables: Written,
    entries: Vec<Entry>,
    payload: Vec<u8>,
    compressed: Vec<u8>,
}

impl<W: Write> SnagWriter<W> {
    /// Writes to `out`. With `compress`, blocks that LZ4 shrinks by more than a quarter are stored compressed.
    pub fn new(out: W, compress: bool) -> SnagWriter<W> {
        SnagWriter {
            out,
            compress,
            offset: 0,
            count: 0,
            pending: Events::new(),
            tables: Written::new(),
            entries: Vec::new(),
            payload: Vec::new(),
            compressed: Vec::new(),
        }
    }

    /// Writes the next events; some stay in memory until they fill a block.
    pub fn write(&mut self, events: &Events, tables: &Tables) -> Result<()> {
        let mut from = 0;
        while from < events.len() {
            let left = events.len() - from;
            if self.pending.is_empty() && left >= BLOCK_EVENTS {
                self.events(events, from..from + BLOCK_EVENTS, tables)?;
                from += BLOCK_EVENTS;
                continue;
            }
            let more = left.min(BLOCK_EVENTS - self.pending.len());
            self.pending.extend_from(events, from..from + more);
            from += more;
            if self.pending.len() == BLOCK_EVENTS {
                self.flush(tables)?;
            }
        }
        Ok(())
    }

    /// Writes a block that readers of events pass over, after the events written so far. Nothing may be pending: call
    /// [`SnagWriter::flush`] before.
    pub fn extra(&mut self, payload: &[u8]) -> Result<()> {
        debug_assert!(self.pending.is_empty());
        self.header()?;
        self.payload.clear();
        self.payload.extend_from_slice(payload);
        self.block(Kind::Extra, 0)
    }

    /// Writes the events that are still in memory, as a block that may be small.
    pub fn flush(&mut self, tables: &Tables) -> Result<()> {
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            self.events(&pending, 0..pending.len(), tables)?;
            self.pending = pending;
            self.pending.restart(0);
        }
        self.out.flush().map_err(cannot_write)
    }

    /// Writes what is left, the index and the end, and hands out the writer.
    pub fn finish(mut self, tables: &Tables) -> Result<W> {
        self.flush(tables)?;
        self.header()?;
        self.new_entries(tables)?;
        let index = self.offset;
        self.payload = entries::index(&self.entries);
        self.block(Kind::Index, 0)?;
        let end = End { events: self.count, index, layout: tables.layout };
        self.payload.clear();
        self.payload.extend_from_slice(&end.encode());
        self.block(Kind::End, 0)?;
        self.out.flush().map_err(cannot_write)?;
        Ok(self.out)
    }

    fn events(&mut self, events: &Events, range: Range<usize>, tables: &Tables) -> Result<()> {
        self.header()?;
        self.new_entries(tables)?;
        self.tables.events_follow(tables);
        self.payload.clear();
        let count = range.len();
        columns::encode(events, range, &mut self.payload);
        self.block(Kind::Events, count)?;
        self.count += count as u64;
        Ok(())
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

    /// Writes the names and comments that came since the last time.
    fn new_entries(&mut self, tables: &Tables) -> Result<()> {
        let count = self.count;
        let wrong = |message: String| Error::new(Position::Event(count), format!("cannot be written: {message}"));
        while self.tables.next_names(tables, &mut self.payload).map_err(wrong)? {
            self.block(Kind::Names, 0)?;
        }
        while self.tables.next_comments(tables, count, &mut self.payload).map_err(wrong)? {
            self.block(Kind::Comments, 0)?;
        }
        Ok(())
    }

    /// Writes `payload` as a block.
    fn block(&mut self, kind: Kind, events: usize) -> Result<()> {
        if self.payload.len() > LONGEST_PAYLOAD {
            let message = format!("cannot be written: a block would be longer than {LONGEST_PAYLOAD} bytes");
            return Err(Error::new(Position::Event(self.count), message));
        }
        let lz4 = self.compress && kind != Kind::End && self.shrinks();
        let stored = if lz4 { &self.compressed } else { &self.payload };
        let header = BlockHeader {
            kind,
            lz4,
            stored: stored.len(),
            plain: self.payload.len(),
            events,
            crc: crc32fast::hash(stored),
        };
        self.out.write_all(&header.encode()).map_err(cannot_write)?;
        self.out.write_all(stored).map_err(cannot_write)?;
        if !matches!(kind, Kind::Index | Kind::End) {
            self.entries.push(Entry { kind, offset: self.offset, events: events as u64 });
        }
        self.offset += (BLOCK_HEADER + stored.len()) as u64;
        Ok(())
    }

    /// Compresses `payload`; true if that makes it smaller by more than a quarter.
    fn shrinks(&mut self) -> bool {
        let room = lz4_flex::block::get_maximum_output_size(self.payload.len());
        self.compressed.resize(room, 0);
        match lz4_flex::block::compress_into(&self.payload, &mut self.compressed) {
            Ok(length) => {
                self.compressed.truncate(length);
                length < self.payload.len() / 4 * 3
            }
            Err(_) => false,
        }
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
