//! The watchdog: a thread that holds the token and records nothing must not stop the others.
//!
//! The thread may sleep in a call that we do not intercept. Then the watchdog takes the token away in three steps: hide
//! the token, look again, and keep it or give it back. Or the thread runs without an event, perhaps waiting in a loop
//! that is not instrumented. Then a signal asks it to release the token.

use crate::base::c::{self, Pointer};
use crate::base::kernel;
use crate::base::record::{flush, page};
use crate::base::shared::wanted;
use crate::base::thread::{self, State, Thread};
use crate::interpose::context::interrupted_at;
use crate::interpose::missing;
use crate::scheduler::{
    FREE_RUNNING, HOLDER, IGNORING, NOBODY, SCHEDULER, TAKEN, bury, end_with_last, is_holder, is_on, others_wait,
    release, retry_locks, stand_aside, unpark,
};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

/// The thread that was asked to release the token.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// How long a running thread may use the processor without an event before it is asked to release the token.
const PATIENCE: u64 = 50_000_000;

/// The same in code that nobody sees, where it only stands aside for a turn.
const LESS_PATIENCE: u64 = 2_000_000;

/// Handler of our signal.
pub unsafe extern "C" fn let_go(_: c_int, _: Pointer, context: Pointer) {
    let asked = |thread: &&Thread| ASKED.load(Relaxed) == thread.address() && is_holder(thread) && thread.is_outside();
    let Some(thread) = thread::current().filter(asked) else { return };
    if crate::interpose::lifecycle::is_ours(interrupted_at(context)) {
        return;
    }
    ASKED.store(0, Relaxed);
    let error = c::errno();
    if missing::is_open(thread) {
        // It stands still until it has the token again: what others do in code that nobody sees must not come in between
        // at another place when the run is repeated.
        thread::inside(thread, || stand_aside(thread));
    } else {
        // Its next event takes the token again.
        thread::inside(thread, || release(thread));
    }
    c::set_errno(error);
}

/// Reads a file of a thread under `/proc/self/task`. Returns its length.
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
    let file = kernel::open(&path[..length], 0);
    if file < 0 {
        return None;
    }
    let length = kernel::read(file, text);
    kernel::close(file);
    Some(length)
}

/// The state letter of a thread and how often it has slept. Both stay the same only if it did not run.
fn look(kernel: u32) -> Option<(u8, u64)> {
    let mut text = [0u8; 4096];
    let length = read_file(kernel, b"/status", &mut text)?;
    let text = core::str::from_utf8(&text[..length]).ok()?;
    let state = text.split("State:\t").nth(1)?.bytes().next()?;
    let slept = text.split("\nvoluntary_ctxt_switches:\t").nth(1)?.split('\n').next()?.parse().ok()?;
    Some((state, slept))
}

/// Whether a thread sleeps in a system call that is not one of ours. A thread that sleeps because of a page fault
/// may be in the middle of a record.
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
    while kernel != 0 && !kernel::is_gone(kernel) && c::now(c::CLOCK_MONOTONIC) - start < MOST {
        kernel::sleep(1_000_000);
    }
}

/// Whether a thread has vanished without telling us: it was killed alone, or ended by a system call.
fn is_gone_unseen(thread: &Thread) -> bool {
    let kernel = thread.kernel.load(Relaxed);
    if thread.is(State::Dead) || kernel == 0 {
        return false;
    }
    // The first one stays until all others are gone, too.
    kernel::is_gone(kernel)
        || kernel == kernel::pid() && look(kernel).is_some_and(|(state, _)| matches!(state, b'Z' | b'X'))
}

/// Notes threads that have vanished, so that nobody waits for them.
fn bury_the_dead() {
    thread::all().iter().filter(|thread| is_gone_unseen(thread)).for_each(bury);
}

/// How many rounds of the watchdog come between two searches for threads that have vanished.
const FUNERALS: u32 = 10;

/// The thread of the watchdog.
pub unsafe extern "C" fn watch(_: Pointer) -> Pointer {
    WATCHDOG.store(kernel::thread_id(), Relaxed);
    let mut round = 0;
    let mut last = (0, 0);
    let mut since = ((0, 0), 0);
    let mut idle = 0;
    loop {
        kernel::sleep(wanted().watchdog as u64 * 1_000_000);
        // The program ends with its last thread, and this is one, too.
        if !is_on() {
            return core::ptr::null_mut();
        }
        if end_with_last() {
            let code = crate::interpose::threads::last_code();
            if code != 0 {
                // The program's exit status is that of its last thread.
                kernel::exit_thread(code);
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
            retry_locks();
            unpark();
        }
        if holder <= NOBODY {
            continue;
        }
        let Some(thread) = thread::by_address(holder & !(IGNORING | FREE_RUNNING)) else { continue };
        let place = page().next.get() as usize;
        if last != (holder, place) {
            last = (holder, place);
            continue;
        }
        let kernel = thread.kernel.load(Relaxed);
        let Some((state, slept)) = look(kernel) else { continue };
        match state {
            b'R' => {
                let used = c::now(clock_of(kernel));
                let patience = if missing::is_open(thread) { LESS_PATIENCE } else { PATIENCE };
                if since.0 != last {
                    since = (last, used);
                } else if used.saturating_sub(since.1) > patience && others_wait() {
                    ASKED.store(thread.address(), SeqCst);
                    kernel::send(kernel, c::SIGNAL);
                    since.1 = used;
                }
            }
            b'S' | b'D' => take_away(thread, place, (state, slept)),
            _ => {}
        }
    }
}

fn take_away(thread: &'static Thread, place: usize, seen: (u8, u64)) {
    let kernel = thread.kernel.load(Relaxed);
    let busy = || !thread.is_outside() && !thread.lends.get() || !is_in_foreign_call(kernel);
    if SCHEDULER.is_held() || busy() {
        return;
    }
    let mut scheduler = SCHEDULER.lock();
    let holder = HOLDER.0.load(Relaxed);
    if !is_holder(thread) || !others_wait() {
        return;
    }
    HOLDER.0.store(TAKEN, SeqCst);
    const EXPEDITED: usize = 1 << 3;
    kernel::memory_barrier(EXPEDITED);
    let still = !busy() && page().next.get() as usize == place && look(kernel) == Some(seen);
    if still {
        flush();
        thread.set(State::External);
        scheduler.end_turn(thread);
        scheduler.dispatch();
    } else {
        HOLDER.0.store(holder, Release);
    }
}
