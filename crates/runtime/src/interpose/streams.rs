//! Streams of the C library. The library opens, fills and closes their descriptors by itself. A stream orders what its
//! descriptor orders, and has a lock that programs may take.

use crate::base::c::{self, EBUSY, Pointer, standard_error, standard_output};
use crate::base::record::put3;
use crate::base::thread::inside;
use crate::interpose::descriptors::{
    self, begins, closes, gives_object, made, making, noting, read_by_others, shared, takes_object,
};
use crate::interpose::library;
use crate::interpose::library::effects::{fills, outside, path, reads, text, wide, writes};
use crate::interpose::locks::contend;
use crate::interpose::signal_order;
use crate::scheduler::free_running::leave;
use crate::scheduler::{is_on, wake};
use crate::wire::{head, op};
use crate::{pass_on, stubs};
use core::ffi::{c_char, c_int};

/// The descriptor of a stream, negative if it has none.
fn number_of(stream: Pointer) -> c_int {
    let error = c::errno();
    let number = pass_on!(fileno(stream: Pointer) -> c_int);
    c::set_errno(error);
    number
}

fn directory_number(directory: Pointer) -> c_int {
    let error = c::errno();
    let number = pass_on!(dirfd(directory: Pointer) -> c_int);
    c::set_errno(error);
    number
}

/// What others have put into the pipe that a stream reads from. In a call, with the token.
pub fn takes_stream(stream: Pointer) {
    if let Some(object) = shared(number_of(stream)) {
        takes_object(object as u64);
    }
}

/// A thread is about to write what `note` says; see [`descriptors::puts_into`].
pub fn puts_into_and(descriptor: c_int, pc: usize, note: impl FnOnce()) {
    if begins(pc).is_some() {
        outside(note);
        descriptors::puts_into(descriptor);
        leave();
    }
}

fn puts(stream: Pointer, pc: usize) {
    if !stream.is_null() && read_by_others(number_of(stream)).is_some() {
        puts_into_and(number_of(stream), pc, || ());
    }
}

/// The same for a stream.
pub fn puts_and(stream: Pointer, pc: usize, note: impl FnOnce()) {
    if library::counts(pc) && !stream.is_null() {
        puts_into_and(number_of(stream), pc, note);
    }
}

macro_rules! open {
    ($number:path; $($name:ident $register:literal ($($argument:ident: $type:ty),*) $reads:expr;)*) => {$(
        const _: () = {
            extern "C" fn recorded($($argument: $type,)* pc: usize) -> Pointer {
                let call = || pass_on!($name($($argument: $type),*) -> Pointer);
                making(pc, false, call, |opened| {
                    if !opened.is_null() {
                        let () = $reads;
                    }
                    if !opened.is_null() && $number(*opened) >= 0 {
                        made($number(*opened));
                    }
                })
            }
            stubs! { $name $register recorded; }
        };
    )*};
}

open! {
    number_of;
    fopen "rdx" (p: Pointer, m: Pointer) { path(p as usize); path(m as usize) };
    fopen64 "rdx" (p: Pointer, m: Pointer) { path(p as usize); path(m as usize) };
    tmpfile "rdi" () ();
    tmpfile64 "rdi" () ();
}
open! { directory_number; opendir "rsi" (p: Pointer) path(p as usize); }

macro_rules! close {
    ($number:path; $($name:ident $register:literal;)*) => {$(
        const _: () = {
            extern "C" fn recorded(opened: Pointer, pc: usize) -> c_int {
                let note = || if !opened.is_null() { closes($number(opened)) };
                noting(pc, false, note, || pass_on!($name(opened: Pointer) -> c_int))
            }
            stubs! { $name $register recorded; }
        };
    )*};
}

close! { number_of; fclose "rsi"; pclose "rsi"; }
close! { directory_number; closedir "rsi"; }

extern "C" fn popen_at(command: *const c_char, how: *const c_char, pc: usize) -> Pointer {
    if begins(pc).is_some() {
        signal_order::sends();
    }
    let really = || pass_on!(popen(command: *const c_char, how: *const c_char) -> Pointer);
    making(pc, false, really, |opened| {
        if !opened.is_null() {
            made(number_of(*opened));
        }
    })
}

fn reopen(stream: Pointer, pc: usize, really: impl FnOnce() -> Pointer) -> Pointer {
    if begins(pc).is_some() && !stream.is_null() {
        closes(number_of(stream));
    }
    making(pc, false, really, |opened| {
        if !opened.is_null() && number_of(*opened) >= 0 {
            made(number_of(*opened));
        }
    })
}

extern "C" fn freopen_at(path: Pointer, how: Pointer, stream: Pointer, pc: usize) -> Pointer {
    reopen(stream, pc, || pass_on!(freopen(path: Pointer, how: Pointer, stream: Pointer) -> Pointer))
}

extern "C" fn freopen64_at(path: Pointer, how: Pointer, stream: Pointer, pc: usize) -> Pointer {
    reopen(stream, pc, || pass_on!(freopen64(path: Pointer, how: Pointer, stream: Pointer) -> Pointer))
}

stubs! { popen "rdx" popen_at; freopen "rcx" freopen_at; freopen64 "rcx" freopen64_at; }

macro_rules! write {
    ($($name:ident $register:literal ($($argument:ident: $type:ty),*) -> $result:ty; $stream:expr; $note:expr;)*) => {$(
        const _: () = {
            extern "C" fn recorded($($argument: $type,)* pc: usize) -> $result {
                if is_on() {
                    puts_and($stream as Pointer, pc, || $note);
                }
                pass_on!($name($($argument: $type),*) -> $result)
            }
            stubs! { $name $register recorded; }
        };
    )*};
}

write! {
    fwrite "r8" (from: usize, s: usize, n: usize, f: usize) -> usize; f; reads(from, s.saturating_mul(n));
    fwrite_unlocked "r8" (from: usize, s: usize, n: usize, f: usize) -> usize; f; reads(from, s.saturating_mul(n));
    fputs "rdx" (t: usize, f: usize) -> c_int; f; text(t);
    fputs_unlocked "rdx" (t: usize, f: usize) -> c_int; f; text(t);
    puts "rsi" (t: usize) -> c_int; standard_output(); text(t);
    fputws "rdx" (t: usize, f: usize) -> c_int; f; wide(t);
    fputws_unlocked "rdx" (t: usize, f: usize) -> c_int; f; wide(t);
    perror "rsi" (t: usize) -> (); standard_error(); text(t);
    psignal "rdx" (k: c_int, t: usize) -> (); standard_error(); text(t);
}

/// Calls that write a character, or nothing of the program's: they count only where somebody reads it.
macro_rules! write_only {
    ($($name:ident $register:literal ($($argument:ident: $type:ty),*) -> $result:ty; $stream:expr;)*) => {$(
        const _: () = {
            extern "C" fn recorded($($argument: $type,)* pc: usize) -> $result {
                if is_on() {
                    puts($stream as Pointer, pc);
                }
                pass_on!($name($($argument: $type),*) -> $result)
            }
            stubs! { $name $register recorded; }
        };
    )*};
}

write_only! {
    fputc "rdx" (k: c_int, f: usize) -> c_int; f;
    putc "rdx" (k: c_int, f: usize) -> c_int; f;
    putw "rdx" (k: c_int, f: usize) -> c_int; f;
    fputwc "rdx" (k: c_int, f: usize) -> c_int; f;
    putwc "rdx" (k: c_int, f: usize) -> c_int; f;
    fflush "rsi" (f: usize) -> c_int; f;
}

// Places in a file, and streams that end in memory: where it is, is stored at once and whenever they are written.
library::calls_out! {
    fgetpos "rdx" (f: usize, to: usize) -> c_int; fills(to, PLACE); |r| if r == 0 { writes(to, PLACE) };
    fgetpos64 "rdx" (f: usize, to: usize) -> c_int; fills(to, PLACE); |r| if r == 0 { writes(to, PLACE) };
    fsetpos "rdx" (f: usize, from: usize) -> c_int; reads(from, PLACE); |_r| ();
    fsetpos64 "rdx" (f: usize, from: usize) -> c_int; reads(from, PLACE); |_r| ();
    open_memstream "rdx" (to: usize, size: usize) -> usize; { fills(to, 8); fills(size, 8) };
        |r| if r != 0 { writes(to, 8); writes(size, 8) };
    open_wmemstream "rdx" (to: usize, size: usize) -> usize; { fills(to, 8); fills(size, 8) };
        |r| if r != 0 { writes(to, 8); writes(size, 8) };
    setvbuf "r8" (f: usize, at: usize, k: c_int, n: usize) -> c_int; fills(at, n); |r| if r == 0 { writes(at, n) };
    setbuf "rdx" (f: usize, at: usize) -> (); fills(at, BUFFER); |_r| writes(at, BUFFER);
    setbuffer "rcx" (f: usize, at: usize, n: usize) -> (); fills(at, n); |_r| writes(at, n);
    fdopen "rdx" (fd: c_int, m: usize) -> usize; text(m); |_r| ();
}

/// `BUFSIZ`.
const BUFFER: usize = 8192;
/// A `fpos_t`.
const PLACE: usize = 16;

// A stream has a lock that programs may take for themselves.

fn try_lock(stream: Pointer) -> c_int {
    pass_on!(ftrylockfile(stream: Pointer) -> c_int)
}

extern "C" fn lock_at(stream: Pointer, pc: usize) {
    let really = || pass_on!(flockfile(stream: Pointer) -> ());
    let Some(thread) = begins(pc) else { return really() };
    let attempt = || if try_lock(stream) == 0 { 0 } else { EBUSY };
    inside(thread, || {
        contend(thread, stream as usize, None, false, None, EBUSY, attempt, || {
            really();
            0
        })
    });
    if is_on() {
        put3(head(op::SYNC_ACQUIRE, 0, pc), stream as u64, 0);
    }
}

extern "C" fn try_lock_at(stream: Pointer, pc: usize) -> c_int {
    making(
        pc,
        false,
        || try_lock(stream),
        |answer| {
            if *answer == 0 {
                takes_object(stream as u64);
            }
        },
    )
}

extern "C" fn unlock_at(stream: Pointer, pc: usize) {
    let thread = begins(pc);
    if thread.is_some() {
        gives_object(stream as u64);
    }
    pass_on!(funlockfile(stream: Pointer) -> ());
    if let Some(thread) = thread {
        inside(thread, || wake(stream as usize, 1, 0));
    }
}

stubs! { flockfile "rsi" lock_at; ftrylockfile "rsi" try_lock_at; funlockfile "rsi" unlock_at; }
