//! Sections that exclude each other, and locks.

use super::{note, put};
use crate::base::c::Pointer;
use crate::base::lock::Mutex;
use crate::base::thread::{Thread, inside};
use crate::pass_on;
use crate::scheduler::free_running::leave;
use crate::scheduler::{Next, block, enter, is_on, wake};
use crate::wire::{lock, op};
use core::ffi::c_int;

/// What guards sections that have no name.
static CRITICAL: u8 = 0;
static ATOMIC: u8 = 0;

/// A lock that a thread holds, and how often.
struct Held {
    object: usize,
    by: &'static Thread,
    count: usize,
}

/// Locks that are held. Whoever waits does so here, without spinning, and the library finds every lock free. The lock
/// of the list is held for a look or a change.
static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

/// Takes a lock. False if it is `tried` and another thread has it.
fn take(object: *const u8, tried: bool, call: impl FnOnce() -> bool) -> bool {
    let Some(thread) = enter(Next::on(op::LOCK, 0, object as usize)) else { return call() };
    let address = object as usize;
    let is_other = |held: &Held| held.object == address && held.by != thread;
    let is_taken = || is_on() && HELD.lock().iter().any(is_other);
    inside(thread, || {
        while !tried && is_taken() {
            block(thread, address, None);
            thread.starves.set(true);
        }
        thread.starves.set(false);
    });
    let taken = !is_taken() && call();
    if taken && is_on() {
        note_taken(address, thread);
        let detail = if tried { lock::TRIED } else { 0 };
        put(op::LOCK, object, lock::ANNOTATED | detail);
    }
    leave();
    taken
}

fn note_taken(object: usize, by: &'static Thread) {
    let mut all = HELD.lock();
    match all.iter_mut().find(|held| held.object == object) {
        Some(held) => held.count += 1,
        None => all.push(Held { object, by, count: 1 }),
    }
}

/// Whether a lock is free now that it was given back once.
fn note_given_back(object: usize) -> bool {
    let mut all = HELD.lock();
    let Some(index) = all.iter().position(|held| held.object == object) else { return false };
    all[index].count -= 1;
    let is_free = all[index].count == 0;
    if is_free {
        all.remove(index);
    }
    is_free
}

/// Gives a lock back.
fn give_back(object: *const u8, call: impl FnOnce()) {
    let Some(thread) = enter(Next::on(op::UNLOCK, 0, object as usize)) else { return call() };
    put(op::UNLOCK, object, lock::ANNOTATED);
    call();
    if note_given_back(object as usize) {
        inside(thread, || wake(object as usize, 1, 0));
    }
    leave();
}

macro_rules! guards {
    ($($start:ident $end:ident ($($at:ident: Pointer)?) $object:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $start($($at: Pointer)?) {
            take($object, false, || {
                pass_on!($start($($at: Pointer)?) -> ());
                true
            });
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $end($($at: Pointer)?) {
            give_back($object, || pass_on!($end($($at: Pointer)?) -> ()))
        }
    )*};
}

guards! {
    GOMP_critical_start GOMP_critical_end () &raw const CRITICAL;
    GOMP_atomic_start GOMP_atomic_end () &raw const ATOMIC;
    GOMP_critical_name_start GOMP_critical_name_end (at: Pointer) at as *const u8;
    omp_set_lock omp_unset_lock (at: Pointer) at as *const u8;
    omp_set_nest_lock omp_unset_nest_lock (at: Pointer) at as *const u8;
}

macro_rules! new_locks {
    ($($name:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(at: Pointer) {
            note(op::LOCK_NEW, at as *const u8);
            pass_on!($name(at: Pointer) -> ())
        }
    )*};
}

new_locks! { omp_init_lock; omp_init_nest_lock; omp_destroy_lock; omp_destroy_nest_lock; }

macro_rules! tried_locks {
    ($($name:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(at: Pointer) -> c_int {
            let mut result = 0;
            take(at as *const u8, true, || {
                result = pass_on!($name(at: Pointer) -> c_int);
                result != 0
            });
            result
        }
    )*};
}

tried_locks! { omp_test_lock; omp_test_nest_lock; }
