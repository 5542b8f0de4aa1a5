//! What a trace says about values and branches, for questions at level `symbolic`.

use crate::maximal::memory::Memory;
use crate::maximal::sections::Sections;
use crate::maximal::symbolic::sides::Sides;
use crate::maximal::threads::Threads;
use snag_model::symbolic::{Binary, Node, Role, Sort, Symbolic};
use snag_model::{Cells, DefinitionId, EventId, Op, TermId, Trace};

/// What a trace says about values and branches.
pub(crate) struct Expressions<'t> {
    trace: &'t Trace,
    pub symbolic: Symbolic,
    pub sides: Sides,
    /// The joins of each thread.
    pub joins: Vec<Vec<EventId>>,
    /// Per event whether code that was not observed may have run directly before it; empty if no method is missing.
    in_call: Vec<bool>,
    /// Per thread the positions of its reads.
    pub reads: Vec<Vec<u32>>,
    /// Whether each term has no value for some values of its symbols.
    partial: Vec<bool>,
    /// Per definition whether its value in the trace is known and says all about it (see [`Expressions::is_plain`]).
    plain: Vec<bool>,
    /// Per definition whether it depends on no read at all.
    fixed: Vec<bool>,
}

impl<'t> Expressions<'t> {
    /// Looks at a trace, and adds the critical sections on the other sides of branches to those of the trace.
    pub fn of(
        trace: &'t Trace,
        cells: &Cells,
        threads: &Threads,
        memory: &Memory,
        sections: &mut Sections,
    ) -> Expressions<'t> {
        let symbolic = Symbolic::of(trace);
        let mut expressions = Expressions {
            trace,
            sides: Sides::of(trace, cells, &symbolic, threads, sections),
            partial: partial(&symbolic),
            symbolic,
            joins: vec![Vec::new(); threads.count()],
            in_call: in_call(trace),
            reads: vec![Vec::new(); threads.count()],
            plain: Vec::new(),
            fixed: Vec::new(),
        };
        for (at, &op) in trace.events.ops().iter().enumerate() {
            let event = EventId::new(at);
            match op {
                Op::Join => expressions.joins[trace.events.targets()[at] as usize].push(event),
                op if op.reads() => expressions.reads[threads.thread(event)].push(threads.position(event)),
                _ => {}
            }
        }
        expressions.find_plain(memory);
        expressions
    }

    /// Whether an event belongs to a call of a missing method: it may depend on all that its thread has read.
    #[inline]
    pub fn in_call(&self, event: EventId) -> bool {
        self.in_call.get(event.index()).copied().unwrap_or(false)
    }

    fn find_plain(&mut self, memory: &Memory) {
        for definition in self.symbolic.definitions() {
            let (mut plain, mut fixed) = (definition.value.is_some(), definition.value.is_some());
            match definition.term {
                // The symbols of a term are defined before.
                Some(term) => self.symbolic.symbols_of(term, &mut |symbol| {
                    plain &= self.plain[symbol.index()];
                    fixed &= self.fixed[symbol.index()];
                }),
                None => {
                    plain = plain && is_explained(memory, definition.event);
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

    /// Whether a term has no value for some values of its symbols.
    pub fn is_partial(&self, term: TermId) -> bool {
        self.partial[term.index()]
    }

    /// What a write wrote in the trace, where known.
    pub fn wrote(&self, write: EventId) -> Option<i64> {
        let event = self.trace.event(write);
        event.value_written().or_else(|| {
            let Role::Write(term) = self.symbolic.role(write) else { return None };
            let value =
                self.symbolic.evaluate(term, |definition| self.symbolic.definition(definition).value).ok()??;
            self.symbolic.term(term).sort.to_memory(value)
        })
    }

    /// The expression of an event, if it has one.
    pub fn term_of(&self, event: EventId) -> Option<TermId> {
        match self.symbolic.role(event) {
            Role::Branch { condition, .. } => Some(condition),
            Role::Write(term) => Some(term),
            Role::Let(definition) => self.symbolic.definition(definition).term,
            Role::None | Role::Read(_) => None,
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

/// Whether a read that finds what it found in the trace also finds the value that the trace says: then that value says
/// all about it.
fn is_explained(memory: &Memory, read: EventId) -> bool {
    memory.cells_of(read).all(|cell| memory.wanted(read, cell).is_some())
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

/// See [`Expressions::in_call`].
fn in_call(trace: &Trace) -> Vec<bool> {
    let ops = trace.events.ops();
    if !ops.contains(&Op::MethodBegin) {
        return Vec::new();
    }
    let mut open = vec![0u32; trace.tables.thread_count()];
    let events = ops.iter().zip(trace.events.threads());
    let inside = events.map(|(&op, thread)| {
        let open = &mut open[thread.index()];
        let inside = *open > 0;
        match op {
            Op::MethodBegin => *open += 1,
            Op::MethodEnd => *open -= 1,
            _ => {}
        }
        inside
    });
    inside.collect()
}
