//! What programs say about themselves: the annotations of ThreadSanitizer and its relatives, and the parts of its
//! interface that a program may call but that record nothing.

use crate::base::c::Pointer;
use crate::base::record::put3;
use crate::base::thread::inside;
use crate::interpose::lifecycle::{__tsan_ignore_thread_begin, __tsan_ignore_thread_end};
use crate::scheduler::{Next, block, enter, is_on, wake};
use crate::stubs;
use crate::tsan::access::{range_read, range_write};
use crate::wire::{DESTROYED, head, lock, op};
use core::ffi::{c_int, c_long};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

type Text = *const u8;

fn record(code: u8, pc: usize, at: Pointer, kind: u64) {
    if enter(Next::on(code, pc, at as usize)).is_some() {
        put3(head(code, 0, pc), at as u64, kind);
    }
}

extern "C" fn happens_before(_file: Text, _line: c_int, at: Pointer, pc: usize) {
    record(op::SYNC_RELEASE, pc, at, 0);
}

extern "C" fn happens_after(_file: Text, _line: c_int, at: Pointer, pc: usize) {
    record(op::SYNC_ACQUIRE, pc, at, 0);
}

extern "C" fn lock_made(_file: Text, _line: c_int, at: Pointer, pc: usize) {
    record(op::LOCK_NEW, pc, at, lock::ANNOTATED);
}

extern "C" fn lock_destroyed(_file: Text, _line: c_int, at: Pointer, pc: usize) {
    mutex_destroyed(at, 0, pc);
}

extern "C" fn lock_taken(_file: Text, _line: c_int, at: Pointer, writes: c_long, pc: usize) {
    record(if writes != 0 { op::LOCK } else { op::READ_LOCK }, pc, at, lock::ANNOTATED);
}

extern "C" fn lock_given_back(_file: Text, _line: c_int, at: Pointer, _writes: c_long, pc: usize) {
    record(op::UNLOCK, pc, at, lock::ANNOTATED);
}

extern "C" fn acquires(at: Pointer, pc: usize) {
    record(op::SYNC_ACQUIRE, pc, at, 0);
}

extern "C" fn releases(at: Pointer, pc: usize) {
    record(op::SYNC_RELEASE, pc, at, 0);
}

// Locks of the program's own, by `__tsan_mutex_*`. Nothing is known about waiting for them, which the watchdog copes
// with.

const READ_LOCK: u32 = 1 << 3;
const TRY_LOCK: u32 = 1 << 4;
const TRY_LOCK_FAILED: u32 = 1 << 5;

/// A lock that the linker has initialised is there before anybody says so.
const LINKER_INITIALISED: u32 = 1;

extern "C" fn mutex_made(at: Pointer, flags: u32, pc: usize) {
    if flags & LINKER_INITIALISED != 0 {
        return;
    }
    record(op::LOCK_NEW, pc, at, lock::ANNOTATED);
}

extern "C" fn mutex_destroyed(at: Pointer, _flags: u32, pc: usize) {
    if enter(Next::on(op::LOCK_NEW, pc, at as usize)).is_some() {
        put3(head(op::LOCK_NEW, DESTROYED, pc), at as u64, lock::ANNOTATED);
    }
}

extern "C" fn mutex_taken(at: Pointer, flags: u32, _recursion: c_int, pc: usize) {
    let code = if flags & READ_LOCK == 0 { op::LOCK } else { op::READ_LOCK };
    if flags & TRY_LOCK_FAILED == 0 {
        let tried = if flags & TRY_LOCK != 0 { lock::TRIED } else { 0 };
        record(code, pc, at, lock::ANNOTATED | tried);
    } else if enter(Next::on(op::TRY_FAILED, pc, at as usize)).is_some() {
        put3(head(op::TRY_FAILED, (flags & READ_LOCK != 0) as u8, pc), at as u64, lock::ANNOTATED);
    }
}

extern "C" fn mutex_given_back(at: Pointer, _flags: u32, pc: usize) -> c_int {
    record(op::UNLOCK, pc, at, lock::ANNOTATED);
    1
}

macro_rules! nothing_to_say {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(_at: Pointer, _flags: u32) {}
    )*};
}

nothing_to_say! {
    __tsan_mutex_pre_lock __tsan_mutex_post_unlock __tsan_mutex_pre_signal __tsan_mutex_post_signal
    __tsan_mutex_pre_divert __tsan_mutex_post_divert
}

extern "C" fn ignore(_file: Text, _line: c_int) {
    __tsan_ignore_thread_begin();
}

extern "C" fn heed(_file: Text, _line: c_int) {
    __tsan_ignore_thread_end();
}

extern "C" fn nothing() {}

// A barrier for tests, which orders nothing: as many threads as the low bits say wait for each other. It is a word of
// four bytes with some versions of the header, and of eight with others.

const PARTIES: u32 = 10;

fn generation(barrier: u32) -> u32 {
    (barrier >> PARTIES) / (barrier & ((1 << PARTIES) - 1)).max(1)
}

extern "C" fn barrier_init(barrier: &AtomicU32, count: u32) {
    barrier.store(count, SeqCst);
}

extern "C" fn barrier_wait(barrier: &AtomicU32) {
    let thread = enter(Next::call(0));
    let arrival = barrier.fetch_add(1 << PARTIES, SeqCst);
    let over = || generation(barrier.load(SeqCst)) != generation(arrival);
    let key = barrier.as_ptr() as usize;
    if let Some(thread) = thread {
        inside(thread, || {
            if over() {
                wake(key, usize::MAX, 0);
            }
            while is_on() && !over() {
                block(thread, key, None);
            }
        });
    }
    while !over() {
        crate::interpose::blocking::sched_yield();
    }
}

stubs! {
    __tsan_acquire "rsi" acquires; __tsan_release "rsi" releases;
    __tsan_mutex_create "rdx" mutex_made; __tsan_mutex_destroy "rdx" mutex_destroyed;
    __tsan_mutex_post_lock "rcx" mutex_taken; __tsan_mutex_pre_unlock "rdx" mutex_given_back;
    AnnotateHappensBefore "rcx" happens_before; AnnotateHappensAfter "rcx" happens_after;
    WTFAnnotateHappensBefore "rcx" happens_before; WTFAnnotateHappensAfter "rcx" happens_after;
    AnnotateRWLockCreate "rcx" lock_made; AnnotateRWLockCreateStatic "rcx" nothing;
    AnnotateRWLockDestroy "rcx" lock_destroyed;
    AnnotateRWLockAcquired "r8" lock_taken; AnnotateRWLockReleased "r8" lock_given_back;
    AnnotateIgnoreReadsBegin "r11" ignore; AnnotateIgnoreWritesBegin "r11" ignore;
    AnnotateIgnoreSyncBegin "r11" nothing;
    AnnotateIgnoreReadsEnd "r11" heed; AnnotateIgnoreWritesEnd "r11" heed; AnnotateIgnoreSyncEnd "r11" nothing;
    __tsan_read_range_pc "r11" range_read; __tsan_write_range_pc "r11" range_write;
    __tsan_testonly_barrier_init "r11" barrier_init; __tsan_testonly_barrier_wait "r11" barrier_wait;
    AnnotateBenignRace "r11" nothing; AnnotateBenignRaceSized "r11" nothing; WTFAnnotateBenignRaceSized "r11" nothing;
    AnnotateCondVarSignal "r11" nothing; AnnotateCondVarSignalAll "r11" nothing; AnnotateCondVarWait "r11" nothing;
    AnnotateEnableRaceDetection "r11" nothing; AnnotateExpectRace "r11" nothing;
    AnnotateFlushExpectedRaces "r11" nothing;
    AnnotateFlushState "r11" nothing; AnnotateMemoryIsInitialized "r11" nothing;
    AnnotateMemoryIsUninitialized "r11" nothing; AnnotateMutexIsNotPHB "r11" nothing;
    AnnotateMutexIsUsedAsCondVar "r11" nothing; AnnotateNewMemory "r11" nothing; AnnotateNoOp "r11" nothing;
    AnnotatePublishMemoryRange "r11" nothing; AnnotateUnpublishMemoryRange "r11" nothing;
    AnnotateThreadName "r11" nothing; AnnotateTraceMemory "r11" nothing; __tsan_flush_memory "r11" nothing;
}
