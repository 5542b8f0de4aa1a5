//! Which heap block an access lies in, so that every access of the trace lies inside one block or outside all.

use crate::hash::BuildWordHasher;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

/// The allocator's alignment: no two blocks share so many bytes.
const GRANULE: u64 = 16;
const REGION: u64 = 1 << 16;
const GRANULES: usize = (REGION / GRANULE) as usize;

/// Regions that were found last, by the lower bits of their number.
const RECENT: usize = 1 << 8;

/// What a granule is.
const OUTSIDE: u8 = 0;
/// Inside a block, and the next granule too.
const INNER: u8 = 1;
const FREED: u8 = 2;
/// The last of a block; added to this, how many of its bytes are in the block.
const LAST: u8 = 16;

/// Blocks that live in mappings of their own get addresses of their own in the
/// trace, a new number in the upper bits for each: when they are gone, their addresses may become anything. So does a block
/// where the trace has a live one: that was freed in a way that was not seen, by nobody knows whom.
pub const NUMBERED: u32 = 48;

/// Longer blocks get addresses of their own, too: what is said of each granule would be too much.
const LARGE: u64 = 1 << 26;

/// Where an access is in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// So many bytes from this address on.
    At(u64, u64),
    /// In memory that was freed.
    Freed,
}

/// Memory that has addresses of its own in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbered {
    start: u64,
    size: u64,
    /// First byte in the trace.
    place: u64,
    /// Whether it is a heap block, as a whole.
    is_block: bool,
}

impl Numbered {
    fn end(&self) -> u64 {
        self.start + self.size
    }

    /// The place in the trace of an access that starts inside.
    #[inline(always)]
    fn at(&self, address: u64, size: u64) -> Option<Place> {
        let offset = address.wrapping_sub(self.start);
        (offset < self.size).then(|| Place::At(self.place + offset, size.min(self.size - offset)))
    }
}

/// A region that was found.
#[derive(Clone, Copy)]
struct Found {
    /// Its number: address / REGION.
    number: u64,
    /// Its index in `Heap::regions`.
    region: u32,
    /// How much numbered memory reaches into it.
    numbered: u32,
    /// One of them: the first, or the one that was asked for last.
    first: Numbered,
}

const NOTHING: Numbered = Numbered { start: 0, size: 0, place: 0, is_block: false };

/// The heap as the trace sees it.
#[derive(Default)]
pub struct Heap {
    /// Live blocks: first byte → size.
    blocks: BTreeMap<u64, u64>,
    /// Memory with addresses of its own, by address; goes before `blocks` and regions.
    numbered: Vec<Numbered>,
    /// How much of that there was.
    numbers: u64,
    /// How much of it is no more.
    lost: u64,
    regions: Vec<Box<[u8; GRANULES]>>,
    /// Those of them that were forgotten: outside all blocks, as new ones are.
    vacant: Vec<u32>,
    /// Region of each number.
    found: HashMap<u64, u32, BuildWordHasher>,
    recent: Vec<Found>,
    /// Regions that were touched for the first time.
    pub fresh: Vec<Range<u64>>,
    /// Blocks with addresses of their own that were freed last, and their places: whoever touches them dies of it.
    gone: VecDeque<Numbered>,
    /// Blocks were handed out that nobody knows of, so what was freed may be one of them.
    pub is_doubtful: bool,
}

/// The bytes that the C library hands out for a request, at least: programs that ask `malloc_usable_size` use all of them, and
/// they may have belonged to a block that was freed.
fn usable(size: u64) -> u64 {
    const HEAD: u64 = 8;
    size.saturating_add(HEAD).next_multiple_of(GRANULE).max(2 * GRANULE) - HEAD
}

/// Whether no granule is in a block, or was.
fn is_outside(states: &[u8; GRANULES]) -> bool {
    states.iter().all(|&state| state == OUTSIDE)
}

impl Heap {
    #[inline(always)]
    fn region(&mut self, number: u64) -> Found {
        match self.recent.get(number as usize % RECENT) {
            Some(found) if found.number == number => *found,
            _ => self.find(number),
        }
    }

    #[inline(never)]
    fn find(&mut self, number: u64) -> Found {
        if self.recent.is_empty() {
            // No address has this region.
            self.recent = vec![Found { number: u64::MAX, region: 0, numbered: 0, first: NOTHING }; RECENT];
        }
        let (regions, vacant, fresh) = (&mut self.regions, &mut self.vacant, &mut self.fresh);
        let start = number * REGION;
        let region = *self.found.entry(number).or_insert_with(|| {
            fresh.push(start..start.saturating_add(REGION));
            vacant.pop().unwrap_or_else(|| {
                regions.push(Box::new([OUTSIDE; GRANULES]));
                regions.len() as u32 - 1
            })
        });
        let from = self.numbered.partition_point(|memory| memory.end() <= start);
        let inside = self.numbered[from..].iter().take_while(|memory| memory.start < start.saturating_add(REGION));
        let first = self.numbered.get(from).copied().unwrap_or(NOTHING);
        let found = Found { number, region, numbered: inside.count() as u32, first };
        self.recent[number as usize % RECENT] = found;
        found
    }

    /// All regions that were ever touched count as touched for the first time again.
    pub fn touch_again(&mut self) {
        self.fresh =
            self.found.keys().map(|number| number * REGION..(number * REGION).saturating_add(REGION)).collect();
    }

    /// Bytes of all regions that were touched and not forgotten.
    #[inline]
    pub fn touched(&self) -> u64 {
        self.found.len() as u64 * REGION
    }

    /// Forgets the regions of which `may` says so by their numbers, unless there are blocks in them, or were: of others there is nothing
    /// to know but that they were touched.
    pub fn forget_if(&mut self, mut may: impl FnMut(u64) -> bool) {
        let (regions, vacant) = (&self.regions, &mut self.vacant);
        self.found.retain(|&number, &mut index| {
            let goes = may(number) && is_outside(&regions[index as usize]);
            if goes {
                vacant.push(index);
            }
            !goes
        });
        self.recent.clear();
    }

    /// The same for all regions with bytes in a stretch of memory.
    pub fn forget(&mut self, address: u64, size: u64) {
        let Some(last) = size.checked_sub(1).map(|more| address.saturating_add(more)) else { return };
        let inside = address / REGION..=last / REGION;
        if inside.end() - inside.start() >= self.found.len() as u64 {
            return self.forget_if(|number| inside.contains(&number));
        }
        for number in inside {
            if let Some(&index) = self.found.get(&number)
                && is_outside(&self.regions[index as usize])
            {
                self.found.remove(&number);
                self.vacant.push(index);
            }
        }
        self.recent.clear();
    }

    /// How many regions there are of which `is` says so by their numbers.
    pub fn count_regions(&self, mut is: impl FnMut(u64) -> bool) -> u64 {
        self.found.keys().filter(|&&number| is(number)).count() as u64
    }

    /// Whether memory that has addresses of its own has some of them in this stretch of the trace, which is as long as a region.
    pub fn has_place_in(&self, number: u64) -> bool {
        const NUMBERS: u32 = NUMBERED - REGION.trailing_zeros();
        let start = (number & !(u64::MAX << NUMBERS)) * REGION;
        let from = self.numbered.partition_point(|memory| memory.end() <= start);
        let inside = self.numbered[from..].iter().take_while(|memory| memory.start < start.saturating_add(REGION));
        inside.into_iter().any(|memory| memory.place >> NUMBERED == number >> NUMBERS)
    }

    fn states(&mut self, address: u64) -> &mut [u8; GRANULES] {
        let found = self.region(address / REGION);
        &mut self.regions[found.region as usize]
    }

    #[inline(always)]
    fn state(&mut self, address: u64) -> u8 {
        self.states(address)[(address % REGION / GRANULE) as usize]
    }

    fn set(&mut self, first: u64, size: u64, state: u8) {
        let mut address = first;
        while address < first + size {
            let end = (address / REGION + 1) * REGION;
            let to = end.min(first + size);
            let (from, last) = ((address % REGION / GRANULE) as usize, ((to - 1) % REGION / GRANULE) as usize);
            self.states(address)[from..=last].fill(state);
            address = end;
        }
    }

    /// A block is handed out; its place in the trace.
    pub fn alloc(&mut self, address: u64, size: u64, mapped: bool) -> (u64, u64) {
        let size = size.max(1);
        self.gone.retain(|gone| gone.end() <= address || gone.start >= address.saturating_add(size));
        let whole = usable(size);
        if mapped || size > LARGE || !address.is_multiple_of(GRANULE) || self.is_in_use(address, whole) {
            return (self.number(address, size, true), size);
        }
        let size = whole;
        self.set(address, size, INNER);
        let last = address + size - 1;
        self.states(last)[(last % REGION / GRANULE) as usize] = LAST + (last % GRANULE) as u8 + 1;
        self.blocks.insert(address, size);
        (address, size)
    }

    /// Whether live blocks are in the way of a new one.
    fn is_in_use(&self, address: u64, size: u64) -> bool {
        let last = address + size - 1;
        let block = self.blocks.range(..=last).next_back().is_some_and(|(start, size)| start + size > address);
        let at = self.numbered.partition_point(|memory| memory.end() <= address);
        block || self.numbered.get(at).is_some_and(|memory| memory.start <= last)
    }

    /// Gives memory addresses of its own; the first of them. What had these addresses before has them no more.
    fn number(&mut self, start: u64, size: u64, is_block: bool) -> u64 {
        self.numbers += 1;
        let place = start | (1 + self.numbers % 0x7fff) << NUMBERED;
        let end = start + size;
        let from = self.numbered.partition_point(|memory| memory.end() <= start);
        let to = from + self.numbered[from..].iter().take_while(|memory| memory.start < end).count();
        let mut pieces = Vec::new();
        for old in &self.numbered[from..to] {
            if old.start < start {
                pieces.push(Numbered { size: start - old.start, is_block: false, ..*old });
            }
        }
        pieces.push(Numbered { start, size, place, is_block });
        for old in &self.numbered[from..to] {
            if old.end() > end {
                let place = old.place + (end - old.start);
                pieces.push(Numbered { start: end, size: old.end() - end, place, is_block: false });
            }
        }
        self.numbered.splice(from..to, pieces);
        self.recent.clear();
        place
    }

    /// A block is freed; its place in the trace. `None` if it was handed out before the recording began.
    pub fn free(&mut self, address: u64) -> Option<(u64, u64)> {
        let at = self.numbered.partition_point(|memory| memory.end() <= address);
        if let Some(&memory) = self.numbered.get(at).filter(|memory| memory.start <= address) {
            if !memory.is_block || memory.start != address {
                return None;
            }
            self.numbered.remove(at);
            self.lost += 1;
            self.recent.clear();
            const MOST: usize = 64;
            self.gone.truncate(MOST - 1);
            self.gone.push_front(memory);
            return Some((memory.place, memory.size));
        }
        let size = self.blocks.remove(&address)?;
        self.set(address, size, FREED);
        Some((address, size))
    }

    /// How often memory has got addresses of its own, or lost them.
    pub fn changes(&self) -> u64 {
        self.numbers + self.lost
    }

    /// The place of bytes of a block that was unmapped, if no other block is known there.
    pub fn gone_at(&self, address: u64, size: u64) -> Option<u64> {
        let is_in = |gone: &&Numbered| gone.start <= address && address + size <= gone.end();
        self.gone.iter().find(is_in).map(|gone| gone.place + (address - gone.start))
    }

    /// Bytes of the block that starts there, 0 if there is none.
    pub fn block_at(&self, address: u64) -> u64 {
        let at = self.numbered.partition_point(|memory| memory.end() <= address);
        match self.numbered.get(at).filter(|memory| memory.start == address && memory.is_block) {
            Some(memory) => memory.size,
            None => self.blocks.get(&address).copied().unwrap_or(0),
        }
    }

    /// The part of its region around an address in which all memory has addresses of its own in the trace, or none: its
    /// first address, its last one plus one, and how much the addresses in the trace are greater.
    pub fn window(&self, address: u64) -> (u64, u64, u64) {
        let region = address / REGION * REGION;
        let (start, end) = (region, region.saturating_add(REGION));
        let at = self.numbered.partition_point(|memory| memory.end() <= address);
        let before = at.checked_sub(1).map_or(0, |before| self.numbered[before].end());
        match self.numbered.get(at) {
            Some(memory) if memory.start <= address => {
                (start.max(memory.start), end.min(memory.end()), memory.place - memory.start)
            }
            Some(memory) => (start.max(before), end.min(memory.start), 0),
            None => (start.max(before), end, 0),
        }
    }

    /// Calls `each` for the memory in the region of an address that was freed, if it has no addresses of its own: first byte
    /// and size.
    pub fn each_freed(&mut self, address: u64, mut each: impl FnMut(u64, u64)) {
        let start = address / REGION * REGION;
        for (index, &state) in self.states(address).iter().enumerate() {
            if state == FREED {
                each(start + GRANULE * index as u64, GRANULE);
            }
        }
    }

    /// What is marked together with a block: first byte and size.
    pub fn granules(address: u64, size: u64) -> (u64, u64) {
        let start = address / GRANULE * GRANULE;
        (start, (address + size).next_multiple_of(GRANULE) - start)
    }

    /// Memory that was freed, if it was, is no longer: a block that is not followed is there.
    pub fn appear(&mut self, address: u64, size: u64) {
        if size > LARGE {
            // It is a mapping of its own.
            return;
        }
        let mut at = address / GRANULE * GRANULE;
        while at < address.saturating_add(size) {
            if self.state(at) == FREED {
                self.set(at, GRANULE, OUTSIDE);
            }
            at += GRANULE;
        }
    }

    /// Whether memory was freed and not handed out again.
    pub fn is_freed(&mut self, address: u64) -> bool {
        self.place(address, 1) == Place::Freed
    }

    /// How many of these bytes, of which the first was freed, lie before the next live block.
    pub fn freed_part(&self, address: u64, size: u64) -> u64 {
        let next = self.blocks.range(address..).next().map_or(u64::MAX, |(&start, _)| start);
        size.min(next - address)
    }

    /// Where an access lies. The common cases look at one or two granules of one region.
    #[inline]
    pub fn place(&mut self, address: u64, size: u64) -> Place {
        let found = self.region(address / REGION);
        let offset = address % REGION;
        if found.numbered > 0
            && let Some(place) = found.first.at(address, size)
        {
            return place;
        }
        if size <= GRANULE && found.numbered == 0 && offset + size <= REGION {
            let states = &self.regions[found.region as usize];
            let first = states[(offset / GRANULE) as usize];
            let last = states[((offset + size - 1) / GRANULE) as usize];
            let fits = first >= LAST && offset % GRANULE + size <= (first - LAST) as u64;
            if first == INNER || fits || first == OUTSIDE && last == OUTSIDE {
                return Place::At(address, size);
            }
        }
        self.look(address, size)
    }

    /// The first granule in a stretch of memory that was freed. What was never touched was not freed, either, so a long stretch takes no
    /// longer than a look at all that was touched.
    fn first_freed(&self, start: u64, end: u64) -> Option<u64> {
        if start >= end {
            return None;
        }
        let inside = start / REGION..=(end - 1) / REGION;
        let in_region = |number: u64| {
            let states = &self.regions[*self.found.get(&number)? as usize];
            let first = number * REGION;
            let from = start.saturating_sub(first).div_ceil(GRANULE) as usize;
            let to = (end - first).min(REGION).div_ceil(GRANULE) as usize;
            let at = states.get(from..to)?.iter().position(|&state| state == FREED)?;
            Some(first + (from + at) as u64 * GRANULE)
        };
        if inside.end() - inside.start() < self.found.len() as u64 {
            return inside.into_iter().find_map(in_region);
        }
        self.found.keys().filter(|number| inside.contains(number)).filter_map(|&number| in_region(number)).min()
    }

    fn look(&mut self, address: u64, size: u64) -> Place {
        let at = self.numbered.partition_point(|memory| memory.end() <= address);
        if let Some(&memory) = self.numbered.get(at)
            && let Some(place) = memory.at(address, size)
        {
            let number = address / REGION;
            if let Some(recent) = self.recent.get_mut(number as usize % RECENT).filter(|recent| recent.number == number)
            {
                recent.first = memory;
            }
            return place;
        }
        let freed = self.state(address) == FREED;
        let most = self.numbered.get(at).map_or(size, |memory| size.min(memory.start - address));
        match self.blocks.range(..=address).next_back() {
            Some((&start, &length)) if address < start + length => {
                Place::At(address, most.min(start + length - address))
            }
            _ if freed => Place::Freed,
            // Outside: as far as the next block, or freed memory, is not reached.
            _ => {
                let end = address + size;
                let next = self.blocks.range(address..end).next().map_or(end, |(&start, _)| start);
                let next = self.numbered.get(at).map_or(next, |memory| next.min(memory.start));
                let free = self.first_freed((address / GRANULE + 1) * GRANULE, next).unwrap_or(next);
                Place::At(address, free - address)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_stay_inside_one_block() {
        let mut heap = Heap::default();
        heap.alloc(0x1000, 40, false);
        heap.alloc(0x1030, 16, false);
        assert_eq!(heap.place(0x1000, 8), Place::At(0x1000, 8));
        assert_eq!(heap.place(0x1024, 8), Place::At(0x1024, 4));
        assert_eq!(heap.place(0x1030, 16), Place::At(0x1030, 16));
        assert_eq!(heap.place(0xffc, 8), Place::At(0xffc, 4));
        assert_eq!(heap.place(0x2000, 8), Place::At(0x2000, 8));
        assert_eq!(heap.free(0x1000), Some((0x1000, 40)));
        assert_eq!(heap.place(0x1008, 4), Place::Freed);
        assert_eq!(heap.place(0xffc, 8), Place::At(0xffc, 4));
        assert_eq!(heap.free(0x1000), None);
        heap.alloc(0x1000, 8, false);
        assert_eq!(heap.place(0x1004, 4), Place::At(0x1004, 4));
        // All that the library hands out for eight bytes.
        assert_eq!(heap.place(0x1014, 8), Place::At(0x1014, 4));
    }

    #[test]
    fn blocks_in_mappings_of_their_own_never_have_the_same_addresses() {
        let mut heap = Heap::default();
        let (first, _) = heap.alloc(0x7f00_0000_0010, 1 << 20, true);
        assert_eq!(heap.place(0x7f00_0000_0018, 8), Place::At(first + 8, 8));
        assert_eq!(heap.free(0x7f00_0000_0010), Some((first, 1 << 20)));
        // The memory may be a stack now.
        assert_eq!(heap.place(0x7f00_0000_0018, 8), Place::At(0x7f00_0000_0018, 8));
        let (second, _) = heap.alloc(0x7f00_0000_0010, 1 << 20, true);
        assert_ne!(first, second);
    }

    #[test]
    fn a_block_that_was_freed_unseen_is_not_the_one_that_comes_after_it() {
        let mut heap = Heap::default();
        heap.alloc(0x1000, 72, false);
        let (second, _) = heap.alloc(0x1000, 32, false);
        assert_ne!(second, 0x1000);
        assert_eq!(heap.place(0x1008, 8), Place::At(second + 8, 8));
        // What is left of the first one is still there in the trace.
        assert_eq!(heap.place(0x1020, 8), Place::At(0x1020, 8));
        assert_eq!(heap.free(0x1000), Some((second, 32)));
        assert_eq!(heap.place(0x1008, 8), Place::At(0x1008, 8));
        assert_eq!(heap.free(0x1000), Some((0x1000, 72)));
        assert_eq!(heap.place(0x1008, 8), Place::Freed);
    }
}
