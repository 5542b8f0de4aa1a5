//! Shadows: a second component for every slot.
//!
//! CP and WCP keep, beside what happens before an event, what *causally precedes*
//! it. Both flow along the same edges, and whoever knows an event by the first
//! kind of knowledge has all that its thread knew then of the second kind as
//! well. So both lie side by side in one row and are joined together: the slots of
//! threads are even, and the odd one after each, its shadow, holds the time
//! before which all of its events causally precede.

use super::{Clocks, SELF, Slot, Stamp, Time};
use snag_model::ThreadId;

impl Clocks {
    /// The slot of a thread that takes slots in pairs.
    #[inline(always)]
    pub fn paired_slot(&mut self, thread: ThreadId) -> Slot {
        match self.slot_if_seen(thread) {
            Some(slot) => slot,
            None => self.start_pair(thread),
        }
    }

    #[cold]
    fn start_pair(&mut self, thread: ThreadId) -> Slot {
        let slot = self.start_anew(thread);
        if self.current.len() == self.width {
            self.widen();
        }
        self.current.push(0);
        self.shared.push(true);
        slot
    }

    /// `parent` forks a thread at `time` that takes over `slot` if it is in use, or else the next pair of slots.
    pub fn fork_pair(&mut self, parent: Slot, child: ThreadId, time: Time, slot: Slot) {
        if (slot as usize) < self.current.len() {
            self.ended.retain(|&(ended, _)| ended != slot);
            if let Some(ended) = self.has_ended.get_mut(slot as usize) {
                *ended = false;
            }
            self.slot_of[child.index()] = slot;
        } else {
            self.start_pair(child);
        }
        let birth = self.stamp(parent, time);
        self.inherit(birth, slot);
    }

    /// The shadows of a slot's thread learn what a stamp knows: that all causally precedes.
    /// Says whether that was new.
    pub fn precede(&mut self, slot: Slot, stamp: Stamp) -> bool {
        if self.of(slot)[stamp.slot as usize + 1] >= stamp.time {
            return false; // What causally precedes is closed under what happens before.
        }
        let own = self.own_row(slot);
        let width = self.width;
        let at = own as usize * width + stamp.slot as usize + 1;
        if own != stamp.row {
            let before = self.times[at];
            let (into, from) = self.two_rows(own, stamp.row);
            for (into, from) in into.chunks_exact_mut(2).zip(from.chunks_exact(2)) {
                into[1] = into[1].max(from[0]);
            }
            self.times[at] = before;
        }
        self.times[at] = self.times[at].max(stamp.time);
        true
    }

    /// A thread of these clocks learns the shadows of a thread of clocks in pairs. Says whether that was new.
    pub fn learn_shadows(&mut self, slot: Slot, paired: &Clocks) -> bool {
        let from = paired.of(2 * slot);
        let news = from.chunks_exact(2).zip(self.of(slot)).fold(false, |news, (pair, &own)| news | (pair[1] > own));
        if news {
            let own = self.own_row(slot) as usize * self.width;
            for (own, pair) in self.times[own..own + self.width].iter_mut().zip(from.chunks_exact(2)) {
                *own = (*own).max(pair[1]);
            }
        }
        news
    }

    /// Fills rows that nobody should refer to with nonsense, so that tests notice who does.
    pub fn spoil_free_rows(&mut self) {
        for &row in &self.free {
            self.times[row as usize * self.width..][..self.width].fill(SELF - 1);
        }
    }

    /// Two different rows, the first one to be changed.
    fn two_rows(&mut self, into: u32, from: u32) -> (&mut [Time], &[Time]) {
        let (low, high) = (into.min(from) as usize, into.max(from) as usize);
        let (head, tail) = self.times.split_at_mut(high * self.width);
        let (low, high) = (&mut head[low * self.width..][..self.width], &mut tail[..self.width]);
        if into < from { (low, high) } else { (high, low) }
    }
}
