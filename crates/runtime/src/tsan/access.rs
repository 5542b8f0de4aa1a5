//! The compiler's callbacks for plain accesses and function entry and exit: the hot path.
//!
//! They leave nothing in registers that is different in a replay.

use crate::base::record::{
    flush, flush_quickly, page, put_range, put_range_before_write, put1, put3_here, put4_here, room,
};
use crate::base::thread::{self, Thread};
use crate::scheduler::free_running;
use crate::scheduler::token::{self, HOLDER, Next};
use crate::wire::{head, op};
use core::sync::atomic::Ordering::Relaxed;

/// Exports functions that put the address they return to into a register and jump on: the place in the program that
/// called. Where threads run freely, they let go of the token in the end.
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

/// The same for what never takes the token.
macro_rules! plain_stubs {
    ($($name:ident $register:literal $target:path;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(concat!("mov ", $register, ", qword ptr [rsp]"), "jmp {target}", target = sym $target)
        }
    )*};
}

/// Whether the thread holds the token after this and its event counts.
#[inline(always)]
fn holds_token(thread: *mut Thread) -> bool {
    HOLDER.0.load(Relaxed) == thread as usize || token::not_holder(thread)
}

#[inline(always)]
unsafe fn load<const LOG: u8>(address: usize) -> u64 {
    unsafe {
        match LOG {
            0 => (address as *const u8).read_volatile() as u64,
            1 => (address as *const u16).read_unaligned() as u64,
            2 => (address as *const u32).read_unaligned() as u64,
            _ => (address as *const u64).read_unaligned(),
        }
    }
}

/// An access that needs nothing but its record is done here, in registers; whatever else there is to do is left to
/// [`any_access`], before anything was done but what it would do first.
#[inline(always)]
unsafe fn access<const LOG: u8, const WRITES: bool>(address: usize, pc: usize) {
    let thread = thread::current();
    let page = page();
    let holds = HOLDER.0.load(Relaxed) == thread as usize;
    if holds && page.next < page.limit && flush_quickly() && spend() {
        unsafe { put_access::<LOG, WRITES>(address, pc) };
        leave_nothing_of_ours();
    } else {
        unsafe { any_access::<LOG, WRITES>(address, pc) };
        leave_nothing();
    }
}

/// Counts a scheduling point; false, and nothing is counted, if there is none left.
#[inline(always)]
fn spend() -> bool {
    let page = page();
    page.budget -= 1;
    if page.budget < 0 {
        page.budget += 1;
        return false;
    }
    true
}

/// Compiled code may store what happens to be in a register, where it does not matter what it stores: parts of a value that mean
/// nothing. What we have left there is different in a replay.
#[inline(always)]
fn leave_nothing() {
    unsafe {
        core::arch::asm!(
            "xor eax, eax", "xor ecx, ecx", "xor edx, edx", "xor esi, esi", "xor edi, edi",
            "xor r8d, r8d", "xor r9d, r9d", "xor r10d, r10d", "xor r11d, r11d",
            out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            options(nostack),
        )
    };
}

/// The same for an access that was quick: the others have what the program has given us, or its memory.
#[inline(always)]
fn leave_nothing_of_ours() {
    unsafe {
        core::arch::asm!(
            "xor eax, eax", "xor ecx, ecx", "xor edx, edx",
            out("rax") _, out("rcx") _, out("rdx") _,
            options(nostack),
        )
    };
}

#[cold]
#[inline(never)]
unsafe extern "C" fn any_access<const LOG: u8, const WRITES: bool>(address: usize, pc: usize) {
    let thread = thread::current();
    if HOLDER.0.load(Relaxed) != thread as usize {
        if free_running::is_free() {
            return unsafe { free_running::access::<LOG, WRITES>(thread, address, pc) };
        }
        if !token::not_holder(thread) {
            return;
        }
    }
    flush();
    page().budget -= 1;
    if page().budget < 0 {
        let code = if WRITES { op::WRITE } else { op::READ };
        token::preempt(thread, Next::access(code, pc, address, 1 << LOG));
    }
    room();
    unsafe { put_access::<LOG, WRITES>(address, pc) };
}

/// There is room for it.
#[inline(always)]
unsafe fn put_access<const LOG: u8, const WRITES: bool>(address: usize, pc: usize) {
    if !WRITES {
        unsafe {
            if LOG == 4 {
                put4_here(head(op::READ, LOG, pc), address as u64, load::<3>(address), load::<3>(address + 8));
            } else {
                put3_here(head(op::READ, LOG, pc), address as u64, load::<LOG>(address));
            }
        }
        return;
    }
    let slot = match LOG {
        4 => put4_here(head(op::WRITE, LOG, pc), address as u64, 0, 0),
        _ => put3_here(head(op::WRITE, LOG, pc), address as u64, 0),
    };
    let page = page();
    page.slot = slot;
    page.address = address;
    page.length = 1 << LOG;
    // Eight bytes are read back if they cannot reach into the next page.
    let whole: u64 = if LOG >= 3 { !0 } else { (1 << (8 << (LOG & 3))) - 1 };
    page.mask = if LOG < 4 && address & 4095 <= 4088 { whole } else { 0 };
}

unsafe extern "C" fn read<const LOG: u8>(address: usize, pc: usize) {
    unsafe { access::<LOG, false>(address, pc) }
}

unsafe extern "C" fn write<const LOG: u8>(address: usize, pc: usize) {
    unsafe { access::<LOG, true>(address, pc) }
}

/// What a callback for a write does, whatever has become of the callbacks that have names.
#[unsafe(naked)]
pub unsafe extern "C" fn write_alone<const LOG: u8>() {
    core::arch::naked_asm!("mov rsi, qword ptr [rsp]", "jmp {target}", target = sym write::<LOG>)
}

/// A destructor stores again what is there. C++ knows no such place in memory, so this alone races with nothing.
unsafe extern "C" fn vptr_update(address: usize, value: u64, pc: usize) {
    if unsafe { load::<3>(address) } != value {
        unsafe { access::<3, true>(address, pc) }
    } else if !free_running::is_free() {
        // A step all the same: how many there are must not depend on what is in memory.
        token::enter(thread::current(), Next::call(pc));
    }
}

unsafe extern "C" fn read_write<const LOG: u8>(address: usize, pc: usize) {
    if free_running::is_free() {
        return free_running::read_write(thread::current(), address, 1 << LOG, pc);
    }
    unsafe {
        access::<LOG, false>(address, pc);
        access::<LOG, true>(address, pc);
    }
}

/// A range that is what other callbacks are for, which are quicker; false if it is none. GCC does not use them where it does not know
/// that an access is aligned.
#[inline(always)]
unsafe fn access_inside_a_word<const WRITES: bool>(address: usize, length: usize, pc: usize) -> bool {
    if free_running::is_free() || length > 8 - address % 8 {
        return false;
    }
    unsafe {
        match length {
            1 => access::<0, WRITES>(address, pc),
            2 => access::<1, WRITES>(address, pc),
            4 => access::<2, WRITES>(address, pc),
            8 => access::<3, WRITES>(address, pc),
            _ => return false,
        }
    }
    true
}

pub unsafe extern "C" fn range_read(address: usize, length: usize, pc: usize) {
    if unsafe { access_inside_a_word::<false>(address, length, pc) } {
        return;
    }
    let thread = thread::current();
    if length > 0 && free_running::is_free() {
        free_running::range(thread, address, length, false, pc);
    } else if length > 0
        && holds_token(thread)
        && token::enter(thread, Next::access(op::RANGE_READ, pc, address, length))
    {
        put_range(op::RANGE_READ, pc, address, length);
    }
}

pub unsafe extern "C" fn range_write(address: usize, length: usize, pc: usize) {
    if unsafe { access_inside_a_word::<true>(address, length, pc) } {
        return;
    }
    let thread = thread::current();
    if length > 0 && free_running::is_free() {
        free_running::range(thread, address, length, true, pc);
    } else if length > 0
        && holds_token(thread)
        && token::enter(thread, Next::access(op::RANGE_WRITE, pc, address, length))
    {
        put_range_before_write(pc, address, length);
    }
}

plain_stubs! {
    __tsan_read1 "rsi" read::<0>; __tsan_read2 "rsi" read::<1>; __tsan_read4 "rsi" read::<2>;
    __tsan_read8 "rsi" read::<3>; __tsan_read16 "rsi" read::<4>;
    __tsan_write1 "rsi" write::<0>; __tsan_write2 "rsi" write::<1>; __tsan_write4 "rsi" write::<2>;
    __tsan_write8 "rsi" write::<3>; __tsan_write16 "rsi" write::<4>;
    __tsan_unaligned_read2 "rsi" read::<1>; __tsan_unaligned_read4 "rsi" read::<2>;
    __tsan_unaligned_read8 "rsi" read::<3>; __tsan_unaligned_read16 "rsi" read::<4>;
    __tsan_unaligned_write2 "rsi" write::<1>; __tsan_unaligned_write4 "rsi" write::<2>;
    __tsan_unaligned_write8 "rsi" write::<3>; __tsan_unaligned_write16 "rsi" write::<4>;
    __tsan_read_write1 "rsi" read_write::<0>; __tsan_read_write2 "rsi" read_write::<1>;
    __tsan_read_write4 "rsi" read_write::<2>; __tsan_read_write8 "rsi" read_write::<3>;
    __tsan_read_write16 "rsi" read_write::<4>;
    __tsan_unaligned_read_write2 "rsi" read_write::<1>; __tsan_unaligned_read_write4 "rsi" read_write::<2>;
    __tsan_unaligned_read_write8 "rsi" read_write::<3>; __tsan_unaligned_read_write16 "rsi" read_write::<4>;
    __tsan_volatile_read1 "rsi" read::<0>; __tsan_volatile_read2 "rsi" read::<1>;
    __tsan_volatile_read4 "rsi" read::<2>; __tsan_volatile_read8 "rsi" read::<3>;
    __tsan_volatile_read16 "rsi" read::<4>;
    __tsan_volatile_write1 "rsi" write::<0>; __tsan_volatile_write2 "rsi" write::<1>;
    __tsan_volatile_write4 "rsi" write::<2>; __tsan_volatile_write8 "rsi" write::<3>;
    __tsan_volatile_write16 "rsi" write::<4>;
    __tsan_unaligned_volatile_read2 "rsi" read::<1>; __tsan_unaligned_volatile_read4 "rsi" read::<2>;
    __tsan_unaligned_volatile_read8 "rsi" read::<3>; __tsan_unaligned_volatile_read16 "rsi" read::<4>;
    __tsan_unaligned_volatile_write2 "rsi" write::<1>; __tsan_unaligned_volatile_write4 "rsi" write::<2>;
    __tsan_unaligned_volatile_write8 "rsi" write::<3>; __tsan_unaligned_volatile_write16 "rsi" write::<4>;
    __tsan_vptr_read "rsi" read::<3>; __tsan_vptr_update "rdx" vptr_update;
    __tsan_read_range "rdx" range_read; __tsan_write_range "rdx" range_write;
    __sanitizer_unaligned_load16 "rsi" load16; __sanitizer_unaligned_load32 "rsi" load32;
    __sanitizer_unaligned_load64 "rsi" load64;
    __sanitizer_unaligned_store16 "rdx" store16; __sanitizer_unaligned_store32 "rdx" store32;
    __sanitizer_unaligned_store64 "rdx" store64;
    __tsan_read1_pc "r11" read_pc::<0>; __tsan_read2_pc "r11" read_pc::<1>; __tsan_read4_pc "r11" read_pc::<2>;
    __tsan_read8_pc "r11" read_pc::<3>; __tsan_read16_pc "r11" read_pc::<4>;
    __tsan_write1_pc "r11" write_pc::<0>; __tsan_write2_pc "r11" write_pc::<1>; __tsan_write4_pc "r11" write_pc::<2>;
    __tsan_write8_pc "r11" write_pc::<3>; __tsan_write16_pc "r11" write_pc::<4>;
}

unsafe extern "C" fn read_pc<const LOG: u8>(address: usize, pc: usize) {
    unsafe { access::<LOG, false>(address, pc) }
}

unsafe extern "C" fn write_pc<const LOG: u8>(address: usize, pc: usize) {
    unsafe { access::<LOG, true>(address, pc) }
}

unsafe extern "C" fn load16(address: usize, pc: usize) -> u16 {
    unsafe {
        access::<1, false>(address, pc);
        (address as *const u16).read_unaligned()
    }
}

unsafe extern "C" fn load32(address: usize, pc: usize) -> u32 {
    unsafe {
        access::<2, false>(address, pc);
        (address as *const u32).read_unaligned()
    }
}

unsafe extern "C" fn load64(address: usize, pc: usize) -> u64 {
    unsafe {
        access::<3, false>(address, pc);
        (address as *const u64).read_unaligned()
    }
}

unsafe extern "C" fn store16(address: usize, value: u16, pc: usize) {
    unsafe {
        access::<1, true>(address, pc);
        (address as *mut u16).write_unaligned(value);
    }
}

unsafe extern "C" fn store32(address: usize, value: u32, pc: usize) {
    unsafe {
        access::<2, true>(address, pc);
        (address as *mut u32).write_unaligned(value);
    }
}

unsafe extern "C" fn store64(address: usize, value: u64, pc: usize) {
    unsafe {
        access::<3, true>(address, pc);
        (address as *mut u64).write_unaligned(value);
    }
}

/// Both the stack pointer at the call and the place in the caller's caller are known here.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn __tsan_func_entry() {
    core::arch::naked_asm!("mov rsi, rsp", "jmp {target}", target = sym enter_function)
}

unsafe extern "C" fn enter_function(pc: usize, stack: usize) {
    let thread = thread::current();
    if HOLDER.0.load(Relaxed) != thread as usize {
        unsafe { enter_without_token(pc, stack) };
        return leave_nothing();
    }
    flush();
    unsafe { thread::enter_frame(thread, pc, stack, put1) };
    leave_nothing();
}

#[cold]
#[inline(never)]
unsafe extern "C" fn enter_without_token(pc: usize, stack: usize) {
    let thread = thread::current();
    if free_running::is_free() {
        return unsafe { free_running::enter_function(thread, pc, stack) };
    }
    if token::not_holder(thread) {
        flush();
        unsafe { thread::enter_frame(thread, pc, stack, put1) };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_func_exit() {
    let thread = thread::current();
    if HOLDER.0.load(Relaxed) != thread as usize {
        unsafe { leave_without_token() };
        return leave_nothing();
    }
    flush();
    unsafe { thread::leave_frame(thread, put1) };
    leave_nothing();
}

#[cold]
#[inline(never)]
unsafe extern "C" fn leave_without_token() {
    let thread = thread::current();
    if free_running::is_free() {
        return unsafe { free_running::leave_function(thread) };
    }
    if token::not_holder(thread) {
        flush();
        unsafe { thread::leave_frame(thread, put1) };
    }
}

/// The thread leaves functions without returning from them, and goes on where the stack pointer is `stack` between two calls.
pub unsafe fn left_to(stack: usize) {
    let thread = thread::current();
    if free_running::is_free() {
        return unsafe { free_running::left_to(thread, stack) };
    }
    if HOLDER.0.load(Relaxed) == thread as usize || token::not_holder(thread) {
        flush();
        unsafe { thread::leave_frames(thread, stack, put1) };
    }
}
