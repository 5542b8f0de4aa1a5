//! The other commands: help, compare, stats, man pages, completions, interrupts.

use crate::support::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

const COMMANDS: [&str; 10] =
    ["check", "compare", "verify", "convert", "stats", "generate", "trace", "explore", "man", "completions"];

#[test]
fn every_command_has_help_with_examples() {
    for name in COMMANDS {
        for help in [snag(&[name, "--help"]), snag(&["help", name]), snag(&[name, "-h"])] {
            let help = help.expect(0);
            assert!(help.stdout.contains("Usage: snag ") && help.stdout.contains("Example"), "{name}: {}", help.stdout);
        }
    }
    let help = snag(&["--help"]).expect(0).stdout;
    assert!(COMMANDS.iter().all(|name| help.contains(&format!("  {name} "))), "{help}");
    assert!(help.contains("Exit status: 0"));
    assert!(snag(&["--version"]).expect(0).stdout.starts_with("snag "));
    assert_eq!(snag(&[]).expect(2).stdout, "");
}

#[test]
fn compare_shows_every_engine() {
    let ran = snag(&["compare", &figure("fig4")]).expect(1);
    let mut lines = ran.stdout.lines().skip_while(|line| !line.starts_with("engine"));
    let heading = lines.next().unwrap();
    for column in ["location pairs", "warnings", "races proved", "time", "events/s", "memory", "reduced to", "sweeps"] {
        assert!(heading.contains(column), "{heading}");
    }
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split_whitespace().collect()).collect();
    let row = |name: &str| rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("no {name}: {rows:?}"));
    assert_eq!(row("hb")[1..4], ["7", "7", "4"]);
    assert_eq!(row("shb")[1..4], ["4", "4", "4"]);
    assert_eq!(row("cp")[1..3], ["7", "7"]);
    assert_eq!(row("cp").iter().rev().take(2).collect::<Vec<_>>(), [&"1", &"14"], "swept once, 14 events left");
    assert_eq!(row("lockset")[1..4], ["5", "5", "0"]);
    let ran = snag(&["compare", "--format", "json", &figure("fig4"), &figure("fig1"), "nothing"]).expect(2);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["traces"][0]["engines"][0]["races"], 4);
    assert_eq!(json["traces"][1]["engines"][3]["name"], "shb");
    let engines = json["traces"][0]["engines"].as_array().unwrap();
    let of = |name: &str| engines.iter().find(|engine| engine["name"] == name).unwrap();
    assert_eq!((&of("cp")["sweeps"], &of("cp")["reduced_events"]), (&1.into(), &14.into()));
    assert!(of("shb").get("reduced_events").is_none() && of("wcp").get("sweeps").is_none());
    assert_eq!(json["errors"][0]["path"], "nothing");
}

#[test]
fn stats_count() {
    let ran = snag(&["stats", &figure("fig4")]).expect(0);
    assert!(ran.stdout.lines().any(|line| line.split_whitespace().eq(["events", "14"])), "{}", ran.stdout);
    assert!(ran.stdout.lines().any(|line| line.starts_with("write")), "{}", ran.stdout);
    let ran = snag(&["stats", "--format", "json", &figure("fig4")]).expect(0);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&json["events"], &json["threads"], &json["locks"]), (&14.into(), &4.into(), &1.into()));
    let by_op: u64 = json["operations"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(by_op, 14);
    snag(&["stats", "nothing"]).expect(2);
}

#[test]
fn man_pages_and_completions_come_from_the_command_line() {
    let folder = Folder::new("man");
    let pages = folder.path("pages");
    snag(&["man", &pages]).expect(0);
    for name in ["snag.1", "snag-check.1", "snag-verify.1", "snag-generate.1"] {
        let page = std::fs::read_to_string(format!("{pages}/{name}")).unwrap();
        assert!(page.contains(".TH"), "{name}");
    }
    let check = std::fs::read_to_string(format!("{pages}/snag-check.1")).unwrap();
    assert!(check.contains("suppressions") && check.contains("Examples"));
    snag(&["man", &folder.file("file", "")]).expect(2);
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = snag(&["completions", shell]).expect(0).stdout;
        assert!(script.contains("suppressions"), "{shell}");
        assert_eq!(script.contains("recipe"), ["bash", "zsh", "fish"].contains(&shell), "{shell}");
    }
    snag(&["completions", "csh"]).expect(2);
}

/// A `check` that waits for more of its trace, of which it gets a first part, with interrupts already handled.
fn waiting(first_part: &str) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut child = command(&["-v", "check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    assert!(next_line(&mut stderr).contains("reading"));
    child.stdin.as_mut().unwrap().write_all(first_part.as_bytes()).unwrap();
    (child, stderr)
}

fn next_line(stderr: &mut impl BufRead) -> String {
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    line
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

#[cfg(unix)]
#[test]
fn an_interrupt_while_a_trace_is_read_is_no_clean_result() {
    let (mut child, mut stderr) = waiting("");
    interrupt(&child);
    assert!(next_line(&mut stderr).contains("interrupted"));
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(2), "a trace that was not read is no clean one");
    assert!(next_line(&mut stderr).contains("-: interrupted while it was read"));
    // Of one that was read in part the report says so.
    let (mut child, mut stderr) = waiting("T1|w(x)|A:1\n");
    interrupt(&child);
    assert!(next_line(&mut stderr).contains("interrupted"));
    drop(child.stdin.take());
    let mut text = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let said: Vec<String> = stderr.lines().map(Result::unwrap).collect();
    assert!(said.concat().contains("interrupted: only the first 1 events are analysed"), "{said:?}");
    assert!(text.contains("stopped early, so there may be more"), "{text}");
}
