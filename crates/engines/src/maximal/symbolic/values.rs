//! Memory and expressions while a run goes on: what cells hold, what symbols stand for, where branches go.

use super::expressions::Expressions;
use crate::maximal::index::Index;
use crate::maximal::memory::Source;
use crate::maximal::proposal::Proposal;
use crate::maximal::run::Violation;
use crate::maximal::semantics::{Finds, Values};
use snag_model::symbolic::Role;
use snag_model::{DefinitionId, EventId, Op, TermId, VarId, Variable};
use std::collections::HashMap;

/// A branch did not go where it should, or something computed has no value.
#[derive(Debug)]
pub(crate) struct WrongStep(pub EventId);

/// The rules that a run has broken.
type Violations = Vec<Violation<WrongStep>>;

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

/// Memory with values.
pub(crate) struct Symbolic<'i> {
    pub(super) index: &'i Index<'i>,
    pub(super) expressions: &'i Expressions<'i>,
    base: EventId,
    /// The number of this run.
    round: u32,
    /// What each read found, cell by cell.
    pub(super) found: HashMap<EventId, Vec<Content>>,
    /// Per cell and per symbol the run that has written it last, and what that left.
    cells: Vec<(u32, Content)>,
    symbols: Vec<(u32, Given)>,
    /// Threads that have read something else than in the trace.
    strayed: Vec<bool>,
    /// Threads that have taken a wrong step.
    lost: Vec<bool>,
}

impl<'i> Symbolic<'i> {
    /// Whether a read finds what it is to find.
    fn sees_enough(&self, proposal: &Proposal, read: EventId) -> bool {
        let memory = &self.index.memory;
        memory.cells_of(read).all(|cell| match proposal.choice(read, cell) {
            Some(chosen) => self.content(cell).source == chosen,
            None => self.agrees_in(read, cell),
        })
    }

    fn content(&self, cell: usize) -> Content {
        let (round, content) = self.cells[cell];
        if round == self.round {
            return content;
        }
        let source = self.index.memory.last_before(cell, self.base);
        Content { source, as_observed: true, value: self.left(source, cell) }
    }

    /// What a write of the trace, or the initial memory, leaves in a cell.
    fn left(&self, source: Source, cell: usize) -> Option<u64> {
        match source {
            None => self.index.memory.value_left(None, cell),
            Some(write) => self.expressions.wrote(write).and_then(|value| self.slice(write, value, cell)),
        }
    }

    fn slice(&self, event: EventId, value: i64, cell: usize) -> Option<u64> {
        let Index { trace, cells, .. } = self.index;
        let variable = trace.tables.variable(VarId(trace.events.targets()[event.index()]));
        cells.slice(variable, value, cell)
    }

    /// Whether a read finds in a cell what it found in the trace.
    fn agrees_in(&self, read: EventId, cell: usize) -> bool {
        let (memory, content) = (&self.index.memory, self.content(cell));
        content.as_observed && content.source == memory.seen(read, cell)
            || memory.wanted(read, cell).is_some_and(|wanted| content.value == Some(wanted.value))
    }

    // Accesses.

    fn read(&mut self, event: EventId, thread: usize) {
        let op = self.index.op(event);
        let memory = &self.index.memory;
        let found: Vec<Content> = memory.cells_of(event).map(|cell| self.content(cell)).collect();
        let agrees = !op.on_other_side() && memory.cells_of(event).all(|cell| self.agrees_in(event, cell));
        self.strayed[thread] |= !agrees && !op.on_other_side();
        if let Role::Read(definition) = self.expressions.symbolic.role(event) {
            let defined = self.expressions.symbolic.definition(definition);
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
        let Index { trace, cells, memory, .. } = self.index;
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

    fn write(&mut self, event: EventId, thread: usize, violations: &mut Violations) {
        let recorded = self.expressions.wrote(event);
        let (as_observed, value) = match self.expressions.symbolic.role(event) {
            Role::Write(term) => match self.memory_of(event, term) {
                Ok(Given::AsObserved(_)) => (true, recorded),
                Ok(Given::Now(value)) => {
                    let value = value.map(|value| value as i64);
                    let same = value.is_some() && value == self.index.trace.event(event).value_written();
                    (same && !self.index.op(event).on_other_side(), value)
                }
                Err(()) => {
                    self.wrong_step(event, thread, violations);
                    (false, None)
                }
            },
            _ if self.strayed[thread] => (false, None),
            _ => (true, recorded),
        };
        for cell in self.index.memory.cells_of(event) {
            let value = value.and_then(|value| self.slice(event, value, cell));
            self.cells[cell] = (self.round, Content { source: Some(event), as_observed, value });
        }
    }

    // Expressions.

    fn symbol(&self, definition: DefinitionId) -> Given {
        match self.symbols[definition.index()] {
            (round, given) if round == self.round => given,
            // Defined before what is reordered.
            _ => Given::AsObserved(self.expressions.symbolic.definition(definition).value),
        }
    }

    /// The value of a term at the end of the last run, where known.
    pub(super) fn value_of(&self, term: TermId) -> Option<i128> {
        self.expressions.symbolic.evaluate(term, |definition| self.symbol(definition).value()).ok().flatten()
    }

    /// What an expression gives; an error if that may be nothing.
    fn given(&self, event: EventId, term: TermId) -> Result<Given, ()> {
        let symbolic = &self.expressions.symbolic;
        let mut as_observed = !self.index.op(event).on_other_side();
        symbolic.symbols_of(term, &mut |definition| {
            as_observed &= matches!(self.symbol(definition), Given::AsObserved(_));
        });
        let value = symbolic.evaluate(term, |definition| self.symbol(definition).value()).map_err(|_| ())?;
        match as_observed {
            true => Ok(Given::AsObserved(value)),
            false if value.is_none() && self.expressions.is_partial(term) => Err(()),
            false => Ok(Given::Now(value)),
        }
    }

    /// The same for what is written to memory.
    fn memory_of(&self, event: EventId, term: TermId) -> Result<Given, ()> {
        let given = self.given(event, term)?;
        let sort = self.expressions.symbolic.term(term).sort;
        let in_memory = |value: Option<i128>| match value {
            None => Ok(None),
            Some(value) => sort.to_memory(value).map(|memory| Some(memory as i128)).ok_or(()),
        };
        Ok(match given {
            Given::AsObserved(value) => Given::AsObserved(in_memory(value)?),
            Given::Now(value) => Given::Now(in_memory(value)?),
        })
    }

    fn define(&mut self, event: EventId, thread: usize, violations: &mut Violations) {
        let Role::Let(definition) = self.expressions.symbolic.role(event) else { return };
        let term = self.expressions.symbolic.definition(definition).term.expect("a let has a term");
        let given = self.given(event, term).unwrap_or_else(|()| {
            self.wrong_step(event, thread, violations);
            Given::Now(None)
        });
        self.symbols[definition.index()] = (self.round, given);
    }

    fn branch(&mut self, proposal: &Proposal, event: EventId, thread: usize, violations: &mut Violations) {
        let Role::Branch { condition, outcome } = self.expressions.symbolic.role(event) else {
            if self.strayed[thread] {
                self.wrong_step(event, thread, violations);
            }
            return;
        };
        let diverges = proposal.diverging.contains(&event);
        let given = self.given(event, condition);
        let truth = |given: Given| given.value().map(|value| value != 0);
        let right = match given {
            Err(()) => false,
            Ok(given) if self.index.op(event) == Op::OtherBranch => truth(given) == Some(true),
            Ok(given) if diverges => truth(given).is_some() && truth(given) == outcome.map(|outcome| !outcome),
            Ok(Given::AsObserved(_)) => true,
            Ok(given) => truth(given).is_some() && truth(given) == outcome,
        };
        if !right {
            self.wrong_step(event, thread, violations);
        }
    }

    /// What a thread does after its first wrong step follows from that, and says nothing new.
    fn wrong_step(&mut self, event: EventId, thread: usize, violations: &mut Violations) {
        if !std::mem::replace(&mut self.lost[thread], true) {
            violations.push(Violation::Value(WrongStep(event)));
        }
    }
}

impl<'i> Values<'i> for Symbolic<'i> {
    type Broken = WrongStep;

    const MOST_VIOLATIONS: usize = 16;
    const READS_YIELD: bool = true;

    fn new(index: &'i Index<'i>) -> Symbolic<'i> {
        let expressions = index.expressions.as_ref().expect("an index of level `symbolic` has expressions");
        let nothing = Content { source: None, as_observed: false, value: None };
        Symbolic {
            index,
            expressions,
            base: EventId(0),
            round: 0,
            found: HashMap::new(),
            cells: vec![(0, nothing); index.cells.count()],
            symbols: vec![(0, Given::Now(None)); expressions.symbolic.definitions().len()],
            strayed: Vec::new(),
            lost: Vec::new(),
        }
    }

    fn reset(&mut self, base: EventId) {
        self.base = base;
        self.round += 1;
        self.found.clear();
        for flags in [&mut self.strayed, &mut self.lost] {
            flags.clear();
            flags.resize(self.index.threads.count(), false);
        }
    }

    fn is_taken(&self, proposal: &Proposal, event: EventId) -> bool {
        let branch = self.expressions.sides.branch_of(event);
        branch.is_some_and(|branch| proposal.diverging.contains(&branch))
    }

    fn finds(&self, proposal: &Proposal, read: EventId) -> Finds {
        match self.index.op(read).on_other_side() {
            true => Finds::Anything,
            false if self.sees_enough(proposal, read) => Finds::Expected,
            false => Finds::Unexpected,
        }
    }

    fn perform(&mut self, proposal: &Proposal, event: EventId, thread: usize, op: Op, violations: &mut Violations) {
        if self.strayed[thread] && self.expressions.in_call(event) {
            self.wrong_step(event, thread, violations);
        }
        match op {
            Op::Let => self.define(event, thread, violations),
            Op::Branch | Op::MethodBegin => self.branch(proposal, event, thread, violations),
            _ => {
                if op.reads() {
                    self.read(event, thread);
                }
                if op.writes() {
                    self.write(event, thread, violations);
                }
            }
        }
    }

    /// A racing write has something to write; and a racing event of a missing call comes only if all is as it was.
    fn broken_by_target(&self, target: &[EventId]) -> Violations {
        let writes_nothing = |&event: &EventId| match self.expressions.symbolic.role(event) {
            Role::Write(term) => self.memory_of(event, term).is_err(),
            _ => false,
        };
        let strayed =
            |event: EventId| self.expressions.in_call(event) && self.strayed[self.index.threads.thread(event)];
        let broken = target.iter().copied().filter(|event| writes_nothing(event) || strayed(*event));
        broken.map(|event| Violation::Value(WrongStep(event))).collect()
    }
}
