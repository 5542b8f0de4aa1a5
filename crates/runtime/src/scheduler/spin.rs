//! Threads that wait in a loop of atomic operations. What they wait for is done by another thread, so their turn ends before its
//! time: a program that hands something over by a flag, again and again, would spend whole turns in waiting.

use crate::base::record::page;
use crate::base::thread::Thread;
use crate::scheduler::token;

/// An atomic that a thread has found unchanged.
#[derive(Clone, Copy)]
struct Seen {
    address: usize,
    value: u64,
    /// How often, in a row.
    times: u32,
    /// Steps of the turn that were left when that began.
    left: i64,
}

/// Loops look at one place, or at a few by turns.
const PLACES: usize = 4;

/// What a thread has found unchanged lately. All zero at first.
pub struct Spins([Seen; PLACES]);

/// How often the same is found before that counts as waiting. Letting another thread run takes as long as recording some hundred
/// steps: a thread that waits for a moment only should not pay for that.
const PATIENCE: u32 = 512;

/// Most steps of one round of a loop that does nothing but wait.
const ROUND: i64 = 4;

/// The holder of the token has found a value in an atomic, and left it there.
#[inline]
pub fn unchanged(thread: *mut Thread, address: usize, value: u64) {
    let left = page().budget;
    let seen = unsafe { &mut (*thread).spins.0[(address >> 3) % PLACES] };
    if seen.address != address || seen.value != value || left > seen.left {
        *seen = Seen { address, value, times: 0, left };
        return;
    }
    seen.times += 1;
    if seen.times >= PATIENCE {
        let waits = seen.left - left <= ROUND * PATIENCE as i64;
        *seen = Seen { times: 0, left, ..*seen };
        if waits {
            token::end_turn_early();
        }
    }
}
