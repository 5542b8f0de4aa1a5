//! Access histories of FHB: happens-before that orders every race it has seen
//! (the SHB paper's Algorithm 3).
//!
//! Guarantee: every report is a predictable race; fewer are found than by SHB.
//! Deviation from the paper: at a race the whole clock of each racing access is
//! joined, not only its component, so that what happened before that access is
//! ordered as well; and an atomic read comes after the atomic write it sees, since
//! two atomics never race and nothing else would order them. Cost: 48 bytes a cell, and a list of the reads since the
//! last write where several threads read at once.

use crate::clocks::{Clocks, Slot, Stamp, Time};
use crate::happens_before::run::{Kind, Memory};

/// The accesses of one cell that something later may race with.
#[derive(Clone)]
struct Cell {
    /// After a write everything before is ordered before it, so one is enough.
    write: Stamp,
    /// Reads since then that are not before one another.
    reads: Vec<Stamp>,
    atomics: Option<Box<Atomics>>,
}

/// Atomic accesses do not race with one another and so are not forced into an order.
#[derive(Clone, Default)]
struct Atomics {
    reads: Vec<Stamp>,
    writes: Vec<Stamp>,
    /// The last atomic write, which an atomic read sees if no plain one came after it.
    last: Option<Stamp>,
}

/// Histories of all cells.
pub(crate) struct Forced {
    cells: Vec<Cell>,
    /// Accesses before this time are out of the window.
    floor: Time,
    /// Space for the racing accesses of the current one.
    racing: Vec<Stamp>,
}

impl Forced {
    pub fn new(cells: usize) -> Self {
        let fresh = Cell { write: Stamp::NEVER, reads: Vec::new(), atomics: None };
        Forced { cells: vec![fresh; cells], floor: 0, racing: Vec::new() }
    }
}

impl Cell {
    /// Calls `visit` for every kept access that conflicts with one of this kind.
    fn conflicting(&self, kind: Kind, mut visit: impl FnMut(Stamp)) {
        visit(self.write);
        if matches!(kind, Kind::Write | Kind::Free | Kind::AtomicWrite | Kind::Rmw) {
            self.reads.iter().for_each(|&s| visit(s));
        }
        if let Some(atomics) = &self.atomics {
            if matches!(kind, Kind::Read | Kind::Write | Kind::Free) {
                atomics.writes.iter().for_each(|&s| visit(s));
            }
            if matches!(kind, Kind::Write | Kind::Free) {
                atomics.reads.iter().for_each(|&s| visit(s));
            }
        }
    }
}

/// Adds an access to a list and drops those that it comes after.
fn keep(list: &mut Vec<Stamp>, clocks: &Clocks, stamp: Stamp) {
    list.retain(|old| !clocks.knows(stamp.slot, old.slot, old.time));
    list.push(stamp);
}

impl Memory for Forced {
    fn races(&self, clocks: &Clocks, slot: Slot, cell: usize, kind: Kind) -> bool {
        let mut races = false;
        let floor = self.floor;
        self.cells[cell].conflicting(kind, |s| races |= s.time > floor && !clocks.knows(slot, s.slot, s.time));
        races
    }

    fn learn(&mut self, clocks: &mut Clocks, slot: Slot, cell: usize, kind: Kind) {
        let cell = &mut self.cells[cell];
        self.racing.clear();
        cell.conflicting(kind, |s| self.racing.push(s));
        for &stamp in &self.racing {
            if stamp.time > self.floor {
                clocks.join(slot, stamp);
            }
        }
        if let (true, Some(Atomics { last: Some(last), .. })) = (kind.reads(), cell.atomics.as_deref()) {
            clocks.join(slot, *last);
        }
    }

    fn record(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, cell: usize, kind: Kind) {
        if kind == Kind::Free {
            return;
        }
        let cell = &mut self.cells[cell];
        let stamp = clocks.stamp(slot, time);
        match kind {
            Kind::Write => *cell = Cell { write: stamp, reads: std::mem::take(&mut cell.reads), atomics: None },
            Kind::Read => keep(&mut cell.reads, clocks, stamp),
            Kind::AtomicRead => keep(&mut cell.atomics.get_or_insert_default().reads, clocks, stamp),
            _ => {
                let atomics = cell.atomics.get_or_insert_default();
                keep(&mut atomics.writes, clocks, stamp);
                atomics.last = Some(stamp);
            }
        }
        if kind == Kind::Write {
            cell.reads.clear();
        }
    }

    fn start_window(&mut self, time: Time) {
        self.floor = time;
    }

    fn roots(&self, mark: &mut dyn FnMut(u32)) {
        for cell in &self.cells {
            mark(cell.write.row);
            cell.reads.iter().for_each(|s| mark(s.row));
            if let Some(atomics) = &cell.atomics {
                atomics.reads.iter().chain(&atomics.writes).chain(&atomics.last).for_each(|s| mark(s.row));
            }
        }
    }

    fn root_count(&self) -> usize {
        self.cells.len()
    }

    fn memory(&self) -> usize {
        let lists = self.cells.iter().map(|c| c.reads.capacity() * size_of::<Stamp>()).sum::<usize>();
        self.cells.capacity() * size_of::<Cell>() + lists
    }
}
