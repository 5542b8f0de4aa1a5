//! What each level allows and the one below it refuses.

mod support;

use snag_checker::ScheduleRule as Rule;
use snag_model::Level;
use support::*;

/// The answers at levels `writer`, `value` and `control`.
#[track_caller]
fn answers(text: &str, schedule: &[u32], expected: [Result<(), Rule>; 3]) {
    let answers = LEVELS.map(|level| feasible(text, schedule, level).map_err(|violation| violation.rule));
    assert_eq!(answers, expected);
}

const ALL: [Result<(), Rule>; 3] = [Ok(()); 3];
const FROM_VALUE: [Result<(), Rule>; 3] = [Err(Rule::OtherWrite), Ok(()), Ok(())];
const ONLY_CONTROL: [Result<(), Rule>; 3] = [Err(Rule::OtherWrite), Err(Rule::OtherValue), Ok(())];
const NONE: [Result<(), Rule>; 3] = [Err(Rule::OtherWrite), Err(Rule::OtherValue), Err(Rule::OtherValue)];

const PROGRAM: &str = "
    declare initial x 1
    0 A write x =1
    1 B write x =2
    2 C write x =1
    3 D read x =1
    4 D write y =1
    5 D branch
    6 D write z
    7 E write z";

#[test]
fn same_write() {
    answers(PROGRAM, &[0, 1, 2, 3, 4, 5], ALL);
    answers(PROGRAM, &[2, 3, 4, 5, 0, 1], ALL);
}

#[test]
fn other_write_of_the_same_value() {
    answers(PROGRAM, &[2, 1, 0, 3, 4, 5], FROM_VALUE);
}

#[test]
fn declared_initial_memory_of_the_same_value() {
    answers(PROGRAM, &[3, 4, 5], FROM_VALUE);
}

#[test]
fn other_value_that_no_branch_depends_on() {
    answers(PROGRAM, &[0, 1, 3, 4], ONLY_CONTROL);
}

#[test]
fn other_value_before_a_branch() {
    answers(PROGRAM, &[0, 1, 3, 4, 5], NONE);
}

#[test]
fn other_value_in_the_last_read_of_a_thread() {
    answers(PROGRAM, &[1, 3], ALL);
}

#[test]
fn a_race_needs_more_of_the_last_read_than_a_schedule() {
    let trace = "
        0 A write x =1
        1 B read x =1
        2 B write z
        3 C write z
        4 D branch";
    answers(trace, &[1], ALL);
    let race = |level: Level| race(trace, &[1], [2, 3], level).map_err(|violation| violation.rule);
    assert_eq!(LEVELS.map(race), ONLY_CONTROL);
}

#[test]
fn the_first_read_tells_what_memory_held() {
    let trace = "
        0 A read x =3
        1 B write x =4
        2 C write x =3
        3 D read x =3
        4 D branch";
    // D saw the write of C, and finds what A found.
    answers(trace, &[0, 3, 4], FROM_VALUE);
    answers(trace, &[3, 4], FROM_VALUE);
    answers(trace, &[1, 3, 4], NONE);
}

#[test]
fn a_declaration_counts_more_than_the_first_read() {
    let trace = "
        declare initial x 5
        0 A read x =3
        1 C write x =3
        2 D read x =3
        3 D branch";
    answers(trace, &[2, 3], NONE);
}

#[test]
fn the_first_read_has_no_value() {
    let trace = "
        0 A read x
        1 B read x =3
        2 C write x =3
        3 D read x =3
        4 D branch";
    answers(trace, &[0, 3, 4], NONE);
}

#[test]
fn a_write_precedes_the_first_read() {
    let trace = "
        0 A write x =3
        1 B read x =3
        2 B branch";
    answers(trace, &[1, 2], NONE);
}

#[test]
fn what_one_range_declares_about_part_of_another() {
    let trace = "
        declare initial 0x10:2 0x3344
        declare initial 0x12:1 0x22
        0 A write 0x10:4 =0x11223344
        1 B read 0x10:4 =0x11223344
        2 B branch
        3 C write 0x13:1 =0x11";
    // Bytes 0 to 2 are declared; what byte 3 held nobody knows.
    answers(trace, &[1, 2], NONE);
    answers(trace, &[3, 1, 2], FROM_VALUE);
}

#[test]
fn the_first_read_completes_what_is_declared() {
    let trace = "
        declare initial 0x10:2 0x3344
        0 A read 0x10:4 =0x11225555
        1 C write 0x10:4 =0x11223344
        2 B read 0x10:4 =0x11223344
        3 B branch
        4 D write 0x10:4 =0x11225555
        5 E read 0x10:4 =0x11225555
        6 E branch";
    answers(trace, &[2, 3], FROM_VALUE);
    answers(trace, &[5, 6], NONE);
}

#[test]
fn fresh_memory_does_not_hold_what_was_declared_of_its_address() {
    let trace = "
        declare initial 0x10:4 7
        0 A alloc 0x10:4
        1 A write 0x10:4 =7
        2 B read 0x10:4 =7
        3 B branch";
    answers(trace, &[0, 1, 2, 3], ALL);
    answers(trace, &[0, 2, 3], NONE);
}

#[test]
fn halves_of_a_value_from_two_writes() {
    let trace = "
        0 A write 0x10:8 =0x100000002
        1 B read 0x10:8 =0x100000002
        2 B branch
        3 C write 0x10:4 =2
        4 D write 0x14:4 =1";
    answers(trace, &[3, 4, 1, 2], FROM_VALUE);
    answers(trace, &[3, 1, 2], NONE);
}

#[test]
fn values_are_compared_byte_by_byte_whatever_their_sign() {
    let trace = "
        0 A write 0x10:1 =-1
        1 B read 0x10:1 =255
        2 B branch
        3 C write 0x10:1 =255";
    answers(trace, &[3, 1, 2], FROM_VALUE);
}

#[test]
fn an_rmw_leaves_what_it_wrote() {
    let trace = "
        0 A rmw x =0>1
        1 B read x =1
        2 B branch
        3 C write x =1
        4 D write x =0";
    answers(trace, &[0, 3, 1, 2], FROM_VALUE);
    // An rmw must be kept even if it is the last event, but not at level control.
    answers(trace, &[3, 0], ONLY_CONTROL);
    answers(trace, &[4, 0], FROM_VALUE);
}

#[test]
fn unknown_values_do_not_spread_without_a_read() {
    let trace = "
        0 A write x =1
        1 B read x =1
        2 B write y =1
        3 C write y =1
        4 D read y =1
        5 D branch";
    // B has read something else, but C writes y again.
    answers(trace, &[1, 2, 3, 4, 5], ONLY_CONTROL);
    let overwritten = LEVELS.map(|level| feasible(trace, &[1, 3, 2, 4, 5], level).map_err(|v| v.rule));
    assert_eq!(overwritten[2], Err(Rule::UnknownValue));
}

#[test]
fn control_flow_that_has_not_happened_yet_does_not_matter() {
    let trace = "
        0 A write x =1
        1 B read x =1
        2 B write z
        3 B branch
        4 C write z";
    let race = |level: Level| race(trace, &[1], [2, 4], level).map_err(|violation| violation.rule);
    assert_eq!(LEVELS.map(race), ONLY_CONTROL);
}
