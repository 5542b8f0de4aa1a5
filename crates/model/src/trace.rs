use crate::action::{Action, Primitive};
use crate::events::{Event, Events};
use crate::ids::*;
use crate::op::{Op, Ops};
use crate::tables::{Space, Tables};
use std::collections::HashMap;

/// A whole trace in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The names and declarations.
    pub tables: Tables,
    /// The events, in the order in which they happened.
    pub events: Events,
}

impl Trace {
    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// One event.
    pub fn event(&self, id: EventId) -> Event {
        self.events.get(id.index())
    }

    /// What one event does.
    #[inline]
    pub fn action(&self, id: EventId) -> Action {
        self.events.action(id.index())
    }

    /// The events that are one of some operations, in order. The others are passed over by their column alone.
    pub fn events_of(&self, ops: &[Op]) -> impl Iterator<Item = (EventId, Event)> {
        let ops = Ops::of(ops);
        let found = self.events.ops().iter().enumerate().filter(move |(_, op)| ops.has(**op));
        found.map(|(index, _)| (EventId::new(index), self.events.get(index)))
    }

    /// The trace as if no method were missing: their begins and ends are marks. Every event keeps its number.
    pub fn without_missing(&self) -> Trace {
        let mut trace = Trace { tables: self.tables.clone(), events: Events::new() };
        for mut event in self.events.iter() {
            if matches!(event.op, Op::MethodBegin | Op::MethodEnd) {
                let text = format!("{} {}", event.op.word(), self.target_text(&event));
                event.target = trace.tables.intern(Space::Text, &text);
                (event.op, event.aux) = (Op::Mark, 0);
            }
            trace.events.push(event);
        }
        trace
    }

    /// The trace as if every wait had ended for no reason: no wake-up names a notify. Every event keeps its number. `None`
    /// if none does anyway.
    pub fn with_unnamed_wakes(&self) -> Option<Trace> {
        let named = |&index: &usize| {
            self.events.ops()[index] == Op::Wake
                && matches!(self.action(EventId::new(index)), Action::Wake { by: Some(_), .. })
        };
        let named: Vec<usize> = (0..self.len()).filter(named).collect();
        if named.is_empty() {
            return None;
        }
        let mut trace = self.clone();
        for index in named {
            if let Action::Wake { condition, .. } = self.action(EventId::new(index)) {
                trace.events.set_action(index, Action::Wake { condition, by: None });
            }
        }
        Some(trace)
    }

    /// The wake-ups of a schedule that come for no reason: without the notify that they name between them and the begin of
    /// their wait.
    pub fn spurious_wakes(&self, schedule: impl IntoIterator<Item = EventId>) -> Vec<EventId> {
        let mut notified: HashMap<EventId, usize> = HashMap::new();
        let mut began: HashMap<ThreadId, usize> = HashMap::new();
        let mut found = Vec::new();
        for (step, event) in schedule.into_iter().enumerate() {
            match self.events.ops()[event.index()] {
                Op::Notify | Op::NotifyAll => _ = notified.insert(event, step),
                Op::WaitBegin => _ = began.insert(self.thread_of(event), step),
                Op::Wake => {
                    let Action::Wake { by: Some(notify), .. } = self.action(event) else { continue };
                    if notified.get(&notify).copied() < began.get(&self.thread_of(event)).copied().max(Some(0)) {
                        found.push(event);
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Thread of an event.
    #[inline]
    pub fn thread_of(&self, id: EventId) -> ThreadId {
        self.events.threads()[id.index()]
    }

    /// Name of an event's location; empty if none was recorded.
    pub fn location_of(&self, id: EventId) -> &str {
        self.tables.location_name(self.events.location(id.index()))
    }

    /// The name of what an event acts on; empty where it acts on nothing.
    pub fn target_text(&self, event: &Event) -> String {
        let name = |space: Space| self.tables.names(space).get(event.target as usize).to_owned();
        match event.op {
            op if op.is_access() => self.tables.variable_text(VarId(event.target)),
            Op::Alloc
            | Op::Free
            | Op::OtherRead
            | Op::OtherWrite
            | Op::Reach
            | Op::StaleRead
            | Op::StaleWrite
            | Op::StaleFree => self.tables.variable_text(VarId(event.target)),
            Op::Acquire | Op::Release | Op::ReadAcquire | Op::ReadRelease => name(Space::Lock),
            Op::OtherAcquire | Op::OtherRelease | Op::TryFail | Op::ReadTryFail => name(Space::Lock),
            Op::Want | Op::ReadWant | Op::Unheld | Op::Gone => name(Space::Lock),
            Op::Fork | Op::Join | Op::JoinFail => name(Space::Thread),
            Op::WaitBegin | Op::Wake | Op::WaitEnd | Op::Notify | Op::NotifyAll => name(Space::Condition),
            Op::SemPost | Op::SemWait | Op::SemValue => name(Space::Semaphore),
            Op::BarrierEnter | Op::BarrierLeave => name(Space::Barrier),
            Op::MethodBegin | Op::MethodEnd => name(Space::Method),
            Op::Let | Op::OtherLet => name(Space::Symbol),
            Op::Discard => name(Primitive::of(event.aux, 0).space()),
            Op::Mark => name(Space::Text),
            _ => String::new(),
        }
    }

    /// Whether any event is a branch; without branches every read counts at level `control`.
    pub fn has_branches(&self) -> bool {
        self.events.ops().contains(&Op::Branch)
    }
}
