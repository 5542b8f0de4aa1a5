//! Signal handlers of the program. They run where the runtime is not in the middle of something.

use crate::base::c::{self, Pointer};
use crate::base::kernel;
use crate::base::program::{Address, Plain};
use crate::base::record::flush_what_is_there;
use crate::base::relaxed::{Relaxed, Word};
use crate::base::thread::{self, Thread, inside};
use crate::interpose::context::{Context, interrupted_at};
use crate::interpose::ending::comes_from_us;
use crate::interpose::lifecycle::is_ours;
use crate::interpose::{cancel, signal_order};
use crate::pass_on;
use crate::rewrite::traps;
use crate::scheduler::free_running::{around_handler, leaving};
use crate::scheduler::{Next, Verdict, enter, is_holder, is_on, park, release, verdict};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, Ordering};

/// glibc's `struct sigaction`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Action {
    pub handler: usize,
    pub mask: [u64; 16],
    pub flags: c_int,
    pub restorer: usize,
}

// SAFETY: numbers, whatever their bits.
unsafe impl Plain for Action {}

const NO_ACTION: Action = Action { handler: 0, mask: [0; 16], flags: 0, restorer: 0 };

pub const SA_SIGINFO: c_int = 4;
pub const SA_RESTART: c_int = 0x1000_0000;
const SA_NODEFER: c_int = 0x4000_0000;
const SA_ONSTACK: c_int = 0x0800_0000;

const DEFAULT: usize = 0;
const IGNORE: usize = 1;

/// What the program asked for, by the number of the signal.
static ACTIONS: [Wanted; 65] = [const { Wanted::none() }; 65];

/// An [`Action`] that handlers read while another thread may change it: word by word, as in the kernel.
struct Wanted {
    handler: Relaxed<usize>,
    mask: [Relaxed<u64>; 16],
    flags: Relaxed<u32>,
    restorer: Relaxed<usize>,
}

impl Wanted {
    const fn none() -> Wanted {
        Wanted {
            handler: Relaxed::zero(),
            mask: [const { Relaxed::zero() }; 16],
            flags: Relaxed::zero(),
            restorer: Relaxed::zero(),
        }
    }

    fn get(&self) -> Action {
        Action {
            handler: self.handler.get(),
            mask: core::array::from_fn(|i| self.mask[i].get()),
            flags: self.flags.get() as c_int,
            restorer: self.restorer.get(),
        }
    }

    fn set(&self, action: &Action) {
        self.handler.set(action.handler);
        self.mask.iter().zip(action.mask).for_each(|(word, mask)| word.set(mask));
        self.flags.set(action.flags as u32);
        self.restorer.set(action.restorer);
    }
}

/// What the program asked for; `signal` is one that the kernel has sent, or that was checked.
fn action(signal: c_int) -> Action {
    ACTIONS[signal as usize].get()
}

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
    /// The wait ends, and the handler runs when whoever waits says so: a wait for a condition can have no events
    /// inside.
    Return = 1,
    /// It has to wait.
    Defer = 2,
}

impl Word for WhileBlocked {
    type Atomic = AtomicU8;
    #[allow(clippy::declare_interior_mutable_const)]
    const ZERO: AtomicU8 = AtomicU8::new(0);

    fn load(from: &AtomicU8) -> WhileBlocked {
        match from.load(Ordering::Relaxed) {
            0 => WhileBlocked::Handle,
            1 => WhileBlocked::Return,
            _ => WhileBlocked::Defer,
        }
    }

    fn store(to: &AtomicU8, value: WhileBlocked) {
        to.store(value as u8, Ordering::Relaxed);
    }
}

/// The bit of a signal in [`Thread::pending_signals`]: 0 is taken, and our own signal never waits.
fn bit(signal: c_int) -> usize {
    1 << if signal == 64 { c::SIGNAL } else { signal }
}

/// Signals whose handlers are still to run.
pub fn pending(thread: &Thread) -> usize {
    thread.pending_signals.load(Ordering::Relaxed) & !cancel::PENDING
}

pub fn call(signal: c_int, information: Pointer, context: Pointer) {
    let action = action(signal);
    if action.handler > IGNORE {
        signal_order::handles();
        // SAFETY: the program has installed a handler at this address. One that takes the signal alone ignores the
        // rest.
        let handler: Handler = unsafe { core::mem::transmute(action.handler) };
        // SAFETY: it is called as the system would have called it, with what came with the signal.
        unsafe { handler(signal, information, context) };
    }
}

/// The same for a signal that ends the program if it has no handler.
pub fn call_or_die(signal: c_int, information: Pointer, context: Pointer) {
    if action(signal).handler != DEFAULT {
        return call(signal, information, context);
    }
    really_change(signal, &NO_ACTION, core::ptr::null_mut());
    // It is blocked while its handler runs, and comes again after.
    kernel::send(kernel::thread_id(), signal);
}

/// Signals that end a program that does nothing about them, and that it may have sent itself.
const DEADLY: [c_int; 15] = [1, 2, 3, 4, 6, 7, 8, 10, 11, 12, 13, 14, 15, 24, 25];

/// The program is about to end. How it ends is decided: a thread that dies meanwhile does not change it.
pub fn catch_deadly() {
    for signal in DEADLY {
        let mut now = NO_ACTION;
        let known = really_change(signal, core::ptr::null(), &mut now) == 0;
        if known && now.handler == DEFAULT && action(signal).handler == DEFAULT {
            let flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK | SA_NODEFER;
            let action = Action { handler: on_signal as *const () as usize, flags, ..NO_ACTION };
            really_change(signal, &action, core::ptr::null_mut());
        }
    }
}

/// Stands still if the program is ending already, and what the thread is about to send would end it in another way.
pub fn before_kill(process: c_int, signal: c_int) {
    const SIGKILL: c_int = 9;
    let Some(thread) = thread::current().filter(|thread| is_on() && verdict(thread) == Verdict::Parks) else { return };
    let is_deadly = signal == SIGKILL || DEADLY.contains(&signal) && action(signal).handler == DEFAULT;
    if is_deadly && thread.is_outside() && (process == 0 || process as u32 == kernel::pid()) {
        inside(thread, || park(thread));
    }
}

/// A signal about which the program does nothing: see [`catch_deadly`].
#[cold]
fn on_deadly(signal: c_int, information: Pointer, context: Pointer) {
    const SIGPIPE: c_int = 13;
    let is_its_own = is_fault(signal) || signal == SIGPIPE || comes_from_us(information, kernel::pid());
    match thread::current().filter(|_| is_on() && is_its_own) {
        Some(thread) => match verdict(thread) {
            Verdict::Dies => call_or_die(signal, information, context),
            Verdict::Ignores => {}
            Verdict::Parks => {
                if is_holder(thread) {
                    flush_what_is_there();
                }
                // If the program does not end after all, it comes again, or has been one of many.
                let mut goes_on = false;
                inside(thread, || goes_on = park(thread));
                if goes_on {
                    call_or_die(signal, information, context);
                }
            }
        },
        None => call_or_die(signal, information, context),
    }
}

extern "C" fn on_signal(signal: c_int, information: Pointer, context: Pointer) {
    if action(signal).handler == DEFAULT {
        return on_deadly(signal, information, context);
    }
    let call = || call(signal, information, context);
    let Some(thread) = thread::current().filter(|_| is_on()) else { return call() };
    if is_fault(signal) {
        if is_holder(thread) {
            flush_what_is_there();
        }
        return around_handler(thread, call);
    }
    if thread.is_outside() && !is_ours(interrupted_at(context)) {
        return around_handler(thread, call);
    }
    if thread.in_call.get() {
        let error = c::errno();
        handle_in_call(thread, call);
        return c::set_errno(error);
    }
    if signal > 31 {
        // These are counted: the next one has to wait.
        Context::new(context).block(signal);
    }
    if !information.is_null() {
        let words = Address::from(information).read::<[u64; 16]>();
        thread.information.iter().zip(words).for_each(|(to, word)| to.set(word));
    }
    thread.pending_signals.fetch_or(bit(signal), Ordering::Relaxed);
    thread.go.signal();
}

/// Inside a blocking call, without the token: the handler takes it if it needs it.
fn handle_in_call(thread: &'static Thread, handler: impl FnOnce()) {
    let depth = thread.inside.replace(0);
    thread.in_call.set(false);
    around_handler(thread, handler);
    thread.inside.set(1);
    if is_holder(thread) {
        release(thread);
    }
    thread.inside.set(depth);
    thread.in_call.set(true);
}

/// Signals that came just before a blocking call was begun: it might wait for them.
#[cold]
pub fn deliver_in_call(thread: &'static Thread) {
    handle_in_call(thread, || {
        deliver(thread);
    });
}

/// Runs the handlers of signals that came at a bad moment. At a safe point, with the token. Whether one of them wants
/// calls to fail that it has interrupted.
#[cold]
pub fn deliver(thread: &'static Thread) -> bool {
    if !thread.is_outside() {
        return false;
    }
    let error = c::errno();
    let mut fails = false;
    loop {
        let pending = thread.pending_signals.load(Ordering::Relaxed);
        if pending == 0 {
            break;
        }
        let first = 1 << pending.trailing_zeros();
        thread.pending_signals.fetch_and(!first, Ordering::Relaxed);
        if first == cancel::PENDING {
            cancel::anywhere(thread);
            continue;
        }
        let signal = if first == bit(64) { 64 } else { first.trailing_zeros() as c_int };
        fails |= action(signal).flags & SA_RESTART == 0;
        run(thread, signal);
    }
    c::set_errno(error);
    fails
}

/// Runs a handler as the system would, with the signals blocked that it wants to be.
fn run(thread: &Thread, signal: c_int) {
    // A `siginfo_t` begins with the number.
    let mut information: [u64; 16] = core::array::from_fn(|i| thread.information[i].get());
    if information[0] as u32 != signal as u32 {
        information = [0; 16];
        information[0] = signal as u64;
    }
    let mut context = [0u64; 128];
    let own = 1 << (signal - 1);
    let action = action(signal);
    let deferred = if action.flags & SA_NODEFER == 0 { own } else { 0 };
    let mut before = kernel::change_mask(kernel::SIG_BLOCK, (action.mask[0] | deferred) & !NEVER_BLOCKED);
    let outside = thread.while_blocked.replace(WhileBlocked::Handle);
    call(signal, information.as_mut_ptr().cast(), context.as_mut_ptr().cast());
    thread.while_blocked.set(outside);
    if signal > 31 {
        // It was blocked until now on our account.
        before &= !own;
    }
    kernel::change_mask(kernel::SIG_SETMASK, before);
}

fn really_change(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    pass_on!(sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int)
}

/// Installs a handler of the runtime itself.
pub fn install_own(signal: c_int, handler: Handler) {
    let action = Action { handler: handler as usize, flags: SA_SIGINFO | SA_RESTART, ..NO_ACTION };
    really_change(signal, &action, core::ptr::null_mut());
}

#[unsafe(no_mangle)]
pub extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    if !(1..65).contains(&signal) || !is_on() {
        return really_change(signal, new, old);
    }
    if signal == c::SIGNAL {
        // The watchdog's own. Programs cannot use it.
        c::set_errno(c::EINVAL);
        return -1;
    }
    let new = (!new.is_null()).then(|| Address::from(new).read::<Action>());
    if new.is_some() {
        // Who installs a handler comes before it, too.
        leaving(|| {
            if enter(Next::call(0)).is_some() {
                signal_order::sends();
            }
        });
    }
    let before = action(signal);
    new.inspect(|new| ACTIONS[signal as usize].set(new));
    let tell_old = |action: Action| {
        if !old.is_null() {
            Address::from(old).write(action);
        }
    };
    if signal == c::SIGTRAP && traps::is_installed() {
        // Ours comes first and calls the program's.
        tell_old(before);
        return 0;
    }
    let ours = on_signal as *const () as usize;
    let mut really_old = NO_ACTION;
    let result = match new {
        None => really_change(signal, core::ptr::null(), &mut really_old),
        Some(mut action) => {
            if action.handler != DEFAULT && action.handler != IGNORE {
                action.handler = ours;
                action.flags |= SA_SIGINFO;
                action.mask[0] &= !NEVER_BLOCKED;
            }
            really_change(signal, &action, &mut really_old)
        }
    };
    if result == 0 {
        tell_old(if really_old.handler == ours { before } else { really_old });
    }
    result
}

#[unsafe(no_mangle)]
pub extern "C" fn signal(signal: c_int, handler: usize) -> usize {
    let new = Action { handler, flags: SA_RESTART, ..NO_ACTION };
    let mut old = NO_ACTION;
    match sigaction(signal, &new, &mut old) {
        0 => old.handler,
        _ => usize::MAX,
    }
}

type Mask = [u64; 16];
type SetMask = fn(c_int, *const Mask, *mut Mask) -> c_int;

fn set_mask(how: c_int, new: *const Mask, old: *mut Mask, really: SetMask) -> c_int {
    const UNBLOCK: c_int = 1;
    if new.is_null() || how == UNBLOCK || !is_on() {
        return really(how, new, old);
    }
    let mut new = Address::from(new).read::<Mask>();
    new[0] &= !NEVER_BLOCKED;
    really(how, &new, old)
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_sigmask(how: c_int, new: *const Mask, old: *mut Mask) -> c_int {
    set_mask(
        how,
        new,
        old,
        |how, new, old| pass_on!(pthread_sigmask(how: c_int, new: *const Mask, old: *mut Mask) -> c_int),
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn sigprocmask(how: c_int, new: *const Mask, old: *mut Mask) -> c_int {
    set_mask(
        how,
        new,
        old,
        |how, new, old| pass_on!(sigprocmask(how: c_int, new: *const Mask, old: *mut Mask) -> c_int),
    )
}
