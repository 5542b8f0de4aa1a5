//! The types of values in symbolic traces, and how values lie in memory.

use std::fmt;

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Sort {
    /// A truth value: what comparisons give and conditions take. 0 or 1 where a number is wanted.
    Bool,
    /// A mathematical integer.
    Int,
    /// An integer of a fixed width, as in C.
    Bits {
        /// 8, 16, 32 or 64.
        width: u8,
        /// Whether its highest bit is a sign.
        signed: bool,
    },
}

impl Sort {
    /// Where nothing is said.
    pub const DEFAULT: Sort = Sort::Bits { width: 64, signed: true };

    /// Every type.
    pub const ALL: [Sort; 10] = [
        Sort::Bool,
        Sort::Int,
        Sort::Bits { width: 8, signed: true },
        Sort::Bits { width: 16, signed: true },
        Sort::Bits { width: 32, signed: true },
        Sort::Bits { width: 64, signed: true },
        Sort::Bits { width: 8, signed: false },
        Sort::Bits { width: 16, signed: false },
        Sort::Bits { width: 32, signed: false },
        Sort::Bits { width: 64, signed: false },
    ];

    /// Its word in Snag's text format.
    pub fn word(self) -> &'static str {
        match self {
            Sort::Bool => "bool",
            Sort::Int => "int",
            Sort::Bits { width: 8, signed: true } => "i8",
            Sort::Bits { width: 16, signed: true } => "i16",
            Sort::Bits { width: 32, signed: true } => "i32",
            Sort::Bits { signed: true, .. } => "i64",
            Sort::Bits { width: 8, .. } => "u8",
            Sort::Bits { width: 16, .. } => "u16",
            Sort::Bits { width: 32, .. } => "u32",
            Sort::Bits { .. } => "u64",
        }
    }

    /// The type with this word.
    pub fn from_word(word: &str) -> Option<Sort> {
        Sort::ALL.into_iter().find(|sort| sort.word() == word)
    }

    /// The value of this type that a number becomes: of fixed width by wrapping around, a truth value by asking whether
    /// it is not zero.
    pub fn convert(self, value: i128) -> i128 {
        match self {
            Sort::Bool => (value != 0) as i128,
            Sort::Int => value,
            Sort::Bits { width, signed } => {
                let low = value & ((1 << width) - 1);
                if signed && low >> (width - 1) == 1 { low - (1 << width) } else { low }
            }
        }
    }

    /// Whether a number is a value of this type.
    pub fn holds(self, value: i128) -> bool {
        self.convert(value) == value
    }

    /// How a value lies in memory: its number, with the bits of a `u64`. An `int` beyond 64 bits fits no memory.
    pub fn to_memory(self, value: i128) -> Option<i64> {
        match self {
            Sort::Int => i64::try_from(value).ok(),
            _ => Some(value as i64),
        }
    }

    /// What a read of this type makes of memory; the opposite of [`Sort::to_memory`].
    pub fn from_memory(self, memory: i64) -> i128 {
        self.convert(memory as i128)
    }

    /// Width in bits of a number of fixed width.
    pub fn width(self) -> Option<u8> {
        match self {
            Sort::Bits { width, .. } => Some(width),
            _ => None,
        }
    }
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_around_as_in_c() {
        let of = |word: &str| Sort::from_word(word).unwrap();
        assert_eq!(of("i8").convert(128), -128);
        assert_eq!(of("i8").convert(-129), 127);
        assert_eq!(of("u8").convert(-1), 255);
        assert_eq!(of("i32").convert(1 << 31), -(1 << 31));
        assert_eq!(of("i64").convert(1 << 63), i64::MIN as i128);
        assert_eq!(of("u64").convert(-1), u64::MAX as i128);
        assert_eq!(of("int").convert(1 << 100), 1 << 100);
        assert_eq!(of("bool").convert(-7), 1);
    }

    #[test]
    fn memory_keeps_every_value() {
        for sort in Sort::ALL {
            for value in [0, 1, -1, 127, 128, 255, i64::MAX as i128, i64::MIN as i128, u64::MAX as i128] {
                let value = sort.convert(value);
                if let Some(memory) = sort.to_memory(value) {
                    assert_eq!(sort.from_memory(memory), value, "{sort}");
                }
            }
        }
        assert_eq!(Sort::Int.to_memory(1 << 64), None);
    }
}
