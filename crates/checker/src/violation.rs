//! What can be wrong with a witness.
//!
//! Every rule of `docs/model.md` that a schedule can break has a variant of its
//! own, so that a test can ask for exactly the mistake it made.

use snag_model::EventId;
use std::fmt;

/// The rules of a witness, each broken by exactly one kind of mistake.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScheduleRule {
    /// A schedule consists of events of the trace.
    UnknownEvent,
    /// An event happens once.
    EventTwice,
    /// Each thread runs a prefix of its events, in order.
    ThreadOrder,
    /// A forked thread runs after its fork.
    NotForked,
    /// A join comes after all events of the joined thread.
    EarlyJoin,
    /// A lock is held by one thread, or by readers.
    LockHeld,
    /// What is said to come for no reason is the end of a wait.
    NoWakeUp,
    /// A wake-up comes after the notify that it names.
    WakeBeforeNotify,
    /// A notify that wakes a thread comes after the thread began to wait.
    NotifyBeforeWait,
    /// A semaphore never goes below zero.
    SemaphoreBelowZero,
    /// An attempt to take a lock fails only while another thread holds it.
    NothingHeld,
    /// A semaphore counts what a thread found when it looked.
    OtherCount,
    /// An attempt to join a thread fails only after its fork and before its end.
    NotAlive,
    /// Nobody leaves a barrier before its generation has entered.
    BarrierLeftEarly,
    /// The generations of a barrier fill one after the other.
    BarrierGenerations,
    /// Heap memory is accessed after its allocation.
    AccessBeforeAlloc,
    /// Heap memory is not accessed after it was freed.
    AccessAfterFree,
    /// Heap memory is freed after its allocation.
    FreeBeforeAlloc,
    /// What a missing method could have ordered keeps its order.
    MissingMethod,
    /// A kept read sees the write that it saw (level `writer`).
    OtherWrite,
    /// A kept read sees the value that it saw (levels `value` and `control`).
    OtherValue,
    /// A kept read sees no write of a thread that has read something else (level `control`).
    UnknownValue,
    /// A branch goes the way it went (level `symbolic`).
    OtherOutcome,
    /// What a branch depends on is known (level `symbolic`).
    UnknownOutcome,
    /// A diverging branch goes the other way, once, and says where that leads (level `symbolic`).
    DoesNotDiverge,
    /// A thread that took the other side of a branch does only what the trace says about that side.
    BeyondOtherSide,
    /// The conditions of the other side of a branch are true.
    OtherSideUnknown,
    /// What happens on the other side of a branch happens only if the branch goes there.
    DoesNotHappen,
    /// A lock that the other side of a branch releases is held.
    NotHeld,
    /// Every expression has a value where it is computed (level `symbolic`).
    UndefinedValue,
    /// A witness gives the value that every read takes (level `symbolic`).
    OtherReads,
    /// The events that a witness leads up to belong to different threads.
    SameThread,
    /// Racing events conflict.
    NoConflict,
    /// The events that a witness leads up to are not part of the schedule.
    AlreadyHappened,
    /// The events that a witness leads up to are the next ones of their threads.
    NotNextEvent,
    /// Both events of a race by memory order happen in the schedule, the first one first.
    NotInOrder,
    /// Nothing orders the events of a race by memory order.
    Synchronised,
    /// A deadlock has at least two threads.
    TooFewThreads,
    /// What waits in a deadlock is an acquire that waits or the end of a wait.
    NotAnAcquire,
    /// In a deadlock each thread waits for a lock that another one of them holds.
    NotBlocked,
    /// A fault is of the kind that its event says.
    OtherFault,
    /// Memory that is used after its end was freed by the event that is named, and not handed out again.
    NotFreed,
    /// A lock is misused by a thread that does not hold it, or holds it already.
    NotMisused,
    /// What is destroyed in use is held, or somebody waits for it.
    NotInUse,
}

impl ScheduleRule {
    /// Every rule.
    pub const ALL: [ScheduleRule; 44] = [
        ScheduleRule::UnknownEvent,
        ScheduleRule::EventTwice,
        ScheduleRule::ThreadOrder,
        ScheduleRule::NotForked,
        ScheduleRule::EarlyJoin,
        ScheduleRule::LockHeld,
        ScheduleRule::NoWakeUp,
        ScheduleRule::WakeBeforeNotify,
        ScheduleRule::NotifyBeforeWait,
        ScheduleRule::SemaphoreBelowZero,
        ScheduleRule::NothingHeld,
        ScheduleRule::OtherCount,
        ScheduleRule::NotAlive,
        ScheduleRule::BarrierLeftEarly,
        ScheduleRule::BarrierGenerations,
        ScheduleRule::AccessBeforeAlloc,
        ScheduleRule::AccessAfterFree,
        ScheduleRule::FreeBeforeAlloc,
        ScheduleRule::MissingMethod,
        ScheduleRule::OtherWrite,
        ScheduleRule::OtherValue,
        ScheduleRule::UnknownValue,
        ScheduleRule::OtherOutcome,
        ScheduleRule::UnknownOutcome,
        ScheduleRule::DoesNotDiverge,
        ScheduleRule::BeyondOtherSide,
        ScheduleRule::OtherSideUnknown,
        ScheduleRule::DoesNotHappen,
        ScheduleRule::NotHeld,
        ScheduleRule::UndefinedValue,
        ScheduleRule::OtherReads,
        ScheduleRule::SameThread,
        ScheduleRule::NoConflict,
        ScheduleRule::AlreadyHappened,
        ScheduleRule::NotNextEvent,
        ScheduleRule::NotInOrder,
        ScheduleRule::Synchronised,
        ScheduleRule::TooFewThreads,
        ScheduleRule::NotAnAcquire,
        ScheduleRule::NotBlocked,
        ScheduleRule::OtherFault,
        ScheduleRule::NotFreed,
        ScheduleRule::NotMisused,
        ScheduleRule::NotInUse,
    ];

    /// Whether only witnesses at level `symbolic` can break it.
    pub fn is_symbolic(self) -> bool {
        matches!(
            self,
            ScheduleRule::OtherOutcome
                | ScheduleRule::UnknownOutcome
                | ScheduleRule::DoesNotDiverge
                | ScheduleRule::BeyondOtherSide
                | ScheduleRule::OtherSideUnknown
                | ScheduleRule::DoesNotHappen
                | ScheduleRule::NotHeld
                | ScheduleRule::UndefinedValue
                | ScheduleRule::OtherReads
        )
    }

    /// The rule as a sentence.
    pub fn text(self) -> &'static str {
        match self {
            ScheduleRule::UnknownEvent => "a schedule consists of events of the trace",
            ScheduleRule::EventTwice => "an event happens once",
            ScheduleRule::ThreadOrder => "each thread runs a prefix of its events, in order",
            ScheduleRule::NotForked => "a forked thread runs after its fork",
            ScheduleRule::EarlyJoin => "a join comes after the fork and all events of the joined thread",
            ScheduleRule::LockHeld => "a lock is held by one thread, or by readers",
            ScheduleRule::NoWakeUp => "only the end of a wait on a condition variable comes for no reason",
            ScheduleRule::WakeBeforeNotify => "a wake-up comes after the notify that it names",
            ScheduleRule::NotifyBeforeWait => "a notify wakes only threads whose wait began before it",
            ScheduleRule::SemaphoreBelowZero => "a semaphore never goes below zero",
            ScheduleRule::NothingHeld => "an attempt to take a lock fails only while another thread holds it",
            ScheduleRule::OtherCount => "a semaphore counts what a thread found when it looked",
            ScheduleRule::NotAlive => "an attempt to join a thread fails only after its fork and before its end",
            ScheduleRule::BarrierLeftEarly => "nobody leaves a barrier before its generation has entered",
            ScheduleRule::BarrierGenerations => "the generations of a barrier fill one after the other",
            ScheduleRule::AccessBeforeAlloc => "heap memory is accessed after its allocation",
            ScheduleRule::AccessAfterFree => "heap memory is not accessed after it was freed",
            ScheduleRule::FreeBeforeAlloc => "heap memory is freed after its allocation",
            ScheduleRule::MissingMethod => "what a missing method could have ordered keeps its order",
            ScheduleRule::OtherWrite => "a kept read sees the write that it saw",
            ScheduleRule::OtherValue => "a kept read sees the value that it saw",
            ScheduleRule::UnknownValue => "a kept read sees no write of a thread that has read something else",
            ScheduleRule::OtherOutcome => "a branch goes the way it went",
            ScheduleRule::UnknownOutcome => "what a branch depends on is known",
            ScheduleRule::DoesNotDiverge => "a diverging branch has a condition that makes it go the other way",
            ScheduleRule::BeyondOtherSide => "a thread does nothing beyond the other side of its branch",
            ScheduleRule::OtherSideUnknown => "the conditions of the other side of a branch are true",
            ScheduleRule::DoesNotHappen => "the other side of a branch happens only if the branch goes there",
            ScheduleRule::NotHeld => "a lock that is released is held",
            ScheduleRule::UndefinedValue => "an expression has a value where it is computed",
            ScheduleRule::OtherReads => "a witness gives the value that every read takes, in order",
            ScheduleRule::SameThread => "the events that a witness leads up to belong to different threads",
            ScheduleRule::NoConflict => "racing events conflict",
            ScheduleRule::AlreadyHappened => "the events that a witness leads up to are not part of the schedule",
            ScheduleRule::NotNextEvent => "the events that a witness leads up to are the next ones of their threads",
            ScheduleRule::NotInOrder => "both events of a race by memory order are in the schedule, in the order given",
            ScheduleRule::Synchronised => "neither event of a race by memory order happens before the other",
            ScheduleRule::TooFewThreads => "a deadlock has at least two threads",
            ScheduleRule::NotAnAcquire => "what waits in a deadlock is an acquire that waits or the end of a wait",
            ScheduleRule::NotBlocked => "in a deadlock each thread waits for a lock that another one of them holds",
            ScheduleRule::OtherFault => "a fault is of the kind that its event says",
            ScheduleRule::NotFreed => "memory that is used after its end was freed last by the event that is named",
            ScheduleRule::NotInUse => "what is destroyed in use is held, or somebody waits for it",
            ScheduleRule::NotMisused => "a lock is misused by a thread that does not hold it, or that has it already",
        }
    }
}

/// Why a witness is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The rule that is broken.
    pub rule: ScheduleRule,
    /// The event that breaks it, where it is one event.
    pub event: Option<EventId>,
    /// What is wrong, with the names of threads, locks and events.
    pub detail: String,
}

impl Violation {
    pub(crate) fn new(rule: ScheduleRule, event: EventId, detail: String) -> Violation {
        Violation { rule, event: Some(event), detail }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (rule: {})", self.detail, self.rule.text())
    }
}

impl std::error::Error for Violation {}
