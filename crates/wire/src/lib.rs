//! What the runtime in the program and the tool tell each other, in memory that both map.
//!
//! The memory is a header of one page, a schedule for replay, a table of models, and a ring of chunks. The program fills chunk after chunk
//! with records; the tool empties them, makes their first word zero and hands them back. A record is one or more 64-bit words
//! and its first word is never zero, and there is a zero word behind the last record, so when the program dies, however it dies,
//! the tool finds everything that was recorded in the chunk that was being filled.
//!
//! Where threads run freely, the ring has what they do one after the other, each turn with the time at which it began. Their
//! accesses and calls are in chunks of their own, of which each thread fills one after the other; the ring says which.
//! There a record of an access is complete when its time, which is stored last, is not zero. Its first word can be seen before
//! the time is taken: if there is none, whatever comes will be later than now.
//!
//! Both sides compile this crate. The runtime is built without cargo, so `build.rs` tells `snag-runtime` where these
//! sources are; for the same reason the crate depends on nothing.

#![no_std]

pub mod models;
pub mod patches;

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Where the runtime library has the path of the shared memory: the tool writes it over this, with zeros behind.
pub const PLACE: &[u8; 64] = b"the path of the shared memory belongs here; the tool puts it in\0";

/// The environment variable that names the shared memory, by which the tool knows the processes of a recording.
pub const VARIABLE: &str = "SNAG_RECORDING";

/// First word of the shared memory.
pub const MAGIC: u64 = 0x3167_6e69_7267_616e;

/// Changes whenever records or header change.
pub const VERSION: u32 = 12;

/// Bytes before the schedule, and the size of a page.
pub const PAGE: usize = 4096;

/// Bytes of a chunk.
pub const CHUNK: usize = 1 << 20;

/// Words kept free at the end of a chunk, so that a record never has to be split. Blobs check for themselves.
pub const SLACK: usize = 64;

/// Ranges up to this length are recorded with their contents.
pub const INLINE: usize = 64;

/// Bytes of a chunk for the accesses of one thread that runs freely.
pub const OWN_CHUNK: usize = 1 << 16;

/// How many of those there are, after the chunks of the ring and a table of words that are not zero while a chunk is in use.
pub const OWN_CHUNKS: usize = 4096;

/// Words kept free at the end of such a chunk.
pub const OWN_SLACK: usize = 16;

/// The first page of the shared memory. The tool fills it before the program starts.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// How many chunks follow the schedule.
    pub chunks: u32,
    /// The tool; if it is gone, nobody empties chunks.
    pub tool: u32,
    /// The process that records, once there is one; others that start later run unrecorded.
    pub owner: AtomicU32,
    /// Chunks that the program has filled.
    pub filled: AtomicU32,
    /// Chunks that the tool has emptied.
    pub emptied: AtomicU32,
    /// Scheduling points after which another thread gets its turn; 0: the runtime decides.
    pub quantum: u64,
    /// 0: threads take turns; else they are picked at random, from this seed.
    pub seed: u64,
    /// Milliseconds between two looks at a thread that holds the token and records nothing.
    pub watchdog: u32,
    /// Set by the program when it cannot go on recording; see the constants.
    pub trouble: AtomicU32,
    /// Segments of the schedule to follow; 0: none, record freely.
    pub segments: u64,
    /// Segments that have been run.
    pub replayed: AtomicU64,
    /// How following the schedule ended; see the constants.
    pub outcome: AtomicU32,
    /// 1 if the threads should be stopped at the end of the schedule, 0 if they should run on.
    pub stop_at_end: u32,
    /// 1 if threads run freely, 0 if one at a time.
    pub free: u32,
    /// Chunks of single threads that the tool has given back.
    pub given_back: AtomicU32,
    /// Before this segment everything stands still until the tool has looked; 0: nowhere.
    pub look_before: u64,
    /// Set by the tool when it has looked.
    pub looked: AtomicU32,
    /// Milliseconds for which the end of the program is put off at most, so that other threads can run.
    pub drain_time: u32,
    /// Steps that each of them may take meanwhile; 0: the end is not put off.
    pub drain_steps: u64,
    /// 1 while every thread waits for another one and none of them will give up.
    pub stalled: AtomicU32,
    /// The process that asks what to rewrite in its program (see [`patches`]): twice its number, and [`ANSWERED`] when
    /// the tool has answered. 0: nobody asks; [`DEAF`]: the tool no longer answers. A process that finds 0 puts its
    /// number here, and 0 again when it has taken its answer.
    pub asks: AtomicU32,
    /// The answer: the number of the tool's descriptor for the list, or [`NO_LIST`].
    pub answer: AtomicU32,
    /// Words of the table of models, which lies behind the schedule: see [`models`].
    pub models: u64,
}

/// [`Header::asks`]: the tool has answered.
pub const ANSWERED: u32 = 1;
/// [`Header::asks`]: nobody is answered any more.
pub const DEAF: u32 = u32::MAX;
/// [`Header::answer`]: there is nothing to rewrite.
pub const NO_LIST: u32 = u32::MAX;

/// [`Header::trouble`]: more threads than the runtime has room for; the rest is not recorded.
pub const TOO_MANY_THREADS: u32 = 1;
/// [`Header::trouble`]: the program takes away, or protects, the memory that it shares with the tool.
pub const UNMAPPED: u32 = 2;
/// [`Header::trouble`]: the program forbids itself system calls that the runtime needs.
pub const FORBIDDEN: u32 = 3;
/// [`Header::trouble`]: the program's code in memory differs from its file, so that not all of it could be rewritten.
pub const OTHER_CODE: u32 = 4;

/// [`Header::outcome`]: the schedule was followed to its end.
pub const FOLLOWED: u32 = 1;
/// [`Header::outcome`]: the thread of the next segment cannot run.
pub const DIVERGED: u32 = 2;
/// [`Header::outcome`]: the tool may look; see [`Header::look_before`].
pub const STANDING: u32 = 3;

/// [`Segment::timeout`]: the thread is in a timed wait that times out.
pub const TIMES_OUT: u32 = 1;
/// [`Segment::timeout`]: its wait on a condition variable ends for no reason.
pub const WAKES: u32 = 2;

/// A stretch of the schedule: a thread runs until it has done so many steps.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Which thread.
    pub thread: u32,
    /// [`TIMES_OUT`] or [`WAKES`] if the thread waits and its wait ends here by itself; else 0.
    pub timeout: u32,
    /// Steps the thread has done, since it began, at the end of the segment.
    pub until: u64,
}

/// The first word of a record: program counter, detail and operation.
#[inline(always)]
pub const fn head(op: u8, detail: u8, pc: usize) -> u64 {
    (pc as u64) << 16 | (detail as u64) << 8 | op as u64
}

/// Operations. Before each name: the words of the record after the first; where they are fewer than two, others follow that mean nothing.
///
/// `READ`, `WRITE` and the atomics have the logarithm of their size in bits 0 to 2 of the detail; atomics their memory
/// order, as the compiler numbers it, in bits 3 to 5.
pub mod op {
    #![allow(missing_docs)]
    /// address, value; of 16 bytes: address, low, high
    pub const READ: u8 = 1;
    pub const WRITE: u8 = 2;
    /// address, value
    pub const ATOMIC_READ: u8 = 3;
    pub const ATOMIC_WRITE: u8 = 4;
    /// address, value read, value written
    pub const RMW: u8 = 5;
    /// address, length; then the contents if they are at most INLINE bytes and the detail is 0
    pub const RANGE_READ: u8 = 6;
    pub const RANGE_WRITE: u8 = 7;
    /// nothing; the program counter is that of the call
    pub const ENTER: u8 = 8;
    pub const LEAVE: u8 = 9;
    /// nothing: a step that is no plain access
    pub const STEP: u8 = 10;
    /// thread (and 1 << 32 if its wait timed out), steps it has done; where threads run freely: the time
    pub const SWITCH: u8 = 11;
    /// address, size
    pub const ALLOC: u8 = 12;
    /// address, 1 if the memory went back to the system; for mappings their length
    pub const FREE: u8 = 13;
    /// address, kind of lock
    pub const LOCK: u8 = 14;
    pub const READ_LOCK: u8 = 15;
    pub const UNLOCK: u8 = 16;
    pub const LOCK_NEW: u8 = 17;
    /// thread, function it starts with
    pub const FORK: u8 = 18;
    pub const BEGIN: u8 = 19;
    pub const END: u8 = 20;
    pub const JOIN: u8 = 21;
    /// condition, mutex
    pub const WAIT_BEGIN: u8 = 22;
    pub const WAIT_END: u8 = 23;
    /// condition, number of the notify or 0
    pub const WAKE: u8 = 24;
    /// condition, number
    pub const NOTIFY: u8 = 25;
    pub const NOTIFY_ALL: u8 = 26;
    pub const CONDITION_NEW: u8 = 27;
    /// semaphore, count (before)
    pub const SEM_NEW: u8 = 28;
    pub const SEM_POST: u8 = 29;
    pub const SEM_WAIT: u8 = 30;
    /// barrier, parties
    pub const BARRIER_NEW: u8 = 31;
    pub const BARRIER_ENTER: u8 = 32;
    pub const BARRIER_LEAVE: u8 = 33;
    /// address, 0
    pub const SYNC_RELEASE: u8 = 34;
    pub const SYNC_ACQUIRE: u8 = 35;
    /// memory order, 0
    pub const FENCE: u8 = 36;
    /// kind, length; then the bytes
    pub const BLOB: u8 = 37;
    /// address, size: a replayed thread was stopped in front of this. The detail is the operation that it is about to do, as one of
    /// these numbers; [`super::WAITS`] is added if it has begun and waits. `STEP` is a call that says what it touches only when it
    /// is made.
    pub const STOPPED: u8 = 38;
    /// number of the chunk in which the accesses of the thread go on, 0
    pub const OWN: u8 = 39;
    /// address, length (and 1 << 63 if it writes): a call that is about to be made may touch this
    pub const MAY_TOUCH: u8 = 40;
    /// words that the thread has put into chunks of its own when it got its turn, 0
    pub const UP_TO: u8 = 41;
    /// time, 0
    pub const TURN_END: u8 = 45;
    /// In chunks of one thread, where `READ` and `WRITE` have the time after the value, and `ENTER` and `LEAVE` are one word.
    /// nothing: the rest is in another chunk
    pub const NEXT: u8 = 42;
    /// nothing: a signal handler begins, ends; what the thread was about to do may still come after it
    pub const HANDLER: u8 = 43;
    pub const HANDLED: u8 = 44;
    /// time, how many ranges; then of each its address and length (and 1 << 63 if it is written)
    pub const RANGES: u8 = 46;
    /// fiber, fiber: the thread has left the one and goes on in the other
    pub const FIBER: u8 = 47;
    /// address, kind of lock: an attempt to take it failed because it was held. The detail is 1 if it was to be held for reading
    pub const TRY_FAILED: u8 = 48;
    /// semaphore, count: what a thread found that looked, or whose attempt to wait failed
    pub const SEM_COUNT: u8 = 49;
    /// thread, 0: an attempt to join it failed because it had not ended
    pub const JOIN_FAILED: u8 = 50;
    /// address, kind of lock: the thread goes to sleep until it can have it. The detail is 1 if it is to be held for
    /// reading
    pub const WANT: u8 = 51;
    /// nothing: the record before it is whole, which else the next one says
    pub const WHOLE: u8 = 52;
    /// address, kind of lock: an attempt to take it that the C library refuses, because it was destroyed
    pub const GONE: u8 = 53;
    /// address, size: a block that was handed out where nothing counts; 0 if there were others
    pub const APPEARED: u8 = 55;
    /// descriptor, what happens to it; see the constants
    pub const DESCRIPTOR: u8 = 54;
    /// address, size: memory that the next call can reach; with a detail, what each call can reach from here on
    pub const REACHED: u8 = 60;
    /// method, number of a set: a call of code that is not seen begins, and can reach what is in the set. The detail says
    /// whether the set is what was reached just now, and has the next number, or is everything
    pub const METHOD_BEGIN: u8 = 61;
    /// method, 0: the innermost call of the thread ends
    pub const METHOD_END: u8 = 62;
}

/// [`op::STOPPED`]: the thread waits for what is at the address.
pub const WAITS: u8 = 1 << 7;

/// [`op::LOCK_NEW`] and its kin: it is destroyed, not made.
pub const DESTROYED: u8 = 1;

/// [`op::REACHED`]: variables of libraries.
pub const OF_LIBRARIES: u8 = 1;
/// [`op::METHOD_BEGIN`]: the set is what was reached just now.
pub const NEW_SET: u8 = 1;
/// [`op::METHOD_BEGIN`]: the call can reach everything.
pub const EVERYTHING: u8 = 2;
/// [`op::METHOD_BEGIN`]: the call does not reach the variables of libraries.
pub const WITHOUT_LIBRARIES: u8 = 4;

/// [`op::DESCRIPTOR`]: it is read from, written to or asked.
pub const USED: u64 = 0;
/// [`op::DESCRIPTOR`]: it is closed.
pub const CLOSED: u64 = 1;
/// [`op::DESCRIPTOR`]: its number is given to something new.
pub const MADE: u64 = 2;

/// Detail of an atomic whose values are not known. Set by the tool.
pub const WITHOUT_VALUES: u8 = 1 << 6;

/// [`op::RANGE_READ`] and [`op::RANGE_WRITE`]: the contents are not there.
pub const WITHOUT_CONTENTS: u8 = 1;

/// [`op::BLOB`]: the contents of `/proc/self/maps`.
pub const BLOB_MAPS: u64 = 1;
/// [`op::BLOB`]: the name of the current thread.
pub const BLOB_THREAD_NAME: u64 = 2;
/// [`op::BLOB`]: what the program's `__tsan_default_options` returns.
pub const BLOB_OPTIONS: u64 = 3;
/// [`op::BLOB`]: what the program's `__tsan_default_suppressions` returns.
pub const BLOB_SUPPRESSIONS: u64 = 4;
/// [`op::BLOB`]: the name of a function that is not seen. They are numbered as they come.
pub const BLOB_METHOD: u64 = 5;
/// [`op::BLOB`]: code that the program runs and that nobody sees, and why.
pub const BLOB_UNSEEN: u64 = 6;

// What [`op::SYNC_RELEASE`] and [`op::SYNC_ACQUIRE`] are about where it has no address: up to here descriptors, by number plus one;

/// all sockets;
pub const SOCKETS: u64 = 1 << 24;
/// from there to here pipes, files, queues, semaphores of the kernel, as they come;
/// signals, and processes that end;
pub const SIGNALS: u64 = 0xbfff_ffff;
/// numbers of descriptors.
pub const NUMBERS: u64 = 0xc000_0000;
/// Added to an address through which a library hands something over, and to a multiple of [`PART`].
pub const HANDED_OVER: u64 = 1 << 62;

/// Where several things are at one address, such as locks that are bits of a word, the number of each, from 1 on, times
/// this is added to the address.
pub const PART: u64 = 1 << 48;

/// Kinds of locks.
pub mod lock {
    #![allow(missing_docs)]
    pub const MUTEX: u64 = 0;
    pub const RWLOCK: u64 = 1;
    pub const SPIN: u64 = 2;
    pub const ANNOTATED: u64 = 3;
    /// Added if it would have given up instead of waiting.
    pub const TRIED: u64 = 1 << 8;
    /// Added if the kernel has taken it from a thread that has ended.
    pub const OWNER_DIED: u64 = 1 << 9;
}

/// Words of the shortest record. Those that need fewer have as many, so that the tool, which looks ahead, mostly meets a record.
pub const SHORTEST: usize = 3;

/// How many words a record has; `rest` are the words from the record's first on.
#[inline(always)]
pub fn words(rest: &[u64]) -> usize {
    let first = rest[0];
    match first as u8 {
        op::READ | op::WRITE => SHORTEST + ((first >> 8) & 7 == 4) as usize,
        op::RMW => 4,
        op::RANGE_READ | op::RANGE_WRITE => {
            let length = rest.get(2).copied().unwrap_or(0) as usize;
            let has_contents = length <= INLINE && (first >> 8) as u8 & WITHOUT_CONTENTS == 0;
            3 + if has_contents { length.div_ceil(8) } else { 0 }
        }
        op::BLOB => 3usize.saturating_add((rest.get(2).copied().unwrap_or(0) as usize).div_ceil(8)),
        _ => SHORTEST,
    }
}
