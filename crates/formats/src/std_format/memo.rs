//! Lines that were read before.
//!
//! A program does the same thing at the same place over and over, so most lines of a long trace are copies of earlier
//! ones. Whoever finds a line here need not take it apart and look its names up.
//!
//! Where lines hardly repeat, looking for them costs more than it saves. So it is tried for some thousand lines from time to
//! time, and goes on as long as most of them are found.

use super::plain::Window;
use snag_model::ids::ThreadId;
use snag_model::op::Op;

/// A longer line is not kept.
const LONGEST: usize = 32;

/// How many lines are kept, as a power of two: as much memory as a core has to itself.
const LOG_SIZE: u32 = 15;

/// After so many lines it is decided whether to go on.
const TRIAL: usize = 4096;
/// So many lines pass between a trial that failed and the next.
const PAUSE: usize = 64 * TRIAL;

/// The bytes of a line with its line feed, without which it might be the beginning of another one; and zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Bytes([u64; 4]);

impl Bytes {
    /// The first `length` bytes of a window, if they are not too many.
    #[inline(always)]
    pub fn of(window: &Window, length: usize) -> Option<Bytes> {
        /// Of each word the bits that belong to a line of a given length.
        const MASKS: [[u64; 4]; LONGEST + 1] = {
            let mut masks = [[0; 4]; LONGEST + 1];
            let mut length = 0;
            while length <= LONGEST {
                let mut byte = 0;
                while byte < length {
                    masks[length][byte / 8] |= 0xff << (byte % 8 * 8);
                    byte += 1;
                }
                length += 1;
            }
            masks
        };
        let masks = MASKS.get(length)?;
        let (words, _) = window.as_chunks::<8>();
        Some(Bytes(std::array::from_fn(|i| u64::from_le_bytes(words[i]) & masks[i])))
    }

    /// Where the line is kept.
    #[inline(always)]
    fn place(self) -> usize {
        const FACTORS: [u64; 4] =
            [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9, 0xd6e8_feb8_6659_fd93];
        let mixed = (0..4).fold(0u64, |sum, i| sum.wrapping_add(self.0[i].wrapping_mul(FACTORS[i])));
        (mixed >> (64 - LOG_SIZE)) as usize
    }
}

/// What a line says.
#[derive(Clone, Copy)]
pub(super) struct Said {
    pub thread: ThreadId,
    pub op: Op,
    pub target: u32,
    pub location: u32,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Entry {
    line: Bytes,
    said: Said,
}

/// Lines that were read before, and what they say.
pub(super) struct Memo {
    /// Empty until the first trial. No line consists of zeros.
    entries: Vec<Entry>,
    /// Whether lines are looked for.
    on: bool,
    /// Lines until it is decided again.
    left: usize,
    found: usize,
}

impl Memo {
    pub fn new() -> Memo {
        Memo { entries: Vec::new(), on: false, left: TRIAL, found: 0 }
    }

    pub fn is_on(&self) -> bool {
        self.on
    }

    #[inline(always)]
    pub fn get(&self, line: Bytes) -> Option<Said> {
        let entry = self.entries.get(line.place())?;
        (entry.line == line).then_some(entry.said)
    }

    pub fn keep(&mut self, line: Bytes, said: Said) {
        if let Some(entry) = self.entries.get_mut(line.place()) {
            *entry = Entry { line, said };
        }
    }

    /// So many lines were read, and so many of them found here.
    pub fn note(&mut self, lines: usize, found: usize) {
        self.left = self.left.saturating_sub(lines);
        self.found += found;
        if self.left > 0 {
            return;
        }
        // After a pause it is tried, after a trial it goes on if most lines were found.
        self.on = !self.on || self.found > TRIAL / 2;
        self.left = if self.on { TRIAL } else { PAUSE };
        self.found = 0;
        if self.on && self.entries.is_empty() {
            let said = Said { thread: ThreadId(0), op: Op::Read, target: 0, location: 0 };
            self.entries = vec![Entry { line: Bytes([0; 4]), said }; 1 << LOG_SIZE];
        }
    }
}
