//! One question: can these events all come next? Quick answers first.
//!
//! | stage | answers | by |
//! |---|---|---|
//! | bounds | no | what every schedule needs contradicts what none can contain ([`crate::maximal::cuts`]) |
//! | impasse | no | what an earlier search refuted ([`crate::maximal::impasse`]) |
//! | ideal | yes | the trace itself, restricted to what is needed ([`crate::maximal::observed`]) |
//! | local | both | the trace up to a few hundred events before, then a short search |
//! | search | both | lazy search with learning over the whole trace ([`crate::maximal::search`]) |

use crate::maximal::cuts::{Cuts, Target};
use crate::maximal::impasse::{Impasse, Impasses};
use crate::maximal::index::Index;
use crate::maximal::observed::ideal;
use crate::maximal::replay::Replay;
use crate::maximal::search::{Effort, Found, Search};
use crate::maximal::solver::Stop;
use snag_model::EventId;
use snag_model::Schedule;

/// What the local stage lets go of if nothing else is said.
const LOCAL: [u32; 4] = [150, 1000, 6000, 40_000];
/// How many rounds a local attempt may take.
const LOCAL_ROUNDS: u32 = 24;

/// The answer to a query.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// After this schedule all the events come next.
    Possible(Schedule),
    /// No feasible schedule leads there.
    Impossible,
    /// Not decided.
    Unknown(Undecided),
}

/// Why a query was not decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Undecided {
    /// The time was used up, or the user stopped it.
    Stopped,
    /// It would have taken more steps than it may.
    TooHard,
    /// The search contradicted itself: a defect of this crate.
    Stalled,
    /// The formula for Z3 would take more memory than it should.
    #[cfg(feature = "z3")]
    TooLarge,
}

/// Who answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum Stage {
    Bounds,
    Impasse,
    Ideal,
    Local,
    Search,
}

impl Stage {
    /// Every stage, in the order in which they are asked.
    pub const ALL: [Stage; 5] = [Stage::Bounds, Stage::Impasse, Stage::Ideal, Stage::Local, Stage::Search];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Bounds => "bounds",
            Stage::Impasse => "impasse",
            Stage::Ideal => "ideal",
            Stage::Local => "local",
            Stage::Search => "search",
        }
    }
}

/// Who answers queries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Backend {
    /// This crate: the stages, one after the other.
    #[default]
    Own,
    /// Z3 alone, asked about what the query can need ([`crate::maximal::z3`]). The answers are the same; it takes longer.
    #[cfg(feature = "z3")]
    Z3,
}

/// Which stages to ask, and when to give up.
#[derive(Clone)]
pub struct Limits {
    /// Who answers.
    pub backend: Backend,
    /// Skip the stages that find schedules quickly. For tests and comparisons: the answers are the same.
    pub search_only: bool,
    /// How many events before the target the local stage lets go of, one attempt after the other.
    pub local: &'static [u32],
    /// A search may take so many steps ([`Effort::steps`]).
    pub steps: u64,
    /// Asked now and then whether to give up.
    pub stop: Option<Stop>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { backend: Backend::default(), search_only: false, local: &LOCAL, steps: u64::MAX, stop: None }
    }
}

/// Answers queries about one trace, one after the other. Each thread has its own.
pub struct Queries<'i, 't> {
    index: &'i Index<'t>,
    replay: Replay<'i, 't>,
    limits: Limits,
    #[cfg(feature = "z3")]
    z3: Option<crate::maximal::z3::Z3>,
    base: EventId,
    end: EventId,
    impasses: Impasses,
    /// What the last search took.
    pub effort: Effort,
}

impl<'i, 't> Queries<'i, 't> {
    /// Queries about the whole trace.
    pub fn new(index: &'i Index<'t>, limits: Limits) -> Queries<'i, 't> {
        let end = EventId::new(index.trace.len());
        Queries {
            index,
            replay: Replay::new(index),
            #[cfg(feature = "z3")]
            z3: (limits.backend == Backend::Z3).then(crate::maximal::z3::Z3::new),
            limits,
            base: EventId(0),
            end,
            impasses: Impasses::default(),
            effort: Effort::default(),
        }
    }

    /// From now on a search may take so many steps.
    pub fn set_steps(&mut self, steps: u64) {
        self.limits.steps = steps;
    }

    /// From now on only schedules count that begin like the trace up to `base` and contain nothing from `end` on.
    pub fn set_window(&mut self, base: EventId, end: EventId) {
        (self.base, self.end) = (base, end);
    }

    /// Whether all these events, of different threads, can come next after a feasible schedule: the two accesses of a
    /// race, or the acquires of a deadlock. That they conflict, or wait for each other, is for the caller to know. What
    /// another backend answers counts as the answer of the search.
    pub fn ask(&mut self, events: &[EventId]) -> (Answer, Stage) {
        self.effort = Effort::default();
        let index = self.index;
        #[cfg(feature = "z3")]
        if let Some(z3) = &self.z3 {
            let options = crate::maximal::z3::Options {
                stop: self.limits.stop.clone(),
                ..crate::maximal::z3::Options::default()
            };
            return (z3.ask(index, events, self.base, self.end, &options), Stage::Search);
        }
        let target = Target { events, base: self.base, end: self.end };
        let Some(cuts) = Cuts::of(index, &target) else { return (Answer::Impossible, Stage::Bounds) };
        if self.impasses.refute(&cuts) {
            return (Answer::Impossible, Stage::Impasse);
        }
        if !self.limits.search_only {
            if let Some(cut) = ideal(index, &cuts) {
                return (Answer::Possible(self.prefixes(&cut)), Stage::Ideal);
            }
            for &distance in self.limits.local {
                if let Some(answer) = self.local(events, distance, &cuts) {
                    return (answer, Stage::Local);
                }
            }
        }
        let (found, impasse) = self.search(target, cuts, u32::MAX);
        if let Some(impasse) = impasse {
            self.impasses.add(impasse);
        }
        let answer = match found {
            Found::Witness => Answer::Possible(self.continued(self.base)),
            Found::Refuted => Answer::Impossible,
            Found::Rounds => Answer::Unknown(Undecided::TooHard),
            Found::Stopped => Answer::Unknown(Undecided::Stopped),
            Found::Stalled => Answer::Unknown(Undecided::Stalled),
        };
        (answer, Stage::Search)
    }

    /// Searches, and says what a refutation has used.
    fn search(&mut self, target: Target, cuts: Cuts, rounds: u32) -> (Found, Option<Impasse>) {
        let stop = self.limits.stop.clone();
        let mut search = Search::new(&mut self.replay, self.index, target, cuts, self.limits.steps, stop.clone());
        let found = search.run(rounds, &|| stop.as_ref().is_some_and(|stop| stop()));
        self.effort.add(search.effort);
        let impasse = (found == Found::Refuted).then(|| search.impasse());
        (found, impasse)
    }

    /// Keeps the trace as it was up to some events before the first event of the target. A refutation counts if it does
    /// not depend on that; `whole` are the bounds without it.
    fn local(&mut self, events: &[EventId], distance: u32, whole: &Cuts) -> Option<Answer> {
        let (first, last) = (events.iter().min()?.0, events.iter().max()?.0);
        let base = EventId(first.saturating_sub(distance).max(self.base.0));
        let end = EventId((last + 1).saturating_add(distance / 2).min(self.end.0));
        if base == self.base {
            // No smaller than the whole, as far as what comes before counts.
            return None;
        }
        let target = Target { events, base, end };
        let cuts = Cuts::of(self.index, &target)?;
        if self.impasses.refute(&cuts) {
            return None;
        }
        let (found, impasse) = self.search(target, cuts, LOCAL_ROUNDS);
        if found == Found::Witness {
            return Some(Answer::Possible(self.continued(base)));
        }
        let impasse = impasse.filter(|impasse| impasse.refutes(whole))?;
        self.impasses.add(impasse);
        Some(Answer::Impossible)
    }

    fn continued(&self, base: EventId) -> Schedule {
        match base {
            EventId(0) => Schedule::List(self.replay.order.clone()),
            base => Schedule::Continued { as_observed: base, then: self.replay.order.clone() },
        }
    }

    fn prefixes(&self, cut: &[u32]) -> Schedule {
        Schedule::Prefixes(self.index.threads.ends(cut))
    }
}
