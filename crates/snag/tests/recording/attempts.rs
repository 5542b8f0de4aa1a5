//! What an attempt that fails tells a thread is part of the trace: races that only its success would lead to are none.

use crate::sturdy::program;
use crate::support::*;

const MODES: [&str; 11] = [
    "mutex",
    "timed",
    "writing",
    "reading",
    "readers",
    "timed-reading",
    "spin",
    "c11",
    "semaphore",
    "timed-semaphore",
    "value",
];

fn compiled(folder: &Folder) {
    compile("gcc", &["-g", "-O1", "-fsanitize=thread", "-pthread"], &program("attempts.c"), &folder.path("program"));
}

/// The first lines of what was found.
fn found(folder: &Folder) -> Vec<String> {
    let checked = text(&snag(folder, &["check", "run.snag"]));
    let is_finding = |line: &&str| line.starts_with('R') || line.starts_with('D');
    checked.lines().filter(is_finding).map(str::to_owned).collect()
}

#[test]
fn what_rests_on_a_failed_attempt_is_no_race_and_what_does_not_is_one() {
    let folder = Folder::new("attempts");
    compiled(&folder);
    for seed in [&[][..], &["--seed", "1"], &["--seed", "7"]] {
        for mode in MODES {
            let arguments = [&["record"], seed, &["-o", "run.snag", "--", "./program", mode]].concat();
            let recorded = snag(&folder, &arguments);
            assert_eq!(recorded.status.code(), Some(0), "{mode}: {}", complaint(&recorded));
            let found = found(&folder);
            let is_one_on = |name: &str| found.iter().any(|line| line.contains(&format!("data race on {name}:")));
            assert!(!is_one_on("x") && is_one_on("z"), "{mode}, {seed:?}: {found:#?}");
        }
    }
}

#[test]
fn a_run_with_failed_attempts_is_replayed_to_its_end_and_its_race_confirmed() {
    let folder = Folder::new("attempts-replayed");
    compiled(&folder);
    for mode in MODES {
        let recorded = snag(&folder, &["record", "-o", "run.snag", "--", "./program", mode]);
        assert_eq!(recorded.status.code(), Some(0), "{mode}: {}", complaint(&recorded));
        let whole = snag(&folder, &["replay", "run.snag"]);
        assert!(whole.status.code() == Some(0), "{mode}: {}{}", text(&whole), complaint(&whole));
        let driven = snag(&folder, &["replay", "run.snag", "--race", "R1"]);
        let said = text(&driven) + &complaint(&driven);
        assert!(driven.status.code() == Some(1) && said.contains("R1 confirmed"), "{mode}: {said}");
    }
}

#[test]
fn a_thread_that_cannot_be_joined_yet_has_not_ended() {
    let folder = Folder::new("attempts-join");
    compiled(&folder);
    let recorded = snag(&folder, &["record", "-o", "run.snag", "--", "./program", "join"]);
    assert_eq!(recorded.status.code(), Some(0), "{}", complaint(&recorded));
    let converted = snag(&folder, &["convert", "run.snag", "run.stx"]);
    assert_eq!(converted.status.code(), Some(0), "{}", complaint(&converted));
    let lines = std::fs::read_to_string(folder.path("run.stx")).expect("it was written");
    assert!(lines.contains("|join-fail(T1)|"), "{lines}");
    let found = found(&folder);
    assert!(found.len() == 1 && found[0].contains("data race on z:"), "{found:#?}");
}

/// `x` is written by both only if the second thread's attempt to wait succeeds, which it does not before the first one's
/// write.
#[test]
fn an_attempt_to_wait_that_goes_the_other_way_is_no_race() {
    let folder = Folder::new("attempts-semaphore");
    let flags = ["-g", "-w", "-O1", "-fno-builtin", "-fsanitize=thread"];
    compile("gcc", &flags, &program("stands_elsewhere.c"), &folder.path("program"));
    let recorded = snag(&folder, &["record", "-o", "run.snag", "--", "./program", "semaphore"]);
    assert_eq!(recorded.status.code(), Some(0), "{}", complaint(&recorded));
    assert_eq!(found(&folder), Vec::<String>::new());
}
