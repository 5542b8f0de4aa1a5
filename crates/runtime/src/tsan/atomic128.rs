//! Callbacks for atomic operations on sixteen bytes. Their records have no values, so in a prediction each read must
//! see the write that it saw in the recording.

use crate::base::program::Address;
use crate::base::record::{put3, put4};
use crate::scheduler::{Next, enter};
use crate::stubs;
use crate::tsan::atomic::{detail, put_found};
use crate::wire::{head, op};
use core::arch::{asm, naked_asm};

const LOG: u8 = 4;

fn next(code: u8, at: *mut u128, pc: usize) -> Next {
    Next::access(code, pc, at as usize, 1 << LOG)
}

/// Replaces what is there if it is what was expected; what is there.
fn compare_and_swap(at: *mut u128, expected: u128, new: u128) -> u128 {
    let (low, high): (u64, u64);
    // The compiler keeps rbx for itself.
    // SAFETY: the program asks for this operation at this address, and answers for the memory, as with the instruction
    // that it would have had without us. `rbx` is put back.
    unsafe {
        asm!("xchg rbx, rsi", "lock cmpxchg16b [rdi]", "mov rbx, rsi", in("rdi") at,
             inout("rsi") new as u64 => _, in("rcx") (new >> 64) as u64,
             inout("rax") expected as u64 => low, inout("rdx") (expected >> 64) as u64 => high, options(nostack));
    }
    (high as u128) << 64 | low as u128
}

#[inline(always)]
fn update(at: *mut u128, order: i32, pc: usize, new: impl Fn(u128) -> u128) -> u128 {
    let counts = enter(next(op::RMW, at, pc)).is_some();
    let mut old = compare_and_swap(at, 0, 0);
    loop {
        let now = compare_and_swap(at, old, new(old));
        if now == old {
            break;
        }
        old = now;
    }
    if counts {
        put4(head(op::RMW, detail(LOG, order), pc), at as u64, 0, 0);
    }
    old
}

extern "C" fn load(at: *mut u128, order: i32, pc: usize) -> u128 {
    let counts = enter(next(op::ATOMIC_READ, at, pc)).is_some();
    let value = compare_and_swap(at, 0, 0);
    if counts {
        put3(head(op::ATOMIC_READ, detail(LOG, order), pc), at as u64, 0);
    }
    value
}

extern "C" fn store(at: *mut u128, value: u128, order: i32, pc: usize) {
    let counts = enter(next(op::ATOMIC_WRITE, at, pc)).is_some();
    let mut old = compare_and_swap(at, 0, 0);
    loop {
        let now = compare_and_swap(at, old, value);
        if now == old {
            break;
        }
        old = now;
    }
    if counts {
        put3(head(op::ATOMIC_WRITE, detail(LOG, order), pc), at as u64, 0);
    }
}

extern "C" fn exchange(at: *mut u128, by: u128, order: i32, pc: usize) -> u128 {
    update(at, order, pc, |_| by)
}

extern "C" fn add(at: *mut u128, by: u128, order: i32, pc: usize) -> u128 {
    update(at, order, pc, |old| old.wrapping_add(by))
}

extern "C" fn sub(at: *mut u128, by: u128, order: i32, pc: usize) -> u128 {
    update(at, order, pc, |old| old.wrapping_sub(by))
}

extern "C" fn and(at: *mut u128, by: u128, order: i32, pc: usize) -> u128 {
    update(at, order, pc, |old| old & by)
}

extern "C" fn or(at: *mut u128, by: u128, order: i32, pc: usize) -> u128 {
    update(at, order, pc, |old| old | by)
}

extern "C" fn xor(at: *mut u128, by: u128, order: i32, pc: usize) -> u128 {
    update(at, order, pc, |old| old ^ by)
}

extern "C" fn nand(at: *mut u128, by: u128, order: i32, pc: usize) -> u128 {
    update(at, order, pc, |old| !(old & by))
}

/// `found`: where what was found goes if it is not what was expected.
fn compare(at: *mut u128, expected: u128, new: u128, orders: (i32, i32), found: Option<Address>, pc: usize) -> u128 {
    let counts = enter(next(op::RMW, at, pc)).is_some();
    let old = compare_and_swap(at, expected, new);
    let found = found.filter(|_| old != expected);
    if let Some(found) = found {
        found.write([old as u64, (old >> 64) as u64]);
    }
    if counts && old == expected {
        put4(head(op::RMW, detail(LOG, orders.0), pc), at as u64, 0, 0);
    } else if counts {
        put3(head(op::ATOMIC_READ, detail(LOG, orders.1), pc), at as u64, 0);
        found.into_iter().for_each(|found| put_found(found.0, 1 << LOG, pc));
    }
    old
}

extern "C" fn compare_exchange(
    at: *mut u128,
    expected: Address,
    new: u128,
    order: i32,
    failure: i32,
    pc: usize,
) -> i32 {
    let [low, high] = expected.read::<[u64; 2]>();
    let wanted = (high as u128) << 64 | low as u128;
    let old = compare(at, wanted, new, (order, failure), Some(expected), pc);
    (old == wanted) as i32
}

extern "C" fn compare_value(
    at: *mut u128,
    low: u64,
    high: u64,
    new_low: u64,
    new_high: u64,
    order: i32,
    failure: i32,
    pc: usize,
) -> u128 {
    let [expected, new] = [(low, high), (new_low, new_high)].map(|(low, high)| (high as u128) << 64 | low as u128);
    compare(at, expected, new, (order, failure), None, pc)
}

// No register is left for the place that called.

/// Six arguments in registers; the place is the seventh.
macro_rules! compares {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            naked_asm!("push qword ptr [rsp]", "call {target}", "mov qword ptr [rsp], rax", "call {leave}", "pop rax",
                       "ret", target = sym compare_exchange, leave = sym crate::scheduler::free_running::leave)
        }
    )*};
}

compares! { __tsan_atomic128_compare_exchange_strong __tsan_atomic128_compare_exchange_weak }

/// Six arguments in registers, one on the stack; the place is the eighth.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn __tsan_atomic128_compare_exchange_val() {
    naked_asm!("mov rax, [rsp + 8]", "mov r11, [rsp]", "sub rsp, 8", "push r11", "push rax", "call {target}",
               "mov qword ptr [rsp], rax", "mov qword ptr [rsp + 8], rdx", "call {leave}", "pop rax", "pop rdx",
               "add rsp, 8", "ret", target = sym compare_value, leave = sym crate::scheduler::free_running::leave)
}

stubs! {
    __tsan_atomic128_load "rdx" load; __tsan_atomic128_store "r8" store; __tsan_atomic128_exchange "r8" exchange;
    __tsan_atomic128_fetch_add "r8" add; __tsan_atomic128_fetch_sub "r8" sub; __tsan_atomic128_fetch_and "r8" and;
    __tsan_atomic128_fetch_or "r8" or; __tsan_atomic128_fetch_xor "r8" xor; __tsan_atomic128_fetch_nand "r8" nand;
}
