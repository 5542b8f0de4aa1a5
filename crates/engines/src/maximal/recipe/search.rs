//! Looks for a schedule with values that leads to a target.
//!
//! A round: run what the solver wants, with values ([`Run`]). If no rule was broken that is the witness. Otherwise the
//! clauses of each broken rule are added, and the solver is asked again. A clause holds for every feasible schedule, so what
//! the solver refutes is impossible. docs/recipe.md has the argument in full.

use crate::maximal::cuts::Cuts;
use crate::maximal::index::Index;
use crate::maximal::memory::Source;
use crate::maximal::recipe::cells::{Choice, Found, Written};
use crate::maximal::recipe::circuit::{Bit, Circuit, NO, YES};
use crate::maximal::recipe::clauses::{Clauses, Scope};
use crate::maximal::recipe::run::{Broken, Run, Wishes};
use crate::maximal::recipe::terms::{Open, Value};
use crate::maximal::recipe::world::{Span, SpanId, World};
use crate::maximal::search::{Effort, Found as Outcome};
use crate::maximal::solver::{Outcome as Solved, Stop};
use crate::maximal::timeline::Said;
use snag_model::symbolic::Role;
use snag_model::{DefinitionId, EventId, Op, TermId};
use std::collections::{HashMap, HashSet};

/// Of so many reads the solver is told in the first round what they saw; in each round it is twice as many.
const REACH: usize = 4;

/// A rule whose clauses were added.
#[derive(PartialEq, Eq, Hash)]
enum Rule {
    Lock(SpanId, SpanId),
    Wake(EventId),
    Freed(EventId),
    Allocated(EventId),
    /// A read, a cell of it, what it is to see, and the write that must not come between.
    Between(EventId, usize, Source, Source),
}

pub(crate) struct Search<'s, 'w, 'i, 't> {
    pub(super) world: &'w World<'i, 't>,
    pub(super) run: &'s mut Run<'w, 'i, 't>,
    pub(super) target: &'s [EventId],
    pub(super) scope: Scope<'i, 't>,
    pub(super) line: Clauses,
    pub(super) circuit: Circuit,
    /// Whether branches may go the other way at all.
    may_diverge: bool,
    /// That a branch goes the other way.
    diverging: HashMap<EventId, Bit>,
    rules: HashSet<Rule>,
    /// Events that have been encoded.
    pub(super) obliged: HashSet<EventId>,
    pub(super) terms: HashMap<TermId, Value>,
    pub(super) symbols: HashMap<DefinitionId, Value>,
    pub(super) reads: HashMap<EventId, Found>,
    pub(super) writes: HashMap<EventId, Written>,
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
    wishes: Wishes,
    pub effort: Effort,
}

/// The bounds of a schedule to a target, by the must order alone; `None` if they contradict each other.
pub(super) fn bounds(world: &World, target: &[EventId], base: EventId, end: EventId) -> Option<Cuts> {
    let Index { threads, must, cells, .. } = world.index;
    let mut most: Vec<u32> = (0..threads.count()).map(|thread| threads.count_before(thread, end)).collect();
    let mut least: Vec<u32> = (0..threads.count()).map(|thread| threads.count_before(thread, base)).collect();
    for &event in target {
        let own = threads.thread(event);
        for excluded in [Some(event), world.index.free_of(event)].into_iter().flatten() {
            for (thread, most) in most.iter_mut().enumerate() {
                *most = (*most).min(must.first_after(threads, excluded, thread));
            }
        }
        if let Some(previous) = threads.previous(event) {
            must.include(threads, previous, &mut least);
        }
        must.row(event).for_each(|thread, count| {
            if thread != own {
                must.include(threads, threads.event(thread, count - 1), &mut least);
            }
        });
        if let Some(side) = world.side_with(event) {
            if !side.possible || threads.position(event) >= side.end || side.branch < base {
                return None;
            }
            if world.index.op(event).if_it_happens().is_access()
                && let Some(alloc) = cells.block_of_event(event.index())
            {
                must.include(threads, alloc, &mut least);
            }
        }
    }
    let cuts = Cuts { least, most };
    let fit = cuts.least.iter().zip(&cuts.most).all(|(least, most)| least <= most);
    fit.then_some(cuts)
}

impl<'s, 'w, 'i, 't> Search<'s, 'w, 'i, 't> {
    pub fn new(
        run: &'s mut Run<'w, 'i, 't>,
        world: &'w World<'i, 't>,
        target: &'s [EventId],
        cuts: Cuts,
        base: EventId,
        may_diverge: bool,
        stop: Option<Stop>,
    ) -> Self {
        let threads = &world.index.threads;
        let tried = cuts.least.clone();
        let mut search = Search {
            world,
            run,
            target,
            scope: Scope { index: world.index, cuts, base, tried },
            line: Clauses::new(threads.count(), stop),
            circuit: Circuit::default(),
            may_diverge,
            diverging: HashMap::new(),
            rules: HashSet::new(),
            obliged: HashSet::new(),
            terms: HashMap::new(),
            symbols: HashMap::new(),
            reads: HashMap::new(),
            writes: HashMap::new(),
            agreeing: HashMap::new(),
            observed: HashMap::new(),
            open_observed: Vec::new(),
            new_reads: Vec::new(),
            reach: 0,
            hard: HashMap::new(),
            points: HashSet::new(),
            wishes: Wishes::default(),
            effort: Effort::default(),
        };
        for thread in 0..threads.count() {
            let least = search.scope.cuts.least[thread];
            if least > threads.count_before(thread, base) {
                search.line.must_happen(&search.scope, threads.event(thread, least - 1));
            }
        }
        for &event in target {
            if let Some(branch) = world.branch_of(event) {
                search.diverging.insert(branch, YES);
            }
        }
        search.wish();
        search
    }

    /// The branches that went the other way in the last run.
    pub fn diverged(&self) -> Vec<EventId> {
        let mut branches = self.wishes.diverging.clone();
        branches.retain(|branch| self.run.order.contains(branch));
        branches.sort_unstable();
        branches
    }

    /// Searches for at most so many rounds.
    pub fn search(&mut self, most_rounds: u32, stop: &dyn Fn() -> bool) -> Outcome {
        loop {
            if self.effort.rounds == most_rounds {
                return Outcome::Rounds;
            }
            if stop() {
                return Outcome::Stopped;
            }
            self.effort.rounds += 1;
            let least = self.scope.cuts.least.clone();
            if self.run.run(self.scope.base, &least, self.target, &self.wishes) {
                return Outcome::Witness;
            }
            self.scope.tried.clone_from(&self.run.cut);
            let before = self.line.added;
            self.learn();
            (self.effort.clauses, self.effort.events) = (self.line.added, self.line.events() as u32);
            if self.line.is_stopped() {
                return Outcome::Stopped;
            }
            if self.line.added == before {
                return Outcome::Stalled;
            }
            match self.line.solve() {
                Solved::Satisfiable => {}
                Solved::Unsatisfiable => return Outcome::Refuted,
                Solved::Stopped => return Outcome::Stopped,
            }
            self.wish();
        }
    }

    /// What the solver wants now.
    fn wish(&mut self) {
        let Index { threads, must, .. } = self.world.index;
        let mut wishes = Wishes { most: self.scope.cuts.most.clone(), ..Wishes::default() };
        let exclude = |event: EventId, most: &mut [u32]| {
            for (thread, most) in most.iter_mut().enumerate() {
                *most = (*most).min(must.first_after(threads, event, thread));
            }
        };
        for said in self.line.said() {
            match said {
                Said::Happens(event) => wishes.included.push(event),
                Said::DoesNot(event) => exclude(event, &mut wishes.most),
                Said::Order(first, second) => wishes.edges.push((second, first)),
            }
        }
        for (&branch, &diverges) in &self.diverging {
            if self.line.is_true(diverges) == Some(true) {
                let side = self.world.side_of_branch(branch).expect("only branches with another side diverge");
                let most = &mut wishes.most[threads.thread(branch)];
                *most = (*most).min(side.end);
                wishes.diverging.push(branch);
            }
        }
        // What comes after something that does not happen does not happen either.
        let mut changed = true;
        while changed {
            changed = false;
            for &(second, first) in &wishes.edges {
                let beyond = |event: EventId| threads.position(event) >= wishes.most[threads.thread(event)];
                if beyond(first) && !beyond(second) {
                    exclude(second, &mut wishes.most);
                    changed = true;
                }
            }
        }
        wishes.edges.sort_unstable();
        for (&read, found) in &self.reads {
            for seen in &found.cells {
                let chosen = seen.choices.iter().find(|choice| self.line.is_true(choice.chosen) == Some(true));
                if let Some(choice) = chosen {
                    wishes.chosen.insert((read, seen.cell), choice.source);
                }
            }
        }
        self.wishes = wishes;
    }

    // Branches that go the other way.

    /// That a branch goes the other way.
    pub(super) fn diverges(&mut self, branch: EventId) -> Bit {
        if let Some(&bit) = self.diverging.get(&branch) {
            return bit;
        }
        let bit = self.new_divergence(branch);
        self.diverging.insert(branch, bit);
        bit
    }

    /// Whether a branch may go the other way, as far as that is known without the solver.
    pub(super) fn can_diverge(&self, branch: EventId) -> bool {
        if let Some(&bit) = self.diverging.get(&branch) {
            return bit != NO;
        }
        let threads = &self.world.index.threads;
        let own_target = |&event: &EventId| threads.thread(event) == threads.thread(branch);
        self.may_diverge
            && branch >= self.scope.base
            && self.scope.may(branch)
            && self.world.side_of_branch(branch).is_some()
            && !self.target.iter().any(own_target)
            && !self.ruled_out(branch).any(|event| self.scope.must(event))
    }

    /// What does not happen if a branch goes the other way: where that side ends the thread stops, and nobody can join it.
    fn ruled_out(&self, branch: EventId) -> impl Iterator<Item = EventId> + use<'w> {
        let world: &'w World = self.world;
        let thread = world.index.threads.thread(branch);
        let side = world.side_of_branch(branch);
        let beyond = side.and_then(|side| world.index.threads.events(thread).get(side.end as usize).copied());
        beyond.into_iter().chain(world.joins[thread].iter().copied())
    }

    fn new_divergence(&mut self, branch: EventId) -> Bit {
        if !self.can_diverge(branch) {
            return NO;
        }
        let bit = self.line.fresh(false);
        let happens = self.line.included(&self.scope, branch);
        self.line.clause([!bit, happens]);
        for event in self.ruled_out(branch) {
            let happens = self.line.included(&self.scope, event);
            self.line.clause([!bit, !happens]);
        }
        bit
    }

    /// That an event, if it is executed, does something: it is of the trace, or its side was taken.
    pub(super) fn live(&mut self, event: EventId) -> Bit {
        match self.world.branch_of(event) {
            None => YES,
            Some(branch) => self.diverges(branch),
        }
    }

    // Rules.

    /// Adds the clauses of the rules that the last run broke.
    fn learn(&mut self) {
        self.reach = REACH << self.effort.rounds.min(8);
        for broken in std::mem::take(&mut self.run.broken) {
            if self.line.is_stopped() {
                return;
            }
            match broken {
                Broken::Lock(holder, wanted) => self.lock(holder, wanted),
                Broken::Wake(wake) => {
                    if self.rules.insert(Rule::Wake(wake)) {
                        let named = self.world.index.wakes[&wake];
                        let began = self.line.before(&self.scope, named.wait, named.notify);
                        let happens = self.line.included(&self.scope, wake);
                        self.line.clause([began, !happens]);
                    }
                }
                Broken::Semaphore(wait, done) => self.semaphore(wait, &done),
                Broken::Freed(access, free) => {
                    if self.rules.insert(Rule::Freed(access)) {
                        let parts = [self.line.before(&self.scope, access, free), !self.happens(access)];
                        let live = self.live(access);
                        self.line.clause([parts[0], parts[1], !live]);
                    }
                }
                Broken::NotAllocated(access, alloc) => {
                    if self.rules.insert(Rule::Allocated(access)) {
                        let parts = [self.line.before(&self.scope, alloc, access), !self.happens(access)];
                        let live = self.live(access);
                        self.line.clause([parts[0], parts[1], !live]);
                    }
                }
                Broken::Value(event) => match self.obliged.contains(&event) {
                    false => self.oblige(event),
                    true => self.compare(event),
                },
            }
        }
    }

    fn happens(&mut self, event: EventId) -> Bit {
        self.line.included(&self.scope, event)
    }

    /// One of two spans ends before the other begins, unless one of them does not happen.
    fn lock(&mut self, a: SpanId, b: SpanId) {
        if !self.rules.insert(Rule::Lock(a.min(b), a.max(b))) {
            return;
        }
        let (a, b): (Span, Span) = (self.world.spans[a].clone(), self.world.spans[b].clone());
        let mut parts = Vec::new();
        for (first, second) in [(&a, &b), (&b, &a)] {
            for &(end, side) in &first.ends {
                let earlier = self.line.before(&self.scope, end, second.start);
                let live = side.map_or(YES, |branch| self.diverges(branch));
                parts.push(self.circuit.and(&mut self.line, earlier, live));
            }
            parts.push(!self.happens(first.start));
            if let Some(branch) = first.side {
                parts.push(!self.diverges(branch));
            }
        }
        self.line.clause(parts);
    }

    /// With so many waits before it and itself, a wait needs one more post than there were.
    fn semaphore(&mut self, wait: EventId, done: &[u32]) {
        let index = self.world.index;
        let threads = &index.threads;
        let semaphore = &index.semaphores[index.trace.events.targets()[wait.index()] as usize];
        let own = threads.thread(wait);
        let mut parts = vec![!self.happens(wait)];
        for (thread, &done) in done.iter().enumerate().filter(|(thread, _)| *thread != own) {
            let in_thread = |&&event: &&EventId| threads.thread(event) == thread;
            let happened = |event: &&EventId| threads.position(**event) < done;
            let last_wait = semaphore.waits.iter().filter(in_thread).rfind(happened).copied();
            let next_post = semaphore.posts.iter().filter(in_thread).find(|event| !happened(event)).copied();
            if let Some(other) = last_wait {
                parts.push(!self.line.before(&self.scope, other, wait));
            }
            if let Some(post) = next_post {
                parts.push(self.line.before(&self.scope, post, wait));
            }
        }
        self.line.clause(parts);
    }

    // Where a run and the solver differ.

    /// An event was encoded, and the run broke its rule nevertheless: a read saw something else than the solver thought,
    /// or a write left something else.
    fn compare(&mut self, event: EventId) {
        self.teach(event);
        let mut todo = self.reads_before(event);
        let mut seen: HashSet<EventId> = HashSet::new();
        while let Some(read) = todo.pop() {
            if !seen.insert(read) {
                continue;
            }
            let Some(concrete) = self.run.found.get(&read).cloned() else { continue };
            self.tell_chosen(read);
            for (at, concrete) in concrete.iter().enumerate() {
                let seen = &self.reads[&read].cells[at];
                let cell = seen.cell;
                let others: Vec<Choice> = seen
                    .choices
                    .iter()
                    .filter(|choice| choice.source != concrete.source && self.line.is_true(choice.chosen) == Some(true))
                    .copied()
                    .collect();
                for choice in others {
                    self.between(read, cell, choice.source, choice.chosen, concrete.source);
                }
                let Some(write) = concrete.source.filter(|&write| write >= self.scope.base) else { continue };
                self.teach(write);
                todo.extend(self.reads_before(write));
            }
            self.settle();
        }
    }

    /// The reads of its thread that an event may depend on.
    fn reads_before(&self, event: EventId) -> Vec<EventId> {
        let term = match self.world.symbolic.role(event) {
            Role::Branch { condition, .. } => condition,
            Role::Write(term) => term,
            Role::Let(definition) => self.world.symbolic.definition(definition).term.expect("a let has a term"),
            Role::None | Role::Read(_) => {
                let threads = &self.world.index.threads;
                let (thread, count) = (threads.thread(event), threads.position(event));
                let count = count + (self.world.index.op(event) == Op::Rmw) as u32;
                let reads = self.world.reads[thread].iter().filter(|&&read| read < count);
                let reads = reads.map(|&read| threads.event(thread, read));
                return reads.filter(|&read| read >= self.scope.base).collect();
            }
        };
        self.reads_of(term)
    }

    /// If a read is to see one write, no other comes between that and the read.
    fn between(&mut self, read: EventId, cell: usize, source: Source, chosen: Bit, other: Source) {
        // What was there at the start comes before everything.
        let Some(write) = other.filter(|&write| write >= self.scope.base) else { return };
        if !self.rules.insert(Rule::Between(read, cell, source, other)) {
            return;
        }
        let mut parts = vec![!chosen, !self.happens(read), !self.live(read), !self.live(write)];
        if let Some(source) = source.filter(|&source| source >= self.scope.base) {
            parts.push(self.line.before(&self.scope, write, source));
        }
        parts.push(self.line.before(&self.scope, read, write));
        self.line.clause(parts);
    }
}
