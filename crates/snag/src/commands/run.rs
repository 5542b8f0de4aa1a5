//! `snag run`: record, predict, report.

use crate::commands::check;
use crate::commands::record::{self, How};
use crate::context::Context;
use crate::failure::{Failure, Status};
use std::ffi::OsString;
use std::path::PathBuf;

/// Options of `snag run`.
#[derive(clap::Args)]
#[command(after_help = "The program must be built for ThreadSanitizer: gcc -g -fsanitize=thread, or 'snag cc'.

Examples:
  snag run -- ./server --port 8080        races that this run could have had
  snag run --keep run.snag -- ./prog      keep the trace, to check or replay it again
  snag run --format json -o found.json -- ./prog

Exit status: 0 nothing found, 1 races or deadlocks found, 2 error; with --exit-with-program that of the program.")]
pub struct Args {
    /// Keep the trace in this file
    #[arg(long, value_name = "TRACE")]
    keep: Option<PathBuf>,
    /// Exit with the status of the program instead
    #[arg(long)]
    exit_with_program: bool,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    check: check::Analysis,
    /// The program and its arguments
    #[arg(value_name = "PROG", required = true, last = true)]
    command: Vec<OsString>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<Status, Failure> {
    let temporary = std::env::temp_dir().join(format!("snag-{}.snag", std::process::id()));
    let path = args.keep.clone().unwrap_or_else(|| temporary.clone());
    let result = record_and_check(context, args, &path);
    if args.keep.is_none() {
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

fn record_and_check(context: &Context, args: &Args, path: &PathBuf) -> Result<Status, Failure> {
    let summary = record::record(context, &args.command, args.how.settings(), path)?;
    if let Some(ending) = record::ending(summary.ended) {
        context.note(&ending);
    }
    context.note(&format!("recorded {}", record::size(&summary)));
    let found = check::analyse(context, &args.check, std::slice::from_ref(path))?;
    match args.exit_with_program {
        true => Ok(record::exit_status(&summary)),
        false => Ok(found),
    }
}
