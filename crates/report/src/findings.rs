//! What every kind of report is made from.

use crate::background::Background;
use crate::confirm::Confirmations;
use crate::suppress::Suppressed;
use snag_model::Trace;
use snag_pipeline::Analysis;
use std::io;

/// Everything that is said about one trace.
#[derive(Clone, Copy)]
pub struct Findings<'a> {
    /// The trace as the user named it.
    pub path: &'a str,
    /// Its names, and its events if there is something to say about any of them.
    pub trace: &'a Trace,
    /// How many events it has.
    pub events: u64,
    /// What was found in it, without what was suppressed.
    pub analysis: &'a Analysis,
    /// What suppressions took away; `None` if there were no suppressions to apply.
    pub suppressed: Option<&'a [Suppressed]>,
    /// What is known beside its events.
    pub background: Option<&'a dyn Background>,
    /// What replays have shown; `None` if nothing was replayed.
    pub confirmations: Option<&'a Confirmations>,
    /// Says that there is no time to write more; what was written by then is a whole report all the same, which says how many
    /// findings are not in it.
    pub enough: &'a dyn Fn() -> bool,
}

impl Findings<'_> {
    /// Writes findings of one kind, with their numbers, as long as there is time. How many there was none for.
    pub(crate) fn each<T>(&self, items: &[T], mut write: impl FnMut(u64, &T) -> io::Result<()>) -> io::Result<u64> {
        for (number, item) in items.iter().enumerate() {
            if (self.enough)() {
                return Ok((items.len() - number) as u64);
            }
            write(number as u64 + 1, item)?;
        }
        Ok(0)
    }
}

/// A trace that could not be analysed. A report that leaves it out says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Unread {
    /// The trace as the user named it.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

/// One invocation's report, in whatever form: traces one by one, then the end.
pub trait Report {
    /// Writes what was found in the next trace.
    fn trace(&mut self, findings: &Findings) -> io::Result<()>;

    /// Ends the report; it is whole only after this. `unread` are the traces
    /// that the user named and that are missing above.
    fn finish(&mut self, unread: &[Unread]) -> io::Result<()>;
}
