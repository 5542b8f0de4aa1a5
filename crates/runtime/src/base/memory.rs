//! The runtime's own memory: nothing here touches the program's heap.
//!
//! The allocator is a small one of our own, because the system's is the program's heap, whose blocks are events, and
//! every allocator from elsewhere would be a dependency.

use crate::base::kernel::{self, number, system};
use crate::base::lock::Mutex;
use crate::base::messages::die;
use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Where the runtime's own mappings go: away from everything else, so that the program's own addresses do not depend on
/// how much the runtime needs.
static NEXT: AtomicUsize = AtomicUsize::new(0x1a00_0000_0000);

/// Where memory goes whose addresses the program sees: what else is mapped here must not move it.
static NEXT_SEEN: AtomicUsize = AtomicUsize::new(0x1900_0000_0000);

/// New memory, zeroed; or, with a descriptor, the contents of a file, shared.
pub fn map(length: usize, descriptor: Option<i64>) -> *mut u8 {
    map_from(&NEXT, length, descriptor)
}

/// New memory, zeroed, whose address the program sees: it is the same when the run is repeated.
pub fn map_seen(length: usize) -> *mut u8 {
    map_from(&NEXT_SEEN, length, None)
}

fn map_from(next: &AtomicUsize, length: usize, descriptor: Option<i64>) -> *mut u8 {
    const READ_WRITE: usize = 3;
    const SHARED: usize = 1;
    const PRIVATE_ANONYMOUS: usize = 0x2 | 0x20 | 0x4000;
    const FIXED_NOREPLACE: usize = 0x100000;
    let length = length.next_multiple_of(4096);
    let at = next.fetch_add(length + 4096, Relaxed);
    let (flags, descriptor) = match descriptor {
        Some(descriptor) => (SHARED, descriptor as usize),
        None => (PRIVATE_ANONYMOUS, usize::MAX),
    };
    // SAFETY: the kernel maps new memory and refuses to replace what is there, so nobody loses any.
    let got = unsafe { system(number::MMAP, [at, length, READ_WRITE, flags | FIXED_NOREPLACE, descriptor, 0]) };
    if got < 0 {
        die("out of memory");
    }
    got as *mut u8
}

/// Has the allocator take its first pages now, so that they are where they would be in another run.
pub fn prepare() {
    core::hint::black_box(Box::new(0u64));
}

/// The allocator of the runtime itself: free lists by powers of two over its own mappings.
struct Own;

#[global_allocator]
static OWN: Own = Own;

static STATE: Mutex<State> = Mutex::new(State { next: 0, end: 0, free: [0; 24] });

struct State {
    next: usize,
    end: usize,
    /// Address of the first free block of each size; its first word is the next one.
    free: [usize; 24],
}

const LARGE: usize = 1 << 20;

fn class_of(layout: Layout) -> usize {
    layout.size().max(layout.align()).max(16).next_power_of_two()
}

impl State {
    fn take(&mut self, size: usize) -> usize {
        let list = &mut self.free[size.trailing_zeros() as usize];
        if *list != 0 {
            let block = *list;
            // SAFETY: the block was given back (`put_back`), which has written the word, and nobody has it now.
            *list = unsafe { *(block as *const usize) };
            return block;
        }
        let mut block = self.next.next_multiple_of(size);
        if self.next == 0 || block + size > self.end {
            block = map(4 * LARGE, None) as usize;
            self.end = block + 4 * LARGE;
        }
        self.next = block + size;
        block
    }

    /// # Safety
    /// The block came from `take` with the same size, and its owner no longer uses it.
    unsafe fn put_back(&mut self, block: usize, size: usize) {
        let list = &mut self.free[size.trailing_zeros() as usize];
        // SAFETY: a block has at least 16 bytes, is aligned to its size, and is ours alone again.
        unsafe { *(block as *mut usize) = *list };
        *list = block;
    }
}

// SAFETY: blocks are powers of two at multiples of their size, at least as large and as aligned as the layout; none is
// handed out twice before it is given back, as the lock guards the lists. `map` gives larger ones their own pages.
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = class_of(layout);
        if size >= LARGE {
            return map(size, None);
        }
        STATE.lock().take(size) as *mut u8
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller says of the layout.
        let block = unsafe { self.alloc(layout) };
        // Large blocks are new pages, which the kernel has zeroed.
        if class_of(layout) < LARGE {
            // SAFETY: the block was taken just now, and is as large as the layout.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let size = class_of(layout);
        if size >= LARGE {
            // SAFETY: `alloc` has mapped it with this size for this layout, and its owner gives it up.
            return unsafe { kernel::unmap(block as usize, size) };
        }
        // SAFETY: `alloc` has taken it with this size for this layout, and its owner gives it up.
        unsafe { STATE.lock().put_back(block as usize, size) };
    }
}
