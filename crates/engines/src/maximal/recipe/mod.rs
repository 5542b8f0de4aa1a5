//! Recipe: schedules in which reads take other values than they took.
//!
//! "Recipe: Relaxed Sound Predictive Analysis", a draft whose open sections docs/recipe.md fills in. Where the maximal engine
//! insists that reads see the values they saw, this one only insists that every branch goes where it went, or the last one of a
//! thread the other way, where the trace says what happens then.
//!
//! Guarantee: [`Recipe::ask`] answers `Possible` with a schedule and the branches that diverge in it, which the checker
//! accepts at level `symbolic`; `Impossible` only if there is none.
//! Deviation: no external solver. Order and values go to one SAT solver, with the ordering theory of the maximal engine and
//! with numbers as bits; and only as much of the trace goes there as concrete runs show to be necessary.
//! Cost: a run is linear in the events since the window began; see docs/recipe.md for the solver's part.

mod cells;
mod circuit;
mod clauses;
mod engine;
mod number;
mod run;
mod same;
mod search;
mod terms;
mod world;

use crate::maximal::index::Index;
use crate::maximal::query::{Answer, Stage, Undecided};
use crate::maximal::search::{Effort, Found};
use crate::maximal::solver::Stop;
pub use engine::RECIPE;
use run::Run;
use search::{Search, bounds};
use snag_model::EventId;
use snag_model::Schedule;
use world::World;

/// How many events before the target the local stage lets go of, one attempt after the other, and for how many rounds.
const LOCAL: [(u32, u32); 2] = [(150, 100), (1000, 100)];

/// What is known about a trace before anything is asked.
pub struct Recipe<'i, 't> {
    world: World<'i, 't>,
}

/// Answers questions about one trace, one after the other. Each thread has its own.
pub struct Asker<'w, 'i, 't> {
    world: &'w World<'i, 't>,
    run: Run<'w, 'i, 't>,
    stop: Option<Stop>,
    base: EventId,
    end: EventId,
    /// Branches that diverge in the last schedule found.
    pub diverging: Vec<EventId>,
    /// What the last search took.
    pub effort: Effort,
}

impl<'i, 't> Recipe<'i, 't> {
    /// Looks at a trace; the index must be one for level `symbolic`.
    pub fn of(index: &'i Index<'t>) -> Recipe<'i, 't> {
        Recipe { world: World::of(index) }
    }

    /// Somebody who answers questions.
    pub fn asker(&self, stop: Option<Stop>) -> Asker<'_, 'i, 't> {
        Asker {
            world: &self.world,
            run: Run::new(&self.world),
            stop,
            base: EventId(0),
            end: EventId::new(self.world.index.trace.len()),
            diverging: Vec::new(),
            effort: Effort::default(),
        }
    }
}

impl<'w, 'i, 't> Asker<'w, 'i, 't> {
    /// From now on only schedules count that begin like the trace up to `base` and contain nothing from `end` on.
    pub fn set_window(&mut self, base: EventId, end: EventId) {
        (self.base, self.end) = (base, end);
    }

    /// Whether two accesses of different threads, of the trace or of the other side of a branch, can come next after a
    /// schedule that is feasible at level `symbolic`. That they conflict is for the caller to know.
    pub fn ask(&mut self, events: &[EventId]) -> (Answer, Stage) {
        self.ask_with(events, true)
    }

    /// The same for schedules in which every branch goes where it went.
    pub fn ask_without_divergence(&mut self, events: &[EventId]) -> (Answer, Stage) {
        self.ask_with(events, false)
    }

    fn ask_with(&mut self, events: &[EventId], may_diverge: bool) -> (Answer, Stage) {
        self.effort = Effort::default();
        self.diverging.clear();
        if bounds(self.world, events, self.base, self.end).is_none() {
            return (Answer::Impossible, Stage::Bounds);
        }
        let (Some(first), Some(last)) = (events.iter().min(), events.iter().max()) else {
            return (Answer::Impossible, Stage::Bounds);
        };
        for (distance, rounds) in LOCAL {
            let base = EventId(first.0.saturating_sub(distance));
            let end = EventId((last.0 + 1).saturating_add(distance / 2).min(self.end.0));
            if base <= self.base {
                // No smaller than the whole.
                break;
            }
            if self.search(events, base, end, rounds, may_diverge) == Some(Found::Witness) {
                return (Answer::Possible(self.schedule(base)), Stage::Local);
            }
        }
        let answer = match self.search(events, self.base, self.end, u32::MAX, may_diverge) {
            None | Some(Found::Refuted) => Answer::Impossible,
            Some(Found::Witness) => Answer::Possible(self.schedule(self.base)),
            Some(Found::Rounds | Found::Stopped) => Answer::Unknown(Undecided::Stopped),
            Some(Found::Stalled) => Answer::Unknown(Undecided::Stalled),
        };
        (answer, Stage::Search)
    }

    fn search(&mut self, events: &[EventId], base: EventId, end: EventId, rounds: u32, diverge: bool) -> Option<Found> {
        let cuts = bounds(self.world, events, base, end)?;
        let stop = self.stop.clone();
        let mut search = Search::new(&mut self.run, self.world, events, cuts, base, diverge, stop.clone());
        let found = search.search(rounds, &|| stop.as_ref().is_some_and(|stop| stop()));
        self.effort.add(search.effort);
        if found == Found::Witness {
            self.diverging = search.diverged();
        }
        Some(found)
    }

    fn schedule(&self, base: EventId) -> Schedule {
        match base {
            EventId(0) => Schedule::List(self.run.order.clone()),
            base => Schedule::Continued { as_observed: base, then: self.run.order.clone() },
        }
    }
}
