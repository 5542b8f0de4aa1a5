//! CP and WCP, straight from their definitions (`docs/causal.md`), over all pairs of events.
//!
//! Slow and obvious: the base edges are a list, the relation is what they and
//! HB compose to, and the rules are applied until none adds an edge.

use crate::facts::Facts;
use crate::reference::{Pairs, conflicting_pairs, hb, hb_edges_of};
use crate::relation::Relation;
use snag_model::{Action, EventId, LockId, Mode, Op, ThreadId, Trace};
use std::collections::BTreeMap;

/// A critical section: the outermost acquire of a lock to the release that gives it up.
#[derive(Clone, Debug)]
pub struct Section {
    /// Who.
    pub thread: ThreadId,
    /// Which lock.
    pub lock: LockId,
    /// Held for reading: two such sections do not exclude each other.
    pub shared: bool,
    /// The acquire, or the end of a wait.
    pub acquire: usize,
    /// The release, or the begin of a wait; `None` if the trace ends before.
    pub release: Option<usize>,
    /// All events of the thread from the acquire to the release, or to the last one of the thread.
    pub events: Vec<usize>,
}

/// The critical sections of a trace by their acquires. A lock held for reading and for
/// writing at once has a section of each kind.
pub fn sections(trace: &Trace) -> Vec<Section> {
    let events: Vec<_> = trace.events.iter().collect();
    let mut found: Vec<Section> = Vec::new();
    // Open sections by thread, lock and kind: how often the lock is held, and the section.
    let mut open: BTreeMap<(ThreadId, LockId, bool), (u32, usize)> = BTreeMap::new();
    let mut given_up: BTreeMap<(ThreadId, LockId), u32> = BTreeMap::new();
    for (index, event) in events.iter().enumerate() {
        let thread = event.thread;
        let action = event.action();
        if let Some((lock, mode)) = action.acquired() {
            let shared = mode == Mode::Shared;
            let times = match action {
                Action::WaitEnd { .. } => given_up.remove(&(thread, lock)).unwrap_or(1),
                _ => 1,
            };
            let section = open.entry((thread, lock, shared)).or_insert_with(|| {
                found.push(Section { thread, lock, shared, acquire: index, release: None, events: Vec::new() });
                (0, found.len() - 1)
            });
            section.0 += times;
        }
        for ((owner, _, _), (_, section)) in &open {
            if *owner == thread {
                found[*section].events.push(index);
            }
        }
        if let Some((lock, mode)) = action.released() {
            let key = (thread, lock, mode == Mode::Shared);
            let wholly = matches!(action, Action::WaitBegin { .. });
            let held = open.get_mut(&key).expect("well formed");
            if wholly {
                given_up.insert((thread, lock), held.0);
            }
            held.0 = if wholly { 0 } else { held.0 - 1 };
            if held.0 == 0 {
                found[open.remove(&key).expect("is there").1].release = Some(index);
            }
        }
    }
    found
}

/// The must order: HB without the edges of locks.
pub fn must(trace: &Trace) -> Relation {
    let facts = Facts::of(trace);
    let mut relation = hb_edges_of(&facts, |earlier, later| {
        let lock = |e: usize| {
            let op = facts.events[e].op;
            matches!(op, Op::Acquire | Op::Release | Op::ReadAcquire | Op::ReadRelease | Op::WaitBegin | Op::WaitEnd)
        };
        // No edge of the table but those of locks joins two such events of different threads.
        facts.events[earlier].thread != facts.events[later].thread && lock(earlier) && lock(later)
    });
    relation.close();
    relation
}

/// Causally-precedes.
pub fn cp(trace: &Trace) -> Relation {
    Causal::of(trace).close(Causal::cp_edge)
}

/// Weak-causally-precedes.
pub fn wcp(trace: &Trace) -> Relation {
    Causal::of(trace).close(Causal::wcp_edges)
}

/// CP as the paper computes it with a window: sections whose first and last events lie more than `window`
/// events apart are taken to be ordered. `position` says where in the reduced trace an event lies.
pub fn cp_in_window(trace: &Trace, window: usize, position: &dyn Fn(usize) -> usize) -> Relation {
    Causal::of(trace).close(|causal, relation, pair| {
        let last = *pair.two.events.last().expect("its acquire");
        match position(last) - position(pair.one.acquire) > window {
            true => vec![(pair.release, pair.two.acquire)],
            false => causal.cp_edge(relation, pair),
        }
    })
}

/// Conflicting pairs that neither the relation nor the must order puts in order.
pub fn unordered(trace: &Trace, relation: &Relation) -> Pairs {
    let must = must(trace);
    conflicting_pairs(&Facts::of(trace)).filter(|&(a, b)| !relation.has(a, b) && !must.has(a, b)).collect()
}

/// Conflicting pairs that CP and the must order leave unordered.
pub fn cp_races(trace: &Trace) -> Pairs {
    unordered(trace, &cp(trace))
}

/// Conflicting pairs that WCP and the must order leave unordered.
pub fn wcp_races(trace: &Trace) -> Pairs {
    unordered(trace, &wcp(trace))
}

/// Whether the theorem of the papers speaks of this trace up to `end`, with `relation` CP or WCP. It does if
///
/// 1. critical sections nest;
/// 2. no hard order leads out of a critical section to another thread, but for a notify under the lock of the wait: else
///    threads are kept apart by locks that they do not hold themselves;
/// 3. no two atomics before `end` of which one writes what the other accesses are unordered. They are no race, but which
///    of them comes first may matter to what follows as if they were.
pub fn theorem_applies(trace: &Trace, relation: &Relation, end: EventId) -> bool {
    let (facts, must, sections) = (Facts::of(trace), must(trace), sections(trace));
    let later = |release: Option<usize>, than: usize| release.is_none_or(|release| release > than);
    let overlap = |a: &Section, b: &Section| {
        let inside = a.thread == b.thread && a.acquire < b.acquire && later(a.release, b.acquire);
        inside && a.release.is_some_and(|release| later(b.release, release))
    };
    let nested = !sections.iter().any(|a| sections.iter().any(|b| overlap(a, b)));
    let hard = |a: usize, b: usize| must.has(EventId::new(a), EventId::new(b));
    let direct = |a: usize, b: usize| hard(a, b) && !(a + 1..b).any(|c| hard(a, c) && hard(c, b));
    let leaves = |a: usize, section: &Section| {
        let mut others = (a + 1..facts.len()).filter(|&b| facts.events[b].thread != section.thread);
        let wakes = |b: usize| {
            facts.wait[b]
                .is_some_and(|wait| facts.actions[wait].released().is_some_and(|(lock, _)| lock == section.lock))
        };
        others.any(|b| direct(a, b) && !wakes(b))
    };
    let kept_in = !sections.iter().any(|section| section.events.iter().any(|&a| leaves(a, section)));
    let atomic = |e: usize| facts.events[e].op.is_atomic();
    let unordered = |a: usize, b: usize| !relation.has(EventId::new(a), EventId::new(b)) && !hard(a, b);
    let depend = |a: usize, b: usize| atomic(a) && atomic(b) && facts.depend(a, b);
    let atomics = (0..end.index()).any(|b| (0..b).any(|a| depend(a, b) && unordered(a, b)));
    nested && kept_in && !atomics
}

struct Causal<'t> {
    facts: Facts<'t>,
    sections: Vec<Section>,
    hb: Relation,
    must: Relation,
}

/// Two sections that exclude each other, in this order.
struct Pair<'s> {
    one: &'s Section,
    /// The release of the first.
    release: usize,
    two: &'s Section,
    /// Events of the second that conflict with one of the first.
    conflicting: Vec<usize>,
    /// The must order puts something in the first before something in the second.
    hard: bool,
}

type Edge = (usize, usize);

impl<'t> Causal<'t> {
    fn of(trace: &'t Trace) -> Causal<'t> {
        Causal { facts: Facts::of(trace), sections: sections(trace), hb: hb(trace), must: must(trace) }
    }

    /// The pairs of sections that exclude each other.
    fn pairs(&self) -> Vec<Pair<'_>> {
        let mut pairs = Vec::new();
        for two in &self.sections {
            for one in self.sections.iter().filter(|one| one.lock == two.lock && one.thread != two.thread) {
                let Some(release) = one.release.filter(|&release| release < two.acquire) else { continue };
                if !(one.shared && two.shared) {
                    let conflicts = |&&b: &&usize| one.events.iter().any(|&a| self.facts.depend(a, b));
                    let conflicting = two.events.iter().filter(conflicts).copied().collect();
                    pairs.push(Pair { one, release, two, conflicting, hard: self.ordered(&self.must, one, two) });
                }
            }
        }
        pairs
    }

    /// Applies `rule` to all pairs of sections that exclude each other until it gives no new edge.
    fn close(&self, rule: impl Fn(&Self, &Relation, &Pair) -> Vec<Edge>) -> Relation {
        let mut relation = Relation::new(self.facts.len());
        let pairs = self.pairs();
        loop {
            let before = relation.clone();
            for (from, to) in pairs.iter().flat_map(|pair| rule(self, &before, pair)) {
                self.add(&mut relation, EventId::new(from), EventId::new(to));
            }
            if relation == before {
                return relation;
            }
        }
    }

    /// An edge, with what HB puts before and after it: rule (c).
    fn add(&self, relation: &mut Relation, from: EventId, to: EventId) {
        for b in (0..self.facts.len()).map(EventId::new).filter(|&b| self.hb.has_or_is(to, b)) {
            relation.add_predecessors_in(&self.hb, from, b);
        }
    }

    /// Whether a relation puts something in one section before something in the other.
    fn ordered(&self, relation: &Relation, one: &Section, two: &Section) -> bool {
        let before = |a: usize, b: usize| relation.has(EventId::new(a), EventId::new(b));
        one.events.iter().any(|&a| two.events.iter().any(|&b| before(a, b)))
    }

    /// Rules (a) and (b) of CP.
    fn cp_edge(&self, relation: &Relation, pair: &Pair) -> Vec<Edge> {
        match !pair.conflicting.is_empty() || pair.hard || self.ordered(relation, pair.one, pair.two) {
            true => vec![(pair.release, pair.two.acquire)],
            false => Vec::new(),
        }
    }

    /// Rules (a) and (b) of WCP.
    fn wcp_edges(&self, relation: &Relation, pair: &Pair) -> Vec<Edge> {
        let mut edges: Vec<Edge> = pair.conflicting.iter().map(|&access| (pair.release, access)).collect();
        if let Some(end) = pair.two.release
            && (pair.hard || self.ordered(relation, pair.one, pair.two))
        {
            edges.push((pair.release, end));
        }
        edges
    }
}
