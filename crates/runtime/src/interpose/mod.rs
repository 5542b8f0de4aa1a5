//! Functions of the C library, and of other libraries, that ours replace: those that synchronise, allocate, copy,
//! block, create threads or handle signals.
//!
//! Each one records what it does, waits in the scheduler instead of the library where it would block, and calls the
//! function that it replaces (`real!`), which does the work.

pub mod barriers;
pub mod blocking;
pub mod calls;
pub mod cancel;
pub mod conditions;
pub mod context;
pub mod descriptors;
pub mod ending;
pub mod exit;
pub mod forbidden;
pub mod futex;
pub mod heap;
pub mod library;
pub mod lifecycle;
pub mod locks;
pub mod missing;
pub mod modelled;
pub mod objects;
pub mod once;
pub mod openmp;
pub mod ranges;
pub mod readiness;
pub mod rwlocks;
pub mod semaphores;
pub mod signal_order;
pub mod signals;
pub mod stacks;
pub mod streams;
pub mod threads;
pub mod unseen;
pub mod unwinding;
pub mod versions;
