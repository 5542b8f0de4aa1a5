//! Which memory other threads can interfere with, found out while the program runs.
//!
//! Memory is *private* as long as of any two accesses of different threads of which one writes, one comes before the other in
//! every schedule: by thread order, fork, join and notify. An alloc counts as a write of the whole block, and so does a free.
//! This is what prediction leaves out anyway; said in the file ([`snag_formats::snag_format::Contended`]), it need not even
//! be decoded.
//!
//! After FastTrack (Flanagan, Freund, PLDI 2009), for words of eight bytes. Deviations: threads are cut into *segments*,
//! which end where something else comes to be ordered after them; a word is marked by the visit ([`super::shadow::Visit`])
//! that touched it last, which says the segment, and memory that several threads only read is nobody's. Only the first access
//! to a word in a visit is looked at, so a new segment is a new visit. What is not private once is *contended* for as long as
//! it lives.
//!
//! Memory may be private for long before it is contended. The accesses up to there were not noted: so the file says for each
//! *epoch*, which is about as long as a block of the recording, which lines of 64 bytes were touched, and to what memory others
//! came late. What is said too much costs time later, what is said too little would be wrong.

use super::shadow::{REGION, Visit};
use crate::hash::BuildWordHasher;
use snag_formats::snag_format::{Late, Touched};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

/// A stretch of a thread's run, up to something that orders others after it.
type Segment = u32;

/// Nobody's: the memory was not touched.
const NOBODY: Segment = 0;
/// Everything before the first thread was started: it comes before all that follows.
const FIRST: Segment = 1;

/// What is known of a word beside who has touched it last: bits in the state of its cell of the shadow.
pub type Traits = u32;
/// It was written after the first thread was started.
pub const WRITTEN: Traits = 1 << 25;
/// It is not private.
pub const CONTENDED: Traits = 1 << 26;
/// Several threads have read it, in no order, and nobody has written it.
pub const READERS: Traits = 1 << 27;
/// All of them.
pub const TRAITS: Traits = WRITTEN | CONTENDED | READERS;

/// Bytes of a line.
pub const LINE: u64 = 64;

/// Lines that were touched last, by the lower bits of their numbers.
const RECENT: usize = 1 << 12;

/// So many pieces of memory that others came to late are listed. A program that has more of them is recorded without.
const MOST_LATE: usize = 1 << 21;

/// So many regions that are not there are known.
const MOST_SUMMARIES: usize = 1 << 20;

/// More threads are not told apart.
const MOST_THREADS: usize = 1 << 12;

/// So many places are remembered that allocate what is handed over.
const MOST_SITES: usize = 1 << 16;

/// A region of the shadow that is not there: of its memory nothing is known but this.
#[derive(Clone, Copy)]
pub struct Summary {
    /// The visit that touched it last.
    pub visit: u32,
    /// Of all its words.
    pub traits: Traits,
}

/// A block of the heap that lives.
#[derive(Clone, Copy)]
struct Born {
    end: u64,
    /// Its alloc, and the visit that it was part of.
    event: u64,
    visit: u32,
    traits: Traits,
    site: Site,
}

/// Where in the program a block was allocated: the place, and the call that led there.
pub type Site = (u64, u32);

/// What is known about a thread.
#[derive(Clone, Default)]
struct Thread {
    /// Its segment; 0 if it has not done anything.
    segment: Segment,
    /// How many segments it has had before.
    index: u32,
    /// Of other threads, how many segments come before what it does next, in every schedule.
    known: HashMap<u32, u32, BuildWordHasher>,
}

/// The order of threads, and of memory what the shadow has no room for.
pub struct Contention {
    /// Whether anything is still said about this recording.
    active: bool,
    /// The visit that touches memory.
    pub visit: Visit,
    /// The segment that it is part of, and those of all visits, by number.
    now: Segment,
    visits: Vec<Segment>,
    /// Thread and index of each segment.
    segments: Vec<(u32, u32)>,
    threads: Vec<Thread>,
    current: usize,
    /// The epoch.
    epoch: Touched,
    recent: Vec<u64>,
    /// Epochs that have ended and were not taken.
    ended: Vec<Touched>,
    /// Memory to which others have just come: first byte and end.
    fresh: Vec<(u64, u64)>,
    late: Vec<Late>,
    listed: usize,
    born: BTreeMap<u64, Born>,
    /// Where blocks are allocated to which others come late: of the next ones each access is listed.
    handed_over: HashSet<Site>,
    summaries: HashMap<u64, Summary, BuildWordHasher>,
}

impl Contention {
    /// At the start of a recording, when the first thread runs alone.
    pub fn new(visit: Visit) -> Contention {
        let mut visits = vec![NOBODY; visit.number() as usize];
        visits.push(FIRST);
        Contention {
            active: true,
            visit,
            now: FIRST,
            visits,
            segments: vec![(u32::MAX, u32::MAX), (0, 0)],
            threads: vec![Thread { segment: FIRST, ..Thread::default() }],
            current: 0,
            epoch: Touched::default(),
            recent: vec![u64::MAX; RECENT],
            ended: Vec::new(),
            fresh: Vec::new(),
            late: Vec::new(),
            listed: 0,
            born: BTreeMap::new(),
            handed_over: HashSet::new(),
            summaries: HashMap::default(),
        }
    }

    /// Whether anything is said about this recording.
    #[inline(always)]
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// From now on nothing is.
    #[cold]
    pub fn give_up(&mut self) {
        if self.active {
            *self = Contention { active: false, ..Contention::new(self.visit) };
        }
    }

    /// Another epoch begins with this event.
    pub fn begin_epoch(&mut self, event: u64) {
        if self.active {
            let next = Touched { first: event, lines: Vec::with_capacity(self.epoch.lines.len()) };
            self.ended.push(std::mem::replace(&mut self.epoch, next));
            self.recent.fill(u64::MAX);
        }
    }

    /// What was touched in epochs that have ended since the last time.
    pub fn take_touched(&mut self) -> Vec<Touched> {
        std::mem::take(&mut self.ended)
    }

    /// A line is touched in this epoch.
    #[inline(always)]
    pub fn touch_line(&mut self, line: u64) {
        let recent = &mut self.recent[line as usize % RECENT];
        if *recent != line {
            *recent = line;
            self.epoch.lines.push(line);
        }
    }

    fn thread(&mut self, number: usize) -> &mut Thread {
        if self.threads.len() <= number {
            self.threads.resize(number + 1, Thread::default());
        }
        &mut self.threads[number]
    }

    /// A thread runs; its visit is told next.
    pub fn runs(&mut self, thread: usize) {
        if !self.active {
            return;
        }
        self.current = thread;
        if self.thread(thread).segment == NOBODY {
            self.new_segment();
        }
        self.now = self.threads[thread].segment;
    }

    /// This is the visit of the thread that runs.
    pub fn visits(&mut self, visit: Visit) {
        self.visit = visit;
        let number = visit.number() as usize;
        if self.active && self.visits.len() <= number {
            self.visits.resize(number, NOBODY);
            self.visits.push(self.now);
        }
    }

    /// Visits have new numbers, as there are no more: `used` says by the old ones which are in use; also where memory is not
    /// there. By the old numbers the new ones, and the last of these. Visits of one segment are one.
    pub fn renumber(&mut self, mut used: Vec<bool>) -> (Vec<u32>, u32) {
        let kept = self.born.values().map(|born| born.visit).chain(self.summaries.values().map(|known| known.visit));
        for visit in kept {
            used[visit as usize] = true;
        }
        let mut segments = vec![NOBODY];
        let mut numbers: HashMap<Segment, u32> = HashMap::from([(NOBODY, 0)]);
        let new = |(segment, used): (&Segment, &bool)| match used {
            false => 0,
            true => *numbers.entry(*segment).or_insert_with(|| {
                segments.push(*segment);
                segments.len() as u32 - 1
            }),
        };
        let numbers: Vec<u32> = self.visits.iter().zip(&used).map(new).collect();
        let at = |visit: u32| numbers.get(visit as usize).copied().unwrap_or(0);
        self.born.values_mut().for_each(|born| born.visit = at(born.visit));
        self.summaries.values_mut().for_each(|known| known.visit = at(known.visit));
        self.visits = segments;
        let last = self.visits.len() as u32 - 1;
        if last > Visit::MOST / 2 {
            self.give_up();
            return (Vec::new(), 0);
        }
        (numbers, last)
    }

    fn new_segment(&mut self) {
        let thread = self.current;
        let segment = self.segments.len() as Segment;
        self.segments.push((thread as u32, self.threads[thread].index));
        self.threads[thread].segment = segment;
        self.now = segment;
    }

    /// The segment of the thread that runs ends: something is ordered after it. How many the thread has had by now. Its next visit
    /// is told next.
    fn end_segment(&mut self) -> u32 {
        self.threads[self.current].index += 1;
        self.new_segment();
        self.threads[self.current].index
    }

    /// The thread that runs has started another one.
    pub fn fork(&mut self, child: usize) {
        if child > MOST_THREADS {
            self.give_up();
        }
        if !self.active {
            return;
        }
        let ended = self.end_segment();
        let mut known = self.threads[self.current].known.clone();
        known.insert(self.current as u32, ended);
        self.thread(child).known = known;
    }

    /// The thread that runs has waited for the end of another one.
    pub fn join(&mut self, child: usize) {
        if !self.active || child == self.current {
            return;
        }
        let known = std::mem::take(&mut self.thread(child).known);
        let own = &mut self.threads[self.current].known;
        for (thread, index) in known {
            let before = own.entry(thread).or_default();
            *before = index.max(*before);
        }
        own.insert(child as u32, u32::MAX);
    }

    /// The thread that runs has notified others; what to say when one of them wakes.
    pub fn notify(&mut self) -> (u32, u32) {
        match self.active {
            true => (self.current as u32, self.end_segment()),
            false => (0, 0),
        }
    }

    /// The thread that runs was woken by that.
    pub fn wake(&mut self, (notifier, ended): (u32, u32)) {
        if self.active {
            let before = self.threads[self.current].known.entry(notifier).or_default();
            *before = ended.max(*before);
        }
    }

    /// Whether all of a segment comes before what the thread that runs does next.
    fn knows(&self, segment: Segment) -> bool {
        let (thread, index) = self.segments[segment as usize];
        let known = || self.threads[self.current].known.get(&thread).copied().unwrap_or(0);
        thread == self.current as u32 || segment == FIRST || index < known()
    }

    /// The thread that runs touches memory that was touched last in this visit, and that has these traits, which become others.
    /// False if that is not private any more.
    #[inline]
    pub fn admits(&self, visit: u32, traits: &mut Traits, writes: bool) -> bool {
        let segment = self.visits.get(visit as usize).copied().unwrap_or(NOBODY);
        if segment == self.now {
            if writes && *traits & READERS != 0 {
                return false;
            }
        } else if segment != NOBODY && !self.admits_another(segment, traits, writes) {
            return false;
        }
        if writes {
            *traits |= WRITTEN;
        }
        true
    }

    #[inline(never)]
    fn admits_another(&self, segment: Segment, traits: &mut Traits, writes: bool) -> bool {
        if segment == FIRST {
            *traits &= !(WRITTEN | READERS);
        }
        if *traits & READERS != 0 {
            return !writes;
        }
        if self.knows(segment) {
            return true;
        }
        let only_read = !writes && *traits & WRITTEN == 0;
        if only_read {
            *traits |= READERS;
        }
        only_read
    }

    /// These bytes, whole words, are not private any more.
    pub fn came(&mut self, start: u64, end: u64) {
        match self.fresh.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.fresh.push((start, end)),
        }
    }

    /// A block is allocated by this event: the traits of its words.
    pub fn born(&mut self, address: u64, size: u64, event: u64, site: Site) -> Traits {
        let traits = if self.handed_over.contains(&site) { WRITTEN | CONTENDED } else { WRITTEN };
        let (end, visit) = (address.saturating_add(size), self.visit.number());
        self.born.insert(address, Born { end, event, visit, traits, site });
        traits
    }

    /// It is freed.
    pub fn died(&mut self, address: u64) {
        self.born.remove(&address);
    }

    /// Blocks with bytes in a stretch of memory: their first byte and end, and what their words were like.
    pub fn blocks_in(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, Summary)> {
        let before = self.born.range(..=start).next_back().filter(|(_, born)| born.end > start);
        let inside = self.born.range(start.saturating_add(1)..end.max(start.saturating_add(1)));
        let known = |born: &Born| Summary { visit: born.visit, traits: born.traits };
        before.into_iter().chain(inside).map(move |(&address, born)| (address, born.end, known(born)))
    }

    /// What is known about a region that is there from now on.
    pub fn take_summary(&mut self, region: u64) -> Option<Summary> {
        if self.summaries.is_empty() { None } else { self.summaries.remove(&region) }
    }

    /// Whether something is known about a region that is not there.
    pub fn has_summary(&self, region: u64) -> bool {
        self.summaries.contains_key(&region)
    }

    /// Whether a region that is not there can be touched whole: it lies in a block, or no block has bytes in it.
    pub fn is_uniform(&self, bytes: Range<u64>) -> bool {
        let mut blocks = self.blocks_in(bytes.start, bytes.end);
        blocks.next().is_none_or(|(start, end, _)| start <= bytes.start && end >= bytes.end)
    }

    /// Such a region is touched whole.
    pub fn touch_summary(&mut self, region: u64, bytes: Range<u64>, writes: bool) {
        let of_block = self.blocks_in(bytes.start, bytes.end).next().map(|block| block.2);
        let known = self.summaries.get(&region).copied().or(of_block);
        let Summary { visit, mut traits } = known.unwrap_or(Summary { visit: 0, traits: 0 });
        if traits & CONTENDED == 0 {
            if self.admits(visit, &mut traits, writes) {
                (bytes.start / LINE..bytes.end / LINE).for_each(|line| self.touch_line(line));
            } else {
                traits |= CONTENDED | WRITTEN;
                self.came(bytes.start, bytes.end);
            }
        }
        self.summaries.insert(region, Summary { visit: self.visit.number(), traits });
        if self.summaries.len() > MOST_SUMMARIES {
            self.give_up();
        }
    }

    /// A region with memory that lives is forgotten, and may come back.
    pub fn forget(&mut self, region: u64) {
        self.came(region * REGION, (region * REGION).saturating_add(REGION));
        self.summaries.insert(region, Summary { visit: 0, traits: CONTENDED | WRITTEN });
        if self.summaries.len() > MOST_SUMMARIES {
            self.give_up();
        }
    }

    /// These regions, if they are not there, are other memory now.
    pub fn forget_summaries(&mut self, regions: Range<u64>) {
        match regions.end.saturating_sub(regions.start) > self.summaries.len() as u64 {
            true => self.summaries.retain(|number, _| !regions.contains(number)),
            false => regions.for_each(|number| _ = self.summaries.remove(&number)),
        }
    }

    /// These regions, as far as they are not there, are freed.
    pub fn free_summaries(&mut self, regions: Range<u64>) {
        if self.summaries.is_empty() {
            return;
        }
        let known: Vec<u64> = self.summaries.keys().copied().filter(|number| regions.contains(number)).collect();
        for region in known {
            let Summary { visit, mut traits } = self.summaries[&region];
            if traits & CONTENDED == 0 && !self.admits(visit, &mut traits, true) {
                self.came(region * REGION, (region * REGION).saturating_add(REGION));
            }
        }
    }

    /// Lists memory to which others have come, by the lives of which it is: there are so many events by now. To be done before any
    /// of it is freed, or other memory.
    pub fn resolve(&mut self, events: u64) {
        if self.fresh.is_empty() {
            return;
        }
        for (start, end) in std::mem::take(&mut self.fresh) {
            let mut at = start;
            while at < end {
                let block = self.born.range(..=at).next_back().filter(|(_, born)| born.end > at);
                let (to, from) = match block {
                    Some((_, born)) => {
                        // Of one that is handed over soon there is little to look for.
                        const SOON: u64 = 1 << 17;
                        if events - born.event > SOON && self.handed_over.len() < MOST_SITES {
                            self.handed_over.insert(born.site);
                        }
                        (born.end, born.event)
                    }
                    None => (self.born.range(at + 1..).next().map_or(u64::MAX, |(&next, _)| next), 0),
                };
                let to = to.min(end);
                self.late.push(Late { address: at, size: to - at, from, to: events });
                at = to;
            }
        }
        self.listed += self.late.len();
        if self.listed > MOST_LATE {
            self.give_up();
        }
    }

    /// What others came late to, since the last time.
    pub fn take_late(&mut self) -> Vec<Late> {
        std::mem::take(&mut self.late)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Translator;
    use super::*;
    use crate::symbols::Symbols;
    use crate::wire::{self, head, op};
    use snag_formats::snag_format::RecordingWriter;
    use snag_synthesis::Rng;
    use snag_testkit::contended::{Listed, judge};

    /// A program as its records tell it: threads, heap blocks, and what is in memory.
    struct Program {
        rng: Rng,
        records: Vec<Vec<u64>>,
        /// Threads that run, or may.
        threads: Vec<u64>,
        started: u64,
        current: u64,
        /// Threads that have ended, and nobody has waited for.
        ended: Vec<u64>,
        /// Blocks: first byte, size.
        blocks: Vec<(u64, u64)>,
        bytes: HashMap<u64, u8>,
        notifies: u64,
    }

    /// Memory that is no block: over the seam of two regions, and long enough for whole ones.
    const GLOBAL: u64 = 0x1_fe00;
    const LONG: u64 = 0x7f00_0000_0000;
    const HEAP: u64 = 0x6000_0000_0000;

    impl Program {
        fn new(seed: u64) -> Program {
            let records = vec![vec![head(op::SWITCH, 0, 0), 0, 0], vec![head(op::BEGIN, 0, 0), 0, 0]];
            Program {
                rng: Rng::new(seed),
                records,
                threads: vec![0],
                started: 0,
                current: 0,
                ended: Vec::new(),
                blocks: Vec::new(),
                bytes: HashMap::new(),
                notifies: 0,
            }
        }

        fn below(&mut self, below: u64) -> u64 {
            self.rng.number() % below
        }

        fn any_thread(&mut self) -> u64 {
            let at = self.below(self.threads.len() as u64) as usize;
            self.threads[at]
        }

        fn say(&mut self, code: u8, detail: u8, words: &[u64]) {
            let pc = 0x1000 + self.below(40) as usize;
            self.records.push([&[head(code, detail, pc)], words].concat());
        }

        fn switch(&mut self, to: u64) {
            if to != self.current {
                self.current = to;
                self.say(op::SWITCH, 0, &[to, 1_000_000]);
            }
        }

        fn access(&mut self, base: u64, room: u64, writes: bool) {
            let log = self.below(4) as u8;
            let size = 1 << log;
            if room < size {
                return;
            }
            let address = base + self.below((room - size) / size + 1) * size;
            for byte in address..address + size {
                let value = self.rng.number() as u8 & 3;
                let known = self.bytes.entry(byte).or_insert(value);
                if writes {
                    *known = value;
                }
            }
            let value = (0..size).fold(0, |all, byte| all | (self.bytes[&(address + byte)] as u64) << (8 * byte));
            match self.below(12) {
                0 => {
                    self.say(op::STEP, 0, &[0, 0]);
                    let code = if writes { op::ATOMIC_WRITE } else { op::ATOMIC_READ };
                    self.say(code, log | 4 << 3, &[address, value]);
                }
                _ => self.say(if writes { op::WRITE } else { op::READ }, log, &[address, value]),
            }
        }

        /// Something without contents.
        fn range(&mut self, address: u64, size: u64) {
            let writes = self.below(2) == 0;
            if writes {
                (address..address + size).for_each(|byte| _ = self.bytes.remove(&byte));
            }
            let code = if writes { op::RANGE_WRITE } else { op::RANGE_READ };
            self.say(code, wire::WITHOUT_CONTENTS, &[address, size]);
        }

        fn step(&mut self, most: u64) {
            let writes = self.below(3) == 0;
            match self.below(400) {
                0..8 => {
                    let to = self.any_thread();
                    self.switch(to);
                }
                8 if self.started < most => {
                    self.started += 1;
                    let child = self.started;
                    self.say(op::FORK, 0, &[child, 0]);
                    self.threads.push(child);
                    if self.below(2) == 0 {
                        self.switch(child);
                    }
                }
                9 if self.current != 0 => {
                    self.say(op::END, 0, &[0, 0]);
                    let ended = self.current;
                    self.threads.retain(|&thread| thread != ended);
                    self.ended.push(ended);
                    let to = self.any_thread();
                    self.switch(to);
                }
                10 | 11 => {
                    if let Some(child) = self.ended.pop() {
                        self.say(op::JOIN, 0, &[child, 0]);
                    }
                }
                12 if self.threads.len() > 1 => {
                    // Another one waits, and this one wakes it.
                    let (own, other) = (self.current, self.any_thread());
                    if other != own {
                        let (lock, condition) = (0x9000, 0x9100);
                        self.switch(other);
                        self.say(op::LOCK, 0, &[lock, wire::lock::MUTEX]);
                        self.say(op::WAIT_BEGIN, 0, &[condition, lock]);
                        self.switch(own);
                        self.access(GLOBAL, 0x100, true);
                        self.notifies += 1;
                        self.say(op::NOTIFY, 0, &[condition, self.notifies]);
                        self.access(GLOBAL, 0x100, true);
                        self.switch(other);
                        self.say(op::WAKE, 0, &[condition, self.notifies]);
                        self.say(op::WAIT_END, 0, &[condition, lock]);
                        self.say(op::UNLOCK, 0, &[lock, wire::lock::MUTEX]);
                    }
                }
                13..18 if self.blocks.len() < 12 => {
                    let (large, slot) = (self.below(6) == 0, self.below(24));
                    let (start, size) = match large {
                        true => (HEAP + (slot << 20), 1 + self.below(0x3_0000)),
                        false => (GLOBAL + 0x1000 + 0x100 * slot, 1 + self.below(200)),
                    };
                    if !self.blocks.iter().any(|block| block.0 == start) {
                        (start..start + 2 * size + 64).for_each(|byte| _ = self.bytes.remove(&byte));
                        self.blocks.push((start, size));
                        self.say(op::ALLOC, (large && slot % 2 == 0) as u8, &[start, size]);
                    }
                }
                18..21 if !self.blocks.is_empty() => {
                    let at = self.below(self.blocks.len() as u64) as usize;
                    let block = self.blocks.swap_remove(at);
                    self.say(op::FREE, 0, &[block.0, 0]);
                }
                21 => {
                    let (at, size) = (LONG + self.below(0x2_0000), 1 + self.below(0x2_8000));
                    self.range(at, size);
                }
                22..25 if !self.blocks.is_empty() => {
                    let at = self.below(self.blocks.len() as u64) as usize;
                    let (start, size) = self.blocks[at];
                    let from = self.below(size);
                    self.range(start + from, size - from);
                }
                25..160 if !self.blocks.is_empty() => {
                    // Mostly the thread's own.
                    let of = (self.current + self.below(40) / 36) % self.blocks.len() as u64;
                    let (start, size) = self.blocks[of as usize];
                    let from = if size > 0x1000 { self.below(3) * 0x8000 / 8 * 8 } else { 0 };
                    let room = size.saturating_sub(from).min(64);
                    self.access(start + from, room, writes);
                }
                160..170 => {
                    let from = self.below(0x2_0000) / 0x4000 * 0x4000;
                    self.access(LONG + from, 32, writes);
                }
                170..180 => self.access(GLOBAL, 0x100, writes),
                180..200 => self.access(GLOBAL + 0x200, 0x100, false),
                _ => self.access(GLOBAL + 0x400 + 0x80 * self.current, 0x80, writes),
            }
        }
    }

    /// What a recorder makes of records, in chunks of some size.
    fn recorded(records: &[Vec<u64>], seed: u64, first_visit: u32) -> Vec<u8> {
        let mut translator = Translator::new(Symbols::new(None));
        translator.extent.is_of(std::process::id());
        translator.visits.last = first_visit;
        let mut writer = RecordingWriter::new(Vec::new()).unwrap();
        writer.with_contended();
        let mut rng = Rng::new(seed);
        let contention = |translator: &mut Translator, writer: &mut RecordingWriter<Vec<u8>>| {
            let (late, touched) = translator.take_contention();
            writer.late(&late).unwrap();
            touched.into_iter().for_each(|touched| writer.touched(touched).unwrap());
        };
        for some in records.chunks(1 + rng.number() as usize % 400) {
            let chunk = [&some.concat()[..], &[0; 64]].concat();
            translator.chunk(&chunk, false, &mut |translator| {
                writer.push(&translator.batch, &translator.tables).unwrap();
                translator.taken();
                if rng.number().is_multiple_of(8) {
                    writer.end_block(&translator.tables).unwrap();
                }
                // It may be told late that a block has begun.
                if !rng.number().is_multiple_of(4) {
                    translator.begin_block(writer.block());
                }
                contention(translator, &mut writer);
            });
        }
        assert_eq!(translator.oddities.damaged, None);
        assert!(translator.knows_contended());
        let last = translator.end_contended().expect("it is known");
        contention(&mut translator, &mut writer);
        writer.end_contended(&last, &translator.tables).unwrap();
        writer.finish(&translator.tables).unwrap()
    }

    #[test]
    fn whatever_others_can_interfere_with_is_listed() {
        let rounds = std::env::var("SNAG_CONTENTION").ok().and_then(|count| count.parse().ok()).unwrap_or(60);
        let (mut whole, mut read) = (0, 0);
        for seed in 1..rounds {
            let mut program = Program::new(seed);
            let most = seed % 5;
            (0..3000).for_each(|_| program.step(most));
            // Soon there are more visits than can be told apart.
            let first_visit = if seed % 3 == 0 { Visit::MOST - 9 } else { 1 };
            let bytes = recorded(&program.records, seed, first_visit);
            let Listed { whole: all, read: some } =
                judge(&bytes).unwrap_or_else(|why| panic!("seed {seed}: {why}")).expect("it is listed");
            whole += all;
            read += some;
        }
        assert!(read * 4 < whole * 3 && read > whole / 50, "{read} of {whole}");
    }
}
