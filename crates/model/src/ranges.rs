//! Which variable an address range is.
//!
//! A recorded program touches millions of addresses, and every access asks here when its trace is opened. So memory is
//! cut into lines of a few bytes, and a line is an array with a variable for each byte at which one starts: no hashing
//! as long as the accesses stay near each other. Several ranges that start at the same byte form a short chain; only
//! what is longer than that goes into a map. What was asked for lately is found without looking at any of this.

use crate::ids::VarId;
use crate::tables::Variable;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Bytes of a line. Longer lines would be found faster, and waste more where few bytes of a line are touched.
const LINE: usize = 32;

/// Logarithm of the number of lines and of ranges that are found at a glance: at first, and once there are many.
const FEW: u32 = 5;
const MANY: u32 = 15;

/// So many ranges are many.
const GROWN: usize = 1 << 12;

/// Ranges of one chain that are looked at before the map is.
const CHAIN: usize = 6;

/// No variable.
const NONE: u32 = u32::MAX;

/// A size that does not fit a byte; the variable itself tells.
const LARGE: u8 = 255;

/// The variables that start in a line.
#[derive(Clone, Debug)]
struct Line {
    variables: [u32; LINE],
    /// Sizes of these variables, so that these need not be looked at.
    sizes: [u8; LINE],
}

/// All ranges of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    lines: Vec<Line>,
    /// Line of each number (address / LINE).
    found: HashMap<u64, u32, Words>,
    /// Lines that were found last, by the lower bits of their number.
    recent: Vec<(u64, u32)>,
    /// Ranges that were asked for last, by a hash: address, size and variable.
    asked: Vec<(u64, u32, VarId)>,
    /// Logarithm of the length of both.
    bits: u32,
    /// For variables that start where another one does: the next one of the chain. May be shorter than it could be.
    next: Vec<u32>,
    /// Ranges for which a chain would be too long.
    rest: HashMap<(u64, u64), VarId>,
    count: usize,
}

impl Default for Ranges {
    fn default() -> Ranges {
        Ranges {
            lines: Vec::new(),
            found: HashMap::with_hasher(Words::default()),
            recent: Vec::new(),
            asked: Vec::new(),
            bits: FEW,
            next: Vec::new(),
            rest: HashMap::new(),
            count: 0,
        }
    }
}

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The variable that is this range, added to `variables` if new.
    #[inline]
    pub(crate) fn intern(&mut self, address: u64, size: u64, variables: &mut Vec<Variable>) -> VarId {
        let mixed = (address ^ size << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = (mixed >> (64 - self.bits)) as usize;
        match self.asked.get(slot) {
            Some(&(asked, bytes, variable)) if asked == address && bytes as u64 == size => variable,
            _ => {
                let variable = self.find(address, size, variables);
                // It may have become longer. A size that does not fit is never asked for.
                let slot = (mixed >> (64 - self.bits)) as usize;
                self.asked[slot] = (address, u32::try_from(size).unwrap_or(0), variable);
                variable
            }
        }
    }

    fn find(&mut self, address: u64, size: u64, variables: &mut Vec<Variable>) -> VarId {
        let line = self.line(address / LINE as u64);
        let at = (address % LINE as u64) as usize;
        let line = &mut self.lines[line as usize];
        let (first, short) = (line.variables[at], line.sizes[at]);
        if first != NONE && (short as u64 == size && short != LARGE) {
            return VarId(first);
        }
        let new = VarId::new(variables.len());
        if first == NONE {
            line.variables[at] = new.0;
            line.sizes[at] = size.min(LARGE as u64) as u8;
        } else if let Some(known) = self.follow(first, address, size, new, variables) {
            return known;
        }
        self.count += 1;
        variables.push(Variable::Range { address, size });
        new
    }

    /// Looks the range up among those that start where `first` does; `None` if `new` was put there.
    fn follow(&mut self, first: u32, address: u64, size: u64, new: VarId, variables: &[Variable]) -> Option<VarId> {
        let wanted = Variable::Range { address, size };
        let mut last = first;
        for length in 1..=CHAIN {
            if variables[last as usize] == wanted {
                return Some(VarId(last));
            }
            match self.next.get(last as usize) {
                Some(&next) if next != NONE => last = next,
                _ if length == CHAIN => break,
                _ => {
                    self.next.resize(self.next.len().max(last as usize + 1), NONE);
                    self.next[last as usize] = new.0;
                    return None;
                }
            }
        }
        match self.rest.entry((address, size)) {
            std::collections::hash_map::Entry::Occupied(known) => Some(*known.get()),
            std::collections::hash_map::Entry::Vacant(room) => {
                room.insert(new);
                None
            }
        }
    }

    /// The line of that number, made if new.
    #[inline]
    fn line(&mut self, number: u64) -> u32 {
        match self.recent.get(number as usize & ((1 << self.bits) - 1)) {
            Some(&(recent, line)) if recent == number => line,
            _ => self.find_line(number),
        }
    }

    #[inline(never)]
    fn find_line(&mut self, number: u64) -> u32 {
        let bits = if self.count < GROWN { FEW } else { MANY };
        if self.recent.len() != 1 << bits {
            self.bits = bits;
            // No address has this line, and no range this size.
            self.recent = vec![(u64::MAX, 0); 1 << bits];
            self.asked = vec![(0, 0, VarId(0)); 1 << bits];
        }
        let lines = &mut self.lines;
        let line = *self.found.entry(number).or_insert_with(|| {
            lines.push(Line { variables: [NONE; LINE], sizes: [0; LINE] });
            lines.len() as u32 - 1
        });
        self.recent[number as usize & ((1 << bits) - 1)] = (number, line);
        line
    }
}

/// A fast hash for single words, different in every table so that nobody can choose keys that collide.
#[derive(Clone, Copy, Debug)]
struct Words {
    seed: u64,
}

impl Default for Words {
    fn default() -> Words {
        Words { seed: RandomState::new().hash_one(0) | 1 }
    }
}

impl BuildHasher for Words {
    type Hasher = Word;

    fn build_hasher(&self) -> Word {
        Word(self.seed)
    }
}

struct Word(u64);

impl Hasher for Word {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte as u64));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word as u64);
    }

    fn write_u64(&mut self, word: u64) {
        let product = (self.0 ^ word) as u128 * 0x9e37_79b9_7f4a_7c15;
        let folded = product as u64 ^ (product >> 64) as u64;
        let product = (folded ^ self.0.rotate_left(32)) as u128 * 0xd6e8_feb8_6659_fd93;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_has_one_variable_however_many_start_at_a_byte() {
        let mut ranges = Ranges::default();
        let mut variables = Vec::new();
        let mut expected: HashMap<(u64, u64), VarId> = HashMap::new();
        let mut state = 7u64;
        for round in 0..40_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let far = [0, 0x7fff_0000_0000, u64::MAX - 5000][(state >> 60) as usize % 3];
            let address = far + (state >> 33) % 300;
            let size = [1, 2, 4, 8, 16, 254, 255, 256, 1 + round % 50][(state >> 20) as usize % 9];
            let id = ranges.intern(address, size, &mut variables);
            assert_eq!(*expected.entry((address, size)).or_insert(id), id);
            assert_eq!(variables[id.index()], Variable::Range { address, size });
        }
        assert_eq!((variables.len(), ranges.count), (expected.len(), expected.len()));
        assert!(!ranges.rest.is_empty() && !ranges.next.is_empty() && ranges.bits == MANY);
    }
}
