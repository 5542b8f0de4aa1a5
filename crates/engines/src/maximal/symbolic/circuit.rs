//! Gates: how truth values are combined into clauses.
//!
//! What is known already is folded away, and equal gates are made once; so a number that can only be small costs no more
//! than its few bits, and a read that can see one write only costs nothing.

use crate::maximal::formula::Formula;
use crate::maximal::solver::{Literal, Truth};
use std::collections::HashMap;

/// A truth value; mostly it is a bit of a number.
pub(crate) type Bit = Truth;

pub(crate) const YES: Bit = Bit::Known(true);
pub(crate) const NO: Bit = Bit::Known(false);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Gate {
    And(Bit, Bit),
    Xor(Bit, Bit),
    /// The second if the first is true, else the third.
    Choose(Bit, Bit, Bit),
    Majority(Bit, Bit, Bit),
}

/// Gates that have been made.
#[derive(Default)]
pub(crate) struct Circuit {
    made: HashMap<Gate, Bit>,
}

impl Circuit {
    fn gate(&mut self, formula: &mut Formula, gate: Gate, clauses: impl FnOnce(&mut Formula, Bit)) -> Bit {
        if let Some(&bit) = self.made.get(&gate) {
            return bit;
        }
        let bit = formula.derived();
        clauses(formula, bit);
        self.made.insert(gate, bit);
        bit
    }

    pub fn and(&mut self, formula: &mut Formula, a: Bit, b: Bit) -> Bit {
        match (a.min(b), a.max(b)) {
            (NO, _) => NO,
            (YES, other) => other,
            (a, b) if a == b => a,
            (a, b) if a == !b => NO,
            (a, b) => self.gate(formula, Gate::And(a, b), |formula, out| {
                formula.clause([!out, a]);
                formula.clause([!out, b]);
                formula.clause([out, !a, !b]);
            }),
        }
    }

    pub fn or(&mut self, formula: &mut Formula, a: Bit, b: Bit) -> Bit {
        !self.and(formula, !a, !b)
    }

    pub fn any(&mut self, formula: &mut Formula, bits: impl IntoIterator<Item = Bit>) -> Bit {
        bits.into_iter().fold(NO, |any, bit| self.or(formula, any, bit))
    }

    pub fn xor(&mut self, formula: &mut Formula, a: Bit, b: Bit) -> Bit {
        match (a, b) {
            (Bit::Known(known), other) | (other, Bit::Known(known)) => {
                if known {
                    !other
                } else {
                    other
                }
            }
            (a, b) if a == b => NO,
            (a, b) if a == !b => YES,
            (Bit::Open(a), Bit::Open(b)) => {
                // Signs come out of the gate, so that all four spellings are one.
                let flip = a.is_positive() != b.is_positive();
                let plain = |literal: Literal| Bit::Open(if literal.is_positive() { literal } else { !literal });
                let (a, b) = (plain(a).min(plain(b)), plain(a).max(plain(b)));
                let out = self.gate(formula, Gate::Xor(a, b), |formula, out| {
                    formula.clause([!out, a, b]);
                    formula.clause([!out, !a, !b]);
                    formula.clause([out, !a, b]);
                    formula.clause([out, a, !b]);
                });
                if flip { !out } else { out }
            }
        }
    }

    pub fn choose(&mut self, formula: &mut Formula, condition: Bit, yes: Bit, no: Bit) -> Bit {
        match (condition, yes, no) {
            (YES, yes, _) => yes,
            (NO, _, no) => no,
            (_, yes, no) if yes == no => yes,
            (condition, YES, no) => self.or(formula, condition, no),
            (condition, NO, no) => self.and(formula, !condition, no),
            (condition, yes, YES) => self.or(formula, !condition, yes),
            (condition, yes, NO) => self.and(formula, condition, yes),
            (condition, yes, no) => self.gate(formula, Gate::Choose(condition, yes, no), |formula, out| {
                formula.clause([!condition, !yes, out]);
                formula.clause([!condition, yes, !out]);
                formula.clause([condition, !no, out]);
                formula.clause([condition, no, !out]);
            }),
        }
    }

    /// At least two of three.
    pub fn majority(&mut self, formula: &mut Formula, a: Bit, b: Bit, c: Bit) -> Bit {
        let mut bits = [a, b, c];
        bits.sort_unstable();
        let [a, b, c] = bits;
        match (a, b, c) {
            (NO, b, c) => self.and(formula, b, c),
            (YES, b, c) => self.or(formula, b, c),
            (a, b, _) if a == b => a,
            (a, b, c) if b == c || b == !c => {
                if b == c {
                    b
                } else {
                    a
                }
            }
            (a, b, c) if a == c || a == !c => {
                if a == c {
                    a
                } else {
                    b
                }
            }
            (a, b, c) if a == !b => c,
            (a, b, c) => self.gate(formula, Gate::Majority(a, b, c), |formula, out| {
                for (x, y) in [(a, b), (a, c), (b, c)] {
                    formula.clause([out, !x, !y]);
                    formula.clause([!out, x, y]);
                }
            }),
        }
    }
}
