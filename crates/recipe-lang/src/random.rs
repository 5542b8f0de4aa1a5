//! Random programs for tests: few threads, few variables, many conflicts.
//!
//! Every statement stands on a line of its own, so that a location is one
//! statement. Loops are bounded. All programs are small enough to be explored.

use snag_synthesis::Rng;
use std::fmt::Write;

/// The text of a random program, whose variables are all of type `int`.
pub fn program(seed: u64) -> String {
    write(seed, false)
}

/// The same with variables of eight bits, which overflow soon, and with functions.
pub fn program_of_all_types(seed: u64) -> String {
    write(seed, true)
}

fn write(seed: u64, all_types: bool) -> String {
    let mut random = Rng::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5eed);
    let shape = Shape {
        shared: 2 + random.below(3),
        locks: random.below(3),
        array: random.chance(25),
        arrays_of_locks: random.chance(10),
        conditions: random.chance(12),
        virtual_calls: random.chance(15),
        division: random.chance(20),
        all_types,
    };
    let threads = 2 + random.below(5) / 3;
    let mut writer = Writer { random, shape, text: String::new(), depth: 0, locals: 0, held: Vec::new(), budget: 0 };
    writer.program(threads);
    writer.text
}

struct Shape {
    shared: usize,
    locks: usize,
    array: bool,
    arrays_of_locks: bool,
    conditions: bool,
    virtual_calls: bool,
    division: bool,
    all_types: bool,
}

const NAMES: [&str; 4] = ["x", "y", "z", "w"];

struct Writer {
    random: Rng,
    shape: Shape,
    text: String,
    depth: usize,
    locals: usize,
    held: Vec<String>,
    /// So many shared accesses are left for this thread.
    budget: usize,
}

impl Writer {
    fn line(&mut self, text: &str) {
        let indent = "    ".repeat(self.depth);
        writeln!(self.text, "{indent}{text}").expect("a string takes any text");
    }

    fn program(&mut self, threads: usize) {
        for name in &NAMES[..self.shape.shared] {
            let initial = self.random.below(3);
            self.line(&format!("shared int {name} = {initial};"));
        }
        if self.shape.all_types {
            self.line("shared u8 b = 254;");
            self.line("shared i8 s = -128;");
            self.line("int twice(i16 v) { return v + v; }");
        }
        if self.shape.array {
            self.line("shared int a[2] = {0, 1};");
        }
        if self.shape.locks > 0 {
            let names: Vec<String> = (0..self.shape.locks).map(|i| format!("l{i}")).collect();
            self.line(&format!("lock {};", names.join(", ")));
        }
        if self.shape.arrays_of_locks {
            self.line("lock ls[2];");
        }
        if self.shape.conditions {
            self.line("lock m;");
            self.line("cond c;");
            self.line("shared int ready = 0;");
        }
        if self.shape.virtual_calls {
            self.line("class A { int f(int v) { return v + 1; } }");
            self.line("class B { int f(int v) { return 2 * v; } }");
            self.line("object p = A;");
            self.line("object q = B;");
            self.line("shared ref o = p;");
        }
        let with_main = self.random.chance(40);
        for thread in 0..threads {
            self.line(&format!("thread T{} {{", thread + 1));
            self.depth += 1;
            self.locals = 0;
            self.budget = if threads == 2 { 4 + self.random.below(5) } else { 3 + self.random.below(3) };
            if self.shape.conditions && thread < 2 {
                self.rendezvous(thread == 0);
            }
            for _ in 0..12 {
                if self.budget > 0 {
                    self.statement(2);
                }
            }
            self.depth -= 1;
            self.line("}");
        }
        if with_main {
            self.line("main {");
            self.depth += 1;
            self.locals = 0;
            self.budget = 2;
            if self.random.chance(50) {
                self.assignment();
            }
            (0..threads).for_each(|thread| self.line(&format!("fork T{};", thread + 1)));
            if self.random.chance(50) {
                (0..threads).for_each(|thread| self.line(&format!("join T{};", thread + 1)));
                self.assignment();
            }
            self.depth -= 1;
            self.line("}");
        }
    }

    /// One thread waits until another is ready, or not.
    fn rendezvous(&mut self, waits: bool) {
        self.line("lock(m);");
        if waits {
            let test = if self.random.chance(70) { "while" } else { "if" };
            self.line(&format!("{test} (ready == 0)"));
            self.depth += 1;
            self.line("wait(c, m);");
            self.depth -= 1;
        } else {
            self.line("ready = 1;");
            let word = if self.random.chance(70) { "notify" } else { "notifyall" };
            self.line(&format!("{word}(c);"));
        }
        self.line("unlock(m);");
        self.budget = self.budget.min(4);
    }

    fn shared(&mut self) -> String {
        self.budget = self.budget.saturating_sub(1);
        if self.shape.all_types && self.random.chance(50) {
            return self.random.pick(&["b", "s"]).to_owned();
        }
        if self.shape.array && self.random.chance(30) {
            let index = match self.random.below(3) {
                0 if self.locals > 0 => format!("v{} & 1", self.random.below(self.locals)),
                1 => {
                    self.budget = self.budget.saturating_sub(1);
                    format!("{} & 1", self.random.pick(&NAMES[..self.shape.shared]))
                }
                _ => self.random.below(2).to_string(),
            };
            return format!("a[{index}]");
        }
        self.random.pick(&NAMES[..self.shape.shared]).to_owned()
    }

    fn atom(&mut self) -> String {
        match self.random.below(5) {
            0 | 1 => self.random.below(4).to_string(),
            2 if self.locals > 0 => format!("v{}", self.random.below(self.locals)),
            _ => self.shared(),
        }
    }

    fn expression(&mut self) -> String {
        let a = self.atom();
        if self.shape.all_types && self.random.chance(30) {
            let other = self.atom();
            return match self.random.below(6) {
                0 => format!("twice({a})"),
                1 => format!("u8({a}) + {other}"),
                2 => format!("i8({a} * {other})"),
                3 => format!("{a} / ({other} | 1)"),
                4 => format!("~{a} ^ {other}"),
                _ => format!("{a} << ({other} & 3)"),
            };
        }
        match self.random.below(8) {
            0..=3 => a,
            4 => format!("{a} + {}", self.atom()),
            5 => format!("{a} - {}", self.atom()),
            6 if self.shape.division => {
                let operator = self.random.pick(&["/", "%", ">>"]);
                format!("{a} {operator} {}", self.atom())
            }
            _ => format!("{a} * {}", self.atom()),
        }
    }

    fn condition(&mut self) -> String {
        let operator = self.random.pick(&["<", "<=", ">", ">=", "==", "!="]);
        let (a, b) = (self.expression(), self.atom());
        let first = format!("{a} {operator} {b}");
        match self.random.below(8) {
            0 => format!("{first} && {} > 0", self.shared()),
            1 => format!("{first} || {} == 1", self.atom()),
            _ => first,
        }
    }

    fn assignment(&mut self) {
        let target = self.shared();
        let text = match self.random.below(6) {
            0 => format!("{target}++;"),
            1 => format!("{target} += {};", self.atom()),
            _ => format!("{target} = {};", self.expression()),
        };
        self.line(&text);
    }

    fn statement(&mut self, deeper: usize) {
        match self.random.below(12) {
            0 | 1 => {
                let value = self.expression();
                self.line(&format!("int v{} = {value};", self.locals));
                self.locals += 1;
            }
            2..=5 => self.assignment(),
            6 | 7 if deeper > 0 => {
                let condition = self.condition();
                self.line(&format!("if ({condition}) {{"));
                self.block(deeper - 1);
                if self.random.chance(50) {
                    self.line("} else {");
                    self.block(deeper - 1);
                }
                self.line("}");
            }
            8 if deeper > 0 && self.budget > 1 => {
                // Two rounds at most; what is inside counts twice.
                let body = self.budget;
                self.budget = 1;
                let counter = format!("i{}{}", self.depth, self.locals);
                self.line(&format!("for (int {counter} = 0; {counter} < 2; {counter}++) {{"));
                self.block(0);
                self.line("}");
                self.budget = body.saturating_sub(2);
            }
            9 if self.shape.locks > 0 && deeper > 0 => {
                let lock = format!("l{}", self.random.below(self.shape.locks));
                self.section(lock, deeper);
            }
            9 if self.shape.arrays_of_locks && deeper > 0 => {
                self.budget = self.budget.saturating_sub(1);
                let index = self.random.pick(&NAMES[..self.shape.shared]);
                let local = format!("v{}", self.locals);
                self.line(&format!("int {local} = {index} & 1;"));
                self.locals += 1;
                self.section(format!("ls[{local}]"), deeper);
            }
            10 if self.shape.virtual_calls => {
                let (target, argument) = (self.shared(), self.atom());
                self.budget = self.budget.saturating_sub(1);
                self.line(&format!("{target} = o.f({argument});"));
            }
            11 if self.shape.virtual_calls => {
                self.budget = self.budget.saturating_sub(1);
                let object = self.random.pick(&["p", "q"]);
                self.line(&format!("o = {object};"));
            }
            11 => {
                let condition = self.condition();
                self.line(&format!("assert({condition});"));
            }
            _ => {
                let value = self.expression();
                self.line(&format!("print({value});"));
            }
        }
    }

    fn section(&mut self, lock: String, deeper: usize) {
        self.line(&format!("lock({lock});"));
        self.held.push(lock.clone());
        for _ in 0..1 + self.random.below(2) {
            self.inside(deeper - 1);
        }
        self.held.pop();
        self.line(&format!("unlock({lock});"));
    }

    /// Statements inside braces; locals declared there end there.
    fn block(&mut self, deeper: usize) {
        self.depth += 1;
        let locals = self.locals;
        for _ in 0..1 + self.random.below(2) {
            self.statement(deeper);
        }
        self.locals = locals;
        self.depth -= 1;
    }

    /// A statement that declares nothing.
    fn inside(&mut self, deeper: usize) {
        if deeper > 0 && self.random.chance(25) {
            let condition = self.condition();
            self.line(&format!("if ({condition}) {{"));
            self.block(deeper - 1);
            self.line("}");
        } else {
            self.assignment();
        }
    }
}
