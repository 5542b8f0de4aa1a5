//! What a trace says that only this engine needs: the other sides of branches, who writes each cell on either side, and from
//! where to where locks are held if branches diverge.

use crate::maximal::index::Index;
use snag_model::symbolic::{Binary, Node, Role, Sort, Symbolic};
use snag_model::{DefinitionId, EventId, LockId, Op, TermId};
use std::collections::HashMap;

/// The other side of a branch.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub branch: EventId,
    /// The position in the thread at which it ends: there the trace goes on, or what comes cannot happen (a lock that is
    /// released without being held, or taken twice).
    pub end: u32,
    /// Whether the branch can be shown to go there at all.
    pub possible: bool,
}

/// From where to where a thread holds a lock.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub lock: LockId,
    pub thread: usize,
    pub shared: bool,
    pub start: EventId,
    /// The branch that must diverge for it to begin.
    pub side: Option<EventId>,
    /// Where it may end, and which branch must diverge for that.
    pub ends: Vec<(EventId, Option<EventId>)>,
}

/// Number of a span.
pub(crate) type SpanId = usize;

pub(crate) struct World<'i, 't> {
    pub index: &'i Index<'t>,
    pub symbolic: Symbolic,
    sides: Vec<Side>,
    /// 1 + the side that an event belongs to, or that a branch has; empty if there are none.
    side_of: Vec<u32>,
    /// Per cell the writes of the other sides.
    other_writes: HashMap<usize, Vec<EventId>>,
    pub spans: Vec<Span>,
    /// The span that an event of the trace begins or ends, and the same for events of other sides.
    other_spans: HashMap<EventId, SpanId>,
    /// The joins of each thread.
    pub joins: Vec<Vec<EventId>>,
    /// Per thread the positions of its reads.
    pub reads: Vec<Vec<u32>>,
    /// Whether each term has no value for some values of its symbols.
    partial: Vec<bool>,
    /// Per definition whether its value in the trace is known and says all about it (see [`World::is_plain`]).
    plain: Vec<bool>,
    /// Per definition whether it depends on no read at all.
    fixed: Vec<bool>,
}

impl<'i, 't> World<'i, 't> {
    /// Looks at a trace; the index is one for level `symbolic`.
    pub fn of(index: &'i Index<'t>) -> World<'i, 't> {
        let (trace, threads) = (index.trace, &index.threads);
        let symbolic = Symbolic::of(trace);
        let spans = index.sections.all().iter().map(|section| Span {
            lock: section.lock,
            thread: section.thread,
            shared: section.shared,
            start: section.start,
            side: None,
            ends: section.end.map(|end| (end, None)).into_iter().collect(),
        });
        let mut world = World {
            index,
            partial: partial(&symbolic),
            symbolic,
            sides: Vec::new(),
            side_of: Vec::new(),
            other_writes: HashMap::new(),
            spans: spans.collect(),
            other_spans: HashMap::new(),
            joins: vec![Vec::new(); threads.count()],
            reads: vec![Vec::new(); threads.count()],
            plain: Vec::new(),
            fixed: Vec::new(),
        };
        for (at, &op) in trace.events.ops().iter().enumerate() {
            let event = EventId::new(at);
            match op {
                Op::Join => world.joins[trace.events.targets()[at] as usize].push(event),
                op if op.reads() => world.reads[threads.thread(event)].push(threads.position(event)),
                _ => {}
            }
        }
        world.find_sides();
        world.find_plain();
        world
    }

    fn find_plain(&mut self) {
        for definition in self.symbolic.definitions() {
            let (mut plain, mut fixed) = (definition.value.is_some(), definition.value.is_some());
            match definition.term {
                // The symbols of a term are defined before.
                Some(term) => self.symbolic.symbols_of(term, &mut |symbol| {
                    plain &= self.plain[symbol.index()];
                    fixed &= self.fixed[symbol.index()];
                }),
                None => {
                    plain = plain && self.is_explained(definition.event);
                    fixed = false;
                }
            }
            self.plain.push(plain);
            self.fixed.push(fixed);
        }
    }

    /// Whether a symbol, if it is as in the trace, has the value that it has in the trace, and that is known; and
    /// whoever has that value may take it to be as in the trace.
    pub fn is_plain(&self, symbol: DefinitionId) -> bool {
        self.plain[symbol.index()]
    }

    /// The value of a symbol that depends on nothing that was read.
    pub fn fixed_value(&self, symbol: DefinitionId) -> Option<i128> {
        self.fixed[symbol.index()].then(|| self.symbolic.definition(symbol).value).flatten()
    }

    fn find_sides(&mut self) {
        let Index { trace, threads, cells, .. } = self.index;
        let ops = trace.events.ops();
        if !ops.iter().any(|op| op.on_other_side()) {
            return;
        }
        self.side_of = vec![0; trace.len()];
        let missing_methods = ops.contains(&Op::MethodBegin);
        for thread in 0..threads.count() {
            let events = threads.events(thread);
            let mut at = 0;
            while at < events.len() {
                let from = at;
                at += 1;
                while at < events.len() && ops[events[at].index()].on_other_side() {
                    at += 1;
                }
                if at == from + 1 {
                    continue;
                }
                let branch = events[from];
                let with_outcome = matches!(self.symbolic.role(branch), Role::Branch { outcome: Some(_), .. });
                let number = self.sides.len() as u32;
                for event in &events[from..at] {
                    self.side_of[event.index()] = number + 1;
                }
                let end = self.locks_of_side(thread, branch, &events[from + 1..at]);
                self.sides.push(Side { branch, end, possible: with_outcome && !missing_methods });
                for &event in events[from + 1..at].iter().filter(|event| ops[event.index()] == Op::OtherWrite) {
                    for cell in cells.of_event(event.index(), trace.events.targets()[event.index()]) {
                        self.other_writes.entry(cell).or_default().push(event);
                    }
                }
            }
        }
        self.other_writes.values_mut().for_each(|writes| writes.sort_unstable());
    }

    /// Follows the locks on the other side of a branch. The position up to which that side can happen.
    fn locks_of_side(&mut self, thread: usize, branch: EventId, events: &[EventId]) -> u32 {
        let Index { trace, threads, sections, .. } = self.index;
        let position = threads.position(branch);
        // How often a lock is held, and in which span.
        let mut holding: HashMap<LockId, (u32, SpanId)> = HashMap::new();
        for &event in events {
            let lock = LockId(trace.events.targets()[event.index()]);
            let op = trace.events.ops()[event.index()];
            if !matches!(op, Op::OtherAcquire | Op::OtherRelease) {
                continue;
            }
            let (count, span) = *holding.entry(lock).or_insert_with(|| {
                let hold = crate::maximal::sections::Hold { lock, shared: false };
                match sections.held(thread, position).contains(&hold) {
                    true => {
                        let open = sections.open(threads, thread, hold, position);
                        (depth(self.index, thread, lock, position), open.0 as usize)
                    }
                    false => (0, usize::MAX),
                }
            });
            let after = match op {
                Op::OtherAcquire if count == 0 => {
                    let start =
                        Span { lock, thread, shared: false, start: event, side: Some(branch), ends: Vec::new() };
                    self.other_spans.insert(event, self.spans.len());
                    self.spans.push(start);
                    (1, self.spans.len() - 1)
                }
                Op::OtherAcquire if trace.tables.lock_is_plain(lock) => return threads.position(event),
                Op::OtherAcquire => (count + 1, span),
                _ if count == 0 => return threads.position(event),
                _ => {
                    if count == 1 {
                        self.spans[span].ends.push((event, Some(branch)));
                        self.other_spans.insert(event, span);
                    }
                    (count - 1, span)
                }
            };
            holding.insert(lock, after);
        }
        position + 1 + events.len() as u32
    }

    /// The other side that an event of it belongs to.
    pub fn side_with(&self, event: EventId) -> Option<&Side> {
        self.index.op(event).on_other_side().then(|| self.side(event)).flatten()
    }

    /// The other side of a branch, or the one that an event belongs to.
    fn side(&self, event: EventId) -> Option<&Side> {
        let number = self.side_of.get(event.index())?.checked_sub(1)?;
        Some(&self.sides[number as usize])
    }

    /// The other side of a branch, if the branch can go there.
    pub fn side_of_branch(&self, branch: EventId) -> Option<&Side> {
        self.side(branch).filter(|side| side.branch == branch && side.possible)
    }

    /// The branch that must diverge for an event to happen.
    pub fn branch_of(&self, event: EventId) -> Option<EventId> {
        self.side_with(event).map(|side| side.branch)
    }

    /// The span that an event begins or ends.
    pub fn span_of(&self, event: EventId) -> Option<SpanId> {
        match self.index.op(event).on_other_side() {
            true => self.other_spans.get(&event).copied(),
            false => self.index.sections.of_event(event).map(|section| section.0 as usize),
        }
    }

    /// The writes of a cell on the other sides of branches.
    pub fn other_writes(&self, cell: usize) -> &[EventId] {
        self.other_writes.get(&cell).map_or(&[], Vec::as_slice)
    }

    /// Whether a term has no value for some values of its symbols.
    pub fn is_partial(&self, term: TermId) -> bool {
        self.partial[term.index()]
    }

    /// What a write wrote in the trace, where known.
    pub fn wrote(&self, write: EventId) -> Option<i64> {
        let event = self.index.trace.event(write);
        event.value_written().or_else(|| {
            let Role::Write(term) = self.symbolic.role(write) else { return None };
            let value =
                self.symbolic.evaluate(term, |definition| self.symbolic.definition(definition).value).ok()??;
            self.symbolic.term(term).sort.to_memory(value)
        })
    }

    /// Whether a read that finds what it found in the trace also finds the value that the trace says: then that value
    /// says all about it.
    pub fn is_explained(&self, read: EventId) -> bool {
        let memory = &self.index.memory;
        memory.cells_of(read).all(|cell| memory.wanted(read, cell).is_some())
    }

    /// The expression of an event, if it has one.
    pub fn terms_of(&self, event: EventId) -> Vec<TermId> {
        match self.symbolic.role(event) {
            Role::Branch { condition, .. } => vec![condition],
            Role::Write(term) => vec![term],
            Role::Let(definition) => self.symbolic.definition(definition).term.into_iter().collect(),
            Role::None | Role::Read(_) => Vec::new(),
        }
    }

    /// The symbols of a term, each once.
    pub fn symbols_of(&self, term: TermId) -> Vec<DefinitionId> {
        let mut symbols = Vec::new();
        self.symbolic.symbols_of(term, &mut |symbol| symbols.push(symbol));
        symbols.sort_unstable();
        symbols.dedup();
        symbols
    }
}

/// How often a thread holds a lock for writing after its first so many events.
fn depth(index: &Index, thread: usize, lock: LockId, count: u32) -> u32 {
    let (mut depth, mut given_up) = (0, 0);
    for &event in &index.threads.events(thread)[..count as usize] {
        let (target, aux) = (index.trace.events.targets()[event.index()], index.trace.events.aux(event.index()));
        match index.op(event) {
            Op::Acquire if target == lock.0 => depth += 1,
            Op::Release if target == lock.0 => depth -= 1,
            Op::WaitBegin if aux == lock.0 => given_up = std::mem::take(&mut depth),
            Op::WaitEnd if aux == lock.0 => depth += given_up,
            _ => {}
        }
    }
    depth
}

/// For each term whether it has no value for some values of its symbols.
fn partial(symbolic: &Symbolic) -> Vec<bool> {
    let mut partial: Vec<bool> = Vec::with_capacity(symbolic.terms().len());
    let constant = |term: TermId| match symbolic.term(term).node {
        Node::Constant(value) => Some(value),
        _ => None,
    };
    for term in symbolic.terms() {
        let of = |part: TermId| partial[part.index()];
        let width = |sort: Sort| sort.width().unwrap_or(64) as i128;
        let here = match term.node {
            Node::Constant(_) | Node::Symbol(_) => false,
            Node::Convert(a) | Node::Unary(_, a) => of(a),
            Node::Choose(a, b, c) => of(a) || of(b) || of(c),
            Node::Binary(operator, a, b) => {
                let alone = match operator {
                    Binary::Divide | Binary::Remainder => constant(b).is_none_or(|b| b == 0 || b == -1),
                    Binary::ShiftLeft | Binary::ShiftRight => {
                        constant(b).is_none_or(|b| !(0..width(symbolic.term(a).sort)).contains(&b))
                    }
                    _ => false,
                };
                alone || of(a) || of(b)
            }
        };
        partial.push(here);
    }
    partial
}
