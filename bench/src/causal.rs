//! WCP and CP: speed, memory and sweeps; how the cost grows; and what they prove that SHB does not have.

use crate::measure::{self, Measured, fastest};
use crate::{Options, Workload, generate};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Events per CPU second of RAPID's WCP: with 8 threads and few variables, and with 64 threads and many.
const RAPID_WCP: [(usize, usize, f64); 2] = [(8, 96, 0.3e6), (64, 11_000, 0.024e6)];

/// Prints the tables.
pub fn tables(snag: &Path, options: &Options) {
    println!("\n| trace | command | M events/s | peak MB | ratio | cost against a tenth of the events | sweeps |");
    println!("|---|---|---|---|---|---|---|");
    let shapes = [
        ("8 threads, few variables", 8, 8, 96),
        ("8 threads, many variables", 8, 32, 11_000),
        ("64 threads, many variables", 64, 256, 11_000),
        ("8 threads, a million variables", 8, 32, 1_000_000),
    ];
    for (name, threads, locks, variables) in shapes {
        if options.only.as_ref().is_none_or(|word| name.contains(word.as_str())) {
            let of = |events| Workload { name, threads, locks, variables, events, atomics: "0" };
            growth(snag, of(options.events / 10), of(options.events), options);
        }
    }
    nested(snag, options);
}

fn file(snag: &Path, workload: &Workload, options: &Options) -> PathBuf {
    let Workload { threads, locks, variables, events, .. } = workload;
    let file = options.dir.join(format!("{threads}-{locks}-{variables}-{events}.snag"));
    if !file.exists() {
        generate(snag, workload, &file);
    }
    file
}

fn growth(snag: &Path, small: Workload, large: Workload, options: &Options) {
    let files = [file(snag, &small, options), file(snag, &large, options)];
    let mut hb = 0.0;
    for engine in ["hb", "wcp", "cp"] {
        let run = |file: &Path| {
            let command =
                || measure::run(Command::new(snag).args(["check", "-q", "-j", "1", "--engine", engine]).arg(file));
            fastest(options.runs, command)
        };
        let [short, long]: [Measured; 2] = [run(&files[0]), run(&files[1])];
        let speed = large.events as f64 / long.cpu;
        let rapid = RAPID_WCP.iter().find(|(t, v, _)| engine == "wcp" && (*t, *v) == (large.threads, large.variables));
        let ratio = match (engine, rapid) {
            ("hb", _) => {
                hb = long.cpu;
                String::new()
            }
            (_, Some((_, _, rapid))) => format!("{:.2} × hb, {:.0} × RAPID", long.cpu / hb, speed / rapid),
            _ => format!("{:.2} × hb", long.cpu / hb),
        };
        let grown = (long.cpu / large.events as f64) / (short.cpu / small.events as f64);
        let sweeps = if engine == "cp" { sweeps(snag, &files[1]) } else { String::new() };
        println!(
            "| {} | {engine} | {:.1} | {:.0} | {ratio} | {grown:.2} | {sweeps} |",
            large.name,
            speed / 1e6,
            long.peak_memory as f64 / 1e6,
        );
    }
}

fn json(snag: &Path, arguments: &[&str], file: &Path) -> String {
    let output = Command::new(snag).args(["check", "-q", "--format", "json"]).args(arguments).arg(file).output();
    String::from_utf8(output.expect("snag runs").stdout).expect("JSON is UTF-8")
}

fn sweeps(snag: &Path, file: &Path) -> String {
    let json = json(snag, &["--engine", "cp"], file);
    let number = json.split("\"sweeps\": ").nth(1).expect("cp says how often it has swept");
    number.chars().take_while(char::is_ascii_digit).collect()
}

/// Pairs of locations that each engine proves, on traces with sections nested three deep.
fn nested(snag: &Path, options: &Options) {
    println!(
        "\n| nested traces, {NESTED} of each | events | proved by shb | wcp, not shb | cp, not shb | wcp, cp: unproved | deadlocks |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, events, racy, variables, locks, section) in [
        ("8 threads, 4 locks", 2_000, "0.02", "100000", "4", "3"),
        ("8 threads, 8 locks", 20_000, "0.002", "100000", "8", "3"),
        ("8 threads, 4 locks, long", 100_000, "0.0005", "1000000", "4", "3"),
    ] {
        let (mut shb, mut more, mut unproved, mut deadlocks) = (0, [0, 0], [0, 0], 0);
        for seed in 1..=NESTED {
            let file = options.dir.join(format!("nested-{events}-{locks}-{seed}.snag"));
            if !file.exists() {
                let (events, seed) = (events.to_string(), seed.to_string());
                let status = Command::new(snag)
                    .args(["generate", "-q", "--events", &events, "--racy", racy, "--variables", variables])
                    .args(["--threads", "8", "--locks", locks, "--section", section, "--nesting", "3", "--seed", &seed])
                    .arg("-o")
                    .arg(&file)
                    .status();
                assert!(status.expect("snag runs").success(), "cannot generate {}", file.display());
            }
            let of_shb = pairs(&json(snag, &["--engine", "shb"], &file), "\"id\": \"R");
            shb += of_shb.len();
            for (index, engine) in ["wcp", "cp"].into_iter().enumerate() {
                let found = json(snag, &["--engine", engine, "--all", "--candidates"], &file);
                more[index] += pairs(&found, "\"id\": \"R").difference(&of_shb).count();
                unproved[index] += pairs(&found, "\"id\": \"C").len();
                deadlocks += (engine == "cp") as usize * found.matches("\"id\": \"D").count();
            }
        }
        let [wcp, cp] = more;
        println!("| {name} | {events} | {shb} | {wcp} | {cp} | {}, {} | {deadlocks} |", unproved[0], unproved[1]);
    }
}

/// How many traces of each shape.
const NESTED: usize = 10;

/// The unordered pairs of locations of findings whose ids begin like this.
fn pairs(json: &str, id: &str) -> BTreeSet<[String; 2]> {
    let location = |text: &str| text.split('"').next().expect("split gives one piece at least").to_owned();
    let findings = json.split(id).skip(1).map(|finding| {
        let mut locations = finding.split("\"location\": \"").skip(1).map(location);
        let mut pair = [(); 2].map(|()| locations.next().expect("an access has a location"));
        pair.sort();
        pair
    });
    findings.collect()
}
