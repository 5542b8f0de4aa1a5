//! Findings as SARIF 2.1.0, for code review tools: one run per invocation.
//!
//! A result has the locations of both accesses, and a code flow with one thread
//! flow per thread of the shortened witness, put in order by `executionOrder`. A
//! location that reads `path:line` becomes a physical location, any other text a
//! logical one. Traces that could not be read make the invocation unsuccessful.

use crate::confirm::{Confirmation, Confirmations};
use crate::digest::{Goal, Row, digest};
use crate::emit::Emitter;
use crate::findings::{Findings, Report, Unread};
use crate::place::Place;
use crate::{text, words};
use snag_model::{EventId, FaultKind, Op, RaceKind, Schedule, ThreadCounts, ThreadId, Trace};
use snag_pipeline::{Analysis, Candidate, Deadlock, Fault, Race};
use std::io::{self, Write};

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The kinds of findings, in the order of `rules`.
#[derive(Clone, Copy)]
enum Rule {
    Race,
    Deadlock,
    Candidate,
    Order,
    UseAfterFree,
    DoubleFree,
    LockMisuse,
    DestroyedInUse,
    Descriptor,
}

impl Rule {
    const ALL: [Rule; 9] = [
        Rule::Race,
        Rule::Deadlock,
        Rule::Candidate,
        Rule::Order,
        Rule::UseAfterFree,
        Rule::DoubleFree,
        Rule::LockMisuse,
        Rule::DestroyedInUse,
        Rule::Descriptor,
    ];

    fn of(kind: FaultKind) -> Rule {
        match kind {
            FaultKind::UseAfterFree => Rule::UseAfterFree,
            FaultKind::DoubleFree => Rule::DoubleFree,
            FaultKind::LockMisuse => Rule::LockMisuse,
            FaultKind::DestroyedInUse => Rule::DestroyedInUse,
        }
    }

    fn id(self) -> &'static str {
        match self {
            Rule::Race => "race",
            Rule::Deadlock => "deadlock",
            Rule::Candidate => "candidate",
            Rule::Order => "order",
            Rule::UseAfterFree => FaultKind::UseAfterFree.word(),
            Rule::DoubleFree => FaultKind::DoubleFree.word(),
            Rule::LockMisuse => FaultKind::LockMisuse.word(),
            Rule::Descriptor => "descriptor",
            Rule::DestroyedInUse => FaultKind::DestroyedInUse.word(),
        }
    }

    fn level(self) -> &'static str {
        match self {
            Rule::Candidate => "note",
            _ => "error",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Rule::Race => "Two threads can access the same memory at the same time, and one of them writes.",
            Rule::Deadlock => "Threads can wait for each other's locks for ever.",
            Rule::Candidate => "An engine believes in a data race that was not proved.",
            Rule::UseAfterFree => "Memory was used after it was freed.",
            Rule::DoubleFree => "A block of memory was freed twice.",
            Rule::LockMisuse => "A lock was given back by a thread that did not hold it, or taken again by its holder.",
            Rule::Descriptor => "A descriptor can be closed while another thread uses it.",
            Rule::DestroyedInUse => {
                "A lock, condition, semaphore or barrier is destroyed, initialised again or freed while threads may use it."
            }
            Rule::Order => "Memory orders leave two accesses to the same memory unordered, and one of them writes.",
        }
    }
}

/// Writes one SARIF log per invocation.
pub struct Sarif<W: Write> {
    json: Emitter<W>,
    begun: bool,
    /// What is said of traces of which not all findings are in the log.
    unwritten: Vec<String>,
}

impl<W: Write> Sarif<W> {
    /// Writes to `out`, which should be buffered.
    pub fn new(out: W) -> Sarif<W> {
        Sarif { json: Emitter::new(out, 4), begun: false, unwritten: Vec::new() }
    }

    fn begin(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let json = &mut self.json;
        json.object()?;
        json.string_at("$schema", SCHEMA)?;
        json.string_at("version", "2.1.0")?;
        json.array_at("runs")?;
        json.object()?;
        json.object_at("tool")?;
        json.object_at("driver")?;
        json.string_at("name", "Snag")?;
        json.string_at("semanticVersion", env!("CARGO_PKG_VERSION"))?;
        json.array_at("rules")?;
        for rule in Rule::ALL {
            json.object()?;
            json.string_at("id", rule.id())?;
            json.object_at("shortDescription")?;
            json.string_at("text", rule.description())?;
            json.end()?;
            json.object_at("defaultConfiguration")?;
            json.string_at("level", rule.level())?;
            json.end()?;
            json.end()?;
        }
        json.end()?;
        json.end()?;
        json.end()?;
        json.string_at("columnKind", "unicodeCodePoints")?;
        json.array_at("results")
    }
}

impl<W: Write> Report for Sarif<W> {
    fn trace(&mut self, findings: &Findings) -> io::Result<()> {
        self.begin()?;
        let Findings { path, trace, analysis, confirmations, .. } = *findings;
        let counts = ThreadCounts::new(trace);
        let mut results = Results { json: &mut self.json, trace, counts: &counts, analysis, confirmations, path };
        let unwritten = findings.each(&analysis.races, |number, race| results.race(number, race))?
            + findings.each(&analysis.deadlocks, |number, deadlock| results.deadlock(number, deadlock))?
            + findings.each(&analysis.faults, |number, fault| results.fault(number, fault))?
            + findings.each(&analysis.candidates, |number, candidate| results.candidate(number, candidate))?;
        if unwritten > 0 {
            self.unwritten.push(format!("{}: {}", findings.path, text::unwritten_line(unwritten)));
        }
        Ok(())
    }

    fn finish(&mut self, unread: &[Unread]) -> io::Result<()> {
        self.begin()?;
        let json = &mut self.json;
        json.end()?;
        json.array_at("invocations")?;
        json.object()?;
        json.boolean_at("executionSuccessful", unread.is_empty())?;
        let errors = unread.iter().map(|Unread { path, message }| ("error", format!("{path}: {message}")));
        let warnings = self.unwritten.drain(..).map(|text| ("warning", text));
        let notifications: Vec<(&str, String)> = errors.chain(warnings).collect();
        if !notifications.is_empty() {
            json.array_at("toolExecutionNotifications")?;
            for (level, text) in notifications {
                json.object()?;
                json.string_at("level", level)?;
                json.object_at("message")?;
                json.string_at("text", &text)?;
                json.end()?;
                json.end()?;
            }
            json.end()?;
        }
        json.end()?;
        json.end()?;
        json.end()?;
        json.end()?;
        json.end()?;
        json.finish()
    }
}

/// The results of one trace.
struct Results<'a, W> {
    json: &'a mut Emitter<W>,
    trace: &'a Trace,
    counts: &'a ThreadCounts<'a>,
    analysis: &'a Analysis,
    confirmations: Option<&'a Confirmations>,
    path: &'a str,
}

/// Properties that not every result has.
#[derive(Default)]
struct More<'a> {
    count: Option<u64>,
    /// Why it is only a candidate.
    reason: Option<&'a str>,
    /// What a replay has shown.
    confirmation: Option<&'a Confirmation>,
}

impl<W: Write> Results<'_, W> {
    fn race(&mut self, number: u64, race: &Race) -> io::Result<()> {
        let headline = text::race_headline(self.trace, self.analysis, race);
        let pair = [race.first, race.second];
        let rule = match race.kind {
            _ if self.analysis.is_doubtful(race.engine) => Rule::Candidate,
            RaceKind::Predictable if words::descriptor(self.trace, race.first).is_some() => Rule::Descriptor,
            RaceKind::Predictable => Rule::Race,
            RaceKind::Order => Rule::Order,
        };
        self.begin(rule, &headline, &pair)?;
        self.code_flow(&text::leads_up(self.trace, race), &text::race_goal(self.trace, race))?;
        let confirmation = self.confirmations.and_then(|all| all.race(number));
        let (engine, level) = (race.engine.name(), race.level.word());
        let more = More { count: Some(race.count), confirmation, ..More::default() };
        self.end(&format!("R{number}"), engine, level, more)
    }

    fn deadlock(&mut self, number: u64, deadlock: &Deadlock) -> io::Result<()> {
        let headline = text::deadlock_headline(self.trace, deadlock);
        self.begin(Rule::Deadlock, &headline, &deadlock.pending)?;
        let holders = text::holders(self.trace, deadlock);
        self.code_flow(&deadlock.witness, &text::deadlock_goal(self.trace, deadlock, &holders))?;
        let confirmation = self.confirmations.and_then(|all| all.deadlock(number));
        let (engine, level) = (deadlock.engine.name(), deadlock.level.word());
        self.end(&format!("D{number}"), engine, level, More { confirmation, ..More::default() })
    }

    /// If it happened no schedule has to prove it: its events are all there is.
    fn fault(&mut self, number: u64, fault: &Fault) -> io::Result<()> {
        let headline = text::fault_headline(self.trace, fault);
        self.begin(Rule::of(fault.kind), &headline, &text::events(fault))?;
        let level = match &fault.witness {
            None => "observed",
            Some(witness) => {
                self.code_flow(witness, &text::fault_goal(fault))?;
                Fault::LEVEL.word()
            }
        };
        let more = More { count: Some(fault.count), ..More::default() };
        self.end(&format!("F{number}"), fault.engine.name(), level, more)
    }

    fn candidate(&mut self, number: u64, pair: &Candidate) -> io::Result<()> {
        let headline = text::candidate_headline(self.trace, pair);
        self.begin(Rule::Candidate, &headline, &[pair.first, pair.second])?;
        let level = Candidate::LEVEL.word();
        let more = More { count: Some(pair.count), reason: Some(&pair.reason), ..More::default() };
        self.end(&format!("C{number}"), pair.engine.name(), level, more)
    }

    fn begin(&mut self, rule: Rule, message: &str, events: &[EventId]) -> io::Result<()> {
        let json = &mut *self.json;
        json.object()?;
        json.string_at("ruleId", rule.id())?;
        json.integer_at("ruleIndex", rule as u64)?;
        json.string_at("level", rule.level())?;
        json.object_at("message")?;
        json.string_at("text", message)?;
        json.end()?;
        json.array_at("locations")?;
        for &event in events {
            self.location(event, &words::operation(self.trace, event))?;
        }
        self.json.end()?;
        let mut places: Vec<_> = events.iter().map(|&event| words::location(self.trace, event)).collect();
        places.sort_unstable();
        self.json.object_at("partialFingerprints")?;
        self.json.string_at("locations/v1", &places.join("|"))?;
        self.json.end()
    }

    fn end(&mut self, id: &str, engine: &str, level: &str, more: More) -> io::Result<()> {
        let More { count, reason, confirmation } = more;
        let json = &mut *self.json;
        json.object_at("properties")?;
        json.string_at("id", id)?;
        json.string_at("trace", self.path)?;
        json.string_at("engine", engine)?;
        json.string_at("level", level)?;
        if let Some(count) = count {
            json.integer_at("count", count)?;
        }
        if let Some(reason) = reason {
            json.string_at("reason", reason)?;
        }
        if let Some(confirmation) = confirmation {
            json.boolean_at("confirmed", confirmation.is_confirmed())?;
        }
        json.end()?;
        json.end()
    }

    fn location(&mut self, event: EventId, operation: &str) -> io::Result<()> {
        let json = &mut *self.json;
        json.object()?;
        match Place::parse(self.trace.location_of(event)) {
            Some(place) => {
                json.object_at("physicalLocation")?;
                json.object_at("artifactLocation")?;
                json.string_at("uri", &place.uri())?;
                json.end()?;
                json.object_at("region")?;
                json.integer_at("startLine", place.line)?;
                if let Some(column) = place.column {
                    json.integer_at("startColumn", column)?;
                }
                json.end()?;
                json.end()?;
            }
            None => {
                json.array_at("logicalLocations")?;
                json.object()?;
                json.string_at("fullyQualifiedName", &words::place(self.trace, event))?;
                json.end()?;
                json.end()?;
            }
        }
        json.object_at("message")?;
        let thread = words::thread(self.trace, event);
        json.string_at("text", &format!("{thread}: {operation} (event {})", event.0))?;
        json.end()?;
        json.end()
    }

    fn code_flow(&mut self, witness: &Schedule, goal: &Goal) -> io::Result<()> {
        let rows = digest(self.trace, self.counts, witness, goal);
        let hidden: u64 = rows.iter().map(|row| if let Row::Gap(events) = row { *events } else { 0 }).sum();
        let shown: Vec<EventId> =
            rows.iter().filter_map(|row| if let Row::Event(event) = row { Some(*event) } else { None }).collect();
        let steps: Vec<EventId> = shown.into_iter().chain(goal.events.iter().copied()).collect();
        let mut threads: Vec<ThreadId> = steps.iter().map(|&event| self.trace.thread_of(event)).collect();
        threads.sort_unstable();
        threads.dedup();
        self.json.array_at("codeFlows")?;
        self.json.object()?;
        self.json.object_at("message")?;
        let message = format!("A schedule that proves it; {hidden} of its events are not shown.");
        self.json.string_at("text", &message)?;
        self.json.end()?;
        self.json.array_at("threadFlows")?;
        for thread in threads {
            self.json.object()?;
            self.json.string_at("id", self.trace.tables.thread_name(thread))?;
            self.json.array_at("locations")?;
            for (order, &event) in steps.iter().enumerate() {
                if self.trace.thread_of(event) == thread {
                    self.step(order, event, goal)?;
                }
            }
            self.json.end()?;
            self.json.end()?;
        }
        self.json.end()?;
        self.json.end()?;
        self.json.end()
    }

    fn step(&mut self, order: usize, event: EventId, goal: &Goal) -> io::Result<()> {
        self.json.object()?;
        self.json.integer_at("executionOrder", order as u64)?;
        self.json.string_at("importance", if goal.events.contains(&event) { "essential" } else { "important" })?;
        let kinds: &[&str] = match self.trace.events.ops()[event.index()] {
            Op::Acquire | Op::ReadAcquire | Op::WaitEnd => &["acquire", "lock"],
            Op::Release | Op::ReadRelease | Op::WaitBegin => &["release", "lock"],
            _ => &[],
        };
        if !kinds.is_empty() {
            self.json.array_at("kinds")?;
            for kind in kinds {
                self.json.string(kind)?;
            }
            self.json.end()?;
        }
        self.json.key("location")?;
        self.location(event, &goal.operation(self.trace, event))?;
        self.json.end()
    }
}
