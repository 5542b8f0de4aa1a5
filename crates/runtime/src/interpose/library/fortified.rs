//! What programs call instead of some functions if they are built with `_FORTIFY_SOURCE`: the last argument is the room
//! that there is. A call that needs more is left to the library, which ends the program.

use crate::base::program::Address;
use crate::interpose::library::effects::*;
use crate::interpose::library::encodings::{STATE, is_count, narrow, source, units, widened};
use crate::interpose::library::wide::{copied, joined, joins};
use crate::interpose::library::{kernel, library};
use crate::interpose::ranges::{
    append_at, append_up_to_at, copy_at, copy_to_end_at, fill_at, text_copy_at, text_copy_to_end_at, text_copy_up_to_at,
};
use crate::{pass_on, stubs};
use core::ffi::c_int;

/// Functions of ours, each with what it needs of the room.
macro_rules! within {
    ($($name:ident $register:literal ($($argument:ident: $type:ty),*) $ours:ident $needs:expr;)*) => {$(
        const _: () = {
            extern "C" fn recorded($($argument: $type,)* room: usize, pc: usize) -> usize {
                if $needs > room {
                    return pass_on!($name($($argument: $type,)* room: usize) -> usize);
                }
                $ours($($argument,)* pc)
            }
            stubs! { crate::base::stubs::through_ranges => $name $register recorded; }
        };
    )*};
}

within! {
    __memcpy_chk "r8" (to: usize, from: usize, n: usize) copy_at n;
    __memmove_chk "r8" (to: usize, from: usize, n: usize) copy_at n;
    __mempcpy_chk "r8" (to: usize, from: usize, n: usize) copy_to_end_at n;
    __memset_chk "r8" (to: usize, k: c_int, n: usize) fill_at n;
    __explicit_bzero_chk "rcx" (to: usize, n: usize) clear n;
    __strcpy_chk "rcx" (to: usize, from: usize) text_copy_at text_length(from) + 1;
    __stpcpy_chk "rcx" (to: usize, from: usize) text_copy_to_end_at text_length(from) + 1;
    __strncpy_chk "r8" (to: usize, from: usize, n: usize) text_copy_up_to_at n;
    __strcat_chk "rcx" (to: usize, from: usize) append_at text_length(to) + text_length(from) + 1;
    __strncat_chk "r8" (to: usize, from: usize, n: usize) append_up_to_at
        text_length(to) + Address(from).text_length(n) + 1;
}

extern "C" fn clear(to: usize, n: usize, pc: usize) -> usize {
    fill_at(to, 0, n, pc)
}

extern "C" fn clear_at(to: usize, n: usize, pc: usize) {
    clear(to, n, pc);
}

stubs! { crate::base::stubs::through_ranges => explicit_bzero "rdx" clear_at; }

library! {
    stpncpy "rcx" (to: usize, from: usize, n: usize) -> usize; { text_up_to(from, n); fills(to, n) };
        |_r| writes(to, n);
    __stpncpy_chk "r8" (to: usize, from: usize, n: usize, m: usize) -> usize; { text_up_to(from, n); fills(to, n) };
        |_r| writes(to, n);
    __wcscpy_chk "rcx" (to: usize, from: usize, m: usize) -> usize; { wide(from); fills(to, WIDE * m) };
        |_r| writes_wide(to);
    __wcpcpy_chk "rcx" (to: usize, from: usize, m: usize) -> usize; { wide(from); fills(to, WIDE * m) };
        |r| writes(to, r - to + WIDE);
    __wcsncpy_chk "r8" (to: usize, from: usize, n: usize, m: usize) -> usize; copied(from, to, n);
        |_r| writes(to, WIDE * n);
    __wcpncpy_chk "r8" (to: usize, from: usize, n: usize, m: usize) -> usize; copied(from, to, n);
        |_r| writes(to, WIDE * n);
    __wcscat_chk "rcx" (to: usize, from: usize, m: usize) -> usize; joins(to, from, usize::MAX);
        |_r| joined(to, from, usize::MAX);
    __wcsncat_chk "r8" (to: usize, from: usize, n: usize, m: usize) -> usize; joins(to, from, n);
        |_r| joined(to, from, n);
    __wmemcpy_chk "r8" (to: usize, from: usize, n: usize, m: usize) -> usize;
        { reads(from, WIDE * n); fills(to, WIDE * n) }; |_r| writes(to, WIDE * n);
    __wmempcpy_chk "r8" (to: usize, from: usize, n: usize, m: usize) -> usize;
        { reads(from, WIDE * n); fills(to, WIDE * n) }; |_r| writes(to, WIDE * n);
    __wmemmove_chk "r8" (to: usize, from: usize, n: usize, m: usize) -> usize;
        { reads(from, WIDE * n); fills(to, WIDE * n) }; |_r| writes(to, WIDE * n);
    __wmemset_chk "r8" (to: usize, k: c_int, n: usize, m: usize) -> usize; fills(to, WIDE * n);
        |_r| writes(to, WIDE * n);
    __mbstowcs_chk "r8" (to: usize, from: usize, n: usize, m: usize) -> usize;
        { narrow(to, from, n, usize::MAX); fills(to, WIDE.saturating_mul(n)) };
        |r| writes(to, WIDE * units(r, n));
    __wcstombs_chk "r8" (to: usize, from: usize, n: usize, m: usize) -> usize; { widened(to, from, n, usize::MAX); fills(to, n) };
        |r| writes(to, units(r, n));
    __mbsrtowcs_chk "r9" (to: usize, from: usize, n: usize, state: usize, m: usize) -> usize;
        { source(from); narrow(to, word(from), n, usize::MAX); changes(state, STATE); fills(to, WIDE.saturating_mul(n)) };
        |r| { writes(to, WIDE * units(r, n)); if to != 0 { writes(from, 8) }; writes(state, STATE) };
    __wcsrtombs_chk "r9" (to: usize, from: usize, n: usize, state: usize, m: usize) -> usize;
        { source(from); widened(to, word(from), n, usize::MAX); changes(state, STATE); fills(to, n) };
        |r| { writes(to, units(r, n)); if to != 0 { writes(from, 8) }; writes(state, STATE) };
    __mbsnrtowcs_chk stack (to: usize, from: usize, k: usize, n: usize, state: usize, m: usize) -> usize;
        { source(from); narrow(to, word(from), n, k); changes(state, STATE); fills(to, WIDE.saturating_mul(n)) };
        |r| { writes(to, WIDE * units(r, n)); if to != 0 { writes(from, 8) }; writes(state, STATE) };
    __wcsnrtombs_chk stack (to: usize, from: usize, k: usize, n: usize, state: usize, m: usize) -> usize;
        { source(from); widened(to, word(from), n, k); changes(state, STATE); fills(to, n) };
        |r| { writes(to, units(r, n)); if to != 0 { writes(from, 8) }; writes(state, STATE) };
    __wctomb_chk "rcx" (to: usize, k: c_int, m: usize) -> c_int; fills(to, m); |r| writes(to, r.max(0) as usize);
    __wcrtomb_chk "r8" (to: usize, k: c_int, state: usize, m: usize) -> usize; { fills(to, m); changes(state, STATE) };
        |r| { if is_count(r) { writes(to, r) }; writes(state, STATE) };
    __confstr_chk "r8" (k: c_int, to: usize, n: usize, m: usize) -> usize; fills(to, n); |r| writes(to, n.min(r));
    __getlogin_r_chk "rcx" (to: usize, n: usize, m: usize) -> c_int; fills(to, n); |r| if r == 0 { writes_text(to) };
}

kernel! {
    __getgroups_chk "rcx" (n: c_int, to: usize, m: usize) -> c_int; fills(to, m);
        |r| if n > 0 { writes(to, 4 * r.max(0) as usize) };
    __gethostname_chk "rcx" (to: usize, n: usize, m: usize) -> c_int; fills(to, n); |r| if r == 0 { writes_text(to) };
    __getdomainname_chk "rcx" (to: usize, n: usize, m: usize) -> c_int; fills(to, n);
        |r| if r == 0 { writes_text(to) };
    __readlinkat_chk "r9" (d: c_int, p: usize, to: usize, n: usize, m: usize) -> isize; { path(p); fills(to, n) };
        |r| writes(to, count(r));
    __ptsname_r_chk "r8" (fd: c_int, to: usize, n: usize, m: usize) -> c_int; fills(to, n);
        |r| if r == 0 { writes_text(to) };
    __ttyname_r_chk "r8" (fd: c_int, to: usize, n: usize, m: usize) -> c_int; fills(to, n);
        |r| if r == 0 { writes_text(to) };
}
