//! Descriptors: what they hand over, and to whom their numbers belong.
//!
//! What one thread puts into a pipe, socket or file comes before what another takes out of it: both do so by the same
//! *object*. And a number is given to another descriptor only after it was closed: what its user did before comes before
//! what the next one does. Programs keep things by that number. What is written where nobody in the program reads it orders
//! nothing.

use crate::base::c::{self, Pointer, number, system};
use crate::base::memory::Global;
use crate::base::record::put3;
use crate::base::thread::{self, inside};
use crate::interpose::blocking::call_pc;
use crate::interpose::cancel;
use crate::scheduler::free_running::is_free;
use crate::scheduler::token::{Next, enter, is_on, wipe};
use crate::wire::{NUMBERS, SIGNALS, SOCKETS, head, op};
use crate::{real, stubs};
use core::ffi::{c_char, c_int, c_uint};
use std::collections::{BTreeMap, BTreeSet};

const KNOWN: usize = 1 << 16;

/// Object of each descriptor; 0: itself, as nobody else in the program has to do with it. Guarded by the token.
static OBJECTS: Global<[u32; KNOWN]> = Global::new([0; KNOWN]);

/// What something is known by: for files the device, the number there, and the time of birth.
type Key = [u64; 4];

/// What several descriptors may lead to: its object by what it is known by. Guarded by the token.
static THINGS: Global<BTreeMap<Key, u32>> = Global::new(BTreeMap::new());

/// The object that was found last.
static LAST: Global<u32> = Global::new(SOCKETS as u32);

/// Objects of files that were opened for writing alone, like those in which programs write down what they do: nobody learns
/// anything from what is written there. Guarded by the token.
static UNREAD: Global<BTreeSet<u32>> = Global::new(BTreeSet::new());

/// An object that there was not before: the next number, so that a run that is repeated has the same.
fn new_object() -> u32 {
    unsafe {
        *LAST.get() += 1;
        *LAST.get()
    }
}

/// The object of something that is known by `key`.
pub fn object_of(key: Key) -> u32 {
    inside(thread::current(), || unsafe { *(*THINGS.get()).entry(key).or_insert_with(new_object) })
}

/// The object of a file, and who can learn what is in it.
fn object_of_file(key: Key, descriptor: c_int) -> u32 {
    const GET_FLAGS: usize = 3;
    const HOW: i64 = 3;
    const TO_WRITE: i64 = 1;
    let flags = unsafe { system(number::FCNTL, [descriptor as usize, GET_FLAGS, 0, 0, 0, 0]) };
    inside(thread::current(), || unsafe {
        let is_new = !(*THINGS.get()).contains_key(&key);
        let object = object_of(key);
        if flags & HOW != TO_WRITE {
            (*UNREAD.get()).remove(&object);
        } else if is_new {
            (*UNREAD.get()).insert(object);
        }
        object
    })
}

pub fn set_object(descriptor: c_int, object: u32) {
    if let Some(slot) = unsafe { (&mut *OBJECTS.get()).get_mut(descriptor as usize) } {
        *slot = object;
    }
}

/// The object, if it is one that other descriptors may lead to as well.
pub fn shared(descriptor: c_int) -> Option<u32> {
    unsafe { (&*OBJECTS.get()).get(descriptor as usize).copied() }.filter(|&object| object != 0)
}

pub fn object(descriptor: c_int) -> u64 {
    shared(descriptor).map_or(descriptor as u32 as u64 + 1, u64::from)
}

/// What the kernel says about what a descriptor, or a name below it, leads to.
struct Facts {
    kind: u64,
    /// How many names it has.
    names: u32,
    key: Key,
}

impl Facts {
    fn of(descriptor: c_int, name: *const c_char, flags: usize) -> Option<Facts> {
        // Kind, names, number, time of birth.
        const WANTED: usize = 0x1 | 0x4 | 0x100 | 0x800;
        let mut facts = [0u64; 32];
        let arguments = [descriptor as usize, name as usize, flags, WANTED, facts.as_mut_ptr() as usize, 0];
        if unsafe { system(number::STATX, arguments) } < 0 {
            return None;
        }
        Some(Facts {
            kind: facts[3] >> 44 & 0o17,
            names: facts[2] as u32,
            key: [facts[17], facts[4], facts[10], facts[11] & 0xffff_ffff],
        })
    }

    fn of_descriptor(descriptor: c_int) -> Option<Facts> {
        const EMPTY_PATH: usize = 0x1000;
        Facts::of(descriptor, c"".as_ptr(), EMPTY_PATH)
    }

    /// Numbers of files that are gone are used again.
    fn forget(&self) {
        inside(thread::current(), || unsafe { (*THINGS.get()).remove(&self.key) });
    }
}

// What the kernel says differs from run to run. Whoever calls these has to wipe it off the stack.

/// The object of a descriptor that was opened or came from elsewhere.
#[inline(never)]
fn identify(descriptor: c_int) -> u32 {
    const FIFO: u64 = 0o1;
    const FILE: u64 = 0o10;
    const SOCKET: u64 = 0o14;
    match Facts::of_descriptor(descriptor) {
        Some(Facts { kind: FIFO, key, .. }) => object_of(key),
        Some(Facts { kind: FILE, key, .. }) => object_of_file(key, descriptor),
        Some(Facts { kind: SOCKET, key, .. }) => unsafe {
            (&*THINGS.get()).get(&key).copied().unwrap_or(SOCKETS as u32)
        },
        _ => 0,
    }
}

/// A name is about to lead nowhere, or elsewhere.
#[inline(never)]
fn unnames(folder: c_int, name: *const c_char) {
    const NO_FOLLOW: usize = 0x100;
    if let Some(facts) = Facts::of(folder, name, NO_FOLLOW)
        && facts.names <= 1
    {
        facts.forget();
    }
}

/// A descriptor is about to be closed; what it leads to may have no name.
#[inline(never)]
fn forget_unnamed(descriptor: c_int) {
    if let Some(facts) = Facts::of_descriptor(descriptor)
        && facts.names == 0
    {
        facts.forget();
    }
}

/// Both ends of a pair of sockets lead to one object.
#[inline(never)]
fn identify_pair(ends: [c_int; 2]) -> u32 {
    let [first, second] =
        ends.map(|end| Facts::of_descriptor(end).map_or([u64::MAX, 0, end as u64, 0], |facts| facts.key));
    let object = object_of(first);
    inside(thread::current(), || unsafe { (*THINGS.get()).insert(second, object) });
    object
}

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

pub fn gives(descriptor: c_int) {
    gives_object(object(descriptor));
}

/// A thread is about to write. What it writes where nobody else in the program can read it orders nothing: into what the program
/// was given when it began, like its output, and into files that it only writes.
pub fn puts_into(descriptor: c_int) {
    if let Some(object) = read_by_others(descriptor) {
        gives_object(object as u64);
    }
}

/// The object, if others may read what is written into it.
pub fn read_by_others(descriptor: c_int) -> Option<u32> {
    shared(descriptor).filter(|object| unsafe { !(&*UNREAD.get()).contains(object) })
}

pub fn takes(descriptor: c_int) {
    takes_object(object(descriptor));
}

/// A descriptor is there that leads to an object.
pub fn made_for(descriptor: c_int, object: u32) {
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
        if let Some(object) = shared(descriptor) {
            gives_object(object as u64);
            forget_unnamed(descriptor);
            wipe();
        }
        gives_object(number_of(descriptor));
        set_object(descriptor, 0);
        crate::interpose::readiness::forget(descriptor);
    }
}

/// The same for what a message of `recvmsg` brings along, in a `struct msghdr`.
pub fn brought(message: Pointer) {
    const SOCKET_LEVEL: u64 = 1;
    const RIGHTS: u64 = 1;
    let words = message as *const usize;
    let (mut at, end) = unsafe { (*words.add(4), (*words.add(4)).saturating_add(*words.add(5))) };
    while at != 0 && at + 16 <= end {
        let (length, kind) = unsafe { (*(at as *const usize), *((at + 8) as *const u64)) };
        if length < 16 || length > end - at {
            break;
        }
        if kind == SOCKET_LEVEL | RIGHTS << 32 {
            (16..length - 3).step_by(4).for_each(|offset| made(unsafe { *((at + offset) as *const c_int) }));
        }
        at += length.next_multiple_of(8);
    }
    wipe();
}

/// Something that does not block begins, or goes on: whether it counts.
pub fn begins(pc: usize) -> bool {
    let thread = thread::current();
    if !is_on() || !enter(thread, Next::call(pc)) {
        return false;
    }
    unsafe { (*thread).call_pc = pc };
    true
}

/// Whether a thread may be cancelled in front of a call.
type IsPoint = bool;

/// A call that makes something. Nobody else gets the number meanwhile, so that a run that is repeated has the same; only where
/// threads run freely others go on.
pub fn making<R>(pc: usize, is_point: IsPoint, call: impl FnOnce() -> R, then: impl FnOnce(&R)) -> R {
    if !is_free() && begins(pc) && is_point {
        cancel::point(thread::current(), pc);
    }
    let result = call();
    let error = c::errno();
    if begins(pc) {
        then(&result);
        wipe();
    }
    c::set_errno(error);
    result
}

/// A call before which it is noted what it means: that something is closed, sent or set.
pub fn noting<R>(pc: usize, is_point: IsPoint, note: impl FnOnce(), call: impl FnOnce() -> R) -> R {
    if begins(pc) {
        if is_point {
            cancel::point(thread::current(), pc);
        }
        let error = c::errno();
        note();
        wipe();
        c::set_errno(error);
        unsafe { crate::scheduler::free_running::leave() };
    }
    call()
}

unsafe extern "C" fn close_at(descriptor: c_int, pc: usize) -> c_int {
    noting(pc, true, || closes(descriptor), || unsafe { real!(close, fn(c_int) -> c_int)(descriptor) })
}

const HERE: c_int = -100;

/// Calls after which a name no longer leads to what it did.
macro_rules! unname {
    ($($name:ident $register:literal ($($argument:ident: $type:ty),*) $folder:expr, $path:ident;)*) => {$(
        const _: () = {
            unsafe extern "C" fn recorded($($argument: $type,)* pc: usize) -> c_int {
                let call = || unsafe { real!($name, fn($($type),*) -> c_int)($($argument),*) };
                noting(pc, false, || unnames($folder, $path), call)
            }
            stubs! { $name $register recorded; }
        };
    )*};
}

unname! {
    unlink "rsi" (p: *const c_char) HERE, p;
    remove "rsi" (p: *const c_char) HERE, p;
    unlinkat "rcx" (d: c_int, p: *const c_char, f: c_int) d, p;
    rename "rdx" (p: *const c_char, q: *const c_char) HERE, q;
    renameat "r8" (d: c_int, p: *const c_char, e: c_int, q: *const c_char) e, q;
    renameat2 "r9" (d: c_int, p: *const c_char, e: c_int, q: *const c_char, f: c_uint) e, q;
}

unsafe extern "C" fn close_queue(queue: c_int, pc: usize) -> c_int {
    noting(pc, false, || closes(queue), || unsafe { real!(mq_close, fn(c_int) -> c_int)(queue) })
}

unsafe extern "C" fn shut_down(descriptor: c_int, how: c_int, pc: usize) -> c_int {
    noting(pc, false, || gives(descriptor), || unsafe { real!(shutdown, fn(c_int, c_int) -> c_int)(descriptor, how) })
}

/// Calls of the C library that make descriptors, and what they lead to.
macro_rules! make {
    ($is_point:literal; $($name:ident $register:literal ($($argument:ident: $type:ty),*) |$answer:ident| $then:expr;)*) => {$(
        const _: () = {
            unsafe extern "C" fn recorded($($argument: $type,)* pc: usize) -> c_int {
                let call = || unsafe { real!($name, fn($($type),*) -> c_int)($($argument),*) };
                making(pc, $is_point, call, |&$answer| if $answer >= 0 { $then })
            }
            stubs! { $name $register recorded; }
        };
    )*};
}

fn pair(ends: *mut c_int, object: fn([c_int; 2]) -> u32) {
    let ends = unsafe { [*ends, *ends.add(1)] };
    let object = object(ends);
    ends.into_iter().for_each(|end| made_for(end, object));
}

fn pipe_of(ends: [c_int; 2]) -> u32 {
    identify(ends[0])
}

// Arguments that are not always there are in registers all the same.
make! {
    true;
    open "rcx" (p: Pointer, f: c_int, m: usize) |r| made(r);
    open64 "rcx" (p: Pointer, f: c_int, m: usize) |r| made(r);
    openat "r8" (d: c_int, p: Pointer, f: c_int, m: usize) |r| made(r);
    openat64 "r8" (d: c_int, p: Pointer, f: c_int, m: usize) |r| made(r);
    __open_2 "rdx" (p: Pointer, f: c_int) |r| made(r);
    __open64_2 "rdx" (p: Pointer, f: c_int) |r| made(r);
    __openat_2 "rcx" (d: c_int, p: Pointer, f: c_int) |r| made(r);
    __openat64_2 "rcx" (d: c_int, p: Pointer, f: c_int) |r| made(r);
    creat "rdx" (p: Pointer, m: c_uint) |r| made(r);
    creat64 "rdx" (p: Pointer, m: c_uint) |r| made(r);
}

make! {
    false;
    mkstemp "rsi" (t: Pointer) |r| made(r);
    mkstemp64 "rsi" (t: Pointer) |r| made(r);
    mkostemp "rdx" (t: Pointer, f: c_int) |r| made(r);
    mkostemp64 "rdx" (t: Pointer, f: c_int) |r| made(r);
    mkstemps "rdx" (t: Pointer, n: c_int) |r| made(r);
    mkstemps64 "rdx" (t: Pointer, n: c_int) |r| made(r);
    mkostemps "rcx" (t: Pointer, n: c_int, f: c_int) |r| made(r);
    mkostemps64 "rcx" (t: Pointer, n: c_int, f: c_int) |r| made(r);
    memfd_create "rdx" (t: Pointer, f: c_uint) |r| made(r);
    shm_open "rcx" (t: Pointer, f: c_int, m: c_uint) |r| made(r);
    mq_open "r8" (t: Pointer, f: c_int, m: usize, a: Pointer) |r| made(r);
    __mq_open_2 "rdx" (t: Pointer, f: c_int) |r| made(r);
    posix_openpt "rsi" (f: c_int) |r| made(r);
    eventfd "rdx" (n: c_uint, f: c_int) |r| made_for(r, new_object());
    epoll_create "rsi" (n: c_int) |r| made_for(r, new_object());
    epoll_create1 "rsi" (f: c_int) |r| made_for(r, new_object());
    timerfd_create "rdx" (k: c_int, f: c_int) |r| made_for(r, new_object());
    inotify_init "rdi" () |r| made_for(r, new_object());
    inotify_init1 "rsi" (f: c_int) |r| made_for(r, new_object());
    fanotify_init "rdx" (f: c_uint, e: c_uint) |r| made_for(r, new_object());
    signalfd "rcx" (d: c_int, m: Pointer, f: c_int) |r| if r == d { set_object(r, SIGNALS as u32) } else { made_for(r, SIGNALS as u32) };
    socket "rcx" (d: c_int, t: c_int, k: c_int) |r| made_for(r, SOCKETS as u32);
    pipe "rsi" (p: *mut c_int) |r| pair(p, pipe_of);
    pipe2 "rdx" (p: *mut c_int, f: c_int) |r| pair(p, pipe_of);
    socketpair "r8" (d: c_int, t: c_int, k: c_int, p: *mut c_int) |r| pair(p, identify_pair);
    dup "rsi" (d: c_int) |r| made_for(r, shared(d).unwrap_or(0));
}

/// A descriptor that is to be a copy of another is closed first.
fn copy_to(from: c_int, to: c_int, pc: usize, call: impl FnOnce() -> c_int) -> c_int {
    if from == to {
        return call();
    }
    let before = shared(to);
    if begins(pc) {
        closes(to);
    }
    let result = call();
    if begins(pc) {
        match result {
            0.. => made_for(result, shared(from).unwrap_or(0)),
            _ => set_object(to, before.unwrap_or(0)),
        }
    }
    result
}

unsafe extern "C" fn dup2_at(from: c_int, to: c_int, pc: usize) -> c_int {
    copy_to(from, to, pc, || unsafe { real!(dup2, fn(c_int, c_int) -> c_int)(from, to) })
}

unsafe extern "C" fn dup3_at(from: c_int, to: c_int, flags: c_int, pc: usize) -> c_int {
    copy_to(from, to, pc, || unsafe { real!(dup3, fn(c_int, c_int, c_int) -> c_int)(from, to, flags) })
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

unsafe extern "C" fn fcntl_at(descriptor: c_int, command: c_int, argument: usize, pc: usize) -> c_int {
    let really = || unsafe { real!(fcntl, fn(c_int, c_int, usize) -> c_int)(descriptor, command, argument) };
    control(descriptor, command, pc, really)
}

unsafe extern "C" fn fcntl64_at(descriptor: c_int, command: c_int, argument: usize, pc: usize) -> c_int {
    let really = || unsafe { real!(fcntl64, fn(c_int, c_int, usize) -> c_int)(descriptor, command, argument) };
    control(descriptor, command, pc, really)
}

stubs! {
    close "rsi" close_at; mq_close "rsi" close_queue; shutdown "rdx" shut_down; dup2 "rdx" dup2_at; dup3 "rcx" dup3_at;
    fcntl "rcx" fcntl_at; fcntl64 "rcx" fcntl64_at;
}
