//! Critical sections: from where a thread first holds a lock to where it gives it up.
//!
//! A wait splits a section in two. A thread may hold a lock for writing and for reading at the same time; these are
//! two sections then. Sections of different threads on one lock, not both for reading, never overlap in a feasible
//! schedule, and that is all there is to say about locks.

use crate::maximal::threads::Threads;
use snag_model::{EventId, LockId, Op, Trace};
use std::collections::HashMap;

/// Number of a section, in the order in which they begin in the trace; those on the other sides of branches come last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct SectionId(pub u32);

/// One section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub lock: LockId,
    pub thread: usize,
    /// For reading only.
    pub shared: bool,
    pub start: EventId,
    /// `None` if the trace ends first.
    pub end: Option<EventId>,
}

/// A lock held in one of two ways.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Hold {
    pub lock: LockId,
    pub shared: bool,
}

impl Hold {
    /// Whether two threads cannot hold like this at once.
    pub fn excludes(self, other: Hold) -> bool {
        self.lock == other.lock && !(self.shared && other.shared)
    }
}

/// Number of a set of holds; 0 is the empty set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct HeldId(pub u32);

/// The sections of one thread on one lock, in order.
pub(crate) struct List {
    thread: usize,
    /// Lists count from 0.
    pub number: usize,
    sections: Vec<SectionId>,
    pub starts: Vec<EventId>,
}

impl List {
    /// The last of the first so many.
    pub fn last(&self, count: usize) -> Option<SectionId> {
        count.checked_sub(1).map(|last| self.sections[last])
    }
}

/// All sections of a trace.
pub(crate) struct Sections {
    sections: Vec<Section>,
    /// Per event 1 + the section that it begins or ends, or 0.
    of_event: Vec<u32>,
    /// Per lock the threads that have sections on it, ascending, with theirs; exclusive ones and shared ones.
    by_lock: [Vec<Vec<List>>; 2],
    lists: usize,
    /// Per lock all its sections, in order.
    on_lock: Vec<Vec<SectionId>>,
    /// Where sections may end on the other sides of branches.
    side_ends: HashMap<SectionId, Vec<EventId>>,
    /// How many of the sections begin on the other sides of branches; they are the last ones.
    of_sides: usize,
    /// Per lock whether an attempt to take it failed; empty if none did.
    probed: Vec<bool>,
    /// Distinct sets of holds.
    sets: Vec<Vec<Hold>>,
    /// Per thread from which position on it holds which set; ascending.
    held: Vec<Vec<(u32, HeldId)>>,
}

/// What a thread holds of one lock while the trace is followed.
#[derive(Default)]
struct Holding {
    count: u32,
    section: Option<SectionId>,
    /// 1 + where the list of its sections is, among those on the lock; 0 before the first.
    list: usize,
}

impl Sections {
    pub fn of(trace: &Trace, threads: &Threads) -> Sections {
        let locks = trace.tables.lock_count();
        let mut all = Sections {
            sections: Vec::new(),
            of_event: vec![0; trace.len()],
            by_lock: [0, 1].map(|_| (0..locks).map(|_| Vec::new()).collect()),
            lists: 0,
            on_lock: vec![Vec::new(); locks],
            side_ends: HashMap::new(),
            of_sides: 0,
            probed: Vec::new(),
            sets: vec![Vec::new()],
            held: vec![vec![(0, HeldId(0))]; threads.count()],
        };
        let mut holdings: HashMap<(usize, Hold), Holding> = HashMap::new();
        let mut given_up: Vec<u32> = vec![0; threads.count()];
        let mut numbers: HashMap<Vec<Hold>, HeldId> = HashMap::from([(Vec::new(), HeldId(0))]);
        for (index, &op) in trace.events.ops().iter().enumerate() {
            if !matches!(
                op,
                Op::Acquire | Op::Release | Op::ReadAcquire | Op::ReadRelease | Op::WaitBegin | Op::WaitEnd
            ) {
                continue;
            }
            let id = EventId::new(index);
            let thread = threads.thread(id);
            let waits = matches!(op, Op::WaitBegin | Op::WaitEnd);
            let lock = LockId(if waits { trace.events.aux(index) } else { trace.events.targets()[index] });
            let hold = Hold { lock, shared: matches!(op, Op::ReadAcquire | Op::ReadRelease) };
            let holding = holdings.entry((thread, hold)).or_default();
            let before = holding.count;
            match op {
                Op::Acquire | Op::ReadAcquire => holding.count += 1,
                Op::Release | Op::ReadRelease => holding.count -= 1,
                Op::WaitBegin => given_up[thread] = std::mem::take(&mut holding.count),
                _ => holding.count += given_up[thread],
            }
            if before == 0 && holding.count > 0 {
                let number = SectionId(all.sections.len() as u32);
                holding.section = Some(number);
                all.sections.push(Section { lock, thread, shared: hold.shared, start: id, end: None });
                all.of_event[index] = number.0 + 1;
                all.on_lock[lock.index()].push(number);
                let lists = &mut all.by_lock[hold.shared as usize][lock.index()];
                if holding.list == 0 {
                    lists.push(List { thread, number: all.lists, sections: Vec::new(), starts: Vec::new() });
                    all.lists += 1;
                    holding.list = lists.len();
                }
                lists[holding.list - 1].sections.push(number);
                lists[holding.list - 1].starts.push(id);
            } else if before > 0 && holding.count == 0 {
                let number = holding.section.take().expect("a lock that is held has a section");
                all.sections[number.0 as usize].end = Some(id);
                all.of_event[index] = number.0 + 1;
            } else {
                continue;
            }
            // What is held from the next event on.
            let last = all.held[thread][all.held[thread].len() - 1].1;
            let mut set = all.sets[last.0 as usize].clone();
            match set.binary_search(&hold) {
                Ok(at) => drop(set.remove(at)),
                Err(at) => set.insert(at, hold),
            }
            let next = HeldId(all.sets.len() as u32);
            let number = *numbers.entry(set).or_insert_with_key(|set| {
                all.sets.push(set.clone());
                next
            });
            all.held[thread].push((threads.position(id) + 1, number));
        }
        for (_, event) in trace.events_of(&[Op::TryFail, Op::ReadTryFail]) {
            all.probed.resize(locks, false);
            all.probed[event.target as usize] = true;
        }
        all.by_lock.iter_mut().flatten().for_each(|lists| lists.sort_unstable_by_key(|list| list.thread));
        all
    }

    /// Adds a section that begins on the other side of a branch. Its number is greater than those of all sections of the
    /// trace, and only [`Sections::get`], [`Sections::of_event`] and [`Sections::ends`] know of it.
    pub fn begin_on_side(&mut self, section: Section) -> SectionId {
        self.of_sides += 1;
        self.sections.push(section);
        let number = self.sections.len() as u32;
        self.of_event[section.start.index()] = number;
        SectionId(number - 1)
    }

    /// Adds an event on the other side of a branch with which a section may end.
    pub fn end_on_side(&mut self, section: SectionId, end: EventId) {
        self.of_event[end.index()] = section.0 + 1;
        self.side_ends.entry(section).or_default().push(end);
    }

    /// The events with which a section may end: one in the trace, the others on the other sides of branches.
    pub fn ends(&self, section: SectionId) -> impl Iterator<Item = EventId> {
        let on_sides = match self.side_ends.is_empty() {
            true => None,
            false => self.side_ends.get(&section),
        };
        self.get(section).end.into_iter().chain(on_sides.into_iter().flatten().copied())
    }

    pub fn get(&self, section: SectionId) -> &Section {
        &self.sections[section.0 as usize]
    }

    /// The section that an event begins or ends.
    #[inline]
    pub fn of_event(&self, event: EventId) -> Option<SectionId> {
        self.of_event[event.index()].checked_sub(1).map(SectionId)
    }

    /// Whether no other thread has sections that this one would exclude.
    pub fn has_no_rival(&self, section: SectionId) -> bool {
        let &Section { lock, thread, shared, .. } = self.get(section);
        self.against(Hold { lock, shared }).all(|(other, _)| other == thread)
    }

    /// The number of the set that a thread holds after its first so many events.
    pub fn held_id(&self, thread: usize, count: u32) -> HeldId {
        let changes = &self.held[thread];
        changes[changes.partition_point(|change| change.0 <= count) - 1].1
    }

    /// What a thread holds after its first so many events.
    pub fn held(&self, thread: usize, count: u32) -> &[Hold] {
        self.set(self.held_id(thread, count))
    }

    /// What a set consists of.
    pub fn set(&self, id: HeldId) -> &[Hold] {
        &self.sets[id.0 as usize]
    }

    /// Whether two threads cannot hold these sets at once.
    pub fn exclude(&self, a: HeldId, b: HeldId) -> bool {
        self.set(a).iter().any(|&one| self.set(b).iter().any(|&other| one.excludes(other)))
    }

    /// Per thread its sections on a lock that cannot overlap with a section held like this.
    pub fn against(&self, hold: Hold) -> impl Iterator<Item = (usize, &List)> {
        let shared = (!hold.shared).then(|| &self.by_lock[1][hold.lock.index()]).into_iter().flatten();
        let lists = self.by_lock[0][hold.lock.index()].iter().chain(shared);
        lists.map(|list| (list.thread, list))
    }

    /// Of a thread's sections in a list, the last one that begins within its first `count` events.
    pub fn last_begun(&self, threads: &Threads, list: &List, count: u32) -> Option<SectionId> {
        let end = threads.end(list.thread, count);
        list.last(list.starts.partition_point(|&start| start < end))
    }

    /// Of a thread's sections in a list, how many begin within its first `count` events.
    pub fn begun(&self, threads: &Threads, list: &List, count: u32) -> usize {
        let end = threads.end(list.thread, count);
        list.starts.partition_point(|&start| start < end)
    }

    /// The sections on a lock that begin on the other sides of branches.
    pub fn on_sides(&self, lock: LockId) -> impl Iterator<Item = (SectionId, &Section)> {
        let first = self.sections.len() - self.of_sides;
        let on_sides = self.sections.iter().enumerate().skip(first);
        on_sides.filter(move |(_, section)| section.lock == lock).map(|(at, section)| (SectionId(at as u32), section))
    }

    /// Whether a failed attempt may rest on one of the sections on a lock.
    pub fn is_probed(&self, lock: LockId) -> bool {
        self.probed.get(lock.index()).copied().unwrap_or(false)
    }

    /// How many threads use a lock; those that use it in both ways count twice.
    pub fn users(&self, lock: LockId) -> usize {
        self.by_lock.iter().map(|lists| lists[lock.index()].len()).sum()
    }

    /// The sections on a lock that begin before another one.
    pub fn before(&self, lock: LockId, section: SectionId) -> &[SectionId] {
        let all = &self.on_lock[lock.index()];
        &all[..all.partition_point(|&other| other < section)]
    }

    /// How many lists there are.
    pub fn list_count(&self) -> usize {
        self.lists
    }

    /// The section in which a thread holds a lock like this after its first `count` events.
    pub fn open(&self, threads: &Threads, thread: usize, hold: Hold, count: u32) -> SectionId {
        let lists = &self.by_lock[hold.shared as usize][hold.lock.index()];
        let at = lists.binary_search_by_key(&thread, |list| list.thread).expect("what is held has a section");
        self.last_begun(threads, &lists[at], count).expect("what is held has begun")
    }
}
