//! How long the work may take.
//!
//! Looking for more ends when the budget is used up or the user wants to stop. After that what was found may still be
//! proved for a moment. Some steps do not look at the time; [`wait_for`] leaves such a step to itself in the end.

use crate::memory::Minded;
use crate::progress::Progress;
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

/// Does something in a thread of its own, or in this one if there is no room for another. `None` if it is not done some time
/// after the deadline, or after the user wanted
/// to stop: then it goes on for nobody, until it looks at the time or the program ends.
pub fn wait_for<R: Send + 'static>(
    progress: &dyn Progress,
    deadline: Option<Instant>,
    work: impl FnOnce() -> R + Send + 'static,
) -> Option<R> {
    let (done, result) = mpsc::sync_channel(1);
    // Handed over, so that it is still here if there is no thread.
    let (hand_over, handed_over) = mpsc::sync_channel::<Box<dyn FnOnce() -> R + Send>>(1);
    let thread = std::thread::Builder::new().name("analysis".to_owned()).spawn(move || {
        let Ok(work) = handed_over.recv() else { return };
        // Nobody may be waiting any more.
        let _ = done.send(work());
    });
    let Ok(thread) = thread else { return Some(work()) };
    let _ = hand_over.send(Box::new(work));
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
    use crate::options::Options;
    use crate::progress::Quiet;
    use snag_engines::{MC, SHB, Settings};
    use snag_formats::TraceReader;
    use snag_synthesis::generate::{Generator, Shape};

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

    /// Tells the test that it is the program without threads.
    const WITHOUT_THREADS: &str = "SNAG_TEST_WITHOUT_THREADS";

    #[test]
    fn without_room_for_threads_one_does_all_the_work() {
        let shape = Shape { events: 20_000, racy: 0.01, ..Shape::default() };
        let (trace, _) = TraceReader::new(Box::new(Generator::new(shape)), None).read_all().expect("well formed");
        let engines = vec![SHB.into(), MC.into()];
        let options = Options { engines, settings: Settings { jobs: 4, ..Settings::default() }, ..Options::default() };
        let found = |options: &Options| {
            let analysis = crate::analyse(&trace, options, &Quiet);
            analysis.races.iter().map(|race| (race.first, race.second)).collect::<Vec<_>>()
        };
        if std::env::var_os(WITHOUT_THREADS).is_some() {
            assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "there is room");
            assert_eq!(wait_for(&Quiet, None, || 7), Some(7));
            println!("found {:?}", found(&options));
            // Nobody looks at the time: what takes long is not begun.
            let settings = Settings { budget: Some(Duration::from_secs(3600)), ..options.settings.clone() };
            assert!(!found(&Options { settings, ..options }).is_empty());
            return;
        }
        // No stack is so large.
        let ran = std::process::Command::new(std::env::current_exe().expect("a test is a program"))
            .args(["--exact", "time::tests::without_room_for_threads_one_does_all_the_work", "--nocapture"])
            .args(["--test-threads", "1"])
            .env(WITHOUT_THREADS, "1")
            .env("RUST_MIN_STACK", (1u64 << 47).to_string())
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
        assert!(said.contains(&format!("found {:?}", found(&options))), "{said}");
    }
}
