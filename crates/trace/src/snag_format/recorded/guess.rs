//! The guesses: small tables that encoder and decoder keep alike.
//!
//! Entries are found by a hash and never compared, so that two users of an entry may spoil each other's guesses. That
//! costs bytes, never correctness.

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

/// All tables.
pub(super) struct Guess {
    next: Vec<u16>,
    places: Vec<Place>,
    /// Eight bytes each, by the number of the word (address / 8).
    words: Vec<u64>,
    walks: Vec<Walk>,
}

impl Guess {
    pub(super) fn new() -> Guess {
        Guess {
            next: vec![0; NEXT],
            places: vec![Place::default(); PLACES],
            words: vec![0; WORDS],
            walks: vec![Walk::default(); WALKS],
        }
    }

    /// At the start of a block.
    pub(super) fn reset(&mut self) {
        self.next.fill(0);
        self.places.fill(Place::default());
        self.words.fill(0);
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
        &mut self.next[slot((walk.site as u64) << 16 | walk.before as u64, NEXT.trailing_zeros())]
    }

    /// The thread is at this site.
    #[inline(always)]
    pub(super) fn arrive(&mut self, thread: u32, site: u16) {
        let walk = self.walk(thread);
        walk.before = walk.site;
        walk.site = site;
    }

    #[inline(always)]
    pub(super) fn place(&mut self, thread: u32, site: u16) -> &mut Place {
        &mut self.places[slot((thread as u64) << 16 | site as u64, PLACES.trailing_zeros())]
    }

    /// What was last seen in up to eight bytes of memory.
    #[inline(always)]
    pub(super) fn contents(&self, address: u64, size: u64) -> u64 {
        let shift = 8 * (address % 8) as u32;
        let low = self.words[word(address / 8)];
        let high = if shift == 0 { 0 } else { self.words[word(address / 8 + 1)] << (64 - shift) };
        (low >> shift | high) & mask(size)
    }

    /// This is in these bytes now.
    #[inline(always)]
    pub(super) fn remember(&mut self, address: u64, size: u64, value: u64) {
        let (shift, mask) = (8 * (address % 8) as u32, mask(size));
        let low = &mut self.words[word(address / 8)];
        *low = *low & !(mask << shift) | (value & mask) << shift;
        if shift > 0 && address % 8 + bytes(size) > 8 {
            let high = &mut self.words[word(address / 8 + 1)];
            *high = *high & !(mask >> (64 - shift)) | (value & mask) >> (64 - shift);
        }
    }
}

/// The bytes of an access; what has no size is taken for eight.
#[inline(always)]
fn bytes(size: u64) -> u64 {
    if size == 0 { 8 } else { size.min(8) }
}

/// The bits of an access.
#[inline(always)]
fn mask(size: u64) -> u64 {
    u64::MAX >> (64 - 8 * bytes(size))
}

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
        if writes && self.growth != 1 { walk.read } else { self.value.wrapping_add(self.growth) }
    }

    #[inline(always)]
    pub(super) fn value_was(&mut self, value: u64) {
        self.growth = value.wrapping_sub(self.value);
        self.value = value;
    }
}

impl Walk {
    #[inline(always)]
    pub(super) fn has_read(&mut self, value: u64) {
        self.read = value;
    }
}
