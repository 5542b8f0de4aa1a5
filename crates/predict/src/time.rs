//! How long the work may take.
//!
//! Looking for more ends when the budget is used up or the user wants to stop. After that what was found may still be
//! proved for a moment. Some steps do not look at the time; [`wait_for`] leaves such a step to itself in the end.

use crate::analysis::Progress;
use crate::memory::Minded;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// So long after its time was up, work may prove what it has found.
pub(crate) const GRACE: Duration = Duration::from_millis(300);

/// So long after its time was up, nobody waits for it any more.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often somebody who waits looks at the time.
const GLANCE: Duration = Duration::from_millis(10);

/// Asked by everything that may take long.
pub(crate) struct Time<'a> {
    pub progress: &'a dyn Progress,
    /// Who minds the memory, if somebody does.
    pub memory: Option<&'a Minded<'a>>,
    deadline: Option<Instant>,
    started: Instant,
    /// When the user was first seen to want to stop: 1 + the milliseconds since the start, or 0.
    cancelled: AtomicU64,
}

impl<'a> Time<'a> {
    pub fn new(progress: &'a dyn Progress, deadline: Option<Instant>) -> Time<'a> {
        Time { progress, memory: None, deadline, started: Instant::now(), cancelled: AtomicU64::new(0) }
    }

    /// The same for work that stops when memory runs out.
    pub fn minding(memory: &'a Minded<'a>, deadline: Option<Instant>) -> Time<'a> {
        Time { memory: Some(memory), ..Time::new(memory, deadline) }
    }

    /// When looking ended: the budget was used up, or the user wanted to stop.
    fn ended(&self) -> Option<Instant> {
        if self.progress.cancelled() {
            let now = 1 + self.started.elapsed().as_millis() as u64;
            let first = self.cancelled.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
            return Some(self.started + Duration::from_millis(first.err().unwrap_or(now) - 1));
        }
        // Who wanted to stop for a reason that is gone may go on.
        self.cancelled.store(0, Ordering::Relaxed);
        self.deadline.filter(|deadline| Instant::now() >= *deadline)
    }

    /// Nothing more is to be looked for.
    pub fn is_up(&self) -> bool {
        self.ended().is_some()
    }

    /// Nothing more is to be proved, either.
    pub fn is_over(&self) -> bool {
        self.ended().is_some_and(|ended| ended.elapsed() > GRACE)
    }

    /// How long it has been up.
    pub fn up_for(&self) -> Option<Duration> {
        self.ended().map(|ended| ended.elapsed())
    }

    /// Until when something may be looked for, and until when what was found may be named, if there is to be time to find
    /// schedules and to prove something as well: a third of what is left for each.
    pub fn shares(&self) -> Option<[Instant; 2]> {
        let now = Instant::now();
        let third = self.deadline?.saturating_duration_since(now) / 3;
        Some([now + third, now + 2 * third])
    }
}

/// Does something in a thread of its own. `None` if it is not done some time after the deadline, or after the user wanted
/// to stop: then it goes on for nobody, until it looks at the time or the program ends.
pub fn wait_for<R: Send + 'static>(
    progress: &dyn Progress,
    deadline: Option<Instant>,
    work: impl FnOnce() -> R + Send + 'static,
) -> Option<R> {
    let (done, result) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("analysis".to_owned()).spawn(move || {
        // Nobody may be waiting any more.
        let _ = done.send(work());
    });
    let thread = thread.expect("there is room for a thread");
    let time = Time::new(progress, deadline);
    loop {
        match result.recv_timeout(GLANCE) {
            Ok(result) => return Some(result),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if time.ended().is_some_and(|ended| ended.elapsed() > PATIENCE) {
                    return None;
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => return None,
            },
        }
    }
}

/// The same for a progress that is shared.
impl<P: Progress + Send + ?Sized> Progress for Arc<P> {
    fn phase(&self, name: &str, total: u64) {
        (**self).phase(name, total);
    }
    fn advance(&self, done: u64) {
        (**self).advance(done);
    }
    fn cancelled(&self) -> bool {
        (**self).cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Quiet;

    struct Cancelled;

    impl Progress for Cancelled {
        fn phase(&self, _: &str, _: u64) {}
        fn advance(&self, _: u64) {}
        fn cancelled(&self) -> bool {
            true
        }
    }

    #[test]
    fn nobody_waits_for_a_step_that_does_not_look_at_the_time() {
        let long = || std::thread::sleep(Duration::from_secs(60));
        let started = Instant::now();
        assert_eq!(wait_for(&Cancelled, None, long), None);
        assert_eq!(wait_for(&Quiet, Some(Instant::now()), long), None);
        assert!(started.elapsed() < Duration::from_secs(20));
        assert_eq!(wait_for(&Quiet, None, || 7), Some(7));
    }

    #[test]
    fn a_panic_comes_to_whoever_waits() {
        let waiting = std::panic::catch_unwind(|| wait_for(&Quiet, None, || panic!("as an engine may")));
        assert!(waiting.is_err());
    }

    #[test]
    fn after_its_time_work_has_a_moment_for_proofs_and_no_more() {
        let time = Time::new(&Cancelled, None);
        assert!(time.is_up() && !time.is_over());
        std::thread::sleep(GRACE + Duration::from_millis(50));
        assert!(time.is_up() && time.is_over());
        assert!(!Time::new(&Quiet, None).is_up());
        assert!(Time::new(&Quiet, Some(Instant::now())).is_up());
    }
}
