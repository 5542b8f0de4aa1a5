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

use crate::maximal::counts::Row;
use crate::maximal::index::Index;
use crate::maximal::memory::Source;
use crate::maximal::query::Undecided;
use crate::maximal::sections::{Hold, Section};
use crate::maximal::solver::{Outcome, Stop};
use crate::maximal::z3::library::{Arithmetic, Context, Solver, Term};
use snag_model::Level;
use snag_model::{EventId, Op};
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
enum Truth {
    Known(bool),
    Open(Term),
}

/// When an event happens.
#[derive(Clone, Copy)]
enum Time {
    /// Before the part of the trace that is encoded.
    Past,
    At(Term),
    /// It is not encoded: so it does not happen.
    Never,
}

/// The formula for a part of a trace.
pub(crate) struct Encoding<'z, 'i, 't> {
    index: &'i Index<'t>,
    solver: Solver<'z>,
    /// What happened before this is as it was.
    base: EventId,
    /// Per thread how many events came before `base`, and how many may happen.
    first: Vec<u32>,
    cut: Vec<u32>,
    /// Where the target is.
    now: Term,
    /// Per thread the integers of its events from `first` to `cut`.
    times: Vec<Vec<Term>>,
    /// At `control`, for reads: that the thread has read up to there what it read in the trace.
    faithful: HashMap<EventId, Term>,
    refuted: bool,
    parts: usize,
    started: Instant,
    options: Options,
}

type Step = Result<(), Undecided>;

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

    fn time(&self, event: EventId) -> Time {
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
    fn before(&self, a: EventId, b: EventId) -> Truth {
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

    fn happens(&self, event: EventId) -> Truth {
        match self.time(event) {
            Time::Past => Truth::Known(true),
            Time::At(time) => Truth::Open(self.solver.less(time, self.now)),
            Time::Never => Truth::Known(false),
        }
    }

    fn not(&self, truth: Truth) -> Truth {
        match truth {
            Truth::Known(known) => Truth::Known(!known),
            Truth::Open(term) => Truth::Open(self.solver.not(term)),
        }
    }

    fn any(&self, parts: impl IntoIterator<Item = Truth>) -> Truth {
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

    fn all(&self, parts: impl IntoIterator<Item = Truth>) -> Truth {
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

    fn require(&mut self, truth: Truth) -> Step {
        match truth {
            Truth::Known(known) => self.refuted |= !known,
            Truth::Open(term) => self.solver.require(term),
        }
        self.spend(1)
    }

    fn require_any<const N: usize>(&mut self, parts: [Truth; N]) -> Step {
        let any = self.any(parts);
        self.require(any)
    }

    /// Gives up in time.
    fn spend(&mut self, parts: usize) -> Step {
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

    // The rules.

    /// The events that may happen, of one thread.
    fn events(&self, thread: usize) -> &'i [EventId] {
        &self.index.threads.events(thread)[self.first[thread] as usize..self.cut[thread] as usize]
    }

    /// Rules 1 and 3, and what of rule 2 is an order. It holds for events that do not happen as well: so what comes
    /// after one of these does not happen either.
    fn order(&mut self) -> Step {
        let Index { threads, hard, .. } = self.index;
        for thread in 0..threads.count() {
            let mut known = None;
            for &event in self.events(thread) {
                if let Some(previous) = threads.previous(event) {
                    self.follows(previous, event)?;
                }
                let row = hard.row(event);
                let known_of = |other: usize| known.map_or(0, |known: Row| known.get(other));
                for other in (0..threads.count()).filter(|&other| other != thread && row.get(other) > known_of(other)) {
                    self.follows(threads.event(other, row.get(other) - 1), event)?;
                }
                known = Some(row);
            }
        }
        Ok(())
    }

    fn follows(&mut self, earlier: EventId, later: EventId) -> Step {
        let truth = match (self.time(earlier), self.time(later)) {
            (Time::At(earlier), Time::At(later)) => Truth::Open(self.solver.less(earlier, later)),
            (Time::Never, _) => unreachable!("what may happen is closed under hard order"),
            _ => Truth::Known(true),
        };
        self.require(truth)
    }

    /// Of two sections that exclude each other one ends before the other begins, unless one of them does not happen.
    fn locks(&mut self) -> Step {
        let sections = self.sections();
        for (at, a) in sections.iter().enumerate() {
            for b in sections[..at].iter().rev().take_while(|b| a.lock == b.lock) {
                if a.thread == b.thread || !hold(a).excludes(hold(b)) {
                    continue;
                }
                let ends_before = |encoding: &Self, first: &Section, second: &Section| match first.end {
                    Some(end) => encoding.before(end, second.start),
                    None => Truth::Known(false),
                };
                let (one, other) = (ends_before(self, b, a), ends_before(self, a, b));
                let (no_a, no_b) = (self.not(self.happens(a.start)), self.not(self.happens(b.start)));
                self.require_any([one, other, no_a, no_b])?;
            }
        }
        Ok(())
    }

    /// The sections that have begun before `base` and not ended, and those that may begin. By lock.
    fn sections(&self) -> Vec<Section> {
        let Index { threads, sections, .. } = self.index;
        let mut all = Vec::new();
        for thread in 0..threads.count() {
            let open = sections.held(thread, self.first[thread]).iter();
            all.extend(open.map(|&hold| *sections.get(sections.open(threads, thread, hold, self.first[thread]))));
            let begins =
                |&&event: &&EventId| matches!(self.index.op(event), Op::Acquire | Op::ReadAcquire | Op::WaitEnd);
            let begun = self.events(thread).iter().filter(begins).filter_map(|&event| sections.of_event(event));
            all.extend(begun.map(|section| *sections.get(section)));
        }
        all.sort_by_key(|section| (section.lock, section.start));
        all
    }

    /// Rule 4.
    fn reads(&mut self) -> Step {
        let index = self.index;
        for thread in 0..index.threads.count() {
            let mut last: Option<EventId> = None;
            for &event in self.events(thread) {
                let op = index.op(event);
                if op.reads() {
                    let kept = self.kept(event);
                    if index.level == Level::Control {
                        // Faithful so far, so faithful before.
                        let before = self.is_faithful(last);
                        let not = self.not(kept);
                        self.require_any([not, before])?;
                    }
                    last = Some(event);
                } else if index.level == Level::Control && matches!(op, Op::Branch | Op::MethodBegin) {
                    let (faithful, not) = (self.is_faithful(last), self.not(self.happens(event)));
                    self.require_any([not, faithful])?;
                }
            }
        }
        for thread in 0..index.threads.count() {
            for &event in self.events(thread).iter().filter(|&&event| index.op(event).reads()) {
                self.read(event)?;
            }
        }
        Ok(())
    }

    /// That a read must see what it may see.
    fn kept(&mut self, read: EventId) -> Truth {
        match self.index.level {
            Level::Control => {
                let solver = &mut self.solver;
                Truth::Open(*self.faithful.entry(read).or_insert_with(|| solver.boolean()))
            }
            _ => self.happens(read),
        }
    }

    /// At `control`: that a thread has read up to its last read, if any, what it read in the trace.
    fn is_faithful(&mut self, last: Option<EventId>) -> Truth {
        match last {
            Some(read) if read >= self.base => self.kept(read),
            _ => Truth::Known(true),
        }
    }

    /// The last read that what a write leaves depends on.
    fn depends_on(&self, write: EventId) -> Option<EventId> {
        let threads = &self.index.threads;
        let first = threads.position(write) + (self.index.op(write) == Op::Rmw) as u32;
        let earlier = (0..first).rev().map(|position| threads.event(threads.thread(write), position));
        earlier.take_while(|&event| event >= self.base).find(|&event| self.index.op(event).reads())
    }

    /// A read that must be kept sees in each cell one of the writes it may see.
    fn read(&mut self, read: EventId) -> Step {
        let kept = self.kept(read);
        for cell in self.index.memory.cells_of(read) {
            let mut ways = vec![self.not(kept)];
            for source in sources(self.index, read, cell, self.base, &self.cut) {
                ways.push(self.sees(read, cell, source)?);
            }
            let any = self.any(ways);
            self.require(any)?;
        }
        Ok(())
    }

    /// That a read sees what a source leaves: no other write comes between, and what it leaves is known.
    fn sees(&mut self, read: EventId, cell: usize, source: Source) -> Result<Truth, Undecided> {
        let source = source.filter(|&write| write >= self.base);
        let mut parts = Vec::new();
        if let Some(write) = source {
            parts.push(self.before(write, read));
            if self.index.level == Level::Control {
                let needed = self.depends_on(write);
                parts.push(self.is_faithful(needed));
            }
        }
        for list in self.index.memory.writes(cell) {
            for &other in in_window(self.index, list.events, list.thread, self.base, &self.cut) {
                if other != read && Some(other) != source {
                    let earlier = source.map_or(Truth::Known(false), |write| self.before(other, write));
                    parts.push(self.any([earlier, self.before(read, other)]));
                }
            }
        }
        self.spend(parts.len())?;
        Ok(self.all(parts))
    }

    /// The wait that a wake-up ends began before the notify that it names.
    fn wakes(&mut self) -> Step {
        for thread in 0..self.index.threads.count() {
            for &wake in self.events(thread).iter().filter(|&&event| self.index.op(event) == Op::Wake) {
                if let Some(named) = self.index.wakes.get(&wake) {
                    let (not, began) = (self.not(self.happens(wake)), self.before(named.wait, named.notify));
                    self.require_any([not, began])?;
                }
            }
        }
        Ok(())
    }

    /// Every wait has a post before it to itself, or one of the units that were there at the start.
    fn semaphores(&mut self) -> Step {
        for semaphore in &self.index.semaphores {
            let window = |encoding: &Self, events: &[EventId]| -> Vec<EventId> {
                let may = |event: &&EventId| matches!(encoding.time(**event), Time::At(_));
                events[events.partition_point(|&event| event < encoding.base)..].iter().filter(may).copied().collect()
            };
            let past = |events: &[EventId]| events.partition_point(|&event| event < self.base);
            let units = semaphore.initial as usize + past(&semaphore.posts) - past(&semaphore.waits);
            let (waits, posts) = (window(self, &semaphore.waits), window(self, &semaphore.posts));
            if units >= waits.len() {
                continue;
            }
            let mut takes_unit = Vec::new();
            let mut takes_post = vec![Vec::new(); posts.len()];
            for &wait in &waits {
                let mut ways = vec![self.not(self.happens(wait))];
                let unit = self.solver.boolean();
                takes_unit.push(unit);
                ways.push(Truth::Open(unit));
                for (&post, takes) in posts.iter().zip(&mut takes_post) {
                    let earlier = self.before(post, wait);
                    if !matches!(earlier, Truth::Known(false)) {
                        let taken = self.solver.boolean();
                        takes.push(taken);
                        ways.push(self.all([Truth::Open(taken), earlier]));
                    }
                }
                let any = self.any(ways);
                self.require(any)?;
            }
            self.at_most(units, &takes_unit)?;
            for takes in &takes_post {
                self.at_most(1, takes)?;
            }
        }
        Ok(())
    }

    /// Of these at most so many hold. Counts in unary: after each one, whether there were at least 1, 2, … so far.
    fn at_most(&mut self, most: usize, terms: &[Term]) -> Step {
        let mut count: Vec<Truth> = vec![Truth::Known(false); most];
        for &term in terms {
            let not = self.not(Truth::Open(term));
            let full = count.last().map_or(Truth::Known(true), |&last| last);
            let room = self.not(full);
            self.require_any([not, room])?;
            let mut next = Vec::with_capacity(most);
            for at in 0..most {
                let now = Truth::Open(self.solver.boolean());
                let fewer = if at == 0 { Truth::Known(false) } else { self.not(count[at - 1]) };
                self.require_any([self.not(count[at]), now])?;
                self.require_any([not, fewer, now])?;
                next.push(now);
            }
            count = next;
        }
        Ok(())
    }

    /// An access comes before its block is freed.
    fn lifetimes(&mut self) -> Step {
        if !self.index.has_frees() {
            return Ok(());
        }
        for thread in 0..self.index.threads.count() {
            for &access in self.events(thread) {
                if let Some(free) = self.index.free_of(access) {
                    let (not, earlier) = (self.not(self.happens(access)), self.before(access, free));
                    self.require_any([not, earlier])?;
                }
            }
        }
        Ok(())
    }

    /// All these events are now: so what hard order puts before them happens, and what it puts after them does not.
    fn target(&mut self, events: &[EventId]) -> Step {
        let threads = &self.index.threads;
        for &event in events {
            match self.time(event) {
                Time::Past => self.require(Truth::Known(false))?,
                Time::At(time) => self.require(Truth::Open(self.solver.equal(time, self.now)))?,
                Time::Never => {
                    let own = threads.thread(event);
                    let row = self.index.hard.row(event);
                    for thread in 0..threads.count() {
                        let count = if thread == own { threads.position(event) } else { row.get(thread) };
                        if let Some(last) = count.checked_sub(1) {
                            self.require(self.happens(threads.event(thread, last)))?;
                        }
                    }
                }
            }
            if let Some(free) = self.index.free_of(event) {
                self.require(self.not(self.happens(free)))?;
            }
        }
        Ok(())
    }
}

fn hold(section: &Section) -> Hold {
    Hold { lock: section.lock, shared: section.shared }
}

/// Of a thread's events in a list, those from `base` on that may happen.
fn in_window<'e>(index: &Index, events: &'e [EventId], thread: usize, base: EventId, cut: &[u32]) -> &'e [EventId] {
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
