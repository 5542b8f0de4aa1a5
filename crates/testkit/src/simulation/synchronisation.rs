//! What threads do to each other: locks, conditions, forks and joins, semaphores, barriers.

use super::{Barrier, Life, Lock, Notify, Simulation, waits_on};
use snag_model::{Action, BarrierId, CondId, EventId, LockId, Mode, Probe, SemId, ThreadId};

impl Simulation<'_> {
    pub(super) fn lock(&mut self, thread: usize) {
        let held: Vec<usize> = (0..self.locks.len()).filter(|&l| self.locks[l].of(thread).0 > 0).collect();
        if self.rng.chance([0, 30, 80, 90][held.len().min(3)]) {
            return self.release(thread);
        }
        let wanted = |lock: &Lock| match lock.of(thread) {
            (0, 0) => true,
            (0, _) => self.shape.reentrant,
            _ => self.shape.reentrant && !lock.plain,
        };
        let possible = |&l: &usize| wanted(&self.locks[l]) && self.locks[l].free_for(thread, true);
        let locks: Vec<usize> = (0..self.locks.len()).filter(possible).collect();
        if let Some(lock) = self.rng.pick_any(&locks) {
            self.locks[lock].holds.entry(thread).or_default().0 += 1;
            self.emit(thread, acquire(lock, Mode::Exclusive));
        }
    }

    /// Gives up one of the locks that the thread holds, once.
    pub(super) fn release(&mut self, thread: usize) {
        let held: Vec<usize> = (0..self.locks.len()).filter(|&l| self.locks[l].of(thread) != (0, 0)).collect();
        let lock = self.rng.pick(&held);
        let (exclusive, shared) = self.locks[lock].holds.entry(thread).or_default();
        let mode = if *exclusive > 0 && (*shared == 0 || self.rng.chance(50)) {
            *exclusive -= 1;
            Mode::Exclusive
        } else {
            *shared -= 1;
            Mode::Shared
        };
        self.emit(thread, Action::Release { lock: LockId::new(lock), mode });
    }

    pub(super) fn read_lock(&mut self, thread: usize) {
        let held: Vec<usize> = (0..self.locks.len()).filter(|&l| self.locks[l].of(thread).1 > 0).collect();
        if self.rng.chance([0, 55, 75, 90][held.len().min(3)]) {
            return self.release(thread);
        }
        let lock = self.rng.below(self.locks.len());
        let again = self.locks[lock].of(thread) != (0, 0);
        if (!again || self.shape.reentrant) && self.locks[lock].free_for(thread, false) {
            self.locks[lock].holds.entry(thread).or_default().1 += 1;
            self.emit(thread, acquire(lock, Mode::Shared));
        }
    }

    pub(super) fn condition(&mut self, thread: usize) {
        let condition = CondId::new(self.rng.below(self.conditions));
        let held: Vec<usize> = (0..self.locks.len()).filter(|&l| self.locks[l].of(thread).0 > 0).collect();
        let waiting: Vec<CondId> = self.threads.iter().filter_map(|t| waits_on(t.life)).collect();
        if let Some(condition) = self.rng.pick_any(&waiting)
            && self.rng.chance(75)
        {
            return self.notify(thread, condition);
        }
        if let Some(lock) = self.rng.pick_any(&held) {
            self.wait_begin(thread, condition, lock);
        } else if self.rng.chance(20) {
            self.notify(thread, condition);
        } else {
            self.lock_and_wait(thread, condition);
        }
    }

    pub(super) fn wait_begin(&mut self, thread: usize, condition: CondId, lock: usize) {
        let hold = self.locks[lock].holds.entry(thread).or_default();
        let holds = std::mem::take(&mut hold.0);
        self.threads[thread].life = Life::Waiting { began: self.trace.len(), condition, lock, holds };
        self.emit(thread, Action::WaitBegin { condition, lock: LockId::new(lock) });
    }

    pub(super) fn lock_and_wait(&mut self, thread: usize, condition: CondId) {
        let lock = self.rng.below(self.locks.len());
        if self.locks[lock].of(thread) == (0, 0) && self.locks[lock].free_for(thread, true) {
            self.locks[lock].holds.entry(thread).or_default().0 += 1;
            self.emit(thread, acquire(lock, Mode::Exclusive));
            if self.trace.len() < self.shape.events && self.rng.chance(60) {
                self.wait_begin(thread, condition, lock);
            }
        }
    }

    pub(super) fn notify(&mut self, thread: usize, condition: CondId) {
        let all = self.rng.chance(40);
        self.notifies.push(Notify { event: self.trace.len(), condition, all, used: false });
        let action = if all { Action::NotifyAll { condition } } else { Action::Notify { condition } };
        self.emit(thread, action);
    }

    pub(super) fn wake(&mut self, thread: usize, began: usize, condition: CondId, lock: usize, holds: u32) {
        let usable = |n: &Notify| n.condition == condition && n.event > began && (n.all || !n.used);
        let named: Vec<usize> = (0..self.notifies.len()).filter(|&n| usable(&self.notifies[n])).collect();
        let by = match self.rng.pick_any(&named) {
            Some(notify) if self.rng.chance(85) => {
                self.notifies[notify].used = true;
                Some(EventId::new(self.notifies[notify].event))
            }
            _ if self.rng.chance(15) => None,
            _ => return,
        };
        self.threads[thread].life = Life::Woken { condition, lock, holds };
        self.emit(thread, Action::Wake { condition, by });
    }

    pub(super) fn wait_end(&mut self, thread: usize, condition: CondId, lock: usize, holds: u32) {
        if self.locks[lock].free_for(thread, true) {
            self.locks[lock].holds.entry(thread).or_default().0 = holds;
            self.threads[thread].life = Life::Running;
            self.emit(thread, Action::WaitEnd { condition, lock: LockId::new(lock) });
        }
    }

    pub(super) fn fork_or_join(&mut self, thread: usize) {
        let others: Vec<usize> = (0..self.threads.len()).filter(|&t| t != thread).collect();
        let unborn: Vec<usize> = others.iter().copied().filter(|&t| self.threads[t].life == Life::Unborn).collect();
        if let Some(child) = self.rng.pick_any(&unborn)
            && self.rng.chance(if self.shape.brief { 55 } else { 80 })
        {
            self.threads[child].life = Life::Fresh;
            return self.emit(thread, Action::Fork { thread: ThreadId::new(child), spelling: None });
        }
        let running = |&t: &usize| self.threads[t].life == Life::Running;
        let brief: Vec<usize> = others.iter().copied().filter(|t| self.shape.brief && running(t)).collect();
        let other = self.rng.pick(if brief.is_empty() { &others } else { &brief });
        let chance = match self.threads[other].life {
            Life::Waiting { .. } | Life::Woken { .. } | Life::Stuck => 0,
            Life::Unborn | Life::Fresh => 3,
            Life::Running if self.shape.brief => 90,
            Life::Running => 35,
            Life::Over => 50,
        };
        if self.rng.chance(chance) && self.may_die(other) {
            self.threads[other].life = Life::Over;
            self.emit(thread, Action::Join { thread: ThreadId::new(other), spelling: None });
        }
    }

    /// Long traces need threads that live long.
    pub(super) fn may_die(&mut self, thread: usize) -> bool {
        let dead = self.threads[thread].life == Life::Over;
        dead || self.shape.brief || self.rng.below(self.shape.events) < 16
    }

    pub(super) fn end(&mut self, thread: usize) {
        if self.rng.chance(50) && self.may_die(thread) {
            self.emit(thread, Action::End);
            self.threads[thread].life = Life::Over;
        }
    }

    pub(super) fn semaphore(&mut self, thread: usize) {
        let semaphore = self.rng.below(self.semaphores.len());
        if self.semaphores[semaphore] > 0 && self.rng.chance(65) {
            self.semaphores[semaphore] -= 1;
            self.emit(thread, Action::SemWait { semaphore: SemId::new(semaphore) });
        } else {
            self.semaphores[semaphore] += 1;
            self.emit(thread, Action::SemPost { semaphore: SemId::new(semaphore) });
        }
    }

    /// Finds out about a lock, a semaphore or a thread.
    pub(super) fn probe(&mut self, thread: usize) {
        let mut found = Vec::new();
        for (lock, mode) in (0..self.locks.len()).flat_map(|lock| [(lock, Mode::Exclusive), (lock, Mode::Shared)]) {
            if !self.locks[lock].free_for(thread, mode == Mode::Exclusive) {
                found.push(Probe::Held { lock: LockId::new(lock), mode });
            }
        }
        for (semaphore, &count) in self.semaphores.iter().enumerate() {
            found.push(Probe::Count { semaphore: SemId::new(semaphore), count });
        }
        let lives = |&other: &usize| other != thread && !matches!(self.threads[other].life, Life::Unborn | Life::Over);
        for other in (0..self.threads.len()).filter(lives) {
            if self.threads[other].life != Life::Fresh || self.is_forked(other) {
                found.push(Probe::Alive { thread: ThreadId::new(other) });
            }
        }
        if let Some(probe) = self.rng.pick_any(&found) {
            self.emit(thread, Action::Probe(probe));
        }
    }

    fn is_forked(&self, thread: usize) -> bool {
        let fork = Action::Fork { thread: ThreadId::new(thread), spelling: None };
        (0..self.trace.len()).any(|event| self.trace.events.action(event) == fork)
    }

    pub(super) fn barrier(&mut self, thread: usize) {
        let inside: Vec<(usize, usize)> = self.threads[thread].barriers.iter().map(|(&b, &g)| (b, g)).collect();
        if let Some((barrier, generation)) = self.rng.pick_any(&inside) {
            let Barrier { parties, filling, entered } = &mut self.barriers[barrier];
            if generation == *filling {
                match parties {
                    Some(parties) if *entered < *parties => return,
                    Some(_) => {}
                    // Undeclared: the first leave closes the generation; give others time to enter.
                    None if self.rng.chance(60) => return,
                    None => {
                        *filling += 1;
                        *entered = 0;
                    }
                }
            }
            self.threads[thread].barriers.remove(&barrier);
            return self.emit(thread, Action::BarrierLeave { barrier: BarrierId::new(barrier) });
        }
        let barrier = self.rng.below(self.barriers.len());
        let Barrier { parties, filling, entered } = &mut self.barriers[barrier];
        if *parties == Some(*entered) {
            *filling += 1;
            *entered = 0;
        }
        *entered += 1;
        self.threads[thread].barriers.insert(barrier, *filling);
        self.emit(thread, Action::BarrierEnter { barrier: BarrierId::new(barrier) });
    }
}

fn acquire(lock: usize, mode: Mode) -> Action {
    Action::Acquire { lock: LockId::new(lock), mode, gives_up: false }
}
