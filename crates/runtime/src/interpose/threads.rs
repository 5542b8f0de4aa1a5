//! Threads: created, named, joined, ended.

use crate::base::c::{self, Pointer};
use crate::base::memory::Global;
use crate::base::record::{flush, put_blob, put3};
use crate::base::thread::{self, State, Thread, inside};
use crate::interpose::cancel;
use crate::interpose::locks::{Deadline, c11};
use crate::scheduler::token::{self, Next, block_cancellable, enter, is_on};
use crate::wire::{BLOB_THREAD_NAME, head, op};
use crate::{real, stubs};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

type Function = unsafe extern "C" fn(Pointer) -> Pointer;
type Create = unsafe extern "C" fn(*mut usize, Pointer, Function, Pointer) -> c_int;

struct Start {
    thread: *mut Thread,
    function: usize,
    argument: Pointer,
    /// The function returns an int, as those of C11 do.
    returns_int: bool,
    /// Signals that are blocked in it; all are until it is known.
    mask: u64,
}

/// All signals that can be blocked and are not ours.
const ALL: u64 = !(crate::interpose::signals::NEVER_BLOCKED | 1 << 8 | 1 << 18);

/// Those that the C library keeps for itself, and does not leave blocked.
const LIBRARY: u64 = 3 << 31;

/// Sets the signals that are blocked; which were so before.
fn block_signals(set: u64) -> u64 {
    let mut before = 0u64;
    let (new, old) = (&set as *const u64 as usize, &mut before as *mut u64 as usize);
    unsafe { c::system(c::number::RT_SIGPROCMASK, [c::SIG_SETMASK, new, old, 8, 0, 0]) };
    before
}

/// The key of thread-specific data whose destructor tells us that a thread ends.
static KEY: Global<u32> = Global::new(0);
static KEY_MADE: AtomicBool = AtomicBool::new(false);

/// Destructors run in rounds; ours should come in the last one, when those of the program are through.
const ROUNDS: u32 = 4;

fn real_create() -> Create {
    real!(pthread_create, fn(*mut usize, Pointer, Function, Pointer) -> c_int)
}

/// A thread of the runtime itself, which gets no signals and no events.
pub fn start_own(function: Function) {
    let before = block_signals(u64::MAX);
    let mut handle = 0;
    if unsafe { real_create()(&mut handle, core::ptr::null_mut(), function, core::ptr::null_mut()) } != 0 {
        crate::base::memory::die("a thread cannot be started");
    }
    block_signals(before);
}

unsafe extern "C" fn begin(start: Pointer) -> Pointer {
    let start = unsafe { Box::from_raw(start as *mut Start) };
    let thread = start.thread;
    let this = unsafe { &mut *thread };
    this.kernel.store(c::thread_id(), Relaxed);
    this.inside = 1;
    thread::set_current(thread);
    token::first_turn(thread);
    expect_end(thread);
    this.inside = 0;
    if is_on() {
        // Like a return address, it is one beyond the place that is meant.
        put3(head(op::BEGIN, 0, start.function + 1), this.number as u64, start.function as u64);
        unsafe { crate::scheduler::free_running::leave() };
    }
    // Unless its attributes wanted others.
    let found = block_signals(start.mask);
    if found | LIBRARY != ALL {
        block_signals(found);
    }
    if is_on() && crate::interpose::signals::pending(this) != 0 {
        crate::interpose::signals::deliver(thread);
        unsafe { crate::scheduler::free_running::leave() };
    }
    let Start { function, argument, returns_int, .. } = *start;
    unsafe {
        if returns_int {
            let function: unsafe extern "C" fn(Pointer) -> c_int = core::mem::transmute(function);
            function(argument) as usize as Pointer
        } else {
            let function: Function = core::mem::transmute(function);
            function(argument)
        }
    }
}

/// Makes sure that we learn of the end of the thread that runs this. Of the first thread that is known only if it ends
/// before the program does.
pub fn expect_end(thread: *mut Thread) {
    let this = unsafe { &mut *thread };
    if this.put_off == 0 && KEY_MADE.load(Acquire) {
        this.put_off = ROUNDS;
        unsafe { c::pthread_setspecific(*KEY.get(), thread.cast()) };
    }
}

unsafe extern "C" fn end(thread: Pointer) {
    let thread: *mut Thread = thread.cast();
    let this = unsafe { &mut *thread };
    if this.put_off > 1 {
        this.put_off -= 1;
        unsafe { c::pthread_setspecific(*KEY.get(), thread.cast()) };
        return;
    }
    CODE.store(0, Relaxed);
    last_words(thread);
}

/// The status with which the last thread has left that left by a system call, if none has ended in another way since: it is that of
/// the program if no other comes after it.
static CODE: AtomicUsize = AtomicUsize::new(0);

/// See there.
pub fn last_code() -> usize {
    CODE.load(Relaxed)
}

/// The end of the thread that runs this.
fn last_words(thread: *mut Thread) {
    let this = unsafe { &mut *thread };
    if is_on() {
        if crate::scheduler::free_running::is_free() {
            // Even if its events do not count.
            inside(thread, || token::regain(thread));
        } else if !token::is_holder(thread) {
            token::not_holder(thread);
        }
        flush();
        put3(head(op::END, 0, 0), this.number as u64, 0);
        this.inside += 1;
        // Nor in one that nobody knows any more.
        block_signals(ALL);
        token::retire(thread);
    } else {
        this.set(State::Dead);
    }
    thread::set_current(core::ptr::null_mut());
}

/// The thread that runs this is about to leave by a system call of its own, and no destructor will run.
pub fn leaves(code: usize) {
    let thread = thread::current();
    CODE.store(code, Relaxed);
    if is_on() && !thread.is_null() && unsafe { (*thread).inside } == 0 {
        last_words(thread);
    }
}

fn start(
    handle: *mut usize,
    attributes: Pointer,
    function: usize,
    argument: Pointer,
    pc: usize,
    returns_int: bool,
) -> Option<c_int> {
    let creator = thread::current();
    if !enter(creator, Next::on(op::FORK, pc, 0)) {
        return None;
    }
    inside(creator, || {
        if !KEY_MADE.swap(true, AcqRel) {
            unsafe { c::pthread_key_create(KEY.get(), end) };
        }
        let Some(thread) = thread::new() else {
            crate::base::record::header().trouble.store(crate::wire::TOO_MANY_THREADS, Release);
            token::give_up("the program has too many threads; it runs on unrecorded");
            return None;
        };
        let number = unsafe { (*thread).number } as u64;
        put3(head(op::FORK, 0, pc), number, function as u64);
        // A handler must not run in a thread that nobody knows yet.
        let mask = block_signals(ALL);
        let begin_with = Box::into_raw(Box::new(Start { thread, function, argument, returns_int, mask }));
        let mut made = 0;
        let own = crate::interpose::stacks::with_new_stack(attributes.cast(), thread);
        let attributes = own
            .as_ref()
            .map_or(attributes, |own| (own as *const crate::interpose::stacks::Attributes).cast_mut().cast());
        let result = token::lend(creator, || unsafe { real_create()(&mut made, attributes, begin, begin_with.cast()) });
        block_signals(mask);
        if result == 0 {
            unsafe {
                (*thread).handle.store(made, Relaxed);
                (*thread).identity.store(made, Relaxed);
                *handle = made;
            }
            token::admit(thread);
        } else {
            unsafe { (*thread).set(State::Dead) };
            drop(unsafe { Box::from_raw(begin_with) });
        }
        Some(result)
    })
}

unsafe extern "C" fn create(
    handle: *mut usize,
    attributes: Pointer,
    function: Function,
    argument: Pointer,
    pc: usize,
) -> c_int {
    start(handle, attributes, function as usize, argument, pc, false)
        .unwrap_or_else(|| unsafe { real_create()(handle, attributes, function, argument) })
}

unsafe extern "C" fn c11_create(handle: *mut usize, function: usize, argument: Pointer, pc: usize) -> c_int {
    match start(handle, core::ptr::null_mut(), function, argument, pc, true) {
        Some(result) => c11(result),
        None => unsafe { real!(thrd_create, fn(*mut usize, usize, Pointer) -> c_int)(handle, function, argument) },
    }
}

/// How waiting for the end of a thread ended.
enum Awaited {
    /// With its end; null if it is none of ours or recording is off.
    Ended(*mut Thread),
    TimedOut,
    /// Whoever waited is to be cancelled.
    Interrupted,
}

/// Waits, within the token, until a thread has ended.
fn await_end(joiner: *mut Thread, handle: usize, deadline: Deadline) -> Awaited {
    let thread = thread::by_handle(handle);
    while !thread.is_null() && is_on() && !unsafe { (*thread).is(State::Dead) } {
        if block_cancellable(joiner, unsafe { (*thread).end_key() }, deadline) {
            return Awaited::TimedOut;
        }
        if unsafe { (*joiner).interrupted } {
            return Awaited::Interrupted;
        }
    }
    Awaited::Ended(thread)
}

unsafe extern "C" fn join(handle: usize, result: *mut Pointer, pc: usize) -> c_int {
    let joiner = thread::current();
    let really = real!(pthread_join, fn(usize, *mut Pointer) -> c_int);
    if !enter(joiner, Next::on(op::JOIN, pc, 0)) {
        return unsafe { really(handle, result) };
    }
    wait_and_join(joiner, handle, result, None, pc)
}

fn wait_and_join(joiner: *mut Thread, handle: usize, result: *mut Pointer, deadline: Deadline, pc: usize) -> c_int {
    cancel::point(joiner, pc);
    let really = real!(pthread_join, fn(usize, *mut Pointer) -> c_int);
    let answer = inside(joiner, || match await_end(joiner, handle, deadline) {
        Awaited::Ended(thread) => {
            let answer = token::lend(joiner, || unsafe { really(handle, result) });
            joined(thread, answer, pc);
            Some(answer)
        }
        Awaited::TimedOut => Some(c::ETIMEDOUT),
        Awaited::Interrupted => None,
    });
    answer.unwrap_or_else(|| {
        // It does not return from here.
        cancel::point(joiner, pc);
        unsafe { really(handle, result) }
    })
}

fn joined(thread: *mut Thread, answer: c_int, pc: usize) {
    if answer == 0 && !thread.is_null() {
        unsafe { (*thread).handle.store(0, Relaxed) };
        if is_on() {
            put3(head(op::JOIN, 0, pc), unsafe { (*thread).number } as u64, 0);
        }
    }
}

unsafe extern "C" fn try_join(handle: usize, result: *mut Pointer, pc: usize) -> c_int {
    let joiner = thread::current();
    let really = real!(pthread_tryjoin_np, fn(usize, *mut Pointer) -> c_int);
    if !enter(joiner, Next::on(op::JOIN, pc, 0)) {
        return unsafe { really(handle, result) };
    }
    let thread = thread::by_handle(handle);
    if thread.is_null() {
        return unsafe { really(handle, result) };
    }
    if !unsafe { (*thread).is(State::Dead) } {
        return c::EBUSY;
    }
    // It has no more events; what is left of it takes a moment.
    inside(joiner, || {
        let answer = unsafe { real!(pthread_join, fn(usize, *mut Pointer) -> c_int)(handle, result) };
        joined(thread, answer, pc);
        answer
    })
}

unsafe extern "C" fn timed_join(handle: usize, result: *mut Pointer, at: *const c::Timespec, pc: usize) -> c_int {
    let joiner = thread::current();
    if !enter(joiner, Next::on(op::JOIN, pc, 0)) || thread::by_handle(handle).is_null() {
        let really = real!(pthread_timedjoin_np, fn(usize, *mut Pointer, *const c::Timespec) -> c_int);
        return unsafe { really(handle, result, at) };
    }
    wait_and_join(joiner, handle, result, Some((c::CLOCK_REALTIME, unsafe { *at }.to_nanoseconds())), pc)
}

unsafe extern "C" fn c11_join(handle: usize, result: *mut c_int, pc: usize) -> c_int {
    let mut value = core::ptr::null_mut();
    let answer = unsafe { join(handle, &mut value, pc) };
    if answer == 0 && !result.is_null() {
        unsafe { *result = value as usize as c_int };
    }
    c11(answer)
}

unsafe extern "C" fn detach(handle: usize, _pc: usize) -> c_int {
    let thread = thread::by_handle(handle);
    if is_on() && !thread.is_null() {
        // The handle may soon be that of another thread.
        unsafe { (*thread).handle.store(0, Relaxed) };
    }
    unsafe { real!(pthread_detach, fn(usize) -> c_int)(handle) }
}

unsafe extern "C" fn set_name(handle: usize, name: *const u8, pc: usize) -> c_int {
    let thread = thread::current();
    if enter(thread, Next::call(pc)) {
        unsafe { (*thread).inside += 1 };
        let named = thread::by_handle(handle);
        let own = unsafe { c::pthread_self() } == handle;
        if own || !named.is_null() {
            let number = if own { unsafe { (*thread).number } } else { unsafe { (*named).number } };
            let mut text = number.to_le_bytes().to_vec();
            let mut at = name;
            while unsafe { *at } != 0 && text.len() < 64 {
                text.push(unsafe { *at });
                at = unsafe { at.add(1) };
            }
            put_blob(BLOB_THREAD_NAME, &text);
        }
        unsafe { (*thread).inside -= 1 };
    }
    unsafe { real!(pthread_setname_np, fn(usize, *const u8) -> c_int)(handle, name) }
}

stubs! {
    pthread_create "r8" create; pthread_join "rdx" join; pthread_tryjoin_np "rdx" try_join;
    pthread_timedjoin_np "rcx" timed_join; pthread_detach "rsi" detach;
    thrd_create "rcx" c11_create; thrd_join "rdx" c11_join; thrd_detach "rsi" detach;
    pthread_setname_np "rdx" set_name;
}
