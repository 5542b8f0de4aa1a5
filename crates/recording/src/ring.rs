//! The shared memory, seen from the tool.

use crate::wire::{self, CHUNK, Header, PAGE, Segment};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// A file without a name, in memory.
pub fn memory_file(name: &str) -> io::Result<OwnedFd> {
    let name = CString::new(name).expect("no zero byte");
    // SAFETY: a plain system call; the descriptor is ours alone.
    match unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        descriptor => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
    }
}

/// How other processes open a descriptor of this one. Always of the same length: the size of the environment decides
/// where a program's stack begins, and in a replay it should begin where it did.
pub fn shared_path(file: &OwnedFd) -> String {
    const LENGTH: usize = 40;
    let path = format!("{}/fd/{}", std::process::id(), file.as_raw_fd());
    let slashes = "/".repeat(LENGTH.saturating_sub("/proc".len() + path.len()).max(1));
    format!("/proc{slashes}{path}")
}

/// How the program is to be run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Scheduling points after which another thread gets its turn.
    pub quantum: u64,
    /// 0: threads take turns; else they are picked at random.
    pub seed: u64,
    /// A schedule to follow; empty: none.
    pub schedule: Vec<Segment>,
    /// Stop all threads at the end of the schedule.
    pub stop_at_end: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { quantum: 10_000, seed: 0, schedule: Vec::new(), stop_at_end: false }
    }
}

/// The ring.
pub struct Ring {
    file: OwnedFd,
    memory: *mut u8,
    length: usize,
    chunks: usize,
    /// Where the first chunk starts.
    first: usize,
}

// SAFETY: the memory is only reached through `&self` by atomics and through `&mut self`.
unsafe impl Send for Ring {}

const CHUNKS: usize = 16;

impl Ring {
    /// A new ring, for one program.
    pub fn new(settings: &Settings) -> io::Result<Ring> {
        let first = PAGE + (settings.schedule.len() * size_of::<Segment>()).next_multiple_of(PAGE);
        let length = first + CHUNKS * CHUNK;
        let file = memory_file("snag-recording")?;
        // SAFETY: plain system calls on our own descriptor.
        let memory = unsafe {
            if libc::ftruncate(file.as_raw_fd(), length as i64) != 0 {
                return Err(io::Error::last_os_error());
            }
            let flags = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), length, flags, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory: *mut u8 = memory.cast();
        // SAFETY: the header lies in the first page and nobody else has the memory yet.
        unsafe {
            let header = &mut *memory.cast::<Header>();
            header.magic = wire::MAGIC;
            header.version = wire::VERSION;
            header.chunks = CHUNKS as u32;
            header.tool = std::process::id();
            header.quantum = settings.quantum.max(1);
            header.seed = settings.seed;
            header.watchdog = 20;
            header.segments = settings.schedule.len() as u64;
            header.stop_at_end = settings.stop_at_end as u32;
            let schedule = memory.add(PAGE).cast::<Segment>();
            std::ptr::copy_nonoverlapping(settings.schedule.as_ptr(), schedule, settings.schedule.len());
        }
        Ok(Ring { file, memory, length, chunks: CHUNKS, first })
    }

    /// Where the program finds it.
    pub fn path(&self) -> String {
        shared_path(&self.file)
    }

    /// The first page.
    pub fn header(&self) -> &Header {
        // SAFETY: it is mapped as long as `self` lives; fields that change are atomics.
        unsafe { &*self.memory.cast() }
    }

    fn chunk(&mut self, number: u32) -> &mut [u64] {
        let index = number as usize % self.chunks;
        // SAFETY: inside the mapping; the program does not touch a chunk that it handed over, or it is dead.
        unsafe { std::slice::from_raw_parts_mut(self.memory.add(self.first + index * CHUNK).cast(), CHUNK / 8) }
    }

    /// Waits for a chunk that is full and hands it to `each`; false if there was none after a while.
    pub fn next(&mut self, patience: Duration, each: impl FnOnce(&[u64])) -> bool {
        let emptied = self.header().emptied.load(Relaxed);
        let filled = self.header().filled.load(Acquire);
        if filled == emptied {
            let time = libc::timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos() as i64 };
            let word = &self.header().filled as *const _;
            // SAFETY: the word is mapped.
            unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, filled, &time as *const _) };
        }
        if self.header().filled.load(Acquire) == emptied {
            return false;
        }
        each(self.chunk(emptied));
        self.chunk(emptied).fill(0);
        let emptied = emptied.wrapping_add(1);
        self.header().emptied.store(emptied, Release);
        // A program that waits has filled all chunks, and fills no more: it comes to this. Waking it for each chunk would let it
        // run for a moment only.
        let full = self.header().filled.load(Acquire).wrapping_sub(emptied) as usize;
        if full <= self.chunks / 2 {
            let word = &self.header().emptied as *const _;
            // SAFETY: the word is mapped.
            unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
        }
        true
    }

    /// What a program that is dead, or stopped, has put into the chunk that it was filling.
    pub fn rest(&mut self) -> &[u64] {
        let filled = self.header().filled.load(Acquire);
        self.chunk(filled)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more.
        unsafe { libc::munmap(self.memory.cast(), self.length) };
    }
}
