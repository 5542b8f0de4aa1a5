//! What the runtime needs of the C library, declared here so that it depends on no crate.

use crate::base::program::Address;
use crate::pass_on;
use core::ffi::c_int;

/// A pointer whose target does not matter here.
pub type Pointer = *mut core::ffi::c_void;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Timespec {
    pub seconds: i64,
    pub nanoseconds: i64,
}

/// A time that the program has passed, in nanoseconds.
pub fn nanoseconds(time: *const Timespec) -> u64 {
    Address::from(time).read::<Timespec>().to_nanoseconds()
}

impl Timespec {
    pub fn from_nanoseconds(ns: u64) -> Timespec {
        Timespec { seconds: (ns / 1_000_000_000) as i64, nanoseconds: (ns % 1_000_000_000) as i64 }
    }

    pub fn to_nanoseconds(self) -> u64 {
        (self.seconds.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(self.nanoseconds.max(0) as u64)
    }
}

unsafe extern "C" {
    pub fn dlsym(handle: Pointer, name: *const u8) -> Pointer;
    pub safe fn dlerror() -> *const u8;
    safe fn __errno_location() -> *mut c_int;
    static stdin: usize;
    static stdout: usize;
    static stderr: usize;
    pub safe fn pthread_self() -> usize;
    pub fn pthread_key_create(key: *mut u32, destructor: unsafe extern "C" fn(Pointer)) -> c_int;
    pub fn pthread_setspecific(key: u32, value: *const core::ffi::c_void) -> c_int;
    pub fn malloc_usable_size(block: Pointer) -> usize;
    pub safe fn __libc_malloc(size: usize) -> Pointer;
    pub fn __libc_free(block: Pointer);
    pub safe fn __libc_calloc(count: usize, size: usize) -> Pointer;
    pub fn __libc_realloc(block: Pointer, size: usize) -> Pointer;
    pub safe fn __libc_memalign(alignment: usize, size: usize) -> Pointer;
}

/// The next definition of a symbol after ours.
pub const RTLD_NEXT: Pointer = -1isize as Pointer;

pub const EINTR: c_int = 4;
pub const EAGAIN: c_int = 11;
pub const ENOMEM: c_int = 12;
pub const EBUSY: c_int = 16;
pub const EINVAL: c_int = 22;
pub const EDEADLK: c_int = 35;
pub const ETIMEDOUT: c_int = 110;

pub const CLOCK_REALTIME: c_int = 0;
pub const CLOCK_MONOTONIC: c_int = 1;

/// The signal by which the watchdog asks a thread to let go of the token; one that programs hardly use.
pub const SIGNAL: c_int = 63;
/// A breakpoint.
pub const SIGTRAP: c_int = 5;

/// A clock in nanoseconds.
pub fn now(clock: c_int) -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    let to = &raw mut time;
    // Not by its name, which is one of ours.
    pass_on!(clock_gettime(clock: c_int, to: *mut Timespec) -> c_int);
    time.to_nanoseconds()
}

pub fn errno() -> c_int {
    // SAFETY: the library returns the address of this thread's errno, which is there as long as the thread.
    unsafe { *__errno_location() }
}

pub fn set_errno(error: c_int) {
    // SAFETY: as in `errno`; no other thread uses it.
    unsafe { *__errno_location() = error };
}

macro_rules! streams {
    ($($function:ident $name:ident;)*) => {$(
        /// One of the streams that every program has. The program may have put another in its place.
        pub fn $function() -> usize {
            Address::from(&raw const $name).read()
        }
    )*};
}

streams! { standard_input stdin; standard_output stdout; standard_error stderr; }
