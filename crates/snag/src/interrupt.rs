//! Ctrl-C, and the signals by which others ask a program to end (SIGTERM, SIGHUP): the first one asks the work to stop,
//! so that what was found until then is reported and nothing half done stays behind; the second one ends the program.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// A program that we started has the terminal, and Ctrl-C is for it.
static LEFT_TO_PROGRAM: AtomicBool = AtomicBool::new(false);
/// Its process, if it has been started: what does not come from the terminal has to be passed on.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// A signal that came for it before it was started.
static EARLY: AtomicI32 = AtomicI32::new(0);
static LISTENING: AtomicBool = AtomicBool::new(false);
/// What the command does once it is interrupted.
static CONSEQUENCE: AtomicUsize = AtomicUsize::new(0);
/// When the first one came.
static SINCE: OnceLock<Instant> = OnceLock::new();
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The status of a program that a second Ctrl-C ended.
const KILLED: i32 = 130;

/// What comes of an interrupt.
#[derive(Clone, Copy)]
pub enum Then {
    /// What was found until then is reported.
    Report,
    /// A file was to be written, and there is none.
    WriteNothing,
    /// It just ends.
    End,
}

/// From now on interrupts are handled here.
pub fn listen(then: Then) -> Result<(), String> {
    CONSEQUENCE.store(then as usize, Ordering::SeqCst);
    if LISTENING.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    ctrlc::set_handler(handle).map_err(|error| format!("cannot handle interrupts: {error}"))?;
    #[cfg(unix)]
    others::listen();
    Ok(())
}

/// Runs in a thread of its own.
fn handle() {
    if LEFT_TO_PROGRAM.load(Ordering::SeqCst) {
        return;
    }
    if INTERRUPTED.swap(true, Ordering::SeqCst) {
        remove_unfinished();
        std::process::exit(KILLED);
    }
    SINCE.get_or_init(Instant::now);
    let then = match CONSEQUENCE.load(Ordering::SeqCst) {
        n if n == Then::Report as usize => "; reporting what was found so far",
        n if n == Then::WriteNothing as usize => "; nothing is written",
        _ => "",
    };
    eprintln!("snag: interrupted{then} (again to end at once)");
}

/// How long ago the user wanted to stop, if so.
pub fn since() -> Option<Duration> {
    SINCE.get().filter(|_| interrupted()).map(Instant::elapsed)
}

/// Removes files that are not finished, before the program ends at once.
pub fn remove_unfinished() {
    if let Ok(mut paths) = UNFINISHED.try_lock() {
        paths.drain(..).for_each(|path| _ = std::fs::remove_file(path));
    }
}

/// While a program runs that we started, Ctrl-C is for it: it ends or not, and we go on with what it did.
pub fn leave_to_program(running: bool) {
    PROGRAM.store(0, Ordering::SeqCst);
    EARLY.store(0, Ordering::SeqCst);
    LEFT_TO_PROGRAM.store(running, Ordering::SeqCst);
}

/// The program has been started as this process.
pub fn program_is(process: u32) {
    PROGRAM.store(i32::try_from(process).unwrap_or(0), Ordering::SeqCst);
    #[cfg(unix)]
    others::send_early();
}

/// Whether the user wants to stop.
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

/// SIGTERM and SIGHUP. They come to this process alone, where Ctrl-C comes to the program that it runs as well.
#[cfg(unix)]
mod others {
    use super::{EARLY, Ordering, PROGRAM};

    pub fn listen() {
        for signal in [libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: all zeroes is a valid sigaction, and the handler only calls what handlers may call.
            unsafe {
                let mut now: libc::sigaction = std::mem::zeroed();
                let known = libc::sigaction(signal, std::ptr::null(), &mut now) == 0;
                // Who started us under nohup wants us to go on.
                if known && now.sa_sigaction != libc::SIG_IGN {
                    let mut ours: libc::sigaction = std::mem::zeroed();
                    ours.sa_sigaction = pass_on as extern "C" fn(libc::c_int) as usize;
                    ours.sa_flags = libc::SA_RESTART;
                    libc::sigaction(signal, &ours, std::ptr::null_mut());
                }
            }
        }
    }

    /// What came before the program was there.
    pub fn send_early() {
        let (program, signal) = (PROGRAM.load(Ordering::SeqCst), EARLY.swap(0, Ordering::SeqCst));
        if program > 0 && signal > 0 {
            // SAFETY: a plain system call; the program is ours and not waited for yet.
            unsafe { libc::kill(program, signal) };
        }
    }

    /// To the program that is run, if there is one, and to the handler of Ctrl-C.
    extern "C" fn pass_on(signal: libc::c_int) {
        // SAFETY: plain system calls; whoever is interrupted finds `errno` as it was.
        unsafe {
            let errno = *libc::__errno_location();
            let program = PROGRAM.load(Ordering::SeqCst);
            match program {
                0 => EARLY.store(signal, Ordering::SeqCst),
                _ => _ = libc::kill(program, signal),
            }
            libc::raise(libc::SIGINT);
            *libc::__errno_location() = errno;
        }
    }
}
