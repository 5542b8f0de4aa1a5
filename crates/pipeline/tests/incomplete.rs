//! Complete traces, punched at random: what RDIT and SB report on what is left is true of the whole.

use snag_engines::{MC, RDIT, SB};
use snag_model::Level;
use snag_model::events::Event;
use snag_model::{EventId, Op, Space, Trace, Validator};
use snag_pipeline::{EngineRef, Options, Quiet, Settings, analyse};
use snag_synthesis::arguments::Places;
use snag_synthesis::calls::Calls;
use snag_synthesis::punch::{Punched, Reach, punch};
use snag_testkit::random::{Rng, Shape, for_random_traces};
use snag_testkit::search;
use std::collections::BTreeSet;

type Races = BTreeSet<(EventId, EventId)>;

/// Nothing is missing, and memory holds what is read.
fn complete(rng: &mut Rng) -> Shape {
    let mut shape = Shape::any(rng);
    shape.weights.methods = 0;
    shape.weights.marks = 0;
    shape.weights.symbols = 0;
    shape.unexplained = 0;
    shape.values = shape.values.max(rng.pick(&[0, 60, 100]));
    shape
}

/// Calls methods at random: adds marks to a trace. Also says which event each one was.
fn with_calls(trace: &Trace, rng: &mut Rng) -> (Trace, Vec<Option<EventId>>) {
    let mut made = Trace { tables: trace.tables.clone(), ..Trace::default() };
    let mut original = Vec::new();
    let mut open: Vec<Vec<usize>> = vec![Vec::new(); trace.tables.thread_count()];
    for (index, event) in trace.events.iter().enumerate() {
        let mut mark = |text: String| {
            let text = made.tables.intern(Space::Text, &text);
            made.events.push(Event::new(event.thread, Op::Mark, text));
            original.push(None);
        };
        let stack = &mut open[event.thread.index()];
        // A thread that waits does nothing, and `begin` and `end` are its first and last events.
        let waits = matches!(event.op, Op::Wake | Op::WaitEnd | Op::Begin);
        while !waits && rng.chance(30) && stack.len() < 3 {
            stack.push(rng.below(4));
            mark(format!("begin(m{})", stack.last().unwrap()));
        }
        original.push(Some(EventId::new(index)));
        let aux = match (event.op, event.aux) {
            (Op::Wake, 1..) => {
                let notify = original.iter().position(|from| *from == Some(EventId(event.aux - 1)));
                notify.expect("a notify comes before its wake-up") as u32 + 1
            }
            (_, aux) => aux,
        };
        made.events.push(Event { aux, ..event });
        while !matches!(event.op, Op::WaitBegin | Op::Wake | Op::End)
            && rng.chance(30)
            && let Some(method) = stack.pop()
        {
            let text = made.tables.intern(Space::Text, &format!("end(m{method})"));
            made.events.push(Event::new(event.thread, Op::Mark, text));
            original.push(None);
        }
    }
    (made, original)
}

/// A trace with holes; its events by their numbers in the given one.
fn punched(trace: &Trace) -> Punched {
    // Whatever is drawn depends on the trace alone, so that a smaller one can be looked for.
    let mut rng = Rng::new(
        trace
            .events
            .targets()
            .iter()
            .fold(trace.len() as u64, |sum, &target| sum.wrapping_mul(31).wrapping_add(target as u64 + 1)),
    );
    let chosen: Vec<bool> = (0..4).map(|_| rng.chance(50)).collect();
    let is_chosen = |method: &str| chosen[method[1..].parse::<usize>().expect("m0 to m3")];
    let places = Places::default();
    let reach = if rng.chance(50) { Reach::Touched } else { Reach::Arguments(&places) };
    if rng.chance(40) {
        let labels: Vec<usize> = (0..trace.len()).map(|_| rng.below(4)).collect();
        return punch(trace, &Calls::runs(trace, |index| Some(format!("m{}", labels[index / 2]))), reach, is_chosen);
    }
    let (marked, original) = with_calls(trace, &mut rng);
    let mut made = punch(&marked, &Calls::marked(&marked), reach, is_chosen);
    for from in &mut made.original {
        *from = from.and_then(|event| original[event.index()]);
    }
    made
}

fn well_formed(trace: &Trace) -> Result<(), String> {
    let checked = Validator::new().check(&trace.events, 0, &trace.tables);
    checked.map_err(|why| format!("what is left is not well formed: {why:?}"))
}

/// The races of an engine, by their numbers in the complete trace.
fn races(punched: &Punched, engine: EngineRef, level: Level) -> Result<Races, String> {
    let options = Options {
        engines: vec![engine.into()],
        settings: Settings { all_pairs: true, level: Some(level), ..Settings::default() },
        ..Options::default()
    };
    let found = analyse(&punched.trace, &options, &Quiet);
    if !found.engines.iter().all(|report| report.complete) {
        return Err(format!("{level}: {engine:?} is not complete"));
    }
    let number = |event: EventId| punched.original[event.index()].expect("missing calls do not race");
    Ok(found.races.iter().map(|race| (number(race.first), number(race.second))).collect())
}

fn holes_make_no_false_alarm(trace: &Trace) -> Result<(), String> {
    let punched = punched(trace);
    well_formed(&punched.trace)?;
    let text = || snag_testkit::show(&punched.trace);
    let level = [Level::Writer, Level::Value, Level::Control][trace.len() % 3];
    let truth = search::races(trace, level);
    let rdit = races(&punched, RDIT, level)?;
    let sb = races(&punched, SB, level)?;
    if let Some(wrong) = rdit.difference(&truth).next() {
        return Err(format!("{level}: {wrong:?} of the complete trace is a false alarm of\n{}", text()));
    }
    if let Some(wrong) = sb.difference(&rdit).next() {
        return Err(format!("{level}: SB has {wrong:?}, RDIT has not:\n{}", text()));
    }
    if punched.trace.len() <= 30 {
        let number = |event: EventId| punched.original[event.index()].expect("missing calls do not race");
        let all = search::races(&punched.trace, level);
        let all: Races = all.into_iter().map(|(a, b)| (number(a), number(b))).collect();
        if rdit != all {
            return Err(format!("{level}: RDIT has {rdit:?}, all there is is {all:?}:\n{}", text()));
        }
    }
    Ok(())
}

#[test]
fn rdit_and_sb_report_no_race_that_the_complete_trace_refutes() {
    for_random_traces(700_000..720_000, complete, holes_make_no_false_alarm);
}

#[test]
fn without_holes_rdit_and_sb_are_mc() {
    for_random_traces(720_000..723_000, complete, |trace| {
        let whole = Punched {
            trace: trace.clone(),
            original: (0..trace.len()).map(|index| Some(EventId::new(index))).collect(),
            removed: 0,
        };
        let level = [Level::Writer, Level::Value, Level::Control][trace.len() % 3];
        let mc = races(&whole, MC, level)?;
        for engine in [RDIT, SB] {
            if races(&whole, engine, level)? != mc {
                return Err(format!("{level}: {engine:?} differs from mc"));
            }
        }
        Ok(())
    });
}
