//! `snag check` as people and scripts use it.

use crate::support::*;
use std::io::Read;
use std::process::Stdio;

#[test]
fn the_text_of_a_paper_figure_is_as_expected() {
    let ran = snag(&["check", &figure("fig3")]).expect(1);
    assert_eq!(timeless(&ran.stdout), include_str!("../expected/fig3.txt"));
    assert_eq!(ran.stderr, "");
}

#[test]
fn exit_status_tells_clean_found_and_error_apart() {
    let folder = Folder::new("status");
    let clean = folder.file("clean.std", "T1|w(x)|A:1\nT1|r(x)|A:2\n");
    let bad = folder.file("bad.std", "T1|w(x)|A:1\nT1|rel(l)|A:2\n");
    let ran = snag(&["check", &clean]).expect(0);
    assert!(ran.stdout.starts_with("shb: no races (0 warnings, 0 location pairs) in 2 events, 1 thread, "));
    snag(&["check", &figure("fig1")]).expect(1);
    let ran = snag(&["check", &bad]).expect(2);
    let start = format!("snag: error: {bad}: line 2: ");
    assert!(ran.stderr.starts_with(&start), "{}", ran.stderr);
    let ran = snag(&["check", &folder.path("none.std")]).expect(2);
    assert!(ran.stderr.starts_with("snag: error: ") && ran.stderr.contains("none.std"), "{}", ran.stderr);
}

#[test]
fn bad_usage_is_an_error_that_says_so() {
    let trace = figure("fig1");
    for (args, message) in [
        (&["check"][..], "TRACE"),
        (&["check", "--engine", "nonsense", &trace], "nonsense"),
        (&["check", "--engine", "shb,nonsense", &trace], "nonsense"),
        (&["check", "--level", "high", &trace], "high"),
        (&["check", "--window", "0", &trace], "--window"),
        (&["check", "--budget", "-1", &trace], "--budget"),
        (&["check", "--budget", "soon", &trace], "seconds"),
        (&["check", "--format", "pdf", &trace], "pdf"),
        (&["check", "-j", "0", &trace], "--jobs"),
        (&["check", "-q", "-v", &trace], "--verbose"),
        (&["check", "--color", "perhaps", &trace], "perhaps"),
        (&["frobnicate"], "frobnicate"),
        (&["run", "--", "true"], "nothing was recorded"),
        (&["run"], "PROG"),
        (&["check", "--suppressions", "/nonexistent/file", &trace], "/nonexistent/file"),
        (&["check", "-o", "/nonexistent/file", &trace], "/nonexistent/file"),
    ] {
        let ran = snag(args).expect(2);
        assert!(ran.stderr.contains(message), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("snag: error: "), "{args:?}: {}", ran.stderr);
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn a_level_that_the_trace_does_not_have_is_an_error() {
    let ran = snag(&["check", "--level", "value", &figure("fig1")]).expect(2);
    assert!(ran.stderr.contains("level 'value' needs values and this trace has none"), "{}", ran.stderr);
    let ran = snag(&["check", "--level", "symbolic", &figure("fig1")]).expect(2);
    assert!(ran.stderr.contains("level 'symbolic' needs expressions and this trace has none"), "{}", ran.stderr);
    snag(&["check", "--level", "writer", &figure("fig1")]).expect(1);
    let folder = Folder::new("level");
    let trace = folder.path("t.stx");
    snag(&["generate", "--events", "2000", "--racy", "0.02", "--values", "-o", &trace]).expect(0);
    for level in ["writer", "value", "control"] {
        let found = folder.path("found.json");
        snag(&["check", "--level", level, "--format", "json", "-o", &found, &trace]).expect(1);
        assert!(std::fs::read_to_string(&found).unwrap().contains(&format!("\"level\": \"{level}\"")));
        snag(&["verify", &trace, &found]).expect(0);
    }
}

#[test]
fn a_race_at_level_symbolic_is_told_with_its_values_and_branches() {
    let trace = format!("{}/../../examples/recipe/figure1.stx", env!("CARGO_MANIFEST_DIR"));
    for arguments in [&["check", &trace][..], &["check", "--level", "symbolic", "--engine", "recipe", &trace]] {
        let ran = snag(arguments).expect(1);
        for line in [
            "in it, the branch in T2 at figure1:4 (event 7) goes the other way",
            "in it, the read of y in T2 at figure1:4 (event 5) takes 3, not 5",
        ] {
            assert!(ran.stdout.contains(line), "{line}: {}", ran.stdout);
        }
    }
    let ran = snag(&["check", "--level", "control", &trace]).expect(1);
    assert!(!ran.stdout.contains("symbolic"), "{}", ran.stdout);
}

#[test]
fn engines_run_in_the_order_asked_for_and_once() {
    let ran = snag(&["check", "--engine", "lockset,hb,lockset", "--engine", "shb-vc", &figure("fig4")]).expect(1);
    let summaries: Vec<&str> = ran.stdout.lines().filter(|line| line.contains(" warnings")).collect();
    let names: Vec<&str> = summaries.iter().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(names, ["lockset", "hb", "shb-vc"]);
    assert!(summaries[1].starts_with("hb: 4 races (7 warnings, 7 location pairs) in 14 events, 4 threads, "));
}

#[test]
fn candidates_are_shown_only_on_request_and_are_no_finding() {
    let quiet = snag(&["check", "--engine", "lockset", &figure("fig4")]).expect(0);
    assert!(!quiet.stdout.contains("unproved"));
    let shown = snag(&["check", "--engine", "lockset", "--candidates", &figure("fig4")]).expect(0);
    assert!(shown.stdout.contains("C1  unproved race on x: ") && shown.stdout.contains("not proved: "));
}

#[test]
fn all_pairs_gives_each_pair_of_events() {
    let folder = Folder::new("pairs");
    let trace = folder.file("t.std", "T1|w(x)|A:1\nT1|w(x)|A:1\nT2|w(x)|B:1\nT2|w(x)|B:1\n");
    let ran = snag(&["check", &trace]).expect(1);
    assert_eq!(ran.stdout.matches("data race on x").count(), 1, "{}", ran.stdout);
    let ran = snag(&["check", "--all-pairs", &trace]).expect(1);
    assert!(ran.stdout.matches("data race on x").count() > 1, "{}", ran.stdout);
}

#[test]
fn a_budget_of_nothing_is_reported_as_incomplete() {
    let folder = Folder::new("budget");
    let trace = folder.path("t.snag");
    snag(&["generate", "--events", "300000", "-o", &trace]).expect(0);
    let ran = snag(&["check", "--budget", "0", &trace]);
    assert!(ran.stdout.contains("shb: stopped early, so there may be more: "), "{}", ran.stdout);
    assert!(ran.stdout.contains(" events not looked at in time"), "{}", ran.stdout);
    let ran = snag(&["check", "--budget", "0", "--format", "json", &trace]);
    assert!(ran.stdout.contains("\"complete\": false"));
    assert!(ran.stdout.contains("\"reason\": \"not looked at in time\""), "{}", ran.stdout);
}

#[test]
fn a_malformed_trace_among_others_is_missing_and_said_to_be() {
    let folder = Folder::new("several");
    let bad = folder.file("bad.std", "nonsense\n");
    let ran = snag(&["check", &figure("fig1"), &bad, &figure("fig2")]).expect(2);
    assert!(ran.stdout.contains("fig1.std ==") && ran.stdout.contains("fig2.std =="));
    assert!(ran.stdout.contains(&format!("{bad}: not analysed: line 1: ")), "{}", ran.stdout);
    assert!(ran.stderr.starts_with(&format!("snag: error: {bad}: line 1: ")));
    let ran = snag(&["check", "--format", "json", &bad, &figure("fig1")]).expect(2);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["traces"].as_array().unwrap().len(), 1);
    assert_eq!(json["errors"][0]["path"], bad.as_str());
    let ran = snag(&["check", "--format", "html", &bad, &figure("fig1")]).expect(2);
    assert!(ran.stdout.contains("not analysed: line 1"));
    let ran = snag(&["check", "--format", "sarif", &bad, &figure("fig1")]).expect(2);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["runs"][0]["invocations"][0]["executionSuccessful"], false);
}

#[test]
fn a_dash_is_standard_input() {
    let text = std::fs::read_to_string(figure("fig2")).unwrap();
    let ran = snag_with_input(&["check", "--format", "json", "-"], &text).expect(1);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["traces"][0]["path"], "-");
    assert_eq!(json["traces"][0]["races"].as_array().unwrap().len(), 2);
    let ran = snag_with_input(&["check", "-"], "T1|nonsense|\n").expect(2);
    assert!(ran.stderr.starts_with("snag: error: -: line 1: "), "{}", ran.stderr);
}

#[test]
fn an_output_file_is_written_whole_or_not_at_all() {
    let folder = Folder::new("output");
    let bad = folder.file("bad.std", "nonsense\n");
    let out = folder.path("found.json");
    let ran = snag(&["check", "--format", "json", "-o", &out, &figure("fig1")]).expect(1);
    assert_eq!(ran.stdout, "");
    let first = std::fs::read_to_string(&out).unwrap();
    assert!(first.contains("\"R1\"") && first.ends_with("}\n"));
    // Nothing could be analysed: what was there stays, and nothing is left over.
    snag(&["check", "--format", "json", "-o", &out, &bad]).expect(2);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), first);
    snag(&["check", "--format", "json", "-o", &folder.path("other.json"), &bad]).expect(2);
    assert_eq!(folder.names(), ["bad.std", "found.json"]);
    // A new report replaces the old one.
    snag(&["check", "--format", "json", "-o", &out, &figure("fig2")]).expect(1);
    assert!(std::fs::read_to_string(&out).unwrap().contains("\"R2\""));
    assert_eq!(folder.names(), ["bad.std", "found.json"]);
}

#[cfg(unix)]
#[test]
fn an_output_file_keeps_its_permissions_and_a_link_its_target() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new("links");
    let out = folder.file("real.json", "old");
    std::fs::set_permissions(&out, std::fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path("link.json");
    symlink(&out, &link).unwrap();
    snag(&["check", "--format", "json", "-o", &link, &figure("fig1")]).expect(1);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read_to_string(&out).unwrap().starts_with('{'));
    assert_eq!(std::fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o640);
    snag(&["check", "-o", "/dev/null", &figure("fig1")]).expect(1);
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn colours_only_when_asked_for_or_on_a_terminal() {
    let escape = '\u{1b}';
    assert!(!snag(&["check", &figure("fig1")]).stdout.contains(escape));
    assert!(snag(&["check", "--color", "always", &figure("fig1")]).stdout.contains(escape));
    assert!(!snag(&["check", "--color", "never", &figure("fig1")]).stdout.contains(escape));
    let forced = |no_color: &str| {
        let mut command = command(&["check", &figure("fig1")]);
        let output = command.env("CLICOLOR_FORCE", "1").env("NO_COLOR", no_color).output().unwrap();
        String::from_utf8(output.stdout).unwrap().contains(escape)
    };
    assert!(!forced("1"), "NO_COLOR wins");
    assert!(forced(""), "an empty NO_COLOR is none");
}

#[test]
fn a_narrow_terminal_gets_narrow_tables_and_an_ascii_one_ascii() {
    let folder = Folder::new("narrow");
    let mut text = String::new();
    for i in 0..30 {
        text += &format!("thread-with-a-long-name-1|w(some.package.Class.field{i})|src/some/package/Class.java:{i}\n");
    }
    text += "thread-with-a-long-name-2|w(some.package.Class.field3)|src/some/package/Other.java:1\n";
    let trace = folder.file("t.std", &text);
    let run = |columns: &str, locale: &str| {
        let output = command(&["check", &trace]).env("COLUMNS", columns).env("LC_ALL", locale).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let wide = run("200", "en_US.UTF-8");
    assert!(wide.contains("◀ race") && wide.contains("write some.package.Class.field3  "), "{wide}");
    for columns in [60, 80] {
        let text = run(&columns.to_string(), "C");
        assert!(text.is_ascii() && text.contains("<== race"), "{text}");
        let table = text.lines().skip_while(|line| !line.is_empty()).skip(1).take_while(|line| !line.is_empty());
        for line in table {
            assert!(line.len() <= columns, "{columns}: {line}");
        }
    }
}

#[test]
fn full_prints_every_event_of_a_witness() {
    let folder = Folder::new("full");
    let text = "T1|w(y)|A:1\n".repeat(1204) + "T1|w(x)|A:2\nT2|w(x)|B:1\n";
    let trace = folder.file("t.std", &text);
    let short = snag(&["check", &trace]).expect(1).stdout;
    assert!(short.contains("… 1 201 events …") && short.lines().count() < 30, "{short}");
    let full = snag(&["check", "--full", &trace]).expect(1).stdout;
    assert!(!full.contains('…') && full.matches("write y").count() == 1204);
    let page = snag(&["check", "--format", "html", &trace]).expect(1).stdout;
    assert!(page.contains("… 1 201 events …") && page.contains("◀ race"));
}

#[test]
fn suppressions_take_away_and_say_what() {
    let folder = Folder::new("suppressions");
    let all = folder.file("all.txt", "# known\nrace:^P2:*\n");
    let ran = snag(&["check", "--suppressions", &all, &figure("fig2")]).expect(0);
    assert!(ran.stdout.contains("suppressed: 2 races by line 2 (race:^P2:*)"), "{}", ran.stdout);
    let one = folder.file("one.txt", "race:x\nmutex:y\n");
    let ran = snag(&["check", "--format", "json", "--suppressions", &one, &figure("fig2")]).expect(1);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["traces"][0]["races"].as_array().unwrap().len(), 1);
    assert_eq!(json["traces"][0]["suppressed"][0]["races"], 1);
    assert_eq!(json["traces"][0]["suppressed"][0]["line"], 1);
    let bad = folder.file("bad.txt", "race:x\nrase:y\n");
    let ran = snag(&["check", "--suppressions", &bad, &figure("fig2")]).expect(2);
    assert!(ran.stderr.starts_with(&format!("snag: error: {bad}: line 2: unknown type 'rase'")), "{}", ran.stderr);
}

/// T2 reads y = 5 in the trace, and y = 0 or 3 in the witnesses of the races that need it.
#[test]
fn witnesses_are_shown_with_their_own_values() {
    let trace = format!("{}/../../examples/recipe/figure1.stx", env!("CARGO_MANIFEST_DIR"));
    for format in ["text", "html", "sarif"] {
        let ran = snag(&["check", "--engine", "recipe", "--format", format, &trace]).expect(1);
        let witnesses = match format {
            "sarif" => ran.stdout.clone(),
            _ => ran.stdout.lines().filter(|line| !line.contains("in it, ")).collect::<Vec<_>>().join("\n"),
        };
        for value in ["read y = 0", "read y = 3", "branch = 0"] {
            assert!(witnesses.contains(value), "{format}: no {value} in\n{witnesses}");
        }
    }
}

#[test]
fn sarif_has_results_with_two_locations_and_ordered_flows() {
    let ran = snag(&["check", "--format", "sarif", &figure("fig2")]).expect(1);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["version"], "2.1.0");
    let run = &json["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "Snag");
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        assert_eq!(result["ruleId"], "race");
        let locations = result["locations"].as_array().unwrap();
        assert_eq!(locations.len(), 2);
        assert_eq!(locations[0]["physicalLocation"]["artifactLocation"]["uri"], "P2");
        let flows = result["codeFlows"][0]["threadFlows"].as_array().unwrap();
        let mut orders: Vec<u64> = flows
            .iter()
            .flat_map(|flow| flow["locations"].as_array().unwrap())
            .map(|step| step["executionOrder"].as_u64().unwrap())
            .collect();
        orders.sort_unstable();
        assert_eq!(orders, (0..orders.len() as u64).collect::<Vec<_>>());
    }
    let ran = snag(&["check", "--format", "sarif", &figure("fig3")]).expect(1);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let location = &json["runs"][0]["results"][0]["locations"][0];
    assert_eq!(location["logicalLocations"][0]["fullyQualifiedName"], "2");
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_program_quietly() {
    let folder = Folder::new("pipe");
    let trace = folder.file("t.std", &("T1|w(y)|A:1\n".repeat(50_000) + "T1|w(x)|A:2\nT2|w(x)|B:1\n"));
    for args in [&["check", "--full", &trace][..], &["check", "--format", "json", &trace]] {
        let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0; 10]).unwrap();
        drop(out);
        let ran = Ran::from(child.wait_with_output().unwrap()).expect(1);
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn quiet_prints_findings_alone_and_verbose_says_more() {
    let folder = Folder::new("quiet");
    let trace = folder.file("t.std", "T0|fork(124)|a\nT124|w(x)|b\nT0|w(x)|c\n");
    let ran = snag(&["check", &trace]).expect(1);
    assert!(ran.stderr.starts_with(&format!("snag: warning: {trace}: ")), "{}", ran.stderr);
    let ran = snag(&["check", "-q", &trace]).expect(1);
    assert_eq!(ran.stderr, "");
    assert!(ran.stdout.starts_with("R1  data race on x: ") && !ran.stdout.contains("shb: 1 race"));
    let ran = snag(&["-v", "check", &trace]).expect(1);
    assert!(ran.stderr.contains("read 3 events in "), "{}", ran.stderr);
}

#[test]
fn names_cannot_control_the_terminal() {
    let folder = Folder::new("control");
    let trace = folder.file("t.std", "T\u{1b}[2J1|w(x\u{7})|A\u{1b}]0;title\u{7}:1\nT2|w(x\u{7})|B:1\n");
    let ran = snag(&["check", &trace]).expect(1);
    assert!(!ran.stdout.contains(['\u{1b}', '\u{7}']), "{}", ran.stdout);
    let bad = folder.file("bad.std", "T1|\u{1b}[2J|x\n");
    assert!(!snag(&["check", &bad]).expect(2).stderr.contains('\u{1b}'));
}

#[test]
fn a_recording_that_is_cut_off_is_said_to_be_incomplete_even_quietly() {
    let folder = Folder::new("cut-off");
    let (whole, cut) = (folder.path("whole.snag"), folder.path("cut.snag"));
    snag(&["generate", "--events", "70000", "-o", &whole]).expect(0);
    let bytes = std::fs::read(&whole).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 100]).unwrap();
    for (trace, complete) in [(&whole, true), (&cut, false)] {
        let ran = snag(&["check", "-q", "--format", "json", trace]);
        let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(json["traces"][0]["engines"][0]["complete"], complete);
        assert_eq!(ran.stderr.contains("is cut off after event"), !complete, "{}", ran.stderr);
    }
}

#[test]
fn happens_before_says_what_it_could_not_prove() {
    let line = "hb: 1 location pair not proved; --candidates lists it\n";
    assert!(snag(&["check", "--engine", "hb", &figure("fig1")]).stdout.ends_with(line));
    assert!(!snag(&["check", "--engine", "hb", "--candidates", &figure("fig1")]).stdout.contains("not proved;"));
    assert!(!snag(&["check", "--engine", "shb", &figure("fig1")]).stdout.contains("not proved;"));
}

#[test]
fn a_single_trace_that_cannot_be_read_is_an_error_and_no_report() {
    let ran = snag(&["check", "no-such-trace.std"]).expect(2);
    assert_eq!(ran.stdout, "");
    assert_eq!(ran.stderr.matches("no-such-trace.std").count(), 1);
}

#[cfg(not(feature = "z3"))]
#[test]
fn a_solver_that_was_not_built_in_is_named_as_such() {
    let ran = snag(&["check", "--engine", "mc", "--solver", "z3", &figure("fig1")]).expect(2);
    assert!(ran.stderr.contains("--features z3"), "{}", ran.stderr);
}

#[test]
fn mc_proves_what_shb_cannot_and_says_which_level() {
    let ran = snag(&["check", "--engine", "mc", &figure("fig3")]).expect(1);
    assert!(ran.stdout.contains("found by mc, proved"), "{}", ran.stdout);
    assert!(ran.stdout.contains("mc: 5 races ("), "{}", ran.stdout);
    let ran = snag(&["check", "--engine", "mc", "--window", "4", &figure("fig3")]);
    assert!(ran.stdout.contains("mc: no races (") || ran.stdout.contains("mc: 1 race ("), "{}", ran.stdout);
}
