//! The end of an endless trace, as a trace of its own.
//!
//! A window begins at a *base*. What had happened by then is replaced by a prologue that leads to the same state: it waits
//! where threads were waiting, takes the locks they held, allocates the blocks that were live, counts semaphores to where
//! they were. Writes are not repeated: a read that sees one from before the base sees the initial memory of the
//! window, and does so in a schedule of the window iff it sees that write in the same schedule of the whole trace. So a schedule that begins
//! with all of the prologue is feasible at level `writer` iff it is so after all that really happened before the base.
//!
//! A base is taken only where nobody is inside a barrier or a missing method, which could not be repeated.

use snag_engines::holds::{Hold, Wait};
use snag_engines::lock_history::Observer;
use snag_model::events::Event;
use snag_model::{Action, EventId, Events, LockId, Mode, Op, SemId, Space, Tables, ThreadId, VarId};
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
        match event.action() {
            Action::Wake { condition, by } => {
                // A notify from before the base has happened, so its wake-up may come any time.
                let by = by.and_then(|notify| self.inner(notify));
                event = event.doing(Action::Wake { condition, by });
            }
            Action::BarrierEnter { .. } | Action::MethodBegin { .. } => self.inside += 1,
            Action::BarrierLeave { .. } | Action::MethodEnd { .. } => self.inside = self.inside.saturating_sub(1),
            Action::SemPost { semaphore } => *self.semaphore(semaphore) += 1,
            Action::SemWait { semaphore } => *self.semaphore(semaphore) -= 1,
            Action::Alloc { variable } => drop(self.blocks.insert(variable)),
            Action::Free { variable } => drop(self.blocks.remove(&variable)),
            _ => {}
        }
        self.somebody.get_or_insert(event.thread);
        self.events.push(event);
        self.seen += 1;
    }

    fn semaphore(&mut self, id: SemId) -> &mut i64 {
        if self.semaphores.len() <= id.index() {
            self.semaphores.resize(id.index() + 1, 0);
        }
        &mut self.semaphores[id.index()]
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
            if events.ops()[index] == Op::Wake
                && let Action::Wake { condition, by } = events.get(index).action()
            {
                // From the numbers of the old window to those of the new one.
                let kept = by.filter(|notify| notify.index() >= first);
                let by = kept.map(|notify| EventId::new(notify.index() - first + prologue));
                events.set_action(index, Action::Wake { condition, by });
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
            for &Wait { condition, lock, count, woken } in thread.holds().waits() {
                let acquire = Event::of(number, acquire(lock, Mode::Exclusive));
                events.extend(std::iter::repeat_n(acquire, count as usize));
                events.push(Event::of(number, Action::WaitBegin { condition, lock }));
                if woken {
                    events.push(Event::of(number, Action::Wake { condition, by: None }));
                }
            }
        }
        for (number, thread) in threads() {
            for &Hold { lock, exclusive, shared } in thread.holds().locks() {
                let event = |mode: Mode| Event::of(ThreadId::new(number), acquire(lock, mode));
                events.extend(std::iter::repeat_n(event(Mode::Exclusive), exclusive as usize));
                events.extend(std::iter::repeat_n(event(Mode::Shared), shared as usize));
            }
        }
        for semaphore in (0..tables.names(Space::Semaphore).len()).map(SemId::new) {
            let change = self.semaphores.get(semaphore.index()).copied().unwrap_or(0);
            debug_assert!(change + i64::from(tables.semaphore_initial(semaphore)) >= 0);
            let action = if change > 0 { Action::SemPost { semaphore } } else { Action::SemWait { semaphore } };
            events.extend(std::iter::repeat_n(Event::of(somebody, action), change.unsigned_abs() as usize));
        }
        events.extend(self.blocks.iter().map(|&variable| Event::of(somebody, Action::Alloc { variable })));
        events
    }
}

fn acquire(lock: LockId, mode: Mode) -> Action {
    Action::Acquire { lock, mode, gives_up: false }
}
