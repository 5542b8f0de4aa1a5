//! Functions that call others of the program's while they sort and search.

use crate::interpose::library::calls_out;
use crate::interpose::library::effects::*;
use core::ffi::c_int;

/// All of a row is compared and moved, unless it is too short for that.
fn sorts(at: usize, n: usize, size: usize) {
    if n > 1 {
        changes(at, n.saturating_mul(size));
    }
}

fn sorted(at: usize, n: usize, size: usize) {
    if n > 1 {
        writes(at, n.saturating_mul(size));
    }
}

calls_out! {
    qsort "r8" (at: usize, n: usize, size: usize, compare: usize) -> (); sorts(at, n, size); |_r| sorted(at, n, size);
    qsort_r "r9" (at: usize, n: usize, size: usize, compare: usize, with: usize) -> (); sorts(at, n, size);
        |_r| sorted(at, n, size);
    glob "r8" (pattern: usize, f: c_int, tell: usize, to: usize) -> c_int; { text(pattern); fills(to, 72) };
        |_r| writes(to, 72);
    glob64 "r8" (pattern: usize, f: c_int, tell: usize, to: usize) -> c_int; { text(pattern); fills(to, 72) };
        |_r| writes(to, 72);
    globfree "rsi" (to: usize) -> (); changes(to, 72); |_r| writes(to, 72);
    globfree64 "rsi" (to: usize) -> (); changes(to, 72); |_r| writes(to, 72);
    scandir "r8" (p: usize, to: usize, choose: usize, compare: usize) -> c_int; { text(p); fills(to, 8) };
        |r| if r >= 0 { writes(to, 8) };
    scandir64 "r8" (p: usize, to: usize, choose: usize, compare: usize) -> c_int; { text(p); fills(to, 8) };
        |r| if r >= 0 { writes(to, 8) };
    tsearch "rcx" (key: usize, root: usize, compare: usize) -> usize; fills(root, 8); |r| if r != 0 { writes(root, 8) };
    lfind "r9" (key: usize, at: usize, n: usize, size: usize, compare: usize) -> usize; reads(n, 8); |_r| ();
}
