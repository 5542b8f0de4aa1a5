//! Everything a small program can do.
//!
//! All states that some schedule reaches are visited, each once; two states are the
//! same if memory, locks and threads are, where values that no thread will use again
//! do not count. That loses nothing: what can happen in a state depends on the state
//! alone. Steps of a thread that no other thread can see are not interleaved.
//!
//! A race is real if in some state two threads have as their next steps accesses to
//! the same cell, one of them a write. There are no locks to look at and no order to compute:
//! it is the definition.
//!
//! Cost: the number of states, which grows exponentially with the number of threads;
//! a limit keeps it in check.

use crate::live::Liveness;
use crate::machine::{Observer, State, Status};
use crate::program::Program;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// States may take so much memory, about half of it at a time.
const MOST_BYTES: usize = 2 << 30;

/// One access of a race.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Access {
    /// Where, as in the locations of traces.
    pub location: String,
    /// Whether it writes.
    pub writes: bool,
}

/// A race that really happens in some schedule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RealRace {
    /// The name of the cell.
    pub variable: String,
    /// The access with the smaller location.
    pub first: Access,
    /// The other one.
    pub second: Access,
}

/// What can go wrong in a program.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// Races.
    pub races: BTreeSet<RealRace>,
    /// Of each race, the threads that make the steps to it; no schedule has fewer.
    pub ways: BTreeMap<RealRace, Vec<usize>>,
    /// Failures: location and message.
    pub failures: BTreeSet<(String, String)>,
    /// States in which threads wait for each other or for what never comes: of each thread that waits, its name and where.
    pub deadlocks: BTreeSet<Vec<(String, String)>>,
    /// States visited.
    pub states: usize,
    /// Whether that were all.
    pub complete: bool,
}

impl Explored {
    /// The races as unordered pairs of locations, the smaller one first.
    pub fn location_pairs(&self) -> BTreeSet<(String, String)> {
        self.races.iter().map(|race| (race.first.location.clone(), race.second.location.clone())).collect()
    }
}

/// Visits the states of a program, at most so many.
pub fn explore(program: &Program, most_states: usize) -> Explored {
    explore_until(program, most_states, &|| false)
}

/// The same, unless `stop` says that it is enough.
pub fn explore_until(program: &Program, most_states: usize, stop: &dyn Fn() -> bool) -> Explored {
    let liveness = Liveness::of(program);
    let mut explored = Explored { complete: true, ..Explored::default() };
    let mut watch = Watch { program, failures: BTreeSet::new() };
    let mut start = State::start(program, &mut watch);
    liveness.forget_dead(&mut start);
    // States in the order in which they were found, each with the one it was found from and the step that led to it.
    let mut order: Vec<(State, usize, usize)> = vec![(start.clone(), usize::MAX, 0)];
    let mut seen: HashSet<State> = HashSet::from([start]);
    let (mut next, mut bytes) = (0, 0);
    while next < order.len() {
        if stop() {
            explored.complete = false;
            break;
        }
        let state = order[next].0.clone();
        let mut moved = false;
        found_races(program, &state, next, &order, &mut explored);
        for thread in 0..program.threads.len() {
            if !state.can_step(program, thread) {
                continue;
            }
            moved = true;
            for choice in 0..state.choices(program, thread) {
                let mut after = state.clone();
                after.step(program, thread, choice, &mut watch);
                liveness.forget_dead(&mut after);
                if seen.contains(&after) {
                    continue;
                }
                bytes += size(&after);
                if seen.len() >= most_states || bytes > MOST_BYTES {
                    explored.complete = false;
                    continue;
                }
                seen.insert(after.clone());
                order.push((after, next, thread));
            }
        }
        if !moved {
            stuck(program, &state, &mut explored);
        }
        // The state itself is not needed any more, only how it was reached.
        order[next].0 = State { cells: Vec::new(), locks: Vec::new(), threads: Vec::new() };
        next += 1;
    }
    explored.states = seen.len();
    explored.failures = watch.failures;
    explored
}

/// About the memory that a state takes.
fn size(state: &State) -> usize {
    let slots: usize = state.threads.iter().flat_map(|thread| &thread.frames).map(|frame| frame.slots.len() + 8).sum();
    16 * (state.cells.len() + slots) + 8 * state.locks.len() + 100
}

fn found_races(
    program: &Program,
    state: &State,
    number: usize,
    order: &[(State, usize, usize)],
    explored: &mut Explored,
) {
    let accesses: Vec<(usize, usize, bool, u32)> = (0..program.threads.len())
        .filter_map(|thread| {
            let (cell, writes, line) = state.next_access(program, thread)?;
            Some((thread, cell, writes, line))
        })
        .collect();
    for (index, a) in accesses.iter().enumerate() {
        for b in &accesses[..index] {
            if a.1 != b.1 || !(a.2 || b.2) {
                continue;
            }
            let access = |of: &(usize, usize, bool, u32)| Access {
                location: format!("{}:{}", program.file, of.3),
                writes: of.2,
            };
            let (mut first, mut second) = (access(a), access(b));
            if second < first {
                std::mem::swap(&mut first, &mut second);
            }
            let race = RealRace { variable: program.cells[a.1].name.clone(), first, second };
            if explored.races.insert(race.clone()) {
                explored.ways.insert(race, way(order, number));
            }
        }
    }
}

/// The threads that make the steps to a state.
fn way(order: &[(State, usize, usize)], mut number: usize) -> Vec<usize> {
    let mut steps = Vec::new();
    while order[number].1 != usize::MAX {
        steps.push(order[number].2);
        number = order[number].1;
    }
    steps.reverse();
    steps
}

fn stuck(program: &Program, state: &State, explored: &mut Explored) {
    // Who waits for a thread that has failed is a consequence of the failure.
    if state.threads.iter().any(|thread| thread.status == Status::Failed) {
        return;
    }
    let mut waiting = Vec::new();
    for (thread, code) in program.threads.iter().enumerate() {
        if matches!(state.threads[thread].status, Status::Done | Status::NotForked) {
            continue;
        }
        let line = state.instruction(program, thread).map_or(0, |(_, line)| line);
        let why = crate::run::why(program, state, thread);
        waiting.push((code.name.clone(), format!("{}:{line}: {why}", program.file)));
    }
    if !waiting.is_empty() {
        explored.deadlocks.insert(waiting);
    }
}

struct Watch<'p> {
    program: &'p Program,
    failures: BTreeSet<(String, String)>,
}

impl Observer for Watch<'_> {
    fn fails(&mut self, _: usize, line: u32, message: &str) {
        self.failures.insert((format!("{}:{line}", self.program.file), message.to_owned()));
    }
}
