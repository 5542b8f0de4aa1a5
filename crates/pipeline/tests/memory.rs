//! An engine that cannot get memory costs its own answer only.

use snag_engines::{MC, SHB};
use snag_formats::TraceReader;
use snag_formats::std_format::StdReader;
use snag_model::Trace;
use snag_pipeline::{Analysis, Choice, EngineRef, Options, Quiet, analyse};

/// Two threads that access memory of their own, and race at the end.
fn trace(events: usize) -> Trace {
    let mut text = "A|r(a)|1\nB|r(b)|2\n".repeat(events / 2);
    text.push_str("A|w(y)|3\nB|w(y)|4\n");
    TraceReader::new(Box::new(StdReader::new(std::io::Cursor::new(text))), None).read_all().expect("well formed").0
}

/// Memory of this process, as the kernel counts it.
fn in_use() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: Vec<u64> = pages.split_whitespace().map(|pages| pages.parse().unwrap()).collect();
    4096 * (pages[1] - pages[2])
}

fn reasons(analysis: &Analysis) -> Vec<(EngineRef, &str)> {
    analysis.left.iter().map(|left| (left.engine, left.reason.as_str())).collect()
}

#[test]
fn an_engine_without_memory_leaves_its_own_answer_open_and_that_of_others_alone() {
    let trace = trace(1_000_000);
    // Enough for SHB, and what stays free in any case; not for sixty bytes an event.
    let memory = Some(in_use() + (50 << 20));
    let options = Options { memory, condense_from: usize::MAX, ..Options::default() };
    let found = analyse(&trace, &options, &Quiet);
    let races: Vec<EngineRef> = found.races.iter().map(|race| race.engine).collect();
    assert_eq!(races, [SHB]);
    assert_eq!(reasons(&found), [(MC, "not looked at for lack of memory")]);
    let complete: Vec<(EngineRef, bool)> =
        found.engines.iter().map(|report| (report.engine, report.complete)).collect();
    assert_eq!(complete, [(SHB, true), (MC, false)]);
    // Without a limit of its own, there is enough.
    let found = analyse(&trace, &Options { memory: None, ..options }, &Quiet);
    assert!(found.left.is_empty() && found.engines.iter().all(|report| report.complete));
}

#[test]
fn no_engine_runs_where_there_is_no_memory_at_all() {
    let trace = trace(10);
    for engine in Choice::all() {
        let options = Options { engines: vec![engine], memory: Some(1), ..Options::default() };
        let found = analyse(&trace, &options, &Quiet);
        assert!(found.races.is_empty() && found.engines.iter().all(|report| !report.complete), "{}", engine.name());
        assert!(reasons(&found).iter().all(|left| left.1 == "not looked at for lack of memory"), "{}", engine.name());
        assert!(!found.left.is_empty(), "{}", engine.name());
    }
}
