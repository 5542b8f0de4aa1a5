//! Symbolic values: schedules in which reads take other values than they took.
//!
//! "Recipe: Relaxed Sound Predictive Analysis", a draft whose open sections docs/recipe.md fills in. Where recorded values
//! insist that reads see what they saw, this semantics only insists that every branch goes where it went, or the last one of a
//! thread the other way, where the trace says what happens then.
//!
//! Guarantee: an answer `Possible` comes with a schedule and the branches that diverge in it, which the checker accepts at level
//! `symbolic`; `Impossible` only if there is none.
//! Deviation: no external solver. Order and values go to one SAT solver, with the order theory attached and with numbers as
//! bits; and only as much of the trace goes there as concrete runs show to be necessary.
//! Cost: a run is linear in the events since the window began; see docs/recipe.md for the solver's part.

mod cells;
mod circuit;
mod encoding;
mod expressions;
mod number;
mod same;
mod sides;
mod terms;
mod values;

pub(crate) use expressions::Expressions;
pub(crate) use values::Symbolic;

use crate::maximal::index::Index;
use crate::maximal::proposal::Proposal;
use crate::maximal::run::Violation;
use crate::maximal::search::Search;
use crate::maximal::semantics::{Finds, Semantics};
use crate::maximal::solver::Truth;
use encoding::Encoding;
use snag_model::symbolic::Role;
use snag_model::{EventId, Op};
use values::WrongStep;

impl<'i> Semantics<'i> for Symbolic<'i> {
    type Broken = WrongStep;
    type Encoding = Encoding;

    const MOST_VIOLATIONS: usize = 16;
    const READS_YIELD: bool = true;
    const LEAVES_NOGOODS: bool = false;
    const KEEPS_OBSERVED: bool = false;
    const LOCAL: &'static [u32] = &[150, 1000];
    const LOCAL_ROUNDS: u32 = 100;

    fn new(index: &'i Index<'i>) -> Symbolic<'i> {
        Symbolic::new(index)
    }

    fn reset(&mut self, base: EventId) {
        self.reset(base);
    }

    fn is_taken(&self, proposal: &Proposal, event: EventId) -> bool {
        let branch = self.expressions.sides.branch_of(event);
        branch.is_some_and(|branch| proposal.diverging.contains(&branch))
    }

    fn counting(&self, _thread: usize, count: u32) -> u32 {
        count
    }

    fn finds(&self, proposal: &Proposal, read: EventId) -> Finds {
        match self.index.op(read).on_other_side() {
            true => Finds::Anything,
            false if self.sees_enough(proposal, read) => Finds::Expected,
            false => Finds::Unexpected,
        }
    }

    fn perform(
        &mut self,
        proposal: &Proposal,
        event: EventId,
        thread: usize,
        op: Op,
        violations: &mut Vec<Violation<WrongStep>>,
    ) {
        match op {
            Op::Let => self.define(event, thread, violations),
            Op::Branch | Op::MethodBegin => self.branch(proposal, event, thread, violations),
            _ => {
                if op.reads() {
                    self.read(event, thread);
                }
                if op.writes() {
                    self.write(event, thread, violations);
                }
            }
        }
    }

    /// A racing write has something to write.
    fn broken_by_target(&self, target: &[EventId]) -> Vec<Violation<WrongStep>> {
        let writes_nothing = |&event: &EventId| match self.expressions.symbolic.role(event) {
            Role::Write(term) => self.memory_of(event, term).is_err(),
            _ => false,
        };
        let broken = target.iter().copied().filter(writes_nothing);
        broken.map(|event| Violation::Value(WrongStep(event))).collect()
    }

    fn encoding(&self, target: &[EventId], may_diverge: bool) -> Encoding {
        Encoding::new(&self.expressions.sides, target, may_diverge)
    }

    fn propose(search: &Search<'_, 'i, Self>, proposal: &mut Proposal) {
        search.propose_values(proposal);
    }

    fn begin_round(search: &mut Search<'_, 'i, Self>) {
        search.reach_further();
    }

    fn learn(search: &mut Search<'_, 'i, Self>, WrongStep(event): WrongStep) {
        search.wrong_step(event);
    }

    /// What is on the other side of a branch does if that diverges.
    fn takes_effect(search: &mut Search<'_, 'i, Self>, event: EventId) -> Truth {
        search.takes_effect(event)
    }

    fn ends_before(search: &mut Search<'_, 'i, Self>, end: EventId, event: EventId) -> Truth {
        let earlier = search.formula.before(end, event);
        let takes_effect = search.takes_effect(end);
        search.and(earlier, takes_effect)
    }
}
