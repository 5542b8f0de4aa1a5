//! The engines: each finds races in a trace, in its own way.
//!
//! | folder | engines |
//! |---|---|
//! | [`happens_before`] | `hb`, `fhb`, `shb`, `order`, and `lockset` |
//! | [`causal`] | `wcp`, `cp` |
//! | [`lock_history`] | `tlh1`, `tlh2` |
//! | [`maximal`] | `mc`, `sb`, `rdit`, `recipe` |
//! | `observed` | `observed` |
//!
//! [`Engine`] is what they have in common, and [`ENGINES`] lists them. No engine knows about another, prints, or decides
//! that a race is proved.

pub mod causal;
pub mod clocks;
mod engine;
pub mod happens_before;
pub mod holds;
pub mod lock_history;
pub mod maximal;
pub mod missing;
mod observed;
mod probes;
mod sync;
pub mod watch;

pub use causal::{CP, WCP};
pub use engine::*;
pub use happens_before::{FHB, HB, HB_VC, LOCKSET, ORDER, SHB, SHB_VC};
pub use lock_history::{TLH1, TLH2};
pub use maximal::{MC, RDIT, RECIPE, SB};
pub use observed::OBSERVED;

/// Every engine, in the order in which users see them.
pub const ENGINES: &[EngineRef] =
    &[HB, HB_VC, FHB, SHB, SHB_VC, ORDER, WCP, CP, LOCKSET, TLH1, TLH2, MC, SB, RDIT, RECIPE, OBSERVED];
