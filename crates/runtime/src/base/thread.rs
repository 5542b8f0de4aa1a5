//! What the runtime knows about a thread, and how a thread finds it.
//!
//! All of it is atomic words: a thread, the scheduler, the watchdog and signal handlers look at the same block. The
//! comment of a field says who writes it where that is not the thread itself.

use crate::base::frames::{self, Frames};
use crate::base::memory::map;
use crate::base::relaxed::Relaxed;
use crate::interpose::unseen;
use crate::protocol::go::Go;
use crate::scheduler::is_holder;
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};

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
    pub number: Relaxed<u32>,
    /// Depth of calls into the runtime; events of the runtime's own doing are no events.
    pub inside: Relaxed<u32>,
    /// A [`State`]; changed under the scheduler's lock.
    pub state: AtomicU32,
    /// By which it is given the token.
    pub go: Go<AtomicU32>,
    /// The kernel's number of the thread.
    pub kernel: AtomicU32,
    /// What it waits for while blocked: an address, or a key made from a thread's number.
    pub key: Relaxed<usize>,
    /// Whether its wait has a deadline.
    pub timed: Relaxed<bool>,
    /// Whether it is in a call of the C library in the middle of an operation; see [`crate::scheduler::lend`].
    pub lends: Relaxed<bool>,
    /// Whether it waits for a lock, and may look again at any time.
    pub retries: Relaxed<bool>,
    /// It was woken to take what it waits for, and somebody else was faster. Whoever wakes it again lets it run.
    pub starves: Relaxed<bool>,
    /// Room for an address of a socket, in the call that it makes.
    pub room: Relaxed<usize>,
    /// How often in a row it has tried to take a mutex that another thread had.
    pub tries: Relaxed<u32>,
    /// The word that it waited for last by a futex.
    pub waited_for: Relaxed<usize>,
    /// How often in a row it has waited for that.
    pub waits: Relaxed<u32>,
    /// Whether its last wait timed out.
    pub timed_out: Relaxed<bool>,
    /// Whether it was blocked since it last held the token.
    pub was_blocked: Relaxed<bool>,
    /// The notify that ended its last wait, or 0.
    pub notified_by: Relaxed<u64>,
    /// Steps done before it got the token last.
    pub steps: Relaxed<u64>,
    /// Steps done while the end of the program is put off.
    pub drained: Relaxed<u64>,
    /// Depth of `__tsan_ignore_thread_begin`: its plain accesses do not count.
    pub ignoring: Relaxed<u32>,
    /// How often its destructor of thread-specific data is still put off.
    pub put_off: Relaxed<u32>,
    /// What it is about to initialise, unless another thread has done so.
    pub task: Relaxed<*mut crate::interpose::once::Task>,
    /// What it is in the middle of initialising.
    pub under: Relaxed<*mut crate::interpose::once::Under>,
    /// The parallel region that it is in; null outside.
    pub region: Relaxed<*mut crate::interpose::openmp::Region>,
    /// Set in a blocking call, in which signal handlers run at once.
    pub in_call: Relaxed<bool>,
    /// Where the blocking call was made from that it is in.
    pub call_pc: Relaxed<usize>,
    /// 1 if somebody wants it to be cancelled.
    pub cancel_requested: AtomicU32,
    /// It does not want to be, for now.
    pub cancel_disabled: Relaxed<bool>,
    /// It may be cancelled anywhere, not only at cancellation points.
    pub cancel_asynchronous: Relaxed<bool>,
    /// It is blocked or in a call at a cancellation point.
    pub cancellable: Relaxed<bool>,
    /// Whether its last wait was ended by a cancellation.
    pub interrupted: Relaxed<bool>,
    /// The pthread handle, also when it is joined or detached.
    pub identity: AtomicUsize,
    /// The pthread handle; 0 once joined or detached.
    pub handle: AtomicUsize,
    /// Signals to be handled at the next safe point, as bits.
    pub pending_signals: AtomicUsize,
    /// What came with the last of them.
    pub information: [Relaxed<u64>; 16],
    /// What is to be done about them while it is blocked.
    pub while_blocked: Relaxed<crate::interpose::signals::WhileBlocked>,
    /// Whether its last wait was ended by one.
    pub signalled: Relaxed<bool>,
    /// Whether that one's handler wants interrupted calls to fail.
    pub fails: Relaxed<bool>,
    /// Frames on the shadow stack.
    pub depth: Relaxed<usize>,
    /// The stack pointer of each frame: what lies below a new frame has been left by `longjmp`.
    pub frames: Relaxed<*mut Frames>,
    /// The fiber that it runs on; null as long as it knows none.
    pub fiber: Relaxed<*mut crate::tsan::fibers::Fiber>,
    /// Its accesses, if threads run freely.
    pub own: crate::scheduler::free_running::Own,
    /// What it may be waiting for in a loop.
    pub spins: crate::scheduler::spin::Spins,
    /// How many locks it holds, about.
    pub held: Relaxed<u32>,
    /// How many more of its turns should be short.
    pub alert: crate::scheduler::Alert,
    /// How long it has rested lately, in nanoseconds: see [`crate::scheduler::observe`].
    pub rested: Relaxed<u64>,
    /// How long it leaves the token to others while it waits in a loop.
    pub patience: crate::scheduler::Patience,
    /// What it is doing, as announced when it began.
    pub doing: crate::scheduler::Doing,
    /// Calls of unseen code that it is in.
    pub calls: Relaxed<*mut crate::interpose::missing::OpenCalls>,
    /// It is in unseen code, as far as that is known.
    pub unseen: Relaxed<bool>,
    /// Frames of the shadow stack at which unseen code goes on that has called back, plus one; 0 if none has.
    pub resumes: Relaxed<usize>,
}

/// Zeroed memory for all threads, which stays; null before [`prepare`].
static TABLE: AtomicPtr<Thread> = AtomicPtr::new(core::ptr::null_mut());
static COUNT: AtomicU32 = AtomicU32::new(0);

/// The address of the current thread's block; 0 if the thread is not one of the program's, or not yet known.
#[inline(always)]
pub fn current_address() -> usize {
    let thread: usize;
    // SAFETY: the two instructions read a word of the static thread-local storage that every thread has.
    unsafe {
        asm!("mov {0}, qword ptr [rip + snag_current@GOTTPOFF]", "mov {0}, qword ptr fs:[{0}]",
             out(reg) thread, options(nostack, preserves_flags, readonly));
    }
    thread
}

/// The current thread, if it is one of the program's and already known.
#[inline(always)]
pub fn current() -> Option<&'static Thread> {
    // SAFETY: `set_current` puts nothing there but null and references that live for ever.
    unsafe { (current_address() as *const Thread).as_ref() }
}

pub fn set_current(thread: Option<&'static Thread>) {
    let address = thread.map_or(0, Thread::address);
    // SAFETY: the word of the static thread-local storage is this thread's own.
    unsafe {
        asm!("mov {0}, qword ptr [rip + snag_current@GOTTPOFF]", "mov qword ptr fs:[{0}], {1}",
             out(reg) _, in(reg) address, options(nostack, preserves_flags));
    }
}

/// Reserves memory for all threads. Called once, before the first.
pub fn prepare() {
    TABLE.store(map(MOST * size_of::<Thread>(), None).cast(), Release);
}

/// A new thread; `None` if there are too many. With the token.
pub fn new() -> Option<&'static Thread> {
    let number = COUNT.load(Relaxed);
    if number as usize >= MOST {
        return None;
    }
    COUNT.store(number + 1, Relaxed);
    let thread = by_number(number)?;
    thread.number.set(number);
    thread.frames.set(frames::new_frames());
    thread.calls.set(crate::interpose::missing::room_for_calls());
    Some(thread)
}

/// All threads, in order of creation, also those that have ended.
pub fn all() -> &'static [Thread] {
    let table = TABLE.load(Acquire);
    if table.is_null() {
        return &[];
    }
    // SAFETY: `prepare` has mapped room for `MOST` threads, and `new` counts no more. The memory stays mapped, and
    // zeroes are a valid thread.
    unsafe { core::slice::from_raw_parts(table, COUNT.load(Relaxed) as usize) }
}

pub fn by_number(number: u32) -> Option<&'static Thread> {
    all().get(number as usize)
}

/// The thread whose block is at an address.
pub fn by_address(address: usize) -> Option<&'static Thread> {
    let all = all();
    all.get(address.wrapping_sub(all.as_ptr() as usize) / size_of::<Thread>())
}

/// The thread with this handle that has not been joined.
pub fn by_handle(handle: usize) -> Option<&'static Thread> {
    all().iter().rev().find(|thread| thread.handle.load(Relaxed) == handle)
}

/// The last thread that had this handle, even if it is detached or dead.
pub fn by_identity(handle: usize) -> Option<&'static Thread> {
    all().iter().rev().find(|thread| thread.identity.load(Relaxed) == handle)
}

impl Thread {
    /// What [`crate::scheduler::HOLDER`] has while the thread holds the token.
    #[inline(always)]
    pub fn address(&self) -> usize {
        self as *const Thread as usize
    }

    /// Whether the thread is in the program's code, where what it does are events.
    #[inline(always)]
    pub fn is_outside(&self) -> bool {
        self.inside.get() == 0
    }

    pub fn is(&self, state: State) -> bool {
        self.state.load(Relaxed) == state as u32
    }

    pub fn set(&self, state: State) {
        self.state.store(state as u32, Relaxed);
    }

    /// The stack pointer of the frame in which an address on the stack lies, at its upper end, if that is known.
    pub fn frame_above(&self, address: usize) -> Option<usize> {
        frames::above(self, address)
    }

    /// The stack pointer of the frame of who has called the function that the thread is in, if that is known.
    pub fn frame_before_last(&self) -> Option<usize> {
        frames::before_last(self)
    }

    /// What threads that join this one wait for.
    pub fn end_key(&self) -> usize {
        0x1000_0000_0000_0000 + self.number.get() as usize
    }
}

impl PartialEq for Thread {
    fn eq(&self, other: &Thread) -> bool {
        core::ptr::eq(self, other)
    }
}

/// Runs `work` as part of the runtime: what it does are no events.
#[inline]
pub fn inside<R>(thread: &Thread, work: impl FnOnce() -> R) -> R {
    let depth = thread.inside.get();
    thread.inside.set(depth + 1);
    let result = work();
    // Not one less than now: a handler of a fault may have left the work of another call by `longjmp`.
    thread.inside.set(depth);
    if depth == 0 && is_holder(thread) {
        unseen::record();
    }
    result
}
