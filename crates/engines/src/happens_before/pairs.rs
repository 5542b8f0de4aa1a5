//! Names the pairs behind the warnings.
//!
//! A first pass says which events race with an earlier one and on which cells.
//! Here the accesses to those cells are kept one by one, grouped by thread and
//! source location, so that every racing pair is counted and every pair of
//! locations is named once, with the two events that showed it first. The clocks
//! of these events, taken in a last pass, are the schedule that proves the race.

use crate::clocks::{Clocks, Slot, Time};
use crate::happens_before::run::{Accesses, Kind, Memory, Sections, per_thread};
use crate::happens_before::strong::Strong;
use snag_model::{Cells, EventId, LocId, Trace};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// How much is named at the most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Pairs; what is beyond is not named, and the result is not complete.
    pub pairs: usize,
    /// Name every pair of events instead of every pair of locations.
    pub all_pairs: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { pairs: 1_000_000, all_pairs: false }
    }
}

/// A pair of locations that race, and the events that showed it.
#[derive(Clone, Debug, PartialEq)]
pub struct LocationPair {
    /// The earlier event.
    pub first: EventId,
    /// The later event.
    pub second: EventId,
    /// How many pairs of events share the locations.
    pub count: u64,
}

impl LocationPair {
    /// The identity of a pair of locations: ordered, with the event standing in for no location.
    pub fn key(&self, trace: &Trace) -> (u64, u64) {
        let (a, b) = (place(trace, self.first), place(trace, self.second));
        (a.min(b), a.max(b))
    }
}

/// The racing pairs of a trace.
#[derive(Clone, Debug, Default)]
pub struct Racing {
    /// In the order in which they were seen.
    pub pairs: Vec<LocationPair>,
    /// False if a limit or the user cut the list short.
    pub complete: bool,
    /// How many events are the later one of a pair.
    pub later: u64,
    /// For each event of a pair what happens before it under SHB: of every thread the events before the given one.
    pub(crate) times: HashMap<u32, Vec<EventId>>,
}

impl Racing {
    /// Nothing was found.
    pub fn nothing(complete: bool) -> Racing {
        Racing { complete, ..Racing::default() }
    }

    /// What must happen before both events of a pair can be next: of every
    /// thread, the events before the given one. Feasible if the pair is an SHB race.
    /// `None` unless [`crate::happens_before::take_schedules`] has come that far.
    pub fn schedule(&self, trace: &Trace, pair: &LocationPair) -> Option<Vec<EventId>> {
        let first = self.times.get(&pair.first.0)?;
        let second = self.times.get(&pair.second.0)?;
        let mut ends: Vec<EventId> = first.iter().zip(second).map(|(a, b)| *a.max(b)).collect();
        ends[trace.thread_of(pair.first).index()] = pair.first;
        ends[trace.thread_of(pair.second).index()] = pair.second;
        Some(ends)
    }
}

/// A location as a number; an event without one is a place of its own.
fn place(trace: &Trace, event: EventId) -> u64 {
    match trace.events.location(event.index()) {
        LocId::NONE => 1 << 32 | event.0 as u64,
        location => location.0 as u64,
    }
}

/// Two numbers that are mostly small and dense need no strong hash.
#[derive(Default)]
struct PairHasher(u64);

impl Hasher for PairHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte as u64));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(29) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A memory that also keeps every access to racy cells.
pub(crate) struct Logged<'t, M> {
    inner: M,
    trace: &'t Trace,
    cells: &'t Cells,
    /// Per cell 1 + index into `logs` if racy; else 0.
    log_of: Vec<u32>,
    logs: Vec<Vec<OfSlot>>,
    limits: Limits,
    floor: Time,
    known: HashMap<(u64, u64), usize, BuildHasherDefault<PairHasher>>,
    /// Space for the racing accesses of the current one.
    racing: Vec<(EventId, u64)>,
    found: Racing,
    /// The last event that was the later one of a pair.
    last_later: Option<EventId>,
    /// First cell of the current event.
    start: usize,
    /// Of each cell how many accesses that begin there are still to come; nothing if each access is to one cell.
    to_begin: Vec<u32>,
    /// Cells get their log when they first race, from the events before.
    on_the_way: bool,
    /// It does not know from the beginning which cells race.
    finds_out: bool,
    /// Events that may still be looked at for that; when they are used up, a second pass is cheaper.
    patience: usize,
    /// Only what this orders is named.
    strong: Option<Strong<'t>>,
}

/// The accesses of one slot to one cell.
struct OfSlot {
    slot: Slot,
    latest: Time,
    /// Of accesses of which this cell is the first one. A pair that shares several cells is counted on the first of them,
    /// which is the first cell of one of the two.
    starting: Accessed,
    /// Of the others.
    covering: Accessed,
}

/// Accesses to one cell.
#[derive(Default)]
struct Accessed {
    groups: Vec<Group>,
    /// Accesses without a location, each a place of its own.
    lone: Vec<(Time, Kind)>,
}

impl Accessed {
    /// Those since a time that conflict with an operation, with how many pairs of events they make; of ascending times
    /// only so many as `count` says.
    fn racing(
        &self,
        kind: Kind,
        since: Time,
        count: &impl Fn(&[Time]) -> usize,
        all_pairs: bool,
        racing: &mut Vec<(EventId, u64)>,
    ) {
        for group in self.groups.iter().filter(|g| g.kind.op().conflicts(kind.op())) {
            let from = group.times.partition_point(|&t| t <= since);
            let times = &group.times[from..];
            let times = &times[..count(times)];
            if all_pairs {
                racing.extend(times.iter().map(|t| (EventId(t - 1), 1)));
            } else if let Some(last) = times.last() {
                racing.push((EventId(last - 1), times.len() as u64));
            }
        }
        let recent = self.lone.iter().rev().take_while(|l| l.0 > since);
        let recent = recent.filter(|l| l.1.op().conflicts(kind.op()) && count(&[l.0]) == 1);
        racing.extend(recent.map(|l| (EventId(l.0 - 1), 1)));
    }

    fn add(&mut self, location: LocId, kind: Kind, time: Time) {
        if location == LocId::NONE {
            return self.lone.push((time, kind));
        }
        match self.groups.iter_mut().find(|g| g.location == location && g.kind == kind) {
            Some(group) => group.times.push(time),
            None => self.groups.push(Group { location, kind, times: vec![time] }),
        }
    }
}

/// Accesses of one kind from one location.
struct Group {
    location: LocId,
    kind: Kind,
    /// Ascending.
    times: Vec<Time>,
}

impl<'t, M: Memory> Logged<'t, M> {
    pub fn new(mut inner: M, trace: &'t Trace, cells: &'t Cells, racy: &[bool], limits: Limits) -> Self {
        let mut logs = Vec::new();
        let mut log_of = vec![0; racy.len()];
        for (cell, _) in racy.iter().enumerate().filter(|(_, racy)| **racy) {
            logs.push(Vec::new());
            log_of[cell] = logs.len() as u32;
            inner.watch(cell);
        }
        let found = Racing::nothing(true);
        Logged {
            inner,
            trace,
            cells,
            log_of,
            logs,
            limits,
            floor: 0,
            known: HashMap::default(),
            racing: Vec::new(),
            found,
            last_later: None,
            start: 0,
            to_begin: to_begin(trace, cells),
            on_the_way: false,
            finds_out: false,
            patience: 0,
            strong: None,
        }
    }

    /// Names only those pairs that would be ordered if all atomics were sequentially consistent.
    pub fn by_memory_order(self, sections: Sections) -> Self {
        Logged { strong: Some(Strong::new(self.trace, self.cells, sections)), ..self }
    }

    /// Names the pairs while it finds out which cells race.
    pub fn on_the_way(inner: M, trace: &'t Trace, cells: &'t Cells, limits: Limits) -> Self {
        let nothing_racy = vec![false; cells.count()];
        let logged = Logged::new(inner, trace, cells, &nothing_racy, limits);
        Logged { on_the_way: true, finds_out: true, patience: 4 * trace.len(), ..logged }
    }

    /// Names nothing any more.
    pub fn give_up(&mut self) {
        (self.on_the_way, self.patience) = (false, 0);
        self.log_of.fill(0);
    }

    /// Whether a second pass has to name the pairs.
    pub fn has_given_up(&self) -> bool {
        !self.on_the_way
    }

    /// A cell races for the first time: its log begins with the accesses before, none of which raced.
    #[cold]
    fn open_log(&mut self, clocks: &Clocks, time: Time, cell: usize) {
        let before = time as usize - 1;
        if self.patience < before {
            return self.give_up();
        }
        self.patience -= before;
        self.logs.push(Vec::new());
        self.log_of[cell] = self.logs.len() as u32;
        self.inner.watch(cell);
        let targets = &self.trace.events.targets()[..before];
        for (block, chunk) in targets.chunks(64).enumerate() {
            // Without an early end, so that the comparison is vectorised.
            if !chunk.iter().fold(false, |any, &t| any | (t == cell as u32)) {
                continue;
            }
            for number in (block * 64..block * 64 + chunk.len()).filter(|&i| targets[i] == cell as u32) {
                let slot = clocks.slot_if_seen(self.trace.events.threads()[number]);
                if let (Some(kind), Some(slot)) = (Kind::of(self.trace.events.ops()[number]), slot) {
                    self.keep(self.logs.len() - 1, slot, number as Time + 1, kind, true);
                }
            }
        }
    }

    pub fn into_found(self) -> Racing {
        self.found
    }

    fn visit(&mut self, clocks: &Clocks, slot: Slot, time: Time, cell: usize, kind: Kind) {
        let Some(log) = self.log_of[cell].checked_sub(1) else { return };
        // Once there is no room for more pairs, going on would take long and name nothing.
        if !self.found.complete {
            return;
        }
        let starts = cell == self.start;
        let event = EventId(time - 1);
        let mut racing = std::mem::take(&mut self.racing);
        for of in &self.logs[log as usize] {
            let since = clocks.known(slot, of.slot).max(self.floor);
            if of.slot == slot || of.latest <= since {
                continue;
            }
            let all_pairs = self.limits.all_pairs;
            if let Some(strong) = &mut self.strong {
                strong.advance(event);
            }
            let mut named = |accessed: &Accessed| match &self.strong {
                None => accessed.racing(kind, since, &<[Time]>::len, all_pairs, &mut racing),
                Some(strong) => {
                    accessed.racing(kind, since, &|times| strong.ordered(event, times), all_pairs, &mut racing)
                }
            };
            named(&of.starting);
            if starts {
                named(&of.covering);
            }
        }
        racing.sort_unstable();
        if !racing.is_empty() && self.last_later != Some(event) {
            self.last_later = Some(event);
            self.found.later += 1;
        }
        for (first, count) in racing.drain(..) {
            self.add(first, event, count);
        }
        self.racing = racing;
        match self.to_begin.get_mut(cell) {
            Some(count) if starts => *count -= 1,
            // Nobody is going to look for accesses that only cover this cell.
            Some(0) => return,
            _ => {}
        }
        self.keep(log as usize, slot, time, kind, starts);
    }

    fn add(&mut self, first: EventId, second: EventId, count: u64) {
        let pair = LocationPair { first, second, count };
        let key = match self.limits.all_pairs {
            true => (first.0 as u64, second.0 as u64),
            false => pair.key(self.trace),
        };
        match self.known.get(&key) {
            Some(&index) => self.found.pairs[index].count += count,
            None if self.found.pairs.len() == self.limits.pairs => self.found.complete = false,
            None => {
                self.known.insert(key, self.found.pairs.len());
                self.found.pairs.push(pair);
            }
        }
    }

    fn keep(&mut self, log: usize, slot: Slot, time: Time, kind: Kind, starts: bool) {
        let log = &mut self.logs[log];
        let at = log.iter().position(|of| of.slot == slot).unwrap_or_else(|| {
            log.push(OfSlot { slot, latest: 0, starting: Accessed::default(), covering: Accessed::default() });
            log.len() - 1
        });
        let of = &mut log[at];
        of.latest = time;
        let location = self.trace.events.location(time as usize - 1);
        let accessed = if starts { &mut of.starting } else { &mut of.covering };
        accessed.add(location, kind, time);
    }
}

/// Of each cell how many accesses begin there; nothing if each access is to one cell.
fn to_begin(trace: &Trace, cells: &Cells) -> Vec<u32> {
    if cells.are_variables() {
        return Vec::new();
    }
    let mut count = vec![0; cells.count()];
    for (number, &op) in trace.events.ops().iter().enumerate() {
        if Kind::of(op).is_some()
            && let Some(first) = cells.touched_by(trace, EventId::new(number)).next()
        {
            count[first] += 1;
        }
    }
    count
}

impl<M: Memory> Memory for Logged<'_, M> {
    /// Where memory orders nothing, what is not logged matters to nobody once it is known what races.
    fn watches(&self, cell: usize) -> bool {
        self.strong.is_none() || self.finds_out || self.log_of[cell] != 0
    }

    fn races(&self, clocks: &Clocks, slot: Slot, cell: usize, kind: Kind) -> bool {
        self.inner.races(clocks, slot, cell, kind)
    }

    fn learn(&mut self, clocks: &mut Clocks, slot: Slot, cell: usize, kind: Kind) {
        self.inner.learn(clocks, slot, cell, kind);
    }

    fn record(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, cell: usize, kind: Kind) {
        self.inner.record(clocks, slot, time, cell, kind);
    }

    /// All cells of an event are visited before any is recorded, with the clock that judges it.
    fn arrive(&mut self, clocks: &Clocks, slot: Slot, time: Time) {
        let number = time as usize - 1;
        let touched = self.cells.touched_by(self.trace, EventId::new(number));
        self.start = touched.start;
        let kind = Kind::of(self.trace.events.ops()[number]).expect("touches memory");
        for cell in touched {
            self.visit(clocks, slot, time, cell, kind);
        }
    }

    fn access(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, cell: usize, kind: Kind) -> bool {
        if !self.watches(cell) {
            if kind.op().is_atomic() {
                // What it releases, a plain write takes away.
                self.inner.watch(cell);
            }
            return false;
        }
        let races = self.inner.races(clocks, slot, cell, kind);
        if races && self.on_the_way && self.log_of[cell] == 0 {
            self.open_log(clocks, time, cell);
        }
        if self.log_of[cell] != 0 {
            self.start = cell;
            self.visit(clocks, slot, time, cell, kind);
        }
        self.inner.learn(clocks, slot, cell, kind);
        self.inner.record(clocks, slot, time, cell, kind);
        races
    }

    fn quick_accesses(&mut self, clocks: &mut Clocks, accesses: Accesses) -> usize {
        self.inner.quick_accesses(clocks, accesses)
    }

    fn start_window(&mut self, time: Time) {
        self.floor = time;
        self.inner.start_window(time);
    }

    fn roots(&self, mark: &mut dyn FnMut(u32)) {
        self.inner.roots(mark);
    }

    fn root_count(&self) -> usize {
        self.inner.root_count()
    }

    fn memory(&self) -> usize {
        self.inner.memory()
    }
}

/// A memory that takes down the clocks of wanted events.
pub(crate) struct Capture<M> {
    inner: M,
    /// Ascending.
    wanted: Vec<u32>,
    next: usize,
    threads: usize,
    times: HashMap<u32, Vec<EventId>>,
}

impl<M: Memory> Capture<M> {
    pub fn new(inner: M, wanted: Vec<u32>, threads: usize) -> Self {
        Capture { inner, wanted, next: 0, threads, times: HashMap::new() }
    }

    pub fn into_times(self) -> HashMap<u32, Vec<EventId>> {
        self.times
    }
}

impl<M: Memory> Memory for Capture<M> {
    fn races(&self, clocks: &Clocks, slot: Slot, cell: usize, kind: Kind) -> bool {
        self.inner.races(clocks, slot, cell, kind)
    }

    fn learn(&mut self, clocks: &mut Clocks, slot: Slot, cell: usize, kind: Kind) {
        self.inner.learn(clocks, slot, cell, kind);
    }

    fn record(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, cell: usize, kind: Kind) {
        self.inner.record(clocks, slot, time, cell, kind);
    }

    #[inline(always)]
    fn arrive(&mut self, clocks: &Clocks, slot: Slot, time: Time) {
        if self.wanted.get(self.next) == Some(&(time - 1)) {
            self.times.insert(time - 1, per_thread(clocks, slot, time, self.threads));
            self.next += 1;
        }
    }

    fn pass_by(&mut self, clocks: &Clocks, slot: Slot, time: Time) {
        self.arrive(clocks, slot, time);
    }

    fn access(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, cell: usize, kind: Kind) -> bool {
        self.arrive(clocks, slot, time);
        self.inner.access(clocks, slot, time, cell, kind)
    }

    fn quick_accesses(&mut self, clocks: &mut Clocks, accesses: Accesses) -> usize {
        let before_wanted = match self.wanted.get(self.next) {
            Some(&wanted) => (wanted + 1).saturating_sub(accesses.time) as usize,
            None => accesses.len(),
        };
        self.inner.quick_accesses(clocks, accesses.up_to(before_wanted.min(accesses.len())))
    }

    fn start_window(&mut self, time: Time) {
        self.inner.start_window(time);
    }

    fn roots(&self, mark: &mut dyn FnMut(u32)) {
        self.inner.roots(mark);
    }

    fn root_count(&self) -> usize {
        self.inner.root_count()
    }

    fn memory(&self) -> usize {
        self.inner.memory()
    }
}
