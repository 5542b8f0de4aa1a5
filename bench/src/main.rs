//! Measures the `snag` binary on generated traces and prints one table.
//!
//! Every figure is that of a whole process: reading, analysis, proofs, output. It
//! is given as events per second of CPU time, which other work on the machine
//! disturbs least, with the peak of the memory in use. Each command runs
//! several times; the fastest counts. Nothing here is a test: no figure makes it fail.
//!
//! `cargo run --release -p snag-bench -- [--events N] [--runs N] [--only WORD] [--huge] [--causal] [--dir DIR]`

mod causal;
mod measure;

use measure::{Measured, fastest};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A trace to generate.
struct Workload {
    name: &'static str,
    threads: usize,
    locks: usize,
    variables: usize,
    events: usize,
    /// Share of accesses that are atomic; STD has none.
    atomics: &'static str,
}

/// What to run on a trace.
const COMMANDS: [(&str, &[&str]); 5] = [
    ("parse", &["stats"]),
    ("hb", &["check", "--engine", "hb"]),
    ("shb", &["check", "--engine", "shb"]),
    ("order", &["check", "--engine", "order"]),
    ("fhb", &["check", "--engine", "fhb"]),
];

/// Events per CPU second of RAPID's SHB with epochs on 10 M events, 8 threads, few variables.
const RAPID_SHB: f64 = 0.8e6;

struct Options {
    events: usize,
    runs: usize,
    only: Option<String>,
    huge: bool,
    /// Only the tables of WCP and CP.
    causal: bool,
    dir: PathBuf,
}

fn main() {
    let options = options();
    let snag = build();
    std::fs::create_dir_all(&options.dir).expect("the folder for traces can be made");
    if !options.causal {
        println!("| trace | format | bytes/event | command | M events/s | peak MB | ratio |");
        println!("|---|---|---|---|---|---|---|");
        for workload in workloads(&options) {
            measure_workload(&snag, &workload, &options);
        }
    }
    causal::tables(&snag, &options);
}

fn options() -> Options {
    let dir = std::env::temp_dir().join("snag-bench");
    let mut options = Options { events: 10_000_000, runs: 3, only: None, huge: false, causal: false, dir };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--events" => options.events = value().parse().expect("--events needs a number"),
            "--runs" => options.runs = value().parse().expect("--runs needs a number"),
            "--only" => options.only = Some(value()),
            "--huge" => options.huge = true,
            "--causal" => options.causal = true,
            "--dir" => options.dir = value().into(),
            other => panic!("unknown option {other}"),
        }
    }
    options
}

/// Builds the binary, so that what is measured is what the sources say.
fn build() -> PathBuf {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("bench lies in the project");
    let status = Command::new(cargo).args(["build", "--release", "-q", "-p", "snag"]).current_dir(root).status();
    assert!(status.expect("cargo runs").success(), "snag does not build");
    let own = std::env::current_exe().expect("this program has a path");
    own.with_file_name("snag")
}

fn workloads(options: &Options) -> Vec<Workload> {
    let (events, atomics) = (options.events, "0");
    let mut all = vec![
        Workload { name: "8 threads, few variables", threads: 8, locks: 8, variables: 96, events, atomics },
        Workload { name: "8 threads, many variables", threads: 8, locks: 32, variables: 11_000, events, atomics },
        Workload { name: "64 threads, few variables", threads: 64, locks: 64, variables: 768, events, atomics },
        Workload { name: "64 threads, many variables", threads: 64, locks: 256, variables: 11_000, events, atomics },
        Workload { name: "512 threads, few variables", threads: 512, locks: 512, variables: 6144, events, atomics },
        Workload {
            name: "512 threads, many variables",
            threads: 512,
            locks: 1024,
            variables: 110_000,
            events,
            atomics,
        },
        Workload {
            name: "8 threads, a million variables",
            threads: 8,
            locks: 32,
            variables: 1_000_000,
            events,
            atomics,
        },
        Workload { name: "8 threads, atomics", threads: 8, locks: 8, variables: 96, events, atomics: "0.05" },
        Workload { name: "64 threads, atomics", threads: 64, locks: 64, variables: 768, events, atomics: "0.05" },
    ];
    if options.huge {
        let events = 100_000_000;
        all.push(Workload {
            name: "100 M events, 8 threads",
            threads: 8,
            locks: 32,
            variables: 11_000,
            events,
            atomics,
        });
    }
    all.retain(|workload| options.only.as_ref().is_none_or(|word| workload.name.contains(word.as_str())));
    all
}

fn measure_workload(snag: &Path, workload: &Workload, options: &Options) {
    let Workload { threads, locks, variables, events, atomics, .. } = workload;
    let stem = format!("{threads}-{locks}-{variables}-{events}-{atomics}");
    let runs = if workload.events > 20_000_000 { 1 } else { options.runs };
    for format in ["std", "snag"].into_iter().skip((*atomics != "0") as usize) {
        let file = options.dir.join(format!("{stem}.{format}"));
        if !file.exists() {
            generate(snag, workload, &file);
        }
        let bytes = std::fs::metadata(&file).expect("the trace was generated").len();
        let lines = (format == "std").then(|| fastest(runs, || Command::new("wc").arg("-l").arg(&file).measured()));
        let (mut hb, mut shb) = (None, None);
        for (name, arguments) in COMMANDS {
            let run = || Command::new(snag).args(arguments).args(["-q", "-j", "1"]).arg(&file).measured();
            let measured = fastest(runs, run);
            let speed = workload.events as f64 / measured.cpu;
            let ratio = match (name, &lines) {
                ("parse", Some(lines)) => format!("{:.1} × wc -l", measured.cpu / lines.cpu),
                ("parse", None) => String::new(),
                ("hb", _) => {
                    hb = Some(measured.cpu);
                    String::new()
                }
                ("order", _) => shb.map_or(String::new(), |shb| format!("{:.2} × shb", measured.cpu / shb)),
                ("shb", Some(_)) if workload.threads == 8 && workload.variables == 96 => {
                    format!("{:.0} × RAPID", speed / RAPID_SHB)
                }
                _ => hb.map_or(String::new(), |hb| format!("{:.2} × hb", measured.cpu / hb)),
            };
            if name == "shb" {
                shb = Some(measured.cpu);
            }
            println!(
                "| {} | {format} | {:.1} | {name} | {:.1} | {:.0} | {ratio} |",
                workload.name,
                bytes as f64 / workload.events as f64,
                speed / 1e6,
                measured.peak_memory as f64 / 1e6,
            );
        }
    }
}

fn generate(snag: &Path, workload: &Workload, file: &Path) {
    let number = |n: usize| n.to_string();
    let status = Command::new(snag)
        .args(["generate", "-q", "--events", &number(workload.events), "--threads", &number(workload.threads)])
        .args(["--locks", &number(workload.locks), "--variables", &number(workload.variables)])
        .args(["--atomics", workload.atomics])
        .arg("-o")
        .arg(file)
        .status();
    assert!(status.expect("snag runs").success(), "cannot generate {}", file.display());
}

trait Measure {
    fn measured(&mut self) -> Measured;
}

impl Measure for Command {
    fn measured(&mut self) -> Measured {
        measure::run(self)
    }
}
