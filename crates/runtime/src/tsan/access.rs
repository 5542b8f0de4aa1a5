//! Callbacks for plain accesses and for function entry and exit: the hot path.
//!
//! The compiler calls `__tsan_write4(address)` before the program writes four bytes. The callback writes a record whose
//! value is still missing; the next call into the runtime, when the program has written, reads the value back and fills
//! it in. A read is recorded with its value at once.
//!
//! Callbacks clear the registers that they have used: compiled code may store what happens to be in one, and what the
//! runtime leaves there would differ in a replay.

use crate::base::chunk::Slot;
use crate::base::frames::{enter_frame, leave_frame, leave_frames};
use crate::base::program::Address;
use crate::base::record::{
    flush, flush_quickly, page, put_range, put_range_before_write, put1, put3_at, put4_at, room,
};
use crate::base::thread;
use crate::interpose::missing;
use crate::scheduler::{HOLDER, Next, enter, free_running, holder, not_holder, preempt};
use crate::wire::{head, op};
use core::sync::atomic::Ordering::Relaxed;

/// Exports functions as `stubs!` does, for what never takes the token.
macro_rules! plain_stubs {
    ($($name:ident $register:literal $target:path;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                concat!("mov ", $register, ", qword ptr [rsp]"),
                "jmp {target}",
                target = sym $target,
            )
        }
    )*};
}

/// The fast path: an access that needs nothing but its record, done in registers. Anything else is left to
/// [`any_access`], before anything was done but what it would do first.
#[inline(always)]
fn access<const LOG: u8, const WRITES: bool>(address: usize, pc: usize) {
    if HOLDER.0.load(Relaxed) == thread::current_address()
        && let Some(at) = page().place()
        && flush_quickly()
        && spend()
    {
        put_access::<LOG, WRITES>(at, address, pc);
        leave_nothing_of_ours();
    } else {
        any_access::<LOG, WRITES>(address, pc);
        leave_nothing();
    }
}

/// Counts a scheduling point. Returns false, and counts nothing, if none is left.
#[inline(always)]
fn spend() -> bool {
    let left = page().budget.get() - 1;
    if left >= 0 {
        page().budget.set(left);
    }
    left >= 0
}

/// Compiled code may store what happens to be in a register, where it does not matter what it stores: parts of a value
/// that mean nothing. What we have left there is different in a replay.
#[inline(always)]
fn leave_nothing() {
    // SAFETY: the instructions clear registers that the compiler is told about, and touch no memory.
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

/// The same for an access that was quick: the others have what the program has given us, or its memory. Of that nothing
/// stays where the next call has its arguments, either: what code can reach that nobody sees is found by those.
#[inline(always)]
fn leave_nothing_of_ours() {
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "xor eax, eax", "xor ecx, ecx", "xor edx, edx", "xor esi, esi", "xor edi, edi",
            "xor r8d, r8d", "xor r9d, r9d",
            out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _, out("r8") _, out("r9") _,
            options(nostack),
        )
    };
}

#[cold]
#[inline(never)]
extern "C" fn any_access<const LOG: u8, const WRITES: bool>(address: usize, pc: usize) {
    if free_running::is_free() {
        return free_running::access::<LOG, WRITES>(address, pc);
    }
    let Some(thread) = holder().or_else(not_holder) else { return };
    flush();
    page().budget.subtract(1);
    if page().budget.get() < 0 {
        let code = if WRITES { op::WRITE } else { op::READ };
        preempt(thread, Next::access(code, pc, address, 1 << LOG));
    }
    put_access::<LOG, WRITES>(room(), address, pc);
}

#[inline(always)]
fn put_access<const LOG: u8, const WRITES: bool>(at: Slot, address: usize, pc: usize) {
    let memory = Address(address);
    if !WRITES {
        if LOG == 4 {
            put4_at(at, head(op::READ, LOG, pc), address as u64, memory.operand(3), memory.plus(8).operand(3));
        } else {
            put3_at(at, head(op::READ, LOG, pc), address as u64, memory.operand(LOG));
        }
        return;
    }
    let slot = match LOG {
        4 => put4_at(at, head(op::WRITE, LOG, pc), address as u64, 0, 0),
        _ => put3_at(at, head(op::WRITE, LOG, pc), address as u64, 0),
    };
    // Eight bytes are read back if they cannot reach into the next page.
    let whole: u64 = if LOG >= 3 { !0 } else { (1 << (8 << (LOG & 3))) - 1 };
    let mask = if LOG < 4 && address & 4095 <= 4088 { whole } else { 0 };
    page().fill_in_later(slot, address, mask, 1 << LOG);
}

extern "C" fn read<const LOG: u8>(address: usize, pc: usize) {
    access::<LOG, false>(address, pc);
}

extern "C" fn write<const LOG: u8>(address: usize, pc: usize) {
    access::<LOG, true>(address, pc);
}

/// What a callback for a write does, whatever has become of the callbacks that have names.
#[unsafe(naked)]
pub unsafe extern "C" fn write_alone<const LOG: u8>() {
    core::arch::naked_asm!("mov rsi, qword ptr [rsp]", "jmp {target}", target = sym write::<LOG>)
}

/// A destructor stores again what is there. C++ knows no such place in memory, so this alone races with nothing.
extern "C" fn vptr_update(address: usize, value: u64, pc: usize) {
    if Address(address).read::<u64>() != value {
        access::<3, true>(address, pc);
    } else if !free_running::is_free() {
        // A step all the same: how many there are must not depend on what is in memory.
        enter(Next::call(pc));
    }
}

extern "C" fn read_write<const LOG: u8>(address: usize, pc: usize) {
    if free_running::is_free() {
        return free_running::read_write(address, 1 << LOG, pc);
    }
    access::<LOG, false>(address, pc);
    access::<LOG, true>(address, pc);
}

/// A range for which there are other callbacks, which are quicker; false if there is none. GCC does not use them where
/// it does not know that an access is aligned.
#[inline(always)]
fn access_inside_a_word<const WRITES: bool>(address: usize, length: usize, pc: usize) -> bool {
    if free_running::is_free() || length > 8 - address % 8 {
        return false;
    }
    match length {
        1 => access::<0, WRITES>(address, pc),
        2 => access::<1, WRITES>(address, pc),
        4 => access::<2, WRITES>(address, pc),
        8 => access::<3, WRITES>(address, pc),
        _ => return false,
    }
    true
}

/// Takes a step for an access to a range. Returns whether its event counts.
fn enters_range(code: u8, address: usize, length: usize, pc: usize) -> bool {
    holder().or_else(not_holder).is_some() && enter(Next::access(code, pc, address, length)).is_some()
}

pub extern "C" fn range_read(address: usize, length: usize, pc: usize) {
    if length == 0 || access_inside_a_word::<false>(address, length, pc) {
        return;
    }
    if free_running::is_free() {
        free_running::range(address, length, false, pc);
    } else if enters_range(op::RANGE_READ, address, length, pc) {
        put_range(op::RANGE_READ, pc, address, length);
    }
}

pub extern "C" fn range_write(address: usize, length: usize, pc: usize) {
    if length == 0 || access_inside_a_word::<true>(address, length, pc) {
        return;
    }
    if free_running::is_free() {
        free_running::range(address, length, true, pc);
    } else if enters_range(op::RANGE_WRITE, address, length, pc) {
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

extern "C" fn read_pc<const LOG: u8>(address: usize, pc: usize) {
    access::<LOG, false>(address, pc);
}

extern "C" fn write_pc<const LOG: u8>(address: usize, pc: usize) {
    access::<LOG, true>(address, pc);
}

/// Accesses of the program's own that the sanitizers' header has functions for: these do them as well.
macro_rules! unaligned {
    ($($load:ident $store:ident $type:ty, $log:literal;)*) => {$(
        extern "C" fn $load(address: usize, pc: usize) -> $type {
            access::<$log, false>(address, pc);
            Address(address).read()
        }

        extern "C" fn $store(address: usize, value: $type, pc: usize) {
            access::<$log, true>(address, pc);
            Address(address).write(value);
        }
    )*};
}

unaligned! { load16 store16 u16, 1; load32 store32 u32, 2; load64 store64 u64, 3; }

/// Both the stack pointer at the call and the place in the caller's caller are known here.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn __tsan_func_entry() {
    core::arch::naked_asm!("mov rsi, rsp", "jmp {target}", target = sym enter_function)
}

extern "C" fn enter_function(pc: usize, stack: usize) {
    match holder() {
        Some(thread) => {
            flush();
            if thread.unseen.get() {
                missing::called_back(thread, Address(stack).read());
            }
            enter_frame(thread, pc, stack, put1);
        }
        None => enter_without_token(pc, stack),
    }
    leave_nothing();
}

#[cold]
#[inline(never)]
extern "C" fn enter_without_token(pc: usize, stack: usize) {
    if free_running::is_free() {
        return free_running::enter_function(pc, stack);
    }
    if let Some(thread) = not_holder() {
        flush();
        if thread.unseen.get() {
            missing::called_back(thread, Address(stack).read());
        }
        enter_frame(thread, pc, stack, put1);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn __tsan_func_exit() {
    match holder() {
        Some(thread) => {
            flush();
            leave_frame(thread, put1);
            if thread.resumes.get() == thread.depth.get() + 1 {
                missing::goes_on(thread);
            }
        }
        None => leave_without_token(),
    }
    leave_nothing();
}

#[cold]
#[inline(never)]
extern "C" fn leave_without_token() {
    if free_running::is_free() {
        return free_running::leave_function();
    }
    if let Some(thread) = not_holder() {
        flush();
        leave_frame(thread, put1);
        if thread.resumes.get() == thread.depth.get() + 1 {
            missing::goes_on(thread);
        }
    }
}

/// The thread leaves functions without returning from them, and goes on where the stack pointer is `stack` between two
/// calls.
pub fn left_to(stack: usize) {
    if free_running::is_free() {
        return free_running::left_to(stack);
    }
    if let Some(thread) = holder().or_else(not_holder) {
        flush();
        leave_frames(thread, stack, put1);
        missing::left_to(thread, stack);
    }
}
