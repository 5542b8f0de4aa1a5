//! What must be in memory if nobody writes but those who are recorded: every byte that was read or written, as it was then.
//!
//! A read that finds something else proves that code changed the memory that was not recorded. Mostly that is a function of
//! a library that works for the thread that reads: if no other thread has touched the memory, it is taken for that. Such
//! memory is marked, and when another thread comes to it, that is noticed, too.
//!
//! It also says which bytes a block of the recording has told already: their values need not be told again.
//!
//! Looked at once per access, so it is a table of regions with, for each eight bytes, what is in them, which of them are known,
//! and who has touched them, side by side. All loads and stores are of whole words: one that overlaps an earlier store only in
//! part makes a processor wait.

use super::contention::{CONTENDED, Contention, LINE, Site, Summary, TRAITS, Traits, WRITTEN};
use crate::hash::BuildWordHasher;
use snag_formats::snag_format::Noted;
use std::collections::HashMap;

/// Bytes of a region.
pub const REGION: u64 = 1 << 16;
const WORDS: usize = REGION as usize / 8;
const LINES: usize = (REGION / LINE) as usize;

/// Regions that were found last, by the lower bits of their number.
const RECENT: usize = 1 << 8;

/// Eight bytes of memory.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Cell {
    /// What is in them.
    word: u64,
    /// One bit for each byte that is known, then [`Touched`], then [`FREED`], then [`Traits`].
    state: u32,
    /// One bit for each byte of which a block of the recording tells that it is so, and the last visit: see [`Visit`]. These bytes
    /// are known; the word is live, and accesses of the visit's thread change nothing about who has touched it. Whoever makes it
    /// otherwise sets the bits to 0.
    told: u32,
}

/// A thread while a block of the recording is filled, as it is noted with bytes that it has touched then.
#[derive(Clone, Copy)]
pub struct Visit {
    /// Its number, and all bits below that.
    own: u32,
    /// The first number of the block.
    block: u32,
}

/// Where in [`Cell::told`] the number of a visit is. Below it are the bits of bytes, up to eight and seven more that are never set.
const VISIT: u32 = 15;

impl Visit {
    /// Most visits that are told apart.
    pub const MOST: u32 = u32::MAX >> VISIT;

    /// The visit with this number; `first` is that of the first one to the same block. There is no number 0.
    pub fn numbered(number: u32, first: u32) -> Visit {
        debug_assert!((1..=number).contains(&first) && number <= Visit::MOST);
        Visit { own: !(u32::MAX << VISIT) | number << VISIT, block: first << VISIT }
    }

    /// Whether in this visit all these bytes were told. They may be bits beyond the eight: then they were not.
    #[inline(always)]
    fn has_told(self, told: u32, bytes: u32) -> bool {
        (told ^ self.own) & (bytes | u32::MAX << VISIT) == 0
    }

    /// Which bytes were told in its block, by whomever.
    #[inline(always)]
    fn told(self, told: u32) -> u32 {
        if told >= self.block { told & KNOWN } else { 0 }
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.own >> VISIT
    }

    /// These bytes were told, these now.
    #[inline(always)]
    fn telling(self, told: u32, bytes: u32) -> u32 {
        self.own & u32::MAX << VISIT | self.told(told) | bytes
    }
}

/// The number of the last visit, without what was told.
const fn untold(told: u32) -> u32 {
    told & u32::MAX << VISIT
}

/// Some memory. The last cell is there only to be read, behind an access to the last bytes.
pub struct Region {
    cells: [Cell; WORDS + 1],
    /// Its number: address / [`REGION`].
    number: u64,
    /// Whether it is said which words were freed.
    knows_freed: bool,
}

/// Where a region is, as long as its shadow is there. What is asked for once per access is found without a detour.
#[derive(Clone, Copy)]
pub struct Home(*mut Region);

impl Home {
    /// Of no region.
    pub const NOWHERE: Home = Home(std::ptr::null_mut());

    /// The region.
    ///
    /// # Safety
    ///
    /// There is one, its shadow is there, and nobody else has a reference into that.
    #[inline(always)]
    pub unsafe fn region<'a>(self) -> &'a mut Region {
        // SAFETY: what the caller says.
        unsafe { &mut *self.0 }
    }

    /// Has what is known about an address, if it is in this region, fetched into the processor's cache: it is the one thing here that is
    /// as large as the memory of the program.
    #[inline(always)]
    pub fn fetch(self, address: u64) {
        let cells = self.0.cast::<u8>().wrapping_add(std::mem::offset_of!(Region, cells)).cast::<Cell>();
        prefetch(cells.wrapping_add((address % REGION / 8) as usize));
    }
}

/// The thread that runs, as far as accesses go.
#[derive(Clone, Copy)]
pub struct Runner {
    /// Its mark.
    pub own: Own,
    /// Its visit.
    pub visit: Visit,
}

/// What accesses of one kind do to the memory they touch.
/// Packed, so that a spot, its key and this fill half a line of the cache.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
pub struct Shape {
    /// The greatest difference there may be between what was there and what the access says: none for a read.
    most: u64,
    /// Bits of a word that the value has.
    bits: u64,
    /// A bit for each byte.
    bytes: u8,
    /// A bit for each byte that must be known: none for a write.
    wanted: u8,
    /// 1 for a write, or 0.
    writes: u16,
}

impl Shape {
    /// Of no access at all.
    pub const NONE: Shape = Shape { most: 0, bits: 0, bytes: 0, wanted: 0, writes: 0 };

    /// Of one to eight bytes.
    pub fn new(writes: bool, size: u64) -> Shape {
        let bits = u64::MAX >> (64 - 8 * size);
        let bytes = u8::MAX >> (8 - size);
        let (most, wanted) = if writes { (bits, 0) } else { (0, bytes) };
        Shape { most, bits, bytes, wanted, writes: writes as u16 }
    }

    /// [`WRITTEN`] if it is a write.
    #[inline(always)]
    fn trait_of_writes(&self) -> Traits {
        const _: () = assert!(WRITTEN.is_power_of_two());
        (self.writes as Traits) << WRITTEN.trailing_zeros()
    }
}

/// The bits of a state that say which bytes are known.
const KNOWN: u32 = 0xff;

/// Where in a state it is said who has touched the word.
const TOUCHED: u32 = 8;

/// In a state: the word is memory that was freed.
const FREED: u32 = 1 << 24;

/// Of a state that is shifted by [`TOUCHED`]: who has touched the word, and whether it was freed.
const OWNERS: u32 = ((FREED << 1) - 1) >> TOUCHED;

const _: () = assert!(TRAITS & (KNOWN | FREED | OWNERS << TOUCHED) == 0);

/// The thread that alone has touched a word, plus one; or [`SHARED`]; or 0; and maybe [`CHANGED`].
pub type Touched = u32;

/// Several threads have touched it.
const SHARED: Touched = 0x7fff;
/// Code that was not recorded has changed it since it was last written, before another thread touched it.
const CHANGED: Touched = 0x8000;

/// What quick accesses of a thread find in memory that it alone has touched, but for [`CHANGED`]: that stays as it is.
#[derive(Clone, Copy)]
pub struct Own(Touched);

impl Own {
    /// Of a thread.
    pub fn of(thread: usize) -> Own {
        match own(thread) {
            // It has no memory of its own, and what is marked as changed is not to be passed over.
            SHARED => Own(Touched::MAX),
            own => Own(own),
        }
    }

    /// Whether the thread's accesses change nothing about who has touched a word. With [`FREED`] in it, it is nobody's.
    #[inline(always)]
    fn is_settled(self, touched: Touched) -> bool {
        ((touched ^ self.0) & !CHANGED == 0) | (touched == SHARED)
    }
}

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
    /// By index, which stays the same; nowhere if it was forgotten.
    regions: Vec<Home>,
    /// Indices of those that were forgotten.
    vacant: Vec<u32>,
    found: HashMap<u64, u32, BuildWordHasher>,
    /// Number and index of regions.
    recent: Vec<(u64, u32)>,
    /// Who can interfere with what.
    pub contention: Contention,
}

impl Shadow {
    /// Nothing is known.
    pub fn new() -> Shadow {
        Shadow {
            regions: Vec::new(),
            vacant: Vec::new(),
            found: HashMap::default(),
            recent: vec![(u64::MAX, 0); RECENT],
            contention: Contention::new(Visit::numbered(1, 1)),
        }
    }

    #[inline(always)]
    fn region(&mut self, number: u64) -> &mut Region {
        self.region_and_contention(number).0
    }

    #[inline(always)]
    fn region_and_contention(&mut self, number: u64) -> (&mut Region, &mut Contention) {
        let (known, index) = self.recent[number as usize % RECENT];
        let index = if known == number { index } else { self.find(number) };
        // SAFETY: it is there, and the shadow is ours alone.
        (unsafe { self.regions[index as usize].region() }, &mut self.contention)
    }

    #[inline(never)]
    fn find(&mut self, number: u64) -> u32 {
        let (regions, vacant, contention) = (&mut self.regions, &mut self.vacant, &mut self.contention);
        let index = *self.found.entry(number).or_insert_with(|| {
            let index = vacant.pop().unwrap_or_else(|| {
                regions.push(Home::NOWHERE);
                regions.len() as u32 - 1
            });
            regions[index as usize] = Home(Box::into_raw(Region::new(number, contention)));
            index
        });
        self.recent[number as usize % RECENT] = (number, index);
        index
    }

    /// Bytes of all regions that something is known about.
    #[inline]
    pub fn touched(&self) -> u64 {
        self.found.len() as u64 * REGION
    }

    /// Forgets all regions of which `may` says so by their numbers: nothing is known about them, and nobody has touched them. Nobody may
    /// ask again by where they were: see [`Home`].
    pub fn forget_regions(&mut self, mut may: impl FnMut(u64) -> bool) {
        let (regions, vacant, contention) = (&mut self.regions, &mut self.vacant, &mut self.contention);
        self.found.retain(|&number, &mut index| {
            let goes = may(number);
            if goes {
                note_forgotten(regions[index as usize], contention);
                forget_home(&mut regions[index as usize]);
                vacant.push(index);
            }
            !goes
        });
        self.recent.fill((u64::MAX, 0));
    }

    /// The same for those with bytes in a stretch of memory.
    pub fn forget_regions_in(&mut self, address: u64, size: u64, mut may: impl FnMut(u64) -> bool) {
        let Some(last) = size.checked_sub(1).map(|more| address.saturating_add(more)) else { return };
        let inside = address / REGION..=last / REGION;
        if inside.end() - inside.start() >= self.found.len() as u64 {
            return self.forget_regions(|number| inside.contains(&number) && may(number));
        }
        for number in inside.filter(|&number| may(number)) {
            if let Some(index) = self.found.remove(&number) {
                note_forgotten(self.regions[index as usize], &mut self.contention);
                forget_home(&mut self.regions[index as usize]);
                self.vacant.push(index);
                self.recent[number as usize % RECENT] = (u64::MAX, 0);
            }
        }
    }

    /// Where the region with this number (address / [`REGION`]) is, if something in it was touched; and whether it has yet to be told
    /// which memory in it was freed.
    pub fn touched_region(&mut self, number: u64) -> Option<(Home, bool)> {
        let index = *self.found.get(&number)?;
        let knew = std::mem::replace(&mut self.region(number).knows_freed, true);
        Some((self.regions[index as usize], !knew))
    }

    /// A thread reads up to eight bytes and finds a value, which is known from now on.
    pub fn read(&mut self, thread: usize, address: u64, size: u64, value: u64) -> Foreign {
        let offset = (address % REGION) as usize;
        if offset as u64 + size > REGION {
            return self.read_across(thread, address, size, value);
        }
        let (region, contention) = self.region_and_contention(address / REGION);
        region.note(offset, size, false, contention);
        let Span { bits, mask, shift } = span(offset, size);
        let seen = region.contents(offset);
        let known = region.known(offset);
        let agrees = known >> shift & bits == bits && (seen ^ value) & mask == 0;
        if agrees && region.is_settled(offset, size, thread) {
            return Foreign::Nothing;
        }
        let spread = spread((known >> shift & bits) as u8);
        region.set(offset, mask, value & mask, bits << shift);
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
    pub fn write(&mut self, thread: usize, address: u64, size: u64, value: u64) {
        let offset = (address % REGION) as usize;
        if offset as u64 + size > REGION {
            return (0..size).for_each(|i| self.write(thread, address + i, 1, value >> (8 * i)));
        }
        let (region, contention) = self.region_and_contention(address / REGION);
        region.note(offset, size, true, contention);
        let Span { bits, mask, shift } = span(offset, size);
        region.set(offset, mask, value & mask, bits << shift);
        if !region.is_settled(offset, size, thread) {
            region.judge(offset, size, thread, false);
        }
    }

    /// Whether the block has told that the value is in these bytes; from now on it has.
    pub fn tell(&mut self, visit: Visit, address: u64, size: u64, value: u64) -> bool {
        let offset = (address % REGION) as usize;
        if size.wrapping_sub(1) > 7 || offset as u64 + size > REGION || !self.found.contains_key(&(address / REGION)) {
            return false;
        }
        let region = self.region(address / REGION);
        let Span { bits, mask, shift } = span(offset, size);
        let is_there = region.known(offset) >> shift & bits == bits && region.contents(offset) & mask == value;
        let [low, high, ..] = &mut region.cells[offset / 8..] else { return false };
        let before = visit.told(low.told) | visit.told(high.told) << 8;
        let bits = bits << shift;
        if !is_there {
            (low.told, high.told) = (untold(low.told), untold(high.told));
            return false;
        }
        low.told = visit.telling(low.told, bits & KNOWN);
        if bits > KNOWN {
            high.told = visit.telling(high.told, bits >> 8);
        }
        before & bits == bits
    }

    /// Nothing was told, and visits get new numbers: the last one of them.
    pub fn forget_told(&mut self) -> u32 {
        let mut used = vec![false; Visit::MOST as usize + 1];
        self.each_cell(|cell| used[(cell.told >> VISIT) as usize] = true);
        let (numbers, last) = self.contention.renumber(used);
        self.each_cell(|cell| {
            // Memory that was never written stays so.
            if cell.told != 0 {
                cell.told = numbers.get((cell.told >> VISIT) as usize).map_or(0, |number| number << VISIT);
            }
        });
        last
    }

    fn each_cell(&mut self, mut each: impl FnMut(&mut Cell)) {
        for home in self.regions.iter().filter(|home| !home.0.is_null()) {
            // SAFETY: it is there, and the shadow is ours alone.
            let region = unsafe { home.region() };
            region.cells.iter_mut().for_each(&mut each);
        }
    }

    /// The thread that runs touches a stretch of memory.
    fn note_stretch(&mut self, address: u64, size: u64, writes: bool) {
        const MOST: u64 = 1 << 30;
        if size > MOST {
            self.contention.give_up();
        }
        if !self.contention.is_active() {
            return;
        }
        let end = address.saturating_add(size);
        let mut at = address;
        while at < end {
            let number = at / REGION;
            let to = end.min((number + 1).saturating_mul(REGION));
            let (is_whole, is_there) = (to - at == REGION, self.found.contains_key(&number));
            if is_whole && !is_there && self.contention.is_uniform(at..to) {
                self.contention.touch_summary(number, at..to, writes);
            } else {
                let (region, contention) = self.region_and_contention(number);
                region.note((at % REGION) as usize, to - at, writes, contention);
            }
            at = to;
        }
    }

    /// Whether others can interfere with one of these bytes, which are in one or two words.
    pub fn is_contended(&mut self, address: u64, size: u64) -> bool {
        let is = |shadow: &mut Shadow, address: u64| match shadow.found.contains_key(&(address / REGION)) {
            true => shadow.region(address / REGION).cells[(address % REGION / 8) as usize].state & CONTENDED != 0,
            false => true,
        };
        is(self, address) || is(self, address.saturating_add(size.saturating_sub(1)))
    }

    /// A block was allocated by this event, which is a write. What was there before was forgotten.
    pub fn allocated(&mut self, address: u64, size: u64, event: u64, site: Site) {
        if !self.contention.is_active() {
            return;
        }
        self.materialise(address, size);
        let traits = self.contention.born(address, size, event, site);
        let whole = address.div_ceil(REGION)..address.saturating_add(size) / REGION;
        self.contention.forget_summaries(whole);
        let visit = self.contention.visit.number() << VISIT;
        self.each_part(address, size, |region, from, last| {
            for cell in &mut region.cells[from / 8..=last / 8] {
                cell.state = cell.state & !TRAITS | traits;
                cell.told = visit;
            }
        });
    }

    /// Regions that a block has only a part of are there from now on, if something is known about them.
    fn materialise(&mut self, address: u64, size: u64) {
        for number in [address / REGION, address.saturating_add(size) / REGION] {
            if self.contention.has_summary(number) {
                self.region(number);
            }
        }
    }

    /// A block is about to be freed, which is a write. There are so many events by now.
    pub fn freed(&mut self, address: u64, size: u64, events: u64) {
        if !self.contention.is_active() || size == 0 {
            return;
        }
        self.materialise(address, size);
        let whole = address.div_ceil(REGION)..address.saturating_add(size) / REGION;
        self.contention.free_summaries(whole.clone());
        let mut regions: Vec<u64> = Vec::new();
        self.each_part(address, size, |region, _, _| regions.push(region.number));
        let end = address.saturating_add(size);
        for number in regions {
            let (from, last) = (address.max(number * REGION), (end - 1).min(number * REGION + (REGION - 1)));
            let (region, contention) = self.region_and_contention(number);
            region.free((from % REGION) as usize, (last % REGION) as usize, contention);
        }
        self.contention.resolve(events);
        self.contention.forget_summaries(whole);
        self.contention.died(address);
    }

    /// These bytes are other memory now: nobody has touched it, and nothing is known.
    pub fn renew(&mut self, address: u64, size: u64) {
        self.forget(address, size);
        self.each_part(address, size, |region, from, last| {
            region.cells[from / 8..=last / 8].iter_mut().for_each(|cell| {
                cell.state &= KNOWN | FREED;
                cell.told = 0;
            });
        });
    }

    /// These words were freed, or are in use again.
    pub fn set_freed(&mut self, address: u64, size: u64, freed: bool) {
        let mark = if freed { FREED } else { 0 };
        self.each_part(address, size, |region, from, last| {
            region.cells[from / 8..=last / 8].iter_mut().for_each(|cell| {
                cell.state = cell.state & !FREED | mark;
                cell.told = untold(cell.told);
            });
        });
    }

    /// Something that is not known is in these bytes now.
    pub fn forget(&mut self, address: u64, size: u64) {
        self.each_part(address, size, |region, from, last| {
            let (first, end) = (u8::MAX << (from % 8), u8::MAX >> (7 - last % 8));
            let cells = &mut region.cells[from / 8..=last / 8];
            cells.iter_mut().for_each(|cell| cell.told = untold(cell.told));
            match cells {
                [only] => only.state &= !((first & end) as u32),
                [start, between @ .., end_cell] => {
                    start.state &= !(first as u32);
                    between.iter_mut().for_each(|cell| cell.state &= !KNOWN);
                    end_cell.state &= !(end as u32);
                }
                [] => {}
            }
        });
    }

    /// A thread does something to a stretch of memory of which the contents are not recorded.
    pub fn touch(&mut self, thread: usize, address: u64, size: u64, writes: bool) {
        self.note_stretch(address, size, writes);
        let own = own(thread);
        self.each_part(address, size, |region, from, last| {
            for Cell { state, told, .. } in &mut region.cells[from / 8..=last / 8] {
                let touched = touched(*state);
                if touched == 0 {
                    *state |= own << TOUCHED;
                } else if touched & !CHANGED != own {
                    *state |= SHARED << TOUCHED;
                    *told = untold(*told);
                }
            }
        });
    }

    /// The parts of a stretch in regions that were touched before, by their first and last byte.
    fn each_part(&mut self, address: u64, size: u64, mut each: impl FnMut(&mut Region, usize, usize)) {
        let mut at = address;
        let end = address.saturating_add(size);
        // A stretch may be longer than all that is known.
        if size / REGION > self.found.len() as u64 {
            let inside = at / REGION..=(end - 1) / REGION;
            let known: Vec<u64> = self.found.keys().copied().filter(|number| inside.contains(number)).collect();
            for number in known {
                let (from, to) = (at.max(number * REGION), (end - 1).min(number * REGION + (REGION - 1)));
                each(self.region(number), (from % REGION) as usize, (to % REGION) as usize);
            }
            return;
        }
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

impl Drop for Shadow {
    fn drop(&mut self) {
        self.regions.iter_mut().for_each(forget_home);
    }
}

/// A region that may come back is forgotten.
fn note_forgotten(home: Home, contention: &mut Contention) {
    if home.0.is_null() || !contention.is_active() {
        return;
    }
    // SAFETY: it is there, and the shadow is ours alone.
    let region = unsafe { home.region() };
    if region.cells.iter().any(|cell| cell.told >> VISIT != 0) {
        contention.forget(region.number);
    }
}

/// There is no region there any more.
fn forget_home(home: &mut Home) {
    let Home(region) = std::mem::replace(home, Home::NOWHERE);
    if !region.is_null() {
        // SAFETY: it was made as a box, and nobody asks for it any more.
        drop(unsafe { Box::from_raw(region) });
    }
}

/// Who has touched a word.
#[inline(always)]
fn touched(state: u32) -> Touched {
    state >> TOUCHED & (SHARED | CHANGED)
}

/// The mark of a thread.
fn own(thread: usize) -> Touched {
    // Those beyond share a mark that is nobody's.
    if thread < SHARED as usize - 1 { thread as Touched + 1 } else { SHARED }
}

impl Region {
    /// Nothing is known but what the heap has there. Made where it stays: it is too large for a stack.
    fn new(number: u64, contention: &mut Contention) -> Box<Region> {
        let mut region = Region::zeroed();
        region.number = number;
        let (start, end) = (number * REGION, (number * REGION).saturating_add(REGION));
        let word = |address: u64| (address.clamp(start, end) - start).div_ceil(8) as usize;
        let mut set = |words: std::ops::Range<usize>, Summary { visit, traits }: Summary| {
            for cell in &mut region.cells[words] {
                (cell.state, cell.told) = (traits, visit << VISIT);
            }
        };
        for (first, last, known) in contention.blocks_in(start, end) {
            set(word(first)..word(last), known);
        }
        if let Some(known) = contention.take_summary(number) {
            set(0..WORDS, known);
        }
        region
    }

    fn zeroed() -> Box<Region> {
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

    /// What [`Shadow::read`] and [`Shadow::write`] do to an access that is like nearly all others: inside one word of live memory
    /// that the thread, or several, have touched before, and if it reads, it finds what is known. `None` if it is not: then
    /// nothing was done. Else whether the block has not told yet that the value is there. `own` is the mark of the thread.
    ///
    /// Reads and writes take the same way, as which of them comes next is hard to predict: a read writes what was there.
    #[inline(always)]
    pub fn quick(
        &mut self,
        Runner { own, visit }: Runner,
        shape: &Shape,
        address: u64,
        value: u64,
        contention: &mut Contention,
    ) -> Option<Noted> {
        let index = (address % REGION / 8) as usize;
        let cell = &mut self.cells[index];
        let low = (address % 8) as u32;
        // With bits in it that are not the value's if that is too large.
        let change = (cell.word >> (8 * low) & shape.bits) ^ value;
        // Then it is inside, live and known, and nothing changes about who has touched it.
        let is_noted = shape.trait_of_writes() & !cell.state == 0;
        if visit.has_told(cell.told, (shape.bytes as u32) << low) & (change <= shape.most) & is_noted {
            cell.word ^= change << (8 * low);
            return Some(Noted::new(change != 0, cell.state & CONTENDED != 0));
        }
        self.quick_once(Runner { own, visit }, shape, address, value, contention)
    }

    /// The same for an access to bytes of which nothing is known, or not all, or that nobody has touched.
    #[cold]
    #[inline(never)]
    pub fn quick_at_first(
        &mut self,
        Runner { own, visit }: Runner,
        shape: &Shape,
        address: u64,
        value: u64,
        contention: &mut Contention,
    ) -> Option<Noted> {
        let index = (address % REGION / 8) as usize;
        let cell = &mut self.cells[index];
        let low = (address % 8) as u32;
        let (bytes, bits) = ((shape.bytes as u32) << low, shape.bits << (8 * low));
        let fits = (bytes <= KNOWN) & (value <= shape.bits) & (own.0 != Touched::MAX);
        let touched = cell.state >> TOUCHED & OWNERS;
        let settled = own.is_settled(touched) | (touched == 0);
        let change = (cell.word ^ value << (8 * low)) & bits;
        let agrees = change & spread((cell.state & (shape.wanted as u32) << low) as u8) == 0;
        if fits & settled & agrees {
            let mark = if touched == 0 { own.0 << TOUCHED } else { 0 };
            let unseen = (change != 0) | (bytes & !visit.told(cell.told) != 0);
            self.note_word(index, shape.writes != 0, contention);
            let cell = &mut self.cells[index];
            let Cell { word, state, told } = *cell;
            *cell = Cell { word: word ^ change, state: state | bytes | mark, told: told | bytes };
            return Some(Noted::new(unseen, cell.state & CONTENDED != 0));
        }
        None
    }

    /// What [`Region::quick`] does once a visit.
    #[cold]
    #[inline(never)]
    fn quick_once(
        &mut self,
        Runner { own, visit }: Runner,
        shape: &Shape,
        address: u64,
        value: u64,
        contention: &mut Contention,
    ) -> Option<Noted> {
        let (index, low) = ((address % REGION / 8) as usize, (address % 8) as u32);
        let Cell { word, state, told } = self.cells[index];
        let (bytes, wanted) = ((shape.bytes as u32) << low, (shape.wanted as u32) << low);
        let change = (word >> (8 * low) & shape.bits) ^ value;
        let settled = own.is_settled(state >> TOUCHED & OWNERS);
        let inside = bytes <= KNOWN;
        if settled & inside & (wanted & !state == 0) & (change <= shape.most) {
            let unseen = (change != 0) | (bytes & !visit.told(told) != 0);
            self.note_word(index, shape.writes != 0, contention);
            let cell = &mut self.cells[index];
            let Cell { state, told, .. } = *cell;
            *cell = Cell { word: word ^ change << (8 * low), state: state | bytes, told: told | bytes };
            return Some(Noted::new(unseen, state & CONTENDED != 0));
        }
        None
    }

    /// The thread that runs touches these bytes.
    fn note(&mut self, offset: usize, size: u64, writes: bool, contention: &mut Contention) {
        for index in offset / 8..=(offset + size as usize - 1) / 8 {
            self.note_word(index, writes, contention);
        }
    }

    /// The thread that runs touches this word. From now on that was in its visit.
    fn note_word(&mut self, index: usize, writes: bool, contention: &mut Contention) {
        let cell = &mut self.cells[index];
        let (visit, last) = (contention.visit, cell.told >> VISIT);
        // Of a block that was allocated in this visit nothing was touched yet.
        let is_noted = last == visit.number() && cell.told & KNOWN != 0 && (!writes || cell.state & WRITTEN != 0);
        cell.told = visit.telling(cell.told, 0);
        if is_noted {
            return;
        }
        if cell.state & CONTENDED != 0 || !contention.is_active() {
            cell.state |= WRITTEN;
            return;
        }
        let mut traits = cell.state & TRAITS;
        if contention.admits(last, &mut traits, writes) {
            contention.touch_line(self.number * LINES as u64 + index as u64 * 8 / LINE);
        } else {
            traits |= CONTENDED | WRITTEN;
            let start = self.number * REGION + 8 * index as u64;
            contention.came(start, start + 8);
        }
        cell.state = cell.state & !TRAITS | traits;
    }

    /// The thread that runs frees the words from one to another.
    fn free(&mut self, from: usize, last: usize, contention: &mut Contention) {
        // What is so for one word is so for the next, mostly.
        let mut known = (0, 0, true);
        for index in from / 8..=last / 8 {
            let Cell { state, told, .. } = self.cells[index];
            let (visit, traits) = (told >> VISIT, state & TRAITS);
            if traits & CONTENDED != 0 {
                continue;
            }
            if (known.0, known.1) != (visit, traits) {
                known = (visit, traits, contention.admits(visit, &mut { traits }, true));
            }
            if !known.2 {
                let start = self.number * REGION + 8 * index as u64;
                contention.came(start, start + 8);
            }
        }
    }

    /// Whether an access of the thread changes nothing about who has touched what.
    fn is_settled(&self, offset: usize, size: u64, thread: usize) -> bool {
        let words = offset / 8..=(offset + size as usize - 1) / 8;
        let settled = |touched: Touched| touched == own(thread) || touched == SHARED;
        self.cells[words].iter().all(|cell| settled(touched(cell.state)))
    }

    /// A thread touches these bytes; `changed` if it finds that they were changed.
    fn judge(&mut self, offset: usize, size: u64, thread: usize, changed: bool) -> Foreign {
        let own = own(thread);
        let mut result = if changed { Foreign::Own } else { Foreign::Nothing };
        let parts = &mut self.cells[offset / 8..=(offset + size as usize - 1) / 8];
        // Shared with others, whoever of them came first.
        let by_others = |cell: &Cell| touched(cell.state) != 0 && touched(cell.state) & !CHANGED != own;
        let shared = parts.iter().any(by_others) || own == SHARED;
        for Cell { state, .. } in parts {
            let before = touched(*state);
            let now = if shared {
                if changed || before & CHANGED != 0 {
                    result = Foreign::Shared;
                }
                SHARED
            } else {
                own | before & CHANGED | if changed { CHANGED } else { 0 }
            };
            *state = *state & (KNOWN | FREED | TRAITS) | now << TOUCHED;
        }
        result
    }

    /// The eight bytes from an offset on.
    fn contents(&self, offset: usize) -> u64 {
        let shift = 8 * (offset % 8) as u32;
        let (low, high) = (self.cells[offset / 8].word, self.cells[offset / 8 + 1].word);
        // Nothing of the next word if it is not shifted.
        low >> shift | high << 1 << (63 - shift)
    }

    /// Which bytes are known, from the first one of the word on.
    fn known(&self, offset: usize) -> u32 {
        let [low, high] = [offset / 8, offset / 8 + 1].map(|index| self.cells[index].state & KNOWN);
        low | high << 8
    }

    /// Sets some bytes from an offset on; `known` are their bits from the first byte of the word on.
    fn set(&mut self, offset: usize, mask: u64, value: u64, known: u32) {
        let (index, shift) = (offset / 8, 8 * (offset % 8) as u32);
        let [low, high, ..] = &mut self.cells[index..] else { return };
        low.change(mask << shift, value << shift);
        low.state |= known & KNOWN;
        if known > KNOWN {
            high.change(mask >> 1 >> (63 - shift), value >> 1 >> (63 - shift));
            high.state |= known >> 8;
        }
    }
}

impl Cell {
    /// Sets some bits. What was told is not so any more.
    fn change(&mut self, mask: u64, bits: u64) {
        let word = self.word & !mask | bits;
        if self.word != word {
            (self.word, self.told) = (word, untold(self.told));
        }
    }
}

#[inline(always)]
pub fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: fetching does nothing but that.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
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
const fn spread(bits: u8) -> u64 {
    // Every byte has all eight bits, then only its own one, and then one if that is set.
    let own = (bits as u64 * ONES) & 0x8040_2010_0804_0201;
    (((own + 0x7f * ONES) >> 7) & ONES) * 0xff
}

/// One in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;

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
        shadow.touch(1, 0x2000, 8, true);
        assert_eq!(shadow.read(3, 0x2000, 4, 8), Foreign::Shared);
    }

    #[test]
    fn what_was_told_says_nothing_any_more_when_another_thread_has_come() {
        let mut shadow = Shadow::new();
        let visit = Visit::numbered(1, 1);
        shadow.write(1, 0x1000, 4, 5);
        assert_eq!(shadow.read(1, 0x1000, 4, 7), OWN);
        assert!(!shadow.tell(visit, 0x1000, 4, 7) && shadow.tell(visit, 0x1000, 4, 7));
        let quick = |shadow: &mut Shadow| {
            let (home, _) = shadow.touched_region(0).unwrap();
            // SAFETY: the shadow is there, and nothing refers to it.
            let region = unsafe { home.region() };
            let runner = Runner { own: Own::of(1), visit };
            let noted = region.quick(runner, &Shape::new(false, 4), 0x1000, 7, &mut shadow.contention);
            noted.map(Noted::unseen)
        };
        assert_eq!(quick(&mut shadow), Some(false));
        shadow.touch(2, 0x1000, 4, true);
        assert_eq!(quick(&mut shadow), None, "that it was changed is now for others to know");
        assert_eq!(shadow.read(1, 0x1000, 4, 7), Foreign::Shared);
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
