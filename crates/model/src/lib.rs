//! What a trace is: the law that everything else obeys.
//!
//! A [`Trace`] is a total order of events in dense columns ([`Events`]) together with the names its ids stand for
//! ([`Tables`]). The [`Validator`] holds the rules of a well-formed trace, [`Schedule`] and [`Level`] what a
//! reordering is and what its reads must see; `docs/model.md` states it all in prose. This crate does no input or
//! output: reading and writing belong to `snag-formats`, judging schedules to `snag-checker`.

mod action;
mod bits;
pub mod cells;
pub mod events;
pub mod expr;
mod fault;
pub mod ids;
pub mod names;
pub mod narrow;
pub mod op;
pub mod places;
pub mod pointers;
mod ranges;
mod reaches;
pub mod room;
mod schedule;
mod sparse;
pub mod stats;
pub mod symbolic;
pub mod tables;
mod thread_counts;
mod trace;
pub mod trees;
pub mod validate;

pub use action::{Action, Else, Fault, Mode, Primitive, Probe, Stale};
pub use cells::Cells;
pub use events::Events;
pub use fault::FaultKind;
pub use ids::*;
pub use names::Names;
pub use op::{MemoryOrder, Op, Ops};
pub use pointers::Pointers;
pub use room::Room;
pub use schedule::{Iter, Level, RaceKind, Rest, Schedule, Turns};
pub use sparse::SparseVector;
pub use tables::{Declarations, Namer, Space, Tables, Variable};
pub use thread_counts::ThreadCounts;
pub use trace::Trace;
pub use validate::{Rule, Validator};
