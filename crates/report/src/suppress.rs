//! Suppressions in ThreadSanitizer's syntax.
//!
//! One `type:pattern` per line; `#` starts a comment line. A pattern matches
//! anywhere in a text; `*` stands for any characters, `^` at the beginning and
//! `$` at the end tie it to the ends. `race:` is matched against the variables and locations
//! of both accesses and all functions and places of their stacks, `race_top:` against the
//! locations and the innermost functions alone, `deadlock:` against the locks, locations
//! and stacks of the acquires, `mutex:` against the same of misused locks, and `fault:` against those of everything
//! that went wrong in the recorded run; uses of freed memory match `race:`, too. A location `path:line` matches as a
//! whole and by its path. Only recorded traces have stacks. The other types of ThreadSanitizer are accepted and match
//! nothing that Snag reports. Anything else is an error with its line: a suppression that silently does nothing is
//! worse than none.

use crate::background::{Background, Frame};
use crate::place::Place;
use crate::words;
use snag_model::FaultKind;
use snag_model::{EventId, Trace};
use snag_pipeline::{Analysis, Fault};

/// A file of suppressions.
#[derive(Clone, Debug, Default)]
pub struct Suppressions {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    kind: Kind,
    pattern: Pattern,
    line: u64,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Race,
    RaceTop,
    Deadlock,
    Mutex,
    Fault,
    /// `thread`, `signal`, `called_from_lib`: kinds of reports that Snag does not make.
    Other,
}

/// What one line of the file took away.
#[derive(Clone, Debug, PartialEq)]
pub struct Suppressed {
    /// The line, from 1.
    pub line: u64,
    /// The suppression as it stands there.
    pub text: String,
    /// How many races.
    pub races: u64,
    /// How many deadlocks.
    pub deadlocks: u64,
    /// How many faults of the recorded run.
    pub faults: u64,
    /// How many candidates.
    pub candidates: u64,
}

impl Suppressions {
    /// Reads the text of a file; an error is the line it is in and what is wrong there.
    pub fn parse(text: &str) -> Result<Suppressions, (u64, String)> {
        let mut rules = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            rules.push(Rule::parse(line, text).map_err(|message| (line, message))?);
        }
        Ok(Suppressions { rules })
    }

    /// Adds others behind these.
    pub fn add(&mut self, others: Suppressions) {
        self.rules.extend(others.rules);
    }

    /// Takes what is suppressed out of the findings of one trace. Of several
    /// suppressions that match, the first in the file counts.
    pub fn apply(
        &self,
        trace: &Trace,
        background: Option<&dyn Background>,
        analysis: &mut Analysis,
    ) -> Vec<Suppressed> {
        let stack = |event: EventId| background.map_or(Vec::new(), |known| known.stack(trace, event));
        let mut counts: Vec<[u64; 4]> = vec![[0; 4]; self.rules.len()];
        let mut gone = |what: usize, rule: Option<usize>| {
            if let Some(rule) = rule {
                counts[rule][what] += 1;
            }
            rule.is_none()
        };
        analysis.races.retain(|race| gone(0, self.pair(trace, &stack, [race.first, race.second])));
        analysis.deadlocks.retain(|deadlock| gone(1, self.deadlock(trace, &stack, &deadlock.pending)));
        analysis.faults.retain(|fault| gone(3, self.fault(trace, &stack, fault)));
        analysis.candidates.retain(|pair| gone(2, self.pair(trace, &stack, [pair.first, pair.second])));
        let rules = self.rules.iter().zip(counts).filter(|(_, counts)| counts.iter().any(|&n| n > 0));
        rules
            .map(|(rule, [races, deadlocks, candidates, faults])| Suppressed {
                line: rule.line,
                text: rule.text.clone(),
                races,
                deadlocks,
                candidates,
                faults,
            })
            .collect()
    }

    /// The suppressions that are about something Snag alone reports, or both do, as line and text, without those that took something away.
    pub fn without_effect(&self, suppressed: &[Suppressed]) -> Vec<(u64, &str)> {
        let known = |kind: Kind| !matches!(kind, Kind::Mutex | Kind::Other);
        let idle = |rule: &&Rule| known(rule.kind) && suppressed.iter().all(|known| known.line != rule.line);
        self.rules.iter().filter(idle).map(|rule| (rule.line, rule.text.as_str())).collect()
    }

    fn pair(&self, trace: &Trace, stack: &dyn Fn(EventId) -> Vec<Frame>, pair: [EventId; 2]) -> Option<usize> {
        let locations = pair.map(|event| trace.location_of(event));
        let variables = pair.map(|event| words::target(trace, event));
        let stacks = pair.map(stack);
        self.rules.iter().position(|rule| match rule.kind {
            Kind::Race => {
                locations.iter().any(|l| rule.at(l))
                    || variables.iter().any(|v| rule.pattern.matches(v))
                    || stacks.iter().flatten().any(|frame| rule.is_in(frame))
            }
            Kind::RaceTop => {
                locations.iter().any(|l| rule.at(l))
                    || stacks.iter().filter_map(|stack| stack.first()).any(|frame| rule.is_in(frame))
            }
            Kind::Deadlock | Kind::Mutex | Kind::Fault | Kind::Other => false,
        })
    }

    /// A race with a free is a fault if the free came first, so what suppresses the one suppresses the other.
    fn fault(&self, trace: &Trace, stack: &dyn Fn(EventId) -> Vec<Frame>, fault: &Fault) -> Option<usize> {
        let first = fault.first.unwrap_or(fault.second);
        let (races, by_mutex) = match fault.kind {
            FaultKind::UseAfterFree | FaultKind::DoubleFree => (self.pair(trace, stack, [first, fault.second]), false),
            FaultKind::LockMisuse | FaultKind::DestroyedInUse => (None, true),
        };
        let events = [first, fault.second];
        let own = |rule: &Rule| match rule.kind {
            Kind::Mutex => by_mutex,
            Kind::Fault => true,
            _ => false,
        };
        let matches = |rule: &Rule, event: EventId| {
            rule.at(trace.location_of(event))
                || rule.pattern.matches(&words::target(trace, event))
                || stack(event).iter().any(|frame| rule.is_in(frame))
        };
        let named = self.rules.iter().position(|rule| own(rule) && events.iter().any(|&event| matches(rule, event)));
        [races, named].into_iter().flatten().min()
    }

    fn deadlock(&self, trace: &Trace, stack: &dyn Fn(EventId) -> Vec<Frame>, pending: &[EventId]) -> Option<usize> {
        self.rules.iter().position(|rule| {
            rule.kind == Kind::Deadlock
                && pending.iter().any(|&event| {
                    let lock = crate::digest::takes(trace, event).map_or("", |lock| trace.tables.lock_name(lock));
                    rule.at(trace.location_of(event))
                        || rule.pattern.matches(lock)
                        || stack(event).iter().any(|frame| rule.is_in(frame))
                })
        })
    }
}

impl Rule {
    fn parse(line: u64, text: &str) -> Result<Rule, String> {
        let Some((kind, pattern)) = text.split_once(':') else {
            return Err(format!("'{text}' is no suppression: expected type:pattern"));
        };
        let kind = match kind {
            "race" => Kind::Race,
            "race_top" => Kind::RaceTop,
            "deadlock" => Kind::Deadlock,
            "mutex" => Kind::Mutex,
            "fault" => Kind::Fault,
            "thread" | "signal" | "called_from_lib" => Kind::Other,
            _ => {
                let known = "race, race_top, deadlock, mutex, fault, thread, signal, called_from_lib";
                return Err(format!("unknown type '{kind}': expected one of {known}"));
            }
        };
        if pattern.is_empty() {
            return Err(format!("'{text}' has no pattern"));
        }
        Ok(Rule { kind, pattern: Pattern::new(pattern), line, text: text.to_owned() })
    }

    fn is_in(&self, frame: &Frame) -> bool {
        self.pattern.matches(&frame.function) || self.at(&frame.place)
    }

    fn at(&self, location: &str) -> bool {
        self.pattern.matches(location) || Place::parse(location).is_some_and(|place| self.pattern.matches(place.path))
    }
}

/// The pieces between the asterisks, in order.
#[derive(Clone, Debug, PartialEq)]
struct Pattern {
    pieces: Vec<String>,
    /// The first piece stands at the beginning.
    at_start: bool,
    /// The last piece stands at the end.
    at_end: bool,
}

impl Pattern {
    fn new(text: &str) -> Pattern {
        let (at_start, text) = match text.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (at_end, text) = match text.strip_suffix('$') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        Pattern { pieces: text.split('*').map(str::to_owned).collect(), at_start, at_end }
    }

    /// As in ThreadSanitizer, the empty text matches nothing.
    fn matches(&self, text: &str) -> bool {
        if text.is_empty() {
            return false;
        }
        let (first, rest) = self.pieces.split_first().expect("a split text has a piece");
        if rest.is_empty() {
            return match (self.at_start, self.at_end) {
                (true, true) => text == first,
                (true, false) => text.starts_with(first.as_str()),
                (false, true) => text.ends_with(first.as_str()),
                (false, false) => text.contains(first.as_str()),
            };
        }
        let mut left = text;
        if self.at_start {
            let Some(after) = left.strip_prefix(first.as_str()) else { return false };
            left = after;
        } else {
            let Some(at) = left.find(first.as_str()) else { return false };
            left = &left[at + first.len()..];
        }
        let (last, middle) = rest.split_last().expect("rest is not empty");
        for piece in middle {
            let Some(at) = left.find(piece.as_str()) else { return false };
            left = &left[at + piece.len()..];
        }
        if self.at_end { left.ends_with(last.as_str()) } else { left.contains(last.as_str()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_thread_sanitizer() {
        let matches = |pattern: &str, text: &str| Pattern::new(pattern).matches(text);
        assert!(matches("foo", "a_foo_b"));
        assert!(!matches("foo", "fo"));
        assert!(matches("^foo", "foo_b") && !matches("^foo", "a_foo"));
        assert!(matches("foo$", "a_foo") && !matches("foo$", "foo_b"));
        assert!(matches("^foo$", "foo") && !matches("^foo$", "foofoo"));
        assert!(matches("foo$", "foo_foo"));
        assert!(matches("a*c", "xabcx") && matches("a*c", "ac") && !matches("a*c", "ca"));
        assert!(matches("^a*c$", "abcbc") && !matches("^a*c$", "abcb"));
        assert!(matches("*", "anything") && !matches("*", ""));
        assert!(matches("^*b", "ab") && matches("a*$", "ab"));
        assert!(matches("a*b*c", "a1b2c3") && !matches("a*b*c", "a1c2b3"));
        assert!(!matches("^ab*ab$", "ab"));
    }

    #[test]
    fn bad_lines_are_errors_and_say_where() {
        assert_eq!(Suppressions::parse("# fine\n\n  race:x \nrase:y\n").unwrap_err().0, 4);
        assert_eq!(Suppressions::parse("nothing").unwrap_err().0, 1);
        assert_eq!(Suppressions::parse("race:").unwrap_err().0, 1);
        assert_eq!(Suppressions::parse("mutex:a\nthread:b\nsignal:c\ncalled_from_lib:d\r\n").unwrap().rules.len(), 4);
    }
}
