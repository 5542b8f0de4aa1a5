//! `snag stats`: what a trace consists of. Streams: the trace is not kept.

use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::input::{self, Source};
use crate::interrupt;
use crate::output::Output;
use clap::ValueEnum;
use snag_report::Style;
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
    let mut source = Source::open(context, &args.trace, None).map_err(|problem| input::message(&problem))?;
    let mut stats = Stats::new();
    source.stream(context, "reading", |events, tables| {
        stats.add(events, tables);
        Ok(())
    })?;
    let name = input::name(&args.trace);
    let mut output = Output::open(None)?;
    match args.format {
        Format::Text => {
            let style = Style { full: args.full, ..context.style(false) };
            snag_report::stats::text(&mut output, &style, &name, &stats, source.tables())?;
        }
        Format::Json => snag_report::stats::json(&mut output, &name, &stats, source.tables())?,
    }
    output.commit()?;
    Ok(Status::Clean)
}
