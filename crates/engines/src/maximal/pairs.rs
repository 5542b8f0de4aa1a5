//! Which pairs to ask about: all conflicting ones that neither locks nor the saturated order rule out.
//!
//! Accesses of a cell are grouped by thread, operation, location and locks held, so that a lock that protects
//! two groups rules out all their pairs at once. Of two groups that are left, each access has an interval of accesses in
//! the other that are not ordered with it; these are produced one by one, nearest first, and only as long as somebody
//! asks for more. So a hot variable costs what its groups cost, not the square of its accesses.

use crate::maximal::contended::contended;
use crate::maximal::guards::{GuardId, Guards};
use crate::maximal::index::Index;
use crate::maximal::sections::HeldId;
use crate::maximal::windows::Windows;
use snag_model::Level;
use snag_model::{EventId, LocId, Op};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// In a cell with more groups than this the pairs of groups are not listed: that would take the square.
const CROWD: usize = if cfg!(debug_assertions) { 6 } else { 512 };

/// After so many accesses at the latest somebody is asked whether to go on.
const STRIDE: usize = 64;

/// What an access does, as far as conflicts go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Read,
    Write,
    AtomicRead,
    AtomicWrite,
    Free,
}

impl Kind {
    fn of(op: Op) -> Kind {
        match op {
            Op::Read => Kind::Read,
            Op::AtomicRead => Kind::AtomicRead,
            Op::AtomicWrite | Op::Rmw => Kind::AtomicWrite,
            Op::Free => Kind::Free,
            _ => Kind::Write,
        }
    }

    fn op(self) -> Op {
        match self {
            Kind::Read => Op::Read,
            Kind::Write => Op::Write,
            Kind::AtomicRead => Op::AtomicRead,
            Kind::AtomicWrite => Op::AtomicWrite,
            Kind::Free => Op::Free,
        }
    }
}

/// Accesses of one cell that locks and conflicts do not tell apart.
struct Group {
    cell: usize,
    thread: usize,
    kind: Kind,
    location: LocId,
    held: HeldId,
    guarded: GuardId,
    /// In the order of the trace.
    events: Vec<EventId>,
}

/// The pairs of accesses that share a pair of locations.
pub struct Task {
    /// The locations, the smaller number first.
    locations: (LocId, LocId),
    /// Pairs of groups; the smaller one first.
    groups: Vec<(u32, u32)>,
    /// Pairs of classes, all of whose groups make pairs if they are of different threads.
    classes: Vec<(u32, u32)>,
    /// Up to here the trace must have come for the earliest of the pairs.
    earliest: EventId,
}

impl Task {
    /// Whether each pair of events is a finding of its own: where no location is known, the event stands in.
    pub fn is_about_events(&self) -> bool {
        self.locations.0 == LocId::NONE
    }

    /// The locations as numbers, which are the same in every trace with these tables; nothing if each pair of events is a
    /// finding of its own.
    pub fn key(&self) -> Option<(u64, u64)> {
        (!self.is_about_events()).then_some((self.locations.0.0 as u64, self.locations.1.0 as u64))
    }
}

/// All pairs of a trace that may be races.
pub struct Pairs<'i, 't> {
    index: &'i Index<'t>,
    /// Only pairs inside these windows.
    windows: Option<Windows>,
    groups: Vec<Group>,
    /// Groups of one cell that differ in their threads alone, in cells with very many groups.
    classes: Vec<Vec<u32>>,
    /// One per pair of locations, in the order of their first events.
    pub tasks: Vec<Task>,
}

impl<'i, 't> Pairs<'i, 't> {
    /// Groups the accesses of a trace. Those of cells where the saturated order leaves nothing open are left out: the cells that
    /// only one thread touches, or that nobody changes, or that threads hand to each other.
    pub fn of(index: &'i Index<'t>, windows: Option<Windows>) -> Pairs<'i, 't> {
        let guards = Guards::of(index);
        let groups = groups(index, &guards);
        let mut tasks: HashMap<(LocId, LocId), Task> = HashMap::new();
        let mut classes: Vec<Vec<u32>> = Vec::new();
        let mut from = 0;
        while from < groups.len() {
            let cell = groups[from].cell;
            let to = from + groups[from..].partition_point(|group| group.cell == cell);
            if to - from > CROWD {
                crowd(index, &guards, &groups, from..to, &mut classes, &mut tasks);
            } else {
                for b in from..to {
                    for a in from..b {
                        if groups[a].thread != groups[b].thread && candidates(index, &guards, &groups[a], &groups[b]) {
                            add(&mut tasks, &groups, a, b);
                        }
                    }
                }
            }
            from = to;
        }
        let mut tasks: Vec<Task> = tasks.into_values().collect();
        tasks.sort_unstable_by_key(|task| (task.earliest, task.locations));
        Pairs { index, windows, groups, classes, tasks }
    }

    /// The pairs of a task that are not ordered, nearest first: of every access the nearest one, then of every access the
    /// second nearest, and so on. It ends early once `stop` says so: where very many groups are ordered, there may be no pair for a
    /// long time.
    pub fn of_task<'p>(
        &'p self,
        task: &'p Task,
        stop: &'p dyn Fn() -> bool,
    ) -> impl Iterator<Item = (EventId, EventId)> + 'p {
        let mut walks: Vec<Walk> = Vec::new();
        let mut next_groups = task.groups.iter();
        let mut crowds = task.classes.iter().flat_map(|&(a, b)| self.crowded(a, b));
        let mut at = 0;
        std::iter::from_fn(move || {
            loop {
                if (at == walks.len() || at % STRIDE == 0) && stop() {
                    return None;
                }
                // The walks of a pair of groups are made when the first round comes to it.
                if at == walks.len() {
                    match next_groups.next() {
                        Some(&(a, b)) => walks.extend(self.walks(a, b)),
                        // Of these there are too many to have the walks of all of them.
                        None if walks.is_empty() => {
                            let (a, b) = crowds.next()?;
                            walks.extend(self.walks(a, b));
                            at = 0;
                        }
                        None => at = 0,
                    }
                    continue;
                }
                let walk = &mut walks[at];
                let (a, group) = (walk.event, &self.groups[walk.other as usize]);
                match walk.next(&group.events) {
                    None => {
                        walks.swap_remove(at);
                    }
                    Some(b) => {
                        at += 1;
                        if self.meet_first_at(a, b, group.cell) {
                            return Some((a.min(b), a.max(b)));
                        }
                    }
                }
            }
        })
    }

    /// Where the window of an event begins and ends, if there are windows.
    pub fn window_of(&self, event: EventId) -> Option<(EventId, EventId)> {
        self.windows.as_ref().map(|windows| windows.of(event))
    }

    /// The pairs of groups of two classes.
    fn crowded(&self, a: u32, b: u32) -> impl Iterator<Item = (u32, u32)> {
        let (one, other) = (&self.classes[a as usize], &self.classes[b as usize]);
        let thread = |group: u32| self.groups[group as usize].thread;
        other.iter().enumerate().flat_map(move |(at, &later)| {
            let earlier = if a == b { &one[..at] } else { &one[..] };
            earlier.iter().filter(move |&&group| thread(group) != thread(later)).map(move |&group| (group, later))
        })
    }

    /// Accesses that share several cells are a pair only at the first of them.
    fn meet_first_at(&self, a: EventId, b: EventId, cell: usize) -> bool {
        let cells = |event| self.index.memory.cells_of(event).start;
        cells(a).max(cells(b)) == cell
    }

    /// For each access of a group the accesses of another one that are not ordered with it.
    fn walks(&self, a: u32, b: u32) -> impl Iterator<Item = Walk> {
        let (one, other) = (&self.groups[a as usize], &self.groups[b as usize]);
        let Index { threads, saturated, hard, .. } = self.index;
        one.events.iter().filter_map(move |&event| {
            // What an access itself sees does not matter, so what comes before is what comes before its predecessor.
            let before = threads.previous(event).map_or(0, |previous| saturated.row(previous).get(other.thread));
            let before = before.max(hard.row(event).get(other.thread));
            let low = other.events.partition_point(|&e| threads.position(e) < before);
            let follows = |&e: &EventId| {
                let previous = threads.previous(e).map_or(0, |previous| saturated.row(previous).get(one.thread));
                previous.max(hard.row(e).get(one.thread)) > threads.position(event)
            };
            let high = other.events.partition_point(|e| !follows(e));
            let (low, high) = match self.window_of(event) {
                None => (low, high),
                Some((from, to)) => (
                    low.max(other.events.partition_point(|&e| e < from)),
                    high.min(other.events.partition_point(|&e| e < to)),
                ),
            };
            let middle = other.events.partition_point(|&e| e < event).clamp(low, high.max(low));
            (low < high).then_some(Walk { event, other: b, low, down: middle, up: middle, high })
        })
    }
}

/// The accesses of a group that are not ordered with an event, from the nearest outwards.
struct Walk {
    event: EventId,
    /// The group.
    other: u32,
    low: usize,
    /// What lies between these two has been produced.
    down: usize,
    up: usize,
    high: usize,
}

impl Walk {
    fn next(&mut self, events: &[EventId]) -> Option<EventId> {
        let below = (self.down > self.low).then(|| events[self.down - 1]);
        let above = (self.up < self.high).then(|| events[self.up]);
        let go_down = match (below, above) {
            (Some(below), Some(above)) => self.event.0 - below.0 <= above.0 - self.event.0,
            (below, _) => below.is_some(),
        };
        if go_down {
            self.down -= 1;
            below
        } else {
            self.up += above.is_some() as usize;
            above
        }
    }
}

/// Whether pairs of two groups of a cell, of different threads, can be races as far as operations and locks go.
fn candidates(index: &Index, guards: &Guards, a: &Group, b: &Group) -> bool {
    a.kind.op().conflicts(b.kind.op())
        && !index.sections.exclude(a.held, b.held)
        && !guards.exclude(a.guarded, b.guarded)
}

fn add(tasks: &mut HashMap<(LocId, LocId), Task>, groups: &[Group], a: usize, b: usize) {
    let (a, b) = if groups[a].events.len() <= groups[b].events.len() { (a, b) } else { (b, a) };
    let (one, other) = (groups[a].location, groups[b].location);
    let locations = (one.min(other), one.max(other));
    let earliest = groups[a].events[0].max(groups[b].events[0]);
    let task = match tasks.entry(locations) {
        Entry::Occupied(task) => task.into_mut(),
        Entry::Vacant(free) => free.insert(Task { locations, groups: Vec::new(), classes: Vec::new(), earliest }),
    };
    task.earliest = task.earliest.min(earliest);
    task.groups.push((a as u32, b as u32));
}

/// Adds the pairs of a cell with very many groups, class by class.
fn crowd(
    index: &Index,
    guards: &Guards,
    groups: &[Group],
    of_cell: Range<usize>,
    classes: &mut Vec<Vec<u32>>,
    tasks: &mut HashMap<(LocId, LocId), Task>,
) {
    let first = classes.len();
    let mut numbers: HashMap<(Kind, LocId, HeldId, GuardId), usize> = HashMap::new();
    for number in of_cell {
        let Group { kind, location, held, guarded, .. } = groups[number];
        let class = *numbers.entry((kind, location, held, guarded)).or_insert_with(|| {
            classes.push(Vec::new());
            classes.len() - 1
        });
        classes[class].push(number as u32);
    }
    for b in first..classes.len() {
        for a in first..b + 1 {
            let (one, other) = (&groups[classes[a][0] as usize], &groups[classes[b][0] as usize]);
            let Some(earliest) = earliest(groups, &classes[a], &classes[b]) else { continue };
            if candidates(index, guards, one, other) {
                let locations = (one.location.min(other.location), one.location.max(other.location));
                let new = || Task { locations, groups: Vec::new(), classes: Vec::new(), earliest };
                let task = tasks.entry(locations).or_insert_with(new);
                task.earliest = task.earliest.min(earliest);
                task.classes.push((a as u32, b as u32));
            }
        }
    }
}

/// Up to where the trace must have come for the earliest pair of groups of different threads; `None` if there is none.
fn earliest(groups: &[Group], a: &[u32], b: &[u32]) -> Option<EventId> {
    // Of each side the two threads that come first: with those of the other side, they make the earliest pair.
    let first_two = |class: &[u32]| {
        let mut first: Vec<(EventId, usize)> = Vec::new();
        for &group in class {
            let Group { thread, ref events, .. } = groups[group as usize];
            match first.iter_mut().find(|known| known.1 == thread) {
                Some(known) => known.0 = known.0.min(events[0]),
                None => first.push((events[0], thread)),
            }
            first.sort_unstable();
            first.truncate(2);
        }
        first
    };
    let (a, b) = (first_two(a), first_two(b));
    let pairs = a.iter().flat_map(|one| b.iter().map(move |other| (one, other)));
    pairs.filter(|(one, other)| one.1 != other.1).map(|(one, other)| one.0.max(other.0)).min()
}

/// Mixes a number; nobody chooses these numbers.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte as u64));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// The groups, sorted by cell.
fn groups(index: &Index, guards: &Guards) -> Vec<Group> {
    let (trace, threads) = (index.trace, &index.threads);
    // What would happen on the other side of a branch counts only where branches may go there.
    let op_of = |op: Op| if index.level == Level::Symbolic { op.if_it_happens() } else { op };
    let touches = || {
        let ops = trace.events.ops().iter().enumerate().map(|(at, &op)| (EventId::new(at), op_of(op)));
        ops.filter(|(_, op)| op.touches_memory())
    };
    let contended = contended(index, touches());
    // A range may have very many cells, so what its groups have in common gets a number first.
    let mut alike: HashMap<(usize, Kind, LocId, HeldId, GuardId), u32> = HashMap::new();
    let mut numbers: HashMap<u64, usize, BuildHasherDefault<NumberHasher>> = HashMap::default();
    let mut groups: Vec<Group> = Vec::new();
    for (event, op) in touches() {
        let (thread, kind) = (threads.thread(event), Kind::of(op));
        let location = trace.events.location(event.index());
        let mut cells = index.memory.cells_of(event).filter(|&cell| contended[cell]).peekable();
        if cells.peek().is_none() {
            continue;
        }
        let held = match index.changes_locks_on_side(event) {
            true => HeldId(0),
            false => index.sections.held_id(thread, threads.position(event)),
        };
        let guarded = guards.held(thread, threads.position(event));
        let next = alike.len() as u32;
        let alike = *alike.entry((thread, kind, location, held, guarded)).or_insert(next);
        for cell in cells {
            let group = *numbers.entry((cell as u64) << 32 | alike as u64).or_insert_with(|| {
                groups.push(Group { cell, thread, kind, location, held, guarded, events: Vec::new() });
                groups.len() - 1
            });
            groups[group].events.push(event);
        }
    }
    groups.sort_by_key(|group| group.cell);
    groups
}
