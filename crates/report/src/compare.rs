//! Engines side by side.

use crate::columns;
use crate::emit::{Emitter, VERSION};
use crate::findings::{Findings, Report, Unread};
use crate::number::{bytes, counted, grouped, scaled, seconds};
use crate::text::Style;
use crate::words;
use snag_pipeline::{EngineRef, EngineReport};
use std::io::{self, Write};

/// A table per trace: what each engine found and what that cost.
pub struct Table<W> {
    out: W,
    style: Style,
}

impl<W: Write> Table<W> {
    /// Writes to `out`.
    pub fn new(out: W, style: Style) -> Table<W> {
        Table { out, style }
    }
}

impl<W: Write> Table<W> {
    /// What the searches of lock histories did, in a table of their own.
    fn searches(&mut self, engines: &[EngineReport]) -> io::Result<()> {
        let rows: Vec<Vec<String>> = engines.iter().filter_map(searches).collect();
        if rows.is_empty() {
            return Ok(());
        }
        writeln!(self.out)?;
        let heading = [
            "searches",
            "queries",
            "reachable",
            "calls",
            "potential",
            "calls %",
            "both",
            "LCC",
            "RC",
            "not incremental",
        ];
        columns::print(&mut self.out, &self.style, &heading, &rows)
    }
}

impl<W: Write> Report for Table<W> {
    fn trace(&mut self, findings: &Findings) -> io::Result<()> {
        let (out, style) = (&mut self.out, &self.style);
        let engines = &findings.analysis.engines;
        if style.headings {
            writeln!(out, "{}", style.bold(format_args!("== {} ==", words::clean(findings.path))))?;
        }
        if !style.quiet {
            let events = counted(findings.events, "event");
            let threads = counted(findings.trace.tables.thread_count() as u64, "thread");
            writeln!(out, "{events}, {threads}\n")?;
        }
        let mut heading = vec!["engine", "location pairs", "warnings", "races proved", "time", "events/s", "memory"];
        let mut rows: Vec<Vec<String>> = engines.iter().map(|report| row(findings, report)).collect();
        if engines.iter().any(|report| report.reduction.is_some()) {
            heading.extend(["reduced to", "sweeps"]);
            rows.iter_mut().zip(engines).for_each(|(row, report)| row.extend(reduction(report)));
        }
        columns::print(out, style, &heading, &rows)?;
        self.searches(engines)?;
        let (out, style) = (&mut self.out, &self.style);
        if !style.quiet && engines.iter().any(|report| !report.complete) {
            writeln!(out, "+ stopped early, so there may be more")?;
        }
        if style.headings {
            writeln!(out)?;
        }
        out.flush()
    }

    fn finish(&mut self, unread: &[Unread]) -> io::Result<()> {
        for Unread { path, message } in unread {
            writeln!(self.out, "{}: not analysed: {}", words::clean(path), words::clean(message))?;
        }
        self.out.flush()
    }
}

fn row(findings: &Findings, report: &EngineReport) -> Vec<String> {
    let more = if report.complete { "" } else { "+" };
    vec![
        report.engine.name().to_owned(),
        grouped(report.location_pairs) + more,
        grouped(report.warnings) + more,
        grouped(proved(findings, report.engine)) + more,
        seconds(report.seconds),
        scaled(report.events_per_second),
        bytes(report.peak_memory_bytes),
    ]
}

/// Recursive calls, and what became of them.
fn searches(report: &EngineReport) -> Option<Vec<String>> {
    let searches = report.searches?;
    let done = searches.done;
    let ratio = 100.0 * done.calls as f64 / done.potential.max(1) as f64;
    let mut row = vec![report.engine.name().to_owned()];
    row.extend([done.queries, done.reachable, done.calls, done.potential].map(grouped));
    row.push(format!("{ratio:.1}"));
    row.extend([done.both, done.lcc, done.rc].map(grouped));
    row.push(searches.anew.map_or(String::new(), grouped));
    Some(row)
}

/// What was left of the trace, and how often the fixpoint was swept.
fn reduction(report: &EngineReport) -> [String; 2] {
    let Some(reduction) = report.reduction else { return [String::new(), String::new()] };
    [grouped(reduction.events), reduction.sweeps.map_or(String::new(), |sweeps| grouped(sweeps.into()))]
}

/// The same as JSON: one object with all traces.
pub struct Json<W: Write> {
    json: Emitter<W>,
    begun: bool,
}

impl<W: Write> Json<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Json<W> {
        Json { json: Emitter::new(out, 4), begun: false }
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
        let json = &mut self.json;
        json.object()?;
        json.string_at("path", findings.path)?;
        json.integer_at("events", findings.events)?;
        json.integer_at("threads", findings.trace.tables.thread_count() as u64)?;
        json.array_at("engines")?;
        for report in &findings.analysis.engines {
            let EngineReport { engine, .. } = *report;
            json.object()?;
            json.string_at("name", engine.name())?;
            json.integer_at("location_pairs", report.location_pairs)?;
            json.integer_at("warnings", report.warnings)?;
            json.integer_at("races", proved(findings, engine))?;
            json.float_at("seconds", report.seconds)?;
            json.float_at("events_per_second", report.events_per_second)?;
            json.integer_at("peak_memory_bytes", report.peak_memory_bytes)?;
            json.boolean_at("complete", report.complete)?;
            json.reduction(report)?;
            json.searches(report)?;
            json.end()?;
        }
        json.end()?;
        json.end()
    }

    fn finish(&mut self, unread: &[Unread]) -> io::Result<()> {
        self.begin()?;
        self.json.end()?;
        self.json.unread(unread)?;
        self.json.end()?;
        self.json.finish()
    }
}

fn proved(findings: &Findings, engine: EngineRef) -> u64 {
    findings.analysis.races.iter().filter(|race| race.engine == engine).count() as u64
}
