//! Makes incomplete traces out of complete ones: the events of chosen methods are replaced by missing method calls.
//!
//! A call becomes a `method-begin` with exactly what its removed events touched, and a `method-end`. What it called and
//! is not chosen stays, between the two, as a callback would. What a chosen method calls that is chosen as well is part of it:
//! nobody saw that call.
//!
//! A trace in which half of a critical section is missing is not well formed. So if some events on a lock are removed,
//! all others of the same outermost section are as well; of semaphores and barriers all events; of a heap block, and of
//! those that use its memory again, every alloc and free. Each of these others is a missing call of its own; so is a
//! failed attempt that rests on something that was removed. Symbols and conditions are left out, and so are written
//! addresses of memory whose allocations were removed: that it is not the same memory as before nobody sees. Events
//! without a location get their number as one, so that what is found in the incomplete trace can be found again in the
//! complete one.

use crate::arguments::{self, Missing, Places};
use crate::calls::{Calls, NO_CALL};
use snag_model::events::Event;
use snag_model::ids::*;
use snag_model::op::{Op, Ops};
use snag_model::tables::{Object, Space, Variable};
use snag_model::{Action, Pointers, Probe, Trace};
use std::collections::{BTreeSet, HashMap, HashSet};

/// An incomplete trace.
pub struct Punched {
    /// The trace.
    pub trace: Trace,
    /// For each of its events, the event of the complete trace, unless it begins or ends a missing call.
    pub original: Vec<Option<EventId>>,
    /// How many events were removed.
    pub removed: usize,
}

/// Where a call begins that is missing.
struct Begin {
    /// The event of the incomplete trace that says so.
    made: usize,
    /// The event of the complete trace in whose place, or before which, that is.
    before: usize,
    /// What was removed of it.
    touched: BTreeSet<Object>,
}

/// What becomes of an event.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Kept,
    /// Belongs to a chosen call.
    Removed,
    /// Cannot stay because of something that was removed.
    Alone,
}

/// What missing calls could reach.
pub enum Reach<'a> {
    /// What they touched, and nothing else.
    Touched,
    /// What their [arguments] lead to.
    Arguments(&'a Places),
}

/// Removes the events of calls of chosen methods.
pub fn punch(trace: &Trace, calls: &Calls, reach: Reach, is_chosen: impl Fn(&str) -> bool) -> Punched {
    let chosen: Vec<bool> = calls.all.iter().map(|call| is_chosen(&call.method)).collect();
    let fates = fates(trace, calls, &chosen);
    let mut made = Trace { tables: trace.tables.clone(), ..Trace::default() };
    let mut original: Vec<Option<EventId>> = Vec::new();
    let mut number: Vec<Option<EventId>> = vec![None; trace.len()];
    // Calls that stand in the trace.
    let mut begins: HashMap<u32, Begin> = HashMap::new();
    // A call stands in the trace unless it was called by a chosen one.
    let stands = |call: u32| {
        chosen[call as usize] && {
            let parent = calls.all[call as usize].parent;
            parent == NO_CALL || !chosen[parent as usize]
        }
    };
    let mut removed = 0;
    // Where allocations are removed nobody sees that an address is used again.
    let pointers = Pointers::of(trace, Ops::of(trace.events.ops()), trace.len());
    let is_seen = |alloc: EventId| fates[alloc.index()] == Fate::Kept;
    let has_faults = Ops::of(trace.events.ops()).any(Ops::FAULTS);
    let fault = TextId(if has_faults { made.tables.intern(Space::Text, "fault") } else { 0 });
    // Threads inside a wait.
    let mut waiting: HashSet<ThreadId> = HashSet::new();
    for (index, event) in trace.events.iter().enumerate() {
        let mut push = |event: Event, from: Option<EventId>| {
            let missing = event.location == LocId::NONE && from.is_some();
            let location = if missing { made.tables.location(&index.to_string()) } else { event.location };
            made.events.push(Event { location, ..event });
            original.push(from);
            made.len() - 1
        };
        let call = calls.of_event[index];
        let begins_here = call != NO_CALL && calls.all[call as usize].begin == index;
        let ends_here = call != NO_CALL && calls.all[call as usize].end == Some(index);
        if begins_here && stands(call) {
            let begin = begin_at(&event);
            begins.insert(call, Begin { made: push(begin, None), before: index, touched: BTreeSet::new() });
        }
        let is_mark = (begins_here || ends_here) && !calls.all[call as usize].is_run;
        match event.op {
            Op::WaitBegin => _ = waiting.insert(event.thread),
            Op::WaitEnd => _ = waiting.remove(&event.thread),
            _ => {}
        }
        match fates[index] {
            Fate::Kept if matches!(event.op, Op::Let) || event.op.on_other_side() => removed += 1,
            // To end a wait it can do nothing else.
            Fate::Kept if event.op == Op::Want && waiting.contains(&event.thread) => removed += 1,
            // Whether it still is one nobody can tell where the frees and sections before it are not seen.
            Fate::Kept if event.op.is_fault() => {
                let mark = event.doing(Action::Mark { text: fault });
                number[index] = Some(EventId::new(push(mark, Some(EventId::new(index)))));
            }
            Fate::Kept => {
                let action = match event.action() {
                    // Without symbols and conditions; and without a condition a branch does not say which way it went.
                    Action::Read { variable, value, .. } => Action::Read { variable, value, into: None },
                    Action::Write { variable, value, .. } => Action::Write { variable, value, of: None },
                    Action::Branch { text, .. } => Action::Branch { condition: None, taken: None, text },
                    Action::Wake { condition, by } => {
                        Action::Wake { condition, by: by.and_then(|notify| number[notify.index()]) }
                    }
                    action => action,
                };
                let action = match pointers.target(EventId::new(index)) {
                    Some(alloc) if !is_seen(alloc) => without_written(action),
                    _ => action,
                };
                number[index] = Some(EventId::new(push(event.doing(action), Some(EventId::new(index)))));
            }
            Fate::Removed => {
                removed += 1;
                let mut owner = call;
                while !stands(owner) {
                    owner = calls.all[owner as usize].parent;
                }
                if !is_mark {
                    begins.get_mut(&owner).expect("it began before").touched.extend(removed_by(trace, &event));
                }
            }
            Fate::Alone => {
                removed += 1;
                let begin = push(begin_at(&event), None);
                push(end_at(&event), None);
                // No call has this number.
                let touched = removed_by(trace, &event).into_iter().collect();
                begins.insert(NO_CALL - 1 - begin as u32, Begin { made: begin, before: index, touched });
            }
        }
        if ends_here && stands(call) {
            push(end_at(&event), None);
        }
    }
    // Names and sets in the order of the trace.
    let mut begins: Vec<(u32, Begin)> = begins.into_iter().collect();
    begins.sort_unstable_by_key(|(_, begin)| begin.made);
    let missing: Vec<Missing> = begins
        .iter()
        .map(|(_, begin)| Missing { before: begin.before, touched: begin.touched.iter().copied().collect() })
        .collect();
    let reached = match reach {
        Reach::Touched => missing.into_iter().map(|call| call.touched).collect(),
        Reach::Arguments(places) => arguments::reach(trace, places, &missing),
    };
    let name_of = |key: u32| match calls.all.get(key as usize) {
        Some(call) => call.method.clone(),
        None => "elsewhere".to_owned(),
    };
    let names = begins.into_iter().zip(reached).map(|((key, begin), objects)| (begin.made, name_of(key), objects));
    let mut open: Vec<Vec<MethodId>> = vec![Vec::new(); trace.tables.thread_count()];
    let mut names = names.peekable();
    for index in 0..made.len() {
        let event = made.events.get(index);
        let open = &mut open[event.thread.index()];
        match event.action() {
            Action::MethodBegin { mut method, mut reach } => {
                if let Some((_, name, objects)) = names.next_if(|entry| entry.0 == index) {
                    method = MethodId(made.tables.intern(Space::Method, &name));
                    reach = made.tables.reach(objects);
                }
                open.push(method);
                made.events.set_action(index, Action::MethodBegin { method, reach });
            }
            Action::MethodEnd { .. } => {
                let method = open.pop().expect("calls nest");
                made.events.set_action(index, Action::MethodEnd { method });
            }
            _ => {}
        }
    }
    made.tables.comments.clear();
    Punched { trace: made, original, removed }
}

/// A write of something that is not known.
fn without_written(action: Action) -> Action {
    match action {
        Action::Write { variable, of, .. } => Action::Write { variable, value: None, of },
        Action::AtomicWrite { variable, order, .. } => Action::AtomicWrite { variable, order, value: None },
        Action::Rmw { variable, order, read, .. } => Action::Rmw { variable, order, read, written: None },
        action => action,
    }
}

/// The begin of a missing call, at the location of an event; which method it is of is filled in later.
fn begin_at(event: &Event) -> Event {
    event.doing(Action::MethodBegin { method: MethodId(0), reach: ReachId(0) })
}

/// The end of a missing call, at the location of an event; which method it is of is filled in later.
fn end_at(event: &Event) -> Event {
    event.doing(Action::MethodEnd { method: MethodId(0) })
}

/// What a call touches in the place of an event: of a call that was missing before, all that it could reach.
fn removed_by(trace: &Trace, event: &Event) -> Vec<Object> {
    match event.action() {
        Action::MethodBegin { reach, .. } => trace.tables.reach_objects(reach).to_vec(),
        action => action.objects().collect(),
    }
}

/// What becomes of each event.
fn fates(trace: &Trace, calls: &Calls, chosen: &[bool]) -> Vec<Fate> {
    let is_removed = |index: usize| {
        let call = calls.of_event[index];
        call != NO_CALL && chosen[call as usize]
    };
    let removed: Vec<bool> = (0..trace.len()).map(is_removed).collect();
    let mut groups = Groups::of(trace);
    for (index, &removed) in removed.iter().enumerate() {
        if removed && let Some(group) = groups.of_event[index] {
            groups.broken[group] = true;
        }
    }
    let gone = |ground: &Ground| match *ground {
        Ground::Group(group) => groups.broken[group],
        Ground::Event(event) => removed[event],
    };
    let fate = |index: usize| match groups.of_event[index] {
        _ if removed[index] => Fate::Removed,
        _ if groups.grounds.get(&index).is_some_and(|grounds| grounds.iter().any(gone)) => Fate::Alone,
        Some(group) if groups.broken[group] => Fate::Alone,
        _ => Fate::Kept,
    };
    (0..trace.len()).map(fate).collect()
}

/// Events that stay or go together.
struct Groups {
    of_event: Vec<Option<usize>>,
    broken: Vec<bool>,
    /// What failed attempts rest on: without that they would not fail.
    grounds: HashMap<usize, Vec<Ground>>,
}

/// What a failed attempt rests on.
enum Ground {
    Group(usize),
    Event(usize),
}

impl Groups {
    fn of(trace: &Trace) -> Groups {
        let mut groups = Groups { of_event: vec![None; trace.len()], broken: Vec::new(), grounds: HashMap::new() };
        let mut forks: HashMap<ThreadId, usize> = HashMap::new();
        // Outermost sections by thread and lock: group, how often held, whether waiting.
        let mut sections: HashMap<(ThreadId, LockId), (usize, u32)> = HashMap::new();
        let mut waiting: HashMap<ThreadId, usize> = HashMap::new();
        let mut semaphores: HashMap<SemId, usize> = HashMap::new();
        let mut barriers: HashMap<BarrierId, usize> = HashMap::new();
        // Memory that was freed may not be accessed: blocks that ever overlap go together.
        let mut blocks: HashMap<VarId, usize> = HashMap::new();
        let heads = overlapping_blocks(trace);
        let mut open: Vec<Vec<usize>> = vec![Vec::new(); trace.tables.thread_count()];
        for (index, event) in trace.events.iter().enumerate() {
            let mut new = || {
                groups.broken.push(false);
                groups.broken.len() - 1
            };
            groups.of_event[index] = match event.action() {
                Action::Acquire { lock, .. } => {
                    let section = sections.entry((event.thread, lock)).or_insert_with(|| (new(), 0));
                    section.1 += 1;
                    Some(section.0)
                }
                Action::Release { lock, .. } => {
                    let key = (event.thread, lock);
                    let section = sections.entry(key).or_insert_with(|| (new(), 1));
                    section.1 -= 1;
                    let (group, holds) = *section;
                    if holds == 0 {
                        sections.remove(&key);
                    }
                    Some(group)
                }
                Action::WaitBegin { lock, .. } => {
                    let section = sections.entry((event.thread, lock)).or_insert_with(|| (new(), 1));
                    waiting.insert(event.thread, section.0);
                    Some(section.0)
                }
                Action::Wake { .. } => waiting.get(&event.thread).copied(),
                Action::WaitEnd { .. } => waiting.remove(&event.thread),
                Action::SemPost { semaphore } | Action::SemWait { semaphore } => {
                    Some(*semaphores.entry(semaphore).or_insert_with(new))
                }
                Action::BarrierEnter { barrier } | Action::BarrierLeave { barrier } => {
                    Some(*barriers.entry(barrier).or_insert_with(new))
                }
                Action::Alloc { variable } | Action::Free { variable } => {
                    Some(*blocks.entry(heads[&variable]).or_insert_with(new))
                }
                Action::MethodBegin { .. } => {
                    let group = new();
                    open[event.thread.index()].push(group);
                    Some(group)
                }
                Action::MethodEnd { .. } => open[event.thread.index()].pop(),
                Action::Fork { thread, .. } => {
                    forks.insert(thread, index);
                    None
                }
                Action::Probe(probe) => {
                    let grounds = match probe {
                        Probe::Held { lock, .. } => {
                            let of_others =
                                |&(&(thread, of), _): &(&(ThreadId, LockId), _)| thread != event.thread && of == lock;
                            sections.iter().filter(of_others).map(|(_, section)| Ground::Group(section.0)).collect()
                        }
                        Probe::Count { semaphore, .. } => {
                            vec![Ground::Group(*semaphores.entry(semaphore).or_insert_with(new))]
                        }
                        Probe::Alive { thread } => {
                            forks.get(&thread).map(|&fork| Ground::Event(fork)).into_iter().collect()
                        }
                    };
                    groups.grounds.insert(index, grounds);
                    None
                }
                _ => None,
            };
        }
        groups
    }
}

/// Of each block one that stands for all with which it shares memory, directly or by way of others.
fn overlapping_blocks(trace: &Trace) -> HashMap<VarId, VarId> {
    let mut heads = HashMap::new();
    let mut ranges = Vec::new();
    for (_, event) in trace.events_of(&[Op::Alloc, Op::Free]) {
        if let Some(block) = event.action().variable()
            && heads.insert(block, block).is_none()
            && let Variable::Range { address, size } = trace.tables.variable(block)
        {
            ranges.push((address, address + (size - 1), block));
        }
    }
    ranges.sort_unstable();
    let mut current: Option<(u64, VarId)> = None;
    for (first, last, block) in ranges {
        let (end, head) = match current {
            Some((end, head)) if first <= end => (end.max(last), head),
            _ => (last, block),
        };
        heads.insert(block, head);
        current = Some((end, head));
    }
    heads
}
