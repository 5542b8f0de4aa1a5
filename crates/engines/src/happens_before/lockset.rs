//! Eraser's locksets (Savage et al. 1997).
//!
//! Guarantee: none. Memory that several threads access, one of them writing,
//! without one lock common to all accesses is reported; that may be no race at all
//! (fork, join and other synchronisation are not seen), so the result is only ever a candidate.
//! Deviation: atomic accesses are ignored, and a lock held for reading protects
//! reads only. Cost: a handful of nanoseconds an access; sets are interned, and
//! intersections are remembered.

use crate::happens_before::pairs::{Limits, LocationPair, Racing};
use crate::holds::{Hold, Holds};
use snag_model::{Cells, EventId, LockId, Mode, Op, ThreadId, Trace};
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
    holds: Holds,
    /// All of them: protects reads.
    any: u32,
    /// Those held for writing: protects writes.
    exclusive: u32,
}

impl Held {
    /// Works out the sets again if the thread now holds a lock in another way.
    fn note(&mut self, (before, after): (Hold, Hold), sets: &mut Sets) {
        if before.mode() == after.mode() {
            return;
        }
        let sorted = |of: &dyn Fn(&Hold) -> bool| {
            let mut set: Vec<LockId> =
                self.holds.locks().iter().filter(|hold| of(hold)).map(|hold| hold.lock).collect();
            set.sort_unstable();
            set
        };
        let (any, exclusive) = (sorted(&|_| true), sorted(&|hold| hold.mode() == Some(Mode::Exclusive)));
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
        let own = &mut held[thread.index()];
        match op {
            Op::Read | Op::Write | Op::Free => {
                let writes = op != Op::Read;
                let protection = if writes { own.exclusive } else { own.any };
                let mut warned = false;
                for cell in cells.touched_by(trace, EventId::new(number)) {
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
            // From their columns: there are about as many as accesses, and an access takes a handful of nanoseconds.
            Op::Acquire => {
                let change = own.holds.acquire(LockId(trace.events.targets()[number]), Mode::Exclusive);
                own.note(change, &mut sets);
            }
            Op::Release => {
                let change = own.holds.release(LockId(trace.events.targets()[number]), Mode::Exclusive);
                own.note(change, &mut sets);
            }
            _ => {
                if let Some(change) = own.holds.apply(trace.action(EventId::new(number))) {
                    own.note(change, &mut sets);
                }
            }
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
