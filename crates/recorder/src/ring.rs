//! The shared memory, seen from the tool.
//!
//! The program can do to it whatever it likes: write over it, cut it off, forge it. So it is sealed, which keeps its length; what the tool has to
//! rely on (its own position, how the program was started) it has in memory of its own; a chunk is copied before it is looked at; and
//! every number that comes from there is checked. Where it cannot be right, [`Ring::damage`] says so, and no more is taken from it.

use crate::futex;
use crate::selection::Selection;
use crate::wire::{self, CHUNK, Header, OWN_CHUNK, OWN_CHUNKS, PAGE, Segment};
use snag_models::Models;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::time::Duration;

/// A file without a name, in memory.
pub fn memory_file(name: &str) -> io::Result<OwnedFd> {
    let name = CString::new(name).expect("no zero byte");
    // SAFETY: a plain system call; the descriptor is ours alone.
    match unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel has made it just now, and nobody else has it.
        descriptor => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
    }
}

/// Nobody can make a file in memory longer or shorter any more, nor, with `for_good`, write to it.
pub fn seal(file: &OwnedFd, for_good: bool) -> io::Result<()> {
    let write = if for_good { libc::F_SEAL_WRITE } else { 0 };
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL | write;
    // SAFETY: a plain system call on a descriptor of ours.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
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
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Scheduling points after which another thread gets its turn; 0: the runtime decides.
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
    /// What the other threads may still do when the program is about to end.
    pub drain: Drain,
    /// What functions of libraries do that are not instrumented.
    pub models: Models,
    /// Which functions are left out.
    pub selection: Selection,
}

/// How long the end of a program is put off, so that threads that can run do. Written as `STEPS` or
/// `STEPS,MILLISECONDS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Steps of each thread; 0: the end is not put off.
    pub steps: u64,
    /// Milliseconds for all of them.
    pub milliseconds: u32,
}

impl Drain {
    /// The end is not put off.
    pub const OFF: Drain = Drain { steps: 0, milliseconds: 0 };
}

impl Default for Drain {
    fn default() -> Drain {
        Drain { steps: 5000, milliseconds: 200 }
    }
}

impl fmt::Display for Drain {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.steps {
            0 => f.write_str("0"),
            steps => write!(f, "{steps},{}", self.milliseconds),
        }
    }
}

impl FromStr for Drain {
    type Err = String;

    fn from_str(text: &str) -> Result<Drain, String> {
        let (steps, milliseconds) = match text.split_once(',') {
            Some((steps, milliseconds)) => (steps, Some(milliseconds)),
            None => (text, None),
        };
        let steps = steps.parse().map_err(|_| format!("'{steps}' is not a number of steps"))?;
        let milliseconds = match milliseconds {
            Some(text) => text.parse().map_err(|_| format!("'{text}' is not a number of milliseconds"))?,
            None => Drain::default().milliseconds,
        };
        Ok(if steps == 0 { Drain::OFF } else { Drain { steps, milliseconds } })
    }
}

/// Memory that both processes have.
pub(crate) struct Mapping {
    memory: *mut u8,
    length: usize,
}

// SAFETY: the memory is only reached by atomics, or through the one `&mut Ring`.
unsafe impl Send for Mapping {}
// SAFETY: likewise.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn header(&self) -> &Header {
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
    /// Whether threads run freely.
    free: bool,
    /// Chunks that were emptied. The header has it for the program, which may have changed it there.
    emptied: u32,
    /// The chunk that is looked at.
    copy: Box<[u64]>,
    /// How many of its words were looked at before it was full.
    seen: usize,
    /// The program that is started, and the one that records, as soon as there is one: it may have been started by the first.
    program: Arc<Program>,
    damage: Option<&'static str>,
}

/// Processes that are recorded. What the header says of the owner counts only once.
#[derive(Default)]
struct Program {
    started: AtomicU32,
    owner: AtomicU32,
}

impl Program {
    fn owner(&self, header: &Header) -> u32 {
        match self.owner.load(Relaxed) {
            0 => {
                let owner = header.owner.load(Relaxed);
                self.owner.store(owner, Relaxed);
                owner
            }
            owner => owner,
        }
    }
}

/// What is wrong with the ring if the program has changed what only the tool may, or what only the runtime may.
const WRITTEN_OVER: &str = "the program has written over the memory that it shares with snag";

/// Chunks that single threads fill while they run freely.
pub struct OwnChunks {
    mapping: Arc<Mapping>,
    /// Where the table of those in use starts.
    table: usize,
    program: Arc<Program>,
}

impl OwnChunks {
    /// A word of a chunk, which the program may be writing. Beyond its end there is nothing but zeros.
    #[inline]
    pub fn word(&self, chunk: u32, index: usize) -> u64 {
        self.words(chunk).get(index).map_or(0, |word| word.load(Acquire))
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
        self.mark(chunk);
        self.wake();
    }

    /// All of them, whoever has them: nobody looks at them any more.
    fn give_all_back(&self) {
        (0..OWN_CHUNKS as u32).for_each(|chunk| self.mark(chunk));
        self.wake();
    }

    fn mark(&self, chunk: u32) {
        let at = self.table + chunk as usize % OWN_CHUNKS * size_of::<AtomicU32>();
        // SAFETY: inside the mapping, as above.
        unsafe { (*self.mapping.memory.add(at).cast::<AtomicU32>()).store(0, Release) };
    }

    fn wake(&self) {
        let header = self.mapping.header();
        header.given_back.fetch_add(1, Release);
        futex::wake(&header.given_back);
    }

    /// Whether the program that fills them has ended.
    pub fn is_over(&self) -> bool {
        // If it was started by a program that we have started, that one's end is the end of the recording, too.
        let processes = [self.program.owner(self.mapping.header()), self.program.started.load(Relaxed)];
        processes.iter().any(|&process| process != 0 && has_ended(process))
    }
}

impl OwnChunks {
    /// Whether somebody has stopped the program.
    pub fn is_stopped(&self) -> bool {
        let owner = self.program.owner(self.mapping.header());
        let state = std::fs::read_to_string(format!("/proc/{owner}/stat")).unwrap_or_default();
        state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['T', 't']))
    }
}

fn has_ended(process: u32) -> bool {
    // SAFETY: all zeroes is a valid siginfo, and it outlives the call, which leaves the program's status to be asked for.
    let (result, information) = unsafe {
        let mut information: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        (libc::waitid(libc::P_PID, process, &mut information, options), information)
    };
    match result {
        0 => information.si_signo != 0,
        _ => is_dead(process),
    }
}

/// Whether a process has no threads any more. Its first one may be gone before the others.
pub(crate) fn is_dead(process: u32) -> bool {
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
        let models = settings.models.table();
        let table = PAGE + (settings.schedule.len() * size_of::<Segment>()).next_multiple_of(PAGE);
        let first = table + size_of_val(&*models).next_multiple_of(PAGE);
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
        seal(&file, false)?;
        let memory: *mut u8 = memory.cast();
        // SAFETY: the header lies in the first page and nobody else has the memory yet.
        unsafe {
            let header = &mut *memory.cast::<Header>();
            header.magic = wire::MAGIC;
            header.version = wire::VERSION;
            header.chunks = CHUNKS as u32;
            header.tool = std::process::id();
            header.quantum = settings.quantum;
            header.seed = settings.seed;
            header.watchdog = 20;
            header.segments = settings.schedule.len() as u64;
            header.stop_at_end = settings.stop_at_end as u32;
            header.drain_steps = settings.drain.steps;
            header.drain_time = settings.drain.milliseconds;
            header.look_before = settings.look_before as u64;
            header.free = settings.free as u32;
            let schedule = memory.add(PAGE).cast::<Segment>();
            std::ptr::copy_nonoverlapping(settings.schedule.as_ptr(), schedule, settings.schedule.len());
            header.models = models.len() as u64;
            std::ptr::copy_nonoverlapping(models.as_ptr(), memory.add(table).cast(), models.len());
        }
        Ok(Ring {
            file,
            mapping: Arc::new(Mapping { memory, length }),
            chunks: CHUNKS,
            first,
            free: settings.free,
            emptied: 0,
            copy: vec![0; CHUNK / 8].into_boxed_slice(),
            seen: 0,
            program: Arc::default(),
            damage: None,
        })
    }

    /// Where the program finds it.
    pub fn path(&self) -> String {
        shared_path(&self.file)
    }

    /// The first page. The program may write there whatever it likes.
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
        futex::wake(&self.header().looked);
    }

    /// The memory, for whoever else looks at its header.
    pub(crate) fn mapping(&self) -> Arc<Mapping> {
        self.mapping.clone()
    }

    /// The program has been started as this process.
    pub fn started(&self, process: u32) {
        self.program.started.store(process, Relaxed);
    }

    /// The process that records; 0 if there is none yet.
    pub fn owner(&self) -> u32 {
        self.program.owner(self.header())
    }

    /// What the program has done to the memory that it must not do; then no more is taken from there.
    pub fn damage(&self) -> Option<&'static str> {
        let header: *const Header = self.mapping.memory.cast();
        // SAFETY: they are mapped; whatever the program has written there is a number.
        let now = unsafe {
            let numbers = [&raw const (*header).version, &raw const (*header).chunks, &raw const (*header).tool];
            ((&raw const (*header).magic).read_volatile(), numbers.map(|number| number.read_volatile()))
        };
        let then = (wire::MAGIC, [wire::VERSION, CHUNKS as u32, std::process::id()]);
        self.damage.or((now != then).then_some(WRITTEN_OVER))
    }

    /// Takes no more from there: what is there makes no sense.
    pub fn abandon(&mut self) {
        self.damage.get_or_insert(WRITTEN_OVER);
    }

    /// The chunks of single threads, if these run freely.
    pub fn own_chunks(&self) -> Option<OwnChunks> {
        let table = self.first + self.chunks * CHUNK;
        let (mapping, program) = (self.mapping.clone(), self.program.clone());
        self.free.then_some(OwnChunks { mapping, table, program })
    }

    fn chunk(&self, number: u32) -> *mut u64 {
        let index = number as usize % self.chunks;
        // SAFETY: inside the mapping.
        unsafe { self.mapping.memory.add(self.first + index * CHUNK).cast() }
    }

    /// Copies a chunk, so that what was checked stays as it is.
    fn take(&mut self, number: u32) {
        let chunk = self.chunk(number);
        // SAFETY: inside the mapping, and long enough. Should the program write there in the meantime, the copy has one or the other,
        // and the words of a copy are only numbers.
        unsafe { std::ptr::copy_nonoverlapping(chunk.cast_const(), self.copy.as_mut_ptr(), CHUNK / 8) };
    }

    /// How many chunks are full, after at most a while if there are none.
    fn full(&mut self, patience: Duration) -> u32 {
        let emptied = self.emptied;
        let header = self.header();
        if header.emptied.load(Relaxed) != emptied {
            // The program may be waiting for it to become right.
            header.emptied.store(emptied, Release);
            self.damage.get_or_insert(WRITTEN_OVER);
        }
        let header = self.header();
        let mut filled = header.filled.load(Acquire);
        if filled == emptied {
            futex::wait(&header.filled, filled, patience);
            filled = header.filled.load(Acquire);
        }
        let full = filled.wrapping_sub(emptied);
        if full as usize > self.chunks {
            self.damage.get_or_insert(WRITTEN_OVER);
        }
        full
    }

    /// Waits for a chunk that is full and hands a copy of it to `each`; false if there was none after a while.
    pub fn next(&mut self, patience: Duration, each: impl FnOnce(&[u64])) -> bool {
        let full = self.full(patience);
        if self.damage.is_some() {
            // Nobody wants what comes, but the program must not have to wait.
            self.emptied = self.emptied.wrapping_add(full);
            self.give_back();
            if let Some(chunks) = self.own_chunks() {
                chunks.give_all_back();
            }
            if full != 0 {
                std::thread::sleep(patience.min(PAUSE));
            }
            return false;
        }
        if full == 0 {
            return false;
        }
        self.take(self.emptied);
        // SAFETY: inside the mapping; the program fills the chunk when it was given back.
        unsafe { self.chunk(self.emptied).write_volatile(0) };
        self.emptied = self.emptied.wrapping_add(1);
        self.header().emptied.store(self.emptied, Release);
        // A program that waits has filled all chunks, and fills no more: it comes to this. Waking it for each chunk would let it
        // run for a moment only.
        if full as usize - 1 <= self.chunks / 2 {
            self.give_back();
        }
        each(&self.copy[std::mem::take(&mut self.seen)..]);
        true
    }

    /// Looks at the chunk that is being filled; `each` says how many words of it need not be looked at again. They must be records
    /// that others come after.
    pub fn peek(&mut self, each: impl FnOnce(&[u64]) -> usize) {
        if self.damage.is_some() || self.full(Duration::ZERO) != 0 {
            return;
        }
        let chunk = self.chunk(self.emptied).cast::<AtomicU64>();
        let mut at = self.seen;
        // The first word of a record is stored last, so with it the others are there: they are loaded after it.
        while at < CHUNK / 8 {
            // SAFETY: inside the mapping.
            self.copy[at] = unsafe { (*chunk.add(at)).load(Acquire) };
            if self.copy[at] == 0 && self.copy[self.seen..=at].ends_with(&[0; MOST_ZEROS]) {
                break;
            }
            at += 1;
        }
        let end = (at + 1).min(CHUNK / 8);
        self.seen += each(&self.copy[self.seen..end]).min(end - self.seen);
    }

    /// Lets a program go on that waits for room.
    fn give_back(&self) {
        let header = self.header();
        header.emptied.store(self.emptied, Release);
        futex::wake(&header.emptied);
    }

    /// What a program that is dead, or stopped, has put into the chunk that it was filling.
    pub fn rest(&mut self) -> &[u64] {
        let filled = self.header().filled.load(Acquire);
        if filled.wrapping_sub(self.emptied) as usize > self.chunks {
            self.damage.get_or_insert(WRITTEN_OVER);
        }
        if self.damage.is_some() {
            return &[];
        }
        self.take(filled);
        let seen = if filled == self.emptied { self.seen } else { 0 };
        if (filled as usize) < self.chunks && has_hole(&self.copy[seen..]) {
            self.damage = Some(WRITTEN_OVER);
            return &[];
        }
        &self.copy[seen..]
    }
}

/// Whether there is something behind the last record of a chunk that was never filled before.
fn has_hole(words: &[u64]) -> bool {
    let mut at = 0;
    while at < words.len() && words[at] != 0 {
        at = at.saturating_add(wire::words(&words[at..]));
    }
    let Some(rest) = words.get(at..) else { return false };
    // Of a record that is being written everything is there but the first word.
    rest.iter().take(MOST_ZEROS).all(|&word| word == 0) && rest.iter().any(|&word| word != 0)
}

/// So many zeros in a row are behind the last record: the words of one are fewer.
const MOST_ZEROS: usize = 64;

/// How long a program that goes on after it has damaged the ring may fill it before that is emptied again.
const PAUSE: Duration = Duration::from_millis(5);
