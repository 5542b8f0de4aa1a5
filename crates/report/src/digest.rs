//! A witness cut down to what explains it.
//!
//! Kept are, of each thread of the goal (the racing pair, or the acquires of a
//! deadlock), its last few events and its last few synchronisations; the acquires
//! of the locks it holds; its fork; the last write of the racing variable; and, for
//! each kept event that takes something over from another thread, the event it
//! takes it from: the release before an acquire, the write that a read sees, the
//! notify, the post, the end of a joined thread, unless they lie very far back. The
//! rest is counted. The witness is walked once, from its end, and at most some
//! dozens of rows are kept, however long it is.

use crate::values::Values;
use crate::words;
use snag_model::Variable;
use snag_model::{
    Action, EventId, Fault, LockId, Op, Ops, Probe, Schedule, SemId, Tables, ThreadCounts, ThreadId, Trace, VarId,
};
use std::ops::Range;

/// One row of a witness as it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Row {
    /// An event.
    Event(EventId),
    /// So many events that are not shown.
    Gap(u64),
}

/// What a witness leads to.
#[derive(Clone, Debug, Default)]
pub struct Goal {
    /// The events that come next after the witness.
    pub events: Vec<EventId>,
    /// An event on the way that must be shown, too: the earlier one of a race by memory order.
    pub before: Option<EventId>,
    /// Which locks are held there, and by whom.
    pub held: Vec<(ThreadId, LockId)>,
    /// What events do on the way there.
    pub values: Values,
    /// The wake-ups on the way there that come for no reason.
    pub spurious: Vec<EventId>,
}

impl Goal {
    /// What an event does on the way there, in words.
    pub fn operation(&self, trace: &Trace, event: EventId) -> String {
        if self.spurious.contains(&event) {
            return format!("wake {} for no reason", words::clean(&words::target(trace, event)));
        }
        words::operation_with(trace, event, self.values.of_event(trace, event))
    }
}

/// Events kept at the end of each thread of the goal.
const TAIL: usize = 3;
/// Synchronisations kept of each thread of the goal, before its tail.
const SYNCHRONISATIONS: usize = 4;

/// So far back from the end of a witness something is looked for.
const LOOK_BACK: usize = 30_000;

/// A witness of so many events is shown as it is.
const SHORT: u64 = 20;

/// The rows that explain how the goal is reached, in the order of the witness.
pub fn digest(trace: &Trace, counts: &ThreadCounts, witness: &Schedule, goal: &Goal) -> Vec<Row> {
    let all = length(trace, counts, witness);
    if all <= SHORT {
        return witness.iter(trace).map(Row::Event).collect();
    }
    let mut walk = Walk::new(trace, goal);
    let mut rest = backwards(trace, witness);
    let mut rows = Vec::new();
    let (mut gap, mut seen) = (0, 0);
    let mut last_skipped = EventId(0);
    let close = |rows: &mut Vec<Row>, gap: &mut u64, last_skipped: EventId| {
        match std::mem::take(gap) {
            0 => {}
            1 => rows.push(Row::Event(last_skipped)),
            n => rows.push(Row::Gap(n)),
        };
    };
    let mut looked_for = walk.looked_for();
    for _ in 0..LOOK_BACK {
        if looked_for == Ops::default() {
            break;
        }
        let Some(event) = rest.next() else { break };
        seen += 1;
        let keeps = looked_for.has(trace.events.ops()[event.index()]) && {
            let keeps = walk.keeps(event);
            looked_for = walk.looked_for();
            keeps
        };
        if keeps {
            close(&mut rows, &mut gap, last_skipped);
            rows.push(Row::Event(event));
        } else {
            gap += 1;
            last_skipped = event;
        }
    }
    if let Some(event) = rest.next() {
        gap += all - seen;
        // Shown only if the gap is of one event, and then it is this one.
        last_skipped = event;
    }
    close(&mut rows, &mut gap, last_skipped);
    rows.reverse();
    rows
}

/// How many events a witness has.
fn length(trace: &Trace, counts: &ThreadCounts, witness: &Schedule) -> u64 {
    match witness {
        Schedule::List(events) => events.len() as u64,
        Schedule::Continued { as_observed, then } => u64::from(as_observed.0) + then.len() as u64,
        Schedule::Prefixes(ends) => counts.all_before(ends),
        Schedule::Turns { .. } => counts.all_before(&witness.ends(trace)),
    }
}

/// The events of a witness from the last to the first.
fn backwards<'a>(trace: &'a Trace, witness: &'a Schedule) -> Backwards<'a> {
    let nothing = Backwards { trace, turns: Vec::new(), list: &[], ends: &[], before: 0 };
    match witness {
        Schedule::List(list) => Backwards { list, ..nothing },
        Schedule::Continued { as_observed, then } => Backwards { list: then, before: as_observed.index(), ..nothing },
        Schedule::Prefixes(ends) => Backwards { ends, before: last(ends), ..nothing },
        Schedule::Turns { ends, turns } => {
            let mut next = ends.clone();
            let turn = |&end: &EventId| {
                let next = &mut next[trace.thread_of(end).index()];
                std::mem::replace(next, EventId(end.0 + 1)).0..end.0 + 1
            };
            Backwards { turns: turns.iter().map(turn).collect(), ends, before: last(ends), ..nothing }
        }
    }
}

/// Behind the last event of prefixes.
fn last(ends: &[EventId]) -> usize {
    ends.iter().map(|end| end.index()).max().unwrap_or(0)
}

struct Backwards<'a> {
    trace: &'a Trace,
    /// Turns of which not everything was handed out yet: the last event of each range is one of its thread.
    turns: Vec<Range<u32>>,
    /// What was not handed out yet, if the witness is or ends with a list.
    list: &'a [EventId],
    /// Where prefixes end, by thread; if there are none, everything happens before the list.
    ends: &'a [EventId],
    /// The events of the trace before this one were not handed out yet.
    before: usize,
}

impl Iterator for Backwards<'_> {
    type Item = EventId;

    fn next(&mut self) -> Option<EventId> {
        let threads = self.trace.events.threads();
        if let Some(turn) = self.turns.last_mut() {
            let event = EventId(turn.end - 1);
            let thread = threads[event.index()];
            match (turn.start..event.0).rev().find(|&at| threads[at as usize] == thread) {
                Some(previous) => turn.end = previous + 1,
                None => _ = self.turns.pop(),
            }
            return Some(event);
        }
        if let Some((event, before)) = self.list.split_last() {
            self.list = before;
            return Some(*event);
        }
        loop {
            self.before = self.before.checked_sub(1)?;
            let event = EventId::new(self.before);
            if self.ends.is_empty() || event < self.ends[threads[self.before].index()] {
                return Some(event);
            }
        }
    }
}

/// What the walk still looks for, going back.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Want {
    /// The fork of a thread.
    Fork(ThreadId),
    /// The acquire by which a thread holds a lock.
    Held(ThreadId, LockId),
    /// The acquire by which another thread keeps this one from taking the lock.
    Holder(ThreadId, LockId),
    /// The release that lets this thread acquire the lock.
    Release(ThreadId, LockId),
    /// The write that this thread's access sees, if it is not its own.
    Seen(ThreadId, VarId),
    /// The last write of a variable, whoever did it.
    LastWrite(VarId),
    /// The last event of a thread.
    Last(ThreadId),
    /// The post that this thread's wait takes.
    Post(ThreadId, SemId),
    /// An event.
    Exactly(EventId),
}

/// What became of a wish at an event.
#[derive(PartialEq)]
enum Answer {
    Here,
    Nowhere,
    Earlier,
}

struct Walk<'a> {
    trace: &'a Trace,
    /// Threads of the goal: how many events and synchronisations are still to be kept.
    threads: Vec<(ThreadId, usize, usize)>,
    wants: Vec<Want>,
}

impl<'a> Walk<'a> {
    fn new(trace: &'a Trace, goal: &Goal) -> Walk<'a> {
        let mut walk = Walk { trace, threads: Vec::new(), wants: Vec::new() };
        for &event in &goal.events {
            let (event, thread) = (trace.event(event), trace.thread_of(event));
            let variable = event.action().variable().filter(|_| event.op.touches_memory());
            walk.threads.push((thread, TAIL, SYNCHRONISATIONS));
            walk.wants.push(Want::Fork(thread));
            if let Some(variable) = variable {
                walk.want(Want::LastWrite(variable));
            }
        }
        if let Some(before) = goal.before {
            walk.threads.push((trace.thread_of(before), TAIL, SYNCHRONISATIONS));
            walk.want(Want::Exactly(before));
        }
        for &(thread, lock) in &goal.held {
            walk.want(Want::Held(thread, lock));
        }
        walk
    }

    fn want(&mut self, want: Want) {
        if !self.wants.contains(&want) {
            self.wants.push(want);
        }
    }

    /// The operations of events that may be kept from here on; none if there are no more such events.
    fn looked_for(&self) -> Ops {
        let of_threads = self.threads.iter().map(|&(_, tail, syncs)| match (tail, syncs) {
            (0, 0) => Ops::default(),
            (0, _) => Ops::of(&Op::ALL.map(|op| if synchronises(op) { op } else { Op::Acquire })),
            _ => Ops::ALL,
        });
        of_threads.chain(self.wants.iter().map(|want| want.ops())).fold(Ops::default(), Ops::or)
    }

    fn keeps(&mut self, id: EventId) -> bool {
        let (trace, index) = (self.trace, id.index());
        let (op, thread) = (trace.events.ops()[index], trace.events.threads()[index]);
        let mut keep = false;
        let mut of_goal = false;
        for (goal, tail, syncs) in &mut self.threads {
            if *goal == thread {
                of_goal = true;
                if *tail > 0 {
                    *tail -= 1;
                    keep = true;
                } else if synchronises(op) && *syncs > 0 {
                    *syncs -= 1;
                    keep = true;
                }
            }
        }
        self.wants.retain(|want| {
            let answer = want.answer(trace, id);
            keep |= answer == Answer::Here;
            answer == Answer::Earlier
        });
        if keep && of_goal {
            self.sources(id);
        }
        keep
    }

    /// What a kept event takes over from another thread is wanted too.
    fn sources(&mut self, id: EventId) {
        let thread = self.trace.thread_of(id);
        match self.trace.action(id) {
            Action::Acquire { lock, .. } | Action::WaitEnd { lock, .. } => self.want(Want::Release(thread, lock)),
            Action::Wake { by: Some(notify), .. } => self.want(Want::Exactly(notify)),
            Action::SemWait { semaphore } => self.want(Want::Post(thread, semaphore)),
            Action::Join { thread: child, .. } => self.want(Want::Last(child)),
            Action::Probe(Probe::Held { lock, .. }) => self.want(Want::Holder(thread, lock)),
            Action::Probe(Probe::Count { semaphore, .. }) => self.want(Want::Post(thread, semaphore)),
            Action::Probe(Probe::Alive { thread: child }) => self.want(Want::Fork(child)),
            Action::Read { variable, .. } | Action::AtomicRead { variable, .. } | Action::Rmw { variable, .. } => {
                self.want(Want::Seen(thread, variable))
            }
            _ => {}
        }
    }
}

impl Want {
    /// The operations of events that may answer it.
    fn ops(self) -> Ops {
        match self {
            Want::Fork(_) => Ops::of(&[Op::Fork]),
            Want::Held(..) | Want::Holder(..) => Ops::of(&[Op::Acquire, Op::ReadAcquire, Op::WaitEnd]),
            Want::Release(..) => Ops::of(&[Op::Release, Op::ReadRelease, Op::WaitBegin]),
            Want::Seen(..) | Want::LastWrite(_) => Ops::of(&[Op::Write, Op::AtomicWrite, Op::Rmw]),
            Want::Post(..) => Ops::of(&[Op::SemPost]),
            Want::Last(_) | Want::Exactly(_) => Ops::ALL,
        }
    }

    fn answer(self, trace: &Trace, id: EventId) -> Answer {
        let (op, thread) = (trace.events.ops()[id.index()], trace.thread_of(id));
        if !self.ops().has(op) {
            return Answer::Earlier;
        }
        // Most of what is looked at is a write of something else.
        let writes = |wanted: VarId| overlap(&trace.tables, VarId(trace.events.targets()[id.index()]), wanted);
        let action = || trace.action(id);
        // Looked for up to the next of its kind; one of the thread's own hands nothing over.
        let from_another = |found: bool, by: ThreadId| match found {
            false => Answer::Earlier,
            true if thread == by => Answer::Nowhere,
            true => Answer::Here,
        };
        let here = |found: bool| if found { Answer::Here } else { Answer::Earlier };
        match self {
            Want::Fork(wanted) => here(matches!(action(), Action::Fork { thread: child, .. } if child == wanted)),
            Want::Held(holder, lock) => here(thread == holder && takes(trace, id) == Some(lock)),
            Want::Holder(kept_out, lock) => from_another(takes(trace, id) == Some(lock), kept_out),
            Want::Release(taker, lock) => from_another(gives_up(trace, id) == Some(lock), taker),
            Want::Seen(reader, variable) => from_another(writes(variable), reader),
            Want::LastWrite(variable) => here(writes(variable)),
            Want::Last(joined) => here(thread == joined),
            Want::Post(waiter, semaphore) => from_another(action() == Action::SemPost { semaphore }, waiter),
            Want::Exactly(event) => here(event == id),
        }
    }
}

/// The lock an event takes.
pub(crate) fn takes(trace: &Trace, id: EventId) -> Option<LockId> {
    match trace.action(id) {
        Action::Fault(Fault::Want { lock, .. }) => Some(lock),
        action => action.acquired().map(|(lock, _)| lock),
    }
}

/// The lock an event gives up.
pub(crate) fn gives_up(trace: &Trace, id: EventId) -> Option<LockId> {
    trace.action(id).released().map(|(lock, _)| lock)
}

fn synchronises(op: Op) -> bool {
    !op.on_other_side()
        && !matches!(
            op,
            Op::Read | Op::Write | Op::MethodBegin | Op::MethodEnd | Op::Branch | Op::Let | Op::Mark | Op::Reach
        )
        && !matches!(op, Op::Alloc | Op::Free)
        && !op.is_fault()
}

/// Whether two variables share memory.
pub(crate) fn overlap(tables: &Tables, a: VarId, b: VarId) -> bool {
    if a == b {
        return true;
    }
    match (tables.variable(a), tables.variable(b)) {
        (Variable::Range { address: a, size: n }, Variable::Range { address: b, size: m }) => {
            // Ranges do not wrap around, so their last bytes exist.
            a <= b + (m - 1) && b <= a + (n - 1)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tests::std_trace;

    fn shown(trace: &Trace, witness: &Schedule, goal: &[u32]) -> Vec<Row> {
        let goal = Goal { events: goal.iter().map(|&e| EventId(e)).collect(), ..Goal::default() };
        digest(trace, &ThreadCounts::new(trace), witness, &goal)
    }

    #[test]
    fn a_long_witness_keeps_the_fork_the_sources_and_the_tails() {
        let mut text = String::from("T0|fork(T1)|\nT0|w(x)|\nT0|acq(l)|\nT0|rel(l)|\n");
        for _ in 0..1000 {
            text += "T0|w(y)|\n";
        }
        text += "T1|acq(l)|\nT1|r(z)|\nT1|r(z)|\nT1|rel(l)|\nT1|r(x)|\nT0|w(x)|\n";
        let trace = std_trace(&text);
        let n = trace.len() as u32;
        let (first, second) = (n - 2, n - 1);
        let rows = shown(&trace, &Schedule::List((0..first).map(EventId).collect()), &[first, second]);
        let events = |list: &[u32]| -> Vec<Row> { list.iter().map(|&e| Row::Event(EventId(e))).collect() };
        let mut expected = events(&[0, 1, 2, 3]);
        expected.push(Row::Gap(997));
        expected.extend(events(&(1001..first).collect::<Vec<_>>()));
        assert_eq!(rows, expected);
        // The same events as prefixes give the same rows.
        let prefixes = Schedule::Prefixes(vec![EventId(second), EventId(first)]);
        assert_eq!(shown(&trace, &prefixes, &[first, second]), expected);
    }

    #[test]
    fn one_hidden_event_is_shown_instead_of_a_gap_of_one() {
        let trace = std_trace(&("T1|acq(l)|\n".repeat(21) + "T1|w(y)|\nT1|w(y)|\nT1|w(x)|\nT0|w(x)|\n"));
        let witness = Schedule::List((0..23).map(EventId).collect());
        let rows = shown(&trace, &witness, &[23, 24]);
        // The fork that is looked for is not there, three events end the thread, four acquires precede them.
        assert_eq!(rows[0], Row::Gap(16));
        assert_eq!(rows.len(), 8);
        let witness = Schedule::List((2..23).map(EventId).collect());
        let of_other = Goal { events: vec![EventId(24)], ..Goal::default() };
        assert_eq!(digest(&trace, &ThreadCounts::new(&trace), &witness, &of_other), [Row::Gap(21)]);
        let witness = Schedule::List((0..20).map(EventId).collect());
        assert_eq!(digest(&trace, &ThreadCounts::new(&trace), &witness, &of_other).len(), 20);
    }

    #[test]
    fn ranges_overlap_if_they_share_a_byte() {
        let mut tables = Tables::new();
        let a = tables.variable_range(8, 4);
        let b = tables.variable_range(11, 1);
        let c = tables.variable_range(12, u64::MAX - 11);
        assert!(overlap(&tables, a, b) && overlap(&tables, b, a));
        assert!(!overlap(&tables, a, c) && !overlap(&tables, c, b));
    }
}
