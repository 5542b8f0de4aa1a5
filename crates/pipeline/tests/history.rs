//! Lock histories in the pipeline: strategy I leaves out no race that can be proved, and what either strategy prints is
//! one.

use snag_checker::Checker;
use snag_engines::{MC, TLH1, TLH2};
use snag_model::{Cells, EventId, Op, Trace};
use snag_pipeline::{Options, Quiet, Settings, analyse};
use snag_testkit::{Level, Rng, Shape, deadlocks, for_random_traces, races};
use std::collections::BTreeSet;

fn check(trace: &Trace) -> Result<(), String> {
    let truth = races(trace, Level::Writer);
    let stuck = deadlocks(trace, Level::Writer);
    let cells = Cells::of(trace);
    let checker = Checker::new(trace, &cells);
    for engine in [TLH1, TLH2] {
        let options = Options {
            engines: vec![engine.into()],
            candidates: true,
            settings: Settings { all_pairs: true, ..Settings::default() },
            ..Options::default()
        };
        let analysis = analyse(trace, &options, &Quiet);
        for race in &analysis.races {
            checker
                .check_race(race.witness.iter(trace), race.first, race.second, Level::Writer)
                .map_err(|violation| format!("{race:?}: {violation}"))?;
        }
        let proved: BTreeSet<_> = analysis.races.iter().map(|race| (race.first, race.second)).collect();
        if engine == TLH1 && proved != truth || !proved.is_subset(&truth) {
            return Err(format!("{engine:?} proves {proved:?}, the truth is {truth:?}"));
        }
        let mut listed: BTreeSet<Vec<u32>> = BTreeSet::new();
        for deadlock in &analysis.deadlocks {
            let lock = |&event: &EventId| match trace.event(event) {
                event if event.op == Op::WaitEnd => event.aux,
                event => event.target,
            };
            let mut locks: Vec<u32> = deadlock.pending.iter().map(lock).collect();
            locks.sort_unstable();
            if !listed.insert(locks) {
                return Err(format!("{engine:?} lists {deadlock:?} twice"));
            }
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

#[test]
fn a_schedule_may_go_beyond_the_later_event_of_its_pair() {
    // T1 can only get the lock before its write after T3 has released it, and that is the last event.
    let text = "T1|acq(l)|1\nT1|w(x)|2\nT1|rel(l)|3\nT3|acq(l)|4\nT3|w(x)|5\nT2|r(x)|6\nT2|w(x)|7\nT3|rel(l)|8\n";
    let reader = snag_formats::read_from(text.as_bytes(), Some(snag_formats::Format::Std), None).unwrap();
    let (trace, _) = reader.read_all().unwrap();
    for engine in [TLH1, MC] {
        let options = Options { engines: vec![engine.into()], ..Options::default() };
        let races = analyse(&trace, &options, &Quiet).races;
        let race = races.iter().find(|race| (race.first, race.second) == (EventId(1), EventId(6)));
        let witness: Vec<EventId> = race.expect("it is predictable").witness.iter(&trace).collect();
        assert!(witness.contains(&EventId(7)), "{engine:?}: {witness:?}");
    }
}
