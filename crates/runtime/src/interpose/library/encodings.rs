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

/// Whether characters have more than one byte in the program's locale.
fn has_long_characters() -> bool {
    pass_on!(__ctype_get_mb_cur_max() -> usize) > 1
}

/// The bytes that a conversion of up to `n` characters looks at, of at most `most`: up to the zero, or to the first that
/// is none.
fn bytes_of(from: usize, n: usize, most: usize) -> usize {
    let (mut at, long) = (0, has_long_characters());
    for _ in 0..n {
        if at >= most {
            return most;
        }
        let first = Address(from + at).byte();
        at += 1;
        let more = match first {
            0 => return at,
            0x01..=0x7f => 0,
            0xc2..=0xdf if long => 1,
            0xe0..=0xef if long => 2,
            0xf0..=0xf4 if long => 3,
            _ => return at,
        };
        for _ in 0..more {
            if at >= most {
                return most;
            }
            at += 1;
            if !(0x80..=0xbf).contains(&Address(from + at - 1).byte()) {
                return at;
            }
        }
    }
    at
}

/// The characters of a wide text that a conversion into up to `n` bytes looks at, of at most `most`.
fn characters_of(from: usize, n: usize, most: usize) -> usize {
    let (mut bytes, long) = (0, has_long_characters());
    for at in 0..most {
        if bytes >= n {
            return at;
        }
        let length = match wide_unit(from, at) {
            0 => return at + 1,
            0x01..=0x7f => 1,
            0x80..=0x7ff if long => 2,
            0x800..=0xffff if long => 3,
            0x1_0000..=0x10_ffff if long => 4,
            _ => return at + 1,
        };
        // One that does not fit is looked at as well.
        if bytes + length > n {
            return at + 1;
        }
        bytes += length;
    }
    most
}

/// What is converted if there is room for `n` characters at `to`; all of it if it is only counted.
pub fn narrow(to: usize, from: usize, n: usize, most: usize) {
    if from != 0 {
        reads(from, bytes_of(from, if to == 0 { usize::MAX } else { n }, most));
    }
}

/// The same of a wide text, with room for `n` bytes.
pub fn widened(to: usize, from: usize, n: usize, most: usize) {
    if from != 0 {
        reads(from, WIDE * characters_of(from, if to == 0 { usize::MAX } else { n }, most));
    }
}

/// The pointer to where a conversion has come.
pub fn source(at: usize) {
    changes(at, 8);
}

/// A number in a wide text: the characters that were looked at, and the place behind it.
fn number(s: usize, end: usize) {
    let is_blank = |at: usize| matches!(wide_unit(s, at), 0x20 | 0x09..=0x0d);
    let is_of_number = |at: usize| {
        let unit = u8::try_from(wide_unit(s, at)).unwrap_or(0);
        unit.is_ascii_alphanumeric() || matches!(unit, b'+' | b'-' | b'.')
    };
    let looked_at = match word(end) {
        // Where it ends the call does not say.
        0 => {
            let blank = (0..).find(|&at| !is_blank(at)).unwrap_or(0);
            (blank..).find(|&at| !is_of_number(at)).unwrap_or(0)
        }
        behind => (behind - s) / WIDE,
    };
    reads(s, WIDE * (looked_at + 1));
    writes(end, 8);
}

library! {
    mbstowcs "rcx" (to: usize, from: usize, n: usize) -> usize; { narrow(to, from, n, usize::MAX); fills(to, WIDE.saturating_mul(n)) };
        |r| writes(to, WIDE * units(r, n));
    wcstombs "rcx" (to: usize, from: usize, n: usize) -> usize; { widened(to, from, n, usize::MAX); fills(to, n) };
        |r| writes(to, units(r, n));
    mbsrtowcs "r8" (to: usize, from: usize, n: usize, state: usize) -> usize;
        { source(from); narrow(to, word(from), n, usize::MAX); changes(state, STATE); fills(to, WIDE.saturating_mul(n)) };
        |r| { writes(to, WIDE * units(r, n)); if to != 0 { writes(from, 8) }; writes(state, STATE) };
    wcsrtombs "r8" (to: usize, from: usize, n: usize, state: usize) -> usize;
        { source(from); widened(to, word(from), n, usize::MAX); changes(state, STATE); fills(to, n) };
        |r| { writes(to, units(r, n)); if to != 0 { writes(from, 8) }; writes(state, STATE) };
    mbsnrtowcs "r9" (to: usize, from: usize, m: usize, n: usize, state: usize) -> usize;
        { source(from); narrow(to, word(from), n, m); changes(state, STATE); fills(to, WIDE.saturating_mul(n)) };
        |r| { writes(to, WIDE * units(r, n)); if to != 0 { writes(from, 8) }; writes(state, STATE) };
    wcsnrtombs "r9" (to: usize, from: usize, m: usize, n: usize, state: usize) -> usize;
        { source(from); widened(to, word(from), n, m); changes(state, STATE); fills(to, n) };
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
    wcstol "rcx" (s: usize, end: usize, base: c_int) -> c_long; fills(end, 8); |_r| number(s, end);
    wcstoul "rcx" (s: usize, end: usize, base: c_int) -> u64; fills(end, 8); |_r| number(s, end);
    wcstoll "rcx" (s: usize, end: usize, base: c_int) -> i64; fills(end, 8); |_r| number(s, end);
    wcstoull "rcx" (s: usize, end: usize, base: c_int) -> u64; fills(end, 8); |_r| number(s, end);
    wcstoimax "rcx" (s: usize, end: usize, base: c_int) -> i64; fills(end, 8); |_r| number(s, end);
    wcstoumax "rcx" (s: usize, end: usize, base: c_int) -> u64; fills(end, 8); |_r| number(s, end);
    __isoc23_wcstol "rcx" (s: usize, end: usize, base: c_int) -> c_long; fills(end, 8); |_r| number(s, end);
    __isoc23_wcstoul "rcx" (s: usize, end: usize, base: c_int) -> u64; fills(end, 8); |_r| number(s, end);
    __isoc23_wcstoll "rcx" (s: usize, end: usize, base: c_int) -> i64; fills(end, 8); |_r| number(s, end);
    __isoc23_wcstoull "rcx" (s: usize, end: usize, base: c_int) -> u64; fills(end, 8); |_r| number(s, end);
    wcstod "rdx" (s: usize, end: usize) -> f64; fills(end, 8); |_r| number(s, end);
    wcstof "rdx" (s: usize, end: usize) -> f32; fills(end, 8); |_r| number(s, end);
}

/// What is left of a buffer of `iconv`: where it is, and how much.
fn buffer(at: usize, left: usize) -> (usize, usize) {
    (word(at), if word(at) == 0 { 0 } else { word(left) })
}

extern "C" fn convert(kind: usize, from: usize, n: usize, to: usize, m: usize, pc: usize) -> usize {
    let (text, room) = (buffer(from, n), buffer(to, m));
    let before = || {
        [from, n, to, m].into_iter().for_each(|at| changes(at, 8));
        fills(room.0, room.1);
    };
    let call = || pass_on!(iconv(kind: usize, from: usize, n: usize, to: usize, m: usize) -> usize);
    super::in_turn(pc, before, call, |_| {
        // What was converted, and the character behind it if there was no room for that.
        let converted = word(from).wrapping_sub(text.0).min(text.1);
        reads(text.0, (converted + 1).min(text.1));
        writes(room.0, word(to).wrapping_sub(room.0).min(room.1));
        [from, n, to, m].into_iter().for_each(|at| writes(at, 8));
    })
}

crate::stubs! { iconv "r9" convert; }
