//! Races by memory order beside the others: what is reported as which.

use crate::support::*;

/// `x` is written and read with nothing but a relaxed flag in between; the branch is behind the read, so a schedule
/// leads to both accesses at once.
const PREDICTABLE: &str = "%snag 1
main|fork(T1)|m:1
T1|w(x)=1|t:1
T1|atomic-w(f,relaxed)=1|t:2
T1|branch|t:3
T1|end|t:3
main|atomic-r(f,relaxed)=1|m:2
main|r(x)=1|m:3
main|branch|m:4
";

#[test]
fn a_race_that_is_predictable_is_not_reported_by_memory_order_as_well() {
    let folder = Folder::new("order-twice");
    let trace = folder.file("b1.stx", PREDICTABLE);
    for engines in ["auto", "mc,order", "order,mc", "auto,order", "order,auto"] {
        let found = snag(&["check", "--engine", engines, &trace]).expect(1).stdout;
        let findings: Vec<&str> = found.lines().filter(|line| line.starts_with('R')).collect();
        assert!(findings.len() == 1 && findings[0].contains("data race on x"), "{engines}: {found}");
    }
}

/// The lock is taken before the first access, and again behind it: the attempt fails because of the outer acquire.
const REENTRANT: &str = "%snag 1
main|fork(T1)|m:1
T1|acq(l)|t:0
T1|w(x)=1|t:1
T1|acq(l)|t:2
T1|atomic-w(f,relaxed)=1|t:5
main|tryfail(l)|m:2
main|atomic-r(f,relaxed)=1|m:3
main|branch|m:4
main|r(x)=1|m:5
T1|rel(l)|t:6
T1|rel(l)|t:7
";

#[test]
fn an_attempt_that_fails_because_of_an_earlier_acquire_orders_nothing_behind_that() {
    let folder = Folder::new("order-reentrant");
    let trace = folder.file("reentrant.stx", REENTRANT);
    let found = snag(&["check", &trace]).expect(1).stdout;
    assert!(found.contains("R1  data race by memory order on x"), "{found}");
}

/// In the recorded run `m` orders the accesses to `x`. It need not: both sections of it may come before the write, or the
/// first one may be missing.
const HIDDEN_BY_A_LOCK: &str = "%snag 1
main|fork(T1)|m:1
main|fork(T2)|m:2
T1|w(x)=1|a:1
T1|atomic-w(f,relaxed)=1|a:2
T1|acq(m)|a:3
T1|rel(m)|a:4
T2|acq(m)|b:1
T2|rel(m)|b:2
T2|atomic-r(f,relaxed)=1|b:3
T2|r(x)=1|b:4
";

#[test]
fn a_lock_that_orders_two_accesses_by_chance_hides_no_race_by_memory_order() {
    let folder = Folder::new("order-hidden");
    let (early, late) = ("T1|w(x)=1|a:1\nT1|atomic-w(f,relaxed)=1|a:2\n", "T1|acq(m)|a:3\n");
    let inside = HIDDEN_BY_A_LOCK.replace(&format!("{early}{late}"), &format!("{late}{early}"));
    assert_ne!(inside, HIDDEN_BY_A_LOCK);
    for (name, text) in [("outside.stx", HIDDEN_BY_A_LOCK), ("inside.stx", &inside)] {
        let trace = folder.file(name, text);
        let found = snag(&["check", &trace]).expect(1).stdout;
        assert!(found.contains("R1  data race by memory order on x"), "{name}: {found}");
        let story: Vec<&str> = found.split_whitespace().collect();
        assert!(story.join(" ").contains("m kept them apart: T1 gave it back at a:4"), "{name}: {found}");
        let json = folder.path(&format!("{name}.json"));
        snag(&["check", "--format", "json", "-o", &json, &trace]).expect(1);
        snag(&["verify", &trace, &json]).expect(0);
        // The recorded run alone does not show it.
        snag(&["check", "--engine", "order", &trace]).expect(0);
    }
    let released = HIDDEN_BY_A_LOCK.replace("(f,relaxed)", "(f,seq_cst)");
    let trace = folder.file("released.stx", &released);
    snag(&["check", &trace]).expect(0);
    // If the flag is read under the lock that the write was made under, the lock always orders them.
    let text = inside
        .replace("T2|rel(m)|b:2\nT2|atomic-r(f,relaxed)=1|b:3\n", "T2|atomic-r(f,relaxed)=1|b:3\nT2|rel(m)|b:2\n");
    assert_ne!(text, inside);
    let trace = folder.file("protected.stx", &text);
    snag(&["check", &trace]).expect(0);
}

/// That the attempt fails shows that the write came before. It synchronises with nothing.
const ONLY_AN_ATTEMPT: &str = "%snag 1
main|fork(T1)|m:1
T1|w(x)=1|t:1
T1|acq(l)|t:2
main|tryfail(l)|m:2
main|r(x)=1|m:3
T1|rel(l)|t:3
";

#[test]
fn two_accesses_that_only_a_failed_attempt_orders_race_by_memory_order() {
    let folder = Folder::new("order-attempt");
    let told = |name: &str, text: &str, words: &str| {
        let trace = folder.file(name, text);
        let found = snag(&["check", &trace]).expect(1).stdout;
        assert!(found.contains("R1  data race by memory order on x"), "{name}: {found}");
        let story: Vec<&str> = found.split_whitespace().collect();
        assert!(story.join(" ").contains(words), "{name}: {found}");
        let json = folder.path(&format!("{name}.json"));
        snag(&["check", "--format", "json", "-o", &json, &trace]).expect(1);
        snag(&["verify", &trace, &json]).expect(0);
    };
    told(
        "lock.stx",
        ONLY_AN_ATTEMPT,
        "Only an attempt that failed links them: T1 took l at t:2, and main tried to take it at m:2. By the rules of C11, \
         C++20 and Rust, an attempt that fails takes nothing over: nothing orders the two accesses",
    );
    let posted =
        "%snag 1\nmain|fork(T1)|m:1\nT1|w(x)=1|t:1\nT1|sem-post(s)|t:2\nmain|sem-value(s)=1|m:2\nmain|r(x)=1|m:3\n";
    told(
        "count.stx",
        posted,
        "Only a look at a count links them: T1 posted s at t:2, and main looked at its count at m:2.",
    );
    // Whoever takes the lock in the end has synchronised.
    let taken = ONLY_AN_ATTEMPT
        .replace("main|r(x)=1|m:3\nT1|rel(l)|t:3\n", "T1|rel(l)|t:3\nmain|acq(l)|m:3\nmain|r(x)=1|m:4\n");
    assert_ne!(taken, ONLY_AN_ATTEMPT);
    let trace = folder.file("taken.stx", &taken);
    let found = snag(&["check", "--engine", "order", &trace]).expect(0).stdout;
    assert!(found.contains("order: no races"), "{found}");
}
