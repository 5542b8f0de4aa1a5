//! A proposal: what the solver's assignment says a schedule looks like, for the next run to try.

use crate::maximal::index::Index;
use crate::maximal::memory::Source;
use snag_model::EventId;
use std::collections::HashMap;

#[derive(Default)]
pub(crate) struct Proposal {
    /// Events that are to happen.
    pub included: Vec<EventId>,
    /// Per thread how many events may happen.
    pub most: Vec<u32>,
    /// Branches that go the other way; only where values are symbolic.
    pub diverging: Vec<EventId>,
    /// The second event before the first; sorted once all are known.
    edges: Vec<(EventId, EventId)>,
    /// What reads are to see, where the solver has said.
    chosen: HashMap<(EventId, usize), Source>,
    has_edge: Bits,
    has_choice: Bits,
}

/// One bit per event, so that the many events about which nothing is proposed cost one look.
#[derive(Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn get(&self, event: EventId) -> bool {
        self.0[event.index() / 64] >> (event.index() % 64) & 1 == 1
    }

    fn set(&mut self, event: EventId) {
        self.0[event.index() / 64] |= 1 << (event.index() % 64);
    }

    fn unset(&mut self, event: EventId) {
        self.0[event.index() / 64] &= !(1 << (event.index() % 64));
    }
}

impl Proposal {
    pub fn new(index: &Index) -> Proposal {
        let bits = || Bits(vec![0; index.trace.len().div_ceil(64)]);
        Proposal { has_edge: bits(), has_choice: bits(), ..Proposal::default() }
    }

    /// Nothing but how many events of each thread may happen.
    pub fn reset(&mut self, most: &[u32]) {
        self.included.clear();
        self.diverging.clear();
        for (second, _) in self.edges.drain(..) {
            self.has_edge.unset(second);
        }
        for ((read, _), _) in self.chosen.drain() {
            self.has_choice.unset(read);
        }
        self.most.clear();
        self.most.extend_from_slice(most);
    }

    /// One event comes before another.
    pub fn order(&mut self, first: EventId, second: EventId) {
        self.edges.push((second, first));
        self.has_edge.set(second);
    }

    /// A read sees this in a cell.
    pub fn choose(&mut self, read: EventId, cell: usize, source: Source) {
        self.chosen.insert((read, cell), source);
        self.has_choice.set(read);
    }

    /// An event does not happen, nor does what must follow it.
    pub fn exclude(&mut self, index: &Index, event: EventId) {
        for (thread, most) in self.most.iter_mut().enumerate() {
            *most = (*most).min(index.saturated.first_after(&index.threads, event, thread));
        }
    }

    /// Nothing more will be said: what is ordered after something that does not happen does not happen either.
    pub fn complete(&mut self, index: &Index) {
        let mut changed = true;
        while changed {
            changed = false;
            for at in 0..self.edges.len() {
                let (second, first) = self.edges[at];
                if !self.may(index, first) && self.may(index, second) {
                    self.exclude(index, second);
                    changed = true;
                }
            }
        }
        self.edges.sort_unstable();
    }

    /// Whether an event may happen.
    #[inline]
    pub fn may(&self, index: &Index, event: EventId) -> bool {
        index.threads.position(event) < self.most[index.threads.thread(event)]
    }

    /// The events that are to come before an event.
    #[inline]
    pub fn before(&self, event: EventId) -> impl Iterator<Item = EventId> {
        let edges = match self.has_edge.get(event) {
            true => &self.edges[self.edges.partition_point(|edge| edge.0 < event)..],
            false => &[],
        };
        edges.iter().take_while(move |edge| edge.0 == event).map(|edge| edge.1)
    }

    /// Whether the solver has said what a read is to see, in some cell.
    #[inline]
    pub fn has_choice(&self, read: EventId) -> bool {
        self.has_choice.get(read)
    }

    /// What a read is to see in a cell, if the solver has said.
    #[inline]
    pub fn choice(&self, read: EventId, cell: usize) -> Option<Source> {
        match self.has_choice(read) {
            true => self.chosen.get(&(read, cell)).copied(),
            false => None,
        }
    }
}
