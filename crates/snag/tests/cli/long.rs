//! Traces that are not kept whole in memory.

use crate::support::*;
use std::time::{Duration, Instant};

/// A trace with races, and with memory of which each thread has its own.
fn racy(folder: &Folder) -> String {
    let trace = folder.path("racy.snag");
    let sizes = ["--events", "30000", "--threads", "6", "--locks", "8", "--variables", "400", "--racy", "0.01"];
    snag(&[&["generate", "--seed", "7", "-o", &trace][..], &sizes].concat()).expect(0);
    trace
}

#[test]
fn a_trace_that_is_not_kept_whole_is_reported_as_one_that_is() {
    let folder = Folder::new("not-whole");
    let trace = racy(&folder);
    for format in ["text", "html", "sarif"] {
        let check = |whole: &str| snag(&["check", "--engine", "shb", "--format", format, "--whole", whole, &trace]);
        let (whole, condensed) = (check("1000000").expect(1), check("0").expect(1));
        assert_eq!(timeless(&whole.stdout), timeless(&condensed.stdout));
        assert_eq!(whole.stderr, condensed.stderr);
    }
}

#[test]
fn what_is_found_in_a_part_of_a_trace_is_proved_on_all_of_it() {
    let folder = Folder::new("proved-on-all");
    let (trace, found) = (racy(&folder), folder.path("found.json"));
    let ran = snag(&["check", "-v", "--whole", "1000", "--format", "json", "-o", &found, &trace]).expect(1);
    assert!(ran.stderr.contains("events are not about memory of one thread alone"), "{}", ran.stderr);
    let text = std::fs::read_to_string(&found).expect("a report");
    let events = snag(&["stats", &trace]).expect(0).stdout.replace(' ', "");
    let number = |digits: &str| digits.chars().take_while(char::is_ascii_digit).collect::<String>();
    let in_report = text.split_once("\"events\": ").map(|(_, rest)| number(rest)).expect("a number of events");
    assert!(events.contains(&format!("events{in_report}\n")), "{in_report}: {events}");
    snag(&["verify", &trace, &found]).expect(0);
}

#[test]
fn a_trace_without_findings_has_all_its_events_in_the_report() {
    let folder = Folder::new("all-events");
    let lines = "T1|w(x)|A:1\nT1|r(x)|A:2\nT1|r(x)|A:3\nT2|w(y)|A:4\nT2|r(y)|A:5\nT2|r(y)|A:6\n";
    let trace = folder.file("clean.std", lines);
    let ran = snag(&["check", "-v", "--whole", "0", &trace]).expect(0);
    assert!(ran.stdout.starts_with("shb: no races (0 warnings, 0 location pairs) in 6 events, 2 threads, "));
    assert!(ran.stderr.contains("4 of 6 events"), "{}", ran.stderr);
    // What comes by a pipe cannot be read twice.
    let ran = snag_with_input(&["check", "-v", "--whole", "0", "-"], lines).expect(0);
    assert!(ran.stdout.contains("in 6 events") && !ran.stderr.contains("of 6 events"), "{}", ran.stderr);
}

#[test]
fn what_is_wrong_with_a_long_trace_is_said_once() {
    let folder = Folder::new("long-and-wrong");
    let trace = folder.file("bad.std", "T1|w(x)|A:1\nT1|r(x)|A:2\nT1|rel(l)|A:3\n");
    let ran = snag(&["check", "--whole", "0", &trace]).expect(2);
    assert!(ran.stderr.starts_with(&format!("snag: error: {trace}: line 3: ")), "{}", ran.stderr);
    let fork = folder.file("warned.std", "T1|fork(2)|A:1\nT2|w(x)|A:2\nT1|w(y)|A:3\n");
    let whole = snag(&["check", &fork]).expect(0);
    let condensed = snag(&["check", "--whole", "0", &fork]).expect(0);
    assert!(whole.stderr.contains("warning"), "{}", whole.stderr);
    assert_eq!(whole.stderr, condensed.stderr);
}

#[test]
fn within_a_budget_what_shb_finds_in_a_trace_that_is_not_kept_whole_is_not_lost() {
    let folder = Folder::new("long-in-time");
    let trace = folder.path("long.snag");
    snag(&["generate", "--events", "3000000", "--threads", "8", "-o", &trace]).expect(0);
    let check = ["check", "-v", "--whole", "1000", &trace];
    let started = Instant::now();
    let without_budget = snag(&check).expect(1);
    let whole = started.elapsed().as_secs_f64();
    assert!(!without_budget.stdout.contains("stopped early"), "{}", without_budget.stdout);
    // One is long enough to read the trace twice and once more, one is not. Neither is long enough for `mc`.
    for budget in [whole / 5.0, whole / 50.0] {
        let started = Instant::now();
        let ran = snag(&[&check[..], &["--budget", &budget.to_string()]].concat()).expect(1);
        let most = Duration::from_secs_f64(budget * 1.05 + 1.0) + Duration::from_secs(2);
        assert!(started.elapsed() < most, "{budget}: {:?}", started.elapsed());
        assert!(ran.stdout.contains("found by shb"), "{budget}: {}", ran.stdout);
        assert!(ran.stdout.contains("stopped early"), "{budget}: {}", ran.stdout);
    }
}

#[test]
fn engines_take_no_more_memory_than_the_user_allows() {
    let folder = Folder::new("allowed");
    let trace = folder.path("trace.snag");
    snag(&["generate", "--events", "400000", "-o", &trace]).expect(0);
    let check = |more: &[&str]| snag(&[&["check", "--budget", "2", &trace][..], more].concat()).expect(1);
    let lacking = "for lack of memory only shb looks for races";
    let ran = check(&["--memory", "52M"]);
    assert!(ran.stderr.contains(lacking) && ran.stdout.contains("found by shb"), "{}", ran.stderr);
    let ran = check(&["--memory", "2G", "--max-races", "1"]);
    assert!(!ran.stderr.contains(lacking), "{}", ran.stderr);
}
