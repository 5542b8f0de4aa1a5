//! Words of a chunk: memory that the runtime writes and the tool, another process, reads at the same time.

use crate::base::kernel;
use crate::base::program::Address;
use crate::base::relaxed::Word;
use crate::protocol::seal::{self, Words};
use crate::wire::OWN_SLACK;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

/// Where a record begins in a chunk, or a word of it that is filled in later.
///
/// Whoever makes one answers for its memory: the chunk stays mapped, and there is room for the longest record from the
/// first word on. What is written through it stays within that record.
#[derive(Clone, Copy)]
pub struct Slot(NonNull<u64>);

impl Slot {
    /// # Safety
    /// At least `wire::OWN_SLACK` words of shared memory are here, and stay here as long as the program runs.
    #[inline(always)]
    pub unsafe fn new(word: NonNull<u64>) -> Slot {
        Slot(word)
    }

    #[inline(always)]
    pub fn address(self) -> usize {
        self.0.as_ptr() as usize
    }

    #[inline(always)]
    fn word(self, index: usize) -> &'static AtomicU64 {
        // SAFETY: the word is in the record that begins here, for which there is room (see the type). Both processes
        // use it atomically.
        unsafe { AtomicU64::from_ptr(self.0.as_ptr().wrapping_add(index)) }
    }

    /// A word further on in the same record, or the beginning of the next.
    #[inline(always)]
    pub fn plus(self, words: usize) -> Slot {
        // SAFETY: the chunk goes on behind the record, so this is no null pointer.
        Slot(unsafe { NonNull::new_unchecked(self.0.as_ptr().wrapping_add(words)) })
    }

    /// Stores a word that others can see before whatever comes next is done, as they can see all stores before.
    #[inline(always)]
    pub fn show(self, word: u64) {
        self.word(0).swap(word, SeqCst);
    }

    /// Writes a record; where the next one goes.
    #[inline(always)]
    pub fn write<const N: usize>(self, words: [u64; N]) -> Slot {
        const { assert!(N > 0 && N < OWN_SLACK, "there is room for it") };
        seal::write(&self, words);
        self.plus(N)
    }

    /// Asks the processor for the memory that comes. The tool has read it, so it is in the cache of another processor;
    /// waiting for it takes as long as all the rest.
    #[inline(always)]
    pub fn prefetch(self) {
        // SAFETY: a hint, which does nothing where there is no memory.
        unsafe {
            core::arch::asm!("prefetchw [{0} + 1024]", in(reg) self.0.as_ptr(), options(nostack, preserves_flags));
        }
    }

    /// Copies bytes of the program into the record from this word on, one by one.
    pub fn copy(self, from: Address, length: usize) {
        for i in 0..length {
            self.copy_byte(i, from.plus(i).byte());
        }
    }

    #[inline(always)]
    fn copy_byte(self, index: usize, byte: u8) {
        // SAFETY: the record has room for its contents (see the type), and the tool reads them only when the record is
        // whole, or when this process is gone.
        unsafe { self.0.as_ptr().cast::<u8>().wrapping_add(index).write_volatile(byte) };
    }

    /// The same if the bytes may not be there to be read; then the record keeps its own.
    pub fn copy_if_there(self, from: Address, length: usize) {
        // SAFETY: as in `copy_byte`.
        unsafe { kernel::read_if_there(from.0, self.0.as_ptr().cast(), length) };
    }
}

impl Words for Slot {
    #[inline(always)]
    fn set(&self, index: usize, word: u64) {
        self.word(index).store(word, Relaxed);
    }

    #[inline(always)]
    fn publish(&self, word: u64) {
        self.word(0).store(word, Release);
    }
}

impl Word for Option<Slot> {
    type Atomic = AtomicPtr<u64>;
    #[allow(clippy::declare_interior_mutable_const)]
    const ZERO: AtomicPtr<u64> = AtomicPtr::new(core::ptr::null_mut());

    #[inline(always)]
    fn load(from: &AtomicPtr<u64>) -> Option<Slot> {
        NonNull::new(from.load(Relaxed)).map(Slot)
    }

    #[inline(always)]
    fn store(to: &AtomicPtr<u64>, value: Option<Slot>) {
        to.store(value.map_or(core::ptr::null_mut(), |slot| slot.0.as_ptr()), Relaxed);
    }
}
