//! The hard order: what docs/model.md puts before an event in every schedule, whatever values are read and whoever
//! gets a lock first.
//!
//! Thread order, fork, join, the notify of a wake-up, barriers, the alloc of what is accessed, and missing methods.

use crate::maximal::clock::{Builder, Clock};
use crate::maximal::counts::Counts;
use crate::maximal::threads::Threads;
use crate::missing::MissingOrder;
use snag_model::{BarrierId, Cells, EventId, Op, Ops, Space, ThreadId, Trace};
use std::collections::HashMap;

/// Hands a builder, event by event, what the hard order puts before each event.
pub(crate) struct Hard<'t> {
    trace: &'t Trace,
    cells: &'t Cells,
    /// Per thread of the trace.
    fork: Vec<Option<EventId>>,
    barriers: Vec<Barrier>,
    missing: Option<&'t MissingOrder>,
    heap: bool,
}

/// One barrier while the trace is followed.
#[derive(Default)]
struct Barrier {
    parties: Option<u32>,
    entered: u32,
    /// Of each generation, all who entered until it was complete, and what came before them.
    generations: Vec<Counts>,
    inside: HashMap<usize, usize>,
}

impl<'t> Hard<'t> {
    pub fn new(trace: &'t Trace, cells: &'t Cells, threads: &Threads, missing: Option<&'t MissingOrder>) -> Hard<'t> {
        let ops = Ops::of(trace.events.ops());
        let mut barriers = Vec::new();
        for id in 0..trace.tables.names(Space::Barrier).len() {
            let parties = trace.tables.barrier_parties(BarrierId::new(id)).map(|parties| parties.max(1));
            barriers.push(Barrier { parties, generations: vec![Counts::none(threads.count())], ..Barrier::default() });
        }
        let heap = ops.any(&[Op::Alloc]);
        let fork = vec![None; trace.tables.thread_count()];
        Hard { trace, cells, fork, barriers, missing, heap }
    }

    /// The whole order.
    pub fn clock(trace: &'t Trace, cells: &'t Cells, threads: &Threads, missing: Option<&'t MissingOrder>) -> Clock {
        let mut hard = Hard::new(trace, cells, threads, missing);
        let mut builder = Builder::new(threads, trace.len());
        for index in 0..trace.len() {
            let thread = threads.thread(EventId::new(index));
            hard.before(&mut builder, threads, index);
            builder.finish(thread);
            hard.after(&builder, threads, index);
        }
        builder.done()
    }

    /// Joins what comes before an event.
    pub fn before(&mut self, builder: &mut Builder, threads: &Threads, index: usize) {
        let events = &self.trace.events;
        let id = EventId::new(index);
        let (op, thread, of_trace) = (events.ops()[index], threads.thread(id), events.threads()[index]);
        if threads.begins(of_trace, id)
            && let Some(fork) = self.fork[of_trace.index()]
        {
            builder.join_event(thread, fork);
        }
        if self.heap
            && op.touches_memory()
            && let Some(alloc) = self.cells.block_of_event(index)
        {
            builder.join_event(thread, alloc);
        }
        match op {
            Op::Join => {
                let child = ThreadId(events.targets()[index]);
                match threads.last(child) {
                    Some(last) => builder.join_event(thread, last),
                    None => self.fork[child.index()].is_some_and(|fork| builder.join_event(thread, fork)),
                };
            }
            Op::JoinFail => {
                if let Some(fork) = self.fork[events.targets()[index] as usize] {
                    builder.join_event(thread, fork);
                }
            }
            Op::Wake => {
                if let Some(notify) = events.aux(index).checked_sub(1) {
                    builder.join_event(thread, EventId(notify));
                }
            }
            Op::BarrierEnter | Op::BarrierLeave => {
                let barrier = &mut self.barriers[events.targets()[index] as usize];
                let needed = if op == Op::BarrierEnter { barrier.enter(thread) } else { barrier.leave(thread) };
                if let Some(generation) = needed {
                    builder.join(thread, barrier.generations[generation].row());
                }
            }
            _ => {}
        }
        for &earlier in self.missing.map_or(&[][..], |missing| missing.before(index)) {
            builder.join_event(thread, earlier);
        }
    }

    /// Remembers a finished event for those that it comes before.
    pub fn after(&mut self, builder: &Builder, threads: &Threads, index: usize) {
        let events = &self.trace.events;
        let id = EventId::new(index);
        let (op, thread, position) = (events.ops()[index], threads.thread(id), threads.position(id));
        match op {
            Op::Fork => self.fork[events.targets()[index] as usize] = Some(EventId::new(index)),
            Op::BarrierEnter => {
                let barrier = &mut self.barriers[events.targets()[index] as usize];
                let generation = barrier.inside[&thread];
                builder.gather(thread, position, &mut barrier.generations[generation]);
            }
            _ => {}
        }
    }
}

impl Barrier {
    /// The generation that must be complete before this enter.
    fn enter(&mut self, thread: usize) -> Option<usize> {
        if self.parties == Some(self.entered) {
            self.complete();
        }
        self.entered += 1;
        let filling = self.generations.len() - 1;
        self.inside.insert(thread, filling);
        filling.checked_sub(1)
    }

    /// The generation that must be complete before this leave.
    fn leave(&mut self, thread: usize) -> Option<usize> {
        let generation = self.inside.remove(&thread).expect("a well-formed trace leaves what it entered");
        if self.parties.is_none() && generation == self.generations.len() - 1 {
            self.complete();
        }
        Some(generation)
    }

    fn complete(&mut self) {
        let all = self.generations[self.generations.len() - 1].clone();
        self.generations.push(all);
        self.entered = 0;
    }
}
