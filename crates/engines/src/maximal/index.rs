//! Everything that queries look up about a trace; made once, then only read.

use crate::maximal::clock::Clock;
use crate::maximal::hard::Hard;
use crate::maximal::memory::{Memory, Writes};
use crate::maximal::observed;
use crate::maximal::saturation;
use crate::maximal::sections::Sections;
use crate::maximal::strands::Strands;
use crate::maximal::symbolic::Expressions;
use crate::maximal::threads::Threads;
use crate::maximal::visible::Visible;
use crate::missing::{Missing, MissingOrder};
use crate::probes::Probes;
use snag_model::Level;
use snag_model::{Action, Cells, EventId, Op, Ops, Probe, SemId, Space, ThreadId, Trace};
use std::collections::HashMap;

/// What is known about a trace at a level before anything is asked.
pub struct Index<'t> {
    pub(crate) trace: &'t Trace,
    pub(crate) cells: &'t Cells,
    /// At `control` the trace has branches: without them that level is `value`.
    pub(crate) level: Level,
    pub(crate) threads: Threads,
    pub(crate) sections: Sections,
    pub(crate) memory: Memory<'t>,
    /// What precedes an event because methods are missing.
    pub(crate) missing: Option<MissingOrder>,
    /// What precedes an event in every schedule by rules 1 to 3.
    pub(crate) hard: Clock,
    /// The same with what follows from rule 4 and from the locks: if an event is in a feasible schedule that has no
    /// superfluous last reads, so are these, before it.
    pub(crate) saturated: Clock,
    /// Hard order and, for every read, the write it saw: what keeps all reads as they were.
    pub(crate) observed: Clock,
    /// What has to be looked at when schedules are tried.
    pub(crate) visible: Visible,
    /// Expressions and other sides of branches, at level `symbolic`.
    pub(crate) expressions: Option<Expressions<'t>>,
    /// Positions of branches and calls of missing methods, per thread; these make a thread's reads count at
    /// `control`.
    branches: Vec<Vec<u32>>,
    pub(crate) semaphores: Vec<Semaphore>,
    /// The wait and the notify of each wake-up that names one.
    pub(crate) wakes: HashMap<EventId, Wake>,
    /// The free of each block, by its alloc.
    frees: HashMap<EventId, EventId>,
    /// What failed attempts rested on in the trace.
    pub(crate) probes: Option<Probes>,
    /// Of threads that an attempt to join failed for, the events that show that they have ended.
    pub(crate) ends: HashMap<ThreadId, Vec<EventId>>,
}

/// A wake-up that names a notify.
#[derive(Clone, Copy)]
pub(crate) struct Wake {
    /// The event with which the wait began.
    pub wait: EventId,
    pub notify: EventId,
}

/// The events of one semaphore, in the order of the trace.
#[derive(Clone, Default)]
pub(crate) struct Semaphore {
    pub initial: u32,
    pub posts: Vec<EventId>,
    pub waits: Vec<EventId>,
}

impl<'t> Index<'t> {
    /// Reads a well-formed trace; `cells` are its cells.
    pub fn new(trace: &'t Trace, cells: &'t Cells, level: Level) -> Index<'t> {
        Index::until(trace, cells, level, Missing::Reach, &|| false)
    }

    /// The same with the calls of missing methods in the order that `missing` demands; unless `stop` says that there is
    /// no time: then less is known, and queries take longer.
    pub fn until(
        trace: &'t Trace,
        cells: &'t Cells,
        level: Level,
        missing: Missing,
        stop: &dyn Fn() -> bool,
    ) -> Index<'t> {
        let ops = Ops::of(trace.events.ops());
        let level = match level {
            Level::Control | Level::Symbolic if !ops.any(&[Op::Branch]) => Level::Value,
            // Without expressions; every schedule of `control` is one of `symbolic`.
            Level::Symbolic => Level::Control,
            level => level,
        };
        let mut index = Index::with_hard_order(trace, cells, level, missing);
        saturation::saturate(&mut index, stop);
        index.visible = Visible::of(&index);
        index
    }

    /// The same for questions at level `symbolic`, where no read has to be kept, so nothing follows from reads.
    pub fn symbolic(trace: &'t Trace, cells: &'t Cells) -> Index<'t> {
        let mut index = Index::with_hard_order(trace, cells, Level::Symbolic, Missing::Reach);
        let Index { threads, memory, sections, .. } = &mut index;
        index.expressions = Some(Expressions::of(trace, cells, threads, memory, sections));
        index.visible = Visible::all(cells.count(), &index.threads);
        index
    }

    /// The saturated order is the hard order at first.
    fn with_hard_order(trace: &'t Trace, cells: &'t Cells, level: Level, missing: Missing) -> Index<'t> {
        let threads = Threads::of(trace, &Strands::of(trace, level));
        let memory = Memory::of(trace, cells, &threads, level);
        let sections = Sections::of(trace, &threads);
        let missing = MissingOrder::of(trace, missing);
        let hard = Hard::clock(trace, cells, &threads, missing.as_ref());
        let semaphores = semaphores(trace);
        let observed = observed::clock(trace, cells, &threads, &memory, &semaphores, missing.as_ref());
        Index {
            trace,
            cells,
            level,
            saturated: hard.clone(),
            visible: Visible::default(),
            expressions: None,
            branches: branches(trace, &threads, level),
            wakes: wakes(trace),
            frees: frees(trace, cells),
            probes: Probes::of(trace),
            ends: ends(trace),
            threads,
            sections,
            memory,
            missing,
            hard,
            observed,
            semaphores,
        }
    }

    /// The level at which queries are answered: without branches, `control` is `value`.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The trace.
    pub fn trace(&self) -> &'t Trace {
        self.trace
    }

    /// Bytes taken by the orders, the largest part.
    pub fn memory(&self) -> usize {
        self.hard.memory() + self.saturated.memory() + self.observed.memory() + 20 * self.trace.len()
    }

    /// Whether two events of different threads are neither in the hard order nor inside sections that exclude each
    /// other.
    pub fn is_open(&self, a: EventId, b: EventId) -> bool {
        let Index { threads, hard, sections, .. } = self;
        let held = |event| sections.held_id(threads.thread(event), threads.position(event));
        !hard.reaches(threads, a, b) && !hard.reaches(threads, b, a) && !sections.exclude(held(a), held(b))
    }

    /// Whether the other side of a branch takes or gives up locks before this event of it.
    pub(crate) fn changes_locks_on_side(&self, event: EventId) -> bool {
        let before = |event: &EventId| self.threads.previous(*event).filter(|_| self.op(*event).on_other_side());
        let lock = |event: EventId| matches!(self.op(event), Op::OtherAcquire | Op::OtherRelease);
        std::iter::successors(Some(event), before).any(lock)
    }

    /// The events that show that a thread has ended, if it matters to others whether it has.
    pub(crate) fn ends_of(&self, thread: ThreadId) -> &[EventId] {
        self.ends.get(&thread).map_or(&[], Vec::as_slice)
    }

    #[inline]
    /// Which of two events comes first, if that is the same in all schedules that have both and begin like the trace up
    /// to `base`; and whether only because of that.
    pub(crate) fn settled(&self, first: EventId, second: EventId, base: EventId) -> Option<(bool, bool)> {
        let Index { threads, saturated, .. } = self;
        if threads.thread(first) == threads.thread(second) {
            Some((first < second, false))
        } else if saturated.reaches(threads, first, second) {
            Some((true, false))
        } else if saturated.reaches(threads, second, first) {
            Some((false, false))
        } else if first < base || second < base {
            Some((first < second, true))
        } else {
            None
        }
    }

    /// Of a thread's writes of a cell how many come before a read in any case, if the trace begins as it was up to
    /// `base`.
    pub(crate) fn writes_before(&self, read: EventId, list: &Writes, base: EventId) -> usize {
        let Index { threads, saturated, .. } = self;
        let count = match list.thread == threads.thread(read) {
            true => threads.position(read),
            false => saturated.row(read).get(list.thread),
        };
        list.events.partition_point(|&w| threads.position(w) < count || w < base)
    }

    /// The last of these, of each thread.
    pub(crate) fn latest_writes(&self, read: EventId, cell: usize, base: EventId) -> Vec<EventId> {
        let last = |list: Writes| self.writes_before(read, &list, base).checked_sub(1).map(|last| list.events[last]);
        self.memory.writes(cell).filter_map(last).collect()
    }

    pub(crate) fn op(&self, event: EventId) -> Op {
        self.trace.events.ops()[event.index()]
    }

    /// The first event after a read in its thread that makes the read count; at `writer` and `value` that is the
    /// read itself.
    pub(crate) fn kept_at(&self, read: EventId) -> Option<EventId> {
        if self.level != Level::Control {
            return Some(read);
        }
        let (thread, position) = (self.threads.thread(read), self.threads.position(read));
        let branches = &self.branches[thread];
        let next = branches.get(branches.partition_point(|&b| b <= position))?;
        Some(self.threads.event(thread, *next))
    }

    /// Of the first `count` events of a thread, so many that the reads among them count because of a branch.
    pub(crate) fn counting(&self, thread: usize, count: u32) -> u32 {
        if self.level != Level::Control {
            return count;
        }
        let branches = &self.branches[thread];
        branches[..branches.partition_point(|&b| b < count)].last().copied().unwrap_or(0)
    }

    /// The free of the block that an access touches.
    pub(crate) fn free_of(&self, access: EventId) -> Option<EventId> {
        if self.frees.is_empty() || !self.op(access).if_it_happens().is_access() {
            return None;
        }
        self.frees.get(&self.cells.block_of_event(access.index())?).copied()
    }
}

fn branches(trace: &Trace, threads: &Threads, level: Level) -> Vec<Vec<u32>> {
    let mut branches = vec![Vec::new(); threads.count()];
    if level == Level::Control {
        for (index, &op) in trace.events.ops().iter().enumerate() {
            if matches!(op, Op::Branch | Op::MethodBegin) {
                let event = EventId::new(index);
                branches[threads.thread(event)].push(threads.position(event));
            }
        }
    }
    branches
}

fn semaphores(trace: &Trace) -> Vec<Semaphore> {
    let mut semaphores = Vec::new();
    for id in 0..trace.tables.names(Space::Semaphore).len() {
        let initial = trace.tables.semaphore_initial(SemId::new(id));
        semaphores.push(Semaphore { initial, ..Semaphore::default() });
    }
    if !semaphores.is_empty() {
        for (index, &op) in trace.events.ops().iter().enumerate() {
            match op {
                Op::SemPost => semaphores[trace.events.targets()[index] as usize].posts.push(EventId::new(index)),
                Op::SemWait => semaphores[trace.events.targets()[index] as usize].waits.push(EventId::new(index)),
                _ => {}
            }
        }
    }
    semaphores
}

fn wakes(trace: &Trace) -> HashMap<EventId, Wake> {
    let mut wakes = HashMap::new();
    let mut began: HashMap<usize, EventId> = HashMap::new();
    for (index, &op) in trace.events.ops().iter().enumerate() {
        let thread = trace.events.threads()[index].index();
        match op {
            Op::WaitBegin => {
                began.insert(thread, EventId::new(index));
            }
            Op::Wake => {
                if let Some(notify) = trace.events.aux(index).checked_sub(1) {
                    wakes.insert(EventId::new(index), Wake { wait: began[&thread], notify: EventId(notify) });
                }
            }
            _ => {}
        }
    }
    wakes
}

fn frees(trace: &Trace, cells: &Cells) -> HashMap<EventId, EventId> {
    let frees = trace.events.ops().iter().enumerate().filter(|(_, op)| **op == Op::Free);
    frees.filter_map(|(index, _)| Some((cells.block_of_event(index)?, EventId::new(index)))).collect()
}

/// See [`Index::ends`].
fn ends(trace: &Trace) -> HashMap<ThreadId, Vec<EventId>> {
    let mut ends: HashMap<ThreadId, Vec<EventId>> = HashMap::new();
    if !Ops::of(trace.events.ops()).any(&[Op::JoinFail]) {
        return ends;
    }
    for (_, event) in trace.events_of(&[Op::JoinFail]) {
        if let Action::Probe(Probe::Alive { thread }) = event.action() {
            ends.entry(thread).or_default();
        }
    }
    for (id, event) in trace.events_of(&[Op::End, Op::Join]) {
        let ended = match event.action() {
            Action::Join { thread, .. } => thread,
            _ => event.thread,
        };
        ends.entry(ended).and_modify(|ends| ends.push(id));
    }
    ends
}
