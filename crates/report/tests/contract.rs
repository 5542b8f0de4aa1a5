//! Findings of every kind, built by hand, in every machine format. The program
//! itself does not produce all of them yet; the formats are fixed all the same.

use snag_engines::{LOCKSET, SHB};
use snag_formats::TraceReader;
use snag_formats::std_format::StdReader;
use snag_model::{EventId, LockId, Trace};
use snag_model::{Level, RaceKind, Schedule};
use snag_pipeline::{Analysis, Candidate, Deadlock, EngineReport, Left, Race, Subject};
use snag_report::html::Html;
use snag_report::json::Json;
use snag_report::sarif::Sarif;
use snag_report::{Confirmation, Confirmations, Findings, Report, Suppressions, Unread, Witnesses};
use std::path::Path;

const TRACE: &str = "\
main|fork(a)|m.c:1
main|fork(b)|m.c:2
a|w(x)|
a|acq(l)|a.c:1
a|acq(m)|a.c:2
a|rel(m)|a.c:3
a|rel(l)|a.c:4
b|acq(m)|B.run
b|acq(l)|B.run
b|w(x)|B.run
b|rel(l)|B.run
b|rel(m)|B.run
";

fn trace() -> Trace {
    let input = std::io::Cursor::new(TRACE.as_bytes().to_vec());
    TraceReader::new(Box::new(StdReader::new(input)), None).read_all().expect("a well-formed trace").0
}

fn events(numbers: &[u32]) -> Vec<EventId> {
    numbers.iter().map(|&n| EventId(n)).collect()
}

fn analysis() -> Analysis {
    let (first, second) = (EventId(2), EventId(9));
    let (locks_first, locks_second) = (Vec::new(), vec![LockId(1), LockId(0)]);
    Analysis {
        engines: vec![EngineReport {
            engine: SHB,
            beyond: None,
            seconds: 0.0,
            events_per_second: f64::INFINITY,
            peak_memory_bytes: u64::MAX,
            warnings: 1,
            location_pairs: 1,
            complete: false,
            reduction: None,
            searches: None,
        }],
        races: vec![Race {
            engine: SHB,
            kind: RaceKind::Predictable,
            level: Level::Value,
            first,
            second,
            locks_first: locks_first.clone(),
            locks_second: locks_second.clone(),
            // Of main two events, of a none, of b all before its write.
            witness: Schedule::Prefixes(events(&[2, 2, 9])),
            spurious: events(&[2]),
            diverging: events(&[1]),
            reads: vec![(EventId(1), -7), (EventId(5), i64::MAX)],
            count: 3,
        }],
        // Missing methods were ignored by nobody here.
        ignoring_missing: Vec::new(),
        unseen: Vec::new(),
        faults: Vec::new(),
        deadlocks: vec![Deadlock {
            engine: SHB,
            level: Level::Control,
            pending: events(&[4, 8]),
            held: vec![vec![LockId(0)], vec![LockId(1)]],
            count: 2,
            witness: Schedule::List(events(&[0, 1, 2, 7, 3])),
            spurious: events(&[7]),
        }],
        candidates: vec![Candidate {
            engine: LOCKSET,
            first,
            second,
            locks_first,
            locks_second,
            count: 1,
            reason: "a \"reason\" with <signs>".to_owned(),
        }],
        left: vec![Left {
            engine: SHB,
            what: Subject::LocationPair,
            reason: "not checked in time".to_owned(),
            count: 7,
        }],
    }
}

fn print(make: impl for<'a> FnOnce(&'a mut Vec<u8>) -> Box<dyn Report + 'a>) -> String {
    let (trace, mut analysis) = (trace(), analysis());
    let suppressions = Suppressions::parse("race:nothing\n").unwrap();
    let suppressed = suppressions.apply(&trace, None, &mut analysis);
    let why = "the program exited with status 0".to_owned();
    let confirmations =
        Confirmations { races: vec![Confirmation::Confirmed], deadlocks: vec![Confirmation::NotConfirmed(why)] };
    let mut out = Vec::new();
    let mut report = make(&mut out);
    let findings = Findings {
        path: "t.std",
        trace: &trace,
        events: trace.len() as u64,
        analysis: &analysis,
        suppressed: Some(&suppressed),
        background: None,
        confirmations: Some(&confirmations),
        enough: &|| false,
    };
    report.trace(&findings).unwrap();
    report.finish(&[Unread { path: "bad.std".into(), message: "line 1: bad".into() }]).unwrap();
    drop(report);
    String::from_utf8(out).unwrap()
}

#[test]
fn json_satisfies_its_schema() {
    let document: serde_json::Value =
        serde_json::from_str(&print(|out| Box::new(Json::new(out, Witnesses::Compact)))).unwrap();
    let full = print(|out| Box::new(Json::new(out, Witnesses::Full)));
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings.schema.json");
    let mut schemas = boon::Schemas::new();
    let index = boon::Compiler::new().compile(schema.to_str().unwrap(), &mut schemas).unwrap();
    if let Err(problem) = schemas.validate(&document, index) {
        panic!("{problem:#}");
    }
    let findings = &document["traces"][0];
    assert_eq!(findings["races"][0]["witness"].to_string(), r#"{"counts":{"b":2,"main":2},"then":[]}"#);
    assert!(full.contains("\"witness\": [0, 1, 7, 8]") && full.contains("\"witness\": [0, 1, 2, 7, 3]"), "{full}");
    assert_eq!(findings["races"][0]["first"]["location"], "2");
    assert_eq!(findings["engines"][0]["left"][0]["what"], "pair of locations");
    assert_eq!(findings["engines"][0]["left"][0]["count"], 7);
    assert_eq!(findings["races"][0]["locks_second"].to_string(), r#"["m","l"]"#);
    assert_eq!(findings["deadlocks"][0]["pending"][1]["lock"], "l");
    let witness = &findings["deadlocks"][0]["witness"];
    assert_eq!(witness.to_string(), r#"{"counts":{"a":1,"b":1,"main":2},"then":[3]}"#);
    assert_eq!(findings["races"][0]["confirmed"], true);
    assert_eq!(findings["races"][0].get("why_not"), None);
    assert_eq!(findings["deadlocks"][0]["confirmed"], false);
    assert_eq!(findings["deadlocks"][0]["why_not"], "the program exited with status 0");
    assert_eq!(findings["engines"][0]["events_per_second"], 0.0);
    assert_eq!(findings["candidates"][0]["id"], "C1");
    assert_eq!(document["errors"][0]["message"], "line 1: bad");
}

#[test]
fn sarif_has_a_result_for_each() {
    let document: serde_json::Value = serde_json::from_str(&print(|out| Box::new(Sarif::new(out)))).unwrap();
    let results = document["runs"][0]["results"].as_array().unwrap();
    let rules: Vec<&str> = results.iter().map(|result| result["ruleId"].as_str().unwrap()).collect();
    assert_eq!(rules, ["race", "deadlock", "candidate"]);
    let race = &results[0]["locations"];
    assert_eq!(race[0]["logicalLocations"][0]["fullyQualifiedName"], "event 2");
    assert_eq!(race[1]["logicalLocations"][0]["fullyQualifiedName"], "B.run");
    let deadlock = &results[1]["locations"];
    assert_eq!(deadlock[0]["physicalLocation"]["artifactLocation"]["uri"], "a.c");
    assert_eq!(deadlock[0]["physicalLocation"]["region"]["startLine"], 2);
    let flow = &results[1]["codeFlows"][0]["threadFlows"];
    assert_eq!(flow.as_array().unwrap().len(), 3);
    assert_eq!(flow[1]["locations"][1]["kinds"][0], "acquire");
    assert_eq!(results[2]["level"], "note");
}

#[test]
fn the_page_says_all_of_it() {
    let page = print(|out| Box::new(Html::new(out, false)));
    for text in [
        "R1</b> data race on x: write in a at event 2 / write in b at B.run",
        "holding m, l",
        "D1</b> deadlock: a waits for m, b waits for l",
        "m is held by b",
        "C1</b> unproved race",
        "a &quot;reason&quot; with &lt;signs&gt;",
        "stopped early",
        "bad.std: not analysed: line 1: bad",
    ] {
        assert!(page.contains(text), "{text}\n{page}");
    }
}
