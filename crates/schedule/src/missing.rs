//! The order that missing methods force (rule 3 of the model).
//!
//! Let S(m) be the events of a call of a missing method. For each object, all
//! events of calls that could reach it keep their order among each other, and
//! whatever touches it keeps its order with them; two touches do not. The whole
//! order follows from each event's nearest predecessors: the last event of such a
//! call and, if it is itself one, all that touched the object since. So this file
//! lists, for each event, what must have happened before it, and nothing has to be
//! remembered during a check.
//!
//! An object is a lock, a thread, a named variable, or a stretch of bytes that no
//! reach set splits. Bytes are compared by address alone, whatever allocation they
//! belong to.

use snag_trace::events::Event;
use snag_trace::tables::Object;
use snag_trace::{EventId, LockId, Op, ReachId, ThreadId, Trace, VarId, Variable};
use std::collections::HashMap;
use std::ops::Range;

/// What must have happened before each event because methods are missing.
pub(crate) struct MissingMethods {
    /// Where the predecessors of each event begin, and one end.
    start: Vec<usize>,
    /// At most one of each thread: the last, as it comes after all earlier ones.
    before: Vec<EventId>,
}

impl MissingMethods {
    pub fn of(trace: &Trace) -> MissingMethods {
        let objects = Objects::of(trace);
        let mut history: Vec<History> = Vec::new();
        history.resize_with(objects.count(), History::default);
        // The objects that the open calls of each thread could reach, a list per call.
        let mut open: Vec<Vec<&[usize]>> = vec![Vec::new(); trace.tables.thread_count()];
        let mut order = MissingMethods { start: vec![0], before: Vec::new() };
        let mut found = Vec::new();
        for (index, event) in trace.events.iter().enumerate() {
            let id = EventId::new(index);
            let calls = &mut open[event.thread.index()];
            if event.op == Op::MethodBegin {
                calls.push(&objects.reached[ReachId(event.aux).index()]);
            }
            for &object in calls.iter().copied().flatten() {
                history[object].inside_call(id, event.thread, &mut found);
            }
            for object in objects.touched(&event, trace) {
                history[object].touch(id, event.thread, &mut found);
            }
            if event.op == Op::MethodEnd {
                calls.pop();
            }
            order.push(event.thread, &mut found);
        }
        order
    }

    /// What must have happened before an event.
    #[inline]
    pub fn before(&self, event: EventId) -> &[EventId] {
        &self.before[self.start[event.index()]..self.start[event.index() + 1]]
    }

    /// Appends the predecessors of the next event and empties the list.
    fn push(&mut self, thread: ThreadId, found: &mut Vec<(ThreadId, EventId)>) {
        found.sort_unstable();
        for (i, &(other, event)) in found.iter().enumerate() {
            let last_of_thread = found.get(i + 1).is_none_or(|next| next.0 != other);
            if other != thread && last_of_thread {
                self.before.push(event);
            }
        }
        found.clear();
        self.start.push(self.before.len());
    }
}

/// What has happened to one object so far.
#[derive(Clone, Default)]
struct History {
    /// The last event of a call that could reach it.
    last_inside: Option<(ThreadId, EventId)>,
    /// The last touch of each thread since then.
    touches: Vec<(ThreadId, EventId)>,
}

impl History {
    fn inside_call(&mut self, event: EventId, thread: ThreadId, before: &mut Vec<(ThreadId, EventId)>) {
        before.extend(self.last_inside);
        before.append(&mut self.touches);
        self.last_inside = Some((thread, event));
    }

    fn touch(&mut self, event: EventId, thread: ThreadId, before: &mut Vec<(ThreadId, EventId)>) {
        before.extend(self.last_inside);
        match self.touches.iter_mut().find(|touch| touch.0 == thread) {
            Some(touch) => touch.1 = event,
            None => self.touches.push((thread, event)),
        }
    }
}

/// The objects that some call could reach, numbered.
struct Objects {
    /// Locks, threads and named variables.
    numbers: HashMap<Object, usize>,
    /// First and last byte of the pieces into which the reach sets cut memory, by
    /// address; numbered after `numbers`.
    pieces: Vec<(u64, u64)>,
    /// The objects of each reach set.
    reached: Vec<Vec<usize>>,
}

impl Objects {
    fn of(trace: &Trace) -> Objects {
        let reaches = || (0..trace.tables.reach_count()).map(|id| trace.tables.reach_objects(ReachId::new(id)));
        let mut objects = Objects { numbers: HashMap::new(), pieces: Vec::new(), reached: Vec::new() };
        // Where pieces begin, and where they end: one byte further, but for the last byte of all.
        let mut cuts = Vec::new();
        for &object in reaches().flatten() {
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
        objects.reached = reaches()
            .map(|reach| {
                let mut all: Vec<usize> = reach.iter().flat_map(|&object| objects.find(object, trace)).collect();
                all.sort_unstable();
                all.dedup();
                all
            })
            .collect();
        objects
    }

    fn count(&self) -> usize {
        self.numbers.len() + self.pieces.len()
    }

    /// The numbers of what overlaps an object; empty if nothing of it could be reached.
    fn find(&self, object: Object, trace: &Trace) -> Range<usize> {
        match range(object, trace) {
            Some((first, last)) => {
                let from = self.pieces.partition_point(|piece| piece.1 < first);
                let to = self.pieces.partition_point(|piece| piece.0 <= last);
                self.numbers.len() + from..self.numbers.len() + to
            }
            None => self.numbers.get(&object).map_or(0..0, |&number| number..number + 1),
        }
    }

    /// What an event touches, as the model defines it.
    fn touched(&self, event: &Event, trace: &Trace) -> Range<usize> {
        let object = match event.op {
            op if op.touches_memory() => Object::Variable(VarId(event.target)),
            Op::Acquire | Op::Release | Op::ReadAcquire | Op::ReadRelease => Object::Lock(LockId(event.target)),
            Op::WaitBegin | Op::WaitEnd => Object::Lock(LockId(event.aux)),
            Op::Fork | Op::Join => Object::Thread(ThreadId(event.target)),
            Op::Begin | Op::End => Object::Thread(event.thread),
            _ => return 0..0,
        };
        self.find(object, trace)
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
