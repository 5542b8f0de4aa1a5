//! Witnesses as JSON: how far each thread gets in the order of the trace, and then the rest.
//!
//! A witness of ten million events takes as many characters as one of ten, if it leaves the order of the trace only
//! near its end, as most do.

use crate::emit::Emitter;
use snag_model::{EventId, Rest, Schedule, ThreadCounts, ThreadId, Trace, Turns};
use std::io::{self, Write};

/// How witnesses are written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Witnesses {
    /// As counts by thread, and the rest.
    #[default]
    Compact,
    /// As lists of events.
    Full,
}

/// A rest of so many events is listed; of a longer one only the last event of each turn.
const LISTED: usize = 1000;

/// Writes a witness.
pub(crate) fn write<W: Write>(
    json: &mut Emitter<W>,
    trace: &Trace,
    counts: &ThreadCounts,
    schedule: &Schedule,
    witnesses: Witnesses,
) -> io::Result<()> {
    if witnesses == Witnesses::Full {
        return list(json, schedule.iter(trace));
    }
    let compact;
    let schedule = match schedule {
        // Short, or with holes, or it would be compact already.
        Schedule::List(_) | Schedule::Continued { .. } => {
            compact = schedule.clone().compact(trace);
            &compact
        }
        schedule => schedule,
    };
    let (ends, rest) = schedule.parts(trace);
    json.object()?;
    json.object_at("counts")?;
    for (number, &end) in ends.iter().enumerate() {
        let thread = ThreadId::new(number);
        match counts.before(thread, end) {
            0 => {}
            count => json.integer_at(trace.tables.thread_name(thread), count.into())?,
        }
    }
    json.end()?;
    match rest {
        Rest::Events(events) => {
            json.key("then")?;
            list(json, events.iter().copied())?;
        }
        Rest::Turns(turns) => {
            let events = || Turns::of(trace, &ends, turns);
            let is_short = events().nth(LISTED).is_none();
            json.key(if is_short { "then" } else { "turns" })?;
            if is_short { list(json, events())? } else { list(json, turns.iter().copied())? }
        }
    }
    json.end()
}

fn list<W: Write>(json: &mut Emitter<W>, events: impl Iterator<Item = EventId>) -> io::Result<()> {
    json.array()?;
    for event in events {
        json.integer(event.0.into())?;
    }
    json.end()
}
