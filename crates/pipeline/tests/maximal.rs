//! `auto` and `mc` beside the other engines, on random traces.

use snag_checker::Checker;
use snag_engines::{CP, FHB, HB, MC, SHB, WCP};
use snag_model::Level;
use snag_model::events::Event;
use snag_model::{Cells, EventId, LocId, LockId, Trace};
use snag_pipeline::{Analysis, Choice, Deadlock, Options, Progress, Quiet, Settings, analyse};
use snag_testkit::random::{Shape, for_random_traces};
use snag_testkit::{reference, search};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn run(trace: &Trace, engine: impl Into<Choice>, all_pairs: bool) -> Analysis {
    analyse(
        trace,
        &Options {
            engines: vec![engine.into()],
            settings: Settings { all_pairs, ..Settings::default() },
            ..Options::default()
        },
        &Quiet,
    )
}

fn races(analysis: &Analysis) -> BTreeSet<(EventId, EventId)> {
    analysis.races.iter().map(|race| (race.first, race.second)).collect()
}

#[test]
fn auto_proves_all_that_the_other_engines_prove() {
    for_random_traces(0..3_000, Shape::any, |trace| {
        let auto = races(&run(trace, Choice::Auto, true));
        for engine in [HB, FHB, SHB, WCP, CP, MC] {
            let other = races(&run(trace, engine, true));
            if let Some(missing) = other.difference(&auto).next() {
                return Err(format!("{engine:?} proves {missing:?}, auto does not"));
            }
        }
        match reference::first_race(&reference::hb_races(trace)) {
            Some(first) if search::races(trace, Level::Control).contains(&first) && !auto.contains(&first) => {
                Err(format!("the first HB race {first:?} is missing"))
            }
            _ => Ok(()),
        }
    });
}

#[test]
fn mc_finds_exactly_the_races_and_deadlocks_of_the_oracle_at_every_level() {
    for_random_traces(50_000..70_000, Shape::any, |trace| {
        for level in [Level::Writer, Level::Value, Level::Control] {
            let options = Options {
                engines: vec![MC.into()],
                settings: Settings { all_pairs: true, level: Some(level), ..Settings::default() },
                ..Options::default()
            };
            let found = analyse(trace, &options, &Quiet);
            if races(&found) != search::races(trace, level) {
                return Err(format!("{level}: races {:?}", races(&found)));
            }
            let deadlocks: BTreeSet<BTreeSet<EventId>> =
                found.deadlocks.iter().map(|deadlock| deadlock.pending.iter().copied().collect()).collect();
            if deadlocks != search::deadlocks(trace, level) {
                return Err(format!("{level}: deadlocks {deadlocks:?}"));
            }
            if !found.engines.iter().all(|report| report.complete) {
                return Err(format!("{level}: not complete"));
            }
        }
        Ok(())
    });
}

/// Many acquires share a few locations; in every fourth trace some have none.
fn with_few_locations(trace: &Trace) -> Trace {
    let mut located = Trace { tables: trace.tables.clone(), ..Trace::default() };
    let names = ["a:1", "a:2", "b:1", "b:2"].map(|name| located.tables.location(name));
    for at in 0..trace.len() {
        let number = (at * 7 + trace.len()) % 5;
        let unknown = trace.len().is_multiple_of(4) && number == 0;
        let location = if unknown { LocId::NONE } else { names[number % 4] };
        located.events.push(Event { location, ..trace.events.get(at) });
    }
    located
}

/// What makes two deadlocks the same finding: their locations, or their locks if not all locations are known.
fn cycle(trace: &Trace, pending: &BTreeSet<EventId>) -> (Vec<LocId>, Vec<LockId>) {
    let mut locations: Vec<LocId> = pending.iter().map(|event| trace.events.location(event.index())).collect();
    locations.sort_unstable();
    let lock = |&event: &EventId| trace.action(event).acquired().expect("pending").0;
    let mut locks: Vec<LockId> = pending.iter().map(lock).collect();
    locks.sort_unstable();
    if locations.contains(&LocId::NONE) { (Vec::new(), locks) } else { (locations, Vec::new()) }
}

#[test]
fn there_is_one_deadlock_for_each_cycle_of_locations_that_the_oracle_has() {
    for_random_traces(120_000..140_000, Shape::lock_heavy, |trace| {
        let trace = &with_few_locations(trace);
        for level in [Level::Writer, Level::Control] {
            for all_cores in [1, 2] {
                let options = Options {
                    engines: vec![MC.into()],
                    settings: Settings { level: Some(level), jobs: all_cores, ..Settings::default() },
                    ..Options::default()
                };
                let found = analyse(trace, &options, &Quiet).deadlocks;
                let pending = |deadlock: &Deadlock| deadlock.pending.iter().copied().collect();
                let cycles: BTreeSet<_> = found.iter().map(|deadlock| cycle(trace, &pending(deadlock))).collect();
                let oracle = search::deadlocks(trace, level);
                let expected: BTreeSet<_> = oracle.iter().map(|pending| cycle(trace, pending)).collect();
                if cycles != expected || found.len() != cycles.len() {
                    return Err(format!("{level}: {cycles:?}, the oracle {expected:?}"));
                }
                for deadlock in &found {
                    let own = cycle(trace, &pending(deadlock));
                    let known = oracle.iter().filter(|pending| cycle(trace, pending) == own).count() as u64;
                    if deadlock.count < known {
                        return Err(format!("{level}: {own:?} is counted {} times, not {known}", deadlock.count));
                    }
                }
            }
        }
        Ok(())
    });
}

#[test]
fn what_is_found_in_windows_is_found_in_the_whole_trace() {
    for_random_traces(80_000..82_000, Shape::any, |trace| {
        let whole = races(&run(trace, MC, true));
        let cells = Cells::of(trace);
        let checker = Checker::new(trace, &cells);
        let options = Options {
            engines: vec![MC.into()],
            settings: Settings { all_pairs: true, window: Some(6), ..Settings::default() },
            ..Options::default()
        };
        for race in analyse(trace, &options, &Quiet).races {
            if race.first.0 / 6 != race.second.0 / 6 || !whole.contains(&(race.first, race.second)) {
                return Err(format!("({:?}, {:?}) in a window", race.first, race.second));
            }
            checker
                .check_race(race.witness.iter(trace), race.first, race.second, race.level)
                .map_err(|why| why.to_string())?;
        }
        Ok(())
    });
}

/// Stops the work after so many questions.
struct Impatient(AtomicUsize);

impl Progress for Impatient {
    fn phase(&self, _: &str, _: u64) {}
    fn advance(&self, _: u64) {}
    fn cancelled(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) > 0
    }
}

#[test]
fn stopping_in_the_middle_leaves_proved_races_and_says_that_there_may_be_more() {
    use snag_formats::TraceReader;
    use snag_synthesis::generate::{Generator, Shape};
    let shape = Shape { events: 20_000, racy: 0.05, values: true, branches: 0.2, ..Shape::default() };
    let (trace, _) = TraceReader::new(Box::new(Generator::new(shape)), None).read_all().expect("well formed");
    let options = Options {
        engines: vec![MC.into()],
        settings: Settings { all_pairs: true, ..Settings::default() },
        ..Options::default()
    };
    for found in [
        analyse(&trace, &options, &Impatient(AtomicUsize::new(0))),
        analyse(
            &trace,
            &Options {
                settings: Settings { budget: Some(Duration::ZERO), ..options.settings.clone() },
                ..options.clone()
            },
            &Quiet,
        ),
        analyse(
            &trace,
            &Options { settings: Settings { max_races: 3, ..options.settings.clone() }, ..options.clone() },
            &Quiet,
        ),
    ] {
        assert!(!found.engines[0].complete);
        let cells = Cells::of(&trace);
        let checker = Checker::new(&trace, &cells);
        for race in &found.races {
            checker.check_race(race.witness.iter(&trace), race.first, race.second, race.level).unwrap();
        }
    }
}
