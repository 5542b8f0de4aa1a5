//! The operations of the model.

/// What an event does. The meaning of its `target` and `aux` columns follows
/// from this (see [`crate::events::Events`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Op {
    Read = 0,
    Write = 1,
    AtomicRead = 2,
    AtomicWrite = 3,
    Rmw = 4,
    Acquire = 5,
    Release = 6,
    ReadAcquire = 7,
    ReadRelease = 8,
    Fork = 9,
    Join = 10,
    Begin = 11,
    End = 12,
    WaitBegin = 13,
    Wake = 14,
    WaitEnd = 15,
    Notify = 16,
    NotifyAll = 17,
    SemPost = 18,
    SemWait = 19,
    BarrierEnter = 20,
    BarrierLeave = 21,
    Alloc = 22,
    Free = 23,
    MethodBegin = 24,
    MethodEnd = 25,
    Branch = 26,
    Let = 27,
    /// A line that carries no meaning for prediction but is kept: `begin…`,
    /// `end…` and `dummy(…)` of STD traces.
    Mark = 28,
    /// What a thread would have done next had its last branch gone the other way: a read. So do the ones that follow.
    /// In the trace itself none of them happened, and wherever the branch goes as it did they mean nothing.
    OtherRead = 29,
    OtherWrite = 30,
    OtherLet = 31,
    /// A condition that must be true for the rest of the other side to be known.
    OtherBranch = 32,
    OtherAcquire = 33,
    OtherRelease = 34,
    /// What an object leads to, as the recorder saw it: nothing that the program did. Arguments of missing methods are
    /// told by it ([`crate::trees`]).
    Reach = 35,
    /// A fence of a memory order: it synchronises together with atomic accesses before and after it in its thread.
    Fence = 36,
    /// An attempt to take a lock that failed, because another thread held it.
    TryFail = 37,
    ReadTryFail = 38,
    /// What a semaphore counted when a thread looked: also an attempt to wait on it that failed, at zero.
    SemValue = 39,
    /// An attempt to join a thread that failed, because it had not ended.
    JoinFail = 40,
    /// What went wrong in the recorded run, here the use of memory that was freed.
    StaleRead = 41,
    StaleWrite = 42,
    /// A second free of a block.
    StaleFree = 43,
    /// The last thing that a thread does: it waits for a lock, and never gets it.
    Want = 44,
    ReadWant = 45,
    /// A lock is given back by a thread that does not hold it.
    Unheld = 46,
    /// The end of a lock, a condition, a semaphore or a barrier.
    Discard = 47,
    /// An attempt to take a lock that was destroyed.
    Gone = 48,
}

impl Op {
    /// Every operation, in the order of its code.
    pub const ALL: [Op; 49] = [
        Op::Read,
        Op::Write,
        Op::AtomicRead,
        Op::AtomicWrite,
        Op::Rmw,
        Op::Acquire,
        Op::Release,
        Op::ReadAcquire,
        Op::ReadRelease,
        Op::Fork,
        Op::Join,
        Op::Begin,
        Op::End,
        Op::WaitBegin,
        Op::Wake,
        Op::WaitEnd,
        Op::Notify,
        Op::NotifyAll,
        Op::SemPost,
        Op::SemWait,
        Op::BarrierEnter,
        Op::BarrierLeave,
        Op::Alloc,
        Op::Free,
        Op::MethodBegin,
        Op::MethodEnd,
        Op::Branch,
        Op::Let,
        Op::Mark,
        Op::OtherRead,
        Op::OtherWrite,
        Op::OtherLet,
        Op::OtherBranch,
        Op::OtherAcquire,
        Op::OtherRelease,
        Op::Reach,
        Op::Fence,
        Op::TryFail,
        Op::ReadTryFail,
        Op::SemValue,
        Op::JoinFail,
        Op::StaleRead,
        Op::StaleWrite,
        Op::StaleFree,
        Op::Want,
        Op::ReadWant,
        Op::Unheld,
        Op::Discard,
        Op::Gone,
    ];

    /// The operation with this code.
    pub fn from_code(code: u8) -> Option<Op> {
        Op::ALL.get(code as usize).copied()
    }

    /// The word for it in reports and machine output.
    pub fn word(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::AtomicRead => "atomic-read",
            Op::AtomicWrite => "atomic-write",
            Op::Rmw => "rmw",
            Op::Acquire => "acquire",
            Op::Release => "release",
            Op::ReadAcquire => "read-acquire",
            Op::ReadRelease => "read-release",
            Op::Fork => "fork",
            Op::Join => "join",
            Op::Begin => "begin",
            Op::End => "end",
            Op::WaitBegin => "wait-begin",
            Op::Wake => "wake",
            Op::WaitEnd => "wait-end",
            Op::Notify => "notify",
            Op::NotifyAll => "notify-all",
            Op::SemPost => "sem-post",
            Op::SemWait => "sem-wait",
            Op::BarrierEnter => "barrier-enter",
            Op::BarrierLeave => "barrier-leave",
            Op::Alloc => "alloc",
            Op::Free => "free",
            Op::MethodBegin => "method-begin",
            Op::MethodEnd => "method-end",
            Op::Branch => "branch",
            Op::Let => "let",
            Op::Mark => "mark",
            Op::OtherRead => "else-read",
            Op::OtherWrite => "else-write",
            Op::OtherLet => "else-let",
            Op::OtherBranch => "else-branch",
            Op::OtherAcquire => "else-acquire",
            Op::OtherRelease => "else-release",
            Op::Reach => "reach",
            Op::Fence => "fence",
            Op::TryFail => "tryfail",
            Op::ReadTryFail => "rtryfail",
            Op::SemValue => "sem-value",
            Op::JoinFail => "join-fail",
            Op::StaleRead => "stale-read",
            Op::StaleWrite => "stale-write",
            Op::StaleFree => "stale-free",
            Op::Want => "want",
            Op::ReadWant => "rwant",
            Op::Unheld => "release-unheld",
            Op::Discard => "discard",
            Op::Gone => "acquire-destroyed",
        }
    }

    /// Belongs to the side of a branch that was not taken.
    #[inline(always)]
    pub fn on_other_side(self) -> bool {
        (self as u8).wrapping_sub(Op::OtherRead as u8) <= Op::OtherRelease as u8 - Op::OtherRead as u8
    }

    /// What happens if an event of the other side of a branch happens; any other operation is itself.
    pub fn if_it_happens(self) -> Op {
        match self {
            Op::OtherRead => Op::Read,
            Op::OtherWrite => Op::Write,
            Op::OtherLet => Op::Let,
            Op::OtherBranch => Op::Branch,
            Op::OtherAcquire => Op::Acquire,
            Op::OtherRelease => Op::Release,
            op => op,
        }
    }

    /// May carry a value: what is read or written, or which way a branch went.
    #[inline(always)]
    pub fn takes_value(self) -> bool {
        self.is_access() | (self as u8 == Op::Branch as u8)
    }

    /// Whether the aux column means something for it.
    pub fn takes_aux(self) -> bool {
        self.is_access()
            || matches!(self, Op::Acquire | Op::ReadAcquire)
            || matches!(self, Op::Fork | Op::Join | Op::WaitBegin | Op::WaitEnd | Op::Wake)
            || matches!(self, Op::MethodBegin | Op::Reach | Op::Branch | Op::Let | Op::SemValue)
            || matches!(self, Op::OtherRead | Op::OtherWrite | Op::OtherLet | Op::OtherBranch)
            || matches!(self, Op::Fence | Op::Discard)
    }

    /// Is about a variable: an access, on whichever side of a branch, a heap block, or what an object leads to.
    #[inline(always)]
    pub fn has_variable(self) -> bool {
        self.is_access()
            || matches!(self, Op::Alloc | Op::Free | Op::OtherRead | Op::OtherWrite | Op::Reach)
            || self.is_stale()
    }

    /// Uses memory that was freed.
    #[inline(always)]
    pub fn is_stale(self) -> bool {
        matches!(self, Op::StaleRead | Op::StaleWrite | Op::StaleFree)
    }

    /// Reads or writes memory (not `free`, which only conflicts with accesses).
    #[inline(always)]
    pub fn is_access(self) -> bool {
        (self as u8) <= Op::Rmw as u8
    }

    /// Is a read or write that is not atomic.
    #[inline(always)]
    pub fn is_plain_access(self) -> bool {
        (self as u8) <= Op::Write as u8
    }

    /// Reads memory.
    #[inline(always)]
    pub fn reads(self) -> bool {
        matches!(self, Op::Read | Op::AtomicRead | Op::Rmw)
    }

    /// Writes memory.
    #[inline(always)]
    pub fn writes(self) -> bool {
        matches!(self, Op::Write | Op::AtomicWrite | Op::Rmw)
    }

    /// Only finds out what state a lock, a semaphore or a thread is in.
    #[inline(always)]
    pub fn probes(self) -> bool {
        matches!(self, Op::TryFail | Op::ReadTryFail | Op::SemValue | Op::JoinFail)
    }

    /// Is about the recorded run alone: what went wrong there, or a wait that never ended. In schedules it has no
    /// effect.
    #[inline(always)]
    pub fn is_fault(self) -> bool {
        self.is_stale() || matches!(self, Op::Want | Op::ReadWant | Op::Unheld | Op::Discard | Op::Gone)
    }

    /// Is an atomic access.
    #[inline(always)]
    pub fn is_atomic(self) -> bool {
        matches!(self, Op::AtomicRead | Op::AtomicWrite | Op::Rmw)
    }

    /// Touches memory cells: an access, or the end of their lifetime.
    #[inline(always)]
    pub fn touches_memory(self) -> bool {
        self.is_access() || matches!(self, Op::Free)
    }

    /// Whether two operations of different threads on overlapping locations
    /// conflict: at least one writes or frees, and not both are atomic.
    #[inline]
    pub fn conflicts(self, other: Op) -> bool {
        self.touches_memory()
            && other.touches_memory()
            && (self.writes() || other.writes() || self == Op::Free || other == Op::Free)
            && !(self.is_atomic() && other.is_atomic())
    }
}

/// A set of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ops(u64);

impl Ops {
    /// Those that occur in a list.
    pub fn of(ops: &[Op]) -> Ops {
        Ops(ops.iter().fold(0, |all, &op| all | 1 << op as u64))
    }

    /// Every operation.
    pub const ALL: Ops = Ops((1 << Op::ALL.len()) - 1);

    /// All that are about the recorded run alone ([`Op::is_fault`]).
    pub const FAULTS: &[Op] =
        &[Op::StaleRead, Op::StaleWrite, Op::StaleFree, Op::Want, Op::ReadWant, Op::Unheld, Op::Discard, Op::Gone];

    /// Those of either set.
    pub fn or(self, other: Ops) -> Ops {
        Ops(self.0 | other.0)
    }

    /// Whether an operation is in the set.
    #[inline(always)]
    pub fn has(self, op: Op) -> bool {
        self.0 >> op as u32 & 1 == 1
    }

    /// Whether one of them is in the set.
    pub fn any(self, wanted: &[Op]) -> bool {
        self.0 & Ops::of(wanted).0 != 0
    }
}

/// Memory order of an atomic access or a fence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum MemoryOrder {
    Relaxed = 0,
    Acquire = 1,
    Release = 2,
    AcqRel = 3,
    #[default]
    SeqCst = 4,
}

impl MemoryOrder {
    /// Every memory order, in the order of its code.
    pub const ALL: [MemoryOrder; 5] =
        [MemoryOrder::Relaxed, MemoryOrder::Acquire, MemoryOrder::Release, MemoryOrder::AcqRel, MemoryOrder::SeqCst];

    /// The order with this code.
    pub fn from_code(code: u32) -> Option<MemoryOrder> {
        MemoryOrder::ALL.get(code as usize).copied()
    }

    /// The word for it in Snag's text format.
    pub fn word(self) -> &'static str {
        match self {
            MemoryOrder::Relaxed => "relaxed",
            MemoryOrder::Acquire => "acquire",
            MemoryOrder::Release => "release",
            MemoryOrder::AcqRel => "acq_rel",
            MemoryOrder::SeqCst => "seq_cst",
        }
    }

    /// A read of this order takes over what the write it sees has released.
    #[inline]
    pub fn acquires(self) -> bool {
        matches!(self, MemoryOrder::Acquire | MemoryOrder::AcqRel | MemoryOrder::SeqCst)
    }

    /// A write of this order releases what its thread has done.
    #[inline]
    pub fn releases(self) -> bool {
        matches!(self, MemoryOrder::Release | MemoryOrder::AcqRel | MemoryOrder::SeqCst)
    }
}
