//! What reads find and writes leave, as bits for the solver.
//!
//! A read finds what one of the writes left that it may see: a variable for each says which, and implies that the bits are
//! equal. What a write leaves follows from its expression; as that depends on reads again, which depend on writes, the bits of a
//! write may be left open at first and equated later. Left open they say less, so what the solver refutes stays refuted.

use crate::index::Index;
use crate::memory::{Source, Writes};
use crate::recipe::circuit::{Bit, NO, YES};
use crate::recipe::search::Search;
use crate::recipe::terms::Value;
use snag_trace::symbolic::{Role, Sort};
use snag_trace::{EventId, Op, TermId, VarId, Variable};
use std::collections::HashSet;

/// So many reads are encoded with all that they depend on at once; further ones only as far as a run shows it to be
/// necessary.
const AT_ONCE: usize = 8;
/// Further than this nothing is followed at once: the stack is finite.
const DEEPEST: u32 = 2;
/// What a write leaves in memory.
#[derive(Clone)]
pub(super) struct Written {
    /// Its 64 bits.
    pub bits: Vec<Bit>,
    pub known: Bit,
    /// It follows from the term that is written; otherwise it is left open.
    pub defined: bool,
}

/// What a read finds.
#[derive(Clone)]
pub(super) struct Found {
    /// Per cell what it may see, and that it does.
    pub choices: Vec<Vec<(Source, Bit)>>,
    /// The 64 bits that it finds.
    pub bits: Vec<Bit>,
    pub known: Bit,
}

/// The bits of a number that is known.
fn constant(value: u64, width: usize) -> Vec<Bit> {
    (0..width).map(|at| Bit::Known(value >> at & 1 == 1)).collect()
}

impl Search<'_, '_, '_, '_> {
    /// What a read finds, in all its cells.
    pub(super) fn found(&mut self, read: EventId) -> Found {
        if let Some(found) = self.reads.get(&read) {
            return found.clone();
        }
        self.in_progress.push(read);
        let (happens, live) = (self.line.included(&self.scope, read), self.live(read));
        let Index { memory, cells, trace, .. } = self.world.index;
        let mut found = Found { choices: Vec::new(), bits: vec![NO; 64], known: YES };
        let variable = trace.tables.variable(VarId(trace.events.targets()[read.index()]));
        for cell in memory.cells_of(read) {
            let choices = self.choices(read, cell, happens, live);
            let (from, width) = match (variable, cells.bytes(cell)) {
                (Variable::Range { address, .. }, Some((start, bytes))) => (8 * (start - address), 8 * bytes),
                _ => (0, 64),
            };
            if from + width > 64 {
                found.known = NO;
                found.choices.push(choices);
                continue;
            }
            let mut contents = Vec::new();
            for &(source, _) in &choices {
                contents.push(self.content(source, cell, width as usize));
            }
            for at in 0..width as usize {
                let bits: Vec<Bit> = contents.iter().map(|content| content.0[at]).collect();
                found.bits[from as usize + at] = self.one_of(&choices, &bits);
            }
            let known: Vec<Bit> = contents.iter().map(|content| content.1).collect();
            let known = self.one_of(&choices, &known);
            found.known = self.and(found.known, known);
            found.choices.push(choices);
        }
        self.in_progress.pop();
        self.reads.insert(read, found.clone());
        found
    }

    /// The bit of the one that was chosen.
    pub(super) fn one_of(&mut self, choices: &[(Source, Bit)], bits: &[Bit]) -> Bit {
        let Some(&first) = bits.first() else { return NO };
        if bits.iter().all(|&bit| bit == first) {
            return first;
        }
        let out = self.line.fresh(false);
        for (&(_, chosen), &bit) in choices.iter().zip(bits) {
            self.line.clause([!chosen, !bit, out]);
            self.line.clause([!chosen, bit, !out]);
        }
        out
    }

    /// What a read may see in a cell, each with a bit for that.
    pub(super) fn choices(&mut self, read: EventId, cell: usize, happens: Bit, live: Bit) -> Vec<(Source, Bit)> {
        let seen = self.world.index.memory.seen_or_none(read, cell);
        let sources = self.sources(read, cell);
        let only = sources.len() == 1;
        let mut choices = Vec::new();
        for source in sources {
            let chosen = if only { YES } else { self.line.fresh(source == seen) };
            if let Some(write) = source.filter(|&write| write >= self.scope.base) {
                let earlier = self.line.before(&self.scope, write, read);
                let written = self.live(write);
                for needed in [earlier, written] {
                    self.line.clause([!happens, !live, !chosen, needed]);
                }
            }
            choices.push((source, chosen));
        }
        let mut parts = vec![!happens, !live];
        parts.extend(choices.iter().map(|choice| choice.1));
        self.line.clause(parts);
        choices
    }

    pub(super) fn sources(&mut self, read: EventId, cell: usize) -> Vec<Source> {
        let Index { threads, memory, must, .. } = self.world.index;
        let base = self.scope.base;
        let (own, before) = (threads.thread(read), must.row(read));
        // Of each thread the last write that comes before the read in any case.
        let last_settled = |list: &Writes| {
            let count = if list.thread == own { threads.position(read) } else { before[list.thread] };
            let settled = list.events.partition_point(|&w| threads.position(w) < count);
            settled.checked_sub(1).map(|last| list.events[last])
        };
        let mut latest: Vec<EventId> = memory.writes(cell).filter_map(|list| last_settled(&list)).collect();
        let side = self.world.branch_of(read);
        let others = self.world.other_writes(cell);
        if side.is_some() {
            let same_side = |write: &&EventId| self.world.branch_of(**write) == side && **write < read;
            latest.extend(others.iter().rev().find(same_side));
        }
        latest.retain(|&write| write >= base);
        let mut writes: Vec<EventId> = Vec::new();
        for list in memory.writes(cell) {
            let from = list.events.partition_point(|&w| w < base);
            let to = list.events.partition_point(|&w| self.scope.may(w));
            writes.extend(&list.events[from.min(to)..to]);
        }
        for &write in others.iter().filter(|&&write| write >= base && self.scope.may(write)) {
            let branch = self.world.branch_of(write);
            let possible = match threads.thread(write) == own {
                true => branch == side,
                false => true,
            };
            if possible && self.world.side_with(write).is_some_and(|side| threads.position(write) < side.end) {
                writes.push(write);
            }
        }
        let scope = &self.scope;
        writes.retain(|&write| {
            let hidden = |&other: &EventId| other != write && scope.settled(write, other) == Some(true);
            write != read && scope.settled(write, read) != Some(false) && !latest.iter().any(hidden)
        });
        writes.sort_unstable();
        let mut sources: Vec<Source> = Vec::new();
        if latest.is_empty() {
            sources.push(if base == EventId(0) { None } else { memory.last_before(cell, base) });
        }
        for write in writes {
            if self.live(write) != NO {
                sources.push(Some(write));
            }
        }
        sources
    }

    /// What a cell holds after a write, or held at the start, as so many bits; and that this is known.
    pub(super) fn content(&mut self, source: Source, cell: usize, width: usize) -> (Vec<Bit>, Bit) {
        let Index { memory, cells, trace, .. } = self.world.index;
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
        if let Some(written) = self.writes.get(&write) {
            return written.clone();
        }
        let threads = &self.world.index.threads;
        let role = self.world.symbolic.role(write);
        let written = match role {
            _ if write < self.scope.base => self.as_recorded(write, YES),
            Role::Write(term) if self.follow_now(term) => {
                self.depth += 1;
                let written = self.of_term(term);
                self.depth -= 1;
                // Something may have asked for it on the way.
                if let Some(open) = self.writes.get(&write).cloned() {
                    self.equate(&open, &written);
                }
                written
            }
            Role::Write(term) => {
                self.open.push(write);
                let sort = self.world.symbolic.term(term).sort;
                let own = sort.width().map_or(64, usize::from);
                let mut bits: Vec<Bit> = (0..own).map(|_| self.line.fresh(false)).collect();
                let fill = match sort {
                    Sort::Bits { signed: false, .. } => NO,
                    _ => bits[own - 1],
                };
                bits.resize(64, fill);
                Written { bits, known: self.line.fresh(true), defined: false }
            }
            _ => {
                let rmw = self.world.index.op(write) == Op::Rmw;
                let count = threads.position(write) + rmw as u32;
                let nothing_read = self.first_read(threads.thread(write)) >= count;
                let as_observed = if nothing_read { YES } else { self.as_observed_write(write) };
                self.as_recorded(write, as_observed)
            }
        };
        self.writes.insert(write, written.clone());
        written
    }

    /// Whether to encode what a term depends on now.
    pub(super) fn follow_now(&self, term: TermId) -> bool {
        let reads = self.reads_of(term);
        let new = reads.iter().any(|read| !self.reads.contains_key(read));
        let cyclic = reads.iter().any(|read| self.in_progress.contains(read));
        !cyclic && (!new || self.depth < DEEPEST && self.reads.len() < AT_ONCE)
    }

    /// The reads that a term depends on, in its own thread.
    pub(super) fn reads_of(&self, term: TermId) -> Vec<EventId> {
        let (mut todo, mut seen) = (self.world.symbols_of(term), HashSet::new());
        let mut reads = Vec::new();
        while let Some(symbol) = todo.pop() {
            if self.is_settled(symbol) || !seen.insert(symbol) {
                continue;
            }
            let definition = self.world.symbolic.definition(symbol);
            match definition.term {
                Some(term) => todo.extend(self.world.symbols_of(term)),
                None => reads.push(definition.event),
            }
        }
        reads
    }

    pub(super) fn as_recorded(&mut self, write: EventId, as_observed: Bit) -> Written {
        let value = self.world.wrote(write);
        let known = if value.is_some() { as_observed } else { NO };
        Written { bits: constant(value.unwrap_or(0) as u64, 64), known, defined: true }
    }

    pub(super) fn of_term(&mut self, term: TermId) -> Written {
        let Value { number, known, undefined } = self.term(term);
        Written { bits: number.low(64), known: self.and(known, !undefined), defined: true }
    }

    pub(super) fn equate(&mut self, open: &Written, is: &Written) {
        let pairs = open.bits.iter().zip(&is.bits).map(|(&a, &b)| (a, b));
        for (a, b) in pairs.chain([(open.known, is.known)]).collect::<Vec<_>>() {
            self.line.clause([!a, b]);
            self.line.clause([a, !b]);
        }
    }

    /// Says what a write leaves that was left open.
    pub(super) fn define(&mut self, write: EventId) {
        let Role::Write(term) = self.world.symbolic.role(write) else { return };
        let open = self.writes[&write].clone();
        if !open.defined {
            self.writes.get_mut(&write).expect("was just read").defined = true;
            let is = self.of_term(term);
            self.equate(&open, &is);
        }
    }

    /// Encodes what was left open, as far as that is done at once.
    pub(super) fn settle_open(&mut self) {
        loop {
            if let Some(write) = self.open_observed.pop() {
                let is = self.is_as_observed(write);
                let open = self.observed[&write];
                self.line.clause([!open, is]);
                self.line.clause([open, !is]);
            } else if self.reads.len() < AT_ONCE
                && let Some(write) = self.open.pop()
            {
                self.define(write);
            } else {
                return;
            }
        }
    }
}
