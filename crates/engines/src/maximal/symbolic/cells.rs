//! What reads find and writes leave, as bits for the solver.
//!
//! A read finds what one of the writes left that it may see: a variable for each says which, and implies that the bits
//! are equal. A read of a busy variable may see hundreds of writes, and few of them matter. So the solver is told about
//! them bit by bit: one variable stands for all that it does not know of yet, and what a write leaves, and that it
//! comes before, is said when the solver has chosen it and a run shows that this matters. What is not said leaves more
//! possible, so what the solver refutes stays refuted.

use crate::maximal::index::Index;
use crate::maximal::memory::Source;
use crate::maximal::search::Search;
use crate::maximal::symbolic::Symbolic;
use crate::maximal::symbolic::circuit::{Bit, NO, YES};
use crate::maximal::symbolic::terms::Value;
use snag_model::symbolic::Role;
use snag_model::{EventId, Op, TermId, VarId, Variable};
use std::collections::HashSet;

/// If a read may see no more writes than this, and these leave numbers that are known, all is said at once.
const FEW: usize = 16;

/// What a write leaves in memory.
#[derive(Clone)]
pub(super) struct Written {
    /// Its 64 bits.
    pub bits: Vec<Bit>,
    pub known: Bit,
}

/// Something that a read may see.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    pub source: Source,
    pub chosen: Bit,
    /// The solver knows what this leaves, and when.
    told: bool,
}

/// What a read finds in a cell.
pub(super) struct Seen {
    pub cell: usize,
    pub choices: Vec<Choice>,
    /// What it may see beside that, the next one to tell about last.
    rest: Vec<Source>,
    /// That it sees one of these.
    beyond: Bit,
    /// As many bits as the cell has; none if these are more than 64.
    pub bits: Vec<Bit>,
    pub known: Bit,
    /// How many of the rest to tell about next time.
    batch: usize,
}

/// What a read finds.
pub(super) struct Found {
    /// Whether it does so at all.
    happens: [Bit; 2],
    pub cells: Vec<Seen>,
    /// The 64 bits that it finds.
    pub bits: Vec<Bit>,
    pub known: Bit,
}

/// The bits of a number that is known.
fn constant(value: u64, width: usize) -> Vec<Bit> {
    (0..width).map(|at| Bit::Known(value >> at & 1 == 1)).collect()
}

impl<'i> Search<'_, 'i, Symbolic<'i>> {
    /// What a read finds, in all its cells.
    pub(super) fn found(&mut self, read: EventId) -> &Found {
        if !self.encoding.reads.contains_key(&read) {
            let found = self.new_found(read);
            self.encoding.reads.insert(read, found);
            self.encoding.new_reads.push(read);
        }
        &self.encoding.reads[&read]
    }

    fn new_found(&mut self, read: EventId) -> Found {
        let happens = [self.formula.happens(read), self.takes_effect(read)];
        let Index { memory, cells, trace, .. } = self.index;
        let mut found = Found { happens, cells: Vec::new(), bits: vec![NO; 64], known: YES };
        let variable = trace.tables.variable(VarId(trace.events.targets()[read.index()]));
        for cell in memory.cells_of(read) {
            let (from, width) = match (variable, cells.bytes(cell)) {
                (Variable::Range { address, .. }, Some((start, bytes))) => (8 * (start - address), 8 * bytes),
                _ => (0, 64),
            };
            let seen = self.new_seen(read, cell, if width > 64 { 0 } else { width as usize }, happens);
            if from + width > 64 {
                found.known = NO;
            } else {
                found.bits[from as usize..(from + width) as usize].copy_from_slice(&seen.bits);
                found.known = self.and(found.known, seen.known);
            }
            found.cells.push(seen);
        }
        found
    }

    fn new_seen(&mut self, read: EventId, cell: usize, width: usize, happens: [Bit; 2]) -> Seen {
        let observed = self.index.memory.seen_or_none(read, cell);
        let mut rest = self.sources(read, cell);
        let mut seen =
            Seen { cell, choices: Vec::new(), rest: Vec::new(), beyond: NO, bits: Vec::new(), known: NO, batch: 1 };
        let at_once = rest.len() <= FEW && rest.iter().all(|&source| self.is_constant(source))
            || rest.len() == 1 && self.is_encoded(rest[0]);
        if at_once {
            let (mut bits, mut known) = (Vec::new(), Vec::new());
            let only = rest.len() == 1;
            for source in rest {
                let chosen = if only { YES } else { self.formula.fresh(source == observed) };
                seen.choices.push(Choice { source, chosen, told: true });
                self.come_before(read, source, chosen, happens);
                let content = self.content(source, cell, width);
                bits.push(content.0);
                known.push(content.1);
            }
            for at in 0..width {
                let column: Vec<Bit> = bits.iter().map(|bits| bits[at]).collect();
                seen.bits.push(self.one_of(&seen.choices, &column));
            }
            seen.known = self.one_of(&seen.choices, &known);
        } else {
            seen.bits = (0..width).map(|_| self.formula.derived()).collect();
            seen.known = self.formula.derived();
            // What it saw comes first, then what is near.
            if let Some(at) = rest.iter().position(|&source| source == observed) {
                rest.remove(at);
                let chosen = if rest.is_empty() { YES } else { self.formula.fresh(true) };
                seen.choices.push(Choice { source: observed, chosen, told: false });
            }
            rest.sort_by_key(|&source| std::cmp::Reverse(source.map_or(0, |write| write.0.abs_diff(read.0))));
            if !rest.is_empty() {
                seen.beyond = self.formula.fresh(false);
            }
            seen.rest = rest;
        }
        let mut parts = vec![!happens[0], !happens[1], seen.beyond];
        parts.extend(seen.choices.iter().map(|choice| choice.chosen));
        self.formula.clause(parts);
        seen
    }

    /// The bit of the one that was chosen.
    fn one_of(&mut self, choices: &[Choice], bits: &[Bit]) -> Bit {
        let Some(&first) = bits.first() else { return NO };
        if bits.iter().all(|&bit| bit == first) {
            return first;
        }
        let out = self.formula.derived();
        for (choice, &bit) in choices.iter().zip(bits) {
            self.formula.clause([!choice.chosen, !bit, out]);
            self.formula.clause([!choice.chosen, bit, !out]);
        }
        out
    }

    /// What a read sees has happened before it.
    fn come_before(&mut self, read: EventId, source: Source, chosen: Bit, happens: [Bit; 2]) {
        if let Some(write) = source.filter(|&write| write >= self.formula.base) {
            let earlier = self.formula.before(write, read);
            let written = self.takes_effect(write);
            for needed in [earlier, written] {
                self.formula.clause([!happens[0], !happens[1], !chosen, needed]);
            }
        }
    }

    /// Whether what is left there is the same in all schedules.
    fn is_constant(&self, source: Source) -> bool {
        let Some(write) = source.filter(|&write| write >= self.formula.base) else { return true };
        match self.expressions().symbolic.role(write) {
            Role::Write(term) => self.reads_of(term).is_empty(),
            _ => self.has_read_nothing(write),
        }
    }

    /// Whether what is left there needs no reads that the solver does not know.
    fn is_encoded(&self, source: Source) -> bool {
        let Some(write) = source else { return true };
        match self.expressions().symbolic.role(write) {
            _ if self.encoding.writes.contains_key(&write) => true,
            Role::Write(term) => self.reads_of(term).iter().all(|read| self.encoding.reads.contains_key(read)),
            _ => true,
        }
    }

    // Telling the solver more.

    /// Tells the solver what the choices of a read mean that it has made in its last answer.
    pub(super) fn tell_chosen(&mut self, read: EventId) {
        for at in 0..self.found(read).cells.len() {
            let seen = &self.encoding.reads[&read].cells[at];
            let chosen: Vec<usize> =
                (0..seen.choices.len()).filter(|&choice| self.formula.is_true(seen.choices[choice].chosen)).collect();
            let beyond = self.formula.is_true(seen.beyond);
            for choice in chosen {
                self.tell(read, at, choice);
            }
            if beyond {
                self.tell_next(read, at);
            }
        }
    }

    /// Tells the solver what one choice of a read means.
    fn tell(&mut self, read: EventId, at: usize, number: usize) {
        let found = self.encoding.reads.get_mut(&read).expect("was found");
        let (seen, happens) = (&mut found.cells[at], found.happens);
        let choice = &mut seen.choices[number];
        if std::mem::replace(&mut choice.told, true) {
            return;
        }
        let (Choice { source, chosen, .. }, cell, bits, known) = (*choice, seen.cell, seen.bits.clone(), seen.known);
        self.come_before(read, source, chosen, happens);
        let content = self.content(source, cell, bits.len());
        for (out, bit) in bits.into_iter().zip(content.0).chain([(known, content.1)]) {
            self.formula.clause([!chosen, !bit, out]);
            self.formula.clause([!chosen, bit, !out]);
        }
    }

    /// Tells the solver about some more of what a read may see.
    fn tell_next(&mut self, read: EventId, at: usize) {
        let seen = &mut self.encoding.reads.get_mut(&read).expect("was found").cells[at];
        let keep = seen.rest.len().saturating_sub(seen.batch);
        let next = seen.rest.split_off(keep);
        seen.batch *= 2;
        let beyond = if seen.rest.is_empty() { NO } else { self.formula.fresh(false) };
        let mut parts = vec![!std::mem::replace(&mut seen.beyond, beyond), beyond];
        let first = seen.choices.len();
        for source in next.into_iter().rev() {
            let chosen = self.formula.fresh(false);
            seen.choices.push(Choice { source, chosen, told: false });
            parts.push(chosen);
        }
        let last = seen.choices.len();
        self.formula.clause(parts);
        for choice in first..last {
            self.tell(read, at, choice);
        }
    }

    /// Says what was put off: what reads saw in the trace, for as many reads as that is done at once, and which writes
    /// are as in the trace.
    pub(super) fn settle(&mut self) {
        loop {
            if self.formula.is_stopped() {
                return;
            }
            if let Some(write) = self.encoding.open_observed.pop() {
                let is = self.is_as_observed(write);
                let open = self.encoding.observed[&write];
                self.formula.clause([!open, is]);
                self.formula.clause([open, !is]);
            } else if self.encoding.reach > 0 && !self.encoding.new_reads.is_empty() {
                self.encoding.reach -= 1;
                let read = self.encoding.new_reads.remove(0);
                for at in 0..self.encoding.reads[&read].cells.len() {
                    if !self.encoding.reads[&read].cells[at].choices.is_empty() {
                        self.tell(read, at, 0);
                    }
                }
            } else {
                return;
            }
        }
    }

    fn sources(&self, read: EventId, cell: usize) -> Vec<Source> {
        let Index { threads, memory, .. } = self.index;
        let base = self.formula.base;
        let own = threads.thread(read);
        // Of each thread the last write that comes before the read in any case.
        let mut latest = self.index.latest_writes(read, cell, EventId(0));
        let side = self.sides().branch_of(read);
        let others = self.sides().writes(cell);
        if side.is_some() {
            let same_side = |write: &&EventId| self.sides().branch_of(**write) == side && **write < read;
            latest.extend(others.iter().rev().find(same_side));
        }
        latest.retain(|&write| write >= base);
        let mut writes: Vec<EventId> = Vec::new();
        for list in memory.writes(cell) {
            let from = list.events.partition_point(|&w| w < base);
            let to = list.events.partition_point(|&w| self.formula.may(w));
            writes.extend(&list.events[from.min(to)..to]);
        }
        for &write in others.iter().filter(|&&write| write >= base && self.formula.may(write)) {
            let branch = self.sides().branch_of(write);
            let possible = match threads.thread(write) == own {
                true => branch == side,
                false => true,
            };
            if possible && self.sides().side(write).is_some_and(|side| threads.position(write) < side.end) {
                writes.push(write);
            }
        }
        let formula = &self.formula;
        writes.retain(|&write| {
            let hidden = |&other: &EventId| other != write && formula.settled(write, other) == Some(true);
            write != read && formula.settled(write, read) != Some(false) && !latest.iter().any(hidden)
        });
        writes.sort_unstable();
        let mut sources: Vec<Source> = Vec::new();
        if latest.is_empty() {
            sources.push(memory.last_before(cell, base));
        }
        for write in writes {
            if self.sides().branch_of(write).is_none_or(|branch| self.can_diverge(branch)) {
                sources.push(Some(write));
            }
        }
        sources
    }

    /// What a cell holds after a write, or held at the start, as so many bits; and that this is known.
    pub(super) fn content(&mut self, source: Source, cell: usize, width: usize) -> (Vec<Bit>, Bit) {
        let Index { memory, cells, trace, .. } = self.index;
        let Some(write) = source else {
            let value = memory.value_left(None, cell);
            return (constant(value.unwrap_or(0), width), Bit::Known(value.is_some()));
        };
        let written = self.written(write);
        let variable = trace.tables.variable(VarId(trace.events.targets()[write.index()]));
        let from = match (variable, cells.bytes(cell)) {
            (Variable::Range { size: 9.., .. }, _) => return (vec![NO; width], NO),
            (Variable::Range { address, .. }, Some((start, _))) => 8 * (start - address) as usize,
            _ => 0,
        };
        (written.bits[from..from + width].to_vec(), written.known)
    }

    pub(super) fn written(&mut self, write: EventId) -> Written {
        if let Some(written) = self.encoding.writes.get(&write) {
            return written.clone();
        }
        let written = match self.expressions().symbolic.role(write) {
            _ if write < self.formula.base => self.as_recorded(write, YES),
            Role::Write(term) => {
                let Value { number, known, undefined } = self.term(term);
                Written { bits: number.low(64), known: self.and(known, !undefined) }
            }
            _ => {
                let as_observed = if self.has_read_nothing(write) { YES } else { self.as_observed_write(write) };
                self.as_recorded(write, as_observed)
            }
        };
        self.encoding.writes.insert(write, written.clone());
        written
    }

    /// Whether the thread of a write has read nothing that may be different.
    fn has_read_nothing(&self, write: EventId) -> bool {
        let threads = &self.index.threads;
        let rmw = self.index.op(write) == Op::Rmw;
        self.first_read(threads.thread(write)) >= threads.position(write) + rmw as u32
    }

    /// The reads that a term depends on, in its own thread.
    pub(super) fn reads_of(&self, term: TermId) -> Vec<EventId> {
        let (mut todo, mut seen) = (self.expressions().symbols_of(term), HashSet::new());
        let mut reads = Vec::new();
        while let Some(symbol) = todo.pop() {
            if self.is_settled(symbol) || !seen.insert(symbol) {
                continue;
            }
            let definition = self.expressions().symbolic.definition(symbol);
            match definition.term {
                Some(term) => todo.extend(self.expressions().symbols_of(term)),
                None => reads.push(definition.event),
            }
        }
        reads
    }

    fn as_recorded(&mut self, write: EventId, as_observed: Bit) -> Written {
        let value = self.expressions().wrote(write);
        let known = if value.is_some() { as_observed } else { NO };
        Written { bits: constant(value.unwrap_or(0) as u64, 64), known }
    }
}
