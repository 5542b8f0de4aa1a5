//! Measures lock histories: what they cost on top of happens-before and locksets on the same stream, how that grows, and what
//! incremental searches save.
//!
//! `cargo run --release -p snag-bench --bin histories -- [--most EVENTS] [--runs N] [--table 1|2|3]`

use snag_engines::lock_history::Strategy;
use snag_engines::lock_history::races::{Depth, Races, Settings, of_trace};
use snag_formats::Format;
use snag_formats::reader::TraceReader;
use snag_formats::std_format::StdWriter;
use snag_model::{Cells, Events, Op, Trace};
use snag_synthesis::generate::{Generator, Shape};
use std::io::Cursor;
use std::time::Instant;

fn main() {
    let (mut most, mut runs, mut table) = (10_000_000, 5, 0);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--most" => most = value.parse().expect("--most needs a number"),
            "--runs" => runs = value.parse().expect("--runs needs a number"),
            "--table" => table = value.parse().expect("--table needs a number"),
            other => panic!("unknown option {other}"),
        }
    }
    let wanted = |number: usize| table == 0 || table == number;
    if wanted(1) {
        overhead(runs);
    }
    if wanted(2) {
        growth(most, runs);
    }
    if wanted(3) {
        incremental();
    }
}

fn trace(shape: Shape) -> Trace {
    TraceReader::new(Box::new(Generator::new(shape)), None).read_all().expect("generated traces are well formed").0
}

/// Some accesses of a trace, as many as are wanted, all through it; and all its other events.
fn with_accesses(trace: Trace, wanted: usize) -> Trace {
    let all = trace.events.iter().filter(|event| event.op.touches_memory()).count();
    let (mut seen, mut events) = (0, Events::new());
    for event in trace.events.iter() {
        if event.op.touches_memory() {
            seen += 1;
            if seen * wanted.min(all) / all == (seen - 1) * wanted.min(all) / all {
                continue;
            }
        }
        events.push(event);
    }
    Trace { events, ..trace }
}

/// Traces like those of the paper's Table V: threads, shared accesses, lock events, variables, locks, and pairs of accesses that
/// happens-before and locksets leave, about as there (its first row of each program).
fn table_v() -> Vec<(&'static str, Trace)> {
    let like = |threads, (events, accesses), variables, locks, section, nesting, racy| {
        let shape = Shape { threads, events, locks, variables, section, nesting, racy, ..Shape::default() };
        with_accesses(trace(Shape { locations: 200, ..shape }), accesses)
    };
    vec![
        ("account", like(12, (45_000, 389), 53, 26, 1, 1, 0.22)),
        ("aget", like(6, (740, 350), 28, 5, 1, 1, 0.95)),
        ("alsa", like(6, (6_700, 4_000), 581, 35, 1, 2, 0.027)),
        ("bzip", like(4, (507_100, 507_000), 361_000, 5, 15_000, 1, 0.0028)),
        ("elevator", like(4, (46_000, 433), 43, 20, 1, 1, 0.09)),
        ("tsp", like(6, (159_000, 141_000), 27_000, 23, 5, 1, 0.0046)),
    ]
}

fn pass(trace: &Trace, cells: &Cells, strategy: Strategy, depth: Depth) -> (f64, Races) {
    let started = Instant::now();
    let settings = Settings { depth, ..Settings::of(strategy) };
    let races = of_trace(trace, cells, settings, None, &mut |_, _| true);
    (started.elapsed().as_secs_f64(), races)
}

const SEARCH: Depth = Depth::Search { incremental: true };

/// The fastest of several runs of each, in turn, so that whatever else the machine does meets all alike.
fn fastest<const N: usize>(runs: usize, mut measure: impl FnMut(usize) -> f64) -> [f64; N] {
    let mut best = [f64::MAX; N];
    for _ in 0..runs {
        for (which, best) in best.iter_mut().enumerate() {
            *best = best.min(measure(which));
        }
    }
    best
}

fn overhead(runs: usize) {
    println!(
        "| trace | threads | accesses | lock events | pairs left | reading, ms | HB + lockset, ms | with I, ms | with II, ms | I costs | II costs | location pairs: HB + lockset, I, II | questions, calls of I | of II |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, trace) in table_v() {
        let cells = Cells::of(&trace);
        let text = written(&trace);
        let accesses = trace.events.iter().filter(|event| event.op.touches_memory()).count();
        let locks = trace.events.iter().filter(|event| matches!(event.op, Op::Acquire | Op::Release)).count();
        let settings = Settings { depth: Depth::Basic, all_pairs: true, ..Settings::of(Strategy::One) };
        let left = of_trace(&trace, &cells, settings, None, &mut |_, _| true).found.len();
        let mut searches = [String::new(), String::new(), String::new()];
        let mut pairs = [0; 3];
        let mut measure = |which: usize| match which {
            0 => reading(&text),
            _ => {
                let strategy = if which == 3 { Strategy::Two } else { Strategy::One };
                let depth = if which == 1 { Depth::Basic } else { SEARCH };
                let (seconds, races) = pass(&trace, &cells, strategy, depth);
                pairs[which - 1] = races.found.len();
                searches[which - 1] = format!("{}, {}", races.statistics().queries, races.statistics().calls);
                seconds
            }
        };
        // Short traces are gone through more often. What comes before leaves memory in another order behind, so that each
        // measurement comes after the same thing.
        let seconds = fastest::<4>(runs * (1_000_000 / trace.len()).max(1), |which| {
            measure(which);
            measure(which)
        });
        let [read, basic, one, two] = seconds;
        let [costs_one, costs_two] =
            [one, two].map(|with| format!("{:+.1} %", 100.0 * (with - basic) / (read + basic)));
        let [read, basic, one, two] = seconds.map(|seconds| format!("{:.3}", 1e3 * seconds));
        println!(
            "| {name} | {} | {accesses} | {locks} | {left} | {read} | {basic} | {one} | {two} | {costs_one} | {costs_two} | {pairs:?} | {} | {} |",
            trace.tables.thread_count(),
            searches[1],
            searches[2],
        );
    }
}

/// The trace as text, as it would come through a pipe.
fn written(trace: &Trace) -> Vec<u8> {
    let mut writer = StdWriter::new(Vec::new());
    writer.write(&trace.events, &trace.tables).expect("memory takes it");
    writer.finish(&trace.tables).expect("memory takes it")
}

fn reading(text: &[u8]) -> f64 {
    let started = Instant::now();
    let mut reader = snag_formats::read_from(Cursor::new(text.to_vec()), Some(Format::Std), None).expect("it is STD");
    let mut block = Events::new();
    while reader.next_block(&mut block).expect("it is well formed") {}
    started.elapsed().as_secs_f64()
}

fn growth(most: usize, runs: usize) {
    println!(
        "\n| events | HB + lockset, ns/event | with I | with II | calls of II | II against a tenth of the events |"
    );
    println!("|---|---|---|---|---|---|");
    let mut before = None;
    for events in [100_000, 1_000_000, 10_000_000].into_iter().filter(|&events| events <= most) {
        let trace = trace(Shape { events, ..Shape::default() });
        let cells = Cells::of(&trace);
        let mut calls = 0;
        let seconds = fastest::<3>(if events > 1_000_000 { runs.min(2) } else { runs }, |which| {
            let strategy = if which == 2 { Strategy::Two } else { Strategy::One };
            let (seconds, races) = pass(&trace, &cells, strategy, if which == 0 { Depth::Basic } else { SEARCH });
            calls = races.statistics().calls;
            seconds
        });
        let [basic, one, two] = seconds.map(|seconds| 1e9 * seconds / trace.len() as f64);
        let grown = before.map_or(String::new(), |before: f64| format!("{:.2}", two / before));
        before = Some(two);
        println!("| {events} | {basic:.0} | {one:.0} | {two:.0} | {calls} | {grown} |");
    }
}

/// Shapes like those of the paper's Table VI: threads, accesses and lock events about as there, and as many pairs to ask about.
fn table_vi() -> Vec<(&'static str, Shape)> {
    let shape = |threads, events, locks, section, nesting, racy| Shape {
        threads,
        events,
        locks,
        section,
        nesting,
        racy,
        variables: 10 * locks,
        ..Shape::default()
    };
    vec![
        ("account: 12 threads, 17 K lock events", shape(12, 20_000, 10, 1, 1, 0.01)),
        ("aget: 11 threads, 400 lock events", shape(11, 1_600, 2, 4, 1, 0.3)),
        ("alsa: 6 threads, 2.8 K lock events", shape(6, 30_000, 45, 20, 2, 0.01)),
        ("elevator: 4 threads, 18 K lock events", shape(4, 20_000, 20, 1, 1, 0.005)),
        ("proz: 13 threads, 1.3 K lock events", shape(13, 1_800, 14, 1, 2, 0.2)),
        ("tsp: 6 threads, 18 K lock events", shape(6, 160_000, 3, 16, 1, 0.002)),
        ("4 threads, 1 K lock events, overlapping", shape(4, 4_000, 6, 4, 2, 0.3)),
    ]
}

/// All pairs of events, so that histories overlap, and every one put to a search, also those that need none.
fn incremental() {
    println!(
        "\n| trace | strategy | queries | potential calls | calls | % | both | LCC | RC | calls, not incremental | times fewer |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, shape) in table_vi() {
        let trace = trace(shape);
        let cells = Cells::of(&trace);
        for strategy in [Strategy::One, Strategy::Two] {
            let [with, without] = [true, false].map(|incremental| {
                let depth = Depth::Search { incremental };
                let settings = Settings { shortcuts: false, ..Settings::of(strategy) };
                let settings = Settings { depth, all_pairs: true, pairs: 20_000, ..settings };
                of_trace(&trace, &cells, settings, None, &mut |_, _| true).statistics()
            });
            println!(
                "| {name} | {strategy:?} | {} | {} | {} | {:.3} | {} | {} | {} | {} | {:.1} |",
                with.queries,
                with.potential,
                with.calls,
                100.0 * with.calls as f64 / with.potential.max(1) as f64,
                with.both,
                with.lcc,
                with.rc,
                without.calls,
                without.calls as f64 / with.calls.max(1) as f64
            );
        }
    }
}
