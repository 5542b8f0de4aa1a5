//! Locks, conditions, semaphores, barriers, fences: the same rules that readers check are followed here.

use super::memory::memory_order;
use super::objects::{Barrier, Lock};
use super::{Notified, Translator, Wait};
use crate::wire;
use snag_model::{BarrierId, CondId, LockId, MemoryOrder, Op, SemId, Space};

impl Translator {
    /// The name of an object of so many bytes at an address: what the source calls it if it is a variable of the program.
    fn object_name(&mut self, what: &str, address: u64, size: u64) -> String {
        let name = match self.symbols.data(address) {
            Some(variable) if variable.address == address && variable.size <= size => variable.name,
            Some(variable) => match self.symbols.part(address, size) {
                Some(name) => name,
                None if variable.address == address => variable.name,
                None => format!("{}+{}", variable.name, address - variable.address),
            },
            None => format!("{what} {address:#x}"),
        };
        self.objects.unique(name)
    }

    pub(super) fn lock_of(&mut self, address: u64, lock_kind: u64) -> &mut Lock {
        if !self.objects.locks.contains_key(&address) {
            // The sizes are those of the C library.
            let (what, size) = match lock_kind & !wire::lock::TRIED {
                wire::lock::RWLOCK => ("rwlock", 56),
                wire::lock::SPIN => ("spin lock", 4),
                wire::lock::ANNOTATED => ("lock", u64::MAX),
                _ => ("mutex", 40),
            };
            let name = match address / wire::PART {
                0 => self.object_name(what, address, size),
                // Several locks at one address.
                part => {
                    let word = self.object_name("word", address % wire::PART, 8);
                    self.objects.unique(format!("bit {} of {word}", part - 1))
                }
            };
            let id = LockId(self.tables.intern(Space::Lock, &name));
            self.new_code.locks.push((id, address));
            self.objects.destroyed.remove(&address);
            self.objects
                .locks
                .insert(address, Lock { id, owner: None, readers: Vec::new(), user: None, shared: false });
        }
        let thread = self.current;
        let lock = self.objects.locks.get_mut(&address).expect("just made");
        lock.used_by(thread);
        lock
    }

    pub(super) fn lock(&mut self, address: u64, lock_kind: u64, writes: bool, pc: u64) {
        let thread = self.current;
        let tried = (lock_kind & wire::lock::TRIED != 0) as u32;
        let died = lock_kind & wire::lock::OWNER_DIED != 0;
        if !self.lock_of(address, lock_kind).is_open_to(thread, writes) {
            // The kernel has handed it over.
            let owner = self.lock_of(address, lock_kind).owner.and_then(|(owner, _)| self.threads.get(owner));
            if let Some(owner) = owner.filter(|owner| owner.ended && died).map(|owner| owner.id) {
                self.plain(Op::Join, owner.0, 0, pc);
            }
            // It was given back by a thread that the trace does not have as its holder: from here on it is another lock.
            self.objects.locks.remove(&address);
            self.hand_over(address, pc);
        }
        let lock = self.lock_of(address, lock_kind);
        let id = lock.id.0;
        if writes {
            let count = lock.owner.map_or(0, |(_, count)| count);
            lock.owner = Some((thread, count.saturating_add(1)));
            self.plain(Op::Acquire, id, tried, pc);
        } else {
            match lock.readers.iter_mut().find(|reader| reader.0 == thread) {
                Some(reader) => reader.1 += 1,
                None => lock.readers.push((thread, 1)),
            }
            self.plain(Op::ReadAcquire, id, tried, pc);
        }
    }

    pub(super) fn unlock(&mut self, address: u64, lock_kind: u64, pc: u64) {
        let thread = self.current;
        let lock = self.lock_of(address, lock_kind);
        let id = lock.id.0;
        if let Some((owner, count)) = lock.owner.filter(|(owner, _)| *owner == thread) {
            lock.owner = (count > 1).then_some((owner, count - 1));
            return self.plain(Op::Release, id, 0, pc);
        }
        if let Some(at) = lock.readers.iter().position(|reader| reader.0 == thread) {
            lock.readers[at].1 -= 1;
            if lock.readers[at].1 == 0 {
                lock.readers.remove(at);
            }
            return self.plain(Op::ReadRelease, id, 0, pc);
        }
        // Locks that a program has made itself may be made to be handed over, by whoever has them.
        let is_free = lock.owner.is_none() && lock.readers.is_empty();
        if is_free || lock_kind & !wire::lock::TRIED != wire::lock::ANNOTATED {
            self.plain(Op::Unheld, id, 0, pc);
        }
        self.oddities.foreign_unlocks += 1;
        self.hand_over(address, pc);
    }

    /// An attempt to take a lock has failed. Where the trace does not know the holder, whoever it is keeps its place.
    pub(super) fn try_failed(&mut self, address: u64, lock_kind: u64, reads: bool, pc: u64) {
        let thread = self.current;
        let lock = self.lock_of(address, lock_kind);
        let (id, own) = (lock.id.0, lock.owner.is_some_and(|(owner, _)| owner == thread));
        match lock.is_open_to(thread, !reads) {
            false => self.plain(if reads { Op::ReadTryFail } else { Op::TryFail }, id, 0, pc),
            // It keeps itself out, whatever others do.
            true if own || lock.readers.iter().any(|&(reader, _)| reader == thread) => {}
            true => self.hand_over(address, pc),
        }
    }

    /// An attempt to join a thread has failed.
    pub(super) fn join_failed(&mut self, number: u64, pc: u64) {
        let child = self.threads.get(number as usize).filter(|child| child.known && !child.ended && !child.joined);
        if let Some(id) = child.map(|child| child.id).filter(|_| number as usize != self.current) {
            self.plain(Op::JoinFail, id.0, 0, pc);
        }
    }

    /// Orders what comes before with what comes after, where a lock does not.
    fn hand_over(&mut self, address: u64, pc: u64) {
        let variable = self.tables.variable_named(&format!("handed over at {address:#x}"));
        self.named(Op::Rmw, variable, MemoryOrder::AcqRel, pc);
    }

    pub(super) fn condition(&mut self, address: u64) -> CondId {
        if let Some(&id) = self.objects.conditions.get(&address) {
            return id;
        }
        let name = self.object_name("condition", address, 48);
        let id = CondId(self.tables.intern(Space::Condition, &name));
        self.objects.conditions.insert(address, id);
        id
    }

    pub(super) fn wait_begin(&mut self, condition: u64, mutex: u64, pc: u64) {
        let thread = self.current;
        let id = self.condition(condition);
        let lock = self.lock_of(mutex, wire::lock::MUTEX);
        let Some((_, held)) = lock.owner.filter(|(owner, _)| *owner == thread) else {
            // The program waits without holding the mutex, or the trace lost track of it.
            return self.hand_over(mutex, pc);
        };
        lock.owner = None;
        let lock = lock.id;
        let since = self.count();
        self.plain(Op::WaitBegin, id.0, lock.0, pc);
        self.this().waiting = Some(Wait { condition, id, mutex, lock, held, since, woken: false });
        self.look_closely();
    }

    pub(super) fn wake(&mut self, condition: u64, notify: u64, pc: u64) {
        let Some(wait) = self.this().waiting else { return };
        let by = self.notifies.get_mut(&notify);
        let fits = |by: &Notified| by.condition == wait.id && by.event >= wait.since && (by.all || !by.used);
        if wait.condition != condition || by.as_ref().is_some_and(|by| !fits(by)) {
            return self.damage(format!("thread {} is woken by what cannot wake it", self.current));
        }
        let event = by.map_or(0, |by| {
            by.used = true;
            self.shadow.contention.wake(by.order);
            by.event as u32 + 1
        });
        self.plain(Op::Wake, wait.id.0, event, pc);
        if let Some(wait) = &mut self.this().waiting {
            wait.woken = true;
        }
    }

    pub(super) fn wait_end(&mut self, condition: u64, mutex: u64, pc: u64) {
        let thread = self.current;
        let Some(wait) = self.this().waiting else {
            self.hand_over(mutex, pc);
            return self.lock(mutex, wire::lock::MUTEX, true, pc);
        };
        if (wait.condition, wait.mutex) != (condition, mutex) {
            return self.damage(format!("thread {thread} ends a wait that it has not begun"));
        }
        let lock = self.lock_of(mutex, wire::lock::MUTEX);
        if !lock.is_open_to(thread, true) || lock.id != wait.lock {
            self.oddities.broken = Some("a mutex was taken in a way that was not seen".to_owned());
            return;
        }
        lock.owner = Some((thread, wait.held));
        self.plain(Op::WaitEnd, wait.id.0, wait.lock.0, pc);
        self.this().waiting = None;
        self.look_closely();
    }

    pub(super) fn semaphore(&mut self, address: u64, count: u64) -> SemId {
        if let Some(&(id, _)) = self.objects.semaphores.get(&address) {
            return id;
        }
        let name = self.object_name("semaphore", address, 32);
        let id = SemId(self.tables.intern(Space::Semaphore, &name));
        let count = count.min(i32::MAX as u64);
        self.objects.semaphores.insert(address, (id, count));
        self.tables.declarations.semaphores.push((id, count as u32));
        id
    }

    pub(super) fn sem_wait(&mut self, address: u64, count: u64, pc: u64) {
        let id = self.semaphore(address, count);
        let Some((_, known)) = self.objects.semaphores.get_mut(&address) else { return };
        let posted_elsewhere = *known == 0;
        *known = known.saturating_sub(1);
        if posted_elsewhere {
            self.plain(Op::SemPost, id.0, 0, pc);
        }
        self.plain(Op::SemWait, id.0, 0, pc);
    }

    /// A thread has looked at a semaphore. What others have done to it unseen is put before that.
    pub(super) fn sem_count(&mut self, address: u64, count: u64, pc: u64) {
        const MOST_UNSEEN: u64 = 1000;
        let count = count.min(i32::MAX as u64);
        let id = self.semaphore(address, count);
        let Some((_, known)) = self.objects.semaphores.get_mut(&address) else { return };
        let before = std::mem::replace(known, count);
        if before.abs_diff(count) > MOST_UNSEEN {
            *known = before;
            return self.hand_over(address, pc);
        }
        let unseen = if before < count { Op::SemPost } else { Op::SemWait };
        for _ in 0..before.abs_diff(count) {
            self.plain(unseen, id.0, 0, pc);
        }
        self.plain(Op::SemValue, id.0, count as u32, pc);
    }

    pub(super) fn barrier(&mut self, address: u64) -> &mut Barrier {
        if !self.objects.barriers.contains_key(&address) {
            let name = self.object_name("barrier", address, 32);
            let id = BarrierId(self.tables.intern(Space::Barrier, &name));
            self.objects.barriers.insert(address, Barrier::new(id));
        }
        self.objects.barriers.get_mut(&address).expect("just made")
    }

    /// The thread enters a barrier, or leaves it.
    pub(super) fn meet(&mut self, address: u64, enters: bool, pc: u64) {
        let thread = self.current;
        let barrier = self.barrier(address);
        let id = barrier.id;
        if !(if enters { barrier.enter(thread) } else { barrier.leave(thread) }) {
            // Other processes may share it.
            self.oddities.broken = Some("a barrier was used in a way that was not seen".to_owned());
            return;
        }
        self.plain(if enters { Op::BarrierEnter } else { Op::BarrierLeave }, id.0, 0, pc);
    }

    /// A relaxed fence has no meaning.
    pub(super) fn fence(&mut self, order: u64, pc: u64) {
        let order = memory_order(order);
        if order != MemoryOrder::Relaxed {
            self.plain(Op::Fence, 0, order as u32, pc);
        }
    }
}

/// What an address that synchronises is called; what has none has a small number.
pub(super) fn sync_name(address: u64) -> String {
    const THINGS: u64 = wire::SOCKETS + 1;
    const NUMBERS_END: u64 = wire::NUMBERS | 0xff_ffff;
    match address {
        ..wire::SOCKETS => format!("descriptor {}", address as i64 - 1),
        wire::SOCKETS => "sockets".to_owned(),
        THINGS..wire::SIGNALS => format!("pipe or file {}", address - wire::SOCKETS),
        wire::SIGNALS => "signals".to_owned(),
        address if address & wire::HANDED_OVER != 0 => match (address & !wire::HANDED_OVER) / wire::PART {
            0 => format!("what is handed over by {:#x}", address % wire::PART),
            part => format!("what is handed over by {:#x}, part {part}", address % wire::PART),
        },
        wire::NUMBERS..=NUMBERS_END => format!("number {} of descriptors", address - wire::NUMBERS),
        address => format!("synchronisation at {address:#x}"),
    }
}
