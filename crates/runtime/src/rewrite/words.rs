//! Which words of memory were ever used by an atomic operation. Only programs in which `probe` has found something need
//! this.

use crate::base::relaxed::Relaxed;
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// The table; null while nobody asks. Tables that were too small are never freed, so whoever looks at one may go on:
/// all of them together are as large as the last one.
static WORDS: AtomicPtr<Words> = AtomicPtr::new(core::ptr::null_mut());

/// How many addresses the table has.
static USED: Relaxed<usize> = Relaxed::zero();

/// Addresses, each where its hash says or behind; 0 is no address. As many as a power of two.
struct Words(Vec<Relaxed<usize>>);

impl Words {
    fn new(size: usize) -> Words {
        Words((0..size).map(|_| Relaxed::zero()).collect())
    }

    /// The slot of an address, or the one where it belongs.
    #[inline]
    fn slot(&self, address: usize) -> &Relaxed<usize> {
        let mut slot = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        loop {
            let found = &self.0[slot & (self.0.len() - 1)];
            if found.get() == address || found.get() == 0 {
                return found;
            }
            slot += 1;
        }
    }

    /// From now on this is the table.
    fn publish(self) {
        WORDS.store(Box::into_raw(Box::new(self)), Release);
    }

    #[cold]
    fn insert(&self, address: usize, slot: &Relaxed<usize>) {
        slot.set(address);
        USED.add(1);
        if USED.get() * 2 > self.0.len() {
            let larger = Words::new(2 * self.0.len());
            for address in self.0.iter().map(Relaxed::get).filter(|&address| address != 0) {
                larger.slot(address).set(address);
            }
            larger.publish();
        }
    }
}

fn words() -> Option<&'static Words> {
    // SAFETY: `publish` puts nothing there but a table that it never frees.
    unsafe { WORDS.load(Acquire).as_ref() }
}

/// From now on words are remembered.
pub fn watch() {
    Words::new(1 << 12).publish();
}

/// An atomic operation was done here. With the token.
#[inline]
pub fn note(address: usize) {
    let Some(words) = words() else { return };
    let slot = words.slot(address);
    if slot.get() != address {
        words.insert(address, slot);
    }
}

/// Whether one ever was.
pub fn is_word(address: usize) -> bool {
    words().is_some_and(|words| words.slot(address).get() == address)
}
