//! Every way to break a witness, refused by the rule that it breaks.
//!
//! Beside each broken witness stands one that is right and as close to it as
//! possible, so that nothing is refused for another reason.

#[path = "../support/mod.rs"]
mod support;

mod conditions;
mod counters;
mod deadlocks;
mod heap;
mod locks;
mod missing;
mod order;
mod probes;
mod races;
mod reads;
mod sequence;
mod threads;

use locks::MUTEX;
use reads::READS;
use sequence::TWO_WRITERS;
use snag_checker::{Checker, ScheduleRule as Rule};
use snag_model::Cells;
use support::*;

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
    let page = include_str!("../../../../docs/checker.md");
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
