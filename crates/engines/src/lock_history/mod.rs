//! Time-stamped lock histories: can two threads be at two given places at the same time?
//!
//! Paper: Ganai, *Efficient Data Race Prediction with Incremental Reasoning on Time-Stamped Lock History* (ASE 2013).
//! The answer respects locks and what must happen before, and nothing else (*data abstraction*): what is read
//! may differ. It is exact for two threads; for more, [`Strategy::One`] never misses and [`Strategy::Two`] never
//! claims what is impossible. See `docs/lock-history.md`.

pub mod agenda;
mod engine;
pub mod histories;
pub mod memory;
pub mod observer;
pub mod quick;
pub mod races;
pub mod reach;
pub mod search;
pub mod sets;
pub mod steps;
pub mod visited;
pub mod waits;

pub use engine::{TLH1, TLH2};
pub use observer::{Observer, Strategy};
pub use reach::{At, Reach, Standoff};
pub use search::{Check, Search, Statistics, View, unpruned_calls};
