//! Mutexes and spin locks.
//!
//! Threads queue in the scheduler and use the real try-operations, so the lock itself is always the real one and
//! uninstrumented code can use it, too. The scheduler's turns never keep a thread from a lock for ever.

use crate::base::c::{self, CLOCK_REALTIME, EBUSY, EDEADLK, ETIMEDOUT, Pointer, Timespec, nanoseconds};
use crate::base::program::Address;
use crate::base::record::put3;
use crate::base::thread::{self, Thread, inside};
use crate::interpose::cancel;
use crate::scheduler::observe;
use crate::scheduler::{Deadline, Next, acquire, block, block_cancellable, enter, is_on, release, wake, yield_now};
use crate::wire::{DESTROYED, head, lock, op};
use crate::{pass_on, stubs};
use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

const EINVAL: c_int = 22;
const EOWNERDEAD: c_int = 130;

/// A lock for which a thread waits as long as it takes.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub pc: usize,
    pub kind: u64,
    pub reads: bool,
}

/// Tries until the lock is no longer busy, and lets others run in between. If `cancellable`, gives up with EINTR when
/// the thread is to be cancelled. What waits without a deadline is recorded where it is `wanted`: it may wait for ever.
#[allow(clippy::too_many_arguments)]
pub fn contend(
    thread: &'static Thread,
    key: usize,
    deadline: Deadline,
    cancellable: bool,
    wanted: Option<Wanted>,
    busy: c_int,
    attempt: impl Fn() -> c_int,
    really: impl FnOnce() -> c_int,
) -> c_int {
    for tries in 0.. {
        let result = attempt();
        if result != busy {
            return result;
        }
        thread.retries.set(true);
        thread.starves.set(tries > 0);
        if let Some(wanted) = wanted {
            put3(head(op::WANT, wanted.reads as u8, wanted.pc), key as u64, wanted.kind);
            // Should nothing more come, that was all.
            put3(head(op::WHOLE, 0, 0), 0, 0);
        }
        let wait = if cancellable { block_cancellable } else { block };
        let timed_out = wait(thread, key, deadline);
        thread.retries.set(false);
        thread.starves.set(false);
        if cancellable && cancel::is_requested(thread) && (!is_on() || thread.interrupted.get()) {
            return c::EINTR;
        }
        if cancellable && thread.signalled.get() && thread.fails.get() {
            return c::EINTR;
        }
        if !is_on() {
            return really();
        }
        if timed_out {
            let result = attempt();
            return if result == busy { ETIMEDOUT } else { result };
        }
    }
    unreachable!("it tries for ever")
}

fn try_mutex(mutex: Pointer) -> c_int {
    pass_on!(pthread_mutex_trylock(mutex: Pointer) -> c_int)
}

fn really_lock(mutex: Pointer) -> c_int {
    pass_on!(pthread_mutex_lock(mutex: Pointer) -> c_int)
}

fn really_unlock(mutex: Pointer) -> c_int {
    pass_on!(pthread_mutex_unlock(mutex: Pointer) -> c_int)
}

/// Locks a mutex for the holder of the token. No events.
pub fn take_mutex(thread: &'static Thread, mutex: Pointer, deadline: Deadline, pc: usize) -> c_int {
    // The layout of glibc: owner and kind of the mutex.
    let owner = Address::from(mutex).plus(8).read::<u32>();
    let kind = Address::from(mutex).plus(16).read::<i32>();
    const ERROR_CHECKING: i32 = 2;
    if kind & 3 == ERROR_CHECKING && owner == thread.kernel.load(Relaxed) {
        return EDEADLK;
    }
    const SHARED: i32 = 128;
    if kind & SHARED != 0 {
        // Another process may hold it: wait for it outside.
        let result = try_mutex(mutex);
        if result != EBUSY {
            return result;
        }
        release(thread);
        let result = match deadline {
            None => really_lock(mutex),
            Some((_, at)) => {
                let at = &Timespec::from_nanoseconds(at);
                pass_on!(pthread_mutex_timedlock(mutex: Pointer, at: *const Timespec) -> c_int)
            }
        };
        acquire(thread);
        return result;
    }
    let wanted = deadline.is_none().then_some(Wanted { pc, kind: lock::MUTEX, reads: false });
    contend(thread, mutex as usize, deadline, false, wanted, EBUSY, || try_mutex(mutex), || really_lock(mutex))
}

/// Gives a mutex back. No events.
pub fn give_mutex(mutex: Pointer) -> c_int {
    let result = really_unlock(mutex);
    wake(mutex as usize, 1, 0);
    result
}

/// Records an attempt to take a mutex that was destroyed: glibc says so by its kind.
fn note_destroyed(result: c_int, mutex: Pointer, pc: usize) {
    if result == EINVAL && Address::from(mutex).plus(16).read::<i32>() == -1 {
        put3(head(op::GONE, 0, pc), mutex as u64, lock::MUTEX);
    }
}

fn locked(result: c_int) -> bool {
    result == 0 || result == EOWNERDEAD
}

fn record(code: u8, pc: usize, address: Pointer, kind: u64) {
    put3(head(code, 0, pc), address as u64, kind);
    observe::holds(code, kind);
}

/// An attempt to take a lock has given up because the lock was busy.
pub fn record_failure(pc: usize, address: Pointer, kind: u64, reads: bool) {
    put3(head(op::TRY_FAILED, reads as u8, pc), address as u64, kind);
}

extern "C" fn mutex_lock(mutex: Pointer, pc: usize) -> c_int {
    let Some(thread) = enter(Next::on(op::LOCK, pc, mutex as usize)) else {
        return really_lock(mutex);
    };
    inside(thread, || {
        let result = take_mutex(thread, mutex, None, pc);
        if locked(result) {
            let died = if result == EOWNERDEAD { lock::OWNER_DIED } else { 0 };
            record(op::LOCK, pc, mutex, lock::MUTEX | died);
        }
        note_destroyed(result, mutex, pc);
        result
    })
}

extern "C" fn mutex_timedlock(mutex: Pointer, at: *const Timespec, pc: usize) -> c_int {
    mutex_clocklock(mutex, CLOCK_REALTIME, at, pc)
}

extern "C" fn mutex_clocklock(mutex: Pointer, clock: c_int, at: *const Timespec, pc: usize) -> c_int {
    let Some(thread) = enter(Next::on(op::LOCK, pc, mutex as usize)) else {
        return pass_on!(pthread_mutex_clocklock(mutex: Pointer, clock: c_int, at: *const Timespec) -> c_int);
    };
    inside(thread, || {
        let at = nanoseconds(at);
        let result = take_mutex(thread, mutex, Some((clock, at)), pc);
        if locked(result) {
            record(op::LOCK, pc, mutex, lock::MUTEX | lock::TRIED);
        } else if result == ETIMEDOUT {
            record_failure(pc, mutex, lock::MUTEX, false);
        }
        result
    })
}

extern "C" fn mutex_trylock(mutex: Pointer, pc: usize) -> c_int {
    let thread = enter(Next::on(op::LOCK, pc, mutex as usize));
    let result = try_mutex(mutex);
    if let Some(thread) = thread {
        if locked(result) {
            record(op::LOCK, pc, mutex, lock::MUTEX | lock::TRIED);
            thread.tries.set(0);
        } else {
            note_destroyed(result, mutex, pc);
            if result == EBUSY {
                record_failure(pc, mutex, lock::MUTEX, false);
            }
            thread.tries.add(1);
        }
    }
    result
}

/// Two threads that try in vain, give back what they have and start again may do so for ever if their turns are equally
/// long. So whoever has tried often lets others go first, not all of them equally often.
fn get_out_of_step(thread: &'static Thread) {
    const OFTEN: u32 = 8;
    if thread.tries.get() > OFTEN {
        thread.tries.set(0);
        for _ in 0..2 * (thread.number.get() % 4) {
            yield_now(thread);
        }
    }
}

extern "C" fn mutex_unlock(mutex: Pointer, pc: usize) -> c_int {
    let Some(thread) = enter(Next::on(op::UNLOCK, pc, mutex as usize)) else {
        let result = really_unlock(mutex);
        wake_anyway(mutex, 1);
        return result;
    };
    inside(thread, || {
        let result = really_unlock(mutex);
        if result == 0 {
            record(op::UNLOCK, pc, mutex, lock::MUTEX);
            wake(mutex as usize, 1, 0);
            get_out_of_step(thread);
        }
        result
    })
}

/// Wakes threads even where the operation itself is no event.
pub fn wake_anyway(key: Pointer, most: usize) {
    if let Some(thread) = thread::current().filter(|thread| is_on() && thread.is_outside()) {
        inside(thread, || wake(key as usize, most, 0));
    }
}

extern "C" fn mutex_init(mutex: Pointer, attributes: Pointer, pc: usize) -> c_int {
    if enter(Next::on(op::LOCK_NEW, pc, mutex as usize)).is_some() {
        record(op::LOCK_NEW, pc, mutex, lock::MUTEX);
    }
    pass_on!(pthread_mutex_init(mutex: Pointer, attributes: Pointer) -> c_int)
}

extern "C" fn mutex_destroy(mutex: Pointer, pc: usize) -> c_int {
    if enter(Next::on(op::LOCK_NEW, pc, mutex as usize)).is_some() {
        put3(head(op::LOCK_NEW, DESTROYED, pc), mutex as u64, lock::MUTEX);
    }
    pass_on!(pthread_mutex_destroy(mutex: Pointer) -> c_int)
}

extern "C" fn spin_lock(at: Pointer, pc: usize) -> c_int {
    let really = || pass_on!(pthread_spin_lock(at: Pointer) -> c_int);
    let Some(thread) = enter(Next::on(op::LOCK, pc, at as usize)) else { return really() };
    let attempt = || pass_on!(pthread_spin_trylock(at: Pointer) -> c_int);
    inside(thread, || {
        let wanted = Some(Wanted { pc, kind: lock::SPIN, reads: false });
        let result = contend(thread, at as usize, None, false, wanted, EBUSY, attempt, really);
        record(op::LOCK, pc, at, lock::SPIN);
        result
    })
}

extern "C" fn spin_trylock(at: Pointer, pc: usize) -> c_int {
    let counts = enter(Next::on(op::LOCK, pc, at as usize)).is_some();
    let result = pass_on!(pthread_spin_trylock(at: Pointer) -> c_int);
    match result {
        0 if counts => record(op::LOCK, pc, at, lock::SPIN | lock::TRIED),
        EBUSY if counts => record_failure(pc, at, lock::SPIN, false),
        _ => {}
    }
    result
}

extern "C" fn spin_unlock(at: Pointer, pc: usize) -> c_int {
    let thread = enter(Next::on(op::UNLOCK, pc, at as usize));
    let result = pass_on!(pthread_spin_unlock(at: Pointer) -> c_int);
    match thread {
        Some(thread) => {
            record(op::UNLOCK, pc, at, lock::SPIN);
            inside(thread, || wake(at as usize, 1, 0));
        }
        None => wake_anyway(at, 1),
    }
    result
}

stubs! {
    pthread_mutex_init "rdx" mutex_init; pthread_mutex_destroy "rsi" mutex_destroy;
    pthread_mutex_lock "rsi" mutex_lock; pthread_mutex_trylock "rsi" mutex_trylock;
    pthread_mutex_timedlock "rdx" mutex_timedlock; pthread_mutex_clocklock "rcx" mutex_clocklock;
    pthread_mutex_unlock "rsi" mutex_unlock;
    pthread_spin_lock "rsi" spin_lock; pthread_spin_trylock "rsi" spin_trylock; pthread_spin_unlock "rsi" spin_unlock;
    mtx_lock "rsi" c11_lock; mtx_unlock "rsi" c11_unlock; mtx_trylock "rsi" c11_trylock;
    mtx_timedlock "rdx" c11_timedlock;
}

/// C11's results: success, busy, error, timed out.
pub fn c11(result: c_int) -> c_int {
    match result {
        0 => 0,
        EBUSY => 1,
        c::ENOMEM => 3,
        ETIMEDOUT => 4,
        _ => 2,
    }
}

extern "C" fn c11_lock(mutex: Pointer, pc: usize) -> c_int {
    c11(mutex_lock(mutex, pc))
}

extern "C" fn c11_unlock(mutex: Pointer, pc: usize) -> c_int {
    c11(mutex_unlock(mutex, pc))
}

extern "C" fn c11_trylock(mutex: Pointer, pc: usize) -> c_int {
    c11(mutex_trylock(mutex, pc))
}

extern "C" fn c11_timedlock(mutex: Pointer, at: *const Timespec, pc: usize) -> c_int {
    c11(mutex_timedlock(mutex, at, pc))
}
