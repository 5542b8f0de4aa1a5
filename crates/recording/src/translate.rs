//! From the runtime's records to events of the model.
//!
//! The trace is well formed by construction: locks, waits, semaphores, barriers and heap blocks are followed here by the
//! same rules that readers check, and where a program does what the rules do not foresee (a mutex unlocked by a thread
//! that does not hold it, an access to freed memory), the event is expressed in another way or left out and counted.

mod calls;
mod heap;
mod objects;

use crate::beside::{kind, put, put_text};
use crate::hash::BuildWordHasher;
use crate::symbols::{Resolved, Symbols};
use crate::wire::{self, INLINE, op};
use calls::Calls;
use heap::{Heap, Place};
use objects::{Lock, Objects};
use snag_trace::events::Event;
use snag_trace::{BarrierId, CondId, Events, LocId, LockId, MemoryOrder, Op, SemId, Space, Tables, ThreadId, VarId};
use std::collections::HashMap;

/// Counts of what the user should know about a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Accesses to memory that was freed, left out of the trace, and the first ones: what, by whom, where.
    pub freed: u64,
    /// The first few of them.
    pub freed_at: Vec<String>,
    /// Locks given back by threads that did not hold them.
    pub foreign_unlocks: u64,
    /// Why the translation stopped, if it did.
    pub broken: Option<String>,
}

/// Translates a stream of records.
pub struct Translator {
    /// Names and declarations of the trace so far.
    pub tables: Tables,
    /// Events that have not been taken.
    pub events: Events,
    /// Names of addresses.
    pub symbols: Symbols,
    /// What was odd.
    pub oddities: Oddities,
    calls: Calls,
    heap: Heap,
    objects: Objects,
    threads: Vec<ThreadState>,
    current: usize,
    /// Event of each notify, by its number less one.
    notifies: Vec<u32>,
    /// Events that were taken.
    taken: usize,
    locations: HashMap<u64, LocId, BuildWordHasher>,
    variables: HashMap<(u64, u64), VarId, BuildWordHasher>,
    location_cache: Vec<(u64, LocId)>,
    variable_cache: Vec<(u64, u64, VarId)>,
    /// Turns of threads since they were last taken: thread, timed out, steps.
    turns: Vec<(u32, bool, u64)>,
    /// Symbols of data that the trace touches: those found, and those that are new.
    data: HashMap<u64, ()>,
    new_data: Vec<crate::symbols::Variable>,
    new_names: Vec<(u32, String)>,
    new_sites: Vec<(LocId, Vec<Resolved>)>,
    /// Maps that came in pieces.
    maps: Vec<u8>,
    /// Accesses before which replayed threads were stopped, by thread.
    pub stopped: HashMap<u32, [u64; 3]>,
    fence: Option<VarId>,
}

#[derive(Clone, Default)]
struct ThreadState {
    id: ThreadId,
    known: bool,
    /// Condition and mutex of the wait it is in, if the trace has it, and how often it held the mutex.
    waiting: Option<(u64, u64, u32)>,
    /// It has done a releasing fence, so what it writes atomically releases.
    fenced: bool,
}

const CACHE: usize = 1 << 18;

fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 46) as usize
}

impl Translator {
    /// At the start of a recording.
    pub fn new(symbols: Symbols) -> Translator {
        Translator {
            tables: Tables::new(),
            events: Events::new(),
            symbols,
            oddities: Oddities::default(),
            calls: Calls::new(),
            heap: Heap::default(),
            objects: Objects::default(),
            threads: Vec::new(),
            current: 0,
            notifies: Vec::new(),
            taken: 0,
            locations: HashMap::default(),
            variables: HashMap::default(),
            location_cache: vec![(0, LocId::NONE); CACHE],
            variable_cache: vec![(0, 0, VarId(0)); CACHE],
            turns: Vec::new(),
            data: HashMap::new(),
            new_data: Vec::new(),
            new_names: Vec::new(),
            new_sites: Vec::new(),
            maps: Vec::new(),
            stopped: HashMap::new(),
            fence: None,
        }
    }

    /// Translates the records of a chunk, up to the first zero word. With `cut`, the last one may be half written and is
    /// left out.
    pub fn chunk(&mut self, words: &[u64], cut: bool) {
        let mut at = 0;
        while at < words.len() && words[at] != 0 && self.oddities.broken.is_none() {
            let length = wire::words(&words[at..]);
            let next = at + length;
            if next > words.len() || cut && words.get(next).is_none_or(|&word| word == 0) {
                return;
            }
            self.record(&words[at..next]);
            at = next;
        }
    }

    /// Number of events so far.
    pub fn count(&self) -> usize {
        self.taken + self.events.len()
    }

    /// Forgets the events that have been written, and hands out what belongs beside them.
    pub fn take_beside(&mut self) -> Vec<Vec<u8>> {
        let mut blocks = Vec::new();
        let mut block = Vec::new();
        if self.calls.names(&mut block) {
            blocks.push(std::mem::take(&mut block));
        }
        self.calls.stretch(&mut block);
        blocks.push(std::mem::take(&mut block));
        if !self.turns.is_empty() {
            block.push(kind::SCHEDULE);
            put(&mut block, self.turns.len() as u64);
            for (thread, timed_out, steps) in self.turns.drain(..) {
                put(&mut block, (thread as u64) << 1 | timed_out as u64);
                put(&mut block, steps);
            }
            blocks.push(std::mem::take(&mut block));
        }
        if !self.new_data.is_empty() {
            block.push(kind::DATA);
            put(&mut block, self.new_data.len() as u64);
            for variable in self.new_data.drain(..) {
                put(&mut block, variable.address);
                put(&mut block, variable.size);
                put_text(&mut block, &variable.name);
            }
            blocks.push(std::mem::take(&mut block));
        }
        if !self.new_names.is_empty() {
            block.push(kind::THREADS);
            put(&mut block, self.new_names.len() as u64);
            for (thread, name) in self.new_names.drain(..) {
                put(&mut block, thread as u64);
                put_text(&mut block, &name);
            }
            blocks.push(std::mem::take(&mut block));
        }
        if !self.new_sites.is_empty() {
            block.push(kind::SITES);
            put(&mut block, self.new_sites.len() as u64);
            for (location, frames) in self.new_sites.drain(..) {
                put(&mut block, location.0 as u64);
                put(&mut block, frames.len() as u64);
                for frame in frames {
                    put_text(&mut block, &frame.function);
                    put_text(&mut block, &frame.place);
                }
            }
            blocks.push(block);
        }
        self.taken += self.events.len();
        self.events.restart(self.taken);
        self.calls.begin_stretch(self.taken as u64);
        blocks
    }

    fn record(&mut self, words: &[u64]) {
        let first = words[0];
        let (code, detail, pc) = (first as u8, (first >> 8) as u8, first >> 16);
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let (a, b) = (word(1), word(2));
        match code {
            op::READ | op::WRITE => {
                self.calls.step(self.current);
                let op = if code == op::READ { Op::Read } else { Op::Write };
                match detail & 7 {
                    4 => {
                        self.access(op, a, 8, pc, Some(b));
                        self.access(op, a + 8, 8, pc, Some(word(3)));
                    }
                    log => self.access(op, a, 1 << log, pc, Some(b)),
                }
            }
            op::ENTER => self.calls.enter(self.current, pc, &mut self.symbols),
            op::LEAVE => self.calls.leave(self.current),
            op::STEP => self.calls.step(self.current),
            op::SWITCH => self.switch(a, b),
            op::ATOMIC_READ | op::ATOMIC_WRITE | op::RMW => self.atomic(code, detail, pc, a, b, word(3)),
            op::RANGE_READ | op::RANGE_WRITE => self.range(code, pc, a, b, words.get(3..).unwrap_or(&[])),
            op::ALLOC => self.alloc(a, b, detail != 0, pc),
            op::FREE => self.free(a, pc),
            op::LOCK | op::READ_LOCK => self.lock(a, b, code == op::LOCK, pc),
            op::UNLOCK => self.unlock(a, b, pc),
            op::LOCK_NEW => {
                self.objects.locks.remove(&a);
            }
            op::FORK => {
                let child = self.thread(a as usize);
                self.emit(Op::Fork, child.0, 0, pc, None, None);
            }
            op::BEGIN => self.emit(Op::Begin, 0, 0, pc, None, None),
            op::END => self.emit(Op::End, 0, 0, pc, None, None),
            op::JOIN => {
                let child = self.thread(a as usize);
                self.emit(Op::Join, child.0, 0, pc, None, None);
            }
            op::WAIT_BEGIN => self.wait_begin(a, b, pc),
            op::WAKE => self.wake(a, b, pc),
            op::WAIT_END => self.wait_end(a, b, pc),
            op::NOTIFY | op::NOTIFY_ALL => {
                let condition = self.condition(a);
                self.notifies.resize(b as usize, 0);
                self.notifies[b as usize - 1] = self.count() as u32;
                let op = if code == op::NOTIFY { Op::Notify } else { Op::NotifyAll };
                self.emit(op, condition.0, 0, pc, None, None);
            }
            op::CONDITION_NEW => {
                self.objects.conditions.remove(&a);
            }
            op::SEM_NEW => {
                self.objects.semaphores.remove(&a);
                self.semaphore(a, b);
            }
            op::SEM_POST => {
                let id = self.semaphore(a, b);
                if let Some((_, count)) = self.objects.semaphores.get_mut(&a) {
                    *count += 1;
                }
                self.emit(Op::SemPost, id.0, 0, pc, None, None);
            }
            op::SEM_WAIT => self.sem_wait(a, b, pc),
            op::BARRIER_NEW => {
                self.objects.barriers.remove(&a);
                if b > 0 {
                    let id = self.barrier(a);
                    self.tables.declarations.barriers.push((id, b.min(u32::MAX as u64) as u32));
                }
            }
            op::BARRIER_ENTER => {
                let id = self.barrier(a);
                self.emit(Op::BarrierEnter, id.0, 0, pc, None, None);
            }
            op::BARRIER_LEAVE => {
                let id = self.barrier(a);
                self.emit(Op::BarrierLeave, id.0, 0, pc, None, None);
            }
            op::SYNC_RELEASE => {
                let variable = self.tables.variable_named(&sync_name(a));
                self.emit(Op::Rmw, variable.0, MemoryOrder::Release as u32, pc, None, None);
            }
            op::SYNC_ACQUIRE => {
                let variable = self.tables.variable_named(&sync_name(a));
                self.emit(Op::AtomicRead, variable.0, MemoryOrder::Acquire as u32, pc, None, None);
            }
            op::FENCE => self.fence(a, pc),
            op::BLOB => self.blob(a, b as usize, &words[3..]),
            op::STOPPED => {
                self.stopped.insert(self.current as u32, [first, a, b]);
            }
            other => self.oddities.broken = Some(format!("the runtime wrote a record of unknown kind {other}")),
        }
    }

    fn switch(&mut self, a: u64, steps: u64) {
        self.current = a as u32 as usize;
        self.thread(self.current);
        self.calls.set_steps(self.current, steps);
        self.turns.push((a as u32, a >> 32 != 0, steps));
    }

    /// The thread of the trace with the runtime's number.
    fn thread(&mut self, number: usize) -> ThreadId {
        if self.threads.len() <= number {
            self.threads.resize(number + 1, ThreadState::default());
        }
        if !self.threads[number].known {
            let name = if number == 0 { "main".to_owned() } else { format!("T{number}") };
            let id = self.tables.thread(&name);
            self.threads[number] = ThreadState { id, known: true, ..ThreadState::default() };
        }
        self.threads[number].id
    }

    #[inline]
    fn emit(&mut self, op: Op, target: u32, aux: u32, pc: u64, value: Option<i64>, written: Option<i64>) {
        let location = self.location(pc);
        let thread = self.thread(self.current);
        self.calls.event(self.current, self.events.len() as u32);
        self.events.push(Event { thread, op, target, aux, location, value, written });
    }

    #[inline]
    fn location(&mut self, pc: u64) -> LocId {
        if pc == 0 {
            return LocId::NONE;
        }
        let cached = self.location_cache[slot(pc)];
        if cached.0 == pc {
            return cached.1;
        }
        let id = match self.locations.get(&pc) {
            Some(&id) => id,
            None => {
                let frames = self.symbols.code(pc);
                let before = self.tables.names(Space::Location).len();
                let id = self.tables.location(&frames[0].place);
                self.locations.insert(pc, id);
                if self.tables.names(Space::Location).len() > before {
                    self.new_sites.push((id, frames));
                }
                id
            }
        };
        self.location_cache[slot(pc)] = (pc, id);
        id
    }

    #[inline]
    fn variable(&mut self, address: u64, size: u64) -> VarId {
        let at = slot(address ^ size << 56);
        let cached = self.variable_cache[at];
        if cached.0 == address && cached.1 == size {
            return cached.2;
        }
        let id = match self.variables.get(&(address, size)) {
            Some(&id) => id,
            None => {
                let id = self.tables.variable_range(address, size);
                self.variables.insert((address, size), id);
                self.name_data(address);
                id
            }
        };
        self.variable_cache[at] = (address, size, id);
        id
    }

    /// Remembers the symbol of a variable that the trace touches for the first time.
    fn name_data(&mut self, address: u64) {
        if let Some(variable) = self.symbols.data(address)
            && self.data.insert(variable.address, ()).is_none()
        {
            self.new_data.push(variable);
        }
    }

    #[inline]
    fn access(&mut self, op: Op, address: u64, size: u64, pc: u64, value: Option<u64>) {
        match self.heap.place(address, size) {
            Place::At(place, whole) if whole == size => {
                let variable = self.variable(place, size);
                self.emit(op, variable.0, 0, pc, value.map(|v| v as i64), None);
            }
            // It reaches out of its block: the part inside, without a value.
            Place::At(place, part) => {
                let variable = self.variable(place, part);
                self.emit(op, variable.0, 0, pc, None, None);
            }
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

    fn atomic(&mut self, code: u8, detail: u8, pc: u64, address: u64, value: u64, written: u64) {
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
        let variable = self.variable(place, size);
        // Those of sixteen bytes come without a value.
        let known = size <= 8;
        let written = (op == Op::Rmw && known).then_some(written as i64);
        self.emit(op, variable.0, order as u32, pc, known.then_some(value as i64), written);
    }

    /// A range with its contents becomes accesses of at most eight bytes; a longer one is one access without a value.
    fn range(&mut self, code: u8, pc: u64, address: u64, length: u64, contents: &[u64]) {
        let op = if code == op::RANGE_READ { Op::Read } else { Op::Write };
        if length as usize > INLINE {
            let mut done = 0;
            while done < length {
                match self.heap.place(address + done, length - done) {
                    Place::At(place, part) => {
                        let variable = self.variable(place, part);
                        self.emit(op, variable.0, 0, pc, None, None);
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
        let bytes: Vec<u8> = contents.iter().flat_map(|word| word.to_le_bytes()).take(length as usize).collect();
        let mut done = 0;
        while done < bytes.len() {
            let at = address + done as u64;
            let size = (8 - (at % 8) as usize).min(bytes.len() - done);
            let mut value = [0; 8];
            value[..size].copy_from_slice(&bytes[done..done + size]);
            self.access(op, at, size as u64, pc, Some(u64::from_le_bytes(value)));
            done += size;
        }
    }

    fn alloc(&mut self, address: u64, size: u64, mapped: bool, pc: u64) {
        for block in self.heap.in_the_way(address, size) {
            self.free(block, 0);
        }
        let (place, size) = self.heap.alloc(address, size, mapped);
        let variable = self.variable(place, size);
        self.emit(Op::Alloc, variable.0, 0, pc, None, None);
    }

    fn free(&mut self, address: u64, pc: u64) {
        if let Some((place, size)) = self.heap.free(address) {
            self.objects.forget(address, size);
            let variable = self.variable(place, size);
            self.emit(Op::Free, variable.0, 0, pc, None, None);
        }
    }

    /// The name of an object at an address: its symbol if it is a variable of the program.
    fn object_name(&mut self, what: &str, address: u64) -> String {
        let name = match self.symbols.data(address) {
            Some(variable) if variable.address == address => variable.name,
            Some(variable) => format!("{}+{}", variable.name, address - variable.address),
            None => format!("{what} {address:#x}"),
        };
        self.objects.unique(name)
    }

    fn lock_of(&mut self, address: u64, lock_kind: u64) -> &mut Lock {
        if !self.objects.locks.contains_key(&address) {
            let what = match lock_kind & !wire::lock::TRIED {
                wire::lock::RWLOCK => "rwlock",
                wire::lock::SPIN => "spin lock",
                wire::lock::ANNOTATED => "lock",
                _ => "mutex",
            };
            let name = self.object_name(what, address);
            let id = LockId(self.tables.intern(Space::Lock, &name));
            self.objects.locks.insert(address, Lock { id, owner: None, readers: Vec::new() });
        }
        self.objects.locks.get_mut(&address).expect("just made")
    }

    fn lock(&mut self, address: u64, lock_kind: u64, writes: bool, pc: u64) {
        let thread = self.current;
        let tried = (lock_kind & wire::lock::TRIED != 0) as u32;
        if !self.lock_of(address, lock_kind).is_open_to(thread, writes) {
            // It was given back by a thread that the trace does not have as its holder: from here on it is another lock.
            self.objects.locks.remove(&address);
            self.hand_over(address, pc);
        }
        let lock = self.lock_of(address, lock_kind);
        let id = lock.id.0;
        if writes {
            let count = lock.owner.map_or(0, |(_, count)| count);
            lock.owner = Some((thread, count + 1));
            self.emit(Op::Acquire, id, tried, pc, None, None);
        } else {
            match lock.readers.iter_mut().find(|reader| reader.0 == thread) {
                Some(reader) => reader.1 += 1,
                None => lock.readers.push((thread, 1)),
            }
            self.emit(Op::ReadAcquire, id, tried, pc, None, None);
        }
    }

    fn unlock(&mut self, address: u64, lock_kind: u64, pc: u64) {
        let thread = self.current;
        let lock = self.lock_of(address, lock_kind);
        let id = lock.id.0;
        if let Some((owner, count)) = lock.owner.filter(|(owner, _)| *owner == thread) {
            lock.owner = (count > 1).then_some((owner, count - 1));
            return self.emit(Op::Release, id, 0, pc, None, None);
        }
        if let Some(at) = lock.readers.iter().position(|reader| reader.0 == thread) {
            lock.readers[at].1 -= 1;
            if lock.readers[at].1 == 0 {
                lock.readers.remove(at);
            }
            return self.emit(Op::ReadRelease, id, 0, pc, None, None);
        }
        self.oddities.foreign_unlocks += 1;
        self.hand_over(address, pc);
    }

    /// Orders what comes before with what comes after, where a lock does not.
    fn hand_over(&mut self, address: u64, pc: u64) {
        let variable = self.tables.variable_named(&format!("handed over at {address:#x}"));
        self.emit(Op::Rmw, variable.0, MemoryOrder::AcqRel as u32, pc, None, None);
    }

    fn condition(&mut self, address: u64) -> CondId {
        if let Some(&id) = self.objects.conditions.get(&address) {
            return id;
        }
        let name = self.object_name("condition", address);
        let id = CondId(self.tables.intern(Space::Condition, &name));
        self.objects.conditions.insert(address, id);
        id
    }

    fn wait_begin(&mut self, condition: u64, mutex: u64, pc: u64) {
        let thread = self.current;
        let id = self.condition(condition);
        let lock = self.lock_of(mutex, wire::lock::MUTEX);
        let Some((_, count)) = lock.owner.filter(|(owner, _)| *owner == thread) else {
            // The program waits without holding the mutex, or the trace lost track of it.
            self.threads[thread].waiting = None;
            return self.hand_over(mutex, pc);
        };
        lock.owner = None;
        let lock = lock.id;
        self.threads[thread].waiting = Some((condition, mutex, count));
        self.emit(Op::WaitBegin, id.0, lock.0, pc, None, None);
    }

    fn wake(&mut self, condition: u64, notify: u64, pc: u64) {
        if self.threads[self.current].waiting.is_none() {
            return;
        }
        let id = self.condition(condition);
        let by =
            notify.checked_sub(1).and_then(|number| self.notifies.get(number as usize)).map_or(0, |event| event + 1);
        self.emit(Op::Wake, id.0, by, pc, None, None);
    }

    fn wait_end(&mut self, condition: u64, mutex: u64, pc: u64) {
        let thread = self.current;
        let Some((_, _, count)) = self.threads[thread].waiting.take() else {
            self.hand_over(mutex, pc);
            return self.lock(mutex, wire::lock::MUTEX, true, pc);
        };
        let id = self.condition(condition);
        let lock = self.lock_of(mutex, wire::lock::MUTEX);
        if !lock.is_open_to(thread, true) {
            self.oddities.broken = Some("a mutex was taken in a way that was not seen".to_owned());
            return;
        }
        lock.owner = Some((thread, count));
        let lock = lock.id;
        self.emit(Op::WaitEnd, id.0, lock.0, pc, None, None);
    }

    fn semaphore(&mut self, address: u64, count: u64) -> SemId {
        if let Some(&(id, _)) = self.objects.semaphores.get(&address) {
            return id;
        }
        let name = self.object_name("semaphore", address);
        let id = SemId(self.tables.intern(Space::Semaphore, &name));
        let count = count.min(i32::MAX as u64);
        self.objects.semaphores.insert(address, (id, count));
        self.tables.declarations.semaphores.push((id, count as u32));
        id
    }

    fn sem_wait(&mut self, address: u64, count: u64, pc: u64) {
        let id = self.semaphore(address, count);
        let Some((_, known)) = self.objects.semaphores.get_mut(&address) else { return };
        let posted_elsewhere = *known == 0;
        *known = known.saturating_sub(1);
        if posted_elsewhere {
            self.emit(Op::SemPost, id.0, 0, pc, None, None);
        }
        self.emit(Op::SemWait, id.0, 0, pc, None, None);
    }

    fn barrier(&mut self, address: u64) -> BarrierId {
        if let Some(&id) = self.objects.barriers.get(&address) {
            return id;
        }
        let name = self.object_name("barrier", address);
        let id = BarrierId(self.tables.intern(Space::Barrier, &name));
        self.objects.barriers.insert(address, id);
        id
    }

    /// All fences keep their order: more than the language promises, so that no order is missing.
    fn fence(&mut self, order: u64, pc: u64) {
        let variable = match self.fence {
            Some(variable) => variable,
            None => *self.fence.insert(self.tables.variable_named("fences")),
        };
        const ACQUIRE: u64 = 2;
        if order > ACQUIRE {
            self.threads[self.current].fenced = true;
        }
        self.emit(Op::Rmw, variable.0, MemoryOrder::AcqRel as u32, pc, None, None);
    }

    fn blob(&mut self, blob_kind: u64, length: usize, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take(length).collect();
        match blob_kind {
            wire::BLOB_MAPS => {
                // Pieces end in the middle of lines; only a whole file ends in a line end.
                self.maps.extend_from_slice(&bytes);
                if length < wire::CHUNK / 4 {
                    let maps = std::mem::take(&mut self.maps);
                    self.symbols.map(&String::from_utf8_lossy(&maps));
                }
            }
            wire::BLOB_THREAD_NAME if length > 4 => {
                let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                let thread = self.thread(number as usize);
                self.new_names.push((thread.0, String::from_utf8_lossy(&bytes[4..]).into_owned()));
            }
            _ => {}
        }
    }
}

/// What an address that synchronises is called; descriptors have small numbers.
fn sync_name(address: u64) -> String {
    match address {
        0..=0xff_ffff => format!("descriptor {}", address - 1),
        0x100_0000 => "sockets".to_owned(),
        0x100_0001..=0xffff_ffff => format!("pipe {}", address - 0x100_0001),
        address => format!("synchronisation at {address:#x}"),
    }
}
