//! `run --confirm` and `replay --all`: what a run has had and what replays have shown is told apart.

use crate::support::*;
use serde_json::Value;
use std::process::{Command, Stdio};

/// A race, and two locks that are taken in opposite orders. With an argument, the second run does nothing.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
int shared;
static void both(pthread_mutex_t *first, pthread_mutex_t *second) {
    pthread_mutex_lock(first);
    pthread_mutex_lock(second);
    pthread_mutex_unlock(second);
    pthread_mutex_unlock(first);
}
static void *one(void *x) { both(&left, &right); shared = 1; return x; }
static void *other(void *x) { both(&right, &left); shared = 2; return x; }
int main(int count, char **arguments) {
    if (count > 1 && open(arguments[1], O_CREAT | O_EXCL, 0600) < 0)
        return 0;
    char word[8] = "none";
    if (scanf("%7s", word) == 1 && word[0] != 'g')
        return 0;
    puts(word);
    pthread_t a, b;
    pthread_create(&a, 0, one, 0);
    pthread_create(&b, 0, other, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
"#;

fn program(test: &str) -> Folder {
    let folder = Folder::new(test);
    std::fs::write(folder.path("program.c"), PROGRAM).unwrap();
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &folder.path("program.c"), &folder.path("program"));
    folder
}

/// Whether each finding is confirmed, and why not: races, then deadlocks.
fn confirmed(document: &str) -> Vec<(String, Option<bool>, String)> {
    let document: Value = serde_json::from_str(document).unwrap();
    let trace = &document["traces"][0];
    let all = ["races", "deadlocks"].iter().flat_map(|list| trace[list].as_array().unwrap());
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    all.map(|finding| (text(finding, "id"), finding["confirmed"].as_bool(), text(finding, "why_not"))).collect()
}

#[test]
fn a_run_that_is_to_be_confirmed_says_of_each_finding_whether_it_is() {
    let folder = program("confirmed");
    let plain = snag(&folder, &["run", "--format", "json", "-o", "plain.json", "--", "./program"]);
    assert_eq!(plain.status.code(), Some(1), "{}", complaint(&plain));
    let before = confirmed(&std::fs::read_to_string(folder.path("plain.json")).unwrap());
    assert_eq!(before, [("R1".to_owned(), None, String::new()), ("D1".to_owned(), None, String::new())]);

    let run = snag(&folder, &["run", "--confirm", "--", "./program"]);
    assert_eq!(run.status.code(), Some(1), "{}", complaint(&run));
    let report = text(&run);
    assert!(report.contains("    confirmed: a replay stopped both threads in front of these accesses\n"), "{report}");
    let deadlock = "    confirmed: a replay stopped the threads in front of locks that the others hold\n";
    assert!(report.contains(deadlock), "{report}");
    assert!(report.contains("\nconfirmed by replays: 1 of 1 race, 1 of 1 deadlock\n"), "{report}");
    // What it prints is seen once.
    assert_eq!(report.matches("none\n").count(), 1, "{report}");

    let run = snag(&folder, &["run", "--confirm", "--format", "json", "-o", "found.json", "--", "./program"]);
    assert_eq!(run.status.code(), Some(1), "{}", complaint(&run));
    let found = confirmed(&std::fs::read_to_string(folder.path("found.json")).unwrap());
    assert_eq!(found, [("R1".to_owned(), Some(true), String::new()), ("D1".to_owned(), Some(true), String::new())]);
}

#[test]
fn what_another_run_does_not_do_is_not_confirmed_and_found_all_the_same() {
    let folder = program("unconfirmed");
    let options = ["run", "--confirm", "--keep", "run.snag", "--format", "json", "-o", "found.json"];
    let run = snag(&folder, &[&options[..], &["--", "./program", "mark"]].concat());
    assert_eq!(run.status.code(), Some(1), "{}", complaint(&run));
    let found = confirmed(&std::fs::read_to_string(folder.path("found.json")).unwrap());
    assert_eq!(found.len(), 2);
    for (id, confirmed, why) in found {
        assert_eq!(confirmed, Some(false), "{id}");
        assert!(why.contains("the program exited with status 0"), "{id}: {why}");
    }
    // The proofs are as good as ever.
    assert_eq!(snag(&folder, &["verify", "run.snag", "found.json"]).status.code(), Some(0));
    let page = ["run", "--confirm", "--format", "html", "-o", "page.html", "--", "./program", "other"];
    assert_eq!(snag(&folder, &page).status.code(), Some(1));
    let page = std::fs::read_to_string(folder.path("page.html")).unwrap();
    assert!(page.contains("<p>not confirmed by a replay: after ") && page.contains("0 of 1 race, 0 of 1 deadlock"));
}

#[test]
fn a_file_that_was_read_is_read_again() {
    let folder = program("input");
    std::fs::write(folder.path("input"), "go\n").unwrap();
    let run = |input: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_snag"));
        command.args(["run", "--confirm", "--", "./program"]).current_dir(&folder.0).stdin(input);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
        text(&output)
    };
    let report = run(std::fs::File::open(folder.path("input")).unwrap().into());
    assert!(report.contains("\nconfirmed by replays: 1 of 1 race, 1 of 1 deadlock\n"), "{report}");
    assert!(report.starts_with("go\n"), "{report}");
}

#[test]
fn all_findings_of_a_recording_are_replayed() {
    let folder = program("replay-all");
    assert_eq!(snag(&folder, &["record", "-o", "run.snag", "--", "./program"]).status.code(), Some(0));
    let all = snag(&folder, &["replay", "run.snag", "--all"]);
    let report = text(&all);
    assert_eq!(all.status.code(), Some(1), "{report}{}", complaint(&all));
    let lines: Vec<&str> = report.lines().collect();
    assert!(lines[0].starts_with("R1 confirmed: data race on shared: write in T"), "{report}");
    assert!(lines[1].starts_with("D1 confirmed: deadlock: T1 waits for right, T2 waits for left"), "{report}");
    assert_eq!(lines[2..], ["2 of 2 confirmed"], "{report}");

    assert_eq!(snag(&folder, &["record", "-o", "run.snag", "--", "./program", "mark"]).status.code(), Some(0));
    let none = snag(&folder, &["replay", "run.snag", "--all"]);
    assert_eq!(none.status.code(), Some(2), "{}", text(&none));
    assert!(text(&none).contains("R1 not confirmed: after ") && text(&none).ends_with("0 of 2 confirmed\n"));

    let free = snag(&folder, &["run", "--confirm", "--free-running", "--", "./program"]);
    assert_eq!(free.status.code(), Some(2));
    assert!(complaint(&free).contains("cannot be used with"), "{}", complaint(&free));
}
