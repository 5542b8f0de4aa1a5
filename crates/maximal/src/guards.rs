//! Mutual exclusion that is not by locks: semaphores and spin locks that are used like one.
//!
//! - A semaphore that starts at one, on which every thread waits and posts in turn: the number of threads in between is one
//!   minus its count, so at most one.
//! - A cell that starts with a value *free*. A thread outside only ever does read-modify-writes on it: from *free* to something else,
//!   and then it is inside; or from something else to something else. A thread inside may do anything, and is outside
//!   again once it writes *free*. As every read-modify-write in a schedule reads what it read in the trace, the cell holds
//!   something else as long as somebody is inside, and nobody can come in. At `control` a read-modify-write is sure to have
//!   read that only once a branch follows it; so a thread counts as inside from that branch on.
//! - The same if the cell starts with a write, as that of a lock on the heap does, instead of the initial memory: one that
//!   comes before all else by the hard order. It may start again in the same way. (Not at `control`, where what
//!   such a write leaves depends on what its thread has read.)
//!
//! Two accesses inside such sections of different threads are never a race. The other stages would find that out as well, but
//! one pair at a time.

use crate::index::Index;
use crate::memory::Source;
use snag_schedule::Level;
use snag_trace::{EventId, Op};
use std::collections::HashMap;

/// Number of a set of guards; 0 is the empty set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct GuardId(u32);

/// Where threads are inside sections that exclude each other.
pub(crate) struct Guards {
    sets: Vec<Vec<u32>>,
    /// Per thread from which position on which set holds; ascending.
    changes: Vec<Vec<(u32, GuardId)>>,
}

/// A section: its guard, its thread, and after which positions it begins and ends.
struct Section {
    guard: u32,
    thread: usize,
    start: u32,
    end: Option<u32>,
}

impl Guards {
    pub fn of(index: &Index) -> Guards {
        let mut sections = semaphores(index);
        let guards = index.semaphores.len() as u32;
        // Spin locks are about what reads must see.
        if matches!(index.level, Level::Value | Level::Control) {
            sections.extend(spin_locks(index, guards));
        }
        let threads = index.threads.count();
        let mut steps: Vec<Vec<(u32, u32, bool)>> = vec![Vec::new(); threads];
        for section in sections {
            steps[section.thread].push((section.start + 1, section.guard, true));
            steps[section.thread].extend(section.end.map(|end| (end + 1, section.guard, false)));
        }
        let mut guards = Guards { sets: vec![Vec::new()], changes: vec![vec![(0, GuardId(0))]; threads] };
        let mut numbers = HashMap::from([(Vec::new(), GuardId(0))]);
        for (thread, mut steps) in steps.into_iter().enumerate() {
            steps.sort_unstable();
            let mut set: Vec<u32> = Vec::new();
            for (position, guard, begins) in steps {
                match (set.binary_search(&guard), begins) {
                    (Err(at), true) => set.insert(at, guard),
                    (Ok(at), false) => drop(set.remove(at)),
                    _ => continue,
                }
                let next = GuardId(guards.sets.len() as u32);
                let number = *numbers.entry(set.clone()).or_insert(next);
                if number == next {
                    guards.sets.push(set.clone());
                }
                guards.changes[thread].push((position, number));
            }
        }
        guards
    }

    /// What guards a thread after its first so many events.
    pub fn held(&self, thread: usize, count: u32) -> GuardId {
        let changes = &self.changes[thread];
        changes[changes.partition_point(|change| change.0 <= count) - 1].1
    }

    /// Whether two threads cannot be there at once.
    pub fn exclude(&self, a: GuardId, b: GuardId) -> bool {
        let (a, b) = (&self.sets[a.0 as usize], &self.sets[b.0 as usize]);
        a.iter().any(|guard| b.binary_search(guard).is_ok())
    }
}

fn semaphores(index: &Index) -> Vec<Section> {
    let threads = &index.threads;
    let mut sections = Vec::new();
    for (guard, semaphore) in index.semaphores.iter().enumerate().filter(|(_, semaphore)| semaphore.initial == 1) {
        let mut events: Vec<(usize, EventId)> =
            semaphore.waits.iter().chain(&semaphore.posts).map(|&event| (threads.thread(event), event)).collect();
        events.sort_unstable();
        let mut own = Vec::new();
        let mut in_turn = true;
        for same_thread in events.chunk_by(|a, b| a.0 == b.0) {
            for turn in same_thread.chunks(2) {
                let is = |at: usize, op: Op| turn.get(at).is_none_or(|&(_, event)| index.op(event) == op);
                in_turn &= is(0, Op::SemWait) && is(1, Op::SemPost);
                let position = |at: usize| turn.get(at).map(|&(_, event)| threads.position(event));
                let (thread, start) = (turn[0].0, threads.position(turn[0].1));
                own.push(Section { guard: guard as u32, thread, start, end: position(1) });
            }
        }
        if in_turn {
            sections.extend(own);
        }
    }
    sections
}

/// One cell while the trace is followed.
#[derive(Default)]
struct Spin {
    /// Some access does not fit.
    spoilt: bool,
    /// The read-modify-write by which each thread that is inside came in.
    inside: HashMap<usize, EventId>,
    sections: Vec<(EventId, Option<EventId>)>,
    /// What the cell started with.
    start: Source,
    /// The last write of each thread.
    last: HashMap<usize, EventId>,
}

fn spin_locks(index: &Index, first_guard: u32) -> Vec<Section> {
    let (trace, memory, threads) = (index.trace, &index.memory, &index.threads);
    let mut cells: HashMap<usize, Spin> = HashMap::new();
    for (at, _) in trace.events.ops().iter().enumerate().filter(|(_, op)| **op == Op::Rmw) {
        for cell in memory.cells_of(EventId::new(at)) {
            cells.entry(cell).or_default();
        }
    }
    if cells.is_empty() {
        return Vec::new();
    }
    for (at, &op) in trace.events.ops().iter().enumerate().filter(|(_, op)| op.writes()) {
        let (event, thread) = (EventId::new(at), trace.events.threads()[at].index());
        let touched = memory.cells_of(event);
        for cell in touched.clone() {
            if let Some(spin) = cells.get_mut(&cell)
                && !spin.spoilt
            {
                let fits = spin.starts(index, event, op) || touched.len() == 1;
                spin.spoilt = !fits || !spin.follow(index, event, thread, op, cell);
                spin.last.insert(thread, event);
            }
        }
    }
    let mut sections = Vec::new();
    let mut spins: Vec<_> = cells.into_iter().filter(|(_, spin)| !spin.spoilt).collect();
    spins.sort_unstable_by_key(|(cell, _)| *cell);
    for (number, (_, mut spin)) in spins.into_iter().enumerate() {
        spin.sections.extend(spin.inside.values().map(|&start| (start, None)));
        for (start, end) in spin.sections {
            let end = end.map(|end| threads.position(end));
            // From here on it is sure to have read that nobody was inside.
            let Some(start) = index.kept_at(start) else { continue };
            let (thread, start) = (threads.thread(start), threads.position(start));
            if end.is_none_or(|end| start < end) {
                sections.push(Section { guard: first_guard + number as u32, thread, start, end });
            }
        }
    }
    sections
}

impl Spin {
    /// Whether the cell starts, or starts again, with a write: everything else is before it or will have to be after it.
    fn starts(&self, index: &Index, event: EventId, op: Op) -> bool {
        let before = |write: &EventId| index.hard.reaches(&index.threads, *write, event);
        index.level == Level::Value && op != Op::Rmw && self.inside.is_empty() && self.last.values().all(before)
    }

    /// Whether a write fits.
    fn follow(&mut self, index: &Index, event: EventId, thread: usize, op: Op, cell: usize) -> bool {
        let memory = &index.memory;
        if self.starts(index, event, op) {
            self.start = Some(event);
            return memory.value_left(self.start, cell).is_some();
        }
        if self.start.is_some_and(|start| !index.hard.reaches(&index.threads, start, event)) {
            return false;
        }
        let Some(free) = memory.value_left(self.start, cell) else { return false };
        let Some(written) = memory.value_left(Some(event), cell) else { return false };
        if let Some(&start) = self.inside.get(&thread) {
            if written == free {
                self.inside.remove(&thread);
                self.sections.push((start, Some(event)));
            }
            return true;
        }
        let read = match op {
            Op::Rmw => memory.wanted(event, cell),
            _ => None,
        };
        match read {
            None => false,
            Some(read) if read == free => {
                if written != free {
                    self.inside.insert(thread, event);
                }
                true
            }
            Some(_) => written != free,
        }
    }
}
