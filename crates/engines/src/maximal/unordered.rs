//! Questions about memory orders: is there a schedule that has two accesses one after the other, and does not order them?
//!
//! The refinement loop is the same as for other questions ([`crate::maximal::search`]). The target is the second access
//! alone, and schedules must contain the first. A run that breaks no rule but orders the two is refused like one that
//! breaks a rule: of the hand-overs by which the second has heard of the first ([`crate::maximal::heard`]) one must be
//! missing or go the other way.
//!
//! Guarantee: what is `Possible` the checker accepts. `Impossible` is none about pairs that only another source of a read
//! would leave unordered.

use crate::maximal::cuts::{Cuts, Target};
use crate::maximal::heard::{HandOver, hand_overs};
use crate::maximal::index::Index;
use crate::maximal::observed::ideal;
use crate::maximal::query::{Answer, Limits, Undecided};
use crate::maximal::recorded::Recorded;
use crate::maximal::run::Run;
use crate::maximal::search::{Effort, Found, Search};
use snag_model::{EventId, Op, Schedule};

/// After so many runs a search is given up.
const MOST_ROUNDS: u32 = 200;

/// Decides about the first and the second access, within a part of the trace.
pub(crate) fn decide<'i>(
    index: &'i Index<'i>,
    run: &mut Run<'i, Recorded<'i>>,
    [first, second]: [EventId; 2],
    (base, end): (EventId, EventId),
    limits: &Limits,
    effort: &mut Effort,
) -> Answer {
    // Of what comes next it does not matter what it reads. What an update reads always matters, so it is a part of the run.
    let is_part = index.op(second) == Op::Rmw;
    let next = [second];
    let target = Target { events: if is_part { &[] } else { &next }, base, end };
    let cuts = Cuts::of(index, &target).and_then(|cuts| cuts.with(index, first));
    let cuts = cuts.and_then(|cuts| if is_part { cuts.with(index, second) } else { Some(cuts) });
    let Some(cuts) = cuts else { return Answer::Impossible };
    let ordered = |schedule: &mut dyn Iterator<Item = EventId>| {
        let mut met = Vec::new();
        let until = |&event: &EventId| {
            met.extend((event == first || event == second).then_some(event));
            met.last() != Some(&second)
        };
        let before: Vec<EventId> = schedule.take_while(until).collect();
        match met.first() {
            Some(&event) if event == second => Some(vec![HandOver { gives: second, takes: first }]),
            _ => hand_overs(index.trace, index.cells, before.into_iter().chain([second]), first, second),
        }
    };
    if !limits.search_only
        && let Some(cut) = ideal(index, &cuts)
    {
        let mut ends = index.threads.ends(&cut);
        if ordered(&mut Schedule::Prefixes(ends.clone()).iter(index.trace)).is_none() {
            if ends.iter().all(|&end| end.0 <= second.0 + 1) {
                ends[index.trace.thread_of(second).index()] = EventId(second.0 + 1);
                return Answer::Possible(Schedule::Prefixes(ends));
            }
            let before = Schedule::Prefixes(ends);
            return Answer::Possible(Schedule::List(up_to(before.iter(index.trace), second)));
        }
    }
    let begin = (0..base.0).map(EventId);
    let wanted = |order: &[EventId]| ordered(&mut begin.clone().chain(order.iter().copied()));
    let mut search = Search::new(run, index, target, cuts, limits).wanting(&wanted);
    let found = search.search(MOST_ROUNDS);
    effort.add(search.effort);
    match found {
        Found::Witness => {
            let then = up_to(run.order.iter().copied(), second);
            Answer::Possible(match base {
                EventId(0) => Schedule::List(then),
                as_observed => Schedule::Continued { as_observed, then },
            })
        }
        Found::Refuted => Answer::Impossible,
        Found::Rounds | Found::Stalled => Answer::Unknown(Undecided::TooHard),
        Found::Stopped => Answer::Unknown(Undecided::Stopped),
    }
}

/// The events up to the last one, with it; if it is not there, it comes next.
fn up_to(events: impl Iterator<Item = EventId>, last: EventId) -> Vec<EventId> {
    events.take_while(|&event| event != last).chain([last]).collect()
}
