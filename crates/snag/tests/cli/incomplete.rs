//! Incomplete traces from outside: making holes, comparing engines, declared globals, object trees.

use crate::support::{Folder, repository, snag};
use serde_json::Value;

/// Two threads write `x` under a lock that methods take and give back, and `y` without one.
const COMPLETE: &str = "M|fork(A)|main.c:1
M|fork(B)|main.c:2
A|begin(lock)|
A|acq(l)|sync.c:1
A|end(lock)|
A|w(x)|work.c:1
A|begin(unlock)|
A|rel(l)|sync.c:2
A|end(unlock)|
A|w(y)|work.c:2
B|begin(lock)|
B|acq(l)|sync.c:1
B|end(lock)|
B|w(x)|work.c:3
B|begin(unlock)|
B|rel(l)|sync.c:2
B|end(unlock)|
B|begin(note)|
B|w(y)|work.c:4
B|end(note)|
";

/// The lines of the incomplete trace that these options give, without the first.
fn punched(folder: &Folder, options: &[&str]) -> String {
    let full = folder.file("full.std", COMPLETE);
    let ran = snag(&[&["punch", "-q", "--to", "text"], options, &[full.as_str(), "-"]].concat()).expect(0);
    ran.stdout.strip_prefix("%snag 1\n").expect("Snag's text").to_owned()
}

#[test]
fn punch_methods_takes_out_what_they_did_and_says_what_that_touched() {
    let folder = Folder::new("punch-methods");
    let holes = "M|fork(A)|main.c:1
M|fork(B)|main.c:2
A|method-begin(lock,{lock:l})|
A|method-end(lock)|
A|w(x)|work.c:1
A|method-begin(unlock,{lock:l})|
A|method-end(unlock)|
A|w(y)|work.c:2
B|method-begin(lock,{lock:l})|
B|method-end(lock)|
B|w(x)|work.c:3
B|method-begin(unlock,{lock:l})|
B|method-end(unlock)|
B|mark(\"begin(note)\")|17
B|w(y)|work.c:4
B|mark(\"end(note)\")|19
";
    assert_eq!(punched(&folder, &["--methods", "lock,unlock"]), holes);
    // They are the ones that synchronise.
    assert_eq!(punched(&folder, &["--sync"]), holes);
    let note = punched(&folder, &["--methods", "note"]);
    assert!(note.contains("B|method-begin(note,{y})|\nB|method-end(note)|\n"), "{note}");
    assert!(note.contains("A|acq(l)|sync.c:1\n") && !note.contains("work.c:4"), "{note}");
    // Half of a critical section cannot stay alone.
    let half = punched(&folder, &["--methods", "lock"]);
    assert!(!half.contains("acq(l)") && !half.contains("rel(l)"), "{half}");
    assert_eq!(half.matches("method-begin(elsewhere,{lock:l})").count(), 2, "{half}");
}

#[test]
fn punch_files_and_threads_takes_out_runs_of_events() {
    let folder = Folder::new("punch-files");
    let files = punched(&folder, &["--files", "sync.c"]);
    assert!(!files.contains("acq(l)") && !files.contains("rel(l)"), "{files}");
    assert_eq!(files.matches("|method-begin(sync.c,{lock:l})|sync.c:1").count(), 2, "{files}");
    let both = punched(&folder, &["--files", "sync.c,work.c"]);
    assert!(!both.contains("|w("), "{both}");
    let threads = punched(&folder, &["--threads", "B"]);
    assert!(threads.contains("A|w(x)|work.c:1\n") && !threads.contains("B|w("), "{threads}");
    let begin = threads.lines().find(|line| line.starts_with("B|method-begin(B,{")).expect("B is a missing call");
    assert!(["x", "y", "lock:l"].iter().all(|object| begin.contains(object)), "{begin}");
}

#[test]
fn punch_random_depends_on_the_seed_alone() {
    let folder = Folder::new("punch-random");
    let complete = punched(&folder, &["--random", "0"]);
    assert!(!complete.contains("method-begin"), "{complete}");
    let empty = punched(&folder, &["--random", "1"]);
    assert!(!empty.contains("acq(l)") && empty.contains("method-begin(note,{y})"), "{empty}");
    let some: Vec<String> =
        (0..8).map(|seed| punched(&folder, &["--random", "0.5", "--seed", &seed.to_string()])).collect();
    assert_eq!(some[3], punched(&folder, &["--random", "0.5", "--seed", "3"]));
    assert!(some.iter().any(|holes| *holes != some[0]), "all seeds give {}", some[0]);
}

#[test]
fn punch_says_how_much_is_missing_and_what_is_wrong_with_a_choice() {
    let folder = Folder::new("punch-messages");
    let full = folder.file("full.std", COMPLETE);
    let out = folder.path("holes.stx");
    let said = snag(&["punch", "--sync", &full, &out]).expect(0).stderr;
    assert!(said.contains("2 of 3 methods are missing: 12 of 20 events removed, 4 calls instead"), "{said}");
    for (options, phrase) in [
        (&["--methods", "frob"][..], "there is no method 'frob' in it"),
        (&["--files", "frob.c"], "there is no file 'frob.c' in it"),
        (&["--threads", "Z"], "there is no thread 'Z' in it"),
        (&["--random", "2"], "not between 0 and 1"),
        (&["--random", "x"], "not a number"),
        (&["--sync", "--threads", "A"], "cannot be used with"),
        (&[], "required"),
    ] {
        let ran = snag(&[&["punch"], options, &[full.as_str(), folder.path("none.stx").as_str()]].concat()).expect(2);
        assert!(ran.stderr.contains(phrase), "{options:?}: {}", ran.stderr);
    }
    let bare = folder.file("bare.std", "T|w(x)|\n");
    let ran = snag(&["punch", "--sync", &bare, &folder.path("none.stx")]).expect(2);
    assert!(ran.stderr.contains("no method is known"), "{}", ran.stderr);
    assert_eq!(folder.names(), ["bare.std", "full.std", "holes.stx"]);
}

#[test]
fn compare_incomplete_counts_true_and_false_races_against_the_complete_trace() {
    let folder = Folder::new("compare-incomplete");
    let full = folder.file("full.std", COMPLETE);
    let holes = folder.path("holes.stx");
    let compare = |holes: &str| -> Value {
        let ran = snag(&["compare", "--incomplete", "--format", "json", &full, holes]).expect(1);
        serde_json::from_str(&ran.stdout).expect("JSON")
    };
    let row = |json: &Value, engine: &str| -> [u64; 4] {
        let rows = json["engines"].as_array().expect("engines");
        let row = rows.iter().find(|row| row["name"] == engine).expect("the engine");
        ["true_races", "false_alarms", "missed_in_missing_code", "missed_by_caution"]
            .map(|key| row[key].as_u64().unwrap_or_else(|| panic!("{key} in {row}")))
    };
    // y is the race; x is protected by the lock, which now nobody sees.
    snag(&["punch", "-q", "--sync", &full, &holes]).expect(0);
    let json = compare(&holes);
    for engine in ["hb", "cp", "mc"] {
        assert_eq!(row(&json, engine), [1, 1, 0, 0], "{engine}");
    }
    assert_eq!(row(&json, "rdit"), [1, 0, 0, 0]);
    assert_eq!(row(&json, "sb"), [1, 0, 0, 0]);
    let text = snag(&["compare", "--incomplete", &full, &holes]).expect(1).stdout;
    assert!(text.contains("rdit") && text.contains("missed"), "{text}");
    // One of the two racing accesses is in missing code: nobody can know.
    snag(&["punch", "-q", "--methods", "note", &full, &holes]).expect(0);
    let json = compare(&holes);
    for engine in ["hb", "cp", "mc", "sb", "rdit"] {
        assert_eq!(row(&json, engine), [0, 0, 1, 0], "{engine}");
    }
    // Two traces are needed, the first of them complete.
    let ran = snag(&["compare", "--incomplete", &holes, &full]).expect(2);
    assert!(ran.stderr.contains("methods are missing already"), "{}", ran.stderr);
    snag(&["compare", "--incomplete", &full]).expect(2);
}

/// A missing method that is given nothing, and synchronises by a global all the same.
const LOG: &str = "%snag 1
M|fork(A)|m:1
M|w(flag)|m:2
M|w(x)|m:3
M|method-begin(log,{})|m:4
M|method-end(log)|m:4
A|method-begin(log,{})|a:1
A|method-end(log)|a:1
A|w(x)|a:2
A|acq(out)|a:3
A|rel(out)|a:3
";

#[test]
fn a_declared_global_puts_calls_of_its_method_in_order() {
    let folder = Folder::new("globals");
    let trace = folder.file("log.stx", LOG);
    for engine in ["rdit", "mc", "shb"] {
        let found = snag(&["check", "--engine", engine, &trace]).expect(1).stdout;
        assert!(found.contains("data race on x"), "{engine}: {found}");
        for global in ["log=lock:out", "log=flag", "log=nothing"] {
            snag(&["check", "--engine", engine, "--global", global, &trace]).expect(0);
        }
    }
    for (global, phrase) in [
        ("log", "'log' declares no global"),
        ("log=", "declares no global"),
        ("=x", "declares no global"),
        ("frob=x", "no missing method of that name"),
        ("log=lock:", "expected a name"),
        ("log=x,y", "unexpected ',y'"),
    ] {
        let ran = snag(&["check", "--global", global, &trace]).expect(2);
        assert!(ran.stderr.contains(phrase), "{global}: {}", ran.stderr);
    }
}

/// The lock of a queue is found by way of its object: once described, and after its reference was written.
const QUEUE: &str = "%snag 1
M|fork(A)|m:1
M|reach(0x1000:16,{})|m:2
M|reach(0x2000:40,{lock:q})|m:3
M|w(0x1008:8)=8192|m:4
M|w(x)=1|m:5
M|method-begin(push,0x1000:16)|m:6
M|method-end(push)|m:6
A|method-begin(pop,0x2000:40)|a:1
A|method-end(pop)|a:1
A|r(x)=1|a:2
";

#[test]
fn arguments_of_missing_methods_are_followed_through_objects() {
    let folder = Folder::new("trees");
    let trace = folder.file("queue.stx", QUEUE);
    snag(&["check", "--engine", "rdit", &trace]).expect(0);
    // Without the reference the two calls have nothing in common.
    let apart = folder.file("apart.stx", &QUEUE.replace("=8192", "=0"));
    let found = snag(&["check", "--engine", "rdit", "--format", "json", &apart]).expect(1).stdout;
    // What is found is found again by the checker alone, which follows the objects as well.
    let findings = folder.file("found.json", &found);
    snag(&["verify", &apart, &findings]).expect(0);
    let refused = snag(&["verify", &trace, &findings]);
    assert_ne!(refused.status, Some(0), "{}", refused.stdout);
    // Converting keeps what was written.
    let binary = folder.path("queue.snag");
    snag(&["convert", &trace, &binary]).expect(0);
    assert_eq!(snag(&["convert", "--to", "text", &binary, "-"]).expect(0).stdout, QUEUE);
    snag(&["check", "--engine", "rdit", &binary]).expect(0);
    let stats = snag(&["stats", &binary]).expect(0).stdout;
    assert!(stats.contains("reach"), "{stats}");
    let wrong = folder.file("wrong.stx", &QUEUE.replace("push,0x1000:16", "push,0x3000:8"));
    let ran = snag(&["check", &wrong]).expect(2);
    assert!(ran.stderr.contains("line 7") && ran.stderr.contains("nothing says what it leads to"), "{}", ran.stderr);
}

#[test]
fn the_example_of_objects_has_no_race_unless_missing_methods_are_ignored() {
    let example = repository("examples/rdit/objects.stx");
    snag(&["check", &example]).expect(0);
    let ran = snag(&["check", "--engine", "mc", "--ignore-missing", &example]).expect(1);
    assert!(ran.stdout.contains("possible race on item"), "{}", ran.stdout);
}

#[test]
fn account_is_answered_as_in_the_paper() {
    let account = repository("examples/rdit/account.stx");
    let pairs = |args: &[&str]| -> Vec<String> {
        let stdout = snag(&[&["check", "--candidates"], args, &[account.as_str()]].concat()).expect(1).stdout;
        let races = stdout.lines().filter(|line| line.contains(" race on ") || line.contains("andidate"));
        let place = |text: &str| text.rsplit_once(" at ").map(|(_, place)| place.to_owned());
        let mut pairs: Vec<String> = races
            .filter_map(|line| line.split_once(" / "))
            .filter_map(|(first, second)| Some(format!("{},{}", place(first)?, place(second)?)))
            .collect();
        pairs.sort();
        pairs.dedup();
        pairs
    };
    assert_eq!(pairs(&["--engine", "rdit"]), ["5,8"]);
    for engine in ["hb", "cp", "mc"] {
        let found = pairs(&["--engine", engine, "--ignore-missing"]);
        assert_eq!(found, ["4,16", "5,19", "5,8", "7,17", "8,19"], "{engine}");
    }
}
