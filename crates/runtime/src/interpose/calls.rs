//! The calls that may block, one by one: what they may touch, before they are made, and what they have done, after.
//!
//! A line is: the call's name, the register in which its next argument would be, its arguments and result; what is
//! noted before it, with the token; and what is noted after it, with the token again.

use crate::base::c::{self, Pointer, Timespec};
use crate::base::kernel;
use crate::base::program::Address;
use crate::base::thread;
use crate::interpose::blocking::{
    around_with, by_errno, gives_kernel as reads, gives_kernel_text, may_write, remember_room, room, writes,
};
use crate::interpose::cancel;
use crate::interpose::descriptors::{
    accepted, brought, gives, gives_object, object_of, puts_into, takes, takes_object,
};
use crate::interpose::heap::appeared;
use crate::interpose::library::effects::writes_wide;
use crate::interpose::readiness::{polled, selected, waited, watches};
use crate::interpose::streams::takes_stream;
use crate::wire::SIGNALS;
use crate::{pass_on, stubs};
use core::ffi::{c_int, c_long, c_uint, c_ulong};

/// The pieces of a row of `struct iovec`.
fn vector(pieces: Pointer, count: c_int, total: isize, each: fn(Pointer, usize)) {
    if total == isize::MAX {
        // Before the call, which reads the row itself.
        if !kernel::can_read(pieces as usize) {
            return;
        }
        reads(pieces, 16 * count.max(0) as usize);
    }
    let mut left = total.max(0) as usize;
    for i in 0..count.max(0) as usize {
        let [at, length] = Address::from(pieces).plus(16 * i).read::<[usize; 2]>();
        let length = length.min(left);
        each(at as Pointer, length);
        left -= length;
    }
}

/// The pieces of a `struct msghdr`, and the structure itself.
fn message(message: Pointer, total: isize, each: fn(Pointer, usize)) {
    if total == isize::MAX {
        if !kernel::can_read(message as usize) {
            return;
        }
        reads(message, MESSAGE);
    }
    let [pieces, count] = Address::from(message).plus(16).read::<[usize; 2]>();
    vector(pieces as Pointer, count as c_int, total, each);
}

/// A `struct msghdr`.
const MESSAGE: usize = 56;

/// What comes with a message: whose it is, what is attached, and the lengths and flags in the structure.
fn came(message: Pointer, result: isize) {
    if result < 0 {
        return;
    }
    let at = Address::from(message);
    let [name, size] = [0, 8].map(|offset| at.plus(offset).read::<usize>());
    let [control, length] = [32, 40].map(|offset| at.plus(offset).read::<usize>());
    writes(name as Pointer, (size as u32 as usize).min(room()));
    writes(control as Pointer, length);
    writes(message, MESSAGE);
}

/// How much room there is for the sender of a message.
fn may_be_named(message: Pointer) {
    if kernel::can_read(message as usize) {
        remember_room(Address::from(message).plus(8).read::<u32>() as usize);
    }
}

/// What is sent along with a message.
fn goes_along(message: Pointer) {
    if kernel::can_read(message as usize) {
        let at = Address::from(message);
        let [name, size] = [0, 8].map(|offset| at.plus(offset).read::<usize>());
        let [control, length] = [32, 40].map(|offset| at.plus(offset).read::<usize>());
        reads(name as Pointer, size as u32 as usize);
        reads(control as Pointer, length);
    }
}

/// The address of a socket at the other end, and its length, which the call has changed.
fn named(good: bool, name: Pointer, size: Pointer) {
    if good && !name.is_null() && !size.is_null() {
        writes(name, (Address::from(size).read::<u32>() as usize).min(LONGEST_NAME).min(room()));
        writes(size, 4);
    }
}

/// A `struct sockaddr_storage`.
const LONGEST_NAME: usize = 128;

fn may_name(name: Pointer, size: Pointer) {
    if !name.is_null() && kernel::can_read(size as usize) {
        remember_room(Address::from(size).read::<u32>() as usize);
    }
    may_write(name, LONGEST_NAME);
    may_write(size, 4);
}

/// What `poll` has looked at and answered: each entry has a descriptor and events, and behind them the answer.
fn answered(entries: Pointer, count: usize, result: c_int) {
    if result < 0 {
        return;
    }
    for at in (0..count).map(|i| entries as usize + 8 * i) {
        reads(at as Pointer, 6);
        writes((at + 6) as Pointer, 2);
    }
}

/// Several of them, each with the length of what came.
fn messages(all: Pointer, count: c_uint, each: fn(Pointer, isize)) {
    const SIZE: usize = 64;
    const LENGTH: usize = 56;
    for i in 0..count as usize {
        let at = all as usize + SIZE * i;
        each(at as Pointer, Address(at + LENGTH).read::<u32>() as isize);
    }
}

/// Each call comes with the register in which its next argument would be: there the place it is called from is put.
macro_rules! calls {
    ($interrupted:expr; $($name:ident $register:tt ($($argument:ident: $type:ty),*) -> $result:ty;
       $before:expr; |$answer:ident| $after:expr;)*) => {$(
        const _: () = {
            extern "C" fn recorded($($argument: $type,)* pc: usize) -> $result {
                around_with(
                    pc,
                    $interrupted,
                    || $before,
                    || pass_on!($name($($argument: $type),*) -> $result),
                    |$answer| $after,
                )
            }
            stub! { $name $register recorded }
        };
    )*};
}

/// Functions of six arguments get their seventh on the stack.
macro_rules! stub {
    ($name:ident stack $target:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push qword ptr [rsp]",
                ".cfi_adjust_cfa_offset 8",
                "call {target}",
                "mov qword ptr [rsp], rax",
                "call {leave}",
                "pop rax",
                ".cfi_adjust_cfa_offset -8",
                "ret",
                ".cfi_endproc",
                target = sym $target,
                leave = sym $crate::scheduler::free_running::leave,
            )
        }
    };
    // Those of seven or eight get all that are not in registers once more. The target has eight, and the place.
    ($name:ident stack8 $target:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push qword ptr [rsp]",
                ".cfi_adjust_cfa_offset 8",
                "push qword ptr [rsp + 24]",
                ".cfi_adjust_cfa_offset 8",
                "push qword ptr [rsp + 24]",
                ".cfi_adjust_cfa_offset 8",
                "call {target}",
                "mov qword ptr [rsp], rax",
                "call {leave}",
                "mov rax, qword ptr [rsp]",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "ret",
                ".cfi_endproc",
                target = sym $target,
                leave = sym $crate::scheduler::free_running::leave,
            )
        }
    };
    ($name:ident $register:literal $target:path) => {
        stubs! { $name $register $target; }
    };
}

pub(crate) use stub;

/// A `struct rusage`.
const USAGE: usize = 144;

/// A child has ended, and this is how.
fn ended(status: Pointer, child: c_int) {
    if child > 0 {
        takes_object(SIGNALS);
        writes(status, 4);
    }
}

// Message queues and semaphores of System V.

const UNLOCK: c_int = 8;

fn queue(id: c_int) -> u64 {
    object_of([u64::MAX, 1, id as u64, 0]) as u64
}

fn set(id: c_int) -> u64 {
    object_of([u64::MAX, 2, id as u64, 0]) as u64
}

fn any_operation(operations: Pointer, count: usize, is: fn(i16) -> bool) -> bool {
    (0..count).any(|i| is(Address::from(operations).plus(6 * i + 2).read()))
}

/// Sets of descriptors below `limit`, which the kernel has written.
fn sets(limit: c_int, answer: c_int, sets: [Pointer; 3], each: fn(Pointer, usize)) {
    if answer >= 0 {
        let bytes = (limit.max(0) as usize).div_ceil(64) * 8;
        sets.into_iter().for_each(|set| each(set, bytes));
    }
}

fn length(count: isize) -> usize {
    count.max(0) as usize
}

calls! {
    Some(by_errno);
    read "rcx" (fd: c_int, to: Pointer, n: usize) -> isize; may_write(to, n); |r| { takes(fd); writes(to, length(*r)) };
    __read_chk "r8" (fd: c_int, to: Pointer, n: usize, m: usize) -> isize; may_write(to, n);
        |r| { takes(fd); writes(to, length(*r)) };
    pread "r8" (fd: c_int, to: Pointer, n: usize, at: i64) -> isize; may_write(to, n);
        |r| { takes(fd); writes(to, length(*r)) };
    pread64 "r8" (fd: c_int, to: Pointer, n: usize, at: i64) -> isize; may_write(to, n);
        |r| { takes(fd); writes(to, length(*r)) };
    readv "rcx" (fd: c_int, to: Pointer, n: c_int) -> isize; vector(to, n, isize::MAX, may_write);
        |r| { takes(fd); vector(to, n, *r, writes) };
    recv "r8" (fd: c_int, to: Pointer, n: usize, f: c_int) -> isize; may_write(to, n);
        |r| { takes(fd); writes(to, length(*r)) };
    recvfrom stack (fd: c_int, to: Pointer, n: usize, f: c_int, a: Pointer, l: Pointer) -> isize;
        { may_write(to, n); may_name(a, l) };
        |r| { takes(fd); writes(to, length(*r)); named(*r >= 0, a, l) };
    __recvfrom_chk stack8
        (fd: c_int, to: Pointer, n: usize, m: usize, f: c_int, a: Pointer, l: Pointer, _x: usize) -> isize;
        { may_write(to, n); may_name(a, l) };
        |r| { takes(fd); writes(to, length(*r)); named(*r >= 0, a, l) };
    recvmsg "rcx" (fd: c_int, m: Pointer, f: c_int) -> isize; { message(m, isize::MAX, may_write); may_be_named(m) };
        |r| { takes(fd); message(m, *r, writes); came(m, *r); if *r >= 0 { brought(m) } };
    recvmmsg "r9" (fd: c_int, m: Pointer, n: c_uint, f: c_int, t: Pointer) -> c_int;
        messages(m, n, |m, _| message(m, isize::MAX, may_write));
        |r| { takes(fd); messages(m, (*r).max(0) as c_uint, |m, length| { message(m, length, writes); brought(m) }) };
    sendmmsg "r8" (fd: c_int, m: Pointer, n: c_uint, f: c_int) -> c_int;
        { messages(m, n, |m, _| { message(m, isize::MAX, reads); goes_along(m) }); gives(fd) }; |_r| ();
    splice stack (from: c_int, a: Pointer, to: c_int, b: Pointer, n: usize, f: c_uint) -> isize; puts_into(to);
        |_r| takes(from);
    eventfd_read "rdx" (fd: c_int, to: Pointer) -> c_int; may_write(to, 8); |r| if *r == 0 { takes(fd); writes(to, 8) };
    eventfd_write "rdx" (fd: c_int, n: u64) -> c_int; gives(fd); |_r| ();
    mq_send "r8" (q: c_int, from: Pointer, n: usize, k: c_uint) -> c_int; { reads(from, n); gives(q) }; |_r| ();
    mq_timedsend "r9" (q: c_int, from: Pointer, n: usize, k: c_uint, t: Pointer) -> c_int; { reads(from, n); gives(q) };
        |_r| ();
    mq_receive "r8" (q: c_int, to: Pointer, n: usize, k: Pointer) -> isize; { may_write(to, n); may_write(k, 4) };
        |r| if *r >= 0 { takes(q); writes(to, length(*r)); writes(k, 4) };
    mq_timedreceive "r9" (q: c_int, to: Pointer, n: usize, k: Pointer, t: Pointer) -> isize;
        { may_write(to, n); may_write(k, 4) };
        |r| if *r >= 0 { takes(q); writes(to, length(*r)); writes(k, 4) };
    __recv_chk "r9" (fd: c_int, to: Pointer, n: usize, m: usize, f: c_int) -> isize; may_write(to, n);
        |r| { takes(fd); writes(to, length(*r)) };
    __pread_chk "r9" (fd: c_int, to: Pointer, n: usize, at: i64, m: usize) -> isize; may_write(to, n);
        |r| { takes(fd); writes(to, length(*r)) };
    __pread64_chk "r9" (fd: c_int, to: Pointer, n: usize, at: i64, m: usize) -> isize; may_write(to, n);
        |r| { takes(fd); writes(to, length(*r)) };
    preadv "r8" (fd: c_int, to: Pointer, n: c_int, at: i64) -> isize; vector(to, n, isize::MAX, may_write);
        |r| { takes(fd); vector(to, n, *r, writes) };
    preadv64 "r8" (fd: c_int, to: Pointer, n: c_int, at: i64) -> isize; vector(to, n, isize::MAX, may_write);
        |r| { takes(fd); vector(to, n, *r, writes) };
    pwritev "r8" (fd: c_int, from: Pointer, n: c_int, at: i64) -> isize;
        { vector(from, n, isize::MAX, reads); puts_into(fd) }; |_r| ();
    pwritev64 "r8" (fd: c_int, from: Pointer, n: c_int, at: i64) -> isize;
        { vector(from, n, isize::MAX, reads); puts_into(fd) }; |_r| ();
    write "rcx" (fd: c_int, from: Pointer, n: usize) -> isize; { reads(from, n); puts_into(fd) }; |_r| ();
    pwrite "r8" (fd: c_int, from: Pointer, n: usize, at: i64) -> isize; { reads(from, n); puts_into(fd) }; |_r| ();
    pwrite64 "r8" (fd: c_int, from: Pointer, n: usize, at: i64) -> isize; { reads(from, n); puts_into(fd) }; |_r| ();
    writev "rcx" (fd: c_int, from: Pointer, n: c_int) -> isize; { vector(from, n, isize::MAX, reads); puts_into(fd) };
        |_r| ();
    send "r8" (fd: c_int, from: Pointer, n: usize, f: c_int) -> isize; { reads(from, n); gives(fd) }; |_r| ();
    sendto stack (fd: c_int, from: Pointer, n: usize, f: c_int, a: Pointer, l: c_uint) -> isize;
        { reads(from, n); reads(a, l as usize); gives(fd) }; |_r| ();
    sendmsg "rcx" (fd: c_int, m: Pointer, f: c_int) -> isize;
        { message(m, isize::MAX, reads); goes_along(m); gives(fd) }; |_r| ();
    accept "rcx" (fd: c_int, a: Pointer, l: Pointer) -> c_int; may_name(a, l);
        |r| { accepted(*r); named(*r >= 0, a, l) };
    accept4 "r8" (fd: c_int, a: Pointer, l: Pointer, f: c_int) -> c_int; may_name(a, l);
        |r| { accepted(*r); named(*r >= 0, a, l) };
    connect "rcx" (fd: c_int, a: Pointer, l: c_uint) -> c_int; { reads(a, l as usize); gives(fd) }; |_r| ();
    poll "rcx" (f: Pointer, n: c_ulong, t: c_int) -> c_int; may_write(f, n as usize * 8);
        |r| { answered(f, n as usize, *r); polled(f, n as usize, *r) };
    ppoll "r8" (f: Pointer, n: c_ulong, t: Pointer, s: Pointer) -> c_int; may_write(f, n as usize * 8);
        |r| { answered(f, n as usize, *r); polled(f, n as usize, *r) };
    __poll_chk "r8" (f: Pointer, n: c_ulong, t: c_int, m: usize) -> c_int; may_write(f, n as usize * 8);
        |r| { answered(f, n as usize, *r); polled(f, n as usize, *r) };
    select "r9" (n: c_int, r: Pointer, w: Pointer, e: Pointer, t: Pointer) -> c_int; sets(n, 0, [r, w, e], may_write);
        |a| { sets(n, *a, [r, w, e], writes); selected(n, *a, [r, e]) };
    pselect stack (n: c_int, r: Pointer, w: Pointer, e: Pointer, t: Pointer, s: Pointer) -> c_int;
        sets(n, 0, [r, w, e], may_write);
        |a| { sets(n, *a, [r, w, e], writes); selected(n, *a, [r, e]) };
    epoll_wait "r8" (fd: c_int, to: Pointer, n: c_int, t: c_int) -> c_int; may_write(to, 12 * n.max(0) as usize);
        |r| { takes(fd); writes(to, 12 * (*r).max(0) as usize); waited(fd, to, *r) };
    epoll_pwait "r9" (fd: c_int, to: Pointer, n: c_int, t: c_int, s: Pointer) -> c_int;
        may_write(to, 12 * n.max(0) as usize);
        |r| { takes(fd); writes(to, 12 * (*r).max(0) as usize); waited(fd, to, *r) };
    epoll_pwait2 "r9" (fd: c_int, to: Pointer, n: c_int, t: Pointer, s: Pointer) -> c_int;
        may_write(to, 12 * n.max(0) as usize);
        |r| { takes(fd); writes(to, 12 * (*r).max(0) as usize); waited(fd, to, *r) };
    nanosleep "rdx" (t: *const Timespec, l: Pointer) -> c_int; { reads(t as Pointer, 16); may_write(l, 16) };
        |r| if *r != 0 { writes(l, 16) };
    usleep "rsi" (t: c_uint) -> c_int; (); |_r| ();
    sleep "rsi" (t: c_uint) -> c_uint; (); |_r| ();
    wait "rsi" (s: Pointer) -> c_int; may_write(s, 4); |r| ended(s, *r);
    waitpid "rcx" (p: c_int, s: Pointer, f: c_int) -> c_int; may_write(s, 4); |r| ended(s, *r);
    wait3 "rcx" (s: Pointer, f: c_int, u: Pointer) -> c_int; { may_write(s, 4); may_write(u, USAGE) };
        |r| { ended(s, *r); if *r > 0 { writes(u, USAGE) } };
    wait4 "r8" (p: c_int, s: Pointer, f: c_int, u: Pointer) -> c_int; { may_write(s, 4); may_write(u, USAGE) };
        |r| { ended(s, *r); if *r > 0 { writes(u, USAGE) } };
    waitid "r8" (k: c_int, i: c_uint, s: Pointer, f: c_int) -> c_int; may_write(s, 128);
        |r| if *r == 0 { takes_object(SIGNALS); writes(s, 128) };
    sigwaitinfo "rdx" (s: Pointer, i: Pointer) -> c_int; { reads(s, 8); may_write(i, 128) };
        |r| if *r > 0 { takes_object(SIGNALS); writes(i, 128) };
    sigtimedwait "rcx" (s: Pointer, i: Pointer, t: Pointer) -> c_int; { reads(s, 8); reads(t, 16); may_write(i, 128) };
        |r| if *r > 0 { takes_object(SIGNALS); writes(i, 128) };
    sigsuspend "rsi" (s: Pointer) -> c_int; reads(s, 8); |_r| ();
    pause "rdi" () -> c_int; (); |_r| ();
    lockf "rcx" (fd: c_int, o: c_int, n: i64) -> c_int; (); |_r| ();
    fsync "rsi" (fd: c_int) -> c_int; (); |_r| ();
    fdatasync "rsi" (fd: c_int) -> c_int; (); |_r| ();
    fgets "rcx" (to: Pointer, n: c_int, f: Pointer) -> Pointer; may_write(to, n.max(0) as usize);
        |r| { takes_stream(f); if !r.is_null() { writes(to, text_length(to) + 1) } };
    __fgets_chk "r8" (to: Pointer, m: usize, n: c_int, f: Pointer) -> Pointer; may_write(to, n.max(0) as usize);
        |r| { takes_stream(f); if !r.is_null() { writes(to, text_length(to) + 1) } };
    __fread_chk "r9" (to: Pointer, m: usize, s: usize, n: usize, f: Pointer) -> usize;
        may_write(to, s.saturating_mul(n));
        |r| { takes_stream(f); writes(to, s.saturating_mul(*r)) };
    fread "r8" (to: Pointer, s: usize, n: usize, f: Pointer) -> usize; may_write(to, s.saturating_mul(n));
        |r| { takes_stream(f); writes(to, s.saturating_mul(*r)) };
    fread_unlocked "r8" (to: Pointer, s: usize, n: usize, f: Pointer) -> usize; may_write(to, s.saturating_mul(n));
        |r| { takes_stream(f); writes(to, s.saturating_mul(*r)) };
    fgets_unlocked "rcx" (to: Pointer, n: c_int, f: Pointer) -> Pointer; may_write(to, n.max(0) as usize);
        |r| { takes_stream(f); if !r.is_null() { writes(to, text_length(to) + 1) } };
    __fread_unlocked_chk "r9" (to: Pointer, m: usize, s: usize, n: usize, f: Pointer) -> usize;
        may_write(to, s.saturating_mul(n));
        |r| { takes_stream(f); writes(to, s.saturating_mul(*r)) };
    __fgets_unlocked_chk "r8" (to: Pointer, m: usize, n: c_int, f: Pointer) -> Pointer;
        may_write(to, n.max(0) as usize);
        |r| { takes_stream(f); if !r.is_null() { writes(to, text_length(to) + 1) } };
    __fgetws_chk "r8" (to: Pointer, m: usize, n: c_int, f: Pointer) -> Pointer; may_write(to, 4 * n.max(0) as usize);
        |r| { takes_stream(f); if !r.is_null() { writes_wide(to as usize) } };
    __ppoll_chk "r9" (f: Pointer, n: c_ulong, t: Pointer, s: Pointer, m: usize) -> c_int;
        may_write(f, n as usize * 8);
        |r| { answered(f, n as usize, *r); polled(f, n as usize, *r) };
    fgetws "rcx" (to: Pointer, n: c_int, f: Pointer) -> Pointer; may_write(to, 4 * n.max(0) as usize);
        |r| { takes_stream(f); if !r.is_null() { writes_wide(to as usize) } };
    getc "rsi" (f: Pointer) -> c_int; (); |_r| takes_stream(f);
    fgetc "rsi" (f: Pointer) -> c_int; (); |_r| takes_stream(f);
    msgrcv "r9" (q: c_int, m: Pointer, n: usize, t: c_long, f: c_int) -> isize; may_write(m, 8 + n);
        |r| if *r >= 0 { takes_object(queue(q)); writes(m, 8 + length(*r)) };
    msgsnd "r8" (q: c_int, m: Pointer, n: usize, f: c_int) -> c_int; { reads(m, 8 + n); gives_object(queue(q)) };
        |_r| ();
}

// These say that they were interrupted without errno.
calls! {
    Some(|result| *result == c::EINTR);
    clock_nanosleep "r8" (k: c_int, f: c_int, t: *const Timespec, l: Pointer) -> c_int;
        { reads(t as Pointer, 16); may_write(l, 16) };
        |r| if *r == c::EINTR && f == 0 { writes(l, 16) };
}
calls! {
    Some(|result| *result == -1);
    thrd_sleep "rdx" (t: *const Timespec, l: Pointer) -> c_int; (); |_r| ();
}

extern "C" fn get_line(line: *mut Pointer, size: *mut usize, stream: Pointer, pc: usize) -> isize {
    let really = || pass_on!(getline(line: *mut Pointer, size: *mut usize, stream: Pointer) -> isize);
    line_into(line, size, stream, pc, really)
}

extern "C" fn get_delimited(line: *mut Pointer, size: *mut usize, end: c_int, stream: Pointer, pc: usize) -> isize {
    let really = || pass_on!(getdelim(line: *mut Pointer, size: *mut usize, end: c_int, stream: Pointer) -> isize);
    line_into(line, size, stream, pc, really)
}

/// The line may be in another block afterwards.
fn line_into(
    line: *mut Pointer,
    size: *mut usize,
    stream: Pointer,
    pc: usize,
    really: impl FnOnce() -> isize,
) -> isize {
    if line.is_null() || size.is_null() {
        return really();
    }
    let now = || (Address::from(line).read::<Pointer>(), Address::from(size).read::<usize>());
    let (block, room) = now();
    let before = || {
        if !block.is_null() {
            may_write(block, room)
        }
    };
    around_with(pc, Some(by_errno), before, really, |&got| {
        takes_stream(stream);
        if now() != (block, room) {
            // That the other one was freed is not said: somebody else may have it by now.
            appeared(now().0);
        }
        writes(now().0, if got < 0 { 0 } else { got as usize + 1 });
        writes(line.cast(), 8);
        writes(size.cast(), 8);
    })
}

stubs! { getline "rcx" get_line; getdelim "r8" get_delimited; __getdelim "r8" get_delimited; }

/// The blocks of a list of addresses.
fn listed(first: Pointer) {
    let mut at = first;
    while !at.is_null() {
        appeared(at);
        // A `struct addrinfo`: its name, and the next one.
        appeared(Address::from(at).plus(32).read());
        at = Address::from(at).plus(40).read();
    }
}

/// The C library's would not return when it is interrupted.
extern "C" fn wait_for_signal(set: Pointer, signal: *mut c_int, pc: usize) -> c_int {
    let null: Pointer = core::ptr::null_mut();
    // Its errno is its result.
    let wait = || loop {
        let before = c::errno();
        let got = pass_on!(sigtimedwait(set: Pointer, null: Pointer, null: Pointer) -> c_int);
        let error = c::errno();
        c::set_errno(before);
        if got > 0 {
            Address::from(signal).write(got);
            return 0;
        } else if error != c::EINTR || thread::current().is_some_and(cancel::is_requested) {
            return error;
        }
    };
    around_with(
        pc,
        Some(|result| *result == c::EINTR),
        || may_write(signal.cast(), 4),
        wait,
        |result| {
            if *result == 0 {
                takes_object(SIGNALS);
                writes(signal.cast(), 4);
            }
        },
    )
}

stubs! { sigwait "rdx" wait_for_signal; }

// These are no cancellation points, or take care of what they have begun.
calls! {
    None;
    epoll_ctl "r8" (fd: c_int, o: c_int, of: c_int, e: Pointer) -> c_int;
        { reads(e, 12); watches(fd, o, of, e); gives(fd) }; |_r| ();
    sendfile "r8" (to: c_int, from: c_int, at: Pointer, n: usize) -> isize; puts_into(to); |_r| takes(from);
    sendfile64 "r8" (to: c_int, from: c_int, at: Pointer, n: usize) -> isize; puts_into(to); |_r| takes(from);
    flock "rdx" (fd: c_int, o: c_int) -> c_int; if o & UNLOCK != 0 { gives(fd) };
        |r| if *r == 0 && o & UNLOCK == 0 { takes(fd) };
    system "rsi" (t: Pointer) -> c_int; gives_kernel_text(t); |_r| ();
    getaddrinfo "r8" (a: Pointer, b: Pointer, h: Pointer, r: Pointer) -> c_int;
        { gives_kernel_text(a); gives_kernel_text(b); reads(h, 48); may_write(r, 8) };
        |answer| if *answer == 0 { writes(r, 8); listed(Address::from(r).read()) };
    semop "rcx" (s: c_int, o: Pointer, n: usize) -> c_int;
        { reads(o, 6 * n); if any_operation(o, n, |o| o > 0) { gives_object(set(s)) } };
        |r| if *r == 0 && any_operation(o, n, |o| o <= 0) { takes_object(set(s)) };
    semtimedop "r8" (s: c_int, o: Pointer, n: usize, t: Pointer) -> c_int;
        if any_operation(o, n, |o| o > 0) { gives_object(set(s)) };
        |r| if *r == 0 && any_operation(o, n, |o| o <= 0) { takes_object(set(s)) };
}

fn text_length(text: Pointer) -> usize {
    Address::from(text).text_length(usize::MAX)
}
