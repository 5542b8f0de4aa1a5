//! What a race is.

use crate::heap::HEAP;
use crate::locks::MUTEX;
use crate::sequence::TWO_WRITERS;
use crate::support::*;
use snag_checker::ScheduleRule as Rule;

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
