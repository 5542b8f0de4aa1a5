//! Orders as clocks: for each event, how many events of each other thread come before it.
//!
//! Events of a thread share a row as long as nothing from other threads is added, so a clock of a long trace takes
//! a row only where threads meet. All orders here are part of the order of the trace.

use crate::maximal::counts::{Counts, Row, are_sparse};
use crate::maximal::threads::Threads;
use snag_model::{EventId, SparseVector};

/// An order of the events of a trace, closed under thread order and transitive.
#[derive(Clone)]
pub(crate) struct Clock {
    width: usize,
    row_of: Vec<u32>,
    /// Rows of `width` counts each. What a row says about its own thread is meaningless: the position says it.
    rows: Vec<u32>,
    /// The rows instead, if there are many threads.
    trees: Vec<SparseVector>,
}

impl Clock {
    /// How many events of each other thread come before the event.
    #[inline]
    pub fn row(&self, event: EventId) -> Row<'_> {
        let row = self.row_of[event.index()] as usize;
        match self.trees.is_empty() {
            true => Row::Flat(&self.rows[row * self.width..][..self.width]),
            false => Row::Sparse(&self.trees[row]),
        }
    }

    /// Whether more comes before the event than before its predecessor in its thread.
    #[inline]
    pub fn meets_others(&self, threads: &Threads, event: EventId) -> bool {
        match threads.previous(event) {
            Some(previous) => self.row_of[previous.index()] != self.row_of[event.index()],
            None => self.row_of[event.index()] != 0,
        }
    }

    /// Whether `a` is `b` or comes before it.
    #[inline]
    pub fn reaches(&self, threads: &Threads, a: EventId, b: EventId) -> bool {
        let thread = threads.thread(a);
        match thread == threads.thread(b) {
            true => a <= b,
            false => self.row(b).get(thread) > threads.position(a),
        }
    }

    /// The position in `thread` of the first event that comes after `event` or is it; the length of the thread if
    /// there is none.
    pub fn first_after(&self, threads: &Threads, event: EventId, thread: usize) -> u32 {
        let (own, position) = (threads.thread(event), threads.position(event));
        if own == thread {
            return position;
        }
        threads.events(thread).partition_point(|&other| self.row(other).get(own) <= position) as u32
    }

    /// Adds to the counts `cut` an event and all that comes before it. Says whether that was new.
    pub fn include(&self, threads: &Threads, event: EventId, cut: &mut [u32]) -> bool {
        let (thread, position) = (threads.thread(event), threads.position(event));
        if cut[thread] > position {
            return false;
        }
        match self.row(event) {
            Row::Flat(row) => cut.iter_mut().zip(row).for_each(|(count, &other)| *count = (*count).max(other)),
            row => row.for_each(|thread, count| cut[thread] = cut[thread].max(count)),
        }
        cut[thread] = cut[thread].max(position + 1);
        true
    }

    /// Of how many events it knows.
    pub fn len(&self) -> usize {
        self.row_of.len()
    }

    /// Bytes that it takes.
    pub fn memory(&self) -> usize {
        // A tree of its own takes a path from the root to an entry.
        4 * (self.row_of.capacity() + self.rows.capacity()) + 512 * self.trees.len()
    }
}

/// A clock under construction, event by event in the order of the trace.
pub(crate) struct Builder<'a> {
    threads: &'a Threads,
    clock: Clock,
    /// The counts of each thread after its last event, and the row that holds them unless they have grown since.
    current: Vec<Counts>,
    row: Vec<u32>,
    grown: Vec<bool>,
}

impl<'a> Builder<'a> {
    pub fn new(threads: &'a Threads, events: usize) -> Builder<'a> {
        let width = threads.count();
        // Row 0 is all zero.
        let (rows, trees) = match are_sparse(width) {
            false => (vec![0; width], Vec::new()),
            true => (Vec::new(), vec![SparseVector::default()]),
        };
        Builder {
            threads,
            clock: Clock { width, row_of: Vec::with_capacity(events), rows, trees },
            current: vec![Counts::none(width); width],
            row: vec![0; width],
            grown: vec![false; width],
        }
    }

    /// What comes before the next event of a thread, as far as it was told.
    #[inline]
    pub fn current(&self, thread: usize) -> Row<'_> {
        self.current[thread].row()
    }

    /// Whether that is what another row says.
    pub fn is_current(&self, thread: usize, row: Row) -> bool {
        self.current[thread].is_same(row, thread)
    }

    /// The clock of the events so far.
    pub fn so_far(&self) -> &Clock {
        &self.clock
    }

    /// Whether the next event of a thread was told something new.
    pub fn has_grown(&self, thread: usize) -> bool {
        self.grown[thread]
    }

    /// All that `counts` say comes before the next event of a thread. True if that is new.
    #[inline]
    pub fn join(&mut self, thread: usize, counts: Row) -> bool {
        let new = self.current[thread].join(counts, thread);
        self.grown[thread] |= new;
        new
    }

    /// An event that was finished comes before the next event of a thread. True if that is new.
    pub fn join_event(&mut self, thread: usize, event: EventId) -> bool {
        let (other, position) = (self.threads.thread(event), self.threads.position(event));
        let current = &mut self.current[thread];
        if other == thread || current.row().get(other) > position {
            return false;
        }
        // First what it brings along: much of that may be shared.
        current.join(self.clock.row(event), thread);
        current.raise(other, position + 1);
        self.grown[thread] = true;
        true
    }

    /// The next event, of that thread, is finished.
    #[inline]
    pub fn finish(&mut self, thread: usize) {
        if self.grown[thread] {
            self.grown[thread] = false;
            let Clock { width, rows, trees, .. } = &mut self.clock;
            match &self.current[thread] {
                Counts::Flat(counts) => {
                    self.row[thread] = (rows.len() / *width) as u32;
                    rows.extend_from_slice(counts);
                }
                Counts::Sparse(counts) => {
                    self.row[thread] = trees.len() as u32;
                    trees.push(counts.clone());
                }
            }
        }
        self.clock.row_of.push(self.row[thread]);
    }

    /// Adds to `counts` the finished last event of a thread, at a position, and all before it.
    pub fn gather(&self, thread: usize, position: u32, counts: &mut Counts) {
        // Which thread they belong to is open: all of them count.
        counts.join(self.current(thread), thread);
        counts.raise(thread, position + 1);
    }

    pub fn done(self) -> Clock {
        self.clock
    }
}
