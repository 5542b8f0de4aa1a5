//! A lock: one thread at a time.

use super::Word;
use core::sync::atomic::Ordering::*;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and others may sleep until it is given back.
const AWAITED: u32 = 2;

pub struct Lock<W>(W);

impl<W: Word> Lock<W> {
    pub const fn new(word: W) -> Lock<W> {
        Lock(word)
    }

    /// Takes the lock. It looks `patience` times before it sleeps.
    pub fn lock(&self, patience: u32) {
        for _ in 0..patience {
            if self.0.load(Relaxed) == FREE && self.0.change(FREE, HELD, Acquire) {
                return;
            }
            core::hint::spin_loop();
        }
        while self.0.swap(AWAITED, Acquire) != FREE {
            self.0.sleep(AWAITED, None);
        }
    }

    /// Gives it back; whoever sleeps is woken, and tries again.
    pub fn unlock(&self) {
        if self.0.swap(FREE, Release) == AWAITED {
            self.0.wake();
        }
    }

    /// Whether somebody has it right now.
    pub fn is_held(&self) -> bool {
        self.0.load(Relaxed) != FREE
    }
}
