//! Between cargo and the compiler: what `cargo snag` keeps from build scripts.
//!
//! Cargo asks the compiler which settings hold and hands them to build scripts. Some crates leave out fences when they
//! hear of a sanitizer, because ThreadSanitizer does not know fences. Snag does, and a fence that is left out is a race by
//! memory order; so nothing is said of the sanitizer. What is compiled is compiled as it was asked for.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, ExitCode, Stdio};

/// Set where this program stands in for the compiler.
const MARK: &str = "SNAG_BEFORE_RUSTC";

/// The stand-in that the user has for the compiler himself.
const OTHER: &str = "SNAG_OTHER_WRAPPER";

/// Has cargo go through this program.
pub fn stand_between(cargo: &mut Command) {
    // Without a name for it, cargo says what it always says.
    let Ok(this) = std::env::current_exe() else { return };
    if let Some(other) = std::env::var_os("RUSTC_WRAPPER").filter(|other| !other.is_empty()) {
        cargo.env(OTHER, other);
    }
    cargo.env(MARK, "1").env("RUSTC_WRAPPER", this);
}

/// What the compiler does, if this program stands in for it.
pub fn compile() -> Option<ExitCode> {
    std::env::var_os(MARK)?;
    let mut command: Vec<OsString> = std::env::var_os(OTHER).into_iter().collect();
    command.extend(std::env::args_os().skip(1));
    let (program, arguments) = command.split_first()?;
    let mut compiler = Command::new(program);
    compiler.args(arguments);
    let done = match asks_for_settings(arguments) {
        true => filtered(&mut compiler),
        false => compiler.status().map(|status| status.code()),
    };
    Some(match done {
        Ok(code) => ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "snag: error: {}: {error}", program.display());
            ExitCode::from(2)
        }
    })
}

/// Whether the compiler is to print which settings hold.
fn asks_for_settings(arguments: &[OsString]) -> bool {
    let pair = |pair: &[OsString]| pair[0] == "--print" && pair[1] == "cfg";
    arguments.iter().any(|argument| argument == "--print=cfg") || arguments.windows(2).any(pair)
}

fn filtered(compiler: &mut Command) -> std::io::Result<Option<i32>> {
    let output = compiler.stdin(Stdio::inherit()).stderr(Stdio::inherit()).output()?;
    std::io::stdout().write_all(&without_sanitizer(&output.stdout))?;
    Ok(output.status.code())
}

/// The lines that say nothing of a sanitizer.
fn without_sanitizer(said: &[u8]) -> Vec<u8> {
    said.split_inclusive(|&byte| byte == b'\n')
        .filter(|line| !line.starts_with(b"sanitize="))
        .flatten()
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_said_of_the_sanitizer_is_left_out() {
        let said = b"debug_assertions\nsanitize=\"thread\"\ntarget_arch=\"x86_64\"\nunix\n";
        assert_eq!(without_sanitizer(said), b"debug_assertions\ntarget_arch=\"x86_64\"\nunix\n");
    }

    #[test]
    fn the_question_is_known_in_both_spellings() {
        let asks = |arguments: &[&str]| asks_for_settings(&arguments.iter().map(OsString::from).collect::<Vec<_>>());
        assert!(asks(&["-", "--print=cfg"]) && asks(&["--print", "cfg", "--target", "x"]));
        assert!(!asks(&["--print=sysroot"]) && !asks(&["--cfg", "print"]));
    }
}
