//! From engine to finding.
//!
//! Every engine goes the same way: a first pass for its warnings, a second one
//! that names the pairs, a schedule for each pair, and the independent checker,
//! which has the last word. What it refuses, or what there was no time for, is
//! at most a candidate.

use crate::analysis::{Analysis, Candidate, Engine, EngineReport, NOT_CHECKED, Options, Progress, Race, Subject};
use crate::condense::Condensed;
use crate::condense::{Restoring, Whole, condensed, run_condensed};
use crate::held::held_locks;
use crate::memory::{Minded, OUT_OF_MEMORY, for_want_of_memory, least_need, peak_memory};
use crate::so_far::{Ignoring, Publish, SoFar};
use crate::time::{GRACE, Time};
use crate::watch::{Watch, on_all_cores};
use snag_checker::{Checker, Series};
use snag_engines::happens_before::{Found, Limits, LocationPair, Order, Variant, Warnings};
use snag_model::{Cells, EventId, Op, Trace};
use snag_model::{Level, Schedule};
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// What is said of findings beyond `--max-races`.
pub(crate) const TOO_MANY: &str = "beyond --max-races";

/// Runs the engines over a trace and proves what they find.
pub fn analyse(trace: &Trace, options: &Options, progress: &dyn Progress) -> Analysis {
    let so_far = SoFar::default();
    analyse_into(trace, options, progress, &so_far);
    so_far.take(&options.engines)
}

/// The same, with what each engine has found in `so_far` as soon as it is done, or does not end in time.
pub fn analyse_into(trace: &Trace, options: &Options, progress: &dyn Progress, so_far: &SoFar) {
    let memory = Minded::new(progress, options.memory);
    let time = Time::minding(&memory, options.budget.map(|budget| Instant::now() + budget));
    if !options.ignore_missing || !trace.events.ops().contains(&Op::MethodBegin) {
        return run(trace, options, &time, so_far);
    }
    let part = |about_missing: bool| {
        let engines = options.engines.iter().copied().filter(|engine| engine.is_about_missing() == about_missing);
        Options { engines: engines.collect(), ..options.clone() }
    };
    // To show what a relation reports, CP and WCP look at all their pairs, as in the papers.
    let others = Options { all: true, ..part(false) };
    run(&trace.without_missing(), &others, &time, &Ignoring(so_far));
    run(trace, &part(true), &time, so_far);
}

/// What takes one look at each event comes first: what it finds is safe before anything dear is prepared. The others look at
/// the trace as it is, or at what is left of it if that is much less.
fn run(trace: &Trace, options: &Options, time: &Time, publish: &dyn Publish) {
    let (quick, others): (Vec<Engine>, Vec<Engine>) =
        in_parts(&options.engines).into_iter().partition(|engine| engine.is_quick());
    let whole = Whole::new(trace);
    let mut done = Done::default();
    if !quick.is_empty() {
        let mut work = Work::new(trace, whole.cells(), options, time, publish, Done::default());
        work.run(&quick);
        done = work.done;
    }
    if others.is_empty() {
        return;
    }
    match condensed(trace, options, time) {
        Some(condensed) => {
            let done = done.in_condensed(&condensed);
            let whole = |_: &Analysis| Some(&whole);
            let restoring = Restoring { condensed: &condensed, whole: &whole, options, time, publish };
            run_condensed(&restoring, &Cells::of(&condensed.trace), &others, time, done);
        }
        None => Work::new(trace, whole.cells(), options, time, publish, done).run(&others),
    }
}

/// The engines with `auto` as what it consists of, each one once.
pub(crate) fn in_parts(asked: &[Engine]) -> Vec<Engine> {
    let mut engines: Vec<Engine> = Vec::new();
    for engine in asked {
        // What is quick first; then all that is left.
        let parts = if *engine == Engine::Auto { &[Engine::Shb, Engine::Auto] } else { std::slice::from_ref(engine) };
        engines.extend(parts.iter().filter(|part| !engines.contains(part)).copied().collect::<Vec<_>>());
    }
    engines
}

/// One analysis on its way.
pub(crate) struct Work<'a> {
    pub trace: &'a Trace,
    pub cells: &'a Cells,
    pub options: &'a Options,
    pub time: &'a Time<'a>,
    pub progress: &'a dyn Progress,
    /// Made when the first proof is needed, and for which events.
    checker: Option<(EventId, Checker<'a>)>,
    publish: &'a dyn Publish,
    /// What the current engine has found.
    pub analysis: Analysis,
    pub done: Done,
}

/// What engines before the current one have done.
#[derive(Clone, Default)]
pub(crate) struct Done {
    pub engines: Vec<Engine>,
    /// Who has proved which pairs.
    pub proved: Vec<(Engine, EventId, EventId)>,
}

impl Done {
    /// The same by the numbers that events have in a condensed trace: what can race is left in it.
    fn in_condensed(self, condensed: &Condensed) -> Done {
        let here = |event: EventId| condensed.here(event);
        let pairs = self.proved.into_iter();
        let proved = pairs.filter_map(|(engine, first, second)| Some((engine, here(first)?, here(second)?)));
        Done { engines: self.engines, proved: proved.collect() }
    }
}

/// A pair on its way to become a finding.
#[derive(Clone)]
pub(crate) struct Claim {
    pub pair: LocationPair,
    /// A schedule to try, or why there is none.
    pub proposal: Result<Schedule, String>,
}

impl Claim {
    /// Behind all events that matter: a schedule may go beyond the later event of its pair.
    fn end(&self) -> EventId {
        let last = EventId(self.pair.second.0 + 1);
        self.proposal.as_ref().map_or(last, |schedule| last.max(end_of(schedule)))
    }
}

/// Behind all events of a schedule.
pub(crate) fn end_of(schedule: &Schedule) -> EventId {
    let behind = |events: &[EventId]| events.iter().max().map_or(EventId(0), |event| EventId(event.0 + 1));
    match schedule {
        Schedule::Prefixes(ends) => ends.iter().copied().max().unwrap_or(EventId(0)),
        Schedule::List(events) => behind(events),
        Schedule::Continued { as_observed, then } => behind(then).max(*as_observed),
    }
}

impl<'a> Work<'a> {
    pub fn new(
        trace: &'a Trace,
        cells: &'a Cells,
        options: &'a Options,
        time: &'a Time<'a>,
        publish: &'a dyn Publish,
        done: Done,
    ) -> Work<'a> {
        Work {
            trace,
            cells,
            options,
            time,
            progress: time.progress,
            checker: None,
            publish,
            analysis: Analysis::default(),
            done,
        }
    }

    /// Runs engines one after the other and hands on what each has found.
    pub fn run(&mut self, engines: &[Engine]) {
        for &engine in engines {
            self.within_memory(engine);
            self.hand_on();
        }
    }

    /// Hands on what was found since this was last done; says of what is left open whether memory ran out.
    fn hand_on(&mut self) {
        let mut part = std::mem::take(&mut self.analysis);
        if self.time.memory.is_some_and(Minded::was_short) {
            part.left.iter_mut().for_each(|left| left.reason = for_want_of_memory(&left.reason));
            part.candidates.iter_mut().for_each(|candidate| candidate.reason = for_want_of_memory(&candidate.reason));
        }
        self.done.engines.extend(part.engines.iter().map(|report| report.engine));
        self.done.proved.extend(part.races.iter().map(|race| (race.engine, race.first, race.second)));
        self.publish.done(part);
    }

    /// Hands on what an engine has found that may not be done in time. `add` adds what is not in the analysis yet.
    pub fn hand_on_early(&self, engine: Engine, beyond: Option<Engine>, add: impl FnOnce(&mut Work<'a>)) {
        if self.time.memory.is_some_and(|memory| !memory.has_room_for(1)) {
            return;
        }
        let Work { trace, cells, options, time, publish, .. } = *self;
        let mut early = Work::new(trace, cells, options, time, publish, Done::default());
        early.analysis = self.analysis.clone();
        add(&mut early);
        early.analysis.engines.push(EngineReport::unfinished(engine, beyond));
        publish.early(early.analysis);
    }

    /// Runs an engine if there is the memory that it needs at the least.
    fn within_memory(&mut self, engine: Engine) {
        let Some(memory) = self.time.memory else { return self.engine(engine) };
        if !memory.has_room_for(least_need(engine, self.trace, self.cells)) {
            let (engine, beyond) =
                if engine == Engine::Auto { (Engine::Mc, Some(Engine::Shb)) } else { (engine, None) };
            return self.analysis.did_not_run(engine, beyond, self.trace.len(), OUT_OF_MEMORY);
        }
        self.engine(engine);
    }

    fn engine(&mut self, engine: Engine) {
        let started = Instant::now();
        let order = match engine {
            Engine::Hb | Engine::HbVc => Order::Hb,
            Engine::Fhb => Order::Fhb,
            Engine::Shb | Engine::ShbVc => Order::Shb,
            Engine::Wcp | Engine::Cp => return self.causal(engine, started),
            Engine::Mc | Engine::Sb | Engine::Rdit => return self.maximal(engine, None, &HashSet::new()),
            Engine::Recipe => return self.recipe(),
            Engine::Auto => return self.rest(),
            Engine::Lockset => return self.lockset(started),
            Engine::Tlh1 | Engine::Tlh2 => return self.history(engine, started),
        };
        let variant = match engine {
            Engine::HbVc | Engine::ShbVc => Variant::Vectors,
            _ => Variant::Epochs,
        };
        let (warnings, mut found) = self.find(engine, order, variant);
        let first_pass = started.elapsed();
        let location_pairs = self.location_pairs(&found);
        let mut complete = found.complete;
        let unread = self.trace.len().saturating_sub(warnings.done);
        self.analysis.leave(engine, Subject::Event, "not looked at in time", unread);
        if self.options.prove && !found.pairs.is_empty() {
            // The earliest ones, which have the shortest schedules.
            let most = self.options.max_races;
            complete &= found.pairs.len() <= most;
            let more = found.pairs.len().saturating_sub(most);
            self.analysis.leave(engine, Subject::LocationPair, TOO_MANY, more);
            found.pairs.sort_by_key(|pair| (pair.second, pair.first));
            found.pairs.truncate(most);
            let claims = match order {
                Order::Hb => self.claims_by_shb(
                    engine,
                    found,
                    "no schedule that keeps happens-before and what each read saw shows it",
                ),
                _ => {
                    self.take_schedules(engine, &mut found);
                    found.pairs.iter().map(|pair| self.claim(&found, pair)).collect()
                }
            };
            complete &= self.prove(engine, claims);
        }
        self.analysis.engines.push(EngineReport {
            engine,
            beyond: None,
            seconds: started.elapsed().as_secs_f64(),
            events_per_second: warnings.done as f64 / first_pass.as_secs_f64().max(1e-9),
            peak_memory_bytes: peak_memory().max(warnings.memory as u64),
            warnings: warnings.events.len() as u64,
            location_pairs,
            complete,
            reduction: None,
            searches: None,
        });
    }

    /// What SHB has left open, by the maximal engine; and what that has, by Recipe.
    fn rest(&mut self) {
        let has_run = |work: &Work, engine: Engine| work.done.engines.contains(&engine);
        if has_run(self, Engine::Recipe) {
            return;
        }
        if !has_run(self, Engine::Mc) {
            self.maximal(Engine::Mc, Some(Engine::Shb), &self.proved_by(&[Engine::Shb]));
        }
        if self.is_for_recipe() {
            // What was found is not to depend on whether there is time for more.
            self.hand_on();
            self.relaxed(Some(Engine::Mc), &self.proved_by(&[Engine::Shb, Engine::Mc]));
        }
    }

    /// The warnings and pairs of an order.
    fn find(&self, engine: Engine, order: Order, variant: Variant) -> (Warnings, Found) {
        let limits = Limits { all_pairs: self.options.all_pairs, ..Limits::default() };
        let window = self.options.window;
        let shares = self.time.shares();
        let used_up = |share: usize| shares.is_some_and(|shares| Instant::now() >= shares[share]);
        let mut stopped = false;
        let mut tick = |done: usize| {
            self.progress.advance(done as u64);
            stopped |= self.time.is_up() || used_up(0);
            !stopped
        };
        // In what is left of the time after an interrupt, what was found is named, too.
        let mut name = |_: usize| !self.time.is_over() && !used_up(1);
        self.progress.phase(&format!("{}: looking for races", engine.name()), self.trace.len() as u64);
        match variant {
            Variant::Epochs => {
                snag_engines::happens_before::find(self.trace, self.cells, order, window, limits, &mut tick, &mut name)
            }
            Variant::Vectors => {
                let warnings =
                    snag_engines::happens_before::warnings(self.trace, self.cells, order, variant, window, &mut tick);
                let found = snag_engines::happens_before::pairs(
                    self.trace, self.cells, order, &warnings, window, limits, &mut name,
                );
                (warnings, found)
            }
        }
    }

    fn take_schedules(&self, engine: Engine, found: &mut Found) {
        self.progress.phase(&format!("{}: finding schedules", engine.name()), self.trace.len() as u64);
        snag_engines::happens_before::take_schedules(self.trace, self.cells, found, &mut |done| {
            self.progress.advance(done as u64);
            !self.time.is_over()
        });
    }

    pub fn location_pairs(&self, found: &Found) -> u64 {
        if !self.options.all_pairs {
            return found.pairs.len() as u64;
        }
        found.pairs.iter().map(|pair| Found::key(self.trace, pair)).collect::<HashSet<_>>().len() as u64
    }

    /// The clocks of both events make the schedule.
    fn claim(&self, found: &Found, pair: &LocationPair) -> Claim {
        let proposal = match found.schedule(self.trace, pair) {
            Some(ends) => Ok(Schedule::Prefixes(ends)),
            None => Err("stopped before a schedule was found".to_owned()),
        };
        Claim { pair: pair.clone(), proposal }
    }

    /// A race is schedulable under HB iff SHB has it too; a pair of locations
    /// may have it in other events than those that were seen first.
    pub fn claims_by_shb(&self, engine: Engine, found: Found, otherwise: &str) -> Vec<Claim> {
        let key = |pair: &LocationPair| match self.options.all_pairs {
            true => (pair.first.0 as u64, pair.second.0 as u64),
            false => Found::key(self.trace, pair),
        };
        let (_, mut provable) = self.find(engine, Order::Shb, Variant::Epochs);
        let reason = match provable.complete {
            true => otherwise,
            false => NOT_CHECKED,
        };
        let wanted: HashSet<_> = found.pairs.iter().map(key).collect();
        provable.pairs.retain(|pair| wanted.contains(&key(pair)));
        self.take_schedules(engine, &mut provable);
        let by_key: HashMap<_, _> = provable.pairs.iter().map(|pair| (key(pair), pair)).collect();
        let claims = found.pairs.into_iter().map(|pair| match by_key.get(&key(&pair)) {
            Some(&schedulable) => {
                let claim = self.claim(&provable, schedulable);
                Claim { pair: LocationPair { count: pair.count, ..schedulable.clone() }, ..claim }
            }
            None => Claim { pair, proposal: Err(reason.to_owned()) },
        });
        claims.collect()
    }

    /// Checks the proposals on all cores. False if some could not be checked in time.
    pub fn prove(&mut self, engine: Engine, claims: Vec<Claim>) -> bool {
        let level = self.level_of(engine);
        let (trace, cells) = (self.trace, self.cells);
        let end = claims.iter().map(Claim::end).max().unwrap_or(EventId(0));
        let made = self.checker.take().filter(|(known, _)| *known >= end);
        let (known, checker) = made.unwrap_or_else(|| (end, Checker::up_to(trace, cells, end)));
        let (progress, time) = (self.progress, self.time);
        progress.phase(&format!("{}: proving", engine.name()), claims.len() as u64);
        let verdicts: Vec<Mutex<Option<Result<(), String>>>> = claims.iter().map(|_| Mutex::new(None)).collect();
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let mut in_order: Vec<usize> = (0..claims.len()).collect();
        in_order.sort_by_cached_key(|&index| claims[index].proposal.as_ref().map(|s| checker.as_observed(s)).ok());
        let worker = || {
            let mut series = checker.series(level);
            while let Some(&index) = in_order.get(next.fetch_add(1, Ordering::Relaxed)) {
                if time.is_over() {
                    break;
                }
                let verdict = judge(&mut series, &claims[index]);
                *verdicts[index].lock().expect("no judge panics") = Some(verdict);
                progress.advance(done.fetch_add(1, Ordering::Relaxed) as u64 + 1);
            }
        };
        let rescue = || {
            let accepted = |index: usize| matches!(*verdicts[index].lock().expect("no judge panics"), Some(Ok(())));
            let (proved, open): (Vec<usize>, Vec<usize>) = (0..claims.len()).partition(|&index| accepted(index));
            self.hand_on_early(engine, None, |early| {
                let proved: Vec<Claim> = proved.iter().map(|&index| claims[index].clone()).collect();
                let verdicts = proved.iter().map(|_| Some(Ok(()))).collect();
                early.file(engine, level, proved, verdicts);
                early.analysis.leave(engine, Subject::LocationPair, NOT_CHECKED, open.len());
            });
        };
        let watch = Watch { stop: &AtomicBool::new(false), done: &done, grace: GRACE, rescue: Some(&rescue) };
        self.watched(&watch, || on_all_cores(self.options.jobs, claims.len(), worker));
        let verdicts: Vec<_> = verdicts.into_iter().map(|v| v.into_inner().expect("no judge panics")).collect();
        let complete = verdicts.iter().all(Option::is_some);
        self.checker = Some((known, checker));
        self.file(engine, level, claims, verdicts);
        complete
    }

    /// Proved claims become races, the others candidates if anyone wants them.
    pub(crate) fn file(
        &mut self,
        engine: Engine,
        level: Level,
        claims: Vec<Claim>,
        verdicts: Vec<Option<Result<(), String>>>,
    ) {
        let events = claims.iter().flat_map(|c| [c.pair.first, c.pair.second]).collect();
        let mut held = held_locks(self.trace, events);
        let mut locks = |event: EventId| held.get_mut(&event).cloned().unwrap_or_default();
        let mut filed: Vec<(Claim, Option<Result<(), String>>)> = claims.into_iter().zip(verdicts).collect();
        filed.sort_by_key(|(claim, _)| (claim.pair.second, claim.pair.first));
        for (Claim { pair: LocationPair { first, second, count }, proposal }, verdict) in filed {
            let (locks_first, locks_second) = (locks(first), locks(second));
            let reason = match (verdict, proposal) {
                (Some(Ok(())), Ok(witness)) => {
                    let (diverging, reads) = (Vec::new(), Vec::new());
                    let race = Race {
                        engine,
                        level,
                        first,
                        second,
                        locks_first,
                        locks_second,
                        witness,
                        diverging,
                        reads,
                        count,
                    };
                    self.analysis.races.push(race);
                    continue;
                }
                (Some(Err(reason)), _) => reason,
                _ => {
                    self.analysis.leave(engine, Subject::LocationPair, NOT_CHECKED, 1);
                    NOT_CHECKED.to_owned()
                }
            };
            if self.options.candidates {
                let candidate = Candidate { engine, first, second, locks_first, locks_second, count, reason };
                self.analysis.candidates.push(candidate);
            }
        }
    }

    fn lockset(&mut self, started: Instant) {
        self.progress.phase("lockset", self.trace.len() as u64);
        let limits = Limits { all_pairs: self.options.all_pairs, ..Limits::default() };
        let window = self.options.window;
        let (warnings, found) =
            snag_engines::happens_before::lockset::lockset(self.trace, self.cells, window, limits, &mut |done| {
                self.progress.advance(done as u64);
                !self.out_of_time()
            });
        let seconds = started.elapsed().as_secs_f64();
        let (location_pairs, complete) = (self.location_pairs(&found), found.complete);
        if self.options.candidates {
            let reason = "no lock protects all accesses; locksets prove nothing";
            let claims: Vec<Claim> =
                found.pairs.into_iter().map(|pair| Claim { pair, proposal: Err(reason.to_owned()) }).collect();
            let verdicts = claims.iter().map(|_| Some(Err(reason.to_owned()))).collect();
            self.file(Engine::Lockset, Level::Writer, claims, verdicts);
        }
        self.analysis.engines.push(EngineReport {
            engine: Engine::Lockset,
            beyond: None,
            seconds,
            events_per_second: self.trace.len() as f64 / seconds.max(1e-9),
            peak_memory_bytes: peak_memory(),
            warnings: warnings.len() as u64,
            location_pairs,
            complete,
            reduction: None,
            searches: None,
        });
    }

    /// The level at which an engine proves that knows no expressions.
    pub fn level_of(&self, engine: Engine) -> Level {
        self.options.level.filter(|&level| level != Level::Symbolic).unwrap_or(engine.level())
    }

    pub fn out_of_time(&self) -> bool {
        self.time.is_up()
    }
}

fn judge(series: &mut Series, claim: &Claim) -> Result<(), String> {
    let schedule = claim.proposal.as_ref().map_err(String::clone)?;
    series
        .check_race(schedule, claim.pair.first, claim.pair.second)
        .map_err(|violation| format!("the schedule found was refused: {violation}"))
}
