//! Fibers: a program that runs several stacks by turns on one thread says when it goes from one to another.
//!
//! What a fiber does counts as done by the thread that it runs on, so two fibers of one thread never race. A fiber that
//! goes on in another thread goes on after what it has done before.

use crate::base::c::Pointer;
use crate::base::record::put3;
use crate::base::thread::{self, Frames, Thread};
use crate::scheduler::free_running::is_free;
use crate::scheduler::token::{Next, enter};
use crate::stubs;
use crate::wire::{head, op};

/// A stack of the program.
pub struct Fiber {
    /// Its calls, while it does not run.
    frames: *mut Frames,
    depth: usize,
}

fn new(frames: *mut Frames) -> *mut Fiber {
    Box::into_raw(Box::new(Fiber { frames, depth: 0 }))
}

/// What a thread runs on; the stack it began with is made one when somebody asks.
fn current(thread: *mut Thread) -> *mut Fiber {
    let this = unsafe { &mut *thread };
    if this.fiber.is_null() {
        this.fiber = new(core::ptr::null_mut());
    }
    this.fiber
}

unsafe extern "C" fn get_current() -> *mut Fiber {
    let thread = thread::current();
    if thread.is_null() { core::ptr::null_mut() } else { current(thread) }
}

unsafe extern "C" fn create(_flags: u32) -> *mut Fiber {
    new(thread::new_frames())
}

/// One that no thread runs on.
unsafe extern "C" fn destroy(fiber: *mut Fiber) {
    if !fiber.is_null() {
        let fiber = unsafe { Box::from_raw(fiber) };
        thread::drop_frames(fiber.frames);
    }
}

unsafe extern "C" fn switch_to(to: *mut Fiber, _flags: u32, pc: usize) {
    let thread = thread::current();
    if to.is_null() || !enter(thread, Next::call(pc)) {
        return;
    }
    let (this, from) = (unsafe { &mut *thread }, current(thread));
    put3(head(op::SYNC_RELEASE, 0, pc), from as u64, 0);
    put3(head(op::SYNC_ACQUIRE, 0, pc), to as u64, 0);
    this.fiber = to;
    // Where threads run freely, calls are told apart by where the stack is.
    if !is_free() && from != to {
        put3(head(op::FIBER, 0, 0), from as u64, to as u64);
        let (from, to) = unsafe { (&mut *from, &mut *to) };
        (from.frames, from.depth) = (this.frames, this.depth);
        (this.frames, this.depth) = (to.frames, to.depth);
    }
}

/// Reports are about threads, which have names of their own.
unsafe extern "C" fn set_name(_fiber: Pointer, _name: *const u8) {}

stubs! {
    __tsan_get_current_fiber "r11" get_current; __tsan_create_fiber "r11" create; __tsan_destroy_fiber "r11" destroy;
    __tsan_switch_to_fiber "rdx" switch_to; __tsan_set_fiber_name "r11" set_name;
}
