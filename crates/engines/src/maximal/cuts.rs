//! What a schedule that leads to a target must contain, and what it cannot contain: the first stage.
//!
//! Guarantee: every feasible schedule after which all events of the target come next, and that has no superfluous
//! last reads, contains the first `least[t]` events of each thread t and no more than the first `most[t]`. If the two
//! contradict each other there is no such schedule.

use crate::maximal::clock::Clock;
use crate::maximal::index::Index;
use crate::maximal::sections::Hold;
use crate::maximal::symbolic::Expressions;
use snag_model::EventId;

/// Events that are all to come next: a racing pair, or the pending acquires of a deadlock.
#[derive(Clone, Copy)]
pub(crate) struct Target<'q> {
    pub events: &'q [EventId],
    /// Where the part of the trace begins that may be reordered: all before it stays as it was.
    pub base: EventId,
    /// Where it ends: from here on nothing happens.
    pub end: EventId,
}

impl Target<'_> {
    /// Adds to a cut what comes before an event of the target. What the event itself reads, and which locks it would
    /// need, does not matter: only the hard order counts for it.
    pub fn include_before(&self, index: &Index, clock: &Clock, event: EventId, cut: &mut [u32]) {
        let threads = &index.threads;
        if let Some(previous) = threads.previous(event) {
            clock.include(threads, previous, cut);
        }
        if index.hard.meets_others(threads, event) {
            let own = threads.thread(event);
            index.hard.row(event).for_each(|thread, count| {
                if thread != own {
                    clock.include(threads, threads.event(thread, count - 1), cut);
                }
            });
        }
    }
}

/// Bounds for the events of each thread that a schedule contains.
#[derive(Clone)]
pub(crate) struct Cuts {
    pub least: Vec<u32>,
    pub most: Vec<u32>,
}

impl Cuts {
    /// The bounds; `None` if they refute the target.
    pub fn of(index: &Index, target: &Target) -> Option<Cuts> {
        let Index { threads, saturated, .. } = index;
        let most = most(index, target);
        let mut least: Vec<u32> = (0..threads.count()).map(|t| threads.count_before(t, target.base)).collect();
        for &event in target.events {
            target.include_before(index, saturated, event, &mut least);
        }
        if let Some(expressions) = &index.expressions {
            on_other_sides(index, expressions, target, &mut least)?;
            let cuts = Cuts { least, most };
            // A section may also end on the other side of a branch.
            return cuts.respects().map(|()| cuts);
        }
        let mut cuts = Cuts { least, most };
        cuts.respects()?;
        while cuts.close_sections(index)? {
            cuts.respects()?;
        }
        Some(cuts)
    }

    /// The bounds of those schedules that contain an event as well; `None` if there are none.
    pub fn with(mut self, index: &Index, event: EventId) -> Option<Cuts> {
        index.saturated.include(&index.threads, event, &mut self.least);
        self.respects()?;
        while self.close_sections(index)? {
            self.respects()?;
        }
        Some(self)
    }

    fn respects(&self) -> Option<()> {
        self.least.iter().zip(&self.most).all(|(least, most)| least <= most).then_some(())
    }

    /// Whether a schedule may contain an event.
    #[inline]
    pub fn may(&self, index: &Index, event: EventId) -> bool {
        index.threads.position(event) < self.most[index.threads.thread(event)]
    }

    /// Whether every schedule contains an event.
    #[inline]
    pub fn must(&self, index: &Index, event: EventId) -> bool {
        index.threads.position(event) < self.least[index.threads.thread(event)]
    }

    /// A section that is open at the least cut and cannot end excludes others: those that have begun must end, and
    /// if one cannot, nothing is left. True if the least cut has grown.
    fn close_sections(&mut self, index: &Index) -> Option<bool> {
        let Index { threads, sections, saturated, .. } = index;
        let mut grown = false;
        for thread in 0..threads.count() {
            let held: &[Hold] = match self.least[thread] {
                0 => continue,
                count => sections.held(thread, count),
            };
            for &hold in held {
                let open = sections.open(threads, thread, hold, self.least[thread]);
                if sections.get(open).end.is_some_and(|end| self.may(index, end)) {
                    continue;
                }
                for (other, list) in sections.against(hold).filter(|(other, _)| *other != thread) {
                    let Some(begun) = sections.last_begun(threads, list, self.least[other]) else { continue };
                    let end = sections.get(begun).end.filter(|&end| self.may(index, end))?;
                    grown |= saturated.include(threads, end, &mut self.least);
                }
            }
        }
        Some(grown)
    }
}

/// An event of the target on the other side of a branch is preceded by the alloc of what it accesses. `None` if the
/// branch cannot go there, or cannot any more.
fn on_other_sides(index: &Index, expressions: &Expressions, target: &Target, least: &mut [u32]) -> Option<()> {
    let Index { threads, saturated, cells, .. } = index;
    for &event in target.events.iter().filter(|&&event| index.op(event).on_other_side()) {
        let side = expressions.sides.side(event)?;
        if !side.possible || threads.position(event) >= side.end || side.branch < target.base {
            return None;
        }
        if index.op(event).if_it_happens().is_access()
            && let Some(alloc) = cells.block_of_event(event.index())
        {
            saturated.include(threads, alloc, least);
        }
    }
    Some(())
}

/// No schedule contains the target, what must follow it, or what frees memory that it accesses.
fn most(index: &Index, target: &Target) -> Vec<u32> {
    let Index { threads, saturated, .. } = index;
    let mut most: Vec<u32> = (0..threads.count()).map(|t| threads.count_before(t, target.end)).collect();
    for &event in target.events {
        for excluded in [Some(event), index.free_of(event)].into_iter().flatten() {
            for (thread, most) in most.iter_mut().enumerate() {
                *most = (*most).min(saturated.first_after(threads, excluded, thread));
            }
        }
    }
    most
}
