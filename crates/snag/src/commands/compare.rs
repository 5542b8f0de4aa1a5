//! `snag compare`: every engine side by side.

use crate::commands::incomplete;
use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::output::Output;
use crate::survey::{self, Job};
use clap::ValueEnum;
use snag_pipeline::{Choice, ENGINES, Options, Settings};
use snag_report::Style;
use snag_report::compare::{Json, Table};
use std::path::PathBuf;

/// Options of `snag compare`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  snag compare trace.std
  snag compare --format json a.std b.std
  snag compare --incomplete full.stx holes.stx   what holes in a trace do to each engine

Exit status: 0 nothing proved, 1 an engine proved a race or deadlock, 2 error.")]
pub struct Args {
    /// Traces to analyse; - is standard input
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// Take the first of two traces as the truth and the second as the same with holes ('snag punch'): true races, false
    /// alarms and missed races of hb, cp and mc, which know nothing of missing methods, and of sb and rdit
    #[arg(long)]
    incomplete: bool,
    /// Form of the table
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
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
    if args.incomplete {
        let [full, punched] = &args.traces[..] else {
            return Err("--incomplete compares two traces: the complete one, then the one with holes"
                .to_owned()
                .into());
        };
        return incomplete::run(context, full, punched, args.format == Format::Json);
    }
    let style = Style { headings: args.traces.len() > 1, ..context.style(false) };
    // Every engine by its own relation, as in the tables of the papers.
    let settings = Settings { jobs: context.jobs, all: true, anew: true, ..Settings::default() };
    let engines = ENGINES.iter().copied().map(Choice::Engine).collect();
    let options = Options { engines, settings, spurious: true, ..Options::default() };
    let job = Job {
        traces: &args.traces,
        options,
        one_by_one: true,
        suppressions: None,
        globals: Vec::new(),
        whole: u64::MAX,
        source_roots: &[],
        strict: false,
        confirm: None,
    };
    survey::run(context, &job, Output::open(None)?, |out| match args.format {
        Format::Text => Box::new(Table::new(out, style)),
        Format::Json => Box::new(Json::new(out)),
    })
}
