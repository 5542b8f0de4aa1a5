//! What the runtime needs of the C library and the kernel, declared here so that it depends on nothing.

use core::arch::asm;
use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A pointer whose target does not matter here.
pub type Pointer = *mut core::ffi::c_void;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Timespec {
    pub seconds: i64,
    pub nanoseconds: i64,
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
    fn dlerror() -> *const u8;
    pub fn __errno_location() -> *mut c_int;
    pub fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    pub fn pthread_self() -> usize;
    pub fn pthread_key_create(key: *mut u32, destructor: unsafe extern "C" fn(Pointer)) -> c_int;
    pub fn pthread_setspecific(key: u32, value: *const core::ffi::c_void) -> c_int;
    pub fn malloc_usable_size(block: Pointer) -> usize;
    pub fn __libc_malloc(size: usize) -> Pointer;
    pub fn __libc_free(block: Pointer);
    pub fn __libc_calloc(count: usize, size: usize) -> Pointer;
    pub fn __libc_realloc(block: Pointer, size: usize) -> Pointer;
    pub fn __libc_memalign(alignment: usize, size: usize) -> Pointer;
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
pub const SIG_SETMASK: usize = 2;

pub mod number {
    pub const READ: i64 = 0;
    pub const WRITE: i64 = 1;
    pub const CLOSE: i64 = 3;
    pub const LSEEK: i64 = 8;
    pub const MMAP: i64 = 9;
    pub const MPROTECT: i64 = 10;
    pub const MUNMAP: i64 = 11;
    pub const RT_SIGACTION: i64 = 13;
    pub const RT_SIGPROCMASK: i64 = 14;
    pub const SCHED_YIELD: i64 = 24;
    pub const NANOSLEEP: i64 = 35;
    pub const GETPID: i64 = 39;
    pub const CLONE: i64 = 56;
    pub const FORK: i64 = 57;
    pub const EXIT: i64 = 60;
    pub const WAIT4: i64 = 61;
    pub const KILL: i64 = 62;
    pub const PRCTL: i64 = 157;
    pub const GETTID: i64 = 186;
    pub const FUTEX: i64 = 202;
    pub const TGKILL: i64 = 234;
    pub const OPENAT: i64 = 257;
    pub const SECCOMP: i64 = 317;
    pub const MEMBARRIER: i64 = 324;
    pub const FCNTL: i64 = 72;
    pub const MREMAP: i64 = 25;
    pub const STATX: i64 = 332;
    pub const CLONE3: i64 = 435;
}

/// A system call without errno: minus the error, or the result.
#[inline]
pub unsafe fn system(number: i64, arguments: [usize; 6]) -> i64 {
    let result: i64;
    let [a, b, c, d, e, f] = arguments;
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
             in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Opens a file for reading; `path` ends in a zero byte.
pub fn open(path: &[u8], flags: usize) -> i64 {
    debug_assert_eq!(path.last(), Some(&0));
    const AT_FDCWD: usize = -100isize as usize;
    const O_CLOEXEC: usize = 0o2000000;
    unsafe { system(number::OPENAT, [AT_FDCWD, path.as_ptr() as usize, flags | O_CLOEXEC, 0, 0, 0]) }
}

pub fn close(descriptor: i64) {
    unsafe { system(number::CLOSE, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

/// Reads until the buffer is full or the file ends; how much it was.
pub fn read(descriptor: i64, buffer: &mut [u8]) -> usize {
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = &mut buffer[filled..];
        let got =
            unsafe { system(number::READ, [descriptor as usize, rest.as_mut_ptr() as usize, rest.len(), 0, 0, 0]) };
        match got {
            got if got > 0 => filled += got as usize,
            got if got == -(EINTR as i64) => {}
            _ => break,
        }
    }
    filled
}

pub fn pid() -> u32 {
    unsafe { system(number::GETPID, [0; 6]) as u32 }
}

pub fn thread_id() -> u32 {
    unsafe { system(number::GETTID, [0; 6]) as u32 }
}

/// Whether the kernel no longer knows a thread of this process.
pub fn is_gone(kernel: u32) -> bool {
    const ESRCH: i64 = 3;
    unsafe { system(number::TGKILL, [pid() as usize, kernel as usize, 0, 0, 0, 0]) == -ESRCH }
}

/// Whether a process is there.
pub fn is_alive(process: u32) -> bool {
    const ESRCH: i64 = 3;
    unsafe { system(number::KILL, [process as usize, 0, 0, 0, 0, 0]) != -ESRCH }
}

/// A clock in nanoseconds.
pub fn now(clock: c_int) -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(clock, &mut time) };
    time.to_nanoseconds()
}

pub fn errno() -> c_int {
    unsafe { *__errno_location() }
}

pub fn set_errno(error: c_int) {
    unsafe { *__errno_location() = error };
}

/// A function of the C library that one of ours stands before, or that we need: its name, with a zero byte, and its address
/// once that is known.
pub struct Real {
    pub name: &'static str,
    pub found: AtomicUsize,
}

unsafe extern "C" {
    // The linker's names for the beginning and the end of the section in which they all are.
    #[link_name = "__start_snag_real"]
    static FIRST: u8;
    #[link_name = "__stop_snag_real"]
    static END: u8;
}

impl Real {
    /// Its address.
    #[inline]
    pub fn get(&self) -> usize {
        match self.found.load(Relaxed) {
            0 => self.look_up(),
            known => known,
        }
    }

    #[cold]
    fn look_up(&self) -> usize {
        let mut address = unsafe { dlsym(RTLD_NEXT, self.name.as_ptr()) } as usize;
        if address == 0 {
            address = self.look_up_in_plugins();
        }
        if address == 0 {
            crate::base::memory::die(self.name.trim_end_matches('\0'));
        }
        self.found.store(address, Relaxed);
        address
    }

    /// Libraries for OpenMP may come with something that was loaded later, for itself alone.
    fn look_up_in_plugins(&self) -> usize {
        const LOADED_ALREADY: c_int = 1 | 4;
        let load = crate::real!(dlopen, fn(*const u8, c_int) -> Pointer);
        let mut found =
            ["libgomp.so.1\0", "libomp.so.5\0", "libomp.so\0", "libiomp5.so\0"].iter().filter_map(|library| {
                let handle = unsafe { load(library.as_ptr(), LOADED_ALREADY) };
                let address = if handle.is_null() { 0 } else { unsafe { dlsym(handle, self.name.as_ptr()) as usize } };
                (address != 0).then_some(address)
            });
        found.next().unwrap_or(0)
    }
}

/// Looks all of them up while nothing runs yet: later on it could mean to wait for a lock of the dynamic linker in the middle
/// of an operation. What is not there may come with a library, or is never called.
pub fn look_up_all() {
    let (mut at, end): (*const Real, _) = ((&raw const FIRST).cast(), (&raw const END).cast());
    while at < end {
        let real = unsafe { &*at };
        let address = unsafe { dlsym(RTLD_NEXT, real.name.as_ptr()) } as usize;
        real.found.store(address, Relaxed);
        at = unsafe { at.add(1) };
    }
    // The program is not to find our failures.
    unsafe { dlerror() };
}

/// The function of the C library that one of ours stands before.
#[macro_export]
macro_rules! real {
    ($name:ident, fn($($argument:ty),*) -> $result:ty) => {{
        #[used]
        #[unsafe(link_section = "snag_real")]
        static REAL: $crate::base::c::Real = $crate::base::c::Real {
            name: concat!(stringify!($name), "\0"),
            found: core::sync::atomic::AtomicUsize::new(0),
        };
        let found = REAL.get();
        #[allow(unused_unsafe)]
        let function = unsafe { core::mem::transmute::<usize, unsafe extern "C" fn($($argument),*) -> $result>(found) };
        function
    }};
}
