//! The guesses: small tables that encoder and decoder keep alike.
//!
//! Entries are found by a hash and never compared, so that two users of an entry may spoil each other's guesses. That
//! costs bytes, never correctness.

use super::zeroed;
use std::hint::select_unpredictable;

/// Which site follows two sites.
const NEXT: usize = 1 << 14;
/// What is known about a site and a thread.
const PLACES: usize = 1 << 12;
/// So many words are between the tables of these, so that fields of one of them do not contend for the same place in a cache.
const APART: usize = 8;
/// Threads.
const WALKS: usize = 1 << 8;

fn slot(key: u64, bits: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
}

/// Where a thread was at a site.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Address or target of the last time.
    pub(super) last: u64,
    /// How far it was from the one before.
    pub(super) stride: u64,
    /// How far it was from what the thread touched before.
    pub(super) offset: u64,
}

/// What a thread found or left at a site.
#[derive(Clone, Copy, Default)]
pub(super) struct Growth {
    /// The last value that had to be told, and how much more than the one before it was.
    value: u64,
    growth: u64,
}

/// Where a thread is.
#[derive(Clone, Copy, Default)]
pub(super) struct Walk {
    /// The last site, and where the next one is found: see [`Next`].
    site: u16,
    next: u32,
    /// What it touched last.
    pub(super) address: u64,
    /// What it read last.
    pub(super) read: u64,
}

/// Which site follows two sites.
pub(super) struct Next([u16; NEXT]);

/// What is known about a site and a thread: [`Place`], field by field.
pub(super) struct Places {
    last: [u64; PLACES + APART],
    stride: [u64; PLACES + APART],
    offset: [u64; PLACES + APART],
}

/// The same for values.
pub(super) struct Growths([Growth; PLACES]);

/// All tables.
pub(super) struct Guess {
    pub(super) next: Next,
    pub(super) places: Places,
    pub(super) growths: Growths,
    walks: [Walk; WALKS],
}

impl Guess {
    pub(super) fn new() -> Box<Guess> {
        // SAFETY: numbers.
        unsafe { zeroed() }
    }

    /// At the start of a block.
    pub(super) fn reset(&mut self) {
        self.next.0.fill(0);
        let Places { last, stride, offset } = &mut self.places;
        [last, stride, offset].into_iter().for_each(|field| field.fill(0));
        self.growths.0.fill(Growth::default());
        self.walks.fill(Walk::default());
    }

    #[inline(always)]
    pub(super) fn walk(&mut self, thread: u32) -> &mut Walk {
        &mut self.walks[thread as usize % WALKS]
    }

    /// The site at which the thread is expected, to be replaced by the one where it is.
    #[inline(always)]
    pub(super) fn next(&mut self, thread: u32) -> &mut u16 {
        let walk = self.walks[thread as usize % WALKS];
        self.next.after(&walk)
    }

    /// The thread is at this site.
    #[inline(always)]
    pub(super) fn arrive(&mut self, thread: u32, site: u16) {
        self.walk(thread).arrive(site);
    }

    #[inline(always)]
    pub(super) fn growth(&mut self, thread: u32, site: u16) -> &mut Growth {
        self.growths.at(thread, site)
    }
}

impl Next {
    /// The site at which a thread is expected that has come so far.
    #[inline(always)]
    pub(super) fn after(&mut self, walk: &Walk) -> &mut u16 {
        &mut self.0[walk.next as usize % NEXT]
    }
}

impl Places {
    #[inline(always)]
    pub(super) fn at(&self, thread: u32, site: u16) -> Place {
        let slot = place(thread, site);
        Place { last: self.last[slot], stride: self.stride[slot], offset: self.offset[slot] }
    }

    /// The address was this one, and what the thread touched before that one.
    #[inline(always)]
    pub(super) fn was(&mut self, thread: u32, site: u16, address: u64, before: u64) {
        let slot = place(thread, site);
        self.stride[slot] = address.wrapping_sub(self.last[slot]);
        self.offset[slot] = address.wrapping_sub(before);
        self.last[slot] = address;
    }

    /// The target was this one.
    pub(super) fn target_was(&mut self, thread: u32, site: u16, target: u64) {
        self.last[place(thread, site)] = target;
    }
}

impl Growths {
    #[inline(always)]
    pub(super) fn at(&mut self, thread: u32, site: u16) -> &mut Growth {
        &mut self.0[place(thread, site)]
    }
}

/// Where in the tables a thread at a site is: sites that are near each other stay so.
#[inline(always)]
fn place(thread: u32, site: u16) -> usize {
    (slot(thread as u64, PLACES.trailing_zeros()) ^ site as usize) % PLACES
}

impl Growth {
    /// The value to expect: of a write what the thread has read last, else as it grew before.
    #[inline(always)]
    pub(super) fn expected(&self, writes: bool, read: u64) -> u64 {
        select_unpredictable(writes & (self.growth != 1), read, self.value.wrapping_add(self.growth))
    }

    #[inline(always)]
    pub(super) fn was(&mut self, value: u64) {
        self.growth = value.wrapping_sub(self.value);
        self.value = value;
    }
}

impl Walk {
    #[inline(always)]
    pub(super) fn arrive(&mut self, site: u16) {
        self.next = (site as u32) << 3 ^ self.site as u32;
        self.site = site;
    }
}
