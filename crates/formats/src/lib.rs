//! Traces as files: RAPID's STD format, Snag's own text format, and the binary format `.snag`.
//!
//! Readers produce events and names block by block, so that a trace can be streamed, or kept whole in memory at about
//! eleven bytes an event. Whatever is read passes the model's validator: nothing above this crate ever sees a trace
//! that breaks the rules of the model.

pub mod compression;
pub mod error;
pub mod globals;
pub mod lines;
pub mod open;
pub mod reader;
mod scan;
pub mod snag_format;
pub mod std_format;
pub mod text_format;

pub use error::{Error, Position, Result};
pub use open::{
    ANOTHER_USERS, Format, OWNER_ONLY, TraceWriter, WriteOptions, create, open, open_within, read_from, read_within,
    why, why_not_created,
};
pub use reader::{BlockReader, TraceReader};
