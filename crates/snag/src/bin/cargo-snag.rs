//! `cargo snag …` is `snag cargo …`.

#![deny(clippy::print_stderr, clippy::print_stdout)]

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let own = arguments.next().unwrap_or_default();
    // Called by cargo, the first argument is the name of the command.
    let arguments =
        arguments.enumerate().filter(|(i, argument)| *i != 0 || argument != "snag").map(|(_, argument)| argument);
    let beside = std::env::current_exe().unwrap_or_else(|_| own.into()).with_file_name("snag");
    let snag = if beside.is_file() { beside.as_path() } else { Path::new("snag") };
    // In our place: who sends us a signal means it.
    let error = Command::new(snag).arg("cargo").args(arguments).exec();
    // Nobody may be there to read it.
    let _ = writeln!(io::stderr(), "cargo-snag: {}: {error}", snag.display());
    ExitCode::from(2)
}
