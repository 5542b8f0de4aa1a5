//! Finds the bars and line ends of a text trace, sixty-four bytes at a time.

/// Bytes that must be readable behind the end of a text that is scanned.
pub(crate) const PADDING: usize = 128;

/// Walks over the delimiters `|` and line feed of a text.
pub(crate) struct Delimiters<'a> {
    /// The text and at least [`PADDING`] bytes more.
    padded: &'a [u8],
    /// Where the text ends.
    end: usize,
    /// Start of the block that `mask` is about.
    block: usize,
    /// Delimiters of the block that are still to come.
    mask: u64,
}

impl<'a> Delimiters<'a> {
    /// The delimiters of `padded[..end]`.
    pub fn new(padded: &'a [u8], end: usize) -> Delimiters<'a> {
        assert!(padded.len() >= end + PADDING);
        let mut all = Delimiters { padded, end, block: 0, mask: 0 };
        all.load();
        all
    }

    /// Position of the next delimiter; the end of the text if there is none.
    #[inline(always)]
    pub fn next(&mut self) -> usize {
        while self.mask == 0 {
            self.block += 64;
            if self.block >= self.end {
                self.block -= 64;
                return self.end;
            }
            self.load();
        }
        let at = self.block + self.mask.trailing_zeros() as usize;
        self.mask &= self.mask - 1;
        at.min(self.end)
    }

    /// Goes on behind a position.
    pub fn skip_to(&mut self, position: usize) {
        self.block = position / 64 * 64;
        if self.block < self.end {
            self.load();
            self.mask &= u64::MAX << (position % 64);
        } else {
            self.mask = 0;
        }
    }

    #[inline(always)]
    fn load(&mut self) {
        let block: &[u8; 64] = self.padded[self.block..self.block + 64].try_into().expect("sixty-four bytes");
        self.mask = mask(block);
    }
}

/// One bit for every byte that is `|` or line feed.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn mask(block: &[u8; 64]) -> u64 {
    use std::arch::x86_64::*;
    let mut bits = 0;
    // SAFETY: SSE2 belongs to every x86-64 processor, and the four unaligned
    // loads of sixteen bytes lie inside the sixty-four of `block`.
    unsafe {
        let (bar, line) = (_mm_set1_epi8(b'|' as i8), _mm_set1_epi8(b'\n' as i8));
        for i in 0..4 {
            let bytes = _mm_loadu_si128(block.as_ptr().add(16 * i).cast());
            let found = _mm_or_si128(_mm_cmpeq_epi8(bytes, bar), _mm_cmpeq_epi8(bytes, line));
            bits |= (_mm_movemask_epi8(found) as u32 as u64) << (16 * i);
        }
    }
    bits
}

/// One bit for every byte that is `|` or line feed.
#[cfg(not(target_arch = "x86_64"))]
fn mask(block: &[u8; 64]) -> u64 {
    block.iter().enumerate().fold(0, |bits, (i, &b)| bits | ((b == b'|' || b == b'\n') as u64) << i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_delimiter_is_found_wherever_it_stands() {
        for seed in 0..200usize {
            let text: Vec<u8> = (0..300)
                .map(|i| {
                    if (i * 7 + seed) % 11 == 0 {
                        b'|'
                    } else if (i + seed) % 17 == 0 {
                        b'\n'
                    } else {
                        b'x'
                    }
                })
                .collect();
            let end = text.len() - seed;
            let expected: Vec<usize> = (0..end).filter(|&i| text[i] != b'x').collect();
            let mut padded = text.clone();
            padded.extend([b'|'; PADDING]);
            let mut found = Delimiters::new(&padded, end);
            let all: Vec<usize> = std::iter::from_fn(|| Some(found.next()).filter(|&p| p < end)).collect();
            assert_eq!(all, expected);
            found.skip_to(end / 2);
            let rest: Vec<usize> = std::iter::from_fn(|| Some(found.next()).filter(|&p| p < end)).collect();
            assert_eq!(rest, expected.into_iter().filter(|&p| p >= end / 2).collect::<Vec<_>>());
        }
    }
}
