//! Records programs that were built for ThreadSanitizer.
//!
//! [`Recorder`] starts the program with our runtime in the place of ThreadSanitizer's. The two processes share a ring of
//! memory ([`wire`]); what the program puts there is translated into events of the model ([`translate`]), with the names
//! of places, variables and locks ([`symbols`]), and written as a `.snag` trace while the program runs. A program that
//! dies, however it dies, leaves all it has done. What the model has no place for, stacks above all, is written beside
//! the events and read again by [`Recorded`].

pub mod beside;
pub mod code;
mod functions;
mod futex;
mod hash;
pub mod layout;
pub mod recorded;
pub mod recorder;
pub mod replay;
mod rewriting;
pub mod ring;
pub mod runtime;
pub mod seal;
pub mod selection;
pub mod sources;
pub mod standing;
pub mod symbols;
pub mod translate;
pub mod unfollowed;
mod unknown;
mod unrecorded;

pub use recorded::{Frame, Recorded};
pub use recorder::{Ended, Options, Prints, Recorder, Summary, Unrecorded, Wishes};
pub use snag_wire as wire;
pub use sources::Sources;
