//! Races of a trace that has no end: found, proved and handed out while it is read, in bounded memory.
//!
//! Engine: lock histories with strategy II. Guarantee: as everywhere, a race is handed out only with a witness that the
//! checker accepted, here on the [window] that is kept. What is given up: accesses farther apart than the window
//! are not paired, and what no schedule within the window proves is a candidate.
//!
//! Pairs are proved in batches, because the checker first has to read the window. A batch is due when the stream
//! pauses, or some time after its first pair was found; proofs take no more than half of the time. That is for the sake of
//! those who wait for a finding. What comes out does not depend on it: a pair that is not proved so is tried again when a
//! fixed number of events has been read, and only then is it given up, or its locations are looked at again.
//! Every pair that was found is in the end a race, or listed as not proved, or `complete` is false.

mod cells;
mod hold;
pub mod window;

use cells::{Pieces, overlap};
use snag_checker::Checker;
use snag_engines::lock_history::races::{Found, Races, Settings};
use snag_engines::lock_history::{Observer, Strategy};
use snag_engines::{EngineRef, Searches, TLH2};
use snag_model::events::Event;
use snag_model::{Action, Cells, EventId, Events, LocId, LockId, Tables, Trace};
use snag_model::{Level, Schedule};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use window::Window;

/// Who finds the races of a stream.
pub const ENGINE: EngineRef = TLH2;

/// So long a pair waits for others, if the stream does not pause.
const PATIENCE: Duration = Duration::from_millis(20);

/// A batch of proofs ends after this long; what is left is for the next one.
const BATCH: Duration = Duration::from_millis(40);

/// So often a pair of locations is tried with other accesses if it could not be proved.
const TRIES: u8 = 64;

/// At most so many pairs are found between two settlements.
const WAITING: usize = 4096;

/// Settlements are at least so many events apart, and at least this part of the window, so that to read the window for
/// them costs a few times what it costs to read the events, whatever happens.
const APART: u64 = 4096;
const PARTS: u64 = 4;

/// So many events are read before somebody looks whether proofs are due.
const SLICE: usize = 4096;

/// One of the two accesses of a finding.
#[derive(Clone, Debug)]
pub struct Access {
    /// Its number in the stream.
    pub number: EventId,
    /// The event.
    pub event: Event,
    /// Locks that its thread holds there.
    pub locks: Vec<LockId>,
}

/// A race with its proof.
#[derive(Clone, Debug)]
pub struct Race {
    /// The earlier access.
    pub first: Access,
    /// The later one.
    pub second: Access,
    /// All events before this one happen as they did.
    pub as_observed: EventId,
    /// Then these.
    pub then: Vec<EventId>,
}

/// A pair that was not proved.
#[derive(Clone, Debug)]
pub struct Unproved {
    /// The earlier access.
    pub first: Access,
    /// The later one.
    pub second: Access,
    /// Why.
    pub reason: String,
}

/// What came of a pair of locations.
#[derive(Default)]
struct Tries {
    /// How often it could not be proved.
    failed: u8,
    /// The pair of events that is listed for it.
    listed: Option<(EventId, EventId)>,
}

/// The analysis of a stream.
pub struct Online {
    races: Races,
    pieces: Pieces,
    window: Window,
    half: u32,
    /// Found and not yet tried; since when the oldest one waits.
    waiting: Vec<Found>,
    /// Tried in vain since the last settlement.
    tried: Vec<Found>,
    /// Found since then.
    found: usize,
    /// The number of events after which the next one is due.
    settle_at: u64,
    /// Whether there is room for more findings.
    looking: bool,
    since: Instant,
    /// No proofs before.
    rest_until: Instant,
    tries: HashMap<(LocId, LocId), Tries>,
    most: usize,
    /// Events so far.
    pub events: u64,
    /// Races handed out so far.
    pub proved: u64,
    /// What could not be proved so far, by its later and its earlier event; at most `most`.
    pub unproved: BTreeMap<(EventId, EventId), Unproved>,
    /// False if some limit was reached.
    pub complete: bool,
}

impl Online {
    /// For a window of at least so many events, and at most twice as many; and so many findings.
    pub fn new(window: usize, most: usize) -> Online {
        // What is held back over a long way is seldom proved at level `writer`, and proofs are what costs time here.
        let settings = Settings { final_at_once: false, hold_back: false, ..Settings::of(Strategy::Two) };
        let settings = Settings { pairs: usize::MAX, ..settings };
        let now = Instant::now();
        Online {
            races: Races::new(Observer::new(Strategy::Two, None), settings),
            pieces: Pieces::default(),
            window: Window::default(),
            half: window.clamp(2, 1 << 30) as u32,
            waiting: Vec::new(),
            tried: Vec::new(),
            found: 0,
            settle_at: APART,
            looking: most > 0,
            since: now,
            rest_until: now,
            tries: HashMap::new(),
            most,
            events: 0,
            proved: 0,
            unproved: BTreeMap::new(),
            complete: true,
        }
    }

    /// The next events of the stream, from one of a block on, a few thousand at once. Returns where to go on: if
    /// [`Online::must_prove`] says so, [`Online::prove`] has to be called before.
    pub fn read(&mut self, events: &Events, from: usize, tables: &Tables) -> usize {
        let end = events.len().min(from.saturating_add(SLICE));
        for index in from..end {
            let due = self.window.is_due(self.half);
            if due || self.events >= self.settle_at {
                if self.is_pending() {
                    return index;
                }
                self.settled();
                if due {
                    self.rotate(tables);
                }
            }
            let number = EventId(self.events as u32);
            let event = events.get(index);
            let action = event.action();
            if let Some(variable) = action.variable().filter(|_| event.op.touches_memory()) {
                if self.looking {
                    let cells = self.pieces.of(variable, tables).iter().map(|&cell| cell as usize);
                    self.races.access(number, &event, tables, cells, |a, b| overlap(tables, a, b));
                } else {
                    self.complete = false;
                }
            } else {
                self.races.event(number, &event, tables);
                if let Action::Alloc { variable } = action {
                    // What was at this address before was other memory.
                    let cells = self.pieces.of(variable, tables);
                    cells.iter().for_each(|&cell| self.races.forget_cell(cell as usize));
                }
            }
            self.window.push(&event);
            self.events += 1;
            if !self.races.found.is_empty() {
                self.take_found();
            }
        }
        end
    }

    /// Whether some pair that was found is neither proved nor given up.
    fn is_pending(&self) -> bool {
        !self.waiting.is_empty() || !self.tried.is_empty()
    }

    /// Whether nothing more can be read before all that was found is settled.
    pub fn must_prove(&self) -> bool {
        self.is_pending() && (self.events >= self.settle_at || self.window.is_due(self.half))
    }

    /// Nothing is pending any more.
    fn settled(&mut self) {
        self.found = 0;
        self.settle_at = self.events + APART.max(self.window.events.len() as u64 / PARTS);
        self.looking = self.proved + (self.unproved.len() as u64) < self.most as u64;
        self.complete &= self.races.complete;
    }

    fn take_found(&mut self) {
        if self.waiting.is_empty() {
            self.since = Instant::now();
        }
        let room = WAITING.saturating_sub(self.found);
        if self.races.found.len() > room {
            self.complete = false;
            self.races.found.truncate(room);
        }
        self.found += self.races.found.len();
        self.waiting.append(&mut self.races.found);
        self.races.standoffs.clear();
    }

    /// A new base: the snapshot from which searches start is as old as the window at the most.
    fn rotate(&mut self, tables: &Tables) {
        let now = EventId(self.events as u32);
        let base = self.window.rotate(&self.races.reach.observer, tables);
        self.races.reach.observer.take_snapshot(now);
        self.races.forget_before(base);
    }

    /// Whether proofs should be tried now. `idle`: nothing else is to be done.
    pub fn is_due(&self, idle: bool) -> bool {
        let now = Instant::now();
        !self.waiting.is_empty() && (idle || now >= self.since + PATIENCE && now >= self.rest_until)
    }

    /// Tries to prove what was found. `tables` are those of the stream. With `all`, without a limit of time, and what is not
    /// proved is settled.
    pub fn prove(&mut self, tables: &mut Tables, all: bool) -> Vec<Race> {
        let mut proved = Vec::new();
        if self.is_pending() {
            let started = Instant::now();
            let events = std::mem::take(&mut self.window.events);
            let trace = Trace { tables: std::mem::take(tables), events };
            self.prove_on(&trace, all, &mut proved);
            self.since = Instant::now();
            self.rest_until = self.since + (self.since - started);
            (*tables, self.window.events) = (trace.tables, trace.events);
        }
        if all {
            self.settled();
        }
        proved
    }

    fn prove_on(&mut self, trace: &Trace, all: bool, proved: &mut Vec<Race>) {
        let cells = Cells::of(trace);
        let checker = Checker::new(trace, &cells);
        if all {
            let tried = std::mem::take(&mut self.tried);
            drop(self.waiting.splice(0..0, tried));
        }
        let mut waiting = std::mem::take(&mut self.waiting).into_iter();
        let read = Instant::now();
        while all || read.elapsed() < BATCH {
            let Some(found) = waiting.next() else { break };
            match self.try_pair(&found, trace, &cells, &checker) {
                Ok(race) if self.proved < self.most as u64 => {
                    let listed = self
                        .tries
                        .get_mut(&ordered([race.first.event.location, race.second.event.location]))
                        .and_then(|tries| tries.listed.take());
                    if let Some(pair) = listed {
                        self.unproved.remove(&pair);
                    }
                    self.proved += 1;
                    proved.push(race);
                }
                Ok(_) => self.complete = false,
                Err(_) if !all => self.tried.push(found),
                Err(Some(unproved)) => self.give_up(&found, *unproved),
                // It should have been tried while it was in the window.
                Err(None) => self.complete = false,
            }
        }
        self.waiting = waiting.collect();
    }

    /// A proof; or what was not proved, unless it has left the window.
    fn try_pair(
        &mut self,
        found: &Found,
        trace: &Trace,
        cells: &Cells,
        checker: &Checker,
    ) -> Result<Race, Option<Box<Unproved>>> {
        let numbers = [found.first.event, found.second.event];
        let [Some(first), Some(second)] = numbers.map(|event| self.window.inner(event)) else { return Err(None) };
        let access = |at: &snag_engines::lock_history::At, inner: EventId| Access {
            number: at.event,
            event: trace.event(inner),
            locks: self.races.reach.observer.sets().locks(at.set).iter().map(|held| held.0).collect(),
        };
        let [first_access, second_access] = [access(&found.first, first), access(&found.second, second)];
        let mut reason = "no schedule within the window was found that shows it".to_owned();
        for attempt in [Attempt::Hold, Attempt::Search] {
            let Some((as_observed, then)) = self.propose(attempt, found, [first, second], trace, cells) else {
                continue;
            };
            let schedule = Schedule::Continued { as_observed, then };
            match checker.check_race(schedule.iter(trace), first, second, Level::Writer) {
                Ok(()) => {
                    let Schedule::Continued { as_observed, then } = schedule else { unreachable!("made above") };
                    return Ok(Race {
                        first: first_access,
                        second: second_access,
                        as_observed: self.window.outer(as_observed),
                        then: then.into_iter().map(|event| self.window.outer(event)).collect(),
                    });
                }
                Err(violation) => reason = format!("the schedule found was refused: {}", violation.rule.text()),
            }
        }
        Err(Some(Box::new(Unproved { first: first_access, second: second_access, reason })))
    }

    /// Lists a pair as not proved. Its locations are looked at again, with other accesses, which may yet prove them.
    fn give_up(&mut self, found: &Found, unproved: Unproved) {
        let pair = (found.second.event, found.first.event);
        let places = [unproved.first.event.location, unproved.second.event.location];
        let mut listed = false;
        if !places.contains(&LocId::NONE) {
            let tries = self.tries.entry(ordered(places)).or_default();
            tries.failed = tries.failed.saturating_add(1);
            listed = tries.listed.is_some();
            tries.listed.get_or_insert(pair);
            if tries.failed < TRIES {
                self.races.reopen((places[0], found.first.event), (places[1], found.second.event));
            }
        }
        if !listed {
            if self.unproved.len() < self.most {
                self.unproved.insert(pair, unproved);
            } else {
                self.complete = false;
            }
        }
    }

    /// A schedule in numbers of the window.
    fn propose(
        &mut self,
        attempt: Attempt,
        found: &Found,
        [first, second]: [EventId; 2],
        trace: &Trace,
        cells: &Cells,
    ) -> Option<(EventId, Vec<EventId>)> {
        match attempt {
            Attempt::Hold => hold::hold(trace, cells, first, second).map(|then| (first, then)),
            Attempt::Search => {
                let window = &self.window;
                let threads = trace.events.threads();
                let mut events = |thread, from: EventId, to: EventId| {
                    let (Some(start), Some(end)) = (window.inner(from), window.inner(to)) else { return Vec::new() };
                    let inner = (start.index()..end.index()).filter(|&event| threads[event] == thread);
                    inner.map(|event| window.outer(EventId::new(event))).collect()
                };
                let schedule = self.races.reach.schedule(&found.first, &found.second, &mut events)?;
                let Schedule::Continued { as_observed, then } = schedule else { return None };
                let then = then.into_iter().map(|event| window.inner(event)).collect::<Option<Vec<_>>>()?;
                Some((window.inner(as_observed)?, then))
            }
        }
    }

    /// What the searches did.
    pub fn searches(&self) -> Searches {
        Searches { done: self.races.statistics(), anew: None }
    }
}

fn ordered([a, b]: [LocId; 2]) -> (LocId, LocId) {
    (a.min(b), a.max(b))
}

#[derive(Clone, Copy)]
enum Attempt {
    /// As observed, except that one thread stops.
    Hold,
    /// As the search for the pair found it.
    Search,
}
