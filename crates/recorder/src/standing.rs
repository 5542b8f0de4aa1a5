//! What a thread that was stopped is about to do, and whether that is an event of a recording.
//!
//! Most operations say beforehand what they will touch. A call of a library, a copy of a text for one, knows it only when it is
//! made: then its records are compared, which it makes when it is let go on by one step.

use crate::recorded::Recorded;
use crate::symbols::Symbols;
use crate::wire::{self, op};
use snag_model::{Action, Fault, LocId, Op, Trace, Variable};

/// Where a thread stands, as the runtime says it; or a record of what it has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// What it is about to do, as in [`op`].
    code: u8,
    /// It has begun, and waits.
    waits: bool,
    pc: u64,
    address: u64,
    size: u64,
}

impl Stopped {
    /// What a record of [`op::STOPPED`] says.
    pub fn from_record(words: &[u64]) -> Stopped {
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let detail = (word(0) >> 8) as u8;
        Stopped {
            code: detail & !wire::WAITS,
            waits: detail & wire::WAITS != 0,
            pc: word(0) >> 16,
            address: word(1),
            size: word(2),
        }
    }

    /// What a record of something says that touches memory or a lock; `None` for all others.
    pub fn from_deed(words: &[u64]) -> Option<Stopped> {
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let first = word(0);
        let size = match first as u8 {
            op::READ | op::WRITE | op::ATOMIC_READ | op::ATOMIC_WRITE | op::RMW => 1 << (first >> 8 & 7),
            op::RANGE_READ | op::RANGE_WRITE => word(2),
            op::FREE | op::LOCK | op::READ_LOCK => 0,
            _ => return None,
        };
        Some(Stopped { code: first as u8, waits: false, pc: first >> 16, address: word(1), size })
    }

    /// Whether it says only when it is made what it touches.
    pub fn is_call(&self) -> bool {
        self.code == op::STEP && !self.waits
    }

    /// Whether this is what becomes the event, as far as the operation goes.
    fn is(&self, event: Op) -> bool {
        match self.code {
            op::READ | op::RANGE_READ => event == Op::Read,
            op::WRITE | op::RANGE_WRITE => event == Op::Write,
            op::ATOMIC_READ => event == Op::AtomicRead,
            op::ATOMIC_WRITE => event == Op::AtomicWrite,
            // One that compares first may find something else, and then only reads.
            op::RMW => matches!(event, Op::Rmw | Op::AtomicRead),
            op::FREE => event == Op::Free,
            op::LOCK => matches!(event, Op::Acquire | Op::Want),
            op::READ_LOCK => matches!(event, Op::ReadAcquire | Op::ReadWant),
            op::WAIT_END => matches!(event, Op::WaitEnd | Op::Want),
            _ => false,
        }
    }

    /// In words, with its place.
    pub fn describe(&self, symbols: &mut Symbols) -> String {
        let bytes = if self.size == 1 { "1 byte".to_owned() } else { format!("{} bytes", self.size) };
        let (what, has_size) = match self.code {
            op::READ | op::RANGE_READ => ("a read", true),
            op::WRITE | op::RANGE_WRITE => ("a write", true),
            op::ATOMIC_READ => ("an atomic read", true),
            op::ATOMIC_WRITE => ("an atomic write", true),
            op::RMW => ("an atomic read and write", true),
            op::ALLOC => ("an allocation", true),
            op::FREE => ("the freeing of a block", false),
            op::LOCK => ("the taking of a lock", false),
            op::READ_LOCK => ("the taking of a lock for reading", false),
            op::UNLOCK => ("the giving back of a lock", false),
            op::LOCK_NEW => ("the making or unmaking of a lock", false),
            op::FORK => ("the start of a thread", false),
            op::JOIN => ("a join", false),
            op::WAIT_BEGIN => ("a wait for a condition", false),
            op::WAIT_END => ("the end of a wait for a condition", false),
            op::NOTIFY => ("the waking of those who wait for a condition", false),
            op::CONDITION_NEW => ("the making of a condition", false),
            op::SEM_NEW => ("the making of a semaphore", false),
            op::SEM_POST => ("a post of a semaphore", false),
            op::SEM_WAIT => ("a wait for a semaphore, or an attempt", false),
            op::BARRIER_NEW => ("the making or unmaking of a barrier", false),
            op::BARRIER_ENTER => ("a barrier", false),
            op::BARRIER_LEAVE => ("the way out of a barrier", false),
            op::FENCE => ("a fence", false),
            _ => ("a call", false),
        };
        let mut text = what.to_owned();
        if has_size {
            text += &format!(" of {bytes}");
        }
        if self.address != 0 && self.code != op::STEP && self.code != op::JOIN {
            text += &format!(" at {:#x}", self.address);
            let part = if self.size > 0 { symbols.part(self.address, self.size) } else { None };
            if let Some(name) = part.or_else(|| symbols.data(self.address).map(|variable| variable.name)) {
                text += &format!(" ({name})");
            }
        }
        let place = if self.pc == 0 { String::new() } else { format!(", at {}", symbols.code(self.pc)[0].place) };
        let how = if self.waits { "waits in" } else { "stands in front of" };
        format!("{how} {text}{place}")
    }
}

/// The part of an address in the trace that is an address of the program.
pub const ADDRESS: u64 = (1 << 48) - 1;

/// An event in front of which a thread is to stand.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    op: Op,
    location: LocId,
    /// What it is about in the run that is looked at: memory, or a lock without a size.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// It may be less than what the program does: it ends with its block.
    cut: bool,
    /// The bytes that all accesses of the race have in common: first one and length.
    common: (u64, u64),
}

impl Wanted {
    /// What an event of the trace is in a run in which files are mapped as `now` says.
    pub fn new(
        trace: &Trace,
        recorded: &Recorded,
        event: snag_model::EventId,
        now: &Symbols,
    ) -> Result<Wanted, String> {
        let event = trace.event(event);
        let action = event.action();
        let lock = match action {
            Action::Fault(Fault::Want { lock, .. }) => Some(lock),
            action => action.acquired().map(|(lock, _)| lock),
        };
        let (address, size) = match (lock, action.variable()) {
            (Some(lock), _) => {
                let address = recorded.code.lock(lock, now);
                (address.ok_or("the recording does not say where its locks are; make it again")?, 0)
            }
            (_, Some(variable)) if event.op.touches_memory() => match trace.tables.variable(variable) {
                Variable::Range { address, size } => (recorded.code.moved(address & ADDRESS, now), size),
                Variable::Named(_) => return Err("the race is not about memory".to_owned()),
            },
            _ => return Err(format!("nobody can be stopped in front of an event '{}'", event.op.word())),
        };
        let Some(_) = address.checked_add(size) else { return Err("the race is not about memory".to_owned()) };
        let cut = event.value.is_none();
        Ok(Wanted { op: event.op, location: event.location, address, size, cut, common: (address, size) })
    }

    /// Makes known what else the race is about.
    pub fn races_with(&mut self, others: &[Wanted]) {
        let (mut start, mut end) = (self.address, self.address + self.size);
        for other in others {
            (start, end) = (start.max(other.address), end.min(other.address + other.size));
        }
        if start < end {
            self.common = (start, end - start);
        }
    }

    /// Whether it is memory.
    pub fn is_memory(&self) -> bool {
        self.op.touches_memory()
    }

    /// Whether a thread is, or was, about to do just this: the operation, at the place, on the memory or lock.
    pub fn is(&self, trace: &Trace, recorded: &Recorded, found: &Stopped, now: &mut Symbols) -> bool {
        found.is(self.op) && self.is_about(found) && self.is_at(trace, recorded, found, now)
    }

    fn is_about(&self, found: &Stopped) -> bool {
        let Wanted { address, size, .. } = *self;
        match found.code {
            op::LOCK | op::READ_LOCK | op::WAIT_END | op::FREE => found.address == address,
            // A range becomes several events, and how long it is may depend on what it finds: a text ends where it ends.
            op::RANGE_READ | op::RANGE_WRITE => contains(found, self.common.0, self.common.1),
            // So does an access of sixteen bytes become two.
            _ if found.size == 16 => contains(found, address, size),
            _ => found.address == address && (found.size == size || self.cut && size < found.size),
        }
    }

    /// Whether a thread stands where the event was.
    pub fn is_at(&self, trace: &Trace, recorded: &Recorded, found: &Stopped, now: &mut Symbols) -> bool {
        if self.location == LocId::NONE || found.pc == 0 {
            return self.location == LocId::NONE && found.pc == 0;
        }
        let by_address = recorded.code.has_place(self.location, found.pc, now);
        by_address.unwrap_or_else(|| now.code(found.pc)[0].place == trace.tables.location_name(self.location))
    }
}

fn contains(range: &Stopped, address: u64, size: u64) -> bool {
    let start = address.checked_sub(range.address);
    start.and_then(|start| start.checked_add(size)).is_some_and(|end| end <= range.size)
}

/// The records in the words of a chunk.
pub fn records(mut words: &[u64]) -> impl Iterator<Item = &[u64]> {
    std::iter::from_fn(move || {
        if words.first().is_none_or(|&first| first == 0) {
            return None;
        }
        let (record, rest) = words.split_at_checked(wire::words(words))?;
        words = rest;
        Some(record)
    })
}
