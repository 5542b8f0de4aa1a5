//! Functions of the C library that read and write stretches of memory.
//!
//! Copies are done here, byte by byte in one instruction, so that nothing depends on the library's own functions before
//! they can be found.

use crate::free;
use crate::life::is_ours;
use crate::record::put_range;
use crate::stubs;
use crate::thread;
use crate::token::{self, enter};
use crate::wire::op;
use core::arch::asm;
use core::ffi::c_int;

/// Whether events of such a function count for this thread right now, as a step. Our own copies go the same way.
fn counts(pc: usize) -> bool {
    let thread = thread::current();
    let recorded = token::is_on() && !thread.is_null() && unsafe { (*thread).inside == 0 && (*thread).ignoring == 0 };
    let seen = recorded && !is_ours(pc) && !crate::probe::is_unseen(pc);
    seen && if free::is_free() { free::begin_ranges(thread, pc) } else { enter(thread) }
}

fn forwards(to: usize, from: usize, length: usize) {
    unsafe {
        asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") length => _,
             options(nostack, preserves_flags));
    }
}

fn backwards(to: usize, from: usize, length: usize) {
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rdi") to + length - 1 => _, inout("rsi") from + length - 1 => _,
             inout("rcx") length => _, options(nostack));
    }
}

/// A copy; with its events if it counts. Whatever decides how much is copied is looked at after the step was counted:
/// at a step another thread may get its turn.
fn copy(counts: bool, to: usize, from: usize, length: usize, pc: usize) {
    if length == 0 {
        return;
    }
    note_read(counts, from, length, pc);
    if to <= from || to >= from + length {
        forwards(to, from, length)
    } else {
        backwards(to, from, length)
    }
    note_write(counts, to, length, pc);
}

fn fill(counts: bool, to: usize, byte: u8, length: usize, pc: usize) {
    unsafe {
        asm!("rep stosb", inout("rdi") to => _, in("al") byte, inout("rcx") length => _,
             options(nostack, preserves_flags));
    }
    note_write(counts, to, length, pc);
}

fn note(code: u8, pc: usize, at: usize, length: usize) {
    match free::is_free() {
        true => free::add_range(at, length, code == op::RANGE_WRITE),
        false => put_range(code, pc, at, length),
    }
}

fn note_read(counts: bool, at: usize, length: usize, pc: usize) {
    if counts && length > 0 {
        note(op::RANGE_READ, pc, at, length);
    }
}

fn note_write(counts: bool, at: usize, length: usize, pc: usize) {
    if counts && length > 0 {
        note(op::RANGE_WRITE, pc, at, length);
    }
}

unsafe extern "C" fn copy_at(to: usize, from: usize, length: usize, pc: usize) -> usize {
    copy(length > 0 && counts(pc), to, from, length, pc);
    to
}

unsafe extern "C" fn copy_to_end_at(to: usize, from: usize, length: usize, pc: usize) -> usize {
    copy(length > 0 && counts(pc), to, from, length, pc);
    to + length
}

unsafe extern "C" fn fill_at(to: usize, byte: c_int, length: usize, pc: usize) -> usize {
    fill(length > 0 && counts(pc), to, byte as u8, length, pc);
    to
}

unsafe extern "C" fn zero_at(to: usize, length: usize, pc: usize) {
    unsafe { fill_at(to, 0, length, pc) };
}

fn length_of(text: usize) -> usize {
    length_up_to(text, usize::MAX)
}

fn length_up_to(text: usize, most: usize) -> usize {
    let mut length = 0;
    while length < most && unsafe { ((text + length) as *const u8).read_volatile() } != 0 {
        length += 1;
    }
    length
}

unsafe extern "C" fn length_at(text: usize, pc: usize) -> usize {
    unsafe { length_up_to_at(text, usize::MAX, pc) }
}

unsafe extern "C" fn length_up_to_at(text: usize, most: usize, pc: usize) -> usize {
    let counts = counts(pc);
    let length = length_up_to(text, most);
    note_read(counts, text, most.min(length.saturating_add(1)), pc);
    length
}

unsafe extern "C" fn text_copy_at(to: usize, from: usize, pc: usize) -> usize {
    unsafe { text_copy_to_end_at(to, from, pc) };
    to
}

unsafe extern "C" fn text_copy_to_end_at(to: usize, from: usize, pc: usize) -> usize {
    let counts = counts(pc);
    let length = length_of(from);
    copy(counts, to, from, length + 1, pc);
    to + length
}

unsafe extern "C" fn text_copy_up_to_at(to: usize, from: usize, most: usize, pc: usize) -> usize {
    let counts = counts(pc);
    let length = length_up_to(from, most);
    copy(counts, to, from, most.min(length.saturating_add(1)), pc);
    if most > length + 1 {
        fill(counts, to + length + 1, 0, most - length - 1, pc);
    }
    to
}

unsafe extern "C" fn append_at(to: usize, from: usize, pc: usize) -> usize {
    let counts = counts(pc);
    let before = length_of(to);
    note_read(counts, to, before + 1, pc);
    copy(counts, to + before, from, length_of(from) + 1, pc);
    to
}

unsafe extern "C" fn append_up_to_at(to: usize, from: usize, most: usize, pc: usize) -> usize {
    let counts = counts(pc);
    let before = length_of(to);
    note_read(counts, to, before + 1, pc);
    let length = length_up_to(from, most);
    copy(counts, to + before, from, length, pc);
    fill(counts, to + before + length, 0, 1, pc);
    to
}

unsafe extern "C" fn compare_at(a: usize, b: usize, length: usize, pc: usize) -> c_int {
    let counts = counts(pc);
    note_read(counts, a, length, pc);
    note_read(counts, b, length, pc);
    for i in 0..length {
        let [x, y] = [a, b].map(|at| unsafe { ((at + i) as *const u8).read_volatile() } as c_int);
        if x != y {
            return x - y;
        }
    }
    0
}

/// How much of two texts a comparison looks at.
fn compared(a: usize, b: usize, most: usize) -> usize {
    let mut length = 0;
    while length < most {
        let [x, y] = [a, b].map(|text| unsafe { ((text + length) as *const u8).read_volatile() });
        length += 1;
        if x != y || x == 0 {
            break;
        }
    }
    length
}

unsafe extern "C" fn text_compare_at(a: usize, b: usize, pc: usize) -> c_int {
    unsafe { text_compare_up_to_at(a, b, usize::MAX, pc) }
}

unsafe extern "C" fn text_compare_up_to_at(a: usize, b: usize, most: usize, pc: usize) -> c_int {
    let counts = counts(pc);
    let length = compared(a, b, most);
    if length == 0 {
        return 0;
    }
    note_read(counts, a, length, pc);
    note_read(counts, b, length, pc);
    let [x, y] = [a, b].map(|text| unsafe { ((text + length - 1) as *const u8).read_volatile() } as c_int);
    x - y
}

unsafe extern "C" fn duplicate_at(text: usize, pc: usize) -> usize {
    unsafe { duplicate_up_to_at(text, usize::MAX, pc) }
}

unsafe extern "C" fn duplicate_up_to_at(text: usize, most: usize, pc: usize) -> usize {
    // The block is found first: its allocation is a step of its own, in which the text may change.
    let mut length = length_up_to(text, most);
    loop {
        let to = unsafe { crate::heap::malloc_at(length + 1, pc) } as usize;
        if to == 0 {
            return 0;
        }
        let counts = counts(pc);
        let now = length_up_to(text, most);
        if now <= length {
            copy(counts, to, text, now, pc);
            note_read(counts && now < most, text + now, 1, pc);
            fill(counts, to + now, 0, 1, pc);
            return to;
        }
        free::end_ranges();
        unsafe { crate::heap::free_at(to as crate::c::Pointer, pc) };
        length = now;
    }
}

stubs! { free::through_ranges =>
    memcpy "rcx" copy_at; memmove "rcx" copy_at; mempcpy "rcx" copy_to_end_at; memset "rcx" fill_at; bzero "rdx" zero_at;
    __tsan_memcpy "rcx" copy_at; __tsan_memmove "rcx" copy_at; __tsan_memset "rcx" fill_at;
    strlen "rsi" length_at; strnlen "rdx" length_up_to_at;
    strcpy "rdx" text_copy_at; stpcpy "rdx" text_copy_to_end_at; strncpy "rcx" text_copy_up_to_at;
    strcat "rdx" append_at; strncat "rcx" append_up_to_at;
    memcmp "rcx" compare_at; strcmp "rdx" text_compare_at; strncmp "rcx" text_compare_up_to_at;
    strdup "rsi" duplicate_at; strndup "rdx" duplicate_up_to_at;
}
