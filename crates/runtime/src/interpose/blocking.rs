//! Calls that may block. The thread releases the token around the call and takes it again afterwards.
//!
//! What the kernel writes into memory is an event, and what one thread writes into a pipe or socket happens before what
//! another reads from it. Each call takes two steps, one before and one after, whether it blocks or not.
//! [`calls`](super::calls) lists them.

use crate::base::c::{self, Pointer};
use crate::base::kernel;
use crate::base::program::Address;
use crate::base::record::{put_range, put_range_without_contents, put3};
use crate::base::thread::{self, inside};
use crate::interpose::{cancel, signals};
use crate::scheduler::free_running::{is_free, leaving};
use crate::scheduler::{Next, acquire, enter, is_on, release, step, yield_now};
use crate::wire::{head, op};
use core::ffi::c_int;

/// Releases the token around a call.
pub fn around<R>(call: impl FnOnce() -> R) -> R {
    around_with(0, None, || (), call, |_| ())
}

/// Whether a call that ended like this was interrupted by a signal; only for cancellation points.
pub type IsInterrupted<R> = Option<fn(&R) -> bool>;

/// For calls that set errno.
pub fn by_errno<R>(_: &R) -> bool {
    c::errno() == c::EINTR
}

/// The same, with events before and after the call.
#[inline]
pub fn around_with<R>(
    pc: usize,
    is_interrupted: IsInterrupted<R>,
    before: impl FnOnce(),
    call: impl FnOnce() -> R,
    after: impl FnOnce(&R),
) -> R {
    let Some(thread) = thread::current().filter(|thread| is_on() && thread.is_outside()) else { return call() };
    if enter(Next::call(pc)).is_none() {
        return call();
    }
    let mut interrupted = false;
    if is_interrupted.is_some() {
        cancel::point(thread, pc);
    }
    let errno_before = c::errno();
    let result = inside(thread, || {
        thread.call_pc.set(pc);
        before();
        release(thread);
        let outside = thread.cancellable.replace(is_interrupted.is_some());
        thread.in_call.set(true);
        if signals::pending(thread) != 0 {
            signals::deliver_in_call(thread);
        }
        c::set_errno(0);
        let result = call();
        interrupted = is_interrupted.is_some_and(|is| is(&result));
        // A call that goes well leaves errno alone.
        let error = if c::errno() == 0 { errno_before } else { c::errno() };
        thread.in_call.set(false);
        thread.cancellable.set(outside);
        if is_on() {
            acquire(thread);
            if is_on() {
                // A signal handler may have made calls of its own.
                thread.call_pc.set(pc);
                step(thread, Next::call(pc));
                after(&result);
            }
        }
        c::set_errno(error);
        result
    });
    if interrupted && cancel::is_requested(thread) {
        cancel::point(thread, pc);
    }
    result
}

/// Where the call was made from that the thread is in.
pub fn call_pc() -> usize {
    thread::current().map_or(0, |thread| thread.call_pc.get())
}

pub fn writes(at: Pointer, length: usize) {
    if length > 0 && !at.is_null() {
        put_range(op::RANGE_WRITE, call_pc(), at as usize, length);
    }
}

/// What a call has put there that comes from outside.
pub fn writes_from_outside(at: Pointer, length: usize) {
    if length > 0 && !at.is_null() {
        put_range_without_contents(op::RANGE_WRITE, call_pc(), at as usize, length);
    }
}

/// What a call reads and hands to the outside.
pub fn reads_for_outside(at: Pointer, length: usize) {
    if length > 0 && !at.is_null() {
        put_range_without_contents(op::RANGE_READ, call_pc(), at as usize, length);
        may_read(at, length);
    }
}

/// Announces what a call that is about to be made may write.
pub fn may_write(at: Pointer, length: usize) {
    if is_free() && length > 0 && !at.is_null() {
        put3(head(op::MAY_TOUCH, 0, 0), at as u64, length as u64 | 1 << 63);
    }
}

pub fn may_read(at: Pointer, length: usize) {
    if is_free() {
        put3(head(op::MAY_TOUCH, 0, 0), at as u64, length as u64);
    }
}

/// The same for what the kernel looks at: it reports bad addresses, so nothing may be touched there if there is none.
pub fn gives_kernel(at: Pointer, length: usize) {
    if length > 0 && is_there(at as usize, length) {
        reads(at, length);
    }
}

/// The same for a text.
pub fn gives_kernel_text(at: Pointer) {
    const PAGE: usize = 4096;
    let (first, mut length) = (at as usize, 0);
    while !at.is_null() && is_there(first + length, 1) {
        let most = PAGE - (first + length) % PAGE;
        let found = Address(first + length).text_length(most);
        length += found;
        if found < most {
            return reads_for_outside(at, length + 1);
        }
    }
}

/// Whether memory can be read at both ends of a range.
fn is_there(at: usize, length: usize) -> bool {
    const PAGE: usize = 4096;
    let last = at.wrapping_add(length - 1);
    kernel::can_read(at) && (at / PAGE == last / PAGE || kernel::can_read(last))
}

pub fn reads(at: Pointer, length: usize) {
    if length > 0 && !at.is_null() {
        put_range(op::RANGE_READ, call_pc(), at as usize, length);
        may_read(at, length);
    }
}

fn yield_turn() -> bool {
    let thread = enter(Next::call(0));
    if let Some(thread) = thread {
        inside(thread, || yield_now(thread));
    }
    thread.is_some()
}

#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> c_int {
    if is_on() && leaving(yield_turn) && !is_free() {
        return 0;
    }
    kernel::yield_processor()
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_yield() -> c_int {
    sched_yield()
}

#[unsafe(no_mangle)]
pub extern "C" fn thrd_yield() {
    sched_yield();
}

/// How much room there is for the address of a socket that a call is about to write.
pub fn remember_room(bytes: usize) {
    if let Some(thread) = thread::current() {
        thread.room.set(bytes);
    }
}

/// How much room there was before the call.
pub fn room() -> usize {
    thread::current().map_or(usize::MAX, |thread| thread.room.get())
}
