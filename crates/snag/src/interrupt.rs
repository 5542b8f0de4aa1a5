//! Ctrl-C: the first one asks the work to stop, so that what was found until then
//! is reported; the second one ends the program.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// A program that we started has the terminal, and Ctrl-C is for it.
static LEFT_TO_PROGRAM: AtomicBool = AtomicBool::new(false);
static LISTENING: AtomicBool = AtomicBool::new(false);
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The status of a program that a second Ctrl-C ended.
const KILLED: i32 = 130;

/// From now on Ctrl-C is handled here.
pub fn listen() -> Result<(), String> {
    if LISTENING.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let handle = || {
        if LEFT_TO_PROGRAM.load(Ordering::SeqCst) {
            return;
        }
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            if let Ok(mut path) = UNFINISHED.try_lock()
                && let Some(path) = path.take()
            {
                let _ = std::fs::remove_file(path);
            }
            std::process::exit(KILLED);
        }
        eprintln!("snag: interrupted; reporting what was found so far (again to end at once)");
    };
    ctrlc::set_handler(handle).map_err(|error| format!("cannot handle interrupts: {error}"))
}

/// While a program runs that we started, Ctrl-C is for it: it ends or not, and we go on with what it did.
pub fn leave_to_program(running: bool) {
    LEFT_TO_PROGRAM.store(running, Ordering::SeqCst);
}

/// Whether the user wants to stop.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// A file to be removed if the program ends at once; `None` if there is none any more.
pub fn set_unfinished(path: Option<PathBuf>) {
    if let Ok(mut unfinished) = UNFINISHED.lock() {
        *unfinished = path;
    }
}
