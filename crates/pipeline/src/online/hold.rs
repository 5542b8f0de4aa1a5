//! A schedule that differs little from what was observed: one thread stops before an access, and with it whoever needs
//! what it would have done next; the others go on as they did.
//!
//! Proves what SHB would: its schedules are these without what nobody needs. What it proposes is for the checker to judge.

use snag_model::{Cells, EventId, LockId, Op, SemId, Space, Trace};
use std::collections::HashMap;

/// How threads hold a lock: thread, exclusively, for reading.
type Holders = Vec<(u32, u32, u32)>;

/// The events after `first` and before `second` that happen while the thread of `first` waits there. `None` if the other
/// thread does not get to `second`.
pub fn hold(trace: &Trace, cells: &Cells, first: EventId, second: EventId) -> Option<Vec<EventId>> {
    let threads = trace.events.threads();
    let mut state = State {
        trace,
        holders: vec![Vec::new(); trace.tables.lock_count()],
        given_up: HashMap::new(),
        semaphores: (0..trace.tables.names(Space::Semaphore).len())
            .map(|id| trace.tables.semaphore_initial(SemId::new(id)))
            .collect(),
    };
    (0..first.index()).for_each(|event| state.execute(event));
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
        let (op, target) = (trace.events.ops()[event], trace.events.targets()[event]);
        let thread = threads[event].index();
        let touched = if op.is_access() { cells.of_event(event, target) } else { 0..0 };
        let stops = || match op {
            Op::Join => stopped[target as usize],
            Op::Wake => {
                let notify = trace.events.aux(event).checked_sub(1).map(|notify| notify as usize);
                notify.is_some_and(|notify| notify >= first.index() && left_out[notify - first.index()])
            }
            Op::BarrierLeave | Op::BarrierEnter => entered_less[target as usize],
            op if op.reads() => {
                touched.clone().any(|cell| writes.get(&cell).is_some_and(|[observed, here]| observed != here))
            }
            _ => !state.can_execute(event),
        };
        let stop = stopped[thread] || unborn[thread] || stops();
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
            stopped[thread] = true;
            left_out[event - first.index()] = true;
            match op {
                Op::Fork => unborn[target as usize] = true,
                Op::BarrierEnter => entered_less[target as usize] = true,
                _ => {}
            }
            continue;
        }
        state.execute(event);
        then.push(EventId::new(event));
    }
    let last = threads[second.index()].index();
    (!stopped[last] && !unborn[last]).then_some(then)
}

struct State<'t> {
    trace: &'t Trace,
    holders: Vec<Holders>,
    /// How often waiting threads held the lock that they gave up.
    given_up: HashMap<(u32, LockId), u32>,
    semaphores: Vec<u32>,
}

impl State<'_> {
    fn can_execute(&self, event: usize) -> bool {
        let (op, target) = (self.trace.events.ops()[event], self.trace.events.targets()[event]);
        let thread = self.trace.events.threads()[event].0;
        let (lock, alone) = match op {
            Op::Acquire => (target, true),
            Op::ReadAcquire => (target, false),
            Op::WaitEnd => (self.trace.events.aux(event), true),
            Op::SemWait => return self.semaphores[target as usize] > 0,
            _ => return true,
        };
        let free = |&(holder, exclusive, shared): &(u32, u32, u32)| {
            holder == thread || exclusive == 0 && (shared == 0 || !alone)
        };
        self.holders[lock as usize].iter().all(free)
    }

    fn execute(&mut self, event: usize) {
        let (op, target) = (self.trace.events.ops()[event], self.trace.events.targets()[event]);
        let thread = self.trace.events.threads()[event].0;
        match op {
            Op::Acquire => self.holder(target, thread).1 += 1,
            Op::Release => self.release(target, thread, |holder| holder.1 = holder.1.saturating_sub(1)),
            Op::ReadAcquire => self.holder(target, thread).2 += 1,
            Op::ReadRelease => self.release(target, thread, |holder| holder.2 = holder.2.saturating_sub(1)),
            Op::WaitBegin => {
                let lock = self.trace.events.aux(event);
                let mut count = 0;
                self.release(lock, thread, |holder| count = std::mem::take(&mut holder.1));
                self.given_up.insert((thread, LockId(lock)), count);
            }
            Op::WaitEnd => {
                let lock = self.trace.events.aux(event);
                let count = self.given_up.remove(&(thread, LockId(lock))).unwrap_or(1);
                self.holder(lock, thread).1 += count;
            }
            Op::SemPost => self.semaphores[target as usize] += 1,
            Op::SemWait => self.semaphores[target as usize] = self.semaphores[target as usize].saturating_sub(1),
            _ => {}
        }
    }

    fn holder(&mut self, lock: u32, thread: u32) -> &mut (u32, u32, u32) {
        let holders = &mut self.holders[lock as usize];
        let at = holders.iter().position(|holder| holder.0 == thread).unwrap_or_else(|| {
            holders.push((thread, 0, 0));
            holders.len() - 1
        });
        &mut holders[at]
    }

    fn release(&mut self, lock: u32, thread: u32, change: impl FnOnce(&mut (u32, u32, u32))) {
        change(self.holder(lock, thread));
        self.holders[lock as usize].retain(|holder| holder.1 + holder.2 > 0);
    }
}
