//! Arithmetic on numbers made of bits.
//!
//! The evaluator computes with integers and brings the result into its type ([`Sort::convert`]). So does this: every
//! operation yields as many bits as its result can have, and [`Arithmetic::convert`] cuts them down. Nothing overflows
//! unseen, whatever the type.

use crate::maximal::formula::Formula;
use crate::maximal::symbolic::circuit::{Bit, Circuit, NO, YES};
use crate::maximal::symbolic::number::{Number, WIDEST};
use snag_model::symbolic::{Binary, Sort, Unary};

/// Does arithmetic.
pub(crate) struct Arithmetic<'c, 'i> {
    pub circuit: &'c mut Circuit,
    pub formula: &'c mut Formula<'i>,
}

/// A result, and that there is none.
pub(crate) struct Computed {
    pub number: Number,
    pub undefined: Bit,
}

impl Arithmetic<'_, '_> {
    fn and(&mut self, a: Bit, b: Bit) -> Bit {
        self.circuit.and(self.formula, a, b)
    }

    fn or(&mut self, a: Bit, b: Bit) -> Bit {
        self.circuit.or(self.formula, a, b)
    }

    fn xor(&mut self, a: Bit, b: Bit) -> Bit {
        self.circuit.xor(self.formula, a, b)
    }

    /// The value of a type that a number becomes.
    pub fn convert(&mut self, sort: Sort, number: &Number) -> Number {
        match sort {
            Sort::Bool => Number::from_bits(vec![self.is_not_zero(number), NO]),
            Sort::Int => number.clone(),
            Sort::Bits { width, signed } => {
                let mut bits = number.low(width as usize);
                if !signed {
                    bits.push(NO);
                }
                Number::from_bits(bits)
            }
        }
    }

    pub fn is_not_zero(&mut self, number: &Number) -> Bit {
        self.circuit.any(self.formula, number.bits())
    }

    pub fn choose(&mut self, condition: Bit, yes: &Number, no: &Number) -> Number {
        let width = yes.width().max(no.width());
        let bits = (0..width).map(|at| self.circuit.choose(self.formula, condition, yes.bit(at), no.bit(at)));
        Number::from_bits(bits.collect())
    }

    pub fn equal(&mut self, a: &Number, b: &Number) -> Bit {
        let mut equal = YES;
        for at in 0..a.width().max(b.width()) {
            let differ = self.xor(a.bit(at), b.bit(at));
            equal = self.and(equal, !differ);
        }
        equal
    }

    fn less(&mut self, a: &Number, b: &Number) -> Bit {
        self.subtract(a, b).sign()
    }

    /// The sum of two numbers and a carry, cut to a width.
    fn sum(&mut self, a: &Number, b: &Number, mut carry: Bit, width: usize) -> Number {
        let mut bits = Vec::with_capacity(width);
        for at in 0..width {
            let (a, b) = (a.bit(at), b.bit(at));
            let half = self.xor(a, b);
            bits.push(self.xor(half, carry));
            if at + 1 < width {
                carry = self.circuit.majority(self.formula, a, b, carry);
            }
        }
        Number::from_bits(bits)
    }

    fn add(&mut self, a: &Number, b: &Number) -> Number {
        self.sum(a, b, NO, a.width().max(b.width()) + 1)
    }

    fn subtract(&mut self, a: &Number, b: &Number) -> Number {
        self.sum(a, &b.complement(), YES, a.width().max(b.width()) + 1)
    }

    fn negate(&mut self, a: &Number) -> Number {
        self.subtract(&Number::constant(0), a)
    }

    /// The product, cut to a width. The sign bit of the second factor counts negative.
    fn multiply(&mut self, a: &Number, b: &Number, width: usize) -> Number {
        let (a, b) = if a.width() >= b.width() { (a, b) } else { (b, a) };
        let mut product = Number::constant(0);
        for at in 0..b.width().min(width) {
            let mut row = vec![NO; at];
            for bit in a.low(width - at) {
                row.push(self.and(bit, b.bit(at)));
            }
            let row = Number::from_bits(row);
            product = match at + 1 == b.width() {
                false => self.sum(&product, &row, NO, width),
                true => self.sum(&product, &Number::complement(&row), YES, width),
            };
        }
        product
    }

    /// The magnitude as bits without a sign.
    fn magnitude(&mut self, a: &Number, width: usize) -> Vec<Bit> {
        let negative = self.negate(a);
        self.choose(a.sign(), &negative, a).low(width)
    }

    /// Quotient, towards zero, and remainder; anything if the second is zero.
    fn divide(&mut self, a: &Number, b: &Number) -> (Number, Number) {
        let width = a.width().max(b.width());
        let (dividend, divisor) = (self.magnitude(a, width), self.magnitude(b, width));
        let unsigned = |mut bits: Vec<Bit>| {
            bits.push(NO);
            Number::from_bits(bits)
        };
        // What is left is less than the divisor: if that can only be small, so is what is left.
        let narrow = divisor.iter().rposition(|&bit| bit != NO).map_or(1, |highest| highest + 1);
        let divisor = unsigned(divisor);
        let mut rest = Number::constant(0);
        let mut quotient = vec![NO; width];
        for at in (0..width).rev() {
            let mut bits = vec![dividend[at]];
            bits.extend(rest.low(narrow));
            let longer = unsigned(bits);
            let less = self.subtract(&longer, &divisor);
            quotient[at] = !less.sign();
            rest = self.choose(less.sign(), &longer, &less);
            rest = unsigned(rest.low(narrow));
        }
        let quotient = unsigned(quotient);
        let (minus_quotient, minus_rest) = (self.negate(&quotient), self.negate(&rest));
        let differ = self.xor(a.sign(), b.sign());
        (self.choose(differ, &minus_quotient, &quotient), self.choose(a.sign(), &minus_rest, &rest))
    }

    /// Left if `left`, by a number from 0 to `width` - 1.
    fn shift(&mut self, a: &Number, by: &Number, width: usize, left: bool) -> Number {
        let mut bits = a.low(width + 1);
        let fill = if left { NO } else { a.sign() };
        let mut step = 1;
        for stage in 0.. {
            if step >= width {
                break;
            }
            let moved = by.bit(stage);
            let source = |at: usize| match left {
                true => at.checked_sub(step).map_or(fill, |at| bits[at]),
                false => bits.get(at + step).copied().unwrap_or(fill),
            };
            let shifted: Vec<Bit> = (0..bits.len()).map(source).collect();
            bits = bits
                .iter()
                .zip(shifted)
                .map(|(&bit, shifted)| self.circuit.choose(self.formula, moved, shifted, bit))
                .collect();
            step *= 2;
        }
        Number::from_bits(bits)
    }

    /// A result brought into its type; a mathematical integer beyond 128 bits is none.
    fn fit(&mut self, sort: Sort, number: Number) -> Computed {
        let mut undefined = NO;
        if sort == Sort::Int {
            for at in WIDEST..number.width() {
                let differs = self.xor(number.bit(at), number.bit(WIDEST - 1));
                undefined = self.or(undefined, differs);
            }
            let number = Number::from_bits(number.low(WIDEST.min(number.width())));
            return Computed { number, undefined };
        }
        Computed { number: self.convert(sort, &number), undefined }
    }

    pub fn unary(&mut self, operator: Unary, sort: Sort, a: &Number) -> Computed {
        match operator {
            Unary::Negate => {
                let negative = self.negate(a);
                self.fit(sort, negative)
            }
            Unary::Complement => self.fit(sort, a.complement()),
            Unary::Not => {
                let not = !self.is_not_zero(a);
                truth(not)
            }
        }
    }

    /// Two operands of one type; `sort` is that of the result. `and` and `or` are for the caller, who knows what is not
    /// computed.
    pub fn binary(&mut self, operator: Binary, sort: Sort, a: &Number, b: &Number) -> Computed {
        match operator {
            Binary::Add => {
                let sum = self.add(a, b);
                self.fit(sort, sum)
            }
            Binary::Subtract => {
                let difference = self.subtract(a, b);
                self.fit(sort, difference)
            }
            Binary::Multiply => {
                let all = a.width() + b.width();
                let product = self.multiply(a, b, sort.width().map_or(all, |width| all.min(width as usize)));
                self.fit(sort, product)
            }
            Binary::Divide | Binary::Remainder => {
                let (quotient, remainder) = self.divide(a, b);
                let by_zero = !self.is_not_zero(b);
                let mut fitted = self.fit(sort, quotient.clone());
                let fits = self.equal(&fitted.number, &quotient);
                fitted.undefined = self.or(fitted.undefined, !fits);
                fitted.undefined = self.or(fitted.undefined, by_zero);
                if operator == Binary::Remainder {
                    fitted.number = remainder;
                }
                fitted
            }
            Binary::BitAnd | Binary::BitOr | Binary::BitXor => {
                let width = a.width().max(b.width());
                let mut bits = Vec::new();
                for at in 0..width {
                    let (a, b) = (a.bit(at), b.bit(at));
                    bits.push(match operator {
                        Binary::BitAnd => self.and(a, b),
                        Binary::BitOr => self.or(a, b),
                        _ => self.xor(a, b),
                    });
                }
                self.fit(sort, Number::from_bits(bits))
            }
            Binary::ShiftLeft | Binary::ShiftRight => {
                let width = sort.width().unwrap_or(64) as usize;
                let shifted = self.shift(a, b, width, operator == Binary::ShiftLeft);
                let too_far = self.less(b, &Number::constant(width as i128));
                let undefined = self.or(!too_far, b.sign());
                Computed { undefined, ..self.fit(sort, shifted) }
            }
            Binary::Equal => {
                let equal = self.equal(a, b);
                truth(equal)
            }
            Binary::Less => {
                let less = self.less(a, b);
                truth(less)
            }
            Binary::LessEqual => {
                let more = self.less(b, a);
                truth(!more)
            }
            Binary::And => {
                let (a, b) = (self.is_not_zero(a), self.is_not_zero(b));
                let both = self.and(a, b);
                truth(both)
            }
            Binary::Or => {
                let (a, b) = (self.is_not_zero(a), self.is_not_zero(b));
                let either = self.or(a, b);
                truth(either)
            }
        }
    }
}

/// A truth value as a number.
pub(crate) fn truth(bit: Bit) -> Computed {
    Computed { number: Number::from_bits(vec![bit, NO]), undefined: NO }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maximal::cuts::{Cuts, Target};
    use crate::maximal::index::Index;
    use crate::maximal::solver::Outcome;
    use snag_model::symbolic::{binary, unary};
    use snag_model::{Cells, EventId, Trace};

    const SORTS: [&str; 6] = ["i8", "u8", "i16", "u64", "i64", "int"];
    const OPERATORS: [Binary; 15] = [
        Binary::Add,
        Binary::Subtract,
        Binary::Multiply,
        Binary::Divide,
        Binary::Remainder,
        Binary::BitAnd,
        Binary::BitOr,
        Binary::BitXor,
        Binary::ShiftLeft,
        Binary::ShiftRight,
        Binary::Equal,
        Binary::Less,
        Binary::LessEqual,
        Binary::And,
        Binary::Or,
    ];

    fn interesting(sort: Sort) -> Vec<i128> {
        let big = [0, 1, -1, 2, 3, -3, 7, 8, 63, 64, 100, -128, 127, 128, 255, i64::MIN as i128, i64::MAX as i128];
        let more = [u64::MAX as i128, i128::MAX, i128::MIN, 1 << 70, -(1 << 65)];
        let mut values: Vec<i128> = big.into_iter().chain(more).map(|value| sort.convert(value)).collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    fn result_sort(operator: Binary, sort: Sort) -> Sort {
        match operator {
            Binary::Equal | Binary::Less | Binary::LessEqual | Binary::And | Binary::Or => Sort::Bool,
            _ => sort,
        }
    }

    fn applies(operator: Binary, sort: Sort) -> bool {
        let fixed = matches!(
            operator,
            Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::ShiftLeft | Binary::ShiftRight
        );
        !(fixed && sort == Sort::Int)
    }

    /// Nothing is known about an empty trace.
    fn empty<'i>(index: &'i Index<'i>) -> Formula<'i> {
        let target = Target { events: &[], base: EventId(0), end: EventId(0) };
        let cuts = Cuts { least: Vec::new(), most: Vec::new() };
        Formula::new(index, &target, cuts, false, u64::MAX, None)
    }

    #[test]
    fn what_is_known_is_computed_as_the_evaluator_does() {
        let (trace, mut circuit) = (Trace::default(), Circuit::default());
        let cells = Cells::of(&trace);
        let index = Index::symbolic(&trace, &cells);
        let mut formula = empty(&index);
        let mut arithmetic = Arithmetic { circuit: &mut circuit, formula: &mut formula };
        for sort in SORTS.map(|word| Sort::from_word(word).unwrap()) {
            for a in interesting(sort) {
                for operator in [Unary::Negate, Unary::Complement, Unary::Not] {
                    if operator == Unary::Complement && sort == Sort::Int {
                        continue;
                    }
                    let of = if operator == Unary::Not { Sort::Bool } else { sort };
                    let computed = arithmetic.unary(operator, of, &Number::constant(a));
                    let expected = unary(operator, of, a);
                    assert_eq!(computed.undefined, Bit::Known(expected.is_err()), "{operator:?} {sort} {a}");
                    if let Ok(expected) = expected {
                        assert_eq!(computed.number.known(), Some(expected), "{operator:?} {sort} {a}");
                    }
                }
                for b in interesting(sort) {
                    for operator in OPERATORS.into_iter().filter(|&operator| applies(operator, sort)) {
                        let of = result_sort(operator, sort);
                        let computed = arithmetic.binary(operator, of, &Number::constant(a), &Number::constant(b));
                        let expected = binary(operator, of, a, b);
                        assert_eq!(computed.undefined, Bit::Known(expected.is_err()), "{operator:?} {sort} {a} {b}");
                        if let Ok(expected) = expected {
                            assert_eq!(computed.number.known(), Some(expected), "{operator:?} {sort} {a} {b}");
                        }
                    }
                }
            }
        }
    }

    /// The same with bits that the solver has to find: the operands are fixed by clauses only.
    #[test]
    fn what_the_solver_finds_is_what_the_evaluator_says() {
        let trace = Trace::default();
        let cells = Cells::of(&trace);
        let index = Index::symbolic(&trace, &cells);
        for word in ["i8", "u8"] {
            let sort = Sort::from_word(word).unwrap();
            for operator in OPERATORS {
                let of = result_sort(operator, sort);
                for (a, b) in [(100, 3), (-128, -1), (-7, 2), (7, -2), (5, 0), (1, 7), (-1, 8), (255, 255), (3, 3)] {
                    let (a, b) = (sort.convert(a), sort.convert(b));
                    let (mut formula, mut circuit) = (empty(&index), Circuit::default());
                    let mut operands = Vec::new();
                    for value in [a, b] {
                        let bits: Vec<Bit> = (0..9).map(|_| formula.fresh(false)).collect();
                        for (at, &bit) in bits.iter().enumerate() {
                            formula.clause([if value >> at & 1 == 1 { bit } else { !bit }]);
                        }
                        operands.push(Number::from_bits(bits));
                    }
                    let mut arithmetic = Arithmetic { circuit: &mut circuit, formula: &mut formula };
                    let computed = arithmetic.binary(operator, of, &operands[0], &operands[1]);
                    assert_eq!(formula.solve(), Outcome::Satisfiable);
                    let value = |bit: Bit| formula.value(bit).unwrap();
                    match binary(operator, of, a, b) {
                        Err(_) => assert!(value(computed.undefined), "{operator:?} {word} {a} {b}"),
                        Ok(expected) => {
                            assert!(!value(computed.undefined), "{operator:?} {word} {a} {b}");
                            let bits = (0..16).map(|at| (value(computed.number.bit(at)) as i128) << at);
                            assert_eq!(
                                Sort::from_word("i16").unwrap().convert(bits.sum()),
                                expected,
                                "{operator:?} {word} {a} {b}"
                            );
                        }
                    }
                }
            }
        }
    }
}
