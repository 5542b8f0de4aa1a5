//! What `check` and `compare` have in common: traces are read, analysed and
//! reported one after the other.
//!
//! A trace that cannot be analysed does not keep the others from being reported,
//! but every report says that it is missing, and the exit status is 2.

use crate::background::Recording;
use crate::confirm;
use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::input;
use crate::interrupt::{self, Doing};
use crate::long::{self, Read};
use crate::output::Output;
use crate::progress::Bars;
use crate::time::Time;
use snag_formats::globals::{self, Global};
use snag_model::Level;
use snag_model::Trace;
use snag_pipeline::condense::Condensed;
use snag_pipeline::{Again, Analysis, Options, Settings, SoFar};
use snag_recorder::recorded::Part;
use snag_report::{Background, Confirmation, Confirmations, Findings, Report, Suppressed, Suppressions, Unread};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What is to be done.
pub struct Job<'a> {
    /// Traces to analyse.
    pub traces: &'a [PathBuf],
    /// How.
    pub options: Options,
    /// Each engine on its own, so that none profits from what another one left behind.
    pub one_by_one: bool,
    /// What to leave out.
    pub suppressions: Option<Suppressions>,
    /// What missing methods could reach beside what the traces say.
    pub globals: Vec<Global>,
    /// Traces of up to so many events are kept whole in memory.
    pub whole: u64,
    /// Source files below these folders may be shown.
    pub source_roots: &'a [PathBuf],
    /// What is predicted although some code was not seen is left out.
    pub strict: bool,
    /// The recorded program and its arguments, if it is to be driven to everything that is found.
    pub confirm: Option<&'a [OsString]>,
}

/// Why a trace is not in the report.
enum Stop {
    Trace(Unread),
    Output(io::Error),
}

/// Refuses a report that would take the place of one of the traces.
pub fn replaces_none(output: Option<&Path>, traces: &[PathBuf]) -> Result<(), String> {
    match output.and_then(|path| path.canonicalize().ok()) {
        Some(file)
            if traces.iter().any(|trace| trace.canonicalize().is_ok_and(|trace| trace == file && trace.is_file())) =>
        {
            Err(format!("{}: the report would replace a trace that is read", file.display()))
        }
        _ => Ok(()),
    }
}

/// Does the job and writes the report that `make` makes, to a file or standard output.
pub fn run(
    context: &Context,
    job: &Job,
    mut output: Output,
    make: impl FnOnce(&mut Output) -> Box<dyn Report + '_>,
) -> Result<Status, Failure> {
    interrupt::doing(Doing::Reading);
    interrupt::listen(interrupt::Then::Report)?;
    let to_file = !output.is_stdout();
    let mut report = make(&mut output);
    let mut found = false;
    let mut took = Vec::new();
    let mut unread = Vec::new();
    for (index, path) in job.traces.iter().enumerate() {
        match one(context, job, path, (&mut found, &mut took), &mut *report) {
            Ok(()) => {}
            Err(Stop::Trace(problem)) => {
                context.error(&format!("{}: {}", problem.path, problem.message));
                unread.push(problem);
            }
            Err(Stop::Output(error)) => {
                // If nobody listens any more, the status is what is known for sure.
                let last = index + 1 == job.traces.len() && unread.is_empty();
                let status = match (found, last) {
                    (true, _) => Status::Found,
                    (false, true) => Status::Clean,
                    (false, false) => Status::Error,
                };
                return Err(Failure::from(error).with_status(status));
            }
        }
    }
    let status = match (unread.is_empty(), found) {
        (false, _) => Status::Error,
        (true, true) => Status::Found,
        (true, false) => Status::Clean,
    };
    if to_file && unread.len() == job.traces.len() {
        return Ok(status); // Nothing was analysed: a file would only hide that.
    }
    report.finish(&unread).map_err(|error| Failure::from(error).with_status(status))?;
    drop(report);
    output.commit().map_err(|failure| failure.with_status(status))?;
    if let Some(suppressions) = &job.suppressions {
        say_what_had_no_effect(context, &suppressions.without_effect(&took));
    }
    Ok(status)
}

/// A suppression that matches nothing may be misspelled, or no longer needed.
fn say_what_had_no_effect(context: &Context, idle: &[(u64, &str)]) {
    match idle {
        [] => {}
        _ if context.verbose => {
            idle.iter()
                .for_each(|(line, text)| context.note(&format!("suppression '{text}' (line {line}) matched nothing")));
        }
        [(line, text)] => context.note(&format!("suppression '{text}' (line {line}) matched nothing")),
        _ => context.note(&format!("{} suppressions matched nothing; -v lists them", idle.len())),
    }
}

fn one(
    context: &Context,
    job: &Job,
    path: &Path,
    (found, took): (&mut bool, &mut Vec<Suppressed>),
    report: &mut dyn Report,
) -> Result<(), Stop> {
    let name = input::name(path);
    let refuse = |message: String| Stop::Trace(Unread { path: name.clone(), message });
    if interrupt::interrupted() {
        return Err(refuse("interrupted before it was analysed".to_owned()));
    }
    interrupt::doing(Doing::Reading);
    let time = Time::new(job.options.settings.budget);
    let can_condense = !job.one_by_one && job.globals.is_empty() && snag_pipeline::can_condense(&job.options);
    let most = can_condense.then_some(job.whole);
    let (mut read, whole, unread) = long::read(context, path, most, time.for_reading()).map_err(Stop::Trace)?;
    interrupt::doing(Doing::Work);
    if let Read::Whole(trace) = &mut read {
        globals::declare(trace, &job.globals).map_err(refuse)?;
    }
    level_fits(job.options.settings.level, read.trace()).map_err(refuse)?;
    let (fitting, left_out) = long::what_fits(context, path, &job.options, read.trace().len()).map_err(refuse)?;
    let events = read.events();
    let options = Options { settings: Settings { budget: time.left(events), ..fitting.settings.clone() }, ..fitting };
    let (mut trace, mut analysis) = match read {
        Read::Whole(trace) => analyse(context, trace, job, &options),
        Read::Condensed(condensed, once) => {
            condensed_first(context, path, condensed, once, &options).map_err(Stop::Trace)?
        }
    };
    if left_out {
        long::note_left_out(&mut analysis, events);
    }
    if let Some(bytes) = unread {
        long::note_unread(&mut analysis, bytes);
    }
    let found_any = !analysis.races.is_empty()
        || !analysis.deadlocks.is_empty()
        || !analysis.faults.is_empty()
        || !analysis.candidates.is_empty();
    // Names and stacks are for findings.
    let part = if whole && trace.len() == events { Part::Whole } else { Part::Beginning };
    let recording = match found_any {
        true => Recording::read_shared(path, &mut trace, part, job.source_roots),
        false => Ok(None),
    };
    let recording = recording.map_err(|error| Stop::Trace(input::unread(&name, error)))?;
    analysis.unseen = recording.as_ref().map_or(Vec::new(), |recording| recording.unseen().to_vec());
    if job.strict && !analysis.unseen.is_empty() {
        let unseen = analysis.unseen.join(", ");
        let left_out = match analysis.drop_doubtful(&trace) {
            1 => "1 finding is".to_owned(),
            count => format!("{count} findings are"),
        };
        context.note(&format!("{name}: {left_out} left out (--strict), as code was not seen: {unseen}"));
    }
    let background = recording.as_ref().map(|recording| recording as &dyn Background);
    // In the part that was lost there may be more.
    analysis.engines.iter_mut().for_each(|engine| engine.complete &= whole);
    let suppressed =
        job.suppressions.as_ref().map(|suppressions| suppressions.apply(&trace, background, &mut analysis));
    took.extend(suppressed.iter().flatten().cloned());
    *found |= !analysis.races.is_empty() || !analysis.deadlocks.is_empty() || !analysis.faults.is_empty();
    let (events, suppressed) = (events as u64, suppressed.as_deref());
    let enough = || time.is_enough();
    let confirmations =
        job.confirm.map(|command| confirmations(context, recording.as_ref(), part, &trace, command, &analysis));
    let findings = Findings {
        path: &name,
        trace: &trace,
        events,
        analysis: &analysis,
        suppressed,
        background,
        confirmations: confirmations.as_ref(),
        enough: &enough,
    };
    report.trace(&findings).map_err(Stop::Output)
}

/// What replays show of the findings. One of which the recording is not all there has no schedule to follow.
fn confirmations(
    context: &Context,
    recording: Option<&Recording>,
    part: Part,
    trace: &Trace,
    command: &[OsString],
    analysis: &Analysis,
) -> Confirmations {
    match recording {
        Some(recording) if part == Part::Whole => {
            confirm::all(context, (trace, recording.recorded()), command, analysis)
        }
        _ => {
            let not = || Confirmation::NotConfirmed("the recording was not read to its end".to_owned());
            Confirmations {
                races: analysis.races.iter().map(|_| not()).collect(),
                deadlocks: analysis.deadlocks.iter().map(|_| not()).collect(),
            }
        }
    }
}

/// Analyses a trace of which only a part is in memory. If something is found in it, the whole trace is returned with it, or its
/// beginning if there was no time to read more `once` more.
fn condensed_first(
    context: &Context,
    path: &Path,
    condensed: Condensed,
    once: Duration,
    options: &Options,
) -> Result<(Arc<Trace>, Analysis), Unread> {
    let bars = Arc::new(context.bars());
    let deadline = options.settings.budget.map(|budget| Instant::now() + budget);
    let condensed = Arc::new(condensed);
    let whole: Arc<Mutex<Option<ReadAgain>>> = Arc::default();
    let again = {
        let (context, path, bars) = (context.clone(), path.to_owned(), bars.clone());
        let (condensed, whole) = (condensed.clone(), whole.clone());
        move |analysis: &Analysis| {
            let until = deadline.map(|deadline| {
                let left = deadline.saturating_duration_since(Instant::now());
                Instant::now() + (left * 2 / 3).max(TO_READ_AGAIN)
            });
            let read = bars.hold(|| long::read_whole(&context, &path, &condensed, &counts(analysis), until));
            let read = read.map(Arc::new);
            if read.is_err() {
                bars.close();
            }
            let trace = read.as_ref().ok().cloned();
            *whole.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(read);
            trace
        }
    };
    let analysis = in_time(&bars, deadline, options, (&condensed.trace, condensed.whole()), {
        let (bars, condensed, options) = (bars.clone(), condensed.clone(), options.clone());
        move |so_far| {
            // What the checker needs to know of each event takes about as long.
            let again = Again { read: &again, takes: 2 * once };
            snag_pipeline::analyse_condensed_into(&condensed, &options, &bars, deadline, so_far, &again);
        }
    });
    bars.close();
    let whole = whole.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
    match (whole.transpose()?, Arc::try_unwrap(condensed)) {
        (Some(whole), _) => Ok((whole, analysis)),
        // What is left of a trace is enough for a report without findings.
        (None, Ok(condensed)) => Ok((Arc::new(condensed.trace), analysis)),
        (None, Err(shared)) => Ok((Arc::new(shared.trace.clone()), analysis)),
    }
}

/// A trace that was read once more.
type ReadAgain = Result<Arc<Trace>, Unread>;

/// What was found, in words.
fn counts(analysis: &Analysis) -> String {
    let Analysis { races, deadlocks, candidates, .. } = analysis;
    let [races, deadlocks, candidates] = [races.len(), deadlocks.len(), candidates.len()];
    format!("{races} races, {deadlocks} deadlocks and {candidates} candidates were found")
}

/// However little of the budget is left, a long trace is read for this long, to prove what was found in it.
const TO_READ_AGAIN: Duration = Duration::from_millis(200);

/// Analyses a trace that is whole in memory.
fn analyse(context: &Context, trace: Trace, job: &Job, options: &Options) -> (Arc<Trace>, Analysis) {
    let (bars, trace) = (Arc::new(context.bars()), Arc::new(trace));
    let deadline = options.settings.budget.map(|budget| Instant::now() + budget);
    let engines = match job.one_by_one {
        false => options.engines.clone(),
        true => {
            // On a trace without missing methods engines that are about these do what mc does, and without expressions
            // so does recipe.
            options.engines.iter().copied().filter(|engine| engine.differs_on(&trace)).collect()
        }
    };
    let options = Options { engines, ..options.clone() };
    let analysis = in_time(&bars, deadline, &options, (&trace, trace.len()), {
        let (bars, trace, options) = (bars.clone(), trace.clone(), options.clone());
        let one_by_one = job.one_by_one;
        move |so_far| match one_by_one {
            false => snag_pipeline::analyse_into(&trace, &options, &bars, so_far),
            true => {
                for &engine in &options.engines {
                    forget_peak_memory();
                    let budget = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                    let options = Options {
                        engines: vec![engine],
                        settings: Settings { budget, ..options.settings.clone() },
                        ..options.clone()
                    };
                    snag_pipeline::analyse_into(&trace, &options, &bars, so_far);
                }
            }
        }
    });
    bars.close();
    (trace, analysis)
}

/// Runs engines in a thread of its own; what they have found when it is done, or when there is no more time to wait for it.
fn in_time(
    bars: &Arc<Bars>,
    deadline: Option<Instant>,
    options: &Options,
    (trace, events): (&Trace, usize),
    work: impl FnOnce(&SoFar) + Send + 'static,
) -> Analysis {
    let so_far = Arc::new(SoFar::default());
    let in_thread = so_far.clone();
    match snag_pipeline::wait_for(bars, deadline, move || work(&in_thread)) {
        Some(()) => so_far.take(&options.engines),
        None => so_far.take_early(options, trace, events),
    }
}

/// From now on the peak of this process's memory counts anew, where the system can do that.
fn forget_peak_memory() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Whether a trace has what the level looks at. Every engine proves at least at
/// `writer`, and a witness at one level is one at every higher level.
fn level_fits(level: Option<Level>, trace: &Trace) -> Result<(), String> {
    match level {
        Some(level @ (Level::Value | Level::Control)) if !trace.events.has_values() => {
            Err(format!("level '{level}' needs values and this trace has none; only 'writer' applies to it"))
        }
        Some(Level::Symbolic) if !snag_pipeline::is_symbolic(trace) => {
            Err("level 'symbolic' needs expressions and this trace has none".to_owned())
        }
        _ => Ok(()),
    }
}
