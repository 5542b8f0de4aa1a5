//! Findings, printed.
//!
//! An engine computes, this crate prints: text for people ([`text`]), JSON
//! ([`json`], the contract of `docs/json.md`), SARIF ([`sarif`]) and a web page
//! ([`html`]), all from the same [`Findings`], trace by trace, to any
//! [`std::io::Write`]. Nothing here reads flags or the environment, and no
//! output is built in memory: a witness of ten million events is written as it is
//! walked.

pub mod background;
pub mod compare;
pub mod confirm;
pub mod describe;
pub mod digest;
pub mod findings;
pub mod html;
pub mod incomplete;
pub mod json;
pub mod live;
pub mod sarif;
pub mod stats;
pub mod suppress;
pub mod text;

mod cause;
mod columns;
mod emit;
mod frame;
mod number;
mod place;
mod story;
mod values;
mod witness;
mod words;

pub use background::{Background, Frame};
pub use confirm::{Confirmation, Confirmations};
pub use emit::VERSION;
pub use findings::{Findings, Report, Unread};
pub use suppress::{Suppressed, Suppressions};
pub use text::Style;
pub use witness::Witnesses;
pub use words::clean as printable;
