//! Cancellation of threads, and `pthread_exit`.
//!
//! The C library would unwind a thread out of the middle of our waits and calls. So it never learns of a cancellation.
//! The request is kept here; a thread that waits at a cancellation point is woken, and one in a system call is
//! interrupted. As soon as the runtime is in order, the thread ends itself by `pthread_exit`, which runs the handlers
//! and gives the same result to whoever joins it.
//!
//! In the trace a request is an atomic write, and each cancellation point is an atomic read of it: a thread that went
//! on had not been cancelled yet. Programs that never cancel a thread do without these reads.

use crate::base::c::{self, Pointer};
use crate::base::kernel::{self, number, system};
use crate::base::program::Address;
use crate::base::record::put3;
use crate::base::thread::{self, State, Thread, inside};
use crate::interpose::context::interrupted_at;
use crate::interpose::lifecycle::is_ours;
use crate::interpose::missing::loaded::{Description, dl_iterate_phdr};
use crate::interpose::threads::expect_end;
use crate::scheduler::{Next, enter, if_alive, interrupt, is_holder, is_on, lend};
use crate::tsan::atomic::{ACQUIRE, RELEASE, detail};
use crate::wire::{head, op};
use crate::{pass_on, stubs};
use core::arch::global_asm;
use core::ffi::c_int;
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
pub fn is_requested(thread: &Thread) -> bool {
    thread.cancel_requested.load(Relaxed) != 0 && !thread.cancel_disabled.get()
}

/// The request in the trace.
fn flag(thread: &Thread) -> u64 {
    &raw const thread.cancel_requested as u64
}

/// A cancellation point with everything in order: nothing is done yet or all is done, the runtime is not at work, and
/// the thread has the token, unless recording is off.
pub fn point(thread: &'static Thread, pc: usize) {
    let requested = is_requested(thread);
    if !requested && !POSSIBLE.load(Relaxed) || thread.cancel_disabled.get() {
        return;
    }
    if is_on() && is_holder(thread) {
        put3(head(op::ATOMIC_READ, detail(2, ACQUIRE), pc), flag(thread), requested as u64);
    }
    if requested {
        leave(thread, CANCELED);
    }
}

/// Ends the thread that runs this.
fn leave(thread: &'static Thread, result: Pointer) {
    // From here on it cannot be cancelled again.
    thread.cancel_disabled.set(true);
    expect_end(thread);
    // The first time, the C library loads its unwinder, under a lock and with memory from the heap: not in the middle
    // of a turn.
    if is_on() && !UNWINDER_LOADED.swap(true, Relaxed) {
        let mut place = core::ptr::null_mut();
        // SAFETY: the library writes one address into our variable.
        inside(thread, || lend(thread, || unsafe { backtrace(&mut place, 1) }));
    }
    pass_on!(pthread_exit(result: Pointer) -> ());
}

/// At a safe point, whatever the thread is doing.
#[cold]
pub fn anywhere(thread: &'static Thread) {
    if thread.cancel_asynchronous.get() && is_requested(thread) {
        enter(Next::call(0));
        point(thread, 0);
    }
}

/// Interrupts threads that are to be cancelled and are in system calls, or may be cancelled anywhere. The signal may
/// come just before a call, so the watchdog sends it again and again.
pub fn interrupt_calls() {
    if CALLED.load(Relaxed) {
        thread::all().iter().for_each(interrupt_call);
    }
}

fn interrupt_call(thread: &'static Thread) {
    if !is_requested(thread) {
        return;
    }
    if_alive(thread, |thread| {
        let in_call = thread.in_call.get() && thread.cancellable.get();
        if in_call || thread.cancel_asynchronous.get() {
            kernel::send(thread.kernel.load(Relaxed), SIGNAL);
        }
    });
}

/// Handler of the signal. To interrupt a call, all it has to do is to come. A thread that may be cancelled anywhere
/// ends right here, unless the runtime is at work: then it will at the next safe point.
extern "C" fn interrupted(_: c_int, _: Pointer, context: Pointer) {
    let outside = thread::current().filter(|thread| thread.is_outside());
    if let Some(thread) = outside.filter(|_| !is_ours(interrupted_at(context))) {
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
    safe fn snag_restore();
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
    // SAFETY: the kernel reads the action, which has its layout. The handler may run at any time (see there), and
    // returns by way of `snag_restore`.
    unsafe { system(number::RT_SIGACTION, [SIGNAL as usize, &action as *const _ as usize, 0, 8, 0, 0]) };
}

extern "C" fn cancel(handle: usize, pc: usize) -> c_int {
    let Some(thread) = thread::current().filter(|thread| is_on() && thread.is_outside()) else {
        return pass_on!(pthread_cancel(handle: usize) -> c_int);
    };
    let counts = enter(Next::call(pc)).is_some();
    let Some(target) = thread::by_identity(handle) else { return pass_on!(pthread_cancel(handle: usize) -> c_int) };
    if target.is(State::Dead) {
        return 0;
    }
    if !CALLED.swap(true, AcqRel) {
        install_handler();
    }
    if counts {
        put3(head(op::ATOMIC_WRITE, detail(2, RELEASE), pc), flag(target), 1);
    }
    target.cancel_requested.store(1, Relaxed);
    target.pending_signals.fetch_or(PENDING, Relaxed);
    inside(thread, || {
        interrupt(target);
        interrupt_call(target);
    });
    if target == thread {
        anywhere(thread);
    }
    0
}

// The C library knows the state as well, for the time when recording is off.

extern "C" fn set_state(new: c_int, old: *mut c_int, _pc: usize) -> c_int {
    let result = pass_on!(pthread_setcancelstate(new: c_int, old: *mut c_int) -> c_int);
    if let Some(thread) = thread::current().filter(|_| result == 0) {
        thread.cancel_disabled.set(new == DISABLE);
        anywhere(thread);
    }
    result
}

extern "C" fn set_type(new: c_int, old: *mut c_int, _pc: usize) -> c_int {
    let result = pass_on!(pthread_setcanceltype(new: c_int, old: *mut c_int) -> c_int);
    if let Some(thread) = thread::current().filter(|_| result == 0) {
        thread.cancel_asynchronous.set(new == ASYNCHRONOUS);
        anywhere(thread);
    }
    result
}

extern "C" fn test(pc: usize) {
    if let Some(thread) = thread::current().filter(|thread| thread.is_outside()) {
        // A step of its own, so that a thread that does nothing else lets others run.
        enter(Next::call(pc));
        point(thread, pc);
    }
    pass_on!(pthread_testcancel() -> ());
}

extern "C" fn exit(result: Pointer, _pc: usize) {
    match thread::current() {
        Some(thread) => leave(thread, result),
        None => pass_on!(pthread_exit(result: Pointer) -> ()),
    }
}

stubs! {
    pthread_cancel "rsi" cancel; pthread_setcancelstate "rdx" set_state; pthread_setcanceltype "rdx" set_type;
    pthread_testcancel "rdi" test; pthread_exit "rsi" exit; thrd_exit "rsi" c11_exit;
}

extern "C" fn c11_exit(result: c_int, pc: usize) {
    exit(result as usize as Pointer, pc);
}

/// Looks whether a part of the program that is loaded now refers to `pthread_cancel`.
pub fn look_for_users() {
    if !POSSIBLE.load(Relaxed) {
        // SAFETY: the library calls `refers` with what it knows about each object, which is there meanwhile.
        unsafe { dl_iterate_phdr(refers, core::ptr::null_mut()) };
    }
}

unsafe extern "C" fn refers(object: *const Description, _size: usize, _: Pointer) -> c_int {
    const DYNAMIC: u32 = 2;
    // SAFETY: the library passes its description of an object, with as many headers as it says; all are there during
    // the call.
    let (object, headers) = unsafe {
        let object = &*object;
        (object, core::slice::from_raw_parts(object.headers, object.count as usize))
    };
    let Some(dynamic) = headers.iter().find(|header| header.kind == DYNAMIC) else { return 0 };
    let mut entry = Address(object.base + dynamic.address);
    let (mut names, mut symbols, mut hashes) = (0, 0, 0);
    const NAMES: usize = 5;
    const SYMBOLS: usize = 6;
    const GNU_HASH: usize = 0x6fff_fef5;
    loop {
        match entry.read::<[usize; 2]>() {
            [0, _] => break,
            [NAMES, at] => names = at,
            [SYMBOLS, at] => symbols = at,
            [GNU_HASH, at] => hashes = at,
            _ => {}
        }
        entry = entry.plus(16);
    }
    // The linker has made addresses of them, but not in what the kernel brings along.
    if names < object.base || symbols < object.base || hashes < object.base || hashes == 0 {
        return 0;
    }
    // What is only referred to comes before what can be looked up.
    let first_defined = Address(hashes).plus(4).read::<u32>() as usize;
    const SYMBOL: usize = 24;
    const NAME: &[u8] = b"pthread_cancel\0";
    for index in 1..first_defined {
        let name = Address(names + Address(symbols + index * SYMBOL).read::<u32>() as usize);
        if NAME.iter().enumerate().all(|(i, &byte)| name.plus(i).byte() == byte) {
            POSSIBLE.store(true, Relaxed);
            return 1;
        }
    }
    0
}
