//! The objects that missing methods could reach, numbered, and who touches them (rule 3 of the model).
//!
//! An object is a lock, a thread, a condition, a semaphore, a barrier, a named variable, or a stretch of bytes that no
//! reach set splits. Bytes are compared by address alone, whatever allocation they belong to.

use snag_model::events::Event;
use snag_model::tables::Object;
use snag_model::{Action, EventId, Op, ReachId, Trace, VarId, Variable};
use std::collections::HashMap;
use std::ops::Range;

/// The objects that some call could reach.
pub(crate) struct Objects<'t> {
    trace: &'t Trace,
    /// Everything that is not an address range.
    numbers: HashMap<Object, usize>,
    /// First and last byte of the pieces into which the reach sets cut memory, by
    /// address; numbered after `numbers`.
    pieces: Vec<(u64, u64)>,
    /// The objects of all reach sets, one after the other, and where each set ends.
    members: Vec<u32>,
    ends: Vec<usize>,
    /// The last event of each thread.
    last: Vec<Option<EventId>>,
    /// The first event of each thread.
    first: Vec<Option<EventId>>,
}

impl<'t> Objects<'t> {
    pub fn of(trace: &'t Trace) -> Objects<'t> {
        let reaches = || (0..trace.tables.reach_count()).map(|id| trace.tables.reach_objects(ReachId::new(id)));
        let nobody = vec![None; trace.tables.thread_count()];
        let mut objects = Objects {
            trace,
            numbers: HashMap::new(),
            pieces: Vec::new(),
            members: Vec::new(),
            ends: Vec::new(),
            last: nobody.clone(),
            first: nobody,
        };
        for (index, thread) in trace.events.threads().iter().enumerate() {
            objects.first[thread.index()].get_or_insert(EventId::new(index));
            objects.last[thread.index()] = Some(EventId::new(index));
        }
        // Where pieces begin, and where they end: one byte further, but for the last byte of all.
        let mut cuts = Vec::new();
        let mut seen = vec![false; trace.tables.variable_count()];
        for &object in reaches().flatten() {
            // Most members of most sets are in many of them.
            if let Object::Variable(id) = object
                && std::mem::replace(&mut seen[id.index()], true)
            {
                continue;
            }
            match range(object, trace) {
                Some((first, last)) => cuts.extend([Some(first), last.checked_add(1)].into_iter().flatten()),
                None => {
                    let number = objects.numbers.len();
                    objects.numbers.entry(object).or_insert(number);
                }
            }
        }
        cuts.sort_unstable();
        cuts.dedup();
        let ends = cuts.iter().skip(1).map(|cut| cut - 1).chain([u64::MAX]);
        objects.pieces = cuts.iter().copied().zip(ends).collect();
        let variables = (0..trace.tables.variable_count()).map(|id| objects.find(Object::Variable(VarId::new(id))));
        let variables: Vec<Range<usize>> = variables.collect();
        let mut set: Vec<u32> = Vec::new();
        for reach in reaches() {
            set.clear();
            for &object in reach {
                let found = match object {
                    Object::Variable(id) => variables[id.index()].clone(),
                    other => objects.find(other),
                };
                set.extend(found.map(|number| number as u32));
            }
            set.sort_unstable();
            set.dedup();
            objects.members.extend_from_slice(&set);
            objects.ends.push(objects.members.len());
        }
        objects
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.numbers.len() + self.pieces.len()
    }

    /// Those of a reach set.
    pub fn reached(&self, reach: ReachId) -> &[u32] {
        let start = if reach.index() == 0 { 0 } else { self.ends[reach.index() - 1] };
        &self.members[start..self.ends[reach.index()]]
    }

    /// The numbers of what overlaps an object; empty if nothing of it could be reached.
    fn find(&self, object: Object) -> Range<usize> {
        match range(object, self.trace) {
            Some((first, last)) => self.with_bytes(first, last),
            None => self.numbers.get(&object).map_or(0..0, |&number| number..number + 1),
        }
    }

    /// The memory from a first to a last byte.
    pub fn with_bytes(&self, first: u64, last: u64) -> Range<usize> {
        let from = self.pieces.partition_point(|piece| piece.1 < first);
        let to = self.pieces.partition_point(|piece| piece.0 <= last);
        self.numbers.len() + from..self.numbers.len() + to
    }

    /// The memory of a variable.
    pub fn with_variable(&self, variable: VarId) -> Range<usize> {
        self.find(Object::Variable(variable))
    }

    /// What an event touches, as the model defines it.
    pub fn touched(&self, id: EventId, event: &Event) -> impl Iterator<Item = usize> {
        let (one, other) = match event.action() {
            Action::Acquire { lock, .. } | Action::Release { lock, .. } => (Some(Object::Lock(lock)), None),
            Action::WaitBegin { condition, lock } | Action::WaitEnd { condition, lock } => {
                (Some(Object::Lock(lock)), Some(Object::Condition(condition)))
            }
            Action::Wake { condition, .. } | Action::Notify { condition } | Action::NotifyAll { condition } => {
                (Some(Object::Condition(condition)), None)
            }
            Action::SemPost { semaphore } | Action::SemWait { semaphore } => (Some(Object::Semaphore(semaphore)), None),
            Action::BarrierEnter { barrier } | Action::BarrierLeave { barrier } => {
                (Some(Object::Barrier(barrier)), None)
            }
            Action::Fork { thread, .. } | Action::Join { thread, .. } => (Some(Object::Thread(thread)), None),
            Action::Probe(probe) => (Some(probe.object()), None),
            // What an object leads to, what would have happened on the other side, and a fault touch nothing.
            Action::Reach { .. } | Action::Else(_) | Action::Fault(_) => (None, None),
            action => (action.variable().map(Object::Variable), None),
        };
        let (first, last) = (self.first[event.thread.index()], self.last[event.thread.index()]);
        let of_thread = first == Some(id) || last == Some(id) || matches!(event.op, Op::Begin | Op::End);
        let thread = of_thread.then_some(Object::Thread(event.thread));
        [one, other, thread].into_iter().flatten().flat_map(|object| self.find(object))
    }
}

/// First and last byte of an object that is an address range.
fn range(object: Object, trace: &Trace) -> Option<(u64, u64)> {
    let Object::Variable(id) = object else { return None };
    match trace.tables.variable(id) {
        Variable::Range { address, size } => Some((address, address + (size - 1))),
        Variable::Named(_) => None,
    }
}
