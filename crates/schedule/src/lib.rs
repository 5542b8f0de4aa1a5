//! Witness schedules, and the checker that nobody has to trust an engine for.
//!
//! [`Schedule`] says in which order events are to happen; [`Checker`] decides,
//! from the trace and the rules of `docs/model.md` alone, whether that order is
//! feasible and shows the race or the deadlock it is said to show.

mod barriers;
mod checker;
mod facts;
mod heap;
mod hidden;
mod locks;
mod machine;
mod memory;
mod missing;
mod reach;
mod schedule;
mod series;
mod source;
mod symbolic;
mod violation;

pub use checker::Checker;
pub use schedule::{Iter, Level, Schedule};
pub use series::Series;
pub use violation::{ScheduleRule, Violation};
