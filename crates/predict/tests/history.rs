//! Lock histories in the pipeline: strategy I leaves out no race that can be proved, and what either strategy prints is
//! one.

use snag_oracle::{Level, Rng, Shape, deadlocks, for_random_traces, races};
use snag_predict::{Engine, Options, Quiet, analyse};
use snag_schedule::Checker;
use snag_trace::{Cells, EventId, Trace};
use std::collections::BTreeSet;

fn check(trace: &Trace) -> Result<(), String> {
    let truth = races(trace, Level::Writer);
    let stuck = deadlocks(trace, Level::Writer);
    let cells = Cells::of(trace);
    let checker = Checker::new(trace, &cells);
    for engine in [Engine::Tlh1, Engine::Tlh2] {
        let options = Options { engines: vec![engine], candidates: true, all_pairs: true, ..Options::default() };
        let analysis = analyse(trace, &options, &Quiet);
        for race in &analysis.races {
            checker
                .check_race(race.witness.iter(trace), race.first, race.second, Level::Writer)
                .map_err(|violation| format!("{race:?}: {violation}"))?;
        }
        let proved: BTreeSet<_> = analysis.races.iter().map(|race| (race.first, race.second)).collect();
        if engine == Engine::Tlh1 && proved != truth || !proved.is_subset(&truth) {
            return Err(format!("{engine:?} proves {proved:?}, the truth is {truth:?}"));
        }
        for deadlock in &analysis.deadlocks {
            checker
                .check_deadlock(deadlock.witness.iter(trace), &deadlock.pending, Level::Writer)
                .map_err(|violation| format!("{deadlock:?}: {violation}"))?;
            let pending: BTreeSet<EventId> = deadlock.pending.iter().copied().collect();
            if !stuck.contains(&pending) {
                return Err(format!("{deadlock:?} is not predictable"));
            }
        }
        if analysis.engines.iter().any(|report| !report.complete) {
            return Err(format!("{engine:?} did not finish"));
        }
    }
    Ok(())
}

#[test]
fn strategy_one_proves_every_race_and_strategy_two_only_races() {
    for_random_traces(0..10_000, Shape::any, check);
}

#[test]
fn strategy_one_proves_every_race_of_many_locks() {
    for_random_traces(0..10_000, |rng: &mut Rng| Shape { locations: 0, ..Shape::lock_heavy(rng) }, check);
}
