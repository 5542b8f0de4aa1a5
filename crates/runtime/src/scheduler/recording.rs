//! Whether anything is recorded: from the program's start until it ends, or something comes up that cannot be recorded.

use crate::base::messages::say;
use crate::base::shared::{header, segments};
use crate::base::thread::{self, State, Thread};
use crate::scheduler::dispatch::SCHEDULER;
use crate::scheduler::free_running::{FREE, is_free};
use crate::scheduler::token::{FREE_RUNNING, HOLDER, OFF};
use core::sync::atomic::{AtomicBool, Ordering::*};

/// Never true again once it was turned off.
static ON: AtomicBool = AtomicBool::new(false);

#[inline]
pub fn is_on() -> bool {
    ON.load(Relaxed)
}

/// Starts recording. The first thread holds the token.
pub fn start(first: &'static Thread) {
    FREE.store(header().free != 0, Relaxed);
    let mut scheduler = SCHEDULER.lock();
    scheduler.prepare(header().seed, !segments().is_empty());
    first.set(State::Running);
    ON.store(true, Release);
    scheduler.begin_turn(first);
    HOLDER.0.store(first.address() | if is_free() { FREE_RUNNING } else { 0 }, Release);
}

/// Ends recording; the program continues unrecorded.
#[cold]
pub fn give_up(why: &str) {
    if end() {
        say(&[why]);
    }
}

/// The same, where the tool tells the user why.
#[cold]
pub fn give_up_because_of(trouble: u32) {
    header().trouble.store(trouble, Release);
    end();
}

/// Ends recording. Returns false if it had already ended.
fn end() -> bool {
    if !ON.swap(false, AcqRel) {
        return false;
    }
    HOLDER.0.store(OFF, Release);
    thread::all().iter().for_each(|thread| thread.go.let_go());
    true
}

/// Ends recording if all threads have ended, so that the program can end. Returns whether they have.
pub fn end_with_last() -> bool {
    let _scheduler = SCHEDULER.lock();
    let over = thread::all().iter().all(|thread| thread.is(State::Dead));
    if over {
        ON.store(false, Release);
        HOLDER.0.store(OFF, Release);
    }
    over
}

/// The child of a fork has one thread and is not recorded.
pub fn forget_in_child() {
    ON.store(false, Relaxed);
    HOLDER.0.store(OFF, Relaxed);
}
