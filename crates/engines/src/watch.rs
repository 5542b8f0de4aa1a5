//! Work on all cores that ends when the budget is used up or the user wants to stop.

use crate::engine::Host;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How often the budget and the user are asked.
const PATIENCE: Duration = Duration::from_millis(20);

/// Does something while another thread watches: `stop` becomes true when time is up, and progress shows `done`.
pub fn watched<R>(host: &dyn Host, stop: &AtomicBool, done: &AtomicUsize, work: impl FnOnce() -> R) -> R {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                stop.fetch_or(host.is_up(), Ordering::Relaxed);
                host.advance(done.load(Ordering::Relaxed) as u64);
                std::thread::park_timeout(PATIENCE);
            }
        });
        // Also if the work panics: nobody else tells the watch to end.
        let _end = End { over: &over, watch: watch.thread() };
        work()
    })
}

/// Runs a worker in as many threads as there may be and there is work for, this one included.
pub fn on_all_cores(jobs: usize, tasks: usize, worker: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 1..jobs.min(tasks) {
            scope.spawn(&worker);
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
