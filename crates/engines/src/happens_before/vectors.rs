//! Access histories as full vectors: DJIT+ for HB, the SHB paper's Algorithm 1.
//!
//! Guarantee: an access is reported iff it races with some earlier access under
//! the order. Kept beside [`crate::happens_before::epochs`] for comparison: every history is a
//! whole vector, and so is LWx. Cost: as many words per cell and access as
//! threads are alive.

use crate::clocks::{Clocks, Slot, Time};
use crate::happens_before::run::{Kind, Memory};

/// Rows of one cell; 0 before the first access.
#[derive(Clone, Copy, Default)]
struct Cell {
    reads: u32,
    writes: u32,
    atomic_reads: u32,
    atomic_writes: u32,
    /// The whole clock of the last write.
    last_write: u32,
}

/// Histories of all cells. `SHB`: a read also comes after the write it sees.
pub(crate) struct Vectors<const SHB: bool> {
    cells: Vec<Cell>,
    /// Accesses before this time are out of the window.
    floor: Time,
}

impl<const SHB: bool> Vectors<SHB> {
    pub fn new(cells: usize) -> Self {
        Vectors { cells: vec![Cell::default(); cells], floor: 0 }
    }
}

impl<const SHB: bool> Memory for Vectors<SHB> {
    fn races(&self, clocks: &Clocks, slot: Slot, cell: usize, kind: Kind) -> bool {
        let cell = &self.cells[cell];
        let unknown = |row: u32| !clocks.knows_row(slot, row, self.floor);
        match kind {
            Kind::Read => unknown(cell.writes) || unknown(cell.atomic_writes),
            Kind::Write | Kind::Free => {
                unknown(cell.reads) || unknown(cell.writes) || unknown(cell.atomic_reads) || unknown(cell.atomic_writes)
            }
            Kind::AtomicRead => unknown(cell.writes),
            Kind::AtomicWrite | Kind::Rmw => unknown(cell.reads) || unknown(cell.writes),
        }
    }

    fn learn(&mut self, clocks: &mut Clocks, slot: Slot, cell: usize, kind: Kind) {
        if SHB && kind.reads() {
            clocks.join_row(slot, self.cells[cell].last_write);
        }
    }

    fn record(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, cell: usize, kind: Kind) {
        let cell = &mut self.cells[cell];
        let history = match kind {
            Kind::Read => &mut cell.reads,
            Kind::Write => &mut cell.writes,
            Kind::AtomicRead => &mut cell.atomic_reads,
            Kind::AtomicWrite | Kind::Rmw => &mut cell.atomic_writes,
            Kind::Free => return,
        };
        if *history == 0 {
            *history = clocks.new_row();
        }
        clocks.set(*history, slot, time);
        if SHB && kind.writes() {
            if cell.last_write != 0 {
                clocks.free_row(cell.last_write);
            }
            cell.last_write = clocks.new_row();
            clocks.gather(cell.last_write, slot, time);
        }
    }

    fn start_window(&mut self, time: Time) {
        self.floor = time;
    }

    fn roots(&self, mark: &mut dyn FnMut(u32)) {
        for cell in &self.cells {
            for row in [cell.reads, cell.writes, cell.atomic_reads, cell.atomic_writes, cell.last_write] {
                mark(row);
            }
        }
    }

    fn root_count(&self) -> usize {
        self.cells.len()
    }

    fn memory(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>()
    }
}
