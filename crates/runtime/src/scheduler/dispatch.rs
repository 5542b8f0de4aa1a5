//! Which thread gets the token next, and for how long.

use crate::base::kernel;
use crate::base::lock::{Mutex, futex_wait, futex_wake};
use crate::base::record::{page, put3};
use crate::base::relaxed::Relaxed;
use crate::base::shared::{header, segments, wanted};
use crate::base::thread::{self, State, Thread};
use crate::protocol::go::Sleepers;
use crate::scheduler::drain::{Drain, is_draining, is_parked, was_unparked};
use crate::scheduler::free_running::{self, is_free};
use crate::scheduler::observe;
use crate::scheduler::policy::Policy;
use crate::scheduler::recording::is_on;
use crate::scheduler::token::{FREE_RUNNING, HOLDER, IGNORING, NOBODY, is_holder};
use crate::wire::{self, Segment, op};
use core::sync::atomic::Ordering::*;

/// Decides who gets the token. Only the holder of this lock changes the states of threads.
pub static SCHEDULER: Mutex<Scheduler> = Mutex::new(Scheduler {
    runnable: Vec::new(),
    blocked: Vec::new(),
    random: 0,
    segment: 0,
    drain: None,
    policy: Policy::new(),
});

pub struct Scheduler {
    /// Threads that wait for the token, first come first.
    runnable: Vec<&'static Thread>,
    /// Threads that are blocked, first come first.
    blocked: Vec<&'static Thread>,
    /// State of the random numbers; 0: take turns.
    random: u64,
    /// Next segment of the schedule to follow.
    segment: usize,
    /// Set while the end of the program is put off.
    pub(super) drain: Option<Drain>,
    /// How long turns are, unless the user has said so.
    policy: Policy,
}

/// Whether the schedule is still followed. Changed under the lock, read without it.
static FOLLOWING: Relaxed<bool> = Relaxed::zero();

/// How many threads wait for the token. Changed under the lock, read without it.
static RUNNABLE: Relaxed<usize> = Relaxed::zero();

pub fn following() -> bool {
    FOLLOWING.get()
}

/// Whether some thread waits for its turn.
pub fn others_wait() -> bool {
    // A thread that is drained and has no steps left makes way for the one that ends the program.
    RUNNABLE.get() > 0 || following() || is_draining()
}

/// Ends the holder's turn at its next step, unless a schedule is followed.
pub fn end_turn_early() {
    let left = page().budget.get();
    if !following() && !is_free() {
        observe::forget_rest();
        if left > 0 {
            page().granted.subtract(left);
            page().budget.set(0);
        }
    }
}

/// Whether everything has to stop because the schedule has ended, or can no longer be followed: the tool looks at it
/// and ends the program.
fn stopped_for_good() -> bool {
    wanted().stop_at_end && header().outcome.load(Relaxed) != 0
}

fn stop_following(outcome: u32) {
    FOLLOWING.set(false);
    header().outcome.store(outcome, Release);
    futex_wake(&header().outcome, 1, true);
}

/// Waits until the tool has looked at the threads. All of them stand still, because the caller holds the scheduler's
/// lock.
fn let_the_tool_look() {
    let header = header();
    header.outcome.store(wire::STANDING, Release);
    futex_wake(&header.outcome, 1, true);
    while header.looked.load(Acquire) == 0 && kernel::is_alive(wanted().tool) {
        futex_wait(&header.looked, 0, Some(500_000_000), true);
    }
    header.outcome.store(0, Release);
}

/// Whether the schedule has the wait of a blocked thread end without anybody who ends it.
fn ends_by_itself(thread: &Thread, segment: Segment) -> bool {
    match segment.timeout {
        wire::TIMES_OUT => thread.timed.get(),
        wire::WAKES => thread.cancellable.get(),
        _ => false,
    }
}

impl Scheduler {
    /// Before the first turn.
    pub fn prepare(&mut self, seed: u64, follows: bool) {
        self.runnable.reserve(1024);
        self.blocked.reserve(1024);
        self.random = seed;
        self.policy.prepare(seed);
        FOLLOWING.set(follows);
    }

    fn segment(&self) -> Option<Segment> {
        following().then(|| segments()[self.segment])
    }

    fn random(&mut self) -> u64 {
        let x = &mut self.random;
        *x ^= *x << 13;
        *x ^= *x >> 7;
        *x ^= *x << 17;
        *x
    }

    /// Gives the token to the thread that runs next, or to nobody.
    pub fn dispatch(&mut self) {
        if !is_on() {
            return;
        }
        if let Some(segment) = self.segment() {
            match thread::by_number(segment.thread) {
                Some(thread) if thread.is(State::Runnable) => {
                    self.remove_runnable(thread);
                    return self.give(thread);
                }
                Some(thread) if thread.is(State::Blocked) && ends_by_itself(thread, segment) => {
                    thread.timed_out.set(segment.timeout == wire::TIMES_OUT);
                    self.unblock(thread);
                    return self.give(thread);
                }
                Some(thread) if is_parked(thread) => {
                    was_unparked();
                    self.unblock(thread);
                    return self.give(thread);
                }
                // As in the recording, it looks again.
                Some(thread) if thread.is(State::Blocked) && thread.retries.get() => {
                    self.unblock(thread);
                    return self.give(thread);
                }
                // It comes back on its own.
                Some(thread) if thread.is(State::External) => return HOLDER.0.store(NOBODY, Release),
                _ => stop_following(wire::DIVERGED),
            }
        }
        if stopped_for_good() {
            return HOLDER.0.store(NOBODY, Release);
        }
        if self.drain.is_some() {
            return self.dispatch_drained();
        }
        if self.runnable.is_empty() {
            self.note_stall();
            return HOLDER.0.store(NOBODY, Release);
        }
        let index = self.choose(|_| true);
        self.give_to(index.unwrap_or(0));
    }

    /// Nobody can run. If nobody comes back by himself, either, the tool may find a deadlock.
    fn note_stall(&self) {
        let comes_back =
            |thread: &Thread| thread.is(State::External) || thread.is(State::Blocked) && thread.timed.get();
        if !following() && !thread::all().iter().any(comes_back) {
            header().stalled.store(1, Release);
        }
    }

    /// The place in the queue of one of the threads that may run, if any may: the first, or any, that does not sit out,
    /// or if all of them do, the one with the highest rank.
    fn choose(&mut self, may_run: impl Fn(&Thread) -> bool) -> Option<usize> {
        let may_run = |index: &usize| may_run(self.runnable[*index]);
        let first = (0..self.runnable.len()).find(may_run)?;
        let sits_out = |index: &usize| self.runnable[*index].patience.sits_out();
        if self.random == 0 && !sits_out(&first) {
            return Some(first);
        }
        let ready: Vec<usize> = (0..self.runnable.len()).filter(may_run).filter(|index| !sits_out(index)).collect();
        if ready.is_empty() {
            let rank = |&index: &usize| self.runnable[index].patience.rank(index);
            let chosen = (0..self.runnable.len()).filter(may_run).max_by_key(rank);
            self.runnable.iter().for_each(|thread| thread.patience.pass_over());
            return chosen;
        }
        self.runnable.iter().for_each(|thread| thread.patience.pass());
        let any = if self.random == 0 { 0 } else { self.random() as usize % ready.len() };
        Some(ready[any])
    }

    /// Gives the token to a thread in the queue.
    fn give_to(&mut self, index: usize) {
        let thread = self.runnable.remove(index);
        RUNNABLE.set(self.runnable.len());
        self.give(thread);
    }

    /// The same while the end of the program is put off: the token goes to a thread that may still run, and else back
    /// to the one that ends the program.
    fn dispatch_drained(&mut self) {
        let Some(drain) = self.drain else { return };
        if let Some(index) = self.runnable.iter().position(|&thread| thread == drain.ender) {
            return self.give_to(index);
        }
        let in_time = drain.is_in_time();
        if in_time && let Some(index) = self.choose(|thread| drain.lets_run(thread)) {
            return self.give_to(index);
        }
        if !drain.ender.is(State::Blocked) || in_time && drain.may_come_back() {
            // It comes itself, in time or when the time is over.
            return HOLDER.0.store(NOBODY, Release);
        }
        self.unblock(drain.ender);
        self.give(drain.ender);
    }

    fn give(&mut self, thread: &'static Thread) {
        header().stalled.store(0, Relaxed);
        thread.set(State::Running);
        thread.patience.ends();
        self.begin_turn(thread);
        let bits = match thread.ignoring.get() {
            _ if is_free() => FREE_RUNNING,
            0 => 0,
            _ => IGNORING,
        };
        HOLDER.0.store(thread.address() | bits, Release);
        thread.go.give(sleepers());
    }

    /// Begins a turn of a thread: decides how long it is, and records whose it is.
    pub fn begin_turn(&mut self, thread: &Thread) {
        let steps = thread.steps.get();
        let granted = match self.segment() {
            // A turn of a free-running thread has no limit.
            None if is_free() => i64::MAX / 2,
            Some(segment) => segment.until.saturating_sub(steps).min(1 << 60) as i64,
            None if wanted().quantum == 0 => self.policy.turn(thread, RUNNABLE.get() > 0) as i64,
            None if self.random != 0 => 1 + (self.random() % (2 * wanted().quantum)) as i64,
            None => wanted().quantum as i64,
        };
        let granted = match self.drain {
            Some(drain) => granted.min(drain.left(thread)),
            None => granted,
        };
        let cuts = observe::may_cut() && self.policy.cuts();
        observe::begin_turn(granted, following(), cuts);
        let was_blocked = thread.was_blocked.replace(false);
        if was_blocked {
            thread.alert.raise();
        }
        let timed_out = (was_blocked && thread.timed_out.get()) as u64;
        let when = if is_free() { free_running::time() } else { steps };
        put3(wire::head(op::SWITCH, 0, 0), thread.number.get() as u64 | timed_out << 32, when);
        if is_free() {
            put3(wire::head(op::UP_TO, 0, 0), thread.own.position(), 0);
        }
    }

    /// Ends the turn of the holder; `dispatch` follows.
    pub fn end_turn(&mut self, thread: &Thread) {
        let left = page().budget.get();
        let taken = (page().granted.replace(left) - left) as u64;
        thread.steps.add(taken);
        self.policy.took(taken);
        if self.drain.is_some() {
            thread.drained.add(taken);
        }
        if is_free() {
            put3(wire::head(op::TURN_END, 0, 0), free_running::time(), 0);
        }
        let Some(segment) = self.segment() else { return };
        let steps = thread.steps.get();
        if segment.thread != thread.number.get() || steps < segment.until && thread.is(State::Blocked) {
            return stop_following(wire::DIVERGED);
        }
        if steps >= segment.until || thread.is(State::Dead) {
            self.segment += 1;
            header().replayed.store(self.segment as u64, Relaxed);
            if self.segment as u64 == wanted().look_before {
                let_the_tool_look();
            }
            if self.segment == segments().len() {
                stop_following(wire::FOLLOWED);
            }
        }
    }

    /// Puts a thread into the queue for the token.
    pub fn make_runnable(&mut self, thread: &'static Thread) {
        thread.set(State::Runnable);
        self.queue(thread);
        if HOLDER.0.load(Relaxed) == NOBODY {
            self.dispatch();
        } else if wanted().quantum == 0 && !following() && !is_free() {
            self.shorten_turn();
        }
    }

    /// The thread that runs has made another one run: it may have had the token for long because nobody else could.
    fn shorten_turn(&mut self) {
        if let Some(holder) = thread::current().filter(|thread| is_holder(thread))
            && RUNNABLE.get() == 1
            && let Some(steps) = self.policy.short_turn(holder)
        {
            observe::shorten(steps as i64);
        }
    }

    /// Puts a runnable thread at the end of the queue.
    pub fn queue(&mut self, thread: &'static Thread) {
        self.runnable.push(thread);
        RUNNABLE.set(self.runnable.len());
    }

    fn remove_runnable(&mut self, thread: &Thread) {
        self.runnable.retain(|&other| other != thread);
        RUNNABLE.set(self.runnable.len());
    }

    /// Notes that a thread waits for something other than the token.
    pub fn block(&mut self, thread: &'static Thread) {
        thread.set(State::Blocked);
        self.blocked.push(thread);
    }

    /// Notes that it no longer does.
    pub fn unblock(&mut self, thread: &Thread) {
        self.blocked.retain(|&other| other != thread);
    }

    /// Moves a blocked thread into the queue for the token.
    pub fn resume(&mut self, thread: &'static Thread) {
        self.unblock(thread);
        self.make_runnable(thread);
    }

    /// Whether the schedule has a waiting thread time out next: then it is not the one that was woken.
    fn will_time_out(&self, thread: &Thread) -> bool {
        following()
            && segments()[self.segment..]
                .iter()
                .find(|segment| segment.thread == thread.number.get())
                .is_some_and(|&segment| ends_by_itself(thread, segment))
    }

    /// Resumes up to `most` threads that wait for the key. Returns how many there were, and whether one of them
    /// starves.
    pub fn wake(&mut self, key: usize, most: usize, notify: u64) -> (usize, bool) {
        let (mut woken, mut starving) = (0, false);
        let mut index = 0;
        while index < self.blocked.len() && woken < most {
            let thread = self.blocked[index];
            if thread.key.get() == key && !self.will_time_out(thread) {
                self.blocked.remove(index);
                thread.notified_by.set(notify);
                starving |= thread.starves.get();
                self.make_runnable(thread);
                woken += 1;
            } else {
                index += 1;
            }
        }
        (woken, starving)
    }

    /// Has threads that wait for a lock look again if nobody runs: perhaps uninstrumented code has released one.
    pub fn retry_locks(&mut self) {
        if !following() && HOLDER.0.load(Relaxed) == NOBODY {
            let blocked = core::mem::take(&mut self.blocked);
            let (retry, stay): (Vec<_>, Vec<_>) = blocked.into_iter().partition(|thread| thread.retries.get());
            self.blocked = stay;
            retry.into_iter().for_each(|thread| self.make_runnable(thread));
        }
    }

    /// Forgets a thread that is gone.
    pub fn bury(&mut self, thread: &Thread) {
        thread.set(State::Dead);
        self.remove_runnable(thread);
        self.unblock(thread);
    }
}

/// Free-running threads announce that they go to sleep, as their turns are short.
pub fn sleepers() -> Sleepers {
    if is_free() { Sleepers::SaySo } else { Sleepers::Silent }
}
