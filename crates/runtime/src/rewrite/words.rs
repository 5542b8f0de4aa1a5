//! Which words of memory were ever used by an atomic operation. Asked only of programs in which `probe` has found something.

use crate::base::memory::Global;

/// A table of addresses; 0 is no address. Guarded by the token.
static WORDS: Global<Words> = Global::new(Words { slots: Vec::new(), used: 0 });

struct Words {
    /// A power of two, or none while nobody asks.
    slots: Vec<usize>,
    used: usize,
}

impl Words {
    /// The slot of an address, or the one where it belongs.
    #[inline]
    fn slot(&self, address: usize) -> usize {
        let mut slot = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        loop {
            slot &= self.slots.len() - 1;
            if self.slots[slot] == address || self.slots[slot] == 0 {
                return slot;
            }
            slot += 1;
        }
    }

    #[cold]
    fn insert(&mut self, address: usize, slot: usize) {
        self.slots[slot] = address;
        self.used += 1;
        if self.used * 2 > self.slots.len() {
            let twice = vec![0; 2 * self.slots.len()];
            let old = core::mem::replace(&mut self.slots, twice);
            for address in old.into_iter().filter(|&address| address != 0) {
                let slot = self.slot(address);
                self.slots[slot] = address;
            }
        }
    }
}

/// From now on words are remembered.
pub fn watch() {
    unsafe { (*WORDS.get()).slots = vec![0; 1 << 12] };
}

/// An atomic operation was done here.
#[inline]
pub fn note(address: usize) {
    let words = unsafe { &mut *WORDS.get() };
    if words.slots.is_empty() {
        return;
    }
    let slot = words.slot(address);
    if words.slots[slot] != address {
        words.insert(address, slot);
    }
}

/// Whether one ever was.
pub fn is_word(address: usize) -> bool {
    let words = unsafe { &*WORDS.get() };
    !words.slots.is_empty() && words.slots[words.slot(address)] == address
}
