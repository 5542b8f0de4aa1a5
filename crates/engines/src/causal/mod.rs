//! CP and WCP: orders weaker than happens-before, and their races.
//!
//! A trace is [reduced](reduce), its critical sections are listed, for CP the fixpoint
//! is swept, and one more pass over the events judges the accesses: [`races`]. By default every
//! race that is found is put in order before the pass goes on, so that the guarantee
//! of the first race holds for the next ones too; or else all unordered pairs are listed.

mod conflicts;
mod cp;
mod engine;
mod histories;
mod keep;
mod pass;
mod reduce;
mod sections;
mod wcp;

use crate::clocks::Time;
use crate::happens_before::epochs::Epochs;
use crate::happens_before::pairs::{Limits, LocationPair, Logged, Racing};
use crate::happens_before::run::{Kind, Memory, Warnings};
use cp::{Cp, Sources};
pub use engine::{CP, WCP};
use histories::Histories;
use pass::{Pass, Rules};
pub use reduce::{Reduced, reduce};
use sections::Sections;
use snag_model::{Cells, EventId, Trace};
use std::collections::HashMap;
use wcp::Wcp;

/// The two relations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    /// Causally-precedes.
    Cp,
    /// Weak-causally-precedes.
    Wcp,
}

/// What to look for.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Which relation.
    pub relation: Relation,
    /// CP: the paper's window, in events of the reduced trace; sections farther apart are taken to be ordered, and
    /// accesses farther apart not to race. WCP: pairs inside windows of so many events.
    pub window: Option<usize>,
    /// Leave out what does not matter.
    pub reduce: bool,
    /// List all unordered pairs, instead of putting every race in order when it is found.
    pub all: bool,
    /// How much is named.
    pub limits: Limits,
}

/// What was found, and how.
#[derive(Clone, Debug, Default)]
pub struct Races {
    /// Events that race with an earlier event.
    pub warnings: Warnings,
    /// The pairs.
    pub found: Racing,
    /// Events of the reduced trace.
    pub reduced: usize,
    /// How often the fixpoint of CP was swept; 0 for WCP.
    pub sweeps: u32,
}

/// Between two looks at the rows in use, and two reports of progress.
const STRIDE: usize = 4096;

/// Finds the races of CP or WCP. `tick` is told the number of events done now and then, over
/// and over for every sweep, and says whether to go on.
pub fn races(trace: &Trace, cells: &Cells, settings: &Settings, tick: &mut dyn FnMut(usize) -> bool) -> Races {
    let work = Work::new(trace, cells, settings);
    match settings.relation {
        Relation::Wcp => work.judge(|| Wcp::new(work.sections.locks.len()), 0, tick),
        Relation::Cp => match work.fixpoint(tick) {
            Ok((mut cp, sweeps)) => {
                cp.sweeping = false;
                let mut cp = Some(cp);
                let again = work.settings.all.then(|| cp.as_ref().expect("not yet used").clone());
                let mut rules = cp.take().into_iter().chain(again);
                work.judge(|| rules.next().expect("at most two passes"), sweeps, tick)
            }
            Err(sweeps) => Races {
                warnings: Warnings { racy: vec![false; cells.count()], ..Warnings::default() },
                found: Racing::nothing(false),
                reduced: work.events.len(),
                sweeps,
            },
        },
    }
}

/// What causally precedes each event, for tests and explanations: of every thread the events before the given one. With
/// `eager`, clocks that are said to be unused are overwritten at once.
pub fn preceding(
    trace: &Trace,
    cells: &Cells,
    relation: Relation,
    window: Option<usize>,
    eager: bool,
) -> Vec<Vec<EventId>> {
    let settings = Settings { relation, window, reduce: false, all: true, limits: Limits::default() };
    let work = Work { eager, ..Work::new(trace, cells, &settings) };
    match relation {
        Relation::Wcp => work.preceding(&mut Wcp::new(work.sections.locks.len())),
        Relation::Cp => {
            let (mut cp, _) = work.fixpoint(&mut |_| true).expect("nothing stops it");
            cp.sweeping = false;
            work.preceding(&mut cp)
        }
    }
}

/// A trace made ready.
struct Work<'t> {
    trace: &'t Trace,
    cells: &'t Cells,
    settings: Settings,
    events: Vec<u32>,
    sections: Sections,
    eager: bool,
}

impl<'t> Work<'t> {
    fn new(trace: &'t Trace, cells: &'t Cells, settings: &Settings) -> Work<'t> {
        let Reduced { events, shared_locks } = reduce(trace, cells, !settings.reduce, settings.limits.all_pairs);
        let sections = Sections::of(trace, &events, &shared_locks);
        Work { trace, cells, settings: *settings, events, sections, eager: false }
    }

    fn pass(&self) -> Pass<'_> {
        let mut pass = Pass::new(self.trace, self.cells, &self.sections);
        pass.eager = self.eager;
        pass
    }

    /// Sweeps until no section is found to come after another one too late. `Err` if it was told to stop.
    fn fixpoint(&self, tick: &mut dyn FnMut(usize) -> bool) -> Result<(Cp, u32), u32> {
        let mut sources = Sources::conflicting(self.trace, self.cells, &self.events, &self.sections);
        if let Some(window) = self.settings.window {
            sources.add_distant(self.trace, &self.events, &self.sections, window);
        }
        let mut cp = Cp { sources, stale: 0, sweeping: true };
        let mut kept = Vec::new();
        let events = match self.pass().accesses_synchronise() {
            true => &self.events,
            false => {
                let ops = self.trace.events.ops();
                kept.extend(self.events.iter().copied().filter(|&e| !ops[e as usize].touches_memory()));
                &kept
            }
        };
        for sweep in 1.. {
            cp.stale = 0;
            let mut pass = self.pass();
            for chunk in events.chunks(STRIDE) {
                for &number in chunk {
                    let slot = pass.slot(self.trace.events.threads()[number as usize]);
                    self.step(&mut pass, &mut cp, slot, number as usize, |_, _| {});
                }
                let done = chunk.last().map_or(0, |&e| e as usize + 1);
                pass.collect(&cp, done, |_| {}, |_| {});
                if !tick(done) {
                    return Err(sweep);
                }
            }
            pass.finish(&mut cp);
            if cp.stale == 0 {
                return Ok((cp, sweep));
            }
        }
        unreachable!("sources only grow, and there are finitely many")
    }

    /// One event; `judge` is called for those that touch memory, when all that is before them is known.
    #[inline(always)]
    fn step<'p>(
        &self,
        pass: &mut Pass<'p>,
        rules: &mut impl Rules,
        slot: u32,
        number: usize,
        judge: impl FnOnce(&mut Pass<'p>, Kind),
    ) {
        match Kind::of(self.trace.events.ops()[number]) {
            None => pass.synchronise(rules, slot, number),
            Some(kind) => {
                pass.before_access(rules, slot, number, kind);
                judge(pass, kind);
                pass.after_access(slot, number);
            }
        }
    }

    fn preceding(&self, rules: &mut impl Rules) -> Vec<Vec<EventId>> {
        let mut pass = self.pass();
        let each = self.events.iter().map(|&number| {
            let slot = pass.slot(self.trace.events.threads()[number as usize]);
            self.step(&mut pass, rules, slot, number as usize, |_, _| {});
            pass.collect(rules, number as usize + 1, |_| {}, |_| {});
            pass.preceding(slot)
        });
        each.collect()
    }

    fn judge<R: Rules>(&self, mut rules: impl FnMut() -> R, sweeps: u32, tick: &mut dyn FnMut(usize) -> bool) -> Races {
        let (warnings, found) = if self.settings.all {
            let memory = Epochs::<false>::new(self.cells.count());
            let (warnings, _) = self.unordered(rules(), memory, tick);
            let memory = Epochs::<false>::new(self.cells.count());
            let limits = self.settings.limits;
            let logged = Logged::new(memory, self.trace, self.cells, &warnings.racy, limits);
            let until = warnings.events.last().map_or(0, |e| e.index() + 1);
            let (_, logged) = self.unordered(rules(), logged, &mut |done| done < until);
            let mut found = logged.into_found();
            found.complete &= warnings.done == self.trace.len();
            (warnings, found)
        } else {
            self.one_by_one(rules(), tick)
        };
        Races { warnings, found, reduced: self.events.len(), sweeps }
    }

    /// All events that are unordered with an earlier one they conflict with.
    fn unordered<R: Rules, M: Memory>(
        &self,
        mut rules: R,
        mut memory: M,
        tick: &mut dyn FnMut(usize) -> bool,
    ) -> (Warnings, M) {
        let mut pass = self.pass();
        let mut found = Warnings { racy: vec![false; self.cells.count()], ..Warnings::default() };
        let mut window = Window::new(self);
        let mut memory_used = 0;
        for (index, chunk) in self.events.chunks(STRIDE).enumerate() {
            for (at, &number) in chunk.iter().enumerate() {
                let slot = pass.slot(self.trace.events.threads()[number as usize]);
                if let Some(floor) = window.moves_to(index * STRIDE + at, number) {
                    memory.start_window(floor);
                }
                self.step(&mut pass, &mut rules, slot, number as usize, |pass, kind| {
                    let (order, time) = (&mut pass.order, number as Time + 1);
                    let touched = self.cells.touched_by(self.trace, EventId(number));
                    memory.arrive(order, slot, time);
                    let mut races = false;
                    for cell in touched.clone() {
                        if memory.races(order, slot, cell, kind) {
                            found.racy[cell] = true;
                            races = true;
                        }
                    }
                    for cell in touched {
                        memory.record(order, slot, time, cell, kind);
                    }
                    if races {
                        found.events.push(EventId(number));
                    }
                });
            }
            found.done = chunk.last().map_or(0, |&e| e as usize + 1);
            pass.collect(&rules, found.done, |_| {}, |mark| memory.roots(mark));
            memory_used = memory_used.max(pass.memory() + memory.memory() + rules.memory());
            if !tick(found.done) {
                found.memory = memory_used;
                return (found, memory);
            }
        }
        (found.done, found.memory) = (self.trace.len(), memory_used);
        (found, memory)
    }

    /// Races, each put in order when it is found.
    fn one_by_one<R: Rules>(&self, mut rules: R, tick: &mut dyn FnMut(usize) -> bool) -> (Warnings, Racing) {
        let mut pass = self.pass();
        let mut histories = Histories::new(self.cells.count());
        let mut warnings = Warnings { racy: vec![false; self.cells.count()], ..Warnings::default() };
        let mut named = Named {
            trace: self.trace,
            limits: self.settings.limits,
            known: HashMap::new(),
            found: Racing::nothing(true),
        };
        let mut window = Window::new(self);
        let mut racing = Vec::new();
        for (index, chunk) in self.events.chunks(STRIDE).enumerate() {
            for (at, &number) in chunk.iter().enumerate() {
                let slot = pass.slot(self.trace.events.threads()[number as usize]);
                if let Some(floor) = window.moves_to(index * STRIDE + at, number) {
                    histories.floor = floor;
                }
                self.step(&mut pass, &mut rules, slot, number as usize, |pass, kind| {
                    histories.access(pass, slot, number as usize, kind, &mut racing);
                });
                if !racing.is_empty() {
                    warnings.events.push(EventId(number));
                    racing.drain(..).for_each(|first| named.add(first, EventId(number)));
                }
            }
            warnings.done = chunk.last().map_or(0, |&e| e as usize + 1);
            pass.collect(&rules, warnings.done, |mark| histories.roots(mark), |_| {});
            warnings.memory = warnings.memory.max(pass.memory() + histories.memory() + rules.memory());
            if !tick(warnings.done) {
                named.found.complete = false;
                return (warnings, named.found);
            }
        }
        warnings.done = self.trace.len();
        (warnings, named.found)
    }
}

/// Races on their way into a list: one for each pair of locations, or for each pair of events.
struct Named<'t> {
    trace: &'t Trace,
    limits: Limits,
    known: HashMap<(u64, u64), usize>,
    found: Racing,
}

impl Named<'_> {
    fn add(&mut self, first: EventId, second: EventId) {
        let pair = LocationPair { first, second, count: 1 };
        let key = match self.limits.all_pairs {
            true => (first.0 as u64, second.0 as u64),
            false => pair.key(self.trace),
        };
        match self.known.get(&key) {
            Some(&index) => self.found.pairs[index].count += 1,
            None if self.found.pairs.len() == self.limits.pairs => self.found.complete = false,
            None => {
                self.known.insert(key, self.found.pairs.len());
                self.found.pairs.push(pair);
            }
        }
    }
}

/// Which accesses are too far back to race.
struct Window<'w> {
    events: &'w [u32],
    size: Option<usize>,
    /// The window slides over the reduced trace; else the trace is cut into windows.
    slides: bool,
    floor: Time,
}

impl<'w> Window<'w> {
    fn new(work: &'w Work) -> Window<'w> {
        let Settings { window: size, relation, .. } = work.settings;
        Window { events: &work.events, size, slides: relation == Relation::Cp, floor: 0 }
    }

    /// The time up to which accesses are out of the window of an event, if that is new.
    #[inline(always)]
    fn moves_to(&mut self, index: usize, number: u32) -> Option<Time> {
        let size = self.size?;
        let floor = match self.slides {
            true => index.checked_sub(size).map_or(0, |first| self.events[first]),
            false => number - (number as usize % size) as u32,
        };
        (floor != self.floor).then(|| {
            self.floor = floor;
            floor
        })
    }
}
