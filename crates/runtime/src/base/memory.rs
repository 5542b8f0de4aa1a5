//! The runtime's own memory, locks and messages: nothing here touches the program's heap.

use crate::base::c::{self, number, system};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

/// A global that is guarded by something the type system does not see: the token or a [`Lock`], as its comment says.
pub struct Global<T>(UnsafeCell<T>);

unsafe impl<T> Sync for Global<T> {}

impl<T> Global<T> {
    pub const fn new(value: T) -> Global<T> {
        Global(UnsafeCell::new(value))
    }

    #[inline(always)]
    pub const fn get(&self) -> *mut T {
        self.0.get()
    }
}

/// Waits until the word changes from `value`, at most so many nanoseconds. 0, or minus an error.
pub fn futex_wait(word: &AtomicU32, value: u32, nanoseconds: Option<u64>, shared: bool) -> i64 {
    let time = nanoseconds.map(c::Timespec::from_nanoseconds);
    let time = time.as_ref().map_or(0, |t| t as *const _ as usize);
    let private = if shared { 0 } else { 128 };
    unsafe { system(number::FUTEX, [word as *const _ as usize, private, value as usize, time, 0, 0]) }
}

pub fn futex_wake(word: &AtomicU32, count: u32, shared: bool) {
    let operation = if shared { 1 } else { 1 | 128 };
    unsafe { system(number::FUTEX, [word as *const _ as usize, operation, count as usize, 0, 0, 0]) };
}

/// A small lock: 0 free, 1 held, 2 held and waited for.
pub struct Lock(AtomicU32);

impl Lock {
    pub const fn new() -> Lock {
        Lock(AtomicU32::new(0))
    }

    pub fn lock(&self) {
        for _ in 0..100 {
            if self.0.load(Relaxed) == 0 && self.0.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
                return;
            }
            core::hint::spin_loop();
        }
        while self.0.swap(2, Acquire) != 0 {
            futex_wait(&self.0, 2, None, false);
        }
    }

    pub fn unlock(&self) {
        if self.0.swap(0, Release) == 2 {
            futex_wake(&self.0, 1, false);
        }
    }

    pub fn is_held(&self) -> bool {
        self.0.load(Relaxed) != 0
    }
}

/// Where the runtime's own mappings go: away from everything else, so that the program's own addresses do not depend on
/// how much the runtime needs.
static NEXT: AtomicUsize = AtomicUsize::new(0x1a00_0000_0000);

/// New memory, zeroed; or, with a descriptor, the contents of a file, shared.
pub fn map(length: usize, descriptor: Option<i64>) -> *mut u8 {
    const READ_WRITE: usize = 3;
    const SHARED: usize = 1;
    const PRIVATE_ANONYMOUS: usize = 0x2 | 0x20 | 0x4000;
    const FIXED_NOREPLACE: usize = 0x100000;
    let length = length.next_multiple_of(4096);
    let at = NEXT.fetch_add(length + 4096, Relaxed);
    let (flags, descriptor) = match descriptor {
        Some(descriptor) => (SHARED, descriptor as usize),
        None => (PRIVATE_ANONYMOUS, usize::MAX),
    };
    let got = unsafe { system(number::MMAP, [at, length, READ_WRITE, flags | FIXED_NOREPLACE, descriptor, 0]) };
    if got < 0 {
        die("out of memory");
    }
    got as *mut u8
}

pub fn say(parts: &[&str]) {
    let mut line = [0u8; 512];
    let mut length = 0;
    for part in ["snag: "].iter().chain(parts).chain(&["\n"]) {
        for &byte in part.as_bytes() {
            if length < line.len() {
                line[length] = byte;
                length += 1;
            }
        }
    }
    unsafe { system(number::WRITE, [2, line.as_ptr() as usize, length, 0, 0, 0]) };
}

/// Only before the program itself has started: later, recording ends and the program goes on.
pub fn die(why: &str) -> ! {
    say(&["the runtime cannot start: ", why]);
    const EXIT_GROUP: i64 = 231;
    loop {
        unsafe { system(EXIT_GROUP, [2, 0, 0, 0, 0, 0]) };
    }
}

/// The allocator of the runtime itself: free lists by powers of two over its own mappings.
struct Own;

#[global_allocator]
static OWN: Own = Own;

static OWN_LOCK: Lock = Lock::new();

/// Guarded by `OWN_LOCK`.
static OWN_STATE: Global<OwnState> = Global::new(OwnState { next: 0, end: 0, free: [0; 24] });

struct OwnState {
    next: usize,
    end: usize,
    /// First free block of each size; its first word is the next one.
    free: [usize; 24],
}

const LARGE: usize = 1 << 20;

fn class_of(layout: Layout) -> usize {
    layout.size().max(layout.align()).max(16).next_power_of_two()
}

unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = class_of(layout);
        if size >= LARGE {
            return map(size, None);
        }
        OWN_LOCK.lock();
        let block = unsafe {
            let state = &mut *OWN_STATE.get();
            let list = &mut state.free[size.trailing_zeros() as usize];
            if *list != 0 {
                let block = *list;
                *list = *(block as *const usize);
                block
            } else {
                let mut block = state.next.next_multiple_of(size);
                if state.next == 0 || block + size > state.end {
                    block = map(4 * LARGE, None) as usize;
                    state.end = block + 4 * LARGE;
                }
                state.next = block + size;
                block
            }
        };
        OWN_LOCK.unlock();
        block as *mut u8
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let size = class_of(layout);
        if size >= LARGE {
            unsafe { system(number::MUNMAP, [block as usize, size, 0, 0, 0, 0]) };
            return;
        }
        OWN_LOCK.lock();
        unsafe {
            let list = &mut (*OWN_STATE.get()).free[size.trailing_zeros() as usize];
            *(block as *mut usize) = *list;
            *list = block as usize;
        }
        OWN_LOCK.unlock();
    }
}
