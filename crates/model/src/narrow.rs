//! A column of numbers that are mostly small.

use std::ops::Range;

/// Numbers, two bytes each until one does not fit. A long trace takes a third less memory for it, and the time to be
/// given that memory.
#[derive(Clone, Debug)]
pub enum Narrow {
    /// All fit into two bytes.
    Short(Vec<u16>),
    /// At least one does not.
    Long(Vec<u32>),
}

impl Narrow {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        match self {
            Narrow::Short(numbers) => numbers.len(),
            Narrow::Long(numbers) => numbers.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number at an index.
    #[inline]
    pub fn get(&self, index: usize) -> u32 {
        match self {
            Narrow::Short(numbers) => numbers[index] as u32,
            Narrow::Long(numbers) => numbers[index],
        }
    }

    /// Adds a number.
    #[inline(always)]
    pub fn push(&mut self, number: u32) {
        match self {
            Narrow::Short(numbers) if number <= u16::MAX as u32 => numbers.push(number as u16),
            _ => self.long().push(number),
        }
    }

    /// The numbers with room for any; they are moved there if need be.
    pub fn long(&mut self) -> &mut Vec<u32> {
        if let Narrow::Short(numbers) = self {
            *self = Narrow::Long(numbers.iter().map(|&n| n as u32).collect());
        }
        match self {
            Narrow::Long(numbers) => numbers,
            Narrow::Short(_) => unreachable!("was made long"),
        }
    }

    /// Removes all numbers.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Keeps the first `len` numbers.
    pub fn truncate(&mut self, len: usize) {
        match self {
            Narrow::Short(numbers) => numbers.truncate(len),
            Narrow::Long(numbers) => numbers.truncate(len),
        }
    }

    /// Makes room for `more` numbers.
    pub fn reserve(&mut self, more: usize) {
        match self {
            Narrow::Short(numbers) => numbers.reserve(more),
            Narrow::Long(numbers) => numbers.reserve(more),
        }
    }

    /// Adds numbers of two bytes at the most.
    pub fn extend_short(&mut self, more: impl Iterator<Item = u16>) {
        match self {
            Narrow::Short(numbers) => numbers.extend(more),
            Narrow::Long(numbers) => numbers.extend(more.map(u32::from)),
        }
    }

    /// Adds numbers of any size.
    pub fn extend(&mut self, more: &[u32]) {
        match self {
            Narrow::Short(numbers) if more.iter().all(|&n| n <= u16::MAX as u32) => {
                numbers.extend(more.iter().map(|&n| n as u16));
            }
            _ => self.long().extend_from_slice(more),
        }
    }

    /// Adds a part of another column.
    pub fn extend_from(&mut self, other: &Narrow, range: Range<usize>) {
        match other {
            Narrow::Short(more) => self.extend_short(more[range].iter().copied()),
            Narrow::Long(more) => self.extend(&more[range]),
        }
    }

    /// The numbers of a part, in order.
    pub fn range(&self, range: Range<usize>) -> impl ExactSizeIterator<Item = u32> {
        range.map(|index| self.get(index))
    }

    /// The largest number of a part; 0 if it is empty.
    pub fn largest(&self, range: Range<usize>) -> u32 {
        // Without an early end, so that it is vectorised.
        match self {
            Narrow::Short(numbers) => numbers[range].iter().fold(0, |largest, &n| largest.max(n)) as u32,
            Narrow::Long(numbers) => numbers[range].iter().fold(0, |largest, &n| largest.max(n)),
        }
    }

    /// How many numbers are not zero.
    pub fn nonzero(&self) -> usize {
        match self {
            Narrow::Short(numbers) => numbers.iter().filter(|&&n| n != 0).count(),
            Narrow::Long(numbers) => numbers.iter().filter(|&&n| n != 0).count(),
        }
    }
}

impl Default for Narrow {
    fn default() -> Narrow {
        Narrow::Short(Vec::new())
    }
}

impl PartialEq for Narrow {
    fn eq(&self, other: &Narrow) -> bool {
        self.range(0..self.len()).eq(other.range(0..other.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size_come_back_whatever_was_there_before() {
        let numbers = [0, 7, 65_535, 65_536, 3, u32::MAX, 0];
        for from in 0..numbers.len() {
            let (mut pushed, mut extended) = (Narrow::default(), Narrow::default());
            numbers.iter().for_each(|&n| pushed.push(n));
            pushed.truncate(from);
            extended.extend_from(&pushed, 0..from);
            extended.extend_short([1, 2].into_iter());
            pushed.push(1);
            pushed.push(2);
            assert_eq!(pushed, extended);
            assert_eq!(pushed.len(), from + 2);
            assert_eq!(pushed.range(0..from).collect::<Vec<_>>(), numbers[..from]);
            assert_eq!(extended.largest(0..from), numbers[..from].iter().copied().max().unwrap_or(0));
            assert_eq!(extended.nonzero(), numbers[..from].iter().filter(|&&n| n != 0).count() + 2);
        }
    }
}
