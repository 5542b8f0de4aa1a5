//! Which questions are asked: pairs of accesses first, then cycles of acquires.
//!
//! The questions about one pair of locations are asked one after the other until the first proof; those about different
//! ones on all cores.

use crate::engine::{Context, DeadlockClaim, Found, NOT_DECIDED, RaceClaim, Subject, TOO_MANY};
use crate::maximal::deepening::Deepening;
use crate::maximal::{Answer, Cycles, Lowered, Pairs, Stage, Undecided};
use crate::watch::{Watch, on_all_cores, watched};
use snag_model::{EventId, Level, Schedule};
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// What is said of questions that came too late.
const NOT_ASKED: &str = "not asked about in time";
const TOO_HARD: &str = "given up after long searches; the engine by its own name, without a budget, goes on";
const OUT_OF_PATIENCE: &str = "not decided within its share of the time";

/// Answers whether some events can be next at the same time.
pub(super) trait Oracle {
    /// The next questions are about another pair of locations.
    fn begin_task(&mut self);
    /// Schedules stay in a window.
    fn set_window(&mut self, base: EventId, end: EventId);
    /// The answer, and who gave it.
    fn ask(&mut self, events: &[EventId]) -> (Answer, Stage);
    /// How many steps of searches the last answer took.
    fn steps(&self) -> u64;
    /// Branches of the last schedule that go the other way.
    fn diverging(&self) -> &[EventId];
}

/// How much is asked about one pair of locations.
#[derive(Clone, Copy)]
pub(super) enum Patience {
    /// Everything.
    Endless,
    /// No more after so many pairs of events were refuted by a search.
    Refuted(usize),
}

/// What the workers share.
pub(super) struct Asking<'a, 'i, 't> {
    context: &'a Context<'a>,
    level: Level,
    pairs: &'a Pairs<'i, 't>,
    cycles: Option<Deepening<'a, 'i, 't>>,
    /// The trace to which the events of pairs and cycles belong, if it is another one.
    lowered: Option<&'a Lowered<'a>>,
    patience: Patience,
    stop: &'a AtomicBool,
    next: AtomicUsize,
    count: AtomicUsize,
    proved: Mutex<Proved>,
}

/// What was accepted.
#[derive(Default)]
struct Proved {
    seconds: HashSet<EventId>,
    locations: HashSet<(u64, u64)>,
}

impl<'a, 'i, 't> Asking<'a, 'i, 't> {
    /// Questions about pairs and cycles; searches end when `stop` becomes true.
    pub fn new(
        context: &'a Context<'a>,
        level: Level,
        pairs: &'a Pairs<'i, 't>,
        cycles: Option<&'a Cycles<'i, 't>>,
        stop: &'a AtomicBool,
    ) -> Asking<'a, 'i, 't> {
        let of_trace = |cycles| Deepening::of(cycles, context.trace.len(), context.exhaustive);
        Asking {
            context,
            level,
            pairs,
            cycles: cycles.map(of_trace),
            lowered: None,
            patience: Patience::Endless,
            stop,
            next: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            proved: Mutex::default(),
        }
    }

    /// Pairs and cycles are those of a lowered trace.
    pub fn lowered(self, lowered: &'a Lowered<'a>) -> Asking<'a, 'i, 't> {
        Asking { lowered: Some(lowered), ..self }
    }

    /// How much is asked about one pair of locations.
    pub fn patience(self, patience: Patience) -> Asking<'a, 'i, 't> {
        Asking { patience, ..self }
    }

    /// Asks all questions, each worker with an oracle of its own.
    pub fn run<O: Oracle>(&self, oracle: impl Fn() -> O + Sync) {
        let tasks = self.pairs.tasks.len() + self.cycles.as_ref().map_or(0, |cycles| cycles.cycles().tasks());
        self.context.phase("deciding", tasks);
        let done = AtomicUsize::new(0);
        let worker = || {
            let mut oracle = oracle();
            loop {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                let of_cycles = number.checked_sub(self.pairs.tasks.len());
                let task = of_cycles.map(|number| self.cycles.as_ref().and_then(|cycles| cycles.task(number)));
                if task == Some(None) {
                    break;
                }
                oracle.begin_task();
                let is_done = match task.flatten() {
                    Some(task) => self.cycles_of(&mut oracle, task),
                    None => {
                        self.pair_or_leave(&mut oracle, number);
                        true
                    }
                };
                done.fetch_add(is_done as usize, Ordering::Relaxed);
            }
        };
        let watch = Watch { stop: self.stop, done: &done, total: tasks, grace: Duration::ZERO, reason: NOT_ASKED };
        watched(self.context.host, &watch, || on_all_cores(self.context.settings.jobs, tasks, worker));
    }

    /// What was found, after a preparation that took so long.
    pub fn found(&self, first_pass: Duration) -> Found<'static> {
        let proved = self.proved.lock().expect("no worker panics");
        Found {
            warnings: proved.seconds.len() as u64,
            location_pairs: Some(proved.locations.len() as u64),
            ..Found::nothing(self.context, first_pass)
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.count.load(Ordering::Relaxed) >= self.context.settings.max_races
    }

    /// The event of the trace that was given; nothing for what code that was not observed may do.
    fn original(&self, event: EventId) -> Option<EventId> {
        self.lowered.map_or(Some(event), |lowered| lowered.original(event))
    }

    /// A schedule of the trace that was given.
    fn in_trace(&self, schedule: Schedule) -> Schedule {
        match self.lowered {
            Some(lowered) => lowered.schedule(schedule),
            None => schedule,
        }
    }

    /// Why nothing more is asked.
    fn reason(&self) -> &'static str {
        if self.stop.load(Ordering::Relaxed) { NOT_ASKED } else { TOO_MANY }
    }

    fn pair_or_leave(&self, oracle: &mut impl Oracle, number: usize) {
        if !self.is_over() {
            return self.pair(oracle, number);
        }
        let task = &self.pairs.tasks[number];
        let known = |key| !self.context.settings.all_pairs && self.context.known.contains(&key);
        if !task.key().is_some_and(known) {
            self.context.host.leave(Subject::LocationPair, self.reason(), 1);
        }
    }

    /// Asks about the pairs of a task until one is proved.
    fn pair(&self, oracle: &mut impl Oracle, number: usize) {
        let Context { host, settings, known, .. } = *self.context;
        let task = &self.pairs.tasks[number];
        let every = settings.all_pairs || task.is_about_events();
        let mut first_open: Option<(EventId, EventId, String)> = None;
        let mut refuted = 0;
        let stopped = Cell::new(false);
        let stop = || {
            stopped.set(self.is_over());
            stopped.get()
        };
        for asked in self.pairs.of_task(task, &stop) {
            // What code that was not observed may do is no finding.
            let (Some(first), Some(second)) = (self.original(asked.0), self.original(asked.1)) else { continue };
            // A window is one of the trace as it was given.
            if settings.window.is_some_and(|window| first.index() / window != second.index() / window) {
                continue;
            }
            let mut open = |reason: String| {
                first_open.get_or_insert((first, second, reason));
            };
            if !every && matches!(self.patience, Patience::Refuted(most) if refuted >= most) {
                open(format!("{refuted} pairs of events before it were refuted"));
                break;
            }
            if self.is_over() {
                open(NOT_ASKED.to_owned());
                break;
            }
            if known.contains(&self.context.key(first, second)) {
                match every {
                    true => continue,
                    false => return,
                }
            }
            if let Some((base, end)) = self.pairs.window_of(asked.0) {
                oracle.set_window(base, end);
            }
            let (answer, stage) = oracle.ask(&[asked.0, asked.1]);
            match answer {
                Answer::Possible(schedule) => {
                    let schedule = self.in_trace(schedule);
                    let diverging = oracle.diverging().to_vec();
                    match host.race(RaceClaim { first, second, schedule, level: self.level, diverging }) {
                        Ok(()) => {
                            self.note(first, second);
                            if !every {
                                return;
                            }
                        }
                        Err(why) => open(why),
                    }
                }
                Answer::Impossible => refuted += (stage >= Stage::Local) as usize,
                Answer::Unknown(why) => {
                    open(self.undecided(&why));
                    if !every && why == Undecided::TooHard {
                        break;
                    }
                }
            }
        }
        if stopped.get() && first_open.is_none() {
            host.leave(Subject::LocationPair, NOT_ASKED, 1);
        }
        if let Some((first, second, reason)) = first_open {
            host.undecided(first, second, &reason);
        }
    }

    fn note(&self, first: EventId, second: EventId) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut proved = self.proved.lock().expect("no worker panics");
        proved.seconds.insert(second);
        proved.locations.insert(crate::engine::key(self.context.trace, first, second, false));
    }

    /// Why a question has no answer.
    fn undecided(&self, why: &Undecided) -> String {
        match why {
            Undecided::Stopped if self.stop.load(Ordering::Relaxed) => NOT_DECIDED.to_owned(),
            Undecided::Stopped => OUT_OF_PATIENCE.to_owned(),
            Undecided::TooHard => TOO_HARD.to_owned(),
            why => format!("not decided: {why:?}"),
        }
    }

    /// Asks about cycles of acquires, except those whose locations are those of a deadlock that was proved already.
    /// Whether nothing is left of the task.
    fn cycles_of(&self, oracle: &mut impl Oracle, task: (usize, usize)) -> bool {
        let (host, Some(cycles)) = (self.context.host, &self.cycles) else { return true };
        if self.is_over() {
            let outcome = cycles.give_up(task.0);
            host.leave(Subject::Acquire, self.reason(), outcome.cut_short);
            return outcome.is_done;
        }
        if cycles.open_of(task.0) == 0 {
            return false;
        }
        let outcome = cycles.visit(task, &|| self.is_over(), &mut |pending| {
            if self.is_over() {
                return false;
            }
            if let Some((base, end)) = self.pairs.window_of(pending[0]) {
                if pending.iter().any(|&event| event < base || event >= end) {
                    return true;
                }
                oracle.set_window(base, end);
            }
            // Acquires are never added when a trace is lowered.
            let originals: Vec<EventId> = pending.iter().filter_map(|&event| self.original(event)).collect();
            if host.meets_cycle(&originals) && !self.context.settings.all_pairs {
                return true;
            }
            let answer = oracle.ask(pending).0;
            cycles.asked(oracle.steps());
            let open = match answer {
                Answer::Possible(schedule) => {
                    let schedule = self.in_trace(schedule);
                    host.deadlock(DeadlockClaim { pending: originals, schedule, level: self.level }).err()
                }
                Answer::Impossible => None,
                Answer::Unknown(why) => Some(self.undecided(&why)),
            };
            if let Some(reason) = open {
                host.leave(Subject::Cycle, &reason, 1);
            }
            true
        });
        if outcome.cut_short > 0 {
            let reason = if self.is_over() { NOT_ASKED } else { "in too many cycles" };
            host.leave(Subject::Acquire, reason, outcome.cut_short);
        }
        outcome.is_done
    }
}
