//! Access histories with epochs (the SHB paper's Algorithm 2), for HB and SHB.
//!
//! Guarantee: an access is reported iff it races with some earlier access under
//! the order; the same verdicts as full vectors give ([`crate::vectors`]).
//! Deviations from the paper: times are event numbers, so nothing is counted up
//! after a write; LWx is a reference to the writer's row, not a copy; the read
//! history goes back to an epoch when a write comes after all reads, which loses
//! no warning: who races with such a read races with that write as well.
//! Cost: one look at the cell and one at the thread's clock in the common case;
//! 32 bytes a cell.

use crate::clocks::{Clocks, Slot, Stamp, Time};
use crate::run::{Kind, Memory};

/// The history of one cell.
#[derive(Clone, Copy)]
struct Cell {
    /// Last plain write; the clock of its thread then, for SHB.
    write_slot: Slot,
    write_time: Time,
    write_row: u32,
    /// Last plain read.
    read_slot: Slot,
    read_time: Time,
    /// Row with the last write of every thread if not all of them are before the last one; else 0.
    writes: u32,
    /// Row with the last read of every thread if not all of them are before the last one; else 0.
    reads: u32,
    /// 1 + index into `atomics` if the cell was accessed atomically; else 0.
    atomics: u32,
}

const FRESH: Cell =
    Cell { write_slot: 0, write_time: 0, write_row: 0, read_slot: 0, read_time: 0, writes: 0, reads: 0, atomics: 0 };

/// What a cell needs beside its plain accesses.
struct Atomics {
    /// Rows with the last atomic read and atomic write of every thread.
    reads: u32,
    writes: u32,
    /// The last write of any kind.
    last: Stamp,
}

/// Histories of all cells. `SHB`: a read also comes after the write it sees.
pub(crate) struct Epochs<const SHB: bool> {
    cells: Vec<Cell>,
    atomics: Vec<Atomics>,
    /// Accesses before this time are out of the window.
    floor: Time,
}

impl<const SHB: bool> Epochs<SHB> {
    pub fn new(cells: usize) -> Self {
        Epochs { cells: vec![FRESH; cells], atomics: Vec::new(), floor: 0 }
    }

    /// Whether all accesses of an epoch or, if there is one, a row are known or out of the window.
    #[inline]
    fn before(&self, clocks: &Clocks, slot: Slot, (last_slot, last): (Slot, Time), row: u32) -> bool {
        let known = clocks.of(slot);
        if row == 0 {
            return known[last_slot as usize] >= last || last <= self.floor;
        }
        row_before(clocks.row(row), known, self.floor)
    }

    fn writes_before(&self, clocks: &Clocks, slot: Slot, cell: &Cell) -> bool {
        self.before(clocks, slot, (cell.write_slot, cell.write_time), cell.writes)
    }

    fn reads_before(&self, clocks: &Clocks, slot: Slot, cell: &Cell) -> bool {
        self.before(clocks, slot, (cell.read_slot, cell.read_time), cell.reads)
    }

    #[inline(never)]
    fn note_read(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, cell: usize) {
        let cell = &mut self.cells[cell];
        if cell.reads != 0 {
            clocks.set(cell.reads, slot, time);
        } else if !clocks.knows(slot, cell.read_slot, cell.read_time) {
            cell.reads = clocks.new_row();
            clocks.set(cell.reads, cell.read_slot, cell.read_time);
            clocks.set(cell.reads, slot, time);
        }
        (cell.read_slot, cell.read_time) = (slot, time);
    }

    #[inline(never)]
    fn note_write(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, at: usize) {
        let cell = self.cells[at];
        let (reads_before, writes_before) =
            (self.reads_before(clocks, slot, &cell), self.writes_before(clocks, slot, &cell));
        let cell = &mut self.cells[at];
        if reads_before {
            free(clocks, &mut cell.reads);
            (cell.read_slot, cell.read_time) = (0, 0);
        }
        if writes_before {
            free(clocks, &mut cell.writes);
        } else {
            if cell.writes == 0 {
                cell.writes = clocks.new_row();
                clocks.set(cell.writes, cell.write_slot, cell.write_time);
            }
            clocks.set(cell.writes, slot, time);
        }
        let row = if SHB { clocks.stamp(slot, time).row } else { 0 };
        (cell.write_slot, cell.write_time, cell.write_row) = (slot, time, row);
    }

    fn atomics_of(&mut self, clocks: &mut Clocks, cell: usize) -> &mut Atomics {
        let cell = &mut self.cells[cell];
        if cell.atomics == 0 {
            let last = Stamp { slot: cell.write_slot, time: cell.write_time, row: cell.write_row };
            self.atomics.push(Atomics { reads: clocks.new_row(), writes: clocks.new_row(), last });
            cell.atomics = self.atomics.len() as u32;
        }
        &mut self.atomics[cell.atomics as usize - 1]
    }

    fn last_write(&self, cell: &Cell) -> Stamp {
        match cell.atomics.checked_sub(1) {
            Some(index) => self.atomics[index as usize].last,
            None => Stamp { slot: cell.write_slot, time: cell.write_time, row: cell.write_row },
        }
    }
}

/// Whether every component is known, or not after `floor`.
pub(crate) fn row_before(row: &[Time], known: &[Time], floor: Time) -> bool {
    row.iter().zip(known).all(|(&time, &known)| time <= known || time <= floor)
}

fn free(clocks: &mut Clocks, row: &mut u32) {
    if *row != 0 {
        clocks.free_row(*row);
        *row = 0;
    }
}

impl<const SHB: bool> Memory for Epochs<SHB> {
    fn races(&self, clocks: &Clocks, slot: Slot, cell: usize, kind: Kind) -> bool {
        let cell = &self.cells[cell];
        let floor = self.floor;
        let atomics = cell.atomics.checked_sub(1).map(|i| &self.atomics[i as usize]);
        let known = clocks.of(slot);
        let atomic = |row: fn(&Atomics) -> u32| atomics.is_some_and(|a| !row_before(clocks.row(row(a)), known, floor));
        let writes = !self.writes_before(clocks, slot, cell);
        let reads = !self.reads_before(clocks, slot, cell);
        match kind {
            Kind::Read => writes || atomic(|a| a.writes),
            Kind::Write | Kind::Free => writes || reads || atomic(|a| a.writes) || atomic(|a| a.reads),
            Kind::AtomicRead => writes,
            Kind::AtomicWrite | Kind::Rmw => writes || reads,
        }
    }

    fn learn(&mut self, clocks: &mut Clocks, slot: Slot, cell: usize, kind: Kind) {
        if SHB && kind.reads() {
            let last = self.last_write(&self.cells[cell]);
            clocks.join(slot, last);
        }
    }

    fn record(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, at: usize, kind: Kind) {
        match kind {
            Kind::Read => self.note_read(clocks, slot, time, at),
            Kind::Write => {
                self.note_write(clocks, slot, time, at);
                if let Some(index) = self.cells[at].atomics.checked_sub(1) {
                    self.atomics[index as usize].last = clocks.stamp(slot, time);
                }
            }
            Kind::AtomicRead => {
                let row = self.atomics_of(clocks, at).reads;
                clocks.set(row, slot, time);
            }
            Kind::AtomicWrite | Kind::Rmw => {
                let stamp = clocks.stamp(slot, time);
                let atomics = self.atomics_of(clocks, at);
                atomics.last = stamp;
                let row = atomics.writes;
                clocks.set(row, slot, time);
            }
            Kind::Free => {}
        }
    }

    #[inline(always)]
    fn quick_read(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, at: usize) -> bool {
        let cell = &mut self.cells[at];
        let known = clocks.of(slot);
        let plain = cell.writes | cell.reads | cell.atomics == 0;
        if plain
            && known[cell.write_slot as usize] >= cell.write_time
            && known[cell.read_slot as usize] >= cell.read_time
        {
            (cell.read_slot, cell.read_time) = (slot, time);
            return true;
        }
        false
    }

    #[inline(always)]
    fn quick_write(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, at: usize) -> bool {
        let cell = &mut self.cells[at];
        let known = clocks.of(slot);
        let plain = cell.writes | cell.reads | cell.atomics == 0;
        if plain
            && known[cell.write_slot as usize] >= cell.write_time
            && known[cell.read_slot as usize] >= cell.read_time
        {
            (cell.read_slot, cell.read_time) = (0, 0);
            (cell.write_slot, cell.write_time) = (slot, time);
            if SHB {
                cell.write_row = clocks.stamp(slot, time).row;
            }
            return true;
        }
        false
    }

    fn start_window(&mut self, time: Time) {
        self.floor = time;
    }

    fn roots(&self, mark: &mut dyn FnMut(u32)) {
        for cell in &self.cells {
            mark(cell.write_row);
            mark(cell.reads);
            mark(cell.writes);
        }
        for atomics in &self.atomics {
            mark(atomics.reads);
            mark(atomics.writes);
            mark(atomics.last.row);
        }
    }

    fn root_count(&self) -> usize {
        self.cells.len()
    }

    fn memory(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>() + self.atomics.capacity() * size_of::<Atomics>()
    }
}
