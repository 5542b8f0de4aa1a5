//! Access histories that put every race in order once it is found.
//!
//! The first race of CP or WCP is one, or a deadlock; of the next ones that is only
//! known if the first is treated as ordered. So at a race the earlier access, with all
//! that happens before it, causally precedes the later one from then on. A cell then
//! needs its last write and the reads since that are not ordered among
//! each other: everything before is ordered before them. Of several accesses that race with
//! one, the latest is forced first; those that are ordered by that are no race.
//! Cost: one look at the cell and one or two at the clock in the common case; 28 bytes a cell.

use super::pass::Pass;
use crate::clocks::{Slot, Stamp, Time};
use crate::happens_before::run::Kind;
use snag_model::EventId;

#[derive(Clone, Copy)]
struct Cell {
    write: Stamp,
    read: Stamp,
    /// 1 + index into `more` if one read is not enough, or there are atomic accesses.
    more: u32,
}

#[derive(Clone, Default)]
struct More {
    /// Other reads that are not ordered before the last one.
    reads: Vec<Stamp>,
    atomic_reads: Vec<Stamp>,
    atomic_writes: Vec<Stamp>,
}

pub(crate) struct Histories {
    cells: Vec<Cell>,
    more: Vec<More>,
    /// Accesses before this time are out of the window.
    pub floor: Time,
    racing: Vec<Stamp>,
}

impl Histories {
    pub fn new(cells: usize) -> Histories {
        let fresh = Cell { write: Stamp::NEVER, read: Stamp::NEVER, more: 0 };
        Histories { cells: vec![fresh; cells], more: Vec::new(), floor: 0, racing: Vec::new() }
    }

    /// Judges and performs an event that touches memory. Races go to `found`, the earlier event first.
    pub fn access(&mut self, pass: &mut Pass, slot: Slot, number: usize, kind: Kind, found: &mut Vec<EventId>) {
        let touched = pass.cells.touched_by(pass.trace, EventId::new(number));
        if touched.len() == 1 && self.quick(pass, slot, number as Time + 1, touched.start, kind) {
            return;
        }
        self.racing.clear();
        for cell in touched.clone() {
            self.conflicting(cell, kind);
        }
        let floor = self.floor;
        self.racing.retain(|s| s.time > floor && !pass.is_ordered(slot, s.slot, s.time));
        if !self.racing.is_empty() {
            self.racing.sort_unstable_by_key(|s| std::cmp::Reverse(s.time));
            for &stamp in &self.racing {
                if !pass.is_ordered(slot, stamp.slot, stamp.time) {
                    found.push(EventId(stamp.time - 1));
                    pass.force(slot, stamp);
                }
            }
        }
        let stamp = pass.causes.stamp(2 * slot, number as Time + 1);
        for cell in touched {
            self.record(pass, slot, cell, kind, stamp);
        }
    }

    /// Performs a plain access if all is ordered.
    #[inline(always)]
    fn quick(&mut self, pass: &mut Pass, slot: Slot, time: Time, cell: usize, kind: Kind) -> bool {
        let cell = &mut self.cells[cell];
        let known = pass.order.of(slot);
        let ordered = cell.more == 0
            && known[cell.write.slot as usize / 2] >= cell.write.time
            && known[cell.read.slot as usize / 2] >= cell.read.time;
        match kind {
            Kind::Read if ordered => cell.read = pass.causes.stamp(2 * slot, time),
            Kind::Write if ordered => {
                cell.write = pass.causes.stamp(2 * slot, time);
                cell.read = Stamp::NEVER;
            }
            _ => return false,
        }
        true
    }

    /// Adds the accesses of a cell that conflict with one of this kind to `racing`.
    fn conflicting(&mut self, cell: usize, kind: Kind) {
        let Cell { write, read, more } = self.cells[cell];
        let (changes, atomic) = (
            matches!(kind, Kind::Write | Kind::Free | Kind::AtomicWrite | Kind::Rmw),
            matches!(kind, Kind::AtomicRead | Kind::AtomicWrite | Kind::Rmw),
        );
        self.racing.push(write);
        if changes {
            self.racing.push(read);
        }
        let Some(more) = more.checked_sub(1) else { return };
        let more = &self.more[more as usize];
        if changes {
            self.racing.extend(&more.reads);
        }
        if !atomic {
            self.racing.extend(&more.atomic_writes);
        }
        if matches!(kind, Kind::Write | Kind::Free) {
            self.racing.extend(&more.atomic_reads);
        }
    }

    fn record(&mut self, pass: &Pass, slot: Slot, at: usize, kind: Kind, stamp: Stamp) {
        let keep = |list: &mut Vec<Stamp>, stamp: Stamp| {
            list.retain(|old| !pass.is_ordered(slot, old.slot, old.time));
            list.push(stamp);
        };
        let cell = &mut self.cells[at];
        match kind {
            Kind::Read => {
                if !pass.is_ordered(slot, cell.read.slot, cell.read.time) {
                    let before = cell.read;
                    keep(&mut self.more_of(at).reads, before);
                }
                self.cells[at].read = stamp;
            }
            Kind::Write => {
                (cell.write, cell.read) = (stamp, Stamp::NEVER);
                if let Some(more) = cell.more.checked_sub(1) {
                    self.more[more as usize] = More::default();
                }
            }
            Kind::AtomicRead => keep(&mut self.more_of(at).atomic_reads, stamp),
            Kind::AtomicWrite | Kind::Rmw => keep(&mut self.more_of(at).atomic_writes, stamp),
            Kind::Free => {}
        }
    }

    fn more_of(&mut self, cell: usize) -> &mut More {
        let cell = &mut self.cells[cell];
        if cell.more == 0 {
            self.more.push(More::default());
            cell.more = self.more.len() as u32;
        }
        &mut self.more[cell.more as usize - 1]
    }

    /// Every row of what happens before that is referred to from here.
    pub fn roots(&self, mark: &mut dyn FnMut(u32)) {
        for cell in &self.cells {
            mark(cell.write.row);
            mark(cell.read.row);
        }
        for more in &self.more {
            let all = more.reads.iter().chain(&more.atomic_reads).chain(&more.atomic_writes);
            all.for_each(|stamp| mark(stamp.row));
        }
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>() + self.more.capacity() * size_of::<More>()
    }
}
