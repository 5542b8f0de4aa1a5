//! Schedules of a trace, and what their reads must see.

use crate::{EventId, ThreadId, Trace};
use std::fmt;
use std::str::FromStr;

/// What the reads of a schedule must see; each level allows all that the one before allows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// Every read that is followed by another event of its thread sees the write it saw.
    Writer,
    /// It sees the value it saw.
    Value,
    /// Only reads that a branch follows have to.
    Control,
    /// No read has to, if every branch still goes where it went; or the last one of a thread the other way, where the
    /// trace says what happens then.
    Symbolic,
}

impl Level {
    /// Every level, from the strictest on.
    pub const ALL: [Level; 4] = [Level::Writer, Level::Value, Level::Control, Level::Symbolic];

    /// The word for it on the command line and in machine output.
    pub fn word(self) -> &'static str {
        match self {
            Level::Writer => "writer",
            Level::Value => "value",
            Level::Control => "control",
            Level::Symbolic => "symbolic",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(word: &str) -> Result<Level, String> {
        Level::ALL.into_iter().find(|level| level.word() == word).ok_or_else(|| format!("unknown level '{word}'"))
    }
}

/// What a schedule shows of a pair of accesses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RaceKind {
    /// Both are next after it, so either may be first.
    Predictable,
    /// Both are in it, and by the memory orders of its atomics neither happens before the other.
    Order,
}

impl RaceKind {
    /// The word for it in machine output.
    pub fn word(self) -> &'static str {
        match self {
            RaceKind::Predictable => "predictable",
            RaceKind::Order => "order",
        }
    }
}

/// A sequence of events of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// In the order of the trace: of each thread, the events before the given one.
    /// Indexed by thread. Takes no memory per event, so that a thousand witnesses
    /// of a long trace fit.
    Prefixes(Vec<EventId>),
    /// Any order, event by event.
    List(Vec<EventId>),
    /// All events of the trace before one, as they were, and then others in any order.
    Continued {
        /// The first event that does not happen as it did.
        as_observed: EventId,
        /// What follows, event by event.
        then: Vec<EventId>,
    },
}

impl Schedule {
    /// The trace as it was observed, up to and with an event.
    pub fn up_to(event: EventId) -> Schedule {
        Schedule::Continued { as_observed: EventId(event.0 + 1), then: Vec::new() }
    }

    /// The events in order.
    pub fn iter<'a>(&'a self, trace: &'a Trace) -> Iter<'a> {
        self.iter_from(trace, 0)
    }

    /// The events in order, without the first `start` events of the trace, with which the schedule begins.
    pub fn iter_from<'a>(&'a self, trace: &'a Trace, start: usize) -> Iter<'a> {
        match self {
            Schedule::List(events) => Iter::List(events[start..].iter()),
            Schedule::Continued { as_observed, then } => {
                Iter::Continued { next: start as u32, end: as_observed.0, then: then.iter() }
            }
            Schedule::Prefixes(ends) => {
                let last = ends.iter().map(|e| e.index()).max().unwrap_or(0);
                Iter::Prefixes { ends, threads: &trace.events.threads()[..last], next: start }
            }
        }
    }
}

/// The events of a schedule; see [`Schedule::iter`].
pub enum Iter<'a> {
    /// Of a list.
    List(std::slice::Iter<'a, EventId>),
    /// Of the trace up to a point, and then of a list.
    Continued {
        /// The next event of the trace.
        next: u32,
        /// Where the list takes over.
        end: u32,
        /// The list.
        then: std::slice::Iter<'a, EventId>,
    },
    /// Of prefixes.
    Prefixes {
        /// Where the prefixes end, by thread.
        ends: &'a [EventId],
        /// The threads of the trace's events, up to the last end.
        threads: &'a [ThreadId],
        /// The first event that was not looked at yet.
        next: usize,
    },
}

impl Iterator for Iter<'_> {
    type Item = EventId;

    #[inline(always)]
    fn next(&mut self) -> Option<EventId> {
        match self {
            Iter::List(events) => events.next().copied(),
            Iter::Continued { next, end, then } => {
                if next < end {
                    *next += 1;
                    return Some(EventId(*next - 1));
                }
                then.next().copied()
            }
            Iter::Prefixes { ends, threads, next } => loop {
                let event = EventId::new(*next);
                let thread = threads.get(*next)?;
                *next += 1;
                if event < ends[thread.index()] {
                    return Some(event);
                }
            },
        }
    }
}
