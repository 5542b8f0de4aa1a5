//! Which heap block an access lies in, so that every access of the trace lies inside one block or outside all.

use crate::hash::BuildWordHasher;
use std::collections::{BTreeMap, HashMap};

/// The allocator's alignment: no two blocks share so many bytes.
const GRANULE: u64 = 16;
const REGION: u64 = 1 << 16;
const GRANULES: usize = (REGION / GRANULE) as usize;

/// What a granule is.
const OUTSIDE: u8 = 0;
/// Inside a block, and the next granule too.
const INNER: u8 = 1;
/// The last of a block.
const LAST: u8 = 2;
const FREED: u8 = 3;

/// Blocks that live in mappings of their own get addresses of their own in the trace, a new number in the upper bits for
/// each: when they are freed, their addresses may become anything, a stack for instance.
const NUMBERED: u32 = 48;

/// Where an access is in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// So many bytes from this address on.
    At(u64, u64),
    /// In memory that was freed.
    Freed,
}

/// The heap as the trace sees it.
#[derive(Default)]
pub struct Heap {
    /// Live blocks: first byte → size.
    blocks: BTreeMap<u64, u64>,
    /// Live blocks in mappings of their own: first byte, size, first byte in the trace.
    mapped: Vec<(u64, u64, u64)>,
    /// How many of those there were.
    numbered: u64,
    regions: HashMap<u64, Box<[u8; GRANULES]>, BuildWordHasher>,
}

impl Heap {
    fn states(&mut self, address: u64) -> &mut [u8; GRANULES] {
        self.regions.entry(address / REGION).or_insert_with(|| Box::new([OUTSIDE; GRANULES]))
    }

    fn state(&self, address: u64) -> u8 {
        self.regions.get(&(address / REGION)).map_or(OUTSIDE, |states| states[(address % REGION / GRANULE) as usize])
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

    /// A block is handed out; its place in the trace. `None` if a live block is in the way, which must be freed first.
    pub fn alloc(&mut self, address: u64, size: u64, mapped: bool) -> (u64, u64) {
        let size = size.max(1);
        if mapped {
            self.numbered += 1;
            let place = address | (1 + self.numbered % 0x7fff) << NUMBERED;
            let at = self.mapped.partition_point(|block| block.0 < address);
            self.mapped.insert(at, (address, size, place));
            return (place, size);
        }
        self.set(address, size, INNER);
        let last = address + size - 1;
        self.states(last)[(last % REGION / GRANULE) as usize] = LAST;
        self.blocks.insert(address, size);
        (address, size)
    }

    /// Live blocks in the way of a new one: they were freed in a way that was not seen.
    pub fn in_the_way(&self, address: u64, size: u64) -> Vec<u64> {
        let last = address + size.max(1) - 1;
        let overlapping = self.blocks.range(..=last).rev().take_while(|(start, size)| **start + **size > address);
        let mut all: Vec<u64> = overlapping.map(|(start, _)| *start).collect();
        all.extend(self.mapped.iter().filter(|b| b.0 <= last && b.0 + b.1 > address).map(|b| b.0));
        all
    }

    /// A block is freed; its place in the trace. `None` if it was handed out before the recording began.
    pub fn free(&mut self, address: u64) -> Option<(u64, u64)> {
        if let Some(at) = self.mapped.iter().position(|block| block.0 == address) {
            let (_, size, place) = self.mapped.remove(at);
            return Some((place, size));
        }
        let size = self.blocks.remove(&address)?;
        self.set(address, size, FREED);
        Some((address, size))
    }

    /// Where an access of a few bytes lies. The common cases look at one or two granules.
    #[inline]
    pub fn place(&self, address: u64, size: u64) -> Place {
        let (first, last) = (self.state(address), self.state(address + size - 1));
        if first == INNER && size <= GRANULE || first == OUTSIDE && last == OUTSIDE && self.mapped.is_empty() {
            return Place::At(address, size);
        }
        self.look(address, size)
    }

    fn look(&self, address: u64, size: u64) -> Place {
        let at = self.mapped.partition_point(|block| block.0 <= address);
        if let Some(&(start, length, place)) = at.checked_sub(1).map(|at| &self.mapped[at])
            && address < start + length
        {
            let offset = address - start;
            return Place::At(place + offset, size.min(length - offset));
        }
        match self.blocks.range(..=address).next_back() {
            Some((&start, &length)) if address < start + length => {
                Place::At(address, size.min(start + length - address))
            }
            _ if self.state(address) == FREED => Place::Freed,
            // Outside: as far as the next block, or freed memory, is not reached.
            _ => {
                let end = address + size;
                let next = self.blocks.range(address..end).next().map_or(end, |(&start, _)| start);
                let mut free = next;
                let mut at = (address / GRANULE + 1) * GRANULE;
                while at < next {
                    if self.state(at) == FREED {
                        free = at;
                        break;
                    }
                    at += GRANULE;
                }
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
        assert_eq!(heap.place(0x1004, 8), Place::At(0x1004, 4));
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
}
