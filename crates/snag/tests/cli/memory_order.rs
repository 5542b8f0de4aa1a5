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
