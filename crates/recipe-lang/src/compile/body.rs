//! The code of one function: slots, scopes, and what names stand for.

use super::globals::{Global, Globals};
use super::{Compiled, MOST};
use crate::ast::{self, Name};
use crate::error::{Mistake, Span};
use crate::program::*;
use snag_model::symbolic::Sort;
use std::collections::HashMap;

/// What a local name stands for.
#[derive(Clone, Copy)]
pub(super) enum Local {
    Slot(Slot),
    Array(Slot, u32),
}

/// The value of an expression.
#[derive(Clone, Copy)]
pub(super) enum Operand {
    /// A number whose type follows from its surroundings.
    Literal(i128),
    Slot(Slot),
}

/// Where loops are left and continued; the jumps are filled in when that is known.
#[derive(Default)]
pub(super) struct Loop {
    pub breaks: Vec<usize>,
    pub continues: Vec<usize>,
}

pub(super) struct Body<'g> {
    pub globals: &'g mut Globals,
    pub function: Function,
    pub scopes: Vec<HashMap<String, Local>>,
    pub loops: Vec<Loop>,
    pub line: u32,
}

impl<'g> Body<'g> {
    pub(super) fn new(globals: &'g mut Globals, returns: Option<Sort>) -> Body<'g> {
        let function = Function { returns, ..Function::default() };
        Body { globals, function, scopes: vec![HashMap::new()], loops: Vec::new(), line: 1 }
    }

    pub(super) fn compile(mut self, source: &ast::Function, class: Option<&str>) -> Compiled<Function> {
        self.line = source.name.span.line;
        self.function.name = match class {
            Some(class) => format!("{class}.{}", source.name.text),
            None => source.name.text.clone(),
        };
        if class.is_some() {
            let slot = self.slot("this", Sort::DEFAULT);
            self.scopes[0].insert("this".to_owned(), Local::Slot(slot));
        }
        for (name, sort) in &source.parameters {
            self.local(name, *sort)?;
        }
        self.function.parameters = self.function.slots.len();
        self.statements(&source.body)?;
        // The end of a function that returns something returns 0.
        let value = match self.function.returns {
            Some(sort) => {
                let to = self.slot("", sort);
                self.emit(Instruction::Constant { to, value: 0 });
                Some(to)
            }
            None => None,
        };
        self.emit(Instruction::Return(value));
        Ok(self.function)
    }

    pub(super) fn thread(mut self, source: &ast::Function, arguments: &[usize]) -> Compiled<Function> {
        self.line = source.name.span.line;
        self.function.name = source.name.text.clone();
        for ((name, sort), &cell) in source.parameters.iter().zip(arguments) {
            let to = self.local(name, *sort)?;
            self.emit(Instruction::Load { to, place: Place::Cell(cell) });
            self.emit(Instruction::Defined { slot: to, counted: false });
        }
        self.statements(&source.body)?;
        self.emit(Instruction::Return(None));
        Ok(self.function)
    }

    pub(super) fn emit(&mut self, instruction: Instruction) -> usize {
        self.function.code.push((instruction, self.line));
        self.function.code.len() - 1
    }

    pub(super) fn here(&self) -> usize {
        self.function.code.len()
    }

    pub(super) fn slot(&mut self, name: &str, sort: Sort) -> Slot {
        self.function.slots.push(SlotInfo { name: name.to_owned(), sort });
        self.function.slots.len() - 1
    }

    pub(super) fn sort(&self, slot: Slot) -> Sort {
        self.function.slots[slot].sort
    }

    pub(super) fn local(&mut self, name: &Name, sort: Sort) -> Compiled<Slot> {
        let slot = self.slot(&name.text, sort);
        self.declare(name, Local::Slot(slot))?;
        Ok(slot)
    }

    pub(super) fn declare(&mut self, name: &Name, local: Local) -> Compiled<()> {
        if self.function.slots.len() > MOST {
            return Err(Mistake::new(name.span, format!("more than {MOST} local variables")));
        }
        let scope = self.scopes.last_mut().expect("there is a scope");
        match scope.insert(name.text.clone(), local) {
            None => Ok(()),
            Some(_) => Err(Mistake::new(name.span, format!("'{}' is declared twice", name.text))),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<Local> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    pub(super) fn global(&self, name: &str, span: Span) -> Compiled<Global> {
        self.globals.names.get(name).copied().ok_or_else(|| self.unknown(name, span))
    }

    pub(super) fn unknown(&self, name: &str, span: Span) -> Mistake {
        let mistake = Mistake::new(span, format!("'{name}' is not declared"));
        let known = self.scopes.iter().flat_map(|scope| scope.keys()).chain(self.globals.names.keys());
        let close = known.filter(|other| distance(name, other) <= 1 + name.len() / 4).min();
        match close {
            Some(other) => mistake.help(format!("did you mean '{other}'?")),
            None => mistake,
        }
    }
}

/// How many letters must be changed, added or left out to get from one word to the other.
pub(super) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + (x != *y) as usize;
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
