//! What can go wrong in a recorded run, by the names that findings have for it.

/// A kind of fault: something that a program must not do, and did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FaultKind {
    /// Memory was read or written after it was freed.
    UseAfterFree,
    /// A block was freed twice.
    DoubleFree,
    /// A lock was given back by a thread that did not hold it, or its holder waits for it for ever.
    LockMisuse,
    /// A lock, a condition, a semaphore or a barrier was destroyed, initialised again or freed while it was in use, or
    /// may be.
    DestroyedInUse,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [FaultKind; 4] =
        [FaultKind::UseAfterFree, FaultKind::DoubleFree, FaultKind::LockMisuse, FaultKind::DestroyedInUse];

    /// The word for it in machine output.
    pub fn word(self) -> &'static str {
        match self {
            FaultKind::UseAfterFree => "use-after-free",
            FaultKind::DoubleFree => "double-free",
            FaultKind::LockMisuse => "lock-misuse",
            FaultKind::DestroyedInUse => "destroyed-in-use",
        }
    }

    /// The kind with this word.
    pub fn from_word(word: &str) -> Option<FaultKind> {
        FaultKind::ALL.into_iter().find(|kind| kind.word() == word)
    }
}
