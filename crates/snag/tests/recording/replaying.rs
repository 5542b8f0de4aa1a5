//! Recordings run again, and every race of the examples made to happen.

use crate::sturdy::program;
use crate::support::*;

const EXAMPLES: [&str; 9] = [
    "bank_account.c",
    "double_checked.c",
    "spinning_flag.c",
    "bounded_queue.c",
    "lazy_initialisation.c",
    "reference_count.c",
    "non_nested_locks.c",
    "state_machine.c",
    "worker_pool.cpp",
];

fn compiler(source: &str) -> &'static str {
    if source.ends_with(".cpp") { "g++" } else { "gcc" }
}

#[test]
fn every_race_of_the_examples_is_confirmed_and_every_recording_repeated() {
    for source in EXAMPLES {
        let folder = Folder::new(&format!("replay-{source}"));
        compile(compiler(source), &["-g", "-O1", "-fsanitize=thread"], &example(source), &folder.path("program"));
        let seeds: [&[&str]; 3] = [&[], &["--seed", "3", "--quantum", "3"], &["--quantum", "1"]];
        for how in seeds {
            let mut record = vec!["record", "-o", "run.snag"];
            record.extend(how);
            record.extend(["--", "./program"]);
            assert_eq!(snag(&folder, &record).status.code(), Some(0), "{source}");
            let repeated = snag(&folder, &["replay", "run.snag"]);
            assert_eq!(repeated.status.code(), Some(0), "{source} {how:?}: {}", text(&repeated));
            assert!(text(&repeated).contains("repeated: all"), "{source}: {}", text(&repeated));
            let found = snag(&folder, &["check", "run.snag"]);
            let races = text(&found).lines().filter(|line| line.starts_with('R')).count();
            for number in 1..=races {
                let id = format!("R{number}");
                let driven = snag(&folder, &["replay", "run.snag", "--race", &id]);
                assert_eq!(driven.status.code(), Some(1), "{source} {how:?} {id}: {}", text(&driven));
                assert!(text(&driven).contains(&format!("{id} confirmed")), "{source}: {}", text(&driven));
            }
        }
    }
}

#[test]
fn every_recording_of_the_examples_is_repeated_twenty_times_of_twenty() {
    for source in EXAMPLES {
        let folder = Folder::new(&format!("twenty-{source}"));
        compile(compiler(source), &["-g", "-O1", "-fsanitize=thread"], &example(source), &folder.path("program"));
        let record = ["record", "-o", "run.snag", "--seed", "7", "--quantum", "2", "--", "./program"];
        assert_eq!(snag(&folder, &record).status.code(), Some(0), "{source}");
        let said = |round| {
            let repeated = snag(&folder, &["replay", "run.snag"]);
            assert_eq!(repeated.status.code(), Some(0), "{source}, replay {round}: {}", text(&repeated));
            text(&repeated)
        };
        let first = said(1);
        assert!(first.contains("repeated: all"), "{source}: {first}");
        for round in 2..=20 {
            assert_eq!(said(round), first, "{source}, replay {round}");
        }
    }
}

/// Found records of cancellation at addresses that depended on the schedule.
#[test]
fn cancellation_is_repeated() {
    let folder = Folder::new("cancellation");
    let flags = ["-g", "-w", "-O1", "-fsanitize=thread"];
    compile("gcc", &flags, &crate::sturdy::program("cancel.c"), &folder.path("program"));
    for seed in ["1", "2", "3"] {
        let record = ["record", "-o", "run.snag", "--seed", seed, "--quantum", "3", "--", "./program"];
        assert_eq!(snag(&folder, &record).status.code(), Some(0), "seed {seed}");
        let repeated = snag(&folder, &["replay", "run.snag"]);
        assert!(text(&repeated).contains("repeated: all"), "seed {seed}: {}", text(&repeated));
    }
}

/// Found files that were taken for others that are gone.
#[test]
fn descriptors_have_the_same_numbers_again() {
    let folder = Folder::new("numbers");
    let flags = ["-g", "-w", "-O1", "-fsanitize=thread"];
    compile("gcc", &flags, &crate::sturdy::program("numbers.c"), &folder.path("program"));
    for seed in ["1", "2", "3", "4"] {
        let record = ["record", "-o", "run.snag", "--seed", seed, "--quantum", "3", "--", "./program", "repeatable"];
        assert_eq!(snag(&folder, &record).status.code(), Some(0), "seed {seed}");
        let repeated = snag(&folder, &["replay", "run.snag"]);
        assert!(text(&repeated).contains("repeated: all"), "seed {seed}: {}", text(&repeated));
    }
}

#[test]
fn who_comes_first_in_a_race_can_be_seen_in_the_output() {
    let folder = Folder::new("many");
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &example("bank_account.c"), &folder.path("program"));
    let record = ["record", "-o", "run.snag", "--quantum", "10000", "--", "./program"];
    assert_eq!(snag(&folder, &record).status.code(), Some(0));
    let output = snag(&folder, &["replay", "run.snag", "--race", "R1", "--many", "2"]);
    let report = text(&output);
    assert_eq!(output.status.code(), Some(1), "{report}{}", complaint(&output));
    let (first, second) = report.split_once("first the write").expect(&report);
    assert!(first.contains("exit status 0, output 'balance 200, audited 100"), "{report}");
    assert!(second.contains("exit status 0, output 'balance 200, audited 110"), "{report}");
}

#[test]
fn what_has_changed_since_the_recording_is_said() {
    let folder = Folder::new("changed");
    let flags = ["-g", "-fsanitize=thread"];
    compile("gcc", &flags, &example("bank_account.c"), &folder.path("program"));
    assert_eq!(snag(&folder, &["record", "-o", "run.snag", "--", "./program"]).status.code(), Some(0));
    let other = snag(&folder, &["replay", "run.snag", "--", "./program", "argument"]);
    assert!(complaint(&other).contains("the recorded command was: ./program"), "{}", complaint(&other));
    compile("gcc", &["-g", "-fsanitize=thread", "-DFIXED"], &example("bank_account.c"), &folder.path("program"));
    let refused = snag(&folder, &["replay", "run.snag"]);
    assert!(complaint(&refused).contains("not replayed: ./program has changed"), "{}", complaint(&refused));
    assert_eq!((refused.status.code(), text(&refused).as_str()), (Some(2), ""));
    let output = snag(&folder, &["replay", "--trust", "run.snag"]);
    assert!(complaint(&output).contains("has changed since it was recorded"), "{}", complaint(&output));
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("diverged at event"), "{}", text(&output));
    let none = snag(&folder, &["replay", "--trust", "run.snag", "--race", "R9"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(complaint(&none).contains("there is no race R9"), "{}", complaint(&none));
}

#[test]
fn a_program_that_prints_without_end_is_ended_and_that_is_said() {
    let folder = Folder::new("printing");
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("printing.c"), &folder.path("program"));
    assert_eq!(snag(&folder, &["record", "-o", "run.snag", "--", "./program"]).status.code(), Some(0));
    let many = ["replay", "run.snag", "--race", "R1", "--many", "1"];
    let output = snag(&folder, &many);
    assert!(text(&output).contains("1 of 1: exit status 0, output 'done'\n"), "{}", text(&output));
    for name in ["long", "much"] {
        std::fs::write(folder.path(name), "").unwrap();
        let output = snag(&folder, &many);
        let said = "1 of 1: ended, as it printed more than 64 MB\n";
        assert!(matches!(output.status.code(), Some(0 | 1)), "{name}: {:?} {}", output.status, complaint(&output));
        assert_eq!(text(&output).matches(said).count(), 2, "{name}: {}", text(&output));
        std::fs::remove_file(folder.path(name)).unwrap();
    }
}

/// A program that meddles with what it shares with snag in its replays only, and how they end.
#[test]
fn nothing_is_confirmed_by_a_program_that_has_written_over_what_it_says() {
    use snag_recorder::wire::Header;
    use std::mem::offset_of;
    let folder = Folder::new("meddling");
    let places = [
        format!("-DLOOK_BEFORE={}", offset_of!(Header, look_before)),
        format!("-DTOOL={}", offset_of!(Header, tool)),
        format!("-DVERSION={}", offset_of!(Header, version)),
    ];
    let flags = [&["-g", "-w", "-O1", "-fsanitize=thread"][..], &places.each_ref().map(String::as_str)].concat();
    compile("gcc", &flags, &program("meddling.c"), &folder.path("program"));
    assert_eq!(snag(&folder, &["record", "-o", "run.snag", "--", "./program"]).status.code(), Some(0));
    let ways: [&[&str]; 3] = [
        &["replay", "run.snag"],
        &["replay", "run.snag", "--race", "R1"],
        &["replay", "run.snag", "--race", "R1", "--many", "1"],
    ];
    let confirmed = snag(&folder, ways[1]);
    assert!(text(&confirmed).contains("R1 confirmed"), "{}{}", text(&confirmed), complaint(&confirmed));
    for name in ["version", "tool"] {
        std::fs::write(folder.path(name), "").unwrap();
        for arguments in ways {
            let output = snag(&folder, arguments);
            let said = text(&output) + &complaint(&output);
            assert_eq!(output.status.code(), Some(2), "{name} {arguments:?}: {said}");
            assert!(said.contains("the program has damaged what it shares with snag"), "{name} {arguments:?}: {said}");
        }
        std::fs::remove_file(folder.path(name)).unwrap();
    }
    // What the runtime was told in the beginning counts.
    std::fs::write(folder.path("look"), "").unwrap();
    let output = snag(&folder, ways[1]);
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output), complaint(&output));
    assert!(text(&output).contains("R1 confirmed"), "{}{}", text(&output), complaint(&output));
}
