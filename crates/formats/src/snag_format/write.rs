//! Writing `.snag` from events in memory.

use super::blocks::Blocks;
use super::entries::Written;
use super::packing::Packing;
use super::{BLOCK_EVENTS, Kind, columns};
use crate::error::Result;
use snag_model::events::Events;
use snag_model::tables::Tables;
use std::io::Write;
use std::ops::Range;

/// Writes `.snag`.
pub struct SnagWriter<W> {
    blocks: Blocks<W>,
    /// Events that do not fill a block yet.
    pending: Events,
    tables: Written,
    payload: Vec<u8>,
}

impl<W: Write> SnagWriter<W> {
    /// Writes to `out`. With `compress`, blocks that LZ4 shrinks by more than a quarter are stored compressed.
    pub fn new(out: W, compress: bool) -> SnagWriter<W> {
        let packing = if compress { Packing::Lz4 } else { Packing::Plain };
        SnagWriter {
            blocks: Blocks::new(out, packing),
            pending: Events::new(),
            tables: Written::new(),
            payload: Vec::new(),
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

    /// Writes the events that are still in memory, as a block that may be small.
    pub fn flush(&mut self, tables: &Tables) -> Result<()> {
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            self.events(&pending, 0..pending.len(), tables)?;
            self.pending = pending;
            self.pending.restart(0);
        }
        self.blocks.flush()
    }

    /// Writes what is left, the index and the end, and hands out the writer.
    pub fn finish(mut self, tables: &Tables) -> Result<W> {
        self.flush(tables)?;
        self.new_entries(tables)?;
        self.blocks.finish(tables.layout)
    }

    fn events(&mut self, events: &Events, range: Range<usize>, tables: &Tables) -> Result<()> {
        self.new_entries(tables)?;
        self.tables.events_follow(tables);
        self.payload.clear();
        let count = range.len();
        columns::encode(events, range, &mut self.payload);
        self.blocks.write(Kind::Events, count, &self.payload)
    }

    fn new_entries(&mut self, tables: &Tables) -> Result<()> {
        let SnagWriter { blocks, payload, tables: written, .. } = self;
        let count = blocks.count();
        written.each_new(tables, count, payload, |kind, payload| blocks.write(kind, 0, payload))
    }
}
