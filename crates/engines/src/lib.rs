//! The engines: each finds races in a trace, in its own way.
//!
//! | folder | engines |
//! |---|---|
//! | [`happens_before`] | `hb`, `fhb`, `shb`, and `lockset` |
//! | [`causal`] | `wcp`, `cp` |
//! | [`lock_history`] | `tlh1`, `tlh2` |
//! | [`maximal`] | `mc`, `sb`, `rdit`, `recipe` |
//!
//! No engine knows about another, prints, or decides that a race is proved.

pub mod causal;
pub mod clocks;
pub mod happens_before;
pub mod lock_history;
pub mod maximal;
pub mod missing;
mod sync;
