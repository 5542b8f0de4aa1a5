//! What is said beside the accesses: missing methods, branches, symbols, marks.

use super::Simulation;
use snag_model::symbolic::Sort;
use snag_model::tables::Object;
use snag_model::{
    Action, BarrierId, CondId, Else, ExprId, LockId, MemoryOrder, MethodId, Op, SemId, Space, SymbolId, TextId,
    ThreadId, VarId, Variable,
};

impl Simulation<'_> {
    pub(super) fn method(&mut self, thread: usize) {
        if let Some(&method) = self.threads[thread].methods.last()
            && self.rng.chance(60)
        {
            self.threads[thread].methods.pop();
            return self.emit(thread, Action::MethodEnd { method });
        }
        if self.threads[thread].methods.len() < 2 {
            let name = format!("m{}", self.rng.between(1, 2));
            let method = MethodId(self.trace.tables.intern(Space::Method, &name));
            let mut objects = Vec::new();
            for _ in 0..self.rng.below(3) {
                let count = |space| self.trace.tables.names(space).len();
                let (conditions, semaphores, barriers) =
                    (count(Space::Condition), count(Space::Semaphore), count(Space::Barrier));
                objects.push(match self.rng.below(9) {
                    2 if conditions > 0 => Object::Condition(CondId::new(self.rng.below(conditions))),
                    3 if semaphores > 0 => Object::Semaphore(SemId::new(self.rng.below(semaphores))),
                    4 if barriers > 0 => Object::Barrier(BarrierId::new(self.rng.below(barriers))),
                    0 => Object::Thread(ThreadId::new(self.rng.below(self.threads.len()))),
                    1 if !self.locks.is_empty() => Object::Lock(LockId::new(self.rng.below(self.locks.len()))),
                    _ => Object::Variable(self.rng.pick(&self.variables)),
                });
            }
            let described = objects.iter().find_map(|object| match object {
                Object::Variable(variable) if objects.len() == 2 => Some(*variable),
                _ => None,
            });
            let reach = self.trace.tables.reach(objects);
            // What an object leads to is said beside what the program does, and is no reason for anything.
            if let Some(object) = described {
                self.emit(thread, Action::Reach { object, leads_to: reach });
            }
            self.threads[thread].methods.push(method);
            self.emit(thread, Action::MethodBegin { method, reach });
        }
    }

    pub(super) fn branch(&mut self, thread: usize) {
        self.emit(thread, Action::Branch { condition: None, taken: None, text: None });
    }

    /// An expression over what the thread has defined, of type `i64`, and its value where known.
    pub(super) fn expression(&mut self, thread: usize) -> (String, Option<i128>) {
        let number = self.rng.below(4) as i128;
        let symbols = &self.threads[thread].symbols;
        if symbols.is_empty() {
            return (number.to_string(), Some(number));
        }
        let symbol = self.rng.below(symbols.len());
        let operator = self.rng.pick(&["+", "*", "<", "="]);
        let value = self.threads[thread].symbols[symbol].map(|value| {
            let value = Sort::DEFAULT.convert(value);
            Sort::DEFAULT.convert(match operator {
                "+" => value + number,
                "*" => value * number,
                "<" => (value < number) as i128,
                _ => (value == number) as i128,
            })
        });
        (format!("(i64 ({operator} (i64 a{symbol}) {number}))"), value)
    }

    fn written_down(&mut self, expression: &str) -> ExprId {
        ExprId(self.trace.tables.intern(Space::Expression, expression))
    }

    /// Threads may use the same names: each has its own symbols.
    pub(super) fn new_symbol(&mut self, thread: usize, sort: Sort, value: Option<i128>) -> SymbolId {
        let symbols = &mut self.threads[thread].symbols;
        let of_type = if sort == Sort::DEFAULT { String::new() } else { format!(":{sort}") };
        let name = format!("a{}{of_type}", symbols.len());
        symbols.push(value);
        SymbolId(self.trace.tables.intern(Space::Symbol, &name))
    }

    /// A type for the values of a variable.
    pub(super) fn sort_of(&self, variable: VarId) -> Option<Sort> {
        match self.trace.tables.variable(variable) {
            Variable::Named(_) => Some(Sort::DEFAULT),
            Variable::Range { size, .. } => Sort::from_word(&format!("u{}", 8 * size)),
        }
    }

    pub(super) fn symbolic(&mut self, thread: usize) {
        let (expression, value) = self.expression(thread);
        match self.rng.below(4) {
            0 => {
                let is = self.written_down(&expression);
                let symbol = self.new_symbol(thread, Sort::DEFAULT, value);
                self.emit(thread, Action::Let { symbol, is });
            }
            1 => {
                let Some(variable) = self.some_variable() else { return };
                let Some(sort) = self.sort_of(variable) else { return };
                let symbol = self.new_symbol(thread, sort, None);
                self.access(thread, Op::Read, variable, MemoryOrder::default(), Some(symbol));
                let last = self.trace.events.len() - 1;
                let read = self.trace.events.value(last).map(|memory| sort.from_memory(memory));
                *self.threads[thread].symbols.last_mut().expect("just defined") = read;
            }
            2 => {
                let Some(variable) = self.some_variable() else { return };
                let Some(sort) = self.sort_of(variable) else { return };
                let of = Some(self.written_down(&format!("({sort} {expression})")));
                let written = value.and_then(|value| sort.to_memory(sort.convert(value)));
                let written = written.filter(|_| self.rng.chance(self.shape.values));
                self.store(variable, written);
                self.emit(thread, Action::Write { variable, value: written, of });
            }
            _ => {
                let condition = Some(self.written_down(&expression));
                let taken = value.map(|value| (value != 0) as i64).filter(|_| self.rng.chance(50));
                self.emit(thread, Action::Branch { condition, taken, text: None });
                self.other_side(thread);
            }
        }
    }

    /// Sometimes, what would have happened had the last branch gone the other way.
    pub(super) fn other_side(&mut self, thread: usize) {
        for _ in 0..self.rng.pick(&[0, 1, 3, 4, 5]) {
            match self.rng.below(8) {
                0 | 6 | 7 if self.shape.locks > 0 => {
                    let acquires = self.rng.pick(&[true, false]);
                    let lock = LockId::new(self.rng.below(self.locks.len()));
                    let action = if acquires { Else::Acquire { lock } } else { Else::Release { lock } };
                    self.emit(thread, Action::Else(action));
                }
                1 => {
                    let (expression, _) = self.expression(thread);
                    let condition = Some(self.written_down(&expression));
                    self.emit(thread, Action::Else(Else::Branch { condition, text: None }));
                }
                2 => {
                    let (expression, _) = self.expression(thread);
                    let is = self.written_down(&expression);
                    let name = format!("o{}", self.trace.events.len());
                    let symbol = SymbolId(self.trace.tables.intern(Space::Symbol, &name));
                    self.emit(thread, Action::Else(Else::Let { symbol, is }));
                }
                3 => {
                    let Some(variable) = self.some_variable() else { continue };
                    self.emit(thread, Action::Else(Else::Read { variable, into: None }));
                }
                _ => {
                    let Some(variable) = self.some_variable() else { continue };
                    let Some(sort) = self.sort_of(variable) else { continue };
                    let (expression, _) = self.expression(thread);
                    let of = Some(self.written_down(&format!("({sort} {expression})")));
                    self.emit(thread, Action::Else(Else::Write { variable, of }));
                }
            }
        }
    }

    pub(super) fn mark(&mut self, thread: usize) {
        let word = self.rng.pick(&["begin", "endAtomic", "dummy(1)"]);
        let text = TextId(self.trace.tables.intern(Space::Text, word));
        self.emit(thread, Action::Mark { text });
    }
}
