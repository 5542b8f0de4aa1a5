//! Follows a trace and keeps what searches need: histories with time stamps, start pairs, snapshots.
//!
//! Time stamps are vector clocks of what *must* happen before: thread order, fork, join, the notify of a wake-up,
//! barriers. No lock puts anything in order. Under strategy II the operations on a semaphore, and what missing
//! methods may have synchronised, keep the order they had, which is more than must be: then no
//! schedule can break their rules. Under strategy I they put nothing in order, so that nothing is missed.

use crate::holds::{Hold, Holds};
use crate::lock_history::agenda::Pair;
use crate::lock_history::histories::{History, Place, Stamp, known};
use crate::lock_history::sets::{Mode, SetId, Sets};
use crate::lock_history::steps::Taken;
use crate::lock_history::waits::Waits;
use crate::missing::MissingOrder;
use snag_model::events::Event;
use snag_model::tables::Object;
use snag_model::{Action, BarrierId, CondId, EventId, LockId, Mode as Access, Probe, Tables, ThreadId, Trace};
use std::collections::HashMap;

/// What is done about third threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// Nothing: no pair is missed, and some may be impossible.
    One,
    /// They stay where the last snapshot saw them: no pair is impossible, and some are missed.
    Two,
}

/// One thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// What must have happened before its next event.
    pub stamp: Stamp,
    /// Its lock history.
    pub history: History,
    /// The locks it holds.
    pub set: SetId,
    /// The same with how often, and what waits have given up.
    holds: Holds,
    /// 1 + its last event that others may know of: no stamp of theirs knows more.
    told: u32,
}

impl Default for Thread {
    fn default() -> Thread {
        Thread { stamp: [].into(), history: History::default(), set: SetId::EMPTY, holds: Holds::default(), told: 0 }
    }
}

impl Thread {
    /// The place at which it is.
    pub fn place(&self) -> Place {
        self.history.end()
    }

    /// The stamp of one of its events.
    pub fn stamp_of(&self, event: EventId) -> &Stamp {
        self.history.stamp_of(event)
    }

    /// The locks that it holds, and what it waits for.
    pub fn holds(&self) -> &Holds {
        &self.holds
    }

    /// Whether no other thread knows of any of its events from one on.
    #[inline]
    pub fn keeps_to_itself_from(&self, event: EventId) -> bool {
        self.told <= event.0
    }

    fn learn(&mut self, event: EventId, other: &[u32]) {
        if other.iter().enumerate().all(|(thread, &time)| time <= known(&self.stamp, thread)) {
            return;
        }
        let count = self.stamp.len().max(other.len());
        self.stamp = (0..count).map(|thread| known(&self.stamp, thread).max(known(other, thread))).collect();
        self.history.stamp_from(event, self.stamp.clone());
    }
}

/// Two threads were seen at these places by every schedule that goes beyond them.
#[derive(Clone, Copy, Debug)]
struct Start {
    threads: [ThreadId; 2],
    /// Events of each thread from these on come later.
    bounds: [EventId; 2],
    places: Pair,
}

/// One barrier.
#[derive(Default)]
struct Barrier {
    parties: Option<u32>,
    entered: u32,
    /// The generations of those inside, and the one that is filling.
    generations: Vec<Generation>,
    /// Number of the first of them.
    first: usize,
    inside: Vec<(ThreadId, usize)>,
}

#[derive(Clone, Default)]
struct Generation {
    /// What those know together who entered it or an earlier one.
    row: Vec<u32>,
    members: u32,
    left: bool,
}

/// Rule 3: what must come before each event, and what was known after the events that must.
struct Missing {
    order: MissingOrder,
    known_after: HashMap<EventId, Option<Vec<u32>>>,
}

/// Everything that was observed.
pub struct Observer {
    strategy: Strategy,
    /// Keeps histories, start pairs and snapshots.
    keeps: bool,
    threads: Vec<Thread>,
    sets: Sets,
    waits: Waits,
    barriers: Vec<Barrier>,
    semaphores: Vec<Vec<u32>>,
    /// Strategy II: what those know together whose attempts have failed because of a lock or a thread.
    probed: HashMap<Object, Vec<u32>>,
    missing: Option<Missing>,
    /// Strategy I: start pairs in the order of their later bounds.
    starts: Vec<Vec<Start>>,
    /// Strategy II: the events before which snapshots were taken, in order.
    snapshots: Vec<EventId>,
}

impl Observer {
    /// Before anything happens. Missing methods are known to an observer only if it gets the trace.
    pub fn new(strategy: Strategy, trace: Option<&Trace>) -> Observer {
        let methods = trace.filter(|trace| strategy == Strategy::Two && trace.tables.reach_count() > 0);
        let missing = methods.and_then(|trace| {
            let order = MissingOrder::of(trace, crate::missing::Missing::Reach)?;
            let known_after = order.sources().iter().map(|&event| (event, None)).collect();
            Some(Missing { order, known_after })
        });
        Observer {
            strategy,
            keeps: true,
            threads: Vec::new(),
            sets: Sets::default(),
            waits: Waits::default(),
            barriers: Vec::new(),
            semaphores: Vec::new(),
            probed: HashMap::new(),
            missing,
            starts: Vec::new(),
            snapshots: vec![EventId(0)],
        }
    }

    /// The same for happens-before and locksets alone: nothing is kept for searches.
    pub fn without_histories(self) -> Observer {
        Observer { keeps: false, ..self }
    }

    /// Whether every event has to be shown to [`Observer::observe`], also accesses.
    pub fn orders_accesses(&self) -> bool {
        self.missing.is_some()
    }

    /// A thread.
    #[inline]
    pub fn thread(&self, thread: ThreadId) -> &Thread {
        &self.threads[thread.index()]
    }

    /// Makes room for a thread.
    #[inline]
    pub fn meet(&mut self, thread: ThreadId) {
        if self.threads.len() <= thread.index() {
            self.threads.resize(thread.index() + 1, Thread::default());
        }
    }

    /// Has the steps of a thread from a place on listed by their locks, as searches need them.
    pub fn list_steps(&mut self, thread: ThreadId, from: Place) {
        self.threads[thread.index()].history.list(from, &self.sets);
    }

    /// All threads met so far.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// The locksets.
    pub fn sets(&self) -> &Sets {
        &self.sets
    }

    /// Strategy I: the places from which a search for two events starts.
    pub fn start_pair(&self, threads: [ThreadId; 2], events: [EventId; 2]) -> Pair {
        let [one, other] = threads;
        let Some(starts) = self.starts.get(one.index().max(other.index())) else { return [0, 0] };
        let usable = starts.iter().rev().find_map(|start| match start.threads {
            same if same == threads => {
                (start.bounds[0] <= events[0] && start.bounds[1] <= events[1]).then_some(start.places)
            }
            turned if turned == [other, one] => (start.bounds[1] <= events[0] && start.bounds[0] <= events[1])
                .then_some([start.places[1], start.places[0]]),
            _ => None,
        });
        usable.unwrap_or([0, 0])
    }

    /// Strategy II: the last snapshot before both events. Where threads were then, their histories know.
    pub fn snapshot_before(&self, events: [EventId; 2]) -> Option<EventId> {
        let earlier = events[0].min(events[1]);
        let after = self.snapshots.partition_point(|&snapshot| snapshot <= earlier);
        after.checked_sub(1).map(|at| self.snapshots[at])
    }

    /// Takes a snapshot of what was before an event, which may be an earlier one.
    pub fn take_snapshot(&mut self, before: EventId) {
        if self.strategy == Strategy::Two
            && self.keeps
            && let Err(at) = self.snapshots.binary_search(&before)
        {
            self.snapshots.insert(at, before);
        }
    }

    /// Forgets snapshots before an event, and the steps before the first one that is left.
    pub fn forget_before(&mut self, event: EventId) {
        self.snapshots.retain(|&snapshot| snapshot >= event);
        for thread in &mut self.threads {
            if let Some(place) = self.snapshots.first().and_then(|&first| thread.history.place_before(first)) {
                thread.history.drop_before(place, &self.sets);
            }
            thread.history.drop_stamps_before(event);
        }
    }

    /// Bytes, about.
    pub fn memory(&self) -> usize {
        let threads: usize = self.threads.iter().map(|thread| thread.history.memory()).sum();
        threads + self.snapshots.capacity() * size_of::<EventId>()
    }

    /// Takes note of an event. Accesses need not be shown unless [`Observer::orders_accesses`].
    pub fn observe(&mut self, number: EventId, event: &Event, tables: &Tables) {
        self.meet(event.thread);
        if let Some(missing) = &self.missing {
            missing.before(&mut self.threads[event.thread.index()], number);
        }
        let at = event.thread.index();
        let action = event.action();
        if !self.probed.is_empty() {
            self.after_attempts(number, event.thread, action);
        }
        if let Some((before, after)) = self.threads[at].holds.apply(action) {
            self.hold(number, event.thread, before, after);
        }
        match action {
            Action::WaitBegin { condition, .. } => self.waits.begin(condition),
            Action::WaitEnd { condition, .. } => self.waits.end(condition),
            Action::Notify { condition } | Action::NotifyAll { condition } if self.waits.any(condition) => {
                let published = self.published(event.thread, number);
                let place = self.threads[at].place();
                self.waits.notify(condition, number, event.thread, place, published);
            }
            Action::Wake { condition, by: Some(notify) } => self.wake(number, event.thread, condition, notify),
            Action::Fork { thread: child, .. } => {
                self.meet(child);
                let published = self.published(event.thread, number);
                self.threads[child.index()].learn(EventId(0), &published);
                let places = [self.threads[at].place(), 0];
                self.start(Start {
                    threads: [event.thread, child],
                    bounds: [EventId(number.0 + 1), EventId(0)],
                    places,
                });
                self.take_snapshot(EventId(number.0 + 1));
            }
            Action::Join { thread: child, .. } => {
                self.meet(child);
                self.take_snapshot(number);
                let mut last = self.threads[child.index()].stamp.to_vec();
                set(&mut last, child, number.0);
                self.threads[child.index()].told = number.0;
                self.threads[at].learn(number, &last);
            }
            Action::BarrierEnter { barrier } => self.enter(number, event.thread, barrier, tables),
            Action::BarrierLeave { barrier } => self.leave(number, event.thread, barrier),
            Action::SemPost { semaphore }
            | Action::SemWait { semaphore }
            | Action::Probe(Probe::Count { semaphore, .. })
                if self.strategy == Strategy::Two =>
            {
                let semaphore = semaphore.index();
                if self.semaphores.len() <= semaphore {
                    self.semaphores.resize(semaphore + 1, Vec::new());
                }
                self.threads[at].learn(number, &self.semaphores[semaphore]);
                self.semaphores[semaphore] = self.published(event.thread, number);
            }
            Action::Probe(probe) if self.strategy == Strategy::Two => self.probe(number, event.thread, probe),
            _ => {}
        }
        if let Some(missing) = &mut self.missing {
            missing.after(&mut self.threads[at], number, event);
        }
    }

    /// A failed attempt comes after all that those have done because of whom it failed; and what they do to let others
    /// succeed comes after it.
    fn probe(&mut self, number: EventId, thread: ThreadId, probe: Probe) {
        let holds = |other: &Thread, lock: LockId, mode: Access| {
            let hold = other.holds.locks().iter().find(|hold| hold.lock == lock);
            hold.and_then(|hold| hold.mode()).is_some_and(|held| (held, mode) != (Access::Shared, Access::Shared))
        };
        let others = (0..self.threads.len()).map(ThreadId::new).filter(|&other| other != thread);
        let because_of: Vec<ThreadId> = match probe {
            Probe::Held { lock, mode } => others.filter(|other| holds(self.thread(*other), lock, mode)).collect(),
            Probe::Alive { thread: child } => others.filter(|&other| other == child).collect(),
            Probe::Count { .. } => Vec::new(),
        };
        for other in because_of {
            let mut known = self.threads[other.index()].stamp.to_vec();
            set(&mut known, other, number.0);
            self.threads[other.index()].told = number.0;
            self.threads[thread.index()].learn(number, &known);
        }
        let published = self.published(thread, number);
        gather(self.probed.entry(probe.object()).or_default(), &published);
    }

    /// An event may be what lets an attempt succeed that has failed before.
    fn after_attempts(&mut self, number: EventId, thread: ThreadId, action: Action) {
        let object = match action {
            Action::End => Some(Object::Thread(thread)),
            Action::Join { thread: child, .. } => Some(Object::Thread(child)),
            action => action.released().map(|(lock, _)| Object::Lock(lock)),
        };
        if let Some(known) = object.and_then(|object| self.probed.get(&object)) {
            self.threads[thread.index()].learn(number, known);
        }
    }

    /// What those know who know of an event.
    fn published(&mut self, thread: ThreadId, event: EventId) -> Vec<u32> {
        let state = &mut self.threads[thread.index()];
        state.told = event.0 + 1;
        let mut row = state.stamp.to_vec();
        set(&mut row, thread, event.0 + 1);
        row
    }

    fn hold(&mut self, number: EventId, thread: ThreadId, before: Hold, after: Hold) {
        let mode = |hold: Hold| match hold.mode() {
            Some(snag_model::Mode::Exclusive) => Mode::Exclusive,
            Some(snag_model::Mode::Shared) => Mode::Shared,
            None => Mode::Free,
        };
        if mode(before) != mode(after) {
            let Thread { history, set, .. } = &mut self.threads[thread.index()];
            let change;
            (*set, change) = self.sets.change(*set, after.lock, mode(after));
            if self.keeps {
                history.push(Taken { event: number, change });
            }
        }
    }

    fn wake(&mut self, number: EventId, thread: ThreadId, condition: CondId, notify: EventId) {
        let Some(notify) = self.waits.find(condition, notify) else { return };
        let (notifier, place, by) = (notify.thread, notify.place, notify.event);
        let published = notify.published.clone();
        let woken = &mut self.threads[thread.index()];
        woken.learn(number, &published);
        let places = [place, woken.place()];
        if notifier != thread {
            self.start(Start { threads: [notifier, thread], bounds: [EventId(by.0 + 1), number], places });
            self.take_snapshot(EventId(by.0 + 1));
        }
    }

    fn start(&mut self, start: Start) {
        if self.strategy == Strategy::One {
            let later = start.threads[0].index().max(start.threads[1].index());
            if self.starts.len() <= later {
                self.starts.resize(later + 1, Vec::new());
            }
            self.starts[later].push(start);
        }
    }

    fn enter(&mut self, number: EventId, thread: ThreadId, barrier: BarrierId, tables: &Tables) {
        let id = barrier.index();
        if self.barriers.len() <= id {
            self.barriers.resize_with(id + 1, Barrier::default);
        }
        self.barriers[id].parties = tables.barrier_parties(barrier).map(|parties| parties.max(1));
        let (barrier, own) = (&mut self.barriers[id], &mut self.threads[thread.index()]);
        if barrier.generations.is_empty() {
            barrier.generations.push(Generation::default());
        }
        if barrier.parties == Some(barrier.entered) {
            barrier.complete();
        }
        barrier.entered += 1;
        let filling = barrier.first + barrier.generations.len() - 1;
        barrier.inside.push((thread, filling));
        // Generations fill one after the other.
        if let Some(before) = filling.checked_sub(1).and_then(|before| before.checked_sub(barrier.first)) {
            own.learn(number, &barrier.generations[before].row);
        }
        let published = self.published(thread, number);
        let barrier = &mut self.barriers[id];
        let last = barrier.generations.last_mut().expect("one is filling");
        gather(&mut last.row, &published);
        last.members += 1;
    }

    fn leave(&mut self, number: EventId, thread: ThreadId, barrier: BarrierId) {
        let barrier = &mut self.barriers[barrier.index()];
        let Some(at) = barrier.inside.iter().position(|inside| inside.0 == thread) else { return };
        let (_, generation) = barrier.inside.swap_remove(at);
        if barrier.parties.is_none() && generation == barrier.first + barrier.generations.len() - 1 {
            barrier.complete();
        }
        let index = generation - barrier.first;
        let row = barrier.generations[index].row.clone();
        let first_to_leave = !std::mem::replace(&mut barrier.generations[index].left, true);
        let alone = barrier.generations[index].members < 2;
        barrier.tidy();
        // Nobody waits for anybody at a barrier of one.
        if first_to_leave && !alone {
            self.take_snapshot(number);
        }
        self.threads[thread.index()].learn(number, &row);
    }
}

impl Barrier {
    fn complete(&mut self) {
        let row = self.generations.last().map_or(Vec::new(), |last| last.row.clone());
        self.generations.push(Generation { row, ..Generation::default() });
        self.entered = 0;
    }

    /// Drops generations that everybody has left.
    fn tidy(&mut self) {
        let oldest = self.inside.iter().map(|inside| inside.1).min().unwrap_or(usize::MAX);
        while self.generations.len() > 2 && self.first < oldest {
            self.generations.remove(0);
            self.first += 1;
        }
    }
}

impl Missing {
    fn before(&self, thread: &mut Thread, number: EventId) {
        for earlier in self.order.before(number.index()) {
            if let Some(Some(known)) = self.known_after.get(earlier) {
                thread.learn(number, known);
            }
        }
    }

    fn after(&mut self, thread: &mut Thread, number: EventId, event: &Event) {
        if let Some(known) = self.known_after.get_mut(&number) {
            thread.told = number.0 + 1;
            let mut row = thread.stamp.to_vec();
            set(&mut row, event.thread, number.0 + 1);
            *known = Some(row);
        }
    }
}

fn set(row: &mut Vec<u32>, thread: ThreadId, time: u32) {
    if row.len() <= thread.index() {
        row.resize(thread.index() + 1, 0);
    }
    row[thread.index()] = row[thread.index()].max(time);
}

fn gather(row: &mut Vec<u32>, other: &[u32]) {
    if row.len() < other.len() {
        row.resize(other.len(), 0);
    }
    row.iter_mut().zip(other).for_each(|(time, &more)| *time = (*time).max(more));
}
