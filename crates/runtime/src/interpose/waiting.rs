//! Condition variables, semaphores and barriers. Who waits does so with us, but for what is shared with other processes: that is waited
//! for in the C library, without the token.

use crate::base::c::{self, CLOCK_MONOTONIC, CLOCK_REALTIME, EAGAIN, Pointer, Timespec};
use crate::base::memory::Global;
use crate::base::record::put3;
use crate::base::thread::{self, Thread, inside};
use crate::interpose::cancel;
use crate::interpose::locks::{Deadline, c11, contend, give_mutex, take_mutex};
use crate::interpose::signals::{self, WhileBlocked};
use crate::scheduler::free_running::is_free;
use crate::scheduler::token::{
    Next, acquire, block, block_cancellable, enter, is_on, next_notify, regain, release, step, wake,
};
use crate::wire::{head, op};
use crate::{real, stubs};
use core::ffi::{c_int, c_uint};

fn record(code: u8, pc: usize, a: Pointer, b: u64) {
    put3(head(code, 0, pc), a as u64, b);
}

// Condition variables are ours alone: the real one never has a waiter, and only its attributes are looked at. But for those that are
// shared with other processes.

fn wait(condition: Pointer, mutex: Pointer, deadline: Deadline, pc: usize) -> Option<c_int> {
    let thread = thread::current();
    if !enter(thread, Next::on(op::WAIT_BEGIN, pc, condition as usize)) {
        return None;
    }
    cancel::point(thread, pc);
    if is_shared(condition) {
        return Some(inside(thread, || wait_outside(thread, condition, mutex, deadline, pc)));
    }
    let mut interrupted = false;
    let result = inside(thread, || {
        record(op::WAIT_BEGIN, pc, condition, mutex as u64);
        let result = give_mutex(mutex);
        if result != 0 {
            record(op::WAKE, pc, condition, 0);
            record(op::WAIT_END, pc, condition, mutex as u64);
            return result;
        }
        // Signals end the wait, as if woken for no reason.
        let outside = unsafe { core::mem::replace(&mut (*thread).while_blocked, WhileBlocked::Return) };
        let timed_out = block_cancellable(thread, condition as usize, deadline);
        unsafe { (*thread).while_blocked = WhileBlocked::Defer };
        interrupted = unsafe { (*thread).interrupted } || !is_on();
        let notify = unsafe { (*thread).notified_by };
        if !is_on() {
            unsafe { (*thread).while_blocked = outside };
            // As if woken for no reason.
            return unsafe { real!(pthread_mutex_lock, fn(Pointer) -> c_int)(mutex) };
        }
        step(thread, Next::on(op::WAIT_END, pc, mutex as usize));
        record(op::WAKE, pc, condition, if timed_out { 0 } else { notify });
        let result = take_mutex(thread, mutex, None);
        unsafe { (*thread).while_blocked = outside };
        record(op::WAIT_END, pc, condition, mutex as u64);
        match (result, timed_out) {
            (0, true) => c::ETIMEDOUT,
            (result, _) => result,
        }
    });
    if interrupted {
        cancel::point(thread, pc);
    }
    if is_on() && signals::pending(unsafe { &*thread }) != 0 {
        signals::deliver(thread);
    }
    Some(result)
}

/// Whether threads of other processes may wait for it: bit 0 of glibc's __wrefs.
fn is_shared(condition: Pointer) -> bool {
    unsafe { *(condition as *const u32).add(9) & 1 != 0 }
}

/// Waits where other processes are seen, too. What woke it is not known; the mutex orders what matters.
fn wait_outside(thread: *mut Thread, condition: Pointer, mutex: Pointer, deadline: Deadline, pc: usize) -> c_int {
    record(op::WAIT_BEGIN, pc, condition, mutex as u64);
    release(thread);
    let result = match deadline {
        None => unsafe { real!(pthread_cond_wait, fn(Pointer, Pointer) -> c_int)(condition, mutex) },
        Some((clock, at)) => {
            let at = Timespec::from_nanoseconds(at);
            let real = real!(pthread_cond_clockwait, fn(Pointer, Pointer, c_int, *const Timespec) -> c_int);
            unsafe { real(condition, mutex, clock, &at) }
        }
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

unsafe extern "C" fn cond_wait(condition: Pointer, mutex: Pointer, pc: usize) -> c_int {
    wait(condition, mutex, None, pc)
        .unwrap_or_else(|| unsafe { real!(pthread_cond_wait, fn(Pointer, Pointer) -> c_int)(condition, mutex) })
}

unsafe extern "C" fn cond_timedwait(condition: Pointer, mutex: Pointer, at: *const Timespec, pc: usize) -> c_int {
    // Bit 1 of glibc's __wrefs: the clock chosen by the attributes.
    let monotonic = unsafe { *(condition as *const u32).add(9) } & 2 != 0;
    let clock = if monotonic { CLOCK_MONOTONIC } else { CLOCK_REALTIME };
    let deadline = Some((clock, unsafe { *at }.to_nanoseconds()));
    wait(condition, mutex, deadline, pc).unwrap_or_else(|| unsafe {
        real!(pthread_cond_timedwait, fn(Pointer, Pointer, *const Timespec) -> c_int)(condition, mutex, at)
    })
}

unsafe extern "C" fn cond_clockwait(
    condition: Pointer,
    mutex: Pointer,
    clock: c_int,
    at: *const Timespec,
    pc: usize,
) -> c_int {
    let deadline = Some((clock, unsafe { *at }.to_nanoseconds()));
    wait(condition, mutex, deadline, pc).unwrap_or_else(|| unsafe {
        real!(pthread_cond_clockwait, fn(Pointer, Pointer, c_int, *const Timespec) -> c_int)(
            condition, mutex, clock, at,
        )
    })
}

/// False if the real one has to be told, too.
fn notify(condition: Pointer, all: bool, pc: usize) -> bool {
    let thread = thread::current();
    if !enter(thread, Next::on(op::NOTIFY, pc, condition as usize)) {
        // An ignored thread may still wake others.
        if is_on() && !thread.is_null() && unsafe { (*thread).inside } == 0 {
            inside(thread, || {
                // Nobody may be about to wait right now.
                if is_free() {
                    regain(thread);
                }
                wake(condition as usize, if all { usize::MAX } else { 1 }, 0)
            });
        }
        return false;
    }
    let number = next_notify();
    record(if all { op::NOTIFY_ALL } else { op::NOTIFY }, pc, condition, number);
    inside(thread, || wake(condition as usize, if all { usize::MAX } else { 1 }, number));
    !is_shared(condition)
}

unsafe extern "C" fn cond_signal(condition: Pointer, pc: usize) -> c_int {
    match notify(condition, false, pc) {
        true => 0,
        false => unsafe { real!(pthread_cond_signal, fn(Pointer) -> c_int)(condition) },
    }
}

unsafe extern "C" fn cond_broadcast(condition: Pointer, pc: usize) -> c_int {
    match notify(condition, true, pc) {
        true => 0,
        false => unsafe { real!(pthread_cond_broadcast, fn(Pointer) -> c_int)(condition) },
    }
}

unsafe extern "C" fn cond_init(condition: Pointer, attributes: Pointer, pc: usize) -> c_int {
    if enter(thread::current(), Next::on(op::CONDITION_NEW, pc, condition as usize)) {
        record(op::CONDITION_NEW, pc, condition, 0);
    }
    unsafe { real!(pthread_cond_init, fn(Pointer, Pointer) -> c_int)(condition, attributes) }
}

unsafe extern "C" fn c11_wait(condition: Pointer, mutex: Pointer, pc: usize) -> c_int {
    c11(unsafe { cond_wait(condition, mutex, pc) })
}

unsafe extern "C" fn c11_timedwait(condition: Pointer, mutex: Pointer, at: *const Timespec, pc: usize) -> c_int {
    c11(unsafe { cond_timedwait(condition, mutex, at, pc) })
}

// Semaphores.

fn count_of(semaphore: Pointer) -> u64 {
    let mut count: c_int = 0;
    unsafe { real!(sem_getvalue, fn(Pointer, *mut c_int) -> c_int)(semaphore, &mut count) };
    count.max(0) as u64
}

fn sem_take(semaphore: Pointer, deadline: Deadline, pc: usize) -> Option<c_int> {
    let thread = thread::current();
    if !enter(thread, Next::on(op::SEM_WAIT, pc, semaphore as usize)) {
        return None;
    }
    let attempt = || match unsafe { real!(sem_trywait, fn(Pointer) -> c_int)(semaphore) } {
        0 => 0,
        _ => c::errno(),
    };
    let really = || match unsafe { real!(sem_wait, fn(Pointer) -> c_int)(semaphore) } {
        0 => 0,
        _ => c::errno(),
    };
    cancel::point(thread, pc);
    let result = inside(thread, || {
        let result = contend(thread, semaphore as usize, deadline, true, EAGAIN, attempt, really);
        if result == 0 {
            record(op::SEM_WAIT, pc, semaphore, count_of(semaphore) + 1);
            return 0;
        }
        c::set_errno(result);
        -1
    });
    if result != 0 && c::errno() == c::EINTR {
        cancel::point(thread, pc);
    }
    Some(result)
}

unsafe extern "C" fn semaphore_wait(semaphore: Pointer, pc: usize) -> c_int {
    sem_take(semaphore, None, pc).unwrap_or_else(|| unsafe { real!(sem_wait, fn(Pointer) -> c_int)(semaphore) })
}

unsafe extern "C" fn semaphore_timedwait(semaphore: Pointer, at: *const Timespec, pc: usize) -> c_int {
    sem_take(semaphore, Some((CLOCK_REALTIME, unsafe { *at }.to_nanoseconds())), pc)
        .unwrap_or_else(|| unsafe { real!(sem_timedwait, fn(Pointer, *const Timespec) -> c_int)(semaphore, at) })
}

unsafe extern "C" fn semaphore_clockwait(semaphore: Pointer, clock: c_int, at: *const Timespec, pc: usize) -> c_int {
    sem_take(semaphore, Some((clock, unsafe { *at }.to_nanoseconds())), pc).unwrap_or_else(|| unsafe {
        real!(sem_clockwait, fn(Pointer, c_int, *const Timespec) -> c_int)(semaphore, clock, at)
    })
}

unsafe extern "C" fn semaphore_trywait(semaphore: Pointer, pc: usize) -> c_int {
    let counts = enter(thread::current(), Next::on(op::SEM_WAIT, pc, semaphore as usize));
    let result = unsafe { real!(sem_trywait, fn(Pointer) -> c_int)(semaphore) };
    if counts && result == 0 {
        record(op::SEM_WAIT, pc, semaphore, count_of(semaphore) + 1);
    }
    result
}

unsafe extern "C" fn semaphore_post(semaphore: Pointer, pc: usize) -> c_int {
    let thread = thread::current();
    let counts = enter(thread, Next::on(op::SEM_POST, pc, semaphore as usize));
    if counts {
        record(op::SEM_POST, pc, semaphore, count_of(semaphore));
    }
    let result = unsafe { real!(sem_post, fn(Pointer) -> c_int)(semaphore) };
    if is_on() && !thread.is_null() && unsafe { (*thread).inside } == 0 {
        inside(thread, || wake(semaphore as usize, 1, 0));
    }
    result
}

unsafe extern "C" fn semaphore_init(semaphore: Pointer, shared: c_int, count: c_uint, pc: usize) -> c_int {
    if enter(thread::current(), Next::on(op::SEM_NEW, pc, semaphore as usize)) {
        record(op::SEM_NEW, pc, semaphore, count as u64);
    }
    unsafe { real!(sem_init, fn(Pointer, c_int, c_uint) -> c_int)(semaphore, shared, count) }
}

// Barriers are counted here: the real one would block.

struct Barrier {
    address: usize,
    parties: u32,
    inside: u32,
    /// Threads of generations that are complete which have not left yet.
    leaving: u32,
    generation: u64,
}

/// Guarded by the token.
static BARRIERS: Global<Vec<Barrier>> = Global::new(Vec::new());

/// What those wait for who want to destroy a barrier.
fn end_of(at: Pointer) -> usize {
    at as usize + 1
}

fn barrier(address: usize) -> Option<&'static mut Barrier> {
    unsafe { (*BARRIERS.get()).iter_mut().find(|b| b.address == address) }
}

unsafe extern "C" fn barrier_init(at: Pointer, attributes: Pointer, parties: c_uint, pc: usize) -> c_int {
    let thread = thread::current();
    let result = unsafe { real!(pthread_barrier_init, fn(Pointer, Pointer, c_uint) -> c_int)(at, attributes, parties) };
    // Threads of other processes may come to it: only the C library knows.
    let is_shared = !attributes.is_null() && unsafe { *(attributes as *const c_int) } != 0;
    if result == 0 && enter(thread, Next::on(op::BARRIER_NEW, pc, at as usize)) {
        let all = unsafe { &mut *BARRIERS.get() };
        all.retain(|b| b.address != at as usize);
        if is_shared {
            return result;
        }
        all.push(Barrier { address: at as usize, parties, inside: 0, leaving: 0, generation: 0 });
        record(op::BARRIER_NEW, pc, at, parties as u64);
    }
    result
}

/// It may be destroyed as soon as one thread has left; the C library waits for the others.
unsafe extern "C" fn barrier_destroy(at: Pointer, pc: usize) -> c_int {
    let thread = thread::current();
    if enter(thread, Next::on(op::BARRIER_NEW, pc, at as usize)) {
        inside(thread, || {
            while is_on() && barrier(at as usize).is_some_and(|b| b.leaving > 0) {
                block(thread, end_of(at), None);
            }
        });
    }
    if is_on() && enter(thread, Next::on(op::BARRIER_NEW, pc, at as usize)) {
        unsafe { (*BARRIERS.get()).retain(|b| b.address != at as usize) };
        record(op::BARRIER_NEW, pc, at, 0);
    }
    unsafe { real!(pthread_barrier_destroy, fn(Pointer) -> c_int)(at) }
}

unsafe extern "C" fn barrier_wait(at: Pointer, pc: usize) -> c_int {
    let thread = thread::current();
    // The list is guarded by the token.
    let enters = Next::on(op::BARRIER_ENTER, pc, at as usize);
    let entered = is_free() && enter(thread, enters);
    let known = is_on() && (entered || !is_free()) && barrier(at as usize).is_some();
    if !known || !(entered || enter(thread, enters)) {
        // Shared with other processes, perhaps: then those who enter are more than we see.
        if enter(thread, enters) {
            record(op::BARRIER_ENTER, pc, at, 0);
            inside(thread, || release(thread));
        }
        let result = unsafe { real!(pthread_barrier_wait, fn(Pointer) -> c_int)(at) };
        if enter(thread, Next::on(op::BARRIER_LEAVE, pc, at as usize)) {
            record(op::BARRIER_LEAVE, pc, at, 0);
        }
        return result;
    }
    const SERIAL_THREAD: c_int = -1;
    inside(thread, || {
        record(op::BARRIER_ENTER, pc, at, 0);
        let (mut result, mut leaves) = (0, false);
        let Some(this) = barrier(at as usize) else { return 0 };
        this.inside += 1;
        if this.inside == this.parties {
            this.inside = 0;
            this.leaving += this.parties - 1;
            this.generation += 1;
            wake(at as usize, usize::MAX, 0);
            result = SERIAL_THREAD;
        } else {
            let generation = this.generation;
            while is_on() && barrier(at as usize).is_some_and(|b| b.generation == generation) {
                block(thread, at as usize, None);
            }
            leaves = true;
        }
        if is_on() {
            step(thread, Next::on(op::BARRIER_LEAVE, pc, at as usize));
            record(op::BARRIER_LEAVE, pc, at, 0);
            if let Some(this) = barrier(at as usize).filter(|_| leaves) {
                this.leaving = this.leaving.saturating_sub(1);
                if this.leaving == 0 {
                    wake(end_of(at), usize::MAX, 0);
                }
            }
        }
        result
    })
}

unsafe extern "C" fn annotated_acquire(at: Pointer, pc: usize) {
    if enter(thread::current(), Next::on(op::SYNC_ACQUIRE, pc, at as usize)) {
        record(op::SYNC_ACQUIRE, pc, at, 0);
    }
}

unsafe extern "C" fn annotated_release(at: Pointer, pc: usize) {
    if enter(thread::current(), Next::on(op::SYNC_RELEASE, pc, at as usize)) {
        record(op::SYNC_RELEASE, pc, at, 0);
    }
}

stubs! {
    pthread_cond_init "rdx" cond_init;
    pthread_cond_wait "rdx" cond_wait; pthread_cond_timedwait "rcx" cond_timedwait;
    pthread_cond_clockwait "r8" cond_clockwait;
    pthread_cond_signal "rsi" cond_signal; pthread_cond_broadcast "rsi" cond_broadcast;
    cnd_wait "rdx" c11_wait; cnd_timedwait "rcx" c11_timedwait; cnd_signal "rsi" cond_signal;
    cnd_broadcast "rsi" cond_broadcast;
    sem_init "rcx" semaphore_init; sem_wait "rsi" semaphore_wait; sem_trywait "rsi" semaphore_trywait; sem_timedwait "rdx" semaphore_timedwait;
    sem_clockwait "rcx" semaphore_clockwait; sem_post "rsi" semaphore_post;
    pthread_barrier_init "rcx" barrier_init; pthread_barrier_destroy "rsi" barrier_destroy;
    pthread_barrier_wait "rsi" barrier_wait;
    __tsan_acquire "rsi" annotated_acquire; __tsan_release "rsi" annotated_release;
}
