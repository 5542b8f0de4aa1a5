//! Accesses, ranges and heap blocks.

use super::Translator;
use super::extent::is_possible;
use super::heap::{Heap, Place};
use super::shadow::Foreign;
use crate::wire::{INLINE, WITHOUT_VALUES, head, op};
use snag_model::tables::Object;
use snag_model::{BarrierId, CondId, LockId, MemoryOrder, Op, SemId, Space, ThreadId};

/// What code that is not recorded is called in traces.
pub const FOREIGN: &str = "code that is not instrumented";

/// So often it is kept behind all that has synchronised. A program in which it happens more often would need too much memory:
/// from then on it is kept behind the accesses to the same memory.
const CAREFUL: u64 = 1000;

impl Translator {
    pub(super) fn access(&mut self, op: Op, address: u64, size: u64, pc: u64, value: Option<u64>) {
        if !self.closely && value.is_some_and(|value| self.quick_access(op, address, size, pc, value)) {
            return;
        }
        if !self.may_touch(address, size) {
            return;
        }
        let place = self.heap.place(address, size);
        if !self.heap.fresh.is_empty() {
            self.name_data();
        }
        match place {
            Place::At(place, whole) if whole == size => {
                let foreign = self.follow(op, place, size, value);
                self.emit(op, place, size, 0, pc, value.map(|v| v as i64), None);
                if foreign != Foreign::Nothing {
                    self.foreign(foreign, place, size, pc);
                }
                self.remember_near(address);
            }
            // It reaches out of its block: the part inside, without a value.
            Place::At(place, part) => {
                self.follow(op, place, part, None);
                self.emit(op, place, part, 0, pc, None, None);
            }
            Place::Freed => self.freed(op, address, size, pc),
        }
    }

    /// Whether the program can have touched these bytes: if not, it has died of it, or its handler of signals goes on without. And whether
    /// there is room to follow them.
    pub(super) fn may_touch(&mut self, address: u64, size: u64) -> bool {
        is_possible(address, size) && self.has_room()
    }

    /// Keeps track of what is in memory; what a read says about code that is not recorded.
    fn follow(&mut self, op: Op, place: u64, size: u64, value: Option<u64>) -> Foreign {
        match value.filter(|_| (1..=8).contains(&size)) {
            Some(value) if op == Op::Write => self.shadow.write(self.current, place, size, value),
            Some(value) => return self.shadow.read(self.current, place, size, value),
            None => {
                if op == Op::Write {
                    self.shadow.forget(place, size);
                }
                self.shadow.touch(self.current, place, size, op == Op::Write);
            }
        }
        Foreign::Nothing
    }

    /// Says that code that is not recorded has written what was read: a missing method after the read. (Before it, no race
    /// with the read could be predicted, although what the accesses of a race find does not matter.)
    ///
    /// If other threads have to do with the memory, nobody knows who has changed it. Whoever it was has handed it over by
    /// something that synchronises, or it is a race; so what was read must stay behind all that has synchronised before.
    /// Memory that is the thread's own was changed by what it has called: the method orders nothing, and is there to be seen.
    #[cold]
    fn foreign(&mut self, foreign: Foreign, place: u64, size: u64, pc: u64) {
        self.oddities.foreign += 1;
        let mut reached = Vec::new();
        if foreign == Foreign::Shared {
            self.oddities.foreign_shared += 1;
            if self.oddities.foreign_at.len() < 3 {
                let location = self.location(pc);
                let thread = self.thread(self.current);
                let thread = self.tables.thread_name(thread);
                let text = format!("{size} bytes read by {thread} at {}", self.tables.location_name(location));
                self.oddities.foreign_at.push(text);
            }
            reached.push(Object::Variable(self.tables.variable_range(place, size)));
            if self.oddities.foreign_shared <= CAREFUL {
                let count = |space| self.tables.names(space).len() as u32;
                reached.extend((0..count(Space::Lock)).map(|lock| Object::Lock(LockId(lock))));
                reached.extend((0..count(Space::Thread)).map(|thread| Object::Thread(ThreadId(thread))));
                reached.extend((0..count(Space::Condition)).map(|condition| Object::Condition(CondId(condition))));
                reached.extend((0..count(Space::Semaphore)).map(|semaphore| Object::Semaphore(SemId(semaphore))));
                reached.extend((0..count(Space::Barrier)).map(|barrier| Object::Barrier(BarrierId(barrier))));
            }
        }
        let reach = self.tables.reach(reached);
        let method = self.tables.intern(Space::Method, FOREIGN);
        self.plain(Op::MethodBegin, method, reach.0, pc);
        self.plain(Op::MethodEnd, method, 0, pc);
    }

    /// Whether the last access of the program was to memory that was freed. It has died of it, or before anybody could see
    /// what it wrote.
    pub(super) fn is_gone(&mut self, code: u8, address: u64, size: u64, pc: u64) -> bool {
        if !is_possible(address, size) {
            return false;
        }
        let op = if code == op::READ { Op::StaleRead } else { Op::StaleWrite };
        if self.heap.is_doubtful {
            return false;
        }
        if matches!(self.heap.place(address, size), Place::Freed) {
            self.calls.step();
            self.stale(op, address, size, pc);
            return true;
        }
        let Some(place) = self.heap.gone_at(address, size) else { return false };
        self.calls.step();
        self.oddities.freed += 1;
        self.emit(op, place, size, 0, pc, None, None);
        true
    }

    fn freed(&mut self, op: Op, address: u64, size: u64, pc: u64) {
        let stale = if matches!(op, Op::Read | Op::AtomicRead) { Op::StaleRead } else { Op::StaleWrite };
        self.stale(stale, address, size, pc);
    }

    pub(super) fn atomic(&mut self, code: u8, detail: u8, pc: u64, address: u64, value: u64, written: u64) {
        if !self.may_touch(address, 1 << (detail & 7)) {
            return;
        }
        let Place::At(place, size) = self.heap.place(address, 1 << (detail & 7)) else {
            let op = if code == op::ATOMIC_READ { Op::AtomicRead } else { Op::AtomicWrite };
            return self.freed(op, address, 1 << (detail & 7), pc);
        };
        let order = memory_order(detail as u64 >> 3 & 7);
        let (op, order) = match (code, order) {
            (op::ATOMIC_READ, MemoryOrder::Release) => (Op::AtomicRead, MemoryOrder::Relaxed),
            (op::ATOMIC_READ, MemoryOrder::AcqRel) => (Op::AtomicRead, MemoryOrder::Acquire),
            (op::ATOMIC_READ, order) => (Op::AtomicRead, order),
            (op::ATOMIC_WRITE, MemoryOrder::Acquire) => (Op::AtomicWrite, MemoryOrder::Relaxed),
            (op::ATOMIC_WRITE, MemoryOrder::AcqRel) => (Op::AtomicWrite, MemoryOrder::Release),
            (op::ATOMIC_WRITE, order) => (Op::AtomicWrite, order),
            (_, order) => (Op::Rmw, order),
        };
        // Those of sixteen bytes come without a value.
        let known = size <= 8 && detail & WITHOUT_VALUES == 0;
        let written = (op == Op::Rmw && known).then_some(written as i64);
        let value_then = known.then_some(value);
        let foreign = match op {
            Op::AtomicWrite => self.follow(Op::Write, place, size, value_then),
            _ => self.follow(Op::Read, place, size, value_then),
        };
        // What an rmw found was written before it.
        if op == Op::Rmw && foreign != Foreign::Nothing {
            self.foreign(foreign, place, size, pc);
        }
        self.emit(op, place, size, order as u32, pc, known.then_some(value as i64), written);
        if op == Op::Rmw {
            let left = written.map(|value| value as u64);
            self.follow(Op::Write, place, size, left);
            if let Some(left) = left {
                self.shadow.tell(self.runs.visit, place, size, left);
            }
        }
        if known && size == 1 << (detail & 7) && op != Op::Rmw {
            self.remember_atomic(head(code, detail, pc as usize), op, size, order);
            self.remember_near(address);
        }
        if op != Op::Rmw && foreign != Foreign::Nothing {
            self.foreign(foreign, place, size, pc);
        }
    }

    /// A range with its contents becomes accesses of at most eight bytes; a longer one is one access without a value.
    pub(super) fn range(&mut self, code: u8, pc: u64, address: u64, length: u64, contents: &[u64]) {
        let op = if code == op::RANGE_READ { Op::Read } else { Op::Write };
        if length as usize > INLINE || contents.is_empty() {
            if !self.may_touch(address, length) {
                return;
            }
            let mut done = 0;
            while done < length && !self.oddities.has_ended() {
                match self.heap.place(address + done, length - done) {
                    Place::At(place, part) => {
                        self.follow(op, place, part, None);
                        self.emit(op, place, part, 0, pc, None, None);
                        done += part.max(1);
                    }
                    Place::Freed => {
                        self.freed(op, address + done, length - done, pc);
                        return;
                    }
                }
            }
            return;
        }
        self.parts(op, pc, address, length as usize, contents);
    }

    pub(super) fn alloc(&mut self, address: u64, size: u64, mapped: bool, pc: u64) {
        if !self.has_room() {
            return;
        }
        let event = self.count() as u64;
        self.shadow.contention.resolve(event);
        let (place, size) = self.heap.alloc(address, size, mapped);
        self.shadow.renew(place, size);
        self.shadow.allocated(place, size, event, (pc, self.calls.current()));
        self.heap_changed(address, place, size, false);
        self.emit(Op::Alloc, place, size, 0, pc, None, None);
    }

    pub(super) fn free(&mut self, address: u64, pc: u64) {
        if let Some((place, size)) = self.heap.free(address) {
            if self.objects.are_in(address, size) {
                self.discard_all(address, size, pc);
                self.objects.forget(address, size);
            }
            self.shadow.freed(place, size, self.count() as u64);
            self.shadow.renew(place, size);
            self.heap_changed(address, place, size, true);
            self.emit(Op::Free, place, size, 0, pc, None, None);
            if place != address {
                // These addresses of the trace never come again.
                let heap = &self.heap;
                self.shadow.forget_regions_in(place, size, |number| !heap.has_place_in(number));
                self.heap.forget(address, size);
            }
        } else if self.heap.is_freed(address) {
            self.stale(Op::StaleFree, address, 1, pc);
        }
    }

    /// Memory goes back to the system.
    pub(super) fn unmap(&mut self, address: u64, size: u64, pc: u64) {
        // A mapping may be given back in pieces, and what is not mapped, too.
        if self.heap.block_at(address) > 0 {
            self.free(address, pc);
        }
        // What was in memory that is no block stays known: whoever finds something else there later has to be told that it is new.
        if is_possible(address, size) {
            self.heap.forget(address, size);
        }
    }

    fn heap_changed(&mut self, address: u64, place: u64, size: u64, freed: bool) {
        if place != address {
            return self.forget_near(address, size);
        }
        let (start, size) = Heap::granules(address, size);
        self.shadow.set_freed(start, size, freed);
    }
}

/// A memory order by the compiler's number. What is read by consume is acquired.
pub(super) fn memory_order(number: u64) -> MemoryOrder {
    match number {
        0 => MemoryOrder::Relaxed,
        1 | 2 => MemoryOrder::Acquire,
        3 => MemoryOrder::Release,
        4 => MemoryOrder::AcqRel,
        _ => MemoryOrder::SeqCst,
    }
}
