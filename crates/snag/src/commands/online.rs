//! `snag check --online`: a stream that may never end. One thread reads, another one analyses.

use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::{input, interrupt};
use snag_predict::online::Online;
use snag_predict::{Analysis, Engine, EngineReport, Left, Subject, peak_memory};
use snag_report::live::{Live, Summary};
use snag_trace::{Events, TraceReader};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Bytes that are read at once, and how many such pieces may wait for the analysis.
const PIECE: usize = 1 << 16;
const PIECES: usize = 64;

/// How often somebody who waits for input looks whether the user wants to stop.
const PATIENCE: Duration = Duration::from_millis(20);

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
    interrupt::listen()?;
    let name = input::name(path);
    let started = Instant::now();
    let mut online = Online::new(wishes.window, wishes.most);
    let (bytes, waiting, ended) = Bytes::open(path).map_err(|error| format!("{name}: cannot open: {error}"))?;
    let mut first_event = None;
    let (problem, mut tables) = match snag_trace::read_from(bytes, None, Some(Path::new(&name))) {
        Err(error) => ((!interrupt::interrupted()).then(|| error.to_string()), Default::default()),
        Ok(mut reader) => {
            let problem = follow(&mut reader, &mut online, report, &waiting, &mut first_event)?;
            for warning in reader.take_warnings() {
                context.warn(&format!("{name}: {warning}"));
            }
            (problem, reader.tables)
        }
    };
    let proved = online.prove(&mut tables, true);
    for race in &proved {
        report.race(race, &tables).map_err(|error| Failure::from(error).with_status(Status::Found))?;
    }
    // A producer that was stopped in the middle of a line has still said all that is before it.
    let cut = ended.load(Ordering::Acquire) == CUT || interrupt::interrupted();
    let stopped_inside = ended.load(Ordering::Acquire) == INSIDE && online.events > 0;
    let seconds = started.elapsed().as_secs_f64();
    let busy = first_event.map_or(seconds, |first: Instant| first.elapsed().as_secs_f64());
    let engine = EngineReport {
        engine: Engine::Tlh2,
        beyond: None,
        seconds,
        events_per_second: online.events as f64 / busy.max(1e-9),
        peak_memory_bytes: peak_memory(),
        warnings: online.proved + online.unproved.len() as u64,
        location_pairs: online.proved + online.unproved.len() as u64,
        complete: online.complete && problem.is_none() && !cut,
        reduction: None,
        searches: Some(online.searches()),
    };
    let mut analysis = Analysis::default();
    let mut leave = |what: Subject, reason: &str| {
        let reason = reason.to_owned();
        analysis.left.push(Left { engine: Engine::Tlh2, what, reason, count: 1 });
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
        unproved: &online.unproved,
        candidates: wishes.candidates,
    };
    report.finish(&summary).map_err(|error| Failure::from(error).with_status(status))?;
    match problem {
        Some(problem) if stopped_inside => {
            context.insist(&format!("the stream ends inside an event, which is left out: {problem}"));
            Ok(status)
        }
        Some(problem) => {
            context.error(&problem);
            Ok(Status::Error)
        }
        None => Ok(status),
    }
}

/// Reads and analyses; what is wrong with the stream, if something is.
fn follow(
    reader: &mut TraceReader,
    online: &mut Online,
    report: &mut dyn Live,
    waiting: &AtomicUsize,
    first_event: &mut Option<Instant>,
) -> Result<Option<String>, Failure> {
    let mut block = Events::new();
    loop {
        let more = match reader.next_block(&mut block) {
            Ok(more) => more,
            Err(_) if interrupt::interrupted() => return Ok(None),
            Err(error) => return Ok(Some(error.to_string())),
        };
        first_event.get_or_insert_with(Instant::now);
        let mut done = 0;
        loop {
            done = online.read(&block, done, &reader.tables);
            let must = done < block.len();
            if must || online.is_due(waiting.load(Ordering::Acquire) == 0) {
                for race in online.prove(&mut reader.tables, must) {
                    let status = Status::Found;
                    report.race(&race, &reader.tables).map_err(|error| Failure::from(error).with_status(status))?;
                }
            }
            if !must {
                break;
            }
        }
        if !more || interrupt::interrupted() {
            return Ok(None);
        }
    }
}

/// The stream has ended by itself behind a line, by itself elsewhere, or because the user wanted it.
const END: usize = 1;
const INSIDE: usize = 2;
const CUT: usize = 3;

/// The bytes that another thread reads.
struct Bytes {
    pieces: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    used: usize,
    /// Pieces that were read and not taken yet.
    waiting: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Bytes {
    fn open(path: &Path) -> io::Result<(Bytes, Arc<AtomicUsize>, Arc<AtomicUsize>)> {
        let input: Box<dyn Read + Send> = match path == Path::new("-") {
            true => Box::new(io::stdin()),
            false => Box::new(File::open(path)?),
        };
        let (sender, pieces) = sync_channel(PIECES);
        let (waiting, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let bytes = Bytes { pieces, piece: Vec::new(), used: 0, waiting: waiting.clone(), ended: ended.clone() };
        let count = waiting.clone();
        // It ends with the stream, or with the program: nobody can wake it from a read.
        std::thread::Builder::new().name("reader".to_owned()).spawn(move || read_all(input, &sender, &count))?;
        Ok((bytes, waiting, ended))
    }
}

fn read_all(mut input: Box<dyn Read + Send>, sender: &SyncSender<Vec<u8>>, waiting: &AtomicUsize) {
    let mut buffer = vec![0; PIECE];
    loop {
        match input.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A stream that cannot be read on has ended.
            Ok(0) | Err(_) => return,
            Ok(count) => {
                waiting.fetch_add(1, Ordering::AcqRel);
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        }
    }
}

impl Read for Bytes {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.used == self.piece.len() {
            match self.pieces.recv_timeout(PATIENCE) {
                Ok(piece) => {
                    self.waiting.fetch_sub(1, Ordering::AcqRel);
                    (self.piece, self.used) = (piece, 0);
                }
                Err(RecvTimeoutError::Timeout) if !interrupt::interrupted() => {}
                Err(RecvTimeoutError::Timeout) => {
                    self.ended.store(CUT, Ordering::Release);
                    return Ok(0);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let inside = self.piece.last().is_some_and(|&byte| byte != b'\n');
                    self.ended.store(if inside { INSIDE } else { END }, Ordering::Release);
                    return Ok(0);
                }
            }
        }
        let count = out.len().min(self.piece.len() - self.used);
        out[..count].copy_from_slice(&self.piece[self.used..self.used + count]);
        self.used += count;
        Ok(count)
    }
}
