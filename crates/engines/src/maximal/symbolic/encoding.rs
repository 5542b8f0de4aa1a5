//! What the solver is told about symbolic values, and what about branches that go the other way.
//!
//! Only what runs have shown to matter: of a branch that went elsewhere, its condition and the reads it depends on
//! ([`super::terms`], [`super::cells`]); then, where a run and the solver differ, why.

use super::Symbolic;
use super::values::WrongStep;
use crate::maximal::memory::Source;
use crate::maximal::proposal::Proposal;
use crate::maximal::search::Search;
use crate::maximal::semantics::Semantics;
use crate::maximal::solver::Truth;
use crate::maximal::symbolic::cells::{Choice, Found, Written};
use crate::maximal::symbolic::circuit::{Bit, Circuit, NO, YES};
use crate::maximal::symbolic::expressions::Expressions;
use crate::maximal::symbolic::sides::Sides;
use crate::maximal::symbolic::terms::{Open, Value};
use snag_model::{DefinitionId, EventId, Op, TermId};
use std::collections::{HashMap, HashSet};

/// Of so many reads the solver is told in the first round what they saw; in each round it is twice as many.
const REACH: usize = 4;

#[derive(Default)]
pub(crate) struct Encoding {
    pub(super) circuit: Circuit,
    /// Whether branches may go the other way at all.
    may_diverge: bool,
    /// That a branch goes the other way.
    diverging: HashMap<EventId, Bit>,
    /// Events that have been encoded.
    pub(super) obliged: HashSet<EventId>,
    pub(super) terms: HashMap<TermId, Value>,
    pub(super) symbols: HashMap<DefinitionId, Value>,
    pub(super) reads: HashMap<EventId, Found>,
    pub(super) writes: HashMap<EventId, Written>,
    /// A read, a cell of it, what it is to see, and the write that must not come between.
    between: HashSet<(EventId, usize, Source, EventId)>,
    pub(super) agreeing: HashMap<EventId, Bit>,
    pub(super) observed: HashMap<EventId, Bit>,
    /// Writes of which it was left open whether they are as in the trace.
    pub(super) open_observed: Vec<EventId>,
    /// Reads of which the solver knows nothing yet but that they find something; and how many of them to tell it about
    /// in this round.
    pub(super) new_reads: Vec<EventId>,
    pub(super) reach: usize,
    /// Products and quotients whose bits were left open, and with which operands they have been computed.
    pub(super) hard: HashMap<TermId, Open>,
    pub(super) points: HashSet<(TermId, i128, i128)>,
}

impl<'i> Semantics<'i> for Symbolic<'i> {
    type Encoding = Encoding;

    const LEAVES_NOGOODS: bool = false;
    const KEEPS_OBSERVED: bool = false;
    const LOCAL: &'static [u32] = &[150, 1000];
    const LOCAL_ROUNDS: u32 = 100;

    /// A target on the other side of a branch needs that to diverge.
    fn encoding(&self, target: &[EventId], may_diverge: bool) -> Encoding {
        let branches = target.iter().filter_map(|&event| self.expressions.sides.branch_of(event));
        Encoding { may_diverge, diverging: branches.map(|branch| (branch, YES)).collect(), ..Encoding::default() }
    }

    fn propose(search: &Search<'_, 'i, Self>, proposal: &mut Proposal) {
        for (&branch, &diverges) in &search.encoding.diverging {
            if search.formula.is_true(diverges) {
                let side = search.sides().of_branch(branch).expect("only branches with another side diverge");
                let most = &mut proposal.most[search.index.threads.thread(branch)];
                *most = (*most).min(side.end);
                proposal.diverging.push(branch);
            }
        }
        for (&read, found) in &search.encoding.reads {
            for seen in &found.cells {
                let is_chosen = |choice: &&Choice| search.formula.is_true(choice.chosen);
                if let Some(choice) = seen.choices.iter().find(is_chosen) {
                    proposal.choose(read, seen.cell, choice.source);
                }
            }
        }
    }

    /// The solver is told about more reads than in the last round.
    fn begin_round(search: &mut Search<'_, 'i, Self>) {
        search.encoding.reach = REACH << search.effort.rounds.min(8);
    }

    /// An event is encoded; or, if it was, the run is compared with what the solver thought.
    fn learn(search: &mut Search<'_, 'i, Self>, WrongStep(event): WrongStep) {
        match search.encoding.obliged.contains(&event) {
            false => search.oblige(event),
            true => search.compare(event),
        }
    }

    /// What is on the other side of a branch does if that diverges.
    fn takes_effect(search: &mut Search<'_, 'i, Self>, event: EventId) -> Truth {
        match search.sides().branch_of(event) {
            None => YES,
            Some(branch) => search.diverges(branch),
        }
    }

    fn ends_before(search: &mut Search<'_, 'i, Self>, end: EventId, event: EventId) -> Truth {
        let earlier = search.formula.before(end, event);
        let takes_effect = search.takes_effect(end);
        search.and(earlier, takes_effect)
    }
}

impl<'i> Search<'_, 'i, Symbolic<'i>> {
    pub(super) fn expressions(&self) -> &'i Expressions<'i> {
        self.run.values.expressions
    }

    pub(super) fn sides(&self) -> &'i Sides {
        &self.expressions().sides
    }

    // Branches that go the other way.

    /// That a branch goes the other way.
    pub(super) fn diverges(&mut self, branch: EventId) -> Bit {
        if let Some(&bit) = self.encoding.diverging.get(&branch) {
            return bit;
        }
        let bit = self.new_divergence(branch);
        self.encoding.diverging.insert(branch, bit);
        bit
    }

    /// Whether a branch may go the other way, as far as that is known without the solver.
    pub(super) fn can_diverge(&self, branch: EventId) -> bool {
        if let Some(&bit) = self.encoding.diverging.get(&branch) {
            return bit != NO;
        }
        let threads = &self.index.threads;
        let own_target = |&event: &EventId| threads.thread(event) == threads.thread(branch);
        self.encoding.may_diverge
            && branch >= self.formula.base
            && self.formula.may(branch)
            && self.sides().of_branch(branch).is_some()
            && !self.target.events.iter().any(own_target)
            && !self.ruled_out(branch).any(|event| self.formula.must(event))
    }

    /// What does not happen if a branch goes the other way: where that side ends the thread stops, and nobody can join
    /// it.
    fn ruled_out(&self, branch: EventId) -> impl Iterator<Item = EventId> + use<'i> {
        let (threads, expressions) = (&self.index.threads, self.expressions());
        let thread = threads.thread(branch);
        let side = expressions.sides.of_branch(branch);
        let beyond = side.and_then(|side| threads.events(thread).get(side.end as usize).copied());
        beyond.into_iter().chain(expressions.joins[thread].iter().copied())
    }

    fn new_divergence(&mut self, branch: EventId) -> Bit {
        if !self.can_diverge(branch) {
            return NO;
        }
        let bit = self.formula.fresh(false);
        let happens = self.formula.happens(branch);
        self.formula.clause([!bit, happens]);
        for event in self.ruled_out(branch) {
            let happens = self.formula.happens(event);
            self.formula.clause([!bit, !happens]);
        }
        bit
    }

    // Where a run and the solver differ.

    /// An event was encoded, and the run broke its rule nevertheless: a read saw something else than the solver
    /// thought, or a write left something else.
    fn compare(&mut self, event: EventId) {
        self.teach(event);
        let mut todo = self.reads_before(event);
        let mut seen: HashSet<EventId> = HashSet::new();
        while let Some(read) = todo.pop() {
            if !seen.insert(read) {
                continue;
            }
            let Some(concrete) = self.run.values.found.get(&read).cloned() else { continue };
            self.tell_chosen(read);
            for (at, concrete) in concrete.iter().enumerate() {
                let seen = &self.encoding.reads[&read].cells[at];
                let cell = seen.cell;
                let others: Vec<Choice> = seen
                    .choices
                    .iter()
                    .filter(|choice| choice.source != concrete.source && self.formula.is_true(choice.chosen))
                    .copied()
                    .collect();
                for choice in others {
                    self.between(read, cell, choice.source, choice.chosen, concrete.source);
                }
                let Some(write) = concrete.source.filter(|&write| write >= self.formula.base) else { continue };
                self.teach(write);
                todo.extend(self.reads_before(write));
            }
            self.settle();
        }
    }

    /// The reads of its thread that an event may depend on.
    fn reads_before(&self, event: EventId) -> Vec<EventId> {
        if let Some(term) = self.expressions().term_of(event) {
            return self.reads_of(term);
        }
        let threads = &self.index.threads;
        let (thread, count) = (threads.thread(event), threads.position(event));
        let count = count + (self.index.op(event) == Op::Rmw) as u32;
        let reads = self.expressions().reads[thread].iter().filter(|&&read| read < count);
        let reads = reads.map(|&read| threads.event(thread, read));
        reads.filter(|&read| read >= self.formula.base).collect()
    }

    /// If a read is to see one write, no other comes between that and the read.
    fn between(&mut self, read: EventId, cell: usize, source: Source, chosen: Bit, other: Source) {
        // What was there at the start comes before everything.
        let Some(write) = other.filter(|&write| write >= self.formula.base) else { return };
        if !self.encoding.between.insert((read, cell, source, write)) {
            return;
        }
        let mut parts = vec![!chosen, !self.formula.happens(read), !self.takes_effect(read), !self.takes_effect(write)];
        if let Some(source) = source.filter(|&source| source >= self.formula.base) {
            parts.push(self.formula.before(write, source));
        }
        parts.push(self.formula.before(read, write));
        self.formula.clause(parts);
    }
}
