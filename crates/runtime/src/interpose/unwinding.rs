//! Functions that are left without returning: by `longjmp`, or by an exception through code that has no callback for
//! it.

use crate::base::c::Pointer;
use crate::base::program::Address;
use crate::base::thread;
use crate::pass_on;
use crate::scheduler::wipe;
use crate::tsan::access::left_to;
use core::arch::{asm, naked_asm};
use core::ffi::c_int;

/// The stack pointer that glibc has put into a buffer for `longjmp`, mangled.
fn stack_of(buffer: *const u64) -> usize {
    const STACK_POINTER: usize = 6;
    let mut stack = Address::from(buffer).plus(8 * STACK_POINTER).read::<u64>();
    // SAFETY: the C library keeps the word by which it mangles pointers there, in every thread.
    unsafe { asm!("ror {0}, 17", "xor {0}, qword ptr fs:[0x30]", inout(reg) stack, options(nostack, readonly)) };
    stack as usize
}

/// A handler of a fault in a function of the C library leaves it: what we were doing around it is over, too.
fn abandon() {
    if let Some(thread) = thread::current() {
        thread.inside.set(0);
        thread.lends.set(false);
        thread.in_call.set(false);
    }
}

macro_rules! jumps {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(buffer: *const u64, value: c_int) {
            abandon();
            left_to(stack_of(buffer));
            wipe();
            pass_on!($name(buffer: *const u64, value: c_int) -> ())
        }
    )*};
}

jumps! { longjmp _longjmp siglongjmp __longjmp_chk }

/// An exception is caught: all that the function which does so has called is over. Compilers see to that themselves in
/// functions that are built for exceptions; those of C usually are not.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn __cxa_begin_catch() {
    naked_asm!("lea rsi, [rsp + 8]", "jmp {target}", target = sym begin_catch)
}

extern "C" fn begin_catch(exception: Pointer, stack: usize) -> Pointer {
    left_to(stack);
    pass_on!(__cxa_begin_catch(exception: Pointer) -> Pointer)
}
