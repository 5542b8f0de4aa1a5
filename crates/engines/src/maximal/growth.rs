//! Which events a run is to execute: what every schedule needs, what the proposal wants, and what these need next.

use crate::maximal::index::{Index, Semaphore};
use crate::maximal::run::Run;
use crate::maximal::semantics::Values;
use snag_model::{Action, EventId, Op, Probe};

/// Threads and how many of their events are to happen.
type Todo = Vec<(usize, u32)>;

impl<'i, V: Values<'i>> Run<'i, V> {
    /// Grows the cut to `least`, what is proposed, and what that needs: the writes that reads are to see, the ends of
    /// sections that stand in the way, the posts that waits were served by.
    pub(super) fn grow(&mut self, least: &[u32]) {
        let Index { threads, visible, .. } = self.index;
        let mut todo: Todo = least.iter().copied().enumerate().collect();
        let included = self.proposal.included.iter();
        todo.extend(included.map(|&event| (threads.thread(event), threads.position(event) + 1)));
        let mut settled = self.visible.clone();
        loop {
            while let Some((thread, count)) = todo.pop() {
                if count > self.cut[thread] {
                    self.extend(thread, count, &mut todo);
                }
            }
            for (thread, settled) in settled.iter_mut().enumerate() {
                let counting = self.values.counting(thread, self.cut[thread]);
                while let Some(&position) = visible.of_thread(thread).get(*settled).filter(|&&p| p < counting) {
                    let event = threads.event(thread, position);
                    *settled += 1;
                    if self.index.op(event).reads() {
                        self.settle(event, &mut todo);
                    }
                }
            }
            if todo.is_empty() {
                return;
            }
        }
    }

    /// The first `count` events of a thread are to happen.
    fn extend(&mut self, thread: usize, count: u32, todo: &mut Todo) {
        let Index { threads, saturated, visible, semaphores, .. } = self.index;
        let from = std::mem::replace(&mut self.cut[thread], count);
        let last = threads.event(thread, count - 1);
        saturated.row(last).for_each(|other, needed| {
            if needed > self.cut[other] && other != thread {
                todo.push((other, needed));
            }
        });
        self.values.extend(thread, count);
        let visible = visible.of_thread(thread);
        let visible = &visible[visible.partition_point(|&position| position < from)..];
        for &position in visible.iter().take_while(|&&position| position < count) {
            let event = threads.event(thread, position);
            for first in self.proposal.before(event) {
                todo.push((threads.thread(first), threads.position(first) + 1));
            }
            match self.op(event) {
                Op::Acquire | Op::ReadAcquire | Op::WaitEnd => self.close_other(event, todo),
                op if op.probes() => self.want_observed(event, todo),
                Op::SemWait => {
                    let semaphore = &semaphores[self.index.trace.events.targets()[event.index()] as usize];
                    let number = semaphore.waits.partition_point(|&wait| wait < event);
                    if let Some(post) = number.checked_sub(semaphore.initial as usize) {
                        self.want(semaphore.posts[post], todo);
                    }
                }
                _ => {}
            }
        }
    }

    /// A failed attempt is to find what it found: what that rested on is to happen.
    fn want_observed(&self, attempt: EventId, todo: &mut Todo) {
        let Index { trace, semaphores, probes, .. } = self.index;
        if let Action::Probe(Probe::Count { semaphore, .. }) = trace.action(attempt) {
            let Semaphore { posts, waits, .. } = &semaphores[semaphore.index()];
            for events in [posts, waits] {
                let before = &events[..events.partition_point(|&event| event < attempt)];
                before.iter().for_each(|&event| self.want(event, todo));
            }
        }
        let grounds = probes.iter().flat_map(|probes| probes.rests_on(attempt));
        grounds.for_each(|&ground| self.want(EventId(ground), todo));
    }

    /// An event is to happen if it may.
    fn want(&self, event: EventId, todo: &mut Todo) {
        let (thread, position) = (self.index.threads.thread(event), self.index.threads.position(event));
        if position >= self.cut[thread] && position < self.proposal.most[thread] {
            todo.push((thread, position + 1));
        }
    }

    /// Of two sections on a lock the one that comes first in the trace is to end.
    fn close_other(&mut self, begin: EventId, todo: &mut Todo) {
        let sections = &self.index.sections;
        let Some(section) = sections.of_event(begin) else { return };
        let lock = sections.get(section).lock.index();
        let Some(other) = self.latest[lock].replace(section) else {
            self.touched.push(lock);
            return;
        };
        let (first, last) = match sections.get(other).start < begin {
            true => (other, section),
            false => (section, other),
        };
        self.latest[lock] = Some(last);
        for end in sections.ends(first) {
            // On a side that is not taken it ends nothing.
            if self.op(end) != Op::Mark {
                self.want(end, todo);
            }
        }
    }

    /// A read counts: what it is to see is to happen.
    fn settle(&mut self, read: EventId, todo: &mut Todo) {
        let Index { memory, visible, .. } = self.index;
        for cell in memory.cells_of(read).filter(|&cell| !visible.is_stable(cell)) {
            let source = self.proposal.choice(read, cell).unwrap_or_else(|| memory.seen(read, cell));
            if let Some(write) = source {
                self.want(write, todo);
                self.values.demand(read, cell, write);
            }
        }
    }
}
