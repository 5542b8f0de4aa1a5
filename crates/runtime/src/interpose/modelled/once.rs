//! Initialisation by a library's own means: whoever finds it done comes after whoever has done it.

use super::atomics::record;
use super::later::{self, Slot};
use super::order::{key_of, receive, send};
use super::{After, Arguments, Modelled, Pending};
use crate::base::program::Address;
use crate::scheduler::{Next, enter};
use crate::wire::op;

/// What stands for the end of a function that was called once.
const ONCE: u64 = 0x3fff;

/// What says that a function was called once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Once {
    object: usize,
    /// Bytes of the object that say so, as a logarithm, and their value then; 0 if the model does not know.
    log: u8,
    done: u8,
    pc: usize,
}

/// A call that may be the one that calls the function.
#[derive(Clone, Copy)]
pub struct Running {
    once: Once,
    slot: Option<usize>,
}

/// The function was called by this thread, and has returned. The library says so next.
pub fn ran(once: Once) {
    let Once { object, log, done, pc } = once;
    send(key_of(object, ONCE), pc);
    if done != 0 && enter(Next::access(op::ATOMIC_WRITE, pc, object, 1 << log)).is_some() {
        record(op::ATOMIC_WRITE, object, log, 0, done as u64, pc);
    }
}

pub fn call(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (entry, pc) = (&modelled.entry, arguments.pc);
    let object = arguments.get(entry.object);
    if enter(Next::call(pc)).is_none() {
        return Pending::CALL;
    }
    let function = arguments.get(entry.second);
    let log = entry.size.max(1).trailing_zeros() as u8;
    let once = Once { object, log, done: entry.part, pc };
    let slot = later::reserve(Slot { function, library: entry.library, once: Some(once), ran: false });
    if let Some(slot) = slot {
        arguments.set(entry.second, later::thunk(slot));
    }
    Pending::then(After::Once(Running { once, slot }))
}

/// The call has returned.
pub fn called(running: Running) {
    let Running { once, slot } = running;
    if !slot.is_some_and(later::give_back) {
        receive(key_of(once.object, ONCE), once.pc);
    }
}

const POINTER: u8 = 3;

pub fn begin(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (object, pc) = (arguments.get(modelled.entry.object), arguments.pc);
    match enter(Next::call(pc)) {
        Some(_) => Pending::then(After::BeginOnce { object, pc }),
        None => Pending::CALL,
    }
}

/// The library has looked at the object.
pub fn begun(object: usize, pc: usize) {
    if enter(Next::access(op::ATOMIC_READ, pc, object, 1 << POINTER)).is_some() {
        record(op::ATOMIC_READ, object, POINTER, Address(object).operand(POINTER), 0, pc);
    }
}

pub fn end(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (entry, pc) = (&modelled.entry, arguments.pc);
    let object = arguments.get(entry.object);
    if enter(Next::access(op::ATOMIC_WRITE, pc, object, 1 << POINTER)).is_some() {
        record(op::ATOMIC_WRITE, object, POINTER, 0, arguments.get(entry.second) as u64, pc);
    }
    Pending::CALL
}
