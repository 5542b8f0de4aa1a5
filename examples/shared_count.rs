//! A reference count as in `Arc`, but whoever drops the last reference frees the value without acquiring what the others
//! have done with it: the fence is left out.

use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::thread;

struct Counted {
    count: AtomicUsize,
    value: [u64; 4],
}

/// A reference.
struct Shared(*mut Counted);

// SAFETY: not quite; that is the point.
unsafe impl Send for Shared {}

impl Shared {
    fn update(&mut self, at: usize) {
        // SAFETY: it lives as long as there is a reference, and each thread has its own part.
        unsafe { (*self.0).value[at] += 1 }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it lives as long as there is a reference.
        if unsafe { &(*self.0).count }.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        if cfg!(fixed) {
            fence(Ordering::Acquire);
        }
        // SAFETY: this was the last reference.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

fn main() {
    let counted = Box::into_raw(Box::new(Counted { count: AtomicUsize::new(2), value: [0; 4] }));
    let threads = [0, 1].map(|at| {
        let mut shared = Shared(counted);
        thread::spawn(move || {
            shared.update(at);
            thread::yield_now();
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
}
