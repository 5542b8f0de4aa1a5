//! What was found in a trace.

use crate::memory::peak_memory;
use crate::options::Choice;
use crate::plan::place_in_report;
use snag_checker::{Checker, Violation};
use snag_engines::{EngineRef, Reduction, Searches, Subject};
use snag_model::{EventId, FaultKind, Level, LockId, Op, RaceKind, Schedule, Trace};

/// A race with its proof.
#[derive(Clone, Debug, PartialEq)]
pub struct Race {
    /// Who found it.
    pub engine: EngineRef,
    /// What the witness shows.
    pub kind: RaceKind,
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
    /// What happens before the pair, or, if the kind is [`RaceKind::Order`], up to its later event. The checker has accepted it.
    pub witness: Schedule,
    /// The wake-ups of the witness that come for no reason, as those of waits on condition variables may.
    pub spurious: Vec<EventId>,
    /// At level `symbolic`: the branches of the witness that go the other way.
    pub diverging: Vec<EventId>,
    /// At level `symbolic`: the value that every read of the witness takes, in order, as far as known.
    pub reads: Vec<(EventId, i64)>,
    /// How many pairs of events share the pair of locations.
    pub count: u64,
}

impl Race {
    /// Whether the recorded run itself shows it, up to its later event.
    pub fn is_observed(&self) -> bool {
        let as_it_was = |witness: &Schedule| *witness == Schedule::up_to(self.second);
        self.kind == RaceKind::Order && as_it_was(&self.witness)
    }
}

/// A deadlock with its proof.
#[derive(Clone, Debug, PartialEq)]
pub struct Deadlock {
    /// Who found it.
    pub engine: EngineRef,
    /// At which level the witness was checked.
    pub level: Level,
    /// The acquires that wait for each other.
    pub pending: Vec<EventId>,
    /// For each of them, the locks that its thread holds there.
    pub held: Vec<Vec<LockId>>,
    /// What happens before. The checker has accepted it.
    pub witness: Schedule,
    /// The wake-ups of the witness that come for no reason, as those of waits on condition variables may.
    pub spurious: Vec<EventId>,
    /// How many sets of acquires at these locations wait for each other, as far as locks and the order go that all
    /// schedules share.
    pub count: u64,
}

/// Something that went wrong in the recorded run, or may.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Who found it.
    pub engine: EngineRef,
    /// What.
    pub kind: FaultKind,
    /// What made it wrong: the free of the memory, the last event that took or gave back the lock, if there is one, or
    /// the use of what is destroyed.
    pub first: Option<EventId>,
    /// The event that was wrong. The checker has accepted it.
    pub second: EventId,
    /// How many pairs of events share their locations.
    pub count: u64,
    /// What happens before both, if it may happen and did not. The checker has accepted it.
    pub witness: Option<Schedule>,
}

impl Fault {
    /// The level at which witnesses of faults are checked.
    pub const LEVEL: Level = Level::Writer;

    /// Whether the checker accepts it.
    pub(crate) fn check(&self, trace: &Trace, checker: &Checker) -> Result<(), Violation> {
        match (&self.witness, self.first) {
            (Some(witness), Some(first)) => {
                checker.check_end_in_use(witness.iter(trace), first, self.second, Fault::LEVEL)
            }
            (_, first) => checker.check_fault(self.kind, first, self.second),
        }
    }
}

/// A pair that an engine believes in and that was not proved.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Who believes in it.
    pub engine: EngineRef,
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

impl Candidate {
    /// The level at which candidates are listed: engines that leave any know no other.
    pub const LEVEL: Level = Level::Writer;
}

/// What one engine did.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineReport {
    /// Which one.
    pub engine: EngineRef,
    /// It looked only for what this engine had not proved before it.
    pub beyond: Option<EngineRef>,
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
    pub(crate) fn unfinished(engine: EngineRef, beyond: Option<EngineRef>) -> EngineReport {
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

/// What an engine has left open, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    /// Which engine.
    pub engine: EngineRef,
    /// What is counted.
    pub what: Subject,
    /// In a few words.
    pub reason: String,
    /// How many.
    pub count: u64,
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
    /// What went wrong in the recorded run.
    pub faults: Vec<Fault>,
    /// What was not proved, if asked for.
    pub candidates: Vec<Candidate>,
    /// What engines that were cut short have left open.
    pub left: Vec<Left>,
    /// Engines for which the trace had no missing methods, although it has: neither they nor the checker of their
    /// witnesses knew of the order that these force.
    pub ignoring_missing: Vec<EngineRef>,
    /// Code that ran and that the trace has nothing of, and why: what it did may rule out what was found.
    pub unseen: Vec<String>,
}

impl Analysis {
    /// Notes that an engine has left something open.
    pub(crate) fn leave(&mut self, engine: EngineRef, what: Subject, reason: &str, count: usize) {
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

    /// Notes that an engine was not done.
    pub(crate) fn unfinished(&mut self, engine: EngineRef, beyond: Option<EngineRef>) {
        self.engines.push(EngineReport::unfinished(engine, beyond));
    }

    /// Notes that an engine did not run at all, on a trace of so many events, and why.
    pub fn did_not_run(&mut self, engine: EngineRef, beyond: Option<EngineRef>, events: usize, reason: &str) {
        self.leave(engine, Subject::Event, reason, events);
        self.engines.push(EngineReport::unfinished(engine, beyond));
    }

    /// Whether what an engine found was found, and checked, as if no method were missing.
    pub fn ignores_missing(&self, engine: EngineRef) -> bool {
        self.ignoring_missing.contains(&engine)
    }

    /// Whether what an engine found may be impossible, although the checker has accepted it: something that ran was left
    /// out of what it has judged.
    pub fn is_doubtful(&self, engine: EngineRef) -> bool {
        self.ignores_missing(engine) || !self.unseen.is_empty()
    }

    /// Leaves out what may be impossible because of code that nobody saw; how much that was. What happened stays.
    pub fn drop_doubtful(&mut self, trace: &Trace) -> usize {
        let count = |all: &Analysis| all.races.len() + all.deadlocks.len() + all.faults.len() + all.candidates.len();
        let before = count(self);
        if !self.unseen.is_empty() {
            let happened = |&event: &EventId| trace.events.ops()[event.index()] == Op::Want;
            self.races.clear();
            self.deadlocks.retain(|deadlock| deadlock.pending.iter().all(happened));
            self.faults.retain(|fault| fault.witness.is_none());
            self.candidates.clear();
        }
        before - count(self)
    }

    /// The same if there was no time to prove anything with the whole trace in view: what was found is counted.
    pub(crate) fn none_proved(&self) -> Analysis {
        let Analysis { engines, left, ignoring_missing, .. } = self;
        let (engines, left, ignoring_missing) = (engines.clone(), left.clone(), ignoring_missing.clone());
        let mut counted = Analysis { engines, left, ignoring_missing, ..Analysis::default() };
        counted.count_candidates(&self.candidates);
        let races = self.races.iter().map(|race| (race.engine, Subject::LocationPair));
        let deadlocks = self.deadlocks.iter().map(|deadlock| (deadlock.engine, Subject::Cycle));
        let faults = self.faults.iter().map(|fault| (fault.engine, Subject::LocationPair));
        for (engine, what) in races.chain(deadlocks).chain(faults) {
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
        let counted: Vec<(EngineRef, String)> = self
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
        self.faults.append(&mut other.faults);
        self.candidates.append(&mut other.candidates);
        self.left.append(&mut other.left);
    }

    /// The same if the engines looked at the trace as if no method were missing.
    pub(crate) fn ignoring(mut self) -> Analysis {
        self.ignoring_missing.extend(self.engines.iter().map(|report| report.engine));
        self
    }

    /// Engines in the order in which they were asked for, whatever the order in which they ran.
    pub(crate) fn put_in_order(&mut self, asked: &[Choice]) {
        let place = place_in_report(asked);
        self.engines.sort_by_key(|report| place(report.engine));
        self.races.sort_by_key(|race| place(race.engine));
        self.deadlocks.sort_by_key(|deadlock| place(deadlock.engine));
        self.faults.sort_by_key(|fault| place(fault.engine));
        self.candidates.sort_by_key(|candidate| place(candidate.engine));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use snag_engines::SHB;

    #[test]
    fn candidates_that_are_not_proved_in_time_are_counted_once() {
        let candidate = |reason: &str| Candidate {
            engine: SHB,
            first: EventId(0),
            second: EventId(1),
            locks_first: Vec::new(),
            locks_second: Vec::new(),
            count: 1,
            reason: reason.to_owned(),
        };
        let mut analysis = Analysis::default();
        analysis.engines.push(EngineReport { complete: true, ..EngineReport::unfinished(SHB, None) });
        analysis.candidates = vec![candidate("refused"), candidate("refused"), candidate(NOT_CHECKED)];
        // What there was no time for was counted when that was seen.
        analysis.leave(SHB, Subject::LocationPair, NOT_CHECKED, 1);
        let counted = analysis.none_proved();
        let left: Vec<(&str, u64)> = counted.left.iter().map(|left| (left.reason.as_str(), left.count)).collect();
        assert_eq!(left, [(NOT_CHECKED, 1), ("refused", 2)]);
        assert!(counted.candidates.is_empty() && !counted.engines[0].complete);
    }
}
