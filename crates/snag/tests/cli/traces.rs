//! `snag convert` and `snag generate`: files of traces.

use crate::support::*;
use std::io::Read;
use std::process::Stdio;

fn read(path: &str) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[test]
fn a_trace_survives_every_format_and_compression() {
    let folder = Folder::new("roundtrip");
    let original = figure("fig4");
    for name in ["t.snag", "t.stx", "t.std.gz", "t.snag.zst", "t.stx.lz4"] {
        let (there, back) = (folder.path(name), folder.path("back.std"));
        snag(&["convert", &original, &there]).expect(0);
        snag(&["convert", &there, &back]).expect(0);
        assert_eq!(read(&back), read(&original), "{name}");
        let found = snag(&["check", "-q", &there]).expect(1).stdout;
        assert_eq!(found, snag(&["check", "-q", &original]).expect(1).stdout, "{name}");
    }
}

#[test]
fn formats_can_be_named_and_standard_streams_used() {
    let text = std::fs::read_to_string(figure("fig1")).unwrap();
    let ran = snag_with_input(&["convert", "--from", "std", "--to", "text", "-", "-"], &text).expect(0);
    let ran = snag_with_input(&["convert", "--to", "std", "-", "-"], &ran.stdout).expect(0);
    assert_eq!(ran.stdout, text);
}

#[test]
fn a_conversion_that_fails_leaves_nothing_behind() {
    let folder = Folder::new("fails");
    let bad = folder.file("bad.std", "T1|w(x)|A\nT1|rel(l)|B\n");
    let ran = snag(&["convert", &bad, &folder.path("out.snag")]).expect(2);
    assert!(ran.stderr.starts_with(&format!("snag: error: {bad}: line 2: ")), "{}", ran.stderr);
    snag(&["generate", "--values", "--events", "100", "-o", &folder.path("v.stx")]).expect(0);
    let ran = snag(&["convert", &folder.path("v.stx"), &folder.path("v.std")]).expect(2);
    assert!(ran.stderr.contains("STD cannot express values"), "{}", ran.stderr);
    snag(&["convert", &bad, &folder.path("out.unknown")]).expect(2);
    snag(&["convert", &folder.path("none.std"), &folder.path("out.snag")]).expect(2);
    assert_eq!(folder.names(), ["bad.std", "v.stx"]);
}

#[test]
fn generated_traces_depend_on_their_options_alone() {
    let generate =
        |seed: &str| snag(&["generate", "--events", "500", "--threads", "3", "--seed", seed]).expect(0).stdout;
    assert_eq!(generate("1"), generate("1"));
    assert_ne!(generate("1"), generate("2"));
    let ran = snag_with_input(&["stats", "--format", "json", "-"], &generate("1")).expect(0);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["threads"], 3);
    assert!(json["events"].as_u64().unwrap().abs_diff(500) < 100);
}

#[test]
fn shapes_that_make_no_sense_are_bad_usage() {
    for args in [
        &["generate", "--threads", "0"][..],
        &["generate", "--racy", "1.5"],
        &["generate", "--reads", "NaN"],
        &["generate", "--section", "0"],
        &["generate", "--locks", "0", "--local-variables", "0", "--racy", "0"],
        &["generate", "--nesting", "0", "--local-variables", "0", "--racy", "0"],
        &["generate", "-o", "/nonexistent/t.std"],
        &["generate", "--to", "xml"],
    ] {
        let ran = snag(args).expect(2);
        assert!(ran.stderr.starts_with("snag: error: "), "{args:?}: {}", ran.stderr);
    }
    let ran = snag(&["generate", "--values", "--events", "100"]).expect(2);
    assert!(ran.stderr.contains("STD cannot express values"), "{}", ran.stderr);
}

#[test]
fn a_reader_that_has_seen_enough_ends_generation_quietly() {
    let mut child =
        command(&["generate", "--events", "2000000"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 10]).unwrap();
    drop(out);
    let ran = Ran::from(child.wait_with_output().unwrap()).expect(0);
    assert_eq!(ran.stderr, "");
}

#[test]
fn names_that_only_lost_events_used_are_not_counted() {
    let folder = Folder::new("lost-names");
    let (path, whole) = (folder.path("cut.snag"), folder.path("whole.stx"));
    snag(&["generate", "-q", "--events", "200000", "--local-variables", "20000", "-o", &path]).expect(0);
    let bytes = std::fs::read(&path).expect("it was written");
    std::fs::write(&path, &bytes[..bytes.len() * 2 / 3]).expect("the file can be written");
    // What is left, as a trace of its own, names what is in it and nothing else.
    snag(&["convert", "-q", &path, &whole]).expect(0);
    let counts = |path: &str| {
        let ran = snag(&["stats", "--format", "json", path]).expect(0);
        let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
        ["events", "variables", "locks", "locations"].map(|key| json[key].as_u64())
    };
    assert_eq!(counts(&path), counts(&whole));
}
