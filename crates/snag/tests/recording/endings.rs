//! How programs end, and what snag makes of it.

use crate::sturdy::program;
use crate::support::*;

/// What a program does; the status of `snag run`, the same with `--exit-with-program`, and that of `snag record`.
const ENDINGS: [(&str, i32, i32, i32); 10] = [
    ("", 0, 0, 0),
    ("exit 7", 3, 7, 7),
    ("exit 1", 3, 1, 1),
    ("signal 11", 3, 139, 139),
    ("race", 1, 1, 0),
    ("race exit 7", 1, 1, 7),
    ("race signal 6", 1, 1, 134),
    ("exec true", 0, 0, 0),
    ("exec false", 3, 1, 1),
    ("race exec false", 1, 1, 1),
];

#[test]
fn the_status_says_what_was_found_and_else_how_the_program_ended() {
    let folder = Folder::new("endings");
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("endings.c"), &folder.path("program"));
    for (does, run, own, recorded) in ENDINGS {
        let does: Vec<&str> = does.split_ascii_whitespace().collect();
        for (command, status) in [
            (&["run", "--", "./program"][..], run),
            (&["run", "--exit-with-program", "--", "./program"], own),
            (&["record", "--", "./program"], recorded),
        ] {
            let output = snag(&folder, &[command, &does].concat());
            assert_eq!(output.status.code(), Some(status), "{command:?} {does:?}: {}", complaint(&output));
        }
    }
}

/// An error in the analysis is none of the program: nobody knows what would have been found.
#[test]
fn an_error_comes_before_the_status_of_the_program() {
    let folder = Folder::new("endings-error");
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("endings.c"), &folder.path("program"));
    for how in [&["--"][..], &["--exit-with-program", "--"]] {
        let arguments = [&["run", "--suppressions", "none"], how, &["./program", "exit", "7"]].concat();
        let output = snag(&folder, &arguments);
        assert_eq!(output.status.code(), Some(2), "{how:?}: {}", complaint(&output));
    }
}

/// A daemon that a program leaves behind is left alone, and nobody waits for it.
#[test]
fn a_daemon_outlives_the_run_and_is_not_waited_for() {
    let folder = Folder::new("endings-daemon");
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("endings.c"), &folder.path("program"));
    let mark = Mark::new("daemon");
    let output = mark.command(&folder, &["run", "--", "./program", "daemon"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    let daemons = mark.processes();
    assert_eq!(daemons.len(), 1, "{daemons:?}");
}

#[test]
fn a_program_that_cannot_be_started_is_an_error() {
    let folder = Folder::new("endings-start");
    std::fs::write(folder.path("text"), "not a program").unwrap();
    for command in ["run", "record"] {
        for program in ["./nothing", "./text", "."] {
            let output = snag(&folder, &[command, "--", program]);
            assert_eq!(output.status.code(), Some(2), "{command} {program}: {}", complaint(&output));
            assert!(complaint(&output).contains(program), "{command} {program}: {}", complaint(&output));
        }
    }
}
