//! Rule (a): which earlier critical sections on the same lock contain a conflicting access.
//!
//! Sections on one lock are ordered, so of those of other threads that read, or wrote, a cell
//! only the latest matters; the last ones of two different threads are enough to know
//! it for every thread. Reader sections are not ordered among each other: locks that have
//! some are kept thread by thread. Cost: one look into an open table for each lock that is held
//! at an access; 32 bytes, and room for as many again at the most, for each pair of lock and cell that occurs.

use super::sections::{NONE, SectionId, Sections};
use crate::run::Kind;

/// Accesses to one cell in sections on one lock.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Entry {
    /// [`FREE`] if nothing is here.
    lock: u32,
    cell: u32,
    /// Latest section that wrote or freed, and the latest of another thread than that one's.
    writes: [SectionId; 2],
    /// The same for sections that read.
    reads: [SectionId; 2],
    /// 1 + index into `shared` for locks that have readers.
    shared: u32,
}

const FREE: u32 = u32::MAX;
const EMPTY: Entry = Entry { lock: FREE, cell: 0, writes: [NONE; 2], reads: [NONE; 2], shared: 0 };

/// The latest section of one thread, of one kind, that read or wrote.
#[derive(Clone, Copy)]
struct OfThread {
    section: SectionId,
    wrote: bool,
}

/// Accesses in critical sections so far.
pub(crate) struct Conflicts {
    /// A power of two of them; an entry lies at its hash or behind it.
    table: Vec<Entry>,
    used: usize,
    shared: Vec<Vec<OfThread>>,
}

impl Conflicts {
    pub fn new() -> Conflicts {
        Conflicts { table: vec![EMPTY; 1024], used: 0, shared: Vec::new() }
    }

    /// Calls `found` for the sections that come before, by rule (a), an access in `own`, more than one
    /// only if the lock has readers; and remembers the access.
    #[inline]
    pub fn access(
        &mut self,
        sections: &Sections,
        own: SectionId,
        cell: usize,
        kind: Kind,
        mut found: impl FnMut(SectionId),
    ) {
        let section = sections.get(own);
        let at = self.find(sections, section.lock, cell as u32);
        let changes = kind.writes() || kind == Kind::Free;
        let Entry { shared, writes, reads, .. } = &mut self.table[at];
        if let Some(list) = shared.checked_sub(1) {
            let list = &mut self.shared[list as usize];
            for of in list.iter() {
                let other = sections.get(of.section);
                if other.thread != section.thread && !(other.shared && section.shared) && (of.wrote || changes) {
                    found(of.section);
                }
            }
            return record_shared(list, sections, own, kind);
        }
        let of_other = |[last, other]: [SectionId; 2]| match last {
            NONE => NONE,
            last if sections.get(last).thread != section.thread => last,
            _ => other,
        };
        let (write, read) = (of_other(*writes), if changes { of_other(*reads) } else { NONE });
        let latest = if write == NONE || read != NONE && read > write { read } else { write };
        if latest != NONE {
            found(latest);
        }
        let push = |latest: &mut [SectionId; 2]| {
            if latest[0] != own {
                if latest[0] != NONE && sections.get(latest[0]).thread != section.thread {
                    latest[1] = latest[0];
                }
                latest[0] = own;
            }
        };
        if changes {
            push(writes);
        }
        if kind.reads() {
            push(reads);
        }
    }

    /// Where the entry of a lock and a cell is, made if there was none.
    #[inline]
    fn find(&mut self, sections: &Sections, lock: u32, cell: u32) -> usize {
        let mut at = self.home(lock, cell);
        loop {
            let entry = &self.table[at];
            if entry.lock == lock && entry.cell == cell {
                return at;
            }
            if entry.lock == FREE {
                return self.add(sections, lock, cell);
            }
            at = (at + 1) & (self.table.len() - 1);
        }
    }

    #[inline]
    fn home(&self, lock: u32, cell: u32) -> usize {
        let key = (lock as u64) << 32 | cell as u64;
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.table.len().trailing_zeros())) as usize
    }

    #[cold]
    fn add(&mut self, sections: &Sections, lock: u32, cell: u32) -> usize {
        if 2 * (self.used + 1) > self.table.len() {
            let bigger = vec![EMPTY; 2 * self.table.len()];
            for entry in std::mem::replace(&mut self.table, bigger).into_iter().filter(|entry| entry.lock != FREE) {
                let at = self.free_place(entry.lock, entry.cell);
                self.table[at] = entry;
            }
        }
        self.used += 1;
        let mut shared = 0;
        if sections.locks[lock as usize].has_readers {
            self.shared.push(Vec::new());
            shared = self.shared.len() as u32;
        }
        let at = self.free_place(lock, cell);
        self.table[at] = Entry { lock, cell, shared, ..EMPTY };
        at
    }

    fn free_place(&self, lock: u32, cell: u32) -> usize {
        let mut at = self.home(lock, cell);
        while self.table[at].lock != FREE {
            at = (at + 1) & (self.table.len() - 1);
        }
        at
    }

    /// Every section that may still be asked for.
    pub fn sections(&self) -> impl Iterator<Item = SectionId> {
        let plain = self.table.iter().flat_map(|e| e.writes.into_iter().chain(e.reads));
        plain.chain(self.shared.iter().flatten().map(|of| of.section)).filter(|&s| s != NONE)
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.table.capacity() * size_of::<Entry>()
    }
}

fn record_shared(list: &mut Vec<OfThread>, sections: &Sections, own: SectionId, kind: Kind) {
    let section = sections.get(own);
    let changes = kind.writes() || kind == Kind::Free;
    for wrote in [changes.then_some(true), kind.reads().then_some(false)].into_iter().flatten() {
        let same = |of: &&mut OfThread| {
            let other = sections.get(of.section);
            of.wrote == wrote && other.thread == section.thread && other.shared == section.shared
        };
        match list.iter_mut().find(same) {
            Some(of) => of.section = own,
            None => list.push(OfThread { section: own, wrote }),
        }
    }
}
