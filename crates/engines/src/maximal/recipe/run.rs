//! Executes a set of events with values, in the order of the trace as far as the solver's wishes allow, and notes where
//! that breaks a rule.
//!
//! Reads wait for what they saw in the trace, or for what the solver has chosen for them; but if nothing else can go on, they
//! take what is there. What a thread computes from that is evaluated, and every branch is asked whether it
//! still goes where it should. A run that breaks no rule is a witness.

use crate::maximal::index::Index;
use crate::maximal::memory::Source;
use crate::maximal::recipe::world::{SpanId, World};
use crate::maximal::sections::Hold;
use snag_model::symbolic::Role;
use snag_model::{DefinitionId, EventId, Op, TermId, VarId, Variable};
use std::collections::HashMap;

/// After so many broken rules a run is given up: what follows is about a schedule that will never be.
const MOST_BROKEN: usize = 16;

/// A rule that a run broke.
#[derive(Clone, Debug)]
pub(crate) enum Broken {
    /// A lock was taken while somebody else held it.
    Lock(SpanId, SpanId),
    /// A wake-up whose notify came before its wait.
    Wake(EventId),
    /// A wait on a semaphore at zero, and how far each thread had come.
    Semaphore(EventId, Vec<u32>),
    /// An access after its block was freed.
    Freed(EventId, EventId),
    /// An access before its block was allocated.
    NotAllocated(EventId, EventId),
    /// A branch did not go where it should, or something computed has no value.
    Value(EventId),
}

/// What the solver wants.
#[derive(Default)]
pub(crate) struct Wishes {
    /// The second event before the first; sorted.
    pub edges: Vec<(EventId, EventId)>,
    /// Events that must happen.
    pub included: Vec<EventId>,
    /// Per thread how many events may happen.
    pub most: Vec<u32>,
    /// What reads are to see, where the solver has said.
    pub chosen: HashMap<(EventId, usize), Source>,
    /// The branches that go the other way.
    pub diverging: Vec<EventId>,
}

/// What a cell holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content {
    pub source: Source,
    /// Whether that write did exactly what it did in the trace.
    pub as_observed: bool,
    pub value: Option<u64>,
}

/// What a symbol stands for, or an expression gives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Given {
    /// The same as in the trace, known or not.
    AsObserved(Option<i128>),
    /// Possibly something else.
    Now(Option<i128>),
}

impl Given {
    pub fn value(self) -> Option<i128> {
        match self {
            Given::AsObserved(value) | Given::Now(value) => value,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Done,
    /// Waits for another thread.
    Waits,
    /// Can happen, and changes nothing for others.
    Free,
    Ready,
    /// A read that would take something else than it should.
    Soft,
    /// Would break a rule.
    Blocked,
}

/// Buffers for runs over one trace, and the result of the last one.
pub(crate) struct Run<'w, 'i, 't> {
    world: &'w World<'i, 't>,
    pub order: Vec<EventId>,
    pub broken: Vec<Broken>,
    /// Per thread how many events were to happen.
    pub cut: Vec<u32>,
    /// What each read found, cell by cell.
    pub found: HashMap<EventId, Vec<Content>>,
    /// What each write wrote, where known.
    pub written: HashMap<EventId, Option<i64>>,
    done: Vec<u32>,
    strayed: Vec<bool>,
    /// Threads that have taken a wrong step.
    lost: Vec<bool>,
    diverged: Vec<Option<EventId>>,
    round: u32,
    cells: Vec<(u32, Content)>,
    symbols: Vec<(u32, Given)>,
    exclusive: Vec<Option<SpanId>>,
    shared: Vec<Vec<SpanId>>,
    latest: Vec<Option<SpanId>>,
    semaphores: Vec<i64>,
    notified: HashMap<EventId, usize>,
    waiting_since: Vec<Option<usize>>,
    base: EventId,
}

impl<'w, 'i, 't> Run<'w, 'i, 't> {
    pub fn new(world: &'w World<'i, 't>) -> Run<'w, 'i, 't> {
        let Index { threads, cells, trace, .. } = world.index;
        let nothing = Content { source: None, as_observed: false, value: None };
        Run {
            world,
            order: Vec::new(),
            broken: Vec::new(),
            cut: Vec::new(),
            found: HashMap::new(),
            written: HashMap::new(),
            done: Vec::new(),
            strayed: Vec::new(),
            lost: Vec::new(),
            diverged: Vec::new(),
            round: 0,
            cells: vec![(0, nothing); cells.count()],
            symbols: vec![(0, Given::Now(None)); world.symbolic.definitions().len()],
            exclusive: vec![None; trace.tables.lock_count()],
            shared: vec![Vec::new(); trace.tables.lock_count()],
            latest: vec![None; trace.tables.lock_count()],
            semaphores: Vec::new(),
            notified: HashMap::new(),
            waiting_since: vec![None; threads.count()],
            base: EventId(0),
        }
    }

    /// Runs from `base` until all that must happen, and what it needs, has happened; true if no rule was broken.
    pub fn run(&mut self, base: EventId, least: &[u32], targets: &[EventId], wishes: &Wishes) -> bool {
        self.reset(base);
        self.grow(least, wishes);
        while self.broken.len() < MOST_BROKEN {
            let Some((thread, forced)) = self.pick(wishes) else { break };
            self.execute(thread, forced, wishes);
        }
        if self.broken.is_empty() {
            // A racing write has something to write.
            let bad = |&&target: &&EventId| matches!(self.world.symbolic.role(target), Role::Write(term) if self.memory_of(target, term).is_err());
            self.broken = targets.iter().filter(bad).map(|&target| Broken::Value(target)).collect();
        }
        self.broken.is_empty() && self.done == self.cut
    }

    fn reset(&mut self, base: EventId) {
        let Index { threads, sections, semaphores, .. } = self.world.index;
        self.base = base;
        self.round += 1;
        self.order.clear();
        self.broken.clear();
        self.found.clear();
        self.written.clear();
        self.notified.clear();
        self.done = (0..threads.count()).map(|thread| threads.count_before(thread, base)).collect();
        self.cut.clone_from(&self.done);
        self.strayed = vec![false; threads.count()];
        self.lost = vec![false; threads.count()];
        self.diverged = vec![None; threads.count()];
        self.waiting_since.fill(None);
        self.exclusive.fill(None);
        self.latest.fill(None);
        self.shared.iter_mut().for_each(Vec::clear);
        for thread in (0..threads.count()).filter(|_| base > EventId(0)) {
            for &hold in sections.held(thread, self.done[thread]) {
                let span = sections.open(threads, thread, hold, self.done[thread]).0 as usize;
                self.take(span);
                let latest = &mut self.latest[hold.lock.index()];
                *latest = (*latest).max(Some(span));
            }
        }
        self.semaphores.clear();
        for semaphore in semaphores {
            let before = |events: &[EventId]| events.partition_point(|&event| event < base) as i64;
            self.semaphores.push(semaphore.initial as i64 + before(&semaphore.posts) - before(&semaphore.waits));
        }
    }

    // Which events are to happen.

    fn grow(&mut self, least: &[u32], wishes: &Wishes) {
        let threads = &self.world.index.threads;
        let mut todo: Vec<(usize, u32)> = least.iter().copied().enumerate().collect();
        todo.extend(wishes.included.iter().map(|&event| (threads.thread(event), threads.position(event) + 1)));
        while let Some((thread, count)) = todo.pop() {
            let from = self.cut[thread];
            if count <= from {
                continue;
            }
            self.cut[thread] = count;
            let last = threads.event(thread, count - 1);
            self.world.index.must.row(last).for_each(|other, needed| {
                if other != thread && needed > self.cut[other] {
                    todo.push((other, needed));
                }
            });
            for position in from..count {
                self.needs(threads.event(thread, position), wishes, &mut todo);
            }
        }
    }

    /// What an event needs to go as it went.
    fn needs(&mut self, event: EventId, wishes: &Wishes, todo: &mut Vec<(usize, u32)>) {
        let Index { threads, memory, semaphores, trace, .. } = self.world.index;
        for source in sources(&wishes.edges, event) {
            todo.push((threads.thread(source), threads.position(source) + 1));
        }
        let op = self.world.index.op(event);
        if op.on_other_side() && !self.is_live(event, wishes) {
            return;
        }
        match op {
            op if op.reads() => {
                for cell in memory.cells_of(event) {
                    let chosen = wishes.chosen.get(&(event, cell)).copied();
                    if let Some(write) = chosen.unwrap_or_else(|| memory.seen(event, cell)) {
                        self.want(write, wishes, todo);
                    }
                }
            }
            Op::Acquire | Op::ReadAcquire | Op::WaitEnd | Op::OtherAcquire => {
                let Some(span) = self.world.span_of(event).filter(|&span| self.world.spans[span].start == event) else {
                    return;
                };
                let spans = &self.world.spans;
                let latest = &mut self.latest[spans[span].lock.index()];
                let Some(other) = latest.replace(span) else { return };
                if spans[other].start > event {
                    *latest = Some(other);
                }
                // Of two on one lock the one that comes first in the trace is to end.
                let first = if spans[other].start < event { other } else { span };
                for (end, side) in &spans[first].ends {
                    if side.is_none_or(|branch| wishes.diverging.contains(&branch)) {
                        self.want(*end, wishes, todo);
                    }
                }
            }
            Op::SemWait => {
                let semaphore = &semaphores[trace.events.targets()[event.index()] as usize];
                let number = semaphore.waits.partition_point(|&wait| wait < event);
                if let Some(post) = number.checked_sub(semaphore.initial as usize) {
                    self.want(semaphore.posts[post], wishes, todo);
                }
            }
            _ => {}
        }
    }

    fn want(&self, event: EventId, wishes: &Wishes, todo: &mut Vec<(usize, u32)>) {
        let (thread, position) = (self.world.index.threads.thread(event), self.world.index.threads.position(event));
        if position >= self.cut[thread] && position < wishes.most[thread] {
            todo.push((thread, position + 1));
        }
    }

    fn is_live(&self, event: EventId, wishes: &Wishes) -> bool {
        self.world.branch_of(event).is_none_or(|branch| wishes.diverging.contains(&branch))
    }

    // What can happen next.

    fn happened(&self, event: EventId) -> bool {
        let threads = &self.world.index.threads;
        self.done[threads.thread(event)] > threads.position(event)
    }

    fn pick(&self, wishes: &Wishes) -> Option<(usize, bool)> {
        let threads = &self.world.index.threads;
        let mut best: Option<(u8, EventId, usize)> = None;
        for thread in 0..threads.count() {
            let rank = match self.state(thread, wishes) {
                State::Done | State::Waits => continue,
                State::Free => return Some((thread, false)),
                State::Ready => 0,
                State::Soft => 1,
                State::Blocked => 2,
            };
            let entry = (rank, threads.event(thread, self.done[thread]), thread);
            if best.is_none_or(|best| entry < best) {
                best = Some(entry);
            }
        }
        best.map(|(rank, _, thread)| (thread, rank == 2))
    }

    fn state(&self, thread: usize, wishes: &Wishes) -> State {
        let Index { threads, must, .. } = self.world.index;
        if self.done[thread] >= self.cut[thread] {
            return State::Done;
        }
        let event = threads.event(thread, self.done[thread]);
        if must.meets_others(threads, event) {
            let earlier = threads.previous(event).map(|previous| must.row(previous));
            if must.row(event).first_above(earlier, thread, &self.done).is_some() {
                return State::Waits;
            }
        }
        if sources(&wishes.edges, event).any(|source| !self.happened(source)) {
            return State::Waits;
        }
        self.possible(event, thread, wishes)
    }

    fn possible(&self, event: EventId, thread: usize, wishes: &Wishes) -> State {
        let index = self.world.index;
        let op = index.op(event);
        if op.on_other_side() && self.diverged[thread].is_none() {
            return State::Free;
        }
        let target = index.trace.events.targets()[event.index()] as usize;
        match op {
            Op::OtherRead => State::Ready,
            op if op.reads() => match (self.sees_enough(event, wishes), op) {
                (false, _) => State::Soft,
                (true, Op::Rmw) => State::Ready,
                (true, _) => State::Free,
            },
            Op::Write | Op::AtomicWrite | Op::OtherWrite | Op::Free | Op::Notify | Op::NotifyAll => State::Ready,
            Op::Acquire | Op::ReadAcquire | Op::WaitEnd | Op::OtherAcquire => match self.world.span_of(event) {
                Some(span) if self.world.spans[span].start == event => match self.blocker(span) {
                    Some(_) => State::Blocked,
                    None => State::Ready,
                },
                _ => State::Free,
            },
            Op::SemWait if self.semaphores[target] <= 0 => State::Blocked,
            Op::SemWait => State::Ready,
            Op::Wake if !self.is_notified(event, thread) => State::Blocked,
            _ => State::Free,
        }
    }

    /// Whether a read finds what it is to find.
    fn sees_enough(&self, read: EventId, wishes: &Wishes) -> bool {
        let memory = &self.world.index.memory;
        memory.cells_of(read).all(|cell| match wishes.chosen.get(&(read, cell)) {
            Some(&chosen) => self.content(cell).source == chosen,
            None => self.agrees_in(read, cell),
        })
    }

    pub fn content(&self, cell: usize) -> Content {
        let (round, content) = self.cells[cell];
        if round == self.round {
            return content;
        }
        let memory = &self.world.index.memory;
        let source = if self.base == EventId(0) { None } else { memory.last_before(cell, self.base) };
        Content { source, as_observed: true, value: self.left(source, cell) }
    }

    /// What a write of the trace, or the initial memory, leaves in a cell.
    fn left(&self, source: Source, cell: usize) -> Option<u64> {
        match source {
            None => self.world.index.memory.value_left(None, cell),
            Some(write) => self.world.wrote(write).and_then(|value| self.slice(write, value, cell)),
        }
    }

    fn slice(&self, event: EventId, value: i64, cell: usize) -> Option<u64> {
        let Index { trace, cells, .. } = self.world.index;
        let variable = trace.tables.variable(VarId(trace.events.targets()[event.index()]));
        cells.slice(variable, value, cell)
    }

    /// Whether a read finds in a cell what it found in the trace.
    fn agrees_in(&self, read: EventId, cell: usize) -> bool {
        let (memory, content) = (&self.world.index.memory, self.content(cell));
        content.as_observed && content.source == memory.seen(read, cell)
            || memory.wanted(read, cell).is_some_and(|wanted| content.value == Some(wanted.value))
    }

    fn blocker(&self, wanted: SpanId) -> Option<SpanId> {
        let spans = &self.world.spans;
        let span = &spans[wanted];
        let other = |&holder: &SpanId| spans[holder].thread != span.thread;
        let exclusive = self.exclusive[span.lock.index()].filter(other);
        exclusive.or_else(|| match span.shared {
            true => None,
            false => self.shared[span.lock.index()].iter().copied().find(|holder| other(holder)),
        })
    }

    fn is_notified(&self, wake: EventId, thread: usize) -> bool {
        let Some(named) = self.world.index.wakes.get(&wake) else { return true };
        match (self.waiting_since[thread], self.notified.get(&named.notify)) {
            (Some(since), Some(&when)) => since < when,
            // Began before what is reordered.
            (None, _) => true,
            (Some(_), None) => false,
        }
    }

    // Execution.

    fn take(&mut self, span: SpanId) {
        let Hold { lock, shared } = Hold { lock: self.world.spans[span].lock, shared: self.world.spans[span].shared };
        match shared {
            true => self.shared[lock.index()].push(span),
            false => self.exclusive[lock.index()] = Some(span),
        }
    }

    fn release(&mut self, span: SpanId) {
        let held = &self.world.spans[span];
        match held.shared {
            true => self.shared[held.lock.index()].retain(|&other| other != span),
            false => {
                let holder = &mut self.exclusive[held.lock.index()];
                // After a broken rule another one may hold it.
                if *holder == Some(span) {
                    *holder = None;
                }
            }
        }
    }

    fn execute(&mut self, thread: usize, forced: bool, wishes: &Wishes) {
        let index = self.world.index;
        let event = index.threads.event(thread, self.done[thread]);
        let op = index.op(event);
        self.done[thread] += 1;
        self.order.push(event);
        if op.on_other_side() && self.diverged[thread].is_none() {
            return;
        }
        let target = index.trace.events.targets()[event.index()] as usize;
        match op {
            Op::Acquire | Op::ReadAcquire | Op::WaitEnd | Op::OtherAcquire => {
                if let Some(span) = self.world.span_of(event).filter(|&span| self.world.spans[span].start == event) {
                    if let Some(holder) = self.blocker(span) {
                        self.broken.push(Broken::Lock(holder, span));
                    }
                    self.take(span);
                }
            }
            Op::Release | Op::ReadRelease | Op::WaitBegin | Op::OtherRelease => {
                if op == Op::WaitBegin {
                    self.waiting_since[thread] = Some(self.order.len());
                }
                if let Some(span) = self.world.span_of(event) {
                    self.release(span);
                }
            }
            Op::SemWait => {
                if forced {
                    let mut done = self.done.clone();
                    done[thread] -= 1;
                    self.broken.push(Broken::Semaphore(event, done));
                }
                self.semaphores[target] -= 1;
            }
            Op::SemPost => self.semaphores[target] += 1,
            Op::Wake if forced => self.broken.push(Broken::Wake(event)),
            Op::Notify | Op::NotifyAll => {
                self.notified.insert(event, self.order.len());
            }
            Op::Let | Op::OtherLet => self.define(event),
            Op::Branch | Op::OtherBranch | Op::MethodBegin => self.branch(event, thread, op, wishes),
            op if op.if_it_happens().is_access() => self.access(event, thread, op),
            _ => {}
        }
    }

    fn access(&mut self, event: EventId, thread: usize, op: Op) {
        let index = self.world.index;
        if let Some(free) = index.free_of(event)
            && self.happened(free)
        {
            self.broken.push(Broken::Freed(event, free));
        }
        if op.on_other_side()
            && let Some(alloc) = index.cells.block_of_event(event.index())
            && !self.happened(alloc)
        {
            self.broken.push(Broken::NotAllocated(event, alloc));
        }
        if op.if_it_happens().reads() {
            self.read(event, thread, op);
        }
        if op.if_it_happens().writes() {
            self.write(event, thread, op);
        }
    }

    fn read(&mut self, event: EventId, thread: usize, op: Op) {
        let memory = &self.world.index.memory;
        let found: Vec<Content> = memory.cells_of(event).map(|cell| self.content(cell)).collect();
        let agrees = !op.on_other_side() && memory.cells_of(event).all(|cell| self.agrees_in(event, cell));
        self.strayed[thread] |= !agrees && !op.on_other_side();
        if let Role::Read(definition) = self.world.symbolic.role(event) {
            let defined = self.world.symbolic.definition(definition);
            let given = match agrees {
                true => Given::AsObserved(defined.value),
                false => Given::Now(self.load(event, &found).map(|memory| defined.sort.from_memory(memory))),
            };
            self.symbols[definition.index()] = (self.round, given);
        }
        self.found.insert(event, found);
    }

    /// What memory holds, where all of it is known.
    fn load(&self, event: EventId, found: &[Content]) -> Option<i64> {
        let Index { trace, cells, memory, .. } = self.world.index;
        match trace.tables.variable(VarId(trace.events.targets()[event.index()])) {
            Variable::Range { size: 9.., .. } => None,
            Variable::Range { address, .. } if !cells.are_variables() => {
                let mut whole = 0;
                for (cell, content) in memory.cells_of(event).zip(found) {
                    let (start, _) = cells.bytes(cell)?;
                    whole |= content.value? << (8 * (start - address));
                }
                Some(whole as i64)
            }
            _ => found[0].value.map(|value| value as i64),
        }
    }

    fn write(&mut self, event: EventId, thread: usize, op: Op) {
        let recorded = self.world.wrote(event);
        let (as_observed, value) = match self.world.symbolic.role(event) {
            Role::Write(term) => match self.memory_of(event, term) {
                Ok(Given::AsObserved(_)) => (true, recorded),
                Ok(Given::Now(value)) => {
                    let value = value.map(|value| value as i64);
                    let same = value.is_some() && value == self.world.index.trace.event(event).value_written();
                    (same && !op.on_other_side(), value)
                }
                Err(()) => {
                    self.break_value(event, thread);
                    (false, None)
                }
            },
            _ if self.strayed[thread] => (false, None),
            _ => (true, recorded),
        };
        self.written.insert(event, value);
        for cell in self.world.index.memory.cells_of(event) {
            let value = value.and_then(|value| self.slice(event, value, cell));
            self.cells[cell] = (self.round, Content { source: Some(event), as_observed, value });
        }
    }

    // Expressions.

    fn symbol(&self, definition: DefinitionId) -> Given {
        match self.symbols[definition.index()] {
            (round, given) if round == self.round => given,
            // Defined before what is reordered.
            _ => Given::AsObserved(self.world.symbolic.definition(definition).value),
        }
    }

    /// The value of a term at the end of the last run, where known.
    pub fn value_of(&self, term: TermId) -> Option<i128> {
        self.world.symbolic.evaluate(term, |definition| self.symbol(definition).value()).ok().flatten()
    }

    /// What an expression gives; an error if that may be nothing.
    fn given(&self, event: EventId, term: TermId) -> Result<Given, ()> {
        let symbolic = &self.world.symbolic;
        let mut as_observed = !self.world.index.op(event).on_other_side();
        symbolic.symbols_of(term, &mut |definition| {
            as_observed &= matches!(self.symbol(definition), Given::AsObserved(_));
        });
        let value = symbolic.evaluate(term, |definition| self.symbol(definition).value()).map_err(|_| ())?;
        match as_observed {
            true => Ok(Given::AsObserved(value)),
            false if value.is_none() && self.world.is_partial(term) => Err(()),
            false => Ok(Given::Now(value)),
        }
    }

    /// The same for what is written to memory.
    fn memory_of(&self, event: EventId, term: TermId) -> Result<Given, ()> {
        let given = self.given(event, term)?;
        let sort = self.world.symbolic.term(term).sort;
        let in_memory = |value: Option<i128>| match value {
            None => Ok(None),
            Some(value) => sort.to_memory(value).map(|memory| Some(memory as i128)).ok_or(()),
        };
        Ok(match given {
            Given::AsObserved(value) => Given::AsObserved(in_memory(value)?),
            Given::Now(value) => Given::Now(in_memory(value)?),
        })
    }

    fn define(&mut self, event: EventId) {
        let Role::Let(definition) = self.world.symbolic.role(event) else { return };
        let term = self.world.symbolic.definition(definition).term.expect("a let has a term");
        let given = self.given(event, term).unwrap_or_else(|()| {
            self.break_value(event, self.world.index.threads.thread(event));
            Given::Now(None)
        });
        self.symbols[definition.index()] = (self.round, given);
    }

    fn branch(&mut self, event: EventId, thread: usize, op: Op, wishes: &Wishes) {
        let Role::Branch { condition, outcome } = self.world.symbolic.role(event) else {
            if self.strayed[thread] {
                self.break_value(event, thread);
            }
            return;
        };
        let diverges = wishes.diverging.contains(&event);
        let given = self.given(event, condition);
        let truth = |given: Given| given.value().map(|value| value != 0);
        let right = match given {
            Err(()) => false,
            Ok(given) if op == Op::OtherBranch => truth(given) == Some(true),
            Ok(given) if diverges => truth(given).is_some() && truth(given) == outcome.map(|outcome| !outcome),
            Ok(Given::AsObserved(_)) => true,
            Ok(given) => truth(given).is_some() && truth(given) == outcome,
        };
        if diverges {
            self.diverged[thread] = Some(event);
        }
        if !right {
            self.break_value(event, thread);
        }
    }

    /// What a thread does after its first wrong step follows from that, and says nothing new.
    fn break_value(&mut self, event: EventId, thread: usize) {
        if !std::mem::replace(&mut self.lost[thread], true) {
            self.broken.push(Broken::Value(event));
        }
    }
}

/// The events that are to come before an event.
fn sources(edges: &[(EventId, EventId)], event: EventId) -> impl Iterator<Item = EventId> {
    let from = edges.partition_point(|edge| edge.0 < event);
    edges[from..].iter().take_while(move |edge| edge.0 == event).map(|edge| edge.1)
}
