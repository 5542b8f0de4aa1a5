//! The ordering theory: a graph that must stay without cycles.
//!
//! Pearce, Kelly: A dynamic topological sort algorithm for directed acyclic graphs (JEA 2007).
//!
//! Nodes are events that the solver talks about, and one for the moment at which the target comes next. Those of a thread
//! form a chain; fixed edges hold in every schedule; the others come and go with the literals of the solver. A cycle
//! is a conflict, and the literals on it are its explanation. An edge also decides atoms whose ends it connects the other way
//! round; these are handed to the solver with the literals on the path as explanation.

use crate::maximal::solver::Literal;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A node of the graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Node(pub u32);

impl Node {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// An edge that holds because of a literal; `None` if it is fixed.
type Edge = (Node, Option<Literal>);

/// An atom that the graph decides, and why.
pub(crate) struct Implied {
    pub literal: Literal,
    /// Literals that are true and lead to it.
    pub because: Vec<Literal>,
}

#[derive(Default)]
pub(crate) struct Order {
    next: Vec<Option<Node>>,
    previous: Vec<Option<Node>>,
    out: Vec<Vec<Edge>>,
    into: Vec<Vec<Edge>>,
    /// Place of each node in an order that respects all edges.
    place: Vec<u32>,
    /// The ends of each variable's atom, the first before the second; `None` for variables that are not about order.
    atoms: Vec<Option<(Node, Node)>>,
    /// The atoms at each node: the other end, and the literal that puts this node first.
    at_node: Vec<Vec<(Node, Literal)>>,
    /// Edges that came with literals, and how many there were when each level began.
    trail: Vec<(Node, Node)>,
    levels: Vec<usize>,
    // Scratch for searches: who was visited in which search, and from where.
    visited: Vec<u32>,
    came_by: Vec<Edge>,
    search: u32,
    forward: Vec<Node>,
    backward: Vec<Node>,
}

impl Order {
    pub fn new() -> Order {
        // Variables count from 1.
        Order { atoms: vec![None], ..Order::default() }
    }

    pub fn level(&self) -> usize {
        self.levels.len()
    }

    /// Adds a node between two neighbours of its thread, and says which it is.
    pub fn add_node(&mut self, previous: Option<Node>, next: Option<Node>) -> Node {
        let node = Node(self.next.len() as u32);
        self.next.push(next);
        self.previous.push(previous);
        self.out.push(Vec::new());
        self.into.push(Vec::new());
        self.at_node.push(Vec::new());
        self.place.push(node.0);
        self.visited.push(0);
        self.came_by.push((node, None));
        if let Some(previous) = previous {
            self.next[previous.index()] = Some(node);
        }
        if let Some(next) = next {
            self.previous[next.index()] = Some(node);
        }
        node
    }

    /// The next variable is about the order of two nodes, or about something else.
    pub fn add_atom(&mut self, atom: Option<(Node, Node)>) {
        let literal = Literal::of_variable(self.atoms.len());
        self.atoms.push(atom);
        if let Some((first, second)) = atom {
            self.at_node[first.index()].push((second, literal));
            self.at_node[second.index()].push((first, !literal));
        }
    }

    /// An edge that always holds. Only between searches; [`Order::sort`] must follow.
    pub fn add_fixed(&mut self, from: Node, to: Node) {
        debug_assert!(self.levels.is_empty());
        self.out[from.index()].push((to, None));
        self.into[to.index()].push((from, None));
    }

    /// Puts the nodes in order from scratch, those with small keys first where there is a choice. False if there is a
    /// cycle.
    pub fn sort(&mut self, key: impl Fn(Node) -> u32) -> bool {
        let count = self.next.len();
        let mut missing: Vec<usize> =
            (0..count).map(|node| self.into[node].len() + self.previous[node].is_some() as usize).collect();
        let mut free: BinaryHeap<Reverse<(u32, Node)>> = (0..count)
            .filter(|&node| missing[node] == 0)
            .map(|node| Node(node as u32))
            .map(|node| Reverse((key(node), node)))
            .collect();
        let mut place = 0;
        while let Some(Reverse((_, node))) = free.pop() {
            self.place[node.index()] = place;
            place += 1;
            let chain = self.next[node.index()].map(|next| (next, None));
            for (next, _) in chain.into_iter().chain(self.out[node.index()].iter().copied()) {
                missing[next.index()] -= 1;
                if missing[next.index()] == 0 {
                    free.push(Reverse((key(next), next)));
                }
            }
        }
        place as usize == count
    }

    pub fn push_level(&mut self) {
        self.levels.push(self.trail.len());
    }

    pub fn pop_levels(&mut self, count: usize) {
        let keep = self.levels.len() - count;
        let Some(&length) = self.levels.get(keep) else { return };
        self.levels.truncate(keep);
        // Edges go in the reverse order of their coming, so each is the last one at both its ends.
        for (from, to) in self.trail.drain(length..).rev() {
            self.out[from.index()].pop();
            self.into[to.index()].pop();
        }
    }

    /// A literal has become true. On a cycle: the literals on it, all true. Otherwise the atoms that this decides
    /// are added to `implied`, as far as they were met on the way.
    pub fn assert(&mut self, literal: Literal, implied: &mut Vec<Implied>) -> Result<(), Vec<Literal>> {
        let Some(Some((first, second))) = self.atoms.get(literal.variable()).copied() else { return Ok(()) };
        let (from, to) = if literal.is_positive() { (first, second) } else { (second, first) };
        if self.place[from.index()] > self.place[to.index()] {
            self.move_before(from, to, literal)?;
            self.imply(from, to, literal, implied);
        }
        self.out[from.index()].push((to, Some(literal)));
        self.into[to.index()].push((from, Some(literal)));
        if !self.levels.is_empty() {
            self.trail.push((from, to));
        }
        Ok(())
    }

    /// Changes the places of nodes so that `from` comes before `to`.
    fn move_before(&mut self, from: Node, to: Node, literal: Literal) -> Result<(), Vec<Literal>> {
        let (low, high) = (self.place[to.index()], self.place[from.index()]);
        let mut forward = std::mem::take(&mut self.forward);
        let mut backward = std::mem::take(&mut self.backward);
        let cycle = self.reach::<true>(to, Some(from), high, &mut forward);
        if !cycle {
            self.reach::<false>(from, None, low, &mut backward);
            forward.sort_unstable_by_key(|node| self.place[node.index()]);
            backward.sort_unstable_by_key(|node| self.place[node.index()]);
            let mut places: Vec<u32> = backward.iter().chain(&forward).map(|node| self.place[node.index()]).collect();
            places.sort_unstable();
            for (node, place) in backward.iter().chain(&forward).zip(places) {
                self.place[node.index()] = place;
            }
        }
        (self.forward, self.backward) = (forward, backward);
        match cycle {
            false => Ok(()),
            true => {
                let mut literals = self.path(from, to);
                literals.push(literal);
                Err(literals)
            }
        }
    }

    /// Visits what can be reached from a node, forwards or backwards, up to a place. True if that includes `goal`.
    fn reach<const FORWARD: bool>(
        &mut self,
        start: Node,
        goal: Option<Node>,
        limit: u32,
        visited: &mut Vec<Node>,
    ) -> bool {
        let (chain, edges) = if FORWARD { (&self.next, &self.out) } else { (&self.previous, &self.into) };
        let within = |place: u32| if FORWARD { place <= limit } else { place >= limit };
        self.search += 1;
        visited.clear();
        visited.push(start);
        self.visited[start.index()] = self.search;
        let mut at = 0;
        while at < visited.len() {
            let node = visited[at];
            at += 1;
            let neighbour = chain[node.index()].map(|next| (next, None));
            for (next, by) in neighbour.into_iter().chain(edges[node.index()].iter().copied()) {
                if self.visited[next.index()] != self.search && within(self.place[next.index()]) {
                    self.visited[next.index()] = self.search;
                    self.came_by[next.index()] = (node, by);
                    if Some(next) == goal {
                        return true;
                    }
                    visited.push(next);
                }
            }
        }
        false
    }

    /// The literals on the way on which the last searches came from `start` to `node`.
    fn path(&self, node: Node, start: Node) -> Vec<Literal> {
        let mut literals = Vec::new();
        let mut at = node;
        while at != start {
            let (before, by) = self.came_by[at.index()];
            literals.extend(by);
            at = before;
        }
        literals
    }

    /// Everything that the backward search from `from` visited now comes before everything that the forward search
    /// from `to` visited: that decides the atoms between them.
    fn imply(&mut self, from: Node, to: Node, literal: Literal, implied: &mut Vec<Implied>) {
        // The backward search was the last one, the forward search the one before.
        let forward = self.search - 1;
        for &earlier in &self.backward {
            for &(later, atom) in &self.at_node[earlier.index()] {
                if self.visited[later.index()] == forward && atom != literal {
                    let mut because = self.path(earlier, from);
                    because.extend(self.path(later, to));
                    because.push(literal);
                    implied.push(Implied { literal: atom, because });
                }
            }
        }
    }
}
