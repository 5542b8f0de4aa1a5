//! Waiting: for the token, and for what another thread does.

use crate::base::c;
use crate::base::thread::{State, Thread};
use crate::interpose::signals::{self, WhileBlocked};
use crate::scheduler::dispatch::{SCHEDULER, end_turn_early, following, sleepers};
use crate::scheduler::free_running::is_free;
use crate::scheduler::lifetime::await_leaving;
use crate::scheduler::recording::is_on;
use crate::scheduler::token::regain;
use crate::scheduler::wipe::wipe;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// A clock and a time on it, in nanoseconds.
pub type Deadline = Option<(c_int, u64)>;

/// Waits for the token, at most until the deadline if the thread is blocked.
pub fn wait_for_token(thread: &'static Thread, mut deadline: Deadline) {
    if is_free() {
        // Turns are short.
        let mut patience = 200;
        while patience > 0 && !thread.go.is_there() {
            core::hint::spin_loop();
            patience -= 1;
        }
    }
    loop {
        if thread.go.take() || !is_on() {
            return await_leaving();
        }
        if signals::pending(thread) != 0 {
            leave_for_signal(thread);
        }
        let left = deadline.map(|(clock, at)| at.saturating_sub(c::now(clock)));
        if left != Some(0) {
            // Clocks can be set: look again from time to time.
            thread.go.sleep(sleepers(), left.unwrap_or(u64::MAX).min(1_000_000_000));
            continue;
        }
        deadline = None;
        let mut scheduler = SCHEDULER.lock();
        // In a replay the schedule says who times out.
        if thread.is(State::Blocked) && !following() {
            thread.timed_out.set(true);
            scheduler.resume(thread);
        }
    }
}

/// If it is blocked, the thread gets a turn for the handler of a signal.
fn leave_for_signal(thread: &'static Thread) {
    let mut scheduler = SCHEDULER.lock();
    if thread.is(State::Blocked) && thread.while_blocked.get() != WhileBlocked::Defer {
        thread.signalled.set(true);
        scheduler.resume(thread);
    }
}

/// Runs handlers of signals in the middle of an operation that had to wait.
fn handle_signals(thread: &'static Thread) {
    // They may wait for something, too.
    let retries = thread.retries.replace(false);
    let depth = thread.inside.replace(0);
    let fails = signals::deliver(thread);
    thread.inside.set(depth);
    thread.retries.set(retries);
    regain(thread);
    thread.signalled.set(true);
    thread.fails.set(fails);
    thread.interrupted.set(false);
    thread.timed_out.set(false);
    thread.notified_by.set(0);
}

/// Waits until `wake` is called for the key, or until the deadline. Returns whether it timed out.
pub fn block(thread: &'static Thread, key: usize, deadline: Deadline) -> bool {
    block_as(thread, key, deadline, false)
}

/// The same at a cancellation point: it also ends, as `interrupted`, when the thread is to be cancelled.
pub fn block_cancellable(thread: &'static Thread, key: usize, deadline: Deadline) -> bool {
    block_as(thread, key, deadline, true)
}

fn block_as(thread: &'static Thread, key: usize, deadline: Deadline, cancellable: bool) -> bool {
    let mut scheduler = SCHEDULER.lock();
    // A signal handler may block inside a call.
    let outside = thread.cancellable.replace(cancellable);
    thread.interrupted.set(false);
    thread.signalled.set(false);
    thread.key.set(key);
    thread.timed.set(deadline.is_some());
    thread.timed_out.set(false);
    thread.was_blocked.set(true);
    thread.notified_by.set(0);
    scheduler.block(thread);
    thread.doing.get().at(key).tell(true);
    scheduler.end_turn(thread);
    scheduler.dispatch();
    drop(scheduler);
    wait_for_token(thread, deadline);
    if !is_on() {
        SCHEDULER.lock().unblock(thread);
    }
    thread.cancellable.set(outside);
    if thread.signalled.get() && is_on() && thread.while_blocked.get() == WhileBlocked::Handle {
        handle_signals(thread);
    }
    wipe();
    thread.timed_out.get()
}

/// What threads wait for that wait for nothing.
const RESTING: usize = 0x3000_0000_0000_0010;

/// Lets go of the token for some time, in nanoseconds. If another thread can run by then, this one waits for its turn.
pub fn rest(thread: &'static Thread, time: u64) {
    let mut scheduler = SCHEDULER.lock();
    thread.key.set(RESTING);
    thread.timed.set(true);
    scheduler.block(thread);
    scheduler.end_turn(thread);
    scheduler.dispatch();
    drop(scheduler);
    wait_for_token(thread, Some((c::CLOCK_MONOTONIC, c::now(c::CLOCK_MONOTONIC) + time)));
    if !is_on() {
        SCHEDULER.lock().unblock(thread);
    }
}

/// Wakes a thread that is to be cancelled, if it is blocked where it can be.
pub fn interrupt(thread: &'static Thread) {
    let mut scheduler = SCHEDULER.lock();
    if thread.is(State::Blocked) && thread.cancellable.get() && !thread.cancel_disabled.get() {
        thread.interrupted.set(true);
        scheduler.resume(thread);
    }
}

/// Does something with a thread, which cannot end meanwhile.
pub fn if_alive(thread: &Thread, work: impl FnOnce(&Thread)) {
    let _scheduler = SCHEDULER.lock();
    if !thread.is(State::Dead) && thread.kernel.load(Relaxed) != 0 {
        work(thread);
    }
}

/// Makes up to `most` threads that wait for the key runnable; `notify` is what woke them. Returns how many there were.
pub fn wake(key: usize, most: usize, notify: u64) -> usize {
    let (woken, starving) = SCHEDULER.lock().wake(key, most, notify);
    // Otherwise the holder might take the lock again and again, and hold it whenever a turn ends.
    if starving {
        end_turn_early();
    }
    wipe();
    woken
}

/// See [`crate::scheduler::dispatch::Scheduler::retry_locks`].
pub fn retry_locks() {
    SCHEDULER.lock().retry_locks();
}

/// The number of the last notification.
static NOTIFIES: AtomicU64 = AtomicU64::new(0);

/// A number for the next notification.
pub fn next_notify() -> u64 {
    NOTIFIES.fetch_add(1, Relaxed) + 1
}
