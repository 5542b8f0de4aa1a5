//! Reading a block of recorded events.

use super::RecordedEvent;
use super::guess::Guess;
use super::memory::Memory;
use super::{STREAMS, code, stream, value_class};
use crate::snag_format::numbers::Input;
use crate::snag_format::unzigzag;
use snag_model::events::Events;
use snag_model::ids::{LocId, ThreadId};
use snag_model::op::Op;
use snag_model::tables::Tables;
use std::ops::Range;

/// A site of the block.
#[derive(Clone, Copy)]
struct Site {
    op: Op,
    location: LocId,
    size: u64,
    aux: u32,
}

/// Reads the events of a block, some at a time.
pub(in crate::snag_format) struct Decoder {
    guess: Box<Guess>,
    memory: Memory,
    sites: Vec<Site>,
    /// Location of the site declared last.
    location: u32,
    /// Where in the payload the rest of each stream is.
    streams: [Range<usize>; STREAMS],
    /// Events to come.
    left: usize,
    /// Who does the next ones, and how many of them.
    run: (ThreadId, usize),
}

impl Decoder {
    /// For a payload of `count` events.
    pub(in crate::snag_format) fn new(payload: &[u8], count: usize) -> Result<Decoder, String> {
        let mut input = Input(payload);
        let mut lengths = [0; STREAMS];
        for length in &mut lengths {
            *length = usize::try_from(input.number()?).map_err(|_| LONG)?;
        }
        let mut streams = [const { 0..0 }; STREAMS];
        for (stream, length) in streams.iter_mut().zip(lengths) {
            let start = payload.len() - input.0.len();
            input.bytes(length).map_err(|_| LONG)?;
            *stream = start..start + length;
        }
        input.end()?;
        if lengths[stream::CONTROL] != count {
            return Err(format!("{} control bytes for {count} events", lengths[stream::CONTROL]));
        }
        let (guess, memory, sites) = (Guess::new(), Memory::new(), Vec::new());
        Ok(Decoder { guess, memory, sites, location: 0, streams, left: count, run: (ThreadId(0), 0) })
    }

    /// Events that have not been read.
    pub(in crate::snag_format) fn left(&self) -> usize {
        self.left
    }

    /// Appends the next events of the same payload to `events`, at most so many, and the ranges they touch to `tables`. That
    /// other ids stand for something is checked by the [`snag_model::Validator`].
    pub(in crate::snag_format) fn read(
        &mut self,
        payload: &[u8],
        most: usize,
        tables: &mut Tables,
        events: &mut Events,
    ) -> Result<(), String> {
        self.each(payload, most, tables, |event, tables| events.push(event.in_trace(tables)))
    }

    /// Hands out the next events of the same payload, at most so many. Ids are checked as far as `read` does.
    pub(in crate::snag_format) fn each(
        &mut self,
        payload: &[u8],
        most: usize,
        tables: &mut Tables,
        mut each: impl FnMut(RecordedEvent, &mut Tables),
    ) -> Result<(), String> {
        let Decoder { guess, memory, sites, location, streams, left, run } = self;
        let inputs = streams.each_ref().map(|stream| Input(&payload[stream.clone()]));
        let mut block = Block { guess, memory, streams: inputs, sites, location };
        let mut more = most.min(*left);
        while more > 0 {
            if run.1 == 0 {
                *run = block.run(*left)?;
            }
            let some = run.1.min(more);
            for _ in 0..some {
                let event = block.event(run.0, tables)?;
                each(event, tables);
            }
            run.1 -= some;
            *left -= some;
            more -= some;
        }
        if *left == 0 {
            block.streams.iter().try_for_each(Input::end)?;
        }
        let rest = block.streams.map(|input| input.0.len());
        streams.iter_mut().zip(rest).for_each(|(stream, rest)| stream.start = stream.end - rest);
        Ok(())
    }
}

const LONG: &str = "an events block is too short for its streams";

/// A [`Decoder`] that reads.
struct Block<'a> {
    guess: &'a mut Guess,
    memory: &'a mut Memory,
    streams: [Input<'a>; STREAMS],
    sites: &'a mut Vec<Site>,
    location: &'a mut u32,
}

impl Block<'_> {
    /// Who does the next of the events that are left, and how many of them.
    fn run(&mut self, left: usize) -> Result<(ThreadId, usize), String> {
        let thread = self.streams[stream::THREADS].number()?;
        let thread = u32::try_from(thread).map_err(|_| format!("thread {thread} has no name yet"))?;
        let run = self.streams[stream::THREADS].number()?;
        if run == 0 || run > left as u64 {
            return Err(format!("a run of {run} events where {left} are left"));
        }
        Ok((ThreadId(thread), run as usize))
    }

    #[inline]
    fn event(&mut self, thread: ThreadId, tables: &Tables) -> Result<RecordedEvent, String> {
        let control = self.streams[stream::CONTROL].byte()?;
        let more = if control & code::MORE != 0 { self.streams[stream::MORE].byte()? } else { 0 };
        if more > code::WIDE | code::WRITTEN || control & code::MORE != 0 && more == 0 {
            return Err("unknown bits of an event".to_owned());
        }
        let number = self.site(control & 3, thread.0)?;
        if control & code::SHAPE != 0 {
            let (size, aux) = (self.streams[stream::SHAPES].number()?, self.aux(stream::SHAPES)?);
            let site = &mut self.sites[number as usize];
            (site.size, site.aux) = (size, aux);
            check_shape(site)?;
        }
        let site = self.sites[number as usize];
        let address;
        if site.size == 0 {
            let difference = unzigzag(self.streams[stream::TARGETS].number()?);
            let places = &mut self.guess.places;
            address = places.at(thread.0, number).last.wrapping_add(difference as u64);
            places.target_was(thread.0, number, address);
            check_target(site.op, address, tables)?;
            if control >> code::ADDRESS & 3 != 0 {
                return Err("an address where there is none".to_owned());
            }
        } else {
            address = self.address(control >> code::ADDRESS & 3, thread.0, number)?;
            if address.checked_add(site.size - 1).is_none() {
                return Err(format!("the range {address:#x}:{} reaches over the last address", site.size));
            }
        }
        let mut event = RecordedEvent {
            address,
            size: site.size,
            value: None,
            written: None,
            location: site.location,
            thread,
            aux: site.aux,
            hint: 0,
            op: site.op,
            seen: false,
        };
        let value = control >> code::VALUE & 3;
        if site.op.takes_value() {
            self.value(value, more, address, number, &site, &mut event)?;
        } else if value != 0 || more != 0 {
            return Err("something that neither accesses memory nor is a branch has a value".to_owned());
        }
        Ok(event)
    }

    /// The number of the event's site.
    #[inline]
    fn site(&mut self, site_code: u8, thread: u32) -> Result<u16, String> {
        let number = match site_code {
            0 => *self.guess.next(thread),
            code::SITE_GIVEN => {
                let given = self.streams[stream::SITES].prefixed()?;
                u16::try_from(given).map_err(|_| format!("site {given} was not declared"))?
            }
            code::SITE_DECLARED => {
                let number = u16::try_from(self.sites.len()).map_err(|_| "too many sites")?;
                let declared = &mut self.streams[stream::DECLARED];
                let op = declared.byte()?;
                let op = Op::from_code(op).ok_or_else(|| format!("unknown operation {op}"))?;
                let size = declared.number()?;
                let difference = unzigzag(declared.number()?);
                *self.location = (*self.location as i64)
                    .checked_add(difference)
                    .and_then(|location| u32::try_from(location).ok())
                    .ok_or("a location that has no name yet")?;
                let site = Site { op, location: LocId(*self.location), size, aux: self.aux(stream::DECLARED)? };
                check_shape(&site)?;
                self.sites.push(site);
                number
            }
            _ => return Err("unknown bits of an event".to_owned()),
        };
        if number as usize >= self.sites.len() {
            return Err(format!("site {number} was not declared"));
        }
        *self.guess.next(thread) = number;
        self.guess.arrive(thread, number);
        Ok(number)
    }

    fn aux(&mut self, stream: usize) -> Result<u32, String> {
        let aux = self.streams[stream].number()?;
        u32::try_from(aux).map_err(|_| format!("{aux} does not fit the aux of an event"))
    }

    #[inline]
    fn address(&mut self, how: u8, thread: u32, site: u16) -> Result<u64, String> {
        let walk = self.guess.walk(thread).address;
        let place = self.guess.places.at(thread, site);
        let address = match how {
            0 => place.last.wrapping_add(place.stride),
            code::NEAR_THREAD => walk.wrapping_add(place.offset),
            how => {
                let from = if how == code::FROM_SITE { place.last } else { walk };
                from.wrapping_add(unzigzag(self.streams[stream::ADDRESSES].prefixed()?) as u64)
            }
        };
        self.guess.places.was(thread, site, address, walk);
        self.guess.walk(thread).address = address;
        Ok(address)
    }

    #[inline]
    fn value(
        &mut self,
        how: u8,
        more: u8,
        address: u64,
        number: u16,
        site: &Site,
        event: &mut RecordedEvent,
    ) -> Result<(), String> {
        let thread = event.thread.0;
        let (mut class, mut bytes) = value_class(site.size);
        if more & code::WIDE != 0 {
            if how != code::VALUE_GIVEN || bytes == 8 {
                return Err("unknown bits of an event".to_owned());
            }
            (class, bytes) = (3, 8);
        }
        if how != code::VALUE_UNKNOWN {
            let read = self.guess.walk(thread).read;
            let growth = self.guess.growth(thread, number);
            let value = match how {
                0 => self.memory.contents(address, site.size),
                code::VALUE_OF_SITE => growth.expected(site.op == Op::Write, read),
                _ => {
                    let mut wide = [0; 8];
                    wide[..bytes].copy_from_slice(self.streams[stream::VALUES + class].bytes(bytes)?);
                    u64::from_le_bytes(wide)
                }
            };
            if how != 0 {
                growth.was(value);
                self.memory.remember(address, site.size, value);
            }
            if site.op.reads() {
                self.guess.walk(thread).read = value;
            }
            event.value = Some(value as i64);
        }
        if more & code::WRITTEN != 0 {
            if site.op != Op::Rmw {
                return Err("a value written that belongs to no rmw".to_owned());
            }
            let more = unzigzag(self.streams[stream::WRITTEN].number()?);
            let written = event.value.unwrap_or(0).wrapping_add(more);
            event.written = Some(written);
            if event.value.is_some() {
                self.memory.remember(address, site.size, written as u64);
            }
        }
        Ok(())
    }
}

fn check_shape(site: &Site) -> Result<(), String> {
    if site.size > 0 && !site.op.has_variable() {
        return Err(format!("'{}' has a size", site.op.word()));
    }
    if site.aux != 0 && !site.op.takes_aux() {
        return Err(format!("'{}' refers to a second thing", site.op.word()));
    }
    Ok(())
}

/// Whether an event that touches no range can have this target.
fn check_target(op: Op, number: u64, tables: &Tables) -> Result<(), String> {
    if op.has_variable() {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let variable = tables.variable_of_name(index);
        return variable.map(|_| ()).ok_or_else(|| format!("variable {number} has no name yet"));
    }
    if matches!(op, Op::Begin | Op::End) && number != 0 {
        return Err(format!("'{}' has a target", op.word()));
    }
    u32::try_from(number).map(|_| ()).map_err(|_| format!("{number} does not fit the target of an event"))
}
