//! Happens-before as it would be if every atomic access were sequentially consistent: what separates races by memory
//! order from all others.

use crate::clocks::{Clocks, Time};
use crate::happens_before::run::{Kind, Sections};
use crate::sync::Sync;
use snag_model::events::Event;
use snag_model::{Cells, EventId, Op, ThreadId, Trace};

/// The clocks of one pass. It goes as far as somebody asks, and where plain accesses order nothing it looks at none.
pub(crate) struct Strong<'t> {
    trace: &'t Trace,
    cells: &'t Cells,
    clocks: Clocks,
    sync: Sync,
    /// How many events it has looked at.
    done: usize,
    /// Plain accesses to variables that were never written atomically order nothing.
    simple: bool,
}

impl<'t> Strong<'t> {
    pub fn new(trace: &'t Trace, cells: &'t Cells, sections: Sections) -> Strong<'t> {
        let sync = sections.of(Sync::strong(trace, cells));
        let simple = cells.are_variables() && !sync.has_methods();
        Strong { trace, cells, clocks: Clocks::new(trace.tables.thread_count()), sync, done: 0, simple }
    }

    /// Looks at all events up to one.
    pub fn advance(&mut self, last: EventId) {
        let events = &self.trace.events;
        for number in self.done..=last.index() {
            let (op, target) = (events.ops()[number], events.targets()[number]);
            if self.simple {
                // Reads need not be looked at anyway; but which of the two comes next is hard to predict.
                if op.is_plain_access() && !self.sync.is_released(target as usize) {
                    continue;
                }
                if op == Op::Join {
                    // Who joins it comes after its accesses, even if it has done nothing else.
                    self.clocks.slot(ThreadId(target));
                }
            }
            self.event(number, &events.without_values(number));
        }
        self.done = self.done.max(last.index() + 1);
        self.clocks.slot(self.trace.thread_of(last));
    }

    fn event(&mut self, number: usize, event: &Event) {
        let Strong { trace, cells, clocks, sync, .. } = self;
        let (slot, time) = (clocks.slot(event.thread), number as Time + 1);
        sync.enter_event(clocks, slot, number);
        if Kind::of(event.op).is_none() {
            sync.event(clocks, slot, number, event);
        } else if sync.orders_accesses() {
            sync.before_touch(clocks, slot, number, cells);
            let touched = cells.touched_by(trace, EventId::new(number));
            touched.clone().for_each(|cell| sync.before_access(clocks, slot, event, cell));
            touched.for_each(|cell| sync.after_access(clocks, slot, time, event, cell));
        }
        sync.leave_event(clocks, slot, time);
        if clocks.wants_collection() {
            clocks.collect(sync.root_count(), |mark| sync.roots(mark));
        }
    }

    /// How many of some events, given by ascending times and each known to whoever knows a later one, come before the one
    /// that was done last.
    pub fn ordered(&self, last: EventId, times: &[Time]) -> usize {
        let slot_of = |event: EventId| self.clocks.slot_if_seen(self.trace.thread_of(event));
        let slot = slot_of(last).expect("it has come that far");
        // Of a thread that has done nothing but plain accesses, nobody knows.
        let knows = |&time: &Time| slot_of(EventId(time - 1)).is_some_and(|of| self.clocks.knows(slot, of, time));
        times.partition_point(knows)
    }
}
