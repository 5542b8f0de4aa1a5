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
