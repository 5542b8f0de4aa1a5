//! Conditions of libraries: if the model says how their lock is taken and given back, threads wait in the scheduler, and
//! the library's condition never has a waiter; otherwise in the library, without the token.

use super::locks::{deadline_of, give, take};
use super::{Arguments, Modelled, Pending, is_success, result_of};
use crate::base::c::Pointer;
use crate::base::record::put3;
use crate::base::thread::inside;
use crate::interpose::conditions::{Released, notify_in_scheduler, wait_in_scheduler};
use crate::interpose::signals;
use crate::scheduler::{Next, acquire, enter, is_on, release, step};
use crate::wire::models::{effect, success};
use crate::wire::{DESTROYED, head, op};

pub fn wait(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (entry, pc) = (&modelled.entry, arguments.pc);
    let (condition, lock) = (arguments.get(entry.object), arguments.get(entry.second));
    let Some(thread) = enter(Next::on(op::WAIT_BEGIN, pc, condition)) else { return Pending::CALL };
    if modelled.attempt.is_none() {
        let record = |code: u8, b: u64| put3(head(code, 0, pc), condition as u64, b);
        let result = inside(thread, || {
            record(op::WAIT_BEGIN, lock as u64);
            release(thread);
            let result = arguments.call();
            if is_on() {
                acquire(thread);
            }
            if is_on() {
                step(thread, Next::on(op::WAIT_END, pc, lock));
                // What woke it is not known; the lock orders what matters.
                record(op::WAKE, 0);
                record(op::WAIT_END, lock as u64);
            }
            result
        });
        return Pending::done(result);
    }
    let deadline = deadline_of(modelled, arguments);
    let really = || {
        // Nobody notifies the library's condition for this wait: it is over.
        while !attempt_succeeds(modelled, lock) {
            crate::base::kernel::yield_processor();
        }
    };
    let released = Released {
        give: || give(modelled, lock),
        take: || take(thread, modelled, lock, pc, really),
        again: || {
            really();
            0
        },
    };
    let (result, _) = wait_in_scheduler(thread, condition as Pointer, lock as Pointer, deadline, pc, released);
    if is_on() && signals::pending(thread) != 0 {
        signals::deliver(thread);
    }
    let kind = if entry.success == success::ALWAYS { success::NONZERO } else { entry.success };
    Pending::done(result_of(kind, result == 0))
}

fn attempt_succeeds(modelled: &Modelled, lock: usize) -> bool {
    modelled.attempt.is_none_or(|by| is_success(modelled.entry.attempt_success, by.with([lock, 0, 0, 0, 0, 0])))
}

/// The library is notified as well: code that is not instrumented may wait there.
pub fn notify(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let condition = arguments.get(modelled.entry.object);
    notify_in_scheduler(condition as Pointer, modelled.entry.effect == effect::NOTIFY_ALL, arguments.pc);
    Pending::CALL
}

pub fn renew(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (condition, pc) = (arguments.get(modelled.entry.object), arguments.pc);
    let detail = if modelled.entry.effect == effect::DESTROY_CONDITION { DESTROYED } else { 0 };
    if enter(Next::on(op::CONDITION_NEW, pc, condition)).is_some() {
        put3(head(op::CONDITION_NEW, detail, pc), condition as u64, 0);
    }
    Pending::CALL
}
