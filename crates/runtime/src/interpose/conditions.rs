//! Condition variables.
//!
//! Threads wait in the scheduler: the real condition variable never has a waiter, and the runtime looks only at its
//! attributes. If it is shared with other processes, threads wait in the C library, without the token.

use crate::base::c::{self, CLOCK_MONOTONIC, CLOCK_REALTIME, Pointer, Timespec, nanoseconds};
use crate::base::program::Address;
use crate::base::record::put3;
use crate::base::thread::{self, Thread, inside};
use crate::interpose::cancel;
use crate::interpose::locks::{c11, give_mutex, take_mutex};
use crate::interpose::signals::{self, WhileBlocked};
use crate::scheduler::free_running::is_free;
use crate::scheduler::{
    Deadline, Next, acquire, block_cancellable, enter, is_on, next_notify, regain, release, step, wake,
};
use crate::wire::{DESTROYED, head, op};
use crate::{pass_on, stubs};
use core::ffi::c_int;

fn record(code: u8, pc: usize, a: Pointer, b: u64) {
    put3(head(code, 0, pc), a as u64, b);
}

/// How the lock is given back and taken again that belongs to a condition.
pub struct Released<Give, Take, Again> {
    /// 0, or why it cannot be given back.
    pub give: Give,
    /// Waits for it in the scheduler.
    pub take: Take,
    /// Waits for it in the library, because recording has ended.
    pub again: Again,
}

fn wait(condition: Pointer, mutex: Pointer, deadline: Deadline, pc: usize) -> Option<c_int> {
    let thread = enter(Next::on(op::WAIT_BEGIN, pc, condition as usize))?;
    cancel::point(thread, pc);
    if is_shared(condition) {
        return Some(inside(thread, || wait_outside(thread, condition, mutex, deadline, pc)));
    }
    let released = Released {
        give: || give_mutex(mutex),
        take: || take_mutex(thread, mutex, None, pc),
        again: || pass_on!(pthread_mutex_lock(mutex: Pointer) -> c_int),
    };
    let (result, interrupted) = wait_in_scheduler(thread, condition, mutex, deadline, pc, released);
    if interrupted {
        cancel::point(thread, pc);
    }
    if is_on() && signals::pending(thread) != 0 {
        signals::deliver(thread);
    }
    Some(result)
}

/// Waits, with the token, for a condition that has no waiters but those in the scheduler. Returns 0, or an error, and
/// whether a request to cancel the thread, or the end of recording, has ended the wait.
pub fn wait_in_scheduler(
    thread: &'static Thread,
    condition: Pointer,
    mutex: Pointer,
    deadline: Deadline,
    pc: usize,
    released: Released<impl FnOnce() -> c_int, impl FnOnce() -> c_int, impl FnOnce() -> c_int>,
) -> (c_int, bool) {
    let mut interrupted = false;
    let result = inside(thread, || {
        record(op::WAIT_BEGIN, pc, condition, mutex as u64);
        let result = (released.give)();
        if result != 0 {
            record(op::WAKE, pc, condition, 0);
            record(op::WAIT_END, pc, condition, mutex as u64);
            return result;
        }
        // Signals end the wait, as if woken for no reason.
        let outside = thread.while_blocked.replace(WhileBlocked::Return);
        let timed_out = block_cancellable(thread, condition as usize, deadline);
        thread.while_blocked.set(WhileBlocked::Defer);
        interrupted = thread.interrupted.get() || !is_on();
        let notify = thread.notified_by.get();
        if !is_on() {
            thread.while_blocked.set(outside);
            // As if woken for no reason.
            return (released.again)();
        }
        step(thread, Next::on(op::WAIT_END, pc, mutex as usize));
        record(op::WAKE, pc, condition, if timed_out { 0 } else { notify });
        let result = (released.take)();
        thread.while_blocked.set(outside);
        record(op::WAIT_END, pc, condition, mutex as u64);
        match (result, timed_out) {
            (0, true) => c::ETIMEDOUT,
            (result, _) => result,
        }
    });
    (result, interrupted)
}

/// glibc's `__wrefs`: bit 0 if threads of other processes may wait for it, bit 1 for the clock that its attributes
/// chose.
fn flags_of(condition: Pointer) -> u32 {
    Address::from(condition).plus(36).read()
}

fn is_shared(condition: Pointer) -> bool {
    flags_of(condition) & 1 != 0
}

/// Waits where other processes are seen, too. What woke it is not known; the mutex orders what matters.
fn wait_outside(thread: &'static Thread, condition: Pointer, mutex: Pointer, deadline: Deadline, pc: usize) -> c_int {
    record(op::WAIT_BEGIN, pc, condition, mutex as u64);
    release(thread);
    let result = match deadline {
        None => pass_on!(pthread_cond_wait(condition: Pointer, mutex: Pointer) -> c_int),
        Some((clock, at)) => clockwait(condition, mutex, clock, &Timespec::from_nanoseconds(at)),
    };
    if is_on() {
        acquire(thread);
    }
    if is_on() {
        step(thread, Next::on(op::WAIT_END, pc, mutex as usize));
        record(op::WAKE, pc, condition, 0);
        record(op::WAIT_END, pc, condition, mutex as u64);
    }
    result
}

fn clockwait(condition: Pointer, mutex: Pointer, clock: c_int, at: *const Timespec) -> c_int {
    pass_on!(pthread_cond_clockwait(condition: Pointer, mutex: Pointer, clock: c_int, at: *const Timespec) -> c_int)
}

extern "C" fn cond_wait(condition: Pointer, mutex: Pointer, pc: usize) -> c_int {
    wait(condition, mutex, None, pc)
        .unwrap_or_else(|| pass_on!(pthread_cond_wait(condition: Pointer, mutex: Pointer) -> c_int))
}

extern "C" fn cond_timedwait(condition: Pointer, mutex: Pointer, at: *const Timespec, pc: usize) -> c_int {
    let clock = if flags_of(condition) & 2 != 0 { CLOCK_MONOTONIC } else { CLOCK_REALTIME };
    let deadline = Some((clock, nanoseconds(at)));
    let really = || pass_on!(pthread_cond_timedwait(condition: Pointer, mutex: Pointer, at: *const Timespec) -> c_int);
    wait(condition, mutex, deadline, pc).unwrap_or_else(really)
}

extern "C" fn cond_clockwait(
    condition: Pointer,
    mutex: Pointer,
    clock: c_int,
    at: *const Timespec,
    pc: usize,
) -> c_int {
    let deadline = Some((clock, nanoseconds(at)));
    wait(condition, mutex, deadline, pc).unwrap_or_else(|| clockwait(condition, mutex, clock, at))
}

/// Returns false if the real condition variable has to be notified, too.
fn notify(condition: Pointer, all: bool, pc: usize) -> bool {
    notify_in_scheduler(condition, all, pc) && !is_shared(condition)
}

/// Wakes who waits in the scheduler. Returns whether that is an event.
pub fn notify_in_scheduler(condition: Pointer, all: bool, pc: usize) -> bool {
    let most = if all { usize::MAX } else { 1 };
    let Some(thread) = enter(Next::on(op::NOTIFY, pc, condition as usize)) else {
        // An ignored thread may still wake others.
        if let Some(thread) = thread::current().filter(|thread| is_on() && thread.is_outside()) {
            inside(thread, || {
                // Nobody may be about to wait right now.
                if is_free() {
                    regain(thread);
                }
                wake(condition as usize, most, 0)
            });
        }
        return false;
    };
    let number = next_notify();
    record(if all { op::NOTIFY_ALL } else { op::NOTIFY }, pc, condition, number);
    inside(thread, || wake(condition as usize, most, number));
    true
}

extern "C" fn cond_signal(condition: Pointer, pc: usize) -> c_int {
    match notify(condition, false, pc) {
        true => 0,
        false => pass_on!(pthread_cond_signal(condition: Pointer) -> c_int),
    }
}

extern "C" fn cond_broadcast(condition: Pointer, pc: usize) -> c_int {
    match notify(condition, true, pc) {
        true => 0,
        false => pass_on!(pthread_cond_broadcast(condition: Pointer) -> c_int),
    }
}

extern "C" fn cond_init(condition: Pointer, attributes: Pointer, pc: usize) -> c_int {
    if enter(Next::on(op::CONDITION_NEW, pc, condition as usize)).is_some() {
        record(op::CONDITION_NEW, pc, condition, 0);
    }
    pass_on!(pthread_cond_init(condition: Pointer, attributes: Pointer) -> c_int)
}

extern "C" fn cond_destroy(condition: Pointer, pc: usize) -> c_int {
    if enter(Next::on(op::CONDITION_NEW, pc, condition as usize)).is_some() {
        put3(head(op::CONDITION_NEW, DESTROYED, pc), condition as u64, 0);
    }
    pass_on!(pthread_cond_destroy(condition: Pointer) -> c_int)
}

extern "C" fn c11_wait(condition: Pointer, mutex: Pointer, pc: usize) -> c_int {
    c11(cond_wait(condition, mutex, pc))
}

extern "C" fn c11_timedwait(condition: Pointer, mutex: Pointer, at: *const Timespec, pc: usize) -> c_int {
    c11(cond_timedwait(condition, mutex, at, pc))
}

stubs! {
    pthread_cond_init "rdx" cond_init; pthread_cond_destroy "rsi" cond_destroy;
    pthread_cond_wait "rdx" cond_wait; pthread_cond_timedwait "rcx" cond_timedwait;
    pthread_cond_clockwait "r8" cond_clockwait;
    pthread_cond_signal "rsi" cond_signal; pthread_cond_broadcast "rsi" cond_broadcast;
    cnd_wait "rdx" c11_wait; cnd_timedwait "rcx" c11_timedwait; cnd_signal "rsi" cond_signal;
    cnd_broadcast "rsi" cond_broadcast;
}
