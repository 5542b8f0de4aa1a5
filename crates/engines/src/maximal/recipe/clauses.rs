//! What the solver is told: clauses about bits, some of which are about the order of events.

use crate::maximal::cuts::Cuts;
use crate::maximal::index::Index;
use crate::maximal::recipe::circuit::{Bit, NO, YES};
use crate::maximal::solver::{Literal, Outcome, Stop};
use crate::maximal::timeline::{Said, Timeline};
use snag_model::EventId;

/// What is settled about the order of events before the solver is asked.
pub(crate) struct Scope<'i, 't> {
    pub index: &'i Index<'t>,
    pub cuts: Cuts,
    /// All before it stays as it was.
    pub base: EventId,
    /// Per thread how many events happened in the last attempt.
    pub tried: Vec<u32>,
}

impl Scope<'_, '_> {
    pub fn may(&self, event: EventId) -> bool {
        self.cuts.may(self.index, event)
    }

    pub fn must(&self, event: EventId) -> bool {
        self.cuts.must(self.index, event)
    }

    /// Which of two events comes first, if that is the same in all schedules that have both.
    pub fn settled(&self, first: EventId, second: EventId) -> Option<bool> {
        self.index.settled(first, second, self.base).map(|(settled, _)| settled)
    }
}

/// After so many clauses somebody is asked whether to stop.
const PATIENCE: u32 = 1 << 12;

pub(crate) struct Clauses {
    line: Timeline,
    new: Vec<Vec<Literal>>,
    refuted: bool,
    /// The variables that have a value from the last answer: the first so many.
    valued: usize,
    /// How many were added.
    pub added: u32,
    stop: Option<Stop>,
    stopped: bool,
}

impl Clauses {
    pub fn new(threads: usize, stop: Option<Stop>) -> Clauses {
        let line = Timeline::new(threads, stop.clone());
        Clauses { line, new: Vec::new(), refuted: false, valued: 0, added: 0, stop, stopped: false }
    }

    /// How many events the solver knows.
    pub fn events(&self) -> usize {
        self.line.events()
    }

    /// An event that happens in any case.
    pub fn must_happen(&mut self, scope: &Scope, event: EventId) {
        self.line.must_happen(scope.index, event);
    }

    /// A new variable, and the value to try first.
    pub fn fresh(&mut self, preferred: bool) -> Bit {
        Bit::Open(self.line.solver.add_variable(None, preferred))
    }

    /// A new variable that follows from others.
    pub fn derived(&mut self) -> Bit {
        Bit::Open(self.line.solver.add_derived())
    }

    /// At least one of these holds.
    pub fn clause(&mut self, parts: impl IntoIterator<Item = Bit>) {
        let mut clause = Vec::new();
        for part in parts {
            match part {
                YES => return,
                NO => {}
                Bit::Open(literal) => clause.push(literal),
            }
        }
        self.refuted |= clause.is_empty();
        self.added += 1;
        if self.added.is_multiple_of(PATIENCE) {
            self.stopped |= self.stop.as_ref().is_some_and(|stop| stop());
        }
        self.new.push(clause);
    }

    /// Whether to say no more: somebody wants to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub fn solve(&mut self) -> Outcome {
        self.refuted |= !self.line.sort();
        if self.refuted {
            return Outcome::Unsatisfiable;
        }
        for clause in self.new.drain(..) {
            self.line.solver.add_clause(&clause);
        }
        let outcome = self.line.solver.solve();
        if outcome == Outcome::Satisfiable {
            self.valued = self.line.solver.variables();
        }
        outcome
    }

    /// The value of a bit in the last answer, if it was part of the question.
    pub fn is_true(&self, bit: Bit) -> Option<bool> {
        match bit {
            Bit::Known(known) => Some(known),
            Bit::Open(literal) => (literal.variable() <= self.valued).then(|| self.line.solver.is_true(literal)),
        }
    }

    /// What the last answer says about the order of events.
    pub fn said(&self) -> impl Iterator<Item = Said> {
        self.line.said(self.valued)
    }

    /// That one event comes before another. What cannot happen comes last.
    pub fn before(&mut self, scope: &Scope, first: EventId, second: EventId) -> Bit {
        if !scope.may(first) {
            return NO;
        }
        if !scope.may(second) {
            return YES;
        }
        match scope.settled(first, second) {
            Some(settled) => Bit::Known(settled),
            None => Bit::Open(self.line.before(scope.index, first, second)),
        }
    }

    /// That an event happens.
    pub fn included(&mut self, scope: &Scope, event: EventId) -> Bit {
        if scope.must(event) {
            return YES;
        }
        if !scope.may(event) {
            return NO;
        }
        let threads = &scope.index.threads;
        let happened = threads.position(event) < scope.tried[threads.thread(event)];
        Bit::Open(self.line.happens(scope.index, event, happened))
    }
}
