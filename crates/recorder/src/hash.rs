//! A hash for keys that are small numbers: addresses, program counters, ids. Not for keys that somebody chooses to collide.

use std::hash::{BuildHasherDefault, Hasher};

/// Multiplies and folds each word.
#[derive(Clone, Copy, Default)]
pub struct WordHasher(u64);

/// For `HashMap`s.
pub type BuildWordHasher = BuildHasherDefault<WordHasher>;

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte as u64));
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word as u64);
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = (self.0.rotate_left(23) ^ word) as u128 * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}
