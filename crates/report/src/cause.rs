//! What a race by memory order is about: which atomics, or failed attempts, carried the news from the first access to the
//! second, and what their orders lack.
//!
//! The chain of hand-overs is that of [`crate::story`], with every atomic counted as sequentially consistent. A link that
//! atomics make is broken if the write does not release or the read does not acquire, by itself or by a fence. A link that
//! ends in an attempt that fails is always broken: such an attempt synchronises with nothing.

use crate::story::{self, Link};
use crate::words;
use snag_model::{Action, EventId, MemoryOrder, Op, Probe, Trace};
use snag_pipeline::Race;

/// The paragraph about a race by memory order.
pub(crate) fn of_race(trace: &Trace, race: &Race) -> String {
    let mut text = story::beginning(trace, race);
    if !race.is_observed() {
        if let Some(kept_apart) = story::overturned(trace, race) {
            text += &kept_apart;
            text.push(' ');
        }
        text += "The schedule below is another one. ";
    }
    let broken = broken(trace, race);
    let Some(first) = broken.first() else {
        text += "What happened in between does not synchronise them by the rules of C11, C++20 and Rust.";
        return text;
    };
    text += &carried(trace, first);
    for more in &broken[1..] {
        text.push(' ');
        text += &carried(trace, more);
    }
    let lacks = |what: fn(&Broken) -> bool, why: &'static str| broken.iter().any(what).then_some(why);
    let why: Vec<&str> = [
        lacks(|link| !link.released, "a write that does not release hands nothing on"),
        lacks(|link| !link.acquired, "a read that does not acquire takes nothing over"),
        lacks(|link| link.attempt == Some(Attempt::Fails), "an attempt that fails takes nothing over"),
        lacks(|link| link.attempt == Some(Attempt::Looks), "a look at a count takes nothing over"),
    ]
    .into_iter()
    .flatten()
    .collect();
    // Until C++20 a later store of the same thread belonged to the release sequence.
    let rules = match broken.iter().any(|link| !link.released && follows_release(trace, race.first, link.link.gives)) {
        true => "C++20 and Rust (C11, and C++ before 2020, let a later store of the same thread carry the news on)",
        false => "C11, C++20 and Rust",
    };
    text += &format!(
        " By the rules of {rules}, {}: nothing orders the two accesses, and compiler and processor may move \
         them.",
        why.join(", and ")
    );
    let repairs: Vec<String> = broken.iter().flat_map(|link| repairs(trace, link)).collect();
    text += &format!(" The weakest repair: {}.", repairs.join(", and "));
    text
}

/// A hand-over by an atomic that the memory orders do not make one, or by an attempt that failed.
struct Broken {
    /// The write and the read, or what made the attempt fail and the attempt.
    link: Link,
    released: bool,
    acquired: bool,
    attempt: Option<Attempt>,
}

/// What finds a lock, a thread or a semaphore in some state, and synchronises with nothing.
#[derive(Clone, Copy, PartialEq)]
enum Attempt {
    Fails,
    /// Also an attempt to wait that failed.
    Looks,
}

/// The links of the chain that do not synchronise; at least one for a race by memory order.
fn broken(trace: &Trace, race: &Race) -> Vec<Broken> {
    let Some(links) = story::strong_chain(trace, race) else { return Vec::new() };
    let mut found = Vec::new();
    // From when on the giving thread has known of the first access.
    let mut since = race.first;
    let mut at = 0;
    while at < links.len() {
        let gives = links[at].gives;
        // A read-modify-write in between carries the release sequence on, whatever its order.
        while at + 1 < links.len()
            && trace.events.ops()[links[at].takes.index()] == Op::Rmw
            && links[at].takes == links[at + 1].gives
        {
            at += 1;
        }
        let takes = links[at].takes;
        let until = links.get(at + 1).map_or(race.second, |next| next.gives);
        let op = |event: EventId| trace.events.ops()[event.index()];
        if op(gives).is_atomic() && op(takes).is_atomic() {
            let order = |event: EventId| trace.event(event).memory_order();
            let released = order(gives).releases() || has_fence(trace, since, gives, MemoryOrder::releases);
            let acquired = order(takes).acquires() || has_fence(trace, takes, until, MemoryOrder::acquires);
            if !(released && acquired) {
                found.push(Broken { link: Link { gives, takes }, released, acquired, attempt: None });
            }
        } else if let Action::Probe(probe) = trace.action(takes) {
            let attempt = if matches!(probe, Probe::Count { .. }) { Attempt::Looks } else { Attempt::Fails };
            found.push(Broken { link: Link { gives, takes }, released: true, acquired: true, attempt: Some(attempt) });
        }
        since = takes;
        at += 1;
    }
    found
}

/// Whether the thread of a write has released the same variable before, after an event, and only it has written it since.
fn follows_release(trace: &Trace, after: EventId, write: EventId) -> bool {
    let (thread, variable) = (trace.thread_of(write), trace.action(write).variable());
    let writes = |event: &EventId| {
        let op = trace.events.ops()[event.index()];
        op.writes() && op != Op::Rmw && trace.action(*event).variable() == variable
    };
    let earlier = (after.0 + 1..write.0).rev().map(EventId).filter(writes);
    let mut own = earlier.take_while(|&event| trace.thread_of(event) == thread);
    own.any(|event| trace.events.ops()[event.index()].is_atomic() && trace.event(event).memory_order().releases())
}

/// Whether the thread of both events has a fence between them.
fn has_fence(trace: &Trace, from: EventId, to: EventId, kind: fn(MemoryOrder) -> bool) -> bool {
    let thread = trace.thread_of(from);
    (from.0 + 1..to.0).map(EventId).filter(|&event| trace.thread_of(event) == thread).any(|event| {
        match trace.action(event) {
            Action::Fence { order } => kind(order),
            Action::MethodBegin { .. } | Action::MethodEnd { .. } => true,
            _ => false,
        }
    })
}

/// Who handed what to whom, with the orders as they are.
fn carried(trace: &Trace, broken: &Broken) -> String {
    let Link { gives, takes } = broken.link;
    if let Some(attempt) = broken.attempt {
        let what = if attempt == Attempt::Fails { "an attempt that failed" } else { "a look at a count" };
        return format!("Only {what} links them: {}.", found_so(trace, gives, takes));
    }
    let target = words::target(trace, gives);
    let side = |event: EventId| {
        let verb = match trace.events.ops()[event.index()] {
            Op::Rmw => "updated",
            Op::AtomicRead => "read",
            _ => "wrote",
        };
        let order = trace.event(event).memory_order().word();
        format!("{} {verb} it ({order}) at {}", words::thread(trace, event), words::place(trace, event))
    };
    format!("Only {} links them: {}, and {}.", words::clean(&target), side(gives), side(takes))
}

/// What an attempt failed because of, or what a look at a count found.
fn found_so(trace: &Trace, gives: EventId, takes: EventId) -> String {
    let [giver, taker] = [gives, takes].map(|event| words::thread(trace, event));
    let [given, place] = [gives, takes].map(|event| words::place(trace, event));
    let target = words::target(trace, takes);
    let target = words::clean(&target);
    match trace.action(takes) {
        Action::Probe(Probe::Count { .. }) => {
            let did = if trace.events.ops()[gives.index()] == Op::SemPost { "posted" } else { "passed" };
            format!("{giver} {did} {target} at {given}, and {taker} looked at its count at {place}")
        }
        Action::Probe(Probe::Alive { .. }) => {
            format!("{giver} created {target} at {given}, and {taker} found at {place} that it had not ended")
        }
        _ => format!("{giver} took {target} at {given}, and {taker} tried to take it at {place}"),
    }
}

/// What to change for a hand-over to synchronise.
fn repairs(trace: &Trace, broken: &Broken) -> Vec<String> {
    let Link { gives, takes } = broken.link;
    if broken.attempt.is_some() {
        let [given, place] = [gives, takes].map(|event| words::place(trace, event));
        return vec![format!("an atomic that is written (release) before {given} and read (acquire) after {place}")];
    }
    let stronger = |event: EventId, acquires: bool| {
        let order = trace.event(event).memory_order();
        let both = order.acquires() || order.releases();
        match (both, acquires) {
            (true, _) => MemoryOrder::AcqRel,
            (false, true) => MemoryOrder::Acquire,
            (false, false) => MemoryOrder::Release,
        }
    };
    let release = (!broken.released).then(|| {
        let (order, place) = (stronger(gives, false).word(), words::place(trace, gives));
        format!("{order} for the write at {place} (or a release fence before it)")
    });
    let acquire = (!broken.acquired).then(|| {
        let (order, place) = (stronger(takes, true).word(), words::place(trace, takes));
        format!("{order} for the read at {place} (or an acquire fence after it)")
    });
    release.into_iter().chain(acquire).collect()
}
