//! Happens-before over a schedule, for races by memory order.
//!
//! Guarantee: [`News::of`] has reached an event iff the event that it is the news of happens before it by the rules of
//! C++20, as `docs/order.md` has them: by thread order, threads, locks, conditions, semaphores, barriers, allocations,
//! missing methods, and by atomics and fences *as their declared orders say*. An attempt that fails synchronises with
//! nothing. What the schedule makes each read see counts, not what it saw in the trace.
//!
//! One question is about one event only, so there are no clocks: whoever knows of it is marked, and so is every object
//! that hands on what somebody who knows of it has released.
//!
//! Cost: a few look-ups for each event of the schedule; memory for each thread, and for each object that carries the news.

use crate::facts::Facts;
use snag_model::{Action, BarrierId, EventId, LockId, MemoryOrder, Mode, SemId};
use std::collections::{HashMap, HashSet};

/// Who knows of an event.
pub(crate) struct News<'f> {
    facts: &'f Facts<'f>,
    /// The event that it is the news of.
    of: EventId,
    threads: Vec<Thread>,
    /// Locks given back by somebody who knew, alone or as a reader.
    exclusive: HashSet<LockId>,
    shared: HashSet<LockId>,
    posted: HashSet<SemId>,
    barriers: HashMap<BarrierId, Barrier>,
    /// Cells where an acquiring read gets to know.
    released: HashSet<usize>,
    /// Notifies and allocations by somebody who knew.
    told: HashSet<EventId>,
    /// All events by somebody who knew, if missing methods order events of any kind.
    reached: HashSet<EventId>,
}

#[derive(Clone, Copy, Default)]
struct Thread {
    knows: bool,
    /// It knew at its last releasing fence.
    fenced: bool,
    /// It has read, without acquiring, where an acquiring read would have got to know.
    has_read: bool,
}

#[derive(Clone, Copy, Default)]
struct Barrier {
    /// How many have entered.
    entered: u64,
    /// How many had entered before the first that knew.
    first: Option<u64>,
}

impl<'f> News<'f> {
    /// Before the first event of a schedule.
    pub fn of(facts: &'f Facts<'f>, event: EventId) -> News<'f> {
        News {
            facts,
            of: event,
            threads: vec![Thread::default(); facts.first.len()],
            exclusive: HashSet::new(),
            shared: HashSet::new(),
            posted: HashSet::new(),
            barriers: HashMap::new(),
            released: HashSet::new(),
            told: HashSet::new(),
            reached: HashSet::new(),
        }
    }

    /// The next event of a schedule that is feasible so far. Whether the news had reached it: whether what it is the news
    /// of happens before it.
    pub fn step(&mut self, id: EventId) -> bool {
        let op = self.facts.trace.events.ops()[id.index()];
        let thread = self.facts.trace.thread_of(id).index();
        let action = self.facts.trace.action(id);
        if let Some(missing) = &self.facts.missing {
            self.threads[thread].knows |= missing.before(id).iter().any(|before| self.reached.contains(before));
        }
        if self.facts.heap.is_some() && op.touches_memory() {
            let alloc = self.facts.cells.block_of_event(id.index());
            self.threads[thread].knows |= alloc.is_some_and(|alloc| self.told.contains(&alloc));
        }
        self.hear(thread, id, action);
        let reached = self.threads[thread].knows;
        self.threads[thread].knows |= id == self.of;
        if self.facts.missing.is_some() && self.threads[thread].knows {
            self.reached.insert(id);
        }
        self.tell(thread, id, action);
        reached
    }

    /// What a thread gets to know by an event.
    fn hear(&mut self, thread: usize, id: EventId, action: Action) {
        let knows = match action {
            Action::Acquire { lock, mode: Mode::Exclusive, .. } | Action::WaitEnd { lock, .. } => {
                self.exclusive.contains(&lock) || self.shared.contains(&lock)
            }
            Action::Acquire { lock, mode: Mode::Shared, .. } => self.exclusive.contains(&lock),
            Action::Join { thread: child, .. } => self.threads[child.index()].knows,
            Action::Wake { by: Some(notify), .. } => self.told.contains(&notify),
            Action::SemWait { semaphore } => self.posted.contains(&semaphore),
            Action::BarrierEnter { barrier } | Action::BarrierLeave { barrier } => {
                // Generations fill one after the other, so those that count are the first ones.
                let first = self.barriers.get(&barrier).and_then(|barrier| barrier.first);
                first.is_some_and(|first| first < self.facts.enters_needed[&id])
            }
            Action::AtomicRead { order, .. } | Action::Rmw { order, .. } => {
                let carried = self.is_released(id);
                self.threads[thread].has_read |= carried;
                carried && order.acquires()
            }
            Action::Fence { order } => order.acquires() && self.threads[thread].has_read,
            // It may fail for no reason, so nobody learns anything by it.
            Action::Probe(_) => false,
            // Code that was not observed may hold fences.
            Action::MethodBegin { .. } | Action::MethodEnd { .. } => self.threads[thread].has_read,
            Action::Read { .. }
            | Action::Write { .. }
            | Action::AtomicWrite { .. }
            | Action::Release { .. }
            | Action::Fork { .. }
            | Action::Begin
            | Action::End
            | Action::WaitBegin { .. }
            | Action::Wake { by: None, .. }
            | Action::Notify { .. }
            | Action::NotifyAll { .. }
            | Action::SemPost { .. }
            | Action::Alloc { .. }
            | Action::Free { .. }
            | Action::Reach { .. }
            | Action::Branch { .. }
            | Action::Let { .. }
            | Action::Fault(_)
            | Action::Mark { .. }
            | Action::Else(_) => false,
        };
        self.threads[thread].knows |= knows;
    }

    /// What a thread hands on by an event.
    fn tell(&mut self, thread: usize, id: EventId, action: Action) {
        let Thread { knows, fenced, .. } = self.threads[thread];
        match action {
            Action::Write { .. } => self.write(id, false, false),
            Action::AtomicWrite { order, .. } => self.write(id, fenced || knows && order.releases(), false),
            Action::Rmw { order, .. } => self.write(id, fenced || knows && order.releases(), true),
            Action::Fence { order } => self.fence(thread, order),
            Action::MethodBegin { .. } | Action::MethodEnd { .. } => self.fence(thread, MemoryOrder::AcqRel),
            Action::BarrierEnter { barrier } => {
                let barrier = self.barriers.entry(barrier).or_default();
                if knows && barrier.first.is_none() {
                    barrier.first = Some(barrier.entered);
                }
                barrier.entered += 1;
            }
            _ if !knows => {}
            Action::Release { lock, mode: Mode::Exclusive } | Action::WaitBegin { lock, .. } => {
                self.exclusive.insert(lock);
            }
            Action::Release { lock, mode: Mode::Shared } => {
                self.shared.insert(lock);
            }
            Action::Fork { thread: child, .. } => {
                self.threads[child.index()].knows = true;
            }
            Action::Notify { .. } | Action::NotifyAll { .. } | Action::Alloc { .. } => {
                self.told.insert(id);
            }
            Action::SemPost { semaphore } => {
                self.posted.insert(semaphore);
            }
            Action::Read { .. }
            | Action::AtomicRead { .. }
            | Action::Acquire { .. }
            | Action::Join { .. }
            | Action::Begin
            | Action::End
            | Action::Wake { .. }
            | Action::WaitEnd { .. }
            | Action::SemWait { .. }
            | Action::Probe(_)
            | Action::BarrierLeave { .. }
            | Action::Free { .. }
            | Action::Reach { .. }
            | Action::Branch { .. }
            | Action::Let { .. }
            | Action::Fault(_)
            | Action::Mark { .. }
            | Action::Else(_) => {}
        }
    }

    fn fence(&mut self, thread: usize, order: MemoryOrder) {
        if order.releases() {
            self.threads[thread].fenced = self.threads[thread].knows;
        }
    }

    /// Whether an acquiring read of one of an event's cells gets to know now.
    fn is_released(&self, id: EventId) -> bool {
        !self.released.is_empty()
            && self.facts.cells.touched_by(self.facts.trace, id).any(|cell| self.released.contains(&cell))
    }

    /// A write that releases the news or not. An rmw goes on with the release sequence of what it read.
    fn write(&mut self, id: EventId, releases: bool, goes_on: bool) {
        if !releases && (goes_on || self.released.is_empty()) {
            return;
        }
        for cell in self.facts.cells.touched_by(self.facts.trace, id) {
            match releases {
                true => self.released.insert(cell),
                false => self.released.remove(&cell),
            };
        }
    }
}
