//! `snag trace` and `snag explore`: programs in the small language.

use crate::support::*;

const FIGURE_1: &str = "examples/recipe/figure1.rcp";

#[test]
fn a_run_is_a_trace_in_every_format_that_can_say_it() {
    let folder = Folder::new("programs");
    let program = repository(FIGURE_1);
    let printed = snag(&["trace", &program, "--schedule", "T1,T2"]).expect(0).stdout;
    let text = folder.path("run.stx");
    let binary = folder.path("run.snag");
    snag(&["trace", &program, "--schedule", "T1,T2", "-o", &text]).expect(0);
    snag(&["trace", &program, "--schedule", "T1,T2", "-o", &binary]).expect(0);
    assert_eq!(std::fs::read_to_string(&text).unwrap(), printed);
    assert_eq!(snag(&["convert", "--to", "text", &binary, "-"]).expect(0).stdout, printed);
    let ran = snag(&["trace", &program, "-o", &folder.path("run.std")]).expect(2);
    assert!(ran.stderr.contains("STD cannot express values"), "{}", ran.stderr);
    // Chance decides by the seed alone.
    let seeded = |seed: &str| snag(&["trace", &program, "--seed", seed]).expect(0).stdout;
    assert_eq!(seeded("1"), seeded("1"));
    assert!((0..20).any(|seed| seeded(&seed.to_string()) != seeded("0")));
}

#[test]
fn figure_1_by_hand_is_figure_1_by_the_interpreter() {
    let by_hand = repository("examples/recipe/figure1.stx");
    assert!(snag(&["stats", &by_hand]).expect(0).stdout.contains("else-read"));
    snag(&["check", "--level", "control", &by_hand]).expect(1);
}

#[test]
fn what_goes_wrong_in_a_run_is_said() {
    let folder = Folder::new("failing");
    let program =
        folder.file("p.rcp", "shared int x;\nlock a, b;\nthread T { lock(a); x = 1 / x; }\nthread U { lock(a); }\n");
    let ran = snag(&["trace", &program, "--schedule", "T"]).expect(0);
    assert!(ran.stderr.contains("p.rcp:3: thread T fails: division by zero"), "{}", ran.stderr);
    assert!(ran.stderr.contains("it needs a, which T holds (thread U does not go on)"), "{}", ran.stderr);
    let ran = snag(&["trace", &program, "--schedule", "U*2"]).expect(2);
    assert!(ran.stderr.contains("--schedule: thread U cannot make step 2 of 2"), "{}", ran.stderr);
    snag(&["trace", &program, "--schedule", "V"]).expect(2);
    let endless = folder.file("e.rcp", "shared int x;\nthread T { while (1) x = x + 1; }\n");
    let ran = snag(&["trace", &endless, "--events", "100"]).expect(0);
    assert!(ran.stderr.contains("cut off after 100 events"), "{}", ran.stderr);
}

#[test]
fn mistakes_are_shown_with_a_caret() {
    let folder = Folder::new("mistakes");
    let program = folder.file("p.rcp", "shared int counter;\nthread T { countr = 1; }\n");
    for command in ["trace", "explore"] {
        let ran = snag(&[command, &program]).expect(2);
        let expected = format!(
            "snag: error: {program}:2:12: 'countr' is not declared\n  |\n2 | thread T {{ countr = 1; }}\n  |            ^^^^^^\n  = did you mean 'counter'?\n"
        );
        assert_eq!((ran.stdout.as_str(), ran.stderr), ("", expected));
        snag(&[command, &folder.path("nothing.rcp")]).expect(2);
    }
    let binary = folder.path("binary.rcp");
    std::fs::write(&binary, [0xff, 0xfe, 0]).unwrap();
    assert!(snag(&["explore", &binary]).expect(2).stderr.contains("not UTF-8"));
}

#[test]
fn exploring_lists_what_really_happens() {
    let ran = snag(&["explore", &repository(FIGURE_1)]).expect(1);
    assert!(ran.stdout.contains("race on x: read at figure1.rcp:15, write at figure1.rcp:8\n"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("4 races, 0 deadlocks, 2 failures in 28 states\n"), "{}", ran.stdout);
    let json = snag(&["explore", "--format", "json", &repository(FIGURE_1)]).expect(1).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json["races"].as_array().unwrap().len(), &json["complete"]), (4, &true.into()));
    // The schedule that is given leads there.
    let schedule = json["races"][0]["schedule"].as_str().unwrap();
    snag(&["trace", &repository(FIGURE_1), "--schedule", schedule]).expect(0);
    let ran = snag(&["explore", "--states", "5", &repository(FIGURE_1)]).expect(1);
    assert!(ran.stderr.contains("stopped after 5 states"), "{}", ran.stderr);
    let folder = Folder::new("clean");
    let clean = folder.file("p.rcp", "shared int x; lock l; thread T { lock(l); x++; unlock(l); }");
    snag(&["explore", &clean]).expect(0);
}
