//! A witness as a table: one row an event, one column a thread.
//!
//! Two passes over the rows, one that measures and one that prints, so that a
//! full witness is never in memory. If the columns do not fit the width they are
//! narrowed, the widest first; if that would leave them unreadable, the threads
//! share one column and each row names its thread.

use super::fit::{display_width, pad_left, pad_right, shorten};
use super::style::Style;
use crate::digest::{Goal, Row};
use crate::number::{counted, grouped};
use crate::words;
use snag_model::{EventId, ThreadId, Trace};
use std::io::{self, Write};

/// A column of a thread is at least this wide, or there are no such columns.
const NARROWEST: usize = 10;
/// Blanks between columns.
const BETWEEN: usize = 2;
/// Room for the arrow and its word.
const MARK: usize = 10;

/// The layout of one table.
pub struct Table<'a> {
    trace: &'a Trace,
    goal: &'a Goal,
    style: &'a Style,
    /// Width of the column of event numbers.
    number: usize,
    columns: Columns,
    /// Width of the column of locations; 0 if no row has one.
    location: usize,
}

enum Columns {
    /// Threads that appear, in the order of the trace, and the width of each one's column.
    Threads(Vec<(ThreadId, usize)>),
    /// One column that names the thread, one for the operation.
    Shared { thread: usize, operation: usize },
}

const EVENT: &str = "event";
const LOCATION: &str = "location";

impl<'a> Table<'a> {
    /// Measures the rows that [`Table::print`] is going to print.
    pub fn new(trace: &'a Trace, style: &'a Style, rows: impl Iterator<Item = Row>, goal: &'a Goal) -> Table<'a> {
        let mut widths: Vec<usize> = vec![0; trace.tables.thread_count()];
        let (mut largest, mut location) = (0, 0);
        for row in rows.chain(goal.events.iter().map(|&event| Row::Event(event))) {
            let Row::Event(event) = row else { continue };
            let width = &mut widths[trace.thread_of(event).index()];
            *width = (*width).max(display_width(&goal.operation(trace, event)));
            largest = largest.max(event.0);
            location = location.max(display_width(&words::clean(trace.location_of(event))));
        }
        let number = display_width(&grouped(largest.into())).max(EVENT.len());
        let threads: Vec<(ThreadId, usize)> = (0..widths.len())
            .filter(|&t| widths[t] > 0)
            .map(|t| {
                let name = display_width(&words::clean(trace.tables.thread_name(ThreadId::new(t))));
                (ThreadId::new(t), widths[t].max(name))
            })
            .collect();
        let location = if location == 0 { 0 } else { location.max(LOCATION.len()) };
        let mut table = Table { trace, goal, style, number, columns: Columns::Threads(Vec::new()), location };
        table.fit(threads);
        table
    }

    fn fit(&mut self, mut threads: Vec<(ThreadId, usize)>) {
        let outside = super::INDENT.len() + self.number + BETWEEN + MARK;
        let room = self.style.width.saturating_sub(outside);
        let wanted: usize = threads.iter().map(|&(_, width)| width + BETWEEN).sum();
        if wanted + self.location > room && self.location > 0 {
            self.location = self.location.min((room / 4).max(12)).max(room.saturating_sub(wanted).min(self.location));
        }
        let room = room.saturating_sub(if self.location > 0 { self.location + BETWEEN } else { 0 });
        // The largest limit for a column under which all fit.
        let total = |limit: usize| threads.iter().map(|&(_, width)| width.min(limit) + BETWEEN).sum::<usize>();
        let widest = threads.iter().map(|&(_, width)| width).max().unwrap_or(0);
        let limit = (1..=widest).rev().find(|&limit| total(limit) <= room).unwrap_or(0);
        if limit >= NARROWEST.min(widest) {
            for (_, width) in &mut threads {
                *width = (*width).min(limit);
            }
            self.columns = Columns::Threads(threads);
        } else {
            let names = threads.iter().map(|&(t, _)| display_width(&words::clean(self.trace.tables.thread_name(t))));
            let thread = names.max().unwrap_or(0).max("thread".len()).min((room / 3).max(6));
            let operation = widest.min(room.saturating_sub(thread + 2 * BETWEEN).max(NARROWEST));
            self.columns = Columns::Shared { thread, operation };
        }
    }

    /// Prints the rows and then the goal, each event of which is marked with a word.
    pub fn print(
        &self,
        out: &mut dyn Write,
        indent: &str,
        rows: impl Iterator<Item = Row>,
        mark: impl Fn(EventId) -> String,
    ) -> io::Result<()> {
        let header = format!("{indent}{}", self.header());
        writeln!(out, "{}", self.style.bold(format_args!("{}", header.trim_end())))?;
        for row in rows {
            let text = match row {
                Row::Event(event) => format!("{indent}{}", self.row(event)).trim_end().to_owned(),
                Row::Gap(events) => {
                    let dots = self.style.ellipsis();
                    let text = format!("{dots} {} {dots}", counted(events, "event"));
                    let blanks = " ".repeat(self.number + BETWEEN);
                    format!("{indent}{}", self.style.dim(format_args!("{blanks}{text}")))
                }
            };
            writeln!(out, "{text}")?;
        }
        for &event in &self.goal.events {
            let text = format!("{indent}{}{} {}", self.row(event), self.style.arrow(), mark(event));
            writeln!(out, "{}", self.style.alarm(format_args!("{text}")))?;
        }
        Ok(())
    }

    fn header(&self) -> String {
        let mut text = pad_left(EVENT, self.number);
        match &self.columns {
            Columns::Threads(threads) => {
                for &(thread, width) in threads {
                    self.cell(&mut text, &words::clean(self.trace.tables.thread_name(thread)), width);
                }
            }
            Columns::Shared { thread, operation } => {
                self.cell(&mut text, "thread", *thread);
                self.cell(&mut text, "operation", *operation);
            }
        }
        if self.location > 0 {
            self.cell(&mut text, LOCATION, self.location);
        }
        text
    }

    /// One event, up to where a mark may stand.
    fn row(&self, event: EventId) -> String {
        let mut text = pad_left(&grouped(event.0.into()), self.number);
        let operation = self.goal.operation(self.trace, event);
        match &self.columns {
            Columns::Threads(threads) => {
                for &(thread, width) in threads {
                    let own = thread == self.trace.thread_of(event);
                    self.cell(&mut text, if own { &operation } else { "" }, width);
                }
            }
            Columns::Shared { thread, operation: width } => {
                self.cell(&mut text, &words::thread(self.trace, event), *thread);
                self.cell(&mut text, &operation, *width);
            }
        }
        if self.location > 0 {
            self.cell(&mut text, &words::clean(self.trace.location_of(event)), self.location);
        }
        text.push_str(&" ".repeat(BETWEEN));
        text
    }

    fn cell(&self, line: &mut String, text: &str, width: usize) {
        line.push_str(&" ".repeat(BETWEEN));
        line.push_str(&pad_right(&shorten(text, width, self.style.ellipsis()), width));
    }
}
