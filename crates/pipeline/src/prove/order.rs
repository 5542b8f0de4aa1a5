//! Races by memory order that the recorded run does not show, and another schedule does.
//!
//! In the recorded run something else ordered the two accesses as well: critical sections that happened to come one
//! after the other. The search of the maximal engine looks for a schedule in which they do not, and the news is carried
//! by atomics alone. What it finds goes to the checker; what it does not find is no finding of any kind.

use super::search::with_limits;
use crate::filing::Filing;
use snag_engines::maximal::{Answer, Index, Lowered, Missing, Queries, Undecided};
use snag_engines::{Context, Host, LocationPair, NOT_DECIDED, Subject, highest_level};
use snag_model::{RaceKind, Schedule};
use std::sync::atomic::Ordering;

/// So many pairs are asked about: more would have one cause.
const MOST_PAIRS: usize = 1_000;

/// A search for one pair takes so many steps, unless the user wants every answer.
const MOST_STEPS: u64 = 1_000_000;

/// Asks about each pair, files what the checker accepts, and counts what there was no time for.
pub(crate) fn in_other_schedules(filing: &Filing, context: &Context, mut maybe: Vec<LocationPair>) {
    if maybe.is_empty() || filing.is_up() {
        return filing.leave(Subject::LocationPair, NOT_DECIDED, maybe.len());
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
        if !context.exhaustive {
            limits.steps = MOST_STEPS;
        }
        let stop = limits.stop.clone();
        let mut queries = Queries::new(&index, limits);
        let mut found: Vec<(&LocationPair, Schedule)> = Vec::new();
        let mut open = 0;
        for pair in &maybe {
            if stop.as_ref().is_some_and(|stop| stop()) {
                open += 1;
                continue;
            }
            match queries.ask_unordered(lowered.event(pair.first), lowered.event(pair.second)) {
                Answer::Possible(schedule) => found.push((pair, lowered.schedule(schedule))),
                Answer::Unknown(Undecided::Stopped) => open += 1,
                // Nobody has claimed that there is one.
                Answer::Impossible | Answer::Unknown(_) => {}
            }
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
