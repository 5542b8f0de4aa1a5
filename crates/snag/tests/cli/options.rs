//! Options that would do nothing are refused, errors have one wording, and interrupts leave nothing behind.

use crate::support::*;
use std::process::{Command, Stdio};

const MISSING: &str = "%snag 1\n\nT|w(x)|1\nU|method-begin(log,{x})|2\nU|method-end(log)|3\n";

#[test]
fn options_that_would_do_nothing_are_refused() {
    let folder = Folder::new("nothing");
    let (trace, program) = (folder.file("missing.stx", MISSING), repository("examples/recipe/figure1.rcp"));
    let complete = figure("fig3");
    let cases: [(&[&str], &str); 8] = [
        (&["check", "--all", "--engine", "shb", &complete], "--all is for the engines cp and wcp"),
        (&["check", "--no-reduce", "--engine", "hb,shb", &complete], "--no-reduce is for the engines cp and wcp"),
        (&["check", "--global", "log=x", &complete], "in this trace no method is missing"),
        (&["check", "--global", "lag=x", &trace], "the trace has no missing method of that name"),
        (&["check", "--global", "log=lock:", &trace], "expected a name behind 'lock:'"),
        (&["check", "--global", "log=", &trace], "declares no global"),
        (&["trace", "--events", "0", &program], "not a number from 1 on"),
        (&["explore", "--states", "0", &program], "not a number from 1 on"),
    ];
    for (args, message) in cases {
        let ran = snag(args).expect(2);
        assert!(ran.stderr.contains(message), "{args:?}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{args:?}");
    }
    snag(&["check", "-q", "--all", "--engine", "shb,wcp", &complete]).expect(1);
}

#[test]
fn what_is_missing_or_a_directory_is_called_so_everywhere() {
    let folder = Folder::new("wording");
    let (none, here, trace) = (folder.path("none"), folder.path(""), figure("fig3"));
    let cases: [&[&str]; 9] = [
        &["check", &none],
        &["check", "--online", &none],
        &["stats", &none],
        &["convert", &none, "-"],
        &["verify", &none, &trace],
        &["verify", &trace, &none],
        &["trace", &none],
        &["explore", &none],
        &["check", "--suppressions", &none, &trace],
    ];
    for args in cases {
        let ran = snag(args).expect(2);
        // `verify` reads the findings first.
        if args[1] != none || args[0] != "verify" {
            assert!(ran.stderr.contains("there is no such file"), "{args:?}: {}", ran.stderr);
        }
        let ran = snag(&args.iter().map(|&arg| if arg == none { here.as_str() } else { arg }).collect::<Vec<_>>());
        let ran = ran.expect(2);
        if args[1] != none || args[0] != "verify" {
            assert!(ran.stderr.contains("is a directory"), "{args:?}: {}", ran.stderr);
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_an_error_that_names_the_file() {
    let trace = figure("fig3");
    for format in ["text", "json", "sarif", "html"] {
        let ran = snag(&["check", "--format", format, "-o", "/dev/full", &trace]).expect(2);
        assert!(ran.stderr.contains("/dev/full: cannot write: "), "{}", ran.stderr);
    }
    for args in [&["--help"][..], &["--version"], &["check", "--help"], &["check", &trace]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("there is such a device");
        let output = command(args).stdout(full).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write: "), "{args:?}");
    }
}

/// A pipe that nobody writes to is read for ever.
#[test]
#[cfg(unix)]
fn every_signal_that_ends_programs_leaves_no_file_behind() {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    for signal in ["-INT", "-TERM", "-HUP"] {
        let folder = Folder::new(&format!("signal{signal}"));
        let report = folder.path("report.txt");
        let mut command = command(&["-v", "check", "-o", &report, "-"]);
        // The tests may have been started under nohup, which would go on to the program.
        // SAFETY: a plain system call in the child before it becomes the program.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                Ok(())
            })
        };
        // The warning about the unknown thread tells that it reads.
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
        let input = child.stdin.take().expect("a pipe");
        let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        assert_eq!(said.next().expect("a line").expect("text"), "snag: -: reading");
        assert_eq!(folder.names().len(), 1, "the report is being written");
        let killed = Command::new("kill").arg(signal).arg(child.id().to_string()).status();
        assert!(killed.expect("kill runs").success());
        assert!(said.next().expect("a line").expect("text").contains("interrupted; reporting"));
        // Of nothing there is no report.
        assert_eq!(child.wait().expect("it ends").code(), Some(2), "{signal}");
        drop(input);
        assert_eq!(folder.names(), Vec::<String>::new(), "{signal}");
    }
}

#[test]
#[cfg(unix)]
fn an_interrupt_says_what_comes_of_it() {
    use std::io::{BufRead, BufReader, Write};
    let folder = Folder::new("consequence");
    let out = folder.path("out.stx");
    let mut child = command(&["-v", "convert", "-", &out])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("a pipe");
    let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines().map(|line| line.expect("text"));
    assert_eq!(said.next().as_deref(), Some("snag: -: reading"));
    assert!(Command::new("kill").arg("-INT").arg(child.id().to_string()).status().expect("kill runs").success());
    assert_eq!(said.next().as_deref(), Some("snag: interrupted; nothing is written (again to end at once)"));
    let _ = input.write_all(b"T0|w(x)|1\n");
    drop(input);
    assert_eq!(said.next().as_deref(), Some("snag: error: -: interrupted while converting"));
    assert_eq!(child.wait().expect("it ends").code(), Some(2));
    assert_eq!(folder.names(), Vec::<String>::new());
}

#[test]
fn what_is_wrong_with_a_claim_has_no_line_and_column() {
    let folder = Folder::new("claims");
    let (trace, findings) = (figure("fig3"), folder.path("found.json"));
    snag(&["check", "--format", "json", "-o", &findings, &trace]).expect(1);
    let found = std::fs::read_to_string(&findings).expect("it was written");
    let wrong = folder.file("level.json", &found.replace("\"level\": \"writer\"", "\"level\": \"divine\""));
    let ran = snag(&["verify", &trace, &wrong]).expect(2);
    assert!(ran.stderr.trim_end().ends_with("level 'divine' is not available in this version"), "{}", ran.stderr);
    // But what is wrong with the text has.
    let cut = folder.file("cut.json", &found[..found.len() / 2]);
    let ran = snag(&["verify", &trace, &cut]).expect(2);
    assert!(ran.stderr.contains(" at line "), "{}", ran.stderr);
}
