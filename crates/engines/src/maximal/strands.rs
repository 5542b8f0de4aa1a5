//! Threads that can only live one after the other share a *strand*.
//!
//! Everything in this crate is kept per strand, so a program that creates and joins a thread for every request costs no more
//! than one whose few threads live as long as it does.
//!
//! Guarantee: of two threads of a strand, all events of the earlier one come before all events of the later one by the hard
//! order, and nothing that the earlier one leaves behind touches the later one: it holds no lock, is in no wait, barrier or
//! missing method, and its last read is kept wherever the later one runs (that one is forked after a join). At `control`
//! the reads of a strand that count are a prefix of it: every read of the earlier thread has a branch after it.
//!
//! Deviation: not the least number of strands. A strand is handed on where a thread is joined, and where a fork is the last thing
//! that a thread does; what else orders threads is not looked at. Cost: one pass over the trace.

use snag_model::Level;
use snag_model::{Op, Ops, Trace};

/// The thread has no strand.
pub(crate) const NONE: u32 = u32::MAX;

/// Which strand each thread belongs to.
pub(crate) struct Strands {
    /// [`NONE`] for threads without events.
    pub of_thread: Vec<u32>,
    pub count: usize,
}

impl Strands {
    /// Every thread is a strand, with events or without.
    pub fn threads(trace: &Trace) -> Strands {
        let count = trace.tables.thread_count();
        Strands { of_thread: (0..count as u32).collect(), count }
    }

    pub fn of(trace: &Trace, level: Level) -> Strands {
        // Expressions and other sides of branches belong to threads; and without forks nothing can be handed on.
        if level == Level::Symbolic || !Ops::of(trace.events.ops()).any(&[Op::Fork]) {
            return Strands::threads(trace);
        }
        let mut walk = Walk::new(trace, level);
        let columns = trace.events.ops().iter().zip(trace.events.threads()).zip(trace.events.targets());
        for (index, ((&op, thread), &target)) in columns.enumerate() {
            walk.event(index, op, thread.index(), target as usize);
        }
        walk.strands
    }
}

/// A thread while the trace is followed.
#[derive(Clone, Default)]
struct Thread {
    /// 1 + its last event; 0 if it has none.
    end: usize,
    /// Locks that it holds, and waits, barriers and missing methods that it is in.
    open: u32,
    /// It has read something since its last branch.
    reads: bool,
    /// Somebody else has its strand.
    given_away: bool,
    /// Strands whose threads have all come to an end before its next event.
    free: Vec<u32>,
}

struct Walk {
    strands: Strands,
    threads: Vec<Thread>,
    control: bool,
}

impl Walk {
    fn new(trace: &Trace, level: Level) -> Walk {
        let mut threads = vec![Thread::default(); trace.tables.thread_count()];
        for (index, thread) in trace.events.threads().iter().enumerate() {
            threads[thread.index()].end = index + 1;
        }
        let strands = Strands { of_thread: vec![NONE; threads.len()], count: 0 };
        Walk { strands, threads, control: level == Level::Control }
    }

    fn event(&mut self, index: usize, op: Op, thread: usize, target: usize) {
        if self.strands.of_thread[thread] == NONE {
            self.begin(thread, None);
        }
        match op {
            op if op.reads() => self.threads[thread].reads = true,
            Op::Branch => self.threads[thread].reads = false,
            Op::MethodBegin => {
                self.threads[thread].reads = false;
                self.threads[thread].open += 1;
            }
            Op::Acquire | Op::ReadAcquire | Op::WaitBegin | Op::BarrierEnter => self.threads[thread].open += 1,
            Op::Release | Op::ReadRelease | Op::WaitEnd | Op::BarrierLeave | Op::MethodEnd => {
                let open = &mut self.threads[thread].open;
                *open = open.saturating_sub(1);
            }
            Op::Fork if self.threads[target].end > 0 => self.fork(index, thread, target),
            Op::Join => self.join(thread, target),
            _ => {}
        }
    }

    fn begin(&mut self, thread: usize, strand: Option<u32>) {
        self.strands.of_thread[thread] = strand.unwrap_or(self.strands.count as u32);
        self.strands.count += strand.is_none() as usize;
    }

    /// Nothing of a thread that has come to an end touches what comes after it.
    fn leaves_nothing(&self, thread: usize) -> bool {
        let Thread { open, reads, .. } = self.threads[thread];
        open == 0 && !(self.control && reads)
    }

    fn fork(&mut self, index: usize, parent: usize, child: usize) {
        let ends = self.threads[parent].end == index + 1;
        let strand = if ends && self.leaves_nothing(parent) {
            self.threads[parent].given_away = true;
            Some(self.strands.of_thread[parent])
        } else {
            self.threads[parent].free.pop()
        };
        if ends {
            self.threads[child].free = std::mem::take(&mut self.threads[parent].free);
        }
        self.begin(child, strand);
    }

    fn join(&mut self, thread: usize, child: usize) {
        let mut free = std::mem::take(&mut self.threads[child].free);
        if self.threads[child].end > 0
            && self.leaves_nothing(child)
            && !std::mem::replace(&mut self.threads[child].given_away, true)
        {
            free.push(self.strands.of_thread[child]);
        }
        let own = &mut self.threads[thread].free;
        if own.len() < free.len() {
            std::mem::swap(own, &mut free);
        }
        own.extend(free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use snag_formats::TraceReader;
    use snag_formats::text_format::TextReader;

    fn strands(level: Level, text: &str) -> Vec<u32> {
        let text = format!("%snag 1\n{text}");
        let reader = TextReader::new(std::io::Cursor::new(text));
        let trace = TraceReader::new(Box::new(reader), None).read_all().expect("well formed").0;
        Strands::of(&trace, level).of_thread
    }

    #[test]
    fn threads_that_are_joined_before_the_next_one_is_forked_share_a_strand() {
        let one_by_one =
            "M|fork(A)|\nA|w(x)|\nM|join(A)|\nM|fork(B)|\nB|w(x)|\nM|join(B)|\nM|fork(C)|\nC|r(x)|\nM|r(z)|\n";
        assert_eq!(strands(Level::Writer, one_by_one), [0, 1, 1, 1]);
        let at_once =
            "M|fork(A)|\nM|fork(B)|\nA|w(x)|\nB|w(x)|\nM|join(A)|\nM|join(B)|\nM|fork(C)|\nC|r(x)|\nM|r(z)|\n";
        assert_eq!(strands(Level::Writer, at_once), [0, 1, 2, 2]);
        // The one that joins is another than the one that forks.
        let by_others = "M|fork(R)|\nM|fork(A)|\nA|w(x)|\nR|join(A)|\nM|fork(B)|\nB|w(x)|\nM|r(z)|\n";
        assert_eq!(strands(Level::Writer, by_others), [0, 1, 2, 3]);
        // But if that one is joined, the first is known to have ended.
        let handed_on = "M|fork(R)|\nR|fork(A)|\nA|w(x)|\nR|join(A)|\nM|join(R)|\nM|fork(B)|\nB|w(x)|\nM|fork(C)|\nC|r(x)|\nM|r(z)|\n";
        assert_eq!(strands(Level::Writer, handed_on), [0, 1, 2, 1, 2]);
    }

    #[test]
    fn a_thread_whose_last_event_is_a_fork_hands_its_strand_on() {
        let chain = "A|w(x)|\nA|fork(B)|\nB|w(x)|\nB|fork(C)|\nC|w(x)|\n";
        assert_eq!(strands(Level::Writer, chain), [0, 0, 0]);
        let holds = "A|acq(l)|\nA|fork(B)|\nB|w(x)|\n";
        assert_eq!(strands(Level::Writer, holds), [0, 1]);
    }

    #[test]
    fn a_thread_that_leaves_something_behind_keeps_its_strand() {
        let unbranched = "M|fork(A)|\nA|branch|\nA|r(x)=0|\nM|join(A)|\nM|fork(B)|\nB|w(x)=1|\nM|branch|\n";
        assert_eq!(strands(Level::Control, unbranched), [0, 1, 2]);
        assert_eq!(strands(Level::Value, unbranched), [0, 1, 1]);
        assert_eq!(strands(Level::Symbolic, unbranched), [0, 1, 2]);
        let locked = "M|fork(A)|\nA|acq(l)|\nM|join(A)|\nM|fork(B)|\nB|w(x)|\nM|r(z)|\n";
        assert_eq!(strands(Level::Writer, locked), [0, 1, 2]);
    }

    #[test]
    fn a_thread_without_events_has_no_strand() {
        assert_eq!(strands(Level::Writer, "M|fork(A)|\nM|fork(B)|\nB|w(x)|\nM|join(A)|\n"), [0, NONE, 1]);
    }
}
