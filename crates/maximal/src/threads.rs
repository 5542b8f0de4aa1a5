//! Which events each thread has, and where in its thread each event stands.

use snag_trace::{EventId, ThreadId, Trace};

/// The events of a trace, thread by thread. A *position* counts the events of one thread from 0; a *count* for
/// each thread says how many of its events are in a set that is closed under thread order.
pub(crate) struct Threads {
    /// Where each thread begins in `events`, and where the last one ends.
    start: Vec<u32>,
    events: Vec<EventId>,
    /// Position of each event in its thread.
    position: Vec<u32>,
    /// Thread of each event.
    thread: Vec<ThreadId>,
}

impl Threads {
    pub fn of(trace: &Trace) -> Threads {
        let thread = trace.events.threads().to_vec();
        let mut counts = vec![0; trace.tables.thread_count()];
        let mut position = Vec::with_capacity(trace.len());
        for thread in &thread {
            let count = &mut counts[thread.index()];
            position.push(*count);
            *count += 1;
        }
        let mut start = vec![0];
        for count in counts {
            start.push(start[start.len() - 1] + count);
        }
        let mut events = vec![EventId(0); trace.len()];
        for (index, thread) in thread.iter().enumerate() {
            events[(start[thread.index()] + position[index]) as usize] = EventId::new(index);
        }
        Threads { start, events, position, thread }
    }

    /// How many threads there are.
    pub fn count(&self) -> usize {
        self.start.len() - 1
    }

    /// The events of a thread.
    #[inline]
    pub fn events(&self, thread: usize) -> &[EventId] {
        &self.events[self.start[thread] as usize..self.start[thread + 1] as usize]
    }

    /// The event of a thread at a position.
    #[inline]
    pub fn event(&self, thread: usize, position: u32) -> EventId {
        self.events[(self.start[thread] + position) as usize]
    }

    /// Where the first `count` events of a thread end in the trace: all of them are smaller, and no other of the thread.
    #[inline]
    pub fn end(&self, thread: usize, count: u32) -> EventId {
        self.events(thread).get(count as usize).copied().unwrap_or(EventId(u32::MAX))
    }

    /// Where an event stands in its thread.
    #[inline]
    pub fn position(&self, event: EventId) -> u32 {
        self.position[event.index()]
    }

    /// The thread of an event.
    #[inline]
    pub fn thread(&self, event: EventId) -> usize {
        self.thread[event.index()].index()
    }

    /// The event before this one in its thread.
    #[inline]
    pub fn previous(&self, event: EventId) -> Option<EventId> {
        let position = self.position(event);
        (position > 0).then(|| self.event(self.thread(event), position - 1))
    }

    /// How many events of a thread come before an event in the trace.
    pub fn count_before(&self, thread: usize, event: EventId) -> u32 {
        self.events(thread).partition_point(|&e| e < event) as u32
    }
}
