//! Conflicting accesses, and whether their threads can be there at the same time.
//!
//! Every access is paired with earlier conflicting ones of other threads, the latest first. Happens-before
//! and locksets rule most pairs out; the others are put to a [search](crate::lock_history::reach). A pair of locations is closed by
//! its first success.
//!
//! Accesses to the same memory from the same location between which their thread did nothing else than access memory
//! are alike: what holds for one holds for all, and only the first is kept. Cost: a few nanoseconds for an access that
//! is alike an earlier one; otherwise a look at each lockset and operation with which that memory was accessed, and where
//! these do not exclude a race at each thread and location.

use crate::lock_history::histories::known;
use crate::lock_history::memory::{Cell, Kind};
use crate::lock_history::observer::{Observer, Strategy};
use crate::lock_history::reach::{At, Reach, Standoff};
use crate::lock_history::search::Statistics;
use snag_model::events::Event;
use snag_model::{Cells, EventId, LocId, Tables, Trace, VarId};
use std::collections::HashSet;

/// A pair of accesses that was found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The earlier one.
    pub first: At,
    /// The later one.
    pub second: At,
}

/// What is done with pairs that pass the basic checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// They count as found: happens-before and locksets only.
    Basic,
    /// They are searched for.
    Search {
        /// Searches make use of earlier ones.
        incremental: bool,
    },
}

/// What is reported, and how much is done for it.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// About third threads.
    pub strategy: Strategy,
    /// About pairs that may be found.
    pub depth: Depth,
    /// Every pair of events instead of every pair of locations.
    pub all_pairs: bool,
    /// At most so many pairs are found.
    pub pairs: usize,
    /// What was found once is never asked about again, so that it need not be looked up.
    pub final_at_once: bool,
    /// For each access at most so many accesses of each group are asked about in vain.
    pub patience: usize,
    /// Questions that need no search are not put to one.
    pub shortcuts: bool,
    /// Among them are those that are answered by holding threads back.
    pub hold_back: bool,
}

impl Settings {
    /// The defaults of a strategy.
    pub fn of(strategy: Strategy) -> Settings {
        let depth = Depth::Search { incremental: true };
        let patience = if strategy == Strategy::Two { 16 } else { 64 };
        Settings {
            strategy,
            depth,
            all_pairs: false,
            pairs: 1_000_000,
            final_at_once: true,
            patience,
            shortcuts: true,
            hold_back: true,
        }
    }
}

/// Looks for races while a trace is read.
pub struct Races {
    /// What is known about the threads.
    pub reach: Reach,
    settings: Settings,
    cells: Vec<Cell>,
    /// Per thread how often it did something else than access memory.
    segments: Vec<u32>,
    /// Pairs of locations, or of events, that need not be asked about again.
    closed: HashSet<(u64, u64)>,
    /// Pairs in the order in which they were found.
    pub found: Vec<Found>,
    /// Deadlocks that the searches met.
    pub standoffs: Vec<Standoff>,
    /// Accesses that are the later one of a pair.
    pub warnings: u64,
    /// Events so far.
    pub seen: usize,
    /// How often a group had more accesses than were asked about.
    pub given_up: usize,
    /// False if a limit was reached.
    pub complete: bool,
}

impl Races {
    /// Before anything happens.
    pub fn new(observer: Observer, settings: Settings) -> Races {
        let incremental = settings.depth != Depth::Search { incremental: false };
        let reach = Reach::new(observer, settings.strategy, incremental);
        Races {
            reach: match settings {
                Settings { shortcuts: false, .. } => reach.without_shortcuts(),
                Settings { hold_back: false, .. } => reach.without_holding_back(),
                _ => reach,
            },
            settings,
            cells: Vec::new(),
            segments: Vec::new(),
            closed: HashSet::new(),
            found: Vec::new(),
            standoffs: Vec::new(),
            warnings: 0,
            seen: 0,
            given_up: 0,
            complete: true,
        }
    }

    /// Takes note of an event that does not touch memory.
    pub fn event(&mut self, number: EventId, event: &Event, tables: &Tables) {
        self.reach.observer.observe(number, event, tables);
        let thread = event.thread.index();
        if self.segments.len() <= thread {
            self.segments.resize(thread + 1, 0);
        }
        self.segments[thread] += 1;
    }

    /// An access. `cells` are numbers of memory it touches, `overlap` whether two variables that share a cell
    /// share memory.
    pub fn access(
        &mut self,
        number: EventId,
        event: &Event,
        tables: &Tables,
        cells: impl IntoIterator<Item = usize>,
        overlap: impl Fn(VarId, VarId) -> bool,
    ) {
        let thread = event.thread;
        if self.reach.observer.orders_accesses() {
            self.event(number, event, tables);
        }
        if self.segments.len() <= thread.index() {
            self.segments.resize(thread.index() + 1, 0);
        }
        self.reach.observer.meet(thread);
        let segment = self.segments[thread.index()];
        let alike = !self.settings.all_pairs && event.location != LocId::NONE;
        let set = self.reach.observer.thread(thread).set;
        let (op, location) = (event.op, event.location);
        let variable = event.action().variable().expect("touches memory");
        let kind = Kind { thread, op, location, set, variable };
        let before = self.found.len();
        for cell in cells {
            if self.cells.len() <= cell {
                self.cells.resize_with(cell + 1, Cell::default);
            }
            let own = self.cells[cell].group(&kind);
            if alike && self.cells[cell].groups[own].segment == segment + 1 {
                continue;
            }
            let at = self.reach.at(number, thread);
            if self.cells[cell].is_shared() {
                self.pair(cell, own, &at, &kind, &overlap);
            }
            let group = &mut self.cells[cell].groups[own];
            group.segment = segment + 1;
            group.accesses.push((number, at.place));
        }
        self.warnings += (self.found.len() > before) as u64;
    }

    /// Pairs an access with earlier ones to the same cell.
    fn pair(&mut self, cell: usize, own: usize, at: &At, kind: &Kind, overlap: &impl Fn(VarId, VarId) -> bool) {
        let Races { reach, settings, cells, closed, found, standoffs, complete, given_up, .. } = self;
        let stamp = reach.observer.thread(at.thread).stamp.clone();
        let cell = &mut cells[cell];
        for profile in &cell.profiles {
            if !profile.op.conflicts(kind.op) || reach.observer.sets().exclude(profile.set, at.set) {
                continue;
            }
            for &number in &profile.groups {
                let group = &cell.groups[number as usize];
                let after = known(&stamp, group.kind.thread.index());
                if group.kind.thread == at.thread
                    || group.accesses.last().is_none_or(|last| last.0.0 < after)
                    || cell.groups[own].is_closed(number)
                    || !overlap(group.kind.variable, kind.variable)
                {
                    continue;
                }
                let location = group.kind.location;
                let one_by_one = settings.all_pairs || location == LocId::NONE || kind.location == LocId::NONE;
                // Strategy II may miss pairs anyway.
                let may_rest = settings.strategy == Strategy::Two && settings.depth != Depth::Basic && !one_by_one;
                if may_rest && cell.groups[own].rests(number) {
                    continue;
                }
                let group = &cell.groups[number as usize];
                let mut asked = false;
                let mut patience = if one_by_one { usize::MAX } else { settings.patience };
                let mut close = false;
                for &(event, place) in group.accesses.iter().rev() {
                    if event.0 < after {
                        break;
                    }
                    let key = key(settings.all_pairs, (location, event), (kind.location, at.event));
                    close = !one_by_one && closed.contains(&key);
                    if close {
                        break;
                    }
                    if patience == 0 || found.len() >= settings.pairs {
                        *complete = false;
                        *given_up += 1;
                        break;
                    }
                    patience -= 1;
                    let first = At { event, thread: group.kind.thread, place, set: profile.set };
                    asked = true;
                    let reached = settings.depth == Depth::Basic || reach.reaches(&first, at);
                    standoffs.append(&mut reach.take_standoffs());
                    // With several cells in common a pair is found at each of them.
                    if reached && closed.insert(key) {
                        found.push(Found { first, second: *at });
                    }
                    close = reached && !one_by_one;
                    if close {
                        break;
                    }
                }
                if close && settings.final_at_once {
                    cell.groups[own].close(number);
                }
                if may_rest && asked && !close {
                    cell.groups[own].asked_in_vain(number);
                }
            }
        }
    }

    /// Has a pair of locations asked about again, with later accesses.
    pub fn reopen(&mut self, first: (LocId, EventId), second: (LocId, EventId)) {
        debug_assert!(!self.settings.final_at_once);
        self.closed.remove(&key(self.settings.all_pairs, first, second));
    }

    /// What the searches did.
    pub fn statistics(&self) -> Statistics {
        self.reach.statistics()
    }

    /// Forgets accesses to a cell.
    pub fn forget_cell(&mut self, cell: usize) {
        if let Some(cell) = self.cells.get_mut(cell) {
            *cell = Cell::default();
        }
    }

    /// Forgets all that happened before an event: no pair with an earlier access is found any more.
    pub fn forget_before(&mut self, event: EventId) {
        self.reach.forget_before(event);
        self.cells.iter_mut().for_each(|cell| cell.forget_before(event));
    }

    /// Bytes, about.
    pub fn memory(&self) -> usize {
        self.cells.iter().map(Cell::memory).sum::<usize>() + self.reach.memory()
    }
}

/// Between two looks at the clock.
const STRIDE: usize = 1 << 14;

/// One pass over a trace, with pairs inside windows of so many events if there are windows. `tick` is told the
/// number of events done now and then, and ends the pass by returning false.
pub fn of_trace(
    trace: &Trace,
    cells: &Cells,
    settings: Settings,
    window: Option<usize>,
    tick: &mut dyn FnMut(&Races, usize) -> bool,
) -> Races {
    let observer = Observer::new(settings.strategy, Some(trace));
    let observer = if settings.depth == Depth::Basic { observer.without_histories() } else { observer };
    let mut races = Races::new(observer, settings);
    races.cells.resize_with(cells.count(), Cell::default);
    for number in 0..trace.len() {
        if number % STRIDE == STRIDE - 1 && !tick(&races, number) {
            races.complete = false;
            break;
        }
        races.seen = number + 1;
        if window.is_some_and(|window| number > 0 && number.is_multiple_of(window)) {
            races.cells.iter_mut().for_each(|cell| *cell = Cell::default());
        }
        let event = trace.events.get(number);
        if event.op.touches_memory() {
            let touched = cells.touched_by(trace, EventId::new(number));
            races.access(EventId::new(number), &event, &trace.tables, touched, |_, _| true);
        } else {
            races.event(EventId::new(number), &event, &trace.tables);
        }
    }
    races
}

/// The identity of a pair of locations, with the event standing in for no location.
fn key(all_pairs: bool, first: (LocId, EventId), second: (LocId, EventId)) -> (u64, u64) {
    let place = |(location, event): (LocId, EventId)| match location {
        LocId::NONE => 1 << 32 | event.0 as u64,
        _ if all_pairs => 1 << 32 | event.0 as u64,
        location => location.0 as u64,
    };
    let (a, b) = (place(first), place(second));
    (a.min(b), a.max(b))
}
