//! What programs ask about threads and their attributes.

use crate::interpose::library::effects::*;
use crate::interpose::library::{kernel, library};
use core::ffi::c_int;

/// A `pthread_attr_t`.
const THREAD: usize = 56;
/// A word that says how something is to be, in all others.
const WORD: usize = 4;

/// Functions that put one number of an attribute where the program wants it.
macro_rules! of_attributes {
    ($($name:ident $from:expr, $size:expr;)*) => {
        library! { $($name "rdx" (from: usize, to: usize) -> c_int; { reads(from, $from); fills(to, $size) };
            |r| if r == 0 { writes(to, $size) };)* }
    };
}

of_attributes! {
    pthread_attr_getdetachstate THREAD, 4; pthread_attr_getguardsize THREAD, 8; pthread_attr_getinheritsched THREAD, 4;
    pthread_attr_getschedparam THREAD, 4; pthread_attr_getschedpolicy THREAD, 4; pthread_attr_getscope THREAD, 4;
    pthread_attr_getstacksize THREAD, 8; pthread_barrierattr_getpshared WORD, 4; pthread_condattr_getclock WORD, 4;
    pthread_condattr_getpshared WORD, 4; pthread_mutexattr_getprioceiling WORD, 4;
    pthread_mutexattr_getprotocol WORD, 4; pthread_mutexattr_getpshared WORD, 4; pthread_mutexattr_getrobust WORD, 4;
    pthread_mutexattr_getrobust_np WORD, 4; pthread_mutexattr_gettype WORD, 4; pthread_rwlockattr_getkind_np WORD, 4;
    pthread_rwlockattr_getpshared WORD, 4;
}

library! {
    pthread_attr_getstack "rcx" (from: usize, to: usize, size: usize) -> c_int;
        { reads(from, THREAD); fills(to, 8); fills(size, 8) };
        |r| if r == 0 { writes(to, 8); writes(size, 8) };
    pthread_attr_setdetachstate "rdx" (to: usize, k: c_int) -> c_int; changes(to, THREAD);
        |r| if r == 0 { writes(to, THREAD) };
    pthread_attr_setstacksize "rdx" (to: usize, n: usize) -> c_int; changes(to, THREAD);
        |r| if r == 0 { writes(to, THREAD) };
}

kernel! {
    pthread_getschedparam "rcx" (t: usize, policy: usize, to: usize) -> c_int; { fills(policy, 4); fills(to, 4) };
        |r| if r == 0 { writes(policy, 4); writes(to, 4) };
    pthread_getname_np "rcx" (t: usize, to: usize, n: usize) -> c_int; fills(to, n); |r| if r == 0 { writes_text(to) };
    pthread_getcpuclockid "rdx" (t: usize, to: usize) -> c_int; fills(to, 4); |r| if r == 0 { writes(to, 4) };
}
