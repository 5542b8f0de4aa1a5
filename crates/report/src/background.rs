//! What is known about a trace beside its events, if it was recorded.

use snag_model::{EventId, ThreadId, Trace};

/// A function that a thread was in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its name, or empty.
    pub function: String,
    /// Where in it, as `path:line:column` where that is known.
    pub place: String,
}

impl Frame {
    /// Whether it belongs to the program itself, not to a library of its language.
    pub fn is_own(&self) -> bool {
        !self.place.starts_with("library/") && !self.place.starts_with("/usr/include/")
    }

    /// Those that belong to the program itself; all if there are none.
    pub fn own(frames: Vec<Frame>) -> Vec<Frame> {
        match frames.iter().any(Frame::is_own) {
            true => frames.into_iter().filter(Frame::is_own).collect(),
            false => frames,
        }
    }
}

/// Answers questions about events and threads.
pub trait Background {
    /// The functions that the event's thread was in, innermost first; empty if unknown.
    fn stack(&self, trace: &Trace, event: EventId) -> Vec<Frame>;

    /// What the memory that an event accesses is, as a sentence: `counter is a variable of 4 bytes`.
    fn memory(&self, trace: &Trace, event: EventId) -> Option<String>;

    /// Where a thread comes from, as a sentence, and the functions that created it if that says more.
    fn thread(&self, trace: &Trace, thread: ThreadId) -> Option<(String, Vec<Frame>)>;

    /// A line of the program's source.
    fn source(&self, path: &str, line: u64) -> Option<String>;
}
