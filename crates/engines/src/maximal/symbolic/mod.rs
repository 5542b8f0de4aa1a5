//! Symbolic values: schedules in which reads take other values than they took.
//!
//! "Recipe: Relaxed Sound Predictive Analysis", a draft whose open sections docs/recipe.md fills in. Where recorded
//! values insist that reads see what they saw, this semantics only insists that every branch goes where it went, or the
//! last one of a thread the other way, where the trace says what happens then.
//!
//! Guarantee: an answer `Possible` comes with a schedule and the branches that diverge in it, which the checker accepts
//! at level `symbolic`; `Impossible` only if there is none.
//! Deviation: no external solver. Order and values go to one SAT solver, with the order theory attached and with
//! numbers as bits; and only as much of the trace goes there as concrete runs show to be necessary.
//! Cost: a run is linear in the events since the window began; see docs/recipe.md for the solver's part.

mod arithmetic;
mod cells;
mod circuit;
mod encoding;
mod expressions;
mod number;
mod same;
mod sides;
mod terms;
mod values;

pub(crate) use expressions::Expressions;
pub(crate) use values::Symbolic;
