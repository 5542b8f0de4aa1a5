//! One question: can these events all come next? Quick answers first.
//!
//! | stage | answers | by |
//! |---|---|---|
//! | bounds | no | what every schedule needs contradicts what none can contain ([`crate::maximal::cuts`]) |
//! | nogood | no | what an earlier search refuted ([`crate::maximal::nogood`]) |
//! | ideal | yes | the trace itself, restricted to what is needed ([`crate::maximal::observed`]) |
//! | local | both | the trace up to a few hundred events before, then a short search |
//! | search | both | the refinement loop over the whole trace ([`crate::maximal::search`]) |
//!
//! The level of the index decides about the semantics of values. Symbolic values leave no nogoods and need not keep
//! what was observed, so they have no second and third stage, and their local stage only ever says yes.

use crate::maximal::cuts::{Cuts, Target};
use crate::maximal::index::Index;
use crate::maximal::nogood::{Nogood, Nogoods};
use crate::maximal::observed::ideal;
use crate::maximal::recorded::Recorded;
use crate::maximal::run::Run;
use crate::maximal::search::{Effort, Found, Search};
use crate::maximal::semantics::Semantics;
use crate::maximal::solver::Stop;
use crate::maximal::symbolic::Symbolic;
use crate::maximal::unordered;
use snag_model::EventId;
use snag_model::{Level, Schedule};

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
    Nogood,
    Ideal,
    Local,
    Search,
}

impl Stage {
    /// Every stage, in the order in which they are asked.
    pub const ALL: [Stage; 5] = [Stage::Bounds, Stage::Nogood, Stage::Ideal, Stage::Local, Stage::Search];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Bounds => "bounds",
            Stage::Nogood => "nogood",
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
    /// Z3 alone, asked about what the query can need ([`crate::maximal::z3`]). The answers are the same; it takes
    /// longer.
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
    /// How many events before the target the local stage lets go of, one attempt after the other; what suits the level
    /// if nothing is said.
    pub local: Option<&'static [u32]>,
    /// How many events before the target a schedule that keeps the order of the trace may begin to leave events out,
    /// the first number with which there is one; fewer are checked sooner.
    pub late: &'static [u32],
    /// At level `symbolic`: branches may go the other way.
    pub may_diverge: bool,
    /// A search may take so many steps ([`Effort::steps`]).
    pub steps: u64,
    /// Asked now and then whether to give up.
    pub stop: Option<Stop>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            backend: Backend::default(),
            search_only: false,
            local: None,
            late: &LATE,
            may_diverge: true,
            steps: u64::MAX,
            stop: None,
        }
    }
}

/// Answers queries about one trace, one after the other. Each thread has its own.
pub struct Queries<'i, 't> {
    index: &'i Index<'t>,
    runs: Runs<'i>,
    limits: Limits,
    #[cfg(feature = "z3")]
    z3: Option<crate::maximal::z3::Z3>,
    base: EventId,
    end: EventId,
    nogoods: Nogoods,
    /// What the last query took.
    pub effort: Effort,
    /// At level `symbolic`: the branches that diverge in the last schedule found, ascending.
    pub diverging: Vec<EventId>,
}

/// Runs over the trace, by what values mean.
enum Runs<'i> {
    Recorded(Box<Run<'i, Recorded<'i>>>),
    Symbolic(Box<Run<'i, Symbolic<'i>>>),
}

impl<'i, 't> Queries<'i, 't> {
    /// Queries about the whole trace, at the level of its index.
    pub fn new(index: &'i Index<'t>, limits: Limits) -> Queries<'i, 't> {
        let end = EventId::new(index.trace.len());
        let is_symbolic = index.level == Level::Symbolic;
        Queries {
            index,
            runs: match is_symbolic {
                true => Runs::Symbolic(Box::new(Run::new(index))),
                false => Runs::Recorded(Box::new(Run::new(index))),
            },
            #[cfg(feature = "z3")]
            z3: (limits.backend == Backend::Z3 && !is_symbolic).then(crate::maximal::z3::Z3::new),
            limits,
            base: EventId(0),
            end,
            nogoods: Nogoods::default(),
            effort: Effort::default(),
            diverging: Vec::new(),
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

    /// Whether a feasible schedule contains both events, the first one first, and happens-before over it, by the memory
    /// orders of its atomics, does not order them. The schedule ends with the second one. `Impossible` only means that
    /// none was found: a schedule in which a read sees another write is not told from one in which that write comes later.
    pub fn ask_unordered(&mut self, first: EventId, second: EventId) -> Answer {
        self.effort = Effort::default();
        match &mut self.runs {
            Runs::Recorded(run) => {
                let within = (self.base, self.end);
                unordered::decide(self.index, run, [first, second], within, &self.limits, &mut self.effort)
            }
            Runs::Symbolic(_) => Answer::Unknown(Undecided::TooHard),
        }
    }

    /// Whether all these events, of different threads, can come next after a feasible schedule: the two accesses of a
    /// race, or the acquires of a deadlock; at level `symbolic`, accesses also on the other side of a branch. That they
    /// conflict, or wait for each other, is for the caller to know. What another backend answers counts as the answer
    /// of the search.
    pub fn ask(&mut self, events: &[EventId]) -> (Answer, Stage) {
        self.effort = Effort::default();
        self.diverging.clear();
        let index = self.index;
        #[cfg(feature = "z3")]
        if let Some(z3) = &self.z3 {
            let options = crate::maximal::z3::Options {
                stop: self.limits.stop.clone(),
                ..crate::maximal::z3::Options::default()
            };
            return (z3.ask(index, events, self.base, self.end, &options), Stage::Search);
        }
        let mut query = Query {
            index,
            target: Target { events, base: self.base, end: self.end },
            limits: &self.limits,
            nogoods: &mut self.nogoods,
            effort: &mut self.effort,
            diverging: &mut self.diverging,
        };
        match &mut self.runs {
            Runs::Recorded(run) => query.decide(run),
            Runs::Symbolic(run) => query.decide(run),
        }
    }
}

/// What suits most traces.
const LATE: [u32; 3] = [1_000, 10_000, 100_000];

/// One query on its way through the stages.
struct Query<'q, 'i> {
    index: &'i Index<'i>,
    target: Target<'q>,
    limits: &'q Limits,
    nogoods: &'q mut Nogoods,
    effort: &'q mut Effort,
    diverging: &'q mut Vec<EventId>,
}

impl<'i> Query<'_, 'i> {
    fn decide<S: Semantics<'i>>(&mut self, run: &mut Run<'i, S>) -> (Answer, Stage) {
        let Some(cuts) = Cuts::of(self.index, &self.target) else { return (Answer::Impossible, Stage::Bounds) };
        if self.nogoods.refute(&cuts) {
            return (Answer::Impossible, Stage::Nogood);
        }
        if !self.limits.search_only {
            if S::KEEPS_OBSERVED
                && let Some(cut) = ideal(self.index, &cuts)
            {
                let cut = self.late_ideal().unwrap_or(cut);
                return (Answer::Possible(Schedule::Prefixes(self.index.threads.ends(&cut))), Stage::Ideal);
            }
            for &distance in self.limits.local.unwrap_or(S::LOCAL) {
                if let Some(answer) = self.local(run, distance, &cuts) {
                    return (answer, Stage::Local);
                }
            }
        }
        let (found, nogood) = self.search(run, self.target, cuts, u32::MAX);
        if let Some(nogood) = nogood {
            self.nogoods.add(nogood);
        }
        let answer = match found {
            Found::Witness => Answer::Possible(continued(self.target.base, &run.order)),
            Found::Refuted => Answer::Impossible,
            Found::Rounds => Answer::Unknown(Undecided::TooHard),
            Found::Stopped => Answer::Unknown(Undecided::Stopped),
            Found::Stalled => Answer::Unknown(Undecided::Stalled),
        };
        (answer, Stage::Search)
    }

    /// An ideal that has all of the trace but the last few events before the target: a larger one, but it begins as
    /// most others do, so that they can be checked together.
    fn late_ideal(&self) -> Option<Vec<u32>> {
        let Target { events, base: whole, end } = self.target;
        let first = events.iter().min()?;
        self.limits.late.iter().find_map(|&distance| {
            let base = EventId(first.0.checked_sub(distance)?);
            let cuts = Cuts::of(self.index, &Target { events, base, end }).filter(|_| base > whole)?;
            ideal(self.index, &cuts)
        })
    }

    /// Searches, and says what a refutation has used.
    fn search<S: Semantics<'i>>(
        &mut self,
        run: &mut Run<'i, S>,
        target: Target,
        cuts: Cuts,
        rounds: u32,
    ) -> (Found, Option<Nogood>) {
        let mut search = Search::new(run, self.index, target, cuts, self.limits);
        let found = search.search(rounds);
        self.effort.add(search.effort);
        match found {
            Found::Witness => {
                self.diverging.extend(&run.proposal.diverging);
                self.diverging.retain(|branch| run.order.contains(branch));
                self.diverging.sort_unstable();
                (found, None)
            }
            Found::Refuted => (found, search.nogood()),
            _ => (found, None),
        }
    }

    /// Keeps the trace as it was up to some events before the first event of the target. A refutation counts if it does
    /// not depend on that; `whole` are the bounds without it.
    fn local<S: Semantics<'i>>(&mut self, run: &mut Run<'i, S>, distance: u32, whole: &Cuts) -> Option<Answer> {
        let Target { events, base: whole_base, end: whole_end } = self.target;
        let (first, last) = (events.iter().min()?.0, events.iter().max()?.0);
        let base = EventId(first.saturating_sub(distance).max(whole_base.0));
        let end = EventId((last + 1).saturating_add(distance / 2).min(whole_end.0));
        if base == whole_base {
            // No smaller than the whole, as far as what comes before counts.
            return None;
        }
        let target = Target { events, base, end };
        let cuts = Cuts::of(self.index, &target)?;
        if self.nogoods.refute(&cuts) {
            return None;
        }
        let (found, nogood) = self.search(run, target, cuts, S::LOCAL_ROUNDS);
        if found == Found::Witness {
            return Some(Answer::Possible(continued(base, &run.order)));
        }
        let nogood = nogood.filter(|nogood| nogood.refutes(whole))?;
        self.nogoods.add(nogood);
        Some(Answer::Impossible)
    }
}

/// The schedule that begins like the trace and goes on like this.
fn continued(base: EventId, order: &[EventId]) -> Schedule {
    match base {
        EventId(0) => Schedule::List(order.to_vec()),
        base => Schedule::Continued { as_observed: base, then: order.to_vec() },
    }
}
