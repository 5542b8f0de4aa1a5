//! Every way to break a witness, refused by the rule that it breaks.
//!
//! Beside each broken witness stands one that is right and as close to it as
//! possible, so that nothing is refused for another reason.

mod support;

use snag_schedule::{Checker, ScheduleRule as Rule};
use snag_trace::Cells;
use support::*;

// ---- The sequence of events ----

const TWO_WRITERS: &str = "
    0 A write x
    1 A write y
    2 B write x
    3 B write y";

#[test]
fn program_order_swapped() {
    for level in LEVELS {
        accepted(feasible(TWO_WRITERS, &[2, 0, 1], level));
        refused(feasible(TWO_WRITERS, &[2, 1, 0], level), Rule::ThreadOrder, 1);
    }
}

#[test]
fn first_event_of_a_thread_left_out() {
    refused(feasible(TWO_WRITERS, &[0, 3], Control), Rule::ThreadOrder, 3);
}

#[test]
fn event_twice() {
    refused(feasible(TWO_WRITERS, &[0, 2, 0], Writer), Rule::EventTwice, 0);
    refused(feasible(TWO_WRITERS, &[0, 1, 0], Control), Rule::EventTwice, 0);
    // Also when the thread has run all its events.
    refused(feasible(TWO_WRITERS, &[2, 3, 3], Control), Rule::EventTwice, 3);
}

#[test]
fn event_number_that_does_not_exist() {
    refused(feasible(TWO_WRITERS, &[0, 4], Writer), Rule::UnknownEvent, 4);
    refused(feasible(TWO_WRITERS, &[u32::MAX], Writer), Rule::UnknownEvent, u32::MAX);
}

// ---- Threads ----

const FORK_AND_JOIN: &str = "
    0 M write x
    1 M fork A
    2 A write y
    3 A write z
    4 M join A
    5 M write z
    6 B write z";

#[test]
fn event_of_a_thread_before_its_fork() {
    accepted(feasible(FORK_AND_JOIN, &[0, 1, 2], Writer));
    refused(feasible(FORK_AND_JOIN, &[0, 2], Writer), Rule::NotForked, 2);
    // A later event of such a thread is no better.
    refused(feasible(FORK_AND_JOIN, &[0, 3], Writer), Rule::NotForked, 3);
}

#[test]
fn thread_that_nobody_forks_starts_freely() {
    accepted(feasible(FORK_AND_JOIN, &[6, 0], Writer));
}

#[test]
fn racing_event_of_a_thread_whose_fork_is_missing() {
    let trace = "
        0 M write x
        1 M fork A
        2 A write y
        3 B write y";
    accepted(race(trace, &[0, 1], [2, 3], Writer));
    refused(race(trace, &[0], [2, 3], Writer), Rule::NotForked, 2);
}

#[test]
fn join_before_the_last_event_of_the_thread() {
    accepted(feasible(FORK_AND_JOIN, &[0, 1, 2, 3, 4], Writer));
    refused(feasible(FORK_AND_JOIN, &[0, 1, 2, 4], Writer), Rule::EarlyJoin, 4);
}

#[test]
fn join_before_the_first_event_of_the_thread() {
    refused(feasible(FORK_AND_JOIN, &[0, 1, 4], Writer), Rule::EarlyJoin, 4);
    let joined_elsewhere = "
        0 M fork A
        1 A write x
        2 B join A";
    refused(feasible(joined_elsewhere, &[2], Writer), Rule::EarlyJoin, 2);
}

#[test]
fn join_of_a_thread_without_events_before_its_fork() {
    let trace = "
        0 M fork A
        1 B join A
        2 C join D";
    accepted(feasible(trace, &[0, 1], Writer));
    refused(feasible(trace, &[1], Writer), Rule::EarlyJoin, 1);
    // Nobody forks D and it has no events: nothing to wait for.
    accepted(feasible(trace, &[2], Writer));
}

// ---- Locks ----

const MUTEX: &str = "
    0 A acquire l
    1 A acquire l
    2 A release l
    3 A release l
    4 B acquire l
    5 B write x
    6 B release l";

#[test]
fn lock_held_twice() {
    accepted(feasible(MUTEX, &[4, 5, 6, 0], Writer));
    refused(feasible(MUTEX, &[4, 0], Writer), Rule::LockHeld, 0);
}

#[test]
fn only_the_outermost_release_frees_a_lock() {
    accepted(feasible(MUTEX, &[0, 1, 2, 3, 4], Writer));
    refused(feasible(MUTEX, &[0, 1, 2, 4], Writer), Rule::LockHeld, 4);
}

#[test]
fn release_before_its_acquire() {
    refused(feasible(MUTEX, &[6, 4, 5], Writer), Rule::ThreadOrder, 6);
}

const READER_WRITER: &str = "
    0 A read-acquire l
    1 A read-acquire l
    2 A read-release l
    3 A read-release l
    4 B read-acquire l
    5 B read-release l
    6 C acquire l
    7 C release l";

#[test]
fn reader_while_a_writer_holds_the_lock() {
    accepted(feasible(READER_WRITER, &[6, 7, 4], Writer));
    refused(feasible(READER_WRITER, &[6, 4], Writer), Rule::LockHeld, 4);
}

#[test]
fn writer_while_a_reader_holds_the_lock() {
    accepted(feasible(READER_WRITER, &[0, 4, 1, 5, 2, 3, 6], Writer));
    refused(feasible(READER_WRITER, &[0, 4, 5, 6], Writer), Rule::LockHeld, 6);
    // Read holds count as well.
    refused(feasible(READER_WRITER, &[0, 1, 2, 6], Writer), Rule::LockHeld, 6);
}

const UPGRADE: &str = "
    0 A read-acquire l
    1 A acquire l
    2 A release l
    3 A read-release l
    4 B read-acquire l
    5 B read-release l
    6 C acquire l
    7 C read-acquire l
    8 C release l
    9 C read-release l";

#[test]
fn upgrade_while_another_thread_reads() {
    accepted(feasible(UPGRADE, &[0, 4, 5, 1], Writer));
    refused(feasible(UPGRADE, &[0, 4, 1], Writer), Rule::LockHeld, 1);
}

#[test]
fn downgraded_lock_admits_readers_but_no_writer() {
    accepted(feasible(UPGRADE, &[6, 7, 8, 4], Writer));
    refused(feasible(UPGRADE, &[6, 7, 4], Writer), Rule::LockHeld, 4);
    refused(feasible(UPGRADE, &[0, 6], Writer), Rule::LockHeld, 6);
    refused(feasible(UPGRADE, &[6, 7, 8, 0, 1], Writer), Rule::LockHeld, 1);
}

// ---- Conditions ----

const CONDITION: &str = "
    0 A acquire l
    1 A acquire l
    2 A wait-begin c l
    3 B acquire l
    4 B notify c
    5 B release l
    6 A wake c 4
    7 A wait-end c l
    8 A release l
    9 A release l
    10 C acquire l
    11 C release l
    12 D notify c";

#[test]
fn wake_up_before_its_notify() {
    accepted(feasible(CONDITION, &[0, 1, 2, 3, 4, 6], Writer));
    refused(feasible(CONDITION, &[0, 1, 2, 3, 6], Writer), Rule::WakeBeforeNotify, 6);
    // Another notify of the condition is not the one it names.
    refused(feasible(CONDITION, &[0, 1, 2, 12, 6], Writer), Rule::WakeBeforeNotify, 6);
}

#[test]
fn notify_before_the_wait_began() {
    accepted(feasible(CONDITION, &[3, 4, 5, 0, 1, 2], Writer));
    refused(feasible(CONDITION, &[3, 4, 5, 0, 1, 2, 6], Writer), Rule::NotifyBeforeWait, 6);
}

#[test]
fn wait_end_while_the_lock_is_held() {
    accepted(feasible(CONDITION, &[0, 1, 2, 3, 4, 6, 5, 7], Writer));
    refused(feasible(CONDITION, &[0, 1, 2, 3, 4, 6, 7], Writer), Rule::LockHeld, 7);
}

#[test]
fn wait_begin_gives_the_lock_up_and_wait_end_takes_it_as_often() {
    accepted(feasible(CONDITION, &[0, 1, 2, 10], Writer));
    refused(feasible(CONDITION, &[0, 1, 10], Writer), Rule::LockHeld, 10);
    accepted(feasible(CONDITION, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], Writer));
    refused(feasible(CONDITION, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 10], Writer), Rule::LockHeld, 10);
}

#[test]
fn wake_up_that_names_no_notify_comes_any_time() {
    let trace = "
        0 A acquire l
        1 A wait-begin c l
        2 B notify c
        3 A wake c
        4 A wait-end c l";
    accepted(feasible(trace, &[0, 1, 3, 4], Writer));
    accepted(feasible(trace, &[2, 0, 1, 3], Writer));
}

// ---- Semaphores and barriers ----

#[test]
fn semaphore_below_zero() {
    let trace = "
        declare semaphore s 1
        declare semaphore s 2
        0 A sem-wait s
        1 A sem-post s
        2 B sem-wait s
        3 B sem-post s
        4 C sem-post t
        5 D sem-wait t";
    accepted(feasible(trace, &[2, 3, 0, 4, 5], Writer));
    // What is declared first counts.
    refused(feasible(trace, &[2, 0], Writer), Rule::SemaphoreBelowZero, 0);
    // What is not declared begins at zero.
    refused(feasible(trace, &[5], Writer), Rule::SemaphoreBelowZero, 5);
}

const BARRIER: &str = "
    declare barrier b 2
    0 A barrier-enter b
    1 B barrier-enter b
    2 A barrier-leave b
    3 B barrier-leave b
    4 C barrier-enter b
    5 A barrier-enter b
    6 A barrier-leave b
    7 C barrier-leave b";

#[test]
fn barrier_left_early() {
    accepted(feasible(BARRIER, &[1, 0, 3], Writer));
    refused(feasible(BARRIER, &[0, 2], Writer), Rule::BarrierLeftEarly, 2);
    refused(feasible(BARRIER, &[0, 1, 4, 7], Writer), Rule::BarrierLeftEarly, 7);
}

#[test]
fn barrier_generations_mixed() {
    accepted(feasible(BARRIER, &[1, 0, 4], Writer));
    // C is of the second generation, even if two threads would be inside.
    refused(feasible(BARRIER, &[0, 4], Writer), Rule::BarrierGenerations, 4);
}

#[test]
fn barrier_without_declared_parties_waits_for_those_that_entered_before_the_first_left() {
    let trace = "
        0 A barrier-enter b
        1 B barrier-enter b
        2 C barrier-enter b
        3 B barrier-leave b
        4 D barrier-enter b
        5 A barrier-leave b
        6 E barrier-enter b
        7 C barrier-leave b
        8 D barrier-leave b
        9 E barrier-leave b";
    accepted(feasible(trace, &[2, 1, 0, 5, 7, 6, 4, 9, 3], Writer));
    refused(feasible(trace, &[1, 0, 5], Writer), Rule::BarrierLeftEarly, 5);
    refused(feasible(trace, &[0, 1, 4], Writer), Rule::BarrierGenerations, 4);
    // E came before D left, so both are of one generation.
    refused(feasible(trace, &[0, 1, 2, 4, 8], Writer), Rule::BarrierLeftEarly, 8);
}

// ---- Heap ----

const HEAP: &str = "
    0 A alloc 0x100:16
    1 A write p
    2 B write 0x108:4
    3 C write 0x108:8
    4 C free 0x100:16
    5 C alloc 0x100:16
    6 D write 0x108:4
    7 D free 0x100:16";

#[test]
fn access_before_alloc() {
    accepted(feasible(HEAP, &[0, 2], Writer));
    refused(feasible(HEAP, &[2], Writer), Rule::AccessBeforeAlloc, 2);
    // The block that lay there before is another one.
    refused(feasible(HEAP, &[0, 6], Writer), Rule::AccessBeforeAlloc, 6);
}

#[test]
fn access_after_free() {
    accepted(feasible(HEAP, &[0, 3, 2, 4], Writer));
    refused(feasible(HEAP, &[0, 3, 4, 2], Writer), Rule::AccessAfterFree, 2);
    // The block that lies there now is another one.
    refused(feasible(HEAP, &[0, 3, 4, 5, 2], Writer), Rule::AccessAfterFree, 2);
}

#[test]
fn racing_access_whose_block_is_not_live() {
    accepted(race(HEAP, &[0], [2, 3], Writer));
    refused(race(HEAP, &[], [2, 3], Writer), Rule::AccessBeforeAlloc, 2);
    accepted(race(HEAP, &[0, 3], [2, 4], Writer));
    refused(race(HEAP, &[3], [2, 4], Writer), Rule::AccessBeforeAlloc, 3);
    let three_accesses = "
        0 A alloc x
        1 B write x
        2 C write x
        3 D free x
        4 E write y";
    accepted(race(three_accesses, &[0], [1, 2], Writer));
    refused(race(three_accesses, &[0, 3], [1, 2], Writer), Rule::AccessAfterFree, 1);
}

#[test]
fn free_before_alloc() {
    // Nobody accesses the block, so it has no memory cells; the rule holds all the same.
    let trace = "
        0 A alloc 0x100:16
        1 B free 0x100:16
        2 B write x
        3 A write x";
    accepted(feasible(trace, &[0, 1], Writer));
    refused(feasible(trace, &[1], Writer), Rule::FreeBeforeAlloc, 1);
}

// ---- Missing methods ----

const MISSING: &str = "
    0 A method-begin m x,lock:l,thread:D,0x10:8
    1 A write free
    2 A method-end m
    3 B write x
    4 B write other
    5 C acquire l
    6 C release l
    7 C write 0x14:8
    8 E method-begin n y
    9 E method-end n
    10 F method-begin o x
    11 F method-end o
    12 G fork D
    13 D begin
    14 H write free
    15 H write 0x18:1";

#[test]
fn missing_method_order_broken_by_a_touch() {
    let all_of_m = [0, 1, 2];
    for touch in [3, 5, 12] {
        accepted(feasible(MISSING, &[&all_of_m[..], &[touch]].concat(), Writer));
        refused(feasible(MISSING, &[touch], Writer), Rule::MissingMethod, touch);
        refused(feasible(MISSING, &[0, 1, touch], Writer), Rule::MissingMethod, touch);
    }
    // What it could not reach may come first.
    accepted(feasible(MISSING, &[14, 15], Writer));
}

#[test]
fn every_kind_of_touch_keeps_its_order_with_a_missing_method() {
    // What B or D has done before the call, and what is ordered with the call.
    let touches: &[(&[&str], &str)] = &[
        (&[], "B read x"),
        (&[], "B write x"),
        (&[], "B atomic-read x"),
        (&[], "B atomic-write x"),
        (&[], "B rmw x"),
        (&["B alloc x"], "B free x"),
        (&[], "B acquire l"),
        (&["B acquire l"], "B release l"),
        (&[], "B read-acquire l"),
        (&["B read-acquire l"], "B read-release l"),
        (&["B acquire l"], "B wait-begin c l"),
        (&["B acquire l", "B wait-begin c l", "B wake c"], "B wait-end c l"),
        (&[], "B fork D"),
        (&["D write q"], "B join D"),
        (&[], "D begin"),
        (&["D write q"], "D end"),
    ];

    for &(before, touch) in touches {
        let calls = ["A method-begin m x,lock:l,thread:D", "A method-end m"];
        let [call, last] = [before.len() as u32, before.len() as u32 + 2];
        let prefix: Vec<u32> = (0..call).collect();
        let after_call = numbered(before.iter().chain(&calls).chain([&touch]));
        accepted(feasible(&after_call, &[&prefix[..], &[call, call + 1, last]].concat(), Writer));
        refused(feasible(&after_call, &[&prefix[..], &[last]].concat(), Writer), Rule::MissingMethod, last);
        refused(feasible(&after_call, &[&prefix[..], &[call, last]].concat(), Writer), Rule::MissingMethod, last);
        let before_call = numbered(before.iter().chain([&touch]).chain(&calls));
        accepted(feasible(&before_call, &[&prefix[..], &[call, call + 1]].concat(), Writer));
        refused(feasible(&before_call, &[&prefix[..], &[call + 1]].concat(), Writer), Rule::MissingMethod, call + 1);
    }
}

#[test]
fn what_touches_nothing_is_not_ordered_with_a_missing_method() {
    for free in
        ["B write y", "B alloc x", "B sem-post l", "B notify x", "B acquire x", "B fork E", "B begin", "B branch"]
    {
        let trace = numbered([&"A method-begin m x,lock:l,thread:D", &"A method-end m", &free]);
        accepted(feasible(&trace, &[2, 0], Writer));
    }
}

#[test]
fn missing_method_reaches_overlapping_ranges() {
    let trace = "
        0 A method-begin m 0x10:8
        1 A method-end m
        2 B write 0x17:2
        3 C write 0x18:2
        4 D method-begin n 0x0:17
        5 D method-end n
        6 E method-begin o 0x19:8
        7 E method-end o";
    refused(feasible(trace, &[2], Writer), Rule::MissingMethod, 2);
    accepted(feasible(trace, &[3, 6, 7], Writer));
    refused(feasible(trace, &[4], Writer), Rule::MissingMethod, 4);
    refused(feasible(trace, &[6], Writer), Rule::MissingMethod, 6);
}

#[test]
fn missing_method_order_broken_by_another_call() {
    accepted(feasible(MISSING, &[8, 9, 0, 1, 2, 3, 10, 11], Writer));
    refused(feasible(MISSING, &[10], Writer), Rule::MissingMethod, 10);
    refused(feasible(MISSING, &[0, 1, 2, 10], Writer), Rule::MissingMethod, 10);
}

#[test]
fn missing_method_before_an_earlier_touch() {
    let trace = "
        0 A write x
        1 B read x
        2 B write y
        3 C method-begin m x
        4 C write y
        5 C method-end m";
    accepted(feasible(trace, &[0, 1, 3], Writer));
    refused(feasible(trace, &[0, 3], Writer), Rule::MissingMethod, 3);
    // What B does after its touch is not ordered with what C does inside the call.
    accepted(race(trace, &[0, 1, 3], [2, 4], Writer));
}

#[test]
fn events_inside_a_call_keep_their_order_with_touches_in_between() {
    let trace = "
        0 A method-begin m x
        1 B write x
        2 A write y
        3 A method-end m
        4 C write y";
    accepted(feasible(trace, &[0, 1, 2, 3], Writer));
    refused(feasible(trace, &[0, 2], Writer), Rule::MissingMethod, 2);
    refused(feasible(trace, &[0, 4, 2], Writer), Rule::MissingMethod, 2);
}

#[test]
fn racing_events_that_a_missing_method_orders() {
    let trace = "
        0 A method-begin m x
        1 A write x
        2 A method-end m
        3 B write x
        4 C write x";
    // The write inside the call and the one after it keep their order.
    refused(race(trace, &[0], [1, 3], Control), Rule::MissingMethod, 3);
    // Two touches do not, once the call is over.
    accepted(race(trace, &[0, 1, 2], [3, 4], Writer));
    refused(race(trace, &[0, 1], [3, 4], Writer), Rule::MissingMethod, 3);
}

// ---- Reads ----

const READS: &str = "
    0 A write x =1
    1 B write x =2
    2 C read x =2
    3 C write y =7
    4 D write y =7";

#[test]
fn wrong_writer() {
    accepted(feasible(READS, &[0, 1, 2, 3], Writer));
    refused(feasible(READS, &[1, 0, 2, 3], Writer), Rule::OtherWrite, 2);
}

#[test]
fn missing_writer() {
    refused(feasible(READS, &[2, 3], Writer), Rule::OtherWrite, 2);
    refused(feasible(READS, &[2, 3], Value), Rule::OtherValue, 2);
}

#[test]
fn write_where_there_was_none() {
    let trace = "
        0 A read x
        1 A write y
        2 B write x";
    accepted(feasible(trace, &[0, 2, 1], Writer));
    refused(feasible(trace, &[2, 0, 1], Writer), Rule::OtherWrite, 0);
}

#[test]
fn wrong_value() {
    refused(feasible(READS, &[1, 0, 2, 3], Value), Rule::OtherValue, 2);
    refused(feasible(READS, &[0, 2, 3], Value), Rule::OtherValue, 2);
}

#[test]
fn last_read_of_a_racing_thread_not_kept() {
    for level in [Writer, Value] {
        let rule = if level == Writer { Rule::OtherWrite } else { Rule::OtherValue };
        accepted(race(READS, &[1, 2], [3, 4], level));
        refused(race(READS, &[1, 0, 2], [3, 4], level), rule, 2);
    }
}

#[test]
fn last_read_of_another_thread_is_free() {
    let trace = "
        0 A write x =1
        1 B read x =1
        2 C write y
        3 D write y
        4 B write z";
    for level in LEVELS {
        accepted(race(trace, &[1], [2, 3], level));
        // The racing accesses themselves may read anything.
        accepted(race(trace, &[], [0, 1], level));
    }
}

#[test]
fn atomic_read_not_kept() {
    let trace = "
        0 A atomic-write x =1
        1 B atomic-read x =1
        2 B write y
        3 C write y";
    accepted(race(trace, &[0, 1], [2, 3], Writer));
    refused(race(trace, &[1], [2, 3], Writer), Rule::OtherWrite, 1);
}

#[test]
fn rmw_not_kept_even_if_it_is_last() {
    let trace = "
        0 A write x =0
        1 B rmw x =0>1
        2 C rmw x =1>2
        3 D branch";
    accepted(feasible(trace, &[0, 1, 2], Writer));
    refused(feasible(trace, &[0, 2], Writer), Rule::OtherWrite, 2);
    refused(feasible(trace, &[0, 2], Value), Rule::OtherValue, 2);
    accepted(feasible(trace, &[0, 2], Control));
}

#[test]
fn read_that_the_trace_does_not_explain_sees_another_write() {
    // No write of the trace leaves 5: something was not observed.
    let unobserved = "
        0 A write x =4
        1 B read x =5
        2 B write y
        3 C write x =5";
    accepted(feasible(unobserved, &[0, 1, 2], Value));
    refused(feasible(unobserved, &[0, 3, 1, 2], Value), Rule::OtherValue, 1);
    let without_value = "
        0 A write x =4
        1 B read x
        2 B write y
        3 C write x =4";
    accepted(feasible(without_value, &[0, 1, 2], Value));
    refused(feasible(without_value, &[0, 3, 1, 2], Value), Rule::OtherValue, 1);
}

#[test]
fn write_of_unknown_value() {
    let trace = "
        0 A write x =4
        1 B read x =4
        2 B write y
        3 C write x";
    accepted(feasible(trace, &[0, 1, 2, 3], Value));
    refused(feasible(trace, &[0, 3, 1, 2], Value), Rule::OtherValue, 1);
}

#[test]
fn one_byte_of_a_range_from_another_write() {
    let trace = "
        0 A write 0x10:4 =0x11223344
        1 B read 0x10:4 =0x11223344
        2 B write y
        3 C write 0x11:1 =0x33
        4 D write 0x11:1 =0x34";
    accepted(feasible(trace, &[0, 1, 2], Writer));
    refused(feasible(trace, &[0, 3, 1, 2], Writer), Rule::OtherWrite, 1);
    // The byte has the value it had, so only the writer is another.
    accepted(feasible(trace, &[0, 3, 1, 2], Value));
    refused(feasible(trace, &[0, 4, 1, 2], Value), Rule::OtherValue, 1);
}

const CONTROL: &str = "
    0 A write x =1
    1 B read x =1
    2 B write y =1
    3 B branch
    4 C read y =1
    5 C branch
    6 C write z
    7 D write z
    8 E method-begin m q
    9 E method-end m";

#[test]
fn branch_after_a_read_that_changed() {
    accepted(feasible(CONTROL, &[1, 2], Control));
    refused(feasible(CONTROL, &[1, 2, 3], Control), Rule::OtherValue, 1);
    refused(feasible(CONTROL, &[1, 2], Value), Rule::OtherValue, 1);
}

#[test]
fn missing_method_after_a_read_that_changed() {
    let trace = "
        0 A write x =1
        1 B read x =1
        2 B write y
        3 B method-begin m z
        4 C branch";
    accepted(feasible(trace, &[1, 2], Control));
    refused(feasible(trace, &[1, 2, 3], Control), Rule::OtherValue, 1);
}

#[test]
fn write_after_a_read_that_changed_is_unknown() {
    accepted(feasible(CONTROL, &[0, 1, 2, 4, 5], Control));
    // C reads what B wrote, as it did; but B has read something else.
    accepted(feasible(CONTROL, &[1, 2, 4], Control));
    refused(feasible(CONTROL, &[1, 2, 4, 5], Control), Rule::UnknownValue, 4);
    refused(race(CONTROL, &[1, 2, 4, 5], [6, 7], Control), Rule::UnknownValue, 4);
}

#[test]
fn what_is_computed_from_unknown_values_is_unknown() {
    let trace = "
        0 A write x =1
        1 B read x =1
        2 B write y =1
        3 C rmw y =1>2
        4 D read y =2
        5 D branch";
    accepted(feasible(trace, &[0, 1, 2, 3, 4, 5], Control));
    refused(feasible(trace, &[1, 2, 3, 4, 5], Control), Rule::UnknownValue, 4);
}

#[test]
fn without_branches_control_is_value() {
    let trace = "
        0 A write x =1
        1 B read x =1
        2 B write y
        3 C write y";
    accepted(race(trace, &[0, 1], [2, 3], Control));
    refused(race(trace, &[1], [2, 3], Control), Rule::OtherValue, 1);
}

// ---- What a race is ----

#[test]
fn racing_event_inside_the_schedule() {
    accepted(race(TWO_WRITERS, &[0, 2], [1, 3], Writer));
    refused(race(TWO_WRITERS, &[0, 2, 3], [1, 3], Writer), Rule::AlreadyHappened, 3);
    refused(race(TWO_WRITERS, &[0, 1, 2], [1, 3], Writer), Rule::AlreadyHappened, 1);
}

#[test]
fn racing_event_that_is_not_the_next_of_its_thread() {
    refused(race(TWO_WRITERS, &[0], [1, 3], Writer), Rule::NotNextEvent, 3);
    refused(race(TWO_WRITERS, &[2], [1, 3], Writer), Rule::NotNextEvent, 1);
}

const PAIRS: &str = "
    0 A read x
    1 B read x
    2 C write y
    3 D atomic-write x
    4 E rmw x
    5 F write 0x10:4
    6 G write 0x14:4
    7 H write 0x13:2
    8 I acquire x
    9 J acquire y
    10 A write x
    11 I release x";

#[test]
fn two_reads_do_not_conflict() {
    refused(race(PAIRS, &[], [0, 1], Writer), Rule::NoConflict, 1);
    accepted(race(PAIRS, &[], [0, 3], Writer));
}

#[test]
fn two_atomics_do_not_conflict() {
    refused(race(PAIRS, &[], [3, 4], Writer), Rule::NoConflict, 4);
    accepted(race(PAIRS, &[], [1, 4], Writer));
}

#[test]
fn different_variables_do_not_conflict() {
    refused(race(PAIRS, &[], [2, 3], Writer), Rule::NoConflict, 3);
}

#[test]
fn disjoint_ranges_do_not_conflict() {
    refused(race(PAIRS, &[], [5, 6], Writer), Rule::NoConflict, 6);
    accepted(race(PAIRS, &[], [5, 7], Writer));
    accepted(race(PAIRS, &[], [6, 7], Writer));
}

#[test]
fn operations_on_locks_do_not_conflict() {
    // Lock x and variable x have the same name and may have the same number.
    refused(race(PAIRS, &[0], [8, 10], Writer), Rule::NoConflict, 10);
}

#[test]
fn events_of_one_thread_do_not_race() {
    refused(race(PAIRS, &[], [0, 10], Writer), Rule::SameThread, 10);
    refused(race(PAIRS, &[], [3, 3], Writer), Rule::SameThread, 3);
}

#[test]
fn memory_allocated_again_does_not_conflict_with_what_it_was() {
    refused(race(HEAP, &[0, 3, 4, 5], [2, 6], Writer), Rule::NoConflict, 6);
}

#[test]
fn racing_event_that_does_not_exist() {
    refused(race(PAIRS, &[], [3, 12], Writer), Rule::UnknownEvent, 12);
    refused(race(PAIRS, &[], [u32::MAX, 3], Writer), Rule::UnknownEvent, u32::MAX);
}

#[test]
fn schedule_before_a_race_is_checked_too() {
    refused(race(MUTEX, &[0, 4], [5, 5], Writer), Rule::SameThread, 5);
    let trace = "
        0 A acquire l
        1 A write x
        2 A release l
        3 B acquire l
        4 B write x
        5 B release l";
    refused(race(trace, &[0, 3], [1, 4], Control), Rule::LockHeld, 3);
}

// ---- What a deadlock is ----

const DEADLOCK: &str = "
    0 A acquire k
    1 A acquire l
    2 A release l
    3 A release k
    4 B acquire l
    5 B read x
    6 B acquire k
    7 B release k
    8 B release l
    9 C acquire m
    10 C write x
    11 C acquire k
    12 C release k
    13 C release m";

#[test]
fn deadlock_of_two() {
    for level in LEVELS {
        accepted(deadlock(DEADLOCK, &[0, 4, 5], &[1, 6], level));
        accepted(deadlock(DEADLOCK, &[0, 4, 5], &[6, 1], level));
    }
}

#[test]
fn deadlock_that_is_not_cyclic() {
    refused(deadlock(DEADLOCK, &[0, 9, 10], &[1, 11], Writer), Rule::NotBlocked, 1);
    refused(deadlock(DEADLOCK, &[0, 4, 5, 9, 10], &[6, 11], Writer), Rule::NotBlocked, 6);
    // Nobody waits for C, but C waits for A: each of them waits for another.
    accepted(deadlock(DEADLOCK, &[0, 4, 5, 9, 10], &[1, 6, 11], Writer));
}

#[test]
fn deadlock_whose_event_is_not_next() {
    refused(deadlock(DEADLOCK, &[0, 4], &[1, 6], Writer), Rule::NotNextEvent, 6);
    refused(deadlock(DEADLOCK, &[4, 5], &[1, 6], Writer), Rule::NotNextEvent, 1);
    refused(deadlock(DEADLOCK, &[0, 1, 2, 3, 4, 5], &[1, 6], Writer), Rule::AlreadyHappened, 1);
}

#[test]
fn deadlock_of_one_thread() {
    let alone = deadlock(DEADLOCK, &[0, 4, 5], &[1], Writer).expect_err("one thread");
    assert_eq!((alone.rule, alone.event), (Rule::TooFewThreads, None));
    let nobody = deadlock(DEADLOCK, &[0, 4, 5], &[], Writer).expect_err("no thread");
    assert_eq!(nobody.rule, Rule::TooFewThreads);
    refused(deadlock(DEADLOCK, &[0, 4, 5], &[1, 1], Writer), Rule::SameThread, 1);
}

#[test]
fn deadlock_of_something_that_takes_no_lock() {
    refused(deadlock(DEADLOCK, &[0, 4], &[1, 5], Writer), Rule::NotAnAcquire, 5);
}

#[test]
fn deadlock_after_a_read_that_is_not_kept() {
    refused(deadlock(DEADLOCK, &[9, 10, 0, 4, 5], &[1, 6], Writer), Rule::OtherWrite, 5);
}

#[test]
fn deadlock_event_that_does_not_exist() {
    refused(deadlock(DEADLOCK, &[0, 4, 5], &[1, 99], Writer), Rule::UnknownEvent, 99);
}

#[test]
fn deadlock_of_readers() {
    let trace = "
        0 A read-acquire k
        1 A acquire l
        2 A release l
        3 A read-release k
        4 B acquire l
        5 B read-acquire k
        6 B read-release k
        7 B release l
        8 C acquire l
        9 C acquire k
        10 C release k
        11 C release l";
    // B only reads k, and so does A.
    refused(deadlock(trace, &[0, 4], &[1, 5], Writer), Rule::NotBlocked, 5);
    accepted(deadlock(trace, &[0, 8], &[1, 9], Writer));
}

#[test]
fn lock_that_only_its_own_thread_holds_does_not_block() {
    let trace = "
        0 A acquire k
        1 A acquire k
        2 A release k
        3 A release k
        4 B acquire l
        5 B acquire k
        6 B release k
        7 B release l";
    refused(deadlock(trace, &[0, 4], &[1, 5], Writer), Rule::NotBlocked, 1);
}

#[test]
fn deadlock_of_events_that_a_missing_method_orders() {
    let trace = "
        0 A acquire k
        1 A acquire l
        2 A release l
        3 A release k
        4 C method-begin m lock:k
        5 C method-end m
        6 B acquire l
        7 B acquire k
        8 B release k
        9 B release l";
    // The call comes after A has released k, so B does not wait for k while A holds it.
    refused(deadlock(trace, &[0, 6], &[1, 7], Writer), Rule::MissingMethod, 7);
    accepted(deadlock(&trace.replace("lock:k", "lock:m"), &[0, 6], &[1, 7], Writer));
}

#[test]
fn deadlock_with_a_reader_at_the_end_of_a_wait() {
    let trace = "
        0 A acquire k
        1 A acquire l
        2 A wait-begin c l
        3 A wake c
        4 B read-acquire l
        5 B read-release l
        6 A wait-end c l
        7 A release l
        8 A release k
        9 B read-acquire l
        10 B acquire k
        11 B release k
        12 B read-release l";
    accepted(deadlock(trace, &[0, 1, 2, 3, 4, 5, 9], &[6, 10], Writer));
    refused(deadlock(trace, &[0, 1, 2, 4, 5, 9], &[6, 10], Writer), Rule::NotNextEvent, 6);
}

#[test]
fn deadlock_at_the_end_of_a_wait() {
    let trace = "
        0 A acquire k
        1 A acquire l
        2 A wait-begin c l
        3 B acquire l
        4 B notify c
        5 B release l
        6 A wake c 4
        7 A wait-end c l
        8 A release l
        9 A release k
        10 B acquire l
        11 B acquire k
        12 B release k
        13 B release l";
    accepted(deadlock(trace, &[0, 1, 2, 3, 4, 5, 6, 10], &[7, 11], Writer));
    refused(deadlock(trace, &[0, 1, 2, 3, 4, 5, 10], &[7, 11], Writer), Rule::NotNextEvent, 7);
}

#[test]
fn one_checker_serves_many_threads() {
    let trace = trace(TWO_WRITERS);
    let cells = Cells::of(&trace);
    let checker = Checker::new(&trace, &cells);
    let check = |schedule: &'static [u32]| checker.check_feasible(ids(schedule), Writer);
    let (right, wrong) = std::thread::scope(|scope| {
        let (right, wrong) = (scope.spawn(move || check(&[0, 2, 1])), scope.spawn(move || check(&[0, 2, 2])));
        (right.join().unwrap(), wrong.join().unwrap())
    });
    accepted(right);
    refused(wrong, Rule::EventTwice, 2);
}

#[test]
fn the_example_of_the_page() {
    let trace = "
        0 A write x
        1 A acquire l
        2 A release l
        3 B acquire l
        4 B release l
        5 B write x";
    accepted(race(trace, &[3, 4], [0, 5], Writer));
    let page = include_str!("../../../docs/checker.md");
    for schedule in [&[1, 3, 4][..], &[0, 1, 3]] {
        let violation = race(trace, schedule, [0, 5], Writer).expect_err("the page says so");
        assert!(page.contains(&violation.to_string()), "{violation}");
    }
}

#[test]
fn violations_name_threads_locks_and_events() {
    let violation = feasible(MUTEX, &[4, 0], Writer).expect_err("l is held");
    assert_eq!(
        violation.to_string(),
        "event 0 (A acquire l) needs lock l, which thread B holds (rule: a lock is held by one thread, or by readers)"
    );
    let violation = feasible(READS, &[1, 0, 2, 3], Value).expect_err("another value");
    assert_eq!(
        violation.detail,
        "event 2 (C read x) sees event 0 (A write x) instead of event 1 (B write x): it read 2, 1 is left there, \
         and the trace left 2; it must be kept, as its thread goes on with event 3 (C write y)"
    );
}
