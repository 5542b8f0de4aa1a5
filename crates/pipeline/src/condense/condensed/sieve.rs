//! The second pass: what is left.

use super::{Condensed, Private};
use snag_model::events::Events;
use snag_model::ids::*;
use snag_model::op::Op;
use snag_model::places::Places;
use snag_model::tables::Tables;
use snag_model::{Action, Trace};

/// The trace was another one in the second pass.
#[derive(Debug)]
pub struct Changed;

/// Takes accesses to private memory out of a trace, block by block.
pub struct Sieve {
    private: Private,
    places: Places,
    left: Events,
    numbers: Vec<u32>,
    /// Calls of missing methods that each thread is in.
    inside: Vec<u32>,
    /// Threads that have had an event.
    begun: Vec<bool>,
    events: usize,
    changed: bool,
}

impl Sieve {
    /// For the trace of which `private` was found out.
    pub fn new(private: Private) -> Sieve {
        let threads = private.last.len();
        Sieve {
            private,
            places: Places::default(),
            left: Events::new(),
            numbers: Vec::new(),
            inside: vec![0; threads],
            begun: vec![false; threads],
            events: 0,
            changed: false,
        }
    }

    /// The next events. Goes by the columns, as the survey does.
    pub fn block(&mut self, events: &Events, tables: &Tables) {
        debug_assert_eq!(self.events, events.first);
        self.events += events.len();
        self.changed |= tables.thread_count() > self.begun.len() || self.events > self.private.events;
        if self.changed {
            return;
        }
        self.places.know_variables(tables);
        let columns = events.ops().iter().zip(events.threads()).zip(events.targets());
        for (index, ((&op, &thread), &target)) in columns.enumerate() {
            let number = events.first + index;
            let place = self.places.touched(number, op, target, tables);
            if let Some(place) = place
                && op != Op::Free
            {
                let Some(&private) = self.private.places.get(place as usize) else {
                    self.changed = true;
                    return;
                };
                let thread = thread.index();
                if private
                    && self.inside[thread] == 0
                    && self.begun[thread]
                    && self.private.last[thread] != number as u32
                {
                    continue;
                }
            }
            self.keep(events, index, op, thread);
        }
    }

    fn keep(&mut self, events: &Events, index: usize, op: Op, thread: ThreadId) {
        self.begun[thread.index()] = true;
        let inside = &mut self.inside[thread.index()];
        match op {
            Op::MethodBegin => *inside += 1,
            Op::MethodEnd => *inside = inside.saturating_sub(1),
            _ => {}
        }
        let mut event = events.get(index);
        if op == Op::Wake
            && let Action::Wake { condition, by: Some(notify) } = event.action()
        {
            // A notify is no access, so it is still there.
            let by = self.numbers.binary_search(&notify.0).ok().map(EventId::new);
            event = event.doing(Action::Wake { condition, by });
        }
        self.left.push(event);
        self.numbers.push((events.first + index) as u32);
    }

    /// How many events are left so far.
    pub fn left(&self) -> usize {
        self.left.len()
    }

    /// What is left. `tables` are those at the end of the trace.
    pub fn finish(self, tables: Tables) -> Result<Condensed, Changed> {
        let Sieve { private, mut left, numbers, events, changed, .. } = self;
        if changed || events != private.events {
            return Err(Changed);
        }
        if private.has_values {
            left.values_mut();
        }
        Ok(Condensed { trace: Trace { tables, events: left }, numbers, whole: events })
    }
}
