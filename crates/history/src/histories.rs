//! Lock histories with time stamps: of each thread the steps that change what it holds.
//!
//! A *place* of a thread is the number of the step it takes next; whatever the thread does between two
//! steps happens at the place of the later one. Re-entrant acquires are no steps.

use crate::sets::{Mode, SetId};
use snag_trace::{EventId, LockId};
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of the step that a thread takes next.
pub type Place = u32;

/// A time stamp: of each thread 1 + the last event that must have happened before. Threads beyond its
/// end are unknown to it.
pub type Stamp = Arc<[u32]>;

/// What a stamp knows of a thread: events before this one have happened.
#[inline]
pub fn known(stamp: &[u32], thread: usize) -> u32 {
    stamp.get(thread).copied().unwrap_or(0)
}

/// A step of a lock history.
#[derive(Clone, Debug)]
pub struct Step {
    /// The event.
    pub event: EventId,
    /// The lock.
    pub lock: LockId,
    /// How the thread had it before.
    pub from: Mode,
    /// How it has it then.
    pub to: Mode,
    /// What must have happened before.
    pub stamp: Stamp,
}

impl Step {
    /// It may have to wait for others, while its opposite never does.
    #[inline]
    pub fn is_lock(&self) -> bool {
        self.to > self.from
    }
}

/// The history of one thread. The oldest steps may have been dropped.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Number of the first step that is still here.
    base: Place,
    steps: VecDeque<Step>,
    /// Lockset at each place from `base` to the end.
    held: VecDeque<SetId>,
    /// By lock the steps on it.
    touches: Vec<VecDeque<Place>>,
}

impl History {
    /// The place behind the last step.
    #[inline]
    pub fn end(&self) -> Place {
        self.base + self.steps.len() as Place
    }

    /// The first place that is still here.
    pub fn base(&self) -> Place {
        self.base
    }

    /// The step taken at a place.
    #[inline]
    pub fn step(&self, place: Place) -> &Step {
        &self.steps[(place - self.base) as usize]
    }

    /// The locks held at a place.
    #[inline]
    pub fn held(&self, place: Place) -> SetId {
        match self.held.get((place - self.base) as usize) {
            Some(&set) => set,
            None => SetId::EMPTY, // Before the first step.
        }
    }

    /// Adds a step, after which the thread holds `held`.
    pub fn push(&mut self, step: Step, held: SetId) {
        if self.held.is_empty() {
            self.held.push_back(SetId::EMPTY);
        }
        let lock = step.lock.index();
        if self.touches.len() <= lock {
            self.touches.resize(lock + 1, VecDeque::new());
        }
        let place = self.end();
        self.touches[lock].push_back(place);
        self.steps.push_back(step);
        self.held.push_back(held);
    }

    /// The first step on a lock at a place or later.
    pub fn next_touch(&self, lock: LockId, from: Place) -> Option<Place> {
        let touches = self.touches.get(lock.index())?;
        // What is asked for is mostly near the end.
        match touches.back() {
            Some(&last) if last < from => None,
            _ => touches.get(touches.partition_point(|&place| place < from)).copied(),
        }
    }

    /// The first step at a place or later that gives a lock up, or takes less of it.
    pub fn next_unlock(&self, lock: LockId, from: Place) -> Option<Place> {
        let touches = self.touches.get(lock.index())?;
        let first = touches.partition_point(|&place| place < from);
        touches.range(first..).copied().find(|&place| !self.step(place).is_lock())
    }

    /// Bytes, about.
    pub fn memory(&self) -> usize {
        let touches: usize = self.touches.iter().map(|touches| 32 + 4 * touches.capacity()).sum();
        self.steps.capacity() * size_of::<Step>() + 4 * self.held.capacity() + touches
    }

    /// Forgets the steps before a place.
    pub fn drop_before(&mut self, place: Place) {
        while self.base < place && !self.steps.is_empty() {
            let step = self.steps.pop_front().expect("there is one");
            self.held.pop_front();
            self.touches[step.lock.index()].pop_front();
            self.base += 1;
        }
    }
}
