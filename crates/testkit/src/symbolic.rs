//! The oracle at level `symbolic`: every schedule of a small trace with every value that its reads can take, and with
//! every branch going either way.
//!
//! Guarantee: [`races`] returns exactly what `docs/symbolic.md` defines, races of events on the other sides of branches
//! included. Two schedules are identified only if they have come equally far and left the same behind.
//!
//! Cost: exponential, and more so than the other levels, as values tell more schedules apart.

use crate::facts::{Facts, Unit};
use crate::search::{Set, bit, needs, set};
use snag_model::symbolic::{Binary, Node, Role, Symbolic};
use snag_model::{Action, DefinitionId, EventId, LockId, Mode, Op, Probe, TermId, Trace, Variable};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// All races at level `symbolic`; the earlier event in σ first. A trace with neither branches nor symbols has those of
/// level `value`.
pub fn races(trace: &Trace) -> BTreeSet<(EventId, EventId)> {
    if !trace.has_branches() && Symbolic::of(trace).is_empty() {
        return crate::search::races(trace, crate::Level::Value);
    }
    Search::new(trace).races(0, trace.len())
}

/// The races of a trace with branches or symbols after schedules that begin like the trace up to `base` and contain
/// nothing from `end` on; both events lie in between.
pub fn races_in_window(trace: &Trace, base: EventId, end: EventId) -> BTreeSet<(EventId, EventId)> {
    Search::new(trace).races(base.index(), end.index())
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Content {
    /// The last write; `None`: nobody.
    writer: Option<usize>,
    /// That write did what it did in σ.
    as_in_trace: bool,
    value: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Symbol {
    AsInTrace,
    Value(i128),
    Unknown,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    done: Set,
    /// Per thread the branch that it has taken to the other side.
    diverged: Vec<Option<usize>>,
    strayed: Vec<bool>,
    memory: BTreeMap<Unit, Content>,
    symbols: Vec<Symbol>,
    /// Per lock and thread how often it is held for writing, and for reading; and what a wait has given up.
    holds: Vec<Vec<(u32, u32)>>,
    given_up: Vec<u32>,
    /// Wake-ups whose notify came before their wait.
    missed: Set,
}

struct Search<'t> {
    facts: Facts<'t>,
    symbolic: Symbolic,
    threads: Vec<Set>,
    needs: Vec<Set>,
    missing_methods: bool,
}

impl<'t> Search<'t> {
    fn new(trace: &'t Trace) -> Search<'t> {
        let facts = Facts::of(trace);
        assert!(facts.len() <= 63, "{} events are too many for an exhaustive search", facts.len());
        Search {
            symbolic: Symbolic::of(trace),
            threads: facts.threads.iter().map(|events| set(events.iter().copied())).collect(),
            needs: needs(&facts),
            missing_methods: facts.events.iter().any(|event| event.op == Op::MethodBegin),
            facts,
        }
    }

    fn races(&self, base: usize, end: usize) -> BTreeSet<(EventId, EventId)> {
        let threads = self.facts.threads.len();
        let mut start = State {
            done: 0,
            diverged: vec![None; threads],
            strayed: vec![false; threads],
            memory: BTreeMap::new(),
            symbols: vec![Symbol::Unknown; self.symbolic.definitions().len()],
            holds: vec![vec![(0, 0); threads]; self.facts.trace.tables.lock_count()],
            given_up: vec![0; threads],
            missed: 0,
        };
        for event in 0..base {
            start = self.execute(&start, event, false).expect("the trace is feasible");
        }
        let mut found = BTreeSet::new();
        let mut known = HashSet::from([start.clone()]);
        let mut open = vec![start];
        while let Some(state) = open.pop() {
            let next = self.next_events(&state).filter(|&event| event < end && self.is_due(&state, event));
            let next: Vec<usize> = next.collect();
            for &a in &next {
                for &b in next.iter().filter(|&&b| a < b && self.conflict(a, b)) {
                    if self.may_race(&state, a) && self.may_race(&state, b) {
                        found.insert((EventId::new(a), EventId::new(b)));
                    }
                }
            }
            for event in next {
                let ways: &[bool] = if self.facts.events[event].op == Op::Branch { &[false, true] } else { &[false] };
                for &diverges in ways {
                    if let Some(after) = self.execute(&state, event, diverges)
                        && known.insert(after.clone())
                    {
                        open.push(after);
                    }
                }
            }
        }
        found
    }

    fn op(&self, event: usize) -> Op {
        self.facts.events[event].op
    }

    fn thread(&self, event: usize) -> usize {
        self.facts.events[event].thread.index()
    }

    fn next_events(&self, state: &State) -> impl Iterator<Item = usize> {
        let left = self.threads.iter().map(|thread| thread & !state.done);
        left.filter(|&left| left != 0).map(|left| left.trailing_zeros() as usize)
    }

    /// Whether the events conflict if both happen.
    fn conflict(&self, a: usize, b: usize) -> bool {
        let (first, second) = (self.op(a).if_it_happens(), self.op(b).if_it_happens());
        self.thread(a) != self.thread(b)
            && first.conflicts(second)
            && self.facts.units[a].iter().any(|unit| self.facts.units[b].contains(unit))
    }

    /// Rules 1 to 3 without locks.
    fn is_due(&self, state: &State, event: usize) -> bool {
        let facts = &self.facts;
        let this = &facts.events[event];
        let diverged = state.diverged[self.thread(event)];
        if self.needs[event] & !state.done != 0 || diverged.is_some() && !this.op.on_other_side() {
            return false;
        }
        if this.op.on_other_side() && diverged.is_none() {
            return true;
        }
        let done = |action: Action| {
            (0..facts.len()).filter(|&e| state.done & bit(e) != 0 && facts.actions[e] == action).count()
        };
        match facts.actions[event] {
            Action::Wake { .. } => state.missed & bit(event) == 0,
            Action::SemWait { semaphore } => {
                let initial = facts.trace.tables.semaphore_initial(semaphore) as usize;
                initial + done(Action::SemPost { semaphore }) > done(Action::SemWait { semaphore })
            }
            Action::Probe(Probe::Held { lock, mode }) => self.is_taken(state, lock, self.thread(event), mode),
            Action::Probe(Probe::Count { semaphore, count }) => {
                let initial = facts.trace.tables.semaphore_initial(semaphore) as usize;
                initial + done(Action::SemPost { semaphore }) == done(Action::SemWait { semaphore }) + count as usize
            }
            Action::Probe(Probe::Alive { thread }) => {
                !(0..facts.len()).any(|e| state.done & bit(e) != 0 && facts.shows_end(e, thread))
            }
            Action::Join { thread: child, .. } => state.diverged[child.index()].is_none(),
            _ if this.op.if_it_happens().is_access() => {
                let happened = |event: usize| state.done & bit(event) != 0;
                facts.alloc[event].is_none_or(happened) && !facts.free[event].is_some_and(happened)
            }
            _ => true,
        }
    }

    /// Whether an event that is due can be one of two racing ones.
    fn may_race(&self, state: &State, event: usize) -> bool {
        let happens = !self.op(event).on_other_side() || state.diverged[self.thread(event)].is_some();
        let has_value = match self.symbolic.role(EventId::new(event)) {
            Role::Write(term) => self.written(state, event, term).is_some(),
            _ => true,
        };
        happens && has_value && !(self.facts.in_call[event] && state.strayed[self.thread(event)])
    }

    /// Whether another thread holds a lock in a way that excludes this one.
    fn is_taken(&self, state: &State, lock: LockId, thread: usize, mode: Mode) -> bool {
        let others = state.holds[lock.index()].iter().enumerate().filter(|(other, _)| *other != thread);
        others.into_iter().any(|(_, hold)| hold.0 > 0 || mode == Mode::Exclusive && hold.1 > 0)
    }

    fn execute(&self, state: &State, event: usize, diverges: bool) -> Option<State> {
        let this = &self.facts.events[event];
        let thread = self.thread(event);
        let mut after = state.clone();
        after.done |= bit(event);
        if this.op.on_other_side() && state.diverged[thread].is_none() {
            return Some(after);
        }
        if self.facts.in_call[event] && state.strayed[thread] {
            return None;
        }
        let action = self.facts.actions[event].if_it_happens();
        if let Some((lock, mode)) = action.acquired() {
            let plain = self.facts.trace.tables.lock_is_plain(lock);
            let again = this.op == Op::OtherAcquire && plain && state.holds[lock.index()][thread].0 > 0;
            if again || self.is_taken(state, lock, thread, mode) {
                return None;
            }
        }
        match action {
            Action::Acquire { lock, mode: Mode::Exclusive, .. } => after.holds[lock.index()][thread].0 += 1,
            Action::Acquire { lock, mode: Mode::Shared, .. } => after.holds[lock.index()][thread].1 += 1,
            Action::Release { lock, mode: Mode::Exclusive } => {
                after.holds[lock.index()][thread].0 = state.holds[lock.index()][thread].0.checked_sub(1)?
            }
            Action::Release { lock, mode: Mode::Shared } => after.holds[lock.index()][thread].1 -= 1,
            Action::WaitBegin { lock, .. } => {
                after.given_up[thread] = std::mem::take(&mut after.holds[lock.index()][thread].0);
            }
            Action::WaitEnd { lock, .. } => after.holds[lock.index()][thread].0 = state.given_up[thread],
            Action::Notify { .. } | Action::NotifyAll { .. } => {
                for wake in (0..self.facts.len()).filter(|&wake| self.facts.notify[wake] == Some(event)) {
                    let wait = self.facts.wait[wake].expect("a wake-up follows a wait");
                    if state.done & bit(wait) == 0 {
                        after.missed |= bit(wake);
                    }
                }
            }
            Action::MethodBegin { .. } if state.strayed[thread] => return None,
            Action::Let { .. } => {
                let Role::Let(symbol) = self.symbolic.role(EventId::new(event)) else { unreachable!("a let defines") };
                let term = self.symbolic.definition(symbol).term.expect("a let has a term");
                after.symbols[symbol.index()] = match self.given(state, event, term)? {
                    (true, _) => Symbol::AsInTrace,
                    (false, Some(value)) => Symbol::Value(value),
                    (false, None) => Symbol::Unknown,
                };
            }
            Action::Branch { .. } => self.branch(&mut after, event, diverges)?,
            _ => {
                if this.op.if_it_happens().reads() {
                    self.read(&mut after, event);
                }
                if this.op.if_it_happens().writes() {
                    self.write(&mut after, event)?;
                }
            }
        }
        Some(after)
    }

    fn branch(&self, state: &mut State, event: usize, diverges: bool) -> Option<()> {
        let thread = self.thread(event);
        let Role::Branch { condition, outcome } = self.symbolic.role(EventId::new(event)) else {
            return (!diverges && !state.strayed[thread]).then_some(());
        };
        let (as_in_trace, value) = self.given(state, event, condition)?;
        let now = value.map(|value| value != 0);
        let right = if self.op(event) == Op::OtherBranch {
            now == Some(true)
        } else if diverges {
            now.is_some() && outcome.is_some() && now != outcome && !self.missing_methods
        } else {
            as_in_trace || now.is_some() && now == outcome
        };
        if diverges {
            state.diverged[thread] = Some(event);
        }
        right.then_some(())
    }

    fn content(&self, state: &State, unit: Unit) -> Content {
        let initial = || Content { writer: None, as_in_trace: true, value: self.facts.left_by(None, unit) };
        state.memory.get(&unit).copied().unwrap_or_else(initial)
    }

    fn read(&self, state: &mut State, event: usize) {
        let other_side = self.op(event).on_other_side();
        let agrees = !other_side
            && self.facts.units[event].iter().all(|&unit| {
                let content = self.content(state, unit);
                let seen = self.facts.seen[event][&unit];
                let value = self.facts.found_by(event, unit);
                content.as_in_trace && content.writer == seen
                    || value.is_some() && value == self.facts.left_by(seen, unit) && value == content.value
            });
        if !agrees && !other_side {
            state.strayed[self.thread(event)] = true;
        }
        if let Role::Read(symbol) = self.symbolic.role(EventId::new(event)) {
            let sort = self.symbolic.definition(symbol).sort;
            state.symbols[symbol.index()] = match self.load(state, event) {
                _ if agrees => Symbol::AsInTrace,
                Some(memory) => Symbol::Value(sort.from_memory(memory)),
                None => Symbol::Unknown,
            };
        }
    }

    fn load(&self, state: &State, event: usize) -> Option<i64> {
        let values: Option<Vec<i64>> =
            self.facts.units[event].iter().map(|&unit| self.content(state, unit).value).collect();
        match self.facts.trace.tables.variable(self.facts.variable(event)?) {
            Variable::Named(_) => Some(values?[0]),
            Variable::Range { size, .. } if size <= 8 => {
                let mut bytes = [0; 8];
                for (byte, value) in bytes.iter_mut().zip(values?) {
                    *byte = value as u8;
                }
                Some(i64::from_le_bytes(bytes))
            }
            Variable::Range { .. } => None,
        }
    }

    /// What a write puts into memory, and whether that is what it put there in σ; `None` if that is undefined.
    fn written(&self, state: &State, event: usize, term: TermId) -> Option<(bool, Option<i64>)> {
        let recorded = self.facts.events[event].value_written();
        let (as_in_trace, value) = self.given(state, event, term)?;
        let memory = match value {
            None => None,
            Some(value) => Some(self.symbolic.term(term).sort.to_memory(value)?),
        };
        let same = !self.op(event).on_other_side() && memory.is_some() && memory == recorded;
        Some((as_in_trace || same, if as_in_trace { recorded.or(memory) } else { memory }))
    }

    fn write(&self, state: &mut State, event: usize) -> Option<()> {
        let recorded = self.facts.events[event].value_written();
        let (as_in_trace, memory) = match self.symbolic.role(EventId::new(event)) {
            Role::Write(term) => self.written(state, event, term)?,
            _ if state.strayed[self.thread(event)] => (false, None),
            _ => (true, recorded),
        };
        for &unit in &self.facts.units[event] {
            let value = memory.and_then(|memory| self.facts.part_of(event, memory, unit));
            state.memory.insert(unit, Content { writer: Some(event), as_in_trace, value });
        }
        Some(())
    }

    /// Whether an expression is as in σ, and its value where known; `None` if it is, or may be, undefined.
    fn given(&self, state: &State, event: usize, term: TermId) -> Option<(bool, Option<i128>)> {
        let mut as_in_trace = !self.op(event).on_other_side();
        self.symbolic.symbols_of(term, &mut |symbol| {
            as_in_trace &= state.symbols[symbol.index()] == Symbol::AsInTrace;
        });
        let symbol = |symbol: DefinitionId| match state.symbols[symbol.index()] {
            Symbol::AsInTrace => self.symbolic.definition(symbol).value,
            Symbol::Value(value) => Some(value),
            Symbol::Unknown => None,
        };
        let value = self.symbolic.evaluate(term, symbol).ok()?;
        if !as_in_trace && value.is_none() && self.may_be_undefined(term) {
            return None;
        }
        Some((as_in_trace, value))
    }

    /// Whether some values of its symbols leave a term without a value.
    fn may_be_undefined(&self, term: TermId) -> bool {
        let parts = |list: &[TermId]| list.iter().any(|&part| self.may_be_undefined(part));
        let constant = |part: TermId| match self.symbolic.term(part).node {
            Node::Constant(value) => Some(value),
            _ => None,
        };
        match self.symbolic.term(term).node {
            Node::Constant(_) | Node::Symbol(_) => false,
            Node::Convert(a) | Node::Unary(_, a) => parts(&[a]),
            Node::Choose(a, b, c) => parts(&[a, b, c]),
            Node::Binary(Binary::Divide | Binary::Remainder, a, b) => {
                constant(b).is_none_or(|b| b == 0 || b == -1) || parts(&[a, b])
            }
            Node::Binary(Binary::ShiftLeft | Binary::ShiftRight, a, b) => {
                let width = self.symbolic.term(a).sort.width().unwrap_or(64) as i128;
                constant(b).is_none_or(|b| b < 0 || b >= width) || parts(&[a, b])
            }
            Node::Binary(_, a, b) => parts(&[a, b]),
        }
    }
}
