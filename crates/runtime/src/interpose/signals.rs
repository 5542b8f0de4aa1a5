//! Signal handlers of the program, run where the runtime is not in the middle of something.

use crate::base::c::{self, Pointer};
use crate::base::memory::Global;
use crate::base::thread::{self, Thread};
use crate::real;
use crate::scheduler::token::{self, HOLDER, Next, enter, is_on};
use core::ffi::c_int;
use core::sync::atomic::Ordering::*;

/// glibc's `struct sigaction`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Action {
    pub handler: usize,
    pub mask: [u64; 16],
    pub flags: c_int,
    pub restorer: usize,
}

pub const NO_ACTION: Action = Action { handler: 0, mask: [0; 16], flags: 0, restorer: 0 };

pub const SA_SIGINFO: c_int = 4;
pub const SA_RESTART: c_int = 0x1000_0000;
const SA_NODEFER: c_int = 0x4000_0000;

const DEFAULT: usize = 0;
const IGNORE: usize = 1;

/// What the program asked for.
static ACTIONS: Global<[Action; 65]> = Global::new([NO_ACTION; 65]);

/// What must reach the runtime at any time, as bits of a mask.
pub const NEVER_BLOCKED: u64 = 1 << (c::SIGTRAP - 1) | 1 << (c::SIGNAL - 1);

type Handler = unsafe extern "C" fn(c_int, Pointer, Pointer);

/// Faults happen where they happen.
fn is_fault(signal: c_int) -> bool {
    matches!(signal, 4 | 5 | 6 | 7 | 8 | 11 | 31)
}

/// What is to be done about a signal that comes while the thread is blocked.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum WhileBlocked {
    /// Its handler runs; then the thread waits on.
    Handle = 0,
    /// The wait ends, and the handler runs when whoever waits says so: a wait for a condition can have no events inside.
    Return = 1,
    /// It has to wait.
    Defer = 2,
}

/// The bit of a signal in [`Thread::pending_signals`]: 0 is taken, and our own signal never waits.
fn bit(signal: c_int) -> usize {
    1 << if signal == 64 { c::SIGNAL } else { signal }
}

/// Signals whose handlers are still to run.
pub fn pending(thread: &Thread) -> usize {
    thread.pending_signals.load(Relaxed) & !crate::interpose::cancel::PENDING
}

pub fn call(signal: c_int, information: Pointer, context: Pointer) {
    let action = unsafe { (*ACTIONS.get())[signal as usize] };
    if action.handler > IGNORE {
        crate::interpose::signal_order::handles();
        let handler: Handler = unsafe { core::mem::transmute(action.handler) };
        unsafe { handler(signal, information, context) };
    }
}

/// The same for a signal that ends the program if it has no handler.
pub fn call_or_die(signal: c_int, information: Pointer, context: Pointer) {
    let action = unsafe { (*ACTIONS.get())[signal as usize] };
    if action.handler != DEFAULT {
        return call(signal, information, context);
    }
    unsafe { real_action()(signal, &NO_ACTION, core::ptr::null_mut()) };
    // It is blocked while its handler runs, and comes again after.
    unsafe { c::system(c::number::TGKILL, [c::pid() as usize, c::thread_id() as usize, signal as usize, 0, 0, 0]) };
}

/// The instruction at which a signal came, and at which the thread will go on.
pub fn instruction(context: Pointer) -> &'static mut usize {
    const RIP: usize = 40 + 16 * 8;
    unsafe { &mut *(context as *mut u8).add(RIP).cast() }
}

/// The instruction at which a signal came.
pub fn interrupted_at(context: Pointer) -> usize {
    *instruction(context)
}

unsafe extern "C" fn on_signal(signal: c_int, information: Pointer, context: Pointer) {
    let thread = thread::current();
    if thread.is_null() || !is_on() {
        return call(signal, information, context);
    }
    if is_fault(signal) {
        if token::is_holder(thread) {
            crate::base::record::flush_what_is_there();
        }
        return crate::scheduler::free_running::around_handler(thread, || call(signal, information, context));
    }
    let this = unsafe { &mut *thread };
    if this.inside == 0 && !crate::interpose::lifecycle::is_ours(interrupted_at(context)) {
        return crate::scheduler::free_running::around_handler(thread, || call(signal, information, context));
    }
    if this.in_call {
        let error = c::errno();
        handle_in_call(thread, || call(signal, information, context));
        return c::set_errno(error);
    }
    if signal > 31 {
        // These are counted: the next one has to wait.
        unsafe { *mask(context) |= 1 << (signal - 1) };
    }
    if !information.is_null() {
        this.information = unsafe { *(information as *const Information) };
    }
    this.pending_signals.fetch_or(bit(signal), Relaxed);
    token::signalled(thread);
}

/// Inside a blocking call, without the token: the handler takes it if it needs it.
fn handle_in_call(thread: *mut Thread, handler: impl FnOnce()) {
    let this = unsafe { &mut *thread };
    let depth = core::mem::replace(&mut this.inside, 0);
    this.in_call = false;
    crate::scheduler::free_running::around_handler(thread, handler);
    this.inside = 1;
    if HOLDER.0.load(Relaxed) & !(token::IGNORING | token::FREELY) == thread as usize {
        token::release(thread);
    }
    this.inside = depth;
    this.in_call = true;
}

/// Signals that came just before a blocking call was begun: it might wait for them.
#[cold]
pub fn deliver_in_call(thread: *mut Thread) {
    handle_in_call(thread, || {
        deliver(thread);
    });
}

/// What is known about a signal; the first four bytes are its number.
pub type Information = [u8; 128];

/// The signals that are blocked when the thread goes on.
fn mask(context: Pointer) -> *mut u64 {
    const MASK: usize = 40 + 256;
    unsafe { (context as *mut u8).add(MASK).cast() }
}

/// Runs the handlers of signals that came at a bad moment. At a safe point, with the token. Whether one of them wants calls to
/// fail that it has interrupted.
#[cold]
pub fn deliver(thread: *mut Thread) -> bool {
    let this = unsafe { &mut *thread };
    if this.inside != 0 {
        return false;
    }
    let error = c::errno();
    let mut fails = false;
    while this.pending_signals.load(Relaxed) != 0 {
        let first = 1 << this.pending_signals.load(Relaxed).trailing_zeros();
        this.pending_signals.fetch_and(!first, Relaxed);
        if first == crate::interpose::cancel::PENDING {
            crate::interpose::cancel::anywhere(thread);
            continue;
        }
        let signal = if first == bit(64) { 64 } else { first.trailing_zeros() as c_int };
        fails |= unsafe { (*ACTIONS.get())[signal as usize] }.flags & SA_RESTART == 0;
        run(this, signal);
    }
    c::set_errno(error);
    fails
}

/// Runs a handler as the system would, with the signals blocked that it wants to be.
fn run(this: &mut Thread, signal: c_int) {
    let mut information = this.information;
    if information[..4] != signal.to_le_bytes() {
        information = [0; 128];
        information[..4].copy_from_slice(&signal.to_le_bytes());
    }
    let mut context = [0u64; 128];
    let own = 1 << (signal - 1);
    let action = unsafe { (*ACTIONS.get())[signal as usize] };
    let deferred = if action.flags & SA_NODEFER == 0 { own } else { 0 };
    let wanted = (action.mask[0] | deferred) & !NEVER_BLOCKED;
    let mut before = 0u64;
    let set = |how: usize, new: &u64, old: *mut u64| unsafe {
        c::system(c::number::RT_SIGPROCMASK, [how, new as *const u64 as usize, old as usize, 8, 0, 0])
    };
    set(0, &wanted, &mut before);
    let outside = core::mem::replace(&mut this.while_blocked, WhileBlocked::Handle);
    call(signal, information.as_mut_ptr().cast(), context.as_mut_ptr().cast());
    this.while_blocked = outside;
    if signal > 31 {
        // It was blocked until now on our account.
        before &= !own;
    }
    set(c::SIG_SETMASK, &before, core::ptr::null_mut());
}

fn real_action() -> unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int {
    real!(sigaction, fn(c_int, *const Action, *mut Action) -> c_int)
}

/// Installs a handler of the runtime itself.
pub fn install_own(signal: c_int, handler: Handler) {
    let action = Action { handler: handler as usize, flags: SA_SIGINFO | SA_RESTART, ..NO_ACTION };
    unsafe { real_action()(signal, &action, core::ptr::null_mut()) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    if !(1..65).contains(&signal) || !is_on() {
        return unsafe { real_action()(signal, new, old) };
    }
    if signal == c::SIGNAL {
        // The watchdog's own. Programs that use it too are told no.
        c::set_errno(c::EINVAL);
        return -1;
    }
    if !new.is_null() {
        // Who installs a handler comes before it, too.
        crate::scheduler::free_running::leaving(|| {
            if enter(thread::current(), Next::call(0)) {
                crate::interpose::signal_order::sends();
            }
        });
    }
    let before = unsafe { (*ACTIONS.get())[signal as usize] };
    if signal == c::SIGTRAP && crate::rewrite::probe::is_installed() {
        // Ours comes first and calls the program's.
        if let Some(&new) = unsafe { new.as_ref() } {
            unsafe { (&mut *ACTIONS.get())[signal as usize] = new };
        }
        if !old.is_null() {
            unsafe { *old = before };
        }
        return 0;
    }
    let ours = |action: &Action| action.handler == on_signal as *const () as usize;
    let mut really_old = NO_ACTION;
    let result = if new.is_null() {
        unsafe { real_action()(signal, new, &mut really_old) }
    } else {
        let mut action = unsafe { *new };
        unsafe { (&mut *ACTIONS.get())[signal as usize] = action };
        if action.handler != DEFAULT && action.handler != IGNORE {
            action.handler = on_signal as *const () as usize;
            action.flags |= SA_SIGINFO;
            action.mask[0] &= !NEVER_BLOCKED;
        }
        unsafe { real_action()(signal, &action, &mut really_old) }
    };
    if result == 0 && !old.is_null() {
        unsafe { *old = if ours(&really_old) { before } else { really_old } };
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(signal: c_int, handler: usize) -> usize {
    let new = Action { handler, flags: SA_RESTART, ..NO_ACTION };
    let mut old = NO_ACTION;
    match unsafe { sigaction(signal, &new, &mut old) } {
        0 => old.handler,
        _ => usize::MAX,
    }
}

type Mask = [u64; 16];
type SetMask = unsafe extern "C" fn(c_int, *const Mask, *mut Mask) -> c_int;

unsafe fn set_mask(how: c_int, new: *const Mask, old: *mut Mask, really: SetMask) -> c_int {
    const UNBLOCK: c_int = 1;
    match unsafe { new.as_ref() } {
        Some(&new) if how != UNBLOCK && is_on() => {
            let mut new = new;
            new[0] &= !NEVER_BLOCKED;
            unsafe { really(how, &new, old) }
        }
        _ => unsafe { really(how, new, old) },
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigmask(how: c_int, new: *const Mask, old: *mut Mask) -> c_int {
    unsafe { set_mask(how, new, old, real!(pthread_sigmask, fn(c_int, *const Mask, *mut Mask) -> c_int)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigprocmask(how: c_int, new: *const Mask, old: *mut Mask) -> c_int {
    unsafe { set_mask(how, new, old, real!(sigprocmask, fn(c_int, *const Mask, *mut Mask) -> c_int)) }
}
