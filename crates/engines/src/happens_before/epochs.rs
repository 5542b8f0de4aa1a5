//! Access histories with epochs (the SHB paper's Algorithm 2), for HB and SHB.
//!
//! Guarantee: an access is reported iff it races with some earlier access under
//! the order; the same verdicts as full vectors give ([`crate::happens_before::vectors`]).
//! Deviations from the paper: times are event numbers, so nothing is counted up
//! after a write; LWx is a reference to the writer's row, not a copy; the read
//! history goes back to an epoch when a write comes after all reads, which loses
//! no warning: who races with such a read races with that write as well.
//! Cost: one look at the cell and one at the thread's clock in the common case;
//! 32 bytes a cell.

use crate::clocks::{Clocks, Now, Slot, Stamp, Time};
use crate::happens_before::run::{Accesses, Kind, Memory};
use snag_model::Op;
use std::hint::select_unpredictable;

/// The history of one cell.
#[derive(Clone, Copy)]
struct Cell {
    /// Last plain write.
    write: Epoch,
    /// Last plain read.
    read: Epoch,
    /// The clock of the thread of the last plain write then, for SHB.
    write_row: u32,
    /// Row with the last write of every thread if not all of them are before the last one; else 0.
    writes: u32,
    /// Row with the last read of every thread if not all of them are before the last one; else 0.
    reads: u32,
    /// 1 + index into `atomics` if the cell was accessed atomically; else 0. Perhaps [`WATCHED`].
    atomics: u32,
}

/// No access to this cell is quick.
const WATCHED: u32 = 1 << 31;

impl Cell {
    /// Where its atomic accesses are kept, if there were any.
    fn atomics(&self) -> Option<usize> {
        (self.atomics & !WATCHED).checked_sub(1).map(|index| index as usize)
    }
}

const FRESH: Cell = Cell { write: Epoch::NEVER, read: Epoch::NEVER, write_row: 0, writes: 0, reads: 0, atomics: 0 };

/// The name of one event.
#[derive(Clone, Copy)]
struct Epoch {
    /// Who.
    slot: Slot,
    /// When.
    time: Time,
}

impl Epoch {
    /// Before everything.
    const NEVER: Epoch = Epoch { slot: 0, time: 0 };
}

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
    fn before(&self, clocks: &Clocks, slot: Slot, last: Epoch, row: u32) -> bool {
        if row == 0 {
            return clocks.knows(slot, last.slot, last.time) || last.time <= self.floor;
        }
        clocks.knows_row(slot, row, self.floor)
    }

    fn writes_before(&self, clocks: &Clocks, slot: Slot, cell: &Cell) -> bool {
        self.before(clocks, slot, cell.write, cell.writes)
    }

    fn reads_before(&self, clocks: &Clocks, slot: Slot, cell: &Cell) -> bool {
        self.before(clocks, slot, cell.read, cell.reads)
    }

    #[inline(never)]
    fn note_read(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, cell: usize) {
        let cell = &mut self.cells[cell];
        if cell.reads != 0 {
            clocks.set(cell.reads, slot, time);
        } else if !clocks.knows(slot, cell.read.slot, cell.read.time) {
            cell.reads = clocks.new_row();
            clocks.set(cell.reads, cell.read.slot, cell.read.time);
            clocks.set(cell.reads, slot, time);
        }
        cell.read = Epoch { slot, time };
    }

    #[inline(never)]
    fn note_write(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, at: usize) {
        let cell = self.cells[at];
        let (reads_before, writes_before) =
            (self.reads_before(clocks, slot, &cell), self.writes_before(clocks, slot, &cell));
        let cell = &mut self.cells[at];
        if reads_before {
            free(clocks, &mut cell.reads);
            cell.read = Epoch::NEVER;
        }
        if writes_before {
            free(clocks, &mut cell.writes);
        } else {
            if cell.writes == 0 {
                cell.writes = clocks.new_row();
                clocks.set(cell.writes, cell.write.slot, cell.write.time);
            }
            clocks.set(cell.writes, slot, time);
        }
        let row = if SHB { clocks.stamp(slot, time).row } else { 0 };
        (cell.write, cell.write_row) = (Epoch { slot, time }, row);
    }

    fn atomics_of(&mut self, clocks: &mut Clocks, cell: usize) -> &mut Atomics {
        let cell = &mut self.cells[cell];
        let index = cell.atomics().unwrap_or_else(|| {
            let last = Stamp { slot: cell.write.slot, time: cell.write.time, row: cell.write_row };
            self.atomics.push(Atomics { reads: clocks.new_row(), writes: clocks.new_row(), last });
            cell.atomics |= self.atomics.len() as u32;
            self.atomics.len() - 1
        });
        &mut self.atomics[index]
    }

    /// Reads and writes take the same path: which of the two comes next is hard to predict.
    #[inline(always)]
    fn quick<const SPARSE: bool>(&mut self, now: Now, accesses: Accesses) -> usize {
        let cells = &mut self.cells[..];
        for (i, ((&op, thread), &target)) in accesses.iter().enumerate() {
            let slot = now.slot_of[thread.index()];
            let (true, Some(&row)) = (op.is_plain_access(), now.current.get(slot as usize)) else { return i };
            let cell = &mut cells[target as usize];
            let plain = cell.writes | cell.reads | cell.atomics == 0;
            let ordered = (now.at::<SPARSE>(row, cell.write.slot) >= cell.write.time)
                & (now.at::<SPARSE>(row, cell.read.slot) >= cell.read.time);
            if !(plain & ordered) {
                return i;
            }
            let (own, writes) = (Epoch { slot, time: accesses.time + i as Time }, op == Op::Write);
            cell.read = select_unpredictable(writes, Epoch::NEVER, own);
            cell.write = select_unpredictable(writes, own, cell.write);
            if SHB {
                cell.write_row = select_unpredictable(writes, row, cell.write_row);
                now.shared[slot as usize] |= writes;
            }
        }
        accesses.len()
    }

    fn last_write(&self, cell: &Cell) -> Stamp {
        match cell.atomics() {
            Some(index) => self.atomics[index].last,
            None => Stamp { slot: cell.write.slot, time: cell.write.time, row: cell.write_row },
        }
    }
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
        let atomics = cell.atomics().map(|index| &self.atomics[index]);
        let atomic = |row: fn(&Atomics) -> u32| atomics.is_some_and(|a| !clocks.knows_row(slot, row(a), floor));
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
                if let Some(index) = self.cells[at].atomics() {
                    self.atomics[index].last = clocks.stamp(slot, time);
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

    fn quick_accesses(&mut self, clocks: &mut Clocks, accesses: Accesses) -> usize {
        match clocks.is_sparse() {
            false => self.quick::<false>(clocks.now(), accesses),
            true => self.quick::<true>(clocks.now(), accesses),
        }
    }

    fn watch(&mut self, cell: usize) {
        self.cells[cell].atomics |= WATCHED;
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
