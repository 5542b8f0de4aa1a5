//! Functions that are left without returning: by `longjmp`, or by an exception through code that does not say so.

use crate::base::c::Pointer;
use crate::real;
use crate::scheduler::token;
use crate::tsan::access::left_to;
use core::arch::{asm, naked_asm};
use core::ffi::c_int;

/// The stack pointer that glibc has put into a buffer for `longjmp`, mangled.
fn stack_of(buffer: *const u64) -> usize {
    const STACK_POINTER: usize = 6;
    let mut stack = unsafe { buffer.add(STACK_POINTER).read_unaligned() };
    unsafe { asm!("ror {0}, 17", "xor {0}, qword ptr fs:[0x30]", inout(reg) stack, options(nostack, readonly)) };
    stack as usize
}

macro_rules! jumps {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(buffer: *const u64, value: c_int) {
            unsafe { left_to(stack_of(buffer)) };
            token::wipe();
            unsafe { real!($name, fn(*const u64, c_int) -> ())(buffer, value) }
        }
    )*};
}

jumps! { longjmp _longjmp siglongjmp __longjmp_chk }

/// An exception is caught: all that the function which does so has called is over. Compilers see to that themselves in functions
/// that are built for exceptions; those of C usually are not.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn __cxa_begin_catch() {
    naked_asm!("lea rsi, [rsp + 8]", "jmp {target}", target = sym begin_catch)
}

unsafe extern "C" fn begin_catch(exception: Pointer, stack: usize) -> Pointer {
    unsafe {
        left_to(stack);
        real!(__cxa_begin_catch, fn(Pointer) -> Pointer)(exception)
    }
}
