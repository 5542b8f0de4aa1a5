//! Calls that may block: the token is let go around them. What they write into memory is an event, and what one thread
//! writes into a pipe or socket happens before what another reads from it.
//!
//! Each call is two steps, before and after, whether it blocks or not.

use crate::c::{self, Pointer, Timespec, number};
use crate::memory::Global;
use crate::record::{put_range, put3};
use crate::thread::{self, inside};
use crate::token::{acquire, enter, is_on, release, step, yield_now};
use crate::wire::{head, op};
use crate::{real, stubs};
use core::ffi::{c_int, c_long, c_uint, c_ulong};

/// Lets go of the token around a call.
pub fn around<R>(call: impl FnOnce() -> R) -> R {
    around_with(0, || (), call, |_| ())
}

/// The same, with events before and after.
#[inline]
fn around_with<R>(pc: usize, before: impl FnOnce(), call: impl FnOnce() -> R, after: impl FnOnce(&R)) -> R {
    let thread = thread::current();
    if !is_on() || thread.is_null() || unsafe { (*thread).inside } != 0 || !enter(thread) {
        return call();
    }
    let error = c::errno();
    inside(thread, || {
        unsafe { (*thread).call_pc = pc };
        before();
        release(thread);
        unsafe { (*thread).in_call = true };
        c::set_errno(error);
        let result = call();
        let error = c::errno();
        unsafe { (*thread).in_call = false };
        if is_on() {
            acquire(thread);
            if is_on() {
                // A signal handler may have made calls of its own.
                unsafe { (*thread).call_pc = pc };
                step(thread);
                after(&result);
            }
        }
        c::set_errno(error);
        result
    })
}

/// Where the call was made from that the thread is in.
fn call_pc() -> usize {
    unsafe { (*thread::current()).call_pc }
}

// What descriptors synchronise through: those of one pipe or pair through the same object, all sockets through one,
// everything else through itself.

const KNOWN: usize = 1 << 16;
const SOCKETS: u32 = 1 << 24;

/// Object of each descriptor; 0: itself. Guarded by the token.
static OBJECTS: Global<[u32; KNOWN]> = Global::new([0; KNOWN]);
static NEXT: Global<u32> = Global::new(SOCKETS + 1);

fn set_object(descriptor: c_int, object: u32) {
    if let Some(slot) = unsafe { (&mut *OBJECTS.get()).get_mut(descriptor as usize) } {
        *slot = object;
    }
}

fn object(descriptor: c_int) -> u64 {
    match unsafe { (&*OBJECTS.get()).get(descriptor as usize) } {
        Some(&object) if object != 0 => object as u64,
        _ => descriptor as u32 as u64 + 1,
    }
}

fn gives(descriptor: c_int) {
    put3(head(op::SYNC_RELEASE, 0, call_pc()), object(descriptor), 0);
}

fn takes(descriptor: c_int) {
    put3(head(op::SYNC_ACQUIRE, 0, call_pc()), object(descriptor), 0);
}

fn writes(at: Pointer, length: usize) {
    if length > 0 && !at.is_null() {
        put_range(op::RANGE_WRITE, call_pc(), at as usize, length);
    }
}

fn reads(at: Pointer, length: usize) {
    if length > 0 && !at.is_null() {
        put_range(op::RANGE_READ, call_pc(), at as usize, length);
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Piece {
    at: Pointer,
    length: usize,
}

fn vector(pieces: Pointer, count: c_int, total: isize, each: fn(Pointer, usize)) {
    let mut left = total.max(0) as usize;
    for i in 0..count.max(0) as usize {
        let piece = unsafe { *(pieces as *const Piece).add(i) };
        let length = piece.length.min(left);
        each(piece.at, length);
        left -= length;
    }
}

/// Each call comes with a register that is free when it is called, for the place it is called from; those that need all
/// of them have no place.
macro_rules! calls {
    ($($name:ident $register:literal [$($pc:ident)?] ($($argument:ident: $type:ty),*) -> $result:ty;
       $before:expr; |$answer:ident| $after:expr;)*) => {$(
        const _: () = {
            unsafe extern "C" fn recorded($($argument: $type,)* $($pc: usize)?) -> $result {
                around_with(
                    0 $(+ $pc)?,
                    || $before,
                    || unsafe { real!($name, fn($($type),*) -> $result)($($argument),*) },
                    |$answer| $after,
                )
            }
            stubs! { $name $register recorded; }
        };
    )*};
}

fn length(count: isize) -> usize {
    count.max(0) as usize
}

calls! {
    read "rcx" [pc] (fd: c_int, to: Pointer, n: usize) -> isize; (); |r| { takes(fd); writes(to, length(*r)) };
    __read_chk "r8" [pc] (fd: c_int, to: Pointer, n: usize, m: usize) -> isize; (); |r| { takes(fd); writes(to, length(*r)) };
    pread "r8" [pc] (fd: c_int, to: Pointer, n: usize, at: i64) -> isize; (); |r| { takes(fd); writes(to, length(*r)) };
    pread64 "r8" [pc] (fd: c_int, to: Pointer, n: usize, at: i64) -> isize; (); |r| { takes(fd); writes(to, length(*r)) };
    readv "rcx" [pc] (fd: c_int, to: Pointer, n: c_int) -> isize; (); |r| { takes(fd); vector(to, n, *r, writes) };
    recv "r8" [pc] (fd: c_int, to: Pointer, n: usize, f: c_int) -> isize; (); |r| { takes(fd); writes(to, length(*r)) };
    recvfrom "rax" [] (fd: c_int, to: Pointer, n: usize, f: c_int, a: Pointer, l: Pointer) -> isize; ();
        |r| { takes(fd); writes(to, length(*r)) };
    recvmsg "rcx" [pc] (fd: c_int, m: Pointer, f: c_int) -> isize; (); |_r| takes(fd);
    write "rcx" [pc] (fd: c_int, from: Pointer, n: usize) -> isize; { reads(from, n); gives(fd) }; |_r| ();
    pwrite "r8" [pc] (fd: c_int, from: Pointer, n: usize, at: i64) -> isize; { reads(from, n); gives(fd) }; |_r| ();
    pwrite64 "r8" [pc] (fd: c_int, from: Pointer, n: usize, at: i64) -> isize; { reads(from, n); gives(fd) }; |_r| ();
    writev "rcx" [pc] (fd: c_int, from: Pointer, n: c_int) -> isize; { vector(from, n, isize::MAX, reads); gives(fd) }; |_r| ();
    send "r8" [pc] (fd: c_int, from: Pointer, n: usize, f: c_int) -> isize; { reads(from, n); gives(fd) }; |_r| ();
    sendto "rax" [] (fd: c_int, from: Pointer, n: usize, f: c_int, a: Pointer, l: c_uint) -> isize;
        { reads(from, n); gives(fd) }; |_r| ();
    sendmsg "rcx" [pc] (fd: c_int, m: Pointer, f: c_int) -> isize; gives(fd); |_r| ();
    accept "rcx" [pc] (fd: c_int, a: Pointer, l: Pointer) -> c_int; (); |r| { set_object(*r, SOCKETS); takes(*r) };
    accept4 "r8" [pc] (fd: c_int, a: Pointer, l: Pointer, f: c_int) -> c_int; (); |r| { set_object(*r, SOCKETS); takes(*r) };
    connect "rcx" [pc] (fd: c_int, a: Pointer, l: c_uint) -> c_int; gives(fd); |_r| ();
    poll "rcx" [pc] (f: Pointer, n: c_ulong, t: c_int) -> c_int; (); |_r| writes(f, n as usize * 8);
    ppoll "r8" [pc] (f: Pointer, n: c_ulong, t: Pointer, s: Pointer) -> c_int; (); |_r| writes(f, n as usize * 8);
    select "r9" [pc] (n: c_int, r: Pointer, w: Pointer, e: Pointer, t: Pointer) -> c_int; (); |_r| ();
    pselect "rax" [] (n: c_int, r: Pointer, w: Pointer, e: Pointer, t: Pointer, s: Pointer) -> c_int; (); |_r| ();
    epoll_wait "r8" [pc] (fd: c_int, to: Pointer, n: c_int, t: c_int) -> c_int; ();
        |r| { takes(fd); writes(to, 12 * (*r).max(0) as usize) };
    epoll_pwait "r9" [pc] (fd: c_int, to: Pointer, n: c_int, t: c_int, s: Pointer) -> c_int; ();
        |r| { takes(fd); writes(to, 12 * (*r).max(0) as usize) };
    epoll_ctl "r8" [pc] (fd: c_int, o: c_int, of: c_int, e: Pointer) -> c_int; gives(fd); |_r| ();
    nanosleep "rdx" [pc] (t: *const Timespec, l: Pointer) -> c_int; (); |_r| ();
    clock_nanosleep "r8" [pc] (k: c_int, f: c_int, t: *const Timespec, l: Pointer) -> c_int; (); |_r| ();
    usleep "rsi" [pc] (t: c_uint) -> c_int; (); |_r| ();
    sleep "rsi" [pc] (t: c_uint) -> c_uint; (); |_r| ();
    thrd_sleep "rdx" [pc] (t: *const Timespec, l: Pointer) -> c_int; (); |_r| ();
    wait "rsi" [pc] (s: Pointer) -> c_int; (); |_r| writes(s, 4);
    waitpid "rcx" [pc] (p: c_int, s: Pointer, f: c_int) -> c_int; (); |_r| writes(s, 4);
    wait3 "rcx" [pc] (s: Pointer, f: c_int, u: Pointer) -> c_int; (); |_r| writes(s, 4);
    wait4 "r8" [pc] (p: c_int, s: Pointer, f: c_int, u: Pointer) -> c_int; (); |_r| writes(s, 4);
    waitid "r8" [pc] (k: c_int, i: c_uint, s: Pointer, f: c_int) -> c_int; (); |_r| ();
    sigwait "rdx" [pc] (s: Pointer, r: Pointer) -> c_int; (); |_r| writes(r, 4);
    sigwaitinfo "rdx" [pc] (s: Pointer, i: Pointer) -> c_int; (); |_r| ();
    sigtimedwait "rcx" [pc] (s: Pointer, i: Pointer, t: Pointer) -> c_int; (); |_r| ();
    sigsuspend "rsi" [pc] (s: Pointer) -> c_int; (); |_r| ();
    pause "rdi" [pc] () -> c_int; (); |_r| ();
    flock "rdx" [pc] (fd: c_int, o: c_int) -> c_int; (); |_r| ();
    lockf "rcx" [pc] (fd: c_int, o: c_int, n: i64) -> c_int; (); |_r| ();
    fsync "rsi" [pc] (fd: c_int) -> c_int; (); |_r| ();
    fdatasync "rsi" [pc] (fd: c_int) -> c_int; (); |_r| ();
    system "rsi" [pc] (t: Pointer) -> c_int; (); |_r| ();
    getaddrinfo "r8" [pc] (a: Pointer, b: Pointer, h: Pointer, r: Pointer) -> c_int; (); |_r| writes(r, 8);
    fgets "rcx" [pc] (to: Pointer, n: c_int, f: Pointer) -> Pointer; ();
        |r| if !r.is_null() { writes(to, unsafe { text_length(to) } + 1) };
    fread "r8" [pc] (to: Pointer, s: usize, n: usize, f: Pointer) -> usize; (); |r| writes(to, s.saturating_mul(*r));
    getline "rcx" [pc] (p: *mut Pointer, n: *mut usize, f: Pointer) -> isize; (); |r| writes(unsafe { *p }, length(*r));
    getc "rsi" [pc] (f: Pointer) -> c_int; (); |_r| ();
    fgetc "rsi" [pc] (f: Pointer) -> c_int; (); |_r| ();
    msgrcv "r9" [pc] (q: c_int, m: Pointer, n: usize, t: c_long, f: c_int) -> isize; (); |_r| ();
    msgsnd "r8" [pc] (q: c_int, m: Pointer, n: usize, f: c_int) -> c_int; (); |_r| ();
    semop "rcx" [pc] (s: c_int, o: Pointer, n: usize) -> c_int; (); |_r| ();
}

unsafe fn text_length(text: Pointer) -> usize {
    let mut length = 0;
    while unsafe { (text as *const u8).add(length).read_volatile() } != 0 {
        length += 1;
    }
    length
}

macro_rules! descriptors {
    ($($name:ident($($argument:ident: $type:ty),*) |$answer:ident| $after:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            let $answer = unsafe { real!($name, fn($($type),*) -> c_int)($($argument),*) };
            if is_on() && $answer >= 0 {
                $after;
            }
            $answer
        }
    )*};
}

fn pair(descriptors: *mut c_int) {
    unsafe {
        *NEXT.get() += 1;
        set_object(*descriptors, *NEXT.get());
        set_object(*descriptors.add(1), *NEXT.get());
    }
}

descriptors! {
    pipe(p: *mut c_int) |r| pair(p);
    pipe2(p: *mut c_int, f: c_int) |r| pair(p);
    socketpair(d: c_int, t: c_int, k: c_int, p: *mut c_int) |r| pair(p);
    socket(d: c_int, t: c_int, k: c_int) |r| set_object(r, SOCKETS);
    close(d: c_int) |r| set_object(d, 0);
    dup(d: c_int) |r| set_object(r, object(d) as u32);
    dup2(d: c_int, e: c_int) |r| set_object(r, object(d) as u32);
    dup3(d: c_int, e: c_int, f: c_int) |r| set_object(r, object(d) as u32);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_yield() -> c_int {
    let thread = thread::current();
    if is_on() && enter(thread) {
        inside(thread, || yield_now(thread));
        return 0;
    }
    unsafe { c::system(number::SCHED_YIELD, [0; 6]) as c_int }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_yield() -> c_int {
    unsafe { sched_yield() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_yield() {
    unsafe { sched_yield() };
}
