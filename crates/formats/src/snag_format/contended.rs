//! Which recorded events other threads can interfere with: nearly all of a program's accesses are to memory that its thread
//! has for itself, and prediction need not even decode them.
//!
//! A recorder knows of each access, when it happens, whether other threads could have interfered with the memory so far.
//! Those with which they could, and all events that are no accesses, stand once more in blocks of their own, with their
//! numbers. Memory may be a thread's own for long before another one comes to it: then the accesses up to there are only
//! among all recorded events; these blocks say which memory that is, and what was touched in each stretch of events.
//!
//! Guarantee, if the last of these blocks is there: what is left out are accesses to memory that is *private* up to the end
//! of its life: of any two of its accesses of different threads of which one writes, one comes before the other in every
//! schedule, by thread order, fork, join and notify alone; the alloc counts as a write, and so does the free. The last event
//! of each thread is not left out.
//!
//! ```text
//! payload  = 0 events | 1 memory | 2 touched | 3 end
//! events   = n  n × number (less the one before in the file)  events, as in a block of recorded events
//! memory   = n  n × (address less the end of the one before, signed; length; first event; last event less the first)
//! touched  = first event n  n  n × (number of a line less the one before)
//! end      = n  n × (event less the one before)
//! ```
//!
//! Memory: up to the last event an access to it that is not listed has to be looked for among the recorded events, from the
//! first event on. Touched: lines of 64 bytes that such accesses may touch, from the first event on to that of the next list.
//! End: the last events of threads.

mod memory;
mod read;
mod write;

pub use memory::{Late, Touched};
pub(super) use memory::{end_payload, memory_payload};
pub use read::{Contended, Numbers};
pub(super) use write::ContendedEvents;

/// What the first byte of a payload says.
mod what {
    pub const EVENTS: u8 = 0;
    pub const MEMORY: u8 = 1;
    pub const TOUCHED: u8 = 2;
    pub const END: u8 = 3;
}
