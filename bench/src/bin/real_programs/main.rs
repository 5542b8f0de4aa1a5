//! Records real programs, and compares with running them as they are and under ThreadSanitizer.
//!
//! Sources come from Debian by `apt-get source`; each program is built twice with gcc, once plainly and once with
//! `-fsanitize=thread`. So this needs a Debian with gcc, g++ and make, a network, some minutes, and no privileges.
//!
//! `cargo run --release -p snag-bench --bin real_programs -- [--folder F] [--snag S] [--runs N] [--recordings N] [NAME…]`
//!
//! For each program: processor seconds natively, under ThreadSanitizer, and recorded (the program, and with what `snag`
//! does; of three recordings the one that took least), processor seconds of `snag check`, events, bytes for each of them, races that ThreadSanitizer reports in `N`
//! runs (10) and that Snag predicts from one, and whether what the program puts out is the same as natively.

mod load;
mod programs;
mod sources;

use load::Outcome;
use programs::{PROGRAMS, Program};
use std::path::{Path, PathBuf};

/// How to run a built program.
#[derive(Clone, Copy, PartialEq)]
enum Build {
    Native,
    Sanitized,
}

/// One line of the table.
struct Line {
    native: f64,
    sanitized: f64,
    program: f64,
    recorded: f64,
    check: f64,
    events: u64,
    bytes: u64,
    sanitizer_races: usize,
    races: usize,
    same: bool,
}

fn main() {
    let (mut folder, mut snag, mut names) = (None, None, Vec::new());
    let (mut runs, mut recordings) = (10, 3);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--folder" => folder = Some(PathBuf::from(value())),
            "--snag" => snag = Some(PathBuf::from(value())),
            "--runs" => runs = value().parse().expect("--runs needs a number"),
            "--recordings" => recordings = value().parse().expect("--recordings needs a number"),
            _ => names.push(word),
        }
    }
    let folder = folder.unwrap_or_else(|| std::env::temp_dir().join("snag-real-programs"));
    let snag = snag.unwrap_or_else(beside_this);
    std::fs::create_dir_all(&folder).expect("a folder to work in");
    let folder = folder.canonicalize().expect("a folder to work in");
    let input = programs::input(&folder);
    println!(
        "| program | native s | TSan s | recorded: program s | with `snag` s | × TSan | `check` s | M events | bytes/event | races TSan, {runs} runs | races Snag, 1 run | output |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for program in PROGRAMS.iter().filter(|p| names.is_empty() || names.iter().any(|name| name == p.name)) {
        if let Err(why) = sources::build(program, &folder) {
            println!("| {} | not built: {why} |", program.name);
            continue;
        }
        let line = measure(program, &folder, &snag, &input, [runs, recordings]);
        println!(
            "| {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} | {:.1} | {:.2} | {} | {} | {} |",
            program.name,
            line.native,
            line.sanitized,
            line.program,
            line.recorded,
            line.recorded / line.sanitized,
            line.check,
            line.events as f64 / 1e6,
            line.bytes as f64 / line.events as f64,
            line.sanitizer_races,
            line.races,
            if line.same { "same" } else { "DIFFERS" },
        );
    }
}

/// The `snag` that was built together with this program.
fn beside_this() -> PathBuf {
    let own = std::env::current_exe().expect("this program has a path");
    own.with_file_name("snag")
}

fn measure(program: &Program, folder: &Path, snag: &Path, input: &Path, [runs, recordings]: [usize; 2]) -> Line {
    let native = load::run(program, folder, Build::Native, None, input);
    let mut sanitized: Vec<Outcome> = Vec::new();
    for _ in 0..runs.max(1) {
        sanitized.push(load::run(program, folder, Build::Sanitized, None, input));
    }
    let mut reports: Vec<&String> = sanitized.iter().flat_map(|outcome| &outcome.reports).collect();
    reports.sort();
    reports.dedup();
    let trace = folder.join(program.name).join("run.snag");
    let record = || load::run(program, folder, Build::Sanitized, Some((snag, &trace)), input);
    let recordings: Vec<Outcome> = (0..recordings.max(1)).map(|_| record()).collect();
    let recorded = recordings.iter().min_by(|a, b| a.cpu.total_cmp(&b.cpu)).expect("one at least");
    let (check, races) = load::check(snag, &trace);
    let outputs = sanitized.iter().chain(&recordings);
    Line {
        native: native.cpu,
        sanitized: sanitized.iter().map(|outcome| outcome.cpu).fold(f64::INFINITY, f64::min),
        program: recorded.program,
        recorded: recorded.cpu,
        check,
        events: recorded.events,
        bytes: std::fs::metadata(&trace).map_or(0, |data| data.len()),
        sanitizer_races: reports.len(),
        races,
        same: outputs.into_iter().all(|outcome| outcome.output == native.output),
    }
}
