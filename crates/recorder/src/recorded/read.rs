//! Reading what a recording has beside its events, block by block.
//!
//! Whoever wrote the file may mean no good: every number that means something is checked to mean something that was told before, and
//! what is kept has a limit.

use super::{Frame, Recorded, Stretch};
use crate::beside::{Input, kind};
use crate::layout::Layouts;
use snag_formats::snag_format::{Extra, RECORDED_EVENTS, read_extras};
use snag_formats::{Error, Position, Result};
use snag_model::{Room, Space, Trace};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// About how many bytes an entry of a map or a text takes beside what is in it.
const ENTRY: usize = 48;

/// How much of a recording the trace is that was read from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// All that there is.
    Whole,
    /// There was no time for all of it.
    Beginning,
}

/// A recording that is being read.
struct Reading {
    recorded: Recorded,
    room: Room,
    /// Bytes taken by the trace and what was read beside it.
    taken: u64,
    /// The event behind the last one of the last stretch.
    told: u64,
    /// The largest event, thread and location that were meant, each with the block that did.
    furthest: [Option<(u64, u64)>; 3],
}

/// What [`Reading::furthest`] is about.
const EVENT: usize = 0;
const THREAD: usize = 1;
const LOCATION: usize = 2;

type Read<T> = std::result::Result<T, String>;

impl Recorded {
    /// Reads what the file of a trace has; `None` if it was not recorded. If the trace is only a part of what is in the file, there may
    /// be words about the rest of it.
    pub fn read(path: &Path, trace: &mut Trace, part: Part) -> Result<Option<Recorded>> {
        // Whatever else the path is, it cannot be read a second time. What is no .snag file was not recorded.
        if !std::fs::metadata(path).is_ok_and(|data| data.is_file()) {
            return Ok(None);
        }
        let Ok(file) = File::open(path) else { return Ok(None) };
        let mut input = BufReader::new(file);
        if !is_snag(&mut input) {
            return Ok(None);
        }
        let taken = trace.tables.taken(trace.len() as u64);
        let recorded = Recorded { nodes: vec![(0, 0)], ..Recorded::default() };
        let mut reading = Reading { recorded, room: trace.tables.room().clone(), taken, told: 0, furthest: [None; 3] };
        let mut any = false;
        let whole = read_extras(input, |extra, block| {
            any |= reading.block(extra, block)?;
            Ok(())
        });
        if whole.map_err(|error| error.in_file(path))? && part == Part::Whole {
            reading.check_all(trace).map_err(|error| error.in_file(path))?;
        }
        Ok(any.then_some(reading.recorded))
    }
}

/// Whether a file begins as those that are recorded do. Goes back to its beginning.
fn is_snag(input: &mut (impl std::io::BufRead + std::io::Seek)) -> bool {
    let begins = input.fill_buf().is_ok_and(|bytes| bytes.starts_with(&snag_formats::snag_format::MAGIC));
    begins && input.rewind().is_ok()
}

impl Reading {
    /// Notes that something is kept that takes so many bytes.
    fn take(&mut self, bytes: usize) -> Read<()> {
        self.taken += bytes as u64;
        self.room.check(self.taken, "what the recording has beside its events")
    }

    fn means(&mut self, what: usize, number: u64, extra: Extra) {
        if self.furthest[what].is_none_or(|(largest, _)| largest < number) {
            self.furthest[what] = Some((number, extra.offset));
        }
    }

    /// What a whole recording means is there.
    fn check_all(&self, trace: &Trace) -> Result<()> {
        let known = [trace.len(), trace.tables.thread_count(), trace.tables.names(Space::Location).len()];
        for ((what, known), furthest) in ["event", "thread", "location"].into_iter().zip(known).zip(self.furthest) {
            if let Some((number, offset)) = furthest
                && number >= known as u64
            {
                let message = format!("a block means {what} {number}, and the recording has {known}");
                return Err(Error::new(Position::Offset(offset), message));
            }
        }
        Ok(())
    }

    /// Reads a block; false if it is none of ours.
    fn block(&mut self, extra: Extra, block: &[u8]) -> Read<bool> {
        let Some((&block_kind, rest)) = block.split_first() else { return Ok(false) };
        let mut input = Input(rest);
        match block_kind {
            kind::STRETCH => self.stretch(extra, &mut input)?,
            kind::NAMES => self.names(&mut input)?,
            kind::SCHEDULE => self.schedule(&mut input)?,
            kind::ABOUT => {
                self.about(rest)?;
                return Ok(true);
            }
            kind::DATA => self.data(&mut input)?,
            kind::THREADS => self.threads(extra, &mut input)?,
            kind::SITES => self.sites(extra, &mut input)?,
            kind::LAYOUTS => self.layouts(&mut input)?,
            kind::CODE => self.code(extra, &mut input)?,
            kind::UNSEEN => self.unseen(&mut input)?,
            _ => return Ok(false),
        }
        input.end()?;
        Ok(true)
    }

    fn stretch(&mut self, extra: Extra, input: &mut Input) -> Read<()> {
        let mut stretch = Stretch { first: input.number()?, ..Stretch::default() };
        if stretch.first < self.told {
            return Err(format!("a stretch from event {} on, after one that goes further", stretch.first));
        }
        // Events that are not in a block yet fit into one.
        let end = extra.events + RECORDED_EVENTS as u64;
        let known = self.recorded.nodes.len();
        for _ in 0..input.number()? {
            self.take(size_of::<(u32, u64)>())?;
            stretch.start.push((input.id("call", known)?, input.number()?));
        }
        // As many entries as events at most, which take more.
        let mut next = 0;
        for _ in 0..input.number()? {
            let index = following(&mut next, stretch.calls.is_empty(), stretch.first, end, input)?;
            stretch.calls.push((index, input.id("call", known)?));
        }
        let mut last = next;
        next = 0;
        for _ in 0..input.number()? {
            let index = following(&mut next, stretch.steps.is_empty(), stretch.first, end, input)?;
            stretch.steps.push((index, input.signed()?));
        }
        last = last.max(next);
        if last > 0 {
            self.means(EVENT, stretch.first + last as u64 - 1, extra);
        }
        self.told = stretch.first + last as u64;
        self.take(size_of::<Stretch>())?;
        self.recorded.stretches.push(stretch);
        Ok(())
    }

    fn names(&mut self, input: &mut Input) -> Read<()> {
        for _ in 0..input.number()? {
            let text = input.text()?;
            self.take(ENTRY + text.len())?;
            self.recorded.strings.push(text);
        }
        let strings = self.recorded.strings.len();
        for _ in 0..input.number()? {
            let _pc = input.number()?;
            let mut frames = Vec::new();
            self.take(ENTRY)?;
            for _ in 0..input.number()? {
                self.take(size_of::<(u32, u32)>())?;
                frames.push((input.id("string", strings)?, input.id("string", strings)?));
            }
            self.recorded.frames.push(frames);
        }
        let frames = self.recorded.frames.len();
        for _ in 0..input.number()? {
            self.take(size_of::<(u32, u32)>())?;
            // The caller comes before the call, so that following callers comes to an end.
            let caller = input.id("caller", self.recorded.nodes.len())?;
            self.recorded.nodes.push((caller, input.id("frame", frames)?));
        }
        Ok(())
    }

    fn schedule(&mut self, input: &mut Input) -> Read<()> {
        for _ in 0..input.number()? {
            let turn = input.number()?;
            let thread = u32::try_from(turn >> 1).map_err(|_| format!("thread {} is too large a number", turn >> 1))?;
            self.take(size_of::<(u32, bool, u64)>())?;
            self.recorded.turns.push((thread, turn & 1 == 1, input.number()?));
        }
        Ok(())
    }

    fn about(&mut self, block: &[u8]) -> Read<()> {
        for entry in block.split(|&byte| byte == 0) {
            if let Some((key, value)) = String::from_utf8_lossy(entry).split_once('=') {
                self.take(2 * ENTRY + key.len() + value.len())?;
                self.recorded.about.push((key.to_owned(), value.to_owned()));
            }
        }
        Ok(())
    }

    fn data(&mut self, input: &mut Input) -> Read<()> {
        for _ in 0..input.number()? {
            let (address, size) = (input.number()?, input.number()?);
            if address.checked_add(size).is_none() {
                return Err(format!("the variable {address:#x}:{size} reaches over the last address"));
            }
            let name = input.text()?;
            self.take(2 * ENTRY + name.len())?;
            self.recorded.data.insert(address, (size, name));
        }
        Ok(())
    }

    fn threads(&mut self, extra: Extra, input: &mut Input) -> Read<()> {
        for _ in 0..input.number()? {
            let thread = input.id("thread", u32::MAX as usize)?;
            self.means(THREAD, thread as u64, extra);
            let name = input.text()?;
            self.take(2 * ENTRY + name.len())?;
            self.recorded.names.insert(thread, name);
        }
        Ok(())
    }

    fn unseen(&mut self, input: &mut Input) -> Read<()> {
        for _ in 0..input.number()? {
            let text = input.text()?;
            self.take(ENTRY + text.len())?;
            self.recorded.unseen.push(text);
        }
        Ok(())
    }

    fn sites(&mut self, extra: Extra, input: &mut Input) -> Read<()> {
        for _ in 0..input.number()? {
            let location = input.id("location", u32::MAX as usize)?;
            self.means(LOCATION, location as u64, extra);
            self.take(2 * ENTRY)?;
            let mut frames = Vec::new();
            for _ in 0..input.number()? {
                let frame = Frame { function: input.text()?, place: input.text()? };
                self.take(2 * ENTRY + frame.function.len() + frame.place.len())?;
                frames.push(frame);
            }
            self.recorded.sites.insert(location, frames);
        }
        Ok(())
    }

    fn code(&mut self, extra: Extra, input: &mut Input) -> Read<()> {
        let mut code = std::mem::take(&mut self.recorded.code);
        let furthest = code.read(input, &mut |bytes| self.take(bytes))?;
        self.recorded.code = code;
        if let Some(location) = furthest {
            self.means(LOCATION, location.0 as u64, extra);
        }
        Ok(())
    }

    fn layouts(&mut self, input: &mut Input) -> Read<()> {
        self.recorded.layouts = Layouts::read(input, &mut |bytes| self.take(bytes))?;
        let Recorded { layouts, data, .. } = &mut self.recorded;
        for (start, known) in layouts.variables.iter().filter(|(_, known)| !known.name.is_empty()) {
            if let Some((_, name)) = data.get_mut(start) {
                name.clone_from(&known.name);
            }
        }
        Ok(())
    }
}

/// The next event of a stretch that starts with `first`: behind the one before, and there, so before `end`. `next` is how many events the
/// stretch has up to it.
fn following(next: &mut u32, is_first: bool, first: u64, end: u64, input: &mut Input) -> Read<u32> {
    let step = input.number()?;
    let index = if is_first { Some(step) } else { (*next as u64 - 1).checked_add(step).filter(|_| step > 0) };
    match index.filter(|&index| first.checked_add(index).is_some_and(|event| event < end)) {
        Some(index) => {
            // Less than a block, as stretches go on where the last one ended.
            let index = u32::try_from(index).map_err(|_| format!("a stretch of {index} events is too long"))?;
            *next = index + 1;
            Ok(index)
        }
        None => Err(format!("a stretch means an event that it does not have: {step} behind the last one")),
    }
}
