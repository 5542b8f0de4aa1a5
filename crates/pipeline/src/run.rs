//! Runs engines one after the other, each within its time and memory, and hands on what each has found.

use crate::analysis::{Analysis, EngineReport};
use crate::condense::{Condensed, Restoring, Whole, condensed, run_condensed};
use crate::filing::{Checkers, Filing};
use crate::memory::{Minded, OUT_OF_MEMORY, for_want_of_memory, peak_memory};
use crate::options::Options;
use crate::plan::{Step, steps};
use crate::progress::Progress;
use crate::prove::{in_other_schedules, prove, standoffs};
use crate::so_far::{Ignoring, Publish, SoFar};
use crate::spurious::without_spurious;
use crate::time::Time;
use snag_engines::{
    Context, EngineRef, Found, Host, LocationPair, MC, NOT_LOOKED_AT, RDIT, SB, Settings, Subject, key,
};
use snag_model::{Cells, EventId, Op, Trace};
use std::collections::HashSet;
use std::time::Instant;

/// Runs the engines over a trace and proves what they find.
pub fn analyse(trace: &Trace, options: &Options, progress: &dyn Progress) -> Analysis {
    let so_far = SoFar::default();
    analyse_into(trace, options, progress, &so_far);
    so_far.take(&options.engines)
}

/// The same, with what each engine has found in `so_far` as soon as it is done, or does not end in time.
pub fn analyse_into(trace: &Trace, options: &Options, progress: &dyn Progress, so_far: &SoFar) {
    let memory = Minded::new(progress, options.memory);
    let time = Time::minding(&memory, options.settings.budget.map(|budget| Instant::now() + budget));
    if !options.ignore_missing || !trace.events.ops().contains(&Op::MethodBegin) {
        return run(trace, options, &time, so_far);
    }
    let part = |about_missing: bool| {
        let engines = options.engines.iter().copied().filter(|choice| choice.is_about_missing() == about_missing);
        Options { engines: engines.collect(), ..options.clone() }
    };
    // To show what a relation reports, CP and WCP look at all their pairs, as in the papers.
    let others = part(false);
    let others = Options { settings: Settings { all: true, ..others.settings.clone() }, ..others };
    run(&trace.without_missing(), &others, &time, &Ignoring(so_far));
    run(trace, &part(true), &time, so_far);
}

/// What takes one look at each event looks at the trace as it is. The others look at what is left of it, if that is much
/// less.
fn run(trace: &Trace, options: &Options, time: &Time, publish: &dyn Publish) {
    let (quick, others): (Vec<Step>, Vec<Step>) = steps(options, trace).into_iter().partition(Step::is_first);
    let whole = Whole::new(trace);
    let mut done = Done::default();
    if !quick.is_empty() {
        done = run_steps(trace, whole.cells(), options, time, publish, &quick, done);
    }
    if others.is_empty() {
        return;
    }
    match condensed(trace, options, time) {
        Some(condensed) => {
            let done = done.in_condensed(&condensed);
            let whole = |_: &Analysis| Some(&whole);
            let restoring = Restoring { condensed: &condensed, whole: &whole, options, time, publish };
            run_condensed(&restoring, &Cells::of(&condensed.trace), &others, time, done);
        }
        None => {
            run_steps(trace, whole.cells(), options, time, publish, &others, done);
        }
    }
}

/// Who has proved which pairs.
#[derive(Clone, Default)]
pub(crate) struct Done(Vec<(EngineRef, EventId, EventId)>);

impl Done {
    /// The same by the numbers that events have in a condensed trace: what can race is left in it.
    fn in_condensed(self, condensed: &Condensed) -> Done {
        let here = |event: EventId| condensed.here(event);
        let pairs = self.0.into_iter();
        Done(pairs.filter_map(|(engine, first, second)| Some((engine, here(first)?, here(second)?))).collect())
    }

    /// The findings of some engines, by what makes two of them the same.
    fn known(&self, engines: &[EngineRef], trace: &Trace, all_pairs: bool) -> HashSet<(u64, u64)> {
        let pairs = self.0.iter().filter(|(engine, ..)| engines.contains(engine));
        pairs.map(|&(_, first, second)| key(trace, first, second, all_pairs)).collect()
    }
}

/// Runs engines one after the other.
pub(crate) fn run_steps(
    trace: &Trace,
    cells: &Cells,
    options: &Options,
    time: &Time,
    publish: &dyn Publish,
    steps: &[Step],
    mut done: Done,
) -> Done {
    let recorded = Checkers::new(trace, cells);
    let unnamed =
        steps.iter().any(|step| predicts_spurious(step, options)).then(|| trace.with_unnamed_wakes()).flatten();
    let unnamed = unnamed.as_ref().map(|unnamed| Checkers::new(unnamed, cells));
    for step in steps {
        let known = done.known(step.beyond, trace, options.settings.all_pairs);
        let filing = |checkers| Filing::new(checkers, options, time, publish, step.engine, step.beyond.last().copied());
        let mut part = match unnamed.as_ref().filter(|_| predicts_spurious(step, options)) {
            Some(unnamed) => {
                let mut part = within_memory(filing(unnamed).with_recorded(&recorded), step, &known);
                without_spurious(&recorded, options, time, &mut part);
                part
            }
            None => within_memory(filing(&recorded), step, &known),
        };
        // Says of what is left open whether memory ran out.
        if time.memory.is_some_and(Minded::was_short) {
            part.left.iter_mut().for_each(|left| left.reason = for_want_of_memory(&left.reason));
            part.candidates.iter_mut().for_each(|candidate| candidate.reason = for_want_of_memory(&candidate.reason));
        }
        done.0.extend(part.races.iter().map(|race| (race.engine, race.first, race.second)));
        publish.done(part);
    }
    done
}

/// Whether an engine predicts with waits that end for no reason.
fn predicts_spurious(step: &Step, options: &Options) -> bool {
    options.spurious && [MC, RDIT, SB].contains(&step.engine)
}

/// Runs an engine if there is the memory that it needs at the least.
fn within_memory(filing: Filing, step: &Step, known: &HashSet<(u64, u64)>) -> Analysis {
    let beyond = filing.beyond;
    let needed = step.engine.least_memory(filing.trace, filing.cells);
    if filing.time.memory.is_some_and(|memory| !memory.has_room_for(needed)) {
        let mut part = Analysis::default();
        part.did_not_run(step.engine, beyond, filing.trace.len(), OUT_OF_MEMORY);
        return part;
    }
    engine(&filing, step, known)
}

/// Runs an engine and has proved what it finds.
fn engine(filing: &Filing, step: &Step, known: &HashSet<(u64, u64)>) -> Analysis {
    let started = Instant::now();
    let (engine, beyond, settings) = (filing.engine, filing.beyond, &filing.options.settings);
    let (trace, cells) = (filing.trace, filing.cells);
    let context = Context { engine, trace, cells, settings, beyond, known, exhaustive: step.exhaustive, host: filing };
    let mut found = engine.run(&context);
    let location_pairs = found.location_pairs.unwrap_or_else(|| distinct(trace, &found.pairs, settings.all_pairs));
    filing.leave(Subject::Event, NOT_LOOKED_AT, trace.len().saturating_sub(found.looked_at));
    if settings.prove {
        standoffs(filing, &context, &std::mem::take(&mut found.standoffs));
        prove(filing, &context, &mut found);
        in_other_schedules(filing, &context, std::mem::take(&mut found.maybe_by_order));
    }
    let Found { warnings, looked_at, first_pass, memory, complete, reduction, searches, .. } = found;
    let report = EngineReport {
        engine,
        beyond,
        seconds: started.elapsed().as_secs_f64(),
        events_per_second: looked_at as f64 / first_pass.as_secs_f64().max(1e-9),
        peak_memory_bytes: peak_memory().max(memory),
        warnings,
        location_pairs,
        complete: complete && !filing.is_open(),
        reduction,
        searches,
    };
    let mut part = filing.finish();
    part.engines.push(report);
    part
}

/// How many pairs of locations there are among pairs.
fn distinct(trace: &Trace, pairs: &[LocationPair], all_pairs: bool) -> u64 {
    match all_pairs {
        false => pairs.len() as u64,
        true => pairs.iter().map(|pair| pair.key(trace)).collect::<HashSet<_>>().len() as u64,
    }
}
