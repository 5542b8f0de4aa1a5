//! How a command ends.

use crate::output::Unwritten;
use std::io;
use std::process::ExitCode;

/// The exit status, as documented for scripts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Status {
    /// Nothing found.
    Clean,
    /// Races or deadlocks found; for `verify`, a witness rejected.
    Found,
    /// Bad trace, bad usage, input or output that failed.
    Error,
    /// The status of the program that was run.
    Program(u8),
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(match status {
            Status::Clean => 0,
            Status::Found => 1,
            Status::Error => 2,
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

impl From<snag_trace::Error> for Failure {
    fn from(error: snag_trace::Error) -> Failure {
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
