//! The formula: one integer per event, and what docs/model.md demands of a schedule as differences of them.
//!
//! Huang, Meredith, Roşu: Maximal Sound Predictive Race Detection with Control Flow Abstraction (PLDI 2014).
//!
//! Guarantee: the formula, together with a target ([`Encoding::aim`]), has a solution if and only if a feasible schedule
//! leads to the target; read in the order of the integers, the events before `now` are one.
//! Deviation: an event that does not happen comes after `now`, so the same integers say what is in the schedule; and all
//! operations of the model are there. A read happens only if it is kept (levels `writer` and `value`): one that need not be
//! kept is the last event of its thread and nothing depends on it, so a schedule can do without it.
//! Cost: for each lock the pairs of its sections, and for each cell reads × possible writes × writes.

use crate::maximal::index::Index;
use crate::maximal::memory::Source;
use crate::maximal::query::Undecided;
use crate::maximal::solver::{Outcome, Stop};
use crate::maximal::z3::library::{Arithmetic, Context, Solver, Term};
use snag_model::EventId;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A formula of more parts than this would take gigabytes.
const MOST_PARTS: usize = 15_000_000;
/// After so many parts the clock is looked at.
const PARTS_PER_LOOK: usize = 4096;

/// How to ask, and how long to try.
#[derive(Clone, Default)]
pub struct Options {
    /// Which of Z3's solvers to use.
    pub arithmetic: Arithmetic,
    /// For making the formula and solving it.
    pub timeout: Option<Duration>,
    /// Asked now and then whether to give up.
    pub stop: Option<Stop>,
}

/// Something that is known, or a formula.
#[derive(Clone, Copy)]
pub(super) enum Truth {
    Known(bool),
    Open(Term),
}

/// When an event happens.
#[derive(Clone, Copy)]
pub(super) enum Time {
    /// Before the part of the trace that is encoded.
    Past,
    At(Term),
    /// It is not encoded: so it does not happen.
    Never,
}

/// The formula for a part of a trace.
pub(crate) struct Encoding<'z, 'i, 't> {
    pub(super) index: &'i Index<'t>,
    pub(super) solver: Solver<'z>,
    /// What happened before this is as it was.
    pub(super) base: EventId,
    /// Per thread how many events came before `base`, and how many may happen.
    pub(super) first: Vec<u32>,
    pub(super) cut: Vec<u32>,
    /// Where the target is.
    pub(super) now: Term,
    /// Per thread the integers of its events from `first` to `cut`.
    times: Vec<Vec<Term>>,
    /// At `control`, for reads: that the thread has read up to there what it read in the trace.
    pub(super) faithful: HashMap<EventId, Term>,
    refuted: bool,
    parts: usize,
    started: Instant,
    options: Options,
}

pub(super) type Step = Result<(), Undecided>;

impl<'z, 'i, 't> Encoding<'z, 'i, 't> {
    /// Of each thread, the events before its count in `cut` may happen; those before `base` do as they did. What
    /// hard order puts before an event that may happen must be included.
    pub fn new(
        context: &'z Context,
        index: &'i Index<'t>,
        base: EventId,
        cut: Vec<u32>,
        options: &Options,
    ) -> Result<Self, Undecided> {
        let mut solver = Solver::new(context, options.arithmetic);
        let now = solver.integer();
        let first: Vec<u32> = (0..cut.len()).map(|thread| index.threads.count_before(thread, base)).collect();
        let times = first.iter().zip(&cut).map(|(&from, &to)| (from..to).map(|_| solver.integer()).collect());
        let mut encoding = Encoding {
            times: times.collect(),
            index,
            solver,
            base,
            first,
            cut,
            now,
            faithful: HashMap::new(),
            refuted: false,
            parts: 0,
            started: Instant::now(),
            options: options.clone(),
        };
        encoding.order()?;
        encoding.locks()?;
        encoding.reads()?;
        encoding.wakes()?;
        encoding.semaphores()?;
        encoding.probes()?;
        encoding.lifetimes()?;
        Ok(encoding)
    }

    /// Looks for a schedule after which all these events come next.
    pub fn aim(&mut self, events: &[EventId], options: &Options) -> Result<Option<Vec<EventId>>, Undecided> {
        (self.started, self.parts, self.options) = (Instant::now(), 0, options.clone());
        if self.refuted {
            return Ok(None);
        }
        self.solver.push();
        let found = self.target(events).and_then(|()| match self.refuted {
            true => Ok(None),
            false => self.solve(),
        });
        self.solver.pop();
        self.refuted = false;
        found
    }

    fn solve(&self) -> Result<Option<Vec<EventId>>, Undecided> {
        let left = self.options.timeout.map(|timeout| timeout.saturating_sub(self.started.elapsed()));
        match self.solver.check(left, self.options.stop.as_ref()) {
            Outcome::Satisfiable => Ok(Some(self.schedule())),
            Outcome::Unsatisfiable => Ok(None),
            Outcome::Stopped => Err(Undecided::Stopped),
        }
    }

    /// What happens before now. Only strict orders are demanded anywhere, so events at the same time may come in any order.
    fn schedule(&self) -> Vec<EventId> {
        let now = self.solver.values(&[self.now])[0];
        let mut happen = Vec::new();
        for (thread, times) in self.times.iter().enumerate() {
            let values = self.solver.values(times).into_iter().take_while(|&time| time < now);
            let event = |at| self.index.threads.event(thread, self.first[thread] + at);
            happen.extend(values.zip(0..).map(|(time, at)| (time, event(at))));
        }
        happen.sort_unstable();
        happen.into_iter().map(|(_, event)| event).collect()
    }

    // Parts of formulas.

    pub(super) fn time(&self, event: EventId) -> Time {
        let (thread, position) = (self.index.threads.thread(event), self.index.threads.position(event));
        if event < self.base {
            Time::Past
        } else if position < self.cut[thread] {
            Time::At(self.times[thread][(position - self.first[thread]) as usize])
        } else {
            Time::Never
        }
    }

    /// That one event happens before another, or that the other does not happen.
    pub(super) fn before(&self, a: EventId, b: EventId) -> Truth {
        let Index { threads, hard, .. } = self.index;
        match (self.time(a), self.time(b)) {
            (Time::Past, Time::Past) => Truth::Known(a < b),
            (Time::Never, _) | (_, Time::Past) => Truth::Known(false),
            (Time::Past, _) | (_, Time::Never) => Truth::Known(true),
            _ if hard.reaches(threads, a, b) => Truth::Known(a != b),
            _ if hard.reaches(threads, b, a) => Truth::Known(false),
            (Time::At(a), Time::At(b)) => Truth::Open(self.solver.less(a, b)),
        }
    }

    pub(super) fn happens(&self, event: EventId) -> Truth {
        match self.time(event) {
            Time::Past => Truth::Known(true),
            Time::At(time) => Truth::Open(self.solver.less(time, self.now)),
            Time::Never => Truth::Known(false),
        }
    }

    pub(super) fn not(&self, truth: Truth) -> Truth {
        match truth {
            Truth::Known(known) => Truth::Known(!known),
            Truth::Open(term) => Truth::Open(self.solver.not(term)),
        }
    }

    pub(super) fn any(&self, parts: impl IntoIterator<Item = Truth>) -> Truth {
        let mut open = Vec::new();
        for part in parts {
            match part {
                Truth::Known(true) => return Truth::Known(true),
                Truth::Known(false) => {}
                Truth::Open(term) => open.push(term),
            }
        }
        match open[..] {
            [] => Truth::Known(false),
            [only] => Truth::Open(only),
            _ => Truth::Open(self.solver.any(&open)),
        }
    }

    pub(super) fn all(&self, parts: impl IntoIterator<Item = Truth>) -> Truth {
        let mut open = Vec::new();
        for part in parts {
            match part {
                Truth::Known(false) => return Truth::Known(false),
                Truth::Known(true) => {}
                Truth::Open(term) => open.push(term),
            }
        }
        match open[..] {
            [] => Truth::Known(true),
            [only] => Truth::Open(only),
            _ => Truth::Open(self.solver.all(&open)),
        }
    }

    pub(super) fn require(&mut self, truth: Truth) -> Step {
        match truth {
            Truth::Known(known) => self.refuted |= !known,
            Truth::Open(term) => self.solver.require(term),
        }
        self.spend(1)
    }

    pub(super) fn require_any<const N: usize>(&mut self, parts: [Truth; N]) -> Step {
        let any = self.any(parts);
        self.require(any)
    }

    /// Gives up in time.
    pub(super) fn spend(&mut self, parts: usize) -> Step {
        let looked = self.parts / PARTS_PER_LOOK;
        self.parts += parts;
        if self.parts > MOST_PARTS {
            return Err(Undecided::TooLarge);
        }
        if self.parts / PARTS_PER_LOOK == looked {
            return Ok(());
        }
        let Options { timeout, stop, .. } = &self.options;
        let late = timeout.is_some_and(|timeout| self.started.elapsed() > timeout);
        if late || stop.as_ref().is_some_and(|stop| stop()) { Err(Undecided::Stopped) } else { Ok(()) }
    }
}

/// Of a thread's events in a list, those from `base` on that may happen.
pub(super) fn in_window<'e>(
    index: &Index,
    events: &'e [EventId],
    thread: usize,
    base: EventId,
    cut: &[u32],
) -> &'e [EventId] {
    let from = events.partition_point(|&event| event < base);
    let to = events.partition_point(|&event| index.threads.position(event) < cut[thread]);
    &events[from..to.max(from)]
}

/// What a read may see in a cell, as far as hard order tells: not what another write always hides, nor what always comes later.
/// All that was written before `base` is one source: the last of these.
pub(crate) fn sources(index: &Index, read: EventId, cell: usize, base: EventId, cut: &[u32]) -> Vec<Source> {
    let Index { threads, hard, memory, .. } = index;
    let always = |a: EventId, b: EventId| a != b && hard.reaches(threads, a, b);
    let latest = |list: &[EventId]| list[..list.partition_point(|&write| always(write, read))].last().copied();
    let lists: Vec<_> = memory.writes(cell).map(|list| in_window(index, list.events, list.thread, base, cut)).collect();
    let hiding: Vec<EventId> = lists.iter().filter_map(|list| latest(list)).collect();
    let mut sources = Vec::new();
    for &write in lists.iter().copied().flatten().filter(|&&write| write != read) {
        let hidden = hiding.iter().any(|&other| always(write, other));
        if !hidden && !always(read, write) && memory.may_see(read, cell, Some(write)) {
            sources.push(Some(write));
        }
    }
    let before = memory.last_before(cell, base);
    if hiding.is_empty() && memory.may_see(read, cell, before) {
        sources.push(before);
    }
    sources
}
