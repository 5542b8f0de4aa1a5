//! What goes wrong in a run: uses of freed memory, and waits for locks that never end.

use super::Translator;
use snag_model::Op;
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
        let size = self.heap.freed_part(address, size);
        self.emit(op, address, size, 0, pc, None, None);
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
