//! A schedule that differs little from what was observed: one thread stops before an access, and with it whoever needs
//! what it would have done next; the others go on as they did.
//!
//! Proves what SHB would: its schedules are these without what nobody needs. What it proposes is for the checker to judge.

use snag_model::{Action, Cells, EventId, LockId, Mode, Probe, SemId, Space, ThreadId, Trace};
use std::collections::HashMap;

/// How threads hold a lock: thread, exclusively, for reading.
type Holders = Vec<(ThreadId, u32, u32)>;

/// The events after `first` and before `second` that happen while the thread of `first` waits there. `None` if the other
/// thread does not get to `second`.
pub fn hold(trace: &Trace, cells: &Cells, first: EventId, second: EventId) -> Option<Vec<EventId>> {
    let threads = trace.events.threads();
    let mut state = State {
        holders: vec![Vec::new(); trace.tables.lock_count()],
        given_up: HashMap::new(),
        semaphores: (0..trace.tables.names(Space::Semaphore).len())
            .map(|id| trace.tables.semaphore_initial(SemId::new(id)))
            .collect(),
    };
    for event in (0..first.0).map(EventId) {
        state.execute(trace.thread_of(event), trace.action(event));
    }
    let mut stopped = vec![false; trace.tables.thread_count()];
    stopped[threads[first.index()].index()] = true;
    // What was left out: events, threads that were not forked, barriers that somebody did not enter.
    let mut left_out = vec![false; second.index() - first.index()];
    let mut unborn = vec![false; stopped.len()];
    let mut entered_less = vec![false; trace.tables.names(Space::Barrier).len()];
    // Per cell its last write since, as observed and in the schedule.
    let mut writes: HashMap<usize, [usize; 2]> = HashMap::new();
    let mut then = Vec::new();
    for event in first.index()..second.index() {
        let (op, action) = (trace.events.ops()[event], trace.action(EventId::new(event)));
        let thread = threads[event];
        let touched = if op.is_access() { cells.touched_by(trace, EventId::new(event)) } else { 0..0 };
        let stops = || match action {
            Action::Join { thread: child, .. } => stopped[child.index()],
            Action::Wake { by, .. } => by.is_some_and(|by| by >= first && left_out[by.index() - first.index()]),
            Action::BarrierLeave { barrier } | Action::BarrierEnter { barrier } => entered_less[barrier.index()],
            _ if op.reads() => {
                touched.clone().any(|cell| writes.get(&cell).is_some_and(|[observed, here]| observed != here))
            }
            Action::Probe(Probe::Alive { thread: child }) => unborn[child.index()],
            action => !state.can_execute(thread, action),
        };
        let stop = stopped[thread.index()] || unborn[thread.index()] || stops();
        if op.writes() {
            for cell in touched {
                let last = writes.entry(cell).or_insert([0, 0]);
                last[0] = event + 1;
                if !stop {
                    last[1] = event + 1;
                }
            }
        }
        if stop {
            stopped[thread.index()] = true;
            left_out[event - first.index()] = true;
            match action {
                Action::Fork { thread: child, .. } => unborn[child.index()] = true,
                Action::BarrierEnter { barrier } => entered_less[barrier.index()] = true,
                _ => {}
            }
            continue;
        }
        state.execute(thread, action);
        then.push(EventId::new(event));
    }
    let last = threads[second.index()].index();
    (!stopped[last] && !unborn[last]).then_some(then)
}

struct State {
    holders: Vec<Holders>,
    /// How often waiting threads held the lock that they gave up.
    given_up: HashMap<(ThreadId, LockId), u32>,
    semaphores: Vec<u32>,
}

impl State {
    fn can_execute(&self, thread: ThreadId, action: Action) -> bool {
        if let Action::SemWait { semaphore } = action {
            return self.semaphores[semaphore.index()] > 0;
        }
        if let Action::Probe(Probe::Count { semaphore, count }) = action {
            return self.semaphores[semaphore.index()] == count;
        }
        if let Action::Probe(Probe::Held { lock, mode }) = action {
            return !self.is_free(thread, lock, mode);
        }
        action.acquired().is_none_or(|(lock, mode)| self.is_free(thread, lock, mode))
    }

    /// Whether a thread can take a lock.
    fn is_free(&self, thread: ThreadId, lock: LockId, mode: Mode) -> bool {
        let free = |&(holder, exclusive, shared): &(ThreadId, u32, u32)| {
            holder == thread || exclusive == 0 && (shared == 0 || mode == Mode::Shared)
        };
        self.holders[lock.index()].iter().all(free)
    }

    fn execute(&mut self, thread: ThreadId, action: Action) {
        match action {
            Action::Acquire { lock, mode: Mode::Exclusive, .. } => self.holder(lock, thread).1 += 1,
            Action::Release { lock, mode: Mode::Exclusive } => {
                self.release(lock, thread, |holder| holder.1 = holder.1.saturating_sub(1))
            }
            Action::Acquire { lock, mode: Mode::Shared, .. } => self.holder(lock, thread).2 += 1,
            Action::Release { lock, mode: Mode::Shared } => {
                self.release(lock, thread, |holder| holder.2 = holder.2.saturating_sub(1))
            }
            Action::WaitBegin { lock, .. } => {
                let mut count = 0;
                self.release(lock, thread, |holder| count = std::mem::take(&mut holder.1));
                self.given_up.insert((thread, lock), count);
            }
            Action::WaitEnd { lock, .. } => {
                let count = self.given_up.remove(&(thread, lock)).unwrap_or(1);
                self.holder(lock, thread).1 += count;
            }
            Action::SemPost { semaphore } => self.semaphores[semaphore.index()] += 1,
            Action::SemWait { semaphore } => {
                let count = &mut self.semaphores[semaphore.index()];
                *count = count.saturating_sub(1);
            }
            _ => {}
        }
    }

    fn holder(&mut self, lock: LockId, thread: ThreadId) -> &mut (ThreadId, u32, u32) {
        let holders = &mut self.holders[lock.index()];
        let at = holders.iter().position(|holder| holder.0 == thread).unwrap_or_else(|| {
            holders.push((thread, 0, 0));
            holders.len() - 1
        });
        &mut holders[at]
    }

    fn release(&mut self, lock: LockId, thread: ThreadId, change: impl FnOnce(&mut (ThreadId, u32, u32))) {
        change(self.holder(lock, thread));
        self.holders[lock.index()].retain(|holder| holder.1 + holder.2 > 0);
    }
}
