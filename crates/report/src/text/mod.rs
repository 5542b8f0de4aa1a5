//! Findings as text for a tired engineer.
//!
//! Each finding has a headline that stands alone, the accesses with what is held
//! there, what was proved, and the witness as a table; each engine ends with one
//! line of summary. What a trace calls things is printed in full outside the table.

mod fit;
mod style;
mod table;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use fit::{display_width, pad_left, pad_right};
pub use style::Style;

use crate::background::Background;
use crate::confirm::{Confirmation, Confirmations};
use crate::digest::{Goal, Row, digest};
use crate::findings::{Findings, Report, Unread};
use crate::number::{counted, grouped, seconds};
use crate::suppress::Suppressed;
use crate::values::Values;
use crate::{cause, describe, digest, story, words};
use snag_model::{EventId, FaultKind, LockId, Op, RaceKind, Schedule, ThreadCounts, ThreadId, Trace};
use snag_pipeline::engines::OBSERVED;
use snag_pipeline::{Analysis, Candidate, Deadlock, EngineRef, EngineReport, Fault, Race};
use snag_pipeline::{Cost, Guarantee};
use std::io::{self, Write};
use table::Table;

/// Writes text.
pub struct Text<W> {
    out: W,
    style: Style,
}

/// How far everything below a headline is indented.
const INDENT: &str = "    ";

/// After so many rows of a witness somebody is asked whether there is time for more.
const ROWS: usize = 1024;

impl<W: Write> Text<W> {
    /// Writes to `out`, which should be buffered.
    pub fn new(out: W, style: Style) -> Text<W> {
        Text { out, style }
    }
}

impl<W: Write> Report for Text<W> {
    fn trace(&mut self, findings: &Findings) -> io::Result<()> {
        let Findings { path, trace, events, analysis, suppressed, background, confirmations, enough } = *findings;
        let (out, style) = (&mut self.out, &self.style);
        let counts = ThreadCounts::new(trace);
        let mut writer =
            TraceText { out, style, trace, counts: &counts, events, analysis, background, confirmations, enough };
        if self.style.headings {
            writeln!(writer.out, "{}\n", self.style.bold(format_args!("== {} ==", words::clean(path))))?;
        }
        let unwritten = findings.each(&analysis.races, |number, race| writer.race(number, race))?
            + findings.each(&analysis.deadlocks, |number, deadlock| writer.deadlock(number, deadlock))?
            + findings.each(&analysis.faults, |number, fault| writer.fault(number, fault))?
            + findings.each(&analysis.candidates, |number, candidate| writer.candidate(number, candidate))?;
        if unwritten > 0 {
            writeln!(writer.out, "{}", self.style.warn(format_args!("{}", unwritten_line(unwritten))))?;
        }
        if !self.style.quiet {
            for report in analysis.engines.iter().filter(|report| has_something_to_say(report, analysis)) {
                writer.summary(report, analysis, suppressed.is_some())?;
            }
            if let Some(text) = confirmations.and_then(confirmed_line) {
                writeln!(writer.out, "{text}")?;
            }
            if let Some(text) = unseen_line(analysis) {
                writeln!(writer.out, "{}", self.style.warn(format_args!("{text}")))?;
            }
            for item in suppressed.unwrap_or_default() {
                writeln!(writer.out, "{}", suppressed_line(item))?;
            }
            if self.style.headings {
                writeln!(writer.out)?;
            }
        }
        self.out.flush()
    }

    fn finish(&mut self, unread: &[Unread]) -> io::Result<()> {
        // Of a single trace that cannot be read there is no report in which it would be missing.
        for Unread { path, message } in unread.iter().filter(|_| self.style.headings) {
            writeln!(self.out, "{}: not analysed: {}", words::clean(path), words::clean(message))?;
        }
        self.out.flush()
    }
}

/// What is said about one trace.
struct TraceText<'a, W> {
    out: &'a mut W,
    style: &'a Style,
    trace: &'a Trace,
    counts: &'a ThreadCounts<'a>,
    /// How many events it has.
    events: u64,
    analysis: &'a Analysis,
    background: Option<&'a dyn Background>,
    confirmations: Option<&'a Confirmations>,
    enough: &'a dyn Fn() -> bool,
}

impl<W: Write> TraceText<'_, W> {
    fn race(&mut self, number: u64, race: &Race) -> io::Result<()> {
        let headline = race_headline(self.trace, self.analysis, race);
        self.headline(&format!("R{number}"), &headline)?;
        self.accesses(race.first, race.second, &race.locks_first, &race.locks_second)?;
        self.surroundings(race)?;
        self.line(&guarantee(self.analysis, race.engine, race.level.word()))?;
        if let Some(confirmation) = self.confirmations.and_then(|all| all.race(number)) {
            self.line(&race_confirmation(confirmation))?;
        }
        for line in changes(self.trace, race) {
            self.line(&line)?;
        }
        self.line(&pair_count(race.count))?;
        let goal = race_goal(self.trace, race);
        self.witness(&leads_up(self.trace, race), &goal, |_| "race".to_owned())
    }

    fn deadlock(&mut self, number: u64, deadlock: &Deadlock) -> io::Result<()> {
        let trace = self.trace;
        self.headline(&format!("D{number}"), &deadlock_headline(trace, deadlock))?;
        let holders = holders(trace, deadlock);
        for (&event, holders) in deadlock.pending.iter().zip(&holders) {
            self.line(&waiting(trace, event, holders))?;
        }
        self.line(&deadlock_guarantee(trace, self.analysis, deadlock))?;
        if let Some(confirmation) = self.confirmations.and_then(|all| all.deadlock(number)) {
            self.line(&deadlock_confirmation(confirmation))?;
        }
        if deadlock.count > 1 {
            self.line(&cycle_count(deadlock.count))?;
        }
        for line in spurious(trace, &deadlock.spurious) {
            self.line(&line)?;
        }
        let goal = deadlock_goal(trace, deadlock, &holders);
        self.witness(&deadlock.witness, &goal, |_| "waits".to_owned())
    }

    fn fault(&mut self, number: u64, fault: &Fault) -> io::Result<()> {
        let (trace, background) = (self.trace, self.background);
        self.headline(&format!("F{number}"), &fault_headline(trace, fault))?;
        for line in happened(trace, self.analysis, fault) {
            self.line(&line)?;
        }
        for paragraph in background.iter().flat_map(|known| describe::of_events(trace, *known, &events(fault))) {
            writeln!(self.out)?;
            paragraph.iter().try_for_each(|line| self.line(line))?;
        }
        match &fault.witness {
            Some(witness) => self.witness(witness, &fault_goal(fault), |_| "next".to_owned()),
            None => writeln!(self.out),
        }
    }

    fn candidate(&mut self, number: u64, pair: &Candidate) -> io::Result<()> {
        let headline = candidate_headline(self.trace, pair);
        let id = format!("C{number}");
        writeln!(
            self.out,
            "{}  {}",
            self.style.warn(format_args!("{id}")),
            self.style.bold(format_args!("{headline}"))
        )?;
        self.accesses(pair.first, pair.second, &pair.locks_first, &pair.locks_second)?;
        self.line(&disbelief(pair))?;
        self.line(&pair_count(pair.count))?;
        writeln!(self.out)
    }

    fn headline(&mut self, id: &str, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}  {}", self.style.alarm(format_args!("{id}")), self.style.bold(format_args!("{text}")))
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{INDENT}{text}")
    }

    fn accesses(&mut self, first: EventId, second: EventId, locks: &[LockId], more: &[LockId]) -> io::Result<()> {
        let rows = [(first, locks), (second, more)].map(|(event, locks)| {
            let place = match self.trace.location_of(event) {
                "" => format!("event {}", event.0),
                location => format!("{} (event {})", words::clean(location), event.0),
            };
            let thread = words::thread(self.trace, event).into_owned();
            (thread, words::operation(self.trace, event), format!("at {place}, {}", words::holding(self.trace, locks)))
        });
        let thread = rows.iter().map(|row| display_width(&row.0)).max().unwrap_or(0);
        let operation = rows.iter().map(|row| display_width(&row.1)).max().unwrap_or(0);
        for (name, op, rest) in &rows {
            self.line(&format!("{}  {}  {rest}", pad_right(name, thread), pad_right(op, operation)))?;
        }
        Ok(())
    }

    /// What is known about a race of a recorded program beside its events, and how it happens.
    fn surroundings(&mut self, race: &Race) -> io::Result<()> {
        let (background, trace) = (self.background, self.trace);
        for paragraph in background.iter().flat_map(|background| describe::surroundings(trace, *background, race)) {
            writeln!(self.out)?;
            paragraph.iter().try_for_each(|line| self.line(line))?;
        }
        let Some(story) = story(trace, self.background, race) else { return Ok(()) };
        writeln!(self.out)?;
        self.line("How this race happens:")?;
        let width = self.style.width.saturating_sub(INDENT.len()).max(60);
        fit::wrap(&story, width).iter().try_for_each(|line| self.line(line))?;
        writeln!(self.out)
    }

    /// The witness as a table; nothing if it is empty, as the accesses were printed already.
    fn witness(&mut self, witness: &Schedule, goal: &Goal, mark: impl Fn(EventId) -> String) -> io::Result<()> {
        let digest = if self.style.full { Vec::new() } else { digest(self.trace, self.counts, witness, goal) };
        let rows = || -> Box<dyn Iterator<Item = Row> + '_> {
            if self.style.full {
                let in_time = |(number, _): &(usize, EventId)| !number.is_multiple_of(ROWS) || !(self.enough)();
                Box::new(witness.iter(self.trace).enumerate().take_while(in_time).map(|(_, event)| Row::Event(event)))
            } else {
                Box::new(digest.iter().copied())
            }
        };
        writeln!(self.out)?;
        Table::new(self.trace, self.style, rows(), goal).print(self.out, INDENT, rows(), mark)?;
        if self.style.full && (self.enough)() {
            writeln!(self.out, "{INDENT}(events of this witness may be missing: there was no time to write them)")?;
        }
        writeln!(self.out)
    }

    fn summary(&mut self, report: &EngineReport, analysis: &Analysis, suppressed: bool) -> io::Result<()> {
        let text = summary_line(self.trace, self.events, report, analysis);
        writeln!(self.out, "{}", self.style.bold(format_args!("{text}")))?;
        if !report.complete {
            let text = incomplete_line(report, analysis);
            writeln!(self.out, "{}", self.style.warn(format_args!("{text}")))?;
        }
        if analysis.ignores_missing(report.engine) {
            let text = ignoring_line(report);
            writeln!(self.out, "{}", self.style.warn(format_args!("{text}")))?;
        }
        if let Some(text) = unproved_line(report, analysis).filter(|_| !suppressed) {
            writeln!(self.out, "{text}")?;
        }
        Ok(())
    }
}

/// The pair in one line.
pub(crate) fn race_headline(trace: &Trace, analysis: &Analysis, race: &Race) -> String {
    if let Some(descriptor) = words::descriptor(trace, race.first) {
        let may = if analysis.is_doubtful(race.engine) { "possibly " } else { "" };
        let pair = both(trace, race.first, race.second);
        return format!("descriptor {descriptor} is {may}closed while another thread uses it: {pair}");
    }
    let what = if analysis.is_doubtful(race.engine) { "possible race" } else { "data race" };
    let how = if race.kind == RaceKind::Order { " by memory order" } else { "" };
    format!("{what}{how} on {}", pair(trace, race.first, race.second))
}

/// What two accesses touch, and both of them.
pub(crate) fn pair(trace: &Trace, first: EventId, second: EventId) -> String {
    format!("{}: {}", contended(trace, first, second), both(trace, first, second))
}

/// The same for a pair that was not proved.
pub(crate) fn candidate_headline(trace: &Trace, pair: &Candidate) -> String {
    let (first, second) = (pair.first, pair.second);
    format!("unproved race on {}: {}", contended(trace, first, second), both(trace, first, second))
}

/// What the two touch: one name, or two ranges that overlap.
fn contended(trace: &Trace, first: EventId, second: EventId) -> String {
    let (a, b) = (words::target(trace, first), words::target(trace, second));
    if a == b { words::clean(&a).into_owned() } else { format!("{} and {}", words::clean(&a), words::clean(&b)) }
}

fn both(trace: &Trace, first: EventId, second: EventId) -> String {
    let [first, second] = [first, second].map(|event| {
        let word = trace.events.ops()[event.index()].word();
        format!("{word} in {} at {}", words::thread(trace, event), words::place(trace, event))
    });
    format!("{first} / {second}")
}

/// The threads and what they wait for.
pub(crate) fn deadlock_headline(trace: &Trace, deadlock: &Deadlock) -> String {
    let waits: Vec<String> =
        deadlock.pending.iter().map(|&e| format!("{} waits for {}", words::thread(trace, e), lock(trace, e))).collect();
    format!("deadlock: {}", waits.join(", "))
}

/// What the reader may rely on.
pub(crate) fn deadlock_guarantee(trace: &Trace, analysis: &Analysis, deadlock: &Deadlock) -> String {
    match words::is_observed(trace, deadlock) {
        true => "observed: it happened in the recorded run, in which these threads waited for ever".to_owned(),
        false => guarantee(analysis, deadlock.engine, deadlock.level.word()),
    }
}

/// What went wrong in one line.
pub(crate) fn fault_headline(trace: &Trace, fault: &Fault) -> String {
    let target = words::target(trace, fault.second);
    let target = words::clean(&target);
    let (thread, place) = (words::thread(trace, fault.second), words::place(trace, fault.second));
    if fault.kind == FaultKind::DestroyedInUse {
        // What was destroyed has another name afterwards: if it is used later, it begins there.
        let how = match fault.first {
            Some(first) if first > fault.second => "initialised while it may be in use",
            _ => "destroyed in use",
        };
        return format!("{target} is {how} {}", both_ends(trace, fault));
    }
    let lock = lock_named(&target);
    let what = match (fault.kind, trace.events.ops()[fault.second.index()]) {
        (FaultKind::UseAfterFree, op) => {
            let how = if op == Op::StaleRead { "read" } else { "write" };
            format!("use after free of {target}: {how}")
        }
        (FaultKind::DoubleFree, _) => format!("double free of {target}: free"),
        (FaultKind::LockMisuse, Op::Unheld) => format!("release of {lock} by a thread that does not hold it:"),
        (FaultKind::LockMisuse, Op::Gone) => format!("{lock} is taken after it was destroyed:"),
        (FaultKind::DestroyedInUse | FaultKind::LockMisuse, _) => {
            format!("{lock} is taken again by its holder, which waits for itself:")
        }
    };
    format!("{what} in {thread} at {place}")
}

/// A lock by its name. Those that have none of their own are called by what they are.
fn lock_named(name: &str) -> String {
    let says_so = ["lock ", "mutex ", "rwlock ", "spin lock "].iter().any(|kind| name.starts_with(kind));
    if says_so { name.to_owned() } else { format!("lock {name}") }
}

/// Where something is destroyed, and who uses it.
fn both_ends(trace: &Trace, fault: &Fault) -> String {
    let at = |event: EventId| format!("in {} at {}", words::thread(trace, event), words::place(trace, event));
    let end = at(fault.second);
    match fault.first {
        Some(first) => format!("{end}: {} {}", trace.events.ops()[first.index()].word(), at(first)),
        None => end,
    }
}

/// What a fault leads to that may happen.
pub(crate) fn fault_goal(fault: &Fault) -> Goal {
    Goal { events: events(fault), ..Goal::default() }
}

/// The events of a fault.
pub(crate) fn events(fault: &Fault) -> Vec<EventId> {
    fault.first.into_iter().chain([fault.second]).collect()
}

/// What happened, event by event, and what the reader may rely on.
pub(crate) fn happened(trace: &Trace, analysis: &Analysis, fault: &Fault) -> Vec<String> {
    let events = events(fault);
    let rows: Vec<[String; 3]> = events
        .iter()
        .map(|&event| {
            let number = grouped(event.0.into());
            let place = match trace.location_of(event) {
                "" => format!("event {number}"),
                location => format!("{} (event {number})", words::clean(location)),
            };
            [words::thread(trace, event).into_owned(), words::operation(trace, event), format!("at {place}")]
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| display_width(&row[column])).max().unwrap_or(0);
    let (threads, operations) = (width(0), width(1));
    let mut lines: Vec<String> = rows
        .iter()
        .map(|[thread, op, rest]| format!("{}  {}  {rest}", pad_right(thread, threads), pad_right(op, operations)))
        .collect();
    if fault.kind == FaultKind::LockMisuse && fault.first.is_none() {
        lines.push("nobody has held the lock before".to_owned());
    }
    lines.push(match fault.witness {
        None => "observed: it happened in the recorded run".to_owned(),
        Some(_) => guarantee(analysis, fault.engine, Fault::LEVEL.word()),
    });
    lines.push(pair_count(fault.count));
    lines
}

/// One thread of a deadlock: `T1  acquire m at A.c:10 (event 3), which T2 holds`.
pub(crate) fn waiting(trace: &Trace, event: EventId, holders: &[ThreadId]) -> String {
    let names: Vec<_> = holders.iter().map(|&t| words::clean(trace.tables.thread_name(t))).collect();
    format!(
        "{}  {} at {} (event {}); {} is held by {}",
        words::thread(trace, event),
        words::operation(trace, event),
        words::place(trace, event),
        event.0,
        lock(trace, event),
        names.join(", ")
    )
}

fn lock(trace: &Trace, event: EventId) -> String {
    digest::takes(trace, event).map_or(String::new(), |lock| words::clean(trace.tables.lock_name(lock)).into_owned())
}

/// What the reader may rely on.
pub(crate) fn guarantee(analysis: &Analysis, engine: EngineRef, level: &str) -> String {
    let ignores = analysis.ignores_missing(engine);
    let engine = engine.name();
    if ignores {
        return format!(
            "found by {engine}, NOT proved: missing methods were ignored (--ignore-missing), also by the checker (level {level})"
        );
    }
    if !analysis.unseen.is_empty() {
        return format!(
            "found by {engine}, NOT proved: code ran that was not seen, which the schedule below knows nothing of (level {level})"
        );
    }
    format!("found by {engine}, proved: the checker accepted the schedule below (level {level})")
}

/// What a replay has shown of a race.
pub(crate) fn race_confirmation(confirmation: &Confirmation) -> String {
    confirmation_line(confirmation, "a replay stopped both threads in front of these accesses")
}

/// What a replay has shown of a deadlock.
pub(crate) fn deadlock_confirmation(confirmation: &Confirmation) -> String {
    confirmation_line(confirmation, "a replay stopped the threads in front of locks that the others hold")
}

fn confirmation_line(confirmation: &Confirmation, seen: &str) -> String {
    match confirmation.why_not() {
        None => format!("confirmed: {seen}"),
        Some(why) => format!("not confirmed by a replay: {}", words::clean(why)),
    }
}

/// How many findings replays have confirmed; nothing if none was to be replayed.
pub(crate) fn confirmed_line(all: &Confirmations) -> Option<String> {
    let count = |kind: &[Confirmation], noun: &str| {
        let confirmed = kind.iter().filter(|one| one.is_confirmed()).count() as u64;
        (!kind.is_empty()).then(|| format!("{} of {}", grouped(confirmed), counted(kind.len() as u64, noun)))
    };
    let kinds = [count(&all.races, "race"), count(&all.deadlocks, "deadlock")];
    let kinds: Vec<String> = kinds.into_iter().flatten().collect();
    (!kinds.is_empty()).then(|| format!("confirmed by replays: {}", kinds.join(", ")))
}

/// What is otherwise in the schedule than it was in the trace: branches that go the other way, and reads with other values.
pub(crate) fn changes(trace: &Trace, race: &Race) -> Vec<String> {
    let at = |event: EventId| format!("in {} at {}", words::thread(trace, event), words::place(trace, event));
    let waits = spurious(trace, &race.spurious);
    let branches = race.diverging.iter().map(|&event| {
        format!("in it, the branch {} (event {}) goes the other way", at(event), grouped(event.0 as u64))
    });
    let reads = race.reads.iter().filter_map(|&(event, value)| {
        let before = trace.events.get(event.index()).value;
        if before == Some(value) {
            return None;
        }
        let instead = before.map_or(String::new(), |before| format!(", not {before}"));
        let target = words::target(trace, event);
        let number = grouped(event.0 as u64);
        Some(format!(
            "in it, the read of {} {} (event {number}) takes {value}{instead}",
            words::clean(&target),
            at(event)
        ))
    });
    waits.chain(branches).chain(reads).collect()
}

/// The waits of a schedule that end for no reason.
pub(crate) fn spurious<'a>(trace: &'a Trace, wakes: &'a [EventId]) -> impl Iterator<Item = String> + 'a {
    wakes.iter().map(|&event| {
        let (thread, place) = (words::thread(trace, event), words::place(trace, event));
        let condition = words::target(trace, event);
        format!(
            "in it, the wait of {thread} on {} at {place} (event {}) ends for no reason, as waits on condition variables may",
            words::clean(&condition),
            grouped(event.0 as u64)
        )
    })
}

/// Why a candidate is no more than that.
pub(crate) fn disbelief(pair: &Candidate) -> String {
    format!("believed by {}, not proved: {}", pair.engine.name(), words::clean(&pair.reason))
}

/// How often it happens.
pub(crate) fn pair_count(count: u64) -> String {
    format!("{} of events at these locations", counted(count, "pair"))
}

/// How many sets of acquires wait for each other like that.
pub(crate) fn cycle_count(count: u64) -> String {
    format!("{} of acquires at these locations", counted(count, "set"))
}

/// The part of a race's witness that is before what it leads to.
pub(crate) fn leads_up(trace: &Trace, race: &Race) -> Schedule {
    match (&race.witness, race.kind) {
        (witness, RaceKind::Predictable) => witness.clone(),
        (Schedule::Continued { as_observed, then }, RaceKind::Order) if then.is_empty() => {
            Schedule::Continued { as_observed: EventId(as_observed.0.saturating_sub(1)), then: Vec::new() }
        }
        // The later access is the last event, or one of those that come in the order of the trace.
        (witness, RaceKind::Order) => {
            Schedule::List(witness.iter(trace).filter(|&event| event != race.second).collect())
        }
    }
}

/// How a race happens, where there is something to say about it that the table does not.
pub(crate) fn story(trace: &Trace, background: Option<&dyn Background>, race: &Race) -> Option<String> {
    match race.kind {
        RaceKind::Order => Some(cause::of_race(trace, race)),
        RaceKind::Predictable => background.map(|_| story::of_race(trace, race)),
    }
}

/// What a race's witness leads to.
pub(crate) fn race_goal(trace: &Trace, race: &Race) -> Goal {
    let held = |event: EventId, locks: &[LockId]| -> Vec<(ThreadId, LockId)> {
        locks.iter().map(|&lock| (trace.thread_of(event), lock)).collect()
    };
    let mut all = held(race.first, &race.locks_first);
    all.extend(held(race.second, &race.locks_second));
    if race.kind == RaceKind::Order {
        let held = held(race.second, &race.locks_second);
        return Goal { events: vec![race.second], before: Some(race.first), held, ..Goal::default() };
    }
    let (events, spurious) = (vec![race.first, race.second], race.spurious.clone());
    Goal { events, before: None, held: all, values: Values::of(trace, race), spurious }
}

/// What a deadlock's witness leads to.
pub(crate) fn deadlock_goal(trace: &Trace, deadlock: &Deadlock, holders: &[Vec<ThreadId>]) -> Goal {
    let (events, spurious) = (deadlock.pending.clone(), deadlock.spurious.clone());
    let mut goal = Goal { events, spurious, ..Goal::default() };
    for (&event, threads) in deadlock.pending.iter().zip(holders) {
        if let Some(lock) = digest::takes(trace, event) {
            goal.held.extend(threads.iter().map(|&thread| (thread, lock)));
        }
    }
    goal
}

/// Which of the threads of a deadlock hold the lock that each of its acquires waits for.
pub(crate) fn holders(trace: &Trace, deadlock: &Deadlock) -> Vec<Vec<ThreadId>> {
    let holding = |event: &EventId| -> Vec<ThreadId> {
        let wanted = digest::takes(trace, *event);
        let all = deadlock.pending.iter().zip(&deadlock.held).filter(|(other, _)| *other != event);
        let hold = all.filter(|(_, held)| wanted.is_some_and(|lock| held.contains(&lock)));
        let mut threads: Vec<ThreadId> = hold.map(|(&other, _)| trace.thread_of(other)).collect();
        threads.sort_unstable();
        threads
    };
    deadlock.pending.iter().map(holding).collect()
}

/// Whether an engine need be mentioned: not if all it could say is that nothing went wrong.
pub(crate) fn has_something_to_say(report: &EngineReport, analysis: &Analysis) -> bool {
    let found = analysis.deadlocks.iter().any(|deadlock| deadlock.engine == report.engine)
        || analysis.faults.iter().any(|fault| fault.engine == report.engine);
    report.engine != OBSERVED || found || report.warnings > 0 || !report.complete
}

/// One engine's findings in one line.
pub(crate) fn summary_line(trace: &Trace, events: u64, report: &EngineReport, analysis: &Analysis) -> String {
    let races = analysis.races.iter().filter(|race| race.engine == report.engine).count() as u64;
    let deadlocks = analysis.deadlocks.iter().filter(|deadlock| deadlock.engine == report.engine).count() as u64;
    let candidates = analysis.candidates.iter().filter(|pair| pair.engine == report.engine).count() as u64;
    let noun = match (analysis.is_doubtful(report.engine), report.beyond.is_some()) {
        (true, _) => "possible race",
        (false, true) => "further race",
        (false, false) => "race",
    };
    let mut found = if races == 0 { format!("no {noun}s") } else { counted(races, noun) };
    let faults = analysis.faults.iter().filter(|fault| fault.engine == report.engine).count() as u64;
    for (number, noun) in [(deadlocks, "deadlock"), (faults, "fault"), (candidates, "candidate")] {
        if number > 0 {
            found += &format!(", {}", counted(number, noun));
        }
    }
    let reduced = report.reduction.map_or(String::new(), |reduction| {
        let sweeps = reduction.sweeps.map_or(String::new(), |sweeps| format!(", {}", counted(sweeps.into(), "sweep")));
        format!(" (reduced to {}{sweeps})", grouped(reduction.events))
    });
    format!(
        "{}: {found} ({}, {}) in {}{reduced}, {}, {}",
        report.engine.name(),
        counted(report.warnings, "warning"),
        counted(report.location_pairs, "location pair"),
        counted(events, "event"),
        counted(trace.tables.thread_count() as u64, "thread"),
        seconds(report.seconds)
    )
}

/// Said of happens-before if it reports more than could be proved and nobody has asked to see it.
fn unproved_line(report: &EngineReport, analysis: &Analysis) -> Option<String> {
    let about = report.engine.about();
    if about.guarantee != Guarantee::First || about.cost != Cost::Pass || !report.complete {
        return None;
    }
    let races = analysis.races.iter().filter(|race| race.engine == report.engine).count();
    let candidates = analysis.candidates.iter().filter(|pair| pair.engine == report.engine).count();
    let unproved = report.location_pairs.saturating_sub((races + candidates) as u64);
    let (pairs, them) = (counted(unproved, "location pair"), if unproved == 1 { "it" } else { "them" });
    (unproved > 0).then(|| format!("{}: {pairs} not proved; --candidates lists {them}", report.engine.name()))
}

/// Said of an engine that was told to ignore missing methods.
pub(crate) fn ignoring_line(report: &EngineReport) -> String {
    format!("{}: missing methods were ignored, so what it reports may be impossible", report.engine.name())
}

/// Said where code ran that nobody saw.
pub(crate) fn unseen_line(analysis: &Analysis) -> Option<String> {
    let all = || analysis.unseen.iter().map(|text| words::clean(text)).collect::<Vec<_>>().join(", ");
    let any = !analysis.races.is_empty() || !analysis.deadlocks.is_empty() || !analysis.candidates.is_empty();
    (any && !analysis.unseen.is_empty()).then(|| {
        format!("code ran that was not seen, so what is predicted may be impossible: {}; --strict leaves it out", all())
    })
}

/// Said of an engine that was cut short, with what it has left open.
pub(crate) fn incomplete_line(report: &EngineReport, analysis: &Analysis) -> String {
    let left = analysis.left.iter().filter(|left| left.engine == report.engine).map(|left| {
        let noun = if left.count == 1 { left.what.noun() } else { left.what.nouns() };
        format!("{} {noun} {}", grouped(left.count), left.reason)
    });
    let left: Vec<String> = left.collect();
    let colon = if left.is_empty() { "" } else { ": " };
    format!("{}: stopped early, so there may be more{colon}{}", report.engine.name(), left.join(", "))
}

/// Said of a report for which there was no time.
pub(crate) fn unwritten_line(findings: u64) -> String {
    let (findings, are) = (counted(findings, "finding"), if findings == 1 { "is" } else { "are" });
    format!("{findings} {are} not in this report: there was no time to write more")
}

/// What one suppression took away.
pub(crate) fn suppressed_line(item: &Suppressed) -> String {
    let counts =
        [(item.races, "race"), (item.deadlocks, "deadlock"), (item.faults, "fault"), (item.candidates, "candidate")];
    let counts: Vec<String> =
        counts.into_iter().filter(|&(number, _)| number > 0).map(|(number, noun)| counted(number, noun)).collect();
    format!("suppressed: {} by line {} ({})", counts.join(", "), item.line, words::clean(&item.text))
}
