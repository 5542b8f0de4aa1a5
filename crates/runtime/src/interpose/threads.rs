//! Threads: creating, naming, joining and ending them.

use crate::base::c::{self, Pointer, nanoseconds};
use crate::base::kernel;
use crate::base::messages::die;
use crate::base::program::Address;
use crate::base::record::{flush, put_blob, put_range, put_range_before_write, put3};
use crate::base::relaxed::Relaxed;
use crate::base::shared::header;
use crate::base::thread::{self, State, Thread, inside};
use crate::interpose::cancel;
use crate::interpose::locks::c11;
use crate::interpose::missing;
use crate::interpose::signals;
use crate::interpose::stacks::{Attributes, with_new_stack};
use crate::scheduler::free_running::{is_free, leave};
use crate::scheduler::{
    Deadline, Next, admit, block_cancellable, enter, first_turn, give_up, is_holder, is_on, lend, not_holder, regain,
    retire,
};
use crate::wire::{BLOB_THREAD_NAME, TOO_MANY_THREADS, head, op};
use crate::{pass_on, stubs};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

type Function = unsafe extern "C" fn(Pointer) -> Pointer;

struct Start {
    thread: &'static Thread,
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

/// Sets the signals that are blocked. Returns those that were blocked before.
fn block_signals(set: u64) -> u64 {
    kernel::change_mask(kernel::SIG_SETMASK, set)
}

/// The key of thread-specific data whose destructor tells us that a thread ends.
static KEY: Relaxed<u32> = Relaxed::zero();
static KEY_MADE: AtomicBool = AtomicBool::new(false);

/// Destructors run in rounds; ours should come in the last one, when those of the program are through.
const ROUNDS: u32 = 4;

fn really_create(handle: *mut usize, attributes: Pointer, function: Function, argument: Pointer) -> c_int {
    pass_on!(pthread_create(handle: *mut usize, attributes: Pointer, function: Function, argument: Pointer) -> c_int)
}

/// A thread of the runtime itself, which gets no signals and no events.
pub fn start_own(function: Function) {
    let before = block_signals(u64::MAX);
    let mut handle = 0;
    if really_create(&mut handle, core::ptr::null_mut(), function, core::ptr::null_mut()) != 0 {
        die("a thread cannot be started");
    }
    block_signals(before);
}

extern "C" fn begin(start: Pointer) -> Pointer {
    // SAFETY: `start` has made it for this thread alone.
    let start = unsafe { Box::from_raw(start as *mut Start) };
    let thread = start.thread;
    thread.kernel.store(kernel::thread_id(), Relaxed);
    thread.inside.set(1);
    thread::set_current(Some(thread));
    first_turn(thread);
    expect_end(thread);
    thread.inside.set(0);
    if is_on() {
        // Like a return address, it is one beyond the place that is meant.
        put3(head(op::BEGIN, 0, start.function + 1), thread.number.get() as u64, start.function as u64);
        if !is_free() {
            inside(thread, || missing::thread_begins(thread, start.function, start.argument as usize));
        }
        leave();
    }
    // Unless its attributes wanted others.
    let found = block_signals(start.mask);
    if found | LIBRARY != ALL {
        block_signals(found);
    }
    if is_on() && signals::pending(thread) != 0 {
        signals::deliver(thread);
        leave();
    }
    let Start { function, argument, returns_int, .. } = *start;
    // SAFETY: the program has passed a function of this type to `thrd_create` or `pthread_create`, to be called with
    // the argument in a new thread, which is this.
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

/// Makes sure that we learn of the end of the current thread. Of the first thread that is known only if it ends
/// before the program does.
pub fn expect_end(thread: &'static Thread) {
    if thread.put_off.get() == 0 && KEY_MADE.load(Acquire) {
        thread.put_off.set(ROUNDS);
        call_at_end(thread);
    }
}

/// Has the destructor called in the next round.
fn call_at_end(thread: &'static Thread) {
    // SAFETY: `start` has made the key before there was a thread to use it; the library keeps the value and looks at
    // nothing.
    unsafe { c::pthread_setspecific(KEY.get(), (thread as *const Thread).cast()) };
}

extern "C" fn end(thread: Pointer) {
    // SAFETY: `call_at_end` has left a reference there that lives for ever.
    let thread: &'static Thread = unsafe { &*thread.cast() };
    if thread.put_off.get() > 1 {
        thread.put_off.subtract(1);
        return call_at_end(thread);
    }
    CODE.store(0, Relaxed);
    last_words(thread);
}

/// The status with which the last thread has left that left by a system call, if none has ended in another way since:
/// it is that of the program if no other comes after it.
static CODE: AtomicUsize = AtomicUsize::new(0);

/// See there.
pub fn last_code() -> usize {
    CODE.load(Relaxed)
}

/// The end of the thread that runs this.
fn last_words(thread: &'static Thread) {
    if is_on() {
        if is_free() {
            // Even if its events do not count.
            inside(thread, || regain(thread));
        } else if !is_holder(thread) {
            not_holder();
        }
        flush();
        missing::close_all(thread);
        put3(head(op::END, 0, 0), thread.number.get() as u64, 0);
        thread.inside.add(1);
        // Nor in one that nobody knows any more.
        block_signals(ALL);
        retire(thread);
    } else {
        thread.set(State::Dead);
    }
    thread::set_current(None);
}

/// The current thread is about to end by a system call of its own, so no destructor will run.
pub fn leaves(code: usize) {
    CODE.store(code, Relaxed);
    if let Some(thread) = thread::current().filter(|thread| is_on() && thread.is_outside()) {
        last_words(thread);
    }
}

/// Notes that the id of a thread is about to be stored.
fn put_id(at: usize, pc: usize) {
    match is_free() {
        true => put_range(op::RANGE_WRITE, pc, at, size_of::<usize>()),
        false => put_range_before_write(pc, at, size_of::<usize>()),
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
    let creator = enter(Next::on(op::FORK, pc, 0))?;
    let function = missing::meant_by(function);
    inside(creator, || {
        if !KEY_MADE.swap(true, AcqRel) {
            let mut key = 0;
            // SAFETY: the library writes the key into our variable, and calls `end` with what `call_at_end` leaves
            // there.
            unsafe { c::pthread_key_create(&mut key, end) };
            KEY.set(key);
        }
        let Some(thread) = thread::new() else {
            header().trouble.store(TOO_MANY_THREADS, Release);
            give_up("the program has too many threads; it runs on unrecorded");
            return None;
        };
        let number = thread.number.get() as u64;
        // The library stores it before the thread begins.
        put_id(handle as usize, pc);
        put3(head(op::FORK, 0, pc), number, function as u64);
        // A handler must not run in a thread that nobody knows yet.
        let mask = block_signals(ALL);
        let begin_with = Box::into_raw(Box::new(Start { thread, function, argument, returns_int, mask }));
        let mut made = 0;
        let own = with_new_stack(attributes.cast(), thread);
        let attributes = own.as_ref().map_or(attributes, |own| (own as *const Attributes).cast_mut().cast());
        let result = lend(creator, || really_create(&mut made, attributes, begin, begin_with.cast()));
        block_signals(mask);
        if result == 0 {
            thread.handle.store(made, Relaxed);
            thread.identity.store(made, Relaxed);
            Address::from(handle).write(made);
            admit(thread);
            creator.alert.raise();
            thread.alert.raise();
        } else {
            thread.set(State::Dead);
            // SAFETY: it was made above, and no thread has begun with it.
            drop(unsafe { Box::from_raw(begin_with) });
        }
        Some(result)
    })
}

extern "C" fn create(
    handle: *mut usize,
    attributes: Pointer,
    function: Function,
    argument: Pointer,
    pc: usize,
) -> c_int {
    start(handle, attributes, function as usize, argument, pc, false)
        .unwrap_or_else(|| really_create(handle, attributes, function, argument))
}

extern "C" fn c11_create(handle: *mut usize, function: usize, argument: Pointer, pc: usize) -> c_int {
    match start(handle, core::ptr::null_mut(), function, argument, pc, true) {
        Some(result) => c11(result),
        None => pass_on!(thrd_create(handle: *mut usize, function: usize, argument: Pointer) -> c_int),
    }
}

/// How a wait for the end of a thread ended.
enum Awaited {
    /// With its end; nothing if it is none of ours or recording is off.
    Ended(Option<&'static Thread>),
    TimedOut,
    /// Whoever waited is to be cancelled.
    Interrupted,
}

/// Waits, within the token, until a thread has ended.
fn await_end(joiner: &'static Thread, handle: usize, deadline: Deadline) -> Awaited {
    let ended = thread::by_handle(handle);
    if let Some(thread) = ended {
        while is_on() && !thread.is(State::Dead) {
            if block_cancellable(joiner, thread.end_key(), deadline) {
                return Awaited::TimedOut;
            }
            if joiner.interrupted.get() {
                return Awaited::Interrupted;
            }
        }
    }
    Awaited::Ended(ended)
}

fn really_join(handle: usize, result: *mut Pointer) -> c_int {
    pass_on!(pthread_join(handle: usize, result: *mut Pointer) -> c_int)
}

extern "C" fn join(handle: usize, result: *mut Pointer, pc: usize) -> c_int {
    match enter(Next::on(op::JOIN, pc, 0)) {
        Some(joiner) => wait_and_join(joiner, handle, result, None, pc),
        None => really_join(handle, result),
    }
}

fn wait_and_join(joiner: &'static Thread, handle: usize, result: *mut Pointer, deadline: Deadline, pc: usize) -> c_int {
    cancel::point(joiner, pc);
    let answer = inside(joiner, || match await_end(joiner, handle, deadline) {
        Awaited::Ended(thread) => {
            let answer = lend(joiner, || really_join(handle, result));
            thread.inspect(|thread| joined(thread, answer, pc));
            Some(answer)
        }
        Awaited::TimedOut => {
            thread::by_handle(handle).inspect(|thread| not_joined(thread, pc));
            Some(c::ETIMEDOUT)
        }
        Awaited::Interrupted => None,
    });
    answer.unwrap_or_else(|| {
        // It does not return from here.
        cancel::point(joiner, pc);
        really_join(handle, result)
    })
}

fn joined(thread: &Thread, answer: c_int, pc: usize) {
    if answer == 0 {
        thread.handle.store(0, Relaxed);
        if is_on() {
            put3(head(op::JOIN, 0, pc), thread.number.get() as u64, 0);
        }
    }
}

/// An attempt to join a thread has failed because it has not ended.
fn not_joined(thread: &Thread, pc: usize) {
    put3(head(op::JOIN_FAILED, 0, pc), thread.number.get() as u64, 0);
}

extern "C" fn try_join(handle: usize, result: *mut Pointer, pc: usize) -> c_int {
    let joiner = enter(Next::on(op::JOIN, pc, 0));
    let (Some(joiner), Some(thread)) = (joiner, thread::by_handle(handle)) else {
        return pass_on!(pthread_tryjoin_np(handle: usize, result: *mut Pointer) -> c_int);
    };
    if !thread.is(State::Dead) {
        not_joined(thread, pc);
        return c::EBUSY;
    }
    // It has no more events; what is left of it takes a moment.
    inside(joiner, || {
        let answer = really_join(handle, result);
        joined(thread, answer, pc);
        answer
    })
}

extern "C" fn timed_join(handle: usize, result: *mut Pointer, at: *const c::Timespec, pc: usize) -> c_int {
    let joiner = enter(Next::on(op::JOIN, pc, 0));
    let Some(joiner) = joiner.filter(|_| thread::by_handle(handle).is_some()) else {
        return pass_on!(pthread_timedjoin_np(handle: usize, result: *mut Pointer, at: *const c::Timespec) -> c_int);
    };
    wait_and_join(joiner, handle, result, Some((c::CLOCK_REALTIME, nanoseconds(at))), pc)
}

extern "C" fn c11_join(handle: usize, result: *mut c_int, pc: usize) -> c_int {
    let mut value = core::ptr::null_mut();
    let answer = join(handle, &mut value, pc);
    if answer == 0 && !result.is_null() {
        Address::from(result).write(value as usize as c_int);
    }
    c11(answer)
}

extern "C" fn detach(handle: usize, _pc: usize) -> c_int {
    if let Some(thread) = thread::by_handle(handle).filter(|_| is_on()) {
        // The handle may soon be that of another thread.
        thread.handle.store(0, Relaxed);
    }
    pass_on!(pthread_detach(handle: usize) -> c_int)
}

extern "C" fn set_name(handle: usize, name: *const u8, pc: usize) -> c_int {
    if let Some(thread) = enter(Next::call(pc)) {
        let own = (c::pthread_self() == handle).then_some(thread);
        if let Some(named) = own.or_else(|| thread::by_handle(handle)) {
            inside(thread, || tell_name(named, Address::from(name)));
        }
    }
    pass_on!(pthread_setname_np(handle: usize, name: *const u8) -> c_int)
}

fn tell_name(named: &Thread, name: Address) {
    const MOST: usize = 60;
    let mut text = named.number.get().to_le_bytes().to_vec();
    text.extend((0..name.text_length(MOST)).map(|i| name.plus(i).byte()));
    put_blob(BLOB_THREAD_NAME, &text);
}

stubs! {
    pthread_create "r8" create; pthread_join "rdx" join; pthread_tryjoin_np "rdx" try_join;
    pthread_timedjoin_np "rcx" timed_join; pthread_detach "rsi" detach;
    thrd_create "rcx" c11_create; thrd_join "rdx" c11_join; thrd_detach "rsi" detach;
    pthread_setname_np "rdx" set_name;
}
