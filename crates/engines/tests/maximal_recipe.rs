//! Recipe against the exhaustive search at level `symbolic`, and named cases.

use snag_checker::Checker;
use snag_engines::maximal::{Answer, Index, Limits, Queries};
use snag_model::Level;
use snag_model::symbolic::Symbolic;
use snag_model::{Cells, EventId, Trace};
use snag_testkit::dense::{Dense, symbolic_trace};
use snag_testkit::random::{Rng, Shape, Weights, for_random_traces, seeds};
use snag_testkit::{search, symbolic};
use std::collections::BTreeSet;

/// All pairs of events that conflict if both happen; the earlier one first.
fn conflicting(trace: &Trace, cells: &Cells) -> Vec<(EventId, EventId)> {
    let touch = |i: usize| cells.of_event(i, trace.events.targets()[i]);
    let op = |i: usize| trace.events.ops()[i].if_it_happens();
    let mut pairs = Vec::new();
    for b in 0..trace.len() {
        for a in 0..b {
            let differ = trace.events.threads()[a] != trace.events.threads()[b];
            if differ && op(a).conflicts(op(b)) && touch(a).start < touch(b).end && touch(b).start < touch(a).end {
                pairs.push((EventId::new(a), EventId::new(b)));
            }
        }
    }
    pairs
}

/// The races that Recipe finds, each with a witness that the checker accepts.
fn races(trace: &Trace) -> Result<BTreeSet<(EventId, EventId)>, String> {
    races_in_window(trace, EventId(0), EventId::new(trace.len()))
}

/// Those of a window.
fn races_in_window(trace: &Trace, base: EventId, end: EventId) -> Result<BTreeSet<(EventId, EventId)>, String> {
    let cells = Cells::of(trace);
    let checker = Checker::new(trace, &cells);
    let index = Index::symbolic(trace, &cells);
    let mut found = BTreeSet::new();
    let mut queries = Queries::new(&index, Limits::default());
    queries.set_window(base, end);
    for (a, b) in conflicting(trace, &cells).into_iter().filter(|&(a, b)| a >= base && b < end) {
        match queries.ask(&[a, b]).0 {
            Answer::Possible(schedule) => {
                let refused = |why| format!("({a:?}, {b:?}) {schedule:?}, diverging {:?}: {why}", queries.diverging);
                let reads = checker.reads_of(schedule.iter(trace), &queries.diverging).map_err(refused)?;
                checker
                    .check_race_with_values(schedule.iter(trace), &queries.diverging, &reads, a, b)
                    .map_err(refused)?;
                found.insert((a, b));
            }
            Answer::Impossible => {}
            Answer::Unknown(why) => return Err(format!("({a:?}, {b:?}): {why:?}")),
        }
    }
    Ok(found)
}

fn equals_the_oracle(trace: &Trace) -> Result<(), String> {
    if !trace.has_branches() && Symbolic::of(trace).is_empty() {
        // Level `value`, which is for another engine.
        return Ok(());
    }
    let (found, expected) = (races(trace)?, symbolic::races(trace));
    match found == expected {
        true => Ok(()),
        false => Err(format!("found {found:?}, the oracle {expected:?}")),
    }
}

/// Two or three threads that read, compute, branch and write.
fn symbolic_shape(rng: &mut Rng) -> Shape {
    Shape {
        threads: rng.between(2, 3),
        events: rng.between(8, 16),
        weights: Weights {
            plain: rng.pick(&[0, 2, 6]),
            atomics: rng.pick(&[0, 0, 3]),
            locks: rng.pick(&[0, 3]),
            fork_join: rng.below(3) as u32,
            heap: rng.pick(&[0, 0, 0, 2]),
            symbols: 12,
            ..Weights::default()
        },
        values: rng.pick(&[60, 100, 100]),
        ..Shape::with_values(rng)
    }
}

#[test]
fn equals_the_oracle_where_symbols_stand_beside_all_else() {
    for_random_traces(0..1500, symbolic_shape, equals_the_oracle);
}

#[test]
fn equals_the_oracle_where_everything_is_symbolic() {
    let (mut all, mut beyond, mut diverging) = (0, 0, 0);
    for seed in seeds(0..2500) {
        let mut rng = Rng::new(seed);
        let shape = Dense::small(&mut rng);
        let trace = symbolic_trace(&shape, &mut rng);
        if trace.len() > 30 {
            continue;
        }
        let (found, expected) = (races(&trace), symbolic::races(&trace));
        if found != Ok(expected.clone()) {
            panic!("seed {seed}: found {found:?}, the oracle {expected:?}\n{}", snag_testkit::show(&trace));
        }
        let control = search::races(&trace, Level::Control);
        let on_other_side = |event: EventId| trace.events.ops()[event.index()].on_other_side();
        all += expected.len();
        diverging += expected.iter().filter(|&&(a, b)| on_other_side(a) || on_other_side(b)).count();
        beyond += expected.difference(&control).count();
    }
    // The traces are of the kind that this is about.
    println!("{all} races, {beyond} of them beyond control, {diverging} on the other side of a branch");
    assert!(beyond > 500 && diverging > 150, "{all} {beyond} {diverging}");
}

#[test]
fn equals_the_oracle_in_windows() {
    let (mut all, mut less) = (0, 0);
    for seed in seeds(0..1500) {
        let mut rng = Rng::new(seed);
        let trace = symbolic_trace(&Dense::small(&mut rng), &mut rng);
        if trace.len() > 30 {
            continue;
        }
        let whole = symbolic::races(&trace);
        let size = rng.between(5, 16);
        for base in (0..trace.len()).step_by(size) {
            let (base, end) = (EventId::new(base), EventId::new((base + size).min(trace.len())));
            let (found, expected) = (races_in_window(&trace, base, end), symbolic::races_in_window(&trace, base, end));
            let shown = || format!("seed {seed}, {base:?} to {end:?}\n{}", snag_testkit::show(&trace));
            assert_eq!(found, Ok(expected.clone()), "{}", shown());
            assert!(expected.is_subset(&whole), "{}", shown());
            all += expected.len();
            less += whole.iter().filter(|&&(a, b)| a >= base && b < end && !expected.contains(&(a, b))).count();
        }
    }
    // Some windows have races, and some lose one.
    assert!(all > 500 && less > 5, "{all} {less}");
}

#[test]
fn equals_the_oracle_on_all_kinds_of_traces() {
    for_random_traces(0..1000, Shape::any, equals_the_oracle);
}
