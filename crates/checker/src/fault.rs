//! Faults: what went wrong in the recorded run.
//!
//! Guarantee: what is accepted happened, by the letter of `docs/model.md`. There is no schedule to execute, as nothing
//! is predicted: the trace itself is looked at, from its beginning to the event at which the fault happened.
//!
//! What only might have happened, the end of something that another thread uses, needs a schedule like a race.
//!
//! Cost: one look at each event before the fault.

use crate::checker::Checker;
use crate::machine::Check;
use crate::violation::{ScheduleRule, Violation};
use snag_model::{
    Action, BarrierId, CondId, EventId, Fault, FaultKind, Level, LockId, Mode, Op, Primitive, Stale, ThreadId, VarId,
    Variable,
};

impl Checker<'_> {
    /// Whether a fault of this kind happened at `second`. `first` is what made it one: the free of the memory, or the
    /// last event before that took or gave back the lock, if there is one.
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
            (FaultKind::LockMisuse, Action::Fault(Fault::Gone { lock })) => self.was_destroyed(first, second, lock),
            (FaultKind::DestroyedInUse, Action::Fault(Fault::Discard(primitive))) => match primitive {
                Primitive::Lock(lock) => self.is_held(first, second, lock),
                Primitive::Condition(condition) => self.is_waited_for(first, second, condition),
                Primitive::Barrier(barrier) => self.is_filling(first, second, barrier),
                Primitive::Semaphore(_) => {
                    let detail = format!("nobody knows who waits at {}", self.text(second));
                    Err(Violation::new(ScheduleRule::NotInUse, second, detail))
                }
            },
            _ => {
                let detail = format!("{} is no '{}'", self.text(second), kind.word());
                Err(Violation::new(ScheduleRule::OtherFault, second, detail))
            }
        }
    }

    /// Whether a schedule is feasible at a level and leads up to a use of something and to its end, by different
    /// threads, which can come next in either order.
    pub fn check_end_in_use(
        &self,
        schedule: impl IntoIterator<Item = EventId>,
        first: EventId,
        second: EventId,
        level: Level,
    ) -> Check {
        self.are_events_of_different_threads(&[first, second])?;
        let (used, ended) = (self.trace().action(first), self.trace().action(second));
        let is_end =
            matches!(ended, Action::Fault(Fault::Discard(primitive)) if used.uses().any(|used| used == primitive));
        if !is_end {
            let detail = format!("{} does not use what ends at {}", self.text(first), self.text(second));
            return Err(Violation::new(ScheduleRule::OtherFault, second, detail));
        }
        let after = self.run(schedule, level)?;
        for event in [first, second] {
            after.is_next(event)?;
            after.leads_to(event)?;
            after.missing_methods(event)?;
        }
        Ok(())
    }

    /// The lock came to its end at `end`, and nobody has taken it between that and `second`.
    fn was_destroyed(&self, end: Option<EventId>, second: EventId, lock: LockId) -> Check {
        let trace = self.trace();
        let is_about = |event: &EventId| {
            let action = trace.action(*event);
            action == Action::Fault(Fault::Discard(Primitive::Lock(lock)))
                || action.lock().is_some_and(|(other, _)| other == lock)
        };
        let last = (0..second.0).rev().map(EventId).find(is_about);
        if last.is_some() && last == end && trace.events.ops()[last.expect("some").index()] == Op::Discard {
            return Ok(());
        }
        let detail = format!("it is not what destroyed the lock of {}", self.text(second));
        Err(Violation::new(ScheduleRule::NotMisused, second, detail))
    }

    /// Somebody holds the lock before `second`, and `last` is what last changed who does.
    fn is_held(&self, last: Option<EventId>, second: EventId, lock: LockId) -> Check {
        let (held, changed) = self.holders(second, lock);
        if !held.is_empty() && changed == last {
            return Ok(());
        }
        let detail = match held.is_empty() {
            true => format!("nobody holds the lock at {}", self.text(second)),
            false => format!("another event is the last one of its lock before {}", self.text(second)),
        };
        Err(Violation::new(ScheduleRule::NotInUse, second, detail))
    }

    /// A wait for the condition began with `wait`, and its thread was not woken before `second`.
    fn is_waited_for(&self, wait: Option<EventId>, second: EventId, condition: CondId) -> Check {
        let trace = self.trace();
        let begins = |&wait: &EventId| {
            wait < second
                && matches!(trace.action(wait), Action::WaitBegin { condition: other, .. } if other == condition)
        };
        let waits = |wait: EventId| {
            let own = |&event: &EventId| trace.thread_of(event) == trace.thread_of(wait);
            !(wait.0 + 1..second.0).map(EventId).any(|event| own(&event))
        };
        if wait.filter(begins).is_some_and(waits) {
            return Ok(());
        }
        let detail = format!("the thread that is named does not wait at {}", self.text(second));
        Err(Violation::new(ScheduleRule::NotInUse, second, detail))
    }

    /// Threads have entered the barrier before `second`, the last one at `last`, and wait for others.
    fn is_filling(&self, last: Option<EventId>, second: EventId, barrier: BarrierId) -> Check {
        let trace = self.trace();
        let declared = trace.tables.declarations.barriers.iter().find(|known| known.0 == barrier);
        let enters = |event: &EventId| trace.action(*event) == Action::BarrierEnter { barrier };
        let entered: Vec<EventId> = (0..second.0).map(EventId).filter(enters).collect();
        let waits = declared.is_some_and(|&(_, parties)| !entered.len().is_multiple_of(parties as usize));
        if waits && entered.last().copied() == last {
            return Ok(());
        }
        let detail = format!("nobody is known to wait at the barrier of {}", self.text(second));
        Err(Violation::new(ScheduleRule::NotInUse, second, detail))
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
        let (held, changed) = self.holders(second, lock);
        if held.contains(&thread) != does {
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

    /// The threads that hold a lock before an event, and the last event that took it or gave it back.
    fn holders(&self, second: EventId, lock: LockId) -> (Vec<ThreadId>, Option<EventId>) {
        let trace = self.trace();
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
        (held.into_iter().map(|(holder, ..)| holder).collect(), changed)
    }
}
