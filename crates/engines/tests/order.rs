//! Races by memory order against the definition, on random traces with atomics of every order, chains of
//! read-modify-writes, and fences.

use snag_checker::Checker;
use snag_engines::happens_before::{Limits, Racing, Sections, by_memory_order};
use snag_engines::maximal::{self, Answer, Index, Queries};
use snag_model::events::Event;
use snag_model::{Cells, EventId, Level, Op, Ops, RaceKind, Schedule, Trace};
use snag_testkit::random::{Rng, Shape, for_random_traces};
use snag_testkit::reference::{is_order_race, order_races, order_races_without_locks, warnings};
use snag_testkit::{conflicting, is_feasible};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

type Pairs = BTreeSet<(EventId, EventId)>;

fn weak(rng: &mut Rng) -> Shape {
    let events = rng.between(8, 40);
    Shape { events, threads: rng.between(2, 5), ..Shape::weak(rng) }
}

fn any(rng: &mut Rng) -> Shape {
    let events = rng.between(17, 60);
    Shape { events, ..Shape::any(rng) }
}

/// Threads that come and go, so that clocks serve several of them, and not the same ones in both sets of clocks.
fn short_lived(rng: &mut Rng) -> Shape {
    let events = rng.between(17, 80);
    let weak = Shape::weak(rng);
    let weights = snag_testkit::random::Weights { fork_join: rng.pick(&[6, 12]), ..weak.weights };
    Shape { threads: rng.between(6, 16), events, weights, brief: true, ..weak }
}

/// What is found if nobody takes a lock.
fn without_locks(trace: &Trace, cells: &Cells) -> Pairs {
    let limits = Limits { all_pairs: true, ..Limits::default() };
    pairs(&by_memory_order(trace, cells, Sections::InAnyOrder, None, limits, &mut |_| true, &mut |_| true).1)
}

fn found(trace: &Trace, cells: &Cells, window: Option<usize>, all_pairs: bool) -> Racing {
    let limits = Limits { all_pairs, ..Limits::default() };
    by_memory_order(trace, cells, Sections::AsObserved, window, limits, &mut |_| true, &mut |_| true).1
}

fn pairs(found: &Racing) -> Pairs {
    found.pairs.iter().map(|pair| (pair.first, pair.second)).collect()
}

fn as_defined(trace: &Trace) -> Result<(), String> {
    let cells = Cells::of(trace);
    let expected = order_races(trace);
    let racing = found(trace, &cells, None, true);
    if pairs(&racing) != expected {
        return Err(format!("found {:?}, expected {expected:?}", pairs(&racing)));
    }
    if racing.later != warnings(&expected).len() as u64 {
        return Err(format!("{} later events, expected {:?}", racing.later, warnings(&expected)));
    }
    let mut counts: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    racing.pairs.iter().for_each(|pair| *counts.entry(pair.key(trace)).or_default() += 1);
    let named = found(trace, &cells, None, false);
    let counted: BTreeMap<(u64, u64), u64> = named.pairs.iter().map(|pair| (pair.key(trace), pair.count)).collect();
    if counted != counts {
        return Err(format!("locations {counted:?}, expected {counts:?}"));
    }
    if !pairs(&named).is_subset(&expected) {
        return Err(format!("{:?} stand for their locations, and not all of them race", pairs(&named)));
    }
    let expected_without = order_races_without_locks(trace);
    if without_locks(trace, &cells) != expected_without {
        return Err(format!("without locks: {:?}, expected {expected_without:?}", without_locks(trace, &cells)));
    }
    let window = 5 + trace.len() % 7;
    let inside = |(a, b): &(EventId, EventId)| a.index() / window == b.index() / window;
    let expected: Pairs = expected.into_iter().filter(inside).collect();
    let racing = found(trace, &cells, Some(window), true);
    if pairs(&racing) != expected {
        return Err(format!("window {window}: found {:?}, expected {expected:?}", pairs(&racing)));
    }
    Ok(())
}

fn accepted(trace: &Trace) -> Result<(), String> {
    let cells = Cells::of(trace);
    let checker = Checker::new(trace, &cells);
    for level in [Level::Writer, Level::Value, Level::Control] {
        let mut series = checker.series(level);
        for (first, second) in pairs(&found(trace, &cells, None, true)) {
            let schedule = Schedule::up_to(second);
            let name = |why| format!("{} and {} at {level}: {why}", first.0, second.0);
            checker.check_order(schedule.iter(trace), first, second, level).map_err(name)?;
            series.check(RaceKind::Order, &schedule, first, second).map_err(name)?;
        }
    }
    Ok(())
}

/// What the random traces are made of.
const INGREDIENTS: [(&str, &[Op]); 4] = [
    ("read-modify-writes", &[Op::Rmw]),
    ("fences", &[Op::Fence]),
    ("attempts", &[Op::TryFail, Op::ReadTryFail, Op::JoinFail]),
    ("counts", &[Op::SemValue]),
];

/// What is found is what the definition says, and the checker accepts all of it.
#[test]
fn what_is_found_is_what_the_definition_says() {
    let counts = INGREDIENTS.map(|_| AtomicUsize::new(0));
    let orders = std::array::from_fn::<_, 5, _>(|_| AtomicUsize::new(0));
    for_random_traces(0..20_000, weak, |trace| {
        as_defined(trace)?;
        accepted(trace)?;
        if order_races(trace).is_empty() {
            return Ok(());
        }
        let ops = Ops::of(trace.events.ops());
        for ((_, wanted), count) in INGREDIENTS.iter().zip(&counts) {
            count.fetch_add(ops.any(wanted) as usize, Ordering::Relaxed);
        }
        for (order, count) in orders.iter().enumerate() {
            let has = |event: Event| event.op.is_atomic() && event.memory_order() as usize == order;
            count.fetch_add(trace.events.iter().any(has) as usize, Ordering::Relaxed);
        }
        Ok(())
    });
    let counted = INGREDIENTS.iter().map(|(name, _)| *name).zip(counts.map(AtomicUsize::into_inner));
    let counted: Vec<(&str, usize)> = counted.collect();
    let orders = orders.map(AtomicUsize::into_inner);
    println!("traces with races: {counted:?}, by order: {orders:?}");
    assert!(counted.iter().all(|(_, count)| *count > 100) && orders.iter().all(|&count| count > 1_000));
}

#[test]
fn what_is_found_among_events_of_all_kinds_is_what_the_definition_says() {
    for_random_traces(0..3_000, any, as_defined);
    for_random_traces(3_000..5_000, short_lived, as_defined);
}

#[test]
fn findings_among_events_of_all_kinds_pass_the_checker() {
    for_random_traces(0..3_000, any, accepted);
    for_random_traces(3_000..5_000, short_lived, accepted);
}

/// Small, with locks, so that all schedules can be tried.
fn small(rng: &mut Rng) -> Shape {
    let weak = Shape::weak(rng);
    let weights = snag_testkit::random::Weights { locks: 8, methods: 0, ..weak.weights };
    Shape { events: rng.between(6, 10), threads: rng.between(2, 3), locks: 1, weights, ..weak }
}

/// The pairs that some feasible schedule leaves unordered, by trying all of them.
fn in_any_schedule(trace: &Trace, level: Level, pairs: &Pairs) -> Pairs {
    let mut found = Pairs::new();
    let mut todo = vec![Vec::new()];
    while let Some(schedule) = todo.pop() {
        if let Some(&last) = schedule.last() {
            let open =
                pairs.iter().filter(|pair| pair.1 == last && schedule.contains(&pair.0) && !found.contains(pair));
            let shown: Vec<_> = open
                .copied()
                .filter(|&(first, second)| is_order_race(trace, &schedule, first, second, level))
                .collect();
            found.extend(shown);
        }
        for event in (0..trace.len()).map(EventId::new).filter(|event| !schedule.contains(event)) {
            let longer: Vec<EventId> = schedule.iter().copied().chain([event]).collect();
            if is_feasible(trace, &longer, level) {
                todo.push(longer);
            }
        }
    }
    found
}

/// What the search proposes is accepted; of the pairs that are unordered in some schedule it finds nearly all.
#[test]
fn other_schedules_are_found_where_there_are_any() {
    let (all, missed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for_random_traces(0..800, small, |trace| {
        let cells = Cells::of(trace);
        let checker = Checker::new(trace, &cells);
        for level in [Level::Writer, Level::Value] {
            let everything: Pairs = (0..trace.len() as u32)
                .flat_map(|first| (first + 1..trace.len() as u32).map(move |second| (EventId(first), EventId(second))))
                .filter(|&(first, second)| conflicting(trace, first, second))
                .collect();
            let expected = in_any_schedule(trace, level, &everything);
            let index = Index::new(trace, &cells, level);
            let mut queries = Queries::new(&index, maximal::Limits::default());
            for &(first, second) in &everything {
                match queries.ask_unordered(first, second) {
                    Answer::Possible(schedule) => {
                        let name = |why| format!("{} and {} at {level}: {why}", first.0, second.0);
                        checker.check_order(schedule.iter(trace), first, second, level).map_err(name)?;
                        if !expected.contains(&(first, second)) {
                            return Err(format!("{} and {} at {level}: nobody else finds it", first.0, second.0));
                        }
                    }
                    _ if expected.contains(&(first, second)) => _ = missed.fetch_add(1, Ordering::Relaxed),
                    _ => {}
                }
            }
            all.fetch_add(expected.len(), Ordering::Relaxed);
        }
        Ok(())
    });
    let [all, missed] = [all, missed].map(AtomicUsize::into_inner);
    println!("{missed} of {all} missed");
    assert!(all > 1_000 && 100 * missed < all, "{missed} of {all} missed");
}
