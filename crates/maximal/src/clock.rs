//! Orders as clocks: for each event, how many events of each other thread come before it.
//!
//! Events of a thread share a row as long as nothing from other threads is added, so a clock of a long trace takes
//! a row only where threads meet. All orders here are part of the order of the trace.

use crate::threads::Threads;
use snag_trace::EventId;

/// An order of the events of a trace, closed under thread order and transitive.
#[derive(Clone)]
pub(crate) struct Clock {
    width: usize,
    row_of: Vec<u32>,
    /// Rows of `width` counts each. What a row says about its own thread is meaningless: the position says it.
    rows: Vec<u32>,
}

impl Clock {
    /// How many events of each other thread come before the event.
    #[inline]
    pub fn row(&self, event: EventId) -> &[u32] {
        let start = self.row_of[event.index()] as usize * self.width;
        &self.rows[start..start + self.width]
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
            false => self.row(b)[thread] > threads.position(a),
        }
    }

    /// The position in `thread` of the first event that comes after `event` or is it; the length of the thread if
    /// there is none.
    pub fn first_after(&self, threads: &Threads, event: EventId, thread: usize) -> u32 {
        let (own, position) = (threads.thread(event), threads.position(event));
        if own == thread {
            return position;
        }
        threads.events(thread).partition_point(|&other| self.row(other)[own] <= position) as u32
    }

    /// Adds to the counts `cut` an event and all that comes before it. Says whether that was new.
    pub fn include(&self, threads: &Threads, event: EventId, cut: &mut [u32]) -> bool {
        let (thread, position) = (threads.thread(event), threads.position(event));
        if cut[thread] > position {
            return false;
        }
        for (count, &other) in cut.iter_mut().zip(self.row(event)) {
            *count = (*count).max(other);
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
        4 * (self.row_of.capacity() + self.rows.capacity())
    }
}

/// A clock under construction, event by event in the order of the trace.
pub(crate) struct Builder<'a> {
    threads: &'a Threads,
    clock: Clock,
    /// The counts of each thread after its last event, and the row that holds them unless they have grown since.
    current: Vec<u32>,
    row: Vec<u32>,
    grown: Vec<bool>,
}

impl<'a> Builder<'a> {
    pub fn new(threads: &'a Threads, events: usize) -> Builder<'a> {
        let width = threads.count();
        Builder {
            threads,
            clock: Clock { width, row_of: Vec::with_capacity(events), rows: vec![0; width] },
            current: vec![0; width * width],
            row: vec![0; width],
            grown: vec![false; width],
        }
    }

    /// What comes before the next event of a thread, as far as it was told.
    #[inline]
    pub fn current(&self, thread: usize) -> &[u32] {
        &self.current[thread * self.clock.width..(thread + 1) * self.clock.width]
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
    pub fn join(&mut self, thread: usize, counts: &[u32]) -> bool {
        let width = self.clock.width;
        join(&mut self.current[thread * width..(thread + 1) * width], counts, thread, &mut self.grown[thread])
    }

    /// An event that was finished comes before the next event of a thread. True if that is new.
    pub fn join_event(&mut self, thread: usize, event: EventId) -> bool {
        let width = self.clock.width;
        let (other, position) = (self.threads.thread(event), self.threads.position(event));
        let current = &mut self.current[thread * width..(thread + 1) * width];
        if other == thread || current[other] > position {
            return false;
        }
        current[other] = position + 1;
        self.grown[thread] = true;
        join(current, self.clock.row(event), thread, &mut self.grown[thread]);
        true
    }

    /// The next event, of that thread, is finished.
    #[inline]
    pub fn finish(&mut self, thread: usize) {
        if self.grown[thread] {
            self.grown[thread] = false;
            self.row[thread] = (self.clock.rows.len() / self.clock.width) as u32;
            let width = self.clock.width;
            self.clock.rows.extend_from_slice(&self.current[thread * width..(thread + 1) * width]);
        }
        self.clock.row_of.push(self.row[thread]);
    }

    /// Adds to `counts` the finished last event of a thread, at a position, and all before it.
    pub fn gather(&self, thread: usize, position: u32, counts: &mut [u32]) {
        for (count, &other) in counts.iter_mut().zip(self.current(thread)) {
            *count = (*count).max(other);
        }
        counts[thread] = counts[thread].max(position + 1);
    }

    pub fn done(self) -> Clock {
        self.clock
    }
}

#[inline]
fn join(current: &mut [u32], counts: &[u32], own: usize, grown: &mut bool) -> bool {
    let mut new = false;
    for (thread, (count, &other)) in current.iter_mut().zip(counts).enumerate() {
        if other > *count && thread != own {
            *count = other;
            new = true;
        }
    }
    *grown |= new;
    new
}
