//! The end of the program is put off, so that threads that can run do.
//!
//! A thread that ends the program waits, once, until each of the others is blocked, has ended or has taken as many steps
//! as the user allows, and not for longer than the user allows. That is a schedule like any other: it might have been
//! that slow. A replay finds it among the turns of its schedule.
//!
//! Whoever comes first decides how the program ends. A thread that wants to end it too, or dies of a signal of its own
//! making, stands still from there on: without us it would hardly have come that far. But what the program does at its
//! end may wait for that thread. So if nobody can go on, those who stand still are let go, and end the program as they
//! would have.

use crate::base::c;
use crate::base::kernel;
use crate::base::record::page;
use crate::base::relaxed::Relaxed;
use crate::base::shared::wanted;
use crate::base::thread::{self, State, Thread};
use crate::scheduler::block::{block, wake};
use crate::scheduler::dispatch::{SCHEDULER, following};
use crate::scheduler::free_running::is_free;
use crate::scheduler::recording::is_on;
use crate::scheduler::token::{acquire, let_others_run, regain, release};
use crate::scheduler::wipe::wipe;

/// How long the end is put off.
#[derive(Clone, Copy)]
pub struct Drain {
    /// Who ends the program.
    pub ender: &'static Thread,
    /// Until when, on the monotonic clock.
    deadline: u64,
}

impl Drain {
    pub fn is_in_time(&self) -> bool {
        c::now(c::CLOCK_MONOTONIC) < self.deadline
    }

    /// Steps that a thread has left.
    pub fn left(&self, thread: &Thread) -> i64 {
        if *thread == *self.ender {
            return i64::MAX;
        }
        wanted().drain_steps.saturating_sub(thread.drained.get()).min(1 << 60) as i64
    }

    pub fn lets_run(&self, thread: &Thread) -> bool {
        self.left(thread) > 0
    }

    /// Whether some thread that cannot run now may be able to without another's doing: it is in a call, or its wait
    /// has a deadline.
    pub fn may_come_back(&self) -> bool {
        let waits = |thread: &Thread| {
            thread.is(State::External) || thread.is(State::Blocked) && thread.timed.get() && *thread != *self.ender
        };
        thread::all().iter().any(|thread| waits(thread) && self.lets_run(thread))
    }
}

/// The address of the thread that ends the program; 0 as long as none does. Changed under the scheduler's lock.
static ENDER: Relaxed<usize> = Relaxed::zero();

/// Those who stood still have been let go. Changed under the scheduler's lock.
static UNPARKED: Relaxed<bool> = Relaxed::zero();

/// Whether the end is being put off. Changed under the scheduler's lock, read without it.
static DRAINING: Relaxed<bool> = Relaxed::zero();

/// What threads wait for that have come too late to end the program.
const PARKED: usize = 0x3000_0000_0000_0000;

/// What the thread that ends the program waits for.
const DRAINED: usize = PARKED + 1;

pub fn is_draining() -> bool {
    DRAINING.get()
}

/// What becomes of a thread that dies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The program dies with it.
    Dies,
    /// The program is ending already, by another thread: this one stands still.
    Parks,
    /// The thread that ends the program waits for the others, and one of them has sent this.
    Ignores,
}

/// What becomes of a thread that gets a deadly signal.
pub fn verdict(thread: &Thread) -> Verdict {
    match ENDER.get() {
        0 => Verdict::Dies,
        _ if UNPARKED.get() => Verdict::Dies,
        ender if ender != thread.address() => Verdict::Parks,
        _ if is_draining() => Verdict::Ignores,
        _ => Verdict::Dies,
    }
}

/// The thread takes no further step, unless the program does not end after all, or cannot without it. Says whether it
/// may do now what it was about to do.
pub fn park(thread: &'static Thread) -> bool {
    regain(thread);
    while is_on() && ENDER.get() != 0 && ENDER.get() != thread.address() && !UNPARKED.get() {
        block(thread, PARKED, None);
    }
    UNPARKED.get()
}

/// Whether a thread stands still because another one ends the program.
pub fn is_parked(thread: &Thread) -> bool {
    thread.is(State::Blocked) && thread.key.get() == PARKED
}

/// The one that ends the program waits for something, and nobody runs: perhaps for a thread that stands still.
pub fn unpark() {
    let scheduler = SCHEDULER.lock();
    let stuck = ENDER.get() != 0 && !DRAINING.get() && !UNPARKED.get() && thread::all().iter().any(is_parked);
    if stuck {
        UNPARKED.set(true);
    }
    drop(scheduler);
    if stuck {
        SCHEDULER.lock().wake(PARKED, usize::MAX, 0);
    }
}

/// In a replay the schedule says when that was.
pub fn was_unparked() {
    UNPARKED.set(true);
}

/// Decides that the thread, which has the token, ends the program; if another has, it stands still. Called inside.
/// Returns false if it had decided so before: a function that runs at the end ends the program, too.
pub fn claim_end(ender: &'static Thread) -> bool {
    loop {
        let scheduler = SCHEDULER.lock();
        let before = ENDER.get();
        if before == 0 {
            ENDER.set(ender.address());
        }
        drop(scheduler);
        if before == ender.address() || !is_on() || before != 0 && UNPARKED.get() {
            return false;
        }
        if before == 0 {
            return true;
        }
        park(ender);
    }
}

/// Gives the other threads their chance before the thread ends the program. Called inside, with the token.
pub fn drain(ender: &'static Thread) {
    if following() {
        // The schedule says whether they had one.
        let scheduler = SCHEDULER.lock();
        if page().budget.get() <= 0 {
            DRAINING.set(true);
            let_others_run(scheduler, ender, false);
            DRAINING.set(false);
        }
    } else {
        let deadline = c::now(c::CLOCK_MONOTONIC) + wanted().drain_time as u64 * 1_000_000;
        let drain = Drain { ender, deadline };
        if is_free() { wait_freely(ender, drain) } else { wait(ender, drain) }
    }
    wipe();
}

fn wait(ender: &'static Thread, drain: Drain) {
    let mut scheduler = SCHEDULER.lock();
    thread::all().iter().for_each(|thread| thread.drained.set(0));
    scheduler.drain = Some(drain);
    DRAINING.set(true);
    drop(scheduler);
    loop {
        block(ender, DRAINED, Some((c::CLOCK_MONOTONIC, drain.deadline)));
        // A handler may have come in between.
        if !ender.signalled.get() || !is_on() || !drain.is_in_time() {
            break;
        }
    }
    let mut scheduler = SCHEDULER.lock();
    scheduler.drain = None;
    DRAINING.set(false);
}

/// Threads that run at the same time are given the time alone.
fn wait_freely(ender: &'static Thread, drain: Drain) {
    release(ender);
    DRAINING.set(true);
    let is_quiet = |thread: &Thread| {
        *thread == *ender || thread.is(State::Dead) || thread.is(State::Blocked) && !thread.timed.get()
    };
    while is_on() && drain.is_in_time() && !thread::all().iter().all(is_quiet) {
        kernel::sleep(1_000_000);
    }
    DRAINING.set(false);
    acquire(ender);
}

/// The program may not end after all: what the thread is about to do can fail. Others may end it.
pub fn forgive_end() {
    let scheduler = SCHEDULER.lock();
    ENDER.set(0);
    UNPARKED.set(false);
    drop(scheduler);
    wake(PARKED, usize::MAX, 0);
}
