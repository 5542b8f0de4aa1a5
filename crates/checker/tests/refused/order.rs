//! What a race by memory order is.

use crate::support::*;
use snag_checker::ScheduleRule as Rule;

/// Hands x over by f; `store`, `load` and what stands around them are to be filled in.
fn handed_over(around: [&str; 4]) -> String {
    let [before, store, load, after] = around;
    let lines = ["A write x", before, store, load, after, "B read x"];
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    numbered(&lines)
}

/// What the checker says about a hand-over as it was observed.
fn verdict(around: [&str; 4], allowed: bool) {
    let text = handed_over(around);
    let last = text.lines().count() as u32 - 1;
    let schedule: Vec<u32> = (0..=last).collect();
    for level in LEVELS {
        let answer = order_race(&text, &schedule, [0, last], level);
        if allowed { accepted(answer) } else { refused(answer, Rule::Synchronised, last) }
    }
}

#[test]
fn race_that_release_and_acquire_order() {
    verdict(["", "A atomic-write f release", "B atomic-read f acquire", ""], false);
    verdict(["", "A atomic-write f seq_cst", "B atomic-read f seq_cst", ""], false);
    verdict(["", "A rmw f acq_rel", "B rmw f acq_rel", ""], false);
    verdict(["", "A atomic-write f relaxed", "B atomic-read f acquire", ""], true);
    verdict(["", "A atomic-write f release", "B atomic-read f relaxed", ""], true);
    verdict(["", "A rmw f acquire", "B rmw f release", ""], true);
    verdict(["", "A atomic-write f release", "B atomic-read g acquire", ""], true);
}

#[test]
fn race_that_fences_order() {
    let (write, read) = ("A atomic-write f relaxed", "B atomic-read f relaxed");
    verdict(["A fence release", write, read, "B fence acquire"], false);
    verdict(["A fence acq_rel", write, read, "B fence seq_cst"], false);
    verdict(["A fence release", write, "B atomic-read f acquire", ""], false);
    verdict(["", "A atomic-write f release", read, "B fence acquire"], false);
    verdict(["A fence release", write, read, ""], true);
    verdict(["", write, read, "B fence acquire"], true);
    verdict(["A fence acquire", write, read, "B fence acquire"], true);
    verdict(["A fence release", write, read, "B fence release"], true);
}

#[test]
fn race_across_the_end_of_a_release_sequence() {
    let across = |middle: &str| {
        numbered(&["A write x", "A atomic-write f release", middle, "B atomic-read f acquire", "B read x"])
    };
    let schedule = [0, 1, 2, 3, 4];
    refused(order_race(&across("C rmw f relaxed"), &schedule, [0, 4], Writer), Rule::Synchronised, 4);
    accepted(order_race(&across("C atomic-write f release"), &schedule, [0, 4], Writer));
    accepted(order_race(&across("A atomic-write f relaxed"), &schedule, [0, 4], Writer));
    accepted(order_race(&across("C write f"), &schedule, [0, 4], Writer));
}

#[test]
fn race_by_memory_order_that_the_schedule_does_not_show() {
    let text = handed_over(["", "A atomic-write f relaxed", "B atomic-read f relaxed", ""]);
    accepted(order_race(&text, &[0, 1, 2, 3], [0, 3], Writer));
    // Without one of them, the other way round, or not feasible.
    refused(order_race(&text, &[0, 1, 2], [0, 3], Writer), Rule::NotInOrder, 3);
    refused(order_race(&text, &[0, 1, 2, 3], [3, 0], Writer), Rule::NotInOrder, 0);
    refused(order_race(&text, &[1, 2, 3], [0, 3], Writer), Rule::ThreadOrder, 1);
    refused(order_race(&text, &[2, 0, 1, 3], [0, 3], Writer), Rule::OtherWrite, 2);
    refused(order_race(&text, &[0, 1, 2, 3], [0, 1], Writer), Rule::SameThread, 1);
    refused(order_race(&text, &[0, 1, 2, 3], [1, 3], Writer), Rule::NoConflict, 3);
}

#[test]
fn race_by_memory_order_that_a_lock_orders() {
    let text = numbered(&["A write x", "A acquire l", "A release l", "B acquire l", "B release l", "B read x"]);
    refused(order_race(&text, &[0, 1, 2, 3, 4, 5], [0, 5], Writer), Rule::Synchronised, 5);
    let apart = text.replace("B acquire l", "B acquire k").replace("B release l", "B release k");
    accepted(order_race(&apart, &[0, 1, 2, 3, 4, 5], [0, 5], Writer));
}

#[test]
fn race_by_memory_order_across_attempts_that_fail() {
    let across = |gives: &str, takes: &str| {
        let text = numbered(&["A write x", gives, takes, "B read x"]);
        order_race(&text, &[0, 1, 2, 3], [0, 3], Writer)
    };
    // They show that the first access came before, and synchronise with nothing.
    accepted(across("A acquire l", "B tryfail l"));
    accepted(across("A read-acquire l", "B tryfail l"));
    accepted(across("A acquire l", "B rtryfail l"));
    accepted(across("A sem-post s", "B sem-value s 1"));
    accepted(across("A fork C", "B join-fail C"));
    // They must fail in the schedule.
    let text = numbered(&["A acquire l", "A write x", "B tryfail l", "B read x"]);
    accepted(order_race(&text, &[0, 1, 2, 3], [1, 3], Writer));
    let text = numbered(&["A write x", "A acquire l", "B tryfail l", "A release l", "B read x"]);
    refused(order_race(&text, &[0, 1, 3, 2, 4], [0, 4], Writer), Rule::NothingHeld, 2);
    // Whoever waits in the end synchronises.
    let text = numbered(&["A write x", "A sem-post s", "B sem-value s 1", "B sem-wait s", "B read x"]);
    refused(order_race(&text, &[0, 1, 2, 3, 4], [0, 4], Writer), Rule::Synchronised, 4);
}
