//! Threads that run freely: at the same time, as without us.
//!
//! What synchronises, allocates or blocks still takes the token, for as long as it lasts, so its order is exact. Accesses and
//! copies do not: each thread puts them into memory of its own, with the time. One that was announced at a time has
//! happened before the time of the thread's next record. Where the times of two do not overlap, their order is known, and so
//! are their values; where they do, the tool knows that it does not know.
//!
//! That needs a clock that all processors share, and fences, or the processor would do an access before the time is
//! taken or keep a write to itself afterwards.

use crate::base::c;
use crate::base::memory::{Global, futex_wait};
use crate::base::record::{self, header, put3};
use crate::base::thread::{self, State, Thread, inside};
use crate::interpose::signals;
use crate::scheduler::token::{self, is_on};
use crate::wire::{OWN_CHUNK, OWN_CHUNKS, OWN_SLACK, head, op};
use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// Whether threads run freely. Read by assembly.
pub static FREE: AtomicBool = AtomicBool::new(false);

#[inline(always)]
pub fn is_free() -> bool {
    FREE.load(Relaxed)
}

/// So many new chunks, and the tool is given what the ring has, so that it can follow.
const PATIENCE: u32 = 32;

/// Chunks since the ring was handed over last. Guarded by the token.
static SINCE: AtomicU32 = AtomicU32::new(0);

/// The chunk that is most likely free. Guarded by the token.
static HINT: AtomicU32 = AtomicU32::new(0);

/// Chunks that were ever taken. The shared table says which of them were given back; of others it says nothing, whatever is written there.
/// Guarded by the token.
static TAKEN: Global<[bool; OWN_CHUNKS]> = Global::new([false; OWN_CHUNKS]);

/// Where a thread puts its accesses.
pub struct Own {
    /// Words in chunks that are full.
    before: u64,
    /// The chunk.
    start: *mut u64,
    next: *mut u64,
    limit: *mut u64,
    /// Where to put the value that a write is about to leave, null if none is pending.
    slot: *mut u64,
    address: usize,
    log: u8,
    /// The time of a record of ranges that is being written at `next`, 0 if there is none, and how many it has.
    ranges_since: u64,
    ranges: usize,
}

/// Most ranges of one record.
const RANGES: usize = 4;

impl Own {
    /// Takes the value of the write that was announced last, now that the thread has done it.
    #[inline(always)]
    pub fn flush(&mut self) {
        if !self.slot.is_null() {
            unsafe { read_value(self.address, self.log, self.slot) };
            self.slot = core::ptr::null_mut();
        }
    }

    #[inline(always)]
    unsafe fn put1(&mut self, first: u64) {
        unsafe {
            self.next.write_volatile(first);
            self.next = self.next.add(1);
        }
    }

    fn add_range(&mut self, address: usize, length: usize, writes: bool) {
        if self.ranges < RANGES {
            unsafe {
                let at = self.next.add(3 + 2 * self.ranges);
                at.write_volatile(address as u64);
                at.add(1).write_volatile(length as u64 | (writes as u64) << 63);
            }
            self.ranges += 1;
        }
    }

    pub fn end_ranges(&mut self) {
        if self.ranges_since != 0 {
            unsafe {
                self.next.add(2).write_volatile(self.ranges as u64);
                self.next.add(1).write_volatile(self.ranges_since);
                self.next = self.next.add(3 + 2 * self.ranges);
            }
            (self.ranges_since, self.ranges) = (0, 0);
        }
    }

    /// How many words it has put there.
    pub fn position(&self) -> u64 {
        self.before + (self.next as u64 - self.start as u64) / 8
    }
}

#[inline(always)]
unsafe fn read_value(address: usize, log: u8, to: *mut u64) {
    unsafe {
        let value = match log {
            0 => (address as *const u8).read_volatile() as u64,
            1 => (address as *const u16).read_unaligned() as u64,
            2 => (address as *const u32).read_unaligned() as u64,
            _ => (address as *const u64).read_unaligned(),
        };
        to.write_volatile(value);
        if log == 4 {
            to.add(1).write_volatile((address as *const u64).add(1).read_unaligned());
        }
    }
}

/// The time, after everything before and before everything after. Never 0.
#[inline(always)]
pub fn time() -> u64 {
    let (low, high): (u64, u64);
    unsafe {
        asm!("lfence", "rdtsc", "lfence", out("rax") low, out("rdx") high, options(nostack, preserves_flags));
    }
    (high << 32 | low).max(1)
}

/// Stores a word that others can see before whatever comes next is done, as they can see all stores before.
#[inline(always)]
unsafe fn show(at: *mut u64, word: u64) {
    unsafe { asm!("xchg qword ptr [{0}], {1}", in(reg) at, inout(reg) word => _, options(nostack, preserves_flags)) };
}

/// Whether what a thread does counts.
#[inline(always)]
fn is_seen(thread: *mut Thread) -> bool {
    is_on() && unsafe { (*thread).inside == 0 && (*thread).ignoring == 0 }
}

/// At the entry of a callback of a thread that runs by itself: whether its event counts.
#[inline(always)]
fn counts(thread: *mut Thread) -> bool {
    if thread.is_null() || !is_seen(thread) {
        return false;
    }
    leave_with(thread);
    let this = unsafe { &mut *thread };
    if this.pending_signals.load(Relaxed) != 0 {
        signals::deliver(thread);
        leave_with(thread);
    }
    has_room(thread)
}

#[inline(always)]
fn has_room(thread: *mut Thread) -> bool {
    let own = unsafe { &mut (*thread).own };
    // A handler of a fault in the middle of a function that touches ranges.
    own.end_ranges();
    own.next < own.limit || more(thread)
}

pub unsafe fn access<const LOG: u8, const WRITES: bool>(thread: *mut Thread, address: usize, pc: usize) {
    if !counts(thread) {
        return;
    }
    let own = unsafe { &mut (*thread).own };
    own.flush();
    let at = own.next;
    let words = if LOG == 4 { 5 } else { 4 };
    unsafe {
        show(at, head(if WRITES { op::WRITE } else { op::READ }, LOG, pc));
        let time = time();
        at.add(1).write_volatile(address as u64);
        at.add(words - 1).write_volatile(time);
        own.next = at.add(words);
        // The value is looked at when the thread's next record is there. Should there be no such memory, the record is whole.
        if WRITES {
            (own.slot, own.address, own.log) = (at.add(2), address, LOG);
        } else {
            read_value(address, LOG, at.add(2));
        }
    }
}

/// A function that touches ranges of memory begins; which ones it is told by [`add_range`]. Whether it counts.
pub fn begin_ranges(thread: *mut Thread, pc: usize) -> bool {
    if !counts(thread) {
        return false;
    }
    let own = unsafe { &mut (*thread).own };
    own.flush();
    unsafe { show(own.next, head(op::RANGES, 0, pc)) };
    own.ranges_since = time();
    true
}

/// A range that the thread is about to touch.
pub fn range(thread: *mut Thread, address: usize, length: usize, writes: bool, pc: usize) {
    if begin_ranges(thread, pc) {
        add_range(address, length, writes);
        end_ranges();
    }
}

pub fn add_range(address: usize, length: usize, writes: bool) {
    unsafe { (*thread::current()).own.add_range(address, length, writes) };
}

/// The function has done its work.
pub extern "C" fn end_ranges() {
    let thread = thread::current();
    if is_free() && !thread.is_null() {
        unsafe { (*thread).own.end_ranges() };
    }
}

pub unsafe fn enter_function(thread: *mut Thread, pc: usize, stack: usize) {
    if !counts(thread) {
        return;
    }
    unsafe {
        (*thread).own.flush();
        thread::enter_frame(thread, pc, stack, |record| put_call(thread, record));
    }
}

pub unsafe fn leave_function(thread: *mut Thread) {
    if !counts(thread) {
        return;
    }
    unsafe {
        // What was written may be gone with the frame.
        (*thread).own.flush();
        thread::leave_frame(thread, |record| put_call(thread, record));
    }
}

pub unsafe fn left_to(thread: *mut Thread, stack: usize) {
    if counts(thread) {
        unsafe {
            (*thread).own.flush();
            thread::leave_frames(thread, stack, |record| put_call(thread, record));
        }
    }
}

fn put_call(thread: *mut Thread, record: u64) {
    if has_room(thread) {
        unsafe { (*thread).own.put1(record) };
    }
}

/// A signal handler runs wherever the thread was, maybe in front of the access that it has announced.
pub fn around_handler(thread: *mut Thread, handler: impl FnOnce()) {
    if !is_free() || thread.is_null() || !is_seen(thread) {
        return handler();
    }
    // It may have come in the middle of an operation, which needs the token again.
    let held = token::is_holder(thread);
    // What is pending is not written yet.
    unsafe { (*thread).own.slot = core::ptr::null_mut() };
    if has_room(thread) {
        unsafe { (*thread).own.put1(head(op::HANDLER, 0, 0)) };
    }
    handler();
    if is_seen(thread) && has_room(thread) {
        unsafe { (*thread).own.put1(head(op::HANDLED, 0, 0)) };
    }
    if held && is_on() {
        inside(thread, || token::regain(thread));
    }
}

/// An access that reads and writes.
pub fn read_write(thread: *mut Thread, address: usize, length: usize, pc: usize) {
    if begin_ranges(thread, pc) {
        add_range(address, length, false);
        add_range(address, length, true);
        end_ranges();
    }
}

/// Another chunk for the accesses of a thread. False if it does not get one: then recording is off.
#[cold]
#[inline(never)]
fn more(thread: *mut Thread) -> bool {
    inside(thread, || {
        token::acquire(thread);
        if !is_on() {
            return false;
        }
        let own = unsafe { &mut (*thread).own };
        if !own.next.is_null() {
            unsafe { own.put1(head(op::NEXT, 0, 0)) };
            own.before = own.position();
            own.start = own.next;
        }
        let number = match free_chunk() {
            Ok(number) => number,
            Err(why) => {
                token::give_up(why);
                return false;
            }
        };
        let chunk: *mut u64 = record::own_chunks().wrapping_add(number * OWN_CHUNK).cast();
        (own.start, own.next) = (chunk, chunk);
        own.limit = chunk.wrapping_add(OWN_CHUNK / 8 - OWN_SLACK);
        put3(head(op::OWN, 0, 0), number as u64, 0);
        if SINCE.fetch_add(1, Relaxed) >= PATIENCE {
            SINCE.store(0, Relaxed);
            record::hand_over();
        }
        token::release(thread);
        true
    })
}

/// Takes a chunk, as soon as the tool has given one back.
fn free_chunk() -> Result<usize, &'static str> {
    let used = record::own_chunks_in_use();
    // They are given back about in the order in which they were taken.
    let hint = HINT.load(Relaxed) as usize;
    let taken = unsafe { &mut *TAKEN.get() };
    let is_free = |taken: &[bool], number: usize| !taken[number] || used[number].load(Acquire) == 0;
    let find = |taken: &[bool]| (hint..OWN_CHUNKS).chain(0..hint).find(|&number| is_free(taken, number));
    // All that is in use is being filled by some thread, or about to be given back.
    let running = (0..thread::count()).filter(|&n| !unsafe { (*thread::by_number(n)).is(State::Dead) }).count();
    if running >= OWN_CHUNKS - 1 {
        return Err("the program has too many threads at once; it runs on unrecorded");
    }
    let mut handed_over = false;
    loop {
        let given_back = header().given_back.load(Acquire);
        if let Some(number) = find(taken) {
            taken[number] = true;
            used[number].store(1, Relaxed);
            HINT.store((number as u32 + 1) % OWN_CHUNKS as u32, Relaxed);
            return Ok(number);
        }
        if !core::mem::replace(&mut handed_over, true) {
            record::hand_over();
        }
        futex_wait(&header().given_back, given_back, Some(100_000_000), true);
        if !c::is_alive(record::wanted().tool) {
            return Err("the process that writes the trace is gone; the program runs on unrecorded");
        }
    }
}

/// The end of something that took the token: the thread runs by itself again.
pub unsafe extern "C" fn leave() {
    end_ranges();
    if is_free() {
        leave_with(thread::current());
    }
}

#[inline(always)]
fn leave_with(thread: *mut Thread) {
    if thread.is_null() || unsafe { (*thread).inside } != 0 {
        return;
    }
    token::await_decision();
    if token::is_holder(thread) && is_on() {
        inside(thread, || token::release(thread));
    }
}

/// Does something that may take the token.
pub fn leaving<R>(work: impl FnOnce() -> R) -> R {
    let result = work();
    unsafe { leave() };
    result
}

/// Calls what r10 points to, with all its arguments, and notes the ranges that it has touched. The runtime's own copies go this
/// way as well, in the middle of whatever it does.
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
        "call {leave}",
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
