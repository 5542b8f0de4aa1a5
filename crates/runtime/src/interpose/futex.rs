//! The system call `futex`, which libraries use that bring their own locks: Rust's standard library, C++'s
//! `std::atomic::wait`.
//!
//! Threads wait for each other in the scheduler, as with condition variables, so waiting is part of the schedule. The
//! kernel handles whatever other processes may take part in.

use crate::base::c::{self, CLOCK_MONOTONIC, CLOCK_REALTIME, Timespec, nanoseconds};
use crate::base::kernel::{self, number};
use crate::base::program::Address;
use crate::base::thread::{self, Thread, inside};
use crate::interpose::blocking::around;
use crate::scheduler::{Deadline, Next, block, enter, is_on, wake};
use core::ffi::{c_int, c_long};

const PRIVATE: usize = 128;
const BY_REAL_TIME: usize = 256;

const WAIT: usize = 0;
const WAKE: usize = 1;
const LOCK_PI: usize = 6;
const WAIT_BITSET: usize = 9;
const WAKE_BITSET: usize = 10;
const WAIT_REQUEUE_PI: usize = 11;
const LOCK_PI2: usize = 13;

fn really(n: c_long, arguments: [usize; 6]) -> c_long {
    // SAFETY: the program makes this call, and answers for its arguments; we only stand in between.
    match unsafe { kernel::system(n, arguments) } {
        error if error < 0 && error > -4096 => fail(-error as c_int),
        result => result,
    }
}

fn fail(error: c_int) -> c_long {
    c::set_errno(error);
    -1
}

#[unsafe(no_mangle)]
pub extern "C" fn syscall(n: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    let arguments = [a, b, c, d, e, f];
    if is_on() {
        crate::interpose::forbidden::before_system_call(n, &arguments);
    }
    if n != number::FUTEX || !is_on() {
        let result = really(n, arguments);
        crate::interpose::lifecycle::after_system_call(n, &arguments, result);
        return result;
    }
    crate::scheduler::free_running::leaving(|| futex(n, arguments))
}

fn futex(n: c_long, arguments: [usize; 6]) -> c_long {
    let [a, b, c, ..] = arguments;
    match (b & 127, b & PRIVATE != 0) {
        (WAIT | WAIT_BITSET, true) => wait(arguments).unwrap_or_else(|| really(n, arguments)),
        (WAIT | WAIT_BITSET | LOCK_PI | LOCK_PI2 | WAIT_REQUEUE_PI, _) => around(|| really(n, arguments)),
        (WAKE, _) => wake_up(a, c as c_int, arguments),
        // Whom exactly they mean we do not know. To be woken for no reason is allowed.
        (WAKE_BITSET, _) => wake_up(a, c_int::MAX, arguments),
        _ => {
            wake_up(a, c_int::MAX, [a, WAKE | PRIVATE, 0, 0, 0, 0]);
            really(n, arguments)
        }
    }
}

/// Whether a thread has waited for the same word several times in a row: for a lock that others take again and again,
/// maybe.
fn waits_in_vain(thread: &'static Thread, address: usize) -> bool {
    const SEVERAL: u32 = 4;
    let is_same = thread.waited_for.replace(address) == address;
    let times = if is_same { thread.waits.get() + 1 } else { 0 };
    thread.waits.set(times);
    times % SEVERAL == SEVERAL - 1
}

fn wait([address, operation, expected, time, ..]: [usize; 6]) -> Option<c_long> {
    let thread = enter(Next::call(0))?;
    let relative = operation & 127 == WAIT;
    let deadline: Deadline = (time != 0).then(|| {
        let time = nanoseconds(time as *const Timespec);
        match (relative, operation & BY_REAL_TIME != 0) {
            (true, _) => (CLOCK_MONOTONIC, c::now(CLOCK_MONOTONIC).saturating_add(time)),
            (false, true) => (CLOCK_REALTIME, time),
            (false, false) => (CLOCK_MONOTONIC, time),
        }
    });
    Some(inside(thread, || {
        if Address(address).read::<u32>() != expected as u32 {
            return fail(c::EAGAIN);
        }
        // Should somebody wake us in a way that we do not see, it is enough to look from time to time.
        thread.retries.set(true);
        thread.starves.set(waits_in_vain(thread, address));
        let timed_out = block(thread, address, deadline);
        thread.retries.set(false);
        thread.starves.set(false);
        if thread.signalled.get() {
            return fail(c::EINTR);
        }
        if timed_out { fail(c::ETIMEDOUT) } else { 0 }
    }))
}

/// How many were woken.
fn wake_up(address: usize, most: c_int, arguments: [usize; 6]) -> c_long {
    enter(Next::call(0));
    let wake = || wake(address, most.max(0) as usize, 0);
    let ours = thread::current().map_or_else(wake, |thread| inside(thread, wake)) as c_long;
    if ours >= most as c_long {
        return ours;
    }
    ours + really(number::FUTEX, arguments).max(0)
}
