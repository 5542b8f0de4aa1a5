//! How a command ends.

use crate::output::Unwritten;
use std::io;
use std::process::ExitCode;

/// The exit status, as documented for scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Nothing found.
    Clean,
    /// Races or deadlocks found; for `verify`, a witness rejected.
    Found,
    /// Bad trace, bad usage, input or output that failed.
    Error,
    /// Nothing found, but the program that was run failed: its status was not 0, or it died of a signal.
    ProgramFailed,
    /// The status of the program that was run.
    Program(u8),
}

impl Status {
    /// Of two statuses the one to end with. An error comes first, as there may be more than what was found; then what was found;
    /// then a program that failed.
    pub fn and(self, other: Status) -> Status {
        let rank = |status: &Status| match status {
            Status::Clean | Status::Program(0) => 0,
            Status::ProgramFailed | Status::Program(_) => 1,
            Status::Found => 2,
            Status::Error => 3,
        };
        std::cmp::max_by_key(other, self, rank)
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(match status {
            Status::Clean => 0,
            Status::Found => 1,
            Status::Error => 2,
            Status::ProgramFailed => 3,
            Status::Program(code) => code,
        })
    }
}

/// Why a command did not come to its end.
#[derive(Debug)]
pub enum Failure {
    /// What to tell the user.
    Message(String),
    /// The user was told already.
    Reported,
    /// Nobody reads our output any more: end quietly, with the status as far as it is known.
    OutputClosed(Status),
}

impl Failure {
    /// The same, with what is known about the status by now.
    pub fn with_status(self, status: Status) -> Failure {
        match self {
            Failure::OutputClosed(_) => Failure::OutputClosed(status),
            message => message,
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Message(message)
    }
}

impl From<snag_formats::Error> for Failure {
    fn from(error: snag_formats::Error) -> Failure {
        Failure::Message(error.to_string())
    }
}

/// Only writing makes bare I/O errors; whatever reads names its file.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed(Status::Clean),
            _ if error.get_ref().is_some_and(|inner| inner.is::<Unwritten>()) => Failure::Message(error.to_string()),
            _ => Failure::Message(format!("cannot write: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_before_findings_and_these_before_a_program_that_failed() {
        let ranked = [Status::Clean, Status::ProgramFailed, Status::Found, Status::Error];
        for (i, a) in ranked.into_iter().enumerate() {
            for (j, b) in ranked.into_iter().enumerate() {
                assert_eq!(a.and(b), ranked[i.max(j)], "{a:?} {b:?}");
            }
        }
        // The program's own status comes only from where nothing was found.
        assert_eq!(Status::Clean.and(Status::Program(7)), Status::Program(7));
        assert_eq!(Status::Found.and(Status::Program(7)), Status::Found);
        assert_eq!(Status::Error.and(Status::Program(7)), Status::Error);
    }
}
