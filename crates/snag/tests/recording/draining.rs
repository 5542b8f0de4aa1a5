//! Threads that can run do before the program ends, however it ends and whatever they do.

use crate::sturdy::program;
use crate::support::*;

/// How a program ends, and its status.
const ENDINGS: [(&str, i32); 12] = [
    ("return", 5),
    ("exit", 5),
    ("quick_exit", 5),
    ("_exit", 5),
    ("_Exit", 5),
    ("exit_group", 5),
    ("err", 5),
    ("abort", 134),
    ("assert", 134),
    ("execl", 5),
    ("execve", 5),
    ("failing_exec", 5),
];

/// What another thread does meanwhile.
const MEANWHILE: [&str; 15] = [
    "run",
    "spin",
    "crash",
    "sleep",
    "abort",
    "exit",
    "block",
    "_exit",
    "raise",
    "nap",
    "kill",
    "spin_unseen",
    "assert",
    "exec",
    "run",
];

fn compiled(name: &str) -> Folder {
    let folder = Folder::new(name);
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("draining.c"), &folder.path("program"));
    folder
}

/// Records a run, finds the race, drives the program to it, and repeats the run.
fn is_found_and_repeated(folder: &Folder, end: &str, status: i32, meanwhile: &str, how: &[&str]) {
    let record = [&["record", "-o", "run.snag"], how, &["--", "./program", end, meanwhile]].concat();
    let output = snag(folder, &record);
    let what = format!("{end}, {meanwhile} {how:?}: {}", complaint(&output));
    assert_eq!(output.status.code(), Some(status), "{what}");
    let checked = snag(folder, &["check", "run.snag"]);
    assert!(text(&checked).contains("R1  data race on shared"), "{what}: {}", text(&checked));
    let driven = snag(folder, &["replay", "run.snag", "--race", "R1"]);
    assert!(text(&driven).contains("R1 confirmed"), "{what}: {}{}", text(&driven), complaint(&driven));
    let repeated = snag(folder, &["replay", "run.snag"]);
    assert!(text(&repeated).contains("as recorded"), "{what}: {}{}", text(&repeated), complaint(&repeated));
}

#[test]
fn however_a_program_ends_threads_that_have_not_run_do() {
    let pairs = |(index, &(end, status)): (usize, &(&'static str, i32))| {
        let some = (0..MEANWHILE.len()).filter(move |other| index == 0 || (other + index).is_multiple_of(4));
        some.map(move |other| (end, status, MEANWHILE[other]))
    };
    let all: Vec<_> = ENDINGS.iter().enumerate().flat_map(pairs).collect();
    std::thread::scope(|scope| {
        const WORKERS: usize = 4;
        for worker in 0..WORKERS {
            let all = &all;
            scope.spawn(move || {
                let folder = compiled(&format!("draining-{worker}"));
                for &(end, status, meanwhile) in all.iter().skip(worker).step_by(WORKERS) {
                    // A thread that ends the program before main does so decides how.
                    is_found_and_repeated(&folder, end, status, meanwhile, &["--quantum", "10000"]);
                }
            });
        }
    });
}

#[test]
fn other_schedules_are_drained_too() {
    let folder = compiled("draining-seeds");
    for seed in ["1", "2", "3"] {
        for (end, status, meanwhile) in [("return", 5, "spin"), ("exit", 5, "nap"), ("abort", 134, "block")] {
            let how = ["--seed", seed, "--quantum", "3"];
            is_found_and_repeated(&folder, end, status, meanwhile, &how);
        }
    }
}

/// Without the drain the thread does not come to run before the program has ended.
#[test]
fn a_drain_can_be_switched_off_and_bounded() {
    let folder = compiled("draining-off");
    let races = |drain: &str, meanwhile: &str| {
        let record = ["record", "-o", "run.snag", "--quantum", "10000", "--drain", drain, "--", "./program", "return"];
        let output = snag(&folder, &[&record[..], &[meanwhile]].concat());
        assert_eq!(output.status.code(), Some(5), "{drain}: {}", complaint(&output));
        let stats = snag(&folder, &["stats", "--format", "json", "run.snag"]);
        let events = text(&stats).split("\"events\":").nth(1).unwrap().trim().split(',').next().unwrap().to_owned();
        let repeated = snag(&folder, &["replay", "run.snag"]);
        assert!(text(&repeated).contains("as recorded"), "{drain}: {}{}", text(&repeated), complaint(&repeated));
        (snag(&folder, &["check", "run.snag"]).status.code() == Some(1), events.parse::<u64>().unwrap())
    };
    let (found, without) = races("0", "spin");
    assert!(!found);
    let (found, few) = races("10", "spin");
    assert!(found && few <= without + 15, "{few} after {without}");
    // Two accesses of the loop are two steps.
    let (found, many) = races("3000,60000", "spin");
    assert!(found && (3000..=without + 3015).contains(&many), "{many} after {without}");
    for wrong in ["", "x", "1,", "1,x", "-1", "1,2,3", "1.5"] {
        let output = snag(&folder, &["record", "-o", "run.snag", &format!("--drain={wrong}"), "--", "./program"]);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {}", complaint(&output));
        assert!(complaint(&output).contains("drain"), "{wrong}: {}", complaint(&output));
    }
}

#[test]
fn free_running_threads_are_drained() {
    let folder = compiled("draining-free");
    for (end, status) in [("return", 5), ("_exit", 5), ("abort", 134), ("execve", 5)] {
        for meanwhile in ["run", "spin", "sleep", "block"] {
            let output =
                snag(&folder, &["record", "-o", "run.snag", "--free-running", "--", "./program", end, meanwhile]);
            // Where the clocks of the processors differ nothing can be recorded so.
            if complaint(&output).contains("clock") {
                return;
            }
            assert_eq!(output.status.code(), Some(status), "{end} {meanwhile}: {}", complaint(&output));
        }
    }
}

/// Whoever comes first decides how the program ends, but not if that one waits for the other.
#[test]
fn a_thread_that_the_end_waits_for_ends_the_program() {
    let folder = Folder::new("draining-joined");
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &program("joined_at_end.c"), &folder.path("program"));
    for (how, status) in [("return", 5), ("abort", 134), ("_exit", 7), ("crash", 139), ("kill", 143), ("late", 5)] {
        let output = snag(&folder, &["record", "-o", "run.snag", "--", "./program", how]);
        assert_eq!(output.status.code(), Some(status), "{how}: {}", complaint(&output));
        // How far a thread comes before the signal that it has sent arrives, no schedule says.
        if how != "kill" {
            let repeated = snag(&folder, &["replay", "run.snag"]);
            assert!(text(&repeated).contains("as recorded"), "{how}: {}{}", text(&repeated), complaint(&repeated));
        }
    }
}
