//! What values mean: all that distinguishes one instance of the refinement loop from another.
//!
//! | | [`Recorded`](crate::maximal::recorded::Recorded) | [`Symbolic`](crate::maximal::symbolic::Symbolic) |
//! |---|---|---|
//! | levels | `writer`, `value`, `control` | `symbolic` |
//! | a read that counts | finds what it found in the trace | may find anything |
//! | a broken rule | a read that counts finds something else | a branch goes elsewhere, a result is undefined |
//! | its clauses | which writes the read may see | the bits of what is read, computed and written |
//!
//! One half of it runs ([`Values`]), the other learns ([`Semantics`]). Everything else, from locks to the solver, is
//! the same for all.

use crate::maximal::index::Index;
use crate::maximal::proposal::Proposal;
use crate::maximal::run::Violation;
use crate::maximal::search::Search;
use crate::maximal::solver::Truth;
use snag_model::{EventId, Op};

/// What a read would find if it happened now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Finds {
    /// What it should.
    Expected,
    /// Something else.
    Unexpected,
    /// It does not matter.
    Anything,
}

/// Memory while a run goes on: what it holds, and whether an event can go on.
pub(crate) trait Values<'i>: Sized {
    /// A rule about values that a run broke.
    type Broken: std::fmt::Debug;

    /// After so many broken rules a run is given up: what follows is about a schedule that will never be.
    const MOST_VIOLATIONS: usize;
    /// Where no thread can go on without breaking a rule, a read takes what is there, and that alone breaks none.
    const READS_YIELD: bool;

    fn new(index: &'i Index<'i>) -> Self;

    /// Memory is as it was in the trace before an event.
    fn reset(&mut self, base: EventId);

    /// Whether an event on the other side of a branch takes effect.
    fn is_taken(&self, _proposal: &Proposal, _event: EventId) -> bool {
        false
    }

    /// The first so many events of a thread are to happen.
    fn extend(&mut self, _thread: usize, _count: u32) {}

    /// Of the first `count` events of a thread, how many are to find what they are to see.
    fn counting(&self, _thread: usize, count: u32) -> u32 {
        count
    }

    /// A read is to see a write in a cell.
    fn demand(&mut self, _read: EventId, _cell: usize, _write: EventId) {}

    /// What a read would find.
    fn finds(&self, proposal: &Proposal, read: EventId) -> Finds;

    /// An event happens and does this to memory.
    fn perform(
        &mut self,
        proposal: &Proposal,
        event: EventId,
        thread: usize,
        op: Op,
        violations: &mut Vec<Violation<Self::Broken>>,
    );

    /// Rules that the events of the target would break, if nothing else did.
    fn broken_by_target(&self, _target: &[EventId]) -> Vec<Violation<Self::Broken>> {
        Vec::new()
    }
}

/// What the solver is told about values: which clauses exclude a broken rule.
pub(crate) trait Semantics<'i>: Values<'i> {
    /// What one search has told the solver.
    type Encoding;

    /// Each clause notes what it takes from the bounds of its question, so that refutations leave nogoods.
    const LEAVES_NOGOODS: bool;
    /// Schedules that keep all that was observed are worth a look before any search.
    const KEEPS_OBSERVED: bool;
    /// How many events before the target the local stage lets go of, one attempt after the other, and for how many
    /// rounds.
    const LOCAL: &'static [u32];
    const LOCAL_ROUNDS: u32;

    /// Nothing was told yet; branches may go the other way or not.
    fn encoding(&self, target: &[EventId], may_diverge: bool) -> Self::Encoding;

    /// Adds to a proposal what the solver has said about values.
    fn propose(search: &Search<'_, 'i, Self>, proposal: &mut Proposal);

    /// A round of learning begins.
    fn begin_round(_search: &mut Search<'_, 'i, Self>) {}

    /// Adds the clauses that exclude what broke a rule.
    fn learn(search: &mut Search<'_, 'i, Self>, broken: Self::Broken);

    /// That an event, if it happens, takes effect.
    fn takes_effect(_search: &mut Search<'_, 'i, Self>, _event: EventId) -> Truth {
        Truth::Known(true)
    }

    /// That a section ends, with this event, before another event.
    fn ends_before(search: &mut Search<'_, 'i, Self>, end: EventId, event: EventId) -> Truth {
        search.formula.before(end, event)
    }
}
