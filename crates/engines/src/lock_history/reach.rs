//! `Check_reach` of the paper (Procedure 1): basic checks, start pair, search; and the witness.
//!
//! Deviation: searches start later than the paper's where that loses nothing. If both threads held no lock at some moment of the
//! trace, what they can reach beyond it they can reach from there: of any way from an earlier start, the steps that lie beyond are
//! still possible in the same order, as whoever has not yet got there holds nothing meanwhile. So a search costs
//! the distance of its targets and not the length of the trace. Such moments are chosen by the two events alone: the last
//! one before a mark, marks being as far apart as the events are, so that many questions share a start.
//!
//! Many questions need no search at all: see [`quick`].

use crate::lock_history::agenda::{Pair, Side};
use crate::lock_history::histories::{Place, known};
use crate::lock_history::observer::{Observer, Strategy};
use crate::lock_history::quick;
use crate::lock_history::search::{Others, Search, Statistics, View};
use crate::lock_history::sets::{Mode, SetId};
use snag_model::Schedule;
use snag_model::{EventId, LockId, ThreadId};
use std::collections::HashMap;

/// An event of a thread, and where in its history it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct At {
    /// The event.
    pub event: EventId,
    /// Its thread.
    pub thread: ThreadId,
    /// Its place.
    pub place: Place,
    /// The locks held there.
    pub set: SetId,
}

/// Two steps at which two threads wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standoff {
    /// The steps, each an acquire or the end of a wait.
    pub steps: [At; 2],
    /// Their locks.
    pub locks: [LockId; 2],
    /// Where the search started.
    from: From,
}

impl Standoff {
    /// The two events that wait for each other.
    pub fn pending(&self) -> [EventId; 2] {
        self.steps.map(|step| step.event)
    }
}

/// Where a search starts: two places, and under strategy II the first event that has not happened there.
type From = (Pair, EventId);

/// Searches for one pair of threads from one start.
struct Kept {
    from: From,
    others: Option<Others>,
    /// No third thread bars a step before these places.
    free_until: Pair,
    search: Search,
    /// Deadlocks of the search that were handed out.
    reported: usize,
    /// The question it was last used for.
    used: u64,
}

/// So many searches from different starts are kept for a pair of threads.
const KEPT: usize = 12;

/// Marks before which starts are looked for are at least so many events apart.
const STRIDE: u32 = 256;

/// So many steps back a moment without locks is looked for.
const BACK: usize = 64;

/// Answers questions about what was observed.
pub struct Reach {
    /// What was observed.
    pub observer: Observer,
    strategy: Strategy,
    incremental: bool,
    shortcuts: bool,
    hold_back: bool,
    stride: u32,
    questions: u64,
    /// By threads, the smaller first; the latest search last.
    kept: HashMap<[ThreadId; 2], Vec<Kept>>,
    /// Of searches that are gone.
    done: Statistics,
    standoffs: Vec<Standoff>,
}

impl Reach {
    /// For an observer of the same strategy. Without incrementality every search starts anew.
    pub fn new(observer: Observer, strategy: Strategy, incremental: bool) -> Reach {
        Reach {
            observer,
            strategy,
            incremental,
            shortcuts: true,
            hold_back: true,
            stride: STRIDE,
            questions: 0,
            kept: HashMap::new(),
            done: Statistics::default(),
            standoffs: Vec::new(),
        }
    }

    /// Looks for starts before marks that are at least so many events apart, a power of two.
    pub fn with_stride(self, stride: u32) -> Reach {
        debug_assert!(stride.is_power_of_two());
        Reach { stride, ..self }
    }

    /// Puts every question to a search, as the paper does, also those that need none.
    pub fn without_shortcuts(self) -> Reach {
        Reach { shortcuts: false, ..self }
    }

    /// Claims nothing for which threads have to be held back: that may be far apart, and what happens between is then read.
    pub fn without_holding_back(self) -> Reach {
        Reach { hold_back: false, ..self }
    }

    /// The next event of a thread, and where the thread is.
    #[inline]
    pub fn at(&self, event: EventId, thread: ThreadId) -> At {
        let state = self.observer.thread(thread);
        At { event, thread, place: state.place(), set: state.set }
    }

    /// The basic checks: neither event must come before the other, and the locks do not exclude both at once.
    pub fn passes_basic_checks(&self, a: &At, b: &At) -> bool {
        let ordered = |first: &At, second: &At| {
            let stamp = self.observer.thread(second.thread).stamp_of(second.event);
            known(stamp, first.thread.index()) > first.event.0
        };
        !ordered(a, b) && !ordered(b, a) && !self.observer.sets().exclude(a.set, b.set)
    }

    /// Whether the threads of two events that pass the basic checks can be there at the same time.
    pub fn reaches(&mut self, a: &At, b: &At) -> bool {
        let [a, b] = if a.thread < b.thread { [a, b] } else { [b, a] };
        self.questions += 1;
        if self.shortcuts && self.needs_no_search(a, b) {
            self.done.queries += 1;
            self.done.reachable += 1;
            return true;
        }
        let Some((from, target)) = self.from(a, b) else { return false };
        let threads = [a.thread, b.thread];
        let at = self.kept_from(from, threads);
        let kept = &mut self.kept.get_mut(&threads).expect("it was just made")[at];
        kept.used = self.questions;
        let view = view_of(&self.observer, threads, kept.others.as_ref());
        let barred = [a, b].iter().any(|at| view.waits_for_others(self.observer.thread(at.thread).stamp_of(at.event)));
        // Every way leads through all steps of both threads: if one of them is barred there is nothing to search for.
        if barred || self.shortcuts && view.is_barred_before(target, &mut kept.free_until) {
            self.done.queries += 1;
            return false;
        }
        for side in [0, 1] {
            self.observer.list_steps(threads[side], from.0[side]);
        }
        let mut view = view_of(&self.observer, threads, kept.others.as_ref());
        if self.shortcuts {
            // None of them is, so the search need not look.
            view.others = None;
        }
        let reached = kept.search.reaches(&view, target);
        for &deadlock in &kept.search.deadlocks()[kept.reported..] {
            let locks = [0, 1].map(|side| view.histories[side].step(deadlock[side], view.sets).lock);
            let steps = [0, 1].map(|side| {
                let (history, place) = (view.histories[side], deadlock[side]);
                let set = history.held(place, view.sets);
                At { event: history.event(place), thread: threads[side], place, set }
            });
            self.standoffs.push(Standoff { steps, locks, from });
        }
        kept.reported = kept.search.deadlocks().len();
        reached
    }

    /// The number of the search from a start, which is made if there is none or none is to be used again.
    fn kept_from(&mut self, from: From, threads: [ThreadId; 2]) -> usize {
        let kept = self.kept.entry(threads).or_default();
        if let Some(at) = kept.iter().position(|kept| kept.from == from).filter(|_| self.incremental) {
            return at;
        }
        if kept.len() == KEPT || !self.incremental {
            // The one that was not used for the longest time makes room.
            let oldest = (0..kept.len()).min_by_key(|&at| kept[at].used);
            if let Some(oldest) = oldest {
                self.done += kept.swap_remove(oldest).search.statistics();
            }
        }
        let others = (self.strategy == Strategy::Two).then(|| others(&self.observer, from.1, threads));
        let search = Search::new(from.0);
        kept.push(Kept { from, others, free_until: from.0, search, reported: 0, used: 0 });
        kept.len() - 1
    }

    /// Whether an order that needs no search leads to both events.
    fn needs_no_search(&mut self, a: &At, b: &At) -> bool {
        let [first, second] = if a.event < b.event { [a, b] } else { [b, a] };
        if self.hold_back && quick::held_back(&self.observer, self.strategy, [first, second], None) {
            return true;
        }
        let start = self.observer.thread(second.thread).history.place_before(first.event);
        start.is_some_and(|start| {
            self.observer.list_steps(second.thread, start);
            quick::gets_there_alone(&self.observer, self.strategy, [first, second])
        })
    }

    /// Where a search for two events starts and ends.
    fn from(&self, a: &At, b: &At) -> Option<(From, Pair)> {
        let (threads, events) = ([a.thread, b.thread], [a.event, b.event]);
        let target = [a.place, b.place];
        let earliest = match self.strategy {
            Strategy::One => (self.observer.start_pair(threads, events), EventId(0)),
            Strategy::Two => {
                let snapshot = self.observer.snapshot_before(events)?;
                let place = |thread: ThreadId| self.observer.thread(thread).history.place_before(snapshot);
                ([place(threads[0])?, place(threads[1])?], snapshot)
            }
        };
        Some((self.quiet(threads, events, earliest).unwrap_or(earliest), target))
    }

    /// The last moment before a mark, and not before a start, at which neither of two threads held a lock.
    fn quiet(&self, threads: [ThreadId; 2], events: [EventId; 2], earliest: From) -> Option<From> {
        let [before, distance] = [events[0].min(events[1]).0, events[0].0.abs_diff(events[1].0)];
        let stride = self.stride.max((distance / 2 + 1).next_power_of_two() / 2);
        let mut at = EventId(before - before % stride);
        let histories = threads.map(|thread| &self.observer.thread(thread).history);
        let mut places = [histories[0].place_before(at)?, histories[1].place_before(at)?];
        for _ in 0..BACK {
            if at < earliest.1 || places[0] < earliest.0[0] || places[1] < earliest.0[1] {
                return None;
            }
            let held = |side: usize| histories[side].held(places[side], self.observer.sets()) != SetId::EMPTY;
            let Some(side) = [0, 1].into_iter().find(|&side| held(side)) else { return Some((places, at)) };
            // Back to before the step since which that thread holds what it holds.
            if places[side] == histories[side].base() {
                return None;
            }
            places[side] -= 1;
            at = histories[side].event(places[side]);
            let (other, history) = (1 - side, histories[1 - side]);
            while places[other] > history.base() && history.event(places[other] - 1) >= at {
                places[other] -= 1;
            }
            if places[other] == history.base() && history.place_before(at).is_none() {
                return None;
            }
        }
        None
    }

    /// Takes out the deadlocks met since this was called last.
    pub fn take_standoffs(&mut self) -> Vec<Standoff> {
        std::mem::take(&mut self.standoffs)
    }

    /// Strategy II: a schedule after which two events are next, if a search or an order that needs none leads there.
    /// `events` lists the events of a thread from one to another, the latter not included.
    pub fn schedule(
        &mut self,
        a: &At,
        b: &At,
        events: &mut dyn FnMut(ThreadId, EventId, EventId) -> Vec<EventId>,
    ) -> Option<Schedule> {
        let [a, b] = if a.thread < b.thread { [a, b] } else { [b, a] };
        if let Some(found) = self.schedule_from(self.from(a, b)?.0, [a, b], events) {
            return Some(found);
        }
        let from = a.event.min(b.event);
        let place = |at: &At| self.observer.thread(at.thread).history.place_before(from);
        let alone = Some(([place(a)?, place(b)?], from));
        alone
            .and_then(|from| self.schedule_from(from, [a, b], events))
            .or_else(|| self.schedule_of_held([a, b], events))
    }

    /// The schedule of what needs no search as threads are held back.
    fn schedule_of_held(
        &self,
        [a, b]: [&At; 2],
        events: &mut dyn FnMut(ThreadId, EventId, EventId) -> Vec<EventId>,
    ) -> Option<Schedule> {
        let [first, second] = if a.event < b.event { [a, b] } else { [b, a] };
        let mut standing = quick::Standing::new();
        if !quick::held_back(&self.observer, self.strategy, [first, second], Some(&mut standing)) {
            return None;
        }
        let as_observed = standing.iter().map(|stands| stands.1).min()?;
        let mut then = Vec::new();
        for thread in (0..self.observer.threads().len()).map(ThreadId::new) {
            let stands = standing.iter().find(|stands| stands.0 == thread);
            then.extend(events(thread, as_observed, stands.map_or(second.event, |stands| stands.1)));
        }
        then.sort_unstable();
        then.extend(events(first.thread, standing[0].1, first.event));
        Some(Schedule::Continued { as_observed, then })
    }

    /// Strategy II: a schedule that leads into a deadlock.
    pub fn schedule_of_standoff(
        &mut self,
        standoff: &Standoff,
        events: &mut dyn FnMut(ThreadId, EventId, EventId) -> Vec<EventId>,
    ) -> Option<Schedule> {
        let [a, b] = &standoff.steps;
        self.schedule_from(standoff.from, [a, b], events)
    }

    /// Searches once more: what earlier searches remember of the way may be gone, and is not in one piece.
    fn schedule_from(
        &mut self,
        from: From,
        ends: [&At; 2],
        events: &mut dyn FnMut(ThreadId, EventId, EventId) -> Vec<EventId>,
    ) -> Option<Schedule> {
        if self.strategy != Strategy::Two {
            return None;
        }
        let threads = ends.map(|end| end.thread);
        for side in [0, 1] {
            self.observer.list_steps(threads[side], from.0[side]);
        }
        let others = others(&self.observer, from.1, threads);
        let view = view_of(&self.observer, threads, Some(&others));
        let (mut search, target) = (Search::new(from.0), ends.map(|end| end.place));
        let waits = |end: &At| view.waits_for_others(self.observer.thread(end.thread).stamp_of(end.event));
        let barred = ends.into_iter().any(waits) || view.is_barred_before(target, &mut from.0.clone());
        if barred || !search.reaches(&view, target) {
            return None;
        }
        let left = ends.map(|end| events(end.thread, from.1, end.event));
        let mut writer = Writer { reach: self, threads, left, next: [0, 0], then: Vec::new() };
        let mut places = from.0;
        for side in search.path(target)? {
            let place = &mut places[side as usize];
            let event = view.histories[side as usize].event(*place);
            writer.run(side, EventId(event.0 + 1))?;
            *place += 1;
        }
        writer.run(Side::A, ends[0].event)?;
        writer.run(Side::B, ends[1].event)?;
        Some(Schedule::Continued { as_observed: from.1, then: writer.then })
    }

    /// What all searches did.
    pub fn statistics(&self) -> Statistics {
        let mut all = self.done;
        self.kept.values().flatten().for_each(|kept| all += kept.search.statistics());
        all
    }

    /// Bytes, about.
    pub fn memory(&self) -> usize {
        let searches: usize = self.kept.values().flatten().map(|kept| kept.search.memory()).sum();
        searches + self.observer.memory()
    }

    /// Forgets what happened before an event, as far as the strategy allows that: under strategy II all but the
    /// snapshots from that event on.
    pub fn forget_before(&mut self, event: EventId) {
        self.observer.forget_before(event);
        let done = &mut self.done;
        for kept in self.kept.values_mut() {
            kept.retain(|kept| {
                let keep = kept.from.1 >= event;
                if !keep {
                    *done += kept.search.statistics();
                }
                keep
            });
        }
    }
}

fn view_of<'a>(observer: &'a Observer, threads: [ThreadId; 2], others: Option<&'a Others>) -> View<'a> {
    let histories = threads.map(|thread| &observer.thread(thread).history);
    View { histories, threads: threads.map(ThreadId::index), sets: observer.sets(), others }
}

/// What the other threads hold before an event.
fn others(observer: &Observer, at: EventId, threads: [ThreadId; 2]) -> Others {
    let mut locks: Vec<(LockId, Mode)> = Vec::new();
    for (number, thread) in observer.threads().iter().enumerate() {
        if !threads.contains(&ThreadId::new(number)) {
            let place = thread.history.place_before(at).unwrap_or(thread.history.base());
            locks.extend(observer.sets().locks(thread.history.held(place, observer.sets())));
        }
    }
    Others { at: at.0, locks }
}

/// Writes a schedule of two threads step by step; what is between the steps follows when it is needed.
struct Writer<'a> {
    reach: &'a Reach,
    threads: [ThreadId; 2],
    /// The events to come of each thread, and how many of them were written.
    left: [Vec<EventId>; 2],
    next: [usize; 2],
    then: Vec<EventId>,
}

impl Writer<'_> {
    /// Lets a thread run up to an event, and the other one as far as that needs. `None` if that cannot be.
    fn run(&mut self, side: Side, end: EventId) -> Option<()> {
        let mut jobs = vec![(side as usize, end)];
        while let Some(&(side, end)) = jobs.last() {
            let Some(&event) = self.left[side].get(self.next[side]).filter(|event| **event < end) else {
                jobs.pop();
                continue;
            };
            let stamp = self.reach.observer.thread(self.threads[side]).stamp_of(event);
            let needed = EventId(known(stamp, self.threads[1 - side].index()));
            let lacking = self.left[1 - side].get(self.next[1 - side]).is_some_and(|&next| next < needed);
            if lacking {
                // Stamps are no circles, so this ends; a wrong one must not hang us.
                if jobs.len() > self.left[0].len() + self.left[1].len() {
                    return None;
                }
                jobs.push((1 - side, needed));
                continue;
            }
            self.then.push(event);
            self.next[side] += 1;
        }
        Some(())
    }
}
