//! What went wrong in the recorded run: uses of freed memory, misused locks, things destroyed in use, and deadlocks
//! that happened.
//!
//! Guarantee: every report happened, and the trace itself is the proof; the checker looks at it. Only that something
//! may be destroyed while another thread uses it is predicted too, by the clocks of SHB. Of several faults with the
//! same pair of locations the first is reported, and how many there were.
//!
//! Cost: one look at each event, memory for each block that was freed and each lock that is held.

use crate::engine::{
    About, Context, Cost, DeadlockClaim, Engine, EngineRef, FaultClaim, Found, Guarantee, Needs, Subject,
};
use crate::happens_before::times_of;
use crate::holds::Holds;
use snag_model::{
    Action, BarrierId, CondId, EventId, Fault, FaultKind, Level, LocId, LockId, Mode, Primitive, Schedule, Stale,
    ThreadId, Trace, VarId, Variable,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

/// What went wrong in the recorded run.
pub const OBSERVED: EngineRef = EngineRef::new(&Observed {
    about: About {
        name: "observed",
        summary: "what went wrong in the recorded run: use after free, misused locks, deadlocks",
        paper: "",
        guarantee: Guarantee::Sound,
        cost: Cost::Pass,
        needs: Needs::Faults,
        condensable: true,
        reduces: false,
        bytes: [0; 3],
    },
});

struct Observed {
    about: About,
}

impl Engine for Observed {
    fn about(&self) -> &About {
        &self.about
    }

    fn run<'c>(&self, context: &'c Context<'c>) -> Found<'c> {
        let started = Instant::now();
        let Context { trace, host, settings, .. } = *context;
        context.phase("looking at what went wrong", trace.len());
        let mut seen = Seen::default();
        let mut faults: Vec<FaultClaim> = Vec::new();
        // Where in `faults` a kind and its two places are.
        let mut known: HashMap<(FaultKind, [Option<LocId>; 2]), usize> = HashMap::new();
        let mut done = 0;
        while done < trace.len() && (!done.is_multiple_of(STEP) || context.goes_on(done)) {
            let id = EventId::new(done);
            done += 1;
            let Some(claim) = seen.event(trace, id) else { continue };
            let place = |event: EventId| trace.events.location(event.index());
            let places = [claim.first.map(place), Some(place(claim.second))];
            let is_somewhere = !places.contains(&Some(LocId::NONE)) && !settings.all_pairs;
            match known.get(&(claim.kind, places)) {
                Some(&at) if is_somewhere => faults[at].count += 1,
                _ => {
                    known.insert((claim.kind, places), faults.len());
                    faults.push(claim);
                }
            }
        }
        let (warnings, location_pairs) = (faults.iter().map(|fault| fault.count).sum(), faults.len() as u64);
        if settings.prove {
            for (number, claim) in faults.iter().enumerate() {
                if host.is_over() || number >= settings.max_races {
                    host.leave(Subject::LocationPair, crate::engine::TOO_MANY, faults.len() - number);
                    break;
                }
                if let Err(why) = host.fault(claim.clone()) {
                    host.leave(Subject::LocationPair, &why, 1);
                }
            }
            predicted(context, &seen);
            for pending in seen.deadlocks() {
                let schedule = up_to_the_end(trace, &pending);
                if let Err(why) = host.deadlock(DeadlockClaim { pending, schedule, level: Level::Writer }) {
                    host.leave(Subject::Cycle, &why, 1);
                }
            }
        }
        Found {
            warnings,
            location_pairs: Some(location_pairs),
            looked_at: done,
            ..Found::nothing(context, started.elapsed())
        }
    }
}

/// Proves that something may be destroyed or initialised while another thread uses it: the last use by each other thread
/// before that, or the first one after it, and the event itself, neither of which happens before the other, come next
/// after all that does happen before them.
fn predicted(context: &Context, seen: &Seen) {
    let Context { trace, cells, host, settings, .. } = *context;
    let wanted = seen.ends.iter().flat_map(|&(used, end)| [used.0, end.0]).collect();
    let times = times_of(trace, cells, wanted, &mut |_| !host.is_over());
    // Those at the same two places are one finding.
    let mut groups: Vec<([LocId; 2], FaultClaim)> = Vec::new();
    for &(first, second) in &seen.ends {
        let (Some(before), Some(more)) = (times.get(&first.0), times.get(&second.0)) else { continue };
        let [user, ender] = [first, second].map(|event| trace.thread_of(event).index());
        if more[user] > first || before[ender] > second {
            continue;
        }
        let places = [first, second].map(|event| trace.events.location(event.index()));
        let is_same = |(known, _): &&mut ([LocId; 2], FaultClaim)| {
            *known == places && !places.contains(&LocId::NONE) && !settings.all_pairs
        };
        if let Some((_, claim)) = groups.iter_mut().find(is_same) {
            claim.count += 1;
            continue;
        }
        let mut ends: Vec<EventId> = before.iter().zip(more).map(|(a, b)| *a.max(b)).collect();
        (ends[user], ends[ender]) = (first, second);
        let (kind, schedule) = (FaultKind::DestroyedInUse, Some(Schedule::Prefixes(ends)));
        groups.push((places, FaultClaim { kind, first: Some(first), second, count: 1, schedule }));
    }
    for (number, (_, claim)) in groups.iter().enumerate() {
        if host.is_over() || number >= settings.max_races {
            return host.leave(Subject::LocationPair, crate::engine::TOO_MANY, groups.len() - number);
        }
        // What SHB leaves unordered the checker accepts; should it not, it is nothing.
        _ = host.fault(claim.clone());
    }
}

/// After so many events somebody is asked whether there is time for more.
const STEP: usize = 1 << 12;

/// The whole recorded run but for the waits that never ended.
fn up_to_the_end(trace: &Trace, pending: &[EventId]) -> Schedule {
    let first = pending.iter().copied().min().unwrap_or_default();
    let rest = (first.0..trace.len() as u32).map(EventId).filter(|event| !pending.contains(event));
    Schedule::Continued { as_observed: first, then: rest.collect() }
}

/// What the trace was like so far.
#[derive(Default)]
struct Seen {
    /// Stretches of memory that were freed and not handed out again: first byte, last byte, and who freed it.
    freed: BTreeMap<u64, (u64, EventId)>,
    /// The same of names.
    freed_names: HashMap<VarId, EventId>,
    holds: HashMap<ThreadId, Holds>,
    /// What last changed who holds a lock.
    changed: HashMap<LockId, EventId>,
    /// Waits that never end, by thread.
    wants: BTreeMap<ThreadId, (EventId, LockId, Mode)>,
    /// The last use of things by each thread.
    uses: HashMap<Primitive, Vec<(ThreadId, EventId)>>,
    /// Threads that wait for a condition and have not been woken, and since when.
    waiting: HashMap<ThreadId, (CondId, EventId)>,
    /// How often barriers were entered, and when last.
    entered: HashMap<BarrierId, (u32, EventId)>,
    /// Where locks came to their end.
    ended: HashMap<LockId, EventId>,
    /// Uses of things that end or begin, and their ends or beginnings, of different threads: last uses before, and first
    /// ones after.
    ends: Vec<(EventId, EventId)>,
    /// The last end or beginning of things, and who has used them since.
    since: HashMap<Primitive, (EventId, Vec<ThreadId>)>,
}

impl Seen {
    /// The next event, and what was wrong with it.
    fn event(&mut self, trace: &Trace, id: EventId) -> Option<FaultClaim> {
        let action = trace.action(id);
        let thread = trace.thread_of(id);
        self.note_use(thread, action, id);
        if let Some((lock, _)) = action.lock() {
            self.changed.insert(lock, id);
            self.ended.remove(&lock);
            self.holds.entry(thread).or_default().apply(action);
            return None;
        }
        let fault = |kind: FaultKind, first: Option<EventId>| {
            Some(FaultClaim { kind, first, second: id, count: 1, schedule: None })
        };
        match action {
            Action::Wake { .. } => {
                self.holds.entry(thread).or_default().apply(action);
                None
            }
            Action::Alloc { variable } => {
                self.begins(trace.tables.variable(variable), variable);
                None
            }
            Action::Free { variable } => {
                self.begins(trace.tables.variable(variable), variable);
                match trace.tables.variable(variable) {
                    Variable::Named(_) => _ = self.freed_names.insert(variable, id),
                    Variable::Range { address, size } => _ = self.freed.insert(address, (address + (size - 1), id)),
                }
                None
            }
            Action::Fault(Fault::Stale { variable, how }) => {
                let kind = if how == Stale::Free { FaultKind::DoubleFree } else { FaultKind::UseAfterFree };
                // Who freed what nobody was seen to free is not known.
                self.who_freed(trace.tables.variable(variable), variable).and_then(|free| fault(kind, Some(free)))
            }
            Action::Fault(Fault::Unheld { lock }) => fault(FaultKind::LockMisuse, self.changed.get(&lock).copied()),
            Action::Fault(Fault::Gone { lock }) => {
                // Nobody knows of a lock that lives what is wrong with it.
                let end = self.ended.get(&lock).copied();
                end.and_then(|end| fault(FaultKind::LockMisuse, Some(end)))
            }
            Action::Fault(Fault::Discard(primitive)) => {
                if let Primitive::Lock(lock) = primitive {
                    self.ended.insert(lock, id);
                }
                let first = self.in_use(trace, primitive);
                let uses = self.uses.remove(&primitive).unwrap_or_default();
                if first.is_none() {
                    self.ends.extend(uses.into_iter().filter(|used| used.0 != thread).map(|used| (used.1, id)));
                    self.since.insert(primitive, (id, vec![thread]));
                }
                first.and_then(|first| fault(FaultKind::DestroyedInUse, Some(first)))
            }
            Action::Fault(Fault::Want { lock, mode }) => {
                self.wants.insert(thread, (id, lock, mode));
                let first = self.changed.get(&lock).copied();
                self.holds(thread, lock).and_then(|_| fault(FaultKind::LockMisuse, first))
            }
            _ => None,
        }
    }

    fn note_use(&mut self, thread: ThreadId, action: Action, id: EventId) {
        for used in action.uses() {
            let by = self.uses.entry(used).or_default();
            match by.iter_mut().find(|known| known.0 == thread) {
                Some(known) => known.1 = id,
                None => by.push((thread, id)),
            }
            if let Some((end, threads)) = self.since.get_mut(&used)
                && !threads.contains(&thread)
            {
                threads.push(thread);
                self.ends.push((id, *end));
            }
        }
        match action {
            Action::WaitBegin { condition, .. } => _ = self.waiting.insert(thread, (condition, id)),
            Action::Wake { .. } => _ = self.waiting.remove(&thread),
            Action::BarrierEnter { barrier } => {
                let entered = self.entered.entry(barrier).or_insert((0, id));
                *entered = (entered.0 + 1, id);
            }
            _ => {}
        }
    }

    /// The event since which something is in use that ends here, if it is.
    fn in_use(&self, trace: &Trace, primitive: Primitive) -> Option<EventId> {
        match primitive {
            Primitive::Lock(lock) => {
                let is_held = self.holds.keys().any(|&thread| self.holds(thread, lock).is_some());
                self.changed.get(&lock).copied().filter(|_| is_held)
            }
            Primitive::Condition(condition) => {
                let waits = self.waiting.values().filter(|wait| wait.0 == condition);
                waits.map(|wait| wait.1).min()
            }
            Primitive::Barrier(barrier) => {
                let declared = trace.tables.declarations.barriers.iter().find(|known| known.0 == barrier)?;
                let (entered, last) = *self.entered.get(&barrier)?;
                (!entered.is_multiple_of(declared.1)).then_some(last)
            }
            // Who waits at a semaphore is not in the trace.
            Primitive::Semaphore(_) => None,
        }
    }

    /// Memory begins a new life, or ends one.
    fn begins(&mut self, memory: Variable, variable: VarId) {
        let Variable::Range { address, size } = memory else {
            self.freed_names.remove(&variable);
            return;
        };
        let last = address + (size - 1);
        for (start, (end, free)) in self.overlapping(address, last) {
            self.freed.remove(&start);
            if start < address {
                self.freed.insert(start, (address - 1, free));
            }
            if end > last {
                self.freed.insert(last + 1, (end, free));
            }
        }
    }

    fn overlapping(&self, first: u64, last: u64) -> Vec<(u64, (u64, EventId))> {
        let before = self.freed.range(..=last).rev().take_while(|(_, (end, _))| *end >= first);
        before.map(|(&start, &freed)| (start, freed)).collect()
    }

    /// The last free of memory that is used.
    fn who_freed(&self, memory: Variable, variable: VarId) -> Option<EventId> {
        match memory {
            Variable::Named(_) => self.freed_names.get(&variable).copied(),
            Variable::Range { address, size } => {
                self.overlapping(address, address + (size - 1)).into_iter().map(|(_, (_, free))| free).max()
            }
        }
    }

    /// How a thread holds a lock.
    fn holds(&self, thread: ThreadId, lock: LockId) -> Option<Mode> {
        let holds = self.holds.get(&thread)?.locks().iter().find(|hold| hold.lock == lock)?;
        holds.mode()
    }

    /// The cycles of threads that wait for each other for ever, each as their last events.
    fn deadlocks(&self) -> Vec<Vec<EventId>> {
        let waits_for = |thread: ThreadId| {
            let (_, lock, mode) = self.wants[&thread];
            let keeps_out = move |&other: &ThreadId| {
                let held = self.holds(other, lock);
                other != thread && (held == Some(Mode::Exclusive) || held.is_some() && mode == Mode::Exclusive)
            };
            self.wants.keys().copied().filter(keeps_out)
        };
        let mut done: HashSet<ThreadId> = HashSet::new();
        let mut cycles = Vec::new();
        for &start in self.wants.keys() {
            // From thread to thread along the first of those that keep it out; a cycle that is met is a deadlock.
            let mut path: Vec<ThreadId> = Vec::new();
            let mut next = Some(start);
            while let Some(thread) = next.filter(|thread| !done.contains(thread)) {
                done.insert(thread);
                path.push(thread);
                let mut others: Vec<ThreadId> = waits_for(thread).collect();
                others.sort_unstable();
                if let Some(at) = others.iter().find_map(|other| path.iter().position(|known| known == other)) {
                    let mut pending: Vec<EventId> = path[at..].iter().map(|thread| self.wants[thread].0).collect();
                    pending.sort_unstable();
                    cycles.push(pending);
                    break;
                }
                next = others.into_iter().find(|other| !done.contains(other));
            }
        }
        cycles
    }
}
