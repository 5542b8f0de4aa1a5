//! Partial orders over a trace: HB, FHB and SHB by vector clocks; Eraser's locksets.
//!
//! One pass over the columns of a trace gives the events that race with an
//! earlier one ([`warnings`]); a second one, only over the memory that raced,
//! names the pairs and hands out a schedule for each ([`pairs`]).

pub mod clocks;
mod epochs;
mod forced;
pub mod lockset;
mod methods;
mod pairs;
mod run;
mod sync;
mod vectors;

pub use pairs::{Found, Limits, LocationPair};
pub use run::{Order, Variant, Warnings, pairs, warnings};
