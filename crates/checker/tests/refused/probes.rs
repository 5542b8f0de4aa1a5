//! Failed attempts, and what a semaphore counts.

use crate::support::*;
use snag_checker::ScheduleRule as Rule;

#[test]
fn an_attempt_fails_while_another_thread_holds_the_lock() {
    let trace = "
        0 A acquire l
        1 B tryfail l
        2 B rtryfail l
        3 A release l
        4 C acquire l
        5 C release l";
    accepted(feasible(trace, &[0, 1, 2, 3], Writer));
    accepted(feasible(trace, &[0, 3, 4, 1, 2, 5], Writer));
    refused(feasible(trace, &[1], Writer), Rule::NothingHeld, 1);
    refused(feasible(trace, &[0, 1, 3, 2], Writer), Rule::NothingHeld, 2);
}

#[test]
fn readers_keep_writers_out_and_nobody_else() {
    let trace = "
        0 A read-acquire l
        1 B tryfail l
        2 A read-release l
        3 C acquire l
        4 B rtryfail l
        5 C release l";
    accepted(feasible(trace, &[0, 1, 2, 3, 4], Writer));
    accepted(feasible(trace, &[3, 1, 4, 5, 0, 2], Writer));
    refused(feasible(trace, &[0, 1, 4], Writer), Rule::NothingHeld, 4);
}

#[test]
fn a_lock_that_its_own_thread_holds_is_no_reason() {
    let trace = "
        0 A read-acquire l
        1 B read-acquire l
        2 A tryfail l
        3 B read-release l";
    accepted(feasible(trace, &[1, 0, 2], Writer));
    refused(feasible(trace, &[0, 2], Writer), Rule::NothingHeld, 2);
    refused(feasible(trace, &[1, 0, 3, 2], Writer), Rule::NothingHeld, 2);
}

#[test]
fn a_semaphore_counts_what_was_found() {
    let trace = "
        declare semaphore s 1
        0 A sem-wait s
        1 B sem-value s 0
        2 A sem-post s
        3 B sem-value s 1
        4 C sem-post s
        5 B sem-value s 2";
    accepted(feasible(trace, &[0, 1, 4, 3, 2, 5], Writer));
    refused(feasible(trace, &[1], Writer), Rule::OtherCount, 1);
    refused(feasible(trace, &[0, 1, 3], Writer), Rule::OtherCount, 3);
    refused(feasible(trace, &[0, 1, 2, 3, 5], Writer), Rule::OtherCount, 5);
}

#[test]
fn an_attempt_to_join_fails_between_fork_and_end() {
    let trace = "
        0 A fork B
        1 A join-fail B
        2 C join-fail B
        3 B begin
        4 C join-fail B
        5 B end
        6 A join B";
    accepted(feasible(trace, &[0, 1, 2, 3, 4, 5, 6], Writer));
    accepted(feasible(trace, &[0, 3, 1, 2], Writer));
    refused(feasible(trace, &[2], Writer), Rule::NotAlive, 2);
    refused(feasible(trace, &[0, 1, 2, 3, 5, 4], Writer), Rule::NotAlive, 4);
    let without_end = "
        0 A fork B
        1 C join-fail B
        2 B write x
        3 A join B";
    accepted(feasible(without_end, &[0, 2, 1, 3], Writer));
    refused(feasible(without_end, &[0, 2, 3, 1], Writer), Rule::NotAlive, 1);
}

#[test]
fn what_another_attempt_would_have_done_is_no_race() {
    // B writes x only because A holds l, and A holds l only after it has written x.
    let trace = "
        0 A write x
        1 A acquire l
        2 B tryfail l
        3 B write x
        4 A release l";
    refused(race(trace, &[2], [0, 3], Writer), Rule::NothingHeld, 2);
}
