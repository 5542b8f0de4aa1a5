//! Claims of races by memory order: the checker accepts and refuses what the oracle does, whoever made them up.
//!
//! Schedules are feasible ones at random, some of them damaged, and pairs any two events; so are those that the definition
//! finds in the trace as it was observed, with small changes.

use snag_checker::Checker;
use snag_model::{Cells, EventId, Trace};
use snag_testkit::*;
use std::sync::atomic::{AtomicUsize, Ordering};

const LEVELS: [Level; 3] = [Level::Writer, Level::Value, Level::Control];

/// A feasible schedule, as far as it goes: the next event of some thread, again and again.
fn wander(trace: &Trace, checker: &Checker, level: Level, rng: &mut Rng) -> Vec<EventId> {
    let threads = trace.tables.thread_count() as u32;
    let mut schedule: Vec<EventId> = Vec::new();
    let length = rng.between(2, trace.len().max(2));
    for _ in 0..4 * length {
        let thread = rng.below(threads as usize) as u32;
        let events = (0..trace.len()).map(EventId::new).filter(|&event| trace.thread_of(event).0 == thread);
        let Some(next) = events.into_iter().find(|event| !schedule.contains(event)) else { continue };
        schedule.push(next);
        if checker.check_feasible(schedule.iter().copied(), level).is_err() {
            schedule.pop();
        }
        if schedule.len() == length {
            break;
        }
    }
    schedule
}

/// One small change, or none.
fn damage(schedule: &mut Vec<EventId>, events: usize, rng: &mut Rng) {
    if schedule.is_empty() {
        return;
    }
    let at = rng.below(schedule.len());
    match rng.below(8) {
        0 => _ = schedule.remove(at),
        1 => schedule.swap(at, 0),
        2 if at > 0 => schedule.swap(at, at - 1),
        3 => schedule.push(EventId::new(rng.below(events))),
        4 => schedule.truncate(at),
        _ => {}
    }
}

#[test]
fn the_checker_judges_claims_as_the_oracle_does() {
    let small = |rng: &mut Rng| {
        let shape = if rng.chance(80) { Shape::weak(rng) } else { Shape::any(rng) };
        Shape { events: rng.between(5, 16), threads: rng.between(2, 3), ..shape }
    };
    let (accepted, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for_random_traces(0..6_500, small, |trace| {
        let cells = Cells::of(trace);
        let checker = Checker::new(trace, &cells);
        let mut rng = Rng::new(trace.len() as u64 * 977 + trace.events.targets().iter().sum::<u32>() as u64);
        if trace.is_empty() {
            return Ok(());
        }
        let observed: Vec<(EventId, EventId)> = order_races(trace).into_iter().collect();
        for round in 0..12 {
            let level = rng.pick(&LEVELS);
            let (mut schedule, mut pair) = match rng.pick_any(&observed) {
                Some((first, second)) if round % 2 == 0 => ((0..=second.0).map(EventId).collect(), (first, second)),
                _ => {
                    let schedule = wander(trace, &checker, level, &mut rng);
                    let after = |at: usize| schedule[at + 1..].iter().map(move |&other| (at, other));
                    let pairs = (0..schedule.len()).flat_map(after).map(|(at, other)| (schedule[at], other));
                    let pairs: Vec<_> = pairs.filter(|&(a, b)| conflicting(trace, a, b)).collect();
                    let Some(pair) = rng.pick_any(&pairs) else { continue };
                    (schedule, pair)
                }
            };
            if rng.chance(60) {
                damage(&mut schedule, trace.len(), &mut rng);
            }
            if rng.chance(10) {
                pair.0 = EventId::new(rng.below(trace.len()));
            }
            let expected = is_order_race(trace, &schedule, pair.0, pair.1, level);
            let verdict = checker.check_order(schedule.iter().copied(), pair.0, pair.1, level);
            if verdict.is_ok() != expected {
                return Err(format!("{level}: {pair:?} in {schedule:?}: {verdict:?}, expected {expected}"));
            }
            let counter = if expected { &accepted } else { &refused };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    let counts = [&accepted, &refused].map(|counter| counter.load(Ordering::Relaxed));
    println!("accepted, refused: {counts:?}");
    assert!(counts[0] > 1_000 && counts[1] > 10_000, "{counts:?}");
}
