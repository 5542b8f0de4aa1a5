//! Free-running threads: they run at the same time, as they would without us.
//!
//! What synchronises, allocates or blocks still takes the token for as long as it lasts, so its order is exact.
//! Accesses and copies do not: each thread writes them, with the time, into chunks of its own. An access that was
//! announced at one time has happened before the time of the thread's next record. If the times of two accesses do not
//! overlap, their order and their values are known; if they overlap, the tool knows that it does not know.
//!
//! That needs a clock that all processors share, and fences: otherwise the processor would perform an access before it
//! takes the time, or delay a write beyond it.

use crate::base::chunk::Slot;
use crate::base::frames::{enter_frame, leave_frame, leave_frames};
use crate::base::kernel;
use crate::base::lock::{Mutex, futex_wait};
use crate::base::program::Address;
use crate::base::record::{hand_over, put3};
use crate::base::relaxed::Relaxed;
use crate::base::shared::{header, own_chunk, own_chunks_in_use, wanted};
use crate::base::thread::{self, State, Thread, inside};
use crate::interpose::signals;
use crate::protocol::seal::Words;
use crate::scheduler::{acquire, await_decision, give_up, is_holder, is_on, regain, release};
use crate::wire::{OWN_CHUNK, OWN_CHUNKS, OWN_SLACK, head, op};
use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering::*};

/// Whether threads run freely. Read by assembly.
pub static FREE: AtomicBool = AtomicBool::new(false);

#[inline(always)]
pub fn is_free() -> bool {
    FREE.load(Relaxed)
}

/// Where a thread puts its accesses. All zero at first.
pub struct Own {
    /// Words in chunks that are full.
    before: Relaxed<u64>,
    /// The chunk.
    start: Relaxed<Option<Slot>>,
    next: Relaxed<Option<Slot>>,
    /// The address from which on a record may not fit.
    limit: Relaxed<usize>,
    /// Where to put the value that a write is about to leave, if one is pending.
    slot: Relaxed<Option<Slot>>,
    address: Relaxed<usize>,
    log: Relaxed<u8>,
    /// The time of a record of ranges that is being written at `next`, 0 if there is none, and how many it has.
    ranges_since: Relaxed<u64>,
    ranges: Relaxed<usize>,
}

/// Most ranges of one record.
const RANGES: usize = 4;

const _: () = assert!(3 + 2 * RANGES < OWN_SLACK, "a record of ranges fits behind the limit");

impl Own {
    /// Fills in the value of the last announced write, now that the thread has written it.
    #[inline(always)]
    pub fn flush(&self) {
        if let Some(slot) = self.slot.get() {
            read_value(Address(self.address.get()), self.log.get(), slot);
            self.slot.set(None);
        }
    }

    /// Where the next record goes, if there is room for one.
    #[inline(always)]
    fn here(&self) -> Option<Slot> {
        self.next.get().filter(|next| next.address() < self.limit.get())
    }

    #[inline(always)]
    fn put1(&self, at: Slot, first: u64) {
        at.publish(first);
        self.next.set(Some(at.plus(1)));
    }

    fn add_range(&self, address: usize, length: usize, writes: bool) {
        let ranges = self.ranges.get();
        if let Some(next) = self.next.get().filter(|_| ranges < RANGES) {
            let at = next.plus(3 + 2 * ranges);
            at.set(0, address as u64);
            at.set(1, length as u64 | (writes as u64) << 63);
            self.ranges.set(ranges + 1);
        }
    }

    pub fn end_ranges(&self) {
        let since = self.ranges_since.get();
        if let Some(next) = self.next.get().filter(|_| since != 0) {
            let ranges = self.ranges.get();
            next.set(2, ranges as u64);
            next.plus(1).publish(since);
            self.next.set(Some(next.plus(3 + 2 * ranges)));
            self.ranges_since.set(0);
            self.ranges.set(0);
        }
    }

    /// How many words it has put there.
    pub fn position(&self) -> u64 {
        let [start, next] = [&self.start, &self.next].map(|slot| slot.get().map_or(0, Slot::address) as u64);
        self.before.get() + (next - start) / 8
    }

    /// Continues in another chunk.
    fn change_to(&self, chunk: Slot) {
        self.start.set(Some(chunk));
        self.next.set(Some(chunk));
        self.limit.set(chunk.plus(OWN_CHUNK / 8 - OWN_SLACK).address());
    }
}

#[inline(always)]
fn read_value(from: Address, log: u8, to: Slot) {
    to.set(0, from.operand(log));
    if log == 4 {
        to.set(1, from.plus(8).read());
    }
}

/// The time, after everything before and before everything after. Never 0.
#[inline(always)]
pub fn time() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: the instructions change no memory, and of the registers only those that are named.
    unsafe {
        asm!("lfence", "rdtsc", "lfence", out("rax") low, out("rdx") high, options(nostack, preserves_flags));
    }
    (high << 32 | low).max(1)
}

/// Whether what a thread does counts.
#[inline(always)]
fn is_seen(thread: &Thread) -> bool {
    is_on() && thread.is_outside() && thread.ignoring.get() == 0
}

/// Enters a callback of a free-running thread. Returns the thread, and where its record goes, if its event
/// counts.
#[inline(always)]
fn counts() -> Option<(&'static Thread, Slot)> {
    let thread = thread::current().filter(|thread| is_seen(thread))?;
    leave_with(thread);
    if thread.pending_signals.load(Relaxed) != 0 {
        signals::deliver(thread);
        leave_with(thread);
    }
    has_room(thread).map(|at| (thread, at))
}

/// Where the next record of a thread goes; `None` if recording is off and there is no room.
#[inline(always)]
fn has_room(thread: &'static Thread) -> Option<Slot> {
    // A handler of a fault in the middle of a function that touches ranges.
    thread.own.end_ranges();
    thread.own.here().or_else(|| more(thread))
}

pub fn access<const LOG: u8, const WRITES: bool>(address: usize, pc: usize) {
    let Some((thread, at)) = counts() else { return };
    let own = &thread.own;
    own.flush();
    let words = if LOG == 4 { 5 } else { 4 };
    at.show(head(if WRITES { op::WRITE } else { op::READ }, LOG, pc));
    let time = time();
    at.set(1, address as u64);
    at.plus(words - 1).publish(time);
    own.next.set(Some(at.plus(words)));
    // The value is looked at when the thread's next record is there. Should there be no such memory, the record is
    // whole.
    if WRITES {
        own.slot.set(Some(at.plus(2)));
        own.address.set(address);
        own.log.set(LOG);
    } else {
        read_value(Address(address), LOG, at.plus(2));
    }
}

/// Begins a function that touches ranges of memory, which it names by [`add_range`]. Returns whether it counts.
pub fn begin_ranges(pc: usize) -> bool {
    let Some((thread, at)) = counts() else { return false };
    thread.own.flush();
    at.show(head(op::RANGES, 0, pc));
    thread.own.ranges_since.set(time());
    true
}

/// A range that the thread is about to touch.
pub fn range(address: usize, length: usize, writes: bool, pc: usize) {
    if begin_ranges(pc) {
        add_range(address, length, writes);
        end_ranges();
    }
}

pub fn add_range(address: usize, length: usize, writes: bool) {
    if let Some(thread) = thread::current() {
        thread.own.add_range(address, length, writes);
    }
}

/// The function has done its work.
pub extern "C" fn end_ranges() {
    if let Some(thread) = thread::current().filter(|_| is_free()) {
        thread.own.end_ranges();
    }
}

pub fn enter_function(pc: usize, stack: usize) {
    if let Some((thread, _)) = counts() {
        thread.own.flush();
        enter_frame(thread, pc, stack, |record| put_call(thread, record));
    }
}

pub fn leave_function() {
    if let Some((thread, _)) = counts() {
        // What was written may be gone with the frame.
        thread.own.flush();
        leave_frame(thread, |record| put_call(thread, record));
    }
}

pub fn left_to(stack: usize) {
    if let Some((thread, _)) = counts() {
        thread.own.flush();
        leave_frames(thread, stack, |record| put_call(thread, record));
    }
}

fn put_call(thread: &'static Thread, record: u64) {
    if let Some(at) = has_room(thread) {
        thread.own.put1(at, record);
    }
}

/// Runs a signal handler, which may have come just before an access that the thread has announced.
pub fn around_handler(thread: &'static Thread, handler: impl FnOnce()) {
    if !is_free() || !is_seen(thread) {
        return handler();
    }
    // It may have come in the middle of an operation, which needs the token again.
    let held = is_holder(thread);
    // What is pending is not written yet.
    thread.own.slot.set(None);
    put_call(thread, head(op::HANDLER, 0, 0));
    handler();
    if is_seen(thread) {
        put_call(thread, head(op::HANDLED, 0, 0));
    }
    if held && is_on() {
        inside(thread, || regain(thread));
    }
}

/// An access that reads and writes.
pub fn read_write(address: usize, length: usize, pc: usize) {
    if begin_ranges(pc) {
        add_range(address, length, false);
        add_range(address, length, true);
        end_ranges();
    }
}

/// Takes another chunk for the accesses of a thread; `None` if it gets none, and recording is off.
#[cold]
#[inline(never)]
fn more(thread: &'static Thread) -> Option<Slot> {
    inside(thread, || {
        acquire(thread);
        if !is_on() {
            return None;
        }
        let own = &thread.own;
        if let Some(end) = own.next.get() {
            own.put1(end, head(op::NEXT, 0, 0));
            own.before.set(own.position());
            own.start.set(own.next.get());
        }
        let mut chunks = CHUNKS.lock();
        let number = match chunks.take() {
            Ok(number) => number,
            Err(why) => {
                give_up(why);
                return None;
            }
        };
        // SAFETY: the chunk is one of those behind the table, and stays; its limit leaves `OWN_SLACK` words.
        let chunk = unsafe { Slot::new(own_chunk(number)) };
        own.change_to(chunk);
        put3(head(op::OWN, 0, 0), number as u64, 0);
        chunks.since += 1;
        if chunks.since > PATIENCE {
            chunks.since = 0;
            hand_over();
        }
        drop(chunks);
        release(thread);
        Some(chunk)
    })
}

/// After so many new chunks the ring is handed over, so that the tool can follow.
const PATIENCE: u32 = 32;

/// The chunks of single threads, as far as the shared table does not say. The lock is taken with the token alone, so
/// nobody ever waits for it.
static CHUNKS: Mutex<Chunks> = Mutex::new(Chunks { taken: [false; OWN_CHUNKS], likely_free: 0, since: 0 });

struct Chunks {
    /// Chunks that were ever taken. The shared table says which of them were given back; of others it says nothing,
    /// whatever is written there.
    taken: [bool; OWN_CHUNKS],
    /// The chunk that is most likely free: they are given back about in the order in which they were taken.
    likely_free: usize,
    /// Chunks since the ring was handed over last.
    since: u32,
}

impl Chunks {
    /// Takes a chunk, as soon as the tool has given one back.
    fn take(&mut self) -> Result<usize, &'static str> {
        let used = own_chunks_in_use();
        // All that is in use is being filled by some thread, or about to be given back.
        let running = thread::all().iter().filter(|thread| !thread.is(State::Dead)).count();
        if running >= OWN_CHUNKS - 1 {
            return Err("the program has too many threads at once; it runs on unrecorded");
        }
        let mut handed_over = false;
        loop {
            let given_back = header().given_back.load(Acquire);
            let is_free = |&number: &usize| !self.taken[number] || used[number].load(Acquire) == 0;
            if let Some(number) = (self.likely_free..OWN_CHUNKS).chain(0..self.likely_free).find(is_free) {
                self.taken[number] = true;
                used[number].store(1, Relaxed);
                self.likely_free = (number + 1) % OWN_CHUNKS;
                return Ok(number);
            }
            if !core::mem::replace(&mut handed_over, true) {
                hand_over();
            }
            futex_wait(&header().given_back, given_back, Some(100_000_000), true);
            if !kernel::is_alive(wanted().tool) {
                return Err("the process that writes the trace is gone; the program runs on unrecorded");
            }
        }
    }
}

/// Ends an operation that took the token: the thread runs freely again.
pub extern "C" fn leave() {
    end_ranges();
    if let Some(thread) = thread::current().filter(|_| is_free()) {
        leave_with(thread);
    }
}

#[inline(always)]
fn leave_with(thread: &'static Thread) {
    if !thread.is_outside() {
        return;
    }
    await_decision();
    if is_holder(thread) && is_on() {
        inside(thread, || release(thread));
    }
}

/// Does something that may take the token, and releases it.
pub fn leaving<R>(work: impl FnOnce() -> R) -> R {
    let result = work();
    leave();
    result
}
