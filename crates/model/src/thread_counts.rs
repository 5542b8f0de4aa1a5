//! How many events each thread has before an event.

use crate::{EventId, ThreadId, Trace};
use std::sync::OnceLock;

/// Counts the events of threads in beginnings of a trace, without going through the beginning each time: one pass, when
/// the first question comes, notes the counts at marks a few hundred events apart.
pub struct ThreadCounts<'t> {
    threads: &'t [ThreadId],
    /// How many threads there are.
    number: usize,
    /// Events from mark to mark.
    stride: usize,
    /// For each mark, how many events each thread has before it.
    marks: OnceLock<Vec<u32>>,
}

/// So many events are from mark to mark at the least.
const STRIDE: usize = 512;

/// With many threads so many times as many, so that marks take less memory than the trace.
const STRIDE_PER_THREAD: usize = 8;

impl<'t> ThreadCounts<'t> {
    /// Nothing is counted yet.
    pub fn new(trace: &'t Trace) -> ThreadCounts<'t> {
        let number = trace.tables.thread_count();
        let stride = STRIDE.max(STRIDE_PER_THREAD * number);
        ThreadCounts { threads: trace.events.threads(), number, stride, marks: OnceLock::new() }
    }

    /// How many events of a thread come before an event.
    pub fn before(&self, thread: ThreadId, event: EventId) -> u32 {
        let end = event.index().min(self.threads.len());
        let mark = end / self.stride;
        let own = |&&other: &&ThreadId| other == thread;
        let since = self.threads[mark * self.stride..end].iter().filter(own).count() as u32;
        self.at(mark, thread) + since
    }

    /// Behind the first `count` events of a thread; `None` if it has fewer.
    pub fn behind(&self, thread: ThreadId, count: u32) -> Option<EventId> {
        if count == 0 {
            return Some(EventId(0));
        }
        let (mut low, mut high) = (0, self.threads.len() / self.stride);
        // The last mark with fewer events before it.
        while low < high {
            let middle = (low + high).div_ceil(2);
            match self.at(middle, thread) < count {
                true => low = middle,
                false => high = middle - 1,
            }
        }
        let rest = count - self.at(low, thread);
        let own = |(_, other): &(usize, &ThreadId)| **other == thread;
        let mut since = self.threads[low * self.stride..].iter().enumerate().filter(own);
        since.nth(rest as usize - 1).map(|(at, _)| EventId::new(low * self.stride + at + 1))
    }

    /// How many events there are in prefixes that end like this, by thread.
    pub fn all_before(&self, ends: &[EventId]) -> u64 {
        ends.iter().enumerate().map(|(thread, &end)| u64::from(self.before(ThreadId::new(thread), end))).sum()
    }

    fn at(&self, mark: usize, thread: ThreadId) -> u32 {
        let marks = self.marks.get_or_init(|| {
            let mut counts = vec![0u32; self.number];
            let mut marks = Vec::with_capacity((self.threads.len() / self.stride + 1) * self.number);
            for stretch in self.threads.chunks(self.stride) {
                marks.extend_from_slice(&counts);
                stretch.iter().for_each(|thread| counts[thread.index()] += 1);
            }
            if self.threads.len().is_multiple_of(self.stride) {
                marks.extend_from_slice(&counts);
            }
            marks
        });
        marks[mark * self.number + thread.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Event, Events};
    use crate::{Op, Tables};

    #[test]
    fn counts_are_those_of_going_through_the_trace() {
        for length in [0, 1, STRIDE - 1, STRIDE, STRIDE + 1, 4 * STRIDE, 5 * STRIDE + 17] {
            let (mut events, mut tables) = (Events::default(), Tables::default());
            let threads = [0, 1, 2].map(|number| tables.thread(&format!("T{number}")));
            for at in 0..length {
                // The last thread begins late.
                let thread = threads[if at > 2 * STRIDE && at % 3 == 0 { 2 } else { at * at % 7 % 2 }];
                events.push(Event::new(thread, Op::Write, 0));
            }
            let trace = Trace { events, tables };
            let counts = ThreadCounts::new(&trace);
            let mut naive = [0; 3];
            for end in 0..=length {
                for (number, &thread) in threads.iter().enumerate() {
                    assert_eq!(counts.before(thread, EventId::new(end)), naive[number]);
                }
                if let Some(thread) = trace.events.threads().get(end) {
                    naive[thread.index()] += 1;
                    assert_eq!(counts.behind(*thread, naive[thread.index()]), Some(EventId::new(end + 1)));
                }
            }
            for (number, &thread) in threads.iter().enumerate() {
                assert_eq!(counts.behind(thread, naive[number] + 1), None);
            }
        }
    }
}
