//! The observed order, and schedules that keep it: the second stage.
//!
//! Mathur, Pavlogiannis, Viswanathan: Optimal Prediction of Synchronization-Preserving Races (POPL 2021).
//!
//! Guarantee: what [`ideal`] returns is closed under hard order and under the writes that its reads saw; of the
//! sections on one lock only the last one is open. So the trace, restricted to it, is a feasible schedule at every level.
//! Deviation: here a thread's last read may not see something else, and semaphores are matched in the order of the trace.
//! Cost: for each query a handful of binary searches for each lock that a thread holds where it stops.

use crate::maximal::clock::{Builder, Clock};
use crate::maximal::counts::Counts;
use crate::maximal::cuts::Cuts;
use crate::maximal::hard::Hard;
use crate::maximal::index::{Index, Semaphore};
use crate::maximal::memory::Memory;
use crate::maximal::threads::Threads;
use crate::missing::MissingOrder;
use crate::probes::Probes;
use snag_model::{Cells, EventId, Op, Ops, Trace};

/// Hard order, the write that each read saw, for each wait on a semaphore the post that allowed it, and what failed
/// attempts rested on.
pub(crate) fn clock(
    trace: &Trace,
    cells: &Cells,
    threads: &Threads,
    memory: &Memory,
    semaphores: &[Semaphore],
    missing: Option<&MissingOrder>,
) -> Clock {
    let mut hard = Hard::new(trace, cells, threads, missing);
    let mut builder = Builder::new(threads, trace.len());
    let mut waits = vec![0; semaphores.len()];
    let probes = Probes::of(trace);
    // What was done with each semaphore so far, if somebody looks at that.
    let mut counted = vec![Counts::none(threads.count()); if has_counts(trace) { semaphores.len() } else { 0 }];
    for (index, &op) in trace.events.ops().iter().enumerate() {
        let id = EventId::new(index);
        let thread = threads.thread(id);
        hard.before(&mut builder, threads, index);
        if op.reads() {
            for cell in memory.cells_of(id) {
                if let Some(write) = memory.seen(id, cell) {
                    builder.join_event(thread, write);
                }
            }
        } else if op == Op::SemWait {
            let number = trace.events.targets()[index] as usize;
            let semaphore = &semaphores[number];
            if let Some(post) = usize::checked_sub(waits[number], semaphore.initial as usize) {
                builder.join_event(thread, semaphore.posts[post]);
            }
            waits[number] += 1;
        } else if op == Op::SemValue {
            builder.join(thread, counted[trace.events.targets()[index] as usize].row());
        } else if op.probes() {
            for &ground in probes.iter().flat_map(|probes| probes.rests_on(id)) {
                builder.join_event(thread, EventId(ground));
            }
        }
        builder.finish(thread);
        hard.after(&builder, threads, index);
        if !counted.is_empty() && matches!(op, Op::SemPost | Op::SemWait) {
            let counts = &mut counted[trace.events.targets()[index] as usize];
            builder.gather(thread, threads.position(id), counts);
        }
    }
    builder.done()
}

fn has_counts(trace: &Trace) -> bool {
    Ops::of(trace.events.ops()).any(&[Op::SemValue])
}

/// The smallest set of events, as a count for each thread, that contains what every schedule needs and keeps what was
/// observed; `None` if that would go beyond what a schedule may contain.
pub(crate) fn ideal(index: &Index, cuts: &Cuts) -> Option<Vec<u32>> {
    let Index { threads, sections, observed, .. } = index;
    let mut cut = vec![0; threads.count()];
    for (thread, &least) in cuts.least.iter().enumerate().filter(|(_, least)| **least > 0) {
        observed.include(threads, threads.event(thread, least - 1), &mut cut);
    }
    loop {
        if cut.iter().zip(&cuts.most).any(|(count, most)| count > most) {
            return None;
        }
        let mut to_close: Option<EventId> = None;
        'threads: for thread in 0..threads.count() {
            if cut[thread] == 0 {
                continue;
            }
            for &hold in sections.held(thread, cut[thread]) {
                let open = sections.open(threads, thread, hold, cut[thread]);
                for (other, list) in sections.against(hold).filter(|(other, _)| *other != thread) {
                    // Another section comes later in the trace, so this one must be closed.
                    if sections.last_begun(threads, list, cut[other]).is_some_and(|last| last > open) {
                        to_close = Some(sections.get(open).end?);
                        break 'threads;
                    }
                }
            }
        }
        match to_close {
            Some(end) => observed.include(threads, end, &mut cut),
            None => return Some(cut),
        };
    }
}
