//! Waiting for words that another process changes, and waking those that wait.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Waits until somebody wakes those who wait for a word, at most for a while, and not at all if it has another value.
pub fn wait(word: &AtomicU32, value: u32, patience: Duration) {
    let time = libc::timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos() as i64 };
    // SAFETY: the kernel reads the word and the time, which live until the call returns.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &time as *const _) };
}

/// Wakes all who wait for a word.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the kernel uses the address alone.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
