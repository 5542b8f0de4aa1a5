//! Atoms of the order theory: the events that the solver talks about, as nodes of its graph, and variables for their
//! order.
//!
//! One more node is *now*, the moment at which the target comes next. What does not happen comes after now, in the
//! order of the trace; so "a before b" is true if only a happens, and "a before now" says that a happens.

use crate::maximal::index::Index;
use crate::maximal::order::Node;
use crate::maximal::solver::{Literal, Solver, Stop};
use snag_model::EventId;
use std::collections::HashMap;

pub(crate) struct Atoms {
    pub solver: Solver,
    now: Node,
    nodes: HashMap<EventId, Node>,
    /// The event of each node; that of *now* is none.
    events: Vec<EventId>,
    /// The nodes of each thread in order.
    chains: Vec<Vec<Node>>,
    atoms: HashMap<(Node, Node), Literal>,
    ordered: Vec<(Literal, Node, Node)>,
    /// The graph has changed since it was sorted.
    unsorted: bool,
}

/// What the solver has decided about events.
pub(crate) enum Decided {
    /// The event happens.
    Happens(EventId),
    /// It does not.
    DoesNot(EventId),
    /// The first before the second.
    Order(EventId, EventId),
}

impl Atoms {
    pub fn new(threads: usize, stop: Option<Stop>) -> Atoms {
        let mut solver = Solver::new(stop);
        let now = solver.order().add_node(None, None);
        Atoms {
            solver,
            now,
            nodes: HashMap::new(),
            events: vec![EventId(u32::MAX)],
            chains: vec![Vec::new(); threads],
            atoms: HashMap::new(),
            ordered: Vec::new(),
            unsorted: true,
        }
    }

    /// How many events the solver knows.
    pub fn events(&self) -> usize {
        self.nodes.len()
    }

    /// An event that happens in any case.
    pub fn must_happen(&mut self, index: &Index, event: EventId) {
        let node = self.node(index, event);
        self.solver.order().add_fixed(node, self.now);
    }

    /// That one event comes before another; tried first is the order of the trace.
    pub fn before(&mut self, index: &Index, first: EventId, second: EventId) -> Literal {
        let nodes = (self.node(index, first), self.node(index, second));
        self.atom(nodes.0, nodes.1, first < second)
    }

    /// That an event happens, and which value to try first.
    pub fn happens(&mut self, index: &Index, event: EventId, preferred: bool) -> Literal {
        let node = self.node(index, event);
        self.atom(node, self.now, preferred)
    }

    /// Puts the graph in order, if it has changed. False if there is a cycle: as fixed edges follow the order of the
    /// trace, only what the solver knows for certain can close one.
    pub fn sort(&mut self) -> bool {
        if !std::mem::take(&mut self.unsorted) {
            return true;
        }
        let events = &self.events;
        self.solver.order().sort(|node| events[node.0 as usize].0)
    }

    /// What the last answer says about the order of events, as far as its first so many variables go.
    pub fn decided(&self, variables: usize) -> impl Iterator<Item = Decided> {
        let asked = self.ordered.iter().filter(move |(literal, ..)| literal.variable() <= variables);
        asked.map(|&(literal, first, second)| {
            let (first, second) = if self.solver.is_true(literal) { (first, second) } else { (second, first) };
            let event = |node: Node| self.events[node.0 as usize];
            if second == self.now {
                Decided::Happens(event(first))
            } else if first == self.now {
                Decided::DoesNot(event(second))
            } else {
                Decided::Order(event(first), event(second))
            }
        })
    }

    fn atom(&mut self, first: Node, second: Node, preferred: bool) -> Literal {
        if let Some(&literal) = self.atoms.get(&(first, second)) {
            return literal;
        }
        let literal = self.solver.add_variable(Some((first, second)), preferred);
        self.atoms.insert((first, second), literal);
        self.atoms.insert((second, first), !literal);
        self.ordered.push((literal, first, second));
        literal
    }

    fn node(&mut self, index: &Index, event: EventId) -> Node {
        if let Some(&node) = self.nodes.get(&event) {
            return node;
        }
        self.unsorted = true;
        let (thread, events) = (index.threads.thread(event), &self.events);
        let at = self.chains[thread].partition_point(|node| events[node.0 as usize] < event);
        let previous = at.checked_sub(1).map(|at| self.chains[thread][at]);
        let next = self.chains[thread].get(at).copied();
        let node = self.solver.order().add_node(previous, next);
        self.chains[thread].insert(at, node);
        self.events.push(event);
        self.nodes.insert(event, node);
        self.fix(index, event, node, thread);
        node
    }

    /// Tells the graph what the saturated order says about a new node: its nearest neighbours in the other threads.
    fn fix(&mut self, index: &Index, event: EventId, node: Node, thread: usize) {
        let Index { threads, saturated, .. } = index;
        for other in (0..threads.count()).filter(|&other| other != thread) {
            if self.chains[other].is_empty() {
                continue;
            }
            let events = &self.events;
            let position = |node: &Node| threads.position(events[node.0 as usize]);
            let before = saturated.row(event).get(other);
            let at = self.chains[other].partition_point(|node| position(node) < before);
            let earlier = at.checked_sub(1).map(|at| self.chains[other][at]);
            let after = saturated.first_after(threads, event, other);
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
