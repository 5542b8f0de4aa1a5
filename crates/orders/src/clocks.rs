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

mod shadows;

use snag_trace::ThreadId;

/// A thread's component in every clock.
pub type Slot = u32;

/// A point of time: 1 + the number of an event; 0 is before the first event.
pub type Time = u32;

/// Larger than any time: what a thread knows of itself.
const SELF: Time = Time::MAX;

/// No thread has this slot.
const NO_SLOT: Slot = Slot::MAX;

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
    /// Slots whose thread has ended, and its last time.
    ended: Vec<(Slot, Time)>,
}

/// The clocks of all threads, to look at.
pub(crate) struct Now<'a> {
    /// Slot of each thread; beyond `current` if it has none yet.
    pub slot_of: &'a [Slot],
    /// Current row of each slot.
    pub current: &'a [u32],
    /// To be set for a slot if its current row is kept in a stamp.
    pub shared: &'a mut [bool],
    /// Row after row.
    pub times: &'a [Time],
    /// How long a row is.
    pub width: usize,
}

impl Clocks {
    /// Clocks for a trace with so many threads, of which few need be alive at once.
    pub fn new(threads: usize) -> Clocks {
        Clocks {
            times: vec![0; 8],
            width: 8,
            free: Vec::new(),
            collect_at: 4096,
            rows: 1,
            slot_of: vec![NO_SLOT; threads],
            current: Vec::new(),
            shared: Vec::new(),
            ended: Vec::new(),
        }
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

    /// What a slot's thread knows: for each slot the time before which all is known.
    #[inline(always)]
    pub fn of(&self, slot: Slot) -> &[Time] {
        self.row(self.current[slot as usize])
    }

    /// The components of a row.
    #[inline(always)]
    pub fn row(&self, row: u32) -> &[Time] {
        let start = row as usize * self.width;
        &self.times[start..start + self.width]
    }

    /// Whether a slot's thread knows the event of another at a time.
    #[inline(always)]
    pub fn knows(&self, slot: Slot, other: Slot, time: Time) -> bool {
        self.of(slot)[other as usize] >= time
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
        let Clocks { slot_of, current, shared, times, width, .. } = self;
        Now { slot_of, current, shared, times, width: *width }
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
        let before = self.of(slot)[stamp.slot as usize];
        self.max_into(own, stamp.row);
        self.times[own as usize * self.width + stamp.slot as usize] = before.max(stamp.time);
        self.times[own as usize * self.width + slot as usize] = SELF;
    }

    /// The thread learns all that was gathered in a row.
    pub fn join_row(&mut self, slot: Slot, row: u32) {
        if self.row(row).iter().zip(self.of(slot)).all(|(a, b)| a <= b) {
            return;
        }
        let own = self.own_row(slot);
        self.max_into(own, row);
        self.times[own as usize * self.width + slot as usize] = SELF;
    }

    /// Adds to a row (see [`Clocks::new_row`]) what a thread knows at `time`.
    pub fn gather(&mut self, row: u32, slot: Slot, time: Time) {
        let at = row as usize * self.width + slot as usize;
        let before = self.times[at];
        self.max_into(row, self.current[slot as usize]);
        self.times[at] = before.max(time);
    }

    /// Adds to a row what another row has gathered.
    pub fn gather_row(&mut self, row: u32, from: u32) {
        self.max_into(row, from);
    }

    /// Adds to a row what a stamp knows.
    pub fn gather_stamp(&mut self, row: u32, stamp: Stamp) {
        let at = row as usize * self.width + stamp.slot as usize;
        let before = self.times[at];
        self.max_into(row, stamp.row);
        self.times[at] = before.max(stamp.time);
    }

    /// A row of its own, all zero, that [`Clocks::collect`] keeps if told to.
    pub fn new_row(&mut self) -> u32 {
        let row = match self.free.pop() {
            Some(row) => row,
            None => {
                let row = self.times.len() / self.width;
                self.times.resize(self.times.len() + self.width, 0);
                row as u32
            }
        };
        self.rows += 1;
        let start = row as usize * self.width;
        self.times[start..start + self.width].fill(0);
        row
    }

    /// Gives a row back that only its owner referred to.
    pub fn free_row(&mut self, row: u32) {
        debug_assert!(row != 0);
        self.rows -= 1;
        self.free.push(row);
    }

    /// Sets one component of a row.
    #[inline]
    pub fn set(&mut self, row: u32, slot: Slot, time: Time) {
        self.times[row as usize * self.width + slot as usize] = time;
    }

    /// `parent` forks a thread at `time`.
    pub fn fork(&mut self, parent: Slot, child: ThreadId, time: Time) -> Slot {
        let known = self.of(parent);
        let reusable = self.ended.iter().rposition(|&(slot, last)| known[slot as usize] >= last);
        let slot = match reusable {
            Some(at) => {
                let (slot, _) = self.ended.swap_remove(at);
                self.slot_of[child.index()] = slot;
                slot
            }
            None => self.start(child),
        };
        self.inherit(parent, slot, time);
        slot
    }

    /// The thread of a slot begins with what its parent knows at `time`.
    fn inherit(&mut self, parent: Slot, slot: Slot, time: Time) {
        let row = self.new_row();
        self.max_into(row, self.current[parent as usize]);
        self.set(row, parent, time);
        self.set(row, slot, SELF);
        self.current[slot as usize] = row;
        self.shared[slot as usize] = false;
    }

    /// The thread has no more events; its last one was before `time`. Its slot
    /// may be taken over.
    pub fn end(&mut self, slot: Slot, time: Time) {
        if !self.ended.iter().any(|&(s, _)| s == slot) {
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
        let mut used = vec![false; self.times.len() / self.width];
        used[0] = true;
        for &row in &self.current {
            used[row as usize] = true;
        }
        roots(&mut |row| used[row as usize] = true);
        self.free = (0..used.len() as u32).rev().filter(|&row| !used[row as usize]).collect();
        self.rows = used.len() - self.free.len();
        self.collect_at = (2 * self.rows).max(4096 + cost / 8);
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.times.capacity() * size_of::<Time>() + (self.free.capacity() + self.slot_of.capacity()) * 4
    }

    fn start(&mut self, thread: ThreadId) -> Slot {
        let slot = self.current.len() as Slot;
        self.slot_of[thread.index()] = slot;
        if slot as usize == self.width {
            self.widen();
        }
        let row = self.new_row();
        self.set(row, slot, SELF);
        self.current.push(row);
        self.shared.push(false);
        slot
    }

    fn widen(&mut self) {
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
        let row = match self.free.pop() {
            Some(row) => row,
            None => {
                self.times.resize(self.times.len() + self.width, 0);
                (self.times.len() / self.width) as u32 - 1
            }
        };
        self.rows += 1;
        let from = current as usize * self.width;
        self.times.copy_within(from..from + self.width, row as usize * self.width);
        self.current[slot as usize] = row;
        self.shared[slot as usize] = false;
        row
    }

    /// Component-wise maximum of two rows into the first.
    fn max_into(&mut self, into: u32, from: u32) {
        if into == from {
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
        let old = clocks.fork(main, ThreadId(2), 1);
        let last = clocks.stamp(old, 2);
        clocks.join(main, last);
        clocks.end(old, 2);
        let unrelated = clocks.fork(stranger, ThreadId(3), 4);
        assert_ne!(unrelated, old);
        let new = clocks.fork(main, ThreadId(4), 5);
        assert_eq!(new, old);
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
        let mut clocks = Clocks::new(40);
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
