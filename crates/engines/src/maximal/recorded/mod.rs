//! Recorded values: at levels `writer`, `value` and `control`, a read that counts finds what it found in the trace.
//!
//! Which reads count is a matter of the level: all of them, or at `control` those before a branch of their thread, and
//! those before a write that such a read is to see.

mod encoding;

use crate::maximal::index::Index;
use crate::maximal::proposal::Proposal;
use crate::maximal::run::Violation;
use crate::maximal::semantics::{Finds, Values};
use snag_model::Level;
use snag_model::{EventId, Op};

/// A read that counts found something else in a cell. `log` is the last entry of the cell's log at that time.
#[derive(Debug)]
pub(crate) struct Unexpected {
    read: EventId,
    cell: usize,
    log: Option<u32>,
}

/// A write of a run, linked to the one before it in the same cell.
#[derive(Clone, Copy)]
struct Logged {
    write: EventId,
    /// A read before it in its thread that saw something else: so it is not known what was written.
    doubt: Option<EventId>,
    previous: Option<u32>,
}

/// Why the reads of a thread before a position count: a read of another thread is to see the write there.
#[derive(Clone, Copy)]
struct Reason {
    end: u32,
    read: EventId,
    cell: usize,
}

/// Memory as the log of its writes.
pub(crate) struct Recorded<'i> {
    index: &'i Index<'i>,
    base: EventId,
    log: Vec<Logged>,
    /// Per cell the run that wrote it last, and the last entry of its log.
    last: Vec<(u32, u32)>,
    /// The number of this run.
    round: u32,
    /// Per thread the position before which reads count.
    counting: Vec<u32>,
    /// At `control`, per thread why its reads count beyond its last branch.
    reasons: Vec<Vec<Reason>>,
    /// At `control`, per thread the first read that saw something else.
    astray: Vec<Option<EventId>>,
}

impl Recorded<'_> {
    /// What a cell held where a violation was noted is at the head of this list; the newest write first.
    fn history(&self, from: Option<u32>) -> impl Iterator<Item = Logged> {
        let mut next = from;
        std::iter::from_fn(move || {
            let entry = self.log[next? as usize];
            next = entry.previous;
            Some(entry)
        })
    }

    /// Whether a read must see what it may see: by what follows it, or because the solver says so.
    fn counts(&self, proposal: &Proposal, read: EventId) -> bool {
        let threads = &self.index.threads;
        threads.position(read) < self.counting[threads.thread(read)] || proposal.has_choice(read)
    }

    /// Whether a read finds what it may see, in all its cells.
    fn sees_enough(&self, read: EventId) -> bool {
        self.index.memory.cells_of(read).all(|cell| self.sees_enough_in(read, cell))
    }

    fn sees_enough_in(&self, read: EventId, cell: usize) -> bool {
        let memory = &self.index.memory;
        if self.index.visible.is_stable(cell) {
            return true;
        }
        match self.last_write(cell) {
            Some(last) => {
                let Logged { write, doubt, .. } = self.log[last as usize];
                doubt.is_none() && memory.may_see(read, cell, Some(write))
            }
            None => memory.may_see(read, cell, memory.last_before(cell, self.base)),
        }
    }

    fn last_write(&self, cell: usize) -> Option<u32> {
        let (round, entry) = self.last[cell];
        (round == self.round).then_some(entry)
    }

    fn count_reads(&mut self, thread: usize, end: u32) {
        self.counting[thread] = self.counting[thread].max(end);
    }
}

impl<'i> Values<'i> for Recorded<'i> {
    type Broken = Unexpected;

    const MOST_VIOLATIONS: usize = 64;
    const READS_YIELD: bool = false;

    fn new(index: &'i Index<'i>) -> Recorded<'i> {
        Recorded {
            index,
            base: EventId(0),
            log: Vec::new(),
            last: vec![(0, 0); index.cells.count()],
            round: 0,
            counting: Vec::new(),
            reasons: vec![Vec::new(); index.threads.count()],
            astray: Vec::new(),
        }
    }

    fn reset(&mut self, base: EventId) {
        self.base = base;
        self.round += 1;
        self.log.clear();
        self.reasons.iter_mut().for_each(Vec::clear);
        self.counting.clear();
        self.counting.resize(self.index.threads.count(), 0);
        self.astray.clear();
        self.astray.resize(self.index.threads.count(), None);
    }

    fn extend(&mut self, thread: usize, count: u32) {
        self.count_reads(thread, self.index.counting(thread, count));
    }

    fn counting(&self, thread: usize, count: u32) -> u32 {
        self.counting[thread].min(count)
    }

    /// At `control`, what is seen must also be known: the reads before it count.
    fn demand(&mut self, read: EventId, cell: usize, write: EventId) {
        let Index { threads, level, .. } = self.index;
        if *level == Level::Control && write >= self.base {
            let end = threads.position(write) + (self.index.op(write) == Op::Rmw) as u32;
            let thread = threads.thread(write);
            if end > self.counting[thread] {
                self.reasons[thread].push(Reason { end, read, cell });
            }
            self.count_reads(thread, end);
        }
    }

    #[inline]
    fn finds(&self, proposal: &Proposal, read: EventId) -> Finds {
        match self.counts(proposal, read) {
            false => Finds::Anything,
            true if self.sees_enough(read) => Finds::Expected,
            true => Finds::Unexpected,
        }
    }

    #[inline]
    fn perform(
        &mut self,
        proposal: &Proposal,
        event: EventId,
        thread: usize,
        op: Op,
        violations: &mut Vec<Violation<Unexpected>>,
    ) {
        let Index { memory, visible, level, .. } = self.index;
        if op.reads() && !self.sees_enough(event) {
            if self.counts(proposal, event) {
                for cell in memory.cells_of(event).filter(|&cell| !self.sees_enough_in(event, cell)) {
                    let log = self.last_write(cell);
                    violations.push(Violation::Value(Unexpected { read: event, cell, log }));
                }
            }
            if *level == Level::Control {
                self.astray[thread].get_or_insert(event);
            }
        }
        if op.writes() {
            for cell in memory.cells_of(event).filter(|&cell| !visible.is_stable(cell)) {
                let entry = Logged { write: event, doubt: self.astray[thread], previous: self.last_write(cell) };
                self.last[cell] = (self.round, self.log.len() as u32);
                self.log.push(entry);
            }
        }
    }
}
