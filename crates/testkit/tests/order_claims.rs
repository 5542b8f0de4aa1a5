//! Claims of races by memory order: the checker accepts and refuses what the oracle does, whoever made them up.
//!
//! Claims are about feasible schedules at random, and about the races that the definition finds in the trace as it was
//! observed. Each claim that holds is then changed a little: its schedule, its pair, or the orders in the trace.

use snag_checker::{Checker, ScheduleRule};
use snag_model::events::Event;
use snag_model::{Cells, EventId, MemoryOrder, Op, Trace};
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

/// One small change.
fn damage(schedule: &mut Vec<EventId>, events: usize, rng: &mut Rng) {
    if schedule.is_empty() {
        return;
    }
    let at = rng.below(schedule.len());
    match rng.below(5) {
        0 => _ = schedule.remove(at),
        1 => schedule.swap(at, 0),
        2 if at > 0 => schedule.swap(at, at - 1),
        3 => schedule.push(EventId::new(rng.below(events))),
        _ => schedule.truncate(at),
    }
}

/// The trace with most of its atomics and fences as strong as there are.
fn strengthened(trace: &Trace, rng: &mut Rng) -> Trace {
    let mut stronger = Trace { tables: trace.tables.clone(), ..Trace::default() };
    for event in trace.events.iter() {
        let changed = (event.op.is_atomic() || event.op == Op::Fence) && rng.chance(80);
        stronger.events.push(Event { aux: if changed { MemoryOrder::SeqCst as u32 } else { event.aux }, ..event });
    }
    stronger
}

/// Somebody says that a schedule proves a race by memory order.
#[derive(Clone)]
struct Claim {
    level: Level,
    schedule: Vec<EventId>,
    pair: (EventId, EventId),
}

impl Claim {
    /// What the checker says of it, if the oracle says the same.
    fn judged(&self, trace: &Trace, checker: &Checker) -> Result<Option<ScheduleRule>, String> {
        let Claim { level, schedule, pair } = self;
        let expected = is_order_race(trace, schedule, pair.0, pair.1, *level);
        let verdict = checker.check_order(schedule.iter().copied(), pair.0, pair.1, *level);
        match verdict.is_ok() == expected {
            true => Ok(verdict.err().map(|violation| violation.rule)),
            false => Err(format!("{level}: {pair:?} in {schedule:?}: {verdict:?}, expected {expected}")),
        }
    }
}

#[test]
fn the_checker_judges_claims_as_the_oracle_does() {
    let small = |rng: &mut Rng| {
        let shape = if rng.chance(80) { Shape::weak(rng) } else { Shape::any(rng) };
        Shape { events: rng.between(5, 16), threads: rng.between(2, 3), ..shape }
    };
    // Claims that hold; of those that were made out of them: that still do, that do not, and that what they leave
    // unordered is not.
    let counts = [const { AtomicUsize::new(0) }; 4];
    for_random_traces(0..6_500, small, |trace| {
        let cells = Cells::of(trace);
        let checker = Checker::new(trace, &cells);
        let mut rng = Rng::new(trace.len() as u64 * 977 + trace.events.targets().iter().sum::<u32>() as u64);
        let observed: Vec<(EventId, EventId)> = order_races(trace).into_iter().collect();
        for round in 0..8 {
            let level = rng.pick(&LEVELS);
            let (schedule, pair) = match rng.pick_any(&observed) {
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
            let claim = Claim { level, schedule, pair };
            if claim.judged(trace, &checker)?.is_some() {
                continue;
            }
            counts[0].fetch_add(1, Ordering::Relaxed);
            let mut changed = vec![claim.clone(); 3];
            damage(&mut changed[0].schedule, trace.len(), &mut rng);
            damage(&mut changed[1].schedule, trace.len(), &mut rng);
            let other = EventId::new(rng.below(trace.len()));
            if rng.chance(50) {
                changed[2].pair.0 = other;
            } else {
                changed[2].pair.1 = other;
            }
            let mut verdicts: Vec<Option<ScheduleRule>> =
                changed.iter().map(|claim| claim.judged(trace, &checker)).collect::<Result<_, _>>()?;
            let stronger = strengthened(trace, &mut rng);
            let cells = Cells::of(&stronger);
            verdicts.push(claim.judged(&stronger, &Checker::new(&stronger, &cells))?);
            for verdict in verdicts {
                counts[if verdict.is_some() { 2 } else { 1 }].fetch_add(1, Ordering::Relaxed);
                counts[3].fetch_add((verdict == Some(ScheduleRule::Synchronised)) as usize, Ordering::Relaxed);
            }
        }
        Ok(())
    });
    let counts = counts.map(AtomicUsize::into_inner);
    println!("claims that hold: {}; changed ones that hold, do not, are ordered: {:?}", counts[0], &counts[1..]);
    assert!(counts[0] > 10_000 && counts[1] > 1_000 && counts[2] > 10_000 && counts[3] > 1_000, "{counts:?}");
}
