//! Semaphores of libraries, over their own try-functions. Nobody asks the library how many there are: the trace counts
//! from what the semaphore was made with, or from the first wait.

use super::locks::{attempt, deadline_of};
use super::{Arguments, Modelled, Pending, is_success, result_of, without_token};
use crate::base::c::EBUSY;
use crate::base::record::put3;
use crate::base::thread::inside;
use crate::interpose::locks::contend;
use crate::scheduler::{Next, enter, wake};
use crate::wire::models::{NEVER_WAITS, effect, success};
use crate::wire::{DESTROYED, head, op};

/// A failed attempt finds nothing.
fn record(taken: bool, at: usize, pc: usize) {
    match taken {
        true => put3(head(op::SEM_WAIT, 0, pc), at as u64, 1),
        false => put3(head(op::SEM_COUNT, 0, pc), at as u64, 0),
    };
}

pub fn take(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (entry, pc) = (&modelled.entry, arguments.pc);
    let at = arguments.get(entry.object);
    if entry.flags & NEVER_WAITS != 0 {
        let Some(thread) = enter(Next::on(op::SEM_WAIT, pc, at)) else { return Pending::CALL };
        let result = inside(thread, || arguments.call());
        record(is_success(entry.success, result), at, pc);
        return Pending::done(result);
    }
    let Some(by) = modelled.attempt else {
        return without_token(
            arguments,
            || (),
            |result| {
                if is_success(entry.success, result) {
                    record(true, at, pc);
                }
            },
        );
    };
    let Some(thread) = enter(Next::on(op::SEM_WAIT, pc, at)) else { return Pending::CALL };
    let attempt = || attempt(modelled, || by.call(arguments));
    let really = || if is_success(entry.success, arguments.call()) { 0 } else { EBUSY };
    let deadline = deadline_of(modelled, arguments);
    let result = inside(thread, || contend(thread, at, deadline, false, None, EBUSY, attempt, really));
    record(result == 0, at, pc);
    let kind = if entry.success == success::ALWAYS { success::NONZERO } else { entry.success };
    Pending::done(result_of(kind, result == 0))
}

pub fn post(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (at, pc) = (arguments.get(modelled.entry.object), arguments.pc);
    let Some(thread) = enter(Next::on(op::SEM_POST, pc, at)) else {
        let result = arguments.call();
        crate::interpose::locks::wake_anyway(at as *mut _, usize::MAX);
        return Pending::done(result);
    };
    put3(head(op::SEM_POST, 0, pc), at as u64, 0);
    let result = inside(thread, || {
        let result = arguments.call();
        wake(at, usize::MAX, 0);
        result
    });
    Pending::done(result)
}

pub fn renew(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (entry, pc) = (&modelled.entry, arguments.pc);
    let at = arguments.get(entry.object);
    if enter(Next::on(op::SEM_NEW, pc, at)).is_some() {
        let is_made = entry.effect == effect::CREATE_SEMAPHORE;
        let count = if is_made { arguments.get(entry.second) as u32 as u64 } else { 0 };
        put3(head(op::SEM_NEW, if is_made { 0 } else { DESTROYED }, pc), at as u64, count);
    }
    Pending::CALL
}
