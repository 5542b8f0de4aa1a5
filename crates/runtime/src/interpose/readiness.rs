//! Readiness: a thread that learns by `poll`, `select` or `epoll_wait` that a descriptor is ready comes after the
//! thread that made it ready, even if it reads nothing.
//!
//! All functions here are called inside a call, with the token.

use crate::base::c::Pointer;
use crate::base::lock::Mutex;
use crate::base::program::Address;
use crate::interpose::descriptors::{object, takes_object};
use core::ffi::c_int;
use std::collections::BTreeMap;

/// There is something to be read, or the other end is gone; as opposed to room to write.
const IN: u32 = 0x1 | 0x2 | 0x8 | 0x10 | 0x40 | 0x80 | 0x400 | 0x2000;

/// Each object once in a row: most of them are sockets.
fn takes_all(descriptors: impl Iterator<Item = c_int>) {
    let mut last = 0;
    for object in descriptors.map(object) {
        if object != last {
            takes_object(object);
            last = object;
        }
    }
}

/// `poll` has answered.
pub fn polled(list: Pointer, count: usize, answer: c_int) {
    // A `struct pollfd`: the descriptor, and two bytes each for what was asked and what was found.
    if answer > 0 && !list.is_null() {
        let entries = (0..count).map(|i| Address::from(list).plus(8 * i)).map(|at| (at.read::<i32>(), at.plus(6)));
        takes_all(entries.filter(|(d, found)| *d >= 0 && found.read::<u16>() as u32 & IN != 0).map(|(d, _)| d));
    }
}

/// `select` has answered, with these sets of descriptors below `limit`.
pub fn selected(limit: c_int, answer: c_int, sets: [Pointer; 2]) {
    if answer > 0 {
        let word = |set: Pointer, d: c_int| Address::from(set).plus(d as usize / 64 * 8).read::<u64>();
        let has = |set, d| word(set, d) >> (d % 64) & 1 != 0;
        takes_all((0..limit).filter(|&d| sets.iter().any(|&set| !set.is_null() && has(set, d))));
    }
}

/// By which word each epoll descriptor knows the descriptors that it watches; the watched one comes first. The lock is
/// held for a look or a change.
static WATCHED: Mutex<BTreeMap<(c_int, c_int), u64>> = Mutex::new(BTreeMap::new());

/// `epoll_ctl` is about to be called.
pub fn watches(epoll: c_int, operation: c_int, descriptor: c_int, event: Pointer) {
    const REMOVE: c_int = 2;
    if operation == REMOVE {
        WATCHED.lock().remove(&(descriptor, epoll));
    } else if !event.is_null() {
        WATCHED.lock().insert((descriptor, epoll), Address::from(event).plus(4).read());
    }
}

/// A descriptor is closed.
pub fn forget(descriptor: c_int) {
    let mut all = WATCHED.lock();
    while let Some((&key, _)) = all.range((descriptor, c_int::MIN)..=(descriptor, c_int::MAX)).next() {
        all.remove(&key);
    }
}

/// `epoll_wait` has answered with so many events.
pub fn waited(epoll: c_int, events: Pointer, count: c_int) {
    let all = WATCHED.lock();
    for i in 0..count.max(0) as usize {
        let at = Address::from(events).plus(12 * i);
        let (found, word) = (at.read::<u32>(), at.plus(4).read::<u64>());
        if found & IN == 0 {
            continue;
        }
        // Most programs put the descriptor there.
        if all.get(&(word as c_int, epoll)) == Some(&word) {
            takes_all(core::iter::once(word as c_int));
            continue;
        }
        let watched = || all.iter().filter(|((_, by), _)| *by == epoll);
        match watched().any(|(_, known)| *known == word) {
            true => takes_all(watched().filter(|(_, known)| **known == word).map(|((d, _), _)| *d)),
            // It was changed meanwhile.
            false => takes_all(watched().map(|((d, _), _)| *d)),
        }
    }
}
