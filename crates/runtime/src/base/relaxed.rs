//! Words that several threads, or a thread and its signal handlers, may use.
//!
//! The token or a lock says whose turn it is, but neither is visible to the compiler, and the watchdog looks at some
//! words without either. So these words are relaxed atomics: a mistake in whose turn it is gives a wrong record, never
//! undefined behaviour. On this processor a relaxed load or store is an ordinary instruction.

use core::ops::{Add, Sub};
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// A type that fits into an atomic.
pub trait Word: Copy {
    type Atomic;
    const ZERO: Self::Atomic;
    fn load(from: &Self::Atomic) -> Self;
    fn store(to: &Self::Atomic, value: Self);
}

macro_rules! words {
    ($($type:ty, $atomic:ty, $zero:expr;)*) => {$(
        impl Word for $type {
            type Atomic = $atomic;
            #[allow(clippy::declare_interior_mutable_const)]
            const ZERO: $atomic = <$atomic>::new($zero);

            #[inline(always)]
            fn load(from: &$atomic) -> $type {
                from.load(Ordering::Relaxed)
            }

            #[inline(always)]
            fn store(to: &$atomic, value: $type) {
                to.store(value, Ordering::Relaxed);
            }
        }
    )*};
}

words! {
    bool, AtomicBool, false; u8, AtomicU8, 0; u32, AtomicU32, 0; u64, AtomicU64, 0; i64, AtomicI64, 0;
    usize, AtomicUsize, 0;
}

impl<T> Word for *mut T {
    type Atomic = AtomicPtr<T>;
    #[allow(clippy::declare_interior_mutable_const)]
    const ZERO: AtomicPtr<T> = AtomicPtr::new(core::ptr::null_mut());

    #[inline(always)]
    fn load(from: &AtomicPtr<T>) -> *mut T {
        from.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn store(to: &AtomicPtr<T>, value: *mut T) {
        to.store(value, Ordering::Relaxed);
    }
}

/// A word that is shared; zero, false or null at first.
#[repr(transparent)]
pub struct Relaxed<T: Word>(T::Atomic);

impl<T: Word> Relaxed<T> {
    pub const fn zero() -> Relaxed<T> {
        Relaxed(T::ZERO)
    }

    #[inline(always)]
    pub fn get(&self) -> T {
        T::load(&self.0)
    }

    #[inline(always)]
    pub fn set(&self, value: T) {
        T::store(&self.0, value);
    }

    /// Stores a value and returns the previous one. Not one atomic step: nobody else may change the word meanwhile.
    #[inline(always)]
    pub fn replace(&self, value: T) -> T {
        let before = self.get();
        self.set(value);
        before
    }
}

impl<T: Word + Add<Output = T>> Relaxed<T> {
    /// Adds to a count that nobody else changes meanwhile.
    #[inline(always)]
    pub fn add(&self, by: T) {
        self.set(self.get() + by);
    }
}

impl<T: Word + Sub<Output = T>> Relaxed<T> {
    /// Subtracts from a count that nobody else changes meanwhile.
    #[inline(always)]
    pub fn subtract(&self, by: T) {
        self.set(self.get() - by);
    }
}
