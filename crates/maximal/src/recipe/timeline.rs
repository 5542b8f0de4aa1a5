//! The solver, and what it is told about the order of events.
//!
//! Events that the solver talks about are nodes of its graph; one more node is *now*, the moment at which the target comes
//! next. What does not happen comes after now, in the order of the trace. So an atom "a before b" is true if only a
//! happens.

use crate::cuts::Cuts;
use crate::index::Index;
use crate::order::Node;
use crate::recipe::circuit::{Bit, NO, YES};
use crate::solver::{Literal, Outcome, Solver, Stop};
use snag_trace::EventId;
use std::collections::HashMap;

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
        let Index { threads, must, .. } = self.index;
        let fixed = first < self.base || second < self.base;
        if fixed || threads.thread(first) == threads.thread(second) {
            Some(first < second)
        } else if must.reaches(threads, first, second) {
            Some(true)
        } else if must.reaches(threads, second, first) {
            Some(false)
        } else {
            None
        }
    }
}

/// After so many clauses somebody is asked whether to stop.
const CLAUSES: u32 = 1 << 12;

pub(crate) struct Timeline {
    solver: Solver,
    now: Node,
    nodes: HashMap<EventId, Node>,
    /// The event of each node; that of *now* is none.
    events: Vec<EventId>,
    /// The nodes of each thread in order.
    chains: Vec<Vec<Node>>,
    atoms: HashMap<(Node, Node), Literal>,
    ordered: Vec<(Literal, Node, Node)>,
    clauses: Vec<Vec<Literal>>,
    refuted: bool,
    /// The graph has changed since it was sorted.
    unsorted: bool,
    variables: usize,
    /// How many of the variables have a value from the last answer.
    valued: usize,
    /// Clauses that were added.
    pub added: u32,
    stop: Option<Stop>,
    stopped: bool,
}

/// What the solver says about two events.
pub(crate) enum Said {
    /// The event happens.
    Happens(EventId),
    /// It does not.
    DoesNot(EventId),
    /// The first before the second.
    Order(EventId, EventId),
}

impl Timeline {
    pub fn new(threads: usize, stop: Option<Stop>) -> Timeline {
        let mut solver = Solver::new(stop.clone());
        let now = solver.order().add_node(None, None);
        Timeline {
            solver,
            now,
            nodes: HashMap::new(),
            events: vec![EventId(u32::MAX)],
            chains: vec![Vec::new(); threads],
            atoms: HashMap::new(),
            ordered: Vec::new(),
            clauses: Vec::new(),
            refuted: false,
            unsorted: true,
            variables: 0,
            valued: 0,
            added: 0,
            stop,
            stopped: false,
        }
    }

    /// How many events the solver knows.
    pub fn events(&self) -> usize {
        self.nodes.len()
    }

    /// An event that happens in any case.
    pub fn happens(&mut self, scope: &Scope, event: EventId) {
        let node = self.node(scope, event);
        self.solver.order().add_fixed(node, self.now);
    }

    /// A new variable, and the value to try first.
    pub fn fresh(&mut self, preferred: bool) -> Bit {
        self.variables += 1;
        Bit::Open(self.solver.add_variable(None, preferred))
    }

    /// A new variable that follows from others.
    pub fn derived(&mut self) -> Bit {
        self.variables += 1;
        Bit::Open(self.solver.add_derived())
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
        if self.added.is_multiple_of(CLAUSES) {
            self.stopped |= self.stop.as_ref().is_some_and(|stop| stop());
        }
        self.clauses.push(clause);
    }

    /// Whether to say no more: somebody wants to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub fn solve(&mut self) -> Outcome {
        if self.unsorted {
            self.unsorted = false;
            let events = &self.events;
            self.refuted |= !self.solver.order().sort(|node| events[node.0 as usize].0);
        }
        if self.refuted {
            return Outcome::Unsatisfiable;
        }
        for clause in self.clauses.drain(..) {
            self.solver.add_clause(&clause);
        }
        let outcome = self.solver.solve();
        if outcome == Outcome::Satisfiable {
            self.valued = self.variables;
        }
        outcome
    }

    /// The value of a bit in the last answer, if it was part of the question.
    pub fn is_true(&self, bit: Bit) -> Option<bool> {
        match bit {
            Bit::Known(known) => Some(known),
            Bit::Open(literal) => (literal.variable() <= self.valued).then(|| self.solver.is_true(literal)),
        }
    }

    /// What the last answer says about the order of events.
    pub fn said(&self) -> impl Iterator<Item = Said> {
        self.ordered.iter().filter(|(literal, ..)| literal.variable() <= self.valued).map(
            |&(literal, first, second)| {
                let (first, second) = if self.solver.is_true(literal) { (first, second) } else { (second, first) };
                let event = |node: Node| self.events[node.0 as usize];
                if second == self.now {
                    Said::Happens(event(first))
                } else if first == self.now {
                    Said::DoesNot(event(second))
                } else {
                    Said::Order(event(first), event(second))
                }
            },
        )
    }

    /// That one event comes before another. What cannot happen comes last.
    pub fn before(&mut self, scope: &Scope, first: EventId, second: EventId) -> Bit {
        if !scope.may(first) {
            return NO;
        }
        if !scope.may(second) {
            return YES;
        }
        if let Some(settled) = scope.settled(first, second) {
            return Bit::Known(settled);
        }
        let (first, second) = (self.node(scope, first), self.node(scope, second));
        let as_observed = self.events[first.0 as usize] < self.events[second.0 as usize];
        Bit::Open(self.atom(first, second, as_observed))
    }

    /// That an event happens.
    pub fn included(&mut self, scope: &Scope, event: EventId) -> Bit {
        if scope.must(event) {
            return YES;
        }
        if !scope.may(event) {
            return NO;
        }
        let node = self.node(scope, event);
        let threads = &scope.index.threads;
        let happened = threads.position(event) < scope.tried[threads.thread(event)];
        Bit::Open(self.atom(node, self.now, happened))
    }

    fn atom(&mut self, first: Node, second: Node, preferred: bool) -> Literal {
        if let Some(&literal) = self.atoms.get(&(first, second)) {
            return literal;
        }
        self.variables += 1;
        let literal = self.solver.add_variable(Some((first, second)), preferred);
        self.atoms.insert((first, second), literal);
        self.atoms.insert((second, first), !literal);
        self.ordered.push((literal, first, second));
        literal
    }

    fn node(&mut self, scope: &Scope, event: EventId) -> Node {
        if let Some(&node) = self.nodes.get(&event) {
            return node;
        }
        self.unsorted = true;
        let (thread, events) = (scope.index.threads.thread(event), &self.events);
        let at = self.chains[thread].partition_point(|node| events[node.0 as usize] < event);
        let previous = at.checked_sub(1).map(|at| self.chains[thread][at]);
        let next = self.chains[thread].get(at).copied();
        let node = self.solver.order().add_node(previous, next);
        self.chains[thread].insert(at, node);
        self.events.push(event);
        self.nodes.insert(event, node);
        self.fix(scope.index, event, node, thread);
        node
    }

    /// Tells the graph what the must order says about a new node: its nearest neighbours in the other threads.
    fn fix(&mut self, index: &Index, event: EventId, node: Node, thread: usize) {
        let Index { threads, must, .. } = index;
        for other in (0..threads.count()).filter(|&other| other != thread) {
            if self.chains[other].is_empty() {
                continue;
            }
            let events = &self.events;
            let position = |node: &Node| threads.position(events[node.0 as usize]);
            let before = must.row(event)[other];
            let at = self.chains[other].partition_point(|node| position(node) < before);
            let earlier = at.checked_sub(1).map(|at| self.chains[other][at]);
            let after = must.first_after(threads, event, other);
            let at = self.chains[other].partition_point(|node| position(node) < after);
            let later = self.chains[other].get(at).copied();
            if let Some(earlier) = earlier {
                self.solver.order().add_fixed(earlier, node);
            }
            if let Some(later) = later {
                self.solver.order().add_fixed(node, later);
            }
        }
    }
}
