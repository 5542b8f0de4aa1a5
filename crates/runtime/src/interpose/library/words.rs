//! Texts: functions that compare, search and cut them. Those that need no more than a few bytes of them are in
//! [`ranges`](crate::interpose::ranges).

use crate::base::program::Address;
use crate::interpose::library::effects::*;
use crate::interpose::library::library;
use crate::pass_on;
use core::ffi::c_int;

/// The last place of a byte, or the first of all.
fn last_of(at: usize, byte: c_int, length: usize) -> usize {
    (at..at + length).rev().find(|&at| Address(at).byte() == byte as u8).unwrap_or(at)
}

/// The bytes up to and including the first that is searched.
fn up_to(at: usize, byte: c_int, length: usize) -> usize {
    (0..length).find(|i| Address(at + i).byte() == byte as u8).map_or(length, |i| i + 1)
}

/// A text up to where a part of it ends, or all of it.
fn up_to_part(text: usize, found: usize, part: usize) {
    let length = if found == 0 { text_length(text) + 1 } else { found - text + text_length(part).max(1) };
    reads(text, length);
}

fn without_case(a: usize, b: usize) -> usize {
    pass_on!(strcasestr(a: usize, b: usize) -> usize)
}

/// The bytes before the next word, and of the word.
fn next_word(at: usize, set: usize) -> (usize, usize) {
    let before = pass_on!(strspn(at: usize, set: usize) -> usize);
    let word = at + before;
    (before, pass_on!(strcspn(word: usize, set: usize) -> usize))
}

/// What `strtok` looks at: the text up to the end of the next word, and one byte more.
fn reads_word(at: usize, set: usize) {
    text(set);
    if at != 0 {
        let (before, word) = next_word(at, set);
        reads(at, before + word + 1);
        fills(at + before + word, 1);
    }
}

/// What `strsep` looks at: the text up to the next of some characters.
fn reads_part(at: usize, set: usize) {
    if at != 0 {
        let length = pass_on!(strcspn(at: usize, set: usize) -> usize);
        reads(at, length + 1);
        fills(at + length, 1);
    }
}

/// The zero behind a word; `next` is where the search goes on.
fn cuts(word: usize, next: usize) {
    if word != 0 && next == word + text_length(word) + 1 {
        writes(next - 1, 1);
    }
}

/// `strtok` keeps where it goes on to itself: only of its first call is it known whether it has cut.
fn cuts_first(at: usize, word: usize) {
    if word == 0 {
        return;
    }
    let length = text_length(word);
    match at {
        0 => reads(word, length + 1),
        _ => writes(word + length, 1),
    }
}

library! {
    memrchr "rcx" (s: usize, k: c_int, n: usize) -> usize;
        { let from = last_of(s, k, n); reads(from, s + n - from) }; |_r| ();
    rawmemchr "rdx" (s: usize, k: c_int) -> usize; reads(s, pass_on!(rawmemchr(s: usize, k: c_int) -> usize) - s + 1);
        |_r| ();
    memmem "r8" (s: usize, n: usize, part: usize, m: usize) -> usize; { reads(s, n); reads(part, m) }; |_r| ();
    memccpy "r8" (to: usize, from: usize, k: c_int, n: usize) -> usize; { reads(from, up_to(from, k, n)); fills(to, n) };
        |r| writes(to, if r == 0 { n } else { r - to });
    strcasestr "rdx" (s: usize, part: usize) -> usize;
        { text(part); up_to_part(s, without_case(s, part), part) }; |_r| ();
    strcoll "rdx" (a: usize, b: usize) -> c_int; { text(a); text(b) }; |_r| ();
    strcoll_l "rcx" (a: usize, b: usize, l: usize) -> c_int; { text(a); text(b) }; |_r| ();
    strcasecmp_l "rcx" (a: usize, b: usize, l: usize) -> c_int; { text(a); text(b) }; |_r| ();
    strncasecmp_l "r8" (a: usize, b: usize, n: usize, l: usize) -> c_int; { text_up_to(a, n); text_up_to(b, n) };
        |_r| ();
    strverscmp "rdx" (a: usize, b: usize) -> c_int; { text(a); text(b) }; |_r| ();
    strxfrm "rcx" (to: usize, from: usize, n: usize) -> usize; { text(from); fills(to, n) };
        |r| writes(to, n.min(r.saturating_add(1)));
    strxfrm_l "r8" (to: usize, from: usize, n: usize, l: usize) -> usize; { text(from); fills(to, n) };
        |r| writes(to, n.min(r.saturating_add(1)));
    strtok "rdx" (s: usize, set: usize) -> usize; reads_word(s, set); |r| cuts_first(s, r);
    strtok_r "rcx" (s: usize, set: usize, rest: usize) -> usize;
        { if s == 0 { reads(rest, 8) }; fills(rest, 8); reads_word(if s == 0 { word(rest) } else { s }, set) };
        |r| { cuts(r, word(rest)); writes(rest, 8) };
    __strtok_r "rcx" (s: usize, set: usize, rest: usize) -> usize;
        { if s == 0 { reads(rest, 8) }; fills(rest, 8); reads_word(if s == 0 { word(rest) } else { s }, set) };
        |r| { cuts(r, word(rest)); writes(rest, 8) };
    strsep "rdx" (s: usize, set: usize) -> usize;
        { changes(s, 8); text(set); reads_part(word(s), set) };
        |r| { cuts(r, word(s)); writes(s, 8) };
    swab "rcx" (from: usize, to: usize, n: isize) -> (); { reads(from, count(n) & !1); fills(to, count(n) & !1) };
        |_r| writes(to, count(n) & !1);
    fnmatch "rcx" (pattern: usize, s: usize, f: c_int) -> c_int; { text(pattern); text(s) }; |_r| ();
    basename "rsi" (s: usize) -> usize; text(s); |_r| ();
    argz_count "rdx" (s: usize, n: usize) -> usize; reads(s, n); |_r| ();
    a64l "rsi" (s: usize) -> i64; text_up_to(s, 6); |_r| ();
    strfry "rsi" (s: usize) -> usize; { text(s); fills(s, text_length(s)) }; |_r| writes(s, text_length(s));
    memfrob "rdx" (s: usize, n: usize) -> usize; changes(s, n); |_r| writes(s, n);
    strerror_r "rcx" (e: c_int, to: usize, n: usize) -> usize; fills(to, n); |r| if r == to { writes_text(to) };
    __xpg_strerror_r "rcx" (e: c_int, to: usize, n: usize) -> c_int; fills(to, n);
        |_r| if n > 0 { writes_text(to) };
    regerror "r8" (e: c_int, regex: usize, to: usize, n: usize) -> usize; fills(to, n); |r| writes(to, n.min(r));
}

// The first argument of these is what `regcomp` has made: a `regex_t`.

const REGEX: usize = 64;
const MATCH: usize = 8;
const BETWEEN: c_int = 4;

/// What is searched: with `REG_STARTEND`, the first match says which part of the text.
fn searched(s: usize, matches: usize, flags: c_int) {
    match flags & BETWEEN {
        0 => text(s),
        _ => {
            reads(matches, MATCH);
            let [from, to] = Address(matches).read::<[i32; 2]>();
            reads(s.wrapping_add_signed(from as isize), (to - from).max(0) as usize);
        }
    }
}

/// How many matches are noted: none if that was not wanted when the expression was compiled.
fn wanted(regex: usize, n: usize) -> usize {
    // The bits of `regex_t` behind its counts; that of `REG_NOSUB` is the fifth.
    const BITS: usize = 56;
    const NO_SUB: u8 = 1 << 4;
    if Address(regex + BITS).byte() & NO_SUB != 0 { 0 } else { n }
}

library! {
    regexec "r9" (regex: usize, s: usize, n: usize, matches: usize, flags: c_int) -> c_int;
        { reads(regex, REGEX); searched(s, matches, flags); fills(matches, MATCH * wanted(regex, n)) };
        |r| if r == 0 { writes(matches, MATCH * wanted(regex, n)) };
}

super::calls_out! {
    regcomp "rcx" (regex: usize, pattern: usize, flags: c_int) -> c_int; { text(pattern); fills(regex, REGEX) };
        |_r| writes(regex, REGEX);
    regfree "rsi" (regex: usize) -> (); changes(regex, REGEX); |_r| writes(regex, REGEX);
    wordexp "rcx" (s: usize, words: usize, f: c_int) -> c_int; { text(s); fills(words, 24) };
        |r| if r == 0 { writes(words, 24) };
    wordfree "rsi" (words: usize) -> (); reads(words, 24); |_r| ();
    setlocale "rdx" (k: c_int, name: usize) -> usize; text(name); |_r| ();
    textdomain "rsi" (name: usize) -> usize; text(name); |_r| ();
    setenv "rcx" (name: usize, value: usize, f: c_int) -> c_int; { text(name); text(value) }; |_r| ();
    unsetenv "rsi" (name: usize) -> c_int; text(name); |_r| ();
    putenv "rsi" (s: usize) -> c_int; text(s); |_r| ();
}
