//! Mutexes and reader/writer locks.

use crate::support::*;
use snag_checker::ScheduleRule as Rule;

pub const MUTEX: &str = "
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
