//! `snag stats`: what a trace consists of. Streams: the trace is not kept.

use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::input::{self, Source};
use crate::interrupt;
use crate::output::Output;
use clap::ValueEnum;
use snag_model::stats::Stats;
use snag_model::tables::Object;
use snag_model::{Action, Events, LocId};
use snag_report::Style;
use snag_report::stats::Named;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

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
    interrupt::listen(interrupt::Then::End)?;
    let mut source = Source::open(context, &args.trace, None).map_err(|problem| input::message(&problem))?;
    let mut stats = Stats::new();
    source.stream(context, "reading", |events, tables| {
        stats.add(events, tables);
        Ok(())
    })?;
    let mut named = Named::of(&stats, source.tables());
    // What was lost at the end has left names behind.
    if source.is_cut_off() && args.trace.is_file() {
        named = used(&args.trace)?;
    }
    let name = input::name(&args.trace);
    let mut output = Output::open(None)?;
    match args.format {
        Format::Text => {
            let style = Style { full: args.full, ..context.style(false) };
            snag_report::stats::text(&mut output, &style, &name, &stats, named, source.tables())?;
        }
        Format::Json => snag_report::stats::json(&mut output, &name, &stats, named, source.tables())?,
    }
    output.commit()?;
    Ok(Status::Clean)
}

/// What the events of a trace have to do with.
fn used(path: &Path) -> Result<Named, Failure> {
    let mut reader = snag_formats::open(path, None)?;
    let (mut locks, mut variables, mut locations) = (HashSet::new(), HashSet::new(), HashSet::new());
    let mut block = Events::new();
    loop {
        let more = reader.next_block(&mut block)?;
        for event in block.iter() {
            locations.insert(event.location);
            let action = event.action().if_it_happens();
            variables.extend(action.variable());
            locks.extend(action.lock().map(|(lock, _)| lock));
            if let Action::MethodBegin { reach, .. } = action {
                for object in reader.tables.reach_objects(reach) {
                    match object {
                        Object::Lock(lock) => _ = locks.insert(*lock),
                        Object::Variable(variable) => _ = variables.insert(*variable),
                        _ => {}
                    }
                }
            }
        }
        if !more {
            break;
        }
    }
    locations.remove(&LocId::NONE);
    let [locks, variables, locations] = [locks.len(), variables.len(), locations.len()].map(|count| count as u64);
    Ok(Named { locks, variables, locations })
}
