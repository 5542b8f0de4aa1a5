//! Traces of multithreaded programs.
//!
//! A [`Trace`] is a total order of events in dense columns ([`Events`]) together
//! with the names its ids stand for ([`Tables`]). Readers produce both block by
//! block, so that a trace can be streamed, or kept whole in memory at about
//! eleven bytes an event. Whatever is read passes the [`Validator`]: nothing
//! above this crate ever sees a trace that breaks the rules of the model.

mod bits;
pub mod calls;
pub mod cells;
pub mod compression;
pub mod condense;
pub mod error;
pub mod events;
pub mod exercise;
pub mod expr;
pub mod generate;
pub mod globals;
pub mod ids;
pub mod lines;
pub mod names;
mod narrow;
pub mod op;
pub mod open;
mod places;
pub mod pointers;
pub mod punch;
mod ranges;
mod reaches;
pub mod reader;
mod rng;
pub mod room;
mod scan;
pub mod snag_format;
mod sparse;
pub mod stats;
pub mod std_format;
pub mod symbolic;
pub mod tables;
pub mod text_format;
pub mod validate;

mod trace;
pub mod trees;

pub use cells::Cells;
pub use error::{Error, Position, Result};
pub use events::Events;
pub use ids::*;
pub use names::Names;
pub use op::{MemoryOrder, Op, Ops};
pub use open::{
    ANOTHER_USERS, Format, OWNER_ONLY, TraceWriter, WriteOptions, create, open, open_within, read_from, read_within,
    why, why_not_created,
};
pub use pointers::Pointers;
pub use reader::{BlockReader, TraceReader};
pub use rng::Rng;
pub use room::Room;
pub use sparse::SparseVector;
pub use tables::{Declarations, Namer, Space, Tables, Variable};
pub use trace::Trace;
pub use validate::{Rule, Validator};
