//! Findings as JSON: the format of `docs/json.md` and `docs/findings.schema.json`.
//!
//! People script against it, so changes are additions.

use crate::background::Background;
use crate::confirm::{Confirmation, Confirmations};
use crate::emit::{Emitter, VERSION};
use crate::findings::{Findings, Report, Unread};
use crate::frame::stack_frame;
use crate::suppress::Suppressed;
use crate::witness::{self, Witnesses};
use crate::{digest, words};
use snag_model::{EventId, LockId, RaceKind, Schedule, ThreadCounts, Trace};
use snag_pipeline::{Analysis, Candidate, Deadlock, EngineReport, Fault, Race};
use std::io::{self, Write};

/// Writes one JSON object per invocation.
pub struct Json<W: Write> {
    json: Emitter<W>,
    witnesses: Witnesses,
    begun: bool,
}

impl<W: Write> Json<W> {
    /// Writes to `out`, which should be buffered.
    pub fn new(out: W, witnesses: Witnesses) -> Json<W> {
        Json { json: Emitter::new(out, 4), witnesses, begun: false }
    }

    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.json.object()?;
            self.json.integer_at("snag", VERSION)?;
            self.json.array_at("traces")?;
        }
        Ok(())
    }
}

impl<W: Write> Report for Json<W> {
    fn trace(&mut self, findings: &Findings) -> io::Result<()> {
        self.begin()?;
        let Findings { path, trace, events, analysis, suppressed, background, confirmations, .. } = *findings;
        let json = &mut self.json;
        json.object()?;
        json.string_at("path", path)?;
        json.integer_at("events", events)?;
        json.integer_at("threads", trace.tables.thread_count() as u64)?;
        json.integer_at("locks", trace.tables.lock_count() as u64)?;
        json.integer_at("variables", trace.tables.variable_count() as u64)?;
        if !analysis.unseen.is_empty() {
            json.array_at("unseen_code")?;
            analysis.unseen.iter().try_for_each(|text| json.string(text))?;
            json.end()?;
        }
        json.array_at("engines")?;
        for report in &analysis.engines {
            engine(json, report, analysis)?;
        }
        json.end()?;
        json.array_at("races")?;
        let counts = ThreadCounts::new(trace);
        let shown = Shown { trace, background, confirmations, counts: &counts, witnesses: self.witnesses };
        let ignoring = |engine| analysis.ignores_missing(engine);
        let mut unwritten =
            findings.each(&analysis.races, |number, item| race(json, shown, number, item, ignoring(item.engine)))?;
        json.end()?;
        json.array_at("deadlocks")?;
        unwritten += findings
            .each(&analysis.deadlocks, |number, item| deadlock(json, shown, number, item, ignoring(item.engine)))?;
        json.end()?;
        if !analysis.faults.is_empty() {
            json.array_at("faults")?;
            unwritten += findings.each(&analysis.faults, |number, item| fault(json, shown, number, item))?;
            json.end()?;
        }
        json.array_at("candidates")?;
        unwritten += findings.each(&analysis.candidates, |number, item| candidate(json, shown, number, item))?;
        json.end()?;
        if unwritten > 0 {
            json.integer_at("unwritten", unwritten)?;
        }
        if let Some(suppressed) = suppressed {
            json.array_at("suppressed")?;
            for item in suppressed {
                suppression(json, item)?;
            }
            json.end()?;
        }
        json.end()
    }

    fn finish(&mut self, unread: &[Unread]) -> io::Result<()> {
        self.begin()?;
        let json = &mut self.json;
        json.end()?;
        json.unread(unread)?;
        json.end()?;
        json.finish()
    }
}

/// What findings are shown with.
#[derive(Clone, Copy)]
struct Shown<'a> {
    trace: &'a Trace,
    background: Option<&'a dyn Background>,
    confirmations: Option<&'a Confirmations>,
    counts: &'a ThreadCounts<'a>,
    witnesses: Witnesses,
}

pub(crate) fn engine<W: Write>(json: &mut Emitter<W>, report: &EngineReport, analysis: &Analysis) -> io::Result<()> {
    json.object()?;
    json.string_at("name", report.engine.name())?;
    json.float_at("seconds", report.seconds)?;
    json.float_at("events_per_second", report.events_per_second)?;
    json.integer_at("peak_memory_bytes", report.peak_memory_bytes)?;
    json.integer_at("warnings", report.warnings)?;
    json.integer_at("location_pairs", report.location_pairs)?;
    json.boolean_at("complete", report.complete)?;
    json.reduction(report)?;
    json.searches(report)?;
    if !report.complete {
        json.array_at("left")?;
        for left in analysis.left.iter().filter(|left| left.engine == report.engine) {
            json.object()?;
            json.string_at("what", left.what.noun())?;
            json.string_at("reason", &left.reason)?;
            json.integer_at("count", left.count)?;
            json.end()?;
        }
        json.end()?;
    }
    missing_ignored(json, analysis.ignores_missing(report.engine))?;
    json.end()
}

fn race<W: Write>(json: &mut Emitter<W>, shown: Shown, number: u64, race: &Race, ignoring: bool) -> io::Result<()> {
    let trace = shown.trace;
    json.object()?;
    json.string_at("id", &format!("R{number}"))?;
    json.string_at("engine", race.engine.name())?;
    if race.kind == RaceKind::Order {
        json.string_at("kind", race.kind.word())?;
    } else if words::descriptor(trace, race.first).is_some() {
        json.string_at("kind", "descriptor")?;
    }
    json.string_at("level", race.level.word())?;
    access(json, "first", shown, race.first)?;
    access(json, "second", shown, race.second)?;
    locks(json, "locks_first", trace, &race.locks_first)?;
    locks(json, "locks_second", trace, &race.locks_second)?;
    spurious(json, &race.spurious)?;
    if !race.diverging.is_empty() {
        json.array_at("diverging")?;
        race.diverging.iter().try_for_each(|branch| json.integer(branch.0.into()))?;
        json.end()?;
    }
    let rest;
    let (schedule, shown) = match (&race.witness, race.kind) {
        // It shows in the recorded run, which need not be listed.
        (Schedule::Continued { as_observed, then }, RaceKind::Order) => {
            json.integer_at("as_observed", as_observed.0.into())?;
            rest = Schedule::List(then.clone());
            (&rest, Shown { witnesses: Witnesses::Full, ..shown })
        }
        (schedule, _) => (schedule, shown),
    };
    proof(json, shown, schedule, &race.reads)?;
    json.integer_at("count", race.count)?;
    confirmed(json, shown.confirmations.and_then(|all| all.race(number)))?;
    missing_ignored(json, ignoring)?;
    json.end()
}

fn candidate<W: Write>(json: &mut Emitter<W>, shown: Shown, number: u64, pair: &Candidate) -> io::Result<()> {
    let trace = shown.trace;
    json.object()?;
    json.string_at("id", &format!("C{number}"))?;
    json.string_at("engine", pair.engine.name())?;
    json.string_at("level", Candidate::LEVEL.word())?;
    access(json, "first", shown, pair.first)?;
    access(json, "second", shown, pair.second)?;
    locks(json, "locks_first", trace, &pair.locks_first)?;
    locks(json, "locks_second", trace, &pair.locks_second)?;
    for nothing in ["witness", "reads"] {
        json.array_at(nothing)?;
        json.end()?;
    }
    json.boolean_at("verified", false)?;
    json.integer_at("count", pair.count)?;
    json.string_at("reason", &pair.reason)?;
    json.end()
}

fn deadlock<W: Write>(
    json: &mut Emitter<W>,
    shown: Shown,
    number: u64,
    deadlock: &Deadlock,
    ignoring: bool,
) -> io::Result<()> {
    let trace = shown.trace;
    json.object()?;
    json.string_at("id", &format!("D{number}"))?;
    json.string_at("engine", deadlock.engine.name())?;
    if words::is_observed(trace, deadlock) {
        json.string_at("how", "observed")?;
    }
    json.string_at("level", deadlock.level.word())?;
    json.array_at("pending")?;
    for &event in &deadlock.pending {
        json.object()?;
        place(json, trace, event)?;
        json.string_at("lock", digest::takes(trace, event).map_or("", |lock| trace.tables.lock_name(lock)))?;
        site(json, shown, event)?;
        json.end()?;
    }
    json.end()?;
    spurious(json, &deadlock.spurious)?;
    let rest;
    let (schedule, shown) = match &deadlock.witness {
        // It is the recorded run, which need not be listed.
        Schedule::Continued { as_observed, then } if words::is_observed(trace, deadlock) => {
            json.integer_at("as_observed", as_observed.0.into())?;
            rest = Schedule::List(then.clone());
            (&rest, Shown { witnesses: Witnesses::Full, ..shown })
        }
        schedule => (schedule, shown),
    };
    proof(json, shown, schedule, &[])?;
    json.integer_at("count", deadlock.count)?;
    confirmed(json, shown.confirmations.and_then(|all| all.deadlock(number)))?;
    missing_ignored(json, ignoring)?;
    json.end()
}

/// The wake-ups that come for no reason, where there are any.
fn spurious<W: Write>(json: &mut Emitter<W>, wakes: &[EventId]) -> io::Result<()> {
    if wakes.is_empty() {
        return Ok(());
    }
    json.array_at("spurious")?;
    wakes.iter().try_for_each(|wake| json.integer(wake.0.into()))?;
    json.end()
}

/// What went wrong in the recorded run, to which no schedule belongs, or may.
fn fault<W: Write>(json: &mut Emitter<W>, shown: Shown, number: u64, fault: &Fault) -> io::Result<()> {
    json.object()?;
    json.string_at("id", &format!("F{number}"))?;
    json.string_at("engine", fault.engine.name())?;
    json.string_at("kind", fault.kind.word())?;
    match fault.witness {
        None => json.string_at("how", "observed")?,
        Some(_) => {
            json.string_at("how", "predicted")?;
            json.string_at("level", Fault::LEVEL.word())?;
        }
    }
    if let Some(first) = fault.first {
        access(json, "first", shown, first)?;
    }
    access(json, "second", shown, fault.second)?;
    match &fault.witness {
        Some(witness) => proof(json, shown, witness, &[])?,
        None => json.boolean_at("verified", true)?,
    }
    json.integer_at("count", fault.count)?;
    json.end()
}

/// Whether a replay has confirmed it, if there was one.
fn confirmed<W: Write>(json: &mut Emitter<W>, confirmation: Option<&Confirmation>) -> io::Result<()> {
    let Some(confirmation) = confirmation else { return Ok(()) };
    json.boolean_at("confirmed", confirmation.is_confirmed())?;
    confirmation.why_not().map_or(Ok(()), |why| json.string_at("why_not", why))
}

/// Said where missing methods were ignored, by the engine and by the checker; else not said.
fn missing_ignored<W: Write>(json: &mut Emitter<W>, ignoring: bool) -> io::Result<()> {
    if ignoring { json.boolean_at("missing_ignored", true) } else { Ok(()) }
}

fn access<W: Write>(json: &mut Emitter<W>, key: &str, shown: Shown, event: EventId) -> io::Result<()> {
    let trace = shown.trace;
    json.object_at(key)?;
    place(json, trace, event)?;
    json.string_at("variable", &words::target(trace, event))?;
    site(json, shown, event)?;
    json.end()
}

fn place<W: Write>(json: &mut Emitter<W>, trace: &Trace, event: EventId) -> io::Result<()> {
    json.integer_at("event", event.0.into())?;
    json.string_at("thread", trace.tables.thread_name(trace.thread_of(event)))?;
    json.string_at("op", trace.events.ops()[event.index()].word())
}

fn site<W: Write>(json: &mut Emitter<W>, shown: Shown, event: EventId) -> io::Result<()> {
    let Shown { trace, background, .. } = shown;
    json.string_at("location", &words::location(trace, event))?;
    json.array_at("stack")?;
    for frame in background.map_or(Vec::new(), |background| background.stack(trace, event)) {
        stack_frame(json, &frame)?;
    }
    json.end()
}

fn locks<W: Write>(json: &mut Emitter<W>, key: &str, trace: &Trace, locks: &[LockId]) -> io::Result<()> {
    json.array_at(key)?;
    for &lock in locks {
        json.string(trace.tables.lock_name(lock))?;
    }
    json.end()
}

/// The witness and what is known about it. Whatever has a witness was verified:
/// the pipeline hands out nothing else.
fn proof<W: Write>(
    json: &mut Emitter<W>,
    shown: Shown,
    schedule: &Schedule,
    reads: &[(EventId, i64)],
) -> io::Result<()> {
    json.key("witness")?;
    witness::write(json, shown.trace, shown.counts, schedule, shown.witnesses)?;
    json.array_at("reads")?;
    for &(read, value) in reads {
        json.object()?;
        json.integer_at("event", read.0.into())?;
        json.key("value")?;
        json.signed(value)?;
        json.end()?;
    }
    json.end()?;
    json.boolean_at("verified", true)
}

fn suppression<W: Write>(json: &mut Emitter<W>, item: &Suppressed) -> io::Result<()> {
    json.object()?;
    json.integer_at("line", item.line)?;
    json.string_at("suppression", &item.text)?;
    json.integer_at("races", item.races)?;
    json.integer_at("deadlocks", item.deadlocks)?;
    if item.faults > 0 {
        json.integer_at("faults", item.faults)?;
    }
    json.integer_at("candidates", item.candidates)?;
    json.end()
}
