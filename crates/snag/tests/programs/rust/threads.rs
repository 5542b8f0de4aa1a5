// Spawn, join, scopes, park and unpark, channels of every kind, Arc and Weak, thread-locals, panics. No races.
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

thread_local!(static OWN: RefCell<Vec<u64>> = RefCell::new(Vec::new()));

struct Guard(Arc<Mutex<u64>>);

impl Drop for Guard {
    fn drop(&mut self) {
        *self.0.lock().unwrap() += 1;
    }
}

fn main() {
    // Joined threads with results.
    let threads: Vec<_> = (0..3u64)
        .map(|i| {
            thread::Builder::new().name(format!("worker {i}")).spawn(move || {
                OWN.with(|own| own.borrow_mut().extend([i, i + 1]));
                OWN.with(|own| own.borrow().iter().sum::<u64>())
            })
        })
        .collect();
    let sum: u64 = threads.into_iter().map(|thread| thread.unwrap().join().unwrap()).sum();

    // Channels without bounds, with a bound, and with none at all in between.
    let (sender, receiver) = channel();
    let (bounded, bounded_receiver) = sync_channel(1);
    let (meeting, meeting_receiver) = sync_channel(0);
    for i in 0..2u64 {
        let (sender, bounded, meeting) = (sender.clone(), bounded.clone(), meeting.clone());
        thread::spawn(move || {
            for j in 0..3 {
                sender.send(Box::new(i + j)).unwrap();
                bounded.send(vec![i, j]).unwrap();
                meeting.send(Box::new(j)).unwrap();
            }
        });
    }
    drop((sender, bounded, meeting));
    let mut received = 0;
    for item in meeting_receiver.iter() {
        received += *item;
        received += *receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        received += bounded_receiver.recv().unwrap().iter().sum::<u64>();
    }
    assert!(receiver.recv().is_err() && bounded_receiver.try_recv().is_err());

    // park and unpark, with a flag.
    let ready = Arc::new((AtomicBool::new(false), Mutex::new(0)));
    let other = ready.clone();
    let mut data = Box::new(0u64);
    let address = &mut *data as *mut u64 as usize;
    let parked = thread::spawn(move || {
        while !other.0.load(Ordering::Acquire) {
            thread::park();
        }
        unsafe { *(address as *const u64) }
    });
    unsafe { *(address as *mut u64) = 42 };
    ready.0.store(true, Ordering::Release);
    parked.thread().unpark();
    let parked = parked.join().unwrap();

    // The last owner reads what the others wrote before they let go.
    let count = Arc::new(Mutex::new(0));
    let guard = Arc::new(Guard(count.clone()));
    let weak: Weak<Guard> = Arc::downgrade(&guard);
    thread::scope(|scope| {
        for _ in 0..3 {
            let (guard, weak) = (guard.clone(), weak.clone());
            scope.spawn(move || {
                let again = weak.upgrade();
                drop(guard);
                drop(again);
            });
        }
        drop(guard);
    });
    let dropped = *count.lock().unwrap();

    // Fences.
    let flag = AtomicBool::new(false);
    let mut value = 0u64;
    let at = &mut value as *mut u64 as usize;
    let fenced = thread::scope(|scope| {
        scope.spawn(|| {
            unsafe { *(at as *mut u64) = 5 };
            fence(Ordering::Release);
            flag.store(true, Ordering::Relaxed);
        });
        while !flag.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        fence(Ordering::Acquire);
        unsafe { *(at as *const u64) }
    });

    // A thread that panics is joined too, and poisons.
    std::panic::set_hook(Box::new(|_| ()));
    let poisoned = Arc::new(Mutex::new(1));
    let panicking = poisoned.clone();
    let panicked = thread::spawn(move || {
        let mut value = panicking.lock().unwrap();
        *value = 9;
        panic!("on purpose");
    })
    .join()
    .is_err();
    let poisoned = poisoned.lock().is_err_and(|error| *error.into_inner() == 9);
    println!("{sum} {received} {parked} {dropped} {fenced} {panicked} {poisoned} {}", weak.upgrade().is_none());
}
