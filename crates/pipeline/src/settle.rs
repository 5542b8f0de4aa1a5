//! What the clocks of SHB do not prove goes to the maximal engine.
//!
//! It is asked about the pairs that another engine believes in, and about nothing else; if no
//! schedule shows one of them, about deadlocks: by the theorem on CP and WCP there may be one behind it. Of
//! a long trace only the beginning is looked at, up to some way behind the last pair in question.

use crate::analyse::{Claim, Work};
use crate::analysis::{Deadlock, Engine, NOT_CHECKED, Subject};
use crate::maximal::NOT_DECIDED;
use crate::watch::{Watch, on_all_cores};
use snag_checker::Checker;
use snag_engines::maximal::{Answer, Cycles, Index, Limits, Lowered, Missing, Queries};
use snag_model::{Cells, EventId, LockId, Op, Trace};
use snag_model::{Level, Schedule};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// So many events behind the last pair in question a schedule may reach.
const BEYOND: usize = 100_000;

/// So many steps are taken for each acquire in the search for cycles.
const MOST_STEPS: usize = 20_000;

/// A deadlock: the acquires that wait for each other, and what happens before.
type Found = (Vec<EventId>, Schedule);

impl Work<'_> {
    /// Finds schedules for claims that have none, and deadlocks behind those for which there is none. False
    /// if something was left undecided.
    pub(crate) fn settle(&mut self, engine: Engine, level: Level, claims: &mut [Claim]) -> bool {
        let mut open: Vec<&mut Claim> = claims.iter_mut().filter(|claim| claim.proposal.is_err()).collect();
        let Some(last) = open.iter().map(|claim| claim.pair.second).max() else { return true };
        if self.out_of_time() {
            self.analysis.leave(engine, Subject::LocationPair, NOT_DECIDED, open.len());
            open.iter_mut().for_each(|claim| claim.proposal = Err(NOT_DECIDED.to_owned()));
            return false;
        }
        let end = (last.index() + 1 + BEYOND).min(self.trace.len());
        // If that is most of it, all of it is as good.
        let cut = (2 * end < self.trace.len()).then(|| beginning(self.trace, end));
        let cells = cut.as_ref().map(Cells::of);
        let (trace, cells) = (cut.as_ref().unwrap_or(self.trace), cells.as_ref().unwrap_or(self.cells));
        self.progress.phase(&format!("{}: what must come before what", engine.name()), 0);
        let lowered = Lowered::of(trace, cells, level);
        let stop = || self.out_of_time();
        let index = Index::until(lowered.trace(), lowered.cells(), level, Missing::Reach, &stop);
        let here = |event: EventId| lowered.event(event);
        let pairs: Vec<[EventId; 2]> =
            open.iter().map(|claim| [here(claim.pair.first), here(claim.pair.second)]).collect();
        self.progress.phase(&format!("{}: deciding", engine.name()), pairs.len() as u64);
        let (answers, deadlocks) = self.with_limits(|limits, done| {
            let answers = self.ask_all(&index, &pairs, limits, done);
            let refuted = answers.contains(&Answer::Impossible);
            let deadlocks = match refuted {
                true => deadlocks(&index, &lowered, trace, cells, level, limits),
                false => (Vec::new(), 0),
            };
            (answers, deadlocks)
        });
        let (deadlocks, cut_short) = deadlocks;
        let mut complete = cut_short == 0;
        self.analysis.leave(engine, Subject::Acquire, "too many cycles of locks", cut_short);
        let deadlocks = self.deadlocks_of(engine, level, end, deadlocks);
        for (claim, answer) in open.iter_mut().zip(answers) {
            if matches!(answer, Answer::Unknown(_)) {
                complete = false;
                self.analysis.leave(engine, Subject::LocationPair, NOT_DECIDED, 1);
            }
            let instead = if deadlocks == 0 { "" } else { "; there is a deadlock instead" };
            claim.proposal = match answer {
                Answer::Possible(schedule) => Ok(lowered.schedule(schedule)),
                Answer::Impossible if cut.is_none() => Err(format!("no schedule shows it{instead}")),
                Answer::Impossible => Err(format!("no schedule of the first {end} events shows it{instead}")),
                Answer::Unknown(_) => Err(NOT_DECIDED.to_owned()),
            };
        }
        complete
    }

    /// Does something with questions that end when the budget is used up or the user wants to stop.
    pub(crate) fn with_limits<R>(&self, ask: impl FnOnce(&Limits, &AtomicUsize) -> R) -> R {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
        let asked = stop.clone();
        let limits = Limits { stop: Some(Arc::new(move || asked.load(Ordering::Relaxed))), ..Limits::default() };
        let watch = Watch { stop: &stop, done: &done, grace: Duration::ZERO, rescue: None };
        self.watched(&watch, || ask(&limits, &done))
    }

    /// The answers about pairs of events, on all cores.
    fn ask_all(&self, index: &Index, pairs: &[[EventId; 2]], limits: &Limits, done: &AtomicUsize) -> Vec<Answer> {
        let unknown = || Mutex::new(Answer::Unknown(snag_engines::maximal::Undecided::Stopped));
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
        on_all_cores(self.options.jobs, pairs.len(), worker);
        answers.into_iter().map(|answer| answer.into_inner().expect("no worker panics")).collect()
    }

    /// Files deadlocks that the checker accepts, with the whole trace in view, one for each set of locks of an engine. How many
    /// there are, those included that were known.
    pub(crate) fn deadlocks_of(&mut self, engine: Engine, level: Level, end: usize, found: Vec<Found>) -> usize {
        if found.is_empty() {
            return 0;
        }
        let checker = Checker::up_to(self.trace, self.cells, EventId::new(end));
        let own = self.analysis.deadlocks.iter().filter(|deadlock| deadlock.engine == engine);
        let mut known: HashSet<Vec<LockId>> = own.map(|deadlock| waited_for(self.trace, &deadlock.pending)).collect();
        let mut count = 0;
        for (pending, witness) in found {
            let locks = waited_for(self.trace, &pending);
            let is_known = known.contains(&locks);
            if !is_known && self.time.is_over() {
                self.analysis.leave(engine, Subject::Cycle, NOT_CHECKED, 1);
                continue;
            }
            if is_known || checker.check_deadlock(witness.iter(self.trace), &pending, level).is_ok() {
                count += 1;
                if known.insert(locks) {
                    self.analysis.deadlocks.push(Deadlock { engine, level, pending, witness });
                }
            }
        }
        count
    }
}

/// The locks that the threads of a deadlock wait for.
fn waited_for(trace: &Trace, pending: &[EventId]) -> Vec<LockId> {
    let lock = |&event: &EventId| {
        let event = trace.event(event);
        LockId(if event.op == Op::WaitEnd { event.aux } else { event.target })
    };
    let mut locks: Vec<LockId> = pending.iter().map(lock).collect();
    locks.sort_unstable();
    locks
}

/// One deadlock for each set of locks, and for how many acquires not all was asked or answered.
fn deadlocks(
    index: &Index,
    lowered: &Lowered,
    trace: &Trace,
    cells: &Cells,
    level: Level,
    limits: &Limits,
) -> (Vec<Found>, usize) {
    let cycles = Cycles::of(index);
    let checker = Checker::new(trace, cells);
    let mut queries = Queries::new(index, limits.clone());
    let mut known: HashSet<Vec<LockId>> = HashSet::new();
    let mut found = Vec::new();
    let mut left = 0;
    for task in 0..cycles.tasks() {
        let mut open = 0;
        if is_over(limits) {
            left += cycles.size(task);
            continue;
        }
        left += cycles.visit(task, MOST_STEPS, &|| is_over(limits), &mut |pending| {
            let locks = cycles.locks(pending);
            if !known.contains(&locks) {
                let originals: Vec<EventId> = pending.iter().filter_map(|&event| lowered.original(event)).collect();
                match queries.ask(pending).0 {
                    Answer::Possible(schedule) => {
                        let schedule = lowered.schedule(schedule);
                        match checker.check_deadlock(schedule.iter(trace), &originals, level) {
                            Ok(()) => {
                                known.insert(locks);
                                found.push((originals, schedule));
                            }
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
    (found, left)
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
