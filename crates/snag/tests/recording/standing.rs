//! What a replay calls confirmed has been seen: both threads in front of just these accesses, at the same time.

use crate::sturdy::program;
use crate::support::*;

/// Records a program in one of its modes and replays all that is found; ids, exit status and what is said.
fn replayed(folder: &Folder, mode: &str) -> Vec<(String, Option<i32>, String)> {
    let recorded = snag(folder, &["record", "-o", "run.snag", "--quantum", "10000", "--", "./program", mode]);
    assert_eq!(recorded.status.code(), Some(0), "{mode}: {}", complaint(&recorded));
    let found = text(&snag(folder, &["check", "run.snag"]));
    let is_finding = |line: &&str| line.starts_with('R') || line.starts_with('D');
    let ids = found.lines().filter(is_finding).filter_map(|line| line.split([' ', ':']).next());
    ids.map(|id| {
        let driven = snag(folder, &["replay", "run.snag", "--race", id]);
        (id.to_owned(), driven.status.code(), text(&driven) + &complaint(&driven))
    })
    .collect()
}

const TRUE: [&str; 25] = [
    "load",
    "store",
    "add",
    "compare",
    "compare-fails",
    "memcpy-from",
    "memcpy-to",
    "memcpy-short",
    "memset",
    "strcpy",
    "strcpy-from",
    "strlen",
    "strdup",
    "strtol",
    "word",
    "huge",
    "packed",
    "structure",
    "read",
    "write",
    "free",
    "realloc",
    "both",
    "deadlock",
    "rwlock",
];

#[test]
fn races_of_every_kind_of_access_are_confirmed() {
    let folder = Folder::new("stands");
    compile(
        "gcc",
        &["-g", "-w", "-O1", "-fno-builtin", "-fsanitize=thread"],
        &program("stands.c"),
        &folder.path("program"),
    );
    for mode in TRUE {
        let found = replayed(&folder, mode);
        assert!(!found.is_empty(), "{mode}: nothing was found");
        for (id, status, said) in found {
            assert!(status == Some(1) && said.contains(&format!("{id} confirmed")), "{mode} {id}: {status:?} {said}");
        }
    }
}

/// The mode, and where the second thread stands instead.
const FALSE: [(&str, &str); 10] = [
    ("line", "a write of 4 bytes at"),
    ("direction", "a read of 4 bytes at"),
    ("size", "a write of 2 bytes at"),
    ("call", "an allocation of 10 bytes"),
    ("lock", "the taking of a lock at"),
    ("atomic", "(atomics[0])"),
    ("copy", "which does not touch what was recorded"),
    ("free", "the freeing of a block at"),
    ("deadlock", "(third)"),
    ("library", "the taking of a lock at"),
];

#[test]
fn a_thread_that_stands_elsewhere_does_not_confirm_a_race() {
    let folder = Folder::new("stands-elsewhere");
    let flags = ["-g", "-w", "-O1", "-fno-builtin", "-fsanitize=thread"];
    compile("gcc", &flags, &program("stands_elsewhere.c"), &folder.path("program"));
    for (mode, instead) in FALSE {
        let found = replayed(&folder, mode);
        assert!(!found.is_empty(), "{mode}: nothing was found");
        for (id, status, said) in found {
            let place = "stands_elsewhere.c:";
            let is_right = said.contains(&format!("{id} not confirmed")) && said.contains("T2 stands in front of");
            assert!(is_right && said.contains(instead) && said.contains(place), "{mode} {id}: {said}");
            assert_eq!(status, Some(2), "{mode} {id}: {said}");
        }
    }
}

#[test]
fn races_of_cpp_objects_are_confirmed() {
    let folder = Folder::new("stands-cpp");
    compile("g++", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("stands.cpp"), &folder.path("program"));
    for mode in ["string", "deleted", "destroyed", "vector", "member"] {
        let found = replayed(&folder, mode);
        assert!(!found.is_empty(), "{mode}: nothing was found");
        for (id, status, said) in found {
            assert!(status == Some(1) && said.contains(&format!("{id} confirmed")), "{mode} {id}: {status:?} {said}");
        }
    }
}

/// All that a report says of a program in one of its modes.
fn reported(folder: &Folder, mode: &str) -> String {
    let output = snag(folder, &["run", "--", "./program", mode]);
    assert_eq!(output.status.code(), Some(1), "{mode}: {}{}", text(&output), complaint(&output));
    text(&output)
}

#[test]
fn functions_left_by_longjmp_are_in_no_stack() {
    let folder = Folder::new("left-behind");
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("left_behind.c"), &folder.path("program"));
    for mode in ["longjmp", "_longjmp", "siglongjmp", "here", "handler"] {
        let report = reported(&folder, mode);
        assert!(report.contains("data race on g") && report.contains("was created by"), "{mode}: {report}");
        let stale = ["deep", "jumper"].iter().any(|name| report.contains(name));
        assert!(!stale, "{mode}: {report}");
    }
}

#[test]
fn functions_left_by_an_exception_are_in_no_stack() {
    let folder = Folder::new("thrown");
    let (flags, object) = (["-g", "-w", "-O1", "-fsanitize=thread"], folder.path("through.o"));
    compile("gcc", &[&flags[..], &["-funwind-tables", "-c"]].concat(), &program("thrown_through.c"), &object);
    let with_object = [&flags[..], &[object.to_str().unwrap()]].concat();
    compile("g++", &with_object, &program("thrown.cpp"), &folder.path("program"));
    let report = reported(&folder, "");
    assert!(report.contains("data race on g") && !report.contains("deep at"), "{report}");
}
