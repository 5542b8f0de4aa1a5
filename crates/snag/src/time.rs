//! How the time that a budget allows is shared out, and how long a report may take when the user wants to stop.
//!
//! A budget of S seconds is for reading and analysing; with the report, all is done after S and 5 % and a second. After an
//! interrupt it is done in two seconds.

use crate::interrupt;
use std::time::{Duration, Instant};

/// Reading takes half of the budget at the most, but may take this long in any case.
const TO_READ: Duration = Duration::from_millis(300);

/// However long reading took, this is left to look for something.
const TO_LOOK: Duration = Duration::from_millis(100);

/// A report ends so long after the budget, or after an interrupt.
const TO_REPORT: Duration = Duration::from_millis(850);
const TO_REPORT_INTERRUPTED: Duration = Duration::from_millis(1700);

/// A report goes through the witnesses of a trace, which may be as long as the trace.
const TO_REPORT_AN_EVENT: Duration = Duration::from_nanos(30);

/// The time for one trace.
pub struct Time {
    started: Instant,
    budget: Option<Duration>,
}

impl Time {
    /// It begins now.
    pub fn new(budget: Option<Duration>) -> Time {
        Time { started: Instant::now(), budget }
    }

    /// Until when the trace is read.
    pub fn for_reading(&self) -> Option<Instant> {
        self.budget.and_then(|budget| self.started.checked_add((budget / 2).max(TO_READ)))
    }

    /// What is left of the budget to analyse a trace of so many events, or of the time that there is if the user wanted to stop
    /// while it was read. Reports on a long trace take their time, too.
    pub fn left(&self, events: usize) -> Option<Duration> {
        let of_budget = self.budget.map(|budget| {
            let events = u32::try_from(events).unwrap_or(u32::MAX);
            let to_report = TO_REPORT_AN_EVENT.saturating_mul(events).min(budget / 8);
            budget.saturating_sub(self.started.elapsed() + to_report).max(TO_LOOK.min(budget))
        });
        of_budget.into_iter().chain(interrupt::left()).min()
    }

    /// Whether what was reported must do.
    pub fn is_enough(&self) -> bool {
        let of_budget = |budget: Duration| budget.saturating_add(budget / 20).saturating_add(TO_REPORT);
        self.budget.is_some_and(|budget| self.started.elapsed() > of_budget(budget))
            || interrupt::since().is_some_and(|since| since > TO_REPORT_INTERRUPTED)
    }
}
