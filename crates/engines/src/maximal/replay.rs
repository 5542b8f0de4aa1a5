//! Executes a set of events greedily, in the order of the trace as far as the solver's wishes allow, and notes where
//! that breaks a rule.
//!
//! The set is grown from what every schedule needs by what is needed next: the writes that reads saw, the ends of
//! sections that stand in the way, the posts that waits were served by. An event that cannot happen waits; if all
//! wait, the earliest one is executed nevertheless and the rule it breaks is a [`Violation`], for which the solver gets
//! clauses. A replay without violations is a witness. What cannot go wrong is passed over ([`crate::maximal::quiet`]).

use crate::maximal::cuts::{Cuts, Target};
use crate::maximal::index::Index;
use crate::maximal::memory::Source;
use crate::maximal::sections::SectionId;
use snag_model::Level;
use snag_model::{EventId, Op};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// After so many violations a replay is given up: what follows is about a schedule that will never be.
const MOST_VIOLATIONS: usize = 64;

/// A rule that the replay broke.
#[derive(Debug)]
pub(crate) enum Violation {
    /// A read that counts saw something else in a cell. `log` is the last entry of the cell's log at that time.
    Read { read: EventId, cell: usize, log: Option<u32> },
    /// A section began while another one held the lock.
    Lock { holder: SectionId, wanted: SectionId },
    /// A wake-up whose notify came before its wait.
    Wake { wake: EventId },
    /// A wait on a semaphore at zero, and how far each thread had come.
    Semaphore { wait: EventId, done: Vec<u32> },
    /// An access after its block was freed.
    Freed { access: EventId, free: EventId },
}

/// A write in the replay, linked to the one before it in the same cell.
#[derive(Clone, Copy)]
pub(crate) struct Logged {
    pub write: EventId,
    /// A read before it in its thread that saw something else: so it is not known what was written.
    pub doubt: Option<EventId>,
    pub previous: Option<u32>,
}

/// What the solver wants.
pub(crate) struct Wishes {
    /// The first event before the second.
    pub edges: Vec<(EventId, EventId)>,
    /// Events that must happen.
    pub included: Vec<EventId>,
    /// Per thread how many events may happen.
    pub most: Vec<u32>,
    /// What reads that must be kept are to see, where the solver has said.
    pub chosen: HashMap<(EventId, usize), Source>,
}

/// Why the reads of a thread before a position count: a read of another thread is to see the write there.
#[derive(Clone, Copy)]
pub(crate) struct Reason {
    pub end: u32,
    pub read: EventId,
    pub cell: usize,
}

/// Where a thread stands.
#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    /// Has done all it is to do.
    Done,
    /// Its next event can happen and does not change anything for others, except to let them go on.
    Free,
    /// Its next event can happen.
    Ready,
    /// Waits for another thread to come so far.
    Thread,
    /// Waits for a lock, a value, a semaphore; or for what will never be.
    Lock,
    Value,
    Semaphore,
    Never,
}

/// Buffers for replays over one trace, and the result of the last one.
pub(crate) struct Replay<'i, 't> {
    index: &'i Index<'t>,
    /// What happened, in order.
    pub order: Vec<EventId>,
    /// The rules that were broken.
    pub violations: Vec<Violation>,
    /// How many loud events this and all earlier replays have executed.
    pub steps: u64,
    /// All writes.
    pub log: Vec<Logged>,
    /// At `control`, per thread why its reads count beyond its last branch.
    pub reasons: Vec<Vec<Reason>>,
    /// Per thread how many events are to happen.
    pub cut: Vec<u32>,
    /// Per thread how many have happened.
    done: Vec<u32>,
    /// Per thread how many of its loud events have happened.
    loud: Vec<usize>,
    /// Threads that may have come to stand elsewhere.
    look_at: Vec<usize>,
    /// Per thread the position before which reads count.
    counting: Vec<u32>,
    state: Vec<State>,
    /// At `control`, per thread the first read that saw something else.
    astray: Vec<Option<EventId>>,
    /// Per cell the replay that wrote it last, and the last entry of its log.
    last: Vec<(u32, u32)>,
    /// The number of this replay.
    round: u32,
    /// Per lock the section that holds it for writing, and those that hold it for reading; and which locks to reset.
    exclusive: Vec<Option<SectionId>>,
    shared: Vec<Vec<SectionId>>,
    latest: Vec<Option<SectionId>>,
    touched: Vec<usize>,
    semaphores: Vec<i64>,
    /// When notifies happened and the wait of each thread began.
    notified: HashMap<EventId, usize>,
    waiting_since: Vec<Option<usize>>,
    /// One bit per event: an edge of the wishes leads to it, or the solver has chosen what it sees.
    has_edge: Vec<u64>,
    has_choice: Vec<u64>,
    /// Edges sorted by their second event.
    into: Vec<(EventId, EventId)>,
    /// Threads that wait for a thread to come so far.
    awaited: Vec<Vec<(u32, usize)>>,
    free: Vec<usize>,
    ready: BinaryHeap<Reverse<(EventId, usize)>>,
    base: EventId,
}

fn bit(bits: &[u64], event: EventId) -> bool {
    bits[event.index() / 64] >> (event.index() % 64) & 1 == 1
}

fn flip(bits: &mut [u64], event: EventId, on: bool) {
    let (word, mask) = (&mut bits[event.index() / 64], 1 << (event.index() % 64));
    *word = if on { *word | mask } else { *word & !mask };
}

impl<'i, 't> Replay<'i, 't> {
    pub fn new(index: &'i Index<'t>) -> Replay<'i, 't> {
        let (threads, locks) = (index.threads.count(), index.trace.tables.lock_count());
        let words = index.trace.len().div_ceil(64);
        Replay {
            index,
            order: Vec::new(),
            violations: Vec::new(),
            steps: 0,
            log: Vec::new(),
            reasons: vec![Vec::new(); threads],
            cut: Vec::new(),
            done: Vec::new(),
            loud: Vec::new(),
            look_at: Vec::new(),
            counting: Vec::new(),
            state: Vec::new(),
            astray: Vec::new(),
            last: vec![(0, 0); index.cells.count()],
            round: 0,
            exclusive: vec![None; locks],
            shared: vec![Vec::new(); locks],
            latest: vec![None; locks],
            touched: Vec::new(),
            semaphores: Vec::new(),
            notified: HashMap::new(),
            waiting_since: Vec::new(),
            has_edge: vec![0; words],
            has_choice: vec![0; words],
            into: Vec::new(),
            awaited: vec![Vec::new(); threads],
            free: Vec::new(),
            ready: BinaryHeap::new(),
            base: EventId(0),
        }
    }

    /// Replays. True if all that was to happen did, without a violation: then `order` is a witness.
    pub fn run(&mut self, target: &Target, cuts: &Cuts, wishes: &Wishes) -> bool {
        self.reset(target, wishes);
        self.grow(&cuts.least, wishes);
        self.look_at.extend(0..self.index.threads.count());
        self.look();
        while self.violations.len() < MOST_VIOLATIONS
            && let Some((thread, forced)) = self.pick()
        {
            self.execute(thread, forced);
        }
        for (read, _) in wishes.chosen.keys() {
            flip(&mut self.has_choice, *read, false);
        }
        for (_, to) in &wishes.edges {
            flip(&mut self.has_edge, *to, false);
        }
        self.violations.is_empty() && self.done == self.cut
    }

    /// What a cell held where a violation was noted is at the head of this list; the newest write first.
    pub fn history(&self, from: Option<u32>) -> impl Iterator<Item = Logged> {
        let mut next = from;
        std::iter::from_fn(move || {
            let entry = self.log[next? as usize];
            next = entry.previous;
            Some(entry)
        })
    }

    /// Whether a read counts because of a branch that is to happen.
    pub fn counts_by_branch(&self, read: EventId) -> bool {
        let thread = self.index.threads.thread(read);
        self.index.threads.position(read) < self.index.counting(thread, self.cut[thread])
    }

    fn reset(&mut self, target: &Target, wishes: &Wishes) {
        let Index { threads, sections, semaphores, .. } = self.index;
        self.base = target.base;
        self.round += 1;
        self.order.clear();
        self.violations.clear();
        self.log.clear();
        self.notified.clear();
        self.free.clear();
        self.ready.clear();
        self.awaited.iter_mut().for_each(Vec::clear);
        self.reasons.iter_mut().for_each(Vec::clear);
        for lock in self.touched.drain(..) {
            self.exclusive[lock] = None;
            self.shared[lock].clear();
            self.latest[lock] = None;
        }
        self.done = (0..threads.count()).map(|thread| threads.count_before(thread, target.base)).collect();
        self.cut.clone_from(&self.done);
        self.loud = (0..threads.count())
            .map(|thread| self.index.quiet.loud(thread).partition_point(|&position| position < self.done[thread]))
            .collect();
        self.look_at.clear();
        self.counting = vec![0; threads.count()];
        self.state = vec![State::Done; threads.count()];
        self.astray = vec![None; threads.count()];
        self.waiting_since = vec![None; threads.count()];
        for thread in (0..threads.count()).filter(|_| target.base > EventId(0)) {
            for &hold in sections.held(thread, self.done[thread]) {
                let section = sections.open(threads, thread, hold, self.done[thread]);
                self.take(section);
                let latest = &mut self.latest[hold.lock.index()];
                *latest = (*latest).max(Some(section));
            }
        }
        self.semaphores.clear();
        for semaphore in semaphores {
            let before = |events: &[EventId]| events.partition_point(|&event| event < target.base) as i64;
            self.semaphores.push(semaphore.initial as i64 + before(&semaphore.posts) - before(&semaphore.waits));
        }
        for (read, _) in wishes.chosen.keys() {
            flip(&mut self.has_choice, *read, true);
        }
        self.into.clear();
        for &(from, to) in &wishes.edges {
            flip(&mut self.has_edge, to, true);
            self.into.push((to, from));
        }
        self.into.sort_unstable();
    }

    // Which events are to happen.

    /// Grows the cut to `least`, what is wished for, and what that needs.
    fn grow(&mut self, least: &[u32], wishes: &Wishes) {
        let threads = &self.index.threads;
        let mut todo: Vec<(usize, u32)> = least.iter().copied().enumerate().collect();
        todo.extend(wishes.included.iter().map(|&event| (threads.thread(event), threads.position(event) + 1)));
        let mut settled = self.loud.clone();
        loop {
            while let Some((thread, count)) = todo.pop() {
                if count > self.cut[thread] {
                    self.extend(thread, count, wishes, &mut todo);
                }
            }
            for (thread, settled) in settled.iter_mut().enumerate() {
                let counting = self.counting[thread].min(self.cut[thread]);
                while let Some(&position) = self.index.quiet.loud(thread).get(*settled).filter(|&&p| p < counting) {
                    let event = threads.event(thread, position);
                    *settled += 1;
                    if self.index.op(event).reads() {
                        self.settle(event, wishes, &mut todo);
                    }
                }
            }
            if todo.is_empty() {
                return;
            }
        }
    }

    /// The first `count` events of a thread are to happen.
    fn extend(&mut self, thread: usize, count: u32, wishes: &Wishes, todo: &mut Vec<(usize, u32)>) {
        let Index { threads, must, .. } = self.index;
        let from = std::mem::replace(&mut self.cut[thread], count);
        let last = threads.event(thread, count - 1);
        must.row(last).for_each(|other, needed| {
            if needed > self.cut[other] && other != thread {
                todo.push((other, needed));
            }
        });
        self.count_reads(thread, self.index.counting(thread, count));
        let loud = self.index.quiet.loud(thread);
        let loud = &loud[loud.partition_point(|&position| position < from)..];
        for &position in loud.iter().take_while(|&&position| position < count) {
            let event = threads.event(thread, position);
            if bit(&self.has_edge, event) {
                for source in sources(&self.into, event) {
                    todo.push((threads.thread(source), threads.position(source) + 1));
                }
            }
            match self.index.op(event) {
                Op::Acquire | Op::ReadAcquire | Op::WaitEnd => self.close_other(event, wishes, todo),
                Op::SemWait => {
                    let semaphore = &self.index.semaphores[self.target(event)];
                    let number = semaphore.waits.partition_point(|&wait| wait < event);
                    if let Some(post) = number.checked_sub(semaphore.initial as usize) {
                        self.want(semaphore.posts[post], wishes, todo);
                    }
                }
                _ => {}
            }
        }
    }

    /// An event is to happen if it may.
    fn want(&self, event: EventId, wishes: &Wishes, todo: &mut Vec<(usize, u32)>) {
        let (thread, position) = (self.index.threads.thread(event), self.index.threads.position(event));
        if position >= self.cut[thread] && position < wishes.most[thread] {
            todo.push((thread, position + 1));
        }
    }

    /// Of two sections on a lock the one that comes first in the trace is to end.
    fn close_other(&mut self, begin: EventId, wishes: &Wishes, todo: &mut Vec<(usize, u32)>) {
        let Index { sections, .. } = self.index;
        let Some(section) = sections.of_event(begin) else { return };
        let lock = sections.get(section).lock.index();
        let Some(other) = self.latest[lock] else {
            self.latest[lock] = Some(section);
            self.touched.push(lock);
            return;
        };
        self.latest[lock] = Some(other.max(section));
        if let Some(end) = sections.get(other.min(section)).end {
            self.want(end, wishes, todo);
        }
    }

    /// A read counts: what it is to see is to happen, and to be known.
    fn settle(&mut self, read: EventId, wishes: &Wishes, todo: &mut Vec<(usize, u32)>) {
        let Index { threads, memory, level, .. } = self.index;
        for cell in memory.cells_of(read).filter(|&cell| !self.index.quiet.is_quiet(cell)) {
            let chosen = match bit(&self.has_choice, read) {
                true => wishes.chosen.get(&(read, cell)).copied(),
                false => None,
            };
            let Some(write) = chosen.unwrap_or_else(|| memory.seen(read, cell)) else { continue };
            self.want(write, wishes, todo);
            if *level == Level::Control && write >= self.base {
                let end = threads.position(write) + (self.index.op(write) == Op::Rmw) as u32;
                let thread = threads.thread(write);
                if end > self.counting[thread] {
                    self.reasons[thread].push(Reason { end, read, cell });
                }
                self.count_reads(thread, end);
            }
        }
    }

    fn count_reads(&mut self, thread: usize, end: u32) {
        self.counting[thread] = self.counting[thread].max(end);
    }

    // What can happen next.

    fn target(&self, event: EventId) -> usize {
        self.index.trace.events.targets()[event.index()] as usize
    }

    fn happened(&self, event: EventId) -> bool {
        self.done[self.index.threads.thread(event)] > self.index.threads.position(event)
    }

    /// Whether a read must see what it may see: by what follows it, or because the solver says so.
    fn counts(&self, read: EventId) -> bool {
        self.index.threads.position(read) < self.counting[self.index.threads.thread(read)]
            || bit(&self.has_choice, read)
    }

    /// Finds out where threads stand that may have come to stand elsewhere.
    fn look(&mut self) {
        while let Some(thread) = self.look_at.pop() {
            self.pass_over(thread);
            self.classify(thread);
        }
    }

    /// Executes what comes before the next loud event of a thread.
    fn pass_over(&mut self, thread: usize) {
        let (loud, done) = (self.index.quiet.loud(thread), self.done[thread]);
        let end = loud.get(self.loud[thread]).map_or(self.cut[thread], |&next| next.min(self.cut[thread]));
        if end > done {
            self.order.extend_from_slice(&self.index.threads.events(thread)[done as usize..end as usize]);
            self.done[thread] = end;
            self.wake_waiting_for(thread);
        }
    }

    fn classify(&mut self, thread: usize) {
        let Index { threads, must, .. } = self.index;
        if self.done[thread] >= self.cut[thread] {
            self.state[thread] = State::Done;
            return;
        }
        let event = threads.event(thread, self.done[thread]);
        if must.meets_others(threads, event) {
            // What comes before its predecessor has happened.
            let earlier = threads.previous(event).map(|previous| must.row(previous));
            if let Some((other, count)) = must.row(event).first_above(earlier, thread, &self.done) {
                return self.wait_for(thread, other, count);
            }
        }
        if bit(&self.has_edge, event) {
            let missing = sources(&self.into, event).find(|&source| !self.happened(source));
            if let Some(source) = missing {
                return self.wait_for(thread, threads.thread(source), threads.position(source) + 1);
            }
        }
        let state = self.possible(event, thread);
        self.state[thread] = state;
        match state {
            State::Free => self.free.push(thread),
            State::Ready => self.ready.push(Reverse((event, thread))),
            _ => {}
        }
    }

    fn wait_for(&mut self, thread: usize, other: usize, count: u32) {
        self.state[thread] = State::Thread;
        self.awaited[other].push((count, thread));
    }

    fn possible(&self, event: EventId, thread: usize) -> State {
        match self.index.op(event) {
            op if op.reads() => match (self.counts(event), op) {
                (true, _) if !self.sees_enough(event) => State::Value,
                (true, Op::Read | Op::AtomicRead) => State::Free,
                _ => State::Ready,
            },
            Op::Write | Op::AtomicWrite | Op::Free | Op::Notify | Op::NotifyAll => State::Ready,
            Op::Acquire | Op::ReadAcquire | Op::WaitEnd => match self.index.sections.of_event(event) {
                None => State::Free,
                Some(section) if self.blocker(section).is_some() => State::Lock,
                Some(_) => State::Ready,
            },
            Op::SemWait if self.semaphores[self.target(event)] <= 0 => State::Semaphore,
            Op::SemWait => State::Ready,
            Op::Wake if !self.is_notified(event, thread) => State::Never,
            _ => State::Free,
        }
    }

    /// Whether a read finds what it may see, in all its cells.
    fn sees_enough(&self, read: EventId) -> bool {
        self.index.memory.cells_of(read).all(|cell| self.sees_enough_in(read, cell))
    }

    fn sees_enough_in(&self, read: EventId, cell: usize) -> bool {
        let memory = &self.index.memory;
        if self.index.quiet.is_quiet(cell) {
            return true;
        }
        match self.last_write(cell) {
            Some(last) => {
                let Logged { write, doubt, .. } = self.log[last as usize];
                doubt.is_none() && memory.may_see(read, cell, Some(write))
            }
            None if self.base == EventId(0) => memory.may_see(read, cell, None),
            None => memory.may_see(read, cell, memory.last_before(cell, self.base)),
        }
    }

    fn last_write(&self, cell: usize) -> Option<u32> {
        let (round, entry) = self.last[cell];
        (round == self.round).then_some(entry)
    }

    /// A section of another thread that keeps this one from beginning.
    fn blocker(&self, wanted: SectionId) -> Option<SectionId> {
        let sections = &self.index.sections;
        let section = sections.get(wanted);
        let other = |&holder: &SectionId| sections.get(holder).thread != section.thread;
        let exclusive = self.exclusive[section.lock.index()].filter(other);
        exclusive.or_else(|| match section.shared {
            true => None,
            false => self.shared[section.lock.index()].iter().copied().find(|holder| other(holder)),
        })
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

    /// The thread that goes on, and whether it breaks a rule with that.
    fn pick(&mut self) -> Option<(usize, bool)> {
        let threads = &self.index.threads;
        loop {
            let (thread, expected) = match (self.free.pop(), self.ready.peek()) {
                (Some(thread), _) => (thread, State::Free),
                (None, Some(&Reverse((event, thread)))) => {
                    self.ready.pop();
                    if self.done[thread] != threads.position(event) {
                        continue;
                    }
                    (thread, State::Ready)
                }
                (None, None) => break,
            };
            if self.state[thread] != expected {
                continue;
            }
            // Something may have changed since it was queued.
            let event = threads.event(thread, self.done[thread]);
            let now = self.possible(event, thread);
            if matches!(now, State::Free | State::Ready) {
                return Some((thread, false));
            }
            self.state[thread] = now;
        }
        let stuck = |&thread: &usize| {
            matches!(self.state[thread], State::Lock | State::Value | State::Semaphore | State::Never)
        };
        let earliest = |&thread: &usize| threads.event(thread, self.done[thread]);
        (0..threads.count()).filter(stuck).min_by_key(earliest).map(|thread| (thread, true))
    }

    // Execution.

    fn take(&mut self, section: SectionId) {
        let held = self.index.sections.get(section);
        self.touched.push(held.lock.index());
        match held.shared {
            true => self.shared[held.lock.index()].push(section),
            false => self.exclusive[held.lock.index()] = Some(section),
        }
    }

    fn execute(&mut self, thread: usize, forced: bool) {
        let threads = &self.index.threads;
        let event = threads.event(thread, self.done[thread]);
        let op = self.index.op(event);
        match op {
            _ if op.is_access() => self.access(event, thread, op),
            Op::Acquire | Op::ReadAcquire | Op::WaitEnd => {
                if let Some(wanted) = self.index.sections.of_event(event) {
                    if let Some(holder) = self.blocker(wanted) {
                        self.violations.push(Violation::Lock { holder, wanted });
                    }
                    self.take(wanted);
                }
            }
            Op::SemWait => {
                if forced {
                    self.violations.push(Violation::Semaphore { wait: event, done: self.done.clone() });
                }
                let target = self.target(event);
                self.semaphores[target] -= 1;
            }
            Op::SemPost => {
                let target = self.target(event);
                self.semaphores[target] += 1;
            }
            Op::Wake if forced => self.violations.push(Violation::Wake { wake: event }),
            Op::Notify | Op::NotifyAll => {
                self.notified.insert(event, self.order.len());
            }
            _ => {}
        }
        if op == Op::WaitBegin {
            self.waiting_since[thread] = Some(self.order.len());
        }
        self.done[thread] += 1;
        self.loud[thread] += 1;
        self.steps += 1;
        self.order.push(event);
        self.wake_up(event, thread, op);
        self.look_at.push(thread);
        self.look();
    }

    fn access(&mut self, event: EventId, thread: usize, op: Op) {
        if self.index.has_frees()
            && let Some(free) = self.index.free_of(event)
            && self.happened(free)
        {
            self.violations.push(Violation::Freed { access: event, free });
        }
        if op.reads() && !self.sees_enough(event) {
            if self.counts(event) {
                for cell in self.index.memory.cells_of(event) {
                    if !self.sees_enough_in(event, cell) {
                        let log = self.last_write(cell);
                        self.violations.push(Violation::Read { read: event, cell, log });
                    }
                }
            }
            if self.index.level == Level::Control {
                self.astray[thread].get_or_insert(event);
            }
        }
        if op.writes() {
            for cell in self.index.memory.cells_of(event).filter(|&cell| !self.index.quiet.is_quiet(cell)) {
                let entry = Logged { write: event, doubt: self.astray[thread], previous: self.last_write(cell) };
                self.last[cell] = (self.round, self.log.len() as u32);
                self.log.push(entry);
            }
        }
    }

    /// Threads that waited for a thread to come so far look again.
    fn wake_waiting_for(&mut self, thread: usize) {
        let mut at = 0;
        while at < self.awaited[thread].len() {
            if self.awaited[thread][at].0 <= self.done[thread] {
                let (_, waiter) = self.awaited[thread].swap_remove(at);
                if self.state[waiter] == State::Thread {
                    self.look_at.push(waiter);
                }
            } else {
                at += 1;
            }
        }
    }

    /// Threads for which this event may have changed something look again.
    fn wake_up(&mut self, event: EventId, thread: usize, op: Op) {
        self.wake_waiting_for(thread);
        let changed = match op {
            _ if op.writes() => State::Value,
            Op::Release | Op::ReadRelease | Op::WaitBegin => {
                let Some(section) = self.index.sections.of_event(event) else { return };
                self.release(section);
                State::Lock
            }
            Op::SemPost => State::Semaphore,
            _ => return,
        };
        let waiters = (0..self.state.len()).filter(|&waiter| self.state[waiter] == changed);
        self.look_at.extend(waiters);
    }

    fn release(&mut self, section: SectionId) {
        let held = self.index.sections.get(section);
        match held.shared {
            true => self.shared[held.lock.index()].retain(|&other| other != section),
            false => {
                let holder = &mut self.exclusive[held.lock.index()];
                // After a violation another one may hold it.
                if *holder == Some(section) {
                    *holder = None;
                }
            }
        }
    }
}

/// The events that are to come before an event, in edges sorted by their second event.
fn sources(into: &[(EventId, EventId)], event: EventId) -> impl Iterator<Item = EventId> {
    let from = into.partition_point(|edge| edge.0 < event);
    into[from..].iter().take_while(move |edge| edge.0 == event).map(|edge| edge.1)
}
