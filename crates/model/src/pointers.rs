//! Which writes leave an address of memory that was allocated more than once.
//!
//! Each allocation is memory of its own: in another schedule it may come sooner, while what had its address in the trace still
//! lives, and then it has another one. So two addresses that are the same number are the same value only if they are
//! of the same allocation.

use crate::Trace;
use crate::ids::*;
use crate::op::{Op, Ops};
use crate::tables::Variable;
use std::collections::BTreeMap;

/// Bytes of an address in memory.
const SIZE: u64 = 8;

/// The bits of a number that are an address. Others may be used for something else, by programs and by recordings.
const ADDRESS: u64 = (1 << 48) - 1;

/// Nothing is allocated before this address.
const LOWEST: u64 = 1 << 12;

/// The writes whose values are such addresses.
#[derive(Clone, Debug, Default)]
pub struct Pointers {
    /// The write, and the alloc of what its value points to; ascending.
    all: Vec<(EventId, EventId)>,
}

impl Pointers {
    /// Those of the first so many events of a well-formed trace that has these operations.
    pub fn of(trace: &Trace, ops: Ops, end: usize) -> Pointers {
        let mut pointers = Pointers::default();
        let events = &trace.events;
        if !ops.any(&[Op::Alloc]) || !events.has_values() {
            return pointers;
        }
        let mut memory = Allocated::default();
        for (index, (&op, &target)) in events.ops()[..end].iter().zip(events.targets()).enumerate() {
            let id = EventId::new(index);
            if op == Op::Alloc {
                if let Variable::Range { address, size } = trace.tables.variable(VarId(target)) {
                    memory.allocate(address & ADDRESS, size, id);
                }
            } else if op.writes() && memory.has_any_again() {
                let value = if op == Op::Rmw { events.written(index) } else { events.value(index) };
                let again = value.and_then(|value| memory.again(value as u64 & ADDRESS));
                if let Some(alloc) = again
                    && matches!(trace.tables.variable(VarId(target)), Variable::Range { size: SIZE, .. })
                {
                    pointers.all.push((id, alloc));
                }
            }
        }
        pointers
    }

    /// The alloc of what the value of a write points to, if something else was there before.
    pub fn target(&self, write: EventId) -> Option<EventId> {
        let at = self.all.binary_search_by_key(&write, |&(write, _)| write).ok()?;
        Some(self.all[at].1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// Memory that was allocated at some time.
#[derive(Default)]
struct Allocated {
    /// By first byte. They do not overlap.
    parts: BTreeMap<u64, Part>,
    /// All that was allocated more than once is between these two.
    again: Option<(u64, u64)>,
}

#[derive(Clone, Copy)]
struct Part {
    last: u64,
    /// Who has allocated it last.
    alloc: EventId,
    /// Whether that was not the first time.
    again: bool,
}

impl Allocated {
    fn allocate(&mut self, first: u64, size: u64, alloc: EventId) {
        let last = first + (size - 1);
        self.cut(first);
        self.cut(last + 1);
        let known: Vec<(u64, u64)> = self.parts.range(first..=last).map(|(&start, part)| (start, part.last)).collect();
        let mut next = first;
        for (start, end) in known {
            self.fill(next, start, alloc);
            self.parts.insert(start, Part { last: end, alloc, again: true });
            let (low, high) = self.again.unwrap_or((start, end));
            self.again = Some((low.min(start), high.max(end)));
            next = end + 1;
        }
        self.fill(next, last + 1, alloc);
    }

    /// Memory up to `end`, if there is some, is allocated for the first time.
    fn fill(&mut self, start: u64, end: u64, alloc: EventId) {
        if start < end {
            self.parts.insert(start, Part { last: end - 1, alloc, again: false });
        }
    }

    /// No part goes from before an address to behind it.
    fn cut(&mut self, at: u64) {
        if let Some((_, part)) = self.parts.range_mut(..at).next_back()
            && part.last >= at
        {
            let rest = *part;
            part.last = at - 1;
            self.parts.insert(at, rest);
        }
    }

    fn has_any_again(&self) -> bool {
        self.again.is_some()
    }

    /// Who has allocated an address last, if that was not the first time.
    #[inline]
    fn again(&self, address: u64) -> Option<EventId> {
        let (low, high) = self.again?;
        if address < low.max(LOWEST) || address > high {
            return None;
        }
        let (_, part) = self.parts.range(..=address).next_back()?;
        (part.again && part.last >= address).then_some(part.alloc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use snag_synthesis::Rng;

    #[test]
    fn parts_know_who_was_last_and_whether_he_was_the_first() {
        let mut rng = Rng::new(5);
        for _ in 0..500 {
            let mut memory = Allocated::default();
            // Of each address who has allocated it, in order.
            let mut naive: Vec<Vec<u32>> = vec![Vec::new(); 64];
            for alloc in 0..rng.between(1, 12) as u32 {
                let first = rng.below(48);
                let size = rng.between(1, 16);
                memory.allocate(LOWEST + first as u64, size as u64, EventId(alloc));
                naive[first..first + size].iter_mut().for_each(|all| all.push(alloc));
            }
            for (address, all) in naive.iter().enumerate() {
                let expected = all.last().filter(|_| all.len() > 1).map(|&alloc| EventId(alloc));
                assert_eq!(memory.again(LOWEST + address as u64), expected, "{address}");
            }
        }
    }
}
