//! Lifetimes of heap memory.

use snag_model::{Action, Cells, EventId, Op, Trace, VarId};
use std::collections::HashMap;

/// Which events begin and end the life of heap memory. Who allocated a cell is
/// known to [`Cells`].
pub(crate) struct Heap {
    /// The event that frees a cell.
    freed_by: Vec<Option<EventId>>,
    /// The alloc that each free belongs to: a block that nobody accesses has no cells.
    alloc_of_free: HashMap<EventId, EventId>,
}

impl Heap {
    pub fn of(trace: &Trace, cells: &Cells) -> Heap {
        let mut heap = Heap { freed_by: vec![None; cells.count()], alloc_of_free: HashMap::new() };
        // What is freed is exactly one live block, so the variable identifies it.
        let mut live: HashMap<VarId, EventId> = HashMap::new();
        for (id, event) in trace.events_of(&[Op::Alloc, Op::Free]) {
            match event.action() {
                Action::Alloc { variable } => {
                    live.insert(variable, id);
                }
                Action::Free { variable } => {
                    let alloc = live.remove(&variable).expect("a well-formed trace frees live blocks");
                    heap.alloc_of_free.insert(id, alloc);
                    for cell in cells.touched_by(trace, id) {
                        heap.freed_by[cell] = Some(id);
                    }
                }
                _ => {}
            }
        }
        heap
    }

    /// The event that frees a cell.
    pub fn freed_by(&self, cell: usize) -> Option<EventId> {
        self.freed_by[cell]
    }

    /// The alloc of what a free frees.
    pub fn alloc_of_free(&self, free: EventId) -> EventId {
        self.alloc_of_free[&free]
    }
}
