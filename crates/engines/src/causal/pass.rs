//! The clocks of one pass: what happens before, what causally precedes, what is ordered.
//!
//! Every thread has three kinds of knowledge. *Happens-before* and *causally
//! precedes* flow along the same edges and share rows ([`Clocks::paired_slot`]).
//! *Ordered* is what causally precedes, together with what the must order puts before; it
//! flows along the edges of everything but locks, and takes over what causally precedes
//! whenever that grows. Two conflicting accesses race if the first is not ordered before the
//! second. What is added to "causally precedes", and when, is up to the [`Rules`] of CP and WCP.

use super::sections::{SectionId, Sections};
use crate::clocks::{Clocks, Slot, Stamp, Time};
use crate::happens_before::run::Kind;
use crate::sync::Sync;
use snag_model::events::Event;
use snag_model::{Action, Cells, EventId, Op, ThreadId, Trace};
use std::ops::Range;

/// What makes critical sections ordered.
pub(crate) trait Rules {
    /// A section has begun.
    fn entered(&mut self, pass: &mut Pass, slot: Slot, section: SectionId);

    /// A cell is accessed; not yet judged.
    fn accessing(&mut self, pass: &mut Pass, thread: ThreadId, slot: Slot, cell: usize, kind: Kind);

    /// A section is about to end.
    fn leaving(&mut self, pass: &mut Pass, slot: Slot, section: SectionId);

    /// A section is open and its thread has no more events.
    fn left_open(&mut self, pass: &mut Pass, slot: Slot, section: SectionId);

    /// Sections that may still be asked for by other than [`Pass::close`].
    fn needed(&self, pass: &Pass, mark: &mut dyn FnMut(SectionId));

    /// Bytes in use.
    fn memory(&self) -> usize;
}

/// One pass over some events of a trace.
pub(crate) struct Pass<'t> {
    pub trace: &'t Trace,
    pub cells: &'t Cells,
    pub sections: &'t Sections,
    /// What happens before, and in the shadows what causally precedes. Slots are twice those of `order`.
    pub causes: Clocks,
    pub(super) cause_sync: Sync,
    /// What is ordered before.
    pub order: Clocks,
    pub(super) must_sync: Sync,
    /// What was known at the end of each section that has ended.
    pub(super) released: Vec<Stamp>,
    /// Open sections of each thread.
    pub held: Vec<Vec<SectionId>>,
    next_section: SectionId,
    /// Time of the current event.
    now: Time,
    /// When what is ordered before a slot's thread last grew.
    grown: Vec<Time>,
    /// When a slot's thread last let others know what it knows.
    published: Vec<Time>,
    /// When each user of a lock last looked for sections before its own.
    looked: Vec<Time>,
    found: Vec<SectionId>,
    /// Accesses may take part in synchronisation.
    accesses_synchronise: bool,
    has_methods: bool,
    /// Look for unused rows all the time, and spoil them: for tests.
    pub eager: bool,
}

impl<'t> Pass<'t> {
    pub fn new(trace: &'t Trace, cells: &'t Cells, sections: &'t Sections) -> Pass<'t> {
        let threads = trace.tables.thread_count();
        let cause_sync = Sync::new(trace, cells);
        Pass {
            trace,
            cells,
            sections,
            causes: Clocks::flat(threads),
            accesses_synchronise: cause_sync.orders_accesses() || cause_sync.has_methods(),
            has_methods: cause_sync.has_methods(),
            cause_sync,
            order: Clocks::flat(threads),
            must_sync: Sync::new(trace, cells),
            released: vec![Stamp::NEVER; sections.all.len()],
            held: vec![Vec::new(); threads],
            next_section: 0,
            now: 0,
            grown: Vec::new(),
            published: Vec::new(),
            looked: vec![0; sections.users.len()],
            found: Vec::new(),
            eager: false,
        }
    }

    /// Whether accesses carry knowledge from thread to thread.
    pub fn accesses_synchronise(&self) -> bool {
        self.accesses_synchronise
    }

    /// The slot of a thread.
    #[inline(always)]
    pub fn slot(&mut self, thread: ThreadId) -> Slot {
        match self.order.slot_if_seen(thread) {
            Some(slot) => slot,
            None => self.start(thread),
        }
    }

    #[cold]
    fn start(&mut self, thread: ThreadId) -> Slot {
        let slot = self.order.slot(thread);
        let paired = self.causes.paired_slot(thread);
        debug_assert_eq!(paired, 2 * slot);
        self.make_room(slot);
        slot
    }

    fn make_room(&mut self, slot: Slot) {
        if self.grown.len() <= slot as usize {
            self.grown.resize(slot as usize + 1, 0);
            self.published.resize(slot as usize + 1, 0);
        }
    }

    /// An event that does not touch memory.
    pub fn synchronise(&mut self, rules: &mut impl Rules, slot: Slot, number: usize) {
        let (op, thread) = (self.trace.events.ops()[number], self.trace.events.threads()[number]);
        self.now = number as Time + 1;
        if !self.has_methods && matches!(op, Op::Acquire | Op::Release) {
            // The common case, from the columns alone: without what only others need.
            let event = Event::new(thread, op, self.trace.events.targets()[number]);
            return self.lock(rules, slot, number, &event);
        }
        let event = self.trace.events.get(number);
        let time = number as Time + 1;
        if self.has_methods {
            self.cause_sync.enter_event(&mut self.causes, 2 * slot, number);
            self.must_sync.enter_event(&mut self.order, slot, number);
            self.learned(slot);
        }
        match event.action() {
            action if action.lock().is_some() => self.lock(rules, slot, number, &event),
            Action::Fork { thread: child, .. } => {
                let birth = self.order.stamp(slot, time);
                let child_slot = self.order.bear(child, birth);
                self.causes.fork_pair(2 * slot, child, time, 2 * child_slot);
                self.note(slot, number);
                self.make_room(child_slot);
                self.grown[child_slot as usize] = time;
                self.published[slot as usize] = time;
            }
            action => {
                // Before its slot is taken over.
                match action {
                    Action::Join { thread: child, .. } => self.end_thread(rules, child),
                    Action::End => self.end_thread(rules, thread),
                    _ => {}
                }
                self.cause_sync.event(&mut self.causes, 2 * slot, number, &event);
                self.must_sync.event(&mut self.order, slot, number, &event);
                self.learned(slot);
                self.published[slot as usize] = time;
            }
        }
        if self.has_methods {
            self.cause_sync.leave_event(&mut self.causes, 2 * slot, time);
            self.must_sync.leave_event(&mut self.order, slot, time);
            self.published[slot as usize] = time;
        }
    }

    /// A failed attempt of another thread may rest on an acquire or a fork.
    fn note(&mut self, slot: Slot, number: usize) {
        self.cause_sync.note(&mut self.causes, 2 * slot, number);
        if self.must_sync.note(&mut self.order, slot, number) {
            self.published[slot as usize] = number as Time + 1;
        }
    }

    fn lock(&mut self, rules: &mut impl Rules, slot: Slot, number: usize, event: &Event) {
        let time = number as Time + 1;
        match event.op {
            Op::Acquire | Op::ReadAcquire | Op::WaitEnd => {
                self.cause_sync.event(&mut self.causes, 2 * slot, number, event);
                if self.sections.all.get(self.next_section as usize).is_some_and(|s| s.acquire == number as u32) {
                    let section = self.next_section;
                    self.next_section += 1;
                    self.held[event.thread.index()].push(section);
                    rules.entered(self, slot, section);
                }
                self.refresh(slot);
                self.note(slot, number);
            }
            _ => {
                let held = &self.held[event.thread.index()];
                let ending = held.iter().rposition(|&s| self.sections.get(s).release == number as u32);
                if let Some(at) = ending {
                    let section = held[at];
                    rules.leaving(self, slot, section);
                    self.held[event.thread.index()].remove(at);
                    self.released[section as usize] = self.causes.stamp(2 * slot, time);
                }
                self.cause_sync.event(&mut self.causes, 2 * slot, number, event);
                self.published[slot as usize] = time;
            }
        }
    }

    /// What must be known before an event that touches memory is judged.
    pub fn before_access(&mut self, rules: &mut impl Rules, slot: Slot, number: usize, kind: Kind) {
        let (thread, touched) = (self.trace.events.threads()[number], self.touched(number));
        self.now = number as Time + 1;
        if self.accesses_synchronise {
            let event = self.trace.events.get(number);
            self.cause_sync.enter_event(&mut self.causes, 2 * slot, number);
            self.must_sync.enter_event(&mut self.order, slot, number);
            if self.cause_sync.orders_accesses() {
                self.cause_sync.before_touch(&mut self.causes, 2 * slot, number, self.cells);
                self.must_sync.before_touch(&mut self.order, slot, number, self.cells);
                for cell in touched.clone() {
                    self.cause_sync.before_access(&mut self.causes, 2 * slot, &event, cell);
                    self.must_sync.before_access(&mut self.order, slot, &event, cell);
                }
            }
            self.learned(slot);
        }
        if !self.held[thread.index()].is_empty() {
            for cell in touched {
                rules.accessing(self, thread, slot, cell, kind);
            }
        }
    }

    /// The cells of an event that touches memory.
    fn touched(&self, number: usize) -> Range<usize> {
        self.cells.touched_by(self.trace, EventId::new(number))
    }

    /// What an event that touches memory lets others know.
    pub fn after_access(&mut self, slot: Slot, number: usize) {
        if !self.accesses_synchronise {
            return;
        }
        let event = self.trace.events.get(number);
        let time = number as Time + 1;
        if self.cause_sync.orders_accesses() {
            for cell in self.touched(number) {
                self.cause_sync.after_access(&mut self.causes, 2 * slot, time, &event, cell);
                self.must_sync.after_access(&mut self.order, slot, time, &event, cell);
            }
        }
        self.cause_sync.leave_event(&mut self.causes, 2 * slot, time);
        self.must_sync.leave_event(&mut self.order, slot, time);
        self.published[slot as usize] = time;
    }

    /// All that was known at the end of `section` causally precedes what the thread does from now on.
    /// Says whether that was new.
    pub fn precede(&mut self, slot: Slot, section: SectionId) -> bool {
        let stamp = self.released[section as usize];
        debug_assert!(stamp.time > 0, "only sections that have ended come before");
        let new = self.causes.precede(2 * slot, stamp);
        if new {
            self.refresh(slot);
        }
        new
    }

    /// An access that raced comes before what the thread does from now on, by force.
    pub fn force(&mut self, slot: Slot, stamp: Stamp) {
        self.causes.join(2 * slot, stamp);
        self.causes.precede(2 * slot, stamp);
        self.refresh(slot);
    }

    /// Whether a stamp of `causes` is ordered before what the thread does now.
    #[inline(always)]
    pub fn is_ordered(&self, slot: Slot, stamp_slot: Slot, time: Time) -> bool {
        self.order.knows(slot, stamp_slot / 2, time)
    }

    /// What causally precedes is ordered.
    fn refresh(&mut self, slot: Slot) {
        if self.order.learn_shadows(slot, &self.causes) {
            self.grown[slot as usize] = self.now;
        }
    }

    /// The same after the must order may have told something as well.
    fn learned(&mut self, slot: Slot) {
        self.order.learn_shadows(slot, &self.causes);
        self.grown[slot as usize] = self.now;
    }

    /// Rule (b): all that was known at the end of the latest sections of other threads, excluded by `section`, whose
    /// beginning is ordered before now, causally precedes; `found` is told of them. Only those later than `above` are
    /// looked at, and nothing if nothing has become ordered since the thread last looked for that lock: what there is precedes
    /// already.
    pub fn close(
        &mut self,
        slot: Slot,
        section: SectionId,
        above: Option<SectionId>,
        mut found: impl FnMut(&Pass, SectionId),
    ) {
        let own = self.sections.get(section);
        let has_readers = self.sections.locks[own.lock.index()].has_readers;
        // Between two sections of different kinds, what was found for the one says nothing about the other.
        if !has_readers && self.grown[slot as usize] < self.looked[own.user as usize] {
            return;
        }
        self.looked[own.user as usize] = self.now;
        let mut earlier = std::mem::take(&mut self.found);
        loop {
            let (order, known) = (&self.order, self.order.of(slot));
            let bound = |thread: ThreadId| order.slot_if_seen(thread).map_or(0, |other| known[other as usize]);
            self.sections.latest(own, above, bound, &mut earlier);
            let mut new = false;
            for &earlier in &earlier {
                found(self, earlier);
                new |= self.precede(slot, earlier);
            }
            // Sections of a lock that has readers may overlap: the end of one may lie after the beginning of another.
            if !(new && has_readers) {
                break;
            }
        }
        self.found = earlier;
    }

    /// The trace ends.
    pub fn finish(&mut self, rules: &mut impl Rules) {
        self.now += 1;
        for thread in (0..self.held.len()).map(ThreadId::new) {
            self.end_thread(rules, thread);
        }
    }

    /// A thread has had its last event: sections that are open end with it, all at once.
    fn end_thread(&mut self, rules: &mut impl Rules, thread: ThreadId) {
        let open = std::mem::take(&mut self.held[thread.index()]);
        if open.is_empty() {
            return;
        }
        let slot = self.slot(thread);
        // What one of them comes after may be what another one needs.
        loop {
            self.grown[slot as usize] = 0;
            for &section in open.iter().rev() {
                self.looked[self.sections.get(section).user as usize] = 0;
                rules.left_open(self, slot, section);
            }
            if self.grown[slot as usize] == 0 {
                break;
            }
        }
        self.grown[slot as usize] = self.now;
    }

    /// Whether others may have learned from the thread since a section began.
    pub fn has_published_since(&self, slot: Slot, section: SectionId) -> bool {
        self.published[slot as usize] > self.sections.get(section).acquire
    }

    /// The section that begins next.
    pub fn next_section(&self) -> SectionId {
        self.next_section
    }

    /// What causally precedes (or is) the last event of a slot's thread, for tests: of every thread the
    /// events before the given one.
    pub fn preceding(&self, slot: Slot) -> Vec<EventId> {
        let known = self.causes.of(2 * slot);
        let threads = (0..self.trace.tables.thread_count()).map(ThreadId::new);
        threads.map(|t| EventId(self.causes.slot_if_seen(t).map_or(0, |other| known[other as usize + 1]))).collect()
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.causes.memory()
            + self.order.memory()
            + self.released.capacity() * size_of::<Stamp>()
            + self.sections.all.capacity() * (size_of::<super::sections::Section>() + 8)
    }
}
