//! Writing a block of recorded events.

use super::accesses::{Found, Known};
use super::batch::{Batch, Taken};
use super::filling::Stream;
use super::guess::{Guess, Place};
use super::{Parts, RecordedEvent, STREAMS, code, stream, value_class, zeroed};
use crate::snag_format::numbers::put;
use crate::snag_format::{RECORDED_EVENTS, zigzag};
use snag_model::ids::{LocId, ThreadId};
use snag_model::op::Op;

/// Sites of the block that are found again; a power of two.
const FOUND: usize = 1 << 13;

/// How many entries are looked at for a site.
const WAYS: usize = 4;

/// Most sites of a block: their numbers have 16 bits.
const SITES: usize = 1 << 16;

/// Sizes up to this one tell sites apart; longer ones change from event to event.
const SMALL: u64 = 16;

/// A site as it was declared, or its shape as it was changed.
#[derive(Clone, Copy)]
struct Site {
    size: u64,
    aux: u32,
}

/// What a site is found by, in one word: location, hint, operation plus one, size if it is small and there is no aux, or size and
/// aux if both are small. Never zero. Of sites with a size in their key the shape never changes: what is known about a spot
/// stays right.
type Key = u64;

/// What every event changes: in one piece, as there are too few registers for more.
pub(super) struct State {
    pub(super) guess: Guess,
    pub(super) streams: [Stream; STREAMS],
    pub(super) found: Found,
    /// Keys of sites by a hash, 0 for none, and their numbers. A site that is not found again is declared again.
    keys: [(Key, u16); FOUND],
}

/// Writes blocks; keeps its memory from one to the next.
pub(in crate::snag_format) struct Encoder {
    pub(super) state: Box<State>,
    /// Identity of the last batch, and what is known about each of its spots.
    pub(super) batch: u64,
    pub(super) known: Vec<Known>,
    sites: Vec<Site>,
    /// Location of the site declared last.
    location: LocId,
    /// Thread of the last events, and how many they are.
    pub(super) run: (ThreadId, u64),
    /// Number of the block.
    block: u64,
}

impl Encoder {
    /// For a first block.
    pub(in crate::snag_format) fn new() -> Encoder {
        Encoder {
            // SAFETY: numbers.
            state: unsafe { zeroed() },
            batch: 0,
            known: Vec::new(),
            sites: Vec::new(),
            location: LocId::NONE,
            run: (ThreadId(0), 0),
            block: 0,
        }
    }

    /// Number of the block that is being filled.
    pub(in crate::snag_format) fn block(&self) -> u64 {
        self.block
    }

    /// Events of the block so far.
    pub(in crate::snag_format) fn len(&self) -> usize {
        self.state.streams[stream::CONTROL].len()
    }

    /// Adds events of a batch to the block, until that has so many or can take no more; whether that is so.
    pub(in crate::snag_format) fn push(&mut self, batch: &Batch, taken: &mut Taken, most: usize) -> bool {
        let most = most.min(RECORDED_EVENTS);
        self.expect(batch);
        let trusted = batch.block == self.block;
        while taken.accesses < batch.len() && self.len() < most {
            let (thread, end) = batch.run(taken);
            if thread != self.run.0 {
                self.end_run();
                self.run.0 = thread;
            }
            let end = end.min(taken.accesses + most - self.len());
            let done = self.accesses(&batch.accesses[taken.accesses..end], trusted);
            self.run.1 += done as u64;
            taken.accesses += done;
            if taken.accesses == end {
                continue;
            }
            if self.sites.len() == SITES {
                return true;
            }
            let access = &batch.accesses[taken.accesses];
            let mut event = batch.event_of(access, thread, taken.others);
            event.seen &= trusted;
            let site = self.event(&event);
            match access.is_other() {
                true => taken.others += 1,
                false => self.is_site(access, batch, site),
            }
            self.run.1 += 1;
            taken.accesses += 1;
        }
        self.len() >= most
    }

    fn end_run(&mut self) {
        if self.run.1 > 0 {
            self.state.streams[stream::THREADS].put(self.run.0.0 as u64);
            self.state.streams[stream::THREADS].put(self.run.1);
            self.run.1 = 0;
        }
    }

    /// Appends the payload of the block, and begins another one.
    pub(in crate::snag_format) fn finish(&mut self, out: &mut Vec<u8>) -> Parts {
        self.end_run();
        self.state.streams.iter().for_each(|stream| put(out, stream.len() as u64));
        let parts = std::array::from_fn(|index| {
            out.extend_from_slice(self.state.streams[index].bytes());
            out.len()
        });
        self.state.guess.reset();
        self.sites.clear();
        self.known.fill(Known::default());
        self.state.keys.fill((0, 0));
        self.state.streams.iter_mut().for_each(Stream::clear);
        self.location = LocId::NONE;
        self.block += 1;
        parts
    }

    fn key(event: &RecordedEvent) -> Key {
        let shape = match (event.size, event.aux) {
            (size @ 0..=SMALL, 0) => size as u8,
            (size @ 0..=8, aux @ 1..=4) => (16 * (1 + aux) + size as u32) as u8,
            _ => u8::MAX,
        };
        let op = event.op as u64 + 1;
        (event.location.0 as u64) << 32 | (event.hint as u64) << 16 | op << 8 | shape as u64
    }

    /// The number of the event's site, if it is known already.
    fn found(&self, event: &RecordedEvent) -> Option<u16> {
        let key = Encoder::key(event);
        let slots = slot(key)..slot(key) + WAYS;
        let mut entries = slots.map(|at| self.state.keys[at % FOUND]).take_while(|entry| entry.0 != 0);
        entries.find(|entry| entry.0 == key).map(|entry| entry.1)
    }

    /// A number for the event's site, which is new or was lost.
    fn new_site(&mut self, event: &RecordedEvent) -> u16 {
        let key = Encoder::key(event);
        let mut slots = (slot(key)..slot(key) + WAYS).map(|at| at % FOUND);
        let free = slots.find(|&at| self.state.keys[at].0 == 0).unwrap_or(slot(key));
        let site = self.sites.len() as u16;
        self.sites.push(Site { size: event.size, aux: event.aux });
        self.state.keys[free] = (key, site);
        site
    }

    /// Adds an event of any kind; its site.
    fn event(&mut self, event: &RecordedEvent) -> u16 {
        let thread = event.thread.0;
        let mut control = 0;
        let mut more = 0;
        let known = self.found(event);
        let site = known.unwrap_or_else(|| self.new_site(event));
        let streams = &mut self.state.streams;
        if known.is_none() {
            control |= code::SITE_DECLARED;
            let declared = &mut streams[stream::DECLARED];
            declared.put_byte(event.op as u8);
            declared.put(event.size);
            declared.put(zigzag(event.location.0 as i64 - self.location.0 as i64));
            declared.put(event.aux as u64);
            self.location = event.location;
            *self.state.guess.next(thread) = site;
        } else if std::mem::replace(self.state.guess.next(thread), site) != site {
            control |= code::SITE_GIVEN;
            streams[stream::SITES].put_prefixed(site as u64);
        }
        self.state.guess.arrive(thread, site);
        let shape = &mut self.sites[site as usize];
        if (shape.size, shape.aux) != (event.size, event.aux) {
            *shape = Site { size: event.size, aux: event.aux };
            control |= code::SHAPE;
            streams[stream::SHAPES].put(event.size);
            streams[stream::SHAPES].put(event.aux as u64);
        }
        if event.size == 0 || !event.op.has_variable() {
            let places = &mut self.state.guess.places;
            let last = places.at(thread, site).last;
            streams[stream::TARGETS].put(zigzag(event.address.wrapping_sub(last) as i64));
            places.target_was(thread, site, event.address);
        } else {
            control |= self.address(event, site) << code::ADDRESS;
        }
        if event.op.takes_value() {
            control |= self.value(event, site, &mut more) << code::VALUE;
        }
        if more != 0 {
            control |= code::MORE;
            self.state.streams[stream::MORE].put_byte(more);
        }
        self.state.streams[stream::CONTROL].put_byte(control);
        site
    }

    fn address(&mut self, event: &RecordedEvent, site: u16) -> u8 {
        let (thread, address) = (event.thread.0, event.address);
        let walk = std::mem::replace(&mut self.state.guess.walk(thread).address, address);
        let Place { last, stride, offset } = self.state.guess.places.at(thread, site);
        let (from_site, from_thread) = (address.wrapping_sub(last), address.wrapping_sub(walk));
        self.state.guess.places.was(thread, site, address, walk);
        if from_site == stride {
            return 0;
        }
        if from_thread == offset {
            return code::NEAR_THREAD;
        }
        let (from_site, from_thread) = (zigzag(from_site as i64), zigzag(from_thread as i64));
        self.state.streams[stream::ADDRESSES].put_prefixed(from_site.min(from_thread));
        if from_site <= from_thread { code::FROM_SITE } else { code::FROM_THREAD }
    }

    fn value(&mut self, event: &RecordedEvent, site: u16, more: &mut u8) -> u8 {
        let thread = event.thread.0;
        if let (Op::Rmw, Some(written)) = (event.op, event.written) {
            *more |= code::WRITTEN;
            let read = event.value.unwrap_or(0);
            self.state.streams[stream::WRITTEN].put(zigzag(written.wrapping_sub(read)));
        }
        let Some(value) = event.value else { return code::VALUE_UNKNOWN };
        let value = value as u64;
        let walk = self.state.guess.walk(thread);
        let read = if event.op.reads() { std::mem::replace(&mut walk.read, value) } else { walk.read };
        if event.seen {
            return 0;
        }
        let growth = self.state.guess.growth(thread, site);
        let expected = growth.expected(event.op == Op::Write, read);
        growth.was(value);
        if expected == value {
            return code::VALUE_OF_SITE;
        }
        let (mut class, mut bytes) = value_class(event.size);
        if bytes < 8 && value >> (8 * bytes) != 0 {
            *more |= code::WIDE;
            (class, bytes) = (3, 8);
        }
        self.state.streams[stream::VALUES + class].put_word(value, bytes);
        code::VALUE_GIVEN
    }
}

fn slot(key: Key) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FOUND.trailing_zeros())) as usize
}
