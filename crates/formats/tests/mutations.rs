//! Valid traces of every format, damaged at random tens of thousands of times: nothing panics, and neither memory nor
//! time gets out of hand. The same numbers on every machine; `fuzz/` goes further.

mod common;

use common::{EVERY_EVENT, Random, random_trace, read_as, snag_bytes, write_as};
use snag_formats::compression::Compression;
use snag_formats::open::Format;
use snag_testkit::exercise;
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Counts the bytes in use, and the most there were.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grown(by: usize) {
    PEAK.fetch_max(USED.fetch_add(by, Relaxed) + by, Relaxed);
}

// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: handed on as it came.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: handed on as it came.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: handed on as it came.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        USED.fetch_sub(layout.size(), Relaxed);
        grown(size);
        // SAFETY: handed on as it came.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const EXECUTIONS: usize = 20_000;

fn std_seeds() -> Vec<Vec<u8>> {
    let hand = "T0|fork(1)|a.java:1\nT1|acq(l)|x\nT1|w(a(b)c)|x y\nT1|r(v)|\nT1|rel(l)|x\nT1|begin foo|3\nT1|end|4\n\
                T0|branch|6\nT0|branch(why)|6\nT0|join(1)|7\nT0|dummy(3)|\n";
    vec![hand.as_bytes().to_vec(), hand.replace('\n', "\r\n").into_bytes(), hand.trim_end().as_bytes().to_vec()]
}

fn text_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![EVERY_EVENT.as_bytes().to_vec()];
    seeds.extend((0..5).map(|seed| write_as(Format::Text, &random_trace(seed, 40)).unwrap()));
    seeds
}

fn snag_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for text in text_seeds() {
        let trace = read_as(Format::Text, &text).unwrap();
        seeds.extend([false, true].map(|compress| snag_bytes(&trace, compress)));
        seeds.push(exercise::recording_bytes(&trace));
        seeds.push(unpacked(&exercise::recording_bytes(&trace)));
    }
    seeds
}

/// The file with its blocks as they are before they are compressed, so that changes reach what is inside.
fn unpacked(file: &[u8]) -> Vec<u8> {
    let field = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let (mut plain, mut at) = (file[..16].to_vec(), 16);
    while at < file.len() {
        let (stored, body) = (field(at + 4), at + 24);
        let payload = match file[at + 1] {
            2 => zstd_plain(&file[body..body + stored]),
            _ => file[body..body + stored].to_vec(),
        };
        let from = plain.len();
        plain.extend_from_slice(&file[at..body]);
        plain[from + 1] = 0;
        for field in [4, 8] {
            plain[from + field..from + field + 4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        }
        plain.extend_from_slice(&payload);
        at = body + stored;
    }
    plain
}

fn zstd_plain(packed: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let input = Box::new(std::io::Cursor::new(packed.to_vec()));
    Compression::Zstd.reader(input).unwrap().read_to_end(&mut plain).unwrap();
    plain
}

/// A seed with a few changes.
fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = random.pick(seeds).clone();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        let length = random.below(20).min(bytes.len() - at);
        match random.below(9) {
            _ if bytes.is_empty() => bytes.push(random.next() as u8),
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = *random.pick(b"\0\xff\x7f\x80|(){},=\"\\\n\r09%# :-"),
            2 => bytes[at] = bytes[at].wrapping_add(random.below(5) as u8).wrapping_sub(2),
            3 => bytes.insert(at, random.next() as u8),
            4 => drop(bytes.drain(at..at + length)),
            5 => bytes.truncate(at),
            6 => {
                let piece = bytes[at..at + length].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            7 => {
                let other = random.pick(seeds);
                let from = random.below(other.len());
                let to = (from + random.below(60)).min(other.len());
                bytes.splice(at..at + length, other[from..to].iter().copied());
            }
            _ => {
                let number = *random.pick(&["0", "1", "-1", "65536", "4294967295", "18446744073709551616"]);
                bytes.splice(at..at + length.min(3), number.bytes());
            }
        }
    }
    bytes
}

/// Runs all executions of one reader and checks time and memory.
fn run(name: &str, seeds: &[Vec<u8>], seed: u64, executions: usize, exercise: impl Fn(&[u8])) {
    let mut random = Random::new(seed);
    let start = Instant::now();
    let mut slowest = Duration::ZERO;
    PEAK.store(USED.load(Relaxed), Relaxed);
    for _ in 0..executions {
        let bytes = mutated(seeds, &mut random);
        let before = Instant::now();
        exercise(&bytes);
        slowest = slowest.max(before.elapsed());
    }
    println!(
        "{name}: {executions} executions in {:?}, the slowest {slowest:?}, peak memory {} KiB",
        start.elapsed(),
        PEAK.load(Relaxed) / 1024
    );
    assert!(PEAK.load(Relaxed) < 256 << 20, "{name} used {} bytes", PEAK.load(Relaxed));
    assert!(slowest < Duration::from_secs(5), "{name}: one execution took {slowest:?}");
}

/// One test, as memory is counted for the whole process.
#[test]
fn damaged_traces_are_refused_or_kept_in_bounded_memory_and_time() {
    let (std, text, snag) = (std_seeds(), text_seeds(), snag_seeds());
    for seed in &std {
        exercise::trace(Format::Std, seed);
    }
    run("std", &std, 1, EXECUTIONS, |bytes| exercise::trace(Format::Std, bytes));
    run("text", &text, 2, EXECUTIONS, |bytes| exercise::trace(Format::Text, bytes));
    run("snag", &snag, 3, EXECUTIONS, |bytes| exercise::trace(Format::Snag, bytes));
    let mut all = [std, text, snag].concat();
    run("anything", &all, 4, EXECUTIONS / 4, exercise::unknown);
    all = all
        .iter()
        .flat_map(|seed| [Compression::Gzip, Compression::Zstd, Compression::Lz4].map(|c| packed(c, seed)))
        .collect();
    run("compressed", &all, 5, EXECUTIONS, exercise::unknown);
}

fn packed(compression: Compression, data: &[u8]) -> Vec<u8> {
    let mut writer = compression.writer(Vec::new()).unwrap();
    writer.write_all(data).unwrap();
    writer.finish().unwrap()
}
