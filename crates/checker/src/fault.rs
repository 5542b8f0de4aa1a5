//! Faults: what went wrong in the recorded run.
//!
//! Guarantee: what is accepted happened, by the letter of `docs/model.md`. There is no schedule to execute, as nothing is
//! predicted: the trace itself is looked at, from its beginning to the event at which the fault happened.
//!
//! Cost: one look at each event before the fault.

use crate::checker::Checker;
use crate::machine::Check;
use crate::violation::{ScheduleRule, Violation};
use snag_model::{Action, EventId, Fault, FaultKind, LockId, Mode, Op, Stale, ThreadId, VarId, Variable};

impl Checker<'_> {
    /// Whether a fault of this kind happened at `second`. `first` is what made it one: the free of the memory, or the last
    /// event before that took or gave back the lock, if there is one.
    pub fn check_fault(&self, kind: FaultKind, first: Option<EventId>, second: EventId) -> Check {
        self.are_events(first.into_iter().chain([second]))?;
        match (kind, self.trace().action(second)) {
            (FaultKind::UseAfterFree, Action::Fault(Fault::Stale { variable, how: Stale::Read | Stale::Write })) => {
                self.was_freed(first, second, variable)
            }
            (FaultKind::DoubleFree, Action::Fault(Fault::Stale { variable, how: Stale::Free })) => {
                self.was_freed(first, second, variable)
            }
            (FaultKind::LockMisuse, Action::Fault(Fault::Unheld { lock })) => self.holds(first, second, lock, false),
            (FaultKind::LockMisuse, Action::Fault(Fault::Want { lock, .. })) => self.holds(first, second, lock, true),
            _ => {
                let detail = format!("{} is no '{}'", self.text(second), kind.word());
                Err(Violation::new(ScheduleRule::OtherFault, second, detail))
            }
        }
    }

    /// `free` freed memory that is used at `second`, and it was not handed out again in between.
    fn was_freed(&self, free: Option<EventId>, second: EventId, used: VarId) -> Check {
        let trace = self.trace();
        let about = |event: EventId| match trace.events.ops()[event.index()] {
            Op::Alloc | Op::Free => trace.action(event).variable().is_some_and(|variable| self.overlap(variable, used)),
            _ => false,
        };
        let last = (0..second.0).rev().map(EventId).find(|&event| about(event));
        if last.is_some() && last == free && trace.events.ops()[last.expect("some").index()] == Op::Free {
            return Ok(());
        }
        let text = self.text(second);
        let detail = match last {
            Some(last) if free.is_some() => format!("{} is what came last to the memory of {text}", self.text(last)),
            _ => format!("nothing is named that freed the memory of {text}"),
        };
        Err(Violation::new(ScheduleRule::NotFreed, second, detail))
    }

    fn overlap(&self, one: VarId, other: VarId) -> bool {
        let tables = &self.trace().tables;
        match (tables.variable(one), tables.variable(other)) {
            (Variable::Range { address: a, size: m }, Variable::Range { address: b, size: n }) => {
                a <= b + (n - 1) && b <= a + (m - 1)
            }
            _ => one == other,
        }
    }

    /// Whether the thread of `second` holds the lock there is `does`, and `last` is what last changed who holds it.
    fn holds(&self, last: Option<EventId>, second: EventId, lock: LockId, does: bool) -> Check {
        let trace = self.trace();
        let thread = trace.thread_of(second);
        // Who holds the lock, how, and how often; for each thread how often it held the lock when a wait gave it up.
        let mut held: Vec<(ThreadId, Mode, u32)> = Vec::new();
        let mut given_up: Vec<(ThreadId, u32)> = Vec::new();
        let mut changed = None;
        for event in (0..second.0).map(EventId) {
            let (action, own) = (trace.action(event), trace.thread_of(event));
            let Some((_, mode)) = action.lock().filter(|&(about, _)| about == lock) else { continue };
            changed = Some(event);
            let at = held.iter().position(|&(holder, how, _)| (holder, how) == (own, mode));
            match (action, at) {
                (Action::Acquire { .. }, Some(at)) => held[at].2 += 1,
                (Action::Acquire { .. }, None) => held.push((own, mode, 1)),
                (Action::WaitEnd { .. }, _) => {
                    let before = given_up.iter().rposition(|&(waiter, _)| waiter == own);
                    held.push((own, mode, before.map_or(1, |at| given_up.swap_remove(at).1)));
                }
                (Action::WaitBegin { .. }, Some(at)) => given_up.push((own, held.swap_remove(at).2)),
                (_, Some(at)) if held[at].2 > 1 => held[at].2 -= 1,
                (_, Some(at)) => _ = held.swap_remove(at),
                (_, None) => {}
            }
        }
        if held.iter().any(|&(holder, ..)| holder == thread) != does {
            let whether = if does { "does not hold" } else { "holds" };
            let detail = format!(
                "thread {} {whether} lock {} at {}",
                trace.tables.thread_name(thread),
                trace.tables.lock_name(lock),
                self.text(second)
            );
            return Err(Violation::new(ScheduleRule::NotMisused, second, detail));
        }
        if changed != last {
            let detail = match changed {
                Some(changed) => {
                    format!("{} is the last event of its lock before {}", self.text(changed), self.text(second))
                }
                None => format!("no event of its lock is before {}", self.text(second)),
            };
            return Err(Violation::new(ScheduleRule::NotMisused, second, detail));
        }
        Ok(())
    }
}
