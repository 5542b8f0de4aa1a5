// Mutex, RwLock, Condvar, Barrier, Once, OnceLock, LazyLock under contention. No races.
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock};
use std::thread;
use std::time::Duration;

static TABLE: LazyLock<Vec<u64>> = LazyLock::new(|| (0..8).map(|i| i * i).collect());
static ONCE: Once = Once::new();
static mut FIRST: u64 = 0;
static COUNTED: Mutex<u64> = Mutex::new(0);

struct Queue {
    items: Mutex<VecDeque<Box<u64>>>,
    room: Condvar,
    some: Condvar,
}

impl Queue {
    fn put(&self, item: u64) {
        let mut items = self.room.wait_while(self.items.lock().unwrap(), |items| items.len() >= 2).unwrap();
        items.push_back(Box::new(item));
        drop(items);
        self.some.notify_one();
    }

    fn take(&self) -> u64 {
        let mut items = self.items.lock().unwrap();
        loop {
            if let Some(item) = items.pop_front() {
                drop(items);
                self.room.notify_all();
                return *item;
            }
            items = self.some.wait_timeout(items, Duration::from_secs(60)).unwrap().0;
        }
    }
}

fn main() {
    let queue = Arc::new(Queue { items: Mutex::new(VecDeque::new()), room: Condvar::new(), some: Condvar::new() });
    let shared = Arc::new(RwLock::new(vec![0u64; 4]));
    let barrier = Arc::new(Barrier::new(3));
    let cell = Arc::new(OnceLock::new());
    let mut slots = [const { Mutex::new(0u64) }; 3];
    let leaders = AtomicUsize::new(0);
    let mut plain = [0u64; 3];
    thread::scope(|scope| {
        for (i, (own, slot)) in plain.iter_mut().zip(&slots).enumerate() {
            let (queue, shared, barrier, cell, leaders) = (&queue, &shared, &barrier, &cell, &leaders);
            scope.spawn(move || {
                ONCE.call_once(|| unsafe { FIRST = 7 });
                *own += unsafe { FIRST } + TABLE[i] + cell.get_or_init(|| vec![3u64; 3])[i];
                for round in 0..4 {
                    if i == 0 { queue.put(round) } else if round < 2 { *own += queue.take() }
                    *COUNTED.lock().unwrap() += 1;
                    *slot.lock().unwrap() += shared.read().unwrap()[i];
                    shared.write().unwrap()[i] += 1;
                    if let Ok(mut table) = shared.try_write() { table[3] += 1 }
                    if let Ok(table) = shared.try_read() { *own += 0 * table[3] }
                }
                if barrier.wait().is_leader() { leaders.fetch_add(1, Ordering::Relaxed); }
                *own += shared.read().unwrap().iter().take(3).sum::<u64>();
                if barrier.wait().is_leader() { leaders.fetch_add(1, Ordering::Relaxed); }
            });
        }
    });
    let own: u64 = plain.iter().sum();
    let slots: u64 = slots.iter_mut().map(|slot| *slot.get_mut().unwrap()).sum();
    println!("{own} {slots} {} {}", COUNTED.lock().unwrap(), leaders.load(Ordering::Relaxed));
}
