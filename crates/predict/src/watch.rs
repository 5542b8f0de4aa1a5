//! Work on all cores that ends when the budget is used up or the user wants to stop.

use crate::analyse::Work;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How often the budget and the user are asked.
const PATIENCE: Duration = Duration::from_millis(20);

impl Work<'_> {
    /// Does something while another thread watches: `stop` becomes true when time is up, and progress shows `done`. If there is no
    /// room for a thread, nobody watches.
    pub(crate) fn watched<R>(&self, stop: &AtomicBool, done: &AtomicUsize, work: impl FnOnce() -> R) -> R {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watch = std::thread::Builder::new().spawn_scoped(scope, || {
                while !over.load(Ordering::Acquire) {
                    stop.fetch_or(self.time.is_up(), Ordering::Relaxed);
                    self.progress.advance(done.load(Ordering::Relaxed) as u64);
                    std::thread::park_timeout(PATIENCE);
                }
            });
            let Ok(watch) = watch else {
                // What could take longer than it may is not begun.
                stop.fetch_or(self.options.budget.is_some() || self.time.is_up(), Ordering::Relaxed);
                return work();
            };
            // Also if the work panics: nobody else tells the watch to end.
            let _end = End { over: &over, watch: watch.thread() };
            work()
        })
    }
}

/// Runs a worker in as many threads as there may be and there is work for, this one included.
pub(crate) fn on_all_cores(jobs: usize, tasks: usize, worker: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 1..jobs.min(tasks) {
            if std::thread::Builder::new().spawn_scoped(scope, &worker).is_err() {
                // There is no room for more of them.
                break;
            }
        }
        worker();
    });
}

/// Ends a watch when it goes.
struct End<'a> {
    over: &'a AtomicBool,
    watch: &'a std::thread::Thread,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.watch.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::Done;
    use crate::analysis::{Options, Quiet};
    use crate::time::Time;
    use snag_trace::{Cells, Trace};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;

    #[test]
    fn work_that_panics_leaves_nobody_watching() {
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || {
            let (trace, options) = (Trace::default(), Options::default());
            let (cells, time) = (Cells::of(&trace), Time::new(&Quiet, None));
            let work = Work::new(&trace, &cells, &options, &time, Done::default());
            let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
            let watched = catch_unwind(AssertUnwindSafe(|| work.watched(&stop, &done, || panic!("as a worker may"))));
            ended.send(watched.is_err())
        });
        assert_eq!(end.recv_timeout(Duration::from_secs(20)), Ok(true), "it waits for ever");
    }
}
