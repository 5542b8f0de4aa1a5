//! A stream of a payload while it is filled.
//!
//! Whether an event puts something into a stream is hard to predict, and a processor that has guessed wrong loses more time
//! than writing takes. So whoever is in a hurry always writes eight bytes and then says how many of them count.

/// Most bytes of a stream: an event puts at most three numbers and a byte into one.
const LONGEST: usize = 1 << 23;
const _: () = assert!(LONGEST > super::super::RECORDED_EVENTS * (3 * 10 + 1));

/// Bytes behind those, of which nobody has to ask whether they are there.
const ROOM: usize = 64;

/// Bytes that are put one after the other.
pub(super) struct Stream {
    /// How many bytes were put. Less than [`LONGEST`].
    length: usize,
    /// What was put, and then anything. As long as it may ever be, so that nobody has to look; the system gives it memory as it
    /// is used.
    bytes: [u8; LONGEST + ROOM],
}

impl Stream {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// Puts the first `count` bytes of a word, at most eight.
    #[inline(always)]
    pub(super) fn put_word(&mut self, word: u64, count: usize) {
        // The remainder changes nothing, and tells the compiler so.
        self.bytes[self.length % LONGEST..][..8].copy_from_slice(&word.to_le_bytes());
        self.length += count;
    }

    /// Puts a byte.
    pub(super) fn put_byte(&mut self, byte: u8) {
        self.put_word(byte as u64, 1);
    }

    /// Puts a number.
    pub(super) fn put(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.put_byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.put_byte(number as u8);
    }

    /// Puts a number as [`Input::prefixed`] reads it, which takes a few instructions.
    ///
    /// [`Input::prefixed`]: crate::snag_format::numbers::Input::prefixed
    #[inline(always)]
    pub(super) fn put_prefixed(&mut self, number: u64) {
        if number >> 56 != 0 {
            self.put_byte(0);
            return self.put_word(number, 8);
        }
        let highest = 63 - (number | 1).leading_zeros();
        // A seventh of it, for numbers below 56.
        let more = (highest * 37) >> 8;
        self.put_word((number << 1 | 1) << more, more as usize + 1);
    }

    /// Puts the first `count` of some bytes, at most [`ROOM`].
    #[inline(always)]
    pub(super) fn put_bytes<const BYTES: usize>(&mut self, bytes: &[u8; BYTES], count: usize) {
        const { assert!(BYTES <= ROOM) };
        self.bytes[self.length % LONGEST..][..BYTES].copy_from_slice(bytes);
        self.length += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snag_format::numbers::Input;

    #[test]
    fn numbers_are_read_as_they_were_put() {
        // SAFETY: numbers.
        let mut stream: Box<Stream> = unsafe { super::super::zeroed() };
        for bit in 0..64 {
            for number in [1u64 << bit, (1 << bit) - 1, 3 << bit >> 1, u64::MAX >> bit, 0x1234_5678_9abc_def0 >> bit] {
                stream.clear();
                stream.put_prefixed(number);
                assert_eq!(stream.len(), if number >> 56 != 0 { 9 } else { (number | 1).ilog2() as usize / 7 + 1 });
                // Whatever follows, and nothing.
                for more in [0, 20] {
                    let bytes = [stream.bytes(), &vec![0xff; more]].concat();
                    let mut input = Input(&bytes);
                    assert_eq!((input.prefixed(), input.0.len()), (Ok(number), more), "{number:#x}");
                }
                for cut in 0..stream.len() {
                    assert!(Input(&stream.bytes()[..cut]).prefixed().is_err(), "{number:#x} cut at {cut}");
                }
                stream.clear();
                stream.put(number);
                assert_eq!(Input(stream.bytes()).number(), Ok(number), "{number:#x}");
            }
        }
    }
}
