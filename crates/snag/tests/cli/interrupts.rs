//! Signals at any moment, and budgets: a command ends soon, with a report of what was found.
//!
//! More interrupts, on a larger trace, with the limit that users are promised:
//! `SNAG_INTERRUPTS=50 SNAG_INTERRUPT_EVENTS=1000000 cargo test --release -p snag --test cli -- at_any_moment --nocapture`.

use crate::support::*;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// What is run, and what its report is.
const COMMANDS: [(&[&str], Form); 12] = [
    (&["check", "--engine", "mc", "--format", "json"], Form::Json),
    (&["check"], Form::Text),
    (&["compare"], Form::Text),
    (&["check", "--engine", "cp", "--format", "html"], Form::Html),
    (&["check", "--engine", "wcp", "--format", "sarif"], Form::Json),
    (&["check", "--engine", "tlh1"], Form::Text),
    (&["compare", "--format", "json"], Form::Json),
    (&["check", "--engine", "tlh2", "--format", "json"], Form::Json),
    (&["check", "--engine", "rdit", "--format", "sarif"], Form::Json),
    (&["check", "--engine", "recipe", "--format", "html"], Form::Html),
    (&["check", "--engine", "mc", "--all-pairs", "--format", "json"], Form::Json),
    (&["check", "--engine", "hb,fhb,shb,lockset", "--candidates", "--format", "html"], Form::Html),
];

/// The part of the time after which a trace may still be being read.
const READING: f64 = 0.03;

const SIGNALS: [&str; 3] = ["-INT", "-TERM", "-HUP"];

/// How long an interrupted command may take; a machine that does many other things gets more time.
const PROMISED: Duration = Duration::from_secs(2);
const ON_A_BUSY_MACHINE: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Text,
    Json,
    Html,
}

fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// Starts a command and waits until it handles signals.
fn started(args: &[&str]) -> (Child, BufReader<std::process::ChildStderr>) {
    use std::os::unix::process::CommandExt;
    let mut command = command(&[&["-v"], args].concat());
    // The tests may have been started under nohup, which would go on to the program.
    // SAFETY: a plain system call in the child before it becomes the program.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            Ok(())
        })
    };
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("text");
    assert!(line.contains("reading"), "{line}");
    (child, stderr)
}

fn send(signal: &str, child: &Child) {
    let sent = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// Reads standard output to its end in another thread.
fn output(child: &mut Child) -> std::thread::JoinHandle<String> {
    let mut stdout = child.stdout.take().expect("a pipe");
    std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).expect("text");
        text
    })
}

#[test]
fn an_interrupt_at_any_moment_ends_a_command_soon_with_a_whole_report() {
    let (count, limit) = match number("SNAG_INTERRUPTS") {
        None => (6, ON_A_BUSY_MACHINE),
        Some(count) => (count, PROMISED),
    };
    let folder = Folder::new("any-moment");
    let trace = folder.path("t.snag");
    let events = number("SNAG_INTERRUPT_EVENTS").unwrap_or(300_000).to_string();
    let shape = ["--threads", "8", "--nesting", "3", "--racy", "0.001", "--values", "--branches", "0.1"];
    snag(&[&["generate", "--events", &events, "-o", &trace][..], &shape].concat()).expect(0);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut took: Vec<Duration> = Vec::new();
    let mut reading = 0;
    for round in 0..count {
        let (args, form) = COMMANDS[round % COMMANDS.len()];
        let (mut child, mut stderr) = started(&[args, &[&trace]].concat());
        let text = output(&mut child);
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Every other one while the trace is read; the others more often early than late, and up to as long as the slow ones take.
        let share = (random >> 40) as f64 / (1u64 << 24) as f64;
        let share = if round % 2 == 0 { READING * share } else { share * share };
        std::thread::sleep(Duration::from_secs_f64(4.0 * share * events.parse::<f64>().expect("a number") / 1e6));
        let signal = SIGNALS[round % SIGNALS.len()];
        let sent = Instant::now();
        send(signal, &child);
        let status = child.wait().expect("it ends").code();
        took.push(sent.elapsed());
        let text = text.join().expect("it is read");
        let mut said = String::new();
        stderr.read_to_string(&mut said).expect("text");
        let round = format!("{signal} {args:?}, {:?} after {share}: {said}", took[took.len() - 1]);
        assert!(took[took.len() - 1] < limit, "{round}");
        assert!(matches!(status, Some(0 | 1)), "{status:?}: {round}");
        match form {
            Form::Text => assert!(text.contains(" events"), "{round}{text}"),
            Form::Json => assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{round}"),
            Form::Html => assert!(text.ends_with("</html>\n"), "{round}"),
        }
        reading += said.contains("events are analysed") as usize;
    }
    took.sort_unstable();
    println!(
        "{count} interrupts, {reading} of them before {events} events were read: median {:?}, longest {:?}",
        took[count / 2],
        took[count - 1]
    );
}

/// A trace of which only the beginning comes, with a race and, in the middle of a line, no end.
#[test]
fn an_interrupt_while_a_trace_is_read_reports_what_is_in_its_beginning() {
    let folder = Folder::new("beginning");
    let trace = folder.path("t.std");
    snag(&["generate", "--events", "40000", "--racy", "0.05", "-o", &trace]).expect(0);
    let whole = std::fs::read(&trace).expect("it was written");
    let beginning = &whole[..whole.len() / 2];
    for (round, args) in [
        &["check", "--format", "json"][..],
        &["check", "--engine", "mc,cp", "--format", "json"],
        &["check", "--engine", "shb", "--format", "sarif"],
        &["compare", "--format", "json"],
    ]
    .into_iter()
    .enumerate()
    {
        for ends in [false, true] {
            let mut child = command(&[&["-v"], args, &["-"]].concat())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("it runs");
            let text = output(&mut child);
            let mut input = child.stdin.take().expect("a pipe");
            std::io::Write::write_all(&mut input, beginning).expect("it reads");
            std::thread::sleep(Duration::from_millis(300));
            let sent = Instant::now();
            send(SIGNALS[1 - round % 2], &child);
            // Whoever feeds it may end of the same signal.
            let input = (!ends).then_some(input);
            let ended = child.wait_with_output().expect("it ends");
            assert!(sent.elapsed() < ON_A_BUSY_MACHINE, "{args:?}");
            drop(input);
            let said = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(1), "{args:?}: {said}");
            assert!(said.contains("interrupted: only the first ") && !said.contains("error"), "{args:?}: {said}");
            let text = text.join().expect("it is read");
            let report: serde_json::Value = serde_json::from_str(&text).expect("a whole report");
            if !args.contains(&"sarif") {
                let engines = report["traces"][0]["engines"].as_array().expect("engines");
                assert!(engines.iter().all(|engine| engine["complete"] == false), "{args:?}: {text}");
            }
        }
    }
}

/// A pipe that nobody reads any more.
fn broken() -> std::io::PipeWriter {
    std::io::pipe().expect("a pipe").1
}

#[test]
fn nobody_reading_what_a_command_says_is_no_error_of_its_own() {
    let folder = Folder::new("unheard");
    let mistake = folder.file("mistake.rcp", "this is no program\n");
    let bad = folder.file("bad.std", "nonsense\n");
    let trace = figure("fig3");
    let some = snag(&["check", "-v", &trace]).status;
    for (args, status) in [
        (&["check", "-v", &trace][..], some),
        (&["check", "-v", "--format", "json", &trace], some),
        (&["compare", "-v", &trace], some),
        (&["stats", &trace], Some(0)),
        (&["convert", &trace, "--to", "snag", "-"], Some(0)),
        (&["generate", "--events", "100000"], Some(0)),
        (&["completions", "bash"], Some(0)),
        (&["--help"], Some(0)),
        (&["check", &bad], Some(2)),
        (&["check", "--no-such-option"], Some(2)),
        (&["trace", &mistake], Some(2)),
        (&["record", "--", "/no/such/program"], Some(2)),
    ] {
        for (out, err) in [(true, false), (false, true), (true, true)] {
            let mut command = command(args);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            if out {
                command.stdout(broken());
            }
            if err {
                command.stderr(broken());
            }
            assert_eq!(command.status().expect("it runs").code(), status, "{args:?}, stdout {out}, stderr {err}");
        }
    }
}

/// Nobody reads what it says, and the pipe is full.
#[test]
fn an_interrupt_ends_a_command_whose_messages_nobody_reads() {
    let folder = Folder::new("unread");
    let trace = folder.path("t.snag");
    snag(&["generate", "--events", "100000", "--racy", "0.001", "--threads", "8", "-o", &trace]).expect(0);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let set = |flags: libc::c_int| {
        // SAFETY: a plain system call on a descriptor of ours.
        assert_eq!(unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&writer), libc::F_SETFL, flags) }, 0);
    };
    set(libc::O_NONBLOCK);
    while std::io::Write::write(&mut &writer, &[b'x'; 4096]).is_ok() {}
    set(0);
    // It wants to say that it reads, and cannot.
    let mut command = command(&["-v", "check", "--engine", "shb", "--format", "json", &trace]);
    let mut child = command.stdout(Stdio::piped()).stderr(writer).spawn().expect("it runs");
    let text = output(&mut child);
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().expect("it is ours").is_none(), "it does not wait for whoever reads");
    let sent = Instant::now();
    send("-TERM", &child);
    let status = loop {
        match child.try_wait().expect("it is ours") {
            Some(status) => break status,
            None if sent.elapsed() > ON_A_BUSY_MACHINE => {
                let _ = child.kill();
                panic!("it does not end");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    drop(reader);
    assert!(matches!(status.code(), Some(0 | 1)), "{status:?}");
    assert!(serde_json::from_str::<serde_json::Value>(&text.join().expect("it is read")).is_ok());
}

#[test]
fn an_interrupt_ends_a_command_that_waits_for_its_input() {
    for args in [&["check", "-"][..], &["stats", "-"], &["convert", "-", "--to", "std", "-"], &["compare", "-"]] {
        let mut child =
            command(&[&["-v"], args].concat()).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let input = child.stdin.take();
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("text");
        assert!(line.contains("reading"), "{line}");
        send("-TERM", &child);
        let sent = Instant::now();
        // Nothing comes, and the input stays open.
        assert_eq!(child.wait().expect("it ends").code(), Some(2), "{args:?}");
        assert!(sent.elapsed() < ON_A_BUSY_MACHINE, "{args:?}");
        drop(input);
    }
}

#[test]
fn the_second_interrupt_ends_a_command_that_cannot_write_its_report() {
    let folder = Folder::new("second");
    let trace = folder.path("t.snag");
    snag(&["generate", "--events", "60000", "--racy", "0.1", "--racy-variables", "200", "-o", &trace]).expect(0);
    // Nobody reads its output, which is longer than a pipe.
    let (mut child, mut stderr) = started(&["check", "--engine", "shb", "--format", "json", &trace]);
    std::thread::sleep(Duration::from_millis(500));
    send("-INT", &child);
    let mut line = String::new();
    while !line.contains("interrupted") {
        line.clear();
        assert!(stderr.read_line(&mut line).expect("text") > 0, "it has ended");
    }
    std::thread::sleep(Duration::from_millis(100));
    send("-INT", &child);
    let sent = Instant::now();
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(sent.elapsed() < ON_A_BUSY_MACHINE);
}

/// Ranges of which each overlaps very many others: what must come before what takes long to find out.
fn stairs(folder: &Folder, ranges: usize) -> String {
    let mut text = String::from("%snag 1\n");
    for k in 0..ranges {
        text += &format!("T{}|w(0x{:x}:{})|a{}\n", k % 2, 0x1000 + k, 1 << 20, k % 50);
    }
    folder.file("stairs.stx", &text)
}

#[test]
fn within_a_budget_what_is_found_quickly_is_not_lost_to_dear_preparation() {
    let folder = Folder::new("dear");
    let trace = stairs(&folder, 1_500);
    let started = Instant::now();
    let ran = snag(&["check", "--budget", "3", &trace]).expect(1);
    assert!(started.elapsed() < Duration::from_secs(3) + ON_A_BUSY_MACHINE);
    assert!(ran.stdout.contains("found by shb"), "{}", ran.stdout);
}

/// How long an engine takes depends on the machine, so the trace grows until the budget does not suffice.
#[test]
fn a_budget_is_kept_where_engines_prepare_for_long() {
    let folder = Folder::new("kept");
    for engine in ["auto", "mc", "cp", "tlh1", "rdit"] {
        let mut sizes = [6_000, 12_000, 24_000, 48_000].into_iter();
        loop {
            let size = sizes.next().unwrap_or_else(|| panic!("{engine} is never cut short"));
            let trace = stairs(&folder, size);
            let started = Instant::now();
            let ran = snag(&["check", "--engine", engine, "--budget", "0.5", "--format", "json", &trace]);
            let took = started.elapsed();
            assert!(matches!(ran.status, Some(0 | 1)), "{engine}: {}", ran.stderr);
            assert!(took < Duration::from_secs(6), "{engine}, {size}: {took:?}");
            if ran.stdout.contains("\"complete\": false") {
                break;
            }
        }
    }
}
