//! Defects of our own: whichever thread panics, the program ends, with a message and the status of an error. A thread that waits
//! for another one that is no more would wait for ever.

use crate::interrupt;
use std::panic::PanicHookInfo;

/// The status of an error.
const ERROR: i32 = 2;

/// From now on a panic in any thread ends the program.
pub fn end_the_program() {
    std::panic::set_hook(Box::new(|info| {
        eprintln!("{}", message(info));
        interrupt::remove_unfinished();
        std::process::exit(ERROR);
    }));
}

fn message(info: &PanicHookInfo) -> String {
    let payload = info.payload();
    let what = payload.downcast_ref::<&str>().copied();
    let what = what.or(payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown");
    let place = info.location().map_or(String::new(), |place| format!(" at {place}"));
    let thread = std::thread::current().name().map_or(String::new(), |name| format!(" (thread {name})"));
    format!("snag: error: a defect of snag itself, please report it: {what}{place}{thread}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use snag_predict::{Engine, Options, Progress};
    use snag_trace::TraceReader;
    use snag_trace::generate::{Generator, Shape};
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    /// Tells the test that it is the program.
    const IS_PROGRAM: &str = "SNAG_TEST_PANICS_IN";

    /// Panics when it is told that an engine has got that far, in whichever thread that is.
    struct Panics {
        phase: String,
        reached: AtomicUsize,
    }

    impl Progress for Panics {
        fn phase(&self, name: &str, _: u64) {
            self.reached.store(name.ends_with(&self.phase) as usize, Ordering::SeqCst);
        }
        fn advance(&self, _: u64) {
            assert_eq!(self.reached.load(Ordering::SeqCst), 0, "a worker panics");
        }
        fn cancelled(&self) -> bool {
            false
        }
    }

    fn analyse_with_panic(phase: &str) {
        end_the_program();
        let shape = Shape { events: 200_000, racy: 0.01, ..Shape::default() };
        let (trace, _) = TraceReader::new(Box::new(Generator::new(shape)), None).read_all().expect("well formed");
        let engines = vec![Engine::Shb, Engine::Mc];
        let options = Options { engines, jobs: 4, all_pairs: true, ..Options::default() };
        let progress = Panics { phase: phase.to_owned(), reached: AtomicUsize::new(0) };
        snag_predict::analyse(&trace, &options, &progress);
    }

    #[test]
    fn a_panic_in_any_thread_ends_the_program_with_status_2_and_a_message() {
        if let Ok(phase) = std::env::var(IS_PROGRAM) {
            return analyse_with_panic(&phase);
        }
        let name = "panic::tests::a_panic_in_any_thread_ends_the_program_with_status_2_and_a_message";
        // The thread that looks for races, one of those that prove them, and the one that watches those that decide.
        for phase in ["looking for races", "proving", "deciding"] {
            let started = Instant::now();
            let mut child = Command::new(std::env::current_exe().expect("a test is a program"))
                .args(["--exact", name, "--nocapture"])
                .env(IS_PROGRAM, phase)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .expect("it runs");
            let status = loop {
                match child.try_wait().expect("it is ours") {
                    Some(status) => break status,
                    None => std::thread::sleep(Duration::from_millis(20)),
                }
                if started.elapsed() > Duration::from_secs(60) {
                    let _ = child.kill();
                    panic!("{phase}: it waits for ever");
                }
            };
            let mut said = String::new();
            std::io::Read::read_to_string(&mut child.stderr.take().expect("a pipe"), &mut said).expect("text");
            assert_eq!(status.code(), Some(2), "{phase}: {said}");
            assert!(
                said.contains("snag: error: a defect of snag itself") && said.contains("a worker panics"),
                "{said}"
            );
        }
    }
}
