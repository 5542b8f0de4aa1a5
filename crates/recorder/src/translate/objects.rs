//! Locks, conditions, semaphores and barriers: which address is which object of the trace, and what state it is in.
//!
//! An address can be one object after the other. It is a new one when it is initialised, destroyed, or lies in a block
//! that is freed.

use snag_model::{BarrierId, CondId, LockId, SemId, VarId};
use std::collections::{BTreeMap, HashMap};

/// A lock as the trace has it.
#[derive(Clone, Debug)]
pub struct Lock {
    /// Which one.
    pub id: LockId,
    /// Thread that holds it for writing, and how often.
    pub owner: Option<(usize, u32)>,
    /// Threads that hold it for reading, and how often.
    pub readers: Vec<(usize, u32)>,
    /// The thread that has used it, if only one has.
    pub user: Option<usize>,
    /// Several have.
    pub shared: bool,
}

impl Lock {
    /// A thread uses it.
    pub fn used_by(&mut self, thread: usize) {
        self.shared |= *self.user.get_or_insert(thread) != thread;
    }

    /// Whether the thread may take it, for writing or reading.
    pub fn is_open_to(&self, thread: usize, writes: bool) -> bool {
        self.owner.is_none_or(|(owner, _)| owner == thread)
            && (!writes || self.readers.iter().all(|&(reader, _)| reader == thread))
    }
}

/// A barrier as the trace has it.
#[derive(Clone, Debug)]
pub struct Barrier {
    /// Which one.
    pub id: BarrierId,
    /// How many threads wait for each other, if that is known.
    pub parties: Option<u32>,
    /// Threads inside, and in which round they came.
    inside: HashMap<usize, u64>,
    /// The round that threads come in, and how many have.
    round: u64,
    entered: u32,
}

impl Barrier {
    /// Nobody is inside.
    pub fn new(id: BarrierId) -> Barrier {
        Barrier { id, parties: None, inside: HashMap::new(), round: 0, entered: 0 }
    }

    fn begin_round(&mut self) {
        self.round += 1;
        self.entered = 0;
    }

    /// A thread enters; whether it can.
    pub fn enter(&mut self, thread: usize) -> bool {
        if self.inside.contains_key(&thread) {
            return false;
        }
        if self.parties == Some(self.entered) {
            self.begin_round();
        }
        self.inside.insert(thread, self.round);
        self.entered += 1;
        true
    }

    /// A thread leaves; whether it can: it is inside, and all others have come. Of those that are not known, all that have.
    pub fn leave(&mut self, thread: usize) -> bool {
        match (self.inside.remove(&thread), self.parties) {
            (None, _) => false,
            (Some(round), Some(parties)) => round != self.round || self.entered >= parties,
            (Some(round), None) => {
                if round == self.round {
                    self.begin_round();
                }
                true
            }
        }
    }
}

/// All objects that are in use.
#[derive(Default)]
pub struct Objects {
    /// By address.
    pub locks: BTreeMap<u64, Lock>,
    /// By address.
    pub conditions: BTreeMap<u64, CondId>,
    /// By address, with the count that the trace gives it.
    pub semaphores: BTreeMap<u64, (SemId, u64)>,
    /// By address.
    pub barriers: BTreeMap<u64, Barrier>,
    /// Locks that were destroyed, by address, until something else is there.
    pub destroyed: BTreeMap<u64, LockId>,
    /// What the use and the end of a descriptor access, by its number.
    pub descriptors: HashMap<u64, VarId>,
    /// How often a name was given.
    names: HashMap<String, u32>,
}

impl Objects {
    /// The name, made different from all that were given before.
    pub fn unique(&mut self, name: String) -> String {
        let count = self.names.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 { name } else { format!("{name} #{count}") }
    }

    /// Whether there is anything in this memory.
    pub fn are_in(&self, first: u64, size: u64) -> bool {
        fn any<T>(map: &BTreeMap<u64, T>, first: u64, size: u64) -> bool {
            !map.is_empty() && map.range(first..first.saturating_add(size)).next().is_some()
        }
        any(&self.locks, first, size)
            || any(&self.conditions, first, size)
            || any(&self.semaphores, first, size)
            || any(&self.barriers, first, size)
            || any(&self.destroyed, first, size)
    }

    /// What lies in this memory is no more.
    pub fn forget(&mut self, first: u64, size: u64) {
        fn remove<T>(map: &mut BTreeMap<u64, T>, first: u64, size: u64) {
            let gone: Vec<u64> = map.range(first..first.saturating_add(size)).map(|(address, _)| *address).collect();
            gone.iter().for_each(|address| {
                map.remove(address);
            });
        }
        remove(&mut self.locks, first, size);
        remove(&mut self.destroyed, first, size);
        remove(&mut self.conditions, first, size);
        remove(&mut self.semaphores, first, size);
        remove(&mut self.barriers, first, size);
    }
}
