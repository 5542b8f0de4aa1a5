//! The shared memory, seen from the tool.

use crate::wire::{self, CHUNK, Header, OWN_CHUNK, OWN_CHUNKS, PAGE, Segment};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
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
    /// Before this turn of the schedule everything stands still until [`Ring::looked`]; 0: nowhere.
    pub look_before: usize,
    /// Threads run at the same time instead of one after the other.
    pub free: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { quantum: 10_000, seed: 0, schedule: Vec::new(), stop_at_end: false, look_before: 0, free: false }
    }
}

/// Memory that both processes have.
struct Mapping {
    memory: *mut u8,
    length: usize,
}

// SAFETY: the memory is only reached by atomics, or through the one `&mut Ring`.
unsafe impl Send for Mapping {}
// SAFETY: likewise.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn header(&self) -> &Header {
        // SAFETY: it is mapped as long as `self` lives; fields that change are atomics.
        unsafe { &*self.memory.cast() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more.
        unsafe { libc::munmap(self.memory.cast(), self.length) };
    }
}

/// The ring.
pub struct Ring {
    file: OwnedFd,
    mapping: Arc<Mapping>,
    chunks: usize,
    /// Where the first chunk starts.
    first: usize,
}

/// Chunks that single threads fill while they run freely.
pub struct OwnChunks {
    mapping: Arc<Mapping>,
    /// Where the table of those in use starts.
    table: usize,
}

impl OwnChunks {
    /// A word of a chunk, which the program may be writing.
    #[inline]
    pub fn word(&self, chunk: u32, index: usize) -> u64 {
        debug_assert!((chunk as usize) < OWN_CHUNKS && index < OWN_CHUNK / 8);
        self.words(chunk)[index].load(Acquire)
    }

    /// The words of a chunk.
    pub fn words(&self, chunk: u32) -> &[AtomicU64] {
        let first = self.table + TABLE + chunk as usize % OWN_CHUNKS * OWN_CHUNK;
        // SAFETY: inside the mapping, which lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.mapping.memory.add(first).cast(), OWN_CHUNK / 8) }
    }

    /// A thread may fill it again.
    pub fn give_back(&self, chunk: u32) {
        self.words(chunk).iter().for_each(|word| word.store(0, Relaxed));
        let at = self.table + chunk as usize % OWN_CHUNKS * size_of::<AtomicU32>();
        let header = self.mapping.header();
        // SAFETY: inside the mapping, as above.
        unsafe { (*self.mapping.memory.add(at).cast::<AtomicU32>()).store(0, Release) };
        header.given_back.fetch_add(1, Release);
        let word = &header.given_back as *const _;
        // SAFETY: the word is mapped.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Whether the program that fills them has ended.
    pub fn is_over(&self) -> bool {
        let owner = self.mapping.header().owner.load(Relaxed);
        // SAFETY: all zeroes is a valid siginfo, and it outlives the call, which leaves the program's status to be asked for.
        let (result, information) = unsafe {
            let mut information: libc::siginfo_t = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            (libc::waitid(libc::P_PID, owner, &mut information, options), information)
        };
        match result {
            0 => information.si_signo != 0,
            // It was started by a program that we have started.
            _ => is_dead(owner),
        }
    }
}

/// Whether a process has no threads any more. Its first one may be gone before the others.
fn is_dead(process: u32) -> bool {
    let Ok(state) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return true };
    let is_gone = state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']));
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).map_or(0, |tasks| tasks.count());
    is_gone && tasks <= 1
}

/// Bytes of the table of chunks of single threads.
const TABLE: usize = (OWN_CHUNKS * size_of::<AtomicU32>()).next_multiple_of(PAGE);

const CHUNKS: usize = 16;

impl Ring {
    /// A new ring, for one program.
    pub fn new(settings: &Settings) -> io::Result<Ring> {
        let first = PAGE + (settings.schedule.len() * size_of::<Segment>()).next_multiple_of(PAGE);
        let own = if settings.free { TABLE + OWN_CHUNKS * OWN_CHUNK } else { 0 };
        let length = first + CHUNKS * CHUNK + own;
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
            header.look_before = settings.look_before as u64;
            header.free = settings.free as u32;
            let schedule = memory.add(PAGE).cast::<Segment>();
            std::ptr::copy_nonoverlapping(settings.schedule.as_ptr(), schedule, settings.schedule.len());
        }
        Ok(Ring { file, mapping: Arc::new(Mapping { memory, length }), chunks: CHUNKS, first })
    }

    /// Where the program finds it.
    pub fn path(&self) -> String {
        shared_path(&self.file)
    }

    /// The first page.
    pub fn header(&self) -> &Header {
        self.mapping.header()
    }

    /// Changes a turn that is still to come, of a schedule that has it, while everything stands still.
    pub fn reschedule(&mut self, index: usize, segment: Segment) {
        assert!((index + 1) * size_of::<Segment>() <= self.first - PAGE);
        // SAFETY: inside the schedule, and nobody reads it now.
        unsafe { self.mapping.memory.add(PAGE).cast::<Segment>().add(index).write_volatile(segment) };
    }

    /// Lets a program go on that stands still to be looked at.
    pub fn looked(&self) {
        self.header().looked.store(1, Release);
        let word = &self.header().looked as *const _;
        // SAFETY: the word is mapped.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
    }

    /// The chunks of single threads, if these run freely.
    pub fn own_chunks(&self) -> Option<OwnChunks> {
        let table = self.first + self.chunks * CHUNK;
        (self.header().free != 0).then(|| OwnChunks { mapping: self.mapping.clone(), table })
    }

    fn chunk(&mut self, number: u32) -> &mut [u64] {
        let index = number as usize % self.chunks;
        // SAFETY: inside the mapping; the program does not touch a chunk that it handed over, or it is dead.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.memory.add(self.first + index * CHUNK).cast(), CHUNK / 8) }
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
        self.chunk(emptied)[0] = 0;
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
