//! Defects of our own: whichever thread panics, the program ends, with a message and the status of an error, and so does what it
//! has started. A thread that waits for another one that is no more would wait for ever.

use crate::{interrupt, say};
use std::panic::PanicHookInfo;

/// The status of an error.
const ERROR: i32 = 2;

/// From now on a panic in any thread ends the program.
pub fn end_the_program() {
    std::panic::set_hook(Box::new(|info| {
        interrupt::end_what_runs();
        interrupt::remove_unfinished();
        say::last_line(&message(info));
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
    use snag_formats::TraceReader;
    use snag_pipeline::engines::{MC, SHB};
    use snag_pipeline::{Options, Progress, Settings};
    use snag_synthesis::generate::{Generator, Shape};
    use std::io::Read;
    use std::process::{Child, Command, ExitStatus, Stdio};
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
        let engines = vec![SHB.into(), MC.into()];
        let options = Options {
            engines,
            settings: Settings { jobs: 4, all_pairs: true, ..Settings::default() },
            ..Options::default()
        };
        let progress = Panics { phase: phase.to_owned(), reached: AtomicUsize::new(0) };
        snag_pipeline::analyse(&trace, &options, &progress);
    }

    /// Waits for the end of a program, which has to come.
    fn status_of(child: &mut Child, what: &str) -> ExitStatus {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(60) {
            if let Some(status) = child.try_wait().expect("it is ours") {
                return status;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        panic!("{what}: it waits for ever");
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "whether the hook ends the program is what is tested")]
    fn a_panic_ends_what_runs_even_if_nobody_can_be_told() {
        if std::env::var_os(IS_PROGRAM).is_some() {
            end_the_program();
            interrupt::doing(interrupt::Doing::Program);
            let mut sleep = Command::new("sleep");
            let running = sleep.arg("600").stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
            println!("runs {}", running.id());
            panic!("while a program runs");
        }
        for told in [true, false] {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            let reader = told.then_some(reader);
            let mut child = Command::new(std::env::current_exe().expect("a test is a program"))
                .args(["--exact", "panic::tests::a_panic_ends_what_runs_even_if_nobody_can_be_told", "--nocapture"])
                .env(IS_PROGRAM, "1")
                .stdout(Stdio::piped())
                .stderr(writer)
                .spawn()
                .expect("it runs");
            let status = status_of(&mut child, "with a program");
            let mut said = String::new();
            child.stdout.take().expect("a pipe").read_to_string(&mut said).expect("text");
            assert_eq!(status.code(), Some(2), "{said}");
            let id = said.lines().find_map(|line| line.split("runs ").nth(1)).expect("it says so");
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            assert!(stat.is_empty() || stat.contains(") Z "), "it runs on: {stat}");
            if let Some(mut reader) = reader {
                let mut said = String::new();
                reader.read_to_string(&mut said).expect("text");
                assert!(said.contains("a defect of snag itself") && said.contains("while a program runs"), "{said}");
            }
        }
    }

    #[test]
    fn a_panic_in_any_thread_ends_the_program_with_status_2_and_a_message() {
        if let Ok(phase) = std::env::var(IS_PROGRAM) {
            return analyse_with_panic(&phase);
        }
        let name = "panic::tests::a_panic_in_any_thread_ends_the_program_with_status_2_and_a_message";
        // The thread that looks for races, one of those that prove them, and the one that watches those that decide.
        for phase in ["looking for races", "proving", "deciding"] {
            let mut child = Command::new(std::env::current_exe().expect("a test is a program"))
                .args(["--exact", name, "--nocapture"])
                .env(IS_PROGRAM, phase)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .expect("it runs");
            let status = status_of(&mut child, phase);
            let mut said = String::new();
            child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
            assert_eq!(status.code(), Some(2), "{phase}: {said}");
            assert!(
                said.contains("snag: error: a defect of snag itself") && said.contains("a worker panics"),
                "{said}"
            );
        }
    }
}
