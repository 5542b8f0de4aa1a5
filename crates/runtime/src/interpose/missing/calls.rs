//! Calls of unseen code that are open: they begin, they end, and those that are left by other ways end, too.
//!
//! A call begins and ends with a step of its thread, so a schedule may stop there. In between the thread keeps the
//! token: code that nobody sees has no steps, so what two threads do in it is done one after the other, and the same
//! way when the run is repeated. A thread that waits in it without a system call gives its turn to others where the
//! watchdog finds it, and stands still meanwhile.
//!
//! Where unseen code calls back, the call is interrupted: it ends there, and begins again when the function has
//! returned. Whatever unseen code has taken stays taken meanwhile, and the calls before and after keep their order with
//! those of others; but what the function does is seen, and nothing orders it. So threads of a library, which call back
//! from beginning to end, are calls as well.

use crate::base::c;
use crate::base::memory::map;
use crate::base::record::put3;
use crate::base::relaxed::Relaxed;
use crate::base::thread::{self, Thread, inside};
use crate::interpose::missing::reach::{self, Reach, Stack};
use crate::interpose::missing::silent::is_silent;
use crate::interpose::missing::slots::is_instrumented;
use crate::interpose::missing::targets::Target;
use crate::scheduler::free_running::is_free;
use crate::scheduler::{Next, enter, is_on, wipe};
use crate::wire::{EVERYTHING, NEW_SET, WITHOUT_LIBRARIES, head, op};

/// Most calls that are open in a thread at a time; those beyond are not seen.
const MOST: usize = 64;

/// A call that is open.
struct Open {
    /// Where the trampoline's frame is.
    frame: Relaxed<usize>,
    method: Relaxed<u32>,
    /// What it can reach, as records say it.
    detail: Relaxed<u8>,
    set: Relaxed<u32>,
    /// Frames of the shadow stack where it was interrupted, plus one; 0 while it is in unseen code.
    interrupted: Relaxed<usize>,
}

/// Those of a thread, outermost first.
pub struct OpenCalls {
    count: Relaxed<usize>,
    calls: [Open; MOST],
}

/// Room for the calls of a thread.
pub fn room_for_calls() -> *mut OpenCalls {
    map(size_of::<OpenCalls>(), None).cast()
}

impl OpenCalls {
    fn all(&self) -> &[Open] {
        &self.calls[..self.count.get()]
    }
}

fn open_calls(thread: &Thread) -> Option<&OpenCalls> {
    // SAFETY: `room_for_calls` has mapped what a thread has there, and zeroes are no calls; or there is nothing yet.
    unsafe { thread.calls.get().as_ref() }
}

/// Whether the thread is in code that nobody sees, as far as that is known.
pub fn is_open(thread: &Thread) -> bool {
    thread.unseen.get()
}

/// Notes in the thread what its calls have become.
fn note(thread: &Thread, calls: &OpenCalls) {
    let interrupted = calls.all().iter().rev().find(|open| open.interrupted.get() != 0);
    thread.resumes.set(interrupted.map_or(0, |open| open.interrupted.get()));
    thread.unseen.set(calls.all().last().is_some_and(|open| open.interrupted.get() == 0));
}

/// A function begins that says so at this place, and unseen code has called it. With the token.
#[cold]
#[inline(never)]
pub fn called_back(thread: &Thread, place: usize) {
    // It may be unseen all the same: clang leaves it that.
    if is_silent(place) {
        return;
    }
    let Some(calls) = open_calls(thread) else { return };
    if let Some(open) = calls.all().last() {
        put3(head(op::METHOD_END, 0, 0), open.method.get() as u64, 0);
        open.interrupted.set(thread.depth.get() + 1);
    }
    note(thread, calls);
}

/// It has returned to unseen code. With the token.
#[cold]
#[inline(never)]
pub fn goes_on(thread: &Thread) {
    let Some(calls) = open_calls(thread) else { return };
    // What was called in between and was left without returning is over.
    while let Some(open) = calls.all().last()
        && open.interrupted.get() == 0
    {
        close(calls, calls.count.get() - 1, true, 0);
    }
    if let Some(open) = calls.all().last() {
        open.interrupted.set(0);
        put3(head(op::METHOD_BEGIN, open.detail.get(), 0), open.method.get() as u64, open.set.get() as u64);
    }
    note(thread, calls);
}

/// What the trampoline and the stub have put onto the stack, and the address to which the call returns.
#[repr(C)]
pub struct Frame {
    /// Of the arguments, first to last.
    registers: [usize; 6],
    /// The caller's.
    frame_pointer: usize,
    /// Where the stub's call would return to.
    stub: usize,
    return_address: usize,
}

/// The trampoline shall go on to the function and leave no frame.
const THROUGH: usize = usize::MAX;

/// A call begins. Returns how many bytes of arguments there may be on the stack, or [`THROUGH`].
pub extern "C" fn begin(frame: &Frame) -> usize {
    let errno = c::errno();
    let result = try_begin(frame).unwrap_or(THROUGH);
    c::set_errno(errno);
    wipe();
    result
}

fn try_begin(frame: &Frame) -> Option<usize> {
    let thread = thread::current().filter(|thread| is_on() && !is_free() && thread.is_outside())?;
    let pc = frame.return_address;
    if !is_instrumented(pc) || is_silent(pc) {
        return None;
    }
    let calls = open_calls(thread)?;
    let at = frame as *const Frame as usize;
    // Unseen code calls itself.
    if is_open(thread) && calls.all().last().is_some_and(|open| !is_left(open, at)) {
        return None;
    }
    enter(Next::call(pc))?;
    if !is_on() || calls.count.get() == MOST {
        return None;
    }
    let target = Target::of_stub(frame.stub);
    inside(thread, || {
        close_below(thread, at);
        let method = target.tell();
        open(thread, calls, at, method, look(target, &frame.registers, at, thread), pc);
    });
    Some(arguments_on_stack(thread, at + size_of::<Frame>()))
}

/// Opens a call, whose frame is there.
fn open(thread: &Thread, calls: &OpenCalls, frame: usize, method: u32, (detail, set): (u8, u32), pc: usize) {
    put3(head(op::METHOD_BEGIN, detail, pc), method as u64, set as u64);
    let open = &calls.calls[calls.count.get()];
    open.frame.set(frame);
    open.method.set(method);
    open.detail.set(detail & !NEW_SET);
    open.set.set(set);
    open.interrupted.set(0);
    calls.count.add(1);
    note(thread, calls);
}

/// What a call with these arguments can reach, as records say it.
fn look(target: &Target, arguments: &[usize], top: usize, thread: &Thread) -> (u8, u32) {
    // The data of libraries may be none of its business.
    let libraries = if target.shares_with_libraries() { 0 } else { WITHOUT_LIBRARIES };
    let found = match target.variables() {
        Some(variables) => reach::find(arguments, variables, &Stack { top, thread }),
        None => Reach::Everything,
    };
    match found {
        Reach::Everything => (EVERYTHING | libraries, 0),
        Reach::Set { number, is_new } => (libraries | if is_new { NEW_SET } else { 0 }, number),
    }
}

/// The thread begins in a function of the program's or of a library, with an argument: what a library starts is a call
/// as well. With the token.
pub fn thread_begins(thread: &Thread, function: usize, argument: usize) {
    let here = 0usize;
    let top = &raw const here as usize;
    if let Some(calls) = open_calls(thread)
        && let Some(target) = Target::of_thread(function)
    {
        let method = target.tell();
        open(thread, calls, top, method, look(target, &[argument], top, thread), function + 1);
    }
}

/// How many bytes of arguments there may be on the stack, from an address on: a multiple of sixteen.
fn arguments_on_stack(thread: &Thread, from: usize) -> usize {
    const FEW: usize = 64;
    const MANY: usize = 1024;
    const PAGE: usize = 4096;
    // They lie in the frame of the function that calls, and that ends before the frame of its caller.
    let end = match thread.frame_before_last() {
        Some(end) if end > from => end.min(from + MANY),
        _ => (from + FEW).min((from / PAGE + 1) * PAGE),
    };
    (end - from).next_multiple_of(16)
}

/// The function of a call has returned.
pub extern "C" fn end(frame: &Frame) {
    let Some(thread) = thread::current() else { return };
    let Some(calls) = open_calls(thread) else { return };
    let at = frame as *const Frame as usize;
    let Some(index) = calls.all().iter().rposition(|open| open.frame.get() == at) else { return };
    let errno = c::errno();
    let pc = frame.return_address;
    let counts = is_on() && thread.is_outside() && enter(Next::call(pc)).is_some() && is_on();
    close(calls, index, counts, pc);
    note(thread, calls);
    c::set_errno(errno);
    wipe();
}

/// Closes all calls from this one on.
fn close(calls: &OpenCalls, from: usize, counts: bool, pc: usize) {
    while calls.count.get() > from {
        calls.count.subtract(1);
        let open = &calls.calls[calls.count.get()];
        if counts && open.interrupted.get() == 0 {
            put3(head(op::METHOD_END, 0, pc), open.method.get() as u64, 0);
        }
    }
}

/// Whether the frame of a call lies below an address, on the same stack: it was left.
fn is_left(open: &Open, stack: usize) -> bool {
    const STACK: usize = 8 << 20;
    stack.wrapping_sub(open.frame.get()) < STACK
}

/// Closes the calls whose frames lie below an address, on the same stack: they were left without returning.
fn close_below(thread: &Thread, stack: usize) {
    let Some(calls) = open_calls(thread) else { return };
    let stays = calls.all().iter().rposition(|open| !is_left(open, stack)).map_or(0, |index| index + 1);
    close(calls, stays, true, 0);
    note(thread, calls);
}

/// The thread goes on where the stack pointer is this, without returning from what it has called. With the token.
pub fn left_to(thread: &Thread, stack: usize) {
    if thread.unseen.get() || thread.resumes.get() != 0 {
        close_below(thread, stack);
    }
}

/// The thread ends. With the token.
pub fn close_all(thread: &Thread) {
    if let Some(calls) = open_calls(thread) {
        close(calls, 0, true, 0);
        note(thread, calls);
    }
}
