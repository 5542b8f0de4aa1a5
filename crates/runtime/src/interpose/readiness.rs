//! Descriptors that are ready: whoever learns so comes after whoever made them ready, though nothing may have been read.
//!
//! All of this is in a call, with the token.

use crate::base::c::Pointer;
use crate::base::memory::Global;
use crate::base::thread::{self, inside};
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
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Polled {
        descriptor: c_int,
        asked: u16,
        found: u16,
    }
    if answer > 0 && !list.is_null() {
        let entries = (0..count).map(|i| unsafe { *(list as *const Polled).add(i) });
        takes_all(entries.filter(|entry| entry.descriptor >= 0 && entry.found as u32 & IN != 0).map(|e| e.descriptor));
    }
}

/// `select` has answered, with these sets of descriptors below `limit`.
pub fn selected(limit: c_int, answer: c_int, sets: [Pointer; 2]) {
    if answer > 0 {
        let has = |set: Pointer, d: c_int| unsafe { *(set as *const u64).add(d as usize / 64) } >> (d % 64) & 1 != 0;
        takes_all((0..limit).filter(|&d| sets.iter().any(|&set| !set.is_null() && has(set, d))));
    }
}

/// By which word each epoll descriptor knows the descriptors that it watches; the watched one comes first. Guarded by the token.
static WATCHED: Global<BTreeMap<(c_int, c_int), u64>> = Global::new(BTreeMap::new());

fn change(work: impl FnOnce(&mut BTreeMap<(c_int, c_int), u64>)) {
    inside(thread::current(), || work(unsafe { &mut *WATCHED.get() }));
}

/// `epoll_ctl` is about to be called.
pub fn watches(epoll: c_int, operation: c_int, descriptor: c_int, event: Pointer) {
    const REMOVE: c_int = 2;
    if operation == REMOVE {
        change(|all| {
            all.remove(&(descriptor, epoll));
        });
    } else if !event.is_null() {
        let word = unsafe { event.byte_add(4).cast::<u64>().read_unaligned() };
        change(|all| {
            all.insert((descriptor, epoll), word);
        });
    }
}

/// A descriptor is closed.
pub fn forget(descriptor: c_int) {
    let all = unsafe { &*WATCHED.get() };
    while let Some((&key, _)) = all.range((descriptor, c_int::MIN)..=(descriptor, c_int::MAX)).next() {
        change(|all| {
            all.remove(&key);
        });
    }
}

/// `epoll_wait` has answered with so many events.
pub fn waited(epoll: c_int, events: Pointer, count: c_int) {
    let all = unsafe { &*WATCHED.get() };
    for i in 0..count.max(0) as usize {
        let at = events.wrapping_byte_add(12 * i);
        let (found, word) =
            unsafe { (at.cast::<u32>().read_unaligned(), at.byte_add(4).cast::<u64>().read_unaligned()) };
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
