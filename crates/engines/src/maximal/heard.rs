//! How one event of a schedule comes to happen before another: happens-before over a schedule, for one event, with the
//! hand-overs by which the news of it spreads.
//!
//! The rules are those of `docs/order.md`: atomics and fences count as declared, failed attempts not at all. Orders that come from missing methods
//! are left out, so `None` of [`hand_overs`] is a proposal for the checker and no proof.

use snag_model::{Action, BarrierId, Cells, EventId, LockId, MemoryOrder, Mode, SemId, ThreadId, Trace};
use std::collections::HashMap;

/// What one event gives and another takes over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HandOver {
    pub gives: EventId,
    pub takes: EventId,
}

/// By which hand-overs, from the last one back, `first` happens before `second` in a schedule that ends with `second`.
/// `None` if it does not.
pub(crate) fn hand_overs(
    trace: &Trace,
    cells: &Cells,
    schedule: impl IntoIterator<Item = EventId>,
    first: EventId,
    second: EventId,
) -> Option<Vec<HandOver>> {
    let mut heard = Heard::new(trace, cells);
    for event in schedule {
        if event == first {
            heard.threads[trace.thread_of(first).index()].knows = Some(Heard::FIRST_HAND);
        }
        heard.event(event);
    }
    heard.how(trace.thread_of(second))
}

/// Somebody's knowledge: the last of the hand-overs that led to it.
type News = usize;

/// Something that somebody who knew has given.
#[derive(Clone, Copy)]
struct Given {
    by: EventId,
    news: News,
}

#[derive(Clone, Copy, Default)]
struct Thread {
    knows: Option<News>,
    /// What it knew at its last releasing fence.
    fenced: Option<News>,
    /// A hand-over by a read that does not acquire, for an acquiring fence, and what it hands over.
    seen: Option<(HandOver, News)>,
}

#[derive(Default)]
struct Barrier {
    entered: u64,
    /// The first who knew, and how many had entered before.
    first: Option<(u64, Given)>,
    /// How many must have entered before each thread inside may leave.
    needed: HashMap<ThreadId, u64>,
}

struct Heard<'t> {
    trace: &'t Trace,
    cells: &'t Cells,
    /// Each with the one before it.
    hand_overs: Vec<(HandOver, News)>,
    threads: Vec<Thread>,
    exclusive: HashMap<LockId, Given>,
    shared: HashMap<LockId, Given>,
    posted: HashMap<SemId, Given>,
    barriers: HashMap<BarrierId, Barrier>,
    /// What an acquiring read of a cell takes over.
    released: HashMap<usize, Given>,
    /// Notifies and allocations.
    told: HashMap<EventId, News>,
}

impl<'t> Heard<'t> {
    /// Of the thread of the event itself.
    const FIRST_HAND: News = usize::MAX;

    fn new(trace: &'t Trace, cells: &'t Cells) -> Heard<'t> {
        Heard {
            trace,
            cells,
            hand_overs: Vec::new(),
            threads: vec![Thread::default(); trace.tables.thread_count()],
            exclusive: HashMap::new(),
            shared: HashMap::new(),
            posted: HashMap::new(),
            barriers: HashMap::new(),
            released: HashMap::new(),
            told: HashMap::new(),
        }
    }

    /// How a thread has heard of it.
    fn how(&self, thread: ThreadId) -> Option<Vec<HandOver>> {
        let mut news = self.threads[thread.index()].knows?;
        let mut found = Vec::new();
        while news != Self::FIRST_HAND {
            let (hand_over, before) = self.hand_overs[news];
            found.push(hand_over);
            news = before;
        }
        Some(found)
    }

    fn event(&mut self, id: EventId) {
        let thread = self.trace.thread_of(id);
        let action = self.trace.action(id);
        if let Action::Join { thread: child, .. } = action
            && self.threads[thread.index()].knows.is_none()
        {
            // As between the events of one thread, there is nothing that could be different.
            self.threads[thread.index()].knows = self.threads[child.index()].knows;
        }
        if self.threads[thread.index()].knows.is_none()
            && let Some((hand_over, before)) = self.hears(thread, id, action)
        {
            self.hand_overs.push((hand_over, before));
            self.threads[thread.index()].knows = Some(self.hand_overs.len() - 1);
        }
        self.tells(thread, id, action);
    }

    /// What a thread that knows nothing yet takes over by an event.
    fn hears(&mut self, thread: ThreadId, id: EventId, action: Action) -> Option<(HandOver, News)> {
        let from = |given: Given| (HandOver { gives: given.by, takes: id }, given.news);
        let touches = self.trace.events.ops()[id.index()].touches_memory();
        let alloc = self.cells.block_of_event(id.index()).filter(|_| touches);
        if let Some((alloc, &news)) = alloc.and_then(|alloc| Some((alloc, self.told.get(&alloc)?))) {
            return Some(from(Given { by: alloc, news }));
        }
        let given = match action {
            Action::Acquire { lock, mode: Mode::Shared, .. } => self.exclusive.get(&lock).copied(),
            Action::Acquire { lock, .. } | Action::WaitEnd { lock, .. } => {
                self.exclusive.get(&lock).or(self.shared.get(&lock)).copied()
            }
            Action::Wake { by: Some(notify), .. } => self.told.get(&notify).map(|&news| Given { by: notify, news }),
            Action::SemWait { semaphore } => self.posted.get(&semaphore).copied(),
            Action::BarrierEnter { barrier } | Action::BarrierLeave { barrier } => {
                let barrier = self.barriers.get(&barrier)?;
                let (before, given) = barrier.first?;
                barrier.needed.get(&thread).filter(|&&needed| before < needed).map(|_| given)
            }
            Action::AtomicRead { order, .. } | Action::Rmw { order, .. } => {
                let found = self.released_to(id)?;
                if !order.acquires() {
                    self.threads[thread.index()].seen = Some(from(found));
                    return None;
                }
                Some(found)
            }
            Action::Fence { order } if order.acquires() => return self.threads[thread.index()].seen,
            Action::MethodBegin { .. } | Action::MethodEnd { .. } => return self.threads[thread.index()].seen,
            _ => None,
        };
        given.map(from)
    }

    /// What a thread gives by an event.
    fn tells(&mut self, thread: ThreadId, id: EventId, action: Action) {
        let Thread { knows, fenced, .. } = self.threads[thread.index()];
        let given = knows.map(|news| Given { by: id, news });
        match action {
            Action::Write { .. } => self.write(id, None, false),
            Action::AtomicWrite { order, .. } | Action::Rmw { order, .. } => {
                let own = given.filter(|_| order.releases());
                let own = own.or(fenced.map(|news| Given { by: id, news }));
                self.write(id, own, matches!(action, Action::Rmw { .. }));
            }
            Action::Fence { order } => self.fence(thread, order),
            Action::MethodBegin { .. } | Action::MethodEnd { .. } => self.fence(thread, MemoryOrder::AcqRel),
            Action::BarrierEnter { barrier } => self.enter(thread, barrier, given),
            Action::Fork { thread: child, .. } => {
                self.threads[child.index()].knows = knows;
            }
            Action::Notify { .. } | Action::NotifyAll { .. } | Action::Alloc { .. } => {
                self.told.extend(knows.map(|news| (id, news)));
            }
            Action::SemPost { semaphore } => {
                if let Some(given) = given {
                    self.posted.entry(semaphore).or_insert(given);
                }
            }
            action => {
                if let (Some((lock, mode)), Some(given)) = (action.released(), given) {
                    let given_back = if mode == Mode::Shared { &mut self.shared } else { &mut self.exclusive };
                    given_back.entry(lock).or_insert(given);
                }
            }
        }
    }

    fn enter(&mut self, thread: ThreadId, barrier: BarrierId, given: Option<Given>) {
        let Some(parties) = self.trace.tables.barrier_parties(barrier).filter(|&parties| parties > 0) else { return };
        let parties = u64::from(parties);
        let barrier = self.barriers.entry(barrier).or_default();
        if barrier.first.is_none() {
            barrier.first = given.map(|given| (barrier.entered, given));
        }
        barrier.needed.insert(thread, (barrier.entered / parties + 1) * parties);
        barrier.entered += 1;
    }

    fn fence(&mut self, thread: ThreadId, order: MemoryOrder) {
        if order.releases() {
            let thread = &mut self.threads[thread.index()];
            thread.fenced = thread.knows;
        }
    }

    /// What an acquiring read takes over now.
    fn released_to(&self, id: EventId) -> Option<Given> {
        let mut cells = self.cells.touched_by(self.trace, id);
        cells.find_map(|cell| self.released.get(&cell).copied())
    }

    /// A write that releases something or not. A read-modify-write goes on with the release sequence of what it read.
    fn write(&mut self, id: EventId, given: Option<Given>, goes_on: bool) {
        for cell in self.cells.touched_by(self.trace, id) {
            match given {
                Some(given) => _ = self.released.insert(cell, given),
                None if !goes_on => _ = self.released.remove(&cell),
                None => {}
            }
        }
    }
}
