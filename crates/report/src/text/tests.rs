//! Text of findings built by hand.

use super::*;
use snag_engines::{LOCKSET, SHB};
use snag_formats::TraceReader;
use snag_formats::std_format::StdReader;
use snag_model::{Level, RaceKind};

/// A trace written down in STD.
pub fn std_trace(text: &str) -> Trace {
    let input = std::io::Cursor::new(text.as_bytes().to_vec());
    TraceReader::new(Box::new(StdReader::new(input)), None).read_all().expect("a well-formed trace").0
}

/// A race found by SHB, with the events before the pair as witness.
pub fn race(first: u32, second: u32, witness: &[u32]) -> Race {
    Race {
        engine: SHB,
        kind: RaceKind::Predictable,
        level: Level::Writer,
        first: EventId(first),
        second: EventId(second),
        locks_first: Vec::new(),
        locks_second: Vec::new(),
        witness: Schedule::List(witness.iter().map(|&e| EventId(e)).collect()),
        spurious: Vec::new(),
        diverging: Vec::new(),
        reads: Vec::new(),
        count: 1,
    }
}

/// What SHB did.
pub fn report() -> EngineReport {
    EngineReport {
        engine: SHB,
        beyond: None,
        seconds: 0.01,
        events_per_second: 1e6,
        peak_memory_bytes: 4096,
        warnings: 1,
        location_pairs: 1,
        complete: true,
        reduction: None,
        searches: None,
    }
}

fn print(trace: &Trace, analysis: &Analysis, style: Style) -> String {
    let mut out = Vec::new();
    let mut text = Text::new(&mut out, style);
    text.trace(&Findings {
        path: "t.std",
        trace,
        events: trace.len() as u64,
        analysis,
        suppressed: None,
        background: None,
        confirmations: None,
        enough: &|| false,
    })
    .unwrap();
    text.finish(&[]).unwrap();
    String::from_utf8(out).unwrap()
}

const TRACE: &str = "main|fork(w)|A.c:1\nmain|w(x)|A.c:2\nw|acq(l)|B.c:1\nw|r(x)|B.c:2\nw|rel(l)|B.c:3\n";

#[test]
fn a_race_is_told_from_headline_to_summary() {
    let trace = std_trace(TRACE);
    let mut found = race(1, 3, &[0, 2]);
    found.locks_second = vec![LockId(0)];
    let analysis = Analysis { engines: vec![report()], races: vec![found], ..Analysis::default() };
    let expected = "\
R1  data race on x: write in main at A.c:2 / read in w at B.c:2
    main  write x  at A.c:2 (event 1), holding no locks
    w     read x   at B.c:2 (event 3), holding l
    found by shb, proved: the checker accepted the schedule below (level writer)
    1 pair of events at these locations

    event  main     w          location
        0  fork w              A.c:1
        2           acquire l  B.c:1
        1  write x             A.c:2     ◀ race
        3           read x     B.c:2     ◀ race

shb: 1 race (1 warning, 1 location pair) in 5 events, 2 threads, 0.01 s
";
    assert_eq!(print(&trace, &analysis, Style::default()), expected);
}

#[test]
fn without_unicode_everything_is_ascii_and_narrow_tables_fit() {
    let mut text = String::new();
    for thread in 0..12 {
        for _ in 0..10 {
            text += &format!(
                "worker-thread-number-{thread}|w(variable.with.a.long.name.{thread})|src/dir/file.c:{thread}\n"
            );
        }
    }
    text += "a|w(x)|a:1\nb|w(x)|b:1\n";
    let trace = std_trace(&text);
    let witness: Vec<u32> = (0..120).collect();
    let analysis = Analysis { engines: vec![report()], races: vec![race(120, 121, &witness)], ..Analysis::default() };
    for width in [20, 40, 60, 80, 200] {
        for full in [false, true] {
            let text = print(&trace, &analysis, Style { width, full, unicode: false, ..Style::default() });
            assert!(text.is_ascii());
            let table: Vec<&str> =
                text.lines().skip_while(|line| !line.is_empty()).take_while(|l| !l.contains("shb:")).collect();
            assert_eq!(table.iter().any(|line| line.contains("120 events")), !full, "{text}");
            for line in table {
                assert!(line.len() <= width.max(60), "{width}: {line}");
            }
        }
    }
}

#[test]
fn candidates_and_early_stops_are_said_to_be_that() {
    let trace = std_trace(TRACE);
    let candidate = Candidate {
        engine: LOCKSET,
        first: EventId(1),
        second: EventId(3),
        locks_first: Vec::new(),
        locks_second: Vec::new(),
        count: 2,
        reason: "no lock in common".to_owned(),
    };
    let engine = EngineReport { engine: LOCKSET, complete: false, ..report() };
    let analysis = Analysis { engines: vec![engine], candidates: vec![candidate], ..Analysis::default() };
    let text = print(&trace, &analysis, Style::default());
    assert!(text.starts_with("C1  unproved race on x: "), "{text}");
    assert!(text.contains("believed by lockset, not proved: no lock in common\n    2 pairs of events"), "{text}");
    assert!(text.contains("lockset: no races, 1 candidate (") && text.contains("lockset: stopped early"), "{text}");
    let text = print(&trace, &analysis, Style { colour: true, quiet: true, ..Style::default() });
    assert!(text.contains("\u{1b}[") && !text.contains("stopped early"), "{text}");
}

#[test]
fn a_deadlock_says_who_waits_for_whom() {
    let trace = std_trace(
        "a|acq(l)|A:1\na|acq(m)|A:2\na|rel(m)|\na|rel(l)|\nb|acq(m)|B:1\nb|acq(l)|B:2\nb|rel(l)|\nb|rel(m)|\n",
    );
    let deadlock = Deadlock {
        engine: SHB,
        level: Level::Writer,
        pending: vec![EventId(1), EventId(5)],
        held: vec![vec![LockId(0)], vec![LockId(1)]],
        count: 3,
        witness: Schedule::List(vec![EventId(0), EventId(4)]),
        spurious: Vec::new(),
    };
    let analysis = Analysis { engines: vec![report()], deadlocks: vec![deadlock], ..Analysis::default() };
    let text = print(&trace, &analysis, Style::default());
    assert!(text.starts_with("D1  deadlock: a waits for m, b waits for l\n"), "{text}");
    assert!(text.contains("a  acquire m at A:2 (event 1); m is held by b\n"), "{text}");
    assert!(text.contains("    3 sets of acquires at these locations\n"), "{text}");
    assert!(text.contains("        5             acquire l  B:2       ◀ waits\n"), "{text}");
    assert!(text.contains("shb: no races, 1 deadlock ("), "{text}");
}
