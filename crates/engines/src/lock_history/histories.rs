//! Lock histories with time stamps: of each thread the steps that change what it holds.
//!
//! A *place* of a thread is the number of the step it takes next; whatever the thread does between two
//! steps happens at the place of the later one. Re-entrant acquires are no steps.

use crate::lock_history::sets::{Change, Mode, SetId, Sets};
use crate::lock_history::steps::{Steps, Taken};
use snag_model::{EventId, LockId};
use std::collections::VecDeque;
use std::ops::Range;
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
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The event.
    pub event: EventId,
    /// The lock.
    pub lock: LockId,
    /// The locks that the thread holds then.
    pub after: SetId,
    /// How the thread had it before.
    pub from: Mode,
    /// How it has it then.
    pub to: Mode,
}

impl Step {
    /// It may have to wait for others, while its opposite never does.
    #[inline]
    pub fn is_lock(&self) -> bool {
        self.to > self.from
    }

    /// Whether it cannot be taken while another thread holds these.
    #[inline]
    pub fn waits_for(&self, sets: &Sets, held: SetId) -> bool {
        self.is_lock() && self.to.excludes(sets.mode(held, self.lock))
    }
}

/// The history of one thread. The oldest steps may have been dropped.
///
/// Steps are pushed while a trace is read, and few of them are ever looked at, so pushing does little: the stamp of a step is
/// found by its event, and the steps on each lock are listed when a search asks for them.
#[derive(Clone, Debug)]
pub struct History {
    steps: Steps,
    /// Event of the last step that was dropped, and the locks held after it.
    dropped: Option<(EventId, SetId)>,
    /// The stamps of the thread, each from an event on; the first one from the beginning.
    stamps: Vec<(EventId, Stamp)>,
    /// By lock the steps on it, of those that are listed.
    touches: Vec<VecDeque<Place>>,
    listed: Range<Place>,
}

impl Default for History {
    fn default() -> History {
        History {
            steps: Steps::default(),
            dropped: None,
            stamps: vec![(EventId(0), [].into())],
            touches: Vec::new(),
            listed: 0..0,
        }
    }
}

impl History {
    /// The place behind the last step.
    #[inline]
    pub fn end(&self) -> Place {
        self.steps.end()
    }

    /// The first place that is still here.
    pub fn base(&self) -> Place {
        self.steps.base()
    }

    /// The event of the step taken at a place.
    #[inline]
    pub fn event(&self, place: Place) -> EventId {
        self.steps.get(place).event
    }

    /// The step taken at a place.
    #[inline]
    pub fn step(&self, place: Place, sets: &Sets) -> Step {
        let taken = self.steps.get(place);
        let &Change { lock, from, to, after } = sets.change_of(taken.change);
        Step { event: taken.event, lock, after, from, to }
    }

    /// The steps from a place to another, which is not included.
    pub fn range(&self, from: Place, to: Place, sets: &Sets) -> impl Iterator<Item = Step> {
        (from..to).map(|place| self.step(place, sets))
    }

    /// The locks held at a place.
    #[inline]
    pub fn held(&self, place: Place, sets: &Sets) -> SetId {
        match place.checked_sub(1) {
            Some(before) if before >= self.base() => sets.change_of(self.steps.get(before).change).after,
            _ => self.dropped.map_or(SetId::EMPTY, |dropped| dropped.1),
        }
    }

    /// What must have happened before the step at a place.
    #[inline]
    pub fn stamp(&self, place: Place) -> &Stamp {
        self.stamp_of(self.event(place))
    }

    /// What must have happened before an event of the thread.
    pub fn stamp_of(&self, event: EventId) -> &Stamp {
        let at = match self.stamps.last() {
            // What is asked for is mostly near the end.
            Some(last) if last.0 <= event => self.stamps.len(),
            _ => self.stamps.partition_point(|change| change.0 <= event),
        };
        &self.stamps[at.saturating_sub(1)].1
    }

    /// From an event on there is a new stamp.
    pub fn stamp_from(&mut self, event: EventId, stamp: Stamp) {
        match self.stamps.last_mut() {
            Some(last) if last.0 == event => last.1 = stamp,
            _ => self.stamps.push((event, stamp)),
        }
    }

    /// The place at which the thread was before an event of any thread; `None` if that was dropped.
    pub fn place_before(&self, event: EventId) -> Option<Place> {
        if self.dropped.is_some_and(|dropped| dropped.0 >= event) {
            return None;
        }
        // What is asked for is mostly near the end.
        match self.end().checked_sub(1) {
            Some(last) if last >= self.base() && self.event(last) >= event => {
                Some(self.steps.partition_point(|step| step.event < event))
            }
            _ => Some(self.end()),
        }
    }

    /// Adds a step.
    #[inline]
    pub fn push(&mut self, step: Taken) {
        self.steps.push(step);
    }

    /// Lists the steps from a place on by their locks, and those that were pushed since: [`History::next_touch`] and
    /// [`History::next_unlock`] know of them from now on.
    pub fn list(&mut self, from: Place, sets: &Sets) {
        let (from, end) = (from.max(self.base()), self.end());
        if self.listed.is_empty() {
            self.listed = from..from;
        }
        for place in (from..self.listed.start).rev() {
            self.touches_of(place, sets).push_front(place);
        }
        for place in self.listed.end..end {
            self.touches_of(place, sets).push_back(place);
        }
        self.listed = self.listed.start.min(from)..end;
    }

    fn is_listed(&self, from: Place) -> bool {
        from >= self.end() || self.listed.start <= from && self.listed.end == self.end()
    }

    fn touches_of(&mut self, place: Place, sets: &Sets) -> &mut VecDeque<Place> {
        let lock = self.step(place, sets).lock.index();
        if self.touches.len() <= lock {
            self.touches.resize(lock + 1, VecDeque::new());
        }
        &mut self.touches[lock]
    }

    /// The first step on a lock at a place or later.
    pub fn next_touch(&self, lock: LockId, from: Place) -> Option<Place> {
        debug_assert!(self.is_listed(from));
        let touches = self.touches.get(lock.index())?;
        // What is asked for is mostly near the end.
        match touches.back() {
            Some(&last) if last < from => None,
            _ => touches.get(touches.partition_point(|&place| place < from)).copied(),
        }
    }

    /// The first step at a place or later that gives a lock up, or takes less of it.
    pub fn next_unlock(&self, lock: LockId, from: Place, sets: &Sets) -> Option<Place> {
        debug_assert!(self.is_listed(from));
        let touches = self.touches.get(lock.index())?;
        let first = touches.partition_point(|&place| place < from);
        touches.range(first..).copied().find(|&place| !self.step(place, sets).is_lock())
    }

    /// Bytes, about.
    pub fn memory(&self) -> usize {
        let touches: usize = self.touches.iter().map(|touches| 32 + 4 * touches.capacity()).sum();
        let stamps: usize = self.stamps.iter().map(|stamp| 40 + 4 * stamp.1.len()).sum();
        self.steps.memory() + touches + stamps
    }

    /// Forgets the steps before a place.
    pub fn drop_before(&mut self, place: Place, sets: &Sets) {
        while self.base() < place {
            let at = self.base();
            let Some(step) = self.steps.pop() else { break };
            let change = sets.change_of(step.change);
            if self.listed.contains(&at) {
                self.touches[change.lock.index()].pop_front();
                self.listed.start = at + 1;
            }
            self.dropped = Some((step.event, change.after));
        }
    }

    /// Forgets stamps that no event from this one on has.
    pub fn drop_stamps_before(&mut self, event: EventId) {
        let keep = self.stamps.partition_point(|change| change.0 <= event).saturating_sub(1);
        self.stamps.drain(..keep);
    }
}
