//! Cancellation of threads, and how they end themselves.
//!
//! The C library would unwind a thread out of the middle of our waits and calls. So it never learns of a cancellation: the
//! request is kept here, a thread that waits at a cancellation point is woken, one in a system call interrupted, and
//! when everything is in order it ends itself as it would have been ended, by `pthread_exit`, which runs the
//! handlers and gives the same result to whoever joins it.
//!
//! In the trace a request is an atomic write, and each cancellation point an atomic read of it: where a thread went on, it
//! had not been cancelled yet. Programs that cannot cancel anything do without these reads.

use crate::base::c::{self, Pointer, number, system};
use crate::base::record::put3;
use crate::base::thread::{self, State, Thread, inside};
use crate::interpose::signals::interrupted_at;
use crate::scheduler::token::{self, Next, enter, is_on};
use crate::tsan::atomic::{ACQUIRE, RELEASE, detail};
use crate::wire::{head, op};
use crate::{real, stubs};
use core::arch::global_asm;
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicBool, Ordering::*};

/// A bit among those of pending signals that no signal has: look for a request at the next safe point.
pub const PENDING: usize = 1;

/// The result of a thread that was cancelled.
const CANCELED: Pointer = usize::MAX as Pointer;

const DISABLE: c_int = 1;
const ASYNCHRONOUS: c_int = 1;

/// Whether a part of the program refers to `pthread_cancel`.
static POSSIBLE: AtomicBool = AtomicBool::new(false);

static UNWINDER_LOADED: AtomicBool = AtomicBool::new(false);

/// Whether it was ever called.
static CALLED: AtomicBool = AtomicBool::new(false);

/// The C library's own signal for the purpose: programs can neither use nor block it.
const SIGNAL: c_int = 32;

/// Whether the thread is to end at its next cancellation point.
pub fn is_requested(thread: *mut Thread) -> bool {
    let this = unsafe { &*thread };
    this.cancel_requested.load(Relaxed) != 0 && !this.cancel_disabled
}

/// The request in the trace.
fn flag(thread: *mut Thread) -> u64 {
    unsafe { &raw const (*thread).cancel_requested as u64 }
}

/// A cancellation point with everything in order: nothing is done yet or all is done, the runtime is not at work, and the
/// thread has the token, unless recording is off.
pub fn point(thread: *mut Thread, pc: usize) {
    let requested = is_requested(thread);
    if !requested && !POSSIBLE.load(Relaxed) || unsafe { (*thread).cancel_disabled } {
        return;
    }
    if is_on() && token::is_holder(thread) {
        put3(head(op::ATOMIC_READ, detail(2, ACQUIRE), pc), flag(thread), requested as u64);
    }
    if requested {
        leave(thread, CANCELED);
    }
}

/// Ends the thread that runs this.
fn leave(thread: *mut Thread, result: Pointer) {
    // From here on it cannot be cancelled again.
    unsafe { (*thread).cancel_disabled = true };
    crate::interpose::threads::expect_end(thread);
    // The first time, the C library loads its unwinder, under a lock and with memory from the heap: not in the middle of a
    // turn.
    if is_on() && !UNWINDER_LOADED.swap(true, Relaxed) {
        let mut place = core::ptr::null_mut();
        inside(thread, || token::lend(thread, || unsafe { backtrace(&mut place, 1) }));
    }
    unsafe { real!(pthread_exit, fn(Pointer) -> ())(result) };
}

/// At a safe point, whatever the thread is doing.
#[cold]
pub fn anywhere(thread: *mut Thread) {
    if unsafe { (*thread).cancel_asynchronous } && is_requested(thread) {
        enter(thread, Next::call(0));
        point(thread, 0);
    }
}

/// Interrupts threads that are to be cancelled and are in system calls, or may be cancelled anywhere. The signal may come just
/// before a call, so the watchdog sends it again and again.
pub fn interrupt_calls() {
    if CALLED.load(Relaxed) {
        (0..thread::count()).map(thread::by_number).for_each(interrupt_call);
    }
}

fn interrupt_call(thread: *mut Thread) {
    if !is_requested(thread) {
        return;
    }
    token::if_alive(thread, |this| {
        let in_call =
            unsafe { (&raw const this.in_call).read_volatile() && (&raw const this.cancellable).read_volatile() };
        if in_call || this.cancel_asynchronous {
            let kernel = this.kernel.load(Relaxed) as usize;
            unsafe { system(number::TGKILL, [c::pid() as usize, kernel, SIGNAL as usize, 0, 0, 0]) };
        }
    });
}

/// Handler of the signal. To interrupt a call, all it has to do is to come. A thread that may be cancelled anywhere
/// ends right here, unless the runtime is at work: then it will at the next safe point.
unsafe extern "C" fn interrupted(_: c_int, _: Pointer, context: Pointer) {
    let thread = thread::current();
    let at_work = thread.is_null() || unsafe { (*thread).inside } != 0;
    if !at_work && !crate::interpose::lifecycle::is_ours(interrupted_at(context)) {
        let error = c::errno();
        anywhere(thread);
        c::set_errno(error);
    }
}

// Where the handler returns to. The unwinder knows these very bytes, and looks at the one before them.
global_asm!(
    ".hidden snag_restore",
    ".globl snag_restore",
    ".type snag_restore,@function",
    ".balign 16",
    "nop",
    "snag_restore:",
    ".byte 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0", // mov rax, 15: rt_sigreturn
    "syscall",
    ".size snag_restore, . - snag_restore",
);

unsafe extern "C" {
    fn snag_restore();
    fn backtrace(places: *mut Pointer, most: c_int) -> c_int;
}

/// The C library would not let us have its signal, so the kernel is asked.
fn install_handler() {
    #[repr(C)]
    struct Action {
        handler: usize,
        flags: usize,
        restorer: usize,
        mask: u64,
    }
    const SA_SIGINFO: usize = 4;
    const SA_RESTORER: usize = 0x0400_0000;
    let action = Action {
        handler: interrupted as *const () as usize,
        flags: SA_SIGINFO | SA_RESTORER,
        restorer: snag_restore as *const () as usize,
        mask: 0,
    };
    unsafe { system(number::RT_SIGACTION, [SIGNAL as usize, &action as *const _ as usize, 0, 8, 0, 0]) };
}

unsafe extern "C" fn cancel(handle: usize, pc: usize) -> c_int {
    let thread = thread::current();
    let really = real!(pthread_cancel, fn(usize) -> c_int);
    if !is_on() || thread.is_null() || unsafe { (*thread).inside } != 0 {
        return unsafe { really(handle) };
    }
    let counts = enter(thread, Next::call(pc));
    let target = thread::by_identity(handle);
    if target.is_null() {
        return unsafe { really(handle) };
    }
    if unsafe { (*target).is(State::Dead) } {
        return 0;
    }
    if !CALLED.swap(true, AcqRel) {
        install_handler();
    }
    if counts {
        put3(head(op::ATOMIC_WRITE, detail(2, RELEASE), pc), flag(target), 1);
    }
    unsafe {
        (*target).cancel_requested.store(1, Relaxed);
        (*target).pending_signals.fetch_or(PENDING, Relaxed);
    }
    inside(thread, || {
        token::interrupt(target);
        interrupt_call(target);
    });
    if target == thread {
        anywhere(thread);
    }
    0
}

// The C library knows the state as well, for the time when recording is off.

unsafe extern "C" fn set_state(new: c_int, old: *mut c_int, _pc: usize) -> c_int {
    let thread = thread::current();
    let result = unsafe { real!(pthread_setcancelstate, fn(c_int, *mut c_int) -> c_int)(new, old) };
    if result == 0 && !thread.is_null() {
        unsafe { (*thread).cancel_disabled = new == DISABLE };
        anywhere(thread);
    }
    result
}

unsafe extern "C" fn set_type(new: c_int, old: *mut c_int, _pc: usize) -> c_int {
    let thread = thread::current();
    let result = unsafe { real!(pthread_setcanceltype, fn(c_int, *mut c_int) -> c_int)(new, old) };
    if result == 0 && !thread.is_null() {
        unsafe { (*thread).cancel_asynchronous = new == ASYNCHRONOUS };
        anywhere(thread);
    }
    result
}

unsafe extern "C" fn test(pc: usize) {
    let thread = thread::current();
    if !thread.is_null() && unsafe { (*thread).inside } == 0 {
        // A step of its own, so that a thread that does nothing else lets others run.
        enter(thread, Next::call(pc));
        point(thread, pc);
    }
    unsafe { real!(pthread_testcancel, fn() -> ())() };
}

unsafe extern "C" fn exit(result: Pointer, _pc: usize) {
    let thread = thread::current();
    if thread.is_null() {
        return unsafe { real!(pthread_exit, fn(Pointer) -> ())(result) };
    }
    leave(thread, result);
}

stubs! {
    pthread_cancel "rsi" cancel; pthread_setcancelstate "rdx" set_state; pthread_setcanceltype "rdx" set_type;
    pthread_testcancel "rdi" test; pthread_exit "rsi" exit; thrd_exit "rsi" c11_exit;
}

unsafe extern "C" fn c11_exit(result: c_int, pc: usize) {
    unsafe { exit(result as usize as Pointer, pc) };
}

/// Looks whether a part of the program that is loaded now refers to `pthread_cancel`.
pub fn look_for_users() {
    if !POSSIBLE.load(Relaxed) {
        unsafe { dl_iterate_phdr(refers, core::ptr::null_mut()) };
    }
}

/// The beginning of what the C library tells about a loaded object.
#[repr(C)]
struct Loaded {
    base: usize,
    name: *const c_char,
    headers: *const ProgramHeader,
    count: u16,
}

#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: usize,
    address: usize,
    rest: [usize; 4],
}

unsafe extern "C" {
    fn dl_iterate_phdr(each: unsafe extern "C" fn(*const Loaded, usize, Pointer) -> c_int, data: Pointer) -> c_int;
}

unsafe extern "C" fn refers(object: *const Loaded, _size: usize, _: Pointer) -> c_int {
    const DYNAMIC: u32 = 2;
    let object = unsafe { &*object };
    let headers = unsafe { core::slice::from_raw_parts(object.headers, object.count as usize) };
    let Some(dynamic) = headers.iter().find(|header| header.kind == DYNAMIC) else { return 0 };
    let mut entry = (object.base + dynamic.address) as *const [usize; 2];
    let (mut names, mut symbols, mut hashes) = (0, 0, 0);
    const NAMES: usize = 5;
    const SYMBOLS: usize = 6;
    const GNU_HASH: usize = 0x6fff_fef5;
    loop {
        match unsafe { *entry } {
            [0, _] => break,
            [NAMES, at] => names = at,
            [SYMBOLS, at] => symbols = at,
            [GNU_HASH, at] => hashes = at,
            _ => {}
        }
        entry = unsafe { entry.add(1) };
    }
    // The linker has made addresses of them, but not in what the kernel brings along.
    if names < object.base || symbols < object.base || hashes < object.base || hashes == 0 {
        return 0;
    }
    // What is only referred to comes before what can be looked up.
    let first_defined = unsafe { *(hashes as *const u32).add(1) } as usize;
    const SYMBOL: usize = 24;
    for index in 1..first_defined {
        let name = names + unsafe { *((symbols + index * SYMBOL) as *const u32) } as usize;
        if unsafe { CStr::from_ptr(name as *const c_char) } == c"pthread_cancel" {
            POSSIBLE.store(true, Relaxed);
            return 1;
        }
    }
    0
}
