//! Names of files, and what is known about a file.

use crate::interpose::library::effects::*;
use crate::interpose::library::kernel;
use core::ffi::{c_int, c_long, c_uint};

/// A `struct stat`.
const STAT: usize = 144;
/// A `struct statx`.
const STATX: usize = 256;
/// A `struct statfs`.
const FILES: usize = 120;
/// A `struct statvfs`.
const VFILES: usize = 112;
/// `PATH_MAX`.
const PATH: usize = 4096;

kernel! {
    stat "rdx" (p: usize, to: usize) -> c_int; { path(p); fills(to, STAT) }; |r| if r == 0 { writes(to, STAT) };
    stat64 "rdx" (p: usize, to: usize) -> c_int; { path(p); fills(to, STAT) }; |r| if r == 0 { writes(to, STAT) };
    lstat "rdx" (p: usize, to: usize) -> c_int; { path(p); fills(to, STAT) }; |r| if r == 0 { writes(to, STAT) };
    lstat64 "rdx" (p: usize, to: usize) -> c_int; { path(p); fills(to, STAT) }; |r| if r == 0 { writes(to, STAT) };
    fstat "rdx" (fd: c_int, to: usize) -> c_int; fills(to, STAT); |r| if r == 0 { writes(to, STAT) };
    fstat64 "rdx" (fd: c_int, to: usize) -> c_int; fills(to, STAT); |r| if r == 0 { writes(to, STAT) };
    fstatat "r8" (d: c_int, p: usize, to: usize, f: c_int) -> c_int; { path(p); fills(to, STAT) };
        |r| if r == 0 { writes(to, STAT) };
    fstatat64 "r8" (d: c_int, p: usize, to: usize, f: c_int) -> c_int; { path(p); fills(to, STAT) };
        |r| if r == 0 { writes(to, STAT) };
    __xstat "rcx" (v: c_int, p: usize, to: usize) -> c_int; { path(p); fills(to, STAT) };
        |r| if r == 0 { writes(to, STAT) };
    __xstat64 "rcx" (v: c_int, p: usize, to: usize) -> c_int; { path(p); fills(to, STAT) };
        |r| if r == 0 { writes(to, STAT) };
    __lxstat "rcx" (v: c_int, p: usize, to: usize) -> c_int; { path(p); fills(to, STAT) };
        |r| if r == 0 { writes(to, STAT) };
    __lxstat64 "rcx" (v: c_int, p: usize, to: usize) -> c_int; { path(p); fills(to, STAT) };
        |r| if r == 0 { writes(to, STAT) };
    __fxstat "rcx" (v: c_int, fd: c_int, to: usize) -> c_int; fills(to, STAT); |r| if r == 0 { writes(to, STAT) };
    __fxstat64 "rcx" (v: c_int, fd: c_int, to: usize) -> c_int; fills(to, STAT); |r| if r == 0 { writes(to, STAT) };
    statx "r9" (d: c_int, p: usize, f: c_int, m: c_uint, to: usize) -> c_int; { path(p); fills(to, STATX) };
        |r| if r == 0 { writes(to, STATX) };
    statfs "rdx" (p: usize, to: usize) -> c_int; { path(p); fills(to, FILES) }; |r| if r == 0 { writes(to, FILES) };
    statfs64 "rdx" (p: usize, to: usize) -> c_int; { path(p); fills(to, FILES) }; |r| if r == 0 { writes(to, FILES) };
    fstatfs "rdx" (fd: c_int, to: usize) -> c_int; fills(to, FILES); |r| if r == 0 { writes(to, FILES) };
    fstatfs64 "rdx" (fd: c_int, to: usize) -> c_int; fills(to, FILES); |r| if r == 0 { writes(to, FILES) };
    statvfs "rdx" (p: usize, to: usize) -> c_int; { path(p); fills(to, VFILES) };
        |r| if r == 0 { writes(to, VFILES) };
    statvfs64 "rdx" (p: usize, to: usize) -> c_int; { path(p); fills(to, VFILES) };
        |r| if r == 0 { writes(to, VFILES) };
    fstatvfs "rdx" (fd: c_int, to: usize) -> c_int; fills(to, VFILES); |r| if r == 0 { writes(to, VFILES) };
    fstatvfs64 "rdx" (fd: c_int, to: usize) -> c_int; fills(to, VFILES); |r| if r == 0 { writes(to, VFILES) };
    access "rdx" (p: usize, m: c_int) -> c_int; path(p); |_r| ();
    faccessat "r8" (d: c_int, p: usize, m: c_int, f: c_int) -> c_int; path(p); |_r| ();
    chdir "rsi" (p: usize) -> c_int; path(p); |_r| ();
    chroot "rsi" (p: usize) -> c_int; path(p); |_r| ();
    chmod "rdx" (p: usize, m: c_uint) -> c_int; path(p); |_r| ();
    fchmodat "r8" (d: c_int, p: usize, m: c_uint, f: c_int) -> c_int; path(p); |_r| ();
    chown "rcx" (p: usize, u: c_uint, g: c_uint) -> c_int; path(p); |_r| ();
    lchown "rcx" (p: usize, u: c_uint, g: c_uint) -> c_int; path(p); |_r| ();
    fchownat "r9" (d: c_int, p: usize, u: c_uint, g: c_uint, f: c_int) -> c_int; path(p); |_r| ();
    link "rdx" (p: usize, q: usize) -> c_int; { path(p); path(q) }; |_r| ();
    linkat "r9" (d: c_int, p: usize, e: c_int, q: usize, f: c_int) -> c_int; { path(p); path(q) }; |_r| ();
    symlink "rdx" (p: usize, q: usize) -> c_int; { path(p); path(q) }; |_r| ();
    symlinkat "rcx" (p: usize, d: c_int, q: usize) -> c_int; { path(p); path(q) }; |_r| ();
    mkdir "rdx" (p: usize, m: c_uint) -> c_int; path(p); |_r| ();
    mkdirat "rcx" (d: c_int, p: usize, m: c_uint) -> c_int; path(p); |_r| ();
    mkfifo "rdx" (p: usize, m: c_uint) -> c_int; path(p); |_r| ();
    rmdir "rsi" (p: usize) -> c_int; path(p); |_r| ();
    truncate "rdx" (p: usize, n: c_long) -> c_int; path(p); |_r| ();
    truncate64 "rdx" (p: usize, n: c_long) -> c_int; path(p); |_r| ();
    pathconf "rdx" (p: usize, k: c_int) -> c_long; path(p); |_r| ();
    readlink "rcx" (p: usize, to: usize, n: usize) -> isize; { path(p); fills(to, n) }; |r| writes(to, count(r));
    readlinkat "r8" (d: c_int, p: usize, to: usize, n: usize) -> isize; { path(p); fills(to, n) };
        |r| writes(to, count(r));
    getxattr "r8" (p: usize, name: usize, to: usize, n: usize) -> isize; { path(p); path(name); fills(to, n) };
        |r| if n > 0 { writes(to, count(r)) };
    lgetxattr "r8" (p: usize, name: usize, to: usize, n: usize) -> isize; { path(p); path(name); fills(to, n) };
        |r| if n > 0 { writes(to, count(r)) };
    fgetxattr "r8" (fd: c_int, name: usize, to: usize, n: usize) -> isize; { path(name); fills(to, n) };
        |r| if n > 0 { writes(to, count(r)) };
    listxattr "rcx" (p: usize, to: usize, n: usize) -> isize; { path(p); fills(to, n) };
        |r| if n > 0 { writes(to, count(r)) };
    llistxattr "rcx" (p: usize, to: usize, n: usize) -> isize; { path(p); fills(to, n) };
        |r| if n > 0 { writes(to, count(r)) };
    flistxattr "rcx" (fd: c_int, to: usize, n: usize) -> isize; fills(to, n);
        |r| if n > 0 { writes(to, count(r)) };
    setxattr "r9" (p: usize, name: usize, from: usize, n: usize, f: c_int) -> c_int;
        { path(p); path(name); reads(from, n) }; |_r| ();
    lsetxattr "r9" (p: usize, name: usize, from: usize, n: usize, f: c_int) -> c_int;
        { path(p); path(name); reads(from, n) }; |_r| ();
    fsetxattr "r9" (fd: c_int, name: usize, from: usize, n: usize, f: c_int) -> c_int;
        { path(name); reads(from, n) }; |_r| ();
    removexattr "rdx" (p: usize, name: usize) -> c_int; { path(p); path(name) }; |_r| ();
    lremovexattr "rdx" (p: usize, name: usize) -> c_int; { path(p); path(name) }; |_r| ();
    fremovexattr "rdx" (fd: c_int, name: usize) -> c_int; path(name); |_r| ();
    mkdtemp "rsi" (p: usize) -> usize; (); |r| writes_text(r);
    mktemp "rsi" (p: usize) -> usize; (); |r| writes_text(r);
    tmpnam "rsi" (to: usize) -> usize; fills(to, 20); |r| writes_text(r);
    tmpnam_r "rsi" (to: usize) -> usize; fills(to, 20); |r| writes_text(r);
    ptsname_r "rcx" (fd: c_int, to: usize, n: usize) -> c_int; fills(to, n); |r| if r == 0 { writes_text(to) };
    ttyname_r "rcx" (fd: c_int, to: usize, n: usize) -> c_int; fills(to, n); |r| if r == 0 { writes_text(to) };
    ctermid "rsi" (to: usize) -> usize; fills(to, 9); |r| writes_text(r);
}

/// A text where the program wants it, or in a block that is its own from now on.
fn made(to: usize, r: usize) {
    match (to, r) {
        (_, 0) => {}
        (0, _) => appeared_text(r),
        _ => writes_text(r),
    }
}

// These give out a block if the program has none.
kernel! {
    getcwd "rdx" (to: usize, n: usize) -> usize; fills(to, n); |r| made(to, r);
    get_current_dir_name "rdi" () -> usize; (); |r| made(0, r);
    realpath "rdx" (p: usize, to: usize) -> usize; { path(p); fills(to, PATH) }; |r| made(to, r);
    canonicalize_file_name "rsi" (p: usize) -> usize; path(p); |r| made(0, r);
    tempnam "rdx" (p: usize, start: usize) -> usize; { path(p); path(start) }; |r| made(0, r);
}

// With the checks of `_FORTIFY_SOURCE`.
kernel! {
    __getcwd_chk "rcx" (to: usize, n: usize, m: usize) -> usize; fills(to, n); |r| made(to, r);
    __realpath_chk "rcx" (p: usize, to: usize, m: usize) -> usize; { path(p); fills(to, PATH) }; |r| made(to, r);
    __readlink_chk "r8" (p: usize, to: usize, n: usize, m: usize) -> isize; { path(p); fills(to, n) };
        |r| writes(to, count(r));
}
