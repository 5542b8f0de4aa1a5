//! Traces that once broke an engine, each named after what broke.

use snag_engines::happens_before::{Limits, Order, Racing, Variant, pairs, take_schedules, warnings};
use snag_formats::TraceReader;
use snag_formats::text_format::TextReader;
use snag_model::{Cells, Trace};
use snag_synthesis::generate::{Generator, Shape};

fn trace(lines: &str) -> Trace {
    let text = format!("%snag 1\n{lines}\n");
    let reader = TextReader::new(std::io::Cursor::new(text.into_bytes()));
    TraceReader::new(Box::new(reader), None).read_all().expect("well formed").0
}

fn named(trace: &Trace, order: Order) -> Racing {
    let cells = Cells::of(trace);
    let found = warnings(trace, &cells, order, Variant::Epochs, None, &mut |_| true);
    let limits = Limits { all_pairs: true, ..Limits::default() };
    let mut found = pairs(trace, &cells, order, &found, None, limits, &mut |_| true);
    take_schedules(trace, &cells, &mut found, &mut |_| true);
    found
}

fn races(lines: &str, order: Order) -> Vec<(u32, u32)> {
    named(&trace(lines), order).pairs.iter().map(|p| (p.first.0, p.second.0)).collect()
}

/// Cell by cell, the first cell was published before the second had joined what
/// it races with; later joins then took the event for known and missed the rest.
#[test]
fn what_an_access_to_several_cells_learns_is_published_for_all_of_them() {
    let lines = "T5|r(0x1002:1)|\nT4|w(0x1000:8)|\nT2|w(0x1000:8)|\nT5|r(0x1002:1)|\nT2|w(0x1002:1)|";
    assert!(!races(lines, Order::Fhb).contains(&(0, 4)));
}

/// Two atomics never race, so forcing races into an order forgot what a relaxed read saw.
#[test]
fn fhb_orders_an_atomic_read_after_the_relaxed_write_it_sees() {
    let lines = "T1|atomic-w(y,relaxed)|\nT3|atomic-r(y,seq_cst)|\nT3|w(y)|";
    assert_eq!(races(lines, Order::Fhb), []);
    assert_eq!(races(lines, Order::Shb), []);
    assert_eq!(races(lines, Order::Hb), [(0, 2)]);
}

/// A block that nothing accesses has no cell, and its free was not ordered after its alloc.
#[test]
fn a_free_comes_after_the_alloc_of_a_block_that_nobody_used() {
    let lines = "T2|r(x)|\nT2|alloc(0x1000:16)|\nT1|free(0x1000:16)|\nT1|w(x)|";
    assert_eq!(races(lines, Order::Shb), []);
}

/// Overlap is not transitive: reaching one byte of a larger object is not reaching all of it.
#[test]
fn a_missing_method_reaches_only_its_own_bytes() {
    let lines = "T3|w(0x1006:2)|\nT1|method-begin(m,{0x1001:1})|\nT1|w(0x1006:2)|\nT1|method-end(m)|\n\
                 T1|method-begin(n,{0x1000:8})|\nT1|method-end(n)|";
    assert_eq!(races(lines, Order::Hb), [(0, 2)]);
    let lines = "T3|w(0x1006:2)|\nT1|method-begin(n,{0x1000:8})|\nT1|w(0x1006:2)|";
    assert_eq!(races(lines, Order::Hb), []);
}

/// A thread without events still ends after its fork.
#[test]
fn a_join_comes_after_the_fork_of_a_thread_that_did_nothing() {
    let lines = "T2|w(x)|\nT2|fork(T3)|\nT1|join(T3)|\nT1|w(x)|";
    assert_eq!(races(lines, Order::Hb), []);
}

/// Ten thousand threads one after the other need few clock components, and lose no race.
#[test]
fn slots_of_joined_threads_are_taken_over() {
    let mut lines = String::from("M|w(x)|init");
    for t in 0..10_000 {
        lines += &format!("\nM|fork(W{t})|\nW{t}|w(x)|work\nW{t}|w(y{t})|\nM|join(W{t})|");
    }
    lines += "\nS|r(x)|stranger";
    let trace = trace(&lines);
    let cells = Cells::of(&trace);
    let found = warnings(&trace, &cells, Order::Shb, Variant::Epochs, None, &mut |_| true);
    assert_eq!(found.events.len(), 1);
    assert!(found.memory < 4 << 20, "{} bytes", found.memory);
    assert_eq!(named(&trace, Order::Shb).pairs.len(), 10_001);
}

/// Rows that nothing refers to are collected, so that memory does not grow with the trace.
#[test]
fn memory_does_not_grow_with_the_length_of_the_trace() {
    let memory = |events: usize| {
        let shape = Shape { events, threads: 64, locks: 64, variables: 2000, ..Shape::default() };
        let (trace, _) = TraceReader::new(Box::new(Generator::new(shape)), None).read_all().unwrap();
        let cells = Cells::of(&trace);
        warnings(&trace, &cells, Order::Shb, Variant::Epochs, None, &mut |_| true).memory
    };
    let (short, long) = (memory(200_000), memory(1_600_000));
    assert!(long < 2 * short, "{short} bytes, then {long}");
}

/// Two threads had held the lock at once, against the rules, and who gave it back last seemed to be who had held it.
#[test]
fn an_attempt_after_a_broken_rule_is_not_taken_for_impossible() {
    use snag_engines::maximal::{Answer, Index, Limits, Queries};
    use snag_model::{EventId, Level};
    let lines = "T1|acq(l)|\nT1|rel(l)|\nT2|acq(l)|\nT2|rel(l)|\nT1|r(x)|\nT1|acq(l)|\nT2|tryfail(l)|\nT2|w(x)|";
    let trace = trace(lines);
    let cells = Cells::of(&trace);
    let index = Index::new(&trace, &cells, Level::Writer);
    let (answer, _) = Queries::new(&index, Limits::default()).ask(&[EventId(4), EventId(7)]);
    assert!(matches!(answer, Answer::Possible(_)), "{answer:?}");
}
