//! Traces that once broke an engine, each named after what broke.

use snag_checker::Checker;
use snag_engines::happens_before::{
    Limits, Order, Racing, Sections, Variant, by_memory_order, pairs, take_schedules, warnings,
};
use snag_formats::TraceReader;
use snag_formats::text_format::TextReader;
use snag_model::{Cells, EventId, Level, Schedule, Trace};
use snag_synthesis::generate::{Generator, Shape};
use snag_testkit::reference::order_races;

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

/// Races by memory order; the definition names the same, and the checker accepts them.
fn by_order(lines: &str) -> Vec<(u32, u32)> {
    let trace = trace(lines);
    let cells = Cells::of(&trace);
    let limits = Limits { all_pairs: true, ..Limits::default() };
    let found = by_memory_order(&trace, &cells, Sections::AsObserved, None, limits, &mut |_| true, &mut |_| true).1;
    let found: Vec<(EventId, EventId)> = found.pairs.iter().map(|pair| (pair.first, pair.second)).collect();
    assert_eq!(found, order_races(&trace).into_iter().collect::<Vec<_>>());
    let checker = Checker::new(&trace, &cells);
    for &(first, second) in &found {
        let schedule = Schedule::up_to(second);
        checker.check_order(schedule.iter(&trace), first, second, Level::Writer).expect("a race by memory order");
    }
    found.iter().map(|pair| (pair.0.0, pair.1.0)).collect()
}

/// That an attempt finds a lock held was taken for synchronisation, and nothing was looked for where atomics are strong.
#[test]
fn a_failed_attempt_to_take_a_lock_hands_nothing_on() {
    let tried = |take: &str, attempt: &str| by_order(&format!("T1|w(x)|\nT1|{take}(l)|\nT2|{attempt}(l)|\nT2|r(x)|"));
    assert_eq!(tried("acq", "tryfail"), [(0, 3)]);
    assert_eq!(tried("acq", "rtryfail"), [(0, 3)]);
    assert_eq!(tried("racq", "tryfail"), [(0, 3)]);
    // Whoever takes it in the end has synchronised, however often it has tried before.
    assert_eq!(by_order("T1|w(x)|\nT1|acq(l)|\nT2|tryfail(l)|\nT1|rel(l)|\nT2|acq(l)|\nT2|r(x)|"), []);
    // Nothing is before the attempt but the acquire itself: the race is of the ordinary kind.
    assert_eq!(by_order("T1|acq(l)|\nT1|w(x)|\nT2|tryfail(l)|\nT2|r(x)|"), []);
}

/// The same of an attempt that gave up after it had waited: what is between its begin and its failure hands nothing on.
#[test]
fn a_failed_attempt_beside_a_relaxed_flag_does_not_strengthen_the_flag() {
    let lines = "T1|w(x)|\nT1|acq(l)|\nT1|atomic-w(f,relaxed)|\nT2|atomic-r(f,acquire)|\nT2|tryfail(l)|\nT2|r(x)|";
    assert_eq!(by_order(lines), [(0, 5)]);
    assert_eq!(by_order(&lines.replace("relaxed", "release")), []);
}

/// `sem_getvalue` and `sem_trywait` that fails were taken to come after all that posted or waited.
#[test]
fn a_look_at_the_count_of_a_semaphore_hands_nothing_on() {
    assert_eq!(by_order("T1|w(x)|\nT1|sem-post(s)|\nT2|sem-value(s)=1|\nT2|r(x)|"), [(0, 3)]);
    assert_eq!(by_order("T3|sem-post(s)|\nT1|w(x)|\nT1|sem-wait(s)|\nT2|sem-value(s)=0|\nT2|r(x)|"), [(1, 4)]);
    assert_eq!(by_order("T1|w(x)|\nT1|sem-post(s)|\nT2|sem-value(s)=1|\nT2|sem-wait(s)|\nT2|r(x)|"), []);
}

/// An attempt to join was taken to come after the fork.
#[test]
fn a_failed_attempt_to_join_hands_nothing_on() {
    assert_eq!(by_order("T1|w(x)|\nT1|fork(T3)|\nT2|join-fail(T3)|\nT2|r(x)|\nT3|r(y)|"), [(0, 3)]);
    assert_eq!(by_order("T1|w(x)|\nT1|fork(T3)|\nT3|end|\nT2|join(T3)|\nT2|r(x)|"), []);
}
