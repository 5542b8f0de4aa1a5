//! What a deadlock is.

use crate::support::*;
use snag_checker::ScheduleRule as Rule;

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
