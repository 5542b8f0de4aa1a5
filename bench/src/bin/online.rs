//! Measures `snag check --online`: whether it keeps up with a stream, in how much memory, and how soon a race is printed
//! after its second event has been written.
//!
//! `cargo run --release -p snag-bench --bin online -- --snag PATH [--events N] [--rate EVENTS_PER_SECOND]`

use snag_formats::reader::TraceReader;
use snag_formats::std_format::StdWriter;
use snag_model::Events;
use snag_synthesis::generate::{Generator, Shape};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// When the second access of the planted race is written, in events.
const PLANTED: usize = 300_000;

fn main() {
    let (mut snag, mut events, mut rate) = (PathBuf::from("target/release/snag"), 10_000_000, 1_000_000.0);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--snag" => snag = value.into(),
            "--events" => events = value.parse().expect("--events needs a number"),
            "--rate" => rate = value.parse().expect("--rate needs a number"),
            other => panic!("unknown option {other}"),
        }
    }
    println!("| stream | events | offered, M/s | taken, M/s | peak MB | races | first race printed after, ms |");
    println!("|---|---|---|---|---|---|---|");
    let shape = |racy, variables| Shape { events, racy, variables, ..Shape::default() };
    measure(&snag, "8 threads, no race but a planted one", shape(0.0, 96), rate, true);
    measure(&snag, "8 threads, racy", shape(0.002, 96), rate, false);
    measure(&snag, "8 threads, many variables, racy", shape(0.002, 11_000), rate, false);
}

/// The lines of a trace, block by block, with a planted race if there is to be one.
fn measure(snag: &Path, name: &str, shape: Shape, rate: f64, planted: bool) {
    let mut child = Command::new(snag)
        .args(["check", "-q", "--online", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("snag runs");
    let first = Arc::new(Mutex::new((None, 0)));
    let seen = first.clone();
    let output = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let listener = std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok).filter(|line| line.contains(": data race on ")) {
            let mut seen = seen.lock().expect("nobody panics");
            if line.contains("planted") || seen.0.is_none() {
                seen.0.get_or_insert((Instant::now(), line));
            }
            seen.1 += 1;
        }
    });
    let (written, seconds, count) = feed(&mut child, shape, rate, planted);
    let peak = peak(child.id());
    drop(child.stdin.take());
    child.wait().expect("it ends");
    let total = seconds.elapsed().as_secs_f64();
    listener.join().expect("nobody panics");
    let first = first.lock().expect("nobody panics");
    let latency = match (&first.0, written) {
        (Some((printed, _)), Some(written)) => format!("{:.0}", 1e3 * (*printed - written).as_secs_f64()),
        _ => String::new(),
    };
    println!(
        "| {name} | {count} | {:.2} | {:.2} | {:.0} | {} | {latency} |",
        rate / 1e6,
        count as f64 / total / 1e6,
        peak as f64 / 1e6,
        first.1
    );
}

/// Writes the stream at a rate: when the planted race was written, when it began, and how much it was.
fn feed(child: &mut Child, shape: Shape, rate: f64, planted: bool) -> (Option<Instant>, Instant, usize) {
    let input = child.stdin.as_mut().expect("it is a pipe");
    let mut reader = TraceReader::new(Box::new(Generator::new(shape)), None);
    let (mut block, mut count, mut written) = (Events::new(), 0, None);
    let mut blocks = Vec::new();
    let mut more = true;
    // Lines are made before the clock starts, some hundred thousand at a time would disturb it.
    while more {
        more = reader.next_block(&mut block).expect("generated traces are well formed");
        let mut writer = StdWriter::new(Vec::new());
        writer.write(&block, &reader.tables).expect("memory takes it");
        let mut text = writer.finish(&reader.tables).expect("memory takes it");
        if !text.ends_with(b"\n") && !text.is_empty() {
            text.push(b'\n');
        }
        blocks.push(text);
    }
    let started = Instant::now();
    for text in blocks {
        // A millisecond's worth at a time.
        let lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
        for piece in lines.chunks((rate / 1e3) as usize) {
            let due = started + Duration::from_secs_f64(count as f64 / rate);
            if let Some(wait) = due.checked_duration_since(Instant::now()) {
                std::thread::sleep(wait);
            }
            if piece.concat().is_empty() {
                continue;
            }
            input.write_all(&piece.concat()).expect("snag reads");
            count += piece.len();
            if planted && written.is_none() && count >= PLANTED {
                input.write_all(b"T1|w(planted)|Planted:1\nT2|w(planted)|Planted:2\n").expect("snag reads");
                written = Some(Instant::now());
                count += 2;
            }
        }
    }
    (written, started, count)
}

/// The peak of a process's memory.
fn peak(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}
