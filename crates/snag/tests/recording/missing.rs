//! Code that nobody sees: what a library without callbacks puts in order is no race, what it does not is one, and a replay
//! goes the way of the recording.

use crate::sturdy::program;
use crate::support::*;

const MODES: [&str; 6] = ["flag", "queue", "futex", "loop", "callback", "pointer"];

/// What the library becomes.
#[derive(Clone, Copy, PartialEq)]
enum Library {
    Shared,
    /// A part of the program.
    Static,
}

/// Builds a library without callbacks; returns what the linker needs for it.
fn library_of(folder: &Folder, compiler: &str, kind: Library, name: &str, source: &str) -> Vec<String> {
    if kind == Library::Static {
        let object = folder.path("library.o");
        compile(compiler, &["-O2", "-c"], &program(source), &object);
        return vec![object.display().to_string(), "-rdynamic".to_owned()];
    }
    let library = folder.path(&format!("lib{name}.so"));
    compile(compiler, &["-O2", "-fPIC", "-shared"], &program(source), &library);
    let path = format!("-L{}", folder.0.display());
    [&path, "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed", &format!("-l{name}")].map(str::to_owned).to_vec()
}

/// The library, and a program that uses it, built with these flags.
fn compiled(folder: &Folder, compiler: &str, kind: Library, flags: &[&str]) {
    let library = library_of(folder, compiler, kind, "unseen", "unseen_library.c");
    let source = folder.path("unseen.o");
    let level = flags.iter().find(|flag| flag.starts_with("-O")).unwrap_or(&"-O1");
    compile(compiler, &["-g", level, "-fsanitize=thread", "-c"], &program("unseen.c"), &source);
    // Libraries come after what needs them.
    let library: Vec<&str> = library.iter().map(String::as_str).collect();
    let all = [&["-g", "-fsanitize=thread"], flags, &library].concat();
    compile(compiler, &all, &source, &folder.path("program"));
}

/// Checks that races on `racy` are all that is found in the program's modes, and that replays follow.
fn only_the_planted_race_is_found(name: &str, compiler: &str, kind: Library, flags: &[&str], seeds: &[&[&str]]) {
    let folder = Folder::new(name);
    compiled(&folder, compiler, kind, flags);
    for mode in MODES {
        let mut found_one = false;
        for how in seeds {
            let record = [&["record", "-o", "run.snag"], *how, &["--", "./program", mode]].concat();
            let recorded = snag(&folder, &record);
            assert_eq!(recorded.status.code(), Some(0), "{mode} {how:?}: {}", complaint(&recorded));
            let trace = snag(&folder, &["convert", "run.snag", "run.stx"]);
            assert_eq!(trace.status.code(), Some(0), "{}", complaint(&trace));
            let trace = std::fs::read_to_string(folder.path("run.stx")).unwrap();
            let calls = trace.lines().filter_map(|line| line.split_once("method-begin(")?.1.split_once(','));
            let ours = ["channel", "push", "pop", "sleeping", "spinning", "job"];
            for (call, _) in calls {
                assert!(ours.iter().any(|name| call.starts_with(name)), "{mode}: {call} is no call of the library");
            }
            let checked = text(&snag(&folder, &["check", "run.snag"]));
            let races: Vec<&str> = checked.lines().filter(|line| line.starts_with('R')).collect();
            let is_planted = |line: &&str| line.contains("data race on racy:");
            assert!(races.iter().all(is_planted), "{mode} {how:?}: {races:#?}");
            found_one |= !races.is_empty();
            let whole = snag(&folder, &["replay", "run.snag"]);
            assert!(whole.status.code() == Some(0), "{mode} {how:?}: {}{}", text(&whole), complaint(&whole));
            for number in 1..=races.len() {
                let driven = snag(&folder, &["replay", "run.snag", "--race", &format!("R{number}")]);
                let said = text(&driven) + &complaint(&driven);
                assert!(driven.status.code() == Some(1) && said.contains("confirmed"), "{mode} {how:?}: {said}");
            }
        }
        assert!(found_one, "{mode}: the race on racy is never found");
    }
}

const SEEDS: [&[&str]; 4] = [&[], &["--seed", "1"], &["--seed", "2"], &["--seed", "5", "--quantum", "20"]];

#[test]
fn what_a_library_puts_in_order_is_no_race_and_what_it_does_not_is_one() {
    only_the_planted_race_is_found("missing", "gcc", Library::Shared, &[], &SEEDS);
}

#[test]
fn calls_through_tables_that_are_read_only_are_seen_as_well() {
    only_the_planted_race_is_found("missing-now", "gcc", Library::Shared, &["-Wl,-z,relro,-z,now"], &SEEDS[..2]);
    only_the_planted_race_is_found("missing-lazy", "gcc", Library::Shared, &["-Wl,-z,lazy"], &SEEDS[..2]);
    only_the_planted_race_is_found("missing-fixed", "gcc", Library::Shared, &["-no-pie"], &SEEDS[..2]);
}

#[test]
fn static_libraries_are_no_other() {
    only_the_planted_race_is_found("missing-static", "gcc", Library::Static, &[], &SEEDS);
    only_the_planted_race_is_found("missing-static-2", "gcc", Library::Static, &["-O2"], &SEEDS[..1]);
    let flags = ["-no-pie", "-O0"];
    only_the_planted_race_is_found("missing-static-fixed", "gcc", Library::Static, &flags, &SEEDS[..2]);
    let flags = ["-static-libtsan"];
    only_the_planted_race_is_found("missing-static-runtime", "gcc", Library::Static, &flags, &SEEDS[..1]);
    if have("clang") {
        only_the_planted_race_is_found("missing-static-clang", "clang", Library::Static, &["-O2"], &SEEDS);
        let flags = ["-no-pie"];
        only_the_planted_race_is_found("missing-static-clang-fixed", "clang", Library::Static, &flags, &SEEDS[..1]);
    }
}

#[test]
fn programs_of_clang_are_no_other() {
    if have("clang") {
        only_the_planted_race_is_found("missing-clang", "clang", Library::Shared, &[], &SEEDS);
        only_the_planted_race_is_found(
            "missing-clang-shared",
            "clang",
            Library::Shared,
            &["-shared-libsan"],
            &SEEDS[..1],
        );
    }
}

/// Ways out of the library other than returning, and arguments of all kinds.
const WAYS: [&str; 9] =
    ["exceptions", "jumps", "exits", "cancellation", "signals", "arguments", "looked-up", "virtual", "threads"];

/// What the mode prints without Snag: arguments and results come through as they are.
fn printed_by(mode: &str) -> &'static str {
    match mode {
        "exceptions" => "12\n",
        "jumps" | "signals" => "6\n",
        "arguments" => "3594\n",
        "looked-up" | "virtual" => "10\n",
        _ => "2\n",
    }
}

fn calls_are_closed_whichever_way_they_are_left(name: &str, compiler: &str, kind: Library) {
    let folder = Folder::new(name);
    let library = library_of(&folder, compiler, kind, "unseen_ways", "unseen_ways_library.cpp");
    let object = folder.path("ways.o");
    compile(compiler, &["-g", "-O1", "-fsanitize=thread", "-c"], &program("unseen_ways.cpp"), &object);
    let library: Vec<&str> = library.iter().map(String::as_str).collect();
    compile(compiler, &[&["-fsanitize=thread"], &library[..], &["-ldl"]].concat(), &object, &folder.path("program"));
    for mode in WAYS {
        for how in [&[][..], &["--seed", "3", "--quantum", "5"]] {
            let record = [&["record", "-o", "run.snag"], how, &["--", "./program", mode]].concat();
            let recorded = snag(&folder, &record);
            assert_eq!(recorded.status.code(), Some(0), "{mode} {how:?}: {}", complaint(&recorded));
            let said = text(&recorded);
            assert!(said.ends_with(printed_by(mode)), "{mode} {how:?}: {said}");
            let lines = said.lines().filter(|line| line.ends_with(" 3.75 6.5 8 1.5 36")).count();
            assert_eq!(lines, if mode == "arguments" { 6 } else { 0 }, "{mode} {how:?}: {said}");
            let checked = snag(&folder, &["check", "run.snag"]);
            let found = text(&checked);
            let races: Vec<&str> = found.lines().filter(|line| line.starts_with('R')).collect();
            let planted = races.iter().filter(|line| line.contains("data race on racy:")).count();
            assert!(planted == 1 && races.len() == 1, "{mode} {how:?}: {found}{}", complaint(&checked));
            let whole = snag(&folder, &["replay", "run.snag"]);
            assert!(whole.status.code() == Some(0), "{mode} {how:?}: {}{}", text(&whole), complaint(&whole));
        }
    }
}

#[test]
fn calls_are_closed_whichever_way_they_are_left_and_arguments_come_through() {
    calls_are_closed_whichever_way_they_are_left("missing-ways", "g++", Library::Shared);
    calls_are_closed_whichever_way_they_are_left("missing-ways-static", "g++", Library::Static);
}

#[test]
fn calls_of_programs_of_clang_are_closed_as_well() {
    if have("clang++") {
        calls_are_closed_whichever_way_they_are_left("missing-ways-clang", "clang++", Library::Shared);
        calls_are_closed_whichever_way_they_are_left("missing-ways-clang-static", "clang++", Library::Static);
    }
}

#[test]
fn where_nobody_sees_what_a_library_does_nothing_is_called_proved() {
    let folder = Folder::new("missing-labels");
    compiled(&folder, "gcc", Library::Shared, &[]);
    let record = ["record", "--free-running", "-o", "run.snag", "--", "./program", "futex"];
    assert_eq!(snag(&folder, &record).status.code(), Some(0));
    let checked = snag(&folder, &["check", "run.snag"]);
    let said = text(&checked);
    assert!(checked.status.code() == Some(1) && said.contains("possible race on racy:"), "{said}");
    assert!(!said.contains("data race on") && !said.contains(", proved:"), "{said}");
    assert!(said.contains("may be impossible: libunseen.so (threads ran freely)"), "{said}");
    let json = text(&snag(&folder, &["check", "--format", "json", "run.snag"]));
    assert!(json.contains("\"unseen_code\": [\n        \"libunseen.so (threads ran freely)\""), "{json}");
    let sarif = text(&snag(&folder, &["check", "--format", "sarif", "run.snag"]));
    assert!(sarif.contains("\"ruleId\": \"candidate\"") && !sarif.contains("\"ruleId\": \"race\""), "{sarif}");
    let strict = snag(&folder, &["check", "--strict", "run.snag"]);
    assert_eq!(strict.status.code(), Some(0), "{}", text(&strict));
    assert!(complaint(&strict).contains("left out (--strict)"), "{}", complaint(&strict));
    // What is captured needs no label, and nothing is left out of it.
    assert_eq!(snag(&folder, &["record", "-o", "seen.snag", "--", "./program", "futex"]).status.code(), Some(0));
    let strict = snag(&folder, &["check", "--strict", "seen.snag"]);
    assert!(strict.status.code() == Some(1) && text(&strict).contains("data race on racy:"), "{}", text(&strict));
}

/// How often the text of a trace names a function as a missing call.
fn calls_of(trace: &str, function: &str) -> usize {
    trace.lines().filter(|line| line.contains(&format!("method-begin({function}"))).count()
}

#[test]
fn functions_that_are_excluded_are_not_seen_and_keep_their_order() {
    let folder = Folder::new("excluded");
    for compiler in ["gcc", "clang"].into_iter().filter(|compiler| have(compiler)) {
        compile(compiler, &["-g", "-O0", "-fsanitize=thread"], &program("silent.c"), &folder.path("program"));
        let traced = |how: &[&str]| {
            let record = [&["record", "-o", "run.snag"], how, &["--", "./program"]].concat();
            let recorded = snag(&folder, &record);
            assert_eq!(recorded.status.code(), Some(0), "{compiler} {how:?}: {}", complaint(&recorded));
            assert_eq!(snag(&folder, &["convert", "run.snag", "run.stx"]).status.code(), Some(0));
            let checked = text(&snag(&folder, &["check", "run.snag"]));
            let whole = snag(&folder, &["replay", "run.snag"]);
            assert_eq!(whole.status.code(), Some(0), "{compiler} {how:?}: {}{}", text(&whole), complaint(&whole));
            (std::fs::read_to_string(folder.path("run.stx")).unwrap(), checked)
        };
        let (all, found) = traced(&[]);
        assert!(found.contains("data race on hot[") && found.contains("data race on racy:"), "{compiler}: {found}");
        assert!(calls_of(&all, "work") == 0 && all.lines().count() > 6400, "{compiler}");
        // The loop is what takes most of the events.
        let (without, found) = traced(&["--exclude", "work"]);
        assert!(!found.contains("data race on hot[") && found.contains("data race on racy:"), "{compiler}: {found}");
        assert!(calls_of(&without, "work") == 2 && without.lines().count() < 500, "{compiler}: {without}");
        let (only, found) = traced(&["--only", "se*", "--only", "main"]);
        assert!(!found.contains("data race on hot[") && found.contains("data race on racy:"), "{compiler}: {found}");
        assert!(only.lines().count() < 500, "{compiler}: {only}");
        // What is excluded is no less ordered by what it does.
        assert!(!found.contains("data race on x:"), "{compiler}: {found}");
    }
    let nothing = snag(&folder, &["record", "--exclude", "", "--", "./program"]);
    assert!(nothing.status.code() == Some(2) && complaint(&nothing).contains("a function's name is expected"));
}
