//! The code of expressions, with the conversions that types ask for.

use super::Compiled;
use super::body::{Body, Local, Operand};
use super::globals::{Global, Signature};
use crate::ast::{Expr, ExprKind, Name};
use crate::error::{Mistake, Span};
use crate::program::*;
use snag_model::symbolic::{Binary, Sort, Unary};

impl Body<'_> {
    pub(super) fn expression(&mut self, expr: &Expr) -> Compiled<Operand> {
        match &expr.kind {
            ExprKind::Number(number) => Ok(Operand::Literal(*number)),
            ExprKind::Variable(name) => match self.find(name) {
                Some(Local::Slot(slot)) => Ok(Operand::Slot(slot)),
                Some(Local::Array(..)) => Err(Mistake::new(expr.span, format!("'{name}' is an array"))),
                None => match self.globals.names.get(name).copied() {
                    Some(Global::Object(value)) => {
                        let to = self.slot("", Sort::DEFAULT);
                        self.emit(Instruction::Constant { to, value });
                        Ok(Operand::Slot(to))
                    }
                    _ => self.load(expr),
                },
            },
            ExprKind::Index(array, index) => {
                if let ExprKind::Variable(name) = &array.kind
                    && let Some(Local::Array(base, length)) = self.find(name)
                {
                    let index = self.index(index)?;
                    let to = self.slot("", self.sort(base));
                    self.emit(Instruction::LocalLoad { to, base, length, index });
                    return Ok(Operand::Slot(to));
                }
                self.load(expr)
            }
            ExprKind::Field(..) => self.load(expr),
            ExprKind::Convert(sort, operand) => {
                let operand = self.expression(operand)?;
                let from = self.in_slot(operand);
                let to = self.slot("", *sort);
                self.emit(Instruction::Copy { to, from });
                Ok(Operand::Slot(to))
            }
            ExprKind::Unary("!", operand) => {
                let a = self.truth(operand)?;
                let to = self.slot("", Sort::Bool);
                self.emit(Instruction::Unary { operator: Unary::Not, to, a });
                Ok(Operand::Slot(to))
            }
            ExprKind::Unary(operator, operand) => {
                let value = self.expression(operand)?;
                if let (Operand::Literal(value), "-") = (value, *operator) {
                    return Ok(Operand::Literal(-value));
                }
                let slot = self.in_slot(value);
                let sort = number_sort(self.sort(slot));
                if *operator == "~" && sort == Sort::Int {
                    return Err(Mistake::new(expr.span, "'~' does not apply to the type integer, which has no width"));
                }
                let a = self.converted(Operand::Slot(slot), sort, expr.span)?;
                let to = self.slot("", sort);
                let operator = if *operator == "-" { Unary::Negate } else { Unary::Complement };
                self.emit(Instruction::Unary { operator, to, a });
                Ok(Operand::Slot(to))
            }
            ExprKind::Binary(operator @ ("&&" | "||"), a, b) => self.short_circuit(operator, a, b),
            ExprKind::Binary(operator, a, b) => {
                let a = self.expression(a)?;
                // What stands left is read before what stands right changes it.
                let b = self.expression(b)?;
                self.arithmetic(operator, a, b, expr.span)
            }
            ExprKind::Choose(condition, yes, no) => self.choose(condition, yes, no),
            ExprKind::Call(name, arguments) => {
                let to = self.call(name, arguments, true)?;
                Ok(Operand::Slot(to.expect("a value is wanted")))
            }
            ExprKind::CallVirtual(object, name, arguments) => {
                let to = self.call_virtual(object, name, arguments, true)?;
                Ok(Operand::Slot(to.expect("a value is wanted")))
            }
        }
    }

    pub(super) fn load(&mut self, expr: &Expr) -> Compiled<Operand> {
        let (place, sort) = self.place(expr)?;
        let to = self.slot("", sort);
        self.emit(Instruction::Load { to, place });
        Ok(Operand::Slot(to))
    }

    /// Whether evaluating an expression can neither be seen by other threads nor fail: then it need not be skipped.
    pub(super) fn is_harmless(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Number(_) => true,
            ExprKind::Variable(name) => {
                matches!(self.find(name), Some(Local::Slot(_)))
                    || self.find(name).is_none() && matches!(self.globals.names.get(name), Some(Global::Object(_)))
            }
            ExprKind::Unary(_, a) | ExprKind::Convert(_, a) => self.is_harmless(a),
            ExprKind::Binary(operator, a, b) => {
                !matches!(*operator, "/" | "%" | "<<" | ">>") && self.is_harmless(a) && self.is_harmless(b)
            }
            ExprKind::Choose(a, b, c) => self.is_harmless(a) && self.is_harmless(b) && self.is_harmless(c),
            _ => false,
        }
    }

    pub(super) fn short_circuit(&mut self, operator: &str, a: &Expr, b: &Expr) -> Compiled<Operand> {
        let left = self.truth(a)?;
        let to = self.slot("", Sort::Bool);
        let and = operator == "&&";
        if self.is_harmless(b) {
            let right = self.truth(b)?;
            let operator = if and { Binary::And } else { Binary::Or };
            self.emit(Instruction::Binary { operator, to, a: left, b: right });
            return Ok(Operand::Slot(to));
        }
        self.emit(Instruction::Copy { to, from: left });
        let next = self.here() + 1;
        let branch = self.emit(Instruction::Branch { condition: left, yes: next, no: next });
        let right = self.truth(b)?;
        self.emit(Instruction::Copy { to, from: right });
        self.goes_to(branch, !and);
        Ok(Operand::Slot(to))
    }

    pub(super) fn choose(&mut self, condition: &Expr, yes: &Expr, no: &Expr) -> Compiled<Operand> {
        let branch = self.branch(condition)?;
        let first = self.expression(yes)?;
        // The type is that of both sides together; the second is compiled behind the first and tells it.
        let hole = self.emit(Instruction::Jump(0));
        let over = self.emit(Instruction::Jump(0));
        self.goes_to(branch, false);
        let second = self.expression(no)?;
        let sort = match (first, second) {
            (Operand::Literal(_), Operand::Literal(_)) => Sort::DEFAULT,
            (Operand::Slot(slot), Operand::Literal(_)) | (Operand::Literal(_), Operand::Slot(slot)) => {
                number_sort(self.sort(slot))
            }
            (Operand::Slot(a), Operand::Slot(b)) => common(self.sort(a), self.sort(b)),
        };
        let to = self.slot("", sort);
        let copy = |body: &Self, operand: Operand, span: Span| match operand {
            Operand::Literal(value) => {
                body.fits(value, sort, span)?;
                Ok(Instruction::Constant { to, value })
            }
            Operand::Slot(from) => Ok(Instruction::Copy { to, from }),
        };
        self.function.code[hole].0 = copy(self, first, yes.span)?;
        let last = copy(self, second, no.span)?;
        self.emit(last);
        self.lands(over);
        Ok(Operand::Slot(to))
    }

    pub(super) fn arithmetic(&mut self, operator: &str, a: Operand, b: Operand, span: Span) -> Compiled<Operand> {
        let (binary, swapped, negated) = match operator {
            "+" => (Binary::Add, false, false),
            "-" => (Binary::Subtract, false, false),
            "*" => (Binary::Multiply, false, false),
            "/" => (Binary::Divide, false, false),
            "%" => (Binary::Remainder, false, false),
            "&" => (Binary::BitAnd, false, false),
            "|" => (Binary::BitOr, false, false),
            "^" => (Binary::BitXor, false, false),
            "<<" => (Binary::ShiftLeft, false, false),
            ">>" => (Binary::ShiftRight, false, false),
            "==" => (Binary::Equal, false, false),
            "!=" => (Binary::Equal, false, true),
            "<" => (Binary::Less, false, false),
            "<=" => (Binary::LessEqual, false, false),
            ">" => (Binary::Less, true, false),
            _ => (Binary::LessEqual, true, false),
        };
        let sort = match (a, b) {
            (Operand::Literal(a), Operand::Literal(b)) => {
                let fits = |value: i128| Sort::DEFAULT.holds(value);
                let wide = Sort::Bits { width: 64, signed: false };
                if fits(a) && fits(b) { Sort::DEFAULT } else { wide }
            }
            (Operand::Slot(slot), Operand::Literal(_)) | (Operand::Literal(_), Operand::Slot(slot)) => {
                number_sort(self.sort(slot))
            }
            (Operand::Slot(a), Operand::Slot(b)) => common(self.sort(a), self.sort(b)),
        };
        let needs_bits = matches!(operator, "&" | "|" | "^" | "<<" | ">>") && sort == Sort::Int;
        if needs_bits {
            let message = format!("'{operator}' does not apply to the type integer, which has no width");
            return Err(Mistake::new(span, message));
        }
        let a = self.converted(a, sort, span)?;
        let b = self.converted(b, sort, span)?;
        let compares = matches!(binary, Binary::Equal | Binary::Less | Binary::LessEqual);
        let to = self.slot("", if compares { Sort::Bool } else { sort });
        let (a, b) = if swapped { (b, a) } else { (a, b) };
        self.emit(Instruction::Binary { operator: binary, to, a, b });
        if negated {
            let not = self.slot("", Sort::Bool);
            self.emit(Instruction::Unary { operator: Unary::Not, to: not, a: to });
            return Ok(Operand::Slot(not));
        }
        Ok(Operand::Slot(to))
    }

    pub(super) fn fits(&self, value: i128, sort: Sort, span: Span) -> Compiled<()> {
        match sort.holds(value) {
            true => Ok(()),
            false => Err(Mistake::new(span, format!("{value} does not fit into {sort}"))),
        }
    }

    pub(super) fn in_slot(&mut self, operand: Operand) -> Slot {
        match operand {
            Operand::Slot(slot) => slot,
            Operand::Literal(value) => {
                let sort =
                    if Sort::DEFAULT.holds(value) { Sort::DEFAULT } else { Sort::Bits { width: 64, signed: false } };
                let to = self.slot("", sort);
                self.emit(Instruction::Constant { to, value });
                to
            }
        }
    }

    pub(super) fn converted(&mut self, operand: Operand, sort: Sort, span: Span) -> Compiled<Slot> {
        match operand {
            Operand::Slot(slot) if self.sort(slot) == sort => Ok(slot),
            Operand::Slot(from) => {
                let to = self.slot("", sort);
                self.emit(Instruction::Copy { to, from });
                Ok(to)
            }
            Operand::Literal(value) => {
                self.fits(value, sort, span)?;
                let to = self.slot("", sort);
                self.emit(Instruction::Constant { to, value });
                Ok(to)
            }
        }
    }

    pub(super) fn truth(&mut self, expr: &Expr) -> Compiled<Slot> {
        let operand = self.expression(expr)?;
        let slot = self.in_slot(operand);
        if self.sort(slot) == Sort::Bool {
            return Ok(slot);
        }
        let to = self.slot("", Sort::Bool);
        self.emit(Instruction::Copy { to, from: slot });
        Ok(to)
    }

    pub(super) fn passed(&mut self, name: &Name, arguments: &[Expr], parameters: &[Sort]) -> Compiled<Vec<Slot>> {
        if arguments.len() != parameters.len() {
            let message = format!("{} takes {} arguments, not {}", name.text, parameters.len(), arguments.len());
            return Err(Mistake::new(name.span, message));
        }
        let mut slots = Vec::new();
        for (argument, &sort) in arguments.iter().zip(parameters) {
            let operand = self.expression(argument)?;
            slots.push(self.converted(operand, sort, argument.span)?);
        }
        Ok(slots)
    }

    /// Where a returned value goes, if anybody wants it.
    pub(super) fn returned(&mut self, name: &Name, returns: Option<Sort>, wanted: bool) -> Compiled<Option<Slot>> {
        match returns {
            Some(sort) => Ok(Some(self.slot("", sort))),
            None if wanted => Err(Mistake::new(name.span, format!("{} returns nothing", name.text))),
            None => Ok(None),
        }
    }

    pub(super) fn call(&mut self, name: &Name, arguments: &[Expr], wanted: bool) -> Compiled<Option<Slot>> {
        let Global::Function(function) = self.global(&name.text, name.span)? else {
            return Err(Mistake::new(name.span, format!("'{}' is no function", name.text)));
        };
        let Signature { parameters, returns } = self.globals.functions[function].clone();
        let arguments = self.passed(name, arguments, &parameters)?;
        let to = self.returned(name, returns, wanted)?;
        self.emit(Instruction::Call { function, arguments, to });
        Ok(to)
    }

    pub(super) fn call_virtual(
        &mut self,
        object: &Expr,
        name: &Name,
        arguments: &[Expr],
        wanted: bool,
    ) -> Compiled<Option<Slot>> {
        let Some(Signature { parameters, returns }) = self.globals.methods.get(&name.text).cloned() else {
            return Err(Mistake::new(name.span, format!("no class has a method {}", name.text)));
        };
        let operand = self.expression(object)?;
        let object = self.converted(operand, Sort::DEFAULT, object.span)?;
        let arguments = self.passed(name, arguments, &parameters)?;
        let to = self.returned(name, returns, wanted)?;
        let method = self.globals.member(&name.text);
        self.emit(Instruction::CallVirtual { object, method, arguments, to });
        Ok(to)
    }
}

/// The type in which a value is computed with.
pub(super) fn number_sort(sort: Sort) -> Sort {
    if sort == Sort::Bool { Sort::DEFAULT } else { sort }
}

/// The type in which two values are computed with: the wider one; of two that are equally wide, the unsigned one.
pub(super) fn common(a: Sort, b: Sort) -> Sort {
    match (a, b) {
        (Sort::Bool, other) | (other, Sort::Bool) => number_sort(other),
        (Sort::Int, _) | (_, Sort::Int) => Sort::Int,
        (Sort::Bits { width: wa, signed: sa }, Sort::Bits { width: wb, signed: sb }) => match wa.cmp(&wb) {
            std::cmp::Ordering::Greater => a,
            std::cmp::Ordering::Less => b,
            std::cmp::Ordering::Equal => Sort::Bits { width: wa, signed: sa && sb },
        },
    }
}
