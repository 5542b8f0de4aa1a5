//! The desk between an engine and the checker.
//!
//! An engine puts its races and deadlocks here ([`Host`]). The checker judges each, and what it accepts is filed at once:
//! if the engine is given up later, that much is safe.

use crate::analysis::{Analysis, Candidate, Deadlock, Fault, NOT_CHECKED, Race};
use crate::held::held_locks;
use crate::memory::Minded;
use crate::options::Options;
use crate::so_far::Publish;
use crate::time::Time;
use snag_checker::{Checker, Series};
use snag_engines::watch::Watch;
use snag_engines::{DeadlockClaim, EngineRef, FaultClaim, Host, LocationPair, RaceClaim, Subject};
use snag_model::{Cells, EventId, Level, LocId, LockId, RaceKind, Schedule, Trace};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// Who works is done so long after the time at which it is to stop, or does not look at the time.
const DONE: Duration = Duration::from_millis(60);

/// What one engine has found so far.
pub(crate) struct Filing<'a, 't> {
    pub trace: &'a Trace,
    pub cells: &'a Cells,
    pub options: &'a Options,
    pub time: &'a Time<'a>,
    pub engine: EngineRef,
    pub beyond: Option<EngineRef>,
    publish: &'a dyn Publish,
    checkers: &'a Checkers<'t>,
    /// The trace as it was recorded: another one if the engine looks at it without the notifies that ended waits.
    recorded: &'a Checkers<'t>,
    filed: Mutex<Filed>,
    /// Judges of the proofs that engines put forward one by one: as many as were needed at the same time.
    judges: Mutex<Vec<Series<'a>>>,
    /// What was found was handed on early.
    handed_on: AtomicBool,
}

#[derive(Default)]
struct Filed {
    analysis: Analysis,
    /// Something was left open.
    open: bool,
    /// Deadlocks that were filed.
    deadlocks: HashSet<Cycle>,
    /// How many sets of acquires an engine came across for each.
    met: HashMap<Cycle, u64>,
}

/// What makes two deadlocks the same finding.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Cycle {
    /// Where the acquires are.
    Locations(Vec<LocId>),
    /// What they are about, if it is not known where all of them are.
    Locks(Vec<LockId>),
}

/// The checker, made when the first proof is needed, and for how many events.
pub(crate) struct Checkers<'a> {
    pub trace: &'a Trace,
    pub cells: &'a Cells,
    made: Mutex<Option<(EventId, Arc<Checker<'a>>)>>,
    /// One that knows all events.
    whole: OnceLock<Arc<Checker<'a>>>,
}

impl<'a> Checkers<'a> {
    pub fn new(trace: &'a Trace, cells: &'a Cells) -> Checkers<'a> {
        Checkers { trace, cells, made: Mutex::default(), whole: OnceLock::new() }
    }

    /// One that knows all events before `end`.
    pub fn up_to(&self, end: EventId) -> Arc<Checker<'a>> {
        if let Some(whole) = self.whole.get() {
            return whole.clone();
        }
        let mut made = self.made.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match &*made {
            Some((known, checker)) if *known >= end => checker.clone(),
            _ => {
                let checker = Arc::new(Checker::up_to(self.trace, self.cells, end));
                *made = Some((end, checker.clone()));
                checker
            }
        }
    }

    pub fn whole(&self) -> &Checker<'a> {
        self.whole.get_or_init(|| {
            let whole = self.up_to(EventId::new(self.trace.len()));
            *self.made.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
            whole
        })
    }
}

impl<'a, 't> Filing<'a, 't> {
    pub fn new(
        checkers: &'a Checkers<'t>,
        options: &'a Options,
        time: &'a Time<'a>,
        publish: &'a dyn Publish,
        engine: EngineRef,
        beyond: Option<EngineRef>,
    ) -> Filing<'a, 't> {
        let (trace, cells) = (checkers.trace, checkers.cells);
        let (filed, judges, handed_on) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        let recorded = checkers;
        Filing { trace, cells, options, time, engine, beyond, publish, checkers, recorded, filed, judges, handed_on }
    }

    /// The same for an engine that looks at a trace without the notifies that ended waits.
    pub fn with_recorded(self, recorded: &'a Checkers<'t>) -> Filing<'a, 't> {
        Filing { recorded, ..self }
    }

    /// Which waits end for no reason in a schedule.
    fn spurious(&self, schedule: &Schedule) -> Vec<EventId> {
        match std::ptr::eq(self.recorded, self.checkers) {
            true => Vec::new(),
            false => self.recorded.trace.spurious_wakes(schedule.iter(self.recorded.trace)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Filed> {
        self.filed.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A checker that knows all events before `end`.
    pub fn checker(&self, end: EventId) -> Arc<Checker<'t>> {
        self.checkers.up_to(end)
    }

    /// The level at which schedules are judged that the engine has not said a level for.
    pub fn level(&self) -> Level {
        self.options.settings.level.filter(|&level| level != Level::Symbolic).unwrap_or(Level::Writer)
    }

    /// Whether something was left open.
    pub fn is_open(&self) -> bool {
        self.lock().open
    }

    /// Has the judge of this level decide who has the shortest way to a schedule.
    fn judged<R>(&self, level: Level, schedule: &Schedule, judge: impl FnOnce(&mut Series) -> R) -> R {
        let judges = || self.judges.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let free = {
            let mut judges = judges();
            let of_level = judges.iter().enumerate().filter(|(_, series)| series.level() == level);
            let nearest = of_level.min_by_key(|(_, series)| series.way_to(schedule)).map(|(at, _)| at);
            nearest.map(|at| judges.swap_remove(at))
        };
        let mut series = free.unwrap_or_else(|| self.recorded.whole().series(level));
        let verdict = judge(&mut series);
        judges().push(series);
        verdict
    }

    /// Files a race that the checker has accepted.
    pub fn file(&self, pair: &LocationPair, kind: RaceKind, level: Level, witness: Schedule) {
        self.lock().analysis.races.push(self.race_of(pair, kind, level, witness));
    }

    fn race_of(&self, pair: &LocationPair, kind: RaceKind, level: Level, witness: Schedule) -> Race {
        let LocationPair { first, second, count } = *pair;
        Race {
            engine: self.engine,
            kind,
            level,
            first,
            second,
            locks_first: Vec::new(),
            locks_second: Vec::new(),
            witness: compact(witness, self.trace),
            spurious: Vec::new(),
            diverging: Vec::new(),
            reads: Vec::new(),
            count,
        }
    }

    /// Files a pair that was not proved, if anyone wants to see it.
    pub fn file_unproved(&self, pair: &LocationPair, reason: &str) {
        if !self.options.candidates {
            return;
        }
        let LocationPair { first, second, count } = *pair;
        let (locks_first, locks_second, reason) = (Vec::new(), Vec::new(), reason.to_owned());
        let candidate = Candidate { engine: self.engine, first, second, locks_first, locks_second, count, reason };
        self.lock().analysis.candidates.push(candidate);
    }

    /// All that was found, in order, with the locks that threads hold there.
    pub fn finish(&self) -> Analysis {
        let mut filed = self.lock();
        let analysis = std::mem::take(&mut filed.analysis);
        self.in_order(&filed, analysis)
    }

    /// What was found, in order, with the locks that threads hold there and how often each deadlock was met.
    fn in_order(&self, filed: &Filed, mut analysis: Analysis) -> Analysis {
        if !self.options.settings.all_pairs {
            for deadlock in &mut analysis.deadlocks {
                deadlock.count = filed.met.get(&self.cycle(&deadlock.pending)).copied().unwrap_or(1);
            }
        }
        put_in_order(self.trace, &mut analysis);
        analysis
    }

    /// What makes a deadlock the same as another one.
    fn cycle(&self, pending: &[EventId]) -> Cycle {
        let mut locations: Vec<LocId> = pending.iter().map(|event| self.trace.events.location(event.index())).collect();
        if !locations.contains(&LocId::NONE) {
            locations.sort_unstable();
            return Cycle::Locations(locations);
        }
        let lock = |&event: &EventId| self.trace.action(event).acquired().map(|(lock, _)| lock);
        let mut locks: Vec<LockId> = pending.iter().filter_map(lock).collect();
        locks.sort_unstable();
        Cycle::Locks(locks)
    }

    /// Hands on what an engine has found that does not look at the time, and how many pairs it has not come to.
    fn hand_on_early(&self, reason: &str, open: usize) {
        let has_room = self.time.memory.is_none_or(|memory: &Minded| memory.has_room_for(1));
        if !has_room || self.handed_on.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut analysis = {
            let filed = self.lock();
            self.in_order(&filed, filed.analysis.clone())
        };
        analysis.leave(self.engine, Subject::LocationPair, reason, open);
        analysis.unfinished(self.engine, self.beyond);
        self.publish.early(analysis);
    }
}

fn put_in_order(trace: &Trace, analysis: &mut Analysis) {
    let Analysis { races, deadlocks, candidates, .. } = analysis;
    races.sort_by_key(|race| (race.second, race.first));
    candidates.sort_by_key(|candidate| (candidate.second, candidate.first));
    let events = races.iter().map(|race| [race.first, race.second]);
    let events = events.chain(candidates.iter().map(|candidate| [candidate.first, candidate.second]));
    let pending = deadlocks.iter().flat_map(|deadlock| deadlock.pending.iter().copied());
    let held = held_locks(trace, events.flatten().chain(pending).collect());
    let locks = |event: EventId| held.get(&event).cloned().unwrap_or_default();
    for race in races {
        (race.locks_first, race.locks_second) = (locks(race.first), locks(race.second));
    }
    for deadlock in deadlocks {
        deadlock.held = deadlock.pending.iter().map(|&event| locks(event)).collect();
    }
    for candidate in candidates {
        (candidate.locks_first, candidate.locks_second) = (locks(candidate.first), locks(candidate.second));
    }
}

/// Schedules with so many events one by one are kept as they are.
const SHORT: usize = 64;

/// A schedule in little memory.
fn compact(schedule: Schedule, trace: &Trace) -> Schedule {
    match &schedule {
        Schedule::List(events) | Schedule::Continued { then: events, .. } if events.len() > SHORT => {
            schedule.compact(trace)
        }
        _ => schedule,
    }
}

/// What is said of a schedule that the checker does not accept.
pub(crate) fn refused(why: impl std::fmt::Display) -> String {
    format!("the schedule found was refused: {why}")
}

impl Host for Filing<'_, '_> {
    fn phase(&self, name: &str, total: u64) {
        self.time.progress.phase(name, total);
    }

    fn advance(&self, done: u64) {
        self.time.progress.advance(done);
    }

    fn is_up(&self) -> bool {
        self.time.is_up()
    }

    fn is_over(&self) -> bool {
        self.time.is_over()
    }

    fn glance(&self, watch: &Watch) -> bool {
        let done = watch.done.load(Ordering::Relaxed);
        self.advance(done as u64);
        let up_for = self.time.up_for();
        if up_for.is_some_and(|up_for| up_for > watch.grace + DONE) {
            self.hand_on_early(watch.reason, watch.total.saturating_sub(done));
        }
        up_for.is_some()
    }

    fn shares(&self) -> Option<[Instant; 2]> {
        self.time.shares()
    }

    fn race(&self, claim: RaceClaim) -> Result<(), String> {
        let RaceClaim { first, second, schedule, level, diverging } = claim;
        let spurious = self.spurious(&schedule);
        let reads = match level {
            Level::Symbolic => {
                let checker = self.checkers.whole();
                let reads = checker.reads_of(schedule.iter(self.trace), &diverging).map_err(refused)?;
                let events = schedule.iter(self.trace);
                checker.check_race_with_values(events, &diverging, &reads, first, second).map_err(refused)?;
                reads
            }
            level => {
                let verdict = match spurious.is_empty() {
                    true => self.judged(level, &schedule, |series| series.check_race(&schedule, first, second)),
                    false => {
                        let events = schedule.iter(self.trace);
                        self.recorded.whole().check_race_with_spurious(events, first, second, level, &spurious)
                    }
                };
                verdict.map_err(refused)?;
                Vec::new()
            }
        };
        let pair = LocationPair { first, second, count: 1 };
        let race = self.race_of(&pair, RaceKind::Predictable, level, schedule);
        self.lock().analysis.races.push(Race { spurious, diverging, reads, ..race });
        Ok(())
    }

    fn filed(&self) -> Vec<(EventId, EventId)> {
        self.lock().analysis.races.iter().map(|race| (race.first, race.second)).collect()
    }

    fn deadlock(&self, claim: DeadlockClaim) -> Result<(), String> {
        let DeadlockClaim { pending, schedule, level } = claim;
        let spurious = self.spurious(&schedule);
        let verdict = match spurious.is_empty() {
            true => self.judged(level, &schedule, |series| series.check_deadlock(&schedule, &pending)),
            false => {
                let events = schedule.iter(self.trace);
                self.recorded.whole().check_deadlock_with_spurious(events, &pending, level, &spurious)
            }
        };
        verdict.map_err(refused)?;
        let cycle = self.cycle(&pending);
        let witness = compact(schedule, self.trace);
        let mut filed = self.lock();
        // Another worker may have been quicker.
        if filed.deadlocks.insert(cycle) || self.options.settings.all_pairs {
            let (engine, held) = (self.engine, Vec::new());
            filed.analysis.deadlocks.push(Deadlock { engine, level, pending, held, witness, spurious, count: 1 });
        }
        Ok(())
    }

    fn fault(&self, claim: FaultClaim) -> Result<(), String> {
        let FaultClaim { kind, first, second, count, schedule: witness } = claim;
        let fault = Fault { engine: self.engine, kind, first, second, count, witness };
        let verdict = match fault.witness {
            None => fault.check(self.trace, &self.checker(EventId(second.0 + 1))),
            Some(_) => fault.check(self.trace, self.checkers.whole()),
        };
        verdict.map_err(|why| format!("refused by the checker: {why}"))?;
        self.lock().analysis.faults.push(fault);
        Ok(())
    }

    fn knows_deadlock(&self, pending: &[EventId]) -> bool {
        let cycle = self.cycle(pending);
        self.lock().deadlocks.contains(&cycle)
    }

    fn meets_cycle(&self, pending: &[EventId]) -> bool {
        let cycle = self.cycle(pending);
        let mut filed = self.lock();
        let known = filed.deadlocks.contains(&cycle);
        *filed.met.entry(cycle).or_default() += 1;
        known
    }

    fn leave(&self, what: Subject, reason: &str, count: usize) {
        let mut filed = self.lock();
        filed.open |= count > 0;
        filed.analysis.leave(self.engine, what, reason, count);
    }

    fn undecided(&self, first: EventId, second: EventId, reason: &str) {
        self.leave(Subject::LocationPair, reason, 1);
        self.file_unproved(&LocationPair { first, second, count: 1 }, reason);
    }
}

impl Filing<'_, '_> {
    /// A pair that there was no time for.
    pub fn not_checked(&self, pair: &LocationPair) {
        self.leave(Subject::LocationPair, NOT_CHECKED, 1);
        self.file_unproved(pair, NOT_CHECKED);
    }
}
