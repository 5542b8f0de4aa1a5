//! How many events of each thread: rows of clocks, in two representations.
//!
//! With few threads a row is an array. With many, rows that were made from one another share what they have in common
//! ([`SparseVector`]): otherwise a clock would take memory for every thread wherever two threads meet.

use snag_model::SparseVector;

/// With more threads than this, rows are trees. Tests have few threads, and should see both kinds of rows.
const MOST_FLAT: usize = if cfg!(debug_assertions) { 4 } else { 256 };

/// Whether rows for so many threads are trees.
pub(crate) fn are_sparse(threads: usize) -> bool {
    threads > MOST_FLAT
}

/// A row to look at.
#[derive(Clone, Copy)]
pub(crate) enum Row<'a> {
    Flat(&'a [u32]),
    Sparse(&'a SparseVector),
}

impl Row<'_> {
    /// How many events of a thread.
    #[inline]
    pub fn get(self, thread: usize) -> u32 {
        match self {
            Row::Flat(counts) => counts[thread],
            Row::Sparse(counts) => counts.get(thread),
        }
    }

    /// Calls `visit` for every thread of which there are events.
    #[inline]
    pub fn for_each(self, mut visit: impl FnMut(usize, u32)) {
        match self {
            Row::Flat(counts) => {
                counts
                    .iter()
                    .enumerate()
                    .filter(|(_, count)| **count > 0)
                    .for_each(|(thread, &count)| visit(thread, count));
            }
            Row::Sparse(counts) => counts.for_each(visit),
        }
    }

    /// The first thread with more events than `done` says, of those with more events than in a row that was made into this
    /// one; and how many.
    pub fn first_above(self, earlier: Option<Row>, own: usize, done: &[u32]) -> Option<(usize, u32)> {
        match self {
            Row::Flat(counts) => {
                let above = (0..counts.len()).find(|&other| other != own && counts[other] > done[other]);
                above.map(|other| (other, counts[other]))
            }
            Row::Sparse(counts) => {
                let mut first = None;
                let mut look = |other: usize, count: u32| {
                    if first.is_none() && other != own && count > done[other] {
                        first = Some((other, count));
                    }
                };
                match earlier {
                    Some(Row::Sparse(earlier)) => counts.for_each_above(earlier, &mut look),
                    _ => counts.for_each(&mut look),
                }
                first
            }
        }
    }
}

/// A row of one's own. What it says about the thread that it belongs to is meaningless: the position of an event says that.
#[derive(Clone)]
pub(crate) enum Counts {
    Flat(Vec<u32>),
    Sparse(SparseVector),
}

impl Counts {
    /// No events, of so many threads.
    pub fn none(threads: usize) -> Counts {
        match are_sparse(threads) {
            false => Counts::Flat(vec![0; threads]),
            true => Counts::Sparse(SparseVector::default()),
        }
    }

    #[inline]
    pub fn row(&self) -> Row<'_> {
        match self {
            Counts::Flat(counts) => Row::Flat(counts),
            Counts::Sparse(counts) => Row::Sparse(counts),
        }
    }

    /// At least so many events of a thread.
    pub fn raise(&mut self, thread: usize, count: u32) {
        match self {
            Counts::Flat(counts) => counts[thread] = counts[thread].max(count),
            Counts::Sparse(counts) => drop(counts.raise(thread, count)),
        }
    }

    /// At least those of another row. True if one of a thread other than `own` is new.
    #[inline]
    pub fn join(&mut self, from: Row, own: usize) -> bool {
        match (self, from) {
            (Counts::Flat(counts), Row::Flat(from)) => {
                let mut new = false;
                for (thread, (count, &other)) in counts.iter_mut().zip(from).enumerate() {
                    if other > *count && thread != own {
                        *count = other;
                        new = true;
                    }
                }
                new
            }
            (Counts::Sparse(counts), Row::Sparse(from)) => {
                counts.raise(own, from.get(own));
                counts.join(from)
            }
            _ => unreachable!("rows of a trace are of one kind"),
        }
    }

    /// At most those of another row, but `count` of one thread.
    pub fn meet(&mut self, from: Row, thread: usize, count: u32) {
        match (self, from) {
            (Counts::Flat(counts), Row::Flat(from)) => {
                for (other, (counts, &from)) in counts.iter_mut().zip(from).enumerate() {
                    *counts = (*counts).min(if other == thread { count } else { from });
                }
            }
            (Counts::Sparse(counts), Row::Sparse(from)) => {
                let own = counts.get(thread).min(count);
                counts.meet(from);
                counts.set(thread, own);
            }
            _ => unreachable!("rows of a trace are of one kind"),
        }
    }

    /// Those of another row, but `count` of one thread.
    pub fn become_row(&mut self, from: Row, thread: usize, count: u32) {
        match (&mut *self, from) {
            (Counts::Flat(counts), Row::Flat(from)) => {
                counts.copy_from_slice(from);
                counts[thread] = count;
            }
            (_, Row::Sparse(from)) => {
                let mut counts = from.clone();
                counts.set(thread, count);
                *self = Counts::Sparse(counts);
            }
            _ => unreachable!("rows of a trace are of one kind"),
        }
    }

    /// Whether a row says the same of all threads but one.
    pub fn is_same(&self, other: Row, but: usize) -> bool {
        match (self, other) {
            (Counts::Flat(counts), Row::Flat(other)) => {
                counts.iter().zip(other).enumerate().all(|(thread, (a, b))| a == b || thread == but)
            }
            (Counts::Sparse(counts), Row::Sparse(other)) => {
                let mut counts = counts.clone();
                counts.set(but, other.get(but));
                counts.all(other, |a, b| a <= b) && other.all(&counts, |a, b| a <= b)
            }
            _ => unreachable!("rows of a trace are of one kind"),
        }
    }
}
