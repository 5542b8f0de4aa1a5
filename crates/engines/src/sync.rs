//! The happens-before edges of everything but plain accesses (docs/model.md).
//!
//! Each synchronisation object keeps the clock its next partner takes over: by
//! reference to the publishing thread's row where one thread published last
//! (locks, notifies, atomic stores, allocations), gathered in a row of its own where
//! several did (readers, semaphores, barriers, chains of read-modify-writes).

use crate::clocks::{Clocks, Slot, Stamp, Time};
use crate::missing::clocks::Methods;
use crate::probes::Probes;
use snag_model::events::Event;
use snag_model::{Action, BarrierId, Cells, EventId, LockId, MemoryOrder, Mode, Op, Probe, SemId, ThreadId, Trace};

/// Synchronisation clocks of one pass over a trace.
pub(crate) struct Sync {
    locks: Vec<Lock>,
    /// Row that gathers all posts of a semaphore; 0 before the first.
    semaphores: Vec<u32>,
    barriers: Vec<Barrier>,
    /// Notifies by event number, ascending.
    notifies: Vec<(u32, Stamp)>,
    /// What each thread knew at its end, once that is known.
    finals: Vec<Option<Stamp>>,
    /// Empty unless the trace has heap blocks.
    heap: Heap,
    /// What the last writes of each cell have released. Empty unless the trace has atomics.
    released: Vec<Released>,
    /// What each thread's fences have done. Empty unless the trace has some.
    fences: Vec<Fences>,
    /// Every atomic access counts as sequentially consistent.
    strong: bool,
    /// Critical sections order nothing: other schedules may have them the other way round.
    ignores_locks: bool,
    methods: Option<Methods>,
    /// Failed attempts come after what they rest on. By the standards they synchronise with nothing.
    attempts: bool,
    /// What failed attempts rest on. `None` unless the trace has any that count.
    grounds: Option<Grounds>,
    /// Row that gathers all that posts and waits of a semaphore know; 0 before the first. Empty unless threads look at
    /// counts.
    counted: Vec<u32>,
}

/// The events that failed attempts rest on.
struct Grounds {
    probes: Probes,
    /// The events (ascending), and what their threads knew.
    stamps: Vec<(u32, Stamp)>,
}

#[derive(Clone, Copy)]
struct Lock {
    released: Stamp,
    /// Row that gathers the read-releases since the last acquire; 0 if none.
    readers: u32,
}

#[derive(Default)]
struct Barrier {
    parties: Option<u32>,
    /// Generation that is filling and how many have entered it.
    filling: u64,
    entered: u32,
    /// Rows that gather the enters of a generation; the older ones only as long as somebody is inside.
    generations: Vec<Generation>,
    /// Threads inside with their generation.
    inside: Vec<(ThreadId, u64)>,
}

struct Generation {
    number: u64,
    row: u32,
}

/// What an acquiring read of a cell takes over.
#[derive(Clone, Copy)]
enum Released {
    Nothing,
    By(Stamp),
    /// Several released it in a chain of read-modify-writes.
    Chain(u32),
}

/// What fences make of the atomic accesses of a thread.
#[derive(Clone, Copy)]
struct Fences {
    /// Its last releasing fence: what every atomic write after it releases.
    released: Stamp,
    /// Row that gathers what its reads saw that do not acquire, for an acquiring fence; 0 before the first.
    seen: u32,
}

#[derive(Default)]
struct Heap {
    /// Allocating event (ascending) and its stamp.
    blocks: Vec<(u32, Stamp)>,
}

impl Sync {
    pub fn new(trace: &Trace, cells: &Cells) -> Sync {
        Sync::of(trace, cells, true)
    }

    /// Only what synchronises by the standards: failed attempts do not.
    pub fn declared(trace: &Trace, cells: &Cells) -> Sync {
        Sync::of(trace, cells, false)
    }

    fn of(trace: &Trace, cells: &Cells, attempts: bool) -> Sync {
        let ops = cells.ops();
        let count = |space| trace.tables.names(space).len();
        let atomics = ops.any(&[Op::AtomicRead, Op::AtomicWrite, Op::Rmw]);
        // Nobody knows what missing code does: it may hold fences.
        let fences = atomics && ops.any(&[Op::Fence, Op::MethodBegin]);
        let fail = attempts && ops.any(&[Op::TryFail, Op::ReadTryFail, Op::JoinFail]);
        let none = Fences { released: Stamp::NEVER, seen: 0 };
        let parties = |i| trace.tables.barrier_parties(BarrierId::new(i));
        Sync {
            locks: vec![Lock { released: Stamp::NEVER, readers: 0 }; trace.tables.lock_count()],
            semaphores: vec![0; count(snag_model::Space::Semaphore)],
            barriers: (0..count(snag_model::Space::Barrier))
                .map(|i| Barrier { parties: parties(i), ..Barrier::default() })
                .collect(),
            notifies: Vec::new(),
            finals: vec![None; trace.tables.thread_count()],
            heap: if ops.any(&[Op::Alloc]) { Heap::new(trace) } else { Heap::default() },
            released: vec![Released::Nothing; if atomics { cells.count() } else { 0 }],
            attempts,
            grounds: if fail { Probes::of(trace).map(Grounds::new) } else { None },
            counted: vec![
                0;
                if attempts && ops.any(&[Op::SemValue]) { count(snag_model::Space::Semaphore) } else { 0 }
            ],
            fences: vec![none; if fences { trace.tables.thread_count() } else { 0 }],
            strong: false,
            ignores_locks: false,
            methods: if ops.any(&[Op::MethodBegin]) { Methods::new(trace) } else { None },
        }
    }

    /// As if every atomic access were sequentially consistent.
    pub fn strong(trace: &Trace, cells: &Cells) -> Sync {
        Sync { strong: true, fences: Vec::new(), ..Sync::new(trace, cells) }
    }

    /// The same as if nobody took a lock.
    pub fn without_locks(self) -> Sync {
        Sync { ignores_locks: true, ..self }
    }

    fn order_of(&self, event: &Event) -> MemoryOrder {
        if self.strong { MemoryOrder::SeqCst } else { event.memory_order() }
    }

    /// Whether accesses need [`Sync::before_touch`], [`Sync::before_access`] and [`Sync::after_access`].
    pub fn orders_accesses(&self) -> bool {
        !self.heap.blocks.is_empty() || !self.released.is_empty()
    }

    /// Whether a write to a variable takes away what somebody has released there.
    pub fn is_released(&self, cell: usize) -> bool {
        self.released.get(cell).is_some_and(|released| !matches!(released, Released::Nothing))
    }

    /// Whether every event needs [`Sync::enter_event`] and [`Sync::leave_event`].
    pub fn has_methods(&self) -> bool {
        self.methods.is_some()
    }

    /// Whether all acquires and forks need [`Sync::note`].
    pub fn has_grounds(&self) -> bool {
        self.grounds.is_some()
    }

    /// Keeps what the thread of an event knows, if a failed attempt rests on the event. True if it does.
    pub fn note(&mut self, clocks: &mut Clocks, slot: Slot, number: usize) -> bool {
        let Some(grounds) = &mut self.grounds else { return false };
        let at = grounds.stamps.binary_search_by_key(&(number as u32), |ground| ground.0);
        at.is_ok_and(|at| {
            grounds.stamps[at].1 = clocks.stamp(slot, number as Time + 1);
            true
        })
    }

    /// Orders that missing methods force on any event, before it.
    pub fn enter_event(&mut self, clocks: &mut Clocks, slot: Slot, number: usize) {
        if let Some(methods) = &mut self.methods {
            methods.before(clocks, slot, number);
        }
    }

    /// Orders that missing methods force on any event, after it.
    pub fn leave_event(&mut self, clocks: &mut Clocks, slot: Slot, time: Time) {
        if let Some(methods) = &mut self.methods {
            methods.after(clocks, slot, time);
        }
    }

    /// What happens before an event that touches heap memory.
    pub fn before_touch(&mut self, clocks: &mut Clocks, slot: Slot, number: usize, cells: &Cells) {
        if !self.heap.blocks.is_empty()
            && let Some(alloc) = cells.block_of_event(number)
            && let Ok(at) = self.heap.blocks.binary_search_by_key(&alloc.0, |b| b.0)
        {
            clocks.join(slot, self.heap.blocks[at].1);
        }
    }

    /// What happens before an access to a cell by other than thread order.
    pub fn before_access(&mut self, clocks: &mut Clocks, slot: Slot, event: &Event, cell: usize) {
        if !(event.op.reads() && event.op.is_atomic()) {
            return;
        }
        let released = self.released[cell];
        if self.order_of(event).acquires() {
            match released {
                Released::Nothing => {}
                Released::By(stamp) => clocks.join(slot, stamp),
                Released::Chain(row) => clocks.join_row(slot, row),
            }
        } else if let Some(fences) = self.fences.get_mut(event.thread.index()) {
            if fences.seen == 0 && !matches!(released, Released::Nothing) {
                fences.seen = clocks.new_row();
            }
            released.gather(clocks, fences.seen);
        }
    }

    /// What an access to a cell releases.
    pub fn after_access(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, event: &Event, cell: usize) {
        if self.released.is_empty() || !event.op.writes() {
            return;
        }
        let order = self.order_of(event);
        let fenced = self.fences.get(event.thread.index()).map(|fences| fences.released);
        let own = match order.releases() {
            true => Some(clocks.stamp(slot, time)),
            false => fenced.filter(|&fence| fence != Stamp::NEVER),
        };
        let released = &mut self.released[cell];
        match (event.op, own) {
            (Op::Write, _) | (Op::AtomicWrite, None) => *released = Released::Nothing,
            (Op::AtomicWrite, Some(own)) => *released = Released::By(own),
            // The chain goes on: what was released before it still is.
            (_, None) => {}
            (_, Some(own)) if order.acquires() && order.releases() => *released = Released::By(own),
            (_, Some(own)) => {
                let row = clocks.new_row();
                released.gather(clocks, row);
                clocks.gather_stamp(row, own);
                *released = Released::Chain(row);
            }
        }
    }

    /// An event that is not an access.
    pub fn event(&mut self, clocks: &mut Clocks, slot: Slot, number: usize, event: &Event) {
        let time = number as Time + 1;
        match event.action() {
            action if self.ignores_locks && action.lock().is_some() => {}
            Action::Acquire { lock, mode: Mode::Exclusive, .. } | Action::WaitEnd { lock, .. } => {
                self.acquire(clocks, slot, lock)
            }
            Action::Release { lock, mode: Mode::Exclusive } | Action::WaitBegin { lock, .. } => {
                self.release(clocks, slot, time, lock)
            }
            Action::Acquire { lock, mode: Mode::Shared, .. } => clocks.join(slot, self.locks[lock.index()].released),
            Action::Release { lock, mode: Mode::Shared } => {
                let lock = &mut self.locks[lock.index()];
                if lock.readers == 0 {
                    lock.readers = clocks.new_row();
                }
                clocks.gather(lock.readers, slot, time);
            }
            Action::Fork { thread: child, .. } => {
                clocks.fork(slot, child, time);
            }
            Action::Join { thread: child, .. } => self.join(clocks, slot, child, number as Time),
            Action::End => {
                self.finals[event.thread.index()] = Some(clocks.stamp(slot, time));
                clocks.end(slot, time);
            }
            Action::Wake { by: Some(notify), .. } => {
                if let Ok(at) = self.notifies.binary_search_by_key(&notify.0, |n| n.0) {
                    clocks.join(slot, self.notifies[at].1);
                }
            }
            Action::Notify { .. } | Action::NotifyAll { .. } => {
                self.notifies.push((number as u32, clocks.stamp(slot, time)))
            }
            Action::SemPost { semaphore } => {
                let row = &mut self.semaphores[semaphore.index()];
                if *row == 0 {
                    *row = clocks.new_row();
                }
                clocks.gather(*row, slot, time);
                self.count(clocks, slot, time, semaphore);
            }
            Action::SemWait { semaphore } => {
                clocks.join_row(slot, self.semaphores[semaphore.index()]);
                self.count(clocks, slot, time, semaphore);
            }
            Action::Probe(_) if !self.attempts => {}
            Action::Probe(Probe::Count { semaphore, .. }) => clocks.join_row(slot, self.counted[semaphore.index()]),
            Action::Probe(_) => {
                let grounds = self.grounds.as_ref().expect("the trace has attempts");
                for ground in grounds.probes.rests_on(EventId::new(number)) {
                    if let Ok(at) = grounds.stamps.binary_search_by_key(ground, |ground| ground.0) {
                        clocks.join(slot, grounds.stamps[at].1);
                    }
                }
            }
            Action::BarrierEnter { barrier } => self.barriers[barrier.index()].enter(clocks, slot, event.thread, time),
            Action::BarrierLeave { barrier } => self.barriers[barrier.index()].leave(clocks, slot, event.thread),
            Action::Fence { order } => self.fence(clocks, slot, time, event.thread, order),
            Action::MethodBegin { .. } | Action::MethodEnd { .. } => {
                self.fence(clocks, slot, time, event.thread, MemoryOrder::AcqRel);
            }
            Action::Alloc { .. } => {
                if let Ok(at) = self.heap.blocks.binary_search_by_key(&(number as u32), |b| b.0) {
                    self.heap.blocks[at].1 = clocks.stamp(slot, time);
                }
            }
            _ => {}
        }
        self.note(clocks, slot, number);
    }

    /// Remembers who has changed the count of a semaphore.
    fn count(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, semaphore: SemId) {
        if let Some(row) = self.counted.get_mut(semaphore.index()) {
            if *row == 0 {
                *row = clocks.new_row();
            }
            clocks.gather(*row, slot, time);
        }
    }

    fn fence(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, thread: ThreadId, order: MemoryOrder) {
        let Some(fences) = self.fences.get_mut(thread.index()) else { return };
        if order.acquires() && fences.seen != 0 {
            clocks.join_row(slot, fences.seen);
            clocks.free_row(fences.seen);
            fences.seen = 0;
        }
        if order.releases() {
            fences.released = clocks.stamp(slot, time);
        }
    }

    /// `acquire`, and the end of a wait.
    #[inline]
    pub fn acquire(&mut self, clocks: &mut Clocks, slot: Slot, lock: LockId) {
        if self.ignores_locks {
            return;
        }
        let lock = &mut self.locks[lock.index()];
        clocks.join(slot, lock.released);
        if lock.readers != 0 {
            // Whoever comes later learns of these readers from this thread's release.
            clocks.join_row(slot, lock.readers);
            clocks.free_row(lock.readers);
            lock.readers = 0;
        }
    }

    /// `release`, and the beginning of a wait.
    #[inline]
    pub fn release(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, lock: LockId) {
        if !self.ignores_locks {
            self.locks[lock.index()].released = clocks.stamp(slot, time);
        }
    }

    /// All events of the joined thread are before `time`.
    fn join(&mut self, clocks: &mut Clocks, slot: Slot, child: ThreadId, time: Time) {
        let last = match self.finals[child.index()] {
            Some(last) => last,
            None => {
                let Some(child_slot) = clocks.slot_if_seen(child) else {
                    // It had no events: then the join comes after its fork.
                    if let Some(birth) = clocks.birth(child) {
                        clocks.join(slot, birth);
                    }
                    return;
                };
                clocks.end(child_slot, time);
                *self.finals[child.index()].insert(clocks.stamp(child_slot, time))
            }
        };
        clocks.join(slot, last);
    }

    /// Every row referred to from here.
    pub fn roots(&self, mark: &mut dyn FnMut(u32)) {
        for lock in &self.locks {
            mark(lock.released.row);
            mark(lock.readers);
        }
        self.semaphores.iter().chain(&self.counted).for_each(|&row| mark(row));
        self.grounds.iter().flat_map(|grounds| &grounds.stamps).for_each(|(_, stamp)| mark(stamp.row));
        self.barriers.iter().flat_map(|b| &b.generations).for_each(|g| mark(g.row));
        self.notifies.iter().for_each(|n| mark(n.1.row));
        self.finals.iter().flatten().for_each(|s| mark(s.row));
        self.heap.blocks.iter().for_each(|b| mark(b.1.row));
        for released in &self.released {
            match released {
                Released::Nothing => {}
                Released::By(stamp) => mark(stamp.row),
                Released::Chain(row) => mark(*row),
            }
        }
        for fences in &self.fences {
            mark(fences.released.row);
            mark(fences.seen);
        }
        if let Some(methods) = &self.methods {
            methods.roots(mark);
        }
    }

    /// About how many rows [`Sync::roots`] looks at.
    pub fn root_count(&self) -> usize {
        let grounds = self.grounds.as_ref().map_or(0, |grounds| grounds.stamps.len());
        let rows = self.locks.len() + self.notifies.len() + self.heap.blocks.len() + self.released.len();
        rows + self.fences.len() + grounds
    }
}

impl Grounds {
    fn new(probes: Probes) -> Grounds {
        let stamps = probes.grounds().into_iter().map(|ground| (ground, Stamp::NEVER)).collect();
        Grounds { probes, stamps }
    }
}

impl Released {
    /// Adds what was released to a row.
    fn gather(self, clocks: &mut Clocks, row: u32) {
        match self {
            Released::Nothing => {}
            Released::By(stamp) => clocks.gather_stamp(row, stamp),
            Released::Chain(old) => clocks.gather_row(row, old),
        }
    }
}

impl Barrier {
    fn row_of(&self, generation: u64) -> Option<u32> {
        self.generations.iter().find(|g| g.number == generation).map(|g| g.row)
    }

    fn enter(&mut self, clocks: &mut Clocks, slot: Slot, thread: ThreadId, time: Time) {
        if self.parties.is_some_and(|parties| self.entered == parties) {
            self.next_generation();
        }
        // Generations fill one after the other.
        if let Some(before) = self.filling.checked_sub(1).and_then(|g| self.row_of(g)) {
            clocks.join_row(slot, before);
        }
        let row = match self.row_of(self.filling) {
            Some(row) => row,
            None => {
                let row = clocks.new_row();
                self.generations.push(Generation { number: self.filling, row });
                row
            }
        };
        clocks.gather(row, slot, time);
        self.entered += 1;
        self.inside.push((thread, self.filling));
    }

    fn leave(&mut self, clocks: &mut Clocks, slot: Slot, thread: ThreadId) {
        let Some(at) = self.inside.iter().position(|i| i.0 == thread) else { return };
        let (_, generation) = self.inside.swap_remove(at);
        if let Some(row) = self.row_of(generation) {
            clocks.join_row(slot, row);
        }
        if generation == self.filling && self.parties.is_none() {
            self.next_generation();
        }
        let (filling, inside) = (self.filling, &self.inside);
        self.generations.retain(|g| g.number + 1 >= filling || inside.iter().any(|i| i.1 == g.number));
    }

    fn next_generation(&mut self) {
        self.filling += 1;
        self.entered = 0;
    }
}

impl Heap {
    fn new(trace: &Trace) -> Heap {
        Heap { blocks: trace.events_of(&[Op::Alloc]).map(|(id, _)| (id.0, Stamp::NEVER)).collect() }
    }
}
