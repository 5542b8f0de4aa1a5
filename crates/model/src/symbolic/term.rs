//! Expressions as a graph of typed terms, and what they evaluate to.
//!
//! Every operator is applied to operands of one type; where the text leaves that to
//! the reader (a literal beside an `i32`, a comparison used as a number), parsing has
//! put in the conversions. So an engine can translate terms one by one.
//!
//! Arithmetic is that of C with overflow that wraps around. What C leaves undefined
//! and hardware traps or answers differently has no value here either
//! ([`Undefined`]): a schedule in which it is computed is not claimed to be feasible.

use super::sort::Sort;
use crate::ids::{DefinitionId, TermId};
use std::fmt;

/// An expression or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Term {
    /// The type of its value.
    pub sort: Sort,
    /// What it is made of; parts have smaller ids.
    pub node: Node,
}

/// What a term is made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Node {
    /// A value of the term's type.
    Constant(i128),
    /// What an earlier event of the same thread has defined.
    Symbol(DefinitionId),
    /// The operand converted to the term's type ([`Sort::convert`]).
    Convert(TermId),
    /// An operator with one operand.
    Unary(Unary, TermId),
    /// An operator with two operands of the same type.
    Binary(Binary, TermId, TermId),
    /// The second if the first is true, else the third, which has the same type. Only what is chosen is computed.
    Choose(TermId, TermId, TermId),
}

/// Operators with one operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unary {
    /// `-`, of numbers; wraps around.
    Negate,
    /// `bitnot`, of numbers of fixed width.
    Complement,
    /// `not`, of truth values.
    Not,
}

/// Operators with two operands of one type. Comparisons and `and`, `or` give a truth value, the others their
/// operands' type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Binary {
    /// `+`; wraps around.
    Add,
    /// `-`; wraps around.
    Subtract,
    /// `*`; wraps around.
    Multiply,
    /// `/`, towards zero; undefined if the second is zero, or the result does not fit (the smallest number by -1).
    Divide,
    /// `%`, with the sign of the first; undefined where `/` is.
    Remainder,
    /// `bitand`, of numbers of fixed width.
    BitAnd,
    /// `bitor`.
    BitOr,
    /// `bitxor`.
    BitXor,
    /// `shl`; undefined unless the second is from 0 to the width less one. Bits shifted out are lost.
    ShiftLeft,
    /// `shr`, which fills up with the sign if there is one; undefined where `shl` is.
    ShiftRight,
    /// `=`.
    Equal,
    /// `<`, by the sign of the type.
    Less,
    /// `<=`.
    LessEqual,
    /// `and` of truth values; the second is computed only if the first is true.
    And,
    /// `or` of truth values; the second is computed only if the first is false.
    Or,
}

/// Why a term has no value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Undefined {
    /// Division by zero, also in `%`.
    DivisionByZero,
    /// The smallest number of a signed type divided by -1.
    DivisionOverflow,
    /// A shift by less than zero or by the width or more.
    ShiftTooFar,
    /// A mathematical integer beyond what this program computes with (128 bits; 64 in memory).
    TooLarge,
}

impl fmt::Display for Undefined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Undefined::DivisionByZero => "division by zero",
            Undefined::DivisionOverflow => "the smallest number divided by -1",
            Undefined::ShiftTooFar => "a shift by less than zero or by the width or more",
            Undefined::TooLarge => "an integer too large to be computed with",
        })
    }
}

/// A value, or `None` if it depends on something that is not known.
pub type Evaluated = Result<Option<i128>, Undefined>;

/// The value of a term, given those of the symbols. All terms that `term` is made of are in `terms`.
///
/// Nesting is limited when expressions are parsed, so this recursion is, too.
pub fn evaluate(terms: &[Term], term: TermId, symbol: &impl Fn(DefinitionId) -> Option<i128>) -> Evaluated {
    let Term { sort, node } = terms[term.index()];
    let known = |part: TermId| evaluate(terms, part, symbol);
    match node {
        Node::Constant(value) => Ok(Some(value)),
        Node::Symbol(definition) => Ok(symbol(definition)),
        Node::Convert(part) => Ok(known(part)?.map(|value| sort.convert(value))),
        Node::Unary(operator, part) => {
            let Some(value) = known(part)? else { return Ok(None) };
            unary(operator, sort, value).map(Some)
        }
        Node::Binary(Binary::And, a, b) => match known(a)? {
            Some(0) => Ok(Some(0)),
            // It may be false, and then the second is not computed.
            None => Ok(None),
            Some(_) => known(b),
        },
        Node::Binary(Binary::Or, a, b) => match known(a)? {
            Some(0) => known(b),
            None => Ok(None),
            Some(_) => Ok(Some(1)),
        },
        Node::Binary(operator, a, b) => {
            let (a, b) = (known(a)?, known(b)?);
            match (a, b) {
                (Some(a), Some(b)) => binary(operator, sort, a, b).map(Some),
                _ => Ok(None),
            }
        }
        Node::Choose(condition, yes, no) => match known(condition)? {
            Some(0) => known(no),
            Some(_) => known(yes),
            None => Ok(None),
        },
    }
}

/// A result of arithmetic in a type; `None` if it is beyond 128 bits.
fn fit(sort: Sort, result: Option<i128>) -> Result<i128, Undefined> {
    result.map(|value| sort.convert(value)).ok_or(Undefined::TooLarge)
}

/// The value of an operator applied to a value of its type.
pub fn unary(operator: Unary, sort: Sort, value: i128) -> Result<i128, Undefined> {
    match operator {
        Unary::Negate => fit(sort, value.checked_neg()),
        Unary::Complement => Ok(sort.convert(!value)),
        Unary::Not => Ok((value == 0) as i128),
    }
}

/// The value of an operator applied to values of one type; `sort` is that of the result.
pub fn binary(operator: Binary, sort: Sort, a: i128, b: i128) -> Result<i128, Undefined> {
    match operator {
        Binary::Add => fit(sort, a.checked_add(b)),
        Binary::Subtract => fit(sort, a.checked_sub(b)),
        // Of a product of fixed width the low bits count, and these are right even where 128 are not enough.
        Binary::Multiply if sort != Sort::Int => fit(sort, Some(a.wrapping_mul(b))),
        Binary::Multiply => fit(sort, a.checked_mul(b)),
        Binary::Divide | Binary::Remainder => divide(operator, sort, a, b),
        Binary::BitAnd => Ok(sort.convert(a & b)),
        Binary::BitOr => Ok(sort.convert(a | b)),
        Binary::BitXor => Ok(sort.convert(a ^ b)),
        Binary::ShiftLeft | Binary::ShiftRight => {
            let width = sort.width().unwrap_or(64) as i128;
            if !(0..width).contains(&b) {
                return Err(Undefined::ShiftTooFar);
            }
            // A number of fixed width has at most 64 bits, so nothing is lost before wrapping around.
            Ok(sort.convert(if operator == Binary::ShiftLeft { a << b } else { a >> b }))
        }
        Binary::Equal => Ok((a == b) as i128),
        Binary::Less => Ok((a < b) as i128),
        Binary::LessEqual => Ok((a <= b) as i128),
        Binary::And => Ok((a != 0 && b != 0) as i128),
        Binary::Or => Ok((a != 0 || b != 0) as i128),
    }
}

fn divide(operator: Binary, sort: Sort, a: i128, b: i128) -> Result<i128, Undefined> {
    if b == 0 {
        return Err(Undefined::DivisionByZero);
    }
    let quotient = a.checked_div(b).ok_or(Undefined::TooLarge)?;
    if !sort.holds(quotient) {
        return Err(Undefined::DivisionOverflow);
    }
    Ok(if operator == Binary::Divide { quotient } else { a - b * quotient })
}
