//! Time-stamped lock histories in the pipeline.
//!
//! What their searches say holds under data abstraction, so it is a proposal: the schedule that was found is put to the
//! checker with all memory accesses in it. What SHB has at the same locations is proved by its clocks, which is
//! cheaper; what neither proves is for the maximal engine to decide, deadlocks as well.

use crate::analyse::{Claim, TOO_MANY, Work};
use crate::analysis::{Deadlock, Engine, EngineReport, Searches, Subject};
use crate::memory::peak_memory;
use crate::watch::on_all_cores;
use snag_checker::Checker;
use snag_engines::happens_before::{Found, LocationPair};
use snag_engines::lock_history::races::{Depth, Races, Settings};
use snag_engines::lock_history::{Standoff, Strategy};
use snag_engines::maximal::{Answer, Index, Lowered, Missing, Queries};
use snag_model::{EventId, LockId, ThreadId, Trace};
use snag_model::{Level, Schedule};
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A count of calls that only statistics need ends here: it may be quadratic.
const MOST_CALLS: u64 = 200_000_000;

impl Work<'_> {
    pub(crate) fn history(&mut self, engine: Engine, started: Instant) {
        let strategy = if engine == Engine::Tlh1 { Strategy::One } else { Strategy::Two };
        let settings = Settings { all_pairs: self.options.all_pairs, ..Settings::of(strategy) };
        self.progress.phase(&format!("{}: looking for races", engine.name()), self.trace.len() as u64);
        let mut races = self.pass(settings);
        let first_pass = started.elapsed();
        let searches = self.searches(&races, settings);
        let pair = |found: &snag_engines::lock_history::races::Found| LocationPair {
            first: found.first.event,
            second: found.second.event,
            count: 1,
        };
        let mut found = Found::nothing(races.complete);
        found.pairs = races.found.iter().map(pair).collect();
        let location_pairs = self.location_pairs(&found);
        let mut complete = races.complete;
        self.analysis.leave(engine, Subject::Event, "not looked at in time", self.trace.len() - races.seen);
        self.analysis.leave(engine, Subject::LocationPair, "too many accesses to the same memory", races.given_up);
        if self.options.prove {
            let most = self.options.max_races;
            let more = found.pairs.len().saturating_sub(most);
            complete &= more == 0;
            self.analysis.leave(engine, Subject::LocationPair, TOO_MANY, more);
            found.pairs.sort_by_key(|pair| (pair.second, pair.first));
            found.pairs.truncate(most);
            complete &= self.prove_history(engine, &mut races, found);
        }
        self.analysis.engines.push(EngineReport {
            engine,
            beyond: None,
            seconds: started.elapsed().as_secs_f64(),
            events_per_second: self.trace.len() as f64 / first_pass.as_secs_f64().max(1e-9),
            peak_memory_bytes: peak_memory().max(races.memory() as u64),
            warnings: races.warnings,
            location_pairs,
            complete,
            reduction: None,
            searches: Some(searches),
        });
    }

    /// One pass over the trace.
    fn pass(&self, settings: Settings) -> Races {
        let most = if settings.shortcuts { u64::MAX } else { MOST_CALLS };
        snag_engines::lock_history::races::of_trace(
            self.trace,
            self.cells,
            settings,
            self.options.window,
            &mut |races, done| {
                self.progress.advance(done as u64);
                !self.out_of_time() && races.statistics().calls < most
            },
        )
    }

    /// What the searches did. Where it is asked for, what they would have done if every question were put to a search, with and
    /// without incrementality.
    fn searches(&self, races: &Races, settings: Settings) -> Searches {
        if !self.options.anew {
            return Searches::of(races.statistics(), None);
        }
        let [all, anew] = [true, false].map(|incremental| {
            let depth = Depth::Search { incremental };
            self.pass(Settings { depth, shortcuts: false, ..settings }).statistics()
        });
        Searches::of(all, Some(anew.calls))
    }

    /// Proves pairs and deadlocks. False if something was left undecided.
    fn prove_history(&mut self, engine: Engine, races: &mut Races, found: Found) -> bool {
        let level = self.level_of(engine);
        let mut complete = self.prove_standoffs(engine, level, races);
        if found.pairs.is_empty() {
            return complete;
        }
        let at: HashMap<_, _> =
            races.found.iter().map(|found| ([found.first.event, found.second.event], *found)).collect();
        let mut claims = self.claims_by_shb(engine, found, "no schedule was found that shows it");
        let open: Vec<usize> = (0..claims.len()).filter(|&claim| claims[claim].proposal.is_err()).collect();
        let mut events = Events::new(self.trace);
        let mut proposed = Vec::new();
        for claim in open {
            let pair = &claims[claim].pair;
            if let Some(found) = at.get(&[pair.first, pair.second])
                && !self.out_of_time()
                && let Some(schedule) =
                    races.reach.schedule(&found.first, &found.second, &mut |t, a, b| events.of(t, a, b))
            {
                claims[claim].proposal = Ok(schedule);
                proposed.push(claim);
            }
        }
        for (claim, refusal) in self.refusals(&claims, &proposed, level) {
            claims[claim].proposal = Err(refusal);
        }
        complete &= self.settle(engine, level, &mut claims);
        complete & self.prove(engine, claims)
    }

    /// The proposals that the checker refuses, on all cores.
    fn refusals(&self, claims: &[Claim], proposed: &[usize], level: Level) -> Vec<(usize, String)> {
        let Some(last) = proposed.iter().map(|&claim| claims[claim].pair.second.0 + 1).max() else { return Vec::new() };
        let checker = Checker::up_to(self.trace, self.cells, EventId(last));
        let next = AtomicUsize::new(0);
        let all = Mutex::new(Vec::new());
        let worker = || {
            let mut refused = Vec::new();
            while let Some(&claim) = proposed.get(next.fetch_add(1, Ordering::Relaxed)) {
                let Claim { pair, proposal: Ok(schedule) } = &claims[claim] else { continue };
                if self.time.is_over() {
                    break;
                }
                if let Err(violation) = checker.check_race(schedule.iter(self.trace), pair.first, pair.second, level) {
                    refused.push((claim, format!("the schedule found was refused: {violation}")));
                }
            }
            all.lock().expect("no worker panics").append(&mut refused);
        };
        on_all_cores(self.options.jobs, proposed.len(), worker);
        all.into_inner().expect("no worker panics")
    }

    /// Deadlocks that searches met: the way that led there, or else a schedule of the maximal engine. One for each pair
    /// of locks is enough.
    fn prove_standoffs(&mut self, engine: Engine, level: Level, races: &mut Races) -> bool {
        let mut known: HashSet<[LockId; 2]> = HashSet::new();
        let mut left: Vec<([LockId; 2], Standoff)> = Vec::new();
        let standoffs = std::mem::take(&mut races.standoffs);
        let Some(end) = standoffs.iter().flat_map(|standoff| standoff.pending()).max() else { return true };
        let end = EventId(end.0 + 1);
        let checker = Checker::up_to(self.trace, self.cells, end);
        let mut events = Events::new(self.trace);
        for standoff in standoffs {
            let mut locks = standoff.locks;
            locks.sort_unstable();
            if known.contains(&locks) || self.out_of_time() {
                continue;
            }
            let pending = standoff.pending().to_vec();
            let schedule = races.reach.schedule_of_standoff(&standoff, &mut |t, a, b| events.of(t, a, b));
            match schedule {
                Some(witness) if checker.check_deadlock(witness.iter(self.trace), &pending, level).is_ok() => {
                    known.insert(locks);
                    self.analysis.deadlocks.push(Deadlock { engine, level, pending, witness });
                }
                _ => left.push((locks, standoff)),
            }
        }
        left.retain(|(locks, _)| !known.contains(locks));
        drop(checker);
        let mut complete = !self.out_of_time();
        if left.is_empty() || !complete {
            return complete;
        }
        let mut undecided = 0;
        let asked = self.with_limits(|limits, _| {
            let lowered = Lowered::of(self.trace, self.cells, level);
            let stop = || self.out_of_time();
            let index = Index::until(lowered.trace(), lowered.cells(), level, Missing::Reach, &stop);
            let mut queries = Queries::new(&index, limits.clone());
            let mut found: Vec<(Vec<EventId>, Schedule)> = Vec::new();
            for (locks, standoff) in left {
                if known.contains(&locks) {
                    continue;
                }
                let pending: Vec<EventId> = standoff.pending().iter().map(|&event| lowered.event(event)).collect();
                match queries.ask(&pending).0 {
                    Answer::Possible(schedule) => {
                        known.insert(locks);
                        found.push((standoff.pending().to_vec(), lowered.schedule(schedule)));
                    }
                    Answer::Impossible => {}
                    Answer::Unknown(_) => undecided += 1,
                }
            }
            found
        });
        complete &= undecided == 0;
        self.analysis.leave(engine, Subject::Cycle, "not decided in time", undecided);
        self.deadlocks_of(engine, level, self.trace.len(), asked);
        complete
    }
}

/// The events of threads, listed when they are first asked for.
struct Events<'t> {
    trace: &'t Trace,
    threads: HashMap<ThreadId, Vec<EventId>>,
}

impl<'t> Events<'t> {
    fn new(trace: &'t Trace) -> Events<'t> {
        Events { trace, threads: HashMap::new() }
    }

    /// The events of a thread from one to another, which is not included.
    fn of(&mut self, thread: ThreadId, from: EventId, to: EventId) -> Vec<EventId> {
        let threads = self.trace.events.threads();
        let all = self.threads.entry(thread).or_insert_with(|| {
            (0..threads.len()).filter(|&event| threads[event] == thread).map(EventId::new).collect()
        });
        let (from, to) = (all.partition_point(|&event| event < from), all.partition_point(|&event| event < to));
        all[from..to.max(from)].to_vec()
    }
}
