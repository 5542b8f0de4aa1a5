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
//!   comes before all else by the saturated order, because of forks, or because whoever comes in has read where the
//!   lock is. It may start again in the same way. (Not at `control`, where what such a write leaves depends on what its
//!   thread has read.)
//!
//! - The same if only a part of the cell's bits says whether it is free, and the others note something else.
//! - A counter that is used as a lock for reading and writing ([`crate::maximal::tally`]).
//!
//! Two accesses inside such sections of different threads are never a race. The other stages would find that out as well, but
//! one pair at a time.

use crate::maximal::index::Index;
use crate::maximal::memory::Source;
use crate::maximal::tally::{Counted, Part, Tally};
use snag_model::Level;
use snag_model::{EventId, Op};
use std::collections::HashMap;

/// In a cell with more writes than this only the whole value is looked at.
const MOST_WRITES: usize = 200_000;

/// Number of a set of guards; 0 is the empty set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct GuardId(u32);

/// The number of a guard, and whether others may hold it at the same time in the same way.
type Guard = (u32, bool);

/// Where threads are inside sections that exclude each other.
pub(crate) struct Guards {
    /// The guards of each set, ascending.
    sets: Vec<Vec<Guard>>,
    /// Per thread from which position on which set holds; ascending.
    changes: Vec<Vec<(u32, GuardId)>>,
}

/// A section: its guard, its thread, and after which positions it begins and ends.
struct Section {
    guard: u32,
    thread: usize,
    start: u32,
    end: Option<u32>,
    /// Others may be inside at the same time, if theirs is shared as well.
    shared: bool,
}

impl Guards {
    pub fn of(index: &Index) -> Guards {
        let mut sections = semaphores(index);
        let guards = index.semaphores.len() as u32;
        // Spin locks are about what reads must see.
        if matches!(index.level, Level::Value | Level::Control) {
            sections.extend(atomics(index, guards));
        }
        let threads = index.threads.count();
        let mut steps: Vec<Vec<(u32, Guard, bool)>> = vec![Vec::new(); threads];
        for section in sections {
            let guard = (section.guard, section.shared);
            steps[section.thread].push((section.start + 1, guard, true));
            steps[section.thread].extend(section.end.map(|end| (end + 1, guard, false)));
        }
        let mut guards = Guards { sets: vec![Vec::new()], changes: vec![vec![(0, GuardId(0))]; threads] };
        let mut numbers = HashMap::from([(Vec::new(), GuardId(0))]);
        for (thread, mut steps) in steps.into_iter().enumerate() {
            steps.sort_unstable();
            let mut set: Vec<Guard> = Vec::new();
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
        let excludes = |&(guard, shared): &Guard| {
            b.binary_search(&(guard, false)).is_ok() || !shared && b.binary_search(&(guard, true)).is_ok()
        };
        a.iter().any(excludes)
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
                own.push(Section { guard: guard as u32, thread, start, end: position(1), shared: false });
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
    /// The read-modify-write by which each thread that is inside came in.
    inside: HashMap<usize, EventId>,
    sections: Vec<(EventId, Option<EventId>)>,
    /// What the cell started with, and the value of that.
    start: Source,
    free: Option<u64>,
    /// The last write of each thread.
    last: HashMap<usize, EventId>,
}

/// Spin locks, and counters where a cell is no spin lock.
fn atomics(index: &Index, first_guard: u32) -> Vec<Section> {
    let (trace, memory, threads) = (index.trace, &index.memory, &index.threads);
    let mut used = Vec::new();
    for (at, _) in trace.events.ops().iter().enumerate().filter(|(_, op)| **op == Op::Rmw) {
        used.extend(memory.cells_of(EventId::new(at)));
    }
    used.sort_unstable();
    used.dedup();
    let mut sections = Vec::new();
    for (number, cell) in used.into_iter().enumerate() {
        let mut writes: Vec<EventId> = memory.writes(cell).flat_map(|list| list.events).copied().collect();
        writes.sort_unstable();
        let used =
            writes.iter().filter_map(|&write| memory.value_left(Some(write), cell)).fold(0, |all, one| all | one);
        let parts = Part::all(used).take(if writes.len() > MOST_WRITES { 1 } else { usize::MAX });
        let sections_by = |part| spin_lock(index, cell, &writes, part).or_else(|| counter(index, cell, &writes, part));
        let excludes = |found: &Vec<Counted>| found.iter().any(|section| !section.shared);
        let Some(found) = parts.filter_map(sections_by).find(excludes) else { continue };
        for Counted { start, end, shared } in found {
            let end = end.map(|end| threads.position(end));
            // From here on it is sure to have read that nobody was inside.
            let Some(start) = index.kept_at(start) else { continue };
            let (thread, start) = (threads.thread(start), threads.position(start));
            if end.is_none_or(|end| start < end) {
                sections.push(Section { guard: first_guard + number as u32, thread, start, end, shared });
            }
        }
    }
    sections
}

/// The sections of a cell if all its writes fit.
fn spin_lock(index: &Index, cell: usize, writes: &[EventId], part: Part) -> Option<Vec<Counted>> {
    let mut spin = Spin::default();
    for &event in writes {
        let (op, thread) = (index.op(event), index.threads.thread(event));
        let fits = spin.starts(index, event, op) || index.memory.cells_of(event).len() == 1;
        if !fits || !spin.follow(index, event, thread, op, cell, part) {
            return None;
        }
        spin.last.insert(thread, event);
    }
    spin.sections.extend(spin.inside.values().map(|&start| (start, None)));
    Some(spin.sections.into_iter().map(|(start, end)| Counted { start, end, shared: false }).collect())
}

fn counter(index: &Index, cell: usize, writes: &[EventId], part: Part) -> Option<Vec<Counted>> {
    let mut tally = Tally::default();
    let mut follow = |&event: &EventId| tally.follow(index, event, index.op(event), cell, part);
    if index.level != Level::Value || !writes.iter().all(&mut follow) {
        return None;
    }
    tally.finish();
    Some(tally.sections)
}

impl Spin {
    /// Whether the cell starts, or starts again, with a write: everything else is before it or will have to be after it.
    fn starts(&self, index: &Index, event: EventId, op: Op) -> bool {
        let before = |write: &EventId| index.saturated.reaches(&index.threads, *write, event);
        index.level == Level::Value && op != Op::Rmw && self.inside.is_empty() && self.last.values().all(before)
    }

    /// Whether a write fits.
    fn follow(&mut self, index: &Index, event: EventId, thread: usize, op: Op, cell: usize, part: Part) -> bool {
        let memory = &index.memory;
        if self.starts(index, event, op) {
            (self.start, self.free) = (Some(event), None);
            return true;
        }
        if self.start.is_some_and(|start| !index.saturated.reaches(&index.threads, start, event)) {
            return false;
        }
        let read = match op {
            Op::Rmw => memory.always_read(event, cell, self.start).map(|value| part.of(value)),
            _ => None,
        };
        // The first one after the start sees that.
        if self.free.is_none() {
            self.free = read;
        }
        let Some(free) = self.free else { return false };
        let Some(written) = memory.value_left(Some(event), cell).map(|value| part.of(value)) else { return false };
        if let Some(&start) = self.inside.get(&thread) {
            if written == free {
                self.inside.remove(&thread);
                self.sections.push((start, Some(event)));
            }
            return true;
        }
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
