//! Rule (a): which earlier critical sections on the same lock contain a conflicting access.
//!
//! Sections on one lock are ordered, so of those of other threads that read, or wrote, a cell
//! only the latest matters; the last ones of two different threads are enough to know
//! it for every thread. Reader sections are not ordered among each other: locks that have
//! some are kept thread by thread. Cost: a walk along the locks under which the cell was
//! accessed, mostly one; 32 bytes for each pair of lock and cell that occurs.

use super::sections::{NONE, SectionId, Sections};
use crate::run::Kind;
use std::collections::HashMap;

/// Accesses to one cell in sections on one lock.
struct Entry {
    lock: u32,
    /// Next entry of the same cell, + 1.
    next: u32,
    /// Latest section that wrote or freed, and the latest of another thread than that one's.
    writes: [SectionId; 2],
    /// The same for sections that read.
    reads: [SectionId; 2],
    /// 1 + index into `shared` for locks that have readers.
    shared: u32,
}

/// The latest section of one thread, of one kind, that read or wrote.
#[derive(Clone, Copy)]
struct OfThread {
    section: SectionId,
    wrote: bool,
}

/// How many entries of a cell are walked along; the others are hashed.
const WALK: u32 = 12;

/// Accesses in critical sections so far.
pub(crate) struct Conflicts {
    /// First entry of each cell, + 1.
    heads: Vec<u32>,
    entries: Vec<Entry>,
    far: HashMap<(u32, u32), u32>,
    shared: Vec<Vec<OfThread>>,
}

impl Conflicts {
    pub fn new(cells: usize) -> Conflicts {
        Conflicts { heads: vec![0; cells], entries: Vec::new(), far: HashMap::new(), shared: Vec::new() }
    }

    /// Calls `found` for the sections that come before, by rule (a), an access in `own`. More than one
    /// only if the lock has readers.
    pub fn before(
        &self,
        sections: &Sections,
        own: SectionId,
        cell: usize,
        kind: Kind,
        mut found: impl FnMut(SectionId),
    ) {
        let section = sections.get(own);
        let Some(entry) = self.find(section.lock, cell) else { return };
        let entry = &self.entries[entry as usize];
        let changes = kind.writes() || kind == Kind::Free;
        if let Some(list) = entry.shared.checked_sub(1) {
            for of in &self.shared[list as usize] {
                let other = sections.get(of.section);
                if other.thread != section.thread && !(other.shared && section.shared) && (of.wrote || changes) {
                    found(of.section);
                }
            }
            return;
        }
        let of_other = |[last, other]: [SectionId; 2]| match last {
            NONE => NONE,
            last if sections.get(last).thread != section.thread => last,
            _ => other,
        };
        let (write, read) = (of_other(entry.writes), if changes { of_other(entry.reads) } else { NONE });
        let latest = if write == NONE || read != NONE && read > write { read } else { write };
        if latest != NONE {
            found(latest);
        }
    }

    /// Remembers an access in a section.
    pub fn record(&mut self, sections: &Sections, own: SectionId, cell: usize, kind: Kind) {
        let section = sections.get(own);
        let at = self.find(section.lock, cell).unwrap_or_else(|| self.add(sections, section.lock, cell));
        let entry = &mut self.entries[at as usize];
        let changes = kind.writes() || kind == Kind::Free;
        if let Some(list) = entry.shared.checked_sub(1) {
            let list = &mut self.shared[list as usize];
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
            return;
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
            push(&mut entry.writes);
        }
        if kind.reads() {
            push(&mut entry.reads);
        }
    }

    #[inline]
    fn find(&self, lock: u32, cell: usize) -> Option<u32> {
        let mut at = self.heads[cell];
        for _ in 0..WALK {
            let index = at.checked_sub(1)?;
            let entry = &self.entries[index as usize];
            if entry.lock == lock {
                return Some(index);
            }
            at = entry.next;
        }
        self.far.get(&(lock, cell as u32)).copied()
    }

    fn add(&mut self, sections: &Sections, lock: u32, cell: usize) -> u32 {
        let new = self.entries.len() as u32;
        let mut shared = 0;
        if sections.locks[lock as usize].has_readers {
            self.shared.push(Vec::new());
            shared = self.shared.len() as u32;
        }
        let (writes, reads) = ([NONE; 2], [NONE; 2]);
        self.entries.push(Entry { lock, next: 0, writes, reads, shared });
        if self.heads[cell] == 0 {
            self.heads[cell] = new + 1;
            return new;
        }
        let (mut last, mut length) = (self.heads[cell] - 1, 1);
        while self.entries[last as usize].next != 0 {
            last = self.entries[last as usize].next - 1;
            length += 1;
        }
        if length < WALK {
            self.entries[last as usize].next = new + 1;
        } else {
            self.far.insert((lock, cell as u32), new);
        }
        new
    }

    /// Every section that may still be asked for.
    pub fn sections(&self) -> impl Iterator<Item = SectionId> {
        let plain = self.entries.iter().flat_map(|e| e.writes.into_iter().chain(e.reads));
        plain.chain(self.shared.iter().flatten().map(|of| of.section)).filter(|&s| s != NONE)
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.heads.capacity() * 4 + self.entries.capacity() * size_of::<Entry>() + self.far.len() * 32
    }
}
