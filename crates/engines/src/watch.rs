//! Work on all cores that ends when the budget is used up or the user wants to stop.

use crate::engine::Host;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How often the budget and the user are asked.
const PATIENCE: Duration = Duration::from_millis(20);

/// Work that somebody watches.
pub struct Watch<'a> {
    /// Becomes true when time is up.
    pub stop: &'a AtomicBool,
    /// How much is done.
    pub done: &'a AtomicUsize,
    /// Of how much.
    pub total: usize,
    /// It may take so much longer than there is time.
    pub grace: Duration,
    /// What to say of pairs that it has not come to, if it does not look at the time.
    pub reason: &'static str,
}

/// Does something while another thread watches. If there is no room for a thread, nobody does.
pub fn watched<R>(host: &dyn Host, watch: &Watch, work: impl FnOnce() -> R) -> R {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = std::thread::Builder::new().spawn_scoped(scope, || {
            while !over.load(Ordering::Acquire) {
                watch.stop.fetch_or(host.glance(watch), Ordering::Relaxed);
                std::thread::park_timeout(PATIENCE);
            }
        });
        let Ok(watching) = watching else {
            // What could take longer than it may is not begun.
            watch.stop.fetch_or(host.shares().is_some() || host.is_up(), Ordering::Relaxed);
            return work();
        };
        // Also if the work panics: nobody else tells the watch to end.
        let _end = End { over: &over, watch: watching.thread() };
        work()
    })
}

/// Runs a worker in as many threads as there may be and there is work for, this one included.
pub fn on_all_cores(jobs: usize, tasks: usize, worker: impl Fn() + Sync) {
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
