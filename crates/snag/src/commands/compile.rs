//! `snag cc` and `snag c++`: the user's compiler, with what a recording needs.

use crate::context::Context;
use crate::failure::{Failure, Status};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Arguments of `snag cc` and `snag c++`.
#[derive(clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "The compiler is that of SNAG_CC or SNAG_CXX, or else gcc (g++) or clang (clang++), whichever is there.

Examples:
  snag cc -O2 prog.c -o prog -lpthread
  make CC='snag cc' CXX='snag c++'"
)]
pub struct Args {
    /// Arguments of the compiler
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// By this argument for the linker the runtime knows that no reads were left out.
pub const ALL_READS: &str = "-Wl,--defsym=__snag_all_reads=0";

/// What both compilers take.
const BOTH: [&str; 2] = ["-g", "-fsanitize=thread"];

/// gcc expands copies, fills and comparisons of a known size in place, uninstrumented.
const GCC: [&str; 8] = [
    "-fno-builtin-memset",
    "-fno-builtin-memcpy",
    "-fno-builtin-memmove",
    "-fno-builtin-memcmp",
    "-fno-builtin-strcpy",
    "-fno-builtin-strcmp",
    "-fno-builtin-strncmp",
    "-fno-builtin-strlen",
];

/// clang leaves out a read that a write to the same place follows, and accesses of 32 bytes.
const CLANG: [&str; 4] = ["-mllvm", "-tsan-instrument-read-before-write=1", "-mprefer-vector-width=128", ALL_READS];

/// Runs the compiler.
pub fn run(context: &Context, args: &Args, cpp: bool) -> Result<Status, Failure> {
    let (variable, names) = match cpp {
        false => ("SNAG_CC", ["gcc", "clang"]),
        true => ("SNAG_CXX", ["g++", "clang++"]),
    };
    let chosen = std::env::var_os(variable).filter(|name| !name.is_empty());
    let compiler =
        match chosen {
            Some(compiler) => compiler,
            None => names.into_iter().find(|name| version(&(*name).into()).is_some()).map(OsString::from).ok_or_else(
                || format!("there is neither {} nor {}; set {variable} to a compiler", names[0], names[1]),
            )?,
        };
    let Some(version) = version(&compiler) else {
        return Err(format!("{}: cannot be run as a compiler", compiler.display()).into());
    };
    let clang = version.contains("clang");
    // What the user says comes last and wins.
    let mut command = Command::new(&compiler);
    command.args(BOTH).args(if clang { &CLANG[..] } else { &GCC[..] });
    if clang {
        // Files that are only linked do not use the flags for compiling.
        command.arg("-Wno-unused-command-line-argument");
    }
    command.args(&args.arguments);
    context.detail(&format!("{command:?}"));
    // In our place: who sends us a signal means the compiler.
    Err(format!("{}: {}", compiler.display(), command.exec()).into())
}

fn version(compiler: &OsString) -> Option<String> {
    let output = Command::new(compiler).arg("--version").stderr(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
