//! The desk between an engine and the checker.
//!
//! An engine puts its races and deadlocks here ([`Host`]). The checker judges each, and what it accepts is filed at once:
//! if the engine is given up later, that much is safe.

use crate::analysis::{Analysis, Candidate, Deadlock, NOT_CHECKED, Race};
use crate::held::held_locks;
use crate::memory::Minded;
use crate::options::Options;
use crate::so_far::Publish;
use crate::time::Time;
use snag_checker::Checker;
use snag_engines::watch::Watch;
use snag_engines::{DeadlockClaim, EngineRef, Host, LocationPair, RaceClaim, Subject};
use snag_model::{Cells, EventId, Level, LocId, LockId, RaceKind, Schedule, Trace};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
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
    filed: Mutex<Filed>,
    /// What was found was handed on early.
    handed_on: AtomicBool,
}

#[derive(Default)]
struct Filed {
    analysis: Analysis,
    /// Something was left open.
    open: bool,
    /// Deadlocks, by what makes two of them the same finding.
    locks: HashSet<Vec<LockId>>,
    locations: HashSet<Vec<LocId>>,
}

/// The checker, made when the first proof is needed, and for how many events.
pub(crate) struct Checkers<'a> {
    trace: &'a Trace,
    cells: &'a Cells,
    made: Mutex<Option<(EventId, Arc<Checker<'a>>)>>,
}

impl<'a> Checkers<'a> {
    pub fn new(trace: &'a Trace, cells: &'a Cells) -> Checkers<'a> {
        Checkers { trace, cells, made: Mutex::default() }
    }

    /// One that knows all events before `end`.
    pub fn up_to(&self, end: EventId) -> Arc<Checker<'a>> {
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

    fn of_all(&self) -> Arc<Checker<'a>> {
        self.up_to(EventId::new(self.trace.len()))
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
        let (filed, handed_on) = (Mutex::default(), AtomicBool::new(false));
        Filing { trace, cells, options, time, engine, beyond, publish, checkers, filed, handed_on }
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

    /// Files a race that the checker has accepted.
    pub fn file(&self, pair: &LocationPair, kind: RaceKind, level: Level, witness: Schedule) {
        self.file_race(pair, kind, level, witness, Vec::new(), Vec::new());
    }

    fn file_race(
        &self,
        pair: &LocationPair,
        kind: RaceKind,
        level: Level,
        witness: Schedule,
        diverging: Vec<EventId>,
        reads: Vec<(EventId, i64)>,
    ) {
        let LocationPair { first, second, count } = *pair;
        let (locks_first, locks_second) = (Vec::new(), Vec::new());
        let (engine, witness) = (self.engine, compact(witness, self.trace));
        let race =
            Race { engine, kind, level, first, second, locks_first, locks_second, witness, diverging, reads, count };
        self.lock().analysis.races.push(race);
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
        let mut analysis = std::mem::take(&mut self.lock().analysis);
        put_in_order(self.trace, &mut analysis);
        analysis
    }

    /// The locks that a deadlock is about, and its locations where all are known.
    fn keys(&self, pending: &[EventId]) -> (Vec<LockId>, Option<Vec<LocId>>) {
        let lock = |&event: &EventId| self.trace.action(event).acquired().map(|(lock, _)| lock);
        let mut locks: Vec<LockId> = pending.iter().filter_map(lock).collect();
        locks.sort_unstable();
        let mut locations: Vec<LocId> = pending.iter().map(|event| self.trace.events.location(event.index())).collect();
        locations.sort_unstable();
        (locks, (!locations.contains(&LocId::NONE)).then_some(locations))
    }

    /// Hands on what an engine has found that does not look at the time, and how many pairs it has not come to.
    fn hand_on_early(&self, reason: &str, open: usize) {
        let has_room = self.time.memory.is_none_or(|memory: &Minded| memory.has_room_for(1));
        if !has_room || self.handed_on.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut analysis = self.lock().analysis.clone();
        put_in_order(self.trace, &mut analysis);
        analysis.leave(self.engine, Subject::LocationPair, reason, open);
        analysis.unfinished(self.engine, self.beyond);
        self.publish.early(analysis);
    }
}

fn put_in_order(trace: &Trace, analysis: &mut Analysis) {
    let Analysis { races, candidates, .. } = analysis;
    races.sort_by_key(|race| (race.second, race.first));
    candidates.sort_by_key(|candidate| (candidate.second, candidate.first));
    let events = races.iter().map(|race| [race.first, race.second]);
    let events = events.chain(candidates.iter().map(|candidate| [candidate.first, candidate.second]));
    let held = held_locks(trace, events.flatten().collect());
    let locks = |event: EventId| held.get(&event).cloned().unwrap_or_default();
    for race in races {
        (race.locks_first, race.locks_second) = (locks(race.first), locks(race.second));
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
        let checker = self.checkers.of_all();
        let reads = match level {
            Level::Symbolic => {
                let reads = checker.reads_of(schedule.iter(self.trace), &diverging).map_err(refused)?;
                let events = schedule.iter(self.trace);
                checker.check_race_with_values(events, &diverging, &reads, first, second).map_err(refused)?;
                reads
            }
            level => {
                checker.check_race(schedule.iter(self.trace), first, second, level).map_err(refused)?;
                Vec::new()
            }
        };
        let pair = LocationPair { first, second, count: 1 };
        self.file_race(&pair, RaceKind::Predictable, level, schedule, diverging, reads);
        Ok(())
    }

    fn filed(&self) -> Vec<(EventId, EventId)> {
        self.lock().analysis.races.iter().map(|race| (race.first, race.second)).collect()
    }

    fn deadlock(&self, claim: DeadlockClaim) -> Result<(), String> {
        let DeadlockClaim { pending, schedule, level } = claim;
        let checker = self.checkers.of_all();
        checker.check_deadlock(schedule.iter(self.trace), &pending, level).map_err(refused)?;
        let (locks, locations) = self.keys(&pending);
        let mut filed = self.lock();
        // Another worker may have been quicker.
        let new = filed.locks.insert(locks) & locations.is_none_or(|key| filed.locations.insert(key));
        if new || self.options.settings.all_pairs {
            let witness = compact(schedule, self.trace);
            filed.analysis.deadlocks.push(Deadlock { engine: self.engine, level, pending, witness });
        }
        Ok(())
    }

    fn knows_deadlock(&self, pending: &[EventId]) -> bool {
        let (locks, locations) = self.keys(pending);
        let filed = self.lock();
        filed.locks.contains(&locks) || locations.is_some_and(|key| filed.locations.contains(&key))
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
