//! The refinement loop: counterexample-guided abstraction refinement (CEGAR), as a lazy SMT solver does it.
//!
//! Variables say which of two events comes first, and what the semantics of values needs beside ([`Semantics`]). A
//! round:
//!
//! 1. the SAT solver, with the order theory attached ([`crate::maximal::order`]), *proposes* an assignment;
//! 2. a *run* follows the [`Proposal`](crate::maximal::proposal::Proposal) through the whole trace, and is a witness,
//!    or breaks rules;
//! 3. for each broken rule the clauses are *learnt* that exclude it.
//!
//! The clauses are an abstraction of the trace, and a run that breaks a rule is a spurious counterexample. Each clause
//! holds for every feasible schedule, so what the solver refutes is impossible; and the run keeps to all that the
//! solver has decided, so a rule whose clauses were added cannot be broken in the same way again. docs/maximal.md has
//! the argument in full. From the unsatisfiable core of a refutation a [`Nogood`] is made, which answers other
//! questions as well.
//!
//! Events that do not happen come after the target; so "not included" is "after the target", and every clause about the
//! order of events that may not happen is true for those.

use crate::maximal::atoms::Decided;
use crate::maximal::cuts::{Cuts, Target};
use crate::maximal::formula::{Formula, STEPS_OF_DECISION};
use crate::maximal::heard::HandOver;
use crate::maximal::index::{Index, Semaphore};
use crate::maximal::nogood::Nogood;
use crate::maximal::query::Limits;
use crate::maximal::run::{Run, Violation};
use crate::maximal::sections::{Hold, SectionId};
use crate::maximal::semantics::Semantics;
use crate::maximal::solver::{Outcome, Truth};
use crate::maximal::state::Obstacle;
use snag_model::{Action, EventId, Mode, Op, Probe};
use std::collections::HashSet;

/// What a search came to.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    /// The order of the last run is a witness.
    Witness,
    Refuted,
    /// The rounds or steps were used up.
    Rounds,
    /// It was told to stop.
    Stopped,
    /// A run got stuck without breaking a rule. Cannot happen.
    Stalled,
}

/// What a search took.
#[derive(Clone, Copy, Default, Debug)]
pub struct Effort {
    /// Runs.
    pub rounds: u32,
    /// Clauses that were added.
    pub clauses: u32,
    /// Events that the solver came to know.
    pub events: u32,
    /// A measure of all the work, the same on every machine: events executed, clauses gone through, decisions of the
    /// solver.
    pub steps: u64,
}

impl Effort {
    /// Adds that of another search.
    pub fn add(&mut self, other: Effort) {
        self.rounds += other.rounds;
        self.clauses += other.clauses;
        self.events += other.events;
        self.steps += other.steps;
    }
}

/// A rule of synchronisation whose clauses were added.
#[derive(PartialEq, Eq, Hash)]
enum Rule {
    Lock(SectionId, SectionId),
    /// If the first event happens, the second comes before the third.
    Order(EventId, EventId, EventId),
}

/// One question, searched.
pub(crate) struct Search<'s, 'i, S: Semantics<'i>> {
    pub index: &'i Index<'i>,
    pub run: &'s mut Run<'i, S>,
    pub target: Target<'s>,
    pub formula: Formula<'i>,
    /// What the solver was told about values.
    pub encoding: S::Encoding,
    rules: HashSet<Rule>,
    limits: &'s Limits,
    /// What else a witness must be.
    wanted: Option<Wanted<'s>>,
    pub effort: Effort,
}

/// What a witness must be beside feasible: of an order of events that is not, the hand-overs that make it so, at least one
/// of which must be missing or go the other way.
pub(crate) type Wanted<'s> = &'s dyn Fn(&[EventId]) -> Option<Vec<HandOver>>;

impl<'s, 'i, S: Semantics<'i>> Search<'s, 'i, S> {
    pub fn new(
        run: &'s mut Run<'i, S>,
        index: &'i Index<'i>,
        target: Target<'s>,
        cuts: Cuts,
        limits: &'s Limits,
    ) -> Self {
        Search {
            index,
            target,
            formula: Formula::new(index, &target, cuts, S::LEAVES_NOGOODS, limits.steps, limits.stop.clone()),
            encoding: run.values.encoding(target.events, limits.may_diverge),
            run,
            rules: HashSet::new(),
            limits,
            wanted: None,
            effort: Effort::default(),
        }
    }

    /// Only what is wanted counts as a witness. What is refuted then is no nogood for other questions.
    pub fn wanting(self, wanted: Wanted<'s>) -> Self {
        Search { wanted: Some(wanted), ..self }
    }

    /// Searches for at most so many rounds.
    pub fn search(&mut self, most_rounds: u32) -> Found {
        loop {
            if self.effort.rounds == most_rounds || self.effort.steps >= self.limits.steps {
                return Found::Rounds;
            }
            if self.limits.stop.as_ref().is_some_and(|stop| stop()) {
                return Found::Stopped;
            }
            self.effort.rounds += 1;
            self.propose();
            let before = self.run.steps;
            let is_witness = self.run.run(&self.target, &self.formula.cuts);
            self.effort.steps += self.run.steps - before;
            let unwanted = self.wanted.filter(|_| is_witness).and_then(|wanted| wanted(&self.run.order));
            if is_witness && unwanted.is_none() {
                return Found::Witness;
            }
            self.formula.tried.clone_from(&self.run.cut);
            let before = self.formula.added;
            match unwanted {
                Some(hand_overs) => self.avoid(&hand_overs),
                None => self.learn(),
            }
            (self.effort.clauses, self.effort.events) = (self.formula.added, self.formula.events() as u32);
            if self.formula.is_stopped() {
                return Found::Stopped;
            }
            if self.formula.added == before {
                return Found::Stalled;
            }
            let decisions = self.formula.decisions();
            let outcome = self.formula.solve();
            let decisions = self.formula.decisions() - decisions;
            self.effort.steps += u64::from(self.effort.clauses) + STEPS_OF_DECISION * decisions;
            match outcome {
                Outcome::Satisfiable => {}
                Outcome::Unsatisfiable => return Found::Refuted,
                Outcome::Stopped if self.effort.steps >= self.limits.steps => return Found::Rounds,
                Outcome::Stopped => return Found::Stopped,
            }
        }
    }

    /// What the refutation has used of the question.
    pub fn nogood(self) -> Option<Nogood> {
        self.formula.nogood()
    }

    /// That an event, if it happens, takes effect.
    pub fn takes_effect(&mut self, event: EventId) -> Truth {
        S::takes_effect(self, event)
    }

    /// Makes a proposal of the last assignment; at first, of the bounds alone.
    fn propose(&mut self) {
        let mut proposal = std::mem::take(&mut self.run.proposal);
        proposal.reset(&self.formula.cuts.most);
        for decided in self.formula.decided() {
            match decided {
                Decided::Happens(event) => proposal.included.push(event),
                Decided::DoesNot(event) => proposal.exclude(self.index, event),
                Decided::Order(first, second) => proposal.order(first, second),
            }
        }
        S::propose(self, &mut proposal);
        proposal.complete(self.index);
        self.run.proposal = proposal;
    }

    /// Not all of these hand-overs.
    fn avoid(&mut self, hand_overs: &[HandOver]) {
        self.formula.drop_notes();
        let mark = self.formula.mark();
        let mut parts = Vec::new();
        for &HandOver { gives, takes } in hand_overs {
            parts.push(!self.formula.before(gives, takes));
            parts.push(!self.formula.happens(takes));
        }
        self.formula.clause_since(mark, parts);
    }

    /// Adds the clauses of the rules that the last run broke.
    fn learn(&mut self) {
        S::begin_round(self);
        for violation in std::mem::take(&mut self.run.violations) {
            if self.formula.is_stopped() {
                return;
            }
            self.formula.drop_notes();
            match violation {
                Violation::Synchronisation { event, obstacle, done } => self.synchronise(event, obstacle, &done),
                Violation::Value(broken) => S::learn(self, broken),
            }
        }
    }

    /// Adds the clauses of a rule of synchronisation.
    fn synchronise(&mut self, event: EventId, obstacle: Obstacle, done: &[u32]) {
        match obstacle {
            Obstacle::Lock { holder, wanted } => self.lock(holder, wanted),
            Obstacle::Semaphore => self.semaphore(event, done),
            Obstacle::Notify => {
                // The wait begins before the notify that ends it.
                let named = self.index.wakes[&event];
                self.order(event, named.wait, named.notify);
            }
            Obstacle::Unheld => self.held(event, done),
            Obstacle::Count { found } => self.semaphore_count(event, found, done),
            Obstacle::Ended { end } => self.order(event, event, end),
            Obstacle::Freed { free } => self.order(event, event, free),
            Obstacle::Unallocated { alloc } => self.order(event, alloc, event),
        }
    }

    /// One of two sections ends before the other begins, unless one of them does not happen.
    fn lock(&mut self, a: SectionId, b: SectionId) {
        if !self.rules.insert(Rule::Lock(a.min(b), a.max(b))) {
            return;
        }
        let sections = &self.index.sections;
        let (mark, mut parts) = (self.formula.mark(), Vec::new());
        for (first, second) in [(a, b), (b, a)] {
            for end in sections.ends(first) {
                parts.push(S::ends_before(self, end, sections.get(second).start));
            }
            let start = sections.get(first).start;
            parts.extend([!self.formula.happens(start), !self.takes_effect(start)]);
        }
        self.formula.clause_since(mark, parts);
    }

    /// If an event happens, two events come in this order.
    fn order(&mut self, event: EventId, first: EventId, second: EventId) {
        if self.rules.insert(Rule::Order(event, first, second)) {
            let mark = self.formula.mark();
            let (before, happens) = (self.formula.before(first, second), self.formula.happens(event));
            let parts = [before, !happens, !self.takes_effect(event)];
            self.formula.clause_since(mark, parts);
        }
    }

    /// A failed attempt needs a section of another thread around it: one that had ended must end later, or one that had
    /// not begun must begin before.
    fn held(&mut self, attempt: EventId, done: &[u32]) {
        let Index { threads, sections, trace, .. } = self.index;
        let Action::Probe(Probe::Held { lock, mode }) = trace.action(attempt) else { return };
        let own = threads.thread(attempt);
        let has_taken_effect =
            |event: EventId| done[threads.thread(event)] > threads.position(event) && self.run.op(event) != Op::Mark;
        let (mut ended, mut to_begin) = (Vec::new(), Vec::new());
        for (thread, list) in sections.against(Hold { lock, shared: mode == Mode::Shared }) {
            if thread != own {
                let begun = sections.begun(threads, list, done[thread]);
                ended.extend(list.last(begun));
                to_begin.extend(list.starts.get(begun).copied());
            }
        }
        for (section, _) in sections.on_sides(lock).filter(|(_, section)| section.thread != own) {
            let start = sections.get(section).start;
            match has_taken_effect(start) {
                true => ended.push(section),
                false => to_begin.push(start),
            }
        }
        let mut ends = Vec::new();
        for section in ended {
            let end = sections.ends(section).find(|&end| has_taken_effect(end));
            // After two threads have held the lock at once nothing is known of who does.
            let Some(end) = end else { return };
            ends.push(end);
        }
        let mark = self.formula.mark();
        let mut parts = vec![!self.formula.happens(attempt), !self.takes_effect(attempt)];
        for end in ends {
            parts.push(!S::ends_before(self, end, attempt));
        }
        for start in to_begin {
            parts.push(S::ends_before(self, start, attempt));
        }
        self.formula.clause_since(mark, parts);
    }

    /// A semaphore that counts too much needs one post less or one wait more before somebody looks at it; and the other
    /// way round.
    fn semaphore_count(&mut self, look: EventId, found: i64, done: &[u32]) {
        let Index { threads, semaphores, trace, .. } = self.index;
        let Action::Probe(Probe::Count { semaphore, count }) = trace.action(look) else { return };
        let Semaphore { posts, waits, .. } = &semaphores[semaphore.index()];
        let (raise, lower) = if found > i64::from(count) { (posts, waits) } else { (waits, posts) };
        let own = threads.thread(look);
        let mark = self.formula.mark();
        let mut parts = vec![!self.formula.happens(look)];
        for (thread, &done) in done.iter().enumerate().filter(|(thread, _)| *thread != own) {
            let in_thread = |&&event: &&EventId| threads.thread(event) == thread;
            let happened = |event: &&EventId| threads.position(**event) < done;
            let last = raise.iter().filter(in_thread).rfind(happened).copied();
            let next = lower.iter().filter(in_thread).find(|event| !happened(event)).copied();
            parts.extend(last.map(|other| !self.formula.before(other, look)));
            parts.extend(next.map(|other| self.formula.before(other, look)));
        }
        self.formula.clause_since(mark, parts);
    }

    /// With so many waits before it and itself, a wait needs one more post than there were.
    fn semaphore(&mut self, wait: EventId, done: &[u32]) {
        let Index { threads, semaphores, trace, .. } = self.index;
        let semaphore = &semaphores[trace.events.targets()[wait.index()] as usize];
        let own = threads.thread(wait);
        let mark = self.formula.mark();
        let mut parts = vec![!self.formula.happens(wait)];
        for (thread, &done) in done.iter().enumerate().filter(|(thread, _)| *thread != own) {
            let in_thread = |&&event: &&EventId| threads.thread(event) == thread;
            let happened = |event: &&EventId| threads.position(**event) < done;
            let last_wait = semaphore.waits.iter().filter(in_thread).rfind(happened).copied();
            let next_post = semaphore.posts.iter().filter(in_thread).find(|event| !happened(event)).copied();
            parts.extend(last_wait.map(|other| !self.formula.before(other, wait)));
            parts.extend(next_post.map(|post| self.formula.before(post, wait)));
        }
        self.formula.clause_since(mark, parts);
    }
}
