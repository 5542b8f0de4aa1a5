//! The token: one thread of the program runs at a time.
//!
//! The thread that holds the token runs for a number of scheduling points, and releases it at operations that block.
//! That gives one exact order of all events, exact values, and a schedule that can be run again. A *step* is a
//! scheduling point. How many steps an operation takes never depends on the schedule, so that an event can be found
//! again in another one.

use crate::base::lock::Guard;
use crate::base::record::{flush, page, put1};
use crate::base::thread::{self, State, Thread};
use crate::interpose::signals;
use crate::interpose::unseen;
use crate::scheduler::block::wait_for_token;
use crate::scheduler::dispatch::{SCHEDULER, Scheduler, following, others_wait};
use crate::scheduler::drain::is_draining;
use crate::scheduler::free_running::is_free;
use crate::scheduler::next::Next;
use crate::scheduler::observe::{self, Then};
use crate::scheduler::patience;
use crate::scheduler::recording::is_on;
use crate::scheduler::wipe::wipe;
use crate::wire::{self, op};
use core::sync::atomic::{AtomicUsize, Ordering::*};

/// Nothing is recorded: not yet, or no longer.
pub const OFF: usize = 1;
/// The watchdog looks whether it may take the token away.
pub const TAKEN: usize = 2;
/// Nobody holds the token. Not 0: that is the address of the current thread where it is unknown.
pub const NOBODY: usize = 3;
/// Added to the holder while its accesses are ignored.
pub const IGNORING: usize = 1 << 63;
/// Added to the holder where threads run freely, so that the fast path of accesses is never taken.
pub const FREE_RUNNING: usize = 1 << 62;

#[repr(align(64))]
pub struct Holder(pub AtomicUsize);

/// The address of the thread that holds the token, or one of the above.
pub static HOLDER: Holder = Holder(AtomicUsize::new(OFF));

/// Whether a thread holds the token.
pub fn is_holder(thread: &Thread) -> bool {
    HOLDER.0.load(Relaxed) & !(IGNORING | FREE_RUNNING) == thread.address()
}

/// Ends the turn at the entry of a callback, before its event, when the budget is used up.
#[cold]
#[inline(never)]
pub fn preempt(thread: &'static Thread, next: Next) {
    thread::inside(thread, || {
        page().budget.set(0);
        let then = if following() { Then::End } else { observe::next_stretch(thread) };
        // A turn in a schedule may be one of no steps.
        while page().budget.get() == 0 && is_on() {
            if then == Then::Spins && !others_wait() && observe::rests(thread) {
                continue;
            }
            let mut scheduler = SCHEDULER.lock();
            next.tell(false);
            if others_wait() {
                let_others_run(scheduler, thread, then == Then::Spins);
            } else {
                scheduler.end_turn(thread);
                scheduler.begin_turn(thread);
            }
        }
        page().budget.subtract(1);
    });
    wipe();
    if thread.pending_signals.load(Relaxed) != 0 {
        signals::deliver(thread);
    }
}

/// Gives the turn away, also because the thread waits for what another one does.
pub(super) fn let_others_run(mut scheduler: Guard<Scheduler>, thread: &'static Thread, waits: bool) {
    thread.set(State::Runnable);
    scheduler.end_turn(thread);
    if waits {
        patience::waits(thread);
    }
    scheduler.queue(thread);
    scheduler.dispatch();
    drop(scheduler);
    wait_for_token(thread, None);
}

/// Lets another thread run, if one waits for the token: this one waits for what others do.
pub fn yield_now(thread: &'static Thread) {
    let scheduler = SCHEDULER.lock();
    if others_wait() {
        let_others_run(scheduler, thread, true);
    } else {
        drop(scheduler);
    }
    wipe();
}

/// Lets another thread run without a step, if one waits, and comes back with the token.
pub fn stand_aside(thread: &'static Thread) {
    flush();
    let mut scheduler = SCHEDULER.lock();
    if others_wait() && !following() && !is_draining() {
        // It waits for one of the others, probably.
        thread.set(State::Runnable);
        scheduler.end_turn(thread);
        scheduler.dispatch();
        scheduler.queue(thread);
        drop(scheduler);
        wait_for_token(thread, None);
        wipe();
    } else {
        drop(scheduler);
        yield_now(thread);
    }
}

/// Releases the token before something that may block.
pub fn release(thread: &Thread) {
    flush();
    let mut scheduler = SCHEDULER.lock();
    thread.set(State::External);
    scheduler.end_turn(thread);
    scheduler.dispatch();
    drop(scheduler);
    wipe();
}

/// Takes the token again.
pub fn acquire(thread: &'static Thread) {
    if is_free() {
        thread.own.end_ranges();
        thread.own.flush();
    }
    SCHEDULER.lock().make_runnable(thread);
    wait_for_token(thread, None);
    wipe();
}

/// Calls the C library in the middle of an operation. If the call has to wait, say for a lock of the dynamic linker,
/// the watchdog may take the token away; afterwards the thread has it again.
pub fn lend<R>(thread: &'static Thread, work: impl FnOnce() -> R) -> R {
    thread.lends.set(true);
    let result = work();
    thread.lends.set(false);
    regain(thread);
    result
}

/// Waits while the watchdog decides who holds the token, which takes a few system calls.
#[inline]
pub fn await_decision() {
    while HOLDER.0.load(Acquire) == TAKEN {
        core::hint::spin_loop();
    }
}

/// Takes the token again if the watchdog took it away, or the thread released it.
pub fn regain(thread: &'static Thread) {
    await_decision();
    if is_on() && HOLDER.0.load(Acquire) & !(IGNORING | FREE_RUNNING) != thread.address() {
        acquire(thread);
    }
}

/// Takes the token for an access of a thread that does not hold it. Returns the thread if its access counts.
#[cold]
#[inline(never)]
pub fn not_holder() -> Option<&'static Thread> {
    let thread = thread::current().filter(|thread| is_on() && thread.is_outside())?;
    if HOLDER.0.load(Acquire) == thread.address() | IGNORING || is_free() && thread.ignoring.get() > 0 {
        return None;
    }
    thread::inside(thread, || regain(thread));
    (is_on() && thread.ignoring.get() == 0).then_some(thread)
}

/// Takes the token for an operation of a thread that does not hold it, or whose accesses are ignored: synchronisation
/// counts anyway. Returns the thread if it holds the token now.
#[cold]
#[inline(never)]
fn come_in() -> Option<&'static Thread> {
    let thread = thread::current().filter(|thread| is_on() && thread.is_outside())?;
    thread::inside(thread, || regain(thread));
    is_on().then_some(thread)
}

/// The current thread, if it holds the token and its accesses are not ignored.
#[inline(always)]
pub fn holder() -> Option<&'static Thread> {
    thread::current().filter(|thread| HOLDER.0.load(Relaxed) == thread.address())
}

/// Enters an operation that is no plain access, which takes a step. Returns the current thread, which holds the token
/// from here on; `None` if its event does not count.
pub fn enter(next: Next) -> Option<&'static Thread> {
    let thread = holder().or_else(come_in)?;
    if !thread.is_outside() {
        return None;
    }
    unseen::record();
    step(thread, next);
    if thread.pending_signals.load(Relaxed) != 0 {
        signals::deliver(thread);
        // A free-running handler may have released it.
        if is_free() {
            thread::inside(thread, || regain(thread));
        }
    }
    Some(thread)
}

/// Takes another step of the holder's current operation.
pub fn step(thread: &'static Thread, next: Next) {
    thread.doing.set(next);
    flush();
    page().budget.subtract(1);
    if page().budget.get() < 0 {
        preempt(thread, next);
    }
    put1(wire::head(op::STEP, 0, 0));
}
