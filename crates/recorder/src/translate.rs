//! From the runtime's records to events of the model.
//!
//! The trace is well formed by construction: locks, waits, semaphores, barriers and heap blocks are followed here by the
//! same rules that readers check. What a program must not do (unlock a mutex of another thread, use freed memory) is a
//! fault in the trace; where it does something else that the rules do not foresee, the event is expressed in another
//! way or left out and counted.
//!
//! Records come from memory that the program can write to. No number in them is relied on: what the runtime would never have written
//! ends the translation ([`Oddities::damaged`]), so that no record makes the tool take memory without end, and all that was
//! translated before is a trace.

mod around;
mod calls;
mod contention;
mod extent;
mod faults;
mod freely;
mod heap;
mod life;
mod memory;
mod methods;
mod objects;
mod quick;
mod shadow;
mod synchronisation;

use crate::code::NewCode;
use crate::hash::BuildWordHasher;
use crate::recorder::Wishes;
use crate::standing::Stopped;
use crate::symbols::{Resolved, Symbols};
use crate::wire::{self, op};
use calls::Calls;
pub use extent::Extent;
use faults::Wanted;
use heap::Heap;
pub use methods::Unseen;
use objects::Objects;
use quick::{FoundSpot, NEAR, Near, Runs, SPOTS};
use shadow::{Shadow, Visit};
use snag_formats::snag_format::{Batch, Late, Noted, RecordedEvent, Touched};
use snag_model::{CondId, LocId, LockId, MemoryOrder, Op, Primitive, Space, Tables, ThreadId, VarId, Variable};
use std::collections::{HashMap, HashSet};
use synchronisation::sync_name;

/// Counts of what the user should know about a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Uses of memory that was freed.
    pub freed: u64,
    /// Reads that found what no recorded write had left.
    pub foreign: u64,
    /// Those of them in memory that several threads have to do with.
    pub foreign_shared: u64,
    /// The first few of these.
    pub foreign_at: Vec<String>,
    /// Locks given back by threads that did not hold them.
    pub foreign_unlocks: u64,
    /// Where threads run freely: reads of what another thread wrote at the same time.
    pub unordered: u64,
    /// The first few of them.
    pub unordered_at: Vec<String>,
    /// Threads whose events after such a read, or after something that depends on one, are not in the trace.
    pub threads_cut: u64,
    /// How many events that are.
    pub left_out: u64,
    /// Why the translation stopped, if it did.
    pub broken: Option<String>,
    /// What shows that the program has damaged what it shares with the recorder, if something does: the trace ends there.
    pub damaged: Option<String>,
    /// Which limit of the recorder the program has met, if it has: the trace ends there.
    pub limit: Option<String>,
}

impl Oddities {
    /// Whether nothing more is translated.
    pub fn has_ended(&self) -> bool {
        self.broken.is_some() || self.damaged.is_some() || self.limit.is_some()
    }
}

/// Translates a stream of records.
pub struct Translator {
    /// Names and declarations of the trace so far; of variables only those that have a name.
    pub tables: Tables,
    /// Events that have not been taken.
    pub batch: Batch,
    /// Names of addresses.
    pub symbols: Symbols,
    /// What was odd.
    pub oddities: Oddities,
    calls: Calls,
    heap: Heap,
    methods: methods::Methods,
    objects: Objects,
    shadow: Shadow,
    threads: Vec<ThreadState>,
    current: usize,
    /// How many events there were when its turn began.
    turn: usize,
    /// By number.
    notifies: HashMap<u64, Notified, BuildWordHasher>,
    /// Whether the thread that runs cannot do just anything.
    closely: bool,
    /// Events that were taken.
    taken: usize,
    locations: HashMap<u64, LocId, BuildWordHasher>,
    location_cache: Vec<(u64, LocId)>,
    /// Memory and spots that were found last, for those in a hurry.
    near: Box<[Near; NEAR]>,
    spots: Box<[FoundSpot; SPOTS]>,
    runs: Runs,
    visits: Visits,
    /// Turns of threads since they were last taken: thread, timed out, steps.
    turns: Vec<(u32, bool, u64)>,
    /// Variables of the program near what the trace touches: those found, and those that are new.
    data: HashSet<u64>,
    new_data: Vec<crate::symbols::Variable>,
    new_names: Vec<(u32, String)>,
    new_sites: Vec<(LocId, Vec<Resolved>)>,
    /// Maps that came in pieces.
    maps: Vec<u8>,
    /// What the program says about its reports.
    pub wishes: Wishes,
    new_code: NewCode,
    /// Code that nobody sees, and why.
    new_unseen: Vec<String>,
    /// What replayed threads were stopped in front of, by thread; none for those that have gone on since.
    pub stopped: HashMap<u32, Stopped>,
    /// What memory the program has.
    pub extent: Extent,
    /// If threads run freely.
    freely: Option<Box<freely::Freely>>,
}

#[derive(Clone, Default)]
struct ThreadState {
    id: ThreadId,
    known: bool,
    /// The wait it is in, if the trace has it.
    waiting: Option<Wait>,
    /// It has done its first event.
    begun: bool,
    /// It has done its last event.
    ended: bool,
    /// Another thread has waited for its end.
    joined: bool,
    /// Number of its last visit to a block of the recording.
    visit: u32,
    /// How many events there were when its last turn ended.
    last: usize,
    /// The lock that it waits for, if that is the last thing that it has done.
    wants: Option<Wanted>,
}

/// A wait for a condition.
#[derive(Clone, Copy)]
struct Wait {
    condition: u64,
    id: CondId,
    mutex: u64,
    lock: LockId,
    /// How often the thread held the mutex.
    held: u32,
    /// The event with which it began.
    since: usize,
    woken: bool,
}

/// A notify that there was.
#[derive(Clone, Copy)]
struct Notified {
    event: usize,
    condition: CondId,
    all: bool,
    /// It has woken a thread.
    used: bool,
    /// See [`contention::Contention::notify`].
    order: (u32, u32),
}

/// Visits of threads to blocks of the recording.
struct Visits {
    /// The block that is being filled.
    block: u64,
    /// The first visit to it, if there was one, and the last one to any.
    first: u32,
    last: u32,
}

/// Entries of the cache of locations.
const CACHE: usize = 1 << 14;

/// A chunk that was handed over has no more words behind its last record: a piece of the maps may not have fitted.
const MOST_UNUSED: usize = wire::CHUNK / 8 / 4 + wire::SLACK + 8;

/// So many events are handed over at once: few enough to stay in the processor's cache.
const BATCH: usize = 1 << 10;

fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CACHE.trailing_zeros())) as usize
}

/// How many words of a chunk that is being filled are records.
fn filled(words: &[u64]) -> usize {
    let mut at = 0;
    while at < words.len() && words[at] != 0 {
        at = at.saturating_add(wire::words(&words[at..]));
    }
    at.min(words.len())
}

impl Translator {
    /// At the start of a recording.
    pub fn new(symbols: Symbols) -> Translator {
        Translator {
            tables: Tables::new(),
            batch: Batch::default(),
            symbols,
            oddities: Oddities::default(),
            calls: Calls::new(),
            heap: Heap::default(),
            methods: methods::Methods::default(),
            objects: Objects::default(),
            shadow: Shadow::new(),
            threads: Vec::new(),
            current: 0,
            turn: 0,
            notifies: HashMap::default(),
            // Until a thread gets its first turn.
            closely: true,
            taken: 0,
            locations: HashMap::default(),
            location_cache: vec![(0, LocId::NONE); CACHE],
            near: Box::new([Near::NOWHERE; NEAR]),
            spots: FoundSpot::none(),
            runs: Runs { id: ThreadId(0), own: shadow::Own::of(0), visit: Visit::numbered(1, 1) },
            visits: Visits { block: 0, first: 1, last: 1 },
            turns: Vec::new(),
            data: HashSet::new(),
            new_data: Vec::new(),
            new_names: Vec::new(),
            new_sites: Vec::new(),
            maps: Vec::new(),
            wishes: Wishes::default(),
            new_code: NewCode::default(),
            new_unseen: Vec::new(),
            stopped: HashMap::new(),
            extent: Extent::default(),
            freely: None,
        }
    }

    /// Translates the records of a chunk, up to the first zero word. With `cut`, the program is gone, and the value of the
    /// last one may not be there: of that, only what is there anyway counts. `take` is called whenever there are some events, and at the end; it takes them by
    /// [`Translator::taken`].
    pub fn chunk(&mut self, words: &[u64], cut: bool, take: &mut dyn FnMut(&mut Translator)) {
        if self.freely.is_some() {
            self.free_chunk(words, cut, take);
            return;
        }
        let at = self.records(words, cut, take);
        if cut && !self.oddities.has_ended() {
            self.last_record(&words[at..]);
        }
        let is_full = words.len() == wire::CHUNK / 8 && !cut;
        if is_full && at < words.len() - MOST_UNUSED && !self.oddities.has_ended() {
            self.damage(format!("records end after {at} words where there must be more"));
        }
        take(self);
    }

    /// Translates what there is of a chunk that is being filled, but for the last record; how many words that were. More may follow.
    pub fn part(&mut self, words: &[u64], take: &mut dyn FnMut(&mut Translator)) -> usize {
        match self.freely {
            Some(_) => self.free_chunk(&words[..filled(words)], false, take),
            // What comes next says that the last record is whole.
            None => self.records(words, true, take),
        }
    }

    /// The last record of a program that is gone. Its first word is written last, and a read comes with its value; but what
    /// a write left nobody knows. Whether the memory was freed is known: that may be what the program has died of.
    fn last_record(&mut self, words: &[u64]) {
        let &[first, address, _, ..] = words else { return };
        let (code, log, pc) = (first as u8, (first >> 8) as u8 & 7, first >> 16);
        match code {
            op::READ | op::WRITE if log < 4 && self.is_gone(code, address, 1 << log, pc) => {}
            op::READ if log < 4 => self.record(&words[..3]),
            _ => {}
        }
    }

    fn records(&mut self, words: &[u64], cut: bool, take: &mut dyn FnMut(&mut Translator)) -> usize {
        let mut at = 0;
        while at < words.len() && words[at] != 0 && !self.oddities.has_ended() {
            if !cut && !self.closely {
                at += self.quick(&words[at..], BATCH.saturating_sub(self.batch.len()));
                if self.batch.len() >= BATCH {
                    take(self);
                }
                if words.get(at).is_none_or(|&word| word == 0) {
                    break;
                }
            }
            let length = wire::words(&words[at..]);
            let next = at.saturating_add(length);
            if next > words.len() || cut && words.get(next).is_none_or(|&word| word == 0) {
                if !cut {
                    self.damage(format!("a record of {length} words is longer than what it is in"));
                }
                break;
            }
            self.record(&words[at..next]);
            if self.batch.len() >= BATCH {
                take(self);
            }
            at = next;
        }
        take(self);
        at
    }

    /// The first thread runs, whether it has got to say so or not.
    pub fn begin(&mut self) {
        self.record(&[wire::head(op::SWITCH, 0, 0), 0, 0]);
        self.record(&[wire::head(op::BEGIN, 0, 0), 0, 0]);
    }

    /// A record that the runtime has not written, or not so: nothing from here on is relied on.
    #[cold]
    fn damage(&mut self, what: String) {
        self.oddities.damaged.get_or_insert(what);
    }

    /// More than can be followed.
    #[cold]
    fn limit(&mut self, what: String) {
        self.oddities.limit.get_or_insert(what);
    }

    /// The events have been taken.
    pub fn taken(&mut self) {
        self.taken += self.batch.len();
        self.batch.clear();
    }

    /// What comes gets into the block of the recording with this number.
    pub fn begin_block(&mut self, number: u64) {
        self.batch.in_block(number);
        if self.visits.block != number {
            self.visits.block = number;
            self.visits.first = self.visits.last + 1;
            self.shadow.contention.begin_epoch(self.count() as u64);
            self.visit();
        }
    }

    /// Something has come to be ordered after what the thread that runs has done: from now on its accesses are others.
    fn visit_anew(&mut self) {
        if let Some(thread) = self.threads.get_mut(self.current) {
            thread.visit = 0;
        }
        self.visit();
    }

    /// Memory to which other threads came late, and what was touched in which blocks, since the last time.
    pub fn take_contention(&mut self) -> (Vec<Late>, Vec<Touched>) {
        let events = self.count() as u64;
        let contention = &mut self.shadow.contention;
        contention.resolve(events);
        (contention.take_late(), contention.take_touched())
    }

    /// Whether it is known which events other threads can interfere with.
    pub fn knows_contended(&self) -> bool {
        self.shadow.contention.is_active()
    }

    /// At the end, if it is known which events other threads can interfere with: the last ones of threads, which count in any case.
    pub fn end_contended(&mut self) -> Option<Vec<u64>> {
        self.note_last();
        self.shadow.contention.begin_epoch(self.count() as u64);
        let last = self.threads.iter().filter(|thread| !thread.ended).filter_map(|thread| thread.last.checked_sub(1));
        let mut last: Vec<u64> = last.map(|event| event as u64).collect();
        last.sort_unstable();
        self.knows_contended().then_some(last)
    }

    /// The turn of the thread that runs ends: its last event so far was in it, if there was any.
    fn note_last(&mut self) {
        let count = self.count();
        if let Some(thread) = self.threads.get_mut(self.current).filter(|_| count > self.turn) {
            thread.last = count;
        }
        self.turn = count;
    }

    /// The visit of the thread that runs to the block that is being filled.
    fn visit(&mut self) {
        let visits = &mut self.visits;
        if visits.last == Visit::MOST {
            visits.last = self.shadow.forget_told();
            visits.first = visits.last + 1;
            self.threads.iter_mut().for_each(|thread| thread.visit = 0);
        }
        let number = match self.threads.get_mut(self.current) {
            Some(thread) if thread.visit >= visits.first => thread.visit,
            // A thread that is not known yet has not been here.
            thread => {
                visits.last += 1;
                if let Some(thread) = thread {
                    thread.visit = visits.last;
                }
                visits.last
            }
        };
        self.runs.visit = Visit::numbered(number, visits.first);
        self.shadow.contention.visits(self.runs.visit);
    }

    /// The threads that hold the lock at an address.
    pub fn holders(&self, lock: u64) -> Vec<usize> {
        let lock = self.objects.locks.get(&lock);
        let readers = lock.iter().flat_map(|lock| lock.readers.iter());
        lock.and_then(|lock| lock.owner).iter().chain(readers).map(|&(thread, _)| thread).collect()
    }

    /// Whether the thread with the runtime's number has ended.
    pub fn has_ended(&self, number: usize) -> bool {
        self.threads.get(number).is_some_and(|thread| thread.ended)
    }

    /// Number of events so far.
    pub fn count(&self) -> usize {
        self.taken + self.batch.len()
    }

    fn record(&mut self, words: &[u64]) {
        let first = words[0];
        let (code, detail, pc) = (first as u8, (first >> 8) as u8, first >> 16);
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let (a, b) = (word(1), word(2));
        if let Err(what) = self.is_sound(code, detail, a, b) {
            return self.damage(what);
        }
        match code {
            op::READ | op::WRITE => {
                self.calls.step();
                let op = if code == op::READ { Op::Read } else { Op::Write };
                match detail & 7 {
                    4 => {
                        self.access(op, a, 8, pc, Some(b));
                        self.access(op, a + 8, 8, pc, Some(word(3)));
                    }
                    log => self.access(op, a, 1 << log, pc, Some(b)),
                }
            }
            op::ENTER => self.calls.enter(pc, &mut self.symbols),
            op::LEAVE => self.calls.leave(),
            op::FIBER => self.calls.swap(a, b),
            op::STEP => self.calls.step(),
            op::SWITCH => self.switch(a, b),
            op::ATOMIC_READ | op::ATOMIC_WRITE | op::RMW => self.atomic(code, detail, pc, a, b, word(3)),
            op::RANGE_READ | op::RANGE_WRITE => self.range(code, pc, a, b, words.get(3..).unwrap_or(&[])),
            op::ALLOC => self.alloc(a, b, detail != 0, pc),
            // How many bytes, unless it is a block of the heap.
            op::FREE if b > 1 => self.unmap(a, b, pc),
            op::FREE => self.free(a, pc),
            op::LOCK | op::READ_LOCK => self.lock(a, b, code == op::LOCK, pc),
            op::UNLOCK => self.unlock(a, b, pc),
            op::LOCK_NEW => {
                self.end_lock(a, b, detail == wire::DESTROYED, pc);
            }
            op::FORK => {
                let child = self.thread(a as usize);
                self.plain(Op::Fork, child.0, 0, pc);
                self.shadow.contention.fork(a as usize);
                self.visit_anew();
            }
            op::BEGIN => self.plain(Op::Begin, 0, 0, pc),
            op::END => {
                self.plain(Op::End, 0, 0, pc);
                self.this().ended = true;
                self.look_closely();
            }
            op::JOIN => {
                let child = self.thread(a as usize);
                self.threads[a as usize].joined = true;
                self.plain(Op::Join, child.0, 0, pc);
                self.shadow.contention.join(a as usize);
            }
            op::WAIT_BEGIN => self.wait_begin(a, b, pc),
            op::WAKE => self.wake(a, b, pc),
            op::WAIT_END => self.wait_end(a, b, pc),
            op::NOTIFY | op::NOTIFY_ALL => {
                let condition = self.condition(a);
                self.notify(condition, b, code == op::NOTIFY_ALL);
                let op = if code == op::NOTIFY { Op::Notify } else { Op::NotifyAll };
                self.plain(op, condition.0, 0, pc);
                self.visit_anew();
            }
            op::CONDITION_NEW => {
                self.discard_others(a, pc);
                self.objects.conditions.remove(&a);
                if detail != wire::DESTROYED && self.can_end() {
                    let condition = self.condition(a);
                    self.discard(Primitive::Condition(condition), pc);
                }
            }
            op::SEM_NEW => {
                self.discard_others(a, pc);
                self.objects.semaphores.remove(&a);
                if detail != wire::DESTROYED {
                    let semaphore = self.semaphore(a, b);
                    self.discard(Primitive::Semaphore(semaphore), pc);
                }
            }
            op::SEM_POST => {
                let id = self.semaphore(a, b);
                if let Some((_, count)) = self.objects.semaphores.get_mut(&a) {
                    *count = count.saturating_add(1);
                }
                self.plain(Op::SemPost, id.0, 0, pc);
            }
            op::SEM_WAIT => self.sem_wait(a, b, pc),
            op::TRY_FAILED => self.try_failed(a, b, detail != 0, pc),
            op::SEM_COUNT => self.sem_count(a, b, pc),
            op::JOIN_FAILED => self.join_failed(a, pc),
            op::WANT => self.want(a, b, detail != 0, pc),
            op::GONE => self.take_destroyed(a, pc),
            op::DESCRIPTOR => self.descriptor(a, b, pc),
            op::APPEARED => self.appeared(a, b),
            op::WHOLE => {}
            op::REACHED => self.reached(a, b, detail),
            op::METHOD_BEGIN => self.method_begin(a, b, detail, pc),
            op::METHOD_END => self.method_end(pc),
            op::BARRIER_NEW => {
                self.discard_others(a, pc);
                self.objects.barriers.remove(&a);
                if b > 0 {
                    let parties = b.min(u32::MAX as u64) as u32;
                    let barrier = self.barrier(a);
                    barrier.parties = Some(parties);
                    let id = barrier.id;
                    self.tables.declarations.barriers.push((id, parties));
                    self.discard(Primitive::Barrier(id), pc);
                }
            }
            op::BARRIER_ENTER | op::BARRIER_LEAVE => self.meet(a, code == op::BARRIER_ENTER, pc),
            op::SYNC_RELEASE => {
                let variable = self.tables.variable_named(&sync_name(a));
                self.named(Op::Rmw, variable, MemoryOrder::Release, pc);
            }
            op::SYNC_ACQUIRE => {
                let variable = self.tables.variable_named(&sync_name(a));
                self.named(Op::AtomicRead, variable, MemoryOrder::Acquire, pc);
            }
            op::FENCE => self.fence(a, pc),
            op::BLOB => self.blob(a, b as usize, words.get(3..).unwrap_or(&[])),
            op::STOPPED => {
                self.stopped.insert(self.current as u32, Stopped::from_record(words));
            }
            other => self.damage(format!("a record is of kind {other}, which there is not")),
        }
    }

    fn switch(&mut self, a: u64, steps: u64) {
        self.note_last();
        self.current = a as u32 as usize;
        self.waits_no_more(self.current);
        self.stopped.remove(&(a as u32));
        self.runs.id = self.thread(self.current);
        self.runs.own = shadow::Own::of(self.current);
        self.shadow.contention.runs(self.current);
        self.visit();
        self.look_closely();
        self.calls.switch(self.current, steps);
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
            if number == self.current {
                self.runs.id = id;
            }
        }
        self.threads[number].id
    }

    /// An event about so many bytes from an address on; without a size about the thing of that number.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    fn emit(&mut self, op: Op, address: u64, size: u64, aux: u32, pc: u64, value: Option<i64>, written: Option<i64>) {
        if (self.closely || op == Op::Begin) && !self.can_do(op) {
            return self.damage(format!("thread {} cannot do '{}' where it stands", self.current, op.word()));
        }
        self.calls.event(self.count());
        let Runs { id: thread, visit, .. } = self.runs;
        let seen = value.is_some_and(|value| self.shadow.tell(visit, address, size, value as u64));
        // Of eight bytes nothing is too much.
        let fits = |value: &i64| (*value as u64).unbounded_shr(8 * size as u32) == 0;
        if let (Op::Read | Op::Write, 1..=8, Some(value)) = (op, size, value.filter(fits)) {
            let spot = self.spot(op, size, pc).spot;
            let noted = Noted::new(!seen, self.shadow.is_contended(address, size));
            return self.batch.access(spot, thread, address, value as u64, noted);
        }
        let location = self.location(pc);
        let hint = (pc ^ pc >> 16) as u16;
        self.batch.event(RecordedEvent { address, size, value, written, location, thread, aux, hint, op, seen });
    }

    /// An event about something that is no variable.
    fn plain(&mut self, op: Op, target: u32, aux: u32, pc: u64) {
        self.emit(op, target as u64, 0, aux, pc, None, None);
    }

    /// An atomic access, without values, to a variable that has a name.
    fn named(&mut self, op: Op, variable: VarId, order: MemoryOrder, pc: u64) {
        let Variable::Named(name) = self.tables.variable(variable) else { return };
        self.emit(op, name as u64, 0, order as u32, pc, None, None);
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
                self.new_code.places.push((id, pc));
                if self.tables.names(Space::Location).len() > before {
                    self.new_sites.push((id, frames));
                }
                id
            }
        };
        self.location_cache[slot(pc)] = (pc, id);
        id
    }
}

#[cfg(test)]
mod tests;
