//! Entry points that know where they were called from.

/// Exports functions that put the address they return to, the place in the program that called, into a register and jump
/// on. The register is the one in which the next argument would be. Where threads run freely, they let go of the token in
/// the end.
///
/// # Safety
/// The program calls the exported function under the contract of the one that has its name. The target takes the same
/// arguments and the place, and hands on what the program has passed.
#[macro_export]
macro_rules! stubs {
    ($($name:ident $register:literal $target:path;)*) => {
        $crate::stubs! { $crate::scheduler::free_running::through => $($name $register $target;)* }
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
