//! Work on all cores that ends when the budget is used up or the user wants to stop.

use crate::engine::Host;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How often the budget and the user are asked.
const PATIENCE: Duration = Duration::from_millis(20);

/// Does something while another thread watches: `stop` becomes true when time is up, and progress shows `done`. The work
/// may take `grace` longer. If there is no room for a thread, nobody watches.
pub fn watched<R>(
    host: &dyn Host,
    grace: Duration,
    stop: &AtomicBool,
    done: &AtomicUsize,
    work: impl FnOnce() -> R,
) -> R {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = std::thread::Builder::new().spawn_scoped(scope, || {
            while !over.load(Ordering::Acquire) {
                let late = host.glance(done.load(Ordering::Relaxed) as u64, grace);
                stop.fetch_or(late, Ordering::Relaxed);
                std::thread::park_timeout(PATIENCE);
            }
        });
        let Ok(watch) = watch else {
            // What could take longer than it may is not begun.
            stop.fetch_or(host.shares().is_some() || host.is_up(), Ordering::Relaxed);
            return work();
        };
        // Also if the work panics: nobody else tells the watch to end.
        let _end = End { over: &over, watch: watch.thread() };
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
