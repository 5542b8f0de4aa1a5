//! What strategy II claims it can show: a schedule that the checker accepts. Traces are without reads, as what is read does not
//! matter to the searches, and without heap blocks.

use snag_checker::Checker;
use snag_engines::lock_history::races::{Settings, of_trace};
use snag_engines::lock_history::{Observer, Reach, Strategy};
use snag_model::Level;
use snag_model::{Cells, EventId, Events, Op, ThreadId, Trace};
use snag_testkit::random::Weights;
use snag_testkit::{Rng, Shape, for_random_traces};

fn shape(rng: &mut Rng) -> Shape {
    let meetings = Shape::meetings(rng);
    Shape {
        threads: rng.between(2, 5),
        events: rng.between(20, 60),
        locks: rng.between(1, 5),
        weights: Weights {
            read_locks: rng.pick(&[0, 0, 6]),
            semaphores: rng.pick(&[0, 0, 3]),
            barriers: rng.pick(&[0, 0, 3]),
            ..meetings.weights
        },
        ..meetings
    }
}

/// The same trace with writes instead of reads.
fn without_reads(trace: &Trace) -> Trace {
    let mut events = Events::new();
    for mut event in trace.events.iter() {
        if event.op == Op::Read {
            event.op = Op::Write;
        }
        events.push(event);
    }
    Trace { events, ..trace.clone() }
}

fn events_of(trace: &Trace, thread: ThreadId, from: EventId, to: EventId) -> Vec<EventId> {
    let threads = trace.events.threads();
    (from.index()..to.index()).filter(|&event| threads[event] == thread).map(EventId::new).collect()
}

#[test]
fn whatever_strategy_two_claims_has_a_schedule() {
    for_random_traces(0..8_000, shape, |trace| {
        let trace = without_reads(trace);
        let cells = Cells::of(&trace);
        let checker = Checker::new(&trace, &cells);
        let mut reach = Reach::new(Observer::new(Strategy::Two, Some(&trace)), Strategy::Two, true);
        let mut accesses = Vec::new();
        for (number, event) in trace.events.iter().enumerate() {
            let number = EventId::new(number);
            reach.observer.observe(number, &event, &trace.tables);
            if event.op != Op::Write {
                continue;
            }
            let at = reach.at(number, event.thread);
            for &(earlier, variable) in &accesses {
                let earlier: snag_engines::lock_history::At = earlier;
                if earlier.thread == at.thread || !reach.passes_basic_checks(&earlier, &at) {
                    continue;
                }
                if variable == event.target && reach.reaches(&earlier, &at) {
                    let pair = format!("{:?} and {number:?}", earlier.event);
                    let schedule = reach.schedule(&earlier, &at, &mut |t, a, b| events_of(&trace, t, a, b));
                    let schedule = schedule.ok_or_else(|| format!("no schedule for {pair}"))?;
                    checker
                        .check_race(schedule.iter(&trace), earlier.event, number, Level::Writer)
                        .map_err(|violation| format!("{pair}: {violation}"))?;
                }
            }
            accesses.push((at, event.target));
        }
        Ok(())
    });
}

/// Whether shortcuts are taken or not, strategy I finds the same pairs, and strategy II no fewer.
#[test]
fn shortcuts_lose_nothing() {
    for_random_traces(0..8_000, shape, |trace| {
        let cells = Cells::of(trace);
        let found = |strategy, shortcuts| {
            let settings = Settings { all_pairs: true, shortcuts, ..Settings::of(strategy) };
            let races = of_trace(trace, &cells, settings, None, &mut |_, _| true);
            races.found.iter().map(|found| [found.first.event, found.second.event]).collect::<Vec<_>>()
        };
        if found(Strategy::One, true) != found(Strategy::One, false) {
            return Err("strategy I finds other pairs with shortcuts".to_owned());
        }
        let with = found(Strategy::Two, true);
        match found(Strategy::Two, false).iter().find(|pair| !with.contains(pair)) {
            Some(pair) => Err(format!("strategy II does not find {pair:?} with shortcuts")),
            None => Ok(()),
        }
    });
}
