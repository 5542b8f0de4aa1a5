//! Symbolic traces: what the events of a thread compute from what it has read.
//!
//! [`Symbolic`] is the symbolic side of a trace in dense form: every expression as
//! typed terms, every symbol bound to its definition, every branch with its
//! condition and outcome. It is built once from a trace that was read; building it
//! evaluates every expression on the recorded values, and reading a trace does the
//! same, so that a trace that lies about its own values is refused.
//!
//! What it all means is said in `docs/symbolic.md`.

mod build;
mod parse;
mod sort;
mod term;
mod terms;

pub(crate) use build::Builder;
pub use parse::Wrong;
pub use sort::Sort;
pub use term::{Binary, Evaluated, Node, Term, Unary, Undefined, binary, evaluate, unary};
pub use terms::Terms;

use crate::Trace;
use crate::events::Event;
use crate::ids::*;
use crate::op::Op;

/// A symbol of one thread, which one event defines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Definition {
    /// The thread.
    pub thread: ThreadId,
    /// The read or `let` that defines it.
    pub event: EventId,
    /// The type of its values.
    pub sort: Sort,
    /// What it is defined as; `None` for what a read finds in memory.
    pub term: Option<TermId>,
    /// Its value in the trace, where known. Never known on the other side of a branch.
    pub value: Option<i128>,
}

/// What an event has to do with symbols.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    /// Nothing.
    #[default]
    None,
    /// It reads into a symbol.
    Read(DefinitionId),
    /// It defines a symbol by a term.
    Let(DefinitionId),
    /// It writes the value of a term.
    Write(TermId),
    /// It goes one way if the term, a truth value, is true, and the other way if not.
    Branch {
        /// The condition.
        condition: TermId,
        /// Which way it went in the trace, where known. On the other side of a branch the condition must be true.
        outcome: Option<bool>,
    },
}

/// The symbolic side of a trace.
#[derive(Clone, Debug, Default)]
pub struct Symbolic {
    terms: Terms,
    definitions: Vec<Definition>,
    /// One per event; empty if the trace has no symbols at all.
    roles: Vec<Role>,
}

impl Symbolic {
    /// Looks at a well-formed trace.
    pub fn of(trace: &Trace) -> Symbolic {
        let mut builder = Builder::default();
        for (number, event) in trace.events.iter().enumerate() {
            if is_symbolic(&event) {
                builder.event(number, &event, &trace.tables).expect("the trace was validated");
            }
        }
        builder.finish(trace.len())
    }

    /// Whether the trace has anything symbolic. If not, every branch may depend on everything its thread has read.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty()
    }

    /// All terms; the parts of a term have smaller ids.
    pub fn terms(&self) -> &[Term] {
        self.terms.all()
    }

    /// A term.
    pub fn term(&self, id: TermId) -> Term {
        self.terms.all()[id.index()]
    }

    /// All definitions, in the order of their events.
    pub fn definitions(&self) -> &[Definition] {
        &self.definitions
    }

    /// A definition.
    pub fn definition(&self, id: DefinitionId) -> Definition {
        self.definitions[id.index()]
    }

    /// What an event has to do with symbols.
    #[inline]
    pub fn role(&self, event: EventId) -> Role {
        self.roles.get(event.index()).copied().unwrap_or_default()
    }

    /// The value of a term, given those of the symbols.
    pub fn evaluate(&self, term: TermId, symbol: impl Fn(DefinitionId) -> Option<i128>) -> Evaluated {
        evaluate(self.terms.all(), term, &symbol)
    }

    /// Calls `used` for every symbol of a term, those of shared parts more than once.
    pub fn symbols_of(&self, term: TermId, used: &mut impl FnMut(DefinitionId)) {
        match self.term(term).node {
            Node::Constant(_) => {}
            Node::Symbol(definition) => used(definition),
            Node::Convert(a) | Node::Unary(_, a) => self.symbols_of(a, used),
            Node::Binary(_, a, b) => {
                self.symbols_of(a, used);
                self.symbols_of(b, used);
            }
            Node::Choose(a, b, c) => [a, b, c].into_iter().for_each(|part| self.symbols_of(part, used)),
        }
    }
}

/// Whether an event has to do with symbols.
pub(crate) fn is_symbolic(event: &Event) -> bool {
    match event.op {
        Op::Read | Op::Write | Op::Branch => event.aux != 0,
        Op::Let => true,
        op => op.on_other_side(),
    }
}
