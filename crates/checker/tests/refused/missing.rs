//! Missing methods.

use crate::support::*;
use snag_checker::ScheduleRule as Rule;

const MISSING: &str = "
    0 A method-begin m x,lock:l,thread:D,0x10:8
    1 A write free
    2 A method-end m
    3 B write x
    4 B write other
    5 C acquire l
    6 C release l
    7 C write 0x14:8
    8 E method-begin n y
    9 E method-end n
    10 F method-begin o x
    11 F method-end o
    12 G fork D
    13 D begin
    14 H write free
    15 H write 0x18:1";

#[test]
fn missing_method_order_broken_by_a_touch() {
    let all_of_m = [0, 1, 2];
    for touch in [3, 5, 12] {
        accepted(feasible(MISSING, &[&all_of_m[..], &[touch]].concat(), Writer));
        refused(feasible(MISSING, &[touch], Writer), Rule::MissingMethod, touch);
        refused(feasible(MISSING, &[0, 1, touch], Writer), Rule::MissingMethod, touch);
    }
    // What it could not reach may come first.
    accepted(feasible(MISSING, &[14, 15], Writer));
}

#[test]
fn every_kind_of_touch_keeps_its_order_with_a_missing_method() {
    // What B or D has done before the call, and what is ordered with the call.
    let touches: &[(&[&str], &str)] = &[
        (&[], "B read x"),
        (&[], "B write x"),
        (&[], "B atomic-read x"),
        (&[], "B atomic-write x"),
        (&[], "B rmw x"),
        (&["B alloc x"], "B free x"),
        (&[], "B alloc x"),
        (&[], "B acquire l"),
        (&["B acquire l"], "B release l"),
        (&[], "B read-acquire l"),
        (&["B read-acquire l"], "B read-release l"),
        (&["B acquire l"], "B wait-begin c l"),
        (&["B acquire l", "B wait-begin c l", "B wake c"], "B wait-end c l"),
        (&[], "B fork D"),
        (&["D write q"], "B join D"),
        (&[], "D begin"),
        (&["D write q"], "D end"),
    ];

    for &(before, touch) in touches {
        let calls = ["A method-begin m x,lock:l,thread:D", "A method-end m"];
        let [call, last] = [before.len() as u32, before.len() as u32 + 2];
        let prefix: Vec<u32> = (0..call).collect();
        let after_call = numbered(before.iter().chain(&calls).chain([&touch]));
        accepted(feasible(&after_call, &[&prefix[..], &[call, call + 1, last]].concat(), Writer));
        refused(feasible(&after_call, &[&prefix[..], &[last]].concat(), Writer), Rule::MissingMethod, last);
        refused(feasible(&after_call, &[&prefix[..], &[call, last]].concat(), Writer), Rule::MissingMethod, last);
        let before_call = numbered(before.iter().chain([&touch]).chain(&calls));
        accepted(feasible(&before_call, &[&prefix[..], &[call, call + 1]].concat(), Writer));
        refused(feasible(&before_call, &[&prefix[..], &[call + 1]].concat(), Writer), Rule::MissingMethod, call + 1);
    }
}

#[test]
fn what_touches_nothing_is_not_ordered_with_a_missing_method() {
    for free in ["B write y", "B sem-post l", "B notify x", "B acquire x", "B fork E", "B begin", "B branch"] {
        let trace = numbered([&"A method-begin m x,lock:l,thread:D", &"A method-end m", &free]);
        accepted(feasible(&trace, &[2, 0], Writer));
    }
}

#[test]
fn missing_method_reaches_overlapping_ranges() {
    let trace = "
        0 A method-begin m 0x10:8
        1 A method-end m
        2 B write 0x17:2
        3 C write 0x18:2
        4 D method-begin n 0x0:17
        5 D method-end n
        6 E method-begin o 0x19:8
        7 E method-end o";
    refused(feasible(trace, &[2], Writer), Rule::MissingMethod, 2);
    accepted(feasible(trace, &[3, 6, 7], Writer));
    refused(feasible(trace, &[4], Writer), Rule::MissingMethod, 4);
    refused(feasible(trace, &[6], Writer), Rule::MissingMethod, 6);
}

#[test]
fn missing_method_order_broken_by_another_call() {
    accepted(feasible(MISSING, &[8, 9, 0, 1, 2, 3, 10, 11], Writer));
    refused(feasible(MISSING, &[10], Writer), Rule::MissingMethod, 10);
    refused(feasible(MISSING, &[0, 1, 2, 10], Writer), Rule::MissingMethod, 10);
}

#[test]
fn missing_method_before_an_earlier_touch() {
    let trace = "
        0 A write x
        1 B read x
        2 B write y
        3 C method-begin m x
        4 C write y
        5 C method-end m";
    accepted(feasible(trace, &[0, 1, 3], Writer));
    refused(feasible(trace, &[0, 3], Writer), Rule::MissingMethod, 3);
    // What B does after its touch is not ordered with what C does inside the call.
    accepted(race(trace, &[0, 1, 3], [2, 4], Writer));
}

#[test]
fn events_inside_a_call_keep_their_order_with_touches_in_between() {
    let trace = "
        0 A method-begin m x
        1 B write x
        2 A write y
        3 A method-end m
        4 C write y";
    accepted(feasible(trace, &[0, 1, 2, 3], Writer));
    refused(feasible(trace, &[0, 2], Writer), Rule::MissingMethod, 2);
    refused(feasible(trace, &[0, 4, 2], Writer), Rule::MissingMethod, 2);
}

#[test]
fn racing_events_that_a_missing_method_orders() {
    let trace = "
        0 A method-begin m x
        1 A write x
        2 A method-end m
        3 B write x
        4 C write x";
    // The write inside the call and the one after it keep their order.
    refused(race(trace, &[0], [1, 3], Control), Rule::MissingMethod, 3);
    // Two touches do not, once the call is over.
    accepted(race(trace, &[0, 1, 2], [3, 4], Writer));
    refused(race(trace, &[0, 1], [3, 4], Writer), Rule::MissingMethod, 3);
}
