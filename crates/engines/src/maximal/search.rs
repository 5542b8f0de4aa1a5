//! The last stage: lazy search with learning.
//!
//! Variables say which of two events comes first, and which write a read sees. A replay that follows the solver's
//! current wishes either is a witness, or breaks rules; for each broken rule the clauses are added that exclude it, and
//! the solver is asked again. Each clause holds for every feasible schedule, so what the solver refutes is impossible;
//! and the replay keeps to all that the solver has decided, so a rule whose clauses were added cannot be broken in the same
//! way again. docs/maximal.md has the argument in full.
//!
//! Events that do not happen come after the target; so "not included" is "after the target", and every clause about the
//! order of events that may not happen is true for those.

use crate::maximal::cuts::{Cuts, Target};
use crate::maximal::impasse::{Fact, Impasse};
use crate::maximal::index::Index;
use crate::maximal::memory::{Source, Writes};
use crate::maximal::replay::{Replay, Violation, Wishes};
use crate::maximal::sections::SectionId;
use crate::maximal::solver::{Literal, Outcome, Stop, Truth};
use crate::maximal::timeline::{Said, Timeline};
use snag_model::Level;
use snag_model::{EventId, Op};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of the writes that come between a read and what it should see, so many get a clause at once.
const MOST_BETWEEN: usize = 32;

/// A decision of the solver takes as long as so many events of a replay.
const STEPS_OF_DECISION: u64 = 20;

/// Of so many clauses it is known which of them a refutation needs.
const MOST_BLAMED: usize = 400;

/// If so many are needed, the least number is looked for.
const MOST_DROPPED: usize = 40;

/// What a search came to.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    /// The replay's order is a witness.
    Witness,
    Refuted,
    /// The rounds were used up.
    Rounds,
    /// It was told to stop.
    Stopped,
    /// A replay got stuck without breaking a rule. Cannot happen.
    Stalled,
}

/// What a search took.
#[derive(Clone, Copy, Default, Debug)]
pub struct Effort {
    /// Replays.
    pub rounds: u32,
    /// Clauses that were added.
    pub clauses: u32,
    /// Events that the solver came to know.
    pub events: u32,
    /// A measure of all the work, the same on every machine: events executed, clauses gone through, decisions of the solver.
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

/// A rule whose clauses were added.
#[derive(PartialEq, Eq, Hash)]
enum Rule {
    Lock(SectionId, SectionId),
    Wake(EventId),
    Freed(EventId),
    /// A read, a cell of it, what it is to see, and the write that must not come between; and the read that would
    /// have to be as it was for that write to be known.
    Between(EventId, usize, Source, EventId, Option<EventId>),
    /// A read counts because another one is to see a later write of its thread.
    Counts(EventId, EventId, usize),
}

pub(crate) struct Search<'s, 'i, 't> {
    index: &'i Index<'t>,
    replay: &'s mut Replay<'i, 't>,
    target: Target<'s>,
    cuts: Cuts,
    line: Timeline,
    /// Per read and cell what it may see.
    choices: HashMap<(EventId, usize), Vec<(Source, Literal)>>,
    /// At `control`: that a read sees what it saw.
    kept: HashMap<EventId, Truth>,
    rules: HashSet<Rule>,
    /// What the clause under construction takes from the bounds.
    facts: Vec<Fact>,
    clauses: Vec<(Vec<Literal>, Vec<Fact>)>,
    /// Clauses that can be switched off: the literal that switches each on, and what it takes from the bounds.
    switches: Vec<Literal>,
    switched: Vec<Vec<Fact>>,
    refuted: bool,
    /// The solver has been asked.
    solved: bool,
    /// How many decisions the solver has taken.
    decisions: Arc<AtomicU64>,
    most_steps: u64,
    /// What the clauses that cannot be switched off take from the bounds.
    used: Impasse,
    pub effort: Effort,
}

impl<'s, 'i, 't> Search<'s, 'i, 't> {
    pub fn new(
        replay: &'s mut Replay<'i, 't>,
        index: &'i Index<'t>,
        target: Target<'s>,
        cuts: Cuts,
        most_steps: u64,
        stop: Option<Stop>,
    ) -> Self {
        let decisions = Arc::new(AtomicU64::new(0));
        let counted = decisions.clone();
        let stop: Stop = Arc::new(move || {
            let steps = STEPS_OF_DECISION * counted.fetch_add(1, Ordering::Relaxed);
            steps >= most_steps || stop.as_ref().is_some_and(|stop| stop())
        });
        let mut search = Search {
            index,
            replay,
            target,
            cuts,
            line: Timeline::new(index.threads.count(), Some(stop)),
            choices: HashMap::new(),
            kept: HashMap::new(),
            rules: HashSet::new(),
            facts: Vec::new(),
            clauses: Vec::new(),
            switches: Vec::new(),
            switched: Vec::new(),
            refuted: false,
            solved: false,
            decisions,
            most_steps,
            used: Impasse::new(index.threads.count()),
            effort: Effort::default(),
        };
        // What must happen happens before the target.
        for thread in 0..index.threads.count() {
            let least = search.cuts.least[thread];
            if least > index.threads.count_before(thread, target.base) {
                search.line.must_happen(index, index.threads.event(thread, least - 1));
            }
        }
        search
    }

    /// Searches for at most so many rounds.
    pub fn run(&mut self, most_rounds: u32, stop: &dyn Fn() -> bool) -> Found {
        let mut wishes =
            Wishes { edges: Vec::new(), included: Vec::new(), most: self.cuts.most.clone(), chosen: HashMap::new() };
        loop {
            if self.effort.rounds == most_rounds || self.effort.steps >= self.most_steps {
                return Found::Rounds;
            }
            if stop() {
                return Found::Stopped;
            }
            self.effort.rounds += 1;
            let before = self.replay.steps;
            let is_witness = self.replay.run(&self.target, &self.cuts, &wishes);
            self.effort.steps += self.replay.steps - before;
            if is_witness {
                return Found::Witness;
            }
            let learnt = self.learn();
            self.effort.events = self.line.events() as u32;
            if !learnt {
                return Found::Stalled;
            }
            let decisions = self.decisions.load(Ordering::Relaxed);
            let outcome = self.solve();
            let decisions = self.decisions.load(Ordering::Relaxed) - decisions;
            self.effort.steps += u64::from(self.effort.clauses) + STEPS_OF_DECISION * decisions;
            match outcome {
                Outcome::Satisfiable => {}
                Outcome::Unsatisfiable => return Found::Refuted,
                Outcome::Stopped if self.effort.steps >= self.most_steps => return Found::Rounds,
                Outcome::Stopped => return Found::Stopped,
            }
            self.wish(&mut wishes);
        }
    }

    fn solve(&mut self) -> Outcome {
        self.refuted |= !self.line.sort();
        for (mut clause, facts) in self.clauses.drain(..) {
            if self.switches.len() < MOST_BLAMED {
                let switch = self.line.solver.add_variable(None, true);
                clause.push(!switch);
                self.switches.push(switch);
                self.switched.push(facts);
            } else {
                facts.into_iter().for_each(|fact| self.used.add(&self.index.threads, fact));
            }
            self.line.solver.add_clause(&clause);
        }
        if self.refuted {
            return Outcome::Unsatisfiable;
        }
        self.solved = true;
        self.line.solver.solve_assuming(&self.switches)
    }

    /// What the refutation has used of the question.
    pub fn impasse(mut self) -> Impasse {
        let threads = &self.index.threads;
        let mut blamed: Vec<usize> = (0..self.switches.len()).collect();
        if !self.refuted {
            blamed.retain(|&at| self.line.solver.is_to_blame(self.switches[at]));
        }
        let mut at = 0;
        while !self.refuted && blamed.len() <= MOST_DROPPED && at < blamed.len() {
            let others: Vec<_> = blamed.iter().filter(|&&other| other != blamed[at]).collect();
            let switches: Vec<_> = others.iter().map(|&&other| self.switches[other]).collect();
            match self.line.solver.solve_assuming(&switches) {
                Outcome::Unsatisfiable => {
                    blamed.remove(at);
                }
                _ => at += 1,
            }
        }
        for fact in blamed.into_iter().flat_map(|at| &self.switched[at]) {
            self.used.add(threads, *fact);
        }
        self.used
    }

    /// What the solver wants now.
    fn wish(&self, wishes: &mut Wishes) {
        let Wishes { edges, included, most, chosen } = wishes;
        edges.clear();
        included.clear();
        chosen.clear();
        most.clone_from(&self.cuts.most);
        for said in self.line.said(usize::MAX) {
            match said {
                Said::Happens(event) => included.push(event),
                Said::DoesNot(event) => self.exclude(event, most),
                Said::Order(first, second) => edges.push((first, second)),
            }
        }
        // What comes after something that does not happen does not happen either.
        let mut changed = true;
        while changed {
            changed = false;
            for &(first, second) in edges.iter() {
                let beyond =
                    |event: EventId| self.index.threads.position(event) >= most[self.index.threads.thread(event)];
                if beyond(first) && !beyond(second) {
                    self.exclude(second, most);
                    changed = true;
                }
            }
        }
        for (&(read, cell), choices) in &self.choices {
            // Nobody needs this read to be kept.
            if matches!(self.kept[&read], Truth::Open(kept) if !self.line.solver.is_true(kept)) {
                continue;
            }
            if let Some((source, _)) = choices.iter().find(|(_, literal)| self.line.solver.is_true(*literal)) {
                chosen.insert((read, cell), *source);
            }
        }
    }

    fn exclude(&self, event: EventId, most: &mut [u32]) {
        for (thread, most) in most.iter_mut().enumerate() {
            *most = (*most).min(self.index.must.first_after(&self.index.threads, event, thread));
        }
    }

    // Atoms.

    /// Whether every schedule contains an event.
    fn must(&mut self, event: EventId) -> bool {
        let must = self.cuts.must(self.index, event);
        if must {
            self.facts.push(Fact::Happens(event));
        }
        must
    }

    /// Whether a schedule may contain an event.
    fn may(&mut self, event: EventId) -> bool {
        let may = self.cuts.may(self.index, event);
        if !may {
            self.facts.push(Fact::DoesNot(event));
        }
        may
    }

    /// That one event comes before another. What cannot happen comes last.
    fn before(&mut self, first: EventId, second: EventId) -> Truth {
        if let Some((settled, fixed)) = self.index.settled(first, second, self.target.base) {
            self.facts.extend(fixed.then_some(Fact::Fixed));
            return Truth::Known(settled);
        }
        if !self.may(first) {
            return Truth::Known(false);
        }
        if !self.may(second) {
            return Truth::Known(true);
        }
        // The solver knows that they happen if they must.
        self.must(first);
        self.must(second);
        Truth::Open(self.line.before(self.index, first, second))
    }

    /// That an event happens.
    fn included(&mut self, event: EventId) -> Truth {
        if self.must(event) {
            return Truth::Known(true);
        }
        if !self.may(event) {
            return Truth::Known(false);
        }
        // As it was in the last replay.
        let threads = &self.index.threads;
        let happened = threads.position(event) < self.replay.cut[threads.thread(event)];
        Truth::Open(self.line.happens(self.index, event, happened))
    }

    /// At least one of these holds. What was found out about the bounds since `from` belongs to this clause.
    fn clause(&mut self, from: usize, parts: impl IntoIterator<Item = Truth>) {
        let facts = self.facts.split_off(from);
        let mut clause = Vec::new();
        for part in parts {
            match part {
                Truth::Known(true) => return,
                Truth::Known(false) => {}
                Truth::Open(literal) => clause.push(literal),
            }
        }
        self.effort.clauses += 1;
        self.clauses.push((clause, facts));
    }

    // Rules.

    /// Adds the clauses of the rules that the last replay broke. False if there was nothing to add.
    fn learn(&mut self) -> bool {
        let before = self.effort.clauses;
        for violation in std::mem::take(&mut self.replay.violations) {
            self.facts.clear();
            match violation {
                Violation::Lock { holder, wanted } => self.lock(holder, wanted),
                Violation::Read { read, cell, log } => self.read(read, cell, log),
                Violation::Wake { wake } => self.wake(wake),
                Violation::Semaphore { wait, done } => self.semaphore(wait, &done),
                Violation::Freed { access, free } => self.freed(access, free),
            }
        }
        self.effort.clauses > before
    }

    /// One of two sections ends before the other begins, unless one of them does not happen.
    fn lock(&mut self, a: SectionId, b: SectionId) {
        if !self.rules.insert(Rule::Lock(a.min(b), a.max(b))) {
            return;
        }
        let (a, b) = (*self.index.sections.get(a), *self.index.sections.get(b));
        let (from, mut parts) = (self.facts.len(), Vec::new());
        for (first, second) in [(a, b), (b, a)] {
            if let Some(end) = first.end {
                parts.push(self.before(end, second.start));
            }
            parts.push(!self.included(first.start));
        }
        self.clause(from, parts);
    }

    fn wake(&mut self, wake: EventId) {
        if self.rules.insert(Rule::Wake(wake)) {
            let (from, named) = (self.facts.len(), self.index.wakes[&wake]);
            let parts = [self.before(named.wait, named.notify), !self.included(wake)];
            self.clause(from, parts);
        }
    }

    fn freed(&mut self, access: EventId, free: EventId) {
        if self.rules.insert(Rule::Freed(access)) {
            let from = self.facts.len();
            let parts = [self.before(access, free), !self.included(access)];
            self.clause(from, parts);
        }
    }

    /// With so many waits before it and itself, a wait needs one more post than there were.
    fn semaphore(&mut self, wait: EventId, done: &[u32]) {
        let threads = &self.index.threads;
        let number = self.index.trace.events.targets()[wait.index()] as usize;
        let semaphore = &self.index.semaphores[number];
        let own = threads.thread(wait);
        let from = self.facts.len();
        let mut parts = vec![!self.included(wait)];
        for (thread, &done) in done.iter().enumerate().filter(|(thread, _)| *thread != own) {
            let in_thread = |&&event: &&EventId| threads.thread(event) == thread;
            let happened = |event: &&EventId| threads.position(**event) < done;
            let last_wait = semaphore.waits.iter().filter(in_thread).rfind(happened).copied();
            let next_post = semaphore.posts.iter().filter(in_thread).find(|event| !happened(event)).copied();
            parts.extend(last_wait.map(|other| !self.before(other, wait)));
            parts.extend(next_post.map(|post| self.before(post, wait)));
        }
        self.clause(from, parts);
    }

    /// A read that counts saw something else.
    fn read(&mut self, read: EventId, cell: usize, log: Option<u32>) {
        let is_new = !self.choices.contains_key(&(read, cell));
        self.keep(read);
        if self.index.level == Level::Control && !self.replay.counts_by_branch(read) {
            self.count(read);
        }
        let memory = &self.index.memory;
        let seen = memory.seen(read, cell);
        let choices = self.choices.get(&(read, cell)).cloned().unwrap_or_default();
        for (source, literal) in choices {
            let chosen = if is_new || !self.solved { source == seen } else { self.line.solver.is_true(literal) };
            if !chosen {
                continue;
            }
            let between: Vec<_> = self
                .replay
                .history(log)
                .take_while(|entry| Some(entry.write) != source || entry.doubt.is_some())
                .collect();
            let mut taken = 0;
            for entry in between {
                let is_source = Some(entry.write) == source;
                let good = memory.may_see(read, cell, Some(entry.write));
                if (!good || entry.doubt.is_some()) && taken < MOST_BETWEEN {
                    taken += 1;
                    let doubt = entry.doubt.filter(|_| good);
                    self.between(read, cell, source, literal, entry.write, doubt);
                }
                if is_source {
                    break;
                }
            }
        }
    }

    /// If a read is to see one write, no other comes between that and the read, unless it is as good: then the reads of its
    /// thread must be kept that make it known.
    fn between(
        &mut self,
        read: EventId,
        cell: usize,
        source: Source,
        choice: Literal,
        write: EventId,
        doubt: Option<EventId>,
    ) {
        if !self.rules.insert(Rule::Between(read, cell, source, write, doubt)) {
            return;
        }
        let (from, mut parts) = (self.facts.len(), vec![!Truth::Open(choice)]);
        if Some(write) != source {
            if let Some(source) = source {
                parts.push(self.before(write, source));
            }
            parts.push(self.before(read, write));
        }
        if let Some(doubt) = doubt {
            parts.push(self.keep(doubt));
        }
        self.clause(from, parts);
    }

    /// That a read sees what it may see. At `writer` and `value` it does if it happens.
    fn keep(&mut self, read: EventId) -> Truth {
        if !self.kept.contains_key(&read) {
            self.introduce(read);
        }
        match self.index.level {
            Level::Control => self.kept[&read],
            _ => self.included(read),
        }
    }

    /// A read that is kept sees one of the writes it may see; and what makes it count keeps it.
    fn introduce(&mut self, read: EventId) {
        let kept = match self.index.level {
            Level::Control => Truth::Open(self.line.solver.add_variable(None, true)),
            _ => self.included(read),
        };
        self.kept.insert(read, kept);
        if self.index.level == Level::Control
            && let Some(branch) = self.index.kept_at(read)
        {
            let from = self.facts.len();
            let parts = [!self.included(branch), kept];
            self.clause(from, parts);
        }
        for cell in self.index.memory.cells_of(read) {
            let from = self.facts.len();
            let choices = self.choose(read, cell);
            let mut parts = vec![!self.keep(read)];
            parts.extend(choices.iter().map(|(_, literal)| Truth::Open(*literal)));
            self.choices.insert((read, cell), choices);
            self.clause(from, parts);
        }
    }

    /// A read counts because another one is to see a later write of its thread; and that one maybe because of a third.
    fn count(&mut self, read: EventId) {
        let threads = &self.index.threads;
        let mut todo = vec![read];
        let mut seen = HashSet::new();
        while let Some(read) = todo.pop() {
            if !seen.insert(read) || self.replay.counts_by_branch(read) {
                continue;
            }
            let (thread, position) = (threads.thread(read), threads.position(read));
            let reasons = self.replay.reasons[thread].iter().filter(|reason| reason.end > position);
            for reason in reasons.copied().collect::<Vec<_>>() {
                todo.push(reason.read);
                if !self.rules.insert(Rule::Counts(read, reason.read, reason.cell)) {
                    continue;
                }
                self.keep(reason.read);
                let choices = self.choices[&(reason.read, reason.cell)].clone();
                for (source, literal) in choices {
                    if source.is_some_and(|write| self.depends(write, read)) {
                        let from = self.facts.len();
                        let kept = self.keep(read);
                        self.clause(from, [!Truth::Open(literal), kept]);
                    }
                }
            }
        }
    }

    /// Whether what a write leaves depends on a read: it comes later in the same thread, or is it.
    fn depends(&self, write: EventId, read: EventId) -> bool {
        let threads = &self.index.threads;
        threads.thread(write) == threads.thread(read)
            && (read < write || read == write && self.index.op(write) == Op::Rmw)
    }

    /// The writes that a read may see in a cell, each with a variable for that. Why others are left out is added to the
    /// facts of the clause that is made of them.
    fn choose(&mut self, read: EventId, cell: usize) -> Vec<(Source, Literal)> {
        let seen = self.index.memory.seen(read, cell);
        let mut choices = Vec::new();
        for source in self.sources(read, cell) {
            let from = self.facts.len();
            let earlier = source.map_or(Truth::Known(true), |write| self.before(write, read));
            if earlier == Truth::Known(false) {
                continue;
            }
            let literal = self.line.solver.add_variable(None, source == seen);
            choices.push((source, literal));
            self.clause(from, [!Truth::Open(literal), earlier]);
            // The read happens if it sees anything.
            let happens = self.included(read);
            self.clause(from, [!Truth::Open(literal), happens]);
        }
        choices
    }

    fn sources(&mut self, read: EventId, cell: usize) -> Vec<Source> {
        let Index { threads, memory, must, .. } = self.index;
        let seen = memory.seen(read, cell);
        let (latest, by_must) = (self.latest(read, cell, self.target.base), self.latest(read, cell, EventId(0)));
        // Whether one of the writes that come before the read in any case hides a write from it; and whether only
        // because the trace begins as it was.
        let hidden = |write: EventId| {
            let hides = |other: EventId| {
                self.index.settled(write, other, self.target.base).filter(|settled| settled.0 && other != write)
            };
            let always = by_must.iter().any(|&other| matches!(hides(other), Some((_, false))));
            latest.iter().any(|&other| hides(other).is_some()).then_some(!always)
        };
        let (mut sources, mut facts) = (Vec::new(), Vec::new());
        let mut add = |write: EventId| match hidden(write) {
            None => sources.push(Some(write)),
            Some(fixed) => facts.extend(fixed.then_some(Fact::Fixed)),
        };
        let mut excluded = Vec::new();
        if let Some(wanted) = memory.wanted(read, cell) {
            for list in memory.writes_of(threads, cell, wanted) {
                // From here on they must follow the read.
                let after = must.first_after(threads, read, list.thread);
                let all = list.events.partition_point(|&w| threads.position(w) < after);
                let end = all.min(list.events.partition_point(|&w| self.cuts.may(self.index, w)));
                if end < all {
                    excluded.push(Fact::DoesNot(list.events[end]));
                }
                // All but the last one of these are hidden by that.
                let from = self.count_settled(read, &list, EventId(0)).saturating_sub(1).min(end);
                let fixed = self.count_settled(read, &list, self.target.base).saturating_sub(1).min(end);
                if fixed - from > MOST_BETWEEN {
                    excluded.push(Fact::Fixed);
                    list.events[fixed..end].iter().for_each(|&write| add(write));
                } else {
                    list.events[from..end].iter().for_each(|&write| add(write));
                }
            }
        } else if let Some(write) = seen {
            add(write);
        }
        if memory.may_see(read, cell, None) {
            match (latest.is_empty(), by_must.is_empty()) {
                (true, _) => sources.push(None),
                (false, true) => excluded.push(Fact::Fixed),
                (false, false) => {}
            }
        }
        self.facts.extend(facts);
        self.facts.extend(excluded);
        sources
    }

    /// Of a thread's writes how many come before a read in any case, if the trace begins as it was up to `base`.
    fn count_settled(&self, read: EventId, list: &Writes, base: EventId) -> usize {
        let Index { threads, must, .. } = self.index;
        let count = match list.thread == threads.thread(read) {
            true => threads.position(read),
            false => must.row(read).get(list.thread),
        };
        list.events.partition_point(|&w| threads.position(w) < count || w < base)
    }

    /// The last of these, of each thread.
    fn latest(&self, read: EventId, cell: usize, base: EventId) -> Vec<EventId> {
        let last = |list: Writes| self.count_settled(read, &list, base).checked_sub(1).map(|last| list.events[last]);
        self.index.memory.writes(cell).filter_map(last).collect()
    }
}
