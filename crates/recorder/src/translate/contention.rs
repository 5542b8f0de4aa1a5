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
