//! What the rows of the table say: which memory a call reads and writes.
//!
//! All of them want the token and note nothing for null pointers. `fills` is for what a call may write: where threads
//! run freely, that is announced.

use crate::base::c::Pointer;
use crate::base::program::Address;
use crate::base::relaxed::Relaxed;
use crate::interpose::blocking;
use crate::interpose::heap;
use crate::scheduler::free_running::is_free;

/// Bytes of a `wchar_t`.
pub const WIDE: usize = 4;

pub fn reads(at: usize, length: usize) {
    match OUTSIDE.get() {
        true => blocking::reads_for_outside(at as Pointer, length),
        false => blocking::reads(at as Pointer, length),
    }
}

pub fn writes(at: usize, length: usize) {
    match OUTSIDE.get() {
        true => blocking::writes_from_outside(at as Pointer, length),
        false => blocking::writes(at as Pointer, length),
    }
}

/// Whether what is noted comes from outside or goes there. The token's holder uses it.
static OUTSIDE: Relaxed<bool> = Relaxed::zero();

/// Notes what comes from outside, like the time, or goes there, like a name of a file. Its values are others when the
/// run is repeated, and what it decides, the writer of the memory says.
pub fn outside(note: impl FnOnce()) {
    let before = OUTSIDE.replace(true);
    note();
    OUTSIDE.set(before);
}

pub fn fills(at: usize, length: usize) {
    blocking::may_write(at as Pointer, length);
}

/// Something that is read and written.
pub fn changes(at: usize, length: usize) {
    reads(at, length);
    fills(at, length);
}

pub fn text_length(at: usize) -> usize {
    Address(at).text_length(usize::MAX)
}

/// A text with its end.
pub fn text(at: usize) {
    if at != 0 {
        reads(at, text_length(at) + 1);
    }
}

/// At most so many bytes of a text.
pub fn text_up_to(at: usize, most: usize) {
    if at != 0 && most > 0 {
        reads(at, most.min(Address(at).text_length(most).saturating_add(1)));
    }
}

/// A text that the kernel has looked at. Where threads run freely, nothing may look at it beforehand.
pub fn path(at: usize) {
    if !is_free() {
        outside(|| text(at));
    }
}

/// A text that a call has written.
pub fn writes_text(at: usize) {
    if at != 0 {
        writes(at, text_length(at) + 1);
    }
}

pub fn wide_length(at: usize) -> usize {
    wide_length_up_to(at, usize::MAX)
}

pub fn wide_length_up_to(at: usize, most: usize) -> usize {
    (0..most).find(|i| wide_unit(at, *i) == 0).unwrap_or(most)
}

pub fn wide_unit(at: usize, index: usize) -> u32 {
    Address(at).plus(WIDE * index).read()
}

/// A wide text with its end.
pub fn wide(at: usize) {
    if at != 0 {
        reads(at, WIDE * (wide_length(at) + 1));
    }
}

/// At most so many characters of a wide text.
pub fn wide_up_to(at: usize, most: usize) {
    if at != 0 {
        reads(at, WIDE.saturating_mul(most.min(wide_length_up_to(at, most).saturating_add(1))));
    }
}

pub fn writes_wide(at: usize) {
    if at != 0 {
        writes(at, WIDE * (wide_length(at) + 1));
    }
}

/// The units of two texts that a comparison looks at: up to the first that differ, or the end.
pub fn compared(a: usize, b: usize, most: usize, size: usize) -> usize {
    let unit = |at: usize, i: usize| if size == 1 { Address(at + i).byte() as u32 } else { wide_unit(at, i) };
    let differs = |&i: &usize| unit(a, i) != unit(b, i) || unit(a, i) == 0;
    (0..most).find(differs).map_or(most, |i| i + 1)
}

/// The start of two wide texts, as far as a comparison looks.
pub fn both_wide(a: usize, b: usize, most: usize) {
    let length = WIDE * compared(a, b, most, WIDE);
    reads(a, length);
    reads(b, length);
}

/// A word of the program's: a pointer or a size that a call takes by its address; 0 if there is none.
pub fn word(at: usize) -> usize {
    if at == 0 { 0 } else { Address(at).read() }
}

/// A C `int` of the program's, as a length.
pub fn int(at: usize) -> usize {
    if at == 0 { 0 } else { Address(at).read::<i32>().max(0) as usize }
}

/// A block that a call has allocated for the program.
pub fn appeared(block: usize) {
    heap::appeared(block as Pointer);
}

/// A text in a block that a call has allocated.
pub fn appeared_text(block: usize) {
    appeared(block);
    writes_text(block);
}

/// The count that a call returns, negative if it has failed.
pub fn count(result: isize) -> usize {
    result.max(0) as usize
}
