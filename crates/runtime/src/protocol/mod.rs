//! The protocols by which threads and processes wait for each other and hand over what they have written, over words
//! that are left open.
//!
//! The runtime uses them with a word of memory and the kernel's futex; `tests/protocols.rs` with a model of both, in
//! which every order of the steps is tried. So these files use nothing of the rest of the runtime.

pub mod go;
pub mod lock;
pub mod ring;
pub mod seal;

use core::sync::atomic::Ordering;

/// A word on which threads can sleep until it changes.
pub trait Word {
    fn load(&self, order: Ordering) -> u32;
    fn store(&self, value: u32, order: Ordering);
    fn swap(&self, value: u32, order: Ordering) -> u32;
    /// Stores `new` if it finds `old`; whether it has.
    fn change(&self, old: u32, new: u32, order: Ordering) -> bool;
    /// Sleeps if it finds `value`, until it is woken, at most for the given number of nanoseconds, or less for no
    /// reason. Returns whether the time was up.
    fn sleep(&self, value: u32, nanoseconds: Option<u64>) -> bool;
    /// Wakes one thread that sleeps here.
    fn wake(&self);
}
