//! `snag run`: record, predict, report.

use crate::commands::check;
use crate::commands::record::{self, How};
use crate::context::Context;
use crate::failure::{Failure, Status};
use snag_recording::Ended;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

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

/// What to run and how.
pub struct Program<'a> {
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// How threads take turns.
    pub how: &'a How,
    /// Where to keep the trace.
    pub keep: Option<&'a Path>,
    /// Whether the result is the status of the program.
    pub exit_with_program: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<Status, Failure> {
    let Args { keep, exit_with_program, how, check, command } = args;
    let program = Program { command, how, keep: keep.as_deref(), exit_with_program: *exit_with_program };
    one(context, &program, check).map(|(status, _)| status)
}

/// Records and analyses a program. What was found, and whether the program itself failed.
pub fn one(context: &Context, program: &Program, check: &check::Analysis) -> Result<(Status, bool), Failure> {
    let temporary = std::env::temp_dir().join(format!("snag-{}.snag", std::process::id()));
    let result = record_and_check(context, program, check, program.keep.unwrap_or(&temporary));
    if program.keep.is_none() {
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

fn record_and_check(
    context: &Context,
    program: &Program,
    check: &check::Analysis,
    path: &Path,
) -> Result<(Status, bool), Failure> {
    let summary = record::record(context, program.command, program.how.settings(), path)?;
    if let Some(ending) = record::ending(summary.ended) {
        context.note(&ending);
    }
    context.note(&format!("recorded {}", record::size(&summary)));
    let found = check::analyse(context, check, &[path.to_owned()])?;
    let failed = summary.ended != Ended::Exit(0);
    match program.exit_with_program {
        true => Ok((record::exit_status(&summary), failed)),
        false => Ok((found, failed)),
    }
}
