//! What holes in a trace do to each engine: true races, false alarms, and what is missed.

use crate::columns;
use crate::emit::{Emitter, VERSION};
use crate::number::{counted, grouped, seconds};
use crate::text::Style;
use crate::words;
use snag_model::{EventId, Trace};
use snag_pipeline::EngineRef;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Two locations, the smaller one first.
pub type Pair = (String, String);

/// The two locations of a pair of events; where a trace has none, numbers stand in.
pub fn pair(trace: &Trace, first: EventId, second: EventId) -> Pair {
    let (a, b) = (words::location(trace, first).into_owned(), words::location(trace, second).into_owned());
    if a <= b { (a, b) } else { (b, a) }
}

/// What one engine reports on the incomplete trace.
pub struct Row {
    /// Which one.
    pub engine: EngineRef,
    /// Whether it took the trace as if no method were missing.
    pub ignoring: bool,
    /// What it reports.
    pub reported: BTreeSet<Pair>,
    /// How long that took.
    pub seconds: f64,
    /// False if it was cut short.
    pub complete: bool,
}

/// A comparison of one complete trace with one that has holes.
pub struct Comparison<'a> {
    /// Their names.
    pub paths: [&'a str; 2],
    /// Their numbers of events.
    pub events: [usize; 2],
    /// How many calls are missing.
    pub calls: usize,
    /// The races of the complete trace.
    pub truth: BTreeSet<Pair>,
    /// Whether that is all of them.
    pub truth_complete: bool,
    /// How long finding them took.
    pub truth_seconds: f64,
    /// Locations of the accesses that are left.
    pub left: BTreeSet<String>,
    /// One for each engine.
    pub rows: Vec<Row>,
}

/// How an engine did.
struct Counts {
    right: u64,
    wrong: u64,
    /// Missed because one of the accesses is in code that was not observed.
    inside: u64,
    /// Missed because missing methods could have ordered the accesses.
    cautious: u64,
}

impl Comparison<'_> {
    fn counts(&self, row: &Row) -> Counts {
        let missed = || self.truth.difference(&row.reported);
        let gone = |pair: &&Pair| !self.left.contains(&pair.0) || !self.left.contains(&pair.1);
        let inside = missed().filter(gone).count();
        Counts {
            right: self.truth.intersection(&row.reported).count() as u64,
            wrong: row.reported.difference(&self.truth).count() as u64,
            inside: inside as u64,
            cautious: (missed().count() - inside) as u64,
        }
    }

    /// A table.
    pub fn text(&self, out: &mut dyn Write, style: &Style) -> io::Result<()> {
        let more = |complete: bool| if complete { "" } else { "+" };
        if !style.quiet {
            writeln!(
                out,
                "{}: {}, {}{} in {}",
                words::clean(self.paths[0]),
                counted(self.events[0] as u64, "event"),
                counted(self.truth.len() as u64, "race"),
                more(self.truth_complete),
                seconds(self.truth_seconds)
            )?;
            writeln!(
                out,
                "{}: {}, {}\n",
                words::clean(self.paths[1]),
                counted(self.events[1] as u64, "event"),
                counted(self.calls as u64, "missing call")
            )?;
        }
        let heading = ["engine", "true races", "false alarms", "missed", "in missing code", "by caution", "time"];
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| {
                let Counts { right, wrong, inside, cautious } = self.counts(row);
                let name = row.engine.name().to_owned() + if row.ignoring { " *" } else { "" };
                let more = more(row.complete);
                vec![
                    name,
                    grouped(right) + more,
                    grouped(wrong) + more,
                    grouped(inside + cautious),
                    grouped(inside),
                    grouped(cautious),
                    seconds(row.seconds),
                ]
            })
            .collect();
        columns::print(out, style, &heading, &rows)?;
        if !style.quiet {
            writeln!(out, "* as if no method were missing")?;
            if !self.truth_complete || self.rows.iter().any(|row| !row.complete) {
                writeln!(out, "+ stopped early, so there may be more")?;
            }
        }
        out.flush()
    }

    /// The same as JSON.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut json = Emitter::new(out, 4);
        json.object()?;
        json.integer_at("snag", VERSION)?;
        for (key, index) in [("full", 0), ("punched", 1)] {
            json.object_at(key)?;
            json.string_at("path", self.paths[index])?;
            json.integer_at("events", self.events[index] as u64)?;
            if index == 0 {
                json.integer_at("races", self.truth.len() as u64)?;
                json.float_at("seconds", self.truth_seconds)?;
                json.boolean_at("complete", self.truth_complete)?;
            } else {
                json.integer_at("missing_calls", self.calls as u64)?;
            }
            json.end()?;
        }
        json.array_at("engines")?;
        for row in &self.rows {
            let Counts { right, wrong, inside, cautious } = self.counts(row);
            json.object()?;
            json.string_at("name", row.engine.name())?;
            json.boolean_at("missing_ignored", row.ignoring)?;
            json.integer_at("true_races", right)?;
            json.integer_at("false_alarms", wrong)?;
            json.integer_at("missed_in_missing_code", inside)?;
            json.integer_at("missed_by_caution", cautious)?;
            json.float_at("seconds", row.seconds)?;
            json.boolean_at("complete", row.complete)?;
            json.end()?;
        }
        json.end()?;
        json.end()?;
        json.finish()
    }
}
