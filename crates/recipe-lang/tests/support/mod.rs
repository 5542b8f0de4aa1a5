//! Short ways to run programs and to ask the checker.

#![allow(dead_code)] // Each test file uses its part.

use snag_checker::Checker;
use snag_formats::TraceReader;
use snag_formats::text_format::{TextReader, TextWriter};
use snag_model::Level;
use snag_model::{Cells, EventId, Trace};
use snag_recipe_lang::{Plan, Program, Run, compile, run};

/// A program without mistakes.
pub fn compiled(file: &str, text: &str) -> Program {
    compile(file, text).unwrap_or_else(|mistake| panic!("{}", mistake.show(file, text)))
}

/// A run under a schedule.
pub fn ran(file: &str, text: &str, schedule: &str) -> Run {
    let program = compiled(file, text);
    let turns = Plan::parse_turns(&program, schedule).unwrap();
    run(&program, &Plan { turns, ..Plan::default() }).unwrap()
}

/// The trace of a run, written and read again.
pub fn traced(file: &str, program: &str, schedule: &str) -> Trace {
    let trace = ran(file, program, schedule).trace;
    let reader = TextReader::new(std::io::Cursor::new(text(&trace).into_bytes()));
    let (again, _) = TraceReader::new(Box::new(reader), None).read_all().expect("the trace is well formed");
    assert_eq!(text(&again), text(&trace));
    again
}

/// A trace in Snag's text.
pub fn text(trace: &Trace) -> String {
    let mut writer = TextWriter::new(Vec::new());
    writer.write(&trace.events, &trace.tables).unwrap();
    String::from_utf8(writer.finish(&trace.tables).unwrap()).unwrap()
}

/// The lines of a thread, without its name.
pub fn lines_of(trace: &Trace, thread: &str) -> Vec<String> {
    let prefix = format!("{thread}|");
    text(trace).lines().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect()
}

fn ids(events: &[u32]) -> Vec<EventId> {
    events.iter().map(|&event| EventId(event)).collect()
}

/// The checker accepts a race with these values at level `symbolic`.
#[track_caller]
pub fn accepted(trace: &Trace, schedule: &[u32], diverging: &[u32], reads: &[(u32, i64)], pair: [u32; 2]) {
    let cells = Cells::of(trace);
    let reads: Vec<_> = reads.iter().map(|&(event, value)| (EventId(event), value)).collect();
    let [first, second] = pair.map(EventId);
    let checker = Checker::new(trace, &cells);
    checker.check_race_with_values(ids(schedule), &ids(diverging), &reads, first, second).unwrap();
}

/// The checker refuses a race at a level.
pub fn refused_at(trace: &Trace, schedule: &[u32], pair: [u32; 2], level: Level) -> bool {
    let cells = Cells::of(trace);
    let [first, second] = pair.map(EventId);
    Checker::new(trace, &cells).check_race(ids(schedule), first, second, level).is_err()
}
