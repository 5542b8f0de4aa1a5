//! The state of synchronisation while a schedule runs: what an operation needs of it, and what it changes.
//!
//! | kept here | needed by |
//! |---|---|
//! | how far each thread has come | fork, join, notify, barriers, missing methods: the clock of the index says what they wait for |
//! | who holds which lock, in which section | acquires, waits that end, failed attempts |
//! | what semaphores count | waits on semaphores, looks at their count |
//! | when notifies happened and waits began | wake-ups |
//! | nothing more: blocks live from their alloc to their free | accesses to the heap |
//!
//! What memory holds is for the semantics of values to know ([`crate::maximal::semantics`]).

use crate::maximal::index::Index;
use crate::maximal::sections::SectionId;
use snag_model::{Action, EventId, Mode, Op, Probe};
use std::collections::HashMap;

/// A rule that an operation would break if it happened now.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Obstacle {
    /// Another thread is in a section on the lock.
    Lock { holder: SectionId, wanted: SectionId },
    /// The semaphore is at zero.
    Semaphore,
    /// The notify that a wake-up names came before its wait. No other will come.
    Notify,
    /// An attempt failed in the trace, and nobody holds the lock.
    Unheld,
    /// The semaphore counts so much, and not what it did in the trace.
    Count { found: i64 },
    /// An attempt to join a thread failed in the trace, and the thread has ended.
    Ended { end: EventId },
    /// The block was freed.
    Freed { free: EventId },
    /// The block was not allocated yet.
    Unallocated { alloc: EventId },
}

/// What an operation has changed for threads that wait.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Change {
    /// A lock was given back.
    Lock,
    /// A semaphore was posted to.
    Semaphore,
    /// A lock was taken, or a semaphore waited on: some failed attempts rest on that.
    Taken,
}

pub(crate) struct State<'i> {
    index: &'i Index<'i>,
    /// Per thread how many events have happened.
    pub done: Vec<u32>,
    /// Per lock the section that holds it for writing, and those that hold it for reading; and which locks to reset.
    exclusive: Vec<Option<SectionId>>,
    shared: Vec<Vec<SectionId>>,
    touched: Vec<usize>,
    semaphores: Vec<i64>,
    /// When notifies happened and the wait of each thread began.
    notified: HashMap<EventId, u32>,
    waiting_since: Vec<Option<u32>>,
    time: u32,
}

impl<'i> State<'i> {
    pub fn new(index: &'i Index<'i>) -> State<'i> {
        let locks = index.trace.tables.lock_count();
        State {
            index,
            done: Vec::new(),
            exclusive: vec![None; locks],
            shared: vec![Vec::new(); locks],
            touched: Vec::new(),
            semaphores: Vec::new(),
            notified: HashMap::new(),
            waiting_since: Vec::new(),
            time: 0,
        }
    }

    /// As it was in the trace before an event.
    pub fn reset(&mut self, base: EventId) {
        let Index { threads, sections, semaphores, .. } = self.index;
        for lock in self.touched.drain(..) {
            self.exclusive[lock] = None;
            self.shared[lock].clear();
        }
        self.done.clear();
        self.done.extend((0..threads.count()).map(|thread| threads.count_before(thread, base)));
        for thread in (0..threads.count()).filter(|_| base > EventId(0)) {
            for &hold in sections.held(thread, self.done[thread]) {
                self.take(sections.open(threads, thread, hold, self.done[thread]));
            }
        }
        self.semaphores.clear();
        for semaphore in semaphores {
            let before = |events: &[EventId]| events.partition_point(|&event| event < base) as i64;
            self.semaphores.push(semaphore.initial as i64 + before(&semaphore.posts) - before(&semaphore.waits));
        }
        self.notified.clear();
        self.waiting_since.clear();
        self.waiting_since.resize(threads.count(), None);
        self.time = 0;
    }

    /// The sections that threads are in.
    pub fn held(&self) -> impl Iterator<Item = SectionId> {
        let of_lock = |&lock: &usize| self.exclusive[lock].into_iter().chain(self.shared[lock].iter().copied());
        self.touched.iter().flat_map(of_lock)
    }

    #[inline]
    pub fn happened(&self, event: EventId) -> bool {
        self.done[self.index.threads.thread(event)] > self.index.threads.position(event)
    }

    /// Another thread, and how many of its events must have happened before the next event of a thread and have not.
    #[inline]
    pub fn awaits(&self, event: EventId, thread: usize) -> Option<(usize, u32)> {
        let Index { threads, saturated, .. } = self.index;
        if !saturated.meets_others(threads, event) {
            return None;
        }
        // What comes before its predecessor has happened.
        let earlier = threads.previous(event).map(|previous| saturated.row(previous));
        saturated.row(event).first_above(earlier, thread, &self.done)
    }

    /// What the next event of a thread has to wait for, if it does this.
    #[inline]
    pub fn obstacle(&self, event: EventId, thread: usize, op: Op) -> Option<Obstacle> {
        match op {
            Op::Acquire | Op::ReadAcquire | Op::WaitEnd => {
                let wanted = self.index.sections.of_event(event)?;
                self.holder_against(wanted).map(|holder| Obstacle::Lock { holder, wanted })
            }
            Op::SemWait => (self.semaphores[self.target(event)] <= 0).then_some(Obstacle::Semaphore),
            Op::TryFail | Op::ReadTryFail | Op::SemValue | Op::JoinFail => self.unlike_observed(event, thread),
            Op::Wake => (!self.is_notified(event, thread)).then_some(Obstacle::Notify),
            _ => None,
        }
    }

    /// Whether an access is outside the life of its block: no use waiting. Those of the trace come after the alloc in
    /// any case.
    #[inline]
    pub fn outside_block(&self, access: EventId) -> Option<Obstacle> {
        let index = self.index;
        if let Some(free) = index.free_of(access).filter(|&free| self.happened(free)) {
            return Some(Obstacle::Freed { free });
        }
        if !index.op(access).on_other_side() {
            return None;
        }
        let alloc = index.cells.block_of_event(access.index()).filter(|&alloc| !self.happened(alloc))?;
        Some(Obstacle::Unallocated { alloc })
    }

    /// The next event of a thread happens and does this.
    #[inline]
    pub fn perform(&mut self, event: EventId, thread: usize, op: Op) -> Option<Change> {
        self.done[thread] += 1;
        self.time += 1;
        match op {
            Op::Acquire | Op::ReadAcquire | Op::WaitEnd => {
                if let Some(section) = self.index.sections.of_event(event) {
                    self.take(section);
                }
                Some(Change::Taken)
            }
            Op::Release | Op::ReadRelease | Op::WaitBegin => {
                if op == Op::WaitBegin {
                    self.waiting_since[thread] = Some(self.time);
                }
                self.release(self.index.sections.of_event(event)?);
                Some(Change::Lock)
            }
            Op::SemWait | Op::SemPost => {
                let target = self.target(event);
                self.semaphores[target] += if op == Op::SemPost { 1 } else { -1 };
                Some(if op == Op::SemPost { Change::Semaphore } else { Change::Taken })
            }
            Op::Notify | Op::NotifyAll => {
                self.notified.insert(event, self.time);
                None
            }
            _ => None,
        }
    }

    fn target(&self, event: EventId) -> usize {
        self.index.trace.events.targets()[event.index()] as usize
    }

    /// A section of another thread that keeps this one from beginning.
    fn holder_against(&self, wanted: SectionId) -> Option<SectionId> {
        let sections = &self.index.sections;
        let section = sections.get(wanted);
        let other = |&holder: &SectionId| sections.get(holder).thread != section.thread;
        let exclusive = self.exclusive[section.lock.index()].filter(other);
        exclusive.or_else(|| match section.shared {
            true => None,
            false => self.shared[section.lock.index()].iter().copied().find(|holder| other(holder)),
        })
    }

    /// What keeps a failed attempt from failing again.
    fn unlike_observed(&self, attempt: EventId, thread: usize) -> Option<Obstacle> {
        let Action::Probe(probe) = self.index.trace.action(attempt) else { return None };
        match probe {
            Probe::Held { lock, mode } => {
                let sections = &self.index.sections;
                let other = |&holder: &SectionId| sections.get(holder).thread != thread;
                let shared = self.shared[lock.index()].iter().filter(|_| mode == Mode::Exclusive);
                let mut holders = self.exclusive[lock.index()].iter().chain(shared);
                (!holders.any(other)).then_some(Obstacle::Unheld)
            }
            Probe::Count { semaphore, count } => {
                let found = self.semaphores[semaphore.index()];
                (found != i64::from(count)).then_some(Obstacle::Count { found })
            }
            Probe::Alive { thread } => {
                let end = self.index.ends_of(thread).iter().find(|&&end| self.happened(end));
                end.map(|&end| Obstacle::Ended { end })
            }
        }
    }

    /// Whether the notify that a wake-up names came after its wait had begun. It has happened.
    fn is_notified(&self, wake: EventId, thread: usize) -> bool {
        let Some(named) = self.index.wakes.get(&wake) else { return true };
        match (self.waiting_since[thread], self.notified.get(&named.notify)) {
            (Some(since), Some(&when)) => since < when,
            // Began before what is reordered.
            (None, _) => true,
            (Some(_), None) => false,
        }
    }

    fn take(&mut self, section: SectionId) {
        let held = self.index.sections.get(section);
        self.touched.push(held.lock.index());
        match held.shared {
            true => self.shared[held.lock.index()].push(section),
            false => self.exclusive[held.lock.index()] = Some(section),
        }
    }

    fn release(&mut self, section: SectionId) {
        let held = self.index.sections.get(section);
        match held.shared {
            true => self.shared[held.lock.index()].retain(|&other| other != section),
            false => {
                let holder = &mut self.exclusive[held.lock.index()];
                // After a rule was broken another one may hold it.
                if *holder == Some(section) {
                    *holder = None;
                }
            }
        }
    }
}
