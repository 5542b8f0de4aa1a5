//! Long traces: engines look at what is left without accesses to private memory ([`snag_trace::condense`]).
//!
//! What they find there is found, and proved, by the whole trace: [`restore`] puts what was left out back into each
//! witness, and the checker looks at it again with the whole trace in view. It has the last word, as ever.

use crate::analyse::{GRACE, analyse_until, late};
use crate::analysis::{Analysis, Candidate, Deadlock, Engine, Options, Progress, Race, Subject};
use snag_schedule::{Checker, Level, Schedule};
use snag_trace::condense::Condensed;
use snag_trace::{Cells, EventId, Trace};
use std::time::Instant;

/// Whether what is asked for can be found in a condensed trace.
pub fn can_condense(options: &Options) -> bool {
    let knows = |engine: &Engine| {
        matches!(
            engine,
            Engine::Auto | Engine::Hb | Engine::HbVc | Engine::Fhb | Engine::Shb | Engine::ShbVc | Engine::Mc
        )
    };
    options.engines.iter().all(knows)
        && options.window.is_none()
        && !options.ignore_missing
        && options.level != Some(Level::Symbolic)
}

/// The same as [`crate::analyse`], condensed first. `None` if that is not possible or not worth it.
pub(crate) fn condensed_first(
    trace: &Trace,
    options: &Options,
    progress: &dyn Progress,
    deadline: Option<Instant>,
) -> Option<Analysis> {
    let slow = |engine: &Engine| matches!(engine, Engine::Auto | Engine::Mc);
    if trace.len() < options.condense_from || !can_condense(options) || !options.engines.iter().any(slow) {
        return None;
    }
    progress.phase("leaving out what only one thread uses", 0);
    let condensed = Condensed::of(trace)?;
    if options.condense_from > 0 && condensed.trace.len() > trace.len() / 2 {
        return None;
    }
    let mut analysis = analyse_condensed(&condensed, options, progress, deadline);
    restore(&condensed, trace, options, progress, deadline, &mut analysis);
    Some(analysis)
}

/// What engines find in a condensed trace. Events have their numbers there until [`restore`] gives them their own; the rest
/// is as if the whole trace had been looked at.
pub fn analyse_condensed(
    condensed: &Condensed,
    options: &Options,
    progress: &dyn Progress,
    deadline: Option<Instant>,
) -> Analysis {
    let trace = &condensed.trace;
    let mut analysis = analyse_until(trace, options, progress, deadline);
    let longer = condensed.whole() as f64 / trace.len().max(1) as f64;
    analysis.engines.iter_mut().for_each(|engine| engine.events_per_second *= longer);
    for left in analysis.left.iter_mut().filter(|left| left.what == Subject::Event) {
        let done = EventId::new(trace.len().saturating_sub(left.count as usize));
        left.count = (condensed.whole() - condensed.original(done).index()) as u64;
    }
    analysis
}

/// Gives events the numbers that they have in the whole trace, and has the checker look at every witness again.
pub fn restore(
    condensed: &Condensed,
    whole: &Trace,
    options: &Options,
    progress: &dyn Progress,
    deadline: Option<Instant>,
    analysis: &mut Analysis,
) {
    let original = |event: EventId| condensed.original(event);
    for Candidate { first, second, .. } in &mut analysis.candidates {
        (*first, *second) = (original(*first), original(*second));
    }
    if analysis.races.is_empty() && analysis.deadlocks.is_empty() {
        return;
    }
    for Race { first, second, witness, .. } in &mut analysis.races {
        (*first, *second) = (original(*first), original(*second));
        *witness = expand(condensed, whole, witness, &[*first, *second]);
    }
    for Deadlock { pending, witness, .. } in &mut analysis.deadlocks {
        pending.iter_mut().for_each(|event| *event = original(*event));
        *witness = expand(condensed, whole, witness, pending);
    }
    let cells = Cells::of(whole);
    let checker = Checker::new(whole, &cells);
    let count = analysis.races.len() + analysis.deadlocks.len();
    progress.phase("checking with the whole trace", count as u64);
    let late = late(progress, deadline);
    let last_moment = Instant::now() + GRACE;
    let no_time_left = || late() && Instant::now() > last_moment;
    let mut refused: Vec<(Engine, Subject, &str, Option<Candidate>)> = Vec::new();
    let mut levels: Vec<Level> = analysis.races.iter().map(|race| race.level).collect();
    levels.sort_unstable();
    levels.dedup();
    let mut verdicts: Vec<Result<(), &str>> = vec![Err(NOT_IN_TIME); analysis.races.len()];
    let mut done = 0;
    for level in levels {
        let mut of_level: Vec<usize> =
            (0..analysis.races.len()).filter(|&at| analysis.races[at].level == level).collect();
        of_level.sort_by_key(|&at| checker.as_observed(&analysis.races[at].witness));
        let mut series = checker.series(level);
        for at in of_level {
            if no_time_left() {
                break;
            }
            let race = &analysis.races[at];
            verdicts[at] = series.check_race(&race.witness, race.first, race.second).map_err(|_| NOT_ACCEPTED);
            done += 1;
            progress.advance(done);
        }
    }
    let mut verdicts = verdicts.into_iter();
    analysis.races.retain(|race| {
        let verdict = verdicts.next().expect("one for each race");
        if let Err(why) = verdict {
            let Race { engine, first, second, locks_first, locks_second, count, .. } = race.clone();
            let reason = why.to_owned();
            let candidate = Candidate { engine, first, second, locks_first, locks_second, count, reason };
            refused.push((engine, Subject::LocationPair, why, Some(candidate)));
        }
        verdict.is_ok()
    });
    analysis.deadlocks.retain(|deadlock| {
        let events = deadlock.witness.iter(whole);
        let verdict = match no_time_left() {
            true => Err(NOT_IN_TIME),
            false => checker.check_deadlock(events, &deadlock.pending, deadlock.level).map_err(|_| NOT_ACCEPTED),
        };
        refused.extend(verdict.err().map(|why| (deadlock.engine, Subject::Cycle, why, None)));
        verdict.is_ok()
    });
    for (engine, what, why, candidate) in refused {
        analysis.leave(engine, what, why, 1);
        let reports = analysis.engines.iter_mut().filter(|report| report.engine == engine);
        reports.for_each(|report| report.complete = false);
        if options.candidates {
            analysis.candidates.extend(candidate);
        }
    }
}

/// What is said of a witness for which there was no time.
const NOT_IN_TIME: &str = "not checked in time";

/// What is said of a witness that holds in the condensed trace and not in the whole: nothing that should happen.
const NOT_ACCEPTED: &str = "the schedule found was refused with the whole trace in view";

/// A schedule with all that was left out before its events and before those that it leads to (given by their own
/// numbers).
fn expand(condensed: &Condensed, whole: &Trace, schedule: &Schedule, leads_to: &[EventId]) -> Schedule {
    let events = match schedule {
        Schedule::Prefixes(ends) => {
            let own = condensed.trace.events.threads();
            // Directly behind the last event of the thread, where that is known. Elsewhere more of the thread may come along, which
            // depends on nothing that is not before it in the thread.
            let end = |(thread, end): (usize, &EventId)| match end.index().checked_sub(1) {
                Some(last) if own.get(last).is_some_and(|own| own.index() == thread) => {
                    EventId(condensed.original(EventId::new(last)).0 + 1)
                }
                _ => condensed.original(*end),
            };
            let mut ends: Vec<EventId> = ends.iter().enumerate().map(end).collect();
            leads_to.iter().for_each(|&event| ends[whole.thread_of(event).index()] = event);
            return Schedule::Prefixes(ends);
        }
        Schedule::List(events) => events,
        Schedule::Continued { then, .. } => then,
    };
    let as_observed = match schedule {
        Schedule::Continued { as_observed, .. } => *as_observed,
        _ => EventId::new(events.iter().enumerate().take_while(|(at, event)| event.index() == *at).count()),
    };
    let rest = match schedule {
        Schedule::List(events) => &events[as_observed.index()..],
        _ => events,
    };
    let begin = condensed.original(as_observed);
    // Where each thread goes on.
    let (threads, mut next) = (whole.events.threads(), vec![begin; whole.tables.thread_count()]);
    let mut then = Vec::new();
    let mut run_to = |end: EventId, then: &mut Vec<EventId>| {
        let thread = threads[end.index()];
        let from = std::mem::replace(&mut next[thread.index()], EventId(end.0 + 1));
        let own = (from.index()..end.index()).filter(|&event| threads[event] == thread);
        then.extend(own.map(EventId::new));
    };
    for &event in rest {
        let event = condensed.original(event);
        run_to(event, &mut then);
        then.push(event);
    }
    leads_to.iter().for_each(|&event| run_to(event, &mut then));
    Schedule::Continued { as_observed: begin, then }
}
