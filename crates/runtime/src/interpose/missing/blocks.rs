//! Which heap block an address lies in.
//!
//! A bit for each sixteen bytes of memory says whether a block begins there; the allocator knows how long it is. Long
//! blocks, and mappings, are in a list besides, so that nobody has to look far. Any thread may hand out blocks at any
//! time, with the token or without.

use crate::base::c::Pointer;
use crate::base::lock::Mutex;
use crate::base::memory::map;
use crate::base::program::Address;
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

/// The allocator's alignment.
const GRANULE: usize = 16;

/// Bytes of memory that a table of bits is for, and its words.
const REGION: usize = 1 << 25;
const WORDS: usize = REGION / GRANULE / 64;

/// Regions of all memory that a program can have.
const REGIONS: usize = (1 << 47) / REGION;

/// The table of each region; null before a block began there. Null itself before the first block.
static TABLES: AtomicPtr<AtomicPtr<AtomicU64>> = AtomicPtr::new(core::ptr::null_mut());

/// Blocks from here on are in the list.
const LONG: usize = 1 << 14;

/// Long blocks and mappings, by address. They do not overlap.
static RANGES: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

/// What is at the pointer, or what `make` makes, if nothing is there yet.
fn find_or_make<T>(at: &AtomicPtr<T>, bytes: usize) -> *mut T {
    let found = at.load(Acquire);
    if !found.is_null() {
        return found;
    }
    let made = map(bytes, None).cast();
    match at.compare_exchange(core::ptr::null_mut(), made, AcqRel, Acquire) {
        Ok(_) => made,
        // Another thread was faster; what was mapped in vain takes no memory.
        Err(other) => other,
    }
}

/// The tables, once there are some.
fn tables() -> Option<&'static [AtomicPtr<AtomicU64>]> {
    let tables = TABLES.load(Acquire);
    // SAFETY: `find_or_make` has mapped so much for them, which stays, and zeroes are null.
    (!tables.is_null()).then(|| unsafe { core::slice::from_raw_parts(tables, REGIONS) })
}

/// The bits of the region of an address, once there are some.
fn bits(address: usize) -> Option<&'static [AtomicU64; WORDS]> {
    let table = tables()?.get(address / REGION)?.load(Acquire);
    // SAFETY: as above.
    unsafe { table.cast::<[AtomicU64; WORDS]>().as_ref() }
}

/// The word and the bit of a granule in its region.
fn place(address: usize) -> (usize, u32) {
    let granule = address % REGION / GRANULE;
    (granule / 64, (granule % 64) as u32)
}

/// Bytes of a block that the allocator has handed out, by the word that glibc keeps before it. `malloc_usable_size`
/// says the same, but a program with ThreadSanitizer's runtime inside has one of its own, which does not work at first.
fn size_of_block(address: usize) -> usize {
    let word: usize = Address(address - 8).read();
    const IS_MAPPED: usize = 2;
    const FLAGS: usize = 7;
    (word & !FLAGS) - if word & IS_MAPPED != 0 { 16 } else { 8 }
}

/// A block was handed out.
pub fn add(block: Pointer) {
    let address = block as usize;
    if address == 0 || address / REGION >= REGIONS {
        return;
    }
    find_or_make(&TABLES, REGIONS * size_of::<AtomicPtr<AtomicU64>>());
    let Some(table) = tables().and_then(|tables| tables.get(address / REGION)) else { return };
    find_or_make(table, WORDS * size_of::<AtomicU64>());
    let (word, bit) = place(address);
    if let Some(bits) = bits(address) {
        bits[word].fetch_or(1 << bit, Relaxed);
    }
    let size = size_of_block(address);
    if size >= LONG {
        add_range(address, size);
    }
}

/// A block is about to be given back.
pub fn remove(block: Pointer) {
    let address = block as usize;
    let Some(bits) = bits(address) else { return };
    let (word, bit) = place(address);
    let before = bits[word].fetch_and(!(1 << bit), Relaxed);
    if before & 1 << bit != 0 {
        let size = size_of_block(address);
        if size >= LONG {
            remove_range(address, size);
        }
    }
}

/// Memory was mapped.
pub fn add_range(address: usize, size: usize) {
    remove_range(address, size);
    let mut ranges = RANGES.lock();
    let at = ranges.partition_point(|range| range.start < address);
    ranges.insert(at, address..address.saturating_add(size));
}

/// Memory is no more.
pub fn remove_range(address: usize, size: usize) {
    let gone = address..address.saturating_add(size);
    let mut ranges = RANGES.lock();
    let from = ranges.partition_point(|range| range.end <= gone.start);
    let to = from + ranges[from..].iter().take_while(|range| range.start < gone.end).count();
    let rest = ranges[from..to].iter().flat_map(|range| [range.start..gone.start, gone.end..range.end]);
    let rest: Vec<_> = rest.filter(|range| range.start < range.end).collect();
    ranges.splice(from..to, rest);
}

/// The block or mapping that an address lies in.
pub fn find(address: usize) -> Option<Range<usize>> {
    if address / REGION >= REGIONS {
        return None;
    }
    find_short(address).or_else(|| {
        let ranges = RANGES.lock();
        let at = ranges.partition_point(|range| range.end <= address);
        ranges.get(at).filter(|range| range.start <= address).cloned()
    })
}

/// The same for a block that is not long.
fn find_short(address: usize) -> Option<Range<usize>> {
    let lowest = address.saturating_sub(LONG);
    let mut at = address;
    loop {
        let (word, bit) = place(at);
        let before = match bits(at) {
            Some(bits) => bits[word].load(Relaxed) & (u64::MAX >> (63 - bit)),
            None => 0,
        };
        // The first granule of the word.
        let first = at / (64 * GRANULE) * (64 * GRANULE);
        if before != 0 {
            let start = first + GRANULE * (63 - before.leading_zeros() as usize);
            let size = size_of_block(start);
            return (address - start < size).then_some(start..start + size);
        }
        if first <= lowest {
            return None;
        }
        at = first - 1;
    }
}

/// Whether no block begins at an address: what was found there is a mapping.
pub fn is_mapping(address: usize) -> bool {
    let (word, bit) = place(address);
    bits(address).is_none_or(|bits| bits[word].load(Relaxed) & 1 << bit == 0)
}
