//! `snag stats`: what a trace consists of. Streams: the trace is not kept.

use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::output::Output;
use crate::{input, interrupt};
use clap::ValueEnum;
use snag_predict::Progress;
use snag_report::Style;
use snag_trace::Events;
use snag_trace::stats::Stats;
use std::path::PathBuf;

/// Options of `snag stats`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  snag stats trace.std
  snag stats --format json trace.std")]
pub struct Args {
    /// The trace; - is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Form of the counts
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// List all threads, however many there are
    #[arg(long)]
    full: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For scripts: docs/json.md
    Json,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<Status, Failure> {
    interrupt::listen()?;
    let mut reader = input::open(&args.trace)?;
    let mut stats = Stats::new();
    let mut events = Events::new();
    let bars = context.bars();
    bars.phase("reading", 0);
    while reader.next_block(&mut events)? {
        stats.add(&events, &reader.tables);
        bars.advance(stats.events);
        if interrupt::interrupted() {
            return Err(Failure::Message(format!("{}: interrupted while it was read", input::name(&args.trace))));
        }
    }
    bars.clear();
    let name = input::name(&args.trace);
    for warning in reader.take_warnings() {
        context.warn(&format!("{name}: {warning}"));
    }
    let mut output = Output::open(None)?;
    match args.format {
        Format::Text => {
            let style = Style { full: args.full, ..context.style(false) };
            snag_report::stats::text(&mut output, &style, &name, &stats, &reader.tables)?;
        }
        Format::Json => snag_report::stats::json(&mut output, &name, &stats, &reader.tables)?,
    }
    output.commit()?;
    Ok(Status::Clean)
}
