//! Functions of which the C library has several versions.
//!
//! A program that was linked with ThreadSanitizer's runtime asks for what that runtime exports without naming a
//! version. If we did not export it, the dynamic linker would pick the oldest version, which may behave differently:
//! the old `realpath` does not accept a null pointer, and the old `pthread_cond_destroy` frees what is no pointer.

use crate::real;

/// Exports functions that do nothing but call the newest version, with whatever arguments they have.
macro_rules! newest {
    ($($name:ident)*) => {$(
        const _: () = {
            extern "C" fn find() -> usize {
                real!($name, fn() -> ()) as usize
            }

            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            extern "C" fn $name() {
                core::arch::naked_asm!(
                    "push rdi",
                    "push rsi",
                    "push rdx",
                    "push rcx",
                    "push r8",
                    "push r9",
                    "sub rsp, 24",
                    "movups [rsp], xmm0",
                    "call {find}",
                    "movups xmm0, [rsp]",
                    "add rsp, 24",
                    "pop r9",
                    "pop r8",
                    "pop rcx",
                    "pop rdx",
                    "pop rsi",
                    "pop rdi",
                    "jmp rax",
                    find = sym find,
                )
            }
        };
    )*};
}

// A `long double` is passed in memory, so `lgammal` is no different.
newest! {
    fmemopen lgamma lgammaf lgammal pthread_attr_getaffinity_np
}
