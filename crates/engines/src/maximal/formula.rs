//! The formula that the loop refines: clauses about the order of events and about what else the semantics of values
//! needs.
//!
//! What the bounds of the question say about an event is folded away while a clause is made. Where refutations are to
//! leave nogoods, each clause notes what it has taken from the bounds, and has a literal that switches it on; the
//! switches that an unsatisfiable core contains, made smaller one by one, say which of the bounds the refutation has
//! used.

use crate::maximal::atoms::{Atoms, Decided};
use crate::maximal::cuts::{Cuts, Target};
use crate::maximal::index::Index;
use crate::maximal::nogood::{Fact, Nogood};
use crate::maximal::solver::{Literal, Outcome, Stop, Truth};
use snag_model::EventId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of so many clauses it is known which of them a refutation needs.
const MOST_SWITCHED: usize = 400;

/// If so many are in a core, the least number is looked for.
const MOST_DROPPED: usize = 40;

/// After so many clauses somebody is asked whether to stop.
const PATIENCE: u32 = 1 << 12;

/// A decision of the solver takes as long as so many events of a run.
pub(crate) const STEPS_OF_DECISION: u64 = 20;

pub(crate) struct Formula<'i> {
    index: &'i Index<'i>,
    /// What every schedule contains and what none does.
    pub cuts: Cuts,
    /// All before it stays as it was.
    pub base: EventId,
    /// Per thread how many events happened in the last run.
    pub tried: Vec<u32>,
    atoms: Atoms,
    /// Clauses that the solver does not know yet.
    new: Vec<(Vec<Literal>, Vec<Fact>)>,
    /// What clauses under construction take from the bounds.
    facts: Vec<Fact>,
    switches: Option<Switches>,
    /// What is certain about the order has a cycle.
    cyclic: bool,
    /// The variables that have a value from the last assignment: the first so many.
    valued: usize,
    /// How many clauses were added.
    pub added: u32,
    /// How many decisions the solver has taken.
    decisions: Arc<AtomicU64>,
    stop: Option<Stop>,
    stopped: bool,
}

/// Clauses that can be switched off.
struct Switches {
    /// What switches each of them on.
    literals: Vec<Literal>,
    /// What each takes from the bounds.
    facts: Vec<Vec<Fact>>,
    /// What the clauses that cannot be switched off take from the bounds.
    used: Nogood,
}

impl<'i> Formula<'i> {
    /// What the bounds say; `most_steps` limits the decisions of the solver.
    pub fn new(
        index: &'i Index<'i>,
        target: &Target,
        cuts: Cuts,
        leaves_nogoods: bool,
        most_steps: u64,
        stop: Option<Stop>,
    ) -> Formula<'i> {
        let threads = &index.threads;
        let decisions = Arc::new(AtomicU64::new(0));
        let (counted, asked) = (decisions.clone(), stop.clone());
        let stop_solver: Stop = Arc::new(move || {
            let steps = STEPS_OF_DECISION * counted.fetch_add(1, Ordering::Relaxed);
            steps >= most_steps || asked.as_ref().is_some_and(|stop| stop())
        });
        let mut atoms = Atoms::new(threads.count(), Some(stop_solver));
        // What must happen happens before the target.
        for (thread, &least) in cuts.least.iter().enumerate() {
            if least > threads.count_before(thread, target.base) {
                atoms.must_happen(index, threads.event(thread, least - 1));
            }
        }
        let used = Nogood::new(threads.count());
        Formula {
            index,
            tried: cuts.least.clone(),
            cuts,
            base: target.base,
            atoms,
            new: Vec::new(),
            facts: Vec::new(),
            switches: leaves_nogoods.then(|| Switches { literals: Vec::new(), facts: Vec::new(), used }),
            cyclic: false,
            valued: 0,
            added: 0,
            decisions,
            stop,
            stopped: false,
        }
    }

    /// How many events the solver knows.
    pub fn events(&self) -> usize {
        self.atoms.events()
    }

    /// How many decisions it has taken.
    pub fn decisions(&self) -> u64 {
        self.decisions.load(Ordering::Relaxed)
    }

    // Atoms.

    /// Whether a schedule may contain an event.
    pub fn may(&self, event: EventId) -> bool {
        self.cuts.may(self.index, event)
    }

    /// Whether every schedule contains an event.
    pub fn must(&self, event: EventId) -> bool {
        self.cuts.must(self.index, event)
    }

    /// Which of two events comes first, if that is the same in all schedules that have both.
    pub fn settled(&self, first: EventId, second: EventId) -> Option<bool> {
        self.index.settled(first, second, self.base).map(|(settled, _)| settled)
    }

    /// The clause under construction depends on this.
    pub fn note(&mut self, facts: impl IntoIterator<Item = Fact>) {
        if self.switches.is_some() {
            self.facts.extend(facts);
        }
    }

    /// The same for whether every schedule contains an event.
    fn must_noted(&mut self, event: EventId) -> bool {
        let must = self.must(event);
        self.note(must.then_some(Fact::Happens(event)));
        must
    }

    /// The same for whether a schedule may contain an event.
    fn may_noted(&mut self, event: EventId) -> bool {
        let may = self.may(event);
        self.note((!may).then_some(Fact::DoesNot(event)));
        may
    }

    /// That one event comes before another. What cannot happen comes last.
    pub fn before(&mut self, first: EventId, second: EventId) -> Truth {
        if let Some((settled, fixed)) = self.index.settled(first, second, self.base) {
            self.note(fixed.then_some(Fact::Fixed));
            return Truth::Known(settled);
        }
        if !self.may_noted(first) {
            return Truth::Known(false);
        }
        if !self.may_noted(second) {
            return Truth::Known(true);
        }
        // The solver knows that they happen if they must.
        self.must_noted(first);
        self.must_noted(second);
        Truth::Open(self.atoms.before(self.index, first, second))
    }

    /// That an event happens.
    pub fn happens(&mut self, event: EventId) -> Truth {
        if self.must_noted(event) {
            return Truth::Known(true);
        }
        if !self.may_noted(event) {
            return Truth::Known(false);
        }
        // As it was in the last run.
        let threads = &self.index.threads;
        let happened = threads.position(event) < self.tried[threads.thread(event)];
        Truth::Open(self.atoms.happens(self.index, event, happened))
    }

    /// A new variable, and the value to try first.
    pub fn fresh(&mut self, preferred: bool) -> Truth {
        Truth::Open(self.atoms.solver.add_variable(None, preferred))
    }

    /// A new variable that follows from others.
    pub fn derived(&mut self) -> Truth {
        Truth::Open(self.atoms.solver.add_derived())
    }

    // Clauses.

    /// Where the facts of a clause under construction begin. A clause made meanwhile takes those that came later.
    pub fn mark(&self) -> usize {
        self.facts.len()
    }

    /// At least one of these holds. What was noted since `mark` belongs to this clause.
    pub fn clause_since(&mut self, mark: usize, parts: impl IntoIterator<Item = Truth>) {
        let facts = self.facts.split_off(mark);
        let mut clause = Vec::new();
        for part in parts {
            match part {
                Truth::Known(true) => return,
                Truth::Known(false) => {}
                Truth::Open(literal) => clause.push(literal),
            }
        }
        self.added += 1;
        if self.added.is_multiple_of(PATIENCE) {
            self.stopped |= self.stop.as_ref().is_some_and(|stop| stop());
        }
        self.new.push((clause, facts));
    }

    /// The same where refutations leave no nogoods.
    pub fn clause(&mut self, parts: impl IntoIterator<Item = Truth>) {
        debug_assert!(self.switches.is_none());
        self.clause_since(0, parts);
    }

    /// No clause is under construction.
    pub fn drop_notes(&mut self) {
        self.facts.clear();
    }

    /// Whether to say no more: somebody wants to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    // The solver.

    pub fn solve(&mut self) -> Outcome {
        let Formula { atoms, switches, .. } = self;
        self.cyclic |= !atoms.sort();
        for (mut clause, facts) in self.new.drain(..) {
            match switches {
                Some(switches) if switches.literals.len() < MOST_SWITCHED => {
                    let switch = atoms.solver.add_variable(None, true);
                    clause.push(!switch);
                    switches.literals.push(switch);
                    switches.facts.push(facts);
                }
                Some(switches) => facts.into_iter().for_each(|fact| switches.used.add(&self.index.threads, fact)),
                None => {}
            }
            atoms.solver.add_clause(&clause);
        }
        if self.cyclic {
            return Outcome::Unsatisfiable;
        }
        let outcome = atoms.solver.solve_assuming(switches.as_ref().map_or(&[], |switches| &switches.literals));
        if outcome == Outcome::Satisfiable {
            self.valued = atoms.solver.variables();
        }
        outcome
    }

    /// The value of a literal in the last assignment, if it was part of that.
    pub fn value(&self, truth: Truth) -> Option<bool> {
        match truth {
            Truth::Known(known) => Some(known),
            Truth::Open(literal) => (literal.variable() <= self.valued).then(|| self.atoms.solver.is_true(literal)),
        }
    }

    /// Whether a literal is true in the last assignment.
    pub fn is_true(&self, truth: Truth) -> bool {
        self.value(truth) == Some(true)
    }

    /// Whether there was an assignment.
    pub fn has_values(&self) -> bool {
        self.valued > 0
    }

    /// What the last assignment says about the order of events.
    pub fn decided(&self) -> impl Iterator<Item = Decided> {
        self.atoms.decided(self.valued)
    }

    /// What a refutation has used of the question: what the clauses of a small core have taken from the bounds.
    pub fn nogood(self) -> Option<Nogood> {
        let Switches { literals, facts, mut used } = self.switches?;
        let mut solver = self.atoms.solver;
        let mut core: Vec<usize> = (0..literals.len()).collect();
        if !self.cyclic {
            core.retain(|&at| solver.is_in_core(literals[at]));
        }
        let mut at = 0;
        while !self.cyclic && core.len() <= MOST_DROPPED && at < core.len() {
            let others = core.iter().filter(|&&other| other != core[at]);
            let assumed: Vec<Literal> = others.map(|&other| literals[other]).collect();
            match solver.solve_assuming(&assumed) {
                Outcome::Unsatisfiable => {
                    core.remove(at);
                }
                _ => at += 1,
            }
        }
        for &fact in core.into_iter().flat_map(|at| &facts[at]) {
            used.add(&self.index.threads, fact);
        }
        Some(used)
    }
}
