//! Accesses, ranges and heap blocks.

use super::Translator;
use super::heap::Place;
use crate::wire::{INLINE, op};
use snag_trace::{MemoryOrder, Op};

impl Translator {
    #[inline]
    pub(super) fn access(&mut self, op: Op, address: u64, size: u64, pc: u64, value: Option<u64>) {
        let place = self.heap.place(address, size);
        if !self.heap.fresh.is_empty() {
            self.name_data();
        }
        match place {
            Place::At(place, whole) if whole == size => {
                self.emit(op, place, size, 0, pc, value.map(|v| v as i64), None);
            }
            // It reaches out of its block: the part inside, without a value.
            Place::At(place, part) => self.emit(op, place, part, 0, pc, None, None),
            Place::Freed => self.freed(op, address, size, pc),
        }
    }

    fn freed(&mut self, op: Op, address: u64, size: u64, pc: u64) {
        self.oddities.freed += 1;
        if self.oddities.freed <= 3 {
            let location = self.location(pc);
            let thread = self.thread(self.current);
            let text = format!(
                "{} of {size} bytes at {address:#x} by {} at {}",
                op.word(),
                self.tables.thread_name(thread),
                self.tables.location_name(location)
            );
            self.oddities.freed_at.push(text);
        }
    }

    pub(super) fn atomic(&mut self, code: u8, detail: u8, pc: u64, address: u64, value: u64, written: u64) {
        let Place::At(place, size) = self.heap.place(address, 1 << (detail & 7)) else {
            return self.freed(Op::AtomicRead, address, 1 << (detail & 7), pc);
        };
        let fenced = self.threads.get(self.current).is_some_and(|t| t.fenced);
        let order = match (detail >> 3) & 7 {
            0 => MemoryOrder::Relaxed,
            1 | 2 => MemoryOrder::Acquire,
            3 => MemoryOrder::Release,
            4 => MemoryOrder::AcqRel,
            _ => MemoryOrder::SeqCst,
        };
        let (op, order) = match (code, order) {
            (op::ATOMIC_READ, MemoryOrder::Release) => (Op::AtomicRead, MemoryOrder::Relaxed),
            (op::ATOMIC_READ, MemoryOrder::AcqRel) => (Op::AtomicRead, MemoryOrder::Acquire),
            (op::ATOMIC_READ, order) => (Op::AtomicRead, order),
            (op::ATOMIC_WRITE, MemoryOrder::Relaxed | MemoryOrder::Acquire) if fenced => {
                (Op::AtomicWrite, MemoryOrder::Release)
            }
            (op::ATOMIC_WRITE, MemoryOrder::Acquire) => (Op::AtomicWrite, MemoryOrder::Relaxed),
            (op::ATOMIC_WRITE, MemoryOrder::AcqRel) => (Op::AtomicWrite, MemoryOrder::Release),
            (op::ATOMIC_WRITE, order) => (Op::AtomicWrite, order),
            (_, MemoryOrder::Relaxed) if fenced => (Op::Rmw, MemoryOrder::Release),
            (_, MemoryOrder::Acquire) if fenced => (Op::Rmw, MemoryOrder::AcqRel),
            (_, order) => (Op::Rmw, order),
        };
        // Those of sixteen bytes come without a value.
        let known = size <= 8;
        let written = (op == Op::Rmw && known).then_some(written as i64);
        self.emit(op, place, size, order as u32, pc, known.then_some(value as i64), written);
    }

    /// A range with its contents becomes accesses of at most eight bytes; a longer one is one access without a value.
    pub(super) fn range(&mut self, code: u8, pc: u64, address: u64, length: u64, contents: &[u64]) {
        let op = if code == op::RANGE_READ { Op::Read } else { Op::Write };
        if length as usize > INLINE {
            let mut done = 0;
            while done < length {
                match self.heap.place(address + done, length - done) {
                    Place::At(place, part) => {
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
        let mut bytes = [0; INLINE + 8];
        bytes.as_chunks_mut().0.iter_mut().zip(contents).for_each(|(room, word)| *room = word.to_le_bytes());
        let mut done = 0;
        while done < length as usize {
            let at = address + done as u64;
            let size = (8 - (at % 8) as usize).min(length as usize - done);
            let mut value = [0; 8];
            value[..size].copy_from_slice(&bytes[done..done + size]);
            self.access(op, at, size as u64, pc, Some(u64::from_le_bytes(value)));
            done += size;
        }
    }

    pub(super) fn alloc(&mut self, address: u64, size: u64, mapped: bool, pc: u64) {
        let (place, size) = self.heap.alloc(address, size, mapped);
        self.emit(Op::Alloc, place, size, 0, pc, None, None);
    }

    pub(super) fn free(&mut self, address: u64, pc: u64) {
        if let Some((place, size)) = self.heap.free(address) {
            self.objects.forget(address, size);
            self.emit(Op::Free, place, size, 0, pc, None, None);
        }
    }
}
