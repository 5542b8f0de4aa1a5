//! The checker: decides whether a schedule proves a race, a race by memory order or a deadlock, and whether a fault
//! happened in the recorded run.
//!
//! [`Checker`] judges a schedule from the trace and the rules of `docs/model.md` alone: whether its order is feasible,
//! and whether it shows what it is said to show. It depends on the model and on nothing else, so nobody has to trust
//! an engine.

mod barriers;
mod checker;
mod facts;
mod fault;
mod heap;
mod hidden;
mod locks;
mod machine;
mod memory;
mod missing;
mod order;
mod reach;
mod series;
mod source;
mod symbolic;
mod violation;

pub use checker::Checker;
pub use series::Series;
pub use violation::{ScheduleRule, Violation};
