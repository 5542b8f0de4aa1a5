//! HB, FHB, SHB and races by memory order by vector clocks, and Eraser's locksets.
//!
//! One pass over the columns of a trace gives the events that race with an earlier one ([`warnings`]); a second one,
//! only for the memory that raced, names the pairs ([`pairs`]), or both are done at once where that is cheap ([`find`]);
//! a last one hands out the clocks that are their schedules ([`take_schedules`]).

mod engine;
pub(crate) mod epochs;
mod forced;
pub mod lockset;
pub(crate) mod pairs;
pub(crate) mod run;
mod strong;
mod vectors;

pub use engine::{FHB, HB, HB_VC, LOCKSET, ORDER, SHB, SHB_VC, racing, schedules};
pub use pairs::{Limits, LocationPair, Racing};
pub(crate) use run::times_of;
pub use run::{
    Order, Sections, Variant, Warnings, by_memory_order, find, may_race_by_order, pairs, take_schedules, timestamps,
    warnings,
};
