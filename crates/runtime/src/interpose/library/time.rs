//! Times: what they are read from and put into.

use crate::interpose::library::effects::*;
use crate::interpose::library::{kernel, library};
use core::ffi::{c_int, c_long};

/// A `time_t`.
const TIME: usize = 8;
/// A `struct tm`.
const PARTS: usize = 56;
/// A `struct timespec` or `timeval`.
const SPEC: usize = 16;
/// Two of them.
const TIMER: usize = 32;
/// What `asctime` writes for all years of four digits.
const LINE: usize = 26;

library! {
    localtime "rsi" (t: usize) -> usize; reads(t, TIME); |r| writes(r, PARTS);
    gmtime "rsi" (t: usize) -> usize; reads(t, TIME); |r| writes(r, PARTS);
    localtime_r "rdx" (t: usize, to: usize) -> usize; { reads(t, TIME); fills(to, PARTS) };
        |r| if r != 0 { writes(to, PARTS) };
    gmtime_r "rdx" (t: usize, to: usize) -> usize; { reads(t, TIME); fills(to, PARTS) };
        |r| if r != 0 { writes(to, PARTS) };
    mktime "rsi" (parts: usize) -> i64; changes(parts, PARTS); |_r| writes(parts, PARTS);
    timelocal "rsi" (parts: usize) -> i64; changes(parts, PARTS); |_r| writes(parts, PARTS);
    timegm "rsi" (parts: usize) -> i64; changes(parts, PARTS); |_r| writes(parts, PARTS);
    asctime "rsi" (parts: usize) -> usize; reads(parts, PARTS); |r| writes_text(r);
    asctime_r "rdx" (parts: usize, to: usize) -> usize; { reads(parts, PARTS); fills(to, LINE) }; |r| writes_text(r);
    ctime "rsi" (t: usize) -> usize; reads(t, TIME); |r| writes_text(r);
    ctime_r "rdx" (t: usize, to: usize) -> usize; { reads(t, TIME); fills(to, LINE) }; |r| writes_text(r);
    strftime "r8" (to: usize, n: usize, format: usize, parts: usize) -> usize;
        { text(format); reads(parts, PARTS); fills(to, n) };
        |r| if r > 0 { writes(to, r + 1) };
    strftime_l "r9" (to: usize, n: usize, format: usize, parts: usize, l: usize) -> usize;
        { text(format); reads(parts, PARTS); fills(to, n) };
        |r| if r > 0 { writes(to, r + 1) };
    wcsftime "r8" (to: usize, n: usize, format: usize, parts: usize) -> usize;
        { wide(format); reads(parts, PARTS); fills(to, WIDE * n) };
        |r| if r > 0 { writes(to, WIDE * (r + 1)) };
    strptime "rcx" (s: usize, format: usize, parts: usize) -> usize; { text(s); text(format); fills(parts, PARTS) };
        |r| if r != 0 { writes(parts, PARTS) };
}

/// Two times for a file, or none for now.
fn pair(times: usize) {
    reads(times, 2 * SPEC);
}

kernel! {
    time "rsi" (to: usize) -> i64; fills(to, TIME); |_r| writes(to, TIME);
    clock_gettime "rdx" (k: c_int, to: usize) -> c_int; fills(to, SPEC); |r| if r == 0 { writes(to, SPEC) };
    clock_getres "rdx" (k: c_int, to: usize) -> c_int; fills(to, SPEC); |r| if r == 0 { writes(to, SPEC) };
    clock_settime "rdx" (k: c_int, t: usize) -> c_int; reads(t, SPEC); |_r| ();
    clock_getcpuclockid "rdx" (p: c_int, to: usize) -> c_int; fills(to, 4); |r| if r == 0 { writes(to, 4) };
    timespec_get "rdx" (to: usize, base: c_int) -> c_int; fills(to, SPEC); |r| if r != 0 { writes(to, SPEC) };
    gettimeofday "rdx" (to: usize, zone: usize) -> c_int; { fills(to, SPEC); fills(zone, 8) };
        |r| if r == 0 { writes(to, SPEC); writes(zone, 8) };
    settimeofday "rdx" (t: usize, zone: usize) -> c_int; { reads(t, SPEC); reads(zone, 8) }; |_r| ();
    ftime "rsi" (to: usize) -> c_int; fills(to, SPEC); |_r| writes(to, 14);
    times "rsi" (to: usize) -> c_long; fills(to, 32); |_r| writes(to, 32);
    getitimer "rdx" (k: c_int, to: usize) -> c_int; fills(to, TIMER); |r| if r == 0 { writes(to, TIMER) };
    timer_gettime "rdx" (timer: usize, to: usize) -> c_int; fills(to, TIMER); |r| if r == 0 { writes(to, TIMER) };
    timerfd_gettime "rdx" (fd: c_int, to: usize) -> c_int; fills(to, TIMER); |r| if r == 0 { writes(to, TIMER) };
    utime "rdx" (p: usize, times: usize) -> c_int; { path(p); reads(times, 2 * TIME) }; |_r| ();
    utimes "rdx" (p: usize, times: usize) -> c_int; { path(p); pair(times) }; |_r| ();
    lutimes "rdx" (p: usize, times: usize) -> c_int; { path(p); pair(times) }; |_r| ();
    futimes "rdx" (fd: c_int, times: usize) -> c_int; pair(times); |_r| ();
    futimens "rdx" (fd: c_int, times: usize) -> c_int; pair(times); |_r| ();
    utimensat "r8" (fd: c_int, p: usize, times: usize, f: c_int) -> c_int; { path(p); pair(times) }; |_r| ();
}
