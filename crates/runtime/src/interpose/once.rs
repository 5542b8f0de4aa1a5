//! One-time initialisation: `pthread_once` and the static variables of C++.
//!
//! The thread that initialises releases before anybody can find the work done; a thread that finds it done acquires. If
//! an exception ends an initialisation, the next attempt comes after it.

use crate::base::c::Pointer;
use crate::base::program::Address;
use crate::base::record::put3;
use crate::base::thread::{self, inside};
use crate::scheduler::{Next, block, enter, is_on, wake};
use crate::tsan::atomic;
use crate::wire::{head, op};
use crate::{pass_on, stubs};
use core::arch::global_asm;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn record(code: u8, pc: usize, at: Pointer) {
    put3(head(code, 0, pc), at as u64, 0);
}

/// Whether an initialisation was ever given up.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

fn release_unfinished(at: Pointer, pc: usize) {
    GIVEN_UP.store(true, Relaxed);
    record(op::SYNC_RELEASE, pc, at);
}

fn acquire_unfinished(at: Pointer, pc: usize) {
    if GIVEN_UP.load(Relaxed) {
        record(op::SYNC_ACQUIRE, pc, at);
    }
}

// An exception may pass through frames of ours, which have nothing to clean up. "C-unwind" would end the program there,
// because the runtime is compiled to abort.
type Function = unsafe extern "C" fn();

/// An initialisation that a thread may be the one to do.
#[derive(Clone, Copy)]
pub struct Task {
    function: Function,
    control: *mut c_int,
    pc: usize,
}

/// Initialisations that a thread is in the middle of, innermost first. They live on its stack.
pub struct Under {
    task: Task,
    outer: *mut Under,
}

// The frame between `pthread_once` and `initialise`. The unwinder asks its personality routine what to clean up.
global_asm!(
    ".hidden snag_once",
    ".globl snag_once",
    ".type snag_once,@function",
    "snag_once:",
    ".cfi_startproc",
    ".cfi_personality 0x1b, {leave}", // relative to the place, four bytes
    "sub rsp, 8",
    ".cfi_adjust_cfa_offset 8",
    "call {initialise}",
    "add rsp, 8",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    ".cfi_endproc",
    ".size snag_once, . - snag_once",
    leave = sym leave,
    initialise = sym initialise,
);

unsafe extern "C" {
    safe fn snag_once();
}

extern "C" fn initialise() {
    let Some(thread) = thread::current() else { return };
    // SAFETY: `once` has put the address of its own variable there, and waits for this function to return.
    let Some(&task) = (unsafe { thread.task.replace(core::ptr::null_mut()).as_ref() }) else { return };
    let mut under = Under { task, outer: thread.under.get() };
    thread.under.set(&mut under);
    acquire_unfinished(task.control.cast(), task.pc);
    // SAFETY: the program has passed the function to `pthread_once` for it to be called, which is now.
    unsafe { (task.function)() };
    thread.under.set(under.outer);
    if enter(Next::call(task.pc)).is_some() {
        record(op::SYNC_RELEASE, task.pc, task.control.cast());
    }
}

/// Called for the frame of `snag_once`, twice: when a handler is searched for, and when frames are left.
extern "C" fn leave(_version: c_int, actions: c_int, _class: u64, _exception: Pointer, _context: Pointer) -> c_int {
    const CLEANUP_PHASE: c_int = 2;
    const CONTINUE: c_int = 8;
    if let Some(thread) = thread::current().filter(|_| actions & CLEANUP_PHASE != 0) {
        // SAFETY: `initialise` has put the address of its own variable there, and its frame is being left only now.
        if let Some(&Under { task, outer }) = unsafe { thread.under.get().as_ref() } {
            thread.under.set(outer);
            if enter(Next::call(task.pc)).is_some() {
                release_unfinished(task.control.cast(), task.pc);
            }
        }
    }
    CONTINUE
}

extern "C" fn once(control: *mut c_int, function: Function, pc: usize) -> c_int {
    const BUSY: c_int = 1;
    let Some(thread) = enter(Next::call(pc)) else {
        return pass_on!(pthread_once(control: *mut c_int, function: Function) -> c_int);
    };
    inside(thread, || {
        // Nobody wakes us if an exception ends the initialisation.
        thread.retries.set(true);
        while is_on() && Address::from(control).read::<i32>() & 3 == BUSY {
            block(thread, control as usize, None);
        }
        thread.retries.set(false);
    });
    let mut task = Task { function, control, pc };
    thread.task.set(&mut task);
    let function: Function = snag_once;
    let result = pass_on!(pthread_once(control: *mut c_int, function: Function) -> c_int);
    let found_done = !thread.task.replace(core::ptr::null_mut()).is_null();
    if enter(Next::call(pc)).is_some() {
        if found_done {
            record(op::SYNC_ACQUIRE, pc, control.cast());
        }
        inside(thread, || wake(control as usize, usize::MAX, 0));
    }
    result
}

// Compiled code looks at the first byte of a static variable's guard by itself, with an atomic read; the C++ library
// writes it where no instrumentation is.

const DONE: u64 = 1;

fn guard_event(code: u8, order: i32, guard: Pointer, pc: usize) {
    put3(head(code, atomic::detail(0, order), pc), guard as u64, DONE);
}

extern "C" fn guard_acquire(guard: Pointer, pc: usize) -> c_int {
    let counts = enter(Next::call(pc)).is_some();
    // Whoever has to wait does so by a futex, which lets go of the token.
    let result = pass_on!(__cxa_guard_acquire(guard: Pointer) -> c_int);
    if counts && enter(Next::call(pc)).is_some() {
        match result {
            0 => guard_event(op::ATOMIC_READ, atomic::ACQUIRE, guard, pc),
            _ => acquire_unfinished(guard, pc),
        }
    }
    result
}

extern "C" fn guard_release(guard: Pointer, pc: usize) {
    if enter(Next::access(op::ATOMIC_WRITE, pc, guard as usize, 1)).is_some() {
        guard_event(op::ATOMIC_WRITE, atomic::RELEASE, guard, pc);
    }
    pass_on!(__cxa_guard_release(guard: Pointer) -> ())
}

extern "C" fn guard_abort(guard: Pointer, pc: usize) {
    if enter(Next::call(pc)).is_some() {
        release_unfinished(guard, pc);
    }
    pass_on!(__cxa_guard_abort(guard: Pointer) -> ())
}

stubs! {
    pthread_once "rdx" once; call_once "rdx" once;
    __cxa_guard_acquire "rsi" guard_acquire; __cxa_guard_release "rsi" guard_release;
    __cxa_guard_abort "rsi" guard_abort;
}
