//! Litmus tests of memory orders in C, C++ and Rust: what is expected of each by the standards, and what is found.

use crate::rust::rustc;
use crate::support::*;
use serde_json::Value;
use std::path::Path;

/// What a litmus test shows.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Shows {
    Nothing,
    /// A race by memory order, and nothing else.
    Order,
    /// A race in the plain sense.
    Race,
}
use Shows::{Nothing, Order, Race};

/// Threads of a litmus test, and what it shows.
const TABLE: &[(&[&str], Shows)] = &[
    // Message passing: a relaxed, releasing or sequentially consistent write, and a relaxed, acquiring, consuming or
    // sequentially consistent read.
    (&["w_rlx", "r_rlx"], Order),
    (&["w_rlx", "r_con"], Order),
    (&["w_rlx", "r_acq"], Order),
    (&["w_rlx", "r_sc"], Order),
    (&["w_rel", "r_rlx"], Order),
    (&["w_rel", "r_con"], Nothing),
    (&["w_rel", "r_acq"], Nothing),
    (&["w_rel", "r_sc"], Nothing),
    (&["w_sc", "r_rlx"], Order),
    (&["w_sc", "r_con"], Nothing),
    (&["w_sc", "r_acq"], Nothing),
    (&["w_sc", "r_sc"], Nothing),
    // Fences on both sides, on one side, with an order on the other.
    (&["w_frel", "r_facq"], Nothing),
    (&["w_frel", "r_rlx"], Order),
    (&["w_rlx", "r_facq"], Order),
    (&["w_frel", "r_acq"], Nothing),
    (&["w_rel", "r_facq"], Nothing),
    (&["w_far", "r_far"], Nothing),
    (&["w_fsc", "r_fsc"], Nothing),
    // Fences in the wrong place, and of the wrong kind.
    (&["w_flate", "r_acq"], Order),
    (&["w_rel", "r_fearly"], Order),
    (&["w_fwrong", "r_acq"], Order),
    (&["w_rel", "r_fwrong"], Order),
    // Release sequences: read-modify-writes go on with one, whatever their order; stores end it, since C++20 also those
    // of the same thread.
    (&["w_rel", "s_rmw", "r_two"], Nothing),
    (&["w_rel", "s_rmw", "s_rmw2", "r_three"], Nothing),
    (&["w_rlx", "s_rmw", "r_two"], Order),
    (&["w_frel", "s_rmw", "r_two"], Nothing),
    (&["w_rel", "s_store", "r_two"], Order),
    (&["s_own", "r_two"], Order),
    // Compare-exchange: one that succeeds has one order, one that fails another.
    (&["x_write_rel", "r_acq"], Nothing),
    (&["x_write_rlx", "r_acq"], Order),
    (&["w_rel", "x_done_acq"], Nothing),
    (&["w_rel", "x_done_rlx"], Order),
    (&["w_rel", "x_failed_acq"], Nothing),
    (&["w_rel", "x_failed_rlx"], Order),
    (&["w_rel", "x_failed_facq"], Nothing),
    (&["w_rlx", "x_failed_acq"], Order),
    // Attempts that fail synchronise with nothing, even where they show that another thread has come far enough.
    (&["a_hold", "a_try"], Order),
    (&["a_hold", "a_wait"], Nothing),
    (&["a_post", "a_look"], Order),
    (&["a_post", "a_pass"], Nothing),
    // Sequence locks with atomic data and with plain data.
    (&["lock_read_atomic", "lock_write_atomic", "lock_read_atomic"], Nothing),
    (&["lock_read_plain", "lock_write_plain", "lock_read_plain"], Race),
    // Double-checked locking.
    (&["once_first_right", "once_then_right"], Nothing),
    (&["once_first_wrong", "once_then_wrong"], Order),
    (&["once_first_unreleased", "once_then_right"], Order),
    (&["once_first_right", "once_then_unacquired"], Order),
    // Dekker. With release and acquire, both threads can be inside at once by the standards; but no interleaving leads
    // there, so nothing is found.
    (&["dekker_first_sc", "dekker_second_sc"], Nothing),
    (&["dekker_first_fence", "dekker_second_fence"], Nothing),
    (&["dekker_first_ra", "dekker_second_ra"], Nothing),
    (&["dekker_first_rlx", "dekker_second_rlx"], Order),
    (&["dekker_first_fence_rlx", "dekker_second_fence_rlx"], Order),
    // Reference counts: with a fence for the last one, with both orders, without the fence (as in an Arc that leaves it
    // out), relaxed.
    (&["count_fence", "count_fence"], Nothing),
    (&["count_acqrel", "count_acqrel"], Nothing),
    (&["count_no_acquire", "count_no_acquire"], Order),
    (&["count_rlx", "count_rlx"], Order),
    (&["share_fence", "share_fence"], Nothing),
    (&["share_no_acquire", "share_no_acquire"], Order),
];

/// What Snag finds in a run of a litmus test; every finding is verified again.
fn found(folder: &Folder, threads: &[&str]) -> Shows {
    let mut arguments = vec!["record", "-o", "run.snag", "--", "./litmus"];
    arguments.extend(threads);
    let output = snag(folder, &arguments);
    assert_eq!(output.status.code(), Some(0), "{threads:?}: {}{}", text(&output), complaint(&output));
    let checked = snag(folder, &["check", "--format", "json", "-o", "found.json", "run.snag"]);
    assert!(matches!(checked.status.code(), Some(0 | 1)), "{threads:?}: {}", complaint(&checked));
    let json: Value = serde_json::from_slice(&std::fs::read(folder.path("found.json")).unwrap()).unwrap();
    let races = json["traces"][0]["races"].as_array().unwrap();
    if races.is_empty() {
        return Nothing;
    }
    let verified = snag(folder, &["verify", "run.snag", "found.json"]);
    assert_eq!(verified.status.code(), Some(0), "{threads:?}: {}", text(&verified));
    if races.iter().all(|race| race["kind"] == "order") { Order } else { Race }
}

/// Runs all tests but those with threads that a language has no words for.
fn all_rows(folder: &Folder, without: &[&str]) {
    let wrong: Vec<_> = TABLE
        .iter()
        .filter(|(threads, _)| !threads.iter().any(|thread| without.contains(thread)))
        .map(|&(threads, expected)| (threads, expected, found(folder, threads)))
        .filter(|(_, expected, found)| expected != found)
        .collect();
    assert!(wrong.is_empty(), "test, expected, found: {wrong:#?}");
}

fn source(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

#[test]
fn litmus_tests_in_c_show_what_the_standard_says() {
    if !have("gcc") {
        return;
    }
    let folder = Folder::new("litmus-c");
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &source("litmus.c"), &folder.path("litmus"));
    all_rows(&folder, &[]);
}

#[test]
fn litmus_tests_in_cpp_show_what_the_standard_says() {
    if !have("g++") {
        return;
    }
    let folder = Folder::new("litmus-cpp");
    let flags = ["-std=c++20", "-g", "-O1", "-fsanitize=thread", "-Wno-tsan"];
    compile("g++", &flags, &source("litmus.cpp"), &folder.path("litmus"));
    all_rows(&folder, &["a_post"]);
}

#[test]
fn litmus_tests_in_rust_show_what_the_standard_says() {
    let folder = Folder::new("litmus-rust");
    if rustc(&source("rust/litmus.rs"), &["-Copt-level=1"], &folder.path("litmus")) {
        all_rows(&folder, &["r_con", "a_hold", "a_post"]);
    }
}

#[test]
fn the_examples_race_by_memory_order_and_their_fixed_variants_do_not() {
    let folder = Folder::new("litmus-examples");
    for (flags, expected) in [(&[][..], Order), (&["-DFIXED"], Nothing)] {
        if have("gcc") {
            let flags = [&["-g", "-O1", "-fsanitize=thread"], flags].concat();
            compile("gcc", &flags, &example("relaxed_flag.c"), &folder.path("litmus"));
            assert_eq!(found(&folder, &[]), expected, "relaxed_flag.c {flags:?}");
        }
    }
    for (flags, expected) in [(&["-Copt-level=1"][..], Order), (&["-Copt-level=1", "--cfg", "fixed"], Nothing)] {
        if rustc(&example("shared_count.rs"), flags, &folder.path("litmus")) {
            assert_eq!(found(&folder, &[]), expected, "shared_count.rs {flags:?}");
        }
    }
}
