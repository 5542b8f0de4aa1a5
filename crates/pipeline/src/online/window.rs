//! The end of an endless trace, as a trace of its own.
//!
//! A window begins at a *base*. What had happened by then is replaced by a prologue that leads to the same state: it waits
//! where threads were waiting, takes the locks they held, allocates the blocks that were live, counts semaphores to where
//! they were. Writes are not repeated: a read that sees one from before the base sees the initial memory of the
//! window, and does so in a schedule of the window iff it sees that write in the same schedule of the whole trace. So a schedule that begins
//! with all of the prologue is feasible at level `writer` iff it is so after all that really happened before the base.
//!
//! A base is taken only where nobody is inside a barrier or a missing method, which could not be repeated.

use snag_engines::lock_history::Observer;
use snag_model::events::Event;
use snag_model::{EventId, Events, Op, SemId, Space, Tables, ThreadId, VarId};
use std::collections::BTreeSet;

/// A base that was taken.
struct Base {
    /// The first event of the window.
    at: u32,
    prologue: Vec<Event>,
}

/// The last events of a stream.
#[derive(Default)]
pub struct Window {
    /// The prologue, and the events since the base.
    pub events: Events,
    /// Events of the prologue.
    prologue: u32,
    /// The number in the stream of the first event after it.
    base: u32,
    /// Where the next window begins.
    next: Option<Base>,
    /// Events of the stream so far.
    seen: u32,
    /// Threads inside a barrier, and open missing methods.
    inside: usize,
    semaphores: Vec<i64>,
    blocks: BTreeSet<VarId>,
    /// A thread that has begun; prologues need somebody to do what nobody in particular did.
    somebody: Option<ThreadId>,
}

impl Window {
    /// Adds the next event of the stream.
    pub fn push(&mut self, event: &Event) {
        let mut event = *event;
        match event.op {
            Op::Wake => {
                // A notify from before the base has happened, so its wake-up may come any time.
                let notify = event.aux.checked_sub(1).filter(|&notify| notify >= self.base);
                event.aux = notify.map_or(0, |notify| notify - self.base + self.prologue + 1);
            }
            Op::BarrierEnter | Op::MethodBegin => self.inside += 1,
            Op::BarrierLeave | Op::MethodEnd => self.inside = self.inside.saturating_sub(1),
            Op::SemPost => *self.semaphore(event.target) += 1,
            Op::SemWait => *self.semaphore(event.target) -= 1,
            Op::Alloc => drop(self.blocks.insert(VarId(event.target))),
            Op::Free => drop(self.blocks.remove(&VarId(event.target))),
            _ => {}
        }
        self.somebody.get_or_insert(event.thread);
        self.events.push(event);
        self.seen += 1;
    }

    fn semaphore(&mut self, id: u32) -> &mut i64 {
        if self.semaphores.len() <= id as usize {
            self.semaphores.resize(id as usize + 1, 0);
        }
        &mut self.semaphores[id as usize]
    }

    /// The number in the window of an event of the stream; `None` if it is too old.
    pub fn inner(&self, event: EventId) -> Option<EventId> {
        event.0.checked_sub(self.base).map(|number| EventId(number + self.prologue))
    }

    /// The number in the stream of an event of the window.
    pub fn outer(&self, event: EventId) -> EventId {
        EventId(event.0 + self.base - self.prologue)
    }

    /// Whether it is time for a new base: after so many events, if one can be taken here.
    pub fn is_due(&self, half: u32) -> bool {
        let since = self.next.as_ref().map_or(self.base, |next| next.at);
        self.seen - since >= half && self.inside == 0
    }

    /// Where the window begins after the next [`Window::rotate`].
    pub fn next_base(&self) -> EventId {
        EventId(self.next.as_ref().map_or(self.base, |next| next.at))
    }

    /// Takes a base here. The window then begins at the one before, which is returned.
    pub fn rotate(&mut self, observer: &Observer, tables: &Tables) -> EventId {
        let prologue = self.prologue_here(observer, tables);
        let next = Base { at: self.seen, prologue };
        if let Some(base) = self.next.replace(next) {
            self.begin_at(base);
        }
        EventId(self.base)
    }

    fn begin_at(&mut self, base: Base) {
        let first = (base.at - self.base + self.prologue) as usize;
        let mut events = Events::new();
        base.prologue.iter().for_each(|&event| events.push(event));
        let (old, prologue) = (std::mem::take(&mut self.events), base.prologue.len());
        events.extend_from(&old, first..old.len());
        for index in prologue..events.len() {
            if events.ops()[index] == Op::Wake {
                // From the numbers of the old window to those of the new one.
                let notify = events.aux(index).checked_sub(1).filter(|&notify| notify as usize >= first);
                events.set_aux(index, notify.map_or(0, |notify| notify + 1 - first as u32 + prologue as u32));
            }
        }
        (self.events, self.prologue, self.base) = (events, prologue as u32, base.at);
    }

    /// What leads to the state of now.
    fn prologue_here(&self, observer: &Observer, tables: &Tables) -> Vec<Event> {
        let Some(somebody) = self.somebody else { return Vec::new() };
        let mut events = Vec::new();
        let threads = || observer.threads().iter().enumerate();
        // Those who wait hold their lock for a moment before anybody holds one.
        for (number, thread) in threads() {
            let number = ThreadId::new(number);
            for wait in thread.waits() {
                let of_lock = |op: Op| Event { aux: wait.lock.0, ..Event::new(number, op, wait.condition) };
                let acquire = Event::new(number, Op::Acquire, wait.lock.0);
                events.extend(std::iter::repeat_n(acquire, wait.count as usize));
                events.push(of_lock(Op::WaitBegin));
                if wait.woken {
                    events.push(Event::new(number, Op::Wake, wait.condition));
                }
            }
        }
        for (number, thread) in threads() {
            for &(lock, exclusive, shared) in thread.holds() {
                let event = |op: Op| Event::new(ThreadId::new(number), op, lock.0);
                events.extend(std::iter::repeat_n(event(Op::Acquire), exclusive as usize));
                events.extend(std::iter::repeat_n(event(Op::ReadAcquire), shared as usize));
            }
        }
        for id in 0..tables.names(Space::Semaphore).len() {
            let change = self.semaphores.get(id).copied().unwrap_or(0);
            debug_assert!(change + i64::from(tables.semaphore_initial(SemId::new(id))) >= 0);
            let op = if change > 0 { Op::SemPost } else { Op::SemWait };
            let event = Event::new(somebody, op, id as u32);
            events.extend(std::iter::repeat_n(event, change.unsigned_abs() as usize));
        }
        events.extend(self.blocks.iter().map(|block| Event::new(somebody, Op::Alloc, block.0)));
        events
    }
}
