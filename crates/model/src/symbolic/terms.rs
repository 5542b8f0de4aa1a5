//! The terms of a trace, each held once.

use super::sort::Sort;
use super::term::{Node, Term};
use crate::ids::TermId;
use std::collections::HashMap;

/// Terms by id; the parts of a term have smaller ids than the term.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    all: Vec<Term>,
    ids: HashMap<Term, TermId>,
}

impl Terms {
    /// The id of a term, which is added if it is new.
    pub fn add(&mut self, term: Term) -> TermId {
        *self.ids.entry(term).or_insert_with(|| {
            self.all.push(term);
            TermId::new(self.all.len() - 1)
        })
    }

    /// All terms.
    pub fn all(&self) -> &[Term] {
        &self.all
    }

    /// A term as a truth value.
    pub fn truth(&mut self, term: TermId) -> TermId {
        match self.sort(term) {
            Sort::Bool => term,
            _ => self.add(Term { sort: Sort::Bool, node: Node::Convert(term) }),
        }
    }

    /// The type of a term.
    pub fn sort(&self, term: TermId) -> Sort {
        self.all[term.index()].sort
    }
}
