//! Entry points that know where they were called from.

use crate::scheduler::free_running::{end_ranges, leave};

/// Exports functions that put the address they return to, the place in the program that called, into a register and
/// jump on. The register is the one in which the next argument would be. Where threads run freely, they let go of the
/// token in the end.
///
/// # Safety
/// The program calls the exported function under the contract of the one that has its name. The target takes the same
/// arguments and the place, and hands on what the program has passed.
#[macro_export]
macro_rules! stubs {
    ($($name:ident $register:literal $target:path;)*) => {
        $crate::stubs! { $crate::base::stubs::through => $($name $register $target;)* }
    };
    ($through:path => $($name:ident $register:literal $target:path;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                concat!("mov ", $register, ", qword ptr [rsp]"),
                "cmp byte ptr [rip + {free}], 0",
                "jne 2f",
                "jmp {target}",
                "2:",
                "lea r10, [rip + {target}]",
                "jmp {through}",
                target = sym $target,
                free = sym $crate::scheduler::free_running::FREE,
                through = sym $through,
            )
        }
    )*};
}

/// Calls what r10 points to, with all its arguments, and notes the ranges that it has touched. The runtime's own copies
/// go this way as well, in the middle of whatever it does.
#[unsafe(naked)]
pub unsafe extern "C" fn through_ranges() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "sub rsp, 40",
        ".cfi_adjust_cfa_offset 40",
        "call r10",
        "mov qword ptr [rsp], rax",
        "movups xmmword ptr [rsp + 16], xmm0",
        "call {end}",
        "movups xmm0, xmmword ptr [rsp + 16]",
        "mov rax, qword ptr [rsp]",
        "add rsp, 40",
        ".cfi_adjust_cfa_offset -40",
        "ret",
        ".cfi_endproc",
        end = sym end_ranges,
    )
}

/// Calls what r10 points to, with all its arguments, and lets go of the token after it.
#[unsafe(naked)]
pub unsafe extern "C" fn through() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call r10",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "sub rsp, 16",
        ".cfi_adjust_cfa_offset 16",
        "movups xmmword ptr [rsp], xmm0",
        "call {leave}",
        "movups xmm0, xmmword ptr [rsp]",
        "add rsp, 16",
        ".cfi_adjust_cfa_offset -16",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rax",
        ".cfi_adjust_cfa_offset -8",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        leave = sym leave,
    )
}
