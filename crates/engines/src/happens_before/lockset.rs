//! Eraser's locksets (Savage et al. 1997).
//!
//! Guarantee: none. Memory that several threads access, one of them writing,
//! without one lock common to all accesses is reported; that may be no race at all
//! (fork, join and other synchronisation are not seen), so the result is only ever a candidate.
//! Deviation: atomic accesses are ignored, and a lock held for reading protects
//! reads only. Cost: a handful of nanoseconds an access; sets are interned, and
//! intersections are remembered.

use crate::happens_before::pairs::{Limits, LocationPair, Racing};
use snag_model::{Cells, EventId, LockId, Op, ThreadId, Trace};
use std::collections::HashMap;

/// What the algorithm knows of a cell.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Virgin,
    /// One thread only.
    Exclusive(ThreadId),
    /// Several read.
    Shared,
    /// Several access, one of them wrote.
    SharedModified,
}

#[derive(Clone, Copy)]
struct Cell {
    state: State,
    /// Locks that were held at every access since the memory was shared.
    candidates: u32,
    /// Last read and write: event + 1.
    read: u32,
    write: u32,
    /// Last read and write by another thread than the last one's.
    other_read: u32,
    other_write: u32,
}

/// Interned sets of locks; set 0 is empty.
struct Sets {
    sets: Vec<Vec<LockId>>,
    ids: HashMap<Vec<LockId>, u32>,
    intersections: HashMap<(u32, u32), u32>,
}

impl Sets {
    fn new() -> Sets {
        Sets { sets: vec![Vec::new()], ids: HashMap::from([(Vec::new(), 0)]), intersections: HashMap::new() }
    }

    fn id(&mut self, set: Vec<LockId>) -> u32 {
        if let Some(&id) = self.ids.get(&set) {
            return id;
        }
        self.sets.push(set.clone());
        self.ids.insert(set, self.sets.len() as u32 - 1);
        self.sets.len() as u32 - 1
    }

    fn intersect(&mut self, a: u32, b: u32) -> u32 {
        if a == b || a == 0 {
            return a;
        }
        if b == 0 {
            return 0;
        }
        if let Some(&id) = self.intersections.get(&(a, b)) {
            return id;
        }
        let both = self.sets[a as usize].iter().filter(|l| self.sets[b as usize].contains(l)).copied().collect();
        let id = self.id(both);
        self.intersections.insert((a, b), id);
        id
    }
}

/// The locks a thread holds, and the two sets they make.
#[derive(Clone, Default)]
struct Held {
    /// Lock, how often held for writing, how often for reading.
    locks: Vec<(LockId, u32, u32)>,
    /// Hold counts that waits gave up.
    waiting: Vec<(LockId, u32)>,
    /// All of them: protects reads.
    any: u32,
    /// Those held for writing: protects writes.
    exclusive: u32,
}

impl Held {
    fn entry(&mut self, lock: LockId) -> &mut (LockId, u32, u32) {
        let at = self.locks.iter().position(|l| l.0 == lock).unwrap_or_else(|| {
            self.locks.push((lock, 0, 0));
            self.locks.len() - 1
        });
        &mut self.locks[at]
    }

    fn update(&mut self, sets: &mut Sets, change: impl FnOnce(&mut Held)) {
        change(self);
        self.locks.retain(|l| l.1 + l.2 > 0);
        let sorted = |of: &dyn Fn(&(LockId, u32, u32)) -> bool| {
            let mut set: Vec<LockId> = self.locks.iter().filter(|l| of(l)).map(|l| l.0).collect();
            set.sort_unstable();
            set
        };
        let (any, exclusive) = (sorted(&|_| true), sorted(&|l| l.1 > 0));
        (self.any, self.exclusive) = (sets.id(any), sets.id(exclusive));
    }
}

/// What Eraser reports: the accesses it complains about, and the pairs of
/// locations. In windows, each starts with memory that nobody has accessed.
pub fn lockset(
    trace: &Trace,
    cells: &Cells,
    window: Option<usize>,
    limits: Limits,
    tick: &mut dyn FnMut(usize) -> bool,
) -> (Vec<EventId>, Racing) {
    let fresh = Cell { state: State::Virgin, candidates: 0, read: 0, write: 0, other_read: 0, other_write: 0 };
    let mut memory = vec![fresh; cells.count()];
    let mut sets = Sets::new();
    let mut held = vec![Held::default(); trace.tables.thread_count()];
    let mut warnings = Vec::new();
    let mut found = Racing { complete: true, ..Racing::default() };
    let mut known: HashMap<(u64, u64), usize> = HashMap::new();
    for number in 0..trace.len() {
        if number % (1 << 16) == (1 << 16) - 1 && !tick(number) {
            found.complete = false;
            break;
        }
        if window.is_some_and(|window| number.is_multiple_of(window)) {
            memory.fill(fresh);
        }
        let (op, thread) = (trace.events.ops()[number], trace.events.threads()[number]);
        let target = trace.events.targets()[number];
        let own = &mut held[thread.index()];
        match op {
            Op::Acquire => own.update(&mut sets, |h| h.entry(LockId(target)).1 += 1),
            Op::Release => own.update(&mut sets, |h| h.entry(LockId(target)).1 -= 1),
            Op::ReadAcquire => own.update(&mut sets, |h| h.entry(LockId(target)).2 += 1),
            Op::ReadRelease => own.update(&mut sets, |h| h.entry(LockId(target)).2 -= 1),
            Op::WaitBegin => {
                let lock = LockId(trace.events.aux(number));
                own.update(&mut sets, |h| {
                    let count = std::mem::take(&mut h.entry(lock).1);
                    h.waiting.push((lock, count));
                });
            }
            Op::WaitEnd => {
                let lock = LockId(trace.events.aux(number));
                own.update(&mut sets, |h| {
                    let at = h.waiting.iter().position(|w| w.0 == lock).expect("a wait began");
                    h.entry(lock).1 = h.waiting.swap_remove(at).1;
                });
            }
            Op::Read | Op::Write | Op::Free => {
                let writes = op != Op::Read;
                let protection = if writes { own.exclusive } else { own.any };
                let mut warned = false;
                for cell in cells.of_event(number, target) {
                    let cell = &mut memory[cell];
                    let unprotected = cell.access(thread, writes, protection, &mut sets);
                    let partner = cell.note(trace, thread, writes, number as u32 + 1);
                    warned |= unprotected;
                    if let (true, Some(first)) = (unprotected, partner) {
                        let pair = LocationPair { first, second: EventId::new(number), count: 1 };
                        let key = match limits.all_pairs {
                            true => (first.0 as u64, number as u64),
                            false => pair.key(trace),
                        };
                        match known.get(&key) {
                            Some(&index) => found.pairs[index].count += 1,
                            None if found.pairs.len() == limits.pairs => found.complete = false,
                            None => {
                                known.insert(key, found.pairs.len());
                                found.pairs.push(pair);
                            }
                        }
                    }
                }
                if warned {
                    warnings.push(EventId::new(number));
                }
            }
            _ => {}
        }
    }
    (warnings, found)
}

impl Cell {
    /// Eraser's state machine; true if the access is reported.
    fn access(&mut self, thread: ThreadId, writes: bool, protection: u32, sets: &mut Sets) -> bool {
        match self.state {
            State::Virgin => {
                self.state = State::Exclusive(thread);
                return false;
            }
            State::Exclusive(owner) if owner == thread => return false,
            State::Exclusive(_) => {
                self.candidates = protection;
                self.state = if writes { State::SharedModified } else { State::Shared };
            }
            State::Shared | State::SharedModified => {
                self.candidates = sets.intersect(self.candidates, protection);
                if writes {
                    self.state = State::SharedModified;
                }
            }
        }
        self.state == State::SharedModified && self.candidates == 0
    }

    /// Remembers the access; returns the last conflicting one by another thread.
    fn note(&mut self, trace: &Trace, thread: ThreadId, writes: bool, time: u32) -> Option<EventId> {
        let foreign = |time: u32| time != 0 && trace.thread_of(EventId(time - 1)) != thread;
        let last = |last: u32, other: u32| {
            if foreign(last) {
                last
            } else if foreign(other) {
                other
            } else {
                0
            }
        };
        let write = last(self.write, self.other_write);
        let read = if writes { last(self.read, self.other_read) } else { 0 };
        let (latest, other) =
            if writes { (&mut self.write, &mut self.other_write) } else { (&mut self.read, &mut self.other_read) };
        if foreign(*latest) {
            *other = *latest;
        }
        *latest = time;
        write.max(read).checked_sub(1).map(EventId)
    }
}
