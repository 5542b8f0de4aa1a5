//! Functions of the C library that read and write stretches of memory.
//!
//! Copies are done here, byte by byte in one instruction, so that nothing depends on the library's own functions before
//! they can be found. What searches texts or reads numbers is the library's own, and counts as a read of just what it has looked at.

use crate::base::record::put_range;
use crate::base::thread;
use crate::interpose::lifecycle::is_ours;
use crate::scheduler::free_running;
use crate::scheduler::token::{self, Next, enter};
use crate::wire::op;
use crate::{real, stubs};
use core::arch::asm;
use core::ffi::c_int;

/// Whether events of such a function count for this thread right now, as a step. Our own copies go the same way.
fn counts(pc: usize) -> bool {
    let thread = thread::current();
    let recorded = token::is_on() && !thread.is_null() && unsafe { (*thread).inside == 0 && (*thread).ignoring == 0 };
    let seen = recorded && !is_ours(pc) && !crate::rewrite::probe::is_unseen(pc);
    seen && if free_running::is_free() { free_running::begin_ranges(thread, pc) } else { enter(thread, Next::call(pc)) }
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
        let to = unsafe { crate::interpose::heap::malloc_at(length + 1, pc) } as usize;
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
        unsafe { crate::interpose::heap::free_at(to as crate::base::c::Pointer, pc) };
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
    let is_blank = |at: usize| matches!(unsafe { (at as *const u8).read_volatile() }, b' ' | b'\t'..=b'\r');
    (text..).find(|&at| !is_blank(at)).unwrap_or(text)
}

macro_rules! numbers {
    ($($at:ident $name:ident -> $result:ty, $($argument:ident)?;)*) => {$(
        unsafe extern "C" fn $at(text: usize, end: *mut usize, $($argument: c_int,)? pc: usize) -> $result {
            let counts = counts(pc);
            let mut last = text;
            let result = unsafe {
                real!($name, fn(usize, *mut usize $(, numbers!(@ $argument))?) -> $result)(text, &mut last $(, $argument)?)
            };
            looked_at(counts, text, last.max(first_of_number(text)), pc);
            if !end.is_null() {
                unsafe { end.write_unaligned(last) };
                note_write(counts, end as usize, size_of::<usize>(), pc);
            }
            result
        }
    )*};
    (@ $argument:ident) => { c_int };
}

numbers! {
    long_at strtol -> i64, base; unsigned_at strtoul -> u64, base; long_long_at strtoll -> i64, base;
    unsigned_long_at strtoull -> u64, base; double_at strtod -> f64,; float_at strtof -> f32,;
    newer_long_at __isoc23_strtol -> i64, base; newer_unsigned_at __isoc23_strtoul -> u64, base;
    newer_long_long_at __isoc23_strtoll -> i64, base; newer_unsigned_long_at __isoc23_strtoull -> u64, base;
}

unsafe extern "C" fn integer_at(text: usize, pc: usize) -> i64 {
    unsafe { long_at(text, core::ptr::null_mut(), 10, pc) }
}

unsafe extern "C" fn real_number_at(text: usize, pc: usize) -> f64 {
    unsafe { double_at(text, core::ptr::null_mut(), pc) }
}

unsafe extern "C" fn first_at(text: usize, byte: c_int, pc: usize) -> usize {
    let at = unsafe { first_or_end_at(text, byte, pc) };
    if unsafe { (at as *const u8).read_volatile() } == byte as u8 { at } else { 0 }
}

unsafe extern "C" fn first_or_end_at(text: usize, byte: c_int, pc: usize) -> usize {
    let counts = counts(pc);
    let at = unsafe { real!(strchrnul, fn(usize, c_int) -> usize)(text, byte) };
    looked_at(counts, text, at, pc);
    at
}

unsafe extern "C" fn last_at(text: usize, byte: c_int, pc: usize) -> usize {
    let counts = counts(pc);
    looked_at(counts, text, text + length_of(text), pc);
    unsafe { real!(strrchr, fn(usize, c_int) -> usize)(text, byte) }
}

unsafe extern "C" fn byte_at(start: usize, byte: c_int, length: usize, pc: usize) -> usize {
    let counts = counts(pc);
    let found = unsafe { real!(memchr, fn(usize, c_int, usize) -> usize)(start, byte, length) };
    note_read(counts && length > 0, start, if found == 0 { length } else { found + 1 - start }, pc);
    found
}

unsafe extern "C" fn part_at(text: usize, part: usize, pc: usize) -> usize {
    let counts = counts(pc);
    let length = length_of(part);
    looked_at(counts, part, part + length, pc);
    let result = unsafe { real!(strstr, fn(usize, usize) -> usize)(text, part) };
    let last = if result == 0 { text + length_of(text) } else { (result + length).saturating_sub(1).max(text) };
    looked_at(counts, text, last, pc);
    result
}

macro_rules! spans {
    ($($at:ident $name:ident |$text:ident, $result:ident| $last:expr;)*) => {$(
        unsafe extern "C" fn $at($text: usize, set: usize, pc: usize) -> usize {
            let counts = counts(pc);
            looked_at(counts, set, set + length_of(set), pc);
            let $result = unsafe { real!($name, fn(usize, usize) -> usize)($text, set) };
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

unsafe extern "C" fn similar_at(a: usize, b: usize, pc: usize) -> c_int {
    unsafe { similar_up_to_at(a, b, usize::MAX, pc) }
}

unsafe extern "C" fn similar_up_to_at(a: usize, b: usize, most: usize, pc: usize) -> c_int {
    let counts = counts(pc);
    // Letters are letters in whatever case; what the library takes for one, it says itself.
    let real = real!(strncasecmp, fn(usize, usize, usize) -> c_int);
    let mut length = 0;
    while length < most {
        length += 1;
        let ends = unsafe { ((a + length - 1) as *const u8).read_volatile() } == 0;
        if ends || unsafe { real(a + length - 1, b + length - 1, 1) } != 0 {
            break;
        }
    }
    if length > 0 {
        note_read(counts, a, length, pc);
        note_read(counts, b, length, pc);
    }
    unsafe { real(a, b, length) }
}

stubs! { free_running::through_ranges =>
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
    memcpy "rcx" copy_at; memmove "rcx" copy_at; mempcpy "rcx" copy_to_end_at; memset "rcx" fill_at; bzero "rdx" zero_at;
    __tsan_memcpy "rcx" copy_at; __tsan_memmove "rcx" copy_at; __tsan_memset "rcx" fill_at;
    strlen "rsi" length_at; strnlen "rdx" length_up_to_at;
    strcpy "rdx" text_copy_at; stpcpy "rdx" text_copy_to_end_at; strncpy "rcx" text_copy_up_to_at;
    strcat "rdx" append_at; strncat "rcx" append_up_to_at;
    memcmp "rcx" compare_at; strcmp "rdx" text_compare_at; strncmp "rcx" text_compare_up_to_at;
    strdup "rsi" duplicate_at; strndup "rdx" duplicate_up_to_at;
}
