//! The values that a schedule computes, at level `symbolic`.
//!
//! Nothing is solved here. Memory holds values, reads take them, expressions are
//! evaluated, and every branch is asked whether it still goes where it went. What is
//! not known stays unknown, and a branch that depends on it is refused.
//!
//! A thread whose reads have all agreed with the trace does exactly what it did there,
//! also where the trace holds no values; so "as observed" is kept apart from values.

use crate::facts::Facts;
use crate::machine::Check;
use crate::source::Source;
use crate::violation::{ScheduleRule, Violation};
use snag_model::symbolic::{Binary, Node, Role, Sort, Symbolic, Undefined};
use snag_model::{DefinitionId, EventId, Op, TermId, ThreadId, VarId, Variable};

/// The values after the events executed so far.
#[derive(Clone)]
pub(crate) struct Values<'f> {
    facts: &'f Facts<'f>,
    symbolic: &'f Symbolic,
    /// The branches that are to go the other way; ascending.
    diverging: Vec<EventId>,
    threads: Vec<Thread>,
    cells: Vec<Content>,
    symbols: Vec<Symbol>,
    /// The first write that did not do what it did in the trace.
    altered: Option<EventId>,
    /// The values that reads have taken, as far as known.
    pub taken: Vec<(EventId, i64)>,
}

#[derive(Clone, Copy, Default)]
struct Thread {
    /// Its first read that found something else than in the trace.
    strayed: Option<EventId>,
    /// The branch that it has taken to the other side.
    diverged: Option<EventId>,
}

/// What a cell holds.
#[derive(Clone, Copy)]
struct Content {
    /// Who wrote it.
    source: Source,
    /// Whether that write did exactly what it did in the trace.
    as_observed: bool,
    /// Its value, where known.
    value: Option<u64>,
}

/// What a symbol stands for.
#[derive(Clone, Copy)]
enum Symbol {
    /// What it stood for in the trace, whether or not the trace says what that was.
    AsObserved,
    /// This.
    Value(i128),
    Unknown,
}

/// What an expression gives.
#[derive(Clone, Copy)]
enum Given {
    /// What it gave in the trace; its value where known.
    AsObserved(Option<i128>),
    /// Possibly something else; its value where known.
    Now(Option<i128>),
}

impl Given {
    fn value(self) -> Option<i128> {
        match self {
            Given::AsObserved(value) | Given::Now(value) => value,
        }
    }
}

impl<'f> Values<'f> {
    /// Before the first event.
    pub fn new(facts: &'f Facts<'f>, mut diverging: Vec<EventId>) -> Values<'f> {
        diverging.sort_unstable();
        let symbolic = facts.symbolic();
        let initial = |cell| {
            let value = facts.value_left(Source::INITIAL, cell);
            Content { source: Source::INITIAL, as_observed: true, value }
        };
        Values {
            facts,
            symbolic,
            diverging,
            threads: vec![Thread::default(); facts.trace.tables.thread_count()],
            cells: (0..facts.cells.count()).map(initial).collect(),
            symbols: vec![Symbol::Unknown; symbolic.definitions().len()],
            altered: None,
            taken: Vec::new(),
        }
    }

    /// The branch at which a thread has left the trace.
    pub fn diverged(&self, thread: ThreadId) -> Option<EventId> {
        self.threads[thread.index()].diverged
    }

    /// The first of the diverging branches that was not executed.
    pub fn not_diverged(&self) -> Option<EventId> {
        let done = |branch: EventId| self.diverged(self.facts.trace.thread_of(branch)) == Some(branch);
        self.diverging.iter().copied().find(|&branch| !done(branch))
    }

    // Memory.

    /// A read of the trace.
    pub fn read(&mut self, id: EventId, thread: ThreadId, variable: VarId) {
        let facts = self.facts;
        let cells = facts.cells.of_event(id.index(), variable.0);
        let seen = facts.seen.by(id.index(), cells.len());
        let agrees = cells.zip(seen).all(|(cell, &seen)| self.agrees(id, cell, seen));
        let found = self.load(id, variable);
        let recorded = facts.trace.event(id).value_read();
        let taken = if agrees { recorded.or(found) } else { found };
        self.taken.extend(taken.map(|value| (id, value)));
        if !agrees {
            self.threads[thread.index()].strayed.get_or_insert(id);
        }
        if let Role::Read(definition) = self.symbolic.role(id) {
            let sort = self.symbolic.definition(definition).sort;
            self.symbols[definition.index()] = match taken {
                _ if agrees => Symbol::AsObserved,
                Some(memory) => Symbol::Value(sort.from_memory(memory)),
                None => Symbol::Unknown,
            };
        }
    }

    /// A read of the side that the trace did not take.
    pub fn read_on_other_side(&mut self, id: EventId, variable: VarId) {
        let found = self.load(id, variable);
        self.taken.extend(found.map(|value| (id, value)));
        if let Role::Read(definition) = self.symbolic.role(id) {
            let sort = self.symbolic.definition(definition).sort;
            let value = found.map_or(Symbol::Unknown, |memory| Symbol::Value(sort.from_memory(memory)));
            self.symbols[definition.index()] = value;
        }
    }

    /// Whether a read finds in a cell what it found in the trace: the same write, which did the same; or a known equal
    /// value, if the trace explains what the read found there.
    fn agrees(&self, read: EventId, cell: usize, seen: Source) -> bool {
        let content = self.cells[cell];
        if content.as_observed && content.source == seen {
            return true;
        }
        let value = self.facts.value_read(read, cell);
        value.is_some() && value == self.facts.value_left(seen, cell) && value == content.value
    }

    /// What memory holds, where all of it is known.
    fn load(&self, id: EventId, variable: VarId) -> Option<i64> {
        let cells = self.facts.cells.of_event(id.index(), variable.0);
        match self.facts.trace.tables.variable(variable) {
            Variable::Range { size: 9.., .. } => None,
            Variable::Range { address, .. } if !self.facts.cells.are_variables() => {
                let mut whole = 0;
                for cell in cells {
                    let (start, _) = self.facts.cells.bytes(cell)?;
                    whole |= self.cells[cell].value? << (8 * (start - address));
                }
                Some(whole as i64)
            }
            _ => self.cells[cells.start].value.map(|value| value as i64),
        }
    }

    /// A write, also one of the side that the trace did not take.
    pub fn write(&mut self, id: EventId, thread: ThreadId, variable: VarId) -> Check {
        let event = self.facts.trace.event(id);
        let recorded = event.value_written();
        let (as_observed, memory) = match self.symbolic.role(id) {
            Role::Write(term) => {
                let memory = |value| self.in_memory(id, term, value);
                match self.given(id, term)? {
                    _ if event.op.on_other_side() => (false, memory(self.given(id, term)?.value())?),
                    Given::AsObserved(value) => (true, recorded.or(memory(value)?)),
                    Given::Now(value) => {
                        let memory = memory(value)?;
                        (memory.is_some() && memory == recorded, memory)
                    }
                }
            }
            _ if self.threads[thread.index()].strayed.is_some() => (false, None),
            _ => (true, recorded),
        };
        let source = if as_observed { Source::write(id) } else { Source::UNKNOWN };
        if !as_observed {
            self.altered.get_or_insert(id);
        }
        let whole = self.facts.trace.tables.variable(variable);
        for cell in self.facts.cells.of_event(id.index(), variable.0) {
            let value = memory.and_then(|memory| self.facts.cells.slice(whole, memory, cell));
            self.cells[cell] = Content { source, as_observed, value };
        }
        Ok(())
    }

    /// Code that was not observed finds at its begin what it found in the trace, and may write what it could reach.
    /// Which cells these are was worked out for writes that do what they did; so no other write may come before it.
    pub fn hidden(&mut self, id: EventId, begins: bool) -> Check {
        let facts = self.facts;
        if let (true, Some(write)) = (begins, self.altered) {
            let (text, write_text) = (facts.text(id), facts.text(write));
            let detail = format!("{text} may depend on {write_text}, which writes something else than in the trace");
            return Err(Violation::new(ScheduleRule::OtherValue, id, detail));
        }
        for access in facts.hidden.at(id) {
            let (cell, seen) = (facts.hidden.cell(access), facts.hidden.seen[access]);
            let content = self.cells[cell];
            let known = content.value.is_some() && content.value == facts.value_left(seen, cell);
            if begins && content.source != seen && !known {
                let detail = format!("{} may find other memory than in the trace", facts.text(id));
                return Err(Violation::new(ScheduleRule::OtherValue, id, detail));
            }
            self.cells[cell] = Content { source: Source::write(id), as_observed: true, value: None };
        }
        Ok(())
    }

    fn in_memory(&self, id: EventId, term: TermId, value: Option<i128>) -> Result<Option<i64>, Violation> {
        let Some(value) = value else { return Ok(None) };
        match self.symbolic.term(term).sort.to_memory(value) {
            Some(memory) => Ok(Some(memory)),
            None => Err(self.undefined(id, &Undefined::TooLarge.to_string())),
        }
    }

    // Expressions.

    /// A definition, also one of the side that the trace did not take.
    pub fn define(&mut self, id: EventId) -> Check {
        let Role::Let(definition) = self.symbolic.role(id) else { return Ok(()) };
        let term = self.symbolic.definition(definition).term.expect("a let has a term");
        let in_trace = !self.facts.trace.events.ops()[id.index()].on_other_side();
        self.symbols[definition.index()] = match self.given(id, term)? {
            Given::AsObserved(_) if in_trace => Symbol::AsObserved,
            Given::AsObserved(Some(value)) | Given::Now(Some(value)) => Symbol::Value(value),
            _ => Symbol::Unknown,
        };
        Ok(())
    }

    /// What an expression gives now; not feasible if that may be nothing.
    fn given(&self, id: EventId, term: TermId) -> Result<Given, Violation> {
        let mut as_observed = true;
        self.symbolic.symbols_of(term, &mut |definition| {
            as_observed &= matches!(self.symbols[definition.index()], Symbol::AsObserved);
        });
        let symbol = |definition: DefinitionId| match self.symbols[definition.index()] {
            Symbol::AsObserved => self.symbolic.definition(definition).value,
            Symbol::Value(value) => Some(value),
            Symbol::Unknown => None,
        };
        let value = self.symbolic.evaluate(term, symbol).map_err(|why| self.undefined(id, &why.to_string()))?;
        let happened = !self.facts.trace.events.ops()[id.index()].on_other_side();
        // What was computed in the trace had a value there, known or not.
        if as_observed && happened {
            return Ok(Given::AsObserved(value));
        }
        if value.is_none() && self.is_partial(term) {
            return Err(self.undefined(id, "it depends on something unknown and may divide by zero or shift too far"));
        }
        Ok(Given::Now(value))
    }

    /// Whether a term has no value for some values of its symbols.
    fn is_partial(&self, term: TermId) -> bool {
        let constant = |term: TermId| match self.symbolic.term(term).node {
            Node::Constant(value) => Some(value),
            _ => None,
        };
        match self.symbolic.term(term).node {
            Node::Constant(_) | Node::Symbol(_) => false,
            Node::Convert(a) | Node::Unary(_, a) => self.is_partial(a),
            Node::Choose(a, b, c) => [a, b, c].into_iter().any(|part| self.is_partial(part)),
            Node::Binary(operator, a, b) => {
                let width = |sort: Sort| sort.width().unwrap_or(64) as i128;
                let here = match operator {
                    Binary::Divide | Binary::Remainder => constant(b).is_none_or(|b| b == 0 || b == -1),
                    Binary::ShiftLeft | Binary::ShiftRight => {
                        constant(b).is_none_or(|b| !(0..width(self.symbolic.term(a).sort)).contains(&b))
                    }
                    _ => false,
                };
                here || self.is_partial(a) || self.is_partial(b)
            }
        }
    }

    /// A racing write is about to happen: what it writes has a value.
    pub fn is_defined(&self, id: EventId) -> Check {
        match self.symbolic.role(id) {
            Role::Write(term) => {
                let value = self.given(id, term)?.value();
                self.in_memory(id, term, value).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    // Branches.

    /// A branch of the trace.
    pub fn branch(&mut self, id: EventId, thread: ThreadId) -> Check {
        let diverges = self.diverging.binary_search(&id).is_ok();
        let Role::Branch { condition, outcome } = self.symbolic.role(id) else {
            if diverges {
                let detail = format!("{} is to go the other way but has no condition", self.facts.text(id));
                return Err(Violation::new(ScheduleRule::DoesNotDiverge, id, detail));
            }
            return self.has_not_strayed(id, thread);
        };
        let given = self.given(id, condition)?;
        if diverges {
            return self.diverge(id, thread, given, outcome);
        }
        let now = match given {
            Given::AsObserved(_) => return Ok(()),
            Given::Now(value) => value.map(|value| value != 0),
        };
        let way = |outcome: Option<bool>| outcome.map_or("unknown", |yes| if yes { "true" } else { "false" });
        match (outcome, now) {
            (Some(outcome), Some(now)) if outcome == now => Ok(()),
            (Some(_), Some(_)) => {
                let (text, now, was) = (self.facts.text(id), way(now), way(outcome));
                let detail = format!("the condition of {text} is {now} here and was {was} in the trace");
                Err(Violation::new(ScheduleRule::OtherOutcome, id, detail))
            }
            _ => {
                let (text, now, was) = (self.facts.text(id), way(now), way(outcome));
                let detail = format!("the condition of {text} is {now} here and was {was} in the trace");
                Err(Violation::new(ScheduleRule::UnknownOutcome, id, detail))
            }
        }
    }

    fn diverge(&mut self, id: EventId, thread: ThreadId, given: Given, outcome: Option<bool>) -> Check {
        if self.facts.missing.is_some() {
            let detail = format!("{} is to go the other way in a trace with missing methods", self.facts.text(id));
            return Err(Violation::new(ScheduleRule::DoesNotDiverge, id, detail));
        }
        let now = given.value().map(|value| value != 0);
        match (outcome, now) {
            (Some(outcome), Some(now)) if outcome != now => {
                self.threads[thread.index()].diverged = Some(id);
                Ok(())
            }
            _ => {
                let detail = format!("{} does not go the other way here", self.facts.text(id));
                Err(Violation::new(ScheduleRule::DoesNotDiverge, id, detail))
            }
        }
    }

    /// A condition on the side that the trace did not take.
    pub fn branch_on_other_side(&mut self, id: EventId) -> Check {
        let Role::Branch { condition, .. } = self.symbolic.role(id) else { return Ok(()) };
        match self.given(id, condition)?.value() {
            Some(value) if value != 0 => Ok(()),
            value => {
                let now = if value.is_some() { "false" } else { "unknown" };
                let detail = format!("{} needs its condition to be true, and it is {now}", self.facts.text(id));
                Err(Violation::new(ScheduleRule::OtherSideUnknown, id, detail))
            }
        }
    }

    /// What may depend on everything that its thread has read.
    pub fn has_not_strayed(&self, id: EventId, thread: ThreadId) -> Check {
        let Some(read) = self.threads[thread.index()].strayed else { return Ok(()) };
        let (text, read_text) = (self.facts.text(id), self.facts.text(read));
        let detail = format!("{text} may depend on {read_text}, which finds something else than in the trace");
        Err(Violation::new(ScheduleRule::OtherValue, read, detail))
    }

    /// An event of a thread comes next: it is of the trace, unless the thread has left that.
    pub fn is_on_its_side(&self, id: EventId, thread: ThreadId, op: Op) -> Check {
        match self.diverged(thread) {
            Some(branch) if !op.on_other_side() => {
                let (text, branch) = (self.facts.text(id), self.facts.text(branch));
                let detail = format!("{text} comes after {branch}, which went the other way");
                Err(Violation::new(ScheduleRule::BeyondOtherSide, id, detail))
            }
            _ => Ok(()),
        }
    }

    /// An event that a witness leads up to is one that can happen.
    pub fn can_happen(&self, id: EventId, thread: ThreadId, op: Op) -> Check {
        self.is_on_its_side(id, thread, op)?;
        if op.on_other_side() && self.diverged(thread).is_none() {
            let detail = format!("{} is on the other side of a branch that went as it did", self.facts.text(id));
            return Err(Violation::new(ScheduleRule::DoesNotHappen, id, detail));
        }
        Ok(())
    }

    /// The values that a witness gives are those that its reads take.
    pub fn took(&self, said: &[(EventId, i64)]) -> Check {
        let differ = self.taken.iter().zip(said).find(|(taken, said)| taken != said);
        let longer = || self.taken.get(said.len()).map(|&(read, value)| (Some((read, value)), None));
        let more = || said.get(self.taken.len()).map(|&said| (None, Some(said)));
        let first = differ.map(|(&taken, &said)| (Some(taken), Some(said)));
        let Some((taken, said)) = first.or_else(longer).or_else(more) else { return Ok(()) };
        let text = |entry: Option<(EventId, i64)>| match entry {
            Some((read, _)) if read.index() >= self.facts.next.len() => format!("event {}", read.0),
            Some((read, value)) => format!("{} to take {value}", self.facts.text(read)),
            None => "no more reads".to_owned(),
        };
        let detail = format!("the witness says {}, the schedule makes {}", text(said), text(taken));
        let event = said.or(taken).map(|(read, _)| read);
        Err(Violation { rule: ScheduleRule::OtherReads, event, detail })
    }

    fn undefined(&self, id: EventId, why: &str) -> Violation {
        let detail = format!("what {} computes has no value: {why}", self.facts.text(id));
        Violation::new(ScheduleRule::UndefinedValue, id, detail)
    }
}
