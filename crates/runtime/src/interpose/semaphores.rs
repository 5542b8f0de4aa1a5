//! POSIX semaphores: the real one counts, and threads that have to wait do so in the scheduler.

use crate::base::c::{self, CLOCK_REALTIME, EAGAIN, Pointer, Timespec, nanoseconds};
use crate::base::program::Address;
use crate::base::record::put3;
use crate::base::thread::inside;
use crate::interpose::cancel;
use crate::interpose::library::effects::{fills, writes};
use crate::interpose::library::in_turn;
use crate::interpose::locks::{contend, wake_anyway};
use crate::scheduler::{Deadline, Next, enter};
use crate::wire::{DESTROYED, head, op};
use crate::{pass_on, stubs};
use core::ffi::{c_int, c_uint};

fn record(code: u8, pc: usize, a: Pointer, b: u64) {
    put3(head(code, 0, pc), a as u64, b);
}

fn count_of(semaphore: Pointer) -> u64 {
    let mut count: c_int = 0;
    let result = &mut count;
    pass_on!(sem_getvalue(semaphore: Pointer, result: *mut c_int) -> c_int);
    count.max(0) as u64
}

fn sem_take(semaphore: Pointer, deadline: Deadline, pc: usize) -> Option<c_int> {
    let thread = enter(Next::on(op::SEM_WAIT, pc, semaphore as usize))?;
    let attempt = || match pass_on!(sem_trywait(semaphore: Pointer) -> c_int) {
        0 => 0,
        _ => c::errno(),
    };
    let really = || match pass_on!(sem_wait(semaphore: Pointer) -> c_int) {
        0 => 0,
        _ => c::errno(),
    };
    cancel::point(thread, pc);
    let result = inside(thread, || {
        let result = contend(thread, semaphore as usize, deadline, true, None, EAGAIN, attempt, really);
        if result == 0 {
            record(op::SEM_WAIT, pc, semaphore, count_of(semaphore) + 1);
            return 0;
        }
        if result == c::ETIMEDOUT {
            record(op::SEM_COUNT, pc, semaphore, count_of(semaphore));
        }
        c::set_errno(result);
        -1
    });
    if result != 0 && c::errno() == c::EINTR {
        cancel::point(thread, pc);
    }
    Some(result)
}

extern "C" fn semaphore_wait(semaphore: Pointer, pc: usize) -> c_int {
    sem_take(semaphore, None, pc).unwrap_or_else(|| pass_on!(sem_wait(semaphore: Pointer) -> c_int))
}

extern "C" fn semaphore_timedwait(semaphore: Pointer, at: *const Timespec, pc: usize) -> c_int {
    sem_take(semaphore, Some((CLOCK_REALTIME, nanoseconds(at))), pc)
        .unwrap_or_else(|| pass_on!(sem_timedwait(semaphore: Pointer, at: *const Timespec) -> c_int))
}

extern "C" fn semaphore_clockwait(semaphore: Pointer, clock: c_int, at: *const Timespec, pc: usize) -> c_int {
    sem_take(semaphore, Some((clock, nanoseconds(at))), pc)
        .unwrap_or_else(|| pass_on!(sem_clockwait(semaphore: Pointer, clock: c_int, at: *const Timespec) -> c_int))
}

extern "C" fn semaphore_trywait(semaphore: Pointer, pc: usize) -> c_int {
    let counts = enter(Next::on(op::SEM_WAIT, pc, semaphore as usize)).is_some();
    let result = pass_on!(sem_trywait(semaphore: Pointer) -> c_int);
    if counts && result == 0 {
        record(op::SEM_WAIT, pc, semaphore, count_of(semaphore) + 1);
    } else if counts && c::errno() == EAGAIN {
        record(op::SEM_COUNT, pc, semaphore, 0);
    }
    result
}

extern "C" fn semaphore_value(semaphore: Pointer, result: *mut c_int, pc: usize) -> c_int {
    let to = result as usize;
    in_turn(
        pc,
        || fills(to, size_of::<c_int>()),
        || pass_on!(sem_getvalue(semaphore: Pointer, result: *mut c_int) -> c_int),
        |answer| {
            if *answer == 0 {
                record(op::SEM_COUNT, pc, semaphore, Address::from(result).read::<c_int>().max(0) as u64);
                writes(to, size_of::<c_int>());
            }
        },
    )
}

extern "C" fn semaphore_post(semaphore: Pointer, pc: usize) -> c_int {
    if enter(Next::on(op::SEM_POST, pc, semaphore as usize)).is_some() {
        record(op::SEM_POST, pc, semaphore, count_of(semaphore));
    }
    let result = pass_on!(sem_post(semaphore: Pointer) -> c_int);
    wake_anyway(semaphore, 1);
    result
}

extern "C" fn semaphore_init(semaphore: Pointer, shared: c_int, count: c_uint, pc: usize) -> c_int {
    if enter(Next::on(op::SEM_NEW, pc, semaphore as usize)).is_some() {
        record(op::SEM_NEW, pc, semaphore, count as u64);
    }
    pass_on!(sem_init(semaphore: Pointer, shared: c_int, count: c_uint) -> c_int)
}

extern "C" fn semaphore_destroy(semaphore: Pointer, pc: usize) -> c_int {
    if enter(Next::on(op::SEM_NEW, pc, semaphore as usize)).is_some() {
        put3(head(op::SEM_NEW, DESTROYED, pc), semaphore as u64, 0);
    }
    pass_on!(sem_destroy(semaphore: Pointer) -> c_int)
}

stubs! {
    sem_init "rcx" semaphore_init; sem_wait "rsi" semaphore_wait; sem_trywait "rsi" semaphore_trywait;
    sem_timedwait "rdx" semaphore_timedwait; sem_clockwait "rcx" semaphore_clockwait; sem_post "rsi" semaphore_post;
    sem_getvalue "rdx" semaphore_value; sem_destroy "rsi" semaphore_destroy;
}
