//! What is called when the program or a library ends: after it was registered, whichever thread does it.

use crate::base::c::Pointer;
use crate::base::record::put3;
use crate::base::thread;
use crate::scheduler::token::{Next, enter, is_on};
use crate::wire::{head, op};
use crate::{real, stubs};
use core::ffi::c_int;

type Function = unsafe extern "C" fn(Pointer);
type Register = unsafe extern "C" fn(Function, Pointer, Pointer) -> c_int;

struct Call {
    function: Function,
    argument: Pointer,
}

fn real_register() -> Register {
    real!(__cxa_atexit, fn(Function, Pointer, Pointer) -> c_int)
}

unsafe extern "C" fn call(registered: Pointer) {
    // Never given back: a child of a fork calls it too.
    let call = unsafe { &*(registered as *const Call) };
    if is_on() && enter(thread::current(), Next::call(0)) {
        put3(head(op::SYNC_ACQUIRE, 0, 0), registered as u64, 0);
    }
    unsafe { (call.function)(call.argument) };
}

unsafe extern "C" fn register(function: Function, argument: Pointer, library: Pointer, pc: usize) -> c_int {
    if !is_on() || !enter(thread::current(), Next::call(pc)) {
        return unsafe { real_register()(function, argument, library) };
    }
    let registered: Pointer = Box::into_raw(Box::new(Call { function, argument })).cast();
    put3(head(op::SYNC_RELEASE, 0, pc), registered as u64, 0);
    unsafe { real_register()(call, registered, library) }
}

unsafe extern "C" fn call_without_argument(function: Pointer) {
    let function: unsafe extern "C" fn() = unsafe { core::mem::transmute(function) };
    unsafe { function() }
}

/// The C library has this one only for linking: programs that were linked to ThreadSanitizer's runtime find it nowhere else.
unsafe extern "C" fn register_without_argument(function: Pointer, pc: usize) -> c_int {
    unsafe { register(call_without_argument, function, core::ptr::null_mut(), pc) }
}

stubs! { __cxa_atexit "rcx" register; atexit "rsi" register_without_argument; }
