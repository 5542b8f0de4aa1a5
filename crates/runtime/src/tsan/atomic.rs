//! Callbacks for atomic operations. The runtime always performs the operation with sequential consistency; the record
//! says which order the program asked for.

use crate::base::chunk::Slot;
use crate::base::record::{page, put3, put4};
use crate::base::relaxed::Relaxed;
use crate::base::thread::{self, Thread};
use crate::protocol::seal::Words;
use crate::rewrite::words;
use crate::scheduler::spin::unchanged;
use crate::scheduler::{Next, enter, free_running};
use crate::stubs;
use crate::wire::{head, op};
use core::sync::atomic::{Ordering::SeqCst, fence};

// The compiler's numbers of memory orders.
const RELAXED: i32 = 0;
pub const ACQUIRE: i32 = 2;
pub const RELEASE: i32 = 3;
pub const ACQUIRE_RELEASE: i32 = 4;

pub fn detail(log: u8, order: i32) -> u8 {
    log | (order as u8 & 7) << 3
}

/// Remembers the record, just written, of a read that does not acquire: a later fence may make it acquire.
#[inline]
fn remember(thread: &Thread, order: i32, words: usize) {
    if order == RELAXED || order == RELEASE {
        thread.unacquired.push(page().last(words));
    }
}

/// The reads that a thread has done since its last acquiring fence, as places of their records; the last ones only. All
/// zero at first.
pub struct Unacquired {
    records: [Relaxed<Option<Slot>>; 256],
    count: Relaxed<usize>,
}

impl Unacquired {
    #[inline]
    fn push(&self, record: Slot) {
        let slots = self.records.len();
        let last = self.records[self.count.get().wrapping_sub(1) % slots].get();
        // One that reads the same again and again waits for something.
        let is_same = |last: Slot| (0..3).all(|word| last.get(word) == record.get(word));
        if !last.is_some_and(is_same) {
            self.count.add(1);
        }
        self.records[self.count.get().wrapping_sub(1) % slots].set(Some(record));
    }

    /// Makes them acquire, unless their records have already been handed over.
    fn acquire(&self) {
        for record in self.records.iter().take(self.count.get()) {
            let Some(record) = record.replace(None) else { continue };
            const FIRST_BIT: u32 = 8 + 3;
            let first = record.get(0);
            let stronger = match first >> FIRST_BIT & 7 {
                order if order == RELAXED as u64 => ACQUIRE,
                order if order == RELEASE as u64 => ACQUIRE_RELEASE,
                order => order as i32,
            };
            record.set(0, first & !(7 << FIRST_BIT) | (stronger as u64) << FIRST_BIT);
        }
        self.count.set(0);
    }
}

/// A chunk is about to be handed over: whatever a later fence may mean must acquire now. That may hide a race, where
/// the other way would invent one.
pub fn before_handing_over() {
    thread::all().iter().for_each(|thread| thread.unacquired.acquire());
}

#[unsafe(no_mangle)]
pub extern "C" fn __tsan_atomic_thread_fence(order: i32) {
    fence(SeqCst);
    free_running::leaving(|| {
        let Some(thread) = enter(Next::on(op::FENCE, 0, 0)) else { return };
        put3(head(op::FENCE, 0, 0), order as u64, 0);
        if order != RELEASE && order != RELAXED {
            thread.unacquired.acquire();
        }
    })
}

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
                    remember(thread, order, 3);
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
                    remember(thread, order, 4);
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

            fn compare(
                at: &Atomic, expected: Value, new: Value, orders: (i32, i32), pc: usize,
            ) -> Result<Value, Value> {
                let thread = enter(next(op::RMW, at, pc));
                let result = at.compare_exchange(expected, new, SeqCst, SeqCst);
                if let Some(thread) = thread {
                    let address = at.as_ptr() as u64;
                    match result {
                        Ok(old) => {
                            put4(head(op::RMW, detail($log, orders.0), pc), address, old as u64, new as u64);
                            remember(thread, orders.0, 4);
                            words::note(address as usize);
                        }
                        Err(old) => {
                            put3(head(op::ATOMIC_READ, detail($log, orders.1), pc), address, old as u64);
                            remember(thread, orders.1, 3);
                            words::note(address as usize);
                            unchanged(thread, address as usize, old as u64);
                        }
                    }
                }
                result
            }

            pub extern "C" fn compare_exchange(
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

            pub extern "C" fn compare_value(
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
