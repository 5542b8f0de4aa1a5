//! Vector clocks whose times are trace positions.
//!
//! The time of a thread is the number of the event it performs, plus one. So a
//! component says exactly which events of a thread are known (all before that
//! number), nothing has to be counted up, and a clock *is* a schedule: of every
//! thread, the events before its component. An epoch names one event.
//!
//! A thread publishes its clock far more often than the clock changes: SHB
//! publishes at every write. So a [`Stamp`] refers to the thread's current row
//! instead of copying it; the row is copied once the thread is about to learn
//! something ("copy on write"), and rows that no stamp refers to are collected.
//!
//! Components are *slots*, not threads: the slot of a thread that was joined is
//! taken over by a new thread whose parent knows all of the old one's events.
//! Everything the old thread did is then before everything the new one does, and
//! one component serves both. Clocks are as long as threads are alive at once.
//! A thread has a slot from its first event on; one that has none costs nothing.
//!
//! If more than `MOST_FLAT` threads are alive at once, rows are trees that share what they have in common
//! ([`SparseVector`]): otherwise memory would grow with the square of the number of threads.

mod shadows;

use snag_model::{SparseVector, ThreadId};
use std::collections::HashMap;

/// A thread's component in every clock.
pub type Slot = u32;

/// A point of time: 1 + the number of an event; 0 is before the first event.
pub type Time = u32;

/// Larger than any time: what a thread knows of itself.
const SELF: Time = Time::MAX;

/// No thread has this slot.
const NO_SLOT: Slot = Slot::MAX;

/// Longer rows are trees. Tests have few threads, and should see both kinds of rows.
const MOST_FLAT: usize = if cfg!(debug_assertions) { 8 } else { 1024 };

/// So many slots of threads that have ended are tried, the last ones first, before a new one is taken.
const MOST_TRIED: usize = 64;

/// What a thread knew when it performed an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Who performed the event.
    pub slot: Slot,
    /// When.
    pub time: Time,
    /// Its other components. The row's own component is not to be used.
    pub row: u32,
}

impl Stamp {
    /// Before everything.
    pub const NEVER: Stamp = Stamp { slot: 0, time: 0, row: 0 };
}

/// The clocks of all threads, and the rows that stamps refer to.
#[derive(Clone, Debug)]
pub struct Clocks {
    /// Row after row, each `width` long. Row 0 is all zero.
    times: Vec<Time>,
    /// Room for so many slots; a multiple of eight, so that joins are vectorised.
    width: usize,
    /// The rows instead, once there are more than `most_flat` slots; empty before.
    trees: Vec<SparseVector>,
    most_flat: usize,
    /// Rows that nobody refers to.
    free: Vec<u32>,
    /// Collect when this many rows are in use.
    collect_at: usize,
    rows: usize,
    /// Slot of each thread.
    slot_of: Vec<Slot>,
    /// Current row of each slot.
    current: Vec<u32>,
    /// Whether a stamp refers to the current row of a slot.
    shared: Vec<bool>,
    /// Slots whose thread has ended, and its last time; and which slots these are.
    ended: Vec<(Slot, Time)>,
    has_ended: Vec<bool>,
    /// Threads that were forked and have had no event yet, with what their parents knew then.
    unborn: HashMap<u32, Stamp>,
}

/// The clocks of all threads, to look at.
pub(crate) struct Now<'a> {
    /// Slot of each thread; beyond `current` if it has none yet.
    pub slot_of: &'a [Slot],
    /// Current row of each slot.
    pub current: &'a [u32],
    /// To be set for a slot if its current row is kept in a stamp.
    pub shared: &'a mut [bool],
    times: &'a [Time],
    width: usize,
    trees: &'a [SparseVector],
}

impl Now<'_> {
    /// A component of a row, by whether rows are trees.
    #[inline(always)]
    pub fn at<const SPARSE: bool>(&self, row: u32, slot: Slot) -> Time {
        match SPARSE {
            true => self.trees[row as usize].get(slot as usize),
            false => self.times[row as usize * self.width..][..self.width][slot as usize],
        }
    }
}

impl Clocks {
    /// Clocks for a trace with so many threads, of which few need be alive at once.
    pub fn new(threads: usize) -> Clocks {
        Clocks {
            times: vec![0; 8],
            width: 8,
            trees: Vec::new(),
            most_flat: MOST_FLAT,
            free: Vec::new(),
            collect_at: 4096,
            rows: 1,
            slot_of: vec![NO_SLOT; threads],
            current: Vec::new(),
            shared: Vec::new(),
            ended: Vec::new(),
            has_ended: Vec::new(),
            unborn: HashMap::new(),
        }
    }

    /// The same with rows that stay flat however many slots there are.
    pub fn flat(threads: usize) -> Clocks {
        Clocks { most_flat: usize::MAX, ..Clocks::new(threads) }
    }

    /// Whether rows are trees.
    #[inline(always)]
    pub(crate) fn is_sparse(&self) -> bool {
        !self.trees.is_empty()
    }

    /// The thread's slot. A thread that nobody forked gets a new one.
    #[inline(always)]
    pub fn slot(&mut self, thread: ThreadId) -> Slot {
        let slot = self.slot_of[thread.index()];
        if slot != NO_SLOT { slot } else { self.start(thread) }
    }

    /// The slot of a thread that has appeared.
    pub fn slot_if_seen(&self, thread: ThreadId) -> Option<Slot> {
        Some(self.slot_of[thread.index()]).filter(|&slot| slot != NO_SLOT)
    }

    /// How many components are in use.
    pub fn slots(&self) -> usize {
        self.current.len()
    }

    /// What a slot's thread knows: for each slot the time before which all is known. Only if rows are flat.
    #[inline(always)]
    pub fn of(&self, slot: Slot) -> &[Time] {
        self.row(self.current[slot as usize])
    }

    /// The components of a row. Only if rows are flat.
    #[inline(always)]
    pub fn row(&self, row: u32) -> &[Time] {
        let start = row as usize * self.width;
        &self.times[start..start + self.width]
    }

    /// A component of a row.
    #[inline(always)]
    fn at(&self, row: u32, slot: Slot) -> Time {
        // If rows are trees there are no others.
        match self.times.get(row as usize * self.width + slot as usize) {
            Some(&time) => time,
            None => self.in_tree(row, slot),
        }
    }

    #[cold]
    fn in_tree(&self, row: u32, slot: Slot) -> Time {
        self.trees[row as usize].get(slot as usize)
    }

    /// The time before which a slot's thread knows all events of another.
    #[inline(always)]
    pub fn known(&self, slot: Slot, other: Slot) -> Time {
        self.at(self.current[slot as usize], other)
    }

    /// Whether a slot's thread knows the event of another at a time.
    #[inline(always)]
    pub fn knows(&self, slot: Slot, other: Slot, time: Time) -> bool {
        self.known(slot, other) >= time
    }

    /// Whether a slot's thread knows every component of a row that is after `floor`.
    pub fn knows_row(&self, slot: Slot, row: u32, floor: Time) -> bool {
        let current = self.current[slot as usize];
        let holds = |time: Time, known: Time| time <= known || time <= floor;
        match self.is_sparse() {
            false => self.row(row).iter().zip(self.row(current)).all(|(&time, &known)| holds(time, known)),
            true => self.trees[row as usize].all(&self.trees[current as usize], holds),
        }
    }

    /// The clock of a slot's thread at `time`, by reference.
    #[inline(always)]
    pub fn stamp(&mut self, slot: Slot, time: Time) -> Stamp {
        self.shared[slot as usize] = true;
        Stamp { slot, time, row: self.current[slot as usize] }
    }

    /// What the clocks are now, for a loop in which nobody learns anything.
    #[inline(always)]
    pub(crate) fn now(&mut self) -> Now<'_> {
        let Clocks { slot_of, current, shared, times, width, trees, .. } = self;
        Now { slot_of, current, shared, times, width: *width, trees }
    }

    /// The thread learns what a stamp knows. O(1) if it knows already: who knows
    /// an event knows all that its thread knew then.
    #[inline(always)]
    pub fn join(&mut self, slot: Slot, stamp: Stamp) {
        if !self.knows(slot, stamp.slot, stamp.time) {
            self.learn(slot, stamp);
        }
    }

    #[inline(never)]
    fn learn(&mut self, slot: Slot, stamp: Stamp) {
        let own = self.own_row(slot);
        let before = self.at(own, stamp.slot);
        self.max_into(own, stamp.row);
        self.set(own, stamp.slot, before.max(stamp.time));
        self.set(own, slot, SELF);
    }

    /// The thread learns all that was gathered in a row.
    pub fn join_row(&mut self, slot: Slot, row: u32) {
        if self.knows_row(slot, row, 0) {
            return;
        }
        let own = self.own_row(slot);
        self.max_into(own, row);
        self.set(own, slot, SELF);
    }

    /// Adds to a row (see [`Clocks::new_row`]) what a thread knows at `time`.
    pub fn gather(&mut self, row: u32, slot: Slot, time: Time) {
        self.gather_stamp(row, Stamp { slot, time, row: self.current[slot as usize] });
    }

    /// Adds to a row what another row has gathered.
    pub fn gather_row(&mut self, row: u32, from: u32) {
        self.max_into(row, from);
    }

    /// Adds to a row what a stamp knows.
    pub fn gather_stamp(&mut self, row: u32, stamp: Stamp) {
        let before = self.at(row, stamp.slot);
        self.max_into(row, stamp.row);
        self.set(row, stamp.slot, before.max(stamp.time));
    }

    /// A row of its own, all zero, that [`Clocks::collect`] keeps if told to.
    pub fn new_row(&mut self) -> u32 {
        let row = self.any_row();
        match self.is_sparse() {
            false => self.times[row as usize * self.width..][..self.width].fill(0),
            true => self.trees[row as usize] = SparseVector::default(),
        }
        row
    }

    /// A row that nobody refers to, whatever it holds.
    fn any_row(&mut self) -> u32 {
        self.rows += 1;
        if let Some(row) = self.free.pop() {
            return row;
        }
        match self.is_sparse() {
            false => {
                self.times.resize(self.times.len() + self.width, 0);
                (self.times.len() / self.width) as u32 - 1
            }
            true => {
                self.trees.push(SparseVector::default());
                self.trees.len() as u32 - 1
            }
        }
    }

    /// Gives a row back that only its owner referred to.
    pub fn free_row(&mut self, row: u32) {
        debug_assert!(row != 0);
        self.rows -= 1;
        self.free.push(row);
        if let Some(tree) = self.trees.get_mut(row as usize) {
            *tree = SparseVector::default();
        }
    }

    /// Sets one component of a row.
    #[inline]
    pub fn set(&mut self, row: u32, slot: Slot, time: Time) {
        match self.is_sparse() {
            false => self.times[row as usize * self.width + slot as usize] = time,
            true => self.trees[row as usize].set(slot as usize, time),
        }
    }

    /// `parent` forks a thread at `time`, which takes a slot when it has its first event.
    pub fn fork(&mut self, parent: Slot, child: ThreadId, time: Time) {
        let stamp = self.stamp(parent, time);
        self.unborn.insert(child.0, stamp);
    }

    /// What the parent of a thread knew when it forked it, if the thread has had no event yet.
    pub fn birth(&self, thread: ThreadId) -> Option<Stamp> {
        self.unborn.get(&thread.0).copied()
    }

    /// A thread that was forked takes a slot, one of a thread that its parent knew to have ended if there is one.
    pub fn bear(&mut self, child: ThreadId, birth: Stamp) -> Slot {
        let knows = |&&(slot, last): &&(Slot, Time)| match slot == birth.slot {
            true => birth.time >= last,
            false => self.at(birth.row, slot) >= last,
        };
        let tried = self.ended.len().saturating_sub(MOST_TRIED);
        let reusable = self.ended[tried..].iter().rposition(|ended| knows(&ended));
        let slot = match reusable {
            Some(at) => {
                let (slot, _) = self.ended.swap_remove(tried + at);
                self.has_ended[slot as usize] = false;
                self.slot_of[child.index()] = slot;
                slot
            }
            None => self.start_anew(child),
        };
        self.inherit(birth, slot);
        slot
    }

    /// The thread of a slot begins with what its parent knew.
    fn inherit(&mut self, birth: Stamp, slot: Slot) {
        let row = self.new_row();
        self.max_into(row, birth.row);
        self.set(row, birth.slot, birth.time);
        self.set(row, slot, SELF);
        self.current[slot as usize] = row;
        self.shared[slot as usize] = false;
    }

    /// The thread has no more events; its last one was before `time`. Its slot
    /// may be taken over.
    pub fn end(&mut self, slot: Slot, time: Time) {
        if self.has_ended.len() <= slot as usize {
            self.has_ended.resize(slot as usize + 1, false);
        }
        if !std::mem::replace(&mut self.has_ended[slot as usize], true) {
            self.ended.push((slot, time));
        }
    }

    /// Whether enough rows are in use that looking for unused ones pays.
    #[inline(always)]
    pub fn wants_collection(&self) -> bool {
        self.rows >= self.collect_at
    }

    /// Frees the rows that nobody refers to. `roots` calls its argument for every
    /// row in use outside; `cost` is about how many it looks at.
    pub fn collect(&mut self, cost: usize, roots: impl FnOnce(&mut dyn FnMut(u32))) {
        let rows = if self.is_sparse() { self.trees.len() } else { self.times.len() / self.width };
        let mut used = vec![false; rows];
        used[0] = true;
        for birth in self.unborn.values() {
            used[birth.row as usize] = true;
        }
        for &row in &self.current {
            used[row as usize] = true;
        }
        roots(&mut |row| used[row as usize] = true);
        self.free = (0..used.len() as u32).rev().filter(|&row| !used[row as usize]).collect();
        if self.is_sparse() {
            self.free.iter().for_each(|&row| self.trees[row as usize] = SparseVector::default());
        }
        self.rows = used.len() - self.free.len();
        self.collect_at = (2 * self.rows).max(4096 + cost / 8);
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        // A row of its own takes a path through its tree.
        let trees = self.trees.len() * 512;
        self.times.capacity() * size_of::<Time>() + (self.free.capacity() + self.slot_of.capacity()) * 4 + trees
    }

    #[cold]
    fn start(&mut self, thread: ThreadId) -> Slot {
        match self.unborn.remove(&thread.0) {
            Some(birth) => self.bear(thread, birth),
            None => self.start_anew(thread),
        }
    }

    fn start_anew(&mut self, thread: ThreadId) -> Slot {
        let slot = self.current.len() as Slot;
        self.slot_of[thread.index()] = slot;
        if slot as usize == self.width && !self.is_sparse() {
            self.widen();
        }
        let row = self.new_row();
        self.set(row, slot, SELF);
        self.current.push(row);
        self.shared.push(false);
        slot
    }

    fn widen(&mut self) {
        if self.width >= self.most_flat {
            self.trees = self.times.chunks_exact(self.width).map(tree).collect();
            self.times = Vec::new();
            return;
        }
        let width = self.width * 2;
        let mut times = vec![0; self.times.len() * 2];
        for (old, new) in self.times.chunks_exact(self.width).zip(times.chunks_exact_mut(width)) {
            new[..self.width].copy_from_slice(old);
        }
        (self.times, self.width) = (times, width);
    }

    /// The thread's current row, copied if a stamp refers to it.
    fn own_row(&mut self, slot: Slot) -> u32 {
        let current = self.current[slot as usize];
        if !self.shared[slot as usize] {
            return current;
        }
        let row = self.any_row();
        let from = current as usize * self.width;
        match self.is_sparse() {
            false => self.times.copy_within(from..from + self.width, row as usize * self.width),
            true => self.trees[row as usize] = self.trees[current as usize].clone(),
        }
        self.current[slot as usize] = row;
        self.shared[slot as usize] = false;
        row
    }

    /// Component-wise maximum of two rows into the first.
    fn max_into(&mut self, into: u32, from: u32) {
        if into == from {
            return;
        }
        if self.is_sparse() {
            let from = self.trees[from as usize].clone();
            self.trees[into as usize].join(&from);
            return;
        }
        let (low, high) = (into.min(from) as usize, into.max(from) as usize);
        let (head, tail) = self.times.split_at_mut(high * self.width);
        let (low, high) = (&mut head[low * self.width..][..self.width], &mut tail[..self.width]);
        let (into, from) = if into < from { (low, &*high) } else { (high, &*low) };
        for (a, &b) in into.iter_mut().zip(from) {
            *a = (*a).max(b);
        }
    }
}

fn tree(row: &[Time]) -> SparseVector {
    let mut tree = SparseVector::default();
    row.iter().enumerate().for_each(|(slot, &time)| tree.set(slot, time));
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_keeps_what_was_known_when_it_was_made() {
        let mut clocks = Clocks::new(3);
        let [a, b, c] = [0, 1, 2].map(|t| clocks.slot(ThreadId(t)));
        let early = clocks.stamp(a, 1);
        let other = clocks.stamp(c, 2);
        clocks.join(a, other);
        clocks.join(b, early);
        assert!(clocks.knows(b, a, 1) && !clocks.knows(b, a, 2) && !clocks.knows(b, c, 2));
        assert!(clocks.knows(a, c, 2));
        let late = clocks.stamp(a, 5);
        clocks.join(b, late);
        assert!(clocks.knows(b, a, 5) && clocks.knows(b, c, 2) && !clocks.knows(b, c, 3));
    }

    #[test]
    fn a_slot_is_taken_over_only_by_a_thread_that_comes_after() {
        let mut clocks = Clocks::new(5);
        let main = clocks.slot(ThreadId(0));
        let stranger = clocks.slot(ThreadId(1));
        clocks.fork(main, ThreadId(2), 1);
        let old = clocks.slot(ThreadId(2));
        let last = clocks.stamp(old, 2);
        clocks.join(main, last);
        clocks.end(old, 2);
        clocks.fork(stranger, ThreadId(3), 4);
        assert_ne!(clocks.slot(ThreadId(3)), old);
        clocks.fork(main, ThreadId(4), 5);
        assert_eq!(clocks.slot(ThreadId(4)), old);
        assert_eq!(clocks.slots(), 4);
    }

    #[test]
    fn collection_keeps_what_is_referred_to() {
        let mut clocks = Clocks::new(2);
        let (a, b) = (clocks.slot(ThreadId(0)), clocks.slot(ThreadId(1)));
        let mut kept = Stamp::NEVER;
        for time in 1..100 {
            let stamp = clocks.stamp(a, time);
            clocks.join(b, stamp);
            let back = clocks.stamp(b, time);
            clocks.join(a, back);
            if time == 50 {
                kept = back;
            }
        }
        let before = clocks.row(kept.row).to_vec();
        clocks.collect(0, |mark| mark(kept.row));
        assert!(clocks.rows < 8);
        for time in 100..200 {
            let stamp = clocks.stamp(a, time);
            clocks.join(b, stamp);
            let back = clocks.stamp(b, time);
            clocks.join(a, back);
        }
        assert_eq!(clocks.row(kept.row), before);
    }

    #[test]
    fn more_threads_than_room_widen_every_row() {
        for mut clocks in [Clocks::new(40), Clocks::flat(40)] {
            let slots: Vec<Slot> = (0..40).map(|t| clocks.slot(ThreadId(t))).collect();
            for pair in slots.windows(2) {
                let stamp = clocks.stamp(pair[0], 10 + pair[0]);
                clocks.join(pair[1], stamp);
            }
            for &slot in &slots[..39] {
                assert!(clocks.knows(39, slot, 10 + slot) && !clocks.knows(39, slot, 11 + slot));
            }
        }
    }

    #[test]
    fn a_thread_without_events_takes_no_slot_and_no_row() {
        let mut clocks = Clocks::new(10_000);
        let main = clocks.slot(ThreadId(0));
        let rows = clocks.rows;
        (1..10_000).for_each(|thread| clocks.fork(main, ThreadId(thread), thread));
        assert_eq!((clocks.slots(), clocks.rows), (1, rows));
        let late = clocks.slot(ThreadId(5000));
        assert!(clocks.knows(late, main, 5000) && !clocks.knows(late, main, 5001));
    }

    #[test]
    fn what_a_thread_is_born_with_outlives_a_collection() {
        let mut clocks = Clocks::new(3);
        let (main, other) = (clocks.slot(ThreadId(0)), clocks.slot(ThreadId(1)));
        let first = clocks.stamp(other, 3);
        clocks.join(main, first);
        clocks.fork(main, ThreadId(2), 4);
        let later = clocks.stamp(other, 9);
        clocks.join(main, later);
        clocks.collect(0, |_| {});
        clocks.new_row();
        let child = clocks.slot(ThreadId(2));
        assert!(clocks.knows(child, other, 3) && !clocks.knows(child, other, 4));
        assert!(clocks.knows(child, main, 4) && !clocks.knows(child, main, 5));
    }

    #[test]
    fn rows_of_threads_that_all_live_share_what_they_know() {
        let mut clocks = Clocks::new(20_000);
        let mut last = Stamp::NEVER;
        for thread in 0..20_000 {
            let slot = clocks.slot(ThreadId(thread));
            clocks.join(slot, last);
            last = clocks.stamp(slot, thread + 1);
        }
        assert!(clocks.is_sparse() && clocks.memory() < 20 << 20);
        assert!(clocks.knows(19_999, 0, 1) && clocks.knows(19_999, 12_345, 12_346));
        assert!(!clocks.knows(19_999, 12_345, 12_347) && !clocks.knows(12_345, 12_346, 1));
    }
}
