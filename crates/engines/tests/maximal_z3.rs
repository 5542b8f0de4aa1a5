//! Every query of random traces, put to Z3 as well: both must give the same answer.
#![cfg(feature = "z3")]

use snag_checker::Checker;
use snag_engines::maximal::z3::{Options, Z3};
use snag_engines::maximal::{Answer, Backend, Index, Limits, Lowered, Queries, Undecided};
use snag_formats::reader::TraceReader;
use snag_formats::text_format::TextReader;
use snag_model::Level;
use snag_model::{Cells, EventId, Op, Trace};
use snag_synthesis::generate::{Generator, Shape as Large};
use snag_testkit::random::{Rng, Shape, for_random_traces};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LEVELS: [Level; 3] = [Level::Writer, Level::Value, Level::Control];

/// All pairs of events that conflict, and all pairs and triples of acquires of different threads.
fn targets(trace: &Trace, cells: &Cells) -> Vec<Vec<EventId>> {
    let (ops, threads) = (trace.events.ops(), trace.events.threads());
    let touch = |i: usize| cells.of_event(i, trace.events.targets()[i]);
    let conflict =
        |a: usize, b: usize| ops[a].conflicts(ops[b]) && touch(a).start < touch(b).end && touch(b).start < touch(a).end;
    let acquires = |i: usize| matches!(ops[i], Op::Acquire | Op::ReadAcquire | Op::WaitEnd);
    let mut all = Vec::new();
    for b in 0..trace.len() {
        for a in (0..b).filter(|&a| threads[a] != threads[b]) {
            let both_acquire = acquires(a) && acquires(b);
            if both_acquire || conflict(a, b) {
                all.push(vec![EventId::new(a), EventId::new(b)]);
            }
            let others = |&c: &usize| threads[c] != threads[a] && threads[c] != threads[b];
            let third = |c: &usize| both_acquire && acquires(*c) && others(c);
            all.extend((0..a).filter(third).map(|c| [c, a, b].map(EventId::new).to_vec()));
        }
    }
    all
}

/// Both forms of the formula give the own engine's answer at all levels, and schedules that the checker accepts.
fn agree(trace: &Trace, targets: &[Vec<EventId>], base: EventId, end: EventId) -> Result<(), String> {
    let cells = Cells::of(trace);
    let checker = Checker::new(trace, &cells);
    let (z3, options) = (Z3::new(), Options::default());
    for level in LEVELS {
        let lowered = Lowered::of(trace, &cells, level);
        let index = Index::new(lowered.trace(), lowered.cells(), level);
        let here = |event: EventId| match event.index() < trace.len() {
            true => lowered.event(event),
            false => EventId::new(lowered.trace().len()),
        };
        let mut queries = Queries::new(&index, Limits::default());
        queries.set_window(here(base), here(end));
        let mut window = z3.window(&index, here(base), here(end), &options);
        for target in targets {
            let asked: Vec<EventId> = target.iter().map(|&event| here(event)).collect();
            let (own, stage) = queries.ask(&asked);
            let by_window = window.ask(&asked, &options);
            let by_cone = z3.ask(&index, &asked, here(base), here(end), &options);
            for (form, answer) in [("window", by_window), ("cone", by_cone)] {
                let same = match (&own, &answer) {
                    (Answer::Possible(_), Answer::Possible(schedule)) => {
                        let schedule = lowered.schedule(schedule.clone());
                        check(&checker, trace, schedule.iter(trace), target, level)
                            .map_err(|why| format!("{level} {target:?} by {form}: {answer:?}: {why}"))?;
                        schedule.iter(trace).take(base.index()).eq((0..base.0).map(EventId))
                            && schedule.iter(trace).all(|event| event < end)
                    }
                    (Answer::Impossible, Answer::Impossible) => true,
                    _ => false,
                };
                if !same {
                    return Err(format!("{level} {target:?}: {own:?} by {stage:?}, Z3 by {form}: {answer:?}"));
                }
            }
        }
    }
    Ok(())
}

/// The schedule is feasible and leads to the target.
fn check(
    checker: &Checker,
    trace: &Trace,
    schedule: impl Iterator<Item = EventId>,
    target: &[EventId],
    level: Level,
) -> Result<(), String> {
    let schedule: Vec<EventId> = schedule.collect();
    if trace.events.ops()[target[0].index()].touches_memory() {
        let verdict = checker.check_race(schedule, target[0], target[1], level);
        return verdict.map_err(|why| why.to_string());
    }
    // A set of acquires need not be a deadlock; each has to be the next event of its thread.
    let ran = |event: EventId| schedule.iter().filter(|&&e| trace.thread_of(e) == trace.thread_of(event)).count();
    let before =
        |event: EventId| (0..event.0).filter(|&e| trace.thread_of(EventId(e)) == trace.thread_of(event)).count();
    if let Some(event) = target.iter().find(|&&event| ran(event) != before(event)) {
        return Err(format!("{event:?} does not come next"));
    }
    checker.check_feasible(schedule, level).map_err(|why| why.to_string())
}

#[test]
fn both_agree_on_all_kinds_of_traces() {
    for_random_traces(300_000..304_000, Shape::any, |trace| {
        let targets = targets(trace, &Cells::of(trace));
        agree(trace, &targets, EventId(0), EventId::new(trace.len()))
    });
}

#[test]
fn both_agree_on_sections_and_deadlocks() {
    for_random_traces(310_000..311_000, Shape::lock_heavy, |trace| {
        let targets = targets(trace, &Cells::of(trace));
        agree(trace, &targets, EventId(0), EventId::new(trace.len()))
    });
}

#[test]
fn both_agree_on_windows() {
    for_random_traces(320_000..321_000, Shape::any, |trace| {
        let mut rng = Rng::new(trace.events.targets().iter().map(|&target| u64::from(target)).sum());
        let (base, end) = (rng.below(6), trace.len() - rng.below(4).min(trace.len()));
        let (base, end) = (EventId::new(base.min(end)), EventId::new(end));
        let mut targets = targets(trace, &Cells::of(trace));
        targets.retain(|target| target.iter().all(|event| (base..end).contains(event)));
        agree(trace, &targets, base, end)
    });
}

/// Too long for an exhaustive search, so this is the only second opinion.
#[test]
fn both_agree_on_longer_traces() {
    let longer = |rng: &mut Rng| Shape { events: rng.between(40, 80), ..Shape::any(rng) };
    for_random_traces(330_000..330_120, longer, |trace| {
        let targets = targets(trace, &Cells::of(trace));
        let some: Vec<_> = targets.iter().step_by(1 + targets.len() / 10).cloned().collect();
        agree(trace, &some, EventId(0), EventId::new(trace.len()))
    });
}

fn large(events: usize) -> Trace {
    let shape = Large { events, threads: 8, locks: 4, racy: 0.2, values: true, branches: 0.3, ..Large::default() };
    TraceReader::new(Box::new(Generator::new(shape)), None).read_all().expect("generated traces are well formed").0
}

/// A pair that conflicts, from the end of a trace.
fn last_pair(trace: &Trace, cells: &Cells) -> Vec<EventId> {
    let events = &trace.events;
    let conflict = |a: usize, b: usize| {
        let touch = |i: usize| cells.of_event(i, events.targets()[i]);
        let differ = events.threads()[a] != events.threads()[b];
        differ && events.ops()[a].conflicts(events.ops()[b]) && touch(a).start == touch(b).start
    };
    let pairs = (0..trace.len()).rev().flat_map(|b| (0..b).rev().map(move |a| (a, b)));
    let (a, b) = pairs.into_iter().find(|&(a, b)| conflict(a, b)).expect("a conflict");
    vec![EventId::new(a), EventId::new(b)]
}

#[test]
fn queries_are_put_to_z3_if_told_so() {
    for_random_traces(340_000..340_100, Shape::any, |trace| {
        let cells = Cells::of(trace);
        let lowered = Lowered::of(trace, &cells, Level::Value);
        let index = Index::new(lowered.trace(), lowered.cells(), Level::Value);
        let limits = Limits { backend: Backend::Z3, ..Limits::default() };
        let (mut by_z3, mut own) = (Queries::new(&index, limits), Queries::new(&index, Limits::default()));
        for target in targets(trace, &cells) {
            let target: Vec<EventId> = target.into_iter().map(|event| lowered.event(event)).collect();
            let (a, b) = (by_z3.ask(&target).0, own.ask(&target).0);
            if matches!(a, Answer::Impossible) != matches!(b, Answer::Impossible) {
                return Err(format!("{target:?}: {a:?}, {b:?}"));
            }
        }
        Ok(())
    });
}

#[test]
fn time_and_patience_run_out() {
    let trace = large(6_000);
    let cells = Cells::of(&trace);
    let index = Index::new(&trace, &cells, Level::Control);
    let target = last_pair(&trace, &cells);
    let (base, end) = (EventId(0), EventId::new(trace.len()));
    let started = Instant::now();
    let options = Options { timeout: Some(Duration::from_millis(50)), ..Options::default() };
    assert_eq!(Z3::new().ask(&index, &target, base, end, &options), Answer::Unknown(Undecided::Stopped));
    let stop = Arc::new(move || started.elapsed() > Duration::from_millis(300));
    let options = Options { stop: Some(stop), ..Options::default() };
    let z3 = Z3::new();
    assert_eq!(z3.window(&index, base, end, &options).ask(&target, &options), Answer::Unknown(Undecided::Stopped));
    // Once stopped, always stopped.
    assert_eq!(z3.ask(&index, &target, base, end, &options), Answer::Unknown(Undecided::Stopped));
}

/// Too rare in random traces: T3 needs the 1 in y, from T2 after its access or from T1 after it has freed the block.
#[test]
fn a_window_does_not_free_what_the_target_accesses() {
    let text = "%snag 1\nT1|alloc(h)|\nT2|r(h)|\nT2|w(y)=1|\nT3|r(y)=1|\nT3|w(h)|\nT1|free(h)|\nT1|w(y)=1|\n";
    let reader = TextReader::new(std::io::Cursor::new(text));
    let (trace, _) = TraceReader::new(Box::new(reader), None).read_all().expect("well formed");
    agree(&trace, &[vec![EventId(1), EventId(4)]], EventId(0), EventId::new(trace.len())).unwrap();
}
