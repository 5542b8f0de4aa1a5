//! Errors that say where and which rule.

use std::fmt;
use std::path::PathBuf;

/// Where in the input something is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position {
    /// A line of a text trace, from 1.
    Line(u64),
    /// A byte of a binary trace, from 0.
    Offset(u64),
    /// An event, from 0, where the format has no lines.
    Event(u64),
    /// The input as a whole.
    Whole,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::Line(n) => write!(f, "line {n}"),
            Position::Offset(n) => write!(f, "byte {n}"),
            Position::Event(n) => write!(f, "event {n}"),
            Position::Whole => write!(f, "input"),
        }
    }
}

/// Why a trace cannot be read.
#[derive(Debug)]
pub struct Error {
    /// The file, if it has a name.
    pub path: Option<PathBuf>,
    /// Where in it.
    pub position: Position,
    /// What is wrong, in a sentence fragment that names the rule.
    pub message: String,
}

/// Result of everything that reads a trace.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error at a position; the path is filled in by whoever opened the file.
    pub fn new(position: Position, message: impl Into<String>) -> Error {
        Error { path: None, position, message: message.into() }
    }

    /// The same error, naming its file.
    pub fn in_file(mut self, path: impl Into<PathBuf>) -> Error {
        self.path.get_or_insert_with(|| path.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        match self.position {
            Position::Whole => write!(f, "{}", self.message),
            position => write!(f, "{position}: {}", self.message),
        }
    }
}

impl std::error::Error for Error {}
