//! Partial orders over a trace: HB, FHB and SHB by vector clocks; CP and WCP ([`causal`]); Eraser's locksets.
//!
//! One pass over the columns of a trace gives the events that race with an
//! earlier one ([`warnings`]); a second one, only for the memory that raced,
//! names the pairs ([`pairs`]), or both are done at once where that is cheap
//! ([`find`]); a last one hands out the clocks that are their
//! schedules ([`take_schedules`]).

pub mod causal;
pub mod clocks;
mod epochs;
mod forced;
pub mod lockset;
mod methods;
mod missing;
mod objects;
mod pairs;
mod run;
mod sync;
mod vectors;

pub use missing::MissingOrder;
pub use objects::{Missing, Objects};
pub use pairs::{Found, Limits, LocationPair};
pub use run::{Order, Variant, Warnings, find, pairs, take_schedules, timestamps, warnings};
