//! `cargo snag`: build a Rust program or its tests for recording, run them, report.

use crate::commands::record::How;
use crate::commands::run::{self, Program};
use crate::commands::{check, compile};
use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::interrupt::{self, Doing, Then};
use crate::{processes, unsaid};
use clap::ValueEnum;
use serde::Deserialize;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Arguments of `cargo snag`.
#[derive(clap::Args)]
#[command(
    after_help = "Options of snag come before the command, those of cargo after it, those of the program after --.
No nightly toolchain and no sources of the standard library are needed.

Examples:
  cargo snag run                                 races that this run could have had
  cargo snag run --bin server -- --port 8080
  cargo snag test --lib -- queue::               the tests of the library whose names contain queue::
  cargo snag --seed 7 --keep t.snag test --test stress
  snag replay t.snag --race R1                   make it happen

Exit status: 0 nothing found, 1 races or deadlocks found, 2 error, 3 nothing found, but the program or a test failed.
Of several test programs: 2 if there was an error with one, else 1 if something was found in one, else 3 if one failed."
)]
pub struct Args {
    /// Keep the trace in this file; for one program. So is a report in a file (-o)
    #[arg(long, value_name = "TRACE")]
    keep: Option<PathBuf>,
    /// Drive the program to each finding in a run of its own, and say which of them are confirmed; what it prints then is not
    /// shown
    #[arg(long, conflicts_with = "free_running")]
    confirm: bool,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    check: check::Analysis,
    /// What cargo should do
    #[arg(value_name = "COMMAND")]
    what: What,
    /// Arguments of cargo, and after -- those of the program
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Build a program and run it
    Run,
    /// Build tests and run them
    Test,
    /// Only build, and say where the programs are
    Build,
}

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A line of what cargo says about what it builds.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    profile: Option<Profile>,
}

/// How it was built.
#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: Args) -> Result<Status, Failure> {
    // Tests are run in the folders of their packages, but files are named from here.
    let keep = args.keep.map(absolute).transpose()?;
    let args = &Args { keep, check: args.check.seen_from_here()?, ..args };
    let (for_cargo, for_program) = split(args);
    interrupt::listen(Then::End)?;
    interrupt::doing(Doing::Build);
    let built = build(args.what, for_cargo);
    interrupt::doing(Doing::Work);
    if interrupt::asked() {
        return Err("interrupted while cargo built it".to_owned().into());
    }
    let built = built?;
    let programs: Vec<_> = built.iter().filter(|(program, _)| is_for_target(program)).collect();
    if let Some((skipped, _)) = built.iter().find(|(program, _)| !is_for_target(program)) {
        context.note(&format!("{}: not recorded, as it is part of the compiler", skipped.display()));
    }
    if args.what == What::Build {
        for (program, _) in &programs {
            writeln!(io::stdout(), "{}", program.display())?;
        }
        return Ok(Status::Clean);
    }
    if programs.is_empty() {
        return Err("cargo has built nothing that can be run".to_owned().into());
    }
    let one_file = match (&args.keep, args.check.file()) {
        (Some(_), _) => Some("--keep: the trace of each would replace that of the one before"),
        (None, Some(_)) => Some("-o: the report on each would replace that on the one before"),
        (None, None) => (args.what == What::Run).then_some("one of them can be run"),
    };
    if let Some(why) = one_file.filter(|_| programs.len() > 1) {
        let names: Vec<_> = programs.iter().map(|(program, _)| program.display().to_string()).collect();
        let names = names.join(", ");
        return Err(
            format!("there are several programs; {why}; choose one with --bin, --test or --lib: {names}").into()
        );
    }
    let mut status = Status::Clean;
    for (program, folder) in programs {
        if interrupt::asked() {
            context.error(&format!("{}: interrupted before it was run", program.display()));
            status = status.and(Status::Error);
            continue;
        }
        let mut command = vec![program.clone().into_os_string()];
        command.extend(for_program.iter().cloned());
        if args.what == What::Test {
            context.note(&format!("testing {}", program.display()));
            // As cargo does.
            let _ = std::env::set_current_dir(folder);
        }
        let program = Program {
            command: &command,
            how: &args.how,
            keep: args.keep.as_deref(),
            exit_with_program: false,
            confirm: args.confirm,
        };
        // What is wrong with one does not keep the others from being tested.
        status = status.and(match run::one(context, &program, &args.check) {
            Ok(status) => status,
            Err(Failure::Message(message)) => {
                context.error(&message);
                Status::Error
            }
            Err(Failure::Reported) => Status::Error,
            Err(Failure::OutputClosed(found)) => return Err(Failure::OutputClosed(status.and(found))),
        });
    }
    Ok(status)
}

/// The same file, whatever folder is the current one by then.
fn absolute(path: PathBuf) -> Result<PathBuf, String> {
    std::path::absolute(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// What is for cargo and what for the program.
fn split(args: &Args) -> (&[OsString], &[OsString]) {
    let all = &args.arguments;
    let at = all.iter().position(|argument| argument == "--").unwrap_or(all.len());
    (&all[..at], all.get(at + 1..).unwrap_or_default())
}

/// Tests of macros are run by the compiler, and are not instrumented.
fn is_for_target(program: &Path) -> bool {
    program.components().any(|part| part.as_os_str() == TARGET)
}

/// Has cargo build; the programs, and the folders of their packages.
fn build(what: What, arguments: &[OsString]) -> Result<Vec<(PathBuf, PathBuf)>, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(&cargo);
    match what {
        What::Test => command.args(["test", "--no-run"]),
        What::Run | What::Build => command.arg("build"),
    };
    command.args(["--message-format=json-render-diagnostics", "--target", TARGET]).args(arguments);
    // -Z on a stable compiler.
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", flags()?).env_remove("CARGO_ENCODED_RUSTFLAGS");
    command.env(processes::BUILD, std::process::id().to_string());
    unsaid::stand_between(&mut command);
    for profile in ["DEV", "RELEASE"] {
        // Names and lines, and symbols to find the runtime by.
        command
            .env(format!("CARGO_PROFILE_{profile}_DEBUG"), "2")
            .env(format!("CARGO_PROFILE_{profile}_STRIP"), "none");
    }
    let shown = cargo.display();
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("{shown}: {error}"))?;
    let mut built = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
        let line = line.map_err(|error| format!("{shown}: {error}"))?;
        let Ok(message) = serde_json::from_str::<Message>(&line) else { continue };
        // Tests of a package that has programs and examples come with these.
        let is_wanted = what != What::Test || message.profile.is_some_and(|profile| profile.test);
        if let (true, Some(program), Some(manifest)) = (is_wanted, message.executable, message.manifest_path) {
            built.push((program, manifest.parent().unwrap_or(Path::new(".")).to_owned()));
        }
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(built),
        _ => Err("cargo could not build it".to_owned().into()),
    }
}

/// The user's flags and ours.
fn flags() -> Result<OsString, Failure> {
    let mut flags = std::env::var_os("RUSTFLAGS").unwrap_or_default();
    flags.push(" -Zsanitizer=thread -Cllvm-args=-tsan-instrument-read-before-write=1 -Clink-arg=");
    flags.push(compile::ALL_READS);
    // Newer compilers insist that we know that the standard library is built without.
    const MIXED: &str = "-Cunsafe-allow-abi-mismatch=sanitizer";
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let knows = |flag: &str| {
        let mut command = Command::new(&rustc);
        command
            .args(["--print", "target-libdir", "--target", TARGET, "-Zsanitizer=thread"])
            .args((!flag.is_empty()).then_some(flag));
        let output = command.env("RUSTC_BOOTSTRAP", "1").stdout(Stdio::null()).stderr(Stdio::null()).status();
        output.is_ok_and(|status| status.success())
    };
    if knows(MIXED) {
        flags.push(" ");
        flags.push(MIXED);
    } else if !knows("") {
        return Err(format!(
            "{} cannot compile for {TARGET} with -Zsanitizer=thread; programs can be recorded only on Linux on x86-64",
            rustc.display()
        )
        .into());
    }
    Ok(flags)
}
