//! Files that somebody cuts off while we look at them: names and lines are read from memory into which programs and their libraries are
//! mapped, with all their debug information, which can be too long to be read into memory.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether a program is being recorded.
static RECORDING: AtomicBool = AtomicBool::new(false);

/// From now on what is cut off ends the recording, too. What was written of that by then can be read.
pub fn while_recording() {
    RECORDING.store(true, Relaxed);
}

/// From now on that ends this process with a word and status 2.
pub fn expect() {
    // SAFETY: all zeroes is a valid sigaction, and the handler only calls what handlers may call.
    unsafe {
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = end as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGBUS, &ours, std::ptr::null_mut());
    }
}

extern "C" fn end(_: libc::c_int) {
    const RECORDED: &str = "snag: error: a file of the program was cut off while snag was reading it; \
        the recording ends there, the program runs on unrecorded\n";
    const OTHERS: &str = "snag: error: a file was cut off while snag was reading it\n";
    let words = if RECORDING.load(Relaxed) { RECORDED } else { OTHERS };
    // SAFETY: plain system calls; the text is there.
    unsafe {
        libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len());
        libc::_exit(2);
    }
}
