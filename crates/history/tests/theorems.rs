//! The paper's theorems on random traces, judged by exhaustive search under data abstraction.

use snag_history::{At, Observer, Reach, Strategy};
use snag_oracle::random::Weights;
use snag_oracle::{Rng, Shape, for_random_traces, simultaneous, standoffs};
use snag_trace::{EventId, Op, Trace};
use std::collections::BTreeSet;

type Pairs = BTreeSet<(EventId, EventId)>;

/// Nested, non-nested and re-entrant locks, wait and notify, fork and join.
fn locks(rng: &mut Rng) -> Shape {
    Shape {
        threads: rng.between(2, 4),
        events: rng.between(8, 20),
        locks: rng.between(1, 4),
        weights: Weights {
            plain: rng.pick(&[3, 6]),
            locks: 12,
            conditions: rng.pick(&[0, 0, 4, 8]),
            fork_join: rng.pick(&[0, 0, 2, 4]),
            ..Weights::default()
        },
        reentrant: rng.chance(40),
        release: rng.pick(&[5, 20, 40]),
        stay: rng.pick(&[30, 60]),
        ..Shape::classic(rng)
    }
}

/// The same with reader locks, semaphores, barriers and missing methods.
fn everything(rng: &mut Rng) -> Shape {
    let mut maybe = |weight: u32| if rng.chance(40) { weight } else { 0 };
    let weights = Weights {
        plain: 5,
        locks: maybe(8),
        read_locks: maybe(8),
        semaphores: maybe(5),
        barriers: maybe(5),
        methods: maybe(3),
        conditions: maybe(5),
        fork_join: maybe(3),
        ..Weights::default()
    };
    Shape { weights, ..locks(rng) }
}

/// What the trace says and the searches answer: pairs of accesses, and deadlocks of two threads.
fn predict(trace: &Trace, strategy: Strategy, incremental: bool) -> (Pairs, Pairs) {
    let mut reach = Reach::new(Observer::new(strategy, Some(trace)), strategy, incremental);
    let (mut accesses, mut found, mut waiting): (Vec<At>, _, _) = (Vec::new(), Pairs::new(), Pairs::new());
    for (number, event) in trace.events.iter().enumerate() {
        let number = EventId::new(number);
        reach.observer.observe(number, &event, &trace.tables);
        if !event.op.touches_memory() {
            continue;
        }
        let at = reach.at(number, event.thread);
        for other in accesses.iter().filter(|other| other.thread != at.thread) {
            if reach.passes_basic_checks(other, &at) && reach.reaches(other, &at) {
                found.insert((other.event, number));
            }
        }
        accesses.push(at);
    }
    for standoff in reach.take_standoffs() {
        let [a, b] = standoff.pending;
        waiting.insert((a.min(b), a.max(b)));
    }
    (found, waiting)
}

fn threads(trace: &Trace) -> usize {
    let mut threads: Vec<_> = trace.events.threads().to_vec();
    threads.extend(
        (0..trace.len())
            .filter(|&event| matches!(trace.events.ops()[event], Op::Fork | Op::Join))
            .map(|event| snag_trace::ThreadId(trace.events.targets()[event])),
    );
    threads.sort_unstable();
    threads.dedup();
    threads.len()
}

fn subset(smaller: &Pairs, larger: &Pairs, what: &str) -> Result<(), String> {
    match smaller.difference(larger).next() {
        None => Ok(()),
        Some(pair) => Err(format!("{what}: {pair:?}")),
    }
}

fn check(trace: &Trace, exact: bool) -> Result<(), String> {
    let truth = simultaneous(trace);
    let (one, _) = predict(trace, Strategy::One, true);
    let (two, deadlocks) = predict(trace, Strategy::Two, true);
    subset(&truth, &one, "strategy I misses")?;
    subset(&two, &truth, "strategy II claims")?;
    subset(&deadlocks, &standoffs(trace), "strategy II claims a deadlock")?;
    if exact && threads(trace) == 2 {
        subset(&one, &truth, "strategy I claims, of two threads")?;
        subset(&truth, &two, "strategy II misses, of two threads")?;
    }
    for (strategy, answers) in [(Strategy::One, &one), (Strategy::Two, &two)] {
        let (anew, _) = predict(trace, strategy, false);
        if anew != *answers {
            return Err(format!("{strategy:?}: incremental {answers:?}, otherwise {anew:?}"));
        }
    }
    Ok(())
}

#[test]
fn the_theorems_hold_for_locks_conditions_forks_and_joins() {
    for_random_traces(0..20_000, locks, |trace| check(trace, true));
}

#[test]
fn strategy_one_misses_nothing_and_strategy_two_claims_nothing_false_whatever_the_events() {
    for_random_traces(0..6_000, everything, |trace| check(trace, false));
}
