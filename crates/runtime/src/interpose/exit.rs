//! Functions that run when the program or a library ends: they come after their registration, whichever thread runs
//! them.

use crate::base::c::Pointer;
use crate::base::record::put3;
use crate::scheduler::{Next, enter, is_on};
use crate::wire::{head, op};
use crate::{pass_on, stubs};
use core::ffi::c_int;

type Function = unsafe extern "C" fn(Pointer);

struct Call {
    function: Function,
    argument: Pointer,
}

fn really_register(function: Function, argument: Pointer, library: Pointer) -> c_int {
    pass_on!(__cxa_atexit(function: Function, argument: Pointer, library: Pointer) -> c_int)
}

extern "C" fn call(registered: Pointer) {
    // SAFETY: `register` has made it, for this call. It is never given back: a child of a fork calls it too.
    let call = unsafe { &*(registered as *const Call) };
    if is_on() && enter(Next::call(0)).is_some() {
        put3(head(op::SYNC_ACQUIRE, 0, 0), registered as u64, 0);
    }
    // SAFETY: the program has registered the function to be called with this argument.
    unsafe { (call.function)(call.argument) };
}

extern "C" fn register(function: Function, argument: Pointer, library: Pointer, pc: usize) -> c_int {
    if !is_on() || enter(Next::call(pc)).is_none() {
        return really_register(function, argument, library);
    }
    let registered: Pointer = Box::into_raw(Box::new(Call { function, argument })).cast();
    put3(head(op::SYNC_RELEASE, 0, pc), registered as u64, 0);
    really_register(call, registered, library)
}

extern "C" fn call_without_argument(function: Pointer) {
    // SAFETY: `register_without_argument` has put the program's function in place of an argument.
    let function: unsafe extern "C" fn() = unsafe { core::mem::transmute(function) };
    // SAFETY: the program has registered it to be called.
    unsafe { function() }
}

/// The C library has this one only for linking: programs that were linked to ThreadSanitizer's runtime find it nowhere
/// else.
extern "C" fn register_without_argument(function: Pointer, pc: usize) -> c_int {
    register(call_without_argument, function, core::ptr::null_mut(), pc)
}

stubs! { __cxa_atexit "rcx" register; atexit "rsi" register_without_argument; }
