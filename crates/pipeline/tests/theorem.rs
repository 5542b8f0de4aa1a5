//! The first CP or WCP race is a race or a deadlock, and Snag says which, with a witness.

use snag_checker::Checker;
use snag_engines::{CP, WCP};
use snag_model::{Cells, Trace};
use snag_pipeline::{EngineRef, Options, Quiet, Settings, analyse};
use snag_testkit::causal::{cp, cp_races, theorem_applies, wcp, wcp_races};
use snag_testkit::reference::first_race;
use snag_testkit::{Level, Rng, Shape, deadlocks, for_random_traces, races};

fn check(trace: &Trace, engine: EngineRef) -> Result<(), String> {
    let (relation, unordered) =
        if engine == CP { (cp(trace), cp_races(trace)) } else { (wcp(trace), wcp_races(trace)) };
    let options = Options {
        engines: vec![engine.into()],
        candidates: true,
        settings: Settings { all_pairs: true, ..Settings::default() },
        ..Options::default()
    };
    let analysis = analyse(trace, &options, &Quiet);
    let (cells, predictable) = (Cells::of(trace), races(trace, Level::Writer));
    let checker = Checker::new(trace, &cells);
    for race in &analysis.races {
        let verdict = checker.check_race(race.witness.iter(trace), race.first, race.second, Level::Writer);
        verdict.map_err(|violation| format!("{race:?}: {violation}"))?;
        if !predictable.contains(&(race.first, race.second)) {
            return Err(format!("{race:?} is not predictable"));
        }
    }
    for deadlock in &analysis.deadlocks {
        let verdict = checker.check_deadlock(deadlock.witness.iter(trace), &deadlock.pending, Level::Writer);
        verdict.map_err(|violation| format!("{deadlock:?}: {violation}"))?;
    }
    let Some((first, second)) = first_race(&unordered) else {
        return match analysis.races.is_empty() && analysis.candidates.is_empty() {
            true => Ok(()),
            false => Err(format!("{engine:?} reports what it puts in order: {analysis:?}")),
        };
    };
    let shown = analysis.races.iter().any(|race| (race.first, race.second) == (first, second));
    if shown != predictable.contains(&(first, second)) {
        return Err(format!("the first {engine:?} race {first:?}, {second:?}: shown {shown}"));
    }
    let instead = !shown && !deadlocks(trace, Level::Writer).is_empty();
    if instead != (!shown && !analysis.deadlocks.is_empty()) {
        return Err(format!("the first {engine:?} race is none: a deadlock is predictable {instead}"));
    }
    if !shown && !instead && theorem_applies(trace, &relation, second) {
        return Err(format!("the first {engine:?} race {first:?}, {second:?} is neither a race nor a deadlock"));
    }
    Ok(())
}

fn for_all(shape: impl Fn(&mut Rng) -> Shape + Sync) {
    for_random_traces(0..10_000, shape, |trace| {
        check(trace, CP)?;
        check(trace, WCP)
    });
}

#[test]
fn the_first_race_is_shown_or_a_deadlock_is() {
    for_all(Shape::any);
}

#[test]
fn the_first_race_of_many_locks_is_shown_or_a_deadlock_is() {
    for_all(Shape::lock_heavy);
}
