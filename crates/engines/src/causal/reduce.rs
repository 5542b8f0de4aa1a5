//! What of a trace matters to CP and WCP: the paper's reduction.
//!
//! Left out are accesses to memory that one thread alone touches, operations on
//! locks that one thread alone uses or tries to take, what neither synchronises nor accesses, and repeats: a
//! plain access to a cell from the same location as the last one kept, by the same
//! thread, that does no more than that one did, with no synchronisation of the thread and no atomic write to the cell in
//! between. Who is ordered with the access that is kept is ordered with its repeats, so no
//! pair of locations is lost; only fewer pairs of events stand behind it.

use snag_model::{Cells, EventId, LocId, Op, Ops, Trace};

/// The events that remain.
#[derive(Clone, Debug)]
pub struct Reduced {
    /// Their numbers, ascending.
    pub events: Vec<u32>,
    /// Locks that several threads use.
    pub(crate) shared_locks: Vec<bool>,
}

const NOBODY: u32 = 0;
const SEVERAL: u32 = u32::MAX;

/// The last access to a cell that was kept.
#[derive(Clone, Copy)]
struct Last {
    /// 1 + thread.
    thread: u32,
    /// How often the thread had synchronised before.
    stage: u32,
    location: LocId,
    wrote: bool,
}

/// Leaves out what does not matter; with `all` nothing, with `repeats` not even repeats. Goes by the columns: it is to be
/// much faster than what follows.
pub fn reduce(trace: &Trace, cells: &Cells, all: bool, repeats: bool) -> Reduced {
    let events = &trace.events;
    let (ops, threads) = (events.ops(), events.threads());
    let (cell_owner, lock_owner, probed) = owners(trace, cells);
    let shared_locks = lock_owner.iter().map(|&owner| owner == SEVERAL).collect();
    // Missing methods put events of any kind in order.
    if all || Ops::of(ops).any(&[Op::MethodBegin]) {
        return Reduced { events: (0..trace.len() as u32).collect(), shared_locks };
    }
    let never = Last { thread: NOBODY, stage: 0, location: LocId::NONE, wrote: false };
    let mut last = vec![never; if repeats { 0 } else { cells.count() }];
    let mut stages = vec![0u32; trace.tables.thread_count()];
    let mut kept = Vec::new();
    for (number, (&op, &thread)) in ops.iter().zip(threads).enumerate() {
        let keep = match op {
            Op::Read | Op::Write => {
                let touched = cells.touched_by(trace, EventId::new(number));
                // Who touches memory that another thread has allocated comes after that.
                let given = |alloc: EventId| threads[alloc.index()] != thread;
                let shared = touched.clone().any(|cell| cell_owner[cell] == SEVERAL)
                    || cells.block_of_event(number).is_some_and(given);
                shared
                    && (repeats || touched.len() != 1 || {
                        let location = events.location(number);
                        let wrote = op == Op::Write;
                        let stage = stages[thread.index()];
                        let before = &mut last[touched.start];
                        let same =
                            before.thread == thread.0 + 1 && before.stage == stage && before.location == location;
                        let repeated = same && location != LocId::NONE && (before.wrote || !wrote);
                        if !repeated {
                            *before = Last { thread: thread.0 + 1, stage, location, wrote };
                        }
                        !repeated
                    })
            }
            Op::Begin | Op::Branch | Op::Let | Op::Mark | Op::Reach => false,
            op if op.on_other_side() || op.is_fault() => false,
            Op::Acquire | Op::Release | Op::ReadAcquire | Op::ReadRelease => {
                let lock = events.targets()[number] as usize;
                lock_owner[lock] == SEVERAL || probed[lock]
            }
            Op::AtomicWrite | Op::Rmw if !repeats => {
                // The next plain write hides from atomic reads what this one released.
                cells.touched_by(trace, EventId::new(number)).for_each(|cell| last[cell] = never);
                true
            }
            _ => true,
        };
        if keep {
            kept.push(number as u32);
            if !matches!(op, Op::Read | Op::Write) {
                stages[thread.index()] += 1;
            }
        }
    }
    Reduced { events: kept, shared_locks }
}

/// Who touches each cell and holds each lock, and which locks attempts have failed for.
fn owners(trace: &Trace, cells: &Cells) -> (Vec<u32>, Vec<u32>, Vec<bool>) {
    let events = &trace.events;
    let mut cell_owner = vec![NOBODY; cells.count()];
    let mut lock_owner = vec![NOBODY; trace.tables.lock_count()];
    let mut probed = vec![false; trace.tables.lock_count()];
    let ops = events.ops().iter().zip(events.threads()).zip(events.targets());
    for (number, ((&op, &thread), &target)) in ops.enumerate() {
        let note = |owner: &mut u32| {
            if *owner != thread.0 + 1 {
                *owner = if *owner == NOBODY { thread.0 + 1 } else { SEVERAL };
            }
        };
        if op.touches_memory() {
            cell_owner[cells.touched_by(trace, EventId::new(number))].iter_mut().for_each(note);
        } else if matches!(op, Op::TryFail | Op::ReadTryFail) {
            probed[target as usize] = true;
        } else if matches!(op, Op::Acquire | Op::ReadAcquire) {
            note(&mut lock_owner[target as usize]);
        }
    }
    (cell_owner, lock_owner, probed)
}
