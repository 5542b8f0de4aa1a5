//! Sentences about events, for those who show them outside a report.

use crate::background::{Background, Frame};
use crate::place::Place;
use crate::{story, words};
use snag_model::{EventId, Op, Trace};
use snag_pipeline::Race;

/// A pair of accesses in one line.
pub fn race(trace: &Trace, first: EventId, second: EventId) -> String {
    format!("data race on {}", crate::text::pair(trace, first, second))
}

/// Threads that wait for each other in one line.
pub fn deadlock(trace: &Trace, deadlock: &snag_pipeline::Deadlock) -> String {
    crate::text::deadlock_headline(trace, deadlock)
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
        Op::Want => Op::Acquire.word(),
        Op::ReadWant => Op::ReadAcquire.word(),
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
        lines.push(function(frame));
        if let Some(place) = Place::parse(&frame.place).filter(|_| depth == 0)
            && let Some(text) = background.source(place.path, place.line)
        {
            source(&text, place, &mut lines);
        }
    }
    lines
}

/// One function of a stack as a line.
fn function(frame: &Frame) -> String {
    let function = if frame.function.is_empty() { "?" } else { &frame.function };
    format!("  {} at {}", words::clean(function), words::clean(&frame.place))
}

/// What is known about some events, in paragraphs of lines: for each where it is in the source and who called, and
/// then what memory it is about.
pub(crate) fn of_events(trace: &Trace, background: &dyn Background, events: &[EventId]) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for &event in events {
        let verb = trace.events.ops()[event.index()].word();
        let mut lines = vec![format!("{verb} in {}:", words::thread(trace, event))];
        lines.extend(stack(trace, background, event));
        all.push(lines);
    }
    // All are about the same memory.
    let note = events.iter().find_map(|&event| background.memory(trace, event));
    all.extend(note.map(|note| vec![words::clean(&note).into_owned()]));
    all
}

/// Everything that is known about the two accesses of a race beside the events, in paragraphs of lines: for each access
/// where it is in the source, who called, and where the locks were taken that are held there; then what the memory is and
/// where the threads come from.
pub(crate) fn surroundings(trace: &Trace, background: &dyn Background, race: &Race) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let accesses = [(race.first, &race.locks_first), (race.second, &race.locks_second)];
    for (event, locks) in accesses {
        let verb = trace.events.ops()[event.index()].word();
        let mut lines = vec![format!("{verb} in {}:", words::thread(trace, event))];
        lines.extend(stack(trace, background, event));
        for &lock in locks {
            let Some(acquire) = story::acquired_at(trace, event, lock) else { continue };
            lines.push(format!("holding {}, taken by:", words::clean(trace.tables.lock_name(lock))));
            lines.extend(Frame::own(background.stack(trace, acquire)).iter().map(function));
        }
        all.push(lines);
    }
    let mut notes: Vec<String> = Vec::new();
    for note in accesses.iter().filter_map(|&(event, _)| background.memory(trace, event)) {
        let note = words::clean(&note).into_owned();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    for (event, _) in accesses {
        let Some((sentence, frames)) = background.thread(trace, trace.thread_of(event)) else { continue };
        notes.push(words::clean(&sentence).into_owned());
        notes.extend(frames.iter().map(function));
    }
    if !notes.is_empty() {
        all.push(notes);
    }
    all
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
