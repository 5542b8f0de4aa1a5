//! Writes down a run as a symbolic trace.
//!
//! Every definition of a local variable is a `let` of a new symbol, named after the
//! variable and the number of the event: the trace is in SSA form. Reads of shared
//! variables define symbols, writes carry expressions, arguments and returned values
//! flow through `ARG` and `RET`. Whatever decides where an event goes (an index, a lock,
//! an object) or leaves the program is pinned by a branch before it.

use crate::machine::{Observer, State, Visible, is_partial, object_of};
use crate::program::*;
use crate::side;
use crate::symbols::{Sym, Values};
use snag_model::events::Event;
use snag_model::symbolic::Sort;
use snag_model::{
    Action, CondId, Else, EventId, ExprId, LocId, LockId, Mode, Space, SymbolId, TextId, ThreadId, Trace, VarId,
};

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
    /// Of each thread the notify that has woken it.
    woken_by: Vec<Option<EventId>>,
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
            woken_by: vec![None; program.threads.len()],
        }
    }

    fn mirror(&mut self, thread: usize) -> &mut Mirror {
        self.threads[thread].last_mut().expect("a thread that runs has a frame")
    }

    fn location(&mut self, line: u32) -> LocId {
        let text = format!("{}:{line}", self.program.file);
        self.trace.tables.location(&text)
    }

    fn push(&mut self, thread: usize, line: u32, action: Action) {
        let location = self.location(line);
        self.trace.events.push(Event { location, ..Event::of(ThreadId::new(thread), action) });
    }

    fn symbol(&mut self, text: &str) -> SymbolId {
        SymbolId(self.trace.tables.intern(Space::Symbol, text))
    }

    fn expression(&mut self, text: &str) -> ExprId {
        ExprId(self.trace.tables.intern(Space::Expression, text))
    }

    /// A symbol that the next event defines.
    fn new_symbol(&mut self, name: &str) -> String {
        format!("{name}.{}", self.trace.len())
    }

    fn branch_event(&mut self, thread: usize, line: u32, word: &str, condition: &str, outcome: bool) {
        let text = (!word.is_empty()).then(|| TextId(self.trace.tables.intern(Space::Text, word)));
        let condition = Some(self.expression(condition));
        self.push(thread, line, Action::Branch { condition, taken: Some(outcome as i64), text });
    }

    fn let_event(&mut self, thread: usize, line: u32, name: &str, text: &str, depends: bool) -> Sym {
        let name = self.new_symbol(name);
        let (symbol, is) = (self.symbol(&name), self.expression(text));
        self.push(thread, line, Action::Let { symbol, is });
        Sym::symbol(&name, depends)
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
            let action = Action::Else(self.bind(&effect.kind));
            self.push(thread, effect.line, action);
        }
    }

    fn visible(&mut self, state: &State, thread: usize, line: u32, action: Visible) {
        let slots = &state.threads[thread].frames.last().expect("it runs").slots;
        match action {
            Visible::Read { cell, place, to } => {
                self.pin_place(thread, line, place, slots);
                let Cell { name, sort, .. } = &self.program.cells[cell];
                let symbol = self.new_symbol(&symbol_name(name));
                let into = Some(self.symbol(&typed(&symbol, *sort)));
                let value = sort.to_memory(state.cells[cell]);
                self.push(thread, line, Action::Read { variable: VarId::new(cell), value, into });
                self.mirror(thread).syms[to] = Sym::symbol(&symbol, true);
            }
            Visible::Write { cell, place, from } => {
                self.pin_place(thread, line, place, slots);
                let text = self.with(thread, slots, |values| values.alone(from));
                let of = Some(self.expression(&text));
                let value = self.program.cells[cell].sort.to_memory(slots[from]);
                self.push(thread, line, Action::Write { variable: VarId::new(cell), value, of });
            }
            Visible::Lock { lock, place } => {
                self.pin_lock(thread, line, place, slots);
                let lock = LockId::new(lock);
                self.push(thread, line, Action::Acquire { lock, mode: Mode::Exclusive, gives_up: false });
            }
            Visible::Unlock { lock, place } => {
                self.pin_lock(thread, line, place, slots);
                self.push(thread, line, Action::Release { lock: LockId::new(lock), mode: Mode::Exclusive });
            }
            Visible::WaitBegin { condition, lock, place } => {
                self.pin_lock(thread, line, place, slots);
                let (condition, lock) = (CondId::new(condition), LockId::new(lock));
                self.push(thread, line, Action::WaitBegin { condition, lock });
            }
            Visible::WaitEnd { condition, lock } => {
                let (condition, lock) = (CondId::new(condition), LockId::new(lock));
                self.push(thread, line, Action::Wake { condition, by: self.woken_by[thread] });
                self.push(thread, line, Action::WaitEnd { condition, lock });
            }
            Visible::Notify { condition, woken } => {
                if let Some(woken) = woken {
                    self.woken_by[woken] = Some(EventId::new(self.trace.len()));
                }
                self.push(thread, line, Action::Notify { condition: CondId::new(condition) });
            }
            Visible::NotifyAll { condition } => {
                for woken in state.waiting_for(condition) {
                    self.woken_by[woken] = Some(EventId::new(self.trace.len()));
                }
                self.push(thread, line, Action::NotifyAll { condition: CondId::new(condition) });
            }
            Visible::Fork { thread: child } => {
                self.push(thread, line, Action::Fork { thread: ThreadId::new(child), spelling: None })
            }
            Visible::Join { thread: child } => {
                self.push(thread, line, Action::Join { thread: ThreadId::new(child), spelling: None })
            }
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

    /// An effect with the names that the trace has for what it is about.
    fn bind(&mut self, kind: &side::Kind) -> Else {
        match kind {
            side::Kind::Read { cell, symbol } => {
                Else::Read { variable: VarId::new(*cell), into: Some(self.symbol(symbol)) }
            }
            side::Kind::Write { cell, text } => {
                Else::Write { variable: VarId::new(*cell), of: Some(self.expression(text)) }
            }
            side::Kind::Let { symbol, text } => Else::Let { symbol: self.symbol(symbol), is: self.expression(text) },
            side::Kind::Branch { word, text } => {
                let word = TextId(self.trace.tables.intern(Space::Text, word));
                Else::Branch { condition: Some(self.expression(text)), text: Some(word) }
            }
            side::Kind::Acquire(lock) => Else::Acquire { lock: LockId::new(*lock) },
            side::Kind::Release(lock) => Else::Release { lock: LockId::new(*lock) },
        }
    }
}
