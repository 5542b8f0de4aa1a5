//! From a parsed program to one that is ready to run: names, types, instructions.

use crate::ast::{self, Expr, ExprKind, Name, Source, Statement, StatementKind};
use crate::error::{Mistake, Span};
use crate::program::*;
use snag_trace::symbolic::{Binary, Sort, Unary};
use std::collections::HashMap;

type Compiled<T> = Result<T, Mistake>;

/// Most cells of shared memory, locks, and slots of a frame.
const MOST: usize = 1 << 20;

/// Makes a program ready to run; `file` is its name in locations.
pub fn compile(file: &str, source: &Source) -> Compiled<Program> {
    let mut globals = Globals::of(source)?;
    let mut functions = vec![Function::default(); globals.functions.len()];
    for (index, function) in source.functions.iter().enumerate() {
        functions[index] = Body::new(&mut globals, function.returns).compile(function, None)?;
    }
    let mut next = source.functions.len();
    for class in &source.classes {
        for method in &class.methods {
            functions[next] = Body::new(&mut globals, method.returns).compile(method, Some(&class.name.text))?;
            next += 1;
        }
    }
    let has_main = source.threads.iter().any(|thread| thread.name.text == "main");
    let mut threads = Vec::new();
    for (index, thread) in source.threads.iter().enumerate() {
        let arguments = globals.arguments[index].clone();
        let is_main = thread.name.text == "main";
        threads.push(ThreadCode {
            name: thread.name.text.clone(),
            function: functions.len(),
            arguments: arguments.clone(),
            starts: is_main || !has_main,
        });
        if !has_main && !arguments.is_empty() {
            let message = format!("thread {} has parameters, but nothing forks it", thread.name.text);
            return Err(Mistake::new(thread.name.span, message).help("add 'main { … }' that forks it"));
        }
        functions.push(Body::new(&mut globals, None).thread(thread, &arguments)?);
    }
    if threads.is_empty() {
        let start = Span { line: 1, column: 1, length: 1 };
        return Err(Mistake::new(start, "there is no thread").help("add 'main { … }' or 'thread T { … }'"));
    }
    let objects = globals.objects(source);
    Ok(Program {
        file: file.to_owned(),
        cells: globals.cells,
        locks: globals.lock_names,
        conditions: source.conditions.iter().map(|name| name.text.clone()).collect(),
        objects,
        functions,
        threads,
        members: globals.members,
    })
}

/// What a name outside of functions stands for.
#[derive(Clone, Copy, Debug)]
enum Global {
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
struct Signature {
    parameters: Vec<Sort>,
    returns: Option<Sort>,
}

struct Globals {
    names: HashMap<String, Global>,
    cells: Vec<Cell>,
    lock_names: Vec<String>,
    /// Signatures of functions, then of methods.
    functions: Vec<Signature>,
    /// Cells of the arguments of each thread.
    arguments: Vec<Vec<usize>>,
    members: Vec<String>,
    /// The signature of all methods of a name.
    methods: HashMap<String, Signature>,
    /// The type of all fields of a name.
    fields: HashMap<String, Sort>,
}

impl Globals {
    fn of(source: &Source) -> Compiled<Globals> {
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

    fn name(&mut self, name: &Name, meaning: Global) -> Compiled<()> {
        match self.names.insert(name.text.clone(), meaning) {
            None => Ok(()),
            Some(_) => Err(Mistake::new(name.span, format!("'{}' is declared twice", name.text))),
        }
    }

    fn shared(&mut self, shared: &ast::Shared) -> Compiled<()> {
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
    fn constant(&self, value: &Expr) -> Compiled<i128> {
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

    fn class(&mut self, class: &ast::Class) -> Compiled<()> {
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

    fn member(&mut self, name: &str) -> usize {
        match self.members.iter().position(|member| member == name) {
            Some(number) => number,
            None => {
                self.members.push(name.to_owned());
                self.members.len() - 1
            }
        }
    }

    fn objects(&mut self, source: &Source) -> Vec<Object> {
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

fn signature(function: &ast::Function) -> Signature {
    Signature { parameters: function.parameters.iter().map(|p| p.1).collect(), returns: function.returns }
}

/// The names of the elements of an array, or of a single variable.
fn elements(name: &str, length: Option<u32>) -> impl Iterator<Item = String> {
    (0..length.unwrap_or(1)).map(move |index| match length {
        Some(_) => format!("{name}[{index}]"),
        None => name.to_owned(),
    })
}

/// What a local name stands for.
#[derive(Clone, Copy)]
enum Local {
    Slot(Slot),
    Array(Slot, u32),
}

/// The value of an expression.
#[derive(Clone, Copy)]
enum Operand {
    /// A number whose type follows from its surroundings.
    Literal(i128),
    Slot(Slot),
}

/// Where loops are left and continued; the jumps are filled in when that is known.
#[derive(Default)]
struct Loop {
    breaks: Vec<usize>,
    continues: Vec<usize>,
}

struct Body<'g> {
    globals: &'g mut Globals,
    function: Function,
    scopes: Vec<HashMap<String, Local>>,
    loops: Vec<Loop>,
    line: u32,
}

impl<'g> Body<'g> {
    fn new(globals: &'g mut Globals, returns: Option<Sort>) -> Body<'g> {
        let function = Function { returns, ..Function::default() };
        Body { globals, function, scopes: vec![HashMap::new()], loops: Vec::new(), line: 1 }
    }

    fn compile(mut self, source: &ast::Function, class: Option<&str>) -> Compiled<Function> {
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

    fn thread(mut self, source: &ast::Function, arguments: &[usize]) -> Compiled<Function> {
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

    fn emit(&mut self, instruction: Instruction) -> usize {
        self.function.code.push((instruction, self.line));
        self.function.code.len() - 1
    }

    fn here(&self) -> usize {
        self.function.code.len()
    }

    fn slot(&mut self, name: &str, sort: Sort) -> Slot {
        self.function.slots.push(SlotInfo { name: name.to_owned(), sort });
        self.function.slots.len() - 1
    }

    fn sort(&self, slot: Slot) -> Sort {
        self.function.slots[slot].sort
    }

    fn local(&mut self, name: &Name, sort: Sort) -> Compiled<Slot> {
        let slot = self.slot(&name.text, sort);
        self.declare(name, Local::Slot(slot))?;
        Ok(slot)
    }

    fn declare(&mut self, name: &Name, local: Local) -> Compiled<()> {
        if self.function.slots.len() > MOST {
            return Err(Mistake::new(name.span, format!("more than {MOST} local variables")));
        }
        let scope = self.scopes.last_mut().expect("there is a scope");
        match scope.insert(name.text.clone(), local) {
            None => Ok(()),
            Some(_) => Err(Mistake::new(name.span, format!("'{}' is declared twice", name.text))),
        }
    }

    fn find(&self, name: &str) -> Option<Local> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    fn global(&self, name: &str, span: Span) -> Compiled<Global> {
        self.globals.names.get(name).copied().ok_or_else(|| self.unknown(name, span))
    }

    fn unknown(&self, name: &str, span: Span) -> Mistake {
        let mistake = Mistake::new(span, format!("'{name}' is not declared"));
        let known = self.scopes.iter().flat_map(|scope| scope.keys()).chain(self.globals.names.keys());
        let close = known.filter(|other| distance(name, other) <= 1 + name.len() / 4).min();
        match close {
            Some(other) => mistake.help(format!("did you mean '{other}'?")),
            None => mistake,
        }
    }

    // Statements.

    fn statements(&mut self, all: &[Statement]) -> Compiled<()> {
        self.scopes.push(HashMap::new());
        all.iter().try_for_each(|statement| self.statement(statement))?;
        self.scopes.pop();
        Ok(())
    }

    fn statement(&mut self, statement: &Statement) -> Compiled<()> {
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
    fn repeated(&mut self, body: &[Statement], next: impl FnOnce(&mut Self) -> Compiled<usize>) -> Compiled<()> {
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
    fn leave_loop(&mut self) {
        let inner = self.loops.pop().expect("a loop is left once");
        inner.breaks.into_iter().for_each(|jump| self.lands(jump));
    }

    /// A branch that goes on with the next instruction if the condition is true.
    fn branch(&mut self, condition: &Expr) -> Compiled<usize> {
        let condition = self.truth(condition)?;
        let yes = self.here() + 1;
        Ok(self.emit(Instruction::Branch { condition, yes, no: 0 }))
    }

    /// One way of a branch leads to the next instruction.
    fn goes_to(&mut self, branch: usize, way: bool) {
        let here = self.here();
        if let (Instruction::Branch { yes, no, .. }, _) = &mut self.function.code[branch] {
            *(if way { yes } else { no }) = here;
        }
    }

    fn lands(&mut self, jump: usize) {
        self.function.code[jump].0 = Instruction::Jump(self.here());
    }

    fn assign(&mut self, target: &Expr, operator: Option<&'static str>, value: &Expr) -> Compiled<()> {
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

    fn assign_local(&mut self, slot: Slot, value: Operand, span: Span, counted: bool) -> Compiled<()> {
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

    // Places.

    /// A place in shared memory and the type of its values.
    fn place(&mut self, target: &Expr) -> Compiled<(Place, Sort)> {
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

    fn index(&mut self, index: &Expr) -> Compiled<Slot> {
        let operand = self.expression(index)?;
        // Any type: an index is compared with the length by its value.
        Ok(self.in_slot(operand))
    }

    fn lock(&mut self, lock: &Expr) -> Compiled<LockPlace> {
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

    fn condition(&self, name: &Name) -> Compiled<usize> {
        match self.global(&name.text, name.span)? {
            Global::Condition(number) => Ok(number),
            _ => Err(Mistake::new(name.span, format!("'{}' is no condition variable", name.text))),
        }
    }

    fn thread_number(&self, name: &Name) -> Compiled<usize> {
        match self.global(&name.text, name.span)? {
            Global::Thread(number) => Ok(number),
            _ => Err(Mistake::new(name.span, format!("'{}' is no thread", name.text))),
        }
    }

    // Expressions.

    fn expression(&mut self, expr: &Expr) -> Compiled<Operand> {
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

    fn load(&mut self, expr: &Expr) -> Compiled<Operand> {
        let (place, sort) = self.place(expr)?;
        let to = self.slot("", sort);
        self.emit(Instruction::Load { to, place });
        Ok(Operand::Slot(to))
    }

    /// Whether evaluating an expression can neither be seen by other threads nor fail: then it need not be skipped.
    fn is_harmless(&self, expr: &Expr) -> bool {
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

    fn short_circuit(&mut self, operator: &str, a: &Expr, b: &Expr) -> Compiled<Operand> {
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

    fn choose(&mut self, condition: &Expr, yes: &Expr, no: &Expr) -> Compiled<Operand> {
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

    fn arithmetic(&mut self, operator: &str, a: Operand, b: Operand, span: Span) -> Compiled<Operand> {
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

    fn fits(&self, value: i128, sort: Sort, span: Span) -> Compiled<()> {
        match sort.holds(value) {
            true => Ok(()),
            false => Err(Mistake::new(span, format!("{value} does not fit into {sort}"))),
        }
    }

    fn in_slot(&mut self, operand: Operand) -> Slot {
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

    fn converted(&mut self, operand: Operand, sort: Sort, span: Span) -> Compiled<Slot> {
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

    fn truth(&mut self, expr: &Expr) -> Compiled<Slot> {
        let operand = self.expression(expr)?;
        let slot = self.in_slot(operand);
        if self.sort(slot) == Sort::Bool {
            return Ok(slot);
        }
        let to = self.slot("", Sort::Bool);
        self.emit(Instruction::Copy { to, from: slot });
        Ok(to)
    }

    fn passed(&mut self, name: &Name, arguments: &[Expr], parameters: &[Sort]) -> Compiled<Vec<Slot>> {
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
    fn returned(&mut self, name: &Name, returns: Option<Sort>, wanted: bool) -> Compiled<Option<Slot>> {
        match returns {
            Some(sort) => Ok(Some(self.slot("", sort))),
            None if wanted => Err(Mistake::new(name.span, format!("{} returns nothing", name.text))),
            None => Ok(None),
        }
    }

    fn call(&mut self, name: &Name, arguments: &[Expr], wanted: bool) -> Compiled<Option<Slot>> {
        let Global::Function(function) = self.global(&name.text, name.span)? else {
            return Err(Mistake::new(name.span, format!("'{}' is no function", name.text)));
        };
        let Signature { parameters, returns } = self.globals.functions[function].clone();
        let arguments = self.passed(name, arguments, &parameters)?;
        let to = self.returned(name, returns, wanted)?;
        self.emit(Instruction::Call { function, arguments, to });
        Ok(to)
    }

    fn call_virtual(&mut self, object: &Expr, name: &Name, arguments: &[Expr], wanted: bool) -> Compiled<Option<Slot>> {
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
fn number_sort(sort: Sort) -> Sort {
    if sort == Sort::Bool { Sort::DEFAULT } else { sort }
}

/// The type in which two values are computed with: the wider one; of two that are equally wide, the unsigned one.
fn common(a: Sort, b: Sort) -> Sort {
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

/// How many letters must be changed, added or left out to get from one word to the other.
fn distance(a: &str, b: &str) -> usize {
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
