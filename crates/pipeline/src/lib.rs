//! The pipeline from a trace to verified findings.
//!
//! `trace` → engines → candidates → witness → checker → finding. No engine
//! prints and no engine is trusted: what leaves this crate as a [`Race`] has a
//! witness that the checker accepted.

mod analysis;
pub mod condense;
mod control_groups;
mod filing;
mod held;
mod memory;
pub mod online;
mod options;
mod plan;
mod progress;
mod prove;
mod run;
mod so_far;
mod spurious;
mod time;

pub use analysis::{Analysis, Candidate, Deadlock, EngineReport, Fault, Left, Race};
pub use condense::{Again, analyse_condensed_into, can_condense};
pub use held::held_locks;
pub use memory::{free_memory, peak_memory};
pub use options::{Choice, Options};
pub use progress::{Progress, Quiet};
pub use run::{analyse, analyse_into};
pub use snag_engines as engines;
pub use snag_engines::maximal::Backend;
pub use snag_engines::{Cost, ENGINES, EngineRef, Guarantee, Reduction, Searches, Settings, Subject, is_symbolic};
pub use so_far::SoFar;
pub use time::wait_for;
