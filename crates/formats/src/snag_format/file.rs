//! A `.snag` file in which one can go to any event.

use super::entries::{self, End};
use super::{BLOCK_HEADER, BlockHeader, END_LENGTH, Entry, FILE_HEADER, Kind, RECORDED_EVENTS, SnagReader};
use crate::error::{Error, Position, Result};
use crate::reader::BlockReader;
use snag_model::events::Events;
use snag_model::tables::Tables;
use snag_model::validate::Validator;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A `.snag` file, to be read from any event on.
///
/// The rules of the model are not checked, as they need all events from the first; that every id stands for something
/// is. Names known are those of all blocks up to the one read last.
pub struct SnagFile {
    reader: SnagReader<File>,
    /// Names of what was read so far.
    pub tables: Tables,
    /// All blocks in order, if the file has an index.
    index: Option<Vec<Entry>>,
    /// Length of the file in bytes.
    length: u64,
    /// Events of the next block that are to be left out.
    skip: usize,
    path: PathBuf,
}

impl SnagFile {
    /// Opens a file and finds its index, if it has one.
    pub fn open(path: &Path) -> Result<SnagFile> {
        SnagFile::open_unnamed(path).map_err(|e| e.in_file(path))
    }

    fn open_unnamed(path: &Path) -> Result<SnagFile> {
        let cannot_open =
            |e: std::io::Error| Error::new(Position::Whole, format!("cannot open: {}", crate::open::why(&e)));
        let file = File::open(path).map_err(cannot_open)?;
        let metadata = file.metadata().map_err(cannot_open)?;
        if metadata.is_dir() {
            return Err(Error::new(Position::Whole, "is a directory, not a trace"));
        }
        let mut file = SnagFile {
            reader: SnagReader::new(file).by_whole_blocks(),
            tables: Tables::new(),
            index: None,
            length: metadata.len(),
            skip: 0,
            path: path.to_owned(),
        };
        file.reader.read_file_header()?;
        file.index = file.find_index()?;
        file.go(FILE_HEADER as u64)?;
        Ok(file)
    }

    /// Whether the file has an index. Without, going to an event reads the head of every block before it.
    pub fn has_index(&self) -> bool {
        self.index.is_some()
    }

    /// Number of events, if the file has an index.
    pub fn event_count(&self) -> Option<u64> {
        self.index.as_ref().map(|index| index.iter().map(|e| e.events).sum())
    }

    /// The index, if the last bytes of the file are an end block that says where it is.
    fn find_index(&mut self) -> Result<Option<Vec<Entry>>> {
        let end_block = (BLOCK_HEADER + END_LENGTH) as u64;
        let Some(at) = self.length.checked_sub(end_block).filter(|&at| at >= FILE_HEADER as u64) else {
            return Ok(None);
        };
        let Some(end) = self.block_at(at, Kind::End, End::decode)? else { return Ok(None) };
        if end.index < FILE_HEADER as u64 || end.index >= at {
            return Ok(None);
        }
        // A block has at least a header.
        let most = usize::try_from(end.index / BLOCK_HEADER as u64).unwrap_or(usize::MAX);
        let read = |payload: &[u8]| entries::read_index(payload, most);
        let Some(index) = self.block_at(end.index, Kind::Index, read)? else { return Ok(None) };
        let in_order = index.windows(2).all(|pair| pair[0].offset < pair[1].offset);
        let inside = index.last().is_none_or(|last| last.offset < end.index);
        let counted = index.iter().all(|entry| entry.events <= RECORDED_EVENTS as u64);
        Ok((in_order && inside && counted).then_some(index))
    }

    /// Decodes the block at a place, if there is a sound one of this kind.
    fn block_at<T>(
        &mut self,
        at: u64,
        kind: Kind,
        decode: impl Fn(&[u8]) -> std::result::Result<T, String>,
    ) -> Result<Option<T>> {
        self.go(at)?;
        match self.reader.read_header() {
            Ok(Ok(header)) if header.kind == kind => match self.reader.read_payload(&header) {
                Ok(Ok(payload)) => Ok(decode(payload).ok()),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    fn go(&mut self, offset: u64) -> Result<()> {
        let seek = self.reader.input.seek(SeekFrom::Start(offset));
        self.reader.offset = offset;
        seek.map_err(|e| Error::new(Position::Offset(offset), format!("cannot seek: {e}"))).map(|_| ())
    }

    /// Makes event `number` the first one that [`SnagFile::next_block`] hands out. The number of events is a valid
    /// place: nothing follows it.
    pub fn seek_to_event(&mut self, number: u64) -> Result<()> {
        self.reader.restart_at_blocks();
        self.skip = 0;
        let found = match self.index.take() {
            Some(index) => {
                let found = self.seek_by_index(&index, number);
                self.index = Some(index);
                found
            }
            None => self.seek_by_scan(number),
        };
        found.map_err(|e| e.in_file(&self.path))
    }

    fn seek_by_index(&mut self, index: &[Entry], number: u64) -> Result<()> {
        self.reader.count = 0;
        for entry in index {
            if entry.kind.has_events() {
                if self.reader.count + entry.events > number {
                    self.skip = (number - self.reader.count) as usize;
                    return self.go(entry.offset);
                }
                self.reader.count += entry.events;
            } else if entry.offset >= self.reader.told {
                self.go(entry.offset)?;
                self.read_entries(entry)?;
            }
        }
        let end = index.last().map_or(FILE_HEADER as u64, |last| last.offset);
        self.go(end)?;
        if !index.is_empty() {
            let header = self.whole_header()?;
            self.go(end + (BLOCK_HEADER + header.stored) as u64)?;
        }
        self.at_end(number)
    }

    fn read_entries(&mut self, entry: &Entry) -> Result<()> {
        let header = self.whole_header()?;
        if header.kind != entry.kind {
            return SnagReader::<File>::error(entry.offset, "the index does not agree with the blocks");
        }
        match self.reader.read_body(&header, &mut self.tables, &mut Events::new())? {
            Ok(()) => Ok(()),
            Err(_) => SnagReader::<File>::error(entry.offset, "the block is cut off"),
        }
    }

    fn whole_header(&mut self) -> Result<BlockHeader> {
        let offset = self.reader.offset;
        match self.reader.read_header()? {
            Ok(header) => Ok(header),
            Err(_) => SnagReader::<File>::error(offset, "the block is cut off"),
        }
    }

    /// Passes over the blocks from the first on, reading only names and comments.
    fn seek_by_scan(&mut self, number: u64) -> Result<()> {
        self.reader.count = 0;
        self.go(FILE_HEADER as u64)?;
        loop {
            let at = self.reader.offset;
            let Ok(header) = self.reader.read_header()? else { break };
            let after = at + (BLOCK_HEADER + header.stored) as u64;
            if after > self.length || matches!(header.kind, Kind::Index | Kind::End) {
                break;
            }
            if header.kind.has_events() {
                let events = header.events as u64;
                if self.reader.count + events > number {
                    self.skip = (number - self.reader.count) as usize;
                    return self.go(at);
                }
                self.reader.pass(&header);
            } else {
                let entry = Entry { kind: header.kind, offset: at, events: 0 };
                self.go(at)?;
                self.read_entries(&entry)?;
            }
            self.go(after)?;
        }
        let at = self.reader.offset;
        self.go(at)?;
        self.at_end(number)
    }

    fn at_end(&self, number: u64) -> Result<()> {
        let count = self.reader.count;
        if number == count {
            return Ok(());
        }
        let message = format!("there is no event {number}: the file holds {count} whole events");
        Err(Error::new(Position::Event(number), message))
    }

    /// Replaces `events` by the next block; false at the end.
    pub fn next_block(&mut self, events: &mut Events) -> Result<bool> {
        self.next_unnamed(events).map_err(|e| e.in_file(&self.path))
    }

    fn next_unnamed(&mut self, events: &mut Events) -> Result<bool> {
        events.restart(self.reader.count as usize);
        let more = self.reader.read_block(&mut self.tables, events)?;
        let checker = Validator::new();
        for index in 0..events.len() {
            if let Err((rule, detail)) = checker.known_names(&events.get(index), &self.tables) {
                let number = (events.first + index) as u64;
                return Err(Error::new(Position::Event(number), format!("{detail} (rule: {})", rule.text())));
            }
        }
        let skip = std::mem::take(&mut self.skip).min(events.len());
        if skip > 0 {
            let mut rest = Events::new();
            rest.restart(events.first + skip);
            rest.extend_from(events, skip..events.len());
            *events = rest;
        }
        Ok(more)
    }

    /// What the user should know about the file so far.
    pub fn take_warnings(&mut self) -> Vec<String> {
        self.reader.take_warnings()
    }
}
