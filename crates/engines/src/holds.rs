//! Which locks a thread holds, and how often.

use snag_model::{Action, CondId, LockId, Mode};

/// The locks of one thread, after the actions that it was shown.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    locks: Vec<Hold>,
    waits: Vec<Wait>,
}

/// How a thread holds a lock.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    /// The lock.
    pub lock: LockId,
    /// How often it is held exclusively.
    pub exclusive: u32,
    /// How often for reading.
    pub shared: u32,
}

/// A wait that has begun and not ended.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// What is waited for.
    pub condition: CondId,
    /// The lock that was given up.
    pub lock: LockId,
    /// How often it was held.
    pub count: u32,
    /// The wake-up has come; the lock is to be taken again.
    pub woken: bool,
}

impl Holds {
    /// The locks that it holds.
    pub fn locks(&self) -> &[Hold] {
        &self.locks
    }

    /// What it waits for.
    pub fn waits(&self) -> &[Wait] {
        &self.waits
    }

    /// What an action of the thread changes: how it held the lock before, and how it does now. `None` if the action
    /// takes no lock and gives none back.
    pub fn apply(&mut self, action: Action) -> Option<(Hold, Hold)> {
        match action {
            Action::Acquire { lock, mode, .. } => Some(self.acquire(lock, mode)),
            Action::Release { lock, mode } => Some(self.release(lock, mode)),
            Action::WaitBegin { condition, lock } => {
                let mut count = 0;
                let change = self.change(lock, |hold| count = std::mem::take(&mut hold.exclusive));
                self.waits.push(Wait { condition, lock, count, woken: false });
                Some(change)
            }
            Action::Wake { condition, .. } => {
                let waits = self.waits.iter_mut().filter(|wait| wait.condition == condition);
                waits.for_each(|wait| wait.woken = true);
                None
            }
            Action::WaitEnd { lock, .. } => {
                let wait = self.waits.iter().position(|wait| wait.lock == lock);
                let count = wait.map_or(1, |wait| self.waits.swap_remove(wait).count);
                Some(self.change(lock, |hold| hold.exclusive += count))
            }
            _ => None,
        }
    }

    /// The thread takes a lock.
    #[inline]
    pub fn acquire(&mut self, lock: LockId, mode: Mode) -> (Hold, Hold) {
        self.change(lock, |hold| match mode {
            Mode::Exclusive => hold.exclusive += 1,
            Mode::Shared => hold.shared += 1,
        })
    }

    /// The thread gives a lock back.
    #[inline]
    pub fn release(&mut self, lock: LockId, mode: Mode) -> (Hold, Hold) {
        self.change(lock, |hold| match mode {
            Mode::Exclusive => hold.exclusive -= 1,
            Mode::Shared => hold.shared -= 1,
        })
    }

    #[inline]
    fn change(&mut self, lock: LockId, change: impl FnOnce(&mut Hold)) -> (Hold, Hold) {
        let at = self.locks.iter().rposition(|hold| hold.lock == lock).unwrap_or_else(|| {
            self.locks.push(Hold { lock, exclusive: 0, shared: 0 });
            self.locks.len() - 1
        });
        let before = self.locks[at];
        change(&mut self.locks[at]);
        let after = self.locks[at];
        if after.mode().is_none() {
            self.locks.swap_remove(at);
        }
        (before, after)
    }
}

impl Hold {
    /// How it keeps others from taking the lock, if it is held at all.
    pub fn mode(&self) -> Option<Mode> {
        match self {
            Hold { exclusive: 1.., .. } => Some(Mode::Exclusive),
            Hold { shared: 1.., .. } => Some(Mode::Shared),
            _ => None,
        }
    }
}
