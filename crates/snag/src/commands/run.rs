//! `snag run`: record, predict, report.

use crate::commands::check;
use crate::commands::record::{self, How};
use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::interrupt::{self, Doing, Then};
use crate::temporary::Temporary;
use crate::tsan_options::TsanOptions;
use snag_recorder::{Ended, Prints, Unrecorded};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Options of `snag run`.
#[derive(clap::Args)]
#[command(after_help = "The program must be built for ThreadSanitizer: gcc -g -fsanitize=thread, or 'snag cc'.

Examples:
  snag run -- ./server --port 8080        races that this run could have had
  snag run --keep run.snag -- ./prog      keep the trace, to check or replay it again
  snag run --confirm -- ./prog            run it again for each finding, up to there
  snag run --format json -o found.json -- ./prog
  snag run --format json -- ./prog | jq . what the program prints goes to standard error then

Exit status: 0 nothing found, 1 races or deadlocks found, 2 error, 3 nothing found, but the program failed: its status was
not 0, or it died of a signal. With --exit-with-program instead of 0 and 3 that of the program, 128 + the signal if it died
of one; a program that could not be recorded is an error all the same.
If the analysis fails after the program has run, the trace is kept, and its name is said.
Of TSAN_OPTIONS, suppressions, exitcode, log_path, halt_on_error and report_bugs have their meaning.")]
pub struct Args {
    /// Keep the trace in this file
    #[arg(long, value_name = "TRACE")]
    keep: Option<PathBuf>,
    /// If nothing is found, exit with the status of the program
    #[arg(long)]
    exit_with_program: bool,
    /// Drive the program to each finding in a run of its own, and say which of them are confirmed; what it prints then is not
    /// shown
    #[arg(long, conflicts_with = "free_running")]
    confirm: bool,
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
    /// Whether the result is the status of the program if nothing was found.
    pub exit_with_program: bool,
    /// Whether it is run again for each finding.
    pub confirm: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<Status, Failure> {
    let Args { keep, exit_with_program, confirm, how, check, command } = args;
    let (keep, exit_with_program, confirm) = (keep.as_deref(), *exit_with_program, *confirm);
    let program = Program { command, how, keep, exit_with_program, confirm };
    one(context, &program, check)
}

/// Records and analyses a program.
pub fn one(context: &Context, program: &Program, check: &check::Analysis) -> Result<Status, Failure> {
    interrupt::listen(Then::Report)?;
    let tsan = TsanOptions::of_environment(context);
    let check = &check.or(&tsan);
    if let Some(keep) = program.keep {
        record::can_be_recording(keep)?;
        let same = |file: &Path| {
            file == keep || keep.canonicalize().is_ok_and(|keep| file.canonicalize().is_ok_and(|file| file == keep))
        };
        if check.file().is_some_and(same) {
            return Err(format!("{}: the report would replace the trace", keep.display()).into());
        }
    }
    let mut worth_keeping = false;
    if let Some(keep) = program.keep {
        let result = record_and_check(context, program, check, keep, &mut worth_keeping);
        if worth_keeping {
            context.insist(&format!("the trace is kept in {}", keep.display()));
        }
        return result;
    }
    let temporary = Temporary::new(&program.command[0])?;
    let result = record_and_check(context, program, check, &temporary.path(), &mut worth_keeping);
    if worth_keeping {
        match temporary.keep("snag-", ".snag") {
            Ok(path) => context.insist(&format!("the trace is kept in {}", path.display())),
            Err(error) => context.insist(&format!("the trace cannot be kept: {error}")),
        }
    }
    result
}

/// `worth_keeping` is set if there is a recording and its analysis failed: the run need not be repeated for another one.
fn record_and_check(
    context: &Context,
    program: &Program,
    check: &check::Analysis,
    path: &Path,
    worth_keeping: &mut bool,
) -> Result<Status, Failure> {
    // What is wrong with the options is said before the program has run for an hour.
    let prepared = check.prepare_for_recording()?.confirming(program.confirm.then_some(program.command));
    let prints = if check.owns_stdout() { Prints::ToStandardError } else { Prints::AsWeDo };
    let summary = match record::record(context, program.command, program.how.settings(), prints, path) {
        Ok(summary) => summary,
        // Also with --exit-with-program: the program's own status would say that nothing was found where nobody has looked.
        Err(Unrecorded { message, ended }) => {
            if let Some(ending) = ended.and_then(record::ending) {
                context.note(&ending);
            }
            return Err(message.into());
        }
    };
    if let Some(ending) = record::ending(summary.ended).filter(|_| !summary.deadlocked) {
        context.note(&ending);
    }
    context.note(&format!("recorded {}", record::size(&summary)));
    interrupt::doing(Doing::Reading);
    let tsan = &TsanOptions::after(context, &summary.wishes.options);
    let with_built_in = check.with_built_in(tsan);
    let found = match tsan.silent {
        true => Ok(Status::Clean),
        false => prepared
            .with_wishes(&with_built_in, &summary.wishes.suppressions)
            .and_then(|prepared| prepared.analyse(context, &[path.to_owned()])),
    };
    let is_whole = record::is_whole(&summary);
    *worth_keeping = !is_whole || matches!(found, Ok(Status::Error) | Err(Failure::Message(_) | Failure::Reported));
    let ended = match (summary.ended, program.exit_with_program) {
        (ended, true) => record::exit_status(ended),
        (Ended::Exit(0), false) => Status::Clean,
        (_, false) => Status::ProgramFailed,
    };
    let all = |found: Status| if is_whole { found.and(ended) } else { found.and(ended).and(Status::Error) };
    let and_so = |found: Status| match (all(found), tsan.exit_code) {
        (Status::Found, Some(0)) => record::exit_status(summary.ended),
        (Status::Found, Some(code)) => Status::Program(code),
        (status, _) => status,
    };
    match found {
        Ok(found) => Ok(and_so(found)),
        Err(Failure::OutputClosed(found)) => Err(Failure::OutputClosed(and_so(found))),
        Err(failure) => Err(failure),
    }
}
