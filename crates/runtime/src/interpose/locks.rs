//! Mutexes, reader/writer locks and spin locks: our own queues over the real try-operations, so that the lock itself is
//! always the real one and code that we do not see can use it too. Nobody is kept from a lock for ever because of how turns are dealt out.

use crate::base::c::{self, CLOCK_REALTIME, EBUSY, EDEADLK, ETIMEDOUT, Pointer, Timespec};
use crate::base::record::put3;
use crate::base::thread::{self, Thread, inside};
use crate::interpose::cancel;
use crate::scheduler::token::{Next, block, block_cancellable, enter, is_on, wake, yield_now};
use crate::wire::{head, lock, op};
use crate::{real, stubs};
use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

/// A clock and a time on it.
pub type Deadline = Option<(c_int, u64)>;

const EOWNERDEAD: c_int = 130;

/// Tries until it is no longer busy, and lets others run in between. If `cancellable`, it gives up with EINTR when the
/// thread is to be cancelled.
pub fn contend(
    thread: *mut Thread,
    key: usize,
    deadline: Deadline,
    cancellable: bool,
    busy: c_int,
    attempt: impl Fn() -> c_int,
    really: impl FnOnce() -> c_int,
) -> c_int {
    for tries in 0.. {
        let result = attempt();
        if result != busy {
            return result;
        }
        unsafe { (*thread).retries = true };
        unsafe { (*thread).starves = tries > 0 };
        let wait = if cancellable { block_cancellable } else { block };
        let timed_out = wait(thread, key, deadline);
        unsafe { (*thread).retries = false };
        unsafe { (*thread).starves = false };
        if cancellable && cancel::is_requested(thread) && (!is_on() || unsafe { (*thread).interrupted }) {
            return c::EINTR;
        }
        if cancellable && unsafe { (*thread).signalled && (*thread).fails } {
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
    unsafe { real!(pthread_mutex_trylock, fn(Pointer) -> c_int)(mutex) }
}

fn really_lock(mutex: Pointer) -> c_int {
    unsafe { real!(pthread_mutex_lock, fn(Pointer) -> c_int)(mutex) }
}

fn really_unlock(mutex: Pointer) -> c_int {
    unsafe { real!(pthread_mutex_unlock, fn(Pointer) -> c_int)(mutex) }
}

/// Locks a mutex for the holder of the token. No events.
pub fn take_mutex(thread: *mut Thread, mutex: Pointer, deadline: Deadline) -> c_int {
    // The layout of glibc: owner and kind of the mutex.
    let owner = unsafe { *(mutex as *const u32).add(2) };
    let kind = unsafe { *(mutex as *const i32).add(4) };
    const ERROR_CHECKING: i32 = 2;
    if kind & 3 == ERROR_CHECKING && owner == unsafe { (*thread).kernel.load(Relaxed) } {
        return EDEADLK;
    }
    const SHARED: i32 = 128;
    if kind & SHARED != 0 {
        // Another process may hold it: wait for it outside.
        let result = try_mutex(mutex);
        if result != EBUSY {
            return result;
        }
        crate::scheduler::token::release(thread);
        let result = match deadline {
            None => really_lock(mutex),
            Some((_, at)) => {
                let at = Timespec::from_nanoseconds(at);
                unsafe { real!(pthread_mutex_timedlock, fn(Pointer, *const Timespec) -> c_int)(mutex, &at) }
            }
        };
        crate::scheduler::token::acquire(thread);
        return result;
    }
    contend(thread, mutex as usize, deadline, false, EBUSY, || try_mutex(mutex), || really_lock(mutex))
}

/// Gives a mutex back. No events.
pub fn give_mutex(mutex: Pointer) -> c_int {
    let result = really_unlock(mutex);
    wake(mutex as usize, 1, 0);
    result
}

fn locked(result: c_int) -> bool {
    result == 0 || result == EOWNERDEAD
}

fn record(code: u8, pc: usize, address: Pointer, kind: u64) {
    put3(head(code, 0, pc), address as u64, kind);
}

unsafe extern "C" fn mutex_lock(mutex: Pointer, pc: usize) -> c_int {
    let thread = thread::current();
    if !enter(thread, Next::on(op::LOCK, pc, mutex as usize)) {
        return really_lock(mutex);
    }
    inside(thread, || {
        let result = take_mutex(thread, mutex, None);
        if locked(result) {
            let died = if result == EOWNERDEAD { lock::OWNER_DIED } else { 0 };
            record(op::LOCK, pc, mutex, lock::MUTEX | died);
        }
        result
    })
}

unsafe extern "C" fn mutex_timedlock(mutex: Pointer, at: *const Timespec, pc: usize) -> c_int {
    unsafe { mutex_clocklock(mutex, CLOCK_REALTIME, at, pc) }
}

unsafe extern "C" fn mutex_clocklock(mutex: Pointer, clock: c_int, at: *const Timespec, pc: usize) -> c_int {
    let thread = thread::current();
    if !enter(thread, Next::on(op::LOCK, pc, mutex as usize)) {
        return unsafe {
            real!(pthread_mutex_clocklock, fn(Pointer, c_int, *const Timespec) -> c_int)(mutex, clock, at)
        };
    }
    inside(thread, || {
        let at = unsafe { *at }.to_nanoseconds();
        let result = take_mutex(thread, mutex, Some((clock, at)));
        if locked(result) {
            record(op::LOCK, pc, mutex, lock::MUTEX | lock::TRIED);
        }
        result
    })
}

unsafe extern "C" fn mutex_trylock(mutex: Pointer, pc: usize) -> c_int {
    let thread = thread::current();
    let counts = enter(thread, Next::on(op::LOCK, pc, mutex as usize));
    let result = try_mutex(mutex);
    if counts && locked(result) {
        record(op::LOCK, pc, mutex, lock::MUTEX | lock::TRIED);
    }
    if counts {
        let tries = unsafe { &mut (*thread).tries };
        *tries = if locked(result) { 0 } else { *tries + 1 };
    }
    result
}

/// Two threads that try in vain, give back what they have and start again may do so for ever if their turns are equally long. So
/// whoever has tried often lets others go first, not all of them equally often.
fn get_out_of_step(thread: *mut Thread) {
    let Thread { number, tries, .. } = unsafe { &mut *thread };
    const OFTEN: u32 = 8;
    if *tries > OFTEN {
        *tries = 0;
        for _ in 0..2 * (*number % 4) {
            yield_now(thread);
        }
    }
}

unsafe extern "C" fn mutex_unlock(mutex: Pointer, pc: usize) -> c_int {
    let thread = thread::current();
    if !enter(thread, Next::on(op::UNLOCK, pc, mutex as usize)) {
        let result = really_unlock(mutex);
        wake_anyway(thread, mutex, 1);
        return result;
    }
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

/// What is done without an event may still be what others wait for.
fn wake_anyway(thread: *mut Thread, key: Pointer, most: usize) {
    if is_on() && !thread.is_null() && unsafe { (*thread).inside } == 0 {
        inside(thread, || wake(key as usize, most, 0));
    }
}

unsafe extern "C" fn mutex_init(mutex: Pointer, attributes: Pointer, pc: usize) -> c_int {
    if enter(thread::current(), Next::on(op::LOCK_NEW, pc, mutex as usize)) {
        record(op::LOCK_NEW, pc, mutex, lock::MUTEX);
    }
    unsafe { real!(pthread_mutex_init, fn(Pointer, Pointer) -> c_int)(mutex, attributes) }
}

unsafe extern "C" fn mutex_destroy(mutex: Pointer, pc: usize) -> c_int {
    if enter(thread::current(), Next::on(op::LOCK_NEW, pc, mutex as usize)) {
        record(op::LOCK_NEW, pc, mutex, lock::MUTEX);
    }
    unsafe { real!(pthread_mutex_destroy, fn(Pointer) -> c_int)(mutex) }
}

fn take_rwlock(lock_at: Pointer, pc: usize, writes: bool, deadline: Deadline) -> c_int {
    let thread = thread::current();
    let attempt = || unsafe {
        match writes {
            true => real!(pthread_rwlock_trywrlock, fn(Pointer) -> c_int)(lock_at),
            false => real!(pthread_rwlock_tryrdlock, fn(Pointer) -> c_int)(lock_at),
        }
    };
    let really = || unsafe {
        match (writes, deadline) {
            (true, None) => real!(pthread_rwlock_wrlock, fn(Pointer) -> c_int)(lock_at),
            (false, None) => real!(pthread_rwlock_rdlock, fn(Pointer) -> c_int)(lock_at),
            (true, Some((clock, at))) => {
                let at = Timespec::from_nanoseconds(at);
                real!(pthread_rwlock_clockwrlock, fn(Pointer, c_int, *const Timespec) -> c_int)(lock_at, clock, &at)
            }
            (false, Some((clock, at))) => {
                let at = Timespec::from_nanoseconds(at);
                real!(pthread_rwlock_clockrdlock, fn(Pointer, c_int, *const Timespec) -> c_int)(lock_at, clock, &at)
            }
        }
    };
    let code = if writes { op::LOCK } else { op::READ_LOCK };
    if !enter(thread, Next::on(code, pc, lock_at as usize)) {
        return really();
    }
    inside(thread, || {
        let result = contend(thread, lock_at as usize, deadline, false, EBUSY, attempt, really);
        if result == 0 {
            let tried = if deadline.is_some() { lock::TRIED } else { 0 };
            record(code, pc, lock_at, lock::RWLOCK | tried);
        }
        result
    })
}

unsafe extern "C" fn rwlock_read(at: Pointer, pc: usize) -> c_int {
    take_rwlock(at, pc, false, None)
}

unsafe extern "C" fn rwlock_write(at: Pointer, pc: usize) -> c_int {
    take_rwlock(at, pc, true, None)
}

unsafe extern "C" fn rwlock_timed_read(at: Pointer, time: *const Timespec, pc: usize) -> c_int {
    take_rwlock(at, pc, false, Some((CLOCK_REALTIME, unsafe { *time }.to_nanoseconds())))
}

unsafe extern "C" fn rwlock_timed_write(at: Pointer, time: *const Timespec, pc: usize) -> c_int {
    take_rwlock(at, pc, true, Some((CLOCK_REALTIME, unsafe { *time }.to_nanoseconds())))
}

unsafe extern "C" fn rwlock_clock_read(at: Pointer, clock: c_int, time: *const Timespec, pc: usize) -> c_int {
    take_rwlock(at, pc, false, Some((clock, unsafe { *time }.to_nanoseconds())))
}

unsafe extern "C" fn rwlock_clock_write(at: Pointer, clock: c_int, time: *const Timespec, pc: usize) -> c_int {
    take_rwlock(at, pc, true, Some((clock, unsafe { *time }.to_nanoseconds())))
}

unsafe extern "C" fn rwlock_try_read(at: Pointer, pc: usize) -> c_int {
    let counts = enter(thread::current(), Next::on(op::READ_LOCK, pc, at as usize));
    let result = unsafe { real!(pthread_rwlock_tryrdlock, fn(Pointer) -> c_int)(at) };
    if counts && result == 0 {
        record(op::READ_LOCK, pc, at, lock::RWLOCK | lock::TRIED);
    }
    result
}

unsafe extern "C" fn rwlock_try_write(at: Pointer, pc: usize) -> c_int {
    let counts = enter(thread::current(), Next::on(op::LOCK, pc, at as usize));
    let result = unsafe { real!(pthread_rwlock_trywrlock, fn(Pointer) -> c_int)(at) };
    if counts && result == 0 {
        record(op::LOCK, pc, at, lock::RWLOCK | lock::TRIED);
    }
    result
}

unsafe extern "C" fn rwlock_unlock(at: Pointer, pc: usize) -> c_int {
    let thread = thread::current();
    let really = || unsafe { real!(pthread_rwlock_unlock, fn(Pointer) -> c_int)(at) };
    if !enter(thread, Next::on(op::UNLOCK, pc, at as usize)) {
        let result = really();
        wake_anyway(thread, at, usize::MAX);
        return result;
    }
    inside(thread, || {
        let result = really();
        if result == 0 {
            record(op::UNLOCK, pc, at, lock::RWLOCK);
            wake(at as usize, usize::MAX, 0);
        }
        result
    })
}

unsafe extern "C" fn rwlock_init(at: Pointer, attributes: Pointer, pc: usize) -> c_int {
    if enter(thread::current(), Next::on(op::LOCK_NEW, pc, at as usize)) {
        record(op::LOCK_NEW, pc, at, lock::RWLOCK);
    }
    unsafe { real!(pthread_rwlock_init, fn(Pointer, Pointer) -> c_int)(at, attributes) }
}

unsafe extern "C" fn rwlock_destroy(at: Pointer, pc: usize) -> c_int {
    if enter(thread::current(), Next::on(op::LOCK_NEW, pc, at as usize)) {
        record(op::LOCK_NEW, pc, at, lock::RWLOCK);
    }
    unsafe { real!(pthread_rwlock_destroy, fn(Pointer) -> c_int)(at) }
}

unsafe extern "C" fn spin_lock(at: Pointer, pc: usize) -> c_int {
    let thread = thread::current();
    let really = || unsafe { real!(pthread_spin_lock, fn(Pointer) -> c_int)(at) };
    if !enter(thread, Next::on(op::LOCK, pc, at as usize)) {
        return really();
    }
    let attempt = || unsafe { real!(pthread_spin_trylock, fn(Pointer) -> c_int)(at) };
    inside(thread, || {
        let result = contend(thread, at as usize, None, false, EBUSY, attempt, really);
        record(op::LOCK, pc, at, lock::SPIN);
        result
    })
}

unsafe extern "C" fn spin_trylock(at: Pointer, pc: usize) -> c_int {
    let counts = enter(thread::current(), Next::on(op::LOCK, pc, at as usize));
    let result = unsafe { real!(pthread_spin_trylock, fn(Pointer) -> c_int)(at) };
    if counts && result == 0 {
        record(op::LOCK, pc, at, lock::SPIN | lock::TRIED);
    }
    result
}

unsafe extern "C" fn spin_unlock(at: Pointer, pc: usize) -> c_int {
    let thread = thread::current();
    let counts = enter(thread, Next::on(op::UNLOCK, pc, at as usize));
    let result = unsafe { real!(pthread_spin_unlock, fn(Pointer) -> c_int)(at) };
    if counts {
        record(op::UNLOCK, pc, at, lock::SPIN);
        inside(thread, || wake(at as usize, 1, 0));
    } else {
        wake_anyway(thread, at, 1);
    }
    result
}

stubs! {
    pthread_mutex_init "rdx" mutex_init; pthread_mutex_destroy "rsi" mutex_destroy;
    pthread_mutex_lock "rsi" mutex_lock; pthread_mutex_trylock "rsi" mutex_trylock;
    pthread_mutex_timedlock "rdx" mutex_timedlock; pthread_mutex_clocklock "rcx" mutex_clocklock;
    pthread_mutex_unlock "rsi" mutex_unlock;
    pthread_rwlock_init "rdx" rwlock_init; pthread_rwlock_destroy "rsi" rwlock_destroy;
    pthread_rwlock_rdlock "rsi" rwlock_read; pthread_rwlock_wrlock "rsi" rwlock_write;
    pthread_rwlock_timedrdlock "rdx" rwlock_timed_read; pthread_rwlock_timedwrlock "rdx" rwlock_timed_write;
    pthread_rwlock_clockrdlock "rcx" rwlock_clock_read; pthread_rwlock_clockwrlock "rcx" rwlock_clock_write;
    pthread_rwlock_tryrdlock "rsi" rwlock_try_read; pthread_rwlock_trywrlock "rsi" rwlock_try_write;
    pthread_rwlock_unlock "rsi" rwlock_unlock;
    pthread_spin_lock "rsi" spin_lock; pthread_spin_trylock "rsi" spin_trylock; pthread_spin_unlock "rsi" spin_unlock;
    mtx_lock "rsi" c11_lock; mtx_unlock "rsi" c11_unlock; mtx_trylock "rsi" c11_trylock; mtx_timedlock "rdx" c11_timedlock;
    __tsan_mutex_create "rdx" annotated_new; __tsan_mutex_destroy "rdx" annotated_new;
    __tsan_mutex_post_lock "rcx" annotated_lock; __tsan_mutex_pre_unlock "rdx" annotated_unlock;
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

unsafe extern "C" fn c11_lock(mutex: Pointer, pc: usize) -> c_int {
    c11(unsafe { mutex_lock(mutex, pc) })
}

unsafe extern "C" fn c11_unlock(mutex: Pointer, pc: usize) -> c_int {
    c11(unsafe { mutex_unlock(mutex, pc) })
}

unsafe extern "C" fn c11_trylock(mutex: Pointer, pc: usize) -> c_int {
    c11(unsafe { mutex_trylock(mutex, pc) })
}

unsafe extern "C" fn c11_timedlock(mutex: Pointer, at: *const Timespec, pc: usize) -> c_int {
    c11(unsafe { mutex_timedlock(mutex, at, pc) })
}

/// Flags of `__tsan_mutex_*`.
const READ_LOCK: u32 = 1 << 3;
const TRY_LOCK: u32 = 1 << 4;
const TRY_LOCK_FAILED: u32 = 1 << 5;

unsafe extern "C" fn annotated_new(at: Pointer, _flags: u32, pc: usize) {
    if enter(thread::current(), Next::on(op::LOCK_NEW, pc, at as usize)) {
        record(op::LOCK_NEW, pc, at, lock::ANNOTATED);
    }
}

/// The lock is the program's own; nothing is known about its waiting, which the watchdog copes with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_mutex_pre_lock(_at: Pointer, _flags: u32) {}

unsafe extern "C" fn annotated_lock(at: Pointer, flags: u32, _recursion: c_int, pc: usize) {
    let code = if flags & READ_LOCK == 0 { op::LOCK } else { op::READ_LOCK };
    if flags & TRY_LOCK_FAILED == 0 && enter(thread::current(), Next::on(code, pc, at as usize)) {
        let tried = if flags & TRY_LOCK != 0 { lock::TRIED } else { 0 };
        record(code, pc, at, lock::ANNOTATED | tried);
    }
}

unsafe extern "C" fn annotated_unlock(at: Pointer, _flags: u32, pc: usize) -> c_int {
    if enter(thread::current(), Next::on(op::UNLOCK, pc, at as usize)) {
        record(op::UNLOCK, pc, at, lock::ANNOTATED);
    }
    1
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_mutex_post_unlock(_at: Pointer, _flags: u32) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_mutex_pre_signal(_at: Pointer, _flags: u32) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_mutex_post_signal(_at: Pointer, _flags: u32) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_mutex_pre_divert(_at: Pointer, _flags: u32) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_mutex_post_divert(_at: Pointer, _flags: u32) {}
