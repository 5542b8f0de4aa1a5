//! What is said about races of recorded programs.

use crate::sturdy::program;
use crate::support::*;

#[test]
fn a_report_names_members_locks_creators_and_says_how_it_happens() {
    let folder = Folder::new("members");
    for (compiler, flags) in [("gcc", "-gdwarf-5"), ("gcc", "-gdwarf-4"), ("clang", "-g")] {
        if !have(compiler) {
            continue;
        }
        compile(compiler, &[flags, "-O0", "-fsanitize=thread"], &program("members.c"), &folder.path("program"));
        let output = snag(&folder, &["run", "--keep", "run.snag", "--", "./program"]);
        assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
        let report = text(&output);
        for expected in [
            "data race on accounts[1].balance: ",
            "data race on pool.jobs[3].state: ",
            "data race on worker::calls: ",
            "holding accounts[1].lock, taken by:\n      deposit at ",
            "T1 was created by main:\n      start at ",
            "How this race happens:\n    In the recorded run main wrote ",
            "accounts[1].lock kept them apart: main gave it back at ",
        ] {
            let words = |text: &str| text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words(&report).contains(&words(expected)), "{compiler} {flags}: no '{expected}' in {report}");
        }
        let page = text(&snag(&folder, &["check", "--format", "html", "run.snag"]));
        for expected in ["<pre>", "taken by:", "How this race happens: In the recorded run main"] {
            assert!(page.contains(expected), "{compiler}: no '{expected}' in {page}");
        }
    }
}

#[test]
fn what_a_system_call_writes_is_written_where_it_was_called() {
    let folder = Folder::new("piped");
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("piped.c"), &folder.path("program"));
    let output = snag(&folder, &["run", "--", "./program"]);
    let report = text(&output);
    assert_eq!(output.status.code(), Some(1), "{report}{}", complaint(&output));
    for (variable, call, write) in [("shared", 9, 18), ("received[0]", 10, 19), ("received[1]", 13, 20)] {
        let headline = format!("data race on {variable}: ");
        let headline = report.lines().find(|line| line.contains(&headline)).expect(&report);
        assert!(headline.contains(&format!("piped.c:{call}:")), "{headline}");
        assert!(headline.contains(&format!("piped.c:{write}:")), "{headline}");
    }
    assert!(report.contains("receive at "), "{report}");
}

#[test]
fn options_for_thread_sanitizer_have_their_meaning() {
    let folder = Folder::new("tsan-options");
    let source = folder.path("program.c");
    let program = "#include <pthread.h>\nint x;\nstatic void *t(void *p) { x++; return p; }\nint main(void) {\n\
                   pthread_t a;\npthread_create(&a, 0, t, 0);\nx++;\npthread_join(a, 0);\nreturn 4;\n}\n";
    std::fs::write(&source, program).unwrap();
    compile("gcc", &["-g", "-fsanitize=thread"], &source, &folder.path("program"));
    std::fs::write(folder.path("all.supp"), "race:main\n").unwrap();
    let run = |options: &str, flags: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_snag"));
        command.arg("run").args(flags).args(["--", "./program"]).env("TSAN_OPTIONS", options);
        let output = command.current_dir(&folder.0).stdin(std::process::Stdio::null()).output().unwrap();
        (output.status.code(), text(&output), complaint(&output))
    };
    assert_eq!(run("", &[]).0, Some(1));
    assert_eq!(run("exitcode=66", &[]).0, Some(66));
    assert_eq!(run("exitcode=0", &[]).0, Some(4), "that of the program");
    let (status, report, _) = run("suppressions=all.supp exitcode=66", &[]);
    assert_eq!((status, report.contains("data race")), (Some(3), false), "{report}");
    let (status, report, _) = run("report_bugs=0", &[]);
    assert_eq!((status, report.as_str()), (Some(3), ""));
    let (status, report, said) = run("log_path=log history_size=7", &["--format", "json"]);
    assert_eq!((status, report.as_str()), (Some(1), ""));
    assert!(said.contains("TSAN_OPTIONS: without effect here: history_size"), "{said}");
    let is_log = |name: &str| name.starts_with("log.") && name[4..].parse::<u32>().is_ok();
    let names = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let logs: Vec<String> = names.filter(|name| is_log(name)).collect();
    assert_eq!(logs.len(), 1, "{logs:?}");
    assert!(std::fs::read_to_string(folder.path(&logs[0])).unwrap().contains("\"races\""));
    let (status, report, _) = run("halt_on_error=1", &["--all-pairs"]);
    assert_eq!((status, report.matches("data race").count()), (Some(1), 1), "{report}");
}
