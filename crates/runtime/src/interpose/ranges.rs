//! Functions of the C library that read and write ranges of memory.
//!
//! Copies are made here, by one instruction, so that nothing depends on the library's own functions before they can be
//! found. Functions that search strings or parse numbers are the library's own, and count as a read of exactly what
//! they looked at.

use crate::base::c::Pointer;
use crate::base::program::Address;
use crate::base::record::put_range;
use crate::base::thread;
use crate::interpose::heap::{free_at, malloc_at};
use crate::interpose::lifecycle::is_ours;
use crate::rewrite::traps;
use crate::scheduler::{Next, enter, free_running, is_on};
use crate::wire::op;
use crate::{pass_on, stubs};
use core::arch::asm;
use core::ffi::c_int;

/// A byte of the program's.
fn byte(at: usize) -> u8 {
    Address(at).byte()
}

/// Takes a step. Returns whether the function's events count in this thread; copies that the runtime makes do not.
fn counts(pc: usize) -> bool {
    let recorded = is_on() && thread::current().is_some_and(|t| t.is_outside() && t.ignoring.get() == 0);
    let seen = recorded && !is_ours(pc) && !traps::is_unseen(pc);
    seen && if free_running::is_free() { free_running::begin_ranges(pc) } else { enter(Next::call(pc)).is_some() }
}

fn forwards(to: usize, from: usize, length: usize) {
    // SAFETY: the program asks for this copy, and answers for both ranges.
    unsafe {
        asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") length => _,
             options(nostack, preserves_flags));
    }
}

fn backwards(to: usize, from: usize, length: usize) {
    // SAFETY: the program asks for this copy, and answers for both ranges. The direction is set back.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rdi") to + length - 1 => _, inout("rsi") from + length - 1 => _,
             inout("rcx") length => _, options(nostack));
    }
}

/// Copies, and records that if it counts. Callers decide how much to copy only after the step:
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
    // SAFETY: the program asks for so many bytes to be filled, and answers for them.
    unsafe {
        asm!("rep stosb", inout("rdi") to => _, in("al") byte, inout("rcx") length => _,
             options(nostack, preserves_flags));
    }
    note_write(counts, to, length, pc);
}

fn note(code: u8, pc: usize, at: usize, length: usize) {
    match free_running::is_free() {
        true => free_running::add_range(at, length, code == op::RANGE_WRITE),
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

pub extern "C" fn copy_at(to: usize, from: usize, length: usize, pc: usize) -> usize {
    copy(length > 0 && counts(pc), to, from, length, pc);
    to
}

pub extern "C" fn copy_to_end_at(to: usize, from: usize, length: usize, pc: usize) -> usize {
    copy(length > 0 && counts(pc), to, from, length, pc);
    to + length
}

pub extern "C" fn fill_at(to: usize, byte: c_int, length: usize, pc: usize) -> usize {
    fill(length > 0 && counts(pc), to, byte as u8, length, pc);
    to
}

extern "C" fn zero_at(to: usize, length: usize, pc: usize) {
    fill_at(to, 0, length, pc);
}

fn length_of(text: usize) -> usize {
    length_up_to(text, usize::MAX)
}

fn length_up_to(text: usize, most: usize) -> usize {
    Address(text).text_length(most)
}

extern "C" fn length_at(text: usize, pc: usize) -> usize {
    length_up_to_at(text, usize::MAX, pc)
}

extern "C" fn length_up_to_at(text: usize, most: usize, pc: usize) -> usize {
    let counts = counts(pc);
    let length = length_up_to(text, most);
    note_read(counts, text, most.min(length.saturating_add(1)), pc);
    length
}

pub extern "C" fn text_copy_at(to: usize, from: usize, pc: usize) -> usize {
    text_copy_to_end_at(to, from, pc);
    to
}

pub extern "C" fn text_copy_to_end_at(to: usize, from: usize, pc: usize) -> usize {
    let counts = counts(pc);
    let length = length_of(from);
    copy(counts, to, from, length + 1, pc);
    to + length
}

pub extern "C" fn text_copy_up_to_at(to: usize, from: usize, most: usize, pc: usize) -> usize {
    let counts = counts(pc);
    let length = length_up_to(from, most);
    copy(counts, to, from, most.min(length.saturating_add(1)), pc);
    if most > length + 1 {
        fill(counts, to + length + 1, 0, most - length - 1, pc);
    }
    to
}

pub extern "C" fn append_at(to: usize, from: usize, pc: usize) -> usize {
    let counts = counts(pc);
    let before = length_of(to);
    note_read(counts, to, before + 1, pc);
    copy(counts, to + before, from, length_of(from) + 1, pc);
    to
}

pub extern "C" fn append_up_to_at(to: usize, from: usize, most: usize, pc: usize) -> usize {
    let counts = counts(pc);
    let before = length_of(to);
    note_read(counts, to, before + 1, pc);
    let length = length_up_to(from, most);
    copy(counts, to + before, from, length, pc);
    fill(counts, to + before + length, 0, 1, pc);
    to
}

extern "C" fn compare_at(a: usize, b: usize, length: usize, pc: usize) -> c_int {
    let counts = counts(pc);
    note_read(counts, a, length, pc);
    note_read(counts, b, length, pc);
    for i in 0..length {
        let [x, y] = [a, b].map(|at| byte(at + i) as c_int);
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
        let [x, y] = [a, b].map(|text| byte(text + length));
        length += 1;
        if x != y || x == 0 {
            break;
        }
    }
    length
}

extern "C" fn text_compare_at(a: usize, b: usize, pc: usize) -> c_int {
    text_compare_up_to_at(a, b, usize::MAX, pc)
}

extern "C" fn text_compare_up_to_at(a: usize, b: usize, most: usize, pc: usize) -> c_int {
    let counts = counts(pc);
    let length = compared(a, b, most);
    if length == 0 {
        return 0;
    }
    note_read(counts, a, length, pc);
    note_read(counts, b, length, pc);
    let [x, y] = [a, b].map(|text| byte(text + length - 1) as c_int);
    x - y
}

extern "C" fn duplicate_at(text: usize, pc: usize) -> usize {
    duplicate_up_to_at(text, usize::MAX, pc)
}

extern "C" fn duplicate_up_to_at(text: usize, most: usize, pc: usize) -> usize {
    // The block is found first: its allocation is a step of its own, in which the text may change.
    let mut length = length_up_to(text, most);
    loop {
        let to = malloc_at(length + 1, pc) as usize;
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
        free_running::end_ranges();
        free_at(to as Pointer, pc);
        length = now;
    }
}

// Functions that look at a text, and at no more of it than they need.

/// Notes the part of a text from its start up to and including a byte, if the function has looked at one.
fn looked_at(counts: bool, text: usize, last: usize, pc: usize) {
    note_read(counts, text, last + 1 - text, pc);
}

/// Where a number would begin, behind blanks.
fn first_of_number(text: usize) -> usize {
    let is_blank = |at: usize| matches!(byte(at), b' ' | b'\t'..=b'\r');
    (text..).find(|&at| !is_blank(at)).unwrap_or(text)
}

macro_rules! numbers {
    ($($at:ident $name:ident -> $result:ty, $($argument:ident)?;)*) => {$(
        extern "C" fn $at(text: usize, end: *mut usize, $($argument: c_int,)? pc: usize) -> $result {
            let counts = counts(pc);
            let mut last = text;
            let end_of_number = &mut last;
            let result = pass_on!($name(text: usize, end_of_number: *mut usize $(, $argument: c_int)?) -> $result);
            looked_at(counts, text, last.max(first_of_number(text)), pc);
            if !end.is_null() {
                Address::from(end).write(last);
                note_write(counts, end as usize, size_of::<usize>(), pc);
            }
            result
        }
    )*};
}

numbers! {
    long_at strtol -> i64, base; unsigned_at strtoul -> u64, base; long_long_at strtoll -> i64, base;
    unsigned_long_at strtoull -> u64, base; double_at strtod -> f64,; float_at strtof -> f32,;
    newer_long_at __isoc23_strtol -> i64, base; newer_unsigned_at __isoc23_strtoul -> u64, base;
    newer_long_long_at __isoc23_strtoll -> i64, base; newer_unsigned_long_at __isoc23_strtoull -> u64, base;
}

extern "C" fn integer_at(text: usize, pc: usize) -> i64 {
    long_at(text, core::ptr::null_mut(), 10, pc)
}

extern "C" fn real_number_at(text: usize, pc: usize) -> f64 {
    double_at(text, core::ptr::null_mut(), pc)
}

extern "C" fn first_at(text: usize, byte: c_int, pc: usize) -> usize {
    let at = first_or_end_at(text, byte, pc);
    if Address(at).byte() == byte as u8 { at } else { 0 }
}

extern "C" fn first_or_end_at(text: usize, byte: c_int, pc: usize) -> usize {
    let counts = counts(pc);
    let at = pass_on!(strchrnul(text: usize, byte: c_int) -> usize);
    looked_at(counts, text, at, pc);
    at
}

extern "C" fn last_at(text: usize, byte: c_int, pc: usize) -> usize {
    let counts = counts(pc);
    looked_at(counts, text, text + length_of(text), pc);
    pass_on!(strrchr(text: usize, byte: c_int) -> usize)
}

extern "C" fn byte_at(start: usize, byte: c_int, length: usize, pc: usize) -> usize {
    let counts = counts(pc);
    let found = pass_on!(memchr(start: usize, byte: c_int, length: usize) -> usize);
    note_read(counts && length > 0, start, if found == 0 { length } else { found + 1 - start }, pc);
    found
}

extern "C" fn part_at(text: usize, part: usize, pc: usize) -> usize {
    let counts = counts(pc);
    let length = length_of(part);
    looked_at(counts, part, part + length, pc);
    let result = pass_on!(strstr(text: usize, part: usize) -> usize);
    let last = if result == 0 { text + length_of(text) } else { (result + length).saturating_sub(1).max(text) };
    looked_at(counts, text, last, pc);
    result
}

macro_rules! spans {
    ($($at:ident $name:ident |$text:ident, $result:ident| $last:expr;)*) => {$(
        extern "C" fn $at($text: usize, set: usize, pc: usize) -> usize {
            let counts = counts(pc);
            looked_at(counts, set, set + length_of(set), pc);
            let $result = pass_on!($name($text: usize, set: usize) -> usize);
            looked_at(counts, $text, $last, pc);
            $result
        }
    )*};
}

spans! {
    span_at strspn |text, result| text + result;
    span_without_at strcspn |text, result| text + result;
    one_of_at strpbrk |text, result| if result == 0 { text + length_of(text) } else { result };
}

extern "C" fn similar_at(a: usize, b: usize, pc: usize) -> c_int {
    similar_up_to_at(a, b, usize::MAX, pc)
}

extern "C" fn similar_up_to_at(a: usize, b: usize, most: usize, pc: usize) -> c_int {
    let counts = counts(pc);
    // Letters are letters in whatever case; what the library takes for one, it says itself.
    let compare = |a: usize, b: usize, n: usize| pass_on!(strncasecmp(a: usize, b: usize, n: usize) -> c_int);
    let mut length = 0;
    while length < most {
        length += 1;
        if byte(a + length - 1) == 0 || compare(a + length - 1, b + length - 1, 1) != 0 {
            break;
        }
    }
    if length > 0 {
        note_read(counts, a, length, pc);
        note_read(counts, b, length, pc);
    }
    compare(a, b, length)
}

stubs! { crate::base::stubs::through_ranges =>
    strtol "rcx" long_at; strtoul "rcx" unsigned_at; strtoll "rcx" long_long_at; strtoull "rcx" unsigned_long_at;
    __isoc23_strtol "rcx" newer_long_at; __isoc23_strtoul "rcx" newer_unsigned_at;
    __isoc23_strtoll "rcx" newer_long_long_at; __isoc23_strtoull "rcx" newer_unsigned_long_at;
    strtoimax "rcx" long_at; strtoumax "rcx" unsigned_at;
    strtod "rdx" double_at; strtof "rdx" float_at;
    atoi "rsi" integer_at; atol "rsi" integer_at; atoll "rsi" integer_at; atof "rsi" real_number_at;
    strchr "rdx" first_at; index "rdx" first_at; strchrnul "rdx" first_or_end_at;
    strrchr "rdx" last_at; rindex "rdx" last_at; memchr "rcx" byte_at; strstr "rdx" part_at;
    strspn "rdx" span_at; strcspn "rdx" span_without_at; strpbrk "rdx" one_of_at;
    strcasecmp "rdx" similar_at; strncasecmp "rcx" similar_up_to_at; bcmp "rcx" compare_at;
    memcpy "rcx" copy_at; memmove "rcx" copy_at; mempcpy "rcx" copy_to_end_at; memset "rcx" fill_at;
    bzero "rdx" zero_at;
    __tsan_memcpy "rcx" copy_at; __tsan_memmove "rcx" copy_at; __tsan_memset "rcx" fill_at;
    strlen "rsi" length_at; strnlen "rdx" length_up_to_at;
    strcpy "rdx" text_copy_at; stpcpy "rdx" text_copy_to_end_at; strncpy "rcx" text_copy_up_to_at;
    strcat "rdx" append_at; strncat "rcx" append_up_to_at;
    memcmp "rcx" compare_at; strcmp "rdx" text_compare_at; strncmp "rcx" text_compare_up_to_at;
    strdup "rsi" duplicate_at; strndup "rdx" duplicate_up_to_at;
    __strdup "rsi" duplicate_at; __strndup "rdx" duplicate_up_to_at; __bzero "rdx" zero_at;
}
