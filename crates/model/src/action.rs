//! What an event does, with every operand as what it is.
//!
//! The columns of [`Events`](crate::Events) hold two bare numbers an event, whose meaning depends on the operation. An
//! [`Action`] is the same with types: [`Event::action`] reads it off, [`Event::of`] writes it down, and each is the
//! inverse of the other. Loops that look at every event of a long trace may read the columns; everything else speaks of
//! actions.

use crate::events::Event;
use crate::ids::*;
use crate::op::{MemoryOrder, Op};
use crate::tables::{Object, Space};

/// An operation and its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Action {
    /// A plain read, at level `symbolic` into a symbol.
    Read {
        variable: VarId,
        value: Option<i64>,
        into: Option<SymbolId>,
    },
    /// A plain write, at level `symbolic` of an expression.
    Write {
        variable: VarId,
        value: Option<i64>,
        of: Option<ExprId>,
    },
    AtomicRead {
        variable: VarId,
        order: MemoryOrder,
        value: Option<i64>,
    },
    AtomicWrite {
        variable: VarId,
        order: MemoryOrder,
        value: Option<i64>,
    },
    /// An atomic read-modify-write.
    Rmw {
        variable: VarId,
        order: MemoryOrder,
        read: Option<i64>,
        written: Option<i64>,
    },
    /// Takes a lock. Who `gives_up` would not have waited for it.
    Acquire {
        lock: LockId,
        mode: Mode,
        gives_up: bool,
    },
    Release {
        lock: LockId,
        mode: Mode,
    },
    /// Starts a thread, which an STD trace may spell in another way.
    Fork {
        thread: ThreadId,
        spelling: Option<TextId>,
    },
    Join {
        thread: ThreadId,
        spelling: Option<TextId>,
    },
    Begin,
    End,
    /// Releases the lock and begins to wait.
    WaitBegin {
        condition: CondId,
        lock: LockId,
    },
    /// Stops waiting: because of a notify, or because the time is over or for no reason at all.
    Wake {
        condition: CondId,
        by: Option<EventId>,
    },
    /// Has the lock again.
    WaitEnd {
        condition: CondId,
        lock: LockId,
    },
    Notify {
        condition: CondId,
    },
    NotifyAll {
        condition: CondId,
    },
    SemPost {
        semaphore: SemId,
    },
    SemWait {
        semaphore: SemId,
    },
    BarrierEnter {
        barrier: BarrierId,
    },
    BarrierLeave {
        barrier: BarrierId,
    },
    Alloc {
        variable: VarId,
    },
    Free {
        variable: VarId,
    },
    /// A call of a method whose inside was not observed, and what it could reach.
    MethodBegin {
        method: MethodId,
        reach: ReachId,
    },
    MethodEnd {
        method: MethodId,
    },
    /// What an object leads to, as the recorder saw it.
    Reach {
        object: VarId,
        leads_to: ReachId,
    },
    /// A branch: which way it went, where known, and what an STD trace has in brackets.
    Branch {
        condition: Option<ExprId>,
        taken: Option<i64>,
        text: Option<TextId>,
    },
    Let {
        symbol: SymbolId,
        is: ExprId,
    },
    /// A fence.
    Fence {
        order: MemoryOrder,
    },
    /// Finds out what state something is in, and changes nothing.
    Probe(Probe),
    /// What went wrong in the recorded run, or a wait that never ended.
    Fault(Fault),
    /// A line without meaning for prediction.
    Mark {
        text: TextId,
    },
    /// What the thread would have done next had its last branch gone the other way.
    Else(Else),
}

/// What a thread learned about a synchronisation object: what happened to it later may rest on that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    /// An attempt to take a lock failed: another thread holds it in a way that excludes this mode.
    Held {
        /// The lock.
        lock: LockId,
        /// How the thread tried to take it.
        mode: Mode,
    },
    /// The semaphore counts so much. Where an attempt to wait on it failed, that is nothing.
    Count {
        /// The semaphore.
        semaphore: SemId,
        /// How much it counts.
        count: u32,
    },
    /// An attempt to join a thread failed: it has been started and has not ended.
    Alive {
        /// The thread that was to be joined.
        thread: ThreadId,
    },
}

/// What a thread did in the recorded run that no program may do, and where it waited for ever. A schedule may have such
/// an event wherever its thread is; it has no effect there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It used memory that was freed.
    Stale {
        /// What it used.
        variable: VarId,
        /// In which way.
        how: Stale,
    },
    /// It began to wait for a lock, and never got it.
    Want {
        /// The lock.
        lock: LockId,
        /// How it wanted to have it.
        mode: Mode,
    },
    /// It gave back a lock that it did not hold.
    Unheld {
        /// The lock.
        lock: LockId,
    },
    /// It wanted a lock that was destroyed.
    Gone {
        /// The lock.
        lock: LockId,
    },
    /// It destroyed something, initialised it again, or freed the memory it is in. That is wrong only while somebody
    /// uses it, or may.
    Discard(Primitive),
}

/// What threads synchronise with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum Primitive {
    Lock(LockId),
    Condition(CondId),
    Semaphore(SemId),
    Barrier(BarrierId),
}

impl Primitive {
    /// How many kinds there are.
    pub const KINDS: u32 = 4;

    /// The one of this kind and number; of a kind that there is not, a barrier.
    pub fn of(kind: u32, id: u32) -> Primitive {
        match kind {
            0 => Primitive::Lock(LockId(id)),
            1 => Primitive::Condition(CondId(id)),
            2 => Primitive::Semaphore(SemId(id)),
            _ => Primitive::Barrier(BarrierId(id)),
        }
    }

    /// Its kind and number.
    pub fn parts(self) -> (u32, u32) {
        match self {
            Primitive::Lock(id) => (0, id.0),
            Primitive::Condition(id) => (1, id.0),
            Primitive::Semaphore(id) => (2, id.0),
            Primitive::Barrier(id) => (3, id.0),
        }
    }

    /// Its names.
    pub fn space(self) -> Space {
        match self {
            Primitive::Lock(_) => Space::Lock,
            Primitive::Condition(_) => Space::Condition,
            Primitive::Semaphore(_) => Space::Semaphore,
            Primitive::Barrier(_) => Space::Barrier,
        }
    }

    /// As an object that a missing method may reach.
    pub fn object(self) -> Object {
        match self {
            Primitive::Lock(id) => Object::Lock(id),
            Primitive::Condition(id) => Object::Condition(id),
            Primitive::Semaphore(id) => Object::Semaphore(id),
            Primitive::Barrier(id) => Object::Barrier(id),
        }
    }
}

/// How a thread uses memory that was freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Stale {
    Read,
    Write,
    Free,
}

/// How a lock is held.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// By one thread alone.
    Exclusive,
    /// By any number of readers.
    Shared,
}

/// What happens on the side of a branch that was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Else {
    Read {
        variable: VarId,
        into: Option<SymbolId>,
    },
    Write {
        variable: VarId,
        of: Option<ExprId>,
    },
    Let {
        symbol: SymbolId,
        is: ExprId,
    },
    /// A condition that must be true for the rest of this side to be known.
    Branch {
        condition: Option<ExprId>,
        text: Option<TextId>,
    },
    Acquire {
        lock: LockId,
    },
    Release {
        lock: LockId,
    },
}

impl Action {
    /// The variable that it is about: of an access, a heap block, or what an object leads to.
    #[inline]
    pub fn variable(self) -> Option<VarId> {
        match self {
            Action::Read { variable, .. }
            | Action::Write { variable, .. }
            | Action::AtomicRead { variable, .. }
            | Action::AtomicWrite { variable, .. }
            | Action::Rmw { variable, .. }
            | Action::Alloc { variable }
            | Action::Free { variable }
            | Action::Reach { object: variable, .. }
            | Action::Fault(Fault::Stale { variable, .. })
            | Action::Else(Else::Read { variable, .. } | Else::Write { variable, .. }) => Some(variable),
            _ => None,
        }
    }

    /// What happens if an event of the other side of a branch happens; any other action is itself.
    pub fn if_it_happens(self) -> Action {
        let Action::Else(other) = self else { return self };
        match other {
            Else::Read { variable, into } => Action::Read { variable, value: None, into },
            Else::Write { variable, of } => Action::Write { variable, value: None, of },
            Else::Let { symbol, is } => Action::Let { symbol, is },
            Else::Branch { condition, text } => Action::Branch { condition, taken: None, text },
            Else::Acquire { lock } => Action::Acquire { lock, mode: Mode::Exclusive, gives_up: false },
            Else::Release { lock } => Action::Release { lock, mode: Mode::Exclusive },
        }
    }

    /// What it touches (rule 3 of the model), but for the thread that does it.
    pub fn objects(self) -> impl Iterator<Item = Object> {
        let both = match self {
            Action::Acquire { lock, .. } | Action::Release { lock, .. } => [Some(Object::Lock(lock)), None],
            Action::WaitBegin { condition, lock } | Action::WaitEnd { condition, lock } => {
                [Some(Object::Lock(lock)), Some(Object::Condition(condition))]
            }
            Action::Wake { condition, .. } | Action::Notify { condition } | Action::NotifyAll { condition } => {
                [Some(Object::Condition(condition)), None]
            }
            Action::SemPost { semaphore } | Action::SemWait { semaphore } => [Some(Object::Semaphore(semaphore)), None],
            Action::BarrierEnter { barrier } | Action::BarrierLeave { barrier } => {
                [Some(Object::Barrier(barrier)), None]
            }
            Action::Fork { thread, .. } | Action::Join { thread, .. } => [Some(Object::Thread(thread)), None],
            Action::Probe(probe) => [Some(probe.object()), None],
            // No fault has an effect, and the others are nothing that the program did.
            Action::Fault(_) | Action::Reach { .. } | Action::Else(_) => [None, None],
            _ => [self.variable().map(Object::Variable), None],
        };
        both.into_iter().flatten()
    }

    /// What somebody may not destroy or free at the same time: a lock that it takes or gives back, a condition that it
    /// waits for or notifies, a semaphore, a barrier that it enters. (Whoever leaves a barrier may leave what is no
    /// longer there.)
    pub fn uses(self) -> impl Iterator<Item = Primitive> {
        let both = match self {
            Action::Acquire { lock, .. } | Action::Release { lock, .. } | Action::WaitEnd { lock, .. } => {
                [Some(Primitive::Lock(lock)), None]
            }
            Action::Probe(Probe::Held { lock, .. }) => [Some(Primitive::Lock(lock)), None],
            Action::WaitBegin { condition, lock } => {
                [Some(Primitive::Lock(lock)), Some(Primitive::Condition(condition))]
            }
            Action::Notify { condition } | Action::NotifyAll { condition } => {
                [Some(Primitive::Condition(condition)), None]
            }
            Action::SemPost { semaphore } | Action::SemWait { semaphore } => {
                [Some(Primitive::Semaphore(semaphore)), None]
            }
            Action::Probe(Probe::Count { semaphore, .. }) => [Some(Primitive::Semaphore(semaphore)), None],
            Action::BarrierEnter { barrier } => [Some(Primitive::Barrier(barrier)), None],
            _ => [None, None],
        };
        both.into_iter().flatten()
    }

    /// The lock that a thread has after it and had not before, or held once less, and how.
    #[inline]
    pub fn acquired(self) -> Option<(LockId, Mode)> {
        match self {
            Action::Acquire { lock, mode, .. } => Some((lock, mode)),
            Action::WaitEnd { lock, .. } => Some((lock, Mode::Exclusive)),
            _ => None,
        }
    }

    /// The lock that it takes or gives back, and how it is held in between.
    #[inline]
    pub fn lock(self) -> Option<(LockId, Mode)> {
        self.acquired().or(self.released())
    }

    /// The lock that a thread gives back by it, and how it had it.
    #[inline]
    pub fn released(self) -> Option<(LockId, Mode)> {
        match self {
            Action::Release { lock, mode } => Some((lock, mode)),
            Action::WaitBegin { lock, .. } => Some((lock, Mode::Exclusive)),
            _ => None,
        }
    }
}

impl Probe {
    /// What the thread has looked at.
    pub fn object(self) -> Object {
        match self {
            Probe::Held { lock, .. } => Object::Lock(lock),
            Probe::Count { semaphore, .. } => Object::Semaphore(semaphore),
            Probe::Alive { thread } => Object::Thread(thread),
        }
    }
}

/// An operand that may be missing: 0, or 1 + its number.
fn optional<T>(number: u32, id: fn(u32) -> T) -> Option<T> {
    number.checked_sub(1).map(id)
}

impl Event {
    /// What it does.
    #[inline]
    pub fn action(&self) -> Action {
        let Event { op, target, aux, value, written, .. } = *self;
        let (variable, order) = (VarId(target), self.memory_order());
        let (exclusive, shared) = (Mode::Exclusive, Mode::Shared);
        match op {
            Op::Read => Action::Read { variable, value, into: optional(aux, SymbolId) },
            Op::Write => Action::Write { variable, value, of: optional(aux, ExprId) },
            Op::AtomicRead => Action::AtomicRead { variable, order, value },
            Op::AtomicWrite => Action::AtomicWrite { variable, order, value },
            Op::Rmw => Action::Rmw { variable, order, read: value, written },
            Op::Acquire => Action::Acquire { lock: LockId(target), mode: exclusive, gives_up: aux != 0 },
            Op::Release => Action::Release { lock: LockId(target), mode: exclusive },
            Op::ReadAcquire => Action::Acquire { lock: LockId(target), mode: shared, gives_up: aux != 0 },
            Op::ReadRelease => Action::Release { lock: LockId(target), mode: shared },
            Op::Fork => Action::Fork { thread: ThreadId(target), spelling: optional(aux, TextId) },
            Op::Join => Action::Join { thread: ThreadId(target), spelling: optional(aux, TextId) },
            Op::Begin => Action::Begin,
            Op::End => Action::End,
            Op::WaitBegin => Action::WaitBegin { condition: CondId(target), lock: LockId(aux) },
            Op::Wake => Action::Wake { condition: CondId(target), by: optional(aux, EventId) },
            Op::WaitEnd => Action::WaitEnd { condition: CondId(target), lock: LockId(aux) },
            Op::Notify => Action::Notify { condition: CondId(target) },
            Op::NotifyAll => Action::NotifyAll { condition: CondId(target) },
            Op::SemPost => Action::SemPost { semaphore: SemId(target) },
            Op::SemWait => Action::SemWait { semaphore: SemId(target) },
            Op::BarrierEnter => Action::BarrierEnter { barrier: BarrierId(target) },
            Op::BarrierLeave => Action::BarrierLeave { barrier: BarrierId(target) },
            Op::Alloc => Action::Alloc { variable },
            Op::Free => Action::Free { variable },
            Op::MethodBegin => Action::MethodBegin { method: MethodId(target), reach: ReachId(aux) },
            Op::MethodEnd => Action::MethodEnd { method: MethodId(target) },
            Op::Reach => Action::Reach { object: variable, leads_to: ReachId(aux) },
            Op::Fence => Action::Fence { order },
            Op::Branch => {
                Action::Branch { condition: optional(aux, ExprId), taken: value, text: optional(target, TextId) }
            }
            Op::Let => Action::Let { symbol: SymbolId(target), is: ExprId(aux) },
            Op::TryFail => Action::Probe(Probe::Held { lock: LockId(target), mode: exclusive }),
            Op::ReadTryFail => Action::Probe(Probe::Held { lock: LockId(target), mode: shared }),
            Op::SemValue => Action::Probe(Probe::Count { semaphore: SemId(target), count: aux }),
            Op::JoinFail => Action::Probe(Probe::Alive { thread: ThreadId(target) }),
            Op::StaleRead => Action::Fault(Fault::Stale { variable, how: Stale::Read }),
            Op::StaleWrite => Action::Fault(Fault::Stale { variable, how: Stale::Write }),
            Op::StaleFree => Action::Fault(Fault::Stale { variable, how: Stale::Free }),
            Op::Want => Action::Fault(Fault::Want { lock: LockId(target), mode: exclusive }),
            Op::ReadWant => Action::Fault(Fault::Want { lock: LockId(target), mode: shared }),
            Op::Unheld => Action::Fault(Fault::Unheld { lock: LockId(target) }),
            Op::Gone => Action::Fault(Fault::Gone { lock: LockId(target) }),
            Op::Discard => Action::Fault(Fault::Discard(Primitive::of(aux, target))),
            Op::Mark => Action::Mark { text: TextId(target) },
            Op::OtherRead => Action::Else(Else::Read { variable, into: optional(aux, SymbolId) }),
            Op::OtherWrite => Action::Else(Else::Write { variable, of: optional(aux, ExprId) }),
            Op::OtherLet => Action::Else(Else::Let { symbol: SymbolId(target), is: ExprId(aux) }),
            Op::OtherBranch => {
                Action::Else(Else::Branch { condition: optional(aux, ExprId), text: optional(target, TextId) })
            }
            Op::OtherAcquire => Action::Else(Else::Acquire { lock: LockId(target) }),
            Op::OtherRelease => Action::Else(Else::Release { lock: LockId(target) }),
        }
    }

    /// The same event, but it does something else.
    pub fn doing(&self, action: Action) -> Event {
        Event { location: self.location, ..Event::of(self.thread, action) }
    }

    /// A thread's event that does this, without a location.
    pub fn of(thread: ThreadId, action: Action) -> Event {
        let number = |id: Option<u32>| id.map_or(0, |id| id + 1);
        let plain = |op: Op, target: u32| Event::new(thread, op, target);
        let with = |op: Op, target: u32, aux: u32| Event { aux, ..plain(op, target) };
        let valued = |op: Op, target: u32, aux: u32, value: Option<i64>| Event { value, ..with(op, target, aux) };
        match action {
            Action::Read { variable, value, into } => valued(Op::Read, variable.0, number(into.map(|id| id.0)), value),
            Action::Write { variable, value, of } => valued(Op::Write, variable.0, number(of.map(|id| id.0)), value),
            Action::AtomicRead { variable, order, value } => valued(Op::AtomicRead, variable.0, order as u32, value),
            Action::AtomicWrite { variable, order, value } => valued(Op::AtomicWrite, variable.0, order as u32, value),
            Action::Rmw { variable, order, read, written } => {
                Event { written, ..valued(Op::Rmw, variable.0, order as u32, read) }
            }
            Action::Acquire { lock, mode: Mode::Exclusive, gives_up } => with(Op::Acquire, lock.0, gives_up as u32),
            Action::Acquire { lock, mode: Mode::Shared, gives_up } => with(Op::ReadAcquire, lock.0, gives_up as u32),
            Action::Release { lock, mode: Mode::Exclusive } => plain(Op::Release, lock.0),
            Action::Release { lock, mode: Mode::Shared } => plain(Op::ReadRelease, lock.0),
            Action::Fork { thread, spelling } => with(Op::Fork, thread.0, number(spelling.map(|id| id.0))),
            Action::Join { thread, spelling } => with(Op::Join, thread.0, number(spelling.map(|id| id.0))),
            Action::Begin => plain(Op::Begin, 0),
            Action::End => plain(Op::End, 0),
            Action::WaitBegin { condition, lock } => with(Op::WaitBegin, condition.0, lock.0),
            Action::Wake { condition, by } => with(Op::Wake, condition.0, number(by.map(|id| id.0))),
            Action::WaitEnd { condition, lock } => with(Op::WaitEnd, condition.0, lock.0),
            Action::Notify { condition } => plain(Op::Notify, condition.0),
            Action::NotifyAll { condition } => plain(Op::NotifyAll, condition.0),
            Action::SemPost { semaphore } => plain(Op::SemPost, semaphore.0),
            Action::SemWait { semaphore } => plain(Op::SemWait, semaphore.0),
            Action::BarrierEnter { barrier } => plain(Op::BarrierEnter, barrier.0),
            Action::BarrierLeave { barrier } => plain(Op::BarrierLeave, barrier.0),
            Action::Alloc { variable } => plain(Op::Alloc, variable.0),
            Action::Free { variable } => plain(Op::Free, variable.0),
            Action::MethodBegin { method, reach } => with(Op::MethodBegin, method.0, reach.0),
            Action::MethodEnd { method } => plain(Op::MethodEnd, method.0),
            Action::Reach { object, leads_to } => with(Op::Reach, object.0, leads_to.0),
            Action::Fence { order } => with(Op::Fence, 0, order as u32),
            Action::Branch { condition, taken, text } => {
                let (text, condition) = (number(text.map(|id| id.0)), number(condition.map(|id| id.0)));
                valued(Op::Branch, text, condition, taken)
            }
            Action::Let { symbol, is } => with(Op::Let, symbol.0, is.0),
            Action::Probe(Probe::Held { lock, mode: Mode::Exclusive }) => plain(Op::TryFail, lock.0),
            Action::Probe(Probe::Held { lock, mode: Mode::Shared }) => plain(Op::ReadTryFail, lock.0),
            Action::Probe(Probe::Count { semaphore, count }) => with(Op::SemValue, semaphore.0, count),
            Action::Probe(Probe::Alive { thread }) => plain(Op::JoinFail, thread.0),
            Action::Fault(Fault::Stale { variable, how: Stale::Read }) => plain(Op::StaleRead, variable.0),
            Action::Fault(Fault::Stale { variable, how: Stale::Write }) => plain(Op::StaleWrite, variable.0),
            Action::Fault(Fault::Stale { variable, how: Stale::Free }) => plain(Op::StaleFree, variable.0),
            Action::Fault(Fault::Want { lock, mode: Mode::Exclusive }) => plain(Op::Want, lock.0),
            Action::Fault(Fault::Want { lock, mode: Mode::Shared }) => plain(Op::ReadWant, lock.0),
            Action::Fault(Fault::Unheld { lock }) => plain(Op::Unheld, lock.0),
            Action::Fault(Fault::Gone { lock }) => plain(Op::Gone, lock.0),
            Action::Fault(Fault::Discard(primitive)) => {
                let (kind, id) = primitive.parts();
                with(Op::Discard, id, kind)
            }
            Action::Mark { text } => plain(Op::Mark, text.0),
            Action::Else(Else::Read { variable, into }) => with(Op::OtherRead, variable.0, number(into.map(|id| id.0))),
            Action::Else(Else::Write { variable, of }) => with(Op::OtherWrite, variable.0, number(of.map(|id| id.0))),
            Action::Else(Else::Let { symbol, is }) => with(Op::OtherLet, symbol.0, is.0),
            Action::Else(Else::Branch { condition, text }) => {
                with(Op::OtherBranch, number(text.map(|id| id.0)), number(condition.map(|id| id.0)))
            }
            Action::Else(Else::Acquire { lock }) => plain(Op::OtherAcquire, lock.0),
            Action::Else(Else::Release { lock }) => plain(Op::OtherRelease, lock.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events with every operation, and operands that are there and that are not.
    fn events() -> Vec<Event> {
        let mut events = Vec::new();
        for op in Op::ALL {
            for (target, aux) in [(1, 0), (2, 1), (3, 4)] {
                let aux = match op {
                    Op::Acquire | Op::ReadAcquire => aux.min(1),
                    Op::Release | Op::ReadRelease | Op::OtherAcquire | Op::OtherRelease | Op::Mark => 0,
                    Op::Notify | Op::NotifyAll | Op::SemPost | Op::SemWait | Op::BarrierEnter | Op::BarrierLeave => 0,
                    Op::Alloc | Op::Free | Op::MethodEnd | Op::Begin | Op::End => 0,
                    Op::TryFail | Op::ReadTryFail | Op::JoinFail => 0,
                    Op::Discard => aux.min(3),
                    op if op.is_fault() => 0,
                    _ => aux,
                };
                let target = if matches!(op, Op::Begin | Op::End | Op::Fence) { 0 } else { target };
                let value = op.takes_value().then_some(7);
                let written = (op == Op::Rmw).then_some(8);
                events.push(Event { aux, value, written, ..Event::new(ThreadId(5), op, target) });
            }
        }
        events
    }

    #[test]
    fn an_event_is_its_action_and_back() {
        for event in events() {
            assert_eq!(Event::of(event.thread, event.action()), event);
        }
    }

    #[test]
    fn what_happens_on_the_other_side_is_what_its_operation_says() {
        for event in events() {
            let happens = Event::of(event.thread, event.action().if_it_happens());
            assert_eq!((happens.op, happens.target, happens.aux), (event.op.if_it_happens(), event.target, event.aux));
        }
    }

    #[test]
    fn an_action_knows_its_variable_if_the_operation_has_one() {
        for event in events() {
            assert_eq!(event.action().variable().is_some(), event.op.has_variable(), "{event:?}");
        }
    }

    #[test]
    fn locks_are_taken_and_given_back_also_around_a_wait() {
        let act = |op, target, aux| Event { aux, ..Event::new(ThreadId(0), op, target) }.action();
        assert_eq!(act(Op::Acquire, 3, 0).acquired(), Some((LockId(3), Mode::Exclusive)));
        assert_eq!(act(Op::WaitEnd, 1, 4).acquired(), Some((LockId(4), Mode::Exclusive)));
        assert_eq!(act(Op::WaitBegin, 1, 4).released(), Some((LockId(4), Mode::Exclusive)));
        assert_eq!(act(Op::ReadRelease, 2, 0).released(), Some((LockId(2), Mode::Shared)));
        assert_eq!(act(Op::Notify, 2, 0).acquired(), None);
    }
}
