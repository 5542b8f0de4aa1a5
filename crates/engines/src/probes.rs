//! What a failed attempt rests on, as it was observed: the acquires by which other threads held the lock, the fork of the
//! thread that had not ended.
//!
//! An attempt comes after these in the orders of happens-before. In another schedule it may rest on other ones; what
//! then makes it fail is for the maximal engines and the checker to know.
//! Cost: one pass over the trace if it has such events, else nothing.

use crate::holds::Holds;
use snag_model::{Action, EventId, LockId, Mode, Op, Ops, Probe, ThreadId, Trace};
use std::collections::HashMap;

/// Per attempt the events that it rests on, by event number.
pub(crate) struct Probes {
    rests_on: HashMap<u32, Vec<u32>>,
}

/// Who holds a lock, how, and by which acquire.
type Holders = HashMap<(LockId, ThreadId), [Option<u32>; 2]>;

impl Probes {
    /// `None` if nothing in the trace rests on the state of a lock or of a thread.
    pub fn of(trace: &Trace) -> Option<Probes> {
        let ops = Ops::of(trace.events.ops());
        if !ops.any(&[Op::TryFail, Op::ReadTryFail, Op::JoinFail]) {
            return None;
        }
        let mut holds = vec![Holds::default(); trace.tables.thread_count()];
        let mut holders: HashMap<LockId, Vec<ThreadId>> = HashMap::new();
        let mut acquires = Holders::new();
        let mut forks = HashMap::new();
        let mut rests_on: HashMap<u32, Vec<u32>> = HashMap::new();
        let locks = [Op::Acquire, Op::Release, Op::ReadAcquire, Op::ReadRelease, Op::WaitBegin, Op::Wake, Op::WaitEnd];
        let needed = Ops::of(&locks).or(Ops::of(&[Op::Fork, Op::TryFail, Op::ReadTryFail, Op::JoinFail]));
        for (number, _) in trace.events.ops().iter().enumerate().filter(|(_, op)| needed.has(**op)) {
            let (number, thread, action) = (number as u32, trace.events.threads()[number], trace.events.action(number));
            match action {
                Action::Fork { thread: child, .. } => drop(forks.insert(child, number)),
                Action::Probe(Probe::Alive { thread: child }) => {
                    rests_on.insert(number, forks.get(&child).copied().into_iter().collect());
                }
                Action::Probe(Probe::Held { lock, mode }) => {
                    let others = holders.get(&lock).into_iter().flatten().filter(|&&other| other != thread);
                    let by = others.flat_map(|&other| {
                        let [exclusive, shared] = acquires[&(lock, other)];
                        [exclusive, shared.filter(|_| mode == Mode::Exclusive)]
                    });
                    rests_on.insert(number, by.flatten().collect());
                }
                _ => {
                    let Some((before, after)) = holds[thread.index()].apply(action) else { continue };
                    let lock = after.lock;
                    let held = acquires.entry((lock, thread)).or_default();
                    for (count, [before, after]) in
                        [[before.exclusive, after.exclusive], [before.shared, after.shared]].into_iter().enumerate()
                    {
                        match (before, after) {
                            (0, 1..) => held[count] = Some(number),
                            (1.., 0) => held[count] = None,
                            _ => {}
                        }
                    }
                    let holders = holders.entry(lock).or_default();
                    match (before.mode(), after.mode()) {
                        (None, Some(_)) => holders.push(thread),
                        (Some(_), None) => holders.retain(|&other| other != thread),
                        _ => {}
                    }
                }
            }
        }
        Some(Probes { rests_on })
    }

    /// The events that an attempt rests on.
    pub fn rests_on(&self, attempt: EventId) -> &[u32] {
        self.rests_on.get(&attempt.0).map_or(&[], Vec::as_slice)
    }

    /// All events that some attempt rests on, ascending.
    pub fn grounds(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.rests_on.values().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
