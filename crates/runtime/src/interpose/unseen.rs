//! Blocks that the allocator hands out where nothing counts: inside calls of the C library, and before a thread is known.
//!
//! There is no record of them then, as whoever asks for one need not have the token. But the memory may have belonged to a
//! block that was freed, and must not be taken for that when the program uses it or gives it back. So they are noted here,
//! without a lock, and the next thread that has the token records them.

use crate::base::c::Pointer;
use crate::base::record::put3;
use crate::wire::{head, op};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

/// How many can be noted at a time.
const ROOM: usize = 256;

/// No block has these addresses.
const NOTHING: usize = 0;
const RESERVED: usize = 1;

struct Block {
    address: AtomicUsize,
    size: AtomicUsize,
}

static BLOCKS: [Block; ROOM] =
    [const { Block { address: AtomicUsize::new(NOTHING), size: AtomicUsize::new(0) } }; ROOM];

/// About how many there are: never nothing while there is one.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// There was no room for one.
static LOST: AtomicBool = AtomicBool::new(false);

/// A block was handed out.
#[cold]
pub fn appeared(block: Pointer, size: usize) {
    COUNT.fetch_add(1, SeqCst);
    let free = BLOCKS.iter().find(|slot| slot.address.compare_exchange(NOTHING, RESERVED, Acquire, Relaxed).is_ok());
    match free {
        Some(slot) => {
            slot.size.store(size, Relaxed);
            slot.address.store(block as usize, Release);
        }
        None => {
            LOST.store(true, Relaxed);
            COUNT.fetch_sub(1, SeqCst);
        }
    }
}

/// It was given back where nothing counts, either.
pub fn disappeared(block: Pointer) {
    if COUNT.load(Relaxed) == 0 {
        return;
    }
    let known = |slot: &&Block| slot.address.compare_exchange(block as usize, NOTHING, Acquire, Relaxed).is_ok();
    if BLOCKS.iter().find(known).is_some() {
        COUNT.fetch_sub(1, SeqCst);
    }
}

/// Records them, with the token.
#[inline(always)]
pub fn record() {
    if COUNT.load(Relaxed) > 0 {
        record_all();
    }
}

#[cold]
fn record_all() {
    for slot in &BLOCKS {
        let address = slot.address.load(Acquire);
        let size = slot.size.load(Relaxed);
        let is_block = address > RESERVED;
        if is_block && slot.address.compare_exchange(address, NOTHING, AcqRel, Relaxed).is_ok() {
            COUNT.fetch_sub(1, SeqCst);
            put3(head(op::APPEARED, 0, 0), address as u64, size as u64);
        }
    }
    if LOST.swap(false, Relaxed) {
        put3(head(op::APPEARED, 0, 0), 0, 0);
    }
}
