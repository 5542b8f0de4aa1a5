//! Waits on condition variables may end for no reason: races that only show then are predicted, told and replayed.

use crate::sturdy::program;
use crate::support::*;

#[test]
fn a_wait_that_nobody_has_ended_lets_a_race_happen() {
    let folder = Folder::new("no-reason");
    let source = program("no_reason.c");
    compile("gcc", &["-g", "-O1", "-fsanitize=thread", "-pthread"], &source, &folder.path("program"));
    snag(&folder, &["record", "-o", "run.snag", "--", "./program"]);
    let found = text(&snag(&folder, &["check", "run.snag"]));
    assert!(found.contains("R1  data race on data"), "{found}");
    assert!(found.contains("ends for no reason, as waits on condition variables may"), "{found}");
    assert!(found.contains("wake written for no reason"), "{found}");
    // The other wait is needed, and ends because of its notify.
    assert!(found.contains("wake waits by event"), "{found}");
    snag(&folder, &["check", "--format", "json", "-o", "found.json", "run.snag"]);
    let verified = text(&snag(&folder, &["verify", "run.snag", "found.json"]));
    assert!(verified.contains("1 witness: 1 accepted, 0 rejected"), "{verified}");
    let replayed = text(&snag(&folder, &["replay", "run.snag", "--race", "R1"]));
    assert!(replayed.contains("R1 confirmed"), "{replayed}");
    let without = text(&snag(&folder, &["check", "--no-spurious", "run.snag"]));
    assert!(!without.contains("R1"), "{without}");
    // The witness is no proof without the wait that ends for no reason.
    let json = std::fs::read_to_string(folder.path("found.json")).unwrap();
    let start = json.find("\"spurious\":").expect("it says which wait");
    let end = start + json[start..].find("],").expect("a list") + 2;
    std::fs::write(folder.path("found.json"), format!("{}{}", &json[..start], &json[end..])).unwrap();
    let verified = text(&snag(&folder, &["verify", "run.snag", "found.json"]));
    assert!(verified.contains("0 accepted, 1 rejected"), "{verified}");
}

#[test]
fn a_wait_in_a_loop_that_looks_for_its_reason_hides_nothing() {
    let folder = Folder::new("with-reason");
    let source = program("no_reason.c");
    compile("gcc", &["-g", "-O1", "-DFIXED", "-fsanitize=thread", "-pthread"], &source, &folder.path("program"));
    for seed in 1..=5 {
        let found = snag(&folder, &["run", "--seed", &seed.to_string(), "--", "./program"]);
        assert_eq!(found.status.code(), Some(0), "{}", text(&found));
    }
}
