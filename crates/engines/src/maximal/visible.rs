//! Which events are visible to other threads: few of a recorded program's.
//!
//! Guarantee: in every order of events that respects the saturated order, a read of a *stable* cell sees what it saw,
//! whatever else is reordered: no write of the cell can come between the two. So a run that respects the saturated
//! order need not look at accesses that touch stable cells alone, and passes over them in one step up to the next
//! *visible* event of the thread.
//! Cost: one pass over the trace, with a binary search for each read and each thread that writes its cell.

use crate::maximal::index::Index;
use crate::maximal::memory::Source;
use crate::maximal::threads::Threads;
use snag_model::Level;
use snag_model::{EventId, Op};

/// A cell that more threads write is not looked at.
const MOST_LISTS: usize = if cfg!(debug_assertions) { 6 } else { 256 };

#[derive(Default)]
pub(crate) struct Visible {
    /// One bit per cell.
    stable: Vec<u64>,
    /// Per thread the positions of its visible events.
    of_thread: Vec<Vec<u32>>,
}

impl Visible {
    /// No cell is stable, and every event is visible: values other than those of the trace may turn up anywhere.
    pub fn all(cells: usize, threads: &Threads) -> Visible {
        let positions = |thread| (0..threads.events(thread).len() as u32).collect();
        Visible { stable: vec![0; cells.div_ceil(64)], of_thread: (0..threads.count()).map(positions).collect() }
    }

    pub fn of(index: &Index) -> Visible {
        let mut visible = Visible { stable: vec![u64::MAX; index.cells.count().div_ceil(64)], of_thread: Vec::new() };
        visible.find_cells(index);
        let threads = &index.threads;
        for thread in 0..threads.count() {
            let events = threads.events(thread).iter().enumerate();
            let positions = events.filter(|&(_, &event)| !visible.passes_over(index, event));
            visible.of_thread.push(positions.map(|(position, _)| position as u32).collect());
        }
        visible
    }

    /// Whether reads of a cell see what they saw in any case.
    #[inline]
    pub fn is_stable(&self, cell: usize) -> bool {
        self.stable[cell / 64] >> (cell % 64) & 1 == 1
    }

    /// The positions of a thread's visible events.
    #[inline]
    pub fn of_thread(&self, thread: usize) -> &[u32] {
        &self.of_thread[thread]
    }

    fn find_cells(&mut self, index: &Index) {
        const NOBODY: u32 = u32::MAX;
        const SEVERAL: u32 = u32::MAX - 1;
        let mut users = vec![NOBODY; index.cells.count()];
        let mut is_written = vec![false; index.cells.count()];
        let accesses = || {
            let ops = index.trace.events.ops().iter().enumerate();
            ops.filter(|(_, op)| op.is_access()).map(|(number, &op)| (EventId::new(number), op))
        };
        for (event, op) in accesses() {
            let thread = index.threads.thread(event) as u32;
            for cell in index.memory.cells_of(event) {
                is_written[cell] |= op.writes();
                let user = &mut users[cell];
                *user = if *user == NOBODY || *user == thread { thread } else { SEVERAL };
            }
        }
        for (event, op) in accesses().filter(|(_, op)| op.reads()) {
            for cell in index.memory.cells_of(event) {
                // At `control` it also counts whether what was written is known.
                let is_open = |level| level == Level::Control || !is_kept(index, event, op, cell);
                if users[cell] == SEVERAL && is_written[cell] && self.is_stable(cell) && is_open(index.level) {
                    self.stable[cell / 64] &= !(1 << (cell % 64));
                }
            }
        }
    }

    /// Whether an event has no influence but by its place in the saturated order, and does not have to wait for others.
    fn passes_over(&self, index: &Index, event: EventId) -> bool {
        if index.saturated.meets_others(&index.threads, event) {
            return false;
        }
        match index.op(event) {
            op if op.is_access() => {
                index.memory.cells_of(event).all(|cell| self.is_stable(cell))
                    && index.free_of(event).is_none_or(|free| index.saturated.reaches(&index.threads, event, free))
            }
            Op::Acquire | Op::ReadAcquire | Op::Release | Op::ReadRelease => {
                let Some(section) = index.sections.of_event(event) else { return true };
                index.sections.has_no_rival(section) && !index.sections.is_probed(index.sections.get(section).lock)
            }
            // Attempts to join a thread fail before these.
            Op::End | Op::Join if !index.ends.is_empty() => false,
            Op::Begin | Op::End | Op::Fork | Op::Join | Op::Alloc | Op::Branch | Op::Let | Op::Mark | Op::Fence => true,
            op if op.is_fault() => true,
            _ => false,
        }
    }
}

/// Whether no write to a cell can come between a read and what it saw.
fn is_kept(index: &Index, read: EventId, op: Op, cell: usize) -> bool {
    let Index { threads, memory, saturated, .. } = index;
    if memory.lists(cell).len() > MOST_LISTS {
        return false;
    }
    let seen: Source = memory.seen(read, cell);
    if seen.is_some_and(|write| !saturated.reaches(threads, write, read)) {
        return false;
    }
    memory.writes(cell).all(|list| {
        // Those before what was seen, and that itself.
        let earlier = seen.map_or(0, |write| match threads.thread(write) == list.thread {
            true => threads.position(write) + 1,
            false => saturated.row(write).get(list.thread),
        });
        let next = list.events[list.events.partition_point(|&w| threads.position(w) < earlier)..].first();
        next.is_none_or(|&next| (next == read && op.writes()) || saturated.reaches(threads, read, next))
    })
}
