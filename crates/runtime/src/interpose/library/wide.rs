//! Wide texts. Lengths are in characters of four bytes.

use crate::interpose::library::effects::*;
use crate::interpose::library::library;
use crate::pass_on;
use core::ffi::c_int;

fn span(s: usize, set: usize) -> usize {
    pass_on!(wcsspn(s: usize, set: usize) -> usize)
}

fn span_without(s: usize, set: usize) -> usize {
    pass_on!(wcscspn(s: usize, set: usize) -> usize)
}

/// A wide text up to and including what was found, or its end.
fn up_to(s: usize, found: usize) {
    if found == 0 { wide(s) } else { reads(s, found - s + WIDE) }
}

fn up_to_part(s: usize, found: usize, part: usize) {
    match found {
        0 => wide(s),
        _ => reads(s, found - s + WIDE * wide_length(part).max(1)),
    }
}

fn finds(s: usize, part: usize) -> usize {
    pass_on!(wcsstr(s: usize, part: usize) -> usize)
}

pub fn copied(from: usize, to: usize, n: usize) {
    wide_up_to(from, n);
    fills(to, WIDE * n);
}

pub fn joins(to: usize, from: usize, n: usize) {
    wide(to);
    wide_up_to(from, n);
    fills(to + WIDE * wide_length(to), WIDE * (wide_length_up_to(from, n) + 1));
}

/// What came behind the first text.
pub fn joined(to: usize, from: usize, n: usize) {
    let length = wide_length_up_to(from, n);
    writes(to + WIDE * (wide_length(to) - length), WIDE * (length + 1));
}

library! {
    wcslen "rsi" (s: usize) -> usize; wide(s); |_r| ();
    wcsnlen "rdx" (s: usize, n: usize) -> usize; wide_up_to(s, n); |_r| ();
    wcscpy "rdx" (to: usize, from: usize) -> usize; { wide(from); fills(to, WIDE * (wide_length(from) + 1)) };
        |_r| writes_wide(to);
    wcpcpy "rdx" (to: usize, from: usize) -> usize; { wide(from); fills(to, WIDE * (wide_length(from) + 1)) };
        |r| writes(to, r - to + WIDE);
    wcsncpy "rcx" (to: usize, from: usize, n: usize) -> usize; copied(from, to, n); |_r| writes(to, WIDE * n);
    wcpncpy "rcx" (to: usize, from: usize, n: usize) -> usize; copied(from, to, n); |_r| writes(to, WIDE * n);
    wcsdup "rsi" (s: usize) -> usize; wide(s); |r| { appeared(r); writes_wide(r) };
    wcscmp "rdx" (a: usize, b: usize) -> c_int; both_wide(a, b, usize::MAX); |_r| ();
    wcsncmp "rcx" (a: usize, b: usize, n: usize) -> c_int; both_wide(a, b, n); |_r| ();
    wcscasecmp "rdx" (a: usize, b: usize) -> c_int; { wide(a); wide(b) }; |_r| ();
    wcsncasecmp "rcx" (a: usize, b: usize, n: usize) -> c_int; { wide_up_to(a, n); wide_up_to(b, n) }; |_r| ();
    wcscoll "rdx" (a: usize, b: usize) -> c_int; { wide(a); wide(b) }; |_r| ();
    wcscoll_l "rcx" (a: usize, b: usize, l: usize) -> c_int; { wide(a); wide(b) }; |_r| ();
    wcsxfrm "rcx" (to: usize, from: usize, n: usize) -> usize; { wide(from); fills(to, WIDE * n) };
        |r| writes(to, WIDE * n.min(r.saturating_add(1)));
    wcsxfrm_l "r8" (to: usize, from: usize, n: usize, l: usize) -> usize; { wide(from); fills(to, WIDE * n) };
        |r| writes(to, WIDE * n.min(r.saturating_add(1)));
    wcschr "rdx" (s: usize, k: c_int) -> usize; up_to(s, pass_on!(wcschr(s: usize, k: c_int) -> usize)); |_r| ();
    wcschrnul "rdx" (s: usize, k: c_int) -> usize; up_to(s, pass_on!(wcschr(s: usize, k: c_int) -> usize)); |_r| ();
    wcsrchr "rdx" (s: usize, k: c_int) -> usize; wide(s); |_r| ();
    wcsstr "rdx" (s: usize, part: usize) -> usize; { wide(part); up_to_part(s, finds(s, part), part) }; |_r| ();
    wcswcs "rdx" (s: usize, part: usize) -> usize; { wide(part); up_to_part(s, finds(s, part), part) }; |_r| ();
    wcsspn "rdx" (s: usize, set: usize) -> usize; { wide(set); reads(s, WIDE * (span(s, set) + 1)) }; |_r| ();
    wcscspn "rdx" (s: usize, set: usize) -> usize; { wide(set); reads(s, WIDE * (span_without(s, set) + 1)) };
        |_r| ();
    wcspbrk "rdx" (s: usize, set: usize) -> usize; { wide(set); reads(s, WIDE * (span_without(s, set) + 1)) };
        |_r| ();
    wcstok "rcx" (s: usize, set: usize, rest: usize) -> usize;
        { if s == 0 { reads(rest, 8) }; fills(rest, 8); wide(set); wide(if s == 0 { word(rest) } else { s }) };
        |r| {
            if r != 0 && word(rest) == r + WIDE * (wide_length(r) + 1) { writes(word(rest) - WIDE, WIDE) };
            writes(rest, 8)
        };
    wmemcpy "rcx" (to: usize, from: usize, n: usize) -> usize; { reads(from, WIDE * n); fills(to, WIDE * n) };
        |_r| writes(to, WIDE * n);
    wmempcpy "rcx" (to: usize, from: usize, n: usize) -> usize; { reads(from, WIDE * n); fills(to, WIDE * n) };
        |_r| writes(to, WIDE * n);
    wmemmove "rcx" (to: usize, from: usize, n: usize) -> usize; { reads(from, WIDE * n); fills(to, WIDE * n) };
        |_r| writes(to, WIDE * n);
    wmemset "rcx" (to: usize, k: c_int, n: usize) -> usize; fills(to, WIDE * n); |_r| writes(to, WIDE * n);
    wmemcmp "rcx" (a: usize, b: usize, n: usize) -> c_int; { reads(a, WIDE * n); reads(b, WIDE * n) }; |_r| ();
    wmemchr "rcx" (s: usize, k: c_int, n: usize) -> usize;
        { let units = |&i: &usize| wide_unit(s, i) == k as u32;
          reads(s, WIDE * (0..n).find(units).map_or(n, |i| i + 1)) };
        |_r| ();
    wcscat "rdx" (to: usize, from: usize) -> usize; joins(to, from, usize::MAX); |_r| joined(to, from, usize::MAX);
    wcsncat "rcx" (to: usize, from: usize, n: usize) -> usize; joins(to, from, n); |_r| joined(to, from, n);
}
