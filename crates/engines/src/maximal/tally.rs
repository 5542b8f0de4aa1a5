//! Counters that are used as locks for reading and writing.
//!
//! A cell that starts with a value *free* and is changed by read-modify-writes alone, whose values are known. What a thread
//! has added so far, less what it has taken away, is its *share*; if no thread's share is ever negative, then in every
//! schedule the cell holds *free* plus all shares, for every read-modify-write in it reads what it read in the trace. A
//! thread is inside while its share is positive. If it came in by reading *free*, nobody else was inside; and if none of the
//! values that the cell holds from then on is one from which another thread ever came in, nobody can follow: the section is
//! exclusive. Others are shared. All of this holds for a part of the bits as well, whatever the others say ([`Part`]): what a lock
//! notes beside its holders, such as that somebody waits, does not count.
//!
//! Only at `value`: at `control` a read-modify-write may have read something else.

use crate::maximal::index::Index;
use crate::maximal::memory::Source;
use snag_model::{EventId, Op};
use std::collections::HashMap;

/// Some of the bits of a value, taken as a number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Part {
    shift: u32,
    mask: u64,
}

impl Part {
    /// All of them.
    pub const WHOLE: Part = Part { shift: 0, mask: u64::MAX };

    pub fn of(self, value: u64) -> u64 {
        (value >> self.shift) & self.mask
    }

    /// The whole, then without more and more of the highest bits that are used, then without the lowest ones.
    pub fn all(used: u64) -> impl Iterator<Item = Part> {
        let high = (1..64).rev().filter(move |bit| used >> bit & 1 == 1);
        let low = (0..63).filter(move |bit| used >> bit & 1 == 1);
        let without_high = high.map(|bit| Part { shift: 0, mask: (1 << bit) - 1 });
        let without_low = low.map(|bit| Part { shift: bit + 1, mask: u64::MAX });
        std::iter::once(Part::WHOLE).chain(without_high).chain(without_low)
    }
}

/// A section of a thread: where it begins and ends, and whether others may be inside at the same time.
pub(crate) struct Counted {
    pub start: EventId,
    pub end: Option<EventId>,
    pub shared: bool,
}

/// A section while it lasts.
struct Inside {
    start: EventId,
    /// It began by reading *free*.
    alone: bool,
    /// What the cell holds if nobody else is inside.
    values: Vec<i128>,
}

/// One cell while the trace is followed.
#[derive(Default)]
pub(crate) struct Tally {
    /// The write that made the cell, and what it left.
    start: Source,
    free: Option<i128>,
    shares: HashMap<usize, i128>,
    inside: HashMap<usize, Inside>,
    /// The values from which threads came in, and who did: `None` if several.
    entered: HashMap<i128, Option<usize>>,
    /// Sections of which it is not yet known whether they are shared.
    open: Vec<(usize, Inside, Option<EventId>)>,
    last: HashMap<usize, EventId>,
    pub sections: Vec<Counted>,
}

impl Tally {
    /// The next write of the cell; false if it does not fit.
    pub fn follow(&mut self, index: &Index, event: EventId, op: Op, cell: usize, part: Part) -> bool {
        let thread = index.threads.thread(event);
        let before = |write: &EventId| index.saturated.reaches(&index.threads, *write, event);
        let starts = op != Op::Rmw && self.inside.is_empty() && self.last.values().all(before);
        self.last.insert(thread, event);
        if starts {
            self.settle();
            *self = Tally {
                start: Some(event),
                last: std::mem::take(&mut self.last),
                sections: std::mem::take(&mut self.sections),
                ..Tally::default()
            };
            return true;
        }
        if op != Op::Rmw
            || index.memory.cells_of(event).len() != 1
            || self.start.is_some_and(|start| !index.saturated.reaches(&index.threads, start, event))
        {
            return false;
        }
        let value = |known: Option<u64>| known.map(|value| i128::from(part.of(value)));
        let Some(read) = value(index.memory.always_read(event, cell, self.start)) else { return false };
        // The first one after the start sees that.
        let free = *self.free.get_or_insert(read);
        let Some(written) = value(index.memory.value_left(Some(event), cell)) else { return false };
        if read == written {
            return true;
        }
        let share = self.shares.entry(thread).or_default();
        let was_outside = *share == 0;
        *share += written - read;
        let share = *share;
        if was_outside {
            let by = self.entered.entry(read).or_insert(Some(thread));
            *by = by.filter(|&other| other == thread);
            self.inside.insert(thread, Inside { start: event, alone: read == free, values: Vec::new() });
        }
        if share > 0 {
            let inside = self.inside.get_mut(&thread).expect("a share is positive inside");
            inside.values.push(free + share);
        } else if let Some(inside) = self.inside.remove(&thread) {
            self.open.push((thread, inside, Some(event)));
        }
        share >= 0
    }

    /// The trace has ended.
    pub fn finish(&mut self) {
        for (thread, inside) in std::mem::take(&mut self.inside) {
            self.open.push((thread, inside, None));
        }
        self.settle();
    }

    /// Who ever comes in, and how, is known.
    fn settle(&mut self) {
        for (thread, Inside { start, alone, values }, end) in std::mem::take(&mut self.open) {
            let by_others = |value: &i128| self.entered.get(value).is_some_and(|by| *by != Some(thread));
            let shared = !alone || values.iter().any(by_others);
            self.sections.push(Counted { start, end, shared });
        }
    }
}
