//! The pairs of places that a search has visited.
//!
//! All nodes stand in one list; a table finds them by their places, and each is linked with the others of its row (the same place
//! of the first thread) and of its column. Nothing is allocated per row or column, so a short search costs little.

use crate::lock_history::agenda::Pair;

/// The number of a visited pair.
pub type NodeId = u32;

/// Which threads go on: a set of bits.
pub type Moves = u8;

const NONE: u32 = u32::MAX;

/// A pair that was visited.
#[derive(Clone, Copy)]
pub struct Node {
    /// The places.
    pub pair: Pair,
    /// The node of the same row, or of the same column, that was visited before.
    before: [NodeId; 2],
    /// The moves that were made from here.
    pub made: Moves,
    /// The move that led here; 0 for the start.
    pub by: Moves,
    /// Why it is on the agenda: a set of bits. No reason puts it there twice, until it is woken: the next target may undo
    /// what woke it.
    pub reasons: u8,
}

/// All of them.
#[derive(Clone)]
pub struct Visited {
    start: Pair,
    nodes: Vec<Node>,
    /// Finds nodes by their pairs. Its size is a power of two, and at least half of it is free.
    table: Vec<NodeId>,
    /// The last visited node of each row and of each column, counted from the start.
    last: [Vec<NodeId>; 2],
}

impl Visited {
    /// Nothing, with room for what lies beyond a pair.
    pub fn from(start: Pair) -> Visited {
        Visited { start, nodes: Vec::new(), table: Vec::new(), last: [Vec::new(), Vec::new()] }
    }

    /// Whether nothing was visited.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A node.
    #[inline]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// The same, to be changed.
    #[inline]
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    /// The node of a pair, if it was visited.
    #[inline]
    pub fn find(&self, pair: Pair) -> Option<NodeId> {
        if self.table.is_empty() {
            return None;
        }
        let id = self.table[self.slot(pair)];
        (id != NONE).then_some(id)
    }

    /// Where a pair is in the table, or would be.
    #[inline]
    fn slot(&self, pair: Pair) -> usize {
        let key = (pair[0] as u64) << 32 | pair[1] as u64;
        let mask = self.table.len() - 1;
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        while self.table[at] != NONE && self.nodes[self.table[at] as usize].pair != pair {
            at = (at + 1) & mask;
        }
        at
    }

    /// Adds a pair that was not visited, and is not before the start.
    pub fn add(&mut self, pair: Pair, by: Moves) -> NodeId {
        let id = self.nodes.len() as NodeId;
        if 2 * self.nodes.len() >= self.table.len() {
            self.table = vec![NONE; (4 * self.nodes.len()).max(64)];
            for (id, node) in self.nodes.iter().enumerate() {
                let at = self.slot(node.pair);
                self.table[at] = id as NodeId;
            }
        }
        let at = self.slot(pair);
        self.table[at] = id;
        let mut before = [NONE; 2];
        for side in [0, 1] {
            let (last, line) = (&mut self.last[side], (pair[side] - self.start[side]) as usize);
            if last.len() <= line {
                last.resize(line + 1, NONE);
            }
            before[side] = std::mem::replace(&mut last[line], id);
        }
        self.nodes.push(Node { pair, before, made: 0, by, reasons: 0 });
        id
    }

    /// The last node on the target's row (`side` 0) or column (1) that is not beyond the target.
    pub fn edge(&self, side: usize, target: Pair) -> Option<NodeId> {
        let line = (target[side] - self.start[side]) as usize;
        let (mut next, mut edge) = (self.last[side].get(line).copied().unwrap_or(NONE), None);
        while next != NONE {
            let node = self.node(next);
            let place = node.pair[1 - side];
            if place <= target[1 - side] && edge.is_none_or(|edge: NodeId| self.node(edge).pair[1 - side] < place) {
                edge = Some(next);
            }
            next = node.before[side];
        }
        edge
    }

    /// Bytes, about.
    pub fn memory(&self) -> usize {
        let ids = self.table.capacity() + self.last[0].capacity() + self.last[1].capacity();
        self.nodes.capacity() * size_of::<Node>() + ids * size_of::<NodeId>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_found_and_edges_are_the_nearest_ones() {
        let mut visited = Visited::from([10, 20]);
        assert!(visited.is_empty() && visited.find([10, 20]).is_none() && visited.edge(0, [10, 20]).is_none());
        let pairs: Vec<Pair> = (0..40).flat_map(|a| (0..40).map(move |b| [10 + a * 7 % 40, 20 + b * 3 % 40])).collect();
        let pairs: Vec<Pair> = pairs.into_iter().filter(|[a, b]| a * b % 3 != 0).collect();
        for (id, &pair) in pairs.iter().enumerate() {
            assert_eq!(visited.find(pair), None);
            assert_eq!(visited.add(pair, 1), id as NodeId);
            assert_eq!(visited.find(pair), Some(id as NodeId));
        }
        for target in (10..55).flat_map(|a| (20..65).map(move |b| [a, b])) {
            for side in [0, 1] {
                let on_line = pairs.iter().filter(|pair| pair[side] == target[side]);
                let edge = on_line.filter(|pair| pair[1 - side] <= target[1 - side]).max_by_key(|pair| pair[1 - side]);
                assert_eq!(visited.edge(side, target).map(|id| visited.node(id).pair), edge.copied());
            }
        }
    }
}
