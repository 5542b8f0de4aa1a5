//! Reader/writer locks, over the real try-operations like [mutexes](super::locks).

use crate::base::c::{CLOCK_REALTIME, EBUSY, ETIMEDOUT, Pointer, Timespec, nanoseconds};
use crate::base::record::put3;
use crate::base::thread::inside;
use crate::interpose::locks::{Wanted, contend, record_failure, wake_anyway};
use crate::scheduler::observe;
use crate::scheduler::{Deadline, Next, enter, wake};
use crate::wire::{DESTROYED, head, lock, op};
use crate::{pass_on, stubs};
use core::ffi::c_int;

fn record(code: u8, pc: usize, address: Pointer, kind: u64) {
    put3(head(code, 0, pc), address as u64, kind);
    observe::holds(code, kind);
}

fn take_rwlock(at: Pointer, pc: usize, writes: bool, deadline: Deadline) -> c_int {
    let attempt = || match writes {
        true => pass_on!(pthread_rwlock_trywrlock(at: Pointer) -> c_int),
        false => pass_on!(pthread_rwlock_tryrdlock(at: Pointer) -> c_int),
    };
    let really = || match (writes, deadline) {
        (true, None) => pass_on!(pthread_rwlock_wrlock(at: Pointer) -> c_int),
        (false, None) => pass_on!(pthread_rwlock_rdlock(at: Pointer) -> c_int),
        (true, Some((clock, end))) => {
            let end = &Timespec::from_nanoseconds(end);
            pass_on!(pthread_rwlock_clockwrlock(at: Pointer, clock: c_int, end: *const Timespec) -> c_int)
        }
        (false, Some((clock, end))) => {
            let end = &Timespec::from_nanoseconds(end);
            pass_on!(pthread_rwlock_clockrdlock(at: Pointer, clock: c_int, end: *const Timespec) -> c_int)
        }
    };
    let code = if writes { op::LOCK } else { op::READ_LOCK };
    let Some(thread) = enter(Next::on(code, pc, at as usize)) else { return really() };
    inside(thread, || {
        let wanted = deadline.is_none().then_some(Wanted { pc, kind: lock::RWLOCK, reads: !writes });
        let result = contend(thread, at as usize, deadline, false, wanted, EBUSY, attempt, really);
        if result == 0 {
            let tried = if deadline.is_some() { lock::TRIED } else { 0 };
            record(code, pc, at, lock::RWLOCK | tried);
        } else if result == ETIMEDOUT {
            record_failure(pc, at, lock::RWLOCK, !writes);
        }
        result
    })
}

extern "C" fn rwlock_read(at: Pointer, pc: usize) -> c_int {
    take_rwlock(at, pc, false, None)
}

extern "C" fn rwlock_write(at: Pointer, pc: usize) -> c_int {
    take_rwlock(at, pc, true, None)
}

extern "C" fn rwlock_timed_read(at: Pointer, time: *const Timespec, pc: usize) -> c_int {
    take_rwlock(at, pc, false, Some((CLOCK_REALTIME, nanoseconds(time))))
}

extern "C" fn rwlock_timed_write(at: Pointer, time: *const Timespec, pc: usize) -> c_int {
    take_rwlock(at, pc, true, Some((CLOCK_REALTIME, nanoseconds(time))))
}

extern "C" fn rwlock_clock_read(at: Pointer, clock: c_int, time: *const Timespec, pc: usize) -> c_int {
    take_rwlock(at, pc, false, Some((clock, nanoseconds(time))))
}

extern "C" fn rwlock_clock_write(at: Pointer, clock: c_int, time: *const Timespec, pc: usize) -> c_int {
    take_rwlock(at, pc, true, Some((clock, nanoseconds(time))))
}

extern "C" fn rwlock_try_read(at: Pointer, pc: usize) -> c_int {
    let counts = enter(Next::on(op::READ_LOCK, pc, at as usize)).is_some();
    let result = pass_on!(pthread_rwlock_tryrdlock(at: Pointer) -> c_int);
    match result {
        0 if counts => record(op::READ_LOCK, pc, at, lock::RWLOCK | lock::TRIED),
        EBUSY if counts => record_failure(pc, at, lock::RWLOCK, true),
        _ => {}
    }
    result
}

extern "C" fn rwlock_try_write(at: Pointer, pc: usize) -> c_int {
    let counts = enter(Next::on(op::LOCK, pc, at as usize)).is_some();
    let result = pass_on!(pthread_rwlock_trywrlock(at: Pointer) -> c_int);
    match result {
        0 if counts => record(op::LOCK, pc, at, lock::RWLOCK | lock::TRIED),
        EBUSY if counts => record_failure(pc, at, lock::RWLOCK, false),
        _ => {}
    }
    result
}

extern "C" fn rwlock_unlock(at: Pointer, pc: usize) -> c_int {
    let really = || pass_on!(pthread_rwlock_unlock(at: Pointer) -> c_int);
    let Some(thread) = enter(Next::on(op::UNLOCK, pc, at as usize)) else {
        let result = really();
        wake_anyway(at, usize::MAX);
        return result;
    };
    inside(thread, || {
        let result = really();
        if result == 0 {
            record(op::UNLOCK, pc, at, lock::RWLOCK);
            wake(at as usize, usize::MAX, 0);
        }
        result
    })
}

extern "C" fn rwlock_init(at: Pointer, attributes: Pointer, pc: usize) -> c_int {
    if enter(Next::on(op::LOCK_NEW, pc, at as usize)).is_some() {
        record(op::LOCK_NEW, pc, at, lock::RWLOCK);
    }
    pass_on!(pthread_rwlock_init(at: Pointer, attributes: Pointer) -> c_int)
}

extern "C" fn rwlock_destroy(at: Pointer, pc: usize) -> c_int {
    if enter(Next::on(op::LOCK_NEW, pc, at as usize)).is_some() {
        put3(head(op::LOCK_NEW, DESTROYED, pc), at as u64, lock::RWLOCK);
    }
    pass_on!(pthread_rwlock_destroy(at: Pointer) -> c_int)
}

stubs! {
    pthread_rwlock_init "rdx" rwlock_init; pthread_rwlock_destroy "rsi" rwlock_destroy;
    pthread_rwlock_rdlock "rsi" rwlock_read; pthread_rwlock_wrlock "rsi" rwlock_write;
    pthread_rwlock_timedrdlock "rdx" rwlock_timed_read; pthread_rwlock_timedwrlock "rdx" rwlock_timed_write;
    pthread_rwlock_clockrdlock "rcx" rwlock_clock_read; pthread_rwlock_clockwrlock "rcx" rwlock_clock_write;
    pthread_rwlock_tryrdlock "rsi" rwlock_try_read; pthread_rwlock_trywrlock "rsi" rwlock_try_write;
    pthread_rwlock_unlock "rsi" rwlock_unlock;
}
