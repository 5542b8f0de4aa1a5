//! The heap: the real allocator hands out the blocks, and records say which block, when.

use crate::base::c::{
    self, __libc_calloc, __libc_free, __libc_malloc, __libc_memalign, __libc_realloc, ENOMEM, Pointer,
    malloc_usable_size,
};
use crate::base::program::Address;
use crate::base::record::{put_range, put3};
use crate::base::thread::{self, Thread};
use crate::interpose::blocking::call_pc;
use crate::interpose::forbidden::before_change;
use crate::interpose::lifecycle::is_ours;
use crate::interpose::missing::{blocks, may_be_unreadable};
use crate::interpose::unseen;
use crate::scheduler::free_running::{is_free, leaving};
use crate::scheduler::{Next, enter, is_on};
use crate::wire::{head, op};
use crate::{pass_on, stubs};
use core::ffi::c_int;

/// Takes a step. Returns whether events of the heap count in this thread.
fn counts(next: Next, pc: usize) -> bool {
    let recorded = is_on() && thread::current().is_some_and(Thread::is_outside);
    recorded && !is_ours(pc) && enter(next).is_some()
}

/// Whether the program wants the current thread's accesses ignored: to free memory is one.
fn is_ignored() -> bool {
    thread::current().is_some_and(|thread| thread.ignoring.get() > 0)
}

fn frees(block: Pointer, pc: usize) -> Next {
    Next::on(op::FREE, pc, block as usize)
}

/// The bytes of a block that the program may use: all that `malloc_usable_size` would promise it. What lies beyond its
/// request may have belonged to a block that was freed, so it has to be part of this one.
fn whole(block: Pointer, size: usize) -> u64 {
    usable(block).max(size) as u64
}

/// The bytes that the allocator has given to a block.
fn usable(block: Pointer) -> usize {
    // SAFETY: the block comes from the allocator, or from the program, which passes it as one, and has not been freed.
    unsafe { malloc_usable_size(block) }
}

/// Takes a block from the real allocator. Within the thread's turn: which block it is depends on who came before, and
/// has to be the same in a replay.
fn hand_out(size: usize, pc: usize, take: impl FnOnce() -> Pointer) -> Pointer {
    let counts = counts(Next::access(op::ALLOC, pc, 0, size), pc);
    let block = take();
    blocks::add(block);
    if counts && !block.is_null() {
        put3(head(op::ALLOC, is_mapped(block) as u8, pc), block as u64, whole(block, size));
    } else {
        is_unseen(block, size);
    }
    block
}

/// A block was handed out where nothing counts.
fn is_unseen(block: Pointer, size: usize) {
    // What was in a mapping of its own is gone with it.
    if is_on() && !block.is_null() && is_mapped(block) == 0 {
        unseen::appeared(block, whole(block, size) as usize);
    }
}

/// Whether a block lies in a mapping of its own, which goes back to the system when it is freed: bit 1 of the word that
/// glibc keeps before the block.
fn is_mapped(block: Pointer) -> u64 {
    let before = Address(block as usize - size_of::<usize>());
    before.read::<u64>() >> 1 & 1
}

/// A block that a call of the C library has made. In the call, with the token.
pub fn appeared(block: Pointer) {
    if !block.is_null() {
        put3(head(op::ALLOC, is_mapped(block) as u8, call_pc()), block as u64, whole(block, 0));
    }
}

pub extern "C" fn malloc_at(size: usize, pc: usize) -> Pointer {
    hand_out(size, pc, || __libc_malloc(size))
}

pub extern "C" fn free_at(block: Pointer, pc: usize) {
    if !block.is_null() {
        match counts(frees(block, pc), pc) && !is_ignored() {
            true => _ = put3(head(op::FREE, 0, pc), block as u64, is_mapped(block)),
            false => unseen::disappeared(block),
        }
    }
    really_free(block);
}

fn really_free(block: Pointer) {
    blocks::remove(block);
    // SAFETY: the program gives the block back, as it would to the allocator itself.
    unsafe { __libc_free(block) }
}

fn really_realloc(block: Pointer, size: usize) -> Pointer {
    blocks::remove(block);
    // SAFETY: the program gives the block back for another, as it would to the allocator itself.
    let new = unsafe { __libc_realloc(block, size) };
    blocks::add(if new.is_null() { block } else { new });
    new
}

extern "C" fn calloc_at(count: usize, size: usize, pc: usize) -> Pointer {
    hand_out(count.saturating_mul(size), pc, || __libc_calloc(count, size))
}

extern "C" fn realloc_at(block: Pointer, size: usize, pc: usize) -> Pointer {
    if block.is_null() {
        return malloc_at(size, pc);
    }
    if size == 0 || !counts(frees(block, pc), pc) {
        if size == 0 {
            free_at(block, pc);
            return core::ptr::null_mut();
        }
        unseen::disappeared(block);
        let new = really_realloc(block, size);
        is_unseen(new, size);
        return new;
    }
    let (usable, mapped) = (usable(block), is_mapped(block));
    let new = really_realloc(block, size);
    if !new.is_null() {
        // The contents move. That the old block is read needs no event: it is freed, which conflicts with more.
        let moved = usable.min(size);
        if is_free() && moved > 0 {
            // Unless it is not known what they are.
            put_range(op::RANGE_READ, pc, block as usize, moved);
        }
        put3(head(op::FREE, 0, pc), block as u64, mapped);
        put3(head(op::ALLOC, is_mapped(new) as u8, pc), new as u64, whole(new, size));
        if moved > 0 {
            put_range(op::RANGE_WRITE, pc, new as usize, moved);
        }
    }
    new
}

extern "C" fn reallocarray_at(block: Pointer, count: usize, size: usize, pc: usize) -> Pointer {
    match count.checked_mul(size) {
        Some(size) => realloc_at(block, size, pc),
        None => {
            c::set_errno(ENOMEM);
            core::ptr::null_mut()
        }
    }
}

extern "C" fn memalign_at(alignment: usize, size: usize, pc: usize) -> Pointer {
    hand_out(size, pc, || __libc_memalign(alignment, size))
}

extern "C" fn posix_memalign_at(result: *mut Pointer, alignment: usize, size: usize, pc: usize) -> c_int {
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<usize>()) {
        return c::EINVAL;
    }
    let block = hand_out(size, pc, || __libc_memalign(alignment, size));
    if block.is_null() {
        return ENOMEM;
    }
    Address::from(result).write(block);
    0
}

extern "C" fn valloc_at(size: usize, pc: usize) -> Pointer {
    memalign_at(4096, size, pc)
}

// Mappings come and go like blocks.

/// What `mmap` returns when it fails.
const FAILED: usize = usize::MAX;

/// Memory gets this protection.
fn note_protection(protection: c_int) {
    const READ: c_int = 1;
    if protection & READ == 0 {
        may_be_unreadable();
    }
}

extern "C" fn map_at(at: Pointer, size: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> Pointer {
    let counts = counts(Next::access(op::ALLOC, 0, 0, size), 0);
    const FIXED: c_int = 0x10;
    if flags & FIXED != 0 {
        before_change(at as usize, size);
    }
    let block = pass_on!(
        mmap(at: Pointer, size: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> Pointer
    );
    const ANONYMOUS: c_int = 0x20;
    if block as usize != FAILED {
        blocks::add_range(block as usize, size);
        note_protection(protection);
    }
    if counts && is_on() && block as usize != FAILED && flags & ANONYMOUS != 0 {
        put3(head(op::ALLOC, 1, 0), block as u64, size as u64);
    }
    block
}

#[unsafe(no_mangle)]
pub extern "C" fn mmap(at: Pointer, size: usize, prot: c_int, flags: c_int, file: c_int, offset: i64) -> Pointer {
    leaving(|| map_at(at, size, prot, flags, file, offset))
}

#[unsafe(no_mangle)]
pub extern "C" fn mmap64(at: Pointer, size: usize, prot: c_int, flags: c_int, file: c_int, offset: i64) -> Pointer {
    leaving(|| map_at(at, size, prot, flags, file, offset))
}

const PAGE: usize = 4096;

extern "C" fn unmap_at(block: Pointer, size: usize, pc: usize) -> c_int {
    // This also takes the value of a write that is about to be lost. What the kernel refuses changes nothing.
    let is_refused = size == 0 || !(block as usize).is_multiple_of(PAGE);
    if counts(frees(block, pc), pc) && !is_refused {
        put3(head(op::FREE, 0, pc), block as u64, size as u64);
    }
    before_change(block as usize, size);
    blocks::remove_range(block as usize, size);
    pass_on!(munmap(block: Pointer, size: usize) -> c_int)
}

extern "C" fn protect_at(block: Pointer, size: usize, protection: c_int, pc: usize) -> c_int {
    counts(Next::call(pc), pc);
    before_change(block as usize, size);
    note_protection(protection);
    pass_on!(mprotect(block: Pointer, size: usize, protection: c_int) -> c_int)
}

extern "C" fn advise_at(block: Pointer, size: usize, advice: c_int, pc: usize) -> c_int {
    counts(Next::call(pc), pc);
    pass_on!(madvise(block: Pointer, size: usize, advice: c_int) -> c_int)
}

extern "C" fn remap_at(block: Pointer, old: usize, new: usize, flags: c_int, to: Pointer, pc: usize) -> Pointer {
    if counts(frees(block, pc), pc) {
        put3(head(op::FREE, 0, pc), block as u64, old.max(1) as u64);
    }
    before_change(block as usize, old);
    let moved = pass_on!(mremap(block: Pointer, old: usize, new: usize, flags: c_int, to: Pointer) -> Pointer);
    if moved as usize != FAILED {
        blocks::remove_range(block as usize, old);
        blocks::add_range(moved as usize, new);
    }
    moved
}

stubs! {
    munmap "rdx" unmap_at; mprotect "rcx" protect_at; madvise "rcx" advise_at; mremap "r9" remap_at;
    malloc "rsi" malloc_at; free "rsi" free_at; cfree "rsi" free_at; calloc "rdx" calloc_at; realloc "rdx" realloc_at;
    reallocarray "rcx" reallocarray_at; memalign "rdx" memalign_at; aligned_alloc "rdx" memalign_at;
    posix_memalign "rcx" posix_memalign_at; valloc "rsi" valloc_at;
}
