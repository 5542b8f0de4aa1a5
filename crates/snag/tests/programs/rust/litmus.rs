//! The litmus tests of litmus.c with the atomics of Rust, which has no consume.

use std::cell::UnsafeCell;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, fence};
use std::thread::{spawn, yield_now};

struct Shared(UnsafeCell<i32>);

// Not at all; that is what is tested.
unsafe impl Sync for Shared {}

static DATA: Shared = Shared(UnsafeCell::new(0));
static FLAG: AtomicI32 = AtomicI32::new(0);
static OTHER: AtomicI32 = AtomicI32::new(0);
static RELAY: AtomicI32 = AtomicI32::new(0);

impl Shared {
    #[inline(never)]
    fn set(&self, value: i32) {
        unsafe { *self.0.get() = value }
    }

    #[inline(never)]
    fn get(&self) -> i32 {
        std::hint::black_box(unsafe { *self.0.get() })
    }
}

fn wait_for(variable: &AtomicI32, value: i32, order: Ordering) {
    while variable.load(order) != value {
        yield_now();
    }
}

fn maybe_fence(order: Option<Ordering>) {
    if let Some(order) = order {
        fence(order);
    }
}

fn set(before: Option<Ordering>, store: Ordering, after: Option<Ordering>) {
    DATA.set(1);
    maybe_fence(before);
    FLAG.store(1, store);
    maybe_fence(after);
}

fn get(before: Option<Ordering>, load: Ordering, after: Option<Ordering>) {
    maybe_fence(before);
    wait_for(&FLAG, 1, load);
    maybe_fence(after);
    DATA.get();
}

fn add(at: i32) {
    wait_for(&FLAG, at, Relaxed);
    FLAG.fetch_add(1, Relaxed);
}

static PART: AtomicI32 = AtomicI32::new(0);

fn lock_write(write: impl Fn()) {
    FLAG.store(1, Relaxed);
    fence(Release);
    write();
    FLAG.store(2, Release);
}

fn lock_read(read: impl Fn() -> i32) {
    loop {
        let before = FLAG.load(Acquire);
        read();
        fence(Acquire);
        if before == 2 && FLAG.load(Relaxed) == before {
            return;
        }
        yield_now();
    }
}

static LOCK: Mutex<()> = Mutex::new(());
static INSTANCE: AtomicPtr<Shared> = AtomicPtr::new(std::ptr::null_mut());
static MADE: Shared = Shared(UnsafeCell::new(0));

fn once(load: Ordering, store: Ordering) {
    let mut p = INSTANCE.load(load);
    if p.is_null() {
        let _guard = LOCK.lock().unwrap();
        p = INSTANCE.load(Relaxed);
        if p.is_null() {
            MADE.set(42);
            p = &raw const MADE as *mut Shared;
            INSTANCE.store(p, store);
        }
    }
    unsafe { &*p }.get();
}

fn dekker_first(order: Ordering) {
    FLAG.store(1, order);
    if OTHER.load(order) == 0 {
        DATA.set(DATA.get() + 1);
    }
    RELAY.store(1, Relaxed);
    yield_now();
    FLAG.store(0, order);
}

fn dekker_second(order: Ordering) {
    wait_for(&RELAY, 1, Relaxed);
    loop {
        OTHER.store(1, order);
        if FLAG.load(order) == 0 {
            break;
        }
        OTHER.store(0, order);
        yield_now();
    }
    DATA.set(DATA.get() + 1);
}

struct Object {
    count: AtomicI32,
    parts: [Shared; 2],
}

static OBJECT: AtomicPtr<Object> = AtomicPtr::new(std::ptr::null_mut());
static USERS: AtomicUsize = AtomicUsize::new(0);

fn drop_one(order: Ordering, last: Option<Ordering>) {
    let object = OBJECT.load(Relaxed);
    unsafe { &(*object).parts[USERS.fetch_add(1, Relaxed)] }.set(1);
    if unsafe { &*object }.count.fetch_sub(1, order) == 1 {
        maybe_fence(last);
        drop(unsafe { Box::from_raw(object) });
    }
}

/// Threads that have begun.
static STARTED: AtomicUsize = AtomicUsize::new(0);

fn run(name: &str) {
    match name {
        "w_rlx" => set(None, Relaxed, None),
        "w_rel" => set(None, Release, None),
        "w_sc" => set(None, SeqCst, None),
        "w_frel" => set(Some(Release), Relaxed, None),
        "w_far" => set(Some(AcqRel), Relaxed, None),
        "w_fsc" => set(Some(SeqCst), Relaxed, None),
        "w_flate" => set(None, Relaxed, Some(Release)),
        "w_fwrong" => set(Some(Acquire), Relaxed, None),
        "r_rlx" => get(None, Relaxed, None),
        "r_acq" => get(None, Acquire, None),
        "r_sc" => get(None, SeqCst, None),
        "r_facq" => get(None, Relaxed, Some(Acquire)),
        "r_far" => get(None, Relaxed, Some(AcqRel)),
        "r_fsc" => get(None, Relaxed, Some(SeqCst)),
        "r_fearly" => get(Some(Acquire), Relaxed, None),
        "r_fwrong" => get(None, Relaxed, Some(Release)),
        "s_rmw" => add(1),
        "s_rmw2" => add(2),
        "s_store" => {
            wait_for(&FLAG, 1, Relaxed);
            FLAG.store(2, Release);
        }
        "s_own" => {
            set(None, Release, None);
            FLAG.store(2, Relaxed);
        }
        "r_two" | "r_three" => {
            let last = if name == "r_two" { 2 } else { 3 };
            // Waiting acquires nothing: the last read alone does, whatever was seen on the way.
            wait_for(&FLAG, last, Relaxed);
            wait_for(&FLAG, last, Acquire);
            DATA.get();
        }
        "lock_write_atomic" => lock_write(|| PART.store(7, Relaxed)),
        "lock_read_atomic" => lock_read(|| PART.load(Relaxed)),
        "lock_write_plain" => lock_write(|| DATA.set(7)),
        "lock_read_plain" => lock_read(|| DATA.get()),
        "once_first_right" | "once_first_wrong" => {
            let right = name == "once_first_right";
            if right { once(Acquire, Release) } else { once(Relaxed, Relaxed) }
            OTHER.store(1, Relaxed);
        }
        "once_then_right" | "once_then_wrong" => {
            wait_for(&OTHER, 1, Relaxed);
            let right = name == "once_then_right";
            if right { once(Acquire, Release) } else { once(Relaxed, Relaxed) }
        }
        "dekker_first_sc" => dekker_first(SeqCst),
        "dekker_second_sc" => dekker_second(SeqCst),
        "dekker_first_rlx" => dekker_first(Relaxed),
        "dekker_second_rlx" => dekker_second(Relaxed),
        "count_fence" => drop_one(Release, Some(Acquire)),
        "count_acqrel" => drop_one(AcqRel, None),
        "count_no_acquire" => drop_one(Release, None),
        "count_rlx" => drop_one(Relaxed, None),
        _ => panic!("no {name}"),
    }
}

fn main() {
    let part = || Shared(UnsafeCell::new(0));
    let object = Object { count: AtomicI32::new(2), parts: [part(), part()] };
    OBJECT.store(Box::into_raw(Box::new(object)), Relaxed);
    let threads = std::env::args().len() - 1;
    let begin = move |name: String| {
        // Threads of the standard library take its locks when they begin and end.
        STARTED.fetch_add(1, Relaxed);
        while STARTED.load(Relaxed) != threads {
            yield_now();
        }
        run(&name);
    };
    let threads: Vec<_> = std::env::args().skip(1).map(|name| spawn(move || begin(name))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
