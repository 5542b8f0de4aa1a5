//! Which thread of the program runs.
//!
//! Normally one thread at a time holds the [`token`], runs for a number of scheduling points and gives the token to the
//! next, which [`dispatch`] picks. A thread that has to wait for another one [`block`]s. Where threads are
//! [`free_running`], they hold the token only while they synchronise. The [`watchdog`] takes the token from a thread
//! that neither records nor lets go, and [`spin`] recognises threads that wait in a loop, which have [`patience`]. [`lifetime`] is about the
//! first and the last turn of a thread, [`recording`] about the first and the last of all, and [`drain`] about those that
//! threads get when the program is about to end.

mod block;
mod dispatch;
mod drain;
pub mod free_running;
mod lifetime;
mod next;
pub mod observe;
mod patience;
mod policy;
mod recording;
pub mod spin;
mod token;
pub mod watchdog;
mod wipe;

pub use block::{Deadline, block, block_cancellable, if_alive, interrupt, next_notify, retry_locks, wake};
pub use dispatch::{SCHEDULER, others_wait};
pub use drain::{Verdict, claim_end, drain, forgive_end, park, unpark, verdict};
pub use lifetime::{admit, bury, first_turn, retire};
pub use next::{Doing, Next};
pub use patience::Patience;
pub use policy::Alert;
pub use recording::{end_with_last, forget_in_child, give_up, give_up_because_of, is_on, start};
pub use token::{
    FREE_RUNNING, HOLDER, IGNORING, NOBODY, TAKEN, acquire, await_decision, enter, holder, is_holder, lend, not_holder,
    preempt, regain, release, stand_aside, step, yield_now,
};
pub use wipe::wipe;
