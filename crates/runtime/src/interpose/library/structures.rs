//! Structures that the kernel fills in or reads, and sets of signals.

use crate::base::c::Pointer;
use crate::base::kernel::can_read;
use crate::base::program::Address;
use crate::interpose::blocking::{gives_kernel, remember_room, room};
use crate::interpose::library::effects::*;
use crate::interpose::library::{kernel, library, with_kernel};
use crate::pass_on;
use core::ffi::{c_int, c_uint};

/// The bits of a set of signals that there are: the kernel knows no more.
const SET: usize = 8;
const USAGE: usize = 144;
const LIMIT: usize = 16;
const TERMINAL: usize = 60;

fn ids(a: usize, b: usize, c: usize, each: fn(usize, usize)) {
    [a, b, c].into_iter().for_each(|at| each(at, 4));
}

/// An address of a socket: how long it is stands in a word that the call changes. What there was no room for is cut off.
fn named(to: usize, size: usize) {
    writes(to, int(size).min(128).min(room()));
    writes(size, 4);
}

fn may_name(to: usize, size: usize) {
    fills(to, 128);
    fills(size, 4);
}

/// Requests from before their numbers said what they take: what the kernel reads, and what it writes.
const OLD_REQUESTS: [(u64, usize, usize); 7] =
    [(0x5401, 0, 36), (0x5402, 36, 0), (0x5413, 0, 8), (0x5414, 8, 0), (0x541b, 0, 4), (0x5421, 4, 0), (0x5411, 0, 4)];

/// What a request reads and writes: all others have it in their numbers.
fn request(k: u64) -> (usize, usize) {
    if let Some(&(_, read, written)) = OLD_REQUESTS.iter().find(|(old, ..)| *old == k) {
        return (read, written);
    }
    let size = (k >> 16 & 0x3fff) as usize;
    (if k >> 30 & 1 != 0 { size } else { 0 }, if k >> 31 & 1 != 0 { size } else { 0 })
}

/// The argument need not be an address, whatever the number says.
fn asks(k: u64, at: usize) {
    gives_kernel(at as Pointer, request(k).0);
    fills(at, request(k).1);
}

fn answers(k: u64, at: usize) {
    if at != 0 && can_read(at) {
        writes(at, request(k).1);
    }
}

/// The pieces of a row of `struct iovec` of this process.
fn pieces(row: usize, n: usize, mut left: usize, each: fn(usize, usize)) {
    for i in 0..n {
        let [at, length] = Address(row + 16 * i).read::<[usize; 2]>();
        each(at, length.min(left));
        left -= length.min(left);
    }
}

kernel! {
    ioctl "rcx" (fd: c_int, k: u64, at: usize) -> c_int; asks(k, at); |r| if r >= 0 { answers(k, at) };
    process_vm_readv stack (p: c_int, here: usize, n: usize, there: usize, m: usize, f: usize) -> isize;
        { reads(here, 16 * n); reads(there, 16 * m) };
        |r| pieces(here, n, count(r), writes);
    process_vm_writev stack (p: c_int, here: usize, n: usize, there: usize, m: usize, f: usize) -> isize;
        { reads(here, 16 * n); reads(there, 16 * m); pieces(here, n, usize::MAX, reads) };
        |_r| ();
    uname "rsi" (to: usize) -> c_int; fills(to, 390); |r| if r == 0 { writes(to, 390) };
    sysinfo "rsi" (to: usize) -> c_int; fills(to, 112); |r| if r == 0 { writes(to, 112) };
    getrusage "rdx" (who: c_int, to: usize) -> c_int; fills(to, USAGE); |r| if r == 0 { writes(to, USAGE) };
    getrlimit "rdx" (k: c_uint, to: usize) -> c_int; fills(to, LIMIT); |r| if r == 0 { writes(to, LIMIT) };
    getrlimit64 "rdx" (k: c_uint, to: usize) -> c_int; fills(to, LIMIT); |r| if r == 0 { writes(to, LIMIT) };
    setrlimit "rdx" (k: c_uint, from: usize) -> c_int; reads(from, LIMIT); |_r| ();
    setrlimit64 "rdx" (k: c_uint, from: usize) -> c_int; reads(from, LIMIT); |_r| ();
    prlimit "r8" (p: c_int, k: c_uint, from: usize, to: usize) -> c_int; { reads(from, LIMIT); fills(to, LIMIT) };
        |r| if r == 0 { writes(to, LIMIT) };
    prlimit64 "r8" (p: c_int, k: c_uint, from: usize, to: usize) -> c_int; { reads(from, LIMIT); fills(to, LIMIT) };
        |r| if r == 0 { writes(to, LIMIT) };
    getresuid "rcx" (a: usize, b: usize, c: usize) -> c_int; ids(a, b, c, fills);
        |r| if r == 0 { ids(a, b, c, writes) };
    getresgid "rcx" (a: usize, b: usize, c: usize) -> c_int; ids(a, b, c, fills);
        |r| if r == 0 { ids(a, b, c, writes) };
    getgroups "rdx" (n: c_int, to: usize) -> c_int; fills(to, 4 * n.max(0) as usize);
        |r| if n > 0 { writes(to, 4 * r.max(0) as usize) };
    setgroups "rdx" (n: usize, from: usize) -> c_int; reads(from, 4 * n); |_r| ();
    gethostname "rdx" (to: usize, n: usize) -> c_int; fills(to, n); |r| if r == 0 { writes_text(to) };
    getdomainname "rdx" (to: usize, n: usize) -> c_int; fills(to, n); |r| if r == 0 { writes_text(to) };
    getloadavg "rdx" (to: usize, n: c_int) -> c_int; fills(to, 8 * n.max(0) as usize);
        |r| writes(to, 8 * r.max(0) as usize);
    getrandom "rcx" (to: usize, n: usize, f: c_uint) -> isize; fills(to, n); |r| writes(to, count(r));
    getentropy "rdx" (to: usize, n: usize) -> c_int; fills(to, n); |r| if r == 0 { writes(to, n) };
    mincore "rcx" (at: usize, n: usize, to: usize) -> c_int; fills(to, n.div_ceil(4096));
        |r| if r == 0 { writes(to, n.div_ceil(4096)) };
    sched_getparam "rdx" (p: c_int, to: usize) -> c_int; fills(to, 4); |r| if r == 0 { writes(to, 4) };
    sched_setparam "rdx" (p: c_int, from: usize) -> c_int; reads(from, 4); |_r| ();
    sched_setscheduler "rcx" (p: c_int, k: c_int, from: usize) -> c_int; reads(from, 4); |_r| ();
    sched_rr_get_interval "rdx" (p: c_int, to: usize) -> c_int; fills(to, 16); |r| if r == 0 { writes(to, 16) };
    sched_setaffinity "rcx" (p: c_int, n: usize, from: usize) -> c_int; reads(from, n); |_r| ();
    sched_getaffinity "rcx" (p: c_int, n: usize, to: usize) -> c_int; fills(to, n); |r| if r == 0 { writes(to, n) };
    tcgetattr "rdx" (fd: c_int, to: usize) -> c_int; fills(to, TERMINAL); |r| if r == 0 { writes(to, TERMINAL) };
    tcsetattr "rcx" (fd: c_int, k: c_int, from: usize) -> c_int; reads(from, TERMINAL); |_r| ();
    capget "rdx" (header: usize, to: usize) -> c_int; { reads(header, 8); fills(to, 24) };
        |r| if r == 0 { writes(to, 24) };
    capset "rdx" (header: usize, from: usize) -> c_int; { reads(header, 8); reads(from, 24) }; |_r| ();
    sigpending "rsi" (to: usize) -> c_int; fills(to, SET); |r| if r == 0 { writes(to, SET) };
    sigaltstack "rdx" (from: usize, to: usize) -> c_int; { reads(from, 24); fills(to, 24) };
        |r| if r == 0 { writes(to, 24) };
    bind "rcx" (fd: c_int, a: usize, n: c_uint) -> c_int; reads(a, n as usize); |_r| ();
    getsockopt "r9" (fd: c_int, l: c_int, k: c_int, to: usize, size: usize) -> c_int; may_name(to, size);
        |r| if r == 0 { writes(to, int(size)); writes(size, 4) };
    setsockopt "r9" (fd: c_int, l: c_int, k: c_int, from: usize, n: c_uint) -> c_int; reads(from, n as usize); |_r| ();
}

library! {
    backtrace "rdx" (to: usize, n: c_int) -> c_int; fills(to, 8 * n.max(0) as usize);
        |r| writes(to, 8 * r.max(0) as usize);
    confstr "rcx" (k: c_int, to: usize, n: usize) -> usize; fills(to, n); |r| writes(to, n.min(r));
    getlogin_r "rdx" (to: usize, n: usize) -> c_int; fills(to, n); |r| if r == 0 { writes_text(to) };
    sigemptyset "rsi" (set: usize) -> c_int; fills(set, SET); |r| if r == 0 { writes(set, SET) };
    sigfillset "rsi" (set: usize) -> c_int; fills(set, SET); |r| if r == 0 { writes(set, SET) };
    sigaddset "rdx" (set: usize, s: c_int) -> c_int; changes(set, SET); |r| if r == 0 { writes(set, SET) };
    sigdelset "rdx" (set: usize, s: c_int) -> c_int; changes(set, SET); |r| if r == 0 { writes(set, SET) };
    sigismember "rdx" (set: usize, s: c_int) -> c_int; reads(set, SET); |_r| ();
    sigisemptyset "rsi" (set: usize) -> c_int; reads(set, SET); |_r| ();
    sigandset "rcx" (to: usize, a: usize, b: usize) -> c_int; { reads(a, SET); reads(b, SET); fills(to, SET) };
        |r| if r == 0 { writes(to, SET) };
    sigorset "rcx" (to: usize, a: usize, b: usize) -> c_int; { reads(a, SET); reads(b, SET); fills(to, SET) };
        |r| if r == 0 { writes(to, SET) };
}

/// Calls that say the address of a socket. How much room there is for it stands where its length is put.
macro_rules! names {
    ($($name:ident)*) => {$(
        const _: () = {
            extern "C" fn recorded(fd: c_int, to: usize, size: usize, pc: usize) -> c_int {
                if can_read(size) {
                    remember_room(int(size));
                }
                let call = || pass_on!($name(fd: c_int, to: usize, size: usize) -> c_int);
                with_kernel(pc, || may_name(to, size), call, |r| if *r == 0 { named(to, size) })
            }

            crate::stubs! { $name "rcx" recorded; }
        };
    )*};
}

names! { getsockname getpeername }
