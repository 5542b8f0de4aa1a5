//! Threads that wait in a loop of atomic operations. Another thread does what they wait for, so their turn ends early:
//! a program that hands something over by a flag, again and again, would spend whole turns waiting.

use crate::base::record::page;
use crate::base::relaxed::Relaxed;
use crate::base::thread::Thread;
use crate::scheduler::observe;

/// An atomic that a thread has found unchanged.
struct Seen {
    address: Relaxed<usize>,
    value: Relaxed<u64>,
    /// How often, in a row.
    times: Relaxed<u32>,
    /// Steps of the turn that were left when that began.
    left: Relaxed<i64>,
}

/// Loops look at one place, or at a few by turns.
const PLACES: usize = 4;

/// What a thread has found unchanged lately. All zero at first.
pub struct Spins([Seen; PLACES]);

/// How often a thread finds the same value before that counts as waiting. A switch takes as long as recording
/// some hundred steps, which a thread that waits only for a moment should not pay for.
const PATIENCE: u32 = 512;

/// Most steps of one round of a loop that does nothing but wait.
const ROUND: i64 = 4;

/// The holder of the token has found a value in an atomic, and left it there.
#[inline]
pub fn unchanged(thread: &Thread, address: usize, value: u64) {
    let left = page().budget.get();
    let seen = &thread.spins.0[(address >> 3) % PLACES];
    if seen.address.get() != address || seen.value.get() != value || left > seen.left.get() {
        seen.address.set(address);
        seen.value.set(value);
        seen.times.set(0);
        seen.left.set(left);
        return;
    }
    seen.times.add(1);
    if seen.times.get() >= PATIENCE {
        let waits = seen.left.get() - left <= ROUND * PATIENCE as i64;
        seen.times.set(0);
        seen.left.set(left);
        if waits {
            observe::waits_in_loop();
        }
    }
}
