//! The code of statements.

use super::body::{Body, Local, Loop, Operand};
use super::globals::elements;
use super::{Compiled, MOST};
use crate::ast::{Expr, ExprKind, Statement, StatementKind};
use crate::error::{Mistake, Span};
use crate::program::*;
use std::collections::HashMap;

impl Body<'_> {
    pub(super) fn statements(&mut self, all: &[Statement]) -> Compiled<()> {
        self.scopes.push(HashMap::new());
        all.iter().try_for_each(|statement| self.statement(statement))?;
        self.scopes.pop();
        Ok(())
    }

    pub(super) fn statement(&mut self, statement: &Statement) -> Compiled<()> {
        self.line = statement.span.line;
        match &statement.kind {
            StatementKind::Declare { name, sort, length: None, initial } => {
                let value = match initial.first() {
                    Some(value) => self.expression(value)?,
                    None => Operand::Literal(0),
                };
                let slot = self.local(name, *sort)?;
                self.assign_local(slot, value, statement.span, false)
            }
            StatementKind::Declare { name, sort, length: Some(length), initial } => {
                let mut values = Vec::new();
                for value in initial {
                    values.push((self.expression(value)?, value.span));
                }
                let base = self.function.slots.len();
                if base + *length as usize > MOST {
                    return Err(Mistake::new(name.span, format!("more than {MOST} local variables")));
                }
                for element in elements(&name.text, Some(*length)) {
                    self.slot(&element.replace(['[', ']'], "_"), *sort);
                }
                self.declare(name, Local::Array(base, *length))?;
                for index in 0..*length as usize {
                    let (value, span) = values.get(index).copied().unwrap_or((Operand::Literal(0), name.span));
                    self.assign_local(base + index, value, span, false)?;
                }
                Ok(())
            }
            StatementKind::Assign { target, operator, value } => self.assign(target, *operator, value),
            StatementKind::Count { target, up } => {
                let one = Expr { kind: ExprKind::Number(1), span: target.span };
                if let ExprKind::Variable(name) = &target.kind
                    && let Some(Local::Slot(slot)) = self.find(name)
                {
                    let operator = if *up { "+" } else { "-" };
                    let sum = self.arithmetic(operator, Operand::Slot(slot), Operand::Literal(1), target.span)?;
                    return self.assign_local(slot, sum, target.span, true);
                }
                self.assign(target, Some(if *up { "+" } else { "-" }), &one)
            }
            StatementKind::Evaluate(value) => match &value.kind {
                ExprKind::Call(name, arguments) => self.call(name, arguments, false).map(|_| ()),
                ExprKind::CallVirtual(object, name, arguments) => {
                    self.call_virtual(object, name, arguments, false).map(|_| ())
                }
                _ => Err(Mistake::new(value.span, "this statement does nothing")),
            },
            StatementKind::If { condition, yes, no } => {
                let branch = self.branch(condition)?;
                self.statements(yes)?;
                let over = self.emit(Instruction::Jump(0));
                self.goes_to(branch, false);
                self.statements(no)?;
                self.lands(over);
                Ok(())
            }
            StatementKind::While { condition, body } => {
                let start = self.here();
                let branch = self.branch(condition)?;
                self.repeated(body, |body| {
                    body.emit(Instruction::Jump(start));
                    Ok(start)
                })?;
                self.goes_to(branch, false);
                self.leave_loop();
                Ok(())
            }
            StatementKind::For { first, condition, step, body } => {
                self.scopes.push(HashMap::new());
                if let Some(first) = first {
                    self.statement(first)?;
                }
                self.line = statement.span.line;
                let start = self.here();
                let branch = condition.as_ref().map(|condition| self.branch(condition)).transpose()?;
                let line = statement.span.line;
                self.repeated(body, |body| {
                    body.line = line;
                    let next = body.here();
                    if let Some(step) = step {
                        body.statement(step)?;
                    }
                    body.emit(Instruction::Jump(start));
                    Ok(next)
                })?;
                if let Some(branch) = branch {
                    self.goes_to(branch, false);
                }
                self.leave_loop();
                self.scopes.pop();
                Ok(())
            }
            StatementKind::Block(all) => self.statements(all),
            StatementKind::Break | StatementKind::Continue => {
                let jump = self.emit(Instruction::Jump(0));
                let is_break = matches!(statement.kind, StatementKind::Break);
                let Some(inner) = self.loops.last_mut() else {
                    let word = if is_break { "break" } else { "continue" };
                    return Err(Mistake::new(statement.span, format!("'{word}' outside of a loop")));
                };
                if is_break {
                    inner.breaks.push(jump)
                } else {
                    inner.continues.push(jump)
                }
                Ok(())
            }
            StatementKind::Return(value) => {
                let value = match (value, self.function.returns) {
                    (Some(value), Some(sort)) => {
                        let operand = self.expression(value)?;
                        Some(self.converted(operand, sort, value.span)?)
                    }
                    (None, None) => None,
                    (Some(value), None) => return Err(Mistake::new(value.span, "nothing is returned here")),
                    (None, Some(_)) => return Err(Mistake::new(statement.span, "a value must be returned here")),
                };
                self.emit(Instruction::Return(value));
                Ok(())
            }
            StatementKind::Lock(lock) => {
                let place = self.lock(lock)?;
                self.emit(Instruction::Lock(place));
                Ok(())
            }
            StatementKind::Unlock(lock) => {
                let place = self.lock(lock)?;
                self.emit(Instruction::Unlock(place));
                Ok(())
            }
            StatementKind::Wait { condition, lock } => {
                let condition = self.condition(condition)?;
                let lock = self.lock(lock)?;
                self.emit(Instruction::Wait { condition, lock });
                Ok(())
            }
            StatementKind::Notify { condition, all } => {
                let condition = self.condition(condition)?;
                self.emit(Instruction::Notify { condition, all: *all });
                Ok(())
            }
            StatementKind::Fork { thread, arguments } => {
                let number = self.thread_number(thread)?;
                let cells = self.globals.arguments[number].clone();
                if cells.len() != arguments.len() {
                    let message = format!("thread {} takes {} arguments", thread.text, cells.len());
                    return Err(Mistake::new(thread.span, message));
                }
                let mut values = Vec::new();
                for (argument, &cell) in arguments.iter().zip(&cells) {
                    let operand = self.expression(argument)?;
                    let sort = self.globals.cells[cell].sort;
                    values.push(self.converted(operand, sort, argument.span)?);
                }
                for (from, cell) in values.into_iter().zip(cells) {
                    self.emit(Instruction::Store { place: Place::Cell(cell), from });
                }
                self.emit(Instruction::Fork(number));
                Ok(())
            }
            StatementKind::Join(thread) => {
                let number = self.thread_number(thread)?;
                self.emit(Instruction::Join(number));
                Ok(())
            }
            StatementKind::Assert(condition) => {
                let slot = self.truth(condition)?;
                self.emit(Instruction::Assert(slot));
                Ok(())
            }
            StatementKind::Print(values) => {
                let mut slots = Vec::new();
                for value in values {
                    let operand = self.expression(value)?;
                    slots.push(self.in_slot(operand));
                }
                self.emit(Instruction::Print(slots));
                Ok(())
            }
        }
    }

    /// The body of a loop; `next` emits what follows it and says where `continue` goes.
    pub(super) fn repeated(
        &mut self,
        body: &[Statement],
        next: impl FnOnce(&mut Self) -> Compiled<usize>,
    ) -> Compiled<()> {
        self.loops.push(Loop::default());
        self.statements(body)?;
        let goes_on = next(self)?;
        let continues = std::mem::take(&mut self.loops.last_mut().expect("pushed before").continues);
        for jump in continues {
            self.function.code[jump].0 = Instruction::Jump(goes_on);
        }
        Ok(())
    }

    /// Code after a loop follows.
    pub(super) fn leave_loop(&mut self) {
        let inner = self.loops.pop().expect("a loop is left once");
        inner.breaks.into_iter().for_each(|jump| self.lands(jump));
    }

    /// A branch that goes on with the next instruction if the condition is true.
    pub(super) fn branch(&mut self, condition: &Expr) -> Compiled<usize> {
        let condition = self.truth(condition)?;
        let yes = self.here() + 1;
        Ok(self.emit(Instruction::Branch { condition, yes, no: 0 }))
    }

    /// One way of a branch leads to the next instruction.
    pub(super) fn goes_to(&mut self, branch: usize, way: bool) {
        let here = self.here();
        if let (Instruction::Branch { yes, no, .. }, _) = &mut self.function.code[branch] {
            *(if way { yes } else { no }) = here;
        }
    }

    pub(super) fn lands(&mut self, jump: usize) {
        self.function.code[jump].0 = Instruction::Jump(self.here());
    }

    pub(super) fn assign(&mut self, target: &Expr, operator: Option<&'static str>, value: &Expr) -> Compiled<()> {
        let local = match &target.kind {
            ExprKind::Variable(name) => self.find(name),
            _ => None,
        };
        match local {
            Some(Local::Slot(slot)) => {
                let mut operand = self.expression(value)?;
                if let Some(operator) = operator {
                    operand = self.arithmetic(operator, Operand::Slot(slot), operand, target.span)?;
                }
                return self.assign_local(slot, operand, value.span, false);
            }
            Some(Local::Array(..)) => return Err(Mistake::new(target.span, "an array is assigned element by element")),
            None => {}
        }
        if let ExprKind::Index(array, index) = &target.kind
            && let ExprKind::Variable(name) = &array.kind
            && let Some(Local::Array(base, length)) = self.find(name)
        {
            let index = self.index(index)?;
            let sort = self.sort(base);
            let mut operand = self.expression(value)?;
            if let Some(operator) = operator {
                let to = self.slot("", sort);
                self.emit(Instruction::LocalLoad { to, base, length, index });
                operand = self.arithmetic(operator, Operand::Slot(to), operand, target.span)?;
            }
            let from = self.converted(operand, sort, value.span)?;
            self.emit(Instruction::LocalStore { base, length, index, from });
            return Ok(());
        }
        let (place, sort) = self.place(target)?;
        let mut old = None;
        if operator.is_some() {
            let to = self.slot("", sort);
            self.emit(Instruction::Load { to, place });
            old = Some(Operand::Slot(to));
        }
        let mut operand = self.expression(value)?;
        if let (Some(operator), Some(old)) = (operator, old) {
            operand = self.arithmetic(operator, old, operand, target.span)?;
        }
        let from = self.converted(operand, sort, value.span)?;
        self.emit(Instruction::Store { place, from });
        Ok(())
    }

    pub(super) fn assign_local(&mut self, slot: Slot, value: Operand, span: Span, counted: bool) -> Compiled<()> {
        match value {
            Operand::Literal(value) => {
                self.fits(value, self.sort(slot), span)?;
                self.emit(Instruction::Constant { to: slot, value });
            }
            Operand::Slot(from) => {
                self.emit(Instruction::Copy { to: slot, from });
            }
        }
        self.emit(Instruction::Defined { slot, counted });
        Ok(())
    }
}
