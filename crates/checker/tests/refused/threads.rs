//! Forks and joins.

use crate::support::*;
use snag_checker::ScheduleRule as Rule;

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
