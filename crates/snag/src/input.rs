//! Traces, read with progress and warnings.

use crate::context::Context;
use crate::interrupt;
use snag_predict::Progress;
use snag_report::Unread;
use snag_trace::std_format::StdReader;
use snag_trace::{Error, Events, Position, Trace, TraceReader};
use std::path::Path;
use std::time::Instant;

/// Opens a trace; `-` is standard input.
pub fn open(path: &Path) -> Result<TraceReader, Error> {
    if path == Path::new("-") {
        return Ok(TraceReader::new(Box::new(StdReader::new(std::io::stdin())), None));
    }
    let cannot = |e: std::io::Error| Error::new(Position::Whole, format!("cannot open: {e}")).in_file(path);
    let file = std::fs::File::open(path).map_err(cannot)?;
    Ok(TraceReader::new(Box::new(StdReader::new(file)), Some(path)))
}

/// Reads a whole trace and prints what is to be said about it.
pub fn read(context: &Context, path: &Path) -> Result<Trace, Unread> {
    context.detail(&format!("{}: reading", name(path)));
    let started = Instant::now();
    let bars = context.bars();
    bars.phase("reading", 0);
    let mut events = Events::new();
    let mut blocks = || -> Result<TraceReader, Error> {
        let mut reader = open(path)?;
        while reader.append_block(&mut events)? {
            if interrupt::interrupted() {
                return Err(Error::new(Position::Whole, "interrupted while it was read"));
            }
            bars.advance(events.len() as u64);
        }
        Ok(reader)
    };
    let result = blocks();
    bars.clear();
    let mut reader = result.map_err(|error| unread(path, error))?;
    for warning in reader.take_warnings() {
        context.warn(&format!("{}: {warning}", name(path)));
    }
    let seconds = started.elapsed().as_secs_f64();
    context.detail(&format!("{}: read {} events in {seconds:.2} s", name(path), events.len()));
    Ok(Trace { tables: std::mem::take(&mut reader.tables), events })
}

/// A trace as messages and reports name it.
pub fn name(path: &Path) -> String {
    path.display().to_string()
}

/// The error in two parts, for reports that list what they lack.
pub fn unread(path: &Path, error: Error) -> Unread {
    let message = match error.position {
        Position::Whole => error.message,
        position => format!("{position}: {}", error.message),
    };
    Unread { path: name(path), message }
}
