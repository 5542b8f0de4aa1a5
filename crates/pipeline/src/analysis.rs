use crate::memory::peak_memory;
use snag_engines::maximal::Backend;
use snag_model::{EventId, LockId};
use snag_model::{Level, Schedule};
use std::time::Duration;

/// The engines that exist. Adding one is a line here and a line in [`Engine::ALL`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Engine {
    /// Whatever finds most: SHB, and the maximal engine for what that leaves open.
    Auto,
    /// Happens-before, with epochs.
    Hb,
    /// Happens-before, with full vector clocks (DJIT+).
    HbVc,
    /// Happens-before that orders every race it has seen.
    Fhb,
    /// Schedulable happens-before, with epochs.
    Shb,
    /// Schedulable happens-before, with full vector clocks.
    ShbVc,
    /// Weak-causally-precedes.
    Wcp,
    /// Causally-precedes.
    Cp,
    /// Eraser's locksets.
    Lockset,
    /// Time-stamped lock histories, strategy I: misses nothing under data abstraction.
    Tlh1,
    /// Time-stamped lock histories, strategy II: claims nothing false under data abstraction.
    Tlh2,
    /// Maximal causality: all that the trace can prove.
    Mc,
    /// Simple barriers: the same with all missing methods in the order in which they were observed.
    Sb,
    /// The same with missing methods in order where they could reach something in common.
    Rdit,
    /// The same, and all that its expressions can prove: reads may take other values.
    Recipe,
}

impl Engine {
    /// Every engine.
    pub const ALL: [Engine; 15] = [
        Engine::Auto,
        Engine::Hb,
        Engine::HbVc,
        Engine::Fhb,
        Engine::Shb,
        Engine::ShbVc,
        Engine::Wcp,
        Engine::Cp,
        Engine::Lockset,
        Engine::Tlh1,
        Engine::Tlh2,
        Engine::Mc,
        Engine::Sb,
        Engine::Rdit,
        Engine::Recipe,
    ];

    /// Its name on the command line and in machine output.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Auto => "auto",
            Engine::Hb => "hb",
            Engine::HbVc => "hb-vc",
            Engine::Fhb => "fhb",
            Engine::Shb => "shb",
            Engine::ShbVc => "shb-vc",
            Engine::Wcp => "wcp",
            Engine::Cp => "cp",
            Engine::Lockset => "lockset",
            Engine::Tlh1 => "tlh1",
            Engine::Tlh2 => "tlh2",
            Engine::Mc => "mc",
            Engine::Sb => "sb",
            Engine::Rdit => "rdit",
            Engine::Recipe => "recipe",
        }
    }

    /// The engine of that name.
    pub fn by_name(name: &str) -> Option<Engine> {
        Engine::ALL.into_iter().find(|engine| engine.name() == name)
    }

    /// Whether it is about missing methods, so that it makes no sense to have it ignore them.
    pub fn is_about_missing(self) -> bool {
        matches!(self, Engine::Sb | Engine::Rdit)
    }

    /// Whose reports it leaves, in this order.
    fn parts(&self) -> &[Engine] {
        match self {
            Engine::Auto => &[Engine::Shb, Engine::Mc, Engine::Recipe],
            engine => std::slice::from_ref(engine),
        }
    }

    /// Whether it takes one quick look at each event, and prepares nothing for it.
    pub(crate) fn is_quick(self) -> bool {
        matches!(self, Engine::Hb | Engine::HbVc | Engine::Fhb | Engine::Shb | Engine::ShbVc | Engine::Lockset)
    }

    /// The highest level at which this engine proves races.
    pub fn level(self) -> Level {
        Level::Writer
    }
}

/// Shorter traces are looked at sooner than they are condensed.
const CONDENSE_FROM: usize = 200_000;

/// What to look for and how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// Engines to run, in order.
    pub engines: Vec<Engine>,
    /// Level at which witnesses are checked; `None`: the engine's highest.
    pub level: Option<Level>,
    /// Keep what could not be proved.
    pub candidates: bool,
    /// Look for pairs inside windows of so many events; `None`: the whole trace.
    pub window: Option<usize>,
    /// Stop looking for more after this long.
    pub budget: Option<Duration>,
    /// Bytes that the process may take; `None`: what the system lets it have. An engine that would take more leaves its own
    /// answer open.
    pub memory: Option<u64>,
    /// One finding per pair of events instead of per pair of locations.
    pub all_pairs: bool,
    /// CP and WCP: look at all unordered pairs, instead of treating every race as ordered once it is found.
    pub all: bool,
    /// CP and WCP: leave out what does not matter before anything else.
    pub reduce: bool,
    /// Lock histories: count the calls of searches for all questions, and of searches that remember nothing.
    pub anew: bool,
    /// At most so many races of each engine are proved; the others are counted.
    pub max_races: usize,
    /// Who answers the questions of the maximal engine.
    pub solver: Backend,
    /// Threads to use for proofs.
    pub jobs: usize,
    /// Engines that are not about missing methods take the trace as if none were missing: what they then report, and
    /// what the checker then accepts, may be impossible.
    pub ignore_missing: bool,
    /// Prove what was found; without, only the engines' own counts are produced.
    pub prove: bool,
    /// A trace of at least so many events is looked at without accesses to private memory, if these are most of it.
    pub condense_from: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            engines: vec![Engine::Auto],
            level: None,
            candidates: false,
            window: None,
            budget: None,
            memory: None,
            all_pairs: false,
            all: false,
            reduce: true,
            anew: false,
            max_races: 10_000,
            solver: Backend::Own,
            jobs: 1,
            ignore_missing: false,
            prove: true,
            condense_from: CONDENSE_FROM,
        }
    }
}

/// Told how far the work is; asked whether to stop.
pub trait Progress: Sync {
    /// A phase begins; `total` in its own units.
    fn phase(&self, name: &str, total: u64);
    /// So much of the phase is done.
    fn advance(&self, done: u64);
    /// Whether the user wants to stop; what was found until then is kept.
    fn cancelled(&self) -> bool;
}

/// Nobody is watching.
pub struct Quiet;

impl Progress for Quiet {
    fn phase(&self, _: &str, _: u64) {}
    fn advance(&self, _: u64) {}
    fn cancelled(&self) -> bool {
        false
    }
}

/// A race with its proof.
#[derive(Clone, Debug, PartialEq)]
pub struct Race {
    /// Who found it.
    pub engine: Engine,
    /// At which level the witness was checked.
    pub level: Level,
    /// The earlier of the two events in the trace.
    pub first: EventId,
    /// The later one.
    pub second: EventId,
    /// Locks that the thread of `first` holds there.
    pub locks_first: Vec<LockId>,
    /// Locks that the thread of `second` holds there.
    pub locks_second: Vec<LockId>,
    /// What happens before the pair. The checker has accepted it.
    pub witness: Schedule,
    /// At level `symbolic`: the branches of the witness that go the other way.
    pub diverging: Vec<EventId>,
    /// At level `symbolic`: the value that every read of the witness takes, in order, as far as known.
    pub reads: Vec<(EventId, i64)>,
    /// How many pairs of events share the pair of locations.
    pub count: u64,
}

/// A deadlock with its proof.
#[derive(Clone, Debug, PartialEq)]
pub struct Deadlock {
    /// Who found it.
    pub engine: Engine,
    /// At which level the witness was checked.
    pub level: Level,
    /// The acquires that wait for each other.
    pub pending: Vec<EventId>,
    /// What happens before. The checker has accepted it.
    pub witness: Schedule,
}

/// A pair that an engine believes in and that was not proved.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Who believes in it.
    pub engine: Engine,
    /// The earlier of the two events in the trace.
    pub first: EventId,
    /// The later one.
    pub second: EventId,
    /// Locks that the thread of `first` holds there.
    pub locks_first: Vec<LockId>,
    /// Locks that the thread of `second` holds there.
    pub locks_second: Vec<LockId>,
    /// How many pairs of events share the pair of locations.
    pub count: u64,
    /// Why it is no more than that, in a few words.
    pub reason: String,
}

/// What one engine did.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineReport {
    /// Which one.
    pub engine: Engine,
    /// It looked only for what this engine had not proved before it.
    pub beyond: Option<Engine>,
    /// Time for the engine's own passes and the proofs.
    pub seconds: f64,
    /// Events per second of the engine's own first pass.
    pub events_per_second: f64,
    /// Bytes that the engine's state took at its largest, or the process's peak where that is larger.
    pub peak_memory_bytes: u64,
    /// Events that race with an earlier event.
    pub warnings: u64,
    /// Distinct pairs of locations before proof.
    pub location_pairs: u64,
    /// False if a budget, a limit or the user cut it short.
    pub complete: bool,
    /// CP and WCP only.
    pub reduction: Option<Reduction>,
    /// Lock histories only.
    pub searches: Option<Searches>,
}

impl EngineReport {
    /// Of an engine that was not done, or not begun.
    pub(crate) fn unfinished(engine: Engine, beyond: Option<Engine>) -> EngineReport {
        EngineReport {
            engine,
            beyond,
            seconds: 0.0,
            events_per_second: 0.0,
            peak_memory_bytes: peak_memory(),
            warnings: 0,
            location_pairs: 0,
            complete: false,
            reduction: None,
            searches: None,
        }
    }
}

/// What the searches of lock histories did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Searches {
    /// Pairs that happens-before and locksets left, and that were asked about.
    pub queries: u64,
    /// Of these, those that can be reached.
    pub reachable: u64,
    /// Recursive calls.
    pub calls: u64,
    /// Calls that searches without pruning would make.
    pub potential: u64,
    /// How often both branches were taken.
    pub both: u64,
    /// How often lock consistency left one out.
    pub lcc: u64,
    /// How often redundancy left one out.
    pub rc: u64,
    /// Calls without incrementality, where that was counted.
    pub anew: Option<u64>,
}

impl Searches {
    pub(crate) fn of(done: snag_engines::lock_history::Statistics, anew: Option<u64>) -> Searches {
        Searches {
            queries: done.queries,
            reachable: done.reachable,
            calls: done.calls,
            potential: done.potential,
            both: done.both,
            lcc: done.lcc,
            rc: done.rc,
            anew,
        }
    }
}

/// What an engine has left open, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    /// Which engine.
    pub engine: Engine,
    /// What is counted.
    pub what: Subject,
    /// In a few words.
    pub reason: String,
    /// How many.
    pub count: u64,
}

/// What a question is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    /// Events that were not looked at.
    Event,
    /// Bytes of the file that were not read.
    Byte,
    /// Two locations that may race.
    LocationPair,
    /// Acquires that may wait for each other.
    Cycle,
    /// An acquire that may be part of cycles, not all of which were looked at.
    Acquire,
}

impl Subject {
    /// One of them, in words.
    pub fn noun(self) -> &'static str {
        match self {
            Subject::Event => "event",
            Subject::Byte => "byte",
            Subject::LocationPair => "pair of locations",
            Subject::Cycle => "cycle of locks",
            Subject::Acquire => "nested acquire",
        }
    }

    /// Several of them.
    pub fn nouns(self) -> &'static str {
        match self {
            Subject::Event => "events",
            Subject::Byte => "bytes",
            Subject::LocationPair => "pairs of locations",
            Subject::Cycle => "cycles of locks",
            Subject::Acquire => "nested acquires",
        }
    }
}

/// How CP and WCP went about a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reduction {
    /// Events that were left of the trace.
    pub events: u64,
    /// How often the fixpoint of CP was swept.
    pub sweeps: Option<u32>,
}

/// What is said of a witness for which there was no time.
pub(crate) const NOT_CHECKED: &str = "not checked in time";

/// Everything that was found in one trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Analysis {
    /// One entry per engine, in the order they ran.
    pub engines: Vec<EngineReport>,
    /// Proved races, engine by engine, in the order of their second events.
    pub races: Vec<Race>,
    /// Proved deadlocks.
    pub deadlocks: Vec<Deadlock>,
    /// What was not proved, if asked for.
    pub candidates: Vec<Candidate>,
    /// What engines that were cut short have left open.
    pub left: Vec<Left>,
    /// Engines for which the trace had no missing methods, although it has: neither they nor the checker of their
    /// witnesses knew of the order that these force.
    pub ignoring_missing: Vec<Engine>,
}

impl Analysis {
    /// Notes that an engine has left something open.
    pub(crate) fn leave(&mut self, engine: Engine, what: Subject, reason: &str, count: usize) {
        if count == 0 {
            return;
        }
        let known =
            self.left.iter_mut().find(|left| (left.engine, left.what) == (engine, what) && left.reason == reason);
        match known {
            Some(left) => left.count += count as u64,
            None => self.left.push(Left { engine, what, reason: reason.to_owned(), count: count as u64 }),
        }
    }

    /// Notes that an engine did not run at all, on a trace of so many events, and why.
    pub fn did_not_run(&mut self, engine: Engine, beyond: Option<Engine>, events: usize, reason: &str) {
        self.leave(engine, Subject::Event, reason, events);
        self.engines.push(EngineReport::unfinished(engine, beyond));
    }

    /// Whether what an engine found was found, and checked, as if no method were missing.
    pub fn ignores_missing(&self, engine: Engine) -> bool {
        self.ignoring_missing.contains(&engine)
    }

    /// The same if there was no time to prove anything with the whole trace in view: what was found is counted.
    pub(crate) fn none_proved(&self) -> Analysis {
        let Analysis { engines, left, ignoring_missing, .. } = self;
        let (engines, left, ignoring_missing) = (engines.clone(), left.clone(), ignoring_missing.clone());
        let mut counted = Analysis { engines, left, ignoring_missing, ..Analysis::default() };
        counted.count_candidates(&self.candidates);
        let races = self.races.iter().map(|race| (race.engine, Subject::LocationPair));
        let deadlocks = self.deadlocks.iter().map(|deadlock| (deadlock.engine, Subject::Cycle));
        for (engine, what) in races.chain(deadlocks) {
            counted.leave(engine, what, NOT_CHECKED, 1);
            counted
                .engines
                .iter_mut()
                .filter(|report| report.engine == engine)
                .for_each(|report| report.complete = false);
        }
        counted
    }

    /// Notes that candidates were left open, if nobody has: those that nobody had the time for are counted when that is seen.
    pub(crate) fn count_candidates(&mut self, candidates: &[Candidate]) {
        let counted: Vec<(Engine, String)> = self
            .left
            .iter()
            .filter(|left| left.what == Subject::LocationPair)
            .map(|left| (left.engine, left.reason.clone()))
            .collect();
        for Candidate { engine, reason, .. } in candidates {
            let known = counted.iter().any(|(other, why)| (other, why) == (engine, reason));
            if !known {
                self.leave(*engine, Subject::LocationPair, reason, 1);
            }
            self.engines
                .iter_mut()
                .filter(|report| report.engine == *engine)
                .for_each(|report| report.complete = false);
        }
    }

    /// What another part of the analysis has found.
    pub(crate) fn add(&mut self, mut other: Analysis) {
        self.ignoring_missing.append(&mut other.ignoring_missing);
        self.engines.append(&mut other.engines);
        self.races.append(&mut other.races);
        self.deadlocks.append(&mut other.deadlocks);
        self.candidates.append(&mut other.candidates);
        self.left.append(&mut other.left);
    }

    /// The same if the engines looked at the trace as if no method were missing.
    pub(crate) fn ignoring(mut self) -> Analysis {
        self.ignoring_missing.extend(self.engines.iter().map(|report| report.engine));
        self
    }

    /// Engines in the order in which they were asked for, whatever the order in which they ran.
    pub(crate) fn put_in_order(&mut self, asked: &[Engine]) {
        let order: Vec<Engine> = asked.iter().flat_map(|engine| engine.parts().iter().copied()).collect();
        let place = |engine: Engine| order.iter().position(|&other| other == engine).unwrap_or(order.len());
        self.engines.sort_by_key(|report| place(report.engine));
        self.races.sort_by_key(|race| place(race.engine));
        self.deadlocks.sort_by_key(|deadlock| place(deadlock.engine));
        self.candidates.sort_by_key(|candidate| place(candidate.engine));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_that_are_not_proved_in_time_are_counted_once() {
        let candidate = |reason: &str| Candidate {
            engine: Engine::Shb,
            first: EventId(0),
            second: EventId(1),
            locks_first: Vec::new(),
            locks_second: Vec::new(),
            count: 1,
            reason: reason.to_owned(),
        };
        let mut analysis = Analysis::default();
        analysis.engines.push(EngineReport { complete: true, ..EngineReport::unfinished(Engine::Shb, None) });
        analysis.candidates = vec![candidate("refused"), candidate("refused"), candidate(NOT_CHECKED)];
        // What there was no time for was counted when that was seen.
        analysis.leave(Engine::Shb, Subject::LocationPair, NOT_CHECKED, 1);
        let counted = analysis.none_proved();
        let left: Vec<(&str, u64)> = counted.left.iter().map(|left| (left.reason.as_str(), left.count)).collect();
        assert_eq!(left, [(NOT_CHECKED, 1), ("refused", 2)]);
        assert!(counted.candidates.is_empty() && !counted.engines[0].complete);
    }
}
