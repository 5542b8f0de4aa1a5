//! The command line: every command and the options that all share.

use crate::commands::{
    cargo, check, compare, compile, convert, explore, generate, models, pages, punch, record, replay, run, stats,
    trace, verify,
};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::num::NonZeroUsize;

/// Finds data races that a program can have, from one run in which they need not have happened.
#[derive(Parser)]
#[command(
    name = "snag",
    version,
    after_help = "Examples:
  snag run -- ./prog                       races of a program built with -fsanitize=thread
  snag check trace.std                     races in a trace, each with a schedule that proves it
  snag check --format json -o f.json t.std the same for machines
  snag verify t.std f.json                 check every proof again
  snag compare trace.std                   all engines side by side

Exit status: 0 nothing found, 1 races or deadlocks found, 2 error, 3 nothing found, but the program that was run failed.",
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// Options that every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options that every command takes.
#[derive(Args)]
pub struct Global {
    /// Print findings and errors only: no warnings, progress or summaries
    #[arg(short, long, global = true, help_heading = "Global options", conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more about what is done
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub verbose: bool,
    /// Use colours; auto also looks at NO_COLOR
    #[arg(long, global = true, help_heading = "Global options", value_name = "WHEN", default_value = "auto")]
    pub color: When,
    /// Show progress bars on a terminal
    #[arg(long, global = true, help_heading = "Global options", value_name = "WHEN", default_value = "auto")]
    pub progress: Bars,
    /// Threads to use [default: one per processor]
    #[arg(short, long, global = true, help_heading = "Global options", value_name = "N", value_parser = jobs)]
    pub jobs: Option<NonZeroUsize>,
    /// Most memory to use: 512M, 4G. Unless given, engines use what there is, and the names, comments and declarations of a trace,
    /// and what a recording has beside its events, take 512M; with 16 bytes more for each byte of the file
    #[arg(long, global = true, help_heading = "Global options", value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,
}

/// A number of bytes, with a letter for powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let shift = match text[end..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err("not a size such as 512M or 4G".to_owned()),
    };
    let number: u64 = text[..end].parse().map_err(|_| "not a size such as 512M or 4G".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "more than there can be".to_owned())
}

fn jobs(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "not a number of threads from 1 on".to_owned())
}

/// When to use colours.
#[derive(Clone, Copy, ValueEnum)]
pub enum When {
    /// On a terminal that shows them
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// When to show progress bars.
#[derive(Clone, Copy, ValueEnum)]
pub enum Bars {
    /// If standard error is a terminal
    Auto,
    /// Never
    Never,
}

impl Bars {
    /// Whether bars may be shown.
    pub fn is_auto(self) -> bool {
        matches!(self, Bars::Auto)
    }
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Run a program, predict races from what its threads did, and report them
    Run(run::Args),
    /// Run a program and write what its threads do as a trace
    Record(record::Args),
    /// Predict races on recorded or foreign traces
    Check(check::Args),
    /// Run every engine and show races, warnings, time and memory side by side
    Compare(compare::Args),
    /// Run a recorded program again: the same way, or up to a race
    Replay(replay::Args),
    /// Re-check every witness of a findings file with the independent checker alone
    Verify(verify::Args),
    /// Convert a trace between formats
    Convert(convert::Args),
    /// Count events, threads, locks, variables and operations of a trace
    Stats(stats::Args),
    /// Generate a synthetic well-formed trace
    Generate(generate::Args),
    /// Run a program in the small language and write what happens as a symbolic trace
    Trace(trace::Args),
    /// List the races, deadlocks and failures of a program in the small language, by trying everything
    Explore(explore::Args),
    /// Replace methods of a complete trace by calls of missing methods
    Punch(punch::Args),
    /// List what is known about libraries that are not instrumented
    Models(models::Args),
    /// Compile C for recording: the compiler with the right flags
    Cc(compile::Args),
    /// Compile C++ for recording
    #[command(name = "c++")]
    Cpp(compile::Args),
    /// Build a Rust program or its tests for recording, run and report: also 'cargo snag'
    Cargo(cargo::Args),
    /// Write man pages into a folder
    Man(pages::ManArgs),
    /// Print a completion script for a shell
    Completions(pages::CompletionArgs),
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_numbers_with_a_letter() {
        let mega = 1 << 20;
        for (text, bytes) in
            [("512M", 512 * mega), ("4g", 4096 * mega), ("2GiB", 2048 * mega), ("10", 10), ("1k", 1024)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "1.5G", "-1", "1 G", "4X", "99999999999999999999", "99999999T"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
