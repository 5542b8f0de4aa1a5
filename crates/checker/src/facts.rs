//! What a trace says about its events, as far as the checker needs it.
//!
//! [`Facts`] are computed once per trace, in one pass each, and never change:
//! any number of checks may look at them at once. Facts that only rare operations
//! need are built only if the trace has such operations; a trace of reads, writes
//! and locks costs eight bytes an event.

use crate::barriers;
use crate::heap::Heap;
use crate::hidden::Hidden;
use crate::memory::{Initial, Seen};
use crate::missing::MissingMethods;
use crate::reach::Objects;
use crate::source::Source;
use crate::violation::{ScheduleRule, Violation};
use snag_model::symbolic::Symbolic;
use snag_model::{Action, Cells, EventId, Op, Pointers, Probe, Space, ThreadId, Trace};
use std::collections::HashMap;
use std::sync::OnceLock;

/// In place of a thread's next event: it has none left. Larger than every event.
pub(crate) const DONE: EventId = EventId(u32::MAX);

/// In place of a thread's next event: its fork has not happened. Smaller than every
/// event of a forked thread, as event 0 belongs to a thread that nobody has forked.
pub(crate) const NOT_FORKED: EventId = EventId(0);

/// Everything the checker knows about one trace.
pub(crate) struct Facts<'t> {
    /// The trace itself.
    pub trace: &'t Trace,
    /// Its memory.
    pub cells: &'t Cells,
    /// The next event of the same thread, for each event that a schedule may hold.
    pub next: Vec<EventId>,
    /// The first event of each thread.
    pub first: Vec<EventId>,
    /// The fork of each thread that is forked.
    pub fork: Vec<Option<EventId>>,
    /// Whether the trace has branches; without, every read counts at level `control`.
    pub has_branches: bool,
    /// Whether locks are also held for reading.
    pub has_read_locks: bool,
    /// Which write each read saw.
    pub seen: Seen,
    /// What memory held before the first event.
    pub initial: Initial,
    /// Which writes leave an address of memory that was allocated more than once.
    pointers: Pointers,
    /// Counts of the semaphores before the first event.
    pub semaphores: Vec<i64>,
    /// The events that show that a thread has ended: its `end` and joins of it. Only of threads that an attempt to join
    /// failed for.
    pub ends: HashMap<ThreadId, Vec<EventId>>,
    /// How many must have entered a barrier before each event on it.
    pub enters_needed: HashMap<EventId, u64>,
    /// Lifetimes, if the trace allocates.
    pub heap: Option<Heap>,
    /// What must keep its order, if methods are missing.
    pub missing: Option<MissingMethods>,
    /// What code that was not observed may access.
    pub hidden: Hidden,
    /// Expressions and conditions, looked at when the first check at level `symbolic` comes.
    symbolic: OnceLock<Symbolic>,
}

impl<'t> Facts<'t> {
    /// Looks at a well-formed trace, for schedules of events before `end`.
    pub fn new(trace: &'t Trace, cells: &'t Cells, end: usize) -> Facts<'t> {
        let ops = cells.ops();
        let has = |op: Op| ops.any(&[op]);
        let mut next = vec![DONE; end];
        let mut first = vec![DONE; trace.tables.thread_count()];
        let (threads, rest) = trace.events.threads().split_at(end);
        let mut missing = first.len();
        for (index, thread) in rest.iter().enumerate() {
            if first[thread.index()] == DONE {
                first[thread.index()] = EventId::new(end + index);
                missing -= 1;
                if missing == 0 {
                    break;
                }
            }
        }
        for (index, thread) in threads.iter().enumerate().rev() {
            next[index] = std::mem::replace(&mut first[thread.index()], EventId::new(index));
        }
        let mut fork = vec![None; trace.tables.thread_count()];
        if has(Op::Fork) {
            for (id, event) in trace.events_of(&[Op::Fork]) {
                if let Action::Fork { thread, .. } = event.action() {
                    fork[thread.index()] = Some(id);
                }
            }
        }
        let mut semaphores = vec![0; trace.tables.names(Space::Semaphore).len()];
        // What is declared first counts, as it does for the validator.
        for &(semaphore, count) in trace.tables.declarations.semaphores.iter().rev() {
            semaphores[semaphore.index()] = count as i64;
        }
        let objects = has(Op::MethodBegin).then(|| Objects::of(trace));
        let mut hidden = objects.as_ref().map_or(Hidden::default(), |objects| Hidden::of(trace, cells, objects));
        let on_barriers = has(Op::BarrierEnter) || has(Op::BarrierLeave);
        Facts {
            trace,
            cells,
            next,
            first,
            fork,
            has_branches: has(Op::Branch),
            has_read_locks: has(Op::ReadAcquire),
            seen: Seen::of(trace, cells, end, &mut hidden),
            initial: Initial::of(trace, cells),
            pointers: Pointers::of(trace, ops, end),
            semaphores,
            ends: if has(Op::JoinFail) { ends(trace) } else { HashMap::new() },
            enters_needed: if on_barriers { barriers::enters_needed(trace) } else { HashMap::new() },
            heap: (has(Op::Alloc) || has(Op::Free)).then(|| Heap::of(trace, cells)),
            missing: objects.map(|objects| MissingMethods::of(trace, &objects)),
            hidden,
            symbolic: OnceLock::new(),
        }
    }

    /// Expressions and conditions.
    pub fn symbolic(&self) -> &Symbolic {
        self.symbolic.get_or_init(|| Symbolic::of(self.trace))
    }

    /// What a read found in one of its cells, where that is known.
    pub fn value_read(&self, read: EventId, cell: usize) -> Option<u64> {
        let event = self.trace.event(read);
        self.slice(event.action(), event.value_read()?, cell)
    }

    /// What a source leaves in a cell, where that is known.
    pub fn value_left(&self, source: Source, cell: usize) -> Option<u64> {
        if source == Source::INITIAL {
            return self.initial.value(cell);
        }
        let event = self.trace.event(source.event()?);
        // Code that was not observed writes, too, and then there is no value.
        self.slice(event.action(), event.value_written()?, cell)
    }

    /// What a cell holds if the variable of an access holds a value.
    fn slice(&self, access: Action, value: i64, cell: usize) -> Option<u64> {
        self.cells.slice(self.trace.tables.variable(access.variable()?), value, cell)
    }

    /// Whether two sources that leave the same number leave the same value: not addresses of different allocations.
    pub fn means_the_same(&self, one: Source, other: Source) -> bool {
        let target = |source: Source| source.event().and_then(|write| self.pointers.target(write));
        target(one) == target(other)
    }

    /// The event in words, for violations.
    pub fn text(&self, id: EventId) -> String {
        let event = self.trace.event(id);
        let (thread, target) = (self.thread_name(event.thread), self.trace.target_text(&event));
        let blank = if target.is_empty() { "" } else { " " };
        let location = self.trace.location_of(id);
        let at = if location.is_empty() { "" } else { " at " };
        format!("event {} ({thread} {}{blank}{target}{at}{location})", id.0, event.op.word())
    }

    /// The violation of a schedule with an event that is not in the trace.
    #[cold]
    pub fn unknown(&self, id: EventId) -> Violation {
        let detail = match self.next.len() {
            all if all == self.trace.len() => format!("event {} does not exist; the trace has {all} events", id.0),
            end => format!("event {} was not expected; the schedule was to stay before event {end}", id.0),
        };
        Violation::new(ScheduleRule::UnknownEvent, id, detail)
    }

    /// A thread's name, for violations.
    pub fn thread_name(&self, thread: ThreadId) -> &str {
        self.trace.tables.thread_name(thread)
    }
}

/// See [`Facts::ends`].
fn ends(trace: &Trace) -> HashMap<ThreadId, Vec<EventId>> {
    let mut ends: HashMap<ThreadId, Vec<EventId>> = HashMap::new();
    for (_, event) in trace.events_of(&[Op::JoinFail]) {
        if let Action::Probe(Probe::Alive { thread }) = event.action() {
            ends.entry(thread).or_default();
        }
    }
    for (id, event) in trace.events_of(&[Op::End, Op::Join]) {
        let thread = match event.action() {
            Action::Join { thread, .. } => thread,
            _ => event.thread,
        };
        if let Some(ends) = ends.get_mut(&thread) {
            ends.push(id);
        }
    }
    ends
}
