//! Runs a proposal: executes a set of events greedily, in the order of the trace as far as the proposal allows, and
//! notes where that breaks a rule.
//!
//! The set is grown from what every schedule needs by what is needed next ([`crate::maximal::growth`]). An event that
//! cannot happen waits; if all wait, the earliest one is executed nevertheless and the rule it breaks is a
//! [`Violation`], for which the solver gets clauses. A run without violations is a witness. What no schedule can change
//! is passed over in one step ([`crate::maximal::visible`]).

use crate::maximal::cuts::{Cuts, Target};
use crate::maximal::index::Index;
use crate::maximal::proposal::Proposal;
use crate::maximal::sections::SectionId;
use crate::maximal::semantics::{Finds, Values};
use crate::maximal::state::{Change, Obstacle, State};
use snag_model::{EventId, Op};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A rule that a run broke.
#[derive(Debug)]
pub(crate) enum Violation<V> {
    /// A rule of synchronisation: by which event, what stood in its way, and how far each thread had come.
    Synchronisation { event: EventId, obstacle: Obstacle, done: Vec<u32> },
    /// A rule about values.
    Value(V),
}

/// Whether a thread can go on.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Readiness {
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
    /// Waits for others to make an attempt fail as it did.
    Probe,
    Never,
}

/// Buffers for runs over one trace, and the result of the last one.
pub(crate) struct Run<'i, V: Values<'i>> {
    pub(super) index: &'i Index<'i>,
    /// What memory holds.
    pub values: V,
    /// What is tried.
    pub proposal: Proposal,
    pub(super) state: State<'i>,
    /// What happened, in order.
    pub order: Vec<EventId>,
    /// The rules that were broken.
    pub violations: Vec<Violation<V::Broken>>,
    /// How many visible events this and all earlier runs have executed.
    pub steps: u64,
    /// Per thread how many events are to happen.
    pub cut: Vec<u32>,
    /// Per thread how many of its visible events have happened.
    pub(super) visible: Vec<usize>,
    /// Per lock the section that begins last in the trace, of those that are to begin; and which locks to reset.
    pub(super) latest: Vec<Option<SectionId>>,
    pub(super) touched: Vec<usize>,
    readiness: Vec<Readiness>,
    /// Threads whose readiness may have changed.
    look_at: Vec<usize>,
    /// Threads that wait for a thread to come so far.
    awaited: Vec<Vec<(u32, usize)>>,
    free: Vec<usize>,
    ready: BinaryHeap<Reverse<(EventId, usize)>>,
}

impl<'i, V: Values<'i>> Run<'i, V> {
    pub fn new(index: &'i Index<'i>) -> Run<'i, V> {
        Run {
            index,
            values: V::new(index),
            proposal: Proposal::new(index),
            state: State::new(index),
            order: Vec::new(),
            violations: Vec::new(),
            steps: 0,
            cut: Vec::new(),
            visible: Vec::new(),
            latest: vec![None; index.trace.tables.lock_count()],
            touched: Vec::new(),
            readiness: Vec::new(),
            look_at: Vec::new(),
            awaited: vec![Vec::new(); index.threads.count()],
            free: Vec::new(),
            ready: BinaryHeap::new(),
        }
    }

    /// Runs the proposal. True if all that was to happen did, without a violation: then `order` is a witness.
    pub fn run(&mut self, target: &Target, cuts: &Cuts) -> bool {
        self.reset(target.base);
        self.grow(&cuts.least);
        self.look_at.extend(0..self.index.threads.count());
        self.look();
        while self.violations.len() < V::MOST_VIOLATIONS
            && let Some(thread) = self.pick()
        {
            self.execute(thread);
        }
        if self.violations.is_empty() {
            self.violations = self.values.broken_by_target(target.events);
        }
        self.violations.is_empty() && self.state.done == self.cut
    }

    fn reset(&mut self, base: EventId) {
        let Index { threads, sections, visible, .. } = self.index;
        self.state.reset(base);
        self.values.reset(base);
        self.order.clear();
        self.violations.clear();
        self.look_at.clear();
        self.free.clear();
        self.ready.clear();
        self.awaited.iter_mut().for_each(Vec::clear);
        self.readiness.clear();
        self.readiness.resize(threads.count(), Readiness::Done);
        self.cut.clone_from(&self.state.done);
        let done = self.cut.iter().enumerate();
        self.visible.clear();
        self.visible.extend(done.map(|(thread, done)| visible.of_thread(thread).partition_point(|at| at < done)));
        for lock in self.touched.drain(..) {
            self.latest[lock] = None;
        }
        for section in self.state.held() {
            let lock = sections.get(section).lock.index();
            self.touched.push(lock);
            self.latest[lock] = self.latest[lock].max(Some(section));
        }
    }

    /// What an event does in this run.
    #[inline]
    pub(super) fn op(&self, event: EventId) -> Op {
        let op = self.index.op(event);
        match op.on_other_side() {
            false => op,
            true if self.values.is_taken(&self.proposal, event) => op.if_it_happens(),
            true => Op::Mark,
        }
    }

    // What can happen next.

    /// Finds out about threads whose readiness may have changed.
    fn look(&mut self) {
        while let Some(thread) = self.look_at.pop() {
            self.pass_over(thread);
            self.classify(thread);
        }
    }

    /// Executes what comes before the next visible event of a thread.
    fn pass_over(&mut self, thread: usize) {
        let (visible, done) = (self.index.visible.of_thread(thread), self.state.done[thread]);
        let end = visible.get(self.visible[thread]).map_or(self.cut[thread], |&next| next.min(self.cut[thread]));
        if end > done {
            self.order.extend_from_slice(&self.index.threads.events(thread)[done as usize..end as usize]);
            self.state.done[thread] = end;
            self.wake_waiting_for(thread);
        }
    }

    fn classify(&mut self, thread: usize) {
        let threads = &self.index.threads;
        if self.state.done[thread] >= self.cut[thread] {
            self.readiness[thread] = Readiness::Done;
            return;
        }
        let event = threads.event(thread, self.state.done[thread]);
        if let Some((other, count)) = self.state.awaits(event, thread) {
            return self.wait_for(thread, other, count);
        }
        let missing = self.proposal.before(event).find(|&first| !self.state.happened(first));
        if let Some(first) = missing {
            return self.wait_for(thread, threads.thread(first), threads.position(first) + 1);
        }
        let readiness = self.readiness_for(event, thread);
        self.readiness[thread] = readiness;
        match readiness {
            Readiness::Free => self.free.push(thread),
            Readiness::Ready => self.ready.push(Reverse((event, thread))),
            _ => {}
        }
    }

    fn wait_for(&mut self, thread: usize, other: usize, count: u32) {
        self.readiness[thread] = Readiness::Thread;
        self.awaited[other].push((count, thread));
    }

    fn readiness_for(&self, event: EventId, thread: usize) -> Readiness {
        let op = self.op(event);
        if op.reads() {
            return match self.values.finds(&self.proposal, event) {
                Finds::Unexpected => Readiness::Value,
                Finds::Expected if !op.writes() => Readiness::Free,
                _ => Readiness::Ready,
            };
        }
        match (self.state.obstacle(event, thread, op), op) {
            (Some(Obstacle::Lock { .. }), _) => Readiness::Lock,
            (Some(Obstacle::Semaphore), _) => Readiness::Semaphore,
            (Some(Obstacle::Unheld | Obstacle::Count { .. }), _) => Readiness::Probe,
            (Some(_), _) => Readiness::Never,
            (_, Op::Write | Op::AtomicWrite | Op::Free | Op::Notify | Op::NotifyAll | Op::SemWait) => Readiness::Ready,
            (_, Op::Acquire | Op::ReadAcquire | Op::WaitEnd) if self.index.sections.of_event(event).is_some() => {
                Readiness::Ready
            }
            _ => Readiness::Free,
        }
    }

    /// The thread that goes on; if none can without breaking a rule, the one whose next event comes first in the trace.
    fn pick(&mut self) -> Option<usize> {
        let threads = &self.index.threads;
        loop {
            let (thread, expected) = match (self.free.pop(), self.ready.peek()) {
                (Some(thread), _) => (thread, Readiness::Free),
                (None, Some(&Reverse((event, thread)))) => {
                    self.ready.pop();
                    if self.state.done[thread] != threads.position(event) {
                        continue;
                    }
                    (thread, Readiness::Ready)
                }
                (None, None) => break,
            };
            if self.readiness[thread] != expected {
                continue;
            }
            // Something may have changed since it was queued.
            let event = threads.event(thread, self.state.done[thread]);
            let now = self.readiness_for(event, thread);
            if matches!(now, Readiness::Free | Readiness::Ready) {
                return Some(thread);
            }
            self.readiness[thread] = now;
        }
        let stuck = |thread: usize| {
            let breaks_a_rule = match self.readiness[thread] {
                Readiness::Value => !V::READS_YIELD,
                Readiness::Lock | Readiness::Semaphore | Readiness::Probe | Readiness::Never => true,
                _ => return None,
            };
            Some((breaks_a_rule, threads.event(thread, self.state.done[thread]), thread))
        };
        (0..threads.count()).filter_map(stuck).min().map(|(_, _, thread)| thread)
    }

    // Execution.

    fn execute(&mut self, thread: usize) {
        let event = self.index.threads.event(thread, self.state.done[thread]);
        let op = self.op(event);
        let obstacle = match op.is_access() {
            true => self.state.outside_block(event),
            false => self.state.obstacle(event, thread, op),
        };
        if let Some(obstacle) = obstacle {
            let done = self.state.done.clone();
            self.violations.push(Violation::Synchronisation { event, obstacle, done });
        }
        self.values.perform(&self.proposal, event, thread, op, &mut self.violations);
        let change = self.state.perform(event, thread, op);
        self.visible[thread] += 1;
        self.steps += 1;
        self.order.push(event);
        self.wake_waiting_for(thread);
        let waits_for = match change {
            Some(Change::Lock) => Some(Readiness::Lock),
            Some(Change::Semaphore) => Some(Readiness::Semaphore),
            Some(Change::Taken) => None,
            None => op.writes().then_some(Readiness::Value),
        };
        let probe = change.map(|_| Readiness::Probe);
        for readiness in waits_for.into_iter().chain(probe) {
            self.look_at.extend((0..self.readiness.len()).filter(|&waiter| self.readiness[waiter] == readiness));
        }
        self.look_at.push(thread);
        self.look();
    }

    /// Threads that waited for a thread to come so far look again.
    fn wake_waiting_for(&mut self, thread: usize) {
        let mut at = 0;
        while at < self.awaited[thread].len() {
            if self.awaited[thread][at].0 <= self.state.done[thread] {
                let (_, waiter) = self.awaited[thread].swap_remove(at);
                if self.readiness[waiter] == Readiness::Thread {
                    self.look_at.push(waiter);
                }
            } else {
                at += 1;
            }
        }
    }
}
