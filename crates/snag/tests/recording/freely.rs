//! Programs whose threads run at the same time while they are recorded. Who comes first is up to the machine: what is asserted
//! here holds whoever does.

use crate::sturdy::{explained, is_shared, program, record_and_kill};
use crate::support::*;
use snag_model::{Op, Trace, VarId, Variable};
use std::time::Duration;

/// Whether threads can be recorded freely on this machine; says so if not.
fn have_clock() -> bool {
    let there = snag_recorder::recorder::has_shared_clock();
    if !there {
        eprintln!("skipped: the processors of this machine share no clock");
    }
    there
}

fn read(folder: &Folder) -> Trace {
    snag_formats::open(&folder.path("run.snag"), None).unwrap().read_all().unwrap().0
}

/// How many reads of shared memory each of the four threads has in the trace. Their values are those that the threads noted
/// themselves, in the same order.
fn noted(folder: &Folder) -> [usize; 4] {
    let trace = read(folder);
    explained(&trace);
    let notes = std::fs::read(folder.path("notes")).unwrap();
    let notes: Vec<i64> = notes.chunks(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect();
    let each = notes.len() / 4;
    let mut next = [0; 4];
    for event in trace.events.iter().filter(|event| event.op == Op::Read) {
        let Variable::Range { address, .. } = trace.tables.variable(VarId(event.target)) else { continue };
        let name = trace.tables.thread_name(event.thread);
        if let Some(number) = name.strip_prefix('T').filter(|_| is_shared(address)) {
            let worker = number.parse::<usize>().unwrap() - 1;
            let noted = notes[worker * each + next[worker]];
            if let Some(value) = event.value {
                assert_eq!(value, noted, "read {} of {name}", next[worker]);
            }
            next[worker] += 1;
        }
    }
    next
}

#[test]
fn every_value_is_right() {
    if !have_clock() {
        return;
    }
    let folder = Folder::new("free-values");
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &program("free_values.c"), &folder.path("program"));
    let output = snag(&folder, &["record", "--free-running", "-o", "run.snag", "--", "./program", "notes"]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    // Of a program without races nothing is left out.
    assert!(!complaint(&output).contains("left out"), "{}", complaint(&output));
    assert_eq!(noted(&folder), [1 + 20_000 + 1_000; 4]);
    let checked = snag(&folder, &["check", "run.snag"]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked));
    for _ in 0..3 {
        let arguments = ["record", "--free-running", "-o", "run.snag", "--", "./program", "notes", "racy"];
        let output = snag(&folder, &arguments);
        assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
        let reads = noted(&folder);
        let whole = 1 + 20_000 + 1_000 + 20;
        assert!(reads.iter().all(|&reads| reads <= whole), "{reads:?}");
        assert_eq!(complaint(&output).contains("left out"), reads != [whole; 4], "{reads:?} {}", complaint(&output));
    }
}

/// Whatever is reported about these is a false alarm.
#[test]
fn programs_without_races_end_and_have_none() {
    if !have_clock() {
        return;
    }
    for (compiler, flags, source, says) in [
        ("gcc", "-O1", "every_primitive.c", "4080 7 3 4 42\n"),
        ("gcc", "-O1", "unknown_blocking.c", "shared 3\n"),
        ("gcc", "-O1", "unknown_waiting.c", "shared 4\n"),
        ("gcc", "-O1", "posix.c", "96\n"),
        ("gcc", "-O1", "cancel.c", "14 cleaned up, 1 destroyed, 1 done\n"),
        ("clang", "-O2", "posix.c", "96\n"),
        ("g++", "-std=c++20", "cpp20.cpp", "144\n"),
        ("g++", "-std=c++20", "futures.cpp", "75 2 12\n"),
        ("clang++", "-std=c++20", "futures.cpp", "75 2 12\n"),
    ] {
        if !have(compiler) {
            continue;
        }
        let folder = Folder::new(&format!("free-{source}-{compiler}"));
        compile(compiler, &["-g", "-w", flags, "-fsanitize=thread"], &program(source), &folder.path("program"));
        for _ in 0..6 {
            let output = snag(&folder, &["record", "--free-running", "-o", "run.snag", "--", "./program"]);
            let what = format!("{source} by {compiler}: {}", complaint(&output));
            assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), says), "{what}");
            explained(&read(&folder));
            let checked = snag(&folder, &["check", "run.snag"]);
            assert_eq!(checked.status.code(), Some(0), "{what}{}", text(&checked));
        }
    }
}

/// In which runs a race can be predicted depends on the run; what is reported is what the example is about.
#[test]
fn races_of_examples() {
    if !have_clock() {
        return;
    }
    let folder = Folder::new("free-examples");
    let mut found = 0;
    for (source, variable) in [
        ("bank_account.c", "balance"),
        ("bounded_queue.c", "longest"),
        ("state_machine.c", "buffer"),
        ("non_nested_locks.c", "length"),
    ] {
        for fixed in [false, true] {
            let mut flags = vec!["-g", "-O1", "-fsanitize=thread"];
            flags.extend(fixed.then_some("-DFIXED"));
            compile("gcc", &flags, &example(source), &folder.path("program"));
            for _ in 0..5 {
                let output = snag(&folder, &["run", "--free-running", "--", "./program"]);
                let report = text(&output);
                let races = report.matches("data race on ").count();
                let about = report.matches(&format!("data race on {variable}")).count();
                assert_eq!(races, about, "{source}: {report}");
                assert!(!fixed || races == 0, "{source}, fixed: {report}");
                assert_eq!(output.status.code(), Some((races > 0) as i32), "{source}: {report}{}", complaint(&output));
                found += races;
            }
        }
    }
    assert!(found > 0);
}

#[test]
fn a_recording_that_is_killed_is_analysed_up_to_there() {
    if !have_clock() {
        return;
    }
    let folder = Folder::new("free-killed");
    // With its race, what follows would soon be left out.
    let flags = ["-g", "-O1", "-DORDERED", "-fsanitize=thread"];
    compile("gcc", &flags, &program("endless.c"), &folder.path("program"));
    for round in 0..6 {
        record_and_kill(&folder, &["--free-running"], round, Duration::ZERO);
        let checked = snag(&folder, &["check", "run.snag"]);
        assert_eq!(checked.status.code(), Some(0), "round {round}: {}", complaint(&checked));
        let cut_off = complaint(&checked).contains("the recording is cut off after event");
        assert_eq!(cut_off, round % 3 != 1, "round {round}: {}", complaint(&checked));
    }
}

#[test]
fn there_is_nothing_to_replay() {
    if !have_clock() {
        return;
    }
    let folder = Folder::new("free-replay");
    compile("gcc", &["-g", "-fsanitize=thread"], &example("bank_account.c"), &folder.path("program"));
    let output = snag(&folder, &["record", "--free-running", "-o", "run.snag", "--", "./program"]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    let replayed = snag(&folder, &["replay", "run.snag"]);
    assert_eq!(replayed.status.code(), Some(2));
    assert!(complaint(&replayed).contains("recorded with --free-running"), "{}", complaint(&replayed));
    let both = snag(&folder, &["record", "--free-running", "--seed", "3", "-o", "run.snag", "--", "./program"]);
    assert_eq!(both.status.code(), Some(2), "{}", complaint(&both));
}
