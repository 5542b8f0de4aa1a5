//! Which deadlocks to ask about: cycles of acquires, each waiting for a lock that the next one's thread holds.
//!
//! Acquires are grouped by thread, lock and locks held; a cycle of groups stands for all deadlocks of acquires from
//! these groups. Locks held in common (guards) and reader locks rule out cycles here already. Only smallest cycles are
//! looked at: none of whose members waits for another one but the next.

use crate::index::Index;
use crate::pairs::place;
use crate::sections::{HeldId, Hold};
use snag_trace::{EventId, Op};
use std::collections::{BTreeMap, HashMap};

/// More steps than this are not spent on finding cycles.
const MOST_STEPS: usize = 2_000_000;

/// Acquires that locks do not tell apart.
struct Group {
    thread: usize,
    wanted: Hold,
    held: HeldId,
    events: Vec<EventId>,
}

/// Deadlocks at the same places in the program.
pub struct CycleTask {
    /// The places of the acquires, sorted.
    pub places: Vec<u64>,
    cycles: Vec<Vec<u32>>,
}

/// All cycles of acquires that may be deadlocks.
pub struct Cycles<'i, 't> {
    index: &'i Index<'t>,
    groups: Vec<Group>,
    /// One per set of places.
    pub tasks: Vec<CycleTask>,
    /// All cycles were found.
    pub complete: bool,
}

impl<'i, 't> Cycles<'i, 't> {
    /// Finds the cycles of a trace.
    pub fn of(index: &'i Index<'t>) -> Cycles<'i, 't> {
        let groups = groups(index);
        let mut search = CycleSearch { index, groups: &groups, waits_for: Vec::new(), found: Vec::new(), steps: 0 };
        search.run();
        let (found, complete) = (search.found, search.steps < MOST_STEPS);
        let mut tasks: BTreeMap<Vec<u64>, Vec<Vec<u32>>> = BTreeMap::new();
        for cycle in found {
            let mut places: Vec<u64> = cycle.iter().map(|&g| place(index, groups[g as usize].events[0])).collect();
            places.sort_unstable();
            tasks.entry(places).or_default().push(cycle);
        }
        let tasks = tasks.into_iter().map(|(places, cycles)| CycleTask { places, cycles }).collect();
        Cycles { index, groups, tasks, complete }
    }

    /// The sets of acquires of a task of which no two are ordered.
    pub fn of_task<'p>(&'p self, task: &'p CycleTask) -> impl Iterator<Item = Vec<EventId>> + 'p {
        task.cycles.iter().flat_map(|cycle| Tuples::new(self, cycle))
    }

    /// Whether two acquires are ordered, so that they cannot both be pending.
    fn ordered(&self, a: EventId, b: EventId) -> bool {
        let Index { threads, must, .. } = self.index;
        let before = |a: EventId, b: EventId| {
            threads.previous(b).is_some_and(|b| must.row(b)[threads.thread(a)] > threads.position(a))
        };
        before(a, b) || before(b, a)
    }
}

/// All ways to pick an unordered acquire from each group of a cycle, like the digits of a number.
struct Tuples<'p, 'i, 't> {
    cycles: &'p Cycles<'i, 't>,
    cycle: &'p [u32],
    /// The acquire picked from each group, by its number in the group.
    picked: Vec<usize>,
    started: bool,
}

impl<'p, 'i, 't> Tuples<'p, 'i, 't> {
    fn new(cycles: &'p Cycles<'i, 't>, cycle: &'p [u32]) -> Self {
        Tuples { cycles, cycle, picked: Vec::new(), started: false }
    }

    fn event(&self, member: usize, number: usize) -> Option<EventId> {
        self.cycles.groups[self.cycle[member] as usize].events.get(number).copied()
    }

    /// Picks the next acquire of the last group, or backs up; until all groups have one, or there is nothing left.
    fn advance(&mut self) -> bool {
        let mut from = match self.started {
            true => match self.picked.pop() {
                Some(last) => last + 1,
                None => return false,
            },
            false => 0,
        };
        self.started = true;
        loop {
            let member = self.picked.len();
            let fits = |number: &usize| {
                let event = self.event(member, *number).expect("the range ends with the group");
                let mut others = self.picked.iter().enumerate();
                others.all(|(other, &n)| !self.cycles.ordered(self.event(other, n).expect("was picked"), event))
            };
            let count = self.cycles.groups[self.cycle[member] as usize].events.len();
            match (from..count).find(fits) {
                Some(number) => {
                    self.picked.push(number);
                    if self.picked.len() == self.cycle.len() {
                        return true;
                    }
                    from = 0;
                }
                None => match self.picked.pop() {
                    Some(last) => from = last + 1,
                    None => return false,
                },
            }
        }
    }
}

impl Iterator for Tuples<'_, '_, '_> {
    type Item = Vec<EventId>;

    fn next(&mut self) -> Option<Vec<EventId>> {
        if !self.advance() {
            return None;
        }
        let events = self.picked.iter().enumerate().map(|(member, &number)| self.event(member, number));
        events.collect()
    }
}

/// Looks for cycles from each group, through later groups only: so each cycle is found once.
struct CycleSearch<'s, 'i, 't> {
    index: &'i Index<'t>,
    groups: &'s [Group],
    /// The groups each group may wait for.
    waits_for: Vec<Vec<u32>>,
    found: Vec<Vec<u32>>,
    steps: usize,
}

impl CycleSearch<'_, '_, '_> {
    fn run(&mut self) {
        let mut holding: HashMap<(u32, bool), Vec<u32>> = HashMap::new();
        for (number, group) in self.groups.iter().enumerate() {
            for hold in self.index.sections.set(group.held) {
                holding.entry((hold.lock.0, hold.shared)).or_default().push(number as u32);
            }
        }
        for group in self.groups {
            let exclusive = holding.get(&(group.wanted.lock.0, false)).into_iter().flatten();
            let shared = holding.get(&(group.wanted.lock.0, true)).filter(|_| !group.wanted.shared).into_iter().flatten();
            let mut others: Vec<u32> = exclusive.chain(shared).copied().collect();
            others.retain(|&other| self.groups[other as usize].thread != group.thread);
            others.sort_unstable();
            others.dedup();
            self.waits_for.push(others);
        }
        for start in 0..self.groups.len() as u32 {
            self.extend(&mut vec![start]);
        }
    }

    fn waits(&self, a: u32, b: u32) -> bool {
        self.waits_for[a as usize].binary_search(&b).is_ok()
    }

    fn extend(&mut self, path: &mut Vec<u32>) {
        self.steps += 1;
        if self.steps >= MOST_STEPS {
            return;
        }
        let (start, last) = (path[0], path[path.len() - 1]);
        for at in 0..self.waits_for[last as usize].len() {
            let next = self.waits_for[last as usize][at];
            if next <= start || !path.iter().all(|&member| self.compatible(member, next)) {
                continue;
            }
            // A smaller cycle inside: found by itself.
            let inner = &path[1..];
            let shortcut = inner.iter().any(|&member| self.waits(next, member))
                || path[..path.len() - 1].iter().any(|&member| self.waits(member, next));
            if shortcut {
                continue;
            }
            path.push(next);
            match self.waits(next, start) {
                true => self.found.push(path.clone()),
                false => self.extend(path),
            }
            path.pop();
        }
    }

    /// Whether acquires of two groups can be pending at once: other threads, and no lock held by both.
    fn compatible(&self, a: u32, b: u32) -> bool {
        let (a, b) = (&self.groups[a as usize], &self.groups[b as usize]);
        a.thread != b.thread && !self.index.sections.exclude(a.held, b.held)
    }
}

/// Acquires that begin a section while something is held.
fn groups(index: &Index) -> Vec<Group> {
    let threads = &index.threads;
    let mut numbers: HashMap<(usize, Hold, HeldId, u64), usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (at, &op) in index.trace.events.ops().iter().enumerate() {
        if !matches!(op, Op::Acquire | Op::ReadAcquire | Op::WaitEnd) {
            continue;
        }
        let event = EventId::new(at);
        let Some(section) = index.sections.of_event(event) else { continue };
        let section = index.sections.get(section);
        let (thread, wanted) = (section.thread, Hold { lock: section.lock, shared: section.shared });
        let held = index.sections.held_id(thread, threads.position(event));
        if index.sections.set(held).is_empty() {
            continue;
        }
        let key = (thread, wanted, held, place(index, event));
        let group = *numbers.entry(key).or_insert_with(|| {
            groups.push(Group { thread, wanted, held, events: Vec::new() });
            groups.len() - 1
        });
        groups[group].events.push(event);
    }
    groups
}
