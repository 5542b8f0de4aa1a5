//! Snag's own text format: STD with a header, made for people to write and read every event of the model by hand.
//!
//! Guarantees: there is exactly one way to write each event, so a trace that was read is written again byte for byte,
//! also by way of `.snag`; comments, blank lines and the order of the directives are kept; whatever is not in the
//! grammar is an error with its line number. The grammar, with an example of every event, is in `docs/formats.md`.
//!
//! ```text
//! %snag 1
//! %semaphore s 3
//! # a comment
//! main|fork(T1)|main.c:10
//! T1|w(x)=3|worker.c:7
//! T1|method-begin(strtok,{x,0x7f00:8,lock:l,thread:main})|worker.c:8
//! ```

mod read;
mod spelling;
mod write;

pub use read::TextReader;
pub(crate) use read::object;
pub use spelling::{is_bare, spelled};
pub use write::TextWriter;

/// The first line of every trace in this format.
pub const FIRST_LINE: &str = "%snag 1";

/// Whether `line` may stand between the events: it is blank or starts with `#`, and does not end in a carriage return.
pub fn is_comment(line: &str) -> bool {
    !line.contains('\n')
        && !line.ends_with('\r')
        && (line.starts_with('#') || line.chars().all(|c| matches!(c, ' ' | '\t')))
}

/// The directives, in the order in which they are written unless the trace was read from a text with another order.
///
/// Where directives and comments alternate, or the directives have another order, [`snag_model::Tables::comments`] holds a
/// marker for every directive among the comments before event 0: its first word alone, meaning that the next
/// declaration of that kind stands here. No comment looks like that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Directive {
    Lock = 0,
    Semaphore = 1,
    Barrier = 2,
    Init = 3,
}

impl Directive {
    pub(crate) const ALL: [Directive; 4] = [Directive::Lock, Directive::Semaphore, Directive::Barrier, Directive::Init];

    /// Its first word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Directive::Lock => "%lock",
            Directive::Semaphore => "%semaphore",
            Directive::Barrier => "%barrier",
            Directive::Init => "%init",
        }
    }

    /// The directive with this first word.
    pub(crate) fn by_word(word: &str) -> Option<Directive> {
        Directive::ALL.into_iter().find(|d| d.word() == word)
    }
}

/// Whether a text among the comments before event 0 is the marker of a directive.
pub(crate) fn is_marker(text: &str) -> bool {
    Directive::by_word(text).is_some()
}
