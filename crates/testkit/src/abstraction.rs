//! What two threads can do at the same time if nothing they read matters: *data abstraction*.
//!
//! Guarantee: [`simultaneous`] returns exactly the pairs of accesses that are both next in some schedule which keeps
//! rules 1 to 3 of `docs/model.md`, except for heap lifetimes; what reads see is not looked at.
//! [`standoffs`] returns the pairs of lock operations by which two threads wait for each other after such a schedule.
//!
//! Exhaustive: a state is how far each thread has come, and which wake-ups missed their notify.

use crate::facts::Facts;
use snag_model::{Action, EventId, LockId, Mode, Probe, ThreadId, Trace};
use std::collections::{BTreeSet, HashSet};

type Pairs = BTreeSet<(EventId, EventId)>;

/// Pairs of accesses of different threads that some schedule makes next at the same time; the earlier one first.
pub fn simultaneous(trace: &Trace) -> Pairs {
    let machine = Abstract::new(trace);
    let mut found = Pairs::new();
    machine.explore(|state| {
        let next = machine.next(state).filter(|&event| machine.facts.events[event].op.touches_memory());
        let ready: Vec<usize> = next.filter(|&event| machine.is_due(state, event)).collect();
        found.extend(pairs(&ready));
    });
    found
}

/// Pairs of acquires such that after some schedule each of two threads waits for a lock that the other one holds.
pub fn standoffs(trace: &Trace) -> Pairs {
    let machine = Abstract::new(trace);
    let mut found = Pairs::new();
    machine.explore(|state| {
        let waiting: Vec<usize> = machine.next(state).filter(|&event| machine.is_due(state, event)).collect();
        let by =
            |a: EventId, b: EventId| machine.excludes(state, machine.facts.events[b.index()].thread.index(), a.index());
        found.extend(pairs(&waiting).filter(|&(a, b)| by(a, b) && by(b, a)));
    });
    found
}

fn pairs(events: &[usize]) -> impl Iterator<Item = (EventId, EventId)> {
    let later = |&a: &usize| events.iter().filter(move |&&b| a < b).map(move |&b| (EventId::new(a), EventId::new(b)));
    events.iter().flat_map(later)
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    /// How many events each thread has done.
    done: Vec<usize>,
    missed: BTreeSet<usize>,
}

struct Abstract<'t> {
    facts: Facts<'t>,
}

impl<'t> Abstract<'t> {
    fn new(trace: &'t Trace) -> Abstract<'t> {
        Abstract { facts: Facts::of(trace) }
    }

    fn explore(&self, mut visit: impl FnMut(&State)) {
        let start = State { done: vec![0; self.facts.threads.len()], missed: BTreeSet::new() };
        let mut known = HashSet::from([start.clone()]);
        let mut open = vec![start];
        while let Some(state) = open.pop() {
            visit(&state);
            for event in self.next(&state) {
                let free = |thread: usize| !self.excludes(&state, thread, event);
                if self.is_due(&state, event) && (0..state.done.len()).all(free) {
                    let after = self.execute(&state, event);
                    if known.insert(after.clone()) {
                        open.push(after);
                    }
                }
            }
        }
    }

    fn next<'s>(&'s self, state: &'s State) -> impl Iterator<Item = usize> + 's {
        let threads = self.facts.threads.iter().zip(&state.done);
        threads.filter_map(|(events, &done)| events.get(done).copied())
    }

    fn is_done(&self, state: &State, event: usize) -> bool {
        let thread = self.facts.events[event].thread.index();
        self.facts.threads[thread][..state.done[thread]].contains(&event)
    }

    fn execute(&self, state: &State, event: usize) -> State {
        let mut after = state.clone();
        let Facts { events, notify, wait, .. } = &self.facts;
        after.done[events[event].thread.index()] += 1;
        for wake in (0..events.len()).filter(|&wake| notify[wake] == Some(event)) {
            if !self.is_done(state, wait[wake].expect("a wake-up follows a wait")) {
                after.missed.insert(wake);
            }
        }
        after
    }

    /// Rules 1 to 3, except for the locks.
    fn is_due(&self, state: &State, event: usize) -> bool {
        let facts = &self.facts;
        let this = &facts.events[event];
        let done = |event: usize| self.is_done(state, event);
        let all = |action: Action| (0..facts.len()).filter(move |&e| facts.actions[e] == action);
        let forks = |thread: ThreadId| {
            let is_fork =
                move |&e: &usize| matches!(facts.actions[e], Action::Fork { thread: child, .. } if child == thread);
            (0..facts.len()).filter(is_fork)
        };
        let forked = |thread: ThreadId| forks(thread).all(done);
        let count = |action: Action| all(action).filter(|&e| done(e)).count();
        let kept = || facts.kept.iter().all(|&(earlier, later)| later != event || done(earlier));
        let due = match facts.actions[event] {
            Action::Join { thread: child, .. } => {
                forked(child) && state.done[child.index()] == facts.threads[child.index()].len()
            }
            Action::Wake { .. } => !state.missed.contains(&event) && facts.notify[event].is_none_or(done),
            Action::SemWait { semaphore } => {
                let initial = facts.trace.tables.semaphore_initial(semaphore) as usize;
                initial + count(Action::SemPost { semaphore }) > count(Action::SemWait { semaphore })
            }
            Action::Probe(Probe::Held { lock, mode }) => {
                let tries = this.thread.index();
                (0..state.done.len()).any(|other| other != tries && self.keeps_out(state, other, lock, mode))
            }
            Action::Probe(Probe::Count { semaphore, count: found }) => {
                let initial = facts.trace.tables.semaphore_initial(semaphore) as usize;
                initial + count(Action::SemPost { semaphore }) == count(Action::SemWait { semaphore }) + found as usize
            }
            Action::Probe(Probe::Alive { thread }) => {
                forked(thread) && !(0..facts.len()).any(|e| done(e) && facts.shows_end(e, thread))
            }
            Action::BarrierLeave { barrier } => all(Action::BarrierEnter { barrier })
                .filter(|&enter| facts.generation[enter] == facts.generation[event])
                .all(done),
            Action::BarrierEnter { barrier } => all(Action::BarrierEnter { barrier })
                .filter(|&enter| facts.generation[enter] < facts.generation[event])
                .all(done),
            _ => true,
        };
        due && forked(this.thread) && kept()
    }

    /// Whether `thread` holds the lock that an event of another thread takes, in a way that excludes it.
    fn excludes(&self, state: &State, thread: usize, event: usize) -> bool {
        let taker = &self.facts.events[event];
        let Some((wanted, mode)) = self.facts.actions[event].acquired() else { return false };
        thread != taker.thread.index() && self.keeps_out(state, thread, wanted, mode)
    }

    /// Whether `holder` holds a lock so that no other thread can take it in this mode.
    fn keeps_out(&self, state: &State, holder: usize, wanted: LockId, mode: Mode) -> bool {
        let (mut exclusive, mut shared, mut given_up) = (0, 0, 0);
        for &past in &self.facts.threads[holder][..state.done[holder]] {
            match self.facts.actions[past] {
                action if action.lock().is_none_or(|(lock, _)| lock != wanted) => {}
                Action::Acquire { mode: Mode::Exclusive, .. } => exclusive += 1,
                Action::Release { mode: Mode::Exclusive, .. } => exclusive -= 1,
                Action::Acquire { mode: Mode::Shared, .. } => shared += 1,
                Action::Release { mode: Mode::Shared, .. } => shared -= 1,
                Action::WaitBegin { .. } => given_up = std::mem::take(&mut exclusive),
                Action::WaitEnd { .. } => exclusive = given_up,
                _ => {}
            }
        }
        exclusive > 0 || mode == Mode::Exclusive && shared > 0
    }
}
