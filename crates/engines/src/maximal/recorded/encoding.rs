//! What the solver is told about recorded values: which writes each read may see.
//!
//! A variable for each write that a read may see says that it sees this one; at `control`, one more for each read says
//! that the read is *kept*, that is, finds what it found. Other writes must not come between a read and what it sees.

use super::{Recorded, Unexpected};
use crate::maximal::index::Index;
use crate::maximal::memory::Source;
use crate::maximal::nogood::Fact;
use crate::maximal::proposal::Proposal;
use crate::maximal::search::Search;
use crate::maximal::semantics::Semantics;
use crate::maximal::solver::Truth;
use snag_model::Level;
use snag_model::{EventId, Op};
use std::collections::{HashMap, HashSet};

/// Of the writes that come between a read and what it should see, so many get a clause at once.
const MOST_BETWEEN: usize = 32;

/// A rule whose clauses were added.
#[derive(PartialEq, Eq, Hash)]
enum Rule {
    /// A read, a cell of it, what it is to see, and the write that must not come between; and the read that would
    /// have to be as it was for that write to be known.
    Between(EventId, usize, Source, EventId, Option<EventId>),
    /// A read counts because another one is to see a later write of its thread.
    Counts(EventId, EventId, usize),
}

#[derive(Default)]
pub(crate) struct Encoding {
    /// Per read and cell what it may see.
    choices: HashMap<(EventId, usize), Vec<(Source, Truth)>>,
    /// At `control`: that a read sees what it saw.
    kept: HashMap<EventId, Truth>,
    rules: HashSet<Rule>,
}

impl<'i> Semantics<'i> for Recorded<'i> {
    type Encoding = Encoding;

    const LEAVES_NOGOODS: bool = true;
    const KEEPS_OBSERVED: bool = true;
    const LOCAL: &'static [u32] = &[150, 1000, 6000, 40_000];
    const LOCAL_ROUNDS: u32 = 24;

    fn encoding(&self, _target: &[EventId], _may_diverge: bool) -> Encoding {
        Encoding::default()
    }

    fn propose(search: &Search<'_, 'i, Self>, proposal: &mut Proposal) {
        let Encoding { choices, kept, .. } = &search.encoding;
        for (&(read, cell), choices) in choices {
            // Nobody needs this read to be kept.
            if search.formula.value(kept[&read]) == Some(false) {
                continue;
            }
            let chosen = choices.iter().find(|(_, literal)| search.formula.is_true(*literal));
            if let Some(&(source, _)) = chosen {
                proposal.choose(read, cell, source);
            }
        }
    }

    fn learn(search: &mut Search<'_, 'i, Self>, unexpected: Unexpected) {
        search.unexpected(unexpected);
    }
}

impl<'i> Search<'_, 'i, Recorded<'i>> {
    /// Whether a read counts because of a branch that is to happen.
    fn counts_by_branch(&self, read: EventId) -> bool {
        let Index { threads, .. } = self.index;
        let thread = threads.thread(read);
        threads.position(read) < self.index.counting(thread, self.run.cut[thread])
    }

    /// A read that counts saw something else.
    fn unexpected(&mut self, Unexpected { read, cell, log }: Unexpected) {
        let is_new = !self.encoding.choices.contains_key(&(read, cell));
        self.keep(read);
        if self.index.level == Level::Control && !self.counts_by_branch(read) {
            self.count(read);
        }
        let memory = &self.index.memory;
        let seen = memory.seen(read, cell);
        let choices = self.encoding.choices.get(&(read, cell)).cloned().unwrap_or_default();
        for (source, literal) in choices {
            let chosen =
                if is_new || !self.formula.has_values() { source == seen } else { self.formula.is_true(literal) };
            if !chosen {
                continue;
            }
            let between: Vec<_> = self
                .run
                .values
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

    /// If a read is to see one write, no other comes between that and the read, unless it is as good: then the reads of
    /// its thread must be kept that make it known.
    fn between(
        &mut self,
        read: EventId,
        cell: usize,
        source: Source,
        choice: Truth,
        write: EventId,
        doubt: Option<EventId>,
    ) {
        if !self.encoding.rules.insert(Rule::Between(read, cell, source, write, doubt)) {
            return;
        }
        let (mark, mut parts) = (self.formula.mark(), vec![!choice]);
        if Some(write) != source {
            if let Some(source) = source {
                parts.push(self.formula.before(write, source));
            }
            parts.push(self.formula.before(read, write));
        }
        if let Some(doubt) = doubt {
            parts.push(self.keep(doubt));
        }
        self.formula.clause_since(mark, parts);
    }

    /// That a read sees what it may see. At `writer` and `value` it does if it happens.
    fn keep(&mut self, read: EventId) -> Truth {
        if !self.encoding.kept.contains_key(&read) {
            self.introduce(read);
        }
        match self.index.level {
            Level::Control => self.encoding.kept[&read],
            _ => self.formula.happens(read),
        }
    }

    /// A read that is kept sees one of the writes it may see; and what makes it count keeps it.
    fn introduce(&mut self, read: EventId) {
        let kept = match self.index.level {
            Level::Control => self.formula.fresh(true),
            _ => self.formula.happens(read),
        };
        self.encoding.kept.insert(read, kept);
        if self.index.level == Level::Control
            && let Some(branch) = self.index.kept_at(read)
        {
            let mark = self.formula.mark();
            let parts = [!self.formula.happens(branch), kept];
            self.formula.clause_since(mark, parts);
        }
        for cell in self.index.memory.cells_of(read) {
            let mark = self.formula.mark();
            let choices = self.choose(read, cell);
            let mut parts = vec![!self.keep(read)];
            parts.extend(choices.iter().map(|(_, literal)| *literal));
            self.encoding.choices.insert((read, cell), choices);
            self.formula.clause_since(mark, parts);
        }
    }

    /// A read counts because another one is to see a later write of its thread; and that one maybe because of a third.
    fn count(&mut self, read: EventId) {
        let threads = &self.index.threads;
        let mut todo = vec![read];
        let mut seen = HashSet::new();
        while let Some(read) = todo.pop() {
            if !seen.insert(read) || self.counts_by_branch(read) {
                continue;
            }
            let (thread, position) = (threads.thread(read), threads.position(read));
            let reasons = self.run.values.reasons[thread].iter().filter(|reason| reason.end > position);
            for reason in reasons.copied().collect::<Vec<_>>() {
                todo.push(reason.read);
                if !self.encoding.rules.insert(Rule::Counts(read, reason.read, reason.cell)) {
                    continue;
                }
                self.keep(reason.read);
                let choices = self.encoding.choices[&(reason.read, reason.cell)].clone();
                for (source, literal) in choices {
                    if source.is_some_and(|write| self.depends(write, read)) {
                        let mark = self.formula.mark();
                        let kept = self.keep(read);
                        self.formula.clause_since(mark, [!literal, kept]);
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
    fn choose(&mut self, read: EventId, cell: usize) -> Vec<(Source, Truth)> {
        let seen = self.index.memory.seen(read, cell);
        let mut choices = Vec::new();
        for source in self.sources(read, cell) {
            let mark = self.formula.mark();
            let earlier = source.map_or(Truth::Known(true), |write| self.formula.before(write, read));
            if earlier == Truth::Known(false) {
                continue;
            }
            let literal = self.formula.fresh(source == seen);
            choices.push((source, literal));
            self.formula.clause_since(mark, [!literal, earlier]);
            // The read happens if it sees anything.
            let happens = self.formula.happens(read);
            self.formula.clause_since(mark, [!literal, happens]);
        }
        choices
    }

    fn sources(&mut self, read: EventId, cell: usize) -> Vec<Source> {
        let Index { threads, memory, saturated, .. } = self.index;
        let (seen, base) = (memory.seen(read, cell), self.target.base);
        let (latest, always_before) =
            (self.index.latest_writes(read, cell, base), self.index.latest_writes(read, cell, EventId(0)));
        // Whether one of the writes that come before the read in any case hides a write from it; and whether only
        // because the trace begins as it was.
        let hidden = |write: EventId| {
            let hides =
                |other: EventId| self.index.settled(write, other, base).filter(|settled| settled.0 && other != write);
            let always = always_before.iter().any(|&other| matches!(hides(other), Some((_, false))));
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
                let after = saturated.first_after(threads, read, list.thread);
                let all = list.events.partition_point(|&w| threads.position(w) < after);
                let end = all.min(list.events.partition_point(|&w| self.formula.may(w)));
                if end < all {
                    excluded.push(Fact::DoesNot(list.events[end]));
                }
                // All but the last one of these are hidden by that.
                let from = self.index.writes_before(read, &list, EventId(0)).saturating_sub(1).min(end);
                let fixed = self.index.writes_before(read, &list, base).saturating_sub(1).min(end);
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
            match (latest.is_empty(), always_before.is_empty()) {
                (true, _) => sources.push(None),
                (false, true) => excluded.push(Fact::Fixed),
                (false, false) => {}
            }
        }
        self.formula.note(facts.into_iter().chain(excluded));
        sources
    }
}
