//! `snag trace`: one run of a program in the small language, as a symbolic trace.

use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::{formats, say};
use snag_formats::{Format, WriteOptions};
use snag_recipe_lang::{Plan, Program};
use snag_report::printable;
use std::path::{Path, PathBuf};

/// Options of `snag trace`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  snag trace prog.rcp                              one run, as Snag's text
  snag trace prog.rcp --seed 7 -o run.snag         another run, into a file
  snag trace prog.rcp --schedule T1,T2             T1 as far as it gets, then T2, then by chance
  snag trace prog.rcp --schedule 'T1*2,T2*1,T1'    two steps of T1, one of T2, T1 as far as it gets

The language is described in docs/rcp.md. The same options give the same trace on every machine.")]
pub struct Args {
    /// The program
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,
    /// File to write; its extension tells the format [default: standard output, as Snag's text]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the trace [default: by the extension of the file]
    #[arg(long, value_name = "FORMAT", value_parser = formats::parser())]
    to: Option<Format>,
    /// What chance decides comes from this
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Whose turn it is: threads with commas in between, each with '*N' for N steps
    #[arg(long, value_name = "TURNS", default_value = "")]
    schedule: String,
    /// End after so many events
    #[arg(long, value_name = "N", default_value_t = Plan::default().most_events, value_parser = super::generate::at_least_one)]
    events: usize,
}

/// Reads and compiles a program; what is wrong with it is said with the line and a caret.
pub fn compile(context: &Context, path: &Path) -> Result<Program, Failure> {
    let bytes = std::fs::read(path)
        .map_err(|error| format!("{}: cannot open: {}", path.display(), snag_formats::why(&error)))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{}: not UTF-8 text", path.display()))?;
    let file = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    // Locations are part of traces, whose columns are separated by bars.
    let location = file.replace(['|', '\n', '\r'], "_");
    snag_recipe_lang::compile(&location, &text).map_err(|mistake| {
        let shown = mistake.show(&path.display().to_string(), &text).to_string();
        let (first, rest) = shown.split_once('\n').unwrap_or((&shown, ""));
        context.error(first);
        rest.lines().for_each(|line| say::line(&printable(line)));
        Failure::Reported
    })
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<Status, Failure> {
    let program = compile(context, &args.program)?;
    let turns = Plan::parse_turns(&program, &args.schedule).map_err(|message| format!("--schedule: {message}"))?;
    let plan = Plan { turns, seed: args.seed, most_events: args.events };
    let run = snag_recipe_lang::run(&program, &plan).map_err(|message| format!("--schedule: {message}"))?;
    if run.trace.is_empty() {
        return Err(format!("{}: nothing happens that other threads can see", args.program.display()).into());
    }
    let path = args.output.as_deref().unwrap_or(Path::new("-"));
    let format = args.to.or((path == Path::new("-")).then_some(Format::Text));
    let mut writer = snag_formats::create(path, format, WriteOptions { compress: true })?;
    writer.write(&run.trace.events, &run.trace.tables).map_err(formats::writing)?;
    writer.finish(&run.trace.tables).map_err(formats::writing)?;
    for failure in &run.failures {
        context.warn(&format!("{}: thread {} fails: {}", failure.location, failure.thread, failure.message));
    }
    for (thread, place) in &run.stuck {
        context.warn(&format!("{place} (thread {thread} does not go on)"));
    }
    if run.cut_off {
        context.insist(&format!("the run was cut off after {} events; see --events", run.trace.len()));
    }
    Ok(Status::Clean)
}
