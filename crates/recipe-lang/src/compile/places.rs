//! The code of what is accessed, locked or waited for.

use super::Compiled;
use super::body::Body;
use super::globals::Global;
use crate::ast::{Expr, ExprKind, Name};
use crate::error::{Mistake, Span};
use crate::program::*;
use snag_model::symbolic::Sort;

impl Body<'_> {
    /// A place in shared memory and the type of its values.
    pub(super) fn place(&mut self, target: &Expr) -> Compiled<(Place, Sort)> {
        match &target.kind {
            ExprKind::Variable(name) => match self.global(name, target.span)? {
                Global::Cell(cell) => Ok((Place::Cell(cell), self.globals.cells[cell].sort)),
                Global::Array(..) => Err(Mistake::new(target.span, format!("'{name}' is an array"))
                    .help(format!("an element is written '{name}[0]'"))),
                _ => Err(Mistake::new(target.span, format!("'{name}' is no variable"))),
            },
            ExprKind::Index(array, index) => {
                let ExprKind::Variable(name) = &array.kind else {
                    return Err(Mistake::new(array.span, "only arrays have elements"));
                };
                match self.global(name, array.span)? {
                    Global::Array(first, length) => {
                        let index = self.index(index)?;
                        Ok((Place::Element(first, length, index), self.globals.cells[first].sort))
                    }
                    _ => Err(Mistake::new(array.span, format!("'{name}' is no array"))),
                }
            }
            ExprKind::Field(object, field) => {
                let Some(&sort) = self.globals.fields.get(&field.text) else {
                    return Err(Mistake::new(field.span, format!("no class has a field {}", field.text)));
                };
                let operand = self.expression(object)?;
                let object = self.converted(operand, Sort::DEFAULT, object.span)?;
                let number = self.globals.member(&field.text);
                Ok((Place::Field(object, number), sort))
            }
            _ => Err(Mistake::new(target.span, "this is no variable")),
        }
    }

    pub(super) fn index(&mut self, index: &Expr) -> Compiled<Slot> {
        let operand = self.expression(index)?;
        // Any type: an index is compared with the length by its value.
        Ok(self.in_slot(operand))
    }

    pub(super) fn lock(&mut self, lock: &Expr) -> Compiled<LockPlace> {
        let not_a_lock = |span: Span, name: &str| Mistake::new(span, format!("'{name}' is no lock"));
        match &lock.kind {
            ExprKind::Variable(name) => match self.global(name, lock.span)? {
                Global::Lock(number) => Ok(LockPlace::Lock(number)),
                _ => Err(not_a_lock(lock.span, name)),
            },
            ExprKind::Index(array, index) => {
                let ExprKind::Variable(name) = &array.kind else {
                    return Err(Mistake::new(array.span, "expected a lock"));
                };
                match self.global(name, array.span)? {
                    Global::Locks(first, length) => Ok(LockPlace::Element(first, length, self.index(index)?)),
                    _ => Err(not_a_lock(array.span, name)),
                }
            }
            _ => Err(Mistake::new(lock.span, "expected a lock")),
        }
    }

    pub(super) fn condition(&self, name: &Name) -> Compiled<usize> {
        match self.global(&name.text, name.span)? {
            Global::Condition(number) => Ok(number),
            _ => Err(Mistake::new(name.span, format!("'{}' is no condition variable", name.text))),
        }
    }

    pub(super) fn thread_number(&self, name: &Name) -> Compiled<usize> {
        match self.global(&name.text, name.span)? {
            Global::Thread(number) => Ok(number),
            _ => Err(Mistake::new(name.span, format!("'{}' is no thread", name.text))),
        }
    }
}
