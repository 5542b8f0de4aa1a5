//! What goes wrong in a run.

use super::{Heap, Life, Simulation};
use snag_model::{Action, Fault, LockId, Mode, Primitive, Stale};

impl Simulation<'_> {
    /// Uses freed memory, gives back a lock of somebody else, or waits for one that it never gets.
    pub(super) fn fault(&mut self, thread: usize) {
        let mut found = Vec::new();
        for variable in self.variables.iter().chain(&self.blocks).copied() {
            let places = self.places(variable);
            let lives = places.iter().any(|place| matches!(self.heap.get(place), Some(Heap::Live(_))));
            if !lives && places.iter().any(|place| self.heap.contains_key(place)) {
                let uses = [Stale::Read, Stale::Write, Stale::Free];
                found.extend(uses.map(|how| Fault::Stale { variable, how }));
            }
        }
        // There is rarely any freed memory, and always a lock.
        if !found.is_empty() && self.rng.chance(80) {
            let fault = self.rng.pick(&found);
            return self.emit(thread, Action::Fault(fault));
        }
        if found.is_empty() && !self.blocks.is_empty() && self.rng.chance(60) {
            return self.allocate_or_free(thread);
        }
        for number in 0..self.locks.len() {
            let (lock, state) = (LockId::new(number), &self.locks[number]);
            if state.of(thread) == (0, 0) {
                found.push(Fault::Unheld { lock });
                found.push(Fault::Gone { lock });
            }
            for mode in [Mode::Exclusive, Mode::Shared] {
                let is_kept_out = !state.free_for(thread, mode == Mode::Exclusive);
                if self.rng.chance(30) && (is_kept_out || state.of(thread) != (0, 0)) {
                    found.push(Fault::Want { lock, mode });
                }
            }
        }
        let numbers = [self.locks.len(), self.conditions, self.semaphores.len(), self.barriers.len()];
        for (kind, count) in (0..).zip(numbers) {
            found.extend((0..count as u32).map(|id| Fault::Discard(Primitive::of(kind, id))));
        }
        let Some(fault) = self.rng.pick_any(&found) else { return };
        self.emit(thread, Action::Fault(fault));
        if matches!(fault, Fault::Want { .. }) {
            self.threads[thread].life = Life::Stuck;
        }
    }
}
