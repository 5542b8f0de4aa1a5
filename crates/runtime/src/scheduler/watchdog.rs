//! The watchdog: a thread that holds the token and records nothing must not stop the others.
//!
//! It may sleep in a call that we do not know; then the token is taken away from it, in three steps: hide the token, look
//! again, keep it or give it back. Or it runs without an event, maybe waiting in a loop that is not instrumented; then a
//! signal asks it to let go.

use crate::base::c::{self, Pointer, number, system};
use crate::base::record::{flush, page, wanted};
use crate::base::thread::{self, State, Thread};
use crate::interpose::signals::interrupted_at;
use crate::scheduler::token::{self, HOLDER, NOBODY, SCHEDULER, TAKEN};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

/// The thread that is asked to let go.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Processor time without an event after which a running thread is asked to let go.
const PATIENCE: u64 = 50_000_000;

/// Handler of our signal.
pub unsafe extern "C" fn let_go(_: c_int, _: Pointer, context: Pointer) {
    let thread = thread::current();
    if thread.is_null()
        || ASKED.load(Relaxed) != thread as usize
        || !token::is_holder(thread)
        || unsafe { (*thread).inside } != 0
        || crate::interpose::lifecycle::is_ours(interrupted_at(context))
    {
        return;
    }
    ASKED.store(0, Relaxed);
    let error = c::errno();
    // Its next event takes the token again.
    thread::inside(thread, || token::release(thread));
    c::set_errno(error);
}

/// A file of a thread under `/proc/self/task`; how long it is.
fn read_file(kernel: u32, name: &[u8], text: &mut [u8]) -> Option<usize> {
    let mut path = [0u8; 64];
    let mut length = 0;
    let mut push = |bytes: &[u8]| {
        for &byte in bytes {
            path[length] = byte;
            length += 1;
        }
    };
    push(b"/proc/self/task/");
    let mut digits = [0u8; 10];
    let mut left = kernel;
    let mut first = digits.len();
    while left > 0 || first == digits.len() {
        first -= 1;
        digits[first] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    push(&digits[first..]);
    push(name);
    push(b"\0");
    let file = c::open(&path[..length], 0);
    if file < 0 {
        return None;
    }
    let length = c::read(file, text);
    c::close(file);
    Some(length)
}

/// State letter of a thread and how often it has slept: both stay the same only if it did not run.
fn look(kernel: u32) -> Option<(u8, u64)> {
    let mut text = [0u8; 4096];
    let length = read_file(kernel, b"/status", &mut text)?;
    let text = core::str::from_utf8(&text[..length]).ok()?;
    let state = text.split("State:\t").nth(1)?.bytes().next()?;
    let slept = text.split("\nvoluntary_ctxt_switches:\t").nth(1)?.split('\n').next()?.parse().ok()?;
    Some((state, slept))
}

/// Whether a thread sleeps in a system call that is not one of ours. One that sleeps because memory is not there yet may
/// be in the middle of a record.
fn is_in_foreign_call(kernel: u32) -> bool {
    let mut text = [0u8; 256];
    let Some(length) = read_file(kernel, b"/syscall", &mut text) else { return false };
    let Ok(text) = core::str::from_utf8(&text[..length]) else { return false };
    let mut words = text.split_ascii_whitespace();
    let call = words.next().and_then(|word| word.parse::<u32>().ok());
    let place = words.next_back().and_then(|word| usize::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    call.is_some() && place.is_some_and(|place| !crate::interpose::lifecycle::is_ours(place))
}

/// The clock of another thread's processor time.
fn clock_of(kernel: u32) -> c_int {
    (!(kernel as c_int)) << 3 | 6
}

/// The watchdog itself, as the kernel numbers it; 0 before it runs.
static WATCHDOG: AtomicU32 = AtomicU32::new(0);

/// Waits until the watchdog has ended, which it does soon when recording is off.
pub fn await_end() {
    const MOST: u64 = 1_000_000_000;
    let start = c::now(c::CLOCK_MONOTONIC);
    let kernel = WATCHDOG.load(Relaxed);
    while kernel != 0 && !c::is_gone(kernel) && c::now(c::CLOCK_MONOTONIC) - start < MOST {
        let pause = c::Timespec::from_nanoseconds(1_000_000);
        unsafe { system(number::NANOSLEEP, [&pause as *const _ as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Whether a thread is gone that has not said so: it was killed alone, or has left by a system call.
fn is_gone_unseen(thread: &Thread) -> bool {
    let kernel = thread.kernel.load(Relaxed);
    if thread.is(State::Dead) || kernel == 0 {
        return false;
    }
    // The first one stays until all others are gone, too.
    c::is_gone(kernel) || kernel == c::pid() && look(kernel).is_some_and(|(state, _)| matches!(state, b'Z' | b'X'))
}

/// Nobody waits for threads that are gone.
fn bury_the_dead() {
    for number in 0..thread::count() {
        let thread = thread::by_number(number);
        if is_gone_unseen(unsafe { &*thread }) {
            token::bury(thread);
        }
    }
}

/// So many rounds of the watchdog come between two looks for threads that are gone.
const FUNERALS: u32 = 10;

/// The thread of the watchdog.
pub unsafe extern "C" fn watch(_: Pointer) -> Pointer {
    WATCHDOG.store(c::thread_id(), Relaxed);
    let mut round = 0;
    let mut last = (0, 0);
    let mut since = ((0, 0), 0);
    let mut idle = 0;
    loop {
        let pause = c::Timespec::from_nanoseconds(wanted().watchdog as u64 * 1_000_000);
        unsafe { system(number::NANOSLEEP, [&pause as *const _ as usize, 0, 0, 0, 0, 0]) };
        // The program ends with its last thread, and this is one, too.
        if !token::is_on() {
            return core::ptr::null_mut();
        }
        if token::end_with_last() {
            let code = crate::interpose::threads::last_code();
            if code != 0 {
                // The status of the program is that of whoever is the last to leave.
                unsafe { system(number::EXIT, [code, 0, 0, 0, 0, 0]) };
            }
            return core::ptr::null_mut();
        }
        round += 1;
        if round % FUNERALS == 0 {
            bury_the_dead();
        }
        crate::interpose::cancel::interrupt_calls();
        let holder = HOLDER.0.load(Acquire);
        idle = if holder == NOBODY { idle + 1 } else { 0 };
        if idle == 5 {
            idle = 0;
            token::retry_locks();
        }
        if holder <= NOBODY {
            continue;
        }
        let thread = (holder & !(token::IGNORING | token::FREELY)) as *mut Thread;
        let place = unsafe { (&raw const (*crate::base::record::PAGE_STATE.get()).next).read_volatile() } as usize;
        if last != (holder, place) {
            last = (holder, place);
            continue;
        }
        let kernel = unsafe { (*thread).kernel.load(Relaxed) };
        let Some((state, slept)) = look(kernel) else { continue };
        match state {
            b'R' => {
                let used = c::now(clock_of(kernel));
                if since.0 != last {
                    since = (last, used);
                } else if used.saturating_sub(since.1) > PATIENCE && token::others_wait() {
                    ASKED.store(thread as usize, SeqCst);
                    let signal = c::SIGNAL as usize;
                    unsafe { system(number::TGKILL, [c::pid() as usize, kernel as usize, signal, 0, 0, 0]) };
                    since.1 = used;
                }
            }
            b'S' | b'D' => take_away(thread, place, (state, slept)),
            _ => {}
        }
    }
}

fn take_away(thread: *mut Thread, place: usize, seen: (u8, u64)) {
    let kernel = unsafe { (*thread).kernel.load(Relaxed) };
    let inside = || unsafe { (&raw const (*thread).inside).read_volatile() } != 0;
    let lends = || unsafe { (&raw const (*thread).lends).read_volatile() };
    let busy = || inside() && !lends() || !is_in_foreign_call(kernel);
    if SCHEDULER.is_held() || busy() {
        return;
    }
    SCHEDULER.lock();
    let holder = HOLDER.0.load(Relaxed);
    if !token::is_holder(thread) || !token::others_wait() {
        return SCHEDULER.unlock();
    }
    HOLDER.0.store(TAKEN, SeqCst);
    const EXPEDITED: usize = 1 << 3;
    unsafe { system(number::MEMBARRIER, [EXPEDITED, 0, 0, 0, 0, 0]) };
    let still = !busy() && page().next as usize == place && look(kernel) == Some(seen);
    if still {
        flush();
        unsafe { (*thread).set(State::External) };
        token::end_turn(thread);
        token::dispatch();
    } else {
        HOLDER.0.store(holder, Release);
    }
    SCHEDULER.unlock();
}
