//! The program's stack, as the runtime leaves it.

use crate::scheduler::free_running::is_free;

/// Overwrites what the runtime's functions have left on the stack below. Programs copy parts of structures that they
/// have never written; what they find there must not depend on how long we waited, or on whether a schedule is
/// followed.
#[inline(never)]
pub fn wipe() {
    // Where threads run freely, no run is like another.
    if is_free() {
        return;
    }
    const WORDS: usize = 256;
    let mut below = core::mem::MaybeUninit::<[u64; WORDS]>::uninit();
    // SAFETY: the instruction writes zeroes into the array, which is as long as that.
    unsafe {
        core::arch::asm!("rep stosq", inout("rcx") WORDS => _, inout("rdi") below.as_mut_ptr() => _, in("rax") 0u64,
                         options(nostack, preserves_flags));
    }
}
