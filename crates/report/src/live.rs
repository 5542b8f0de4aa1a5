//! Findings of a stream, each printed when it is known: text, or one JSON document that grows.

use crate::emit::{Emitter, VERSION};
use crate::findings::Unread;
use crate::number::{counted, grouped, seconds};
use crate::text::Style;
use crate::words;
use snag_model::Level;
use snag_model::{LocId, LockId, Tables};
use snag_pipeline::online::{Access, Race, Unproved};
use snag_pipeline::{Analysis, EngineReport, online};
use std::io::{self, Write};

/// What is said at the end.
pub struct Summary<'a> {
    /// The names of the stream.
    pub tables: &'a Tables,
    /// Events of the stream.
    pub events: u64,
    /// What the engine did.
    pub report: &'a EngineReport,
    /// What was left open.
    pub analysis: &'a Analysis,
    /// Races that were printed.
    pub races: u64,
    /// What was not proved.
    pub unproved: &'a [Unproved],
    /// Print them.
    pub candidates: bool,
    /// What was wrong with the stream, if something was.
    pub error: Option<&'a Unread>,
}

/// A report that grows.
pub trait Live {
    /// A race is known.
    fn race(&mut self, race: &Race, tables: &Tables) -> io::Result<()>;
    /// The stream has ended.
    fn finish(&mut self, summary: &Summary) -> io::Result<()>;
}

/// For people.
pub struct Text<W> {
    out: W,
    style: Style,
    count: u64,
}

impl<W: Write> Text<W> {
    /// Writes to `out`.
    pub fn new(out: W, style: Style) -> Text<W> {
        Text { out, style, count: 0 }
    }

    fn pair(&mut self, headline: &str, first: &Access, second: &Access, tables: &Tables) -> io::Result<()> {
        let Text { out, style, .. } = self;
        let variable = |access: &Access| variable_text(access, tables);
        let (a, b) = (variable(first), variable(second));
        let memory = if a == b { a } else { format!("{a} and {b}") };
        writeln!(out, "{}", style.bold(format_args!("{headline} on {}", words::clean(&memory))))?;
        for access in [first, second] {
            let locks: Vec<_> = access.locks.iter().map(|&lock| words::clean(tables.lock_name(lock))).collect();
            let holding = if locks.is_empty() { String::new() } else { format!(", holding {}", locks.join(", ")) };
            writeln!(
                out,
                "    {} in {} at {} (event {}){holding}",
                access.event.op.word(),
                words::clean(tables.thread_name(access.event.thread)),
                words::clean(&location(access, tables)),
                access.number.0
            )?;
        }
        Ok(())
    }
}

impl<W: Write> Live for Text<W> {
    fn race(&mut self, race: &Race, tables: &Tables) -> io::Result<()> {
        self.count += 1;
        self.pair(&format!("R{}: data race", self.count), &race.first, &race.second, tables)?;
        let (before, then) = (grouped(race.as_observed.0.into()), counted(race.then.len() as u64, "event"));
        writeln!(
            self.out,
            "    found by tlh2, proved: the checker accepted the first {before} events as observed, then {then} (level writer)\n"
        )?;
        self.out.flush()
    }

    fn finish(&mut self, summary: &Summary) -> io::Result<()> {
        let Summary { tables, events, report, races, unproved, candidates, .. } = *summary;
        if candidates {
            for (number, pair) in (1..).zip(unproved) {
                self.pair(&format!("C{number}: unproved race"), &pair.first, &pair.second, tables)?;
                writeln!(self.out, "    believed by tlh2, not proved: {}\n", words::clean(&pair.reason))?;
            }
        }
        let (out, style) = (&mut self.out, &self.style);
        if style.quiet {
            return out.flush();
        }
        let mut found = if races == 0 { "no races".to_owned() } else { counted(races, "race") };
        if !unproved.is_empty() {
            found += &format!(", {}", counted(unproved.len() as u64, "candidate"));
        }
        let (events, threads) = (counted(events, "event"), counted(tables.thread_count() as u64, "thread"));
        let line = format!("tlh2, online: {found} in {events}, {threads}, {}", seconds(report.seconds));
        writeln!(out, "{}", style.bold(format_args!("{line}")))?;
        if !report.complete {
            let line = "tlh2: stopped early or had to leave something out, so there may be more";
            writeln!(out, "{}", style.warn(format_args!("{line}")))?;
        }
        out.flush()
    }
}

/// For scripts: the document of `docs/json.md`, with the findings before the counts, which are known at the end.
pub struct Json<W: Write> {
    json: Emitter<W>,
    path: String,
    count: u64,
    begun: bool,
}

impl<W: Write> Json<W> {
    /// Writes to `out`.
    pub fn new(out: W, path: &str) -> Json<W> {
        Json { json: Emitter::new(out, 4), path: path.to_owned(), count: 0, begun: false }
    }

    fn begin(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let json = &mut self.json;
        json.object()?;
        json.integer_at("snag", VERSION)?;
        json.array_at("traces")?;
        json.object()?;
        json.string_at("path", &self.path)?;
        json.array_at("races")
    }

    fn access(&mut self, key: &str, access: &Access, tables: &Tables) -> io::Result<()> {
        let json = &mut self.json;
        json.object_at(key)?;
        json.integer_at("event", access.number.0.into())?;
        json.string_at("thread", tables.thread_name(access.event.thread))?;
        json.string_at("op", access.event.op.word())?;
        json.string_at("variable", &variable_text(access, tables))?;
        json.string_at("location", &bare_location(access, tables))?;
        json.array_at("stack")?;
        json.end()?;
        json.end()
    }

    fn pair(&mut self, id: &str, first: &Access, second: &Access, tables: &Tables) -> io::Result<()> {
        self.json.object()?;
        self.json.string_at("id", id)?;
        self.json.string_at("engine", online::ENGINE.name())?;
        self.json.string_at("level", Level::Writer.word())?;
        self.access("first", first, tables)?;
        self.access("second", second, tables)?;
        self.locks("locks_first", &first.locks, tables)?;
        self.locks("locks_second", &second.locks, tables)
    }

    fn locks(&mut self, key: &str, locks: &[LockId], tables: &Tables) -> io::Result<()> {
        self.json.array_at(key)?;
        locks.iter().try_for_each(|&lock| self.json.string(tables.lock_name(lock)))?;
        self.json.end()
    }
}

impl<W: Write> Live for Json<W> {
    fn race(&mut self, race: &Race, tables: &Tables) -> io::Result<()> {
        self.begin()?;
        self.count += 1;
        self.pair(&format!("R{}", self.count), &race.first, &race.second, tables)?;
        let json = &mut self.json;
        json.integer_at("as_observed", race.as_observed.0.into())?;
        json.array_at("witness")?;
        race.then.iter().try_for_each(|event| json.integer(event.0.into()))?;
        json.end()?;
        json.array_at("reads")?;
        json.end()?;
        json.boolean_at("verified", true)?;
        json.integer_at("count", 1)?;
        json.end()?;
        json.flush()
    }

    fn finish(&mut self, summary: &Summary) -> io::Result<()> {
        let Summary { tables, events, report, analysis, unproved, candidates, error, .. } = *summary;
        if events == 0 && error.is_some() {
            // There was no trace at all.
            self.json.object()?;
            self.json.integer_at("snag", VERSION)?;
            self.json.array_at("traces")?;
            self.json.end()?;
            self.json.unread(error.map_or(&[][..], std::slice::from_ref))?;
            self.json.end()?;
            return self.json.finish();
        }
        self.begin()?;
        self.json.end()?;
        self.json.array_at("deadlocks")?;
        self.json.end()?;
        self.json.array_at("candidates")?;
        for (number, pair) in (1..).zip(unproved).take(if candidates { usize::MAX } else { 0 }) {
            self.pair(&format!("C{number}"), &pair.first, &pair.second, tables)?;
            for nothing in ["witness", "reads"] {
                self.json.array_at(nothing)?;
                self.json.end()?;
            }
            self.json.boolean_at("verified", false)?;
            self.json.integer_at("count", 1)?;
            self.json.string_at("reason", &pair.reason)?;
            self.json.end()?;
        }
        let json = &mut self.json;
        json.end()?;
        json.integer_at("events", events)?;
        json.integer_at("threads", tables.thread_count() as u64)?;
        json.integer_at("locks", tables.lock_count() as u64)?;
        json.integer_at("variables", tables.variable_count() as u64)?;
        json.array_at("engines")?;
        crate::json::engine(json, report, analysis)?;
        json.end()?;
        json.end()?;
        json.end()?;
        json.unread(error.map_or(&[][..], std::slice::from_ref))?;
        json.end()?;
        json.finish()
    }
}

/// Where an access is; its number where the trace does not say.
fn bare_location(access: &Access, tables: &Tables) -> String {
    match access.event.location {
        LocId::NONE => access.number.0.to_string(),
        location => tables.location_name(location).to_owned(),
    }
}

fn location(access: &Access, tables: &Tables) -> String {
    match access.event.location {
        LocId::NONE => format!("event {}", access.number.0),
        location => tables.location_name(location).to_owned(),
    }
}
/// The name of what an access accesses.
fn variable_text(access: &Access, tables: &Tables) -> String {
    access.event.action().variable().map_or_else(String::new, |variable| tables.variable_text(variable))
}
