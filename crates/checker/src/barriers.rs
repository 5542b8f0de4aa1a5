//! Generations of barriers.
//!
//! Generations fill one after the other, so a number says it all: if *n* threads
//! have entered a barrier, they are the first *n* by generation. An enter needs all
//! earlier generations, a leave its own as well.

use snag_model::{Action, BarrierId, EventId, Op, Space, ThreadId, Trace};
use std::collections::HashMap;

/// One barrier while the trace is followed.
#[derive(Default)]
struct Barrier {
    /// Declared number of parties.
    parties: Option<u64>,
    /// How many have entered.
    entered: u64,
    /// How many had entered when each generation was complete. Without declared
    /// parties only: then a generation is complete when its first thread leaves.
    complete: Vec<u64>,
    /// Threads inside, with their generation.
    inside: HashMap<ThreadId, u64>,
}

/// How many must have entered the barrier before each enter and each leave.
pub(crate) fn enters_needed(trace: &Trace) -> HashMap<EventId, u64> {
    let mut barriers: Vec<Barrier> = Vec::new();
    for id in 0..trace.tables.names(Space::Barrier).len() {
        // Nobody waits at a barrier for none, so it is like one for one.
        let parties = trace.tables.barrier_parties(BarrierId::new(id)).map(|parties| parties.max(1) as u64);
        barriers.push(Barrier { parties, ..Barrier::default() });
    }
    let mut needed = HashMap::new();
    for (id, event) in trace.events_of(&[Op::BarrierEnter, Op::BarrierLeave]) {
        let count = match event.action() {
            Action::BarrierEnter { barrier } => barriers[barrier.index()].enter(event.thread),
            Action::BarrierLeave { barrier } => barriers[barrier.index()].leave(event.thread),
            _ => continue,
        };
        needed.insert(id, count);
    }
    needed
}

impl Barrier {
    /// How many enters of earlier generations there are.
    fn enter(&mut self, thread: ThreadId) -> u64 {
        let (generation, before) = match self.parties {
            Some(parties) => (self.entered / parties, self.entered / parties * parties),
            None => (self.complete.len() as u64, self.complete.last().copied().unwrap_or(0)),
        };
        self.inside.insert(thread, generation);
        self.entered += 1;
        before
    }

    /// How many enters there are up to the generation that the thread belongs to.
    fn leave(&mut self, thread: ThreadId) -> u64 {
        let generation = self.inside.remove(&thread).expect("a well-formed trace leaves what it entered");
        if let Some(parties) = self.parties {
            return (generation + 1) * parties;
        }
        if generation == self.complete.len() as u64 {
            self.complete.push(self.entered);
        }
        self.complete[generation as usize]
    }
}
