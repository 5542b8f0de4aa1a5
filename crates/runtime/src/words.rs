//! Synchronisation words that code we do not see changes.
//!
//! Rust's standard library comes compiled: the fast paths of its locks are inlined into the program and seen, the slow
//! paths are not. Both work on four-byte words, and slow paths call `futex`. So the last known value of each word is
//! remembered, and around a `futex` the words that the thread used last are looked at: what changed was changed by
//! this thread, as it alone runs, and becomes a read-modify-write.

use crate::c::{self, number, system};
use crate::memory::Global;
use crate::record::{flush, flush_and_look_next, put4};
use crate::thread::Thread;
use crate::wire::{head, op};

const SLOTS: usize = 1 << 12;

/// Words that each thread used last.
pub const RECENT: usize = 32;

/// Address and last known value, by a hash of the address. Guarded by the token.
static LAST: Global<[(usize, u32); SLOTS]> = Global::new([(0, 0); SLOTS]);

fn last(address: usize) -> &'static mut (usize, u32) {
    let slot = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
    unsafe { &mut (&mut *LAST.get())[slot] }
}

/// An atomic access left this value at the address.
#[inline]
pub fn note(thread: *mut Thread, address: usize, log: u8, value: u64) {
    if log != 2 {
        return;
    }
    *last(address) = (address, value as u32);
    let thread = unsafe { &mut *thread };
    if thread.words[thread.next_word.wrapping_sub(1) % RECENT] != address {
        thread.words[thread.next_word % RECENT] = address;
        thread.next_word = thread.next_word.wrapping_add(1);
    }
}

/// What is there now; `None` if nothing is.
fn read_word(address: usize) -> Option<u32> {
    let mut value = 0u32;
    let own = [&raw mut value as usize, 4];
    let other = [address, 4];
    let arguments = [c::pid() as usize, own.as_ptr() as usize, 1, other.as_ptr() as usize, 1, 0];
    (unsafe { system(number::PROCESS_VM_READV, arguments) } == 4).then_some(value)
}

/// Looks at the words of the holder.
#[cold]
pub fn look(thread: *mut Thread) {
    let words = unsafe { &(*thread).words };
    for (i, &address) in words.iter().enumerate() {
        if address == 0 || words[..i].contains(&address) {
            continue;
        }
        let last = last(address);
        let (Some(now), true) = (read_word(address), last.0 == address) else { continue };
        if now != last.1 {
            const ACQUIRE_RELEASE: u8 = 4;
            put4(head(op::RMW, 2 | ACQUIRE_RELEASE << 3, 0), address as u64, last.1 as u64, now as u64);
            last.1 = now;
        }
    }
}

/// The holder is about to call `futex` on a word.
pub fn before_futex(thread: *mut Thread, address: usize) {
    flush();
    look(thread);
    if let Some(value) = read_word(address) {
        note(thread, address, 2, value as u64);
    }
}

/// The holder is back from it: looks now and at its next event.
pub fn after_futex(thread: *mut Thread) {
    look(thread);
    flush_and_look_next();
}
