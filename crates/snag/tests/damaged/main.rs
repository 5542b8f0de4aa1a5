//! Damaged and hostile traces, given to the program as a whole: no panic, no hang, no more memory than allowed, a clear error or an answer.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod blocks;
mod bombs;
mod mutations;
mod recordings;
mod running;
mod seeds;
mod sources;

use blocks::{Block, put_together, take_apart};
use mutations::{Random, change_blocks, change_text};
use running::{Folder, Ran, snag};
use seeds::Seed;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many traces are tried unless the environment says otherwise.
const FEW: usize = 200;

/// What the environment says: `SNAG_MUTATIONS=20000 cargo test --release --test damaged mutated -- --nocapture`.
const VARIABLE: &str = "SNAG_MUTATIONS";

/// What is done with each trace, in turns; `check` as text always.
const COMMANDS: [&[&str]; 10] = [
    &["check", "--format", "json", "TRACE"],
    &["check", "--format", "html", "TRACE"],
    &["check", "--format", "sarif", "--all-pairs", "TRACE"],
    &["stats", "TRACE"],
    &["convert", "TRACE", "OUT.stx"],
    &["verify", "TRACE", "FINDINGS"],
    &["check", "--engine", "hb,shb,lockset,tlh2,cp,wcp,sb,rdit", "--candidates", "--full", "TRACE"],
    &["check", "--online", "TRACE"],
    &["convert", "TRACE", "OUT.snag"],
    &["punch", "TRACE", "OUT.stx", "--random", "0.5"],
];

/// What the worst of all invocations took.
#[derive(Default)]
struct Worst {
    seconds: f64,
    memory: u64,
    by_status: [usize; 3],
}

fn how_many() -> usize {
    std::env::var(VARIABLE).ok().map_or(FEW, |text| text.parse().unwrap_or_else(|_| panic!("{VARIABLE} is no number")))
}

/// The trace of this number: a seed, changed.
fn mutated(number: usize, binary: &[(&Seed, Vec<Block>)], text: &[Seed]) -> (String, Vec<u8>, Vec<u8>) {
    let mut random = Random::new(number as u64 + 1);
    if number % 5 == 4 {
        let seed = random.pick(text);
        return (seed.name.clone(), change_text(&seed.bytes, &mut random), seed.findings.clone());
    }
    let (seed, blocks) = random.pick(binary);
    let (_, others) = random.pick(binary);
    let mut blocks = blocks.clone();
    change_blocks(&mut blocks, others, &mut random);
    let compress = random.below(2) == 0;
    (seed.name.clone(), put_together(&blocks, compress), seed.findings.clone())
}

fn try_one(folder: &Path, number: usize, name: &str) -> Result<Vec<Ran>, String> {
    let trace = format!("{number}-{name}");
    let mut all = Vec::new();
    for command in [&["check", "TRACE"][..], COMMANDS[number % COMMANDS.len()]] {
        let out = format!("{number}-out");
        let word = |word: &&str| match *word {
            "TRACE" => trace.clone(),
            "FINDINGS" => format!("{number}-found.json"),
            "OUT.stx" => format!("{out}.stx"),
            "OUT.snag" => format!("{out}.snag"),
            other => other.to_owned(),
        };
        let words: Vec<String> = command.iter().map(word).collect();
        let ran = snag(folder, &words.iter().map(String::as_str).collect::<Vec<_>>());
        if let Some(complaint) = ran.complaint() {
            return Err(format!("snag {}: {complaint}", words.join(" ")));
        }
        all.push(ran);
    }
    Ok(all)
}

#[test]
fn mutated_traces_are_refused_or_answered_in_bounded_time_and_memory() {
    let folder = Folder::new("mutated");
    let (binary, text) = (seeds::binary(&folder), seeds::text(&folder));
    let taken: Vec<(&Seed, Vec<Block>)> = binary.iter().map(|seed| (seed, take_apart(&seed.bytes))).collect();
    for (seed, blocks) in &taken {
        // What is only taken apart and put together says the same.
        let mut blocks = blocks.clone();
        blocks::settle(&mut blocks);
        let path = folder.file(&format!("whole-{}", seed.name), put_together(&blocks, true));
        assert!(matches!(snag(&folder.0, &["check", path.to_str().unwrap()]).status, Some(0 | 1)), "{}", seed.name);
    }
    let (count, next) = (how_many(), AtomicUsize::new(0));
    let (worst, failures) = (Mutex::new(Worst::default()), Mutex::new(Vec::new()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let (name, bytes, findings) = mutated(number, &taken, &text);
                    let own = Folder::new(&format!("mutated-{number}"));
                    own.file(&format!("{number}-{name}"), &bytes);
                    own.file(&format!("{number}-found.json"), &findings);
                    match try_one(&own.0, number, &name) {
                        Err(complaint) => {
                            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{number}-{name}"));
                            std::fs::write(&kept, &bytes).unwrap();
                            failures.lock().unwrap().push(format!("{}: {complaint}", kept.display()));
                        }
                        Ok(all) => {
                            let mut worst = worst.lock().unwrap();
                            for ran in all {
                                worst.seconds = worst.seconds.max(ran.seconds);
                                worst.memory = worst.memory.max(ran.memory);
                                worst.by_status[ran.status.unwrap_or(2) as usize] += 1;
                            }
                        }
                    }
                }
            });
        }
    });
    let worst = worst.into_inner().unwrap();
    println!(
        "{count} traces: the slowest took {:.2} s, the largest {} MB; status 0, 1, 2: {:?}",
        worst.seconds,
        worst.memory >> 20,
        worst.by_status
    );
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
    assert!(
        worst.by_status.iter().all(|&count| count > 0),
        "some are answered and some are refused: {:?}",
        worst.by_status
    );
}
