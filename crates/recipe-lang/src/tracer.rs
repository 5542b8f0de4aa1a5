//! Writes down a run as a symbolic trace.
//!
//! Every definition of a local variable is a `let` of a new symbol, named after the
//! variable and the number of the event: the trace is in SSA form. Reads of shared
//! variables define symbols, writes carry expressions, arguments and returned values
//! flow through `ARG` and `RET`. Whatever decides where an event goes (an index, a lock,
//! an object) or leaves the program is pinned by a branch before it.

use crate::machine::{Action, Observer, State, is_partial, object_of};
use crate::program::*;
use crate::side;
use crate::symbols::{Sym, Values};
use snag_model::events::Event;
use snag_model::symbolic::Sort;
use snag_model::{LocId, Op, Space, ThreadId, Trace};

/// Expressions that nest deeper get a name.
const DEEPEST: u32 = 60;

/// A thread that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Its name.
    pub thread: String,
    /// Where, as in the locations of the trace.
    pub location: String,
    /// Why.
    pub message: String,
}

/// Watches a run and writes it down.
pub struct Tracer<'p> {
    program: &'p Program,
    /// What has happened so far.
    pub trace: Trace,
    /// Who failed.
    pub failures: Vec<Failure>,
    /// Of each thread the frames, and of each slot what it stands for.
    threads: Vec<Vec<Mirror>>,
    /// Of each thread 1 + the notify that has woken it.
    woken_by: Vec<u32>,
    /// The last notify.
    notify: u32,
}

struct Mirror {
    function: usize,
    syms: Vec<Sym>,
    to: Option<Slot>,
}

impl<'p> Tracer<'p> {
    /// Before the run.
    pub fn new(program: &'p Program) -> Tracer<'p> {
        let mut trace = Trace::default();
        for thread in &program.threads {
            trace.tables.thread(&thread.name);
        }
        for lock in &program.locks {
            trace.tables.intern(Space::Lock, lock);
        }
        for condition in &program.conditions {
            trace.tables.intern(Space::Condition, condition);
        }
        for cell in &program.cells {
            let variable = trace.tables.variable_named(&cell.name);
            let memory = cell.sort.to_memory(cell.initial).expect("checked when compiled");
            trace.tables.declarations.initial.push((variable, memory));
        }
        let threads = program.threads.iter().map(|thread| {
            let syms = vec![Sym::Constant; program.functions[thread.function].slots.len()];
            vec![Mirror { function: thread.function, syms, to: None }]
        });
        Tracer {
            program,
            trace,
            failures: Vec::new(),
            threads: threads.collect(),
            woken_by: vec![0; program.threads.len()],
            notify: 0,
        }
    }

    fn mirror(&mut self, thread: usize) -> &mut Mirror {
        self.threads[thread].last_mut().expect("a thread that runs has a frame")
    }

    fn location(&mut self, line: u32) -> LocId {
        let text = format!("{}:{line}", self.program.file);
        self.trace.tables.location(&text)
    }

    fn push(&mut self, thread: usize, line: u32, op: Op, target: u32, aux: u32, value: Option<i64>) {
        let location = self.location(line);
        let thread = ThreadId::new(thread);
        self.trace.events.push(Event { thread, op, target, aux, location, value, written: None });
    }

    fn expression(&mut self, text: &str) -> u32 {
        self.trace.tables.intern(Space::Expression, text)
    }

    /// A symbol that the next event defines.
    fn new_symbol(&mut self, name: &str) -> String {
        format!("{name}.{}", self.trace.len())
    }

    fn branch_event(&mut self, thread: usize, line: u32, word: &str, condition: &str, outcome: bool) {
        let target = if word.is_empty() { 0 } else { 1 + self.trace.tables.intern(Space::Text, word) };
        let aux = 1 + self.expression(condition);
        self.push(thread, line, Op::Branch, target, aux, Some(outcome as i64));
    }

    fn let_event(&mut self, thread: usize, line: u32, name: &str, text: &str, depends: bool) -> Sym {
        let symbol = self.new_symbol(name);
        let target = self.trace.tables.intern(Space::Symbol, &symbol);
        let aux = self.expression(text);
        self.push(thread, line, Op::Let, target, aux, None);
        Sym::symbol(&symbol, depends)
    }

    /// Asks about the values of a frame.
    fn with<T>(&self, thread: usize, numbers: &[i128], ask: impl FnOnce(&Values) -> T) -> T {
        let mirror = self.threads[thread].last().expect("a thread that runs has a frame");
        let infos = &self.program.functions[mirror.function].slots;
        ask(&Values { syms: &mirror.syms, numbers, sorts: &|slot: Slot| infos[slot].sort })
    }

    fn sort(&self, thread: usize, slot: Slot) -> Sort {
        let function = self.threads[thread].last().expect("a thread that runs has a frame").function;
        self.program.functions[function].slots[slot].sort
    }

    fn depends(&self, thread: usize, slot: Slot) -> bool {
        self.threads[thread].last().is_some_and(|mirror| mirror.syms[slot].depends())
    }

    /// Pins a value, if it depends on anything that was read.
    fn pin(&mut self, thread: usize, line: u32, word: &str, slot: Slot, numbers: &[i128]) {
        if self.depends(thread, slot) {
            let condition = self.with(thread, numbers, |values| values.is_what_it_is(slot));
            self.branch_event(thread, line, word, &condition, true);
        }
    }

    fn pin_place(&mut self, thread: usize, line: u32, place: Place, numbers: &[i128]) {
        match place {
            Place::Cell(_) => {}
            Place::Element(_, _, index) => self.pin(thread, line, "index", index, numbers),
            Place::Field(object, _) => self.pin(thread, line, "address", object, numbers),
        }
    }

    fn pin_lock(&mut self, thread: usize, line: u32, place: LockPlace, numbers: &[i128]) {
        if let LockPlace::Element(_, _, index) = place {
            self.pin(thread, line, "lock", index, numbers);
        }
    }

    /// The new value of a slot; one that nests too deeply gets a name.
    fn set(&mut self, thread: usize, line: u32, to: Slot, sym: Sym) {
        let sym = match sym {
            Sym::Expr { text, depends, depth } if depth > DEEPEST => self.let_event(thread, line, "t", &text, depends),
            sym => sym,
        };
        self.mirror(thread).syms[to] = sym;
    }

    fn call(
        &mut self,
        thread: usize,
        line: u32,
        function: usize,
        passed: Vec<(Sym, String)>,
        to: Option<Slot>,
        skip: usize,
    ) {
        let code = &self.program.functions[function];
        let mut syms = vec![Sym::Constant; code.slots.len()];
        let mut arguments = Vec::new();
        for (index, (sym, text)) in passed.into_iter().enumerate() {
            let name = format!("ARG{index}");
            arguments.push(self.let_event(thread, line, &name, &text, sym.depends()));
        }
        for (index, argument) in arguments.into_iter().enumerate() {
            let Sym::Expr { text, depends, .. } = argument else { continue };
            let name = symbol_name(&code.slots[skip + index].name);
            syms[skip + index] = self.let_event(thread, line, &name, &text, depends);
        }
        self.threads[thread].push(Mirror { function, syms, to });
    }
}

/// A name as a symbol may have it.
pub(crate) fn symbol_name(name: &str) -> String {
    name.chars().filter(|&c| c != ']').map(|c| if c == '[' { '_' } else { c }).collect()
}

/// The symbol of a cell with its type, unless that is the usual one.
pub(crate) fn typed(symbol: &str, sort: Sort) -> String {
    if sort == Sort::DEFAULT { symbol.to_owned() } else { format!("{symbol}:{sort}") }
}

impl Observer for Tracer<'_> {
    fn before(&mut self, thread: usize, instruction: &Instruction, line: u32, slots: &[i128]) {
        match instruction {
            Instruction::Binary { operator, a, b, .. } if is_partial(*operator) => {
                let guard = self.with(thread, slots, |values| values.is_defined(*operator, *a, *b));
                if let Some((word, condition, holds)) = guard {
                    self.branch_event(thread, line, word, &condition, holds);
                }
            }
            Instruction::LocalLoad { index, .. } | Instruction::LocalStore { index, .. } => {
                self.pin(thread, line, "index", *index, slots);
            }
            Instruction::CallVirtual { object, method, arguments, to } => {
                self.pin(thread, line, "class", *object, slots);
                let found = object_of(self.program, slots[*object]).ok();
                if let Some(&function) = found.and_then(|object| object.methods.get(method)) {
                    let passed = self.passed(thread, arguments, slots);
                    // The object itself was pinned, so it is what it is.
                    self.call(thread, line, function, passed, *to, 1);
                }
            }
            Instruction::Assert(condition) if self.depends(thread, *condition) => {
                let text = self.with(thread, slots, |values| values.alone(*condition));
                self.branch_event(thread, line, "assert", &text, slots[*condition] != 0);
            }
            Instruction::Print(values) => {
                for &slot in values {
                    self.pin(thread, line, "output", slot, slots);
                }
            }
            // Before the values of the caller are gone.
            Instruction::Call { function, arguments, to } => {
                let passed = self.passed(thread, arguments, slots);
                self.call(thread, line, *function, passed, *to, 0);
            }
            Instruction::Return(Some(value)) => {
                let text = self.with(thread, slots, |values| values.alone(*value));
                let depends = self.depends(thread, *value);
                let to = self.mirror(thread).to;
                if self.threads[thread].len() > 1 {
                    let returned = self.let_event(thread, line, "RET", &text, depends);
                    self.threads[thread].pop();
                    if let Some(to) = to {
                        self.mirror(thread).syms[to] = returned;
                    }
                }
            }
            Instruction::Return(None) if self.threads[thread].len() > 1 => _ = self.threads[thread].pop(),
            _ => {}
        }
    }

    fn after(&mut self, thread: usize, instruction: &Instruction, line: u32, slots: &[i128]) {
        match instruction {
            Instruction::Constant { to, .. } => self.mirror(thread).syms[*to] = Sym::Constant,
            Instruction::Copy { to, from } => {
                let sort = self.sort(thread, *to);
                let sym = self.with(thread, slots, |values| values.converted(*from, sort));
                self.set(thread, line, *to, sym);
            }
            Instruction::Unary { operator, to, a } => {
                let sym = self.with(thread, slots, |values| values.unary(*operator, *a));
                self.set(thread, line, *to, sym.unwrap_or(Sym::Constant));
            }
            Instruction::Binary { operator, to, a, b } => {
                let sym = self.with(thread, slots, |values| values.binary(*operator, *a, *b));
                self.set(thread, line, *to, sym.unwrap_or(Sym::Constant));
            }
            Instruction::Defined { slot, counted } => {
                let depends = self.depends(thread, *slot);
                if *counted && !depends {
                    // A counter that nothing read has a say in: its value says it all.
                    self.mirror(thread).syms[*slot] = Sym::Constant;
                }
                let text = self.with(thread, slots, |values| values.alone(*slot));
                let function = self.mirror(thread).function;
                let name = symbol_name(&self.program.functions[function].slots[*slot].name);
                let symbol = self.let_event(thread, line, &name, &text, depends);
                self.mirror(thread).syms[*slot] = symbol;
            }
            Instruction::LocalLoad { to, base, index, .. } => {
                let sym = self.mirror(thread).syms[base + slots[*index] as usize].clone();
                self.mirror(thread).syms[*to] = sym;
            }
            Instruction::LocalStore { base, index, from, .. } => {
                let element = base + slots[*index] as usize;
                let (text, depends) =
                    (self.with(thread, slots, |values| values.alone(*from)), self.depends(thread, *from));
                let function = self.mirror(thread).function;
                let name = symbol_name(&self.program.functions[function].slots[element].name);
                let symbol = self.let_event(thread, line, &name, &text, depends);
                self.mirror(thread).syms[element] = symbol;
            }
            _ => {}
        }
    }

    fn branch(&mut self, state: &State, thread: usize, line: u32, condition: Slot, yes: bool, other: usize) {
        let frame = state.threads[thread].frames.last().expect("it runs");
        if matches!(self.mirror(thread).syms[condition], Sym::Constant) {
            return;
        }
        let text = self.with(thread, &frame.slots, |values| values.alone(condition));
        self.branch_event(thread, line, "", &text, yes);
        if !self.depends(thread, condition) {
            return;
        }
        let mut frames: Vec<side::Frame> = Vec::new();
        for (mirror, frame) in self.threads[thread].iter().zip(&state.threads[thread].frames) {
            frames.push(side::Frame {
                function: frame.function,
                next: frame.next,
                syms: mirror.syms.clone(),
                numbers: frame.slots.clone(),
                to: frame.to,
            });
        }
        frames.last_mut().expect("it runs").next = other;
        let holds = |lock: usize| if state.locks[lock].0 as usize == thread + 1 { state.locks[lock].1 } else { 0 };
        let first = self.trace.len();
        for effect in side::effects(self.program, frames, &holds, first) {
            let location = self.location(effect.line);
            let (target, aux) = self.bind(&effect.kind);
            let op = effect.kind.op();
            let thread = ThreadId::new(thread);
            self.trace.events.push(Event { thread, op, target, aux, location, value: None, written: None });
        }
    }

    fn visible(&mut self, state: &State, thread: usize, line: u32, action: Action) {
        let slots = &state.threads[thread].frames.last().expect("it runs").slots;
        match action {
            Action::Read { cell, place, to } => {
                self.pin_place(thread, line, place, slots);
                let Cell { name, sort, .. } = &self.program.cells[cell];
                let symbol = self.new_symbol(&symbol_name(name));
                let spelled = self.trace.tables.intern(Space::Symbol, &typed(&symbol, *sort));
                let memory = sort.to_memory(state.cells[cell]);
                self.push(thread, line, Op::Read, cell as u32, 1 + spelled, memory);
                self.mirror(thread).syms[to] = Sym::symbol(&symbol, true);
            }
            Action::Write { cell, place, from } => {
                self.pin_place(thread, line, place, slots);
                let text = self.with(thread, slots, |values| values.alone(from));
                let aux = 1 + self.expression(&text);
                let memory = self.program.cells[cell].sort.to_memory(slots[from]);
                self.push(thread, line, Op::Write, cell as u32, aux, memory);
            }
            Action::Lock { lock, place } => {
                self.pin_lock(thread, line, place, slots);
                self.push(thread, line, Op::Acquire, lock as u32, 0, None);
            }
            Action::Unlock { lock, place } => {
                self.pin_lock(thread, line, place, slots);
                self.push(thread, line, Op::Release, lock as u32, 0, None);
            }
            Action::WaitBegin { condition, lock, place } => {
                self.pin_lock(thread, line, place, slots);
                self.push(thread, line, Op::WaitBegin, condition as u32, lock as u32, None);
            }
            Action::WaitEnd { condition, lock } => {
                let notify = self.woken_by[thread];
                self.push(thread, line, Op::Wake, condition as u32, notify, None);
                self.push(thread, line, Op::WaitEnd, condition as u32, lock as u32, None);
            }
            Action::Notify { condition, woken } => {
                self.notify = 1 + self.trace.len() as u32;
                self.push(thread, line, Op::Notify, condition as u32, 0, None);
                if let Some(woken) = woken {
                    self.woken_by[woken] = self.notify;
                }
            }
            Action::NotifyAll { condition } => {
                self.notify = 1 + self.trace.len() as u32;
                self.push(thread, line, Op::NotifyAll, condition as u32, 0, None);
                for woken in state.waiting_for(condition) {
                    self.woken_by[woken] = self.notify;
                }
            }
            Action::Fork { thread: child } => self.push(thread, line, Op::Fork, child as u32, 0, None),
            Action::Join { thread: child } => self.push(thread, line, Op::Join, child as u32, 0, None),
        }
    }

    fn fails(&mut self, thread: usize, line: u32, message: &str) {
        self.failures.push(Failure {
            thread: self.program.threads[thread].name.clone(),
            location: format!("{}:{line}", self.program.file),
            message: message.to_owned(),
        });
    }
}

impl Tracer<'_> {
    /// What arguments stand for.
    fn passed(&self, thread: usize, arguments: &[Slot], slots: &[i128]) -> Vec<(Sym, String)> {
        let syms = &self.threads[thread].last().expect("it runs").syms;
        let texts = self
            .with(thread, slots, |values| arguments.iter().map(|&slot| values.alone(slot)).collect::<Vec<String>>());
        arguments.iter().map(|&slot| syms[slot].clone()).zip(texts).collect()
    }

    /// Target and aux of an effect.
    fn bind(&mut self, kind: &side::Kind) -> (u32, u32) {
        let tables = &mut self.trace.tables;
        match kind {
            side::Kind::Read { cell, symbol } => (*cell as u32, 1 + tables.intern(Space::Symbol, symbol)),
            side::Kind::Write { cell, text } => (*cell as u32, 1 + tables.intern(Space::Expression, text)),
            side::Kind::Let { symbol, text } => {
                (tables.intern(Space::Symbol, symbol), tables.intern(Space::Expression, text))
            }
            side::Kind::Branch { word, text } => {
                (1 + tables.intern(Space::Text, word), 1 + tables.intern(Space::Expression, text))
            }
            side::Kind::Acquire(lock) | side::Kind::Release(lock) => (*lock as u32, 0),
        }
    }
}
