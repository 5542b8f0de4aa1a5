//! Which deadlocks to ask about: sets of acquires, each waiting for a lock that the next one's thread holds.
//!
//! An acquire matters only if the lock it wants leads back, in the graph of locks acquired while others are held, to one that
//! its thread holds; a program that takes its locks in order has none. From each such acquire the cycles are followed
//! in which it is the earliest: through acquires inside sections on the wanted lock that the saturated order leaves open, of
//! threads that hold no lock in common (guards) and with readers not in each other's way. Only smallest cycles count: no
//! member waits for another one but the next.
//!
//! Cost: what the saturated order leaves open. Where threads hardly meet that can be much; the caller may bound the steps.

use crate::maximal::index::Index;
use crate::maximal::sections::{HeldId, Hold};
use snag_model::{EventId, LockId, Op};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// So many earliest acquires make a task.
const TASK: usize = 16;

/// After so many steps somebody is asked whether to stop.
const STEPS: usize = 1024;

/// An acquire that may be part of a deadlock.
struct Acquire {
    event: EventId,
    thread: usize,
    wanted: Hold,
    held: HeldId,
}

/// All sets of acquires that may be deadlocks.
pub struct Cycles<'i, 't> {
    index: &'i Index<'t>,
    /// In the order of the trace.
    acquires: Vec<Acquire>,
    /// Per hold and thread the acquires in which the thread holds like that.
    under: HashMap<Hold, Vec<Under>>,
}

/// The acquires in which a thread holds a lock.
struct Under {
    thread: usize,
    /// Ascending.
    acquires: Vec<u32>,
    /// Where each of them is in its thread.
    positions: Vec<u32>,
}

/// How many acquires a set has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// Any number.
    Any,
    /// So many.
    Exactly(usize),
}

/// What became of a visit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visited {
    /// How it ended.
    pub end: End,
    /// There may be longer sets.
    pub longer: bool,
    /// How many acquires were looked at.
    pub steps: usize,
}

/// How a visit ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// All sets were visited.
    All,
    /// The steps were used up.
    Steps,
    /// The visitor had enough, or was told to stop.
    Enough,
}

/// What is told about each set of acquires; it says whether to go on.
pub type Visit<'v> = dyn FnMut(&[EventId]) -> bool + 'v;

impl<'i, 't> Cycles<'i, 't> {
    /// Finds the acquires of a trace that matter.
    pub fn of(index: &'i Index<'t>) -> Cycles<'i, 't> {
        let mut acquires = nested_acquires(index);
        let knots = Knots::of(index, &acquires);
        acquires.retain(|acquire| {
            let mut held = index.sections.set(acquire.held).iter();
            held.any(|hold| knots.tied(hold.lock, acquire.wanted.lock))
        });
        let mut under: HashMap<Hold, Vec<Under>> = HashMap::new();
        let mut places: HashMap<(Hold, usize), usize> = HashMap::new();
        for (number, acquire) in acquires.iter().enumerate() {
            for &hold in index.sections.set(acquire.held) {
                let lists = under.entry(hold).or_default();
                let at = *places.entry((hold, acquire.thread)).or_insert(lists.len());
                if at == lists.len() {
                    lists.push(Under { thread: acquire.thread, acquires: Vec::new(), positions: Vec::new() });
                }
                lists[at].acquires.push(number as u32);
                lists[at].positions.push(index.threads.position(acquire.event));
            }
        }
        Cycles { index, acquires, under }
    }

    /// How many tasks there are; they can be worked on in any order.
    pub fn tasks(&self) -> usize {
        self.acquires.len().div_ceil(TASK)
    }

    /// How many acquires a task follows.
    pub fn size(&self, task: usize) -> usize {
        TASK.min(self.acquires.len() - task * TASK)
    }

    /// The locks that these acquires want, sorted.
    pub fn locks(&self, events: &[EventId]) -> Vec<LockId> {
        let wanted = |&event: &EventId| {
            let section = self.index.sections.of_event(event).expect("begins a section");
            self.index.sections.get(section).lock
        };
        let mut locks: Vec<LockId> = events.iter().map(wanted).collect();
        locks.sort_unstable();
        locks
    }

    /// Visits the sets of acquires of a task, looking at no more than `most_steps` acquires for each earliest one. For how many
    /// of its acquires not all sets were visited: there were too many, the visitor had enough, or `stop` said so.
    pub fn visit(&self, task: usize, most_steps: usize, stop: &dyn Fn() -> bool, visit: &mut Visit) -> usize {
        let earliest = self.earliest(task);
        let mut cut_short = 0;
        for number in earliest.clone() {
            match self.visit_from(number, Length::Any, most_steps, stop, visit).end {
                End::All => {}
                End::Steps => cut_short += 1,
                End::Enough => return cut_short + earliest.end - number,
            }
        }
        cut_short
    }

    /// How many threads there are, or rather strands of them.
    pub fn threads(&self) -> u64 {
        self.index.threads.count() as u64
    }

    /// The acquires of a task, each the earliest one of its sets.
    pub fn earliest(&self, task: usize) -> Range<usize> {
        task * TASK..task * TASK + self.size(task)
    }

    /// Visits the sets of acquires of some length in which this one is the earliest, looking at no more than
    /// `most_steps` others.
    pub fn visit_from(
        &self,
        earliest: usize,
        length: Length,
        most_steps: usize,
        stop: &dyn Fn() -> bool,
        visit: &mut Visit,
    ) -> Visited {
        let path = vec![earliest as u32];
        let mut walk = Walk { cycles: self, path, length, longer: false, steps: 0, most_steps, stop, enough: false };
        walk.extend(visit);
        let end = match () {
            () if walk.enough => End::Enough,
            () if walk.steps > most_steps => End::Steps,
            () => End::All,
        };
        Visited { end, longer: walk.longer, steps: walk.steps }
    }

    fn get(&self, number: u32) -> &Acquire {
        &self.acquires[number as usize]
    }

    /// Whether one acquire waits for a lock that the thread of another one holds there.
    fn waits(&self, a: u32, b: u32) -> bool {
        let held = self.index.sections.set(self.get(b).held);
        held.iter().any(|hold| hold.excludes(self.get(a).wanted))
    }

    /// Whether two acquires can be pending at once, as far as threads, locks and saturated order go.
    fn compatible(&self, a: u32, b: u32) -> bool {
        let Index { threads, saturated, sections, .. } = self.index;
        let (a, b) = (self.get(a), self.get(b));
        let before = |a: &Acquire, b: &Acquire| {
            threads.previous(b.event).is_some_and(|p| saturated.row(p).get(a.thread) > threads.position(a.event))
        };
        a.thread != b.thread && !before(a, b) && !before(b, a) && !sections.exclude(a.held, b.held)
    }
}

/// Follows the cycles from one acquire.
struct Walk<'c, 'i, 't, 's> {
    cycles: &'c Cycles<'i, 't>,
    path: Vec<u32>,
    length: Length,
    /// A path was as long as it may be, and no cycle.
    longer: bool,
    steps: usize,
    most_steps: usize,
    stop: &'s dyn Fn() -> bool,
    /// The visitor had enough, or there is no time.
    enough: bool,
}

impl Walk<'_, '_, '_, '_> {
    fn extend(&mut self, visit: &mut Visit) {
        let cycles = self.cycles;
        let last = cycles.get(self.path[self.path.len() - 1]);
        let exclusive = Hold { lock: last.wanted.lock, shared: false };
        let shared = Hold { lock: last.wanted.lock, shared: true };
        let ways = if last.wanted.shared { &[exclusive][..] } else { &[exclusive, shared][..] };
        for hold in ways {
            for under in cycles.under.get(hold).into_iter().flatten().filter(|under| under.thread != last.thread) {
                for &next in self.open(last, under) {
                    self.steps += 1;
                    self.enough |= self.steps.is_multiple_of(STEPS) && (self.stop)();
                    if self.enough || self.steps > self.most_steps {
                        return;
                    }
                    // Held in both ways, it is in two lists.
                    let again = hold.shared && cycles.index.sections.set(cycles.get(next).held).contains(&exclusive);
                    if !again {
                        self.step(next, visit);
                    }
                }
            }
        }
    }

    /// The acquires of a thread, later than the first of the cycle, that the saturated order does not put before or
    /// after one.
    fn open<'u>(&self, acquire: &Acquire, under: &'u Under) -> &'u [u32] {
        let Index { threads, saturated, .. } = self.cycles.index;
        let before = threads.previous(acquire.event).map_or(0, |previous| saturated.row(previous).get(under.thread));
        let mut low = under.positions.partition_point(|&position| position < before);
        if under.acquires.get(low).is_some_and(|&number| number <= self.path[0]) {
            low += under.acquires[low..].partition_point(|&number| number <= self.path[0]);
        }
        let position = threads.position(acquire.event);
        let follows = |&number: &u32| {
            let previous = threads.previous(self.cycles.get(number).event);
            previous.is_some_and(|previous| saturated.row(previous).get(acquire.thread) > position)
        };
        // Mostly few are left, and of a long list each question costs a look at two orders.
        let mut bound = 1;
        let rest = &under.acquires[low..];
        while rest.get(bound - 1).is_some_and(|number| !follows(number)) {
            bound *= 2;
        }
        let known = bound / 2;
        let until = (bound - 1).min(rest.len());
        let high = known + rest[known..until.max(known)].partition_point(|number| !follows(number));
        &rest[..high]
    }

    fn step(&mut self, next: u32, visit: &mut Visit) {
        let cycles = self.cycles;
        let (start, inner) = (self.path[0], &self.path[1..]);
        if !self.path.iter().all(|&member| cycles.compatible(member, next)) {
            return;
        }
        // With one of these there is a smaller cycle inside, which is found by itself.
        let shortcut = inner.iter().any(|&member| cycles.waits(next, member))
            || self.path[..self.path.len() - 1].iter().any(|&member| cycles.waits(member, next));
        if shortcut {
            return;
        }
        self.path.push(next);
        let is_longest = self.length == Length::Exactly(self.path.len());
        if !cycles.waits(next, start) {
            self.longer |= is_longest;
            if !is_longest {
                self.extend(visit);
            }
        } else if is_longest || self.length == Length::Any {
            let events: Vec<EventId> = self.path.iter().map(|&member| cycles.get(member).event).collect();
            self.enough |= !visit(&events);
        }
        self.path.pop();
    }
}

/// Acquires that begin a section while something is held.
fn nested_acquires(index: &Index) -> Vec<Acquire> {
    let mut acquires = Vec::new();
    for (at, &op) in index.trace.events.ops().iter().enumerate() {
        if !matches!(op, Op::Acquire | Op::ReadAcquire | Op::WaitEnd) {
            continue;
        }
        // Who only tries does not wait.
        if op != Op::WaitEnd && index.trace.events.aux(at) != 0 {
            continue;
        }
        let event = EventId::new(at);
        let Some(section) = index.sections.of_event(event) else { continue };
        let section = index.sections.get(section);
        let held = index.sections.held_id(section.thread, index.threads.position(event));
        if !index.sections.set(held).is_empty() {
            let wanted = Hold { lock: section.lock, shared: section.shared };
            acquires.push(Acquire { event, thread: section.thread, wanted, held });
        }
    }
    acquires
}

/// Locks that lead to each other in the graph of locks acquired while others are held.
struct Knots {
    /// The number of each lock's knot.
    of_lock: Vec<u32>,
}

impl Knots {
    fn of(index: &Index, acquires: &[Acquire]) -> Knots {
        let locks = index.trace.tables.lock_count();
        let mut edges: HashSet<(u32, u32)> = HashSet::new();
        for acquire in acquires {
            for hold in index.sections.set(acquire.held) {
                edges.insert((hold.lock.0, acquire.wanted.lock.0));
            }
        }
        let mut out: Vec<Vec<u32>> = vec![Vec::new(); locks];
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); locks];
        for (from, to) in edges {
            out[from as usize].push(to);
            into[to as usize].push(from);
        }
        // Kosaraju: what can be reached backwards, in the reverse of the order in which forward walks end.
        let mut order = Vec::new();
        let mut seen = vec![false; locks];
        for lock in 0..locks as u32 {
            visit_from(lock, &out, &mut seen, &mut order);
        }
        let mut of_lock = vec![0; locks];
        let mut seen = vec![false; locks];
        for (knot, &lock) in order.iter().rev().enumerate() {
            let mut members = Vec::new();
            visit_from(lock, &into, &mut seen, &mut members);
            members.iter().for_each(|&member| of_lock[member as usize] = knot as u32);
        }
        Knots { of_lock }
    }

    fn tied(&self, a: LockId, b: LockId) -> bool {
        self.of_lock[a.index()] == self.of_lock[b.index()]
    }
}

/// Appends what can be reached and was not seen, in the order in which walks end.
fn visit_from(start: u32, next: &[Vec<u32>], seen: &mut [bool], order: &mut Vec<u32>) {
    if std::mem::replace(&mut seen[start as usize], true) {
        return;
    }
    let mut path = vec![(start, 0)];
    while let Some((node, at)) = path.last_mut() {
        match next[*node as usize].get(*at) {
            Some(&other) => {
                *at += 1;
                if !std::mem::replace(&mut seen[other as usize], true) {
                    path.push((other, 0));
                }
            }
            None => {
                order.push(*node);
                path.pop();
            }
        }
    }
}
