//! Nogoods: what a refutation teaches about other questions.
//!
//! A search that ends in a contradiction has used of its question only that some events happen and that some others do
//! not: the bounds that the clauses of its unsatisfiable core mention. So no feasible schedule contains the former and
//! none of the latter, whatever the question is. Threads that keep out of each other's way by means of their own do so
//! a thousand times in the same manner; one nogood refutes all of them at the price of one search.

use crate::maximal::cuts::Cuts;
use crate::maximal::threads::Threads;
use snag_model::EventId;

/// So many nogoods are remembered, those that were of use last.
const MOST: usize = 256;

/// What a clause takes from the bounds of its question.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fact {
    Happens(EventId),
    DoesNot(EventId),
    /// That the trace begins as it was.
    Fixed,
}

/// No feasible schedule contains the first `least` events of each thread and not more than the first `most`.
#[derive(Clone)]
pub(crate) struct Nogood {
    least: Vec<u32>,
    most: Vec<u32>,
    /// That holds only if the trace begins as it was.
    fixed: bool,
}

impl Nogood {
    /// Nothing was used yet.
    pub fn new(threads: usize) -> Nogood {
        Nogood { least: vec![0; threads], most: vec![u32::MAX; threads], fixed: false }
    }

    /// It was used that an event happens, or that it does not.
    pub fn add(&mut self, threads: &Threads, fact: Fact) {
        match fact {
            Fact::Happens(event) => {
                let least = &mut self.least[threads.thread(event)];
                *least = (*least).max(threads.position(event) + 1);
            }
            Fact::DoesNot(event) => {
                let most = &mut self.most[threads.thread(event)];
                *most = (*most).min(threads.position(event));
            }
            Fact::Fixed => self.fixed = true,
        }
    }

    /// Whether it refutes a question with these bounds about the whole trace.
    pub fn refutes(&self, cuts: &Cuts) -> bool {
        if self.fixed {
            return false;
        }
        let enough = self.least.iter().zip(&cuts.least).all(|(used, least)| used <= least);
        enough && self.most.iter().zip(&cuts.most).all(|(used, most)| used >= most)
    }
}

/// The nogoods that questions about one trace have led to.
#[derive(Default)]
pub(crate) struct Nogoods {
    /// The one that was of use last comes last.
    known: Vec<Nogood>,
}

impl Nogoods {
    pub fn add(&mut self, nogood: Nogood) {
        if nogood.fixed {
            return;
        }
        if self.known.len() == MOST {
            self.known.remove(0);
        }
        self.known.push(nogood);
    }

    /// Whether one of them refutes a question with these bounds.
    pub fn refute(&mut self, cuts: &Cuts) -> bool {
        let Some(at) = self.known.iter().rposition(|nogood| nogood.refutes(cuts)) else { return false };
        self.known[at..].rotate_left(1);
        true
    }
}
