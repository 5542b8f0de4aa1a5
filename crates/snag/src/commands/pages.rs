//! `snag man` and `snag completions`: made from the command line's own description.

use crate::cli::Cli;
use crate::failure::{Failure, Status};
use crate::output::Output;
use clap::CommandFactory;
use std::path::PathBuf;

/// Options of `snag man`.
#[derive(clap::Args)]
#[command(after_help = "Example:
  snag man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Folder to write snag.1, snag-check.1 and so on into
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Options of `snag completions`.
#[derive(clap::Args)]
#[command(after_help = "Example:
  snag completions bash > ~/.local/share/bash-completion/completions/snag")]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: clap_complete::Shell,
}

/// Writes the man pages.
pub fn man(args: &ManArgs) -> Result<Status, Failure> {
    let dir = args.dir.display();
    std::fs::create_dir_all(&args.dir).map_err(|error| format!("{dir}: cannot create: {error}"))?;
    clap_mangen::generate_to(Cli::command(), &args.dir).map_err(|error| format!("{dir}: cannot write: {error}"))?;
    Ok(Status::Clean)
}

/// Prints the script.
pub fn completions(args: &CompletionArgs) -> Result<Status, Failure> {
    // The generator panics if it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "snag", &mut script);
    let mut output = Output::open(None)?;
    std::io::Write::write_all(&mut output, &script)?;
    output.commit()?;
    Ok(Status::Clean)
}
