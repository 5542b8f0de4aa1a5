//! Streams: races are printed while they are read, and however they end there is a report.

use crate::support::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const RACE: &str = "T0|fork(T1)|1\nT0|acq(l)|2\nT0|w(x)|3\nT0|rel(l)|4\nT1|w(x)|5\n";

/// A program that reads a stream, its input and its output.
fn follow(args: &[&str]) -> (Child, ChildStdin, BufReader<ChildStdout>) {
    let args: Vec<&str> = ["check", "--online", "-"].iter().chain(args).copied().collect();
    let mut command = command(&args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    let (input, output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    (child, input, BufReader::new(output))
}

/// Reads until a text has come; the child goes on.
fn wait_for(output: &mut impl BufRead, text: &str) {
    let mut printed = Vec::new();
    while !String::from_utf8_lossy(&printed).contains(text) {
        let more = output.fill_buf().expect("the pipe can be read");
        assert!(!more.is_empty(), "'{text}' does not come");
        let count = more.len();
        printed.extend_from_slice(more);
        output.consume(count);
    }
}

fn rest(mut output: impl Read) -> String {
    let mut text = String::new();
    output.read_to_string(&mut text).expect("output is text");
    text
}

#[test]
fn a_race_is_printed_while_the_stream_goes_on() {
    let (mut child, mut input, mut output) = follow(&[]);
    input.write_all(RACE.as_bytes()).unwrap();
    wait_for(&mut output, "R1: data race on x");
    input.write_all(b"T0|w(y)|6\nT1|w(y)|7\n").unwrap();
    wait_for(&mut output, "R2: data race on y");
    drop(input);
    assert!(rest(output).contains("tlh2, online: 2 races in 7 events, 2 threads"));
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn an_interrupt_ends_a_stream_with_a_full_report() {
    for form in ["text", "json"] {
        let (mut child, mut input, mut output) = follow(&["--format", form]);
        // In the middle of a line.
        input.write_all(RACE.as_bytes()).unwrap();
        input.write_all(b"T0|w(").unwrap();
        wait_for(&mut output, if form == "json" { "\"id\": \"R1\"" } else { "R1: data race on x" });
        let killed = Command::new("kill").arg("-INT").arg(child.id().to_string()).status();
        assert!(killed.expect("kill runs").success());
        let report = rest(output);
        match form {
            "json" => assert!(report.contains("\"complete\": false"), "{report}"),
            _ => assert!(report.contains("tlh2, online: 1 race in 5 events"), "{report}"),
        }
        assert_eq!(child.wait().unwrap().code(), Some(1));
        drop(input);
    }
}

#[test]
fn nobody_listening_any_more_ends_the_program_without_complaint() {
    for form in ["text", "json"] {
        let (mut child, mut input, mut output) = follow(&["--format", form]);
        input.write_all(RACE.as_bytes()).unwrap();
        wait_for(&mut output, if form == "json" { "\"id\": \"R1\"" } else { "R1: data race on x" });
        drop(output);
        // Whether it still reads depends on when it notices; whatever it prints, nobody gets it.
        let _ = input.write_all(b"T0|w(y)|6\nT1|w(y)|7\n");
        drop(input);
        let mut said = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("messages are text");
        assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
        assert_eq!(said, "");
    }
}

#[test]
fn a_producer_that_is_killed_leaves_a_full_report() {
    let (mut child, mut input, mut output) = follow(&[]);
    input.write_all(RACE.as_bytes()).unwrap();
    wait_for(&mut output, "R1: data race on x");
    input.write_all(b"T0|w(y)|6\nT1|w(y)|7\n").unwrap();
    // Its end of the pipe is closed, whether it finished or died.
    drop(input);
    let report = rest(output);
    assert!(report.contains("R2: data race on y"), "{report}");
    assert!(report.contains("tlh2, online: 2 races in 7 events"), "{report}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_stream_that_breaks_off_inside_a_line_is_reported_up_to_there() {
    let ran = snag_with_input(&["check", "--online", "-"], &format!("{RACE}T0|w(y")).expect(1);
    assert!(ran.stdout.contains("tlh2, online: 1 race in 5 events"), "{}", ran.stdout);
    assert!(ran.stderr.contains("the stream ends inside an event"), "{}", ran.stderr);
}

#[test]
fn a_stream_that_is_no_trace_is_an_error() {
    // A last line without an end excuses no other.
    for more in [RACE, "T0|w(y)|6"] {
        let ran = snag_with_input(&["check", "--online", "-"], &format!("{RACE}nonsense\n{more}")).expect(2);
        assert!(ran.stderr.contains("line 6"), "{}", ran.stderr);
    }
    snag_with_input(&["check", "--online", "-"], "").expect(2);
}

/// Found that events were left out if something wrong followed them closely.
#[test]
fn what_stands_before_something_wrong_is_analysed() {
    let folder = Folder::new("online-before");
    let std = folder.file("trace.std", RACE);
    snag(&["convert", "-q", &std, &folder.path("trace.stx")]).expect(0);
    let text = std::fs::read_to_string(folder.path("trace.stx")).expect("it was written");
    // A line that is none, and one that breaks a rule.
    for wrong in ["nonsense\n", "T0|rel(l)|6\n"] {
        for good in [RACE, &text] {
            let stream = format!("{good}{wrong}T0|w(y)|7\n");
            let ran = snag_with_input(&["check", "--online", "-"], &stream).expect(2);
            assert!(ran.stdout.contains("R1: data race on x"), "{}", ran.stdout);
            assert!(ran.stdout.contains("tlh2, online: 1 race in 5 events"), "{}", ran.stdout);
            let line = format!("line {}", good.lines().count() + 1);
            assert!(ran.stderr.contains(&line), "{}", ran.stderr);
        }
    }
}

#[test]
fn findings_of_a_stream_can_be_verified() {
    let folder = Folder::new("online");
    let (trace, findings) = (&*folder.path("stream.std"), &*folder.path("found.json"));
    snag(&["generate", "-q", "--events", "20000", "--racy", "0.01", "-o", trace]).expect(0);
    // Windows so small that there are many of them.
    snag(&["check", "--online", "--window", "500", "--format", "json", "-o", findings, trace]).expect(1);
    let ran = snag(&["verify", trace, findings]).expect(0);
    assert!(ran.stdout.contains(" 0 rejected"), "{}", ran.stdout);
}

#[test]
fn options_that_do_not_go_with_a_stream_are_refused() {
    for (args, message) in [
        (["--engine", "mc"], "tlh2 only"),
        (["--level", "value"], "level 'writer' only"),
        (["--budget", "1"], "--budget does not go with --online"),
        (["--format", "html"], "text or JSON"),
        (["--global", "m=x"], "--global does not go with --online"),
    ] {
        let args: Vec<&str> = ["check", "--online", "-"].into_iter().chain(args).collect();
        let ran = snag(&args).expect(2);
        assert!(ran.stderr.contains(message), "{}", ran.stderr);
    }
}

/// Found compressed files that were cut off, or had something behind their end, and were taken for cut lines of text.
#[test]
fn a_damaged_compressed_stream_is_an_error() {
    let folder = Folder::new("online-damaged");
    for name in ["trace.std.gz", "trace.std.zst", "trace.std.lz4"] {
        let path = folder.path(name);
        snag(&["generate", "-q", "--events", "20000", "--racy", "0.01", "-o", &path]).expect(0);
        snag(&["check", "-q", "--online", &path]).expect(1);
        let whole = std::fs::read(&path).expect("it was written");
        std::fs::write(&path, &whole[..whole.len() / 2]).expect("the file can be written");
        snag(&["check", "-q", "--online", &path]).expect(2);
        std::fs::write(&path, [&whole[..], b"rubbish"].concat()).expect("the file can be written");
        snag(&["check", "-q", "--online", &path]).expect(2);
    }
}

#[test]
fn a_recording_that_is_cut_off_is_not_complete() {
    let folder = Folder::new("online-cut");
    let path = folder.path("trace.snag");
    snag(&["generate", "-q", "--events", "300000", "--racy", "0.01", "-o", &path]).expect(0);
    let whole = std::fs::read(&path).expect("it was written");
    std::fs::write(&path, &whole[..whole.len() * 3 / 4]).expect("the file can be written");
    let ran = snag(&["check", "--online", "--format", "json", &path]).expect(1);
    assert!(ran.stdout.contains("\"complete\": false"), "{}", ran.stdout);
    assert!(ran.stderr.contains("warning"), "{}", ran.stderr);
}

#[test]
fn a_document_about_a_stream_that_is_no_trace_says_so() {
    let folder = Folder::new("online-errors");
    for text in ["", "nonsense\n", &format!("{RACE}nonsense\n")] {
        let (trace, found) = (folder.file("trace.std", text), folder.path("found.json"));
        snag(&["check", "--online", "--format", "json", "-o", &found, &trace]).expect(2);
        let document = std::fs::read_to_string(&found).expect("it was written");
        let document: serde_json::Value = serde_json::from_str(&document).expect("JSON");
        assert_eq!(document["errors"].as_array().map(Vec::len), Some(1), "{document}");
        assert!(document["traces"].is_array(), "{document}");
    }
}

/// Found findings that depended on when they were proved, and so on how fast the stream came and how it was cut.
#[test]
fn a_stream_has_the_same_findings_in_every_format() {
    let folder = Folder::new("online-same");
    let pairs = |path: &str| {
        let args = ["check", "--online", "--window", "3000", "--candidates", "--format", "json", path];
        let ran = snag(&args).expect(1);
        let document: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let trace = &document["traces"][0];
        let list = |kind: &str| {
            let events = |pair: &serde_json::Value| (pair["second"]["event"].as_u64(), pair["first"]["event"].as_u64());
            let mut pairs: Vec<_> = trace[kind].as_array().expect("a list").iter().map(events).collect();
            pairs.sort_unstable();
            pairs
        };
        (list("races"), list("candidates"), trace["engines"][0]["complete"].clone())
    };
    let (text, binary) = (folder.path("trace.std"), folder.path("trace.snag"));
    for seed in ["1", "2", "3"] {
        let shape = ["--events", "40000", "--racy", "0.002", "--racy-variables", "5", "--seed", seed];
        snag(&[&["generate", "-q", "-o", &text][..], &shape].concat()).expect(0);
        snag(&["convert", &text, &binary]).expect(0);
        let found = pairs(&text);
        assert_eq!(found, pairs(&binary), "seed {seed}");
        assert!(!found.0.is_empty(), "seed {seed}");
    }
}
