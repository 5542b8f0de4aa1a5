//! Notifies that a wake-up may still name: those that came while somebody was waiting.

use crate::lock_history::histories::Place;
use snag_model::{CondId, EventId, ThreadId};

/// A notify.
pub struct Notify {
    /// The event.
    pub event: EventId,
    /// Who notified.
    pub thread: ThreadId,
    /// Where that thread was.
    pub place: Place,
    /// What a wake-up learns from it.
    pub published: Vec<u32>,
}

#[derive(Default)]
struct Condition {
    waiting: u32,
    notifies: Vec<Notify>,
}

/// The conditions.
#[derive(Default)]
pub struct Waits {
    conditions: Vec<Condition>,
}

impl Waits {
    fn condition(&mut self, id: CondId) -> &mut Condition {
        if self.conditions.len() <= id.index() {
            self.conditions.resize_with(id.index() + 1, Condition::default);
        }
        &mut self.conditions[id.index()]
    }

    /// Somebody begins to wait.
    pub fn begin(&mut self, condition: CondId) {
        self.condition(condition).waiting += 1;
    }

    /// Somebody does not wait any more. A wake-up names a notify that came after its wait began, so when nobody waits
    /// nothing can be named.
    pub fn end(&mut self, condition: CondId) {
        let condition = self.condition(condition);
        condition.waiting = condition.waiting.saturating_sub(1);
        if condition.waiting == 0 {
            condition.notifies.clear();
        }
    }

    /// Whether somebody waits.
    pub fn any(&self, condition: CondId) -> bool {
        self.conditions.get(condition.index()).is_some_and(|condition| condition.waiting > 0)
    }

    /// Keeps a notify.
    pub fn notify(&mut self, condition: CondId, event: EventId, thread: ThreadId, place: Place, published: Vec<u32>) {
        let notify = Notify { event, thread, place, published };
        self.condition(condition).notifies.push(notify);
    }

    /// A notify that was kept.
    pub fn find(&self, condition: CondId, event: EventId) -> Option<&Notify> {
        let notifies = &self.conditions.get(condition.index())?.notifies;
        notifies.binary_search_by_key(&event, |notify| notify.event).ok().map(|at| &notifies[at])
    }
}
