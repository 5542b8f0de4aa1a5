//! How a race happens, told in a paragraph.
//!
//! The recorded run had the first access before the second. The paragraph says how the witness differs from that run:
//! which synchronisation, if any, put the second access behind the first, and that it does not do so in the witness.
//!
//! Synchronisation is followed forward from the first access, event by event: a thread *is behind* it once it has taken
//! over something that a thread behind it gave up. If the second access is behind the first, the links of that chain are
//! walked back. The thread of the first access stops in front of it in the witness, so the start of the chain is not in
//! the witness; its end is. Somewhere in between is a link whose giving is not in the witness and whose taking is: that
//! is what no longer orders the two.

use crate::digest::overlap;
use crate::number::grouped;
use crate::words;
use snag_model::{Action, BarrierId, EventId, LockId, Mode, Op, Probe, SemId, ThreadId, Trace, VarId};
use snag_pipeline::Race;
use std::collections::HashMap;

/// What the recorded run did.
pub(crate) fn beginning(trace: &Trace, race: &Race) -> String {
    let (first, second) = (race.first, race.second);
    let [one, other] = [first, second].map(|event| words::thread(trace, event));
    let [here, there] = [first, second].map(|event| words::place(trace, event));
    let target = words::target(trace, first);
    let later = match second.0.saturating_sub(first.0) {
        0 | 1 => "right after it".to_owned(),
        more => format!("{} events later", grouped(more.into())),
    };
    format!(
        "In the recorded run {one} {} {} at {here}, and {other} {} it at {there} {later}. ",
        past(trace, first),
        words::clean(&target),
        past(trace, second),
    )
}

/// The paragraph about a race.
pub(crate) fn of_race(trace: &Trace, race: &Race) -> String {
    let (first, second) = (race.first, race.second);
    let [one, other] = [first, second].map(|event| words::thread(trace, event));
    let mut text = beginning(trace, race);
    text += &match broken_link(trace, race) {
        None => format!(
            "No lock, signal, atomic or join in between made {other} wait for {one}, so {other} may get there while {one} \
             has not gone on yet."
        ),
        Some(link) => format!(
            "{} But {} can run ahead: while {one} is held up in front of its access, {}",
            kept_back(trace, link),
            words::thread(trace, link.takes),
            not_kept_back(trace, link)
        ),
    };
    let stands = |event: EventId, locks: &[LockId]| {
        format!(
            "{} stands at {}, {}",
            words::thread(trace, event),
            words::place(trace, event),
            words::holding(trace, locks)
        )
    };
    text += &format!(
        " Then {}, and {}: each is about to make its access, and either may be first.",
        stands(first, &race.locks_first),
        stands(second, &race.locks_second)
    );
    text
}

/// An access, as something that was done.
fn past(trace: &Trace, event: EventId) -> &'static str {
    match trace.events.ops()[event.index()] {
        Op::Write => "wrote",
        Op::AtomicRead => "read, atomically,",
        Op::AtomicWrite => "wrote, atomically,",
        Op::Rmw => "updated, atomically,",
        Op::Alloc => "allocated",
        Op::Free => "freed",
        _ => "read",
    }
}

/// Something that one thread gave up and another took over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Link {
    pub gives: EventId,
    pub takes: EventId,
}

/// What kept the second access behind the first in the recorded run.
fn kept_back(trace: &Trace, link: Link) -> String {
    let Link { gives, takes } = link;
    let [giver, taker] = [gives, takes].map(|event| words::thread(trace, event));
    let [given, taken] = [gives, takes].map(|event| words::place(trace, event));
    match trace.events.ops()[takes.index()] {
        Op::Acquire | Op::ReadAcquire | Op::WaitEnd => {
            let lock = crate::digest::takes(trace, takes).map_or("", |lock| trace.tables.lock_name(lock));
            let lock = words::clean(lock);
            format!("{lock} kept them apart: {giver} gave it back at {given} before {taker} took it at {taken}.")
        }
        Op::AtomicRead | Op::Rmw => {
            let target = words::target(trace, takes);
            let target = words::clean(&target);
            format!("{target} kept them apart: {giver} wrote it at {given} before {taker} read it at {taken}.")
        }
        Op::TryFail | Op::ReadTryFail => {
            let target = words::target(trace, takes);
            let target = words::clean(&target);
            format!(
                "{target} kept them apart: {giver} took it at {given} before the attempt of {taker} to take it failed at \
                 {taken}."
            )
        }
        Op::SemWait => {
            let target = words::target(trace, takes);
            let target = words::clean(&target);
            format!("{target} kept them apart: {giver} posted it at {given} before {taker} passed it at {taken}.")
        }
        Op::Wake => {
            let condition = words::target(trace, takes);
            let condition = words::clean(&condition);
            format!(
                "{condition} kept them apart: {giver} notified it at {given}, which ended the wait of {taker} at {taken}."
            )
        }
        op => {
            let gave = trace.events.ops()[gives.index()].word();
            format!("This kept them apart: {gave} in {giver} at {given} before {} in {taker} at {taken}.", op.word())
        }
    }
}

/// Why it does not in the witness.
fn not_kept_back(trace: &Trace, link: Link) -> String {
    let giver = words::thread(trace, link.gives);
    match trace.events.ops()[link.takes.index()] {
        Op::Acquire | Op::ReadAcquire | Op::WaitEnd => {
            let lock = crate::digest::takes(trace, link.takes).map_or("", |lock| trace.tables.lock_name(lock));
            format!("{} is free, and it need not wait for {giver} to give it back.", words::clean(lock))
        }
        Op::AtomicRead | Op::Rmw => {
            let target = words::target(trace, link.takes);
            format!("what it reads from {} does not have to come from {giver}.", words::clean(&target))
        }
        Op::TryFail | Op::ReadTryFail => {
            format!("its attempt fails as well while another thread than {giver} holds it.")
        }
        Op::SemWait => {
            let target = words::target(trace, link.takes);
            format!("{} lets it pass without that post of {giver}.", words::clean(&target))
        }
        Op::Wake => "its wait ends for no reason, as waits on condition variables may.".to_owned(),
        _ => format!("it does not depend on {giver}."),
    }
}

/// The link between the two accesses that the witness does without; `None` if nothing linked them.
fn broken_link(trace: &Trace, race: &Race) -> Option<Link> {
    let chain = chain(trace, race.first, race.second)?;
    let ends = race.witness.ends(trace);
    let happens = |event: EventId| event < ends[trace.thread_of(event).index()];
    chain.into_iter().find(|link| !happens(link.gives) && happens(link.takes))
}

/// The links by which the thread of `second` is behind `first` when it comes to `second`, from the first one on.
fn chain(trace: &Trace, first: EventId, second: EventId) -> Option<Vec<Link>> {
    let between = first.index() + 1..second.index();
    links(trace, between.map(EventId::new), first, second, false)
}

/// The same in the witness of a race by memory order, as if every atomic were sequentially consistent; the second access may
/// itself be where the last link ends.
pub(crate) fn strong_chain(trace: &Trace, race: &Race) -> Option<Vec<Link>> {
    let after_first = race.witness.iter(trace).skip_while(|&event| event != race.first).skip(1);
    let upto_second = after_first.take_while(|&event| event != race.second).chain([race.second]);
    links(trace, upto_second, race.first, race.second, true)
}

/// Of what ordered the two accesses in the recorded run, what does not in the witness.
pub(crate) fn overturned(trace: &Trace, race: &Race) -> Option<String> {
    let chain = chain(trace, race.first, race.second)?;
    let events = || race.witness.iter(trace);
    let keeps = |link: &Link| {
        let mut rest = events().skip_while(|&event| event != link.gives && event != link.takes);
        rest.next() == Some(link.gives)
    };
    chain.into_iter().find(|link| !keeps(link)).map(|link| kept_back(trace, link))
}

fn links(
    trace: &Trace,
    between: impl Iterator<Item = EventId>,
    first: EventId,
    second: EventId,
    strong: bool,
) -> Option<Vec<Link>> {
    let mut behind = Behind { trace, strong, given: HashMap::new(), atomics: Vec::new(), threads: HashMap::new() };
    let (from, to) = (trace.thread_of(first), trace.thread_of(second));
    behind.threads.insert(from, (None, first));
    if strong {
        behind.give(first);
    }
    for event in between {
        behind.event(event);
        if behind.threads.contains_key(&to) {
            break;
        }
    }
    let mut links = Vec::new();
    let mut thread = to;
    while thread != from {
        let link = behind.threads.get(&thread)?.0?;
        links.push(link);
        thread = trace.thread_of(link.gives);
    }
    links.reverse();
    Some(links)
}

/// What one thread gives up and another one takes over.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Thing {
    /// A lock that was held like this.
    Lock(LockId, Mode),
    /// A lock while somebody holds it.
    Held(LockId),
    Notify(EventId),
    Semaphore(SemId),
    /// A semaphore that somebody has waited on, for those who look at its count.
    Passed(SemId),
    Barrier(BarrierId),
    /// All before a fork, for the thread that it starts.
    Start(ThreadId),
}

/// What is behind the first access so far.
struct Behind<'a> {
    trace: &'a Trace,
    /// Every atomic counts as sequentially consistent.
    strong: bool,
    /// The last event behind it that gave up each thing.
    given: HashMap<Thing, EventId>,
    /// The last releasing write behind it of each atomic that still holds it.
    atomics: Vec<(VarId, EventId)>,
    /// Threads behind it: the link by which they are, and their last event.
    threads: HashMap<ThreadId, (Option<Link>, EventId)>,
}

impl Behind<'_> {
    fn event(&mut self, id: EventId) {
        let thread = self.trace.thread_of(id);
        if !self.threads.contains_key(&thread)
            && let Some(gives) = self.taken_from(id)
        {
            self.threads.insert(thread, (Some(Link { gives, takes: id }), id));
        }
        match self.threads.get_mut(&thread) {
            Some(state) => {
                state.1 = id;
                self.give(id);
            }
            None => self.overwrite(id),
        }
    }

    /// The event behind the first access that this one takes something over from.
    fn taken_from(&self, id: EventId) -> Option<EventId> {
        let thread = self.trace.thread_of(id);
        let given = |thing: Thing| self.given.get(&thing).copied();
        given(Thing::Start(thread)).or_else(|| match self.trace.action(id) {
            Action::Wake { by: Some(notify), .. } => given(Thing::Notify(notify)),
            Action::SemWait { semaphore } => given(Thing::Semaphore(semaphore)),
            Action::BarrierLeave { barrier } | Action::BarrierEnter { barrier } => given(Thing::Barrier(barrier)),
            Action::Join { thread: child, .. } => self.threads.get(&child).map(|state| state.1),
            Action::AtomicRead { variable, order, .. } | Action::Rmw { variable, order, .. }
                if self.strong || order.acquires() =>
            {
                let tables = &self.trace.tables;
                self.atomics.iter().find(|(var, _)| overlap(tables, *var, variable)).map(|(_, event)| *event)
            }
            Action::Probe(Probe::Held { lock, .. }) => given(Thing::Held(lock)),
            Action::Probe(Probe::Count { semaphore, .. }) => {
                given(Thing::Semaphore(semaphore)).max(given(Thing::Passed(semaphore)))
            }
            Action::Probe(Probe::Alive { thread: child }) => given(Thing::Start(child)),
            action => match action.acquired()? {
                (lock, Mode::Shared) => given(Thing::Lock(lock, Mode::Exclusive)),
                (lock, Mode::Exclusive) => {
                    given(Thing::Lock(lock, Mode::Exclusive)).max(given(Thing::Lock(lock, Mode::Shared)))
                }
            },
        })
    }

    /// A thread behind the first access gives something up.
    fn give(&mut self, id: EventId) {
        let thing = match self.trace.action(id) {
            Action::SemPost { semaphore } => Thing::Semaphore(semaphore),
            Action::SemWait { semaphore } => Thing::Passed(semaphore),
            Action::BarrierEnter { barrier } => Thing::Barrier(barrier),
            Action::Fork { thread, .. } => Thing::Start(thread),
            Action::Notify { .. } | Action::NotifyAll { .. } => Thing::Notify(id),
            Action::AtomicWrite { variable, order, .. } | Action::Rmw { variable, order, .. }
                if self.strong || order.releases() =>
            {
                self.atomics.retain(|(var, _)| *var != variable);
                return self.atomics.push((variable, id));
            }
            action => match (action.released(), action.acquired()) {
                (Some((lock, mode)), _) => Thing::Lock(lock, mode),
                (None, Some((lock, _))) => Thing::Held(lock),
                (None, None) => return self.overwrite(id),
            },
        };
        self.given.insert(thing, id);
    }

    /// An atomic write hides what was released there before; an update passes it on.
    fn overwrite(&mut self, id: EventId) {
        if let Action::AtomicWrite { variable, .. } = self.trace.action(id) {
            self.atomics.retain(|(var, _)| *var != variable);
        }
    }
}

/// Where a thread took a lock that it holds at an event.
pub(crate) fn acquired_at(trace: &Trace, event: EventId, lock: LockId) -> Option<EventId> {
    let threads = trace.events.threads();
    let thread = threads[event.index()];
    let mut given_back = 0;
    for index in (0..event.index()).rev().filter(|&index| threads[index] == thread) {
        let id = EventId::new(index);
        if crate::digest::gives_up(trace, id) == Some(lock) {
            given_back += 1;
        } else if crate::digest::takes(trace, id) == Some(lock) {
            match given_back {
                0 => return Some(id),
                _ => given_back -= 1,
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tests::{race, std_trace};

    #[test]
    fn a_lock_that_no_longer_orders_is_named() {
        let trace = std_trace(
            "main|fork(w)|a:1\nmain|w(x)|a:2\nmain|acq(l)|a:3\nmain|rel(l)|a:4\nw|acq(l)|b:1\nw|r(x)|b:2\nw|rel(l)|b:3\n",
        );
        let mut found = race(1, 5, &[0, 4]);
        found.locks_second = vec![LockId(0)];
        assert_eq!(
            of_race(&trace, &found),
            "In the recorded run main wrote x at a:2, and w read it at b:2 4 events later. l kept them apart: main \
             gave it back at a:4 before w took it at b:1. But w can run ahead: while main is held up in front of its \
             access, l is free, and it need not wait for main to give it back. Then main stands at a:2, holding no locks, \
             and w stands at b:2, holding l: each is about to make its access, and either may be first."
        );
        assert_eq!(acquired_at(&trace, EventId(5), LockId(0)), Some(EventId(4)));
        assert_eq!(acquired_at(&trace, EventId(4), LockId(0)), None);
    }

    #[test]
    fn two_accesses_that_nothing_orders_are_said_to_be_that() {
        let trace = std_trace(
            "main|fork(w)|\nmain|fork(v)|\nw|acq(l)|\nw|rel(l)|\nw|w(x)|w:1\nv|acq(l)|\nv|w(x)|v:1\nv|rel(l)|\n",
        );
        let text = of_race(&trace, &race(4, 6, &[0, 1, 2, 3, 5]));
        assert!(text.contains("No lock, signal, atomic or join in between made v wait for w"), "{text}");
    }

    #[test]
    fn of_a_chain_the_link_that_the_witness_breaks_is_named() {
        // a gives l to b, b gives m to c; in the witness b stays behind, and c takes m before it.
        let trace = std_trace(
            "a|w(x)|a:1\na|acq(l)|\na|rel(l)|a:2\nb|acq(l)|b:1\nb|rel(l)|\nb|acq(m)|\nb|rel(m)|b:2\nc|acq(m)|c:1\nc|w(x)|c:2\n",
        );
        let all = chain(&trace, EventId(0), EventId(8)).unwrap();
        let link = |gives, takes| Link { gives: EventId(gives), takes: EventId(takes) };
        assert_eq!(all, [link(2, 3), link(6, 7)]);
        assert_eq!(broken_link(&trace, &race(0, 8, &[7])), Some(link(6, 7)));
        assert_eq!(broken_link(&trace, &race(0, 8, &[3, 4, 5, 6, 7])), Some(link(2, 3)));
    }
}
