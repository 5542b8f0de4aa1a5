//! Blocks of recorded events: what a program did, by address, squeezed by guessing.
//!
//! Memory is given as address ranges, so that whoever records need not keep a table of all addresses of the program; the
//! reader gives variables their numbers. Each event is guessed from the ones before it in the block ([`guess`]): where
//! in the program it is, which address it touches, which value is there. What was guessed right costs a part of a byte.
//! Guessing starts anew with each block, so blocks decode on their own. That a value was seen before in the same bytes is no guess: whoever
//! records knows what is in memory, and readers find out ([`memory`]).
//!
//! ```text
//! payload  = 13 lengths, then as many streams of bytes, in this order:
//! control    a byte an event
//!              bits 0-1  site: 0 as guessed, 1 from `sites`, 2 the next of `declared`
//!              bits 2-3  address: 0 as last time here plus the stride, 1 the thread's last address plus the offset here,
//!                        2 last time here plus a difference, 3 the thread's last address plus a difference
//!              bits 4-5  value, of an access or branch: 0 what events of this block have last seen in these one to eight bytes (what none
//!                        has seen is 0), 1 as guessed from this site, 2 from `values`, 3 not known; 0 for other events
//!              bit 6     size and aux are in `shapes`, not those of the site
//!              bit 7     there is a byte in `more`
//! more       bit 0: the value is in `values8` whatever the size; bit 1: an rmw whose value written is in `written`
//! threads    runs: thread, number of events
//! sites      number of the site in the block
//! declared   op u8, size, location (difference to the one declared before, signed), aux
//! shapes     size, aux; they become the site's
//! addresses  differences, signed
//! values1 values2 values4 values8
//!            values of accesses to at most 1, 2, 4 bytes, and of all others, as many bytes each
//! written    value written less value read, signed
//! targets    for events about no range: the target, as difference to the last
//!            one at this site, signed; instead of an address
//! ```
//!
//! Numbers are LEB128, but in `sites` and `addresses`, where their first bytes tell how long they are; signed ones are zigzag. The target of
//! an event about a variable that is a name is the number of that name. A range has at least one byte; size 0 means that the target is no range.
//!
//! What is coded are columns, not actions: recording and reading spend a few nanoseconds on an event.

mod accesses;
mod batch;
mod decode;
mod encode;
mod filling;
mod guess;
mod memory;

pub(super) use batch::Taken;
pub use batch::{AccessOf, Batch, Noted, Spot, SpotId};
pub(super) use decode::Decoder;
pub(super) use encode::Encoder;

use snag_model::events::Event;
use snag_model::ids::{LocId, ThreadId, VarId};
use snag_model::op::Op;
use snag_model::tables::{Tables, Variable};

/// An event as a recorder knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedEvent {
    /// First byte of the range that is touched; or, if `size` is 0, the target: see [`snag_model::events`], but for a
    /// variable that is a name the number of that name in [`snag_model::Space::VariableName`].
    pub address: u64,
    /// Bytes of the range, or 0.
    pub size: u64,
    /// The value read or written, if it is known.
    pub value: Option<i64>,
    /// The value written by an rmw, if it is known.
    pub written: Option<i64>,
    /// Where in the program.
    pub location: LocId,
    /// Who does it.
    pub thread: ThreadId,
    /// See [`snag_model::events`].
    pub aux: u32,
    /// Tells places apart that have the same location: guessing is better for it. Not part of the event.
    pub hint: u16,
    /// What is done.
    pub op: Op,
    /// Events before it in the same block say that its value is in its bytes, which are at most eight: so it is not told. Not part
    /// of the event.
    pub seen: bool,
}

impl RecordedEvent {
    /// An event of a trace.
    pub fn of(event: &Event, tables: &Tables) -> RecordedEvent {
        let Event { thread, op, target, aux, location, value, written } = *event;
        let (address, size) = match op.has_variable().then(|| tables.variable(VarId(target))) {
            None => (target as u64, 0),
            Some(Variable::Named(name)) => (name as u64, 0),
            Some(Variable::Range { address, size }) => (address, size),
        };
        RecordedEvent { address, size, value, written, location, thread, aux, hint: 0, op, seen: false }
    }

    /// The event of a trace, whose tables get the range that it touches.
    pub fn in_trace(&self, tables: &mut Tables) -> Event {
        let RecordedEvent { op, thread, location, aux, value, written, .. } = *self;
        let target = match (op.has_variable(), self.size) {
            (false, _) => self.address as u32,
            (true, 0) => tables.variable_of_name(self.address as usize).map_or(0, |variable| variable.0),
            (true, size) => tables.variable_range(self.address, size).0,
        };
        Event { op, thread, location, aux, value, written, target }
    }
}

/// Streams of a payload.
const STREAMS: usize = 13;

/// Where the streams of a payload end.
pub(super) type Parts = [usize; STREAMS];

mod stream {
    pub const CONTROL: usize = 0;
    pub const MORE: usize = 1;
    pub const THREADS: usize = 2;
    pub const SITES: usize = 3;
    pub const DECLARED: usize = 4;
    pub const SHAPES: usize = 5;
    pub const ADDRESSES: usize = 6;
    pub const VALUES: usize = 7;
    pub const WRITTEN: usize = 11;
    pub const TARGETS: usize = 12;
}

/// Codes of the control byte.
mod code {
    pub const SITE_GIVEN: u8 = 1;
    pub const SITE_DECLARED: u8 = 2;
    pub const ADDRESS: u8 = 2;
    pub const NEAR_THREAD: u8 = 1;
    pub const FROM_SITE: u8 = 2;
    pub const FROM_THREAD: u8 = 3;
    pub const VALUE: u8 = 4;
    pub const VALUE_OF_SITE: u8 = 1;
    pub const VALUE_GIVEN: u8 = 2;
    pub const VALUE_UNKNOWN: u8 = 3;
    pub const SHAPE: u8 = 1 << 6;
    pub const MORE: u8 = 1 << 7;
    pub const WIDE: u8 = 1;
    pub const WRITTEN: u8 = 2;
}

/// Which of the four streams of values an access of this size uses, and how many bytes it takes there.
#[inline(always)]
const fn value_class(size: u64) -> (usize, usize) {
    match size {
        1 => (0, 1),
        2 => (1, 2),
        3 | 4 => (2, 4),
        _ => (3, 8),
    }
}

/// Something of which all bits are zero, in memory that the system gives as it is used.
///
/// # Safety
///
/// That must be a value of the type: numbers, and what consists of numbers.
unsafe fn zeroed<T>() -> Box<T> {
    let layout = std::alloc::Layout::new::<T>();
    assert!(layout.size() > 0);
    // SAFETY: the layout has a size, zeros are a value, and the box is the only owner.
    unsafe {
        let memory = std::alloc::alloc_zeroed(layout).cast::<T>();
        if memory.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        Box::from_raw(memory)
    }
}

#[cfg(test)]
mod tests;
