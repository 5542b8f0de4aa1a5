//! The model once more, as slowly and as literally as possible.
//!
//! Where the checker executes, this file states: each rule is a sentence over all
//! events and their positions in the schedule. Memory is bytes, not cells. It
//! shares nothing with the checker but the types of the trace.

use snag_model::Level;
use snag_model::events::Event;
use snag_model::tables::Object;
use snag_model::{BarrierId, CondId, LockId, Op, ReachId, SemId, ThreadId, Trace, VarId, Variable};
use std::collections::HashMap;

/// One byte of memory or one named variable, in one life: 0 or 1 + the event that allocated it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Place {
    Name(usize, u32),
    Byte(usize, u64),
}

/// A trace and a witness.
pub struct Reference<'t> {
    trace: &'t Trace,
    events: Vec<Event>,
    level: Level,
    schedule: Vec<usize>,
    /// Position of each event in the schedule.
    at: Vec<Option<usize>>,
    /// The events that the witness leads up to.
    to_come: Vec<usize>,
}

impl<'t> Reference<'t> {
    /// `None` if the schedule holds an event twice.
    pub fn new(trace: &'t Trace, schedule: &[usize], to_come: &[usize], level: Level) -> Option<Reference<'t>> {
        let mut at = vec![None; trace.len()];
        for (position, &event) in schedule.iter().enumerate() {
            if at[event].replace(position).is_some() {
                return None;
            }
        }
        let level = if level == Level::Control && !trace.has_branches() { Level::Value } else { level };
        let events = trace.events.iter().collect();
        Some(Reference { trace, events, level, schedule: schedule.to_vec(), at, to_come: to_come.to_vec() })
    }

    pub fn is_race(&self) -> bool {
        let [first, second] = self.to_come[..] else { return false };
        self.is_feasible() && self.conflict(first, second) && self.to_come.iter().all(|&e| self.can_come(e))
    }

    pub fn is_deadlock(&self) -> bool {
        let wants = |e: usize| match self.events[e].op {
            Op::Acquire => Some((LockId(self.events[e].target), true)),
            Op::ReadAcquire => Some((LockId(self.events[e].target), false)),
            Op::WaitEnd => Some((LockId(self.events[e].aux), true)),
            _ => None,
        };
        let blocked = |e: usize| {
            let Some((lock, to_write)) = wants(e) else { return false };
            self.to_come.iter().any(|&other| {
                let (writes, reads) = self.holds(self.schedule.len(), self.events[other].thread, lock);
                self.events[other].thread != self.events[e].thread && (writes > 0 || to_write && reads > 0)
            })
        };
        let distinct = self.pairs().all(|(a, b)| {
            let both = self.to_come.contains(&a) && self.to_come.contains(&b);
            !both || self.events[a].thread != self.events[b].thread
        });
        let repeated = (1..self.to_come.len()).any(|i| self.to_come[..i].contains(&self.to_come[i]));
        self.to_come.len() >= 2
            && distinct
            && !repeated
            && self.is_feasible()
            && self.to_come.iter().all(|&e| self.can_come(e) && blocked(e))
    }

    pub fn is_feasible(&self) -> bool {
        self.threads()
            && self.locks()
            && self.waits()
            && self.semaphores()
            && self.probes()
            && self.barriers()
            && self.schedule.iter().all(|&e| self.heap(e, self.at[e]))
            && self.missing_methods()
            && self.reads()
    }

    /// All pairs of events, the earlier one in the trace first.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let count = self.events.len();
        (0..count).flat_map(move |a| (a + 1..count).map(move |b| (a, b)))
    }

    /// `b` is in the schedule only if `a` is, before it.
    fn keep(&self, a: usize, b: usize) -> bool {
        self.at[b].is_none() || self.at[a].is_some() && self.at[a] < self.at[b]
    }

    // Rule 1, and fork and join.

    fn threads(&self) -> bool {
        self.pairs().all(|(a, b)| {
            let (first, second) = (&self.events[a], &self.events[b]);
            let forks = first.op == Op::Fork && ThreadId(first.target) == second.thread;
            let joins = second.op == Op::Join && ThreadId(second.target) == first.thread;
            let both = first.op == Op::Fork && second.op == Op::Join && first.target == second.target;
            !(first.thread == second.thread || forks || joins || both) || self.keep(a, b)
        })
    }

    // Rule 2.

    /// How often a thread holds a lock for writing and for reading, before a position of the schedule.
    fn holds(&self, before: usize, thread: ThreadId, lock: LockId) -> (u32, u32) {
        let (mut writes, mut reads, mut given_up) = (0, 0, 0);
        for event in self.schedule[..before].iter().map(|&e| &self.events[e]).filter(|e| e.thread == thread) {
            match event.op {
                Op::Acquire if event.target == lock.0 => writes += 1,
                Op::Release if event.target == lock.0 => writes -= 1,
                Op::ReadAcquire if event.target == lock.0 => reads += 1,
                Op::ReadRelease if event.target == lock.0 => reads -= 1,
                Op::WaitBegin if event.aux == lock.0 => (writes, given_up) = (0, writes),
                Op::WaitEnd if event.aux == lock.0 => writes = given_up,
                _ => {}
            }
        }
        (writes, reads)
    }

    fn locks(&self) -> bool {
        let threads = || (0..self.trace.tables.thread_count()).map(ThreadId::new);
        (0..=self.schedule.len()).all(|before| {
            (0..self.trace.tables.lock_count()).map(LockId::new).all(|lock| {
                threads().filter(|&owner| self.holds(before, owner, lock).0 > 0).all(|owner| {
                    threads().filter(|&other| other != owner).all(|other| self.holds(before, other, lock) == (0, 0))
                })
            })
        })
    }

    fn waits(&self) -> bool {
        self.schedule.iter().filter(|&&e| self.events[e].op == Op::Wake && self.events[e].aux > 0).all(|&wake| {
            let notify = self.events[wake].aux as usize - 1;
            let is_wait =
                |&e: &usize| self.events[e].op == Op::WaitBegin && self.events[e].thread == self.events[wake].thread;
            let wait = (0..wake).rev().find(is_wait).unwrap();
            self.at[notify].is_some() && self.at[notify] < self.at[wake] && self.at[wait] < self.at[notify]
        })
    }

    fn semaphores(&self) -> bool {
        (0..=self.schedule.len()).all(|before| {
            let happened = &self.schedule[..before];
            let count = |op: Op, target: u32| {
                happened.iter().filter(|&&e| self.events[e].op == op && self.events[e].target == target).count()
            };
            happened.iter().map(|&e| self.events[e]).filter(|event| event.op == Op::SemWait).all(|event| {
                let initial = self.trace.tables.semaphore_initial(SemId(event.target)) as usize;
                count(Op::SemWait, event.target) <= initial + count(Op::SemPost, event.target)
            })
        })
    }

    fn probes(&self) -> bool {
        let on = |e: &usize, op: Op, target: u32| self.events[*e].op == op && self.events[*e].target == target;
        self.schedule.iter().enumerate().all(|(position, &probe)| {
            let Event { op, target, aux, thread, .. } = self.events[probe];
            let before = &self.schedule[..position];
            match op {
                Op::TryFail | Op::ReadTryFail => {
                    (0..self.trace.tables.thread_count()).map(ThreadId::new).any(|other| {
                        let (writes, reads) = self.holds(position, other, LockId(target));
                        other != thread && (writes > 0 || op == Op::TryFail && reads > 0)
                    })
                }
                Op::SemValue => {
                    let count = |op: Op| before.iter().filter(|e| on(e, op, target)).count();
                    let initial = self.trace.tables.semaphore_initial(SemId(target)) as usize;
                    initial + count(Op::SemPost) == aux as usize + count(Op::SemWait)
                }
                Op::JoinFail => {
                    let own = |e: &usize| self.events[*e].op == Op::End && self.events[*e].thread == ThreadId(target);
                    let fork = (0..self.events.len()).find(|e| on(e, Op::Fork, target));
                    fork.is_none_or(|fork| before.contains(&fork))
                        && !before.iter().any(|e| own(e) || on(e, Op::Join, target))
                }
                _ => true,
            }
        })
    }

    /// The generation of an enter or a leave.
    fn generation(&self, e: usize) -> usize {
        let on_barrier =
            |&other: &usize, op: Op| self.events[other].op == op && self.events[other].target == self.events[e].target;
        if self.events[e].op == Op::BarrierLeave {
            let own = |other: &usize| self.events[*other].thread == self.events[e].thread;
            let enter = (0..e).rev().find(|other| on_barrier(other, Op::BarrierEnter) && own(other));
            return self.generation(enter.unwrap());
        }
        if let Some(parties) = self.trace.tables.barrier_parties(BarrierId(self.events[e].target)) {
            return (0..e).filter(|other| on_barrier(other, Op::BarrierEnter)).count() / parties as usize;
        }
        // A generation is over when its first thread leaves.
        let mut over: Vec<usize> = Vec::new();
        for leave in (0..e).filter(|other| on_barrier(other, Op::BarrierLeave)) {
            let generation = self.generation(leave);
            if !over.contains(&generation) {
                over.push(generation);
            }
        }
        over.len()
    }

    fn barriers(&self) -> bool {
        let on_barrier = |e: &usize| matches!(self.events[*e].op, Op::BarrierEnter | Op::BarrierLeave);
        self.schedule.iter().filter(|e| on_barrier(e)).all(|&e| {
            let generation = self.generation(e);
            let enters = (0..self.events.len()).filter(|&other| {
                self.events[other].op == Op::BarrierEnter && self.events[other].target == self.events[e].target
            });
            enters.filter(|&enter| enter != e).all(|enter| {
                let needed = match self.events[e].op {
                    Op::BarrierLeave => self.generation(enter) <= generation,
                    _ => self.generation(enter) < generation,
                };
                !needed || self.keep(enter, e)
            })
        })
    }

    /// First and last byte of a variable that is a range.
    fn range(&self, variable: u32) -> Option<(u64, u64)> {
        match self.trace.tables.variable(VarId(variable)) {
            Variable::Range { address, size } => Some((address, address + size - 1)),
            Variable::Named(_) => None,
        }
    }

    /// The allocation of the block that an access or free is about.
    fn alloc(&self, e: usize) -> Option<usize> {
        let target = self.events[e].target;
        let about = |other: &usize| match (self.range(self.events[*other].target), self.range(target)) {
            (Some(block), Some(inside)) => block.0 <= inside.1 && inside.0 <= block.1,
            (None, None) => self.events[*other].target == target,
            _ => false,
        };
        let life = (0..e).rev().filter(|&other| matches!(self.events[other].op, Op::Alloc | Op::Free)).find(about)?;
        (self.events[life].op == Op::Alloc).then_some(life)
    }

    fn free(&self, alloc: usize) -> Option<usize> {
        let same = |&e: &usize| self.events[e].op == Op::Free && self.events[e].target == self.events[alloc].target;
        (alloc..self.events.len()).find(same)
    }

    /// Heap memory lives when an event happens; `None`: after the whole schedule.
    fn heap(&self, e: usize, at: Option<usize>) -> bool {
        if !self.events[e].op.touches_memory() {
            return true;
        }
        let Some(alloc) = self.alloc(e) else { return true };
        let happened = |other: usize| self.at[other].is_some() && (at.is_none() || self.at[other] < at);
        happened(alloc) && !self.free(alloc).is_some_and(happened)
    }

    // Rule 3.

    /// The calls that an event belongs to, by their begins.
    fn calls(&self, e: usize) -> Vec<usize> {
        let mut open = Vec::new();
        for other in (0..=e).filter(|&other| self.events[other].thread == self.events[e].thread) {
            match self.events[other].op {
                Op::MethodBegin => open.push(other),
                Op::MethodEnd if other < e => {
                    open.pop();
                }
                _ => {}
            }
        }
        open
    }

    fn reach(&self, begin: usize) -> &[Object] {
        self.trace.tables.reach_objects(ReachId(self.events[begin].aux))
    }

    fn overlap(&self, a: Object, b: Object) -> bool {
        let range = |object: Object| match object {
            Object::Variable(id) => self.range(id.0),
            _ => None,
        };
        match (range(a), range(b)) {
            (Some(a), Some(b)) => a.0 <= b.1 && b.0 <= a.1,
            _ => a == b,
        }
    }

    fn touches(&self, e: usize) -> Vec<Object> {
        let event = &self.events[e];
        let (target, aux) = (event.target, event.aux);
        let mut all = match event.op {
            Op::Acquire | Op::Release | Op::ReadAcquire | Op::ReadRelease | Op::TryFail | Op::ReadTryFail => {
                vec![Object::Lock(LockId(target))]
            }
            Op::WaitBegin | Op::WaitEnd => vec![Object::Lock(LockId(aux)), Object::Condition(CondId(target))],
            Op::Wake | Op::Notify | Op::NotifyAll => vec![Object::Condition(CondId(target))],
            Op::SemPost | Op::SemWait | Op::SemValue => vec![Object::Semaphore(SemId(target))],
            Op::BarrierEnter | Op::BarrierLeave => vec![Object::Barrier(BarrierId(target))],
            Op::Fork | Op::Join | Op::JoinFail => vec![Object::Thread(ThreadId(target))],
            op if op.touches_memory() || op == Op::Alloc => vec![Object::Variable(VarId(target))],
            _ => vec![],
        };
        let own = |other: &usize| self.events[*other].thread == event.thread;
        let first_or_last = !(0..e).any(|o| own(&o)) || !(e + 1..self.events.len()).any(|o| own(&o));
        if first_or_last || matches!(event.op, Op::Begin | Op::End) {
            all.push(Object::Thread(event.thread));
        }
        all
    }

    /// Whether a call could reach something that an event touches.
    fn reached(&self, begin: usize, e: usize) -> bool {
        let overlaps = |&touched: &Object| self.reach(begin).iter().any(|&object| self.overlap(object, touched));
        self.touches(e).iter().any(overlaps)
    }

    /// Whether an event of another thread happens while a call that could reach what it touches is open.
    fn disturbs(&self, begin: usize, e: usize) -> bool {
        let over = (begin..e).any(|end| self.events[end].op == Op::MethodEnd && self.calls(end).last() == Some(&begin));
        begin < e && !over && self.events[begin].thread != self.events[e].thread && self.reached(begin, e)
    }

    /// Whether rule 3 keeps two events in order.
    fn ordered(&self, a: usize, b: usize) -> bool {
        let common = |m: usize, n: usize| {
            self.reach(m).iter().any(|&object| self.reach(n).iter().any(|&other| self.overlap(object, other)))
        };
        let (calls_a, calls_b) = (self.calls(a), self.calls(b));
        calls_a.iter().any(|&m| calls_b.iter().any(|&n| common(m, n)))
            || calls_a.iter().any(|&m| self.reached(m, b))
            || calls_b.iter().any(|&m| self.reached(m, a))
            || (0..a).any(|m| self.events[m].op == Op::MethodBegin && self.disturbs(m, a) && self.disturbs(m, b))
    }

    fn missing_methods(&self) -> bool {
        self.pairs().all(|(a, b)| !self.ordered(a, b) || self.keep(a, b))
    }

    // Rule 4.

    fn places(&self, e: usize) -> Vec<Place> {
        let life = self.alloc(e).map_or(0, |alloc| alloc + 1);
        match self.range(self.events[e].target) {
            None => vec![Place::Name(life, self.events[e].target)],
            Some((first, last)) => (first..=last).map(|byte| Place::Byte(life, byte)).collect(),
        }
    }

    /// What a place holds if a variable holds a value.
    fn slice(&self, variable: u32, value: Option<i64>, place: Place) -> Option<u64> {
        match (self.range(variable), place) {
            (Some((first, last)), Place::Byte(_, byte)) if last - first < 8 => {
                value.map(|value| (value as u64) >> (8 * (byte - first)) & 0xff)
            }
            (Some(_), _) => None,
            (None, _) => value.map(|value| value as u64),
        }
    }

    fn read_value(&self, e: usize, place: Place) -> Option<u64> {
        self.slice(self.events[e].target, self.events[e].value_read(), place)
    }

    fn initial(&self, place: Place) -> Option<u64> {
        for &(variable, value) in &self.trace.tables.declarations.initial {
            let covers = match (self.range(variable.0), place) {
                (None, Place::Name(0, name)) => name == variable.0,
                (Some((first, last)), Place::Byte(0, byte)) => first <= byte && byte <= last && last - first < 8,
                _ => false,
            };
            if covers {
                return self.slice(variable.0, Some(value), place);
            }
        }
        let accesses = |e: &usize| self.events[*e].op.is_access() && self.places(*e).contains(&place);
        let first = (0..self.events.len()).find(accesses)?;
        self.read_value(first, place)
    }

    fn left(&self, write: Option<usize>, place: Place) -> Option<u64> {
        match write {
            None => self.initial(place),
            Some(write) => self.slice(self.events[write].target, self.events[write].value_written(), place),
        }
    }

    /// Whether code that was not observed may have written a place at a begin or end.
    fn may_access(&self, e: usize, place: Place) -> bool {
        if !matches!(self.events[e].op, Op::MethodBegin | Op::MethodEnd) {
            return false;
        }
        let begin = *self.calls(e).last().unwrap();
        self.reach(begin).iter().any(|&object| match (object, place) {
            (Object::Variable(variable), Place::Name(_, name)) => variable.0 == name,
            (Object::Variable(variable), Place::Byte(_, byte)) => {
                self.range(variable.0).is_some_and(|(first, last)| first <= byte && byte <= last)
            }
            _ => false,
        })
    }

    /// The places that a missing call may read at its begin, as far as the trace accesses them.
    fn hidden_places(&self, begin: usize) -> Vec<Place> {
        let accesses = (0..self.events.len()).filter(|&e| self.events[e].op.is_access());
        accesses.flat_map(|e| self.places(e)).filter(|&place| self.may_access(begin, place)).collect()
    }

    /// For each position of the schedule: whether the event, if it reads, reads what it read in the trace.
    fn faithful(&self) -> Vec<bool> {
        let writes = |e: &usize, place: &Place| {
            self.events[*e].op.writes() && self.places(*e).contains(place) || self.may_access(*e, *place)
        };
        let mut faithful: Vec<bool> = Vec::new();
        for (position, &e) in self.schedule.iter().enumerate() {
            let begins = self.events[e].op == Op::MethodBegin;
            if !self.events[e].op.reads() && !begins {
                faithful.push(true);
                continue;
            }
            let places = if begins { self.hidden_places(e) } else { self.places(e) };
            let same = places.into_iter().all(|place| {
                let seen = (0..e).rev().find(|other| writes(other, &place));
                let found = (0..position).rev().find(|&p| writes(&self.schedule[p], &place));
                // Its thread has read something else, before it or in the same event.
                let unknown = found.is_some_and(|found| {
                    let thread = self.events[self.schedule[found]].thread;
                    (0..=found).any(|p| self.events[self.schedule[p]].thread == thread && !faithful[p])
                });
                let found = found.map(|found| self.schedule[found]);
                let value = if begins { self.left(seen, place) } else { self.read_value(e, place) };
                let explained = value.is_some() && value == self.left(seen, place);
                let equal = self.level != Level::Writer && explained && value == self.left(found, place);
                !unknown && (seen == found || equal)
            });
            faithful.push(same);
        }
        faithful
    }

    fn reads(&self) -> bool {
        let faithful = self.faithful();
        let reads = |op: Op| op.reads() || op == Op::MethodBegin;
        self.schedule.iter().enumerate().filter(|(_, e)| reads(self.events[**e].op)).all(|(position, &e)| {
            let own = |other: &&usize| self.events[**other].thread == self.events[e].thread;
            let mut later = self.schedule[position + 1..].iter().filter(own);
            let depends = |other: usize| self.events[other].op == Op::Branch || !self.calls(other).is_empty();
            let kept = if self.events[e].op == Op::MethodBegin {
                true
            } else if self.level == Level::Control {
                later.any(|&other| depends(other)) || self.to_come.iter().any(|other| own(&other) && depends(*other))
            } else {
                let joined = |&other: &usize| {
                    self.events[other].op == Op::Join && self.events[other].target == self.events[e].thread.0
                };
                later.next().is_some()
                    || self.to_come.iter().any(|other| own(&other))
                    || self.events[e].op == Op::Rmw
                    || self.schedule.iter().any(joined)
                    || self.schedule.iter().chain(&self.to_come).any(|&other| e < other && self.ordered(e, other))
            };
            !kept || faithful[position]
        })
    }

    // Races.

    fn conflict(&self, a: usize, b: usize) -> bool {
        let (first, second) = (&self.events[a], &self.events[b]);
        if !first.op.touches_memory() || !second.op.touches_memory() {
            return false;
        }
        let changes = |op: Op| op.writes() || op == Op::Free;
        let places = self.places(b);
        first.thread != second.thread
            && (changes(first.op) || changes(second.op))
            && !(first.op.is_atomic() && second.op.is_atomic())
            && self.places(a).iter().any(|place| places.contains(place))
    }

    /// The event is the next of its thread, its memory lives, and what rule 3 puts before it has happened.
    fn can_come(&self, e: usize) -> bool {
        let before = |other: usize| {
            let (first, second) = (&self.events[other], &self.events[e]);
            let forks = first.op == Op::Fork && ThreadId(first.target) == second.thread;
            first.thread == second.thread || forks || self.ordered(other, e)
        };
        self.at[e].is_none() && (0..e).all(|other| !before(other) || self.at[other].is_some()) && self.heap(e, None)
    }

    /// What memory holds after the whole trace, if the schedule is the trace: for making up values.
    pub fn memory_before(trace: &Trace, e: usize) -> Option<i64> {
        let reference = Reference::new(trace, &[], &[], Level::Writer)?;
        let mut values: HashMap<Place, u64> = HashMap::new();
        for other in (0..e).filter(|&other| reference.events[other].op.writes()) {
            for place in reference.places(other) {
                values.insert(place, reference.left(Some(other), place).unwrap_or(0));
            }
        }
        let bytes = reference.places(e).into_iter().rev();
        Some(bytes.fold(0, |value, place| value << 8 | values.get(&place).copied().unwrap_or(0) as i64))
    }
}
