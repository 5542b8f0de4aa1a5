use snag_model::{EventId, LockId, Op, Trace};
use std::collections::HashMap;

/// The locks that the thread of each of `wanted` holds there, in the order in
/// which it acquired them. One pass over the trace.
pub fn held_locks(trace: &Trace, mut wanted: Vec<EventId>) -> HashMap<EventId, Vec<LockId>> {
    wanted.sort_unstable();
    wanted.dedup();
    let mut found = HashMap::with_capacity(wanted.len());
    // Per thread the lock of every acquire that is not released yet; a lock that was acquired twice is in it twice.
    let mut held: Vec<Vec<LockId>> = vec![Vec::new(); trace.tables.thread_count()];
    // The same on the other side of the last branch of a thread, which is as long as that side.
    let mut aside: HashMap<usize, Vec<LockId>> = HashMap::new();
    let mut given_up: HashMap<(usize, LockId), usize> = HashMap::new();
    let (ops, targets) = (trace.events.ops(), trace.events.targets());
    let mut next = 0;
    for (number, &thread) in trace.events.threads().iter().enumerate() {
        if next == wanted.len() {
            break;
        }
        let own = match ops[number].on_other_side() {
            true => aside.entry(thread.index()).or_insert_with(|| held[thread.index()].clone()),
            false => &mut held[thread.index()],
        };
        if wanted[next].index() == number {
            let mut locks = own.clone();
            let mut seen = Vec::new();
            locks.retain(|l| !seen.contains(l) && (seen.push(*l), true).1);
            found.insert(wanted[next], locks);
            next += 1;
        }
        match ops[number].if_it_happens() {
            Op::Branch if ops[number] == Op::Branch => _ = aside.remove(&thread.index()),
            Op::Acquire | Op::ReadAcquire => own.push(LockId(targets[number])),
            Op::Release | Op::ReadRelease => {
                if let Some(at) = own.iter().rposition(|l| l.0 == targets[number]) {
                    own.remove(at);
                }
            }
            Op::WaitBegin => {
                let lock = LockId(trace.events.aux(number));
                let before = own.len();
                own.retain(|l| *l != lock);
                given_up.insert((thread.index(), lock), before - own.len());
            }
            Op::WaitEnd => {
                let lock = LockId(trace.events.aux(number));
                let count = given_up.remove(&(thread.index(), lock)).unwrap_or(1);
                own.extend(std::iter::repeat_n(lock, count));
            }
            _ => {}
        }
    }
    found
}
