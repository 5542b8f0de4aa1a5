//! Locksets, interned: each distinct set of held locks exists once.

use snag_trace::LockId;
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

/// All sets that occurred.
pub struct Sets {
    /// Ascending by lock; no lock is free.
    sets: Vec<Box<[(LockId, Mode)]>>,
    ids: HashMap<Box<[(LockId, Mode)]>, SetId>,
    /// Per set what it became by which change, so that a set met again is not built again.
    changes: Vec<Vec<(LockId, Mode, SetId)>>,
}

impl Default for Sets {
    fn default() -> Sets {
        Sets { sets: vec![[].into()], ids: HashMap::from([([].into(), SetId::EMPTY)]), changes: vec![Vec::new()] }
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

    /// The set after one lock in it has changed its mode.
    pub fn change(&mut self, set: SetId, lock: LockId, mode: Mode) -> SetId {
        let known = &mut self.changes[set.0 as usize];
        if let Some(at) = known.iter().position(|change| (change.0, change.1) == (lock, mode)) {
            return known[at].2;
        }
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
                self.changes.push(Vec::new());
                self.ids.insert(locks, id);
                id
            }
        };
        self.changes[set.0 as usize].push((lock, mode, id));
        id
    }
}
