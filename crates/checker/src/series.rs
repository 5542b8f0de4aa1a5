//! Many witnesses, one after the other.
//!
//! Most witnesses begin as the trace does and leave its order only near their end. What they share is executed once:
//! each runs its own rest after that, and what it wrote is taken back. The verdict is that of [`Checker::check_race`]
//! and [`Checker::check_deadlock`]: the same events are executed in the same order.
//!
//! Cost: the longest shared part once, and the rest of each witness. Whoever comes with less to share than the one
//! before him begins at one of a few states that were kept on the way.

use crate::checker::Checker;
use crate::machine::{Check, Machine};
use crate::violation::Violation;
use snag_model::{EventId, Level, RaceKind, Schedule};

/// Checks witnesses in turn; see [`Checker::series`].
pub struct Series<'c> {
    checker: &'c Checker<'c>,
    level: Level,
    /// The state after the events of the trace before `done`, as they were.
    observed: Machine<'c>,
    done: usize,
    /// States on the way there, and after how many events; ascending.
    kept: Vec<(usize, Machine<'c>)>,
    /// They are kept after every so many events.
    apart: usize,
}

/// All states that are kept take no more than so many cells.
const MOST_CELLS: usize = 1 << 24;

/// More of them do not help.
const MOST_KEPT: usize = 32;

/// Starting again that far is as quick as keeping a state.
const APART: usize = 1 << 14;

impl<'c> Series<'c> {
    pub(crate) fn new(checker: &'c Checker<'c>, level: Level) -> Series<'c> {
        Series { checker, level, observed: checker.start(level), done: 0, kept: Vec::new(), apart: APART }
    }

    /// Keeps a state after every so many events at first, instead of some thousands.
    pub fn keeping_every(self, apart: usize) -> Series<'c> {
        Series { apart: apart.max(1), ..self }
    }

    /// The level that it checks at.
    pub fn level(&self) -> Level {
        self.level
    }

    /// How many events of the trace it would execute before it comes to the rest of a schedule.
    pub fn way_to(&self, schedule: &Schedule) -> usize {
        let shared = self.checker.as_observed(schedule).index();
        match shared.checked_sub(self.done) {
            Some(way) => way,
            None => shared - self.before(shared).map_or(0, |at| self.kept[at].0),
        }
    }

    /// What [`Checker::check_race`] says. Quickest if witnesses come in ascending order of
    /// [`Checker::as_observed`].
    pub fn check_race(&mut self, schedule: &Schedule, first: EventId, second: EventId) -> Result<(), Violation> {
        let checker = self.checker;
        checker.can_race(first, second)?;
        self.after(schedule, |machine| checker.race(machine, first, second))
    }

    /// What [`Checker::check_deadlock`] says.
    pub fn check_deadlock(&mut self, schedule: &Schedule, pending: &[EventId]) -> Result<(), Violation> {
        let checker = self.checker;
        checker.can_deadlock(pending)?;
        self.after(schedule, |machine| checker.deadlock(machine, pending))
    }

    /// Whether a schedule shows a race of a kind.
    pub fn check(
        &mut self,
        kind: RaceKind,
        schedule: &Schedule,
        first: EventId,
        second: EventId,
    ) -> Result<(), Violation> {
        match kind {
            RaceKind::Predictable => self.check_race(schedule, first, second),
            RaceKind::Order => self.check_order(schedule, first, second),
        }
    }

    /// What [`Checker::check_order`] says.
    pub fn check_order(&mut self, schedule: &Schedule, first: EventId, second: EventId) -> Result<(), Violation> {
        match schedule {
            Schedule::Continued { as_observed, then }
                if then.is_empty()
                    && as_observed.0 == second.0.saturating_add(1)
                    && self.reaches(as_observed.index()) =>
            {
                self.checker.check_observed_order(first, second)
            }
            _ => {
                let events = schedule.iter(self.checker.trace());
                self.checker.check_order(events, first, second, self.level)
            }
        }
    }

    /// Whether the trace up to there is feasible as it was observed.
    fn reaches(&mut self, to: usize) -> bool {
        to <= self.done || self.advance(to).is_ok()
    }

    /// What is so after a schedule, if that is feasible.
    fn after(&mut self, schedule: &Schedule, what: impl FnOnce(&Machine) -> Check) -> Check {
        let trace = self.checker.trace();
        let shared = self.checker.as_observed(schedule).index();
        if self.go_to(shared).is_err() {
            // The trace itself does not hold at this level: then no schedule that begins like it does.
            let mut machine = self.checker.start(self.level);
            schedule.iter(trace).try_for_each(|event| machine.execute(event))?;
            return what(&machine);
        }
        let run = |machine: &mut Machine| {
            schedule.iter_from(trace, shared).try_for_each(|event| machine.execute(event))?;
            what(machine)
        };
        self.observed.aside(run)
    }

    /// Has the state after so many events of the trace.
    fn go_to(&mut self, shared: usize) -> Check {
        if shared < self.done {
            (self.done, self.observed) = match self.before(shared) {
                Some(at) => self.kept[at].clone(),
                None => (0, self.checker.start(self.level)),
            };
        }
        self.advance(shared)
    }

    /// The last state that was kept after no more than so many events.
    fn before(&self, shared: usize) -> Option<usize> {
        self.kept.partition_point(|(done, _)| *done <= shared).checked_sub(1)
    }

    fn advance(&mut self, to: usize) -> Check {
        while self.done < to {
            let next = (self.done / self.apart + 1) * self.apart;
            while self.done < to.min(next) {
                self.observed.execute(EventId::new(self.done))?;
                self.done += 1;
            }
            if self.done == next && self.kept.last().is_none_or(|(done, _)| *done < next) {
                self.keep();
            }
        }
        Ok(())
    }

    /// Keeps the state; if there are too many by now, every other one.
    fn keep(&mut self) {
        let most = (MOST_CELLS / self.checker.cell_count().max(1)).min(MOST_KEPT);
        if most < 2 {
            self.apart = usize::MAX;
            return;
        }
        self.kept.push((self.done, self.observed.clone()));
        if self.kept.len() > most {
            self.apart *= 2;
            let apart = self.apart;
            self.kept.retain(|(done, _)| done.is_multiple_of(apart));
        }
    }
}
