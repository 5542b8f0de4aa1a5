//! HB, SHB and FHB, straight from the table of `docs/model.md`, over all pairs of events.
//!
//! Every engine that computes one of these orders with clocks must give the same
//! answers as the functions here, for every trace.

use crate::facts::Facts;
use crate::relation::Relation;
use crate::search::is_feasible;
use snag_model::Level;
use snag_model::events::Event;
use snag_model::{Action, EventId, LockId, MemoryOrder, Mode, Op, Probe, Trace};
use std::collections::BTreeSet;

/// Pairs of events, the earlier one first.
pub type Pairs = BTreeSet<(EventId, EventId)>;

/// Happens-before.
pub fn hb(trace: &Trace) -> Relation {
    let mut relation = hb_edges(&Facts::of(trace));
    relation.close();
    relation
}

/// Schedulable happens-before: HB, and every read after the writes it sees.
pub fn shb(trace: &Trace) -> Relation {
    let facts = Facts::of(trace);
    let mut relation = hb_edges(&facts);
    for read in 0..facts.len() {
        for write in facts.seen[read].values().flatten() {
            relation.add(EventId::new(*write), EventId::new(read));
        }
    }
    relation.close();
    relation
}

/// Conflicting pairs that HB does not order.
pub fn hb_races(trace: &Trace) -> Pairs {
    let hb = hb(trace);
    conflicting_pairs(&Facts::of(trace)).filter(|&(a, b)| !hb.has(a, b)).collect()
}

/// Races by memory order of the recorded run: conflicting pairs that are unordered by the rules of the standards, and that
/// HB would order if every atomic access were sequentially consistent.
pub fn order_races(trace: &Trace) -> Pairs {
    order_races_of(trace, |_, _| false)
}

/// The same as if nobody took a lock.
pub fn order_races_without_locks(trace: &Trace) -> Pairs {
    let lock = |event: usize| trace.action(EventId::new(event)).lock().is_some();
    order_races_of(trace, |earlier, later| lock(earlier) && lock(later))
}

/// `without`: which pairs of threads' events order nothing.
fn order_races_of(trace: &Trace, without: impl Fn(usize, usize) -> bool) -> Pairs {
    let others = |earlier: usize, later: usize| {
        trace.events.threads()[earlier] != trace.events.threads()[later] && without(earlier, later)
    };
    let mut strong = Trace { tables: trace.tables.clone(), ..Trace::default() };
    for event in trace.events.iter() {
        let aux = if event.op.is_atomic() { MemoryOrder::SeqCst as u32 } else { event.aux };
        strong.events.push(Event { aux, ..event });
    }
    let facts = Facts::of(trace);
    let mut strong = hb_edges_of(&Facts::of(&strong), others);
    let mut declared = declared_edges(&facts, others);
    strong.close();
    declared.close();
    conflicting_pairs(&facts).filter(|&(a, b)| !declared.has(a, b) && strong.has(a, b)).collect()
}

/// The lines of the table that the standards have, too: to them, an attempt that fails synchronises with nothing.
fn declared_edges(facts: &Facts, without: impl Fn(usize, usize) -> bool) -> Relation {
    let thread = |event: usize| facts.events[event].thread;
    let by_attempt =
        |earlier, later: usize| matches!(facts.actions[later], Action::Probe(_)) && thread(earlier) != thread(later);
    hb_edges_of(facts, |earlier, later| by_attempt(earlier, later) || without(earlier, later))
}

/// Whether a schedule proves a race by memory order: it is feasible at a level, both events conflict and are in it, the
/// first one first, and by the rules of the standards nothing in the schedule orders them.
pub fn is_order_race(trace: &Trace, schedule: &[EventId], first: EventId, second: EventId, level: Level) -> bool {
    if !is_feasible(trace, schedule, level) {
        return false;
    }
    let facts = Facts::of(trace);
    let at = |event: EventId| schedule.iter().position(|&other| other == event);
    let (Some(one), Some(other)) = (at(first), at(second)) else { return false };
    let conflicts = facts.conflict(first.index(), second.index());
    let threads = [first, second].map(|event| facts.events[event.index()].thread);
    let on_other_side = [first, second].iter().any(|event| facts.events[event.index()].op.on_other_side());
    if one >= other || !conflicts || threads[0] == threads[1] || on_other_side {
        return false;
    }
    let schedule: Vec<usize> = schedule.iter().map(|event| event.index()).collect();
    let mut hb = declared_edges(&facts.in_order(&schedule), |_, _| false);
    hb.close();
    !hb.has(EventId::new(one), EventId::new(other))
}

/// Conflicting pairs (e1, e2) such that e1 is SHB-before none of the HB-predecessors of e2, nor one of them.
pub fn shb_races(trace: &Trace) -> Pairs {
    let (hb, shb) = (hb(trace), shb(trace));
    let schedulable = |a: EventId, b: EventId| !hb.before(b).any(|earlier| shb.has_or_is(a, earlier));
    conflicting_pairs(&Facts::of(trace)).filter(|&(a, b)| schedulable(a, b)).collect()
}

/// Conflicting pairs that FHB does not order when it comes to the second event.
///
/// After an event has been looked at, FHB puts before it what it races with, and also
/// the writes that it sees. For plain accesses the latter says nothing new (such a write
/// is ordered or races); two atomics never race, and without that edge what a relaxed
/// read saw would be forgotten, and pairs be reported that no schedule shows.
pub fn fhb_races(trace: &Trace) -> Pairs {
    let facts = Facts::of(trace);
    let hb = hb_edges(&facts);
    let mut fhb = Relation::new(facts.len());
    let mut found = Pairs::new();
    for event in (0..facts.len()).map(EventId::new) {
        for earlier in hb.before(event) {
            fhb.add_with_predecessors(earlier, event);
        }
        let conflicting = (0..event.index()).filter(|&e| facts.conflict(e, event.index())).map(EventId::new);
        let racing: Vec<EventId> = conflicting.filter(|&e| !fhb.has(e, event)).collect();
        for earlier in racing {
            found.insert((earlier, event));
            fhb.add_with_predecessors(earlier, event);
        }
        for write in facts.seen[event.index()].values().flatten() {
            fhb.add_with_predecessors(EventId::new(*write), event);
        }
    }
    found
}

/// The writes that an event sees, each once; nothing if it does not read.
pub fn seen_by(trace: &Trace, read: EventId) -> impl Iterator<Item = EventId> {
    let writes: BTreeSet<usize> = Facts::of(trace).seen[read.index()].values().copied().flatten().collect();
    writes.into_iter().map(EventId::new)
}

/// The events that race with an earlier one.
pub fn warnings(races: &Pairs) -> BTreeSet<EventId> {
    races.iter().map(|&(_, second)| second).collect()
}

/// The first race: its second event comes first, and of those its first event comes last.
pub fn first_race(races: &Pairs) -> Option<(EventId, EventId)> {
    races.iter().copied().min_by_key(|&(first, second)| (second, std::cmp::Reverse(first)))
}

pub(crate) fn conflicting_pairs(facts: &Facts) -> impl Iterator<Item = (EventId, EventId)> {
    let pairs = (0..facts.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    pairs.filter(|&(a, b)| facts.conflict(a, b)).map(|(a, b)| (EventId::new(a), EventId::new(b)))
}

/// The lines of the table.
fn hb_edges(facts: &Facts) -> Relation {
    hb_edges_of(facts, |_, _| false)
}

/// The lines of the table, but not the edges from a first to a second event that `without` names. Those of atomics
/// and missing methods stay.
pub(crate) fn hb_edges_of(facts: &Facts, without: impl Fn(usize, usize) -> bool) -> Relation {
    let mut relation = Relation::new(facts.len());
    for later in 0..facts.len() {
        for earlier in 0..later {
            let listed = synchronises(facts, earlier, later) && !without(earlier, later);
            if listed || facts.kept.contains(&(earlier, later)) {
                relation.add(EventId::new(earlier), EventId::new(later));
            }
        }
        for earlier in released_to(facts, later) {
            relation.add(EventId::new(earlier), EventId::new(later));
        }
    }
    relation
}

/// Whether the table puts one event directly before a later one, atomics and missing methods apart.
fn synchronises(facts: &Facts, earlier: usize, later: usize) -> bool {
    let (a, b) = (&facts.events[earlier], &facts.events[later]);
    if a.thread == b.thread {
        return true;
    }
    let (first, second) = (facts.actions[earlier], facts.actions[later]);
    // A release comes before an acquire of the same lock, unless both are for reading.
    if let (Some((lock, held)), Some((wanted, taken))) = (first.released(), second.acquired()) {
        return lock == wanted && (held, taken) != (Mode::Shared, Mode::Shared);
    }
    match (first, second) {
        (Action::Fork { thread, .. }, _) if thread == b.thread => true,
        (_, Action::Join { thread, .. }) if thread == a.thread => true,
        (Action::Fork { thread: forked, .. }, Action::Join { thread: joined, .. }) => forked == joined,
        (Action::Notify { .. } | Action::NotifyAll { .. }, Action::Wake { .. }) => facts.notify[later] == Some(earlier),
        (Action::SemPost { semaphore: posted }, Action::SemWait { semaphore: waited }) => posted == waited,
        (
            Action::SemPost { semaphore } | Action::SemWait { semaphore },
            Action::Probe(Probe::Count { semaphore: found, .. }),
        ) => semaphore == found,
        (_, Action::Probe(Probe::Held { lock, mode })) => keeps_out(facts, earlier, later, lock, mode),
        (Action::Fork { thread: forked, .. }, Action::Probe(Probe::Alive { thread })) => forked == thread,
        (Action::BarrierEnter { barrier: entered }, Action::BarrierLeave { barrier: left }) => {
            entered == left && facts.generation[earlier] == facts.generation[later]
        }
        (Action::BarrierEnter { barrier: one }, Action::BarrierEnter { barrier: other }) => {
            one == other && facts.generation[earlier] < facts.generation[later]
        }
        (Action::Alloc { .. }, _) => facts.alloc[later] == Some(earlier) && !b.op.on_other_side(),
        _ => false,
    }
}

/// Whether one event begins a hold on a lock that lasts until a later event, and keeps others from taking the lock.
fn keeps_out(facts: &Facts, earlier: usize, later: usize, lock: LockId, mode: Mode) -> bool {
    let Some((taken, held)) = facts.actions[earlier].acquired() else { return false };
    let count = |before: usize| {
        let (mut count, mut given_up) = (0, 0);
        let thread = facts.events[earlier].thread;
        for event in (0..before).filter(|&event| facts.events[event].thread == thread) {
            match facts.actions[event] {
                Action::WaitBegin { lock: given, .. } if given == lock && held == Mode::Exclusive => {
                    given_up = std::mem::take(&mut count);
                }
                Action::WaitEnd { lock: taken, .. } if taken == lock && held == Mode::Exclusive => count = given_up,
                Action::Acquire { lock: taken, mode, .. } if (taken, mode) == (lock, held) => count += 1,
                Action::Release { lock: given, mode } if (given, mode) == (lock, held) => count -= 1,
                _ => {}
            }
        }
        count
    };
    taken == lock
        && (held, mode) != (Mode::Shared, Mode::Shared)
        && count(earlier) == 0
        && (earlier + 1..=later).all(|before| count(before) > 0)
}

/// Of which events an event learns by atomics and fences: the releasing writes and fences at the other end.
fn released_to(facts: &Facts, event: usize) -> BTreeSet<usize> {
    acquired_by(facts, event).into_iter().flat_map(|read| released_from(facts, read)).collect()
}

/// Whether an event is a fence of its thread, for what it does before and after. Nobody knows what missing code does.
fn is_fence(facts: &Facts, event: usize, kind: fn(MemoryOrder) -> bool) -> bool {
    match facts.actions[event] {
        Action::Fence { order } => kind(order),
        Action::MethodBegin { .. } | Action::MethodEnd { .. } => true,
        _ => false,
    }
}

/// The atomic reads whose news an event takes over: an acquiring read its own, an acquiring fence those of all earlier
/// reads of its thread.
fn acquired_by(facts: &Facts, event: usize) -> Vec<usize> {
    let reads = |event: &usize| facts.events[*event].op.is_atomic() && facts.events[*event].op.reads();
    if reads(&event) && facts.events[event].memory_order().acquires() {
        return vec![event];
    }
    if !is_fence(facts, event, MemoryOrder::acquires) {
        return Vec::new();
    }
    (0..event).filter(|&e| facts.events[e].thread == facts.events[event].thread).filter(reads).collect()
}

/// What an atomic write hands over: itself if it releases, and the releasing fences before it in its thread.
fn released_by(facts: &Facts, write: usize) -> Vec<usize> {
    let event = &facts.events[write];
    if !event.op.is_atomic() {
        return Vec::new();
    }
    let of_thread = (0..write).filter(|&e| facts.events[e].thread == event.thread);
    let fences = of_thread.filter(|&e| is_fence(facts, e, MemoryOrder::releases));
    fences.chain(event.memory_order().releases().then_some(write)).collect()
}

/// What an atomic read sees that was released: by the write that it sees, and by those whose release sequences that write
/// belongs to.
fn released_from(facts: &Facts, read: usize) -> BTreeSet<usize> {
    let mut sources = BTreeSet::new();
    for (unit, &seen) in &facts.seen[read] {
        let mut next = seen;
        while let Some(write) = next {
            sources.extend(released_by(facts, write));
            // An rmw carries on the release sequence of what it read.
            next = if facts.events[write].op == Op::Rmw { facts.seen[write][unit] } else { None };
        }
    }
    sources
}
