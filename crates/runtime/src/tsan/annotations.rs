//! What programs say about themselves: the older annotations of ThreadSanitizer and its relatives, and the parts of its
//! interface that only have to be there.

use crate::base::c::Pointer;
use crate::base::record::put3;
use crate::base::thread::{self, inside};
use crate::interpose::lifecycle::{__tsan_ignore_thread_begin, __tsan_ignore_thread_end};
use crate::scheduler::token::{self, Next, enter};
use crate::stubs;
use crate::tsan::access::{range_read, range_write};
use crate::wire::{head, lock, op};
use core::ffi::{c_int, c_long};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

type Text = *const u8;

fn record(code: u8, pc: usize, at: Pointer, kind: u64) {
    if enter(thread::current(), Next::on(code, pc, at as usize)) {
        put3(head(code, 0, pc), at as u64, kind);
    }
}

unsafe extern "C" fn happens_before(_file: Text, _line: c_int, at: Pointer, pc: usize) {
    record(op::SYNC_RELEASE, pc, at, 0);
}

unsafe extern "C" fn happens_after(_file: Text, _line: c_int, at: Pointer, pc: usize) {
    record(op::SYNC_ACQUIRE, pc, at, 0);
}

unsafe extern "C" fn lock_made(_file: Text, _line: c_int, at: Pointer, pc: usize) {
    record(op::LOCK_NEW, pc, at, lock::ANNOTATED);
}

unsafe extern "C" fn lock_taken(_file: Text, _line: c_int, at: Pointer, writes: c_long, pc: usize) {
    record(if writes != 0 { op::LOCK } else { op::READ_LOCK }, pc, at, lock::ANNOTATED);
}

unsafe extern "C" fn lock_given_back(_file: Text, _line: c_int, at: Pointer, _writes: c_long, pc: usize) {
    record(op::UNLOCK, pc, at, lock::ANNOTATED);
}

unsafe extern "C" fn ignore(_file: Text, _line: c_int) {
    unsafe { __tsan_ignore_thread_begin() }
}

unsafe extern "C" fn heed(_file: Text, _line: c_int) {
    unsafe { __tsan_ignore_thread_end() }
}

unsafe extern "C" fn nothing() {}

// A barrier for tests, which orders nothing: as many threads as the low bits say wait for each other. It is a word of four
// bytes with some versions of the header, and of eight with others.

const PARTIES: u32 = 10;

fn generation(barrier: u32) -> u32 {
    (barrier >> PARTIES) / (barrier & ((1 << PARTIES) - 1)).max(1)
}

unsafe extern "C" fn barrier_init(barrier: &AtomicU32, count: u32) {
    barrier.store(count, SeqCst);
}

unsafe extern "C" fn barrier_wait(barrier: &AtomicU32) {
    let thread = thread::current();
    let counts = enter(thread, Next::call(0));
    let arrival = barrier.fetch_add(1 << PARTIES, SeqCst);
    let over = || generation(barrier.load(SeqCst)) != generation(arrival);
    let key = barrier.as_ptr() as usize;
    if counts {
        inside(thread, || {
            if over() {
                token::wake(key, usize::MAX, 0);
            }
            while token::is_on() && !over() {
                token::block(thread, key, None);
            }
        });
    }
    while !over() {
        unsafe { crate::interpose::blocking::sched_yield() };
    }
}

stubs! {
    AnnotateHappensBefore "rcx" happens_before; AnnotateHappensAfter "rcx" happens_after;
    WTFAnnotateHappensBefore "rcx" happens_before; WTFAnnotateHappensAfter "rcx" happens_after;
    AnnotateRWLockCreate "rcx" lock_made; AnnotateRWLockCreateStatic "rcx" lock_made;
    AnnotateRWLockDestroy "rcx" lock_made;
    AnnotateRWLockAcquired "r8" lock_taken; AnnotateRWLockReleased "r8" lock_given_back;
    AnnotateIgnoreReadsBegin "r11" ignore; AnnotateIgnoreWritesBegin "r11" ignore; AnnotateIgnoreSyncBegin "r11" nothing;
    AnnotateIgnoreReadsEnd "r11" heed; AnnotateIgnoreWritesEnd "r11" heed; AnnotateIgnoreSyncEnd "r11" nothing;
    __tsan_read_range_pc "r11" range_read; __tsan_write_range_pc "r11" range_write;
    __tsan_testonly_barrier_init "r11" barrier_init; __tsan_testonly_barrier_wait "r11" barrier_wait;
    AnnotateBenignRace "r11" nothing; AnnotateBenignRaceSized "r11" nothing; WTFAnnotateBenignRaceSized "r11" nothing;
    AnnotateCondVarSignal "r11" nothing; AnnotateCondVarSignalAll "r11" nothing; AnnotateCondVarWait "r11" nothing;
    AnnotateEnableRaceDetection "r11" nothing; AnnotateExpectRace "r11" nothing; AnnotateFlushExpectedRaces "r11" nothing;
    AnnotateFlushState "r11" nothing; AnnotateMemoryIsInitialized "r11" nothing;
    AnnotateMemoryIsUninitialized "r11" nothing; AnnotateMutexIsNotPHB "r11" nothing;
    AnnotateMutexIsUsedAsCondVar "r11" nothing; AnnotateNewMemory "r11" nothing; AnnotateNoOp "r11" nothing;
    AnnotatePublishMemoryRange "r11" nothing; AnnotateUnpublishMemoryRange "r11" nothing;
    AnnotateThreadName "r11" nothing; AnnotateTraceMemory "r11" nothing; __tsan_flush_memory "r11" nothing;
}
