//! Recipe against the exhaustive search at level `symbolic`, and named cases.

use snag_maximal::{Answer, Index, Recipe};
use snag_oracle::random::{Rng, Shape, Weights, for_random_traces};
use snag_oracle::{search, symbolic};
use snag_schedule::{Checker, Level};
use snag_trace::symbolic::Symbolic;
use snag_trace::{Cells, EventId, Trace};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    let cells = Cells::of(trace);
    let checker = Checker::new(trace, &cells);
    let index = Index::symbolic(trace, &cells);
    let mut found = BTreeSet::new();
    let recipe = Recipe::of(&index);
    let mut asker = recipe.asker(None);
    for (a, b) in conflicting(trace, &cells) {
        match asker.ask(&[a, b]).0 {
            Answer::Possible(schedule) => {
                let refused = |why| format!("({a:?}, {b:?}) {schedule:?}, diverging {:?}: {why}", asker.diverging);
                let reads = checker.reads_of(schedule.iter(trace), &asker.diverging).map_err(refused)?;
                checker
                    .check_race_with_values(schedule.iter(trace), &asker.diverging, &reads, a, b)
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
fn equals_the_oracle_on_symbolic_traces() {
    let (all, beyond, diverging) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    for_random_traces(0..3000, symbolic_shape, |trace| {
        equals_the_oracle(trace)?;
        let control = search::races(trace, Level::Control);
        for (a, b) in races(trace)? {
            let on_other_side = |event: EventId| trace.events.ops()[event.index()].on_other_side();
            all.fetch_add(1, Ordering::Relaxed);
            diverging.fetch_add((on_other_side(a) || on_other_side(b)) as usize, Ordering::Relaxed);
            beyond.fetch_add(!control.contains(&(a, b)) as usize, Ordering::Relaxed);
        }
        Ok(())
    });
    // The traces are of the kind that this is about.
    let [all, beyond, diverging] = [all, beyond, diverging].map(AtomicUsize::into_inner);
    println!("{all} races, {beyond} of them beyond control, {diverging} on the other side of a branch");
    assert!(all > 3000 && beyond > 300 && diverging > 100, "{all} {beyond} {diverging}");
}

#[test]
fn equals_the_oracle_on_all_kinds_of_traces() {
    for_random_traces(0..1500, Shape::any, equals_the_oracle);
}
