//! Who holds which lock.

use snag_model::{LockId, Mode, ThreadId};

/// The locks while a schedule runs. What a thread holds follows from its own
/// events, and the trace was well formed; so only acquires can go wrong, and only
/// because of other threads.
#[derive(Clone)]
pub(crate) struct Locks {
    /// Of each lock 1 + the thread that holds it for writing, or 0; and how often.
    held: Vec<(u32, u32)>,
    /// Threads that hold it for reading, and how often. Empty if no lock of the
    /// trace is ever held for reading.
    readers: Vec<Vec<(ThreadId, u32)>>,
}

impl Locks {
    /// Locks that nobody holds.
    pub fn new(count: usize, with_readers: bool) -> Locks {
        Locks { held: vec![(0, 0); count], readers: vec![Vec::new(); if with_readers { count } else { 0 }] }
    }

    /// The thread other than `thread` that holds the lock in a way that excludes
    /// acquiring it, for writing or for reading.
    #[inline]
    pub fn excluded_by(&self, thread: ThreadId, lock: LockId, mode: Mode) -> Option<ThreadId> {
        let owner = self.held[lock.index()].0;
        if owner != 0 && owner != thread.0 + 1 {
            return Some(ThreadId(owner - 1));
        }
        let readers = self.readers.get(lock.index()).filter(|_| mode == Mode::Exclusive)?;
        readers.iter().map(|reader| reader.0).find(|&reader| reader != thread)
    }

    /// Whether `holder` holds the lock in a way that excludes others from acquiring
    /// it, for writing or for reading.
    pub fn excludes(&self, holder: ThreadId, lock: LockId, mode: Mode) -> bool {
        let reads = |readers: &Vec<(ThreadId, u32)>| readers.iter().any(|reader| reader.0 == holder);
        let for_reading = || self.readers.get(lock.index()).is_some_and(reads);
        self.held[lock.index()].0 == holder.0 + 1 || mode == Mode::Exclusive && for_reading()
    }

    /// The thread acquires the lock so many times.
    #[inline]
    pub fn acquire(&mut self, thread: ThreadId, lock: LockId, times: u32) {
        let (owner, count) = &mut self.held[lock.index()];
        *owner = thread.0 + 1;
        *count += times;
    }

    /// The holder releases the lock once.
    #[inline]
    pub fn release(&mut self, lock: LockId) {
        let (owner, count) = &mut self.held[lock.index()];
        *count -= 1;
        if *count == 0 {
            *owner = 0;
        }
    }

    /// Whether the thread holds the lock for writing.
    pub fn is_held_by(&self, thread: ThreadId, lock: LockId) -> bool {
        self.held[lock.index()].0 == thread.0 + 1
    }

    /// The holder gives the lock up for a wait; says how often it held it. What it
    /// also holds for reading it keeps.
    pub fn give_up(&mut self, lock: LockId) -> u32 {
        std::mem::take(&mut self.held[lock.index()]).1
    }

    /// The thread acquires the lock for reading.
    pub fn read_acquire(&mut self, thread: ThreadId, lock: LockId) {
        let readers = &mut self.readers[lock.index()];
        match readers.iter_mut().find(|reader| reader.0 == thread) {
            Some(reader) => reader.1 += 1,
            None => readers.push((thread, 1)),
        }
    }

    /// The thread releases the lock for reading.
    pub fn read_release(&mut self, thread: ThreadId, lock: LockId) {
        let readers = &mut self.readers[lock.index()];
        if let Some(reader) = readers.iter_mut().find(|reader| reader.0 == thread) {
            reader.1 -= 1;
        }
        readers.retain(|reader| reader.1 > 0);
    }
}
