//! The command line of Snag.
//!
//! Parses flags and glues: reading is in `snag-formats`, prediction in
//! `snag-pipeline`, checking in `snag-checker`, printing in `snag-report`. This is
//! the only place that looks at flags, the terminal and the environment.
//!
//! Exit status: 0 nothing found, 1 races or deadlocks found (or, for `verify`, a
//! witness rejected), 2 error, 3 nothing found in a program that failed.

// Both panic if nobody reads.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod background;
mod cli;
mod commands;
mod confirm;
mod context;
#[cfg(unix)]
mod cut_off;
mod document;
mod failure;
mod formats;
mod input;
mod interrupt;
mod long;
mod output;
mod panic;
mod patient;
mod processes;
mod progress;
mod say;
mod secret;
mod signals;
mod survey;
mod temporary;
mod time;
mod tsan_options;
mod unsaid;
mod witness_claim;

use anstream::{AutoStream, ColorChoice};
use clap::Parser;
use clap::error::ErrorKind;
use cli::{Cli, Command};
use commands::*;
use context::Context;
use failure::{Failure, Status};
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = unsaid::compile() {
        return code;
    }
    panic::end_the_program();
    #[cfg(unix)]
    cut_off::expect();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let context = Context::new(&cli.global);
    let result = match cli.command {
        Command::Run(args) => run::run(&context, &args),
        Command::Record(args) => record::run(&context, &args),
        Command::Replay(args) => replay::run(&context, &args),
        Command::Check(args) => check::run(&context, &args),
        Command::Compare(args) => compare::run(&context, &args),
        Command::Verify(args) => verify::run(&context, &args),
        Command::Convert(args) => convert::run(&context, &args),
        Command::Stats(args) => stats::run(&context, &args),
        Command::Generate(args) => generate::run(&context, &args),
        Command::Trace(args) => trace::run(&context, &args),
        Command::Explore(args) => explore::run(&context, &args),
        Command::Punch(args) => punch::run(&context, &args),
        Command::Models(args) => models::run(&args),
        Command::Cc(args) => compile::run(&context, &args, false),
        Command::Cpp(args) => compile::run(&context, &args, true),
        Command::Cargo(args) => cargo::run(&context, args),
        Command::Man(args) => pages::man(&args),
        Command::Completions(args) => pages::completions(&args),
    };
    interrupt::leave_nothing_behind();
    let status = match result {
        Ok(status) => status,
        // Whoever read our output has seen enough.
        Err(Failure::OutputClosed(status)) => status,
        Err(Failure::Reported) => Status::Error,
        Err(Failure::Message(message)) => {
            context.error(&message);
            Status::Error
        }
    };
    say::everything();
    status.into()
}

/// Help and version go to standard output and are no error; anything else is bad usage.
fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            match error.print().and_then(|()| io::stdout().flush()).map_err(Failure::from) {
                // A closed pipe is no reason to complain.
                Ok(()) | Err(Failure::OutputClosed(_) | Failure::Reported) => Status::Clean.into(),
                Err(Failure::Message(message)) => {
                    say::line(&format!("snag: error: {message}"));
                    Status::Error.into()
                }
            }
        }
        _ => {
            let text = error.render();
            let prefix = if text.to_string().starts_with("error") { "snag: " } else { "" };
            let shown = match AutoStream::choice(&io::stderr()) {
                ColorChoice::Never => text.to_string(),
                _ => text.ansi().to_string(),
            };
            say::text(format!("{prefix}{shown}"));
            Status::Error.into()
        }
    }
}
