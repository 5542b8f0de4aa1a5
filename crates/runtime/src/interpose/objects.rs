//! What descriptors lead to: a pipe, socket or file is one *object*, however many descriptors lead to it.

use crate::base::kernel::{self, number, system};
use crate::base::lock::Mutex;
use crate::base::relaxed::Relaxed;
use crate::wire::SOCKETS;
use core::ffi::{c_char, c_int};
use std::collections::{BTreeMap, BTreeSet};

/// Object of each descriptor; 0: itself, as nobody else in the program has to do with it.
static OBJECTS: [Relaxed<u32>; 1 << 16] = [const { Relaxed::zero() }; 1 << 16];

/// What something is known by: for files the device, the number there, and the time of birth.
type Key = [u64; 4];

/// The lock is held for a look or a change.
static KNOWN: Mutex<Known> =
    Mutex::new(Known { things: BTreeMap::new(), last: SOCKETS as u32, write_only: BTreeSet::new() });

struct Known {
    /// What several descriptors may lead to: its object by what it is known by.
    things: BTreeMap<Key, u32>,
    /// The object that was found last.
    last: u32,
    /// Objects of files that were opened for writing alone, like those in which programs write down what they do:
    /// nobody learns anything from what is written there.
    write_only: BTreeSet<u32>,
}

impl Known {
    fn new_object(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    fn object_of(&mut self, key: Key) -> u32 {
        if let Some(&object) = self.things.get(&key) {
            return object;
        }
        let object = self.new_object();
        self.things.insert(key, object);
        object
    }
}

/// An object that there was not before: the next number, so that a run that is repeated has the same.
pub fn new_object() -> u32 {
    KNOWN.lock().new_object()
}

/// The object of something that is known by `key`.
pub fn object_of(key: Key) -> u32 {
    KNOWN.lock().object_of(key)
}

/// The object of a file, and who can learn what is in it.
fn object_of_file(key: Key, descriptor: c_int) -> u32 {
    const HOW: i64 = 3;
    const TO_WRITE: i64 = 1;
    let flags = kernel::descriptor_flags(descriptor);
    let mut known = KNOWN.lock();
    let is_new = !known.things.contains_key(&key);
    let object = known.object_of(key);
    if flags & HOW != TO_WRITE {
        known.write_only.remove(&object);
    } else if is_new {
        known.write_only.insert(object);
    }
    object
}

pub fn set_object(descriptor: c_int, object: u32) {
    if let Some(slot) = OBJECTS.get(descriptor as usize) {
        slot.set(object);
    }
}

/// The object, if it is one that other descriptors may lead to as well.
pub fn shared(descriptor: c_int) -> Option<u32> {
    OBJECTS.get(descriptor as usize).map(Relaxed::get).filter(|&object| object != 0)
}

pub fn object(descriptor: c_int) -> u64 {
    shared(descriptor).map_or(descriptor as u32 as u64 + 1, u64::from)
}

/// The object, if others may read what is written into it.
pub fn read_by_others(descriptor: c_int) -> Option<u32> {
    shared(descriptor).filter(|object| !KNOWN.lock().write_only.contains(object))
}

/// What the kernel says about what a descriptor, or a name below it, leads to.
struct Facts {
    kind: u64,
    /// How many names it has.
    names: u32,
    key: Key,
}

impl Facts {
    fn of(descriptor: c_int, name: *const c_char, flags: usize) -> Option<Facts> {
        // Kind, names, number, time of birth.
        const WANTED: usize = 0x1 | 0x4 | 0x100 | 0x800;
        let mut facts = [0u64; 32];
        let arguments = [descriptor as usize, name as usize, flags, WANTED, facts.as_mut_ptr() as usize, 0];
        // SAFETY: the kernel reads a name that ends, ours or the program's, and writes its facts, which are 256 bytes.
        if unsafe { system(number::STATX, arguments) } < 0 {
            return None;
        }
        Some(Facts {
            kind: facts[3] >> 44 & 0o17,
            names: facts[2] as u32,
            key: [facts[17], facts[4], facts[10], facts[11] & 0xffff_ffff],
        })
    }

    fn of_descriptor(descriptor: c_int) -> Option<Facts> {
        const EMPTY_PATH: usize = 0x1000;
        Facts::of(descriptor, c"".as_ptr(), EMPTY_PATH)
    }

    /// Numbers of files that are gone are used again.
    fn forget(&self) {
        KNOWN.lock().things.remove(&self.key);
    }
}

// What the kernel says differs from run to run. Whoever calls these has to wipe it off the stack.

/// The object of a descriptor that was opened or came from elsewhere.
#[inline(never)]
pub fn identify(descriptor: c_int) -> u32 {
    const FIFO: u64 = 0o1;
    const FILE: u64 = 0o10;
    const SOCKET: u64 = 0o14;
    match Facts::of_descriptor(descriptor) {
        Some(Facts { kind: FIFO, key, .. }) => object_of(key),
        Some(Facts { kind: FILE, key, .. }) => object_of_file(key, descriptor),
        Some(Facts { kind: SOCKET, key, .. }) => KNOWN.lock().things.get(&key).copied().unwrap_or(SOCKETS as u32),
        _ => 0,
    }
}

/// A name is about to lead nowhere, or elsewhere.
#[inline(never)]
pub fn unnames(folder: c_int, name: *const c_char) {
    const NO_FOLLOW: usize = 0x100;
    if let Some(facts) = Facts::of(folder, name, NO_FOLLOW)
        && facts.names <= 1
    {
        facts.forget();
    }
}

/// A descriptor is about to be closed; what it leads to may have no name.
#[inline(never)]
pub fn forget_unnamed(descriptor: c_int) {
    if let Some(facts) = Facts::of_descriptor(descriptor)
        && facts.names == 0
    {
        facts.forget();
    }
}

/// Both ends of a pair of sockets lead to one object.
#[inline(never)]
pub fn identify_pair(ends: [c_int; 2]) -> u32 {
    let [first, second] =
        ends.map(|end| Facts::of_descriptor(end).map_or([u64::MAX, 0, end as u64, 0], |facts| facts.key));
    let mut known = KNOWN.lock();
    let object = known.object_of(first);
    known.things.insert(second, object);
    object
}
