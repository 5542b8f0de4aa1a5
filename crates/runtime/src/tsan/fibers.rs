//! Fibers: a program that runs several stacks by turns on one thread announces each switch.
//!
//! Events of a fiber count as events of the thread that it runs on, so two fibers of one thread never race. A fiber
//! that moves to another thread continues after everything it did before.

use crate::base::c::Pointer;
use crate::base::frames::{Frames, drop_frames, new_frames};
use crate::base::record::put3;
use crate::base::relaxed::Relaxed;
use crate::base::thread::{self, Thread};
use crate::scheduler::free_running::is_free;
use crate::scheduler::{Next, enter};
use crate::stubs;
use crate::wire::{head, op};

/// A stack of the program.
pub struct Fiber {
    /// Its calls, while it does not run.
    frames: Relaxed<*mut Frames>,
    depth: Relaxed<usize>,
}

fn new(frames: *mut Frames) -> *mut Fiber {
    let fiber = Fiber { frames: Relaxed::zero(), depth: Relaxed::zero() };
    fiber.frames.set(frames);
    Box::into_raw(Box::new(fiber))
}

/// What a thread runs on; the stack it began with is made one when somebody asks.
fn current(thread: &Thread) -> *mut Fiber {
    if thread.fiber.get().is_null() {
        thread.fiber.set(new(core::ptr::null_mut()));
    }
    thread.fiber.get()
}

extern "C" fn get_current() -> *mut Fiber {
    thread::current().map_or(core::ptr::null_mut(), current)
}

extern "C" fn create(_flags: u32) -> *mut Fiber {
    new(new_frames())
}

/// One that no thread runs on.
extern "C" fn destroy(fiber: *mut Fiber) {
    if !fiber.is_null() {
        // SAFETY: `new` has made it, and the program destroys it once, when nothing runs on it, as the header demands.
        let fiber = unsafe { Box::from_raw(fiber) };
        // SAFETY: a fiber that does not run has its frames for itself.
        unsafe { drop_frames(fiber.frames.get()) };
    }
}

extern "C" fn switch_to(to: *mut Fiber, _flags: u32, pc: usize) {
    if to.is_null() {
        return;
    }
    let Some(thread) = enter(Next::call(pc)) else { return };
    let from = current(thread);
    put3(head(op::SYNC_RELEASE, 0, pc), from as u64, 0);
    put3(head(op::SYNC_ACQUIRE, 0, pc), to as u64, 0);
    thread.fiber.set(to);
    // Where threads run freely, calls are told apart by where the stack is.
    if !is_free() && from != to {
        put3(head(op::FIBER, 0, 0), from as u64, to as u64);
        // SAFETY: `new` has made both, the one when the thread first asked, the other for the program, which has not
        // destroyed it: it is about to run there.
        let (from, to) = unsafe { (&*from, &*to) };
        from.frames.set(thread.frames.get());
        from.depth.set(thread.depth.get());
        thread.frames.set(to.frames.get());
        thread.depth.set(to.depth.get());
    }
}

/// Reports are about threads, which have names of their own.
extern "C" fn set_name(_fiber: Pointer, _name: *const u8) {}

stubs! {
    __tsan_get_current_fiber "r11" get_current; __tsan_create_fiber "r11" create; __tsan_destroy_fiber "r11" destroy;
    __tsan_switch_to_fiber "rdx" switch_to; __tsan_set_fiber_name "r11" set_name;
}
