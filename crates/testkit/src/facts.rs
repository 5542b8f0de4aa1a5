//! What a trace says about itself, worked out the slow and obvious way.
//!
//! Memory is single bytes (for address ranges) and whole values (for names), each
//! with the allocation it belongs to; nothing is taken from `snag_model::Cells`, so
//! that comparing with the oracle tests that as well. Everything here is a plain
//! reading of the observed order σ; what may be reordered is decided elsewhere.

use snag_model::events::Event;
use snag_model::tables::Object;
use snag_model::{Action, BarrierId, EventId, Op, ThreadId, Trace, VarId, Variable};
use std::collections::{BTreeMap, BTreeSet};

/// Accesses longer than this are not for a byte-by-byte oracle.
const LONGEST_ACCESS: u64 = 4096;

/// The smallest piece of memory: one byte, or the whole of a named variable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Unit {
    /// The `alloc` event of its block, if it is heap memory.
    pub block: Option<usize>,
    /// Which piece.
    pub place: Place,
}

/// Where a [`Unit`] is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum Place {
    Name(VarId),
    Byte(u64),
}

/// A missing method call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its `method-begin`.
    pub begin: usize,
    /// Its `method-end`, if it has come to that.
    pub end: Option<usize>,
    /// S(m): its begin and end and all events of its thread in between.
    pub events: BTreeSet<usize>,
    /// What it could reach.
    pub reach: Vec<Object>,
}

/// The facts of one trace. Events are plain numbers here.
pub struct Facts<'t> {
    /// The trace.
    pub trace: &'t Trace,
    /// Its events.
    pub events: Vec<Event>,
    /// What they do.
    pub actions: Vec<Action>,
    /// The events of each thread.
    pub threads: Vec<Vec<usize>>,
    /// The units each event reads, writes or frees; ascending.
    pub units: Vec<Vec<Unit>>,
    /// The units that code that was not observed may have read at a `method-begin`, and written at it or at a
    /// `method-end`.
    pub hidden: Vec<Vec<Unit>>,
    /// Whether an event belongs to a missing method call.
    pub in_call: Vec<bool>,
    /// For each read, the write it sees in σ, unit by unit; `None`: the initial memory.
    pub seen: Vec<BTreeMap<Unit, Option<usize>>>,
    /// The same for each `method-begin` as well, if code that was not observed writes all that it may write.
    pub seen_with_hidden: Vec<BTreeMap<Unit, Option<usize>>>,
    /// The `alloc` of the heap block that an access or a free touches.
    pub alloc: Vec<Option<usize>>,
    /// The `free` of the heap block that an access touches.
    pub free: Vec<Option<usize>>,
    /// The generation to which a barrier's enter or leave belongs.
    pub generation: Vec<Option<usize>>,
    /// The `wait-begin` to which a wake-up belongs.
    pub wait: Vec<Option<usize>>,
    /// The notify that a wake-up names.
    pub notify: Vec<Option<usize>>,
    /// Pairs of events whose order rule 3 keeps.
    pub kept: BTreeSet<(usize, usize)>,
    /// What the initial memory holds, where that is known.
    initial: BTreeMap<Unit, i64>,
}

impl Facts<'_> {
    /// Reads a well-formed trace.
    pub fn of(trace: &Trace) -> Facts<'_> {
        let events: Vec<Event> = trace.events.iter().collect();
        let mut threads = vec![Vec::new(); trace.tables.thread_count()];
        for (index, event) in events.iter().enumerate() {
            threads[event.thread.index()].push(index);
        }
        let count = events.len();
        let mut facts = Facts {
            trace,
            actions: events.iter().map(Event::action).collect(),
            events,
            threads,
            units: vec![Vec::new(); count],
            hidden: vec![Vec::new(); count],
            in_call: vec![false; count],
            seen: vec![BTreeMap::new(); count],
            seen_with_hidden: vec![BTreeMap::new(); count],
            alloc: vec![None; count],
            free: vec![None; count],
            generation: vec![None; count],
            wait: vec![None; count],
            notify: vec![None; count],
            kept: BTreeSet::new(),
            initial: BTreeMap::new(),
        };
        facts.find_units();
        facts.find_hidden();
        facts.find_writers();
        facts.find_initial_memory();
        facts.find_generations();
        facts.find_waits();
        facts.find_kept_orders();
        facts
    }

    /// The facts of a schedule: event *i* is the one that `schedule` has there. Who sees what is what the schedule makes of
    /// it; what is about allocations, generations, waits and calls stays what it is in σ. Nothing is said of what reads
    /// see beside that, of units, or of calls.
    pub fn in_order(&self, schedule: &[usize]) -> Facts<'_> {
        let at = |event: usize| schedule.iter().position(|&other| other == event);
        let (events, actions) =
            (schedule.iter().map(|&e| self.events[e]).collect::<Vec<_>>(), schedule.iter().map(|&e| self.actions[e]));
        let mapped = |of: &[Option<usize>]| schedule.iter().map(|&e| of[e].and_then(at)).collect::<Vec<_>>();
        let last_write = |unit: &Unit, before: usize| {
            (0..before).rev().find(|&i| events[i].op.writes() && self.units[schedule[i]].contains(unit))
        };
        let see = |i: usize| self.seen[schedule[i]].keys().map(|&unit| (unit, last_write(&unit, i))).collect();
        let seen = (0..schedule.len()).map(see).collect();
        let kept = self.kept.iter().filter_map(|&(a, b)| Some((at(a)?, at(b)?))).collect();
        Facts {
            trace: self.trace,
            actions: actions.collect(),
            threads: Vec::new(),
            units: Vec::new(),
            hidden: Vec::new(),
            in_call: schedule.iter().map(|&e| self.in_call[e]).collect(),
            seen,
            seen_with_hidden: Vec::new(),
            alloc: mapped(&self.alloc),
            free: mapped(&self.free),
            generation: schedule.iter().map(|&e| self.generation[e]).collect(),
            wait: mapped(&self.wait),
            notify: mapped(&self.notify),
            kept,
            initial: BTreeMap::new(),
            events,
        }
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether two events conflict.
    pub fn conflict(&self, a: usize, b: usize) -> bool {
        !(self.events[a].op.is_atomic() && self.events[b].op.is_atomic()) && self.depend(a, b)
    }

    /// Whether two events of different threads touch the same memory and one of them changes it: they conflict, or
    /// would if not both were atomic.
    pub fn depend(&self, a: usize, b: usize) -> bool {
        let (first, second) = (&self.events[a], &self.events[b]);
        let memory = |op: Op| op.is_access() || op == Op::Free;
        let changes = |op: Op| op.writes() || op == Op::Free;
        memory(first.op)
            && memory(second.op)
            && first.thread != second.thread
            && (changes(first.op) || changes(second.op))
            && self.units[a].iter().any(|unit| self.units[b].contains(unit))
    }

    /// The variable that an event is about.
    pub fn variable(&self, event: usize) -> Option<VarId> {
        self.actions[event].variable()
    }

    /// What a write leaves in a unit (`None` as the writer: the initial memory), where known.
    pub fn left_by(&self, writer: Option<usize>, unit: Unit) -> Option<i64> {
        match writer {
            None => self.initial.get(&unit).copied(),
            Some(w) => self.part(self.variable(w)?, self.events[w].value_written()?, unit.place),
        }
    }

    /// The allocation that the value of a write is an address in, if there was another one before: two such values are the same
    /// only if they mean the same allocation. An address has eight bytes, of which six count, and is not on the first page.
    pub fn points_to(&self, writer: Option<usize>) -> Option<usize> {
        let write = &self.events[writer?];
        let Variable::Range { size: 8, .. } = self.trace.tables.variable(self.variable(writer?)?) else { return None };
        let address = |number: u64| number & 0xffff_ffff_ffff;
        let value = address(write.value_written()? as u64);
        let covers = |event: &usize| match self.actions[*event] {
            Action::Alloc { variable } => match self.trace.tables.variable(variable) {
                Variable::Range { address: first, size } => (address(first)..address(first) + size).contains(&value),
                Variable::Named(_) => false,
            },
            _ => false,
        };
        let allocs: Vec<usize> = (0..writer?).filter(covers).collect();
        allocs.last().copied().filter(|_| allocs.len() > 1 && value >= 4096)
    }

    /// What a read finds in a unit, where known.
    pub fn found_by(&self, read: usize, unit: Unit) -> Option<i64> {
        self.part(self.variable(read)?, self.events[read].value_read()?, unit.place)
    }

    /// What a unit holds after a write of `value` by an event.
    pub fn part_of(&self, write: usize, value: i64, unit: Unit) -> Option<i64> {
        self.part(self.variable(write)?, value, unit.place)
    }

    /// What a place holds if a variable that covers it holds `value` (little endian).
    fn part(&self, variable: VarId, value: i64, place: Place) -> Option<i64> {
        match (self.trace.tables.variable(variable), place) {
            (Variable::Named(_), _) => Some(value),
            (Variable::Range { address, size }, Place::Byte(byte)) if size <= 8 => {
                Some(value.to_le_bytes()[(byte - address) as usize] as i64)
            }
            _ => None,
        }
    }

    fn places(&self, variable: VarId) -> Vec<Place> {
        match self.trace.tables.variable(variable) {
            Variable::Named(_) => vec![Place::Name(variable)],
            Variable::Range { address, size } => {
                assert!(size <= LONGEST_ACCESS, "the oracle works byte by byte; {size} bytes are too many");
                (0..size).map(|i| Place::Byte(address + i)).collect()
            }
        }
    }

    /// Whether two variables share memory, whatever is allocated there.
    fn overlap(&self, a: VarId, b: VarId) -> bool {
        match (self.trace.tables.variable(a), self.trace.tables.variable(b)) {
            (Variable::Range { address: a, size: m }, Variable::Range { address: b, size: n }) => {
                a <= b + (n - 1) && b <= a + (m - 1)
            }
            _ => a == b,
        }
    }

    /// Which memory each event touches, and in which block it lies.
    fn find_units(&mut self) {
        // Live blocks: alloc event, variable.
        let mut live: Vec<(usize, VarId)> = Vec::new();
        for index in 0..self.len() {
            let op = self.events[index].op;
            let Some(variable) = self.variable(index) else { continue };
            if op == Op::Alloc {
                live.push((index, variable));
            } else if op.if_it_happens().is_access() {
                self.alloc[index] = live.iter().find(|(_, block)| self.overlap(*block, variable)).map(|b| b.0);
                let block = self.alloc[index];
                self.units[index] = self.places(variable).into_iter().map(|place| Unit { block, place }).collect();
            } else if op == Op::Free {
                let at = live.iter().position(|(_, block)| *block == variable).expect("only live blocks are freed");
                self.alloc[index] = Some(live.remove(at).0);
            }
        }
        // A free touches what was accessed in its block.
        for index in (0..self.len()).filter(|&i| self.events[i].op == Op::Free) {
            let block = self.alloc[index];
            let accesses: Vec<usize> = (0..self.len())
                .filter(|&i| self.events[i].op.if_it_happens().is_access() && self.alloc[i] == block)
                .collect();
            let touched: BTreeSet<Unit> = accesses.iter().flat_map(|&i| self.units[i].clone()).collect();
            self.units[index] = touched.into_iter().collect();
            for access in accesses {
                self.free[access] = Some(index);
            }
        }
    }

    /// What missing calls may read and write: all accessed memory that they could reach.
    fn find_hidden(&mut self) {
        let accesses = (0..self.len()).filter(|&i| self.events[i].op.is_access());
        let all: BTreeSet<Unit> = accesses.flat_map(|i| self.units[i].clone()).collect();
        for call in self.calls() {
            let reached = |unit: &Unit| {
                call.reach.iter().any(|&object| match (object, unit.place) {
                    (Object::Variable(variable), Place::Name(name)) => variable == name,
                    (Object::Variable(variable), Place::Byte(byte)) => match self.trace.tables.variable(variable) {
                        Variable::Range { address, size } => address <= byte && byte <= address + (size - 1),
                        Variable::Named(_) => false,
                    },
                    _ => false,
                })
            };
            let units: Vec<Unit> = all.iter().copied().filter(|unit| reached(unit)).collect();
            for &event in &call.events {
                self.in_call[event] = true;
            }
            self.hidden[call.begin] = units.clone();
            if let Some(end) = call.end {
                self.hidden[end] = units;
            }
        }
    }

    /// Which write each read sees.
    fn find_writers(&mut self) {
        let mut last: BTreeMap<Unit, usize> = BTreeMap::new();
        let mut last_with_hidden: BTreeMap<Unit, usize> = BTreeMap::new();
        for index in 0..self.len() {
            let op = self.events[index].op;
            let see = |last: &BTreeMap<Unit, usize>, units: &[Unit]| {
                units.iter().map(|unit| (*unit, last.get(unit).copied())).collect()
            };
            if op.reads() {
                self.seen[index] = see(&last, &self.units[index]);
                self.seen_with_hidden[index] = see(&last_with_hidden, &self.units[index]);
            }
            if op.writes() {
                last.extend(self.units[index].iter().map(|unit| (*unit, index)));
                last_with_hidden.extend(self.units[index].iter().map(|unit| (*unit, index)));
            }
            if op == Op::MethodBegin {
                self.seen_with_hidden[index] = see(&last_with_hidden, &self.hidden[index]);
            }
            last_with_hidden.extend(self.hidden[index].iter().map(|unit| (*unit, index)));
        }
    }

    /// The initial memory holds what is declared, or else what the first read finds that no write precedes.
    fn find_initial_memory(&mut self) {
        let mut initial: BTreeMap<Unit, Option<i64>> = BTreeMap::new();
        for &(variable, value) in &self.trace.tables.declarations.initial {
            for place in self.places(variable) {
                if let Some(part) = self.part(variable, value, place) {
                    // What is declared first counts.
                    initial.entry(Unit { block: None, place }).or_insert(Some(part));
                }
            }
        }
        for read in 0..self.len() {
            for (&unit, &writer) in &self.seen[read] {
                if writer.is_none() {
                    initial.entry(unit).or_insert_with(|| self.found_by(read, unit));
                }
            }
        }
        self.initial = initial.into_iter().filter_map(|(unit, value)| Some((unit, value?))).collect();
    }

    /// With *n* parties declared, each *n* consecutive enters are a generation; else all before the first leave.
    fn find_generations(&mut self) {
        #[derive(Default)]
        struct Barrier {
            filling: usize,
            entered: u32,
            inside: BTreeMap<ThreadId, usize>,
        }
        let mut barriers: BTreeMap<BarrierId, Barrier> = BTreeMap::new();
        for index in 0..self.len() {
            let thread = self.events[index].thread;
            if let Action::BarrierEnter { barrier } = self.actions[index] {
                let parties = self.trace.tables.barrier_parties(barrier);
                let barrier = barriers.entry(barrier).or_default();
                if parties == Some(barrier.entered) {
                    barrier.filling += 1;
                    barrier.entered = 0;
                }
                barrier.entered += 1;
                barrier.inside.insert(thread, barrier.filling);
                self.generation[index] = Some(barrier.filling);
            } else if let Action::BarrierLeave { barrier } = self.actions[index] {
                let parties = self.trace.tables.barrier_parties(barrier);
                let barrier = barriers.entry(barrier).or_default();
                let generation = barrier.inside[&thread];
                if parties.is_none() && generation == barrier.filling {
                    barrier.filling += 1;
                }
                self.generation[index] = Some(generation);
            }
        }
    }

    fn find_waits(&mut self) {
        for index in 0..self.len() {
            let Action::Wake { by, .. } = self.actions[index] else { continue };
            let same_thread = |&i: &usize| self.events[i].thread == self.events[index].thread;
            self.wait[index] = (0..index).rev().filter(same_thread).find(|&i| self.events[i].op == Op::WaitBegin);
            self.notify[index] = by.map(EventId::index);
        }
    }

    /// The missing method calls of the trace.
    pub fn calls(&self) -> Vec<Call> {
        let mut calls = Vec::new();
        for thread in &self.threads {
            for (at, &begin) in thread.iter().enumerate() {
                let Action::MethodBegin { reach, .. } = self.actions[begin] else { continue };
                let mut depth = 0;
                let mut end = None;
                let mut events = BTreeSet::new();
                for &event in &thread[at..] {
                    events.insert(event);
                    match self.events[event].op {
                        Op::MethodBegin => depth += 1,
                        Op::MethodEnd => depth -= 1,
                        _ => {}
                    }
                    if depth == 0 {
                        end = Some(event);
                        break;
                    }
                }
                calls.push(Call { begin, end, events, reach: self.trace.tables.reach_objects(reach).to_vec() });
            }
        }
        calls
    }

    /// Whether an event shows that a thread has ended: it is its end, or a join of it.
    pub fn shows_end(&self, index: usize, ended: ThreadId) -> bool {
        match self.actions[index] {
            Action::End => self.events[index].thread == ended,
            Action::Join { thread, .. } => thread == ended,
            _ => false,
        }
    }

    /// What an event touches, in the sense of rule 3.
    fn touched_objects(&self, index: usize) -> Vec<Object> {
        let event = &self.events[index];
        let mut touched = match self.actions[index] {
            Action::Acquire { lock, .. } | Action::Release { lock, .. } => vec![Object::Lock(lock)],
            Action::WaitBegin { condition, lock } | Action::WaitEnd { condition, lock } => {
                vec![Object::Lock(lock), Object::Condition(condition)]
            }
            Action::Wake { condition, .. } | Action::Notify { condition } | Action::NotifyAll { condition } => {
                vec![Object::Condition(condition)]
            }
            Action::SemPost { semaphore } | Action::SemWait { semaphore } => vec![Object::Semaphore(semaphore)],
            Action::BarrierEnter { barrier } | Action::BarrierLeave { barrier } => vec![Object::Barrier(barrier)],
            Action::Fork { thread, .. } | Action::Join { thread, .. } => vec![Object::Thread(thread)],
            Action::Probe(probe) => vec![probe.object()],
            Action::Else(_) | Action::Reach { .. } | Action::Fault(_) => vec![],
            action => action.variable().map(Object::Variable).into_iter().collect(),
        };
        let own = &self.threads[event.thread.index()];
        if own.first() == Some(&index) || own.last() == Some(&index) || matches!(event.op, Op::Begin | Op::End) {
            touched.push(Object::Thread(event.thread));
        }
        touched
    }

    fn same_object(&self, a: Object, b: Object) -> bool {
        match (a, b) {
            (Object::Variable(a), Object::Variable(b)) => self.overlap(a, b),
            _ => a == b,
        }
    }

    /// Rule 3.
    fn find_kept_orders(&mut self) {
        let calls = self.calls();
        let reaches = |call: &Call, object: Object| call.reach.iter().any(|&r| self.same_object(r, object));
        let mut kept = BTreeSet::new();
        for (i, one) in calls.iter().enumerate() {
            for other in &calls[..i] {
                if one.reach.iter().any(|&object| reaches(other, object)) {
                    let all: BTreeSet<usize> = one.events.union(&other.events).copied().collect();
                    kept.extend(all.iter().flat_map(|&a| all.range(a + 1..).map(move |&b| (a, b))));
                }
            }
            let touches = |event: &usize| self.touched_objects(*event).iter().any(|&object| reaches(one, object));
            let outside: Vec<usize> = (0..self.len()).filter(|e| !one.events.contains(e)).filter(touches).collect();
            for &event in &outside {
                kept.extend(one.events.iter().map(|&inside| (event.min(inside), event.max(inside))));
            }
            // The missing code may have seen one of two touches and not the other.
            let during = |&&e: &&usize| one.begin < e && one.end.is_none_or(|end| e < end);
            let during: Vec<usize> = outside.iter().filter(during).copied().collect();
            kept.extend(during.iter().enumerate().flat_map(|(i, &b)| during[..i].iter().map(move |&a| (a, b))));
        }
        self.kept = kept;
    }
}

/// Whether two events of a trace conflict.
pub fn conflicting(trace: &Trace, a: EventId, b: EventId) -> bool {
    Facts::of(trace).conflict(a.index(), b.index())
}
