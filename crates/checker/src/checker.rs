//! Decides whether a witness proves what it is said to prove.
//!
//! Guarantee: what is accepted is a predictable race or deadlock by the letter of
//! `docs/model.md`, whoever made the witness and however. The checker knows the
//! trace and the rules; it shares no code with any engine. It is told a schedule
//! and the events it leads up to, executes the schedule, and looks.
//!
//! Cost: 10 to 20 nanoseconds for each event of the schedule; memory for each
//! thread, lock and cell of the trace.

use crate::facts::Facts;
use crate::machine::{Check, Machine};
use crate::order::News;
use crate::series::Series;
use crate::violation::{ScheduleRule, Violation};
use snag_model::{Cells, EventId, Op, Trace};
use snag_model::{Level, Schedule};

/// Checks witnesses against one trace. What it knows about the trace is computed
/// once; any number of threads may check at once.
pub struct Checker<'t> {
    facts: Facts<'t>,
}

impl<'t> Checker<'t> {
    /// A checker for a well-formed trace; `cells` are the cells of that trace.
    pub fn new(trace: &'t Trace, cells: &'t Cells) -> Checker<'t> {
        Checker::up_to(trace, cells, EventId::new(trace.len()))
    }

    /// The same for schedules and pairs of events before `end`, which takes less
    /// time and memory on a long trace. Later events are refused as unknown.
    pub fn up_to(trace: &'t Trace, cells: &'t Cells, end: EventId) -> Checker<'t> {
        Checker { facts: Facts::new(trace, cells, end.index()) }
    }

    /// Whether a schedule is feasible at a level, whatever comes after it.
    pub fn check_feasible(&self, schedule: impl IntoIterator<Item = EventId>, level: Level) -> Result<(), Violation> {
        self.run(schedule, level).map(|_| ())
    }

    /// Whether a schedule is feasible at a level and `first` and `second`, in
    /// either order, race after it.
    pub fn check_race(
        &self,
        schedule: impl IntoIterator<Item = EventId>,
        first: EventId,
        second: EventId,
        level: Level,
    ) -> Result<(), Violation> {
        self.can_race(first, second)?;
        self.race(&self.run(schedule, level)?, first, second)
    }

    /// The same for a schedule in which some waits end for no reason, as those on condition variables may: `spurious` are
    /// their wake-ups, which then need no notify. Not for level `symbolic`.
    pub fn check_race_with_spurious(
        &self,
        schedule: impl IntoIterator<Item = EventId>,
        first: EventId,
        second: EventId,
        level: Level,
        spurious: &[EventId],
    ) -> Result<(), Violation> {
        self.can_race(first, second)?;
        let mut after = self.start_with_spurious(level, spurious)?;
        schedule.into_iter().try_for_each(|event| after.execute(event))?;
        self.race(&after, first, second)
    }

    /// Whether a schedule is feasible at a level, `first` and then `second` happen in it and conflict, and `first` does not
    /// happen before `second` there by the rules of C++20: a race by memory order.
    pub fn check_order(
        &self,
        schedule: impl IntoIterator<Item = EventId>,
        first: EventId,
        second: EventId,
        level: Level,
    ) -> Result<(), Violation> {
        self.can_race_in_order(first, second)?;
        let mut machine = self.start(level);
        let mut news = News::of(&self.facts, first);
        let mut ordered = None;
        for event in schedule {
            machine.execute(event)?;
            let reached = news.step(event);
            if event == second && machine.has_happened(first) {
                ordered = Some(reached);
            }
        }
        self.unordered(first, second, ordered)
    }

    /// The same for the beginning of the trace up to `second`, of which somebody else has found that it is feasible.
    pub(crate) fn check_observed_order(&self, first: EventId, second: EventId) -> Check {
        self.can_race_in_order(first, second)?;
        if first > second {
            return self.unordered(first, second, None);
        }
        let mut news = News::of(&self.facts, first);
        // Nobody knows of an event before it happens; only barriers count from the beginning.
        let start = if self.facts.enters_needed.is_empty() { first.0 } else { 0 };
        let reached = (start..=second.0).map(EventId).fold(false, |_, event| news.step(event));
        self.unordered(first, second, Some(reached))
    }

    fn can_race_in_order(&self, first: EventId, second: EventId) -> Check {
        self.can_race(first, second)?;
        for event in [first, second] {
            if self.facts.trace.events.ops()[event.index()].on_other_side() {
                let detail = format!("{} is on the side of a branch that was not taken", self.facts.text(event));
                return Err(Violation::new(ScheduleRule::DoesNotHappen, event, detail));
            }
        }
        Ok(())
    }

    /// `ordered`: whether the first event happens before the second, if the schedule has both.
    fn unordered(&self, first: EventId, second: EventId, ordered: Option<bool>) -> Check {
        let (one, other) = (self.facts.text(first), self.facts.text(second));
        match ordered {
            Some(false) => Ok(()),
            Some(true) => {
                let detail = format!("{one} happens before {other}");
                Err(Violation::new(ScheduleRule::Synchronised, second, detail))
            }
            None => {
                let detail = format!("{one} and then {other} are not both part of the schedule");
                Err(Violation::new(ScheduleRule::NotInOrder, second, detail))
            }
        }
    }

    /// Checks the witnesses of races in turn, and executes what they have in common once.
    pub fn series(&self, level: Level) -> Series<'_> {
        Series::new(self, level)
    }

    /// Behind how many events of the trace, all of which the schedule has in the order of the trace, it may leave that order.
    pub fn as_observed(&self, schedule: &Schedule) -> EventId {
        let end = EventId::new(self.facts.next.len());
        let left = |(thread, &until): (usize, &EventId)| {
            let last = (until.index().checked_sub(1)).filter(|&last| last < self.facts.next.len());
            match last {
                // The thread runs on after its prefix, if at all, with its next event.
                Some(last) if self.facts.trace.events.threads()[last].index() == thread => self.facts.next[last],
                // Nothing of the thread comes before its first event.
                _ => until.max(self.facts.first[thread]),
            }
        };
        match schedule {
            Schedule::Prefixes(ends) | Schedule::Turns { ends, .. } => {
                ends.iter().enumerate().map(left).min().unwrap_or(end).min(end)
            }
            Schedule::List(_) => EventId(0),
            Schedule::Continued { as_observed, .. } => (*as_observed).min(end),
        }
    }

    /// The same at level `symbolic`, for a schedule in which the branches `diverging` go the other way, and with the
    /// value that every read of the schedule takes, in order, as far as known.
    pub fn check_race_with_values(
        &self,
        schedule: impl IntoIterator<Item = EventId>,
        diverging: &[EventId],
        reads: &[(EventId, i64)],
        first: EventId,
        second: EventId,
    ) -> Result<(), Violation> {
        self.can_race(first, second)?;
        let after = self.run_diverging(schedule, diverging)?;
        after.took(reads)?;
        self.race(&after, first, second)
    }

    /// The values that the reads of a schedule take at level `symbolic`, as far as known, in order.
    pub fn reads_of(
        &self,
        schedule: impl IntoIterator<Item = EventId>,
        diverging: &[EventId],
    ) -> Result<Vec<(EventId, i64)>, Violation> {
        Ok(self.run_diverging(schedule, diverging)?.into_taken())
    }

    /// Before the first event.
    pub(crate) fn start(&self, level: Level) -> Machine<'_> {
        Machine::new(&self.facts, level)
    }

    fn start_with_spurious(&self, level: Level, spurious: &[EventId]) -> Result<Machine<'_>, Violation> {
        for &wake in spurious {
            match self.facts.next.get(wake.index()) {
                None => return Err(self.facts.unknown(wake)),
                Some(_) if self.facts.trace.events.ops()[wake.index()] != Op::Wake => {
                    let detail = format!("{} does not end a wait", self.facts.text(wake));
                    return Err(Violation::new(ScheduleRule::NoWakeUp, wake, detail));
                }
                Some(_) => {}
            }
        }
        Ok(self.start(level).with_spurious(spurious))
    }

    /// The trace.
    pub(crate) fn trace(&self) -> &'t Trace {
        self.facts.trace
    }

    /// How many cells the trace has.
    pub(crate) fn cell_count(&self) -> usize {
        self.facts.cells.count()
    }

    /// Whether a schedule can show that two events race.
    pub(crate) fn can_race(&self, first: EventId, second: EventId) -> Check {
        self.are_events_of_different_threads(&[first, second])?;
        self.conflict(first, second)
    }

    /// Whether they race after what was executed.
    pub(crate) fn race(&self, after: &Machine, first: EventId, second: EventId) -> Check {
        for event in [first, second] {
            after.is_next(event)?;
            after.leads_to(event)?;
            after.lives(event)?;
            // This also refuses a pair that rule 3 orders: the later one of the two
            // would need the earlier one in the schedule, and that is not there.
            after.missing_methods(event)?;
            after.is_defined(event)?;
        }
        Ok(())
    }

    /// Whether a schedule is feasible at a level and leaves the threads of `pending`
    /// waiting for each other, each with its event of `pending` to come next.
    pub fn check_deadlock(
        &self,
        schedule: impl IntoIterator<Item = EventId>,
        pending: &[EventId],
        level: Level,
    ) -> Result<(), Violation> {
        self.check_deadlock_with_spurious(schedule, pending, level, &[])
    }

    /// The same for a schedule in which some waits end for no reason.
    pub fn check_deadlock_with_spurious(
        &self,
        schedule: impl IntoIterator<Item = EventId>,
        pending: &[EventId],
        level: Level,
        spurious: &[EventId],
    ) -> Result<(), Violation> {
        self.can_deadlock(pending)?;
        let mut after = self.start_with_spurious(level, spurious)?;
        schedule.into_iter().try_for_each(|event| after.execute(event))?;
        self.deadlock(&after, pending)
    }

    /// Whether a schedule can show that events wait for each other.
    pub(crate) fn can_deadlock(&self, pending: &[EventId]) -> Check {
        if pending.len() < 2 {
            let detail = match pending.len() {
                1 => "1 event is said to wait".to_owned(),
                number => format!("{number} events are said to wait"),
            };
            return Err(Violation { rule: ScheduleRule::TooFewThreads, event: None, detail });
        }
        self.are_events_of_different_threads(pending)
    }

    /// Whether they do after what was executed.
    pub(crate) fn deadlock(&self, after: &Machine, pending: &[EventId]) -> Check {
        for &event in pending {
            after.is_next(event)?;
            after.leads_to(event)?;
            after.missing_methods(event)?;
            after.is_blocked(event, pending)?;
        }
        Ok(())
    }

    /// Executes a schedule.
    pub(crate) fn run(
        &self,
        schedule: impl IntoIterator<Item = EventId>,
        level: Level,
    ) -> Result<Machine<'_>, Violation> {
        let mut machine = self.start(level);
        schedule.into_iter().try_for_each(|event| machine.execute(event))?;
        Ok(machine)
    }

    /// Executes a schedule at level `symbolic`, with branches that go the other way.
    fn run_diverging(
        &self,
        schedule: impl IntoIterator<Item = EventId>,
        diverging: &[EventId],
    ) -> Result<Machine<'_>, Violation> {
        for &branch in diverging {
            match self.facts.next.get(branch.index()) {
                None => return Err(self.facts.unknown(branch)),
                Some(_) if self.facts.trace.events.ops()[branch.index()] != Op::Branch => {
                    let detail = format!("{} is no branch", self.facts.text(branch));
                    return Err(Violation::new(ScheduleRule::DoesNotDiverge, branch, detail));
                }
                Some(_) => {}
            }
        }
        let mut machine = Machine::diverging(&self.facts, Level::Symbolic, diverging.to_vec());
        schedule.into_iter().try_for_each(|event| machine.execute(event))?;
        machine.all_diverged()?;
        Ok(machine)
    }

    /// All are events of the trace.
    pub(crate) fn are_events(&self, events: impl IntoIterator<Item = EventId>) -> Check {
        match events.into_iter().find(|event| event.index() >= self.facts.next.len()) {
            Some(unknown) => Err(self.facts.unknown(unknown)),
            None => Ok(()),
        }
    }

    /// An event, for violations.
    pub(crate) fn text(&self, event: EventId) -> String {
        self.facts.text(event)
    }

    pub(crate) fn are_events_of_different_threads(&self, events: &[EventId]) -> Check {
        let trace = self.facts.trace;
        self.are_events(events.iter().copied())?;
        let mut threads: Vec<_> = events.iter().map(|&event| (trace.thread_of(event), event)).collect();
        threads.sort_unstable();
        match threads.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            None => Ok(()),
            Some(pair) => {
                let detail =
                    format!("{} and {} are of one thread", self.facts.text(pair[0].1), self.facts.text(pair[1].1));
                Err(Violation::new(ScheduleRule::SameThread, pair[1].1, detail))
            }
        }
    }

    /// The operations conflict and share a cell.
    fn conflict(&self, first: EventId, second: EventId) -> Check {
        let events = &self.facts.trace.events;
        let op = |event: EventId| events.ops()[event.index()].if_it_happens();
        let cells = |event: EventId| self.facts.cells.touched_by(self.facts.trace, event);
        let overlap = || cells(first).start < cells(second).end && cells(second).start < cells(first).end;
        if op(first).conflicts(op(second)) && overlap() {
            return Ok(());
        }
        let detail = format!("{} and {} do not conflict", self.facts.text(first), self.facts.text(second));
        Err(Violation::new(ScheduleRule::NoConflict, second, detail))
    }
}
