//! JSON, written as it comes.
//!
//! [`Emitter`] puts the commas, the nesting and, down to a given depth, the line
//! breaks; every string passes serde_json, so that whatever a trace holds is
//! escaped. Values may be as long as they like, nothing is kept.

use crate::findings::Unread;
use snag_pipeline::{EngineReport, Searches};
use std::io::{self, Write};

/// The version of the format of everything that is written as JSON.
pub const VERSION: u64 = 2;

/// Writes one JSON document.
pub struct Emitter<W> {
    out: W,
    /// Open containers: closing bracket, and whether something is inside already.
    open: Vec<(u8, bool)>,
    /// Containers nested deeper than this stay on one line.
    lines: usize,
    /// A key was written and its value has not come yet.
    after_key: bool,
}

impl<W: Write> Emitter<W> {
    /// A document that breaks lines inside the outermost `lines` levels of nesting.
    pub fn new(out: W, lines: usize) -> Emitter<W> {
        Emitter { out, open: Vec::new(), lines, after_key: false }
    }

    /// Opens an object.
    pub fn object(&mut self) -> io::Result<()> {
        self.before()?;
        self.open.push((b'}', false));
        self.out.write_all(b"{")
    }

    /// Opens an array.
    pub fn array(&mut self) -> io::Result<()> {
        self.before()?;
        self.open.push((b']', false));
        self.out.write_all(b"[")
    }

    /// Closes the innermost object or array.
    pub fn end(&mut self) -> io::Result<()> {
        let (bracket, filled) = self.open.pop().expect("something is open");
        if filled && self.open.len() < self.lines {
            self.new_line()?;
        }
        self.out.write_all(&[bracket])
    }

    /// Writes the name of the next member.
    pub fn key(&mut self, name: &str) -> io::Result<()> {
        self.before()?;
        serde_json::to_writer(&mut self.out, name)?;
        self.after_key = true;
        self.out.write_all(b": ")
    }

    /// Writes a text.
    pub fn string(&mut self, text: &str) -> io::Result<()> {
        self.before()?;
        Ok(serde_json::to_writer(&mut self.out, text)?)
    }

    /// Writes a whole number.
    pub fn integer(&mut self, number: u64) -> io::Result<()> {
        self.before()?;
        Ok(serde_json::to_writer(&mut self.out, &number)?)
    }

    /// Writes a number with a sign.
    pub fn signed(&mut self, number: i64) -> io::Result<()> {
        self.before()?;
        Ok(serde_json::to_writer(&mut self.out, &number)?)
    }

    /// Writes a number; one that JSON does not know (infinite, undefined) becomes 0.
    pub fn float(&mut self, number: f64) -> io::Result<()> {
        self.before()?;
        Ok(serde_json::to_writer(&mut self.out, &if number.is_finite() { number } else { 0.0 })?)
    }

    /// Writes a truth value.
    pub fn boolean(&mut self, value: bool) -> io::Result<()> {
        self.before()?;
        Ok(serde_json::to_writer(&mut self.out, &value)?)
    }

    /// Writes that something is not known.
    pub fn null(&mut self) -> io::Result<()> {
        self.before()?;
        self.out.write_all(b"null")
    }

    /// A member that is a text.
    pub fn string_at(&mut self, key: &str, text: &str) -> io::Result<()> {
        self.key(key)?;
        self.string(text)
    }

    /// A member that is a whole number.
    pub fn integer_at(&mut self, key: &str, number: u64) -> io::Result<()> {
        self.key(key)?;
        self.integer(number)
    }

    /// A member that is a number.
    pub fn float_at(&mut self, key: &str, number: f64) -> io::Result<()> {
        self.key(key)?;
        self.float(number)
    }

    /// A member that is a truth value.
    pub fn boolean_at(&mut self, key: &str, value: bool) -> io::Result<()> {
        self.key(key)?;
        self.boolean(value)
    }

    /// A member that is an object, left open.
    pub fn object_at(&mut self, key: &str) -> io::Result<()> {
        self.key(key)?;
        self.object()
    }

    /// A member that is an array, left open.
    pub fn array_at(&mut self, key: &str) -> io::Result<()> {
        self.key(key)?;
        self.array()
    }

    /// Members that only engines with a reduction have.
    pub fn reduction(&mut self, report: &EngineReport) -> io::Result<()> {
        let Some(reduction) = report.reduction else { return Ok(()) };
        self.integer_at("reduced_events", reduction.events)?;
        reduction.sweeps.map_or(Ok(()), |sweeps| self.integer_at("sweeps", sweeps.into()))
    }

    /// Members that only engines with searches have.
    pub fn searches(&mut self, report: &EngineReport) -> io::Result<()> {
        let Some(Searches { done, anew }) = report.searches else { return Ok(()) };
        self.integer_at("queries", done.queries)?;
        self.integer_at("reachable", done.reachable)?;
        self.integer_at("calls", done.calls)?;
        self.integer_at("potential_calls", done.potential)?;
        self.integer_at("both_branches", done.both)?;
        self.integer_at("lcc", done.lcc)?;
        self.integer_at("rc", done.rc)?;
        anew.map_or(Ok(()), |calls| self.integer_at("calls_without_incrementality", calls))
    }

    /// The member that lists what a document lacks; none if it lacks nothing.
    pub fn unread(&mut self, unread: &[Unread]) -> io::Result<()> {
        if unread.is_empty() {
            return Ok(());
        }
        self.array_at("errors")?;
        for Unread { path, message } in unread {
            self.object()?;
            self.string_at("path", path)?;
            self.string_at("message", message)?;
            self.end()?;
        }
        self.end()
    }

    /// Hands on what was written so far.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the document with a line end and hands everything on.
    pub fn finish(&mut self) -> io::Result<()> {
        debug_assert!(self.open.is_empty());
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    fn before(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.after_key) {
            return Ok(());
        }
        let depth = self.open.len();
        let Some((_, filled)) = self.open.last_mut() else { return Ok(()) };
        let comma = std::mem::replace(filled, true);
        if comma {
            self.out.write_all(b",")?;
        }
        if depth <= self.lines {
            self.new_line()
        } else if comma {
            self.out.write_all(b" ")
        } else {
            Ok(())
        }
    }

    fn new_line(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n")?;
        for _ in 0..self.open.len() {
            self.out.write_all(b"  ")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_commas_and_lines() {
        let mut json = Emitter::new(Vec::new(), 1);
        json.object().unwrap();
        json.string_at("a", "\"\u{1b}").unwrap();
        json.array_at("b").unwrap();
        json.integer(1).unwrap();
        json.float(f64::INFINITY).unwrap();
        json.object().unwrap();
        json.end().unwrap();
        json.end().unwrap();
        json.array_at("c").unwrap();
        json.end().unwrap();
        json.end().unwrap();
        json.finish().unwrap();
        let text = String::from_utf8(json.out).unwrap();
        assert_eq!(text, "{\n  \"a\": \"\\\"\\u001b\",\n  \"b\": [1, 0.0, {}],\n  \"c\": []\n}\n");
    }
}
