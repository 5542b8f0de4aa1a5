//! The expressions that the values of a frame stand for, as text.

use crate::program::Slot;
use snag_model::symbolic::{Binary, Sort, Unary};
use std::rc::Rc;

/// What a value stands for.
#[derive(Clone, Debug)]
pub(crate) enum Sym {
    /// Itself, whatever was read.
    Constant,
    /// An expression over symbols.
    Expr {
        /// In Snag's text format.
        text: Rc<str>,
        /// Whether it depends on anything that was read. If not, its value is what it is.
        depends: bool,
        /// How deeply the text nests.
        depth: u32,
    },
}

impl Sym {
    /// A symbol.
    pub fn symbol(name: &str, depends: bool) -> Sym {
        Sym::Expr { text: name.into(), depends, depth: 0 }
    }

    /// Whether the value depends on anything that was read.
    pub fn depends(&self) -> bool {
        matches!(self, Sym::Expr { depends: true, .. })
    }

    pub fn depth(&self) -> u32 {
        match self {
            Sym::Constant => 1,
            Sym::Expr { depth, .. } => *depth,
        }
    }
}

/// The values of a frame and what they stand for.
pub(crate) struct Values<'a> {
    /// What they stand for.
    pub syms: &'a [Sym],
    /// The values.
    pub numbers: &'a [i128],
    /// The types.
    pub sorts: &'a dyn Fn(Slot) -> Sort,
}

impl Values<'_> {
    /// A slot as an expression of its own.
    pub fn alone(&self, slot: Slot) -> String {
        match &self.syms[slot] {
            Sym::Expr { text, .. } => text.to_string(),
            Sym::Constant => constant((self.sorts)(slot), self.numbers[slot]),
        }
    }

    /// A slot as an operand beside another that says the type.
    fn operand(&self, slot: Slot, beside: Slot) -> String {
        match (&self.syms[slot], &self.syms[beside]) {
            (Sym::Constant, Sym::Expr { .. }) => match i64::try_from(self.numbers[slot]) {
                Ok(number) => number.to_string(),
                Err(_) => self.alone(slot),
            },
            _ => self.alone(slot),
        }
    }

    /// What an operator with one operand gives, if not a constant.
    pub fn unary(&self, operator: Unary, a: Slot) -> Option<Sym> {
        let Sym::Expr { text, depends, depth } = &self.syms[a] else { return None };
        let text = match operator {
            Unary::Negate => format!("(- {text})"),
            Unary::Complement => format!("(bitnot {text})"),
            Unary::Not => match text.strip_prefix("(= ") {
                Some(rest) => format!("(!= {rest}"),
                None => format!("(not {text})"),
            },
        };
        Some(Sym::Expr { text: text.into(), depends: *depends, depth: depth + 1 })
    }

    /// What an operator with two operands gives, if not a constant.
    pub fn binary(&self, operator: Binary, a: Slot, b: Slot) -> Option<Sym> {
        let (left, right) = (&self.syms[a], &self.syms[b]);
        if matches!((left, right), (Sym::Constant, Sym::Constant)) {
            return None;
        }
        let word = match operator {
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::Multiply => "*",
            Binary::Divide => "/",
            Binary::Remainder => "%",
            Binary::BitAnd => "bitand",
            Binary::BitOr => "bitor",
            Binary::BitXor => "bitxor",
            Binary::ShiftLeft => "shl",
            Binary::ShiftRight => "shr",
            Binary::Equal => "=",
            Binary::Less => "<",
            Binary::LessEqual => "<=",
            Binary::And => "and",
            Binary::Or => "or",
        };
        let (x, y) = (self.operand(a, b), self.operand(b, a));
        // A constant reads better on the right.
        let text = match (operator, left) {
            (Binary::Less, Sym::Constant) => format!("(> {y} {x})"),
            (Binary::LessEqual, Sym::Constant) => format!("(>= {y} {x})"),
            _ => format!("({word} {x} {y})"),
        };
        let depends = left.depends() || right.depends();
        Some(Sym::Expr { text: text.into(), depends, depth: 1 + left.depth().max(right.depth()) })
    }

    /// What a conversion to a type gives.
    pub fn converted(&self, from: Slot, sort: Sort) -> Sym {
        match &self.syms[from] {
            Sym::Expr { text, depends, depth } if (self.sorts)(from) != sort => {
                Sym::Expr { text: format!("({sort} {text})").into(), depends: *depends, depth: depth + 1 }
            }
            sym => sym.clone(),
        }
    }

    /// The condition that a slot has the value that it has.
    pub fn is_what_it_is(&self, slot: Slot) -> String {
        let number = self.numbers[slot];
        match i64::try_from(number) {
            Ok(number) => format!("(= {} {number})", self.alone(slot)),
            Err(_) => format!("(= {} {})", self.alone(slot), constant((self.sorts)(slot), number)),
        }
    }

    /// The condition under which an operator has a value, unless it always has one; and whether it is true.
    pub fn is_defined(&self, operator: Binary, a: Slot, b: Slot) -> Option<(&'static str, String, bool)> {
        let sort = (self.sorts)(a);
        let (left, right) = (self.alone(a), self.alone(b));
        let (x, y) = (self.numbers[a], self.numbers[b]);
        match operator {
            Binary::Divide | Binary::Remainder => {
                let smallest = crate::machine::smallest(sort);
                // Nothing can be done about a constant; what is left is what may change.
                let overflow = smallest.filter(|&smallest| {
                    (self.syms[a].depends() || x == smallest) && (self.syms[b].depends() || y == -1)
                });
                let not_zero = self.syms[b].depends().then(|| format!("(!= {right} 0)"));
                let not_overflow = overflow.map(|smallest| match (self.syms[a].depends(), self.syms[b].depends()) {
                    (true, true) => format!("(or (!= {left} {smallest}) (!= {right} -1))"),
                    (true, false) => format!("(!= {left} {smallest})"),
                    _ => format!("(!= {right} -1)"),
                });
                let holds = y != 0 && !(Some(x) == smallest && y == -1);
                let text = match (not_zero, not_overflow) {
                    (Some(a), Some(b)) => format!("(and {a} {b})"),
                    (Some(one), None) | (None, Some(one)) => one,
                    (None, None) => return None,
                };
                Some(("divisor", text, holds))
            }
            Binary::ShiftLeft | Binary::ShiftRight if self.syms[b].depends() => {
                let width = sort.width().unwrap_or(64) as i128;
                let text = format!("(and (>= {right} 0) (< {right} {width}))");
                Some(("shift", text, (0..width).contains(&y)))
            }
            _ => None,
        }
    }
}

/// A constant as an expression of its own.
fn constant(sort: Sort, number: i128) -> String {
    match i64::try_from(number) {
        Ok(number) if sort == Sort::DEFAULT => number.to_string(),
        Ok(number) => format!("({sort} {number})"),
        // Only an unsigned number of 64 bits is larger; it keeps its bits.
        Err(_) => format!("({sort} {})", number as i64),
    }
}
