//! The rules of docs/model.md, one by one, as parts of the formula.

use crate::maximal::counts::Row;
use crate::maximal::index::Index;
use crate::maximal::memory::Source;
use crate::maximal::query::Undecided;
use crate::maximal::sections::{Hold, Section};
use crate::maximal::z3::encoding::{Encoding, Step, Time, Truth, in_window, sources};
use crate::maximal::z3::library::Term;
use snag_model::Level;
use snag_model::{Action, EventId, Mode, Op, Probe, SemId};

impl<'z, 'i, 't> Encoding<'z, 'i, 't> {
    /// The events that may happen, of one thread.
    fn events(&self, thread: usize) -> &'i [EventId] {
        &self.index.threads.events(thread)[self.first[thread] as usize..self.cut[thread] as usize]
    }

    /// Rules 1 and 3, and what of rule 2 is an order. It holds for events that do not happen as well: so what comes
    /// after one of these does not happen either.
    pub(super) fn order(&mut self) -> Step {
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
    pub(super) fn locks(&mut self) -> Step {
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
    pub(super) fn reads(&mut self) -> Step {
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
    pub(super) fn wakes(&mut self) -> Step {
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
    pub(super) fn semaphores(&mut self) -> Step {
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

    /// Attempts fail as they did: a section of another thread is around each, a semaphore counts what it did, a thread has
    /// not ended.
    pub(super) fn probes(&mut self) -> Step {
        let Index { threads, trace, .. } = self.index;
        let sections = self.sections();
        for thread in 0..threads.count() {
            for &event in self.events(thread).iter().filter(|&&event| self.index.op(event).probes()) {
                let Action::Probe(probe) = trace.action(event) else { continue };
                let mut ways = vec![self.not(self.happens(event))];
                match probe {
                    Probe::Held { lock, mode } => {
                        let wanted = Hold { lock, shared: mode == Mode::Shared };
                        for section in sections.iter().filter(|section| section.thread != thread) {
                            if wanted.excludes(hold(section)) {
                                let begun = self.before(section.start, event);
                                let open = section.end.map_or(Truth::Known(true), |end| self.before(event, end));
                                ways.push(self.all([begun, open]));
                            }
                        }
                    }
                    Probe::Count { semaphore, count } => {
                        let is_right = self.counts(event, semaphore, i64::from(count))?;
                        ways.push(is_right);
                    }
                    Probe::Alive { thread } => {
                        let all: Vec<Truth> =
                            self.index.ends_of(thread).iter().map(|&end| self.before(event, end)).collect();
                        ways.push(self.all(all));
                    }
                }
                let any = self.any(ways);
                self.require(any)?;
            }
        }
        Ok(())
    }

    /// That a semaphore counts so much at an event: of the posts before it and the waits not before it together exactly as
    /// many happen as that takes.
    fn counts(&mut self, event: EventId, semaphore: SemId, count: i64) -> Result<Truth, Undecided> {
        let index = self.index;
        let semaphore = &index.semaphores[semaphore.index()];
        let past = |events: &[EventId]| events.partition_point(|&other| other < self.base) as i64;
        let units = i64::from(semaphore.initial) + past(&semaphore.posts) - past(&semaphore.waits);
        let may = |other: &&EventId| **other >= self.base && matches!(self.time(**other), Time::At(_));
        let posts: Vec<EventId> = semaphore.posts.iter().filter(may).copied().collect();
        let waits: Vec<EventId> = semaphore.waits.iter().filter(may).copied().collect();
        let Ok(wanted) = usize::try_from(count - units + waits.len() as i64) else { return Ok(Truth::Known(false)) };
        // Two events may have the same time if no rule looks at their order; this one does.
        for &other in posts.iter().chain(&waits) {
            let (before, after) = (self.before(other, event), self.before(event, other));
            self.require_any([self.not(self.happens(event)), before, after])?;
        }
        let mut literals: Vec<Truth> = posts.into_iter().map(|post| self.before(post, event)).collect();
        for wait in waits {
            let before = self.before(wait, event);
            literals.push(self.not(before));
        }
        if wanted > literals.len() {
            return Ok(Truth::Known(false));
        }
        self.spend(literals.len() * (wanted + 1))?;
        // In unary: after each one, whether there were at least 1, 2, … so far.
        let mut so_far = vec![Truth::Known(false); wanted + 1];
        for literal in literals {
            let mut next = Vec::with_capacity(so_far.len());
            for at in 0..so_far.len() {
                let fewer = if at == 0 { Truth::Known(true) } else { so_far[at - 1] };
                let one_more = self.all([literal, fewer]);
                next.push(self.any([so_far[at], one_more]));
            }
            so_far = next;
        }
        let enough = if wanted == 0 { Truth::Known(true) } else { so_far[wanted - 1] };
        let not_more = self.not(so_far[wanted]);
        Ok(self.all([enough, not_more]))
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
    pub(super) fn lifetimes(&mut self) -> Step {
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
    pub(super) fn target(&mut self, events: &[EventId]) -> Step {
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
