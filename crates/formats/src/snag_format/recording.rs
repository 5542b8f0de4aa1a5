//! Writing `.snag` while a program is recorded.
//!
//! Events are encoded as they come, so that they need not be kept; blocks are compressed and written by a thread of
//! their own. What is written is complete up to a block at any time.

use super::blocks::Blocks;
use super::contended::{ContendedEvents, Late, Touched, end_payload, memory_payload};
use super::entries::Written;
use super::packing::Packing;
use super::recorded::{Batch, Encoder, Parts, Taken};
use super::{BLOCK_EVENTS, Kind, RECORDED_EVENTS};
use crate::error::{Error, Position, Result};
use snag_model::tables::{Layout, Tables};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Blocks that may wait to be written, before whoever records has to.
const QUEUE: usize = 8;

/// So many events come in smaller blocks, so that what there is of a short recording can be read soon.
const EARLY: u64 = 1 << 20;

/// What is to be written next.
enum Message {
    /// Names, or something else: kind, payload.
    Block(Kind, Vec<u8>),
    /// Events: how many, payload, ends of its parts.
    Events(usize, Vec<u8>, Parts),
    /// What was touched among some events.
    Touched(Touched),
    Flush,
    End(Layout),
}

/// Writes a recording. Tables hold the names; address ranges need not be in them, but may.
pub struct RecordingWriter<W> {
    encoder: Encoder,
    queue: Option<SyncSender<Message>>,
    /// Payloads that have been written, to be filled again.
    used: Receiver<Vec<u8>>,
    /// Events of the blocks that were written and flushed.
    readable: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<W>>>,
    tables: Written,
    /// Events of the blocks handed over.
    count: u64,
    payload: Vec<u8>,
    /// The events that others can interfere with, as long as that is known.
    contended: Option<ContendedEvents>,
}

impl<W: Write + Send + 'static> RecordingWriter<W> {
    /// Writes to `out`. It is an error if there can be no thread that does so.
    pub fn new(out: W) -> Result<RecordingWriter<W>> {
        let (queue, messages) = sync_channel(QUEUE);
        let (give_back, used) = channel();
        let readable = Arc::new(AtomicU64::new(0));
        let noted = readable.clone();
        let write = move || {
            let mut blocks = Blocks::new(out, Packing::Zstd);
            let mut events = 0;
            for message in messages {
                match message {
                    Message::Block(kind, payload) => blocks.write(kind, 0, &payload)?,
                    Message::Events(count, payload, parts) => {
                        blocks.write_parts(Kind::Recorded, count, &payload, &parts)?;
                        // The first ones are there for others at once.
                        if events == 0 {
                            blocks.flush()?;
                            noted.store(count as u64, Ordering::Release);
                        }
                        events += count as u64;
                        // Nobody may want it any more.
                        let _ = give_back.send(payload);
                    }
                    Message::Touched(touched) => blocks.write(Kind::Contended, 0, &touched.payload())?,
                    Message::Flush => {
                        blocks.flush()?;
                        noted.store(events, Ordering::Release);
                    }
                    Message::End(layout) => return blocks.finish(layout),
                }
            }
            blocks.flush()?;
            noted.store(events, Ordering::Release);
            Ok(blocks.into_inner())
        };
        let thread = std::thread::Builder::new().name("writer".to_owned()).spawn(write);
        let thread = thread
            .map_err(|error| Error::new(Position::Whole, format!("cannot write: no thread can be started: {error}")))?;
        Ok(RecordingWriter {
            encoder: Encoder::new(),
            queue: Some(queue),
            used,
            readable,
            thread: Some(thread),
            tables: Written::new(),
            count: 0,
            payload: Vec::new(),
            contended: None,
        })
    }

    /// How many events others can read, also if writing has ended with an error or without an end.
    pub fn readable(&self) -> Arc<AtomicU64> {
        self.readable.clone()
    }

    /// Adds events. Those that fill a block are handed to the writer. An error may be about what was handed over
    /// earlier.
    pub fn push(&mut self, batch: &Batch, tables: &Tables) -> Result<()> {
        let mut taken = Taken::default();
        while taken.accesses < batch.len() {
            let most = if self.count < EARLY { BLOCK_EVENTS } else { RECORDED_EVENTS };
            let (from, first) = (taken, self.count + self.encoder.len() as u64);
            let is_full = self.encoder.push(batch, &mut taken, most);
            if let Some(contended) = &mut self.contended {
                contended.add(batch, from, taken.accesses, first);
            }
            if is_full {
                self.end_block(tables)?;
            }
        }
        Ok(())
    }

    /// From the first event on it is known which of them others can interfere with: that is written, too, and at last
    /// [`RecordingWriter::end_contended`].
    pub fn with_contended(&mut self) {
        self.contended = Some(ContendedEvents::new());
    }

    /// It is not known any more which events others can interfere with.
    pub fn without_contended(&mut self) {
        self.contended = None;
    }

    /// Others came late to some memory.
    pub fn late(&mut self, memory: &[Late]) -> Result<()> {
        if self.contended.is_none() || memory.is_empty() {
            return Ok(());
        }
        self.send(Message::Block(Kind::Contended, memory_payload(memory)))
    }

    /// What was touched among some events, which follow those of the last time.
    pub fn touched(&mut self, touched: Touched) -> Result<()> {
        if self.contended.is_none() { Ok(()) } else { self.send(Message::Touched(touched)) }
    }

    /// Which events others can interfere with is known for all of them. These, ascending, count in any case.
    pub fn end_contended(&mut self, events: &[u64], tables: &Tables) -> Result<()> {
        self.end_block(tables)?;
        let Some(mut contended) = self.contended.take() else { return Ok(()) };
        for payload in contended.take(true) {
            self.send(Message::Block(Kind::Contended, payload))?;
        }
        self.send(Message::Block(Kind::Contended, end_payload(events)))
    }

    /// The number of the block that events come into: see [`Batch::in_block`].
    pub fn block(&self) -> u64 {
        self.encoder.block()
    }

    /// Events that were handed to the writer, in whole blocks.
    pub fn handed_over(&self) -> u64 {
        self.count
    }

    /// Hands the events added so far to the writer, after the names that are new.
    pub fn end_block(&mut self, tables: &Tables) -> Result<()> {
        let events = self.encoder.len();
        if events == 0 {
            return Ok(());
        }
        self.new_entries(tables)?;
        self.tables.events_follow(tables);
        let mut payload = self.used.try_recv().unwrap_or_default();
        payload.clear();
        let parts = self.encoder.finish(&mut payload);
        self.count += events as u64;
        self.send(Message::Events(events, payload, parts))?;
        let contended = self.contended.as_mut().map_or(Vec::new(), |contended| contended.take(false));
        contended.into_iter().try_for_each(|payload| self.send(Message::Block(Kind::Contended, payload)))
    }

    /// Writes a block that readers of events pass over, after the events handed over so far.
    pub fn extra(&mut self, payload: Vec<u8>) -> Result<()> {
        self.send(Message::Block(Kind::Extra, payload))
    }

    /// Sees to it that what was handed over can be read by others, soon.
    pub fn flush(&mut self) -> Result<()> {
        self.send(Message::Flush)
    }

    /// Writes the index and the end, waits until everything is written, and hands out the writer.
    pub fn finish(mut self, tables: &Tables) -> Result<W> {
        self.end_block(tables)?;
        self.new_entries(tables)?;
        self.send(Message::End(tables.layout))?;
        self.join()
    }

    fn new_entries(&mut self, tables: &Tables) -> Result<()> {
        let mut payload = std::mem::take(&mut self.payload);
        let mut new = Vec::new();
        let listed = self.tables.each_new(tables, self.count, &mut payload, |kind, payload| {
            new.push(Message::Block(kind, payload.to_vec()));
            Ok(())
        });
        self.payload = payload;
        listed?;
        new.into_iter().try_for_each(|message| self.send(message))
    }

    fn send(&mut self, message: Message) -> Result<()> {
        match &self.queue {
            Some(queue) if queue.send(message).is_ok() => Ok(()),
            // The thread ends early only if it cannot write.
            _ => Err(self.join().err().unwrap_or_else(ended)),
        }
    }

    /// Waits for the end of the thread: how it went.
    fn join(&mut self) -> Result<W> {
        self.queue = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Err(ended()),
            Some(Ok(written)) => written,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

fn ended() -> Error {
    Error::new(Position::Whole, "cannot write: the writer has ended")
}

impl<W> Drop for RecordingWriter<W> {
    /// What was handed over is written even if there is no end.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
