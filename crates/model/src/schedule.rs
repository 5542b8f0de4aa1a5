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
    /// Prefixes, and then turns: one thread after the other runs on.
    Turns {
        /// In the order of the trace: of each thread, the events before the given one. Indexed by thread.
        ends: Vec<EventId>,
        /// What follows: the thread of each of these events runs on up to it, and it happens, too.
        turns: Vec<EventId>,
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
            Schedule::Prefixes(ends) => Iter::Prefixes(Prefixes::of(trace, ends, start)),
            Schedule::Turns { ends, turns } => {
                Iter::Turns { prefixes: Prefixes::of(trace, ends, start), turns: Turns::of(trace, ends, turns) }
            }
        }
    }

    /// The same events in the same order, in little memory: the longest beginning that has the order of the trace as
    /// prefixes of threads, and the rest as turns. A schedule in which a thread leaves out an event stays as it is.
    pub fn compact(self, trace: &Trace) -> Schedule {
        let (ends, Rest::Events(rest)) = self.parts(trace) else { return self };
        if rest.iter().any(|event| event.index() >= trace.len()) {
            return self;
        }
        let mut turns: Vec<EventId> = Vec::new();
        for &event in rest {
            match turns.last_mut() {
                Some(last) if trace.thread_of(*last) == trace.thread_of(event) => *last = event,
                _ => turns.push(event),
            }
        }
        // With a hole in it, or from somebody who was wrong, it is not for us to repair.
        let is_same = Turns::of(trace, &ends, &turns).eq(rest.iter().copied());
        if is_same { Schedule::Turns { ends, turns } } else { self }
    }

    /// The longest beginning that has the order of the trace, as prefixes of threads (where they end, by thread), and
    /// what follows.
    pub fn parts<'a>(&'a self, trace: &'a Trace) -> (Vec<EventId>, Rest<'a>) {
        let (as_observed, list) = match self {
            Schedule::Prefixes(ends) => return (ends.clone(), Rest::Events(&[])),
            Schedule::Turns { ends, turns } => return (ends.clone(), Rest::Turns(turns)),
            Schedule::List(events) => (EventId(0), &events[..]),
            Schedule::Continued { as_observed, then } => (*as_observed, &then[..]),
        };
        let threads = trace.events.threads();
        // Where each thread has left out an event.
        let mut stopped: Vec<Option<EventId>> = vec![None; trace.tables.thread_count()];
        let (mut next, mut in_order) = (as_observed, 0);
        for &event in list {
            if event < next || event.index() >= threads.len() {
                break;
            }
            for skipped in (next.0..event.0).map(EventId) {
                stopped[threads[skipped.index()].index()].get_or_insert(skipped);
            }
            next = event;
            if stopped[threads[event.index()].index()].is_some() {
                break;
            }
            next = EventId(event.0 + 1);
            in_order += 1;
        }
        let ends = stopped.into_iter().map(|end| end.unwrap_or(next)).collect();
        (ends, Rest::Events(&list[in_order..]))
    }

    /// Of each thread, the first event that is not in the schedule, or any event between its last one there and that.
    pub fn ends(&self, trace: &Trace) -> Vec<EventId> {
        let (mut ends, list) = match self {
            Schedule::Prefixes(ends) => return ends.clone(),
            Schedule::List(events) => (vec![EventId(0); trace.tables.thread_count()], events),
            Schedule::Continued { as_observed, then } => (vec![*as_observed; trace.tables.thread_count()], then),
            Schedule::Turns { ends, turns } => (ends.clone(), turns),
        };
        for &event in list {
            let end = &mut ends[trace.thread_of(event).index()];
            *end = (*end).max(EventId(event.0 + 1));
        }
        ends
    }
}

/// What follows the beginning of a schedule; see [`Schedule::parts`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest<'a> {
    /// Event by event.
    Events(&'a [EventId]),
    /// The thread of each of these events runs on up to it, and it happens, too.
    Turns(&'a [EventId]),
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
    Prefixes(Prefixes<'a>),
    /// Of prefixes, and then of turns.
    Turns {
        /// The beginning.
        prefixes: Prefixes<'a>,
        /// What follows.
        turns: Turns<'a>,
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
            Iter::Prefixes(prefixes) => prefixes.next(),
            Iter::Turns { prefixes, turns } => prefixes.next().or_else(|| turns.next()),
        }
    }
}

/// The events of some threads before an event each, in the order of the trace.
pub struct Prefixes<'a> {
    /// Where the prefixes end, by thread.
    ends: &'a [EventId],
    /// The threads of the trace's events, up to the last end.
    threads: &'a [ThreadId],
    /// The first event that was not looked at yet.
    next: usize,
}

impl<'a> Prefixes<'a> {
    fn of(trace: &'a Trace, ends: &'a [EventId], start: usize) -> Prefixes<'a> {
        let last = ends.iter().map(|e| e.index()).max().unwrap_or(0).min(trace.len());
        Prefixes { ends, threads: &trace.events.threads()[..last], next: start }
    }
}

impl Iterator for Prefixes<'_> {
    type Item = EventId;

    #[inline(always)]
    fn next(&mut self) -> Option<EventId> {
        loop {
            let event = EventId::new(self.next);
            let thread = self.threads.get(self.next)?;
            self.next += 1;
            if event < self.ends[thread.index()] {
                return Some(event);
            }
        }
    }
}

/// The events of threads that run on, one after the other.
pub struct Turns<'a> {
    /// The threads of the trace's events.
    threads: &'a [ThreadId],
    /// By thread, behind the last event that has happened.
    next: Vec<EventId>,
    /// The last events of the turns to come.
    turns: std::slice::Iter<'a, EventId>,
    /// The last event of this turn.
    last: Option<EventId>,
}

impl<'a> Turns<'a> {
    /// The turns that end with these events, after prefixes that end like this.
    pub fn of(trace: &'a Trace, ends: &[EventId], turns: &'a [EventId]) -> Turns<'a> {
        Turns { threads: trace.events.threads(), next: ends.to_vec(), turns: turns.iter(), last: None }
    }
}

impl Iterator for Turns<'_> {
    type Item = EventId;

    fn next(&mut self) -> Option<EventId> {
        let last = match self.last.take() {
            Some(last) => last,
            None => *self.turns.next()?,
        };
        // An event that the trace does not have, or that has happened, is handed out all the same: the checker refuses
        // it.
        let Some(&thread) = self.threads.get(last.index()) else { return Some(last) };
        let next = &mut self.next[thread.index()];
        let event = (next.0..last.0).map(EventId).find(|at| self.threads[at.index()] == thread).unwrap_or(last);
        self.last = (event != last).then_some(last);
        *next = (*next).max(EventId(event.0 + 1));
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Event, Events};
    use crate::{Op, Tables};

    /// A trace of marks by these threads.
    fn trace(threads: &[u32]) -> Trace {
        let mut events = Events::default();
        let mut tables = Tables::default();
        for &thread in threads {
            let thread = tables.thread(&format!("T{thread}"));
            events.push(Event::new(thread, Op::Write, 0));
        }
        Trace { events, tables }
    }

    fn numbers(schedule: &Schedule, trace: &Trace) -> Vec<u32> {
        schedule.iter(trace).map(|event| event.0).collect()
    }

    fn ids(numbers: &[u32]) -> Vec<EventId> {
        numbers.iter().map(|&number| EventId(number)).collect()
    }

    #[test]
    fn compact_schedules_are_the_same() {
        let trace = trace(&[0, 1, 0, 1, 0, 0, 1, 2, 2]);
        // T1 stands still before its second event while T0 goes on; then both, in turns.
        let list = Schedule::List(ids(&[0, 1, 2, 4, 5, 3, 7, 8, 6]));
        let compact = list.clone().compact(&trace);
        assert_eq!(compact, Schedule::Turns { ends: ids(&[6, 3, 6]), turns: ids(&[3, 8, 6]) });
        assert_eq!(numbers(&compact, &trace), numbers(&list, &trace));
        assert_eq!(compact.ends(&trace), ids(&[6, 7, 9]));
        let continued = Schedule::Continued { as_observed: EventId(3), then: ids(&[4, 5, 3, 6]) };
        let compact = continued.clone().compact(&trace);
        assert_eq!(compact, Schedule::Turns { ends: ids(&[6, 3, 6]), turns: ids(&[6]) });
        assert_eq!(numbers(&compact, &trace), [0, 1, 2, 4, 5, 3, 6]);
        let from = |schedule: &Schedule| schedule.iter_from(&trace, 3).map(|event| event.0).collect::<Vec<u32>>();
        assert_eq!(from(&compact), [4, 5, 3, 6]);
    }

    #[test]
    fn what_is_no_schedule_is_not_repaired() {
        let trace = trace(&[0, 1, 0, 1, 0]);
        for wrong in [&[0, 4][..], &[0, 0], &[0, 2, 1, 0], &[9], &[2, 0, 1]] {
            let list = Schedule::List(ids(wrong));
            assert_eq!(numbers(&list.clone().compact(&trace), &trace), wrong);
            let turns = Schedule::Turns { ends: ids(&[0, 0]), turns: ids(wrong) };
            assert_eq!(turns.iter(&trace).last(), Some(EventId(wrong[wrong.len() - 1])), "ends");
        }
    }
}
