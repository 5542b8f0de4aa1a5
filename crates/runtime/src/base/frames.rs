//! The shadow stack of a thread: which functions it is in, by their stack pointers.

use crate::base::kernel;
use crate::base::memory::map;
use crate::base::relaxed::Relaxed;
use crate::base::thread::Thread;
use crate::wire::{head, op};

/// Frames that the shadow stack has room for; deeper ones are not recorded.
const DEEPEST: usize = 4096;

/// Stack pointers of frames.
pub struct Frames([Relaxed<usize>; DEEPEST]);

/// Room for frames.
pub fn new_frames() -> *mut Frames {
    map(size_of::<Frames>(), None).cast()
}

/// Gives the room back.
///
/// # Safety
/// It comes from `new_frames`, or is null, and no thread has it as its own.
pub unsafe fn drop_frames(frames: *mut Frames) {
    if !frames.is_null() {
        // SAFETY: it was mapped with this size, and nobody uses it.
        unsafe { kernel::unmap(frames as usize, size_of::<Frames>()) };
    }
}

fn frames(thread: &Thread) -> &[Relaxed<usize>; DEEPEST] {
    // SAFETY: `new_frames` has mapped what a thread has as its frames. Only those of a fiber that no thread runs on are
    // ever given back, and zeroes are valid.
    unsafe { &(*thread.frames.get()).0 }
}

/// The thread enters a function. `put` gets the records of that.
#[inline(always)]
pub fn enter_frame(thread: &Thread, pc: usize, stack: usize, put: impl Fn(u64)) {
    let frames = frames(thread);
    let mut depth = thread.depth.get();
    // Frames below this one were left by longjmp, without a callback.
    while depth > 0 && frames[depth.min(DEEPEST) - 1].get() <= stack {
        depth = depth.min(DEEPEST) - 1;
        thread.depth.set(depth);
        put(head(op::LEAVE, 0, 0));
    }
    if depth < DEEPEST {
        frames[depth].set(stack);
        put(head(op::ENTER, 0, pc));
    }
    thread.depth.set(depth + 1);
}

/// The thread returns from a function.
#[inline(always)]
pub fn leave_frame(thread: &Thread, put: impl Fn(u64)) {
    let depth = thread.depth.get();
    if depth > 0 {
        thread.depth.set(depth - 1);
        if depth <= DEEPEST {
            put(head(op::LEAVE, 0, 0));
        }
    }
}

/// The thread continues in a function without returning from those that it has called: there the stack pointer is
/// `stack` between two calls.
pub fn leave_frames(thread: &Thread, stack: usize, put: impl Fn(u64)) {
    // A call puts the place to return to onto the stack; so did the one by which the function told us of its frame.
    let own = stack.wrapping_sub(size_of::<usize>());
    let known = thread.depth.get().min(DEEPEST);
    let frames = &frames(thread)[..known];
    // Frames of a signal handler may lie on another stack, so addresses decide only if the function's own frame is not
    // there.
    let last = |is: &dyn Fn(usize) -> bool| frames.iter().rposition(|frame| is(frame.get()));
    let stays = last(&|frame| frame == own).or_else(|| last(&|frame| frame > own)).map_or(0, |index| index + 1);
    if stays < known {
        thread.depth.set(stays);
        (stays..known).for_each(|_| put(head(op::LEAVE, 0, 0)));
    }
}

/// The lowest stack pointer of a frame that lies above an address.
pub fn above(thread: &Thread, address: usize) -> Option<usize> {
    let known = thread.depth.get().min(DEEPEST);
    frames(thread)[..known].iter().rev().map(Relaxed::get).find(|&stack| stack > address)
}

/// The stack pointer of the frame before the innermost one.
pub fn before_last(thread: &Thread) -> Option<usize> {
    let depth = thread.depth.get();
    let index = depth.checked_sub(2).filter(|_| depth <= DEEPEST)?;
    Some(frames(thread)[index].get())
}
