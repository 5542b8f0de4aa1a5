//! Writing STD.

use super::read::is_mark;
use crate::error::{Error, Position, Result};
use snag_model::events::{Event, Events};
use snag_model::ids::*;
use snag_model::tables::{Space, Tables};
use snag_model::{Action, Mode};
use std::io::Write;

/// Writes STD.
pub struct StdWriter<W> {
    out: W,
    line: Vec<u8>,
    /// Whether a line was written that still lacks its end.
    open: bool,
}

impl<W: Write> StdWriter<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> StdWriter<W> {
        StdWriter { out, line: Vec::new(), open: false }
    }

    /// Writes the next events. What STD cannot express is an error, not left out.
    pub fn write(&mut self, events: &Events, tables: &Tables) -> Result<()> {
        self.line.clear();
        for index in 0..events.len() {
            let number = (events.first + index) as u64;
            let event = events.get(index);
            if self.open {
                self.end_line(tables);
            }
            self.event(&event, tables).map_err(|message| Error::new(Position::Event(number), message))?;
            self.open = true;
            if self.line.len() > 1 << 16 {
                self.flush(number)?;
            }
        }
        self.flush((events.first + events.len()) as u64)
    }

    /// Ends the last line and hands out the writer.
    pub fn finish(mut self, tables: &Tables) -> Result<W> {
        self.line.clear();
        if self.open && !tables.layout.open_end {
            self.end_line(tables);
        }
        self.flush(0)?;
        self.out.flush().map_err(cannot_write)?;
        Ok(self.out)
    }

    fn end_line(&mut self, tables: &Tables) {
        self.line.extend_from_slice(if tables.layout.crlf { b"\r\n" } else { b"\n" });
    }

    fn flush(&mut self, _event: u64) -> Result<()> {
        self.out.write_all(&self.line).map_err(cannot_write)?;
        self.line.clear();
        Ok(())
    }

    fn event(&mut self, event: &Event, tables: &Tables) -> std::result::Result<(), String> {
        let name = |space: Space, id: u32| tables.names(space).get(id as usize);
        let inexpressible = |what: &str| Err(format!("STD cannot express {what}"));
        if event.value.is_some() || event.written.is_some() {
            return inexpressible("values");
        }
        let bracketed = |word: &str, name: &str| format!("{word}({name})");
        let of_thread = |word: &str, thread: ThreadId, spelling: Option<TextId>| match spelling {
            None => bracketed(word, name(Space::Thread, thread.0)),
            Some(spelling) => bracketed(word, name(Space::Text, spelling.0)),
        };
        let op = match event.action() {
            Action::Read { into: Some(_), .. } | Action::Write { of: Some(_), .. } => return inexpressible("symbols"),
            Action::Read { variable, .. } => bracketed("r", &tables.variable_text(variable)),
            Action::Write { variable, .. } => bracketed("w", &tables.variable_text(variable)),
            Action::Acquire { mode: Mode::Exclusive, gives_up: true, .. } => {
                return inexpressible("locks that are only tried");
            }
            Action::Acquire { lock, mode: Mode::Exclusive, .. } => bracketed("acq", name(Space::Lock, lock.0)),
            Action::Release { lock, mode: Mode::Exclusive } => bracketed("rel", name(Space::Lock, lock.0)),
            Action::Fork { thread, spelling } => of_thread("fork", thread, spelling),
            Action::Join { thread, spelling } => of_thread("join", thread, spelling),
            Action::Begin => "begin".to_owned(),
            Action::End => "end".to_owned(),
            Action::Branch { condition: Some(_), .. } => return inexpressible("branch conditions"),
            Action::Branch { text: Some(text), .. } => bracketed("branch", name(Space::Text, text.0)),
            Action::Branch { .. } => "branch".to_owned(),
            Action::Mark { text } => match name(Space::Text, text.0) {
                mark if is_mark(mark.as_bytes()) => mark.to_owned(),
                mark => return inexpressible(&format!("the mark '{mark}'; only 'begin…', 'end…' and 'dummy(…)'")),
            },
            _ => return inexpressible(&format!("'{}'", event.op.word())),
        };
        let thread = tables.thread_name(event.thread);
        let location = tables.location_name(event.location);
        let nameless = matches!(op.as_str(), "r()" | "w()" | "acq()" | "rel()" | "fork()" | "join()");
        if thread.is_empty() || nameless {
            return inexpressible("an empty name");
        }
        if location.ends_with('\r') && !tables.layout.crlf {
            return inexpressible("a location that ends in a carriage return");
        }
        for field in [thread, &op, location] {
            if field.contains(['|', '\n']) {
                return inexpressible("a name that holds '|' or a line end");
            }
        }
        self.line.extend_from_slice(thread.as_bytes());
        self.line.push(b'|');
        self.line.extend_from_slice(op.as_bytes());
        self.line.push(b'|');
        self.line.extend_from_slice(location.as_bytes());
        Ok(())
    }
}

fn cannot_write(error: std::io::Error) -> Error {
    Error::new(Position::Whole, format!("cannot write: {error}"))
}
