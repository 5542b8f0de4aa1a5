//! Which cells have conflicting accesses of different threads that the saturated order leaves open.
//!
//! Flanagan, Freund: FastTrack (PLDI 2009), with the saturated order in place of happens-before.
//!
//! Guarantee: conflicting accesses of a cell that is not contended are all ordered. Deviation: of reads that are not ordered with each
//! other only the last one is remembered, and a write after them makes the cell contended, whether it must follow them or not.
//! Cost: one pass over the trace, two words for each cell.

use crate::maximal::counts::Row;
use crate::maximal::index::Index;
use snag_model::{EventId, Op};

/// The last accesses of a cell: 1 + the event, or 0.
#[derive(Clone, Copy, Default)]
struct Last {
    change: u32,
    read: u32,
    /// There were reads beside the last one that need not come before it.
    several: bool,
    contended: bool,
}

/// Per cell whether it is contended. `touches` are the accesses and frees in the order of the trace.
pub(crate) fn contended(index: &Index, touches: impl Iterator<Item = (EventId, Op)>) -> Vec<bool> {
    let mut cells = vec![Last::default(); index.cells.count()];
    for (event, op) in touches {
        let order = Before::of(index, event);
        for cell in index.memory.cells_of(event) {
            let last = &mut cells[cell];
            if last.contended {
                continue;
            }
            let after_change = order.contains(last.change);
            let after_read = order.contains(last.read);
            if op.writes() || op == Op::Free {
                last.contended = !after_change || !after_read || last.several;
                *last = Last { change: event.0 + 1, contended: last.contended, ..Last::default() };
            } else {
                last.contended = !after_change;
                last.several |= !after_read;
                last.read = event.0 + 1;
            }
        }
    }
    cells.into_iter().map(|last| last.contended).collect()
}

/// What comes before an access in every schedule, whatever it sees itself.
struct Before<'i, 't> {
    index: &'i Index<'t>,
    thread: usize,
    /// By what comes before it in its thread, and by rules 1 to 3.
    rows: [Row<'i>; 2],
}

impl<'i, 't> Before<'i, 't> {
    fn of(index: &'i Index<'t>, event: EventId) -> Before<'i, 't> {
        let hard = index.hard.row(event);
        let saturated = index.threads.previous(event).map_or(hard, |previous| index.saturated.row(previous));
        Before { index, thread: index.threads.thread(event), rows: [saturated, hard] }
    }

    fn contains(&self, last: u32) -> bool {
        let Some(other) = last.checked_sub(1).map(EventId) else { return true };
        let (thread, position) = (self.index.threads.thread(other), self.index.threads.position(other));
        thread == self.thread || self.rows.iter().any(|row| row.get(thread) > position)
    }
}
