//! What the names outside of functions stand for.

use super::{Compiled, MOST};
use crate::ast::{self, Expr, ExprKind, Name, Source};
use crate::error::{Mistake, Span};
use crate::program::*;
use snag_model::symbolic::Sort;
use std::collections::HashMap;

/// What a name outside of functions stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Global {
    Cell(usize),
    Array(usize, u32),
    Lock(usize),
    Locks(usize, u32),
    Condition(usize),
    /// The number of the object.
    Object(i128),
    Class,
    Function(usize),
    Thread(usize),
}

#[derive(Clone)]
pub(super) struct Signature {
    pub parameters: Vec<Sort>,
    pub returns: Option<Sort>,
}

pub(super) struct Globals {
    pub names: HashMap<String, Global>,
    pub cells: Vec<Cell>,
    pub lock_names: Vec<String>,
    /// Signatures of functions, then of methods.
    pub functions: Vec<Signature>,
    /// Cells of the arguments of each thread.
    pub arguments: Vec<Vec<usize>>,
    pub members: Vec<String>,
    /// The signature of all methods of a name.
    pub methods: HashMap<String, Signature>,
    /// The type of all fields of a name.
    pub fields: HashMap<String, Sort>,
}

impl Globals {
    pub(super) fn of(source: &Source) -> Compiled<Globals> {
        let mut globals = Globals {
            names: HashMap::new(),
            cells: Vec::new(),
            lock_names: Vec::new(),
            functions: Vec::new(),
            arguments: Vec::new(),
            members: Vec::new(),
            methods: HashMap::new(),
            fields: HashMap::new(),
        };
        // Objects first, as initial values may be objects.
        for (number, (name, _)) in source.objects.iter().enumerate() {
            globals.name(name, Global::Object(number as i128 + 1))?;
        }
        for shared in &source.shared {
            globals.shared(shared)?;
        }
        for (name, length) in &source.locks {
            let first = globals.lock_names.len();
            globals.lock_names.extend(elements(&name.text, *length));
            globals.name(name, length.map_or(Global::Lock(first), |length| Global::Locks(first, length)))?;
        }
        for (number, name) in source.conditions.iter().enumerate() {
            globals.name(name, Global::Condition(number))?;
        }
        for function in &source.functions {
            let number = globals.functions.len();
            globals.functions.push(signature(function));
            globals.name(&function.name, Global::Function(number))?;
        }
        for class in &source.classes {
            globals.name(&class.name, Global::Class)?;
            globals.class(class)?;
        }
        for (name, class) in &source.objects {
            let Some(found) = source.classes.iter().find(|c| c.name.text == class.text) else {
                return Err(Mistake::new(class.span, format!("there is no class {}", class.text)));
            };
            for (field, sort) in &found.fields {
                let cell = format!("{}.{}", name.text, field.text);
                globals.cells.push(Cell { name: cell, sort: *sort, initial: 0 });
            }
        }
        for (number, thread) in source.threads.iter().enumerate() {
            globals.name(&thread.name, Global::Thread(number))?;
            let mut cells = Vec::new();
            for (parameter, sort) in &thread.parameters {
                cells.push(globals.cells.len());
                let name = format!("{}.{}", thread.name.text, parameter.text);
                globals.cells.push(Cell { name, sort: *sort, initial: 0 });
            }
            globals.arguments.push(cells);
        }
        if globals.cells.len() > MOST || globals.lock_names.len() > MOST {
            let start = Span { line: 1, column: 1, length: 1 };
            return Err(Mistake::new(start, format!("more than {MOST} shared variables or locks")));
        }
        Ok(globals)
    }

    pub(super) fn name(&mut self, name: &Name, meaning: Global) -> Compiled<()> {
        match self.names.insert(name.text.clone(), meaning) {
            None => Ok(()),
            Some(_) => Err(Mistake::new(name.span, format!("'{}' is declared twice", name.text))),
        }
    }

    pub(super) fn shared(&mut self, shared: &ast::Shared) -> Compiled<()> {
        let first = self.cells.len();
        for (index, name) in elements(&shared.name.text, shared.length).enumerate() {
            let initial = match shared.initial.get(index) {
                Some(value) => self.constant(value)?,
                None => 0,
            };
            if !shared.sort.holds(initial) {
                let message = format!("{initial} does not fit into {}", shared.sort);
                return Err(Mistake::new(shared.initial[index].span, message));
            }
            self.cells.push(Cell { name, sort: shared.sort, initial });
        }
        let meaning = shared.length.map_or(Global::Cell(first), |length| Global::Array(first, length));
        self.name(&shared.name, meaning)
    }

    /// An initial value: a number, a negative number or an object.
    pub(super) fn constant(&self, value: &Expr) -> Compiled<i128> {
        match &value.kind {
            ExprKind::Number(number) => Ok(*number),
            ExprKind::Unary("-", operand) => Ok(-self.constant(operand)?),
            ExprKind::Variable(name) => match self.names.get(name) {
                Some(Global::Object(number)) => Ok(*number),
                _ => Err(Mistake::new(value.span, format!("'{name}' is no object"))),
            },
            _ => Err(Mistake::new(value.span, "an initial value is a number or an object")),
        }
    }

    pub(super) fn class(&mut self, class: &ast::Class) -> Compiled<()> {
        let mut members: Vec<&str> = Vec::new();
        for name in class.fields.iter().map(|f| &f.0).chain(class.methods.iter().map(|m| &m.name)) {
            if members.contains(&name.text.as_str()) {
                return Err(Mistake::new(name.span, format!("'{}' is declared twice", name.text)));
            }
            members.push(&name.text);
        }
        for (name, sort) in &class.fields {
            let known = *self.fields.entry(name.text.clone()).or_insert(*sort);
            if known != *sort {
                let message = format!("field {} is {known} in another class", name.text);
                return Err(Mistake::new(name.span, message).help("fields of one name have one type"));
            }
            self.member(&name.text);
        }
        for method in &class.methods {
            let own = signature(method);
            let known = self.methods.entry(method.name.text.clone()).or_insert_with(|| own.clone());
            if known.parameters != own.parameters || known.returns != own.returns {
                let message = format!("method {} has other parameters or returns something else", method.name.text);
                return Err(Mistake::new(method.name.span, message).help("methods of one name have one signature"));
            }
            self.functions.push(own);
            self.member(&method.name.text);
        }
        Ok(())
    }

    pub(super) fn member(&mut self, name: &str) -> usize {
        match self.members.iter().position(|member| member == name) {
            Some(number) => number,
            None => {
                self.members.push(name.to_owned());
                self.members.len() - 1
            }
        }
    }

    pub(super) fn objects(&mut self, source: &Source) -> Vec<Object> {
        let mut first_method = HashMap::new();
        let mut next = source.functions.len();
        for class in &source.classes {
            first_method.insert(&class.name.text, next);
            next += class.methods.len();
        }
        let mut all = Vec::new();
        for (name, class) in &source.objects {
            let class = source.classes.iter().find(|c| c.name.text == class.text).expect("checked before");
            let (mut methods, mut fields) = (HashMap::new(), HashMap::new());
            for (index, method) in class.methods.iter().enumerate() {
                methods.insert(self.member(&method.name.text), first_method[&class.name.text] + index);
            }
            for (field, _) in &class.fields {
                let cell = format!("{}.{}", name.text, field.text);
                let at = self.cells.iter().position(|c| c.name == cell).expect("added before");
                fields.insert(self.member(&field.text), at);
            }
            all.push(Object { name: name.text.clone(), methods, fields });
        }
        all
    }
}

pub(super) fn signature(function: &ast::Function) -> Signature {
    Signature { parameters: function.parameters.iter().map(|p| p.1).collect(), returns: function.returns }
}

/// The names of the elements of an array, or of a single variable.
pub(super) fn elements(name: &str, length: Option<u32>) -> impl Iterator<Item = String> {
    (0..length.unwrap_or(1)).map(move |index| match length {
        Some(_) => format!("{name}[{index}]"),
        None => name.to_owned(),
    })
}
