//! What a program can do to itself that makes recording impossible: unmap the memory that it shares with the tool, or
//! forbid itself system calls that the runtime makes. Recording ends just before that, and the program continues as it
//! would without us.

use crate::base::c;
use crate::base::kernel::{self, number, system};
use crate::base::lock::futex_wake;
use crate::base::shared::is_shared;
use crate::interpose::{ending, threads};
use crate::pass_on;
use crate::scheduler::{give_up_because_of, is_on, watchdog};
use crate::wire::{FORBIDDEN, UNMAPPED};
use core::ffi::{c_int, c_ulong};
use core::sync::atomic::AtomicU32;

/// Before memory is unmapped, or is not to be used as it was.
pub fn before_change(from: usize, length: usize) {
    if is_on() && is_shared(from, length) {
        give_up_because_of(UNMAPPED);
    }
}

/// Before a system call that the program makes by its number.
pub fn before_system_call(n: i64, arguments: &[usize; 6]) {
    const FIXED: usize = 0x10;
    match n {
        number::MUNMAP | number::MPROTECT | number::MREMAP => before_change(arguments[0], arguments[1]),
        number::MMAP if arguments[3] & FIXED != 0 => before_change(arguments[0], arguments[1]),
        number::PRCTL | number::SECCOMP => before_filter(n, arguments),
        number::EXIT => threads::leaves(arguments[0]),
        number::EXIT_GROUP => ending::before_exit_group(),
        _ => {}
    }
}

/// Its other arguments are there if the first says so.
#[unsafe(no_mangle)]
pub extern "C" fn prctl(what: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    if is_on() {
        before_filter(number::PRCTL, &[what as usize, a as usize, b as usize, c as usize, d as usize, 0]);
    }
    pass_on!(prctl(what: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int)
}

/// Before a call that may forbid others.
fn before_filter(n: i64, arguments: &[usize; 6]) {
    const SET_SECCOMP: usize = 22;
    const SET_MODES: core::ops::RangeInclusive<usize> = 0..=1;
    let is_filter = match n {
        number::PRCTL => arguments[0] == SET_SECCOMP,
        _ => SET_MODES.contains(&arguments[0]),
    };
    if !is_filter {
        return;
    }
    ending::is_restricted();
    if !leaves_us_alone(n, arguments) {
        give_up_because_of(FORBIDDEN);
        // Its own system calls would be forbidden, too, and end the program.
        watchdog::await_end();
    }
}

/// The calls that the runtime makes while a program runs, none of which does anything here.
fn calls() -> [(i64, [usize; 6]); 13] {
    const MAP: [usize; 6] = [0, 4096, 3, 0x22, usize::MAX, 0];
    const BLOCK: usize = 0;
    static NO_TIME: c::Timespec = c::Timespec { seconds: 0, nanoseconds: 0 };
    let no_time = &raw const NO_TIME as usize;
    let process = kernel::pid() as usize;
    [
        (number::NANOSLEEP, [no_time, 0, 0, 0, 0, 0]),
        (number::GETPID, [0; 6]),
        (number::GETTID, [0; 6]),
        (number::TGKILL, [process, process, 0, 0, 0, 0]),
        (number::SCHED_YIELD, [0; 6]),
        (number::RT_SIGPROCMASK, [BLOCK, 0, 0, 8, 0, 0]),
        (number::MMAP, MAP),
        (number::MUNMAP, [0x1000, 0, 0, 0, 0, 0]),
        (number::OPENAT, [usize::MAX, c"".as_ptr() as usize, 0, 0, 0, 0]),
        (number::READ, [usize::MAX, 0, 0, 0, 0, 0]),
        (number::CLOSE, [usize::MAX, 0, 0, 0, 0, 0]),
        (number::MEMBARRIER, [usize::MAX, 0, 0, 0, 0, 0]),
        (number::PROCESS_VM_READV, [process, 0, 0, 0, 0, 0]),
    ]
}

/// Whether the runtime can go on with its work after the call: a copy of the process makes it and then tries.
fn leaves_us_alone(n: i64, arguments: &[usize; 6]) -> bool {
    const NEW_LISTENER: usize = 8;
    if n == number::SECCOMP && arguments[1] & NEW_LISTENER != 0 {
        // Somebody else is asked, and may never answer.
        return false;
    }
    // It ends without a signal to us.
    // SAFETY: a copy of the process, as by a fork: it has its own memory, and this thread alone.
    let copy = unsafe { system(number::CLONE, [0; 6]) };
    if copy == 0 {
        try_it(n, arguments);
    }
    if copy < 0 {
        return false;
    }
    const WAIT_FOR_CLONE: usize = 1 << 31;
    let mut status: c_int = -1;
    let interrupted = -(c::EINTR as i64);
    let wait = [copy as usize, &mut status as *mut _ as usize, WAIT_FOR_CLONE, 0, 0, 0];
    // SAFETY: the kernel writes the status, which is ours and lives until then.
    while unsafe { system(number::WAIT4, wait) } == interrupted {}
    status == 0
}

/// In the copy, which ends here: with 0 if everything is as it was.
fn try_it(n: i64, arguments: &[usize; 6]) -> ! {
    const SET_DUMPABLE: usize = 4;
    // SAFETY: the calls that are tried touch no memory of ours (see `calls`), and the program's own call is one that it
    // is about to make. All of that happens in a copy of the process, which ends here.
    let make = |n: i64, arguments: &[usize; 6]| unsafe { system(n, *arguments).min(0) };
    // It is not to leave a core behind, nor to run handlers of the program.
    make(number::PRCTL, &[SET_DUMPABLE, 0, 0, 0, 0, 0]);
    kernel::change_mask(kernel::SIG_SETMASK, u64::MAX);
    let before = calls().map(|(n, arguments)| make(n, &arguments));
    let mut good = true;
    // If it fails, nothing has changed.
    if make(n, arguments) == 0 {
        futex_wake(&AtomicU32::new(0), 0, true);
        good = calls().map(|(n, arguments)| make(n, &arguments)) == before;
    }
    kernel::exit_thread(!good as usize)
}
