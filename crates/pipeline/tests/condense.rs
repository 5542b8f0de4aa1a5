//! What is found without accesses to private memory is what is found with them.

use snag_checker::Checker;
use snag_engines::{FHB, HB, MC, SHB_VC};
use snag_model::Level;
use snag_model::{Cells, EventId, LocId, Op, Trace};
use snag_pipeline::condense::Condensed;
use snag_pipeline::{Analysis, Choice, Options, Quiet, Settings, analyse};
use snag_synthesis::Rng;
use snag_testkit::random::{Shape, Weights, for_random_traces};
use snag_testkit::search;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every kind of event, and memory enough that threads have some for themselves.
fn roomy(rng: &mut Rng) -> Shape {
    let shape = Shape::any(rng);
    let weights = Weights { plain: 14, symbols: 0, ..shape.weights.clone() };
    Shape { variables: rng.between(2, 8), events: rng.between(10, 18), weights, ..shape }
}

fn condensed(options: Options) -> Options {
    Options { condense_from: 0, ..options }
}

fn races(analysis: &Analysis) -> BTreeSet<(EventId, EventId)> {
    analysis.races.iter().map(|race| (race.first, race.second)).collect()
}

fn deadlocks(analysis: &Analysis) -> BTreeSet<BTreeSet<EventId>> {
    analysis.deadlocks.iter().map(|deadlock| deadlock.pending.iter().copied().collect()).collect()
}

#[test]
fn a_condensed_trace_has_exactly_the_races_and_deadlocks_of_the_oracle_at_every_level() {
    let left_out = AtomicUsize::new(0);
    for_random_traces(3_000_000..3_004_000, roomy, |trace| {
        if let Some(condensed) = Condensed::of(trace) {
            left_out.fetch_add(trace.len() - condensed.trace.len(), Ordering::Relaxed);
        }
        let cells = Cells::of(trace);
        let checker = Checker::new(trace, &cells);
        for level in [Level::Writer, Level::Value, Level::Control] {
            let found = analyse(
                trace,
                &condensed(Options {
                    engines: vec![MC.into()],
                    settings: Settings { all_pairs: true, level: Some(level), ..Settings::default() },
                    ..Options::default()
                }),
                &Quiet,
            );
            if races(&found) != search::races(trace, level) {
                return Err(format!("{level}: races {:?}", races(&found)));
            }
            if deadlocks(&found) != search::deadlocks(trace, level) {
                return Err(format!("{level}: deadlocks {:?}", deadlocks(&found)));
            }
            if !found.engines.iter().all(|report| report.complete) || !found.left.is_empty() {
                return Err(format!("{level}: not complete: {:?}", found.left));
            }
            for race in &found.races {
                let events = race.witness.iter(trace);
                checker.check_race(events, race.first, race.second, race.level).map_err(|why| why.to_string())?;
            }
        }
        Ok(())
    });
    assert!(left_out.into_inner() > 2_000, "the traces have private memory");
}

/// What an analysis says, without times.
fn said(trace: &Trace, analysis: &Analysis, all_pairs: bool) -> String {
    let engines: Vec<_> = analysis
        .engines
        .iter()
        .map(|report| {
            // Warnings are counted by their representatives.
            let warnings = if report.engine == MC && !all_pairs { 0 } else { report.warnings };
            (report.engine, warnings, report.location_pairs, report.complete)
        })
        .collect();
    let races: BTreeSet<String> = analysis
        .races
        .iter()
        .map(|race| {
            let events = [race.first, race.second];
            let locks = (&race.locks_first, &race.locks_second);
            let places = events.map(|event| trace.events.location(event.index()));
            match race.engine {
                // Of the pairs at two locations it asks about the nearest first, and what is near has changed.
                engine if engine == MC && !all_pairs && !places.contains(&LocId::NONE) => {
                    format!("{:?} {:?} {:?}", race.level, places.iter().min(), places.iter().max())
                }
                engine => format!("{engine:?} {:?} {events:?} {locks:?} {}", race.level, race.count),
            }
        })
        .collect();
    let candidates: Vec<_> =
        analysis.candidates.iter().map(|c| (c.engine, c.first, c.second, c.count, c.reason.clone())).collect();
    let deadlocks: Vec<_> = analysis.deadlocks.iter().map(|d| (d.engine, d.level, d.pending.clone())).collect();
    format!("{engines:?} {races:?} {candidates:?} {deadlocks:?} {:?}", analysis.left)
}

#[test]
fn whoever_looks_at_a_condensed_trace_says_the_same() {
    for_random_traces(3_100_000..3_103_000, roomy, |trace| {
        for all_pairs in [false, true] {
            for first in [Choice::Auto, HB.into(), FHB.into(), SHB_VC.into()] {
                // Only with one of these is it condensed at all.
                let engines = vec![first, MC.into()];
                let options = Options {
                    engines,
                    candidates: true,
                    settings: Settings { all_pairs, ..Settings::default() },
                    ..Options::default()
                };
                let (with, without) = (analyse(trace, &options, &Quiet), analyse(trace, &condensed(options), &Quiet));
                if said(trace, &with, all_pairs) != said(trace, &without, all_pairs) {
                    let [with, without] = [with, without].map(|analysis| said(trace, &analysis, all_pairs));
                    return Err(format!("{first:?}:\n{with}\n{without}"));
                }
            }
        }
        Ok(())
    });
}

#[test]
fn everything_but_accesses_is_left_and_so_are_the_first_and_last_events_of_threads() {
    for_random_traces(3_200_000..3_205_000, roomy, |trace| {
        let Some(condensed) = Condensed::of(trace) else { return Ok(()) };
        let numbers: BTreeSet<EventId> =
            (0..condensed.trace.len()).map(|event| condensed.original(EventId::new(event))).collect();
        let own = |thread| (0..trace.len()).filter(move |&event| trace.events.threads()[event].index() == thread);
        for thread in 0..trace.tables.thread_count() {
            for event in own(thread).next().into_iter().chain(own(thread).next_back()) {
                if !numbers.contains(&EventId::new(event)) {
                    return Err(format!("{event} is the first or last of its thread"));
                }
            }
        }
        for (event, op) in trace.events.ops().iter().enumerate() {
            if !op.is_access() && !numbers.contains(&EventId::new(event)) {
                return Err(format!("{event} is no access"));
            }
        }
        for (here, &number) in numbers.iter().enumerate() {
            let (mut new, mut old) = (condensed.trace.event(EventId::new(here)), trace.event(number));
            if new.op == Op::Wake {
                let notify = |aux: u32, of: &dyn Fn(u32) -> u32| aux.checked_sub(1).map(of);
                let there = notify(new.aux, &|event| condensed.original(EventId(event)).0);
                if there != notify(old.aux, &|event| event) {
                    return Err(format!("{number:?} names another notify"));
                }
                (new.aux, old.aux) = (0, 0);
            }
            if new != old {
                return Err(format!("{number:?} was {old:?}, is {new:?}"));
            }
        }
        Ok(())
    });
}

/// A trace in Snag's text format.
fn text(lines: &str) -> Trace {
    let reader = snag_formats::read_from(std::io::Cursor::new(lines.to_owned()), None, None).expect("it can be read");
    reader.read_all().expect("well formed").0
}

fn left(lines: &str) -> Vec<u32> {
    let condensed = Condensed::of(&text(lines)).expect("there are no expressions");
    (0..condensed.trace.len()).map(|event| condensed.original(EventId::new(event)).0).collect()
}

#[test]
fn what_is_handed_on_by_fork_and_join_is_private_and_what_locks_protect_is_not() {
    let by_join =
        "%snag 1\nA|begin|\nA|w(x)|\nA|fork(B)|\nB|begin|\nB|w(x)|\nB|r(x)|\nB|end|\nA|join(B)|\nA|r(x)|\nA|end|\n";
    assert_eq!(left(by_join), [0, 2, 3, 6, 7, 9]);
    let by_lock =
        "%snag 1\nA|begin|\nB|begin|\nA|acq(l)|\nA|w(x)|\nA|rel(l)|\nB|acq(l)|\nB|r(x)|\nB|rel(l)|\nA|end|\nB|end|\n";
    assert_eq!(left(by_lock).len(), 10);
    let read_only = "%snag 1\nA|begin|\nB|begin|\nA|r(x)|\nB|r(x)|\nA|end|\nB|end|\n";
    assert_eq!(left(read_only), [0, 1, 4, 5]);
}

#[test]
fn bytes_count_not_names() {
    let apart = "%snag 1\nA|begin|\nB|begin|\nA|w(0x10:4)|\nB|w(0x14:4)|\nA|end|\nB|end|\n";
    assert_eq!(left(apart), [0, 1, 4, 5]);
    let overlapping = "%snag 1\nA|begin|\nB|begin|\nA|w(0x10:8)|\nB|w(0x14:4)|\nA|w(0x10:2)|\nA|end|\nB|end|\n";
    // The first two bytes are private although a shared access covers them.
    assert_eq!(left(overlapping), [0, 1, 2, 3, 5, 6]);
}

#[test]
fn an_access_that_alone_brings_its_thread_behind_the_alloc_is_kept() {
    let lines = "%snag 1\nA|begin|\nB|begin|\nA|alloc(0x100:16)|\nB|w(0x100:8)|\nB|w(0x108:8)|\nB|w(0x108:8)|\nA|end|\nB|end|\n";
    assert_eq!(left(lines), [0, 1, 2, 3, 6, 7]);
    let freed = "%snag 1\nA|begin|\nB|begin|\nA|alloc(0x100:16)|\nA|w(0x100:8)|\nB|free(0x100:16)|\nA|end|\nB|end|\n";
    assert_eq!(left(freed).len(), 7);
}

#[test]
fn what_a_missing_method_of_another_thread_could_reach_is_not_private() {
    let lines = "%snag 1\nA|begin|\nB|begin|\nA|w(x)|\nA|w(y)|\nB|method-begin(m,{x})|\nB|w(z)|\nB|method-end(m)|\nA|end|\nB|end|\n";
    // y is private; z as well, but it lies inside the call.
    assert_eq!(left(lines), [0, 1, 2, 4, 5, 6, 7, 8]);
}

#[test]
fn memory_that_calls_of_two_threads_could_reach_is_not_private_to_the_two() {
    let lines = "%snag 1\nT1|w(0x1000:2)|\nT1|fork(T3)|\nT3|method-begin(m1,{0x1000:2})|\nT3|method-end(m1)|\nT1|method-begin(m2,{0x1000:2})|\nT3|w(0x1002:8)|\nT3|r(0x1000:2)|\nT1|r(0x1002:8)|\nT3|r(0x1000:2)|\n";
    assert_eq!(left(lines).len(), 9);
}
