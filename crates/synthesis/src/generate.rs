//! Synthetic well-formed traces for tests and benchmarks.
//!
//! Threads run programs of critical sections: each lock protects its own group
//! of variables, and accesses inside a section go to the group of a lock held.
//! A given share of accesses breaks that rule and goes to variables that nothing
//! protects, from a small set of source locations, so that a trace has races of
//! which the number of location pairs stays that of a real program. The same
//! [`Shape`] and seed give the same trace on every machine.

use snag_formats::error::{Position, Result};
use snag_formats::reader::BlockReader;
use snag_model::Action;
use snag_model::events::{Event, Events};
use snag_model::ids::*;
use snag_model::op::{MemoryOrder, Op};
use snag_model::tables::{Object, Space, Tables};

/// What a generated trace looks like.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Number of events, about: sections that are open at the end are closed.
    pub events: usize,
    /// Number of threads, the first of which forks and joins the others.
    pub threads: usize,
    /// Number of locks.
    pub locks: usize,
    /// Number of variables that some lock protects.
    pub variables: usize,
    /// Number of variables that only one thread uses, per thread.
    pub local_variables: usize,
    /// How deep critical sections nest at the most.
    pub nesting: usize,
    /// Accesses in a critical section, on average.
    pub section: usize,
    /// Share of accesses that read.
    pub reads: f64,
    /// Share of accesses that no lock protects and that may race.
    pub racy: f64,
    /// Number of source locations.
    pub locations: usize,
    /// Accesses carry values.
    pub values: bool,
    /// Share of reads that a branch follows.
    pub branches: f64,
    /// Number of variables that nothing protects.
    pub racy_variables: usize,
    /// Share of accesses that are atomic, to flags that all threads share.
    pub atomics: f64,
    /// Marks tell which method does what: sections are entered and left, threads forked and joined, and work is done
    /// by methods.
    pub calls: bool,
    /// `reach` says that the first variable of each lock leads to the lock and to all that it protects: they are parts of
    /// one object.
    pub objects: bool,
    /// Everything random comes from this.
    pub seed: u64,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            events: 100_000,
            threads: 8,
            locks: 8,
            variables: 96,
            local_variables: 16,
            nesting: 2,
            section: 6,
            reads: 0.7,
            racy: 0.002,
            locations: 500,
            values: false,
            branches: 0.0,
            racy_variables: RACY,
            atomics: 0.0,
            calls: false,
            objects: false,
            seed: 1,
        }
    }
}

/// Generates a trace block by block.
pub struct Generator {
    shape: Shape,
    random: Random,
    /// Events produced so far.
    produced: usize,
    phase: Phase,
    /// Locks each thread holds, in order of acquisition.
    held: Vec<Vec<u32>>,
    /// Accesses left in the current section of each thread.
    left: Vec<usize>,
    owner: Vec<Option<u32>>,
    memory: Vec<i64>,
    /// The method that does the work of each thread.
    working: Vec<Option<usize>>,
    named: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Fork,
    Run,
    Close,
    Done,
}

const BLOCK: usize = 1 << 16;
/// Variables that nothing protects, unless told otherwise.
const RACY: usize = 8;
/// Atomic flags.
const FLAGS: usize = 16;
/// Locations that accesses to them come from; if there are more of them, each has three of its own.
const RACY_LOCATIONS: usize = 6;
/// Methods that enter sections, and as many that leave them.
const ENTERING: usize = 8;
/// Methods that do the rest.
const WORKING: usize = 40;
/// Methods that fork and join.
const STARTING: usize = 2 * ENTERING + WORKING;
const FINISHING: usize = STARTING + 1;

/// The first variable that is an atomic flag.
fn flags(shape: &Shape) -> usize {
    shape.variables + shape.racy_variables + shape.threads * shape.local_variables
}

impl Generator {
    /// Generates a trace of this shape.
    pub fn new(shape: Shape) -> Generator {
        let shape = Shape {
            threads: shape.threads.max(1),
            section: shape.section.max(1),
            locations: shape.locations.max(1),
            variables: shape.variables.max(shape.locks),
            racy_variables: shape.racy_variables.max(1),
            ..shape
        };
        Generator {
            random: Random(shape.seed.wrapping_mul(2).wrapping_add(0x5eed)),
            produced: 0,
            phase: Phase::Fork,
            held: vec![Vec::new(); shape.threads],
            left: vec![0; shape.threads],
            owner: vec![None; shape.locks],
            memory: vec![0; flags(&shape) + FLAGS],
            working: vec![None; shape.threads],
            named: false,
            shape,
        }
    }

    /// All names up front, so that ids are known numbers.
    fn name(&mut self, tables: &mut Tables) {
        self.named = true;
        for t in 0..self.shape.threads {
            tables.thread(&format!("T{t}"));
        }
        for l in 0..self.shape.locks {
            tables.intern(Space::Lock, &format!("L{l}"));
        }
        for v in 0..self.shape.variables {
            tables.variable_named(&format!("V{v}"));
        }
        for v in 0..self.shape.racy_variables {
            tables.variable_named(&format!("racy{v}"));
        }
        for t in 0..self.shape.threads {
            for v in 0..self.shape.local_variables {
                tables.variable_named(&format!("T{t}.{v}"));
            }
        }
        if self.shape.atomics > 0.0 {
            for v in 0..FLAGS {
                tables.variable_named(&format!("flag{v}"));
            }
        }
        for l in 0..self.shape.locations {
            tables.location(&format!("C{}.java:{}", l % 37, l));
        }
        for l in 0..self.racy_locations() {
            tables.location(&format!("Racy.java:{l}"));
        }
        if self.shape.calls {
            let enter = (0..ENTERING).map(|m| format!("Lock{m}.enter"));
            let leave = (0..ENTERING).map(|m| format!("Lock{m}.leave"));
            let work = (0..WORKING).map(|m| format!("Worker{}.work{}", m % 5, m / 5));
            let threads = ["Pool.start", "Pool.finish"].map(str::to_owned);
            for method in enter.chain(leave).chain(work).chain(threads) {
                tables.intern(Space::Text, &format!("begin({method})"));
                tables.intern(Space::Text, &format!("end({method})"));
            }
        }
    }

    fn racy_locations(&self) -> usize {
        if self.shape.racy_variables <= RACY { RACY_LOCATIONS } else { 3 * self.shape.racy_variables }
    }

    /// A method begins or ends.
    fn mark(&mut self, events: &mut Events, thread: usize, method: usize, ends: bool) {
        if self.shape.calls {
            self.produced += 1;
            let text = 2 * method + ends as usize;
            events.push_plain(ThreadId::new(thread), Op::Mark, text as u32, LocId::NONE);
        }
    }

    /// The method that does the work of a thread begins, or another one.
    fn begin_work(&mut self, events: &mut Events, thread: usize) {
        if self.shape.calls {
            let method = 2 * ENTERING + self.random.below(WORKING);
            self.working[thread] = Some(method);
            self.mark(events, thread, method, false);
        }
    }

    fn end_work(&mut self, events: &mut Events, thread: usize) {
        if let Some(method) = self.working[thread].take() {
            self.mark(events, thread, method, true);
        }
    }

    fn push(&mut self, events: &mut Events, thread: usize, op: Op, target: u32, location: u32) {
        self.produced += 1;
        let mut event = Event::new(ThreadId::new(thread), op, target);
        event.location = LocId(location + 1);
        if self.shape.values && op.is_access() {
            if op == Op::Write {
                self.write(target as usize);
            }
            event.value = Some(self.memory[target as usize]);
            events.push(event);
        } else {
            events.push_plain(event.thread, op, target, event.location);
        }
    }

    /// Variables hold what those of programs do: counters, things that are never the same again, small states.
    fn write(&mut self, variable: usize) {
        self.memory[variable] = match variable % 4 {
            0 | 1 => self.memory[variable] + 1,
            2 => self.produced as i64,
            _ => self.random.below(4) as i64,
        };
    }

    /// Says of each object what its parts are.
    fn describe(&mut self, tables: &mut Tables, events: &mut Events) {
        let group = self.shape.variables / self.shape.locks.max(1);
        for lock in 0..self.shape.locks {
            let part = |variable: usize| Object::Variable(VarId::new(lock * group + variable));
            let parts = (1..group).map(part).chain([Object::Lock(LockId::new(lock))]).collect();
            let (object, leads_to) = (VarId::new(lock * group), tables.reach(parts));
            let event = Event::new(ThreadId::new(0), Op::Mark, 0);
            self.produced += 1;
            events.push(event.doing(Action::Reach { object, leads_to }));
        }
    }

    /// An atomic access. Most orders are those that a flag needs; one access in ten is relaxed.
    fn atomic(&mut self, events: &mut Events, thread: usize) {
        let variable = flags(&self.shape) + self.random.below(FLAGS);
        let (op, order) = match self.random.below(10) {
            0 => (Op::AtomicRead, MemoryOrder::Relaxed),
            1..5 => (Op::AtomicRead, MemoryOrder::Acquire),
            5..8 => (Op::AtomicWrite, MemoryOrder::Release),
            _ => (Op::Rmw, MemoryOrder::AcqRel),
        };
        let location = self.location(variable);
        self.produced += 1;
        let mut event = Event::new(ThreadId::new(thread), op, variable as u32);
        (event.location, event.aux) = (LocId(location + 1), order as u32);
        if self.shape.values {
            let read = self.memory[variable];
            if op.writes() {
                self.memory[variable] += 1;
            }
            event.value = Some(if op.reads() { read } else { self.memory[variable] });
            event.written = (op == Op::Rmw).then_some(self.memory[variable]);
        }
        events.push(event);
    }

    /// A source location for an operation on something: the same thing is used from a few places.
    fn location(&mut self, thing: usize) -> u32 {
        let place = thing.wrapping_mul(7) + self.random.below(3);
        (place % self.shape.locations) as u32
    }

    fn access(&mut self, events: &mut Events, thread: usize) {
        if self.shape.atomics > 0.0 && self.random.chance(self.shape.atomics) {
            return self.atomic(events, thread);
        }
        let read = self.random.chance(self.shape.reads);
        let op = if read { Op::Read } else { Op::Write };
        if self.random.chance(self.shape.racy) {
            let racy = self.random.below(self.shape.racy_variables);
            let own = if self.shape.racy_variables <= RACY { 0 } else { 3 * racy };
            let places = if own == 0 && self.shape.racy_variables <= RACY { RACY_LOCATIONS } else { 3 };
            let location = self.shape.locations + own + self.random.below(places);
            return self.push(events, thread, op, (self.shape.variables + racy) as u32, location as u32);
        }
        let variable = match self.held[thread].last() {
            Some(&lock) => {
                let group = self.shape.variables / self.shape.locks;
                lock as usize * group + self.random.below(group)
            }
            None if self.shape.local_variables == 0 => return,
            None => {
                let local = self.shape.variables + self.shape.racy_variables + thread * self.shape.local_variables;
                local + self.random.below(self.shape.local_variables)
            }
        };
        let location = self.location(variable);
        self.push(events, thread, op, variable as u32, location);
        if read && self.shape.branches > 0.0 && self.random.chance(self.shape.branches) {
            self.push(events, thread, Op::Branch, 0, location);
        }
    }

    fn acquire(&mut self, events: &mut Events, thread: usize) {
        if self.shape.locks == 0 {
            return;
        }
        let lock = self.random.below(self.shape.locks);
        if self.owner[lock].is_none() {
            self.owner[lock] = Some(thread as u32);
            self.held[thread].push(lock as u32);
            let location = self.location(lock);
            self.end_work(events, thread);
            self.mark(events, thread, lock % ENTERING, false);
            self.push(events, thread, Op::Acquire, lock as u32, location);
            self.mark(events, thread, lock % ENTERING, true);
            self.begin_work(events, thread);
        }
        self.left[thread] = 1 + self.random.below(2 * self.shape.section - 1);
    }

    fn release(&mut self, events: &mut Events, thread: usize) {
        if let Some(lock) = self.held[thread].pop() {
            self.owner[lock as usize] = None;
            let location = self.location(lock as usize);
            self.end_work(events, thread);
            let method = ENTERING + lock as usize % ENTERING;
            self.mark(events, thread, method, false);
            self.push(events, thread, Op::Release, lock, location);
            self.mark(events, thread, method, true);
            self.begin_work(events, thread);
        }
        self.left[thread] = 1 + self.random.below(2 * self.shape.section - 1);
    }

    /// One thread runs for a while: it accesses memory, and now and then enters or leaves a section.
    fn burst(&mut self, events: &mut Events) {
        let thread = self.random.below(self.shape.threads);
        for _ in 0..1 + self.random.below(24) {
            if self.left[thread] > 0 {
                self.left[thread] -= 1;
                self.access(events, thread);
            } else if self.held[thread].len() < self.shape.nesting && self.random.below(2) == 0 {
                self.acquire(events, thread);
            } else {
                self.release(events, thread);
            }
        }
    }
}

impl BlockReader for Generator {
    fn read_block(&mut self, tables: &mut Tables, events: &mut Events) -> Result<bool> {
        if !self.named {
            self.name(tables);
        }
        let stop = events.len() + BLOCK;
        while events.len() < stop {
            match self.phase {
                Phase::Fork => {
                    if self.shape.objects {
                        self.describe(tables, events);
                    }
                    for child in 1..self.shape.threads {
                        self.mark(events, 0, STARTING, false);
                        self.push(events, 0, Op::Fork, child as u32, 0);
                        self.mark(events, 0, STARTING, true);
                    }
                    self.phase = Phase::Run;
                }
                Phase::Run if self.produced + 2 * self.shape.threads >= self.shape.events => self.phase = Phase::Close,
                Phase::Run => self.burst(events),
                Phase::Close => {
                    for thread in 0..self.shape.threads {
                        while !self.held[thread].is_empty() {
                            self.release(events, thread);
                        }
                    }
                    (0..self.shape.threads).for_each(|thread| self.end_work(events, thread));
                    for child in 1..self.shape.threads {
                        self.mark(events, 0, FINISHING, false);
                        self.push(events, 0, Op::Join, child as u32, 0);
                        self.mark(events, 0, FINISHING, true);
                    }
                    self.phase = Phase::Done;
                }
                Phase::Done => return Ok(false),
            }
        }
        Ok(true)
    }

    fn position_of(&self, event: usize) -> Position {
        Position::Event(event as u64)
    }

    fn take_warnings(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// SplitMix64: small, good enough for workloads, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        ((self.next() as u128 * n as u128) >> 64) as usize
    }

    fn chance(&mut self, share: f64) -> bool {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64) < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use snag_formats::reader::TraceReader;

    fn generate(shape: Shape) -> snag_model::Trace {
        TraceReader::new(Box::new(Generator::new(shape)), None).read_all().expect("well formed").0
    }

    #[test]
    fn every_shape_is_well_formed_and_about_as_long_as_asked() {
        for seed in 0..20 {
            for threads in [1, 2, 9] {
                let shape = Shape { events: 3000, threads, seed, racy: 0.1, nesting: 3, ..Shape::default() };
                let trace = generate(Shape { values: seed % 2 == 0, branches: 0.3, ..shape.clone() });
                assert!(trace.len().abs_diff(3000) < 200, "{}", trace.len());
                let atomic = generate(Shape { values: seed % 2 == 0, atomics: 0.2, ..shape.clone() });
                assert!(atomic.events.ops().iter().filter(|op| op.is_atomic()).count() > 300);
                let called = generate(Shape { calls: true, racy_variables: 20, ..shape });
                assert!(called.len().abs_diff(3000) < 200, "{}", called.len());
                let calls = crate::calls::Calls::marked(&called);
                assert!(calls.all.len() > 100 && calls.all.iter().all(|call| call.end.is_some()));
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        let shape = Shape { events: 5000, ..Shape::default() };
        assert_eq!(generate(shape.clone()), generate(shape.clone()));
        assert_ne!(generate(shape.clone()), generate(Shape { seed: 2, ..shape }));
    }

    #[test]
    fn no_locks_or_no_locals_still_end() {
        generate(Shape { events: 500, locks: 0, racy: 0.5, ..Shape::default() });
        generate(Shape { events: 500, local_variables: 0, ..Shape::default() });
    }
}
