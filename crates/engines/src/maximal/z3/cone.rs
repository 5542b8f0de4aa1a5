//! The events that a target can need.
//!
//! Guarantee: if a feasible schedule leads to the target, so does that schedule without all events outside of the cone.
//! For the cone is closed under hard order; with a read it has every write that the read may see, with two sections that
//! exclude each other the ends of both, with a wait on a semaphore all posts, and with a failed attempt all that it may
//! rest on. So what is left out has served no event
//! that stays, and held no lock that one needs.

use crate::maximal::index::Index;
use crate::maximal::sections::{Hold, SectionId};
use crate::maximal::z3::encoding::sources;
use snag_model::{Action, EventId, Mode, Op, Probe};

pub(crate) struct Cone<'i, 't> {
    index: &'i Index<'t>,
    base: EventId,
    /// Per thread how many events are in the cone, and how many may happen at most.
    cut: Vec<u32>,
    most: Vec<u32>,
    /// Per lock the sections whose begin is in the cone.
    begun: Vec<Vec<SectionId>>,
    /// Events of each thread that have been looked at.
    done: Vec<u32>,
}

impl<'i, 't> Cone<'i, 't> {
    /// Per thread how many events a schedule for the target may need; `None` if it would need what cannot happen.
    pub fn of(index: &'i Index<'t>, events: &[EventId], base: EventId, end: EventId) -> Option<Vec<u32>> {
        let Index { threads, hard, sections, .. } = index;
        let mut most: Vec<u32> = (0..threads.count()).map(|thread| threads.count_before(thread, end)).collect();
        for event in events.iter().flat_map(|&event| [Some(event), index.free_of(event)]).flatten() {
            for (thread, most) in most.iter_mut().enumerate() {
                *most = (*most).min(hard.first_after(threads, event, thread));
            }
        }
        let cut: Vec<u32> = (0..threads.count()).map(|thread| threads.count_before(thread, base)).collect();
        let begun = vec![Vec::new(); index.trace.tables.lock_count()];
        let mut cone = Cone { index, base, done: cut.clone(), cut, most, begun };
        for thread in 0..threads.count() {
            for &hold in sections.held(thread, cone.cut[thread]) {
                cone.begun[hold.lock.index()].push(sections.open(threads, thread, hold, cone.cut[thread]));
            }
        }
        for &event in events {
            if let Some(previous) = threads.previous(event) {
                hard.include(threads, previous, &mut cone.cut);
            }
            let own = threads.thread(event);
            hard.row(event).for_each(|thread, count| {
                if thread != own {
                    cone.cut[thread] = cone.cut[thread].max(count);
                }
            });
        }
        if cone.cut.iter().zip(&cone.most).any(|(cut, most)| cut > most) {
            return None;
        }
        cone.grow();
        Some(cone.cut)
    }

    fn grow(&mut self) {
        while let Some(thread) = (0..self.cut.len()).find(|&thread| self.done[thread] < self.cut[thread]) {
            let event = self.index.threads.event(thread, self.done[thread]);
            self.done[thread] += 1;
            match self.index.op(event) {
                op if op.reads() => {
                    for cell in self.index.memory.cells_of(event) {
                        for write in sources(self.index, event, cell, self.base, &self.most).into_iter().flatten() {
                            self.include(write);
                        }
                    }
                }
                Op::Acquire | Op::ReadAcquire | Op::WaitEnd => self.begin(event),
                op if op.probes() => self.probe(event),
                Op::SemWait => {
                    let number = self.index.trace.events.targets()[event.index()] as usize;
                    for &post in &self.index.semaphores[number].posts {
                        self.include(post);
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds an event if it may happen, with all that comes before it. That may happen as well: an event that comes after what
    /// cannot happen cannot happen.
    fn include(&mut self, event: EventId) {
        let threads = &self.index.threads;
        if threads.position(event) < self.most[threads.thread(event)] {
            self.index.hard.include(threads, event, &mut self.cut);
        }
    }

    /// A failed attempt may rest on any section of the lock, and a count on all that is done with the semaphore.
    fn probe(&mut self, event: EventId) {
        let Index { trace, sections, semaphores, .. } = self.index;
        match trace.action(event) {
            Action::Probe(Probe::Held { lock, mode }) => {
                for (_, list) in sections.against(Hold { lock, shared: mode == Mode::Shared }) {
                    list.starts.iter().for_each(|&start| self.include(start));
                }
            }
            Action::Probe(Probe::Count { semaphore, .. }) => {
                let semaphore = &semaphores[semaphore.index()];
                semaphore.posts.iter().chain(&semaphore.waits).for_each(|&event| self.include(event));
            }
            _ => {}
        }
    }

    /// A section begins: it may have to end before others begin, or these before it does.
    fn begin(&mut self, event: EventId) {
        let sections = &self.index.sections;
        let Some(number) = sections.of_event(event) else { return };
        let section = *sections.get(number);
        let lock = section.lock.index();
        for at in 0..self.begun[lock].len() {
            let other = *sections.get(self.begun[lock][at]);
            let hold = |shared| Hold { lock: section.lock, shared };
            if other.thread != section.thread && hold(section.shared).excludes(hold(other.shared)) {
                for end in [section.end, other.end].into_iter().flatten() {
                    self.include(end);
                }
            }
        }
        self.begun[lock].push(number);
    }
}
