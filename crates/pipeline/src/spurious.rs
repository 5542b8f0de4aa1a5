//! Waits on condition variables that end for no reason, as POSIX, C11, C++ and Rust allow.
//!
//! The maximal engine looks at the trace as if every wait had ended so: then no notify has to come before a wake-up. Its
//! schedules leave out what they do not need, and so end waits for no reason also where the notify could have come. What
//! it has found is therefore asked about once more, with the notifies: a finding rests on a spurious wake-up only if there
//! is no other way.
//!
//! Limit: in a condensed trace, memory that a notify hands from one thread to another is private, and not looked at.

use crate::analysis::{Analysis, Deadlock, Race};
use crate::filing::Checkers;
use crate::options::Options;
use crate::time::Time;
use snag_engines::maximal::{Answer, Index, Limits, Lowered, Missing, Queries};
use snag_engines::{SB, Settings};
use snag_model::{EventId, Schedule};

/// A question may take so many steps: most are easy, and a finding is a finding without its answer.
const MOST_STEPS: u64 = 200_000;

/// Gives findings schedules without spurious wake-ups, where there are any and time allows.
pub(crate) fn without_spurious(recorded: &Checkers, options: &Options, time: &Time, found: &mut Analysis) {
    let races = found.races.iter().filter(|race| !race.spurious.is_empty()).map(|race| race.level);
    let deadlocks = found.deadlocks.iter().filter(|deadlock| !deadlock.spurious.is_empty());
    let Some(level) = races.chain(deadlocks.map(|deadlock| deadlock.level)).min() else { return };
    let is_up = || time.is_up();
    if is_up() {
        return;
    }
    let missing = if found.races.iter().any(|race| race.engine == SB) { Missing::All } else { Missing::Reach };
    let lowered = Lowered::of(recorded.trace, recorded.cells, level);
    let index = Index::until(lowered.trace(), lowered.cells(), level, missing, &is_up);
    let Settings { solver, .. } = options.settings;
    let limits = Limits { backend: solver, steps: MOST_STEPS, ..Limits::default() };
    let mut queries = Queries::new(&index, limits);
    let checker = recorded.whole();
    let mut ask = |events: &[EventId]| -> Option<Schedule> {
        if is_up() {
            return None;
        }
        let here: Vec<EventId> = events.iter().map(|&event| lowered.event(event)).collect();
        match queries.ask(&here).0 {
            Answer::Possible(schedule) => Some(lowered.schedule(schedule)),
            _ => None,
        }
    };
    for Race { first, second, level, witness, spurious, .. } in &mut found.races {
        if !spurious.is_empty()
            && let Some(schedule) = ask(&[*first, *second])
            && checker.check_race(schedule.iter(recorded.trace), *first, *second, *level).is_ok()
        {
            (*witness, *spurious) = (schedule, Vec::new());
        }
    }
    for Deadlock { pending, level, witness, spurious, .. } in &mut found.deadlocks {
        if !spurious.is_empty()
            && let Some(schedule) = ask(pending)
            && checker.check_deadlock(schedule.iter(recorded.trace), pending, *level).is_ok()
        {
            (*witness, *spurious) = (schedule, Vec::new());
        }
    }
}
