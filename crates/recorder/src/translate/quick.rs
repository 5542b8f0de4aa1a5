//! The quick way for records that are like nearly all others.
//!
//! It takes an access, plain or atomic, at a place in the program that is known, to memory that is known and, but for the first time,
//! in which nothing has to change but values; short ranges of such memory; steps and calls. Everything else goes the general way, through
//! [`super::memory`], which also learns what is looked up here.

use super::Translator;
use super::contention::Contention;
use super::shadow::{Home, Own, REGION, Runner, Shape, Visit, prefetch};
use crate::wire::{self, INLINE, SHORTEST, op};
use snag_formats::snag_format::{AccessOf, Noted, Spot, SpotId};
use snag_model::{MemoryOrder, Op, ThreadId};

/// Memory that was touched before, and where it is.
#[derive(Clone, Copy)]
pub struct Near {
    /// First byte, as the program sees it.
    start: u64,
    /// At so many addresses from there on an access of eight bytes may start.
    room: u64,
    /// How much greater addresses are in the trace.
    above: u64,
    /// Its region of the shadow: there is one if there is room.
    region: Home,
}

impl Near {
    /// No access starts there.
    pub const NOWHERE: Near = Near { start: 0, room: 0, above: 0, region: Home::NOWHERE };

    #[inline(always)]
    fn has(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.room
    }
}

/// Entries for memory, by the number of its region; a power of two. Heaps of threads are 64 MB apart, and must not be in each
/// other's way.
pub const NEAR: usize = 1 << 12;

/// Entries for spots; a power of two.
pub const SPOTS: usize = 1 << 15;

/// A spot and what it is found by.
#[derive(Clone, Copy)]
pub struct FoundSpot {
    /// See [`key`] and [`atomic_key`].
    key: u64,
    shape: Shape,
    /// The spot.
    pub spot: SpotId,
}

const _: () = assert!(size_of::<FoundSpot>() == 32);

impl FoundSpot {
    /// No record begins like that.
    const NONE: FoundSpot = FoundSpot { key: 0, shape: Shape::NONE, spot: SpotId::NONE };

    /// No spots. What begins with a zero is no record, and is not found where it is looked for; nor is what a program may have
    /// written over its records.
    pub fn none() -> Box<[FoundSpot; SPOTS]> {
        let mut spots = Box::new([FoundSpot::NONE; SPOTS]);
        const FIRST: usize = slot(FoundSpot::NONE.key);
        const _: () = assert!(slot(u64::MAX) != FIRST && slot(u64::MAX) != other_slot(FIRST));
        [FIRST, other_slot(FIRST)].iter().for_each(|&slot| spots[slot].key = u64::MAX);
        spots
    }
}

/// So many records ahead memory is fetched.
const AHEAD: usize = 16;

/// So many records ahead records are fetched: they were written by another processor.
const FAR: usize = 54;

/// The thread that runs.
#[derive(Clone, Copy)]
pub struct Runs {
    /// In the trace.
    pub id: ThreadId,
    /// Its mark in the shadow.
    pub own: Own,
    /// Its visit to the block of the recording into which its events come.
    pub visit: Visit,
}

/// What a spot is found by: the first word of the record of a read or write, if there is one of that size.
fn key(op: Op, size: u64, pc: u64) -> u64 {
    let code = if op == Op::Write { op::WRITE } else { op::READ };
    let detail = if size.is_power_of_two() { size.trailing_zeros() as u8 } else { 0x80 | size as u8 };
    wire::head(code, detail, pc as usize)
}

/// What the spot of an atomic access is found by, of which the record begins with this word. No record begins like that, as the
/// highest bit of an address is never set in a program: what is found by the first word of a record is a plain access.
#[inline(always)]
fn atomic_key(first: u64) -> u64 {
    first | 1 << 63
}

#[inline(always)]
const fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SPOTS.trailing_zeros())) as usize
}

/// Where a spot is put that has to make room for another.
#[inline(always)]
const fn other_slot(slot: usize) -> usize {
    slot ^ 1
}

/// The spot with this key, or another one.
#[inline(always)]
fn find_spot(spots: &[FoundSpot; SPOTS], key: u64) -> &FoundSpot {
    let found = &spots[slot(key)];
    if found.key == key { found } else { find_other_spot(spots, key) }
}

/// What has to make room is seldom looked for, and worth a branch.
#[cold]
#[inline(never)]
fn find_other_spot(spots: &[FoundSpot; SPOTS], key: u64) -> &FoundSpot {
    &spots[other_slot(slot(key))]
}

#[inline(always)]
fn near_slot(address: u64) -> usize {
    (address / REGION) as usize % NEAR
}

/// The part of a range's contents that starts after so many bytes.
#[inline(always)]
fn part(contents: &[u64], from: usize, size: usize) -> u64 {
    let word = |index: usize| contents.get(index).copied().unwrap_or(0);
    let shift = 8 * (from % 8) as u32;
    // Nothing of the next word if it is not shifted.
    let value = word(from / 8) >> shift | word(from / 8 + 1) << 1 << (63 - shift);
    value & u64::MAX >> (64 - 8 * size)
}

/// Plain accesses of the thread that runs.
struct Plain<'a> {
    runner: Runner,
    near: &'a [Near; NEAR],
    spots: &'a [FoundSpot; SPOTS],
    contention: &'a mut Contention,
}

impl AccessOf<&[[u64; 3]]> for Plain<'_> {
    /// Of the first of some records, if it is like nearly all others.
    #[inline(always)]
    fn access_of(&mut self, records: &[[u64; 3]]) -> Option<(SpotId, u64, u64, Noted)> {
        let &[[first, address, value], .., [_, ahead, _]] = records else { return None };
        let found = find_spot(self.spots, first);
        let memory = &self.near[near_slot(address)];
        if (found.key != first) | !memory.has(address) {
            return None;
        }
        prefetch(records.as_ptr().wrapping_add(FAR));
        // It may be elsewhere, which does no harm.
        self.near[near_slot(ahead)].region.fetch(ahead);
        // SAFETY: there is one, as it has the address, and the shadow is ours.
        let region = unsafe { memory.region.region() };
        let noted = region.quick(self.runner, &found.shape, address, value, self.contention)?;
        Some((found.spot, address.wrapping_add(memory.above), value, noted))
    }
}

impl Translator {
    /// Takes as many records as can go the quick way, until there are so many events or a few more; how many words they were.
    pub(super) fn quick(&mut self, words: &[u64], most: usize) -> usize {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has these instructions.
            return unsafe { self.quick_with_bmi2(words, most) };
        }
        self.quick_anywhere(words, most)
    }

    /// Shifts by variable amounts take one instruction instead of three.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "bmi1,bmi2")]
    fn quick_with_bmi2(&mut self, words: &[u64], most: usize) -> usize {
        self.quick_anywhere(words, most)
    }

    #[inline(always)]
    fn quick_anywhere(&mut self, words: &[u64], most: usize) -> usize {
        let full = self.batch.len() + most;
        let mut rest = words;
        while self.batch.len() < full {
            let Some((&[first, ..], after)) = rest.split_first_chunk::<SHORTEST>() else { break };
            match first as u8 {
                op::READ | op::WRITE => {
                    let mut words = self.quick_accesses(rest, full - self.batch.len());
                    if words == 0 {
                        words = self.quick_at_first(rest);
                    }
                    if words == 0 {
                        break;
                    }
                    rest = &rest[words..];
                }
                op::STEP => {
                    let words = self.quick_after_step(after);
                    if words == 0 {
                        self.calls.step();
                    }
                    rest = &after[words..];
                }
                op::ENTER => {
                    self.calls.enter(first >> 16, &mut self.symbols);
                    rest = after;
                }
                op::LEAVE => {
                    self.calls.leave();
                    rest = after;
                }
                _ => break,
            }
        }
        words.len() - rest.len()
    }

    /// Plain accesses, as many as there are.
    #[inline(always)]
    fn quick_accesses(&mut self, words: &[u64], most: usize) -> usize {
        let Translator { near, spots, batch, runs, shadow, .. } = self;
        let Runs { id, own, visit } = *runs;
        let runner = Runner { own, visit };
        let plain = Plain { runner, near, spots, contention: &mut shadow.contention };
        let before = batch.len();
        // The last few records in sight are taken one by one, which does no harm.
        let records = words.as_chunks::<3>().0.windows(AHEAD + 1);
        let count = batch.accesses(id, most, records, plain);
        self.calls.steps_and_events(self.taken + before, count);
        3 * count
    }

    /// A plain access that is not quite like the others; 0 if it goes the general way.
    #[inline(never)]
    fn quick_at_first(&mut self, words: &[u64]) -> usize {
        let &[first, address, value, ..] = words else { return 0 };
        let (found, near) = (self.found_spot(first), self.near[near_slot(address)]);
        if (found.key != first) | !near.has(address) {
            return 0;
        }
        let Some(noted) = self.touch_at_first(&near, &found.shape, address, value) else { return 0 };
        self.calls.steps_and_events(self.taken + self.batch.len(), 1);
        self.batch.access(found.spot, self.runs.id, address.wrapping_add(near.above), value, noted);
        3
    }

    /// Does to memory what an access does, if that can be done here: what is to be noted about it.
    #[inline(always)]
    fn touch_at_first(&mut self, near: &Near, shape: &Shape, address: u64, value: u64) -> Option<Noted> {
        let Runs { own, visit, .. } = self.runs;
        let (runner, contention) = (Runner { own, visit }, &mut self.shadow.contention);
        // SAFETY: there is one, as it has the address, and the shadow is ours.
        let region = unsafe { near.region.region() };
        let noted = region.quick(runner, shape, address, value, contention);
        noted.or_else(|| region.quick_at_first(runner, shape, address, value, contention))
    }

    /// An atomic access or a short range after a step; 0 if that goes the general way.
    #[inline(always)]
    fn quick_after_step(&mut self, words: &[u64]) -> usize {
        let &[first, address, value, ..] = words else { return 0 };
        match first as u8 {
            op::ATOMIC_READ | op::ATOMIC_WRITE => {
                let (found, near) = (self.found_spot(atomic_key(first)), self.near[near_slot(address)]);
                if (found.key != atomic_key(first)) | !near.has(address) {
                    return 0;
                }
                let Some(noted) = self.touch_at_first(&near, &found.shape, address, value) else { return 0 };
                self.calls.steps_and_events(self.taken + self.batch.len(), 1);
                self.batch.access(found.spot, self.runs.id, address.wrapping_add(near.above), value, noted);
                3
            }
            code @ (op::RANGE_READ | op::RANGE_WRITE) => {
                let (length, contents) = (value as usize, &words[3..]);
                let without = (first >> 8) as u8 & wire::WITHOUT_CONTENTS != 0;
                if (length == 0) | (length > INLINE) | without | (contents.len() < length.div_ceil(8)) {
                    return 0;
                }
                let op = if code == op::RANGE_READ { Op::Read } else { Op::Write };
                self.calls.step();
                self.parts(op, first >> 16, address, length, contents);
                3 + length.div_ceil(8)
            }
            _ => 0,
        }
    }

    /// A range as accesses inside one word each.
    #[inline]
    pub(super) fn parts(&mut self, op: Op, pc: u64, address: u64, length: usize, contents: &[u64]) {
        let mut done = 0;
        while done < length {
            let at = address.wrapping_add(done as u64);
            let size = (8 - (at % 8) as usize).min(length - done);
            self.access(op, at, size as u64, pc, Some(part(contents, done, size)));
            done += size;
        }
    }

    /// The quick way for a part of something else; false if there is none. It is an event, but no step.
    #[inline]
    pub(super) fn quick_access(&mut self, op: Op, address: u64, size: u64, pc: u64, value: u64) -> bool {
        let near = self.near[near_slot(address)];
        if !near.has(address) | (size.wrapping_sub(1) > 7) {
            return false;
        }
        let FoundSpot { shape, spot, .. } = self.spot(op, size, pc);
        let Some(noted) = self.touch_at_first(&near, &shape, address, value) else { return false };
        self.calls.event(self.taken + self.batch.len());
        self.batch.access(spot, self.runs.id, address.wrapping_add(near.above), value, noted);
        true
    }

    /// The spot of an access with a known value, of at most eight bytes.
    #[inline]
    pub(super) fn spot(&mut self, op: Op, size: u64, pc: u64) -> FoundSpot {
        let key = key(op, size, pc);
        match self.found_spot(key) {
            found if found.key == key => found,
            _ => self.new_spot(key, op, size, 0, pc),
        }
    }

    /// The spot with this key, or another one.
    #[inline(always)]
    fn found_spot(&self, key: u64) -> FoundSpot {
        *find_spot(&self.spots, key)
    }

    #[cold]
    fn new_spot(&mut self, key: u64, op: Op, size: u64, aux: u32, pc: u64) -> FoundSpot {
        let hint = (pc ^ pc >> 16) as u16;
        let location = self.location(pc);
        let spot = self.batch.spot(Spot { op, size: size as u8, aux, hint, location });
        let writes = matches!(op, Op::Write | Op::AtomicWrite);
        let found = FoundSpot { key, shape: Shape::new(writes, size), spot };
        let before = std::mem::replace(&mut self.spots[slot(key)], found);
        if before.key != FoundSpot::NONE.key {
            self.spots[other_slot(slot(key))] = before;
        }
        found
    }

    /// Remembers what an atomic read or write of at most eight bytes is whose record begins with this word.
    pub(super) fn remember_atomic(&mut self, first: u64, op: Op, size: u64, order: MemoryOrder) {
        let key = atomic_key(first);
        if self.found_spot(key).key != key {
            self.new_spot(key, op, size, order as u32, first >> 16);
        }
    }

    /// Nothing is remembered about where memory is.
    pub(super) fn forget_all_near(&mut self) {
        self.near.fill(Near::NOWHERE);
    }

    /// Which memory of this range has addresses of its own in the trace is not what it was.
    pub(super) fn forget_near(&mut self, address: u64, size: u64) {
        let regions = address / REGION..=address.saturating_add(size.saturating_sub(1)) / REGION;
        if regions.end() - regions.start() >= NEAR as u64 {
            return self.forget_all_near();
        }
        regions.for_each(|number| self.near[near_slot(number * REGION)] = Near::NOWHERE);
    }

    /// Remembers where memory is that an access in the general way has found.
    pub(super) fn remember_near(&mut self, address: u64) {
        if self.near[near_slot(address)].has(address) {
            return;
        }
        let (start, end, above) = self.heap.window(address);
        let room = (end - start).saturating_sub(7);
        // The region of the shadow is the same all over, as it is for addresses of the program.
        if above % REGION != 0 {
            return;
        }
        if let Some((region, ignorant)) = self.shadow.touched_region(address.wrapping_add(above) / REGION) {
            if ignorant && above == 0 {
                let Translator { heap, shadow, .. } = self;
                heap.each_freed(address, |start, size| shadow.set_freed(start, size, true));
            }
            self.near[near_slot(address)] = Near { start, room, above, region };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::Symbols;
    use crate::wire::head;
    use snag_formats::reader::BlockReader;
    use snag_formats::snag_format::{RecordedEvent, RecordingWriter, SnagReader};
    use snag_model::{Events, Tables};
    use snag_synthesis::Rng;

    /// A chunk as a program fills it: behind the records is a zero, and then what was there before.
    fn chunk(records: &[Vec<u64>]) -> Vec<u64> {
        let read = records.iter().rev().find(|record| record[0] as u8 == op::READ);
        let before = [head(op::READ, 3, 0x1001), read.map_or(0, |read| read[1]), 0].repeat(2 * AHEAD);
        [&records.concat()[..], &[0], &before[1..]].concat()
    }

    /// What the records become, and what is said beside the events.
    fn translated(records: &[Vec<u64>], quickly: bool) -> (Vec<RecordedEvent>, Vec<Vec<u8>>, u64) {
        let mut translator = Translator::new(Symbols::new(None));
        let mut events = Vec::new();
        let mut take = |translator: &mut Translator| {
            events.extend(translator.batch.events());
            translator.taken();
        };
        if quickly {
            records.chunks(1000).for_each(|some| translator.chunk(&chunk(some), false, &mut take));
        } else {
            for record in records {
                translator.near.fill(Near::NOWHERE);
                translator.record(record);
                take(&mut translator);
            }
        }
        let beside = translator.take_beside();
        (events, beside, translator.oddities.foreign << 32 | translator.oddities.freed)
    }

    /// What a program may do, with memory that now and then somebody changes unseen.
    fn records(seed: u64, count: usize) -> Vec<Vec<u64>> {
        let mut rng = Rng::new(seed);
        let mut random = move |below: u64| rng.number() % below;
        // Around the seam of two regions, and far away.
        let bases = [0xfe00, 0x7f00_0000_0000];
        let mut memory = vec![0u8; 0x800];
        let mut blocks = Vec::new();
        let mut all = vec![vec![head(op::SWITCH, 0, 0), 0, 0]];
        all.extend((1..4).map(|thread| vec![head(op::FORK, 0, 0), thread, 0]));
        for _ in 0..count {
            let (base, size) = (bases[random(2) as usize], 1 << random(4));
            let offset = random(0x400 - 8) as usize;
            // Mostly aligned, as in programs.
            let offset = if random(8) == 0 { offset } else { offset / size * size };
            let address = base + offset as u64;
            let cells = &mut memory[offset + if base == bases[0] { 0 } else { 0x400 }..][..size];
            let pc = 0x1000 + random(6);
            match random(60) {
                0 => all.push(vec![head(op::SWITCH, 0, 0), random(4), random(1000)]),
                1 => all.push(vec![head(op::ENTER, 0, 0x9000 + random(3) as usize), 0, 0]),
                2 => all.push(vec![head(op::LEAVE, 0, 0), 0, 0]),
                3 => all.push(vec![head(op::STEP, 0, 0), 0, 0]),
                4 => cells[0] ^= 1,
                5 | 6 => {
                    let block = base + 16 * random(0x3c);
                    blocks.push(block);
                    all.push(vec![head(op::ALLOC, (random(4) == 0) as u8, pc as usize), block, 1 + random(100)]);
                }
                7 | 8 if !blocks.is_empty() => {
                    let block = blocks.swap_remove(random(blocks.len() as u64) as usize);
                    all.push(vec![head(op::FREE, 0, pc as usize), block, 0]);
                }
                9 => {
                    let code = if random(2) == 0 { op::RANGE_READ } else { op::RANGE_WRITE };
                    let mut word = [0; 8];
                    word[..size].copy_from_slice(cells);
                    all.push(vec![head(op::STEP, 0, 0), 0, 0]);
                    all.push(vec![head(code, 0, pc as usize), address, size as u64, u64::from_le_bytes(word)]);
                }
                10 => {
                    let code = if random(2) == 0 { op::RANGE_READ } else { op::RANGE_WRITE };
                    all.push(match random(2) {
                        0 => vec![head(code, 0, pc as usize), address, 100 + random(200)],
                        _ => vec![head(code, wire::WITHOUT_CONTENTS, pc as usize), address, 1 + random(64)],
                    });
                }
                11 => all.push(vec![head(op::FENCE, 0, 0), random(6), 0]),
                12..24 => {
                    let (log, order) = (size.trailing_zeros() as u8, random(6) as u8);
                    let first = |code| head(code, log | order << 3, pc as usize);
                    let value = |cells: &[u8]| {
                        let mut word = [0; 8];
                        word[..size].copy_from_slice(cells);
                        u64::from_le_bytes(word)
                    };
                    let found = value(cells);
                    let what = random(5);
                    if what > 2 {
                        cells.iter_mut().for_each(|cell| *cell = random(4) as u8);
                    }
                    let left = value(cells);
                    if random(20) > 0 {
                        all.push(vec![head(op::STEP, 0, 0), 0, 0]);
                    }
                    all.push(match what {
                        0..3 => vec![first(op::ATOMIC_READ), address, found],
                        3 => vec![first(op::ATOMIC_WRITE), address, left],
                        _ => vec![first(op::RMW), address, found, left],
                    });
                }
                some => {
                    let writes = some % 3 == 0;
                    if writes {
                        cells.iter_mut().for_each(|cell| *cell = random(4) as u8);
                    }
                    let mut word = [0; 8];
                    word[..size].copy_from_slice(cells);
                    let code = if writes { op::WRITE } else { op::READ };
                    let first = head(code, size.trailing_zeros() as u8, pc as usize);
                    all.push(vec![first, address, u64::from_le_bytes(word)]);
                }
            }
        }
        all
    }

    #[test]
    fn the_quick_way_leads_to_the_same_events_as_the_general_one() {
        for seed in 1..40 {
            let records = records(seed, 4000);
            let (quick, general) = (translated(&records, true), translated(&records, false));
            for (index, (&quick, &general)) in quick.0.iter().zip(&general.0).enumerate() {
                // What was seen may be told again.
                let quick = RecordedEvent { seen: general.seen, ..quick };
                assert_eq!(quick, general, "event {index} of seed {seed}");
            }
            assert_eq!(quick.0.len(), general.0.len());
            assert!(
                quick.0.len() > 1000 && quick.2 >> 32 > 0 && quick.2 as u32 > 0,
                "{} {:#x}",
                quick.0.len(),
                quick.2
            );
            assert_eq!((quick.1, quick.2), (general.1, general.2), "seed {seed}");
        }
    }

    /// Readers know what is in memory only from what they have read of a block.
    #[test]
    fn what_was_seen_is_what_readers_find() {
        let (mut all, mut seen) = (0, 0);
        for seed in 1..30 {
            let records = records(seed, 6000);
            let mut translator = Translator::new(Symbols::new(None));
            // Soon there are more visits than can be told apart.
            translator.visits.last = Visit::MOST - 7;
            let mut writer = RecordingWriter::new(Vec::new()).unwrap();
            let mut rng = Rng::new(seed);
            let mut written = Vec::new();
            for some in records.chunks(1 + rng.number() as usize % 500) {
                translator.chunk(&chunk(some), false, &mut |translator| {
                    written.extend(translator.batch.events());
                    writer.push(&translator.batch, &translator.tables).unwrap();
                    translator.taken();
                    // Blocks end anywhere; now and then it is told late.
                    if rng.number().is_multiple_of(8) {
                        writer.end_block(&translator.tables).unwrap();
                    }
                    if !rng.number().is_multiple_of(4) {
                        translator.begin_block(writer.block());
                    }
                });
            }
            let bytes = writer.finish(&translator.tables).unwrap();
            let (mut reader, mut tables, mut events) = (SnagReader::new(&bytes[..]), Tables::new(), Events::new());
            while reader.read_block(&mut tables, &mut events).unwrap() {}
            assert_eq!(events.len(), written.len());
            for (index, wanted) in written.iter().enumerate() {
                let RecordedEvent { hint, seen: was_seen, .. } = *wanted;
                let found = RecordedEvent::of(&events.get(index), &tables);
                assert_eq!(RecordedEvent { hint, seen: was_seen, ..found }, *wanted, "event {index} of seed {seed}");
                seen += was_seen as usize;
            }
            // Uses of freed memory find nothing.
            all += written.iter().filter(|event| !event.op.is_fault()).count();
        }
        assert!(seen > all / 10, "{seen} of {all}");
    }
}
