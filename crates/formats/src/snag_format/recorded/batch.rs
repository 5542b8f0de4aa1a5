//! Events on their way from whoever records them to the encoder.
//!
//! Nearly all that a program does is to read and write a few bytes, at the same places of its code again and again. So what
//! does not change from one time to the next is told once, as a [`Spot`], and an access is no more than its spot, address and
//! value; its thread is told once for all that come one after the other.

use super::RecordedEvent;
use snag_model::ids::{LocId, ThreadId};
use snag_model::op::{MemoryOrder, Op};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of a spot in a batch; the default is that of none, for tables that are yet to be filled.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SpotId(u32);

impl SpotId {
    /// Of no spot.
    pub const NONE: SpotId = SpotId::OTHER;
    /// Instead of an access: the next of the other events.
    const OTHER: SpotId = SpotId(0);

    #[inline(always)]
    pub(in crate::snag_format) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A place in a program that reads or writes so many bytes, plainly or atomically.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Spot {
    /// [`Op::Read`], [`Op::Write`], [`Op::AtomicRead`] or [`Op::AtomicWrite`].
    pub op: Op,
    /// One to eight bytes.
    pub size: u8,
    /// The memory order of an atomic access; else 0.
    pub aux: u32,
    /// Tells places apart that have the same location: guessing is better for it. Not part of the event.
    pub hint: u16,
    /// Where in the program.
    pub location: LocId,
}

/// What was done at a spot.
#[derive(Clone, Copy, Debug)]
pub(in crate::snag_format) struct Access {
    pub(in crate::snag_format) address: u64,
    pub(in crate::snag_format) value: u64,
    pub(in crate::snag_format) spot: SpotId,
    /// What is known about it.
    pub(in crate::snag_format) noted: Noted,
}

/// What whoever records knows about an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Noted(u8);

impl Noted {
    const UNSEEN: u8 = 1;
    const CONTENDED: u8 = 2;

    /// Whether its value has to be told ([`RecordedEvent::seen`]), and whether other threads can interfere with it.
    #[inline(always)]
    pub const fn new(unseen: bool, contended: bool) -> Noted {
        Noted((unseen as u8 * Noted::UNSEEN) | (contended as u8 * Noted::CONTENDED))
    }

    /// Whether its value has to be told: see [`RecordedEvent::seen`].
    #[inline(always)]
    pub const fn unseen(self) -> bool {
        self.0 & Noted::UNSEEN != 0
    }

    /// Whether other threads can interfere with it.
    #[inline(always)]
    pub const fn contended(self) -> bool {
        self.0 & Noted::CONTENDED != 0
    }
}

impl Access {
    /// Whether it stands for the next of the other events.
    pub(in crate::snag_format) fn is_other(&self) -> bool {
        self.spot == SpotId::OTHER
    }
}

/// Makes accesses of things. No closure, as that may be too long to be put where it is called.
pub trait AccessOf<T> {
    /// Spot, address, value and what is known about it, if it is one.
    fn access_of(&mut self, thing: T) -> Option<(SpotId, u64, u64, Noted)>;
}

/// Events of a thread, up to those of the next one.
#[derive(Clone, Copy, Debug)]
struct Run {
    thread: ThreadId,
    /// The first of them.
    first: usize,
}

/// Events in order. Spots keep their numbers when the events have been taken.
#[derive(Debug)]
pub struct Batch {
    /// Tells batches apart: spots of different ones have the same numbers.
    pub(in crate::snag_format) identity: u64,
    pub(in crate::snag_format) spots: Vec<Spot>,
    numbers: HashMap<Spot, SpotId>,
    pub(in crate::snag_format) accesses: Vec<Access>,
    runs: Vec<Run>,
    /// Events for which there is an access at [`SpotId::OTHER`].
    pub(in crate::snag_format) others: Vec<RecordedEvent>,
    /// See [`Batch::in_block`].
    pub(super) block: u64,
}

/// How far a batch has been taken.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::snag_format) struct Taken {
    pub(in crate::snag_format) accesses: usize,
    /// Number of the run that the last of them is in.
    run: usize,
    pub(in crate::snag_format) others: usize,
}

impl Default for Batch {
    fn default() -> Batch {
        let nowhere = Spot { op: Op::Read, size: 0, aux: 0, hint: 0, location: LocId::NONE };
        static BATCHES: AtomicU64 = AtomicU64::new(1);
        Batch {
            identity: BATCHES.fetch_add(1, Ordering::Relaxed),
            spots: vec![nowhere],
            numbers: HashMap::new(),
            accesses: Vec::new(),
            runs: Vec::new(),
            others: Vec::new(),
            block: 0,
        }
    }
}

impl Batch {
    /// Number of events.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.accesses.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.accesses.is_empty()
    }

    /// The number of a spot, which is at most eight bytes large.
    pub fn spot(&mut self, spot: Spot) -> SpotId {
        assert!(has_spots(spot.op, spot.aux) && (1..=8).contains(&spot.size));
        *self.numbers.entry(spot).or_insert_with(|| {
            self.spots.push(spot);
            SpotId(self.spots.len() as u32 - 1)
        })
    }

    /// Of events that come, what was seen was seen in the block with this number; before anything is said, in the first one, which
    /// is number 0. If they get into another one, their values are told.
    pub fn in_block(&mut self, number: u64) {
        debug_assert!(self.is_empty());
        self.block = number;
    }

    /// Adds an access; the value has no more bytes than the spot.
    #[inline(always)]
    pub fn access(&mut self, spot: SpotId, thread: ThreadId, address: u64, value: u64, noted: Noted) {
        self.runs(thread);
        self.accesses.push(Access { address, value, spot, noted });
    }

    /// What comes is done by this thread.
    #[inline(always)]
    fn runs(&mut self, thread: ThreadId) {
        if self.runs.last().is_none_or(|run| run.thread != thread) {
            self.runs.push(Run { thread, first: self.accesses.len() });
        }
    }

    /// Adds the accesses of a thread that things are, up to the first that is none, at most so many; how many they were.
    #[inline(always)]
    pub fn accesses<T>(
        &mut self,
        thread: ThreadId,
        most: usize,
        things: impl Iterator<Item = T>,
        mut access: impl AccessOf<T>,
    ) -> usize {
        self.runs(thread);
        self.accesses.reserve(most);
        let before = self.accesses.len();
        let mut added = 0;
        for (room, thing) in self.accesses.spare_capacity_mut()[..most].iter_mut().zip(things) {
            let Some((spot, address, value, noted)) = access.access_of(thing) else { break };
            room.write(Access { address, value, spot, noted });
            added += 1;
        }
        // SAFETY: there is room for them, and they were written.
        unsafe { self.accesses.set_len(before + added) };
        added
    }

    /// Adds an event of any kind; if it is an access, one that others can interfere with.
    pub fn event(&mut self, event: RecordedEvent) {
        let RecordedEvent { op, size, aux, hint, location, thread, address, .. } = event;
        let value = event.value.map(|value| value as u64);
        // Of eight bytes nothing is too much.
        let fits = |value: &u64| value.unbounded_shr(8 * size as u32) == 0;
        let plain = has_spots(op, aux) && (1..=8).contains(&size);
        match value.filter(|value| plain && fits(value) && event.written.is_none()) {
            Some(value) => {
                let spot = self.spot(Spot { op, size: size as u8, aux, hint, location });
                self.access(spot, thread, address, value, Noted::new(!event.seen, true));
            }
            None => {
                self.access(SpotId::OTHER, thread, 0, 0, Noted::new(true, true));
                self.others.push(event);
            }
        }
    }

    /// The events, one by one.
    pub fn events(&self) -> impl Iterator<Item = RecordedEvent> {
        let mut taken = Taken::default();
        std::iter::from_fn(move || {
            let access = self.accesses.get(taken.accesses)?;
            let (thread, _) = self.run(&mut taken);
            let event = self.event_of(access, thread, taken.others);
            taken.accesses += 1;
            taken.others += access.is_other() as usize;
            Some(event)
        })
    }

    /// The thread of the next event, and the end of what it does; there is one.
    pub(in crate::snag_format) fn run(&self, taken: &mut Taken) -> (ThreadId, usize) {
        let end = |run: usize| self.runs.get(run + 1).map_or(self.accesses.len(), |next| next.first);
        while end(taken.run) <= taken.accesses {
            taken.run += 1;
        }
        (self.runs[taken.run].thread, end(taken.run))
    }

    /// The event of a thread that an access stands for, with so many other ones before it.
    pub(super) fn event_of(&self, access: &Access, thread: ThreadId, others: usize) -> RecordedEvent {
        if access.is_other() {
            return self.others[others];
        }
        let Spot { op, size, aux, hint, location } = self.spots[access.spot.index()];
        let (size, value) = (size as u64, Some(access.value as i64));
        let (address, seen) = (access.address, !access.noted.unseen());
        RecordedEvent { address, size, value, written: None, location, thread, aux, hint, op, seen }
    }

    /// Takes all events out.
    pub fn clear(&mut self) {
        self.accesses.clear();
        self.runs.clear();
        self.others.clear();
    }
}

/// Whether such accesses have spots.
fn has_spots(op: Op, aux: u32) -> bool {
    match op {
        Op::Read | Op::Write => aux == 0,
        Op::AtomicRead | Op::AtomicWrite => aux <= MemoryOrder::SeqCst as u32,
        _ => false,
    }
}
