//! Races by memory order that the recorded run does not show, and another schedule does.
//!
//! In the recorded run something else ordered the two accesses as well: critical sections that happened to come one
//! after the other. The search of the maximal engine looks for a schedule in which they do not, and the news is carried
//! by atomics alone. What it finds goes to the checker; what it does not find is no finding of any kind.

use super::search::with_limits;
use crate::filing::Filing;
use snag_engines::holds::{Hold, Holds};
use snag_engines::maximal::{Answer, Index, Lowered, Missing, Queries, Undecided};
use snag_engines::{Context, Host, LocationPair, NOT_DECIDED, Subject, highest_level};
use snag_model::{EventId, Mode, RaceKind, Schedule, Trace};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// So many pairs are asked about: more would have one cause.
const MOST_PAIRS: usize = 1_000;

/// A search for one pair takes so many steps, and all of them together so many, unless the user wants every answer.
const MOST_STEPS: u64 = 100_000;
const MOST_STEPS_TOGETHER: u64 = 20_000_000;

/// Asks about each pair, files what the checker accepts, and counts what there was no time for.
pub(crate) fn in_other_schedules(filing: &Filing, context: &Context, mut maybe: Vec<LocationPair>) {
    if maybe.is_empty() || filing.is_up() {
        return filing.leave(Subject::LocationPair, NOT_DECIDED, maybe.len());
    }
    drop_protected(context.trace, &mut maybe);
    if maybe.is_empty() {
        return;
    }
    maybe.sort_by_key(|pair| (pair.second, pair.first));
    let beyond = if context.exhaustive { 0 } else { maybe.len().saturating_sub(MOST_PAIRS) };
    maybe.truncate(maybe.len() - beyond);
    let level = context.level(highest_level(context.trace));
    context.phase("what must come before what", 0);
    let lowered = Lowered::of(context.trace, context.cells, level);
    let index = Index::until(lowered.trace(), lowered.cells(), level, Missing::Reach, &|| filing.is_up());
    context.phase("looking for other schedules", maybe.len());
    let found = with_limits(filing, maybe.len(), |limits, done| {
        let mut limits = limits.clone();
        let most = if context.exhaustive { u64::MAX } else { MOST_STEPS_TOGETHER };
        if !context.exhaustive {
            limits.steps = MOST_STEPS;
        }
        let mut taken = 0;
        let stop = limits.stop.clone();
        let mut queries = Queries::new(&index, limits);
        let mut found: Vec<(&LocationPair, Schedule)> = Vec::new();
        let mut open = 0;
        for pair in &maybe {
            if taken >= most || stop.as_ref().is_some_and(|stop| stop()) {
                open += 1;
                continue;
            }
            match queries.ask_unordered(lowered.event(pair.first), lowered.event(pair.second)) {
                Answer::Possible(schedule) => found.push((pair, lowered.schedule(schedule))),
                Answer::Unknown(Undecided::Stopped) => open += 1,
                // Nobody has claimed that there is one.
                Answer::Impossible | Answer::Unknown(_) => {}
            }
            taken += queries.effort.steps;
            done.fetch_add(1, Ordering::Relaxed);
        }
        filing.leave(Subject::LocationPair, NOT_DECIDED, open + beyond);
        found
    });
    for (pair, schedule) in found {
        let checker = filing.checker(super::end_of(&schedule));
        if checker.check_order(schedule.iter(context.trace), pair.first, pair.second, level).is_ok() {
            filing.file(pair, RaceKind::Order, level, schedule);
        }
    }
}

/// Leaves out pairs that a lock orders in every schedule: both threads hold it, and not both as readers.
fn drop_protected(trace: &Trace, pairs: &mut Vec<LocationPair>) {
    let mut wanted: Vec<EventId> = pairs.iter().flat_map(|pair| [pair.first, pair.second]).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut holds = vec![Holds::default(); trace.tables.thread_count()];
    let mut held: HashMap<EventId, Vec<Hold>> = HashMap::new();
    let mut next = wanted.iter().peekable();
    for number in 0..trace.len() {
        let (event, own) = (EventId::new(number), &mut holds[trace.events.threads()[number].index()]);
        if next.next_if(|&&wanted| wanted == event).is_some() {
            held.insert(event, own.locks().to_vec());
        }
        if next.peek().is_none() {
            break;
        }
        own.apply(trace.action(event));
    }
    let excludes = |one: &Hold, other: &Hold| {
        one.lock == other.lock && (one.mode(), other.mode()) != (Some(Mode::Shared), Some(Mode::Shared))
    };
    pairs.retain(|pair| {
        let [first, second] = [&held[&pair.first], &held[&pair.second]];
        !first.iter().any(|one| second.iter().any(|other| excludes(one, other)))
    });
}
