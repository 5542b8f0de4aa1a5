//! The rules of a well-formed trace.
//!
//! A [`Validator`] follows a stream of events and stops at the first one that
//! breaks a rule. It is part of reading: no engine, checker or writer has to
//! cope with a malformed trace. One state word per thread and lock; an access by
//! a running thread costs one look at its thread's state.

mod heap;

use crate::action::Primitive;
use crate::bits::bits_of;
use crate::events::{Event, Events};
use crate::ids::*;
use crate::op::{MemoryOrder, Op};
use crate::symbolic::Builder;
use crate::tables::{Object, Space, Tables};
use heap::Heap;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

/// The rules, each broken by exactly one kind of mistake.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rule {
    /// A thread has no event before its fork.
    EventBeforeFork,
    /// A thread is forked at most once.
    ForkedTwice,
    /// A thread neither forks nor joins itself.
    ForkOrJoinOfSelf,
    /// A thread has no event after it was joined.
    EventAfterJoin,
    /// `begin` is the first event of its thread.
    BeginNotFirst,
    /// A thread has no event after its `end`.
    EventAfterEnd,
    /// A lock is held by one thread at a time.
    LockHeld,
    /// A lock declared non-re-entrant is not acquired again by its holder.
    AcquiredTwice,
    /// A lock is released by its holder.
    ForeignRelease,
    /// A lock that is released is held.
    ReleaseNotHeld,
    /// The lock of a wait is held when the wait begins.
    WaitWithoutLock,
    /// Between `wait-begin` and `wait-end` a thread does nothing but wake up.
    EventWhileWaiting,
    /// A wake-up and a `wait-end` follow their `wait-begin`, on the same condition and lock.
    NoSuchWait,
    /// A wake-up names an earlier notify of its condition.
    NoSuchNotify,
    /// A notify wakes threads whose wait began before it.
    NotifyBeforeWait,
    /// A `notify` wakes one thread.
    NotifyUsedTwice,
    /// A semaphore never goes below zero.
    SemaphoreBelowZero,
    /// An attempt to take a lock fails only while another thread holds it.
    NothingHeld,
    /// A semaphore counts what its posts and waits say.
    OtherCount,
    /// An attempt to join a thread fails only after its fork and before its end.
    NotAlive,
    /// A thread is inside a barrier once.
    BarrierEnteredTwice,
    /// A thread leaves a barrier that it entered.
    BarrierNotEntered,
    /// Nobody leaves a barrier before all have entered.
    BarrierLeftEarly,
    /// Live heap blocks do not overlap.
    BlocksOverlap,
    /// What is freed is exactly one live heap block.
    FreeOfNoBlock,
    /// An access to a heap range lies between its alloc and its free.
    AccessAfterFree,
    /// An access lies inside one heap block, or outside all.
    AccessAcrossBlocks,
    /// Methods nest.
    MethodsDoNotNest,
    /// What a missing method is given was described before: what it leads to.
    ObjectNotDescribed,
    /// A symbol is defined once in its thread.
    SymbolDefinedTwice,
    /// A symbol is defined before its use, in the same thread.
    SymbolUndefined,
    /// An expression is well formed.
    BadExpression,
    /// A value fits the type of its symbol.
    ValueOutOfType,
    /// An address range is as wide as the type of what is read from it or written to it.
    WidthDiffers,
    /// What is written, and the way a branch goes, are what their expressions say.
    WrongValue,
    /// An expression has a value where it is computed.
    UndefinedResult,
    /// The other side of a branch follows the branch, which has a condition.
    OtherSideWithoutBranch,
    /// A memory order fits its operation.
    BadMemoryOrder,
    /// Memory that is used after its end is in no live block.
    NotFreed,
    /// Who waits for a lock for ever waits for one that is held.
    WantedIsFree,
    /// A thread that waits for ever does nothing more.
    EventAfterWant,
    /// Who gives back a lock that it does not hold does not hold it.
    UnheldIsHeld,
    /// An id stands for something.
    UnknownName,
}

impl Rule {
    /// The rule as a sentence.
    pub fn text(self) -> &'static str {
        match self {
            Rule::EventBeforeFork => "a thread has no event before its fork",
            Rule::ForkedTwice => "a thread is forked at most once",
            Rule::ForkOrJoinOfSelf => "a thread neither forks nor joins itself",
            Rule::EventAfterJoin => "a thread has no event after it was joined",
            Rule::BeginNotFirst => "'begin' is the first event of its thread",
            Rule::EventAfterEnd => "a thread has no event after its 'end'",
            Rule::LockHeld => "a lock is held by one thread at a time",
            Rule::AcquiredTwice => "a lock declared plain is not acquired again by its holder",
            Rule::ForeignRelease => "a lock is released by its holder",
            Rule::ReleaseNotHeld => "a lock that is released is held",
            Rule::WaitWithoutLock => "the lock of a wait is held when the wait begins",
            Rule::EventWhileWaiting => "a waiting thread does nothing but wake up and end its wait",
            Rule::NoSuchWait => "a wake-up and a wait-end follow their wait-begin on the same condition and lock",
            Rule::NoSuchNotify => "a wake-up names an earlier notify of its condition",
            Rule::NotifyBeforeWait => "a notify wakes only threads whose wait began before it",
            Rule::NotifyUsedTwice => "a notify wakes one thread",
            Rule::SemaphoreBelowZero => "a semaphore never goes below zero",
            Rule::NothingHeld => "an attempt to take a lock fails only while another thread holds it",
            Rule::OtherCount => "a semaphore counts its initial count and its posts, less its waits",
            Rule::NotAlive => "an attempt to join a thread fails only after its fork and before its end",
            Rule::BarrierEnteredTwice => "a thread is inside a barrier once",
            Rule::BarrierNotEntered => "a thread leaves a barrier that it entered",
            Rule::BarrierLeftEarly => "nobody leaves a barrier before all have entered",
            Rule::BlocksOverlap => "live heap blocks do not overlap",
            Rule::FreeOfNoBlock => "what is freed is exactly one live heap block",
            Rule::AccessAfterFree => "an access to a heap block lies between its alloc and its free",
            Rule::AccessAcrossBlocks => "an access lies inside one heap block or outside all",
            Rule::MethodsDoNotNest => "methods nest",
            Rule::ObjectNotDescribed => "a 'reach' of an object comes before missing methods are given it",
            Rule::SymbolDefinedTwice => "a symbol is defined once in its thread",
            Rule::SymbolUndefined => "a symbol is defined before its use, in the same thread",
            Rule::BadExpression => "an expression is well formed",
            Rule::ValueOutOfType => "a value fits the type of its symbol",
            Rule::WidthDiffers => "an address range is as wide as the type of what it holds",
            Rule::WrongValue => "a value is what its expression gives",
            Rule::UndefinedResult => "an expression has a value where it is computed",
            Rule::OtherSideWithoutBranch => "the other side of a branch directly follows a branch with a condition",
            Rule::BadMemoryOrder => "a memory order fits its operation",
            Rule::NotFreed => "memory that is used after its end is in no live block",
            Rule::WantedIsFree => "a thread that never gets a lock waits for one that is held",
            Rule::EventAfterWant => "a thread that waits for ever does nothing more",
            Rule::UnheldIsHeld => "'release-unheld' is by a thread that does not hold the lock",
            Rule::UnknownName => "an id stands for something",
        }
    }
}

/// The first event that breaks a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// Its number in the stream.
    pub event: usize,
    /// The rule.
    pub rule: Rule,
    /// What happened, with names.
    pub detail: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (rule: {})", self.detail, self.rule.text())
    }
}

type Check = Result<(), (Rule, String)>;

/// Follows a stream of events and checks every rule.
#[derive(Clone, Debug, Default)]
pub struct Validator {
    /// Where each thread stands; apart from `threads`, as every event looks at it.
    states: Vec<State>,
    threads: Vec<Thread>,
    locks: Vec<Lock>,
    semaphores: HashMap<SemId, i64>,
    barriers: HashMap<BarrierId, Barrier>,
    /// Notifies by event number.
    notifies: HashMap<usize, Notify>,
    heap: Heap,
    symbolic: Builder,
    /// Variables of which a `reach` said what they lead to.
    described: HashSet<VarId>,
    /// How many declarations of plain locks, semaphores and barriers were taken note of. There may only be more later.
    declared: [usize; 3],
    /// How many threads that have a name are not running.
    others: usize,
    /// Whether there are none.
    all_run: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Unseen,
    Forked,
    Running,
    /// Running, and its last event is a branch with a condition, or belongs to the other side of one.
    Deciding,
    Waiting,
    Woken,
    /// It waits for a lock and never gets it.
    Stuck,
    Ended,
    Joined,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    /// Condition, lock, event and hold count of the wait it is in.
    wait: Option<(CondId, LockId, usize, u32)>,
    methods: Vec<MethodId>,
}

#[derive(Clone, Debug, Default)]
struct Lock {
    owner: Option<ThreadId>,
    /// How often the owner holds it.
    count: u32,
    /// Threads that hold it for reading, and how often.
    readers: Vec<(ThreadId, u32)>,
    plain: bool,
}

#[derive(Clone, Debug, Default)]
struct Barrier {
    /// Declared number of parties.
    parties: Option<u32>,
    /// Threads inside, with the generation they entered.
    inside: HashMap<ThreadId, u64>,
    /// Generation that is filling, and how many have entered it.
    filling: u64,
    entered: u32,
}

#[derive(Clone, Debug)]
struct Notify {
    condition: CondId,
    all: bool,
    used: bool,
}

/// How many variables and locks have a name.
#[derive(Clone, Copy)]
struct Limits {
    variables: u32,
    locks: u32,
}

/// One bit for each event that is no plain access of one of the first `threads` threads to one of the first `variables`
/// variables. Made for vector instructions.
#[inline(always)]
fn not_plain(ops: &[Op; 64], by: &[ThreadId; 64], targets: &[u32; 64], threads: u32, variables: u32) -> u64 {
    let mut not = [0u8; 64];
    for i in 0..64 {
        not[i] = !ops[i].is_plain_access() as u8;
    }
    for i in 0..64 {
        not[i] |= ((by[i].0 >= threads) | (targets[i] >= variables)) as u8;
    }
    bits_of(&not)
}

/// The lowest `count` bits.
fn all(count: usize) -> u64 {
    if count == 64 { u64::MAX } else { (1 << count) - 1 }
}

/// A fence has an order, and a relaxed one would be none.
fn fence(event: &Event) -> Check {
    match MemoryOrder::from_code(event.aux) {
        None | Some(MemoryOrder::Relaxed) => {
            Err((Rule::BadMemoryOrder, "a fence is acquire, release, acq_rel or seq_cst".to_owned()))
        }
        Some(_) => Ok(()),
    }
}

impl Validator {
    /// At the start of a trace.
    pub fn new() -> Validator {
        Validator::default()
    }

    /// Checks the events of a block from `from` on; they are the next of the stream.
    pub fn check(&mut self, events: &Events, from: usize, tables: &Tables) -> Result<(), Broken> {
        self.prepare(tables);
        let locations = tables.names(Space::Location).len() as u32;
        let located = events.location_column().largest(from..events.len()) < locations;
        let limits = Limits { variables: tables.variable_count() as u32, locks: tables.lock_count() as u32 };
        self.find_out_who_runs();
        let mut start = from;
        while start < events.len() {
            let end = (start + 64).min(events.len());
            let mut uncommon = if located { self.uncommon(events, start..end, limits) } else { all(end - start) };
            while uncommon != 0 {
                let i = uncommon.trailing_zeros() as usize;
                uncommon &= uncommon - 1;
                let index = start + i;
                let (op, thread, target) = (events.ops()[index], events.threads()[index], events.targets()[index]);
                let number = events.first + index;
                let broken = |(rule, detail)| Broken { event: number, rule, detail };
                let lock = located & self.is_running(thread) & (target < limits.locks);
                match op {
                    Op::Read | Op::Write if self.is_common(op, thread, target, events.aux(index), limits, located) => {
                        self.heap.access(VarId(target), tables).map_err(broken)?;
                    }
                    Op::Acquire if lock => self.acquire(thread, LockId(target), tables).map_err(broken)?,
                    Op::Release if lock => self.release(thread, LockId(target), tables).map_err(broken)?,
                    _ => {
                        self.event(number, &events.get(index), tables).map_err(broken)?;
                        // A thread may have stopped running, and memory may have become heap.
                        self.find_out_who_runs();
                        if located {
                            uncommon = self.uncommon(events, start..end, limits) & !all(i + 1);
                        }
                    }
                }
            }
            start = end;
        }
        Ok(())
    }

    /// One bit for each of up to 64 events that is not the common case: a running thread accesses memory that is not
    /// heap, and that is all. Without a branch per event.
    #[inline]
    fn uncommon(&self, events: &Events, range: Range<usize>, limits: Limits) -> u64 {
        let (ops, threads) = (&events.ops()[range.clone()], &events.threads()[range.clone()]);
        let heap = self.heap.used;
        if self.all_run && !heap && events.aux_column().is_empty() {
            let columns = (ops.try_into(), threads.try_into(), events.targets()[range.clone()].try_into());
            if let (Ok(ops), Ok(threads), Ok(targets)) = columns {
                return not_plain(ops, threads, targets, self.states.len() as u32, limits.variables);
            }
        }
        let aux = events.aux_column().get(range.clone()).unwrap_or(&[]);
        let more = aux.iter().enumerate().fold(0, |bits, (i, &aux)| bits | ((aux != 0) as u64) << i);
        let accesses = ops.iter().zip(threads).zip(&events.targets()[range]);
        accesses.enumerate().fold(more, |bits, (i, ((&op, &thread), &target))| {
            let access = op.is_plain_access() & (target < limits.variables) & !heap;
            bits | ((!(access & self.is_running(thread)) as u64) << i)
        })
    }

    fn find_out_who_runs(&mut self) {
        self.all_run = self.others == 0;
    }

    fn set_state(&mut self, thread: ThreadId, state: State) {
        let before = std::mem::replace(&mut self.states[thread.index()], state);
        self.others += (state != State::Running) as usize;
        self.others -= (before != State::Running) as usize;
    }

    /// Whether the only thing to check about an access is the heap.
    #[inline(always)]
    fn is_common(&self, op: Op, thread: ThreadId, target: u32, aux: u32, limits: Limits, located: bool) -> bool {
        located && op.is_plain_access() && target < limits.variables && aux == 0 && self.is_running(thread)
    }

    #[inline(always)]
    fn is_running(&self, thread: ThreadId) -> bool {
        self.states.get(thread.index()).is_some_and(|&state| state == State::Running)
    }

    /// Locks held by a thread at this point, innermost last acquired not guaranteed.
    pub fn held_locks(&self, thread: ThreadId) -> Vec<LockId> {
        let holds = |l: &Lock| l.owner == Some(thread) || l.readers.iter().any(|r| r.0 == thread);
        (0..self.locks.len()).filter(|&i| holds(&self.locks[i])).map(LockId::new).collect()
    }

    fn prepare(&mut self, tables: &Tables) {
        if self.threads.len() < tables.thread_count() {
            self.others += tables.thread_count() - self.states.len();
            self.states.resize(tables.thread_count(), State::Unseen);
            self.threads.resize_with(tables.thread_count(), Thread::default);
        }
        if self.locks.len() < tables.lock_count() {
            self.locks.resize_with(tables.lock_count(), Lock::default);
        }
        let declared = &tables.declarations;
        let [plain_locks, semaphores, barriers] = self.declared;
        for &lock in declared.plain_locks.get(plain_locks..).unwrap_or_default() {
            if let Some(lock) = self.locks.get_mut(lock.index()) {
                lock.plain = true;
            }
        }
        for &(id, count) in declared.semaphores.get(semaphores..).unwrap_or_default() {
            self.semaphores.entry(id).or_insert(count as i64);
        }
        for &(id, parties) in declared.barriers.get(barriers..).unwrap_or_default() {
            self.barriers.entry(id).or_insert_with(|| Barrier { parties: Some(parties), ..Barrier::default() });
        }
        self.declared = [declared.plain_locks.len(), declared.semaphores.len(), declared.barriers.len()];
    }

    fn event(&mut self, number: usize, event: &Event, tables: &Tables) -> Check {
        self.known_names(event, tables)?;
        let thread = event.thread;
        let name = |t: ThreadId| tables.thread_name(t);
        match self.states[thread.index()] {
            State::Unseen | State::Forked => {
                self.set_state(thread, State::Running);
            }
            State::Running | State::Deciding if event.op == Op::Begin => {
                return Err((Rule::BeginNotFirst, format!("thread {} begins after it already ran", name(thread))));
            }
            State::Deciding if event.op.on_other_side() => {}
            State::Deciding => {
                self.symbolic.leave_side(thread);
                self.set_state(thread, State::Running);
            }
            State::Running => {}
            State::Waiting if event.op == Op::Wake => {}
            State::Woken if event.op == Op::WaitEnd => {}
            State::Woken if event.op == Op::Want && self.wants_back(thread, LockId(event.target)) => {}
            State::Stuck => {
                return Err((Rule::EventAfterWant, format!("thread {} waits for ever", name(thread))));
            }
            State::Waiting | State::Woken => {
                return Err((
                    Rule::EventWhileWaiting,
                    format!("thread {} does '{}' inside a wait", name(thread), event.op.word()),
                ));
            }
            State::Ended => {
                return Err((Rule::EventAfterEnd, format!("thread {} has already ended", name(thread))));
            }
            State::Joined => {
                return Err((Rule::EventAfterJoin, format!("thread {} has already been joined", name(thread))));
            }
        }
        match event.op {
            Op::Read | Op::Write | Op::AtomicRead | Op::AtomicWrite | Op::Rmw => self.access(number, event, tables),
            Op::Acquire => self.acquire(thread, LockId(event.target), tables),
            Op::Release => self.release(thread, LockId(event.target), tables),
            Op::ReadAcquire => self.read_acquire(thread, LockId(event.target), tables),
            Op::ReadRelease => self.read_release(thread, LockId(event.target), tables),
            Op::Fork => self.fork(thread, ThreadId(event.target), tables),
            Op::Join => self.join(thread, ThreadId(event.target), tables),
            Op::Begin | Op::Mark => Ok(()),
            Op::End => {
                self.set_state(thread, State::Ended);
                Ok(())
            }
            Op::WaitBegin => self.wait_begin(number, event, tables),
            Op::Wake => self.wake(event, tables),
            Op::WaitEnd => self.wait_end(event, tables),
            Op::Notify | Op::NotifyAll => {
                let condition = CondId(event.target);
                let all = event.op == Op::NotifyAll;
                self.notifies.insert(number, Notify { condition, all, used: false });
                Ok(())
            }
            Op::SemPost => {
                *self.semaphores.entry(SemId(event.target)).or_insert(0) += 1;
                Ok(())
            }
            Op::SemWait => {
                let count = self.semaphores.entry(SemId(event.target)).or_insert(0);
                *count -= 1;
                if *count < 0 {
                    let name = tables.names(Space::Semaphore).get(event.target as usize);
                    return Err((Rule::SemaphoreBelowZero, format!("semaphore {name} is at zero here")));
                }
                Ok(())
            }
            Op::TryFail => self.try_fail(thread, LockId(event.target), true, tables),
            Op::ReadTryFail => self.try_fail(thread, LockId(event.target), false, tables),
            Op::SemValue => {
                let count = *self.semaphores.entry(SemId(event.target)).or_insert(0);
                if count == event.aux as i64 {
                    return Ok(());
                }
                let name = tables.names(Space::Semaphore).get(event.target as usize);
                Err((Rule::OtherCount, format!("semaphore {name} counts {count} here, not {}", event.aux)))
            }
            Op::JoinFail => self.join_fail(thread, ThreadId(event.target), tables),
            Op::BarrierEnter => self.barrier_enter(thread, BarrierId(event.target), tables),
            Op::BarrierLeave => self.barrier_leave(thread, BarrierId(event.target), tables),
            Op::Alloc => self.heap.alloc(VarId(event.target), tables),
            Op::Free => self.heap.free(VarId(event.target), tables),
            Op::StaleRead | Op::StaleWrite | Op::StaleFree => self.heap.stale(VarId(event.target), tables),
            Op::Want | Op::ReadWant => self.want(thread, LockId(event.target), event.op == Op::Want, tables),
            Op::Unheld => self.unheld(thread, LockId(event.target), tables),
            Op::Discard | Op::Gone => Ok(()),
            Op::Fence => fence(event),
            Op::Reach => {
                self.described.insert(VarId(event.target));
                Ok(())
            }
            Op::MethodBegin => {
                self.arguments(ReachId(event.aux), tables)?;
                self.threads[thread.index()].methods.push(MethodId(event.target));
                Ok(())
            }
            Op::MethodEnd => {
                let open = self.threads[thread.index()].methods.pop();
                if open == Some(MethodId(event.target)) {
                    return Ok(());
                }
                let name = |m: u32| tables.names(Space::Method).get(m as usize);
                let what = match open {
                    None => format!("method {} ends but none is open", name(event.target)),
                    Some(m) => format!("method {} ends while {} is open", name(event.target), name(m.0)),
                };
                Err((Rule::MethodsDoNotNest, what))
            }
            Op::Branch if event.aux == 0 && event.value.is_some() => {
                Err((Rule::BadExpression, "a branch without a condition has an outcome".to_owned()))
            }
            Op::Branch if event.value.is_some_and(|outcome| !matches!(outcome, 0 | 1)) => {
                Err((Rule::WrongValue, "a branch goes to 0 or to 1".to_owned()))
            }
            Op::Branch if event.aux == 0 => Ok(()),
            Op::Branch => {
                self.set_state(thread, State::Deciding);
                self.symbolic.event(number, event, tables)
            }
            Op::Let => self.symbolic.event(number, event, tables),
            Op::OtherRead | Op::OtherWrite | Op::OtherLet | Op::OtherBranch | Op::OtherAcquire | Op::OtherRelease => {
                self.other_side(number, event, tables)
            }
        }
    }

    /// Binary input may hold any number where an id is meant.
    pub fn known_names(&self, event: &Event, tables: &Tables) -> Check {
        let known = |space: Space, id: u32| (id as usize) < tables.names(space).len();
        let target = match event.op {
            Op::Read
            | Op::Write
            | Op::AtomicRead
            | Op::AtomicWrite
            | Op::Rmw
            | Op::Alloc
            | Op::Free
            | Op::StaleRead
            | Op::StaleWrite
            | Op::StaleFree => (event.target as usize) < tables.variable_count(),
            Op::OtherRead | Op::OtherWrite | Op::Reach => (event.target as usize) < tables.variable_count(),
            Op::Acquire | Op::Release | Op::ReadAcquire | Op::ReadRelease | Op::TryFail | Op::ReadTryFail => {
                known(Space::Lock, event.target)
            }
            Op::OtherAcquire | Op::OtherRelease | Op::Want | Op::ReadWant | Op::Unheld | Op::Gone => {
                known(Space::Lock, event.target)
            }
            Op::Fork | Op::Join | Op::JoinFail => known(Space::Thread, event.target),
            Op::WaitBegin | Op::WaitEnd | Op::Wake | Op::Notify | Op::NotifyAll => {
                known(Space::Condition, event.target)
            }
            Op::SemPost | Op::SemWait | Op::SemValue => known(Space::Semaphore, event.target),
            Op::BarrierEnter | Op::BarrierLeave => known(Space::Barrier, event.target),
            Op::MethodBegin | Op::MethodEnd => known(Space::Method, event.target),
            Op::Let | Op::OtherLet => known(Space::Symbol, event.target),
            Op::Discard => event.aux < Primitive::KINDS && known(Primitive::of(event.aux, 0).space(), event.target),
            Op::Mark => known(Space::Text, event.target),
            Op::Branch | Op::OtherBranch => event.target == 0 || known(Space::Text, event.target - 1),
            Op::Begin | Op::End | Op::Fence => true,
        };
        let optional = |space: Space| event.aux == 0 || known(space, event.aux - 1);
        let aux = match event.op {
            Op::Read | Op::OtherRead => optional(Space::Symbol),
            Op::Write | Op::Branch | Op::OtherWrite | Op::OtherBranch => optional(Space::Expression),
            Op::Fork | Op::Join => optional(Space::Text),
            Op::WaitBegin | Op::WaitEnd => known(Space::Lock, event.aux),
            Op::MethodBegin => (event.aux as usize) < tables.reach_count(),
            Op::Reach => (event.aux as usize) < tables.reach_count() && !tables.are_arguments(ReachId(event.aux)),
            Op::Let | Op::OtherLet => known(Space::Expression, event.aux),
            _ => true,
        };
        let thread = event.thread.index() < tables.thread_count();
        let location = event.location.index() < tables.names(Space::Location).len();
        if target && aux && thread && location {
            Ok(())
        } else {
            Err((Rule::UnknownName, format!("'{}' refers to an id that the trace does not name", event.op.word())))
        }
    }

    /// What a missing method is given, if that is how it is told what it could reach.
    fn arguments(&self, set: ReachId, tables: &Tables) -> Check {
        if !tables.are_arguments(set) {
            return Ok(());
        }
        for object in tables.reach_objects(set) {
            if let Object::Variable(id) = object
                && !self.described.contains(id)
            {
                let detail = format!(
                    "a missing method is given {}, and nothing says what it leads to",
                    tables.variable_text(*id)
                );
                return Err((Rule::ObjectNotDescribed, detail));
            }
        }
        Ok(())
    }

    fn access(&mut self, number: usize, event: &Event, tables: &Tables) -> Check {
        if event.op.is_atomic() {
            let fits = match (event.op, MemoryOrder::from_code(event.aux)) {
                (_, None) => false,
                (Op::AtomicRead, Some(order)) => !matches!(order, MemoryOrder::Release | MemoryOrder::AcqRel),
                (Op::AtomicWrite, Some(order)) => !matches!(order, MemoryOrder::Acquire | MemoryOrder::AcqRel),
                _ => true,
            };
            if !fits {
                return Err((Rule::BadMemoryOrder, format!("'{}' cannot have this memory order", event.op.word())));
            }
        } else if event.aux != 0 {
            self.symbolic.event(number, event, tables)?;
        }
        if self.heap.used { self.heap.access(VarId(event.target), tables) } else { Ok(()) }
    }

    /// What a thread would have done had its last branch gone the other way. It did not, so nothing changes.
    fn other_side(&mut self, number: usize, event: &Event, tables: &Tables) -> Check {
        if self.states[event.thread.index()] != State::Deciding {
            let name = tables.thread_name(event.thread);
            return Err((
                Rule::OtherSideWithoutBranch,
                format!("the last event of thread {name} is no branch with a condition"),
            ));
        }
        if event.aux == 0 && matches!(event.op, Op::OtherWrite | Op::OtherBranch) {
            let what = event.op.word();
            return Err((Rule::BadExpression, format!("'{what}' has no expression, and nothing else says its value")));
        }
        let accesses = matches!(event.op, Op::OtherRead | Op::OtherWrite);
        if accesses && self.heap.used {
            self.heap.access(VarId(event.target), tables)?;
        }
        self.symbolic.event(number, event, tables)
    }

    fn fork(&mut self, thread: ThreadId, child: ThreadId, tables: &Tables) -> Check {
        let name = tables.thread_name(child);
        if child == thread {
            return Err((Rule::ForkOrJoinOfSelf, format!("thread {name} forks itself")));
        }
        match self.states[child.index()] {
            State::Unseen => {
                self.set_state(child, State::Forked);
                Ok(())
            }
            State::Forked => Err((Rule::ForkedTwice, format!("thread {name} was forked before"))),
            State::Joined => Err((Rule::EventAfterJoin, format!("thread {name} is forked after it was joined"))),
            _ => Err((Rule::EventBeforeFork, format!("thread {name} is forked here but ran before"))),
        }
    }

    fn join(&mut self, thread: ThreadId, child: ThreadId, tables: &Tables) -> Check {
        let name = tables.thread_name(child);
        if child == thread {
            return Err((Rule::ForkOrJoinOfSelf, format!("thread {name} joins itself")));
        }
        match self.states[child.index()] {
            State::Waiting | State::Woken => {
                Err((Rule::EventWhileWaiting, format!("thread {name} is joined inside a wait")))
            }
            State::Stuck => Err((Rule::EventAfterWant, format!("thread {name} is joined while it waits for ever"))),
            _ => {
                self.set_state(child, State::Joined);
                Ok(())
            }
        }
    }

    fn join_fail(&mut self, thread: ThreadId, child: ThreadId, tables: &Tables) -> Check {
        let name = tables.thread_name(child);
        if child == thread {
            return Err((Rule::ForkOrJoinOfSelf, format!("thread {name} tries to join itself")));
        }
        let why_not = match self.states[child.index()] {
            State::Unseen => "has not been started",
            State::Ended | State::Joined => "has ended",
            _ => return Ok(()),
        };
        Err((Rule::NotAlive, format!("an attempt to join thread {name} fails though it {why_not}")))
    }

    fn try_fail(&self, thread: ThreadId, id: LockId, exclusive: bool, tables: &Tables) -> Check {
        if self.excluded_by(thread, id, exclusive).is_some() {
            return Ok(());
        }
        let name = tables.lock_name(id);
        Err((Rule::NothingHeld, format!("an attempt to take lock {name} fails while no other thread holds it")))
    }

    /// Whether the thread is woken and has to have this lock again to end its wait.
    fn wants_back(&self, thread: ThreadId, id: LockId) -> bool {
        self.threads[thread.index()].wait.is_some_and(|(_, lock, ..)| lock == id)
    }

    fn want(&mut self, thread: ThreadId, id: LockId, exclusive: bool, tables: &Tables) -> Check {
        let lock = &self.locks[id.index()];
        let is_own = lock.owner == Some(thread) || lock.readers.iter().any(|reader| reader.0 == thread);
        if !is_own && self.excluded_by(thread, id, exclusive).is_none() {
            let name = tables.lock_name(id);
            return Err((Rule::WantedIsFree, format!("thread {} could have lock {name}", tables.thread_name(thread))));
        }
        self.set_state(thread, State::Stuck);
        Ok(())
    }

    fn unheld(&self, thread: ThreadId, id: LockId, tables: &Tables) -> Check {
        let lock = &self.locks[id.index()];
        if lock.owner == Some(thread) || lock.readers.iter().any(|reader| reader.0 == thread) {
            let (thread, lock) = (tables.thread_name(thread), tables.lock_name(id));
            return Err((Rule::UnheldIsHeld, format!("thread {thread} holds lock {lock}")));
        }
        Ok(())
    }

    /// The thread other than `thread` that holds the lock in a way that excludes an acquire.
    fn excluded_by(&self, thread: ThreadId, lock: LockId, exclusive: bool) -> Option<ThreadId> {
        let lock = &self.locks[lock.index()];
        let owner = lock.owner.filter(|&o| o != thread);
        let reader = lock.readers.iter().map(|r| r.0).find(|&r| r != thread);
        owner.or(if exclusive { reader } else { None })
    }

    fn held_error(thread: ThreadId, lock: LockId, holder: ThreadId, tables: &Tables) -> Check {
        Err((
            Rule::LockHeld,
            format!(
                "thread {} acquires lock {} while thread {} holds it",
                tables.thread_name(thread),
                tables.lock_name(lock),
                tables.thread_name(holder)
            ),
        ))
    }

    fn acquire(&mut self, thread: ThreadId, id: LockId, tables: &Tables) -> Check {
        if let Some(holder) = self.excluded_by(thread, id, true) {
            return Validator::held_error(thread, id, holder, tables);
        }
        let lock = &mut self.locks[id.index()];
        if lock.plain && lock.owner.is_some() {
            return Err((Rule::AcquiredTwice, format!("lock {} is held already", tables.lock_name(id))));
        }
        lock.owner = Some(thread);
        lock.count += 1;
        Ok(())
    }

    fn release(&mut self, thread: ThreadId, id: LockId, tables: &Tables) -> Check {
        let lock = &mut self.locks[id.index()];
        match lock.owner {
            Some(owner) if owner == thread => {
                lock.count -= 1;
                if lock.count == 0 {
                    lock.owner = None;
                }
                Ok(())
            }
            Some(owner) => Err((
                Rule::ForeignRelease,
                format!(
                    "thread {} releases lock {} that thread {} holds",
                    tables.thread_name(thread),
                    tables.lock_name(id),
                    tables.thread_name(owner)
                ),
            )),
            None => Err((Rule::ReleaseNotHeld, format!("lock {} is not held", tables.lock_name(id)))),
        }
    }

    fn read_acquire(&mut self, thread: ThreadId, id: LockId, tables: &Tables) -> Check {
        if let Some(holder) = self.excluded_by(thread, id, false) {
            return Validator::held_error(thread, id, holder, tables);
        }
        let readers = &mut self.locks[id.index()].readers;
        match readers.iter_mut().find(|r| r.0 == thread) {
            Some(reader) => reader.1 += 1,
            None => readers.push((thread, 1)),
        }
        Ok(())
    }

    fn read_release(&mut self, thread: ThreadId, id: LockId, tables: &Tables) -> Check {
        let readers = &mut self.locks[id.index()].readers;
        let Some(at) = readers.iter().position(|r| r.0 == thread) else {
            let name = tables.lock_name(id);
            return Err((Rule::ReleaseNotHeld, format!("lock {name} is not held for reading by this thread")));
        };
        readers[at].1 -= 1;
        if readers[at].1 == 0 {
            readers.swap_remove(at);
        }
        Ok(())
    }

    fn wait_begin(&mut self, number: usize, event: &Event, tables: &Tables) -> Check {
        let id = LockId(event.aux);
        let lock = &mut self.locks[id.index()];
        if lock.owner != Some(event.thread) {
            let name = tables.lock_name(id);
            return Err((Rule::WaitWithoutLock, format!("lock {name} is not held by the waiting thread")));
        }
        let thread = &mut self.threads[event.thread.index()];
        thread.wait = Some((CondId(event.target), id, number, lock.count));
        lock.owner = None;
        lock.count = 0;
        self.set_state(event.thread, State::Waiting);
        Ok(())
    }

    fn wake(&mut self, event: &Event, tables: &Tables) -> Check {
        let condition = tables.names(Space::Condition).get(event.target as usize);
        let state = &mut self.states[event.thread.index()];
        let wait = self.threads[event.thread.index()].wait;
        let Some((waited, _, began, _)) = wait.filter(|_| *state == State::Waiting) else {
            return Err((Rule::NoSuchWait, format!("no wait on {condition} has begun")));
        };
        if waited != CondId(event.target) {
            return Err((Rule::NoSuchWait, format!("the wait is not on condition {condition}")));
        }
        *state = State::Woken;
        let Some(notify_number) = event.aux.checked_sub(1) else { return Ok(()) };
        match self.notifies.get_mut(&(notify_number as usize)) {
            Some(notify) if notify.condition == waited => {
                if (notify_number as usize) < began {
                    return Err((Rule::NotifyBeforeWait, format!("event {notify_number} came before the wait began")));
                }
                if notify.used && !notify.all {
                    return Err((Rule::NotifyUsedTwice, format!("event {notify_number} woke another thread already")));
                }
                notify.used = true;
                Ok(())
            }
            _ => Err((Rule::NoSuchNotify, format!("event {notify_number} is no earlier notify of {condition}"))),
        }
    }

    fn wait_end(&mut self, event: &Event, tables: &Tables) -> Check {
        let id = LockId(event.aux);
        let woken = self.states[event.thread.index()] == State::Woken;
        let wait = self.threads[event.thread.index()].wait;
        let Some((condition, lock, _, count)) = wait.filter(|_| woken) else {
            return Err((Rule::NoSuchWait, "no wait has been woken in this thread".to_owned()));
        };
        if condition != CondId(event.target) || lock != id {
            return Err((Rule::NoSuchWait, "the wait began on another condition or lock".to_owned()));
        }
        if let Some(holder) = self.excluded_by(event.thread, id, true) {
            return Validator::held_error(event.thread, id, holder, tables);
        }
        self.threads[event.thread.index()].wait = None;
        self.set_state(event.thread, State::Running);
        let lock = &mut self.locks[id.index()];
        lock.owner = Some(event.thread);
        lock.count = count;
        Ok(())
    }

    fn barrier_enter(&mut self, thread: ThreadId, id: BarrierId, tables: &Tables) -> Check {
        let barrier = self.barriers.entry(id).or_default();
        if barrier.inside.contains_key(&thread) {
            let name = tables.names(Space::Barrier).get(id.index());
            return Err((Rule::BarrierEnteredTwice, format!("thread is already inside barrier {name}")));
        }
        if barrier.parties.is_some_and(|parties| barrier.entered == parties) {
            barrier.filling += 1;
            barrier.entered = 0;
        }
        barrier.inside.insert(thread, barrier.filling);
        barrier.entered += 1;
        Ok(())
    }

    fn barrier_leave(&mut self, thread: ThreadId, id: BarrierId, tables: &Tables) -> Check {
        let name = tables.names(Space::Barrier).get(id.index());
        let barrier = self.barriers.entry(id).or_default();
        let Some(generation) = barrier.inside.remove(&thread) else {
            return Err((Rule::BarrierNotEntered, format!("thread is not inside barrier {name}")));
        };
        if generation == barrier.filling {
            match barrier.parties {
                Some(parties) if barrier.entered < parties => {
                    return Err((
                        Rule::BarrierLeftEarly,
                        format!("only {} of {parties} have entered barrier {name}", barrier.entered),
                    ));
                }
                Some(_) => {}
                // Nothing declared: whoever entered so far was the generation.
                None => {
                    barrier.filling += 1;
                    barrier.entered = 0;
                }
            }
        }
        Ok(())
    }
}
