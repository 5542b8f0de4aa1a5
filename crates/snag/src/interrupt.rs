//! Ctrl-C, and the signals by which others ask a program to end (SIGTERM, SIGHUP): the first one asks the work to stop,
//! so that what was found until then is reported and nothing half done stays behind; the second one ends the program.
//!
//! A program that we run gets the signal, too, and a moment to end; then it is killed, with all that it has started. What was
//! recorded of it is analysed for as long as there is time.

use crate::processes::{self, Which};
use crate::say;
use crate::signals::{self, Signal};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The first signal, and when it came.
static ASKED: OnceLock<(Signal, Instant)> = OnceLock::new();
/// What follows from the first signal is arranged.
static NOTED: AtomicBool = AtomicBool::new(false);
/// What is being done is to stop.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// What is being done, see [`Doing`].
static DOING: AtomicUsize = AtomicUsize::new(0);
/// Whose processes are to be gone in the end; none before a program was started.
static STARTED: AtomicUsize = AtomicUsize::new(0);
/// The program that we run has got the signal.
static PASSED_ON: AtomicBool = AtomicBool::new(false);
/// Until when a trace is read, and until when what was read of it is analysed.
static ENOUGH: OnceLock<[Instant; 2]> = OnceLock::new();
static LISTENING: AtomicBool = AtomicBool::new(false);
/// What the command does once it is interrupted.
static CONSEQUENCE: AtomicUsize = AtomicUsize::new(0);
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A program has so long to end by itself.
const GRACE: Duration = Duration::from_millis(600);
/// Reading and analysing what was recorded are over so long after the signal, unless the program took so long to end that
/// there is [`AT_LEAST`] for them. Reading takes about a third of the time that the quickest engine takes, so it gets one part of
/// four.
const ANALYSED: Duration = Duration::from_millis(900);
const AT_LEAST: Duration = Duration::from_millis(300);
const PARTS: u32 = 4;
/// Two signals of one sender this close are one: `timeout` sends its own to us, and to the group that we are in.
const AT_ONCE: Duration = Duration::from_millis(50);
/// A signal that has come is noted by then, unless something is badly wrong.
const TO_NOTE: Duration = Duration::from_millis(500);

/// What comes of an interrupt.
#[derive(Clone, Copy)]
pub enum Then {
    /// What was found until then is reported.
    Report,
    /// A file was to be written, and there is none.
    WriteNothing,
    /// It just ends.
    End,
    /// What was recorded until then is kept.
    KeepRecording,
}

/// What can be interrupted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Work of our own, that stops when asked.
    Work,
    /// A program runs that we have started.
    Program,
    /// A compiler runs that we have started.
    Build,
    /// A trace is read that nobody has looked at yet: enough of it is read to have something to report.
    Reading,
}

/// From now on interrupts are handled here.
pub fn listen(then: Then) -> Result<(), String> {
    CONSEQUENCE.store(then as usize, Ordering::SeqCst);
    if LISTENING.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    signals::receive(handle)
}

/// Runs in a thread of its own.
fn handle(signal: Signal) {
    if let Some((first, came)) = ASKED.get() {
        if signal.sender != first.sender || came.elapsed() >= AT_ONCE {
            end_at_once(signal);
        }
        return;
    }
    let _ = ASKED.set((signal, Instant::now()));
    let doing = DOING.load(Ordering::SeqCst);
    let runs_program = doing == Doing::Program as usize || doing == Doing::Build as usize;
    // Before it is said: whoever reads that may end what we read from, and an end must not be taken for that of the trace.
    if !runs_program && doing != Doing::Reading as usize {
        INTERRUPTED.store(true, Ordering::SeqCst);
    }
    if doing == Doing::Reading as usize {
        hurry();
    } else if runs_program {
        pass_on();
        later(Instant::now() + GRACE, end_programs);
    }
    NOTED.store(true, Ordering::SeqCst);
    let then = match CONSEQUENCE.load(Ordering::SeqCst) {
        n if n == Then::Report as usize => "; reporting what was found so far",
        n if n == Then::WriteNothing as usize => "; nothing is written",
        n if n == Then::KeepRecording as usize => "; what was recorded so far is kept",
        _ => "",
    };
    // Last, and without waiting: nobody may read it.
    say::soon(&format!("snag: interrupted{then} (again to end at once)"));
}

/// How long ago the user wanted to stop, if the work is to stop now.
pub fn since() -> Option<Duration> {
    ASKED.get().filter(|_| interrupted()).map(|(_, came)| came.elapsed())
}

/// Does something then, in a thread of its own; if there can be none, now.
fn later(then: Instant, what: fn()) {
    let wait = move || {
        std::thread::sleep(then.saturating_duration_since(Instant::now()));
        what();
    };
    if std::thread::Builder::new().name("interrupt".to_owned()).spawn(wait).is_err() {
        what();
    }
}

/// To the programs that run. If there are none yet, they are told when they are there.
fn pass_on() {
    if let (Some((signal, _)), Some(which)) = (ASKED.get(), started())
        && !PASSED_ON.load(Ordering::SeqCst)
        && processes::send(which, signal.number, signal.to_group) > 0
    {
        PASSED_ON.store(true, Ordering::SeqCst);
    }
}

fn started() -> Option<Which> {
    match STARTED.load(Ordering::SeqCst) {
        n if n == Doing::Program as usize => Some(Which::All),
        n if n == Doing::Build as usize => Some(Which::OfSession),
        _ => None,
    }
}

fn end_programs() {
    if let Some(which) = started() {
        processes::kill(which);
    }
}

fn end_at_once(signal: Signal) -> ! {
    end_programs();
    remove_unfinished();
    std::process::exit(128 + signal.number);
}

/// Removes files that are not finished, before the program ends at once.
pub fn remove_unfinished() {
    if let Ok(mut paths) = UNFINISHED.try_lock() {
        paths.drain(..).for_each(|path| _ = std::fs::remove_file(path));
    }
}

/// Divides the time that is left to read and analyse a trace.
fn hurry() {
    let Some((_, came)) = ASKED.get() else { return };
    let now = Instant::now();
    let stop = (*came + ANALYSED).max(now + AT_LEAST);
    if ENOUGH.set([now + (stop - now) / PARTS, stop]).is_ok() {
        later(stop, || INTERRUPTED.store(true, Ordering::SeqCst));
    }
}

/// Says what is being done from now on.
pub fn doing(what: Doing) {
    if matches!(what, Doing::Program | Doing::Build) {
        STARTED.store(what as usize, Ordering::SeqCst);
    }
    DOING.store(what as usize, Ordering::SeqCst);
    if what == Doing::Reading && asked() {
        hurry();
    }
}

/// The program has been started: it is told what came before.
pub fn program_started() {
    if asked() {
        pass_on();
    }
}

/// Whether the user wants us to end: nothing new is begun. If a signal has just come, this waits for what follows from it.
pub fn asked() -> bool {
    let came = Instant::now();
    while signals::has_come() && !NOTED.load(Ordering::SeqCst) && came.elapsed() < TO_NOTE {
        std::thread::sleep(Duration::from_millis(1));
    }
    ASKED.get().is_some()
}

/// Whether what was read of a trace must do.
pub fn is_enough() -> bool {
    ENOUGH.get().is_some_and(|[until, _]| Instant::now() >= *until)
}

/// How long a trace may be analysed, if the user wanted to stop before that began.
pub fn left() -> Option<Duration> {
    ENOUGH.get().map(|[_, stop]| stop.saturating_duration_since(Instant::now()))
}

/// Before the program ends for a defect of its own: what it runs at this moment would run on unrecorded, or wait for it for ever.
pub fn end_what_runs() {
    let doing = DOING.load(Ordering::SeqCst);
    if asked() || doing == Doing::Program as usize || doing == Doing::Build as usize {
        end_programs();
    }
}

/// At the very end: of what an interrupted command has started, nothing stays behind.
pub fn leave_nothing_behind() {
    if asked() {
        end_programs();
    }
}

/// Whether what is being done is to stop.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// A file to be removed if the program ends at once.
pub fn unfinished(path: &Path) {
    if let Ok(mut paths) = UNFINISHED.lock() {
        paths.push(path.to_owned());
    }
}

/// It is finished, or gone.
pub fn finished(path: &Path) {
    if let Ok(mut paths) = UNFINISHED.lock() {
        paths.retain(|other| other != path);
    }
}
