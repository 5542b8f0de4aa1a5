//! Queues of libraries: what is done before an item is put in comes before what is done after it is taken out.
//!
//! An item is known again by its value, and items of the same value by their order. Whatever puts items in stays in its
//! order, and so does whatever takes them out; but an item may be put in earlier or later than another one is taken out.
//! A call that puts an item elsewhere than at the end, or sorts the queue, keeps its place among all others, and so does
//! one that finds the queue empty. Such a call may have the program compare items: that comes after all were put in, and
//! before any is taken out.

use super::companions::Function;
use super::locks::deadline_of;
use super::order::key_of;
use super::{Arguments, Modelled, Pending, without_token};
use crate::base::c::EBUSY;
use crate::base::lock::Mutex;
use crate::base::record::put3;
use crate::base::thread::inside;
use crate::interpose::locks::contend;
use crate::scheduler::{Next, enter, is_on, observe, regain};
use crate::wire::models::{ANYWHERE, NEVER_WAITS, effect};
use crate::wire::{head, lock, op};
use core::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

/// So many items in a row have objects of their own; then the first one is used again.
const ITEMS: u64 = 256;

/// What stands for the end at which items are put in, and for the one at which they are taken out.
const IN: u64 = ITEMS + 1;
const OUT: u64 = ITEMS + 2;

#[derive(Default)]
struct Queue {
    /// Items that are in it, and the object of each.
    items: VecDeque<(usize, u64)>,
    /// How many were put in.
    count: u64,
    /// The program has had a function of its own compare items that were in it, or may have.
    compares: bool,
}

/// By address. The lock is held for a look or a change.
static QUEUES: Mutex<BTreeMap<usize, Queue>> = Mutex::new(BTreeMap::new());

/// Both: whoever does this comes after and before others that do.
fn keep_place(key: u64, pc: usize) {
    put3(head(op::SYNC_RELEASE, 0, pc), key, 0);
}

fn look_at(key: u64, pc: usize) {
    put3(head(op::SYNC_ACQUIRE, 0, pc), key, 0);
}

/// An item is about to be put in.
fn puts(queue: usize, item: usize, pc: usize) {
    let part = {
        let mut queues = QUEUES.lock();
        let state = queues.entry(queue).or_default();
        state.count += 1;
        let part = 1 + state.count % ITEMS;
        state.items.push_back((item, part));
        part
    };
    keep_place(key_of(queue, IN), pc);
    put3(head(op::SYNC_RELEASE, 0, pc), key_of(queue, part), 0);
}

/// A call that may have items compared is about to be made.
fn begins_to_compare(queue: usize, pc: usize) {
    QUEUES.lock().entry(queue).or_default().compares = true;
    for end in [IN, OUT] {
        look_at(key_of(queue, end), pc);
        keep_place(key_of(queue, end), pc);
    }
}

/// It was made.
fn has_compared(queue: usize, pc: usize) {
    if enter(Next::call(pc)).is_some() {
        keep_place(key_of(queue, OUT), pc);
    }
}

/// An item was taken out; 0: there was none.
fn took(queue: usize, item: usize, pc: usize) {
    if item == 0 {
        look_at(key_of(queue, IN), pc);
        return look_at(key_of(queue, OUT), pc);
    }
    let (part, compares) = {
        let mut queues = QUEUES.lock();
        let state = queues.entry(queue).or_default();
        let at = state.items.iter().position(|&(known, _)| known == item);
        let removed = at.and_then(|at| state.items.remove(at));
        (removed.map(|(_, part)| part), state.compares)
    };
    if compares {
        look_at(key_of(queue, OUT), pc);
    }
    keep_place(key_of(queue, OUT), pc);
    match part {
        Some(part) => look_at(key_of(queue, part), pc),
        // It was put in where nobody saw it.
        None => look_at(key_of(queue, IN), pc),
    }
}

pub fn push(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (entry, pc) = (&modelled.entry, arguments.pc);
    let (queue, item) = (arguments.get(entry.object), arguments.get(entry.second));
    let (counts, anywhere) = (enter(Next::call(pc)).is_some(), entry.flags & ANYWHERE != 0);
    if counts && anywhere {
        begins_to_compare(queue, pc);
    }
    if counts {
        puts(queue, item, pc);
    }
    let result = arguments.call();
    if counts && anywhere {
        has_compared(queue, pc);
    }
    // Who waits for an item may wait in the scheduler.
    crate::interpose::locks::wake_anyway(queue as *mut _, 1);
    Pending::done(result)
}

pub fn pop(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (entry, pc) = (&modelled.entry, arguments.pc);
    let queue = arguments.get(entry.object);
    if entry.flags & NEVER_WAITS != 0 {
        let counts = enter(Next::call(pc)).is_some();
        let item = arguments.call();
        if counts && enter(Next::call(pc)).is_some() {
            took(queue, item, pc);
        }
        return Pending::done(item);
    }
    let Some(by) = modelled.attempt else {
        return without_token(arguments, || (), |item| took(queue, item, pc));
    };
    if entry.second != 0 {
        return pop_with_lock(modelled, arguments, by);
    }
    let Some(thread) = enter(Next::call(pc)) else { return Pending::CALL };
    let found = Cell::new(0);
    let attempt = || {
        // What the library does is not the runtime's doing: it may have to wait for a lock of its own.
        let depth = thread.inside.replace(0);
        found.set(by.call(arguments));
        thread.inside.set(depth);
        regain(thread);
        if found.get() == 0 { EBUSY } else { 0 }
    };
    let deadline = deadline_of(modelled, arguments);
    let really = || {
        found.set(arguments.call());
        0
    };
    inside(thread, || contend(thread, queue, deadline, false, None, EBUSY, attempt, really));
    let item = found.get();
    if is_on() && enter(Next::call(pc)).is_some() {
        took(queue, item, pc);
    }
    Pending::done(item)
}

/// The caller holds a lock of the queue, which is given back only if there is nothing and the call has to wait.
fn pop_with_lock(modelled: &Modelled, arguments: &mut Arguments, by: Function) -> Pending {
    let (entry, pc) = (&modelled.entry, arguments.pc);
    let (queue, lock) = (arguments.get(entry.object), arguments.get(entry.second));
    let counts = enter(Next::call(pc)).is_some();
    let item = by.call(arguments);
    if item != 0 {
        if counts && enter(Next::call(pc)).is_some() {
            took(queue, item, pc);
        }
        return Pending::done(item);
    }
    let record = |code: u8| {
        put3(head(code, 0, pc), lock as u64, lock::MUTEX);
        observe::holds(code, lock::MUTEX);
    };
    let after = |item: usize| {
        record(op::LOCK);
        took(queue, item, pc);
    };
    without_token(arguments, || record(op::UNLOCK), after)
}

pub fn look(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (entry, pc) = (&modelled.entry, arguments.pc);
    let queue = arguments.get(entry.object);
    let counts = enter(Next::call(pc)).is_some();
    let rearranges = entry.effect == effect::REARRANGE;
    if counts && rearranges {
        begins_to_compare(queue, pc);
    }
    let result = arguments.call();
    if counts && rearranges {
        has_compared(queue, pc);
    } else if counts && enter(Next::call(pc)).is_some() {
        took(queue, 0, pc);
    }
    Pending::done(result)
}
