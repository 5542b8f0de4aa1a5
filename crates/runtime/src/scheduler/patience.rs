//! Threads that wait in a loop sit out some turns of the others.
//!
//! A thread that calls `sched_yield`, or reads the same again and again, waits for another one to do something. Taking
//! turns, it would look after each turn of each other thread, and so would see every value on the way to the one that
//! it waits for: races that show only if it misses one (it acquires a later value, and never the one that was released
//! to it) would never happen. It would also fill the trace. So it sits out some turns, and twice as many each time that
//! it has done nothing but wait since. If all threads sit out, the one goes on that was passed
//! over most often, of several the one that has looked least often so far, and of these the last to wait: whoever waits
//! for the end of a chain began before the links of it did.

use crate::base::relaxed::Relaxed;
use crate::base::shared::wanted;
use crate::base::thread::Thread;

/// Most steps between two waits of the same loop.
const ROUND: u64 = 64;

/// Turns that a thread sits out at first.
const FIRST: u32 = 4;

/// How often that is doubled at most.
const DOUBLINGS: u32 = 2;

/// How long a thread sits out. Zero at first.
pub struct Patience {
    /// Turns of others that the thread still leaves to them.
    turns: Relaxed<u32>,
    /// How often in a row it has waited.
    waits: Relaxed<u32>,
    /// Its steps when it did so last.
    since: Relaxed<u64>,
    /// How often another one went on instead, of threads that all sit out.
    passed_over: Relaxed<u32>,
}

impl Patience {
    pub fn sits_out(&self) -> bool {
        self.turns.get() > 0
    }

    /// Of threads that all sit out, the one with the greatest rank goes on; `place` is that in the queue.
    pub fn rank(&self, place: usize) -> (u32, u32, usize) {
        (self.passed_over.get(), u32::MAX - self.waits.get(), place)
    }

    /// Another thread that sits out, too, goes on.
    pub fn pass_over(&self) {
        self.passed_over.add(1);
    }

    /// Another thread has a turn.
    pub fn pass(&self) {
        self.turns.set(self.turns.get().saturating_sub(1));
    }

    /// The thread has the token, or will have it.
    pub fn ends(&self) {
        self.turns.set(0);
        self.passed_over.set(0);
    }
}

/// The thread gives its turn away because it waits for another one. Its steps are counted. Where the user says how long
/// turns are, threads just take turns.
pub fn waits(thread: &Thread) {
    if wanted().quantum != 0 {
        return;
    }
    let patience = &thread.patience;
    let steps = thread.steps.get();
    let waits = if steps - patience.since.replace(steps) <= ROUND { patience.waits.get() + 1 } else { 0 };
    patience.waits.set(waits);
    patience.turns.set(FIRST << waits.min(DOUBLINGS));
}
