//! One pass over a trace: clocks, synchronisation, and a memory of accesses.
//!
//! The three orders differ only in the [`Memory`] they keep; what synchronises
//! is the same for all ([`crate::sync`]).

use crate::clocks::{Clocks, Slot, Time};
use crate::happens_before::epochs::Epochs;
use crate::happens_before::forced::Forced;
use crate::happens_before::pairs::{Capture, Limits, Logged, Racing};
use crate::happens_before::vectors::Vectors;
use crate::sync::Sync;
use snag_model::{Cells, EventId, LockId, MemoryOrder, Op, ThreadId, Trace};
use std::collections::HashMap;

/// The partial orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Happens-before.
    Hb,
    /// Schedulable happens-before.
    Shb,
    /// Happens-before, with every race it reports turned into an order.
    Fhb,
}

/// How histories of accesses are kept; the verdicts are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// One epoch where that is enough.
    Epochs,
    /// Whole vectors always.
    Vectors,
}

/// What critical sections order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sections {
    /// What they did in the trace.
    AsObserved,
    /// Nothing: in other schedules they may come the other way round.
    InAnyOrder,
}

impl Sections {
    pub(crate) fn of(self, sync: Sync) -> Sync {
        match self {
            Sections::AsObserved => sync,
            Sections::InAnyOrder => sync.without_locks(),
        }
    }
}

/// Kinds of events that touch memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    Write,
    AtomicRead,
    AtomicWrite,
    Rmw,
    Free,
}

impl Kind {
    pub fn of(op: Op) -> Option<Kind> {
        Some(match op {
            Op::Read => Kind::Read,
            Op::Write => Kind::Write,
            Op::AtomicRead => Kind::AtomicRead,
            Op::AtomicWrite => Kind::AtomicWrite,
            Op::Rmw => Kind::Rmw,
            Op::Free => Kind::Free,
            _ => return None,
        })
    }

    pub fn op(self) -> Op {
        match self {
            Kind::Read => Op::Read,
            Kind::Write => Op::Write,
            Kind::AtomicRead => Op::AtomicRead,
            Kind::AtomicWrite => Op::AtomicWrite,
            Kind::Rmw => Op::Rmw,
            Kind::Free => Op::Free,
        }
    }

    pub fn reads(self) -> bool {
        matches!(self, Kind::Read | Kind::AtomicRead | Kind::Rmw)
    }

    pub fn writes(self) -> bool {
        matches!(self, Kind::Write | Kind::AtomicWrite | Kind::Rmw)
    }
}

/// Events some of which may be plain accesses.
#[derive(Clone, Copy)]
pub(crate) struct Accesses<'t> {
    ops: &'t [Op],
    threads: &'t [ThreadId],
    targets: &'t [u32],
    /// Time of the first one.
    pub time: Time,
}

impl<'t> Accesses<'t> {
    fn of(trace: &'t Trace, from: usize, to: usize) -> Accesses<'t> {
        let events = &trace.events;
        let (ops, threads) = (&events.ops()[from..to], &events.threads()[from..to]);
        Accesses { ops, threads, targets: &events.targets()[from..to], time: from as Time + 1 }
    }

    /// How many events these are.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// The first ones.
    pub fn up_to(self, len: usize) -> Accesses<'t> {
        let Accesses { ops, threads, targets, time } = self;
        Accesses { ops: &ops[..len], threads: &threads[..len], targets: &targets[..len], time }
    }

    /// Operation, thread and target of each.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = ((&'t Op, &'t ThreadId), &'t u32)> {
        self.ops.iter().zip(self.threads).zip(self.targets)
    }
}

/// What is remembered of accesses, cell by cell.
pub(crate) trait Memory {
    /// Whether accesses to a cell are of any interest.
    fn watches(&self, _cell: usize) -> bool {
        true
    }

    /// Whether an access would race with an earlier one. The thread's clock holds
    /// all that happens before the access, but not yet the write that it reads.
    fn races(&self, clocks: &Clocks, slot: Slot, cell: usize, kind: Kind) -> bool;

    /// Adds the orders that an access brings to its thread.
    fn learn(&mut self, clocks: &mut Clocks, slot: Slot, cell: usize, kind: Kind);

    /// Remembers an access.
    fn record(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, cell: usize, kind: Kind);

    /// Told of every event that touches memory, before it is judged.
    fn arrive(&mut self, _clocks: &Clocks, _slot: Slot, _time: Time) {}

    /// Told of every event that touches no memory, before what it learns.
    fn pass_by(&mut self, _clocks: &Clocks, _slot: Slot, _time: Time) {}

    /// Judges and performs an access to a single cell.
    #[inline(never)]
    fn access(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, cell: usize, kind: Kind) -> bool {
        let races = self.races(clocks, slot, cell, kind);
        self.learn(clocks, slot, cell, kind);
        self.record(clocks, slot, time, cell, kind);
        races
    }

    /// Performs plain reads and writes, each of a cell that is its target, up to the first event that is something else
    /// or where it is not quick or not clear at once that nothing races. How many that were.
    fn quick_accesses(&mut self, _clocks: &mut Clocks, _accesses: Accesses) -> usize {
        0
    }

    /// Accesses to this cell are not quick any more.
    fn watch(&mut self, _cell: usize) {}

    /// From here on, accesses up to `time` count no more as racing.
    fn start_window(&mut self, time: Time);

    /// Every row referred to from here.
    fn roots(&self, mark: &mut dyn FnMut(u32));

    /// About how many rows [`Memory::roots`] looks at.
    fn root_count(&self) -> usize;

    /// Bytes in use.
    fn memory(&self) -> usize;
}

/// What a first pass found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Warnings {
    /// Events that race with an earlier event, ascending.
    pub events: Vec<EventId>,
    /// Cells on which that happened.
    pub racy: Vec<bool>,
    /// Bytes the pass needed for clocks and histories.
    pub memory: usize,
    /// How many events it looked at: all, unless it was told to stop.
    pub done: usize,
}

/// Finds the events that race with an earlier one. `tick` is told the number of
/// events done now and then, and says whether to go on.
pub fn warnings(
    trace: &Trace,
    cells: &Cells,
    order: Order,
    variant: Variant,
    window: Option<usize>,
    tick: &mut dyn FnMut(usize) -> bool,
) -> Warnings {
    let n = cells.count();
    match (order, variant) {
        (Order::Hb, Variant::Epochs) => Pass::new(trace, cells, Epochs::<false>::new(n), window).run(tick),
        (Order::Shb, Variant::Epochs) => Pass::new(trace, cells, Epochs::<true>::new(n), window).run(tick),
        (Order::Hb, Variant::Vectors) => Pass::new(trace, cells, Vectors::<false>::new(n), window).run(tick),
        (Order::Shb, Variant::Vectors) => Pass::new(trace, cells, Vectors::<true>::new(n), window).run(tick),
        (Order::Fhb, _) => Pass::new(trace, cells, Forced::new(n), window).run(tick),
    }
}

/// Names the racing pairs on the cells where a first pass found races, as far as
/// that pass came.
pub fn pairs(
    trace: &Trace,
    cells: &Cells,
    order: Order,
    warnings: &Warnings,
    window: Option<usize>,
    limits: Limits,
    tick: &mut dyn FnMut(usize) -> bool,
) -> Racing {
    let n = cells.count();
    match order {
        Order::Hb => logged(trace, cells, Epochs::<false>::new(n), warnings, window, limits, tick),
        Order::Shb => logged(trace, cells, Epochs::<true>::new(n), warnings, window, limits, tick),
        Order::Fhb => logged(trace, cells, Forced::new(n), warnings, window, limits, tick),
    }
}

/// Finds the racing events and names their pairs: in one pass where memory is
/// simple and few cells race, else as [`warnings`] and [`pairs`] do. What was found
/// until `tick` says stop is named all the same, unless `name` says stop, too.
pub fn find(
    trace: &Trace,
    cells: &Cells,
    order: Order,
    window: Option<usize>,
    limits: Limits,
    tick: &mut dyn FnMut(usize) -> bool,
    name: &mut dyn FnMut(usize) -> bool,
) -> (Warnings, Racing) {
    let n = cells.count();
    let once = match order {
        Order::Hb => found_at_once(on_the_way(trace, cells, Epochs::<false>::new(n), window, limits), tick),
        Order::Shb => found_at_once(on_the_way(trace, cells, Epochs::<true>::new(n), window, limits), tick),
        Order::Fhb => found_at_once(on_the_way(trace, cells, Forced::new(n), window, limits), tick),
    };
    match once {
        Ok(both) => both,
        Err(warnings) => {
            let found = pairs(trace, cells, order, &warnings, window, limits, name);
            (warnings, found)
        }
    }
}

/// Finds the pairs that are unordered by the rules of the standards, and that HB would order if every atomic access were
/// sequentially consistent, and how far it looked. With [`Sections::InAnyOrder`] they are pairs that some other schedule
/// may leave unordered.
pub fn by_memory_order(
    trace: &Trace,
    cells: &Cells,
    sections: Sections,
    window: Option<usize>,
    limits: Limits,
    tick: &mut dyn FnMut(usize) -> bool,
    name: &mut dyn FnMut(usize) -> bool,
) -> (Warnings, Racing) {
    if !may_race_by_order(trace) {
        return (Warnings { done: trace.len(), ..Warnings::default() }, Racing::nothing(true));
    }
    let memory = || Epochs::<false>::new(cells.count());
    let at_once = Logged::on_the_way(memory(), trace, cells, limits).by_memory_order(sections);
    let found = match found_at_once(Pass::declared(trace, cells, at_once, window, sections), tick) {
        Ok(both) => return both,
        Err(found) => found,
    };
    let memory = Logged::new(memory(), trace, cells, &found.racy, limits).by_memory_order(sections);
    let racing = named(Pass::declared(trace, cells, memory, window, sections), &found, name);
    (found, racing)
}

/// Whether there can be races by memory order: some atomic access is weaker than sequential consistency where
/// happens-before is concerned, or some attempt fails, which synchronises with nothing.
pub fn may_race_by_order(trace: &Trace) -> bool {
    use MemoryOrder::{Acquire, Relaxed, Release};
    use Op::{JoinFail, ReadTryFail, SemValue, TryFail};
    let weak = |op: Op, order: u32| match op {
        Op::AtomicRead | Op::AtomicWrite => order == Relaxed as u32,
        Op::Rmw => [Relaxed, Acquire, Release].iter().any(|&weak| weak as u32 == order),
        _ => false,
    };
    // Without the column every order is the first one, relaxed.
    let orders = trace.events.aux_column();
    let order = |index: usize| orders.get(index).copied().unwrap_or(0);
    let ops = trace.events.ops().iter().enumerate();
    ops.into_iter().any(|(index, &op)| match op {
        TryFail | ReadTryFail | SemValue | JoinFail => true,
        op => op.is_atomic() && weak(op, order(index)),
    })
}

/// A pass that names the pairs while it finds out which cells race.
fn on_the_way<'t, M: Memory>(
    trace: &'t Trace,
    cells: &'t Cells,
    memory: M,
    window: Option<usize>,
    limits: Limits,
) -> Pass<'t, Logged<'t, M>> {
    Pass::new(trace, cells, Logged::on_the_way(memory, trace, cells, limits), window)
}

/// `Err` with the warnings alone if the pairs could not be named on the way.
fn found_at_once<M: Memory>(
    mut pass: Pass<Logged<M>>,
    tick: &mut dyn FnMut(usize) -> bool,
) -> Result<(Warnings, Racing), Warnings> {
    if !pass.is_simple() {
        pass.memory.give_up();
    }
    let warnings = pass.run(tick);
    if pass.memory.has_given_up() && !warnings.events.is_empty() {
        return Err(warnings);
    }
    let mut found = pass.memory.into_found();
    found.complete &= warnings.done == pass.trace.len();
    Ok((warnings, found))
}

/// Takes down the clocks from which the schedules of pairs are read off. They
/// are those of SHB whatever order found the pairs: that is what makes them feasible.
pub fn take_schedules(trace: &Trace, cells: &Cells, found: &mut Racing, tick: &mut dyn FnMut(usize) -> bool) {
    let mut wanted: Vec<u32> = found.pairs.iter().flat_map(|p| [p.first.0, p.second.0]).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let until = wanted.last().map_or(0, |&last| last as usize + 1);
    let memory = Capture::new(Epochs::<true>::new(cells.count()), wanted, trace.tables.thread_count());
    let mut pass = Pass::new(trace, cells, memory, None);
    found.complete &= pass.run_until(until, tick).done == until;
    found.times = pass.memory.into_times();
}

/// What happens before each of some events under SHB, whatever they are: of every thread the events before the given
/// one. Those that `tick` leaves no time for are missing.
pub(crate) fn times_of(
    trace: &Trace,
    cells: &Cells,
    mut wanted: Vec<u32>,
    tick: &mut dyn FnMut(usize) -> bool,
) -> HashMap<u32, Vec<EventId>> {
    wanted.sort_unstable();
    wanted.dedup();
    let until = wanted.last().map_or(0, |&last| last as usize + 1);
    let memory = Capture::new(Epochs::<true>::new(cells.count()), wanted, trace.tables.thread_count());
    let mut pass = Pass::new(trace, cells, memory, None);
    let mut found = Warnings { racy: vec![false; cells.count()], ..Warnings::default() };
    let mut from = 0;
    while from < until {
        from = pass.stretch(from, (from + STRIDE).min(until), &mut found);
        pass.collect();
        if !tick(from) {
            break;
        }
    }
    pass.memory.into_times()
}

/// What happens before (or is) each event, for tests and explanations: of every
/// thread the events before the given one. Takes memory for every event and thread.
pub fn timestamps(trace: &Trace, cells: &Cells, order: Order, variant: Variant) -> Vec<Vec<EventId>> {
    let n = cells.count();
    match (order, variant) {
        (Order::Hb, Variant::Epochs) => Pass::new(trace, cells, Epochs::<false>::new(n), None).timestamps(),
        (Order::Shb, Variant::Epochs) => Pass::new(trace, cells, Epochs::<true>::new(n), None).timestamps(),
        (Order::Hb, Variant::Vectors) => Pass::new(trace, cells, Vectors::<false>::new(n), None).timestamps(),
        (Order::Shb, Variant::Vectors) => Pass::new(trace, cells, Vectors::<true>::new(n), None).timestamps(),
        (Order::Fhb, _) => Pass::new(trace, cells, Forced::new(n), None).timestamps(),
    }
}

fn logged<M: Memory>(
    trace: &Trace,
    cells: &Cells,
    memory: M,
    warnings: &Warnings,
    window: Option<usize>,
    limits: Limits,
    tick: &mut dyn FnMut(usize) -> bool,
) -> Racing {
    let memory = Logged::new(memory, trace, cells, &warnings.racy, limits);
    named(Pass::new(trace, cells, memory, window), warnings, tick)
}

/// The pairs that a memory logs up to the last warning.
fn named<M: Memory>(mut pass: Pass<Logged<M>>, warnings: &Warnings, tick: &mut dyn FnMut(usize) -> bool) -> Racing {
    let all = pass.trace.len();
    // Nothing races after the last warning.
    let until = warnings.events.last().map_or(0, |e| e.index() + 1);
    let done = pass.run_until(until, tick).done;
    let mut found = pass.memory.into_found();
    found.complete &= done == until && warnings.done == all;
    found
}

/// The times that a clock gives for each thread of a trace.
pub(crate) fn per_thread(clocks: &Clocks, slot: Slot, time: Time, threads: usize) -> Vec<EventId> {
    (0..threads)
        .map(|thread| match clocks.slot_if_seen(ThreadId::new(thread)) {
            None => EventId(0),
            Some(own) if own == slot => EventId(time - 1),
            Some(other) => EventId(clocks.known(slot, other)),
        })
        .collect()
}

/// One pass over a trace.
struct Pass<'t, M> {
    trace: &'t Trace,
    cells: &'t Cells,
    clocks: Clocks,
    sync: Sync,
    memory: M,
    window: Option<usize>,
}

/// Between two looks at the clock rows in use, and two reports of progress.
const STRIDE: usize = 4096;

/// The same if events touch many cells each: after so many cells.
const MOST_TOUCHED: usize = 1 << 17;

impl<'t, M: Memory> Pass<'t, M> {
    fn new(trace: &'t Trace, cells: &'t Cells, memory: M, window: Option<usize>) -> Self {
        let clocks = Clocks::new(trace.tables.thread_count());
        Pass { trace, cells, clocks, sync: Sync::new(trace, cells), memory, window }
    }

    /// With what synchronises by the standards.
    fn declared(trace: &'t Trace, cells: &'t Cells, memory: M, window: Option<usize>, sections: Sections) -> Self {
        let clocks = Clocks::new(trace.tables.thread_count());
        Pass { trace, cells, clocks, sync: sections.of(Sync::declared(trace, cells)), memory, window }
    }

    /// Whether cells are variables, and plain accesses of those that are never accessed atomically take part in nothing
    /// but races.
    fn is_simple(&self) -> bool {
        self.cells.are_variables() && !self.sync.has_methods() && !self.sync.has_grounds()
    }

    fn run(&mut self, tick: &mut dyn FnMut(usize) -> bool) -> Warnings {
        self.run_until(self.trace.len(), tick)
    }

    fn run_until(&mut self, until: usize, tick: &mut dyn FnMut(usize) -> bool) -> Warnings {
        let mut found = Warnings { racy: vec![false; self.cells.count()], ..Warnings::default() };
        let simple = self.is_simple();
        let mut from = 0;
        while from < until {
            let mut to = (from + STRIDE).min(until);
            if let Some(window) = self.window {
                let next = from - from % window + window;
                to = to.min(next);
                if from.is_multiple_of(window) {
                    self.memory.start_window(from as Time);
                }
            }
            if simple {
                self.simple_stretch(from, to, &mut found)
            } else {
                to = self.stretch(from, to, &mut found);
            }
            self.collect();
            from = to;
            if !tick(to) {
                break;
            }
        }
        found.done = from;
        found.memory = self.clocks.memory() + self.memory.memory();
        found
    }

    fn collect(&mut self) {
        if self.clocks.wants_collection() {
            let (sync, memory) = (&self.sync, &self.memory);
            self.clocks.collect(sync.root_count() + memory.root_count(), |mark| {
                sync.roots(mark);
                memory.roots(mark);
            });
        }
    }

    fn timestamps(&mut self) -> Vec<Vec<EventId>> {
        let mut found = Warnings { racy: vec![false; self.cells.count()], ..Warnings::default() };
        let threads = self.trace.tables.thread_count();
        (0..self.trace.len())
            .map(|number| {
                self.stretch(number, number + 1, &mut found);
                let slot = self.clocks.slot(self.trace.events.threads()[number]);
                per_thread(&self.clocks, slot, number as Time + 2, threads)
            })
            .collect()
    }

    /// For a trace that [`Pass::is_simple`]. Goes by the columns: it spends a few nanoseconds on an access or a lock.
    fn simple_stretch(&mut self, from: usize, to: usize, found: &mut Warnings) {
        let mut number = from;
        let atomics = self.sync.orders_accesses();
        loop {
            number += self.memory.quick_accesses(&mut self.clocks, Accesses::of(self.trace, number, to));
            if number == to {
                break;
            }
            let events = &self.trace.events;
            let (op, target) = (events.ops()[number], events.targets()[number]);
            let slot = self.clocks.slot(events.threads()[number]);
            let (time, cell) = (number as Time + 1, target as usize);
            let races = match op {
                Op::Read => self.memory.access(&mut self.clocks, slot, time, cell, Kind::Read),
                Op::Write if !atomics => self.memory.access(&mut self.clocks, slot, time, cell, Kind::Write),
                Op::Write | Op::AtomicRead | Op::AtomicWrite | Op::Rmw => self.variable(slot, number, cell),
                Op::Acquire => {
                    self.sync.acquire(&mut self.clocks, slot, LockId(target));
                    false
                }
                Op::Release => {
                    self.sync.release(&mut self.clocks, slot, time, LockId(target));
                    false
                }
                _ => self.any_event(slot, number, found),
            };
            if races {
                found.racy[cell] = true;
                found.events.push(EventId(number as u32));
            }
            number += 1;
        }
    }

    /// An access to a variable that may be accessed atomically, too.
    fn variable(&mut self, slot: Slot, number: usize, cell: usize) -> bool {
        let Pass { trace, clocks, sync, memory, .. } = self;
        let (event, time) = (trace.events.without_values(number), number as Time + 1);
        sync.before_access(clocks, slot, &event, cell);
        let races = memory.access(clocks, slot, time, cell, Kind::of(event.op).expect("touches memory"));
        sync.after_access(clocks, slot, time, &event, cell);
        races
    }

    /// How far it came: not to the end if its events touch very many cells.
    fn stretch(&mut self, from: usize, to: usize, found: &mut Warnings) -> usize {
        let mut touched = 0;
        for number in from..to {
            let slot = self.clocks.slot(self.trace.events.threads()[number]);
            if self.any_event(slot, number, found) {
                found.events.push(EventId(number as u32));
            }
            if self.trace.events.ops()[number].touches_memory() {
                touched += self.cells.touched_by(self.trace, EventId::new(number)).len();
                if touched > MOST_TOUCHED {
                    return number + 1;
                }
            }
        }
        to
    }

    /// An event with everything that may come with it.
    #[inline(never)]
    fn any_event(&mut self, slot: Slot, number: usize, found: &mut Warnings) -> bool {
        let event = self.trace.events.get(number);
        let time = number as Time + 1;
        self.sync.enter_event(&mut self.clocks, slot, number);
        let mut races = false;
        match Kind::of(event.op) {
            None => {
                self.memory.pass_by(&self.clocks, slot, time);
                self.sync.event(&mut self.clocks, slot, number, &event)
            }
            Some(kind) => {
                let touched = self.cells.touched_by(self.trace, EventId::new(number));
                let ordered = self.sync.orders_accesses();
                if ordered {
                    self.sync.before_touch(&mut self.clocks, slot, number, self.cells);
                    for cell in touched.clone() {
                        self.sync.before_access(&mut self.clocks, slot, &event, cell);
                    }
                }
                if !touched.clone().any(|cell| self.memory.watches(cell)) {
                    if ordered {
                        touched.for_each(|cell| self.sync.after_access(&mut self.clocks, slot, time, &event, cell));
                    }
                    self.sync.leave_event(&mut self.clocks, slot, time);
                    return false;
                }
                self.memory.arrive(&self.clocks, slot, time);
                // All cells are judged before any is performed: what the event itself reads must not count.
                for cell in touched.clone() {
                    if self.memory.races(&self.clocks, slot, cell, kind) {
                        found.racy[cell] = true;
                        races = true;
                    }
                }
                // And all that it learns is learned before any of it is published: who knows an event knows all
                // that its thread knew then.
                for cell in touched.clone() {
                    self.memory.learn(&mut self.clocks, slot, cell, kind);
                }
                for cell in touched {
                    self.memory.record(&mut self.clocks, slot, time, cell, kind);
                    if ordered {
                        self.sync.after_access(&mut self.clocks, slot, time, &event, cell);
                    }
                }
            }
        }
        self.sync.leave_event(&mut self.clocks, slot, time);
        races
    }
}
