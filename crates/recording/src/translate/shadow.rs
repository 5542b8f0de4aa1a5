//! What must be in memory if nobody writes but those who are recorded: every byte that was read or written, as it was then.
//!
//! A read that finds something else proves that code changed the memory that was not recorded. Mostly that is a function of
//! a library that works for the thread that reads: if no other thread has touched the memory, it is taken for that. Such
//! memory is marked, and when another thread comes to it, that is noticed, too.
//!
//! Looked at once per access, so it is a table of regions with the bytes in them, one bit for each byte that is known, and
//! for each eight bytes who has touched them.

use crate::hash::BuildWordHasher;
use std::collections::HashMap;

const REGION: u64 = 1 << 16;
/// Room for an access that starts at the last byte.
const SLACK: usize = 8;
const BYTES: usize = REGION as usize + SLACK;
const KNOWN: usize = REGION as usize / 8 + SLACK;

/// Regions that were found last, by the lower bits of their number.
const RECENT: usize = 1 << 8;

struct Region {
    bytes: [u8; BYTES],
    known: [u8; KNOWN],
    /// For each eight bytes the thread that alone has touched them, plus one; or [`SHARED`]; and maybe [`CHANGED`].
    touched: [u16; REGION as usize / 8],
}

/// Several threads have touched it.
const SHARED: u16 = 0x7fff;
/// Code that was not recorded has changed it since it was last written, before another thread touched it.
const CHANGED: u16 = 0x8000;

/// What a read says about code that was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// Nothing: it found what was there.
    Nothing,
    /// It has changed memory that only this thread has touched.
    Own,
    /// It has changed memory that other threads have touched.
    Shared,
}

/// The memory of the program, as far as it is known.
pub struct Shadow {
    regions: Vec<Box<Region>>,
    found: HashMap<u64, u32, BuildWordHasher>,
    /// Number and index of regions.
    recent: Vec<(u64, u32)>,
}

impl Shadow {
    /// Nothing is known.
    pub fn new() -> Shadow {
        Shadow { regions: Vec::new(), found: HashMap::default(), recent: vec![(u64::MAX, 0); RECENT] }
    }

    #[inline(always)]
    fn region(&mut self, number: u64) -> &mut Region {
        let (known, index) = self.recent[number as usize % RECENT];
        let index = if known == number { index } else { self.find(number) };
        &mut self.regions[index as usize]
    }

    #[inline(never)]
    fn find(&mut self, number: u64) -> u32 {
        let regions = &mut self.regions;
        let index = *self.found.entry(number).or_insert_with(|| {
            regions.push(Region::new());
            regions.len() as u32 - 1
        });
        self.recent[number as usize % RECENT] = (number, index);
        index
    }

    /// Has what is known about an address fetched into the processor's cache: it is the one thing here that is as large as
    /// the memory of the program.
    #[inline(always)]
    pub fn fetch(&self, address: u64) {
        let number = address / REGION;
        let (known, index) = self.recent[number as usize % RECENT];
        if known == number {
            let region = &self.regions[index as usize];
            let offset = (address % REGION) as usize;
            prefetch(&region.bytes[offset]);
            prefetch(&region.known[offset / 8]);
            prefetch(&region.touched[offset / 8]);
        }
    }

    /// A thread reads up to eight bytes and finds a value, which is known from now on.
    #[inline]
    pub fn read(&mut self, thread: usize, address: u64, size: u64, value: u64) -> Foreign {
        let offset = (address % REGION) as usize;
        if offset as u64 + size > REGION {
            return self.read_across(thread, address, size, value);
        }
        let region = self.region(address / REGION);
        let Span { bits, mask, shift } = span(offset, size);
        let seen = region.word(offset);
        let known = region.known(offset);
        let agrees = known >> shift & bits == bits && (seen ^ value) & mask == 0;
        if agrees && region.is_settled(offset, size, thread) {
            return Foreign::Nothing;
        }
        let spread = spread((known >> shift & bits) as u8);
        region.set_word(offset, seen & !mask | value & mask);
        region.set_known(offset, known | bits << shift);
        region.judge(offset, size, thread, (seen ^ value) & mask & spread != 0)
    }

    #[cold]
    fn read_across(&mut self, thread: usize, address: u64, size: u64, value: u64) -> Foreign {
        let parts = (0..size).map(|i| self.read(thread, address + i, 1, value >> (8 * i)));
        parts.fold(Foreign::Nothing, |worst, part| match (worst, part) {
            (Foreign::Shared, _) | (_, Foreign::Shared) => Foreign::Shared,
            (Foreign::Own, _) | (_, Foreign::Own) => Foreign::Own,
            _ => Foreign::Nothing,
        })
    }

    /// A thread writes up to eight bytes.
    #[inline]
    pub fn write(&mut self, thread: usize, address: u64, size: u64, value: u64) {
        let offset = (address % REGION) as usize;
        if offset as u64 + size > REGION {
            return (0..size).for_each(|i| self.write(thread, address + i, 1, value >> (8 * i)));
        }
        let region = self.region(address / REGION);
        let Span { bits, mask, shift } = span(offset, size);
        let seen = region.word(offset);
        region.set_word(offset, seen & !mask | value & mask);
        let known = region.known(offset);
        region.set_known(offset, known | bits << shift);
        if !region.is_settled(offset, size, thread) {
            region.judge(offset, size, thread, false);
        }
    }

    /// These bytes are other memory now: nobody has touched it, and nothing is known.
    pub fn renew(&mut self, address: u64, size: u64) {
        self.forget(address, size);
        self.each_part(address, size, |region, from, last| region.touched[from / 8..=last / 8].fill(0));
    }

    /// Something that is not known is in these bytes now.
    pub fn forget(&mut self, address: u64, size: u64) {
        self.each_part(address, size, |region, from, last| {
            if from / 8 == last / 8 {
                region.known[from / 8] &= !(u8::MAX << (from % 8) & u8::MAX >> (7 - last % 8));
            } else {
                region.known[from / 8] &= !(u8::MAX << (from % 8));
                region.known[from / 8 + 1..last / 8].fill(0);
                region.known[last / 8] &= !(u8::MAX >> (7 - last % 8));
            }
        });
    }

    /// A thread does something to a stretch of memory of which the contents are not recorded.
    pub fn touch(&mut self, thread: usize, address: u64, size: u64) {
        let own = own(thread);
        self.each_part(address, size, |region, from, last| {
            for touched in &mut region.touched[from / 8..=last / 8] {
                if *touched == 0 {
                    *touched = own;
                } else if *touched & !CHANGED != own {
                    *touched |= SHARED;
                }
            }
        });
    }

    /// The parts of a stretch in regions that were touched before, by their first and last byte.
    fn each_part(&mut self, address: u64, size: u64, mut each: impl FnMut(&mut Region, usize, usize)) {
        let mut at = address;
        let end = address.saturating_add(size);
        while at < end {
            let to = end.min((at / REGION + 1).saturating_mul(REGION));
            // Nothing is known about others, and nobody has touched them.
            if self.found.contains_key(&(at / REGION)) {
                each(self.region(at / REGION), (at % REGION) as usize, ((to - 1) % REGION) as usize);
            }
            at = to;
        }
    }
}

#[inline(always)]
fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: fetching does nothing but that.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// The mark of a thread.
#[inline(always)]
fn own(thread: usize) -> u16 {
    // Those beyond share a mark that is nobody's.
    if thread < SHARED as usize - 1 { thread as u16 + 1 } else { SHARED }
}

impl Region {
    /// Nothing is known. Made where it stays: it is too large for a stack.
    fn new() -> Box<Region> {
        let layout = std::alloc::Layout::new::<Region>();
        // SAFETY: the layout has a size; memory of zeros is a region, and the box is its only owner.
        unsafe {
            let region = std::alloc::alloc_zeroed(layout).cast::<Region>();
            if region.is_null() {
                std::alloc::handle_alloc_error(layout);
            }
            Box::from_raw(region)
        }
    }

    /// Whether an access of the thread changes nothing about who has touched what.
    #[inline(always)]
    fn is_settled(&self, offset: usize, size: u64, thread: usize) -> bool {
        let (first, last) = (self.touched[offset / 8], self.touched[(offset + size as usize - 1) / 8]);
        let settled = |touched: u16| touched == own(thread) || touched == SHARED;
        settled(first) && settled(last)
    }

    /// A thread touches these bytes; `changed` if it finds that they were changed.
    #[inline(never)]
    fn judge(&mut self, offset: usize, size: u64, thread: usize, changed: bool) -> Foreign {
        let own = own(thread);
        let mut result = if changed { Foreign::Own } else { Foreign::Nothing };
        let parts = &mut self.touched[offset / 8..=(offset + size as usize - 1) / 8];
        // Shared with others, whoever of them came first.
        let shared = parts.iter().any(|touched| *touched != 0 && *touched & !CHANGED != own) || own == SHARED;
        for touched in parts {
            if shared {
                if changed || *touched & CHANGED != 0 {
                    result = Foreign::Shared;
                }
                *touched = SHARED;
            } else {
                *touched = own | *touched & CHANGED | if changed { CHANGED } else { 0 };
            }
        }
        result
    }

    #[inline(always)]
    fn word(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.bytes[offset..offset + 8].try_into().expect("eight bytes"))
    }

    #[inline(always)]
    fn set_word(&mut self, offset: usize, word: u64) {
        self.bytes[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
    }

    #[inline(always)]
    fn known(&self, offset: usize) -> u32 {
        u16::from_le_bytes(self.known[offset / 8..offset / 8 + 2].try_into().expect("two bytes")) as u32
    }

    #[inline(always)]
    fn set_known(&mut self, offset: usize, known: u32) {
        self.known[offset / 8..offset / 8 + 2].copy_from_slice(&(known as u16).to_le_bytes());
    }
}

/// Where an access of one to eight bytes is in the words around it.
struct Span {
    /// One bit for each byte.
    bits: u32,
    /// All bits of these bytes.
    mask: u64,
    /// Where the bits start.
    shift: u32,
}

#[inline(always)]
fn span(offset: usize, size: u64) -> Span {
    Span { bits: (1 << size) - 1, mask: u64::MAX >> (64 - 8 * size), shift: (offset % 8) as u32 }
}

/// Each bit as a byte of ones.
fn spread(bits: u8) -> u64 {
    (0..8).filter(|bit| bits >> bit & 1 == 1).fold(0, |all, bit| all | 0xff << (8 * bit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Foreign = Foreign::Own;
    const NOTHING: Foreign = Foreign::Nothing;

    #[test]
    fn bytes_are_remembered_and_changes_are_noticed() {
        let mut shadow = Shadow::new();
        assert_eq!(shadow.read(0, 0x1003, 4, 0x0403_0201), NOTHING, "the first read says what is there");
        assert_eq!(shadow.read(0, 0x1003, 4, 0x0403_0201), NOTHING);
        assert_eq!(shadow.read(0, 0x1004, 2, 0x0302), NOTHING);
        assert_eq!(shadow.read(0, 0x1004, 1, 9), OWN, "somebody has changed it");
        assert_eq!(shadow.read(0, 0x1003, 4, 0x0403_0901), NOTHING, "which is known from then on");
        shadow.write(0, 0x1000, 8, u64::MAX);
        assert_eq!(shadow.read(0, 0x1006, 1, 0xff), NOTHING);
        assert_eq!(shadow.read(0, 0x1007, 2, 0x11ff), NOTHING);
        assert_eq!(shadow.read(0, 0x1006, 4, 0x1100ff), OWN);
        // At the seam of two regions.
        shadow.write(0, 0xffff, 2, 0x2211);
        assert_eq!((shadow.read(0, 0xffff, 1, 0x11), shadow.read(0, 0x10000, 1, 0x22)), (NOTHING, NOTHING));
        assert_eq!(shadow.read(0, 0xfffc, 8, 0), OWN);
    }

    #[test]
    fn a_change_of_what_other_threads_touch_is_told_from_one_of_the_threads_own() {
        let mut shadow = Shadow::new();
        shadow.write(1, 0x1000, 4, 5);
        assert_eq!(shadow.read(2, 0x1000, 4, 5), NOTHING);
        assert_eq!(shadow.read(2, 0x1000, 4, 6), Foreign::Shared);
        // Changed for one thread, seen by it, then by another one.
        shadow.write(1, 0x2000, 4, 5);
        assert_eq!(shadow.read(1, 0x2000, 4, 7), OWN);
        assert_eq!(shadow.read(1, 0x2000, 4, 7), NOTHING);
        assert_eq!(shadow.read(3, 0x2000, 4, 7), Foreign::Shared);
        assert_eq!(shadow.read(3, 0x2000, 4, 7), NOTHING);
        // Other memory at the same place.
        shadow.renew(0x2000, 8);
        assert_eq!(shadow.read(3, 0x2000, 4, 9), NOTHING);
        assert_eq!(shadow.read(3, 0x2000, 4, 8), OWN);
        shadow.touch(1, 0x2000, 8);
        assert_eq!(shadow.read(3, 0x2000, 4, 8), Foreign::Shared);
    }

    #[test]
    fn what_is_forgotten_may_be_anything_and_nothing_else() {
        for (from, size) in [(0u64, 1), (3, 2), (5, 40), (0xfff0, 40), (7, 1), (8, 8), (1, 0x20000)] {
            let mut shadow = Shadow::new();
            let range = from.saturating_sub(20)..from + size + 20;
            range.clone().for_each(|at| shadow.write(0, at, 1, 1));
            shadow.forget(from, size);
            for at in range {
                let expected = if (from..from + size).contains(&at) { NOTHING } else { OWN };
                assert_eq!(shadow.read(0, at, 1, 2), expected, "{at} of {from} {size}");
            }
        }
    }
}
