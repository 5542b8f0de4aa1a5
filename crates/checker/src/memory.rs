//! What the reads of a trace saw: which write, and which initial memory.

use crate::hidden::Hidden;
use crate::source::{Source, Sources};
use snag_model::{Cells, EventId, Op, Trace, VarId, Variable};
use std::collections::HashMap;
use std::hint::select_unpredictable;

/// The write that each read saw, cell by cell.
pub(crate) struct Seen {
    /// Of each event the index in `sources`; empty if every event has one cell,
    /// and then the index is the event.
    start: Vec<usize>,
    /// One per cell of each read; meaningless where an event does not read.
    sources: Vec<Source>,
}

impl Seen {
    /// For the events before `end`; also finds what code that was not observed saw. Goes by the columns: it looks at
    /// every event before the first check, and mostly there is little to check.
    pub fn of(trace: &Trace, cells: &Cells, end: usize, hidden: &mut Hidden) -> Seen {
        let mut last = Sources::new(cells.count());
        let mut start = Vec::new();
        let mut sources = Vec::with_capacity(if cells.are_variables() { end } else { 0 });
        for (index, (&op, &target)) in trace.events.ops()[..end].iter().zip(trace.events.targets()).enumerate() {
            if cells.are_variables() & op.is_plain_access() {
                // Both take the same path, because which of the two comes next is hard to predict.
                let (seen, writes) = (last.get(target as usize), op == Op::Write);
                sources.push(seen);
                let written = Source::write(EventId::new(index));
                last.set(target as usize, select_unpredictable(writes, written, seen));
                continue;
            }
            if cells.are_variables() {
                sources.push(if op.reads() { last.get(target as usize) } else { Source::INITIAL });
            } else {
                start.push(sources.len());
                if op.reads() {
                    sources.extend(cells.of_event(index, target).map(|cell| last.get(cell)));
                }
            }
            if op.writes() {
                for cell in cells.of_event(index, target) {
                    last.set(cell, Source::write(EventId::new(index)));
                }
            }
            if matches!(op, Op::MethodBegin | Op::MethodEnd) {
                for access in hidden.at(EventId::new(index)) {
                    let cell = hidden.cell(access);
                    hidden.seen[access] = last.get(cell);
                    last.set(cell, Source::write(EventId::new(index)));
                }
            }
        }
        Seen { start, sources }
    }

    /// What a read saw if every event has one cell.
    #[inline(always)]
    pub fn by_simple(&self, read: EventId) -> Source {
        self.sources[read.index()]
    }

    /// What the read `index` saw, in each of its so many cells.
    #[inline(always)]
    pub fn by(&self, index: usize, cells: usize) -> &[Source] {
        let start = if self.start.is_empty() { index } else { self.start[index] };
        &self.sources[start..start + cells]
    }
}

/// What memory held before the first event: what the trace declares, or else what
/// the first read found that no write precedes.
pub(crate) struct Initial {
    /// Per cell; empty if the trace holds no values.
    values: Vec<Option<u64>>,
}

impl Initial {
    pub fn of(trace: &Trace, cells: &Cells) -> Initial {
        let declared = &trace.tables.declarations.initial;
        if !trace.events.has_values() && declared.is_empty() {
            return Initial { values: Vec::new() };
        }
        let mut values = first_reads(trace, cells);
        for (cell, said) in declarations(trace, cells) {
            values[cell] = said.complete(values[cell]);
        }
        Initial { values }
    }

    /// What a cell held, where that is known.
    pub fn value(&self, cell: usize) -> Option<u64> {
        self.values.get(cell).copied().flatten()
    }
}

/// What the first access of each cell found, where that is a read whose value is known.
fn first_reads(trace: &Trace, cells: &Cells) -> Vec<Option<u64>> {
    let mut values = vec![None; cells.count()];
    let mut accessed = vec![false; cells.count()];
    for (index, event) in trace.events.iter().enumerate().filter(|(_, event)| event.op.is_access()) {
        let Some(variable) = event.action().variable() else { continue };
        for cell in cells.of_event(index, variable.0) {
            if !std::mem::replace(&mut accessed[cell], true) {
                let whole = trace.tables.variable(variable);
                values[cell] = event.value_read().and_then(|value| cells.slice(whole, value, cell));
            }
        }
    }
    values
}

/// What declarations say about a cell. A declared range may cover part of a cell.
#[derive(Default)]
struct Said {
    value: u64,
    /// The bits of `value` that are said.
    bits: u64,
    /// The bits that the cell has.
    all: u64,
}

impl Said {
    /// Takes what is not said from what the first read found.
    fn complete(&self, found: Option<u64>) -> Option<u64> {
        if self.bits == self.all {
            return Some(self.value);
        }
        found.map(|found| found & !self.bits | self.value)
    }
}

/// What the trace declares, per cell. Heap memory is allocated after the first
/// event, so no declaration is about it.
fn declarations(trace: &Trace, cells: &Cells) -> HashMap<usize, Said> {
    let mut said: HashMap<usize, Said> = HashMap::new();
    let declared = &trace.tables.declarations.initial;
    if declared.is_empty() {
        return said;
    }
    let place = Places::of(trace, cells);
    // What is declared first counts, as it does for semaphores and barriers.
    for &(variable, value) in declared.iter().rev() {
        match trace.tables.variable(variable) {
            Variable::Named(_) => {
                if let Some(&cell) = place.named.get(&variable) {
                    said.insert(cell, Said { value: value as u64, bits: u64::MAX, all: u64::MAX });
                }
            }
            // A value of eight bytes does not say what a larger range holds.
            Variable::Range { size, .. } if size > 8 => {}
            Variable::Range { address, size } => {
                for &(start, bytes, cell) in place.overlapping(address, size).filter(|piece| piece.1 <= 8) {
                    let cell = said.entry(cell).or_insert(Said { all: ones(bytes), ..Said::default() });
                    let from = start.max(address);
                    let to = (start + (bytes - 1)).min(address + (size - 1));
                    let bits = ones(to - from + 1) << (8 * (from - start));
                    let moved = ((value as u64) >> (8 * (from - address))) << (8 * (from - start));
                    cell.value = cell.value & !bits | moved & bits;
                    cell.bits |= bits;
                }
            }
        }
    }
    said
}

/// A mask of so many bytes, at most eight.
fn ones(bytes: u64) -> u64 {
    u64::MAX >> (64 - 8 * bytes)
}

/// Where memory that is not heap lies.
struct Places {
    named: HashMap<VarId, usize>,
    /// First byte, number of bytes and cell, by address.
    ranges: Vec<(u64, u64, usize)>,
}

impl Places {
    fn of(trace: &Trace, cells: &Cells) -> Places {
        let mut named = HashMap::new();
        let mut ranges = Vec::new();
        for (index, event) in trace.events.iter().enumerate().filter(|(_, event)| event.op.if_it_happens().is_access())
        {
            let Some(variable) = event.action().variable() else { continue };
            let cell = cells.of_event(index, variable.0).start;
            if cells.allocated_by(cell).is_none() && matches!(trace.tables.variable(variable), Variable::Named(_)) {
                named.insert(variable, cell);
            }
        }
        for cell in (0..cells.count()).filter(|&cell| cells.allocated_by(cell).is_none()) {
            if let Some((start, bytes)) = cells.bytes(cell) {
                ranges.push((start, bytes, cell));
            }
        }
        ranges.sort_unstable();
        Places { named, ranges }
    }

    fn overlapping(&self, address: u64, size: u64) -> impl Iterator<Item = &(u64, u64, usize)> {
        let from = self.ranges.partition_point(|(start, bytes, _)| start + (bytes - 1) < address);
        self.ranges[from..].iter().take_while(move |(start, ..)| *start <= address + (size - 1))
    }
}
