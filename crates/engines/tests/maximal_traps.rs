//! What other predictors get wrong, one test each. Events count from 0.

use snag_checker::Checker;
use snag_engines::maximal::{Answer, Index, Limits, Queries};
use snag_formats::TraceReader;
use snag_formats::text_format::TextReader;
use snag_model::Level;
use snag_model::{Cells, EventId, Trace};

fn trace(text: &str) -> Trace {
    let text = format!("%snag 1\n{}", text.trim_start());
    TraceReader::new(Box::new(TextReader::new(std::io::Cursor::new(text))), None).read_all().expect("well formed").0
}

/// Whether a pair is a race; the schedule is checked, and search alone must agree with the quick stages. So must Z3.
fn is_race(trace: &Trace, first: u32, second: u32, level: Level) -> bool {
    let cells = Cells::of(trace);
    let index = Index::new(trace, &cells, level);
    let pair = [EventId(first), EventId(second)];
    let ways = [
        Limits::default(),
        Limits { search_only: true, ..Limits::default() },
        Limits { local: Some(&[1, 3, 6]), ..Limits::default() },
        #[cfg(feature = "z3")]
        Limits { backend: snag_engines::maximal::Backend::Z3, ..Limits::default() },
    ];
    let answers = ways.map(|limits| {
        let mut queries = Queries::new(&index, limits);
        match queries.ask(&pair).0 {
            Answer::Possible(schedule) => {
                Checker::new(trace, &cells).check_race(schedule.iter(trace), pair[0], pair[1], level).unwrap();
                true
            }
            Answer::Impossible => false,
            Answer::Unknown(why) => panic!("{why:?}"),
        }
    });
    assert!(answers.iter().all(|&answer| answer == answers[0]), "{answers:?}");
    answers[0]
}

#[test]
fn a_read_whose_writer_was_not_seen_keeps_its_place() {
    // Somebody wrote 7 to x without being observed. Nothing may be moved over the read, so y is safe.
    let unseen = trace(
        "
%init x 0
T1|w(y)=1|
T1|w(x)=1|
T2|r(x)=7|
T2|w(y)=2|
",
    );
    assert!(!is_race(&unseen, 0, 3, Level::Value));
    assert!(is_race(&unseen, 1, 2, Level::Value));
    // What was seen can be explained, and the initial value was never needed.
    let seen = trace(
        "
%init x 7
T1|w(y)=1|
T1|w(x)=7|
T2|r(x)=7|
T2|w(y)=2|
",
    );
    assert!(is_race(&seen, 0, 3, Level::Value));
    assert!(!is_race(&seen, 0, 3, Level::Writer));
}

#[test]
fn a_store_of_eight_bytes_conflicts_with_one_of_four_at_plus_four() {
    let trace = trace(
        "
T1|w(0x1000:8)=1|
T2|w(0x1004:4)=1|
T2|w(0x1008:4)=1|
",
    );
    assert!(is_race(&trace, 0, 1, Level::Writer));
}

#[test]
fn a_value_that_is_read_and_never_branched_on_does_not_bind() {
    let trace = trace(
        "
T1|w(y)=1|
T1|w(x)=1|
T2|r(x)=1|
T2|w(y)=2|
T3|branch|
",
    );
    assert!(!is_race(&trace, 0, 3, Level::Writer));
    assert!(!is_race(&trace, 0, 3, Level::Value));
    assert!(is_race(&trace, 0, 3, Level::Control));
}

#[test]
fn a_value_that_is_branched_on_binds() {
    let trace = trace(
        "
T1|w(y)=1|
T1|w(x)=1|
T2|r(x)=1|
T2|branch|
T2|w(y)=2|
",
    );
    assert!(!is_race(&trace, 0, 4, Level::Control));
}

#[test]
fn publication_by_a_relaxed_flag_orders_values_but_not_the_reader_that_does_not_look() {
    let trace = trace(
        "
T1|w(data)=5|
T1|atomic-w(flag,relaxed)=1|
T2|atomic-r(flag,relaxed)=1|
T2|branch|
T2|r(data)=5|
T3|r(data)=5|
",
    );
    // The flag must have been set for T2 to come to its read.
    assert!(!is_race(&trace, 0, 4, Level::Control));
    assert!(is_race(&trace, 0, 5, Level::Control));
}

#[test]
fn a_condition_variable_orders_what_its_notify_announces() {
    let trace = trace(
        "
T2|acq(m)|
T2|wait-begin(c,m)|
T1|w(x)=1|
T1|acq(m)|
T1|notify(c)|
T1|rel(m)|
T2|wake(c,4)|
T2|wait-end(c,m)|
T2|rel(m)|
T2|r(x)=1|
T1|w(x)=2|
",
    );
    assert!(!is_race(&trace, 2, 9, Level::Control));
    assert!(is_race(&trace, 9, 10, Level::Control));
}

#[test]
fn readers_of_a_lock_do_not_exclude_each_other_but_a_writer() {
    let trace = trace(
        "
T1|racq(l)|
T1|w(x)|
T1|rrel(l)|
T2|racq(l)|
T2|w(x)|
T2|rrel(l)|
T3|acq(l)|
T3|w(x)|
T3|rel(l)|
",
    );
    assert!(is_race(&trace, 1, 4, Level::Writer));
    assert!(!is_race(&trace, 1, 7, Level::Writer));
    assert!(!is_race(&trace, 4, 7, Level::Writer));
}

#[test]
fn a_section_that_is_open_at_the_end_of_the_trace_lets_nobody_in() {
    // T2 could come to its write only through the section that T1 never leaves, or before T1 enters it.
    let before = trace(
        "
T2|acq(l)|
T2|rel(l)|
T2|w(x)|
T1|acq(l)|
T1|w(x)|
",
    );
    assert!(is_race(&before, 2, 4, Level::Writer));
    let after = trace(
        "
T1|w(y)=1|
T2|r(y)=1|
T2|acq(l)|
T2|w(z)|
T2|rel(l)|
T1|acq(l)|
T1|r(z)|
T1|w(x)|
T2|r(x)|
",
    );
    assert!(is_race(&after, 7, 8, Level::Writer));
    let inside = trace(
        "
T1|acq(l)|
T1|w(y)=1|
T2|w(x)|
T2|r(y)=1|
T2|w(x)|
T1|w(x)|
",
    );
    assert!(is_race(&inside, 4, 5, Level::Writer));
}

#[test]
fn a_pair_under_a_common_lock_is_no_race() {
    let trace = trace(
        "
T1|acq(l)|
T1|w(x)|
T1|rel(l)|
T2|acq(l)|
T2|acq(k)|
T2|w(x)|
T2|rel(k)|
T2|rel(l)|
T3|acq(k)|
T3|w(x)|
T3|rel(k)|
",
    );
    assert!(!is_race(&trace, 1, 5, Level::Writer));
    assert!(!is_race(&trace, 5, 9, Level::Writer));
    assert!(is_race(&trace, 1, 9, Level::Writer));
}

#[test]
fn a_join_waits_for_all_that_the_thread_did() {
    let trace = trace(
        "
T1|fork(T2)|
T1|w(x)|
T2|acq(l)|
T2|w(y)|
T2|rel(l)|
T1|join(T2)|
T1|w(y)|
T3|w(y)|
",
    );
    assert!(!is_race(&trace, 3, 6, Level::Writer));
    assert!(is_race(&trace, 3, 7, Level::Writer));
    assert!(is_race(&trace, 6, 7, Level::Writer));
}

#[test]
fn sections_may_swap_where_happens_before_thinks_they_may_not() {
    // The lock is free for T2 first; HB and SHB order the writes of y by the sections.
    let trace = trace(
        "
T1|w(y)|
T1|acq(l)|
T1|rel(l)|
T2|acq(l)|
T2|rel(l)|
T2|w(y)|
",
    );
    assert!(is_race(&trace, 0, 5, Level::Writer));
}

#[test]
fn an_rmw_that_nothing_depends_on_may_see_something_else_at_control() {
    let trace = trace(
        "
T1|rmw(x,acq_rel)=2:1|
T1|w(x)=2|
T4|rmw(x,seq_cst)=2:1|
T4|r(x)=1|
T4|branch|
T4|w(x)|
",
    );
    assert_eq!(
        snag_testkit::search::races(&trace, Level::Control).into_iter().map(|(a, b)| (a.0, b.0)).collect::<Vec<_>>(),
        [(0, 3), (0, 5), (1, 2), (1, 3), (1, 5)]
    );
    assert!(is_race(&trace, 1, 5, Level::Control));
}

#[test]
fn memory_that_must_be_freed_on_the_way_is_not_raced_on() {
    // T3 needs the 1 in y, from T2 after its access or from T1 after it has freed the block.
    let freed = |line: &str| {
        let text = "
T1|alloc(h)|
T2|r(h)|
T2|w(y)=1|
T3|r(y)=1|
T3|w(h)|
T1|free(h)|
T1|w(y)=1|
";
        trace(&text.replace("T1|free(h)|\n", line))
    };
    assert!(!is_race(&freed("T1|free(h)|\n"), 1, 4, Level::Value));
    assert!(is_race(&freed(""), 1, 4, Level::Value));
}

#[test]
fn an_address_in_memory_that_was_allocated_again_is_another_value() {
    // As in a map whose values are boxes: T1 puts one in, T2 takes it out and frees it, and T3's next one happens to lie where it
    // was. T4 takes that out and frees it. It is not what T1 has put in, though that is the same number.
    let slot = |address: u64, size: u64| {
        trace(&format!(
            "
T1|alloc(0x{address:x}:24)|
T1|acq(l)|
T1|w(0x7000:8)={number}|
T1|rel(l)|
T2|acq(l)|
T2|r(0x7000:8)={number}|
T2|w(0x7000:8)=0|
T2|rel(l)|
T2|free(0x{address:x}:24)|
T3|alloc(0x{address:x}:{size})|
T3|w(0x{address:x}:8)=1|
T3|acq(l)|
T3|r(0x7000:8)=0|
T3|w(0x7000:8)={number}|
T3|rel(l)|
T4|acq(l)|
T4|r(0x7000:8)={number}|
T4|w(0x7000:8)=0|
T4|rel(l)|
T4|free(0x{address:x}:{size})|
",
            number = 0x5555_0010
        ))
    };
    for level in [Level::Value, Level::Control] {
        assert!(!is_race(&slot(0x5555_0010, 24), 10, 19, level));
        assert!(!is_race(&slot(0x5555_0000, 32), 10, 19, level));
        // With upper bits, as in recordings of memory that the system has mapped.
        assert!(!is_race(&slot(0x3_0000_5555_0010, 24), 10, 19, level));
        // What is in the slot is no address in that memory.
        assert!(is_race(&slot(0x6666_0000, 24), 10, 19, level));
    }
}

#[test]
fn a_write_that_only_the_beginning_of_the_trace_hides_may_be_seen() {
    // T4's write is as good as T2's second one if it comes after T2's first: only the trace's own beginning speaks against it.
    let moved = trace(
        "
T4|w(0x1004:2)=0|
T2|w(0x1004:2)|
T3|r(0x1004:2)|
T2|w(0x1004:2)=0|
T3|r(0x1002:4)=256|
T3|r(0x1004:2)|
",
    );
    assert!(is_race(&moved, 3, 5, Level::Value));
}
