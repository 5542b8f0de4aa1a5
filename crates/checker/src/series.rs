//! Many witnesses, one after the other.
//!
//! Most witnesses begin as the trace does and leave its order only near their end. What they share is executed once: the
//! state after it is copied for each of them, and each runs its own rest. The verdict is that of [`Checker::check_race`]:
//! the same events are executed in the same order.
//!
//! Cost: the longest shared part once, the rest of each witness, and a copy of the state for each.

use crate::checker::Checker;
use crate::machine::Machine;
use crate::violation::Violation;
use snag_model::{EventId, Level, RaceKind, Schedule};

/// Checks witnesses in turn; see [`Checker::series`].
pub struct Series<'c> {
    checker: &'c Checker<'c>,
    level: Level,
    /// The state after the events of the trace before `done`, as they were.
    observed: Machine<'c>,
    done: usize,
}

impl<'c> Series<'c> {
    pub(crate) fn new(checker: &'c Checker<'c>, level: Level) -> Series<'c> {
        Series { checker, level, observed: checker.start(level), done: 0 }
    }

    /// What [`Checker::check_race`] says. Quickest if witnesses come in ascending order of
    /// [`Checker::as_observed`].
    pub fn check_race(&mut self, schedule: &Schedule, first: EventId, second: EventId) -> Result<(), Violation> {
        let shared = self.checker.as_observed(schedule).index();
        if shared < self.done || self.copying_takes_longer(shared) || self.advance(shared).is_err() {
            let events = schedule.iter(self.checker.trace());
            return self.checker.check_race(events, first, second, self.level);
        }
        self.checker.check_race_from(
            self.observed.clone(),
            schedule.iter_from(self.checker.trace(), shared),
            first,
            second,
        )
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

    /// Copying touches all memory, a short run only what it accesses.
    fn copying_takes_longer(&self, shared: usize) -> bool {
        const CELLS_COPIED_PER_EVENT_EXECUTED: usize = 8;
        self.checker.cell_count() / CELLS_COPIED_PER_EVENT_EXECUTED > shared
    }

    fn advance(&mut self, to: usize) -> Result<(), Violation> {
        while self.done < to {
            self.observed.execute(EventId::new(self.done))?;
            self.done += 1;
        }
        Ok(())
    }
}
