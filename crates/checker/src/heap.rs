//! Lifetimes of heap memory.

use snag_model::{Cells, EventId, Op, Trace, VarId};
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
        for (index, (&op, &target)) in trace.events.ops().iter().zip(trace.events.targets()).enumerate() {
            let event = EventId::new(index);
            match op {
                Op::Alloc => {
                    live.insert(VarId(target), event);
                }
                Op::Free => {
                    let alloc = live.remove(&VarId(target)).expect("a well-formed trace frees live blocks");
                    heap.alloc_of_free.insert(event, alloc);
                    for cell in cells.of_event(index, target) {
                        heap.freed_by[cell] = Some(event);
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
