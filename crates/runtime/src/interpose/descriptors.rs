//! Descriptors: which events their use orders.
//!
//! What one thread puts into a pipe, socket or file comes before what another takes out of it: both use the same
//! [object](super::objects). The kernel reuses the number of a descriptor only after it was closed, and programs keep
//! things by that number: what its last user did comes before what the next one does. What is written where nobody in
//! the program reads it orders nothing.

use crate::base::c::{self, Pointer};
use crate::base::program::Address;
use crate::base::record::put3;
use crate::base::thread::Thread;
use crate::interpose::blocking::{call_pc, gives_kernel_text};
use crate::interpose::library::effects::{outside, path, writes, writes_text};
use crate::interpose::objects::{forget_unnamed, identify, identify_pair, new_object, set_object, unnames};
pub use crate::interpose::objects::{object, object_of, read_by_others, shared};
use crate::interpose::{cancel, readiness};
use crate::scheduler::free_running::{is_free, leave};
use crate::scheduler::{Next, enter, is_on, wipe};
use crate::wire::{CLOSED, MADE, NUMBERS, SIGNALS, SOCKETS, USED, head, op};
use crate::{pass_on, stubs};
use core::ffi::{c_char, c_int, c_uint};

fn number_of(descriptor: c_int) -> u64 {
    NUMBERS | (descriptor as u64 & 0xff_ffff)
}

// In a call, with the token.

pub fn gives_object(object: u64) {
    put3(head(op::SYNC_RELEASE, 0, call_pc()), object, 0);
}

pub fn takes_object(object: u64) {
    put3(head(op::SYNC_ACQUIRE, 0, call_pc()), object, 0);
}

/// What happens to a descriptor. Those of input, output and errors are there from beginning to end, and used all the time.
fn note(descriptor: c_int, what: u64) {
    const ERRORS: c_int = 2;
    if descriptor > ERRORS {
        put3(head(op::DESCRIPTOR, 0, call_pc()), descriptor as u64, what);
    }
}

pub fn gives(descriptor: c_int) {
    note(descriptor, USED);
    gives_object(object(descriptor));
}

/// A thread is about to write. What it writes where nobody else in the program can read it orders nothing: into what
/// the program was given when it began, like its output, and into files that it only writes.
pub fn puts_into(descriptor: c_int) {
    note(descriptor, USED);
    if let Some(object) = read_by_others(descriptor) {
        gives_object(object as u64);
    }
}

pub fn takes(descriptor: c_int) {
    note(descriptor, USED);
    takes_object(object(descriptor));
}

/// A descriptor is there that leads to an object.
pub fn made_for(descriptor: c_int, object: u32) {
    note(descriptor, MADE);
    leads_to(descriptor, object);
}

/// What a descriptor leads to from now on.
fn leads_to(descriptor: c_int, object: u32) {
    set_object(descriptor, object);
    takes_object(number_of(descriptor));
}

/// A descriptor is there.
pub fn made(descriptor: c_int) {
    made_for(descriptor, identify(descriptor));
}

pub fn accepted(descriptor: c_int) {
    if descriptor >= 0 {
        made_for(descriptor, SOCKETS as u32);
        takes(descriptor);
    }
}

/// A descriptor is about to be closed: whoever waits at the other end learns of it, and its number is free.
pub fn closes(descriptor: c_int) {
    if descriptor >= 0 {
        note(descriptor, CLOSED);
        if let Some(object) = shared(descriptor) {
            gives_object(object as u64);
            forget_unnamed(descriptor);
            wipe();
        }
        gives_object(number_of(descriptor));
        set_object(descriptor, 0);
        readiness::forget(descriptor);
    }
}

/// The same for what a message of `recvmsg` brings along, in a `struct msghdr`.
pub fn brought(message: Pointer) {
    const SOCKET_LEVEL: u64 = 1;
    const RIGHTS: u64 = 1;
    let [start, size] = Address::from(message).plus(32).read::<[usize; 2]>();
    let (mut at, end) = (start, start.saturating_add(size));
    while at != 0 && at + 16 <= end {
        let (length, kind) = (Address(at).read::<usize>(), Address(at + 8).read::<u64>());
        if length < 16 || length > end - at {
            break;
        }
        if kind == SOCKET_LEVEL | RIGHTS << 32 {
            (16..length - 3).step_by(4).for_each(|offset| made(Address(at + offset).read()));
        }
        at += length.next_multiple_of(8);
    }
    wipe();
}

/// Something that does not block begins, or goes on: the thread, if it counts.
pub fn begins(pc: usize) -> Option<&'static Thread> {
    if !is_on() {
        return None;
    }
    let thread = enter(Next::call(pc))?;
    thread.call_pc.set(pc);
    Some(thread)
}

/// Whether a thread may be cancelled in front of a call.
type IsPoint = bool;

/// A call that makes something. Nobody else gets the number meanwhile, so that a run that is repeated has the same;
/// only where threads run freely others go on.
pub fn making<R>(pc: usize, is_point: IsPoint, call: impl FnOnce() -> R, then: impl FnOnce(&R)) -> R {
    if !is_free()
        && let Some(thread) = begins(pc)
        && is_point
    {
        cancel::point(thread, pc);
    }
    let result = call();
    let error = c::errno();
    if begins(pc).is_some() {
        then(&result);
        wipe();
    }
    c::set_errno(error);
    result
}

/// A call before which it is noted what it means: that something is closed, sent or set.
pub fn noting<R>(pc: usize, is_point: IsPoint, note: impl FnOnce(), call: impl FnOnce() -> R) -> R {
    if let Some(thread) = begins(pc) {
        if is_point {
            cancel::point(thread, pc);
        }
        let error = c::errno();
        note();
        wipe();
        c::set_errno(error);
        leave();
    }
    call()
}

extern "C" fn close_at(descriptor: c_int, pc: usize) -> c_int {
    noting(pc, true, || closes(descriptor), || pass_on!(close(descriptor: c_int) -> c_int))
}

const HERE: c_int = -100;

/// Calls after which a name no longer leads to what it did.
macro_rules! unname {
    ($($name:ident $register:literal ($($argument:ident: $type:ty),*)
       $($name_of:ident)* => $folder:expr, $path:ident;)*) => {$(
        const _: () = {
            extern "C" fn recorded($($argument: $type,)* pc: usize) -> c_int {
                let call = || pass_on!($name($($argument: $type),*) -> c_int);
                noting(pc, false, || { $(gives_kernel_text($name_of as Pointer);)* unnames($folder, $path) }, call)
            }
            stubs! { $name $register recorded; }
        };
    )*};
}

unname! {
    unlink "rsi" (p: *const c_char) p => HERE, p;
    remove "rsi" (p: *const c_char) p => HERE, p;
    unlinkat "rcx" (d: c_int, p: *const c_char, f: c_int) p => d, p;
    rename "rdx" (p: *const c_char, q: *const c_char) p q => HERE, q;
    renameat "r8" (d: c_int, p: *const c_char, e: c_int, q: *const c_char) p q => e, q;
    renameat2 "r9" (d: c_int, p: *const c_char, e: c_int, q: *const c_char, f: c_uint) p q => e, q;
}

extern "C" fn close_queue(queue: c_int, pc: usize) -> c_int {
    noting(pc, false, || closes(queue), || pass_on!(mq_close(queue: c_int) -> c_int))
}

extern "C" fn shut_down(descriptor: c_int, how: c_int, pc: usize) -> c_int {
    noting(pc, false, || gives(descriptor), || pass_on!(shutdown(descriptor: c_int, how: c_int) -> c_int))
}

/// Calls of the C library that make descriptors, and what they lead to.
macro_rules! make {
    ($is_point:literal;
     $($name:ident $register:literal ($($argument:ident: $type:ty),*) |$answer:ident| $then:expr;)*) => {$(
        const _: () = {
            extern "C" fn recorded($($argument: $type,)* pc: usize) -> c_int {
                let call = || pass_on!($name($($argument: $type),*) -> c_int);
                making(pc, $is_point, call, |&$answer| if $answer >= 0 { $then })
            }
            stubs! { $name $register recorded; }
        };
    )*};
}

fn pair(ends: *mut c_int, object: fn([c_int; 2]) -> u32) {
    writes(ends as usize, 8);
    let ends = Address::from(ends).read::<[c_int; 2]>();
    let object = object(ends);
    ends.into_iter().for_each(|end| made_for(end, object));
}

fn pipe_of(ends: [c_int; 2]) -> u32 {
    identify(ends[0])
}

// Arguments that are not always there are in registers all the same.
make! {
    true;
    open "rcx" (p: Pointer, f: c_int, m: usize) |r| { path(p as usize); made(r) };
    open64 "rcx" (p: Pointer, f: c_int, m: usize) |r| { path(p as usize); made(r) };
    openat "r8" (d: c_int, p: Pointer, f: c_int, m: usize) |r| { path(p as usize); made(r) };
    openat64 "r8" (d: c_int, p: Pointer, f: c_int, m: usize) |r| { path(p as usize); made(r) };
    __open_2 "rdx" (p: Pointer, f: c_int) |r| { path(p as usize); made(r) };
    __open64_2 "rdx" (p: Pointer, f: c_int) |r| { path(p as usize); made(r) };
    __openat_2 "rcx" (d: c_int, p: Pointer, f: c_int) |r| { path(p as usize); made(r) };
    __openat64_2 "rcx" (d: c_int, p: Pointer, f: c_int) |r| { path(p as usize); made(r) };
    creat "rdx" (p: Pointer, m: c_uint) |r| { path(p as usize); made(r) };
    creat64 "rdx" (p: Pointer, m: c_uint) |r| { path(p as usize); made(r) };
}

make! {
    false;
    mkstemp "rsi" (t: Pointer) |r| { outside(|| writes_text(t as usize)); made(r) };
    mkstemp64 "rsi" (t: Pointer) |r| { outside(|| writes_text(t as usize)); made(r) };
    mkostemp "rdx" (t: Pointer, f: c_int) |r| { outside(|| writes_text(t as usize)); made(r) };
    mkostemp64 "rdx" (t: Pointer, f: c_int) |r| { outside(|| writes_text(t as usize)); made(r) };
    mkstemps "rdx" (t: Pointer, n: c_int) |r| { outside(|| writes_text(t as usize)); made(r) };
    mkstemps64 "rdx" (t: Pointer, n: c_int) |r| { outside(|| writes_text(t as usize)); made(r) };
    mkostemps "rcx" (t: Pointer, n: c_int, f: c_int) |r| { outside(|| writes_text(t as usize)); made(r) };
    mkostemps64 "rcx" (t: Pointer, n: c_int, f: c_int) |r| { outside(|| writes_text(t as usize)); made(r) };
    memfd_create "rdx" (t: Pointer, f: c_uint) |r| { path(t as usize); made(r) };
    shm_open "rcx" (t: Pointer, f: c_int, m: c_uint) |r| { path(t as usize); made(r) };
    mq_open "r8" (t: Pointer, f: c_int, m: usize, a: Pointer) |r| { path(t as usize); made(r) };
    __mq_open_2 "rdx" (t: Pointer, f: c_int) |r| { path(t as usize); made(r) };
    posix_openpt "rsi" (f: c_int) |r| made(r);
    eventfd "rdx" (n: c_uint, f: c_int) |r| made_for(r, new_object());
    epoll_create "rsi" (n: c_int) |r| made_for(r, new_object());
    epoll_create1 "rsi" (f: c_int) |r| made_for(r, new_object());
    timerfd_create "rdx" (k: c_int, f: c_int) |r| made_for(r, new_object());
    inotify_init "rdi" () |r| made_for(r, new_object());
    inotify_init1 "rsi" (f: c_int) |r| made_for(r, new_object());
    fanotify_init "rdx" (f: c_uint, e: c_uint) |r| made_for(r, new_object());
    signalfd "rcx" (d: c_int, m: Pointer, f: c_int)
        |r| if r == d { set_object(r, SIGNALS as u32) } else { made_for(r, SIGNALS as u32) };
    socket "rcx" (d: c_int, t: c_int, k: c_int) |r| made_for(r, SOCKETS as u32);
    pipe "rsi" (p: *mut c_int) |r| pair(p, pipe_of);
    pipe2 "rdx" (p: *mut c_int, f: c_int) |r| pair(p, pipe_of);
    socketpair "r8" (d: c_int, t: c_int, k: c_int, p: *mut c_int) |r| pair(p, identify_pair);
    dup "rsi" (d: c_int) |r| made_for(r, shared(d).unwrap_or(0));
}

fn is_open(descriptor: c_int) -> bool {
    const GET_FLAGS: c_int = 1;
    let (error, none) = (c::errno(), 0usize);
    let flags = pass_on!(fcntl(descriptor: c_int, GET_FLAGS: c_int, none: usize) -> c_int);
    c::set_errno(error);
    flags >= 0
}

/// A descriptor that is to be a copy of another is closed first.
fn copy_to(from: c_int, to: c_int, pc: usize, call: impl FnOnce() -> c_int) -> c_int {
    if from == to {
        return call();
    }
    let (before, is_open) = (shared(to), is_open(to));
    if begins(pc).is_some() {
        closes(to);
    }
    let result = call();
    if begins(pc).is_some() {
        match result {
            // The number is at no time free: whoever uses it meanwhile races with this, and so does whoever closes it.
            0.. if is_open => leads_to(result, shared(from).unwrap_or(0)),
            0.. => made_for(result, shared(from).unwrap_or(0)),
            _ => set_object(to, before.unwrap_or(0)),
        }
    }
    result
}

extern "C" fn dup2_at(from: c_int, to: c_int, pc: usize) -> c_int {
    copy_to(from, to, pc, || pass_on!(dup2(from: c_int, to: c_int) -> c_int))
}

extern "C" fn dup3_at(from: c_int, to: c_int, flags: c_int, pc: usize) -> c_int {
    copy_to(from, to, pc, || pass_on!(dup3(from: c_int, to: c_int, flags: c_int) -> c_int))
}

fn control(descriptor: c_int, command: c_int, pc: usize, call: impl FnOnce() -> c_int) -> c_int {
    const COPY: c_int = 0;
    const COPY_CLOSED_ON_EXEC: c_int = 1030;
    match command {
        COPY | COPY_CLOSED_ON_EXEC => making(pc, false, call, |&made| {
            if made >= 0 {
                made_for(made, shared(descriptor).unwrap_or(0))
            }
        }),
        _ => call(),
    }
}

extern "C" fn fcntl_at(descriptor: c_int, command: c_int, argument: usize, pc: usize) -> c_int {
    let really = || pass_on!(fcntl(descriptor: c_int, command: c_int, argument: usize) -> c_int);
    control(descriptor, command, pc, really)
}

extern "C" fn fcntl64_at(descriptor: c_int, command: c_int, argument: usize, pc: usize) -> c_int {
    let really = || pass_on!(fcntl64(descriptor: c_int, command: c_int, argument: usize) -> c_int);
    control(descriptor, command, pc, really)
}

stubs! {
    close "rsi" close_at; mq_close "rsi" close_queue; shutdown "rdx" shut_down; dup2 "rdx" dup2_at; dup3 "rcx" dup3_at;
    fcntl "rcx" fcntl_at; fcntl64 "rcx" fcntl64_at;
}
