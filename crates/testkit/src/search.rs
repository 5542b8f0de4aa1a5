//! The oracle: every feasible schedule of a small trace, by exhaustive search.
//!
//! Guarantee: [`races`], [`deadlocks`] and [`races_respecting`] return exactly what
//! `docs/model.md` defines, no more and no less, at the level asked for. No
//! heuristic, no partial-order reduction; two schedules are identified only if they
//! contain the same events and leave the same behind for whatever may follow.
//!
//! Cost: exponential. All three levels of a trace of 16 events take 0.6 ms in the
//! mean, of 20 events about two; more than 63 events are refused.

use crate::facts::{Facts, Unit};
use crate::relation::Relation;
use snag_model::Level;
use snag_model::{Action, BarrierId, EventId, LockId, Mode, Op, Probe, ThreadId, Trace};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// All predictable races at a level; the earlier event in σ first.
pub fn races(trace: &Trace, level: Level) -> BTreeSet<(EventId, EventId)> {
    Search::new(trace, level, None).races()
}

/// The predictable races that some witness shows which respects `order`: an event
/// happens, or races, only after all that `order` puts before it.
pub fn races_respecting(trace: &Trace, level: Level, order: &Relation) -> BTreeSet<(EventId, EventId)> {
    Search::new(trace, level, Some(order)).races()
}

/// A witness for each predictable race at a level: the schedule before the pair.
pub fn race_witnesses(trace: &Trace, level: Level) -> BTreeMap<(EventId, EventId), Vec<EventId>> {
    let search = Search::new(trace, level, None);
    let mut found = BTreeMap::new();
    search.explore(|_, ready, schedule| {
        for race in search.racing(ready) {
            found.entry(race).or_insert_with(|| schedule.events());
        }
    });
    found
}

/// A witness for each predictable deadlock at a level: the schedule before the pending acquires.
pub fn deadlock_witnesses(trace: &Trace, level: Level) -> BTreeMap<BTreeSet<EventId>, Vec<EventId>> {
    let search = Search::new(trace, level, None);
    let mut found = BTreeMap::new();
    search.explore(|state, _, schedule| {
        for deadlock in search.deadlocks_at(state) {
            found.entry(deadlock).or_insert_with(|| schedule.events());
        }
    });
    found
}

/// All predictable deadlocks at a level: the pending acquires of threads that wait
/// for each other in a cycle, without bystanders.
pub fn deadlocks(trace: &Trace, level: Level) -> BTreeSet<BTreeSet<EventId>> {
    let search = Search::new(trace, level, None);
    let mut found = BTreeSet::new();
    search.explore(|state, _, _| found.extend(search.deadlocks_at(state)));
    found
}

/// Whether a schedule is feasible at a level.
pub fn is_feasible(trace: &Trace, schedule: &[EventId], level: Level) -> bool {
    let search = Search::new(trace, level, None);
    let mut state = search.start();
    schedule.iter().all(|event| {
        let event = event.index();
        let due = event < search.facts.len() && search.next_events(&state).any(|next| next == event);
        match search.execute_if(&state, event, due) {
            Some(after) => {
                state = after;
                true
            }
            None => false,
        }
    })
}

/// A set of events, one bit each.
pub(crate) type Set = u64;

pub(crate) fn bit(event: usize) -> Set {
    1 << event
}

pub(crate) fn set(events: impl IntoIterator<Item = usize>) -> Set {
    events.into_iter().fold(0, |all, event| all | bit(event))
}

/// Units of memory that exactly the same events touch, some of them reads. They
/// always have the same last write, so the state holds it once for all of them.
struct Variable {
    /// Events that read it.
    readers: Set,
    /// For each read of it: the writes that it may see, as far as this variable goes. Bit 0 is the
    /// initial memory, bit 1 + w the write w.
    allowed: BTreeMap<usize, u64>,
}

/// How a thread holds a lock: exclusively and for reading, and how often.
#[derive(Clone, Copy, Default)]
struct Hold {
    exclusive: u32,
    shared: u32,
}

/// What a schedule leaves behind. What is not here follows from which events happened.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    /// The events of the schedule.
    done: Set,
    /// Threads, one bit each, that have read something else than in σ.
    astray: u64,
    /// Wake-ups whose notify came before their wait began: they cannot happen any more.
    missed: Set,
    /// Last write of each variable: 0 for the initial memory, or 1 + the event, and `UNKNOWN` on top
    /// if what it left is not known. 0 if nobody will read the variable any more.
    memory: Vec<u8>,
}

/// Marks a write by a thread that had gone astray.
const UNKNOWN: u8 = 0x80;

struct Search<'t> {
    facts: Facts<'t>,
    level: Level,
    /// The events of each thread.
    threads: Vec<Set>,
    /// What must have happened before each event: rules 1 to 3 as far as they put events in order.
    needs: Vec<Set>,
    /// What the order to respect puts before each event.
    order: Vec<Set>,
    /// How each thread holds each lock after its first so many events.
    holds: Vec<Vec<Vec<Hold>>>,
    variables: Vec<Variable>,
    /// The variables each event reads, and those it writes.
    reads: Vec<Vec<usize>>,
    writes: Vec<Vec<usize>>,
    /// The events with which each event conflicts.
    conflicts: Vec<Set>,
}

impl<'t> Search<'t> {
    fn new(trace: &'t Trace, level: Level, order: Option<&Relation>) -> Search<'t> {
        let facts = Facts::of(trace);
        let count = facts.len();
        assert!(count <= 63, "{count} events are too many for an exhaustive search");
        // A trace without branches makes every read count: then `control` is `value`.
        let level = if level == Level::Control && !trace.has_branches() { Level::Value } else { level };
        let mut search = Search {
            level,
            threads: facts.threads.iter().map(|events| set(events.iter().copied())).collect(),
            needs: needs(&facts),
            order: vec![0; count],
            holds: holds(&facts),
            variables: Vec::new(),
            reads: vec![Vec::new(); count],
            writes: vec![Vec::new(); count],
            conflicts: (0..count).map(|a| set((0..count).filter(|&b| facts.conflict(a, b)))).collect(),
            facts,
        };
        if let Some(order) = order {
            assert_eq!(order.size(), count, "the order is one of another trace");
            search.order = (0..count).map(|event| set(order.before(EventId::new(event)).map(EventId::index))).collect();
        }
        search.find_variables();
        search
    }

    fn find_variables(&mut self) {
        let mut touching: BTreeMap<Unit, Vec<usize>> = BTreeMap::new();
        for event in 0..self.facts.len() {
            let accessed = if self.facts.events[event].op.is_access() { &self.facts.units[event][..] } else { &[] };
            for &unit in accessed.iter().chain(&self.facts.hidden[event]) {
                touching.entry(unit).or_default().push(event);
            }
        }
        let mut alike: BTreeMap<Vec<usize>, Vec<Unit>> = BTreeMap::new();
        for (unit, events) in touching {
            alike.entry(events).or_default().push(unit);
        }
        for (events, units) in alike {
            let op = |event: &usize| self.facts.events[*event].op;
            let reads = |event: &usize| op(event).reads() || op(event) == Op::MethodBegin;
            let writes = |event: &usize| op(event).writes() || matches!(op(event), Op::MethodBegin | Op::MethodEnd);
            let readers = set(events.iter().copied().filter(reads));
            if readers == 0 {
                continue;
            }
            let writers: Vec<usize> = events.iter().copied().filter(writes).collect();
            let mut allowed = BTreeMap::new();
            for &event in events.iter().filter(|e| reads(e)) {
                let may_see = |writer: Option<usize>| units.iter().all(|&unit| self.may_see(event, unit, writer));
                let mut mask = may_see(None) as u64;
                for &writer in writers.iter().filter(|&&w| may_see(Some(w))) {
                    mask |= bit(1 + writer);
                }
                allowed.insert(event, mask);
                self.reads[event].push(self.variables.len());
            }
            for writer in writers {
                self.writes[writer].push(self.variables.len());
            }
            self.variables.push(Variable { readers, allowed });
        }
    }

    /// Rule 4, for one unit: whether a read that must be kept may see that write (`None`: the initial
    /// memory), provided that what the write left is known if it was in σ.
    fn may_see(&self, read: usize, unit: Unit, writer: Option<usize>) -> bool {
        let in_trace = self.facts.seen_with_hidden[read][&unit];
        if writer == in_trace {
            return true;
        }
        if self.level == Level::Writer {
            return false;
        }
        // What missing code finds at its begin is explained by definition.
        let found = match self.facts.events[read].op {
            Op::MethodBegin => self.facts.left_by(in_trace, unit),
            _ => self.facts.found_by(read, unit),
        };
        let explained = found.is_some() && found == self.facts.left_by(in_trace, unit);
        let same_number = explained && found == self.facts.left_by(writer, unit);
        same_number && self.facts.points_to(in_trace) == self.facts.points_to(writer)
    }

    /// Before the first event.
    fn start(&self) -> State {
        State { done: 0, astray: 0, missed: 0, memory: vec![0; self.variables.len()] }
    }

    /// The state after an event, if it is due and all rules allow it.
    fn execute_if(&self, state: &State, event: usize, due: bool) -> Option<State> {
        (due && self.can_happen(state, event)).then(|| self.execute(state, event)).flatten()
    }

    /// Calls `visit` for every state that a feasible schedule leads to, with the events that rules 1 to 3 allow
    /// next and one such schedule.
    fn explore(&self, mut visit: impl FnMut(&State, &[usize], Route)) {
        let start = self.start();
        let mut steps: Vec<(usize, usize)> = vec![(0, 0)];
        let mut known = HashSet::from([start.clone()]);
        let mut open = vec![(start, 0)];
        while let Some((state, step)) = open.pop() {
            let ready: Vec<usize> = self.next_events(&state).filter(|&e| self.can_happen(&state, e)).collect();
            visit(&state, &ready, Route { steps: &steps, last: step });
            for event in ready {
                if let Some(after) = self.execute(&state, event)
                    && known.insert(after.clone())
                {
                    steps.push((step, event));
                    open.push((after, steps.len() - 1));
                }
            }
        }
    }

    fn races(&self) -> BTreeSet<(EventId, EventId)> {
        let mut found = BTreeSet::new();
        self.explore(|_, ready, _| found.extend(self.racing(ready)));
        found
    }

    /// The pairs that race where these events can all happen next.
    fn racing(&self, ready: &[usize]) -> Vec<(EventId, EventId)> {
        let mut found = Vec::new();
        for &a in ready {
            for &b in ready.iter().filter(|&&b| a < b && self.conflicts[a] & bit(b) != 0) {
                found.push((EventId::new(a), EventId::new(b)));
            }
        }
        found
    }

    /// The next event of each thread that has one.
    fn next_events(&self, state: &State) -> impl Iterator<Item = usize> {
        let left = self.threads.iter().map(|thread| thread & !state.done);
        left.filter(|&left| left != 0).map(|left: Set| left.trailing_zeros() as usize)
    }

    /// Rules 1 to 3, except for the locks: whether the schedule may go on with this event, the next of its thread.
    fn is_due(&self, state: &State, event: usize) -> bool {
        let Search { facts, .. } = self;
        let done = |action: Action| {
            (0..facts.len()).filter(|&e| state.done & bit(e) != 0 && facts.actions[e] == action).count()
        };
        let in_order = (self.needs[event] | self.order[event]) & !state.done == 0;
        let reads_kept = self.level == Level::Control || self.needs[event] & self.last_reads_astray(state) == 0;
        let possible = match facts.actions[event] {
            Action::Wake { .. } => state.missed & bit(event) == 0,
            Action::SemWait { semaphore } => {
                let initial = facts.trace.tables.semaphore_initial(semaphore) as usize;
                initial + done(Action::SemPost { semaphore }) > done(Action::SemWait { semaphore })
            }
            Action::Probe(Probe::Held { lock, mode }) => {
                let tries = facts.events[event].thread.index();
                (0..self.threads.len()).any(|other| other != tries && self.keeps_out(state, other, lock, mode))
            }
            Action::Probe(Probe::Count { semaphore, count }) => {
                let initial = facts.trace.tables.semaphore_initial(semaphore) as usize;
                initial + done(Action::SemPost { semaphore }) == done(Action::SemWait { semaphore }) + count as usize
            }
            Action::Probe(Probe::Alive { thread }) => {
                !(0..facts.len()).any(|e| state.done & bit(e) != 0 && facts.shows_end(e, thread))
            }
            _ if facts.events[event].op.is_access() => facts.free[event].is_none_or(|free| state.done & bit(free) == 0),
            _ => true,
        };
        // What the thread does here depends on all it has read; so may code that was not observed, before this event.
        let depends = facts.events[event].op == Op::Branch || facts.in_call[event];
        let on_course = !depends || !self.is_astray(state, event);
        in_order && reads_kept && possible && on_course
    }

    /// Rules 1 to 3: whether the schedule may go on with this event, the next of its thread.
    fn can_happen(&self, state: &State, event: usize) -> bool {
        self.is_due(state, event) && (0..self.threads.len()).all(|thread| !self.excludes(state, thread, event))
    }

    /// Rule 4: the state after an event that the other rules allow, if the schedule may go on with it.
    fn execute(&self, state: &State, event: usize) -> Option<State> {
        let op = self.facts.events[event].op;
        let mut after = state.clone();
        after.done |= bit(event);
        if !self.reads[event].iter().all(|&variable| self.sees_enough(state, event, variable)) {
            // The thread may be carried on at `control`; else this is its last event, which an rmw cannot be. Code that
            // was not observed does what it did only if it finds what it found.
            if op == Op::MethodBegin || op == Op::Rmw && self.level != Level::Control {
                return None;
            }
            after.astray |= 1 << self.facts.events[event].thread.0;
        }
        for &variable in &self.writes[event] {
            let unknown = if self.is_astray(&after, event) { UNKNOWN } else { 0 };
            after.memory[variable] = (1 + event) as u8 | unknown;
        }
        for (variable, last) in self.variables.iter().zip(&mut after.memory) {
            if variable.readers & !after.done == 0 {
                *last = 0;
            }
        }
        if matches!(op, Op::Notify | Op::NotifyAll) {
            for wake in (0..self.facts.len()).filter(|&wake| self.facts.notify[wake] == Some(event)) {
                let wait = self.facts.wait[wake].expect("a wake-up follows a wait");
                if state.done & bit(wait) == 0 {
                    after.missed |= bit(wake);
                }
            }
        }
        Some(after)
    }

    /// Whether a read finds in a variable what it must find if it is kept.
    fn sees_enough(&self, state: &State, read: usize, variable: usize) -> bool {
        let last = state.memory[variable];
        last & UNKNOWN == 0 && self.variables[variable].allowed[&read] >> last & 1 == 1
    }

    /// Whether the thread of an event has read something else than in σ.
    fn is_astray(&self, state: &State, event: usize) -> bool {
        state.astray >> self.facts.events[event].thread.0 & 1 == 1
    }

    /// At levels `writer` and `value`: the last events of threads that have read something else.
    fn last_reads_astray(&self, state: &State) -> Set {
        let astray = (0..self.threads.len()).filter(|&thread| state.astray >> thread & 1 == 1);
        set(astray.map(|thread| (self.threads[thread] & state.done).ilog2() as usize))
    }

    /// Whether `thread` holds the lock that an event of another thread takes, in a way that excludes it.
    fn excludes(&self, state: &State, thread: usize, event: usize) -> bool {
        let taker = &self.facts.events[event];
        let Some((lock, mode)) = self.facts.actions[event].acquired() else { return false };
        thread != taker.thread.index() && self.keeps_out(state, thread, lock, mode)
    }

    /// Whether `holder` holds a lock so that no other thread can take it in this mode.
    fn keeps_out(&self, state: &State, holder: usize, lock: LockId, mode: Mode) -> bool {
        let position = (self.threads[holder] & state.done).count_ones() as usize;
        let hold = self.holds[holder][position][lock.index()];
        hold.exclusive > 0 || mode == Mode::Exclusive && hold.shared > 0
    }

    /// The smallest sets of threads that wait for each other in a state, by their pending acquires.
    fn deadlocks_at(&self, state: &State) -> Vec<BTreeSet<EventId>> {
        let pending: Vec<usize> = self
            .next_events(state)
            .filter(|&e| match self.facts.actions[e] {
                Action::Acquire { gives_up, .. } => !gives_up,
                action => action.acquired().is_some(),
            })
            .filter(|&e| self.is_due(state, e))
            .collect();
        let waits_for = |a: usize, b: usize| self.excludes(state, self.facts.events[b].thread.index(), a);
        let members = |chosen: u32| pending.iter().copied().enumerate().filter(move |(i, _)| chosen >> i & 1 == 1);
        let stuck = |chosen: u32| members(chosen).all(|(_, a)| members(chosen).any(|(_, b)| waits_for(a, b)));
        let sets: Vec<u32> = (1..1 << pending.len()).filter(|&chosen| stuck(chosen)).collect();
        let smallest = |chosen: u32| sets.iter().all(|&other| other == chosen || other & !chosen != 0);
        let events = |chosen: u32| members(chosen).map(|(_, event)| EventId::new(event)).collect();
        sets.iter().copied().filter(|&chosen| smallest(chosen)).map(events).collect()
    }
}

/// A schedule, as the last step of a way from the start.
struct Route<'s> {
    /// The step before, and the event; step 0 is the start.
    steps: &'s [(usize, usize)],
    last: usize,
}

impl Route<'_> {
    fn events(&self) -> Vec<EventId> {
        let mut events = Vec::new();
        let mut step = self.last;
        while step != 0 {
            let (before, event) = self.steps[step];
            events.push(EventId::new(event));
            step = before;
        }
        events.reverse();
        events
    }
}

/// What must be in a schedule, before the event, if the event is.
pub(crate) fn needs(facts: &Facts) -> Vec<Set> {
    let all = 0..facts.len();
    let mut needs: Vec<Set> = vec![0; facts.len()];
    for event in all.clone() {
        let this = &facts.events[event];
        let enters =
            |barrier: BarrierId| all.clone().filter(move |&e| facts.actions[e] == Action::BarrierEnter { barrier });
        let forks = |thread: ThreadId| {
            let is_fork =
                move |&e: &usize| matches!(facts.actions[e], Action::Fork { thread: child, .. } if child == thread);
            set(all.clone().filter(is_fork))
        };
        // Rule 1.
        needs[event] |= set((0..event).filter(|&e| facts.events[e].thread == this.thread));
        // Rule 2.
        needs[event] |= forks(this.thread);
        needs[event] |= match facts.actions[event] {
            Action::Join { thread: child, .. } => set(facts.threads[child.index()].iter().copied()) | forks(child),
            Action::Wake { .. } => set(facts.notify[event]),
            Action::Probe(Probe::Alive { thread: child }) => forks(child),
            Action::BarrierLeave { barrier } => {
                set(enters(barrier).filter(|&e| facts.generation[e] == facts.generation[event]))
            }
            Action::BarrierEnter { barrier } => {
                set(enters(barrier).filter(|&e| facts.generation[e] < facts.generation[event]))
            }
            // Where its branch went as it did, an event of the other side means nothing.
            Action::Else(_) => 0,
            _ => set(facts.alloc[event]),
        };
        // Rule 3.
        needs[event] |= set(facts.kept.iter().filter(|(_, later)| *later == event).map(|(earlier, _)| *earlier));
    }
    needs
}

/// How each thread holds each lock after its first so many events.
fn holds(facts: &Facts) -> Vec<Vec<Vec<Hold>>> {
    let locks = facts.trace.tables.lock_count();
    let mut all = Vec::new();
    for thread in &facts.threads {
        let mut now = vec![Hold::default(); locks];
        let mut given_up = 0;
        let mut history = vec![now.clone()];
        for &event in thread {
            match facts.actions[event] {
                Action::Acquire { lock, mode: Mode::Exclusive, .. } => now[lock.index()].exclusive += 1,
                Action::Release { lock, mode: Mode::Exclusive } => now[lock.index()].exclusive -= 1,
                Action::Acquire { lock, mode: Mode::Shared, .. } => now[lock.index()].shared += 1,
                Action::Release { lock, mode: Mode::Shared } => now[lock.index()].shared -= 1,
                Action::WaitBegin { lock, .. } => given_up = std::mem::take(&mut now[lock.index()].exclusive),
                Action::WaitEnd { lock, .. } => now[lock.index()].exclusive = given_up,
                _ => {}
            }
            history.push(now.clone());
        }
        all.push(history);
    }
    all
}
