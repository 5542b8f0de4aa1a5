//! Locks of libraries: threads wait in the scheduler, over the library's own try-function.

use super::{Arguments, Modelled, Pending, is_success, result_of, without_token};
use crate::base::c::{self, CLOCK_MONOTONIC, CLOCK_REALTIME, EBUSY, ETIMEDOUT, Pointer, Timespec};
use crate::base::program::Address;
use crate::base::record::put3;
use crate::base::thread::{Thread, inside};
use crate::interpose::locks::{Wanted, contend, record_failure};
use crate::scheduler::observe;
use crate::scheduler::{Deadline, Next, enter, wake};
use crate::wire::models::{NEVER_WAITS, READS, SHARED, effect, limit, success};
use crate::wire::{DESTROYED, PART, head, lock, op};
use core::ffi::c_int;

/// The lock that a call is about.
pub fn lock_of(modelled: &Modelled, arguments: &Arguments) -> usize {
    let address = arguments.get(modelled.entry.object);
    match modelled.entry.part {
        0 => address,
        // Several locks at one address, each with a number.
        part => ((PART as usize) * (1 + (arguments.get(part) & 63))) | (address & (PART as usize - 1)),
    }
}

fn kind_of(modelled: &Modelled) -> u64 {
    if modelled.entry.flags & SHARED != 0 { lock::RWLOCK } else { lock::MUTEX }
}

/// The time up to which a call waits at most; `Some(None)` if it does not wait at all.
pub fn deadline_of(modelled: &Modelled, arguments: &Arguments) -> Deadline {
    let entry = &modelled.entry;
    let value = arguments.get(entry.limit);
    let from_now = |nanoseconds: u64| Some((CLOCK_MONOTONIC, c::now(CLOCK_MONOTONIC).saturating_add(nanoseconds)));
    let microseconds = |value: usize| (value as i64).max(0).unsigned_abs().saturating_mul(1000);
    match entry.unit {
        limit::UNTIL_MONOTONIC_MICROSECONDS => Some((CLOCK_MONOTONIC, microseconds(value))),
        limit::FOR_MICROSECONDS => from_now(microseconds(value)),
        limit::FOR_MILLISECONDS if (value as i32) < 0 => None,
        limit::FOR_MILLISECONDS => from_now((value as u32 as u64) * 1_000_000),
        limit::UNTIL_TIMEVAL | limit::UNTIL_TIMESPEC | limit::FOR_TIMESPEC if value == 0 => None,
        limit::UNTIL_TIMEVAL => {
            let time = Address(value).read::<Timespec>();
            let time = Timespec { nanoseconds: time.nanoseconds.saturating_mul(1000), ..time };
            Some((CLOCK_REALTIME, time.to_nanoseconds()))
        }
        limit::UNTIL_TIMESPEC => Some((CLOCK_REALTIME, Address(value).read::<Timespec>().to_nanoseconds())),
        limit::FOR_TIMESPEC => from_now(Address(value).read::<Timespec>().to_nanoseconds()),
        _ => None,
    }
}

/// An attempt by the library's own function: 0, or that it is busy.
pub fn attempt(modelled: &Modelled, by: impl FnOnce() -> usize) -> c_int {
    if is_success(modelled.entry.attempt_success, by()) { 0 } else { EBUSY }
}

fn record(code: u8, pc: usize, at: usize, kind: u64) {
    put3(head(code, 0, pc), at as u64, kind);
    observe::holds(code, kind);
}

pub fn acquire(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (entry, pc) = (&modelled.entry, arguments.pc);
    let (at, kind, reads) = (lock_of(modelled, arguments), kind_of(modelled), entry.flags & READS != 0);
    let code = if reads { op::READ_LOCK } else { op::LOCK };
    let failed = || record_failure(pc, at as Pointer, kind, reads);
    if entry.flags & NEVER_WAITS != 0 {
        let Some(thread) = enter(Next::on(code, pc, at)) else { return Pending::CALL };
        let result = inside(thread, || arguments.call());
        match is_success(entry.success, result) {
            true => record(code, pc, at, kind | lock::TRIED),
            false => failed(),
        }
        return Pending::done(result);
    }
    let Some(by) = modelled.attempt else {
        return without_token(
            arguments,
            || (),
            |result| {
                if is_success(entry.success, result) {
                    record(code, pc, at, kind);
                }
            },
        );
    };
    let Some(thread) = enter(Next::on(code, pc, at)) else { return Pending::CALL };
    let deadline = deadline_of(modelled, arguments);
    let wanted = deadline.is_none().then_some(Wanted { pc, kind, reads });
    let attempt = || attempt(modelled, || by.call(arguments));
    // Where recording ends meanwhile, the library decides.
    let really = || if is_success(entry.success, arguments.call()) { 0 } else { ETIMEDOUT };
    let result = inside(thread, || contend(thread, at, deadline, false, wanted, EBUSY, attempt, really));
    match result {
        0 => record(code, pc, at, kind | if deadline.is_some() { lock::TRIED } else { 0 }),
        _ => failed(),
    }
    let kind = if entry.success == success::ALWAYS { success::NONZERO } else { entry.success };
    Pending::done(result_of(kind, result == 0))
}

pub fn release(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (at, pc) = (lock_of(modelled, arguments), arguments.pc);
    let Some(thread) = enter(Next::on(op::UNLOCK, pc, at)) else {
        let result = arguments.call();
        crate::interpose::locks::wake_anyway(at as Pointer, usize::MAX);
        return Pending::done(result);
    };
    // First the event: somebody who waits for the lock where nobody sees it may have it as soon as it is free.
    record(op::UNLOCK, pc, at, kind_of(modelled));
    let result = inside(thread, || {
        let result = arguments.call();
        // Any number of readers, or one writer.
        wake(at, usize::MAX, 0);
        result
    });
    Pending::done(result)
}

/// Gives a lock back in the middle of a wait. No events.
pub fn give(modelled: &Modelled, lock: usize) -> c_int {
    if let Some(release) = modelled.release {
        release.with([lock, 0, 0, 0, 0, 0]);
    }
    wake(lock, usize::MAX, 0);
    0
}

/// Takes it again. No events.
pub fn take(thread: &'static Thread, modelled: &Modelled, lock: usize, pc: usize, really: impl FnOnce()) -> c_int {
    let attempt = || attempt(modelled, || modelled.attempt.map_or(0, |by| by.with([lock, 0, 0, 0, 0, 0])));
    let wanted = Some(Wanted { pc, kind: lock::MUTEX, reads: false });
    let really = || {
        really();
        0
    };
    contend(thread, lock, None, false, wanted, EBUSY, attempt, really)
}

pub fn renew(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (at, pc) = (lock_of(modelled, arguments), arguments.pc);
    let detail = if modelled.entry.effect == effect::DESTROY_LOCK { DESTROYED } else { 0 };
    if enter(Next::on(op::LOCK_NEW, pc, at)).is_some() {
        put3(head(op::LOCK_NEW, detail, pc), at as u64, kind_of(modelled));
    }
    Pending::CALL
}
