//! Notifies that a wake-up may still name: those that came while somebody was waiting.

use crate::lock_history::histories::Place;
use snag_model::{EventId, ThreadId};

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
    fn condition(&mut self, id: u32) -> &mut Condition {
        if self.conditions.len() <= id as usize {
            self.conditions.resize_with(id as usize + 1, Condition::default);
        }
        &mut self.conditions[id as usize]
    }

    /// Somebody begins to wait.
    pub fn begin(&mut self, condition: u32) {
        self.condition(condition).waiting += 1;
    }

    /// Somebody does not wait any more. A wake-up names a notify that came after its wait began, so when nobody waits
    /// nothing can be named.
    pub fn end(&mut self, condition: u32) {
        let condition = self.condition(condition);
        condition.waiting = condition.waiting.saturating_sub(1);
        if condition.waiting == 0 {
            condition.notifies.clear();
        }
    }

    /// Whether somebody waits.
    pub fn any(&self, condition: u32) -> bool {
        self.conditions.get(condition as usize).is_some_and(|condition| condition.waiting > 0)
    }

    /// Keeps a notify.
    pub fn notify(&mut self, condition: u32, event: EventId, thread: ThreadId, place: Place, published: Vec<u32>) {
        let notify = Notify { event, thread, place, published };
        self.condition(condition).notifies.push(notify);
    }

    /// A notify that was kept.
    pub fn find(&self, condition: u32, event: EventId) -> Option<&Notify> {
        let notifies = &self.conditions.get(condition as usize)?.notifies;
        notifies.binary_search_by_key(&event, |notify| notify.event).ok().map(|at| &notifies[at])
    }
}
