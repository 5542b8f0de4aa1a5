//! `snag verify` accepts what was proved and refuses what was tampered with.

use crate::support::*;
use serde_json::{Value, json};

/// Findings of a figure, changed, written to a file and verified.
fn verify(folder: &Folder, name: &str, change: impl FnOnce(&mut Value)) -> Ran {
    let trace = figure(name);
    let mut document: Value = serde_json::from_str(&snag(&["check", "--format", "json", &trace]).stdout).unwrap();
    change(&mut document);
    let file = folder.file("found.json", &document.to_string());
    snag(&["verify", &trace, &file])
}

#[test]
fn every_engine_s_proofs_are_accepted() {
    let folder = Folder::new("accepted");
    for name in ["fig1", "fig2", "fig3", "fig4", "fig5a", "fig5b"] {
        let out = folder.path("found.json");
        let engines = "hb,hb-vc,fhb,shb,shb-vc,lockset,mc";
        let args = ["check", "--engine", engines, "--candidates", "--format", "json", "-o", &out, &figure(name)];
        snag(&args).expect(1);
        let ran = snag(&["verify", &figure(name), &out]).expect(0);
        assert!(ran.stdout.contains("R1  accepted\n") && ran.stdout.ends_with(" 0 rejected\n"), "{}", ran.stdout);
        assert_eq!(snag(&["-q", "verify", &figure(name), &out]).expect(0).stdout, "");
    }
}

#[test]
fn a_broken_witness_is_rejected_with_its_rule() {
    let folder = Folder::new("rejected");
    let ran = verify(&folder, "fig3", |d| d["traces"][0]["races"][1]["witness"] = json!([0, 1, 3])).expect(1);
    assert!(ran.stdout.contains("R1  accepted\nR2  rejected: "), "{}", ran.stdout);
    assert!(ran.stdout.contains("rule: a lock is held by one thread"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("5 witnesses: 4 accepted, 1 rejected\n"));
    verify(&folder, "fig3", |d| d["traces"][0]["races"][0]["witness"] = json!([0, 0])).expect(1);
    verify(&folder, "fig3", |d| d["traces"][0]["races"][0]["witness"] = json!([])).expect(1);
}

#[test]
fn accesses_described_differently_are_rejected() {
    let folder = Folder::new("described");
    for (member, value) in [("thread", "t9"), ("op", "read"), ("variable", "y"), ("location", "Z:1")] {
        let ran = verify(&folder, "fig3", |d| d["traces"][0]["races"][0]["first"][member] = value.into()).expect(1);
        assert!(ran.stdout.contains("R1  rejected: event 1 is not what the findings say"), "{}", ran.stdout);
    }
}

#[test]
fn locks_described_differently_are_rejected() {
    let folder = Folder::new("locks");
    let trace = folder.file("t.std", "a|acq(l)|1\na|w(x)|2\na|rel(l)|3\nb|w(x)|4\n");
    let document: Value = serde_json::from_str(&snag(&["check", "--format", "json", &trace]).stdout).unwrap();
    let run = |document: &Value| snag_with_input(&["verify", &trace, "-"], &document.to_string());
    run(&document).expect(0);
    for (member, value) in [("locks_first", json!([])), ("locks_first", json!(["m"])), ("locks_second", json!(["l"]))] {
        let mut changed = document.clone();
        changed["traces"][0]["races"][0][member] = value;
        let ran = run(&changed).expect(1);
        assert!(ran.stdout.contains("R1  rejected: the locks held at event "), "{}", ran.stdout);
    }
}

#[test]
fn deadlocks_are_checked_too() {
    let folder = Folder::new("deadlocks");
    let lines = "a|acq(l)|A:1\na|acq(m)|A:2\na|rel(m)|\na|rel(l)|\nb|acq(m)|B:1\nb|acq(l)|B:2\nb|rel(l)|\nb|rel(m)|\n";
    let trace = folder.file("t.std", lines);
    let pending = |event: u32, thread: &str, lock: &str, location: &str| json!({"event": event, "thread": thread, "op": "acquire", "lock": lock, "location": location, "stack": []});
    let mut document: Value = serde_json::from_str(&snag(&["check", "--format", "json", &trace]).stdout).unwrap();
    document["traces"][0]["deadlocks"] = json!([{
        "id": "D1", "engine": "tlh1", "level": "writer", "witness": [0, 4], "reads": [], "verified": true,
        "pending": [pending(1, "a", "m", "A:2"), pending(5, "b", "l", "B:2")]
    }]);
    let run = |document: &Value| snag_with_input(&["verify", &trace, "-"], &document.to_string());
    assert_eq!(run(&document).expect(0).stdout, "D1  accepted\n1 witness: 1 accepted, 0 rejected\n");
    for form in [
        json!({"counts": {"a": 1, "b": 1}, "then": []}),
        json!({"counts": {"a": 1}, "then": [4]}),
        json!({"counts": {}, "turns": [4, 0]}),
    ] {
        document["traces"][0]["deadlocks"][0]["witness"] = form.clone();
        assert!(run(&document).expect(0).stdout.starts_with("D1  accepted\n"), "{form}");
    }
    for (form, why) in [
        (json!({"counts": {"a": 2, "b": 1}, "then": []}), "rejected"),
        // Listed events leave nothing out; the thread of a turn runs on up to its end.
        (json!({"counts": {}, "then": [1, 4]}), "rejected"),
        (json!({"counts": {}, "turns": [1, 4]}), "rejected"),
        (json!({"counts": {"b": 1}, "then": [4, 0]}), "rejected"),
    ] {
        document["traces"][0]["deadlocks"][0]["witness"] = form.clone();
        assert!(run(&document).expect(1).stdout.starts_with(&format!("D1  {why}")), "{form}");
    }
    document["traces"][0]["deadlocks"][0]["witness"] = json!([0]);
    assert!(run(&document).expect(1).stdout.starts_with("D1  rejected: "));
    document["traces"][0]["deadlocks"][0]["pending"][0]["lock"] = "l".into();
    assert!(run(&document).expect(1).stdout.contains("not what the findings say"));
}

#[test]
fn what_is_not_a_findings_file_of_this_trace_is_an_error() {
    let folder = Folder::new("malformed");
    let witness = |d: &mut Value, witness: Value| d["traces"][0]["races"][0]["witness"] = witness;
    type Mistake<'a> = (&'a dyn Fn(&mut Value), &'a str);
    let mistakes: [Mistake; 17] = [
        (&|d| d["snag"] = 3.into(), "version 3"),
        (&|d| _ = d.as_object_mut().unwrap().remove("snag"), "snag"),
        (&|d| _ = d.as_object_mut().unwrap().remove("traces"), "traces"),
        (&|d| d["traces"] = json!([]), "0 traces"),
        (&|d| _ = d["traces"][0].as_object_mut().unwrap().remove("races"), "races"),
        (&|d| _ = d["traces"][0].as_object_mut().unwrap().remove("deadlocks"), "deadlocks"),
        (&|d| _ = d["traces"][0]["races"][0].as_object_mut().unwrap().remove("witness"), "witness"),
        (&|d| _ = d["traces"][0]["races"][0].as_object_mut().unwrap().remove("count"), "count"),
        (&|d| d["traces"][0]["races"][0]["witness"] = json!([0, 999]), "event 999 is out of range"),
        (&|d| witness(d, json!({"counts": {"T9": 1}, "then": []})), "no thread 'T9'"),
        (&|d| witness(d, json!({"counts": {"t1": 99}, "then": []})), "99 events of thread 't1' are out of range"),
        (&|d| witness(d, json!({"counts": {}, "then": [12]})), "event 12 is out of range"),
        (&|d| witness(d, json!({"counts": {}, "then": [], "turns": []})), "more than one"),
        (&|d| witness(d, json!({"counts": {}})), "then"),
        (&|d| d["traces"][0]["races"][0]["second"]["event"] = 12.into(), "event 12 is out of range"),
        (&|d| d["traces"][0]["races"][0]["level"] = "imaginary".into(), "not available"),
        (&|d| d["traces"][0]["events"] = 13.into(), "a trace of 13 events; this one has 12"),
    ];
    for (change, message) in mistakes {
        let ran = verify(&folder, "fig3", change).expect(2);
        assert!(ran.stderr.starts_with("snag: error: ") && ran.stderr.contains(message), "{message}: {}", ran.stderr);
    }
    let trace = figure("fig1");
    snag(&["verify", &trace, &folder.file("text", "no JSON")]).expect(2);
    snag(&["verify", &trace, &folder.file("cut", "{\"snag\": 1, \"traces\": [")]).expect(2);
    snag(&["verify", &trace, &folder.path("nothing")]).expect(2);
    snag(&["verify", &folder.path("nothing"), &folder.file("empty", "{\"snag\":1,\"traces\":[]}")]).expect(2);
    let mut negative = snag(&["check", "--format", "json", &trace]).expect(1).stdout;
    negative = negative.replace("\"then\": []", "\"then\": [-1]");
    assert!(negative.contains("[-1]"));
    snag_with_input(&["verify", &trace, "-"], &negative).expect(2);
}

#[test]
fn of_several_traces_the_right_one_is_chosen() {
    let folder = Folder::new("choice");
    let file = folder.path("found.json");
    let (one, two) = (figure("fig1"), figure("fig2"));
    snag(&["check", "--format", "json", "-o", &file, &one, &two]).expect(1);
    assert!(snag(&["verify", &two, &file]).expect(0).stdout.contains("2 witnesses"));
    assert!(snag(&["verify", "--trace-index", "0", &one, &file]).expect(0).stdout.contains("1 witness:"));
    snag(&["verify", "--trace-index", "2", &one, &file]).expect(2);
    let copy = folder.file("copy.std", &std::fs::read_to_string(&two).unwrap());
    assert!(snag(&["verify", &copy, &file]).expect(2).stderr.contains("--trace-index"));
    snag(&["verify", "--trace-index", "1", &copy, &file]).expect(0);
}

/// Figure 1 of the Recipe paper: lines 2 and 7 race if the branch of line 4 goes the other way.
fn figure_1() -> Value {
    let access = |event: u32, thread: &str, op: &str, line: u32| {
        json!({ "event": event, "thread": thread, "op": op, "variable": "x",
                "location": format!("figure1:{line}"), "stack": [] })
    };
    json!({ "snag": 1, "traces": [ {
        "path": "figure1.stx", "events": 14, "threads": 3, "locks": 0, "variables": 3, "engines": [],
        "races": [ {
            "id": "R1", "engine": "recipe", "level": "symbolic",
            "first": access(3, "T1", "write", 2), "second": access(8, "T2", "else-read", 7),
            "locks_first": [], "locks_second": [],
            "witness": [0, 1, 5, 6, 7, 2], "diverging": [7],
            "reads": [ { "event": 5, "value": 0 }, { "event": 6, "value": 2 } ],
            "verified": true, "count": 1 } ],
        "deadlocks": [], "candidates": [] } ] })
}

#[test]
fn a_witness_with_values_and_a_diverging_branch() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/recipe/figure1.stx");
    let run = |change: &dyn Fn(&mut Value)| {
        let mut document = figure_1();
        change(&mut document["traces"][0]["races"][0]);
        snag_with_input(&["verify", trace, "-"], &document.to_string())
    };
    let ran = run(&|_| {}).expect(0);
    assert!(ran.stdout.contains("R1  accepted"), "{}", ran.stdout);
    let ran = run(&|race| race["reads"][0]["value"] = json!(3)).expect(1);
    assert!(ran.stdout.contains("rule: a witness gives the value that every read takes"), "{}", ran.stdout);
    let ran = run(&|race| _ = race.as_object_mut().unwrap().remove("diverging")).expect(1);
    assert!(ran.stdout.contains("rule: a branch goes the way it went"), "{}", ran.stdout);
    let ran = run(&|race| race["witness"] = json!([0, 1, 2, 5, 6, 7])).expect(1);
    assert!(ran.stdout.contains("rule: a diverging branch"), "{}", ran.stdout);
    run(&|race| race["level"] = json!("control")).expect(2);
    run(&|race| race["diverging"] = json!([99])).expect(2);
}

/// A trace in which a missing method keeps the two writes apart, and findings that claim a race.
fn impossible(folder: &Folder, change: impl FnOnce(&mut Value)) -> (String, Value) {
    let trace = folder
        .file("trace.stx", "%snag 1\nA|w(x)=1|a:1\nA|method-begin(m,{x})|a:2\nA|method-end(m)|a:3\nB|w(x)=2|b:1\n");
    let step = |event: u32, thread: &str, location: &str| json!({"event": event, "thread": thread, "op": "write", "variable": "x", "location": location, "stack": []});
    let mut race = json!({
        "id": "R1", "engine": "mc", "level": "value", "first": step(0, "A", "a:1"), "second": step(3, "B", "b:1"),
        "locks_first": [], "locks_second": [], "witness": [], "reads": [], "verified": true, "count": 1,
    });
    change(&mut race);
    let document = json!({"snag": 1, "traces": [{
        "path": "trace.stx", "events": 4, "threads": 2, "locks": 0, "variables": 1, "engines": [],
        "races": [race], "deadlocks": [], "candidates": [],
    }]});
    (trace, document)
}

#[test]
fn a_findings_file_does_not_decide_that_missing_methods_are_ignored() {
    let folder = Folder::new("ignored");
    let (trace, plain) = impossible(&folder, |_| {});
    let plain = folder.file("plain.json", &plain.to_string());
    let (_, ignored) = impossible(&folder, |race| race["missing_ignored"] = true.into());
    let ignored = folder.file("ignored.json", &ignored.to_string());
    let ran = snag(&["verify", &trace, &plain]).expect(1);
    assert!(ran.stdout.contains("R1  rejected: ") && !ran.stdout.contains("--ignore-missing"), "{}", ran.stdout);
    let ran = snag(&["verify", &trace, &ignored]).expect(1);
    assert!(ran.stdout.contains("R1  rejected: ") && ran.stdout.contains("--ignore-missing"), "{}", ran.stdout);
    // The user decides; what the file says is still needed.
    let ran = snag(&["verify", "--ignore-missing", &trace, &ignored]).expect(0);
    assert!(ran.stdout.contains("R1  accepted with missing methods ignored: no proof\n"), "{}", ran.stdout);
    snag(&["verify", "--ignore-missing", &trace, &plain]).expect(1);
    // A proof that holds as it is needs no leave.
    let account = repository("examples/rdit/account.stx");
    let out = folder.path("found.json");
    snag(&["check", "--engine", "mc", "--ignore-missing", "--format", "json", "-o", &out, &account]).expect(1);
    snag(&["verify", &account, &out]).expect(1);
    snag(&["verify", "--ignore-missing", &account, &out]).expect(0);
}

#[test]
fn ids_cannot_control_the_terminal() {
    let folder = Folder::new("escape");
    let id = "R1\u{1b}[31m\u{202e}  accepted\nR2  accepted\u{2028}";
    let (trace, document) = impossible(&folder, |race| race["id"] = id.into());
    let found = folder.file("found.json", &document.to_string());
    let ran = snag(&["verify", &trace, &found]).expect(1);
    let first = "R1\\u{1b}[31m\\u{202e}  accepted\\u{a}R2  accepted\\u{2028}  rejected: ";
    assert!(ran.stdout.starts_with(first), "{}", ran.stdout);
    // In errors as well.
    let (_, document) = impossible(&folder, |race| {
        race["id"] = id.into();
        race["witness"] = json!([99]);
    });
    let ran = snag(&["verify", &trace, &folder.file("found.json", &document.to_string())]).expect(2);
    assert!(!ran.stderr.contains('\u{1b}') && ran.stderr.contains("\\u{1b}[31m\\u{202e}"), "{}", ran.stderr);
}

#[test]
fn what_is_wrong_with_a_findings_file_is_said_before_anything_is_answered() {
    let folder = Folder::new("twice");
    let (trace, document) = impossible(&folder, |_| {});
    let twice = document.to_string().replace("\"candidates\":[]", "\"candidates\":[],\"races\":[]");
    assert_ne!(twice, document.to_string());
    let ran = snag(&["verify", &trace, &folder.file("twice.json", &twice)]).expect(2);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("'races' twice"), "{}{}", ran.stdout, ran.stderr);
    // The same if the second claim makes no sense.
    let mut two = document.clone();
    let mut second = two["traces"][0]["races"][0].clone();
    second["witness"] = json!([4]);
    two["traces"][0]["races"].as_array_mut().unwrap().push(second);
    let ran = snag(&["verify", &trace, &folder.file("two.json", &two.to_string())]).expect(2);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("event 4 is out of range"), "{}{}", ran.stdout, ran.stderr);
}
