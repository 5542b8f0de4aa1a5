//! Barriers. They are counted here, as the real one would block. Those that are shared with other processes are waited
//! for in the C library, without the token.

use crate::base::c::Pointer;
use crate::base::lock::Mutex;
use crate::base::program::Address;
use crate::base::record::put3;
use crate::base::thread::{Thread, inside};
use crate::scheduler::free_running::is_free;
use crate::scheduler::{Next, block, enter, is_on, release, step, wake};
use crate::wire::{head, op};
use crate::{pass_on, stubs};
use core::ffi::{c_int, c_uint};

fn record(code: u8, pc: usize, a: Pointer, b: u64) {
    put3(head(code, 0, pc), a as u64, b);
}

struct Barrier {
    address: usize,
    parties: u32,
    inside: u32,
    /// Threads of generations that are complete which have not left yet.
    leaving: u32,
    generation: u64,
}

/// All barriers of this process. The lock is held for a look, never while a thread waits.
static BARRIERS: Mutex<Vec<Barrier>> = Mutex::new(Vec::new());

/// The key for threads that wait to destroy a barrier.
fn end_of(at: Pointer) -> usize {
    at as usize + 1
}

/// Does something with a barrier, if it is known.
fn with<R>(at: Pointer, work: impl FnOnce(&mut Barrier) -> R) -> Option<R> {
    BARRIERS.lock().iter_mut().find(|barrier| barrier.address == at as usize).map(work)
}

fn forget(at: Pointer) {
    BARRIERS.lock().retain(|barrier| barrier.address != at as usize);
}

extern "C" fn barrier_init(at: Pointer, attributes: Pointer, parties: c_uint, pc: usize) -> c_int {
    let result = pass_on!(pthread_barrier_init(at: Pointer, attributes: Pointer, parties: c_uint) -> c_int);
    // Threads of other processes may come to it: only the C library knows.
    let is_shared = !attributes.is_null() && Address::from(attributes).read::<i32>() != 0;
    if result == 0 && enter(Next::on(op::BARRIER_NEW, pc, at as usize)).is_some() {
        forget(at);
        if is_shared {
            return result;
        }
        BARRIERS.lock().push(Barrier { address: at as usize, parties, inside: 0, leaving: 0, generation: 0 });
        record(op::BARRIER_NEW, pc, at, parties as u64);
    }
    result
}

/// It may be destroyed as soon as one thread has left; the C library waits for the others.
extern "C" fn barrier_destroy(at: Pointer, pc: usize) -> c_int {
    if let Some(thread) = enter(Next::on(op::BARRIER_NEW, pc, at as usize)) {
        inside(thread, || {
            while is_on() && with(at, |barrier| barrier.leaving > 0) == Some(true) {
                block(thread, end_of(at), None);
            }
        });
    }
    if is_on() && enter(Next::on(op::BARRIER_NEW, pc, at as usize)).is_some() {
        forget(at);
        record(op::BARRIER_NEW, pc, at, 0);
    }
    pass_on!(pthread_barrier_destroy(at: Pointer) -> c_int)
}

extern "C" fn barrier_wait(at: Pointer, pc: usize) -> c_int {
    let enters = Next::on(op::BARRIER_ENTER, pc, at as usize);
    // Where threads run freely, the token comes first: another thread may be about to make the barrier, or to destroy
    // it.
    let entered = if is_free() { enter(enters) } else { None };
    let known = is_on() && (entered.is_some() || !is_free()) && with(at, |_| ()).is_some();
    let thread = if known { entered.or_else(|| enter(enters)) } else { None };
    match thread {
        Some(thread) => inside(thread, || wait_here(thread, at, pc)),
        None => wait_outside(at, enters, pc),
    }
}

/// Shared with other processes, perhaps: then those who enter are more than we see.
fn wait_outside(at: Pointer, enters: Next, pc: usize) -> c_int {
    if let Some(thread) = enter(enters) {
        record(op::BARRIER_ENTER, pc, at, 0);
        inside(thread, || release(thread));
    }
    let result = pass_on!(pthread_barrier_wait(at: Pointer) -> c_int);
    if enter(Next::on(op::BARRIER_LEAVE, pc, at as usize)).is_some() {
        record(op::BARRIER_LEAVE, pc, at, 0);
    }
    result
}

/// How a thread finds a barrier when it comes.
enum Arrival {
    Last,
    /// The generation that it waits for.
    Waits(u64),
}

impl Barrier {
    fn arrive(&mut self) -> Arrival {
        self.inside += 1;
        if self.inside < self.parties {
            return Arrival::Waits(self.generation);
        }
        self.inside = 0;
        self.leaving += self.parties - 1;
        self.generation += 1;
        Arrival::Last
    }

    /// One of those that had to wait leaves; whether it is the last of them.
    fn leave(&mut self) -> bool {
        self.leaving = self.leaving.saturating_sub(1);
        self.leaving == 0
    }
}

fn wait_here(thread: &'static Thread, at: Pointer, pc: usize) -> c_int {
    const SERIAL_THREAD: c_int = -1;
    record(op::BARRIER_ENTER, pc, at, 0);
    let waits = match with(at, Barrier::arrive) {
        None => return 0,
        Some(Arrival::Last) => {
            wake(at as usize, usize::MAX, 0);
            false
        }
        Some(Arrival::Waits(generation)) => {
            while is_on() && with(at, |barrier| barrier.generation) == Some(generation) {
                block(thread, at as usize, None);
            }
            true
        }
    };
    if is_on() {
        step(thread, Next::on(op::BARRIER_LEAVE, pc, at as usize));
        record(op::BARRIER_LEAVE, pc, at, 0);
        if waits && with(at, Barrier::leave) == Some(true) {
            wake(end_of(at), usize::MAX, 0);
        }
    }
    if waits { 0 } else { SERIAL_THREAD }
}

stubs! {
    pthread_barrier_init "rcx" barrier_init; pthread_barrier_destroy "rsi" barrier_destroy;
    pthread_barrier_wait "rsi" barrier_wait;
}
