//! Users, groups, and what else files of the system say.

use crate::interpose::library::calls_out;
use crate::interpose::library::effects::*;
use core::ffi::{c_int, c_uint};

/// A `struct passwd`.
const USER: usize = 48;
/// A `struct group`.
const GROUP: usize = 32;
/// A `struct mntent`.
const MOUNT: usize = 40;

/// A `struct hostent`, or `servent`.
const HOST: usize = 32;
/// A `struct protoent`.
const PROTOCOL: usize = 24;

fn named(to: usize, n: c_uint) {
    if n > 0 {
        writes_text(to);
    }
}

/// An entry, the texts in it, and the pointer to it.
fn may_be_found(entry: usize, size: usize, texts: usize, n: usize, result: usize) {
    fills(entry, size);
    fills(texts, n);
    fills(result, 8);
}

/// What of the texts was used nobody says: it begins where the first of them is, and has at least that one.
fn found(entry: usize, size: usize, result: usize) {
    if word(result) != 0 {
        writes(entry, size);
        writes_text(word(entry));
    }
    writes(result, 8);
}

calls_out! {
    getpwnam "rsi" (name: usize) -> usize; text(name); |r| writes(r, USER);
    getpwuid "rsi" (id: c_uint) -> usize; (); |r| writes(r, USER);
    getpwent "rdi" () -> usize; (); |r| writes(r, USER);
    getgrnam "rsi" (name: usize) -> usize; text(name); |r| writes(r, GROUP);
    getgrgid "rsi" (id: c_uint) -> usize; (); |r| writes(r, GROUP);
    getgrent "rdi" () -> usize; (); |r| writes(r, GROUP);
    getpwnam_r "r9" (name: usize, to: usize, texts: usize, n: usize, result: usize) -> c_int;
        { text(name); may_be_found(to, USER, texts, n, result) }; |_r| found(to, USER, result);
    getpwuid_r "r9" (id: c_uint, to: usize, texts: usize, n: usize, result: usize) -> c_int;
        may_be_found(to, USER, texts, n, result); |_r| found(to, USER, result);
    getpwent_r "r8" (to: usize, texts: usize, n: usize, result: usize) -> c_int;
        may_be_found(to, USER, texts, n, result); |_r| found(to, USER, result);
    fgetpwent_r "r9" (f: usize, to: usize, texts: usize, n: usize, result: usize) -> c_int;
        may_be_found(to, USER, texts, n, result); |_r| found(to, USER, result);
    getgrnam_r "r9" (name: usize, to: usize, texts: usize, n: usize, result: usize) -> c_int;
        { text(name); may_be_found(to, GROUP, texts, n, result) }; |_r| found(to, GROUP, result);
    getgrgid_r "r9" (id: c_uint, to: usize, texts: usize, n: usize, result: usize) -> c_int;
        may_be_found(to, GROUP, texts, n, result); |_r| found(to, GROUP, result);
    getgrent_r "r8" (to: usize, texts: usize, n: usize, result: usize) -> c_int;
        may_be_found(to, GROUP, texts, n, result); |_r| found(to, GROUP, result);
    fgetgrent_r "r9" (f: usize, to: usize, texts: usize, n: usize, result: usize) -> c_int;
        may_be_found(to, GROUP, texts, n, result); |_r| found(to, GROUP, result);
    getgrouplist "r8" (name: usize, g: c_uint, to: usize, n: usize) -> c_int;
        { text(name); changes(n, 4); fills(to, 4 * int(n)) };
        |r| { writes(n, 4); writes(to, 4 * r.max(0) as usize) };
    initgroups "rdx" (name: usize, g: c_uint) -> c_int; text(name); |_r| ();
    getmntent "rsi" (f: usize) -> usize; (); |r| writes(r, MOUNT);
    getmntent_r "r8" (f: usize, to: usize, texts: usize, n: c_int) -> usize;
        { fills(to, MOUNT); fills(texts, n.max(0) as usize) };
        |r| if r != 0 { writes(r, MOUNT); writes_text(word(r)) };
    gethostbyname "rsi" (name: usize) -> usize; text(name); |r| writes(r, 32);
    gethostbyname2 "rdx" (name: usize, family: c_int) -> usize; text(name); |r| writes(r, 32);
    gethostbyaddr "rcx" (a: usize, n: c_uint, family: c_int) -> usize; reads(a, n as usize); |r| writes(r, 32);
    getservbyname "rdx" (name: usize, protocol: usize) -> usize; { text(name); text(protocol) }; |r| writes(r, 32);
    getservbyport "rdx" (port: c_int, protocol: usize) -> usize; text(protocol); |r| writes(r, 32);
    getprotobyname "rsi" (name: usize) -> usize; text(name); |r| writes(r, 24);
    getprotobynumber "rsi" (k: c_int) -> usize; (); |r| writes(r, 24);
    getnetbyname "rsi" (name: usize) -> usize; text(name); |r| writes(r, 24);
    fgetpwent "rsi" (f: usize) -> usize; (); |r| writes(r, USER);
    fgetgrent "rsi" (f: usize) -> usize; (); |r| writes(r, GROUP);
    ptsname "rsi" (fd: c_int) -> usize; (); |r| writes_text(r);
    ttyname "rsi" (fd: c_int) -> usize; (); |r| writes_text(r);
    gethostbyname_r stack (name: usize, to: usize, texts: usize, n: usize, result: usize, error: usize) -> c_int;
        { text(name); may_be_found(to, HOST, texts, n, result); fills(error, 4) };
        |_r| found(to, HOST, result);
    gethostbyname2_r stack8
        (name: usize, k: c_int, to: usize, texts: usize, n: usize, result: usize, error: usize, _x: usize) -> c_int;
        { text(name); may_be_found(to, HOST, texts, n, result); fills(error, 4) };
        |_r| found(to, HOST, result);
    gethostbyaddr_r stack8
        (a: usize, m: c_uint, k: c_int, to: usize, texts: usize, n: usize, result: usize, error: usize) -> c_int;
        { reads(a, m as usize); may_be_found(to, HOST, texts, n, result); fills(error, 4) };
        |_r| found(to, HOST, result);
    getprotobyname_r "r9" (name: usize, to: usize, texts: usize, n: usize, result: usize) -> c_int;
        { text(name); may_be_found(to, PROTOCOL, texts, n, result) }; |_r| found(to, PROTOCOL, result);
    getprotobynumber_r "r9" (k: c_int, to: usize, texts: usize, n: usize, result: usize) -> c_int;
        may_be_found(to, PROTOCOL, texts, n, result); |_r| found(to, PROTOCOL, result);
    getservbyname_r stack (name: usize, k: usize, to: usize, texts: usize, n: usize, result: usize) -> c_int;
        { text(name); text(k); may_be_found(to, HOST, texts, n, result) };
        |_r| found(to, HOST, result);
    getnameinfo stack8
        (a: usize, m: c_uint, host: usize, n: c_uint, port: usize, k: c_uint, f: c_int, _x: usize) -> c_int;
        { reads(a, m as usize); fills(host, n as usize); fills(port, k as usize) };
        |r| if r == 0 { named(host, n); named(port, k) };
    getifaddrs "rsi" (to: usize) -> c_int; fills(to, 8); |r| if r == 0 { writes(to, 8) };
}
