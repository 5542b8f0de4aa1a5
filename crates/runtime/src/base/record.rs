//! Writing records into the shared memory.
//!
//! The first word of a record is stored last, after a zero behind the record: where it is, the record is whole, and
//! what lies behind it from an earlier use of the memory is no record.
//!
//! Only the thread that holds the token writes, so the place to write to is a global like the token itself.

use crate::base::chunk::Slot;
use crate::base::kernel;
use crate::base::lock::Shared;
use crate::base::program::Address;
use crate::base::relaxed::Relaxed;
use crate::base::shared::{chunk, header, wanted};
use crate::base::thread;
use crate::protocol::ring;
use crate::protocol::seal::Words;
use crate::scheduler::free_running::is_free;
use crate::scheduler::{give_up, wipe};
use crate::wire::{self, CHUNK, INLINE, SHORTEST, SLACK, WITHOUT_CONTENTS, op};
use core::ptr::NonNull;

/// What the holder of the token works on.
#[repr(C, align(64))]
pub struct Page {
    /// Where the next record goes.
    pub next: Relaxed<*mut u64>,
    /// From here on a record may not fit.
    pub limit: Relaxed<*mut u64>,
    /// Scheduling points until another thread gets its turn.
    pub budget: Relaxed<i64>,
    /// What `budget` was when the holder got the token.
    pub granted: Relaxed<i64>,
    /// Where to put the value that a write is about to leave, if one is pending.
    slot: Relaxed<Option<Slot>>,
    /// What is written.
    address: Relaxed<usize>,
    /// Which bits belong to the value; 0 for `length` bytes that are copied one by one.
    mask: Relaxed<u64>,
    /// Bytes to copy if `mask` is 0.
    length: Relaxed<usize>,
}

static PAGE: Page = Page {
    next: Relaxed::zero(),
    limit: Relaxed::zero(),
    budget: Relaxed::zero(),
    granted: Relaxed::zero(),
    slot: Relaxed::zero(),
    address: Relaxed::zero(),
    mask: Relaxed::zero(),
    length: Relaxed::zero(),
};

/// Chunks that were filled.
static FILLED: Relaxed<u32> = Relaxed::zero();

#[inline(always)]
pub fn page() -> &'static Page {
    &PAGE
}

impl Page {
    /// Where the next record goes, if it fits.
    #[inline(always)]
    pub fn place(&self) -> Option<Slot> {
        let next = self.next.get();
        // SAFETY: a record begins before the limit, behind which there are `SLACK` words more of the chunk.
        // `start_chunk` has set both; before that both are null, and nothing fits.
        (next < self.limit.get()).then(|| unsafe { Slot::new(NonNull::new_unchecked(next)) })
    }

    /// The next record goes there.
    #[inline(always)]
    fn go_on_at(&self, next: Slot) {
        self.next.set(next.address() as *mut u64);
    }

    /// The value of a write that the program is about to do goes into a record as soon as it is there: the bits of
    /// `mask`, or, if that is 0, so many bytes one by one.
    #[inline(always)]
    pub fn fill_in_later(&self, slot: Slot, address: usize, mask: u64, length: usize) {
        self.slot.set(Some(slot));
        self.address.set(address);
        self.mask.set(mask);
        self.length.set(length);
    }
}

/// The first chunk. Once, after the shared memory was attached.
pub fn start_chunk() {
    let first = chunk(FILLED.get() % wanted().chunks);
    PAGE.next.set(first);
    PAGE.limit.set(first.wrapping_add(CHUNK / 8 - SLACK));
}

/// Hands the current chunk to the tool and takes an empty one.
#[cold]
#[inline(never)]
pub fn hand_over() {
    let Some(thread) = thread::current() else { return exchange_chunk() };
    // Waiting for the tool is no reason to take the token away.
    thread::inside(thread, exchange_chunk);
    wipe();
}

/// Nanoseconds between two looks whether the tool is still there.
const PAUSE: u64 = 500_000_000;

fn exchange_chunk() {
    let header = header();
    // Both sides count for ever, and wrap.
    FILLED.set(FILLED.get().wrapping_add(1));
    ring::hand_over(FILLED.get(), &Shared(&header.filled));
    let is_over = || !kernel::is_alive(wanted().tool);
    if !ring::await_empty(FILLED.get(), wanted().chunks, &Shared(&header.emptied), PAUSE, is_over) {
        // Later records overwrite the last chunk.
        give_up("the process that writes the trace is gone; the program runs on unrecorded");
    }
    start_chunk();
}

/// Makes room for a record, and returns where it goes.
#[inline(always)]
pub fn room() -> Slot {
    loop {
        match PAGE.place() {
            Some(at) => return at,
            None => hand_over(),
        }
    }
}

/// A record of which only the first word means anything; the others are left as they are.
#[inline(always)]
pub fn put1(first: u64) {
    let at = room();
    at.set(SHORTEST, 0);
    at.publish(first);
    PAGE.go_on_at(at.plus(SHORTEST));
}

/// Writes a record of three words. Returns the place of the last.
#[inline(always)]
pub fn put3(first: u64, a: u64, b: u64) -> Slot {
    put3_at(room(), first, a, b)
}

/// The same, at a place that [`room`] has returned.
#[inline(always)]
pub fn put3_at(at: Slot, first: u64, a: u64, b: u64) -> Slot {
    at.prefetch();
    PAGE.go_on_at(at.write([first, a, b]));
    at.plus(2)
}

/// Writes a record of four words. Returns the place of the third.
#[inline(always)]
pub fn put4(first: u64, a: u64, b: u64, c: u64) -> Slot {
    put4_at(room(), first, a, b, c)
}

/// The same, at a place that [`room`] has returned.
#[inline(always)]
pub fn put4_at(at: Slot, first: u64, a: u64, b: u64, c: u64) -> Slot {
    PAGE.go_on_at(at.write([first, a, b, c]));
    at.plus(2)
}

/// A record with an address and a length, and room for so many words of contents behind them.
fn put_with_contents(at: Slot, first: u64, a: u64, b: u64, contents: usize) {
    at.set(1, a);
    at.set(2, b);
    at.set(3 + contents, 0);
    at.publish(first);
    PAGE.go_on_at(at.plus(3 + contents));
}

/// A range that is read, or was just written; with its contents if it is short.
pub fn put_range(code: u8, pc: usize, address: usize, length: usize) {
    // What a call that synchronises touches, while accesses are ignored.
    if thread::current().is_some_and(|thread| thread.ignoring.get() != 0) {
        return;
    }
    let at = room();
    let contents = if length <= INLINE && !is_free() { length.div_ceil(8) } else { 0 };
    if contents > 0 {
        at.plus(3).copy(Address(address), length);
    }
    let detail = if is_free() { WITHOUT_CONTENTS } else { 0 };
    put_with_contents(at, wire::head(code, detail, pc), address as u64, length as u64, contents);
}

/// A range whose contents come from outside, such as the time, or go there: they are others when the run is repeated,
/// so they are not part of it.
pub fn put_range_without_contents(code: u8, pc: usize, address: usize, length: usize) {
    if thread::current().is_none_or(|thread| thread.ignoring.get() == 0) {
        put_with_contents(room(), wire::head(code, WITHOUT_CONTENTS, pc), address as u64, length as u64, 0);
    }
}

/// A range that the program is about to write. The next call into the runtime fills in its contents.
pub fn put_range_before_write(pc: usize, address: usize, length: usize) {
    let at = room();
    let contents = if length <= INLINE { length.div_ceil(8) } else { 0 };
    put_with_contents(at, wire::head(op::RANGE_WRITE, 0, pc), address as u64, length as u64, contents);
    if contents > 0 {
        PAGE.fill_in_later(at.plus(3), address, 0, length);
    }
}

/// Writes bytes, in pieces that fit into a chunk.
pub fn put_blob(kind: u64, bytes: &[u8]) {
    const PIECE: usize = CHUNK / 4;
    for piece in bytes.chunks(PIECE) {
        let length = piece.len().div_ceil(8);
        if PAGE.next.get().wrapping_add(3 + length) >= PAGE.limit.get() {
            hand_over();
        }
        // The chunk is empty or has room: a piece is a quarter of one.
        let at = room();
        at.plus(3).copy(Address(piece.as_ptr() as usize), piece.len());
        put_with_contents(at, wire::head(op::BLOB, 0, 0), kind, piece.len() as u64, length);
    }
}

/// Fills in the value of the last announced write, now that the program has written it.
#[inline(always)]
pub fn flush() {
    if !flush_quickly() {
        slow_flush();
    }
}

/// The same for a value that one load can read. Returns false, having done nothing, for any other.
#[inline(always)]
pub fn flush_quickly() -> bool {
    if let Some(slot) = PAGE.slot.get() {
        let mask = PAGE.mask.get();
        if mask == 0 {
            return false;
        }
        slot.set(0, Address(PAGE.address.get()).read::<u64>() & mask);
        PAGE.slot.set(None);
    }
    true
}

/// The same where the write may have failed because the memory cannot be written, or read.
pub fn flush_what_is_there() {
    if let Some(slot) = PAGE.slot.replace(None) {
        // If nothing could be read, the record keeps a 0, and the next read corrects it.
        slot.copy_if_there(Address(PAGE.address.get()), PAGE.length.get());
    }
}

#[cold]
#[inline(never)]
fn slow_flush() {
    if let Some(slot) = PAGE.slot.get() {
        slot.copy(Address(PAGE.address.get()), PAGE.length.get());
        PAGE.slot.set(None);
    }
}
