//! Work on all cores that ends when the budget is used up or the user wants to stop.

use crate::analyse::{Work, late};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How often the budget and the user are asked.
const PATIENCE: Duration = Duration::from_millis(20);

impl Work<'_> {
    /// Does something while another thread watches: `stop` becomes true when time is up, and progress shows `done`.
    pub(crate) fn watched<R>(&self, stop: &AtomicBool, done: &AtomicUsize, work: impl FnOnce() -> R) -> R {
        let late = late(self.progress, self.deadline);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    stop.fetch_or(late(), Ordering::Relaxed);
                    self.progress.advance(done.load(Ordering::Relaxed) as u64);
                    std::thread::park_timeout(PATIENCE);
                }
            });
            let result = work();
            over.store(true, Ordering::Release);
            watch.thread().unpark();
            result
        })
    }

    /// Runs a worker on all cores that there is work for, this one included.
    pub(crate) fn on_all_cores(&self, tasks: usize, worker: impl Fn() + Sync) {
        std::thread::scope(|scope| {
            for _ in 1..self.options.jobs.min(tasks) {
                scope.spawn(&worker);
            }
            worker();
        });
    }
}
