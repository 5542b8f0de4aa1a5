//! The paper's theorems on random traces, judged by exhaustive search under data abstraction.

use snag_engines::lock_history::{At, Observer, Reach, Strategy};
use snag_model::{EventId, Op, Trace};
use snag_testkit::random::Weights;
use snag_testkit::{Rng, Shape, for_random_traces, simultaneous, standoffs};
use std::collections::BTreeSet;

type Pairs = BTreeSet<(EventId, EventId)>;

/// Nested, non-nested and re-entrant locks, wait and notify, fork and join.
fn locks(rng: &mut Rng) -> Shape {
    // What two threads can do is soon enumerated.
    let (threads, events) = if rng.chance(50) { (2, rng.between(16, 44)) } else { (rng.between(3, 4), 20) };
    Shape { threads, events, ..Shape::meetings(rng) }
}

/// The same with reader locks, barriers, and where `loose` semaphores and missing methods.
fn everything(rng: &mut Rng, loose: bool) -> Shape {
    let mut maybe = |weight: u32| if rng.chance(40) { weight } else { 0 };
    let weights = Weights {
        plain: 5,
        locks: maybe(8),
        read_locks: maybe(8),
        semaphores: if loose { maybe(5) } else { 0 },
        barriers: maybe(5),
        methods: if loose { maybe(3) } else { 0 },
        conditions: maybe(5),
        fork_join: maybe(3),
        ..Weights::default()
    };
    Shape { weights, ..locks(rng) }
}

/// How questions are asked.
#[derive(Clone, Copy, Debug)]
struct How {
    /// All at the end, in any order, instead of about each access and all earlier ones while the trace is read.
    later: bool,
    /// Searches make use of earlier ones.
    incremental: bool,
    /// Starts are looked for before marks that are so many events apart.
    stride: u32,
    /// Questions that need no search are not put to one.
    shortcuts: bool,
}

/// What the searches answer: pairs of accesses, and deadlocks of two threads.
fn predict(trace: &Trace, strategy: Strategy, how: How) -> (Pairs, Pairs) {
    let mut reach = Reach::new(Observer::new(strategy, Some(trace)), strategy, how.incremental);
    reach = reach.with_stride(how.stride);
    if !how.shortcuts {
        reach = reach.without_shortcuts();
    }
    let (mut accesses, mut questions, mut found) = (Vec::<At>::new(), Vec::new(), Pairs::new());
    let mut ask = |reach: &mut Reach, (a, b): (At, At)| {
        if reach.passes_basic_checks(&a, &b) && reach.reaches(&a, &b) {
            found.insert((a.event, b.event));
        }
    };
    for (number, event) in trace.events.iter().enumerate() {
        let number = EventId::new(number);
        reach.observer.observe(number, &event, &trace.tables);
        if !event.op.touches_memory() {
            continue;
        }
        let at = reach.at(number, event.thread);
        questions.extend(accesses.iter().filter(|other| other.thread != at.thread).map(|&other| (other, at)));
        if !how.later {
            questions.drain(..).for_each(|question| ask(&mut reach, question));
        }
        accesses.push(at);
    }
    let mut rng = Rng::new(trace.len() as u64);
    while !questions.is_empty() {
        let question = questions.swap_remove(rng.below(questions.len()));
        ask(&mut reach, question);
    }
    let sorted = |[a, b]: [EventId; 2]| (a.min(b), a.max(b));
    let waiting = reach.take_standoffs().into_iter().map(|standoff| sorted(standoff.pending())).collect();
    (found, waiting)
}

fn threads(trace: &Trace) -> usize {
    let mut threads: Vec<_> = trace.events.threads().to_vec();
    threads.extend(
        (0..trace.len())
            .filter(|&event| matches!(trace.events.ops()[event], Op::Fork | Op::Join))
            .map(|event| snag_model::ThreadId(trace.events.targets()[event])),
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

/// What is asked of two threads.
#[derive(Clone, Copy, PartialEq)]
enum Exact {
    Both,
    /// A barrier is a place through which every schedule goes only if nobody does anything between enter and leave.
    StrategyOne,
    Neither,
}

fn check(trace: &Trace, exact: Exact) -> Result<(), String> {
    let (truth, waiting) = (simultaneous(trace), standoffs(trace));
    // As far apart as usual, which is too far for traces like these; so near that every start is the last possible one; and so.
    let ways = [(false, 256), (true, 256), (false, 1), (true, 4)];
    for ((later, stride), shortcuts) in ways.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let [one, two] = [Strategy::One, Strategy::Two].map(|strategy| {
            let [anew, remembering] = [false, true]
                .map(|incremental| predict(trace, strategy, How { later, incremental, stride, shortcuts }));
            (anew.0 == remembering.0, remembering)
        });
        for (same, strategy) in [(one.0, Strategy::One), (two.0, Strategy::Two)] {
            if !same {
                return Err(format!(
                    "{strategy:?}, later {later}, stride {stride}, shortcuts {shortcuts}: incremental searches answer otherwise"
                ));
            }
        }
        let ((one, _), (two, deadlocks)) = (one.1, two.1);
        subset(&truth, &one, "strategy I misses")?;
        subset(&two, &truth, "strategy II claims")?;
        subset(&deadlocks, &waiting, "strategy II claims a deadlock")?;
        if exact != Exact::Neither && threads(trace) == 2 {
            subset(&one, &truth, "strategy I claims, of two threads")?;
        }
        if exact == Exact::Both && threads(trace) == 2 {
            subset(&truth, &two, "strategy II misses, of two threads")?;
        }
    }
    Ok(())
}

#[test]
fn the_theorems_hold_for_locks_conditions_forks_and_joins() {
    for_random_traces(0..20_000, locks, |trace| check(trace, Exact::Both));
}

#[test]
fn the_theorems_hold_for_reader_locks() {
    let reader_locks = |rng: &mut Rng| {
        let mut shape = locks(rng);
        shape.weights.read_locks = rng.pick(&[4, 10]);
        shape
    };
    for_random_traces(0..5_000, reader_locks, |trace| check(trace, Exact::Both));
}

#[test]
fn with_barriers_strategy_one_is_exact_for_two_threads() {
    for_random_traces(0..4_000, |rng| everything(rng, false), |trace| check(trace, Exact::StrategyOne));
}

#[test]
fn strategy_one_misses_nothing_and_strategy_two_claims_nothing_false_whatever_the_events() {
    for_random_traces(0..4_000, |rng| everything(rng, true), |trace| check(trace, Exact::Neither));
}

#[test]
fn strategy_one_misses_nothing_and_strategy_two_claims_nothing_false_where_attempts_fail() {
    for_random_traces(0..4_000, Shape::with_attempts, |trace| check(trace, Exact::Neither));
}
