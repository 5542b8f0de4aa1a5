//! Numbers of any width as bits, in two's complement; the last bit is the sign.
//!
//! Number by number as wide as its value can be ([`super::arithmetic`]).

use crate::maximal::symbolic::circuit::Bit;

/// Bits, the lowest first; there is at least one, and the last one is the sign.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Number(Vec<Bit>);

/// The widest mathematical integer that the evaluator knows.
pub(crate) const WIDEST: usize = 128;

impl Number {
    pub fn constant(value: i128) -> Number {
        let bits = (0..WIDEST).map(|at| Bit::Known(value >> at & 1 == 1)).collect();
        Number(bits).trimmed()
    }

    pub fn from_bits(bits: Vec<Bit>) -> Number {
        debug_assert!(!bits.is_empty());
        Number(bits).trimmed()
    }

    /// Without leading bits that repeat the sign.
    fn trimmed(mut self) -> Number {
        while let [.., before, sign] = self.0[..]
            && before == sign
        {
            self.0.pop();
        }
        self
    }

    pub fn width(&self) -> usize {
        self.0.len()
    }

    pub fn sign(&self) -> Bit {
        self.0[self.0.len() - 1]
    }

    pub fn bit(&self, at: usize) -> Bit {
        self.0.get(at).copied().unwrap_or_else(|| self.sign())
    }

    pub fn bits(&self) -> impl Iterator<Item = Bit> {
        self.0.iter().copied()
    }

    /// Every bit the other way.
    pub fn complement(&self) -> Number {
        Number(self.bits().map(|bit| !bit).collect())
    }

    /// The lowest bits, as many as asked for.
    pub fn low(&self, width: usize) -> Vec<Bit> {
        (0..width).map(|at| self.bit(at)).collect()
    }

    /// Whether some of its bits are up to the solver.
    pub fn is_open(&self) -> bool {
        self.bits().any(|bit| matches!(bit, Bit::Open(_)))
    }

    /// The value, if all bits are known.
    #[cfg(test)]
    pub fn known(&self) -> Option<i128> {
        let mut value = 0;
        for at in 0..WIDEST {
            match self.bit(at) {
                Bit::Known(bit) => value |= (bit as i128) << at,
                Bit::Open(_) => return None,
            }
        }
        Some(value)
    }
}
