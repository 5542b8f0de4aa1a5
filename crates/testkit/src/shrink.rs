//! Making a failing trace small, and printing it.
//!
//! [`shrink`] only ever returns well-formed traces that still fail; what it returns
//! is minimal in the sense that no event, no pair of events, no wait and no whole
//! thread can be left out any more.

use snag_model::events::Event;
use snag_model::tables::{Object, Space};
use snag_model::{Action, EventId, Events, LocId, MemoryOrder, Op, Probe, ThreadId, Trace, Validator};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The smallest trace that can be reached by leaving out events such that `still_bad` holds all the time.
pub fn shrink(trace: &Trace, still_bad: impl Fn(&Trace) -> bool) -> Trace {
    let accept = |candidate: &Trace| {
        Validator::new().check(&candidate.events, 0, &candidate.tables).is_ok() && still_bad(candidate)
    };
    let mut best = trace.clone();
    loop {
        let smaller = removals(&best).map(|removed| without(&best, &removed)).find(|candidate| accept(candidate));
        let simpler = || simplifications(&best).find(|candidate| *candidate != best && accept(candidate));
        match smaller.or_else(simpler) {
            Some(better) => best = better,
            None => return best,
        }
    }
}

/// Sets of events to leave out, most promising first.
fn removals(trace: &Trace) -> impl Iterator<Item = BTreeSet<usize>> {
    let count = trace.len();
    let events: Vec<Event> = trace.events.iter().collect();
    // From some event on.
    let mut sets: Vec<BTreeSet<usize>> = [count / 2, count / 4, count / 8, 1]
        .into_iter()
        .filter(|&tail| tail > 0)
        .map(|tail| (count - tail..count).collect())
        .collect();
    // A thread, with what others do to it.
    for thread in (0..trace.tables.thread_count()).map(ThreadId::new) {
        let about = |e: &Event| match e.action() {
            Action::Fork { thread: child, .. } | Action::Join { thread: child, .. } if child == thread => true,
            _ => e.thread == thread,
        };
        sets.push((0..count).filter(|&i| about(&events[i])).collect());
    }
    // All a thread does with one lock, condition, variable and so on.
    let mut families: BTreeMap<(ThreadId, u8, String), BTreeSet<usize>> = BTreeMap::new();
    for (index, event) in events.iter().enumerate() {
        families.entry((event.thread, family(event.op), trace.target_text(event))).or_default().insert(index);
    }
    sets.extend(families.into_values());
    // All that anybody does with one block, semaphore and so on.
    let mut families: BTreeMap<(u8, String), BTreeSet<usize>> = BTreeMap::new();
    for (index, event) in events.iter().enumerate() {
        families.entry((family(event.op), trace.target_text(event))).or_default().insert(index);
    }
    sets.extend(families.into_values());
    sets.extend((0..count).map(|i| BTreeSet::from([i])));
    // Matched pairs are among these.
    let pairs = (0..count).flat_map(move |b| (0..b).map(move |a| BTreeSet::from([a, b])));
    // A whole wait.
    let mut waits = Vec::new();
    for begin in (0..count).filter(|&i| events[i].op == Op::WaitBegin) {
        waits.push((begin..count).filter(|&i| events[i].thread == events[begin].thread).take(3).collect());
    }
    sets.into_iter().filter(|set| !set.is_empty()).chain(waits).chain(pairs)
}

/// Operations on the same kind of thing.
fn family(op: Op) -> u8 {
    match op {
        op if op.is_access() => 0,
        Op::Alloc | Op::Free | Op::StaleRead | Op::StaleWrite | Op::StaleFree => 0,
        Op::Acquire | Op::Release | Op::ReadAcquire | Op::ReadRelease | Op::TryFail | Op::ReadTryFail => 1,
        Op::Want | Op::ReadWant | Op::Unheld => 1,
        Op::Fork | Op::Join | Op::JoinFail => 2,
        Op::WaitBegin | Op::Wake | Op::WaitEnd | Op::Notify | Op::NotifyAll => 3,
        Op::SemPost | Op::SemWait | Op::SemValue => 4,
        Op::BarrierEnter | Op::BarrierLeave => 5,
        Op::MethodBegin | Op::MethodEnd => 6,
        _ => 7 + op as u8,
    }
}

/// The trace without some of its events. A wake-up whose notify is gone names none.
fn without(trace: &Trace, removed: &BTreeSet<usize>) -> Trace {
    let kept: Vec<usize> = (0..trace.len()).filter(|index| !removed.contains(index)).collect();
    let mut events = Events::new();
    for &index in &kept {
        let mut event = trace.events.get(index);
        if let Action::Wake { condition, by: Some(notify) } = event.action() {
            let by = kept.binary_search(&notify.index()).ok().map(EventId::new);
            event = event.doing(Action::Wake { condition, by });
        }
        events.push(event);
    }
    Trace { tables: trace.tables.clone(), events }
}

/// The trace with as many events, one of them or the declarations simpler.
fn simplifications(trace: &Trace) -> impl Iterator<Item = Trace> {
    let replaced = |index: usize, event: Event| {
        let mut events = Events::new();
        for other in 0..trace.len() {
            events.push(if other == index { event } else { trace.events.get(other) });
        }
        Trace { tables: trace.tables.clone(), events }
    };
    let events = (0..trace.len()).flat_map(move |index| {
        let event = trace.events.get(index);
        let mut simpler = vec![Event { location: LocId::NONE, ..event }, Event { value: None, written: None, ..event }];
        let action = match event.action() {
            Action::Wake { condition, .. } => Some(Action::Wake { condition, by: None }),
            Action::Read { variable, value, .. } => Some(Action::Read { variable, value, into: None }),
            Action::Write { variable, value, .. } => Some(Action::Write { variable, value, of: None }),
            Action::Branch { taken, text, .. } => Some(Action::Branch { condition: None, taken, text }),
            Action::AtomicRead { variable, value, .. } => Some(Action::Read { variable, value, into: None }),
            Action::AtomicWrite { variable, value, .. } => Some(Action::Write { variable, value, of: None }),
            Action::Rmw { variable, read, .. } => {
                Some(Action::AtomicRead { variable, order: MemoryOrder::SeqCst, value: read })
            }
            _ => None,
        };
        simpler.extend(action.map(|action| event.doing(action)));
        simpler.into_iter().map(move |event| replaced(index, event)).collect::<Vec<_>>()
    });
    let declarations = (0..trace.tables.declarations.initial.len()).map(|index| {
        let mut simpler = trace.clone();
        simpler.tables.declarations.initial.remove(index);
        simpler
    });
    events.chain(declarations)
}

/// A trace line by line: number, thread, what it does, and the values and locations that are known.
pub fn show(trace: &Trace) -> String {
    let mut text = String::new();
    let tables = &trace.tables;
    let declared = &tables.declarations;
    for &(variable, value) in &declared.initial {
        let _ = writeln!(text, "     initially {} = {value}", tables.variable_text(variable));
    }
    for &(semaphore, count) in &declared.semaphores {
        let _ = writeln!(text, "     semaphore {} = {count}", tables.names(Space::Semaphore).get(semaphore.index()));
    }
    for &(barrier, parties) in &declared.barriers {
        let _ = writeln!(text, "     barrier {} for {parties}", tables.names(Space::Barrier).get(barrier.index()));
    }
    for &lock in &declared.plain_locks {
        let _ = writeln!(text, "     lock {} is not re-entrant", tables.lock_name(lock));
    }
    for (index, event) in trace.events.iter().enumerate() {
        let column = " ".repeat(4 * event.thread.index());
        let _ = writeln!(text, "{index:4} {column}{}: {}", tables.thread_name(event.thread), line(trace, &event));
    }
    text
}

fn line(trace: &Trace, event: &Event) -> String {
    let tables = &trace.tables;
    let name = |space: Space, index: u32| tables.names(space).get(index as usize);
    let mut text = event.op.word().to_owned();
    if event.op.is_atomic() {
        let _ = write!(text, "[{}]", event.memory_order().word());
    }
    let target = trace.target_text(event);
    if !target.is_empty() {
        let _ = write!(text, " {target}");
    }
    let _ = match event.action() {
        Action::WaitBegin { lock, .. } | Action::WaitEnd { lock, .. } => {
            write!(text, " with {}", tables.lock_name(lock))
        }
        Action::Wake { by: None, .. } => write!(text, " by nobody"),
        Action::Wake { by: Some(notify), .. } => write!(text, " by event {}", notify.0),
        Action::MethodBegin { reach, .. } => {
            let objects = tables.reach_objects(reach).iter().map(|&object| match object {
                Object::Variable(variable) => tables.variable_text(variable),
                Object::Lock(lock) => tables.lock_name(lock).to_owned(),
                Object::Thread(thread) => tables.thread_name(thread).to_owned(),
                Object::Condition(id) => tables.names(Space::Condition).get(id.index()).to_owned(),
                Object::Semaphore(id) => tables.names(Space::Semaphore).get(id.index()).to_owned(),
                Object::Barrier(id) => tables.names(Space::Barrier).get(id.index()).to_owned(),
            });
            write!(text, " {{{}}}", objects.collect::<Vec<_>>().join(", "))
        }
        Action::Read { into: Some(symbol), .. } => write!(text, " into {}", name(Space::Symbol, symbol.0)),
        Action::Write { of: Some(id), .. } | Action::Branch { condition: Some(id), .. } => {
            write!(text, " from {}", name(Space::Expression, id.0))
        }
        Action::Probe(Probe::Count { count, .. }) => write!(text, " = {count}"),
        Action::Let { is, .. } => write!(text, " = {}", name(Space::Expression, is.0)),
        _ => Ok(()),
    };
    if let Some(value) = event.value {
        let _ = write!(text, " = {value}");
    }
    if let Some(written) = event.written {
        let _ = write!(text, " := {written}");
    }
    if event.location != LocId::NONE {
        let _ = write!(text, "  @{}", tables.location_name(event.location));
    }
    text
}
