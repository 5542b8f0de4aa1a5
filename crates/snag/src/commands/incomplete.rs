//! `snag compare --incomplete`: what holes in a trace do to each engine.

use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::input::{self, Source};
use crate::interrupt;
use crate::output::Output;
use snag_model::{EventId, Op, Trace};
use snag_pipeline::engines::{CP, HB, MC, RDIT, SB};
use snag_pipeline::{EngineRef, Guarantee, Options, Settings, analyse};
use snag_report::incomplete::{Comparison, Row, pair};
use std::path::Path;

/// Engines that know nothing of missing methods, and those that do.
const ENGINES: [EngineRef; 5] = [HB, CP, MC, SB, RDIT];

/// Compares a complete trace with one that has holes.
pub fn run(context: &Context, full: &Path, punched: &Path, as_json: bool) -> Result<Status, Failure> {
    interrupt::listen(interrupt::Then::End)?;
    let read = |path: &Path| -> Result<Trace, Failure> {
        let trace = Source::open(context, path, None).and_then(|source| source.read(context));
        trace.map_err(|problem| input::message(&problem))
    };
    let (whole, holes) = (read(full)?, read(punched)?);
    let calls = |trace: &Trace| trace.events.ops().iter().filter(|op| **op == Op::MethodBegin).count();
    if calls(&whole) > 0 {
        return Err(format!("{}: methods are missing already: the truth is not known", input::name(full)).into());
    }
    let bars = context.bars();
    let run = |trace: &Trace, engine: EngineRef| {
        let settings = Settings { jobs: context.jobs, all: true, ..Settings::default() };
        // What a relation reports, it reports, proved or not.
        let candidates = engine.about().guarantee == Guarantee::First;
        let options =
            Options { engines: vec![engine.into()], settings, ignore_missing: true, candidates, ..Options::default() };
        analyse(trace, &options, &bars)
    };
    let truth = run(&whole, MC);
    let mut rows = Vec::new();
    for engine in ENGINES {
        let found = run(&holes, engine);
        let races = found.races.iter().map(|race| (race.first, race.second));
        let candidates = found.candidates.iter().map(|candidate| (candidate.first, candidate.second));
        rows.push(Row {
            engine,
            ignoring: found.ignores_missing(engine),
            reported: races.chain(candidates).map(|(first, second)| pair(&holes, first, second)).collect(),
            seconds: found.engines.iter().map(|report| report.seconds).sum(),
            complete: found.engines.iter().all(|report| report.complete),
        });
        if interrupt::interrupted() {
            bars.clear();
            return Err("interrupted".to_owned().into());
        }
    }
    bars.clear();
    let accesses = (0..holes.len()).filter(|&index| holes.events.ops()[index].touches_memory());
    let name = |index: usize| pair(&holes, EventId::new(index), EventId::new(index)).0;
    let paths = [input::name(full), input::name(punched)];
    let comparison = Comparison {
        paths: [&paths[0], &paths[1]],
        events: [whole.len(), holes.len()],
        calls: calls(&holes),
        truth: truth.races.iter().map(|race| pair(&whole, race.first, race.second)).collect(),
        truth_complete: truth.engines.iter().all(|report| report.complete),
        truth_seconds: truth.engines.iter().map(|report| report.seconds).sum(),
        left: accesses.map(name).collect(),
        rows,
    };
    let mut output = Output::open(None)?;
    match as_json {
        true => comparison.json(&mut output)?,
        false => comparison.text(&mut output, &context.style(false))?,
    }
    output.commit()?;
    Ok(if comparison.truth.is_empty() { Status::Clean } else { Status::Found })
}
