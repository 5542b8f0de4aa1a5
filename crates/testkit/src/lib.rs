//! Ground truth for tests: exhaustive search, reference relations, random traces.
//!
//! Everything here is slow, obvious and separate from what it judges: it shares
//! nothing with the checker and the engines except the trace model (and the enum
//! [`Level`]), and follows `docs/model.md` sentence by sentence.
//!
//! * [`search`]: all predictable races and deadlocks of a small trace;
//! * [`symbolic`]: the same at level `symbolic`, where reads take other values and branches may diverge;
//! * [`mod@reference`]: HB, SHB and FHB and their races, over all pairs of events;
//! * [`causal`]: CP and WCP and their races, the same way;
//! * [`abstraction`]: what can happen at the same time if nothing that is read matters;
//! * [`contended`]: whether a recording lists all that other threads can interfere with;
//! * [`dense`]: random traces in which everything is symbolic;
//! * [`exercise`]: what fuzzers and mutation tests do with the bytes of a trace;
//! * [`random`]: well-formed random traces of every kind, and a driver that shrinks what fails.

pub mod abstraction;
pub mod causal;
pub mod contended;
pub mod dense;
pub mod exercise;
pub mod random;
pub mod reference;
pub mod relation;
pub mod search;
pub mod shrink;
pub mod symbolic;

mod facts;
mod shape;
mod simulation;

pub use abstraction::{simultaneous, standoffs};
pub use causal::{cp, cp_races, must, wcp, wcp_races};
pub use facts::conflicting;
pub use random::{Rng, Shape, for_random_traces, random_trace};
pub use reference::{fhb_races, hb, hb_races, is_order_race, order_races, shb, shb_races, warnings};
pub use relation::Relation;
pub use search::{deadlock_witnesses, deadlocks, is_feasible, race_witnesses, races, races_respecting};
pub use shrink::{show, shrink};
pub use snag_model::Level;
