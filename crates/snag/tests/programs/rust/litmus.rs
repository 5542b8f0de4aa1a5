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

/// Compare-exchange until it succeeds, or fails because of a value.
fn exchange(expected: i32, success: Ordering, failure: Ordering) {
    while FLAG.compare_exchange(expected, 1, success, failure).is_err() {
        yield_now();
    }
}

fn fail(value: i32, success: Ordering, failure: Ordering) {
    while FLAG.compare_exchange(7, 1, success, failure) != Err(value) {
        yield_now();
    }
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

/// Dekker's orders: of the stores on the way in, the loads, and the stores on the way out; and a fence.
#[derive(Clone, Copy)]
struct Dekker(Ordering, Ordering, Ordering, Option<Ordering>);

fn dekker(name: &str) -> Dekker {
    match name {
        "sc" => Dekker(SeqCst, SeqCst, SeqCst, None),
        "rlx" => Dekker(Relaxed, Relaxed, Relaxed, None),
        "ra" => Dekker(Release, Acquire, Release, None),
        "fence" => Dekker(Relaxed, Acquire, Release, Some(SeqCst)),
        "fence_rlx" => Dekker(Relaxed, Relaxed, Relaxed, Some(SeqCst)),
        _ => panic!("no Dekker {name}"),
    }
}

fn dekker_first(Dekker(order, load, leave, fence): Dekker) {
    FLAG.store(1, order);
    maybe_fence(fence);
    if OTHER.load(load) == 0 {
        DATA.set(DATA.get() + 1);
    }
    RELAY.store(1, Relaxed);
    yield_now();
    FLAG.store(0, leave);
}

fn dekker_second(Dekker(order, load, leave, fence): Dekker) {
    wait_for(&RELAY, 1, Relaxed);
    loop {
        OTHER.store(1, order);
        maybe_fence(fence);
        if FLAG.load(load) == 0 {
            break;
        }
        OTHER.store(0, leave);
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

fn share_one(order: Ordering, last: Option<Ordering>) {
    let object = OBJECT.load(Relaxed);
    let count = unsafe { &(*object).count };
    count.fetch_add(1, Relaxed);
    unsafe { &(*object).parts[USERS.fetch_add(1, Relaxed)] }.set(1);
    count.fetch_sub(1, order);
    yield_now();
    if count.fetch_sub(1, order) == 1 {
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
        "once_first_right" | "once_first_wrong" | "once_first_unreleased" => {
            match name {
                "once_first_right" => once(Acquire, Release),
                "once_first_wrong" => once(Relaxed, Relaxed),
                _ => once(Acquire, Relaxed),
            }
            OTHER.store(1, Relaxed);
        }
        "once_then_right" | "once_then_wrong" | "once_then_unacquired" => {
            wait_for(&OTHER, 1, Relaxed);
            match name {
                "once_then_right" => once(Acquire, Release),
                "once_then_wrong" => once(Relaxed, Relaxed),
                _ => once(Relaxed, Release),
            }
        }
        "x_write_rel" | "x_write_rlx" => {
            DATA.set(1);
            exchange(0, if name == "x_write_rel" { Release } else { Relaxed }, Relaxed);
        }
        "x_done_acq" | "x_done_rlx" => {
            exchange(1, if name == "x_done_acq" { Acquire } else { Relaxed }, Relaxed);
            DATA.get();
        }
        "x_failed_acq" | "x_failed_rlx" | "x_failed_facq" => {
            match name {
                "x_failed_acq" => fail(1, Acquire, Acquire),
                "x_failed_rlx" => fail(1, AcqRel, Relaxed),
                _ => {
                    fail(1, Relaxed, Relaxed);
                    fence(Acquire);
                }
            }
            DATA.get();
        }
        "count_fence" => drop_one(Release, Some(Acquire)),
        "count_acqrel" => drop_one(AcqRel, None),
        "count_no_acquire" => drop_one(Release, None),
        "count_rlx" => drop_one(Relaxed, None),
        "share_fence" => share_one(Release, Some(Acquire)),
        "share_no_acquire" => share_one(Release, None),
        _ => match (name.strip_prefix("dekker_first_"), name.strip_prefix("dekker_second_")) {
            (Some(orders), _) => dekker_first(dekker(orders)),
            (_, Some(orders)) => dekker_second(dekker(orders)),
            _ => panic!("no {name}"),
        },
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
