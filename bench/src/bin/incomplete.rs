//! Measures RDIT on traces with very many missing calls that could reach very much: how long `snag check --engine rdit` takes
//! for reading, analysis, proofs and report, and in how much memory.
//!
//! `cargo run --release -p snag-bench --bin incomplete -- [--snag PATH] [--calls N] [--reach N] [--dir DIR]`

#[path = "../measure.rs"]
#[allow(dead_code)]
mod measure;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Threads that call missing methods.
const THREADS: usize = 8;

/// What the calls of a trace could reach.
#[derive(Clone, Copy)]
enum Sets {
    /// All the same.
    Same,
    /// Each its own stretch of as many variables in a row, out of a hundred times as many.
    Stretches,
    /// Each its own choice at random, out of a hundred times as many.
    Random,
    /// As in the second, but told by ten arguments each. An object leads to a tenth of what a set holds, half of them by
    /// way of a reference to twice as much, and references change.
    Objects,
}

fn main() {
    let own = std::env::current_exe().expect("this program has a path");
    let mut snag = own.with_file_name("snag");
    let mut dir = std::env::temp_dir().join("snag-bench");
    let (mut calls, mut reach) = (100_000, 1_000);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--snag" => snag = value.into(),
            "--calls" => calls = value.parse().expect("--calls needs a number"),
            "--reach" => reach = value.parse().expect("--reach needs a number"),
            "--dir" => dir = value.into(),
            other => panic!("unknown option {other}"),
        }
    }
    std::fs::create_dir_all(&dir).expect("the folder for traces can be made");
    println!("| {calls} calls that could reach {reach} each | format | MB | events | seconds of CPU | peak GB |");
    println!("|---|---|---|---|---|---|");
    for (name, sets) in [
        ("the same for all", Sets::Same),
        ("stretches", Sets::Stretches),
        ("at random", Sets::Random),
        ("by way of objects", Sets::Objects),
    ] {
        let text = dir.join("incomplete.stx");
        let events = write(&text, sets, calls, reach).expect("the trace can be written");
        let binary = dir.join("incomplete.snag");
        convert(&snag, &text, &binary);
        for file in [&text, &binary] {
            let bytes = std::fs::metadata(file).expect("it was written").len();
            let measured = measure::run(Command::new(&snag).args(["check", "-q", "--engine", "rdit"]).arg(file));
            println!(
                "| {name} | {} | {:.0} | {events} | {:.1} | {:.2} |",
                file.extension().expect("it has one").display(),
                bytes as f64 / 1e6,
                measured.cpu,
                measured.peak_memory as f64 / 1e9
            );
            std::fs::remove_file(file).expect("it is ours");
        }
    }
}

fn convert(snag: &Path, from: &Path, to: &PathBuf) {
    let status = Command::new(snag).args(["convert", "-q"]).arg(from).arg(to).status();
    assert!(status.expect("snag runs").success(), "cannot convert {}", from.display());
}

/// Writes a trace; returns its number of events.
fn write(path: &Path, sets: Sets, calls: usize, reach: usize) -> std::io::Result<usize> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut state = 1u64;
    let mut random = |bound: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) as usize) % bound
    };
    let variables = 100 * reach;
    let mut events = 0;
    writeln!(out, "%snag 1")?;
    for thread in 1..=THREADS {
        writeln!(out, "T0|fork(T{thread})|main:{thread}")?;
        events += 1;
    }
    let members = |out: &mut BufWriter<File>, all: &mut dyn Iterator<Item = usize>| -> std::io::Result<()> {
        for (number, variable) in all.enumerate() {
            write!(out, "{}v{variable}", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    };
    if let Sets::Objects = sets {
        // Each object is sixteen bytes, the last eight of them a reference.
        for object in 0..1_000 {
            write!(out, "T0|reach({:#x}:16,{{", 0x10_0000 + 0x100 * object)?;
            members(&mut out, &mut (object * variables / 1_000..(object + 1) * variables / 1_000))?;
            writeln!(out, "}})|main:9")?;
            events += 1;
        }
    }
    for call in 0..calls {
        let thread = 1 + random(THREADS);
        let start = random(variables - reach);
        let method = random(20);
        if let Sets::Objects = sets {
            if call % 10 == 0 {
                let (from, to) = (random(500), 500 + random(500));
                writeln!(
                    out,
                    "T{thread}|w({:#x}:8)={}|set:{method}",
                    0x10_0008 + 0x100 * from,
                    0x10_0000 + 0x100 * to
                )?;
                events += 1;
            }
            write!(out, "T{thread}|method-begin(m{method}")?;
            for argument in 0..10 {
                write!(out, ",{:#x}:16", 0x10_0000 + 0x100 * ((start + argument) % 1_000))?;
            }
            writeln!(out, ")|call:{method}")?;
        } else {
            write!(out, "T{thread}|method-begin(m{method},{{")?;
            match sets {
                Sets::Same => members(&mut out, &mut (0..reach))?,
                Sets::Stretches => members(&mut out, &mut (start..start + reach))?,
                _ => members(&mut out, &mut (0..reach).map(|at| at * 100 + random(100)))?,
            }
            writeln!(out, "}})|call:{method}")?;
        }
        writeln!(out, "T{thread}|method-end(m{method})|call:{method}")?;
        // What is observed: memory that missing code could reach, and memory that it could not.
        writeln!(out, "T{thread}|r(v{})|read:{}", random(variables), random(50))?;
        writeln!(out, "T{thread}|w(s{})|write:{}", random(2_000), random(50))?;
        events += 4;
    }
    out.flush()?;
    Ok(events)
}
