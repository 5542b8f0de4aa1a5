//! How a command ends.

use std::io;
use std::process::ExitCode;

/// The exit status, as documented for scripts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Status {
    /// Nothing found.
    Clean = 0,
    /// Races or deadlocks found; for `verify`, a witness rejected.
    Found = 1,
    /// Bad trace, bad usage, input or output that failed.
    Error = 2,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(status as u8)
    }
}

/// Why a command did not come to its end.
#[derive(Debug)]
pub enum Failure {
    /// What to tell the user.
    Message(String),
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
            _ => Failure::Message(format!("cannot write: {error}")),
        }
    }
}
