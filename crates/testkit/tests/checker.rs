//! The oracle and the checker, written independently of each other, agree.
//!
//! One way: the checker accepts the witness of everything the oracle finds. Other
//! way: walking through all schedules that the checker calls feasible, without any
//! clever identification of states, shows no race and no deadlock that the oracle
//! does not find.

use snag_checker::Checker;
use snag_model::{Cells, EventId, Op, Trace};
use snag_testkit::*;
use std::collections::BTreeSet;

const LEVELS: [Level; 3] = [Level::Writer, Level::Value, Level::Control];

#[test]
fn the_checker_accepts_every_witness_of_the_oracle() {
    for_random_traces(0..5000, Shape::any, |trace| {
        let cells = Cells::of(trace);
        let checker = Checker::new(trace, &cells);
        for level in LEVELS {
            for ((first, second), witness) in race_witnesses(trace, level) {
                checker
                    .check_race(witness.iter().copied(), first, second, level)
                    .map_err(|v| format!("{level}: {witness:?} before {first:?}, {second:?}: {v:?}"))?;
            }
            for (pending, witness) in deadlock_witnesses(trace, level) {
                let pending: Vec<EventId> = pending.into_iter().collect();
                checker
                    .check_deadlock(witness.iter().copied(), &pending, level)
                    .map_err(|v| format!("{level}: {witness:?} before {pending:?}: {v:?}"))?;
            }
        }
        Ok(())
    });
}

/// All that the checker accepts.
struct Walk<'t> {
    checker: Checker<'t>,
    trace: &'t Trace,
    level: Level,
    schedule: Vec<EventId>,
    races: BTreeSet<(EventId, EventId)>,
    deadlocks: BTreeSet<BTreeSet<EventId>>,
    /// Schedules that may still be looked at.
    left: usize,
}

impl Walk<'_> {
    fn walk(&mut self) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return;
        }
        let next = |thread: u32| {
            let events = (0..self.trace.len()).map(EventId::new);
            events.filter(|&e| self.trace.thread_of(e).0 == thread).find(|e| !self.schedule.contains(e))
        };
        let next: Vec<EventId> = (0..self.trace.tables.thread_count() as u32).filter_map(next).collect();
        let schedule = || self.schedule.iter().copied();
        for (i, &b) in next.iter().enumerate() {
            for &a in &next[..i] {
                let (a, b) = (a.min(b), a.max(b));
                if self.checker.check_race(schedule(), a, b, self.level).is_ok() {
                    self.races.insert((a, b));
                }
            }
        }
        let locking = |e: &EventId| matches!(self.trace.event(*e).op, Op::Acquire | Op::ReadAcquire | Op::WaitEnd);
        let pending: Vec<EventId> = next.iter().copied().filter(locking).collect();
        for chosen in 1..1 << pending.len() {
            let set = (0..pending.len()).filter(|i| chosen >> i & 1 == 1).map(|i| pending[i]).collect::<Vec<_>>();
            if self.checker.check_deadlock(schedule(), &set, self.level).is_ok() {
                self.deadlocks.insert(set.into_iter().collect());
            }
        }
        for event in next {
            self.schedule.push(event);
            if self.checker.check_feasible(self.schedule.iter().copied(), self.level).is_ok() {
                self.walk();
            }
            self.schedule.pop();
        }
    }
}

#[test]
fn the_oracle_finds_all_that_the_checker_accepts() {
    let small = |rng: &mut Rng| {
        let shape = Shape::any(rng);
        Shape { events: rng.between(4, 9), threads: shape.threads.min(3), ..shape }
    };
    for_random_traces(0..6000, small, |trace| {
        let cells = Cells::of(trace);
        for level in LEVELS {
            let mut walk = Walk {
                checker: Checker::new(trace, &cells),
                trace,
                level,
                schedule: Vec::new(),
                races: BTreeSet::new(),
                deadlocks: BTreeSet::new(),
                left: 20_000,
            };
            walk.walk();
            let (races, deadlocks) = (races(trace, level), deadlocks(trace, level));
            if let Some(race) = walk.races.difference(&races).next() {
                return Err(format!("{level}: the oracle does not find {race:?}"));
            }
            let known = |set: &BTreeSet<EventId>| deadlocks.iter().any(|known| known.is_subset(set));
            if let Some(deadlock) = walk.deadlocks.iter().find(|set| !known(set)) {
                return Err(format!("{level}: the oracle does not find {deadlock:?}"));
            }
            if walk.left > 0 && !(races.is_subset(&walk.races) && deadlocks.is_subset(&walk.deadlocks)) {
                return Err(format!("{level}: only the oracle finds {races:?}, {deadlocks:?}"));
            }
        }
        Ok(())
    });
}
