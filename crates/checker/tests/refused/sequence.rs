//! The sequence of events.

use crate::support::*;
use snag_checker::ScheduleRule as Rule;

pub const TWO_WRITERS: &str = "
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
