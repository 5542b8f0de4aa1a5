//! Which events each strand has, and where in its strand each event stands.

use crate::maximal::strands::{NONE, Strands};
use snag_model::{EventId, ThreadId, Trace};

/// The events of a trace, strand by strand. A strand is a thread, or several that live one after the other
/// ([`crate::maximal::strands`]); this crate calls it a thread wherever that makes no difference. A *position* counts the events of
/// one strand from 0; a *count* for each strand says how many of its events are in a set that is closed under thread order.
pub(crate) struct Threads {
    /// Where each strand begins in `events`, and where the last one ends.
    start: Vec<u32>,
    events: Vec<EventId>,
    /// Position of each event in its strand.
    position: Vec<u32>,
    /// Strand of each event.
    strand: Vec<u32>,
    /// Strand, first and last event of each thread of the trace; [`NONE`] if it has no events.
    lives: Vec<Life>,
}

/// Where a thread of the trace is found.
#[derive(Clone, Copy)]
struct Life {
    strand: u32,
    first: u32,
    last: u32,
}

impl Threads {
    pub fn of(trace: &Trace, strands: &Strands) -> Threads {
        let threads = trace.events.threads();
        let life = |&strand: &u32| Life { strand, first: NONE, last: NONE };
        let mut lives: Vec<Life> = strands.of_thread.iter().map(life).collect();
        let mut counts = vec![0; strands.count];
        let mut position = Vec::with_capacity(trace.len());
        let mut strand = Vec::with_capacity(trace.len());
        for (index, thread) in threads.iter().enumerate() {
            let life = &mut lives[thread.index()];
            if life.first == NONE {
                life.first = index as u32;
            }
            life.last = index as u32;
            let count = &mut counts[life.strand as usize];
            strand.push(life.strand);
            position.push(*count);
            *count += 1;
        }
        let mut start = vec![0];
        for count in counts {
            start.push(start[start.len() - 1] + count);
        }
        let mut events = vec![EventId(0); trace.len()];
        for (index, &strand) in strand.iter().enumerate() {
            events[(start[strand as usize] + position[index]) as usize] = EventId::new(index);
        }
        Threads { start, events, position, strand, lives }
    }

    /// How many strands there are.
    pub fn count(&self) -> usize {
        self.start.len() - 1
    }

    /// The events of a strand.
    #[inline]
    pub fn events(&self, thread: usize) -> &[EventId] {
        &self.events[self.start[thread] as usize..self.start[thread + 1] as usize]
    }

    /// The event of a strand at a position.
    #[inline]
    pub fn event(&self, thread: usize, position: u32) -> EventId {
        self.events[(self.start[thread] + position) as usize]
    }

    /// Where the first `count` events of a strand end in the trace: all of them are smaller, and no other of the strand.
    #[inline]
    pub fn end(&self, thread: usize, count: u32) -> EventId {
        self.events(thread).get(count as usize).copied().unwrap_or(EventId(u32::MAX))
    }

    /// Where an event stands in its strand.
    #[inline]
    pub fn position(&self, event: EventId) -> u32 {
        self.position[event.index()]
    }

    /// The strand of an event.
    #[inline]
    pub fn thread(&self, event: EventId) -> usize {
        self.strand[event.index()] as usize
    }

    /// The event before this one in its strand.
    #[inline]
    pub fn previous(&self, event: EventId) -> Option<EventId> {
        let position = self.position(event);
        (position > 0).then(|| self.event(self.thread(event), position - 1))
    }

    /// How many events of a strand come before an event in the trace.
    pub fn count_before(&self, thread: usize, event: EventId) -> u32 {
        self.events(thread).partition_point(|&e| e < event) as u32
    }

    /// Whether an event is the first one of this thread of the trace.
    #[inline]
    pub fn begins(&self, thread: ThreadId, event: EventId) -> bool {
        self.lives[thread.index()].first == event.0
    }

    /// The last event of a thread of the trace.
    pub fn last(&self, thread: ThreadId) -> Option<EventId> {
        Some(self.lives[thread.index()].last).filter(|&last| last != NONE).map(EventId)
    }

    /// For each thread of the trace where its part of a cut ends: all its events before that are in the cut, and no other.
    pub fn ends(&self, cut: &[u32]) -> Vec<EventId> {
        let end = |life: &Life| match life.first {
            NONE => EventId(0),
            first => match cut[life.strand as usize] {
                0 => EventId(0),
                count => Some(EventId(self.event(life.strand as usize, count - 1).0 + 1))
                    .filter(|end| end.0 > first)
                    .map_or(EventId(0), |end| EventId(end.0.min(life.last + 1))),
            },
        };
        self.lives.iter().map(end).collect()
    }
}
