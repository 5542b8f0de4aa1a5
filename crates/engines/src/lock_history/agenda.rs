//! Pairs of places that a search has left for later, and what has to happen before they are looked at again.
//!
//! The paper keeps one set, *incpairs*, and starts every search from all of it. Here each pair waits for
//! the change that can make its check come out differently, so that a search does not touch the others: for the
//! target to move beyond a place, for a thread to touch or release a lock, or for a target that lies so far back that a
//! check which fails for later ones holds for it.

use crate::lock_history::histories::{History, Place};
use crate::lock_history::sets::Sets;
use snag_model::LockId;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Places of the two threads of a search.
pub type Pair = [Place; 2];

/// One of the two threads of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The first.
    A,
    /// The second.
    B,
}

/// Until when a pair is left alone.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// The target is at this place of that thread, or later.
    Reaches(Side, Place),
    /// The target is behind the next step of that thread on a lock, from a place on.
    Touches(Side, LockId, Place),
    /// The target is behind the next step by which that thread gives a lock up, from a place on.
    Unlocks(Side, LockId, Place),
    /// The target is between two places of that thread, both included.
    Within(Side, Place, Place),
}

#[derive(Clone, Default)]
struct Waiting {
    by_place: BinaryHeap<Reverse<(Place, Pair)>>,
    /// Per block of places (its size as a power of two, its number) those whose range covers it all.
    by_range: HashMap<(u32, Place), Vec<Pair>>,
    /// Per lock those that wait for a step which the history does not have yet; true: only for an unlock.
    by_lock: Vec<Vec<(Pair, bool)>>,
    watched: usize,
    /// The steps of the history before this place are known to `by_lock`.
    seen: Place,
}

/// The pairs that wait.
#[derive(Clone, Default)]
pub struct Agenda {
    sides: [Waiting; 2],
    /// Those that were put away since the last question. Mostly there is no next one, so they are filed when it comes.
    unfiled: Vec<(Pair, Until)>,
}

impl Agenda {
    /// Puts a pair away.
    #[inline]
    pub fn add(&mut self, pair: Pair, until: Until) {
        self.unfiled.push((pair, until));
    }

    fn file(&mut self, pair: Pair, until: Until, histories: [&History; 2], sets: &Sets) {
        match until {
            Until::Reaches(side, place) => self.sides[side as usize].by_place.push(Reverse((place, pair))),
            Until::Touches(side, lock, from) => {
                self.watch(side, lock, pair, false, histories[side as usize].next_touch(lock, from));
            }
            Until::Unlocks(side, lock, from) => {
                self.watch(side, lock, pair, true, histories[side as usize].next_unlock(lock, from, sets));
            }
            Until::Within(side, from, to) => self.sides[side as usize].cover(pair, from, to),
        }
    }

    fn watch(&mut self, side: Side, lock: LockId, pair: Pair, unlock: bool, known: Option<Place>) {
        let waiting = &mut self.sides[side as usize];
        if let Some(place) = known {
            return waiting.by_place.push(Reverse((place + 1, pair)));
        }
        if waiting.by_lock.len() <= lock.index() {
            waiting.by_lock.resize(lock.index() + 1, Vec::new());
        }
        waiting.by_lock[lock.index()].push((pair, unlock));
        waiting.watched += 1;
    }

    /// Bytes, about.
    pub fn memory(&self) -> usize {
        let of_side = |side: &Waiting| {
            let ranges: usize = side.by_range.values().map(|pairs| 48 + 8 * pairs.capacity()).sum();
            let locks: usize = side.by_lock.iter().map(|pairs| 24 + 12 * pairs.capacity()).sum();
            12 * side.by_place.capacity() + ranges + locks
        };
        self.sides.iter().map(of_side).sum::<usize>() + self.unfiled.capacity() * size_of::<(Pair, Until)>()
    }

    /// Takes out what a target wakes: pairs to look at in the ordinary way, and pairs that are behind it in
    /// one thread, where all ways on have to be followed.
    pub fn wake(
        &mut self,
        target: Pair,
        histories: [&History; 2],
        sets: &Sets,
        woken: &mut Vec<Pair>,
        inner: &mut Vec<Pair>,
    ) {
        for (pair, until) in std::mem::take(&mut self.unfiled) {
            self.file(pair, until, histories, sets);
        }
        for ((waiting, place), history) in self.sides.iter_mut().zip(target).zip(histories) {
            waiting.look(history, sets);
            while let Some(&Reverse((from, pair))) = waiting.by_place.peek()
                && from <= place
            {
                waiting.by_place.pop();
                woken.push(pair);
            }
            if !waiting.by_range.is_empty() {
                for size in 0..Place::BITS {
                    if let Some(mut pairs) = waiting.by_range.remove(&(size, place >> size)) {
                        inner.append(&mut pairs);
                    }
                }
            }
        }
    }
}

impl Waiting {
    /// Files a range under the largest blocks that it consists of.
    fn cover(&mut self, pair: Pair, mut from: Place, to: Place) {
        while from <= to {
            let mut size = from.trailing_zeros().min(Place::BITS - 1);
            while (from as u64) + (1u64 << size) - 1 > to as u64 {
                size -= 1;
            }
            self.by_range.entry((size, from >> size)).or_default().push(pair);
            from += 1 << size;
        }
    }

    /// Takes note of steps that were taken since.
    fn look(&mut self, history: &History, sets: &Sets) {
        let from = self.seen.max(history.base());
        self.seen = history.end();
        for place in from..history.end() {
            if self.watched == 0 {
                return;
            }
            let step = history.step(place, sets);
            let Some(waiting) = self.by_lock.get_mut(step.lock.index()) else { continue };
            let mut at = 0;
            while at < waiting.len() {
                let (pair, unlock) = waiting[at];
                if unlock && step.is_lock() {
                    at += 1;
                } else {
                    waiting.swap_remove(at);
                    self.watched -= 1;
                    self.by_place.push(Reverse((place + 1, pair)));
                }
            }
        }
    }
}
