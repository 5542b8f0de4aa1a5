//! The analysis of streams: whatever it hands out is a race of the whole trace, however small its window is.

use snag_checker::Checker;
use snag_formats::TraceReader;
use snag_model::{Cells, Events, Trace};
use snag_model::{Level, Schedule};
use snag_pipeline::online::Online;
use snag_synthesis::generate::Generator;
use snag_testkit::{Rng, Shape, for_random_traces};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Follows a trace in blocks; the number of races.
fn follow(trace: &Trace, window: usize, block: usize) -> Result<u64, String> {
    let cells = Cells::of(trace);
    let checker = Checker::new(trace, &cells);
    let mut online = Online::new(window, 10_000);
    let (mut tables, mut done) = (trace.tables.clone(), 0);
    let proved = Cell::new(0);
    let judge = |races: Vec<snag_pipeline::online::Race>| {
        for race in races {
            let (first, second) = (race.first.number, race.second.number);
            let witness = Schedule::Continued { as_observed: race.as_observed, then: race.then.clone() };
            checker
                .check_race(witness.iter(trace), first, second, Level::Writer)
                .map_err(|violation| format!("window {window}: {race:?}: {violation}"))?;
            proved.set(proved.get() + 1);
        }
        Ok::<(), String>(())
    };
    while done < trace.len() {
        let mut events = Events::new();
        let end = (done + block).min(trace.len());
        events.extend_from(&trace.events, done..end);
        let mut from = 0;
        while from < events.len() {
            from = online.read(&events, from, &tables);
            judge(online.prove(&mut tables, true))?;
        }
        done = end;
    }
    judge(online.prove(&mut tables, true))?;
    Ok(proved.get())
}

/// Long enough for several windows.
fn long(rng: &mut Rng) -> Shape {
    let shape = Shape::any(rng);
    Shape { events: rng.between(20, 80), ..shape }
}

#[test]
fn what_is_proved_in_a_window_is_proved_in_the_whole_trace() {
    let found = AtomicU64::new(0);
    for_random_traces(0..5_000, long, |trace| {
        let window = 2 + trace.len() % 13;
        found.fetch_add(follow(trace, window, 5)?, Ordering::Relaxed);
        Ok(())
    });
    assert!(found.into_inner() > 1_000);
}

/// Third threads hold locks most of the time, and these stood in the way of searches that start long before.
#[test]
fn a_race_late_in_a_busy_stream_is_found() {
    for seed in 0..4 {
        let shape = snag_synthesis::generate::Shape { events: 60_000, racy: 0.0, seed, ..Default::default() };
        let (generated, _) = TraceReader::new(Box::new(Generator::new(shape)), None).read_all().expect("well formed");
        let mut trace = Trace { tables: generated.tables.clone(), events: Events::new() };
        let variable = trace.tables.variable_named("planted").0;
        for (index, event) in generated.events.iter().enumerate() {
            if index == 50_000 {
                for thread in [1, 2] {
                    let location = trace.tables.location(&format!("planted:{thread}"));
                    let thread = trace.tables.thread(&format!("T{thread}"));
                    let write = snag_model::events::Event::new(thread, snag_model::Op::Write, variable);
                    trace.events.push(snag_model::events::Event { location, ..write });
                }
            }
            trace.events.push(event);
        }
        assert_eq!(follow(&trace, 1 << 14, 1 << 12), Ok(1), "seed {seed}");
    }
}

/// Pairs of events that were proved and that were not, in order, and whether that is all.
type Findings = (Vec<(u32, u32)>, Vec<(u32, u32)>, bool);

/// Follows a trace; `eager` tries to prove whatever is found at once, as if the stream paused after every block.
fn findings(trace: &Trace, window: usize, block: usize, eager: bool) -> Findings {
    let mut online = Online::new(window, 10_000);
    let mut tables = trace.tables.clone();
    let mut proved = Vec::new();
    let mut take = |races: Vec<snag_pipeline::online::Race>| {
        proved.extend(races.iter().map(|race| (race.second.number.0, race.first.number.0)));
    };
    for start in (0..trace.len()).step_by(block) {
        let mut events = Events::new();
        events.extend_from(&trace.events, start..(start + block).min(trace.len()));
        let mut from = 0;
        while from < events.len() {
            from = online.read(&events, from, &tables);
            if online.must_prove() {
                take(online.prove(&mut tables, true));
            } else if eager {
                while online.is_due(true) {
                    take(online.prove(&mut tables, false));
                }
            }
        }
    }
    take(online.prove(&mut tables, true));
    proved.sort_unstable();
    let unproved = online.unproved.keys().map(|(second, first)| (second.0, first.0)).collect();
    (proved, unproved, online.complete)
}

/// Batches went by the clock, and a pair that was refused a few times was forgotten.
#[test]
fn findings_do_not_depend_on_when_they_are_proved() {
    let unproved = AtomicU64::new(0);
    for_random_traces(0..1_000, long, |trace| {
        let window = 2 + trace.len() % 13;
        let (at_once, late) = (findings(trace, window, 1, true), findings(trace, window, trace.len(), false));
        unproved.fetch_add(late.1.len() as u64, Ordering::Relaxed);
        if at_once == late { Ok(()) } else { Err(format!("window {window}: {at_once:?} and {late:?}")) }
    });
    assert!(unproved.into_inner() > 0, "nothing was refused");
}
