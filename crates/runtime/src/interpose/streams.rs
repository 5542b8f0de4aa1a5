//! Streams of the C library. The library opens, fills and closes their descriptors by itself. A stream orders what its
//! descriptor orders, and has a lock that programs may take.

use crate::base::c::{self, EBUSY, Pointer};
use crate::base::record::put3;
use crate::base::thread::inside;
use crate::interpose::descriptors::{
    self, begins, closes, gives_object, made, making, noting, read_by_others, shared, takes_object,
};
use crate::interpose::locks::contend;
use crate::interpose::signal_order;
use crate::scheduler::free_running::leave;
use crate::scheduler::{is_on, wake};
use crate::wire::{head, op};
use crate::{pass_on, real, stubs};
use core::arch::naked_asm;
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

/// A thread is about to write; see [`descriptors::puts_into`].
fn puts_into(descriptor: c_int, pc: usize) {
    if read_by_others(descriptor).is_some() && begins(pc).is_some() {
        descriptors::puts_into(descriptor);
        leave();
    }
}

fn puts(stream: Pointer, pc: usize) {
    if is_on() && !stream.is_null() {
        puts_into(number_of(stream), pc);
    }
}

macro_rules! open {
    ($number:path; $($name:ident $register:literal ($($argument:ident: $type:ty),*);)*) => {$(
        const _: () = {
            extern "C" fn recorded($($argument: $type,)* pc: usize) -> Pointer {
                let call = || pass_on!($name($($argument: $type),*) -> Pointer);
                making(pc, false, call, |opened| {
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
    fopen "rdx" (p: Pointer, m: Pointer); fopen64 "rdx" (p: Pointer, m: Pointer);
    tmpfile "rdi" (); tmpfile64 "rdi" ();
}
open! { directory_number; opendir "rsi" (p: Pointer); }

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
    ($($name:ident $register:literal ($($argument:ident: $type:ty),*) -> $result:ty; $stream:ident;)*) => {$(
        const _: () = {
            extern "C" fn recorded($($argument: $type,)* pc: usize) -> $result {
                puts($stream, pc);
                pass_on!($name($($argument: $type),*) -> $result)
            }
            stubs! { $name $register recorded; }
        };
    )*};
}

write! {
    fwrite "r8" (from: Pointer, s: usize, n: usize, f: Pointer) -> usize; f;
    fputs "rdx" (t: Pointer, f: Pointer) -> c_int; f;
    fputc "rdx" (k: c_int, f: Pointer) -> c_int; f;
    putc "rdx" (k: c_int, f: Pointer) -> c_int; f;
    vfprintf "rcx" (f: Pointer, t: Pointer, a: Pointer) -> c_int; f;
    __vfprintf_chk "r8" (f: Pointer, k: c_int, t: Pointer, a: Pointer) -> c_int; f;
    fflush "rsi" (f: Pointer) -> c_int; f;
}

// Functions with any number of arguments: these are left as they are, and the library's function finds them there.
macro_rules! print {
    ($($name:ident $target:ident $note:ident $first:ty;)*) => {$(
        extern "C" fn $target(first: $first, pc: usize) -> usize {
            $note(first, pc);
            real!($name, fn() -> ()) as *const () as usize
        }

        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "push rax", "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9",
                ".cfi_adjust_cfa_offset 56",
                "mov rsi, qword ptr [rsp + 56]",
                "sub rsp, 128",
                ".cfi_adjust_cfa_offset 128",
                "movaps [rsp], xmm0", "movaps [rsp + 16], xmm1", "movaps [rsp + 32], xmm2", "movaps [rsp + 48], xmm3",
                "movaps [rsp + 64], xmm4", "movaps [rsp + 80], xmm5",
                "movaps [rsp + 96], xmm6", "movaps [rsp + 112], xmm7",
                "call {target}",
                "mov r11, rax",
                "movaps xmm0, [rsp]", "movaps xmm1, [rsp + 16]", "movaps xmm2, [rsp + 32]", "movaps xmm3, [rsp + 48]",
                "movaps xmm4, [rsp + 64]", "movaps xmm5, [rsp + 80]",
                "movaps xmm6, [rsp + 96]", "movaps xmm7, [rsp + 112]",
                "add rsp, 128",
                ".cfi_adjust_cfa_offset -128",
                "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi", "pop rax",
                ".cfi_adjust_cfa_offset -56",
                "jmp r11",
                ".cfi_endproc",
                target = sym $target,
            )
        }
    )*};
}

print! {
    fprintf to_fprintf puts Pointer;
    __fprintf_chk to_fprintf_chk puts Pointer;
    dprintf to_dprintf puts_into c_int;
    __dprintf_chk to_dprintf_chk puts_into c_int;
}

// A stream has a lock that programs may take for themselves.

fn try_lock(stream: Pointer) -> c_int {
    pass_on!(ftrylockfile(stream: Pointer) -> c_int)
}

extern "C" fn lock_at(stream: Pointer, pc: usize) {
    let really = || pass_on!(flockfile(stream: Pointer) -> ());
    let Some(thread) = begins(pc) else { return really() };
    let attempt = || if try_lock(stream) == 0 { 0 } else { EBUSY };
    inside(thread, || {
        contend(thread, stream as usize, None, false, EBUSY, attempt, || {
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
