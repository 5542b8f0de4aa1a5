//! Every query about every conflicting pair of random traces, against the exhaustive search.

use snag_maximal::{Answer, Index, Limits, Queries};
use snag_oracle::random::{Shape, for_random_traces};
use snag_oracle::search;
use snag_schedule::{Checker, Level};
use snag_trace::{Cells, EventId, Op, Trace};
use std::collections::BTreeSet;

const LEVELS: [Level; 3] = [Level::Writer, Level::Value, Level::Control];

/// All pairs of events that conflict; the earlier one first.
fn conflicting(trace: &Trace, cells: &Cells) -> Vec<(EventId, EventId)> {
    let touch = |i: usize| cells.of_event(i, trace.events.targets()[i]);
    let mut pairs = Vec::new();
    for b in 0..trace.len() {
        for a in 0..b {
            let (first, second) = (trace.events.ops()[a], trace.events.ops()[b]);
            let differ = trace.events.threads()[a] != trace.events.threads()[b];
            if differ && first.conflicts(second) && touch(a).start < touch(b).end && touch(b).start < touch(a).end {
                pairs.push((EventId::new(a), EventId::new(b)));
            }
        }
    }
    pairs
}

fn races_equal_the_oracle(trace: &Trace, limits: &Limits) -> Result<(), String> {
    let cells = Cells::of(trace);
    let checker = Checker::new(trace, &cells);
    for level in LEVELS {
        let expected = search::races(trace, level);
        let index = Index::new(trace, &cells, level);
        let mut queries = Queries::new(&index, limits.clone());
        let mut found = BTreeSet::new();
        for (a, b) in conflicting(trace, &cells) {
            let (answer, stage) = queries.ask(&[a, b]);
            match answer {
                Answer::Possible(schedule) => {
                    checker
                        .check_race(schedule.iter(trace), a, b, level)
                        .map_err(|why| format!("{level} ({a:?}, {b:?}) by {stage:?}: {why}"))?;
                    found.insert((a, b));
                }
                Answer::Impossible => {
                    if expected.contains(&(a, b)) {
                        return Err(format!("{level}: {stage:?} refutes the race ({a:?}, {b:?})"));
                    }
                }
                Answer::Unknown(why) => return Err(format!("{level} ({a:?}, {b:?}): {why:?}")),
            }
        }
        if found != expected {
            return Err(format!("{level}: found {found:?}, the oracle {expected:?}"));
        }
    }
    Ok(())
}

#[test]
fn races_are_exactly_those_of_the_oracle() {
    for_random_traces(0..20_000, Shape::any, |trace| races_equal_the_oracle(trace, &Limits::default()));
}

#[test]
fn races_by_search_alone_are_exactly_those_of_the_oracle() {
    let limits = Limits { search_only: true, ..Limits::default() };
    for_random_traces(100_000..110_000, Shape::any, |trace| races_equal_the_oracle(trace, &limits));
}

/// All sets of acquires of different threads, up to so many, without their order.
fn sets_of_acquires(trace: &Trace, most: usize) -> Vec<Vec<EventId>> {
    let acquires: Vec<usize> = (0..trace.len())
        .filter(|&i| matches!(trace.events.ops()[i], Op::Acquire | Op::ReadAcquire | Op::WaitEnd))
        .collect();
    let mut sets: Vec<Vec<EventId>> = vec![Vec::new()];
    for i in acquires {
        let thread = trace.events.threads()[i];
        for at in 0..sets.len() {
            if sets[at].len() < most && sets[at].iter().all(|&e| trace.thread_of(e) != thread) {
                let mut larger = sets[at].clone();
                larger.push(EventId::new(i));
                sets.push(larger);
            }
        }
    }
    sets.retain(|set| set.len() > 1);
    sets
}

#[test]
fn deadlocks_are_exactly_those_of_the_oracle() {
    for_random_traces(200_000..210_000, Shape::lock_heavy, |trace| {
        let cells = Cells::of(trace);
        let checker = Checker::new(trace, &cells);
        for level in LEVELS {
            let expected = search::deadlocks(trace, level);
            let index = Index::new(trace, &cells, level);
            let mut queries = Queries::new(&index, Limits::default());
            for set in sets_of_acquires(trace, 3) {
                let (answer, _) = queries.ask(&set);
                let is_deadlock = match &answer {
                    Answer::Possible(schedule) => checker.check_deadlock(schedule.iter(trace), &set, level).is_ok(),
                    Answer::Impossible => false,
                    Answer::Unknown(why) => return Err(format!("{set:?}: {why:?}")),
                };
                let wanted = expected.contains(&set.iter().copied().collect::<BTreeSet<_>>());
                // A larger set may be stuck without being smallest.
                let larger = expected.iter().any(|small| small.iter().all(|e| set.contains(e)));
                if is_deadlock != wanted && !(is_deadlock && larger) {
                    return Err(format!("{level} {set:?}: {answer:?}, the oracle {expected:?}"));
                }
            }
        }
        Ok(())
    });
}
