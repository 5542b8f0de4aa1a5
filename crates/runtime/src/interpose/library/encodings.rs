//! Texts from one encoding into another, and numbers in wide texts.

use crate::base::program::Address;
use crate::interpose::library::effects::*;
use crate::interpose::library::library;
use crate::pass_on;
use core::ffi::{c_int, c_long};

/// A `mbstate_t`.
pub const STATE: usize = 8;
/// Most bytes of a character.
const LONGEST: usize = 16;

/// The result of a conversion that has not failed: a count.
pub fn is_count(r: usize) -> bool {
    r < usize::MAX - 1
}

/// How much of a text was converted into `r` units: all of it with its end, if there is nowhere to put them or it was
/// short enough.
pub fn units(r: usize, n: usize) -> usize {
    if is_count(r) { n.min(r + 1) } else { 0 }
}

/// The bytes of a character, as its first one says in UTF-8.
fn character(from: usize, n: usize) {
    if from != 0 && n > 0 {
        let length = match Address(from).byte() {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        text_up_to(from, n.min(length));
    }
}

/// The pointer to where a conversion has come.
pub fn source(at: usize) {
    changes(at, 8);
}

/// A number in a wide text: the characters that were looked at, and the place behind it.
fn number(s: usize, end: usize) {
    wide(s);
    fills(end, 8);
}

library! {
    mbstowcs "rcx" (to: usize, from: usize, n: usize) -> usize; { text(from); fills(to, WIDE.saturating_mul(n)) };
        |r| writes(to, WIDE * units(r, n));
    wcstombs "rcx" (to: usize, from: usize, n: usize) -> usize; { wide(from); fills(to, n) };
        |r| writes(to, units(r, n));
    mbsrtowcs "r8" (to: usize, from: usize, n: usize, state: usize) -> usize;
        { source(from); text(word(from)); changes(state, STATE); fills(to, WIDE.saturating_mul(n)) };
        |r| { writes(to, WIDE * units(r, n)); if to != 0 { writes(from, 8) }; writes(state, STATE) };
    wcsrtombs "r8" (to: usize, from: usize, n: usize, state: usize) -> usize;
        { source(from); wide(word(from)); changes(state, STATE); fills(to, n) };
        |r| { writes(to, units(r, n)); if to != 0 { writes(from, 8) }; writes(state, STATE) };
    mbsnrtowcs "r9" (to: usize, from: usize, m: usize, n: usize, state: usize) -> usize;
        { source(from); text_up_to(word(from), m); changes(state, STATE); fills(to, WIDE.saturating_mul(n)) };
        |r| { writes(to, WIDE * units(r, n)); if to != 0 { writes(from, 8) }; writes(state, STATE) };
    wcsnrtombs "r9" (to: usize, from: usize, m: usize, n: usize, state: usize) -> usize;
        { source(from); wide_up_to(word(from), m); changes(state, STATE); fills(to, n) };
        |r| { writes(to, units(r, n)); if to != 0 { writes(from, 8) }; writes(state, STATE) };
    mbtowc "rcx" (to: usize, from: usize, n: usize) -> c_int; { character(from, n); fills(to, WIDE) };
        |r| if r >= 0 && from != 0 { writes(to, WIDE) };
    mblen "rdx" (from: usize, n: usize) -> c_int; character(from, n); |_r| ();
    mbrlen "rcx" (from: usize, n: usize, state: usize) -> usize; { character(from, n); changes(state, STATE) };
        |_r| writes(state, STATE);
    mbrtowc "r8" (to: usize, from: usize, n: usize, state: usize) -> usize;
        { character(from, n); fills(to, WIDE); changes(state, STATE) };
        |r| { if is_count(r) && from != 0 { writes(to, WIDE) }; writes(state, STATE) };
    wctomb "rdx" (to: usize, k: c_int) -> c_int; fills(to, LONGEST); |r| writes(to, r.max(0) as usize);
    wcrtomb "rcx" (to: usize, k: c_int, state: usize) -> usize; { fills(to, LONGEST); changes(state, STATE) };
        |r| { if is_count(r) { writes(to, r) }; writes(state, STATE) };
    wcstol "rcx" (s: usize, end: usize, base: c_int) -> c_long; number(s, end); |_r| writes(end, 8);
    wcstoul "rcx" (s: usize, end: usize, base: c_int) -> u64; number(s, end); |_r| writes(end, 8);
    wcstoll "rcx" (s: usize, end: usize, base: c_int) -> i64; number(s, end); |_r| writes(end, 8);
    wcstoull "rcx" (s: usize, end: usize, base: c_int) -> u64; number(s, end); |_r| writes(end, 8);
    wcstoimax "rcx" (s: usize, end: usize, base: c_int) -> i64; number(s, end); |_r| writes(end, 8);
    wcstoumax "rcx" (s: usize, end: usize, base: c_int) -> u64; number(s, end); |_r| writes(end, 8);
    __isoc23_wcstol "rcx" (s: usize, end: usize, base: c_int) -> c_long; number(s, end); |_r| writes(end, 8);
    __isoc23_wcstoul "rcx" (s: usize, end: usize, base: c_int) -> u64; number(s, end); |_r| writes(end, 8);
    __isoc23_wcstoll "rcx" (s: usize, end: usize, base: c_int) -> i64; number(s, end); |_r| writes(end, 8);
    __isoc23_wcstoull "rcx" (s: usize, end: usize, base: c_int) -> u64; number(s, end); |_r| writes(end, 8);
    wcstod "rdx" (s: usize, end: usize) -> f64; number(s, end); |_r| writes(end, 8);
    wcstof "rdx" (s: usize, end: usize) -> f32; number(s, end); |_r| writes(end, 8);
}

/// What is left of a buffer of `iconv`: where it is, and how much.
fn buffer(at: usize, left: usize) -> (usize, usize) {
    (word(at), if word(at) == 0 { 0 } else { word(left) })
}

extern "C" fn convert(kind: usize, from: usize, n: usize, to: usize, m: usize, pc: usize) -> usize {
    let (text, room) = (buffer(from, n), buffer(to, m));
    let before = || {
        [from, n, to, m].into_iter().for_each(|at| changes(at, 8));
        reads(text.0, text.1);
        fills(room.0, room.1);
    };
    let call = || pass_on!(iconv(kind: usize, from: usize, n: usize, to: usize, m: usize) -> usize);
    super::in_turn(pc, before, call, |_| {
        writes(room.0, word(to).wrapping_sub(room.0).min(room.1));
        [from, n, to, m].into_iter().for_each(|at| writes(at, 8));
    })
}

crate::stubs! { iconv "r9" convert; }
