//! The analysis of streams: whatever it hands out is a race of the whole trace, however small its window is.

use snag_oracle::{Rng, Shape, for_random_traces};
use snag_predict::online::Online;
use snag_schedule::{Checker, Level, Schedule};
use snag_trace::{Cells, Events, Trace};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Follows a trace in blocks; the number of races.
fn follow(trace: &Trace, window: usize, block: usize) -> Result<u64, String> {
    let cells = Cells::of(trace);
    let checker = Checker::new(trace, &cells);
    let mut online = Online::new(window, 10_000);
    let (mut tables, mut done) = (trace.tables.clone(), 0);
    let proved = Cell::new(0);
    let judge = |races: Vec<snag_predict::online::Race>| {
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
