//! Executes a schedule, event by event, and stops at the first broken rule.
//!
//! The state is what `docs/model.md` speaks of and nothing else: how far each
//! thread has run, who holds which lock, which write each cell holds. Reads and
//! writes of memory that is not heap, and locks, take a few array look-ups each.
//!
//! A read that sees something else is not wrong by itself; it is if its thread goes
//! on (levels `writer` and `value`) or comes to a branch (level `control`). So it is
//! remembered and judged when that happens.

use crate::facts::{DONE, Facts, NOT_FORKED};
use crate::locks::Locks;
use crate::source::{Source, Sources};
use crate::symbolic::Values;
use crate::violation::{ScheduleRule, Violation};
use snag_model::Level;
use snag_model::{Action, BarrierId, Else, EventId, Fault, LockId, Mode, Op, Probe, SemId, Space, ThreadId, VarId};
use std::collections::{HashMap, HashSet};
use std::hint::select_unpredictable;

pub(crate) type Check = Result<(), Violation>;

/// The state after the events executed so far.
#[derive(Clone)]
pub(crate) struct Machine<'f> {
    facts: &'f Facts<'f>,
    level: Level,
    /// How many events have been executed.
    steps: usize,
    threads: Vec<Thread>,
    /// Whether every variable is a cell of its own and none is heap.
    simple_memory: bool,
    memory: Sources,
    locks: Locks,
    semaphores: Vec<i64>,
    /// How many have entered each barrier.
    entered: Vec<u64>,
    /// The wait that each thread is in.
    waits: Vec<Wait>,
    /// When each notify was executed.
    notified: HashMap<EventId, usize>,
    /// Wake-ups that are said to come for no reason.
    spurious: HashSet<EventId>,
    /// What everything is worth, at level `symbolic`; then `memory` is not used.
    values: Option<Box<Values<'f>>>,
}

/// Where a thread stands.
#[derive(Clone)]
struct Thread {
    /// Its next event; or [`DONE`], or [`NOT_FORKED`].
    next: EventId,
    /// Its first read that saw something else. From then on nothing is known
    /// about the values it writes.
    misread: Option<Misread>,
}

/// A read that saw something else than in the trace.
#[derive(Clone, Copy)]
struct Misread {
    read: EventId,
    cell: usize,
    /// What it should have seen.
    seen: Source,
    /// What it found instead.
    found: Source,
}

/// A wait that has begun.
#[derive(Clone, Copy, Default)]
struct Wait {
    /// When it began.
    began: usize,
    /// How often the lock was held.
    holds: u32,
}

impl<'f> Machine<'f> {
    /// Before the first event.
    pub fn new(facts: &'f Facts<'f>, level: Level) -> Machine<'f> {
        Machine::diverging(facts, level, Vec::new())
    }

    /// The same for a schedule in which some branches go the other way, which they do only at level `symbolic`.
    pub fn diverging(facts: &'f Facts<'f>, level: Level, diverging: Vec<EventId>) -> Machine<'f> {
        let tables = &facts.trace.tables;
        let start = |(&first, fork): (&EventId, &Option<EventId>)| Thread {
            next: if fork.is_some() { NOT_FORKED } else { first },
            misread: None,
        };
        // Without branches every read counts, unless expressions say what depends on it.
        let level = match level {
            Level::Control if !facts.has_branches => Level::Value,
            Level::Symbolic if !facts.has_branches && facts.symbolic().is_empty() => Level::Value,
            level => level,
        };
        let values = (level == Level::Symbolic).then(|| Box::new(Values::new(facts, diverging)));
        Machine {
            facts,
            level,
            steps: 0,
            threads: facts.first.iter().zip(&facts.fork).map(start).collect(),
            simple_memory: facts.heap.is_none() && facts.cells.are_variables() && values.is_none(),
            memory: Sources::new(if values.is_none() { facts.cells.count() } else { 0 }),
            locks: Locks::new(tables.lock_count(), facts.has_read_locks),
            semaphores: facts.semaphores.clone(),
            entered: vec![0; tables.names(Space::Barrier).len()],
            waits: vec![Wait::default(); tables.thread_count()],
            notified: HashMap::new(),
            spurious: HashSet::new(),
            values,
        }
    }

    /// The same for a schedule in which some wake-ups come for no reason.
    pub fn with_spurious(self, wakes: &[EventId]) -> Machine<'f> {
        Machine { spurious: wakes.iter().copied().collect(), ..self }
    }

    /// Does something from here on, and takes it back.
    pub fn aside<R>(&mut self, what: impl FnOnce(&mut Machine<'f>) -> R) -> R {
        // Everything but memory is small.
        let memory = std::mem::replace(&mut self.memory, Sources::new(0));
        let mut aside = self.clone();
        aside.memory = memory;
        aside.memory.note();
        let result = what(&mut aside);
        aside.memory.take_back();
        self.memory = aside.memory;
        result
    }

    /// Whether an event has been executed: its thread has gone beyond it.
    #[inline]
    pub fn has_happened(&self, event: EventId) -> bool {
        self.threads[self.facts.trace.thread_of(event).index()].next > event
    }

    /// Executes the next event of the schedule.
    ///
    /// Every check of every witness comes through here, a few nanoseconds an event; so accesses and plain locks are told
    /// apart and executed from the columns. Everything else is an [`Action`].
    #[inline(always)]
    pub fn execute(&mut self, id: EventId) -> Check {
        let facts = self.facts;
        let events = &facts.trace.events;
        let index = id.index();
        let Some(&next) = facts.next.get(index) else { return Err(facts.unknown(id)) };
        let thread = events.threads()[index];
        let state = &mut self.threads[thread.index()];
        if state.next != id {
            return Err(self.out_of_order(id, thread));
        }
        state.next = next;
        let op = events.ops()[index];
        if let Some(misread) = state.misread {
            self.go_on(misread, op, id)?;
        }
        if let Some(values) = &self.values {
            values.is_on_its_side(id, thread, op)?;
            if self.in_call(id) {
                values.has_not_strayed(id, thread)?;
            }
        }
        if facts.missing.is_some() {
            self.missing_methods(id)?;
        }
        self.steps += 1;
        let target = events.targets()[index];
        if self.simple_memory & op.is_plain_access() {
            return self.simple_access(id, thread, VarId(target), op == Op::Write);
        }
        match op {
            Op::Read | Op::AtomicRead => self.read(id, thread, VarId(target)),
            Op::Write | Op::AtomicWrite => self.write(id, thread, VarId(target)),
            Op::Rmw => {
                self.read(id, thread, VarId(target))?;
                self.write(id, thread, VarId(target))
            }
            Op::Acquire => {
                self.free_to_acquire(id, thread, LockId(target), Mode::Exclusive)?;
                self.locks.acquire(thread, LockId(target), 1);
                Ok(())
            }
            Op::Release => {
                self.locks.release(LockId(target));
                Ok(())
            }
            _ => self.execute_rare(id, thread),
        }
    }

    /// The operations that are neither plain accesses nor plain locks. Not inlined,
    /// to keep the loop over those small.
    #[inline(never)]
    fn execute_rare(&mut self, id: EventId, thread: ThreadId) -> Check {
        match self.facts.trace.action(id) {
            Action::Acquire { lock, mode: Mode::Shared, .. } => {
                self.free_to_acquire(id, thread, lock, Mode::Shared)?;
                self.locks.read_acquire(thread, lock);
            }
            Action::Release { lock, mode: Mode::Shared } => self.locks.read_release(thread, lock),
            Action::Fork { thread: child, .. } => self.threads[child.index()].next = self.facts.first[child.index()],
            Action::Join { thread: child, .. } => self.join(id, child)?,
            Action::WaitBegin { lock, .. } => {
                let holds = self.locks.give_up(lock);
                self.waits[thread.index()] = Wait { began: self.steps, holds };
            }
            Action::Wake { by, .. } => self.wake(id, thread, by)?,
            Action::WaitEnd { lock, .. } => {
                self.free_to_acquire(id, thread, lock, Mode::Exclusive)?;
                self.locks.acquire(thread, lock, self.waits[thread.index()].holds);
            }
            Action::Notify { .. } | Action::NotifyAll { .. } => {
                self.notified.insert(id, self.steps);
            }
            Action::SemPost { semaphore } => self.semaphores[semaphore.index()] += 1,
            Action::SemWait { semaphore } => self.sem_wait(id, semaphore)?,
            Action::Probe(probe) => self.probe(id, thread, probe)?,
            Action::BarrierEnter { barrier } => {
                self.barrier(id, barrier, ScheduleRule::BarrierGenerations)?;
                self.entered[barrier.index()] += 1;
            }
            Action::BarrierLeave { barrier } => self.barrier(id, barrier, ScheduleRule::BarrierLeftEarly)?,
            Action::Free { .. } => self.lives(id)?,
            Action::Branch { .. } => {
                if let Some(values) = &mut self.values {
                    values.branch(id, thread)?;
                }
            }
            Action::Let { .. } => {
                if let Some(values) = &mut self.values {
                    values.define(id)?;
                }
            }
            action @ (Action::MethodBegin { .. } | Action::MethodEnd { .. }) => {
                let begins = matches!(action, Action::MethodBegin { .. });
                match &mut self.values {
                    Some(values) => values.hidden(id, begins)?,
                    None => self.hidden(id, begins)?,
                }
            }
            Action::Alloc { .. } | Action::Begin | Action::End | Action::Mark { .. } | Action::Reach { .. } => {}
            // They are about the recorded run alone.
            Action::Fault(_) => {}
            // Which order it makes matters only to races by memory order.
            Action::Fence { .. } => {}
            Action::Else(action) => self.other_side(id, thread, action)?,
            Action::Read { .. }
            | Action::Write { .. }
            | Action::AtomicRead { .. }
            | Action::AtomicWrite { .. }
            | Action::Rmw { .. }
            | Action::Acquire { mode: Mode::Exclusive, .. }
            | Action::Release { mode: Mode::Exclusive, .. } => unreachable!("executed by the caller"),
        }
        Ok(())
    }

    /// An event of the other side of a branch: if the branch went there it happens, else it means nothing.
    fn other_side(&mut self, id: EventId, thread: ThreadId, action: Else) -> Check {
        let Some(values) = self.values.as_mut().filter(|values| values.diverged(thread).is_some()) else {
            return Ok(());
        };
        match action {
            Else::Let { .. } => values.define(id),
            Else::Branch { .. } => values.branch_on_other_side(id),
            Else::Read { variable, .. } => {
                values.read_on_other_side(id, variable);
                self.lives(id)
            }
            Else::Write { variable, .. } => {
                values.write(id, thread, variable)?;
                self.lives(id)
            }
            Else::Acquire { lock } => {
                self.free_to_acquire(id, thread, lock, Mode::Exclusive)?;
                if self.locks.is_held_by(thread, lock) && self.facts.trace.tables.lock_is_plain(lock) {
                    return Err(self.lock_held(id, lock, thread));
                }
                self.locks.acquire(thread, lock, 1);
                Ok(())
            }
            Else::Release { lock } => {
                if !self.locks.is_held_by(thread, lock) {
                    let detail = format!("{} releases a lock that its thread does not hold", self.facts.text(id));
                    return Err(Violation::new(ScheduleRule::NotHeld, id, detail));
                }
                self.locks.release(lock);
                Ok(())
            }
        }
    }

    /// The values that the reads of the schedule took are those that the witness says.
    pub fn took(&self, said: &[(EventId, i64)]) -> Check {
        self.values.as_ref().map_or(Ok(()), |values| values.took(said))
    }

    /// The values that the reads of the schedule took.
    pub fn into_taken(self) -> Vec<(EventId, i64)> {
        self.values.map_or_else(Vec::new, |values| values.taken)
    }

    /// Every branch that was to go the other way has done so.
    pub fn all_diverged(&self) -> Check {
        let Some(branch) = self.values.as_ref().and_then(|values| values.not_diverged()) else { return Ok(()) };
        let detail = format!("{} is to go the other way but is not part of the schedule", self.facts.text(branch));
        Err(Violation::new(ScheduleRule::DoesNotDiverge, branch, detail))
    }

    // Reads and writes.

    /// What [`Machine::read`] and [`Machine::write`] do, for memory that is not heap and where a variable is a cell.
    /// Both take the same path, because which of the two comes next is hard to predict.
    #[inline(always)]
    fn simple_access(&mut self, id: EventId, thread: ThreadId, variable: VarId, writes: bool) -> Check {
        let cell = variable.index();
        let found = self.memory.get(cell);
        let known = self.threads[thread.index()].misread.is_none();
        let written = if known { Source::write(id) } else { Source::UNKNOWN };
        self.memory.set(cell, select_unpredictable(writes, written, found));
        if writes | (found == self.facts.seen.by_simple(id)) { Ok(()) } else { self.read(id, thread, variable) }
    }

    #[inline(always)]
    fn read(&mut self, id: EventId, thread: ThreadId, variable: VarId) -> Check {
        if self.facts.heap.is_some() {
            self.lives(id)?;
        }
        if let Some(values) = &mut self.values {
            values.read(id, thread, variable);
            return Ok(());
        }
        let cells = self.facts.cells.of_event(id.index(), variable.0);
        for (cell, &seen) in cells.clone().zip(self.facts.seen.by(id.index(), cells.len())) {
            let found = self.memory.get(cell);
            if found != seen && !self.same_value(id, cell, seen, found) {
                return self.misread(thread, Misread { read: id, cell, seen, found });
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn write(&mut self, id: EventId, thread: ThreadId, variable: VarId) -> Check {
        if self.facts.heap.is_some() {
            self.lives(id)?;
        }
        if let Some(values) = &mut self.values {
            return values.write(id, thread, variable);
        }
        let known = self.threads[thread.index()].misread.is_none();
        let source = if known { Source::write(id) } else { Source::UNKNOWN };
        for cell in self.facts.cells.of_event(id.index(), variable.0) {
            self.memory.set(cell, source);
        }
        Ok(())
    }

    /// Code that was not observed finds at its begin what it found in the trace, and may write what it could reach.
    fn hidden(&mut self, id: EventId, begins: bool) -> Check {
        let hidden = &self.facts.hidden;
        for access in hidden.at(id) {
            let (cell, seen) = (hidden.cell(access), hidden.seen[access]);
            let found = self.memory.get(cell);
            if begins && found != seen && !self.leaves_the_same(cell, seen, found) {
                let misread = Misread { read: id, cell, seen, found };
                return Err(self.not_kept(misread, "what the missing method does may depend on it".to_owned()));
            }
            self.memory.set(cell, Source::write(id));
        }
        Ok(())
    }

    /// Whether two sources are known to leave the same value in a cell.
    fn leaves_the_same(&self, cell: usize, seen: Source, found: Source) -> bool {
        let value = self.facts.value_left(seen, cell);
        let is_known = self.level != Level::Writer && value.is_some();
        is_known && value == self.facts.value_left(found, cell) && self.facts.means_the_same(seen, found)
    }

    /// Whether a read that finds another write finds the same value nevertheless:
    /// the trace explains what it read, and what it finds is known to be that.
    #[cold]
    fn same_value(&self, read: EventId, cell: usize, seen: Source, found: Source) -> bool {
        if self.level == Level::Writer {
            return false;
        }
        let value = self.facts.value_read(read, cell);
        let is_explained = value.is_some() && value == self.facts.value_left(seen, cell);
        is_explained && value == self.facts.value_left(found, cell) && self.facts.means_the_same(seen, found)
    }

    #[cold]
    fn misread(&mut self, thread: ThreadId, misread: Misread) -> Check {
        let is_rmw = self.facts.trace.events.ops()[misread.read.index()] == Op::Rmw;
        if is_rmw && self.level != Level::Control {
            return Err(self.not_kept(misread, "what it writes depends on what it reads".to_owned()));
        }
        self.threads[thread.index()].misread.get_or_insert(misread);
        Ok(())
    }

    /// A thread goes on although a read of it saw something else.
    #[cold]
    fn go_on(&self, misread: Misread, op: Op, id: EventId) -> Check {
        if self.level == Level::Control && op != Op::Branch && !self.in_call(id) {
            return Ok(());
        }
        Err(self.not_kept(misread, format!("its thread goes on with {}", self.facts.text(id))))
    }

    /// The schedule is over and an event of this thread is to come: so its last read
    /// is not the last event of its thread in the witness.
    pub fn leads_to(&self, id: EventId) -> Check {
        if let Some(values) = self.values.as_ref().filter(|_| self.in_call(id)) {
            values.has_not_strayed(id, self.facts.trace.thread_of(id))?;
        }
        match self.threads[self.facts.trace.thread_of(id).index()].misread {
            Some(misread) if self.level != Level::Control || self.in_call(id) => {
                Err(self.not_kept(misread, format!("{} is to come", self.facts.text(id))))
            }
            _ => Ok(()),
        }
    }

    fn not_kept(&self, misread: Misread, why_kept: String) -> Violation {
        let Misread { read, cell, seen, found } = misread;
        let rule = match self.level {
            _ if found == Source::UNKNOWN => ScheduleRule::UnknownValue,
            Level::Writer => ScheduleRule::OtherWrite,
            Level::Value | Level::Control | Level::Symbolic => ScheduleRule::OtherValue,
        };
        let value = |value: Option<u64>| value.map_or("unknown".to_owned(), |value| (value as i64).to_string());
        let source = |source: Source| match source.event() {
            Some(write) => self.facts.text(write),
            None if source == Source::INITIAL => "the initial memory".to_owned(),
            None => "a write of a thread that has read something else".to_owned(),
        };
        let values = match self.level {
            Level::Writer => String::new(),
            _ => format!(
                ": it read {}, {} is left there, and the trace left {}{}",
                value(self.facts.value_read(read, cell)),
                value(self.facts.value_left(found, cell)),
                value(self.facts.value_left(seen, cell)),
                if self.facts.means_the_same(seen, found) { "" } else { ", an address in another allocation" },
            ),
        };
        let detail = format!(
            "{} sees {} instead of {}{values}; it must be kept, as {why_kept}",
            self.facts.text(read),
            source(found),
            source(seen)
        );
        Violation::new(rule, read, detail)
    }

    /// An access finds its heap block live, a free its block allocated.
    pub fn lives(&self, id: EventId) -> Check {
        let Some(heap) = &self.facts.heap else { return Ok(()) };
        if self.facts.trace.events.ops()[id.index()] == Op::Free {
            let alloc = heap.alloc_of_free(id);
            return self.comes_after(id, alloc, ScheduleRule::FreeBeforeAlloc);
        }
        // An access lies inside one block or outside all: its first cell stands for the rest.
        let cell = self.facts.cells.touched_by(self.facts.trace, id).start;
        let Some(alloc) = self.facts.cells.allocated_by(cell) else { return Ok(()) };
        self.comes_after(id, alloc, ScheduleRule::AccessBeforeAlloc)?;
        match heap.freed_by(cell) {
            Some(free) if self.has_happened(free) => {
                let detail = format!("{} comes after {}", self.facts.text(id), self.facts.text(free));
                Err(Violation::new(ScheduleRule::AccessAfterFree, id, detail))
            }
            _ => Ok(()),
        }
    }

    // Threads and synchronisation.

    #[inline]
    fn free_to_acquire(&self, id: EventId, thread: ThreadId, lock: LockId, mode: Mode) -> Check {
        match self.locks.excluded_by(thread, lock, mode) {
            None => Ok(()),
            Some(holder) => Err(self.lock_held(id, lock, holder)),
        }
    }

    #[cold]
    fn lock_held(&self, id: EventId, lock: LockId, holder: ThreadId) -> Violation {
        let (lock, holder) = (self.facts.trace.tables.lock_name(lock), self.facts.thread_name(holder));
        let detail = format!("{} needs lock {lock}, which thread {holder} holds", self.facts.text(id));
        Violation::new(ScheduleRule::LockHeld, id, detail)
    }

    fn join(&self, id: EventId, child: ThreadId) -> Check {
        if let Some(fork) = self.missing_fork(child) {
            return Err(self.too_early(id, fork, ScheduleRule::EarlyJoin));
        }
        if let Some(branch) = self.values.as_ref().and_then(|values| values.diverged(child)) {
            let (text, branch) = (self.facts.text(id), self.facts.text(branch));
            let detail =
                format!("{text} comes after {branch}, which went the other way: its thread may not have ended");
            return Err(Violation::new(ScheduleRule::EarlyJoin, id, detail));
        }
        match self.threads[child.index()].next {
            DONE => self.follows(id, child),
            next => Err(self.too_early(id, next, ScheduleRule::EarlyJoin)),
        }
    }

    fn wake(&self, id: EventId, thread: ThreadId, by: Option<EventId>) -> Check {
        let Some(notify) = by.filter(|_| !self.spurious.contains(&id)) else { return Ok(()) };
        self.comes_after(id, notify, ScheduleRule::WakeBeforeNotify)?;
        if self.notified[&notify] > self.waits[thread.index()].began {
            return Ok(());
        }
        let (wake, notify) = (self.facts.text(id), self.facts.text(notify));
        let detail = format!("{wake} names {notify}, which happened before the wait began");
        Err(Violation::new(ScheduleRule::NotifyBeforeWait, id, detail))
    }

    fn sem_wait(&mut self, id: EventId, semaphore: SemId) -> Check {
        let count = &mut self.semaphores[semaphore.index()];
        *count -= 1;
        if *count >= 0 {
            return Ok(());
        }
        let detail = format!("{} finds the semaphore at zero", self.facts.text(id));
        Err(Violation::new(ScheduleRule::SemaphoreBelowZero, id, detail))
    }

    /// A thread finds a lock, a semaphore or another thread in the state in which it found it.
    fn probe(&self, id: EventId, thread: ThreadId, probe: Probe) -> Check {
        let (rule, why) = match probe {
            Probe::Held { lock, mode } => {
                if self.locks.excluded_by(thread, lock, mode).is_some() {
                    return Ok(());
                }
                (ScheduleRule::NothingHeld, "no other thread holds the lock".to_owned())
            }
            Probe::Count { semaphore, count } => {
                let found = self.semaphores[semaphore.index()];
                if found == count as i64 {
                    return Ok(());
                }
                (ScheduleRule::OtherCount, format!("the semaphore counts {found}, not {count}"))
            }
            Probe::Alive { thread: child } => {
                if let Some(fork) = self.missing_fork(child) {
                    return Err(self.too_early(id, fork, ScheduleRule::NotAlive));
                }
                let Some(&end) = self.facts.ends[&child].iter().find(|&&end| self.has_happened(end)) else {
                    return Ok(());
                };
                (ScheduleRule::NotAlive, format!("it comes after {}", self.facts.text(end)))
            }
        };
        Err(Violation::new(rule, id, format!("{} cannot happen here: {why}", self.facts.text(id))))
    }

    fn barrier(&self, id: EventId, barrier: BarrierId, rule: ScheduleRule) -> Check {
        let (needed, entered) = (self.facts.enters_needed[&id], self.entered[barrier.index()]);
        if entered >= needed {
            return Ok(());
        }
        let detail = format!("{} needs {needed} to have entered before, not {entered}", self.facts.text(id));
        Err(Violation::new(rule, id, detail))
    }

    /// What rule 3 puts before an event has happened.
    pub fn missing_methods(&self, id: EventId) -> Check {
        let Some(missing) = &self.facts.missing else { return Ok(()) };
        missing.before(id).iter().try_for_each(|&before| {
            self.comes_after(id, before, ScheduleRule::MissingMethod)?;
            let thread = self.facts.trace.thread_of(before);
            match self.threads[thread.index()].misread {
                Some(misread) if misread.read == before => self.follows(id, thread),
                _ => Ok(()),
            }
        })
    }

    /// Whether code that was not observed may have run directly before an event in its thread.
    fn in_call(&self, id: EventId) -> bool {
        self.facts.missing.as_ref().is_some_and(|missing| missing.in_call(id))
    }

    /// An event that must come after the last one of another thread: a read that is
    /// that last one must be kept like any other that something follows.
    fn follows(&self, id: EventId, thread: ThreadId) -> Check {
        match self.threads[thread.index()].misread {
            Some(misread) if self.level != Level::Control => {
                Err(self.not_kept(misread, format!("{} comes after it", self.facts.text(id))))
            }
            _ => Ok(()),
        }
    }

    /// `before` has happened, or `rule` is broken.
    fn comes_after(&self, id: EventId, before: EventId, rule: ScheduleRule) -> Check {
        if self.has_happened(before) { Ok(()) } else { Err(self.too_early(id, before, rule)) }
    }

    #[cold]
    fn too_early(&self, id: EventId, before: EventId, rule: ScheduleRule) -> Violation {
        Violation::new(rule, id, format!("{} comes before {}", self.facts.text(id), self.facts.text(before)))
    }

    // What a witness leads up to.

    /// The event has not happened and is the next one of its thread.
    pub fn is_next(&self, id: EventId) -> Check {
        let thread = self.facts.trace.thread_of(id);
        let next = self.threads[thread.index()].next;
        if next == id {
            return self.can_happen(id, thread);
        }
        if let Some(fork) = self.missing_fork(thread) {
            return Err(self.too_early(id, fork, ScheduleRule::NotForked));
        }
        if self.has_happened(id) {
            let detail = format!("{} is part of the schedule", self.facts.text(id));
            return Err(Violation::new(ScheduleRule::AlreadyHappened, id, detail));
        }
        Err(self.too_early(id, next, ScheduleRule::NotNextEvent))
    }

    /// The event is on the side of the last branch that the thread has taken.
    fn can_happen(&self, id: EventId, thread: ThreadId) -> Check {
        let op = self.facts.trace.events.ops()[id.index()];
        match &self.values {
            Some(values) => values.can_happen(id, thread, op),
            None if op.on_other_side() => {
                let detail = format!("{} happens only at level symbolic", self.facts.text(id));
                Err(Violation::new(ScheduleRule::DoesNotHappen, id, detail))
            }
            None => Ok(()),
        }
    }

    /// A racing event has a value to write, if it writes one.
    pub fn is_defined(&self, id: EventId) -> Check {
        self.values.as_ref().map_or(Ok(()), |values| values.is_defined(id))
    }

    /// One of `others` holds the lock that `id` wants, in a way that keeps `id` waiting.
    pub fn is_blocked(&self, id: EventId, others: &[EventId]) -> Check {
        let action = self.facts.trace.action(id).if_it_happens();
        if let Action::Acquire { gives_up: true, .. } = action {
            let detail = format!("{} does not wait", self.facts.text(id));
            return Err(Violation::new(ScheduleRule::NotAnAcquire, id, detail));
        }
        // Waits that never ended are a deadlock that happened; acquires are one that may happen. Nothing is both.
        let is_want = |event: EventId| matches!(self.facts.trace.events.ops()[event.index()], Op::Want | Op::ReadWant);
        let wanted = match action {
            Action::Fault(Fault::Want { lock, mode }) if others.iter().all(|&other| is_want(other)) => {
                Some((lock, mode))
            }
            action => action.acquired(),
        };
        let Some((lock, mode)) = wanted else {
            let detail = format!("{} takes no lock", self.facts.text(id));
            return Err(Violation::new(ScheduleRule::NotAnAcquire, id, detail));
        };
        let thread = self.facts.trace.thread_of(id);
        let mut holders = others.iter().map(|&other| self.facts.trace.thread_of(other));
        if holders.any(|holder| holder != thread && self.locks.excludes(holder, lock, mode)) {
            return Ok(());
        }
        let name = self.facts.trace.tables.lock_name(lock);
        let detail = format!("{} wants lock {name}, which no other thread of the deadlock holds", self.facts.text(id));
        Err(Violation::new(ScheduleRule::NotBlocked, id, detail))
    }

    // What goes wrong with the sequence of events itself.

    #[cold]
    fn out_of_order(&self, id: EventId, thread: ThreadId) -> Violation {
        if let Some(fork) = self.missing_fork(thread) {
            return self.too_early(id, fork, ScheduleRule::NotForked);
        }
        if self.has_happened(id) {
            return Violation::new(ScheduleRule::EventTwice, id, format!("{} happens again", self.facts.text(id)));
        }
        self.too_early(id, self.threads[thread.index()].next, ScheduleRule::ThreadOrder)
    }

    /// The fork that a thread waits for before its first event.
    fn missing_fork(&self, thread: ThreadId) -> Option<EventId> {
        self.facts.fork[thread.index()].filter(|_| self.threads[thread.index()].next == NOT_FORKED)
    }
}
