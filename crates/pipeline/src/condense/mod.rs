//! Long traces: engines look at what is left without accesses to private memory ([`Condensed`]).
//!
//! What they find there is found, and proved, by the whole trace: `Whole::restore` puts what was left out back into each
//! witness, and the checker looks at it again with the whole trace in view. It has the last word, as ever.

mod condensed;

use crate::analysis::{Analysis, Candidate, Deadlock, Fault, NOT_CHECKED, Race};
use crate::memory::Minded;
use crate::options::Options;
use crate::plan::{Step, steps};
use crate::progress::Progress;
use crate::prove::end_of;
use crate::run::{Done, run_steps};
use crate::so_far::{Publish, SoFar};
use crate::time::Time;
pub use condensed::{Changed, Condensed, Private, Sieve, Survey};
use snag_checker::{Checker, Series};
use snag_engines::{EngineRef, Subject};
use snag_model::{Cells, EventId, Level, RaceKind, Rest, Schedule, Trace};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Whether what is asked for can be found in a condensed trace.
pub fn can_condense(options: &Options) -> bool {
    options.engines.iter().all(|choice| choice.is_condensable())
        && options.settings.window.is_none()
        && !options.ignore_missing
        && options.settings.level != Some(Level::Symbolic)
}

/// What is left of a trace; `None` if the engines cannot do with that, or if it is not worth it.
pub(crate) fn condensed(trace: &Trace, options: &Options, time: &Time) -> Option<Condensed> {
    if trace.len() < options.condense_from || !can_condense(options) || time.is_up() {
        return None;
    }
    time.progress.phase("leaving out what only one thread uses", 0);
    let condensed = Condensed::of(trace)?;
    (options.condense_from == 0 || condensed.trace.len() <= trace.len() / 2).then_some(condensed)
}

/// How all of a trace can be had of which only a part is in memory.
pub struct Again<'a> {
    /// Reads it because of what was found: all of it, or its beginning if there is no time for more. `None` if it cannot be read.
    pub read: &'a (dyn Fn(&Analysis) -> Option<Arc<Trace>> + Sync),
    /// About how long that takes, and what else it takes before something can be proved.
    pub takes: Duration,
}

/// What engines find in a condensed trace, engine by engine as each is done, and prove with the whole trace in view. What is quick comes
/// first: what it has found is proved before anything else begins. There is time enough for that before the deadline.
pub fn analyse_condensed_into(
    condensed: &Condensed,
    options: &Options,
    progress: &dyn Progress,
    deadline: Option<Instant>,
    so_far: &SoFar,
    again: &Again,
) {
    let memory = Minded::new(progress, options.memory);
    let (quick, others): (Vec<Step>, Vec<Step>) =
        steps(options, &condensed.trace).into_iter().partition(Step::is_first);
    let before = |deadline: Instant, needed: Duration| {
        deadline - needed.min(deadline.saturating_duration_since(Instant::now()) / 2)
    };
    let trace: OnceLock<Option<Arc<Trace>>> = OnceLock::new();
    let whole: OnceLock<Option<Whole>> = OnceLock::new();
    let read = |found: &Analysis| {
        let trace = trace.get_or_init(|| (again.read)(found));
        whole.get_or_init(|| trace.as_deref().map(Whole::new)).as_ref()
    };
    let to_prove = Time::minding(&memory, deadline);
    let restoring = Restoring { condensed, whole: &read, options, time: &to_prove, publish: so_far };
    let cells = Cells::of(&condensed.trace);
    let time = Time::minding(&memory, deadline.map(|deadline| before(deadline, again.takes)));
    let done = run_condensed(&restoring, &cells, &quick, &time, Done::default());
    if others.is_empty() {
        return;
    }
    // Who has the whole trace already needs some time for proofs alone.
    let needed = if trace.get().is_some() { again.takes / 4 } else { again.takes };
    let time = Time::minding(&memory, deadline.map(|deadline| before(deadline, needed)));
    run_condensed(&restoring, &cells, &others, &time, done);
}

/// Runs engines on a condensed trace.
pub(crate) fn run_condensed(restoring: &Restoring, cells: &Cells, steps: &[Step], time: &Time, done: Done) -> Done {
    let Restoring { condensed, options, .. } = *restoring;
    run_steps(&condensed.trace, cells, options, time, restoring, steps, done)
}

/// Hands on what was found in a condensed trace as what was found in the whole.
pub(crate) struct Restoring<'a, 't> {
    pub condensed: &'a Condensed,
    /// The whole trace, because of what was found.
    pub whole: &'a (dyn Fn(&Analysis) -> Option<&'a Whole<'t>> + Sync),
    pub options: &'a Options,
    /// For proofs with the whole trace in view.
    pub time: &'a Time<'a>,
    pub publish: &'a dyn Publish,
}

impl Restoring<'_, '_> {
    /// Events have the numbers of the condensed trace until they are given their own; the rest is as if the whole trace had been looked
    /// at.
    fn restored(&self, mut part: Analysis) -> Analysis {
        let found = part.races.len() + part.deadlocks.len() + part.faults.len() + part.candidates.len();
        if found == 0 {
            return part;
        }
        let Some(whole) = (self.whole)(&part) else { return part.none_proved() };
        whole.restore(self.condensed, self.options, self.time, &mut part);
        part
    }

    fn counted(&self, mut part: Analysis) -> Analysis {
        let (trace, whole) = (&self.condensed.trace, self.condensed.whole());
        let longer = whole as f64 / trace.len().max(1) as f64;
        part.engines.iter_mut().for_each(|engine| engine.events_per_second *= longer);
        for left in part.left.iter_mut().filter(|left| left.what == Subject::Event) {
            let done = EventId::new(trace.len().saturating_sub(left.count as usize));
            left.count = (whole - self.condensed.original(done).index()) as u64;
        }
        part
    }
}

impl Publish for Restoring<'_, '_> {
    fn done(&self, part: Analysis) {
        let part = self.counted(part);
        // If there is no time for proofs, it is at least counted.
        self.publish.early(part.none_proved());
        self.publish.done(self.restored(part));
    }

    fn early(&self, part: Analysis) {
        let part = self.counted(part);
        self.publish.early(part.none_proved());
        self.publish.early(self.restored(part));
    }
}

/// A trace of which a part was looked at.
pub(crate) struct Whole<'t> {
    trace: &'t Trace,
    cells: OnceLock<Cells>,
    /// The events of each thread.
    of_threads: OnceLock<Vec<Vec<EventId>>>,
}

impl<'t> Whole<'t> {
    pub fn new(trace: &'t Trace) -> Whole<'t> {
        Whole { trace, cells: OnceLock::new(), of_threads: OnceLock::new() }
    }

    /// Its cells, made when they are first needed.
    pub fn cells(&self) -> &Cells {
        self.cells.get_or_init(|| Cells::of(self.trace))
    }

    /// The events of a thread, ascending.
    fn of_thread(&self, thread: usize) -> &[EventId] {
        let lists = self.of_threads.get_or_init(|| {
            let mut lists = vec![Vec::new(); self.trace.tables.thread_count()];
            let threads = self.trace.events.threads().iter().enumerate();
            threads.for_each(|(event, thread)| lists[thread.index()].push(EventId::new(event)));
            lists
        });
        &lists[thread]
    }

    /// Gives events the numbers that they have in the whole trace, and has the checker look at every witness again. Of what is not in
    /// its beginning, if no more was read, nothing can be proved.
    pub fn restore(&self, condensed: &Condensed, options: &Options, time: &Time, analysis: &mut Analysis) {
        let mut refused: Vec<(EngineRef, Subject, &str, Option<Candidate>)> = Vec::new();
        self.leave_out_unread(condensed, analysis, &mut refused);
        let original = |event: EventId| condensed.original(event);
        for Candidate { first, second, .. } in &mut analysis.candidates {
            (*first, *second) = (original(*first), original(*second));
        }
        for Race { first, second, spurious, .. } in &mut analysis.races {
            (*first, *second) = (original(*first), original(*second));
            spurious.iter_mut().for_each(|wake| *wake = original(*wake));
        }
        for Deadlock { pending, spurious, .. } in &mut analysis.deadlocks {
            pending.iter_mut().chain(spurious).for_each(|event| *event = original(*event));
        }
        for Fault { first, second, .. } in &mut analysis.faults {
            (*first, *second) = (first.map(original), original(*second));
        }
        let count = analysis.races.len() + analysis.deadlocks.len() + analysis.faults.len();
        if count == 0 && refused.is_empty() {
            return;
        }
        // What cannot be checked any more need not be made ready for it.
        let expanded = |witness: &mut Schedule, leads_to: &[EventId]| {
            let in_time = !time.is_over();
            if in_time {
                *witness = self.expand(condensed, witness, leads_to);
            }
            in_time
        };
        let races = analysis.races.iter_mut();
        let ready: Vec<bool> = races
            .map(|race| match race.kind {
                RaceKind::Predictable => expanded(&mut race.witness, &[race.first, race.second]),
                RaceKind::Order if race.is_observed() => {
                    race.witness = Schedule::up_to(race.second);
                    !time.is_over()
                }
                // The later event is the last of the schedule.
                RaceKind::Order => expanded(&mut race.witness, &[]),
            })
            .collect();
        time.progress.phase("checking with the whole trace", count as u64);
        let checker = (count > 0 && !time.is_over()).then(|| Checker::new(self.trace, self.cells()));
        let (whole, progress) = (self.trace, time.progress);
        let mut levels: Vec<Level> = analysis.races.iter().map(|race| race.level).collect();
        levels.sort_unstable();
        levels.dedup();
        let mut verdicts: Vec<Result<(), &str>> = vec![Err(NOT_CHECKED); analysis.races.len()];
        let mut done = 0;
        for level in levels {
            let Some(checker) = &checker else { break };
            let mut of_level: Vec<usize> =
                (0..analysis.races.len()).filter(|&at| ready[at] && analysis.races[at].level == level).collect();
            of_level.sort_by_key(|&at| checker.as_observed(&analysis.races[at].witness));
            let mut series = checker.series(level);
            for at in of_level {
                if time.is_over() {
                    break;
                }
                let race = &analysis.races[at];
                let Race { first, second, witness, spurious, .. } = race;
                let verdict = match spurious.is_empty() {
                    true => series.check(race.kind, witness, *first, *second),
                    false => {
                        let events = witness.iter(whole);
                        checker.check_race_with_spurious(events, *first, *second, level, spurious)
                    }
                };
                verdicts[at] = verdict.map_err(|_| NOT_ACCEPTED);
                done += 1;
                progress.advance(done);
            }
        }
        let mut verdicts = verdicts.into_iter();
        analysis.races.retain(|race| {
            let verdict = verdicts.next().expect("one for each race");
            if let Err(why) = verdict {
                let Race { engine, first, second, locks_first, locks_second, count, .. } = race.clone();
                let reason = why.to_owned();
                let candidate = Candidate { engine, first, second, locks_first, locks_second, count, reason };
                refused.push((engine, Subject::LocationPair, why, Some(candidate)));
            }
            verdict.is_ok()
        });
        // They come as they were found, which is about the order of the trace.
        let mut series: Option<Series> = None;
        analysis.deadlocks.retain_mut(|deadlock| {
            let verdict = match &checker {
                Some(checker) if expanded(&mut deadlock.witness, &deadlock.pending) => {
                    let Deadlock { pending, level, witness, spurious, .. } = &*deadlock;
                    let verdict = match spurious.is_empty() {
                        false => checker.check_deadlock_with_spurious(witness.iter(whole), pending, *level, spurious),
                        true => {
                            let at_level = series.take().filter(|series| series.level() == *level);
                            let series = series.insert(at_level.unwrap_or_else(|| checker.series(*level)));
                            series.check_deadlock(witness, pending)
                        }
                    };
                    verdict.map_err(|_| NOT_ACCEPTED)
                }
                _ => Err(NOT_CHECKED),
            };
            refused.extend(verdict.err().map(|why| (deadlock.engine, Subject::Cycle, why, None)));
            verdict.is_ok()
        });
        analysis.faults.retain_mut(|fault| {
            let leads_to: Vec<EventId> = fault.first.into_iter().chain([fault.second]).collect();
            if let Some(witness) = &mut fault.witness {
                expanded(witness, &leads_to);
            }
            let verdict = match &checker {
                Some(checker) if !time.is_over() => fault.check(whole, checker).map_err(|_| NOT_ACCEPTED),
                _ => Err(NOT_CHECKED),
            };
            refused.extend(verdict.err().map(|why| (fault.engine, Subject::LocationPair, why, None)));
            verdict.is_ok()
        });
        for (engine, what, why, candidate) in refused {
            analysis.leave(engine, what, why, 1);
            let reports = analysis.engines.iter_mut().filter(|report| report.engine == engine);
            reports.for_each(|report| report.complete = false);
            if options.candidates {
                analysis.candidates.extend(candidate);
            }
        }
    }

    /// Takes out what goes beyond the events that were read.
    fn leave_out_unread(
        &self,
        condensed: &Condensed,
        analysis: &mut Analysis,
        refused: &mut Vec<(EngineRef, Subject, &str, Option<Candidate>)>,
    ) {
        if self.trace.len() >= condensed.whole() {
            return;
        }
        let end = condensed.up_to(EventId::new(self.trace.len()));
        let candidates = std::mem::take(&mut analysis.candidates).into_iter();
        let (read, unread): (Vec<Candidate>, Vec<Candidate>) = candidates.partition(|candidate| candidate.second < end);
        analysis.candidates = read;
        analysis.count_candidates(&unread);
        analysis.races.retain(|race| {
            let is_read = race.second < end && end_of(&race.witness) <= end;
            refused.extend((!is_read).then_some((race.engine, Subject::LocationPair, NOT_CHECKED, None)));
            is_read
        });
        analysis.faults.retain(|fault| {
            let is_read = fault.second < end && fault.witness.as_ref().is_none_or(|witness| end_of(witness) <= end);
            refused.extend((!is_read).then_some((fault.engine, Subject::LocationPair, NOT_CHECKED, None)));
            is_read
        });
        analysis.deadlocks.retain(|deadlock| {
            let is_read = deadlock.pending.iter().all(|&event| event < end) && end_of(&deadlock.witness) <= end;
            refused.extend((!is_read).then_some((deadlock.engine, Subject::Cycle, NOT_CHECKED, None)));
            is_read
        });
    }

    /// A schedule with all that was left out before its events and before those that it leads to (given by their own
    /// numbers).
    fn expand(&self, condensed: &Condensed, schedule: &Schedule, leads_to: &[EventId]) -> Schedule {
        let whole = self.trace;
        let own = condensed.trace.events.threads();
        let (ends, rest) = schedule.parts(&condensed.trace);
        let (Rest::Events(rest) | Rest::Turns(rest)) = rest;
        // Directly behind the last event of the thread, where that is known. Elsewhere more of the thread may come
        // along, which depends on nothing that is not before it in the thread.
        let end = |(thread, end): (usize, &EventId)| match end.index().checked_sub(1) {
            Some(last) if own.get(last).is_some_and(|own| own.index() == thread) => {
                EventId(condensed.original(EventId::new(last)).0 + 1)
            }
            _ => condensed.original(*end).min(EventId::new(whole.len())),
        };
        let mut ends: Vec<EventId> = ends.iter().enumerate().map(end).collect();
        // What was left out before an event comes with it, in the turn of its thread.
        let mut turns: Vec<EventId> = rest.iter().map(|&event| condensed.original(event)).collect();
        for &event in leads_to {
            let thread = whole.thread_of(event);
            match turns.iter().rfind(|&&turn| whole.thread_of(turn) == thread) {
                None => ends[thread.index()] = event,
                Some(&turn) => {
                    let own = self.of_thread(thread.index());
                    let before = own.partition_point(|&other| other < event);
                    turns.extend(own[..before].last().filter(|&&last| last > turn));
                }
            }
        }
        if turns.is_empty() { Schedule::Prefixes(ends) } else { Schedule::Turns { ends, turns } }
    }
}

/// What is said of a witness that holds in the condensed trace and not in the whole: nothing that should happen.
const NOT_ACCEPTED: &str = "the schedule found was refused with the whole trace in view";
