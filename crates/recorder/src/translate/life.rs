//! What a thread can do in a trace at a moment, and what a record can say. The runtime keeps to it; whoever writes over its records does not.

use super::extent::is_possible;
use super::{Notified, ThreadState, Translator};
use crate::wire::{self, op};
use snag_model::{CondId, Op};

/// Most threads that the runtime knows.
pub const MOST_THREADS: u64 = 1 << 16;

/// Most places of a program: more are made up.
const MOST_PLACES: usize = 1 << 22;

/// Longest text of the maps that is put together from pieces.
const MOST_MAPS: usize = 1 << 26;

impl Translator {
    /// The thread that runs.
    pub(super) fn this(&mut self) -> &mut ThreadState {
        self.thread(self.current);
        &mut self.threads[self.current]
    }

    /// Finds out whether what the thread that runs does next has to be looked at closely, as it cannot do just anything.
    pub(super) fn look_closely(&mut self) {
        let thread = self.this();
        self.closely = !thread.begun || thread.waiting.is_some() || thread.ended || thread.joined;
    }

    /// Whether the thread that runs can do this now: see the rules of [`snag_model::validate`]. If so, it does.
    pub(super) fn can_do(&mut self, op: Op) -> bool {
        let thread = self.this();
        let can = match (op, &thread.waiting) {
            _ if thread.ended || thread.joined => false,
            (Op::Begin, _) => !thread.begun,
            (Op::Wake, Some(wait)) => !wait.woken,
            (Op::WaitEnd | Op::Want, Some(wait)) => wait.woken,
            (_, waiting) => waiting.is_none(),
        };
        if can && !thread.begun {
            thread.begun = true;
            self.look_closely();
        }
        can
    }

    /// Whether a record can be one of the runtime's, as far as its numbers go.
    pub(super) fn is_sound(&mut self, code: u8, detail: u8, a: u64, b: u64) -> Result<(), String> {
        let known = |number: u64| self.threads.get(number as usize).filter(|thread| thread.known);
        match code {
            op::READ | op::WRITE | op::ATOMIC_READ | op::ATOMIC_WRITE | op::RMW if detail & 7 > 4 => {
                Err(format!("an access is of {} bytes", 1 << (detail & 7)))
            }
            op::SWITCH => match known(a as u32 as u64) {
                _ if a >> 33 != 0 => Err(format!("a thread has the number {a}")),
                None if a as u32 != 0 => Err(format!("thread {} runs before it was started", a as u32)),
                Some(thread) if thread.ended || thread.joined => Err(format!("thread {} runs after its end", a as u32)),
                _ => Ok(()),
            },
            op::FORK if a >= MOST_THREADS || known(a).is_some() || a as usize == self.current => {
                Err(format!("thread {a} is started again, or is one of too many"))
            }
            op::JOIN if known(a).is_none_or(|thread| thread.waiting.is_some()) || a as usize == self.current => {
                Err(format!("a thread waits for thread {a}, which cannot have ended"))
            }
            op::ALLOC if !is_possible(a, b.saturating_add(64)) => Err(format!("a block of {b} bytes is at {a:#x}")),
            op::BLOB if b > wire::CHUNK as u64 / 4 || self.maps.len() > MOST_MAPS => {
                Err(format!("a text has {b} bytes"))
            }
            _ if self.locations.len() > MOST_PLACES => Err("there are too many places in the program".to_owned()),
            _ => Ok(()),
        }
    }

    /// Notes a notify, which is about to become an event.
    pub(super) fn notify(&mut self, condition: CondId, number: u64, all: bool) {
        let event = self.count();
        let order = self.shadow.contention.notify();
        self.notifies.insert(number, Notified { event, condition, all, used: false, order });
    }
}
