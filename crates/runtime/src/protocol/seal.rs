//! How a record is written so that whoever sees its beginning sees all of it, at any time and however the writer ends.

/// Words of memory that another process reads, from the place of a record on.
pub trait Words {
    /// Stores a word.
    fn set(&self, index: usize, word: u64);
    /// Stores the first word, after everything that was stored before.
    fn publish(&self, word: u64);
}

/// Writes a record of `N` words. First comes a zero behind it, so that what lies there from an earlier use of the
/// memory is no record; then its words, the first one last: where it is, the record is whole.
#[inline(always)]
pub fn write<const N: usize>(at: &impl Words, words: [u64; N]) {
    for (index, &word) in words.iter().enumerate().skip(1) {
        at.set(index, word);
    }
    at.set(N, 0);
    at.publish(words[0]);
}
