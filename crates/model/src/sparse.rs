//! Vectors of numbers, one for each thread, that share what they have in common.
//!
//! A vector clock has an entry for every thread, and a trace has a clock wherever threads meet. With thousands of threads that is
//! too much, although a clock differs from those that it was made from in a few entries only. Here a vector is a tree;
//! a copy shares all of it, and a change copies the way from the root to the entry. Whatever two vectors share is passed over
//! when they are compared or joined. What a vector that is joined into another turns out to have in common with it is shared from then on:
//! vectors that grow in the same way, step by step, are compared in full only once.
//!
//! Cost: a change, or an entry in which two vectors differ, takes the height of the tree, the logarithm of the length to base 16.

use std::sync::{Arc, OnceLock, Weak};

const BITS: u32 = 4;
const FAN: usize = 1 << BITS;

/// A vector of numbers of any length. Entries that nobody has set are zero.
#[derive(Clone, Default)]
pub struct SparseVector {
    root: Link,
    /// Of how many levels of inner nodes the leaves are below.
    height: u32,
}

/// `None` stands for zeros.
type Link = Option<Arc<Node>>;

#[derive(Clone)]
enum Node {
    Leaf([u32; FAN]),
    Inner(Inner),
}

struct Inner {
    children: [Link; FAN],
    /// A tree that was found to have no entry greater than that of this one. Who joins what grows elsewhere, again and again, need not look
    /// at the parts that have not grown.
    covers: OnceLock<Weak<Node>>,
}

impl Clone for Inner {
    /// For a change, after which it may cover something else.
    fn clone(&self) -> Inner {
        Inner::new(self.children.clone())
    }
}

impl Inner {
    fn new(children: [Link; FAN]) -> Inner {
        Inner { children, covers: OnceLock::new() }
    }

    /// The children, which are about to change.
    fn change(&mut self) -> &mut [Link; FAN] {
        self.covers = OnceLock::new();
        &mut self.children
    }

    fn covers(&self, other: &Arc<Node>) -> bool {
        self.covers.get().is_some_and(|known| known.as_ptr() == Arc::as_ptr(other))
    }

    fn has_covered(&self, other: &Arc<Node>) {
        // The first one is likely to stay: by then this one has stopped to grow.
        let _ = self.covers.set(Arc::downgrade(other));
    }
}

impl Node {
    fn inner() -> Node {
        Node::Inner(Inner::new(Default::default()))
    }
}

/// Which child of a node at a height leads to an entry.
fn child(index: usize, height: u32) -> usize {
    index >> (BITS * height) & (FAN - 1)
}

impl SparseVector {
    /// An entry.
    #[inline]
    pub fn get(&self, index: usize) -> u32 {
        if index >> (BITS * self.height) >= FAN {
            return 0;
        }
        let mut link = &self.root;
        let mut height = self.height;
        loop {
            match link.as_deref() {
                None => return 0,
                Some(Node::Leaf(entries)) => return entries[index & (FAN - 1)],
                Some(Node::Inner(inner)) => link = &inner.children[child(index, height)],
            }
            height -= 1;
        }
    }

    /// Sets an entry.
    pub fn set(&mut self, index: usize, value: u32) {
        if self.get(index) == value {
            return;
        }
        while index >> (BITS * self.height) >= FAN {
            self.grow();
        }
        let (mut link, mut height) = (&mut self.root, self.height);
        loop {
            let fresh = || Arc::new(if height == 0 { Node::Leaf([0; FAN]) } else { Node::inner() });
            match Arc::make_mut(link.get_or_insert_with(fresh)) {
                Node::Leaf(entries) => {
                    entries[index & (FAN - 1)] = value;
                    return;
                }
                Node::Inner(inner) => link = &mut inner.change()[child(index, height)],
            }
            height -= 1;
        }
    }

    /// Raises an entry to a value. True if it was less.
    pub fn raise(&mut self, index: usize, value: u32) -> bool {
        let less = self.get(index) < value;
        if less {
            self.set(index, value);
        }
        less
    }

    /// Raises every entry to that of another vector. True if one was less.
    pub fn join(&mut self, other: &SparseVector) -> bool {
        while self.height < other.height {
            self.grow();
        }
        match other.height == self.height {
            true => join(&mut self.root, &other.root),
            false => {
                let mut other = other.clone();
                while other.height < self.height {
                    other.grow();
                }
                join(&mut self.root, &other.root)
            }
        }
    }

    /// Lowers every entry to that of another vector.
    pub fn meet(&mut self, other: &SparseVector) {
        let mut other = other.clone();
        while self.height < other.height {
            self.grow();
        }
        while other.height < self.height {
            other.grow();
        }
        meet(&mut self.root, &other.root);
    }

    /// Whether `holds` of every entry and that of another vector. It must hold of equal ones, and if the first is zero.
    pub fn all(&self, other: &SparseVector, holds: impl Fn(u32, u32) -> bool) -> bool {
        if self.height == other.height {
            return all(&self.root, &other.root, &holds);
        }
        let (mut one, mut other) = (self.clone(), other.clone());
        while one.height < other.height {
            one.grow();
        }
        while other.height < one.height {
            other.grow();
        }
        all(&one.root, &other.root, &holds)
    }

    /// Calls `visit` for every entry that is not zero, in order.
    pub fn for_each(&self, mut visit: impl FnMut(usize, u32)) {
        for_each(&self.root, 0, self.height, &mut visit);
    }

    /// Calls `visit` for every entry that is greater than that of another vector, in order.
    pub fn for_each_above(&self, other: &SparseVector, mut visit: impl FnMut(usize, u32)) {
        match self.height == other.height {
            true => for_each_above(&self.root, &other.root, 0, self.height, &mut visit),
            false => self.for_each(|index, value| {
                if value > other.get(index) {
                    visit(index, value);
                }
            }),
        }
    }

    fn grow(&mut self) {
        self.height += 1;
        if let Some(root) = self.root.take() {
            let mut children: [Link; FAN] = Default::default();
            children[0] = Some(root);
            self.root = Some(Arc::new(Node::Inner(Inner::new(children))));
        }
    }
}

/// Whether two trees are one, or both are zeros.
fn same(one: &Link, other: &Link) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// What the greater of every two entries make.
enum Joined {
    /// Either tree: they are one.
    Same,
    /// Either tree: they are equal, and could be one.
    Equal,
    First,
    /// What equals the first, and shares with the second what they have in common.
    FirstAnew(Arc<Node>),
    Second,
    Neither(Arc<Node>),
}

fn join(into: &mut Link, from: &Link) -> bool {
    match joined(into, from) {
        Joined::Same | Joined::First => false,
        Joined::Equal => {
            into.clone_from(from);
            false
        }
        Joined::FirstAnew(node) => {
            *into = Some(node);
            false
        }
        Joined::Second => {
            into.clone_from(from);
            true
        }
        Joined::Neither(node) => {
            *into = Some(node);
            true
        }
    }
}

fn joined(one: &Link, other: &Link) -> Joined {
    if same(one, other) {
        return Joined::Same;
    }
    match (one.as_deref(), other.as_deref()) {
        (None, _) if is_zero(other) => Joined::Equal,
        (None, _) => Joined::Second,
        (_, None) => Joined::First,
        (Some(Node::Leaf(one)), Some(Node::Leaf(other))) => {
            let less = one.iter().zip(other).fold(false, |less, (a, b)| less | (a < b));
            let greater = one.iter().zip(other).fold(false, |greater, (a, b)| greater | (a > b));
            match (less, greater) {
                (false, false) => Joined::Equal,
                (false, true) => Joined::First,
                (true, false) => Joined::Second,
                (true, true) => Joined::Neither(Arc::new(Node::Leaf(std::array::from_fn(|at| one[at].max(other[at]))))),
            }
        }
        (Some(Node::Inner(first)), Some(Node::Inner(second))) => {
            let tree = other.as_ref().expect("it is there");
            if first.covers(tree) {
                return Joined::First;
            }
            let (one, other) = (&first.children, &second.children);
            let parts: [Joined; FAN] = std::array::from_fn(|at| joined(&one[at], &other[at]));
            // What is shared stays so.
            if parts.iter().all(|part| matches!(part, Joined::Same | Joined::Equal)) {
                return Joined::Equal;
            }
            if parts.iter().all(|part| matches!(part, Joined::Same | Joined::First)) {
                first.has_covered(tree);
                return Joined::First;
            }
            if parts.iter().all(|part| matches!(part, Joined::Same | Joined::Equal | Joined::Second)) {
                return Joined::Second;
            }
            let is_less = parts.iter().any(|part| matches!(part, Joined::Second | Joined::Neither(_)));
            let mut at = 0;
            let children = parts.map(|part| {
                at += 1;
                match part {
                    Joined::Same | Joined::First => one[at - 1].clone(),
                    Joined::Equal | Joined::Second => other[at - 1].clone(),
                    Joined::FirstAnew(node) | Joined::Neither(node) => Some(node),
                }
            });
            let inner = Inner::new(children);
            inner.has_covered(tree);
            let node = Arc::new(Node::Inner(inner));
            if is_less { Joined::Neither(node) } else { Joined::FirstAnew(node) }
        }
        _ => unreachable!("trees of the same height"),
    }
}

fn meet(into: &mut Link, from: &Link) {
    if same(into, from) || into.is_none() {
        return;
    }
    let Some(node) = from else {
        *into = None;
        return;
    };
    match (Arc::make_mut(into.as_mut().expect("is there")), &**node) {
        (Node::Leaf(into), Node::Leaf(from)) => into.iter_mut().zip(from).for_each(|(a, b)| *a = (*a).min(*b)),
        (Node::Inner(into), Node::Inner(from)) => {
            into.change().iter_mut().zip(&from.children).for_each(|(into, from)| meet(into, from));
        }
        _ => unreachable!("trees of the same height"),
    }
}

fn is_zero(link: &Link) -> bool {
    match link.as_deref() {
        None => true,
        Some(Node::Leaf(entries)) => entries.iter().all(|&entry| entry == 0),
        Some(Node::Inner(inner)) => inner.children.iter().all(is_zero),
    }
}

fn all(one: &Link, other: &Link, holds: &impl Fn(u32, u32) -> bool) -> bool {
    if same(one, other) {
        return true;
    }
    match (one.as_deref(), other.as_deref()) {
        (None, _) => true,
        (Some(Node::Leaf(one)), None) => one.iter().all(|&a| holds(a, 0)),
        (Some(Node::Inner(one)), None) => one.children.iter().all(|one| all(one, &None, holds)),
        (Some(Node::Leaf(one)), Some(Node::Leaf(other))) => one.iter().zip(other).all(|(&a, &b)| holds(a, b)),
        (Some(Node::Inner(one)), Some(Node::Inner(other))) => {
            one.children.iter().zip(&other.children).all(|(a, b)| all(a, b, holds))
        }
        _ => unreachable!("trees of the same height"),
    }
}

fn for_each(link: &Link, first: usize, height: u32, visit: &mut impl FnMut(usize, u32)) {
    match link.as_deref() {
        None => {}
        Some(Node::Leaf(entries)) => {
            for (at, &entry) in entries.iter().enumerate().filter(|(_, entry)| **entry != 0) {
                visit(first + at, entry);
            }
        }
        Some(Node::Inner(inner)) => {
            for (at, link) in inner.children.iter().enumerate() {
                for_each(link, first + (at << (BITS * height)), height - 1, visit);
            }
        }
    }
}

fn for_each_above(link: &Link, other: &Link, first: usize, height: u32, visit: &mut impl FnMut(usize, u32)) {
    if same(link, other) {
        return;
    }
    match (link.as_deref(), other.as_deref()) {
        (_, None) => for_each(link, first, height, visit),
        (None, _) => {}
        (Some(Node::Leaf(entries)), Some(Node::Leaf(others))) => {
            for (at, (&entry, _)) in entries.iter().zip(others).enumerate().filter(|(_, (entry, other))| entry > other)
            {
                visit(first + at, entry);
            }
        }
        (Some(Node::Inner(inner)), Some(Node::Inner(others))) => {
            for (at, (link, other)) in inner.children.iter().zip(&others.children).enumerate() {
                for_each_above(link, other, first + (at << (BITS * height)), height - 1, visit);
            }
        }
        _ => unreachable!("trees of the same height"),
    }
}

impl std::fmt::Debug for SparseVector {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let mut map = f.debug_map();
        self.for_each(|index, value| {
            map.entry(&index, &value);
        });
        map.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number from 0 to `below - 1`.
    fn draw(state: &mut u64, below: usize) -> usize {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*state >> 33) as usize % below
    }

    fn entries(vector: &SparseVector, length: usize) -> Vec<u32> {
        (0..length).map(|index| vector.get(index)).collect()
    }

    #[test]
    fn a_sparse_vector_does_what_a_plain_one_does() {
        for (seed, length) in [(1, 5), (2, 16), (3, 17), (4, 300), (5, 5000)] {
            let mut state = seed;
            let mut plain: Vec<Vec<u32>> = vec![vec![0; length]; 6];
            let mut sparse = vec![SparseVector::default(); 6];
            for _ in 0..3000 {
                let (a, b) = (draw(&mut state, 6), draw(&mut state, 6));
                let (index, value) = (draw(&mut state, length), draw(&mut state, 50) as u32);
                match draw(&mut state, 8) {
                    0..3 => {
                        plain[a][index] = value;
                        sparse[a].set(index, value);
                    }
                    3 => {
                        assert_eq!(sparse[a].raise(index, value), value > plain[a][index]);
                        plain[a][index] = plain[a][index].max(value);
                    }
                    4 => {
                        let news = plain[a].iter().zip(&plain[b]).any(|(a, b)| b > a);
                        let from = plain[b].clone();
                        plain[a].iter_mut().zip(from).for_each(|(a, b)| *a = (*a).max(b));
                        let from = sparse[b].clone();
                        assert_eq!(sparse[a].join(&from), news);
                    }
                    5 => {
                        (plain[a], sparse[a]) = (plain[b].clone(), sparse[b].clone());
                    }
                    6 => {
                        let from = plain[b].clone();
                        plain[a].iter_mut().zip(from).for_each(|(a, b)| *a = (*a).min(b));
                        let from = sparse[b].clone();
                        sparse[a].meet(&from);
                    }
                    _ => {
                        let holds = |a: u32, b: u32| a <= b || a <= value;
                        let expected = plain[a].iter().zip(&plain[b]).all(|(&a, &b)| holds(a, b));
                        assert_eq!(sparse[a].all(&sparse[b], holds), expected);
                        let mut above = Vec::new();
                        sparse[a].for_each_above(&sparse[b], |index, value| above.push((index, value)));
                        let pairs = plain[a].iter().zip(&plain[b]).enumerate();
                        let expected = pairs.filter(|(_, (a, b))| a > b).map(|(index, (&a, _))| (index, a));
                        assert!(expected.eq(above));
                    }
                }
                assert_eq!(entries(&sparse[a], length), plain[a]);
            }
            for (plain, sparse) in plain.iter().zip(&sparse) {
                assert_eq!(&entries(sparse, length), plain);
                assert_eq!(sparse.get(1 << 40), 0);
                let mut visited = vec![0; length];
                sparse.for_each(|index, value| visited[index] = value);
                assert_eq!(&visited, plain);
            }
        }
    }

    /// How many nodes two vectors do not share.
    fn apart(one: &Link, other: &Link) -> usize {
        match (one.as_deref(), other.as_deref()) {
            _ if same(one, other) => 0,
            (Some(Node::Inner(one)), Some(Node::Inner(other))) => {
                1 + one.children.iter().zip(&other.children).map(|(one, other)| apart(one, other)).sum::<usize>()
            }
            _ => 1,
        }
    }

    #[test]
    fn what_is_joined_and_equal_is_shared_from_then_on() {
        let made = |first: u32| {
            let mut vector = SparseVector::default();
            (0..5000).for_each(|index| vector.set(index, if index == 0 { first } else { 7 }));
            vector
        };
        let (mut more, less) = (made(9), made(8));
        assert!(apart(&more.root, &less.root) > 300);
        assert!(!more.join(&less));
        assert!(apart(&more.root, &less.root) < 5, "{}", apart(&more.root, &less.root));
        let mut equal = made(8);
        assert!(!equal.join(&less) && same(&equal.root, &less.root));
    }

    #[test]
    fn what_covers_another_vector_does_so_until_it_changes() {
        let filled = |value: u32| {
            let mut vector = SparseVector::default();
            (0..5000).for_each(|index| vector.set(index, value));
            vector
        };
        let (mut more, less) = (filled(9), filled(8));
        for _ in 0..2 {
            assert!(!more.join(&less));
        }
        more.set(17, 3);
        assert!(more.join(&less) && more.get(17) == 8);
        more.meet(&filled(5));
        assert!(more.join(&less) && more.get(4000) == 8);
    }
}
