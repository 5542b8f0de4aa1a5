//! Which thread of the program runs.
//!
//! Normally one thread at a time holds the [`token`], runs for a number of scheduling points and gives the token to the
//! next. Where threads are [`free_running`], they hold it only while they synchronise. The [`watchdog`] takes the token
//! from a thread that neither records nor lets go, and [`spin`] recognises threads that wait in a loop.

pub mod free_running;
pub mod spin;
pub mod token;
pub mod watchdog;
