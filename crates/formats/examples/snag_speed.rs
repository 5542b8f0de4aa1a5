//! How fast `.snag` is decoded and how much room it takes: `cargo run --release -p snag-formats --example snag_speed`.
//! Reads from memory, with checksums, without and with validation; the best of several runs counts.

use snag_formats::snag_format::{SnagReader, SnagWriter};
use snag_formats::{BlockReader, TraceReader};
use snag_model::{Events, Op, Tables, Trace};
use snag_synthesis::generate::{Generator, Shape};
use std::io::Cursor;
use std::time::Instant;

fn main() {
    let events = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(4_000_000);
    let few = Shape { events, ..Shape::default() };
    let many = Shape { threads: 64, locks: 256, variables: 11_000, locations: 3_000, ..few.clone() };
    let values = Shape { values: true, ..few.clone() };
    println!("M events/s {:>50} {:>10} {:>10}", "decoded", "validated", "written");
    let generated = |shape| TraceReader::new(Box::new(Generator::new(shape)), None).read_all().expect("well formed").0;
    let traces = [
        ("few variables", generated(few)),
        ("many variables", generated(many)),
        ("few variables, values", generated(values)),
        ("loop over an array", loops(events)),
    ];
    for (name, trace) in traces {
        for compress in [false, true] {
            let start = Instant::now();
            let mut writer = SnagWriter::new(Vec::new(), compress);
            writer.write(&trace.events, &trace.tables).expect("written");
            let bytes = writer.finish(&trace.tables).expect("written");
            let written = trace.len() as f64 / start.elapsed().as_secs_f64() / 1e6;
            let size = bytes.len() as f64 / trace.len() as f64;
            let mut input = Cursor::new(bytes);
            let best = (0..40).map(|_| decode(&mut input)).fold(f64::MAX, f64::min);
            let validated = (0..10).map(|_| validate(input.get_ref())).fold(f64::MAX, f64::min);
            let speed = |seconds: f64| trace.len() as f64 / seconds / 1e6;
            let stored = if compress { "LZ4" } else { "plain" };
            let (best, validated) = (speed(best), speed(validated));
            println!("{name:22} {stored:6} {size:5.2} bytes/event {best:>15.0} {validated:>10.0} {written:>10.0}");
        }
    }
}

/// Four threads that take turns to go over an array of their own, as recorded programs do most of the time.
fn loops(events: usize) -> Trace {
    let mut trace = Trace::default();
    let Trace { tables, events: all } = &mut trace;
    let threads: Vec<_> = (0..4).map(|t| tables.thread(&format!("T{t}"))).collect();
    let locations: Vec<_> = (0..3).map(|l| tables.location(&format!("loop.c:{l}"))).collect();
    let cells: Vec<_> = (0..4000).map(|i| tables.variable_range(0x7f00_0000 + 8 * i, 8).0).collect();
    for i in 0..events {
        let thread = i / 10_000 % 4;
        let cell = thread * 1000 + i / 3 % 1000;
        let op = [Op::Read, Op::Read, Op::Write][i % 3];
        all.push_plain(threads[thread], op, cells[if i % 3 == 0 { thread } else { cell }], locations[i % 3]);
    }
    trace
}

/// Seconds to decode everything, block by block into the same memory.
fn decode(input: &mut Cursor<Vec<u8>>) -> f64 {
    input.set_position(0);
    let start = Instant::now();
    let (mut tables, mut events) = (Tables::new(), Events::new());
    let mut reader = SnagReader::new(input);
    let mut count = 0;
    loop {
        events.restart(count);
        if !reader.read_block(&mut tables, &mut events).expect("sound") {
            return start.elapsed().as_secs_f64();
        }
        count += events.len();
    }
}

/// Seconds to decode and validate everything, block by block into the same memory.
fn validate(bytes: &[u8]) -> f64 {
    let input = Cursor::new(bytes.to_vec());
    let start = Instant::now();
    let mut reader = TraceReader::new(Box::new(SnagReader::new(input)), None);
    let mut events = Events::new();
    while reader.next_block(&mut events).expect("sound") {}
    start.elapsed().as_secs_f64()
}
