//! The runtime's own lock, and the kernel's futex below it.
//!
//! Not the standard library's: its mutex waits by calling `syscall`, which is one of the functions that this library
//! replaces, and the C library's mutexes belong to the program.

use crate::base::c;
use crate::base::kernel::{self, number};
use crate::protocol::Word;
use crate::protocol::lock::Lock;
use core::cell::UnsafeCell;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{self, Relaxed};

/// Waits until the word changes from `value`, at most for the given number of nanoseconds. Returns 0 or a negative
/// error.
pub fn futex_wait(word: &AtomicU32, value: u32, nanoseconds: Option<u64>, shared: bool) -> i64 {
    let time = nanoseconds.map(c::Timespec::from_nanoseconds);
    let time = time.as_ref().map_or(0, |t| t as *const _ as usize);
    let private = if shared { 0 } else { 128 };
    // SAFETY: the kernel reads the word and the time, which live until the call returns, and writes nothing.
    unsafe { kernel::system(number::FUTEX, [word.as_ptr() as usize, private, value as usize, time, 0, 0]) }
}

pub fn futex_wake(word: &AtomicU32, count: u32, shared: bool) {
    let operation = if shared { 1 } else { 1 | 128 };
    // SAFETY: the kernel uses the address of the word alone; it neither reads nor writes memory.
    unsafe { kernel::system(number::FUTEX, [word.as_ptr() as usize, operation, count as usize, 0, 0, 0]) };
}

/// A word of this process.
impl Word for AtomicU32 {
    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.store(value, order);
    }

    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.swap(value, order)
    }

    fn change(&self, old: u32, new: u32, order: Ordering) -> bool {
        self.compare_exchange(old, new, order, Relaxed).is_ok()
    }

    fn sleep(&self, value: u32, nanoseconds: Option<u64>) -> bool {
        futex_wait(self, value, nanoseconds, false) == -(c::ETIMEDOUT as i64)
    }

    fn wake(&self) {
        futex_wake(self, 1, false);
    }
}

/// A word that is shared with another process.
pub struct Shared<'word>(pub &'word AtomicU32);

impl Word for Shared<'_> {
    fn load(&self, order: Ordering) -> u32 {
        self.0.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.0.store(value, order);
    }

    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.0.swap(value, order)
    }

    fn change(&self, old: u32, new: u32, order: Ordering) -> bool {
        self.0.compare_exchange(old, new, order, Relaxed).is_ok()
    }

    fn sleep(&self, value: u32, nanoseconds: Option<u64>) -> bool {
        futex_wait(self.0, value, nanoseconds, true) == -(c::ETIMEDOUT as i64)
    }

    fn wake(&self) {
        futex_wake(self.0, 1, true);
    }
}

/// How often a thread looks at a lock that is held before it sleeps.
const PATIENCE: u32 = 100;

/// A value behind a lock. It does not know who holds it: a thread that takes it twice deadlocks.
pub struct Mutex<T> {
    lock: Lock<AtomicU32>,
    value: UnsafeCell<T>,
}

// SAFETY: whoever reaches the value does so by a guard, and there is one at a time; so threads hand the value to each
// other, which `Send` allows.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { lock: Lock::new(AtomicU32::new(0)), value: UnsafeCell::new(value) }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        self.lock.lock(PATIENCE);
        Guard(self)
    }

    /// Whether some thread holds the lock at this moment.
    pub fn is_held(&self) -> bool {
        self.lock.is_held()
    }

    /// Releases a lock whose guard was [kept](Guard::keep).
    ///
    /// # Safety
    /// This thread, or the one of which this process is the forked child, has kept the guard and not given it back yet.
    pub unsafe fn give_back(&self) {
        self.lock.unlock();
    }
}

/// The lock is held as long as this is there.
pub struct Guard<'lock, T>(&'lock Mutex<T>);

impl<T> Guard<'_, T> {
    /// Holds the lock beyond the life of the guard, until [`Mutex::give_back`].
    pub fn keep(self) {
        let _ = ManuallyDrop::new(self);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held, so this guard is the only way to the value, and it is borrowed.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, so this guard is the only way to the value, and it is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.lock.unlock();
    }
}
