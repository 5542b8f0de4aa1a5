//! Time-stamped lock histories as engines.
//!
//! What their searches say holds under data abstraction, so it is a proposal: the schedule that was found is put to the
//! checker with all memory accesses in it. What SHB has at the same locations is proved by its clocks, which is cheaper;
//! what neither proves is for the search of the maximal engine to decide, deadlocks as well.

use crate::engine::{
    About, Context, Cost, DeadlockClaim, Engine, EngineRef, Found, Guarantee, NOT_LOOKED_AT, Needs, Prover, Searches,
    Subject,
};
use crate::happens_before::LocationPair;
use crate::lock_history::Strategy;
use crate::lock_history::races::{Depth, Races, Settings, of_trace};
use snag_model::{EventId, Level, Schedule, ThreadId, Trace};
use std::collections::HashMap;
use std::time::Instant;

/// Lock histories that look at two threads and hold back all others.
pub const TLH1: EngineRef = EngineRef::new(&LockHistory {
    strategy: Strategy::One,
    about: About { name: "tlh1", summary: "time-stamped lock histories, strategy 1", ..HISTORY },
});

/// Lock histories that let third threads go on.
pub const TLH2: EngineRef = EngineRef::new(&LockHistory {
    strategy: Strategy::Two,
    about: About { name: "tlh2", summary: "time-stamped lock histories, strategy 2", ..HISTORY },
});

const HISTORY: About = About {
    name: "",
    summary: "",
    paper: "Ganai, ASE 2013",
    guarantee: Guarantee::None,
    cost: Cost::Search,
    needs: Needs::Events,
    condensable: false,
    reduces: false,
    bytes: [0, 64, 128],
};

/// A count of calls that only statistics need ends here: it may be quadratic.
const MOST_CALLS: u64 = 200_000_000;

struct LockHistory {
    strategy: Strategy,
    about: About,
}

impl Engine for LockHistory {
    fn about(&self) -> &About {
        &self.about
    }

    fn run<'c>(&self, context: &'c Context<'c>) -> Found<'c> {
        let started = Instant::now();
        let trace = context.trace;
        let settings = Settings { all_pairs: context.settings.all_pairs, ..Settings::of(self.strategy) };
        context.phase("looking for races", trace.len());
        let mut races = pass(context, settings);
        let first_pass = started.elapsed();
        context.host.leave(Subject::LocationPair, "too many accesses to the same memory", races.given_up);
        let found = Found {
            pairs: races.found.iter().map(|found| pair(found.first.event, found.second.event)).collect(),
            otherwise: "no schedule was found that shows it",
            standoffs: if context.settings.prove { standoffs(context, &mut races) } else { Vec::new() },
            warnings: races.warnings,
            looked_at: races.seen,
            memory: races.memory() as u64,
            complete: races.complete,
            searches: Some(searches(context, &races, settings)),
            ..Found::nothing(context, first_pass)
        };
        let proposer = Box::new(move |pairs: &[LocationPair]| proposals(context, &mut races, pairs));
        Found { provers: vec![Prover::Shb, Prover::Own(proposer), Prover::Search], ..found }
    }
}

fn pair(first: EventId, second: EventId) -> LocationPair {
    LocationPair { first, second, count: 1 }
}

/// One pass over the trace.
fn pass(context: &Context, settings: Settings) -> Races {
    let most = if settings.shortcuts { u64::MAX } else { MOST_CALLS };
    of_trace(context.trace, context.cells, settings, context.settings.window, &mut |races, done| {
        context.goes_on(done) && races.statistics().calls < most
    })
}

/// What the searches did. Where it is asked for, what they would have done if every question were put to a search, with
/// and without incrementality.
fn searches(context: &Context, races: &Races, settings: Settings) -> Searches {
    if !context.settings.anew {
        return Searches { done: races.statistics(), anew: None };
    }
    let [all, anew] = [true, false].map(|incremental| {
        let depth = Depth::Search { incremental };
        pass(context, Settings { depth, shortcuts: false, ..settings }).statistics()
    });
    Searches { done: all, anew: Some(anew.calls) }
}

/// The schedules that the searches have found.
fn proposals(context: &Context, races: &mut Races, pairs: &[LocationPair]) -> Vec<Option<Schedule>> {
    let at: HashMap<_, _> = races.found.iter().map(|found| ([found.first.event, found.second.event], *found)).collect();
    let mut events = Events::new(context.trace);
    let mut schedule = |pair: &LocationPair| {
        let found = at.get(&[pair.first, pair.second]).filter(|_| !context.host.is_up())?;
        races.reach.schedule(&found.first, &found.second, &mut |thread, a, b| events.of(thread, a, b))
    };
    pairs.iter().map(&mut schedule).collect()
}

/// Puts the deadlocks that searches met to the host, with the way that led there, until one of the same locks is
/// accepted. Returns those of which none was.
fn standoffs(context: &Context, races: &mut Races) -> Vec<Vec<EventId>> {
    let level = context.level(Level::Writer);
    let mut events = Events::new(context.trace);
    let mut open = Vec::new();
    for standoff in std::mem::take(&mut races.standoffs) {
        let pending = standoff.pending().to_vec();
        if context.host.is_up() {
            context.host.leave(Subject::Cycle, NOT_LOOKED_AT, 1);
        } else if !context.host.meets_cycle(&pending) {
            let schedule = races.reach.schedule_of_standoff(&standoff, &mut |thread, a, b| events.of(thread, a, b));
            let claim = schedule.map(|schedule| DeadlockClaim { pending: pending.clone(), schedule, level });
            if claim.is_none_or(|claim| context.host.deadlock(claim).is_err()) {
                open.push(pending);
            }
        }
    }
    open
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
