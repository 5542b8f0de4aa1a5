//! The saturated order: what follows for every schedule from the reads that have to be kept and from the locks.
//!
//! Guarantee: if an event is in a feasible schedule without superfluous last reads, so is all that the saturated order
//! puts before it, earlier. Derived from facts by sound rules, so it may be cut short at any time:
//!
//! - a read that must be kept comes after one of the writes it may see, so after all that is before each of these;
//! - if a section on a lock has begun before an event inside another one on the same lock, it has ended before as well.
//!
//! The trace itself is feasible, so the saturated order is part of the order of the trace.
//! Cost: a few passes over the trace; for each read at most [`MOST_SOURCES`] writes are looked at.

use crate::maximal::clock::{Builder, Clock};
use crate::maximal::counts::{Counts, Row};
use crate::maximal::gallop;
use crate::maximal::hard::Hard;
use crate::maximal::index::Index;
use crate::maximal::sections::{Hold, Section, SectionId};
use snag_model::Level;
use snag_model::{EventId, Op};

/// Reads that could see more writes than this are left to later stages.
const MOST_SOURCES: usize = 64;
/// Passes over the trace; rarely more than three find anything new.
const MOST_PASSES: usize = 6;

/// Of a lock that more threads than this use only the nearest sections before an event are looked at, and a cell that
/// more threads write is not looked at.
const MOST_LISTS: usize = if cfg!(debug_assertions) { 6 } else { 256 };

/// How many these are.
const NEAREST: usize = 16;

/// After so many events somebody is asked whether to stop.
const PATIENCE: usize = 1 << 16;

/// Replaces the saturated order of an index, which is the hard order at first, by a stronger one; or leaves it as it is
/// if there is no time.
pub(crate) fn saturate(index: &mut Index, stop: &dyn Fn() -> bool) {
    for _ in 0..MOST_PASSES {
        let mut pass = Pass::new(index);
        if !pass.run(stop) {
            break;
        }
        let (clock, found) = (pass.builder.done(), pass.found);
        index.saturated = clock;
        if !found {
            return;
        }
    }
    index.saturated = close(index);
}

/// One pass, which takes what is known about later events from the pass before.
struct Pass<'i, 't> {
    index: &'i Index<'t>,
    builder: Builder<'i>,
    hard: Hard<'i>,
    /// At `control`: reads of each thread since its last branch.
    unsettled: Vec<Vec<EventId>>,
    /// Sections that each thread is in.
    open: Vec<Vec<SectionId>>,
    meet: Counts,
    /// Where the last search in each list of writes, and in each list of sections, ended.
    write_hints: Vec<u32>,
    section_hints: Vec<u32>,
    /// Something new was found.
    found: bool,
}

impl<'i, 't> Pass<'i, 't> {
    fn new(index: &'i Index<'t>) -> Pass<'i, 't> {
        let threads = &index.threads;
        Pass {
            index,
            builder: Builder::new(threads, index.trace.len()),
            hard: Hard::new(index.trace, index.cells, threads, index.missing.as_ref()),
            unsettled: vec![Vec::new(); threads.count()],
            open: vec![Vec::new(); threads.count()],
            meet: Counts::none(threads.count()),
            write_hints: vec![0; index.memory.list_count()],
            section_hints: vec![0; index.sections.list_count()],
            found: false,
        }
    }

    /// False if it was stopped.
    fn run(&mut self, stop: &dyn Fn() -> bool) -> bool {
        let Index { trace, threads, saturated, sections, .. } = self.index;
        for (index, &op) in trace.events.ops().iter().enumerate() {
            if index.is_multiple_of(PATIENCE) && stop() {
                return false;
            }
            let event = EventId::new(index);
            let thread = threads.thread(event);
            self.hard.before(&mut self.builder, threads, index);
            if saturated.meets_others(threads, event) {
                self.builder.join(thread, saturated.row(event));
            }
            let begins = match op {
                Op::Read | Op::AtomicRead | Op::Rmw => {
                    self.read(event, thread);
                    false
                }
                Op::Branch | Op::MethodBegin => {
                    self.branch(thread);
                    false
                }
                Op::Acquire | Op::ReadAcquire | Op::WaitEnd => self.begin(event, thread),
                _ => false,
            };
            if begins || self.builder.has_grown(thread) && !self.open[thread].is_empty() {
                self.sections(thread);
            }
            if matches!(op, Op::Release | Op::ReadRelease | Op::WaitBegin)
                && let Some(section) = sections.of_event(event)
            {
                self.open[thread].retain(|&open| open != section);
            }
            self.found |= self.builder.has_grown(thread) && !self.builder.is_current(thread, saturated.row(event));
            self.builder.finish(thread);
            self.hard.after(&self.builder, threads, index);
        }
        true
    }

    fn begin(&mut self, event: EventId, thread: usize) -> bool {
        let section = self.index.sections.of_event(event);
        self.open[thread].extend(section);
        section.is_some()
    }

    fn read(&mut self, read: EventId, thread: usize) {
        if self.index.level == Level::Control {
            // Counts only from the next branch on.
            self.unsettled[thread].push(read);
        } else if self.sources_meet(read, None) {
            self.builder.join(thread, self.meet.row());
        }
    }

    fn branch(&mut self, thread: usize) {
        for read in std::mem::take(&mut self.unsettled[thread]) {
            if self.sources_meet(read, Some(read)) {
                self.builder.join(thread, self.meet.row());
            }
        }
    }

    /// Leaves in `meet` what comes before a read whichever writes it sees; false if nothing is known to. What
    /// comes before the read is that of the thread's current event, or of a finished one.
    fn sources_meet(&mut self, read: EventId, finished: Option<EventId>) -> bool {
        let Index { threads, memory, .. } = self.index;
        let own = threads.thread(read);
        let mut any = false;
        let mut all = Counts::none(0);
        for cell in memory.cells_of(read) {
            let before = match finished {
                Some(event) => self.builder.so_far().row(event),
                None => self.builder.current(own),
            };
            let hints = &mut self.write_hints;
            let mut sources = Sources { index: self.index, earlier: self.builder.so_far(), before, hints };
            if !sources.meet(read, cell, &mut self.meet) {
                continue;
            }
            if any {
                all.join(self.meet.row(), own);
            } else {
                all.clone_from(&self.meet);
                any = true;
            }
        }
        if any {
            self.meet.clone_from(&all);
        }
        any
    }

    /// Sections that began before this event, on locks that its thread holds, have ended before it.
    fn sections(&mut self, thread: usize) {
        let Index { threads, sections, .. } = self.index;
        loop {
            let mut grown = false;
            for at in 0..self.open[thread].len() {
                let open = self.open[thread][at];
                let section = sections.get(open);
                let hold = Hold { lock: section.lock, shared: section.shared };
                if sections.users(hold.lock) > MOST_LISTS {
                    grown |= self.nearest_sections(thread, open, hold);
                    continue;
                }
                for (other, list) in sections.against(hold).filter(|(other, _)| *other != thread) {
                    let end = threads.end(other, self.builder.current(thread).get(other));
                    let count = gallop::count_before(&list.starts, end, &mut self.section_hints[list.number]);
                    if let Some(begun) = list.last(count)
                        && let Some(end) = sections.get(begun).end
                        && begun < open
                    {
                        grown |= self.builder.join_event(thread, end);
                    }
                }
            }
            if !grown {
                return;
            }
        }
    }
}

impl Pass<'_, '_> {
    /// The same for the last sections on the lock before an open one: what these come after, they have brought along.
    fn nearest_sections(&mut self, thread: usize, open: SectionId, hold: Hold) -> bool {
        let Index { threads, sections, .. } = self.index;
        let mut grown = false;
        for &other in sections.before(hold.lock, open).iter().rev().take(NEAREST) {
            let Section { lock, thread: owner, shared, start, end } = *sections.get(other);
            let begun = owner != thread && self.builder.current(thread).get(owner) > threads.position(start);
            if begun
                && hold.excludes(Hold { lock, shared })
                && let Some(end) = end
            {
                grown |= self.builder.join_event(thread, end);
            }
        }
        grown
    }
}

/// The writes that a read may see.
struct Sources<'p, 't> {
    index: &'p Index<'t>,
    /// The new order of events that are done in this pass.
    earlier: &'p Clock,
    /// What comes before the read.
    before: Row<'p>,
    hints: &'p mut [u32],
}

impl Sources<'_, '_> {
    /// Leaves in `meet` what comes before each write that the read may see in a cell. False if that is nothing, or
    /// too much work to tell.
    fn meet(&mut self, read: EventId, cell: usize, meet: &mut Counts) -> bool {
        let Index { threads, memory, .. } = self.index;
        let seen = memory.seen(read, cell);
        let Some(wanted) = memory.wanted(read, cell) else {
            let Some(write) = seen else { return false };
            let (thread, count) = (threads.thread(write), threads.position(write) + 1);
            meet.become_row(self.clock(write).row(write), thread, count);
            return true;
        };
        let own = threads.thread(read);
        let lists = memory.lists(cell);
        if lists.len() > MOST_LISTS {
            return false;
        }
        if lists.len() == 1 && memory.list(cell, lists.start).thread == own {
            return false;
        }
        // Per thread the last write that must come before the read.
        let mut latest: Vec<EventId> = Vec::new();
        for number in lists {
            let list = memory.list(cell, number);
            let end = threads.end(list.thread, self.count(list.thread, own, read));
            let before = gallop::count_before(list.events, end, &mut self.hints[number]);
            latest.extend(before.checked_sub(1).map(|last| list.events[last]));
        }
        if latest.is_empty() && memory.may_see(read, cell, None) {
            return false;
        }
        let (mut looked_at, mut any) = (0, false);
        for list in memory.writes_of(threads, cell, wanted) {
            let end = threads.end(list.thread, self.count(list.thread, own, read));
            let before = list.events.partition_point(|&w| w < end);
            for &write in &list.events[before.saturating_sub(1)..] {
                if write == read || self.reaches(read, write) {
                    break;
                }
                looked_at += 1;
                if looked_at > MOST_SOURCES {
                    return false;
                }
                if latest.iter().any(|&other| other != write && self.reaches(write, other)) {
                    continue;
                }
                let row = self.clock(write).row(write);
                let (thread, count) = (threads.thread(write), threads.position(write) + 1);
                match std::mem::replace(&mut any, true) {
                    false => meet.become_row(row, thread, count),
                    true => meet.meet(row, thread, count),
                }
            }
        }
        any
    }

    /// How many events of a thread come before the read.
    fn count(&self, thread: usize, own: usize, read: EventId) -> u32 {
        if thread == own { self.index.threads.position(read) } else { self.before.get(thread) }
    }

    /// The newest order that knows about an event.
    fn clock(&self, event: EventId) -> &Clock {
        if event.index() < self.earlier.len() { self.earlier } else { &self.index.saturated }
    }

    fn reaches(&self, a: EventId, b: EventId) -> bool {
        self.clock(b).reaches(&self.index.threads, a, b)
    }
}

/// Makes an order transitive. All of it is part of the order of the trace, so one pass is enough.
fn close(index: &Index) -> Clock {
    let Index { threads, saturated, trace, .. } = index;
    let mut builder = Builder::new(threads, trace.len());
    for number in 0..trace.len() {
        let event = EventId::new(number);
        let thread = threads.thread(event);
        if saturated.meets_others(threads, event) {
            saturated.row(event).for_each(|other, count| {
                if other != thread {
                    builder.join_event(thread, threads.event(other, count - 1));
                }
            });
        }
        builder.finish(thread);
    }
    builder.done()
}
