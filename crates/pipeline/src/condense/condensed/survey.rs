//! The first pass: which memory is private.
//!
//! FastTrack (Flanagan, Freund, PLDI 2009) with the order of threads, fork, join and notify in place of happens-before, for
//! each place in memory; then what places that overlap have in common, byte by byte. Deviation: of reads that are not
//! ordered with each other only the last one is remembered, and a write after them counts as not ordered; and places
//! that overlap without being the same are private only if the same thread alone uses them, or nobody writes.

use super::reached::Reached;
use snag_model::cells::Cells;
use snag_model::events::Events;
use snag_model::ids::*;
use snag_model::op::{Op, Ops};
use snag_model::places::{Extent, Places};
use snag_model::tables::{Space, Tables};
use snag_model::{Action, SparseVector};
use std::collections::{HashMap, HashSet};

/// Nobody, a thread, or several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct User(u32);

impl User {
    pub const NOBODY: User = User(u32::MAX);
    pub const SEVERAL: User = User(u32::MAX - 1);

    #[inline]
    pub fn of(thread: ThreadId) -> User {
        User(thread.0)
    }

    /// Whether one has to do with the other, and they are not the same single thread.
    fn meets(self, other: User) -> bool {
        other != User::NOBODY && (other != self || self == User::SEVERAL)
    }

    pub fn and(self, other: User) -> User {
        match (self, other) {
            (User::NOBODY, user) | (user, User::NOBODY) => user,
            (one, other) if one == other => one,
            _ => User::SEVERAL,
        }
    }
}

/// What is known about the accesses to a place. A time is 1 + the number of an event.
#[derive(Clone, Copy)]
struct Uses {
    user: User,
    /// The last write and the last read since then, or 0; and whose they are, once there are several users.
    change: u32,
    read: u32,
    changer: ThreadId,
    reader: ThreadId,
    /// Who has allocated it.
    allocator: User,
    /// There is a write.
    changed: bool,
    /// There were reads beside the last one that need not come before it.
    several_reads: bool,
    /// It is not private.
    shared: bool,
}

impl Uses {
    fn new(user: ThreadId, allocator: User) -> Uses {
        Uses {
            user: User::of(user),
            change: 0,
            read: 0,
            changer: user,
            reader: user,
            allocator,
            changed: false,
            several_reads: false,
            shared: false,
        }
    }

    /// The only user so far does something.
    #[inline]
    fn by_user(&mut self, op: Op, time: u32) {
        if op.writes() {
            (self.change, self.changed) = (time, true);
        } else {
            self.read = time;
        }
    }

    /// From now on accesses have their threads noted.
    fn tell_apart(&mut self) {
        if self.user != User::SEVERAL {
            (self.changer, self.reader) = (ThreadId(self.user.0), ThreadId(self.user.0));
        }
    }
}

/// Which events of other threads come before the next event of each thread, whatever the schedule.
#[derive(Default)]
struct Clocks {
    /// Per thread and other thread the time of the last one that does, or 0.
    rows: Vec<SparseVector>,
}

impl Clocks {
    fn knows(&self, thread: ThreadId, other: ThreadId, time: u32) -> bool {
        thread == other || time <= self.known(thread, other)
    }

    fn known(&self, thread: ThreadId, other: ThreadId) -> u32 {
        self.rows.get(thread.index()).map_or(0, |row| row.get(other.index()))
    }

    fn raise(&mut self, thread: ThreadId, other: ThreadId, time: u32) {
        self.row_mut(thread).raise(other.index(), time);
    }

    fn join(&mut self, thread: ThreadId, row: &SparseVector) {
        self.row_mut(thread).join(row);
    }

    fn row(&self, thread: ThreadId) -> SparseVector {
        self.rows.get(thread.index()).cloned().unwrap_or_default()
    }

    fn row_mut(&mut self, thread: ThreadId) -> &mut SparseVector {
        if self.rows.len() <= thread.index() {
            self.rows.resize(thread.index() + 1, SparseVector::default());
        }
        &mut self.rows[thread.index()]
    }

    /// A thread that has been joined has no more events.
    fn forget(&mut self, thread: ThreadId) {
        if let Some(row) = self.rows.get_mut(thread.index()) {
            *row = SparseVector::default();
        }
    }
}

/// Looks at a trace, block by block.
#[derive(Default)]
pub struct Survey {
    places: Places,
    /// Of each place.
    uses: Vec<Uses>,
    /// Of each region that has not ended: who has allocated it, and its places.
    blocks: HashMap<u32, (ThreadId, Vec<u32>)>,
    clocks: Clocks,
    /// Notifies and their threads, in the order of the trace.
    notifies: Vec<(u32, ThreadId)>,
    calls: HashSet<(ReachId, ThreadId)>,
    /// The last event of each thread.
    last: Vec<u32>,
    ops: Ops,
    has_values: bool,
    events: usize,
}

/// What was found out about a trace.
#[derive(Debug)]
pub struct Private {
    /// Of each place, in the order in which they are touched, whether accesses to it can be left out.
    pub(super) places: Vec<bool>,
    /// The last event of each thread.
    pub(super) last: Vec<u32>,
    /// Whether an event carries a value: then the level is another one.
    pub(super) has_values: bool,
    /// How many events there are.
    pub(super) events: usize,
}

impl Survey {
    /// The next events. Goes by the columns: a whole trace comes through here once more, on its way into memory.
    pub fn block(&mut self, events: &Events, tables: &Tables) {
        debug_assert_eq!(self.events, events.first);
        self.events += events.len();
        self.has_values |= events.has_values();
        self.ops = self.ops.or(Ops::of(events.ops()));
        self.places.know_variables(tables);
        self.last.resize(tables.thread_count(), u32::MAX);
        let columns = events.ops().iter().zip(events.threads()).zip(events.targets());
        for (index, ((&op, &thread), &target)) in columns.enumerate() {
            let number = events.first + index;
            let time = number as u32 + 1;
            self.last[thread.index()] = number as u32;
            let Some(place) = self.places.touched(number, op, target, tables) else {
                // Locks, the most frequent of the rest, put nothing in order here.
                if !matches!(op, Op::Acquire | Op::Release) {
                    self.synchronise(thread, events.get(index).action(), time, tables);
                }
                continue;
            };
            match self.uses.get_mut(place as usize) {
                Some(uses) if uses.user == User::of(thread) => uses.by_user(op, time),
                Some(_) => self.of_another(place, op, thread, time),
                None if op == Op::Free => self.free(place, thread),
                None => self.first(place, op, thread, time),
            }
        }
    }

    /// A place is accessed for the first time.
    #[inline(never)]
    fn first(&mut self, place: u32, op: Op, thread: ThreadId, time: u32) {
        let region = self.places.all[place as usize].region;
        let allocator = match self.blocks.get_mut(&region) {
            Some((allocator, places)) => {
                places.push(place);
                User::of(*allocator)
            }
            None => User::NOBODY,
        };
        let mut uses = Uses::new(thread, allocator);
        uses.by_user(op, time);
        self.uses.push(uses);
        self.after_alloc(place, thread);
    }

    /// An access comes after the alloc. If only because it is an access, it has to be kept.
    fn after_alloc(&mut self, place: u32, thread: ThreadId) {
        let uses = &mut self.uses[place as usize];
        let (allocator, allocated) = (ThreadId(uses.allocator.0), self.places.all[place as usize].region);
        if uses.allocator != User::NOBODY && !self.clocks.knows(thread, allocator, allocated) {
            uses.shared = true;
            self.clocks.raise(thread, allocator, allocated);
        }
    }

    /// An access of a thread that is not the only one.
    #[inline(never)]
    fn of_another(&mut self, place: u32, op: Op, thread: ThreadId, time: u32) {
        self.after_alloc(place, thread);
        let uses = &mut self.uses[place as usize];
        uses.tell_apart();
        uses.user = User::SEVERAL;
        uses.changed |= op.writes();
        if uses.shared {
            return;
        }
        let after_change = self.clocks.knows(thread, uses.changer, uses.change);
        let after_read = self.clocks.knows(thread, uses.reader, uses.read);
        if op.writes() {
            uses.shared = !after_change || !after_read || uses.several_reads;
            (uses.change, uses.changer, uses.read, uses.several_reads) = (time, thread, 0, false);
        } else {
            uses.shared = !after_change;
            uses.several_reads |= !after_read;
            (uses.read, uses.reader) = (time, thread);
        }
    }

    /// The end of a region: accesses to it have come before.
    fn free(&mut self, place: u32, thread: ThreadId) {
        let region = self.places.all[place as usize].region;
        for used in self.blocks.remove(&region).map_or_else(Vec::new, |(_, places)| places) {
            let uses = &mut self.uses[used as usize];
            if uses.user == User::of(thread) {
                continue;
            }
            uses.tell_apart();
            uses.shared |= uses.several_reads
                || !self.clocks.knows(thread, uses.changer, uses.change)
                || !self.clocks.knows(thread, uses.reader, uses.read);
        }
        // A place of its own, which is no access.
        self.uses.push(Uses::new(thread, User::NOBODY));
    }

    fn synchronise(&mut self, thread: ThreadId, action: Action, time: u32, tables: &Tables) {
        match action {
            Action::Alloc { .. } => {
                self.blocks.insert(time, (thread, Vec::new()));
            }
            Action::Fork { thread: child, .. } => {
                let row = self.clocks.row(thread);
                self.clocks.join(child, &row);
                self.clocks.raise(child, thread, time);
            }
            Action::Join { thread: child, .. } => {
                let row = self.clocks.row(child);
                self.clocks.join(thread, &row);
                self.clocks.raise(thread, child, time);
                self.clocks.forget(child);
            }
            Action::Notify { .. } | Action::NotifyAll { .. } => self.notifies.push((time - 1, thread)),
            Action::Wake { by: Some(notify), .. } => {
                if let Ok(at) = self.notifies.binary_search_by_key(&notify.0, |known| known.0) {
                    self.clocks.raise(thread, self.notifies[at].1, notify.0 + 1);
                }
            }
            Action::MethodBegin { reach, .. } if !tables.reach_objects(reach).is_empty() => {
                self.calls.insert((reach, thread));
            }
            _ => {}
        }
    }

    /// How many events there were.
    pub fn events(&self) -> usize {
        self.events
    }

    /// What was found; `None` if the trace has expressions. `tables` are those at the end of the trace.
    pub fn finish(self, tables: &Tables) -> Option<Private> {
        if tables.names(Space::Expression).len() + tables.names(Space::Symbol).len() > 0
            || self.ops.any(&[Op::Let, Op::OtherRead, Op::OtherWrite, Op::OtherAcquire, Op::OtherRelease, Op::OtherLet])
        {
            return None;
        }
        let Survey { places, mut uses, calls, last, ops, has_values, events, .. } = self;
        let reached = Reached::by(&calls, tables);
        let strict = ops.has(Op::Branch);
        for (uses, place) in uses.iter_mut().zip(&places.all) {
            uses.shared |= strict && uses.user == User::SEVERAL && uses.changed;
            if let Extent::Name(variable) = place.extent
                && !place.whole_region
            {
                let caller = reached.name(variable);
                uses.shared |= uses.user.meets(caller);
            }
        }
        let accessed: Vec<bool> = places.all.iter().map(|place| !place.whole_region).collect();
        let (spans, cells) = Cells::of_places(places.all, tables);
        let span = |place: usize| spans[place].0 as usize..(spans[place].0 + spans[place].1) as usize;
        let mut common = vec![Common { user: User::NOBODY, changed: false, shared: false, differ: false }; cells.len()];
        for (place, uses) in uses.iter().enumerate().filter(|(place, _)| accessed[*place]) {
            for cell in &mut common[span(place)] {
                cell.differ |= cell.user != User::NOBODY && (cell.user != uses.user || uses.user == User::SEVERAL);
                cell.user = cell.user.and(uses.user);
                cell.changed |= uses.changed;
                cell.shared |= uses.shared;
            }
        }
        for (cell, &(start, bytes)) in common.iter_mut().zip(&cells) {
            let caller = if bytes == 0 { User::NOBODY } else { reached.byte(start) };
            cell.shared |= cell.user.meets(caller);
            cell.shared |= cell.differ && cell.changed;
        }
        let private = |place: usize| accessed[place] && common[span(place)].iter().all(|cell| !cell.shared);
        let places = (0..uses.len()).map(private).collect();
        Some(Private { places, last, has_values, events })
    }
}

/// What the places have in common that a cell is part of.
#[derive(Clone, Copy)]
struct Common {
    user: User,
    changed: bool,
    /// It is not private.
    shared: bool,
    /// There are several places, and not one user of all.
    differ: bool,
}
