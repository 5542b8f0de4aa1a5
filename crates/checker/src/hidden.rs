//! What code that was not observed may read and write (rule 4 of the model).
//!
//! A missing call may read, from its begin on, all memory that it could reach: so this must be at its begin what it
//! was in the trace. And it may write: after its begin and after its end, nothing is known about that memory, except
//! that the same was there in the trace.
//!
//! As rule 3 keeps all accesses to such memory in order with the call, this needs to be looked at only where two threads
//! access a cell, and one of them writes, with no begin or end of such a call in between: elsewhere the order of the
//! accesses is fixed. The begins and ends around such accesses are listed here.

use crate::reach::Objects;
use crate::source::Source;
use snag_model::{Action, Cells, EventId, ReachId, ThreadId, Trace};

/// For begins and ends of calls, the cells to look at.
#[derive(Default)]
pub(crate) struct Hidden {
    /// Event and cell, ascending.
    accesses: Vec<(EventId, u32)>,
    /// What the cell of each access held in the trace before the event.
    pub seen: Vec<Source>,
}

/// The accesses of a cell since the last begin or end of a call that could reach it.
#[derive(Clone, Copy)]
struct Since {
    /// That begin or end.
    boundary: Option<EventId>,
    thread: Option<ThreadId>,
    wrote: bool,
    shared: bool,
}

impl Hidden {
    pub fn of(trace: &Trace, cells: &Cells, objects: &Objects) -> Hidden {
        let nothing = Since { boundary: None, thread: None, wrote: false, shared: false };
        let mut since = vec![nothing; cells.count()];
        // Of each object the last begin or end of a call that could reach it, and the cells shared since.
        let mut boundary: Vec<Option<EventId>> = vec![None; objects.count()];
        let mut shared: Vec<Vec<u32>> = vec![Vec::new(); objects.count()];
        let mut open: Vec<Vec<ReachId>> = vec![Vec::new(); trace.tables.thread_count()];
        let mut accesses = Vec::new();
        for (index, event) in trace.events.iter().enumerate() {
            let id = EventId::new(index);
            let calls = &mut open[event.thread.index()];
            let action = event.action();
            let reach = match action {
                Action::MethodBegin { reach, .. } => {
                    calls.push(reach);
                    Some(reach)
                }
                Action::MethodEnd { .. } => calls.pop(),
                _ => None,
            };
            for &object in reach.map_or(&[][..], |reach| objects.reached(reach)) {
                boundary[object as usize] = Some(id);
                accesses.extend(shared[object as usize].drain(..).map(|cell| (id, cell)));
            }
            let Some(variable) = action.variable().filter(|_| event.op.is_access()) else { continue };
            for cell in cells.of_event(index, variable.0) {
                let touched = match cells.bytes(cell) {
                    Some((start, bytes)) => objects.with_bytes(start, start + (bytes - 1)),
                    None => objects.with_variable(variable),
                };
                let last = touched.clone().filter_map(|object| boundary[object]).max();
                let since = &mut since[cell];
                if since.boundary != last {
                    *since = Since { boundary: last, ..nothing };
                }
                let known = since.shared && since.wrote;
                since.wrote |= event.op.writes();
                let alone = since.thread.is_none_or(|thread| thread == event.thread);
                since.thread = if alone { Some(event.thread) } else { since.thread };
                since.shared |= !alone;
                if since.shared && since.wrote && !known {
                    accesses.extend(last.map(|begin| (begin, cell as u32)));
                    touched.clone().for_each(|object| shared[object].push(cell as u32));
                }
            }
        }
        accesses.sort_unstable();
        accesses.dedup();
        Hidden { seen: vec![Source::INITIAL; accesses.len()], accesses }
    }

    /// The places in `seen` of the accesses at an event.
    pub fn at(&self, event: EventId) -> std::ops::Range<usize> {
        let from = self.accesses.partition_point(|access| access.0 < event);
        let count = self.accesses[from..].iter().take_while(|access| access.0 == event).count();
        from..from + count
    }

    /// The cell of an access.
    pub fn cell(&self, access: usize) -> usize {
        self.accesses[access].1 as usize
    }
}
