//! Semaphores and barriers.

use crate::support::*;
use snag_checker::ScheduleRule as Rule;

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
