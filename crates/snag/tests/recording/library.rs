//! Calls of the C library are accesses like any other: those of the table race with what another thread does, and do
//! not where a mutex orders them.

use crate::support::*;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What ThreadSanitizer reports and Snag does not, as `docs/library-calls.md` says why.
const LEFT_OUT: [&str; 0] = [];

/// A line of `library_calls.txt`: the function, and the lines of the program where it is called and where another
/// thread touches the same memory.
struct Row {
    name: String,
    call: usize,
    touch: usize,
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Makes the program, and says what is in it.
fn generate(folder: &Folder) -> (PathBuf, Vec<Row>) {
    let rows = std::fs::read_to_string(source("library_calls.txt")).unwrap();
    let program = std::fs::read_to_string(source("library_calls.c")).unwrap();
    let (start, end) = program.split_once("/* ROWS */\n").unwrap();
    let (mut text, mut all, mut table) = (start.to_owned(), Vec::new(), String::new());
    for (number, line) in rows.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).enumerate() {
        let parts: Vec<String> = line.split(" @ ").map(|part| numbered(part.trim(), number)).collect();
        let [name, variables, call, touch] = &parts[..] else { panic!("four parts: {line}") };
        let declared = variables.trim_end_matches(';').split("; ").map(|variable| format!("static {variable}; "));
        writeln!(text, "{}", declared.collect::<String>()).unwrap();
        let at = text.lines().count();
        writeln!(text, "static void call{number}(void) {{ {call}; }}").unwrap();
        writeln!(text, "static void touch{number}(void) {{ {touch}; }}").unwrap();
        writeln!(table, "    {{ call{number}, touch{number} }},").unwrap();
        all.push(Row { name: name.clone(), call: at + 1, touch: at + 2 });
    }
    writeln!(text, "struct row {{ void (*call)(void), (*touch)(void); }} rows[] = {{\n{table}}};").unwrap();
    text.push_str(end);
    let path = folder.path("calls.c");
    std::fs::write(&path, text).unwrap();
    (path, all)
}

/// `$` behind a letter stands for the number of the row.
fn numbered(part: &str, number: usize) -> String {
    let mut result = String::new();
    for letter in part.chars() {
        match letter {
            '$' if result.ends_with(|before: char| before.is_ascii_alphabetic()) => {
                result.push_str(&number.to_string())
            }
            _ => result.push(letter),
        }
    }
    result
}

/// Optimised, compilers leave out calls whose results nobody uses.
const FLAGS: [&str; 5] = ["-g", "-O0", "-w", "-fno-builtin", "-fsanitize=thread"];

fn program(folder: &Folder) -> Vec<Row> {
    let (source, rows) = generate(folder);
    compile("gcc", &[&FLAGS[..], &["-Wl,--no-as-needed", "-lm"]].concat(), &source, &folder.path("calls"));
    rows
}

/// The lines of the program that the races of a report are on, race by race.
fn lines_of_races(report: &str) -> Vec<BTreeSet<usize>> {
    let races = report.lines().filter(|line| line.starts_with('R') && line.contains("data race"));
    let lines = |line: &str| {
        let places = line.split("calls.c:").skip(1);
        places.map(|place| place.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()).collect()
    };
    races.map(lines).collect()
}

#[test]
fn calls_of_the_library_race_with_whoever_touches_what_they_touch() {
    if !have("gcc") {
        return;
    }
    let folder = Folder::new("library-calls");
    let rows = program(&folder);
    let output = snag(&folder, &["run", "--", "./calls"]);
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
    let races = lines_of_races(&text(&output));
    let is_found = |row: &&Row| races.iter().any(|lines| lines.contains(&row.touch));
    let missed: Vec<String> =
        rows.iter().filter(|row| !is_found(row)).map(|row| format!("{} in line {}", row.name, row.call)).collect();
    assert!(missed.is_empty(), "no race found on what is touched by {missed:#?}\n{}", text(&output));
}

/// The races of ThreadSanitizer are those of one run in which the threads really meet, so it may miss some.
#[test]
fn what_thread_sanitizer_sees_of_these_calls_is_seen() {
    if !have("gcc") {
        return;
    }
    let folder = Folder::new("library-calls-tsan");
    let rows = program(&folder);
    let mut reference = Command::new(folder.path("calls"));
    reference.env("TSAN_OPTIONS", "exitcode=0 report_bugs=1").stdin(Stdio::null()).stdout(Stdio::null());
    let report = String::from_utf8_lossy(&reference.output().unwrap().stderr).into_owned();
    let output = snag(&folder, &["run", "--", "./calls"]);
    let races = lines_of_races(&text(&output));
    let mut seen = 0;
    for (number, row) in rows.iter().enumerate() {
        let by_reference = report.contains(&format!(" touch{number} "));
        seen += by_reference as usize;
        let by_us = races.iter().any(|lines| lines.contains(&row.touch));
        let excused = LEFT_OUT.contains(&row.name.as_str());
        assert!(by_us || excused || !by_reference, "{} in line {}: only ThreadSanitizer sees it", row.name, row.call);
    }
    eprintln!("ThreadSanitizer sees {seen} of {} rows", rows.len());
}

#[test]
fn calls_of_the_library_under_a_mutex_do_not_race() {
    if !have("gcc") {
        return;
    }
    let folder = Folder::new("library-calls-locked");
    program(&folder);
    for seed in ["1", "2", "3"] {
        let output = snag(&folder, &["run", "--seed", seed, "--quantum", "3", "--", "./calls", "locked"]);
        assert_eq!(lines_of_races(&text(&output)), [], "{}", text(&output));
        assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    }
}

/// Found everything that was handed over in these ways to race: what the condition read was not part of the trace.
#[test]
fn a_condition_that_the_library_reads_orders_what_depends_on_it() {
    if !have("gcc") {
        return;
    }
    let folder = Folder::new("library-conditions");
    let flags = ["-g", "-O1", "-w", "-fno-builtin", "-fsanitize=thread"];
    compile("gcc", &flags, &source("library_conditions.c"), &folder.path("program"));
    let program = std::fs::read_to_string(source("library_conditions.c")).unwrap();
    let modes: BTreeSet<&str> = program.split("is(\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(modes.len() > 25, "{modes:?}");
    for mode in modes {
        let output = snag(&folder, &["run", "--", "./program", mode]);
        assert_eq!(output.status.code(), Some(0), "{mode}: {}{}", text(&output), complaint(&output));
    }
}

/// Bad addresses were faults in the functions that the kernel looks at them for.
#[test]
fn a_recorded_call_says_what_it_says_without_snag() {
    if !have("gcc") {
        return;
    }
    let folder = Folder::new("library-errors");
    compile("gcc", &["-w"], &source("library_errors.c"), &folder.path("plain"));
    compile("gcc", &["-g", "-w", "-fsanitize=thread"], &source("library_errors.c"), &folder.path("program"));
    let plain = Command::new(folder.path("plain")).stdin(Stdio::null()).output().unwrap();
    assert!(plain.status.success(), "{plain:?}");
    for way in [&[][..], &["--free-running"]] {
        let record = [&["record", "-o", "run.snag"], way, &["--", "./program"]].concat();
        let output = snag(&folder, &record);
        assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
        assert_eq!(text(&output), text(&plain), "{way:?}");
    }
    let output = snag(&folder, &["run", "-q", "--", "./program"]);
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
    assert!(text(&output).contains("data race on raced"), "{}", text(&output));
}
