//! What reads see.

use crate::support::*;
use snag_checker::ScheduleRule as Rule;

pub const READS: &str = "
    0 A write x =1
    1 B write x =2
    2 C read x =2
    3 C write y =7
    4 D write y =7";

#[test]
fn wrong_writer() {
    accepted(feasible(READS, &[0, 1, 2, 3], Writer));
    refused(feasible(READS, &[1, 0, 2, 3], Writer), Rule::OtherWrite, 2);
}

#[test]
fn missing_writer() {
    refused(feasible(READS, &[2, 3], Writer), Rule::OtherWrite, 2);
    refused(feasible(READS, &[2, 3], Value), Rule::OtherValue, 2);
}

#[test]
fn write_where_there_was_none() {
    let trace = "
        0 A read x
        1 A write y
        2 B write x";
    accepted(feasible(trace, &[0, 2, 1], Writer));
    refused(feasible(trace, &[2, 0, 1], Writer), Rule::OtherWrite, 0);
}

#[test]
fn wrong_value() {
    refused(feasible(READS, &[1, 0, 2, 3], Value), Rule::OtherValue, 2);
    refused(feasible(READS, &[0, 2, 3], Value), Rule::OtherValue, 2);
}

#[test]
fn last_read_of_a_racing_thread_not_kept() {
    for level in [Writer, Value] {
        let rule = if level == Writer { Rule::OtherWrite } else { Rule::OtherValue };
        accepted(race(READS, &[1, 2], [3, 4], level));
        refused(race(READS, &[1, 0, 2], [3, 4], level), rule, 2);
    }
}

#[test]
fn last_read_of_another_thread_is_free() {
    let trace = "
        0 A write x =1
        1 B read x =1
        2 C write y
        3 D write y
        4 B write z";
    for level in LEVELS {
        accepted(race(trace, &[1], [2, 3], level));
        // The racing accesses themselves may read anything.
        accepted(race(trace, &[], [0, 1], level));
    }
}

#[test]
fn atomic_read_not_kept() {
    let trace = "
        0 A atomic-write x =1
        1 B atomic-read x =1
        2 B write y
        3 C write y";
    accepted(race(trace, &[0, 1], [2, 3], Writer));
    refused(race(trace, &[1], [2, 3], Writer), Rule::OtherWrite, 1);
}

#[test]
fn rmw_not_kept_even_if_it_is_last() {
    let trace = "
        0 A write x =0
        1 B rmw x =0>1
        2 C rmw x =1>2
        3 D branch";
    accepted(feasible(trace, &[0, 1, 2], Writer));
    refused(feasible(trace, &[0, 2], Writer), Rule::OtherWrite, 2);
    refused(feasible(trace, &[0, 2], Value), Rule::OtherValue, 2);
    accepted(feasible(trace, &[0, 2], Control));
}

#[test]
fn read_that_the_trace_does_not_explain_sees_another_write() {
    // No write of the trace leaves 5: something was not observed.
    let unobserved = "
        0 A write x =4
        1 B read x =5
        2 B write y
        3 C write x =5";
    accepted(feasible(unobserved, &[0, 1, 2], Value));
    refused(feasible(unobserved, &[0, 3, 1, 2], Value), Rule::OtherValue, 1);
    let without_value = "
        0 A write x =4
        1 B read x
        2 B write y
        3 C write x =4";
    accepted(feasible(without_value, &[0, 1, 2], Value));
    refused(feasible(without_value, &[0, 3, 1, 2], Value), Rule::OtherValue, 1);
}

#[test]
fn write_of_unknown_value() {
    let trace = "
        0 A write x =4
        1 B read x =4
        2 B write y
        3 C write x";
    accepted(feasible(trace, &[0, 1, 2, 3], Value));
    refused(feasible(trace, &[0, 3, 1, 2], Value), Rule::OtherValue, 1);
}

#[test]
fn one_byte_of_a_range_from_another_write() {
    let trace = "
        0 A write 0x10:4 =0x11223344
        1 B read 0x10:4 =0x11223344
        2 B write y
        3 C write 0x11:1 =0x33
        4 D write 0x11:1 =0x34";
    accepted(feasible(trace, &[0, 1, 2], Writer));
    refused(feasible(trace, &[0, 3, 1, 2], Writer), Rule::OtherWrite, 1);
    // The byte has the value it had, so only the writer is another.
    accepted(feasible(trace, &[0, 3, 1, 2], Value));
    refused(feasible(trace, &[0, 4, 1, 2], Value), Rule::OtherValue, 1);
}

const CONTROL: &str = "
    0 A write x =1
    1 B read x =1
    2 B write y =1
    3 B branch
    4 C read y =1
    5 C branch
    6 C write z
    7 D write z
    8 E method-begin m q
    9 E method-end m";

#[test]
fn branch_after_a_read_that_changed() {
    accepted(feasible(CONTROL, &[1, 2], Control));
    refused(feasible(CONTROL, &[1, 2, 3], Control), Rule::OtherValue, 1);
    refused(feasible(CONTROL, &[1, 2], Value), Rule::OtherValue, 1);
}

#[test]
fn missing_method_after_a_read_that_changed() {
    let trace = "
        0 A write x =1
        1 B read x =1
        2 B write y
        3 B method-begin m z
        4 C branch";
    accepted(feasible(trace, &[1, 2], Control));
    refused(feasible(trace, &[1, 2, 3], Control), Rule::OtherValue, 1);
}

#[test]
fn write_after_a_read_that_changed_is_unknown() {
    accepted(feasible(CONTROL, &[0, 1, 2, 4, 5], Control));
    // C reads what B wrote, as it did; but B has read something else.
    accepted(feasible(CONTROL, &[1, 2, 4], Control));
    refused(feasible(CONTROL, &[1, 2, 4, 5], Control), Rule::UnknownValue, 4);
    refused(race(CONTROL, &[1, 2, 4, 5], [6, 7], Control), Rule::UnknownValue, 4);
}

#[test]
fn what_is_computed_from_unknown_values_is_unknown() {
    let trace = "
        0 A write x =1
        1 B read x =1
        2 B write y =1
        3 C rmw y =1>2
        4 D read y =2
        5 D branch";
    accepted(feasible(trace, &[0, 1, 2, 3, 4, 5], Control));
    refused(feasible(trace, &[1, 2, 3, 4, 5], Control), Rule::UnknownValue, 4);
}

#[test]
fn without_branches_control_is_value() {
    let trace = "
        0 A write x =1
        1 B read x =1
        2 B write y
        3 C write y";
    accepted(race(trace, &[0, 1], [2, 3], Control));
    refused(race(trace, &[1], [2, 3], Control), Rule::OtherValue, 1);
}

#[test]
fn address_of_another_allocation() {
    // A and C put the address of what they have allocated into a slot; it is the same number. B takes the first one out and
    // frees it, D the second one.
    let trace = |size: u32, address: u32| {
        format!(
            "
        0 A alloc 0x2000:16
        1 A write 0x3000:{size} ={address}
        2 B read 0x3000:{size} ={address}
        3 B write 0x3000:{size} =0
        4 B free 0x2000:16
        5 C alloc 0x2000:16
        6 C write 0x2000:8
        7 C write 0x3000:{size} ={address}
        8 D read 0x3000:{size} ={address}
        9 D free 0x2000:16"
        )
    };
    let ahead = [0, 1, 5, 8];
    for level in [Value, Control] {
        refused(race(&trace(8, 0x2000), &ahead, [6, 9], level), Rule::OtherValue, 8);
        refused(race(&trace(8, 0x200f), &ahead, [6, 9], level), Rule::OtherValue, 8);
        // Numbers that are no such addresses.
        accepted(race(&trace(8, 0x2010), &ahead, [6, 9], level));
        accepted(race(&trace(4, 0x2000), &ahead, [6, 9], level));
    }
}
