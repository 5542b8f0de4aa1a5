//! Condition variables.

use crate::support::*;
use snag_checker::ScheduleRule as Rule;

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

const SPURIOUS: &str = "
    0 A acquire l
    1 A wait-begin c l
    2 B write x
    3 B notify c
    4 A wake c 3
    5 A wait-end c l
    6 A write x";

#[test]
fn wake_up_for_no_reason_if_the_witness_says_so() {
    accepted(race_with_spurious(SPURIOUS, &[0, 1, 4, 5], [2, 6], &[4]));
    refused(race_with_spurious(SPURIOUS, &[0, 1, 4, 5], [2, 6], &[]), Rule::WakeBeforeNotify, 4);
    // It may wake for no reason and is notified as well.
    refused(race_with_spurious(SPURIOUS, &[0, 1, 2, 3, 4, 5], [2, 6], &[4]), Rule::AlreadyHappened, 2);
    // The lock is still needed, and the wait must have begun.
    refused(race_with_spurious(SPURIOUS, &[0, 4], [2, 6], &[4]), Rule::ThreadOrder, 4);
    refused(race_with_spurious(SPURIOUS, &[0, 1, 4, 5], [2, 6], &[4, 5]), Rule::NoWakeUp, 5);
    refused(race_with_spurious(SPURIOUS, &[0, 1, 4, 5], [2, 6], &[3]), Rule::NoWakeUp, 3);
    refused(race_with_spurious(SPURIOUS, &[0, 1, 4, 5], [2, 6], &[99]), Rule::UnknownEvent, 99);
}
