//! Simulates threads step by step, and so makes random traces.
//!
//! Guarantee: the trace is well formed, by construction. A thread does nothing that
//! is not possible at that moment; what is possible is decided here, without the
//! `Validator`, so that tests can compare the two.

use crate::shape::Shape;
use snag_trace::events::Event;
use snag_trace::symbolic::Sort;
use snag_trace::tables::Object;
use snag_trace::{
    BarrierId, CondId, LocId, LockId, MemoryOrder, Op, Rng, SemId, Space, ThreadId, Trace, VarId, Variable,
};
use std::collections::BTreeMap;

/// Where a thread stands.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Life {
    /// May be forked, or not run at all.
    Unborn,
    /// Has no event yet.
    Fresh,
    Running,
    /// Inside a wait that began with this event, on that lock, with that many holds given up.
    Waiting {
        began: usize,
        condition: u32,
        lock: usize,
        holds: u32,
    },
    /// Woken up, about to take the lock again.
    Woken {
        condition: u32,
        lock: usize,
        holds: u32,
    },
    /// Ended or joined.
    Over,
}

struct Thread {
    life: Life,
    /// Open missing methods.
    methods: Vec<u32>,
    /// The values of the symbols `a0`, `a1` and so on, where known.
    symbols: Vec<Option<i128>>,
    /// Barriers it is inside of, with the generation.
    barriers: BTreeMap<usize, usize>,
}

#[derive(Clone, Default)]
struct Lock {
    /// Per thread: exclusive and shared holds.
    holds: BTreeMap<usize, (u32, u32)>,
    plain: bool,
}

impl Lock {
    fn of(&self, thread: usize) -> (u32, u32) {
        self.holds.get(&thread).copied().unwrap_or((0, 0))
    }

    fn free_for(&self, thread: usize, exclusive: bool) -> bool {
        self.holds.iter().all(|(&other, &(e, s))| other == thread || e == 0 && !(exclusive && s > 0))
    }
}

struct Barrier {
    parties: Option<usize>,
    filling: usize,
    entered: usize,
}

struct Notify {
    event: usize,
    condition: u32,
    all: bool,
    used: bool,
}

/// A byte or a whole name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Name(VarId),
    Byte(u64),
}

/// What is at a place.
#[derive(Clone, Copy, PartialEq)]
enum Heap {
    Live(VarId),
    Freed,
}

/// Lets a thread do something of one kind, if it can.
type Group<'a> = fn(&mut Simulation<'a>, usize);

pub(crate) struct Simulation<'a> {
    shape: &'a Shape,
    rng: &'a mut Rng,
    trace: Trace,
    threads: Vec<Thread>,
    locks: Vec<Lock>,
    semaphores: Vec<u32>,
    barriers: Vec<Barrier>,
    conditions: usize,
    notifies: Vec<Notify>,
    /// Variables that accesses may go to.
    variables: Vec<VarId>,
    /// Variables that are allocated and freed.
    blocks: Vec<VarId>,
    heap: BTreeMap<Place, Heap>,
    /// What each place holds; `None`: something unknown. Missing: not looked at since the start or its allocation.
    memory: BTreeMap<Place, Option<i64>>,
}

impl<'a> Simulation<'a> {
    pub fn new(shape: &'a Shape, rng: &'a mut Rng) -> Simulation<'a> {
        let mut trace = Trace::default();
        let born = rng.pick(&[10, 50, 100]);
        let threads = (0..shape.threads)
            .map(|i| {
                trace.tables.thread(&format!("T{}", i + 1));
                let exists = i == 0 || shape.weights.fork_join == 0 || rng.chance(born);
                let life = if exists { Life::Fresh } else { Life::Unborn };
                Thread { life, methods: Vec::new(), symbols: Vec::new(), barriers: BTreeMap::new() }
            })
            .collect();
        let mut simulation = Simulation {
            shape,
            rng,
            trace,
            threads,
            locks: Vec::new(),
            semaphores: Vec::new(),
            barriers: Vec::new(),
            conditions: 0,
            notifies: Vec::new(),
            variables: Vec::new(),
            blocks: Vec::new(),
            heap: BTreeMap::new(),
            memory: BTreeMap::new(),
        };
        simulation.name_things();
        simulation
    }

    fn name_things(&mut self) {
        let Simulation { shape, rng, trace, .. } = self;
        let tables = &mut trace.tables;
        for i in 0..shape.locks {
            let id = LockId(tables.intern(Space::Lock, &format!("l{}", i + 1)));
            let plain = !shape.reentrant && rng.chance(30);
            if plain {
                tables.declarations.plain_locks.push(id);
            }
            self.locks.push(Lock { plain, ..Lock::default() });
        }
        if shape.weights.semaphores > 0 {
            for i in 0..rng.between(1, 2) {
                let id = SemId(tables.intern(Space::Semaphore, &format!("s{}", i + 1)));
                let count = rng.pick(&[0, 0, 1, 2]);
                if count > 0 || rng.chance(20) {
                    tables.declarations.semaphores.push((id, count));
                }
                self.semaphores.push(count);
            }
        }
        if shape.weights.barriers > 0 {
            for i in 0..rng.between(1, 2) {
                let id = BarrierId(tables.intern(Space::Barrier, &format!("b{}", i + 1)));
                let parties = rng.chance(60).then(|| rng.between(1, shape.threads.min(3)));
                if let Some(parties) = parties {
                    tables.declarations.barriers.push((id, parties as u32));
                }
                self.barriers.push(Barrier { parties, filling: 0, entered: 0 });
            }
        }
        if shape.weights.conditions > 0 {
            self.conditions = rng.between(1, 2);
            for i in 0..self.conditions {
                tables.intern(Space::Condition, &format!("c{}", i + 1));
            }
        }
        for i in 0..shape.variables {
            let variable = if rng.chance(shape.ranges) {
                let size = rng.pick(if shape.pointers > 0 { &[8] } else { &[1, 2, 4, 8] });
                tables.variable_range(0x1000 + rng.pick(&[0, 0, 1, 2, 4, 6]), size)
            } else {
                tables.variable_named(["x", "y", "z", "u", "v", "w"][i % 6])
            };
            if !self.variables.contains(&variable) {
                self.variables.push(variable);
            }
        }
        if shape.weights.heap > 0 {
            if rng.chance(60) && shape.pointers == 0 {
                let block = tables.variable_named("h");
                self.blocks.push(block);
                self.variables.push(block);
            }
            if self.blocks.is_empty() || rng.chance(60) {
                let near = rng.pick(&[0x2000, 0x1000]);
                for (address, size) in [(near, 8), (near, 16), (near + 4, 8)] {
                    if self.blocks.is_empty() || rng.chance(50) {
                        self.blocks.push(tables.variable_range(address, size));
                    }
                }
                for (address, size) in [(near, 8), (near + 4, 4), (near + 6, 2), (near + 7, 1)] {
                    let variable = tables.variable_range(address, size);
                    if rng.chance(60) && !self.variables.contains(&variable) {
                        self.variables.push(variable);
                    }
                }
            }
        }
        let mut declared: Vec<Place> = Vec::new();
        for variable in self.variables.clone() {
            let places = self.places(variable);
            if self.rng.chance(self.shape.values / 3) && !places.iter().any(|place| declared.contains(place)) {
                let value = self.small_value(variable);
                self.trace.tables.declarations.initial.push((variable, value));
                self.store(variable, Some(value));
                declared.extend(places);
            }
        }
    }

    /// Steps until there are enough events, or nobody can do anything for a long time.
    pub fn run(mut self) -> Trace {
        let mut thread = 0;
        let mut tries = 0;
        while self.trace.len() < self.shape.events && tries < 400 {
            let alive = |&t: &usize| !matches!(self.threads[t].life, Life::Unborn | Life::Over);
            if !self.rng.chance(self.shape.stay) || !alive(&thread) {
                let others: Vec<usize> = (0..self.threads.len()).filter(|&t| t != thread).filter(alive).collect();
                thread = self.rng.pick_any(&others).unwrap_or(thread);
            }
            let before = self.trace.len();
            self.step(thread);
            tries = if self.trace.len() > before { 0 } else { tries + 1 };
        }
        self.trace
    }

    /// Lets a thread do something, if it can.
    fn step(&mut self, thread: usize) {
        match self.threads[thread].life {
            Life::Unborn | Life::Over => return,
            Life::Waiting { began, condition, lock, holds } => return self.wake(thread, began, condition, lock, holds),
            Life::Woken { condition, lock, holds } => return self.wait_end(thread, condition, lock, holds),
            Life::Fresh if self.shape.weights.boundaries > 0 && self.rng.chance(50) => {
                return self.emit(thread, Op::Begin, 0, 0);
            }
            Life::Fresh | Life::Running => {}
        }
        // A thread inside a barrier does other things only rarely.
        if !self.threads[thread].barriers.is_empty() && self.rng.chance(80) {
            return self.barrier(thread);
        }
        // Sections, calls and waits end sooner or later, and threads are there to run.
        if self.locks.iter().any(|lock| lock.of(thread) != (0, 0)) && self.rng.chance(self.shape.release) {
            return self.release(thread);
        }
        if !self.threads[thread].methods.is_empty() && self.rng.chance(25) {
            return self.method(thread);
        }
        if self.threads.iter().any(|t| waits_on(t.life).is_some()) && self.rng.chance(25) {
            return self.condition(thread);
        }
        if self.threads.iter().any(|t| t.life == Life::Unborn) && self.rng.chance(15) {
            return self.fork_or_join(thread);
        }
        let w = &self.shape.weights;
        let groups: [(u32, Group<'a>); 14] = [
            (w.plain, Self::plain),
            (w.atomics, Self::atomic),
            (w.locks, Self::lock),
            (w.read_locks, Self::read_lock),
            (w.fork_join, Self::fork_or_join),
            (w.conditions, Self::condition),
            (w.semaphores, Self::semaphore),
            (w.barriers, Self::barrier),
            (w.heap, Self::allocate_or_free),
            (w.methods, Self::method),
            (w.branches, Self::branch),
            (w.symbols, Self::symbolic),
            (w.boundaries, Self::end),
            (w.marks, Self::mark),
        ];
        let mut number = self.rng.below(groups.iter().map(|g| g.0 as usize).sum());
        for (weight, group) in groups {
            if number < weight as usize {
                return group(self, thread);
            }
            number -= weight as usize;
        }
    }

    fn emit(&mut self, thread: usize, op: Op, target: u32, aux: u32) {
        self.emit_value(thread, op, target, aux, None, None);
    }

    fn emit_value(&mut self, thread: usize, op: Op, target: u32, aux: u32, value: Option<i64>, written: Option<i64>) {
        if matches!(self.threads[thread].life, Life::Fresh) {
            self.threads[thread].life = Life::Running;
        }
        let location = if self.shape.locations == 0 || self.rng.chance(10) {
            LocId::NONE
        } else {
            let number = self.rng.between(1, self.shape.locations);
            self.trace.tables.location(&format!("p{number}"))
        };
        self.trace.events.push(Event { thread: ThreadId::new(thread), op, target, aux, location, value, written });
    }

    // Memory.

    fn places(&self, variable: VarId) -> Vec<Place> {
        match self.trace.tables.variable(variable) {
            Variable::Named(_) => vec![Place::Name(variable)],
            Variable::Range { address, size } => (address..address + size).map(Place::Byte).collect(),
        }
    }

    fn small_value(&mut self, variable: VarId) -> i64 {
        match self.trace.tables.variable(variable) {
            Variable::Named(_) => self.rng.below(4) as i64,
            Variable::Range { size: 8, .. } if !self.blocks.is_empty() && self.rng.chance(self.shape.pointers) => {
                self.some_address()
            }
            Variable::Range { size, .. } => {
                let mut bytes = [0; 8];
                for byte in &mut bytes[..size.min(8) as usize] {
                    *byte = self.rng.chance(30) as u8;
                }
                i64::from_le_bytes(bytes)
            }
        }
    }

    /// An address in memory that may be allocated; two of them are mostly the same.
    fn some_address(&mut self) -> i64 {
        let Variable::Range { address, .. } = self.trace.tables.variable(self.blocks[0]) else { return 0 };
        address as i64 + self.rng.pick(&[0, 0, 0, 0, 0, 4, 1 << 56])
    }

    fn store(&mut self, variable: VarId, value: Option<i64>) {
        for (i, place) in self.places(variable).into_iter().enumerate() {
            let part = match place {
                Place::Name(_) => value,
                Place::Byte(_) => value.map(|v| v.to_le_bytes()[i] as i64),
            };
            self.memory.insert(place, part);
        }
    }

    /// What a variable holds, if that is known. What nobody looked at yet is made up.
    fn load(&mut self, variable: VarId) -> Option<i64> {
        let mut bytes = [0; 8];
        let mut known = true;
        for (i, place) in self.places(variable).into_iter().enumerate() {
            let made_up = match place {
                Place::Name(_) => self.rng.below(4) as i64,
                Place::Byte(_) => self.rng.chance(30) as i64,
            };
            match *self.memory.entry(place).or_insert(Some(made_up)) {
                Some(value) if matches!(place, Place::Name(_)) => return Some(value),
                Some(value) => bytes[i] = value as u8,
                None => known = false,
            }
        }
        known.then(|| i64::from_le_bytes(bytes))
    }

    /// Whether an access is possible: inside one live block, or outside all that ever were.
    fn accessible(&self, variable: VarId) -> bool {
        let places = self.places(variable);
        let first = self.heap.get(&places[0]);
        first != Some(&Heap::Freed) && places.iter().all(|place| self.heap.get(place) == first)
    }

    /// A variable to access; mostly the first ones.
    fn some_variable(&mut self) -> Option<VarId> {
        let accessible: Vec<VarId> = self.variables.iter().copied().filter(|&v| self.accessible(v)).collect();
        let few = accessible.len().min(2);
        if self.rng.chance(50) { self.rng.pick_any(&accessible[..few]) } else { self.rng.pick_any(&accessible) }
    }

    fn access(&mut self, thread: usize, op: Op, variable: VarId, aux: u32) {
        let with_value = self.rng.chance(self.shape.values);
        let mut read = None;
        if op.reads() {
            read = self.load(variable);
            if read.is_none() || self.rng.chance(self.shape.unexplained) {
                let other = self.small_value(variable);
                read = self.rng.chance(60).then_some(other);
            }
            read = read.filter(|_| with_value);
        }
        let mut written = None;
        if op.writes() {
            let value = self.small_value(variable);
            written = self.rng.chance(self.shape.values).then_some(value);
            self.store(variable, written);
        }
        match op {
            Op::Rmw => self.emit_value(thread, op, variable.0, aux, read, written),
            _ if op.reads() => self.emit_value(thread, op, variable.0, aux, read, None),
            _ => self.emit_value(thread, op, variable.0, aux, written, None),
        }
    }

    fn plain(&mut self, thread: usize) {
        let Some(variable) = self.some_variable() else { return };
        let op = self.rng.pick(&[Op::Read, Op::Write]);
        self.access(thread, op, variable, 0);
    }

    fn atomic(&mut self, thread: usize) {
        use MemoryOrder::*;
        let Some(variable) = self.some_variable() else { return };
        let (op, orders): (Op, &[MemoryOrder]) = match self.rng.below(3) {
            0 => (Op::AtomicRead, &[Relaxed, Acquire, Acquire, SeqCst]),
            1 => (Op::AtomicWrite, &[Relaxed, Release, Release, SeqCst]),
            _ => (Op::Rmw, &[Relaxed, Acquire, Release, AcqRel, SeqCst]),
        };
        let order = self.rng.pick(orders);
        self.access(thread, op, variable, order as u32);
    }

    fn allocate_or_free(&mut self, thread: usize) {
        let block = self.rng.pick(&self.blocks.clone());
        let places = self.places(block);
        let live = |place: &Place| matches!(self.heap.get(place), Some(Heap::Live(_)));
        if self.heap.get(&places[0]) == Some(&Heap::Live(block)) {
            if self.rng.chance(60) {
                self.heap.extend(places.into_iter().map(|place| (place, Heap::Freed)));
                self.emit(thread, Op::Free, block.0, 0);
            }
        } else if !places.iter().any(live) {
            for place in places {
                self.heap.insert(place, Heap::Live(block));
                self.memory.remove(&place);
            }
            self.emit(thread, Op::Alloc, block.0, 0);
        }
    }

    // Locks and conditions.

    fn lock(&mut self, thread: usize) {
        let held: Vec<usize> = (0..self.locks.len()).filter(|&l| self.locks[l].of(thread).0 > 0).collect();
        if self.rng.chance([0, 30, 80, 90][held.len().min(3)]) {
            return self.release(thread);
        }
        let wanted = |lock: &Lock| match lock.of(thread) {
            (0, 0) => true,
            (0, _) => self.shape.reentrant,
            _ => self.shape.reentrant && !lock.plain,
        };
        let possible = |&l: &usize| wanted(&self.locks[l]) && self.locks[l].free_for(thread, true);
        let locks: Vec<usize> = (0..self.locks.len()).filter(possible).collect();
        if let Some(lock) = self.rng.pick_any(&locks) {
            self.locks[lock].holds.entry(thread).or_default().0 += 1;
            self.emit(thread, Op::Acquire, lock as u32, 0);
        }
    }

    /// Gives up one of the locks that the thread holds, once.
    fn release(&mut self, thread: usize) {
        let held: Vec<usize> = (0..self.locks.len()).filter(|&l| self.locks[l].of(thread) != (0, 0)).collect();
        let lock = self.rng.pick(&held);
        let (exclusive, shared) = self.locks[lock].holds.entry(thread).or_default();
        let op = if *exclusive > 0 && (*shared == 0 || self.rng.chance(50)) {
            *exclusive -= 1;
            Op::Release
        } else {
            *shared -= 1;
            Op::ReadRelease
        };
        self.emit(thread, op, lock as u32, 0);
    }

    fn read_lock(&mut self, thread: usize) {
        let held: Vec<usize> = (0..self.locks.len()).filter(|&l| self.locks[l].of(thread).1 > 0).collect();
        if self.rng.chance([0, 55, 75, 90][held.len().min(3)]) {
            return self.release(thread);
        }
        let lock = self.rng.below(self.locks.len());
        let again = self.locks[lock].of(thread) != (0, 0);
        if (!again || self.shape.reentrant) && self.locks[lock].free_for(thread, false) {
            self.locks[lock].holds.entry(thread).or_default().1 += 1;
            self.emit(thread, Op::ReadAcquire, lock as u32, 0);
        }
    }

    fn condition(&mut self, thread: usize) {
        let condition = self.rng.below(self.conditions) as u32;
        let held: Vec<usize> = (0..self.locks.len()).filter(|&l| self.locks[l].of(thread).0 > 0).collect();
        let waiting: Vec<u32> = self.threads.iter().filter_map(|t| waits_on(t.life)).collect();
        if let Some(condition) = self.rng.pick_any(&waiting)
            && self.rng.chance(75)
        {
            return self.notify(thread, condition);
        }
        if let Some(lock) = self.rng.pick_any(&held) {
            self.wait_begin(thread, condition, lock);
        } else if self.rng.chance(20) {
            self.notify(thread, condition);
        } else {
            self.lock_and_wait(thread, condition);
        }
    }

    fn wait_begin(&mut self, thread: usize, condition: u32, lock: usize) {
        let hold = self.locks[lock].holds.entry(thread).or_default();
        let holds = std::mem::take(&mut hold.0);
        self.threads[thread].life = Life::Waiting { began: self.trace.len(), condition, lock, holds };
        self.emit(thread, Op::WaitBegin, condition, lock as u32);
    }

    fn lock_and_wait(&mut self, thread: usize, condition: u32) {
        let lock = self.rng.below(self.locks.len());
        if self.locks[lock].of(thread) == (0, 0) && self.locks[lock].free_for(thread, true) {
            self.locks[lock].holds.entry(thread).or_default().0 += 1;
            self.emit(thread, Op::Acquire, lock as u32, 0);
            if self.trace.len() < self.shape.events && self.rng.chance(60) {
                self.wait_begin(thread, condition, lock);
            }
        }
    }

    fn notify(&mut self, thread: usize, condition: u32) {
        let all = self.rng.chance(40);
        self.notifies.push(Notify { event: self.trace.len(), condition, all, used: false });
        self.emit(thread, if all { Op::NotifyAll } else { Op::Notify }, condition, 0);
    }

    fn wake(&mut self, thread: usize, began: usize, condition: u32, lock: usize, holds: u32) {
        let usable = |n: &Notify| n.condition == condition && n.event > began && (n.all || !n.used);
        let named: Vec<usize> = (0..self.notifies.len()).filter(|&n| usable(&self.notifies[n])).collect();
        let aux = match self.rng.pick_any(&named) {
            Some(notify) if self.rng.chance(85) => {
                self.notifies[notify].used = true;
                self.notifies[notify].event as u32 + 1
            }
            _ if self.rng.chance(15) => 0,
            _ => return,
        };
        self.threads[thread].life = Life::Woken { condition, lock, holds };
        self.emit(thread, Op::Wake, condition, aux);
    }

    fn wait_end(&mut self, thread: usize, condition: u32, lock: usize, holds: u32) {
        if self.locks[lock].free_for(thread, true) {
            self.locks[lock].holds.entry(thread).or_default().0 = holds;
            self.threads[thread].life = Life::Running;
            self.emit(thread, Op::WaitEnd, condition, lock as u32);
        }
    }

    // Threads.

    fn fork_or_join(&mut self, thread: usize) {
        let others: Vec<usize> = (0..self.threads.len()).filter(|&t| t != thread).collect();
        let unborn: Vec<usize> = others.iter().copied().filter(|&t| self.threads[t].life == Life::Unborn).collect();
        if let Some(child) = self.rng.pick_any(&unborn)
            && self.rng.chance(80)
        {
            self.threads[child].life = Life::Fresh;
            return self.emit(thread, Op::Fork, child as u32, 0);
        }
        let other = self.rng.pick(&others);
        let chance = match self.threads[other].life {
            Life::Waiting { .. } | Life::Woken { .. } => 0,
            Life::Unborn | Life::Fresh => 3,
            Life::Running => 35,
            Life::Over => 50,
        };
        if self.rng.chance(chance) && self.may_die(other) {
            self.threads[other].life = Life::Over;
            self.emit(thread, Op::Join, other as u32, 0);
        }
    }

    /// Long traces need threads that live long.
    fn may_die(&mut self, thread: usize) -> bool {
        let dead = self.threads[thread].life == Life::Over;
        dead || self.rng.below(self.shape.events) < 16
    }

    fn end(&mut self, thread: usize) {
        if self.rng.chance(50) && self.may_die(thread) {
            self.emit(thread, Op::End, 0, 0);
            self.threads[thread].life = Life::Over;
        }
    }

    // Counting.

    fn semaphore(&mut self, thread: usize) {
        let semaphore = self.rng.below(self.semaphores.len());
        if self.semaphores[semaphore] > 0 && self.rng.chance(65) {
            self.semaphores[semaphore] -= 1;
            self.emit(thread, Op::SemWait, semaphore as u32, 0);
        } else {
            self.semaphores[semaphore] += 1;
            self.emit(thread, Op::SemPost, semaphore as u32, 0);
        }
    }

    fn barrier(&mut self, thread: usize) {
        let inside: Vec<(usize, usize)> = self.threads[thread].barriers.iter().map(|(&b, &g)| (b, g)).collect();
        if let Some((barrier, generation)) = self.rng.pick_any(&inside) {
            let Barrier { parties, filling, entered } = &mut self.barriers[barrier];
            if generation == *filling {
                match parties {
                    Some(parties) if *entered < *parties => return,
                    Some(_) => {}
                    // Undeclared: the first leave closes the generation; give others time to enter.
                    None if self.rng.chance(60) => return,
                    None => {
                        *filling += 1;
                        *entered = 0;
                    }
                }
            }
            self.threads[thread].barriers.remove(&barrier);
            return self.emit(thread, Op::BarrierLeave, barrier as u32, 0);
        }
        let barrier = self.rng.below(self.barriers.len());
        let Barrier { parties, filling, entered } = &mut self.barriers[barrier];
        if *parties == Some(*entered) {
            *filling += 1;
            *entered = 0;
        }
        *entered += 1;
        self.threads[thread].barriers.insert(barrier, *filling);
        self.emit(thread, Op::BarrierEnter, barrier as u32, 0);
    }

    // Missing methods, branches, symbols.

    fn method(&mut self, thread: usize) {
        if let Some(&method) = self.threads[thread].methods.last()
            && self.rng.chance(60)
        {
            self.threads[thread].methods.pop();
            return self.emit(thread, Op::MethodEnd, method, 0);
        }
        if self.threads[thread].methods.len() < 2 {
            let name = format!("m{}", self.rng.between(1, 2));
            let method = self.trace.tables.intern(Space::Method, &name);
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
            if let Some(variable) = described {
                self.emit(thread, Op::Reach, variable.0, reach.0);
            }
            self.threads[thread].methods.push(method);
            self.emit(thread, Op::MethodBegin, method, reach.0);
        }
    }

    fn branch(&mut self, thread: usize) {
        self.emit(thread, Op::Branch, 0, 0);
    }

    /// An expression over what the thread has defined, of type `i64`, and its value where known.
    fn expression(&mut self, thread: usize) -> (String, Option<i128>) {
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

    /// Threads may use the same names: each has its own symbols.
    fn new_symbol(&mut self, thread: usize, sort: Sort, value: Option<i128>) -> u32 {
        let symbols = &mut self.threads[thread].symbols;
        let of_type = if sort == Sort::DEFAULT { String::new() } else { format!(":{sort}") };
        let name = format!("a{}{of_type}", symbols.len());
        symbols.push(value);
        self.trace.tables.intern(Space::Symbol, &name)
    }

    /// A type for the values of a variable.
    fn sort_of(&self, variable: VarId) -> Option<Sort> {
        match self.trace.tables.variable(variable) {
            Variable::Named(_) => Some(Sort::DEFAULT),
            Variable::Range { size, .. } => Sort::from_word(&format!("u{}", 8 * size)),
        }
    }

    fn symbolic(&mut self, thread: usize) {
        let (expression, value) = self.expression(thread);
        match self.rng.below(4) {
            0 => {
                let expression = self.trace.tables.intern(Space::Expression, &expression);
                let symbol = self.new_symbol(thread, Sort::DEFAULT, value);
                self.emit(thread, Op::Let, symbol, expression);
            }
            1 => {
                let Some(variable) = self.some_variable() else { return };
                let Some(sort) = self.sort_of(variable) else { return };
                let symbol = self.new_symbol(thread, sort, None);
                self.access(thread, Op::Read, variable, 1 + symbol);
                let last = self.trace.events.len() - 1;
                let read = self.trace.events.value(last).map(|memory| sort.from_memory(memory));
                *self.threads[thread].symbols.last_mut().expect("just defined") = read;
            }
            2 => {
                let Some(variable) = self.some_variable() else { return };
                let Some(sort) = self.sort_of(variable) else { return };
                let expression = self.trace.tables.intern(Space::Expression, &format!("({sort} {expression})"));
                let written = value.and_then(|value| sort.to_memory(sort.convert(value)));
                let written = written.filter(|_| self.rng.chance(self.shape.values));
                self.store(variable, written);
                self.emit_value(thread, Op::Write, variable.0, 1 + expression, written, None);
            }
            _ => {
                let condition = self.trace.tables.intern(Space::Expression, &expression);
                let outcome = value.map(|value| (value != 0) as i64).filter(|_| self.rng.chance(50));
                self.emit_value(thread, Op::Branch, 0, 1 + condition, outcome, None);
                self.other_side(thread);
            }
        }
    }

    /// Sometimes, what would have happened had the last branch gone the other way.
    fn other_side(&mut self, thread: usize) {
        for _ in 0..self.rng.pick(&[0, 1, 3, 4, 5]) {
            match self.rng.below(8) {
                0 | 6 | 7 if self.shape.locks > 0 => {
                    let op = self.rng.pick(&[Op::OtherAcquire, Op::OtherRelease]);
                    let lock = self.rng.below(self.locks.len()) as u32;
                    self.emit(thread, op, lock, 0);
                }
                1 => {
                    let (expression, _) = self.expression(thread);
                    let expression = self.trace.tables.intern(Space::Expression, &expression);
                    self.emit(thread, Op::OtherBranch, 0, 1 + expression);
                }
                2 => {
                    let (expression, _) = self.expression(thread);
                    let expression = self.trace.tables.intern(Space::Expression, &expression);
                    let symbol = self.trace.tables.intern(Space::Symbol, &format!("o{}", self.trace.events.len()));
                    self.emit(thread, Op::OtherLet, symbol, expression);
                }
                3 => {
                    let Some(variable) = self.some_variable() else { continue };
                    self.emit(thread, Op::OtherRead, variable.0, 0);
                }
                _ => {
                    let Some(variable) = self.some_variable() else { continue };
                    let Some(sort) = self.sort_of(variable) else { continue };
                    let (expression, _) = self.expression(thread);
                    let expression = self.trace.tables.intern(Space::Expression, &format!("({sort} {expression})"));
                    self.emit(thread, Op::OtherWrite, variable.0, 1 + expression);
                }
            }
        }
    }

    fn mark(&mut self, thread: usize) {
        let word = self.rng.pick(&["begin", "endAtomic", "dummy(1)"]);
        let text = self.trace.tables.intern(Space::Text, word);
        self.emit(thread, Op::Mark, text, 0);
    }
}

fn waits_on(life: Life) -> Option<u32> {
    match life {
        Life::Waiting { condition, .. } => Some(condition),
        _ => None,
    }
}
