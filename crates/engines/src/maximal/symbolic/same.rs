//! What is as in the trace: reads that find what they found, and what follows from such reads alone.
//!
//! Where the trace says all values, that is a matter of values. Otherwise a thread that has read what it read does what
//! it did, known or not; and what it does without an expression is certain only then.

use crate::maximal::search::Search;
use crate::maximal::symbolic::Symbolic;
use crate::maximal::symbolic::cells::Seen;
use crate::maximal::symbolic::circuit::{Bit, NO, YES};
use snag_model::symbolic::Role;
use snag_model::{EventId, Op, TermId};
use std::collections::HashSet;

impl<'i> Search<'_, 'i, Symbolic<'i>> {
    /// That a read finds what it found in the trace.
    pub(super) fn agrees(&mut self, read: EventId) -> Bit {
        if let Some(&agrees) = self.encoding.agreeing.get(&read) {
            return agrees;
        }
        let memory = &self.index.memory;
        let mut all = YES;
        for at in 0..self.found(read).cells.len() {
            let Seen { cell, choices, bits, known, .. } = &self.encoding.reads[&read].cells[at];
            let (cell, bits, known) = (*cell, bits.clone(), *known);
            let observed = memory.seen(read, cell);
            let same = choices.iter().find(|choice| choice.source == observed).map(|choice| choice.chosen);
            let by_write = match (same, observed) {
                (None, _) => NO,
                (Some(chosen), None) => chosen,
                (Some(chosen), Some(write)) => {
                    let as_observed = self.as_observed_write(write);
                    self.and(chosen, as_observed)
                }
            };
            let by_value = match memory.wanted(read, cell) {
                Some(wanted) if !bits.is_empty() => self.equals(&bits, known, wanted.value),
                _ => NO,
            };
            let agrees = self.or(by_write, by_value);
            all = self.and(all, agrees);
        }
        self.encoding.agreeing.insert(read, all);
        all
    }

    /// That bits are known and those of a number.
    fn equals(&mut self, bits: &[Bit], known: Bit, value: u64) -> Bit {
        bits.iter().enumerate().fold(known, |equal, (at, &bit)| {
            let right = if value >> at & 1 == 1 { bit } else { !bit };
            self.and(equal, right)
        })
    }

    /// That a write does what it did in the trace. Left open at first.
    pub(super) fn as_observed_write(&mut self, write: EventId) -> Bit {
        if write < self.formula.base {
            return YES;
        }
        if let Some(&bit) = self.encoding.observed.get(&write) {
            return bit;
        }
        let bit = self.formula.fresh(true);
        self.encoding.observed.insert(write, bit);
        self.encoding.open_observed.push(write);
        bit
    }

    pub(super) fn is_as_observed(&mut self, write: EventId) -> Bit {
        let threads = &self.index.threads;
        let op = self.index.op(write);
        if op.on_other_side() {
            return NO;
        }
        let Role::Write(term) = self.expressions().symbolic.role(write) else {
            let rmw = op == Op::Rmw;
            return self.not_strayed(threads.thread(write), threads.position(write) + rmw as u32);
        };
        let same = self.as_observed_term(term);
        let Some(value) = self.index.trace.event(write).value_written() else { return same };
        let written = self.written(write);
        let equal = self.equals(&written.bits, written.known, value as u64);
        self.or(same, equal)
    }

    pub(super) fn as_observed_term(&mut self, term: TermId) -> Bit {
        // As in the trace are those symbols whose reads are.
        let (mut todo, mut seen) = (self.expressions().symbols_of(term), HashSet::new());
        let mut all = YES;
        while let Some(symbol) = todo.pop() {
            if self.is_settled(symbol) || !seen.insert(symbol) {
                continue;
            }
            let definition = self.expressions().symbolic.definition(symbol);
            let same = match definition.term {
                _ if self.index.op(definition.event).on_other_side() => NO,
                Some(term) => {
                    todo.extend(self.expressions().symbols_of(term));
                    continue;
                }
                None => self.agrees(definition.event),
            };
            all = self.and(all, same);
        }
        all
    }

    /// The position of the first read of a thread that may find something else.
    pub(super) fn first_read(&self, thread: usize) -> u32 {
        let reads = &self.expressions().reads[thread];
        let from = self.index.threads.count_before(thread, self.formula.base);
        reads.get(reads.partition_point(|&read| read < from)).copied().unwrap_or(u32::MAX)
    }

    /// That all reads among the first events of a thread find what they found in the trace.
    pub(super) fn not_strayed(&mut self, thread: usize, count: u32) -> Bit {
        let expressions = self.expressions();
        let from = self.index.threads.count_before(thread, self.formula.base);
        let mut all = YES;
        for &read in expressions.reads[thread].iter().filter(|&&read| read >= from && read < count) {
            let agrees = self.agrees(self.index.threads.event(thread, read));
            all = self.and(all, agrees);
        }
        all
    }
}
