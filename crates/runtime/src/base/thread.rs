//! What the runtime knows about a thread, and how a thread finds it.

use crate::base::memory::{Global, map};
use crate::wire::{head, op};
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

// A word of thread-local storage in the static block, so that no access to it can allocate.
global_asm!(
    ".section .tbss,\"awT\",@nobits",
    ".balign 8",
    ".hidden snag_current",
    ".globl snag_current",
    ".type snag_current,@object",
    ".size snag_current,8",
    "snag_current: .zero 8",
    ".text",
);

/// Most threads a program may start while it is recorded.
const MOST: usize = 1 << 16;

/// Frames of the shadow stack that are told apart; deeper ones are not recorded.
const DEEPEST: usize = 4096;

/// Stack pointers of frames.
pub type Frames = [usize; DEEPEST];

/// Room for frames.
pub fn new_frames() -> *mut Frames {
    map(size_of::<Frames>(), None).cast()
}

/// Gives it back.
pub fn drop_frames(frames: *mut Frames) {
    if !frames.is_null() {
        unsafe {
            crate::base::c::system(crate::base::c::number::MUNMAP, [frames as usize, size_of::<Frames>(), 0, 0, 0, 0])
        };
    }
}

/// What a thread does, as the scheduler sees it.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It holds the token.
    Running = 1,
    /// It waits for the token.
    Runnable = 2,
    /// It waits for something that another thread does.
    Blocked = 3,
    /// It is in code that we do not see: a system call, a library.
    External = 4,
    /// It has ended.
    Dead = 5,
}

/// A thread.
#[repr(C, align(64))]
pub struct Thread {
    /// In order of creation; the first thread is 0.
    pub number: u32,
    /// Depth of calls into the runtime; events of the runtime's own doing are no events.
    pub inside: u32,
    /// A [`State`]; changed under the scheduler's lock.
    pub state: AtomicU32,
    /// 1 when the thread was given the token.
    pub go: AtomicU32,
    /// The kernel's number of the thread.
    pub kernel: AtomicU32,
    /// What it waits for while blocked: an address, or a key made from a thread's number.
    pub key: usize,
    /// Whether its wait has a deadline.
    pub timed: bool,
    /// Whether it is in a call of the C library in the middle of an operation; see [`crate::scheduler::token::lend`].
    pub lends: bool,
    /// Whether it waits for a lock, and may look again at any time.
    pub retries: bool,
    /// It was woken to take what it waits for, and somebody else was faster. Whoever wakes it again lets it run.
    pub starves: bool,
    /// How often in a row it has tried to take a mutex that another thread had.
    pub tries: u32,
    /// The word that it waited for last by a futex, and how often in a row.
    pub waited: (usize, u32),
    /// Whether its last wait timed out.
    pub timed_out: bool,
    /// Whether it was blocked since it last held the token.
    pub was_blocked: bool,
    /// The notify that ended its last wait, or 0.
    pub notified_by: u64,
    /// Steps done before it got the token last.
    pub steps: u64,
    /// Depth of `__tsan_ignore_thread_begin`: its plain accesses do not count.
    pub ignoring: u32,
    /// How often its destructor of thread-specific data is still put off.
    pub put_off: u32,
    /// What it is about to initialise, unless another thread has done so.
    pub task: Option<crate::interpose::once::Task>,
    /// What it is in the middle of initialising.
    pub under: *const crate::interpose::once::Under,
    /// The parallel region that it is in; null outside.
    pub region: *const crate::interpose::openmp::Region,
    /// Set in a blocking call, in which signal handlers run at once.
    pub in_call: bool,
    /// Where the blocking call was made from that it is in.
    pub call_pc: usize,
    /// 1 if somebody wants it to be cancelled.
    pub cancel_requested: AtomicU32,
    /// It does not want to be, for now.
    pub cancel_disabled: bool,
    /// It may be cancelled anywhere, not only at cancellation points.
    pub cancel_asynchronous: bool,
    /// It is blocked or in a call at a cancellation point.
    pub cancellable: bool,
    /// Whether its last wait was ended by a cancellation.
    pub interrupted: bool,
    /// The pthread handle, also when it is joined or detached.
    pub identity: AtomicUsize,
    /// The pthread handle; 0 once joined or detached.
    pub handle: AtomicUsize,
    /// Signals to be handled at the next safe point, as bits.
    pub pending_signals: AtomicUsize,
    /// What came with the last of them.
    pub information: crate::interpose::signals::Information,
    /// What is to be done about them while it is blocked.
    pub while_blocked: crate::interpose::signals::WhileBlocked,
    /// Whether its last wait was ended by one.
    pub signalled: bool,
    /// Whether that one's handler wants interrupted calls to fail.
    pub fails: bool,
    /// Frames on the shadow stack.
    pub depth: usize,
    /// The stack pointer of each frame: what lies below a new frame has been left by `longjmp`.
    pub frames: *mut Frames,
    /// The fiber that it runs on; null as long as it knows none.
    pub fiber: *mut crate::tsan::fibers::Fiber,
    /// Its accesses, if threads run freely.
    pub own: crate::scheduler::free_running::Own,
    /// What it may be waiting for in a loop.
    pub spins: crate::scheduler::spin::Spins,
    /// What it is doing, as it was said when that began.
    pub next: crate::scheduler::token::Next,
    /// What an acquiring fence would acquire.
    pub unacquired: crate::tsan::atomic::Unacquired,
}

static TABLE: Global<*mut Thread> = Global::new(core::ptr::null_mut());
static COUNT: AtomicU32 = AtomicU32::new(0);

/// The thread that runs this; null if it is none of the program's or not yet known.
#[inline(always)]
pub fn current() -> *mut Thread {
    let thread: *mut Thread;
    unsafe {
        asm!("mov {0}, qword ptr [rip + snag_current@GOTTPOFF]", "mov {0}, qword ptr fs:[{0}]",
             out(reg) thread, options(nostack, preserves_flags, readonly));
    }
    thread
}

pub fn set_current(thread: *mut Thread) {
    unsafe {
        asm!("mov {0}, qword ptr [rip + snag_current@GOTTPOFF]", "mov qword ptr fs:[{0}], {1}",
             out(reg) _, in(reg) thread, options(nostack, preserves_flags));
    }
}

/// Makes room for all threads. Once, before the first.
pub fn prepare() {
    unsafe { *TABLE.get() = map(MOST * size_of::<Thread>(), None).cast() };
}

/// A new thread; `None` if there are too many.
pub fn new() -> Option<*mut Thread> {
    let number = COUNT.load(Relaxed);
    if number as usize >= MOST {
        return None;
    }
    COUNT.store(number + 1, Relaxed);
    let thread = by_number(number);
    unsafe {
        (*thread).number = number;
        (*thread).frames = new_frames();
    }
    Some(thread)
}

pub fn by_number(number: u32) -> *mut Thread {
    unsafe { (*TABLE.get()).add(number as usize) }
}

pub fn count() -> u32 {
    COUNT.load(Relaxed)
}

/// The thread with this handle that has not been joined; null if there is none.
pub fn by_handle(handle: usize) -> *mut Thread {
    let matches = |&thread: &*mut Thread| unsafe { (*thread).handle.load(Relaxed) == handle };
    (0..count()).rev().map(by_number).find(matches).unwrap_or(core::ptr::null_mut())
}

/// The last thread that had this handle, even if it is detached or dead; null if none had.
pub fn by_identity(handle: usize) -> *mut Thread {
    let matches = |&thread: &*mut Thread| unsafe { (*thread).identity.load(Relaxed) == handle };
    (0..count()).rev().map(by_number).find(matches).unwrap_or(core::ptr::null_mut())
}

impl Thread {
    pub fn state(&self) -> u32 {
        self.state.load(Relaxed)
    }

    pub fn is(&self, state: State) -> bool {
        self.state() == state as u32
    }

    pub fn set(&self, state: State) {
        self.state.store(state as u32, Relaxed);
    }

    /// What threads that join this one wait for.
    pub fn end_key(&self) -> usize {
        0x1000_0000_0000_0000 + self.number as usize
    }
}

/// The thread enters a function: the records of that go to `put`.
#[inline(always)]
pub unsafe fn enter_frame(thread: *mut Thread, pc: usize, stack: usize, put: impl Fn(u64)) {
    let (depth, frames) = unsafe { (&mut (*thread).depth, &mut *(*thread).frames) };
    // Frames that lie below this one were left without a word, by longjmp.
    while *depth > 0 && frames[(*depth).min(DEEPEST) - 1] <= stack {
        *depth = (*depth).min(DEEPEST) - 1;
        put(head(op::LEAVE, 0, 0));
    }
    if *depth < DEEPEST {
        frames[*depth] = stack;
        put(head(op::ENTER, 0, pc));
    }
    *depth += 1;
}

/// It returns from one.
#[inline(always)]
pub unsafe fn leave_frame(thread: *mut Thread, put: impl Fn(u64)) {
    let depth = unsafe { &mut (*thread).depth };
    if *depth > 0 {
        *depth -= 1;
        if *depth < DEEPEST {
            put(head(op::LEAVE, 0, 0));
        }
    }
}

/// It goes on in a function that it has called others from, without returning from them: there the stack pointer is `stack`
/// between two calls.
pub unsafe fn leave_frames(thread: *mut Thread, stack: usize, put: impl Fn(u64)) {
    let (depth, frames) = unsafe { (&mut (*thread).depth, &*(*thread).frames) };
    // A call puts the place to return to onto the stack; so did the one by which the function told us of its frame.
    let own = stack.wrapping_sub(size_of::<usize>());
    let known = (*depth).min(DEEPEST);
    // Frames of a signal handler may lie on another stack, so addresses decide only if the function's own frame is not there.
    let stays = match frames[..known].iter().rposition(|&frame| frame == own) {
        Some(index) => index + 1,
        None => frames[..known].iter().rposition(|&frame| frame > own).map_or(0, |index| index + 1),
    };
    if stays < known {
        *depth = stays;
        (stays..known).for_each(|_| put(head(op::LEAVE, 0, 0)));
    }
}

/// Runs with the depth of calls into the runtime raised.
#[inline]
pub fn inside<R>(thread: *mut Thread, work: impl FnOnce() -> R) -> R {
    unsafe { (*thread).inside += 1 };
    let result = work();
    unsafe { (*thread).inside -= 1 };
    result
}
