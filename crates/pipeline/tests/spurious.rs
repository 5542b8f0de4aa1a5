//! Waits that end for no reason: what is found with them is what the oracle finds in the trace without notifies, and only
//! what needs one rests on one.

use snag_checker::Checker;
use snag_engines::MC;
use snag_model::{Cells, EventId, Level, Op, Trace};
use snag_pipeline::{Analysis, Options, Quiet, Settings, analyse};
use snag_synthesis::Rng;
use snag_testkit::random::{Shape, Weights, for_random_traces};
use snag_testkit::search;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Many waits.
fn waiting(rng: &mut Rng) -> Shape {
    let shape = Shape::any(rng);
    let weights = Weights { plain: 10, conditions: 14, methods: 0, symbols: 0, ..shape.weights.clone() };
    Shape { events: rng.between(10, 20), weights, ..shape }
}

fn found(trace: &Trace, level: Level, condense_from: usize) -> Analysis {
    let settings = Settings { all_pairs: true, level: Some(level), ..Settings::default() };
    let options = Options { engines: vec![MC.into()], settings, spurious: true, condense_from, ..Options::default() };
    analyse(trace, &options, &Quiet)
}

#[test]
fn every_wait_may_end_for_no_reason_and_only_what_needs_that_says_so() {
    let (with, without) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for_random_traces(0..4_000, waiting, |trace| {
        let cells = Cells::of(trace);
        let checker = Checker::new(trace, &cells);
        let unnamed = trace.with_unnamed_wakes();
        for level in [Level::Writer, Level::Value] {
            let expected = search::races(unnamed.as_ref().unwrap_or(trace), level);
            let named = search::races(trace, level);
            let named_deadlocks = search::deadlocks(trace, level);
            for condense_from in [usize::MAX, 0] {
                let found = found(trace, level, condense_from);
                let races: BTreeSet<_> = found.races.iter().map(|race| (race.first, race.second)).collect();
                // What a notify hands on counts as private where a trace is condensed.
                let all = condense_from > 0;
                if all && races != expected || !races.is_subset(&expected) || !races.is_superset(&named) {
                    return Err(format!("{level}: {races:?}, expected {expected:?}"));
                }
                for race in &found.races {
                    let check = |spurious: &[EventId]| {
                        let events = race.witness.iter(trace);
                        checker.check_race_with_spurious(events, race.first, race.second, level, spurious)
                    };
                    check(&race.spurious).map_err(|why| why.to_string())?;
                    let needs = !named.contains(&(race.first, race.second));
                    if needs == race.spurious.is_empty() {
                        return Err(format!(
                            "{level}: {} and {} rest on {:?}",
                            race.first.0, race.second.0, race.spurious
                        ));
                    }
                    if needs && check(&[]).is_ok() {
                        return Err("accepted without".to_owned());
                    }
                    if race.spurious.iter().any(|wake| trace.events.ops()[wake.index()] != Op::Wake) {
                        return Err("no wake-up".to_owned());
                    }
                    (if needs { &with } else { &without }).fetch_add(1, Ordering::Relaxed);
                }
                for deadlock in &found.deadlocks {
                    let pending: BTreeSet<_> = deadlock.pending.iter().copied().collect();
                    if deadlock.spurious.is_empty() != named_deadlocks.contains(&pending) {
                        return Err(format!("{level}: deadlock {pending:?} rests on {:?}", deadlock.spurious));
                    }
                }
            }
        }
        Ok(())
    });
    let [with, without] = [with, without].map(AtomicUsize::into_inner);
    println!("{with} rest on a spurious wake-up, {without} do not");
    assert!(with > 300 && without > 3_000, "{with}, {without}");
}
