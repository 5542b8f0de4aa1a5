//! Simulates threads step by step, and so makes random traces.
//!
//! Guarantee: the trace is well formed, by construction. A thread does nothing that
//! is not possible at that moment; what is possible is decided here, without the
//! `Validator`, so that tests can compare the two.

mod beyond;
mod faults;
mod memory;
mod synchronisation;

use crate::shape::Shape;
use snag_model::events::Event;
use snag_model::{Action, BarrierId, CondId, LocId, LockId, MethodId, SemId, Space, ThreadId, Trace, VarId};
use snag_synthesis::Rng;
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
        condition: CondId,
        lock: usize,
        holds: u32,
    },
    /// Woken up, about to take the lock again.
    Woken {
        condition: CondId,
        lock: usize,
        holds: u32,
    },
    /// Waits for a lock for ever.
    Stuck,
    /// Ended or joined.
    Over,
}

struct Thread {
    life: Life,
    /// Open missing methods.
    methods: Vec<MethodId>,
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
    condition: CondId,
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
        let born = if shape.brief { 5 } else { rng.pick(&[10, 50, 100]) };
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
            let alive = |&t: &usize| !matches!(self.threads[t].life, Life::Unborn | Life::Stuck | Life::Over);
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
            Life::Unborn | Life::Stuck | Life::Over => return,
            Life::Waiting { began, condition, lock, holds } => return self.wake(thread, began, condition, lock, holds),
            Life::Woken { condition, lock, holds } => return self.wait_end(thread, condition, lock, holds),
            Life::Fresh if self.shape.weights.boundaries > 0 && self.rng.chance(50) => {
                return self.emit(thread, Action::Begin);
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
        let groups: [(u32, Group<'a>); 16] = [
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
            (w.probes, Self::probe),
            (w.faults, Self::fault),
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

    fn emit(&mut self, thread: usize, action: Action) {
        if matches!(self.threads[thread].life, Life::Fresh) {
            self.threads[thread].life = Life::Running;
        }
        let location = if self.shape.locations == 0 || self.rng.chance(10) {
            LocId::NONE
        } else {
            let number = self.rng.between(1, self.shape.locations);
            self.trace.tables.location(&format!("p{number}"))
        };
        self.trace.events.push(Event { location, ..Event::of(ThreadId::new(thread), action) });
    }
}

fn waits_on(life: Life) -> Option<CondId> {
    match life {
        Life::Waiting { condition, .. } => Some(condition),
        _ => None,
    }
}
