//! Allocations and their lifetimes.

use crate::support::*;
use snag_checker::ScheduleRule as Rule;

pub const HEAP: &str = "
    0 A alloc 0x100:16
    1 A write p
    2 B write 0x108:4
    3 C write 0x108:8
    4 C free 0x100:16
    5 C alloc 0x100:16
    6 D write 0x108:4
    7 D free 0x100:16";

#[test]
fn access_before_alloc() {
    accepted(feasible(HEAP, &[0, 2], Writer));
    refused(feasible(HEAP, &[2], Writer), Rule::AccessBeforeAlloc, 2);
    // The block that lay there before is another one.
    refused(feasible(HEAP, &[0, 6], Writer), Rule::AccessBeforeAlloc, 6);
}

#[test]
fn access_after_free() {
    accepted(feasible(HEAP, &[0, 3, 2, 4], Writer));
    refused(feasible(HEAP, &[0, 3, 4, 2], Writer), Rule::AccessAfterFree, 2);
    // The block that lies there now is another one.
    refused(feasible(HEAP, &[0, 3, 4, 5, 2], Writer), Rule::AccessAfterFree, 2);
}

#[test]
fn racing_access_whose_block_is_not_live() {
    accepted(race(HEAP, &[0], [2, 3], Writer));
    refused(race(HEAP, &[], [2, 3], Writer), Rule::AccessBeforeAlloc, 2);
    accepted(race(HEAP, &[0, 3], [2, 4], Writer));
    refused(race(HEAP, &[3], [2, 4], Writer), Rule::AccessBeforeAlloc, 3);
    let three_accesses = "
        0 A alloc x
        1 B write x
        2 C write x
        3 D free x
        4 E write y";
    accepted(race(three_accesses, &[0], [1, 2], Writer));
    refused(race(three_accesses, &[0, 3], [1, 2], Writer), Rule::AccessAfterFree, 1);
}

#[test]
fn free_before_alloc() {
    // Nobody accesses the block, so it has no memory cells; the rule holds all the same.
    let trace = "
        0 A alloc 0x100:16
        1 B free 0x100:16
        2 B write x
        3 A write x";
    accepted(feasible(trace, &[0, 1], Writer));
    refused(feasible(trace, &[1], Writer), Rule::FreeBeforeAlloc, 1);
}
