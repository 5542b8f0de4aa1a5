//! SIGINT, SIGTERM and SIGHUP: the first one ends what is done soon, with a report of what was found or recorded so far, the second one at
//! once; neither leaves processes or files behind, whatever the program does.

use crate::sturdy::program;
use crate::support::*;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Two seconds on a machine that does nothing else; tests pass on others as well.
const SOON: Duration = Duration::from_secs(20);

/// A command that runs.
struct Running<'a> {
    mark: &'a Mark,
    folder: &'a Folder,
    child: Child,
    out: BufReader<ChildStdout>,
    printed: String,
    /// When the last signal was sent.
    sent: Instant,
}

/// A command that has ended.
#[derive(Debug)]
struct Over {
    status: Option<i32>,
    /// All that it printed, and the program with it.
    printed: String,
    said: String,
    /// Since the last signal.
    took: Duration,
}

impl<'a> Running<'a> {
    /// Snag; waits until the program says that it runs.
    fn start(mark: &'a Mark, folder: &'a Folder, arguments: &[&str]) -> Running<'a> {
        let mut running = Running::spawn(mark, folder, mark.command(folder, arguments));
        running.wait_for("running");
        running
    }

    fn spawn(mark: &'a Mark, folder: &'a Folder, command: Command) -> Running<'a> {
        let said = std::fs::File::create(folder.path("said")).unwrap();
        Running::spawn_saying(mark, folder, command, said.into())
    }

    /// What it says goes elsewhere.
    fn spawn_saying(mark: &'a Mark, folder: &'a Folder, mut command: Command, said: Stdio) -> Running<'a> {
        let mut child = command.stdout(Stdio::piped()).stderr(said).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Running { mark, folder, child, out, printed: String::new(), sent: Instant::now() }
    }

    fn wait_for(&mut self, what: &str) {
        while !self.printed.contains(what) {
            let length = self.out.read_line(&mut self.printed).unwrap();
            assert!(length > 0, "it ended before '{what}': {} {}", self.printed, self.said());
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path("said")).unwrap_or_default()
    }

    fn send(&mut self, signal: i32) {
        self.sent = Instant::now();
        // SAFETY: a plain system call; the process is ours and not waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Waits for the end, which must come soon, and looks at what is left behind.
    fn end(mut self) -> Over {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.code();
            }
            assert!(self.sent.elapsed() < SOON, "it does not end: {}", self.said());
            std::thread::sleep(Duration::from_millis(2));
        };
        let took = self.sent.elapsed();
        // A zombie has no environment.
        let left = self.mark.processes();
        assert!(left.is_empty(), "processes are left behind: {left:?}: {}", self.said());
        self.out.read_to_string(&mut self.printed).unwrap();
        // A compiler that was ended leaves files of its own.
        let files = std::fs::read_dir(self.folder.path("temporary")).unwrap().map(|entry| entry.unwrap().file_name());
        let files: Vec<_> = files.filter(|name| name.to_string_lossy().starts_with("snag")).collect();
        assert!(files.is_empty(), "{files:?}: {}", self.said());
        let hidden = std::fs::read_dir(&self.folder.0).unwrap().map(|entry| entry.unwrap().file_name());
        let hidden: Vec<_> = hidden.filter(|name| name.to_string_lossy().starts_with('.')).collect();
        assert!(hidden.is_empty(), "{hidden:?}");
        Over { status, said: self.said(), printed: self.printed, took }
    }
}

fn stubborn(name: &str) -> Folder {
    let folder = Folder::new(name);
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("stubborn.c"), &folder.path("program"));
    folder
}

#[test]
fn an_interrupted_run_ends_with_a_report_whatever_the_program_does() {
    let folder = stubborn("interrupted-run");
    let mark = Mark::new("interrupted-run");
    for (does, signal) in [
        ("plain", libc::SIGINT),
        ("plain", libc::SIGTERM),
        ("plain", libc::SIGHUP),
        ("ignores", libc::SIGINT),
        ("ignores", libc::SIGTERM),
        ("stops", libc::SIGHUP),
        ("stops", libc::SIGINT),
        ("forks", libc::SIGTERM),
        ("daemon", libc::SIGINT),
    ] {
        let mut running = Running::start(&mark, &folder, &["run", "-o", "report", "--", "./program", does, "20"]);
        std::thread::sleep(Duration::from_millis(100));
        running.send(signal);
        let over = running.end();
        let report = std::fs::read_to_string(folder.path("report")).unwrap();
        assert!(over.said.contains("snag: interrupted; reporting"), "{does} {signal}: {over:?}");
        let died_of = if does == "ignores" { libc::SIGKILL } else { signal };
        assert!(over.said.contains(&format!("died of signal {died_of}\n")), "{does} {signal}: {over:?}");
        // What is stopped has not raced yet.
        let raced = does != "stops";
        assert_eq!(over.status, Some(if raced { 1 } else { 3 }), "{does} {signal}: {over:?}");
        assert_eq!(report.contains("data race on counters"), raced, "{does} {signal}: {report}");
    }
}

/// A pipe into which nothing more can be written: nobody reads, or there is nobody who could.
fn pipe(is_full: bool) -> (Option<PipeReader>, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    if !is_full {
        return (None, writer);
    }
    // SAFETY: plain system calls on a descriptor of ours.
    let set = |flags: libc::c_int| assert_eq!(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, flags) }, 0);
    set(libc::O_NONBLOCK);
    while std::io::Write::write(&mut &writer, &[b'x'; 4096]).is_ok() {}
    set(0);
    (Some(reader), writer)
}

#[test]
fn a_run_whose_messages_nobody_can_read_is_interrupted_like_any_other() {
    let folder = stubborn("interrupted-unread");
    let mark = Mark::new("interrupted-unread");
    for (is_full, does, command) in [
        (true, "plain", "run"),
        (true, "ignores", "run"),
        (false, "ignores", "run"),
        (false, "handles", "run"),
        (true, "plain", "record"),
        (false, "ignores", "record"),
    ] {
        let (reader, writer) = pipe(is_full);
        let file = if command == "run" { "report" } else { "recording.snag" };
        let command = mark.command(&folder, &["-v", command, "-o", file, "--", "./program", does, "20"]);
        let mut running = Running::spawn_saying(&mark, &folder, command, writer.into());
        running.wait_for("running");
        std::thread::sleep(Duration::from_millis(200));
        running.send(libc::SIGTERM);
        let over = running.end();
        drop(reader);
        if file == "report" {
            let report = std::fs::read_to_string(folder.path(file)).unwrap();
            assert!(report.contains("data race on counters"), "{does} {is_full}: {report}");
            assert_eq!(over.status, Some(1), "{does} {is_full}: {over:?}");
        } else {
            let died_of = if does == "ignores" { libc::SIGKILL } else { libc::SIGTERM };
            assert_eq!(over.status, Some(128 + died_of), "{does} {is_full}: {over:?}");
            assert_eq!(snag(&folder, &["check", file]).status.code(), Some(1));
        }
    }
}

#[test]
fn the_second_interrupt_ends_a_run_whose_messages_nobody_reads() {
    let folder = stubborn("interrupted-unread-twice");
    let mark = Mark::new("interrupted-unread-twice");
    let (reader, writer) = pipe(true);
    let command = mark.command(&folder, &["run", "--", "./program", "ignores", "20"]);
    let mut running = Running::spawn_saying(&mark, &folder, command, writer.into());
    running.wait_for("running");
    running.send(libc::SIGTERM);
    std::thread::sleep(Duration::from_millis(150));
    running.send(libc::SIGINT);
    let over = running.end();
    drop(reader);
    assert_eq!(over.status, Some(128 + libc::SIGINT), "{over:?}");
}

#[test]
fn what_went_into_a_pipe_was_recorded() {
    let folder = stubborn("recorded-into-pipe");
    let mark = Mark::new("recorded-into-pipe");
    let path = folder.path("pipe.snag");
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the name outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    // Somebody reads some blocks, and goes.
    let reads = std::thread::spawn(move || {
        let mut first = vec![0; 100_000];
        std::fs::File::open(path).unwrap().read_exact(&mut first).unwrap();
    });
    let command = mark.command(&folder, &["record", "-o", "pipe.snag", "--", "./program", "plain"]);
    let mut running = Running::spawn(&mark, &folder, command);
    running.wait_for("running");
    reads.join().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    running.send(libc::SIGTERM);
    let over = running.end();
    assert_eq!(over.status, Some(2), "{over:?}");
    assert!(over.said.contains("the trace ends there"), "{over:?}");
    assert!(!over.said.contains("nothing was recorded"), "{over:?}");
}

#[test]
fn a_program_that_ends_when_asked_to_has_the_time_to_do_so() {
    let folder = stubborn("interrupted-handles");
    let mark = Mark::new("interrupted-handles");
    for (command, status) in [("run", 1), ("record", 0)] {
        let mut running = Running::start(&mark, &folder, &[command, "--", "./program", "handles", "20"]);
        std::thread::sleep(Duration::from_millis(100));
        running.send(libc::SIGTERM);
        let over = running.end();
        assert!(over.printed.contains("ended, asked 1 times\n"), "{over:?}");
        assert_eq!(over.status, Some(status), "{over:?}");
    }
}

#[test]
fn an_interrupted_recording_is_whole() {
    let folder = stubborn("interrupted-record");
    let mark = Mark::new("interrupted-record");
    for (does, signal, status) in [
        ("plain", libc::SIGINT, 128 + libc::SIGINT),
        ("plain", libc::SIGTERM, 128 + libc::SIGTERM),
        ("ignores", libc::SIGTERM, 128 + libc::SIGKILL),
        ("forks", libc::SIGHUP, 128 + libc::SIGHUP),
    ] {
        let arguments = ["record", "-o", "run.snag", "--", "./program", does, "20"];
        let mut running = Running::start(&mark, &folder, &arguments);
        std::thread::sleep(Duration::from_millis(100));
        running.send(signal);
        let over = running.end();
        assert_eq!(over.status, Some(status), "{does} {signal}: {over:?}");
        assert!(over.said.contains("snag: interrupted; what was recorded so far is kept"), "{over:?}");
        let checked = snag(&folder, &["check", "run.snag"]);
        assert_eq!(checked.status.code(), Some(1), "{does} {signal}: {}", complaint(&checked));
        assert_eq!(complaint(&checked), "", "nothing is cut off");
    }
}

#[test]
fn the_second_interrupt_ends_at_once() {
    let folder = stubborn("interrupted-twice");
    let mark = Mark::new("interrupted-twice");
    for command in ["run", "record"] {
        let mut running = Running::start(&mark, &folder, &[command, "--", "./program", "ignores", "20"]);
        running.send(libc::SIGTERM);
        while !running.said().contains("again to end at once") {
            assert!(running.sent.elapsed() < SOON, "{}", running.said());
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(60));
        running.send(libc::SIGINT);
        let over = running.end();
        assert_eq!(over.status, Some(128 + libc::SIGINT), "{over:?}");
        assert!(!over.printed.contains("shb:") && !over.said.contains("events"), "{over:?}");
    }
}

/// As `timeout` sends them: to the process and to its group.
#[test]
fn two_signals_at_the_same_time_are_one() {
    let folder = stubborn("interrupted-doubly");
    let mark = Mark::new("interrupted-doubly");
    let mut running = Running::start(&mark, &folder, &["run", "--", "./program", "ignores", "20"]);
    running.send(libc::SIGTERM);
    running.send(libc::SIGHUP);
    let over = running.end();
    assert_eq!(over.status, Some(1), "{over:?}");
    assert!(over.printed.contains("data race on counters"), "{over:?}");
}

#[test]
fn a_signal_that_was_ignored_from_the_start_stays_ignored() {
    let folder = stubborn("interrupted-nohup");
    let mark = Mark::new("interrupted-nohup");
    let mut command = mark.command(&folder, &["run", "--", "./program", "handles", "20"]);
    // SAFETY: a plain system call in the child before it becomes the program.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            Ok(())
        })
    };
    let mut running = Running::spawn(&mark, &folder, command);
    running.wait_for("running");
    running.send(libc::SIGHUP);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(running.said(), "");
    assert!(running.child.try_wait().unwrap().is_none());
    running.send(libc::SIGTERM);
    assert!(running.end().printed.contains("ended, asked 1 times"));
}

/// A terminal of our own, which the command has as its own.
fn on_a_terminal(command: &mut Command) -> OwnedFd {
    let (mut ours, mut theirs) = (0, 0);
    let (name, settings, size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
    // SAFETY: the numbers outlive the call, and the descriptors are ours alone.
    let (ours, theirs) = unsafe {
        assert_eq!(libc::openpty(&mut ours, &mut theirs, name, settings, size), 0);
        libc::fcntl(ours, libc::F_SETFD, libc::FD_CLOEXEC);
        (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    };
    command.stdin(theirs);
    // SAFETY: plain system calls in the child before it becomes the program.
    unsafe {
        command.process_group(0).pre_exec(|| {
            // Who leads a group cannot begin a session.
            libc::setpgid(0, libc::getpgid(libc::getppid()));
            libc::setsid();
            match libc::ioctl(0, libc::TIOCSCTTY, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        })
    };
    ours
}

#[test]
fn ctrl_c_at_a_terminal_reaches_the_program_once() {
    let folder = stubborn("interrupted-terminal");
    let mark = Mark::new("interrupted-terminal");
    let mut command = mark.command(&folder, &["run", "--", "./program", "handles", "20"]);
    let terminal = on_a_terminal(&mut command);
    let mut running = Running::spawn(&mark, &folder, command);
    running.wait_for("running");
    std::thread::sleep(Duration::from_millis(100));
    running.sent = Instant::now();
    std::io::Write::write_all(&mut std::fs::File::from(terminal.try_clone().unwrap()), b"\x03").unwrap();
    let over = running.end();
    assert!(over.printed.contains("ended, asked 1 times"), "{over:?}");
    assert_eq!(over.status, Some(1), "{over:?}");
}

#[test]
fn an_interrupted_replay_ends_the_program() {
    let folder = stubborn("interrupted-replay");
    let mark = Mark::new("interrupted-replay");
    let mut running = Running::start(&mark, &folder, &["record", "-o", "run.snag", "--", "./program", "plain", "20"]);
    running.send(libc::SIGTERM);
    running.end();
    // It does not end by itself.
    let mut running = Running::start(&mark, &folder, &["replay", "run.snag"]);
    running.send(libc::SIGTERM);
    let over = running.end();
    assert_eq!(over.status, Some(2), "{over:?}");
    assert!(over.said.ends_with("snag: error: interrupted\n") && !over.printed.contains("diverged"), "{over:?}");
}

/// How often commands are interrupted, and whether that must take no more than two seconds: as it does if nothing else goes on.
fn campaign(few: u64) -> (u64, bool) {
    let asked = std::env::var("SNAG_INTERRUPTS").ok().and_then(|count| count.parse().ok());
    (asked.unwrap_or(few), asked.is_some())
}

fn show(what: &str, mut took: Vec<Duration>, strict: bool) {
    took.sort();
    let seconds: Vec<String> = took.iter().map(|took| format!("{:.2}", took.as_secs_f64())).collect();
    println!("{what}: {} interrupts, seconds until the end: {}", took.len(), seconds.join(" "));
    assert!(!strict || took.last().is_none_or(|&took| took < Duration::from_secs(2)), "{what}: {seconds:?}");
}

/// While a million events and more are recorded, read or analysed.
#[test]
fn runs_that_are_interrupted_at_random_moments_end_with_a_report() {
    let folder = stubborn("interrupted-long");
    let mark = Mark::new("interrupted-long");
    let mut random = snag_synthesis::Rng::new(17);
    let (count, strict) = campaign(3);
    let mut took = Vec::new();
    for round in 0..count {
        let does = ["plain", "ignores", "handles", "forks"][round as usize % 4];
        let mut running = Running::start(&mark, &folder, &["run", "--", "./program", does]);
        // By turns, the program runs, or has ended a moment ago.
        std::thread::sleep(Duration::from_millis(500));
        if round % 2 == 1 {
            for process in mark.processes().into_iter().filter(|&process| process != running.child.id() as i32) {
                // SAFETY: a plain system call; the process is ours.
                unsafe { libc::kill(process, libc::SIGKILL) };
            }
        }
        std::thread::sleep(Duration::from_millis(random.below(1500) as u64));
        running.send([libc::SIGINT, libc::SIGTERM, libc::SIGHUP][round as usize % 3]);
        let over = running.end();
        assert!(matches!(over.status, Some(1 | 3)), "round {round}: {over:?}");
        assert!(over.printed.contains("shb: "), "round {round}: {over:?}");
        took.push(over.took);
    }
    show("snag run", took, strict);
}

/// A package whose tests take long, or race, or fail.
fn package(folder: &Folder) {
    let manifest = "[package]\nname = \"slow\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    let slow = "#[test]\nfn slow() {\n    let mut all = std::collections::HashMap::new();\n    println!(\"running\");\n    \
                for round in 0u64.. {\n        *all.entry(round % 1000).or_insert(0) += round;\n    }\n}\n";
    let racy = "static mut SHARED: u64 = 0;\nfn add() {\n    unsafe { SHARED += 1 };\n}\n#[test]\nfn racy() {\n    \
                let other = std::thread::spawn(add);\n    add();\n    other.join().unwrap();\n}\n";
    let main = "fn main() {\n    let status = std::env::args().nth(1).unwrap();\n    \
                std::process::exit(status.parse().unwrap());\n}\n";
    for (name, text) in [
        ("Cargo.toml", manifest),
        ("src/main.rs", main),
        ("tests/slow_a.rs", slow),
        ("tests/slow_b.rs", slow),
        ("tests/racy.rs", racy),
        ("tests/fails.rs", "#[test]\nfn fails() {\n    panic!();\n}\n"),
        ("tests/fine.rs", "#[test]\nfn fine() {}\n"),
    ] {
        let path = folder.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// `cargo snag` with these arguments.
fn cargo(mark: &Mark, folder: &Folder, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-snag"));
    let arguments: Vec<&str> = arguments.split(' ').collect();
    mark.prepare(&mut command, folder, &arguments);
    command.env("CARGO_TARGET_DIR", folder.path("target"));
    command
}

#[test]
fn cargo_snag_tells_findings_failures_and_interrupts_apart_and_goes_on_with_nothing() {
    let folder = Folder::new("cargo-endings");
    package(&folder);
    let mark = Mark::new("cargo-endings");
    // While it builds: nothing is run.
    let mut running = Running::spawn(&mark, &folder, cargo(&mark, &folder, "snag test --offline"));
    while !running.said().contains("Compiling") {
        assert!(running.child.try_wait().unwrap().is_none(), "{}", running.said());
        std::thread::sleep(Duration::from_millis(2));
    }
    running.send(libc::SIGTERM);
    let over = running.end();
    assert_eq!(over.status, Some(2), "{over:?}");
    assert!(over.said.contains("interrupted while cargo built it") && !over.said.contains("testing"), "{over:?}");
    for (arguments, status) in [
        ("snag run --offline -- 0", 0),
        ("snag run --offline -- 7", 3),
        ("snag test --offline --test fine", 0),
        ("snag test --offline --test fails", 3),
        ("snag test --offline --test racy", 1),
        ("snag test --offline --test fine --test fails", 3),
        ("snag test --offline --test fine --test racy", 1),
        ("snag test --offline --test fails --test racy --test fine", 1),
        ("snag test --offline --test nothing", 2),
    ] {
        let output = cargo(&mark, &folder, arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments}: {}{}", text(&output), complaint(&output));
    }
    // What would be replaced by the next one is refused before anything is run.
    for (option, why) in [("-o", "the report on each would replace"), ("--keep", "the trace of each would replace")] {
        let arguments = format!("snag {option} file.snag test --offline --test fine --test racy");
        let output = cargo(&mark, &folder, &arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", complaint(&output));
        assert!(complaint(&output).contains(why) && !complaint(&output).contains("testing"), "{}", complaint(&output));
        assert!(!folder.path("file.snag").exists());
    }
    // Files are where the user is, not where the test is run.
    std::fs::write(folder.path("tests/rules"), "race:add\n").unwrap();
    for (options, status) in [("-o report --keep run.snag", 1), ("--suppressions rules", 0)] {
        let mut command = cargo(&mark, &folder, &format!("snag {options} test --offline --test racy"));
        let output = command.current_dir(folder.path("tests")).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{options}: {}", complaint(&output));
    }
    assert!(folder.path("tests/report").exists() && folder.path("tests/run.snag").exists());
    // While the first of two test programs runs: the second is not run, and what cannot be answered is an error.
    let mut random = snag_synthesis::Rng::new(18);
    let (count, strict) = campaign(2);
    let mut took = Vec::new();
    for round in 0..count {
        let arguments = "snag test --offline --test slow_a --test slow_b -- --nocapture";
        let mut running = Running::spawn(&mark, &folder, cargo(&mark, &folder, arguments));
        running.wait_for("running\n");
        std::thread::sleep(Duration::from_millis(500 + random.below(1000) as u64));
        running.send([libc::SIGINT, libc::SIGTERM, libc::SIGHUP][round as usize % 3]);
        let over = running.end();
        assert_eq!(over.status, Some(2), "{over:?}");
        assert_eq!(over.said.matches("testing ").count(), 1, "{over:?}");
        assert_eq!(over.said.matches("interrupted before it was run").count(), 1, "{over:?}");
        assert!(over.printed.contains("shb: "), "{over:?}");
        took.push(over.took);
    }
    show("cargo snag test", took, strict);
}
