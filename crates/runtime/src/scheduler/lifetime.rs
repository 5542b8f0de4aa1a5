//! The first and the last turn of a thread.

use crate::base::c;
use crate::base::kernel;
use crate::base::record::{flush_what_is_there, put3};
use crate::base::thread::{State, Thread};
use crate::scheduler::block::{wait_for_token, wake};
use crate::scheduler::dispatch::SCHEDULER;
use crate::scheduler::free_running::is_free;
use crate::scheduler::token::{HOLDER, TAKEN, is_holder};
use crate::scheduler::wipe::wipe;
use crate::wire::{head, op};
use core::sync::atomic::{AtomicU32, Ordering::*};

/// The kernel's number of a thread that has had its last turn but still exists; 0 if there is none.
static LEAVING: AtomicU32 = AtomicU32::new(0);

/// Waits until a thread that had its last turn is gone: it gives its part of the heap back, and the blocks that the
/// next thread gets depend on that. Not for ever: another destructor of thread-specific data may wait for its turn.
pub fn await_leaving() {
    if is_free() {
        return;
    }
    let kernel = LEAVING.swap(0, Relaxed);
    // The first thread of a process exists as long as the process.
    if kernel == 0 || kernel == kernel::pid() {
        return;
    }
    const MOST: u64 = 100_000_000;
    let start = c::now(c::CLOCK_MONOTONIC);
    while !kernel::is_gone(kernel) && c::now(c::CLOCK_MONOTONIC) - start < MOST {
        kernel::yield_processor();
    }
}

/// Admits a thread that has just been started: it waits for the token first of all.
pub fn admit(thread: &'static Thread) {
    SCHEDULER.lock().make_runnable(thread);
    wipe();
}

/// The first turn of a thread.
pub fn first_turn(thread: &'static Thread) {
    wait_for_token(thread, None);
    wipe();
}

/// Ends the last turn of a thread.
pub fn retire(thread: &Thread) {
    wake(thread.end_key(), usize::MAX, 0);
    let mut scheduler = SCHEDULER.lock();
    LEAVING.store(thread.kernel.load(Relaxed), Relaxed);
    thread.set(State::Dead);
    scheduler.end_turn(thread);
    scheduler.dispatch();
}

/// Notes that a thread has vanished without ending: others must not wait for it. Called by the watchdog.
pub fn bury(thread: &Thread) {
    let mut scheduler = SCHEDULER.lock();
    let held = is_holder(thread);
    if held {
        HOLDER.0.store(TAKEN, SeqCst);
        flush_what_is_there();
        put3(head(op::END, 0, 0), thread.number.get() as u64, 0);
    }
    scheduler.bury(thread);
    if held {
        scheduler.end_turn(thread);
        scheduler.dispatch();
    }
    drop(scheduler);
    wake(thread.end_key(), usize::MAX, 0);
}
