//! Writing a block of recorded events.

use super::guess::Guess;
use super::{RecordedEvent, STREAMS, code, stream, value_class};
use crate::ids::{LocId, ThreadId};
use crate::op::Op;
use crate::snag_format::numbers::put;
use crate::snag_format::{BLOCK_EVENTS, zigzag};

/// Sites of the block that are found again; a power of two.
const FOUND: usize = 1 << 13;

/// How many entries are looked at for a site.
const WAYS: usize = 4;

/// Sizes up to this one tell sites apart; longer ones change from event to event.
const SMALL: u64 = 16;

/// A site as it was declared, or its shape as it was changed.
#[derive(Clone, Copy)]
struct Site {
    size: u64,
    aux: u32,
}

/// What a site is found by, in one word: location, hint, operation plus one, size if it is small. Never zero.
type Key = u64;

/// Writes blocks; keeps its memory from one to the next.
pub(in crate::snag_format) struct Encoder {
    guess: Guess,
    streams: [Vec<u8>; STREAMS],
    sites: Vec<Site>,
    /// Keys of sites by a hash, 0 for none, and their numbers. A site that is not found again is declared again.
    found: Vec<(Key, u16)>,
    /// Location of the site declared last.
    location: LocId,
    /// Thread of the last events, and how many they are.
    run: (ThreadId, u64),
}

impl Encoder {
    /// For a first block.
    pub(in crate::snag_format) fn new() -> Encoder {
        Encoder {
            guess: Guess::new(),
            streams: Default::default(),
            sites: Vec::new(),
            found: vec![(0, 0); FOUND],
            location: LocId::NONE,
            run: (ThreadId(0), 0),
        }
    }

    /// Events of the block so far.
    pub(in crate::snag_format) fn len(&self) -> usize {
        self.streams[stream::CONTROL].len()
    }

    /// Adds events to the block, which then has at most [`BLOCK_EVENTS`].
    pub(in crate::snag_format) fn push(&mut self, events: &[RecordedEvent]) {
        assert!(self.len() + events.len() <= BLOCK_EVENTS);
        for event in events {
            if event.thread != self.run.0 {
                self.end_run();
                self.run.0 = event.thread;
            }
            self.run.1 += 1;
            self.event(event);
        }
    }

    fn end_run(&mut self) {
        if self.run.1 > 0 {
            put(&mut self.streams[stream::THREADS], self.run.0.0 as u64);
            put(&mut self.streams[stream::THREADS], self.run.1);
            self.run.1 = 0;
        }
    }

    /// Appends the payload of the block, and begins another one.
    pub(in crate::snag_format) fn finish(&mut self, out: &mut Vec<u8>) {
        self.end_run();
        self.streams.iter().for_each(|stream| put(out, stream.len() as u64));
        self.streams.iter().for_each(|stream| out.extend_from_slice(stream));
        self.guess.reset();
        self.sites.clear();
        self.found.fill((0, 0));
        self.streams.iter_mut().for_each(Vec::clear);
        self.location = LocId::NONE;
    }

    /// The number of the event's site, and whether it is known already.
    #[inline]
    fn site(&mut self, event: &RecordedEvent) -> (u16, bool) {
        let size = if event.size <= SMALL { event.size as u8 } else { u8::MAX };
        let op = event.op as u64 + 1;
        let key = (event.location.0 as u64) << 32 | (event.hint as u64) << 16 | op << 8 | size as u64;
        let slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FOUND.trailing_zeros())) as usize;
        let mut free = slot;
        for at in slot..slot + WAYS {
            let (known, site) = self.found[at % FOUND];
            if known == key {
                return (site, true);
            }
            if known == 0 {
                free = at % FOUND;
                break;
            }
        }
        let site = self.sites.len() as u16;
        self.sites.push(Site { size: event.size, aux: event.aux });
        self.found[free] = (key, site);
        (site, false)
    }

    #[inline]
    fn event(&mut self, event: &RecordedEvent) {
        let thread = event.thread.0;
        let mut control = 0;
        let mut more = 0;
        let (site, known) = self.site(event);
        let streams = &mut self.streams;
        if !known {
            control |= code::SITE_DECLARED;
            let declared = &mut streams[stream::DECLARED];
            declared.push(event.op as u8);
            put(declared, event.size);
            put(declared, zigzag(event.location.0 as i64 - self.location.0 as i64));
            put(declared, event.aux as u64);
            self.location = event.location;
            *self.guess.next(thread) = site;
        } else if std::mem::replace(self.guess.next(thread), site) != site {
            control |= code::SITE_GIVEN;
            put(&mut streams[stream::SITES], site as u64);
        }
        self.guess.arrive(thread, site);
        let shape = &mut self.sites[site as usize];
        if (shape.size, shape.aux) != (event.size, event.aux) {
            *shape = Site { size: event.size, aux: event.aux };
            control |= code::SHAPE;
            put(&mut streams[stream::SHAPES], event.size);
            put(&mut streams[stream::SHAPES], event.aux as u64);
        }
        if event.size == 0 || !event.op.has_variable() {
            let place = self.guess.place(thread, site);
            put(&mut streams[stream::TARGETS], zigzag(event.address.wrapping_sub(place.last) as i64));
            place.last = event.address;
        } else {
            control |= self.address(event, site) << code::ADDRESS;
        }
        if event.op.takes_value() {
            control |= self.value(event, site, &mut more) << code::VALUE;
        }
        if more != 0 {
            control |= code::MORE;
            self.streams[stream::MORE].push(more);
        }
        self.streams[stream::CONTROL].push(control);
    }

    #[inline]
    fn address(&mut self, event: &RecordedEvent, site: u16) -> u8 {
        let (thread, address) = (event.thread.0, event.address);
        let walk = std::mem::replace(&mut self.guess.walk(thread).address, address);
        let place = self.guess.place(thread, site);
        let (from_site, from_thread) = (address.wrapping_sub(place.last), address.wrapping_sub(walk));
        let (stride, offset) = (place.stride, place.offset);
        place.was(address, walk);
        if from_site == stride {
            return 0;
        }
        if from_thread == offset {
            return code::NEAR_THREAD;
        }
        let (from_site, from_thread) = (zigzag(from_site as i64), zigzag(from_thread as i64));
        put(&mut self.streams[stream::ADDRESSES], from_site.min(from_thread));
        if from_site <= from_thread { code::FROM_SITE } else { code::FROM_THREAD }
    }

    #[inline]
    fn value(&mut self, event: &RecordedEvent, site: u16, more: &mut u8) -> u8 {
        let thread = event.thread.0;
        if let (Op::Rmw, Some(written)) = (event.op, event.written) {
            *more |= code::WRITTEN;
            let read = event.value.unwrap_or(0);
            put(&mut self.streams[stream::WRITTEN], zigzag(written.wrapping_sub(read)));
        }
        let Some(value) = event.value else { return code::VALUE_UNKNOWN };
        let value = value as u64;
        let walk = *self.guess.walk(thread);
        let place = self.guess.place(thread, site);
        let expected = place.expected_value(event.op == Op::Write, &walk);
        place.value_was(value);
        if event.op.reads() {
            self.guess.walk(thread).has_read(value);
        }
        let left = event.written.filter(|_| event.op == Op::Rmw).map_or(value, |written| written as u64);
        let contents = self.guess.contents(event.address, event.size);
        self.guess.remember(event.address, event.size, left);
        if contents == value {
            return 0;
        }
        if expected == value {
            return code::VALUE_OF_SITE;
        }
        let (mut class, mut bytes) = value_class(event.size);
        if bytes < 8 && value >> (8 * bytes) != 0 {
            *more |= code::WIDE;
            (class, bytes) = (3, 8);
        }
        self.streams[stream::VALUES + class].extend_from_slice(&value.to_le_bytes()[..bytes]);
        code::VALUE_GIVEN
    }
}
