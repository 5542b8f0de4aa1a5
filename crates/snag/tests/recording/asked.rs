//! `record` and `run` do what they were asked, or refuse before the program has run.

use crate::support::*;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A folder with an example, compiled.
fn compiled(test: &str, source: &str) -> Folder {
    let folder = Folder::new(test);
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &example(source), &folder.path("program"));
    folder
}

/// A program that leaves a file behind when it runs.
fn marking(test: &str) -> Folder {
    let folder = Folder::new(test);
    let source = folder.path("marking.c");
    std::fs::write(&source, "#include <stdio.h>\nint main(void) { fclose(fopen(\"ran\", \"w\")); return 0; }\n")
        .unwrap();
    compile("gcc", &["-g", "-fsanitize=thread"], &source, &folder.path("program"));
    folder
}

/// Found names of variables that `check` writes and `verify` did not know.
#[test]
fn findings_of_a_recording_are_verified() {
    let folder = compiled("verified", "bank_account.c");
    assert_eq!(snag(&folder, &["record", "-o", "run.snag", "--", "./program"]).status.code(), Some(0));
    let checked = snag(&folder, &["check", "--format", "json", "-o", "found.json", "run.snag"]);
    assert_eq!(checked.status.code(), Some(1), "{}", complaint(&checked));
    let found = std::fs::read_to_string(folder.path("found.json")).unwrap();
    assert!(found.contains("\"variable\": \"balance\""), "{found}");
    let verified = snag(&folder, &["verify", "run.snag", "found.json"]);
    assert_eq!(verified.status.code(), Some(0), "{}{}", text(&verified), complaint(&verified));
    assert!(text(&verified).contains("R1  accepted"), "{}", text(&verified));
    // As the trace spells it.
    let (trace, _) = snag_formats::open(&folder.path("run.snag"), None).unwrap().read_all().unwrap();
    let start = found.find("\"event\": ").unwrap() + "\"event\": ".len();
    let number: String = found[start..].chars().take_while(char::is_ascii_digit).collect();
    let event = trace.event(snag_model::EventId(number.parse().unwrap()));
    let spelled = found.replace("\"balance\"", &format!("\"{}\"", trace.target_text(&event)));
    assert_ne!(spelled, found);
    std::fs::write(folder.path("spelled.json"), &spelled).unwrap();
    assert_eq!(snag(&folder, &["verify", "run.snag", "spelled.json"]).status.code(), Some(0));
    // Another variable is still refused.
    std::fs::write(folder.path("wrong.json"), found.replace("\"balance\"", "\"audited\"")).unwrap();
    let refused = snag(&folder, &["verify", "run.snag", "wrong.json"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains("is not what the findings say"), "{}", text(&refused));
}

#[test]
fn what_cannot_be_done_is_refused_before_the_program_runs() {
    let folder = marking("refused");
    std::fs::write(folder.path("bad.supp"), "rase:x\n").unwrap();
    let cases: [(&[&str], &str); 14] = [
        (&["record", "-o", "nowhere/x.snag"], "nowhere/x.snag: cannot create: there is no such folder"),
        (&["run", "--keep", "nowhere/x.snag"], "nowhere/x.snag: cannot create: there is no such folder"),
        (&["record", "-o", "-"], "-: a recording goes into a file"),
        (&["run", "--keep", "-"], "-: a recording goes into a file"),
        (&["record", "-o", "x.std"], "x.std: recordings are .snag files"),
        (&["record", "-o", "x.snag.gz"], "x.snag.gz: a recording is not compressed"),
        (&["run", "--suppressions", "nofile"], "nofile: cannot read: there is no such file"),
        (&["run", "--suppressions", "bad.supp"], "bad.supp: line 1: unknown type 'rase'"),
        (&["run", "--global", "x"], "'x' declares no global"),
        (&["run", "--global", "m=lock:"], "expected a name behind 'lock:'"),
        (&["run", "-o", "nowhere/x"], "nowhere/x: cannot write: there is no such folder"),
        (&["run", "--level", "symbolic"], "level 'symbolic' needs expressions"),
        (&["run", "--all"], "--all is for the engines cp and wcp"),
        (&["run", "--keep", "x", "-o", "x"], "x: the report would replace the trace"),
    ];
    for (options, message) in cases {
        let arguments: Vec<&str> = options.iter().copied().chain(["--", "./program"]).collect();
        let output = snag(&folder, &arguments);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", complaint(&output));
        assert!(complaint(&output).contains(message), "{options:?}: {}", complaint(&output));
        assert!(!folder.path("ran").exists(), "{options:?}: the program has run");
    }
    for left in ["-", "x", "x.std", "x.snag.gz"] {
        assert!(!folder.path(left).exists(), "{left} was created");
    }
    // What is there stays if the program cannot even be started.
    std::fs::write(folder.path("old.snag"), "what was there").unwrap();
    assert_eq!(snag(&folder, &["record", "-o", "old.snag", "--", "./nothing-here"]).status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(folder.path("old.snag")).unwrap(), "what was there");
    assert_eq!(snag(&folder, &["record", "-o", "new.snag", "--", "./nothing-here"]).status.code(), Some(2));
    assert!(!folder.path("new.snag").exists());
}

#[test]
fn a_trace_whose_analysis_fails_is_kept() {
    let folder = compiled("kept", "bank_account.c");
    let output = snag(&folder, &["run", "-o", "/dev/full", "--", "./program"]);
    assert_eq!(output.status.code(), Some(2), "{}", complaint(&output));
    let complaint = complaint(&output);
    assert!(complaint.contains("/dev/full: cannot write: "), "{complaint}");
    let kept = complaint.split("the trace is kept in ").nth(1).expect(&complaint);
    let kept = kept.lines().next().expect("a name").to_owned();
    assert_eq!(snag(&folder, &["check", "-q", &kept]).status.code(), Some(1));
    std::fs::remove_file(kept).unwrap();
}

#[test]
fn a_report_for_scripts_has_standard_output_to_itself() {
    let folder = compiled("own-output", "bank_account.c");
    for format in ["json", "sarif"] {
        let output = snag(&folder, &["run", "--format", format, "--", "./program"]);
        assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
        let document: serde_json::Value = serde_json::from_str(&text(&output)).expect("nothing but the document");
        assert!(document.is_object());
        assert!(complaint(&output).contains("balance 200"), "{}", complaint(&output));
    }
    let output = snag(&folder, &["run", "--format", "json", "-o", "found.json", "--", "./program"]);
    assert!(text(&output).contains("balance 200"), "{}", text(&output));
}

#[test]
fn suppressions_match_functions_of_stacks() {
    let folder = compiled("functions", "bank_account.c");
    assert_eq!(snag(&folder, &["record", "-o", "run.snag", "--", "./program"]).status.code(), Some(0));
    let status = |rules: &str| {
        std::fs::write(folder.path("rules"), rules).unwrap();
        let output = snag(&folder, &["check", "--suppressions", "rules", "run.snag"]);
        (output.status.code(), complaint(&output))
    };
    for rules in ["race:^deposit$\n", "race_top:audit\n", "race:teller\n", "race:bank_account.c\n"] {
        assert_eq!(status(rules).0, Some(0), "{rules}");
    }
    // It is in the stacks, but not on top.
    let (found, said) = status("race_top:^teller$\n");
    assert_eq!(found, Some(1));
    assert!(said.contains("suppression 'race_top:^teller$' (line 1) matched nothing"), "{said}");
    let (found, said) = status("race:withdraw\n\nrace_top:withdraw\nmutex:withdraw\n");
    assert_eq!(found, Some(1));
    assert!(said.contains("2 suppressions matched nothing"), "{said}");
}

/// Two threads that take two locks in opposite orders, one after the other.
const OPPOSITE: &str = r#"
#include <pthread.h>
static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
static int done;
static void both(pthread_mutex_t *first, pthread_mutex_t *second) {
    pthread_mutex_lock(first);
    pthread_mutex_lock(second);
    done++;
    pthread_mutex_unlock(second);
    pthread_mutex_unlock(first);
}
static void *one(void *x) { both(&left, &right); return x; }
static void *other(void *x) { both(&right, &left); return x; }
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, one, 0);
    pthread_create(&b, 0, other, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
"#;

#[test]
fn a_deadlock_is_driven_to() {
    let folder = Folder::new("deadlock");
    std::fs::write(folder.path("opposite.c"), OPPOSITE).unwrap();
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &folder.path("opposite.c"), &folder.path("program"));
    assert_eq!(snag(&folder, &["record", "-o", "run.snag", "--", "./program"]).status.code(), Some(0));
    let checked = snag(&folder, &["check", "run.snag"]);
    assert!(text(&checked).contains("D1  deadlock"), "{}", text(&checked));
    let driven = snag(&folder, &["replay", "run.snag", "--race", "D1"]);
    let report = text(&driven);
    assert_eq!(driven.status.code(), Some(1), "{report}{}", complaint(&driven));
    assert!(report.contains("D1 confirmed: deadlock: T1 waits for right, T2 waits for left"), "{report}");
    assert!(report.contains("T1 is about to acquire right") && report.contains("both at opposite.c:7"), "{report}");
    let none = snag(&folder, &["replay", "run.snag", "--race", "D2"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(complaint(&none).contains("'snag check' shows D1"), "{}", complaint(&none));
    let many = snag(&folder, &["replay", "run.snag", "--race", "D1", "--many", "2"]);
    assert_eq!(many.status.code(), Some(2));
    assert!(complaint(&many).contains("D1 is a deadlock"), "{}", complaint(&many));
}

#[test]
fn a_program_that_could_not_be_recorded_is_an_error_whatever_its_own_status_is() {
    let folder = compiled("status", "bank_account.c");
    std::os::unix::fs::symlink("/dev/full", folder.path("full.snag")).unwrap();
    for (program, ending) in [("/bin/true", ""), ("/bin/false", "the program exited with status 1")] {
        for arguments in [&["run", "--"][..], &["run", "--exit-with-program", "--"]] {
            let output = snag(&folder, &[arguments, &[program]].concat());
            assert_eq!(output.status.code(), Some(2), "{arguments:?} {program}");
            let complaint = complaint(&output);
            assert!(complaint.contains("nothing was recorded") && complaint.contains(ending), "{complaint}");
        }
    }
    let output = snag(&folder, &["run", "--exit-with-program", "--keep", "full.snag", "--", "./program"]);
    assert_eq!(output.status.code(), Some(2), "{}", complaint(&output));
}

/// The program says that it runs, and then waits for a signal.
const WAITS: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main(void) {
    puts("running");
    fflush(stdout);
    for (;;) pause();
}
"#;

#[test]
fn signals_that_end_programs_are_passed_on_and_leave_nothing_behind() {
    let folder = Folder::new("signals");
    std::fs::write(folder.path("waits.c"), WAITS).unwrap();
    compile("gcc", &["-g", "-fsanitize=thread"], &folder.path("waits.c"), &folder.path("program"));
    std::fs::create_dir(folder.path("temporary")).unwrap();
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_snag"));
        // The tests may have been started under nohup, which would go on to the program.
        // SAFETY: a plain system call in the child before it becomes the program.
        unsafe {
            command.pre_exec(move || {
                libc::signal(signal, libc::SIG_DFL);
                Ok(())
            })
        };
        let mut child = command
            .args(["run", "-o", "report.txt", "--", "./program"])
            .current_dir(&folder.0)
            .env("TMPDIR", folder.path("temporary"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "running\n");
        // SAFETY: a plain system call; the process is ours.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
        let output = child.wait_with_output().unwrap();
        assert!(complaint(&output).contains(&format!("died of signal {signal}")), "{}", complaint(&output));
        let left: Vec<_> = std::fs::read_dir(folder.path("temporary")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        let hidden = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name());
        let hidden: Vec<_> = hidden.filter(|name| name.to_string_lossy().starts_with('.')).collect();
        assert!(hidden.is_empty(), "{hidden:?}");
    }
}

/// What has no name is called by what it is of.
#[test]
fn reports_of_a_run_name_the_program() {
    let folder = compiled("named", "bank_account.c");
    for (format, wanted) in [
        ("json", "\"path\": \"the run of ./program\""),
        ("sarif", "\"trace\": \"the run of ./program\""),
        ("html", "<h2>the run of ./program</h2>"),
        ("text", "R1"),
    ] {
        let output = snag(&folder, &["run", "--format", format, "--", "./program"]);
        assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
        let report = text(&output);
        assert!(report.contains(wanted) && !report.contains("/proc/self/fd"), "{format}: {report}");
        assert!(!complaint(&output).contains("/proc/self/fd"), "{}", complaint(&output));
    }
    let kept = snag(&folder, &["run", "--keep", "kept.snag", "--format", "json", "--", "./program"]);
    assert!(text(&kept).contains("\"path\": \"kept.snag\""), "{}", text(&kept));
}
