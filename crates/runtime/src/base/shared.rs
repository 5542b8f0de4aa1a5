//! The memory that the runtime shares with the tool: found, claimed, and divided into header, schedule and chunks.

use crate::base::kernel;
use crate::base::memory::map;
use crate::base::program::Address;
use crate::wire::{self, CHUNK, Header, OWN_CHUNK, OWN_CHUNKS, PAGE, Segment};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use std::sync::OnceLock;

/// Where the shared memory is: the tool writes it over this when it makes the library.
#[used]
static PLACE: [u8; wire::PLACE.len()] = *wire::PLACE;

/// The path of the shared memory, with zeros behind it.
pub fn place() -> [u8; wire::PLACE.len()] {
    let mut path = [0; wire::PLACE.len()];
    // Byte by byte, as they are now and not as they were compiled.
    path.iter_mut().zip(&PLACE).for_each(|(to, from)| *to = Address::from(&raw const *from).byte());
    path
}

/// Null before [`attach`]; never null again.
static HEADER: AtomicPtr<Header> = AtomicPtr::new(core::ptr::null_mut());

/// What the tool wants, as it was when the program started: a program that writes over the header does not change it.
pub struct Wanted {
    pub chunks: u32,
    pub tool: u32,
    pub quantum: u64,
    pub watchdog: u32,
    pub segments: usize,
    pub stop_at_end: bool,
    /// The tool looks before this segment; 0: nowhere.
    pub look_before: u64,
    /// Steps that each thread may take while the end of the program is put off; 0: it is not.
    pub drain_steps: u64,
    /// Milliseconds for which it is put off at most.
    pub drain_time: u32,
    /// Words of the table of models.
    models: usize,
    /// Bytes of the shared memory.
    length: usize,
}

static WANTED: OnceLock<Wanted> = OnceLock::new();

/// What the tool wants; defaults before [`attach`].
#[inline(always)]
pub fn wanted() -> &'static Wanted {
    static NOTHING: Wanted = Wanted {
        chunks: 1,
        tool: 0,
        quantum: 1,
        watchdog: 0,
        segments: 0,
        stop_at_end: false,
        look_before: 0,
        drain_steps: 0,
        drain_time: 0,
        models: 0,
        length: 0,
    };
    WANTED.get().unwrap_or(&NOTHING)
}

/// Whether a range overlaps the shared memory.
pub fn is_shared(from: usize, length: usize) -> bool {
    let start = HEADER.load(Relaxed) as usize;
    start != 0 && from < start + wanted().length && start < from.saturating_add(length)
}

/// The shared header; only after [`attach`].
#[inline(always)]
pub fn header() -> &'static Header {
    // SAFETY: `attach` has mapped the memory, which is longer than a header, before recording starts, and nobody asks
    // before. It stays mapped: recording ends before the program takes it away. What changes there is atomic.
    unsafe { &*HEADER.load(Relaxed) }
}

/// Maps the shared memory and claims it. Returns false if there is none, or if another process already records.
pub fn attach() -> bool {
    let descriptor = kernel::open(&place(), 2);
    if descriptor < 0 {
        return false;
    }
    let length = kernel::file_length(descriptor);
    let usable = length > PAGE as i64;
    if usable {
        HEADER.store(map(length as usize, Some(descriptor)).cast(), Relaxed);
    }
    kernel::close(descriptor);
    if !usable || header().magic != wire::MAGIC || header().version != wire::VERSION {
        return false;
    }
    let header = header();
    if header.owner.compare_exchange(0, kernel::pid(), AcqRel, Relaxed).is_err() {
        return false;
    }
    let wanted = Wanted {
        chunks: header.chunks,
        tool: header.tool,
        quantum: header.quantum,
        watchdog: header.watchdog,
        segments: header.segments as usize,
        stop_at_end: header.stop_at_end != 0,
        look_before: header.look_before,
        drain_steps: header.drain_steps,
        drain_time: header.drain_time,
        models: header.models as usize,
        length: length as usize,
    };
    WANTED.set(wanted).is_ok()
}

/// An address in the shared memory, by its offset in bytes.
fn at(offset: usize) -> *mut u8 {
    HEADER.load(Relaxed).cast::<u8>().wrapping_add(offset)
}

/// The schedule to follow.
pub fn segments() -> &'static [Segment] {
    let count = wanted().segments;
    if count == 0 {
        return &[];
    }
    // SAFETY: the tool has written so many segments behind the page of the header before the program started, and
    // leaves them alone.
    unsafe { core::slice::from_raw_parts(at(PAGE).cast(), count) }
}

/// Where the table of models starts, in bytes.
fn table_of_models() -> usize {
    PAGE + (wanted().segments * size_of::<Segment>()).next_multiple_of(PAGE)
}

/// The table of models, as the tool has put it there. Only before the program itself has started: it may write over it.
pub fn models() -> &'static [u64] {
    let count = wanted().models;
    if count == 0 {
        return &[];
    }
    // SAFETY: the tool has written so many words behind the schedule before the program started, and leaves them alone.
    unsafe { core::slice::from_raw_parts(at(table_of_models()).cast(), count) }
}

/// Where the ring starts, in bytes.
fn ring() -> usize {
    table_of_models() + (wanted().models * size_of::<u64>()).next_multiple_of(PAGE)
}

/// A chunk of the ring.
pub fn chunk(index: u32) -> *mut u64 {
    at(ring() + index as usize * CHUNK).cast()
}

/// The table of chunks of single threads, in bytes.
fn table() -> usize {
    ring() + wanted().chunks as usize * CHUNK
}

/// Which chunks of single threads are in use; only if threads run freely.
pub fn own_chunks_in_use() -> &'static [AtomicU32] {
    // SAFETY: the tool makes the memory large enough for the table if threads are to run freely; both sides use its
    // words atomically.
    unsafe { core::slice::from_raw_parts(at(table()).cast(), OWN_CHUNKS) }
}

/// One of these chunks.
pub fn own_chunk(number: usize) -> NonNull<u64> {
    let first = table() + (OWN_CHUNKS * size_of::<AtomicU32>()).next_multiple_of(PAGE);
    // SAFETY: the address is the header's, which is not null, and a bit more.
    unsafe { NonNull::new_unchecked(at(first + number * OWN_CHUNK).cast()) }
}
