//! The other sides of branches: what a thread does if a branch goes the other way.
//!
//! The events of the other side come right behind their branch, in its thread. They take effect only if the branch
//! diverges; then the thread stops behind them.

use crate::maximal::sections::{Hold, Section, SectionId, Sections};
use crate::maximal::threads::Threads;
use snag_model::symbolic::{Role, Symbolic};
use snag_model::{Cells, EventId, LockId, Op, Trace};
use std::collections::HashMap;

/// The other side of a branch.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub branch: EventId,
    /// The position in the thread at which it ends: there the trace goes on, or what comes cannot happen (a lock that
    /// is released without being held, or taken twice).
    pub end: u32,
    /// Whether the branch can be shown to go there at all.
    pub possible: bool,
}

/// All other sides of a trace.
#[derive(Default)]
pub(crate) struct Sides {
    sides: Vec<Side>,
    /// 1 + the side that an event belongs to, or that a branch has; empty if there are none.
    side_of: Vec<u32>,
    /// Per cell the writes of the other sides.
    writes: HashMap<usize, Vec<EventId>>,
}

impl Sides {
    /// Finds them, and adds their critical sections to those of the trace.
    pub fn of(trace: &Trace, cells: &Cells, symbolic: &Symbolic, threads: &Threads, sections: &mut Sections) -> Sides {
        let ops = trace.events.ops();
        let mut all = Sides::default();
        if !ops.iter().any(|op| op.on_other_side()) {
            return all;
        }
        all.side_of = vec![0; trace.len()];
        let missing_methods = ops.contains(&Op::MethodBegin);
        for thread in 0..threads.count() {
            let events = threads.events(thread);
            let mut at = 0;
            while at < events.len() {
                let from = at;
                at += 1;
                while at < events.len() && ops[events[at].index()].on_other_side() {
                    at += 1;
                }
                if at == from + 1 {
                    continue;
                }
                let branch = events[from];
                let with_outcome = matches!(symbolic.role(branch), Role::Branch { outcome: Some(_), .. });
                let number = all.sides.len() as u32;
                for event in &events[from..at] {
                    all.side_of[event.index()] = number + 1;
                }
                let end = Locks { trace, threads, sections, thread, branch }.follow(&events[from + 1..at]);
                all.sides.push(Side { branch, end, possible: with_outcome && !missing_methods });
                for &event in events[from + 1..at].iter().filter(|event| ops[event.index()] == Op::OtherWrite) {
                    for cell in cells.of_event(event.index(), trace.events.targets()[event.index()]) {
                        all.writes.entry(cell).or_default().push(event);
                    }
                }
            }
        }
        all.writes.values_mut().for_each(|writes| writes.sort_unstable());
        all
    }

    /// The other side of a branch, or the one that an event belongs to.
    pub fn side(&self, event: EventId) -> Option<&Side> {
        let number = self.side_of.get(event.index())?.checked_sub(1)?;
        Some(&self.sides[number as usize])
    }

    /// The other side of a branch, if the branch can go there.
    pub fn of_branch(&self, branch: EventId) -> Option<&Side> {
        self.side(branch).filter(|side| side.branch == branch && side.possible)
    }

    /// The branch that must diverge for an event to take effect; none for events of the trace.
    pub fn branch_of(&self, event: EventId) -> Option<EventId> {
        self.side(event).map(|side| side.branch).filter(|&branch| branch != event)
    }

    /// The writes of a cell on the other sides of branches.
    pub fn writes(&self, cell: usize) -> &[EventId] {
        self.writes.get(&cell).map_or(&[], Vec::as_slice)
    }
}

/// Follows the locks on the other side of one branch.
struct Locks<'s> {
    trace: &'s Trace,
    threads: &'s Threads,
    sections: &'s mut Sections,
    thread: usize,
    branch: EventId,
}

impl Locks<'_> {
    /// The position up to which that side can happen.
    fn follow(self, events: &[EventId]) -> u32 {
        // How often a lock is held, and in which section.
        let mut holding: HashMap<LockId, (u32, Option<SectionId>)> = HashMap::new();
        for &event in events {
            let lock = LockId(self.trace.events.targets()[event.index()]);
            let op = self.trace.events.ops()[event.index()];
            if !matches!(op, Op::OtherAcquire | Op::OtherRelease) {
                continue;
            }
            let (count, section) = *holding.entry(lock).or_insert_with(|| self.at_branch(lock));
            let after = match op {
                Op::OtherAcquire if count == 0 => {
                    let begun = Section { lock, thread: self.thread, shared: false, start: event, end: None };
                    (1, Some(self.sections.begin_on_side(begun)))
                }
                Op::OtherAcquire if self.trace.tables.lock_is_plain(lock) => return self.threads.position(event),
                Op::OtherAcquire => (count + 1, section),
                _ if count == 0 => return self.threads.position(event),
                _ => {
                    if let Some(section) = section.filter(|_| count == 1) {
                        self.sections.end_on_side(section, event);
                    }
                    (count - 1, section)
                }
            };
            holding.insert(lock, after);
        }
        self.threads.position(self.branch) + 1 + events.len() as u32
    }

    /// How often a lock is held for writing where the thread branches, and in which section.
    fn at_branch(&self, lock: LockId) -> (u32, Option<SectionId>) {
        let position = self.threads.position(self.branch);
        let hold = Hold { lock, shared: false };
        if !self.sections.held(self.thread, position).contains(&hold) {
            return (0, None);
        }
        let open = self.sections.open(self.threads, self.thread, hold, position);
        let (mut depth, mut given_up) = (0, 0);
        for &event in &self.threads.events(self.thread)[..position as usize] {
            let events = &self.trace.events;
            match events.ops()[event.index()] {
                Op::Acquire if events.targets()[event.index()] == lock.0 => depth += 1,
                Op::Release if events.targets()[event.index()] == lock.0 => depth -= 1,
                Op::WaitBegin if events.aux(event.index()) == lock.0 => given_up = std::mem::take(&mut depth),
                Op::WaitEnd if events.aux(event.index()) == lock.0 => depth += given_up,
                _ => {}
            }
        }
        (depth, Some(open))
    }
}
