//! Words for events: what the reports have in common.

use snag_model::tables::DESCRIPTOR;
use snag_model::{Action, EventId, LockId, MemoryOrder, Op, Space, Trace};
use snag_pipeline::Deadlock;
use std::borrow::Cow;

/// Where an event stands in the program; its number where the trace does not say.
pub fn location(trace: &Trace, event: EventId) -> Cow<'_, str> {
    match trace.location_of(event) {
        "" => Cow::Owned(event.0.to_string()),
        text => Cow::Borrowed(text),
    }
}

/// The same in a sentence: `A.c:10`, or `event 3` where the trace does not say.
pub fn place(trace: &Trace, event: EventId) -> Cow<'_, str> {
    match trace.location_of(event) {
        "" => Cow::Owned(format!("event {}", event.0)),
        text => clean(text),
    }
}

/// What an event does to what: `write x = 3`.
pub fn operation(trace: &Trace, id: EventId) -> String {
    let event = trace.event(id);
    operation_with(trace, id, (event.value, event.written))
}

/// The same with what is read or written, and what an `rmw` writes.
pub fn operation_with(trace: &Trace, id: EventId, values: (Option<i64>, Option<i64>)) -> String {
    let event = trace.event(id);
    let target = trace.target_text(&event);
    if event.op == Op::Mark {
        return clean(&target).into_owned();
    }
    let mut text = event.op.word().to_owned();
    if !target.is_empty() {
        text.push(' ');
        text.push_str(&clean(&target));
    }
    match event.action() {
        Action::WaitBegin { lock, .. } | Action::WaitEnd { lock, .. } => {
            text.push_str(&format!(" with {}", clean(trace.tables.lock_name(lock))));
        }
        Action::Wake { by: Some(notify), .. } => text.push_str(&format!(" by event {}", notify.0)),
        Action::Branch { text: Some(words), .. } => {
            text.push_str(&format!(" {}", clean(trace.tables.names(Space::Text).get(words.index()))));
        }
        _ => {}
    }
    match (event.op, values.0, values.1) {
        (Op::Rmw, Some(read), Some(written)) => text.push_str(&format!(" = {read} -> {written}")),
        (_, Some(value), _) => text.push_str(&format!(" = {value}")),
        _ => {}
    }
    if event.op.is_atomic() && event.memory_order() != MemoryOrder::SeqCst {
        text.push_str(&format!(" ({})", event.memory_order().word()));
    }
    text
}

/// The descriptor that an event uses or closes, if that is what it is about.
pub fn descriptor(trace: &Trace, event: EventId) -> Option<String> {
    let target = target(trace, event);
    target.strip_prefix(DESCRIPTOR).map(|number| clean(number).into_owned())
}

/// Whether a deadlock happened in the recorded run.
pub fn is_observed(trace: &Trace, deadlock: &Deadlock) -> bool {
    deadlock.pending.iter().all(|event| matches!(trace.events.ops()[event.index()], Op::Want | Op::ReadWant))
}

/// The name of an event's thread.
pub fn thread(trace: &Trace, event: EventId) -> Cow<'_, str> {
    clean(trace.tables.thread_name(trace.thread_of(event)))
}

/// The name of what an event acts on.
pub fn target(trace: &Trace, event: EventId) -> String {
    trace.target_text(&trace.event(event))
}

/// The locks held at an access: `holding l, m`.
pub fn holding(trace: &Trace, locks: &[LockId]) -> String {
    if locks.is_empty() {
        return "holding no locks".to_owned();
    }
    let names: Vec<_> = locks.iter().map(|&l| clean(trace.tables.lock_name(l))).collect();
    format!("holding {}", names.join(", "))
}

/// Text of a trace made harmless for a terminal or a page: what would control
/// it, or reorder what is shown, is spelled out.
pub fn clean(text: &str) -> Cow<'_, str> {
    let bad = |c: char| c.is_control() || is_unseen(c);
    if !text.contains(bad) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if bad(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Whether a character ends lines, changes the direction of what is around it, or is not seen at all.
fn is_unseen(c: char) -> bool {
    let ends_lines = matches!(c, '\u{2028}' | '\u{2029}');
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}');
    let is_nothing =
        matches!(c, '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}');
    ends_lines || turns || is_nothing || matches!(c, '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_control_the_terminal() {
        assert_eq!(clean("x.y ü"), "x.y ü");
        assert_eq!(clean("\u{1b}[2Jx\r\n"), "\\u{1b}[2Jx\\u{d}\\u{a}");
        assert_eq!(clean("a\u{202e}b"), "a\\u{202e}b");
        for hidden in ['\u{85}', '\u{2028}', '\u{61c}', '\u{200b}', '\u{2067}', '\u{feff}', '\u{e0041}'] {
            assert_eq!(clean(&format!("a{hidden}b")), format!("a\\u{{{:x}}}b", hidden as u32));
        }
        assert_eq!(
            clean("\u{645}\u{6cc}\u{200c}\u{62e}"),
            "\u{645}\u{6cc}\u{200c}\u{62e}",
            "joiners are part of words"
        );
    }
}
