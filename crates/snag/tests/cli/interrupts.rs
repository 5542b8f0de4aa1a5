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
    for round in 0..count {
        let (args, form) = COMMANDS[round % COMMANDS.len()];
        let (mut child, mut stderr) = started(&[args, &[&trace]].concat());
        let text = output(&mut child);
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // More often early than late, and up to as long as the slow ones take.
        let share = (random >> 40) as f64 / (1u64 << 24) as f64;
        std::thread::sleep(Duration::from_secs_f64(
            4.0 * share * share * events.parse::<f64>().expect("a number") / 1e6,
        ));
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
        match status {
            // Where nothing was read there is nothing to report.
            Some(2) => assert!(said.contains("interrupted while it was read"), "{round}"),
            Some(0 | 1) => match form {
                Form::Text => assert!(text.contains(" events"), "{round}{text}"),
                Form::Json => assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{round}"),
                Form::Html => assert!(text.ends_with("</html>\n"), "{round}"),
            },
            other => panic!("{other:?}: {round}"),
        }
    }
    took.sort_unstable();
    println!("{count} interrupts, {events} events: median {:?}, longest {:?}", took[count / 2], took[count - 1]);
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

#[test]
fn a_budget_is_kept_where_engines_prepare_for_long() {
    let folder = Folder::new("kept");
    let trace = stairs(&folder, 6_000);
    for engine in ["auto", "mc", "cp", "tlh1", "rdit"] {
        let started = Instant::now();
        let ran = snag(&["check", "--engine", engine, "--budget", "0.5", "--format", "json", &trace]);
        let took = started.elapsed();
        assert!(matches!(ran.status, Some(0 | 1)), "{engine}: {}", ran.stderr);
        assert!(ran.stdout.contains("\"complete\": false"), "{engine}");
        assert!(took < Duration::from_secs(6), "{engine}: {took:?}");
    }
}
