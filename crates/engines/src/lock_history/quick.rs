//! Questions that need no search: orders of events that are tried before one.
//!
//! *Held back*: everything as observed up to the later event, except that the thread of the earlier one stops where it
//! last held no lock, and goes on when all others have arrived. While it stands there it is in nobody's way; then it needs
//! the locks of its section, and who has them is held back before its own. *Alone*: everything as observed up to the
//! earlier event, from where only the thread of the later one goes on.
//!
//! Guarantee: what is accepted here is possible. Under strategy I a search of the two threads would say so as well; under
//! strategy II it may not, as its third threads stay where they were. Deviation: the paper has neither. Cost: a look at each
//! thread, and at the steps of one section; the way alone costs a look at each lock that is held.

use crate::lock_history::histories::{History, Place, known};
use crate::lock_history::observer::{Observer, Strategy};
use crate::lock_history::reach::At;
use crate::lock_history::sets::{SetId, Sets};
use snag_model::{EventId, LockId, ThreadId};
use std::sync::Arc;

/// So many steps back the beginning of a section is looked for.
const SECTION: usize = 32;

/// Where a thread stood before its section: the last place, up to a given one, at which it held nothing, and its next event
/// there. At the given place that is `next`.
fn before_section(history: &History, sets: &Sets, mut place: Place, mut next: EventId) -> Option<(Place, EventId)> {
    for _ in 0..SECTION {
        if history.held(place, sets) == SetId::EMPTY {
            return Some((place, next));
        }
        if place == history.base() {
            break;
        }
        place -= 1;
        next = history.event(place);
    }
    None
}

/// The events before which threads stand, holding nothing, while all others go on as observed up to the later of two events.
/// The thread of the earlier one comes first, and goes on to its event then.
pub type Standing = Vec<(ThreadId, EventId)>;

/// Whether the pair can be held back so, and where threads stand for that, if `standing` is to be known.
pub fn held_back(
    observer: &Observer,
    strategy: Strategy,
    [first, second]: [&At; 2],
    mut standing: Option<&mut Standing>,
) -> bool {
    let thread = observer.thread(first.thread);
    let history = &thread.history;
    let sets = observer.sets();
    let Some((place, next)) = before_section(history, sets, first.place, first.event) else { return false };
    // What it learns in its section may have to come after something that it does there.
    if place < first.place && !Arc::ptr_eq(history.stamp_of(next), history.stamp_of(first.event)) {
        return false;
    }
    if let Some(standing) = &mut standing {
        standing.push((first.thread, next));
    }
    let section = || history.range(place, first.place, sets);
    let waits_for = |held: SetId| held != SetId::EMPTY && section().any(|step| step.waits_for(sets, held));
    let knows = |stamp: &[u32]| known(stamp, first.thread.index()) > next.0;
    if strategy == Strategy::One {
        return !knows(observer.thread(second.thread).stamp_of(second.event)) && !waits_for(second.set);
    }
    let alone = thread.keeps_to_itself_from(next);
    if alone && place == first.place {
        return true;
    }
    observer.threads().iter().enumerate().all(|(number, other)| {
        if number == first.thread.index() {
            return true;
        }
        if !alone && knows(other.stamp_of(second.event)) {
            return false;
        }
        let Some(at) = other.history.place_before(second.event) else { return false };
        if !waits_for(other.history.held(at, sets)) {
            return true;
        }
        // It is in the way with its section, which need not have happened either if nobody knows of it.
        let id = ThreadId::new(number);
        let before = before_section(&other.history, sets, at, second.event).filter(|_| id != second.thread);
        before.filter(|&(_, next)| other.keeps_to_itself_from(next)).is_some_and(|(_, next)| {
            if let Some(standing) = &mut standing {
                standing.push((id, next));
            }
            true
        })
    })
}

/// Whether the thread of the later of two events gets there if that of the earlier one, and under strategy II all others, stay where
/// they were before the earlier one: it takes no lock on its way that one of them has. Its steps must be
/// [listed](Observer::list_steps).
pub fn gets_there_alone(observer: &Observer, strategy: Strategy, [first, second]: [&At; 2]) -> bool {
    let (threads, sets) = (observer.threads(), observer.sets());
    let history = &threads[second.thread.index()].history;
    let Some(start) = history.place_before(first.event) else { return false };
    let free = |set: SetId| {
        let untouched = |lock: LockId| history.next_touch(lock, start).is_none_or(|place| place >= second.place);
        sets.locks(set).iter().all(|held| untouched(held.0))
    };
    if !free(first.set) || strategy == Strategy::One {
        return free(first.set);
    }
    let needs = |(thread, &time): (usize, &u32)| time > first.event.0 && thread != second.thread.index();
    let others = threads.iter().enumerate().filter(|(thread, _)| *thread != second.thread.index());
    !history.stamp_of(second.event).iter().enumerate().any(needs)
        && others.map(|(_, thread)| &thread.history).all(|other| held_at(other, sets, first.event).is_some_and(free))
}

/// The locks that a thread held before an event; `None` if that was dropped.
fn held_at(history: &History, sets: &Sets, event: EventId) -> Option<SetId> {
    history.place_before(event).map(|place: Place| history.held(place, sets))
}
