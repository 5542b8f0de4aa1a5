//! Work on all cores that ends when the budget is used up or the user wants to stop.
//!
//! Work that does not look at the time would take along what was found before, so whoever watches it hands that on.

use crate::analyse::Work;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How often the budget and the user are asked.
const PATIENCE: Duration = Duration::from_millis(20);

/// Who works is done so long after the time at which it is to stop, or does not look at the time.
const DONE: Duration = Duration::from_millis(60);

/// What a watch does.
pub(crate) struct Watch<'a> {
    /// Becomes true when time is up.
    pub stop: &'a AtomicBool,
    /// How far the work is.
    pub done: &'a AtomicUsize,
    /// The work may take so long after its time is up.
    pub grace: Duration,
    /// Hands on what was found so far.
    pub rescue: Option<&'a (dyn Fn() + Sync)>,
}

impl Work<'_> {
    /// Does something while another thread watches. If there is no room for a thread, nobody does.
    pub(crate) fn watched<R>(&self, watch: &Watch, work: impl FnOnce() -> R) -> R {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watching = std::thread::Builder::new().spawn_scoped(scope, || {
                let mut rescue = watch.rescue;
                while !over.load(Ordering::Acquire) {
                    let up_for = self.time.up_for();
                    watch.stop.fetch_or(up_for.is_some(), Ordering::Relaxed);
                    self.progress.advance(watch.done.load(Ordering::Relaxed) as u64);
                    if up_for.is_some_and(|up_for| up_for > watch.grace + DONE)
                        && let Some(rescue) = rescue.take()
                    {
                        rescue();
                    }
                    std::thread::park_timeout(PATIENCE);
                }
            });
            let Ok(watching) = watching else {
                // What could take longer than it may is not begun.
                watch.stop.fetch_or(self.options.budget.is_some() || self.time.is_up(), Ordering::Relaxed);
                return work();
            };
            // Also if the work panics: nobody else tells the watch to end.
            let _end = End { over: &over, watch: watching.thread() };
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
    use crate::so_far::SoFar;
    use crate::time::Time;
    use snag_model::{Cells, Trace};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;

    #[test]
    fn work_that_panics_leaves_nobody_watching() {
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || {
            let (trace, options) = (Trace::default(), Options::default());
            let (cells, time, so_far) = (Cells::of(&trace), Time::new(&Quiet, None), SoFar::default());
            let work = Work::new(&trace, &cells, &options, &time, &so_far, Done::default());
            let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
            let watch = Watch { stop: &stop, done: &done, grace: Duration::ZERO, rescue: None };
            let watched = catch_unwind(AssertUnwindSafe(|| work.watched(&watch, || panic!("as a worker may"))));
            ended.send(watched.is_err())
        });
        assert_eq!(end.recv_timeout(Duration::from_secs(20)), Ok(true), "it waits for ever");
    }
}
