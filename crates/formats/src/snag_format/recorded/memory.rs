//! What is in memory, as far as the events of a block have said: kept by readers.
//!
//! Whoever records knows anyway what is in the memory of the program, and says which values need not be told; so writers keep nothing.

use std::hash::{BuildHasher, RandomState};

/// Words of a page: few, as some programs touch a word here and a word there.
const PAGE: u64 = 16;

/// Where no page is.
const NOWHERE: u32 = u32::MAX;

#[derive(Clone)]
struct Page {
    /// Address / 8 / [`PAGE`].
    number: u64,
    words: [u64; PAGE as usize],
}

/// Memory by pages, found by a hash. Nothing is known to be in more than eight bytes.
pub(super) struct Memory {
    pages: Vec<Page>,
    /// Indices of pages, or [`NOWHERE`]; twice as many as there are pages, or more, and a power of two.
    slots: Vec<u32>,
    /// Different in every one, so that nobody can choose addresses that collide.
    seed: u64,
}

impl Memory {
    /// All zero.
    pub(super) fn new() -> Memory {
        let seed = RandomState::new().hash_one(0) | 1;
        Memory { pages: Vec::new(), slots: vec![NOWHERE; 1 << 10], seed }
    }

    /// What is in so many bytes; 0 if nothing was said.
    pub(super) fn contents(&mut self, address: u64, size: u64) -> u64 {
        if !(1..=8).contains(&size) {
            return 0;
        }
        let shift = 8 * (address % 8) as u32;
        let low = *self.word(address / 8) >> shift;
        let high = if address % 8 + size > 8 { *self.word(address / 8 + 1) } else { 0 };
        (low | above(high, shift)) & mask(size)
    }

    /// This is in so many bytes now.
    pub(super) fn remember(&mut self, address: u64, size: u64, value: u64) {
        if !(1..=8).contains(&size) {
            return;
        }
        let (shift, mask) = (8 * (address % 8) as u32, mask(size));
        let value = value & mask;
        let low = self.word(address / 8);
        *low = *low & !(mask << shift) | value << shift;
        if address % 8 + size > 8 {
            let high = self.word(address / 8 + 1);
            *high = *high & !(mask >> (64 - shift)) | value >> (64 - shift);
        }
    }

    /// The word with this number (address / 8).
    #[inline]
    fn word(&mut self, number: u64) -> &mut u64 {
        let page = self.page(number / PAGE);
        &mut self.pages[page].words[(number % PAGE) as usize]
    }

    #[inline]
    fn page(&mut self, number: u64) -> usize {
        let mut at = self.slot(number);
        loop {
            match self.slots[at] {
                NOWHERE => return self.new_page(number),
                index if self.pages[index as usize].number == number => return index as usize,
                _ => at = (at + 1) % self.slots.len(),
            }
        }
    }

    fn slot(&self, number: u64) -> usize {
        (number.wrapping_mul(self.seed) >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    #[cold]
    fn new_page(&mut self, number: u64) -> usize {
        self.pages.push(Page { number, words: [0; PAGE as usize] });
        if 2 * self.pages.len() > self.slots.len() {
            self.slots = vec![NOWHERE; 2 * self.slots.len()];
            (0..self.pages.len()).for_each(|index| self.put(index));
        } else {
            self.put(self.pages.len() - 1);
        }
        self.pages.len() - 1
    }

    /// Has the page found.
    fn put(&mut self, index: usize) {
        let mut at = self.slot(self.pages[index].number);
        while self.slots[at] != NOWHERE {
            at = (at + 1) % self.slots.len();
        }
        self.slots[at] = index as u32;
    }
}

/// The bits that lie above a word that is shifted down.
#[inline(always)]
fn above(next: u64, shift: u32) -> u64 {
    // Nothing if it is not shifted.
    next << 1 << (63 - shift)
}

/// The bits of one to eight bytes.
#[inline(always)]
fn mask(size: u64) -> u64 {
    u64::MAX >> (64 - 8 * size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use snag_synthesis::Rng;
    use std::collections::HashMap;

    #[test]
    fn every_byte_is_remembered() {
        let mut rng = Rng::new(5);
        let mut random = move |below: u64| rng.number() % below;
        let (mut memory, mut bytes) = (Memory::new(), HashMap::new());
        for _ in 0..200_000 {
            let size = 1 + random(8);
            let address = match random(3) {
                0 => random(1000),
                1 => 0x7fff_0000_0000 + random(1 << 20),
                _ => u64::MAX - size - random(100),
            };
            let value = random(u64::MAX);
            if random(2) == 0 {
                memory.remember(address, size, value);
                (0..size).for_each(|at| {
                    bytes.insert(address + at, (value >> (8 * at)) as u8);
                });
            }
            let byte = |at: u64| (*bytes.get(&(address + at)).unwrap_or(&0) as u64) << (8 * at);
            assert_eq!(
                memory.contents(address, size),
                (0..size).map(byte).sum::<u64>(),
                "{size} bytes at {address:#x}"
            );
        }
    }
}
