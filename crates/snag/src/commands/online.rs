//! `snag check --online`: a stream that may never end. One thread reads, another one analyses.

use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::patient::{Came, Patient};
use crate::{input, interrupt};
use snag_formats::compression::Compression;
use snag_formats::{Format, Position, TraceReader};
use snag_model::Events;
use snag_pipeline::online::{ENGINE, Online, Unproved};
use snag_pipeline::{Analysis, EngineReport, Left, Subject, peak_memory};
use snag_report::live::{Live, Summary};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// What the user asked for.
pub struct Wishes {
    /// Events that the window has at least.
    pub window: usize,
    /// At most so many findings.
    pub most: usize,
    /// List what was not proved.
    pub candidates: bool,
}

/// Analyses a stream until it ends or the user interrupts.
pub fn run(context: &Context, path: &Path, wishes: &Wishes, report: &mut dyn Live) -> Result<Status, Failure> {
    interrupt::listen(interrupt::Then::Report)?;
    let name = input::name(path);
    let started = Instant::now();
    let mut online = Online::new(wishes.window, wishes.most);
    let (bytes, stream) =
        Bytes::open(path).map_err(|error| format!("{name}: cannot open: {}", snag_formats::why(&error)))?;
    let mut first_event = None;
    let mut cut_off = false;
    let (problem, mut tables) = match snag_formats::read_within(context.memory, bytes, None, None) {
        Err(error) => ((!interrupt::interrupted()).then_some(error), Default::default()),
        Ok(mut reader) => {
            let problem = follow(&mut reader, &mut online, report, &stream, &mut first_event)?;
            cut_off = reader.is_cut_off();
            for warning in reader.take_warnings() {
                let warning = format!("{name}: {warning}");
                if cut_off { context.insist(&warning) } else { context.warn(&warning) }
            }
            (problem, reader.tables)
        }
    };
    let proved = online.prove(&mut tables, true);
    for race in &proved {
        report.race(race, &tables).map_err(|error| Failure::from(error).with_status(Status::Found))?;
    }
    // A producer that was stopped in the middle of a line has still said all that is before it.
    let cut = stream.ended.load(Ordering::Acquire) == CUT || interrupt::interrupted() || cut_off;
    let inside = problem.as_ref().is_some_and(|problem| stream.ends_inside(problem.position)) && online.events > 0;
    let problem = problem.map(|problem| input::unread(&name, problem));
    let unproved: Vec<Unproved> = std::mem::take(&mut online.unproved).into_values().collect();
    let listed = online.proved + unproved.len() as u64;
    let seconds = started.elapsed().as_secs_f64();
    let busy = first_event.map_or(seconds, |first: Instant| first.elapsed().as_secs_f64());
    let engine = EngineReport {
        engine: ENGINE,
        beyond: None,
        seconds,
        events_per_second: online.events as f64 / busy.max(1e-9),
        peak_memory_bytes: peak_memory(),
        warnings: listed,
        location_pairs: listed,
        complete: online.complete && problem.is_none() && !cut,
        reduction: None,
        searches: Some(online.searches()),
    };
    let mut analysis = Analysis::default();
    let mut leave = |what: Subject, reason: &str| {
        let reason = reason.to_owned();
        analysis.left.push(Left { engine: ENGINE, what, reason, count: 1 });
    };
    if !online.complete {
        leave(Subject::LocationPair, "too many at once, or too many in all");
    }
    if problem.is_some() || cut {
        leave(Subject::Event, "the stream was cut off");
    }
    let status = if online.proved > 0 { Status::Found } else { Status::Clean };
    let summary = Summary {
        tables: &tables,
        events: online.events,
        report: &engine,
        analysis: &analysis,
        races: online.proved,
        unproved: &unproved,
        candidates: wishes.candidates,
        error: problem.as_ref().filter(|_| !inside),
    };
    report.finish(&summary).map_err(|error| Failure::from(error).with_status(status))?;
    match problem {
        Some(problem) => {
            let message = format!("{}: {}", problem.path, problem.message);
            match inside {
                true => context.insist(&format!("the stream ends inside an event, which is left out: {message}")),
                false => context.error(&message),
            }
            Ok(if inside { status } else { Status::Error })
        }
        None => Ok(status),
    }
}

/// Reads and analyses; what is wrong with the stream, if something is.
fn follow(
    reader: &mut TraceReader,
    online: &mut Online,
    report: &mut dyn Live,
    stream: &Stream,
    first_event: &mut Option<Instant>,
) -> Result<Option<snag_formats::Error>, Failure> {
    let mut block = Events::new();
    loop {
        // What stands before something wrong is as good as ever.
        let (more, problem) = match reader.next_block(&mut block) {
            Ok(more) => (more, None),
            Err(error) => (false, (!interrupt::interrupted()).then_some(error)),
        };
        if !block.is_empty() {
            first_event.get_or_insert_with(Instant::now);
        }
        let mut done = 0;
        while done < block.len() {
            done = online.read(&block, done, &reader.tables);
            loop {
                let must = online.must_prove();
                if !must && !online.is_due(stream.waiting.load(Ordering::Acquire) == 0) {
                    break;
                }
                for race in online.prove(&mut reader.tables, must) {
                    let status = Status::Found;
                    report.race(&race, &reader.tables).map_err(|error| Failure::from(error).with_status(status))?;
                }
            }
        }
        if !more || interrupt::interrupted() {
            return Ok(problem);
        }
    }
}

/// The stream has ended by itself behind a line, by itself elsewhere, or because the user wanted it.
const END: usize = 1;
const INSIDE: usize = 2;
const CUT: usize = 3;

/// What is known about a stream beside its bytes.
#[derive(Default)]
struct Stream {
    /// Pieces that were read and not taken yet.
    waiting: Arc<AtomicUsize>,
    ended: AtomicUsize,
    /// Line ends so far.
    lines: AtomicU64,
    /// Whether it is binary: it has no lines.
    binary: AtomicBool,
}

impl Stream {
    /// Whether an error is about a last line that has no end. Whoever wrote it may have been stopped there.
    fn ends_inside(&self, position: Position) -> bool {
        let last = self.lines.load(Ordering::Acquire) + 1;
        let text = !self.binary.load(Ordering::Acquire);
        text && self.ended.load(Ordering::Acquire) == INSIDE && position == Position::Line(last)
    }
}

/// The bytes of a stream.
struct Bytes {
    input: Patient,
    begun: bool,
    stream: Arc<Stream>,
}

impl Bytes {
    fn open(path: &Path) -> io::Result<(Bytes, Arc<Stream>)> {
        let input = Patient::open(path)?;
        let stream = Arc::new(Stream { waiting: input.waiting(), ..Stream::default() });
        Ok((Bytes { input, begun: false, stream: stream.clone() }, stream))
    }

    /// Notes what a piece says of the stream.
    fn look(&mut self) {
        let (piece, stream) = (self.input.piece(), &self.stream);
        if !std::mem::replace(&mut self.begun, true) {
            let plain = matches!(Compression::of_bytes(piece), Ok(None));
            stream.binary.store(!plain || Format::of_bytes(piece) == Format::Snag, Ordering::Release);
        }
        let lines = piece.iter().filter(|&&byte| byte == b'\n').count();
        stream.lines.fetch_add(lines as u64, Ordering::AcqRel);
    }
}

impl Read for Bytes {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.input.is_used() {
            let ended = match self.input.next_piece()? {
                Came::Piece => {
                    self.look();
                    continue;
                }
                Came::Interrupt => CUT,
                Came::End if self.input.piece().last().is_some_and(|&byte| byte != b'\n') => INSIDE,
                Came::End => END,
            };
            self.stream.ended.store(ended, Ordering::Release);
            return Ok(0);
        }
        Ok(self.input.copy_into(out))
    }
}
