//! From the text of an expression to typed terms.
//!
//! A literal takes the type of what stands beside it, a truth value becomes 0 or 1
//! where a number is wanted, and a number becomes "is not zero" where a truth value
//! is wanted. Nothing else is converted unless the text says so: `(i64 v)`.

use super::sort::Sort;
use super::term::{Binary, Node, Term, Unary};
use super::terms::Terms;
use crate::expr::{DEEPEST, is_symbol, parse_integer};
use crate::ids::{DefinitionId, TermId};

/// What is wrong with an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// It is not well formed.
    Form(String),
    /// A symbol has no value here.
    Undefined(String),
}

impl From<String> for Wrong {
    fn from(message: String) -> Wrong {
        Wrong::Form(message)
    }
}

/// Adds the terms of an expression and gives its own; `symbol` knows the symbols that are defined.
pub(super) fn parse(
    text: &str,
    terms: &mut Terms,
    symbol: impl Fn(&str) -> Option<(DefinitionId, Sort)>,
) -> Result<TermId, Wrong> {
    let mut parser = Parser { rest: text, terms, symbol };
    let part = parser.expression(0)?;
    if !parser.rest.is_empty() {
        return Err(format!("unexpected '{}' after the expression", parser.rest).into());
    }
    Ok(parser.default(part))
}

/// A parsed operand.
#[derive(Clone, Copy)]
enum Part {
    /// A number whose type follows from its surroundings.
    Literal(i64),
    Term(TermId),
}

struct Parser<'a, S> {
    rest: &'a str,
    terms: &'a mut Terms,
    symbol: S,
}

impl<S: Fn(&str) -> Option<(DefinitionId, Sort)>> Parser<'_, S> {
    fn expression(&mut self, depth: usize) -> Result<Part, Wrong> {
        if depth > DEEPEST {
            return Err(format!("expression nested deeper than {DEEPEST}").into());
        }
        let Some(inner) = self.rest.strip_prefix('(') else { return self.atom() };
        let end = inner.find([' ', ')']).ok_or_else(|| "unclosed '('".to_owned())?;
        let operator = &inner[..end];
        self.rest = &inner[end..];
        let mut operands = Vec::new();
        while let Some(next) = self.rest.strip_prefix(' ') {
            self.rest = next;
            operands.push(self.expression(depth + 1)?);
        }
        self.rest = self.rest.strip_prefix(')').ok_or_else(|| "missing ')'".to_owned())?;
        self.apply(operator, &operands)
    }

    fn atom(&mut self) -> Result<Part, Wrong> {
        let end = self.rest.find([' ', ')', '(']).unwrap_or(self.rest.len());
        let (atom, rest) = self.rest.split_at(end);
        self.rest = rest;
        if is_symbol(atom) {
            let (definition, sort) = (self.symbol)(atom).ok_or_else(|| Wrong::Undefined(atom.to_owned()))?;
            return Ok(self.term(sort, Node::Symbol(definition)));
        }
        match parse_integer(atom) {
            Some(value) => Ok(Part::Literal(value)),
            None => Err(format!("'{atom}' is neither a symbol nor an integer").into()),
        }
    }

    fn apply(&mut self, operator: &str, operands: &[Part]) -> Result<Part, Wrong> {
        let count = match (operator, operands.len()) {
            ("+" | "*" | "and" | "or", 2..) | ("-", 1..) | ("ite", 3) | ("not" | "bitnot", 1) => true,
            ("/" | "%" | "=" | "!=" | "<" | "<=" | ">" | ">=", 2) => true,
            ("bitand" | "bitor" | "bitxor" | "shl" | "shr", 2) => true,
            ("+" | "*" | "and" | "or" | "-" | "ite" | "not" | "bitnot" | "/" | "%" | "=" | "!=", _) => false,
            ("<" | "<=" | ">" | ">=" | "bitand" | "bitor" | "bitxor" | "shl" | "shr", _) => false,
            _ => match Sort::from_word(operator) {
                Some(sort) if operands.len() == 1 => {
                    let part = self.default(operands[0]);
                    return Ok(Part::Term(self.converted(part, sort)));
                }
                Some(_) => false,
                None => return Err(format!("unknown operator '{operator}'").into()),
            },
        };
        if !count {
            return Err(format!("'{operator}' does not take {} operands", operands.len()).into());
        }
        match (operator, operands) {
            ("not", &[operand]) => {
                let operand = self.condition(operand);
                Ok(self.term(Sort::Bool, Node::Unary(Unary::Not, operand)))
            }
            ("-" | "bitnot", &[operand]) => {
                let (unary, needs_bits) =
                    if operator == "-" { (Unary::Negate, false) } else { (Unary::Complement, true) };
                let [operand] = self.numbers([operand], operator, needs_bits)?;
                let sort = self.terms.sort(operand);
                Ok(self.term(sort, Node::Unary(unary, operand)))
            }
            ("ite", &[condition, yes, no]) => {
                let condition = self.condition(condition);
                let [yes, no] = self.same_type([yes, no], operator, true)?;
                let sort = self.terms.sort(yes);
                Ok(self.term(sort, Node::Choose(condition, yes, no)))
            }
            ("and" | "or", operands) => {
                let binary = if operator == "and" { Binary::And } else { Binary::Or };
                let mut all = operands.iter().map(|&operand| self.condition(operand)).collect::<Vec<_>>().into_iter();
                let first = all.next().expect("at least two");
                let folded = all.fold(first, |so_far, next| {
                    self.terms.add(Term { sort: Sort::Bool, node: Node::Binary(binary, so_far, next) })
                });
                Ok(Part::Term(folded))
            }
            (_, &[first, ref others @ ..]) => {
                let mut so_far = first;
                for &next in others {
                    so_far = self.binary(operator, so_far, next)?;
                }
                Ok(so_far)
            }
            (_, []) => unreachable!("operators take operands"),
        }
    }

    fn binary(&mut self, operator: &str, a: Part, b: Part) -> Result<Part, Wrong> {
        let comparison = |binary: Binary, swapped: bool, negated: bool| (binary, swapped, negated);
        let (binary, swapped, negated) = match operator {
            "=" => comparison(Binary::Equal, false, false),
            "!=" => comparison(Binary::Equal, false, true),
            "<" => comparison(Binary::Less, false, false),
            "<=" => comparison(Binary::LessEqual, false, false),
            ">" => comparison(Binary::Less, true, false),
            ">=" => comparison(Binary::LessEqual, true, false),
            _ => {
                let (binary, needs_bits) = match operator {
                    "+" => (Binary::Add, false),
                    "-" => (Binary::Subtract, false),
                    "*" => (Binary::Multiply, false),
                    "/" => (Binary::Divide, false),
                    "%" => (Binary::Remainder, false),
                    "bitand" => (Binary::BitAnd, true),
                    "bitor" => (Binary::BitOr, true),
                    "bitxor" => (Binary::BitXor, true),
                    "shl" => (Binary::ShiftLeft, true),
                    _ => (Binary::ShiftRight, true),
                };
                let [a, b] = self.numbers([a, b], operator, needs_bits)?;
                let sort = self.terms.sort(a);
                return Ok(self.term(sort, Node::Binary(binary, a, b)));
            }
        };
        let [a, b] = self.same_type([a, b], operator, binary == Binary::Equal)?;
        let (a, b) = if swapped { (b, a) } else { (a, b) };
        let compared = self.term(Sort::Bool, Node::Binary(binary, a, b));
        match (negated, compared) {
            (true, Part::Term(compared)) => Ok(self.term(Sort::Bool, Node::Unary(Unary::Not, compared))),
            _ => Ok(compared),
        }
    }

    fn term(&mut self, sort: Sort, node: Node) -> Part {
        Part::Term(self.terms.add(Term { sort, node }))
    }

    fn constant(&mut self, sort: Sort, value: i128) -> TermId {
        self.terms.add(Term { sort, node: Node::Constant(value) })
    }

    /// An operand whose surroundings do not say a type.
    fn default(&mut self, part: Part) -> TermId {
        match part {
            Part::Term(term) => term,
            Part::Literal(value) => self.constant(Sort::DEFAULT, value as i128),
        }
    }

    fn converted(&mut self, term: TermId, sort: Sort) -> TermId {
        if self.terms.sort(term) == sort {
            return term;
        }
        self.terms.add(Term { sort, node: Node::Convert(term) })
    }

    fn condition(&mut self, part: Part) -> TermId {
        let term = self.default(part);
        self.converted(term, Sort::Bool)
    }

    /// Operands of one type, which is not that of truth values.
    fn numbers<const N: usize>(
        &mut self,
        parts: [Part; N],
        operator: &str,
        needs_bits: bool,
    ) -> Result<[TermId; N], Wrong> {
        let terms = self.same_type(parts, operator, false)?;
        if needs_bits && self.terms.sort(terms[0]) == Sort::Int {
            return Err(format!("'{operator}' does not apply to numbers of type int, which have no width").into());
        }
        Ok(terms)
    }

    fn same_type<const N: usize>(
        &mut self,
        parts: [Part; N],
        operator: &str,
        or_truth: bool,
    ) -> Result<[TermId; N], Wrong> {
        let sorts = parts.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Term(term) => Some(self.terms.sort(*term)),
        });
        let mut number = None;
        let mut truths = 0;
        for sort in sorts {
            match number {
                _ if sort == Sort::Bool => truths += 1,
                Some(other) if other != sort => {
                    let message = format!("'{operator}' is applied to {other} and {sort}; convert one of them");
                    return Err(message.into());
                }
                _ => number = Some(sort),
            }
        }
        let sort = match number {
            Some(sort) => sort,
            None if or_truth && truths == N => Sort::Bool,
            None => Sort::DEFAULT,
        };
        let mut terms = [TermId(0); N];
        for (term, part) in terms.iter_mut().zip(parts) {
            *term = match part {
                Part::Term(term) => self.converted(term, sort),
                Part::Literal(value) if sort.holds(value as i128) => self.constant(sort, value as i128),
                Part::Literal(value) => return Err(format!("{value} does not fit into {sort}").into()),
            };
        }
        Ok(terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbolic::evaluate;

    /// Parses with symbols a = 5 (i64), b.1 = 7 (i64), s = -1 (i32), u = 200 (u8), n = 10 (int), t = true.
    fn value(text: &str) -> Result<String, Wrong> {
        let symbols = [
            ("a", "i64", 5),
            ("b.1", "i64", 7),
            ("s", "i32", -1),
            ("u", "u8", 200),
            ("n", "int", 10),
            ("t", "bool", 1),
        ];
        let mut terms = Terms::default();
        let find = |name: &str| {
            let at = symbols.iter().position(|symbol| symbol.0 == name)?;
            Some((DefinitionId::new(at), Sort::from_word(symbols[at].1)?))
        };
        let term = parse(text, &mut terms, find)?;
        let symbol = |id: DefinitionId| Some(symbols[id.index()].2);
        Ok(match evaluate(terms.all(), term, &symbol) {
            Ok(Some(value)) => format!("{value}:{}", terms.sort(term)),
            Ok(None) => unreachable!("all symbols are known"),
            Err(why) => why.to_string(),
        })
    }

    #[test]
    fn operators_do_what_they_do_in_c() {
        for (text, expected) in [
            ("7", "7:i64"),
            ("(+ a b.1 1)", "13:i64"),
            ("(- a)", "-5:i64"),
            ("(- a 1 1)", "3:i64"),
            ("(* a -2)", "-10:i64"),
            ("(/ (- b.1) 2)", "-3:i64"),
            ("(% (- b.1) 2)", "-1:i64"),
            ("(+ 9223372036854775807 1)", "-9223372036854775808:i64"),
            ("(+ u 100)", "44:u8"),
            ("(- 0 u)", "56:u8"),
            ("(* s 2)", "-2:i32"),
            ("(u32 s)", "4294967295:u32"),
            ("(i64 (u32 s))", "4294967295:i64"),
            ("(i8 u)", "-56:i8"),
            ("(< s 0)", "1:bool"),
            ("(< (u32 s) 1)", "0:bool"),
            ("(> a 4)", "1:bool"),
            ("(>= a 6)", "0:bool"),
            ("(!= a 5)", "0:bool"),
            ("(+ (< a 6) 1)", "2:i64"),
            ("(+ u t)", "201:u8"),
            ("(= t (< a 6))", "1:bool"),
            ("(= t 1)", "1:bool"),
            ("(and a t (< a 6))", "1:bool"),
            ("(or (= a 0) 0)", "0:bool"),
            ("(not a)", "0:bool"),
            ("(ite (< a 3) 1 (- b.1))", "-7:i64"),
            ("(bitand 12 10)", "8:i64"),
            ("(bitor 12 10)", "14:i64"),
            ("(bitxor 12 10)", "6:i64"),
            ("(bitnot u)", "55:u8"),
            ("(shl u 1)", "144:u8"),
            ("(shr u 3)", "25:u8"),
            ("(shr s 5)", "-1:i32"),
            ("(shl 1 63)", "-9223372036854775808:i64"),
            ("(* n n n n n n n n n n n n n n n n n n n n)", "100000000000000000000:int"),
            ("(u64 -1)", "18446744073709551615:u64"),
            ("(/ (u64 -1) 2)", "9223372036854775807:u64"),
            ("(bool 7)", "1:bool"),
        ] {
            assert_eq!(value(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_c_leaves_undefined_has_no_value() {
        for (text, why) in [
            ("(/ a 0)", "division by zero"),
            ("(% a (- a 5))", "division by zero"),
            ("(/ -9223372036854775808 -1)", "smallest number"),
            ("(% (i8 -128) (i8 s))", "smallest number"),
            ("(shl a 64)", "shift"),
            ("(shr s 32)", "shift"),
            ("(shl a -1)", "shift"),
            ("(* n n n n n n n n n n n n n n n n n n n n n n n n n n n n n n n n n n n n n n n)", "too large"),
        ] {
            let found = value(text).unwrap();
            assert!(found.contains(why), "{text}: {found}");
        }
    }

    #[test]
    fn what_is_not_computed_may_be_undefined() {
        assert_eq!(value("(and (!= a 5) (/ 1 0))").as_deref(), Ok("0:bool"));
        assert_eq!(value("(or a (/ 1 0))").as_deref(), Ok("1:bool"));
        assert_eq!(value("(ite a 1 (/ 1 0))").as_deref(), Ok("1:i64"));
        assert_eq!(value("(/ (int -7) 2)").as_deref(), Ok("-3:int"));
    }

    #[test]
    fn what_is_not_an_expression_is_named() {
        for (text, wrong) in [
            ("", "neither"),
            ("01", "neither"),
            ("-0", "neither"),
            ("(+ a)", "does not take 1"),
            ("(i32 a a)", "does not take 2"),
            ("(frob a b.1)", "unknown operator"),
            ("(+ a 1", "missing ')'"),
            ("(+ a 1) 2", "after the expression"),
            ("(+  a 1)", "neither"),
            ("(", "unclosed"),
            ("(+ a s)", "applied to i64 and i32"),
            ("(+ u 256)", "256 does not fit into u8"),
            ("(bitand n 1)", "no width"),
            ("(ite a n s)", "applied to int and i32"),
        ] {
            let Err(Wrong::Form(message)) = value(text) else { panic!("{text}") };
            assert!(message.contains(wrong), "{text}: {message}");
        }
        assert_eq!(value("(+ a zz)"), Err(Wrong::Undefined("zz".to_owned())));
        let deep = "(not ".repeat(300) + "a" + &")".repeat(300);
        assert!(matches!(value(&deep), Err(Wrong::Form(message)) if message.contains("deeper")));
    }
}
