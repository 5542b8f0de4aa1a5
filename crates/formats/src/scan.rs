//! Finds the bars and line ends of a text trace, sixty-four bytes at a time.

/// Bytes that must be readable behind the end of a text that is scanned.
pub(crate) const PADDING: usize = 128;

/// Delimiters that are looked up ahead.
const AHEAD: usize = 512;

/// Most lines have so many delimiters in sixty-four bytes, or fewer.
const USUAL: usize = 12;

/// So far behind the end of the text stand the delimiters that do not exist.
pub(crate) const FAR: usize = 1 << 16;

/// Walks over the delimiters `|` and line feed of a text.
pub(crate) struct Delimiters<'a> {
    /// The text and at least [`PADDING`] bytes more.
    padded: &'a [u8],
    /// Where the text ends.
    end: usize,
    /// Start of the next block of sixty-four bytes to look at.
    block: usize,
    /// Delimiters before this position do not count.
    from: usize,
    /// Positions found: those from `next` to `found` are still to be handed out.
    positions: [u32; AHEAD + 64],
    next: usize,
    found: usize,
}

impl<'a> Delimiters<'a> {
    /// The delimiters of `padded[..end]`.
    pub fn new(padded: &'a [u8], end: usize) -> Delimiters<'a> {
        assert!(padded.len() >= end + PADDING && end + FAR < u32::MAX as usize);
        Delimiters { padded, end, block: 0, from: 0, positions: [0; AHEAD + 64], next: 0, found: 0 }
    }

    /// Positions of the next three delimiters; [`FAR`] behind the text where there is none.
    #[inline(always)]
    pub fn three(&mut self) -> [usize; 3] {
        if self.found - self.next < 3 {
            self.look_ahead();
        }
        let three: &[u32; 3] = self.positions[self.next..][..3].try_into().expect("three");
        three.map(|position| position as usize)
    }

    /// Goes on behind those three.
    #[inline(always)]
    pub fn pass_three(&mut self) {
        self.next = (self.next + 3).min(self.found);
    }

    /// Goes on at a position.
    pub fn skip_to(&mut self, position: usize) {
        let ahead = &self.positions[self.next..self.found];
        let passed = ahead.iter().take_while(|&&p| (p as usize) < position).count();
        if (1..ahead.len()).contains(&passed) {
            self.next += passed;
        } else {
            (self.next, self.found) = (0, 0);
            (self.block, self.from) = (position / 64 * 64, position);
        }
    }

    /// Finds more delimiters, at least three unless the text ends.
    #[inline(never)]
    fn look_ahead(&mut self) {
        self.positions.copy_within(self.next..self.found, 0);
        (self.next, self.found) = (0, self.found - self.next);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("popcnt") {
            // SAFETY: the processor has what the function is compiled for.
            unsafe { self.scan_wide() };
        } else {
            self.scan(narrow_mask);
        }
        #[cfg(not(target_arch = "x86_64"))]
        self.scan(narrow_mask);
        if self.found < 3 {
            self.positions[self.found..3].fill((self.end + FAR) as u32);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,popcnt")]
    fn scan_wide(&mut self) {
        self.scan(|block| wide_mask(block));
    }

    #[inline(always)]
    fn scan(&mut self, mask: impl Fn(&[u8; 64]) -> u64) {
        while self.found < AHEAD - 64 && self.block < self.end {
            let block = self.padded[self.block..].first_chunk().expect("padding follows");
            let mut bits = mask(block);
            if self.from > self.block {
                bits &= u64::MAX << (self.from - self.block).min(63);
            }
            if self.end - self.block < 64 {
                bits &= (1 << (self.end - self.block)) - 1;
            }
            // As many as usual without looking at how many there are: what is too much is overwritten.
            let count = bits.count_ones() as usize;
            let room: &mut [u32; 64] = self.positions[self.found..].first_chunk_mut().expect("room for a block");
            for position in &mut room[..USUAL] {
                *position = self.block as u32 + bits.trailing_zeros();
                bits &= bits.wrapping_sub(1);
            }
            for position in room.iter_mut().take(count).skip(USUAL) {
                *position = self.block as u32 + bits.trailing_zeros();
                bits &= bits - 1;
            }
            self.found += count;
            self.block += 64;
        }
    }
}

/// One bit for every byte that is `|` or line feed.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn wide_mask(block: &[u8; 64]) -> u64 {
    use std::arch::x86_64::*;
    let (bar, line) = (_mm256_set1_epi8(b'|' as i8), _mm256_set1_epi8(b'\n' as i8));
    let half = |i: usize| {
        // SAFETY: an unaligned load of thirty-two bytes that lie inside the sixty-four of `block`.
        let bytes = unsafe { _mm256_loadu_si256(block[32 * i..32 * i + 32].as_ptr().cast()) };
        let found = _mm256_or_si256(_mm256_cmpeq_epi8(bytes, bar), _mm256_cmpeq_epi8(bytes, line));
        _mm256_movemask_epi8(found) as u32 as u64
    };
    half(0) | half(1) << 32
}

/// The same with what every x86-64 processor has.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn narrow_mask(block: &[u8; 64]) -> u64 {
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
fn narrow_mask(block: &[u8; 64]) -> u64 {
    block.iter().enumerate().fold(0, |bits, (i, &b)| bits | ((b == b'|' || b == b'\n') as u64) << i)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that are left, one after the other.
    fn rest(delimiters: &mut Delimiters, end: usize) -> Vec<usize> {
        let mut all = Vec::new();
        while delimiters.three()[0] < end {
            all.extend(delimiters.three().iter().filter(|&&p| p < end));
            delimiters.pass_three();
        }
        all
    }

    #[test]
    fn every_delimiter_is_found_wherever_it_stands() {
        for seed in 0..200usize {
            let dense = if seed % 3 == 0 { 2 } else { 11 };
            let text: Vec<u8> = (0..3000)
                .map(|i| match i {
                    _ if (i * 7 + seed) % dense == 0 => b'|',
                    _ if (i + seed) % 17 == 0 => b'\n',
                    _ => b'x',
                })
                .collect();
            let end = text.len() - seed;
            let expected: Vec<usize> = (0..end).filter(|&i| text[i] != b'x').collect();
            let mut padded = text.clone();
            padded.extend([b'|'; PADDING]);
            let mut found = Delimiters::new(&padded, end);
            assert_eq!(rest(&mut found, end), expected);
            for from in [end / 2, end / 2 + 10, end - 1, 3, end / 3, end / 3 + 700, 0] {
                found.skip_to(from);
                found.three();
                found.skip_to(from + 1);
                let expected: Vec<usize> = expected.iter().copied().filter(|&p| p > from).collect();
                assert_eq!(rest(&mut found, end), expected);
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn both_masks_agree() {
        if !is_x86_feature_detected!("avx2") {
            return;
        }
        for seed in 0..1000u32 {
            let block: [u8; 64] =
                std::array::from_fn(|i| b"|\nx\xff"[(seed.wrapping_mul(i as u32 * i as u32 + 7) >> 3) as usize % 4]);
            // SAFETY: the processor has AVX2.
            assert_eq!(narrow_mask(&block), unsafe { wide_mask(&block) });
        }
    }
}
