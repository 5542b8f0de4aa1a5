//! Dense ids. Each kind of thing has its own type, so that a lock can never be
//! used where a variable is meant; the number inside is an index into the table
//! of that kind.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into a dense array.
            #[inline(always)]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of the `index`-th thing.
            #[inline(always)]
            pub fn new(index: usize) -> Self {
                debug_assert!(index <= u32::MAX as usize);
                Self(index as u32)
            }
        }
    )*};
}

ids! {
    /// Position of an event in its trace, from 0.
    EventId;
    /// A thread.
    ThreadId;
    /// A memory location as the trace names it: a name or an address range.
    VarId;
    /// A mutex or reader/writer lock.
    LockId;
    /// A condition variable.
    CondId;
    /// A counting semaphore.
    SemId;
    /// A barrier.
    BarrierId;
    /// A method whose inside was not observed.
    MethodId;
    /// A symbol of a symbolic trace.
    SymbolId;
    /// A source location; [`LocId::NONE`] where the trace gives none.
    LocId;
    /// An expression over symbols.
    ExprId;
    /// A set of locations that a missing method could reach.
    ReachId;
    /// Free text: the word of a mark, the other spelling of a thread.
    TextId;
    /// A term of a symbolic trace (see [`crate::symbolic`]).
    TermId;
    /// A definition of a symbol: a symbol of one thread.
    DefinitionId;
    /// A unit of memory that no access of the trace splits (see [`crate::cells`]).
    CellId;
}

impl LocId {
    /// No location was recorded.
    pub const NONE: LocId = LocId(0);
}
