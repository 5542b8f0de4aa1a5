//! `snag punch`: an incomplete trace out of a complete one.

use crate::background::Recording;
use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::formats;
use crate::input::{self, Source};
use crate::interrupt;
use clap::ValueEnum;
use snag_formats::{Format, WriteOptions};
use snag_model::{EventId, Op, Trace};
use snag_recorder::recorded::Part;
use snag_report::Background;
use snag_synthesis::arguments::Places;
use snag_synthesis::calls::Calls;
use snag_synthesis::punch::{Reach, punch};
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

/// Options of `snag punch`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  snag punch --methods lock,unlock full.stx holes.stx   these methods were not observed
  snag punch --sync full.stx holes.stx                  no method that synchronises was
  snag punch --random 0.3 --seed 7 full.std holes.stx   three of ten methods were not
  snag punch --files queue.c run.snag holes.snag        nothing in this file was
  snag compare --incomplete full.stx holes.stx          what that does to each engine

Methods are what the marks 'begin(m)' and 'end(m)' of a trace (or 'call m' and 'return m') enclose; where it has none,
the functions of a recording, or else the files of its locations.")]
pub struct Args {
    /// The complete trace; - is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The file to write; - is standard output
    #[arg(value_name = "OUT")]
    out: PathBuf,
    #[command(flatten)]
    holes: Holes,
    /// What missing calls could reach: what they touched, or all that their arguments lead to, as a recorder of incomplete
    /// traces would find it
    #[arg(long, value_name = "WHAT", default_value = "touched")]
    reach: What,
    /// For --random: another number, other methods
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Format of OUT [default: by its extension]
    #[arg(long, value_name = "FORMAT", value_parser = formats::parser())]
    to: Option<Format>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum What {
    /// What they touched
    Touched,
    /// What that is part of, and all that leads to
    Arguments,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Holes {
    /// Methods that were not observed
    #[arg(long, value_name = "NAME[,NAME...]", value_delimiter = ',')]
    methods: Vec<String>,
    /// Source files whose code was not observed
    #[arg(long, value_name = "FILE[,FILE...]", value_delimiter = ',')]
    files: Vec<String>,
    /// Threads that were not observed
    #[arg(long, value_name = "NAME[,NAME...]", value_delimiter = ',')]
    threads: Vec<String>,
    /// Methods are not observed with this probability, from 0 to 1
    #[arg(long, value_name = "P", value_parser = probability)]
    random: Option<f64>,
    /// Methods that synchronise by themselves were not observed
    #[arg(long)]
    sync: bool,
}

fn probability(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err("not between 0 and 1".to_owned()) }
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<Status, Failure> {
    interrupt::listen(interrupt::Then::WriteNothing)?;
    let read = Source::open(context, &args.trace, None).and_then(|source| source.read(context));
    let mut trace = read.map_err(|problem| input::message(&problem))?;
    let recording = Recording::read(&args.trace, &mut trace, Part::Whole, &[])?;
    let in_trace = |message: String| format!("{}: {message}", input::name(&args.trace));
    let (calls, chosen) = choose(&trace, recording.as_ref(), args).map_err(in_trace)?;
    let locks = recording.iter().flat_map(Recording::locks);
    let places = Places { locks: locks.collect() };
    let reach = match args.reach {
        What::Touched => Reach::Touched,
        What::Arguments => Reach::Arguments(&places),
    };
    let punched = punch(&trace, &calls, reach, |method| chosen.contains(method));
    let mut writer = snag_formats::create(&args.out, args.to, WriteOptions { compress: true })?;
    writer.write(&punched.trace.events, &punched.trace.tables).map_err(formats::writing)?;
    writer.finish(&punched.trace.tables).map_err(formats::writing)?;
    if !context.quiet {
        let pairs = punched.trace.events.ops().iter().filter(|op| **op == Op::MethodBegin).count();
        context.note(&format!(
            "{} of {} methods are missing: {} of {} events removed, {pairs} calls instead",
            chosen.len(),
            methods(&calls).len(),
            punched.removed,
            trace.len()
        ));
    }
    Ok(Status::Clean)
}

/// The calls of the trace, and the methods that are to be missing.
fn choose(trace: &Trace, recording: Option<&Recording>, args: &Args) -> Result<(Calls, HashSet<String>), String> {
    let holes = &args.holes;
    let unknown = |what: &str, name: &str| format!("there is no {what} '{name}' in it");
    if !holes.threads.is_empty() {
        let name = |index: usize| trace.tables.thread_name(trace.events.threads()[index]).to_owned();
        let calls = Calls::runs(trace, |index| Some(name(index)));
        return wanted(calls, &holes.threads, |name| unknown("thread", name));
    }
    if !holes.files.is_empty() {
        let calls = Calls::runs(trace, |index| file(trace, index).map(str::to_owned));
        return wanted(calls, &holes.files, |name| unknown("file", name));
    }
    let marked = Calls::marked(trace);
    let calls = match (marked.is_empty(), recording) {
        (false, _) => marked,
        (true, Some(recording)) => Calls::runs(trace, |index| function(trace, recording, index)),
        (true, None) => Calls::runs(trace, |index| file(trace, index).map(str::to_owned)),
    };
    if calls.is_empty() {
        return Err("no method is known: it has neither marks 'begin(m)' and 'end(m)' nor locations".to_owned());
    }
    if let Some(probability) = holes.random {
        let mut state = args.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
        let mut draw = || {
            // xorshift64*
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
        };
        let chosen = methods(&calls).into_iter().filter(|_| draw() < probability).collect();
        return Ok((calls, chosen));
    }
    if holes.sync {
        let synchronising = calls.synchronising(trace);
        let some = calls.all.iter().zip(&synchronising).filter(|(_, sync)| **sync);
        let chosen = some.map(|(call, _)| call.method.clone()).collect();
        return Ok((calls, chosen));
    }
    wanted(calls, &holes.methods, |name| unknown("method", name))
}

fn wanted(
    calls: Calls,
    names: &[String],
    unknown: impl Fn(&str) -> String,
) -> Result<(Calls, HashSet<String>), String> {
    let known = methods(&calls);
    match names.iter().find(|name| !known.contains(name)) {
        Some(name) => Err(unknown(name)),
        None => Ok((calls, names.iter().cloned().collect())),
    }
}

/// The methods, each once, in the order of their first calls.
fn methods(calls: &Calls) -> Vec<String> {
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, call) in calls.all.iter().enumerate() {
        first.entry(&call.method).or_insert(number);
    }
    let mut names: Vec<(usize, &str)> = first.into_iter().map(|(name, number)| (number, name)).collect();
    names.sort_unstable();
    names.into_iter().map(|(_, name)| name.to_owned()).collect()
}

/// What a location says before its line number.
fn file(trace: &Trace, index: usize) -> Option<&str> {
    if matches!(trace.events.ops()[index], Op::Begin | Op::End) {
        return None;
    }
    let location = trace.location_of(EventId::new(index));
    let end = location.find(':').unwrap_or(location.len());
    (end > 0).then(|| &location[..end])
}

/// The function in which a recorded event happened.
fn function(trace: &Trace, recording: &Recording, index: usize) -> Option<String> {
    let stack = recording.stack(trace, EventId::new(index));
    stack.into_iter().map(|frame| frame.function).find(|function| !function.is_empty())
}
