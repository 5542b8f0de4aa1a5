//! The critical sections of a trace: where they begin and end, and who enters which locks.
//!
//! Re-entrant acquires count, and only the outermost pair makes a section; a wait
//! ends one section and begins another; a lock held for reading and for writing at once has a
//! section of each kind. Sections of locks that one thread alone uses are left out, as the rules
//! speak of different threads. Sections are numbered by their acquires.

use snag_model::{EventId, LockId, Mode, Op, ThreadId, Trace};

/// Number of a section.
pub(crate) type SectionId = u32;

/// No section.
pub(crate) const NONE: SectionId = SectionId::MAX;

/// No event: the trace ends before.
pub(crate) const NEVER: u32 = u32::MAX;

pub(crate) struct Section {
    pub thread: ThreadId,
    pub lock: LockId,
    /// Index into [`Sections::users`].
    pub user: u32,
    pub acquire: u32,
    /// [`NEVER`] if the section is open at the end.
    pub release: u32,
    /// How many exclusive sections of the lock begin before it.
    pub place: u32,
    /// Held for reading.
    pub shared: bool,
}

/// A thread that uses a lock, with its sections, ascending.
pub(crate) struct User {
    pub thread: ThreadId,
    pub exclusive: Vec<SectionId>,
    pub shared: Vec<SectionId>,
}

#[derive(Default)]
pub(crate) struct Lock {
    pub exclusive: Vec<SectionId>,
    /// Indices into [`Sections::users`].
    pub users: Vec<u32>,
    /// Some section of it is shared.
    pub has_readers: bool,
}

#[derive(Default)]
pub(crate) struct Sections {
    pub all: Vec<Section>,
    pub locks: Vec<Lock>,
    pub users: Vec<User>,
}

/// A lock that a thread holds, while sections are collected.
struct Hold {
    lock: LockId,
    mode: Mode,
    times: u32,
    section: SectionId,
}

impl Sections {
    /// The sections of the given events, on the given locks.
    pub fn of(trace: &Trace, events: &[u32], shared_locks: &[bool]) -> Sections {
        let mut sections = Sections::default();
        sections.locks.resize_with(shared_locks.len(), Lock::default);
        let mut holds: Vec<Vec<Hold>> = Vec::new();
        holds.resize_with(trace.tables.thread_count(), Vec::new);
        let mut given_up: Vec<(ThreadId, LockId, u32)> = Vec::new();
        for &number in events {
            let op = trace.events.ops()[number as usize];
            if op.touches_memory() {
                continue;
            }
            let Some((lock, mode)) = trace.action(EventId(number)).lock() else { continue };
            if !shared_locks[lock.index()] {
                continue;
            }
            let thread = trace.events.threads()[number as usize];
            let held = &mut holds[thread.index()];
            let at = held.iter().position(|hold| hold.lock == lock && hold.mode == mode);
            match (op, at) {
                (Op::Acquire | Op::ReadAcquire, Some(at)) => held[at].times += 1,
                (Op::Acquire | Op::ReadAcquire, None) => {
                    let section = sections.begin(thread, lock, mode, number);
                    held.push(Hold { lock, mode, times: 1, section });
                }
                (Op::WaitEnd, _) => {
                    let again = given_up.iter().position(|g| g.0 == thread && g.1 == lock);
                    let times = again.map_or(1, |at| given_up.swap_remove(at).2);
                    let section = sections.begin(thread, lock, mode, number);
                    held.push(Hold { lock, mode, times, section });
                }
                (_, Some(at)) => {
                    if op == Op::WaitBegin {
                        given_up.push((thread, lock, held[at].times));
                        held[at].times = 1;
                    }
                    held[at].times -= 1;
                    if held[at].times == 0 {
                        sections.all[held.remove(at).section as usize].release = number;
                    }
                }
                (_, None) => {}
            }
        }
        sections
    }

    fn begin(&mut self, thread: ThreadId, lock: LockId, mode: Mode, acquire: u32) -> SectionId {
        let id = self.all.len() as SectionId;
        let shared = mode == Mode::Shared;
        let of_lock = &mut self.locks[lock.index()];
        // Threads that use a lock often come back soon; a lock with many threads is searched by halves.
        let user = match of_lock.users.binary_search_by_key(&thread, |&user| self.users[user as usize].thread) {
            Ok(at) => of_lock.users[at],
            Err(at) => {
                self.users.push(User { thread, exclusive: Vec::new(), shared: Vec::new() });
                of_lock.users.insert(at, self.users.len() as u32 - 1);
                self.users.len() as u32 - 1
            }
        };
        let place = of_lock.exclusive.len() as u32;
        if shared {
            of_lock.has_readers = true;
            self.users[user as usize].shared.push(id);
        } else {
            of_lock.exclusive.push(id);
            self.users[user as usize].exclusive.push(id);
        }
        self.all.push(Section { thread, lock, user, acquire, release: NEVER, place, shared });
        id
    }

    pub fn get(&self, id: SectionId) -> &Section {
        &self.all[id as usize]
    }

    /// The latest sections of other threads on the lock of `section` that it excludes and whose acquires are among the
    /// events of their threads before `bound`; later than `above` only. One if the lock has no readers; else
    /// the latest exclusive one, and the latest shared one of each thread.
    pub fn latest(
        &self,
        section: &Section,
        above: Option<SectionId>,
        bound: impl Fn(ThreadId) -> u32,
        found: &mut Vec<SectionId>,
    ) {
        found.clear();
        let lock = &self.locks[section.lock.index()];
        let within = |&id: &SectionId| self.get(id).acquire < bound(self.get(id).thread);
        let best = self.latest_exclusive(section, lock, above, &bound);
        found.extend(best);
        if lock.has_readers && !section.shared {
            for user in lock.users.iter().map(|&user| &self.users[user as usize]) {
                if user.thread != section.thread {
                    let before =
                        user.shared.partition_point(|id| within(id) && self.get(*id).acquire < section.acquire);
                    found.extend(before.checked_sub(1).map(|at| user.shared[at]));
                }
            }
        }
    }

    fn latest_exclusive(
        &self,
        section: &Section,
        lock: &Lock,
        above: Option<SectionId>,
        bound: &impl Fn(ThreadId) -> u32,
    ) -> Option<SectionId> {
        let below = &lock.exclusive[..section.place as usize];
        let new = |id: SectionId| above.is_none_or(|above| id > above);
        let within = |id: SectionId| self.get(id).acquire < bound(self.get(id).thread);
        // Mostly it is one of the last ones.
        const NEAR: usize = 8;
        for &id in below.iter().rev().take(NEAR) {
            if !new(id) {
                return None;
            }
            if self.get(id).thread != section.thread && within(id) {
                return Some(id);
            }
        }
        if below.len() <= NEAR || !new(below[below.len() - NEAR - 1]) {
            return None;
        }
        let of_user = |&user: &u32| {
            let user = &self.users[user as usize];
            let bound = if user.thread == section.thread { 0 } else { bound(user.thread).min(section.acquire) };
            let before = user.exclusive.partition_point(|&id| self.get(id).acquire < bound);
            before.checked_sub(1).map(|at| user.exclusive[at])
        };
        lock.users.iter().filter_map(of_user).max().filter(|&id| new(id))
    }
}
