//! What a trace consists of, printed.

use crate::columns;
use crate::emit::{Emitter, VERSION};
use crate::number::grouped;
use crate::text::Style;
use crate::words;
use snag_model::stats::Stats;
use snag_model::{Op, Space, Tables};
use std::io::{self, Write};

/// How many things of a kind a trace is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Locks.
    pub locks: u64,
    /// Variables.
    pub variables: u64,
    /// Source locations.
    pub locations: u64,
}

impl Named {
    /// Those that the trace names.
    pub fn of(stats: &Stats, tables: &Tables) -> Named {
        Named {
            locks: tables.lock_count() as u64,
            variables: tables.variable_count() as u64,
            locations: stats.locations(tables) as u64,
        }
    }
}

/// Prints counts for people.
pub fn text(
    out: &mut dyn Write,
    style: &Style,
    path: &str,
    stats: &Stats,
    named: Named,
    tables: &Tables,
) -> io::Result<()> {
    if style.headings {
        writeln!(out, "{}", style.bold(format_args!("== {} ==", words::clean(path))))?;
    }
    let rows: Vec<Vec<String>> =
        totals(stats, named, tables).map(|(_, label, number)| vec![label.to_owned(), grouped(number)]).into();
    columns::print(out, style, &["", "number"], &rows)?;
    let share = |number: u64| format!("{:.1} %", 100.0 * number as f64 / stats.events.max(1) as f64);
    let mut rows: Vec<(u64, Vec<String>)> = Op::ALL
        .into_iter()
        .map(|op| (stats.of(op), vec![op.word().to_owned(), grouped(stats.of(op)), share(stats.of(op))]))
        .filter(|row| row.0 > 0)
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.0));
    let rows: Vec<Vec<String>> = rows.into_iter().map(|row| row.1).collect();
    writeln!(out)?;
    columns::print(out, style, &["operation", "events", "share"], &rows)?;
    let mut threads: Vec<(usize, u64)> = stats.by_thread.iter().copied().enumerate().collect();
    threads.sort_by_key(|&(_, events)| std::cmp::Reverse(events));
    let shown = if style.full { threads.len() } else { threads.len().min(20) };
    let rows: Vec<Vec<String>> = threads[..shown]
        .iter()
        .map(|&(thread, events)| {
            vec![words::clean(tables.names(Space::Thread).get(thread)).into_owned(), grouped(events), share(events)]
        })
        .collect();
    writeln!(out)?;
    columns::print(out, style, &["thread", "events", "share"], &rows)?;
    if shown < threads.len() {
        let left: u64 = threads[shown..].iter().map(|&(_, events)| events).sum();
        let dots = style.ellipsis();
        writeln!(out, "{dots} {} more threads, {} events", grouped((threads.len() - shown) as u64), grouped(left))?;
    }
    if style.headings {
        writeln!(out)?;
    }
    out.flush()
}

/// The counts of one trace as one JSON object.
pub fn json(out: &mut dyn Write, path: &str, stats: &Stats, named: Named, tables: &Tables) -> io::Result<()> {
    let mut json = Emitter::new(out, 2);
    json.object()?;
    json.integer_at("snag", VERSION)?;
    json.string_at("path", path)?;
    for (key, _, number) in totals(stats, named, tables) {
        json.integer_at(key, number)?;
    }
    json.object_at("operations")?;
    for op in Op::ALL.into_iter().filter(|&op| stats.of(op) > 0) {
        json.integer_at(op.word(), stats.of(op))?;
    }
    json.end()?;
    json.array_at("by_thread")?;
    for (thread, &events) in stats.by_thread.iter().enumerate() {
        json.object()?;
        json.string_at("thread", tables.names(Space::Thread).get(thread))?;
        json.integer_at("events", events)?;
        json.end()?;
    }
    json.end()?;
    json.end()?;
    json.finish()
}

/// Member in JSON, label in text, number.
fn totals(stats: &Stats, counts: Named, tables: &Tables) -> [(&'static str, &'static str, u64); 12] {
    let named = |space: Space| tables.names(space).len() as u64;
    [
        ("events", "events", stats.events),
        ("threads", "threads", stats.threads() as u64),
        ("locks", "locks", counts.locks),
        ("variables", "variables", counts.variables),
        ("conditions", "conditions", named(Space::Condition)),
        ("semaphores", "semaphores", named(Space::Semaphore)),
        ("barriers", "barriers", named(Space::Barrier)),
        ("methods", "methods", named(Space::Method)),
        ("locations", "source locations", counts.locations),
        ("nesting", "most locks held at once", stats.nesting.into()),
        ("located", "events with a location", stats.located),
        ("valued", "accesses with a value", stats.valued),
    ]
}
