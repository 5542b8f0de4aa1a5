//! Locksets, interned: each distinct set of held locks exists once.

use snag_model::LockId;
use std::collections::HashMap;

/// How a thread has a lock. A reader/writer lock may be held both ways; then it is held exclusively.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// Not at all.
    Free,
    /// For reading.
    Shared,
    /// Alone.
    Exclusive,
}

impl Mode {
    /// Whether two threads cannot have the same lock like this at once.
    #[inline]
    pub fn excludes(self, other: Mode) -> bool {
        self.min(other) != Mode::Free && self.max(other) == Mode::Exclusive
    }
}

/// The number of a set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SetId(pub u32);

impl SetId {
    /// No locks.
    pub const EMPTY: SetId = SetId(0);
}

/// The number of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChangeId(u32);

/// How a set became another one: one lock changed its mode.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The lock.
    pub lock: LockId,
    /// How it was held before.
    pub from: Mode,
    /// How it is held then.
    pub to: Mode,
    /// What is held then.
    pub after: SetId,
}

/// All sets that occurred.
pub struct Sets {
    /// Ascending by lock; no lock is free.
    sets: Vec<Box<[(LockId, Mode)]>>,
    ids: HashMap<Box<[(LockId, Mode)]>, SetId>,
    /// Per set what it became by which change, so that a set met again is not built again.
    became: Vec<Vec<(LockId, Mode, SetId, ChangeId)>>,
    changes: Vec<Change>,
}

impl Default for Sets {
    fn default() -> Sets {
        let ids = HashMap::from([([].into(), SetId::EMPTY)]);
        Sets { sets: vec![[].into()], ids, became: vec![Vec::new()], changes: Vec::new() }
    }
}

impl Sets {
    /// The locks of a set.
    #[inline]
    pub fn locks(&self, set: SetId) -> &[(LockId, Mode)] {
        &self.sets[set.0 as usize]
    }

    /// How a lock is held in a set.
    #[inline]
    pub fn mode(&self, set: SetId, lock: LockId) -> Mode {
        self.locks(set).iter().find(|held| held.0 == lock).map_or(Mode::Free, |held| held.1)
    }

    /// Whether two threads cannot hold these sets at once.
    pub fn exclude(&self, a: SetId, b: SetId) -> bool {
        self.locks(a).iter().any(|&(lock, mode)| mode.excludes(self.mode(b, lock)))
    }

    /// A change that was made.
    #[inline]
    pub fn change_of(&self, id: ChangeId) -> &Change {
        &self.changes[id.0 as usize]
    }

    /// The set after one lock in it has changed its mode, and the number of that change.
    pub fn change(&mut self, set: SetId, lock: LockId, mode: Mode) -> (SetId, ChangeId) {
        let known = &self.became[set.0 as usize];
        if let Some(at) = known.iter().position(|change| (change.0, change.1) == (lock, mode)) {
            return (known[at].2, known[at].3);
        }
        let from = self.mode(set, lock);
        let mut locks: Vec<(LockId, Mode)> = self.locks(set).iter().copied().filter(|held| held.0 != lock).collect();
        if mode != Mode::Free {
            locks.push((lock, mode));
            locks.sort_unstable();
        }
        let locks: Box<[(LockId, Mode)]> = locks.into();
        let id = match self.ids.get(&locks) {
            Some(&id) => id,
            None => {
                let id = SetId(self.sets.len() as u32);
                self.sets.push(locks.clone());
                self.became.push(Vec::new());
                self.ids.insert(locks, id);
                id
            }
        };
        let change = ChangeId(self.changes.len() as u32);
        self.changes.push(Change { lock, from, to: mode, after: id });
        self.became[set.0 as usize].push((lock, mode, id, change));
        (id, change)
    }
}
