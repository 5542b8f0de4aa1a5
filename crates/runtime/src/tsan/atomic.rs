//! Callbacks for atomic operations. The runtime always performs the operation with sequential consistency; the record
//! says which order the program asked for.

use crate::base::record::{put_range, put3, put4};
use crate::rewrite::words;
use crate::scheduler::free_running::is_free;
use crate::scheduler::spin::unchanged;
use crate::scheduler::{Next, enter};
use crate::stubs;
use crate::wire::{head, op};
use core::sync::atomic::{Ordering::SeqCst, fence};

// The compiler's numbers of memory orders.
pub const ACQUIRE: i32 = 2;
pub const RELEASE: i32 = 3;
pub const ACQUIRE_RELEASE: i32 = 4;

pub fn detail(log: u8, order: i32) -> u8 {
    log | (order as u8 & 7) << 3
}

/// A comparison has failed, and has written what it found where the program had what it expected. No other callback
/// tells of this plain write; without it, what is read there next would seem to come from code that nobody sees. Where
/// threads run freely, nobody compares values.
pub fn put_found(address: usize, length: usize, pc: usize) {
    if !is_free() {
        put_range(op::RANGE_WRITE, pc, address, length);
    }
}

extern "C" fn thread_fence(order: i32, pc: usize) {
    fence(SeqCst);
    if enter(Next::on(op::FENCE, pc, 0)).is_some() {
        put3(head(op::FENCE, 0, pc), order as u64, 0);
    }
}

stubs! { __tsan_atomic_thread_fence "rsi" thread_fence; }

/// Orders a thread with its own signal handlers, nothing else.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_atomic_signal_fence(_order: i32) {}

macro_rules! atomics {
    ($($module:ident $type:ident $atomic:ident $log:literal:
       $load:ident $store:ident $exchange:ident $add:ident $sub:ident $and:ident $or:ident $xor:ident $nand:ident
       $strong:ident $weak:ident $value:ident;)*) => {$(
        mod $module {
            use super::*;
            use core::sync::atomic::$atomic as Atomic;
            type Value = $type;

            #[inline(always)]
            fn next(code: u8, at: &Atomic, pc: usize) -> Next {
                Next::access(code, pc, at.as_ptr() as usize, 1 << $log)
            }

            pub extern "C" fn load(at: &Atomic, order: i32, pc: usize) -> Value {
                let thread = enter(next(op::ATOMIC_READ, at, pc));
                let value = at.load(SeqCst);
                if let Some(thread) = thread {
                    put3(head(op::ATOMIC_READ, detail($log, order), pc), at.as_ptr() as u64, value as u64);
                    words::note(at.as_ptr() as usize);
                    unchanged(thread, at.as_ptr() as usize, value as u64);
                }
                value
            }

            pub extern "C" fn store(at: &Atomic, value: Value, order: i32, pc: usize) {
                let thread = enter(next(op::ATOMIC_WRITE, at, pc));
                at.store(value, SeqCst);
                if thread.is_some() {
                    put3(head(op::ATOMIC_WRITE, detail($log, order), pc), at.as_ptr() as u64, value as u64);
                    words::note(at.as_ptr() as usize);
                }
            }

            #[inline(always)]
            fn update(at: &Atomic, order: i32, pc: usize, new: impl Fn(Value) -> Value) -> Value {
                let thread = enter(next(op::RMW, at, pc));
                let old = at.fetch_update(SeqCst, SeqCst, |value| Some(new(value))).unwrap_or_default();
                if let Some(thread) = thread {
                    let first = head(op::RMW, detail($log, order), pc);
                    put4(first, at.as_ptr() as u64, old as u64, new(old) as u64);
                    words::note(at.as_ptr() as usize);
                    if new(old) == old {
                        unchanged(thread, at.as_ptr() as usize, old as u64);
                    }
                }
                old
            }

            pub extern "C" fn exchange(at: &Atomic, by: Value, order: i32, pc: usize) -> Value {
                update(at, order, pc, |_| by)
            }

            pub extern "C" fn add(at: &Atomic, by: Value, order: i32, pc: usize) -> Value {
                update(at, order, pc, |old| old.wrapping_add(by))
            }

            pub extern "C" fn sub(at: &Atomic, by: Value, order: i32, pc: usize) -> Value {
                update(at, order, pc, |old| old.wrapping_sub(by))
            }

            pub extern "C" fn and(at: &Atomic, by: Value, order: i32, pc: usize) -> Value {
                update(at, order, pc, |old| old & by)
            }

            pub extern "C" fn or(at: &Atomic, by: Value, order: i32, pc: usize) -> Value {
                update(at, order, pc, |old| old | by)
            }

            pub extern "C" fn xor(at: &Atomic, by: Value, order: i32, pc: usize) -> Value {
                update(at, order, pc, |old| old ^ by)
            }

            pub extern "C" fn nand(at: &Atomic, by: Value, order: i32, pc: usize) -> Value {
                update(at, order, pc, |old| !(old & by))
            }

            /// `found`: where what was found goes if it is not what was expected.
            fn compare(
                at: &Atomic, expected: Value, new: Value, orders: (i32, i32), found: Option<&mut Value>, pc: usize,
            ) -> Result<Value, Value> {
                let thread = enter(next(op::RMW, at, pc));
                let result = at.compare_exchange(expected, new, SeqCst, SeqCst);
                let found = result.err().and_then(|old| {
                    let found = found?;
                    *found = old;
                    Some(found as *mut Value as usize)
                });
                if let Some(thread) = thread {
                    let address = at.as_ptr() as u64;
                    match result {
                        Ok(old) => {
                            put4(head(op::RMW, detail($log, orders.0), pc), address, old as u64, new as u64);
                            words::note(address as usize);
                        }
                        Err(old) => {
                            put3(head(op::ATOMIC_READ, detail($log, orders.1), pc), address, old as u64);
                            words::note(address as usize);
                            unchanged(thread, address as usize, old as u64);
                            found.into_iter().for_each(|found| put_found(found, size_of::<Value>(), pc));
                        }
                    }
                }
                result
            }

            pub extern "C" fn compare_exchange(
                at: &Atomic, expected: &mut Value, new: Value, order: i32, failure: i32, pc: usize,
            ) -> i32 {
                compare(at, *expected, new, (order, failure), Some(expected), pc).is_ok() as i32
            }

            pub extern "C" fn compare_value(
                at: &Atomic, expected: Value, new: Value, order: i32, failure: i32, pc: usize,
            ) -> Value {
                match compare(at, expected, new, (order, failure), None, pc) {
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
