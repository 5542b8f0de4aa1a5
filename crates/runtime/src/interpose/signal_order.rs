//! Signal order: a thread that sends a signal, sets a timer or starts a process comes before the handler that gets the
//! signal, the thread that reads the timer, and the thread that learns of the process's end.

use crate::base::c::Pointer;
use crate::interpose::descriptors::{begins, gives, gives_object, noting, takes_object};
use crate::interpose::signals::before_kill;
use crate::wire::SIGNALS;
use crate::{pass_on, stubs};
use core::ffi::{c_int, c_uint};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether the program has sent anything: if not, a handler need not look.
static SENT: AtomicBool = AtomicBool::new(false);

/// Something is about to be sent. With the token.
pub fn sends() {
    SENT.store(true, Relaxed);
    gives_object(SIGNALS);
}

/// A handler is about to run.
pub fn handles() {
    if SENT.load(Relaxed) {
        crate::scheduler::free_running::leaving(|| {
            if begins(0).is_some() {
                takes_object(SIGNALS);
            }
        });
    }
}

/// Calls that send. They must not hold the token: the signal may come before they return.
macro_rules! send {
    ($($name:ident $register:literal ($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        const _: () = {
            extern "C" fn recorded($($argument: $type,)* pc: usize) -> $result {
                noting(pc, false, sends, || pass_on!($name($($argument: $type),*) -> $result))
            }
            stubs! { $name $register recorded; }
        };
    )*};
}

send! {
    killpg "rdx" (p: c_int, s: c_int) -> c_int;
    tgkill "rcx" (p: c_int, t: c_int, s: c_int) -> c_int;
    pthread_kill "rdx" (t: usize, s: c_int) -> c_int;
    sigqueue "rcx" (p: c_int, s: c_int, v: Pointer) -> c_int;
    pthread_sigqueue "rcx" (t: usize, s: c_int, v: Pointer) -> c_int;
    alarm "rsi" (t: c_uint) -> c_uint;
    ualarm "rdx" (t: c_uint, i: c_uint) -> c_uint;
    setitimer "rcx" (k: c_int, n: Pointer, o: Pointer) -> c_int;
    timer_settime "r8" (t: Pointer, f: c_int, n: Pointer, o: Pointer) -> c_int;
}

extern "C" fn send_to_process(process: c_int, signal: c_int, pc: usize) -> c_int {
    noting(pc, false, sends, || {
        before_kill(process, signal);
        pass_on!(kill(process: c_int, signal: c_int) -> c_int)
    })
}

extern "C" fn set_timer(descriptor: c_int, flags: c_int, new: Pointer, old: Pointer, pc: usize) -> c_int {
    let really = || pass_on!(timerfd_settime(descriptor: c_int, flags: c_int, new: Pointer, old: Pointer) -> c_int);
    noting(pc, false, || gives(descriptor), really)
}

stubs! { kill "rdx" send_to_process; timerfd_settime "r8" set_timer; }

macro_rules! spawn {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(
            child: Pointer,
            program: Pointer,
            actions: Pointer,
            attributes: Pointer,
            arguments: Pointer,
            environment: Pointer,
        ) -> c_int {
            noting(0, false, sends, || {
                pass_on!($name(
                    child: Pointer, program: Pointer, actions: Pointer, attributes: Pointer, arguments: Pointer,
                    environment: Pointer,
                ) -> c_int)
            })
        }
    )*};
}

spawn! { posix_spawn posix_spawnp }
