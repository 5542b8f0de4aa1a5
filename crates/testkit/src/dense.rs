//! Random traces in which everything is symbolic: every value that is read goes into a symbol, every value that is written
//! is an expression, every branch has a condition, and many have another side.
//!
//! Guarantee: [`symbolic_trace`] yields well-formed traces. The same shape and state of the generator give the same trace on
//! every machine.

use snag_formats::TraceReader;
use snag_formats::text_format::TextReader;
use snag_model::Trace;
use snag_model::symbolic::{Binary, Sort, binary};
use snag_synthesis::Rng;
use std::fmt::Write;

/// What such traces look like.
#[derive(Clone, Debug)]
pub struct Dense {
    /// Threads beside the one that forks them.
    pub threads: usize,
    /// Shared variables.
    pub variables: usize,
    /// Locks.
    pub locks: usize,
    /// Steps of all threads; a step is one to four events.
    pub steps: usize,
    /// The type of all values.
    pub sort: Sort,
    /// Percentage of steps that branch.
    pub branches: u32,
    /// Percentage of branches with another side.
    pub sides: u32,
    /// Percentage of steps in which the same thread goes on.
    pub stay: u32,
    /// Whether the threads are joined at the end.
    pub join: bool,
}

impl Dense {
    /// A small one.
    pub fn small(rng: &mut Rng) -> Dense {
        Dense {
            threads: rng.between(2, 3),
            variables: rng.between(1, 3),
            locks: rng.below(3),
            steps: rng.between(6, 11),
            sort: Sort::from_word(rng.pick(&["i64", "i64", "u8", "i8", "int", "i32", "u64"])).expect("these are types"),
            branches: rng.pick(&[20, 40]),
            sides: rng.pick(&[0, 50, 90]),
            stay: rng.pick(&[30, 60, 80]),
            join: rng.chance(20),
        }
    }
}

/// A number of an expression that has been made up.
struct Made {
    text: String,
    value: i128,
}

struct Thread {
    symbols: Vec<Made>,
    held: Vec<usize>,
}

struct Maker<'r> {
    shape: Dense,
    rng: &'r mut Rng,
    text: String,
    threads: Vec<Thread>,
    memory: Vec<i128>,
    holders: Vec<Option<usize>>,
    names: usize,
    lines: usize,
}

/// A random trace of a shape.
pub fn symbolic_trace(shape: &Dense, rng: &mut Rng) -> Trace {
    let text = symbolic_text(shape, rng);
    let reader = TextReader::new(std::io::Cursor::new(text.clone().into_bytes()));
    match TraceReader::new(Box::new(reader), None).read_all() {
        Ok((trace, _)) => trace,
        Err(why) => panic!("{why}\n{text}"),
    }
}

/// Its text.
pub fn symbolic_text(shape: &Dense, rng: &mut Rng) -> String {
    let mut maker = Maker {
        shape: shape.clone(),
        rng,
        text: String::from("%snag 1\n"),
        threads: (0..shape.threads).map(|_| Thread { symbols: Vec::new(), held: Vec::new() }).collect(),
        memory: Vec::new(),
        holders: vec![None; shape.locks],
        names: 0,
        lines: 0,
    };
    maker.make();
    maker.text
}

impl Maker<'_> {
    fn make(&mut self) {
        for variable in 0..self.shape.variables {
            let value = self.small();
            self.memory.push(value);
            let memory = self.shape.sort.to_memory(value).expect("small numbers fit");
            writeln!(self.text, "%init x{variable} {memory}").expect("a string takes all");
        }
        for thread in 0..self.shape.threads {
            writeln!(self.text, "main|fork(T{thread})|").expect("a string takes all");
        }
        let mut thread = 0;
        for _ in 0..self.shape.steps {
            if !self.rng.chance(self.shape.stay) {
                thread = self.rng.below(self.shape.threads);
            }
            self.step(thread);
        }
        if self.shape.join {
            for thread in 0..self.shape.threads {
                while let Some(lock) = self.threads[thread].held.pop() {
                    self.line(thread, &format!("rel(l{lock})"));
                }
            }
            for thread in 0..self.shape.threads {
                writeln!(self.text, "main|join(T{thread})|").expect("a string takes all");
            }
            for variable in 0..self.shape.variables {
                let value = self.in_memory(self.memory[variable]);
                writeln!(self.text, "main|r(x{variable})={value}|end:{variable}").expect("a string takes all");
            }
        }
    }

    fn line(&mut self, thread: usize, what: &str) {
        self.lines += 1;
        writeln!(self.text, "T{thread}|{what}|f:{}", self.lines).expect("a string takes all");
    }

    fn in_memory(&self, value: i128) -> i64 {
        self.shape.sort.to_memory(value).expect("what is stored fits")
    }

    fn small(&mut self) -> i128 {
        let value = self.rng.below(5) as i128 - 1;
        self.shape.sort.convert(value)
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    fn step(&mut self, thread: usize) {
        let branch = self.rng.chance(self.shape.branches);
        match self.rng.below(10) {
            _ if branch => self.branch(thread),
            0 if self.shape.locks > 0 => self.lock(thread),
            1 if self.shape.locks > 0 => self.release(thread),
            2 => {
                let made = self.expression(thread, 2);
                let name = self.name();
                self.line(thread, &format!("let({name})={}", made.text));
                self.threads[thread].symbols.push(Made { text: name, value: made.value });
            }
            3..=5 => {
                let mut made = self.expression(thread, 2);
                if self.shape.sort.to_memory(made.value).is_none() {
                    made = self.constant();
                }
                let variable = self.rng.below(self.shape.variables);
                self.memory[variable] = made.value;
                let value = self.in_memory(made.value);
                self.line(thread, &format!("w(x{variable})={value}<-{}", made.text));
            }
            _ => self.read(thread),
        }
    }

    fn read(&mut self, thread: usize) {
        let variable = self.rng.below(self.shape.variables);
        let (name, value) = (self.name(), self.memory[variable]);
        let memory = self.in_memory(value);
        self.line(thread, &format!("r(x{variable})={memory}->{name}:{}", self.shape.sort));
        self.threads[thread].symbols.push(Made { text: name, value });
    }

    fn lock(&mut self, thread: usize) {
        let lock = self.rng.below(self.shape.locks);
        if self.holders[lock].is_none() {
            self.holders[lock] = Some(thread);
            self.threads[thread].held.push(lock);
            self.line(thread, &format!("acq(l{lock})"));
        }
    }

    fn release(&mut self, thread: usize) {
        if let Some(lock) = self.threads[thread].held.pop() {
            self.holders[lock] = None;
            self.line(thread, &format!("rel(l{lock})"));
        }
    }

    fn branch(&mut self, thread: usize) {
        if self.threads[thread].symbols.is_empty() || self.rng.chance(60) {
            self.read(thread);
        }
        let (a, b) = (self.expression(thread, 1), self.constant());
        let (word, outcome) = match self.rng.below(4) {
            0 => ("=", a.value == b.value),
            1 => ("!=", a.value != b.value),
            2 => ("<", a.value < b.value),
            _ => (">=", a.value >= b.value),
        };
        self.line(thread, &format!("branch(({word} {} {}))={}", a.text, b.text, outcome as u8));
        if !self.rng.chance(self.shape.sides) {
            return;
        }
        let known = self.threads[thread].symbols.len();
        for _ in 0..self.rng.between(1, 3) {
            let variable = self.rng.below(self.shape.variables);
            match self.rng.below(8) {
                0 => {
                    let made = self.expression(thread, 1);
                    self.line(thread, &format!("else-branch((<= {} 2))", made.text));
                }
                1 => {
                    let name = self.name();
                    self.line(thread, &format!("else-r(x{variable})->{name}:{}", self.shape.sort));
                    self.threads[thread].symbols.push(Made { text: name, value: 1 });
                }
                2 if self.shape.locks > 0 => {
                    let lock = self.rng.below(self.shape.locks);
                    let word = self.rng.pick(&["acq", "rel"]);
                    self.line(thread, &format!("else-{word}(l{lock})"));
                }
                3 => {
                    let (name, made) = (self.name(), self.expression(thread, 1));
                    self.line(thread, &format!("else-let({name})={}", made.text));
                    self.threads[thread].symbols.push(Made { text: name, value: made.value });
                }
                4 => self.line(thread, &format!("else-r(x{variable})")),
                _ => {
                    let made = self.expression(thread, 1);
                    self.line(thread, &format!("else-w(x{variable})<-{}", made.text));
                }
            }
        }
        // What the other side has defined is known to it alone.
        self.threads[thread].symbols.truncate(known);
    }

    fn constant(&mut self) -> Made {
        let value = self.small();
        // A literal is an `i64`, which wraps around.
        Made { text: format!("({} {})", self.shape.sort, self.in_memory(value)), value }
    }

    /// An expression that has a value here.
    fn expression(&mut self, thread: usize, depth: u32) -> Made {
        let symbols = self.threads[thread].symbols.len();
        if symbols == 0 || self.rng.chance(15) {
            return self.constant();
        }
        // Mostly what was defined last.
        let at = symbols - 1 - self.rng.below(symbols.min(3));
        let symbol = &self.threads[thread].symbols[at];
        let one = Made { text: symbol.text.clone(), value: symbol.value };
        if depth == 0 || self.rng.chance(30) {
            return one;
        }
        let other = self.expression(thread, depth - 1);
        let operators: &[(&str, Binary)] = match self.shape.sort {
            Sort::Int => &[
                ("+", Binary::Add),
                ("-", Binary::Subtract),
                ("*", Binary::Multiply),
                ("/", Binary::Divide),
                ("%", Binary::Remainder),
            ],
            _ => &[
                ("+", Binary::Add),
                ("-", Binary::Subtract),
                ("*", Binary::Multiply),
                ("/", Binary::Divide),
                ("%", Binary::Remainder),
                ("bitand", Binary::BitAnd),
                ("bitor", Binary::BitOr),
                ("bitxor", Binary::BitXor),
                ("shl", Binary::ShiftLeft),
                ("shr", Binary::ShiftRight),
            ],
        };
        let (word, operator) = self.rng.pick(operators);
        match binary(operator, self.shape.sort, one.value, other.value) {
            Ok(value) if self.rng.chance(80) => Made { text: format!("({word} {} {})", one.text, other.text), value },
            // A choice by a comparison.
            _ => {
                let value = if one.value < other.value { one.value } else { other.value };
                Made { text: format!("(ite (< {0} {1}) {0} {1})", one.text, other.text), value }
            }
        }
    }
}
