//! Which command a replay runs: not just any that a file names.

use crate::{say, secret};
use snag_recorder::Recorded;
use snag_recorder::recorder::{find_program, has_digest};
use snag_recorder::seal::Sealed;
use snag_report::printable;
use std::ffi::OsString;
use std::path::Path;

/// The command to run: the one that was given, or the recorded one if the recording was made here by this user or is trusted.
pub fn to_run(trace: &Path, recorded: &Recorded, given: &[OsString], trust: bool) -> Result<Vec<OsString>, String> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    let command: Vec<OsString> = recorded.command().into_iter().map(OsString::from).collect();
    if command.is_empty() {
        return Err(format!("{}: the recording names no command; give it after --", trace.display()));
    }
    if trust {
        return Ok(command);
    }
    let seal = secret::known_seal();
    let why = match seal.as_ref().map(|seal| recorded.sealed(seal)) {
        Ok(Sealed::Here) => match what_differs(recorded, &command) {
            None => return Ok(command),
            Some(what) => what,
        },
        Ok(Sealed::Elsewhere) => "it was not made by this user on this machine, or was changed".to_owned(),
        Ok(Sealed::Never) => "nothing says that it was made by this user on this machine".to_owned(),
        Err(why) => format!("nothing can tell whether it was made by this user on this machine ({why})"),
    };
    Err(format!(
        "{}: not replayed: {why}. It would run: {}. If that is all right, add --trust, or give the command again after --",
        trace.display(),
        shown(&command)
    ))
}

/// What is not as it was when this user ran the command: then it may do something else. Names that are arguments, or in what the program
/// reads, mean other files in another folder; so does that of the program, which may also have been replaced.
fn what_differs(recorded: &Recorded, command: &[OsString]) -> Option<String> {
    let then = recorded.about("folder").map(Path::new);
    if then.is_none() || std::env::current_dir().ok().as_deref() != then {
        let then = then.map_or("an unknown folder".to_owned(), |then| then.display().to_string());
        return Some(format!("it was recorded in {then}, and here names may mean other files"));
    }
    // If there is none now, none is run.
    let now = find_program(Path::new(&command[0])).and_then(|program| program.canonicalize().ok())?;
    if recorded.about("program").is_none_or(|then| Path::new(then) != now) {
        return Some(format!("{} is not the program here that was recorded", shown(&command[..1])));
    }
    let same = recorded.about("digest").is_some_and(|then| has_digest(&now, then));
    (!same).then(|| format!("{} has changed since it was recorded", shown(&command[..1])))
}

/// Says what is going to be run, whoever wants to hear little.
pub fn announce(command: &[OsString]) {
    let folder = std::env::current_dir().unwrap_or_default();
    say::line(&format!("snag: running {} in {}", printable(&shown(command)), printable(&folder.to_string_lossy())));
}

/// A command as one would type it.
fn shown(command: &[OsString]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    let quote = |argument: &OsString| match argument.to_string_lossy() {
        text if !text.is_empty() && text.chars().all(plain) => text.into_owned(),
        text => format!("'{}'", text.replace('\'', "'\\''")),
    };
    command.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_one_would_type_them() {
        let command = ["./prog", "-n", "1", "two words", "", "it's", "$(reboot)"].map(OsString::from);
        assert_eq!(shown(&command), r"./prog -n 1 'two words' '' 'it'\''s' '$(reboot)'");
    }
}
