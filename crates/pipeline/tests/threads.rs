//! Runs with very many threads: memory grows with the events, not with the square of the threads.
//!
//! One test alone, because it looks at the memory of the whole process.

use snag_engines::{FHB, HB, SHB_VC};
use snag_formats::TraceReader;
use snag_formats::std_format::StdReader;
use snag_model::Trace;
use snag_pipeline::{Options, Quiet, analyse, peak_memory};
use std::fmt::Write;
use std::ops::Range;

const THREADS: usize = 6_000;

/// Writes the lines of a trace.
type Shape = fn(&mut String);

/// What every thread does: counts under a lock.
fn count(text: &mut String, thread: usize) {
    write!(text, "T{thread}|acq(l)|2\nT{thread}|r(x)|3\nT{thread}|w(x)|4\nT{thread}|rel(l)|5\n").unwrap();
}

fn fork(text: &mut String, parent: &str, child: usize) {
    writeln!(text, "{parent}|fork(T{child})|1").unwrap();
}

fn join(text: &mut String, parent: &str, child: usize) {
    writeln!(text, "{parent}|join(T{child})|6").unwrap();
}

fn at_once(text: &mut String, threads: Range<usize>) {
    threads.clone().for_each(|thread| fork(text, "M", thread));
    threads.clone().for_each(|thread| count(text, thread));
    threads.for_each(|thread| join(text, "M", thread));
}

/// Threads that live one after the other.
fn one_by_one(text: &mut String) {
    (0..THREADS).for_each(|thread| at_once(text, thread..thread + 1));
}

fn in_batches(text: &mut String) {
    (0..THREADS / 64).for_each(|batch| at_once(text, 64 * batch..64 * batch + 64));
}

/// Beside a few that live all the time.
fn beside_a_pool(text: &mut String) {
    (THREADS..THREADS + 8).for_each(|worker| fork(text, "M", worker));
    for thread in 0..THREADS {
        count(text, THREADS + thread % 8);
        at_once(text, thread..thread + 1);
    }
}

/// Nobody joins them; the lock alone orders them.
fn detached(text: &mut String) {
    for thread in 0..THREADS {
        fork(text, "M", thread);
        count(text, thread);
    }
}

/// Each forks the next one and ends, or waits for it.
fn chain(text: &mut String, joined: bool) {
    for thread in 0..THREADS {
        count(text, thread);
        fork(text, &format!("T{thread}"), thread + 1);
    }
    for thread in (0..THREADS).rev().filter(|_| joined) {
        join(text, &format!("T{thread}"), thread + 1);
    }
}

/// Forked by nobody.
fn unrelated(text: &mut String) {
    (0..THREADS).for_each(|thread| count(text, thread));
}

/// Most have no events.
fn silent(text: &mut String) {
    (0..2 * THREADS).for_each(|thread| fork(text, "M", thread));
    (0..35).for_each(|thread| count(text, thread));
    (0..2 * THREADS).for_each(|thread| join(text, "M", thread));
}

fn trace(shape: Shape) -> Trace {
    let mut text = String::new();
    shape(&mut text);
    text.push_str("A|w(y)|7\nB|w(y)|8\n");
    TraceReader::new(Box::new(StdReader::new(std::io::Cursor::new(text))), None).read_all().expect("well formed").0
}

#[test]
fn memory_does_not_grow_with_the_square_of_the_threads() {
    let shapes: [(&str, Shape); 8] = [
        ("one by one", one_by_one),
        ("in batches", in_batches),
        ("beside a pool", beside_a_pool),
        ("detached", detached),
        ("chain", |text| chain(text, false)),
        ("joined chain", |text| chain(text, true)),
        ("unrelated", unrelated),
        ("silent", silent),
    ];
    for (name, shape) in shapes {
        let trace = trace(shape);
        // With and without what comes before the engines for long traces.
        for condense_from in [0, usize::MAX] {
            let options = Options { condense_from, ..Options::default() };
            let found = analyse(&trace, &options, &Quiet);
            let races: Vec<(u32, u32)> = found.races.iter().map(|race| (race.first.0, race.second.0)).collect();
            let last = trace.len() as u32;
            assert_eq!(races, [(last - 2, last - 1)], "{name}");
            assert!(found.engines.iter().all(|report| report.complete), "{name}");
        }
        for engine in [HB, FHB, SHB_VC] {
            let found = analyse(&trace, &Options { engines: vec![engine.into()], ..Options::default() }, &Quiet);
            assert_eq!(found.races.len(), 1, "{name}, {}", engine.name());
        }
        let megabytes = peak_memory() >> 20;
        assert!(megabytes < 200, "{name}: {megabytes} MB");
    }
}
