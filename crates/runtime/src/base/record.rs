//! Writing records into the shared memory.
//!
//! The first word of a record is stored last, after a zero behind the record: where it is, the record is whole, and what lies
//! behind it from an earlier use of the memory is no record.
//!
//! Only the thread that holds the token writes, so the place to write to is a global like the token itself.

use crate::base::c::{self, number, system};
use crate::base::memory::{Global, futex_wait, futex_wake, map};
use crate::base::thread;
use crate::scheduler::free_running::is_free;
use crate::scheduler::token;
use crate::wire::{self, CHUNK, Header, INLINE, OWN_CHUNKS, PAGE, SHORTEST, SLACK, Segment, WITHOUT_CONTENTS, op};
use core::sync::atomic::{AtomicU32, Ordering::*, compiler_fence};

/// What the holder of the token works on. Guarded by the token.
#[repr(C, align(64))]
pub struct Page {
    /// Where the next record goes.
    pub next: *mut u64,
    /// From here on a record may not fit.
    pub limit: *mut u64,
    /// Scheduling points until another thread gets its turn.
    pub budget: i64,
    /// What `budget` was when the holder got the token.
    pub granted: i64,
    /// Where to put the value that a write is about to leave, null if none is pending.
    pub slot: *mut u64,
    /// What is written.
    pub address: usize,
    /// Which bits belong to the value; 0 for `length` bytes that are copied one by one.
    pub mask: u64,
    /// Bytes to copy if `mask` is 0.
    pub length: usize,
}

pub static PAGE_STATE: Global<Page> = Global::new(Page {
    next: core::ptr::null_mut(),
    limit: core::ptr::null_mut(),
    budget: 0,
    granted: 0,
    slot: core::ptr::null_mut(),
    address: 0,
    mask: 0,
    length: 0,
});

static HEADER: Global<*mut Header> = Global::new(core::ptr::null_mut());

/// What the tool wants, as it was when the program started: a program that writes over the header does not change it.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub chunks: u32,
    pub tool: u32,
    pub quantum: u64,
    pub watchdog: u32,
    pub segments: usize,
    pub stop_at_end: bool,
    /// Bytes of the shared memory.
    length: usize,
}

/// Written once, by [`attach`].
static WANTED: Global<Wanted> =
    Global::new(Wanted { chunks: 1, tool: 0, quantum: 1, watchdog: 0, segments: 0, stop_at_end: false, length: 0 });

/// Chunks that were filled. Guarded by the token.
static FILLED: AtomicU32 = AtomicU32::new(0);

/// What the tool wants; only after [`attach`].
#[inline(always)]
pub fn wanted() -> &'static Wanted {
    unsafe { &*WANTED.get() }
}

/// Whether bytes of the shared memory are among these.
pub fn is_shared(from: usize, length: usize) -> bool {
    let start = unsafe { *HEADER.get() } as usize;
    start != 0 && from < start + wanted().length && start < from.saturating_add(length)
}

#[inline(always)]
pub fn page() -> &'static mut Page {
    unsafe { &mut *PAGE_STATE.get() }
}

/// The shared header; only after [`attach`].
#[inline(always)]
pub fn header() -> &'static Header {
    unsafe { &**HEADER.get() }
}

/// Maps the shared memory and claims it. False if there is none, or another process records already.
pub fn attach(path: &[u8]) -> bool {
    let descriptor = c::open(path, 2);
    if descriptor < 0 {
        return false;
    }
    let length = unsafe { system(number::LSEEK, [descriptor as usize, 0, 2, 0, 0, 0]) };
    let usable = length > PAGE as i64;
    if usable {
        unsafe { *HEADER.get() = map(length as usize, Some(descriptor)).cast() };
    }
    c::close(descriptor);
    if !usable || header().magic != wire::MAGIC || header().version != wire::VERSION {
        return false;
    }
    if header().owner.compare_exchange(0, c::pid(), AcqRel, Relaxed).is_err() {
        return false;
    }
    let header = header();
    unsafe {
        *WANTED.get() = Wanted {
            chunks: header.chunks,
            tool: header.tool,
            quantum: header.quantum,
            watchdog: header.watchdog,
            segments: header.segments as usize,
            stop_at_end: header.stop_at_end != 0,
            length: length as usize,
        };
    }
    start_chunk();
    true
}

/// The schedule to follow.
pub fn segments() -> &'static [Segment] {
    let count = wanted().segments;
    if count == 0 {
        return &[];
    }
    unsafe { core::slice::from_raw_parts((*HEADER.get()).cast::<u8>().add(PAGE).cast(), count) }
}

/// Where the ring starts.
fn chunks() -> *mut u8 {
    let schedule = (wanted().segments * size_of::<Segment>()).next_multiple_of(PAGE);
    unsafe { (*HEADER.get()).cast::<u8>().add(PAGE + schedule) }
}

/// Which chunks of single threads are in use; only if threads run freely.
pub fn own_chunks_in_use() -> &'static [AtomicU32] {
    let after = wanted().chunks as usize * CHUNK;
    unsafe { core::slice::from_raw_parts(chunks().add(after).cast(), OWN_CHUNKS) }
}

/// These chunks.
pub fn own_chunks() -> *mut u8 {
    let table = (OWN_CHUNKS * size_of::<AtomicU32>()).next_multiple_of(PAGE);
    unsafe { chunks().add(wanted().chunks as usize * CHUNK + table) }
}

fn start_chunk() {
    let index = FILLED.load(Relaxed) % wanted().chunks;
    let page = page();
    unsafe {
        let chunk = chunks().add(index as usize * CHUNK);
        page.next = chunk.cast();
        page.limit = chunk.cast::<u64>().add(CHUNK / 8 - SLACK);
    }
}

/// Hands the current chunk to the tool and takes an empty one.
#[cold]
#[inline(never)]
pub fn hand_over() {
    let thread = crate::base::thread::current();
    if thread.is_null() {
        return exchange_chunk();
    }
    // Waiting for the tool is no reason to take the token away.
    crate::base::thread::inside(thread, exchange_chunk);
    token::wipe();
}

fn exchange_chunk() {
    crate::tsan::atomic::before_handing_over();
    let header = header();
    let filled = FILLED.load(Relaxed).wrapping_add(1);
    FILLED.store(filled, Relaxed);
    header.filled.store(filled, Release);
    futex_wake(&header.filled, 1, true);
    loop {
        let emptied = header.emptied.load(Acquire);
        if filled.wrapping_sub(emptied) < wanted().chunks {
            break;
        }
        let result = futex_wait(&header.emptied, emptied, Some(500_000_000), true);
        if result == -(c::ETIMEDOUT as i64) && !c::is_alive(wanted().tool) {
            token::give_up("the process that writes the trace is gone; the program runs on unrecorded");
            // Whatever is still written goes over the last chunk.
            break;
        }
    }
    start_chunk();
}

/// Sees to it that there is room for a record.
#[inline(always)]
pub fn room() {
    if page().next >= page().limit {
        hand_over();
    }
}

/// A record of one word that counts, and others that are whatever they are.
#[inline(always)]
pub fn put1(first: u64) {
    room();
    let page = page();
    let at = page.next;
    unsafe {
        *at.add(SHORTEST) = 0;
        compiler_fence(Release);
        *at = first;
        page.next = at.add(SHORTEST);
    }
}

/// A record of three words; where the last one is.
#[inline(always)]
pub fn put3(first: u64, a: u64, b: u64) -> *mut u64 {
    room();
    put3_here(first, a, b)
}

/// The same where there is room.
#[inline(always)]
pub fn put3_here(first: u64, a: u64, b: u64) -> *mut u64 {
    let page = page();
    let at = page.next;
    unsafe {
        // The tool has read the memory that comes, so it is in the cache of another processor; waiting for it takes as long as
        // all the rest.
        core::arch::asm!("prefetchw [{0} + 1024]", in(reg) at, options(nostack, preserves_flags));
        *at.add(1) = a;
        *at.add(2) = b;
        *at.add(3) = 0;
        compiler_fence(Release);
        *at = first;
        page.next = at.add(3);
        at.add(2)
    }
}

#[inline(always)]
pub fn put4(first: u64, a: u64, b: u64, c: u64) -> *mut u64 {
    room();
    put4_here(first, a, b, c)
}

/// The same where there is room.
#[inline(always)]
pub fn put4_here(first: u64, a: u64, b: u64, c: u64) -> *mut u64 {
    let page = page();
    let at = page.next;
    unsafe {
        *at.add(1) = a;
        *at.add(2) = b;
        *at.add(3) = c;
        *at.add(4) = 0;
        compiler_fence(Release);
        *at = first;
        page.next = at.add(4);
        at.add(2)
    }
}

/// A range that is read, or was written just now; with its contents if they are few.
pub fn put_range(code: u8, pc: usize, address: usize, length: usize) {
    // What a call that synchronises touches, while accesses are ignored.
    if unsafe { (*thread::current()).ignoring } != 0 {
        return;
    }
    room();
    let page = page();
    let at = page.next;
    let inline = if length <= INLINE && !is_free() { length.div_ceil(8) } else { 0 };
    unsafe {
        if inline > 0 {
            copy_bytes(address, at.add(3), length);
        }
        *at.add(1) = address as u64;
        *at.add(2) = length as u64;
        *at.add(3 + inline) = 0;
        compiler_fence(Release);
        *at = wire::head(code, if is_free() { WITHOUT_CONTENTS } else { 0 }, pc);
        page.next = at.add(3 + inline);
    }
}

/// A range that the program is about to write: its contents are taken at the next call into the runtime.
pub fn put_range_before_write(pc: usize, address: usize, length: usize) {
    room();
    let page = page();
    let at = page.next;
    let inline = if length <= INLINE { length.div_ceil(8) } else { 0 };
    unsafe {
        *at.add(1) = address as u64;
        *at.add(2) = length as u64;
        *at.add(3 + inline) = 0;
        compiler_fence(Release);
        *at = wire::head(op::RANGE_WRITE, 0, pc);
        page.next = at.add(3 + inline);
        if inline > 0 {
            (page.slot, page.address, page.mask, page.length) = (at.add(3), address, 0, length);
        }
    }
}

/// Bytes, in pieces that fit a chunk.
pub fn put_blob(kind: u64, bytes: &[u8]) {
    const PIECE: usize = CHUNK / 4;
    for piece in bytes.chunks(PIECE) {
        let length = piece.len().div_ceil(8);
        if unsafe { page().next.add(3 + length) } >= page().limit {
            hand_over();
        }
        let page = page();
        let at = page.next;
        unsafe {
            copy_bytes(piece.as_ptr() as usize, at.add(3), piece.len());
            *at.add(1) = kind;
            *at.add(2) = piece.len() as u64;
            *at.add(3 + length) = 0;
            compiler_fence(Release);
            *at = wire::head(op::BLOB, 0, 0);
            page.next = at.add(3 + length);
        }
    }
}

unsafe fn copy_bytes(from: usize, to: *mut u64, length: usize) {
    let to: *mut u8 = to.cast();
    for i in 0..length {
        unsafe { *to.add(i) = ((from + i) as *const u8).read_volatile() };
    }
}

/// Takes the value of the write that was announced last, now that the program has written it.
#[inline(always)]
pub fn flush() {
    if !flush_quickly() {
        slow_flush();
    }
}

/// The same if it is a few bytes that can be taken at once; false if nothing was done.
#[inline(always)]
pub fn flush_quickly() -> bool {
    let page = page();
    if !page.slot.is_null() {
        if page.mask == 0 {
            return false;
        }
        unsafe { *page.slot = (page.address as *const u64).read_unaligned() & page.mask };
        page.slot = core::ptr::null_mut();
    }
    true
}

/// The same if the write may not have come about, because the memory cannot be written, or read.
pub fn flush_what_is_there() {
    let page = page();
    if page.slot.is_null() {
        return;
    }
    let pieces = [page.slot as usize, page.length, page.address, page.length];
    const READ_PROCESS: i64 = 310;
    let (to, from) = (pieces.as_ptr() as usize, unsafe { pieces.as_ptr().add(2) } as usize);
    // What it leaves alone is 0, and the next read says otherwise.
    unsafe { system(READ_PROCESS, [c::pid() as usize, to, 1, from, 1, 0]) };
    page.slot = core::ptr::null_mut();
}

#[cold]
#[inline(never)]
fn slow_flush() {
    let page = page();
    unsafe { copy_bytes(page.address, page.slot, page.length) };
    page.slot = core::ptr::null_mut();
}
