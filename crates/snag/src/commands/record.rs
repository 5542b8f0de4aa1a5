//! `snag record`: run a program and write what its threads do as a trace.

use crate::commands::models;
use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::interrupt::{self, Doing, Then};
use crate::{secret, temporary};
use snag_models::{Model, Models};
use snag_recorder::recorder::DAMAGED;
use snag_recorder::ring::{Drain, Settings};
use snag_recorder::selection::{Pattern, Selection};
use snag_recorder::{Ended, Options, Prints, Recorder, Summary, Unrecorded};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// Options of `snag record`.
#[derive(clap::Args)]
#[command(after_help = "The program must be built for ThreadSanitizer: gcc -g -fsanitize=thread, or 'snag cc'.

Examples:
  snag record -- ./server --port 8080         into server.snag
  snag record -o run.snag --seed 7 -- ./prog  another interleaving
  snag check run.snag                         predict races from it

Exit status: that of the program; 128 + the signal if it died of one; 2 if it could not be recorded, or not to its end
because the disk is full, the program has damaged what it shares with snag, or has more memory than snag can follow.")]
pub struct Args {
    /// File to write [default: the program's name with .snag]
    #[arg(short, long, value_name = "TRACE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    how: How,
    /// The program and its arguments
    #[arg(value_name = "PROG", required = true, last = true)]
    command: Vec<OsString>,
}

/// How threads take turns.
#[derive(clap::Args, Clone)]
pub struct How {
    /// Let another thread run after N steps, from 1 on [default: a few at first and where threads meet, more where they
    /// work alone]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    quantum: Option<u64>,
    /// Pick threads, and how long they run, at random from this seed, a number from 1 on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seed: Option<u64>,
    /// Let threads run at the same time, as they do without Snag; what is recorded so cannot be replayed
    #[arg(long, conflicts_with_all = ["quantum", "seed"])]
    free_running: bool,
    /// When the program is about to end, let each thread that can run do N more steps, in MS milliseconds altogether;
    /// 0: none
    #[arg(long, value_name = "N[,MS]", default_value_t = Drain::default())]
    drain: Drain,
    /// What functions of libraries do that are not instrumented: 'snag models' has the format by example. May be
    /// repeated; what it says counts before what is built in
    #[arg(long = "model", value_name = "FILE", value_parser = models::read)]
    models: Vec<Model>,
    /// Leave out functions of this name, in which '*' stands for anything: they run faster, and what they do is not seen.
    /// May be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<Pattern>,
    /// Leave out all functions but those of this name. May be repeated
    #[arg(long, value_name = "PATTERN")]
    only: Vec<Pattern>,
}

impl How {
    /// For the recorder.
    pub fn settings(&self) -> Settings {
        let seed = self.seed.unwrap_or(0);
        Settings {
            quantum: self.quantum.unwrap_or(0),
            seed,
            free: self.free_running,
            drain: self.drain,
            models: Models::with(self.models.iter().cloned()),
            selection: Selection { without: self.exclude.clone(), only: self.only.clone() },
            ..Settings::default()
        }
    }
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<Status, Failure> {
    let path = args.output.clone().unwrap_or_else(|| default_output(&args.command));
    can_be_recording(&path)?;
    interrupt::listen(Then::KeepRecording)?;
    let summary = match record(context, &args.command, args.how.settings(), Prints::AsWeDo, &path) {
        Err(unrecorded) => return Err(unrecorded.message.into()),
        Ok(summary) => summary,
    };
    context.note(&format!("{}: {}", path.display(), size(&summary)));
    if context.verbose {
        let [program, recorder] = [summary.program_time, summary.recorder_time].map(|time| time.as_secs_f64());
        context.note(&format!("processor time: {program:.2} s in the program, {recorder:.2} s to record it"));
    }
    Ok(if is_whole(&summary) { exit_status(summary.ended) } else { Status::Error })
}

/// Says which functions nobody sees were called most, and what is known about them.
fn unseen(context: &Context, summary: &Summary) {
    const MOST: usize = 10;
    let all = &summary.unseen;
    let unknown: u64 = all.iter().filter(|function| !function.by_arguments).map(|function| function.calls).sum();
    let known: u64 = all.iter().filter(|function| function.by_arguments).map(|function| function.calls).sum();
    if unknown + known == 0 {
        return;
    }
    context.detail(&format!(
        "{} calls of functions that are not instrumented: {unknown} that may share data of libraries, {known} that do not",
        unknown + known
    ));
    for function in all.iter().take(MOST) {
        let effect = if function.by_arguments { "arguments" } else { "no model" };
        context.detail(&format!("    {}: {} calls, {effect}", function.name, function.calls));
    }
}

/// Whether the trace has all that was recorded, and all of it can be relied on.
pub fn is_whole(summary: &Summary) -> bool {
    summary.unwritten.is_none() && summary.oddities.damaged.is_none() && summary.oddities.limit.is_none()
}

/// Recordings are `.snag` files: a name that says something else would be wrong, and is refused.
pub fn can_be_recording(path: &Path) -> Result<(), String> {
    let shown = path.display();
    if path == Path::new("-") {
        return Err("-: a recording goes into a file; standard output is the program's".to_owned());
    }
    let last = path.extension().and_then(|last| last.to_str()).map(str::to_ascii_lowercase).unwrap_or_default();
    if snag_formats::compression::Compression::by_extension(&last).is_some() {
        return Err(format!("{shown}: a recording is not compressed while it is written; record into a .snag file"));
    }
    match snag_formats::Format::by_extension(path) {
        Some(snag_formats::Format::Snag) | None => Ok(()),
        Some(_) => Err(format!("{shown}: recordings are .snag files; 'snag convert' makes .{last} of them")),
    }
}

/// Records and says what was odd about it. The caller listens to interrupts.
pub fn record(
    context: &Context,
    command: &[OsString],
    settings: Settings,
    prints: Prints,
    path: &Path,
) -> Result<Summary, Unrecorded> {
    let seal = secret::seal();
    // A recording without a name is never replayed.
    if let (Err(why), false) = (&seal, temporary::is_nameless(path)) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| context.warn(&format!("the recording can be replayed with --trust only: {why}")));
    }
    let options = Options { command: command.to_vec(), settings, prints, seal: seal.ok() };
    #[cfg(unix)]
    crate::cut_off::while_recording();
    interrupt::doing(Doing::Program);
    if interrupt::asked() {
        return Err("interrupted before the program was started".to_owned().into());
    }
    let summary = Recorder::record_into(&options, path, |_| interrupt::program_started())?;
    let odd = &summary.oddities;
    let shown = temporary::shown(path);
    if let Some(why) = &summary.unwritten {
        context.insist(&format!("{shown}: {why}; the trace ends there, the program was run to its end"));
    }
    if let Some(why) = &odd.damaged {
        context.insist(&format!(
            "{shown}: the recording ends early, as {DAMAGED}: {why}; what is in the trace was recorded before that was noticed"
        ));
    } else if let Some(why) = &odd.limit {
        context.insist(&format!("{shown}: the recording ends early, at a limit of snag: {why}"));
    } else if let Some(why) = &odd.broken {
        context.warn(&format!("{shown}: the recording ends early: {why}"));
    }
    if summary.deadlocked {
        context.warn("the program was ended: its threads waited for each other for ever");
    }
    if odd.unordered > 0 {
        context.warn(&format!(
            "{} reads met a write of another thread at the same time, so nobody knows what they found: {}; {} events that \
             may depend on it, of {} threads, are left out of the trace",
            odd.unordered,
            examples(odd.unordered, &odd.unordered_at),
            odd.left_out,
            odd.threads_cut
        ));
    }
    if odd.foreign_shared > 0 {
        context.detail(&format!(
            "{} reads found that code that is not instrumented had changed memory of several threads: {}",
            odd.foreign_shared,
            examples(odd.foreign_shared, &odd.foreign_at)
        ));
    }
    if odd.foreign > 0 {
        context.detail(&format!("{} reads found what code that is not instrumented had written", odd.foreign));
    }
    summary.unfit_models.iter().for_each(|why| context.warn(why));
    unseen(context, &summary);
    if odd.freed > 0 {
        context.detail(&format!("the program used freed memory {} times", odd.freed));
    }
    if odd.foreign_unlocks > 0 {
        context
            .detail(&format!("locks were given back {} times by threads that did not hold them", odd.foreign_unlocks));
    }
    Ok(summary)
}

/// The first of so many, and that there are more.
fn examples(count: u64, first: &[String]) -> String {
    let more = if count as usize > first.len() { ", …" } else { "" };
    format!("{}{more}", first.join("; "))
}

fn default_output(command: &[OsString]) -> PathBuf {
    let name = command.first().and_then(|program| Path::new(program).file_name()).unwrap_or_default();
    let mut name = name.to_owned();
    name.push(".snag");
    name.into()
}

/// `12345 events, 6.7 kB`.
pub fn size(summary: &Summary) -> String {
    let bytes = summary.bytes as f64;
    let bytes = match summary.bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes / 1e3),
        _ => format!("{:.1} MB", bytes / 1e6),
    };
    let events = if summary.events == 1 { "event" } else { "events" };
    format!("{} {events}, {bytes}", summary.events)
}

/// How the program ended, in words; nothing if it ended well.
pub fn ending(ended: Ended) -> Option<String> {
    match ended {
        Ended::Exit(0) => None,
        Ended::Exit(code) => Some(format!("the program exited with status {code}")),
        Ended::Signal(signal) => Some(format!("the program died of signal {signal}")),
    }
}

/// The program's own status.
pub fn exit_status(ended: Ended) -> Status {
    match ended {
        Ended::Exit(code) => Status::Program(code as u8),
        Ended::Signal(signal) => Status::Program((128 + signal) as u8),
    }
}
