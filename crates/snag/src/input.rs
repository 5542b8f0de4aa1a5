//! Traces, read with progress, warnings and attention to interrupts.

use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt;
use crate::patient::Patient;
use crate::temporary;
use snag_formats::snag_format::{Contended, Numbers};
use snag_formats::{Error, Format, Position, TraceReader};
use snag_model::room::Room;
use snag_model::{Events, Tables, Trace};
use snag_pipeline::Progress;
use snag_report::Unread;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A trace that is being read.
pub struct Source {
    name: String,
    reader: TraceReader,
    /// Bytes of the file, and how many of them were read; `None` if nobody knows.
    bytes: Option<(u64, Arc<AtomicU64>)>,
    /// It was read before: what there is to be said about it was said.
    again: bool,
    /// It is read to the end even if the user wants to stop.
    regardless: bool,
    /// Until when it may be read.
    until: Option<Instant>,
    /// There was no time for more of it, and what was read must do.
    cut_short: bool,
}

/// So long after the user wanted to stop, also what was to be read regardless must do.
const HURRY: Duration = Duration::from_millis(900);

/// What is said of a trace if the user wants to stop before anything of it was read.
const INTERRUPTED: &str = "interrupted while it was read";

/// Counts what is read from a file.
struct Counted {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buffer)?;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

impl Source {
    /// Opens a trace; `-` is standard input.
    pub fn open(context: &Context, path: &Path, format: Option<Format>) -> Result<Source, Unread> {
        context.detail(&format!("{}: reading", name(path)));
        let failed = |error: Error| unread(&name(path), error);
        // Only a regular file has a length; whatever else the path is, it is opened once.
        let length = std::fs::metadata(path).ok().filter(|data| data.is_file()).map(|data| data.len());
        if let Some(length) = length
            && let Ok(file) = File::open(path)
        {
            let read = Arc::new(AtomicU64::new(0));
            let counted = Counted { file, read: read.clone() };
            let reader = snag_formats::read_within(context.memory, counted, format, Some(path)).map_err(failed)?;
            return Ok(Source { bytes: Some((length, read)), ..Source::new(&name(path), reader) });
        }
        let reader = match Patient::is_for(path) {
            false => snag_formats::open_within(context.memory, path, format),
            true => {
                let shown = if path == Path::new("-") { Path::new("standard input") } else { path };
                let cannot = |error: io::Error| Error::new(Position::Whole, format!("cannot open: {error}"));
                let input = Patient::open(path).map_err(cannot);
                input.and_then(|input| snag_formats::read_within(context.memory, input, format, Some(shown)))
            }
        };
        let reader = reader.map_err(|error| match interrupt::asked() {
            true => unread(&name(path), Error::new(Position::Whole, INTERRUPTED)),
            false => failed(error),
        })?;
        Ok(Source::new(&name(path), reader))
    }

    /// Opens what other threads can interfere with in a recording that says what that is: also the numbers that these events have
    /// in it, and how many it has.
    pub fn open_contended(context: &Context, path: &Path) -> Option<(Source, Numbers, u64)> {
        let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|data| data.is_file()))?;
        // What is wrong with the file is said by those who read all of it.
        let contended = Contended::open(BufReader::with_capacity(1 << 16, file)).ok().flatten()?;
        let (numbers, whole) = (contended.numbers(), contended.whole());
        let reader = TraceReader::new(Box::new(contended), Some(path)).within(Room::new(context.memory));
        Some((Source::new(&name(path), reader), numbers, whole))
    }

    /// A trace that comes from elsewhere.
    pub fn new(name: &str, reader: TraceReader) -> Source {
        Source {
            name: name.to_owned(),
            reader,
            bytes: None,
            again: false,
            regardless: false,
            until: None,
            cut_short: false,
        }
    }

    /// Whether it is a file, which can be read again.
    pub fn is_file(&self) -> bool {
        self.bytes.is_some()
    }

    /// Does not repeat what was said when it was read before.
    pub fn again(self) -> Source {
        Source { again: true, ..self }
    }

    /// Reads on for a moment even if the user wants to stop: what was found is to be proved.
    pub fn regardless(self) -> Source {
        Source { regardless: true, ..self }
    }

    /// Reads no longer than that: what was read by then must do.
    pub fn until(self, until: Option<Instant>) -> Source {
        Source { until, ..self }
    }

    /// Whether reading ended before the end for want of time.
    pub fn is_cut_short(&self) -> bool {
        self.cut_short
    }

    /// How many bytes of the file were not read, if it is one.
    pub fn unread_bytes(&self) -> Option<u64> {
        self.bytes.as_ref().map(|(length, read)| length.saturating_sub(read.load(Ordering::Relaxed)))
    }

    /// Leaves missing methods with their arguments, for writing them again.
    pub fn for_writing(self) -> Source {
        Source { reader: self.reader.as_written(), ..self }
    }

    /// Whether the trace was found to be cut off.
    pub fn is_cut_off(&self) -> bool {
        self.reader.is_cut_off()
    }

    /// The names of what was read so far.
    pub fn tables(&self) -> &Tables {
        &self.reader.tables
    }

    /// Reads all of it, block by block.
    pub fn stream(
        &mut self,
        context: &Context,
        phase: &str,
        mut each: impl FnMut(&Events, &Tables) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut block = Events::new();
        self.watch(context, phase, |reader| {
            let more = reader.next_block(&mut block).map_err(Stop::Trace)?;
            if !block.is_empty() {
                each(&block, &reader.tables).map_err(Stop::Other)?;
            }
            Ok((more, block.first + block.len()))
        })
        .map_err(|stop| match stop {
            Stop::Trace(error) => message(&unread(&self.name, error)),
            Stop::Other(failure) => failure,
        })
    }

    /// Reads all of it into memory.
    pub fn read(self, context: &Context) -> Result<Trace, Unread> {
        self.read_noting(context).map(|(trace, _)| trace)
    }

    /// The same, and whether the recording is whole: not cut off.
    pub fn read_noting(mut self, context: &Context) -> Result<(Trace, bool), Unread> {
        let (events, _) = self.read_beginning(context, usize::MAX)?;
        Ok(self.into_trace(events))
    }

    /// What was read by [`Source::read_beginning`] as a trace, and whether the recording is whole.
    pub fn into_trace(self, events: Events) -> (Trace, bool) {
        let whole = !self.reader.is_cut_off() && !self.cut_short;
        (Trace { tables: self.reader.tables, events }, whole)
    }

    /// Reads into memory until there are at least so many events, and says whether there may be more.
    pub fn read_beginning(&mut self, context: &Context, enough: usize) -> Result<(Events, bool), Unread> {
        let started = Instant::now();
        let (mut events, mut more) = (Events::new(), true);
        self.watch::<std::convert::Infallible>(context, "reading", |reader| {
            more = reader.append_block(&mut events).map_err(Stop::Trace)?;
            Ok((more && events.len() < enough, events.len()))
        })
        .map_err(|Stop::Trace(error)| unread(&self.name, error))?;
        if self.cut_short && events.is_empty() && interrupt::asked() {
            return Err(unread(&self.name, Error::new(Position::Whole, INTERRUPTED)));
        }
        let seconds = started.elapsed().as_secs_f64();
        context.detail(&format!("{}: read {} events in {seconds:.2} s", self.name, events.len()));
        Ok((events, more))
    }

    /// Reads all that is left, block by block, without keeping it.
    pub fn pass(
        &mut self,
        context: &Context,
        phase: &str,
        mut each: impl FnMut(&Events, &Tables),
    ) -> Result<(), Unread> {
        let started = Instant::now();
        let mut block = Events::new();
        let mut events = 0;
        self.watch::<std::convert::Infallible>(context, phase, |reader| {
            let more = reader.next_block(&mut block).map_err(Stop::Trace)?;
            each(&block, &reader.tables);
            events = block.first + block.len();
            Ok((more, events))
        })
        .map_err(|Stop::Trace(error)| unread(&self.name, error))?;
        let seconds = started.elapsed().as_secs_f64();
        context.detail(&format!("{}: {phase}, up to event {events}: {seconds:.2} s", self.name));
        Ok(())
    }

    /// The names of what was read, and whether the recording is whole.
    pub fn into_tables(self) -> (Tables, bool) {
        let whole = !self.reader.is_cut_off();
        (self.reader.tables, whole)
    }

    fn is_out_of_time(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
            || interrupt::since().is_some_and(|since| since > HURRY)
            || interrupt::is_enough() && !self.regardless
    }

    /// Repeats a step, which tells whether there is more and how many events were read.
    fn watch<E>(
        &mut self,
        context: &Context,
        phase: &str,
        mut step: impl FnMut(&mut TraceReader) -> Result<(bool, usize), Stop<E>>,
    ) -> Result<(), Stop<E>> {
        let bars = context.bars();
        bars.phase(phase, self.bytes.as_ref().map_or(0, |bytes| bytes.0));
        let result = loop {
            let step = step(&mut self.reader);
            if interrupt::interrupted() && !interrupt::is_enough() && !self.regardless {
                // Also at the end: the interrupt may have ended whoever fed us, too.
                let message = match phase {
                    "reading" | "reading again" => INTERRUPTED.to_owned(),
                    _ => format!("interrupted while {phase}"),
                };
                break Err(Stop::Trace(Error::new(Position::Whole, message)));
            }
            // An interrupt may have ended whoever feeds us, too, in the middle of whatever it was about to say.
            let is_stopped = !self.is_file() && interrupt::asked();
            match step {
                Ok((false, _)) | Err(Stop::Trace(_)) if is_stopped => {
                    self.cut_short = true;
                    break Ok(());
                }
                Ok((true, _)) if self.is_out_of_time() => {
                    self.cut_short = true;
                    break Ok(());
                }
                Ok((true, events)) => match &self.bytes {
                    Some((_, read)) => bars.advance(read.load(Ordering::Relaxed)),
                    None => bars.advance(events as u64),
                },
                Ok((false, _)) => break Ok(()),
                Err(stop) => break Err(stop),
            }
        };
        bars.clear();
        let lost = self.reader.is_cut_off();
        for warning in self.reader.take_warnings().into_iter().filter(|_| !self.again) {
            let warning = format!("{}: {warning}", self.name);
            // Who wants findings only must know all the same that some may be missing.
            if lost { context.insist(&warning) } else { context.warn(&warning) }
        }
        result
    }
}

/// Why reading stopped: the trace, or something else.
enum Stop<E> {
    Trace(Error),
    Other(E),
}

/// A trace as messages and reports name it.
pub fn name(path: &Path) -> String {
    temporary::name(path)
}

/// The error in two parts, for reports that list what they lack.
pub fn unread(name: &str, error: Error) -> Unread {
    let message = match error.position {
        Position::Whole => error.message,
        position => format!("{position}: {}", error.message),
    };
    Unread { path: name.to_owned(), message }
}

/// The same in one.
pub fn message(problem: &Unread) -> Failure {
    Failure::Message(format!("{}: {}", problem.path, problem.message))
}
