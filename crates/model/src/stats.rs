//! What a trace consists of, counted in one pass over a stream.

use crate::bits::bits_of;
use crate::events::Events;
use crate::op::Op;
use crate::tables::{Space, Tables};

/// Counts over a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Number of events.
    pub events: u64,
    /// Number of events of each operation, by its code.
    pub by_op: [u64; Op::ALL.len()],
    /// Events of each thread.
    pub by_thread: Vec<u64>,
    /// Locks each thread holds now.
    depth: Vec<i32>,
    /// The most locks that one thread held at once.
    pub nesting: u32,
    /// Events with a location.
    pub located: u64,
    /// Accesses that carry a value.
    pub valued: u64,
}

impl Default for Stats {
    fn default() -> Stats {
        Stats {
            events: 0,
            by_op: [0; Op::ALL.len()],
            by_thread: Vec::new(),
            depth: Vec::new(),
            nesting: 0,
            located: 0,
            valued: 0,
        }
    }
}

/// How much deeper in locks a thread is after an operation.
const DEEPER: [i32; Op::ALL.len()] = {
    let mut deeper = [0; Op::ALL.len()];
    let (locks, unlocks) = ([Op::Acquire, Op::ReadAcquire, Op::WaitEnd], [Op::Release, Op::ReadRelease, Op::WaitBegin]);
    let mut i = 0;
    while i < locks.len() {
        deeper[locks[i] as usize] = 1;
        deeper[unlocks[i] as usize] = -1;
        i += 1;
    }
    deeper
};

impl Stats {
    /// Nothing counted yet.
    pub fn new() -> Stats {
        Stats::default()
    }

    /// Counts the next block of a stream.
    pub fn add(&mut self, events: &Events, tables: &Tables) {
        self.events += events.len() as u64;
        self.by_thread.resize(tables.thread_count(), 0);
        self.depth.resize(tables.thread_count(), 0);
        self.count_threads(events, tables.thread_count());
        let (ops, threads) = (events.ops(), events.threads());
        let count = |wanted: Op| ops.iter().filter(|&&op| op == wanted).count() as u64;
        self.by_op[Op::Read as usize] += count(Op::Read);
        self.by_op[Op::Write as usize] += count(Op::Write);
        for (start, ops) in (0..).step_by(64).zip(ops.chunks(64)) {
            // Most events are plain accesses; which ones are not cannot be predicted.
            let mut others = [0; 64];
            for (other, op) in others.iter_mut().zip(ops) {
                *other = !op.is_plain_access() as u8;
            }
            let mut others = bits_of(&others);
            while others != 0 {
                let i = others.trailing_zeros() as usize;
                others &= others - 1;
                self.by_op[ops[i] as usize] += 1;
                let depth = &mut self.depth[threads[start + i].index()];
                *depth = (*depth + DEEPER[ops[i] as usize]).max(0);
                self.nesting = self.nesting.max(*depth as u32);
            }
        }
        self.located += events.location_column().nonzero() as u64;
        if events.has_values() {
            let valued = |&i: &usize| ops[i].is_access() && events.value(i).is_some();
            self.valued += (0..events.len()).filter(valued).count() as u64;
        }
    }

    /// Counts the events of each thread. Neighbours are counted in different places: to count up the same number again
    /// and again, the processor would have to wait each time for the time before.
    fn count_threads(&mut self, events: &Events, threads: usize) {
        let mut by_thread = vec![[0u32; 4]; threads];
        for (i, &thread) in events.threads().iter().enumerate() {
            by_thread[thread.index()][i % 4] += 1;
        }
        for (total, counts) in self.by_thread.iter_mut().zip(by_thread) {
            *total += counts.iter().map(|&count| count as u64).sum::<u64>();
        }
    }

    /// How many events perform an operation.
    pub fn of(&self, op: Op) -> u64 {
        self.by_op[op as usize]
    }

    /// How many threads have events.
    pub fn threads(&self) -> usize {
        self.by_thread.iter().filter(|&&n| n > 0).count()
    }

    /// How many distinct source locations there are.
    pub fn locations(&self, tables: &Tables) -> usize {
        tables.names(Space::Location).len() - 1
    }
}
