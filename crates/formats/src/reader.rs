//! Reading a trace block by block, in whatever format.

use crate::error::{Error, Position, Result};
use snag_model::Trace;
use snag_model::events::Events;
use snag_model::room::Room;
use snag_model::tables::Tables;
use snag_model::trees::Trees;
use snag_model::validate::Validator;
use std::path::{Path, PathBuf};

/// What a format has to provide. One call reads some thousands of events,
/// so that the dynamic dispatch costs nothing.
pub trait BlockReader: Send {
    /// Appends the next events to `events`; false if there are no more. After an error `events` holds, of the events that stand
    /// before what is wrong, as many as can be relied on.
    fn read_block(&mut self, tables: &mut Tables, events: &mut Events) -> Result<bool>;

    /// Where an event that the last call of `read_block` read stands in the input.
    fn position_of(&self, event: usize) -> Position;

    /// What the user should know about the input although it could be read; each
    /// said once.
    fn take_warnings(&mut self) -> Vec<String>;

    /// Whether the input was found to end before the trace does.
    fn is_cut_off(&self) -> bool {
        false
    }
}

/// A validated stream of events.
pub struct TraceReader {
    format: Box<dyn BlockReader>,
    validator: Validator,
    trees: Trees,
    /// Whether missing methods keep the arguments they were given, instead of what those lead to.
    as_written: bool,
    path: Option<PathBuf>,
    /// Names of what was read so far.
    pub tables: Tables,
    /// Events read so far.
    count: usize,
}

impl TraceReader {
    /// A stream in a known format; `path` only serves error messages.
    pub fn new(format: Box<dyn BlockReader>, path: Option<&Path>) -> TraceReader {
        TraceReader {
            format,
            validator: Validator::new(),
            trees: Trees::new(),
            as_written: false,
            path: path.map(Path::to_owned),
            tables: Tables::new(),
            count: 0,
        }
    }

    /// Leaves missing methods with the arguments that they were given, as whoever writes the trace again wants them. Engines
    /// need what those lead to.
    pub fn as_written(mut self) -> TraceReader {
        self.as_written = true;
        self
    }

    /// Sets how much memory names, comments and declarations may take.
    pub fn within(mut self, room: Room) -> TraceReader {
        self.tables.limit(room);
        self
    }

    /// Replaces `events` by the next block; false at the end. After an error it holds those that stand before what is wrong.
    pub fn next_block(&mut self, events: &mut Events) -> Result<bool> {
        events.restart(self.count);
        self.append_block(events)
    }

    /// Everything, in memory.
    pub fn read_all(mut self) -> Result<(Trace, Vec<String>)> {
        let mut events = Events::new();
        while self.append_block(&mut events)? {}
        let warnings = self.format.take_warnings();
        Ok((Trace { tables: self.tables, events }, warnings))
    }

    /// What the user should know about the input so far.
    pub fn take_warnings(&mut self) -> Vec<String> {
        self.format.take_warnings()
    }

    /// Whether the input was found to end before the trace does.
    pub fn is_cut_off(&self) -> bool {
        self.format.is_cut_off()
    }

    /// Appends the next block to `events`, whose last event must be the last one read; false at the end. After an error it ends
    /// before what is wrong.
    pub fn append_block(&mut self, events: &mut Events) -> Result<bool> {
        debug_assert_eq!(events.first + events.len(), self.count);
        let from = events.len();
        let mut read = self.format.read_block(&mut self.tables, events);
        if events.first + events.len() >= u32::MAX as usize - 1 {
            events.truncate(from);
            read = Err(Error::new(Position::Whole, "more than 4294967293 events in one trace"));
        }
        // An event that breaks a rule comes before whatever could not be read.
        if let Err(broken) = self.validator.check(events, from, &self.tables) {
            read = Err(Error::new(self.format.position_of(broken.event), broken.to_string()));
            events.truncate(broken.event - events.first);
        }
        self.count = events.first + events.len();
        if !self.as_written
            && let Err((event, message)) = self.trees.resolve(events, from, &mut self.tables)
        {
            read = Err(Error::new(self.format.position_of(events.first + event), message));
            events.truncate(event);
            self.count = events.first + events.len();
        }
        read.map_err(|error| self.locate(error))
    }

    fn locate(&self, error: Error) -> Error {
        match &self.path {
            Some(path) => error.in_file(path),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, read_from};
    use std::io::Cursor;

    #[test]
    fn after_an_error_a_block_ends_before_what_is_wrong() {
        let good = "T0|acq(l)|1\nT0|w(x)|2\nT0|rel(l)|3\n";
        for wrong in ["nonsense\n", "T1|rel(l)|4\n", "T1|rel(l)|4\nnonsense\n"] {
            for more in ["", "T0|w(x)|5\n"] {
                let text = format!("{good}{wrong}{more}");
                let mut reader = read_from(Cursor::new(text), Some(Format::Std), None).expect("it can be read");
                let mut block = Events::new();
                let error = reader.next_block(&mut block).expect_err("line 4 is wrong");
                assert_eq!((error.position, block.len()), (Position::Line(4), 3));
            }
        }
    }
}
