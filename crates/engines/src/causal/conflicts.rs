//! Rule (a): which earlier critical sections on the same lock contain a conflicting access.
//!
//! Sections on one lock are ordered, so of those of other threads that read, or wrote, a cell
//! only the latest matters; the last ones of two different threads are enough to know
//! it for every thread. Reader sections are not ordered among each other: locks that have
//! some are kept thread by thread. Cost: one look into an open table for each lock that is held
//! at an access; every lock has a table of its own, so that what a section touches lies close together. 20 bytes,
//! and room for as many again at the most, for each pair of lock and cell that occurs.

use super::sections::{NONE, SectionId, Sections};
use crate::happens_before::run::Kind;

/// Accesses to one cell in sections on one lock.
#[derive(Clone, Copy)]
struct Entry {
    /// [`FREE`] if nothing is here.
    cell: u32,
    /// Latest section that wrote or freed, and the latest of another thread than that one's. If the lock has
    /// readers, an index into `shared` instead.
    writes: [SectionId; 2],
    /// The same for sections that read.
    reads: [SectionId; 2],
}

const FREE: u32 = u32::MAX;
const EMPTY: Entry = Entry { cell: FREE, writes: [NONE; 2], reads: [NONE; 2] };

/// The latest section of one thread, of one kind, that read or wrote.
#[derive(Clone, Copy)]
struct OfThread {
    section: SectionId,
    wrote: bool,
}

/// Accesses in critical sections so far.
pub(crate) struct Conflicts {
    /// One for each lock.
    tables: Vec<Table>,
    shared: Vec<Vec<OfThread>>,
}

/// Nothing, or a power of two of entries; an entry lies at its hash or behind it.
#[derive(Clone, Default)]
struct Table {
    entries: Vec<Entry>,
    used: usize,
}

impl Conflicts {
    pub fn new(locks: usize) -> Conflicts {
        Conflicts { tables: vec![Table::default(); locks], shared: Vec::new() }
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
        let Entry { writes, reads, .. } = self.tables[section.lock.index()].get(cell as u32);
        let changes = kind.writes() || kind == Kind::Free;
        if sections.locks[section.lock.index()].has_readers {
            if writes[0] == NONE {
                self.shared.push(Vec::new());
                writes[0] = self.shared.len() as u32 - 1;
            }
            let list = &mut self.shared[writes[0] as usize];
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

    /// Calls `mark` for every section that may still be asked for.
    pub fn needed(&self, sections: &Sections, mark: &mut dyn FnMut(SectionId)) {
        for (table, lock) in self.tables.iter().zip(&sections.locks).filter(|(_, lock)| !lock.has_readers) {
            debug_assert!(lock.users.len() > 1 || table.used == 0, "locks of one thread have no sections");
            let all = table.entries.iter().flat_map(|e| e.writes.into_iter().chain(e.reads));
            all.filter(|&section| section != NONE).for_each(&mut *mark);
        }
        self.shared.iter().flatten().for_each(|of| mark(of.section));
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.tables.iter().map(|table| table.entries.capacity() * size_of::<Entry>()).sum()
    }
}

impl Table {
    /// The entry of a cell, made if there was none.
    #[inline]
    fn get(&mut self, cell: u32) -> &mut Entry {
        let mut at = self.home(cell);
        while let Some(entry) = self.entries.get(at) {
            if entry.cell == cell {
                return &mut self.entries[at];
            }
            if entry.cell == FREE {
                break;
            }
            at = (at + 1) & (self.entries.len() - 1);
        }
        self.add(cell)
    }

    #[inline]
    fn home(&self, cell: u32) -> usize {
        let hash = (cell as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (hash as usize * self.entries.len()) >> 32
    }

    #[cold]
    fn add(&mut self, cell: u32) -> &mut Entry {
        if 2 * (self.used + 1) > self.entries.len() {
            let bigger = vec![EMPTY; (2 * self.entries.len()).max(8)];
            for entry in std::mem::replace(&mut self.entries, bigger).into_iter().filter(|entry| entry.cell != FREE) {
                let at = self.free_place(entry.cell);
                self.entries[at] = entry;
            }
        }
        self.used += 1;
        let at = self.free_place(cell);
        self.entries[at] = Entry { cell, ..EMPTY };
        &mut self.entries[at]
    }

    fn free_place(&self, cell: u32) -> usize {
        let mut at = self.home(cell);
        while self.entries[at].cell != FREE {
            at = (at + 1) & (self.entries.len() - 1);
        }
        at
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
