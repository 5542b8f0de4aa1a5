//! What threads do to memory: accesses, allocations.

use super::{Heap, Place, Simulation};
use snag_model::{Action, MemoryOrder, Op, SymbolId, VarId, Variable};

impl Simulation<'_> {
    pub(super) fn places(&self, variable: VarId) -> Vec<Place> {
        match self.trace.tables.variable(variable) {
            Variable::Named(_) => vec![Place::Name(variable)],
            Variable::Range { address, size } => (address..address + size).map(Place::Byte).collect(),
        }
    }

    pub(super) fn small_value(&mut self, variable: VarId) -> i64 {
        match self.trace.tables.variable(variable) {
            Variable::Named(_) => self.rng.below(4) as i64,
            Variable::Range { size: 8, .. } if !self.blocks.is_empty() && self.rng.chance(self.shape.pointers) => {
                self.some_address()
            }
            Variable::Range { size, .. } => {
                let mut bytes = [0; 8];
                for byte in &mut bytes[..size.min(8) as usize] {
                    *byte = self.rng.chance(30) as u8;
                }
                i64::from_le_bytes(bytes)
            }
        }
    }

    /// An address in memory that may be allocated; two of them are mostly the same.
    pub(super) fn some_address(&mut self) -> i64 {
        let Variable::Range { address, .. } = self.trace.tables.variable(self.blocks[0]) else { return 0 };
        address as i64 + self.rng.pick(&[0, 0, 0, 0, 0, 4, 1 << 56])
    }

    pub(super) fn store(&mut self, variable: VarId, value: Option<i64>) {
        for (i, place) in self.places(variable).into_iter().enumerate() {
            let part = match place {
                Place::Name(_) => value,
                Place::Byte(_) => value.map(|v| v.to_le_bytes()[i] as i64),
            };
            self.memory.insert(place, part);
        }
    }

    /// What a variable holds, if that is known. What nobody looked at yet is made up.
    pub(super) fn load(&mut self, variable: VarId) -> Option<i64> {
        let mut bytes = [0; 8];
        let mut known = true;
        for (i, place) in self.places(variable).into_iter().enumerate() {
            let made_up = match place {
                Place::Name(_) => self.rng.below(4) as i64,
                Place::Byte(_) => self.rng.chance(30) as i64,
            };
            match *self.memory.entry(place).or_insert(Some(made_up)) {
                Some(value) if matches!(place, Place::Name(_)) => return Some(value),
                Some(value) => bytes[i] = value as u8,
                None => known = false,
            }
        }
        known.then(|| i64::from_le_bytes(bytes))
    }

    /// Whether an access is possible: inside one live block, or outside all that ever were.
    pub(super) fn accessible(&self, variable: VarId) -> bool {
        let places = self.places(variable);
        let first = self.heap.get(&places[0]);
        first != Some(&Heap::Freed) && places.iter().all(|place| self.heap.get(place) == first)
    }

    /// A variable to access; mostly the first ones.
    pub(super) fn some_variable(&mut self) -> Option<VarId> {
        let accessible: Vec<VarId> = self.variables.iter().copied().filter(|&v| self.accessible(v)).collect();
        let few = accessible.len().min(2);
        if self.rng.chance(50) { self.rng.pick_any(&accessible[..few]) } else { self.rng.pick_any(&accessible) }
    }

    pub(super) fn access(
        &mut self,
        thread: usize,
        op: Op,
        variable: VarId,
        order: MemoryOrder,
        into: Option<SymbolId>,
    ) {
        let with_value = self.rng.chance(self.shape.values);
        let mut read = None;
        if op.reads() {
            read = self.load(variable);
            if read.is_none() || self.rng.chance(self.shape.unexplained) {
                let other = self.small_value(variable);
                read = self.rng.chance(60).then_some(other);
            }
            read = read.filter(|_| with_value);
        }
        let mut written = None;
        if op.writes() {
            let value = self.small_value(variable);
            written = self.rng.chance(self.shape.values).then_some(value);
            self.store(variable, written);
        }
        let action = match op {
            Op::Read => Action::Read { variable, value: read, into },
            Op::Write => Action::Write { variable, value: written, of: None },
            Op::AtomicRead => Action::AtomicRead { variable, order, value: read },
            Op::AtomicWrite => Action::AtomicWrite { variable, order, value: written },
            _ => Action::Rmw { variable, order, read, written },
        };
        self.emit(thread, action);
    }

    pub(super) fn plain(&mut self, thread: usize) {
        let Some(variable) = self.some_variable() else { return };
        let op = self.rng.pick(&[Op::Read, Op::Write]);
        self.access(thread, op, variable, MemoryOrder::default(), None);
    }

    pub(super) fn atomic(&mut self, thread: usize) {
        use MemoryOrder::*;
        if self.rng.chance(self.shape.fences) {
            let order = self.rng.pick(&[Acquire, Release, AcqRel, SeqCst]);
            return self.emit(thread, Action::Fence { order });
        }
        let Some(variable) = self.some_variable() else { return };
        let (op, orders): (Op, &[MemoryOrder]) = match self.rng.below(3) {
            0 => (Op::AtomicRead, &[Relaxed, Acquire, Acquire, SeqCst]),
            1 => (Op::AtomicWrite, &[Relaxed, Release, Release, SeqCst]),
            _ => (Op::Rmw, &[Relaxed, Acquire, Release, AcqRel, SeqCst]),
        };
        let order = self.rng.pick(orders);
        self.access(thread, op, variable, order, None);
    }

    pub(super) fn allocate_or_free(&mut self, thread: usize) {
        let block = self.rng.pick(&self.blocks.clone());
        let places = self.places(block);
        let live = |place: &Place| matches!(self.heap.get(place), Some(Heap::Live(_)));
        if self.heap.get(&places[0]) == Some(&Heap::Live(block)) {
            if self.rng.chance(60) {
                self.heap.extend(places.into_iter().map(|place| (place, Heap::Freed)));
                self.emit(thread, Action::Free { variable: block });
            }
        } else if !places.iter().any(live) {
            for place in places {
                self.heap.insert(place, Heap::Live(block));
                self.memory.remove(&place);
            }
            self.emit(thread, Action::Alloc { variable: block });
        }
    }
}
