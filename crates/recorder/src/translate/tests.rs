//! Records that no runtime has written: whatever they say, what was translated is a trace, and costs little.

use super::*;
use crate::wire::{CHUNK, head};
use snag_formats::reader::BlockReader;
use snag_formats::snag_format::{RecordingWriter, SnagReader};
use snag_model::{Events, Validator};
use snag_synthesis::Rng;

/// How many of the streams below are tried; more with the variable, which a campaign sets.
fn rounds(usual: u64) -> u64 {
    std::env::var("SNAG_FORGERIES").ok().and_then(|count| count.parse().ok()).unwrap_or(usual)
}

/// A number as programs have them, or at the edge of something, or any.
fn wild(rng: &mut Rng) -> u64 {
    match rng.below(8) {
        0 => rng.number(),
        1 => 1 << rng.below(64),
        2 => (1_u64 << rng.below(64)).wrapping_sub(1),
        3 => 0x7fff_ffff_0000 + rng.below(1 << 16) as u64,
        4 => 0x5555_5555_0000 + 8 * rng.below(64) as u64,
        _ => rng.below(6) as u64,
    }
}

/// A record of any kind that has the right length, most of the time.
fn forged(rng: &mut Rng) -> Vec<u64> {
    let code = match rng.below(10) {
        0 => rng.number() as u8,
        _ => 1 + rng.below(47) as u8,
    };
    let detail = if rng.below(4) == 0 { rng.number() as u8 } else { rng.below(5) as u8 };
    let mut record = vec![head(code, detail, wild(rng) as usize & 0xffff_ffff_ffff)];
    record.extend((0..12).map(|_| wild(rng)));
    if rng.below(50) > 0 {
        record.truncate(wire::words(&record).min(13));
    }
    record
}

/// What becomes of a chunk, as a file; and what was odd.
fn recorded(words: &[u64]) -> (Vec<u8>, Oddities) {
    let mut translator = Translator::new(Symbols::new(None));
    translator.extent.is_of(std::process::id());
    let mut writer = RecordingWriter::new(Vec::new()).unwrap();
    translator.chunk(words, false, &mut |translator| {
        writer.push(&translator.batch, &translator.tables).unwrap();
        translator.taken();
        translator.begin_block(writer.block());
    });
    for block in translator.take_beside() {
        writer.extra(block).unwrap();
    }
    if translator.count() == 0 {
        translator.begin();
        writer.push(&translator.batch, &translator.tables).unwrap();
    }
    (writer.finish(&translator.tables).unwrap(), translator.oddities)
}

/// Reads all of it and checks every rule of a trace.
fn read(bytes: &[u8]) -> Result<usize, String> {
    let (mut reader, mut tables, mut events) = (SnagReader::new(bytes), Tables::new(), Events::new());
    while reader.read_block(&mut tables, &mut events).map_err(|error| error.to_string())? {}
    Validator::new().check(&events, 0, &tables).map_err(|broken| broken.to_string())?;
    Ok(events.len())
}

#[test]
fn records_that_nobody_wrote_become_a_trace_or_nothing() {
    let (mut damaged, mut events) = (0, 0);
    let all = rounds(500);
    for seed in 1..=all {
        let mut rng = Rng::new(seed);
        let mut words = Vec::new();
        let first = if rng.below(4) == 0 { op::STEP } else { op::SWITCH };
        for record in [[head(first, 0, 0), 0, 0], [head(op::FORK, 0, 0), 1, 0], [head(op::FORK, 0, 0), 2, 0]] {
            words.extend(record);
        }
        while words.len() < 2000 {
            words.extend(forged(&mut rng));
        }
        words.push(0);
        let (bytes, oddities) = recorded(&words);
        events += read(&bytes).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        damaged += oddities.damaged.is_some() as u64;
    }
    assert!(damaged > all / 2 && events as u64 > all, "{damaged} of {all}, {events} events");
}

/// The same of a stream that keeps to what a record can say, so that it gets further.
#[test]
fn threads_that_do_anything_at_any_time_become_a_trace_or_nothing() {
    const KINDS: [u8; 26] = [
        op::READ,
        op::WRITE,
        op::ATOMIC_WRITE,
        op::RMW,
        op::RANGE_READ,
        op::RANGE_WRITE,
        op::ENTER,
        op::LEAVE,
        op::SWITCH,
        op::ALLOC,
        op::FREE,
        op::LOCK,
        op::READ_LOCK,
        op::UNLOCK,
        op::LOCK_NEW,
        op::FORK,
        op::BEGIN,
        op::END,
        op::JOIN,
        op::WAIT_BEGIN,
        op::WAIT_END,
        op::WAKE,
        op::NOTIFY,
        op::BARRIER_ENTER,
        op::BARRIER_LEAVE,
        op::SEM_WAIT,
    ];
    let mut longest = 0;
    for seed in 1..=rounds(500) {
        let mut rng = Rng::new(seed);
        let mut words = vec![head(op::SWITCH, 0, 0), 0, 0];
        for _ in 0..300 {
            // What mostly ends it comes seldom.
            let kind = match KINDS[rng.below(KINDS.len())] {
                op::END | op::JOIN | op::WAIT_BEGIN | op::BARRIER_LEAVE | op::BEGIN if rng.below(8) > 0 => op::LOCK,
                kind => kind,
            };
            let (address, size) = (0x5555_5555_0000 + 16 * rng.below(32) as u64, rng.below(200) as u64);
            let (a, b) = match kind {
                op::SWITCH | op::FORK | op::JOIN => (rng.below(4) as u64, 0),
                op::NOTIFY | op::WAKE => (address % 64, 1 + rng.below(3) as u64),
                op::WAIT_BEGIN | op::WAIT_END => (address % 64, address),
                _ => (address, size),
            };
            let mut record = vec![head(kind, rng.below(4) as u8, 0x1000), a, b, 1, 2, 3, 4, 5, 6, 7, 8];
            record.truncate(wire::words(&record));
            words.extend(record);
        }
        words.push(0);
        let (bytes, _) = recorded(&words);
        longest = longest.max(read(&bytes).unwrap_or_else(|why| panic!("seed {seed}: {why}")));
    }
    assert!(longest > 100, "{longest}");
}

#[test]
fn a_range_as_long_as_all_memory_takes_no_time() {
    let mut words = vec![head(op::SWITCH, 0, 0), 0, 0];
    for kind in [op::RANGE_WRITE, op::RANGE_READ, op::ALLOC, op::FREE] {
        for address in [8, 0x5555_5555_0000] {
            for length in [1 << 46, u64::MAX, (1 << 47) - 0x6000_0000_0000] {
                words.extend([head(kind, 1, 0x1000), address, length]);
            }
        }
    }
    words.push(0);
    let started = std::time::Instant::now();
    let mut translator = Translator::new(Symbols::new(None));
    translator.chunk(&words, false, &mut Translator::taken);
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    assert!(translator.oddities.damaged.is_some());
}

/// A translator of a program that has ended, so that nobody knows what it had, after it was told all this.
fn told(records: impl Iterator<Item = [u64; 3]>) -> Translator {
    let mut translator = Translator::new(Symbols::new(None));
    let mut words = vec![head(op::SWITCH, 0, 0), 0, 0];
    let mut tell = |words: &mut Vec<u64>| {
        words.push(0);
        translator.chunk(words, false, &mut Translator::taken);
        words.clear();
    };
    for record in records {
        words.extend(record);
        if words.len() > CHUNK / 8 - 100 {
            tell(&mut words);
        }
    }
    tell(&mut words);
    translator
}

/// Where so many reads are said to be.
fn reads(count: u64) -> impl Iterator<Item = [u64; 3]> {
    let mut rng = Rng::new(5);
    (0..count).map(move |_| [head(op::READ, 3, 0x1000), rng.number() >> 18 & !7, 0])
}

#[test]
fn memory_all_over_the_place_costs_little_and_accuses_nobody() {
    let translator = told(reads(20_000));
    assert!(!translator.oddities.has_ended(), "{:?}", translator.oddities);
    assert_eq!(translator.count(), 20_000);
    let touched = translator.heap.touched().max(translator.shadow.touched());
    assert!(touched < 1 << 28, "{touched} bytes are followed");
}

#[test]
fn mappings_that_are_gone_are_forgotten() {
    let maps = |detail: u8, long: bool| {
        (0..5_000_u64).flat_map(move |round| {
            let address = 0x1000_0000_0000 + (round << 17);
            let size = if long { 1 } else { 1 << 16 };
            // Mapped by a call that was recorded or not, as a file is not.
            let map = [head(op::ALLOC, 1, 0), address, 1 << 16];
            let touch = [head(op::WRITE, 3, 0x1000), address + 8 * round % 512, round];
            let unmap = [head(op::FREE, 0, 0x1000), address, size];
            if detail == 0 { vec![touch, unmap] } else { vec![map, touch, unmap] }
        })
    };
    for (detail, long) in [(1, true), (1, false), (0, false)] {
        let translator = told(maps(detail, long));
        assert!(!translator.oddities.has_ended(), "{:?}", translator.oddities);
        let (heap, shadow) = (translator.heap.touched(), translator.shadow.touched());
        // What was in memory that is no block is forgotten when it becomes much.
        let most = if detail == 0 { 1 << 28 } else { 1 << 20 };
        assert!(heap < 1 << 20 && shadow < most, "{detail} {long}: {heap} {shadow}");
    }
}

#[test]
fn more_blocks_than_any_memory_are_a_limit_and_said_to_be_one() {
    let blocks = (0..100_000).map(|index| [head(op::ALLOC, 0, 0x1000), 0x1000_0000_0000 + (index << 24), 1 << 20]);
    let translator = told(blocks);
    let limit = translator.oddities.limit.clone().unwrap_or_default();
    assert!(limit.contains("of memory in blocks") && translator.oddities.damaged.is_none(), "{limit}");
    assert!(translator.heap.touched() < 1 << 33, "{}", translator.heap.touched());
}

#[test]
fn a_range_longer_than_the_memory_of_the_machine_is_recorded() {
    let translator = told([[head(op::RANGE_WRITE, 1, 0x1000), 0x1000_0000_0000, 1 << 42]].into_iter());
    assert_eq!((translator.count(), translator.oddities.has_ended()), (1, false));
}

#[test]
fn a_chunk_that_was_cut_short_is_noticed() {
    let mut words = vec![0; CHUNK / 8];
    words[..6].copy_from_slice(&[head(op::SWITCH, 0, 0), 0, 0, head(op::BEGIN, 0, 0), 0, 0]);
    let mut translator = Translator::new(Symbols::new(None));
    translator.chunk(&words, false, &mut Translator::taken);
    assert!(translator.oddities.damaged.is_some());
}

#[test]
fn an_atomic_read_of_any_order_is_taken_before_its_chunk_is_handed_over() {
    for order in 0..6 {
        let mut words = Vec::new();
        for record in [
            [head(op::SWITCH, 0, 0), 0, 0],
            [head(op::BEGIN, 0, 0), 0, 0],
            [head(op::ATOMIC_READ, 2 | order << 3, 0x1000), 0x5555_5555_0000, 1],
            [head(op::STEP, 0, 0), 0, 0],
            [head(op::STEP, 0, 0), 0, 0],
            [0; 3],
        ] {
            words.extend(record);
        }
        let mut translator = Translator::new(Symbols::new(None));
        assert_eq!(translator.part(&words, &mut Translator::taken), 12, "order {order}");
        assert_eq!(translator.count(), 2);
    }
}
