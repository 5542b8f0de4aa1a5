//! Stretches of a trace to which questions are confined.

use crate::maximal::lower::Lowered;
use snag_model::EventId;

/// Windows of a fixed number of events of a trace, in the numbers of the trace that was made of it.
pub struct Windows {
    /// Where each of them begins, from event 0 on.
    starts: Vec<EventId>,
    /// How many events there are.
    events: usize,
}

impl Windows {
    /// Windows of so many events of the original. What was added belongs to the window of the event before it.
    pub fn of_original(lowered: &Lowered, size: usize) -> Windows {
        let starts = (0..lowered.original_len()).step_by(size.max(1));
        let starts = starts.map(|start| if start == 0 { EventId(0) } else { lowered.event(EventId::new(start)) });
        Windows { starts: starts.collect(), events: lowered.trace().len() }
    }

    /// Windows of so many events of a trace of this length, which was not made of another one.
    pub fn every(size: usize, events: usize) -> Windows {
        Windows { starts: (0..events).step_by(size.max(1)).map(EventId::new).collect(), events }
    }

    /// Where the window of an event begins and ends.
    pub fn of(&self, event: EventId) -> (EventId, EventId) {
        let next = self.starts.partition_point(|&start| start <= event);
        let begin = next.checked_sub(1).map_or(EventId(0), |at| self.starts[at]);
        (begin, self.starts.get(next).copied().unwrap_or(EventId::new(self.events)))
    }
}
