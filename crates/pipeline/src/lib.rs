//! The pipeline from a trace to verified findings.
//!
//! `trace` → engines → candidates → witness → checker → finding. No engine
//! prints and no engine is trusted: what leaves this crate as a [`Race`] has a
//! witness that the checker accepted.

mod analyse;
mod analysis;
mod causal;
pub mod condense;
mod control_groups;
mod held;
mod history;
mod maximal;
mod memory;
pub mod online;
mod recipe;
mod settle;
mod so_far;
mod time;
mod watch;

pub use analyse::{analyse, analyse_into};
pub use analysis::{
    Analysis, Candidate, Deadlock, Engine, EngineReport, Left, Options, Progress, Quiet, Race, Reduction, Searches,
    Subject,
};
pub use condense::{Again, analyse_condensed_into, can_condense};
pub use held::held_locks;
pub use memory::{free_memory, peak_memory};
pub use recipe::is_symbolic;
pub use snag_engines::maximal::Backend;
pub use so_far::SoFar;
pub use time::wait_for;
