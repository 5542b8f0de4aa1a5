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
/// Words of memory whose contents are remembered.
const WORDS: usize = 1 << 15;
/// Threads.
const WALKS: usize = 1 << 8;

fn slot(key: u64, bits: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
}

/// What a thread does at a site.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    /// Address or target of the last time.
    pub(super) last: u64,
    /// How far it was from the one before.
    pub(super) stride: u64,
    /// How far it was from what the thread touched before.
    pub(super) offset: u64,
    /// Value of the last time, and how much more than the one before it was.
    value: u64,
    growth: u64,
}

/// Where a thread is.
#[derive(Clone, Copy, Default)]
pub(super) struct Walk {
    /// The last two sites.
    site: u16,
    before: u16,
    /// What it touched last.
    pub(super) address: u64,
    /// What it read last.
    read: u64,
}

/// Which site follows two sites.
pub(super) struct Next([u16; NEXT]);

/// What is known about a site and a thread.
pub(super) struct Places([Place; PLACES]);

/// Contents of memory: eight bytes each, by the number of the word (address / 8).
pub(super) struct Words([u64; WORDS]);

/// All tables.
pub(super) struct Guess {
    pub(super) next: Next,
    pub(super) places: Places,
    pub(super) words: Words,
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
        self.places.0.fill(Place::default());
        self.words.0.fill(0);
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
    pub(super) fn place(&mut self, thread: u32, site: u16) -> &mut Place {
        self.places.at(thread, site)
    }

    /// What was last seen in up to eight bytes of memory.
    #[inline(always)]
    pub(super) fn contents(&self, address: u64, size: u64) -> u64 {
        let shift = 8 * (address % 8) as u32;
        let low = self.words.0[word(address / 8)];
        let high = self.words.0[word(address / 8 + 1)];
        (low >> shift | above(high, shift)) & mask(size)
    }

    /// This is in these bytes now.
    #[inline(always)]
    pub(super) fn remember(&mut self, address: u64, size: u64, value: u64) {
        self.words.exchange(address, size, value);
    }
}

impl Next {
    /// The site at which a thread is expected that has come so far.
    #[inline(always)]
    pub(super) fn after(&mut self, walk: &Walk) -> &mut u16 {
        &mut self.0[slot((walk.site as u64) << 16 | walk.before as u64, NEXT.trailing_zeros())]
    }
}

impl Places {
    #[inline(always)]
    pub(super) fn at(&mut self, thread: u32, site: u16) -> &mut Place {
        self.in_slot(Places::slot(thread, site))
    }

    /// Where in the table the place is.
    #[inline(always)]
    pub(super) fn slot(thread: u32, site: u16) -> u16 {
        slot((thread as u64) << 16 | site as u64, PLACES.trailing_zeros()) as u16
    }

    #[inline(always)]
    pub(super) fn in_slot(&mut self, slot: u16) -> &mut Place {
        &mut self.0[slot as usize % PLACES]
    }
}

impl Words {
    /// This is in these bytes now; what was last seen in them.
    #[inline(always)]
    pub(super) fn exchange(&mut self, address: u64, size: u64, value: u64) -> u64 {
        let (shift, mask) = (8 * (address % 8) as u32, mask(size));
        let value = value & mask;
        let low = &mut self.0[word(address / 8)];
        let mut contents = *low >> shift;
        *low = *low & !(mask << shift) | value << shift;
        if address % 8 + bytes(size) > 8 {
            let high = &mut self.0[word(address / 8 + 1)];
            contents |= above(*high, shift);
            *high = *high & !(mask >> (64 - shift)) | value >> (64 - shift);
        }
        contents & mask
    }
}

impl Words {
    /// The same for a size from one to eight, with its [`mask`].
    #[inline(always)]
    pub(super) fn exchange_few(&mut self, address: u64, size: u8, mask: u64, value: u64) -> u64 {
        let low = (address % 8) as u32;
        if low + size as u32 > 8 {
            return self.exchange(address, size as u64, value);
        }
        let shift = 8 * low;
        let word = &mut self.0[word(address / 8)];
        let contents = *word >> shift & mask;
        *word ^= (contents ^ value & mask) << shift;
        contents
    }
}

/// The bits that lie above a word that is shifted down.
#[inline(always)]
fn above(next: u64, shift: u32) -> u64 {
    // Nothing if it is not shifted.
    next << 1 << (63 - shift)
}

/// The bytes of an access; what has no size is taken for eight.
#[inline(always)]
fn bytes(size: u64) -> u64 {
    if size == 0 { 8 } else { size.min(8) }
}

/// The bits of an access.
#[inline(always)]
pub(super) fn mask(size: u64) -> u64 {
    MASKS[size.min(9) as usize]
}

/// Bits by size; what has no size or a great one is taken for eight bytes.
const MASKS: [u64; 16] = {
    let mut masks = [u64::MAX; 16];
    let mut size = 1;
    while size < 8 {
        masks[size] = (1 << (8 * size)) - 1;
        size += 1;
    }
    masks
};

/// Words that are near each other stay so; what is far away is mixed in.
#[inline(always)]
fn word(number: u64) -> usize {
    (number ^ number >> 15 ^ number >> 29) as usize % WORDS
}

impl Place {
    /// The address was this one.
    #[inline(always)]
    pub(super) fn was(&mut self, address: u64, walk: u64) {
        self.stride = address.wrapping_sub(self.last);
        self.offset = address.wrapping_sub(walk);
        self.last = address;
    }

    /// The value to expect: of a write what the thread read last, else as it grew before.
    #[inline(always)]
    pub(super) fn expected_value(&self, writes: bool, walk: &Walk) -> u64 {
        select_unpredictable(writes & (self.growth != 1), walk.read, self.value.wrapping_add(self.growth))
    }

    #[inline(always)]
    pub(super) fn value_was(&mut self, value: u64) {
        self.growth = value.wrapping_sub(self.value);
        self.value = value;
    }
}

impl Walk {
    #[inline(always)]
    pub(super) fn arrive(&mut self, site: u16) {
        self.before = self.site;
        self.site = site;
    }

    #[inline(always)]
    pub(super) fn has_read_if(&mut self, reads: bool, value: u64) {
        self.read = select_unpredictable(reads, value, self.read);
    }

    #[inline(always)]
    pub(super) fn has_read(&mut self, value: u64) {
        self.read = value;
    }
}
