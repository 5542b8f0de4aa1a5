//! The maximal engine: everything that a trace can prove.
//!
//! Huang, Luo, Roşu: GPredict; Huang, Zhou: RDIT (OOPSLA 2016), whose MC and RDIT ask a constraint solver, for every
//! conflicting pair, whether a feasible schedule makes it adjacent.
//!
//! Guarantee: [`Queries::ask`] answers `Possible` with a schedule that the checker accepts, and `Impossible` only if
//! there is none at that level; so no sound tool that sees the same trace can say otherwise.
//!
//! Deviation: whole traces instead of windows; most queries are answered by three quick stages, the others by
//! counterexample-guided refinement (CEGAR, lazy SMT) that tells the solver only as much of the trace as it has to
//! (docs/maximal.md).
//!
//! | to learn about | read |
//! |---|---|
//! | which pairs and cycles are asked about | `pairs`, `cycles`, `deepening`, `contended`, `guards` |
//! | one question, and who answers it | `query`; its stages `cuts`, `nogood`, `observed`, `search` |
//! | what is known before anything is asked | `index`; its orders `hard`, `saturation`, `observed` |
//! | one about memory orders | `unordered`, `heard` |
//! | the refinement loop | `search`; it proposes (`proposal`), runs (`run`, `state`) and learns (`formula`) |
//! | what values mean | `semantics`; `recorded` values, `symbolic` values |
//! | the solver and its order theory | `solver`, `order`, `atoms` |

mod asking;
mod atoms;
mod clock;
mod contended;
mod counts;
mod cuts;
mod cycles;
mod deepening;
mod engine;
mod formula;
mod gallop;
mod growth;
mod guards;
mod hard;
mod heard;
mod index;
mod lower;
mod memory;
mod nogood;
mod observed;
mod order;
mod pairs;
mod proposal;
mod query;
mod recipe;
mod recorded;
mod run;
mod saturation;
mod search;
mod sections;
mod semantics;
mod solver;
mod state;
mod strands;
mod symbolic;
mod tally;
mod threads;
mod unordered;
mod visible;
mod windows;
#[cfg(feature = "z3")]
pub mod z3;

pub use crate::missing::Missing;
pub use cycles::{Cycles, End, Length, Visit, Visited};
pub use engine::{MC, RDIT, SB};
pub use index::Index;
pub use lower::Lowered;
pub use pairs::{Pairs, Task};
pub use query::{Answer, Backend, Limits, Queries, Stage, Undecided};
pub use recipe::RECIPE;
pub use search::Effort;
pub use solver::Stop;
pub use windows::Windows;
