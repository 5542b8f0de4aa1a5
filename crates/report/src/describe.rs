//! Sentences about events, for those who show them outside a report.

use crate::background::Background;
use crate::place::Place;
use crate::words;
use snag_trace::{EventId, Op, Trace};

/// A pair of accesses in one line.
pub fn race(trace: &Trace, first: EventId, second: EventId) -> String {
    format!("data race on {}", crate::text::pair(trace, first, second))
}

/// An access as a noun: `write in T1 at bank.c:17`.
pub fn access(trace: &Trace, event: EventId) -> String {
    let (thread, place) = (words::thread(trace, event), words::place(trace, event));
    format!("{} in {thread} at {place}", trace.events.ops()[event.index()].word())
}

/// What a thread does next: `T1 is about to write balance at bank.c:17`.
pub fn about_to(trace: &Trace, event: EventId) -> String {
    let verb = match trace.events.ops()[event.index()] {
        Op::Rmw => "read and write",
        Op::AtomicRead => "read",
        Op::AtomicWrite => "write",
        op => op.word(),
    };
    let target = words::target(trace, event);
    let (thread, place) = (words::thread(trace, event), words::place(trace, event));
    format!("{thread} is about to {verb} {} at {place}", words::clean(&target))
}

/// The functions that an event's thread was in, one a line, with the source of the innermost.
pub fn stack(trace: &Trace, background: &dyn Background, event: EventId) -> Vec<String> {
    let mut lines = Vec::new();
    for (depth, frame) in background.stack(trace, event).iter().enumerate() {
        let function = if frame.function.is_empty() { "?" } else { &frame.function };
        lines.push(format!("  {} at {}", words::clean(function), words::clean(&frame.place)));
        if let Some(place) = Place::parse(&frame.place).filter(|_| depth == 0)
            && let Some(text) = background.source(place.path, place.line)
        {
            source(&text, place, &mut lines);
        }
    }
    lines
}

/// A source line with a mark under the column.
fn source(text: &str, place: Place, lines: &mut Vec<String>) {
    let shown = text.replace('\t', " ");
    let shown = words::clean(shown.trim_end());
    let number = place.line.to_string();
    lines.push(format!("  {number} | {shown}"));
    if let Some(column) = place.column.filter(|&column| column as usize <= text.len() + 1) {
        let blank = " ".repeat(number.len());
        lines.push(format!("  {blank} | {}^", " ".repeat(column as usize - 1)));
    }
}
