//! Every query about every conflicting pair of random traces, against the exhaustive search.

use snag_checker::Checker;
use snag_engines::maximal::{Answer, Cycles, Index, Limits, Lowered, Pairs, Queries};
use snag_model::Level;
use snag_model::{Cells, EventId, Op, Trace};
use snag_testkit::random::{Rng, Shape, for_random_traces};
use snag_testkit::search;
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
        let lowered = Lowered::of(trace, &cells, level);
        let index = Index::new(lowered.trace(), lowered.cells(), level);
        let mut queries = Queries::new(&index, limits.clone());
        let mut found = BTreeSet::new();
        for (a, b) in conflicting(trace, &cells) {
            let (answer, stage) = queries.ask(&[lowered.event(a), lowered.event(b)]);
            match answer {
                Answer::Possible(schedule) => {
                    let schedule = lowered.schedule(schedule);
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

/// What the enumeration of pairs yields is all that the oracle has, each once, and nothing that does not conflict.
fn pairs_contain_the_races(trace: &Trace) -> Result<(), String> {
    let cells = Cells::of(trace);
    let all: BTreeSet<_> = conflicting(trace, &cells).into_iter().collect();
    for level in LEVELS {
        let lowered = Lowered::of(trace, &cells, level);
        let index = Index::new(lowered.trace(), lowered.cells(), level);
        let pairs = Pairs::of(&index, None);
        let mut produced = BTreeSet::new();
        for (a, b) in pairs.tasks.iter().flat_map(|task| pairs.of_task(task, &|| false)) {
            let (Some(a), Some(b)) = (lowered.original(a), lowered.original(b)) else { continue };
            let pair = (a, b);
            if !produced.insert(pair) || !all.contains(&pair) {
                return Err(format!("{level}: {pair:?} is produced twice or does not conflict"));
            }
        }
        for race in search::races(trace, level) {
            if !produced.contains(&race) {
                return Err(format!("{level}: {race:?} is missing"));
            }
        }
    }
    Ok(())
}

#[test]
fn every_race_is_among_the_pairs_asked_about() {
    for_random_traces(300_000..310_000, Shape::any, pairs_contain_the_races);
}

#[test]
fn races_are_exactly_those_of_the_oracle() {
    for_random_traces(0..20_000, Shape::any, |trace| races_equal_the_oracle(trace, &Limits::default()));
}

#[test]
fn races_of_many_short_lived_threads_are_exactly_those_of_the_oracle() {
    for_random_traces(600_000..603_000, Shape::short_lived, |trace| races_equal_the_oracle(trace, &Limits::default()));
    let limits = Limits { search_only: true, ..Limits::default() };
    for_random_traces(610_000..611_000, Shape::short_lived, |trace| races_equal_the_oracle(trace, &limits));
    for_random_traces(620_000..621_000, Shape::short_lived, pairs_contain_the_races);
}

/// Small traces have no room for the local stage as it is.
#[test]
fn races_are_exactly_those_of_the_oracle_where_most_of_the_trace_stays_as_it_was() {
    for local in [[1, 3, 6].as_slice(), &[4], &[0, 8]] {
        let limits = Limits { local: Some(local), late: local, ..Limits::default() };
        for_random_traces(400_000..407_000, Shape::any, |trace| races_equal_the_oracle(trace, &limits));
    }
}

#[test]
fn races_by_search_alone_are_exactly_those_of_the_oracle() {
    let limits = Limits { search_only: true, ..Limits::default() };
    for_random_traces(100_000..110_000, Shape::any, |trace| races_equal_the_oracle(trace, &limits));
}

fn deadlocks_equal_the_oracle(trace: &Trace) -> Result<(), String> {
    let cells = Cells::of(trace);
    let checker = Checker::new(trace, &cells);
    for level in LEVELS {
        let expected = search::deadlocks(trace, level);
        let lowered = Lowered::of(trace, &cells, level);
        let index = Index::new(lowered.trace(), lowered.cells(), level);
        let mut queries = Queries::new(&index, Limits::default());
        let cycles = Cycles::of(&index);
        let mut found = BTreeSet::new();
        let mut problem = None;
        let complete = (0..cycles.tasks()).all(|task| {
            cycles.visit(task, usize::MAX, &|| false, &mut |set| {
                let answer = queries.ask(set).0;
                let set: Vec<EventId> = set.iter().filter_map(|&event| lowered.original(event)).collect();
                match answer {
                    Answer::Possible(schedule) => {
                        let schedule = lowered.schedule(schedule);
                        if let Err(why) = checker.check_deadlock(schedule.iter(trace), &set, level) {
                            problem = Some(format!("{level} {set:?}: {why}"));
                        }
                        if !found.insert(set.iter().copied().collect::<BTreeSet<_>>()) {
                            problem = Some(format!("{level} {set:?} twice"));
                        }
                    }
                    Answer::Impossible => {}
                    Answer::Unknown(why) => problem = Some(format!("{set:?}: {why:?}")),
                }
                problem.is_none()
            }) == 0
        });
        if let Some(problem) = problem {
            return Err(problem);
        }
        assert!(complete);
        if found != expected {
            return Err(format!("{level}: found {found:?}, the oracle {expected:?}"));
        }
    }
    Ok(())
}

#[test]
fn deadlocks_are_exactly_those_of_the_oracle() {
    for_random_traces(200_000..220_000, deadlock_prone, deadlocks_equal_the_oracle);
}

#[test]
fn acquires_that_only_try_are_part_of_no_deadlock() {
    for_random_traces(500_000..505_000, Shape::lock_heavy, |trace| {
        let mut trace = trace.clone();
        let acquires = |&at: &usize| matches!(trace.events.ops()[at], Op::Acquire | Op::ReadAcquire);
        let tried: Vec<usize> = (0..trace.len()).filter(acquires).step_by(3).collect();
        tried.into_iter().for_each(|at| trace.events.set_aux(at, 1));
        deadlocks_equal_the_oracle(&trace)
    });
}

/// Mostly many locks, sometimes anything.
fn deadlock_prone(rng: &mut Rng) -> Shape {
    if rng.chance(75) { Shape::lock_heavy(rng) } else { Shape::everything(rng) }
}

#[test]
fn races_and_deadlocks_are_those_of_the_oracle_where_attempts_fail() {
    for_random_traces(0..6_000, Shape::with_attempts, |trace| races_equal_the_oracle(trace, &Limits::default()));
    let search_only = Limits { search_only: true, ..Limits::default() };
    for_random_traces(10_000..13_000, Shape::with_attempts, |trace| races_equal_the_oracle(trace, &search_only));
    let local = Limits { local: Some(&[1, 3, 6]), ..Limits::default() };
    for_random_traces(20_000..22_000, Shape::with_attempts, |trace| races_equal_the_oracle(trace, &local));
    for_random_traces(30_000..33_000, Shape::with_attempts, deadlocks_equal_the_oracle);
}
