//! Schedules by the search of the maximal engine.
//!
//! It is asked about the pairs that another engine believes in, and about nothing else; if no schedule shows one of them,
//! about deadlocks: by the theorem on CP and WCP there may be one behind it. Of a long trace only the beginning is looked
//! at, up to some way behind the last pair in question.

use super::{Claim, State};
use crate::filing::Filing;
use snag_engines::maximal::{Answer, Cycles, Index, Limits, Lowered, Missing, Queries, Undecided};
use snag_engines::watch::{Watch, on_all_cores, watched};
use snag_engines::{Context, DeadlockClaim, Host, NOT_DECIDED, Subject};
use snag_model::{Cells, EventId, Level, Trace};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// So many events behind the last pair in question a schedule may reach.
const BEYOND: usize = 100_000;

/// So many steps are taken for each acquire in the search for cycles.
const MOST_STEPS: usize = 20_000;

/// Finds schedules for claims that have none, and deadlocks behind those for which there is none.
pub(super) fn propose(filing: &Filing, context: &Context, claims: &mut [&mut Claim]) {
    let Some(last) = claims.iter().map(|claim| claim.pair.second).max() else { return };
    if filing.is_up() {
        return claims.iter_mut().for_each(|claim| undecided(filing, claim));
    }
    let (trace, level) = (context.trace, filing.level());
    let end = (last.index() + 1 + BEYOND).min(trace.len());
    // If that is most of it, all of it is as good.
    let cut = (2 * end < trace.len()).then(|| beginning(trace, end));
    let cells = cut.as_ref().map(Cells::of);
    let (trace, cells) = (cut.as_ref().unwrap_or(trace), cells.as_ref().unwrap_or(context.cells));
    context.phase("what must come before what", 0);
    let lowered = Lowered::of(trace, cells, level);
    let index = Index::until(lowered.trace(), lowered.cells(), level, Missing::Reach, &|| filing.is_up());
    let here = |event: EventId| lowered.event(event);
    let pairs: Vec<[EventId; 2]> =
        claims.iter().map(|claim| [here(claim.pair.first), here(claim.pair.second)]).collect();
    context.phase("deciding", pairs.len());
    let (answers, deadlocks) = with_limits(filing, pairs.len(), |limits, done| {
        let answers = ask_all(filing, &index, &pairs, limits, done);
        let refuted = answers.contains(&Answer::Impossible);
        let deadlocks = refuted && deadlocks(filing, &index, &lowered, level, limits);
        (answers, deadlocks)
    });
    for (claim, answer) in claims.iter_mut().zip(answers) {
        let instead = if deadlocks { "; there is a deadlock instead" } else { "" };
        match answer {
            Answer::Possible(schedule) => claim.proposal = Some(lowered.schedule(schedule)),
            Answer::Impossible if cut.is_none() => claim.state = State::Open(format!("no schedule shows it{instead}")),
            Answer::Impossible => {
                claim.state = State::Open(format!("no schedule of the first {end} events shows it{instead}"));
            }
            Answer::Unknown(_) => undecided(filing, claim),
        }
    }
}

/// There was no time to decide about a claim.
fn undecided(filing: &Filing, claim: &mut Claim) {
    filing.leave(Subject::LocationPair, NOT_DECIDED, 1);
    claim.state = State::Open(NOT_DECIDED.to_owned());
}

/// Asks about acquires that an engine believes wait for each other.
pub(crate) fn standoffs(filing: &Filing, context: &Context, standoffs: &[Vec<EventId>]) {
    if standoffs.is_empty() {
        return;
    }
    if filing.is_up() {
        return filing.leave(Subject::Cycle, NOT_DECIDED, standoffs.len());
    }
    let level = filing.level();
    let lowered = Lowered::of(context.trace, context.cells, level);
    let index = Index::until(lowered.trace(), lowered.cells(), level, Missing::Reach, &|| filing.is_up());
    with_limits(filing, standoffs.len(), |limits, _| {
        let mut queries = Queries::new(&index, limits.clone());
        for pending in standoffs {
            if filing.knows_deadlock(pending) {
                continue;
            }
            let here: Vec<EventId> = pending.iter().map(|&event| lowered.event(event)).collect();
            let open = match queries.ask(&here).0 {
                Answer::Possible(schedule) => {
                    let schedule = lowered.schedule(schedule);
                    filing.deadlock(DeadlockClaim { pending: pending.clone(), schedule, level }).err()
                }
                Answer::Impossible => None,
                Answer::Unknown(_) => Some(NOT_DECIDED.to_owned()),
            };
            if let Some(reason) = open {
                filing.leave(Subject::Cycle, &reason, 1);
            }
        }
    });
}

/// Does something with questions that end when the budget is used up or the user wants to stop.
pub(super) fn with_limits<R>(filing: &Filing, total: usize, ask: impl FnOnce(&Limits, &AtomicUsize) -> R) -> R {
    let (stop, done) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
    let asked = stop.clone();
    let limits = Limits { stop: Some(Arc::new(move || asked.load(Ordering::Relaxed))), ..Limits::default() };
    let watch = Watch { stop: &stop, done: &done, total, grace: Duration::ZERO, reason: NOT_DECIDED };
    watched(filing, &watch, || ask(&limits, &done))
}

/// The answers about pairs of events, on all cores.
fn ask_all(filing: &Filing, index: &Index, pairs: &[[EventId; 2]], limits: &Limits, done: &AtomicUsize) -> Vec<Answer> {
    let unknown = || Mutex::new(Answer::Unknown(Undecided::Stopped));
    let answers: Vec<Mutex<Answer>> = pairs.iter().map(|_| unknown()).collect();
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut queries = Queries::new(index, limits.clone());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(pair) = pairs.get(number) else { break };
            if is_over(limits) {
                break;
            }
            *answers[number].lock().expect("no worker panics") = queries.ask(pair).0;
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    on_all_cores(filing.options.settings.jobs, pairs.len(), worker);
    answers.into_iter().map(|answer| answer.into_inner().expect("no worker panics")).collect()
}

/// Looks for one deadlock for each cycle of locations. Whether there is any.
fn deadlocks(filing: &Filing, index: &Index, lowered: &Lowered, level: Level, limits: &Limits) -> bool {
    let cycles = Cycles::of(index);
    let mut queries = Queries::new(index, limits.clone());
    let (mut left, mut any) = (0, false);
    for task in 0..cycles.tasks() {
        let mut open = 0;
        if is_over(limits) {
            left += cycles.size(task);
            continue;
        }
        left += cycles.visit(task, MOST_STEPS, &|| is_over(limits), &mut |pending| {
            let originals: Vec<EventId> = pending.iter().filter_map(|&event| lowered.original(event)).collect();
            if filing.meets_cycle(&originals) {
                any = true;
            } else {
                match queries.ask(pending).0 {
                    Answer::Possible(schedule) => {
                        let schedule = lowered.schedule(schedule);
                        match filing.deadlock(DeadlockClaim { pending: originals, schedule, level }) {
                            Ok(()) => any = true,
                            Err(_) => open += 1,
                        }
                    }
                    Answer::Impossible => {}
                    Answer::Unknown(_) => open += 1,
                }
            }
            !is_over(limits)
        });
        left += open;
    }
    filing.leave(Subject::Acquire, "too many cycles of locks", left);
    any
}

fn is_over(limits: &Limits) -> bool {
    limits.stop.as_ref().is_some_and(|stop| stop())
}

/// The first events of a trace, which are a trace.
fn beginning(trace: &Trace, end: usize) -> Trace {
    let mut beginning = Trace { tables: trace.tables.clone(), ..Trace::default() };
    for number in 0..end {
        beginning.events.push(trace.events.get(number));
    }
    beginning
}
