//! Who writes each cell, what each read saw, and which other writes would have served it as well.

use crate::maximal::lower::HIDDEN;
use crate::maximal::threads::Threads;
use snag_model::Level;
use snag_model::{Cells, EventId, Op, Pointers, Trace, VarId, Variable};
use std::collections::HashMap;

/// Where the content of a cell comes from: `None` is the initial memory.
pub(crate) type Source = Option<EventId>;

/// The writes of one cell by one thread, in order.
pub(crate) struct Writes<'m> {
    pub thread: usize,
    pub events: &'m [EventId],
}

/// What a write must leave in a cell to serve a read as well as the one it saw.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Wanted {
    pub value: u64,
    /// If that is an address of memory that was allocated more than once: in which allocation.
    target: Option<EventId>,
}

pub(crate) struct Memory<'t> {
    trace: &'t Trace,
    cells: &'t Cells,
    level: Level,
    /// Where the writes of each cell begin in `writes`; they are sorted by thread, then by event.
    start: Vec<u32>,
    writes: Vec<EventId>,
    /// The writes of each cell again, those with a known value first, sorted by what they leave, thread and event; the values;
    /// and how many they are. Empty if the trace has no values or the level does not care.
    by_value: Vec<EventId>,
    values: Vec<u64>,
    known: Vec<u32>,
    /// Where the lists of each cell begin in `lists`; each list is a thread and where its writes begin.
    list_start: Vec<u32>,
    lists: Vec<(u32, u32)>,
    /// Where what an event saw begins in `seen`; empty if cells are variables, and then it is the event.
    seen_start: Vec<u32>,
    /// Per cell of each read 1 + the write it saw, or 0.
    seen: Vec<u32>,
    /// What the initial memory holds, where known; empty if the trace has no values.
    initial: Vec<Option<u64>>,
    /// Which writes leave an address of memory that was allocated more than once.
    pointers: Pointers,
}

impl<'t> Memory<'t> {
    pub fn of(trace: &'t Trace, cells: &'t Cells, threads: &Threads, level: Level) -> Memory<'t> {
        let (seen_start, seen) = seen(trace, cells);
        let mut memory = Memory {
            trace,
            cells,
            level,
            start: Vec::new(),
            writes: Vec::new(),
            by_value: Vec::new(),
            values: Vec::new(),
            known: Vec::new(),
            list_start: Vec::new(),
            lists: Vec::new(),
            seen_start,
            seen,
            initial: Vec::new(),
            pointers: Pointers::of(trace, cells.ops(), trace.len()),
        };
        memory.sort_writes(threads);
        if trace.events.has_values() || !trace.tables.declarations.initial.is_empty() {
            memory.find_initial();
            if level != Level::Writer {
                memory.sort_by_value(threads);
            }
        }
        memory
    }

    fn sort_writes(&mut self, threads: &Threads) {
        let (trace, cells) = (self.trace, self.cells);
        let mut start = vec![0; cells.count() + 1];
        for_each_write(trace, cells, |_, cell| start[cell + 1] += 1);
        for cell in 0..cells.count() {
            start[cell + 1] += start[cell];
        }
        let mut fill = start.clone();
        let mut writes = vec![EventId(0); start[cells.count()] as usize];
        // Thread by thread, so that the writes of a cell come out sorted by thread.
        for thread in 0..threads.count() {
            for &event in threads.events(thread) {
                let index = event.index();
                if trace.events.ops()[index].writes() {
                    for cell in cells.of_event(index, trace.events.targets()[index]) {
                        writes[fill[cell] as usize] = event;
                        fill[cell] += 1;
                    }
                }
            }
        }
        for cell in 0..cells.count() {
            self.list_start.push(self.lists.len() as u32);
            let mut last = usize::MAX;
            for at in start[cell]..start[cell + 1] {
                let thread = threads.thread(writes[at as usize]);
                if thread != last {
                    self.lists.push((thread as u32, at));
                    last = thread;
                }
            }
        }
        self.list_start.push(self.lists.len() as u32);
        (self.start, self.writes) = (start, writes);
    }

    fn sort_by_value(&mut self, threads: &Threads) {
        self.values = vec![0; self.writes.len()];
        self.by_value = vec![EventId(0); self.writes.len()];
        let mut of_cell: Vec<(Wanted, u32, EventId)> = Vec::new();
        for cell in 0..self.cells.count() {
            let start = self.start[cell] as usize;
            of_cell.clear();
            for &write in &self.writes[start..self.start[cell + 1] as usize] {
                if let Some(left) = self.left(Some(write), cell) {
                    of_cell.push((left, threads.thread(write) as u32, write));
                }
            }
            of_cell.sort_unstable();
            for (at, &(left, _, write)) in of_cell.iter().enumerate() {
                (self.values[start + at], self.by_value[start + at]) = (left.value, write);
            }
            self.known.push(of_cell.len() as u32);
        }
    }

    /// The writes of a cell that leave something, thread by thread. Only if some read wants that.
    pub fn writes_of(&self, threads: &Threads, cell: usize, wanted: Wanted) -> impl Iterator<Item = Writes<'_>> {
        let start = self.start[cell] as usize;
        let values = &self.values[start..start + self.known[cell] as usize];
        let from = values.partition_point(|&other| other < wanted.value);
        let to = from + values[from..].partition_point(|&other| other == wanted.value);
        let mut left = &self.by_value[start + from..start + to];
        if !self.pointers.is_empty() {
            left = &left[left.partition_point(|&write| self.pointers.target(write) < wanted.target)..];
            left = &left[..left.partition_point(|&write| self.pointers.target(write) == wanted.target)];
        }
        std::iter::from_fn(move || {
            let thread = threads.thread(*left.first()?);
            let (events, rest) = left.split_at(left.partition_point(|&event| threads.thread(event) <= thread));
            left = rest;
            Some(Writes { thread, events })
        })
    }

    /// The cells that an access or a free touches.
    #[inline]
    pub fn cells_of(&self, event: EventId) -> std::ops::Range<usize> {
        self.cells.of_event(event.index(), self.trace.events.targets()[event.index()])
    }

    /// The writes of a cell, thread by thread.
    pub fn writes(&self, cell: usize) -> impl Iterator<Item = Writes<'_>> {
        self.lists(cell).map(move |at| self.list(cell, at))
    }

    /// The numbers of the lists of a cell.
    pub fn lists(&self, cell: usize) -> std::ops::Range<usize> {
        self.list_start[cell] as usize..self.list_start[cell + 1] as usize
    }

    /// How many lists all cells have.
    pub fn list_count(&self) -> usize {
        self.lists.len()
    }

    /// A list of a cell by its number.
    pub fn list(&self, cell: usize, number: usize) -> Writes<'_> {
        let (thread, from) = self.lists[number];
        let is_last = number + 1 == self.list_start[cell + 1] as usize;
        let to = if is_last { self.start[cell + 1] } else { self.lists[number + 1].1 };
        Writes { thread: thread as usize, events: &self.writes[from as usize..to as usize] }
    }

    /// The last write of a cell before an event of the trace.
    pub fn last_before(&self, cell: usize, event: EventId) -> Source {
        if event == EventId(0) {
            return None;
        }
        let last = |list: Writes| list.events[..list.events.partition_point(|&w| w < event)].last().copied();
        self.writes(cell).filter_map(last).max()
    }

    /// What a read saw in one of its cells.
    #[inline]
    pub fn seen(&self, read: EventId, cell: usize) -> Source {
        let at = match self.seen_start.is_empty() {
            true => read.index(),
            false => self.seen_start[read.index()] as usize + (cell - self.cells_of(read).start),
        };
        self.seen[at].checked_sub(1).map(EventId)
    }

    /// The same for any event; what did not read saw nothing.
    pub fn seen_or_none(&self, event: EventId, cell: usize) -> Source {
        self.trace.events.ops()[event.index()].reads().then(|| self.seen(event, cell)).flatten()
    }

    /// What a read found in one of its cells, where known.
    fn value_read(&self, read: EventId, cell: usize) -> Option<u64> {
        self.slice(read, self.trace.events.value(read.index())?, cell)
    }

    /// What a write, or the initial memory, leaves in a cell, where known.
    pub fn value_left(&self, source: Source, cell: usize) -> Option<u64> {
        let Some(write) = source else { return self.initial.get(cell).copied().flatten() };
        let events = &self.trace.events;
        let value = match events.ops()[write.index()] {
            Op::Rmw => events.written(write.index())?,
            _ => events.value(write.index())?,
        };
        self.slice(write, value, cell)
    }

    fn slice(&self, event: EventId, value: i64, cell: usize) -> Option<u64> {
        let variable = self.trace.tables.variable(VarId(self.trace.events.targets()[event.index()]));
        self.cells.slice(variable, value, cell)
    }

    /// What a write, or the initial memory, leaves in a cell, where known: all that matters to reads.
    fn left(&self, source: Source, cell: usize) -> Option<Wanted> {
        let value = self.value_left(source, cell)?;
        Some(Wanted { value, target: source.and_then(|write| self.pointers.target(write)) })
    }

    /// What other writes must leave to serve a read as well as the one it saw; `None` if none can.
    pub fn wanted(&self, read: EventId, cell: usize) -> Option<Wanted> {
        if self.level == Level::Writer || self.initial.is_empty() {
            return None;
        }
        let left = self.left(self.seen(read, cell), cell)?;
        let is_hidden =
            self.trace.events.aux(read.index()) == HIDDEN && self.trace.events.ops()[read.index()] == Op::Read;
        (is_hidden || self.value_read(read, cell) == Some(left.value)).then_some(left)
    }

    /// What a read that must be kept finds in a cell in every schedule, if the last thing before all other writes was
    /// `start`: the value it wants, or what `start` left if it saw that, known or not.
    pub fn always_read(&self, read: EventId, cell: usize, start: Source) -> Option<u64> {
        let from_start = || (self.seen(read, cell) == start).then(|| self.value_read(read, cell)).flatten();
        self.wanted(read, cell).map(|wanted| wanted.value).or_else(from_start)
    }

    /// Whether a read that must be kept may see this, as far as one cell goes.
    pub fn may_see(&self, read: EventId, cell: usize, source: Source) -> bool {
        source == self.seen(read, cell)
            || self.wanted(read, cell).is_some_and(|wanted| self.left(source, cell) == Some(wanted))
    }

    /// The initial memory holds what is declared first, or else what the first read found that no write precedes.
    fn find_initial(&mut self) {
        let (trace, cells) = (self.trace, self.cells);
        let mut values = vec![None; cells.count()];
        let mut accessed = vec![false; cells.count()];
        for (index, &op) in trace.events.ops().iter().enumerate().filter(|(_, op)| op.is_access()) {
            let id = EventId::new(index);
            for cell in self.cells_of(id) {
                if !std::mem::replace(&mut accessed[cell], true) && op.reads() {
                    values[cell] = self.value_read(id, cell);
                }
            }
        }
        self.declare(&mut values);
        self.initial = values;
    }

    fn declare(&self, values: &mut [Option<u64>]) {
        let declared = &self.trace.tables.declarations.initial;
        if declared.is_empty() {
            return;
        }
        let mut named: HashMap<u32, usize> = HashMap::new();
        for (index, _) in self.trace.events.ops().iter().enumerate().filter(|(_, op)| op.is_access()) {
            let target = self.trace.events.targets()[index];
            if let Variable::Named(_) = self.trace.tables.variable(VarId(target)) {
                let cell = self.cells.of_event(index, target).start;
                if self.cells.allocated_by(cell).is_none() {
                    named.insert(target, cell);
                }
            }
        }
        let mut bytes: Vec<(u64, u64, usize)> = (0..self.cells.count())
            .filter(|&cell| self.cells.allocated_by(cell).is_none())
            .filter_map(|cell| self.cells.bytes(cell).map(|(start, size)| (start, size, cell)))
            .filter(|&(_, size, _)| size <= 8)
            .collect();
        bytes.sort_unstable();
        // What is declared first counts: later declarations are laid down before it.
        let mut said: HashMap<usize, [Option<u8>; 8]> = HashMap::new();
        for &(variable, value) in declared.iter().rev() {
            match self.trace.tables.variable(variable) {
                Variable::Named(_) => {
                    if let Some(&cell) = named.get(&variable.0) {
                        values[cell] = Some(value as u64);
                    }
                }
                Variable::Range { size, .. } if size > 8 => {}
                Variable::Range { address, size } => {
                    let last = address + (size - 1);
                    let from = bytes.partition_point(|&(start, size, _)| start + (size - 1) < address);
                    for &(start, size, cell) in bytes[from..].iter().take_while(|piece| piece.0 <= last) {
                        let known = said.entry(cell).or_default();
                        for byte in start.max(address)..=(start + (size - 1)).min(last) {
                            known[(byte - start) as usize] = Some(value.to_le_bytes()[(byte - address) as usize]);
                        }
                    }
                }
            }
        }
        for &(_, size, cell) in &bytes {
            let Some(known) = said.get(&cell) else { continue };
            let known = &known[..size as usize];
            let found = match (values[cell], known.iter().all(Option::is_some)) {
                (_, true) => 0,
                (Some(found), _) => found,
                (None, _) => continue,
            };
            let mut whole = found.to_le_bytes();
            for (byte, said) in whole.iter_mut().zip(known) {
                *byte = said.unwrap_or(*byte);
            }
            values[cell] = Some(u64::from_le_bytes(whole));
        }
    }
}

fn for_each_write(trace: &Trace, cells: &Cells, mut visit: impl FnMut(usize, usize)) {
    for (index, (&op, &target)) in trace.events.ops().iter().zip(trace.events.targets()).enumerate() {
        if op.writes() {
            cells.of_event(index, target).for_each(|cell| visit(index, cell));
        }
    }
}

fn seen(trace: &Trace, cells: &Cells) -> (Vec<u32>, Vec<u32>) {
    let mut last = vec![0; cells.count()];
    let (mut start, mut seen) = (Vec::new(), Vec::new());
    for (index, (&op, &target)) in trace.events.ops().iter().zip(trace.events.targets()).enumerate() {
        if cells.are_variables() {
            seen.push(if op.reads() { last[target as usize] } else { 0 });
        } else {
            start.push(seen.len() as u32);
            if op.reads() {
                seen.extend(cells.of_event(index, target).map(|cell| last[cell]));
            }
        }
        if op.writes() {
            cells.of_event(index, target).for_each(|cell| last[cell] = index as u32 + 1);
        }
    }
    (start, seen)
}
