//! The token: one thread of the program runs at a time.
//!
//! Whoever holds the token runs for a number of scheduling points and lets go at operations that block. That gives one
//! exact order of all events, exact values, and a schedule that can be run again. A *step* is a scheduling point; how
//! many steps an operation takes never depends on the schedule, so that an event can be found again in another one.

use crate::base::c;
use crate::base::memory::{Global, Lock, futex_wait, futex_wake, say};
use crate::base::record::{flush, header, page, put1, put3, segments, wanted};
use crate::base::thread::{self, State, Thread};
use crate::interpose::signals;
use crate::scheduler::free_running::{FREE, is_free};
use crate::wire::{self, Segment, op};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

/// Nothing is recorded: not yet, or no longer.
pub const OFF: usize = 1;
/// The watchdog looks whether it may take the token away.
pub const TAKEN: usize = 2;
/// Nobody holds the token. Not 0: that is what code in threads that we do not know takes itself for.
pub const NOBODY: usize = 3;
/// Added to the holder while its accesses are to be ignored.
pub const IGNORING: usize = 1 << 63;
/// Added to the holder where threads run freely, so that accesses never take it for the thread that runs.
pub const FREELY: usize = 1 << 62;

/// [`Thread::go`]: the thread sleeps; only where threads run freely.
const ASLEEP: u32 = 2;
/// [`Thread::go`]: a signal has come; it looks whether it should go on waiting.
const SIGNALLED: u32 = 3;

#[repr(align(64))]
pub struct Holder(pub AtomicUsize);

pub static HOLDER: Holder = Holder(AtomicUsize::new(OFF));

/// Whether recording is on; never again once it was turned off.
pub static ON: AtomicBool = AtomicBool::new(false);

/// Guards the scheduler: states of threads and the lists below.
pub static SCHEDULER: Lock = Lock::new();

struct Lists {
    /// Threads that wait for the token, first come first.
    runnable: Vec<*mut Thread>,
    /// Threads that are blocked, first come first.
    blocked: Vec<*mut Thread>,
    /// State of the random numbers; 0: take turns.
    random: u64,
    /// Next segment of the schedule to follow.
    segment: usize,
    /// Whether the schedule is still followed.
    following: bool,
}

static LISTS: Global<Lists> =
    Global::new(Lists { runnable: Vec::new(), blocked: Vec::new(), random: 0, segment: 0, following: false });

/// The kernel's number of a thread that has had its last turn and is about to be gone; 0 if there is none.
static LEAVING: AtomicU32 = AtomicU32::new(0);

/// Numbers of notifies.
static NOTIFIES: AtomicU64 = AtomicU64::new(0);

/// Whether a thread holds the token.
pub fn is_holder(thread: *mut Thread) -> bool {
    HOLDER.0.load(Relaxed) & !(IGNORING | FREELY) == thread as usize
}

fn lists() -> &'static mut Lists {
    unsafe { &mut *LISTS.get() }
}

/// Starts recording, with the first thread as the holder.
pub fn start(first: *mut Thread) {
    let lists = lists();
    lists.runnable.reserve(1024);
    lists.blocked.reserve(1024);
    lists.random = header().seed;
    lists.following = !segments().is_empty();
    FREE.store(header().free != 0, Relaxed);
    unsafe { (*first).set(State::Running) };
    ON.store(true, Release);
    begin_turn(first);
    HOLDER.0.store(first as usize | if is_free() { FREELY } else { 0 }, Release);
}

/// Ends recording; the program runs on by itself.
#[cold]
pub fn give_up(why: &str) {
    if end_recording() {
        say(&[why]);
    }
}

/// The same where the tool says why.
#[cold]
pub fn give_up_because_of(trouble: u32) {
    header().trouble.store(trouble, Release);
    end_recording();
}

/// Whether it had not ended.
fn end_recording() -> bool {
    if !ON.swap(false, AcqRel) {
        return false;
    }
    HOLDER.0.store(OFF, Release);
    for number in 0..thread::count() {
        let thread = unsafe { &*thread::by_number(number) };
        thread.go.store(1, Release);
        futex_wake(&thread.go, 1, false);
    }
    true
}

/// Ends recording if all threads have ended, so that the program can. Whether they have.
pub fn end_with_last() -> bool {
    SCHEDULER.lock();
    let over = (0..thread::count()).all(|number| unsafe { (*thread::by_number(number)).is(State::Dead) });
    if over {
        ON.store(false, Release);
        HOLDER.0.store(OFF, Release);
    }
    SCHEDULER.unlock();
    over
}

pub fn is_on() -> bool {
    ON.load(Relaxed)
}

fn segment() -> Option<Segment> {
    let lists = lists();
    lists.following.then(|| segments()[lists.segment])
}

pub fn following() -> bool {
    lists().following
}

/// Whether some thread waits for its turn.
pub fn others_wait() -> bool {
    !lists().runnable.is_empty() || following()
}

fn stop_following(outcome: u32) {
    lists().following = false;
    header().outcome.store(outcome, Release);
    futex_wake(&header().outcome, 1, true);
}

/// Overwrites what the functions here have left on the stack below. Programs copy parts of structures that they have never
/// written; what they find there must not depend on how long we waited, or on whether a schedule is followed.
#[inline(never)]
pub fn wipe() {
    // Where threads run freely, no run is like another.
    if is_free() {
        return;
    }
    const WORDS: usize = 256;
    let mut below = core::mem::MaybeUninit::<[u64; WORDS]>::uninit();
    unsafe {
        core::arch::asm!("rep stosq", inout("rcx") WORDS => _, inout("rdi") below.as_mut_ptr() => _, in("rax") 0u64,
                         options(nostack, preserves_flags));
    }
}

/// Gives the token to somebody, or to nobody. Under the scheduler's lock.
pub fn dispatch() {
    if !is_on() {
        return;
    }
    if let Some(segment) = segment() {
        let thread = thread::by_number(segment.thread);
        let state = unsafe { (*thread).state() };
        if segment.thread >= thread::count() {
            stop_following(wire::DIVERGED);
        } else if state == State::Runnable as u32 {
            lists().runnable.retain(|&t| t != thread);
            return give(thread);
        } else if state == State::Blocked as u32 && unsafe { (*thread).timed } && segment.timeout != 0 {
            unsafe { (*thread).timed_out = true };
            lists().blocked.retain(|&t| t != thread);
            return give(thread);
        } else if state == State::Blocked as u32 && unsafe { (*thread).retries } {
            // As it was recorded, it looks again.
            lists().blocked.retain(|&t| t != thread);
            return give(thread);
        } else if state == State::External as u32 {
            // It comes back by itself.
            return HOLDER.0.store(NOBODY, Release);
        } else {
            stop_following(wire::DIVERGED);
        }
    }
    if stopped_for_good() {
        return HOLDER.0.store(NOBODY, Release);
    }
    let lists = lists();
    if lists.runnable.is_empty() {
        return HOLDER.0.store(NOBODY, Release);
    }
    let mut index = 0;
    if lists.random != 0 {
        index = random() as usize % lists.runnable.len();
    }
    give(lists.runnable.remove(index));
}

/// At the end of a schedule, or where it can no longer be followed, everything may have to stop: the tool looks at it and
/// ends the program.
fn stopped_for_good() -> bool {
    wanted().stop_at_end && header().outcome.load(Relaxed) != 0
}

fn random() -> u64 {
    let x = &mut lists().random;
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    *x
}

fn give(thread: *mut Thread) {
    unsafe {
        (*thread).set(State::Running);
        begin_turn(thread);
        let bits = match (*thread).ignoring {
            _ if is_free() => FREELY,
            0 => 0,
            _ => IGNORING,
        };
        HOLDER.0.store(thread as usize | bits, Release);
        if (*thread).go.swap(1, AcqRel) == ASLEEP || !is_free() {
            futex_wake(&(*thread).go, 1, false);
        }
    }
}

fn begin_turn(thread: *mut Thread) {
    let thread = unsafe { &mut *thread };
    let page = page();
    page.granted = match segment() {
        // Nobody waits for its turn to end by itself.
        None if is_free() => i64::MAX / 2,
        Some(segment) => segment.until.saturating_sub(thread.steps).min(1 << 60) as i64,
        None if lists().random != 0 => 1 + (random() % (2 * wanted().quantum)) as i64,
        None => wanted().quantum as i64,
    };
    page.budget = page.granted;
    let timed_out = (thread.was_blocked && thread.timed_out) as u64;
    thread.was_blocked = false;
    let when = if is_free() { crate::scheduler::free_running::time() } else { thread.steps };
    put3(wire::head(op::SWITCH, 0, 0), thread.number as u64 | timed_out << 32, when);
    if is_free() {
        put3(wire::head(op::UP_TO, 0, 0), thread.own.position(), 0);
    }
}

/// The turn of the holder ends at its next step, unless a schedule is followed.
pub fn end_turn_early() {
    if !following() && !is_free() && page().budget > 0 {
        page().granted -= page().budget;
        page().budget = 0;
    }
}

/// Ends the turn of the holder. Under the scheduler's lock; `dispatch` follows.
pub fn end_turn(thread: *mut Thread) {
    let thread = unsafe { &mut *thread };
    thread.steps += (page().granted - page().budget) as u64;
    page().granted = page().budget;
    if is_free() {
        put3(wire::head(op::TURN_END, 0, 0), crate::scheduler::free_running::time(), 0);
    }
    let Some(segment) = segment() else { return };
    if segment.thread != thread.number || thread.steps < segment.until && thread.is(State::Blocked) {
        return stop_following(wire::DIVERGED);
    }
    if thread.steps >= segment.until || thread.is(State::Dead) {
        let lists = lists();
        lists.segment += 1;
        header().replayed.store(lists.segment as u64, Relaxed);
        if lists.segment as u64 == header().look_before {
            let_the_tool_look();
        }
        if lists.segment == segments().len() {
            stop_following(wire::FOLLOWED);
        }
    }
}

/// Waits until the tool has looked at threads that all stand still. Under the scheduler's lock, so that they go on doing so.
fn let_the_tool_look() {
    let header = header();
    header.outcome.store(wire::STANDING, Release);
    futex_wake(&header.outcome, 1, true);
    while header.looked.load(Acquire) == 0 && c::is_alive(header.tool) {
        futex_wait(&header.looked, 0, Some(500_000_000), true);
    }
    header.outcome.store(0, Release);
}

/// What a thread is about to do, as far as that is known before it is done: what a replay looks at when it stops there.
#[derive(Clone, Copy)]
pub struct Next {
    /// As in [`op`]; `STEP` for a call that says what it touches only when it is made.
    code: u8,
    /// Where it is called from; 0 if that is not known.
    pc: usize,
    address: usize,
    size: usize,
}

impl Next {
    /// An operation on something at an address.
    #[inline(always)]
    pub const fn on(code: u8, pc: usize, address: usize) -> Next {
        Next { code, pc, address, size: 0 }
    }

    /// An access to so many bytes.
    #[inline(always)]
    pub const fn access(code: u8, pc: usize, address: usize, size: usize) -> Next {
        Next { code, pc, address, size }
    }

    /// A call.
    #[inline(always)]
    pub const fn call(pc: usize) -> Next {
        Next { code: op::STEP, pc, address: 0, size: 0 }
    }

    /// Tells the tool, if it wants to know.
    fn tell(&self, waits: bool) {
        if wanted().stop_at_end && following() {
            let detail = self.code | if waits { wire::WAITS } else { 0 };
            put3(wire::head(op::STOPPED, detail, self.pc), self.address as u64, self.size as u64);
        }
    }
}

/// Waits for the token, at most until the deadline if the thread is blocked.
fn wait_for_token(thread: *mut Thread, deadline: Option<(c_int, u64)>) {
    let mut deadline = deadline;
    let this = unsafe { &mut *thread };
    if is_free() {
        // Turns are short.
        let mut patience = 200;
        while patience > 0 && this.go.load(Relaxed) != 1 {
            core::hint::spin_loop();
            patience -= 1;
        }
    }
    loop {
        if this.go.swap(0, Acquire) == 1 || !is_on() {
            return await_leaving();
        }
        if signals::pending(this) != 0 {
            leave_for_signal(thread);
        }
        if is_free() && this.go.compare_exchange(0, ASLEEP, AcqRel, Relaxed).is_err() {
            continue;
        }
        let left = deadline.map(|(clock, at)| at.saturating_sub(c::now(clock)));
        // Clocks can be set: look again from time to time.
        let result = match left {
            Some(0) => -(c::ETIMEDOUT as i64),
            left => futex_wait(
                &this.go,
                if is_free() { ASLEEP } else { 0 },
                Some(left.unwrap_or(u64::MAX).min(1_000_000_000)),
                false,
            ),
        };
        if left == Some(0) && result == -(c::ETIMEDOUT as i64) {
            deadline = None;
            SCHEDULER.lock();
            // In a replay the schedule says who times out.
            if this.is(State::Blocked) && !following() {
                this.timed_out = true;
                lists().blocked.retain(|&t| t != thread);
                make_runnable(thread);
            }
            SCHEDULER.unlock();
        }
    }
}

/// A signal has come for the thread that runs this: if it sleeps, or is about to, it looks.
pub fn signalled(thread: *mut Thread) {
    let go = unsafe { &(*thread).go };
    let _ = go.compare_exchange(0, SIGNALLED, AcqRel, Relaxed);
    let _ = go.compare_exchange(ASLEEP, SIGNALLED, AcqRel, Relaxed);
}

/// If it is blocked, the thread gets a turn for the handler of a signal.
fn leave_for_signal(thread: *mut Thread) {
    let this = unsafe { &mut *thread };
    SCHEDULER.lock();
    if this.is(State::Blocked) && this.while_blocked != signals::WhileBlocked::Defer {
        this.signalled = true;
        lists().blocked.retain(|&t| t != thread);
        make_runnable(thread);
    }
    SCHEDULER.unlock();
}

/// Runs handlers of signals in the middle of an operation that had to wait.
fn handle_signals(thread: *mut Thread) {
    let this = unsafe { &mut *thread };
    // They may wait for something, too.
    let retries = core::mem::replace(&mut this.retries, false);
    let depth = core::mem::replace(&mut this.inside, 0);
    let fails = signals::deliver(thread);
    this.inside = depth;
    this.retries = retries;
    regain(thread);
    (this.signalled, this.fails, this.interrupted, this.timed_out, this.notified_by) = (true, fails, false, false, 0);
}

/// A thread gives its part of the heap back after its last turn. Whoever comes next waits until that is done, as the blocks that
/// it gets depend on it; but not for ever, should another destructor of thread-specific data wait in its turn.
fn await_leaving() {
    if is_free() {
        return;
    }
    let kernel = LEAVING.swap(0, Relaxed);
    // The first thread of a process is never gone before the process.
    if kernel == 0 || kernel == c::pid() {
        return;
    }
    const MOST: u64 = 100_000_000;
    let start = c::now(c::CLOCK_MONOTONIC);
    while !c::is_gone(kernel) && c::now(c::CLOCK_MONOTONIC) - start < MOST {
        unsafe { c::system(c::number::SCHED_YIELD, [0; 6]) };
    }
}

/// Under the scheduler's lock.
fn make_runnable(thread: *mut Thread) {
    unsafe { (*thread).set(State::Runnable) };
    lists().runnable.push(thread);
    if HOLDER.0.load(Relaxed) == NOBODY {
        dispatch();
    }
}

/// At the entry of a callback, before its event, when the budget is used up.
#[cold]
#[inline(never)]
pub fn preempt(thread: *mut Thread, next: Next) {
    thread::inside(thread, || {
        page().budget = 0;
        // A turn in a schedule may be one of no steps.
        while page().budget == 0 && is_on() {
            SCHEDULER.lock();
            next.tell(false);
            if others_wait() {
                let_others_run(thread);
            } else {
                end_turn(thread);
                begin_turn(thread);
                SCHEDULER.unlock();
            }
        }
        page().budget -= 1;
    });
    wipe();
    if unsafe { (*thread).pending_signals.load(Relaxed) } != 0 {
        signals::deliver(thread);
    }
}

/// With the scheduler's lock, which is given up.
fn let_others_run(thread: *mut Thread) {
    unsafe { (*thread).set(State::Runnable) };
    end_turn(thread);
    lists().runnable.push(thread);
    dispatch();
    SCHEDULER.unlock();
    wait_for_token(thread, None);
}

/// Lets another thread run, if one waits.
pub fn yield_now(thread: *mut Thread) {
    SCHEDULER.lock();
    if others_wait() {
        let_others_run(thread)
    } else {
        SCHEDULER.unlock()
    }
    wipe();
}

/// Waits until `wake` is called for the key, or the deadline. True if it timed out.
pub fn block(thread: *mut Thread, key: usize, deadline: Option<(c_int, u64)>) -> bool {
    block_as(thread, key, deadline, false)
}

/// The same at a cancellation point: it also ends, as `interrupted`, when the thread is to be cancelled.
pub fn block_cancellable(thread: *mut Thread, key: usize, deadline: Option<(c_int, u64)>) -> bool {
    block_as(thread, key, deadline, true)
}

fn block_as(thread: *mut Thread, key: usize, deadline: Option<(c_int, u64)>, cancellable: bool) -> bool {
    let this = unsafe { &mut *thread };
    SCHEDULER.lock();
    // A signal handler may block inside a call.
    let outside = core::mem::replace(&mut this.cancellable, cancellable);
    (this.interrupted, this.signalled) = (false, false);
    this.key = key;
    this.timed = deadline.is_some();
    this.timed_out = false;
    this.was_blocked = true;
    this.notified_by = 0;
    this.set(State::Blocked);
    lists().blocked.push(thread);
    Next { address: key, ..this.next }.tell(true);
    end_turn(thread);
    dispatch();
    SCHEDULER.unlock();
    wait_for_token(thread, deadline);
    if !is_on() {
        SCHEDULER.lock();
        lists().blocked.retain(|&t| t != thread);
        SCHEDULER.unlock();
    }
    this.cancellable = outside;
    if this.signalled && is_on() && this.while_blocked == signals::WhileBlocked::Handle {
        handle_signals(thread);
    }
    wipe();
    this.timed_out
}

/// Wakes a thread that is to be cancelled, if it is blocked where it can be.
pub fn interrupt(thread: *mut Thread) {
    SCHEDULER.lock();
    let this = unsafe { &mut *thread };
    if this.is(State::Blocked) && this.cancellable && !this.cancel_disabled {
        this.interrupted = true;
        lists().blocked.retain(|&t| t != thread);
        make_runnable(thread);
    }
    SCHEDULER.unlock();
}

/// Does something about a thread that cannot end meanwhile.
pub fn if_alive(thread: *mut Thread, work: impl FnOnce(&Thread)) {
    SCHEDULER.lock();
    let this = unsafe { &*thread };
    if !this.is(State::Dead) && this.kernel.load(Relaxed) != 0 {
        work(this);
    }
    SCHEDULER.unlock();
}

/// Makes up to `most` threads that wait for the key runnable; `notify` is what they were woken by. How many there were.
pub fn wake(key: usize, most: usize, notify: u64) -> usize {
    SCHEDULER.lock();
    let lists = lists();
    let (mut woken, mut starving) = (0, false);
    let mut index = 0;
    while index < lists.blocked.len() && woken < most {
        let thread = lists.blocked[index];
        // Whoever times out next in the schedule is not the one that was woken.
        let will_time_out = lists.following
            && unsafe { (*thread).timed }
            && segments()[lists.segment..]
                .iter()
                .find(|s| s.thread == unsafe { (*thread).number })
                .is_some_and(|s| s.timeout != 0);
        if unsafe { (*thread).key } == key && !will_time_out {
            lists.blocked.remove(index);
            unsafe { (*thread).notified_by = notify };
            starving |= unsafe { (*thread).starves };
            make_runnable(thread);
            woken += 1;
        } else {
            index += 1;
        }
    }
    SCHEDULER.unlock();
    // Else the holder might take it again and again, and all its turns end while it has it.
    if starving {
        end_turn_early();
    }
    wipe();
    woken
}

/// Everybody waits and nobody runs: perhaps a lock was given back in a way that we did not see. Whoever waits for one
/// looks again.
pub fn retry_locks() {
    SCHEDULER.lock();
    if !following() && HOLDER.0.load(Relaxed) == NOBODY {
        let blocked = core::mem::take(&mut lists().blocked);
        let (retry, stay): (Vec<_>, Vec<_>) = blocked.into_iter().partition(|&t| unsafe { (*t).retries });
        lists().blocked = stay;
        retry.into_iter().for_each(make_runnable);
    }
    SCHEDULER.unlock();
}

/// A number for the next notify.
pub fn next_notify() -> u64 {
    NOTIFIES.fetch_add(1, Relaxed) + 1
}

/// Lets go of the token before something that may block.
pub fn release(thread: *mut Thread) {
    flush();
    SCHEDULER.lock();
    unsafe { (*thread).set(State::External) };
    end_turn(thread);
    dispatch();
    SCHEDULER.unlock();
    wipe();
}

/// Takes the token again.
pub fn acquire(thread: *mut Thread) {
    if is_free() {
        let own = unsafe { &mut (*thread).own };
        own.end_ranges();
        own.flush();
    }
    SCHEDULER.lock();
    make_runnable(thread);
    SCHEDULER.unlock();
    wait_for_token(thread, None);
    wipe();
}

/// A call of the C library in the middle of an operation. Should it have to wait, for a lock of the dynamic linker say,
/// the watchdog may take the token away; afterwards the thread has it again.
pub fn lend<R>(thread: *mut Thread, work: impl FnOnce() -> R) -> R {
    let lends = |yes| unsafe { (&raw mut (*thread).lends).write_volatile(yes) };
    lends(true);
    let result = work();
    lends(false);
    regain(thread);
    result
}

/// The watchdog decides within a few system calls who holds the token.
#[inline]
pub fn await_decision() {
    while HOLDER.0.load(Acquire) == TAKEN {
        core::hint::spin_loop();
    }
}

/// Takes the token again if it was taken away, or let go.
pub fn regain(thread: *mut Thread) {
    await_decision();
    if is_on() && HOLDER.0.load(Acquire) & !(IGNORING | FREELY) != thread as usize {
        acquire(thread);
    }
}

/// A thread that has just been started: it waits for the token from its beginning on.
pub fn admit(thread: *mut Thread) {
    SCHEDULER.lock();
    make_runnable(thread);
    SCHEDULER.unlock();
    wipe();
}

/// The first turn of a thread.
pub fn first_turn(thread: *mut Thread) {
    wait_for_token(thread, None);
    wipe();
}

/// The last thing a thread does.
pub fn retire(thread: *mut Thread) {
    wake(unsafe { (*thread).end_key() }, usize::MAX, 0);
    SCHEDULER.lock();
    LEAVING.store(unsafe { (*thread).kernel.load(Relaxed) }, Relaxed);
    unsafe { (*thread).set(State::Dead) };
    end_turn(thread);
    dispatch();
    SCHEDULER.unlock();
}

/// A thread is gone without a word: others must not wait for it. Called by the watchdog.
pub fn bury(thread: *mut Thread) {
    SCHEDULER.lock();
    let this = unsafe { &mut *thread };
    let held = is_holder(thread);
    if held {
        HOLDER.0.store(TAKEN, SeqCst);
        crate::base::record::flush_what_is_there();
        put3(wire::head(op::END, 0, 0), this.number as u64, 0);
    }
    this.set(State::Dead);
    lists().runnable.retain(|&t| t != thread);
    lists().blocked.retain(|&t| t != thread);
    if held {
        end_turn(thread);
        dispatch();
    }
    SCHEDULER.unlock();
    wake(this.end_key(), usize::MAX, 0);
}

/// An access of a thread that does not hold the token. True if it holds the token now and its access counts.
#[cold]
#[inline(never)]
pub fn not_holder(thread: *mut Thread) -> bool {
    if thread.is_null() || !is_on() || unsafe { (*thread).inside } != 0 {
        return false;
    }
    if HOLDER.0.load(Acquire) == thread as usize | IGNORING || is_free() && unsafe { (*thread).ignoring } > 0 {
        return false;
    }
    thread::inside(thread, || regain(thread));
    is_on() && unsafe { (*thread).ignoring == 0 }
}

/// An operation of a thread that does not hold the token, or whose accesses are ignored: what synchronises counts anyway.
/// True if it holds the token now.
#[cold]
#[inline(never)]
fn comes_in(thread: *mut Thread) -> bool {
    if thread.is_null() || !is_on() || unsafe { (*thread).inside } != 0 {
        return false;
    }
    thread::inside(thread, || regain(thread));
    is_on()
}

/// Entry of an operation that is no plain access: a step of its own. False if its event does not count.
pub fn enter(thread: *mut Thread, next: Next) -> bool {
    if HOLDER.0.load(Relaxed) != thread as usize && !comes_in(thread) {
        return false;
    }
    if unsafe { (*thread).inside } != 0 {
        return false;
    }
    step(thread, next);
    if unsafe { (*thread).pending_signals.load(Relaxed) } != 0 {
        signals::deliver(thread);
        // A handler that runs freely may have let go of it.
        if is_free() {
            thread::inside(thread, || regain(thread));
        }
    }
    true
}

/// Another step of the operation that the holder is in.
pub fn step(thread: *mut Thread, next: Next) {
    unsafe { (*thread).next = next };
    flush();
    page().budget -= 1;
    if page().budget < 0 {
        preempt(thread, next);
    }
    put1(wire::head(op::STEP, 0, 0));
}
