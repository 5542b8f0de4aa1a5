//! What went wrong in a recorded run is a finding.

use crate::sturdy::program;
use crate::support::*;

fn compiled(test: &str, source: &str) -> Folder {
    let folder = Folder::new(&format!("faults-{test}"));
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program(source), &folder.path("program"));
    folder
}

/// Runs the program in one way, which is to give one finding with this headline. The findings of the recording hold.
fn finds(folder: &Folder, how: &str, headline: &str) {
    let output = snag(folder, &["run", "--keep", "run.snag", "--", "./program", how]);
    let (out, err) = (text(&output), complaint(&output));
    assert_eq!(output.status.code(), Some(1), "{how}: {out}{err}");
    assert!(out.contains(headline), "{how}: no '{headline}' in {out}{err}");
    assert!(out.contains("observed: it happened in the recorded run"), "{how}: {out}");
    let json = snag(folder, &["check", "--format", "json", "-o", "found.json", "run.snag"]);
    assert_eq!(json.status.code(), Some(1), "{how}: {}", complaint(&json));
    let verified = snag(folder, &["verify", "run.snag", "found.json"]);
    assert_eq!(verified.status.code(), Some(0), "{how}: {}{}", text(&verified), complaint(&verified));
    let found = std::fs::read_to_string(folder.path("found.json")).unwrap();
    assert!(found.contains("\"how\": \"observed\""), "{how}: {found}");
}

fn finds_nothing(folder: &Folder, how: &str, says: &str) {
    for seed in ["1", "2", "3", "4"] {
        let output = snag(folder, &["run", "--seed", seed, "--", "./program", how]);
        assert_eq!(output.status.code(), Some(0), "{how}: {}{}", text(&output), complaint(&output));
        assert!(text(&output).starts_with(says), "{how}: {}", text(&output));
    }
}

/// Found a warning, and exit status 0.
#[test]
fn memory_is_used_after_its_end() {
    let folder = compiled("used", "freed.c");
    finds(&folder, "f", "F1  use after free of");
    finds(&folder, "r", "F1  use after free of");
    finds(&folder, "d", "F1  double free of");
    finds(&folder, "o", "F1  use after free of");
    finds_nothing(&folder, "n", "1\n");
}

/// Found double frees of what `pthread_create` and functions of the C library had allocated where nothing is recorded.
#[test]
fn what_the_library_hands_out_was_not_freed() {
    let folder = compiled("library", "library_memory.c");
    for seed in ["1", "2"] {
        let output = snag(&folder, &["run", "-q", "--seed", seed, "--", "./program"]);
        assert_eq!(output.status.code(), Some(0), "{}{}", text(&output), complaint(&output));
    }
}

/// Found nothing, as the acquires that wait were not in the trace.
#[test]
fn deadlocks_that_happen() {
    let folder = compiled("deadlocked", "misused.c");
    let headline = "D1  deadlock: T1 waits for right, T2 waits for left";
    finds(&folder, "d", headline);
    // Somebody sleeps, and may do something about it, so it ends when the program is ended.
    finds(&folder, "s", headline);
    let replayed = snag(&folder, &["replay", "run.snag", "--race", "D1"]);
    assert_eq!(replayed.status.code(), Some(1), "{}{}", text(&replayed), complaint(&replayed));
}

#[test]
fn locks_are_misused() {
    let folder = compiled("misused", "misused.c");
    finds(&folder, "o", "F1  release of lock left by a thread that does not hold it: in T1");
    finds(&folder, "n", "F1  release of lock left by a thread that does not hold it: in main");
    finds(&folder, "t", "F1  lock left is taken again by its holder, which waits for itself: in main");
    finds(&folder, "w", "F1  lock both is taken again by its holder, which waits for itself: in main");
    finds_nothing(&folder, "g", "well\n");
}

#[test]
fn things_are_destroyed_in_use() {
    let folder = compiled("discarded", "discarded.c");
    for (how, headline) in [
        ("h", "F1  mutex is destroyed in use in main"),
        ("f", "is destroyed in use in main"),
        ("w", "F1  condition is destroyed in use in main"),
        ("b", "F1  barrier is destroyed in use in main"),
    ] {
        finds(&folder, how, headline);
    }
    finds_nothing(&folder, "n", "well\n");
}

/// Whether it happens depends on the schedule; that it may is found in runs in which it does not.
#[test]
fn things_may_be_destroyed_in_use() {
    let folder = compiled("may-be-discarded", "discarded.c");
    for (how, headline) in [
        ("m", "F1  mutex is destroyed in use in main"),
        ("u", "F1  mutex is destroyed in use in main"),
        ("c", "F1  condition is destroyed in use in main"),
    ] {
        let output = snag(&folder, &["run", "--keep", "run.snag", "--", "./program", how]);
        let (out, err) = (text(&output), complaint(&output));
        assert_eq!(output.status.code(), Some(1), "{how}: {out}{err}");
        assert!(out.contains(headline), "{how}: no '{headline}' in {out}{err}");
        let json = snag(&folder, &["check", "--format", "json", "-o", "found.json", "run.snag"]);
        assert_eq!(json.status.code(), Some(1), "{how}: {}", complaint(&json));
        let found = std::fs::read_to_string(folder.path("found.json")).unwrap();
        assert!(found.contains("\"kind\": \"destroyed-in-use\""), "{how}: {found}");
        let verified = snag(&folder, &["verify", "run.snag", "found.json"]);
        assert_eq!(verified.status.code(), Some(0), "{how}: {}{}", text(&verified), complaint(&verified));
        for format in ["sarif", "html"] {
            assert_eq!(snag(&folder, &["check", "--format", format, "run.snag"]).status.code(), Some(1));
        }
    }
}

/// Found nothing: only what was initialised again counted.
#[test]
fn things_may_be_initialised_in_use() {
    let folder = compiled("begun", "begun.c");
    for (how, headline) in [
        ("m", "F1  mutex is initialised while it may be in use in main"),
        ("r", "F1  rwlock is initialised while it may be in use in main"),
        ("c", "F1  condition is initialised while it may be in use in main"),
        ("e", "F1  semaphore is initialised while it may be in use in main"),
        ("b", "F1  barrier is initialised while it may be in use in main"),
    ] {
        let output = snag(&folder, &["run", "--keep", "run.snag", "--", "./program", how]);
        let (out, err) = (text(&output), complaint(&output));
        assert_eq!(output.status.code(), Some(1), "{how}: {out}{err}");
        assert!(out.contains(headline), "{how}: no '{headline}' in {out}{err}");
        snag(&folder, &["check", "--format", "json", "-o", "found.json", "run.snag"]);
        let verified = snag(&folder, &["verify", "run.snag", "found.json"]);
        assert_eq!(verified.status.code(), Some(0), "{how}: {}{}", text(&verified), complaint(&verified));
        finds_nothing(&folder, &how.to_uppercase(), "well\n");
    }
}

/// Found nothing: the last event of a program that died was left out, and what had been unmapped was forgotten.
#[test]
fn the_last_access_of_a_program_that_dies_of_it_counts() {
    let folder = compiled("unmapped", "unmapped.c");
    finds(&folder, "w", "F1  use after free of");
    finds(&folder, "p", "F1  use after free of");
}

/// Found a double free.
#[test]
fn what_munmap_refuses_or_gives_back_in_pieces_is_no_double_free() {
    let folder = compiled("pieces", "unmapped.c");
    finds_nothing(&folder, "n", "-1\n");
    finds_nothing(&folder, "t", "-1\n");
}

/// Found a race with it.
#[test]
fn memory_that_is_freed_while_accesses_are_ignored_is_not_touched() {
    let folder = compiled("ignored", "unmapped.c");
    finds_nothing(&folder, "i", "-1\n");
}

/// Found nothing: what the number led to afterwards was another descriptor.
#[test]
fn a_descriptor_that_is_replaced_while_another_thread_closes_it() {
    let folder = compiled("replaced", "closed.c");
    let output = snag(&folder, &["run", "--", "./program", "d"]);
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output), complaint(&output));
    assert!(text(&output).contains("is closed while another thread uses it"), "{}", text(&output));
}

#[test]
fn descriptors_are_closed_in_use() {
    let folder = compiled("closed", "closed.c");
    let output = snag(&folder, &["run", "--keep", "run.snag", "--", "./program", "u"]);
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output), complaint(&output));
    assert!(text(&output).contains("is closed while another thread uses it"), "{}", text(&output));
    let json = snag(&folder, &["check", "--format", "json", "-o", "found.json", "run.snag"]);
    assert_eq!(json.status.code(), Some(1), "{}", complaint(&json));
    assert!(std::fs::read_to_string(folder.path("found.json")).unwrap().contains("\"kind\": \"descriptor\""));
    assert_eq!(snag(&folder, &["verify", "run.snag", "found.json"]).status.code(), Some(0));
    finds_nothing(&folder, "j", "closed\n");
    finds_nothing(&folder, "t", "closed\n");
}

#[test]
fn what_happened_can_be_suppressed() {
    let folder = compiled("suppressed", "freed.c");
    assert_eq!(snag(&folder, &["record", "-o", "run.snag", "--", "./program", "f"]).status.code(), Some(0));
    for (line, status) in [("fault:writes", 0), ("race:freed.c", 0), ("mutex:freed.c", 1), ("fault:frees", 1)] {
        std::fs::write(folder.path("known.supp"), format!("{line}\n")).unwrap();
        let checked = snag(&folder, &["check", "--suppressions", "known.supp", "run.snag"]);
        assert_eq!(checked.status.code(), Some(status), "{line}: {}", text(&checked));
    }
    let html = snag(&folder, &["check", "--format", "html", "run.snag"]);
    assert!(text(&html).contains("<b>F1</b> use after free"), "{}", text(&html));
    let sarif = snag(&folder, &["check", "--format", "sarif", "run.snag"]);
    assert!(text(&sarif).contains("\"ruleId\": \"use-after-free\""), "{}", text(&sarif));
}
