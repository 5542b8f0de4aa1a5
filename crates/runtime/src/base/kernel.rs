//! System calls, made directly: none of the program's functions, ours included, sees them, and errno stays as it is.

use crate::base::c::{EINTR, Timespec};
use crate::base::relaxed::Relaxed;
use core::arch::asm;
use core::ffi::c_int;

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
    pub const MREMAP: i64 = 25;
    pub const NANOSLEEP: i64 = 35;
    pub const GETPID: i64 = 39;
    pub const CLONE: i64 = 56;
    pub const FORK: i64 = 57;
    pub const EXIT: i64 = 60;
    pub const WAIT4: i64 = 61;
    pub const KILL: i64 = 62;
    pub const FCNTL: i64 = 72;
    pub const PRCTL: i64 = 157;
    pub const GETTID: i64 = 186;
    pub const FUTEX: i64 = 202;
    pub const EXIT_GROUP: i64 = 231;
    pub const TGKILL: i64 = 234;
    pub const OPENAT: i64 = 257;
    pub const READLINKAT: i64 = 267;
    pub const PROCESS_VM_READV: i64 = 310;
    pub const SECCOMP: i64 = 317;
    pub const MEMBARRIER: i64 = 324;
    pub const STATX: i64 = 332;
    pub const CLONE3: i64 = 435;
}

/// A system call without errno. Returns the result, or the negated error.
///
/// # Safety
/// What the call reads and writes by its arguments must be there for it to read and write, and nobody may depend on
/// memory that it takes away.
#[inline]
pub unsafe fn system(number: i64, arguments: [usize; 6]) -> i64 {
    let result: i64;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the instruction changes the registers that are named and, beyond them, what the caller answers for.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
             in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// A system call whose arguments are numbers alone: it touches none of our memory.
#[inline]
fn plain(number: i64, arguments: [usize; 6]) -> i64 {
    // SAFETY: no argument is an address, and none of the calls below changes mappings.
    unsafe { system(number, arguments) }
}

/// Opens a file for reading; `path` ends in a zero byte.
pub fn open(path: &[u8], flags: usize) -> i64 {
    debug_assert_eq!(path.last(), Some(&0));
    const AT_FDCWD: usize = -100isize as usize;
    const O_CLOEXEC: usize = 0o2000000;
    // SAFETY: the kernel reads the path up to its zero byte, and the slice ends in one.
    unsafe { system(number::OPENAT, [AT_FDCWD, path.as_ptr() as usize, flags | O_CLOEXEC, 0, 0, 0]) }
}

pub fn close(descriptor: i64) {
    plain(number::CLOSE, [descriptor as usize, 0, 0, 0, 0, 0]);
}

/// Reads until the buffer is full or the file ends. Returns how many bytes it read.
pub fn read(descriptor: i64, buffer: &mut [u8]) -> usize {
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = &mut buffer[filled..];
        // SAFETY: the kernel writes at most as many bytes as the slice has, which we borrow mutably.
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

/// Writes to a descriptor; what does not fit in at once is lost.
pub fn write(descriptor: usize, bytes: &[u8]) {
    // SAFETY: the kernel reads no more bytes than the slice has.
    unsafe { system(number::WRITE, [descriptor, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) };
}

/// The length of an open file, negative if there is none.
pub fn file_length(descriptor: i64) -> i64 {
    const END: usize = 2;
    plain(number::LSEEK, [descriptor as usize, 0, END, 0, 0, 0])
}

/// The flags of a descriptor, negative if there is none.
pub fn descriptor_flags(descriptor: c_int) -> i64 {
    const GET_FLAGS: usize = 3;
    plain(number::FCNTL, [descriptor as usize, GET_FLAGS, 0, 0, 0, 0])
}

/// The process. It has to be asked for again after a fork.
pub fn pid() -> u32 {
    plain(number::GETPID, [0; 6]) as u32
}

pub fn thread_id() -> u32 {
    plain(number::GETTID, [0; 6]) as u32
}

const ESRCH: i64 = 3;

/// Sends a signal to a thread of this process.
pub fn send(kernel: u32, signal: c_int) {
    plain(number::TGKILL, [pid() as usize, kernel as usize, signal as usize, 0, 0, 0]);
}

/// Whether the kernel no longer knows a thread of this process.
pub fn is_gone(kernel: u32) -> bool {
    plain(number::TGKILL, [pid() as usize, kernel as usize, 0, 0, 0, 0]) == -ESRCH
}

/// Whether a process exists.
pub fn is_alive(process: u32) -> bool {
    plain(number::KILL, [process as usize, 0, 0, 0, 0, 0]) != -ESRCH
}

/// Lets another thread of the machine run.
pub fn yield_processor() -> c_int {
    plain(number::SCHED_YIELD, [0; 6]) as c_int
}

/// Sleeps, or less long if a signal comes.
pub fn sleep(nanoseconds: u64) {
    let pause = Timespec::from_nanoseconds(nanoseconds);
    // SAFETY: the kernel reads the time, which lives until the call returns.
    unsafe { system(number::NANOSLEEP, [&pause as *const _ as usize, 0, 0, 0, 0, 0]) };
}

/// Ends this thread and nothing else.
pub fn exit_thread(code: usize) -> ! {
    loop {
        plain(number::EXIT, [code, 0, 0, 0, 0, 0]);
    }
}

/// Ends the process at once.
pub fn exit_process(code: usize) -> ! {
    loop {
        plain(number::EXIT_GROUP, [code, 0, 0, 0, 0, 0]);
    }
}

/// `membarrier` with a command.
pub fn memory_barrier(command: usize) {
    plain(number::MEMBARRIER, [command, 0, 0, 0, 0, 0]);
}

pub const SIG_BLOCK: usize = 0;
pub const SIG_SETMASK: usize = 2;

/// Changes the signals that are blocked in this thread. Returns those that were blocked before.
pub fn change_mask(how: usize, set: u64) -> u64 {
    let mut before = 0u64;
    let (new, old) = (&set as *const u64 as usize, &mut before as *mut u64 as usize);
    // SAFETY: the kernel reads and writes eight bytes each, as said, in variables of ours.
    unsafe { system(number::RT_SIGPROCMASK, [how, new, old, 8, 0, 0]) };
    before
}

pub const READ_EXECUTE: usize = 5;
pub const READ_WRITE_EXECUTE: usize = 7;

/// Changes what may be done with the pages of the program's code; false if the system refuses. Only ever to and from
/// [`READ_EXECUTE`], so nothing that reads or runs there notices.
pub fn protect_code(from: usize, length: usize, protection: usize) -> bool {
    // SAFETY: the pages stay where they are, and can be read and executed before and after.
    unsafe { system(number::MPROTECT, [from, length, protection, 0, 0, 0]) >= 0 }
}

/// Gives memory back to the system.
///
/// # Safety
/// It is a mapping, or a part of one, that nobody uses from now on.
pub unsafe fn unmap(at: usize, length: usize) {
    // SAFETY: nobody uses it, the caller says.
    unsafe { system(number::MUNMAP, [at, length, 0, 0, 0, 0]) };
}

/// Copies bytes of this process if they can be read; says nothing if they cannot.
///
/// # Safety
/// So many bytes can be written at `to`, and nobody else reads or writes them.
pub unsafe fn read_if_there(from: usize, to: *mut u8, length: usize) {
    let [here, there] = [[to as usize, length], [from, length]];
    let pieces = [here.as_ptr() as usize, there.as_ptr() as usize];
    // SAFETY: the kernel reads two descriptions of ours, writes where the caller lets us, and checks whether it can
    // read.
    unsafe { system(number::PROCESS_VM_READV, [pid() as usize, pieces[0], 1, pieces[1], 1, 0]) };
}

/// Whether a byte of the program's can be read. Where the kernel does not tell, it can.
pub fn can_read(at: usize) -> bool {
    static TELLS: Relaxed<u32> = Relaxed::zero();
    const YES: u32 = 1;
    const NO: u32 = 2;
    if TELLS.get() == 0 {
        TELLS.set(if reads_a_byte(&raw const TELLS as usize) { YES } else { NO });
    }
    TELLS.get() == NO || reads_a_byte(at)
}

fn reads_a_byte(at: usize) -> bool {
    let mut byte = 0u8;
    let [here, there] = [[&raw mut byte as usize, 1], [at, 1]];
    let pieces = [here.as_ptr() as usize, there.as_ptr() as usize];
    // SAFETY: the kernel reads two descriptions of ours, writes a byte of ours, and checks whether it can read.
    unsafe { system(number::PROCESS_VM_READV, [pid() as usize, pieces[0], 1, pieces[1], 1, 0]) == 1 }
}
