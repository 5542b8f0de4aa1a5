//! Reading only the events that others can interfere with.

use super::memory::{Memory, read_end, read_memory, read_touched};
use super::what;
use crate::error::{Error, Position, Result};
use crate::reader::BlockReader;
use crate::snag_format::numbers::Input;
use crate::snag_format::read::SnagReader;
use crate::snag_format::recorded::{Decoder, RecordedEvent};
use crate::snag_format::{BlockHeader, Kind};
use snag_model::events::Events;
use snag_model::op::Op;
use snag_model::tables::Tables;
use std::collections::VecDeque;
use std::io::{Read, Seek};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The numbers that events have in the whole recording, as far as they were read; ascending.
#[derive(Clone, Default, Debug)]
pub struct Numbers(Arc<Mutex<Vec<u32>>>);

impl Numbers {
    /// Takes them.
    pub fn take(&self) -> Vec<u32> {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the events of a recording that others can interfere with, and those that are no accesses. They are a trace of their own:
/// where events refer to others, it is by their numbers here.
pub struct Contended<R> {
    reader: SnagReader<R>,
    /// How many events the recording has.
    whole: u64,
    /// For each block of recorded events whether there may be something in it that is not listed.
    wanted: VecDeque<bool>,
    memory: Memory,
    /// Events that count in any case, ascending.
    single: Vec<u64>,
    /// What was found in such blocks, with numbers, until the listed events before are read.
    found: VecDeque<(u32, RecordedEvent)>,
    /// The number of the last listed event plus one.
    last: u64,
    numbers: Numbers,
    ended: bool,
}

/// What there is to know before anything is read.
struct Overview {
    whole: u64,
    wanted: VecDeque<bool>,
    memory: Memory,
    single: Vec<u64>,
}

impl<R: Read + Seek> Contended<R> {
    /// For a `.snag` file that is not compressed as a whole. `None` if it does not say which events others can interfere with.
    pub fn open(mut input: R) -> Result<Option<Contended<R>>> {
        let Some(Overview { whole, wanted, memory, single }) = overview(&mut SnagReader::new(&mut input))? else {
            return Ok(None);
        };
        input.rewind().map_err(|error| Error::new(Position::Whole, format!("cannot read: {error}")))?;
        let reader = SnagReader::new(input).partly()?;
        let (found, numbers) = (VecDeque::new(), Numbers::default());
        Ok(Some(Contended { reader, whole, wanted, memory, single, found, last: 0, numbers, ended: false }))
    }

    /// How many events the recording has.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// How many of its blocks are decoded for what is not listed, and how many there are.
    pub fn decoded(&self) -> (usize, usize) {
        (self.wanted.iter().filter(|wanted| **wanted).count(), self.wanted.len())
    }

    /// The numbers of the events that will be read.
    pub fn numbers(&self) -> Numbers {
        self.numbers.clone()
    }

    /// Looks in a block of recorded events for what is not listed.
    fn look(&mut self, header: &BlockHeader, tables: &mut Tables) -> Result<()> {
        let Contended { reader, memory, single, found, .. } = self;
        let (offset, first) = (reader.offset, reader.count);
        let wrong = |message| Error::new(Position::Offset(offset), message);
        let payload = reader.read_payload(header)?.map_err(|_| wrong(CHANGED.to_owned()))?;
        let mut number = first;
        let mut single = single[single.partition_point(|&event| event < first)..].iter().copied().peekable();
        let take = |event: RecordedEvent, _: &mut Tables| {
            let is_access = matches!(event.op, Op::Read | Op::Write | Op::AtomicRead | Op::AtomicWrite);
            let may_count = is_access && (1..=8).contains(&event.size);
            let is_single = single.next_if_eq(&number).is_some();
            if is_single || may_count && memory.has(event.address, event.size, number) {
                found.push_back((number as u32, event));
            }
            number += 1;
        };
        Decoder::new(payload, header.events)
            .and_then(|mut decoder| decoder.each(payload, usize::MAX, tables, take))
            .map_err(wrong)
    }

    /// Reads listed events, and puts those that were found where they belong; whether the block has any.
    fn listed(&mut self, header: &BlockHeader, tables: &mut Tables, events: &mut Events) -> Result<bool> {
        let Contended { reader, whole, found, last, numbers, .. } = self;
        let offset = reader.offset;
        let wrong = |message| Error::new(Position::Offset(offset), message);
        let payload = reader.read_payload(header)?.map_err(|_| wrong(CHANGED.to_owned()))?;
        let [what::EVENTS, rest @ ..] = payload else { return Ok(false) };
        let from = events.len();
        let mut input = Input(rest);
        let own = listed_numbers(&mut input, last, *whole).map_err(wrong)?;
        let count = own.len();
        let (mut own, mut numbers) = (own.into_iter(), numbers.lock());
        let mut out = Out { events, numbers: &mut numbers };
        let take = |event: RecordedEvent, tables: &mut Tables| {
            let Some(number) = own.next() else { return };
            while found.front().is_some_and(|(before, _)| *before <= number)
                && let Some((before, event)) = found.pop_front()
            {
                // What is listed need not be found.
                if before < number {
                    out.push(before, event, tables);
                }
            }
            out.push(number, event, tables);
        };
        Decoder::new(input.0, count)
            .and_then(|mut decoder| decoder.each(input.0, usize::MAX, tables, take))
            .map_err(wrong)?;
        reader.find_sets(events, from, tables);
        Ok(true)
    }

    fn read_some(&mut self, tables: &mut Tables, events: &mut Events) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        // Recordings have values, also where none of these events has one.
        events.values_mut();
        let changed = |offset| Error::new(Position::Offset(offset), CHANGED);
        loop {
            let offset = self.reader.offset;
            let header = self.reader.read_header()?.map_err(|_| changed(offset))?;
            let mut has_events = false;
            match header.kind {
                Kind::Names => {
                    self.reader.read_body(&header, tables, events)?.map_err(|_| changed(offset))?;
                    continue;
                }
                Kind::Recorded if self.wanted.pop_front() == Some(true) => self.look(&header, tables)?,
                Kind::Contended => has_events = self.listed(&header, tables, events)?,
                Kind::End => {
                    let mut numbers = self.numbers.lock();
                    let mut out = Out { events, numbers: &mut numbers };
                    self.found.drain(..).for_each(|(number, event)| out.push(number, event, tables));
                    self.ended = true;
                    return Ok(true);
                }
                _ => self.reader.skip_payload(&header)?,
            }
            self.reader.pass(&header);
            if has_events {
                return Ok(true);
            }
        }
    }
}

/// Said of a file that is not what it was when it was looked at first.
const CHANGED: &str = "the recording has changed while it was read";

/// The numbers of listed events; `last` is that of the one before plus one.
fn listed_numbers(input: &mut Input, last: &mut u64, whole: u64) -> std::result::Result<Vec<u32>, String> {
    let count = input.number()?;
    // Each has a byte at least.
    if count == 0 || count > input.0.len() as u64 {
        return Err(format!("a list of {count} events"));
    }
    let mut all = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let more = input.number()?;
        *last = last.checked_add(more).filter(|&last| more > 0 && last <= whole).ok_or("an event that there is not")?;
        all.push((*last - 1) as u32);
    }
    Ok(all)
}

/// The events that were read.
struct Out<'a> {
    events: &'a mut Events,
    numbers: &'a mut Vec<u32>,
}

impl Out<'_> {
    fn push(&mut self, number: u32, mut event: RecordedEvent, tables: &mut Tables) {
        if self.numbers.last().is_some_and(|&last| last >= number) {
            // The blocks are not in the order of a recorder's.
            return;
        }
        if event.op == Op::Wake
            && let Some(notify) = event.aux.checked_sub(1)
        {
            // What is not there is refused like any number that no notify has.
            event.aux = self.numbers.binary_search(&notify).map_or(u32::MAX, |here| here as u32 + 1);
        }
        self.numbers.push(number);
        self.events.push(event.in_trace(tables));
    }
}

/// Goes over the blocks of a file.
fn overview<R: Read + Seek>(reader: &mut SnagReader<R>) -> Result<Option<Overview>> {
    reader.read_file_header()?;
    let (mut blocks, mut late, mut touched, mut end) = (Vec::new(), Vec::new(), Vec::new(), None);
    loop {
        let offset = reader.offset;
        let Ok(header) = reader.read_header()? else { return Ok(None) };
        match header.kind {
            Kind::Events => return Ok(None),
            Kind::Contended => {
                let Ok(payload) = reader.read_payload(&header)? else { return Ok(None) };
                let wrong = |message| Error::new(Position::Offset(offset), message);
                match payload {
                    [what::EVENTS, ..] => {}
                    [what::MEMORY, rest @ ..] => read_memory(&mut Input(rest), &mut late).map_err(wrong)?,
                    [what::TOUCHED, rest @ ..] => touched.push((offset, rest.to_vec())),
                    [what::END, rest @ ..] => end = Some(read_end(&mut Input(rest)).map_err(wrong)?),
                    _ => return Err(wrong("a block says nothing that is known".to_owned())),
                }
            }
            Kind::End => break,
            _ => {
                if header.kind == Kind::Recorded {
                    blocks.push(reader.count..reader.count + header.events as u64);
                }
                reader.skip_payload(&header)?;
            }
        }
        reader.pass(&header);
    }
    let Some(single) = end else { return Ok(None) };
    let memory = Memory::new(late);
    let mut wanted: VecDeque<bool> = blocks.iter().map(|_| false).collect();
    let mut want = |from: u64, to: u64| {
        let first = blocks.partition_point(|block| block.end <= from);
        let inside = blocks[first..].iter().take_while(|block| block.start < to).count();
        wanted.range_mut(first..first + inside).for_each(|wanted| *wanted = true);
    };
    let mut next = reader.count;
    for (offset, payload) in touched.iter().rev() {
        let wrong = |message| Error::new(Position::Offset(*offset), message);
        let first = Input(payload).number().map_err(wrong)?;
        let is_wanted = |line: u64| memory.has_line(line, (first, next));
        let (_, any) = read_touched(&mut Input(payload), is_wanted).map_err(wrong)?;
        if any {
            want(first, next);
        }
        next = first;
    }
    single.iter().for_each(|&event| want(event, event + 1));
    Ok(Some(Overview { whole: reader.count, wanted, memory, single }))
}

impl<R: Read + Seek + Send> BlockReader for Contended<R> {
    fn read_block(&mut self, tables: &mut Tables, events: &mut Events) -> Result<bool> {
        let before = events.len();
        let more = self.read_some(tables, events);
        if more.is_err() {
            events.truncate(before);
        }
        more
    }

    fn position_of(&self, event: usize) -> Position {
        Position::Event(self.numbers.lock().get(event).map_or(event as u64, |&number| number as u64))
    }

    fn take_warnings(&mut self) -> Vec<String> {
        Vec::new()
    }
}
