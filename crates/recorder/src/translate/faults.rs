//! What goes wrong in a run: uses of freed memory, and waits for locks that never end.

use super::Translator;
use super::extent::is_possible;
use super::heap::Heap;
use crate::wire;
use snag_model::tables::DESCRIPTOR;
use snag_model::{MemoryOrder, Op, Primitive};
use std::collections::HashSet;

/// A lock for which a thread waits.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    address: u64,
    kind: u64,
    reads: bool,
    pc: u64,
}

impl Translator {
    /// The thread that runs uses memory that was freed.
    #[cold]
    pub(super) fn stale(&mut self, op: Op, address: u64, size: u64, pc: u64) {
        self.oddities.freed += 1;
        if self.heap.is_doubtful {
            return;
        }
        let size = self.heap.freed_part(address, size);
        self.emit(op, address, size, 0, pc, None, None);
    }

    /// A lock is destroyed, or initialised. What is there from now on is another one.
    pub(super) fn end_lock(&mut self, address: u64, kind: u64, is_destroyed: bool, pc: u64) {
        if is_destroyed && self.can_end() {
            let id = self.lock_of(address, kind).id;
            self.discard_lock(address, true, pc);
            self.objects.destroyed.insert(address, id);
        } else {
            self.discard_lock(address, false, pc);
            self.objects.destroyed.remove(&address);
        }
        self.objects.locks.remove(&address);
        if !is_destroyed && self.can_end() {
            let id = self.lock_of(address, kind).id;
            self.discard(Primitive::Lock(id), pc);
        }
    }

    /// Whether there may be more names: each end of a lock that nobody has used makes one.
    pub(super) fn can_end(&self) -> bool {
        const MOST: usize = 1 << 16;
        self.tables.lock_count() < MOST
    }

    /// A lock is destroyed, freed, or initialised again. When it is initialised it counts only if others have used it:
    /// a lock of its own that a thread has left behind, held, in memory of its stack is not the one that is made there
    /// later.
    fn discard_lock(&mut self, address: u64, is_destroyed: bool, pc: u64) {
        let Some(lock) = self.objects.locks.get(&address) else { return };
        let is_of_others = lock.shared || lock.user.is_some_and(|user| user != self.current);
        if is_of_others || is_destroyed {
            self.discard(Primitive::Lock(lock.id), pc);
        }
    }

    /// The thread that runs wants a mutex that was destroyed.
    pub(super) fn take_destroyed(&mut self, address: u64, pc: u64) {
        if let Some(&lock) = self.objects.destroyed.get(&address) {
            self.plain(Op::Gone, lock.0, 0, pc);
        }
    }

    /// The same of anything else.
    pub(super) fn discard_others(&mut self, address: u64, pc: u64) {
        let condition = self.objects.conditions.get(&address).copied().map(Primitive::Condition);
        let semaphore = self.objects.semaphores.get(&address).map(|&(id, _)| Primitive::Semaphore(id));
        let barrier = self.objects.barriers.get(&address).map(|barrier| Primitive::Barrier(barrier.id));
        for primitive in [condition, semaphore, barrier].into_iter().flatten() {
            self.discard(primitive, pc);
        }
    }

    /// The memory of all this is freed.
    pub(super) fn discard_all(&mut self, address: u64, size: u64, pc: u64) {
        let memory = address..address.saturating_add(size);
        let locks: Vec<u64> = self.objects.locks.range(memory.clone()).map(|(&at, _)| at).collect();
        let conditions = self.objects.conditions.range(memory.clone()).map(|(&at, _)| at);
        let semaphores = self.objects.semaphores.range(memory.clone()).map(|(&at, _)| at);
        let others = conditions.chain(semaphores).chain(self.objects.barriers.range(memory).map(|(&at, _)| at));
        let others: Vec<u64> = others.collect();
        locks.into_iter().for_each(|at| self.discard_lock(at, true, pc));
        others.into_iter().for_each(|at| self.discard_others(at, pc));
    }

    /// Nobody may use this now: it is destroyed, or about to be initialised.
    pub(super) fn discard(&mut self, primitive: Primitive, pc: u64) {
        let (kind, id) = primitive.parts();
        self.plain(Op::Discard, id, kind, pc);
    }

    /// A descriptor is used, which is a read of a variable that stands for it, or closed, which is a write. Its number may then be that
    /// of another one, with a variable of its own.
    pub(super) fn descriptor(&mut self, number: u64, what: u64, pc: u64) {
        const MOST: u64 = 1 << 24;
        if what == wire::MADE || number > MOST {
            self.objects.descriptors.remove(&number);
            return;
        }
        let variable = match self.objects.descriptors.get(&number) {
            Some(&variable) => variable,
            None => {
                let name = self.objects.unique(format!("{DESCRIPTOR}{number}"));
                let variable = self.tables.variable_named(&name);
                self.objects.descriptors.insert(number, variable);
                variable
            }
        };
        // Plain accesses have no memory order, which is what relaxed means to the columns of events.
        self.named(if what == wire::CLOSED { Op::Write } else { Op::Read }, variable, MemoryOrder::Relaxed, pc);
    }

    /// A block was handed out where nothing counts: it is not what was freed there.
    pub(super) fn appeared(&mut self, address: u64, size: u64) {
        if address == 0 {
            // Nor are others, nobody knows where.
            self.heap.is_doubtful = true;
        } else if is_possible(address, size.saturating_add(64)) {
            self.heap.appear(address, size);
            let (start, size) = Heap::granules(address, size);
            self.shadow.set_freed(start, size, false);
            self.forget_near(address, size);
        }
    }

    /// The thread that runs goes to sleep until it can have a lock.
    pub(super) fn want(&mut self, address: u64, kind: u64, reads: bool, pc: u64) {
        self.lock_of(address, kind);
        self.this().wants = Some(Wanted { address, kind, reads, pc });
    }

    /// A thread goes on.
    pub(super) fn waits_no_more(&mut self, thread: usize) {
        if let Some(thread) = self.threads.get_mut(thread) {
            thread.wants = None;
        }
    }

    /// The lock that a thread waits for, if it is held as the trace has it.
    fn wanted(&self, thread: usize) -> Option<Wanted> {
        let state = self.threads.get(thread)?;
        let wanted = state.wants.filter(|_| state.known && !state.ended && !state.joined)?;
        let lock = self.objects.locks.get(&wanted.address)?;
        // To end a wait for a condition a thread has to have its mutex again, and nothing else.
        let can_want = state.waiting.is_none_or(|wait| wait.woken && wait.lock == lock.id && !wanted.reads);
        let own = lock.owner.is_some_and(|(owner, _)| owner == thread);
        let own = own || lock.readers.iter().any(|&(reader, _)| reader == thread);
        (can_want && (own || !lock.is_open_to(thread, !wanted.reads))).then_some(wanted)
    }

    /// Whether threads wait for each other's locks, or for their own, none of which anybody else can give back.
    pub fn is_deadlocked(&self) -> bool {
        let wanted = |thread: usize| self.wanted(thread);
        let mut dead: HashSet<usize> = (0..self.threads.len()).filter(|&thread| wanted(thread).is_some()).collect();
        // Whoever waits for somebody who may go on is not dead.
        loop {
            let lives = |&thread: &usize| {
                let lock = wanted(thread).and_then(|wanted| self.objects.locks.get(&wanted.address));
                let readers = lock.into_iter().flat_map(|lock| lock.readers.iter().map(|&(reader, _)| reader));
                let owner = lock.and_then(|lock| lock.owner).map(|(owner, _)| owner);
                owner.into_iter().chain(readers).any(|holder| !dead.contains(&holder))
            };
            let Some(living) = dead.iter().copied().find(lives) else { return !dead.is_empty() };
            dead.remove(&living);
        }
    }

    /// Nothing more will come: whoever waits for a lock now has waited for ever.
    pub fn end_waits(&mut self) {
        if self.oddities.has_ended() {
            return;
        }
        for thread in 0..self.threads.len() {
            let Some(Wanted { address, kind, reads, pc }) = self.wanted(thread) else { continue };
            self.resume(thread);
            let lock = self.lock_of(address, kind).id;
            self.plain(if reads { Op::ReadWant } else { Op::Want }, lock.0, 0, pc);
            self.threads[thread].wants = None;
            self.threads[thread].ended = true;
        }
    }
}
