//! The quick way for accesses that are like nearly all others.
//!
//! It takes an access at a place in the program that is known, to memory that is known, in which nothing has to change but
//! values. Everything else goes the general way, through [`super::memory`], which also learns what is looked up here.

use super::Translator;
use super::shadow::{REGION, Region, Touched};
use crate::wire::{self, op};
use snag_trace::snag_format::{Spot, SpotId};
use snag_trace::{Op, ThreadId};

/// Memory that was touched before, and where it is.
#[derive(Clone, Copy)]
pub struct Near {
    /// First byte, as the program sees it.
    start: u64,
    /// At so many addresses from there on an access of eight bytes may start.
    room: u64,
    /// How much greater addresses are in the trace.
    above: u64,
    /// Its region of the shadow.
    region: u32,
}

impl Near {
    /// No access starts there.
    pub const NOWHERE: Near = Near { start: 0, room: 0, above: 0, region: 0 };

    #[inline(always)]
    fn has(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.room
    }
}

/// Entries for memory, by the number of its region; a power of two.
pub const NEAR: usize = 1 << 9;

/// Entries for spots; a power of two.
pub const SPOTS: usize = 1 << 14;

/// A spot and what it is found by: see [`key`]; 0 if there is none.
pub type FoundSpot = (u64, SpotId);

/// So many words ahead memory is fetched: some records.
const AHEAD: usize = 18;

/// The thread that runs.
#[derive(Clone, Copy)]
pub struct Runs {
    /// In the trace.
    pub id: ThreadId,
    /// Its mark in the shadow.
    pub own: Touched,
}

/// What a spot is found by: the first word of the record of a read or write, if there is one of that size.
fn key(op: Op, size: u64, pc: u64) -> u64 {
    let code = if op == Op::Write { op::WRITE } else { op::READ };
    let detail = if size.is_power_of_two() { size.trailing_zeros() as u8 } else { 0x80 | size as u8 };
    wire::head(code, detail, pc as usize)
}

/// Whether a word begins the record of a read or write of at most eight bytes.
#[inline(always)]
fn is_access(first: u64) -> bool {
    const LOG: u64 = 3 << 8;
    const _: () = assert!(op::READ == 1 && op::WRITE == 2);
    (first as u16 as u64 & !LOG).wrapping_sub(op::READ as u64) < 2
}

#[inline(always)]
fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SPOTS.trailing_zeros())) as usize
}

#[inline(always)]
fn near_slot(address: u64) -> usize {
    (address / REGION) as usize % NEAR
}

impl Translator {
    /// Takes as many records as can go the quick way, at most so many; how many words they were.
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
        let Translator { near, spots, shadow, batch, calls, taken, runs, .. } = self;
        let (Runs { id, own }, near, spots) = (*runs, &**near, &**spots);
        let regions: &mut [Box<Region>] = &mut shadow.regions;
        let mut records = 0;
        for &[first, address, value] in words.as_chunks().0.iter().take(most) {
            let (known, spot) = spots[slot(first)];
            let memory = &near[near_slot(address)];
            if !is_access(first) | (known != first) | !memory.has(address) {
                break;
            }
            if let Some(&ahead) = words.get(3 * records + AHEAD + 1) {
                let near = &near[near_slot(ahead)];
                if near.has(ahead) {
                    regions[near.region as usize].fetch(ahead);
                }
            }
            let size = 1 << (first >> 8 & 3);
            if !regions[memory.region as usize].quick(own, first as u8 == op::WRITE, address, size, value) {
                break;
            }
            calls.step_and_event(*taken + batch.len());
            batch.access(spot, id, address.wrapping_add(memory.above), value);
            records += 1;
        }
        3 * records
    }

    /// The quick way for a part of something else; false if there is none. It is an event, but no step.
    #[inline]
    pub(super) fn quick_access(&mut self, op: Op, address: u64, size: u64, pc: u64, value: u64) -> bool {
        let near = self.near[near_slot(address)];
        if !near.has(address) | (size.wrapping_sub(1) > 7) {
            return false;
        }
        let spot = self.spot(op, size, pc);
        let region = &mut self.shadow.regions[near.region as usize];
        if !region.quick(self.runs.own, op == Op::Write, address, size, value) {
            return false;
        }
        self.calls.event(self.taken + self.batch.len());
        self.batch.access(spot, self.runs.id, address.wrapping_add(near.above), value);
        true
    }

    /// The spot of an access with a known value, of at most eight bytes.
    #[inline]
    pub(super) fn spot(&mut self, op: Op, size: u64, pc: u64) -> SpotId {
        let key = key(op, size, pc);
        let (known, spot) = self.spots[slot(key)];
        if known == key {
            return spot;
        }
        self.new_spot(key, op, size, pc)
    }

    #[cold]
    fn new_spot(&mut self, key: u64, op: Op, size: u64, pc: u64) -> SpotId {
        let hint = (pc ^ pc >> 16) as u16;
        let location = self.location(pc);
        let spot = self.batch.spot(Spot { op, size: size as u8, hint, location });
        self.spots[slot(key)] = (key, spot);
        spot
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
    use snag_trace::Rng;
    use snag_trace::snag_format::RecordedEvent;

    /// What the records become, and what is said beside the events.
    fn translated(records: &[Vec<u64>], quickly: bool) -> (Vec<RecordedEvent>, Vec<Vec<u8>>, u64) {
        let mut translator = Translator::new(Symbols::new(None));
        let mut events = Vec::new();
        let mut take = |translator: &mut Translator| {
            events.extend(translator.batch.events());
            translator.taken();
        };
        if quickly {
            records.chunks(1000).for_each(|some| translator.chunk(&some.concat(), false, &mut take));
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
        for _ in 0..count {
            let (base, size) = (bases[random(2) as usize], 1 << random(4));
            let offset = random(0x400 - 8) as usize;
            // Mostly aligned, as in programs.
            let offset = if random(8) == 0 { offset } else { offset / size * size };
            let address = base + offset as u64;
            let cells = &mut memory[offset + if base == bases[0] { 0 } else { 0x400 }..][..size];
            let pc = 0x1000 + random(6);
            match random(60) {
                0 => all.push(vec![head(op::SWITCH, 0, 0), random(3), random(1000)]),
                1 => all.push(vec![head(op::ENTER, 0, 0x9000 + random(3) as usize)]),
                2 => all.push(vec![head(op::LEAVE, 0, 0)]),
                3 => all.push(vec![head(op::STEP, 0, 0)]),
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
                    all.push(vec![head(op::STEP, 0, 0)]);
                    all.push(vec![head(code, 0, pc as usize), address, size as u64, u64::from_le_bytes(word)]);
                }
                10 => all.push(vec![head(op::RANGE_WRITE, 0, pc as usize), address, 100 + random(200)]),
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
            for (index, (quick, general)) in quick.0.iter().zip(&general.0).enumerate() {
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
}
