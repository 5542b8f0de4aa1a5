//! The compiler's callbacks for atomics. The operation itself is always done sequentially consistently; the record says
//! which order the program asked for.

use crate::record::{put3, put4};
use crate::stubs;
use crate::thread::{self, Thread};
use crate::token::enter;
use crate::wire::{head, op};
use core::sync::atomic::{Ordering::SeqCst, fence};

// The compiler's numbers of memory orders.
const RELAXED: i32 = 0;
pub const ACQUIRE: i32 = 2;
pub const RELEASE: i32 = 3;

pub fn detail(log: u8, order: i32) -> u8 {
    log | (order as u8 & 7) << 3
}

/// Remembers a relaxed read, which a later fence may turn into an acquiring one.
fn remember(thread: *mut Thread, address: usize, log: u8, order: i32) {
    if order != RELAXED {
        return;
    }
    let thread = unsafe { &mut *thread };
    let count = thread.relaxed_count;
    if count > 0 && thread.relaxed[(count - 1) % thread.relaxed.len()].0 == address {
        return;
    }
    let slots = thread.relaxed.len();
    thread.relaxed[count % slots] = (address, log);
    thread.relaxed_count = count + 1;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_atomic_thread_fence(order: i32) {
    fence(SeqCst);
    let thread = thread::current();
    if !enter(thread) {
        return;
    }
    put3(head(op::FENCE, 0, 0), order as u64, 0);
    if order == RELEASE || order == RELAXED {
        return;
    }
    // What was read before the fence is acquired by it: as if it were read again, with acquire.
    let this = unsafe { &mut *thread };
    let count = this.relaxed_count.min(this.relaxed.len());
    for i in 0..count {
        let (address, log) = this.relaxed[i];
        if !crate::life::is_readable(address) {
            continue;
        }
        let value = unsafe {
            match log {
                0 => (address as *const u8).read_volatile() as u64,
                1 => (address as *const u16).read_volatile() as u64,
                2 => (address as *const u32).read_volatile() as u64,
                _ => (address as *const u64).read_volatile(),
            }
        };
        put3(head(op::ATOMIC_READ, detail(log, ACQUIRE), 0), address as u64, value);
    }
    this.relaxed_count = 0;
}

/// Orders a thread with its own signal handlers, nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_atomic_signal_fence(_order: i32) {}

macro_rules! atomics {
    ($($module:ident $type:ident $atomic:ident $log:literal:
       $load:ident $store:ident $exchange:ident $add:ident $sub:ident $and:ident $or:ident $xor:ident $nand:ident
       $strong:ident $weak:ident $value:ident;)*) => {$(
        mod $module {
            use super::*;
            use core::sync::atomic::$atomic as Atomic;
            type Value = $type;

            pub unsafe extern "C" fn load(at: &Atomic, order: i32, pc: usize) -> Value {
                let thread = thread::current();
                let counts = enter(thread);
                let value = at.load(SeqCst);
                if counts {
                    put3(head(op::ATOMIC_READ, detail($log, order), pc), at.as_ptr() as u64, value as u64);
                    remember(thread, at.as_ptr() as usize, $log, order);
                    crate::words::note(thread, at.as_ptr() as usize, $log, value as u64);
                }
                value
            }

            pub unsafe extern "C" fn store(at: &Atomic, value: Value, order: i32, pc: usize) {
                let thread = thread::current();
                let counts = enter(thread);
                at.store(value, SeqCst);
                if counts {
                    put3(head(op::ATOMIC_WRITE, detail($log, order), pc), at.as_ptr() as u64, value as u64);
                    crate::words::note(thread, at.as_ptr() as usize, $log, value as u64);
                }
            }

            #[inline(always)]
            fn update(at: &Atomic, order: i32, pc: usize, new: impl Fn(Value) -> Value) -> Value {
                let thread = thread::current();
                let counts = enter(thread);
                let old = at.fetch_update(SeqCst, SeqCst, |value| Some(new(value))).unwrap_or_default();
                if counts {
                    let first = head(op::RMW, detail($log, order), pc);
                    put4(first, at.as_ptr() as u64, old as u64, new(old) as u64);
                    remember(thread, at.as_ptr() as usize, $log, order);
                    crate::words::note(thread, at.as_ptr() as usize, $log, new(old) as u64);
                }
                old
            }

            pub unsafe extern "C" fn exchange(at: &Atomic, by: Value, order: i32, pc: usize) -> Value {
                update(at, order, pc, |_| by)
            }

            pub unsafe extern "C" fn add(at: &Atomic, by: Value, order: i32, pc: usize) -> Value {
                update(at, order, pc, |old| old.wrapping_add(by))
            }

            pub unsafe extern "C" fn sub(at: &Atomic, by: Value, order: i32, pc: usize) -> Value {
                update(at, order, pc, |old| old.wrapping_sub(by))
            }

            pub unsafe extern "C" fn and(at: &Atomic, by: Value, order: i32, pc: usize) -> Value {
                update(at, order, pc, |old| old & by)
            }

            pub unsafe extern "C" fn or(at: &Atomic, by: Value, order: i32, pc: usize) -> Value {
                update(at, order, pc, |old| old | by)
            }

            pub unsafe extern "C" fn xor(at: &Atomic, by: Value, order: i32, pc: usize) -> Value {
                update(at, order, pc, |old| old ^ by)
            }

            pub unsafe extern "C" fn nand(at: &Atomic, by: Value, order: i32, pc: usize) -> Value {
                update(at, order, pc, |old| !(old & by))
            }

            fn compare(at: &Atomic, expected: Value, new: Value, orders: (i32, i32), pc: usize) -> Result<Value, Value> {
                let thread = thread::current();
                let counts = enter(thread);
                let result = at.compare_exchange(expected, new, SeqCst, SeqCst);
                if counts {
                    let address = at.as_ptr() as u64;
                    match result {
                        Ok(old) => {
                            put4(head(op::RMW, detail($log, orders.0), pc), address, old as u64, new as u64);
                            remember(thread, address as usize, $log, orders.0);
                            crate::words::note(thread, address as usize, $log, new as u64);
                        }
                        Err(old) => {
                            put3(head(op::ATOMIC_READ, detail($log, orders.1), pc), address, old as u64);
                            remember(thread, address as usize, $log, orders.1);
                            crate::words::note(thread, address as usize, $log, old as u64);
                        }
                    }
                }
                result
            }

            pub unsafe extern "C" fn compare_exchange(
                at: &Atomic, expected: &mut Value, new: Value, order: i32, failure: i32, pc: usize,
            ) -> i32 {
                match compare(at, *expected, new, (order, failure), pc) {
                    Ok(_) => 1,
                    Err(old) => {
                        *expected = old;
                        0
                    }
                }
            }

            pub unsafe extern "C" fn compare_value(
                at: &Atomic, expected: Value, new: Value, order: i32, failure: i32, pc: usize,
            ) -> Value {
                match compare(at, expected, new, (order, failure), pc) {
                    Ok(old) | Err(old) => old,
                }
            }
        }
        stubs! {
            $load "rdx" $module::load; $store "rcx" $module::store; $exchange "rcx" $module::exchange;
            $add "rcx" $module::add; $sub "rcx" $module::sub; $and "rcx" $module::and; $or "rcx" $module::or;
            $xor "rcx" $module::xor; $nand "rcx" $module::nand;
            $strong "r9" $module::compare_exchange; $weak "r9" $module::compare_exchange;
            $value "r9" $module::compare_value;
        }
    )*};
}

atomics! {
    a8 u8 AtomicU8 0: __tsan_atomic8_load __tsan_atomic8_store __tsan_atomic8_exchange __tsan_atomic8_fetch_add
        __tsan_atomic8_fetch_sub __tsan_atomic8_fetch_and __tsan_atomic8_fetch_or __tsan_atomic8_fetch_xor
        __tsan_atomic8_fetch_nand __tsan_atomic8_compare_exchange_strong __tsan_atomic8_compare_exchange_weak
        __tsan_atomic8_compare_exchange_val;
    a16 u16 AtomicU16 1: __tsan_atomic16_load __tsan_atomic16_store __tsan_atomic16_exchange __tsan_atomic16_fetch_add
        __tsan_atomic16_fetch_sub __tsan_atomic16_fetch_and __tsan_atomic16_fetch_or __tsan_atomic16_fetch_xor
        __tsan_atomic16_fetch_nand __tsan_atomic16_compare_exchange_strong __tsan_atomic16_compare_exchange_weak
        __tsan_atomic16_compare_exchange_val;
    a32 u32 AtomicU32 2: __tsan_atomic32_load __tsan_atomic32_store __tsan_atomic32_exchange __tsan_atomic32_fetch_add
        __tsan_atomic32_fetch_sub __tsan_atomic32_fetch_and __tsan_atomic32_fetch_or __tsan_atomic32_fetch_xor
        __tsan_atomic32_fetch_nand __tsan_atomic32_compare_exchange_strong __tsan_atomic32_compare_exchange_weak
        __tsan_atomic32_compare_exchange_val;
    a64 u64 AtomicU64 3: __tsan_atomic64_load __tsan_atomic64_store __tsan_atomic64_exchange __tsan_atomic64_fetch_add
        __tsan_atomic64_fetch_sub __tsan_atomic64_fetch_and __tsan_atomic64_fetch_or __tsan_atomic64_fetch_xor
        __tsan_atomic64_fetch_nand __tsan_atomic64_compare_exchange_strong __tsan_atomic64_compare_exchange_weak
        __tsan_atomic64_compare_exchange_val;
}
