//! The maximal engine in the pipeline: every pair and every cycle of locks that may be a finding is asked about.
//!
//! The questions about one pair of locations are asked one after the other until the first proof; those about
//! different ones on all cores.

use crate::analyse::{Claim, TOO_MANY, Work};
use crate::analysis::{Deadlock, Engine, EngineReport, Subject};
use crate::memory::peak_memory;
use crate::watch::{Watch, on_all_cores};
use snag_checker::Checker;
use snag_engines::happens_before::{Found, LocationPair};
use snag_engines::maximal::{
    Answer, Cycles, Index, Limits, Lowered, Missing, Pairs, Queries, Stage, Undecided, Windows,
};
use snag_model::{EventId, LocId, LockId, Op, Trace};
use snag_model::{Level, Schedule};
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// In `auto` and within a budget, after so many pairs of events at the same two locations that only a search could refute, the others
/// are not asked about: where threads keep out of each other's way by means of their own, all are refuted, there may be
/// millions of them, and other locations deserve their share of the time.
const MOST_REFUTED: usize = 5_000;

/// In the same cases, the searches for one pair of locations, or for the cycles of one task, take at most so many steps; and less once
/// all together have taken very many. A step takes some 50 ns.
const MOST_SEARCH_STEPS: u64 = 200_000_000;
const MANY_SEARCH_STEPS: u64 = 2_000_000_000;
const FEWER_SEARCH_STEPS: u64 = 20_000_000;

/// In the same cases, so many steps are taken for each acquire in the search for cycles.
const MOST_STEPS: usize = 20_000;

/// What is said of questions that came too late.
pub(crate) const NOT_ASKED: &str = "not asked about in time";
pub(crate) const NOT_DECIDED: &str = "not decided in time";
const TOO_HARD: &str = "given up after long searches (--engine mc without a budget goes on)";

/// What was found, and what could not be decided.
#[derive(Clone, Default)]
struct Answers {
    races: Vec<(EventId, EventId, Schedule)>,
    deadlocks: Vec<(Vec<EventId>, Schedule)>,
    undecided: Vec<(EventId, EventId, String)>,
    /// What else was left open, and how many of it.
    left: Vec<(Subject, String, usize)>,
    /// Everything was asked and answered.
    complete: bool,
}

/// The highest level that a trace supports.
pub(crate) fn highest_level(trace: &Trace) -> Level {
    if !trace.events.has_values() {
        Level::Writer
    } else if trace.events.ops().contains(&Op::Branch) {
        Level::Control
    } else {
        Level::Value
    }
}

/// What makes two races the same finding: their events, or the locations of these.
pub(crate) fn key(trace: &Trace, first: EventId, second: EventId, all_pairs: bool) -> (u64, u64) {
    match all_pairs {
        true => (first.0 as u64, second.0 as u64),
        false => Found::key(trace, &LocationPair { first, second, count: 1 }),
    }
}

impl Work<'_> {
    /// Asks about everything except findings that another engine has proved already, by their keys.
    pub(crate) fn maximal(&mut self, engine: Engine, beyond: Option<Engine>, proved: &HashSet<(u64, u64)>) {
        let started = Instant::now();
        if self.out_of_time() {
            return self.not_begun(engine, beyond);
        }
        // Recipe's own level is for what comes after this.
        let highest = highest_level(self.trace);
        let level = self.options.level.filter(|&level| level != Level::Symbolic).unwrap_or(highest);
        let missing = if engine == Engine::Sb { Missing::All } else { Missing::Reach };
        self.progress.phase(&format!("{}: what must come before what", engine.name()), 0);
        let lowered = Lowered::of(self.trace, self.cells, level);
        let index = Index::until(lowered.trace(), lowered.cells(), level, missing, &|| self.out_of_time());
        if self.out_of_time() {
            return self.not_begun(engine, beyond);
        }
        let windows = self.options.window.map(|size| Windows::of_original(&lowered, size));
        let pairs = Pairs::of(&index, windows);
        if self.out_of_time() {
            return self.not_begun(engine, beyond);
        }
        let cycles = Cycles::of(&index);
        let set_up = started.elapsed();
        let checker = Checker::new(self.trace, self.cells);
        let answers = self.ask(engine, beyond, level, &lowered, &index, &pairs, &cycles, &checker, proved);
        let complete = answers.complete;
        let seconds: HashSet<EventId> = answers.races.iter().map(|race| race.1).collect();
        let keys: HashSet<_> = answers.races.iter().map(|race| key(self.trace, race.0, race.1, false)).collect();
        self.file_answers(engine, level, answers);
        self.analysis.engines.push(EngineReport {
            engine,
            beyond,
            seconds: started.elapsed().as_secs_f64(),
            events_per_second: self.trace.len() as f64 / set_up.as_secs_f64().max(1e-9),
            peak_memory_bytes: peak_memory().max(index.memory() as u64),
            warnings: seconds.len() as u64,
            location_pairs: keys.len() as u64,
            complete,
            reduction: None,
            searches: None,
        });
    }

    fn file_answers(&mut self, engine: Engine, level: Level, answers: Answers) {
        let Answers { races, deadlocks, undecided, left, .. } = answers;
        for (what, reason, count) in left {
            self.analysis.leave(engine, what, &reason, count);
        }
        let mut claims = Vec::new();
        let mut verdicts = Vec::new();
        for (first, second, schedule) in races {
            claims.push(Claim { pair: LocationPair { first, second, count: 1 }, proposal: Ok(schedule) });
            verdicts.push(Some(Ok(())));
        }
        for (first, second, reason) in undecided {
            self.analysis.leave(engine, Subject::LocationPair, &reason, 1);
            claims.push(Claim { pair: LocationPair { first, second, count: 1 }, proposal: Err(reason.clone()) });
            verdicts.push(Some(Err(reason)));
        }
        self.file(engine, level, claims, verdicts);
        for (pending, witness) in deadlocks {
            self.analysis.deadlocks.push(Deadlock { engine, level, pending, witness });
        }
    }

    /// There was no time left for this engine.
    pub(crate) fn not_begun(&mut self, engine: Engine, beyond: Option<Engine>) {
        self.analysis.did_not_run(engine, beyond, self.trace.len(), "not looked at in time");
    }

    #[allow(clippy::too_many_arguments)]
    fn ask(
        &self,
        engine: Engine,
        beyond: Option<Engine>,
        level: Level,
        lowered: &Lowered,
        index: &Index,
        pairs: &Pairs,
        cycles: &Cycles,
        checker: &Checker,
        proved: &HashSet<(u64, u64)>,
    ) -> Answers {
        let (progress, options) = (self.progress, self.options);
        let tasks = pairs.tasks.len() + cycles.tasks();
        progress.phase(&format!("{}: deciding", engine.name()), tasks as u64);
        let stop = Arc::new(AtomicBool::new(false));
        let limits = Limits {
            stop: Some(Arc::new({
                let stop = stop.clone();
                move || stop.load(Ordering::Relaxed)
            })),
            backend: options.solver,
            ..Limits::default()
        };
        let work = Asking {
            trace: self.trace,
            lowered,
            level,
            pairs,
            cycles,
            checker,
            proved,
            all_pairs: options.all_pairs,
            window: options.window,
            most: options.max_races,
            shares_time: options.budget.is_some() || options.engines.contains(&Engine::Auto),
            found: AtomicUsize::new(0),
            steps: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            stop: &stop,
            deadlocks: Mutex::new(Known::default()),
            answers: Mutex::new(Answers { complete: true, ..Answers::default() }),
        };
        let done = AtomicUsize::new(0);
        let worker = || {
            let mut queries = Queries::new(index, limits.clone());
            while let Some(number) = work.next_task(tasks) {
                work.task(&mut queries, number);
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        let rescue = || {
            let answers = work.answers.lock().expect("no worker panics").clone();
            let open = tasks.saturating_sub(done.load(Ordering::Relaxed));
            self.hand_on_early(engine, beyond, |early| {
                early.file_answers(engine, level, answers);
                early.analysis.leave(engine, Subject::LocationPair, NOT_ASKED, open);
            });
        };
        let watch = Watch { stop: &stop, done: &done, grace: Duration::ZERO, rescue: Some(&rescue) };
        self.watched(&watch, || on_all_cores(self.options.jobs, tasks, worker));
        work.answers.into_inner().expect("no worker panics")
    }
}

/// Deadlocks that were proved, by what makes two of them the same finding.
#[derive(Default)]
struct Known {
    locks: HashSet<Vec<LockId>>,
    locations: HashSet<Vec<LocId>>,
}

/// What the workers share.
struct Asking<'a, 'i, 't> {
    trace: &'a Trace,
    /// The trace to which the events of pairs and cycles belong.
    lowered: &'a Lowered<'a>,
    level: Level,
    pairs: &'a Pairs<'i, 't>,
    cycles: &'a Cycles<'i, 't>,
    checker: &'a Checker<'a>,
    proved: &'a HashSet<(u64, u64)>,
    all_pairs: bool,
    window: Option<usize>,
    /// At most so many races.
    most: usize,
    /// The time has to be shared out: there is a budget, or nobody asked for every answer.
    shares_time: bool,
    found: AtomicUsize,
    /// What all searches have taken.
    steps: AtomicU64,
    next: AtomicUsize,
    stop: &'a AtomicBool,
    deadlocks: Mutex<Known>,
    answers: Mutex<Answers>,
}

impl Asking<'_, '_, '_> {
    fn next_task(&self, count: usize) -> Option<usize> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < count).then_some(number)
    }

    /// How many steps the searches of a task may take.
    fn patience(&self) -> u64 {
        match self.steps.load(Ordering::Relaxed) {
            _ if !self.shares_time => u64::MAX,
            steps if steps < MANY_SEARCH_STEPS => MOST_SEARCH_STEPS,
            _ => FEWER_SEARCH_STEPS,
        }
    }

    /// Asks with what is left of the patience for a task.
    fn ask(&self, queries: &mut Queries, events: &[EventId], patience: &mut u64) -> (Answer, Stage) {
        queries.set_steps(*patience);
        let answer = queries.ask(events);
        *patience = patience.saturating_sub(queries.effort.steps);
        self.steps.fetch_add(queries.effort.steps, Ordering::Relaxed);
        answer
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.found.load(Ordering::Relaxed) >= self.most
    }

    fn file(&self, add: impl FnOnce(&mut Answers)) {
        add(&mut self.answers.lock().expect("no worker panics"));
    }

    /// Something is left open.
    fn leave(&self, what: Subject, reason: &str, count: usize) {
        self.file(|answers| {
            answers.complete = false;
            match answers.left.iter_mut().find(|left| left.0 == what && left.1 == reason) {
                Some(left) => left.2 += count,
                None => answers.left.push((what, reason.to_owned(), count)),
            }
        });
    }

    /// Pairs first, then cycles.
    fn task(&self, queries: &mut Queries, number: usize) {
        let reason = if self.stop.load(Ordering::Relaxed) { NOT_ASKED } else { TOO_MANY };
        match number.checked_sub(self.pairs.tasks.len()) {
            None if self.is_over() => {
                let task = &self.pairs.tasks[number];
                if self.all_pairs || task.key().is_none_or(|key| !self.proved.contains(&key)) {
                    self.leave(Subject::LocationPair, reason, 1);
                }
            }
            None => self.pair(queries, number),
            Some(number) if self.is_over() => self.leave(Subject::Acquire, reason, self.cycles.size(number)),
            Some(number) => self.cycles(queries, number),
        }
    }

    /// Asks about the pairs of a task until one is proved.
    fn pair(&self, queries: &mut Queries, number: usize) {
        let task = &self.pairs.tasks[number];
        let every = self.all_pairs || task.is_about_events();
        let mut first_open = None;
        let (mut refuted, mut patience) = (0, self.patience());
        let stopped = Cell::new(false);
        let stop = || {
            stopped.set(self.is_over());
            stopped.get()
        };
        for asked in self.pairs.of_task(task, &stop) {
            // What code that was not observed may do is no finding.
            let (Some(first), Some(second)) = (self.lowered.original(asked.0), self.lowered.original(asked.1)) else {
                continue;
            };
            // A window is one of the trace as it was given.
            if self.window.is_some_and(|window| first.index() / window != second.index() / window) {
                continue;
            }
            if refuted == MOST_REFUTED && self.shares_time && !every {
                first_open.get_or_insert((first, second, format!("{refuted} pairs of events before it were refuted")));
                break;
            }
            if self.is_over() {
                first_open.get_or_insert((first, second, NOT_ASKED.to_owned()));
                break;
            }
            if self.proved.contains(&key(self.trace, first, second, self.all_pairs)) {
                match every {
                    true => continue,
                    false => return,
                }
            }
            if let Some((base, end)) = self.pairs.window_of(asked.0) {
                queries.set_window(base, end);
            }
            let (answer, stage) = self.ask(queries, &[asked.0, asked.1], &mut patience);
            match answer {
                Answer::Possible(schedule) => {
                    let schedule = self.lowered.schedule(schedule);
                    match self.checker.check_race(schedule.iter(self.trace), first, second, self.level) {
                        Ok(()) => {
                            self.found.fetch_add(1, Ordering::Relaxed);
                            self.file(|answers| answers.races.push((first, second, schedule)));
                            if !every {
                                return;
                            }
                        }
                        Err(why) => {
                            let why = format!("the schedule found was refused: {why}");
                            first_open.get_or_insert((first, second, why));
                        }
                    }
                }
                Answer::Impossible => refuted += (stage >= Stage::Local) as usize,
                Answer::Unknown(Undecided::Stopped) => {
                    first_open.get_or_insert((first, second, NOT_DECIDED.to_owned()));
                }
                Answer::Unknown(Undecided::TooHard) => {
                    first_open.get_or_insert((first, second, TOO_HARD.to_owned()));
                    if !every {
                        break;
                    }
                }
                Answer::Unknown(why) => {
                    first_open.get_or_insert((first, second, format!("not decided: {why:?}")));
                }
            }
        }
        if stopped.get() && first_open.is_none() {
            self.leave(Subject::LocationPair, NOT_ASKED, 1);
        }
        if let Some(open) = first_open {
            self.file(|answers| {
                answers.complete = false;
                answers.undecided.push(open);
            });
        }
    }

    /// Asks about cycles of acquires, except those whose locks or locations are those of a deadlock that was proved
    /// already.
    fn cycles(&self, queries: &mut Queries, number: usize) {
        let most_steps = if self.shares_time { MOST_STEPS } else { usize::MAX };
        let mut patience = self.patience();
        let cut_short = self.cycles.visit(number, most_steps, &|| self.is_over(), &mut |pending| {
            if self.is_over() {
                return false;
            }
            if let Some((base, end)) = self.pairs.window_of(pending[0]) {
                if pending.iter().any(|&event| event < base || event >= end) {
                    return true;
                }
                queries.set_window(base, end);
            }
            if !self.all_pairs && self.is_known(pending) {
                return true;
            }
            match self.ask(queries, pending, &mut patience).0 {
                Answer::Possible(schedule) => {
                    let schedule = self.lowered.schedule(schedule);
                    let originals = self.originals(pending);
                    match self.checker.check_deadlock(schedule.iter(self.trace), &originals, self.level) {
                        Ok(()) => self.file_deadlock(pending, schedule),
                        Err(why) => self.leave(Subject::Cycle, &format!("the schedule found was refused: {why}"), 1),
                    }
                }
                Answer::Impossible => {}
                Answer::Unknown(Undecided::Stopped) => self.leave(Subject::Cycle, NOT_DECIDED, 1),
                Answer::Unknown(Undecided::TooHard) => self.leave(Subject::Cycle, TOO_HARD, 1),
                Answer::Unknown(why) => self.leave(Subject::Cycle, &format!("not decided: {why:?}"), 1),
            }
            true
        });
        if cut_short > 0 {
            let reason = if self.is_over() { NOT_ASKED } else { "in too many cycles" };
            self.leave(Subject::Acquire, reason, cut_short);
        }
    }

    /// The locks of a cycle, and its locations where all are known.
    fn keys(&self, pending: &[EventId]) -> (Vec<LockId>, Option<Vec<LocId>>) {
        let originals = self.originals(pending);
        let mut locations: Vec<LocId> = originals.iter().map(|e| self.trace.events.location(e.index())).collect();
        locations.sort_unstable();
        (self.cycles.locks(pending), (!locations.contains(&LocId::NONE)).then_some(locations))
    }

    fn is_known(&self, pending: &[EventId]) -> bool {
        let (locks, locations) = self.keys(pending);
        let deadlocks = self.deadlocks.lock().expect("no worker panics");
        deadlocks.locks.contains(&locks) || locations.is_some_and(|key| deadlocks.locations.contains(&key))
    }

    /// The events of a cycle in the original trace: acquires are never added.
    fn originals(&self, pending: &[EventId]) -> Vec<EventId> {
        pending.iter().filter_map(|&event| self.lowered.original(event)).collect()
    }

    /// Another worker may have been quicker.
    fn file_deadlock(&self, pending: &[EventId], schedule: Schedule) {
        let (locks, locations) = self.keys(pending);
        let mut known = self.deadlocks.lock().expect("no worker panics");
        let new = known.locks.insert(locks) & locations.is_none_or(|key| known.locations.insert(key));
        drop(known);
        if new || self.all_pairs {
            self.file(|answers| answers.deadlocks.push((self.originals(pending), schedule)));
        }
    }
}
